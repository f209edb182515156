"""One run, in a process of its own: what `upbeat run` does, and it listens to what the page wants meanwhile.

Its rows and events go into its journal, which the server follows by itself. What is told here is little: what
there is to see and to set, how far it is, the reasons of its steps while somebody watches, and how it ends.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from upbeat.core.errors import (
    EndRequest,
    InvalidInput,
    RunError,
    ScenarioError,
    UnitError,
    UpbeatError,
    problems_of,
)
from upbeat.core.ports import Causality, Port
from upbeat.engine.checkpoint import Checkpoint, read_checkpoint
from upbeat.engine.experiment import Experiment
from upbeat.engine.formats.files import read_experiment
from upbeat.engine.realtime import RealTime
from upbeat.engine.resume import reopen
from upbeat.engine.run import Run
from upbeat.scenario.files.toml import Lines
from upbeat.studio.child import Channel, failure
from upbeat.studio.project import check_inside
from upbeat.studio.rows import step_data
from upbeat.trace.log import Outcome
from upbeat.units.equations.ode import equations_of
from upbeat.units.process import as_isolated

WATCHED, ALONE = 0.04, 0.25
"""Seconds after which it hands over what it has recorded and looks for what is wanted."""
MAX_STEPS = 400
"""So many entries of the step log are told at a time; of more, every so many-th."""


def run(channel: Channel) -> None:
    """Run what the first message asks for, and do what the others say."""
    asked = channel.read()
    if asked is None:
        return
    wanted: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()

    def listen() -> None:
        while (message := channel.read()) is not None:
            wanted.put(message)
        wanted.put(None)

    threading.Thread(target=listen, name="studio", daemon=True).start()
    told = _Told(channel, asked)
    try:
        _run(asked, wanted, told)
    except (RunError, InvalidInput, UpbeatError) as error:
        told.failed(error)
    except (Exception, SystemExit) as error:  # noqa: BLE001  # units of Python may raise anything
        told.failed(error)


def _experiment(asked: Mapping[str, Any]) -> Experiment:
    check_inside(str(asked["text"]), Path(asked["file"]), Path(asked["root"]))
    settings: dict[str, Any] = {"until": asked.get("until"), "engine": asked.get("engine")}
    if (factor := asked.get("real_time")) is not None:
        settings["real_time"] = factor
    made = read_experiment(
        Path(asked["file"]),
        settings,
        values=asked.get("overrides") or {},
        allow_python=bool(asked["python"]),
        writing=False,
        text=str(asked["text"]),
    )
    return made.with_(out=Path(asked["out"]), force=True)


def _opened(asked: Mapping[str, Any], made: Experiment, told: _Told) -> Run:
    """The run, with checkpoints where that is possible; or where its last checkpoint was made."""
    kept = Path(asked["checkpoint"])
    if asked.get("resume"):
        return reopen(kept, read_checkpoint(kept), made)
    try:
        return made.with_(checkpoint=Checkpoint(kept, every=86400.0)).open()
    except InvalidInput as error:
        told.checkpoints = str(error)
        return made.open()


def _run(asked: Mapping[str, Any], wanted: queue.SimpleQueue[dict[str, Any] | None], told: _Told) -> None:
    made = _experiment(asked)
    with _opened(asked, made, told) as this:
        told.began(made, this)
        going, watched, due = not asked.get("paused"), bool(asked.get("watched")), 0.0
        while not this.finished:
            try:
                message = wanted.get(block=not going)
            except queue.Empty:
                often = WATCHED if watched else ALONE
                this.go(often)
                if time.monotonic() > due:  # a quick run comes back whenever its buffer is full
                    due = time.monotonic() + 0.9 * often
                    told.far(this, "running", steps=watched)
                continue
            if message is None or message["do"] == "stop":
                this.close()
                break
            match message["do"]:
                case "watch":
                    watched = bool(message["on"])
                case "pause":
                    going = False
                case "resume":
                    if not going:
                        this.begin_again()
                    going = True
                case "step":
                    going = False
                    this.begin_again()
                    this.step()
                case _:
                    told.answer(message, this)
            this.flush()
            told.far(this, "running" if going else "paused", steps=watched)
        told.far(this, "running", steps=watched)
        this.close()
        told.ended(this)


class _Told:
    """What the server hears."""

    def __init__(self, channel: Channel, asked: Mapping[str, Any]) -> None:
        self._channel = channel
        self._lines = Lines(str(asked["text"]))
        self._steps = 0
        self._busy = 0.0
        self.checkpoints = ""
        """Why there are none."""

    def began(self, made: Experiment, this: Run) -> None:
        """What there is to see and to set."""
        self._busy = time.process_time()
        self._channel.write(
            {
                "kind": "began",
                "time": this.time,
                "start": made.span.start,
                "until": made.span.stop,
                "engine": made.choice.name,
                "why": made.choice.why,
                "settable": settable(made, this),
                "foreign": [
                    name for name, model in made.scenario.units.items()
                    if equations_of(model) is None and as_isolated(model) is None
                ],
                "notes": [*made.notes, *made.remarks],
                "checkpoints": self.checkpoints,
                "real_time": None if made.real_time is None else _factor(made.real_time),
            }
        )  # fmt: skip

    def far(self, this: Run, state: str, *, steps: bool) -> None:
        """How far it is, and with which steps it came there."""
        message: dict[str, Any] = {"kind": "far", "state": state, "time": this.time, "at": time.time()}
        if steps:
            log = this.steps
            fresh = list(log.since(max(self._steps - 1, 0)))
            self._steps = len(log)
            if len(fresh) > MAX_STEPS:
                fresh = fresh[:: -(-len(fresh) // MAX_STEPS)]
            message["steps"] = [step_data(one) for one in fresh]
        self._channel.write(message)

    def answer(self, message: Mapping[str, Any], this: Run) -> None:
        """Do what has an answer: setting a value, making a checkpoint."""
        done: dict[str, Any] = {"kind": "answer", "number": message.get("number")}
        try:
            match message["do"]:
                case "set":
                    this.set(str(message.get("name")), message.get("value"))  # type: ignore[arg-type]
                    done["time"] = this.time
                case "checkpoint":
                    this.checkpoint()
                    done["time"] = this.time
                case other:
                    raise InvalidInput(f"a run cannot {other!r}")
        except InvalidInput as error:
            done |= failure(error)
        self._channel.write(done)

    def ended(self, this: Run) -> None:
        """How it ended."""
        trace = this.trace
        self._channel.write(
            {
                "kind": "ended",
                "time": this.time,
                "outcome": trace.outcome.name,
                "said": trace.outcome.value,
                "notes": list(trace.notes),
                "warnings": list(trace.info.get("warnings", ())),
                "cpu": time.process_time() - self._busy,
            }
        )

    def failed(self, error: BaseException) -> None:
        """Why it failed, and where that is written."""
        shown = failure(error)
        unit = error.unit if isinstance(error, UnitError) and not isinstance(error, EndRequest) else None
        outermost = unit.partition(".")[0] if unit else None
        found: dict[str, Any] = {
            "message": shown["error"] + (f" {shown['hint']}" if shown["hint"] else ""),
            "unit": outermost,
            "inside": unit if unit != outermost else None,
            "line": self._lines.of(("units", outermost)) if outermost else None,
        }
        if isinstance(error, ScenarioError):
            problems = problems_of(error)
            found["message"] = problems[0].what if len(problems) == 1 else str(error)
            found["line"] = problems[0].line
            where = problems[0].where
            found["unit"] = where[1].partition(".")[0] if len(where) > 1 and where[0] == "units" else None
        self._channel.write(
            {"kind": "ended", "outcome": Outcome.FAILED.name, "said": Outcome.FAILED.value, "failure": found}
        )


def _factor(given: RealTime) -> float:
    return given.factor


def settable(made: Experiment, this: Run) -> list[dict[str, Any]]:
    """What may be set during a run, with its present value: inputs that nothing drives, and parameters that
    may change."""
    planned = {name for _, name, _ in made.later()}
    found: dict[str, dict[str, Any]] = {}
    for part in made.structures.values() or (made,):
        scenario = part.plan.scenario
        found |= {name: _knob(name, port, "input") for name, (_, port) in scenario.free_inputs.items()}
        found |= {
            name: _knob(name, port, "parameter")
            for name, (unit, port) in scenario.parameters.items()
            if scenario.why_fixed(unit, port.name) is None
        }
    for name, one in found.items():
        if not one["event"]:
            with suppress(InvalidInput):  # of a unit that is not there in the present structure
                value = this[name]
                one["value"] = list(value) if isinstance(value, tuple) else value
    return [one for name, one in found.items() if name not in planned]


def _knob(name: str, port: Port, what: str) -> dict[str, Any]:
    value: Any = port.initial[0] if port.size is None else list(port.initial)
    return {
        "name": name,
        "value": None if port.event else value,
        "unit": port.unit,
        "kind": "enumeration" if port.items else port.kind.value,
        "size": port.size,
        "min": None,
        "max": None,
        "labels": [[code, port.labels.label(code)] for code in port.codes] if port.items else None,
        "what": what if port.causality is not Causality.PARAMETER else "parameter",
        "event": port.event,
        "description": port.description,
    }
