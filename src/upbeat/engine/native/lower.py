"""Lowering: from a program to the flat tables that the native core runs.

Nothing here needs the core itself, so that tables can also be written to a file.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from upbeat.core.abilities import Model
from upbeat.core.expr import Cell, Expr, Kernel, Number, cells
from upbeat.core.expr.nodes import Leaf, fold, with_args
from upbeat.core.ports import Kind, Port, Value
from upbeat.core.reasons import LANDED, Reason
from upbeat.core.records import dataclass
from upbeat.master.program import (
    Advance,
    Block,
    Budget,
    Call,
    Computation,
    Due,
    Fire,
    Get,
    If,
    Instruction,
    Jump,
    Layout,
    Let,
    Pacing,
    Program,
    Repeat,
    Restore,
    Save,
    Set,
    Slope,
)
from upbeat.units.equations.lowered import BY_TIME

if TYPE_CHECKING:
    from upbeat.engine.schedule import Schedule

# ----------------------------------------------------------------------------------------------------
# A program as flat tables of numbers: what the native core reads (native/src/program.hpp).

Ints = npt.NDArray[np.int32]
Expression = tuple[int, list[int], list[int]]
"""A kernel's number, the cells it reads, the cells it writes."""

Shares = list[list[tuple[int, list[tuple[int, int]], bool]]]
"""How cores share a block out: for each of them what it does, as the row where that begins, the places
(core, position) in these lists that must be done before, and whether another core may do it as well. Nothing:
the block is not shared."""

PaceTable = tuple[list[int], list[int], list[int], list[tuple[bool, int, bool]]]
"""What the loop needs of a pace: the cells `limit`, `until`, `block`, `reason`, `again`, `fired`; the blocks
`propose`, `review`, `note`, `changed`, `keep`, `back` (-1: there is none); the step blocks; and of each
reason whether it tells a time, how many other numbers, and whether the step ends at an event."""

KINDS: Mapping[Kind, int] = {Kind.REAL: 0, Kind.INTEGER: 1, Kind.BOOLEAN: 2, Kind.STRING: 3}
WIDTH = 7
"""The length of a row of code."""


class Code(enum.IntEnum):
    """The core's instructions besides computations; `native/src/program.hpp` lists their operands."""

    END = 0
    GET = 1
    SET = 2
    GATHER = 3
    COMPUTE = 4
    COPY = 5
    ADVANCE = 6
    JUMP = 7
    SAVE = 8
    RESTORE = 9
    BEGIN = 10
    UNTIL = 11
    UNLESS = 12
    GOTO = 13
    FIRE = 14
    SLOPE = 16
    DUE = 20
    GET_EVENT = 21
    CALL = 26


@dataclass(frozen=True, eq=False)
class Tables:
    """A lowered program: what the core reads, and (from `strings` to `origins`) what gives its numbers names.

    `start_block` and `instant_block` are numbers of blocks, or -1 if there is nothing in them; `due` is the
    cell of the next known event, or -1; `stops` that of who has ended a step, or -1; `ends` that of
    whether the run is over, or -1; `budget` the first
    of the two of the budget of events, or -1, and `chatter` what to say when it is spent. `events` has the
    kind of each event's value and its number of cells, 0 if it has no value. `calls` are the functions that
    `CALL` names, and `pacing` is what `pace` was made of.
    """

    start: npt.NDArray[np.int64]
    kinds: Ints
    code: Ints
    entries: Ints
    operands: Ints
    kernels: tuple[Kernel, ...]
    expressions: list[Expression]
    start_block: int
    instant_block: int
    now: int
    next: int
    due: int
    stops: int
    ends: int
    stop_reasons: tuple[Reason, ...]
    budget: int
    chatter: Budget | None
    slots: int
    loops: int
    strings: tuple[str, ...]
    blocks: Mapping[str, int]
    events: Mapping[str, tuple[Kind, int]]
    units: tuple[str, ...]
    origins: tuple[Instruction | None, ...]
    shares: list[Shares]
    pace: PaceTable | None
    calls: list[Callable[..., None]]
    pacing: Pacing | None
    takes_inputs: bool


# ----------------------------------------------------------------------------------------------------
# The rows of the native core's tables while they grow: instructions, their operands and their kernels.


@dataclass(slots=True)
class Rows:
    """What has been written so far; `origins` are the instructions that rows come from."""

    layout: Layout
    rows: list[list[int]] = field(default_factory=list)
    origins: list[Instruction | None] = field(default_factory=list)
    operands: list[int] = field(default_factory=list)
    kernels: list[Kernel] = field(default_factory=list)
    expressions: list[Expression] = field(default_factory=list)
    _label: int = 0
    """No instruction before this row may be merged with a later one: something jumps here."""

    def emit(self, origin: Instruction | None, code: int, *operands: int) -> int:
        row = [int(code), *operands]
        self.rows.append(row + [0] * (WIDTH - len(row)))
        self.origins.append(origin)
        return len(self.rows) - 1

    def label(self) -> int:
        self._label = len(self.rows)
        return self._label

    def operand(self, numbers: Sequence[int]) -> int:
        at = len(self.operands)
        self.operands.extend(numbers)
        return at

    def expression(self, values: Sequence[Expr], to: Sequence[int]) -> int:
        kernel = Kernel.over_cells(tuple(values))
        self.kernels.append(kernel)
        self.expressions.append((len(self.kernels) - 1, list(kernel.input_cells), list(to)))
        return len(self.expressions) - 1

    def lets(self, lets: Sequence[Let]) -> None:
        """Lets in a row become one kernel, in which equal parts are computed once; plain copies stay copies.

        A later Let sees what an earlier one computed: its expression is put in the place of the cell.
        That is exact for reals only, so anything that reads an integer or truth value just computed
        waits for the next kernel.
        """
        pending: dict[int, Expr] = {}
        layout = self.layout
        for let in lets:
            kind = layout.of(let.to).kind
            value = let.value
            copied = isinstance(value, Cell) and layout.of(value.index).kind is kind
            if copied and (not pending or kind is not Kind.REAL):
                self.compute(pending)
                self.copy(let)
                continue
            read = pending.keys() & cells(value) if pending else ()
            if any(layout.of(cell).kind is not Kind.REAL for cell in read):
                self.compute(pending)
            pending[let.to] = _with_cells(value, pending) if read else value
        self.compute(pending)

    def compute(self, pending: dict[int, Expr]) -> None:
        if pending:
            self.emit(None, Code.COMPUTE, self.expression(list(pending.values()), list(pending)))
            pending.clear()

    def copy(self, let: Let) -> None:
        assert isinstance(let.value, Cell)
        source, to = let.value.index, let.to
        last: list[int] = self.rows[-1] if len(self.rows) > self._label else [Code.END]
        if last[0] == Code.COPY:
            _, first, target, count, *_ = last
            grown = source == first + count and to == target + count
            # Copying a row of cells onto itself, further up, would read what it has just written.
            if grown and not first < target <= first + count:
                last[3] = count + 1
                return
        self.emit(let, Code.COPY, source, to, 1)


def _with_cells(value: Expr, known: Mapping[int, Expr]) -> Expr:
    def leaf(node: Leaf) -> Expr:
        return known.get(node.index, node) if isinstance(node, Cell) else node

    return fold(value, leaf, with_args)


# ----------------------------------------------------------------------------------------------------


def port_numbers(model: Model) -> dict[str, int]:
    """The numbers under which a unit of this model knows its ports in the core: their places."""
    return {port.name: number for number, port in enumerate(model.ports)}


def slopes_asked(program: Program) -> dict[str, list[tuple[str, str]]]:
    """For each unit, the pairs (output, input) whose slopes a program asks for; each once."""
    asked = dict.fromkeys((i.unit, i.output, i.input) for i in program.instructions() if isinstance(i, Slope))
    found: dict[str, list[tuple[str, str]]] = {}
    for unit, output, port in asked:
        found.setdefault(unit, []).append((output, port))
    return found


def lower(
    program: Program, models: Mapping[str, Model], schedules: Mapping[str, Schedule] | None = None
) -> Tables:
    """The tables of `program` for units of these `models`, in their order.

    Blocks with a schedule come twice: as they are, and in the pieces that the cores do.
    """
    rows = Rows(program.layout)
    lowering = _Lowering(program, models, rows)
    entries = []
    for block in program.blocks.values():
        entries.append(len(rows.rows))
        lowering.block(block)
        rows.emit(None, Code.END)
    shares = [lowering.shares(block, (schedules or {}).get(name)) for name, block in program.blocks.items()]
    layout = program.layout
    blocks = {name: i for i, name in enumerate(program.blocks)}
    strings: dict[str, int] = {}
    kinds = [register.kind for register in layout.registers for _ in range(register.size)]
    start = [_bits(value, kind, strings) for value, kind in zip(layout.start, kinds, strict=True)]
    return Tables(
        start=np.array(start, np.int64),
        kinds=np.array([KINDS[kind] for kind in kinds], np.int32),
        code=np.array(rows.rows, np.int32).reshape(-1, WIDTH),
        entries=np.array(entries, np.int32),
        operands=np.array(rows.operands, np.int32),
        kernels=tuple(rows.kernels),
        expressions=rows.expressions,
        start_block=blocks["start"] if program.start else -1,
        instant_block=blocks["instant"] if program.instant else -1,
        now=program.now,
        next=program.next,
        due=-1 if program.due is None else program.due,
        stops=-1 if program.stops is None else program.stops.register,
        ends=-1 if program.ends is None else program.ends,
        stop_reasons=program.stop_reasons,
        budget=-1 if program.budget is None else program.budget.register,
        chatter=program.budget,
        slots=lowering.slots,
        loops=lowering.loops,
        strings=tuple(strings),
        blocks=blocks,
        events={name: (kind, cells) for name, (_, kind, cells) in lowering.events.items()},
        units=tuple(models),
        origins=tuple(rows.origins),
        shares=shares,
        pace=None if program.pace is None else _pace(program.pace, blocks),
        calls=lowering.calls,
        pacing=program.pace,
        takes_inputs=program.takes_inputs,
    )


def _pace(pace: Pacing, blocks: Mapping[str, int]) -> PaceTable:
    cells = [pace.limit, pace.until, pace.block, pace.reason, pace.again, pace.fired]
    names = ("propose", "review", "note", "changed", "keep", "back")
    reasons = [(one.at is not None, len(one.of), one.kind in LANDED) for one in pace.reasons]
    steps = [blocks[name] for name in pace.steps]
    return cells, [blocks.get(name, -1) if name in pace.blocks else -1 for name in names], steps, reasons


def _bits(value: Value, kind: Kind, strings: dict[str, int]) -> int:
    if kind is Kind.REAL:
        return int(struct.unpack("=q", struct.pack("=d", value))[0])
    if kind is Kind.STRING:
        return strings.setdefault(str(value), len(strings))
    return int(value)


@dataclass(slots=True)
class _Lowering:
    program: Program
    models: Mapping[str, Model]
    to: Rows
    events: dict[str, tuple[int, Kind, int]] = field(default_factory=dict)
    """Each one's number, and the kind and number of cells of its values."""
    slots: int = 0
    loops: int = 0
    calls: list[Callable[..., None]] = field(default_factory=list)
    _units: dict[str, int] = field(init=False)
    _numbers: dict[str, dict[str, int]] = field(init=False)
    _ports: dict[tuple[str, str], Port] = field(init=False)

    def __post_init__(self) -> None:
        self._units = {name: i for i, name in enumerate(self.models)}
        self._numbers = {name: port_numbers(model) for name, model in self.models.items()}
        self._ports = {(name, port.name): port for name, model in self.models.items() for port in model.ports}

    def block(self, block: Block) -> None:
        self.to.label()
        lets: list[Let] = []
        for instruction in block:
            if isinstance(instruction, Let):
                lets.append(instruction)
                continue
            self.to.lets(lets)
            lets = []
            self.instruction(instruction)
        self.to.lets(lets)

    def shares(self, block: Block, schedule: Schedule | None) -> Shares:
        """The pieces of a block that cores do, each one closed like a block of its own."""
        found: Shares = []
        for items in () if schedule is None else schedule.cores:
            found.append([])
            for item in items:
                found[-1].append((len(self.to.rows), list(item.waits), item.loose))
                self.block(tuple(block[i] for i in item.instructions))
                self.to.emit(None, Code.END)
        return found

    def instruction(self, instruction: Instruction) -> None:
        match instruction:
            case Get(unit, name, to):
                port = self.port(unit, name, (to,))
                anything = port.extra or instruction.trial
                kind = Kind.INTEGER if anything else port.kind  # whose cells are taken as they are
                operands = self._numbers[unit][name], to, port.cells, KINDS[kind]
                code = Code.GET_EVENT if port.event else Code.GET
                self.to.emit(instruction, code, self._units[unit], *operands)
            case Set(unit, name, by):
                self.set(instruction, self.port(unit, name, by))
            case Advance(unit, start, until, reached, early):
                self.to.emit(instruction, Code.ADVANCE, self._units[unit], start, until, reached, int(early))
            case Jump(unit, again):
                kind = self.program.layout.of(again).kind
                self.to.emit(instruction, Code.JUMP, self._units[unit], again, KINDS[kind])
            case Save(units, registers, slot):
                saved = [i for r in registers for i in range(r, r + self.program.layout.of(r).size)]
                at = self.to.operand([*(self._units[unit] for unit in units), *saved])
                self.to.emit(instruction, Code.SAVE, slot, at, len(units), len(saved))
                self.slots = max(self.slots, slot + 1)
            case Restore(slot):
                self.to.emit(instruction, Code.RESTORE, slot)
                self.slots = max(self.slots, slot + 1)
            case Repeat():
                self.repeat(instruction)
            case If(condition, then, orelse):
                branch = self.to.emit(instruction, Code.UNLESS, self.to.expression([condition], []))
                self.block(then)
                if orelse:
                    leave = self.to.emit(instruction, Code.GOTO)
                    self.to.rows[branch][2] = self.to.label()
                    self.block(orelse)
                    self.to.rows[leave][1] = self.to.label()
                else:
                    self.to.rows[branch][2] = self.to.label()
            case Computation():
                listed = instruction.listed
                place = (self.to.operand(listed),) if listed else ()
                self.to.emit(instruction, instruction.number, *instruction.operands, *place)
            case Call(called, what):
                self.calls.append(partial(called, what))
                self.to.emit(instruction, Code.CALL, len(self.calls) - 1)
            case Slope(unit, output, given, to):
                self.port(unit, output, (to,))
                numbers = self._numbers[unit][output], self._numbers[unit].get(given, BY_TIME)
                count = instruction.cells(self._ports)
                self.to.emit(instruction, Code.SLOPE, self._units[unit], *numbers, to, count)
            case Due(unit, to):
                self.to.emit(instruction, Code.DUE, self._units[unit], to)
            case Fire():
                self.fire(instruction)

    def port(self, unit: str, name: str, registers: Sequence[int]) -> Port:
        """The port, whose cells the registers must be able to hold: the core copies them as they are."""
        port = self._ports[unit, name]
        for register in registers:
            kind = self.program.layout.of(register).kind
            if kind is not port.kind:
                raise ValueError(f"'{unit}.{name}' is {port.kind.value}, but its register is {kind.value}")
        return port

    def set(self, instruction: Set, port: Port) -> None:
        by, width = instruction.by, port.cells
        number = self._numbers[instruction.unit][instruction.port]
        head = self._units[instruction.unit], number, len(by), width
        if by == tuple(by[0] + k * width for k in range(len(by))):
            cells = range(by[0], by[0] + len(by) * width)
            computed = not self.program.computed.isdisjoint(cells)
            checked = port.kind is Kind.REAL and computed and not instruction.trial
            self.to.emit(instruction, Code.SET, *head, by[0], int(checked))
        else:
            self.to.emit(instruction, Code.GATHER, *head, self.to.operand(by))

    def fire(self, instruction: Fire) -> None:
        kind, cells = Kind.BOOLEAN, 0
        if instruction.value is not None:
            register = self.program.layout.of(instruction.value)
            kind, cells = register.kind, register.size
        entry = (len(self.events), kind, cells)
        number, *shape = self.events.setdefault(instruction.event, entry)
        if shape != [kind, cells]:
            raise ValueError(f"the event '{instruction.event}' fires with values of different kinds")
        self.to.emit(instruction, Code.FIRE, number, -1 if not cells else instruction.value or 0, cells)

    def repeat(self, loop: Repeat) -> None:
        number = self.loops
        self.loops += 1
        self.to.emit(loop, Code.BEGIN, number)
        back = self.to.label()
        until = loop.until
        if loop.max_iterations > 0:
            self.block(loop.body)
        else:
            until = Number(0.0)  # no round at all: straight to what happens when they are used up
        condition = self.to.expression([until], [])
        self.to.emit(
            loop, Code.UNTIL, number, condition, loop.max_iterations, back, int(loop.exhausted == "fail")
        )
        self.to.label()
