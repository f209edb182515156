"""Units that stop at the events of the scenario by themselves, and tell whoever watches for them.

A unit that may *lead* gets, for each event that it has a part in, an event of its own with the same
conditions. What it cannot know by itself comes in as inputs, which follow their courses as all inputs do.
Where the unit stops, it says which event it has located, and that one happens: in all units, from one
snapshot, as if whoever watches had seen it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from upbeat.core.abilities import Model
from upbeat.core.expr import Expr, Name
from upbeat.core.names import split
from upbeat.core.ports import Kind, Port
from upbeat.scenario.connection import Connection
from upbeat.scenario.directory import Directory, End
from upbeat.scenario.events.connection import EventConnection, Sender
from upbeat.scenario.events.sights import sights
from upbeat.scenario.events.watcher import linked, watchers
from upbeat.scenario.scenario import Scenario
from upbeat.units.equations.changing import free_name
from upbeat.units.equations.ode import Ode
from upbeat.units.equations.stopping import tells
from upbeat.units.process import Isolated, bare

Place = tuple[str, str]
"""Of an event: the unit that watches for it, and its name there."""


@dataclass
class _Unit:
    """What a unit is to watch for, in the names of the scenario's outputs."""

    model: Ode
    events: dict[Place, tuple[Expr, ...]] = field(default_factory=dict)
    own: dict[str, Expr] = field(default_factory=dict)
    foreign: dict[str, Port] = field(default_factory=dict)
    sources: dict[str, End] = field(default_factory=dict)


def with_stops(closed: Scenario, may_lead: Callable[[str], bool]) -> Scenario:
    """The closed scenario, in which units that `may_lead` stop at the events they have a part in."""
    looking = watchers(closed.units)
    if not looking or any(watcher.heard for watcher in looking.values()):
        return closed  # there is nothing to see, or all this has been done
    units = _watching(closed, may_lead)
    models: dict[str, Model] = {}
    connections: list[Connection] = []
    senders: dict[Place, list[Sender]] = {}
    for unit, wanted in units.items():
        taken: set[str] = set()
        labels = {place: free_name(place[1], taken) for place in wanted.events}
        conditions = {labels[place]: zs for place, zs in wanted.events.items()}
        made, stops = wanted.model.stopping(conditions, wanted.own, wanted.foreign)
        given: Any = closed.units[unit]
        models[unit] = replace(given, model=made) if isinstance(given, Isolated) else made
        for name, port in stops.seen.items():
            connections.append(Connection(unit, port, (Name(name),), (wanted.sources[name],), name))
        for place, label in labels.items():
            port = stops.located[label]
            sender = Sender((unit, port), None, (Name(f"{unit}.{port}"),))
            senders.setdefault(place, []).append(sender)
    links: list[EventConnection] = []
    for unit, watcher in looking.items():
        models[unit] = told = linked(watcher, [event for owner, event in senders if owner == unit])
        for event, port in told.links:
            links.append(EventConnection(unit, port, tuple(senders[unit, event]), f"{unit}.{event}"))
    return closed.with_parts(
        units={**closed.units, **models},
        connections=(*closed.connections, *connections),
        event_connections=(*closed.event_connections, *links),
    )


def _watching(closed: Scenario, may_lead: Callable[[str], bool]) -> dict[str, _Unit]:
    found: dict[str, _Unit] = {}
    directory = Directory(closed.units, ())
    driven = _copies(closed)
    for sight in sights(closed):
        read = sight.reads
        for unit in sorted({split(each)[0] for each in read}, key=list(closed.units).index):
            model = bare(closed.units[unit])
            if type(model) is not Ode or not may_lead(unit):
                continue
            own = {each: tells(model.equations, split(each)[1]) for each in read if split(each)[0] == unit}
            if any(cell is None for cell in own.values()):
                continue
            wanted = found.setdefault(unit, _Unit(model))
            wanted.events[sight.place] = sight.conditions
            wanted.own |= {each: cell for each, cell in own.items() if cell is not None}
            for each in read:
                if each in own:
                    continue
                if (unit, each) in driven:  # it has an input for it
                    wanted.own[each] = Name(driven[unit, each])
                else:
                    source = directory.source(each)
                    wanted.foreign[each], wanted.sources[each] = source.port, source.end
    return found


def _copies(closed: Scenario) -> dict[tuple[str, str], str]:
    """The real inputs that are just an output of another unit, by unit and the name of that output."""
    found: dict[tuple[str, str], str] = {}
    for connection in closed.connections:
        model = bare(closed.units[connection.unit])
        cell, *others = connection.cells
        if type(model) is Ode and not others and isinstance(cell, Name):
            port = next(port for port in model.ports if port.name == connection.port)
            if port.kind is Kind.REAL and port.size is None:
                found.setdefault((connection.unit, cell.id), port.name)
    return found


def located(closed: Scenario) -> dict[Place, tuple[End, ...]]:
    """The event outputs by which units say that they have located an event."""
    ports = {(c.unit, c.port): c.senders for c in closed.event_connections}
    return {
        (unit, event): tuple(sender.source for sender in ports[unit, port])
        for unit, watcher in watchers(closed.units).items()
        for event, port in watcher.links
    }
