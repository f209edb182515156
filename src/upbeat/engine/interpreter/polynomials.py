"""Polynomials through samples, when they fall to zero, and tables: instructions of the interpreter.

The order of operations is part of the meaning: the native engine performs the same ones, bit for bit.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from math import floor, inf, isfinite, isnan
from typing import cast

from upbeat.core.expr.ieee import divide
from upbeat.engine.interpreter.values import Cells
from upbeat.master.events import prediction
from upbeat.master.events.conditions import WIDTH
from upbeat.master.events.prediction import Coefficients
from upbeat.master.program import FALLS, GRID, SLACK, SLIVER, Fall, Fit

SIZE = 6
"""Coefficients of a polynomial."""


def _numbers(cells: Cells, first: int, count: int) -> Sequence[float]:
    return cast(Sequence[float], cells[first : first + count])


def fit(cells: Cells, ask: Fit) -> None:
    """Polynomials through samples (see `Fit`)."""
    kept, near = _numbers(cells, ask.kept, 2)
    apart, more = _numbers(cells, ask.apart, 2)
    first, second, third = ask.samples
    for k, order in enumerate(ask.orders):
        now, before = _numbers(cells, first + WIDTH * k, WIDTH), _numbers(cells, second + WIDTH * k, WIDTH)
        known = _known(order, now, now if ask.alone else before)
        z = (now[0], before[0])
        curve: Coefficients
        if known == 0:
            if kept < 2.0:
                curve = prediction.taylor(now[0], 0.0, 0.0)
            elif kept < 3.0:
                curve = prediction.straight(z, apart)
            else:
                oldest = cast(float, cells[third + WIDTH * k])
                curve = prediction.parabola((*z, oldest), apart, more)
        else:
            unknown = ask.alone and (isnan(before[1]) or (known == 2 and isnan(before[2])))
            if kept < 2.0 or near or unknown:
                curve = prediction.taylor(now[0], now[1], now[2] if known == 2 else 0.0)
            elif known == 1:
                curve = prediction.cubic(z, (now[1], before[1]), apart)
            else:
                curve = prediction.quintic(z, (now[1], before[1]), (now[2], before[2]), apart)
        cells[ask.to + SIZE * k : ask.to + SIZE * (k + 1)] = curve


def _known(order: int, now: Sequence[float], other: Sequence[float]) -> int:
    """How many derivatives both samples have: an FMU does not know its own at the start."""
    if order == 2 and (isnan(now[2]) or isnan(other[2])):
        order = 1
    if order == 1 and (isnan(now[1]) or isnan(other[1])):
        order = 0
    return order


def fall(cells: Cells, ask: Fall) -> None:
    """When the largest of several polynomials falls to zero (see `Fall`)."""
    span, behind = float(cells[ask.span]), float(cells[ask.behind])
    at, telling = ask.curves, 0
    for group, count in enumerate(ask.counts):
        curves = [cast(Coefficients, _numbers(cells, at + SIZE * k, SIZE)) for k in range(count)]
        at += SIZE * count
        told = _told(curves, span, behind)
        telling += told[0] < inf or told[4] != 0.0
        to = ask.to + 1 + FALLS * group
        cells[to : to + FALLS] = told
    cells[ask.to] = float(telling)


def _told(curves: list[Coefficients], span: float, behind: float) -> tuple[float, float, float, float, float]:
    if any(prediction.stays_above(curve, span) for curve in curves):  # most of them
        return inf, inf, inf, 1.0, 0.0
    root = prediction.first_zero(curves, span)
    above = float(prediction.largest(curves, 0.0) > 0.0)
    if root == inf:
        return inf, inf, inf, above, float(prediction.rises_below(curves, span))
    return root, prediction.just_behind(curves, root, behind), prediction.highest(curves, root), above, 0.0


def pick(cells: Cells, first: int, count: int, index: int) -> float:
    """What a table holds (see `Pick`)."""
    wanted = float(cells[index])
    place = 0 if not wanted > 0.0 else count - 1 if wanted >= count - 1 else round(wanted)
    return cast(float, cells[first + place])


def grid(cells: Cells, first: int, now: int, end: int) -> float:
    """The next point of a grid (see `Grid`)."""
    origin, step, point, index, safe = _numbers(cells, first, GRID)
    t, limit = float(cells[now]), float(cells[end])
    if t == point and limit == safe:
        index += 1.0
    else:
        count = divide(t - origin, step) + SLIVER
        index = (floor(count) if isfinite(count) else count) + 1.0
        if not origin + index * step > t:  # late in a run rounding may be more than that
            index += 1.0
        # The number that follows is exact as long as the rounding of a point is far below `SLACK` steps.
        safe = limit if step > 1e-8 * max(abs(origin), abs(limit)) else -inf
    until = origin + index * step
    until = limit if until > limit - SLACK * step else until
    cells[first + 2 : first + GRID] = (until, index, safe)
    return until


def rank(cells: Cells, first: int, count: int, value: int) -> float:
    """How many of ascending numbers are at most a value (see `Rank`)."""
    return float(bisect_right(_numbers(cells, first, count), float(cells[value])))
