"""Experiments from scenario files, and back to them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Unpack

from upbeat.core.atomic import as_path, is_file
from upbeat.core.errors import Problems, check_type
from upbeat.engine.experiment import Experiment
from upbeat.engine.formats.nested import master_table, nested_table, nesting
from upbeat.engine.isolation import isolation_table
from upbeat.engine.realtime import real_time_table
from upbeat.engine.settings import Settings, Tables, checked_fields, outside_files
from upbeat.scenario.files import reading as files
from upbeat.scenario.files.reading import ScenarioFile, read_scenario
from upbeat.scenario.scenario import Scenario
from upbeat.trace.files.output import kept_from


def load(
    path: str | Path,
    *,
    values: Mapping[str, Any] | None = None,
    step: float | None = None,
    allow_python: bool = False,
    **settings: Unpack[Settings],
) -> Experiment:
    """The experiment that a scenario file, an SSP or a single FMU describes; the latter two may be unpacked.

    `values` overrides parameters and start values (``{"left.m": 2.0}``), `settings` what the file says
    about the master, the run and the record; `step` is short for a fixed `pace`. All problems of the
    file are reported together.
    """
    if values is not None:
        check_type(values, Mapping, "values")
    return read_experiment(
        path, {"step": step, **settings}, values=values or {}, allow_python=allow_python, writing=False
    )


def read_experiment(
    path: str | Path,
    settings: Mapping[str, Any],
    *,
    values: Mapping[str, Any],
    allow_python: bool,
    writing: bool,
    text: str | None = None,
) -> Experiment:
    """As `load`; with `writing` it also is a problem if the results cannot go where they should.

    A `text` is read in place of what is in a scenario file.
    """
    path = as_path(path)
    made = _read(path, settings, values=values, allow_python=allow_python, writing=writing, text=text)
    made = made.with_(file=path.absolute())
    if made.cores == 1:
        return made
    from upbeat.engine.parallel.cores import usable

    measured = usable(Path(path))
    return made if measured is None else made.with_(profile=measured)


def _read(
    path: str | Path,
    settings: Mapping[str, Any],
    *,
    values: Mapping[str, Any],
    allow_python: bool,
    writing: bool,
    text: str | None,
) -> Experiment:
    if is_fmu(path):
        from upbeat.engine.formats.fmus import fmu_experiment

        return fmu_experiment([Path(path)], settings, values=values, writing=writing).experiment
    if is_system(path):
        from upbeat.engine.formats.ssp import system_file

        return completed(system_file(path, settings, values=values), settings, Problems(), writing=writing)
    made: list[Experiment] = []

    def also(file: ScenarioFile, problems: Problems) -> None:
        made.append(completed(file, settings, problems, writing=writing))

    file, nest = Path(path), nesting(Path(path), allow_python)
    if text is None:
        read_scenario(file, allow_python=allow_python, values=values, also=also, nest=nest)
    else:
        files.read_text(
            text,
            source=str(path),
            allow_python=allow_python,
            values=values,
            folder=file.parent,
            also=also,
            nest=nest,
        )
    return made[0]


def is_fmu(path: str | Path) -> bool:
    """Whether this is an FMU by its name, or a folder with an unpacked one."""
    path = Path(path)
    return path.suffix.lower() == ".fmu" or is_file(path / "modelDescription.xml")


def is_system(path: str | Path) -> bool:
    """Whether this is an SSP or an SSD by its name, or a folder with an unpacked SSP."""
    path = Path(path)
    return path.suffix.lower() in (".ssp", ".ssd") or is_file(path / "SystemStructure.ssd")


def completed(
    file: ScenarioFile, settings: Mapping[str, Any], problems: Problems, *, writing: bool
) -> Experiment:
    """The experiment of a file; raises its problems, those that were found before included."""
    tables = Tables(file.master, file.run, file.record).overruled(settings)
    fields = checked_fields(tables, file.scenario, problems, writing=writing)
    if problems.found:
        raise file.located(problems)
    signals = settings.get("signals")
    made = Experiment(scenario=file.scenario, signals=signals, **outside_files(settings), **fields)
    made.check_plan(problems)
    if problems.found:
        raise file.located(problems)
    return made


def write_scenario(what: Experiment | Scenario, path: str | Path, *, force: bool = False) -> None:
    """Write a file that `load` reads back: a scenario, or an experiment with its master, run and record.

    A file that is there and is no scenario is replaced with `force` only.

    Signals are not part of it: give them to `load`, or to ``upbeat run --input``. Nested scenarios go to
    files of their own next to it: that of the unit ``motor`` in ``car.toml`` to ``car_motor.toml``.
    """
    path = as_path(path)
    check_type(what, (Scenario, Experiment), "what")
    kept_from(path, _ours, "a scenario file", force=force)
    file = file_of(what) if isinstance(what, Experiment) else what
    files.write_scenario(file, path, lambda name, model: nested_table(name, model, path))


def _ours(path: Path) -> bool:
    found = tomllib.loads(path.read_text(encoding="utf-8"))
    return "upbeat" in found or "units" in found


def file_of(experiment: Experiment) -> ScenarioFile:
    """The experiment as a scenario file, ready to be written."""
    master = master_table(experiment.master)
    run: dict[str, Any] = {"until": experiment.span.stop}
    if experiment.span.start:
        run["start"] = experiment.span.start
    if experiment.engine != "auto":
        run["engine"] = experiment.engine
    if experiment.jit:
        run["jit"] = True
    if experiment.cores != 1:
        run["cores"] = experiment.cores
    if not experiment.flatten:
        run["flatten"] = False
    run |= isolation_table(experiment.isolation)
    if experiment.real_time is not None:
        run["real_time"] = real_time_table(experiment.real_time)
    record: dict[str, Any] = {}
    if experiment.record is not None:
        record["signals"] = list(experiment.record)
    if experiment.every != 1:
        record["every"] = experiment.every
    if not experiment.jumps:
        record["jumps"] = False
    if experiment.out is not None:
        record["out"] = str(experiment.out)
    return ScenarioFile(scenario=experiment.scenario, master=master, run=run, record=record)
