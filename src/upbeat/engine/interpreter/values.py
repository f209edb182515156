"""Contents of cells in the interpreter: what expressions compute and units give, as the kind of the cell."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from upbeat.core.expr import Cell, Expr, Kernel
from upbeat.core.ports import Kind, Port, Value

Cells = list[Value]


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
