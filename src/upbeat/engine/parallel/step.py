"""A step of a program on several cores: its operations, the plan for them, and the schedule that follows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from upbeat.core.abilities import Model
from upbeat.engine.parallel.heuristic import Bounds, Plan, Task, bounds, planned
from upbeat.engine.parallel.lists import schedule
from upbeat.engine.parallel.operations import PYTHON, Operation, loose, operations, tasks
from upbeat.engine.schedule import Schedule
from upbeat.master.program import Program

GUESSED = {"state": 1e-6, "loop": 2e-6, "out": 5e-8, "in": 2e-8, "other": 2e-8}
"""Seconds that an operation takes where nobody has measured it: all that matters is that states take long."""
GUESSED_WAIT = 2e-7
"""Seconds that a wait of one core for another takes where nobody has measured it."""


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
