"""What an SSP says without a meaning for a run, for an export to give back: annotations, drawings, author."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from upbeat.core.errors import UpbeatError
from upbeat.scenario.ssp.elements import GEOMETRY, local
from upbeat.scenario.ssp.findings import Findings
from upbeat.scenario.ssp.model import Component, Connection, Connector, Description, Reference, System
from upbeat.scenario.ssp.naming import identifiers
from upbeat.scenario.ssp.structure import StructureReader
from upbeat.units.fmi import xml
from upbeat.units.fmi.description.attributes import Attributes

Elements = tuple[xml.Element, ...]


@dataclass(frozen=True)
class Kept:
    """By the names of units; "" stands for the whole system. `lost` names what has no place any more."""

    description: Elements = ()
    experiment: Elements = ()
    system: Elements = ()
    about: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, Elements] = field(default_factory=dict)
    connectors: Mapping[str, Mapping[str, Elements]] = field(default_factory=dict)
    connections: tuple[tuple[frozenset[tuple[str, str]], Elements], ...] = ()
    lost: tuple[str, ...] = ()

    def connectors_of(self, unit: str) -> Mapping[str, Elements]:
        return self.connectors.get(unit, {})

    def geometry_of(self, unit: str) -> Elements:
        return tuple(one for one in self.units.get(unit, ()) if local(one) in GEOMETRY)

    def annotations_of(self, unit: str) -> Elements:
        return tuple(one for one in self.units.get(unit, ()) if local(one) not in GEOMETRY)

    def connection(self, start: str, source: str, end: str, target: str) -> Elements:
        key = frozenset({(start, source), (end, target)})
        return next((kept for ends, kept in self.connections if ends == key), ())


class _NoFiles:
    """Only the SSD itself is of interest."""

    def document(self, uri: str, findings: Findings) -> xml.Element | None:
        return None

    def inside(self, fmu: Path, uri: str, findings: Findings) -> xml.Element | None:
        return None

    def fmu(self, uri: str, at: Attributes) -> Path | None:
        return Path(uri)

    def nested(self, uri: str, at: Attributes) -> System | None:
        return None


def kept_of(ssd: Path) -> Kept:
    """What there is to keep of an SSD, whatever else may be wrong with it."""
    try:
        root = xml.read(ssd)
    except UpbeatError:
        return Kept(lost=(f"{ssd} cannot be read: its annotations are lost",))
    found = StructureReader(_NoFiles(), Findings(str(ssd))).read(root)
    return Kept() if found is None else _kept(found)


def _kept(description: Description) -> Kept:
    system = description.system
    leaves = dict(_leaves(system, ()))
    names = identifiers(leaves)
    own = identifiers([(c.name,) for c in system.connectors], names.values())
    lost = [
        f"the annotations and drawings of the system '{'.'.join(path)}' are lost: nested systems become one"
        for path, inner in _systems(system, ())
        if path and _says_more(inner)
    ]
    units = {names[path]: one.kept for path, one in leaves.items() if one.kept}
    connectors = {names[path]: _connectors(one.connectors) for path, one in leaves.items()}
    connectors[""] = {own[(c.name,)]: c.kept for c in system.connectors if c.kept}
    return Kept(
        description.kept,
        description.experiment_kept,
        system.kept,
        description.about,
        units,
        connectors,
        tuple(_connection(one, names, own) for one in system.connections if one.kept),
        tuple(lost),
    )


def _says_more(system: System) -> bool:
    inner = (*(c.kept for c in system.connectors), *(c.kept for c in system.connections))
    return bool(system.kept) or any(inner)


def _connectors(found: tuple[Connector, ...]) -> dict[str, Elements]:
    return {connector.name: connector.kept for connector in found if connector.kept}


def _connection(
    one: Connection, names: Mapping[tuple[str, ...], str], own: Mapping[tuple[str, ...], str]
) -> tuple[frozenset[tuple[str, str]], Elements]:
    def end(element: str, connector: str) -> tuple[str, str]:
        if not element:
            return "", own.get((connector,), connector)
        return names.get((element,), element), connector

    return frozenset({end(*one.start), end(*one.end)}), one.kept


def _leaves(system: System, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Component]]:
    for element in system.elements:
        if isinstance(element, Component):
            yield (*path, element.name), element
        elif not isinstance(element, Reference):
            yield from _leaves(element, (*path, element.name))


def _systems(system: System, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], System]]:
    yield path, system
    for element in system.elements:
        if isinstance(element, System):
            yield from _systems(element, (*path, element.name))
