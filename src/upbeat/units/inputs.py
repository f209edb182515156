"""What the inputs of a unit do over time: a polynomial for each, from the instant it was handed over."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from upbeat.core.errors import ModelError
from upbeat.core.ports import Kind, Port, Signal, Value

MAX_DEGREE = 5
"""The highest degree of an input polynomial, so that a unit's state has a fixed size."""

Conversion = Mapping[Kind, Callable[[Any], Value]]
"""What to do with a value, by the kind of its port."""
EXACT: Conversion = {
    Kind.REAL: float,
    Kind.INTEGER: int,
    Kind.BOOLEAN: bool,
    Kind.STRING: str,
}
"""Keep every kind of value as it is (units written in Python)."""
NUMBERS: Conversion = dict.fromkeys((Kind.REAL, Kind.INTEGER, Kind.BOOLEAN), float)
"""Hold everything as a double (units given by equations)."""


class Courses:
    """The polynomials of all inputs of one unit.

    Input p has an origin T and coefficients c[0] … c[n-1] per cell. Its value at t is found with
    τ = t - T by Horner's rule from the highest coefficient: v = c[n-1], then v = v·τ + c[k].
    """

    def __init__(self, ports: Sequence[Port], start: float, convert: Conversion) -> None:
        self._ports = tuple(ports)
        self._index = {port.name: i for i, port in enumerate(ports)}
        self._convert = tuple(convert[port.kind] for port in ports)
        self._origins = [start] * len(ports)
        self._rows = [
            [[to(value) for value in port.initial]] for port, to in zip(ports, self._convert, strict=True)
        ]
        self._refresh()

    def _refresh(self) -> None:
        """Note what does not change: as long as every input is held, `at` is a plain read."""
        moving = any(len(rows) > 1 for rows in self._rows)
        self._held = None if moving else [v for (row,) in self._rows for v in row]

    def set(self, name: str, time: float, coefficients: Sequence[Signal]) -> None:
        """From `time` on, input `name` is Σ coefficients[k]·(t - time)**k."""
        i = self._index[name]
        port, convert = self._ports[i], self._convert[i]
        most = MAX_DEGREE if port.kind is Kind.REAL else 0
        if not 1 <= len(coefficients) <= most + 1:
            raise ModelError(
                f"input '{name}' ({port.kind.value}) takes polynomials of degree 0 to {most}, "
                f"not {len(coefficients)} coefficients"
            )
        if port.size is None:
            rows = [[convert(c)] for c in coefficients]
        else:
            rows = [[convert(v) for v in c] for c in coefficients]  # type: ignore[union-attr]
            if any(len(row) != port.size for row in rows):
                raise ModelError(f"input '{name}' has {port.size} cells, but was given {len(rows[0])} values")
        self._rows[i] = rows
        self._origins[i] = time
        self._refresh()

    def at(self, t: float) -> list[Any]:
        """The value of every cell at `t`, in the order of the ports. Not to be changed by the caller."""
        if self._held is not None:
            return self._held
        values: list[Any] = []
        for origin, rows in zip(self._origins, self._rows, strict=True):
            now = rows[-1]
            if len(rows) > 1:
                tau = t - origin
                for row in rows[-2::-1]:
                    now = [v * tau + c for v, c in zip(now, row, strict=True)]  # type: ignore[operator]
            values.extend(now)
        return values

    def pack(self) -> list[Value]:
        """For each input: origin, number of coefficients, `MAX_DEGREE` + 1 rows of them (unused: zero)."""
        flat: list[Value] = []
        for port, origin, rows in zip(self._ports, self._origins, self._rows, strict=True):
            flat += (origin, float(len(rows)))
            for row in rows:
                flat += row
            flat += (0.0,) * (port.cells * (MAX_DEGREE + 1 - len(rows)))
        return flat

    def unpack(self, flat: Sequence[Value]) -> None:
        """Set everything back to what `pack` gave."""
        at = 0
        for i, port in enumerate(self._ports):
            self._origins[i] = float(flat[at])
            first, cells = at + 2, port.cells
            self._rows[i] = [
                list(flat[first + k * cells : first + (k + 1) * cells]) for k in range(int(flat[at + 1]))
            ]
            at = first + cells * (MAX_DEGREE + 1)
        self._refresh()

    @property
    def packed_size(self) -> int:
        return packed_size(self._ports)


def packed_size(ports: Sequence[Port]) -> int:
    """How many numbers the courses of these inputs fill in a unit's state."""
    return sum(2 + port.cells * (MAX_DEGREE + 1) for port in ports)
