"""What the loop needs of an engine: a machine that executes the blocks of one program."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from typing import Any, Protocol

from upbeat.core.errors import FAULTS, StepError
from upbeat.core.ports import Signal, Value
from upbeat.core.reasons import STOPPED, Reason
from upbeat.master.paces.watching import PER_RUN, PER_STEP
from upbeat.master.program import Budget, Reg, Repeat
from upbeat.units.process.wire import RemoteError
from upbeat.units.solving.integrate import SolverStatistics

Fired = tuple[str, Signal | None]
"""An entry for the event log: the event's name, and its value if it has one."""


class Machine(Protocol):
    """Registers and units of one run. Any failure of a unit is raised as `UnitError`."""

    fired: list[Fired]
    """The events fired since the loop last emptied the list."""

    def execute(self, block: str) -> None:
        """Run one named block of the program."""
        ...

    def read(self, cell: int) -> Value: ...

    def row(self, cells: tuple[int, ...]) -> Sequence[Value]:
        """The contents of several cells."""
        ...

    def write(self, cell: int, value: Value) -> None: ...

    def set_input(self, unit: str, port: str, *coefficients: Signal) -> None:
        """Hand an input a trajectory from the unit's own time on, or a parameter its value, from outside the
        program."""
        ...

    def save(self) -> Any:
        """A token for the present contents of all registers and units; it can be used many times."""
        ...

    def restore(self, token: Any) -> None:
        """Set registers and units back to what `token` holds."""
        ...

    def to_bytes(self, token: Any) -> bytes:
        """A token of `save` as bytes (see `engine.packing`), for any machine of the same program: in another
        process, or of the other engine. All units must be able to serialise their states."""
        ...

    def from_bytes(self, data: bytes) -> Any:
        """The token that `to_bytes` was given. `ModelError`: the bytes are damaged, or of something else."""
        ...

    def pack(self, token: Any) -> bytes:
        """As `to_bytes`, without head and checksum: for a machine inside a unit, whose bytes are part of
        those of the machine around it."""
        ...

    def unpack(self, body: bytes) -> Any:
        """The token that `pack` was given."""
        ...

    def read_inside(self, path: Sequence[str], cell: int) -> float | None:
        """A real register of the scenario nested in a unit, in a unit of that one, and so on;
        None if that cannot be read (it runs in another process)."""
        ...

    def solver_statistics(self) -> Mapping[str, SolverStatistics]:
        """How hard the solvers of units have worked, where they tell."""
        ...

    def advancing(self) -> Sequence[str]:
        """The units that are being advanced just now. Any thread may ask."""
        ...

    def tried(self) -> Mapping[str, tuple[float, float, bool]]:
        """For blocks of which it was found out in this run: the seconds they take on several cores and on
        one, and whether several do them."""
        ...

    def close(self) -> None:
        """Let go of the units. Never raises; a second call does nothing."""
        ...


# ----------------------------------------------------------------------------------------------------
# What both engines say when something goes wrong.

NO_TIME = "the time of its next event is not a number"
"""A unit's answer to `due`."""
UNPACKABLE = "its states cannot be turned into bytes"
"""Of a unit without `Ability.SERIALISE`."""


def text_of(cause: BaseException) -> str:
    """An exception of a user's unit in one line."""
    if isinstance(cause, RemoteError):
        return str(cause)
    return f"{type(cause).__name__}: {str(cause) or 'no message'}"


MAX_SHOWN = 8
"""So many of the values that a loop shows are said; of more, the largest."""

REJECTED = (
    "A value that jumps where no event says so, or a tolerance below what the units' own solvers give, looks "
    'like this: raise the tolerance, or accept such steps with correct="next".'
)
"""Advice for a step that was tried in vain."""


NO_PACE = 1e-9
"""Events closer together than this part of a step, or of the time, are not what anybody simulates."""


def chattering_text(
    budget: Budget, latest: Iterable[Reason], happened: Iterable[str], t: float, every: float
) -> str:
    """Events follow each other without end, one `every` so many seconds: for which reasons steps have ended
    of late, and what has happened there."""
    reasons = list(latest)
    named = []
    for event in dict.fromkeys([*(reason.event for reason in reasons if reason.event), *happened]):
        units = budget.units.get(event, ())
        named.append(f"'{event}'" + (f" ({', '.join(units)})" if units else ""))
    stopped = [r.about if r.kind == STOPPED and r.about else "units" for r in reasons if not r.event]
    named += [f"stops of {unit}" for unit in dict.fromkeys(stopped)]
    ratio = f", where the nominal step is {budget.step:.3g} s" if budget.step else ""
    if budget.step:
        often = f" Only if events really go on that often, take a step of {PER_STEP * every:.2g} s at most."
    else:
        often = f" Only if events really go on that often, run it in pieces: {PER_RUN:.0f} in one are fine."
    if every < NO_PACE * max(budget.step, abs(t)):  # rounding: no step would do
        often = ""
    return (
        f"events follow each other without end at t = {t:.9g}: {', '.join(named)}, one about every "
        f"{every:.3g} s{ratio}. What one of them changes brings the next (chattering). A relay needs a "
        "hysteresis, or a wider one. A body that comes to rest, like a ball, never gets there by shorter "
        "leaps, whatever the step: let the event itself end them, with a variable for a mode in which it "
        "rests below some speed. Events inside one unit of equations can do both by themselves, with rests = "
        f"true and slides = true ('Rest and sliding' in the documentation).{often}"
    )


def exhausted_text(loop: Repeat, read: Callable[[int], Value], now: Reg, until: Reg) -> str:
    """A `Repeat` that did not end, when, and what to do about it; `now` and `until` hold the step's ends."""
    values = [(name, read(cell)) for name, cell in loop.shows]
    # An integer is a count, and what was counted zero times had no part in it.
    said = [(name, value) for name, value in values if isinstance(value, float) or value]
    worst = sorted(range(len(said)), key=lambda k: -_size(said[k][1]))[:MAX_SHOWN]
    parts = [_shown(*said[k]) for k in sorted(worst)]
    if len(said) > MAX_SHOWN:
        parts.append(f"… {len(said)} in all")
    begin, end = read(now), read(until)
    when = f"at t = {end:.9g}" if begin == end else f"in the step from t = {begin:.9g} to {end:.9g}"
    failed = "failed" if loop.max_iterations == 1 else f"did not end within {loop.max_iterations} rounds"
    text = f"{loop.what} {failed} {when}" + (f" ({', '.join(parts)})" if parts else "")
    return f"{text}. {loop.advice}" if loop.advice else text


def exhausted_error(loop: Repeat, read: Callable[[int], Value], now: Reg, until: Reg) -> StepError:
    """The same as the error that ends the run."""
    within = loop.max_iterations > 1 and read(now) != read(until)
    return StepError(exhausted_text(loop, read, now, until), unending=within)


def _shown(name: str, value: Value) -> str:
    return f"{name} {value:.3g}" if isinstance(value, float) else f"{name}: {value} times"


def _size(value: Value) -> float:
    """For sorting: what is no number is the largest."""
    size = abs(float(value))
    return size if size == size else inf


def output_text(port: str, value: object) -> str:
    """A unit gave a real number that is none."""
    return f"output '{port}' is {value}"


NO_SLOPES = "it does not know its slopes"


def slope_text(count: int, given: object) -> str:
    """A unit gave something else than slopes."""
    return f"the slopes are {count} numbers in a list, row by row, but the unit gave {given!r}"


def input_text(port: str, value: object) -> str:
    """A connection gave one, although all outputs were finite."""
    return f"input '{port}' would become {value}: check the expression that it is connected to"


def reached_text(given: object) -> str:
    """A unit's `advance` gave something else than a time."""
    return f"advance must return the time reached ('return to'), but the unit gave {given!r}"


def due_text(given: object) -> str:
    """A unit's `due` gave something else than a time."""
    return f"due must return a time, but the unit gave {given!r}"


# ----------------------------------------------------------------------------------------------------
# Letting go of units: each exactly once, whatever the others do.


def nested_cell(unit: object, path: Sequence[str], cell: int) -> float | None:
    """A real register of the machine inside a unit, or of one deeper in; None if there is none to look at."""
    machine: Machine | None = getattr(unit, "machine", None)
    if machine is None:
        return None
    return machine.read_inside(path, cell) if path else float(machine.read(cell))


def close_all(units: Mapping[str, object]) -> None:
    """Close every unit that has a `close`. One that fails is warned about: the results are there already."""
    for name, unit in units.items():
        close = getattr(unit, "close", None)
        if close is None:
            continue
        try:
            close()
        except FAULTS as error:  # whatever a user's unit raises
            warnings.warn(f"unit '{name}' failed in close(): {text_of(error)}", RuntimeWarning, stacklevel=2)
