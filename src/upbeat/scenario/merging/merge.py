"""The equations of all units of a scenario in one model: names made unique, inputs made definitions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from upbeat.core.expr import (
    ZERO,
    Apply,
    Expr,
    Lookup,
    Name,
    Number,
    Op,
    Table1,
    Table2,
    fold,
    show,
    substitute,
)
from upbeat.core.expr.nodes import Inner, Leaf, with_args
from upbeat.core.names import cell_names
from upbeat.core.ports import Kind, Port
from upbeat.scenario.directory import End
from upbeat.scenario.merging.merge_events import Happening
from upbeat.units.equations.data import Equations, variable_spec
from upbeat.units.equations.events import EquationEvent
from upbeat.units.shorthand import port_spec

_FORBIDDEN = re.compile(r"[^A-Za-z0-9]+")
_DROPPED = ("value", "start", "size", "reactive", "derivative")
"""What a port as an output of the merged model does not say itself, or no longer needs to."""


class Names:
    """Names that are all different: ``left.x`` becomes ``left_x``, or ``left_x_2`` if that is taken."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def new(self, *parts: str) -> str:
        wanted = _FORBIDDEN.sub("_", "_".join(parts))
        name, count = wanted, 1
        while name in self._taken:
            count += 1
            name = f"{wanted}_{count}"
        self._taken.add(name)
        return name


@dataclass(slots=True)
class Merged:
    """The sections of the merged model, while they are filled.

    * `definitions`: of every local by name, one expression per cell. Connected inputs and outputs that
      are computed are among them, so that nothing is written out twice.
    * `sizes`: of the locals, None for a single value.
    * `reads`: what a name in a connection of the scenario stands for.
    * `ports`: the port behind a cell that is an input or an output, and what people call it.
    * `tunable`: the unit and the port that a parameter was; `values`: of the parameters, by cell.
    * `tears`: the cells of connected inputs, at which loops can be cut.
    * `sources`: the output (or input) of the merged model that stands for an original port.
    * `paths`: what people call a unit, where that is not its name.
    """

    names: Names = field(default_factory=Names)
    states: dict[str, Any] = field(default_factory=dict)
    inputs: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, Any] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)
    tunable: dict[str, End] = field(default_factory=dict)
    variables: dict[str, Any] = field(default_factory=dict)
    events: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, Table1 | Table2] = field(default_factory=dict)
    definitions: dict[str, tuple[Expr, ...]] = field(default_factory=dict)
    sizes: dict[str, int | None] = field(default_factory=dict)
    reads: dict[str, Expr] = field(default_factory=dict)
    ports: dict[str, tuple[str, Port]] = field(default_factory=dict)
    values: dict[str, Expr] = field(default_factory=dict)
    tears: list[str] = field(default_factory=list)
    sources: dict[End, str] = field(default_factory=dict)
    paths: Mapping[str, str] = field(default_factory=dict)

    @property
    def locals(self) -> dict[str, Any]:
        """The section of locals, as text."""
        return {
            name: [show(cell) for cell in cells] if self.sizes[name] is not None else show(cells[0])
            for name, cells in self.definitions.items()
        }

    def called(self, unit: str) -> str:
        """What people call a unit."""
        return self.paths.get(unit, unit)

    def define(self, name: str, size: int | None, cells: Iterable[Expr]) -> None:
        self.definitions[name], self.sizes[name] = tuple(cells), size


def merged(
    units: Mapping[str, Equations],
    connections: Mapping[End, Sequence[Expr]],
    paths: Mapping[str, str] | None = None,
    happenings: Iterable[Happening] = (),
) -> Merged:
    """All equations in one model; loops among its definitions are still in it.

    `paths`: what people call a unit, where that is not its name. `happenings`: events between the units.
    """
    made = Merged(paths=paths or {})
    scopes = {unit: _declared(made, unit, equations, connections) for unit, equations in units.items()}
    for unit, equations in units.items():
        _defined(made, unit, equations, scopes[unit])
    for unit, equations in units.items():
        for port in equations.inputs:
            if (unit, port.name) in connections:
                name = scopes[unit].variables[port.name]
                cells = connections[unit, port.name]
                made.define(name, port.size, (substitute(cell, made.reads) for cell in cells))
                made.outputs[name] = _output(port, name)
                made.sources[unit, port.name] = name
    for happening in happenings:
        _between(made, happening, scopes)
    return made


@dataclass(slots=True)
class _Scope:
    """What the names and tables of one unit are called in the merged model."""

    variables: dict[str, str] = field(default_factory=dict)
    cells: dict[str, Expr] = field(default_factory=dict)
    tables: dict[str, str] = field(default_factory=dict)

    def declare(self, name: str, new: str, size: int | None) -> None:
        self.variables[name] = new
        pairs = zip(cell_names(name, size), cell_names(new, size), strict=True)
        self.cells.update((old, Name(cell)) for old, cell in pairs)

    def read(self, exprs: Iterable[Expr]) -> list[Expr]:
        """The expressions in the names of the merged model."""

        def leaf(node: Leaf) -> Expr:
            return self.cells.get(node.id, node) if isinstance(node, Name) else node

        def inner(node: Inner, args: list[Expr]) -> Expr:
            if isinstance(node, Lookup):
                table = replace(node.table, name=self.tables[node.table.name])
                return Lookup(table, tuple(args))
            return with_args(node, args)

        return [fold(expr, leaf, inner) for expr in exprs]


def _declared(
    made: Merged, unit: str, equations: Equations, connections: Mapping[End, Sequence[Expr]]
) -> _Scope:
    scope = _Scope()
    for state in equations.states:
        scope.declare(state.port.name, made.names.new(unit, state.port.name), state.port.size)
    for local in equations.locals:
        scope.declare(local.name, made.names.new(unit, local.name), local.size)
    for port in equations.parameters:
        name = made.names.new(unit, port.name)
        scope.declare(port.name, name, port.size)
        made.parameters[name] = port_spec(port)
        made.tunable[name] = unit, port.name
        numbers = (Number(float(value)) for value in port.initial)
        made.values.update(zip(cell_names(name, port.size), numbers, strict=True))
    for port in equations.variables:
        name = made.names.new(unit, port.name)
        scope.declare(port.name, name, port.size)
        made.variables[name] = variable_spec(port)
    for port in equations.inputs:
        name = made.names.new(unit, port.name)
        scope.declare(port.name, name, port.size)
        if (unit, port.name) not in connections:
            made.inputs[name] = port_spec(port)
            made.sources[unit, port.name] = name
            continue
        for i, cell in enumerate(cell_names(name, port.size)):
            index = "" if port.size is None else f"[{i}]"
            made.ports[cell] = (f"{made.called(unit)}.{port.name}{index}", port)
            made.tears.append(cell)
    for key, table in equations.tables:
        name = made.names.new(unit, key)
        scope.tables[key] = name
        # an expression names a slope after the table it is the slope of
        made.tables[name] = replace(table, mode="linear") if table.mode.startswith("slope") else table
    return scope


def _happening(event: EquationEvent, scope: _Scope) -> dict[str, Any]:
    """An event in the names of the merged model."""
    assert event.indicator is not None  # those that wait for events have been refused
    then = _assigned((scope.cells[cell], scope.read([value])[0]) for cell, value in event.then)
    return {"when": [show(z) for z in scope.read([event.indicator])], "then": then}


def _between(made: Merged, happening: Happening, scopes: Mapping[str, _Scope]) -> None:
    """An event between units as one of the merged model, which says so if it is to be logged."""
    unit, port = happening.end
    name = made.names.new(unit, port)
    when = [show(substitute(z, made.reads)) for z in happening.conditions]
    then = ((scopes[u].cells[cell], substitute(new, made.reads)) for u, cell, new in happening.then)
    entry: dict[str, Any] = {"when": when, "then": _assigned(then)}
    if happening.logged:
        sent = made.names.new(unit, port, "happens")
        made.outputs[sent] = {"event": True}
        made.sources[happening.end] = sent
        entry["emit"] = {sent: True}
    made.events[name] = entry


def _assigned(pairs: Iterable[tuple[Expr, Expr]]) -> dict[str, Any]:
    """New values as they are written: of an array, a list of them."""
    then: dict[str, Any] = {}
    for target, value in pairs:
        assert isinstance(target, Name)
        name, bracket, _ = target.id.partition("[")
        if bracket:
            then.setdefault(name, []).append(show(value))
        else:
            then[name] = show(value)
    return then


def _defined(made: Merged, unit: str, equations: Equations, scope: _Scope) -> None:
    for event in equations.events:
        made.events[made.names.new(unit, event.name)] = _happening(event, scope)
    for state in equations.states:
        port, cells = state.port, scope.read(state.derivative.cells)
        entry = {"der": [show(cell) for cell in cells] if port.size is not None else show(cells[0])}
        given = {"start": port.initial if port.size is not None else port.initial[0]}
        given |= {"unit": port.unit} if port.unit is not None else {}
        given |= {"description": port.description} if port.description else {}
        made.states[scope.variables[port.name]] = entry | given
    for local in equations.locals:
        made.define(scope.variables[local.name], local.size, scope.read(local.cells))
    for output in equations.outputs:
        port = output.port
        cells = [_delivered(cell, port.kind) for cell in scope.read(output.definition.cells)]
        same = scope.variables.get(port.name, "")
        if cells != [Name(cell) for cell in cell_names(same, port.size)]:
            same = made.names.new(unit, port.name)
            made.define(same, port.size, cells)
        made.outputs[same] = _output(port, same)
        made.sources[unit, port.name] = same
        own = cell_names(same, port.size)
        for i, cell in enumerate(own):
            made.reads[f"{unit}.{port.name}[{i}]"] = Name(cell)
            made.ports[cell] = (
                f"{made.called(unit)}.{port.name}" + ("" if port.size is None else f"[{i}]"),
                port,
            )
        made.reads[f"{unit}.{port.name}"] = Name(own[0])


def _delivered(cell: Expr, kind: Kind) -> Expr:
    """What a unit hands over: whole numbers are rounded to, and all but zero is true."""
    match kind:
        case Kind.INTEGER:
            return Apply(Op.ROUND, (cell,))
        case Kind.BOOLEAN:
            return Apply(Op.NE, (cell, ZERO))
    return cell


def _output(port: Port, value: str) -> dict[str, Any]:
    spec = port_spec(port)
    entry = {key: v for key, v in spec.items() if key not in _DROPPED} if isinstance(spec, dict) else {}
    entry |= {} if port.items else {"kind": port.kind.value}
    return {**entry, "value": value}
