"""A unit that is a scenario itself, replaced by the units inside: the same graph with one level less."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable
from dataclasses import replace
from typing import Any

from upbeat.core.abilities import Model
from upbeat.core.expr import Expr, kind_of, show, substitute
from upbeat.core.names import objection_to
from upbeat.core.ports import Causality, Kind, Port
from upbeat.scenario.connection import Connection, ScenarioOutput
from upbeat.scenario.directory import INPUTS, End, by_hand
from upbeat.scenario.events.connection import EventConnection, EventOutput, text_of
from upbeat.scenario.inputs_unit import inputs_model
from upbeat.scenario.merging.inline_events import (
    CannotInline,
    Cells,
    EventInlining,
    cell_names,
    cell_paths,
    named_cells,
)
from upbeat.scenario.merging.patchwork import Patchwork
from upbeat.scenario.scenario import Scenario


def inlined(scenario: Scenario, unit: str, inner: Scenario) -> tuple[Scenario, dict[str, str]]:
    """`scenario`, which is closed, with the units of `inner` instead of `unit`; and their new names.

    What a trace shows stays the same, by the names of before. Raises `CannotInline`.
    """
    work = Patchwork(scenario)
    names = inline(work, unit, inner)
    return work.scenario(), names


def inline(work: Patchwork, unit: str, inner: Scenario) -> dict[str, str]:
    """The same for one unit of many; where it raises `CannotInline`, nothing has changed."""
    return _Inlining(work, unit, inner).done()


class _Inlining:
    def __init__(self, work: Patchwork, unit: str, inner: Scenario) -> None:
        self._outer = work
        self._unit = unit
        self._inner = inner
        inputs = [port.name for port in inner.inputs]
        signals, links = work.connections.parts, work.event_connections.parts
        self._given = {port: signals[unit, port] for port in inputs if (unit, port) in signals}
        events = {port: links[unit, port].senders for port in inputs if (unit, port) in links}
        self._free = tuple(port for port in inner.inputs if port.name not in {*self._given, *events})
        new = {INPUTS}
        self._names = {name: _unique(f"{unit}_{name}", new, work.units) for name in inner.units}
        self._holder = _unique(f"{unit}_inputs", new, work.units) if self._free else ""
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
        name = _unique(f"{self._unit}_{port.name}", new, outer.outputs.parts, outer.event_outputs.parts)
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
    found = getattr(model, "scenario", None)
    return found.watched() if isinstance(found, Scenario) else None


def without_nested(scenario: Scenario) -> Scenario:
    """`scenario`, which is closed, with the units of nested ones, at all depths, in their place."""
    work = Patchwork(scenario)
    waiting = list(scenario.units)
    while waiting:
        unit = waiting.pop()
        inner = inside(work.units[unit])
        if inner is None:
            continue
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
    given: Connection | ScenarioOutput, port: Port, scenario: Scenario | Patchwork, unit: str
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


def _unique(name: str, new: set[str], *taken: Container[str]) -> str:
    """An identifier that nobody has yet; it is one of the new ones from now on."""
    plain = re.sub(r"[\W_]+", "_", name, flags=re.ASCII)
    made, count = plain, 1
    while any(made in names for names in (new, *taken)) or objection_to(made):
        count += 1
        made = re.sub("__+", "_", f"{plain}_{count}")
    new.add(made)
    return made
