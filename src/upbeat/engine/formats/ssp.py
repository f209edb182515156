"""Experiments from SSPs, scenario files from SSPs, and SSPs from experiments."""

from __future__ import annotations

import logging
import os
import shutil
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from upbeat.core.atomic import as_path
from upbeat.core.errors import FileProblem, Problems, cannot_write, check_type
from upbeat.engine.experiment import Experiment
from upbeat.engine.formats.fmus import STEPS
from upbeat.engine.settings import Settings
from upbeat.scenario.files import reading as files
from upbeat.scenario.files.reading import ScenarioFile
from upbeat.scenario.scenario import Scenario
from upbeat.scenario.ssp.exporting import kept_of
from upbeat.scenario.ssp.exporting import write_ssp as write_package
from upbeat.scenario.ssp.importing import Imported
from upbeat.scenario.ssp.importing import read_ssp as read_imported
from upbeat.scenario.ssp.reading import ssd_of
from upbeat.trace.files.output import kept_from

_log = logging.getLogger("upbeat.ssp")


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
    from upbeat.engine.formats.files import completed  # which reads SSPs, too

    path = as_path(path)
    if variant is not None:
        check_type(variant, str, "variant")
    if values is not None:
        check_type(values, Mapping, "values")
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
    return with_default_step(imported, settings)


def with_default_step(imported: Imported, settings: Mapping[str, Any]) -> ScenarioFile:
    """The file with a step, if it is not said how long one is."""
    file = imported.file
    if {"step", "pace"} & file.master.keys() or settings.get("step") or settings.get("pace"):
        return file
    start = settings.get("start") or file.run.get("start", 0.0)
    until = settings.get("until") or file.run.get("until")
    if not isinstance(until, (int, float)) or not isinstance(start, (int, float)) or until <= start:
        return file
    return replace(file, master={**file.master, "step": (until - start) / STEPS})


def write_ssp(
    what: Experiment | Scenario,
    path: str | os.PathLike[str],
    *,
    like: str | os.PathLike[str] | None = None,
    force: bool = False,
) -> None:
    """Write a scenario of FMUs, or an experiment with its master, run and record, as an SSP.

    `like` is the SSD that it came from: annotations, drawings and authors are taken from there. What SSP
    cannot say (units that are no FMUs, connections that are more than linear) is refused, all of it in one
    `ScenarioError`. A file that is there and that Upbeat has not exported is replaced with `force` only.
    """
    from upbeat.engine.formats.files import file_of

    check_type(what, (Scenario, Experiment), "what")
    path = as_path(path)
    kept_from(Path(path), _exported, "an SSP that Upbeat has exported", force=force)
    kept = None if like is None else kept_of(as_path(like, "like"))
    for sentence in () if kept is None else kept.lost:
        _log.warning("%s", sentence)
    file = file_of(what) if isinstance(what, Experiment) else ScenarioFile(what)
    write_package(file, Path(path), kept)


def _exported(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive, archive.open("SystemStructure.ssd") as file:
            return b'generationTool="Upbeat"' in file.read(1 << 16)
    except (zipfile.BadZipFile, KeyError, NotImplementedError, RuntimeError):
        return False


def import_ssp(
    path: str | os.PathLike[str], folder: str | os.PathLike[str], *, variant: str | None = None
) -> Imported:
    """Make a scenario file of an SSP: ``scenario.toml`` in `folder`, with the FMUs next to it.

    The SSD goes to ``scenario.ssd``, so that an export gives back what a scenario file has no place for.
    """
    target = Path(folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise FileProblem(f"'{target}' is there already, and is not an empty folder: choose another one")
    places: dict[Path, Path] = {}

    def place(fmu: Path) -> Path:
        if fmu not in places:
            name, count = f"{fmu.stem}.fmu", 2
            while target / name in places.values():
                name, count = f"{fmu.stem}_{count}.fmu", count + 1
            places[fmu] = Path(shutil.copyfile(fmu, target / name))
        return places[fmu]

    # A first look, so that a folder is made only for an SSP that is sound.
    read_imported(path, variant=variant)
    try:
        target.mkdir(parents=True, exist_ok=True)
        imported = read_imported(path, variant=variant, place=place)
        files.write_scenario(with_default_step(imported, {}), target / "scenario.toml")
        shutil.copyfile(ssd_of(path, variant), target / "scenario.ssd")
    except OSError as error:
        raise cannot_write(target, error) from None
    return imported
