"""Events in a program: their way from unit to unit, and conditions as numbers that a pace follows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import accumulate, chain, count
from math import inf
from typing import Any, NamedTuple

from upbeat.core.abilities import Model
from upbeat.core.errors import ExpressionError
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
from upbeat.core.ports import Causality, Kind, Port
from upbeat.core.records import dataclass
from upbeat.master.port_registers import End, cell_names
from upbeat.master.program import Block, Blocks, Doubt, EventDetails, If, Instruction, Let, Recordable, Reg
from upbeat.master.registers import Registers
from upbeat.master.wiring import Wiring
from upbeat.scenario.events.functions import computes_conditions
from upbeat.scenario.events.links import Sender
from upbeat.scenario.events.watcher import behind, named, observed_events, waits, watcher_of
from upbeat.scenario.scenario import Scenario
from upbeat.units.discrete.model import changes_at_instants
from upbeat.units.equations.data import TIME
from upbeat.units.equations.ode import equations_of
from upbeat.units.process import bare, placed_like


@dataclass(frozen=True, slots=True)
class Link:
    """What one unit, when it sends, makes arrive at `end`: after `lets`, in `value`, if `present` is true.

    The end of an event that leaves the scenario is ``("", name)``.
    """

    end: End
    value: Reg
    present: Reg
    lets: Block = ()


class EventWiring:
    """Registers for all event outputs of a closed scenario, and the links from them."""

    def __init__(self, wiring: Wiring) -> None:
        self._wiring = wiring
        scenario = wiring.scenario
        self.outputs: dict[End, Reg] = {}
        self._outputs_of: dict[str, list[End]] = {unit: [] for unit in scenario.units}
        self._names: dict[str, Expr] = dict(wiring.names)
        for unit, model in scenario.units.items():
            for port in model.ports:
                if port.event and port.causality is Causality.OUTPUT:
                    self.outputs[unit, port.name] = reg = self._registers(f"{unit}.{port.name}", port)
                    self._outputs_of[unit].append((unit, port.name))
                    self._names.update(cell_names(f"{unit}.{port.name}", reg, port))
        self._links: dict[str, list[Link]] = {unit: [] for unit in scenario.units}
        self._leaving: dict[str, list[Link]] = {unit: [] for unit in scenario.units}
        for connection in scenario.event_connections:
            end = (connection.unit, connection.port)
            self._connect(self._links, end, wiring.port(end), connection.senders)
        self.results: dict[str, Reg] = {}
        for output in scenario.event_outputs:
            self._connect(self._leaving, ("", output.port.name), output.port, output.senders)

    def present(self, end: End) -> Reg:
        """The register that says whether an event output is present."""
        return self.outputs[end] + self._wiring.port(end).cells

    def outputs_of(self, unit: str) -> list[End]:
        """The unit's event outputs."""
        return self._outputs_of[unit]

    def links(self, unit: str) -> list[Link]:
        """What arrives at other units when this one sends."""
        return self._links[unit]

    def leaving(self, unit: str) -> list[Link]:
        """What leaves the scenario when this unit sends."""
        return self._leaving[unit]

    def leaving_presents(self) -> list[Reg]:
        """The registers that say whether an event leaves the scenario."""
        return [self.results[o.port.name] + o.port.cells for o in self._wiring.scenario.event_outputs]

    def logged(self, end: End) -> bool:
        """Whether an event output is logged: not if its unit was inside a nested one, as if it still were.

        Of the scenario's own events it is what happened, not each of the changes.
        """
        origin, model = self._wiring.scenario.origin, self._wiring.scenario.units[end[0]]
        if self._wiring.port(end).internal:
            return False
        if (watcher := watcher_of(model)) is not None and end[1] not in watcher.event_names:
            return False
        return origin is None or end[0] not in origin.paths

    def label(self, name: str) -> str:
        """What people call an event output of the scenario itself."""
        origin = self._wiring.scenario.origin
        return name if origin is None else origin.columns.get(("", name), name)

    def recordable(self, details: Callable[[End], EventDetails | None]) -> dict[str, Recordable]:
        """The events that a log may name: outputs of units, and of the scenario itself."""
        scenario = self._wiring.scenario
        ports = {
            scenario.column(*end): (self._wiring.port(end), self.outputs[end], details(end))
            for end in self.outputs
            if self.logged(end)
        }
        ports |= {
            self.label(o.port.name): (o.port, self.results[o.port.name], None) for o in scenario.event_outputs
        }
        return {
            name: Recordable(reg, port.unit, port.items, cells=port.cells, details=told)
            for name, (port, reg, told) in ports.items()
        }

    def _registers(self, name: str, port: Port) -> Reg:
        """A register for a value, and right after it the one for its presence."""
        value = self._wiring.registers.new(name, port.kind, port.cells)
        self._wiring.registers.new(f"{name}?", Kind.BOOLEAN)
        return value

    def _connect(self, links: dict[str, list[Link]], end: End, port: Port, senders: Sequence[Sender]) -> None:
        by_unit: dict[str, list[Sender]] = {}
        for sender in senders:
            by_unit.setdefault(sender.source[0], []).append(sender)
        own: Reg | None = None
        for unit, several in by_unit.items():
            shared = self._shared(port, several)
            if shared is not None and end[0]:
                links[unit].append(Link(end, shared, self.present(several[0].source)))
                continue
            if own is None:
                own = self._registers(".".join(end) if end[0] else f"output {end[1]}", port)
            links[unit].append(Link(end, own, own + port.cells, self._lets(own, port, several)))
        if not end[0]:
            self.results[end[1]] = own if own is not None else self._registers(f"output {end[1]}", port)

    def _shared(self, port: Port, senders: Sequence[Sender]) -> Reg | None:
        """The register of an event that is passed on as it is."""
        sender, *others = senders
        if others or sender.when is not None or self._wiring.port(sender.source).kind is not port.kind:
            return None
        value = self.outputs[sender.source]
        cells = [substitute(cell, self._names) for cell in sender.cells]
        return value if cells == [Cell(value + i) for i in range(port.cells)] else None

    def _lets(self, to: Reg, port: Port, senders: Sequence[Sender]) -> Block:
        """The first sender that is present gives the value."""
        there: list[Expr] = []
        for sender in senders:
            present: Expr = Cell(self.present(sender.source))
            if sender.when is not None:
                present = apply(Op.AND, present, substitute(sender.when, self._names))
            there.append(present)
        last_first = list(zip(there, senders, strict=True))[::-1]
        lets: list[Instruction] = []
        for i in range(port.cells):
            cells = [(present, substitute(sender.cells[i], self._names)) for present, sender in last_first]
            if port.kind is Kind.STRING:  # which are copied, never computed: no `where` chooses one
                lets += [If(present, (Let(to + i, cell),)) for present, cell in cells]
                continue
            (_, value), *others = cells
            for present, cell in others:
                value = apply(Op.WHERE, present, cell, value)
            lets.append(Let(to + i, value))
        some = there[0]
        for present in there[1:]:
            some = apply(Op.OR, some, present)
        return (*lets, Let(to + port.cells, some))


# ----------------------------------------------------------------------------------------------------
# When numbers fall to zero, as instructions of a program: ahead of now, and back in the step that is done.
#
# A pace does the same with numbers, on polynomials of higher degree (`upbeat.master.prediction`); a
# program has roots of parabolas, and no loop. Both agree where a parabola says all, which a test sees to.

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

    def __init__(self, registers: Registers, name: str, max_order: int) -> None:
        """For up to `max_order` numbers at once."""
        new = registers.new
        self._root, self.above, self.since = new(f"{name}′root"), new(f"{name}′above"), new(f"{name}′from")
        self.at, self.last = new(f"{name}′at"), new(f"{name}′last")
        self._falls, self._rises = new(f"{name}′falls", size=max_order), new(f"{name}′rises", size=max_order)

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


# ----------------------------------------------------------------------------------------------------
# Events inside units, as far as units tell of them.
#
# Inputs that follow a unit start again where it counts another event, and a pace sees those coming whose
# conditions it gives out.


def with_indicators(
    scenario: Scenario, *, conditions: bool = True, units: Collection[str] | None = None
) -> Scenario:
    """The scenario whose units, or some of them, count their own events and, with `conditions`, give out what
    leads to them, if they can."""
    chosen = scenario.units.keys() if units is None else units
    made = {name: _indicating(model, conditions) for name, model in scenario.units.items() if name in chosen}
    return scenario.with_units({name: new for name, new in made.items() if new is not scenario.units[name]})


def _indicating(model: Model, conditions: bool) -> Model:
    inner: Any = bare(model)
    changed = hasattr(inner, "equations") and equations_of(inner) is None  # a subclass by a user
    if changed or not hasattr(inner, "indicating"):
        return model
    try:
        made = inner.indicating(conditions=conditions)
    except ExpressionError:  # equations that are too large to be written down once more
        return model
    if made is inner:
        return model
    return placed_like(model, made)


def with_own_events(scenario: Scenario, units: Collection[str] | None = None) -> Iterator[str]:
    """The units, or those among some, that have events inside which a pace can see coming.

    One by one, because it takes their equations with outputs for all conditions to know.
    """
    for name, model in scenario.units.items():
        chosen = units is None or name in units
        if chosen and any(port.indicates for port in _indicating(model, conditions=True).ports):
            yield name


def own_conditions(wiring: Wiring) -> dict[str, tuple[Expr, ...]]:
    """The conditions of events inside units by name, ``unit.event``."""
    found: dict[str, tuple[Expr, ...]] = {}
    for unit, model in wiring.scenario.units.items():
        for port in model.ports:
            if port.indicates:
                name = f"{wiring.called(unit)}.{port.indicates}"
                found[name] = (*found.get(name, ()), Name(f"{unit}.{port.name}"))
    return found


# ----------------------------------------------------------------------------------------------------
# The conditions of a scenario's events as numbers that a pace follows, and what is known of their rates.

WIDTH = 3
"""Of a sample: the value, its rate and its second derivative."""
TOGETHER = 16
"""So many conditions are looked at together, whether one of them is near its threshold."""
SLIGHT = 1e-8
"""What steps put the motion off by is not added up if it is less than this part of its size."""
SHALLOW = 4.0
"""An event whose condition would not have fallen deeper than so many times the sum of errors grazes, too."""
CLOSE = 6.0
"""Events that are no more than so many steps apart follow each other closely."""
MANY = 5.0
"""So many in a row are told of."""
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
    max_order: int  # so many derivatives were asked for
    watch: Watch
    known: tuple[Known, ...]

    def within(self, blocks: Blocks) -> bool:
        """Whether every step of these blocks computes them, once: an error estimate makes several of one."""
        return all(sum(one is self.first for one in step) == 1 for step in blocks.steps.values())

    def upto(self, max_order: int) -> tuple[Watch, tuple[Known, ...]]:
        """For a reader that has a use for fewer derivatives."""
        known = tuple(one if one.order < max_order else Known(one.event, max_order, "") for one in self.known)
        return self.watch._replace(orders=tuple(one.order for one in known)), known


def followed(
    blocks: Blocks, wiring: Wiring, max_order: int, *, symbolic: bool = True
) -> tuple[Blocks, Watch, tuple[Known, ...]] | None:
    """Blocks that compute all conditions and up to `max_order` derivatives; None if there are no events.

    Without `symbolic`, derivatives count only where outputs declare them. What is computed in these
    blocks already (for a coupling, a pace inside) is not computed again. The caller is one that
    `Follows` (`upbeat.master.paces.pace`): so the master knows what units are to give out for it.
    """
    before = wiring.followed.get(symbolic)
    if before is not None and before.max_order >= max_order and before.within(blocks):
        return blocks, *before.upto(max_order)
    scenario = wiring.scenario
    conditions = {scenario.column(*one.place): one.conditions for one in observed_events(scenario)}
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
            rates, missing = _rates(z, wiring, max_order, symbolic)
            place = first + WIDTH * len(known)
            lets += [Let(place + k, substitute(cell, known_as)) for k, cell in enumerate(rates)]
            known.append(Known(name, len(rates) - 1, missing))
    jumped, begin, end, after = jumps(wiring, _ends(conditions, wiring))
    ready = replace(
        blocks,
        start=(*blocks.start, *begin, *end, *lets),
        steps={name: (*begin, *step, *end, *lets) for name, step in blocks.steps.items()},
        exchange=(*blocks.exchange, *lets, *after),
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
    made = wiring.followed[symbolic] = Followed(lets[0], max_order, watch, tuple(known))
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
    # Errors of steps add up: after so many, by such a part of how large each condition has been.
    drift: list[Expr] = [ZERO] * len(watch.orders)
    inexact = wiring.drift > SLIGHT
    if inexact:
        longest = new(unique("conditions′longest"))
        begin.append(Let(longest, apply(Op.MAX, Cell(longest), Cell(wiring.next) - Cell(wiring.now))))
        steps = new(unique("conditions′steps"))
        sizes = new(unique("conditions′sizes"), size=len(watch.orders))
        begin.append(Let(steps, Cell(steps) + 1.0))
        for k in range(len(watch.orders)):
            size_now = apply(Op.ABS, Cell(watch.first + WIDTH * k))
            begin.append(Let(sizes + k, apply(Op.MAX, Cell(sizes + k), size_now)))
            drift[k] = min(wiring.drift, 1.0) * Cell(steps) * Cell(sizes + k)
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
                "): whether it happens there, or how, depends on the step size. Run with a shorter step to "
                "see",
            ),
        )
        wiring.doubts.append(told)
        again = _Again(event, wiring, Cell(longest)) if inexact else None
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
            # The part of that which errors make is the part of its speed by which it goes on wrongly.
            deep = 0.5 * to * to / bend
            through = (
                Let(at, ONE),
                Let(depth, apply(Op.WHERE, apply(Op.GT, bend, 0.0), deep - SHALLOW * drift[k], Number(inf))),
            )
            close: Expr = apply(Op.LE, Cell(depth), GRAZING * Cell(error) + drift[k])
            falls: Expr = apply(Op.LE, now[0], 0.0)
            for other in places:
                if other != k:
                    values = (Cell(first + WIDTH * other) for first in (watch.first, kept))
                    holds = apply(Op.LE, apply(Op.MIN, *values), 0.0)
                    close, falls = apply(Op.AND, close, holds), apply(Op.AND, falls, holds)
            found: tuple[Instruction, ...] = (
                If(turns, lowest, (If(apply(Op.LE, now[0], 0.0), through, (Let(depth, Number(inf)),)),)),
                If(close, told.noted(Cell(since) + u * h, ZERO)),
            )
            if again is not None:
                found = (*found, If(falls, again.at(Cell(wiring.next))))
            block: Block = (
                *(Let(curve + i, term) for i, term in enumerate(terms)),
                Let(error, worst),
                If(apply(Op.GT, before[0], 0.0), found),
            )
            ahead = before[0] + 2.0 * length * before[1] - drift[k]  # within two steps
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


class _Again:
    """Whether an event happens many times in a row, each a few steps after the one before.

    Each of such leaps begins with the errors of the one before, and they are short: what a step puts the
    motion off by makes more and more of when they end, however small it is compared with the whole motion.
    """

    def __init__(self, event: str, wiring: Wiring, longest: Cell) -> None:
        new, unique = wiring.registers.new, wiring.registers.unique
        self.longest = longest
        self.last = Cell(new(unique(f"{event}′last"), start=(-inf,)))
        self.gap, self.row = Cell(new(unique(f"{event}′gap"))), Cell(new(unique(f"{event}′in a row")))
        self.told = Doubt(
            new(unique(f"{event}′again"), size=3, start=(inf, 0.0, 0.0)),
            (
                f"event '{event}' happens many times in a row, a few steps apart, from t = ",
                0,
                " on: errors add up from one to the next, and so late ones may come at wrong times. Run with "
                "a shorter step to see",
            ),
        )
        wiring.doubts.append(self.told)

    def at(self, t: Cell) -> Block:
        """Where its conditions have fallen to zero."""
        soon = apply(Op.LT, self.gap, CLOSE * self.longest)
        return (
            Let(self.gap.index, t - self.last),
            If(  # its other conditions may have fallen in the same step
                apply(Op.GT, self.gap, 0.0),
                (
                    Let(self.row.index, apply(Op.WHERE, soon, self.row + 1.0, 0.0)),
                    Let(self.last.index, t),
                    If(apply(Op.GE, self.row, MANY), self.told.noted(t, ZERO)),
                ),
            ),
        )


def unlike(name: str, others: Collection[str]) -> str:
    """The name, or with a number where there is one like it."""
    return next(free for free in chain((name,), (f"{name} ({k})" for k in count(2))) if free not in others)


def _rates(z: Expr, wiring: Wiring, max_order: int, symbolic: bool) -> tuple[list[Expr], str]:
    """The condition and as many of its derivatives as are known of outputs; and why there are no more."""
    found = [z]
    for _ in range(max_order):
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
    return wiring.port((unit, port)).internal and changes_at_instants(bare(wiring.scenario.units[unit]))


def _missing(unit: str, port: str, wiring: Wiring, symbolic: bool) -> str:
    label, known = wiring.label((unit, port)), wiring.port((unit, port))
    if computes_conditions(wiring.scenario.units[unit]):
        return f"{known.description} is a Python function, of which only values are known"
    if symbolic and hasattr(bare(wiring.scenario.units[unit]), "equations"):
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


def jumps(wiring: Wiring, ends: Collection[tuple[str, str]]) -> tuple[Reg, Block, Block, Block]:
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
    happened: list[Expr] = []
    changes: list[Expr] = []
    units = sorted({unit for unit, _ in ends})
    counted = [end for unit in units if (end := wiring.count(unit)) is not None]
    for end in counted:
        kept = wiring.registers.new(unique(f"{wiring.label(end)}′at the start"), Kind.INTEGER)
        begin.append(Let(kept, Cell(wiring.outputs[end])))
        happened.append(apply(Op.NE, Cell(wiring.outputs[end]), Cell(kept)))
    for unit in units:
        if not changes_at_instants(bare(wiring.scenario.units[unit])):
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
    inside, told = _grouped(happened, wiring)
    outside, changed = _grouped(changes, wiring)
    nothing = [Let(let.to, ZERO) for let in outside]  # each is what it was kept as
    return (
        jumped,
        tuple(begin),
        (*before, *nothing, *inside, Let(jumped, any_of(told))),
        (*inside, *outside, Let(jumped, any_of([*told, Cell(struck), *changed]))),
    )


_GROUP = 16


def _grouped(truths: list[Expr], wiring: Wiring) -> tuple[list[Let], list[Expr]]:
    """Few truths, one of which holds if one of those given does, and what has to be computed for them.

    Many are asked in groups: after a jump of one unit only its own are asked again (`ChangePropagation`), or
    else each of many events would come with a question about all of them.
    """
    lets: list[Let] = []
    while len(truths) > _GROUP:
        groups = [truths[k : k + _GROUP] for k in range(0, len(truths), _GROUP)]
        first = wiring.registers.new(wiring.registers.unique("jumped′some"), Kind.BOOLEAN, len(groups))
        lets += [Let(first + k, any_of(group)) for k, group in enumerate(groups)]
        truths = [Cell(first + k) for k in range(len(groups))]
    return lets, truths
