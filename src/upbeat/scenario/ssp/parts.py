"""Reading the parts of a system or component: connectors, connections, dictionaries, parameter bindings.

A part is written where it belongs, or in another file that it names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from upbeat.scenario.ssp.elements import Scope, kept, named, transformation
from upbeat.scenario.ssp.findings import Findings
from upbeat.scenario.ssp.model import Binding, Connection, Connector, MappingEntry, Parameter
from upbeat.scenario.ssp.values import read_connector, read_dictionary, read_mapping, read_parameters
from upbeat.units.fmi.description.attributes import Attributes, shown
from upbeat.units.fmi.xml import Element


class Documents(Protocol):
    """Where other files of an SSP come from: each given by a URI, as the SSD writes it."""

    def document(self, uri: str, findings: Findings) -> Element | None:
        """The root of another XML file. What is wrong with it goes to `findings`."""

    def inside(self, fmu: Path, uri: str, findings: Findings) -> Element | None:
        """The root of an XML file inside an FMU."""


class Parts:
    """Reads them, with the units and enumerations of `scope`."""

    def __init__(self, files: Documents, findings: Findings, scope: Scope) -> None:
        self._files = files
        self._findings = findings
        self._scope = scope

    def connectors(self, element: Element, where: str) -> tuple[Connector, ...]:
        found: dict[str, Connector] = {}
        for group in element.all("ssd:Connectors"):
            for child in group.all("ssd:Connector"):
                one = read_connector(child, self._scope, self._findings, where)
                if one.name in found:
                    self._findings.error(child.line, where, f"two connectors are called '{shown(one.name)}'")
                found[one.name] = replace(one, kept=kept(child, self._findings, where))
        return tuple(found.values())

    def connections(self, element: Element, where: str) -> tuple[Connection, ...]:
        found = []
        for group in element.all("ssd:Connections"):
            for child in group.all("ssd:Connection"):
                at = Attributes(child, self._findings, where)
                found.append(
                    Connection(
                        start=(at.text("startElement") or "", at.required("startConnector")),
                        end=(at.text("endElement") or "", at.required("endConnector")),
                        transformation=transformation(child, self._findings, where),
                        convert=not at.flag("suppressUnitConversion"),
                        indexed=at.has("startIndices") or at.has("endIndices"),
                        kept=kept(child, self._findings, where),
                        line=child.line,
                    )
                )
        return tuple(found)

    def dictionaries(self, element: Element, where: str) -> Mapping[str, Mapping[str, Connector]]:
        found: dict[str, Mapping[str, Connector]] = {}
        for group in element.all("ssd:SignalDictionaries"):
            for child in group.all("ssd:SignalDictionary"):
                at = Attributes(child, self._findings, where)
                root, findings = self._content(child, at, "ssb:SignalDictionary", None)
                found[at.required("name")] = {} if root is None else read_dictionary(root, findings)
        return found

    def bindings(self, element: Element, fmu: Path | None, where: str) -> tuple[Binding, ...]:
        found = []
        for group in element.all("ssd:ParameterBindings"):
            for child in group.all("ssd:ParameterBinding"):
                at = Attributes(child, self._findings, f"{where}: ParameterBinding")
                if (
                    at.text("type") or "application/x-ssp-parameter-set"
                ) != "application/x-ssp-parameter-set":
                    at.error(f"parameters of the type '{shown(at.text('type') or '')}' cannot be read")
                    continue
                found.append(self._binding(child, at, fmu))
        return tuple(found)

    def _binding(self, element: Element, at: Attributes, fmu: Path | None) -> Binding:
        values = element.first("ssd:ParameterValues")
        root, findings = self._content(element, at, "ssv:ParameterSet", fmu, values)
        outer = None if element.attributes.get("source") else self._scope
        parameters: tuple[Parameter, ...] = () if root is None else read_parameters(root, findings, outer)
        mapping: tuple[MappingEntry, ...] | None = None
        inner = element.first("ssd:ParameterMapping")
        if inner is not None:
            place = Attributes(inner, self._findings, at.where)
            target, other = self._content(inner, place, "ssm:ParameterMapping", fmu)
            mapping = () if target is None else read_mapping(target, other)
        return Binding(parameters, mapping, at.text("prefix") or "", findings.file, element.line)

    def _content(
        self, element: Element, at: Attributes, tag: str, fmu: Path | None, inline: Element | None = None
    ) -> tuple[Element | None, Findings]:
        """What `source` names, or what is written inline; and where to complain about it."""
        source = at.text("source")
        if not source:
            found = (element if inline is None else inline).first(tag)
            if found is None:
                at.error(f"it has neither a source nor a <{tag}> of its own")
            return found, self._findings
        findings = self._findings.within(source)
        if at.text("sourceBase") != "component":
            return self._named(self._files.document(source, findings)), findings
        if fmu is None:
            at.error("sourceBase='component' is for components that are FMUs")
            return None, findings
        return self._named(self._files.inside(fmu, source, findings)), findings

    @staticmethod
    def _named(root: Element | None) -> Element | None:
        return None if root is None else named(root)
