"""What an input does between communication points.

An approximation writes the `Let`s that compute the coefficients which `Set` hands over. It has two
faces: *extrapolate* (only the value at the start of the step is known) and *interpolate* (the
source has already gone ahead, so the value at the end is known too). Its memory is in registers:
restarting a history means writing minus infinity into its time registers (`Trajectory.history`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from math import factorial, inf
from typing import ClassVar, Protocol

from upbeat.core.errors import MasterError
from upbeat.core.expr import ONE, ZERO, Cell, Expr, Number, Op, any_of, apply
from upbeat.core.ports import Kind
from upbeat.core.records import dataclass
from upbeat.master.program import Let, Reg
from upbeat.master.registers import Registers

# ----------------------------------------------------------------------------------------------------
# Trajectories: what an approximation sees of an input, and how it says that the input runs over a step.


@dataclass(frozen=True, slots=True)
class Place:
    """One input as an approximation sees it.

    `known` are the registers of its value and of those derivatives that the approximation asked for;
    `ahead` those that hold (or are assumed) at the end of the step, for interpolation: the same
    registers, once the source has gone ahead. `now` and `next` hold the step's two ends.
    `unsure`: derivatives are NaN while they are not known. `counts` are the registers of the units that it
    follows, at once or through others, in which these count the events inside them: where one has changed,
    what the input was before says nothing about what it will be. `counts_ahead` are those that go with
    `ahead`. `within`: no step ends at these events, they lie anywhere within one.
    """

    name: str
    kind: Kind
    size: int
    known: tuple[Reg, ...]
    ahead: tuple[Reg, ...]
    now: Reg
    next: Reg
    unsure: bool = False
    counts: tuple[Reg, ...] = ()
    counts_ahead: tuple[Reg, ...] = ()
    within: bool = False

    @property
    def value(self) -> Reg:
        return self.known[0]


@dataclass(frozen=True, slots=True)
class Trajectory:
    """How an input runs over a step: `early` lets at its start, `late` ones right before `Set(by)`.

    An extrapolated trajectory is handed over at the end of the step before, unless it needs to know
    how long the step will be: then `at_start`. Where it does for some steps only, it is handed over once
    more at the start of a step for which `near` is true, after the lets `again`. `history` are the registers
    that restart it; `spacing` those in which it keeps how long steps are.
    """

    by: tuple[Reg, ...]
    late: tuple[Let, ...] = ()
    early: tuple[Let, ...] = ()
    at_start: bool = False
    history: tuple[Reg, ...] = ()
    spacing: tuple[Reg, ...] = ()
    near: Expr | None = None
    again: tuple[Let, ...] = ()


# ----------------------------------------------------------------------------------------------------
# Polynomials through points and derivatives, as expressions: what all approximations are made of.
#
# Newton's divided differences with repeated nodes: a point that knows its value and k derivatives is k + 1
# nodes at one time. Points that are not there yet (their time is minus infinity) drop out by themselves, so
# a history that is still filling gives a polynomial of lower degree.


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


# ----------------------------------------------------------------------------------------------------
# Histories: the latest points of an input, kept in registers, and the trajectories through them.
#
# A polynomial through points that lie close together, compared to the step it is continued over, says more
# about rounding, and about what couplings leave of errors, than about the signal. A step may have any
# length: another unit ticks a microsecond later, an event lies a hair before the end of a step. So no
# points are used that are too close for the step to come:
#
# * a new point takes the place of the newest one, if that is closer than `CLOSE` times the usual step; the
#   older ones stay, so that nothing is lost. The usual step is the longest of late: it forgets by half with
#   every step, so that points are soon kept again where steps have become shorter for good;
# * where there is none older, a line through two points needs them `TINY` usual steps apart. With
#   derivatives
#   it is `APART`: below that the Taylor polynomial of the newest point alone is better;
# * where two older points are closer than `APART` times the step, the history ends with the newer one.

CLOSE = 0.4
"""The part of the usual step within which a new point takes the place of the newest, if there is an older
one. Below a half: after an event steps are half as long, and count."""
TINY = 1e-5
"""The part of a step that two points of a line must be apart, where there is no older one."""
APART = 0.2
"""The part of a step that other points must be apart from each other, to be of use for it."""
FADES = 0.5
"""What a step leaves of the usual length of the steps before it."""


def extrapolated(place: Place, registers: Registers, older: int) -> Trajectory:
    """Through the newest point and `older` ones before it."""
    history = History(place, registers, older + 1, "")
    degree = (older + 1) * len(place.known) - 1
    by = (place.value, *(registers.new(f"{place.name}′c{k}", size=place.size) for k in range(1, degree + 1)))
    through_all = [
        Let(by[k] + i, c) for i in range(place.size) for k, c in enumerate(history.continued(i)) if k > 0
    ]
    return Trajectory(
        by=by,
        late=(*history.note(ahead=False), *through_all),
        near=history.near,
        again=(*history.thinned(), *through_all),
        history=history.times,
        spacing=history.spacing,
    )


def interpolated(place: Place, registers: Registers, older: int) -> Trajectory:
    """Through both ends of the step and `older` points before it.

    Where a step has ended at an event inside what the input follows, which has jumped there, the end says
    nothing about the way there: the trajectory goes on from the points before, as if the end were not known.
    """
    jumps = bool(place.counts) and not place.within
    history = History(place, registers, older + (2 if jumps else 1), "i")
    degree = (older + 2) * len(place.known) - 1
    by = tuple(registers.new(f"{place.name}′i{k}", size=place.size) for k in range(degree + 1))
    lets: list[Let] = []
    for i in range(place.size):
        start, *earlier = history.points(i)
        end = Point(Cell(place.next), tuple(Cell(r + i) for r in place.ahead), sure=True)
        coefficients = through([start, end, *earlier[:older]])
        if place.unsure:
            sure = apply(Op.AND, history.sure(0), _sure(place.ahead, place.size))
            chord = through([Point(p.time, p.values[:1], sure=True) for p in (start, end)])
            coefficients = _either(sure, coefficients, (*chord, *[ZERO] * (degree - 1)))
        if jumps:
            coefficients = _either(history.jumped(place.counts_ahead), history.continued(i), coefficients)
        lets += [Let(by[k] + i, c) for k, c in enumerate(coefficients)]
    return Trajectory(
        by=by,
        late=tuple(lets),
        early=tuple(history.note()),
        history=history.times,
        spacing=history.spacing,
    )


class History:
    """The latest points of an input, newest first, and the lets that keep them."""

    def __init__(self, place: Place, registers: Registers, depth: int, mark: str) -> None:
        self._place = place
        new = registers.new
        self.times = tuple(new(f"{place.name}′{mark}t{k}", start=(-inf,)) for k in range(depth))
        self.kept = [
            [
                new(f"{place.name}′{mark}u{k}{'′' * d}", place.kind, place.size)
                for d in range(len(place.known))
            ]
            for k in range(depth)
        ]
        self.spacing: tuple[Reg, ...] = (new(f"{place.name}′{mark}usual"),) if depth > 1 else ()
        self._moved = new(f"{place.name}′{mark}moved", Kind.BOOLEAN) if depth > 1 else 0
        self._count = new(f"{place.name}′{mark}count", Kind.INTEGER) if place.counts else None

    def note(self, *, ahead: bool = True) -> list[Let]:
        """Take the present value in as the newest point; one that is too close gives way to it. Where what
        the input follows has jumped since, there is nothing else. At the start of a step, or (not `ahead`) at
        the end of one, before it is known how long the next will be: see `near`."""
        times, place = self.times, self._place
        now, length = Cell(place.now if ahead else place.next), Cell(place.next) - Cell(place.now)
        lets: list[Let] = []
        for spacing in self.spacing:  # values may be exchanged several times at one time
            longest: Expr = apply(Op.MAX, length, FADES * Cell(spacing))
            later = apply(Op.GT, now, Cell(times[0]))
            lets.append(Let(spacing, longest if ahead else apply(Op.WHERE, later, longest, Cell(spacing))))
        if self._count is not None:
            jumped = self.jumped(place.counts)
            if place.within and len(place.known) == 1:
                jumped = apply(Op.AND, jumped, self._leapt(now))
            lets += [Let(time, apply(Op.WHERE, jumped, Number(-inf), Cell(time))) for time in times]
            lets.append(Let(self._count, _sum(place.counts)))
        for spacing in self.spacing:
            lets.append(Let(self._moved, apply(Op.GT, now - Cell(times[0]), self._close() * Cell(spacing))))
        moved = Cell(self._moved)
        for k in range(len(times) - 1, 0, -1):
            lets += [Let(to, apply(Op.WHERE, moved, Cell(old), Cell(to))) for to, old in self._pairs(k)]
            time_then: Expr = Cell(times[k - 1])
            if place.unsure:  # a point whose derivatives were not known is none
                time_then = apply(Op.WHERE, self.sure(k - 1), time_then, Number(-inf))
            lets.append(Let(times[k], apply(Op.WHERE, moved, time_then, Cell(times[k]))))
        lets += [Let(to, Cell(source)) for to, source in self._newest()]
        lets.append(Let(times[0], now))
        return [*lets, *self.thinned()] if ahead else lets

    @property
    def near(self) -> Expr:
        """At the start of a step: whether some points are too close to each other to be of use for it."""
        return any_of([apply(Op.LT, gap, minimum) for _, gap, minimum in self._gaps()])

    def thinned(self) -> list[Let]:
        """At the start of a step: points that are too close to a newer one are forgotten, and all older."""
        return [  # also where one of the two is not there
            Let(time, apply(Op.WHERE, apply(Op.GE, gap, minimum), Cell(time), Number(-inf)))
            for time, gap, minimum in self._gaps()
        ]

    def _gaps(self) -> list[tuple[Reg, Expr, Expr]]:
        """Older points, how far they are from the next one, and how far they must be for this step."""
        times, length = self.times, Cell(self._place.next) - Cell(self._place.now)
        return [
            (times[k], Cell(times[k - 1]) - Cell(times[k]), (self._minimum if k == 1 else APART) * length)
            for k in range(1, len(times))
        ]

    def _close(self) -> Expr:
        """The part of the usual step that the newest two points must be apart at least."""
        older = apply(Op.GT, Cell(self.times[1]), Number(-inf))
        return apply(Op.WHERE, older, Number(CLOSE), Number(self._minimum))

    @property
    def _minimum(self) -> float:
        """The part of a step that the newest two points must be apart to be of use for it."""
        return TINY if len(self._place.known) == 1 else APART

    def _leapt(self, now: Expr) -> Expr:
        """Whether the input is further from where a line leads than it came in the step before.

        What happens somewhere within a step may be no more than a kink (a valve closes), and through that a
        line is better than no line.
        """
        if len(self.times) == 1:
            return ZERO
        found: list[Expr] = []
        late = (now - Cell(self.times[0])) / (Cell(self.times[0]) - Cell(self.times[1]))
        for i in range(self._place.size):
            value, last, before = (
                Cell(register + i) for register in (self._place.value, self.kept[0][0], self.kept[1][0])
            )
            way = last - before
            found.append(apply(Op.GT, apply(Op.ABS, value - (last + way * late)), apply(Op.ABS, way)))
        return any_of(found)

    @property
    def short(self) -> Expr:
        """Whether the step is much shorter than usual: too short to get anywhere new."""
        return apply(Op.LT, Cell(self._place.next) - Cell(self._place.now), CLOSE * Cell(self.spacing[0]))

    def jumped(self, counts: Sequence[Reg]) -> Expr:
        """Whether something that the input follows has jumped since the newest point was noted."""
        return ZERO if self._count is None else apply(Op.NE, _sum(counts), Cell(self._count))

    def continued(self, cell: int) -> tuple[Expr, ...]:
        """The coefficients of one cell's trajectory through all points, from the newest on."""
        coefficients = through(self.points(cell))
        if not self._place.unsure:
            return coefficients
        value, *rest = coefficients
        return (value, *(apply(Op.WHERE, self.sure(0), c, ZERO) for c in rest))

    def _pairs(self, k: int) -> list[tuple[Reg, Reg]]:
        size = self._place.size
        return [
            (to + i, old + i)
            for to, old in zip(self.kept[k], self.kept[k - 1], strict=True)
            for i in range(size)
        ]

    def _newest(self) -> list[tuple[Reg, Reg]]:
        size, known = self._place.size, self._place.known
        return [(to + i, s + i) for to, s in zip(self.kept[0], known, strict=True) for i in range(size)]

    def sure(self, k: int) -> Expr:
        """Whether the derivatives of a point are known."""
        return _sure(self.kept[k], self._place.size)

    def points(self, cell: int) -> list[Point]:
        """The points of one cell; the newest is there."""
        return [
            Point(Cell(time), tuple(Cell(register + cell) for register in kept), sure=k == 0)
            for k, (time, kept) in enumerate(zip(self.times, self.kept, strict=True))
        ]


def _either(condition: Expr, yes: Sequence[Expr], no: Sequence[Expr]) -> tuple[Expr, ...]:
    return tuple(apply(Op.WHERE, condition, one, other) for one, other in zip(yes, no, strict=True))


def _sum(counts: Sequence[Reg]) -> Expr:
    """None of them ever falls: their sum has changed if one of them has."""
    found: Expr = Cell(counts[0])
    for count in counts[1:]:
        found = found + Cell(count)
    return found


def _sure(known: Sequence[Reg], size: int) -> Expr:
    """Whether all derivatives are numbers; `known` are the registers of the value and of those."""
    cells = [Cell(register + i) for register in known[1:] for i in range(size)]
    sure: Expr = apply(Op.EQ, cells[0], cells[0])
    for cell in cells[1:]:
        sure = apply(Op.AND, sure, apply(Op.EQ, cell, cell))
    return sure


# ----------------------------------------------------------------------------------------------------

MAX_POLYNOMIAL = 5
"""Inputs are polynomials of at most this degree (`units.inputs.MAX_DEGREE`, `UPBEAT_MAX_DEGREE`)."""


class Approximation(Protocol):
    """Chooses the polynomial that an input follows over a step."""

    @property
    def derivatives(self) -> int:
        """How many derivatives of the input it wants to know."""
        ...

    def extrapolate(self, place: Place, registers: Registers) -> Trajectory:
        """The trajectory from the time in `place.next` on, when the value there is all that is known.

        A trajectory `at_start` runs from `place.now` to `place.next` instead, and the value holds at
        `place.now`.
        """
        ...

    def interpolate(self, place: Place, registers: Registers) -> Trajectory:
        """The trajectory from `place.now` to `place.next`, when `place.ahead` holds at `place.next`."""
        ...


def uncorrected(approximation: Approximation) -> Approximation:
    """What an input is extrapolated by, without what makes good for the step before."""
    inner: Approximation = getattr(approximation, "approximation", approximation)
    return inner


def is_held(approximation: Approximation) -> bool:
    """Whether an input is held during a step, as far as one can tell."""
    return bool(getattr(approximation, "constant", False))


def starts_at_value(approximation: Approximation) -> bool:
    """Whether a trajectory starts at the latest value, as far as one can tell."""
    return bool(getattr(approximation, "at_value", False))


def convergence(approximation: Approximation) -> int:
    """The order of convergence that inputs of this kind give a coupling: one more than the degree they
    reproduce. `Continuous` is a step late and `Smooth` aims at a straight line. Unknown ones count as 1."""
    return int(getattr(approximation, "convergence", 1))


@dataclass(frozen=True, slots=True)
class Hold:
    """Constant: the value at the start of the step, or at its end if that is known (and not because of an
    event on the way there)."""

    derivatives: ClassVar[int] = 0

    constant: ClassVar[bool] = True
    at_value: ClassVar[bool] = True
    convergence: ClassVar[int] = 1
    older: ClassVar[int] = 0
    """Points before the newest that it goes through."""

    def extrapolate(self, place: Place, registers: Registers) -> Trajectory:
        return Trajectory(by=(place.value,))

    def interpolate(self, place: Place, registers: Registers) -> Trajectory:
        if not place.counts or place.within or place.kind is Kind.STRING:
            return Trajectory(by=(place.ahead[0],))
        history = History(place, registers, 1, "i")
        by = registers.new(f"{place.name}′i0", place.kind, place.size)
        jumped, before = history.jumped(place.counts_ahead), history.kept[0][0]
        lets = [
            Let(by + i, apply(Op.WHERE, jumped, Cell(before + i), Cell(place.ahead[0] + i)))
            for i in range(place.size)
        ]
        return Trajectory(by=(by,), late=tuple(lets), early=tuple(history.note()), history=history.times)


@dataclass(frozen=True, slots=True)
class Polynomial:
    """The polynomial of this `degree` through the latest values; lower while there are fewer."""

    degree: int

    def __post_init__(self) -> None:
        if (
            isinstance(self.degree, bool)
            or not isinstance(self.degree, int)
            or not 1 <= self.degree <= MAX_POLYNOMIAL
        ):
            raise MasterError(
                f"the degree of a polynomial must be a whole number from 1 to {MAX_POLYNOMIAL}, "
                f"not {self.degree!r}"
            )

    derivatives: ClassVar[int] = 0

    constant: ClassVar[bool] = False
    at_value: ClassVar[bool] = True

    @property
    def convergence(self) -> int:
        return self.degree + 1

    @property
    def older(self) -> int:
        return self.degree

    def extrapolate(self, place: Place, registers: Registers) -> Trajectory:
        return extrapolated(place, registers, self.degree)

    def interpolate(self, place: Place, registers: Registers) -> Trajectory:
        return interpolated(place, registers, self.degree - 1)


@dataclass(frozen=True, slots=True)
class Linear:
    """A straight line: the secant of the last step continued, or the chord where the end is known."""

    derivatives: ClassVar[int] = 0

    constant: ClassVar[bool] = False
    at_value: ClassVar[bool] = True
    convergence: ClassVar[int] = 2
    older: ClassVar[int] = 1

    def extrapolate(self, place: Place, registers: Registers) -> Trajectory:
        return extrapolated(place, registers, 1)

    def interpolate(self, place: Place, registers: Registers) -> Trajectory:
        return interpolated(place, registers, 0)


@dataclass(frozen=True, slots=True)
class Hermite:
    """Cubic (with second derivatives quintic) through values and derivatives at both ends of a step.
    Needs outputs that declare their `derivative`.

    Where an output has no derivatives yet (an FMU's, before its first step and after events), the
    input is held, or follows the chord where the end is known; no slope is made up."""

    derivatives: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.derivatives, int) or self.derivatives not in (1, 2):
            raise MasterError(f"Hermite uses 1 or 2 derivatives, not {self.derivatives!r}")

    constant: ClassVar[bool] = False
    at_value: ClassVar[bool] = False
    older: ClassVar[int] = 1

    @property
    def convergence(self) -> int:
        return 2 * (self.derivatives + 1)

    def extrapolate(self, place: Place, registers: Registers) -> Trajectory:
        return extrapolated(place, registers, 1)

    def interpolate(self, place: Place, registers: Registers) -> Trajectory:
        return interpolated(place, registers, 0)


@dataclass(frozen=True, slots=True)
class Taylor:
    """The latest value, continued with its derivatives; where the end is known, as `Hermite`. Needs outputs
    that declare their `derivative`; an unknown one counts as 0."""

    derivatives: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.derivatives, int) or self.derivatives not in (1, 2):
            raise MasterError(f"Taylor uses 1 or 2 derivatives, not {self.derivatives!r}")

    constant: ClassVar[bool] = False
    at_value: ClassVar[bool] = True

    @property
    def convergence(self) -> int:
        return self.derivatives + 1

    def extrapolate(self, place: Place, registers: Registers) -> Trajectory:
        by, lets = [place.value], []
        for order, known in enumerate(place.known[1:], 1):
            if order == 1 and not place.unsure:
                by.append(known)
                continue
            register = registers.new(f"{place.name}′d{order}", size=place.size)
            for i in range(place.size):
                value: Expr = Cell(known + i)
                sure = apply(Op.EQ, value, value)
                term = value / Number(float(factorial(order))) if order > 1 else value
                lets.append(Let(register + i, apply(Op.WHERE, sure, term, ZERO) if place.unsure else term))
            by.append(register)
        return Trajectory(by=tuple(by), late=tuple(lets))

    def interpolate(self, place: Place, registers: Registers) -> Trajectory:
        return interpolated(place, registers, 0)


@dataclass(frozen=True, slots=True)
class Continuous:
    """A straight line from where the last trajectory ended to the latest value: no jumps."""

    derivatives: ClassVar[int] = 0

    constant: ClassVar[bool] = False
    at_value: ClassVar[bool] = False
    convergence: ClassVar[int] = 1

    def extrapolate(self, place: Place, registers: Registers) -> Trajectory:
        base = registers.new(f"{place.name}′base", size=place.size)
        slope = registers.new(f"{place.name}′slope", size=place.size)
        history = History(place, registers, 1, "")
        (begun,) = history.times
        since, length = registers.new(f"{place.name}′since"), Cell(place.next) - Cell(place.now)
        # Where the last trajectory got to is computed and not kept: the step may have ended before its aim.
        jumped = ZERO if place.within else history.jumped(place.counts)
        begins = apply(Op.WHERE, jumped, Number(inf), Cell(place.now) - Cell(begun))
        running = apply(Op.LT, Cell(since), Number(inf))
        lets: list[Let] = [Let(since, begins), *history.note()]
        for i in range(place.size):
            value = Cell(place.value + i)
            level = Cell(base + i) + Cell(slope + i) * Cell(since)
            lets.append(Let(base + i, apply(Op.WHERE, running, level, value)))
            lets.append(Let(slope + i, (value - Cell(base + i)) / length))
        return Trajectory(by=(base, slope), late=tuple(lets), at_start=True, history=history.times)

    def interpolate(self, place: Place, registers: Registers) -> Trajectory:
        return interpolated(place, registers, 0)


@dataclass(frozen=True, slots=True)
class Smooth:
    """A cubic from where the last trajectory ended to where linear extrapolation would: no jumps, no kinks.
    Where the end of the step is known, it is the parabola through both ends and the point before."""

    derivatives: ClassVar[int] = 0

    constant: ClassVar[bool] = False
    at_value: ClassVar[bool] = False
    convergence: ClassVar[int] = 2

    def extrapolate(self, place: Place, registers: Registers) -> Trajectory:
        history = History(place, registers, 2, "")
        when = registers.new(f"{place.name}′when", start=(-inf,))
        since = registers.new(f"{place.name}′since")
        start, lean = registers.new(f"{place.name}′start"), registers.new(f"{place.name}′lean")
        by = tuple(registers.new(f"{place.name}′c{k}", size=place.size) for k in range(4))
        length = Cell(place.next) - Cell(place.now)
        # As in Continuous: the last step may have ended before its aim.
        jumped = ZERO if place.within else history.jumped(place.counts)
        begins = apply(Op.WHERE, jumped, Number(inf), Cell(place.now) - Cell(when))
        running, gone = apply(Op.LT, Cell(since), Number(inf)), Cell(since)
        lets: list[Let] = [Let(since, begins), *history.note()]
        # How long steps were before a trajectory that begins again says nothing about those to come.
        lets += [Let(spacing, apply(Op.WHERE, running, Cell(spacing), length)) for spacing in history.spacing]
        for i in range(place.size):
            value, (_, steep) = Cell(place.value + i), history.continued(i)
            c0, c1, c2, c3 = (Cell(register + i) for register in by)
            level = c0 + gone * (c1 + gone * (c2 + gone * c3))
            slope = c1 + gone * (2.0 * c2 + gone * (3.0 * c3))
            lets.append(Let(start, apply(Op.WHERE, running, level, value)))
            lets.append(Let(lean, apply(Op.WHERE, running, slope, ZERO)))
            points = [
                Point(Cell(place.now), (Cell(start), Cell(lean)), sure=True),
                Point(Cell(place.next), (value + steep * length, steep), sure=True),
            ]
            # A step much shorter than usual is no time for a turn: the trajectory goes straight on.
            straight = (Cell(start), Cell(lean), ZERO, ZERO)
            lets += [
                Let(by[k] + i, apply(Op.WHERE, history.short, one, other))
                for k, (one, other) in enumerate(zip(straight, through(points), strict=True))
            ]
        lets.append(Let(when, Cell(place.now)))
        return Trajectory(
            by=by, late=tuple(lets), at_start=True, history=(*history.times, when), spacing=history.spacing
        )

    def interpolate(self, place: Place, registers: Registers) -> Trajectory:
        return interpolated(place, registers, 1)


@dataclass(frozen=True, slots=True)
class Nepce:
    """The nearly energy-preserving coupling element of Benedikt and Hofer (2013).

    Over a step an input follows the `approximation` (`Hold`, `Linear`, `Polynomial` or `Hermite`), so that
    its integral is off by something. That is known when the step is done, and is given over the next one,
    times `gain`: what goes through a power bond is conserved, but for the last step, and the coupling is of
    one order more. Where the end of the step is known, there is nothing to make good.
    """

    approximation: Approximation = field(default_factory=Hold)
    gain: float = 1.0

    def __post_init__(self) -> None:
        if not hasattr(self.approximation, "older"):
            raise MasterError(
                "Nepce makes good what Hold(), Linear(), Polynomial(2) or Hermite() get wrong, not "
                f"{self.approximation!r}"
            )
        number = isinstance(self.gain, (int, float)) and not isinstance(self.gain, bool)
        if not number or not 0.0 < self.gain <= 1.0:
            raise MasterError(f"the gain of Nepce must be a number above 0, up to 1, not {self.gain!r}")

    constant: ClassVar[bool] = False
    at_value: ClassVar[bool] = False

    @property
    def derivatives(self) -> int:
        return self.approximation.derivatives

    @property
    def convergence(self) -> int:
        return convergence(self.approximation) + 1

    def extrapolate(self, place: Place, registers: Registers) -> Trajectory:
        new, older = registers.new, int(getattr(self.approximation, "older", 0))
        history = History(place, registers, older + 1, "")
        degree = (older + 1) * len(place.known) - 1
        by = tuple(new(f"{place.name}′c{k}", size=place.size) for k in range(degree + 1))
        missing, due = new(f"{place.name}′missing", size=place.size), new(f"{place.name}′due")
        since, length = new(f"{place.name}′since"), Cell(place.next) - Cell(place.now)
        jumped = ZERO if place.within else history.jumped(place.counts)
        known = apply(Op.AND, apply(Op.GT, Cell(history.times[0]), Number(-inf)), apply(Op.NOT, jumped))
        if place.unsure:
            known = apply(Op.AND, known, apply(Op.AND, history.sure(0), _sure(place.known, place.size)))
        # The last step may have ended before its aim, so that its integrals are taken now.
        passed = Cell(place.now) - Cell(history.times[0])
        lets: list[Let] = [Let(since, apply(Op.WHERE, known, passed, ZERO))]
        gone = Cell(since)
        for i in range(place.size):
            before, *earlier = history.points(i)
            now = Point(Cell(place.now), tuple(Cell(r + i) for r in place.known), sure=True)
            exact = through([before, now, *earlier])
            off = _integral(exact, gone) - _integral([Cell(register + i) for register in by], gone)
            lets.append(
                Let(missing + i, apply(Op.WHERE, apply(Op.GT, gone, ZERO), Cell(missing + i) + off, ZERO))
            )
        lets += history.note()
        # What was missing in a step is made good in the time that it took, also if steps are shorter now.
        later = apply(Op.MAX, gone, Cell(due) - gone)
        lets.append(Let(due, apply(Op.WHERE, apply(Op.GT, gone, ZERO), later, ZERO)))
        over = apply(Op.MAX, length, Cell(due))
        for i in range(place.size):
            first, *rest = history.continued(i)
            lets.append(Let(by[0] + i, first + self.gain * Cell(missing + i) / over))
            lets += [Let(by[k] + i, c) for k, c in enumerate(rest, start=1)]
        return Trajectory(
            by=by, late=tuple(lets), at_start=True, history=history.times, spacing=history.spacing
        )

    def interpolate(self, place: Place, registers: Registers) -> Trajectory:
        held = is_held(self.approximation)  # whose integral would be off
        return (Linear() if held else self.approximation).interpolate(place, registers)


def _integral(coefficients: Sequence[Expr], length: Expr) -> Expr:
    """Of a polynomial, from its origin on."""
    found: Expr = ZERO
    for k in range(len(coefficients) - 1, -1, -1):
        part = coefficients[k] / Number(float(k + 1)) if k else coefficients[0]
        found = part * length if found is ZERO else (found + part) * length
    return found
