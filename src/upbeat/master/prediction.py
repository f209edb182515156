"""When a number will fall to zero: polynomials through what it has been, and the first time they are there.

The order of operations is part of the meaning: the native engine performs the same ones, bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from upbeat.core.expr.operations import divide

Coefficients = tuple[float, float, float, float, float, float]
"""c of Σ c[k]·τ**k, where τ counts from now on."""

PARTS = 8
"""A step is looked at in so many parts; between two of them a polynomial has one dip at most."""
HALVINGS = 50
"""How often the interval with a root is halved: what is left of it is no more than rounding."""
THIRDS = 40
"""How often the interval with a dip is made shorter by a third."""


def straight(z: Sequence[float], h: float) -> Coefficients:
    """Through now, ``z[0]``, and the time `h` before, ``z[1]``."""
    return (z[0], divide(z[0] - z[1], h), 0.0, 0.0, 0.0, 0.0)


def parabola(z: Sequence[float], h: float, more: float) -> Coefficients:
    """Through now, the time `h` before, and the time `more` before that."""
    near = divide(z[0] - z[1], h)
    far = divide(z[1] - z[2], more)
    bend = divide(near - far, h + more)
    return (z[0], near + bend * h, bend, 0.0, 0.0, 0.0)


def taylor(z: float, rate: float, bend: float) -> Coefficients:
    """From the value and its derivatives now."""
    return (z, rate, 0.5 * bend, 0.0, 0.0, 0.0)


def cubic(z: Sequence[float], rate: Sequence[float], h: float) -> Coefficients:
    """Through values and rates now and the time `h` before."""
    a = divide(z[1] - z[0] + rate[0] * h, h * h)
    b = divide(rate[0] - rate[1], h)
    return (z[0], rate[0], 3.0 * a - b, divide(2.0 * a - b, h), 0.0, 0.0)


def quintic(z: Sequence[float], rate: Sequence[float], bend: Sequence[float], h: float) -> Coefficients:
    """Through values, rates and second derivatives now and the time `h` before."""
    half = 0.5 * bend[0]
    d0 = z[1] - (z[0] - rate[0] * h + half * h * h)
    d1 = (rate[1] - (rate[0] - bend[0] * h)) * h
    d2 = (bend[1] - bend[0]) * h * h
    a = -10.0 * d0 - 4.0 * d1 - 0.5 * d2
    b = 5.0 * d0 + 2.0 * a + d1
    c = d1 + a + 4.0 * d0
    cube = h * h * h
    return (z[0], rate[0], half, divide(a, cube), divide(b, cube * h), divide(c, cube * h * h))


def value(c: Coefficients, at: float) -> float:
    """The polynomial at a time."""
    return c[0] + at * (c[1] + at * (c[2] + at * (c[3] + at * (c[4] + at * c[5]))))


def slope(c: Coefficients, at: float) -> float:
    """Its derivative there."""
    return c[1] + at * (2.0 * c[2] + at * (3.0 * c[3] + at * (4.0 * c[4] + at * (5.0 * c[5]))))


def stays_above(c: Coefficients, span: float) -> bool:
    """Whether the polynomial is certainly above zero all the time; cheap, and true for most."""
    fall = abs(c[5])
    for k in (4, 3, 2, 1):
        fall = fall * span + abs(c[k])
    return c[0] - fall * span > 0.0


def largest(all_: Sequence[Coefficients], at: float) -> float:
    """The largest of several at a time."""
    found = value(all_[0], at)
    for c in all_[1:]:
        other = value(c, at)
        if other > found:
            found = other
    return found


def falls(all_: Sequence[Coefficients], at: float) -> float:
    """The slope of the largest of several at a time."""
    found, which = value(all_[0], at), all_[0]
    for c in all_[1:]:
        other = value(c, at)
        if other > found:
            found, which = other, c
    return slope(which, at)


def first_zero(all_: Sequence[Coefficients], span: float) -> float:
    """The first time in (0, span] at which the largest falls from above zero to it; else infinity.

    Also where it only dips below zero, or only rises above it, for less than a part of the span.
    """
    for c in all_:
        if stays_above(c, span):
            return inf
    left = 0.0
    above = largest(all_, left) > 0.0
    leaning = falls(all_, left)
    for k in range(1, PARTS + 1):
        right = span * (k / PARTS)
        now = largest(all_, right)
        steep = falls(all_, right)
        if above and now <= 0.0:
            return _root(all_, left, right)
        if above and leaning < 0.0 < steep:
            dip = _dip(all_, left, right)
            if largest(all_, dip) <= 0.0:
                return _root(all_, left, dip)
        if not above and now <= 0.0 and steep < 0.0 < leaning:
            top = _dip(all_, left, right, -1.0)
            if largest(all_, top) > 0.0:
                return _root(all_, top, right)
        above = above or now > 0.0
        left, leaning = right, steep
    return inf


def just_behind(all_: Sequence[Coefficients], root: float, distance: float) -> float:
    """So far behind a zero, if the largest is not above zero again by then; else where it is lowest."""
    end = root + distance
    return end if not largest(all_, end) > 0.0 else _dip(all_, root, end)


def highest(all_: Sequence[Coefficients], until: float) -> float:
    """Where the largest is highest before a time at which it falls to zero."""
    return _dip(all_, 0.0, until, -1.0)


def rises_below(all_: Sequence[Coefficients], span: float) -> bool:
    """Whether the largest is not above zero now, but on its way there, and will not get there in `span`."""
    if largest(all_, 0.0) > 0.0 or not falls(all_, 0.0) > 0.0:
        return False
    return not any(largest(all_, span * (k / PARTS)) > 0.0 for k in range(1, PARTS + 1))


def _root(all_: Sequence[Coefficients], low: float, high: float) -> float:
    """Where it falls to zero, between a time at which it is above and one at which it is not."""
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        if largest(all_, middle) > 0.0:
            low = middle
        else:
            high = middle
    return high


def _dip(all_: Sequence[Coefficients], low: float, high: float, sign: float = 1.0) -> float:
    """Where it is lowest between two times; with the sign -1, highest."""
    for _ in range(THIRDS):
        third = (high - low) / 3.0
        one, two = low + third, high - third
        if sign * largest(all_, one) < sign * largest(all_, two):
            high = two
        else:
            low = one
    return 0.5 * (low + high)
