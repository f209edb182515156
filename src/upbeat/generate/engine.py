"""The compiled engine: a program as C, compiled by the system's compiler, and run as the native core is run."""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Mapping, Sequence
from ctypes import POINTER, byref, c_double, c_int32, c_int64, c_void_p
from dataclasses import replace
from functools import cached_property
from math import inf
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from upbeat.core.abilities import Ability, Model, Native
from upbeat.core.errors import InvalidInput, ModelError, StepError, UnitError
from upbeat.core.plain import Place, Places
from upbeat.core.ports import Kind, Signal, Value
from upbeat.core.reasons import KNOWN, Reason
from upbeat.engine.machine import UNPACKABLE, Fired, close_all
from upbeat.engine.native.entry import Entry
from upbeat.engine.native.errors import CLOSED, CoreError, Fault, FiredColumns, Names, blame
from upbeat.engine.native.lower import KINDS, Tables, port_numbers, slopes_asked
from upbeat.engine.native.machine import KNOWN_EVENT, Batch, Chunk, Status
from upbeat.engine.packing import Contents, Packing, foreign
from upbeat.engine.plan import Plan
from upbeat.generate.compiling import library
from upbeat.generate.program import CALLS, KIND_OF, Part, translate, values_of
from upbeat.trace.log import RUNS, StepRuns
from upbeat.units import OdeTables
from upbeat.units.equations.hybrid import endless
from upbeat.units.solving.integrate import SolverStatistics

if TYPE_CHECKING:
    from upbeat import _native

# ----------------------------------------------------------------------------------------------------
# The structs of runtime.c.

STEPS = np.dtype(
    [
        ("first", np.float64), ("last", np.float64), ("count", np.int64), ("reason", np.int32),
        ("block", np.int32), ("rejected", np.int64), ("numbers", np.float64, (4,)),
    ]
)  # fmt: skip
EVENTS = np.dtype([("event", np.int32), ("index", np.int32), ("time", np.float64)])
_STEPS_ROOM = 4096
_EVENTS_ROOM = 4096


class _Steps(ctypes.Structure):
    _fields_ = [
        ("first", c_double), ("last", c_double), ("count", c_int64), ("reason", c_int32), ("block", c_int32),
        ("rejected", c_int64), ("numbers", c_double * 4),
    ]  # fmt: skip


class _Host(ctypes.Structure):
    _fields_ = [
        ("rows", c_void_p), ("room", c_int64), ("used", c_int64), ("columns", c_void_p), ("width", c_int64),
        ("every", c_int64), ("until_due", c_int64), ("left_out", c_int64),
        ("left", c_void_p), ("told", c_int64),
        ("steps", c_void_p), ("steps_room", c_int64), ("steps_used", c_int64), ("open", _Steps), ("done", _Steps),
        ("usual", c_double), ("band", c_double),
        ("events", c_void_p), ("events_room", c_int64), ("events_used", c_int64), ("mark", c_int64),
        ("values", c_void_p), ("values_room", c_int64), ("values_used", c_int64), ("values_mark", c_int64),
        ("stop", c_int64),
    ]  # fmt: skip


class _Error(ctypes.Structure):
    _fields_ = [
        ("fault", c_int32), ("row", c_int32), ("cell", c_int32), ("code", c_int32),
        *((name, c_double) for name in ("time", "start", "until", "value", "a", "b", "d")),
    ]  # fmt: skip


_LOG_FULL = 14
_GIVEN = 2
"""The call by which an input is set."""


_STATUS = 13
"""What stands for the status that an attached unit has returned."""
_INSIDE = 12
"""What a unit says that is a scenario itself: look there."""


class Calls:
    """The functions of one program in the generated code, and of those inside its units."""

    def __init__(self, code: ctypes.CDLL, part: Part) -> None:
        def found(what: str, gives: Any = c_int32) -> Any:
            function = code[f"{part.name}_{what}"]
            function.restype = gives
            return function

        self.part = part
        self.size, self.saved_size = found("size", c_int64), found("saved_size", c_int64)
        self.make, self.begin_units = found("make", None), found("begin_units")
        self.begin, self.run, self.execute = found("begin"), found("run"), found("execute")
        self.cells, self.error = found("cells", c_void_p), found("error", POINTER(_Error))
        self.set, self.clock = found("set"), found("clock", c_double)
        self.counts = found("counts", POINTER(c_int64))
        self.save, self.restore = found("save"), found("restore")
        self.pack, self.unpack = found("pack", None), found("unpack")
        self.told, self.latest = found("told", None), found("latest", None)
        self.inside, self.saved_inside = found("inside", c_void_p), found("saved_inside", c_void_p)
        self.attached = [i for i, one in enumerate(part.units) if one.external is not None]
        """The units that are not printed."""
        if self.attached:
            self.attach, self.keep_at = found("attach", None), found("keep_at", None)
        self.nests = {number: Calls(code, inner) for number, inner in part.inside.items()}
        self.packing = Packing(part.program, part.models) if _packs(part) else None
        self.kinds = [KIND_OF[int(kind)] for kind in part.tables.kinds]

    @cached_property
    def names(self) -> Names:
        """The names for what the code says about it."""
        models = self.part.models
        ports = {(unit, port.name): port for unit, model in models.items() for port in model.ports}
        inside = {self.part.tables.units[number]: inner.names for number, inner in self.nests.items()}
        return Names(self.part.tables, ports, inside=inside, paths=self.part.paths)


def _packs(part: Part) -> bool:
    if any(one.external is not None for one in part.units):
        return False
    return all(Ability.SERIALISE in model.abilities for model in part.models.values())


class Compiled:
    """A plan as machine code, for any number of machines, with any start values and parameters."""

    def __init__(self, plan: Plan, start: float) -> None:
        self.plan = plan
        self.translation = translate(plan, start, whole=False, external="native")
        self.calls = Calls(library(self.translation.source), self.translation.part)

    def machine(self, plan: Plan, start: float, *, strings: list[str] | None = None) -> CompiledMachine:
        """A machine for one run of this plan, or of the same with other values."""
        if plan is self.plan:
            return CompiledMachine(self, plan, start, self.translation.values, strings=strings)
        if self.calls.nests:  # whose programs may have such values written into them
            other = Compiled(plan, start)
            return CompiledMachine(other, plan, start, other.translation.values, strings=strings)
        return CompiledMachine(self, plan, start, values_of(plan, start, "native"), strings=strings)


class Saved(NamedTuple):
    """A token: registers and states, and the number under which attached units keep theirs."""

    numbers: npt.NDArray[np.float64]
    place: Place


class CompiledMachine:
    """A machine (see `engine.machine`) in generated code: the calls are those of the native one."""

    def __init__(
        self,
        compiled: Compiled,
        plan: Plan,
        start: float,
        values: Sequence[float],
        *,
        strings: list[str] | None = None,
    ) -> None:
        self.fired: list[Fired] = []
        self.strings: list[str] = [] if strings is None else strings
        self._compiled = compiled
        self._calls = compiled.calls
        self._models: Mapping[str, Model] = plan.scenario.units
        self._tables = compiled.translation.part.tables
        self._numbers = {unit: port_numbers(model) for unit, model in self._models.items()}
        self._memory = np.zeros(self._calls.size() // 8 + 2, np.float64)
        self._m = c_void_p(self._memory.ctypes.data)
        numbers = np.array([*values, 0.0])
        self._calls.make(self._m, c_double(start), c_void_p(numbers.ctypes.data))
        self._places = Places()
        self._busy = threading.Lock()
        self._attached = self._attach(start) if self._calls.attached else None
        self._reals, self._integers = _cells(self._calls, self._m)
        self._kinds = self._calls.kinds
        self._host = self._made_host()
        self._closed = False
        if not self.strings:
            self.strings += compiled.translation.strings
        self.note_strings()
        if self._attached is not None and (failed := self._attached.begin()) >= 0:
            number = list(self._calls.attached)[failed]
            text = self._attached.take_trouble()[0] or _message(self._functions[number])
            raise UnitError(text, unit=self._tables.units[number], call="start()", time=start)
        if self._calls.begin_units(self._m):
            self.fail()

    def _attach(self, start: float) -> _native.Attached:
        """Make the units that are not printed, as for the native core, and hand their functions over."""
        from upbeat import _native

        entry, program = Entry(jit=False), self._compiled.translation.part.program
        slopes, entered = slopes_asked(program), {}
        try:
            for number in self._calls.attached:
                name = self._tables.units[number]
                model = self._models[name]
                assert isinstance(model, Native)
                entered[name] = model.enter(entry.asked(slopes.get(name, ())), name, start)
            attached = _native.Attached(
                list(entered.values()), start, list(self._compiled.translation.strings)
            )
        except BaseException:
            close_all(entered)
            raise
        for number, table in zip(self._calls.attached, attached.tables(), strict=True):
            self._calls.attach(self._m, number, c_void_p(table))
        self._entered = entered
        self._functions = dict(zip(self._calls.attached, attached.tables(), strict=True))
        return attached

    def _made_host(self) -> _Host:
        host = _Host()
        self._steps = np.zeros(_STEPS_ROOM, STEPS)
        most = self._compiled.translation.most_events
        room = 2 * most + _EVENTS_ROOM if most else 0
        widest = max([1, *(cells for _, cells in self._tables.events.values())])
        self._events = np.zeros(room, EVENTS)
        self._values = np.zeros(room * widest, np.int64)
        host.steps, host.steps_room = self._steps.ctypes.data, _STEPS_ROOM
        host.events, host.events_room = (self._events.ctypes.data if room else None), room
        host.values, host.values_room = self._values.ctypes.data, room * widest
        host.every = host.until_due = 1
        host.band = -1.0
        return host

    # ---------------------------------------------------------------- the machine of the loop

    @property
    def tables(self) -> Tables:
        """The program as the core sees it."""
        return self._tables

    def execute(self, block: str) -> None:
        self._live()
        if self._calls.execute(self._m, byref(self._host), self._tables.blocks[block]):
            self.fail()
        if self._host.events_used:
            self.fired += self._taken(self._host.events_used).entries(self._tables.events, self.strings)

    def _taken(self, count: int) -> FiredColumns:
        """Take the first `count` events away."""
        host = self._host
        taken = self._events[:count].copy()
        widths = np.array([cells for _, cells in self._tables.events.values()], np.int64)
        cells = int(widths[taken["event"]].sum()) if count else 0
        values = self._values[:cells].copy()
        rest, left = host.events_used - count, host.values_used - cells
        self._events[:rest] = self._events[count : host.events_used].copy()
        self._values[:left] = self._values[cells : host.values_used].copy()
        host.events_used, host.values_used = rest, left
        host.mark, host.values_mark = max(0, host.mark - count), max(0, host.values_mark - cells)
        return FiredColumns(
            tuple(self._tables.events),
            np.ascontiguousarray(taken["event"]),
            np.ascontiguousarray(taken["time"]),
            np.ascontiguousarray(taken["index"]),
            values,
        )

    def read(self, cell: int) -> Value:
        kind = self._kinds[cell]
        if kind is Kind.REAL:
            return float(self._reals[cell])
        number = int(self._integers[cell])
        return (
            self.strings[number] if kind is Kind.STRING else bool(number) if kind is Kind.BOOLEAN else number
        )

    def row(self, cells: tuple[int, ...]) -> Sequence[Value]:
        return [self.read(cell) for cell in cells]

    def write(self, cell: int, value: Value) -> None:
        self._live()
        kind = self._kinds[cell]
        if kind is Kind.REAL:
            self._reals[cell] = value
        else:
            self._integers[cell] = self._text(str(value)) if kind is Kind.STRING else int(value)

    def _text(self, text: str) -> int:
        if self._attached is not None:
            number = self._attached.intern(text)
            self.note_strings()
            return number
        if text not in self.strings:
            self.strings.append(text)
        return self.strings.index(text)

    def set_input(self, unit: str, port: str, *coefficients: Signal) -> None:
        self._live()
        known = next(one for one in self._models[unit].ports if one.name == port)
        values: list[Any] = [v for c in coefficients for v in ((c,) if known.size is None else c)]  # type: ignore[union-attr]
        cells = np.zeros(len(values), np.int64)
        if known.kind is Kind.REAL:
            cells.view(np.float64)[:] = values
        else:
            cells[:] = [self._text(str(v)) if known.kind is Kind.STRING else int(v) for v in values]
        number, at = self._numbers[unit][port], self._tables.units.index(unit)
        if self._calls.set(self._m, at, number, c_void_p(cells.ctypes.data), len(coefficients)):
            error = self._calls.error(self._m).contents
            error.fault, error.row, error.cell, error.start, error.until = (
                Fault.REFUSED,
                -1,
                number,
                at,
                _GIVEN,
            )
            self.fail()

    def save(self) -> Saved:
        self._live()
        kept = Saved(np.zeros(self._calls.saved_size() // 8 + 1, np.float64), self._places.take())
        at = c_void_p(kept.numbers.ctypes.data)
        if self._attached is not None:
            self._calls.keep_at(at, kept.place.number)
        if self._calls.save(self._m, at):
            self.fail()
        return kept

    def restore(self, token: Saved) -> None:
        self._live()
        if not self._places.owns(token.place):
            raise StepError("this state was saved by another machine")
        if self._calls.restore(self._m, c_void_p(token.numbers.ctypes.data)):
            self.fail()

    @property
    def _packing(self) -> Packing:
        if self._calls.attached:
            name = self._tables.units[self._calls.attached[0]]
            raise InvalidInput(
                f"the compiled engine cannot turn the state of '{name}' into bytes, because it is not printed: for "
                "checkpoints, use --engine native."
            )
        if self._calls.packing is None:
            lacking = next(n for n, one in self._models.items() if Ability.SERIALISE not in one.abilities)
            raise UnitError(
                UNPACKABLE, unit=lacking, call="to_bytes()", time=float(self.read(self._tables.now))
            )
        return self._calls.packing

    def to_bytes(self, token: Any) -> bytes:
        return self._packing.sealed(self.pack(token))

    def from_bytes(self, data: bytes) -> Any:
        return self.unpack(self._packing.opened(data))

    def pack(self, token: Saved) -> bytes:
        self._packing  # noqa: B018  # which may say that this cannot be
        return self._packed(self._calls, token.numbers.ctypes.data)

    def _packed(self, calls: Calls, saved: int) -> bytes:
        """What was saved of a program, as bytes; of those inside its units, too."""
        assert calls.packing is not None
        reals, integers = _at(saved, len(calls.kinds))
        cells: list[Value] = []
        for i, kind in enumerate(calls.kinds):
            number = int(integers[i])
            text = self.strings[number] if kind is Kind.STRING else ""
            cells.append(float(reals[i]) if kind is Kind.REAL else text if kind is Kind.STRING else number)
        clocks, states = [], []
        for unit, size in enumerate(calls.part.state_sizes):
            if unit in calls.nests:
                inner, stale = self._saved_inside(calls, saved, unit)
                now = float(_at(inner, len(calls.nests[unit].kinds))[0][calls.nests[unit].part.tables.now])
                clocks.append(now)
                states.append(struct.pack("<dQ", now, stale[0]) + self._packed(calls.nests[unit], inner))
                continue
            state = np.zeros(size, "<f8")
            calls.pack(c_void_p(saved), unit, c_void_p(state.ctypes.data))
            clocks.append(float(state[0]))
            states.append(state.tobytes())
        return calls.packing.written(Contents(cells, clocks, states))

    @staticmethod
    def _saved_inside(calls: Calls, saved: int, unit: int) -> tuple[int, Any]:
        stale = POINTER(c_int32)()
        return calls.saved_inside(c_void_p(saved), unit, byref(stale)), stale

    def unpack(self, body: bytes) -> Saved:
        self._packing.read(body)
        token = self.save()
        self._unpacked(self._calls, token.numbers.ctypes.data, body)
        return token

    def _unpacked(self, calls: Calls, saved: int, body: bytes) -> None:
        assert calls.packing is not None
        contents = calls.packing.read(body)
        reals, integers = _at(saved, len(calls.kinds))
        for i, value in enumerate(contents.cells):
            kind = calls.kinds[i]
            if kind is Kind.REAL:
                reals[i] = value
            else:
                integers[i] = self._text(str(value)) if kind is Kind.STRING else int(value)
        for unit, state in enumerate(contents.states):
            name = calls.part.tables.units[unit]
            try:
                calls.part.models[name].instantiate(name, 0.0).from_bytes(state)  # type: ignore[attr-defined]
            except ModelError as error:  # in the words of the interpreter
                raise foreign(name, error) from None
            if unit in calls.nests:
                inner, stale = self._saved_inside(calls, saved, unit)
                stale[0] = int.from_bytes(state[8:16], "little")
                self._unpacked(calls.nests[unit], inner, state[16:])
                continue
            numbers = np.frombuffer(state, "<f8").astype(np.float64)
            if calls.unpack(self._m, c_void_p(saved), unit, c_void_p(numbers.ctypes.data)):
                raise foreign(
                    name,
                    "one of its inputs has more coefficients than this program hands over: use --engine native",
                )

    def read_inside(self, path: Sequence[str], cell: int) -> float | None:
        calls, at = self._calls, self._m
        for unit in path:
            number = calls.part.tables.units.index(unit)
            if number not in calls.nests:
                return None
            at, calls = c_void_p(calls.inside(at, number)), calls.nests[number]
        return float(_cells(calls, at)[0][cell])

    def solver_statistics(self) -> dict[str, SolverStatistics]:
        found = {}
        for number, unit in enumerate(self._tables.units):
            counts = self._calls.counts(self._m, number)
            if number in self._calls.attached:
                counts = _counted(self._functions[number])
            if counts:
                found[unit] = SolverStatistics(*counts[:4])
        return found

    def advancing(self) -> Sequence[str]:
        return ()

    def tried(self) -> Mapping[str, tuple[float, float, bool]]:
        return {}

    def close(self) -> None:
        self._closed = True
        self._host.stop = 1
        if self._attached is not None:
            with self._busy:  # the code comes back after its step
                self._attached.close()

    def _live(self) -> None:
        if self._closed:
            raise StepError(CLOSED)

    def note_strings(self) -> None:
        """Fetch the texts that units have brought."""
        if self._attached is not None:
            self.strings += self._attached.strings(len(self.strings))

    # ---------------------------------------------------------------- the whole loop

    def loop(self, cells: Sequence[int] | None, every: int = 1, *, jumps: bool = True) -> CompiledLoop:
        """The loop in the generated code, recording `cells`, or nothing; `every` and `jumps` as for a
        `Recorder`."""
        return CompiledLoop(self, cells, every, jumps)

    # ---------------------------------------------------------------- errors

    def fail(self) -> NoReturn:
        """Raise what the generated code says."""
        error = self._calls.error(self._m).contents
        if error.fault == _LOG_FULL:
            now = float(self.read(self._tables.now))
            raise StepError(f"more than {self._host.events_room} events at t = {now:.9g}")
        found, names = _core_error(self._calls, self._m), self._calls.names
        if self._attached is not None:
            from upbeat import _native

            said, cause = self._attached.take_trouble()
            if found.fault == Fault.REFUSED and error.code == _STATUS and found.unit in self._functions:
                status = int(error.a)
                text = said or _message(self._functions[found.unit])
                fault = Fault.UNABLE if status == -1 else found.fault
                found = found._replace(fault=fault, status=status, message=text, cause=cause)
            addressed = [n for n, one in self._entered.items() if isinstance(one, _native.Addresses)]
            complaints = {
                n: one.complaints for n, one in self._entered.items() if isinstance(one, _native.Fmu)
            }
            names = replace(names, by_address=frozenset(addressed), complaints=complaints)
        raise blame(found, names, self.read) from found.cause


def _function(table: int, place: int, *signature: Any) -> tuple[Any, Any]:
    """A function of an `upbeat_unit` (unit.h), or None, and its `self`."""
    words: Any = (c_void_p * 15).from_address(table)
    return (ctypes.CFUNCTYPE(*signature)(words[place]) if words[place] else None), c_void_p(words[1])


def _message(table: int) -> str:
    message, own = _function(table, 8, ctypes.c_char_p, c_void_p)
    text = message(own) if message else None
    return text.decode(errors="replace") if text else ""


def _counted(table: int) -> Any:
    statistics, own = _function(table, 14, ctypes.c_int, c_void_p, POINTER(c_int64))
    counts = (c_int64 * 4)()
    return counts if statistics and statistics(own, counts) == 0 else None


def _at(address: int, count: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Cells in memory, as numbers and as integers."""
    size = max(1, count)
    reals = np.ctypeslib.as_array((c_double * size).from_address(address))
    return reals, np.ctypeslib.as_array((c_int64 * size).from_address(address))


def _cells(calls: Calls, m: c_void_p) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    return _at(calls.cells(m), len(calls.kinds))


# ----------------------------------------------------------------------------------------------------
# What stopped the generated code, in the words of the other engines.


def _core_error(calls: Calls, m: c_void_p) -> CoreError:
    """What went wrong, as the native core would say it."""
    error, tables = calls.error(m).contents, calls.part.tables
    call, unit, time, value, message, inside = 0, -1, error.time, error.value, "", None
    if error.row >= 0:
        row = tables.code[error.row].tolist()
        call = CALLS.get(row[0], 0)
        unit = row[1] if call else -1
    elif error.fault == Fault.REFUSED:
        unit, call = int(error.start), int(error.until)
    if error.row >= 0 or unit >= 0:
        time = calls.clock(m, unit)
    if error.fault == Fault.REFUSED and error.code == _INSIDE and unit in calls.nests:
        inner, at = calls.nests[unit], c_void_p(calls.inside(m, unit))
        reals, integers = _cells(inner, at)
        shown = [float(reals[i] if kind is Kind.REAL else integers[i]) for i, kind in enumerate(inner.kinds)]
        inside = (tuple(_core_error(inner, at)), shown)
    elif error.fault == Fault.REFUSED and error.code != _STATUS:
        message = _said(calls, m, error, unit)
    elif error.fault == Fault.CHATTERING:
        message, value = _chatter(calls, m, error.time)
    return CoreError(
        error.fault,
        call,
        error.row,
        unit,
        error.cell,
        time,
        error.start,
        error.until,
        value,
        1,
        message,
        None,
        inside,
    )


def _said(calls: Calls, m: c_void_p, error: _Error, unit: int) -> str:
    """What a unit says."""
    tables = calls.part.units[unit].tables
    a, b, d = error.a, error.b, error.d
    steps = tables.solver.max_steps if isinstance(tables, OdeTables) else 0
    texts = {
        1: f"cannot advance backwards, from {a:.9g} to {b:.9g}",
        2: f"steps of {a:g} would need more than 1,000,000,000 solver steps to cover {b:g}; choose a larger step",
        3: f"the step size fell to {a:.3g} at t = {b:.9g}: the solution grows without bound, jumps, or is too "
        "stiff for an explicit method",
        4: f"{steps:,} steps did not reach {a:.9g} (at t = {b:.9g}, step size {d:.3g}); loosen rtol and atol, "
        "raise 'max_steps', or take shorter communication steps",
        5: f"there is no solver {a:.0f}: it has {b:.0f}, counted from 0",
        6: "nan is neither true nor false" if b == KINDS[Kind.BOOLEAN] else f"{a!r} is not an integer",
        8: f"there is no mode {a:.0f}, only 0 to {b:.0f}",
        9: "the time of the next event is nan",
        10: f"an input takes polynomials of degree 0 to {b - 1:.0f} in this program, not {a:.0f} coefficients",
        11: f"there is no input number {a:.0f}",
    }
    if error.code == 7 and isinstance(tables, OdeTables):
        texts[7] = _endless(calls, m, tables, unit, a)
    return f"{'SolverError' if isinstance(tables, OdeTables) else 'DiscreteError'}: {texts[error.code]}"


def _endless(calls: Calls, m: c_void_p, tables: OdeTables, unit: int, t: float) -> str:
    """Which events follow each other without end inside a unit."""
    plan = tables.reactions
    assert plan is not None
    saved, state = np.zeros(calls.saved_size() // 8 + 1), np.zeros(tables.state_size)
    calls.save(m, c_void_p(saved.ctypes.data))
    calls.pack(c_void_p(saved.ctypes.data), unit, c_void_p(state.ctypes.data))
    due = state[tables.state_size - plan.extra + len(plan.mutable) + plan.watched :][: plan.watched] != 0.0
    happening = [
        f"'{one.name}'"
        for one in plan.events
        if one.indicator >= 0 and due[one.indicator] and not due[list(plan.rivals[one.indicator])].any()
    ]
    return endless(", ".join(happening), t)


def _chatter(calls: Calls, m: c_void_p, t: float) -> tuple[str, float]:
    """The lines that `native.errors` reads, and how far events are apart."""
    times, numbers = (c_double * 8)(), (c_int32 * 18)()
    calls.latest(m, times, numbers)
    steps, events = numbers[16], numbers[17]
    first = steps - min(steps, 8)
    lines = []
    for i in range(first, steps):
        why = numbers[i % 8]
        lines.append("-" if why == KNOWN_EVENT else f"#{-1 - why}" if why < 0 else f"'{why}")
    lines += [f"!{numbers[8 + i % 8]}" for i in range(events - min(events, 8), events)]
    return "\n".join(lines), (t - times[first % 8]) / (steps - 1 - first)


# ----------------------------------------------------------------------------------------------------


class CompiledLoop:
    """The loop in the generated code; the calls are those of the core's (`native.machine.CoreLoop`)."""

    def __init__(
        self, machine: CompiledMachine, cells: Sequence[int] | None, every: int, jumps: bool
    ) -> None:
        self._machine = machine
        self._recorded = cells is not None
        self._columns = np.array(cells or (), np.int32)
        self._every = every
        self._blocks = list(machine.tables.blocks)
        self._pace = 1
        """So many steps take about as long as one may be away."""
        host = machine._host
        host.width, host.columns = len(self._columns), self._columns.ctypes.data
        host.every = every
        self._left = np.zeros(len(self._columns), np.int64)
        if self._recorded and jumps and machine.tables.instant_block >= 0:
            host.left = self._left.ctypes.data
        self._known: dict[tuple[float, ...], int] = {}

    def begin(self, chunk: Chunk | None, limit: float = inf) -> Batch:
        """Everything that happens at the start time."""
        machine = self._machine
        machine._live()
        self._open(chunk)
        failed = machine._calls.begin(machine._m, byref(machine._host), c_double(limit))
        return self._batch(Status.FAILED if failed else Status.PAUSED)

    def run(
        self, chunk: Chunk | None, limit: float, budget_s: float, max_steps: int = 1 << 62, pause: float = inf
    ) -> Batch:
        """See `native.machine.CoreLoop.run`."""
        machine = self._machine
        machine._live()
        self._open(chunk)
        host, began = machine._host, perf_counter()
        while True:
            count = min(max_steps, self._pace)
            before = perf_counter()
            with machine._busy:
                machine._live()
                done = machine._calls.run(
                    machine._m, byref(host), c_double(limit), c_int64(count), c_double(pause)
                )
            status = Status(done)
            now = perf_counter()
            max_steps -= count
            if (
                status is not Status.PAUSED
                or max_steps <= 0
                or float(machine.read(machine.tables.now)) >= pause
            ):
                break
            if now - before < 0.1 * budget_s and self._pace < 1 << 40:
                self._pace *= 2
            elif now - before > 0.5 * budget_s and self._pace > 1:
                self._pace //= 2
            if now - began >= budget_s:
                break
        if status is Status.STOPPED:
            raise StepError(CLOSED)
        return self._batch(status)

    @property
    def rows(self) -> int:
        """How many rows are in the chunk by now, also while the loop is at work."""
        return int(self._machine._host.used)

    def after(self, rows: int) -> None:
        """So many rows have been offered before."""
        self._machine._host.until_due = (self._every - rows % self._every) % self._every + 1

    def fail(self) -> NoReturn:
        """Raise why the last stretch failed."""
        self._machine.fail()

    def _open(self, chunk: Chunk | None) -> None:
        host = self._machine._host
        host.rows = None if chunk is None else chunk.ctypes.data
        host.room, host.used, host.left_out = (0 if chunk is None else len(chunk)), 0, 0

    def _batch(self, status: Status) -> Batch:
        machine = self._machine
        host = machine._host
        machine._calls.told(byref(host))
        steps = machine._steps[: host.steps_used].copy()
        host.steps_used = 0
        runs = np.empty(len(steps), RUNS)
        for name in RUNS.names or ():
            runs[name] = steps[name]
        reasons: dict[int, Reason] = {}
        tables = machine.tables
        pacing = tables.pacing
        assert pacing is not None
        assert tables.pace is not None
        told = tables.pace[3]
        for i, why in enumerate(runs["reason"].tolist()):
            if why == KNOWN_EVENT:
                reasons[why] = Reason(KNOWN)
            elif why < 0:
                reasons[why] = tables.stop_reasons[-1 - why]
            elif why < len(told) and (told[why][0] or told[why][1]):
                numbers = tuple(steps["numbers"][i].tolist())
                code = self._known.setdefault(numbers, len(told) + len(self._known))
                runs["reason"][i] = code
                reasons[code] = pacing.why(*numbers)
            else:
                reasons[why] = pacing.why(float(why), 0.0, 0.0, 0.0)
        events = machine._taken(host.mark)
        blocks = {block: self._blocks[block] for block in set(runs["block"].tolist())}
        return Batch(
            status,
            float(machine.read(tables.now)),
            int(host.used),
            bool(host.left_out),
            StepRuns(runs, reasons, blocks),
            events,
        )
