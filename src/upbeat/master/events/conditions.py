"""The conditions of a scenario's events as numbers that a pace follows, and what is known of their rates."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import accumulate, chain, count
from math import inf
from typing import NamedTuple

from upbeat.core.expr import (
    ONE,
    ZERO,
    Cell,
    Expr,
    Name,
    Number,
    Op,
    any_of,
    apply,
    names,
    substitute,
    time_derivative,
)
from upbeat.core.names import resolve, split
from upbeat.core.ports import Kind
from upbeat.master.blocks import Blocks
from upbeat.master.events.inside import own_conditions
from upbeat.master.layout import Reg
from upbeat.master.program import Block, Doubt, If, Instruction, Let
from upbeat.master.wiring import Wiring
from upbeat.scenario.events.functions import Conditions
from upbeat.scenario.events.sights import behind, named, sights, waits
from upbeat.units.discrete.model import Discrete
from upbeat.units.equations.data import TIME
from upbeat.units.equations.ode import Function, Ode
from upbeat.units.process import bare

WIDTH = 3
"""Of a sample: the value, its rate and its second derivative."""
TOGETHER = 16
"""So many conditions are looked at together, whether one of them is near its threshold."""
GRAZING = 8.0
"""A condition that comes as near to zero as so many times its uncertainty grazes it."""


class Watch(NamedTuple):
    """What the pace knows about its program."""

    names: tuple[str, ...] = ()  # the events
    counts: tuple[int, ...] = ()  # how many conditions each has
    orders: tuple[int, ...] = ()  # of each condition: how many derivatives are known
    first: Reg = 0  # the first of the registers of the conditions, WIDTH for each
    jumped: Reg = 0  # whether an event has changed what they depend on
    told: Reg = 0  # of each event: when it was first predicted, and for when

    @property
    def places(self) -> list[range]:
        """The numbers of the conditions of each event."""
        ends = list(accumulate(self.counts))
        return [range(end - count, end) for end, count in zip(ends, self.counts, strict=True)]


class Known(NamedTuple):
    """How many derivatives are known of a condition of an event, and why no more."""

    event: str
    order: int
    missing: str


class Followed(NamedTuple):
    """Conditions that are computed in blocks: the first instruction that does, and what comes out."""

    first: Let
    most: int  # so many derivatives were asked for
    watch: Watch
    known: tuple[Known, ...]

    def within(self, blocks: Blocks) -> bool:
        """Whether every step of these blocks computes them, once: an error estimate makes several of one."""
        return all(sum(one is self.first for one in step) == 1 for step in blocks.steps.values())

    def upto(self, most: int) -> tuple[Watch, tuple[Known, ...]]:
        """For somebody who has a use for fewer derivatives."""
        known = tuple(one if one.order < most else Known(one.event, most, "") for one in self.known)
        return self.watch._replace(orders=tuple(one.order for one in known)), known


def followed(
    blocks: Blocks, wiring: Wiring, most: int, *, symbolic: bool = True
) -> tuple[Blocks, Watch, tuple[Known, ...]] | None:
    """Blocks that compute all conditions and up to `most` derivatives; None if there are no events.

    Without `symbolic`, derivatives count only where outputs declare them. What somebody else has had computed
    in these blocks before (a coupling, a pace inside) is not computed again. Whoever calls this is one that
    `Follows` (`upbeat.master.paces.pace`): so the master knows what units are to give out for it.
    """
    before = wiring.followed.get(symbolic)
    if before is not None and before.most >= most and before.within(blocks):
        return blocks, *before.upto(most)
    scenario = wiring.scenario
    conditions = {scenario.column(*one.place): one.conditions for one in sights(scenario)}
    conditions |= own_conditions(wiring)
    for one in waits(scenario):
        name = unlike(f"{wiring.called(one.unit)}: {one.text}", conditions)
        conditions[name] = one.conditions
    if not conditions:
        return None
    lets: list[Let] = []
    known: list[Known] = []
    unique = wiring.registers.unique
    known_as = {**wiring.names, TIME: Cell(wiring.next)}  # which always holds the time of the last exchange
    size = WIDTH * sum(map(len, conditions.values()))
    first = wiring.registers.new(unique("conditions"), size=size)
    for name, expressions in conditions.items():
        for z in expressions:
            rates, missing = _rates(z, wiring, most, symbolic)
            place = first + WIDTH * len(known)
            lets += [Let(place + k, substitute(cell, known_as)) for k, cell in enumerate(rates)]
            known.append(Known(name, len(rates) - 1, missing))
    jumped, begin, end, after = jumps(wiring, _ends(conditions, wiring))
    ready = replace(
        blocks,
        start=(*blocks.start, *begin, *end, *lets),
        steps={name: (*begin, *step, *end, *lets) for name, step in blocks.steps.items()},
        exchange=(*blocks.exchange, *lets, after),
    )
    counts = tuple(map(len, conditions.values()))
    orders = tuple(one.order for one in known)
    watch = Watch(tuple(conditions), counts, orders, first, jumped)
    kept, looked = _grazing(watch, wiring)
    ready = replace(
        ready,
        steps={name: (*kept, *step) for name, step in ready.steps.items()},
        instant=(*ready.instant, *looked),
    )
    made = wiring.followed[symbolic] = Followed(lets[0], most, watch, tuple(known))
    return ready, made.watch, made.known


def _grazing(watch: Watch, wiring: Wiring) -> tuple[Block, Block]:
    """What a step does first, and what is looked at where it has ended, before events happen there: whether
    a condition has come so near to zero, or falls through it so slowly, that errors of the size of those of
    this run decide about its event.

    A condition whose rate is known goes as a polynomial over the step, and what that misses of derivatives at
    the end tells how well it is known. So does the step before, with half the weight: one that is cut short
    at an event tells little. Far from zero nothing is computed.
    """
    new, unique = wiring.registers.new, wiring.registers.unique
    size = WIDTH * len(watch.orders)
    kept, since, span = (
        new(unique("conditions′since"), size=size),
        new(unique("conditions′at")),
        new(unique("conditions′span")),
    )
    curve = new(unique("conditions′curve"), size=4)
    at, depth = new(unique("conditions′lowest at")), new(unique("conditions′depth"))
    length = Cell(wiring.next) - Cell(since)
    h, u = Cell(span), Cell(at)
    c1, c2, c3, c4 = (Cell(curve + i) for i in range(4))
    slope = c1 + u * (2.0 * c2 + u * (3.0 * c3 + u * (4.0 * c4)))
    bend = 2.0 * c2 + u * (6.0 * c3 + u * (12.0 * c4))
    begin = [Let(kept + i, Cell(watch.first + i)) for i in range(size)]
    looked: list[tuple[Expr, Instruction]] = []
    for event, places in zip(watch.names, watch.places, strict=True):
        if not all(watch.orders[k] for k in places):
            continue
        told = Doubt(
            new(unique(f"{event}′grazes"), size=3, start=(inf, 0.0, 0.0)),
            (
                f"event '{event}' grazes its threshold at t = ",
                0,
                " (such places in all: ",
                1,
                "): whether it happens there depends on the step size. Run with a shorter step to see",
            ),
        )
        wiring.doubts.append(told)
        for k in places:
            error = new(unique(f"{event}′uncertainty"))
            now = [Cell(watch.first + WIDTH * k + i) for i in range(WIDTH)]
            before = [Cell(kept + WIDTH * k + i) for i in range(WIDTH)]
            risen, from_, to = now[0] - before[0], h * before[1], h * now[1]
            if watch.orders[k] == 1:
                terms: list[Expr] = [from_, 3.0 * risen - 2.0 * from_ - to, from_ + to - 2.0 * risen, ZERO]
                missed: Expr = c3
            else:
                bent = h * h * before[2]
                more, turned = risen - from_ - 0.5 * bent, to - from_ - bent
                terms = [from_, 0.5 * bent, 4.0 * more - turned, turned - 3.0 * more]
                missed = h * h * now[2] - bent - 6.0 * c3 - 12.0 * c4
            missed = apply(Op.ABS, missed)
            worst = apply(Op.WHERE, apply(Op.GE, missed, 0.0), apply(Op.MAX, missed, 0.5 * Cell(error)), 0.0)
            lowest = (  # Newton's method, from where a straight line between the rates is zero
                Let(at, from_ / (from_ - to)),
                *(Let(at, apply(Op.CLIP, u - slope / bend, 0.0, 1.0)) for _ in range(4)),
                Let(depth, apply(Op.ABS, before[0] + u * (c1 + u * (c2 + u * (c3 + u * c4))))),
            )
            turns = apply(Op.AND, apply(Op.LT, before[1], 0.0), apply(Op.GE, now[1], 0.0))
            # Without the event it would fall on, as deep as its speed and what slows it down say.
            through = (
                Let(at, ONE),
                Let(depth, apply(Op.WHERE, apply(Op.GT, bend, 0.0), 0.5 * to * to / bend, Number(inf))),
            )
            close: Expr = apply(Op.LE, Cell(depth), GRAZING * Cell(error))
            for other in places:
                if other != k:
                    values = (Cell(first + WIDTH * other) for first in (watch.first, kept))
                    close = apply(Op.AND, close, apply(Op.LE, apply(Op.MIN, *values), 0.0))
            found = (
                If(turns, lowest, (If(apply(Op.LE, now[0], 0.0), through, (Let(depth, Number(inf)),)),)),
                If(close, told.noted(Cell(since) + u * h, ZERO)),
            )
            block: Block = (
                *(Let(curve + i, term) for i, term in enumerate(terms)),
                Let(error, worst),
                If(apply(Op.GT, before[0], 0.0), found),
            )
            ahead = before[0] + 2.0 * length * before[1]  # within two steps
            looked.append((ahead, If(apply(Op.LT, ahead, 0.0), block)))
    if not looked:
        return (), ()
    groups: list[Instruction] = []
    for first in range(0, len(looked), TOGETHER):  # most of the time all of them are far away
        some = looked[first : first + TOGETHER]
        nearest = reduce(lambda one, other: apply(Op.MIN, one, other), (ahead for ahead, _ in some))
        smooth = If(Cell(watch.jumped), (), (Let(span, length), *(one for _, one in some)))
        groups.append(If(apply(Op.LT, nearest, 0.0), (smooth,)))
    return (*begin, Let(since, Cell(wiring.now))), tuple(groups)


def unlike(name: str, others: Collection[str]) -> str:
    """The name, or with a number where there is one like it."""
    return next(free for free in chain((name,), (f"{name} ({k})" for k in count(2))) if free not in others)


def _rates(z: Expr, wiring: Wiring, most: int, symbolic: bool) -> tuple[list[Expr], str]:
    """The condition and as many of its derivatives as are known of outputs; and why there are no more."""
    found = [z]
    for _ in range(most):
        rates: dict[str, Expr] = {}
        for name in sorted(names(found[-1])):
            if name == TIME:
                rates[name] = ONE
                continue
            unit, port, index = _source(name, wiring)
            derivative = wiring.port((unit, port)).derivative
            if _stands(unit, port, wiring) or wiring.port((unit, port)).kind is not Kind.REAL:
                rates[name] = ZERO
            elif derivative is None or (wiring.port((unit, derivative)).internal and not symbolic):
                return found, _missing(unit, port, wiring, symbolic)
            else:
                rates[name] = Name(f"{unit}.{derivative}{index}")
        found.append(time_derivative(found[-1], rates))
    return found, ""


def _stands(unit: str, port: str, wiring: Wiring) -> bool:
    """Whether this is a variable of a discrete-event unit, which changes in jumps only."""
    return wiring.port((unit, port)).internal and isinstance(bare(wiring.scenario.units[unit]), Discrete)


def _missing(unit: str, port: str, wiring: Wiring, symbolic: bool) -> str:
    label, known = wiring.label((unit, port)), wiring.port((unit, port))
    if isinstance(wiring.scenario.units[unit], Conditions):
        return f"{known.description} is a Python function, of which only values are known"
    if symbolic and isinstance(bare(wiring.scenario.units[unit]), Ode | Function):
        what = f"the {known.description} in {wiring.called(unit)}" if known.internal else f"'{label}'"
        return f"how {what} changes depends on how inputs change, or on a table"
    return f"'{label}' does not say which output is its derivative"


def _source(name: str, wiring: Wiring) -> tuple[str, str, str]:
    """The unit and port of a name in a condition, and the index of the cell as it is written."""
    unit, rest = split(name)
    port, index = resolve(rest, {known for _, known in wiring.outputs_of(unit)})
    return unit, port, "" if index is None else f"[{index}]"


def _ends(conditions: Mapping[str, Sequence[Expr]], wiring: Wiring) -> set[tuple[str, str]]:
    """All outputs of the units that conditions look at, through functions too, and what drives these units:
    where that jumps, conditions go another way from now on, though they are what they were."""
    units = named(z for zs in conditions.values() for z in zs) & wiring.scenario.units.keys()
    units |= behind(wiring.scenario, units)
    drives = {end for c in wiring.scenario.connections if c.unit in units for end in c.sources}
    return {end for unit in units for end in wiring.outputs_of(unit)} | (drives & wiring.outputs.keys())


def jumps(wiring: Wiring, ends: Collection[tuple[str, str]]) -> tuple[Reg, Block, Block, Let]:
    """A register that says whether an instant has changed one of these outputs, or something has happened
    to or inside a unit; what to do at the start and at the end of a step for that, and whenever they may
    change.

    An event that reaches a unit may leave all its outputs as they are, and yet change where they go from
    here (a force, a parameter): the instant says so itself (`Wiring.struck`). Not for discrete units, whose
    outputs stay until they jump again.

    Every step pays for what is done in it, so it compares no outputs: that is left to the instant. In the
    order of their registers they are kept by one copy.
    """
    unique = wiring.registers.unique
    jumped = wiring.registers.new(unique("jumped"), Kind.BOOLEAN)
    struck = wiring.registers.new(unique("struck"), Kind.BOOLEAN)
    begin: list[Let] = [Let(struck, ZERO)]
    before: list[Let] = []
    changes: list[Expr] = []
    units = sorted({unit for unit, _ in ends})
    counted = [end for unit in units if (end := wiring.count(unit)) is not None]
    for end in counted:
        kept = wiring.registers.new(unique(f"{wiring.label(end)}′at the start"), Kind.INTEGER)
        begin.append(Let(kept, Cell(wiring.outputs[end])))
        changes.append(apply(Op.NE, Cell(wiring.outputs[end]), Cell(kept)))
    inside = Let(jumped, any_of(changes))
    changes.append(Cell(struck))
    for unit in units:
        if not isinstance(bare(wiring.scenario.units[unit]), Discrete):
            wiring.struck.setdefault(unit, []).extend((Let(struck, ONE), Let(jumped, ONE)))
    for end in sorted(ends, key=lambda end: wiring.outputs[end]):
        port = wiring.port(end)
        known = end in counted or port.extra  # what an FMU tells of its last step has not jumped
        if port.kind is Kind.STRING or known:
            continue
        kept = wiring.registers.new(unique(f"{wiring.label(end)}′before"), port.kind, port.cells)
        for i in range(port.cells):
            cell = Cell(wiring.outputs[end] + i)
            before.append(Let(kept + i, cell))
            changes.append(apply(Op.NE, cell, Cell(kept + i)))
    return jumped, tuple(begin), (*before, inside), Let(jumped, any_of(changes))
