"""A scenario from an SSP: nested systems become one flat scenario of FMUs.

* The component ``a`` of the system ``Inner`` is the unit ``Inner_a`` (`upbeat.scenario.ssp.naming`).
* Inputs and outputs of the outermost system are those of the scenario.
* Connections through several systems are joined; transformations and conversions of units on the way become
  one expression.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upbeat.core.abilities import Model
from upbeat.core.errors import InvalidInput, Problems, UpbeatError
from upbeat.core.ports import Causality, Port
from upbeat.scenario.assemble import assemble
from upbeat.scenario.files.definitions import isolated
from upbeat.scenario.files.reading import ScenarioFile
from upbeat.scenario.scenario import Scenario
from upbeat.scenario.ssp.findings import Findings
from upbeat.scenario.ssp.following import Following, Signal
from upbeat.scenario.ssp.links import coded_link, link, source_port
from upbeat.scenario.ssp.model import Component, Description, System
from upbeat.scenario.ssp.naming import identifiers
from upbeat.scenario.ssp.own_ports import OwnPorts
from upbeat.scenario.ssp.package import read_package
from upbeat.scenario.ssp.parameters import Given, bound
from upbeat.scenario.ssp.settings import experiment_tables, unit_settings
from upbeat.scenario.ssp.wiring import Leaf, Node, Wiring
from upbeat.scenario.values import with_values
from upbeat.units.fmi.description import ModelDescription
from upbeat.units.fmi.description.attributes import shown
from upbeat.units.fmi.model import Fmu

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
        parts = assemble(models, connections, inputs, outputs, {}, problems)
        self._tell(problems)
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
        outputs = {port.name for port in fmu.ports if port.causality is Causality.OUTPUT}
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
            if port is None or port.causality is not Causality.INPUT:
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

    def _tell(self, problems: Problems) -> None:
        """Problems of the scenario under the lines of the SSD that caused them."""
        for problem in problems.found:
            key = problem.where[1] if len(problem.where) > 1 else ""
            file, line = self._lines.get(key, (self._description.system.file, 0))
            self._findings.within(file).error(line, ".".join(problem.where[1:]), problem.what, problem.hint)
        problems.found.clear()


def _literal(name: str) -> str:
    """A pattern for this name: itself, unless it looks like a pattern for others."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in name) if {"*", "?"} & {*name} else name
