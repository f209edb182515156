"""Going on from a checkpoint, and all that must be right for it."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from upbeat.core.abilities import Ability, doubt
from upbeat.core.atomic import as_path
from upbeat.core.errors import FileProblem, InvalidInput, ScenarioError, UpbeatError, cannot_read, check_type
from upbeat.engine.checkpoint import Checkpoint, CheckpointWriter, Stored, digests, read_checkpoint
from upbeat.engine.experiment import Experiment, Report
from upbeat.engine.formats.files import load, write_scenario
from upbeat.engine.packing import Packing
from upbeat.engine.run import Run
from upbeat.scenario.merging.inline import path_of
from upbeat.scenario.signals import Signals
from upbeat.trace.files.output import check_place
from upbeat.trace.files.sinks import files_of, rows_of
from upbeat.trace.trace import Trace, read
from upbeat.version import __version__

# ----------------------------------------------------------------------------------------------------
# Experiments as plain data, for another process: scenario files as text, and signals.
#
# Only what a scenario file can say is portable; code never is.

_NAME = "scenario.toml"
PARTS = {
    "units": "the units",
    "program": "the connections or the master",
    "pace": "the pace",
    "span": "the start or stop time",
    "record": "what is recorded",
}
"""What fingerprints tell apart."""


def fingerprints(experiment: Experiment, *, code: bool = False) -> dict[str, str]:
    """What the rest of a run depends on, besides its state. Not the engine: both give the same bits. With
    `code` also on what functions do, which may have been mended since a checkpoint was made."""
    plans = [part.plan for part in experiment.structures.values()] or [experiment.plan]
    record = (experiment.record, experiment.every, *(() if experiment.jumps else ("no jumps",)))
    one = len(plans) == 1
    return digests(
        code=code,
        units=plans[0].scenario.units if one else [plan.scenario.units for plan in plans],
        program=plans[0].program if one else [plan.program for plan in plans],
        pace=plans[0].pace if one else [plan.pace for plan in plans],
        span=experiment.span,
        record=record,
    )


def portable(experiment: Experiment) -> dict[str, Any] | None:
    """The experiment as data that JSON can hold; None if parts of it cannot be said without code."""
    data = _written(experiment)
    if data is None:
        return None
    try:  # to be sure now, and not when the run has been killed
        same = fingerprints(made_from(data)) == fingerprints(experiment)
    except InvalidInput:
        return None
    return data if same else None


def _written(experiment: Experiment) -> dict[str, Any] | None:
    plain = experiment.with_(out=None, checkpoint=None, signals=None, force=False)
    with TemporaryDirectory() as folder:
        try:
            write_scenario(plain, Path(folder) / _NAME)
        except InvalidInput:
            return None
        files = {path.name: path.read_text(encoding="utf-8") for path in Path(folder).iterdir()}
    return {"files": files, "signals": _signals_data(experiment.signals)}


def provenance(experiment: Experiment) -> dict[str, Any]:
    """Where a result comes from, for its file, as it is when the run begins: plain data.

    `file` is where it was read from, `sha256` what was in there.
    """
    found: dict[str, Any] = {
        "upbeat": __version__,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "name": experiment.scenario.name,
    }
    if experiment.command:
        found |= {"command": list(experiment.command), "folder": str(Path.cwd())}
    if experiment.file is not None:
        found |= {"file": str(experiment.file), "sha256": content(experiment.file)}
    return found


def with_scenario(facts: Mapping[str, Any], experiment: Experiment) -> dict[str, Any]:
    """The same with `experiment`, which is for `made_from`: the scenario as it was; None where parts of it
    are code."""
    found = {**facts, "experiment": None}
    with suppress(UpbeatError, OSError):  # a run does not fail for the sake of its description
        found["experiment"] = _written(experiment)
    return found


def content(file: Path) -> str | None:
    """What is in a file, as a number; None if it cannot be read, or is a folder."""
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return None


def made_from(data: dict[str, Any]) -> Experiment:
    """The experiment that `portable` was given."""
    with TemporaryDirectory() as folder:
        for name, text in data["files"].items():
            if Path(name).name != name or not name.endswith(".toml"):
                raise InvalidInput(f"{name!r} is not the name of a scenario file")
            (Path(folder) / name).write_text(text, encoding="utf-8", newline="\n")
        try:
            made = load(Path(folder) / _NAME)
        except ScenarioError as error:
            raise ScenarioError(error.problems, "the scenario of the run") from None
    signals = data["signals"]
    return (
        made
        if signals is None
        else made.with_(signals=Signals(signals["time"], signals["values"], signals.get("held", ())))
    )


def _signals_data(signals: Signals | None) -> dict[str, Any] | None:
    if signals is None:
        return None
    values: dict[str, Any] = {name: list(column) for name, column in signals.values.items()}
    for name, event in signals.events.items():
        values[name] = {"at": list(event.at), "value": list(event.values)}
    held = {"held": sorted(signals.held)} if signals.held else {}
    return {"time": list(signals.time), "values": values, **held}


def differences(one: dict[str, str], other: dict[str, str]) -> list[str]:
    """The parts that are not the same, in words. With another pace the program is another one, too."""
    parts = [part for part in PARTS if one.get(part) != other.get(part)]
    return [PARTS[part] for part in parts if part != "program" or "pace" not in parts]


# ----------------------------------------------------------------------------------------------------


def resume(
    checkpoint: str | Path,
    *,
    experiment: Experiment | None = None,
    out: str | Path | None = None,
    report: Report | None = None,
) -> Trace:
    """Go on with a run that has not finished, and return its whole trace.

    Result files are cut back to where they were when the checkpoint was made, and end as if nothing had
    happened. A run that was set up with Python code needs its `experiment` again: the same one, which is
    checked. `out` is where the results so far are, if not in the folder of the checkpoint: a checkpoint alone
    does not decide about files elsewhere.
    """
    path = as_path(checkpoint, "checkpoint")
    if experiment is not None:
        check_type(experiment, Experiment, "experiment")
    stored = read_checkpoint(path)
    results = _results(path, stored, experiment, out)
    done = _finished(path, stored, results)
    if done is not None:
        return done
    with reopen(path, stored, experiment, results) as run:
        return run.finish(report)


def reopen(
    path: Path, stored: Stored, experiment: Experiment | None = None, out: str | Path | None = None
) -> Run:
    """The run of a checkpoint, standing where that was made."""
    made = experiment_of(path, stored, experiment, out)
    other = differences(stored.document["fingerprints"], fingerprints(made))
    if other:
        raise InvalidInput(
            f"'{path}' is the checkpoint of another run: {' and '.join(other)} "
            f"{'differ' if len(other) > 1 else 'is not the same'}. Nothing was changed"
        )
    _check_results(path, made)
    return made.open(stored)


def experiment_of(
    path: Path, stored: Stored, experiment: Experiment | None = None, out: str | Path | None = None
) -> Experiment:
    """The experiment of a checkpoint, or the given one with the checkpoint's files."""
    document = stored.document
    try:
        given = experiment
        if given is None and document["experiment"] is not None:
            given = made_from(document["experiment"])
        if given is None:
            raise InvalidInput(
                f"the run of '{path}' was set up with Python code, which a checkpoint does not hold: "
                f'write up.resume("{path}", experiment=up.experiment(…)) with the settings of before'
            )
        return given.with_(
            engine=document["engine"] if given.engine == "auto" else given.engine,
            out=_results(path, stored, experiment, out),
            force=False,  # what a run goes on with is its own
            checkpoint=Checkpoint(path, document["every"], tuple(document["command"])),
        )
    except ValueError as error:
        raise FileProblem(f"'{path}' does not say what ran: {error}") from None


def _results(
    path: Path, stored: Stored, experiment: Experiment | None, out: str | Path | None
) -> Path | None:
    """The result file of the run: next to its checkpoint, or where the user says.

    A checkpoint may come from anybody, and must not choose which file of this disk is written to.
    """
    named = stored.document["out"]
    if named is None:
        if out is not None:
            raise InvalidInput(f"the run of '{path}' has no result file: leave out '{out}'")
        return None
    if out is not None:
        return as_path(out, "out")
    found = Path(os.path.normpath(path.parent / named))
    if Path(named).name == named:
        return found
    own = None if experiment is None else experiment.out
    if own is not None and os.path.realpath(own) == os.path.realpath(found):
        return found
    raise InvalidInput(
        f"the results of '{path}' are in another folder: '{found}'. If that is the file to go on with, "
        f"say so: --out '{found}' (in Python: out=…)"
    )


def _check_results(path: Path, made: Experiment) -> None:
    """The results so far must be there: opening them would make new ones."""
    assert made.checkpoint is not None
    needed = made.checkpoint.rows if made.out is None else rows_of(made.out)
    try:
        there = needed.exists()
    except OSError as error:  # a name that no file can have
        raise cannot_read(needed, error) from None
    if not there:
        raise FileProblem(
            f"the results so far of the run of '{path}' are missing: there is no file '{needed}'. "
            "Put it back, or start the run again"
        )


def _finished(path: Path, stored: Stored, out: Path | None) -> Trace | None:
    """The trace of a run that was killed after its last step, when its results were already complete."""
    document = stored.document
    if not document.get("finished") or out is None:
        return None
    if rows_of(out).exists() or not out.exists():
        return None
    trace = read(out)
    if not trace.outcome.ok or len(trace) != document["recorder"]["rows"]:
        return None
    path.unlink()
    return trace


# -------------------------------------------------------------------- before a run


def keeper_for(experiment: Experiment, resumed: bool) -> CheckpointWriter:
    """The keeper of a run; `InvalidInput` if there can be no checkpoints, or there is one already."""
    settings = experiment.checkpoint
    plans = [part.plan for part in experiment.structures.values()] or [experiment.plan]
    assert settings is not None
    named = {path_of(p.scenario, name): model for p in plans for name, model in p.scenario.units.items()}
    unable = [name for name, model in named.items() if Ability.SERIALISE not in model.abilities]
    if unable:
        names = ", ".join(f"'{name}'" for name in unable)
        raise InvalidInput(
            f"there can be no checkpoints: the state of {names} cannot be turned into bytes. "
            "Leave out checkpoint (--checkpoint), or give the unit save, restore, to_bytes and "
            "from_bytes"
        )
    doubts = [(name, doubt(model, Ability.SERIALISE)) for name, model in named.items()]
    if found := [f"unit '{name}': {finding}" for name, finding in doubts if finding is not None]:
        raise InvalidInput("\n".join(["there can be no checkpoints:", *found]))
    for plan in plans:
        Packing(plan.program, plan.scenario.units)  # says what else is in the way
    if not resumed:
        check_place(settings.path)
        _check_new(settings.path, experiment)
        _check_apart(settings, experiment.out)
    return CheckpointWriter(settings, about(experiment, settings))


def about(experiment: Experiment, settings: Checkpoint) -> Mapping[str, Any]:
    """What all checkpoints of a run say."""
    folder = settings.path.absolute().parent
    out = None if experiment.out is None else os.path.relpath(experiment.out.absolute(), folder)
    return {
        "upbeat": __version__,
        "fingerprints": fingerprints(experiment),
        "experiment": portable(experiment),
        "engine": experiment.choice.name,
        "out": out,
        "every": settings.every,
        "command": list(settings.command),
        "span": [experiment.span.start, experiment.span.stop],
    }


def _check_apart(settings: Checkpoint, out: Path | None) -> None:
    """Checkpoints and results do not share files."""
    mine = {os.path.realpath(file) for file in (settings.path, settings.rows)}
    if out is not None and not mine.isdisjoint(os.path.realpath(file) for file in files_of(out)):
        raise InvalidInput(
            f"'{settings.path}' cannot be both a checkpoint and a result: give one of them another name"
        )


def _check_new(path: Path, experiment: Experiment) -> None:
    """A new run does not overwrite what an old one could go on with."""
    if not path.exists():
        return
    try:
        document = read_checkpoint(path).document
        same = not differences(document["fingerprints"], fingerprints(experiment))
        where = f"at t = {float(document['time']):.6g} of {float(document['span'][1]):.6g}"
    except (UpbeatError, KeyError, TypeError, ValueError, IndexError):
        raise FileProblem(
            f"'{path}' is there already, and is not a checkpoint: give another name, or remove it"
        ) from None
    whose = "this run" if same else "another run"
    raise FileProblem(
        f"'{path}' is the checkpoint of {whose}, {where}. To go on with it: upbeat resume '{path}'. "
        "To start from the beginning, remove it, or give another name"
    )
