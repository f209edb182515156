"""Which variable each input follows: connections through all levels of nested systems, joined.

A node is a connector, ``(path of its element, name)``; the root system has the path (). All references to a
signal dictionary share the nodes of its entries. What flows where is decided by what the connectors are: for
an element its inputs and parameters take, and its outputs give; seen from inside of a system it is the
other way round.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from upbeat.core.errors import suggest
from upbeat.scenario.ssp.findings import Findings
from upbeat.scenario.ssp.model import Component, Connection, Connector, Items, Kind, Reference, System
from upbeat.units.fmi.description import Causality, ModelDescription, UnitDefinition, Variable
from upbeat.units.fmi.description.attributes import shown

Path = tuple[str, ...]
Node = tuple[Path, str]

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

    path: Path
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
        self.leaves: dict[Path, Leaf] = {}
        self.edges: dict[Node, Edge] = {}
        self._findings = findings
        self._descriptions = descriptions
        self._systems: dict[Path, System] = {}
        self._connectors: dict[Node, Connector] = {}
        self._collect(system, ())
        for path, one in self._systems.items():
            for connection in one.connections:
                self._connect(connection, path, one)

    # ---------------------------------------------------------------- nodes

    def _collect(self, system: System, path: Path) -> None:
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

    def _node(self, end: tuple[str, str], path: Path, system: System, line: int) -> Node | None:
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
        self, reference: Reference, connector: str, path: Path, findings: Findings, line: int
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

    def _connect(self, connection: Connection, path: Path, system: System) -> None:
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

    def _gives(self, node: Node, path: Path) -> bool:
        kind = self.end(node).kind
        return kind.takes if node[0] == path else kind.gives

    def _takes(self, node: Node, path: Path) -> bool:
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
