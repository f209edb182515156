"""What an input does between communication points: `Hold` and `Linear`.

An approximation writes the `Let`s that compute the coefficients which `Set` hands over. It has two
faces: *extrapolate* (only the value at the start of the step is known) and *interpolate* (the
source has already gone ahead, so the value at the end is known too). Its memory is in registers:
restarting a history means writing minus infinity into its time register, after which the first
secant has slope (u - u′)/∞ = 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Protocol

from upbeat.core.expr import Cell, Op, apply
from upbeat.core.ports import Kind
from upbeat.master.program import Let, Reg
from upbeat.master.registers import Registers


@dataclass(frozen=True, slots=True)
class Place:
    """One input as an approximation sees it: the registers of its value and of the step's two ends."""

    name: str
    kind: Kind
    size: int
    value: Reg
    now: Reg
    next: Reg


@dataclass(frozen=True, slots=True)
class Course:
    """How an input runs: `early` lets at the start of the step, `late` ones right before `Set(by)`."""

    by: tuple[Reg, ...]
    late: tuple[Let, ...] = ()
    early: tuple[Let, ...] = ()


class Approximation(Protocol):
    """Chooses the polynomial that an input follows over a step."""

    def extrapolate(self, place: Place, registers: Registers) -> Course:
        """The course from the time in `place.next` on, when the value there is all that is known."""
        ...

    def interpolate(self, place: Place, registers: Registers) -> Course:
        """The course from `place.now` to `place.next`, when `place.value` holds at `place.next`."""
        ...


@dataclass(frozen=True, slots=True)
class Hold:
    """Constant: the value at the start of the step, or the one at its end where that is known."""

    def extrapolate(self, place: Place, registers: Registers) -> Course:
        return Course(by=(place.value,))

    def interpolate(self, place: Place, registers: Registers) -> Course:
        return Course(by=(place.value,))


@dataclass(frozen=True, slots=True)
class Linear:
    """A straight line: the secant of the last step continued, or the chord where the end is known.

    Only real inputs can run along a line; others are held.
    """

    def extrapolate(self, place: Place, registers: Registers) -> Course:
        if place.kind is not Kind.REAL:
            return Hold().extrapolate(place, registers)
        past = registers.new(f"{place.name}′past", size=place.size)
        when = registers.new(f"{place.name}′when", start=(-inf,))
        slope = registers.new(f"{place.name}′slope", size=place.size)
        # Exchanging twice at one instant must not divide by zero nor forget the slope.
        moved = apply(Op.GT, Cell(place.next), Cell(when))
        elapsed = Cell(place.next) - Cell(when)
        lets = []
        for i in range(place.size):
            value = Cell(place.value + i)
            secant = (value - Cell(past + i)) / elapsed
            lets.append(Let(slope + i, apply(Op.WHERE, moved, secant, Cell(slope + i))))
            lets.append(Let(past + i, value))
        lets.append(Let(when, Cell(place.next)))
        return Course(by=(place.value, slope), late=tuple(lets))

    def interpolate(self, place: Place, registers: Registers) -> Course:
        if place.kind is not Kind.REAL:
            return Hold().interpolate(place, registers)
        before = registers.new(f"{place.name}′before", size=place.size)
        slope = registers.new(f"{place.name}′slope", size=place.size)
        length = Cell(place.next) - Cell(place.now)
        late = tuple(
            Let(slope + i, (Cell(place.value + i) - Cell(before + i)) / length) for i in range(place.size)
        )
        early = tuple(Let(before + i, Cell(place.value + i)) for i in range(place.size))
        return Course(by=(before, slope), late=late, early=early)
