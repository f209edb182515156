"""What a computed double is as a value of another kind: the same rules for every unit with expressions."""

from __future__ import annotations

import math
from collections.abc import Callable

from upbeat.core.errors import UpbeatError
from upbeat.core.ports import Kind, Value


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
