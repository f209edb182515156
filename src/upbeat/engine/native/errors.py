"""What stopped the native core, in the words of the interpreter."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from math import isnan
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from upbeat.core.errors import FAULTS, EndRequest, ModelError, RunError, StepError, UnitError
from upbeat.core.ports import Kind, Port, Value
from upbeat.core.reasons import EXPECTED, STOPPED, Reason
from upbeat.core.records import dataclass
from upbeat.engine.loop import MAX_RETRIES
from upbeat.engine.machine import (
    NO_SLOPES,
    NO_TIME,
    REJECTED,
    UNPACKABLE,
    Fired,
    chattering_text,
    exhausted_error,
    input_text,
    output_text,
    text_of,
)
from upbeat.engine.native.lower import KINDS, Tables
from upbeat.engine.packing import foreign
from upbeat.master.program import Advance, Due, EventDetails, Get, Repeat, Set, Slope


class Fault(enum.IntEnum):
    """`Fault` of native/src/error.hpp, which says what the other numbers mean in each case."""

    REFUSED = 1
    NOT_FINITE = 2
    NOT_REACHED = 3
    UNABLE = 4
    EXHAUSTED = 5
    EMPTY_SLOT = 6
    NO_PROGRESS = 7
    BAD_STEP = 8
    REJECTED = 9
    STOPPED = 10
    BAD_BYTES = 11
    CHATTERING = 12
    CALLED = 13


class CoreError(NamedTuple):
    """`Error` of native/src/error.hpp, and what Python raised, if it was that."""

    fault: int
    call: int
    row: int
    unit: int
    cell: int
    time: float
    start: float
    until: float
    value: float
    status: int
    message: str
    cause: BaseException | None
    inside: tuple[tuple[Any, ...], list[float]] | None = None
    """What failed in a nested unit: its error, and its cells."""


@dataclass(frozen=True, slots=True)
class Names:
    """What gives the numbers of a program in the core their names."""

    tables: Tables
    ports: Mapping[tuple[str, str], Port]
    by_address: frozenset[str] = frozenset()
    inside: Mapping[str, Names] = field(default_factory=dict)
    """Of the units that are scenarios themselves."""
    paths: Mapping[str, str] = field(default_factory=dict)
    """What people call units, where that is not their name."""
    complaints: Mapping[str, Callable[[], Sequence[str]]] = field(default_factory=dict)
    """Of FMUs: what they said of late about something that went wrong."""


_CALLS = {
    1: "get", 2: "set", 3: "advance", 4: "jump", 5: "save", 6: "restore", 7: "instantiate", 8: "slope",
    9: "to_bytes", 10: "due", 11: "from_bytes",
}  # fmt: skip
_SET, PACK, UNPACK = 2, 9, 11
_FUNCTIONS = {**_CALLS, PACK: "pack", UNPACK: "unpack"}
"""The same as unit.h names them."""
FMU_FAILED = 2
"""What an FMU's unit returns if the FMU itself failed, and may have said why (see native/fmi)."""
ENDED = -(1 << 31) + 1
"""What a unit returns that has asked to end the run (`ended_status` of native/src/error.hpp)."""
CLOSED = "the run was closed while it was at work"


def blame(error: CoreError, names: Names, read: Callable[[int], Value]) -> RunError:
    """The error to raise.

    What is no error of a unit (Ctrl-C, a unit of a nested run) passes through: it is raised here.
    """
    tables, ports = names.tables, names.ports
    time, until = error.time, error.until
    origin = tables.origins[error.row] if error.row >= 0 else None
    match error.fault:
        case Fault.EXHAUSTED:
            assert isinstance(origin, Repeat)
            return exhausted_error(origin, read, tables.now, tables.next)
        case Fault.EMPTY_SLOT:
            return StepError("nothing was saved")
        case Fault.NO_PROGRESS:
            return StepError(f"the step from t = {time:.9g} did not move on, and no event fired")
        case Fault.BAD_STEP if isnan(until):
            return StepError(_reason(tables, read))
        case Fault.BAD_STEP:
            return StepError(
                f"the pace asked for a step from {time:.17g} to {until:.17g}, "
                f"which does not lie between now and the stop time {error.value:.17g}"
            )
        case Fault.REJECTED:
            last = _reason(tables, read)
            text = f"the step from t = {time:.9g} was rejected {MAX_RETRIES} times; last: {last}"
            return StepError(f"{text}. {REJECTED}")
        case Fault.STOPPED:
            return StepError(CLOSED)
        case Fault.CALLED if error.cause is not None:
            raise error.cause
        case Fault.CHATTERING:
            assert tables.chatter is not None
            lines = error.message.split("\n")
            latest = [_why(one, tables) for one in lines if not one.startswith("!")]
            events = list(tables.events)
            happened = [events[int(one[1:])] for one in lines if one.startswith("!")]
            return StepError(chattering_text(tables.chatter, latest, happened, time, error.value))
    name = tables.units[error.unit]
    if error.inside is not None:
        return _inside(name, names.inside[name], *error.inside)
    match origin:
        case Get(port=port):
            call = f"get('{port}')"
        case Set(port=port):
            call = f"set('{port}')"
        case Slope(output=output, input=port):
            call = f"slope('{output}', '{port}')"
        case Advance():
            call = f"advance({error.start:.9g}, {until:.9g})"
        case _ if error.call == _SET:  # outside any block
            call = f"set('{[port for unit, port in ports if unit == name][error.cell]}')"
        case _:
            call = f"{_CALLS[error.call]}()"
    match error.fault:
        case Fault.NOT_FINITE if isinstance(origin, Due):
            text = NO_TIME
        case Fault.NOT_FINITE:
            assert isinstance(origin, (Get, Set))
            index = "" if ports[name, origin.port].size is None else f"[{error.cell}]"
            say = output_text if isinstance(origin, Get) else input_text
            text = say(f"{origin.port}{index}", error.value)
        case Fault.NOT_REACHED:
            text = f"it stopped at {error.value:.9g} instead of {until:.9g}"
        case Fault.UNABLE if error.call in (PACK, UNPACK):
            text = UNPACKABLE
        case Fault.UNABLE:
            text = NO_SLOPES if isinstance(origin, Slope) else "it cannot be set back to an earlier state"
        case _:
            text = _refusal(error, name in names.by_address)
            if error.status == FMU_FAILED and name in names.complaints:
                from upbeat.units.fmi.journal import why

                text += why(names.complaints[name]())
    kind = EndRequest if error.fault == Fault.REFUSED and error.status == ENDED else UnitError
    return kind(text, unit=name, call=call, time=time)


def _why(line: str, tables: Tables) -> Reason:
    """The event at which a step has ended, or the unit that stopped, of which the core knows the number."""
    if line.startswith("#"):
        return tables.stop_reasons[int(line[1:])]
    if line.startswith("'") and tables.pacing is not None:
        return Reason(EXPECTED, tables.pacing.why(float(line[1:]), 0.0, 0.0, 0.0).about)
    return Reason(STOPPED)


def _reason(tables: Tables, read: Callable[[int], Value]) -> str:
    """Why the pace gives up, or has rejected a step."""
    assert tables.pacing is not None
    return str(tables.pacing.why(*(float(read(tables.pacing.reason + k)) for k in range(4))))


def _inside(name: str, names: Names, error: tuple[Any, ...], cells: Sequence[float]) -> RunError:
    """What failed in the nested unit `name`, with the whole way to it."""

    def read(cell: int) -> Value:
        return int(cells[cell]) if names.tables.kinds[cell] == KINDS[Kind.INTEGER] else cells[cell]

    found = blame(CoreError(*error), names, read)
    if isinstance(found, UnitError):
        way = f"{name}.{names.paths.get(found.unit, found.unit)}"
        return type(found)(found.reason, unit=way, call=found.call, time=found.time)
    return StepError(f"inside '{name}': {found}", unending=getattr(found, "unending", False))


def not_taken(error: CoreError, tables: Tables) -> ModelError | None:
    """The error to raise if it was a unit that did not take the bytes of a state."""
    if error.fault != Fault.REFUSED or error.call != UNPACK:
        return None
    if error.cause is not None and not isinstance(error.cause, FAULTS):
        return None  # Ctrl-C
    return foreign(tables.units[error.unit], error.cause or error.message)


def _refusal(error: CoreError, by_address: bool) -> str:
    cause, message = error.cause, error.message
    if isinstance(cause, RunError) or (cause is not None and not isinstance(cause, FAULTS)):
        raise cause
    if cause is not None:
        return message or text_of(cause)
    if by_address:
        return f"NativeFailure: {message or f'{_FUNCTIONS[error.call]} returned status {error.status}'}"
    return message


# ----------------------------------------------------------------------------------------------------
# Events as the native core hands them over: columns of raw bytes, read without a look at each of them.

Shapes = Mapping[str, tuple[Kind, int]]
"""Of what kind the cells are that an event fires with, and how many there are."""
More = tuple[int, tuple[str, ...], dict[str, Any]]
"""The number of an event, its units, and details about it."""
Raw = tuple[bytes, bytes, bytes, bytes]
"""Numbers of the events, times, indices within an instant, cells of all values (native/src/host.hpp)."""


class FiredColumns(NamedTuple):
    """What fired: ``names[codes[i]]`` at (``times[i]``, ``indices[i]``); the cells of all values in a row."""

    names: tuple[str, ...]
    codes: npt.NDArray[np.int32]
    times: npt.NDArray[np.float64]
    indices: npt.NDArray[np.int32]
    cells: npt.NDArray[np.int64]

    @classmethod
    def read(cls, raw: Raw, names: tuple[str, ...]) -> FiredColumns:
        """The columns in these bytes."""
        codes, times, indices, cells = raw
        return cls(
            names,
            np.frombuffer(codes, np.int32),
            np.frombuffer(times, np.float64),
            np.frombuffer(indices, np.int32),
            np.frombuffer(cells, np.int64),
        )

    def decoded(
        self, event_details: Mapping[str, EventDetails], shapes: Shapes
    ) -> tuple[FiredColumns, list[More]]:
        """The same without stories, and these by the numbers of the events: what tells one is just true."""
        detailed = np.array([name in event_details for name in self.names], dtype=bool)
        if not event_details or not detailed[self.codes].any():
            return self, []
        widths = np.array([shapes[name][1] for name in self.names])[self.codes]
        starts = np.cumsum(widths) - widths
        rest, more = np.ones(len(self.cells), dtype=bool), []
        cells = self.cells.copy()
        for i in np.flatnonzero(detailed[self.codes]).tolist():
            first, last = int(starts[i]), int(starts[i] + widths[i])
            more.append(
                (
                    i,
                    *event_details[self.names[self.codes[i]]].decoded(
                        self.cells[first:last].view(np.float64).tolist()
                    ),
                )
            )
            rest[first + 1 : last] = False
            cells[first] = 1
        return self._replace(cells=cells[rest]), more

    def entries(self, kinds: Shapes, strings: Sequence[str]) -> list[Fired]:
        """One by one, by name and value."""
        found: list[Fired] = []
        first = 0
        for code in self.codes.tolist():
            name = self.names[code]
            kind, count = kinds[name]
            values = _values(self.cells[first : first + count], kind, strings)
            first += count
            found.append((name, values[0] if count == 1 else values or None))
        return found


def _values(cells: npt.NDArray[np.int64], kind: Kind, strings: Sequence[str]) -> tuple[Value, ...]:
    match kind:
        case Kind.REAL:
            return tuple(cells.view(np.float64).tolist())
        case Kind.STRING:
            return tuple(strings[i] for i in cells.tolist())
        case Kind.BOOLEAN:
            return tuple(bool(i) for i in cells.tolist())
    return tuple(cells.tolist())
