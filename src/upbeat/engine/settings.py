"""How to run a scenario: the settings that Python, files and the command line share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from numbers import Real
from pathlib import Path
from typing import Any, TypedDict, TypeGuard, TypeVar, get_args

from upbeat.core.abilities import Ability
from upbeat.core.errors import InvalidInput, Problem, Problems, suggest
from upbeat.core.names import bare, matching, split
from upbeat.core.ports import Causality
from upbeat.core.records import dataclass
from upbeat.core.time import Span
from upbeat.engine.checkpoint import Checkpoint, checkpoint_from
from upbeat.engine.choose import EngineName
from upbeat.engine.isolation import isolation_from
from upbeat.engine.realtime import RealTime, overruled, real_time_from, with_policy
from upbeat.master.checks import Events
from upbeat.master.couplings.coupling import Coupling
from upbeat.master.events.instants import Simultaneous
from upbeat.master.inputs.approximation import Approximation
from upbeat.master.paces.pace import EventDriven, Pace
from upbeat.master.settings import master_from
from upbeat.scenario.scenario import Scenario
from upbeat.scenario.signals import Signals
from upbeat.trace.files.output import check_place
from upbeat.trace.files.sinks import check_suffix
from upbeat.units.process import When

# ----------------------------------------------------------------------------------------------------
# Whether one setting is what it has to be, from Python, a file or the command line.

MAX_CORES = 1024
"""More threads than this are a slip of the keyboard."""
T = TypeVar("T")


def checked_every(every: Any) -> int:
    """How many communication points there are to a row."""
    if isinstance(every, bool) or not isinstance(every, int) or not 1 <= every < 2**62:
        raise InvalidInput(f"every must be a whole number of at least 1, not {every!r}")
    return every


def checked_cores(cores: Any) -> int:
    """How many threads share the steps."""
    if isinstance(cores, bool) or not isinstance(cores, int) or not 1 <= cores <= MAX_CORES:
        raise InvalidInput(f"cores must be a whole number from 1 to {MAX_CORES}, not {cores!r}")
    return cores


def are_texts(value: object) -> TypeGuard[Sequence[str]]:
    """Whether this is a list of texts."""
    return isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value)


def checked_patterns(given: object) -> tuple[str, ...] | None:
    """What to record."""
    if given is not None and not are_texts(given):
        raise InvalidInput(f'must be a list of names or patterns, such as ["left.*"], not {given!r}')
    return None if given is None else tuple(given)


def checked_file(out: object, writing: bool) -> Path | None:
    """Where results go; `writing`: is it a place to write to?"""
    if out is None:
        return None
    if not isinstance(out, (str, Path)):
        raise InvalidInput(f'must be the name of a file, such as "results.csv", not {out!r}')
    check_suffix(out)
    if writing:
        check_place(Path(out))
    return Path(out)


def checked_engine(name: Any) -> Any:
    """Which engine, by name."""
    names = get_args(EngineName)
    if not isinstance(name, str) or name not in names:
        raise InvalidInput(f"there is no engine {name!r}. {suggest(str(name), names, 'engines')}")
    return name


def checked_truth(value: Any) -> bool:
    """A switch."""
    if not isinstance(value, bool):
        raise InvalidInput(f"must be true or false, not {value!r}")
    return value


def checked_number(value: object) -> float:
    """A time."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidInput(f"a time must be a number, not {value!r}")
    return float(value)


def attempted(make: Callable[[], T], where: tuple[str, ...], problems: Problems) -> T | None:
    """What `make` makes, or a problem `where` it was said."""
    try:
        return make()
    except InvalidInput as error:
        problems.add(where, str(error))
        return None


# ----------------------------------------------------------------------------------------------------

Words = str | Mapping[str, Any]
"""What a scenario file would say: a name, or a table with a kind."""
Table = Mapping[str, Any]


class Settings(TypedDict, total=False):
    """The keyword arguments of `simulate`, `start`, `experiment` and `load`.

    * `pace`: the communication steps; a number is the size of a fixed one, as is `step`, which these
      functions take, too. Scenarios of discrete-event units alone need none: they go from event to event.
    * `until`, `start`: the stop time, and the start time (0).
    * `coupling`: how values travel; `Jacobi()` unless given.
    * `inputs`: what inputs do between communication points; `Hold()` unless given.
    * `ports`: the same for single inputs, by name ``unit.port``.
    * `simultaneous`: which unit goes first when several have events at one instant, as a list of units or
      a `Simultaneous`.
    * `events`: how events between units are met: ``"auto"``, ``"look_ahead"``, ``"revised"``,
      ``"interruptible"`` or ``"off"``; as pace and coupling do unless given.
    * `signals`: drives the scenario's own inputs.
    * `record`: patterns over ``unit.port`` names; every output unless given.
    * `every`: record every n-th communication point only (the first, the last and jumps always).
    * `jumps`: where a value changes at an instant, record it before and after: two rows of one time (True).
      False: rows are those of `every`, one for each time, with the values after what happened there.
    * `out`: stream the results to this file (``.csv``, ``.parquet``, ``.journal``) instead of keeping
      them in memory.
    * `force`: let `out` replace a file that is there already and is not a result of Upbeat.
    * `engine`: ``"auto"``, ``"native"``, ``"interpret"`` or ``"compiled"`` (needs a C compiler).
    * `jit`: compile expressions to machine code (needs ``upbeat[jit]`` and the native engine).
    * `cores`: how many threads share the steps (1; native engine only). The results are the same.
    * `flatten`: whether the units of nested scenarios take their place where that means the same (True).
    * `isolation`: ``"process"`` runs every unit in a process of its own, ``"none"`` none, ``"auto"`` those
      FMUs that need it; a unit's own word counts more. `deadline` (seconds for a call, 10) and `restart` (how
      often a unit may be restarted, 0) go with it; see `Isolated`.
    * `checkpoint`: keep the state of the run in this file, or as `Checkpoint` says, for `resume`.
    * `real_time`: keep up with the clock, at this many times its speed, or as `RealTime` says.

    The words of a scenario file will do, too: ``coupling="gauss_seidel"``, ``inputs="linear"``,
    ``coupling={"kind": "jacobi", "outputs": "lagged"}``. None stands for what is usual.
    """

    pace: Pace | float | Words | None
    until: float | None
    start: float | None
    coupling: Coupling | Words | None
    inputs: Approximation | Words | None
    ports: Mapping[str, Approximation | Words] | None
    simultaneous: Simultaneous | Sequence[str] | Mapping[str, Any] | None
    events: Events | None
    signals: Signals | None
    record: Sequence[str] | None
    every: int | None
    jumps: bool | None
    out: str | Path | None
    force: bool | None
    engine: EngineName | None
    jit: bool | None
    cores: int | None
    flatten: bool | None
    isolation: When | None
    deadline: float | None
    restart: int | None
    real_time: RealTime | float | bool | Mapping[str, Any] | None
    checkpoint: Checkpoint | str | Path | None


_PLACES = {
    "pace": ("master", "pace"),
    "step": ("master", "step"),
    "coupling": ("master", "coupling"),
    "inputs": ("master", "inputs"),
    "ports": ("master", "ports"),
    "simultaneous": ("master", "simultaneous"),
    "events": ("master", "events"),
    "until": ("run", "until"),
    "start": ("run", "start"),
    "engine": ("run", "engine"),
    "jit": ("run", "jit"),
    "cores": ("run", "cores"),
    "flatten": ("run", "flatten"),
    "isolation": ("run", "isolation"),
    "deadline": ("run", "deadline"),
    "restart": ("run", "restart"),
    "real_time": ("run", "real_time"),
    "late": ("run", "real_time"),
    "record": ("record", "signals"),
    "every": ("record", "every"),
    "jumps": ("record", "jumps"),
    "out": ("record", "out"),
}
"""Where a file says what an argument says."""
_NOT_IN_FILES = ("signals", "checkpoint", "force")

_KEYS = {
    "run": (
        *("start", "until", "engine", "jit", "cores", "flatten"),
        *("isolation", "deadline", "restart", "real_time"),
    ),
    "record": ("signals", "every", "jumps", "out"),
}


@dataclass(frozen=True)
class Tables:
    """The tables of a file that say how to run its scenario; `given` names arguments that overruled them."""

    master: Table
    run: Table
    record: Table
    given: frozenset[str] = frozenset()

    def overruled(self, settings: Mapping[str, Any]) -> Tables:
        """The same with other settings; None leaves them as they are."""
        tables = {"master": dict(self.master), "run": dict(self.run), "record": dict(self.record)}
        said = ((name, value) for name, value in settings.items() if value is not None)
        given = {name: value for name, value in said if name not in _NOT_IN_FILES}
        if {"pace", "step"} <= given.keys():
            raise InvalidInput("both 'step' and 'pace' are given: keep one, a step is short for a fixed pace")
        for name, value in given.items():
            if name not in _PLACES:
                hint = suggest(name, ["step", *Settings.__annotations__], "settings")
                raise InvalidInput(f"there is no setting '{name}'. {hint}")
            if name in ("pace", "step"):
                tables["master"] = {k: v for k, v in tables["master"].items() if k not in ("pace", "step")}
            table, key = _PLACES[name]
            tables[table][key] = _as_in_a_file(name, value, tables[table].get(key))
        return Tables(**tables, given=self.given | given.keys())

    def fields(
        self, problems: Problems, *, scenario: Scenario | None = None, writing: bool = False
    ) -> dict[str, Any] | None:
        """What an `Experiment` needs besides the scenario. `writing`: is `out` a place to write to?"""
        found = Problems()
        for table, keys in _KEYS.items():
            for key in getattr(self, table):
                if key not in keys:
                    found.add((table, key), f"unknown key '{key}'", suggest(key, keys, "keys"))
        fields: dict[str, Any] = {
            "master": master_from(self.master, found, usual=default_pace(scenario)),
            "span": self._span(found),
        }
        checks: dict[str, tuple[str, str, Callable[[Any], Any]]] = {
            "record": ("record", "signals", checked_patterns),
            "every": ("record", "every", checked_every),
            "jumps": ("record", "jumps", checked_truth),
            "out": ("record", "out", partial(checked_file, writing=writing)),
            "engine": ("run", "engine", checked_engine),
            "jit": ("run", "jit", checked_truth),
            "cores": ("run", "cores", checked_cores),
            "flatten": ("run", "flatten", checked_truth),
            "real_time": ("run", "real_time", real_time_from),
        }
        for field, (table, key, check) in checks.items():
            given = getattr(self, table)
            if key in given:
                fields[field] = attempted(partial(check, given[key]), (table, key), found)
        if not self.run.keys().isdisjoint(("isolation", "deadline", "restart")):
            fields["isolation"] = isolation_from(self.run, found)
        problems.found += map(self._named, found.found)
        return None if found.found else fields

    def check_recorded(self, scenario: Scenario, problems: Problems) -> None:
        """Complain about every pattern that no signal matches."""
        patterns, names = self.record.get("signals"), recordable(scenario)
        for pattern in patterns if are_texts(patterns) else ():  # anything else has been complained about
            if not matching(pattern, names):
                what = f"nothing to record matches '{pattern}'"
                hint = _local(pattern, scenario) or suggest(pattern, names, "signals")
                problems.found.append(self._named(Problem(("record", "signals"), what, hint)))

    def _span(self, problems: Problems) -> Span | None:
        if "until" not in self.run:
            hint = "Add until = 10.0 under [run], or use --until 10."
            problems.add(("run",), "the stop time is missing", hint)
            return None
        start = attempted(lambda: checked_number(self.run.get("start", 0.0)), ("run", "start"), problems)
        stop = attempted(lambda: checked_number(self.run["until"]), ("run", "until"), problems)
        if start is None or stop is None:
            return None
        return attempted(lambda: Span(start, stop), ("run", "until"), problems)

    def _named(self, problem: Problem) -> Problem:
        """The problem under the name of the argument that caused it, where that was not the file."""
        for name in sorted(self.given - {"late"}):
            if problem.where[:2] == _PLACES[name]:
                return replace(problem, where=(f"{name}=", *problem.where[2:]))
        return problem


def outside_files(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What an `Experiment` needs besides, and no file says."""
    force = settings.get("force")
    if force is not None and not isinstance(force, bool):
        raise InvalidInput(f"force must be True or False, not {force!r}")
    given = settings.get("checkpoint")
    return {"checkpoint": None if given is None else checkpoint_from(given), "force": bool(force)}


def checked_fields(
    tables: Tables, scenario: Scenario, problems: Problems, *, writing: bool
) -> dict[str, Any]:
    """What an `Experiment` of `scenario` needs besides it, checked as far as that goes without its plan.

    A scenario that has problems already is not looked at: it may be incomplete.
    """
    sound = not problems.found
    fields = tables.fields(problems, scenario=scenario if sound else None, writing=writing) or {}
    if sound and "signals" in tables.record:
        tables.check_recorded(scenario, problems)
    return fields


def _local(pattern: str, scenario: Scenario) -> str:
    """What to write to record local variables of an FMU; empty if these are none."""
    unit, rest = split(bare(pattern))
    if not matching(rest, getattr(scenario.units.get(unit), "hidden", ())):
        return ""
    what = f"--locals '{unit}.{rest}', or locals = [\"{rest}\"] in its table"
    return f"A local variable: {what}, makes an output of it."


def _as_in_a_file(name: str, value: Any, before: Any) -> Any:
    if name == "real_time":
        return overruled(before, value)
    if name == "late":
        return with_policy(before, value)
    if name in ("until", "start") and isinstance(value, Real) and not isinstance(value, bool):
        try:
            return float(value)  # NumPy's numbers, too
        except OverflowError:
            raise InvalidInput(f"{name} must be a finite time, in seconds, not {value!r:.60}") from None
    if name == "record":
        return [value] if isinstance(value, str) else list(value) if isinstance(value, Iterable) else value
    return value


def default_pace(scenario: Scenario | None) -> Pace | None:
    """From event to event, where there is nothing else. Units that move on their own need a step.

    Of a scenario with problems (None) it is not known what it would need: that is not one more problem.
    """
    if scenario is None:
        return EventDriven()
    discrete = [
        # Asked first: to know its abilities, a nested scenario builds all that is in it.
        model.announced if hasattr(model, "announced") else Ability.NEXT_EVENT in model.abilities
        for model in scenario.units.values()
    ]
    return EventDriven() if discrete and all(discrete) else None


def matched(patterns: Sequence[str], scenario: Scenario) -> tuple[str, ...]:
    """The patterns that something to record matches."""
    names = recordable(scenario)
    return tuple(pattern for pattern in patterns if matching(pattern, names))


def recordable(scenario: Scenario) -> list[str]:
    """The names of all that can be recorded: inputs and outputs, those of the scenario included."""
    if scenario.structures:
        parts = [recordable(scenario.structure(one.name)) for one in scenario.structures]
        return list(dict.fromkeys(name for part in parts for name in part))
    closed = scenario.closed()
    ports = [(unit, port) for unit, model in closed.units.items() for port in model.ports]
    signals = [(unit, p) for unit, p in ports if p.causality is not Causality.PARAMETER]
    names = [closed.column(unit, p.name) for unit, p in signals]
    own = [*(o.port.name for o in closed.outputs), *(o.port.name for o in closed.event_outputs)]
    return list(dict.fromkeys([*names, *own]))
