"""The unit that watches for the events of a scenario, and tells the units what to change.

It looks whenever units communicate. What comes true happens in one jump, from one snapshot of all signals:
every unit concerned is told in the same micro-step, or none is. Events that would change the same quantity
happen one after the other, in the order in which they are written, each from what the one before has left.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from upbeat.core.abilities import Model
from upbeat.core.expr import ONE, Apply, Expr, Name, Number, Op, any_of, apply, names, substitute
from upbeat.core.names import cell_names
from upbeat.core.ports import Causality, Kind, Port
from upbeat.scenario.connection import Connection
from upbeat.scenario.directory import EVENTS, Directory, End
from upbeat.scenario.events.connection import EventConnection, Sender
from upbeat.scenario.events.functions import with_functions
from upbeat.units.discrete.model import Discrete, Emission, Mode, Variable
from upbeat.units.equations.changing import free_name
from upbeat.units.process import Isolated

if TYPE_CHECKING:
    from upbeat.scenario.assemble import Parts

_TIME, _NEVER, _ZERO = Name("time"), Number(float("inf")), Number(0.0)


@dataclass(frozen=True)
class Watched:
    """An event in the names of the watcher's own ports: `then` are its outputs, and what they send."""

    name: str
    conditions: tuple[Expr, ...]
    then: tuple[tuple[str, tuple[Expr, ...]], ...] = ()

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

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(getattr(self, field.name) for field in fields(Watcher))


def with_watcher(parts: Parts) -> Parts:
    """The scenario with its events as a unit of their own, and units that let themselves be changed."""
    if not parts.events:
        return parts
    parts = with_functions(parts, _behind(parts))
    units, ports = _opened(parts)
    reading = _Reading(parts, {event.name for event in parts.events})
    watched: list[Watched] = []
    changed: dict[End, str] = {}
    for event in parts.events:
        conditions = tuple(map(reading.own, event.conditions))
        then = []
        for change in event.then:
            end = (change.unit, ports[change.unit, change.name])
            changed.setdefault(end, reading.new("new", change.unit, change.name))
            then.append((changed[end], tuple(map(reading.own, change.cells))))
        watched.append(Watched(event.name, conditions, tuple(then)))
    heard = {(u, port.name): port for u, model in units.items() for port in model.ports}
    sent = {name: replace(heard[end], name=name, causality=Causality.OUTPUT) for end, name in changed.items()}
    links = tuple(_link(end, name, sent[name]) for end, name in changed.items())
    return replace(
        parts,
        units={EVENTS: _watcher(reading, watched, sent), **units},
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
        inner: Any = model.model if isinstance(model, Isolated) else model
        made, ports = inner.changing(quantities)
        units[unit] = replace(model, model=made) if isinstance(model, Isolated) else made
        found |= {(unit, name): port for name, port in ports.items()}
    return units, found


def _link(end: End, name: str, port: Port) -> EventConnection:
    cells = tuple(
        Name(cell) for cell in cell_names(f"{EVENTS}.{name}", None if port.cells == 1 else port.size)
    )
    return EventConnection(*end, (Sender((EVENTS, name), None, cells),), f"{EVENTS}.{name}")


class _Reading:
    """The inputs of the watcher, made as expressions need them."""

    def __init__(self, parts: Parts, taken: set[str]) -> None:
        self._parts = parts
        self._taken = {*taken, "time"}
        self._directory = Directory(parts.units, parts.inputs)
        self._behind = _behind(parts)
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


def _behind(parts: Parts) -> dict[str, Expr]:
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


def _watcher(reading: _Reading, watched: Sequence[Watched], sent: Mapping[str, Port]) -> Watcher:
    armed = {event.name: reading.new("armed", event.name) for event in watched}
    return _made(reading.ports, watched, armed, sent.values(), {})


@dataclass(frozen=True)
class _Linked:
    """The names of what the watcher has for an event that a unit may locate.

    `limit`: a unit is believed where the indicator is not above it; else what the unit assumed of others was
    wrong, and nothing happens. `told`: it has been located, and is to happen. `last`: when it happened last.
    `beyond`: above it the event is armed again. The indicator may still be a little above zero where a unit
    has seen it at zero, so that zero will not do.
    """

    port: str
    limit: str
    told: str
    last: str
    beyond: str


def linked(watcher: Watcher, events: Collection[str]) -> Watcher:
    """The watcher with an event input for each of `events`, by which a unit says that it has located it.

    What is located happens then, all of it, unless it has happened at that time already, or the indicator is
    plainly above zero.
    """
    taken = set(watcher.arguments) | {port.name for port in watcher.ports}
    links = {
        event: _Linked(
            *(free_name(f"{word}_{event}", taken) for word in ("located", "limit", "told", "last", "beyond"))
        )
        for event in events
    }
    armed = dict(zip((e.name for e in watcher.events), (v.name for v in watcher.variables), strict=False))
    own = {event.name for event in watcher.events}
    sent = [port for port in watcher.sent if port.name not in own]
    return _made(watcher.inputs, watcher.events, armed, sent, links)


def _made(
    inputs: Sequence[Port],
    watched: Sequence[Watched],
    armed: Mapping[str, str],
    sent: Iterable[Port],
    links: Mapping[str, _Linked],
) -> Watcher:
    is_true = {e.name: Apply(Op.LE, (e.indicator, _ZERO)) for e in watched}
    is_false = {e.name: Apply(Op.GT, (e.indicator, _ZERO)) for e in watched}
    for name, link in links.items():
        is_true[name] = Apply(Op.OR, (is_true[name], Name(link.told)))
    due = {e.name: Apply(Op.AND, (Name(armed[e.name]), is_true[e.name])) for e in watched}
    fires: dict[str, Expr] = {}
    for i, event in enumerate(watched):
        own = {port for port, _ in event.then}
        rivals = [due[e.name] for e in watched[:i] if not own.isdisjoint(port for port, _ in e.then)]
        alone = Apply(Op.NOT, (any_of(rivals),)) if rivals else ONE
        fires[event.name] = Apply(Op.AND, (due[event.name], alone)) if rivals else due[event.name]
    sent = tuple(sent)
    emissions = [Emission(event.name, fires[event.name], (ONE,)) for event in watched]
    for port in (port.name for port in sent):
        writers = [(fires[e.name], dict(e.then)[port]) for e in watched if port in dict(e.then)]
        cells = writers[-1][1]
        for fired, others in reversed(writers[:-1]):
            pairs = zip(others, cells, strict=True)
            cells = tuple(Apply(Op.WHERE, (fired, one, other)) for one, other in pairs)
        emissions.append(Emission(port, any_of([fired for fired, _ in writers]), cells))
    kept: list[tuple[str, Expr]] = []
    for event in watched:
        if event.name in links:
            link, fired = links[event.name], fires[event.name]
            beyond = Apply(Op.GT, (event.indicator, Name(link.beyond)))
            is_false[event.name] = Apply(Op.OR, (beyond, _turned(link, event.indicator)))
            above = Apply(Op.MAX, (event.indicator, _ZERO))
            twice = Apply(Op.ADD, (above, above))
            kept += [
                (link.told, _ZERO),
                (link.last, Apply(Op.WHERE, (fired, _TIME, Name(link.last)))),
                (link.beyond, Apply(Op.WHERE, (fired, twice, Name(link.beyond)))),
            ]
    again = [Apply(Op.AND, (Apply(Op.NOT, (Name(armed[e.name]),)), is_false[e.name])) for e in watched]
    waits = {e.name: Apply(Op.AND, (Name(armed[e.name]), Apply(Op.NOT, (fires[e.name],)))) for e in watched}
    for name in links:
        is_false[name] = Apply(Op.AND, (is_false[name], Apply(Op.NOT, (fires[name],))))
    rearmed = tuple((armed[e.name], Apply(Op.OR, (is_false[e.name], waits[e.name]))) for e in watched)
    busy = any_of([*due.values(), *again])
    happened = [Port(e.name, Causality.OUTPUT, Kind.BOOLEAN, event=True) for e in watched]
    heard = [
        Port(link.port, Causality.INPUT, Kind.BOOLEAN, event=True, internal=True) for link in links.values()
    ]
    limits = [Port(link.limit, Causality.INPUT, internal=True) for link in links.values()]
    indicators = {event.name: event.indicator for event in watched}
    told = tuple((link.told, _told(link, armed[name], indicators[name])) for name, link in links.items())
    remembered = [
        variable
        for link in links.values()
        for variable in (
            Variable(link.told, Kind.BOOLEAN, False),
            Variable(link.last, Kind.REAL, -float("inf")),
            Variable(link.beyond, Kind.REAL, 0.0),
        )
    ]
    return Watcher(
        ports=(*inputs, *limits, *heard, *happened, *sent),
        variables=(*(Variable(name, Kind.BOOLEAN, True) for name in armed.values()), *remembered),
        modes=(Mode(Apply(Op.WHERE, (busy, _TIME, _NEVER)), tuple(emissions), (*rearmed, *kept), told),),
        events=tuple(watched),
        links=tuple((name, link.port) for name, link in links.items()),
        limits=tuple((name, link.limit) for name, link in links.items()),
    )


def _turned(link: _Linked, indicator: Expr) -> Expr:
    """Whether an event that happened a little before its condition was true has changed the condition itself.

    Then it counts from what it has become: it is still to come if that is above zero, however little, and it
    happens again if that is below. A ball that a unit has seen at rest on the floor while it still went up by
    a hair is turned round, and would fall for ever, since the condition holds and has happened.
    """
    early = Apply(Op.GT, (Name(link.beyond), _ZERO))
    just = Apply(Op.EQ, (Name(link.last), _TIME))
    other = Apply(Op.NE, (Apply(Op.ADD, (indicator, indicator)), Name(link.beyond)))
    aside = Apply(Op.AND, (other, Apply(Op.NE, (indicator, _ZERO))))
    return Apply(Op.AND, (Apply(Op.AND, (early, just)), aside))


def _told(link: _Linked, armed: str, indicator: Expr) -> Expr:
    """Whether an event is to happen because it has been located: unless it just has, or plainly is none."""
    later = Apply(Op.GT, (_TIME, Name(link.last)))
    near = Apply(Op.LE, (indicator, Name(link.limit)))
    due = Apply(Op.AND, (Name(armed), Apply(Op.AND, (later, near))))
    news = Apply(Op.AND, (Name(f"{link.port}?"), due))
    return Apply(Op.OR, (Name(link.told), news))


def watchers(units: Mapping[str, Model]) -> dict[str, Watcher]:
    """The units that watch for events, by name."""
    return {name: model for name, model in units.items() if isinstance(model, Watcher)}
