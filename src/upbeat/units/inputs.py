"""What the inputs of a unit do over time: a polynomial for each, from the instant it was handed over."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from upbeat.core.errors import ModelError, UpbeatError
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

Rows = list[list[Any]]
"""The coefficients of one input: c[0] of every cell, c[1] of every cell, …"""


class InputTrajectories:
    """The polynomials of all inputs of one unit.

    Input p has an origin T and coefficients c[0] … c[n-1] per cell. Its value at t is found with
    τ = t - T by Horner's rule from the highest coefficient: v = c[n-1], then v = v·τ + c[k].
    """

    def __init__(self, ports: Sequence[Port], start: float, convert: Conversion) -> None:
        self._ports = tuple(ports)
        self._places = {}
        self._values: list[Any] = []
        for i, port in enumerate(ports):
            self._places[port.name] = (i, port, convert[port.kind], len(self._values))
            self._values += map(convert[port.kind], port.initial)
        self._origins = [start] * len(ports)
        # Held inputs live in `_values` alone, so that as long as all are held `at` is a plain read;
        # the others have their rows of coefficients here, by the place of their first cell.
        self._moving: dict[int, tuple[float, Rows]] = {}

    def set(self, name: str, time: float, coefficients: Sequence[Signal]) -> None:
        """From `time` on, input `name` is Σ coefficients[k]·(t - time)**k."""
        i, port, convert, first = self._places[name]
        count = len(coefficients)
        if count != 1 and not (port.kind is Kind.REAL and 1 < count <= MAX_DEGREE + 1):
            max_degree = MAX_DEGREE if port.kind is Kind.REAL else 0
            raise ModelError(
                f"input '{name}' ({port.kind.value}) takes polynomials of degree 0 to {max_degree}, "
                f"not {count} coefficients"
            )
        if port.size is None:
            rows = [[convert(c)] for c in coefficients]
        else:
            rows = [[convert(v) for v in c] for c in coefficients]  # type: ignore[union-attr]
            for row in rows:
                if len(row) != port.size:
                    raise ModelError(f"input '{name}' has {port.size} cells, but was given {len(row)} values")
        self._origins[i] = time
        self._put(first, time, rows)

    def _put(self, first: int, origin: float, rows: Rows) -> None:
        self._values[first : first + len(rows[0])] = rows[0]
        if len(rows) > 1:
            self._moving[first] = (origin, rows)
        elif self._moving:
            self._moving.pop(first, None)

    def at(self, t: float) -> list[Any]:
        """The value of every cell at `t`, in the order of the ports. Good until the next call."""
        values = self._values
        if not self._moving:
            return values
        values = values.copy()
        for first, (origin, rows) in self._moving.items():
            tau = t - origin
            now = rows[-1]
            for row in rows[-2::-1]:
                now = [v * tau + c for v, c in zip(now, row, strict=True)]
            values[first : first + len(now)] = now
        return values

    def held(self, name: str) -> Any:
        """The value of a single input that is held."""
        return self._values[self._places[name][3]]

    def rates(self, t: float) -> dict[int, list[float]]:
        """How fast each input that moves changes at `t`, by the place of its first cell."""
        found = {}
        for first, (origin, rows) in self._moving.items():
            tau = t - origin
            now = [0.0] * len(rows[0])
            for k in range(len(rows) - 1, 0, -1):
                now = [v * tau + k * c for v, c in zip(now, rows[k], strict=True)]
            found[first] = now
        return found

    def trajectories(self) -> tuple[list[Any], dict[int, tuple[float, Rows]]]:
        """What all inputs do from now on: equal as long as held ones are held at the same values."""
        return self._values.copy(), self._moving.copy()

    def pack(self) -> list[Value]:
        """For each input: origin, number of coefficients, `MAX_DEGREE` + 1 rows of them (unused: zero)."""
        flat: list[Value] = []
        for (_, port, _, first), origin in zip(self._places.values(), self._origins, strict=True):
            rows = (
                self._moving[first][1]
                if first in self._moving
                else [self._values[first : first + port.cells]]
            )
            flat += (origin, float(len(rows)))
            for row in rows:
                flat += row
            flat += (0.0,) * (port.cells * (MAX_DEGREE + 1 - len(rows)))
        return flat

    def unpack(self, flat: Sequence[Value]) -> None:
        """Set everything back to what `pack` gave."""
        at = 0
        for i, port, _, first in self._places.values():
            self._origins[i] = origin = float(flat[at])
            count, cells = int(flat[at + 1]), port.cells
            at += 2
            self._put(
                first, origin, [list(flat[at + k * cells : at + (k + 1) * cells]) for k in range(count)]
            )
            at += cells * (MAX_DEGREE + 1)


def packed_size(ports: Sequence[Port]) -> int:
    """How many numbers the trajectories of these inputs fill in a unit's state."""
    return sum(2 + port.cells * (MAX_DEGREE + 1) for port in ports)


def check_packed(ports: Sequence[Port], flat: Sequence[Value]) -> None:
    """`ModelError` unless the numbers are what `InputTrajectories.pack` gives for these inputs."""
    at = 0
    for port in ports:
        origin, count = flat[at : at + 2]
        max_degree = MAX_DEGREE + 1 if port.kind is Kind.REAL else 1
        if type(origin) is not float or count not in range(1, max_degree + 1):
            raise ModelError(f"not a state of this unit: an input with {count} coefficients")
        at += 2 + port.cells * (MAX_DEGREE + 1)


# ----------------------------------------------------------------------------------------------------
# What a computed double is as a value of another kind: the same rules for every unit with expressions.


def conversions(error: type[UpbeatError]) -> dict[Kind, Callable[[float], Value]]:
    """From a number to each kind but texts. What cannot be converted raises `error`."""

    def as_integer(value: float) -> int:
        """The nearest whole number, ties to even."""
        if not abs(value) < 2.0**63:
            raise error(f"{value} is not an integer")
        return round(value)

    def as_boolean(value: float) -> bool:
        """Everything but zero is true; not a number is neither."""
        if math.isnan(value):
            raise error("nan is neither true nor false")
        return value != 0.0

    return {Kind.REAL: float, Kind.INTEGER: as_integer, Kind.BOOLEAN: as_boolean}
