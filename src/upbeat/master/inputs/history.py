"""Histories: the latest points of an input, kept in registers, and the courses through them.

A polynomial through points that lie close together, compared to the step it is continued over, says more
about rounding, and about what couplings leave of errors, than about the signal. A step may have any length:
another unit ticks a microsecond later, an event lies a hair before the end of a step. So no points are used
that are too close for the step to come:

* a new point takes the place of the newest one, if that is closer than `CLOSE` times the usual step; the
  older ones stay, so that nothing is lost. The usual step is the longest of late: it forgets by half with
  every step, so that points are soon kept again where steps have become shorter for good;
* where there is none older, a line through two points needs them `TINY` usual steps apart. With derivatives
  it is `APART`: below that the Taylor polynomial of the newest point alone is better;
* where two older points are closer than `APART` times the step, the history ends with the newer one.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from upbeat.core.expr import ZERO, Cell, Expr, Number, Op, any_of, apply
from upbeat.core.ports import Kind
from upbeat.master.inputs.course import Course, Place
from upbeat.master.inputs.polynomials import Point, through
from upbeat.master.layout import Reg
from upbeat.master.program import Let
from upbeat.master.registers import Registers

CLOSE = 0.4
"""The part of the usual step within which a new point takes the place of the newest, if there is an older
one. Below a half: after an event steps are half as long, and count."""
TINY = 1e-5
"""The part of a step that two points of a line must be apart, where there is no older one."""
APART = 0.2
"""The part of a step that other points must be apart from each other, to be of use for it."""
FADES = 0.5
"""What a step leaves of the usual length of the steps before it."""


def extrapolated(place: Place, registers: Registers, older: int) -> Course:
    """Through the newest point and `older` ones before it."""
    history = History(place, registers, older + 1, "")
    degree = (older + 1) * len(place.known) - 1
    by = (place.value, *(registers.new(f"{place.name}′c{k}", size=place.size) for k in range(1, degree + 1)))
    through_all = [
        Let(by[k] + i, c) for i in range(place.size) for k, c in enumerate(history.continued(i)) if k > 0
    ]
    return Course(
        by=by,
        late=(*history.note(ahead=False), *through_all),
        near=history.near,
        again=(*history.thinned(), *through_all),
        history=history.times,
        usual=history.usual,
    )


def interpolated(place: Place, registers: Registers, older: int) -> Course:
    """Through both ends of the step and `older` points before it.

    Where a step has ended at an event inside what the input follows, which has jumped there, the end says
    nothing about the way there: the course goes on from the points before, as if the end were not known.
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
    return Course(
        by=by,
        late=tuple(lets),
        early=tuple(history.note()),
        history=history.times,
        usual=history.usual,
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
        self.usual: tuple[Reg, ...] = (new(f"{place.name}′{mark}usual"),) if depth > 1 else ()
        self._moved = new(f"{place.name}′{mark}moved", Kind.BOOLEAN) if depth > 1 else 0
        self._count = new(f"{place.name}′{mark}count", Kind.INTEGER) if place.counts else None

    def note(self, *, ahead: bool = True) -> list[Let]:
        """Take the present value in as the newest point; one that is too close gives way to it. Where what
        the input follows has jumped since, there is nothing else. At the start of a step, or (not `ahead`) at
        the end of one, before it is known how long the next will be: see `near`."""
        times, place = self.times, self._place
        now, length = Cell(place.now if ahead else place.next), Cell(place.next) - Cell(place.now)
        lets: list[Let] = []
        for usual in self.usual:  # values may be exchanged several times at one time
            longest: Expr = apply(Op.MAX, length, FADES * Cell(usual))
            later = apply(Op.GT, now, Cell(times[0]))
            lets.append(Let(usual, longest if ahead else apply(Op.WHERE, later, longest, Cell(usual))))
        if self._count is not None:
            jumped = self.jumped(place.counts)
            if place.within and len(place.known) == 1:
                jumped = apply(Op.AND, jumped, self._leapt(now))
            lets += [Let(time, apply(Op.WHERE, jumped, Number(-inf), Cell(time))) for time in times]
            lets.append(Let(self._count, _sum(place.counts)))
        for usual in self.usual:
            lets.append(Let(self._moved, apply(Op.GT, now - Cell(times[0]), self._close() * Cell(usual))))
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
        return any_of([apply(Op.LT, gap, least) for _, gap, least in self._gaps()])

    def thinned(self) -> list[Let]:
        """At the start of a step: points that are too close to a newer one are forgotten, and all older."""
        return [  # also where one of the two is not there
            Let(time, apply(Op.WHERE, apply(Op.GE, gap, least), Cell(time), Number(-inf)))
            for time, gap, least in self._gaps()
        ]

    def _gaps(self) -> list[tuple[Reg, Expr, Expr]]:
        """Older points, how far they are from the next one, and how far they must be for this step."""
        times, length = self.times, Cell(self._place.next) - Cell(self._place.now)
        return [
            (times[k], Cell(times[k - 1]) - Cell(times[k]), (self._least if k == 1 else APART) * length)
            for k in range(1, len(times))
        ]

    def _close(self) -> Expr:
        """The part of the usual step that the newest two points must be apart at least."""
        older = apply(Op.GT, Cell(self.times[1]), Number(-inf))
        return apply(Op.WHERE, older, Number(CLOSE), Number(self._least))

    @property
    def _least(self) -> float:
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
        return apply(Op.LT, Cell(self._place.next) - Cell(self._place.now), CLOSE * Cell(self.usual[0]))

    def jumped(self, counts: Sequence[Reg]) -> Expr:
        """Whether something that the input follows has jumped since the newest point was noted."""
        return ZERO if self._count is None else apply(Op.NE, _sum(counts), Cell(self._count))

    def continued(self, cell: int) -> tuple[Expr, ...]:
        """The coefficients of one cell's course through all points, from the newest on."""
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
