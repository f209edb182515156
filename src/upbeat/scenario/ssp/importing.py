"""From an SSP to a scenario: names, connectors, transformations, parameters and settings."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from upbeat.core import measure
from upbeat.core.abilities import Model
from upbeat.core.errors import (
    FileProblem,
    InvalidInput,
    ModelError,
    Problems,
    ScenarioError,
    UpbeatError,
    suggest,
)
from upbeat.core.expr import RESERVED, Apply, Expr, Name, Number, Op, names, show
from upbeat.core.ports import Causality as PortCausality
from upbeat.core.ports import Kind as PortKind
from upbeat.core.ports import Port
from upbeat.scenario.assemble import Sections, assemble, with_values
from upbeat.scenario.directory import INPUTS
from upbeat.scenario.files.definitions import ISOLATION, isolated
from upbeat.scenario.files.reading import ScenarioFile, parse
from upbeat.scenario.scenario import Scenario
from upbeat.scenario.ssp.model import (
    Binding,
    Component,
    Connection,
    Connector,
    Description,
    Findings,
    Items,
    Kind,
    Linear,
    MappingEntry,
    Parameter,
    Reference,
    System,
    Table,
    Transformation,
    Value,
)
from upbeat.scenario.ssp.model import Kind as ConnectorKind
from upbeat.scenario.ssp.reading import INTEGERS, read_package
from upbeat.units.fmi.description import (
    Causality,
    ModelDescription,
    UnitDefinition,
    Variability,
    Variable,
    measure_of,
)
from upbeat.units.fmi.description.attributes import shown
from upbeat.units.fmi.model import Fmu

# ----------------------------------------------------------------------------------------------------
# Names of units and of the scenario's own ports, made from the names that an SSP has.
#
# The component ``plant`` in the system ``Inner`` becomes the unit ``Inner_plant``: its recorded columns are
# ``Inner_plant.y`` for what the SSP calls ``Inner.plant.y``. What a name cannot have becomes an underscore.

_OTHERS = re.compile(r"[^A-Za-z0-9_]+")
_TAKEN = {INPUTS, "time", *RESERVED}


def identifiers(paths: Iterable[tuple[str, ...]], taken: Collection[str] = ()) -> dict[tuple[str, ...], str]:
    """A name of its own for each path."""
    found: dict[tuple[str, ...], str] = {}
    used = {*_TAKEN, *taken}
    for path in paths:
        name = _identifier("_".join(path))
        count, first = 2, name
        while name in used:
            name, count = f"{first}_{count}", count + 1
        used.add(name)
        found[path] = name
    return found


def _identifier(text: str) -> str:
    name = re.sub("_+", "_", _OTHERS.sub("_", text))
    if name in ("", "_"):
        return "unit"
    return f"_{name}" if name[0].isdigit() else name


# ----------------------------------------------------------------------------------------------------
# Values on their way: conversion of units, and the transformations of connections and mappings.

_ONE, _ZERO = Fraction(1), Fraction(0)


class Unfit(Exception):
    """Two units, or a value and a transformation, do not go together; the text says why."""


@dataclass(frozen=True, slots=True)
class Affine:
    """``scale · value + offset``, exactly. Raises `Unfit` where a real number cannot hold one of the two."""

    scale: Fraction = _ONE
    offset: Fraction = _ZERO

    def __post_init__(self) -> None:
        try:
            float(self.scale), float(self.offset)
        except OverflowError:
            raise Unfit("a factor or an offset is too large for a real number") from None

    def then(self, other: Affine) -> Affine:
        return Affine(other.scale * self.scale, other.scale * self.offset + other.offset)

    def __bool__(self) -> bool:
        return self.scale != 1 or self.offset != 0

    def of(self, value: float) -> float:
        """The value of one number, rounded once. Raises `Unfit` where there is none."""
        try:
            return float(self.scale * Fraction(value) + self.offset) if self else float(value)
        except (OverflowError, ValueError):
            raise Unfit(f"{value} cannot be converted to a real number") from None

    def expr(self, inner: Expr) -> Expr:
        if self.scale != 1:
            inner = Number(float(self.scale)) * inner
        return inner + Number(float(self.offset)) if self.offset else inner


Warn = Callable[[str], None]
"""Takes a warning."""


def converted(
    source: UnitDefinition | None,
    target: UnitDefinition | None,
    *,
    relative: bool = False,
    warn: Warn = lambda _: None,
) -> Affine:
    """From one unit to another; nothing to do where one of them is unknown. Raises `Unfit`.

    For a `relative` quantity, which is a difference, the zeros of the scales do not matter. Units that are
    used but not defined are converted by their names if these are known, which is worth a warning.
    """
    if source is None or target is None or source.base is None or target.base is None:
        if source is None or target is None or source.name == target.name:
            return Affine()
        return _by_name(source, target, relative, warn)
    one, other = source.base, target.base
    if dict(one.exponents) != dict(other.exponents):
        raise _unlike(source, target)
    if one == other:
        return Affine()
    if not other.factor or not one.factor:
        raise Unfit("a unit with the factor 0 converts nothing")
    to_si = Affine(_decimal(one.factor), _decimal(one.offset))
    factor = _decimal(other.factor)
    change = to_si.then(Affine(1 / factor, -_decimal(other.offset) / factor))
    return Affine(change.scale) if relative else change


def _unlike(source: UnitDefinition, target: UnitDefinition) -> Unfit:
    return Unfit(f"'{source.name}' and '{target.name}' do not measure the same thing")


def _by_name(source: UnitDefinition, target: UnitDefinition, relative: bool, warn: Warn) -> Affine:
    """What the names of units that are not defined mean."""
    one, other = measure_of(source, relative=relative), measure_of(target, relative=relative)
    try:
        found = measure.conversion(one, other)
    except measure.MeasureError:
        raise _unlike(source, target) from None
    undefined = " and ".join(f"'{unit.name}'" for unit in (source, target) if unit.base is None)
    which = f"{undefined} {'are' if ' and ' in undefined else 'is'} not defined under Units"
    if one is None or other is None:
        warn(f"{which}: values are passed from '{source.name}' to '{target.name}' as they are")
    else:
        warn(f"{which}: '{source.name}' is converted to '{target.name}' as these names usually mean")
    return Affine(_decimal(found.scale), _decimal(found.offset))


def _decimal(number: float) -> Fraction:
    """What was written: 0.001 and not the nearest number of 53 bits. So 5 mm are 0.005 m to the last bit."""
    return Fraction(repr(number))


def linear(transformation: Linear) -> Affine:
    """A linear transformation as it is."""
    return Affine(Fraction(transformation.factor), Fraction(transformation.offset))


def table_expr(table: Table, inner: Expr, source: Items, target: Items) -> Expr:
    """A choice that exchanges values; `source` and `target` are the enumerations on both sides, if any."""
    entries = dict(table.entries)
    if not table.enumeration:
        unmapped: Expr = inner
        pairs = [(_number(a), _number(b)) for a, b in entries.items()]
        if source and {value for _, value in source} <= {a for a, _ in pairs}:
            pairs = [(a, b) for a, b in pairs if a in {value for _, value in source}]
            unmapped = Number(pairs.pop()[1])
        elif all(isinstance(a, bool) for a in entries) and len(pairs) == 2:
            unmapped = Number(pairs.pop()[1])
    else:
        codes, labels = dict(target), dict(source)
        if not codes or not labels:
            raise Unfit("a mapping of labels is for enumerations on both sides")
        pairs = []
        for label, code in labels.items():
            to = str(entries.get(label, label))
            if to not in codes:
                raise Unfit(f"the label '{label}' becomes '{to}', which the target does not have")
            pairs.append((code, codes[to]))
        unmapped = Number(pairs.pop()[1])
    for a, b in reversed(pairs):
        unmapped = Apply(Op.WHERE, (Apply(Op.EQ, (inner, Number(a))), Number(b), unmapped))
    return unmapped


def _number(value: Value) -> float:
    return float(value)


def apply_to_value(
    values: tuple[Value, ...],
    source: UnitDefinition | None,
    target: UnitDefinition | None,
    transformation: Transformation,
    convert: bool,
    *,
    relative: bool = False,
    warn: Warn = lambda _: None,
) -> tuple[Value, ...]:
    """Values that are fixed before the run, converted and transformed. Raises `Unfit`."""
    change = converted(source, target, relative=relative, warn=warn) if convert else Affine()
    if isinstance(transformation, Linear):
        change = change.then(linear(transformation))
    if isinstance(transformation, Table):
        entries = {_key(a): b for a, b in transformation.entries}
        return tuple(entries.get(_key(value), value) for value in values)
    if not change:
        return values
    if any(isinstance(value, (bool, str)) for value in values):
        raise Unfit("only numbers can be converted or transformed linearly")
    return tuple(change.of(float(value)) for value in values)


def _key(value: Value) -> tuple[bool, Value]:
    """True is not 1 here."""
    return isinstance(value, bool), value


# ----------------------------------------------------------------------------------------------------
# Which variable each input follows: connections through all levels of nested systems, joined.
#
# A node is a connector, ``(path of its element, name)``; the root system has the path (). All references to
# a signal dictionary share the nodes of its entries. What flows where is decided by what the connectors
# are: for an element its inputs and parameters take, and its outputs give; seen from inside of a system it
# is the other way round.

ElementPath = tuple[str, ...]
Node = tuple[ElementPath, str]

_DICTIONARY = "\n"
"""Marks the path of a signal dictionary; no element has such a name. That of the system follows."""

_KINDS = {
    Causality.INPUT: Kind.INPUT,
    Causality.OUTPUT: Kind.OUTPUT,
    Causality.PARAMETER: Kind.PARAMETER,
    Causality.CALCULATED_PARAMETER: Kind.CALCULATED,
    Causality.STRUCTURAL_PARAMETER: Kind.STRUCTURAL,
    Causality.LOCAL: Kind.LOCAL,
    Causality.INDEPENDENT: Kind.LOCAL,
}


def called(node: Node) -> str:
    """What people call a node."""
    path, name = node
    if path[:1] == (_DICTIONARY,):
        return shown(f"{name} of the signal dictionary {path[1]}")
    return shown(".".join((*path, name)))


@dataclass(frozen=True, slots=True)
class Leaf:
    """An FMU of the system, with its description."""

    path: ElementPath
    component: Component
    description: ModelDescription

    @property
    def name(self) -> str:
        """Its hierarchical name in the SSP."""
        return ".".join(self.path)

    def unit(self, variable: Variable) -> UnitDefinition | None:
        """The unit of a variable, as the FMU defines it."""
        name = variable.properties.unit
        return None if name is None else self.defined(name)

    def defined(self, name: str) -> UnitDefinition | None:
        """The unit of this name, as the FMU defines it."""
        return next((u for u in self.description.units if u.name == name), None)


@dataclass(frozen=True, slots=True)
class Edge:
    """Where a node takes its value from, and what the connection does to it."""

    source: Node
    connection: Connection
    file: str


@dataclass(frozen=True, slots=True)
class End:
    """What is known of a node: its kind, its unit, its labels.

    `relative` says whether it is a difference, where that matters and an FMU tells: on a scale with a zero.
    """

    kind: Kind
    unit: UnitDefinition | None
    items: Items
    relative: bool | None = None


class Wiring:
    """All nodes of a system and the edges between them. Problems go to `findings`."""

    def __init__(
        self, system: System, descriptions: Mapping[int, ModelDescription], findings: Findings
    ) -> None:
        self.system = system
        self.leaves: dict[ElementPath, Leaf] = {}
        self.edges: dict[Node, Edge] = {}
        self._findings = findings
        self._descriptions = descriptions
        self._systems: dict[ElementPath, System] = {}
        self._connectors: dict[Node, Connector] = {}
        self._collect(system, ())
        for path, one in self._systems.items():
            for connection in one.connections:
                self._connect(connection, path, one)

    # ---------------------------------------------------------------- nodes

    def _collect(self, system: System, path: ElementPath) -> None:
        self._systems[path] = system
        for name, entries in system.dictionaries.items():
            for entry in entries.values():
                self._connectors[(_DICTIONARY, name, *path), entry.name] = entry
        for connector in system.connectors:
            self._connectors[path, connector.name] = connector
        for element in system.elements:
            inner = (*path, element.name)
            if isinstance(element, System):
                self._collect(element, inner)
            elif isinstance(element, Component):
                description = self._descriptions.get(id(element))
                if description is not None:
                    self.leaves[inner] = Leaf(inner, element, description)
                for connector in element.connectors:
                    self._connectors[inner, connector.name] = connector
                    if description is not None:
                        self._check_unit(self.leaves[inner], connector, system)

    def end(self, node: Node) -> End:
        """What is known of a node. For FMUs, what the SSD leaves open is what the FMU says."""
        path, name = node
        connector = self._connectors.get(node)
        leaf = self.leaves.get(path)
        variable = None if leaf is None else leaf.description.by_name.get(name)
        if leaf is None or variable is None:
            assert connector is not None, "a node is a connector"
            return End(connector.kind, connector.unit, connector.items)
        declared = None if connector is None else connector.unit
        items = tuple((item.name, item.value) for item in variable.items)
        unit = declared if declared is not None else leaf.unit(variable)
        if unit is not None and unit.base is None:
            unit = leaf.defined(unit.name) or unit
        scale = unit is not None and unit.base is not None and unit.base.offset != 0
        relative = variable.properties.relative if scale else None
        return End(_KINDS[variable.causality], unit, items, relative)

    def _node(self, end: tuple[str, str], path: ElementPath, system: System, line: int) -> Node | None:
        """The node that one end of a connection names; None, and an error, if there is none."""
        name, connector = end
        where = f"system '{shown('.'.join((self.system.name, *path)))}'"
        findings = self._findings.within(system.file)
        if not name:
            if (path, connector) in self._connectors:
                return path, connector
            known = [one.name for one in system.connectors]
            what = f"the system has no connector '{shown(connector)}'"
            findings.error(line, where, what, suggest(connector[:60], known, "connectors"))
            return None
        element = next((one for one in system.elements if one.name == name), None)
        if element is None:
            known = [one.name for one in system.elements]
            what = f"there is no element '{shown(name)}'"
            findings.error(line, where, what, suggest(name[:60], known, "elements"))
            return None
        if isinstance(element, Reference):
            return self._entry(element, connector, path, findings, line)
        node = ((*path, name), connector)
        leaf = self.leaves.get(node[0])
        if isinstance(element, Component) and leaf is None:
            return None  # the FMU has problems of its own
        if leaf is not None and connector in leaf.description.by_name:
            self._check_kind(node, leaf, findings, line)
            return node
        if leaf is None and node in self._connectors:
            return node
        known = [*(one.name for one in element.connectors)]
        owner = "the FMU" if leaf is not None else "the system"
        what = f"{owner} '{shown(name)}' has no connector '{shown(connector)}'"
        findings.error(line, where, what, suggest(connector[:60], known, "connectors"))
        return None

    def _check_kind(self, node: Node, leaf: Leaf, findings: Findings, line: int) -> None:
        declared = self._connectors.get(node)
        true = _KINDS[leaf.description.by_name[node[1]].causality]
        if declared is not None and (declared.kind.gives, declared.kind.takes) != (true.gives, true.takes):
            what = f"the connector '{shown(node[1])}' is called {declared.kind.value}, but in the FMU it is "
            findings.error(declared.line, f"component '{shown(leaf.name)}'", f"{what}{true.value}")
        if declared is None:
            what = (
                f"'{shown(node[1])}' is not among the connectors; the FMU has such a variable, which is used"
            )
            findings.warning(line, f"component '{shown(leaf.name)}'", what)

    def _check_unit(self, leaf: Leaf, declared: Connector, system: System) -> None:
        variable = leaf.description.by_name.get(declared.name)
        own = None if variable is None else leaf.unit(variable)
        if own is None or own.base is None or declared.unit is None:
            return
        said = declared.unit if declared.unit.base else leaf.defined(declared.unit.name) or declared.unit
        if said.base == own.base:
            return
        what = f"'{shown(declared.name)}' is in {shown(own.name)} for the FMU, but in {shown(said.name)} "
        findings = self._findings.within(system.file)
        findings.warning(declared.line, f"component '{shown(leaf.name)}'", f"{what}for the SSD, which counts")

    def _entry(
        self, reference: Reference, connector: str, path: ElementPath, findings: Findings, line: int
    ) -> Node | None:
        """The entry of the dictionary in the nearest system that has one of this name."""
        for depth in range(len(path), -1, -1):
            outer = path[:depth]
            if reference.dictionary in self._systems[outer].dictionaries:
                node = ((_DICTIONARY, reference.dictionary, *outer), connector)
                if node in self._connectors:
                    return node
                what = f"the signal dictionary '{shown(reference.dictionary)}' has no '{shown(connector)}'"
                findings.error(line, f"reference '{shown(reference.name)}'", what)
                return None
        what = f"there is no signal dictionary '{shown(reference.dictionary)}' here or in a system around it"
        findings.error(reference.line, f"reference '{shown(reference.name)}'", what)
        return None

    # ---------------------------------------------------------------- edges

    def _connect(self, connection: Connection, path: ElementPath, system: System) -> None:
        findings = self._findings.within(system.file)
        where = f"system '{shown('.'.join((self.system.name, *path)))}'"
        start = self._node(connection.start, path, system, connection.line)
        end = self._node(connection.end, path, system, connection.line)
        if start is None or end is None:
            return
        if connection.indexed:
            what = "connections of single cells (startIndices, endIndices) are not supported"
            findings.error(connection.line, where, what, "Connect whole arrays.")
            return
        for source, target in ((start, end), (end, start)):
            if self._gives(source, path) and self._takes(target, path):
                break
        else:
            a, b = (f"'{shown(name)}' ({self.end((p, name)).kind.value})" for p, name in (start, end))
            findings.error(
                connection.line, where, f"{a} and {b} cannot be connected: neither gives to the other"
            )
            return
        if target in self.edges:
            what = f"'{called(target)}' has two sources"
            findings.error(connection.line, where, what, "Remove one of the connections.")
            return
        self.edges[target] = Edge(source, connection, system.file)

    def _gives(self, node: Node, path: ElementPath) -> bool:
        kind = self.end(node).kind
        return kind.takes if node[0] == path else kind.gives

    def _takes(self, node: Node, path: ElementPath) -> bool:
        kind = self.end(node).kind
        return kind.gives if node[0] == path else kind.takes

    def chain(self, node: Node) -> Iterator[tuple[Node, Edge | None]]:
        """The node, what it takes its value from, and so on, each with the edge that leads on."""
        seen: set[Node] = set()
        while True:
            seen.add(node)
            edge = self.edges.get(node)
            if node[0] in self.leaves and len(seen) > 1:
                edge = None  # an FMU computes its outputs
            if edge is not None and edge.source in seen:
                what = f"'{called(node)}' follows itself through no FMU"
                self._findings.within(edge.file).error(edge.connection.line, "", what)
                edge = None
            yield node, edge
            if edge is None:
                return
            node = edge.source


# ----------------------------------------------------------------------------------------------------
# Which values the bindings of all levels give to which connectors and variables.
#
# Of several bindings of one element the later ones win, and those of an outer system win over inner ones. A
# name may mean several variables, because names of elements may have dots; then all of them get the value.

_NAMED = 5


@dataclass(frozen=True, slots=True)
class Given:
    """Values of a node, in its unit, and the place that they come from."""

    values: tuple[Value, ...]
    array: bool
    unit: UnitDefinition | None
    file: str
    line: int


def bound(wiring: Wiring, findings: Findings) -> dict[Node, Given]:
    """The values of all connectors and variables that have one."""
    found: dict[Node, Given] = {}
    _Binder(wiring, findings, found).system(wiring.system, ())
    return found


class _Binder:
    def __init__(self, wiring: Wiring, findings: Findings, found: dict[Node, Given]) -> None:
        self._wiring = wiring
        self._findings = findings
        self._found = found

    def system(self, system: System, path: ElementPath) -> None:
        for element in system.elements:
            inner = (*path, element.name)
            if isinstance(element, System):
                self.system(element, inner)
            elif isinstance(element, Component):
                for binding in element.bindings:
                    self._bind(binding, element, inner)
        for binding in system.bindings:
            self._bind(binding, system, path)

    def _bind(self, binding: Binding, element: Component | System, path: ElementPath) -> None:
        where = f"parameters of '{shown('.'.join((self._wiring.system.name, *path)))}'"
        findings = self._findings.within(binding.file)
        if isinstance(element, Component) and path not in self._wiring.leaves:
            return  # the FMU has problems of its own
        lost = []
        for name, parameter, entry in _named(binding, findings, where):
            nodes = list(self._targets(element, path, name))
            for node in nodes:
                self._give(node, parameter, entry, findings, where)
            if not nodes:
                lost.append(name)
        if lost:
            names = ", ".join(f"'{shown(name)}'" for name in lost[:_NAMED])
            more = f" and {len(lost) - _NAMED} more" if len(lost) > _NAMED else ""
            findings.warning(binding.line, where, f"nothing is called {names}{more}: such values are ignored")

    def _targets(self, element: Component | System, path: ElementPath, name: str) -> Iterator[Node]:
        if isinstance(element, Component):
            if path in self._wiring.leaves and name in self._wiring.leaves[path].description.by_name:
                yield path, name
            return
        if any(connector.name == name for connector in element.connectors):
            yield path, name
        for inner in element.elements:
            if isinstance(inner, (Component, System)) and name.startswith(f"{inner.name}."):
                yield from self._targets(inner, (*path, inner.name), name[len(inner.name) + 1 :])

    def _give(
        self, node: Node, parameter: Parameter, entry: MappingEntry | None, findings: Findings, where: str
    ) -> None:
        end = self._wiring.end(node)
        unit = parameter.unit
        if unit is not None and unit.base is None and (leaf := self._wiring.leaves.get(node[0])) is not None:
            unit = leaf.defined(unit.name) or unit
        change = None if entry is None else entry.transformation
        convert = entry is None or entry.convert
        try:
            values = apply_to_value(
                parameter.values,
                unit,
                end.unit,
                change,
                convert,
                relative=end.relative is True,
                warn=lambda what: findings.warning(
                    parameter.line, where, f"'{shown(parameter.name)}': {what}"
                ),
            )
        except Unfit as error:
            findings.error(parameter.line, where, f"'{shown(parameter.name)}': {error}")
            return
        if convert and not isinstance(change, Linear) and values != parameter.values and end.unit is not None:
            assert parameter.unit is not None
            what = f"'{shown(parameter.name)}' is converted from {parameter.unit.name} to {end.unit.name}"
            if entry is None:  # not every tool does so without a mapping
                findings.warning(parameter.line, where, what)
        self._found[node] = Given(values, parameter.array, end.unit or unit, findings.file, parameter.line)


def _named(
    binding: Binding, findings: Findings, where: str
) -> Iterator[tuple[str, Parameter, MappingEntry | None]]:
    """The values of a binding by the names that they are for, prefix and mapping applied."""
    prefixed = {f"{binding.prefix}{parameter.name}": parameter for parameter in binding.parameters}
    if binding.mapping is None:
        for name, parameter in prefixed.items():
            yield name, parameter, None
        return
    for entry in binding.mapping:
        if entry.source in prefixed:
            yield entry.target, prefixed[entry.source], entry
        else:
            what = f"the mapping names '{shown(entry.source)}', which has no value in this binding"
            findings.warning(entry.line, where, what)


# ----------------------------------------------------------------------------------------------------
# What each connector follows in the end: an expression over one signal, or a value that is known before.


@dataclass(frozen=True, slots=True)
class Signal:
    """A connector follows `source` (an output of an FMU, or an input of the whole system)."""

    source: Node
    affine: Affine
    """What happens to it in all, if there is no table on the way; `made` has everything."""
    made: Expr
    table: bool
    edge: Edge


class Following:
    """Looks up what connectors follow. `name_of` says what expressions call a source."""

    def __init__(
        self,
        wiring: Wiring,
        values: Mapping[Node, Given],
        name_of: Callable[[Node], str],
        findings: Findings,
    ) -> None:
        self._wiring = wiring
        self._values = values
        self._name_of = name_of
        self._findings = findings

    def of(self, node: Node) -> Signal | Given | None:
        """The signal or value that a connector follows; None if it has none."""
        chain = list(self._wiring.chain(node))
        last = chain[-1][0]
        signal = len(chain) > 1 and (last[0] in self._wiring.leaves or self._is_input(last))
        if signal and last[0] in self._wiring.leaves and (given := self._constant(last)):
            return self._carried(given, chain, len(chain) - 1)
        if signal:
            return self._signal(chain)
        # The outermost system that has a value for a connector on the way decides.
        known = [i for i, (one, _) in enumerate(chain) if one in self._values and i > 0]
        return self._carried(self._values[chain[known[-1]][0]], chain, known[-1]) if known else None

    def _is_input(self, node: Node) -> bool:
        kind = self._wiring.end(node).kind
        return node[0] == () and kind in (Kind.INPUT, Kind.INOUT)

    def _constant(self, node: Node) -> Given | None:
        """The value of an FMU's constant, which its description says."""
        leaf = self._wiring.leaves[node[0]]
        variable = leaf.description.by_name[node[1]]
        if variable.variability is not Variability.CONSTANT or variable.start is None:
            return None
        values = tuple(value.hex() if isinstance(value, bytes) else value for value in variable.start)
        return Given(values, bool(variable.dimensions), self._wiring.end(node).unit, "", variable.line)

    def _signal(self, chain: list[tuple[Node, Edge | None]]) -> Signal | None:
        source = chain[-1][0]
        expr: Expr = Name(self._name_of(source))
        pending, whole, table = Affine(), Affine(), False
        end = self._wiring.end(source)
        unit, items = end.unit, end.items
        edge = None
        relative = self._relative(chain)
        for node, edge in reversed(chain[:-1]):
            assert edge is not None, "all but the last have one"
            connection, target = edge.connection, self._wiring.end(node)
            try:
                if connection.convert:
                    if relative is None:
                        raise Unfit("a difference is not a temperature (relativeQuantity differs)")
                    step = converted(
                        unit, target.unit, relative=relative is True, warn=self._warner(node, edge)
                    )
                    pending, whole = pending.then(step), whole.then(step)
                unit = self._unit_after(unit, target.unit, edge)
                match connection.transformation:
                    case Linear() as change:
                        pending, whole = pending.then(linear(change)), whole.then(linear(change))
                    case Table() as change:
                        table = True
                        to = target.items or self._wiring.end(chain[0][0]).items
                        expr, pending = table_expr(change, pending.expr(expr), items, to), Affine()
            except Unfit as error:
                name = called(node)
                self._findings.within(edge.file).error(connection.line, f"connection to '{name}'", str(error))
                return None
            items = target.items or items
        assert edge is not None
        return Signal(source, whole, pending.expr(expr), table, edge)

    def _warner(self, node: Node, edge: Edge) -> Warn:
        """Where warnings about a connection go."""
        findings, line = self._findings.within(edge.file), edge.connection.line
        return lambda what: findings.warning(line, f"connection to '{called(node)}'", what)

    def _relative(self, chain: list[tuple[Node, Edge | None]]) -> bool | None:
        """Whether a difference is passed on; None if the FMUs at both ends do not agree on that."""
        # Connectors of systems cannot say so: they are what the FMUs behind them are.
        said = {self._wiring.end(node).relative for node, _ in chain} - {None}
        return None if len(said) > 1 else True in said

    @staticmethod
    def _unit_after(
        unit: UnitDefinition | None, target: UnitDefinition | None, edge: Edge
    ) -> UnitDefinition | None:
        if target is not None:
            return target
        changed = not edge.connection.convert or edge.connection.transformation is not None
        return None if changed else unit

    def _carried(self, given: Given, chain: list[tuple[Node, Edge | None]], at: int) -> Given | None:
        """A value that is known before the run, carried along the connections."""
        values, unit = given.values, given.unit
        relative = self._relative(chain[: at + 1])
        for node, edge in reversed(chain[:at]):
            assert edge is not None
            target, connection = self._wiring.end(node), edge.connection
            try:
                values = apply_to_value(
                    values,
                    unit,
                    target.unit,
                    connection.transformation,
                    connection.convert,
                    relative=relative is True,
                    warn=self._warner(node, edge),
                )
            except Unfit as error:
                name = called(node)
                self._findings.within(edge.file).error(connection.line, f"connection to '{name}'", str(error))
                return None
            unit = self._unit_after(unit, target.unit, edge)
        return Given(values, given.array, unit, given.file, given.line)


def starts_of(leaf: Leaf, name: str, change: Affine) -> tuple[float, ...] | None:
    """What a signal must start with, so that the FMU's input `name` starts with its own start value."""
    variable = leaf.description.by_name[name]
    if variable.start is None or not change.scale or variable.causality is not Causality.INPUT:
        return None
    if any(isinstance(value, (str, bytes)) for value in variable.start):
        return None
    numbers = tuple(value for value in variable.start if not isinstance(value, (str, bytes)))
    try:
        inverse = Affine(1 / change.scale, -change.offset / change.scale)
        return tuple(inverse.of(float(value)) for value in numbers) if change else numbers
    except Unfit:
        return None


# ----------------------------------------------------------------------------------------------------
# What a scenario says for a signal of an SSP: as plainly as it can be said.


def source_port(
    signal: Signal,
    units: Mapping[str, Fmu],
    units_of: Mapping[tuple[str, ...], str],
    inputs: Mapping[str, Port],
    own: Mapping[str, str],
) -> Port | None:
    """The port that a signal comes from."""
    path, name = signal.source
    if path == ():
        return inputs.get(own[name])
    return next((port for port in units[units_of[path]].ports if port.name == name), None)


def link(signal: Signal, source: Port | None, unit: str | None) -> Any:
    """What a scenario says for a signal, where the target is in `unit`."""
    before = None if source is None else source.unit
    if not signal.table:
        name = Name(_name_in(signal))
        if _same(_natural(before, unit), signal.affine):
            return show(name) if source is not None and source.event else name
    if before is None or unit is None:
        return signal.made
    return {"value": signal.made, "convert": False}


def coded_link(signal: Signal, source: Port | None, port: Port) -> tuple[Expr, str] | None:
    """An integer that goes to an enumeration, or the reverse, by its codes; and what is to be said about it.

    SSP leaves it to tools whether they connect these. None: it is another connection.
    """
    if source is None or signal.table or PortKind.INTEGER not in (source.kind, port.kind):
        return None
    if source.kind is not port.kind or bool(source.items) == bool(port.items):
        return None
    if source.items:
        return signal.made + Number(0.0), "an enumeration is connected to an integer, which gets its codes"
    first, *others = port.codes
    made: Expr = Number(float(first))
    for code in reversed(others):
        made = Apply(Op.WHERE, (Apply(Op.EQ, (signal.made, Number(float(code)))), Number(float(code)), made))
    what = "an integer is connected to an enumeration: it is taken as a code, and any other number as "
    return made, f"{what}{first} ('{port.items[0]}')"


def _name_in(signal: Signal) -> str:
    (name,) = names(signal.made)
    return name


def _natural(source: str | None, target: str | None) -> measure.Conversion | None:
    """What a plain connection would do; None if it would be refused."""
    try:
        return measure.conversion(source, target)
    except measure.MeasureError:
        return None


def _same(one: measure.Conversion | None, other: Affine) -> bool:
    if one is None:
        return False
    scale, offset = float(other.scale), float(other.offset)
    near = math.isclose(one.scale, scale, rel_tol=1e-12)
    return near and math.isclose(one.offset, offset, rel_tol=1e-12, abs_tol=1e-300)


# ----------------------------------------------------------------------------------------------------
# The connectors of the outermost system, which become the scenario's own inputs and outputs.

Names = Mapping[tuple[str, ...], str]
_TEXTS = ("String", "Binary")


class OwnPorts:
    """`names` are those in the scenario, by those of the connectors."""

    def __init__(self, system: System, taken: Collection[str]) -> None:
        fed = {c.end[1] for c in system.connections if not c.end[0]}
        fed |= {c.start[1] for c in system.connections if not c.start[0]}
        kinds = ConnectorKind
        self.inputs = [c for c in system.connectors if c.kind in (kinds.INPUT, kinds.INOUT)]
        self.outputs = [c for c in system.connectors if c.kind.gives and c.kind is not kinds.INOUT]
        self.outputs = [c for c in self.outputs if c.name in fed]
        found = identifiers([(c.name,) for c in (*self.inputs, *self.outputs)], taken)
        self.names = {path[0]: name for path, name in found.items()}

    def input_ports(
        self,
        wiring: Wiring,
        followed: Mapping[Node, Signal | Given],
        given: Mapping[Node, Given],
        units: Mapping[str, Fmu],
        names: Names,
        findings: Findings,
    ) -> dict[str, Port]:
        """The scenario's inputs. What the SSD does not say is what the FMUs behind say."""
        found: dict[str, Port] = {}
        for connector in self.inputs:
            driven = [
                (node, signal)
                for node, signal in followed.items()
                if isinstance(signal, Signal) and signal.source == ((), connector.name)
            ]
            ports = [
                port for (path, name), _ in driven for port in units[names[path]].ports if port.name == name
            ]
            where = f"connector '{shown(connector.name)}'"
            kind = _kind(connector) or (ports[0].kind if ports else PortKind.REAL)
            if kind is PortKind.STRING:
                what = "an input of the whole system cannot be a text: what it drives keeps its start value"
                findings.warning(connector.line, where, what)
                continue
            if any(port.event for port in ports):
                findings.error(connector.line, where, "an input of the whole system cannot be a clock")
                continue
            try:
                found[self.names[connector.name]] = self._input(
                    connector, kind, ports, driven, wiring, given, findings
                )
            except ModelError as error:
                findings.error(connector.line, where, str(error))
        return found

    def _input(
        self,
        connector: Connector,
        kind: PortKind,
        ports: list[Port],
        driven: list[tuple[Node, Signal]],
        wiring: Wiring,
        given: Mapping[Node, Given],
        findings: Findings,
    ) -> Port:
        where = f"connector '{shown(connector.name)}'"
        unit = None if connector.unit is None else measure_of(connector.unit)
        if connector.unit is None and ports and not any(signal.affine for _, signal in driven):
            unit = ports[0].unit
        start: Any = None
        if (value := given.get(((), connector.name))) is not None:
            start = value.values
        else:
            starts = {
                starts_of(wiring.leaves[path], name, signal.affine)
                for (path, name), signal in driven
                if not signal.table
            }
            if len(starts) > 1:
                findings.warning(connector.line, where, "the inputs that it drives start differently")
            start = next(iter(starts), None) if len(starts) == 1 else None
        size = next((port.size for port in ports), None)
        if start is not None and kind is PortKind.REAL:
            start = tuple(float(value) for value in start)
        if start is not None and size is not None and len(start) == 1:
            start = start * size
        return Port(
            self.names[connector.name],
            PortCausality.INPUT,
            kind,
            size,
            unit,
            start,
            items=ports[0].items if ports else (),
            description=connector.description,
        )

    def output_tables(
        self,
        followed: Mapping[str, Signal | Given | None],
        units: Mapping[str, Fmu],
        names: Names,
        inputs: Mapping[str, Port],
    ) -> dict[str, Any]:
        """The scenario's outputs, as tables."""
        found: dict[str, Any] = {}
        for connector in self.outputs:
            signal = followed.get(connector.name)
            name = self.names[connector.name]
            if isinstance(signal, Given):
                if all(not isinstance(value, str) for value in signal.values):
                    found[name] = list(signal.values) if signal.array else signal.values[0]
                continue
            if signal is None:
                continue
            source = source_port(signal, units, names, inputs, self.names)
            if signal.source[0] == () and source is None:
                continue
            unit = None if connector.unit is None else measure_of(connector.unit)
            if unit is None and not signal.affine and source is not None:
                unit = source.unit
            made = link(signal, source, unit)
            entry = dict(made) if isinstance(made, dict) else {"value": made}
            if unit is not None:
                entry["unit"] = unit
            if connector.description:
                entry["description"] = connector.description
            found[name] = entry
        return found


def _kind(connector: Connector) -> PortKind | None:
    match connector.type:
        case None:
            return None
        case "Boolean" | "Clock":
            return PortKind.BOOLEAN
        case "Enumeration":
            return PortKind.INTEGER
        case _ if connector.type in _TEXTS:
            return PortKind.STRING
        case _ if connector.type in INTEGERS:
            return PortKind.INTEGER
    return PortKind.REAL


# ----------------------------------------------------------------------------------------------------
# How to run a system: from Upbeat's own annotations, the default experiment, or what its FMUs suggest.

UNIT_KEYS = ("solver", "tolerance", "locals", "logging", "rollback")
"""What Upbeat knows of an FMU and SSP does not; and whether it has a process of its own (`ISOLATION`)."""
_TABLES = ("master", "run", "record")


def parsed(text: str) -> dict[str, Any]:
    """The TOML of an annotation of ours."""
    try:
        return parse(text, "the annotation")
    except (FileProblem, ScenarioError) as error:
        raise InvalidInput(f"Upbeat's own annotation cannot be read: {error}") from None


def unit_settings(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings of a unit: arguments of `Fmu`, and what is said about a process of its own."""
    table = parsed(text) if text else {}
    known = (*UNIT_KEYS, *ISOLATION)
    for key in table:
        if key not in known:
            raise InvalidInput(f"unknown setting '{key}'. {suggest(key, known, 'settings')}")
    own = {key: table.pop(key) for key in ISOLATION if key in table}
    return table, own


def experiment_tables(
    description: Description, fmus: Sequence[ModelDescription], findings: Findings
) -> dict[str, dict[str, Any]]:
    """The tables master, run and record."""
    tables: dict[str, dict[str, Any]] = {name: {} for name in _TABLES}
    try:
        own = parsed(description.settings) if description.settings else {}
    except InvalidInput as error:
        findings.error(0, "", str(error))
        return tables
    for name, table in own.items():
        if name not in _TABLES or not isinstance(table, dict):
            findings.error(0, "Annotation", f"Upbeat's own annotation has an unknown table '{name}'")
        else:
            tables[name] = table
    if "out" in tables["record"]:
        del tables["record"]["out"]
        findings.warning(
            0, "Annotation", "the file for results that it names is not used: say --out yourself"
        )
    run, master = tables["run"], tables["master"]
    if description.start is not None:
        run["start"] = description.start
    if description.stop is not None:
        run["until"] = description.stop
    stops = [one.experiment.stop for one in fmus if one.experiment.stop is not None]
    if "until" not in run and stops:
        run["until"] = max(stops)
        findings.warning(0, "", f"there is no stop time: {max(stops):g} is the longest that an FMU suggests")
    if not {"pace", "step"} & master.keys():
        steps = [one.experiment.step for one in fmus if one.experiment.step]
        if description.step is not None:
            master["step"] = description.step
        elif steps:
            master["step"] = min(steps)
    return tables


# ----------------------------------------------------------------------------------------------------
# A scenario from an SSP: nested systems become one flat scenario of FMUs.
#
# * The component ``a`` of the system ``Inner`` is the unit ``Inner_a``.
# * Inputs and outputs of the outermost system are those of the scenario.
# * Connections through several systems are joined; transformations and conversions of units on the way
#   become
#   one expression.

Place = Callable[[Path], Path]
"""Where an FMU of an SSP is to be used from: an import copies it to a place that stays."""

_INTERFACES = {"any": None, "CoSimulation": "co-simulation", "ModelExchange": "model-exchange"}


@dataclass(frozen=True)
class Imported:
    """What has become of an SSP.

    `names` has the hierarchical name in the SSP of each unit; `remarks` say what was left out or guessed.
    """

    file: ScenarioFile
    names: Mapping[str, str]
    remarks: tuple[str, ...]
    description: Description


def read_ssp(
    path: str | os.PathLike[str],
    *,
    variant: str | None = None,
    values: Mapping[str, Any] | None = None,
    place: Place | None = None,
) -> Imported:
    """The scenario in an SSP. Raises `ScenarioError` with all problems at once."""
    description, findings = read_package(path, variant)
    return _Import(description, findings, values or {}, place or (lambda fmu: fmu)).made()


class _Import:
    def __init__(
        self, description: Description, findings: Findings, values: Mapping[str, Any], place: Place
    ) -> None:
        self._description = description
        self._findings = findings
        self._values = values
        self._place = place
        self._fmus: dict[int, Fmu] = {}
        self._isolated: dict[int, dict[str, Any]] = {}
        self._lines: dict[str, tuple[str, int]] = {}

    def made(self) -> Imported:
        findings, system = self._findings, self._description.system
        self._load(system)
        descriptions: dict[int, ModelDescription] = {key: fmu.description for key, fmu in self._fmus.items()}
        wiring = Wiring(system, descriptions, findings)
        given = bound(wiring, findings)
        findings.raise_if_any()
        if not wiring.leaves:
            findings.error(system.line, "", "there is no component in the system: nothing could be run")
            findings.raise_if_any()
        names = identifiers(wiring.leaves)
        own = OwnPorts(system, names.values())
        following = Following(
            wiring,
            given,
            lambda node: f"{names[node[0]]}.{node[1]}" if node[0] else own.names[node[1]],
            findings,
        )
        followed = {
            (leaf.path, variable): found
            for leaf in wiring.leaves.values()
            for variable in leaf.description.by_name
            if (leaf.path, variable) in wiring.edges and (found := following.of((leaf.path, variable)))
        }
        shown_outside = {c.name: following.of(((), c.name)) for c in own.outputs}
        units = self._units(wiring, names, given, followed, shown_outside)
        findings.raise_if_any()
        inputs = own.input_ports(wiring, followed, given, units, names, findings)
        connections = self._connections(followed, units, names, inputs, own)
        outputs = own.output_tables(shown_outside, units, names, inputs)
        problems = Problems()
        models: dict[str, Model] = {**units}
        for path, leaf in wiring.leaves.items():
            if (said := self._isolated.get(id(leaf.component))) is not None:
                models[names[path]] = isolated(units[names[path]], said)
        parts = assemble(Sections(models, connections, inputs, outputs), problems)
        self._report(problems)
        parts = with_values(parts, self._values, problems)
        problems.raise_if_any(findings.source)
        findings.raise_if_any()
        scenario = Scenario.from_parts(parts, self._description.name)
        tables = experiment_tables(
            self._description, [fmu.description for fmu in self._fmus.values()], findings
        )
        findings.raise_if_any()
        file = ScenarioFile(scenario, tables["master"], tables["run"], tables["record"], findings.source)
        paths = {name: ".".join(path) for path, name in names.items()}
        return Imported(file, paths, tuple(findings.remarks), self._description)

    # ---------------------------------------------------------------- units

    def _load(self, system: System) -> None:
        for element in system.elements:
            if isinstance(element, System):
                self._load(element)
            elif isinstance(element, Component):
                try:
                    self._fmus[id(element)] = self._fmu(element)
                except UpbeatError as error:
                    self._complain(element, str(error))

    def _fmu(self, component: Component) -> Fmu:
        path = component.path
        if path.is_file():
            path = self._place(path)
        interface: Any = _INTERFACES[component.implementation]
        settings, isolation = unit_settings(component.settings)
        if isolation:
            self._isolated[id(component)] = isolation
        return Fmu(path, interface=interface, **settings)

    def _complain(self, component: Component, what: str) -> None:
        where = f"component '{shown(component.name)}'"
        self._findings.within(component.file).error(component.line, where, what)

    def _units(
        self,
        wiring: Wiring,
        names: Mapping[tuple[str, ...], str],
        given: Mapping[Node, Given],
        followed: Mapping[Node, Signal | Given],
        shown_outside: Mapping[str, Signal | Given | None],
    ) -> dict[str, Fmu]:
        needed: dict[tuple[str, ...], list[str]] = {}
        for found in (*followed.values(), *shown_outside.values()):
            if isinstance(found, Signal) and found.source[0] in wiring.leaves:
                needed.setdefault(found.source[0], []).append(found.source[1])
        units: dict[str, Fmu] = {}
        for path, leaf in wiring.leaves.items():
            fmu = self._with_locals(self._fmus[id(leaf.component)], needed.get(path, []))
            for name in leaf.description.by_name:
                value = followed.get((path, name), given.get((path, name)))
                if isinstance(value, Given):
                    fmu = self._with_value(fmu, leaf, name, value)
            units[names[path]] = fmu
        return units

    @staticmethod
    def _with_locals(fmu: Fmu, needed: list[str]) -> Fmu:
        """The FMU with those of its local variables as outputs that others follow."""
        outputs = {port.name for port in fmu.ports if port.causality is PortCausality.OUTPUT}
        missing = [name for name in dict.fromkeys(needed) if name not in outputs]
        if not missing:
            return fmu
        spec = fmu.to_spec()
        patterns = (*spec.pop("locals", ()), *map(_literal, missing))
        return Fmu(fmu.path, locals=patterns, **spec)

    def _with_value(self, fmu: Fmu, leaf: Leaf, name: str, given: Given) -> Fmu:
        variable = leaf.description.by_name[name]
        values = list(given.values)
        if variable.type.range is not None:  # 3.0 is as good as 3
            values = [int(v) if isinstance(v, float) and v.is_integer() else v for v in values]
        if variable.type.is_float:
            values = [float(v) if isinstance(v, int) and not isinstance(v, bool) else v for v in values]
        value: Any = values if given.array or variable.dimensions else values[0]
        try:
            return fmu.with_values({name: value})
        except InvalidInput as error:
            file = given.file or leaf.component.file
            where = f"'{shown(leaf.name)}.{shown(name)}'"
            self._findings.within(file).error(given.line, where, str(error))
            return fmu

    # ---------------------------------------------------------------- connections

    def _connections(
        self,
        followed: Mapping[Node, Signal | Given],
        units: Mapping[str, Fmu],
        names: Mapping[tuple[str, ...], str],
        inputs: Mapping[str, Port],
        own: OwnPorts,
    ) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for (path, variable), signal in followed.items():
            if not isinstance(signal, Signal):
                continue
            target = f"{names[path]}.{variable}"
            self._lines[target] = (signal.edge.file, signal.edge.connection.line)
            port = next((port for port in units[names[path]].ports if port.name == variable), None)
            if port is None or port.causality is not PortCausality.INPUT:
                what = "it is fixed before the run, but what it follows is computed during the run"
                edge = signal.edge
                self._findings.within(edge.file).error(edge.connection.line, f"'{shown(target)}'", what)
                continue
            if signal.source[0] == () and own.names[signal.source[1]] not in inputs:
                continue  # a text, which stays as it is
            source = source_port(signal, units, names, inputs, own.names)
            coded = coded_link(signal, source, port)
            if coded is not None:
                made, what = coded
                findings = self._findings.within(signal.edge.file)
                findings.warning(signal.edge.connection.line, f"connection to '{shown(target)}'", what)
                found[target] = {"value": made, "convert": False} if port.unit else made
                continue
            found[target] = link(signal, source, port.unit)
        return found

    def _report(self, problems: Problems) -> None:
        """Problems of the scenario under the lines of the SSD that caused them."""
        for problem in problems.found:
            key = problem.where[1] if len(problem.where) > 1 else ""
            file, line = self._lines.get(key, (self._description.system.file, 0))
            self._findings.within(file).error(line, ".".join(problem.where[1:]), problem.what, problem.hint)
        problems.found.clear()


def _literal(name: str) -> str:
    """A pattern for this name: itself, unless it looks like a pattern for others."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in name) if {"*", "?"} & {*name} else name
