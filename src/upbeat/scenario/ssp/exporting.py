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
from upbeat.core.errors import Problems, cannot_read
from upbeat.scenario.files.definitions import ISOLATION, isolation_table
from upbeat.scenario.files.reading import ScenarioFile
from upbeat.scenario.files.written import toml_text
from upbeat.scenario.ssp.elements import OURS
from upbeat.scenario.ssp.exported_links import Links
from upbeat.scenario.ssp.exported_ports import ExportedPorts
from upbeat.scenario.ssp.exported_units import (
    Definitions,
    connectors,
    is_new,
    parameter,
    parameter_set,
    port_variables,
)
from upbeat.scenario.ssp.keeping import Kept
from upbeat.scenario.ssp.settings import UNIT_KEYS
from upbeat.scenario.ssp.xmltext import document, element, group
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
        raise cannot_read(fmu, error) from None


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
        own = ExportedPorts(scenario, self._units, self._new, self._known, self._kept, self._problems)
        links = Links(scenario, self._units, own, self._kept, self._problems).elements(starts)
        system = element(
            "ssd:System",
            group("ssd:Connectors", own.connectors()),
            parameter_set(own.starts(), self._new),
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
