"""A scenario while units in it give way to what is inside them: all parts found by unit, changed in place.

So each of thousands of nested scenarios costs what it touches, and not a copy of everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Generic, TypeVar

from upbeat.core.abilities import Model
from upbeat.core.ports import Causality
from upbeat.scenario.assemble import Parts
from upbeat.scenario.connection import Connection, ScenarioOutput
from upbeat.scenario.directory import End
from upbeat.scenario.events.connection import EventConnection, EventOutput, Sender
from upbeat.scenario.origin import Origin
from upbeat.scenario.scenario import Scenario

Key = TypeVar("Key", End, str)
Part = TypeVar("Part")


class Shelf(Generic[Key, Part]):
    """Parts of one sort in their order, found by key and by the units that they read."""

    def __init__(
        self, parts: Iterable[Part], key: Callable[[Part], Key], reads: Callable[[Part], Iterable[str]]
    ) -> None:
        self.parts: dict[Key, Part] = {}
        self._key: Callable[[Part], Key] = key
        self._reads = reads
        self._readers: dict[str, dict[Key, None]] = {}
        for part in parts:
            self.put(part)

    def put(self, part: Part) -> None:
        """Add a part, or put it in the place of the one with the same key."""
        key = self._key(part)
        self.parts[key] = part
        for unit in self._reads(part):
            self._readers.setdefault(unit, {})[key] = None

    def reading(self, unit: str) -> list[Part]:
        """The parts that read something of a unit."""
        return [self.parts[key] for key in self._readers.get(unit, ()) if key in self.parts]


class Patchwork:
    """A closed scenario, unit by unit. What people call things, and what a trace shows, is in `origin`."""

    def __init__(self, scenario: Scenario) -> None:
        self._before = scenario
        self.inputs = scenario.inputs
        self.units: dict[str, Model] = dict(scenario.units)
        self._replaced: dict[str, tuple[str, ...]] = {}
        self.connections = Shelf(scenario.connections, _end, _sources)
        self.outputs = Shelf(scenario.outputs, _name, _sources)
        self.event_connections = Shelf(scenario.event_connections, _end, _senders)
        self.event_outputs = Shelf(scenario.event_outputs, _name, _senders)
        known = scenario.origin or _first_origin(scenario)
        self.origin = replace(known, columns=dict(known.columns), paths=dict(known.paths))

    def replace_unit(self, unit: str, ports: Iterable[str], by: dict[str, Model]) -> None:
        """Put units in the place of one, which takes the connections of its `ports` with it."""
        for port in ports:
            self.connections.parts.pop((unit, port), None)
            self.event_connections.parts.pop((unit, port), None)
        del self.units[unit]
        self.units |= by
        self._replaced[unit] = tuple(by)

    def path_of(self, unit: str) -> str:
        """What people call a unit."""
        return self.origin.paths.get(unit, unit)

    @property
    def order(self) -> Iterator[str]:
        """The units in their order, those from inside in the place of the unit that they were in."""
        waiting = [*reversed(self._before.units)]
        while waiting:
            unit = waiting.pop()
            if unit in self._replaced:
                waiting += reversed(self._replaced[unit])
            else:
                yield unit

    def scenario(self) -> Scenario:
        """The scenario as it is now."""
        if not self._replaced:
            return self._before
        parts = Parts(
            {unit: self.units[unit] for unit in self.order},
            tuple(self.connections.parts.values()),
            self.inputs,
            tuple(self.outputs.parts.values()),
            tuple(self.event_connections.parts.values()),
            tuple(self.event_outputs.parts.values()),
        )
        return Scenario.from_parts(parts, self._before.name, self._before.opened_inputs, self.origin)


def _end(part: Connection | EventConnection) -> End:
    return part.unit, part.port


def _name(part: ScenarioOutput | EventOutput) -> str:
    return part.port.name


def _sources(part: Connection | ScenarioOutput) -> Iterator[str]:
    return (unit for unit, _ in part.sources)


def _senders(part: EventConnection | EventOutput) -> Iterator[str]:
    return (unit for sender in part.senders for unit in _read_by(sender))


def _read_by(sender: Sender) -> Iterator[str]:
    yield sender.source[0]
    yield from (unit for unit, _ in sender.reads)


def _first_origin(scenario: Scenario) -> Origin:
    """What a trace shows of a scenario in which nothing has been replaced yet."""
    ports = [
        (unit, port)
        for unit, model in scenario.units.items()
        for port in model.ports
        if not port.event and not port.internal
    ]
    shown = {scenario.column(u, p.name): True for u, p in ports if p.causality is Causality.OUTPUT}
    driven = [(c.unit, c.port) for c in scenario.connections if not scenario.port(c.target).internal]
    free = [(u, p.name) for u, p in ports if p.causality is Causality.INPUT]
    for end in (*driven, *free):  # in the order in which a trace has them
        shown.setdefault(scenario.column(*end), False)
    shown |= {output.port.name: True for output in scenario.outputs}
    return Origin(tuple(scenario.units), {}, shown=shown)
