"""What happens at one instant: events in superdense time, micro-step by micro-step.

The meaning is that of a network of discrete-event units with a fixed order for those that have something to
do at the same time (thesis, definitions 8 to 10). One micro-step: the first unit in the order that is due
is asked what it sends, and jumps; every unit that receives something jumps, too; signals that may have
changed are exchanged; all that may be due at another time now is asked again. Micro-steps follow each
other until nothing is due.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from math import inf

from upbeat.core.abilities import Ability
from upbeat.core.errors import MasterError, suggest
from upbeat.core.expr import ZERO, Cell, Expr, Number, Op, any_of, apply
from upbeat.core.ports import Kind
from upbeat.master.dataflow import Flow, Resource
from upbeat.master.events.stories import Stories
from upbeat.master.events.wiring import EventWiring, Link
from upbeat.master.layout import Recordable, Reg
from upbeat.master.port_registers import End
from upbeat.master.program import Block, Due, Fire, Get, If, Instruction, Jump, Let, Repeat, Set
from upbeat.master.ripples import Ripples, outdated
from upbeat.master.wiring import Wiring
from upbeat.scenario.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Simultaneous:
    """Who goes first when several units have something to do at one instant.

    Units in `order` go before all others, which keep the order of their declaration. A chain of more than
    `most` micro-steps at one instant ends the run: it would probably never end. Unless given, that is 10,000
    and 10 for each unit.
    """

    order: tuple[str, ...] = ()
    most: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.order, str) or not all(isinstance(unit, str) for unit in self.order):
            raise MasterError(f"the order of simultaneous events is a list of units, not {self.order!r}")
        object.__setattr__(self, "order", tuple(self.order))
        if self.most is not None and (type(self.most) is not int or self.most < 2):
            raise MasterError(f"most of Simultaneous must be a whole number of at least 2, not {self.most!r}")
        if len(set(self.order)) != len(self.order):
            raise MasterError(f"the order of simultaneous events names a unit twice: {', '.join(self.order)}")

    def units(self, scenario: Scenario) -> list[str]:
        """The units that can have something to do, in the order in which they do it."""
        models = scenario.units
        able = [unit for unit, model in models.items() if Ability.NEXT_EVENT in model.abilities]
        for unit in self.order:
            if unit not in models:
                hint = suggest(unit, models, "units")
                raise MasterError(
                    f"the order of simultaneous events names '{unit}', which is no unit. {hint}"
                )
            if unit not in able:
                raise MasterError(
                    f"the order of simultaneous events names '{unit}', which has no events of its own. "
                    f"{suggest(unit, able, 'units with events')}"
                )
        first = [unit for unit in scenario.added_units if unit in able and unit not in self.order]
        return [*first, *self.order, *(u for u in able if u not in self.order and u not in first)]


@dataclass(frozen=True, slots=True)
class Instants:
    """The blocks of an instant, the register of the next known event, and what may be logged."""

    whole: Block = ()
    micro: Block = ()
    send: Block = ()
    due: Reg | None = None
    arrivals: Mapping[str, Block] = field(default_factory=dict)
    events: Mapping[str, Recordable] = field(default_factory=dict)
    first: Block = ()
    """What the program begins with, for the log."""
    keep: Block = ()
    """What every step begins with, for the log."""
    undefined: Mapping[str, Reg] = field(default_factory=dict)
    """When conditions of events were first seen not to be numbers."""


def instants(wiring: Wiring, exchange: Block, simultaneous: Simultaneous, *, driven: bool) -> Instants:
    """How this scenario gets through an instant: with nothing to do, if no unit has events of its own.

    `exchange` is what a coupling does to exchange signals once more at the present time. `driven`: somebody
    goes from micro-step to micro-step from outside.
    """
    units = simultaneous.units(wiring.scenario)
    if not units:
        return Instants()
    most = simultaneous.most or 10_000 + 10 * len(units)
    return _Instant(wiring, exchange, units, most).blocks(driven=driven)


class _Instant:
    def __init__(self, wiring: Wiring, exchange: Block, units: Sequence[str], most: int) -> None:
        self._wiring = wiring
        self._events = EventWiring(wiring)
        self._stories = Stories(wiring, self._events.outputs)
        self._histories = wiring.histories
        self._units = units
        self._most = most
        registers = wiring.registers
        self._dues = {unit: registers.new(f"{unit}′due", start=(inf,)) for unit in units}
        self._next = registers.new("next event", start=(inf,))
        self._turn = registers.new("turn", Kind.INTEGER)
        self._again = registers.new("again", Kind.BOOLEAN)
        self._rounds = registers.new("rounds", Kind.INTEGER)
        self._counts = {unit: registers.new(f"{unit}′jumps", Kind.INTEGER) for unit in units}
        self._ripples = Ripples(exchange, Flow(registers.layout(), wiring.scenario.units))
        self._places = {unit: place for place, unit in enumerate(units)}
        self._inputs: dict[Resource, str] = {("input", *end): end[0] for end in wiring.inputs}

    def blocks(self, *, driven: bool) -> Instants:
        ask: Block = tuple(Due(unit, due) for unit, due in self._dues.items())
        turn = self._take_turns()
        act: Block = (
            self._choice([(*self._act(unit), *self._stories.after(unit)) for unit in self._units]),
            turn,
        )
        half = apply(Op.EQ, Cell(self._rounds), Number(float(self._most // 2)))
        reset = tuple(Let(count, ZERO) for count in self._counts.values())
        whole: Block = (
            *ask,
            turn,
            If(
                self._busy,
                (
                    Let(self._rounds, ZERO),
                    *reset,
                    Repeat(
                        most=self._most,
                        # Counted anew from half way on: whoever acts then is in the chain that does not end.
                        body=(If(half, reset), *act, Let(self._rounds, Cell(self._rounds) + 1.0)),
                        until=apply(Op.NOT, self._busy),
                        what="the chain of events at one instant",
                        shows=tuple(self._counts.items()),
                        advice="Look for units that answer each other at once and for ever; if the chain "
                        "does end, raise most of Simultaneous.",
                    ),
                ),
            ),
            self._look_ahead(),
        )
        told = Instants(
            whole,
            due=self._next,
            arrivals=self._arrivals(),
            events=self._events.recordable(self._stories.of),
            first=self._stories.mark,
            keep=self._stories.keep,
            undefined=self._stories.undefined,
        )
        if not driven:
            return told
        micro: Block = (*ask, turn, *act, self._look_ahead())
        nothing = tuple(Let(present, ZERO) for present in self._events.leaving_presents())
        sent = self._choice([(*self._read(unit), *self._sent(unit)) for unit in self._units])
        send: Block = (*ask, turn, *nothing, sent, self._look_ahead())
        return replace(told, micro=micro, send=send)

    # ---------------------------------------------------------------- whose turn it is

    @property
    def _busy(self) -> Expr:
        return apply(Op.LT, Cell(self._turn), Number(float(len(self._units))))

    def _take_turns(self) -> Let:
        """turn := the place in the order of the first unit that is due, or the number of units."""
        now = Cell(self._wiring.now)
        turn: Expr = Number(float(len(self._units)))
        for place, due in reversed(list(enumerate(self._dues.values()))):
            turn = apply(Op.WHERE, apply(Op.LE, Cell(due), now), Number(float(place)), turn)
        return Let(self._turn, turn)

    def _look_ahead(self) -> Let:
        dues: list[Expr] = [Cell(due) for due in self._dues.values()]
        return Let(self._next, reduce(lambda a, b: apply(Op.MIN, a, b), dues))

    def _choice(self, blocks: Sequence[Block], first: int = 0) -> If:
        """Run the block whose number is in `turn`, if there is one: found by halving."""
        if len(blocks) == 1:
            return If(apply(Op.EQ, Cell(self._turn), Number(float(first))), blocks[0])
        half = len(blocks) // 2
        before = apply(Op.LT, Cell(self._turn), Number(float(first + half)))
        return If(before, (self._choice(blocks[:half], first),), (self._choice(blocks[half:], first + half),))

    # ---------------------------------------------------------------- what a unit does

    def _read(self, unit: str) -> list[Instruction]:
        """Ask a unit what it is going to send."""
        return [Get(*end, self._events.outputs[end]) for end in self._events.outputs_of(unit)]

    def _act(self, unit: str) -> list[Instruction]:
        """One micro-step of a unit that is due, and of those that it sends something to."""
        events = self._events
        links, leaving = events.links(unit), events.leaving(unit)
        block = self._read(unit)
        for link in (*links, *leaving):
            block += link.lets
        for end in filter(events.logged, events.outputs_of(unit)):
            block.append(self._logged(end))
        block += [_fire(events.label(link.end[1]), link.value, link.present) for link in leaving]
        block += [Jump(unit, self._again), Let(self._counts[unit], Cell(self._counts[unit]) + 1.0)]
        receivers: dict[str, list[Link]] = {}
        for link in links:
            receivers.setdefault(link.end[0], []).append(link)
        for other, received in receivers.items():
            block += self._receive(other, received)
        # Only when all have jumped: what a unit makes of an event must not depend on who jumped before it.
        block += self._settle(unit)
        return block + [If(_some(received), self._settle(other)) for other, received in receivers.items()]

    def _logged(self, end: End) -> If:
        """What was sent goes into the log, if it was sent; an event between units with its story."""
        name, present = self._wiring.scenario.column(*end), self._events.present(end)
        story = self._stories.of(end)
        if story is None:
            return _fire(name, self._events.outputs[end], present)
        told = (*self._stories.tell(end), Fire(name, story.register), *self._stories.close(end))
        return If(Cell(present), told)

    def _receive(self, unit: str, links: Sequence[Link]) -> list[Instruction]:
        """What was sent to a unit arrives, and it jumps once."""
        arrive = [If(Cell(link.present), (Set(*link.end, (link.value,)),)) for link in links]
        if len(links) == 1:
            (only,) = arrive
            return [If(only.condition, (*only.then, *self._struck(unit)))]
        return [*arrive, If(_some(links), self._struck(unit))]

    def _struck(self, unit: str) -> Block:
        """A unit jumps, because something has reached it."""
        return (Jump(unit, self._again), *self._wiring.struck.get(unit, ()))

    def _settle(self, unit: str) -> Block:
        """After a jump: signals that may have changed are exchanged, and dues that may have are read."""
        wiring = self._wiring
        outputs = wiring.outputs_of(unit)
        dirty: set[Resource] = {("state", unit)}
        dirty |= {("cell", wiring.outputs[end] + i) for end in outputs for i in range(wiring.port(end).cells)}
        again, spoilt = self._ripples.of(dirty)
        old = outdated(self._histories, spoilt)
        if old:  # the present values are the first ones of histories that begin anew
            again, spoilt = self._ripples.of(
                dirty, {("cell", time) for history in old for time in history.times}
            )
        gets = [Get(*end, wiring.outputs[end]) for end in outputs]
        block: list[Instruction] = [get for get in gets if get not in again]  # those of a lagged coupling
        for history in old:
            block += history.restart
        block += again
        moved = {self._inputs[resource] for resource in spoilt if resource in self._inputs}
        asked = (moved | {unit}).intersection(self._places)
        dues = (Due(other, self._dues[other]) for other in sorted(asked, key=self._places.__getitem__))
        return (*block, *dues)

    def _arrivals(self) -> dict[str, Block]:
        scenario = self._wiring.scenario
        free = {unit for unit, port in scenario.free_inputs.values() if port.event}
        units = [unit for unit in self._units if unit in free and unit not in scenario.added_units]
        return {unit: (*self._struck(unit), *self._settle(unit)) for unit in units}

    def _sent(self, unit: str) -> list[Instruction]:
        return [let for link in self._events.leaving(unit) for let in link.lets]


def _some(links: Sequence[Link]) -> Expr:
    """Whether any of them is present."""
    return any_of([Cell(link.present) for link in links])


def _fire(name: str, value: Reg, present: Reg) -> If:
    return If(Cell(present), (Fire(name, value),))
