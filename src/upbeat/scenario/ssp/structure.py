"""Reading an SSD: its system with all elements, each in the form of `upbeat.scenario.ssp.model`."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from upbeat.scenario.ssp.elements import Scope, check_children, kept, local, named, scope, settings
from upbeat.scenario.ssp.findings import Findings
from upbeat.scenario.ssp.model import Component, Description, Reference, System
from upbeat.scenario.ssp.parts import Documents, Parts
from upbeat.scenario.ssp.values import check_version
from upbeat.units.fmi.description.attributes import Attributes, shown
from upbeat.units.fmi.xml import Element

_FMU = ("application/x-fmu-sharedlibrary", "application/x-fmu-source-code")
_NESTED = ("application/x-ssp-package", "application/x-ssp-definition")
_ABOUT = ("author", "fileversion", "copyright", "license", "description")
_DEEPEST = 30
_MOST = 50_000


class Files(Documents, Protocol):
    """Where FMUs and other systems come from, too."""

    def fmu(self, uri: str, at: Attributes) -> Path | None:
        """An FMU."""

    def nested(self, uri: str, at: Attributes) -> System | None:
        """The system in another SSP or SSD."""


class StructureReader:
    """Reads one SSD."""

    def __init__(self, files: Files, findings: Findings) -> None:
        self._files = files
        self._findings = findings
        self._parts = Parts(files, findings, Scope({}, {}, "ssd:Units"))
        self._ids: dict[str, Element] = {}
        self._count = 0

    def read(self, root: Element) -> Description | None:
        """The description under this root; None if there is no system in it."""
        named(root)
        findings = self._findings
        if root.tag != "ssd:SystemStructureDescription":
            findings.error(
                root.line, "", f"expected an ssd:SystemStructureDescription, not <{shown(root.tag)}>"
            )
            return None
        version = check_version(root, findings)
        self._parts = Parts(self._files, findings, scope(root, "ssd", findings))
        known = ("System", "Enumerations", "Units", "DefaultExperiment")
        check_children(root, known, findings, "SystemStructureDescription")
        at = Attributes(root, findings, "")
        system = root.first("ssd:System")
        if system is None:
            at.error("there is no System in it")
            return None
        self._collect_ids(system)
        made = Description(
            name=at.required("name"),
            version=version,
            system=self._system(system, (), ()),
            settings=settings(root),
            kept=kept(root, findings, ""),
            about={key: text for key in _ABOUT if (text := at.text(key))},
            step=_step(root),
        )
        experiment = root.first("ssd:DefaultExperiment")
        if experiment is None:
            return made
        times = Attributes(experiment, findings, "DefaultExperiment")
        return replace(
            made,
            start=times.real("startTime"),
            stop=times.real("stopTime"),
            experiment_kept=kept(experiment, findings, "DefaultExperiment"),
        )

    def _collect_ids(self, system: Element) -> None:
        todo = [system]
        while todo:
            element = todo.pop()
            if element.tag == "ssd:System" and "id" in element.attributes:
                self._ids.setdefault(element.attributes["id"], element)
            todo += element.children

    # ---------------------------------------------------------------- systems and their elements

    def _system(self, element: Element, path: tuple[str, ...], ids: tuple[str, ...]) -> System:
        findings = self._findings
        at = Attributes(element, findings, "System")
        name = at.required("name")
        path = (*path, name)
        at.where = f"system '{shown('.'.join(path))}'"
        if len(path) > _DEEPEST:
            at.error(f"systems are nested more than {_DEEPEST} deep")
            return System(name=name)
        known = (
            "Connectors", "ParameterBindings", "Elements", "Connections", "SignalDictionaries",
            "SimulationInformation",
        )  # fmt: skip
        check_children(element, known, findings, at.where)
        elements: dict[str, Component | System | Reference] = {}
        for group in element.all("ssd:Elements"):
            for child in group.children:
                made = self._element(child, path, ids)
                if made is not None and made.name in elements:
                    findings.error(child.line, at.where, f"two elements are called '{shown(made.name)}'")
                elif made is not None:
                    elements[made.name] = made
        return System(
            name=name,
            connectors=self._parts.connectors(element, at.where),
            elements=tuple(elements.values()),
            connections=self._parts.connections(element, at.where),
            bindings=self._parts.bindings(element, None, at.where),
            dictionaries=self._parts.dictionaries(element, at.where),
            kept=kept(element, findings, at.where),
            file=findings.file,
            line=element.line,
        )

    def _element(
        self, element: Element, path: tuple[str, ...], ids: tuple[str, ...]
    ) -> Component | System | Reference | None:
        self._count += 1
        if self._count > _MOST:
            if self._count == _MOST + 1:
                self._findings.error(
                    element.line, "", f"there are more than {_MOST:,} elements in the system"
                )
            return None
        match element.tag:
            case "ssd:Component":
                return self._component(element, path, ids)
            case "ssd:System":
                return self._system(element, path, ids)
            case "ssd:SignalDictionaryReference":
                at = Attributes(element, self._findings, "SignalDictionaryReference")
                name = at.required("name")
                connectors = self._parts.connectors(element, f"reference '{shown(name)}'")
                return Reference(
                    name=name,
                    dictionary=at.required("dictionary"),
                    connectors=connectors,
                    line=element.line,
                )
        what = f"<{shown(element.tag)}> is not supported: a part of the system would be missing"
        self._findings.error(element.line, "Elements", what)
        return None

    def _component(
        self, element: Element, path: tuple[str, ...], ids: tuple[str, ...]
    ) -> Component | System | None:
        findings = self._findings
        at = Attributes(element, findings, "Component")
        name = at.required("name")
        at.where = f"component '{shown('.'.join((*path[1:], name)))}'"
        check_children(
            element, ("Connectors", "ParameterBindings", "SimulationInformation"), findings, at.where
        )
        source, kind = at.text("source") or "", at.text("type") or _FMU[0]
        if not source:
            at.error("it has no source: there is nothing that could be run")
            return None
        if (
            source.startswith("#")
            or kind in _NESTED
            or source.partition("#")[0].lower().endswith((".ssp", ".ssd"))
        ):
            inner = self._reference(source, at, path, ids)
            if inner is None:
                return None
            # As the standard has it: the system in place of the component, whose bindings come last.
            bindings = self._parts.bindings(element, None, at.where)
            return replace(inner, name=name, bindings=(*inner.bindings, *bindings))
        if kind not in _FMU:
            at.error(f"components of the type '{shown(kind)}' cannot be run, only FMUs, SSPs and SSDs")
            return None
        fmu = self._files.fmu(source, at)
        implementation = at.text("implementation") or "any"
        if implementation not in ("any", "CoSimulation", "ModelExchange"):
            at.error(f"the implementation '{shown(implementation)}' is not supported")
        if fmu is None:
            return None
        return Component(
            name=name,
            path=fmu,
            implementation=implementation,
            connectors=self._parts.connectors(element, at.where),
            bindings=self._parts.bindings(element, fmu, at.where),
            settings=settings(element),
            kept=kept(element, findings, at.where),
            file=findings.file,
            line=element.line,
        )

    def _reference(
        self, source: str, at: Attributes, path: tuple[str, ...], ids: tuple[str, ...]
    ) -> System | None:
        if not source.startswith("#"):
            return self._files.nested(source, at)
        key = source[1:]
        if key not in self._ids:
            at.error(f"there is no system with the id '{shown(key)}' in this file")
            return None
        if key in ids or len(path) > _DEEPEST:
            at.error(f"the system '{shown(key)}' contains itself")
            return None
        return self._system(self._ids[key], path, (*ids, key))


_STEPS = {"FixedStepMaster": "stepSize", "FixedStepAlgorithm": "baseStepSize"}
"""Elements of annotations that name a step (the second one is of the Open Simulation Platform), and where."""


def _step(root: Element) -> float | None:
    """A fixed step that somebody's annotation, or a draft of the standard, asks for."""
    todo, found = [root], []
    while todo:
        element = todo.pop()
        if (name := _STEPS.get(local(element))) is not None:
            found.append(element.attributes.get(name, ""))
        todo += element.children
    return next((step for step in map(_number, found) if step is not None), None)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and number > 0 else None
