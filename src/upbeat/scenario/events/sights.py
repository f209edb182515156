"""The one walk through the events that a closed scenario is watched for, and the units these look at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from upbeat.core.expr import Expr, names, substitute
from upbeat.core.names import split
from upbeat.scenario.events.functions import Conditions
from upbeat.scenario.events.watcher import Watched, watchers

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
