"""What happens at one instant: events in superdense time, micro-step by micro-step.

The meaning is that of a network of discrete-event units with a fixed order for those that have something to
do at the same time (classic DEVS). One micro-step: the first unit in the order that is due
is asked what it sends, and jumps; every unit that receives something jumps, too; signals that may have
changed are exchanged; all that may be due at another time now is asked again. Micro-steps follow each
other until nothing is due.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from math import inf

from upbeat.core.abilities import Ability, Model, Waiting
from upbeat.core.errors import MasterError, renamed, suggest
from upbeat.core.expr import ZERO, Cell, Expr, Number, Op, any_of, apply
from upbeat.core.ports import Causality, Kind
from upbeat.core.records import dataclass
from upbeat.master.dataflow import ChangePropagation, Flow, Resource, outdated
from upbeat.master.events.conditions import EventWiring, Link
from upbeat.master.events.details import EventDetailsWriter
from upbeat.master.port_registers import End
from upbeat.master.program import (
    Advance,
    Block,
    Due,
    Fire,
    Get,
    If,
    Instruction,
    Jump,
    Let,
    Recordable,
    Reg,
    Repeat,
    Set,
    walk,
)
from upbeat.master.registers import Registers
from upbeat.master.wiring import Wiring
from upbeat.scenario.directory import EVENTS
from upbeat.scenario.events.watcher import watcher_of
from upbeat.scenario.scenario import Scenario
from upbeat.units.process import bare

# ----------------------------------------------------------------------------------------------------
# Who is due, and when the next one is: a tournament of due times over registers.
#
# Asking every unit again would cost as much as there are units, at every instant. Here the units due at
# another time plays its matches again, and no other; the first one that is due is found by halving.


@dataclass(frozen=True, slots=True)
class _Match:
    """The earlier one of two; a single unit has no `rounds` before it."""

    register: Reg
    rounds: tuple[_Match, _Match] | None = None
    unit: str = ""


class Dues:
    """The due times of units, in the order in which they take turns."""

    def __init__(self, registers: Registers, units: Sequence[str], now: Reg) -> None:
        self._registers = registers
        self._now = now
        self.of = {unit: registers.new(f"{unit}′due", start=(inf,)) for unit in units}
        self._places = {unit: place for place, unit in enumerate(units)}
        self._matches: dict[str, list[_Match]] = {unit: [] for unit in units}
        self._final = self._match(units, "next event")

    def _match(self, units: Sequence[str], name: str) -> _Match:
        if len(units) == 1:
            return _Match(self.of[units[0]], unit=units[0])
        register = self._registers.new(name, start=(inf,))  # before those that come before it
        halves = units[: len(units) // 2], units[len(units) // 2 :]
        first, second = (self._match(half, f"earliest of {half[0]} to {half[-1]}") for half in halves)
        made = _Match(register, (first, second))
        for unit in units:
            self._matches[unit].append(made)
        return made

    @property
    def next(self) -> Reg:
        """The register of the earliest due time."""
        return self._final.register

    @property
    def busy(self) -> Expr:
        """Whether a unit is due now."""
        return apply(Op.LE, Cell(self.next), Cell(self._now))

    def ask(self, units: Iterable[str]) -> Block:
        """Ask some units when they are due, and find out again who is the first."""
        asked = sorted(units, key=self._places.__getitem__)
        matches = {match.register: match for unit in asked for match in self._matches[unit]}
        played = (_play(matches[register]) for register in sorted(matches, reverse=True))
        return (*(Due(unit, self.of[unit]) for unit in asked), *played)

    def choose(self, blocks: Mapping[str, Block]) -> Block:
        """Run the block of the first unit that is due; there must be one."""
        return self._chosen(self._final, blocks)

    def _chosen(self, match: _Match, blocks: Mapping[str, Block]) -> Block:
        if match.rounds is None:
            return blocks[match.unit]
        first, second = match.rounds
        due = apply(Op.LE, Cell(first.register), Cell(self._now))
        return (If(due, self._chosen(first, blocks), self._chosen(second, blocks)),)


def _play(match: _Match) -> Let:
    assert match.rounds is not None
    first, second = match.rounds
    return Let(match.register, apply(Op.MIN, Cell(first.register), Cell(second.register)))


# ----------------------------------------------------------------------------------------------------
# Units that are left standing: what changes in jumps alone is moved when something happens to it.
#
# So a step costs as much as moves in it, however many units wait. Such a unit stands at the time in its
# register `reached`, and is brought to the present one right before it jumps.


def idle(wiring: Wiring, steps: Iterable[Block]) -> frozenset[str]:
    """The units that can be left standing: nothing of them but the time changes between two jumps.

    Their models say so in `still`. Where it matters how far a unit gets, it goes along.
    """
    still = {unit for unit, model in wiring.scenario.units.items() if _waits(model)}
    early = {i.unit for step in steps for i in walk(step) if isinstance(i, Advance) and i.early}
    return frozenset(still - early)


def _waits(model: Model) -> bool:
    inputs = (port for port in model.ports if port.causality is Causality.INPUT)
    return isinstance(model, Waiting) and model.still and all(port.event for port in inputs)


def without(block: Block, units: Collection[str], outputs: Mapping[End, Reg]) -> Block:
    """A block of a step in which these units stay where they are; what they show is in `outputs` already."""
    made: list[Instruction] = []
    for instruction in block:
        match instruction:
            case Advance(unit) if unit in units:
                continue
            case Get(unit, port, to) if unit in units and outputs.get((unit, port)) == to:
                continue
            case Repeat(body=body):
                made.append(replace(instruction, body=without(body, units, outputs)))
            case If(_, then, orelse):
                parts = (without(part, units, outputs) for part in (then, orelse))
                made.append(If(instruction.condition, *parts))
            case _:
                made.append(instruction)
    return tuple(made)


def placed(wiring: Wiring, units: Iterable[str]) -> Block:
    """At the start: where these units stand."""
    return tuple(Let(wiring.reached(unit), Cell(wiring.now)) for unit in units)


def caught_up(wiring: Wiring, unit: str) -> Advance:
    """Bring a unit from where it stands to the present time."""
    return Advance(unit, wiring.reached(unit), wiring.now, wiring.reached(unit))


# ----------------------------------------------------------------------------------------------------


@renamed
@dataclass(frozen=True, slots=True)
class Simultaneous:
    """Who goes first when several units have something to do at one instant.

    Units in `order` go before all others, which keep the order of their declaration. A chain of more than
    `max_iterations` micro-steps at one instant ends the run: it would probably never end. Unless given, that
    is 10,000 and 10 for each unit.
    """

    order: tuple[str, ...] = ()
    max_iterations: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.order, Iterable):
            raise MasterError(f"the order of simultaneous events must be a list of units, not {self.order!r}")
        if isinstance(self.order, str) or not all(isinstance(unit, str) for unit in self.order):
            raise MasterError(f"the order of simultaneous events must be a list of units, not {self.order!r}")
        object.__setattr__(self, "order", tuple(self.order))
        if self.max_iterations is not None and (
            type(self.max_iterations) is not int or self.max_iterations < 2
        ):
            raise MasterError(
                "max_iterations of Simultaneous must be a whole number of at least 2, "
                f"not {self.max_iterations!r}"
            )
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
                    f"the order of simultaneous events names '{unit}', which is not a unit. {hint}"
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
    """What the program begins with: for the log, and for units that are left standing."""
    keep: Block = ()
    """What every step begins with, for the log."""
    undefined: Mapping[str, Reg] = field(default_factory=dict)
    """When conditions of events were first seen not to be numbers."""


def instants(
    wiring: Wiring,
    exchange: Block,
    simultaneous: Simultaneous,
    *,
    driven: bool,
    idle: Collection[str] = (),
) -> Instants:
    """How this scenario gets through an instant: with nothing to do, if no unit has events of its own.

    `exchange` is what a coupling does to exchange signals once more at the present time. `driven`: somebody
    goes from micro-step to micro-step from outside. Units left `idle` are moved right before they jump.
    """
    units = simultaneous.units(wiring.scenario)
    if not units:
        return Instants()
    max_iterations = simultaneous.max_iterations or 10_000 + 10 * len(units)
    return _Instant(wiring, exchange, units, max_iterations, idle).blocks(driven=driven)


class _Instant:
    def __init__(
        self,
        wiring: Wiring,
        exchange: Block,
        units: Sequence[str],
        max_iterations: int,
        idle: Collection[str],
    ) -> None:
        self._wiring = wiring
        self._events = EventWiring(wiring)
        self._details = EventDetailsWriter(wiring, self._events.outputs)
        self._histories = wiring.histories
        self._units = units
        self._max_iterations = max_iterations
        self._idle = {unit: None for unit in units if unit in idle}  # in their order
        registers = wiring.registers
        self._dues = Dues(registers, units, wiring.now)
        self._again = registers.new("again", Kind.BOOLEAN)
        self._rounds = registers.new("rounds", Kind.INTEGER)
        self._counts = {unit: registers.new(f"{unit}′jumps", Kind.INTEGER) for unit in units}
        self._events_counted: dict[str, Reg] = {}  # those between units, which a unit for all of them sends
        self._propagation = ChangePropagation(exchange, Flow(registers.layout(), wiring.scenario.units))
        self._inputs: dict[Resource, str] = {("input", *end): end[0] for end in wiring.inputs}

    def blocks(self, *, driven: bool) -> Instants:
        dues = self._dues
        # Of those that stand, only a jump changes when they are due, and who jumps is asked again.
        ask = dues.ask(unit for unit in self._units if unit not in self._idle)
        act = dues.choose({unit: (*self._act(unit), *self._details.after(unit)) for unit in self._units})
        counts = (*self._counts.values(), *self._events_counted.values())
        happened = self._happened()
        half = apply(Op.EQ, Cell(self._rounds), Number(float(self._max_iterations // 2)))
        whole: Block = (
            *ask,
            If(
                dues.busy,
                (
                    Let(self._rounds, ZERO),
                    Repeat(
                        max_iterations=self._max_iterations,
                        # Counted from half way on: units that act then are in the chain that does not end.
                        body=(
                            If(half, tuple(Let(count, ZERO) for count in counts)),
                            *act,
                            *happened,
                            Let(self._rounds, Cell(self._rounds) + 1.0),
                        ),
                        until=apply(Op.NOT, dues.busy),
                        what="the chain of events at one instant",
                        shows=(*self._events_counted.items(), *self._units_counted()),
                        advice="Look for units that answer each other at once and for ever; if the chain "
                        "does end, raise most of Simultaneous.",
                    ),
                ),
            ),
        )
        made = Instants(
            whole,
            due=dues.next,
            arrivals=self._arrivals(),
            events=self._events.recordable(self._details.of),
            first=(
                *self._details.mark,
                *placed(self._wiring, self._idle),
                *dues.ask(self._idle),
            ),
            keep=self._details.keep,
            undefined=self._details.undefined,
        )
        if not driven:
            return made
        nothing = tuple(Let(present, ZERO) for present in self._events.leaving_presents())
        sent = dues.choose({unit: (*self._read(unit), *self._sent(unit)) for unit in self._units})
        micro = (*ask, If(dues.busy, (*act, *happened)))
        return replace(made, micro=micro, send=(*ask, *nothing, If(dues.busy, sent)))

    def _happened(self) -> Block:
        """After a micro-step: those outside can tell that there was one."""
        count = self._wiring.happened
        return () if count is None else (Let(count, Cell(count) + 1.0), *self._wiring.finish())

    # ---------------------------------------------------------------- what a unit does

    def _read(self, unit: str) -> list[Instruction]:
        """Ask a unit what it is going to send."""
        return [Get(*end, self._events.outputs[end]) for end in self._events.outputs_of(unit)]

    def _act(self, unit: str) -> list[Instruction]:
        """One micro-step of a unit that is due, and of those that it sends something to."""
        events = self._events
        links, leaving = events.links(unit), events.leaving(unit)
        block = [*self._moved(unit), *self._read(unit)]
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
        details = self._details.of(end)
        led = self._wiring.leading.get(end[1], ()) if end[0] == EVENTS else ()
        if details is None:
            return If(Cell(present), (Fire(name, self._events.outputs[end]), *led))
        label = f"event '{name}' ({', '.join(details.units)})"
        count = self._wiring.registers.new(self._wiring.registers.unique(f"{name}′happened"), Kind.INTEGER)
        self._events_counted[label] = count
        counted = Let(count, Cell(count) + 1.0)
        report = (
            *self._details.compute(end),
            Fire(name, details.register),
            *self._details.close(end),
            counted,
            *led,
        )
        return If(Cell(present), report)

    def _units_counted(self) -> Iterator[tuple[str, Reg]]:
        """Who has jumped how often, but the unit of the scenario's events, which are counted themselves."""
        for unit, count in self._counts.items():
            model = bare(self._wiring.scenario.units[unit])
            watcher = watcher_of(model)
            if watcher is not None and any(self._events.logged((unit, e.name)) for e in watcher.events):
                continue
            equations = getattr(model, "equations", None)
            own = () if equations is None else equations.events
            names = f" (its events {', '.join(event.name for event in own)})" if own else ""
            yield f"{unit}{names}", count

    def _receive(self, unit: str, links: Sequence[Link]) -> list[Instruction]:
        """What was sent to a unit arrives, and it jumps once."""
        arrive = [If(Cell(link.present), (Set(*link.end, (link.value,)),)) for link in links]
        if len(links) == 1:
            (only,) = arrive
            return [If(only.condition, (*only.then, *self._struck(unit)))]
        return [*arrive, If(_some(links), self._struck(unit))]

    def _struck(self, unit: str) -> Block:
        """A unit jumps, because something has reached it."""
        return (*self._moved(unit), Jump(unit, self._again), *self._wiring.struck.get(unit, ()))

    def _moved(self, unit: str) -> Block:
        """A unit that was left standing comes to the present time."""
        return (caught_up(self._wiring, unit),) if unit in self._idle else ()

    def _settle(self, unit: str) -> Block:
        """After a jump: signals that may have changed are exchanged, and dues that may have are read."""
        wiring = self._wiring
        outputs = wiring.outputs_of(unit)
        dirty: set[Resource] = {("state", unit)}
        dirty |= {("cell", wiring.outputs[end] + i) for end in outputs for i in range(wiring.port(end).cells)}
        again, spoilt = self._propagation.of(dirty)
        old = outdated(self._histories, spoilt)
        if old:  # the present values are the first ones of histories that start again
            again, spoilt = self._propagation.of(
                dirty, {("cell", time) for history in old for time in history.times}
            )
        gets = [Get(*end, wiring.outputs[end]) for end in outputs]
        block: list[Instruction] = [get for get in gets if get not in again]  # those of a lagged coupling
        for history in old:
            block += history.restart
        block += again
        moved = {self._inputs[resource] for resource in spoilt if resource in self._inputs}
        return (*block, *self._dues.ask({one for one in (*moved, unit) if one in self._dues.of}))

    def _arrivals(self) -> dict[str, Block]:
        scenario = self._wiring.scenario
        free = {unit for unit, port in scenario.free_inputs.values() if port.event}
        units = [unit for unit in self._units if unit in free and unit not in scenario.added_units]
        happened = self._happened()
        return {unit: (*self._struck(unit), *self._settle(unit), *happened) for unit in units}

    def _sent(self, unit: str) -> list[Instruction]:
        return [let for link in self._events.leaving(unit) for let in link.lets]


def _some(links: Sequence[Link]) -> Expr:
    """Whether any of them is present."""
    return any_of([Cell(link.present) for link in links])


def _fire(name: str, value: Reg, present: Reg) -> If:
    return If(Cell(present), (Fire(name, value),))
