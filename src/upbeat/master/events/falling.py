"""When numbers fall to zero, as instructions of a program: ahead of now, and back in the step that is done.

A pace does the same with numbers, on polynomials of higher degree (`upbeat.master.events.prediction`); a
program has roots of parabolas, and no loop. Both agree where a parabola says all, which a test sees to.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import NamedTuple

from upbeat.core.expr import ZERO, Cell, Expr, Number, Op, any_of, apply
from upbeat.master.program import Let
from upbeat.master.registers import Registers

NEVER = Number(inf)
ROUNDS = 3
"""How often at most all numbers are asked whether they are above zero where others are not. With less than
many of them need, the fall may be found too early."""
_STEEPEST = 3.0
"""A cubic whose ends are steeper than so many times its mean slope need not be monotonic."""


class Parabola(NamedTuple):
    """A number from now on: its value, its rate, and half of its second derivative."""

    z: Expr
    rate: Expr
    half: Expr


class Ahead:
    """Registers for the fall of the largest of several numbers, each of which goes on along a parabola.

    So a number is above zero from now to its fall and again after it has risen, or, if it is not above zero
    now, from its rise to its fall. The largest falls where the last of them does, before another one has
    risen. After the instructions of `falls` these hold: `at`, how long until then (infinity: never); `above`,
    whether the largest is above zero now, and `since`, when it will be if not; `last`, which one falls last.
    """

    def __init__(self, registers: Registers, name: str, most: int) -> None:
        """For up to `most` numbers at once."""
        new = registers.new
        self._root, self.above, self.since = new(f"{name}′root"), new(f"{name}′above"), new(f"{name}′from")
        self.at, self.last = new(f"{name}′at"), new(f"{name}′last")
        self._falls, self._rises = new(f"{name}′falls", size=most), new(f"{name}′rises", size=most)

    def falls(self, several: Sequence[Parabola]) -> list[Let]:
        """When the largest of these falls to zero."""
        lets = [Let(self.since, NEVER)]
        aboves: list[Expr] = []
        for i, one in enumerate(several):
            lets += self._one(one, i)
            aboves.append(apply(Op.GT, one.z, ZERO))
        lets.append(Let(self.above, any_of(aboves)))
        # What is not above zero now must rise first.
        lets.append(Let(self.since, apply(Op.WHERE, Cell(self.above), ZERO, Cell(self.since))))
        lets += [Let(self.at, Cell(self.since)), Let(self.last, ZERO)]
        at = Cell(self.at)
        for _ in range(min(len(several), ROUNDS)):
            for i, above in enumerate(aboves):
                fall, rise = Cell(self._falls + i), Cell(self._rises + i)
                first = apply(Op.WHERE, apply(Op.LT, at, rise), apply(Op.MAX, at, fall), NEVER)
                inside = apply(Op.AND, apply(Op.LE, rise, at), apply(Op.LT, at, fall))
                again = apply(Op.WHERE, inside, fall, at)
                moved = apply(Op.WHERE, above, first, again)
                number = apply(Op.WHERE, apply(Op.GT, moved, at), Number(float(i)), Cell(self.last))
                lets += [Let(self.last, number), Let(self.at, moved)]
        return lets

    def _one(self, parabola: Parabola, i: int) -> list[Let]:
        """When a number falls and rises, in place `i`.

        Of the two ways to write a root, each time the one that subtracts nothing and also holds for a
        straight line, where half is 0.
        """
        z, rate, half = parabola
        root, above = Cell(self._root), apply(Op.GT, z, ZERO)
        falls, rises = root - rate, root + rate
        sinking = apply(Op.LT, rate, ZERO)
        back = _if_above(half, falls / (2.0 * half))
        rise = apply(Op.WHERE, sinking, back, _if_above(rises, -2.0 * z / rises))
        fall = apply(Op.WHERE, sinking, NEVER, _if_above(-half, rises / (-2.0 * half)))
        sooner = apply(Op.MIN, Cell(self.since), Cell(self._rises + i))
        return [
            Let(self._root, apply(Op.SQRT, rate * rate - 4.0 * half * z)),
            Let(self._falls + i, apply(Op.WHERE, above, _if_above(falls, 2.0 * z / falls), fall)),
            Let(self._rises + i, apply(Op.WHERE, above, back, rise)),
            Let(self.since, apply(Op.WHERE, above, Cell(self.since), sooner)),
        ]


def _if_above(number: Expr, value: Expr) -> Expr:
    """The value if the number is above zero, else never; so it is if the number is none."""
    return apply(Op.WHERE, apply(Op.GT, number, ZERO), value, NEVER)


class Fall(NamedTuple):
    """A number over a step in which it fell: its values before and now, and their rates."""

    before: Expr
    now: Expr
    rate_before: Expr
    rate_now: Expr


def back_to_zero(span: Expr, part: Expr, fall: Fall) -> Expr:
    """How long ago a number was zero, where rates are known. On a straight line it would be `part` of the
    step of length `span`.

    No equation is to be solved for that. If the number falls at both ends, it is on the cubic that gives the
    time as a function of the number; if it rises first, on the parabola through both ends that falls as it
    does at the later one.
    """
    sinks = apply(Op.LT, fall.rate_before, ZERO)
    return apply(Op.WHERE, sinks, _cubic(span, part, fall), _parabola(span, fall))


def _cubic(span: Expr, part: Expr, fall: Fall) -> Expr:
    height = fall.before - fall.now
    slope1, slope0 = (
        apply(Op.MIN, height / apply(Op.NEG, rate), _STEEPEST * span)
        for rate in (fall.rate_now, fall.rate_before)
    )
    rest = 1.0 - part
    ends = slope1 * part * rest * rest - slope0 * part * part * rest
    return span * part * part * (3.0 - 2.0 * part) + ends


def _parabola(span: Expr, fall: Fall) -> Expr:
    """Whose sides are on both sides of zero."""
    rate, z = fall.rate_now, fall.now
    bend = (fall.before - z + rate * span) / (span * span)
    return 2.0 * z / (rate - apply(Op.SQRT, rate * rate - 4.0 * bend * z))
