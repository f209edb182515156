"""Checkpoints: the state of a run in one file, from which it goes on to the same end, to the bit.

    mark | version | document | machine | steps | checksum

The document is JSON: whose run it is (fingerprints of its parts), how to make its experiment again, where the
loop, the recorder and the result files stand. The machine is what `Machine.to_bytes` gives, the steps the
columns of the step log. Nothing in a checkpoint is ever executed.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from math import inf
from numbers import Real
from pathlib import Path
from typing import Any

from upbeat.core.atomic import as_path, check_regular, replace_file
from upbeat.core.errors import FileProblem, InvalidInput, cannot_read
from upbeat.core.packed import Reader, chunk, with_checksum, without_checksum
from upbeat.core.plain import Fields, parsed, shown
from upbeat.trace.eventkinds import EventKind
from upbeat.trace.lateness import Lateness
from upbeat.trace.steps import StepLog

MARK = b"UPBEAT checkpoint\n"
VERSION = 2
_EVERY = re.compile(r"\s*([0-9.eE+-]+)\s*(s|min|h|steps?)\s*\Z")
LONGEST = 1e12
"""Seconds or steps between two checkpoints: beyond, there would never be a second one."""
_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Keep the state of the run in the file `path`, so that `resume` can go on from there.

    `every` is a number of seconds by the wall clock, or a text: ``"90s"``, ``"5min"``, ``"2h"``, or
    ``"1000 steps"``. There is one at the start, and one when the run is ended or interrupted. A run that
    reaches its end removes its checkpoint.
    """

    path: Path
    every: float | str = 60.0
    command: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """The command line that has set up the run, for `upbeat resume`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", as_path(self.path, "checkpoint"))
        interval(self.every)

    @property
    def rows(self) -> Path:
        """Where the results so far are, if the run has no result file of its own."""
        return self.path.with_name(self.path.name + ".journal")


def interval(every: float | str) -> tuple[float, float]:
    """Seconds and steps after which the next checkpoint is due; one of them is endless."""
    value, unit = every, "s"
    if isinstance(every, str):
        found = _EVERY.match(every)
        try:
            value, unit = (float(found[1]), found[2]) if found else (-1.0, "s")
        except ValueError:
            value = -1.0
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < value < LONGEST:
        raise InvalidInput(
            f"checkpoints cannot be made every {every!r}: write a number of seconds, or a text "
            'such as "90s", "5min", "2h" or "1000 steps"'
        )
    if not unit.startswith("step"):
        return float(value) * _SECONDS[unit], inf
    if value != int(value):
        raise InvalidInput(f"checkpoints cannot be made every {every!r}: steps are counted in whole numbers")
    return inf, float(value)


def checkpoint_from(given: Any) -> Checkpoint | None:
    """What an argument says: a `Checkpoint`, or its file."""
    return given if given is None or isinstance(given, Checkpoint) else Checkpoint(given)


@dataclass(frozen=True, slots=True)
class Stored:
    """What a checkpoint holds."""

    document: dict[str, Any]
    machine: bytes
    steps: StepLog

    def write(self, path: Path) -> None:
        """To a file, in one go."""
        words, steps = self.steps.packed()
        document = json.dumps({**self.document, "words": words}).encode()
        parts = (MARK, VERSION.to_bytes(4, "little"), chunk(document), chunk(self.machine), chunk(steps))
        replace_file(path, with_checksum(b"".join(parts)))


def read_checkpoint(path: Path) -> Stored:
    """What is in a file; `FileProblem` says why it is no checkpoint, or none for this Upbeat."""
    try:
        check_regular(path)
        data = path.read_bytes()
    except FileNotFoundError:
        raise FileProblem(
            f"there is no checkpoint '{path}'. A run removes its checkpoint when it has reached its end"
        ) from None
    except OSError as error:
        raise cannot_read(path, error) from None
    if not data.startswith(MARK):
        raise FileProblem(f"'{path}' is not a checkpoint: it does not begin as one")
    version = int.from_bytes(data[len(MARK) : len(MARK) + 4], "little")
    if version != VERSION:
        raise FileProblem(
            f"'{path}' has version {version} of the format, and this Upbeat reads {VERSION}: "
            "go on with the Upbeat that has made it"
        )
    try:
        reader = Reader(without_checksum(data))
        reader.take(len(MARK) + 4)
        document = parsed(reader.chunk())
        machine, steps = reader.chunk(), reader.chunk()
        reader.finish()
        _check(Fields(document, "its document"))
        return Stored(document, machine, StepLog.unpacked(document.pop("words", None), steps))
    except (ValueError, InvalidInput) as error:
        raise FileProblem(f"'{path}' is a checkpoint whose bytes are not right: {error}") from None


def _check(document: Fields) -> None:
    """`ValueError` unless a document says all that others read there; of its files, a sink checks that."""
    for value in document.table("fingerprints").values():
        if not isinstance(value, str):
            raise ValueError(f"a fingerprint is {shown(value)}, not a text")
    document.text("engine")
    document.number("time"), document.flag("finished")
    if len(document.array("span", float)) != 2:
        raise ValueError("the span of the run has no two ends")
    if document.any("out") is not None:
        document.text("out")
    every = document.any("every")
    interval(every if isinstance(every, str) else document.number("every"))
    if not all(isinstance(word, str) for word in document.entries("command")):
        raise ValueError("the command line holds something else than texts")
    if document.any("experiment") is not None:
        experiment = document.fields("experiment")
        if not all(isinstance(text, str) for text in experiment.table("files").values()):
            raise ValueError("a scenario file in it is not a text")
        if experiment.any("signals") is not None:
            signals = experiment.fields("signals")
            signals.array("time", float), signals.table("values")
    info = document.fields("info")
    if "wall_seconds" in info:
        info.number("wall_seconds")
    if "lateness" in info and info.any("lateness") is not None:
        Lateness.from_data(info.any("lateness"))
    for name in info.fields("parameters") if "parameters" in info else ():
        changes = info.fields("parameters").entries(name)
        if not changes or not all(isinstance(change, list) and len(change) > 1 for change in changes):
            raise ValueError(f"the changes of the parameter {shown(name)} are something else")
    for unit in info.fields("solvers") if "solvers" in info else ():
        counts = info.fields("solvers").fields(unit)
        for name in counts:
            counts.whole(name)
    recorder = document.fields("recorder")
    recorder.each("kinds", EventKind.from_data)
    if not all(isinstance(text, str) for text in recorder.entries("strings")):
        raise ValueError("the texts of the recorder are something else")
    recorder.whole("rows"), recorder.whole("offered")
    recorder.table("sink"), recorder.table("statistics")
    for name in recorder.fields("counts"):
        recorder.fields("counts").whole(name)
