"""Lowering: from a program to the flat tables that the native core runs.

Nothing here needs the core itself, so that tables can also be written to a file.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from upbeat.core.abilities import Model
from upbeat.core.expr import Number
from upbeat.core.ports import Kind, Port, Value
from upbeat.core.reasons import LANDED
from upbeat.engine.native.rows import Rows
from upbeat.engine.native.tables import KINDS, WIDTH, Code, PaceTable, Shares, Tables
from upbeat.engine.schedule import Schedule
from upbeat.master.program import (
    Advance,
    Block,
    Call,
    Due,
    Fall,
    Fire,
    Fit,
    Get,
    Grid,
    If,
    Instruction,
    Jump,
    Let,
    Pacing,
    Pick,
    Program,
    Rank,
    Repeat,
    Restore,
    Save,
    Set,
    Slope,
    Solve,
)


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
            case Solve(size, matrix, right, to):
                self.to.emit(instruction, Code.SOLVE, size, matrix, right, to)
            case Fit(orders, samples, kept, apart, to, alone):
                at = self.to.operand([*samples, kept, apart, to, int(alone), *orders])
                self.to.emit(instruction, Code.FIT, len(orders), at)
            case Fall(counts, curves, span, behind, to):
                at = self.to.operand([curves, span, behind, to, *counts])
                self.to.emit(instruction, Code.FALL, len(counts), at)
            case Pick(first, count, index, to):
                self.to.emit(instruction, Code.PICK, first, count, index, to)
            case Rank(first, count, value, to):
                self.to.emit(instruction, Code.RANK, first, count, value, to)
            case Grid(first, now, limit, to):
                self.to.emit(instruction, Code.GRID, first, now, limit, to)
            case Call(called, what):
                self.calls.append(partial(called, what))
                self.to.emit(instruction, Code.CALL, len(self.calls) - 1)
            case Slope(unit, output, given, to):
                count = self.port(unit, output, (to,)).cells * self.port(unit, given, (to,)).cells
                numbers = self._numbers[unit][output], self._numbers[unit][given]
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
        if loop.most > 0:
            self.block(loop.body)
        else:
            until = Number(0.0)  # no round at all: straight to what happens when they are used up
        condition = self.to.expression([until], [])
        self.to.emit(loop, Code.UNTIL, number, condition, loop.most, back, int(loop.exhausted == "fail"))
        self.to.label()
