"""Experiments as plain data, for another process: scenario files as text, and signals.

Only what a scenario file can say is portable; code never is.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from upbeat.core.errors import InvalidInput, ScenarioError
from upbeat.engine.checkpoints.fingerprint import digests
from upbeat.engine.experiment import Experiment
from upbeat.engine.formats.files import load, write_scenario
from upbeat.scenario.signals import Signals

_NAME = "scenario.toml"
PARTS = {
    "units": "the units",
    "program": "the connections or the master",
    "pace": "the pace",
    "span": "the start or stop time",
    "record": "what is recorded",
}
"""What fingerprints tell apart."""


def fingerprints(experiment: Experiment) -> dict[str, str]:
    """What the rest of a run depends on, besides its state. Not the engine: both give the same bits."""
    plan, record = experiment.plan, (experiment.record, experiment.every)
    return digests(
        units=plan.scenario.units,
        program=plan.program,
        pace=plan.pace,
        span=experiment.span,
        record=record,
    )


def portable(experiment: Experiment) -> dict[str, Any] | None:
    """The experiment as data that JSON can hold; None if parts of it cannot be said without code."""
    plain = experiment.with_(out=None, checkpoint=None, signals=None, force=False)
    with TemporaryDirectory() as folder:
        try:
            write_scenario(plain, Path(folder) / _NAME)
        except InvalidInput:
            return None
        files = {path.name: path.read_text(encoding="utf-8") for path in Path(folder).iterdir()}
    data = {"files": files, "signals": _signals_data(experiment.signals)}
    try:  # to be sure now, and not when the run has been killed
        same = fingerprints(made_from(data)) == fingerprints(experiment)
    except InvalidInput:
        return None
    return data if same else None


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
            raise ScenarioError(error.problems, "the scenario in the checkpoint") from None
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
