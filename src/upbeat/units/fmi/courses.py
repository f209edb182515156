"""What an input of an FMU does from the time on at which it was set."""

from __future__ import annotations

from collections.abc import Sequence
from math import perm

from upbeat.core.ports import Signal


class Course:
    """Σ coefficients[k]·(t - origin)**k, cell by cell; it never changes."""

    __slots__ = ("coefficients", "origin")

    def __init__(self, origin: float, coefficients: Sequence[Signal]) -> None:
        self.origin = origin
        self.coefficients = tuple(coefficients)

    def at(self, t: float) -> Signal:
        """The value of a real input at `t`, by Horner's rule."""
        tau, (*lower, now) = t - self.origin, self.coefficients
        for row in reversed(lower):
            if isinstance(row, (float, int)):
                now = now * tau + row  # type: ignore[operator]
            else:
                now = tuple(v * tau + c for v, c in zip(now, row, strict=True))  # type: ignore[arg-type, operator]
        return now

    def derivative(self, order: int, t: float) -> float:
        """The derivative of a single real input at `t`, by Horner's rule."""
        tau, value = t - self.origin, 0.0
        for k in range(len(self.coefficients) - 1, order - 1, -1):
            value = value * tau + perm(k, order) * self.coefficients[k]  # type: ignore[operator]
        return value
