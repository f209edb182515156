"""A scenario of FMUs as an SSP: the FMUs in ``resources/``, everything else in SystemStructure.ssd.

Connections become connections with a linear transformation where that is what they do; values that were
set become parameter bindings. How to run it, for which SSP has no words, goes into annotations that Upbeat
reads back. What cannot be said in SSP is refused, all of it at once.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from upbeat.core.atomic import replace_file
from upbeat.core.errors import FileProblem, Problems
from upbeat.core.expr import Expr, evaluate, names
from upbeat.core.ports import Kind, Port
from upbeat.scenario.affine import Affine as Form
from upbeat.scenario.affine import affine
from upbeat.scenario.connection import Connection, ScenarioOutput
from upbeat.scenario.definitions import ISOLATION, isolation_table
from upbeat.scenario.directory import INPUTS, End
from upbeat.scenario.files import ScenarioFile
from upbeat.scenario.ssp.elements import OURS
from upbeat.scenario.ssp.exported_units import (
    Definitions,
    connectors,
    converts,
    is_new,
    parameter,
    parameter_set,
    port_variables,
    typed,
    unit_definition,
)
from upbeat.scenario.ssp.keeping import Kept
from upbeat.scenario.ssp.settings import UNIT_KEYS
from upbeat.scenario.ssp.xmltext import document, element, group
from upbeat.scenario.written import toml_text
from upbeat.units.fmi.description import UnitDefinition, Variable, measure_of
from upbeat.units.fmi.model import Fmu
from upbeat.units.fmi.xml import Element
from upbeat.units.process import Isolated

_DATE = (1980, 1, 1, 0, 0, 0)
"""The same scenario gives the same bytes."""


def write_ssp(file: ScenarioFile, path: Path, kept: Kept | None = None) -> None:
    """Write the SSP; `kept` has the annotations and drawings of one that the scenario came from.

    Raises `ScenarioError` with everything that cannot be said in SSP.
    """
    export = _Export(file, kept or Kept())
    text = document(export.description())
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("SystemStructure.ssd", _DATE), text, zipfile.ZIP_DEFLATED)
        for name, fmu in export.resources.items():
            archive.writestr(zipfile.ZipInfo(name, _DATE), _content(fmu))
    replace_file(path, data.getvalue())


def _content(fmu: Path) -> bytes:
    try:
        if not fmu.is_dir():
            return fmu.read_bytes()
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for inner in sorted(fmu.rglob("*")):
                if inner.is_file():
                    name = inner.relative_to(fmu).as_posix()
                    archive.writestr(zipfile.ZipInfo(name, _DATE), inner.read_bytes(), zipfile.ZIP_DEFLATED)
        return packed.getvalue()
    except OSError as error:
        raise FileProblem(f"{fmu}: cannot be read: {error.strerror or error}") from None


class _Export:
    def __init__(self, file: ScenarioFile, kept: Kept) -> None:
        self._file = file
        self._scenario = file.scenario
        self._kept = kept
        self._problems = Problems()
        self._known = Definitions()
        self._units: dict[str, Fmu] = {}
        self._isolated: dict[str, dict[str, Any]] = {}
        self.resources: dict[str, Path] = {}

    def description(self) -> Element:
        scenario = self._scenario
        if scenario.added_units:
            self._refuse(("inputs",), "the scenario's inputs are driven; export the one it was made from")
        for event in scenario.events:
            self._refuse(("events", event.name), "SSP has no events between units")
        for name, model in scenario.units.items():
            if isinstance(model, Isolated) and isinstance(model.model, Fmu):
                self._units[name], self._isolated[name] = model.model, isolation_table(model)
            elif isinstance(model, Fmu):
                self._units[name] = model
            else:
                self._refuse(("units", name), f"it is a {type(model).__name__}, and SSP knows FMUs only")
        variables = [v for fmu in self._units.values() for _, v in port_variables(fmu).values()]
        self._new = is_new(variables) or any(port.size is not None for port in scenario.inputs)
        starts: dict[str, dict[str, tuple[Any, ...]]] = {
            n: dict(fmu.starts) for n, fmu in self._units.items()
        }
        links = self._connections(starts)
        system = element(
            "ssd:System",
            group("ssd:Connectors", self._own_connectors()),
            parameter_set(self._own_starts(), self._new),
            element("ssd:Elements", *(self._component(n, fmu, starts[n]) for n, fmu in self._units.items())),
            group("ssd:Connections", links),
            *self._kept.system,
            name="root",
        )
        run = self._file.run
        root = element(
            "ssd:SystemStructureDescription",
            system,
            *self._known.elements(),
            element(
                "ssd:DefaultExperiment",
                *self._kept.experiment,
                startTime=float(run.get("start", 0.0)) if "until" in run else None,
                stopTime=float(run["until"]) if "until" in run else None,
            ),
            *self._annotated(self._kept.description, self._settings()),
            version="2.0" if self._new else "1.0",
            name=scenario.name or "system",
            generationTool="Upbeat",
        )
        root.attributes |= self._kept.about
        self._problems.raise_if_any(f"{scenario.name or 'the scenario'} as an SSP")
        return root

    def _refuse(self, where: tuple[str, ...], what: str, hint: str = "") -> None:
        self._problems.add(where, what, hint)

    # ---------------------------------------------------------------- settings

    def _settings(self) -> str:
        tables = {
            "master": dict(self._file.master),
            "run": dict(self._file.run),
            "record": dict(self._file.record),
        }
        tables["run"] = {k: v for k, v in tables["run"].items() if k not in ("start", "until")}
        tables["record"].pop("out", None)  # a place on this machine
        given = {name: table for name, table in tables.items() if table}
        return toml_text(given).strip() if given else ""

    @staticmethod
    def _annotated(kept: tuple[Element, ...], text: str) -> list[Element]:
        """What is kept, with Upbeat's own annotation among the others."""
        if not text:
            return list(kept)
        inner = element("{urn:upbeat}settings", text=text)
        ours = element("ssc:Annotation", inner, type=OURS)
        others = [child for one in kept if one.tag.endswith("Annotations") for child in one.children]
        rest = [one for one in kept if not one.tag.endswith("Annotations")]
        return [*rest, element("ssd:Annotations", *others, ours)]

    # ---------------------------------------------------------------- components

    def _component(self, name: str, fmu: Fmu, starts: Mapping[str, tuple[Any, ...]]) -> Element:
        by_name = fmu.description.by_name
        entries = [parameter(key, values, by_name[key], self._new) for key, values in starts.items()]
        spec = {key: value for key, value in fmu.to_spec().items() if key in (*UNIT_KEYS, *ISOLATION)}
        spec |= self._isolated.get(name, {})
        both = fmu.description.co_simulation is not None and fmu.description.model_exchange is not None
        implementation = {"co-simulation": "CoSimulation", "model-exchange": "ModelExchange"}
        return element(
            "ssd:Component",
            connectors(fmu, self._new, self._known, self._kept.connectors_of(name)),
            *self._kept.geometry_of(name),
            parameter_set(entries, self._new),
            *self._annotated(self._kept.annotations_of(name), toml_text(spec).strip() if spec else ""),
            name=name,
            type="application/x-fmu-sharedlibrary",
            source=self._resource(fmu.path),
            implementation=implementation[fmu.interface_name] if both else None,
        )

    def _resource(self, path: Path) -> str:
        for name, other in self.resources.items():
            if other == path:
                return name
        stem = "".join(c if c.isalnum() or c in "-._" else "_" for c in path.stem) or "model"
        name, count = f"resources/{stem}.fmu", 2
        while name in self.resources:
            name, count = f"resources/{stem}_{count}.fmu", count + 1
        self.resources[name] = path
        return name

    # ---------------------------------------------------------------- the scenario's own ports

    def _own_connectors(self) -> list[Element]:
        found = []
        for port, kind in (
            *((port, "input") for port in self._scenario.inputs),
            *((output.port, "output") for output in self._scenario.outputs),
        ):
            sizes = [element("ssc:Dimension", size=port.size)] if port.size is not None else []
            kept = self._kept.connectors_of("").get(port.name, ())
            one = element("ssd:Connector", self._own_type(port), *sizes, *kept, name=port.name, kind=kind)
            one.attributes |= {"description": port.description} if port.description else {}
            found.append(one)
        return found

    def _own_type(self, port: Port) -> Element:
        match port.kind:
            case Kind.REAL:
                unit = self._known.unit(self._own_unit(port))
                return element("ssc:Float64" if self._new else "ssc:Real", unit=unit)
            case Kind.INTEGER if port.items and (variable := self._like(port)) is not None:
                made = typed(variable, self._new, self._known, None)
                assert made is not None
                return made
            case Kind.INTEGER:
                return element("ssc:Int64" if self._new else "ssc:Integer")
            case Kind.BOOLEAN:
                return element("ssc:Boolean")
        return element("ssc:String")

    def _like(self, port: Port) -> Variable | None:
        """A variable with the same labels."""
        for fmu in self._units.values():
            for other, variable in port_variables(fmu).values():
                if other.items == port.items and variable.items:
                    return variable
        return None

    def _own_unit(self, port: Port) -> UnitDefinition | None:
        """The definition of a unit that some FMU knows."""
        if port.unit is None:
            return None
        for fmu in self._units.values():
            for definition in fmu.description.units:
                if definition.base is not None and measure_of(definition) == port.unit:
                    return definition
        return None

    def _own_starts(self) -> list[Element]:
        found = []
        for port in self._scenario.inputs:
            if port.event:
                self._refuse(("inputs", port.name), "it is an event, which SSP does not know")
                continue
            kind = {Kind.REAL: "Real", Kind.INTEGER: "Integer", Kind.BOOLEAN: "Boolean"}[port.kind]
            if self._new:
                kind = {"Real": "Float64", "Integer": "Int64"}.get(kind, kind)
            texts = [str(value).lower() if isinstance(value, bool) else repr(value) for value in port.initial]
            inner = element(f"ssv:{kind}", value=" ".join(texts))
            sizes = [element("ssc:Dimension", size=port.size)] if port.size is not None else []
            found.append(element("ssv:Parameter", inner, *sizes, name=port.name))
        return found

    # ---------------------------------------------------------------- connections

    def _connections(self, starts: dict[str, dict[str, tuple[Any, ...]]]) -> list[Element]:
        found: list[Element] = []
        for connection in self._scenario.connections:
            if connection.unit not in self._units:
                continue
            form = self._form(connection, ("connections", connection.target))
            if form is None:
                continue
            source, scale, offset = form
            if source is None:
                self._constant(connection, starts)
            else:
                end = (connection.unit, connection.port)
                found.append(self._link(source, end, scale, offset, self._unit(end)))
        for output in self._scenario.outputs:
            form = self._form(output, ("outputs", output.port.name))
            if form is None:
                continue
            source, scale, offset = form
            if source is None:
                self._refuse(("outputs", output.port.name), "it is a constant, which no connection carries")
            else:
                unit = self._own_unit(output.port)
                found.append(self._link(source, (INPUTS, output.port.name), scale, offset, unit))
        for event in self._scenario.event_connections:
            first = event.senders[0]
            if len(event.senders) > 1 or first.when is not None or not isinstance(event.text, str):
                self._refuse(("connections", event.target), "it is more than an event that is passed on")
            else:
                found.append(self._link(first.source, (event.unit, event.port), 1.0, 0.0, None))
        for output_ in self._scenario.event_outputs:
            self._refuse(("outputs", output_.port.name), "it is an event, which SSP does not know")
        return found

    def _form(
        self, given: Connection | ScenarioOutput, where: tuple[str, ...]
    ) -> tuple[End | None, float, float] | None:
        """``scale · source + offset``; None, and a complaint, if it is anything else."""
        if any(unit != INPUTS and unit not in self._units for unit, _ in given.sources):
            return None  # there is a complaint about that unit already
        found = {_numbers(cell, i, len(given.cells)) for i, cell in enumerate(given.cells)}
        form = found.pop() if len(found) == 1 else None
        if form is None or len(given.sources) > 1:
            self._refuse(
                where,
                f"{given.text!r} is more than factor · source + offset, which is all that SSP can say",
                "Put the formula into an FMU.",
            )
            return None
        return (given.sources[0] if given.sources else None), *form

    def _constant(self, connection: Connection, starts: dict[str, dict[str, tuple[Any, ...]]]) -> None:
        """An input that is constant starts with that value and keeps it."""
        port, _ = port_variables(self._units[connection.unit])[connection.port]
        numbers = [evaluate(cell) for cell in connection.cells]
        values = tuple(
            bool(n) if port.kind is Kind.BOOLEAN else int(n) if port.kind is Kind.INTEGER else n
            for n in numbers
        )
        starts[connection.unit][connection.port] = values

    def _unit(self, end: End) -> UnitDefinition | None:
        """What SSP will take the unit of a port to be."""
        unit, name = end
        if unit == INPUTS:
            port = next(port for port in self._scenario.inputs if port.name == name)
            return self._own_unit(port)
        fmu = self._units[unit]
        return unit_definition(fmu, port_variables(fmu)[name][1])

    def _link(
        self, source: End, target: End, scale: float, offset: float, unit: UnitDefinition | None
    ) -> Element:
        known = converts(self._unit(source), unit, scale, offset)
        plain = scale == 1 and offset == 0
        change = None
        if known is not True and not plain:
            change = element("ssc:LinearTransformation", factor=scale, offset=offset)
        start, end = (None if unit_name == INPUTS else unit_name for unit_name, _ in (source, target))
        return element(
            "ssd:Connection",
            change,
            *self._kept.connection(start or "", source[1], end or "", target[1]),
            startElement=start,
            startConnector=source[1],
            endElement=end,
            endConnector=target[1],
            suppressUnitConversion=True if known is False else None,
        )


def _numbers(cell: Expr, index: int, count: int) -> tuple[float, float] | None:
    """Factor and offset of an expression over one name, which is the right cell of its array."""
    found = sorted(names(cell))
    if len(found) > 1 or any(count > 1 and not name.endswith(f"[{index}]") and "[" in name for name in found):
        return None
    form = affine(cell, {name: Form.unknown(name) for name in found})
    if form is None:
        return None
    scale = evaluate(form.slopes[found[0]]) if found and found[0] in form.slopes else 0.0
    return float(scale), float(evaluate(form.constant))
