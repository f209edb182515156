"""Experiments from SSPs, scenario files from SSPs, and SSPs from experiments."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from upbeat.core.errors import Problems
from upbeat.engine.experiment import Experiment
from upbeat.engine.settings import Settings
from upbeat.scenario.files import ScenarioFile
from upbeat.scenario.ssp.importing import Imported
from upbeat.scenario.ssp.importing import read_ssp as read_imported

SUFFIXES = (".ssp", ".ssd")

_log = logging.getLogger("upbeat.ssp")
_STEPS = 500
"""Steps to the end, where neither the SSP nor its FMUs say how long one is."""


def read_ssp(
    path: str | os.PathLike[str],
    *,
    variant: str | None = None,
    values: Mapping[str, Any] | None = None,
    step: float | None = None,
    **settings: Unpack[Settings],
) -> Experiment:
    """The experiment in an SSP, an SSD, or a folder with an unpacked SSP.

    `variant` names another SSD of the archive than SystemStructure.ssd; the rest is as in `load`. What the
    SSP has and Upbeat does not use is told as warnings of the logger ``upbeat.ssp``.
    """
    from upbeat.engine.files import completed  # which reads SSPs, too

    given = {"step": step, **settings}
    file = system_file(path, given, values=values or {}, variant=variant)
    return completed(file, given, Problems(), writing=False)


def system_file(
    path: str | os.PathLike[str],
    settings: Mapping[str, Any],
    *,
    values: Mapping[str, Any],
    variant: str | None = None,
) -> ScenarioFile:
    """The SSP as if it had been a scenario file; its remarks are logged."""
    imported = read_imported(path, variant=variant, values=values)
    for remark in imported.remarks:
        _log.warning("%s", remark)
    return with_usual_step(imported, settings)


def with_usual_step(imported: Imported, settings: Mapping[str, Any]) -> ScenarioFile:
    """The file with a step, if nobody says how long one is."""
    file = imported.file
    if {"step", "pace"} & file.master.keys() or settings.get("step") or settings.get("pace"):
        return file
    start = settings.get("start") or file.run.get("start", 0.0)
    until = settings.get("until") or file.run.get("until")
    if not isinstance(until, (int, float)) or not isinstance(start, (int, float)) or until <= start:
        return file
    return replace(file, master={**file.master, "step": (until - start) / _STEPS})


def is_system(path: str | os.PathLike[str]) -> bool:
    """Whether this is an SSP or an SSD by its name."""
    return Path(path).suffix.lower() in SUFFIXES
