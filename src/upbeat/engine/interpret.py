"""The reference engine: one `match` over the instructions of a program."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property, partial
from math import isfinite, isnan
from operator import itemgetter
from typing import Any

from upbeat.core.abilities import Model, Rollback, Serialise, Unit, instantiated
from upbeat.core.errors import FAULTS, EndRequest, MissingExtra, RunError, StepError, UnitError
from upbeat.core.expr import Cell, Expr, Kernel
from upbeat.core.ports import Kind, Port, Signal, Value
from upbeat.engine.machine import (
    NO_SLOPES,
    NO_TIME,
    UNPACKABLE,
    Fired,
    close_all,
    due_text,
    exhausted_error,
    input_text,
    nested_cell,
    output_text,
    reached_text,
    slope_text,
    text_of,
)
from upbeat.engine.packing import Contents, Packing, foreign
from upbeat.master.program import (
    Advance,
    Block,
    Call,
    Cells,
    Computation,
    Due,
    Fire,
    Get,
    If,
    Instruction,
    Jump,
    Let,
    Program,
    Repeat,
    Restore,
    Save,
    Set,
    Slope,
    UnitCall,
)
from upbeat.units.process.wire import RemoteEnd
from upbeat.units.solving.integrate import HasStatistics, SolverStatistics

# ----------------------------------------------------------------------------------------------------
# Contents of cells in the interpreter: what expressions compute and units give, as the kind of the cell.


def evaluator(value: Expr, kind: Kind, texts: Collection[int] = ()) -> Callable[[Cells], Value]:
    """A function of the cells that gives `value` as `kind`; a bare cell is copied as it is.

    `texts` are the cells that hold strings. All one can do with them is compare them.
    """
    if isinstance(value, Cell):
        source = value.index
        if kind is Kind.STRING:
            return lambda cells: cells[source]
        convert = _CONVERT[kind]
        return lambda cells: convert(cells[source])
    kernel = Kernel.over_cells((value,))
    function, sources, convert = kernel.python(), kernel.input_cells, _FROM_FLOAT[kind]
    if any(source in texts for source in sources):
        return lambda cells: convert(function(_numbered([cells[i] for i in sources]))[0])
    return lambda cells: convert(function([float(cells[i]) for i in sources])[0])


def _numbered(values: Cells) -> list[float]:
    """Numbers as they are; equal texts become equal numbers, as in the pool of the native engine."""
    pool: dict[str, float] = {}
    return [
        pool.setdefault(value, float(len(pool))) if isinstance(value, str) else float(value)
        for value in values
    ]


def _nearest(value: float) -> int:
    """The nearest integer of 64 bits, half to even; 0 for what has none."""
    return round(value) if abs(value) < 2.0**63 else 0


def _whole(value: Any) -> int:
    return _nearest(value) if isinstance(value, float) else int(value)


_CONVERT: dict[Kind, Callable[[Any], Value]] = {Kind.REAL: float, Kind.INTEGER: _whole, Kind.BOOLEAN: bool}
_FROM_FLOAT: dict[Kind, Callable[[float], Value]] = {
    Kind.REAL: float,
    Kind.INTEGER: _nearest,
    Kind.BOOLEAN: bool,
}


def cells_of(port: Port, value: Any) -> list[Value]:
    """What a unit gave for `port`, one value per cell; TypeError or ValueError if it does not fit."""
    return port.accept(value)


def slopes_of(given: Any, count: int) -> list[float]:
    """What a unit gave as slopes; TypeError or ValueError if these are not `count` numbers."""
    values = [float(value) for value in given]
    if len(values) != count:
        raise ValueError(f"{len(values)} values")
    return values


# ----------------------------------------------------------------------------------------------------
# The calls of the interpreter: what instructions that call a unit do, and how a failing one is blamed.

Action = Callable[[], None]


class Calls:
    """Functions of no arguments for calls of units, with unit, port and cells looked up beforehand.

    Cells, units and clocks (the own time of each unit) are the interpreter's own; `computed` are the cells
    that expressions write.
    """

    def __init__(
        self,
        cells: Cells,
        units: Mapping[str, Unit],
        clock: dict[str, float],
        models: Mapping[str, Model],
        computed: Collection[int],
    ) -> None:
        self._cells, self._units, self._clock, self._computed = cells, units, clock, computed
        self._ports = {(unit, port.name): port for unit, model in models.items() for port in model.ports}
        self.busy: str | None = None
        """The unit that is being advanced just now."""

    def trajectory(self, instruction: Set) -> Callable[[], list[Signal]]:
        """The coefficients of a `Set`; those that were computed are checked."""
        cells, by, port = self._cells, instruction.by, self._ports[instruction.unit, instruction.port]
        size = port.size

        def coefficients() -> list[Signal]:
            return [cells[r] if size is None else tuple(cells[r : r + size]) for r in by]

        def checked() -> list[Signal]:
            for r in by:
                for i in range(port.cells):
                    if not isfinite(cells[r + i]):  # type: ignore[arg-type]
                        label = port.name if size is None else f"{port.name}[{i}]"
                        raise self.blamed(instruction, input_text(label, cells[r + i]))
            return coefficients()

        computed = any(r + i in self._computed for r in by for i in range(port.cells))
        if port.kind is Kind.REAL and computed and not instruction.trial:
            return checked
        if size is None and len(by) == 1:  # by far the most frequent case
            return lambda: [cells[by[0]]]
        return coefficients

    def advancing(self, instruction: Advance) -> Action:
        """Moves a unit's time, and checks how far it came."""
        cells, clock, unit, early = self._cells, self._clock, instruction.unit, instruction.early
        start, until, to = instruction.start, instruction.until, instruction.reached
        advance = self._units[unit].advance

        def action() -> None:
            t: Any = cells[start]
            wanted: Any = cells[until]
            self.busy = unit
            given = advance(t, wanted, early)
            self.busy = None
            try:
                reached = float(given)
            except (TypeError, ValueError) as cause:
                raise self.blamed(instruction, reached_text(given)) from cause
            if reached != wanted and not (early and t <= reached <= wanted):
                raise self.blamed(instruction, f"it stopped at {reached:.9g} instead of {wanted:.9g}")
            cells[to] = clock[unit] = reached

        return action

    def sloping(self, instruction: Slope) -> Action:
        """Asks for slopes."""
        cells, unit, y, u = self._cells, instruction.unit, instruction.output, instruction.input
        to, count = instruction.to, instruction.cells(self._ports)
        slope = getattr(self._units[unit], "slope", None)

        def action() -> None:
            if slope is None:
                raise self.blamed(instruction, NO_SLOPES)
            given = slope(y, u)
            try:
                cells[to : to + count] = slopes_of(given, count)
            except (TypeError, ValueError) as cause:
                raise self.blamed(instruction, slope_text(count, given)) from cause

        return action

    def storing(self, instruction: Get) -> Callable[[Signal | None], None]:
        """Checks what a unit gave and puts it into its cells."""
        cells, to, port = self._cells, instruction.to, self._ports[instruction.unit, instruction.port]
        anything = port.extra or instruction.trial

        def store(value: Signal | None) -> None:
            try:
                values = cells_of(port, value)
            except (TypeError, ValueError) as cause:
                size = "" if port.size is None else f"[{port.size}]"
                what = f"output '{port.name}' is {port.kind.value}{size}, but the unit gave {value!r}"
                raise self.blamed(instruction, what) from cause
            if port.kind is Kind.REAL:
                for i, entry in enumerate(values):
                    if not isfinite(entry) and not anything:  # type: ignore[arg-type]
                        label = port.name if port.size is None else f"{port.name}[{i}]"
                        raise self.blamed(instruction, output_text(label, entry))
            cells[to : to + len(values)] = values

        def store_real(value: Signal | None) -> None:
            if type(value) is float and isfinite(value):
                cells[to] = value
            else:
                store(value)

        def store_event(value: Signal | None) -> None:
            if value is not None:
                store(value)
            elif port.kind is not Kind.STRING:  # so that states of both engines are the same bytes
                cells[to : to + port.cells] = [port.kind.zero] * port.cells
            cells[to + port.cells] = value is not None

        if port.event:
            return store_event
        return store_real if port.kind is Kind.REAL and port.size is None else store

    def asking(self, instruction: Due) -> Action:
        """Asks when a unit has something to do."""
        cells, to, due = self._cells, instruction.to, self._units[instruction.unit].due  # type: ignore[attr-defined]

        def action() -> None:
            given = due()
            try:
                time = float(given)
            except (TypeError, ValueError) as cause:
                raise self.blamed(instruction, due_text(given)) from cause
            if isnan(time):
                raise self.blamed(instruction, NO_TIME)
            cells[to] = time

        return action

    def blamed(self, instruction: Instruction, what: str, kind: type[UnitError] = UnitError) -> UnitError:
        """The error that names the unit, the call and the time."""
        assert isinstance(instruction, UnitCall)
        call = instruction.call(self._cells.__getitem__)
        return kind(what, unit=instruction.unit, call=call, time=self._clock[instruction.unit])


# ----------------------------------------------------------------------------------------------------

Kept = dict[str, tuple[Any, float]]
"""Saved units: the token and the own time of each."""


Bound = list[tuple[Action, Instruction]]
"""A block with its units, ports and cells looked up: what is done, and the instruction to blame."""


class Interpreter:
    """A machine (see `engine.machine`) in plain Python: any unit, any program.

    The `match` is done once, when the machine is made: it turns each instruction into a function of
    no arguments, and running a block calls these in order. Matching again at every step would cost
    more than a unit's own call.
    """

    def __init__(self, program: Program, models: Mapping[str, Model], start: float) -> None:
        self.fired: list[Fired] = []
        self._made_of = program, models
        self._layout = program.layout
        self._ends = program.now, program.next
        self._texts = frozenset(
            register.first + i
            for register in program.layout.registers
            if register.kind is Kind.STRING
            for i in range(register.size)
        )
        self._cells: Cells = list(program.layout.start)
        self._clock = dict.fromkeys(models, start)
        self._slots: dict[int, tuple[Kept, dict[int, Value]]] = {}
        self._row_of: tuple[int, ...] | None = None
        self._picked: Callable[[Cells], Sequence[Value]] = list
        self._units: dict[str, Any] = {}  # each a `Unit`, with all the calls it promises
        try:
            for name, model in models.items():
                self._units[name] = self._call(name, "instantiate", self._instantiated, model, name, start)
        except BaseException:
            self.close()
            raise
        self._calls = Calls(self._cells, self._units, self._clock, models, program.computed)
        self._blocks = {name: self._bound(block) for name, block in program.blocks.items()}

    def _instantiated(self, model: Model, name: str, start: float) -> Any:
        return instantiated(model, name, start)

    def execute(self, block: str) -> None:
        self._run(self._blocks[block])

    def _run(self, bound: Bound) -> None:
        for action, instruction in bound:
            try:
                action()
            except RunError:
                raise
            except FAULTS as cause:
                if not isinstance(instruction, UnitCall):  # a pace in Python, or none
                    raise
                kind = EndRequest if isinstance(cause, RemoteEnd) else UnitError
                raise self._calls.blamed(instruction, text_of(cause), kind) from cause

    def _bound(self, block: Block) -> Bound:
        return [(self._action(instruction), instruction) for instruction in block]

    def _action(self, instruction: Instruction) -> Action:
        """What an instruction does."""
        cells, units, run = self._cells, self._units, self._run
        match instruction:
            case Get(unit, port):
                get, store = units[unit].get, self._calls.storing(instruction)
                return lambda: store(get(port))
            case Set(unit, port):
                give, trajectory = units[unit].set, self._calls.trajectory(instruction)
                return lambda: give(port, trajectory())
            case Let(to, value):
                compute = evaluator(value, self._layout.of(to).kind, self._texts)
                return lambda: cells.__setitem__(to, compute(cells))
            case Computation():
                return partial(instruction.compute, cells)
            case Call(called, what):
                assert self._made_of[0].pace is not None
                count_of = self._made_of[0].pace.fired
                return lambda: called(what, self.read, self.write, self._latest(count_of))
            case Slope():
                return self._calls.sloping(instruction)
            case Advance():
                return self._calls.advancing(instruction)
            case Jump(unit, again):
                jump = getattr(units[unit], "jump", lambda: False)  # a unit without discrete behaviour
                return lambda: cells.__setitem__(again, bool(jump()))
            case Due(unit, to):
                return self._calls.asking(instruction)
            case If(condition, then, orelse):
                test, yes, no = self._test(condition), self._bound(then), self._bound(orelse)
                return lambda: run(yes if test() else no)
            case Repeat(max_iterations, body, until, exhausted):
                test, bound = self._test(until), self._bound(body)

                def repeat() -> None:
                    for _ in range(max_iterations):
                        run(bound)
                        if test():
                            return
                    if exhausted == "fail":
                        raise exhausted_error(instruction, self.read, *self._ends)

                return repeat
            case Save(saved, registers, slot):
                extent = [r + i for r in registers for i in range(self._layout.of(r).size)]
                return lambda: self._slots.__setitem__(
                    slot, (self._kept(saved), {i: cells[i] for i in extent})
                )
            case Restore(slot):
                return lambda: self._restore_slot(slot)
            case Fire(event, None):
                return lambda: self.fired.append((event, None))
            case Fire(event, int(value)):
                first, last = value, value + self._layout.of(value).size
                if last - first == 1:
                    return lambda: self.fired.append((event, cells[first]))
                return lambda: self.fired.append((event, tuple(cells[first:last])))
            case _:
                raise TypeError(f"{instruction} is no instruction")

    def _latest(self, count: int) -> list[str]:
        """The names of the events that a pace is told of."""
        last = int(self._cells[count])
        return [name for name, _ in self.fired[len(self.fired) - last :]]

    def _test(self, condition: Expr) -> Callable[[], bool]:
        """What decides which way a program goes on."""
        holds, cells = evaluator(condition, Kind.BOOLEAN, self._texts), self._cells
        return lambda: bool(holds(cells))

    def _call(self, unit: str, call: str, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except (UnitError, StepError, MissingExtra):  # a nested run says itself what happened
            raise
        except FAULTS as cause:
            raise UnitError(text_of(cause), unit=unit, call=call, time=self._clock[unit]) from cause

    def _kept(self, units: Sequence[str]) -> Kept:
        kept = {}
        for name in units:
            unit = self._units[name]
            if not isinstance(unit, Rollback):
                what = "it cannot be set back to an earlier state"
                raise UnitError(what, unit=name, call="save()", time=self._clock[name])
            kept[name] = self._call(name, "save()", unit.save), self._clock[name]
        return kept

    def _restore_units(self, kept: Kept) -> None:
        for name, (token, time) in kept.items():
            self._call(name, "restore()", self._units[name].restore, token)
            self._clock[name] = time

    def _restore_slot(self, slot: int) -> None:
        kept, contents = self._slots[slot]
        self._restore_units(kept)
        for cell, content in contents.items():
            self._cells[cell] = content

    @property
    def units(self) -> Mapping[str, Any]:
        """The running units, for those who look at them next to the program."""
        return self._units

    def release(self, name: str) -> Any:
        """A unit that goes on elsewhere: this machine lets go of it, and must not be run any more."""
        return self._units.pop(name)

    # ---------------------------------------------------------------- for the loop

    def read(self, cell: int) -> Value:
        return self._cells[cell]

    def row(self, cells: tuple[int, ...]) -> Sequence[Value]:
        if cells is not self._row_of:  # nearly always the same ones, many times
            self._row_of = cells
            self._picked = itemgetter(*cells) if len(cells) > 1 else lambda all: [all[c] for c in cells]
        return self._picked(self._cells)

    def write(self, cell: int, value: Value) -> None:
        self._cells[cell] = value

    def set_input(self, unit: str, port: str, *coefficients: Signal) -> None:
        self._call(unit, f"set('{port}')", self._units[unit].set, port, list(coefficients))

    def save(self) -> tuple[Kept, Cells]:
        return self._kept(tuple(self._units)), list(self._cells)

    def restore(self, token: tuple[Kept, Cells]) -> None:
        kept, cells = token
        self._restore_units(kept)
        self._cells[:] = cells

    @cached_property
    def _packing(self) -> Packing:
        return Packing(*self._made_of)

    def to_bytes(self, token: tuple[Kept, Cells]) -> bytes:
        return self._packing.sealed(self.pack(token))

    def from_bytes(self, data: bytes) -> tuple[Kept, Cells]:
        return self.unpack(self._packing.opened(data))

    def pack(self, token: tuple[Kept, Cells]) -> bytes:
        kept, cells = token
        states = []
        for name, (state, _) in kept.items():
            unit = self._units[name]
            if not isinstance(unit, Serialise):
                raise UnitError(UNPACKABLE, unit=name, call="to_bytes()", time=self._clock[name])
            states.append(self._call(name, "to_bytes()", unit.to_bytes, state))
        return self._packing.written(Contents(cells, [time for _, time in kept.values()], states))

    def unpack(self, body: bytes) -> tuple[Kept, Cells]:
        cells, clocks, states = self._packing.read(body)
        kept: Kept = {}
        for (name, unit), time, state in zip(self._units.items(), clocks, states, strict=True):
            if not isinstance(unit, Serialise):
                raise UnitError(UNPACKABLE, unit=name, call="from_bytes()", time=self._clock[name])
            try:
                kept[name] = unit.from_bytes(state), time
            except FAULTS as cause:
                raise foreign(name, cause) from cause
        return kept, cells

    def read_inside(self, path: Sequence[str], cell: int) -> float | None:
        unit, *rest = path
        return nested_cell(self._units[unit], rest, cell)

    def solver_statistics(self) -> dict[str, SolverStatistics]:
        return {
            name: unit.statistics
            for name, unit in self._units.items()
            if isinstance(unit, HasStatistics) and unit.statistics is not None
        }

    def advancing(self) -> list[str]:
        return [] if self._calls.busy is None else [self._calls.busy]

    def tried(self) -> dict[str, tuple[float, float, bool]]:
        return {}

    def close(self) -> None:
        units, self._units = self._units, {}
        close_all(units)
