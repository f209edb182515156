"""Computations: the instructions that compute registers from registers, one class for each.

A new one is a class here, its half in `native/src/computations.hpp`, and a line in `upbeat.extend`: data
flow, both engines, schedules and listings read it from its class (see `Computation`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from math import floor, inf, isfinite, isnan
from typing import ClassVar, cast

from upbeat.core.expr.operations import divide
from upbeat.core.records import dataclass
from upbeat.master import prediction
from upbeat.master.prediction import Coefficients
from upbeat.master.program import Cells, Computation, Layout, Reg, Spans

SAMPLE = 3
"""Cells of a sample: the value, its rate and its second derivative."""
CURVE = 6
"""Cells of a polynomial: its coefficients."""


def _numbers(cells: Cells, first: int, count: int) -> Sequence[float]:
    return cast(Sequence[float], cells[first : first + count])


@dataclass(frozen=True, slots=True)
class Solve(Computation):
    """Solve a dense linear system of `size` equations: `to` := matrix⁻¹·right, by elimination with pivots.

    The matrix fills size² cells row by row. A singular one leaves values that are not finite in `to`.
    """

    number: ClassVar[int] = 15
    size: int
    matrix: Reg
    right: Reg
    to: Reg

    @property
    def reads(self) -> Spans:
        return (self.matrix, self.size**2), (self.right, self.size)

    @property
    def writes(self) -> Spans:
        return ((self.to, self.size),)

    @property
    def operands(self) -> tuple[int, ...]:
        return self.size, self.matrix, self.right, self.to

    @property
    def room(self) -> int:
        return self.size * (self.size + 1)

    def compute(self, cells: Cells) -> None:
        size, matrix, right = self.size, self.matrix, self.right
        a = [[float(cells[matrix + i * size + j]) for j in range(size)] for i in range(size)]
        b = [float(cells[right + i]) for i in range(size)]
        for k in range(size):
            pivot = k
            for i in range(k + 1, size):
                if abs(a[i][k]) > abs(a[pivot][k]):
                    pivot = i
            a[k], a[pivot] = a[pivot], a[k]
            b[k], b[pivot] = b[pivot], b[k]
            for i in range(k + 1, size):
                factor = divide(a[i][k], a[k][k])
                for j in range(k + 1, size):
                    a[i][j] = a[i][j] - factor * a[k][j]
                b[i] = b[i] - factor * b[k]
        for i in range(size - 1, -1, -1):
            rest = b[i]
            for j in range(i + 1, size):
                rest = rest - a[i][j] * b[j]
            b[i] = divide(rest, a[i][i])
        cells[self.to : self.to + size] = b

    def shown(self, layout: Layout) -> str:
        system, right, result = (layout.of(r).name for r in (self.matrix, self.right, self.to))
        return f"solve    {system} · {result} = {right} ({self.size} equations)"


@dataclass(frozen=True, slots=True)
class Fit(Computation):
    """Polynomials through samples of numbers, each of them a value, its rate and its second derivative.

    Each of `samples` is the first of the cells of all numbers, three for each: as they are now, at a time
    `apart` before (behind, if that is negative), and `apart + 1` cells on: at a time so much before that. In
    the cell `kept` is how many of the samples count (1 to 3), and `orders` says of each number how many of
    its derivatives are known; one that is not a number is not. A number without derivatives is continued by
    the straight line or the parabola through its samples. With `alone`, one whose derivatives are not known
    at the sample before, or whose two samples are too close to each other (the cell after `kept` says so),
    is continued by what is known of it now; else by what both samples have in common. `to` gets six
    coefficients for each number.
    """

    number: ClassVar[int] = 22
    orders: tuple[int, ...]
    samples: tuple[Reg, Reg, Reg]
    kept: Reg
    apart: Reg
    to: Reg
    alone: bool = False

    @property
    def reads(self) -> Spans:
        return ((self.kept, 2), (self.apart, 2), *((one, SAMPLE * len(self.orders)) for one in self.samples))

    @property
    def writes(self) -> Spans:
        return ((self.to, CURVE * len(self.orders)),)

    @property
    def operands(self) -> tuple[int, ...]:
        return (len(self.orders),)

    @property
    def listed(self) -> tuple[int, ...]:
        return *self.samples, self.kept, self.apart, self.to, int(self.alone), *self.orders

    def compute(self, cells: Cells) -> None:
        kept, near = _numbers(cells, self.kept, 2)
        apart, more = _numbers(cells, self.apart, 2)
        first, second, third = self.samples
        for k, order in enumerate(self.orders):
            now, before = (
                _numbers(cells, first + SAMPLE * k, SAMPLE),
                _numbers(cells, second + SAMPLE * k, SAMPLE),
            )
            known = _known(order, now, now if self.alone else before)
            z = (now[0], before[0])
            curve: Coefficients
            if known == 0:
                if kept < 2.0:
                    curve = prediction.taylor(now[0], 0.0, 0.0)
                elif kept < 3.0:
                    curve = prediction.straight(z, apart)
                else:
                    oldest = cast(float, cells[third + SAMPLE * k])
                    curve = prediction.parabola((*z, oldest), apart, more)
            else:
                unknown = self.alone and (isnan(before[1]) or (known == 2 and isnan(before[2])))
                if kept < 2.0 or near or unknown:
                    curve = prediction.taylor(now[0], now[1], now[2] if known == 2 else 0.0)
                elif known == 1:
                    curve = prediction.cubic(z, (now[1], before[1]), apart)
                else:
                    curve = prediction.quintic(z, (now[1], before[1]), (now[2], before[2]), apart)
            cells[self.to + CURVE * k : self.to + CURVE * (k + 1)] = curve

    def shown(self, layout: Layout) -> str:
        curves, through = layout.of(self.to).name, layout.of(self.samples[0]).name
        return f"fit      {curves} through {through} ({len(self.orders)} curves)"


def _known(order: int, now: Sequence[float], other: Sequence[float]) -> int:
    """How many derivatives both samples have: an FMU does not know its own at the start."""
    if order == 2 and (isnan(now[2]) or isnan(other[2])):
        order = 1
    if order == 1 and (isnan(now[1]) or isnan(other[1])):
        order = 0
    return order


FALLS = 5
"""So many numbers `Fall` tells of each group."""


@dataclass(frozen=True, slots=True)
class Fall(Computation):
    """When the largest of several polynomials will fall to zero: for each of several groups of them.

    `counts` says how many polynomials each group has; they lie in a row from `curves` on, six coefficients
    for each. `to` gets how many of the groups have something to tell, and `FALLS` numbers for each: the first
    time in (0, `span`] at which the largest falls from above zero to it (infinity: never); a time so far
    `behind` that, or where the largest is lowest if it does not stay below zero for so long; where it is
    highest before it; whether it is above zero at the start; and whether it is not, but rises, and does not
    get above zero within the span.
    """

    number: ClassVar[int] = 23
    counts: tuple[int, ...]
    curves: Reg
    span: Reg
    behind: Reg
    to: Reg

    @property
    def reads(self) -> Spans:
        return (self.curves, CURVE * sum(self.counts)), (self.span, 1), (self.behind, 1)

    @property
    def writes(self) -> Spans:
        return ((self.to, 1 + FALLS * len(self.counts)),)

    @property
    def operands(self) -> tuple[int, ...]:
        return (len(self.counts),)

    @property
    def listed(self) -> tuple[int, ...]:
        return self.curves, self.span, self.behind, self.to, *self.counts

    def compute(self, cells: Cells) -> None:
        span, behind = float(cells[self.span]), float(cells[self.behind])
        at, expected = self.curves, 0
        for group, count in enumerate(self.counts):
            curves = [cast(Coefficients, _numbers(cells, at + CURVE * k, CURVE)) for k in range(count)]
            at += CURVE * count
            fall = fall_of(curves, span, behind)
            expected += fall[0] < inf or fall[4] != 0.0
            to = self.to + 1 + FALLS * group
            cells[to : to + FALLS] = fall
        cells[self.to] = float(expected)

    def shown(self, layout: Layout) -> str:
        groups = f"{layout.of(self.curves).name} ({len(self.counts)} groups)"
        return f"fall     {groups} within {layout.name(self.span)} → {layout.of(self.to).name}"


def fall_of(
    curves: list[Coefficients], span: float, behind: float
) -> tuple[float, float, float, float, float]:
    """What `Fall` finds of one group: when it falls to zero, where to be behind that, where it is highest
    before, whether it is above zero now, and whether it rises towards zero without getting there."""
    if any(prediction.stays_above(curve, span) for curve in curves):  # most of them
        return inf, inf, inf, 1.0, 0.0
    root = prediction.first_zero(curves, span)
    above = float(prediction.largest(curves, 0.0) > 0.0)
    if root == inf:
        return inf, inf, inf, above, float(prediction.rises_below(curves, span))
    return root, prediction.just_behind(curves, root, behind), prediction.highest(curves, root), above, 0.0


@dataclass(frozen=True, slots=True)
class Pick(Computation):
    """Look up a table: `to` := the content of cell number `index` (a real register) of `count` from `first`
    on. An index beyond either end stands for that end."""

    number: ClassVar[int] = 24
    first: Reg
    count: int
    index: Reg
    to: Reg

    @property
    def reads(self) -> Spans:
        return (self.first, self.count), (self.index, 1)

    @property
    def writes(self) -> Spans:
        return ((self.to, 1),)

    @property
    def operands(self) -> tuple[int, ...]:
        return self.first, self.count, self.index, self.to

    def compute(self, cells: Cells) -> None:
        wanted, last = float(cells[self.index]), self.count - 1
        place = 0 if not wanted > 0.0 else last if wanted >= last else round(wanted)
        cells[self.to] = cells[self.first + place]

    def shown(self, layout: Layout) -> str:
        table, index = layout.of(self.first).name, layout.name(self.index)
        return f"pick     {layout.name(self.to)} := {table}[{index}]"


@dataclass(frozen=True, slots=True)
class Rank(Computation):
    """How many of `count` ascending numbers from `first` on are at most `value`: `to` := that number."""

    number: ClassVar[int] = 25
    first: Reg
    count: int
    value: Reg
    to: Reg

    @property
    def reads(self) -> Spans:
        return (self.first, self.count), (self.value, 1)

    @property
    def writes(self) -> Spans:
        return ((self.to, 1),)

    @property
    def operands(self) -> tuple[int, ...]:
        return self.first, self.count, self.value, self.to

    def compute(self, cells: Cells) -> None:
        cells[self.to] = float(
            bisect_right(_numbers(cells, self.first, self.count), float(cells[self.value]))
        )

    def shown(self, layout: Layout) -> str:
        row, value = layout.of(self.first).name, layout.name(self.value)
        return f"rank     {layout.name(self.to)} := how many of {row} ≤ {value}"


GRID = 5
"""The registers of a grid: where it begins, its step; and the point found last, its number, and the limit up
to which the next number follows from that (minus infinity: it does not)."""
SLACK = 1e-6
"""The part of a step below which a remainder counts as rounding."""
SLIVER = 1e-3
"""The part of a step that is not worth one of its own: a point of the grid this near is left out."""


@dataclass(frozen=True, slots=True)
class Grid(Computation):
    """The next point of a grid: `to` := origin + k·step, the first behind the time in `now` by more than
    `SLIVER` of a step; or `limit`, if that comes before, or so little behind that it is rounding (`SLACK`).

    Points are computed from their number, never summed. `grid` is the first of `GRID` cells.
    """

    number: ClassVar[int] = 27
    grid: Reg
    now: Reg
    limit: Reg
    to: Reg

    @property
    def reads(self) -> Spans:
        return (self.grid, GRID), (self.now, 1), (self.limit, 1)

    @property
    def writes(self) -> Spans:
        return (self.grid + 2, GRID - 2), (self.to, 1)

    @property
    def operands(self) -> tuple[int, ...]:
        return self.grid, self.now, self.limit, self.to

    def compute(self, cells: Cells) -> None:
        origin, step, point, index, safe = _numbers(cells, self.grid, GRID)
        t, limit = float(cells[self.now]), float(cells[self.limit])
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
        cells[self.grid + 2 : self.grid + GRID] = (until, index, safe)
        cells[self.to] = until

    def shown(self, layout: Layout) -> str:
        after = f"{layout.of(self.grid).name} after {layout.name(self.now)}"
        return f"grid     {layout.name(self.to)} := next of {after}, up to {layout.name(self.limit)}"
