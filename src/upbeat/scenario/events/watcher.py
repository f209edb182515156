"""The unit that watches for the events of a scenario, and tells the units what to change.

It looks whenever units communicate. What comes true happens in one jump, from one snapshot of all signals:
every unit concerned is told in the same micro-step, or none is. Events that would change the same quantity
happen one after the other, in the order in which they are written, each from what the one before has left.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, fields, replace
from functools import cached_property, reduce
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from upbeat.core.abilities import Model
from upbeat.core.expr import (
    ONE,
    Apply,
    Expr,
    Name,
    Number,
    Op,
    any_of,
    apply,
    names,
    simplify,
    substitute,
    time_derivative,
)
from upbeat.core.names import cell_names, split
from upbeat.core.ports import Causality, Kind, Port
from upbeat.core.records import dataclass
from upbeat.scenario.connection import Connection
from upbeat.scenario.directory import EVENTS, Directory, End
from upbeat.scenario.events.declared import Event
from upbeat.scenario.events.functions import computes_conditions, with_functions
from upbeat.scenario.events.links import EventConnection, Sender
from upbeat.units.discrete.model import Discrete, Emission, Mode, Variable, discrete_of
from upbeat.units.equations.arranging import free_name
from upbeat.units.process import bare, placed_like

if TYPE_CHECKING:
    from upbeat.scenario.assemble import Parts
    from upbeat.scenario.scenario import Scenario


_TIME, _NEVER, _ZERO = Name("time"), Number(inf), Number(0.0)


@dataclass(frozen=True)
class Watched:
    """An event in the names of the watcher's own ports: `then` are its outputs, and what they send.

    `turning` is what says whether the event has turned its own condition, where it acts on that: it is not
    below zero then. Of a ball that bounces at ``x <= 0``, the velocity. `rests`: the condition does not see
    what the event changes, and stays where it is by that: a ball whose velocity becomes zero there.
    """

    name: str
    conditions: tuple[Expr, ...]
    then: tuple[tuple[str, tuple[Expr, ...]], ...] = ()
    turning: tuple[Expr, ...] = ()
    rests: bool = False
    hidden: bool = False
    """No unit is told: steps end there, and that is all."""

    @property
    def indicator(self) -> Expr:
        """The largest of the conditions."""
        return reduce(lambda a, b: apply(Op.MAX, a, b), self.conditions)


@dataclass(frozen=True)
class Watcher(Discrete):
    """A discrete unit with an event output for each of `events`, and one for each quantity they change."""

    events: tuple[Watched, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    """The events that units may locate, and the event inputs by which they say so."""
    limits: tuple[tuple[str, str], ...] = ()
    """These events, and the inputs that say up to which indicator they are believed."""
    constants: tuple[tuple[str, str], ...] = ()
    """The parameters (``unit.name``) that stand in its expressions with their values before the run, and
    the events that read them."""

    @cached_property
    def event_names(self) -> frozenset[str]:
        """Those of `events`."""
        return frozenset(event.name for event in self.events)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(getattr(self, own.name) for own in fields(Watcher))


def with_watcher(parts: Parts) -> Parts:
    """The scenario with its events as a unit of their own, and units that let themselves be changed."""
    if not parts.events:
        return parts
    parts = with_functions(parts, standing_behind(parts))
    units, ports = _opened(parts)
    reading = _Reading(parts, {event.name for event in parts.events})
    rates = _rates(parts.units)
    watched: list[Watched] = []
    changed: dict[End, str] = {}
    for event in parts.events:
        conditions = tuple(map(reading.own, event.conditions))
        then = []
        for change in event.then:
            end = (change.unit, ports[change.unit, change.name])
            changed.setdefault(end, reading.new("new", change.unit, change.name))
            then.append((changed[end], tuple(map(reading.own, change.cells))))
        turning = _turning(event, parts.units, rates)
        rests = _rests(event, turning, parts.units)
        own = tuple(map(reading.own, turning))
        watched.append(Watched(event.name, conditions, tuple(then), own, rests, event.hidden))
    heard = {(u, port.name): port for u, model in units.items() for port in model.ports}
    sent = {name: replace(heard[end], name=name, causality=Causality.OUTPUT) for end, name in changed.items()}
    links = tuple(_link(end, name, sent[name]) for end, name in changed.items())
    return replace(
        parts,
        units={EVENTS: _watcher(reading, watched, sent, _constants(parts)), **units},
        connections=(*reading.connections, *parts.connections),
        event_connections=(*parts.event_connections, *links),
        events=(),
    )


def _opened(parts: Parts) -> tuple[dict[str, Model], dict[End, str]]:
    """The units, those that events change with inputs for that; and these inputs by what they change."""
    wanted: dict[str, dict[str, None]] = {}
    for change in (change for event in parts.events for change in event.then):
        wanted.setdefault(change.unit, {})[change.name] = None
    units: dict[str, Model] = dict(parts.units)
    found: dict[End, str] = {}
    for unit, quantities in wanted.items():
        model: Any = units[unit]
        inner: Any = bare(model)
        made, ports = inner.changing(quantities)
        units[unit] = placed_like(model, made)
        found |= {(unit, name): port for name, port in ports.items()}
    return units, found


def _link(end: End, name: str, port: Port) -> EventConnection:
    cells = tuple(
        Name(cell) for cell in cell_names(f"{EVENTS}.{name}", None if port.cells == 1 else port.size)
    )
    return EventConnection(*end, (Sender((EVENTS, name), None, cells),), f"{EVENTS}.{name}")


def _rates(units: Mapping[str, Model]) -> dict[str, Expr]:
    """The rates of change of what outputs give, as far as outputs say them, and of parameters."""
    rates: dict[str, Expr] = {}
    for unit, port in ((unit, port) for unit, model in units.items() for port in model.ports):
        cells = cell_names(f"{unit}.{port.name}", port.size)
        if port.causality is Causality.PARAMETER:
            rates |= dict.fromkeys(cells, _ZERO)
        elif port.derivative is not None:
            made = map(Name, cell_names(f"{unit}.{port.derivative}", port.size))
            rates |= dict(zip(cells, made, strict=True))
    return rates


def _turning(event: Event, units: Mapping[str, Model], rates: Mapping[str, Expr]) -> list[Expr]:
    """The conditions of an event that read what it changes; if none does, the rates of its conditions that
    depend on that, as far as outputs say it."""
    changed = {
        cell for c in event.then for cell in cell_names(f"{c.unit}.{c.name}", _size(units[c.unit], c.name))
    }
    direct = [z for z in event.conditions if not names(z).isdisjoint(changed)]
    if direct:
        return direct
    known = [z for z in event.conditions if all(name == "time" or name in rates for name in names(z))]
    found = (time_derivative(z, rates) for z in known)
    return [rate for rate in found if not names(rate).isdisjoint(changed)]


def _rests(event: Event, turning: Sequence[Expr], units: Mapping[str, Model]) -> bool:
    """Whether a condition that does not see what the event changes has no rate any more after it."""
    new: dict[str, Expr] = {}
    for change in event.then:
        cells = cell_names(f"{change.unit}.{change.name}", _size(units[change.unit], change.name))
        new |= dict(zip(cells, change.cells, strict=False))
    if any(not names(z).isdisjoint(new) for z in event.conditions):
        return False
    return any(simplify(substitute(rate, new)) == _ZERO for rate in turning)


def _size(model: Model, name: str) -> int | None:
    return next((port.size for port in model.ports if port.name == name), None)


class _Reading:
    """The inputs of the watcher, made as expressions need them."""

    def __init__(self, parts: Parts, taken: set[str]) -> None:
        self._parts = parts
        self._taken = {*taken, "time"}
        self._directory = Directory(parts.units, parts.inputs)
        self._behind = standing_behind(parts)
        self._names: dict[str, str] = {}
        self.ports: list[Port] = []
        self.connections: list[Connection] = []

    def own(self, expr: Expr) -> Expr:
        """An expression over ports of the scenario in the names of the watcher's inputs."""
        plain = substitute(expr, self._behind)
        return substitute(plain, {name: Name(self._input(name)) for name in sorted(names(plain))})

    def _input(self, name: str) -> str:
        if name not in self._names:
            source = self._directory.source(name)
            made = self._names[name] = self.new(*name.split("."))
            port = Port(
                made, Causality.INPUT, source.port.kind, items=source.port.items, unit=source.port.unit
            )
            self.ports.append(port)
            self.connections.append(Connection(EVENTS, made, (Name(name),), (source.end,), name))
        return self._names[name]

    def new(self, *parts: str) -> str:
        """An identifier that nothing here has yet."""
        plain = re.sub(r"[\W_]+", "_", "_".join(parts), flags=re.ASCII).strip("_")
        wanted = plain if plain[:1].isalpha() else f"_{plain}"
        made, count = wanted, 1
        while made in self._taken:
            count += 1
            made = f"{wanted}_{count}"
        self._taken.add(made)
        return made


def standing_behind(parts: Parts) -> dict[str, Expr]:
    """What stands behind the names of inputs (what drives them) and of parameters (their values)."""
    given = {(c.unit, c.port): c.cells for c in parts.connections}
    found: dict[str, Expr] = {}
    for unit, model in parts.units.items():
        for port in model.ports:
            cells: Sequence[Expr] = given.get((unit, port.name), ())
            if port.causality is Causality.PARAMETER and port.kind is not Kind.STRING:
                cells = tuple(Number(float(value)) for value in port.initial)
            paths = cell_names(f"{unit}.{port.name}", None if port.cells == 1 else port.size)
            found |= dict(zip(paths, cells, strict=False))
    return found


def _constants(parts: Parts) -> tuple[tuple[str, str], ...]:
    fixed = {(u, p.name) for u, model in parts.units.items() for p in model.ports
             if p.causality is Causality.PARAMETER}  # fmt: skip
    read = {end: event.name for event in parts.events for end in event.reads if end in fixed}
    return tuple((f"{unit}.{name}", event) for (unit, name), event in read.items())


def _watcher(
    reading: _Reading,
    watched: Sequence[Watched],
    sent: Mapping[str, Port],
    constants: tuple[tuple[str, str], ...],
) -> Watcher:
    armed = {event.name: reading.new("armed", event.name) for event in watched}
    return _made(reading.ports, watched, armed, sent.values(), {}, constants)


@dataclass(frozen=True)
class _Linked:
    """The names of what the watcher has for an event that a unit may locate.

    `limit`: a unit is believed where the indicator is not above it; else what the unit assumed of others was
    wrong, and nothing happens. `reported`: it has been located, and is to happen.
    """

    port: str
    limit: str
    reported: str


@dataclass(frozen=True)
class _Guard:
    """The names of what the watcher keeps of an event that changes something, so that it stays guarded.

    `last`: when it happened last. `low`: its indicator then, or what its own change has lifted it to.
    `turned`: by its own change it is on its way up from there. It need not have become false: a ball that
    bounces by less than it was noticed late never leaves the floor. If it goes deeper than that again, it
    happens again, instead of never more.
    """

    last: str
    low: str
    turned: str


def linked(watcher: Watcher, events: Collection[str]) -> Watcher:
    """The watcher with an event input for each of `events`, by which a unit says that it has located it.

    What is located happens then, all of it, unless it has happened at that time already, or the indicator is
    plainly above zero.
    """
    taken = set(watcher.arguments) | {port.name for port in watcher.ports}
    links = {
        event: _Linked(*(free_name(f"{word}_{event}", taken) for word in ("located", "limit", "told")))
        for event in events
    }
    armed = dict(zip((e.name for e in watcher.events), (v.name for v in watcher.variables), strict=False))
    own = {event.name for event in watcher.events}
    sent = [port for port in watcher.sent if port.name not in own]
    return _made(watcher.inputs, watcher.events, armed, sent, links, watcher.constants)


def _made(
    inputs: Sequence[Port],
    watched: Sequence[Watched],
    armed: Mapping[str, str],
    sent: Iterable[Port],
    links: Mapping[str, _Linked],
    constants: tuple[tuple[str, str], ...],
) -> Watcher:
    sent = tuple(sent)
    taken = {port.name for port in (*inputs, *sent)} | {e.name for e in watched} | set(armed.values())
    taken |= {name for link in links.values() for name in vars(link).values()}
    guards = {e.name: _guard(e, taken) for e in watched if e.then or e.name in links}
    is_true = {e.name: Apply(Op.LE, (e.indicator, _ZERO)) for e in watched}
    is_false = {e.name: Apply(Op.GT, (e.indicator, _ZERO)) for e in watched}
    for name, link in links.items():
        is_true[name] = Apply(Op.OR, (is_true[name], Name(link.reported)))
    due = {e.name: Apply(Op.AND, (Name(armed[e.name]), is_true[e.name])) for e in watched}
    for event in watched:
        if event.name in guards:
            deeper = _deeper(guards[event.name], event.indicator, links.get(event.name))
            unarmed = Apply(Op.NOT, (Name(armed[event.name]),))
            due[event.name] = Apply(Op.OR, (due[event.name], Apply(Op.AND, (unarmed, deeper))))
    fires: dict[str, Expr] = {}
    before: dict[str, _Growing] = defaultdict(_Growing)
    """By port: the events so far that change it, each of which has precedence over those that follow."""
    for event in watched:
        rivals = [before[port].any() for port, _ in event.then if before[port].truths]
        alone = Apply(Op.NOT, (any_of(rivals),)) if rivals else ONE
        fires[event.name] = Apply(Op.AND, (due[event.name], alone)) if rivals else due[event.name]
        for port, _ in event.then:
            before[port].truths.append(due[event.name])
    emissions = [Emission(event.name, fires[event.name], (ONE,)) for event in watched]
    writing: dict[str, list[tuple[Expr, tuple[Expr, ...]]]] = defaultdict(list)
    for event in watched:
        for port, values in dict(event.then).items():
            writing[port].append((fires[event.name], values))
    for port in (port.name for port in sent):
        writers = writing[port]
        cells = writers[-1][1]
        for fired, others in reversed(writers[:-1]):
            pairs = zip(others, cells, strict=True)
            cells = tuple(Apply(Op.WHERE, (fired, one, other)) for one, other in pairs)
        emissions.append(Emission(port, any_of([fired for fired, _ in writers]), cells))
    kept: list[tuple[str, Expr]] = []
    turns: list[Expr] = []
    for event in watched:
        if event.name not in guards:
            continue
        guard, fired = guards[event.name], fires[event.name]
        turns.append(_turns(event, guard, armed[event.name], event.name in links))
        turned = Apply(Op.OR, (Name(guard.turned), turns[-1]))
        if event.name in links:
            # Where a unit sees zero, the indicator may still be a little above it: then zero will not do.
            above = Apply(Op.MAX, (Name(guard.low), _ZERO))
            is_false[event.name] = Apply(Op.GT, (event.indicator, Apply(Op.ADD, (above, above))))
            kept.append((links[event.name].reported, _ZERO))
        # What its own change has lifted (a ball that is put where it lies) need not sink as deep again.
        lifted = Apply(Op.MAX, (Name(guard.low), Apply(Op.MIN, (event.indicator, _ZERO))))
        low = Apply(Op.WHERE, (turns[-1], lifted, Name(guard.low)))
        for name, now, else_ in (
            (guard.last, _TIME, Name(guard.last)),
            (guard.low, event.indicator, low),
        ):
            kept.append((name, Apply(Op.WHERE, (fired, now, else_))))
        kept.append((guard.turned, Apply(Op.AND, (turned, Apply(Op.NOT, (fired,))))))
    again = [Apply(Op.AND, (Apply(Op.NOT, (Name(armed[e.name]),)), is_false[e.name])) for e in watched]
    waits = {e.name: Apply(Op.AND, (Name(armed[e.name]), Apply(Op.NOT, (fires[e.name],)))) for e in watched}
    for name in links:
        is_false[name] = Apply(Op.AND, (is_false[name], Apply(Op.NOT, (fires[name],))))
    rearmed = tuple((armed[e.name], Apply(Op.OR, (is_false[e.name], waits[e.name]))) for e in watched)
    busy = any_of([*due.values(), *again, *turns])
    happened = [Port(e.name, Causality.OUTPUT, Kind.BOOLEAN, event=True, internal=e.hidden) for e in watched]
    heard = [
        Port(link.port, Causality.INPUT, Kind.BOOLEAN, event=True, internal=True) for link in links.values()
    ]
    limits = [Port(link.limit, Causality.INPUT, internal=True) for link in links.values()]
    indicators = {event.name: event.indicator for event in watched}
    reported = tuple(
        (link.reported, _reported(link, guards[name], armed[name], indicators[name]))
        for name, link in links.items()
    )
    remembered: list[Variable] = []
    for guard in guards.values():
        remembered += [Variable(guard.last, Kind.REAL, -inf), Variable(guard.turned, Kind.BOOLEAN, False)]
        remembered.append(Variable(guard.low, Kind.REAL, 0.0))
    remembered += [Variable(link.reported, Kind.BOOLEAN, False) for link in links.values()]
    return Watcher(
        ports=(*inputs, *limits, *heard, *happened, *sent),
        variables=(*(Variable(name, Kind.BOOLEAN, True) for name in armed.values()), *remembered),
        modes=(Mode(Apply(Op.WHERE, (busy, _TIME, _NEVER)), tuple(emissions), (*rearmed, *kept), reported),),
        events=tuple(watched),
        links=tuple((name, link.port) for name, link in links.items()),
        limits=tuple((name, link.limit) for name, link in links.items()),
        constants=constants,
    )


@dataclass
class _Growing:
    """Truths, and whether one of those so far holds: made of blocks that all answers share."""

    truths: list[Expr] = field(default_factory=list)
    _blocks: dict[tuple[int, int], Expr] = field(default_factory=dict)

    def any(self) -> Expr:
        blocks, at = [], 0
        for bit in reversed(range(len(self.truths).bit_length())):
            if len(self.truths) >> bit & 1:
                blocks.append(self._block(at, 1 << bit))
                at += 1 << bit
        return any_of(blocks)

    def _block(self, at: int, size: int) -> Expr:
        if size == 1:
            return self.truths[at]
        if (at, size) not in self._blocks:
            halves = self._block(at, size // 2), self._block(at + size // 2, size // 2)
            self._blocks[at, size] = Apply(Op.OR, halves)
        return self._blocks[at, size]


def _guard(event: Watched, taken: set[str]) -> _Guard:
    return _Guard(*(free_name(f"{word}_{event.name}", taken) for word in ("last", "low", "turned")))


def _turns(event: Watched, guard: _Guard, armed: str, located: bool) -> Expr:
    """Whether an event's own change, at this instant, has moved its condition away from where it happened.

    The indicator is higher than before; or what the event acts on no longer falls; or what a unit has located
    a hair too soon is anything else than before: a ball seen at rest on the floor while it still went up by a
    hair is turned round, and would fall for ever, since the condition holds and has happened.
    """
    moved: Expr = Apply(Op.GT, (event.indicator, Name(guard.low)))
    for sign in event.turning:
        moved = Apply(Op.OR, (moved, Apply(Op.GE, (sign, _ZERO))))
    if located:
        early = Apply(Op.GT, (Name(guard.low), _ZERO))
        other = Apply(Op.NE, (event.indicator, Name(guard.low)))
        moved = Apply(Op.OR, (moved, Apply(Op.AND, (early, other))))
    just = Apply(Op.EQ, (Name(guard.last), _TIME))
    neither = Apply(Op.NOT, (Apply(Op.OR, (Name(armed), Name(guard.turned))),))
    return Apply(Op.AND, (Apply(Op.AND, (just, neither)), moved))


def _deeper(guard: _Guard, indicator: Expr, link: _Linked | None) -> Expr:
    """Whether what has been turned goes deeper than where that was, or has been located once more."""
    below: Expr = Apply(Op.LT, (indicator, Apply(Op.MIN, (Name(guard.low), _ZERO))))
    if link is not None:
        below = Apply(Op.OR, (below, Name(link.reported)))
    return Apply(Op.AND, (Name(guard.turned), below))


def _reported(link: _Linked, guard: _Guard, armed: str, indicator: Expr) -> Expr:
    """Whether an event is to happen because it has been located: unless it just has, or plainly is none."""
    later = Apply(Op.GT, (_TIME, Name(guard.last)))
    near = Apply(Op.LE, (indicator, Name(link.limit)))
    guarded = Apply(Op.OR, (Name(armed), Name(guard.turned)))
    due = Apply(Op.AND, (guarded, Apply(Op.AND, (later, near))))
    news = Apply(Op.AND, (Name(f"{link.port}?"), due))
    return Apply(Op.OR, (Name(link.reported), news))


def watcher_of(model: object) -> Watcher | None:
    """The events that a unit watches for, and what it tells; None if it is another one."""
    return model if isinstance(model, Watcher) else None


def watchers(units: Mapping[str, Model]) -> dict[str, Watcher]:
    """The units that watch for events, by name."""
    return {name: model for name, model in units.items() if isinstance(model, Watcher)}


def looks_at_instants(model: object) -> bool:
    """Whether a unit looks at signals for the sake of events: at instants only, so that it needs no
    trajectories."""
    return watcher_of(model) is not None or computes_conditions(model)


# ----------------------------------------------------------------------------------------------------
# The one walk through the events that a closed scenario is watched for, and the units these look at.


class ObservedEvent(NamedTuple):
    """An event as it is watched for: by which unit, what it is there; and over the outputs of units, its
    conditions and what is sent when it happens, by output of the watcher."""

    watcher: str
    event: Watched
    conditions: tuple[Expr, ...]
    then: tuple[tuple[str, tuple[Expr, ...]], ...]

    @property
    def place(self) -> tuple[str, str]:
        """The unit that watches, and the name of the event there: also the port that tells of it."""
        return self.watcher, self.event.name

    @property
    def reads(self) -> tuple[str, ...]:
        """The names of all outputs that the conditions look at."""
        return tuple(sorted({name for z in self.conditions for name in names(z)}))


def observed_events(closed: Scenario) -> Iterator[ObservedEvent]:
    """All events that are watched for."""
    for unit, watcher in watchers(closed.units).items():
        seen = {c.port: c.cells[0] for c in closed.connections if c.unit == unit}
        for event in watcher.events:
            then = ((output, tuple(substitute(new, seen) for new in cells)) for output, cells in event.then)
            yield ObservedEvent(
                unit, event, tuple(substitute(z, seen) for z in event.conditions), tuple(then)
            )


class Wait(NamedTuple):
    """A condition on signals that a discrete-event unit waits for: in its own words, and over outputs."""

    unit: str
    text: str
    conditions: tuple[Expr, ...]


def waits(closed: Scenario) -> Iterator[Wait]:
    """All conditions on signals that discrete-event units other than watchers wait for.

    What such a condition reads of the unit itself is known once units give it out (`Discrete.showing`).
    """
    for unit, model in closed.units.items():
        inner = discrete_of(bare(model))
        if inner is None or not inner.awaited or unit in closed.added_units:
            continue
        known: dict[str, Expr] = {}
        for port in inner.ports:
            if port.causality is not Causality.OUTPUT and not port.event:
                cells = zip(cell_names(port.name, port.size), port.initial, strict=True)
                known |= {name: Number(float(value)) for name, value in cells}
        for c in closed.connections:
            if c.unit == unit:
                size = next(port.size for port in inner.ports if port.name == c.port)
                known |= dict(zip(cell_names(c.port, size), c.cells, strict=True))
        given = {port.name for port in inner.shown if port.internal}
        for name, shown in inner.outputs:
            if name in given:
                (variable,) = names(shown[0])
                known[variable] = Name(f"{unit}.{name}")
        for text, zs in inner.awaited:
            yield Wait(unit, text, tuple(substitute(z, known) for z in zs))


def with_waits(closed: Scenario) -> Scenario:
    """The scenario whose discrete-event units give out what the conditions that they wait for depend on."""
    found: dict[str, Model] = {}
    for unit, model in closed.units.items():
        inner = discrete_of(bare(model))
        if inner is not None and inner.awaited:
            made = inner.showing()
            found[unit] = placed_like(model, made)
    return closed.with_units(found) if found else closed


def waiting(closed: Scenario) -> list[str]:
    """The discrete-event units that wait for conditions on signals, and the units these look at."""
    found: set[str] = set()
    for wait in waits(closed):
        found |= {
            wait.unit,
            *behind(closed, (unit for unit in named(wait.conditions) if unit in closed.units)),
        }
    return [unit for unit in closed.units if unit in found]


def named(conditions: Iterable[Expr]) -> set[str]:
    """The units that conditions name."""
    return {split(name)[0] for z in conditions for name in names(z)}


def behind(closed: Scenario, units: Iterable[str]) -> set[str]:
    """These units, but in place of those that compute functions the ones that the functions look at."""
    given = set(units)
    functions = {unit for unit in given if computes_conditions(closed.units[unit])}
    return (given - functions) | {
        source for c in closed.connections if c.unit in functions for source, _ in c.sources
    }


def looked_at(closed: Scenario) -> list[str]:
    """The units that conditions of events look at, or what these change is computed from."""
    looking = set(watchers(closed.units))
    sources = {source for c in closed.connections if c.unit in looking for source, _ in c.sources}
    seen = behind(closed, sources)
    return [unit for unit in closed.units if unit in seen and unit not in looking]
