"""The instructions that put the story of an event together, when it fires.

All of it is computed from the snapshot that the event fires from, by the program: so both engines tell the
same, and a step does no more for it than keep what the conditions were made of at its start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from math import inf

from upbeat.core.errors import MasterError
from upbeat.core.expr import ONE, ZERO, Apply, Cell, Expr, Name, Number, Op, apply, names, substitute
from upbeat.core.expr.nodes import ordered
from upbeat.core.names import cell_names, split
from upbeat.core.ports import Kind, Port
from upbeat.master.events.conditions import Fall, back_to_zero
from upbeat.master.inputs.derivatives import rate
from upbeat.master.port_registers import End
from upbeat.master.program import AT, HEAD, LANDED, Block, Changed, EventDetails, Let, Reg
from upbeat.master.wiring import Wiring
from upbeat.scenario.events.functions import computes_conditions
from upbeat.scenario.events.watcher import ObservedEvent, Watched, behind, named, observed_events, watchers
from upbeat.units.equations.arranging import changeable
from upbeat.units.equations.data import Equations
from upbeat.units.process import bare

_NEVER, _NONE = Number(-inf), Number(inf)
_HALF = Number(0.5)
"""How far from zero a truth is on both sides."""
_BORDER = 1e-9
"""A condition this close to zero may have been on either side of it."""
_LEAPING = {Op.WHERE, Op.SIGN, Op.FLOOR, Op.CEIL, Op.ROUND, Op.MOD}
_TORN = {Op.DIV, Op.TAN, Op.POW}
_PARTIAL = {Op.DIV, Op.POW, Op.MOD, Op.SQRT, Op.LOG, Op.LOG10, Op.ASIN, Op.ACOS}
"""What is not a number for some numbers."""


class EventDetailsWriter:
    """The stories of all events between units, by the port that sends them. `sent` are its registers."""

    def __init__(self, wiring: Wiring, sent: Mapping[End, Reg]) -> None:
        self._wiring = wiring
        self._sent = sent
        self._kept: dict[str, Reg] = {}  # by the name of an output cell: what it was
        self._details: dict[End, tuple[EventDetails, Block]] = {}
        self.undefined: dict[str, Reg] = {}
        """Where the time is at which a condition of an event was first seen not to be a number."""
        self._defined: list[Let] = []
        seen = list(observed_events(wiring.scenario))
        if not seen:
            return
        self._since = wiring.registers.new("since")
        scenario = wiring.scenario
        self._truths = {unit for unit, model in scenario.units.items() if computes_conditions(model)}
        self._places = {unit: place for place, unit in enumerate(scenario.units)}
        self._takers: dict[End, list[End]] = {}  # by the port that sends: the ports that take it
        for connection in scenario.event_connections:
            for source in dict.fromkeys(sender.source for sender in connection.senders):
                self._takers.setdefault(source, []).append((connection.unit, connection.port))
        looking = watchers(scenario.units)
        self._reporting = {
            unit for (unit, _), takers in self._takers.items() if any(taker in looking for taker, _ in takers)
        }
        for observed in seen:
            self._details[observed.place] = self._written(observed)

    @property
    def mark(self) -> Block:
        """From here on it is not the trajectory of a step that makes conditions true."""
        return (Let(self._since, Cell(self._wiring.now)),) if self._details else ()

    def after(self, unit: str) -> Block:
        """What follows when a unit has jumped. One that only tells a watcher to look has changed nothing."""
        return self.mark if self._details and unit not in self._reporting else ()

    @property
    def keep(self) -> Block:
        """What a step does first: it keeps what conditions are made of."""
        kept = (Let(to, self._wiring.names[name]) for name, to in self._kept.items())
        return (*self.mark, *kept, *self._defined)

    def of(self, end: End) -> EventDetails | None:
        """The story of what is sent from there, if it is an event between units."""
        return self._details[end][0] if end in self._details else None

    def compute(self, end: End) -> Block:
        """What puts the story of an event together."""
        return self._details[end][1]

    def close(self, end: End) -> Block:
        """What follows when it has been told: the prediction has come true."""
        predicted = self._predicted(end)
        return () if predicted is None else tuple(Let(predicted + k, _NEVER) for k in range(2))

    def _predicted(self, end: End) -> Reg | None:
        return self._wiring.predictions.get(self._wiring.scenario.column(*end))

    # ---------------------------------------------------------------- one event

    def _written(self, observed: ObservedEvent) -> tuple[EventDetails, Block]:
        wiring, scenario = self._wiring, self._wiring.scenario
        label, conditions = scenario.column(*observed.place), observed.conditions
        self._doubt(label, conditions)
        changes = list(self._changes(observed.watcher, observed.event))
        owners = behind(scenario, named(conditions)) | {owner for owner, _, _, _ in changes}
        concerned = sorted(owners.difference(scenario.added_units), key=self._places.__getitem__)
        size = HEAD + sum(2 * changed.port.cells for *_, changed in changes)
        to = wiring.registers.new(f"{label}′story", size=size)
        predicted = self._predicted(observed.place)
        lets = [
            *self._landing(label, conditions, to + LANDED),
            *(Let(to + AT + k, _NEVER if predicted is None else Cell(predicted + k)) for k in range(2)),
        ]
        at = to + HEAD
        for _, before, after, changed in changes:
            for first in (before, after):
                for i in range(changed.port.cells):
                    lets.append(Let(at, ZERO if first is None else Cell(first + i)))
                    at += 1
        units = tuple(wiring.called(owner) for owner in concerned)
        return EventDetails(to, units, tuple(changed for *_, changed in changes)), tuple(lets)

    def _doubt(self, label: str, conditions: Sequence[Expr]) -> None:
        """Look at every step whether conditions are numbers, if that depends: nothing else would tell."""
        doubtful = [substitute(z, self._wiring.names) for z in conditions if _is_partial(z)]
        if not doubtful:
            return
        first = self.undefined[label] = self._wiring.registers.new(f"{label}′undefined", start=(inf,))
        numbers = (apply(Op.GE, apply(Op.ABS, z), ZERO) for z in doubtful)
        fine = reduce(lambda a, b: apply(Op.AND, a, b), numbers)
        sooner = apply(Op.MIN, Cell(first), Cell(self._wiring.now))
        self._defined.append(Let(first, apply(Op.WHERE, fine, Cell(first), sooner)))

    def _changes(self, unit: str, event: Watched) -> Iterator[tuple[str, Reg | None, Reg, Changed]]:
        """What an event changes: in which unit, the registers before and after, and what it is."""
        scenario = self._wiring.scenario
        for output, _ in event.then:
            for owner, port in self._takers.get((unit, output), ()):
                equations = getattr(bare(scenario.units[owner]), "equations", None)
                assert isinstance(equations, Equations)  # nothing else lets itself be changed
                quantity = _quantity(equations, port)
                given = _given_out(equations, quantity)
                before = None if given is None else self._wiring.outputs.get((owner, given))
                label = f"{self._wiring.called(owner)}.{quantity.name}"
                changed = Changed(label, quantity, before is not None)
                yield owner, before, self._sent[unit, output], changed

    # ---------------------------------------------------------------- how late it came

    def _landing(self, label: str, conditions: Sequence[Expr], to: Reg) -> list[Let]:
        """`to` := how long ago the last of the conditions became true, on the trajectory of this step.

        Minus infinity where that is not known: the log then says nothing about it.
        """
        span = Cell(self._wiring.now) - Cell(self._since)
        lets: list[Let] = []
        backs: list[Expr] = [_NONE]
        clear: Expr = ONE
        for number, z in enumerate(conditions):
            if self._leaps(z):
                clear = ZERO
                continue
            place = self._wiring.registers.new(f"{label}′back {number}", size=5)
            more, back, sure = self._looking_back(z, span, place)
            lets += more
            backs.append(back)
            clear = apply(Op.AND, clear, sure)
        minimum: Expr = reduce(lambda a, b: apply(Op.MIN, a, b), backs)
        clear = apply(Op.AND, clear, apply(Op.LT, minimum, _NONE))
        late = apply(Op.WHERE, clear, minimum, _NEVER)
        return [*lets, Let(to, apply(Op.WHERE, apply(Op.GT, span, ZERO), late, ZERO))]

    def _leaps(self, z: Expr) -> bool:
        """Whether a condition jumps from one side of zero to the other, with no distance in between."""
        if leaps(z):
            return True
        return all(self._wiring.kind(name) is not Kind.REAL for name in names(z))

    def _looking_back(self, z: Expr, span: Expr, place: Reg) -> tuple[list[Let], Expr, Expr]:
        """The time since a condition became true (infinite if it already was at the start of the step), and
        whether that can be said.

        On a straight line between both ends of the step, or better where rates are known there.
        """
        z1, z0, part, rate1, rate0 = (Cell(place + k) for k in range(5))
        now, before = self._ends(z)
        fall = z0 - z1
        lets = [Let(place, now), Let(place + 1, before), Let(place + 2, apply(Op.NEG, z1) / fall)]
        became = apply(Op.GT, z0, ZERO)
        finite = apply(Op.LT, apply(Op.ABS, z0) + apply(Op.ABS, z1), _NONE)  # false for NaN, too
        rates = self._rates(z)
        if rates is None:
            falls = apply(Op.GT, fall, ZERO) if not _may_tear(z) else ZERO
            back: Expr = span * part
            if any(split(name)[0] in self._truths for name in names(z)):
                truth = apply(Op.EQ, apply(Op.ABS, z0), _HALF), apply(Op.EQ, apply(Op.ABS, z1), _HALF)
                falls = apply(Op.AND, falls, apply(Op.NOT, apply(Op.AND, *truth)))
            stayed = apply(Op.LT, z0, Number(-_BORDER))
        else:
            lets += [Let(place + 3 + k, one) for k, one in enumerate(rates)]
            falls = apply(Op.AND, apply(Op.GT, fall, ZERO), apply(Op.LT, rate1, ZERO))
            back = back_to_zero(span, part, Fall(z0, z1, rate0, rate1))
            top = z0 + 0.5 * span * rate0 * rate0 / (rate0 - rate1)  # if it rises, and then falls
            hill = apply(Op.AND, apply(Op.GT, rate0, ZERO), apply(Op.LT, rate1, ZERO))
            stayed = apply(Op.NOT, apply(Op.AND, hill, apply(Op.GT, top, ZERO)))
        sure = apply(Op.AND, finite, apply(Op.WHERE, became, falls, stayed))
        return lets, apply(Op.WHERE, became, back, _NONE), sure

    def _rates(self, z: Expr) -> tuple[Expr, Expr] | None:
        """The rate of a condition at both ends of the step, as far as outputs that are read anyway say it."""
        try:
            found = rate(z, self._wiring.ports, "a condition")
        except MasterError:  # a derivative is not declared
            return None
        return self._ends(found) if names(found) <= self._wiring.names.keys() else None

    def _ends(self, expr: Expr) -> tuple[Expr, Expr]:
        """An expression over outputs now, and what it was at the start of the step."""
        for name in sorted(names(expr)):
            if name not in self._kept:
                kind = self._wiring.kind(name)
                self._kept[name] = self._wiring.registers.new(f"{name}′since", kind)
        before = {name: Cell(self._kept[name]) for name in names(expr)}
        return substitute(expr, self._wiring.names), substitute(expr, before)


def leaps(z: Expr) -> bool:
    """Whether an expression may jump where what it looks at does not."""
    return any(isinstance(node, Apply) and node.op in _LEAPING for node in ordered((z,)))


def _is_partial(z: Expr) -> bool:
    """Whether a condition may be not a number, for some values of what it looks at."""
    return any(isinstance(node, Apply) and node.op in _PARTIAL and names(node) for node in ordered((z,)))


def _may_tear(z: Expr) -> bool:
    """Whether a condition may change its sign at a pole, so that a line through zero means nothing."""
    return any(
        isinstance(node, Apply) and (node.op in _TORN and names(node.args[-1])) for node in ordered((z,))
    )


def _quantity(equations: Equations, port: str) -> Port:
    """What an event input changes."""
    changed = {cell for event in equations.events if port in event.on for cell, _ in event.then}
    known = changeable(equations).values()
    return next(own for own in known if not changed.isdisjoint(cell_names(own.name, own.size)))


def _given_out(equations: Equations, quantity: Port) -> str | None:
    """The output that shows a quantity as it is, if there is one."""
    wanted = tuple(Name(cell) for cell in cell_names(quantity.name, quantity.size))
    for output in equations.outputs:
        if output.definition.cells == wanted and output.port.unit == quantity.unit:
            return output.port.name
    return None
