"""Every error Upbeat raises on purpose, as one tree.

    UpbeatError
    ├── InvalidInput            what the user wrote cannot be right; nothing has run yet
    │   ├── ExpressionError     an expression does not parse, or names something unknown
    │   ├── ModelError          a model contradicts itself
    │   ├── ScenarioError       a scenario has problems: carries all of them
    │   ├── MasterError         the scenario and the master do not fit each other
    │   └── FileProblem         a file is missing, unreadable, truncated, or may not be written
    ├── RunError                a run stopped before its end; carries the trace so far
    │   ├── UnitError           one unit failed: which, in which call, at which time
    │   ├── StepError           the pace or the loop could not go on
    │   └── RecordingError      the results could not be written any further (a full disk, …)
    └── MissingExtra            an optional dependency is not installed: says what to type

    KeyboardInterrupt
    └── Interrupted             Ctrl-C ended a run between two steps; carries the trace so far

A message says what happened, why, and what to type. Users catch `UpbeatError`; the command line
turns each branch into its own exit code (`upbeat.cli.exits`).
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeVar, cast

from upbeat.core.records import dataclass

if TYPE_CHECKING:
    from upbeat.trace.trace import Trace


FAULTS = (Exception, SystemExit, GeneratorExit)
"""What counts as a failure of a unit that raises it: all but Ctrl-C."""


class UpbeatError(Exception):
    """Base of every error that Upbeat raises on purpose."""


class InvalidInput(UpbeatError):
    """What the user wrote cannot be right; nothing has run yet."""


class ExpressionError(InvalidInput):
    """An expression does not parse, is too large, or uses a name or function that does not exist.

    `column` is the zero-based position in `source` where the trouble starts, when it is known.
    """

    def __init__(self, message: str, source: str = "", column: int | None = None) -> None:
        self.reason = message
        self.source = source
        self.column = column
        super().__init__(message if column is None else f"{message}\n{_pointer(source, column)}")


def _pointer(source: str, column: int, width: int = 60) -> str:
    """The part of `source` around `column`, with a caret under it."""
    first = max(0, column - width // 2)
    return f"    {source[first : first + width]}\n    {' ' * (column - first)}^"


class ModelError(InvalidInput):
    """A model contradicts itself: a port twice, a state without a derivative, a wrong size.

    `complaints` are the single problems as (where, what), where being such as ``states.x`` or empty.
    """

    def __init__(self, message: str, complaints: Sequence[tuple[str, str]] = ()) -> None:
        self.complaints = tuple(complaints) or (("", message),)
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a scenario or its file: where, what, and what to do about it.

    `where` is a key path such as ``("connections", "left.F")``; the file reader turns it into a
    line. `hint` is a complete sentence, or empty.
    """

    where: tuple[str, ...]
    what: str
    hint: str = ""
    line: int | None = None
    column: int | None = None
    """Counted from one, as the line is."""

    def __str__(self) -> str:
        column = f", column {self.column}" if self.column is not None else ""
        place = f"line {self.line}{column}: " if self.line is not None else ""
        path = f"[{' › '.join(map(str, self.where))}] " if self.where else ""
        return f"{place}{path}{self.what}" + (f"\n      {self.hint}" if self.hint else "")

    def data(self) -> dict[str, Any]:
        """Plain data."""
        found = {"line": self.line, "where": list(self.where), "what": self.what, "hint": self.hint}
        return found | ({"column": self.column} if self.column is not None else {})


MAX_PROBLEMS = 200
"""Of a file with more, not all are read; what is wrong with it is not looked for any further."""


class ScenarioError(InvalidInput):
    """All the problems of a scenario at once, in `problems`; of very many, the first."""

    def __init__(self, problems: Sequence[Problem], source: str = "", *, more: bool = False) -> None:
        self.problems = tuple(problems[:MAX_PROBLEMS])
        self.source = source
        self.more = more or len(problems) > MAX_PROBLEMS
        count = f"{len(self.problems)} problem{'s' if len(self.problems) != 1 else ''}"
        if self.more:
            count = f"more than {count}, of which these are the first"
        title = f"{source}: {count}" if source else f"the scenario has {count}"
        super().__init__("\n".join([title, *(f"  • {problem}" for problem in self.problems)]))


class MasterError(InvalidInput):
    """The scenario and the chosen master do not fit each other (an ability or an order is missing)."""


class FileProblem(InvalidInput):
    """A file is missing, unreadable, truncated, too large, or may not be written."""


def cannot_read(path: object, error: OSError | str) -> FileProblem:
    """The one way to say that a file cannot be read, and why."""
    return FileProblem(f"cannot read '{path}': {_reason(error)}")


def cannot_write(path: object, error: OSError | str) -> FileProblem:
    """The one way to say that a file cannot be written, and why."""
    return FileProblem(f"cannot write '{path}': {_reason(error)}")


def _reason(error: OSError | str) -> str:
    return str(error) if isinstance(error, str) else error.strerror or str(error)


def check_type(value: object, kinds: type | tuple[type, ...], what: str) -> None:
    """`InvalidInput` that names the argument, unless its value is of one of these kinds."""
    if not isinstance(value, kinds):
        known = kinds if isinstance(kinds, tuple) else (kinds,)
        text = repr(value)
        shown = text if len(text) <= 60 else f"{text[:57]}…"
        raise InvalidInput(f"{what} must be {' or '.join(kind.__name__ for kind in known)}, not {shown}")


class RunError(UpbeatError):
    """A run stopped before its end. `trace` holds what was recorded until then."""

    trace: Trace | None = None


class UnitError(RunError):
    """One unit failed. The original exception, if there was one, is the `__cause__`."""

    def __init__(self, message: str, *, unit: str, call: str, time: float) -> None:
        self.reason = message
        self.unit = unit
        self.call = call
        self.time = time
        super().__init__(f"unit '{unit}' failed in {call} at t = {time:.9g}: {message}")


class EndRequest(UnitError):
    """Not a failure: a unit has asked, by a call that went well, to end the run at `time`.

    It shows its last values until the step that follows is asked for, which raises this.
    """


class StepError(RunError):
    """The pace or the loop could not go on: no progress, a bad proposal, an iteration that failed.

    `unending`: an iteration within a step did not end, which it may do in steps of another size.
    """

    def __init__(self, text: str, *, unending: bool = False) -> None:
        super().__init__(text)
        self.unending = unending


class RecordingError(RunError):
    """Results could not be written: a full disk, a quota, a lost connection."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C ended a run between two steps. `trace` holds what was recorded until then."""

    def __init__(self, message: str, trace: Trace) -> None:
        self.trace = trace
        super().__init__(message)


class MissingExtra(UpbeatError):
    """An optional dependency is needed and not installed."""

    def __init__(self, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs an optional part: pip install 'upbeat[{extra}]'")


_ELSEWHERE = {
    "step": "dt h delta_t time_step timestep step_size stepsize communication_step",
    "until": "t_end tend t_stop tstop t_final tfinal t_max tmax stop stop_time end end_time duration to",
    "start": "t_start tstart t0 start_time t_begin begin",
    "out": "output file filename path results",
    "record": "log signals outputs",
    "sample_time": "ts period sampling_time sample_period rate",
}
"""What other tools call things: setting by setting, the names that people try."""
_MEANT = {name: own for own, names in _ELSEWHERE.items() for name in names.split()}


_MANY, _LONG = 300, 200
"""So many names are compared with a wrong one, and so much of that."""


def suggest(name: str, known: Iterable[str], noun: str = "names") -> str:
    """A sentence that helps with a wrong `name`: the nearest of `known`, or all of them."""
    name, choices = str(name), sorted(map(str, known))
    if len(choices) > _MANY:  # looking closely at all of them would take long: those that begin or end alike
        alike = [c for c in choices if c[:2] == name[:2] or c[-3:] == name[-3:]]
        near_by = alike[:: 1 + len(alike) // _MANY]
    else:
        near_by = choices
    if _MEANT.get(name.lower()) in choices:
        return f"Did you mean '{_MEANT[name.lower()]}'?"
    from difflib import get_close_matches  # where all is well it is not needed

    near = get_close_matches(name[:_LONG], near_by, n=3, cutoff=0.6)
    if near:
        return f"Did you mean {' or '.join(repr(n) for n in near)}?"
    if not choices:
        return f"There are no {noun} here."
    maximum = 30 if noun == "settings" else 12  # of settings, all: the one that is meant may be any
    shown = ", ".join(choices[:maximum]) + (f", … ({len(choices)} in all)" if len(choices) > maximum else "")
    return f"The {noun} are: {shown}."


_ITERATIONS = {"most": "max_iterations"}
RENAMED: dict[str, dict[str, str]] = {
    "Anderson": _ITERATIONS,
    "Constrained": _ITERATIONS,
    "Cvode": {"most": "max_steps"},
    "DormandPrince": {"most": "max_steps"},
    "FixedPoint": _ITERATIONS,
    "Iterated": _ITERATIONS,
    "Negotiated": _ITERATIONS,
    "Newton": _ITERATIONS,
    "Revised": _ITERATIONS,
    "Simultaneous": _ITERATIONS,
    "consistent": _ITERATIONS,
    "largest_delay": {"most": "max_delay"},
    "upbeat.extend": {"Course": "Trajectory"},
}
"""Settings and names of version 0.1 that are called something else now, by what they belong to. The old ones
still work, in Python and in files, with a warning that names the new one."""

_Made = TypeVar("_Made", bound=Callable[..., Any])


def current_names(owner: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of `owner` under their present names."""
    names = RENAMED.get(owner, {})
    for old in names.keys() & settings.keys():
        if names[old] in settings:
            raise InvalidInput(
                f"{owner}: '{old}' is the old name of '{names[old]}', and both are given: leave out '{old}'"
            )
        warnings.warn(f"{owner}: '{old}' is now called '{names[old]}'", FutureWarning, stacklevel=3)
    return {names.get(key, key): value for key, value in settings.items()}


def renamed(made: _Made) -> _Made:
    """A class or function that still takes the keyword arguments in `RENAMED`."""
    call: Callable[..., Any] = cast(Any, made).__init__ if isinstance(made, type) else made

    @functools.wraps(call)
    def with_current_names(*args: Any, **settings: Any) -> Any:
        return call(*args, **current_names(made.__name__, settings))

    if not isinstance(made, type):
        return with_current_names  # type: ignore[return-value]
    cast(Any, made).__init__ = with_current_names
    return made


def problems_of(error: BaseException) -> list[Problem]:
    """The problems of a scenario one by one; any other error as a single one."""
    return list(error.problems) if isinstance(error, ScenarioError) else [Problem((), str(error))]


def error_data(error: BaseException) -> dict[str, Any]:
    """An error as plain data."""
    data: dict[str, Any] = {"kind": type(error).__name__, "message": str(error) or "interrupted"}
    if isinstance(error, ScenarioError):
        data["problems"] = [problem.data() for problem in error.problems]
    if isinstance(error, UnitError):
        data |= {"unit": error.unit, "call": error.call, "time": error.time}
    return data


class TooManyProblems(ScenarioError):
    """There are so many that looking for more is no use."""


@dataclass(slots=True)
class Problems:
    """A collector, so that a check can report everything it finds before it raises."""

    found: list[Problem] = field(default_factory=list)

    def add(self, where: tuple[str, ...], what: str, hint: str = "") -> None:
        self.found.append(Problem(where, what, hint))
        if len(self.found) > MAX_PROBLEMS:
            raise TooManyProblems(self.found)

    def raise_if_any(self, source: str = "") -> None:
        if self.found:
            raise ScenarioError(self.found, source)
