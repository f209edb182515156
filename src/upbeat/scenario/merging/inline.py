"""A nested scenario in place of the unit that it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

from upbeat.core.abilities import Model
from upbeat.core.errors import UpbeatError
from upbeat.core.expr import Expr, Name, kind_of, show, substitute
from upbeat.core.names import HIDDEN, objection_to
from upbeat.core.names import cell_names as cells_called
from upbeat.core.ports import Causality, Kind, Port
from upbeat.core.records import dataclass
from upbeat.scenario.assemble import Parts
from upbeat.scenario.connection import Connection, ScenarioOutput
from upbeat.scenario.directory import INPUTS, End, by_hand
from upbeat.scenario.events.links import EventConnection, EventOutput, Sender, both, text_of
from upbeat.scenario.inputs_unit import inputs_model
from upbeat.scenario.scenario import Origin, Scenario

# ----------------------------------------------------------------------------------------------------
# A scenario while units in it give way to what is inside them: all parts found by unit, changed in place.
#
# So each of thousands of nested scenarios costs what it touches, and not a copy of everything.

Key = TypeVar("Key", End, str)
Part = TypeVar("Part")


class IndexedParts(Generic[Key, Part]):
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


class ScenarioEditor:
    """A closed scenario, unit by unit. What people call things, and what a trace shows, is in `origin`."""

    def __init__(self, scenario: Scenario) -> None:
        self._before = scenario
        self.inputs = scenario.inputs
        self.units: dict[str, Model] = dict(scenario.units)
        self._replaced: dict[str, tuple[str, ...]] = {}
        self.connections = IndexedParts(scenario.connections, _end, _sources)
        self.outputs = IndexedParts(scenario.outputs, _name, _sources)
        self.event_connections = IndexedParts(scenario.event_connections, _end, _senders)
        self.event_outputs = IndexedParts(scenario.event_outputs, _name, _senders)
        known = scenario.origin or _first_origin(scenario)
        self.origin = replace(known, columns=dict(known.columns), paths=dict(known.paths))

    def replace_unit(self, unit: str, ports: Iterable[str], by: dict[str, Model]) -> None:
        """Put units in the place of one, which takes the connections of its `ports` with it."""
        for port in ports:
            self.connections.parts.pop((unit, port), None)
            self.event_connections.parts.pop((unit, port), None)
        del self.units[unit]
        self.units |= by
        if unit in by:  # of which one has kept the name
            before = self._replaced.get(unit, (unit,))
            k = before.index(unit)
            self._replaced[unit] = (*before[:k], *by, *before[k + 1 :])
        else:
            self._replaced[unit] = tuple(by)

    def path_of(self, unit: str) -> str:
        """What people call a unit."""
        return self.origin.paths.get(unit, unit)

    @property
    def order(self) -> Iterator[str]:
        """The units in their order, those from inside in the place of the unit that they were in."""
        waiting = [*reversed(self._before.units)]
        seen: set[str] = set()
        while waiting:
            unit = waiting.pop()
            if unit in self._replaced and unit not in seen:
                seen.add(unit)
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
            properties=self._before.properties,
            monitored=self._before.monitored,
            stage=self._before.stage,
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
    names = (output.port.name for output in scenario.outputs)
    shown |= {name: True for name in names if not name.startswith(HIDDEN)}
    return Origin(tuple(scenario.units), {}, shown=shown)


# ----------------------------------------------------------------------------------------------------
# The events of a unit that is a scenario itself, once the units inside stand in its place.


class CannotInline(UpbeatError):
    """The units inside cannot stand in the place of the whole; says why."""


@dataclass(frozen=True)
class Cells:
    """What a port comes from: an expression per cell, and the ports in them."""

    cells: tuple[Expr, ...]
    sources: tuple[End, ...]


Rewrite = Callable[[Cells], Cells]
"""Expressions over signals, from one of the two scenarios into the flat one."""


class EventInlining:
    """Senders over the border of a unit: what goes in and what comes out is put together to one."""

    def __init__(
        self,
        unit: str,
        inner: Scenario,
        given: Mapping[str, Sequence[Sender]],
        names: Mapping[str, str],
        holder: str,
        outside: Rewrite,
        inside: Rewrite,
    ) -> None:
        self._unit = unit
        self._inner = inner
        self._names = names
        self._holder = holder
        self._signals_outside = outside
        self._signals_inside = inside
        self._given = given
        self._sent = {o.port.name: o.senders for o in inner.event_outputs}
        self._under_way: list[str] = []

    def connections(self) -> Iterator[EventConnection]:
        """The event connections inside, as those of the flat scenario."""
        for connection in self._inner.event_connections:
            senders = self._all(self._inside, connection.senders)
            unit = self._names[connection.unit]
            yield replace(connection, unit=unit, senders=senders, text=text_of(senders))

    def outside_parts(self, senders: Sequence[Sender]) -> dict[str, Any]:
        """Senders of the outer scenario in the flat one, and their text; nothing if they stay the same."""
        made = self._all(self._outside, senders)
        return {} if made == tuple(senders) else {"senders": made, "text": text_of(made)}

    def outputs(self) -> Iterator[tuple[Port, tuple[Sender, ...]]]:
        """The event outputs of the unit, and where their events come from."""
        for output in self._inner.event_outputs:
            yield output.port, self._all(self._inside, output.senders)

    # ---------------------------------------------------------------- one sender

    @staticmethod
    def _all(move: Callable[[Sender], Sequence[Sender]], senders: Sequence[Sender]) -> tuple[Sender, ...]:
        return tuple(made for sender in senders for made in move(sender))

    def _outside(self, sender: Sender) -> Sequence[Sender]:
        """A sender of the outer scenario, with the unit's events as they come from inside."""
        moved = _with_signals(sender, self._signals_outside)
        unit, port = sender.source
        if unit != self._unit:
            return [moved]
        return self._through(moved, f"{unit}.{port}", lambda: self._all(self._inside, self._sent[port]))

    def _inside(self, sender: Sender) -> Sequence[Sender]:
        """A sender of the inner scenario, with its inputs as they are given outside."""
        moved = _with_signals(sender, self._signals_inside)
        unit, port = sender.source
        if unit == INPUTS and port in self._given:
            return self._through(moved, port, lambda: self._all(self._outside, self._given[port]))
        if unit == INPUTS:
            old, source, size = port, (self._holder, port), self._inner.ports[port].cells
        else:
            old, source = f"{unit}.{port}", (self._names[unit], port)
            size = self._inner.ports[old].cells
        renamed = cell_names(old, named_cells(".".join(source), size))
        return [_substituted(replace(moved, source=source), renamed)]

    def _through(self, then: Sender, name: str, before: Callable[[], Sequence[Sender]]) -> Sequence[Sender]:
        """`then` receives, by `name`, what the senders `before` it send."""
        if name in self._under_way:
            raise CannotInline(f"its event '{name}' comes back to itself through no unit inside")
        self._under_way.append(name)
        firsts = before()
        self._under_way.pop()
        units = [first.source[0] for first in firsts]
        if then.when is not None and len(set(units)) < len(units):
            # If the first one is present and the condition does not hold, none of the others counts; a flat
            # list of senders would go on to the next.
            raise CannotInline(f"'{name}' has several senders in one unit, and a condition behind them")
        made = []
        for first in firsts:
            later = _substituted(replace(then, source=first.source), cell_names(name, first.cells))
            reads = tuple(end for end in dict.fromkeys((*later.reads, *first.reads)) if end != first.source)
            made.append(replace(later, when=both(first.when, later.when), reads=reads))
        return made


def _with_signals(sender: Sender, move: Rewrite) -> Sender:
    conditions = () if sender.when is None else (sender.when,)
    moved = move(Cells((*conditions, *sender.cells), sender.reads))
    when, cells = moved.cells[0] if conditions else None, moved.cells[len(conditions) :]
    return replace(sender, when=when, cells=cells, reads=moved.sources)


def _substituted(sender: Sender, names: Mapping[str, Expr]) -> Sender:
    when = None if sender.when is None else substitute(sender.when, names)
    return replace(sender, when=when, cells=tuple(substitute(cell, names) for cell in sender.cells))


def cell_names(name: str, cells: Sequence[Expr]) -> dict[str, Expr]:
    """What the names of a port's cells stand for."""
    return dict(zip(cell_paths(name, len(cells)), cells, strict=True))


def named_cells(name: str, size: int) -> list[Expr]:
    """The cells of a port, as an expression reads them."""
    return [Name(cell) for cell in cell_paths(name, size)]


def cell_paths(name: str, size: int) -> tuple[str, ...]:
    """The names in the expressions of a scenario, where an array of one cell is like a single value."""
    return cells_called(name, None if size == 1 else size)


# ----------------------------------------------------------------------------------------------------
# A unit that is a scenario itself, replaced by the units inside: the same graph with one level less.


def inlined(scenario: Scenario, unit: str, inner: Scenario) -> tuple[Scenario, dict[str, str]]:
    """`scenario`, which is closed, with the units of `inner` instead of `unit`; and their new names.

    What a trace shows stays the same, by the names of before. Raises `CannotInline`.
    """
    work = ScenarioEditor(scenario)
    names = inline(work, unit, inner)
    return work.scenario(), names


def inline(work: ScenarioEditor, unit: str, inner: Scenario, *, keep_name: bool = False) -> dict[str, str]:
    """The same for one unit of many; where it raises `CannotInline`, nothing has changed.

    With `keep_name` the only unit inside gets the name of the one around it, by which masters know it.
    """
    return _Inlining(work, unit, inner, keep_name).done()


class _Inlining:
    def __init__(self, work: ScenarioEditor, unit: str, inner: Scenario, keep_name: bool = False) -> None:
        self._outer = work
        self._unit = unit
        self._inner = inner
        inputs = [port.name for port in inner.inputs]
        signals, links = work.connections.parts, work.event_connections.parts
        self._given = {port: signals[unit, port] for port in inputs if (unit, port) in signals}
        events = {port: links[unit, port].senders for port in inputs if (unit, port) in links}
        self._free = tuple(port for port in inner.inputs if port.name not in {*self._given, *events})
        new = {INPUTS}
        self._names = {
            name: unit if keep_name else unique_name(f"{unit}_{name}", new, work.units)
            for name in inner.units
        }
        self._holder = unique_name(f"{unit}_inputs", new, work.units) if self._free else ""
        self._made: dict[tuple[str, str], Cells] = {}
        self._under_way: set[tuple[str, str]] = set()
        self._events = EventInlining(
            unit, inner, events, self._names, self._holder, self._outside, self._inside
        )

    def done(self) -> dict[str, str]:
        outer, unit, origin = self._outer, self._unit, self._outer.origin
        outputs = [replace(o, **self._parts(self._outside(o))) for o in outer.outputs.reading(unit)]
        sent = [
            replace(o, **self._events.outside_parts(o.senders)) for o in outer.event_outputs.reading(unit)
        ]
        columns: dict[End, str] = {}
        if unit not in origin.paths:  # what was inside another one was never shown
            new: set[str] = set()
            outputs += self._stand_ins(columns, new)
            sent += self._event_stand_ins(columns, new)
        path = outer.path_of(unit)
        for name, made in self._names.items():
            for port in self._inner.units[name].ports:
                columns[made, port.name] = f"{path}.{name}.{port.name}"
        for port in self._free:
            columns[self._holder, by_hand(port.name)] = f"{path}.{port.name}"
        connections, links = list(self._connections()), list(self._links())
        # From here on nothing is refused any more.
        outer.replace_unit(unit, (port.name for port in self._inner.inputs), self._units())
        for connection in connections:
            outer.connections.put(connection)
        for output in outputs:
            outer.outputs.put(output)
        for link in links:
            outer.event_connections.put(link)
        for event in sent:
            outer.event_outputs.put(event)
        origin.columns.update(columns)
        origin.paths.update({new: f"{path}.{name}" for name, new in self._names.items()})
        origin.paths.update({self._holder: path} if self._free else {})
        return self._names

    def _stand_ins(self, columns: dict[End, str], new: set[str]) -> Iterable[ScenarioOutput]:
        """Outputs of the scenario that show what the ports of the unit were."""
        found = [(port, self._input(port.name)) for port in self._inner.inputs if not port.event]
        found += [(o.port, self._output(o.port.name)) for o in self._inner.outputs]
        for port, cells in found:
            yield ScenarioOutput(self._shown(port, columns, new), **self._parts(cells))

    def _event_stand_ins(self, columns: dict[End, str], new: set[str]) -> Iterable[EventOutput]:
        """Likewise, what its event outputs were; what arrives at a unit is not logged."""
        for port, senders in self._events.outputs():
            yield EventOutput(self._shown(port, columns, new), senders, text_of(senders))

    def _shown(self, port: Port, columns: dict[End, str], new: set[str]) -> Port:
        """A port of the unit as an output of the scenario, by a name of its own."""
        outer = self._outer
        name = unique_name(f"{self._unit}_{port.name}", new, outer.outputs.parts, outer.event_outputs.parts)
        columns["", name] = f"{self._unit}.{port.name}"
        return replace(port, name=name, causality=Causality.OUTPUT, depends=frozenset(), reactive=None)

    def _units(self) -> dict[str, Model]:
        held = {self._holder: inputs_model(self._free, {})} if self._free else {}
        return held | {new: self._inner.units[old] for old, new in self._names.items()}

    def _connections(self) -> Iterable[Connection]:
        for connection in self._outer.connections.reading(self._unit):
            if connection.unit != self._unit:
                yield replace(connection, **self._parts(self._outside(connection)))
        for connection in self._inner.connections:
            cells = self._inside(connection)
            yield replace(connection, unit=self._names[connection.unit], **self._parts(cells))

    def _links(self) -> Iterable[EventConnection]:
        for link in self._outer.event_connections.reading(self._unit):
            if link.unit != self._unit:
                yield replace(link, **self._events.outside_parts(link.senders))
        yield from self._events.connections()

    # ---------------------------------------------------------------- expressions

    def _input(self, name: str) -> Cells:
        """What an input of the unit is, over the ports of the flat scenario."""
        if name in self._given:
            port = next(port for port in self._inner.inputs if port.name == name)
            _check_kinds(self._given[name], port, self._outer, self._unit)
            return self._once(("in", name), lambda: self._outside(self._given[name]))
        port = next(port for port in self._free if port.name == name)
        return Cells(tuple(named_cells(f"{self._holder}.{name}", port.cells)), ((self._holder, name),))

    def _output(self, name: str) -> Cells:
        """What an output of the unit is, over the ports of the flat scenario."""
        output = next(output for output in self._inner.outputs if output.port.name == name)
        _check_kinds(output, output.port, self._inner, self._unit)
        return self._once(("out", name), lambda: self._inside(output))

    def _once(self, key: tuple[str, str], make: Callable[[], Cells]) -> Cells:
        if key in self._under_way:
            raise CannotInline(
                f"its output depends on its input '{key[1]}' through no unit inside, in a loop"
                if key[0] == "in"
                else f"its output '{key[1]}' depends on itself through no unit inside"
            )
        if key not in self._made:
            self._under_way.add(key)
            self._made[key] = make()
            self._under_way.remove(key)
        return self._made[key]

    def _outside(self, given: Connection | ScenarioOutput | Cells) -> Cells:
        """An expression of the outer scenario, where outputs of the unit are what they come from inside."""
        replaced: dict[str, Expr] = {}
        sources: list[End] = []
        for end in given.sources:
            if end[0] != self._unit:
                sources.append(end)
                continue
            found = self._output(end[1])
            replaced |= cell_names(f"{self._unit}.{end[1]}", found.cells)
            sources += found.sources
        return Cells(tuple(substitute(c, replaced) for c in given.cells), tuple(dict.fromkeys(sources)))

    def _inside(self, given: Connection | ScenarioOutput | Cells) -> Cells:
        """An expression of the inner scenario, where its inputs are what they are given outside."""
        replaced: dict[str, Expr] = {}
        sources: list[End] = []
        for unit, port in given.sources:
            if unit == INPUTS:
                found = self._input(port)
                replaced |= cell_names(port, found.cells)
                sources += found.sources
                continue
            new = self._names[unit]
            count = self._inner.ports[f"{unit}.{port}"].cells
            replaced |= cell_names(f"{unit}.{port}", named_cells(f"{new}.{port}", count))
            sources.append((new, port))
        return Cells(tuple(substitute(c, replaced) for c in given.cells), tuple(dict.fromkeys(sources)))

    @staticmethod
    def _parts(made: Cells) -> dict[str, Any]:
        texts = tuple(show(cell) for cell in made.cells)
        return {
            "cells": made.cells,
            "sources": made.sources,
            "text": texts if len(texts) > 1 else texts[0],
        }


def inside(model: Model) -> Scenario | None:
    """The scenario that a unit of this model is, with its events as a unit, if it is one."""
    found = getattr(model, "connected", None) or getattr(model, "scenario", None)
    return found.watched() if isinstance(found, Scenario) else None


def without_nested(scenario: Scenario) -> Scenario:
    """`scenario`, which is closed, with the units of nested ones, at all depths, in their place."""
    work = ScenarioEditor(scenario)
    waiting = list(scenario.units)
    while waiting:
        unit = waiting.pop()
        inner = inside(work.units[unit])
        if inner is None:
            continue
        if found := getattr(work.units[unit], "no_equations", ""):
            raise CannotInline(f"'{work.path_of(unit)}' cannot be merged: {found}")
        if found := getattr(work.units[unit], "unknowns", ()):
            raise CannotInline(
                f"'{work.path_of(unit)}' cannot be merged: its coupling finds {', '.join(found)} from "
                "constraints, which are not among the equations of its units"
            )
        try:
            waiting += inline(work, unit, inner).values()
        except CannotInline as error:
            raise CannotInline(f"'{work.path_of(unit)}' cannot be merged: {error}") from None
    return work.scenario()


def path_of(scenario: Scenario, unit: str) -> str:
    """What people call a unit of a flat scenario: ``car.mass`` for the ``mass`` that was inside ``car``."""
    return unit if scenario.origin is None else scenario.origin.paths.get(unit, unit)


def _check_kinds(
    given: Connection | ScenarioOutput, port: Port, scenario: Scenario | ScenarioEditor, unit: str
) -> None:
    """A port between two expressions also converts kinds: without it, they must be the same."""
    kinds: dict[str, Kind] = {}
    for source in given.sources:
        own = source[0] == INPUTS and INPUTS not in scenario.units
        known = scenario.inputs if own else scenario.units[source[0]].ports
        path = source[1] if own else ".".join(source)
        found = next(p for p in known if p.name == source[1])
        kinds |= dict.fromkeys(cell_paths(path, found.cells), found.kind)
    for cell in given.cells:
        if kind_of(cell, kinds) is not port.kind:
            raise CannotInline(f"'{unit}.{port.name}' is {port.kind.value}, and what it is given is not")


def unique_name(name: str, new: set[str], *taken: Container[str]) -> str:
    """An identifier that is free; it is one of the new ones from now on."""
    plain = re.sub(r"[\W_]+", "_", name, flags=re.ASCII)
    made, count = plain, 1
    while any(made in names for names in (new, *taken)) or objection_to(made):
        count += 1
        made = re.sub("__+", "_", f"{plain}_{count}")
    new.add(made)
    return made
