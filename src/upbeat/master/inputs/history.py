"""Histories: the latest points of an input, kept in registers, and the courses through them."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from upbeat.core.expr import ZERO, Cell, Expr, Number, Op, apply
from upbeat.master.inputs.course import Course, Place
from upbeat.master.inputs.polynomials import Point, through
from upbeat.master.layout import Reg
from upbeat.master.program import Let
from upbeat.master.registers import Registers

CLOSE = 1e-3
"""The part of the distance between two points within which a third one takes the place of the newer."""


def extrapolated(place: Place, registers: Registers, older: int) -> Course:
    """Through the newest point and `older` ones before it."""
    history = _History(place, registers, older + 1, "")
    degree = (older + 1) * len(place.known) - 1
    by = (place.value, *(registers.new(f"{place.name}′c{k}", size=place.size) for k in range(1, degree + 1)))
    lets = history.note(place.next)
    for i in range(place.size):
        coefficients = through(history.points(i))
        if place.unsure:
            sure = history.sure(0)
            coefficients = tuple(apply(Op.WHERE, sure, c, ZERO) for c in coefficients)
        lets += [Let(by[k] + i, c) for k, c in enumerate(coefficients) if k > 0]
    return Course(by=by, late=tuple(lets), history=tuple(history.times))


def interpolated(place: Place, registers: Registers, older: int) -> Course:
    """Through both ends of the step and `older` points before it."""
    history = _History(place, registers, older + 1, "i")
    degree = (older + 2) * len(place.known) - 1
    by = tuple(registers.new(f"{place.name}′i{k}", size=place.size) for k in range(degree + 1))
    lets: list[Let] = []
    for i in range(place.size):
        start, *earlier = history.points(i)
        end = Point(Cell(place.next), tuple(Cell(r + i) for r in place.ahead), sure=True)
        coefficients = through([start, end, *earlier])
        if place.unsure:
            sure = apply(Op.AND, history.sure(0), _sure(place.ahead, place.size))
            chord = through([Point(p.time, p.values[:1], sure=True) for p in (start, end)])
            line = (*chord, *[ZERO] * (degree - 1))
            coefficients = tuple(
                apply(Op.WHERE, sure, c, other) for c, other in zip(coefficients, line, strict=True)
            )
        lets += [Let(by[k] + i, c) for k, c in enumerate(coefficients)]
    return Course(by=by, late=tuple(lets), early=tuple(history.note(place.now)), history=tuple(history.times))


class _History:
    """The latest points of an input, newest first, and the lets that keep them."""

    def __init__(self, place: Place, registers: Registers, depth: int, mark: str) -> None:
        self._place = place
        self.times = [registers.new(f"{place.name}′{mark}t{k}", start=(-inf,)) for k in range(depth)]
        self._sources = place.known
        self._kept = [
            [
                registers.new(f"{place.name}′{mark}u{k}{'′' * d}", size=place.size)
                for d in range(len(self._sources))
            ]
            for k in range(depth)
        ]

    def note(self, time: Reg) -> list[Let]:
        """Take the present value in as the newest point; another one of about the same time gives way to it.

        Two events may lie any distance apart. Differences between points that are much closer to each other
        than to the next one say more about rounding than about the signal.
        """
        if not self.times:
            return []
        lets: list[Let] = []
        moved = apply(Op.GT, Cell(time) - Cell(self.times[0]), self._close())
        for k in range(len(self.times) - 1, 0, -1):
            lets += [Let(to, _if(moved, old, to)) for to, old in self._pairs(k)]
            time_then: Expr = Cell(self.times[k - 1])
            if self._place.unsure:  # a point whose derivatives were not known is none
                time_then = apply(Op.WHERE, self.sure(k - 1), time_then, Number(-inf))
            lets.append(Let(self.times[k], apply(Op.WHERE, moved, time_then, Cell(self.times[k]))))
        lets += [Let(to, Cell(source)) for to, source in self._newest()]
        lets.append(Let(self.times[0], Cell(time)))
        return lets

    def _close(self) -> Expr:
        """How far apart the newest two points must be at least."""
        if len(self.times) == 1:
            return Number(0.0)
        first, second = Cell(self.times[0]), Cell(self.times[1])
        known = apply(Op.GT, second, Number(-inf))
        return apply(Op.WHERE, known, CLOSE * (first - second), Number(0.0))

    def _pairs(self, k: int) -> list[tuple[Reg, Reg]]:
        size = self._place.size
        return [
            (to + i, old + i)
            for to, old in zip(self._kept[k], self._kept[k - 1], strict=True)
            for i in range(size)
        ]

    def _newest(self) -> list[tuple[Reg, Reg]]:
        size = self._place.size
        return [
            (to + i, s + i) for to, s in zip(self._kept[0], self._sources, strict=True) for i in range(size)
        ]

    def sure(self, k: int) -> Expr:
        """Whether the derivatives of a point are known."""
        return _sure(self._kept[k], self._place.size)

    def points(self, cell: int) -> list[Point]:
        """The points of one cell; the newest is there."""
        return [
            Point(Cell(time), tuple(Cell(register + cell) for register in kept), sure=k == 0)
            for k, (time, kept) in enumerate(zip(self.times, self._kept, strict=True))
        ]


def _if(condition: Expr, yes: Reg, no: Reg) -> Expr:
    return apply(Op.WHERE, condition, Cell(yes), Cell(no))


def _sure(known: Sequence[Reg], size: int) -> Expr:
    """Whether all derivatives are numbers; `known` are the registers of the value and of those."""
    cells = [Cell(register + i) for register in known[1:] for i in range(size)]
    sure: Expr = apply(Op.EQ, cells[0], cells[0])
    for cell in cells[1:]:
        sure = apply(Op.AND, sure, apply(Op.EQ, cell, cell))
    return sure
