"""The derivatives of an output by an input, by whichever of FMI's two functions the FMU has."""

from __future__ import annotations

from upbeat.units.fmi.description import Interface, Variable
from upbeat.units.fmi.instance import Instance


def by_rows(interface: Interface) -> bool:
    """Whether there are only adjoint derivatives (FMI 3), which come row by row."""
    return interface.adjoint_derivatives and not interface.directional_derivatives


def slope(instance: Instance, output: Variable, input: Variable, rows: int, columns: int) -> list[float]:
    """The derivatives of an output's cells (rows) by an input's (columns), row by row."""
    if by_rows(instance.interface):
        return [cell for seed in _units(rows) for cell in instance.adjoint([output], [input], seed)]
    found = [instance.directional([output], [input], seed) for seed in _units(columns)]
    return [column[row] for row in range(rows) for column in found]


def _units(count: int) -> list[list[float]]:
    return [[1.0 if i == j else 0.0 for i in range(count)] for j in range(count)]
