"""Runs on several cores: which blocks of a program are shared out, which are not and why, and what to say."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from upbeat.core.abilities import Ability, Model
from upbeat.core.atomic import is_file, replace_file
from upbeat.core.errors import FileProblem, InvalidInput
from upbeat.engine.choose import Choice, EngineName
from upbeat.engine.parallel.heuristic import Bounds, Plan, Task, bounds, planned
from upbeat.engine.parallel.operations import PYTHON, Operation, loose, operations, schedule, tasks
from upbeat.engine.schedule import Schedule
from upbeat.master.program import Program
from upbeat.trace.files.output import kept_from

# ----------------------------------------------------------------------------------------------------
# Profiles: how long the operations of a program take on this machine, kept next to the scenario file.

FORMAT = 2
MIN_DURATION = 1e-9
"""What an operation takes at least, in seconds: below that is the noise of the clock."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Seconds by operation, for each block of the program's steps that was run."""

    blocks: Mapping[str, Mapping[str, float]]
    steps: int
    engine: str
    instants: float = 0.0
    """Seconds per step for what happens at instants."""
    crossing: float | None = None
    """Seconds that a wait of one core for another costs; None where there are no threads to measure it."""
    source: str = "measured just now"
    """Where the times come from, for people."""
    problem: str = ""
    """Why there are no times, where a file should have had some."""

    def covers(self, block: str, found: Sequence[Operation]) -> bool:
        """Whether these are the operations that were measured: the scenario may have changed since."""
        return set(self.blocks.get(block, ())) == {operation.name for operation in found}

    def to_data(self) -> dict[str, Any]:
        """As it is written to a file: microseconds, which people can read."""
        blocks = {
            name: {operation: _us(seconds) for operation, seconds in times.items()}
            for name, times in self.blocks.items()
        }
        return {
            "format": FORMAT,
            "engine": self.engine,
            "steps": self.steps,
            "microseconds": blocks,
            "instants_us": _us(self.instants),
            "crossing_us": None if self.crossing is None else _us(self.crossing),
        }


def _us(seconds: float) -> float:
    return round(1e6 * seconds, 4)


def place(file: Path) -> Path:
    """Where the profile of a scenario file is kept."""
    return file.with_name(f"{file.stem}.profile.json")


def written(profile: Profile, file: Path, *, force: bool = False) -> Path:
    """Keep a profile next to the scenario file; returns where."""
    to = place(file)
    kept_from(to, _is_profile, "a profile", force=force)
    replace_file(to, (json.dumps(profile.to_data(), indent=1, ensure_ascii=False) + "\n").encode())
    return to


def _is_profile(path: Path) -> bool:
    data = json.loads(path.read_text(encoding="utf-8"))
    return isinstance(data, dict) and "microseconds" in data


def usable(file: Path) -> Profile | None:
    """As `recalled`; one that cannot be read is one without times, which says why: a run does without."""
    try:
        return recalled(file)
    except FileProblem as problem:
        return Profile({}, 0, "none", problem=str(problem))


def recalled(file: Path) -> Profile | None:
    """The profile next to a scenario file, if there is one. One that cannot be read is an error."""
    path = place(file)
    if not is_file(path):
        return None
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["format"] != FORMAT:
            raise ValueError(f"it has format {data['format']}, and this version of Upbeat writes {FORMAT}")
        blocks = {
            str(name): {str(op): max(MIN_DURATION, 1e-6 * float(us)) for op, us in times.items()}
            for name, times in data["microseconds"].items()
        }
        crossing = data["crossing_us"]
        return Profile(
            blocks,
            int(data["steps"]),
            str(data["engine"]),
            1e-6 * float(data["instants_us"]),
            None if crossing is None else 1e-6 * float(crossing),
            f"times from {path}",
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as reason:
        raise FileProblem(
            f"'{path}' is not a profile ({reason}). Measure again: upbeat profile {file}, or delete it."
        ) from None


# ----------------------------------------------------------------------------------------------------
# A step of a program on several cores: its operations, the plan for them, and the schedule that follows.

GUESSED = {"state": 1e-6, "loop": 2e-6, "out": 5e-8, "in": 2e-8, "other": 2e-8}
"""Seconds that an operation takes if it was not measured: all that matters is that states take long."""
GUESSED_WAIT = 2e-7
"""Seconds that a wait of one core for another takes where it has not been measured."""


@dataclass(frozen=True)
class Parallel:
    """How a block runs on several cores."""

    operations: tuple[Operation, ...]
    tasks: tuple[Task, ...]
    plan: Plan
    schedule: Schedule

    @property
    def total(self) -> float:
        """How long the block takes on one core."""
        return sum(task.duration for task in self.tasks)

    def seconds(self, crossing: float) -> float:
        """How long the block takes if what comes from another core costs so much: all that one needs of
        another, and that they begin and end together."""
        around = 2 * crossing if len(self.schedule.busy) > 1 else 0.0
        return self.plan.taking(self.tasks, crossing) + around

    @property
    def handed_on(self) -> int:
        """How often an operation needs one of another core."""
        return sum(self.plan.foreign(number, self.tasks) for number in range(len(self.tasks)))

    @cached_property
    def bounds(self) -> Bounds:
        """What no plan for as many cores can do better than."""
        return bounds(self.tasks, len(self.schedule.cores))

    @cached_property
    def critical(self) -> tuple[int, ...]:
        """The numbers of the operations on the critical path, in order."""
        longest = [0.0] * len(self.tasks)
        for number, task in enumerate(self.tasks):
            longest[number] = max((longest[b] for b in task.before), default=0.0) + task.duration
        path: list[int] = []
        last = max(range(len(longest)), key=lambda k: longest[k], default=None)
        while last is not None:
            path.append(last)
            last = max(self.tasks[last].before, key=lambda k: longest[k], default=None)
        return tuple(reversed(path))


def parallel(
    program: Program,
    block: str,
    models: Mapping[str, Model],
    cores: int,
    times: Mapping[str, float] | None = None,
    called: Callable[[str], str] = str,
    crossing: float = 0.0,
) -> Parallel:
    """The block on so many cores. `times` are the durations of operations by name, as far as they are known,
    and `crossing` is what a wait of one core for another costs; the trace is the same whatever they are."""
    return in_parallel(operations(program, block, models, called), models, cores, times, crossing)


def in_parallel(
    found: tuple[Operation, ...],
    models: Mapping[str, Model],
    cores: int,
    times: Mapping[str, float] | None = None,
    crossing: float = 0.0,
) -> Parallel:
    """These operations of a block on so many cores."""
    known = {op.name: GUESSED[op.kind] for op in found} | dict(times or {})
    made = tasks(found, models, known)
    plan = _numbered(planned(made, cores, crossing), made, cores)
    anybody = loose(found, models, known)
    return Parallel(found, made, plan, schedule(found, plan, cores, anybody, crossing or GUESSED_WAIT))


def _numbered(plan: Plan, made: Sequence[Task], cores: int) -> Plan:
    """The plan with what runs in Python on the first core, and cores that have nothing to do at the end.

    The first core is the thread that called the engine, and the only one that holds Python's lock.
    """
    python = {plan.core[k] for k, task in enumerate(made) if task.group == PYTHON}
    busy = set(plan.core)
    order = sorted(range(cores), key=lambda core: (core not in python, core not in busy, core))
    number = {core: k for k, core in enumerate(order)}
    return replace(plan, core=tuple(number[core] for core in plan.core))


# ----------------------------------------------------------------------------------------------------
# Which blocks of a program are shared out, which are not and why, and what to say.

_SHOWN = 5
INSTANTS = "what happens at instants is one chain, each part of which needs the one before it"
"""Why nothing but steps is shared out."""


@dataclass(frozen=True)
class Shared:
    """What becomes of a block for which several cores are asked for."""

    parallel: Parallel
    measured: bool
    """Whether its times were measured; otherwise they are guesses."""
    schedule: Schedule | None
    """Who does what; None: all of it is done by one core."""
    why: str = ""
    """Why it is left to one core."""


def sharing(
    program: Program,
    models: Mapping[str, Model],
    cores: int,
    profile: Profile | None = None,
    called: Callable[[str], str] = str,
) -> dict[str, Shared]:
    """What becomes of each step of a program. Times decide who does what, and nothing else.

    What was measured and would be slower on several cores is left to one.
    """
    found: dict[str, Shared] = {}
    for block in program.steps:
        parts, times, crossing = operations(program, block, models, called), None, None
        if profile is not None and profile.covers(block, parts):
            times, crossing = profile.blocks[block], profile.crossing
        made = in_parallel(parts, models, cores, times, crossing or 0.0)
        why = _alone(made, crossing)
        found[block] = Shared(made, times is not None, None if why else made.schedule.trimmed, why)
    return found


def _alone(made: Parallel, crossing: float | None) -> str:
    """Why a block is left to one core; nothing, if it is not."""
    if len(made.schedule.busy) < 2:
        return "there is nothing for a second core to do"
    if crossing is None or made.seconds(crossing) < made.total:
        return ""
    one, several = (f"{1e6 * seconds:.3g} µs" for seconds in (made.total, made.seconds(crossing)))
    return (
        f"it takes {one} on one core, and would take {several} on several, which have to wait for each other"
    )


def on_cores(choice: Choice, wanted: EngineName, cores: int, models: Mapping[str, Model]) -> Choice:
    """The choice of engine, and what becomes of the cores. Asking for the interpreter as well is an error."""
    if choice.name == "interpret":
        if wanted == "interpret":
            raise InvalidInput(
                f"cores = {cores} is for the native engine, and the interpreter was asked for. Leave out one "
                "of the two (--cores, --engine): the results are the same."
            )
        return replace(choice, why=f"{choice.why}; so one core does all the work, and not {cores}")
    python = _in_python(models)
    return replace(choice, why="; ".join((choice.why, f"up to {cores} cores share the steps", *python)))


def _in_python(models: Mapping[str, Model]) -> tuple[str, ...]:
    python = [name for name, model in models.items() if Ability.NATIVE not in model.abilities]
    if not python:
        return ()
    more = f" and {len(python) - _SHOWN} more" if len(python) > _SHOWN else ""
    shown = ", ".join(python[:_SHOWN]) + more
    return (f"what runs in Python ({shown}) stays on one of them, for Python does one thing at a time",)


def core_notes(cores: int, shared: Mapping[str, Shared], models: Mapping[str, Model]) -> tuple[str, ...]:
    """What becomes of the cores that are asked for where not all of them have work, for the trace's notes."""
    left = {block: each.why for block, each in shared.items() if each.schedule is None}
    return tuple(
        f"cores = {cores}: {text}"
        for text in (
            *(f"{_of(block, shared)}one core does all the work: {why}" for block, why in left.items()),
            *(_in_python(models) if shared else ()),
        )
    )


def core_notes_of(
    tried: Mapping[str, tuple[float, float, bool]], schedules: Mapping[str, Schedule]
) -> tuple[str, ...]:
    """Where the first steps have shown that one core is quicker: how long a step took."""
    found: list[str] = []
    for block, (several, one, shares) in tried.items():
        if not shares:
            times = (
                f"{1e6 * several:.3g} µs on {len(schedules[block].cores)} cores and {1e6 * one:.3g} µs on one"
            )
            found.append(f"{_of(block, schedules)}a step took {times}, so the run went on with one core")
    return tuple(found)


def _of(block: str, blocks: Mapping[str, object]) -> str:
    """Which block is meant, where there are several."""
    return f"in block '{block}' " if len(blocks) > 1 else ""


def cores_here() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def core_remarks(cores: int, shared: Mapping[str, Shared], profile: Profile | None) -> tuple[str, ...]:
    """What should be known before a run on so many cores, in sentences."""
    found, here = [], cores_here()
    if cores > here:
        found.append(
            f"{cores} cores are asked for, and this process may use {here}: threads will take turns, which "
            f"gains nothing beyond {here}"
        )
    if profile is not None and profile.problem:
        found.append(f"who does what is guessed: {profile.problem}")
    elif profile is not None and not any(each.measured for each in shared.values()):
        found.append(
            f"{profile.source} are of another program, and are not used: who does what is guessed. Measure "
            "again with upbeat profile"
        )
    return tuple(found)
