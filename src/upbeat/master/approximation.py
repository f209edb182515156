"""What an input does between communication points.

An approximation writes the `Let`s that compute the coefficients which `Set` hands over. It has two
faces: *extrapolate* (only the value at the start of the step is known) and *interpolate* (the
source has already gone ahead, so the value at the end is known too). Its memory is in registers:
restarting a history means writing minus infinity into its time registers (`Course.history`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import ClassVar, Protocol

from upbeat.core.errors import MasterError
from upbeat.core.expr import ZERO, Cell, Expr, Number, Op, apply
from upbeat.core.ports import Kind
from upbeat.master.polynomials import Point, through
from upbeat.master.program import Let, Reg
from upbeat.master.registers import Registers

CLOSE = 1e-3
"""The part of the distance between two points within which a third one takes the place of the newer."""
MOST = 5
"""Inputs are polynomials of at most this degree (`units.inputs.MAX_DEGREE`, `UPBEAT_MAX_DEGREE`)."""


@dataclass(frozen=True, slots=True)
class Place:
    """One input as an approximation sees it.

    `known` are the registers of its value and of those derivatives that the approximation asked for;
    `ahead` those that hold (or are assumed) at the end of the step, for interpolation: the same
    registers, once the source has gone ahead. `now` and `next` hold the step's two ends.
    `unsure`: derivatives are NaN while nobody knows them.
    """

    name: str
    kind: Kind
    size: int
    known: tuple[Reg, ...]
    ahead: tuple[Reg, ...]
    now: Reg
    next: Reg
    unsure: bool = False

    @property
    def value(self) -> Reg:
        return self.known[0]


@dataclass(frozen=True, slots=True)
class Course:
    """How an input runs over a step: `early` lets at its start, `late` ones right before `Set(by)`.

    An extrapolated course is handed over at the end of the step before, unless it needs to know
    how long the step will be: then `at_start`. `history` are the registers that restart it.
    """

    by: tuple[Reg, ...]
    late: tuple[Let, ...] = ()
    early: tuple[Let, ...] = ()
    at_start: bool = False
    history: tuple[Reg, ...] = ()


class Approximation(Protocol):
    """Chooses the polynomial that an input follows over a step."""

    @property
    def derivatives(self) -> int:
        """How many derivatives of the input it wants to know."""
        ...

    def extrapolate(self, place: Place, registers: Registers) -> Course:
        """The course from the time in `place.next` on, when the value there is all that is known.

        A course `at_start` runs from `place.now` to `place.next` instead, and the value holds at
        `place.now`.
        """
        ...

    def interpolate(self, place: Place, registers: Registers) -> Course:
        """The course from `place.now` to `place.next`, when `place.ahead` holds at `place.next`."""
        ...


@dataclass(frozen=True, slots=True)
class Hold:
    """Constant: the value at the start of the step, or the one at its end where that is known."""

    derivatives: ClassVar[int] = 0

    def extrapolate(self, place: Place, registers: Registers) -> Course:
        return Course(by=(place.value,))

    def interpolate(self, place: Place, registers: Registers) -> Course:
        return Course(by=(place.ahead[0],))


@dataclass(frozen=True, slots=True)
class Polynomial:
    """The polynomial of degree `order` through the latest values; lower while there are fewer."""

    order: int

    def __post_init__(self) -> None:
        if isinstance(self.order, bool) or not isinstance(self.order, int) or not 1 <= self.order <= MOST:
            raise MasterError(
                f"the order of a polynomial is a whole number from 1 to {MOST}, not {self.order!r}"
            )

    derivatives: ClassVar[int] = 0

    def extrapolate(self, place: Place, registers: Registers) -> Course:
        return _extrapolated(place, registers, self.order)

    def interpolate(self, place: Place, registers: Registers) -> Course:
        return _interpolated(place, registers, self.order - 1)


@dataclass(frozen=True, slots=True)
class Linear:
    """A straight line: the secant of the last step continued, or the chord where the end is known."""

    derivatives: ClassVar[int] = 0

    def extrapolate(self, place: Place, registers: Registers) -> Course:
        return _extrapolated(place, registers, 1)

    def interpolate(self, place: Place, registers: Registers) -> Course:
        return _interpolated(place, registers, 0)


@dataclass(frozen=True, slots=True)
class Hermite:
    """Through values and derivatives at both ends of the last step (or of this one): cubic with the
    first derivative, quintic with the second one too. Needs outputs that declare their `derivative`.

    Where an output cannot tell its derivatives yet (an FMU's, before its first step and after events), the
    input is held, or follows the chord where the end is known; no slope is made up."""

    derivatives: int = 1

    def __post_init__(self) -> None:
        if self.derivatives not in (1, 2):
            raise MasterError(f"Hermite uses 1 or 2 derivatives, not {self.derivatives!r}")

    def extrapolate(self, place: Place, registers: Registers) -> Course:
        return _extrapolated(place, registers, 1)

    def interpolate(self, place: Place, registers: Registers) -> Course:
        return _interpolated(place, registers, 0)


@dataclass(frozen=True, slots=True)
class Continuous:
    """Extrapolated interpolation: a straight line from where the last step's course ended to the
    latest value, so that an input never jumps at a communication point (thesis, example 17)."""

    derivatives: ClassVar[int] = 0

    def extrapolate(self, place: Place, registers: Registers) -> Course:
        base = registers.new(f"{place.name}′base", size=place.size)
        slope = registers.new(f"{place.name}′slope", size=place.size)
        begun = registers.new(f"{place.name}′begun", start=(-inf,))
        running = apply(Op.GT, Cell(begun), Number(-inf))
        length = Cell(place.next) - Cell(place.now)
        # Where the last course got to is computed and not kept: the step may have ended before its aim.
        since = Cell(place.now) - Cell(begun)
        lets: list[Let] = []
        for i in range(place.size):
            value = Cell(place.value + i)
            level = Cell(base + i) + Cell(slope + i) * since
            lets.append(Let(base + i, apply(Op.WHERE, running, level, value)))
            lets.append(Let(slope + i, (value - Cell(base + i)) / length))
        lets.append(Let(begun, Cell(place.now)))
        return Course(by=(base, slope), late=tuple(lets), at_start=True, history=(begun,))

    def interpolate(self, place: Place, registers: Registers) -> Course:
        return _interpolated(place, registers, 0)


@dataclass(frozen=True, slots=True)
class Smooth:
    """A cubic that leaves where, and as steeply as, the last step's course arrived, and arrives where
    linear extrapolation would: no jumps and no kinks at communication points. Where the end of the step is
    known, it is the parabola through both ends and the point before: no jumps."""

    derivatives: ClassVar[int] = 0

    def extrapolate(self, place: Place, registers: Registers) -> Course:
        past = registers.new(f"{place.name}′past", size=place.size)
        when = registers.new(f"{place.name}′when", start=(-inf,))
        secant = registers.new(f"{place.name}′secant", size=place.size)
        start, lean = registers.new(f"{place.name}′start"), registers.new(f"{place.name}′lean")
        by = tuple(registers.new(f"{place.name}′c{k}", size=place.size) for k in range(4))
        running = apply(Op.GT, Cell(when), Number(-inf))
        length = Cell(place.next) - Cell(place.now)
        since = Cell(place.now) - Cell(when)  # as in Continuous: the last step may have ended before its aim
        lets: list[Let] = []
        for i in range(place.size):
            value, steep = Cell(place.value + i), Cell(secant + i)
            c0, c1, c2, c3 = (Cell(register + i) for register in by)
            level = c0 + since * (c1 + since * (c2 + since * c3))
            slope = c1 + since * (2.0 * c2 + since * (3.0 * c3))
            rise = (value - Cell(past + i)) / since
            lets.append(Let(secant + i, apply(Op.WHERE, running, rise, Number(0.0))))
            lets.append(Let(start, apply(Op.WHERE, running, level, value)))
            lets.append(Let(lean, apply(Op.WHERE, running, slope, Number(0.0))))
            end = value + steep * length
            points = [
                Point(Cell(place.now), (Cell(start), Cell(lean)), sure=True),
                Point(Cell(place.next), (end, steep), sure=True),
            ]
            lets += [Let(by[k] + i, coefficient) for k, coefficient in enumerate(through(points))]
            lets.append(Let(past + i, value))
        lets.append(Let(when, Cell(place.now)))
        return Course(by=by, late=tuple(lets), at_start=True, history=(when,))

    def interpolate(self, place: Place, registers: Registers) -> Course:
        return _interpolated(place, registers, 1)


# -------------------------------------------------------------------- histories


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


def _extrapolated(place: Place, registers: Registers, older: int) -> Course:
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


def _interpolated(place: Place, registers: Registers, older: int) -> Course:
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
