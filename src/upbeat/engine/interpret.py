"""The reference engine: one `match` over the instructions of a program."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any

from upbeat.core.abilities import Model, Rollback, Unit
from upbeat.core.errors import RunError, StepError, UnitError
from upbeat.core.expr import Cell, Expr, Kernel
from upbeat.core.ports import Kind, Port, Signal, Value
from upbeat.master.program import (
    Advance,
    Block,
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
)

Cells = list[Value]
Kept = dict[str, tuple[Any, float]]
"""Saved units: the token and the own time of each."""


class Interpreter:
    """A machine (see `engine.machine`) in plain Python: any unit, any program."""

    def __init__(self, program: Program, models: Mapping[str, Model], start: float) -> None:
        self.fired: list[str] = []
        self._program = program
        self._blocks = program.blocks
        self._cells: Cells = list(program.layout.start)
        self._ports = {(unit, port.name): port for unit, model in models.items() for port in model.ports}
        self._clock = dict.fromkeys(models, start)
        self._slots: dict[int, tuple[Kept, dict[int, Value]]] = {}
        self._saved: tuple[Kept, Cells] | None = None
        self._values: dict[int, Callable[[Cells], Value]] = {}
        for instruction in program.instructions():
            match instruction:
                case Let(to, value):
                    self._values[id(value)] = _evaluator(value, program.layout.of(to).kind)
                case If(condition=test) | Repeat(until=test):
                    self._values[id(test)] = _evaluator(test, Kind.BOOLEAN)
        self._units: dict[str, Unit] = {}
        for name, model in models.items():
            self._units[name] = self._call(name, "instantiate", model.instantiate, name, start)

    def execute(self, block: str) -> None:
        self._run(self._blocks[block])

    def _run(self, block: Block) -> None:
        cells, units = self._cells, self._units
        for instruction in block:
            try:
                match instruction:
                    case Get(unit, port, to):
                        self._store(instruction, units[unit].get(port))
                    case Set(unit, port, by):
                        units[unit].set(port, self._course(unit, port, by))
                    case Advance():
                        self._advance(instruction)
                    case Let(to, value):
                        cells[to] = self._values[id(value)](cells)
                    case If(condition, then, orelse):
                        self._run(then if self._values[id(condition)](cells) else orelse)
                    case Repeat():
                        self._repeat(instruction)
                    case Jump(unit, again):
                        cells[again] = bool(units[unit].jump())
                    case Save(saved, registers, slot):
                        contents = {i: cells[i] for r in registers for i in self._span(r)}
                        self._slots[slot] = self._kept(saved), contents
                    case Restore(slot):
                        kept, contents = self._slots[slot]
                        self._restore_units(kept)
                        for cell, content in contents.items():
                            cells[cell] = content
                    case Fire(event):
                        self.fired.append(event)
            except RunError:
                raise
            except Exception as cause:
                raise self._blamed(instruction, _text(cause)) from cause

    def _course(self, unit: str, port: str, by: tuple[int, ...]) -> list[Signal]:
        size = self._ports[unit, port].size
        if size is None:
            return [self._cells[r] for r in by]
        return [tuple(self._cells[r : r + size]) for r in by]

    def _advance(self, instruction: Advance) -> None:
        cells, unit = self._cells, instruction.unit
        t, to = cells[instruction.start], cells[instruction.until]
        reached = float(self._units[unit].advance(t, to, instruction.early))  # type: ignore[arg-type]
        if reached != to and not (instruction.early and t <= reached <= to):  # type: ignore[operator]
            raise self._blamed(instruction, f"it stopped at {reached:.9g} instead of {to:.9g}")
        cells[instruction.reached] = self._clock[unit] = reached

    def _store(self, instruction: Get, value: Signal) -> None:
        port = self._ports[instruction.unit, instruction.port]
        if type(value) is float and port.size is None and port.kind is Kind.REAL and isfinite(value):
            self._cells[instruction.to] = value  # by far the most frequent case
            return
        try:
            values = _cells_of(port, value)
        except (TypeError, ValueError) as cause:
            size = "" if port.size is None else f"[{port.size}]"
            what = f"output '{port.name}' is {port.kind.value}{size}, but the unit gave {value!r}"
            raise self._blamed(instruction, what) from cause
        if port.kind is Kind.REAL:
            for i, entry in enumerate(values):
                if not isfinite(entry):  # type: ignore[arg-type]
                    label = port.name if port.size is None else f"{port.name}[{i}]"
                    raise self._blamed(instruction, f"output '{label}' is {entry}")
        self._cells[instruction.to : instruction.to + len(values)] = values

    def _blamed(self, instruction: Instruction, what: str) -> UnitError:
        """The error that names the unit, the call and the time."""
        match instruction:
            case Get(unit, port):
                call = f"get('{port}')"
            case Set(unit, port):
                call = f"set('{port}')"
            case Advance(unit, start, until):
                call = f"advance({self._cells[start]:.9g}, {self._cells[until]:.9g})"
            case Jump(unit):
                call = "jump()"
            case _:
                raise TypeError(f"{instruction} calls no unit")
        return UnitError(what, unit=unit, call=call, time=self._clock[unit])

    def _repeat(self, loop: Repeat) -> None:
        for _ in range(loop.most):
            self._run(loop.body)
            if self._values[id(loop.until)](self._cells):
                return
        if loop.exhausted == "fail":
            raise StepError(f"{loop.what} did not end within {loop.most} rounds")

    def _call(self, unit: str, call: str, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except UnitError:
            raise
        except Exception as cause:
            raise UnitError(_text(cause), unit=unit, call=call, time=self._clock[unit]) from cause

    def _span(self, register: int) -> range:
        return range(register, register + self._program.layout.of(register).size)

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
            self._call(name, "restore()", self._units[name].restore, token)  # type: ignore[attr-defined]
            self._clock[name] = time

    # ---------------------------------------------------------------- for the loop

    def read(self, cell: int) -> Value:
        return self._cells[cell]

    def row(self, cells: tuple[int, ...]) -> Sequence[Value]:
        contents = self._cells
        return [contents[cell] for cell in cells]

    def write(self, cell: int, value: Value) -> None:
        self._cells[cell] = value

    def set_input(self, unit: str, port: str, value: Signal) -> None:
        self._call(unit, f"set('{port}')", self._units[unit].set, port, [value])

    def save(self) -> None:
        self._saved = self._kept(tuple(self._units)), list(self._cells)

    def restore(self) -> None:
        if self._saved is None:
            raise StepError("nothing was saved")
        kept, cells = self._saved
        self._restore_units(kept)
        self._cells[:] = cells

    def close(self) -> None:
        for unit in self._units.values():
            close = getattr(unit, "close", None)
            if close is not None:
                close()


def _evaluator(value: Expr, kind: Kind) -> Callable[[Cells], Value]:
    """A function of the cells that gives `value` as `kind`; a bare cell is copied as it is."""
    if isinstance(value, Cell):
        source = value.index
        if kind is Kind.STRING:
            return lambda cells: cells[source]
        convert = _CONVERT[kind]
        return lambda cells: convert(cells[source])
    kernel = Kernel.over_cells((value,))
    function, sources, convert = kernel.python(), kernel.input_cells, _FROM_FLOAT[kind]
    return lambda cells: convert(function([float(cells[i]) for i in sources])[0])


def _text(cause: Exception) -> str:
    return f"{type(cause).__name__}: {str(cause) or 'no message'}"


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
_ACCEPT: dict[Kind, Callable[[Any], Value]] = {
    Kind.REAL: float,
    Kind.INTEGER: operator.index,
    Kind.BOOLEAN: bool,
}


def _cells_of(port: Port, value: Any) -> list[Value]:
    """What a unit gave for `port`, one value per cell; TypeError or ValueError if it does not fit."""
    if port.kind is Kind.STRING:
        values = [value] if port.size is None else list(value)
        if not all(isinstance(entry, str) for entry in values):
            raise TypeError("not a string")
    else:
        accept = _ACCEPT[port.kind]
        values = [accept(value)] if port.size is None else [accept(entry) for entry in value]
    if len(values) != port.cells:
        raise ValueError(f"{len(values)} values")
    return values
