"""Who goes first: the instructions that predict events and choose the unit that locates the next one.

A condition is continued from what is known of it now: along the straight line by its rate where that is
known, else through its last two values; where its second derivative is known, along a parabola, too. An
event is expected where the largest of its conditions falls to zero (`upbeat.master.events.falling`).
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
from upbeat.master.events.falling import NEVER, Ahead, Parabola
from upbeat.master.layout import Reg
from upbeat.master.program import Instruction, Let
from upbeat.master.wiring import Wiring


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
        fall = Ahead(wiring.registers, "leading", max(watch.counts, default=1))
        at, which = Cell(fall.at), Cell(fall.last)
        within = ahead * (Cell(wiring.next) - Cell(wiring.now))
        for name, places in zip(watch.names, watch.places, strict=True):
            when, last = new(f"leading′of {name}"), new(f"leading′of {name}′last")
            for curved in (False, True) if any(watch.orders[k] > 1 for k in places) else (False,):
                self.lets += fall.falls([self._continued(k, curved) for k in places])
                found = apply(Op.WHERE, apply(Op.LE, at, within), at, NEVER)
                middle = 0.5 * (Cell(fall.since) + at)
                pause = apply(Op.WHERE, Cell(fall.above), NEVER, middle)
                sooner = apply(Op.LT, found, Cell(when))
                self.lets += [
                    Let(last, apply(Op.WHERE, sooner, which, Cell(last)) if curved else which),
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

    def _continued(self, k: int, curved: bool) -> Parabola:
        """How a condition goes on."""
        at, order = self._watch.first + WIDTH * k, self._watch.orders[k]
        z: Expr = Cell(at)
        if order == 0:
            length = Cell(self._wiring.now) - Cell(self._since)
            known = apply(Op.GT, Cell(self._since), Number(-inf))
            rate = apply(Op.WHERE, known, (z - Cell(self._before + k)) / length, ZERO)
            return Parabola(z, rate, ZERO)
        return Parabola(z, Cell(at + 1), 0.5 * Cell(at + 2) if curved and order > 1 else ZERO)
