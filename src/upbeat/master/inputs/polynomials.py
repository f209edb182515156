"""Polynomials through points and derivatives, as expressions: what all approximations are made of.

Newton's divided differences with repeated nodes: a point that knows its value and k derivatives is k + 1
nodes at one time. Points that are not there yet (their time is minus infinity) drop out by themselves, so a
history that is still filling gives a polynomial of lower degree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import factorial, inf

from upbeat.core.expr import ONE, ZERO, Expr, Number, Op, apply


@dataclass(frozen=True, slots=True)
class Point:
    """What is known at `time`: the value, then derivatives. `sure`: it is known to be there."""

    time: Expr
    values: tuple[Expr, ...]
    sure: bool = False

    @property
    def there(self) -> Expr:
        return ONE if self.sure else apply(Op.GT, self.time, Number(-inf))


def through(points: Sequence[Point]) -> tuple[Expr, ...]:
    """Coefficients c of Σ c[k]·(t - points[0].time)**k, the polynomial of least degree through `points`.

    The first point must be there. The others may be missing, but only from some point on.
    """
    nodes = [(point, j) for point in points for j in range(len(point.values))]
    table = [point.values[0] for point, _ in nodes]
    slopes = [table[0]]
    for width in range(1, len(nodes)):
        table = [_difference(nodes, table, i, width) for i in range(len(nodes) - width)]
        slopes.append(table[0])
    return _expanded(slopes, [_offset(points[0], point) for point, _ in nodes])


def _difference(nodes: list[tuple[Point, int]], table: list[Expr], first: int, width: int) -> Expr:
    """The divided difference over the nodes `first` … `first + width`."""
    near, far = nodes[first][0], nodes[first + width][0]
    if near is far:
        return near.values[width] / Number(float(factorial(width))) if width > 1 else near.values[1]
    quotient = (table[first + 1] - table[first]) / (far.time - near.time)
    return quotient if far.sure else apply(Op.WHERE, far.there, quotient, ZERO)


def _offset(origin: Point, point: Point) -> Expr:
    """How far a node lies from the origin; 0 for one that is not there, whose factor is 0 anyway."""
    if point is origin:
        return ZERO
    distance = point.time - origin.time
    return distance if point.sure else apply(Op.WHERE, point.there, distance, ZERO)


def _expanded(slopes: list[Expr], offsets: list[Expr]) -> tuple[Expr, ...]:
    """Newton's form as powers of the distance from the origin, by Horner's scheme from the last slope."""
    result: list[Expr] = [slopes[-1]]
    for slope, offset in zip(reversed(slopes[:-1]), reversed(offsets[: len(slopes) - 1]), strict=True):
        # result := result·(τ - offset) + slope
        shifted: list[Expr] = [ZERO, *result]
        if offset is not ZERO:
            for i, coefficient in enumerate(result):
                shifted[i] = shifted[i] - offset * coefficient
        shifted[0] = slope if shifted[0] is ZERO else shifted[0] + slope
        result = shifted
    return tuple(result)
