"""The reference engine: one `match` over the instructions of a program."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from upbeat.core.abilities import Model, Unit
from upbeat.core.errors import StepError, UnitError
from upbeat.core.expr import Cell, Expr, Kernel
from upbeat.core.ports import Kind, Port, Signal, Value
from upbeat.master.program import (
    Advance,
    Block,
    Fire,
    Get,
    If,
    Jump,
    Let,
    Program,
    Repeat,
    Restore,
    Save,
    Set,
    walk,
)

Cells = list[Value]


class Interpreter:
    """A machine (see `engine.machine`) in plain Python: any unit, any program."""

    def __init__(self, program: Program, models: Mapping[str, Model], start: float) -> None:
        self.fired: list[str] = []
        self._program = program
        self._cells: Cells = list(program.layout.start)
        self._ports = {
            (unit, port.name): port for unit, model in models.items() for port in model.ports
        }
        self._clock = dict.fromkeys(models, start)
        self._slots: dict[int, tuple[dict[str, Any], dict[int, Value]]] = {}
        self._saved: tuple[dict[str, Any], Cells, dict[str, float]] | None = None
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
        self._run(self._program.blocks[block])

    def _run(self, block: Block) -> None:
        cells = self._cells
        for instruction in block:
            match instruction:
                case Get(unit, port, to):
                    value = self._call(unit, f"get('{port}')", self._units[unit].get, port)
                    self._store(unit, port, to, value)
                case Set(unit, port, by):
                    size = self._ports[unit, port].size
                    course = [cells[r] if size is None else tuple(cells[r : r + size]) for r in by]
                    self._call(unit, f"set('{port}')", self._units[unit].set, port, course)
                case Let(to, value):
                    cells[to] = self._values[id(value)](cells)
                case Advance(unit, start, until, reached, early):
                    cells[reached] = self._advance(unit, cells[start], cells[until], early)
                case If(condition, then, orelse):
                    self._run(then if self._values[id(condition)](cells) else orelse)
                case Repeat():
                    self._repeat(instruction)
                case Jump(unit, again):
                    cells[again] = bool(self._call(unit, "jump()", self._units[unit].jump))
                case Save(units, registers, slot):
                    kept = {i: cells[i] for r in registers for i in self._span(r)}
                    self._slots[slot] = self._tokens(units), kept
                case Restore(slot):
                    tokens, kept = self._slots[slot]
                    self._restore_units(tokens)
                    for cell, content in kept.items():
                        cells[cell] = content
                case Fire(event):
                    self.fired.append(event)

    def _advance(self, unit: str, t: Any, to: Any, early: bool) -> float:
        reached = float(self._call(unit, f"advance({t:.9g}, {to:.9g})", self._units[unit].advance, t, to, early))
        if reached != to and not (early and t <= reached <= to):
            raise UnitError(
                f"it stopped at {reached:.9g} instead of {to:.9g}",
                unit=unit,
                call=f"advance({t:.9g}, {to:.9g})",
                time=t,
            )
        self._clock[unit] = reached
        return reached

    def _repeat(self, loop: Repeat) -> None:
        for _ in range(loop.most):
            self._run(loop.body)
            if self._values[id(loop.until)](self._cells):
                return
        if loop.exhausted == "fail":
            raise StepError(f"{loop.what} did not end within {loop.most} rounds")

    def _store(self, unit: str, name: str, to: int, value: Signal) -> None:
        port = self._ports[unit, name]
        try:
            values = _cells_of(port, value)
        except (TypeError, ValueError) as cause:
            raise UnitError(
                f"output '{name}' is {port.kind.value}{f'[{port.size}]' if port.size else ''}, but the unit gave {value!r}",
                unit=unit,
                call=f"get('{name}')",
                time=self._clock[unit],
            ) from cause
        if port.kind is Kind.REAL:
            for i, entry in enumerate(values):
                if not math.isfinite(entry):  # type: ignore[arg-type]
                    label = name if port.size is None else f"{name}[{i}]"
                    raise UnitError(
                        f"output '{label}' is {entry}",
                        unit=unit,
                        call=f"get('{name}')",
                        time=self._clock[unit],
                    )
        self._cells[to : to + len(values)] = values

    def _call(self, unit: str, call: str, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except UnitError:
            raise
        except Exception as cause:
            text = str(cause) or "no message"
            raise UnitError(
                f"{type(cause).__name__}: {text}", unit=unit, call=call, time=self._clock[unit]
            ) from cause

    def _span(self, register: int) -> range:
        return range(register, register + self._program.layout.of(register).size)

    def _tokens(self, units: Sequence[str]) -> dict[str, Any]:
        return {unit: self._call(unit, "save()", self._units[unit].save) for unit in units}  # type: ignore[attr-defined]

    def _restore_units(self, tokens: Mapping[str, Any]) -> None:
        for unit, token in tokens.items():
            self._call(unit, "restore()", self._units[unit].restore, token)  # type: ignore[attr-defined]

    # ---------------------------------------------------------------- for the loop

    def read(self, cell: int) -> Value:
        return self._cells[cell]

    def write(self, cell: int, value: Value) -> None:
        self._cells[cell] = value

    def set_input(self, unit: str, port: str, value: Signal) -> None:
        self._call(unit, f"set('{port}')", self._units[unit].set, port, [value])

    def save(self) -> None:
        self._saved = self._tokens(tuple(self._units)), list(self._cells), dict(self._clock)

    def restore(self) -> None:
        if self._saved is None:
            raise StepError("nothing was saved")
        tokens, cells, clock = self._saved
        self._restore_units(tokens)
        self._cells[:] = cells
        self._clock = dict(clock)

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


def _nearest(value: float) -> int:
    return round(value) if math.isfinite(value) else 0


_CONVERT: dict[Kind, Callable[[Any], Value]] = {Kind.REAL: float, Kind.INTEGER: int, Kind.BOOLEAN: bool}
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
    """What a unit gave for `port`, as one value per cell; raises TypeError or ValueError if it does not fit."""
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
