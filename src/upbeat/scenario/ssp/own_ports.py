"""The connectors of the outermost system, which become the scenario's own inputs and outputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from upbeat.core.errors import ModelError
from upbeat.core.ports import Causality, Kind, Port
from upbeat.scenario.ssp.elements import INTEGERS
from upbeat.scenario.ssp.findings import Findings
from upbeat.scenario.ssp.following import Signal, starts_of
from upbeat.scenario.ssp.links import link, source_port
from upbeat.scenario.ssp.model import Connector, System
from upbeat.scenario.ssp.model import Kind as ConnectorKind
from upbeat.scenario.ssp.naming import identifiers
from upbeat.scenario.ssp.parameters import Given
from upbeat.scenario.ssp.wiring import Node, Wiring
from upbeat.units.fmi.description import measure_of
from upbeat.units.fmi.description.attributes import shown
from upbeat.units.fmi.model import Fmu

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
            kind = _kind(connector) or (ports[0].kind if ports else Kind.REAL)
            if kind is Kind.STRING:
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
        kind: Kind,
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
        if start is not None and kind is Kind.REAL:
            start = tuple(float(value) for value in start)
        if start is not None and size is not None and len(start) == 1:
            start = start * size
        return Port(
            self.names[connector.name],
            Causality.INPUT,
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


def _kind(connector: Connector) -> Kind | None:
    match connector.type:
        case None:
            return None
        case "Boolean" | "Clock":
            return Kind.BOOLEAN
        case "Enumeration":
            return Kind.INTEGER
        case _ if connector.type in _TEXTS:
            return Kind.STRING
        case _ if connector.type in INTEGERS:
            return Kind.INTEGER
    return Kind.REAL
