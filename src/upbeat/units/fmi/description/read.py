"""modelDescription.xml of FMI 2.0 and 3.0, read into one form."""

from __future__ import annotations

import re
from pathlib import Path

from upbeat.core.errors import ModelError
from upbeat.units.fmi import xml
from upbeat.units.fmi.description.attributes import Attributes
from upbeat.units.fmi.description.findings import Findings, shown
from upbeat.units.fmi.description.interfaces import (
    read_co_simulation,
    read_model_exchange,
    read_scheduled_execution,
)
from upbeat.units.fmi.description.model import DefaultExperiment, ModelDescription, Structure
from upbeat.units.fmi.description.references import References
from upbeat.units.fmi.description.structure import read_structure
from upbeat.units.fmi.description.types import read_types
from upbeat.units.fmi.description.units import read_units
from upbeat.units.fmi.description.variables import VariableReader

NAME = "modelDescription.xml"

_VERSION = re.compile(r"([23])\.(\d{1,3})(?:[.-].*)?")


def read_description(folder: Path) -> ModelDescription:
    """The description in an unpacked FMU. `FileProblem` if it is not XML, `ModelError` if it is wrong."""
    return understand(xml.read(folder / NAME), NAME)


def parse_description(data: bytes, source: str = NAME) -> ModelDescription:
    """The same from bytes; messages speak of them as `source`."""
    return understand(xml.parse(data, source), source)


def understand(root: xml.Element, source: str) -> ModelDescription:
    """The description under the element `root`; all that is wrong is reported at once."""
    findings = Findings(source)
    version, written = _version(root, source, findings)
    at = Attributes(root, findings, "")
    name = at.text("modelName")
    if name is None:
        at.warning("the attribute 'modelName' is missing")
    token = at.required("guid" if version == 2 else "instantiationToken")
    co_simulation = read_co_simulation(root, version, findings)
    model_exchange = read_model_exchange(root, version, findings)
    scheduled = read_scheduled_execution(root, version, findings)
    if not (co_simulation or model_exchange or scheduled):
        at.error("there is neither CoSimulation nor ModelExchange: the FMU cannot be run in any way")
    units = read_units(root, findings)
    types = read_types(root, version, findings)
    if root.first("ModelVariables") is None:
        at.warning("ModelVariables is missing")
    references = References(root, version, findings)
    variables = VariableReader(version, types, units, references, findings).read(root)
    structure = read_structure(
        root, references, variables, findings, solved_outside=model_exchange is not None
    )
    description = ModelDescription(
        version=version,
        written_version=written,
        name=name or "",
        token=token,
        description=at.text("description") or "",
        author=at.text("author") or "",
        model_version=at.text("version") or "",
        copyright=at.text("copyright") or "",
        license=at.text("license") or "",
        tool=at.text("generationTool") or "",
        date=at.text("generationDateAndTime") or "",
        structured_names=at.text("variableNamingConvention") == "structured",
        co_simulation=co_simulation,
        model_exchange=model_exchange,
        scheduled_execution=scheduled,
        experiment=_experiment(root, findings),
        units=units,
        types=tuple(types.values()),
        log_categories=tuple(_categories(root, findings).items()),
        variables=variables,
        structure=structure,
        event_indicator_count=_indicators(at, version, structure, {v.name: v.cells for v in variables}),
        warnings=tuple(findings.warnings),
        violations=tuple(findings.violations),
    )
    findings.raise_if_any()
    return description


def _version(root: xml.Element, source: str, findings: Findings) -> tuple[int, str]:
    if root.tag != "fmiModelDescription":
        raise ModelError(f"{source} is not a model description: it begins with <{shown(root.tag)}>")
    written = root.attributes.get("fmiVersion", "").strip()
    match = _VERSION.fullmatch(written)
    if match is None:
        what = f"is for FMI {shown(written)}" if written else "does not say its FMI version"
        raise ModelError(
            f"{source} {what}; Upbeat runs FMUs of FMI 2.0 and 3.0: export it again as one of them"
        )
    if match[2] != "0" or (match[1] == "2" and written != "2.0"):
        findings.warning(root.line, "", f"FMI {shown(written)} is read as FMI {match[1]}.0")
    return int(match[1]), written


def _experiment(root: xml.Element, findings: Findings) -> DefaultExperiment:
    element = root.first("DefaultExperiment")
    if element is None:
        return DefaultExperiment()
    at = Attributes(element, findings, "DefaultExperiment")
    start, stop = at.real("startTime"), at.real("stopTime")
    tolerance, step = at.real("tolerance"), at.real("stepSize")
    if stop is not None and stop <= (start or 0.0):
        at.warning(f"stopTime {stop} is not after the start: ignored")
        stop = None
    if tolerance is not None and tolerance <= 0:
        at.warning(f"tolerance {tolerance} is not positive: ignored")
        tolerance = None
    if step is not None and step <= 0:
        at.warning(f"stepSize {step} is not positive: ignored")
        step = None
    return DefaultExperiment(start, stop, tolerance, step)


def _categories(root: xml.Element, findings: Findings) -> dict[str, str]:
    found: dict[str, str] = {}
    for group in root.all("LogCategories"):
        for element in group.all("Category"):
            at = Attributes(element, findings, "LogCategories")
            found.setdefault(at.required("name"), at.text("description") or "")
    return found


def _indicators(at: Attributes, version: int, structure: Structure, cells: dict[str, int]) -> int:
    """FMI 2 counts event indicators, FMI 3 names them."""
    if version == 2:
        return at.whole("numberOfEventIndicators") or 0
    return sum(cells.get(unknown.variable, 1) for unknown in structure.event_indicators)
