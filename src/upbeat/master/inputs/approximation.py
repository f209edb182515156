"""What an input does between communication points.

An approximation writes the `Let`s that compute the coefficients which `Set` hands over. It has two
faces: *extrapolate* (only the value at the start of the step is known) and *interpolate* (the
source has already gone ahead, so the value at the end is known too). Its memory is in registers:
restarting a history means writing minus infinity into its time registers (`Course.history`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import ClassVar, Protocol

from upbeat.core.errors import MasterError
from upbeat.core.expr import ZERO, Cell, Number, Op, apply
from upbeat.core.ports import Kind
from upbeat.master.inputs.course import Course, Place
from upbeat.master.inputs.history import History, extrapolated, interpolated
from upbeat.master.inputs.polynomials import Point, through
from upbeat.master.program import Let
from upbeat.master.registers import Registers

MOST = 5
"""Inputs are polynomials of at most this degree (`units.inputs.MAX_DEGREE`, `UPBEAT_MAX_DEGREE`)."""


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
    """Constant: the value at the start of the step, or the one at its end where that is known (and not
    because of an event on the way there)."""

    derivatives: ClassVar[int] = 0

    def extrapolate(self, place: Place, registers: Registers) -> Course:
        return Course(by=(place.value,))

    def interpolate(self, place: Place, registers: Registers) -> Course:
        if not place.counts or place.within or place.kind is Kind.STRING:
            return Course(by=(place.ahead[0],))
        history = History(place, registers, 1, "i")
        by = registers.new(f"{place.name}′i0", place.kind, place.size)
        jumped, before = history.jumped(place.counts_ahead), history.kept[0][0]
        lets = [
            Let(by + i, apply(Op.WHERE, jumped, Cell(before + i), Cell(place.ahead[0] + i)))
            for i in range(place.size)
        ]
        return Course(by=(by,), late=tuple(lets), early=tuple(history.note()), history=history.times)


@dataclass(frozen=True, slots=True)
class Polynomial:
    """The polynomial of this `degree` through the latest values; lower while there are fewer."""

    degree: int

    def __post_init__(self) -> None:
        if isinstance(self.degree, bool) or not isinstance(self.degree, int) or not 1 <= self.degree <= MOST:
            raise MasterError(
                f"the degree of a polynomial must be a whole number from 1 to {MOST}, not {self.degree!r}"
            )

    derivatives: ClassVar[int] = 0

    def extrapolate(self, place: Place, registers: Registers) -> Course:
        return extrapolated(place, registers, self.degree)

    def interpolate(self, place: Place, registers: Registers) -> Course:
        return interpolated(place, registers, self.degree - 1)


@dataclass(frozen=True, slots=True)
class Linear:
    """A straight line: the secant of the last step continued, or the chord where the end is known."""

    derivatives: ClassVar[int] = 0

    def extrapolate(self, place: Place, registers: Registers) -> Course:
        return extrapolated(place, registers, 1)

    def interpolate(self, place: Place, registers: Registers) -> Course:
        return interpolated(place, registers, 0)


@dataclass(frozen=True, slots=True)
class Hermite:
    """Through values and derivatives at both ends of the last step (or of this one): cubic with the
    first derivative, quintic with the second one too. Needs outputs that declare their `derivative`.

    Where an output cannot tell its derivatives yet (an FMU's, before its first step and after events), the
    input is held, or follows the chord where the end is known; no slope is made up."""

    derivatives: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.derivatives, int) or self.derivatives not in (1, 2):
            raise MasterError(f"Hermite uses 1 or 2 derivatives, not {self.derivatives!r}")

    def extrapolate(self, place: Place, registers: Registers) -> Course:
        return extrapolated(place, registers, 1)

    def interpolate(self, place: Place, registers: Registers) -> Course:
        return interpolated(place, registers, 0)


@dataclass(frozen=True, slots=True)
class Continuous:
    """Extrapolated interpolation: a straight line from where the last step's course ended to the
    latest value, so that an input never jumps at a communication point (thesis, example 17)."""

    derivatives: ClassVar[int] = 0

    def extrapolate(self, place: Place, registers: Registers) -> Course:
        base = registers.new(f"{place.name}′base", size=place.size)
        slope = registers.new(f"{place.name}′slope", size=place.size)
        history = History(place, registers, 1, "")
        (begun,) = history.times
        since, length = registers.new(f"{place.name}′since"), Cell(place.next) - Cell(place.now)
        # Where the last course got to is computed and not kept: the step may have ended before its aim.
        jumped = ZERO if place.within else history.jumped(place.counts)
        begins = apply(Op.WHERE, jumped, Number(inf), Cell(place.now) - Cell(begun))
        running = apply(Op.LT, Cell(since), Number(inf))
        lets: list[Let] = [Let(since, begins), *history.note()]
        for i in range(place.size):
            value = Cell(place.value + i)
            level = Cell(base + i) + Cell(slope + i) * Cell(since)
            lets.append(Let(base + i, apply(Op.WHERE, running, level, value)))
            lets.append(Let(slope + i, (value - Cell(base + i)) / length))
        return Course(by=(base, slope), late=tuple(lets), at_start=True, history=history.times)

    def interpolate(self, place: Place, registers: Registers) -> Course:
        return interpolated(place, registers, 0)


@dataclass(frozen=True, slots=True)
class Smooth:
    """A cubic that leaves where, and as steeply as, the last step's course arrived, and arrives where
    linear extrapolation would: no jumps and no kinks at communication points. Where the end of the step is
    known, it is the parabola through both ends and the point before: no jumps."""

    derivatives: ClassVar[int] = 0

    def extrapolate(self, place: Place, registers: Registers) -> Course:
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
        # How long steps were before a course that begins anew says nothing about those to come.
        lets += [Let(usual, apply(Op.WHERE, running, Cell(usual), length)) for usual in history.usual]
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
            # A step much shorter than usual is no time for a turn: the course goes straight on.
            straight = (Cell(start), Cell(lean), ZERO, ZERO)
            lets += [
                Let(by[k] + i, apply(Op.WHERE, history.short, one, other))
                for k, (one, other) in enumerate(zip(straight, through(points), strict=True))
            ]
        lets.append(Let(when, Cell(place.now)))
        return Course(
            by=by, late=tuple(lets), at_start=True, history=(*history.times, when), usual=history.usual
        )

    def interpolate(self, place: Place, registers: Registers) -> Course:
        return interpolated(place, registers, 1)
