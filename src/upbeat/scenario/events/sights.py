"""The one walk through the events that a closed scenario is watched for, and the units these look at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from upbeat.core.abilities import Model
from upbeat.core.expr import Expr, Name, Number, names, substitute
from upbeat.core.names import cell_names, split
from upbeat.core.ports import Causality
from upbeat.scenario.events.functions import Conditions
from upbeat.scenario.events.watcher import Watched, watchers
from upbeat.units.discrete.front import FrontEnd
from upbeat.units.discrete.model import Discrete
from upbeat.units.process import Isolated, bare

if TYPE_CHECKING:
    from upbeat.scenario.scenario import Scenario


class Sight(NamedTuple):
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


def sights(closed: Scenario) -> Iterator[Sight]:
    """All events that somebody watches for."""
    for unit, watcher in watchers(closed.units).items():
        seen = {c.port: c.cells[0] for c in closed.connections if c.unit == unit}
        for event in watcher.events:
            then = ((output, tuple(substitute(new, seen) for new in cells)) for output, cells in event.then)
            yield Sight(unit, event, tuple(substitute(z, seen) for z in event.conditions), tuple(then))


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
        inner = discrete_of(model)
        if inner is None or not inner.awaited:
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


def discrete_of(model: Model) -> Discrete | None:
    """What a unit is as a discrete-event unit of data, if it is one that waits; a watcher has events."""
    inner: Any = bare(model)
    inner = inner.discrete if isinstance(inner, FrontEnd) else inner
    return inner if type(inner) is Discrete else None


def with_waits(closed: Scenario) -> Scenario:
    """The scenario whose discrete-event units give out what the conditions that they wait for depend on."""
    found: dict[str, Model] = {}
    for unit, model in closed.units.items():
        inner = discrete_of(model)
        if inner is not None and inner.awaited:
            made = inner.showing()
            found[unit] = replace(model, model=made) if isinstance(model, Isolated) else made
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
    functions = {unit for unit in given if isinstance(closed.units[unit], Conditions)}
    return (given - functions) | {
        source for c in closed.connections if c.unit in functions for source, _ in c.sources
    }


def looked_at(closed: Scenario) -> list[str]:
    """The units that conditions of events look at, or what these change is computed from."""
    looking = set(watchers(closed.units))
    sources = {source for c in closed.connections if c.unit in looking for source, _ in c.sources}
    seen = behind(closed, sources)
    return [unit for unit in closed.units if unit in seen and unit not in looking]
