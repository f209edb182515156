"""Who goes first: the instructions that predict events and choose the unit that locates the next one.

A condition is continued from what is known of it now: along the straight line by its rate where that is
known, else through its last two values; where its second derivative is known, along a parabola, too. All
conditions of an event are at most zero from the last of the times at which one of them falls there, if none
has risen again before. An event is expected at the earlier of the two times that lines and parabolas give:
who goes first for nothing has lost little, who goes second meets the event unprepared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import inf

from upbeat.core.expr import ZERO, Cell, Expr, Number, Op, apply
from upbeat.core.ports import Kind
from upbeat.master.conditions import WIDTH, Watch
from upbeat.master.program import Instruction, Let, Reg
from upbeat.master.wiring import Wiring

NEVER = Number(inf)


@dataclass(frozen=True, slots=True)
class Choice:
    """Registers: who leads, counted from 1, and who goes first in this step (0: nobody)."""

    lead: Reg
    first: Reg


def choice(wiring: Wiring) -> Choice:
    """The registers of a choice; number 1 leads in the beginning."""
    lead = wiring.registers.new("lead", Kind.INTEGER, start=(1,))
    return Choice(lead, wiring.registers.new("goes first", Kind.INTEGER))


def chosen(
    wiring: Wiring,
    choice: Choice,
    watch: Watch,
    able: Sequence[Sequence[int]],
    ahead: float,
    *,
    otherwise: int | None,
    beside: bool,
) -> list[Instruction]:
    """Fill in `choice` at the start of a step.

    `able` are the numbers of those that can locate each event. Whoever leads goes on leading, unless the
    first event that is expected within `ahead` steps is none of its own. Where none is expected, number
    `otherwise` leads (None: who has led before), or, with `beside`, nobody.
    """
    predicted = _Predicted(wiring, watch, ahead)
    lets, lead = predicted.lets, Cell(choice.lead)
    soonest = wiring.registers.new("leading′soonest")
    who = wiring.registers.new("leading′who", Kind.INTEGER)
    lets += [Let(soonest, NEVER), Let(who, lead if otherwise is None else Number(float(otherwise)))]
    for when, units in zip(predicted.times, able, strict=True):
        if not units:
            continue
        stays = _any([apply(Op.EQ, lead, Number(float(k))) for k in units])
        best = apply(Op.WHERE, stays, lead, Number(float(units[0])))
        sooner = apply(Op.LT, Cell(when), Cell(soonest))
        lets += [
            Let(who, apply(Op.WHERE, sooner, best, Cell(who))),
            Let(soonest, apply(Op.MIN, Cell(when), Cell(soonest))),
        ]
    lets.append(Let(choice.lead, Cell(who)))
    expected = apply(Op.LT, Cell(soonest), NEVER)
    lets.append(Let(choice.first, apply(Op.WHERE, expected, lead, ZERO) if beside else lead))
    return [*lets]


class _Predicted:
    """For each event, a register with the time until it is expected (infinity: not so soon)."""

    def __init__(self, wiring: Wiring, watch: Watch, ahead: float) -> None:
        self._wiring = wiring
        self._watch = watch
        self.lets: list[Let] = []
        self.times: list[Reg] = []
        new = wiring.registers.new
        self._before = new("leading′before", size=max(1, len(watch.orders)))
        self._since = new("leading′since", start=(-inf,))
        if 0 in watch.orders:
            anew = apply(Op.WHERE, Cell(watch.jumped), Number(-inf), Cell(self._since))
            self.lets.append(Let(self._since, anew))
        self._root = new("leading′root")
        enters, leaves = new("leading′enters"), new("leading′leaves")
        within = ahead * (Cell(wiring.next) - Cell(wiring.now))
        place = 0
        for name, count in zip(watch.names, watch.counts, strict=True):
            when = new(f"leading′{name}")
            places = range(place, place + count)
            place += count
            for curved in (False, True) if any(watch.orders[k] > 1 for k in places) else (False,):
                values = [self._condition(k, enters, leaves, k == places[0], curved) for k in places]
                armed = apply(Op.GT, reduce(lambda a, b: apply(Op.MAX, a, b), values), ZERO)
                stays = apply(Op.LE, Cell(enters), Cell(leaves))
                comes = apply(Op.AND, stays, apply(Op.LE, Cell(enters), within))
                found = apply(Op.WHERE, apply(Op.AND, armed, comes), Cell(enters), NEVER)
                self.lets.append(Let(when, apply(Op.MIN, Cell(when), found) if curved else found))
            self.times.append(when)
        if 0 in watch.orders:
            self.lets += [
                Let(self._before + k, Cell(watch.first + WIDTH * k))
                for k, order in enumerate(watch.orders)
                if order == 0
            ]
            self.lets.append(Let(self._since, Cell(wiring.now)))

    def _condition(self, k: int, enters: Reg, leaves: Reg, first: bool, curved: bool) -> Expr:
        """Make `enters` and `leaves` the latest entry and the earliest leave so far; gives the value now."""
        z, rate, half = self._continued(k, curved)
        self.lets.append(Let(self._root, apply(Op.SQRT, rate * rate - 4.0 * half * z)))
        root, below = Cell(self._root), apply(Op.LE, z, ZERO)
        falls, rises = root - rate, root + rate
        # Of the two ways to write a root the one that also holds for a straight line, where half is 0.
        enter = apply(Op.WHERE, below, ZERO, _if_above(falls, 2.0 * z / falls))
        back = _if_above(half, falls / (2.0 * half))
        leave = apply(Op.WHERE, below, _if_above(rises, -2.0 * z / rises), back)
        self.lets += [
            Let(enters, enter if first else apply(Op.MAX, Cell(enters), enter)),
            Let(leaves, leave if first else apply(Op.MIN, Cell(leaves), leave)),
        ]
        return z

    def _continued(self, k: int, curved: bool) -> tuple[Expr, Expr, Expr]:
        """The value of a condition, its rate, and half of its second derivative."""
        at, order = self._watch.first + WIDTH * k, self._watch.orders[k]
        z: Expr = Cell(at)
        if order == 0:
            length = Cell(self._wiring.now) - Cell(self._since)
            known = apply(Op.GT, Cell(self._since), Number(-inf))
            rate = apply(Op.WHERE, known, (z - Cell(self._before + k)) / length, ZERO)
            return z, rate, ZERO
        return z, Cell(at + 1), 0.5 * Cell(at + 2) if curved and order > 1 else ZERO


def _if_above(number: Expr, value: Expr) -> Expr:
    """The value if the number is above zero, else never; so it is if the number is none."""
    return apply(Op.WHERE, apply(Op.GT, number, ZERO), value, NEVER)


def _any(truths: Sequence[Expr]) -> Expr:
    return reduce(lambda a, b: apply(Op.OR, a, b), truths)
