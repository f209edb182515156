"""Who goes first: the instructions that predict events and choose the unit that locates the next one.

A condition is continued from what is known of it now: along the straight line by its rate where that is
known, else through its last two values; where its second derivative is known, along a parabola, too. So a
condition is above zero from now to its fall and again after it has risen, or, if it is not above zero now,
from its rise to its fall. An event is expected where the last of them falls, before another one has risen.
Lines and parabolas give two times for it, of which the earlier counts: who goes first for nothing has lost
little, who goes second meets the event unprepared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from upbeat.core.expr import ZERO, Cell, Expr, Number, Op, any_of, apply
from upbeat.core.ports import Kind
from upbeat.master.events.conditions import WIDTH, Watch
from upbeat.master.layout import Reg
from upbeat.master.program import Instruction, Let
from upbeat.master.wiring import Wiring

NEVER = Number(inf)
ROUNDS = 3
"""How often at most all conditions are asked whether they are above zero where others are not. With less than
many conditions need, an event may be expected too early, which does no harm."""


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
    deciding: Sequence[Sequence[Sequence[int]]],
    ahead: float,
    *,
    otherwise: int | None,
    beside: bool,
    jumped: Reg,
) -> list[Instruction]:
    """Fill in `choice` at the start of a step.

    `able` are the numbers of those that can locate each event, `deciding` those that each of its conditions
    is about. Whoever leads goes on leading, unless the first event that is expected within `ahead` steps is
    none of its own, or the condition of it that falls last is not. Where none is expected, number
    `otherwise` leads (None: who has led before), or, with `beside`, nobody: but not in a step of which too
    little is known, because something has `jumped` or conditions have been seen once only.

    An event that is not above zero now has happened already. If it is expected again, the step ends between
    its rise and its fall, so that everybody sees it above zero before.
    """
    predicted = _Predicted(wiring, watch, ahead)
    lets, lead = predicted.lets, Cell(choice.lead)
    soonest = wiring.registers.new("leading′soonest")
    who = wiring.registers.new("leading′who", Kind.INTEGER)
    lets += [Let(soonest, NEVER), Let(who, lead if otherwise is None else Number(float(otherwise)))]
    for when, last, units, deciders in zip(predicted.times, predicted.lasts, able, deciding, strict=True):
        if not units:
            continue
        best = _best(lead, units)
        for i, some in enumerate(deciders):
            if list(some) != list(units):
                best = apply(Op.WHERE, apply(Op.EQ, Cell(last), Number(float(i))), _best(lead, some), best)
        sooner = apply(Op.LT, Cell(when), Cell(soonest))
        lets += [
            Let(who, apply(Op.WHERE, sooner, best, Cell(who))),
            Let(soonest, apply(Op.MIN, Cell(when), Cell(soonest))),
        ]
    lets.append(Let(choice.lead, Cell(who)))
    lets.append(Let(wiring.next, apply(Op.MIN, Cell(wiring.next), Cell(wiring.now) + Cell(predicted.pause))))
    alone = any_of([apply(Op.LT, Cell(soonest), NEVER), Cell(jumped), *predicted.blind])
    lets.append(Let(choice.first, apply(Op.WHERE, alone, lead, ZERO) if beside else lead))
    return [*lets, *predicted.after]


def _best(lead: Expr, units: Sequence[int]) -> Expr:
    """Who leads, if it is one of these; else the first of them."""
    stays = any_of([apply(Op.EQ, lead, Number(float(k))) for k in units])
    return apply(Op.WHERE, stays, lead, Number(float(units[0])))


class _Predicted:
    """For each event, a register with the time until it is expected (infinity: not so soon), and one with the
    number of the condition that falls last.

    `pause` is where the step is to end for events that must be seen above zero first, `blind` says whether
    rates are unknown, and `after` is to be done when all this has been used.
    """

    def __init__(self, wiring: Wiring, watch: Watch, ahead: float) -> None:
        self._wiring = wiring
        self._watch = watch
        self.times: list[Reg] = []
        self.lasts: list[Reg] = []
        self.blind: list[Expr] = []
        self.after: list[Let] = []
        new = wiring.registers.new
        self._before = new("leading′before", size=max(1, len(watch.orders)))
        self._since = new("leading′since", start=(-inf,))
        self.pause = new("leading′pause")
        self.lets = [Let(self.pause, NEVER)]
        if 0 in watch.orders:
            anew = apply(Op.WHERE, Cell(watch.jumped), Number(-inf), Cell(self._since))
            self.lets.append(Let(self._since, anew))
            self.blind.append(apply(Op.EQ, Cell(self._since), Number(-inf)))
        self._root, self._above, self._from = new("leading′root"), new("leading′above"), new("leading′from")
        self._at, self._last = new("leading′at"), new("leading′last")
        widest = max(watch.counts, default=1)
        self._falls, self._rises = new("leading′falls", size=widest), new("leading′rises", size=widest)
        within = ahead * (Cell(wiring.next) - Cell(wiring.now))
        place = 0
        for name, count in zip(watch.names, watch.counts, strict=True):
            when, last = new(f"leading′{name}"), new(f"leading′{name}′last")
            places = range(place, place + count)
            place += count
            for curved in (False, True) if any(watch.orders[k] > 1 for k in places) else (False,):
                self._fall(places, curved)
                found = apply(Op.WHERE, apply(Op.LE, Cell(self._at), within), Cell(self._at), NEVER)
                middle = 0.5 * (Cell(self._from) + Cell(self._at))
                pause = apply(Op.WHERE, Cell(self._above), NEVER, middle)
                sooner = apply(Op.LT, found, Cell(when))
                number = Cell(self._last)
                self.lets += [
                    Let(last, apply(Op.WHERE, sooner, number, Cell(last)) if curved else number),
                    Let(when, apply(Op.MIN, Cell(when), found) if curved else found),
                    Let(self.pause, apply(Op.MIN, Cell(self.pause), pause)),
                ]
            self.times.append(when)
            self.lasts.append(last)
        if 0 in watch.orders:
            self.after = [
                Let(self._before + k, Cell(watch.first + WIDTH * k))
                for k, order in enumerate(watch.orders)
                if order == 0
            ]
            self.after.append(Let(self._since, Cell(wiring.now)))

    def _fall(self, places: range, curved: bool) -> None:
        """When the largest of these conditions falls to zero, after `_from`; and whether it is above now."""
        lets = self.lets
        lets.append(Let(self._from, NEVER))
        aboves = [self._condition(k, i, curved) for i, k in enumerate(places)]
        lets.append(Let(self._above, any_of(aboves)))
        # What is not above zero now must rise first.
        lets.append(Let(self._from, apply(Op.WHERE, Cell(self._above), ZERO, Cell(self._from))))
        lets += [Let(self._at, Cell(self._from)), Let(self._last, ZERO)]
        at = Cell(self._at)
        for _ in range(min(len(places), ROUNDS)):
            for i, above in enumerate(aboves):
                fall, rise = Cell(self._falls + i), Cell(self._rises + i)
                first = apply(Op.WHERE, apply(Op.LT, at, rise), apply(Op.MAX, at, fall), NEVER)
                inside = apply(Op.AND, apply(Op.LE, rise, at), apply(Op.LT, at, fall))
                again = apply(Op.WHERE, inside, fall, at)
                moved = apply(Op.WHERE, above, first, again)
                number = apply(Op.WHERE, apply(Op.GT, moved, at), Number(float(i)), Cell(self._last))
                lets += [Let(self._last, number), Let(self._at, moved)]

    def _condition(self, k: int, i: int, curved: bool) -> Expr:
        """When condition `k` falls and rises, in place `i`; gives whether it is above zero now.

        Of the two ways to write a root, each time the one that subtracts nothing and also holds for a
        straight line, where half is 0.
        """
        z, rate, half = self._continued(k, curved)
        self.lets.append(Let(self._root, apply(Op.SQRT, rate * rate - 4.0 * half * z)))
        root, above = Cell(self._root), apply(Op.GT, z, ZERO)
        falls, rises = root - rate, root + rate
        sinking = apply(Op.LT, rate, ZERO)
        back = _if_above(half, falls / (2.0 * half))
        rise = apply(Op.WHERE, sinking, back, _if_above(rises, -2.0 * z / rises))
        fall = apply(Op.WHERE, sinking, NEVER, _if_above(-half, rises / (-2.0 * half)))
        self.lets += [
            Let(self._falls + i, apply(Op.WHERE, above, _if_above(falls, 2.0 * z / falls), fall)),
            Let(self._rises + i, apply(Op.WHERE, above, back, rise)),
        ]
        sooner = apply(Op.MIN, Cell(self._from), Cell(self._rises + i))
        self.lets.append(Let(self._from, apply(Op.WHERE, above, Cell(self._from), sooner)))
        return above

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
