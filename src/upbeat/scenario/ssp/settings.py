"""How to run a system: from Upbeat's own annotations, the default experiment, or what its FMUs suggest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from upbeat.core.errors import FileProblem, InvalidInput, ScenarioError, suggest
from upbeat.scenario.files.definitions import ISOLATION
from upbeat.scenario.files.reading import parse
from upbeat.scenario.ssp.findings import Findings
from upbeat.scenario.ssp.model import Description
from upbeat.units.fmi.description import ModelDescription

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
