"""Checkpoints: the state of a run in one file, from which it goes on to the same end, to the bit.

    mark | version | document | machine | steps | checksum

The document is JSON: whose run it is (fingerprints of its parts), how to make its experiment again, where the
loop, the recorder and the result files stand. The machine is what `Machine.to_bytes` gives, the steps the
columns of the step log. Nothing in a checkpoint is ever executed.
"""

from __future__ import annotations

import enum
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field, fields, is_dataclass
from math import inf
from numbers import Real
from pathlib import Path
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any

import numpy as np

from upbeat.core.abilities import FromFile
from upbeat.core.atomic import as_path, check_regular, replace_file
from upbeat.core.errors import FileProblem, InvalidInput, RecordingError, cannot_read
from upbeat.core.plain import Fields, Reader, chunk, parsed, shown, with_checksum, without_checksum
from upbeat.core.records import dataclass
from upbeat.engine.loop import ENDLESS, Loop
from upbeat.engine.machine import Machine
from upbeat.trace.events import EventKind
from upbeat.trace.log import Lateness, Outcome, StepLog
from upbeat.trace.recorder import Recorder
from upbeat.units.process import bare

if TYPE_CHECKING:
    from upbeat.engine.by_hand import Drive


MARK = b"UPBEAT checkpoint\n"
VERSION = 3
_EVERY = re.compile(r"\s*([0-9.eE+-]+)\s*(s|min|h|steps?)\s*\Z")
LONGEST = 1e12
"""Seconds or steps between two checkpoints: beyond, there would never be a second one."""
_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Keep the state of the run in the file `path`, for `resume`.

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
    for one in (
        info.each("structures", lambda data: Fields(data, "a structure")) if "structures" in info else ()
    ):
        one.text("structure"), one.number("from"), one.table("values")
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


# ----------------------------------------------------------------------------------------------------
# What an experiment is, in sixteen bytes a part: the same in every process, another for anything else.
#
# Objects are read as data: the fields of dataclasses, the entries of containers, the names of functions.
# What is left is known by its text, without addresses in memory.

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


class Digest:
    """Digests objects; one that is shared is looked at once. With `code`, functions are what they
    do; without, their names."""

    def __init__(self, *, code: bool = False) -> None:
        self._code = code
        self._known: dict[int, tuple[object, bytes]] = {}

    def of(self, item: Any) -> bytes:
        """The digest of any object. Where a unit runs is no part of what it is."""
        item = bare(item)
        known = self._known.get(id(item))
        if known is None:
            known = self._known[id(item)] = item, _hashed(*self._parts(item))
        return known[1]

    def _parts(self, item: Any) -> list[bytes]:
        match item:
            case None | bool() | int() | float() | str() | bytes() if not isinstance(item, enum.Enum):
                return [type(item).__name__.encode(), repr(item).encode()]
            case enum.Enum():
                return [b"enum", type(item).__qualname__.encode(), item.name.encode()]
            case FunctionType() if self._code:
                self._known[id(item)] = item, b"itself"  # which a function may well use
                inside = [_inside(cell) for cell in item.__closure__ or ()]
                return [
                    b"code",
                    *map(self.of, (item.__code__, item.__defaults__, item.__kwdefaults__, inside)),
                ]
            case MethodType() if self._code:
                return [b"method", self.of(item.__func__), self.of(item.__self__)]
            case CodeType():
                return [
                    b"code",
                    item.co_code,
                    *map(self.of, (item.co_consts, item.co_names, item.co_varnames)),
                ]
            case type() | FunctionType() | BuiltinFunctionType() | MethodType():
                return [b"code", f"{item.__module__}.{item.__qualname__}".encode()]
            case np.ndarray() if item.dtype == object:  # whose bytes are addresses
                return [b"array", str(item.shape).encode(), self.of(item.tolist())]
            case np.ndarray():
                return [b"array", str(item.dtype).encode(), str(item.shape).encode(), item.tobytes()]
            case Mapping():
                return [b"mapping", *(self.of(part) for pair in item.items() for part in pair)]
            case AbstractSet():
                return [b"set", *sorted(map(self.of, item))]
            case Sequence():
                return [b"sequence", *map(self.of, item)]
        name = f"{type(item).__module__}.{type(item).__qualname__}".encode()
        if is_dataclass(item):
            # What begins with an underscore is remembered for speed, and may differ from process to process.
            known = [f.name for f in fields(item) if f.compare and not f.name.startswith("_")]
            parts = {each: getattr(item, each) for each in known}
            if isinstance(item, FromFile):  # not where it lies: an SSP is unpacked to another place each time
                parts["path"] = item.content()
            return [name, *map(self.of, parts.values())]
        return [name, _ADDRESS.sub("", repr(item)).encode()]


def _inside(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing yet
        return None


def digests(*, code: bool = False, **parts: Any) -> dict[str, str]:
    """The digest of each part, as text."""
    digest = Digest(code=code)
    return {name: digest.of(part).hex() for name, part in parts.items()}


def _hashed(*parts: bytes) -> bytes:
    import hashlib  # which takes longer to load than a short run has

    made = hashlib.blake2b(digest_size=16)
    for part in parts:
        made.update(len(part).to_bytes(8, "little"))
        made.update(part)
    return made.digest()


# ----------------------------------------------------------------------------------------------------
# The keeper of a run: makes its checkpoints when they are due, and removes the last one at the end.


class CheckpointWriter:
    """Writes the checkpoints of one run. `about` is the part of the document that stays the same."""

    def __init__(
        self, settings: Checkpoint, about: Mapping[str, Any], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.settings = settings
        self._about = dict(about)
        self._seconds, self._steps = interval(settings.every)
        self._clock = clock
        self._last = clock(), 0

    def max_steps(self, drive: Drive) -> int:
        """How many steps there are to the next checkpoint, if steps are counted."""
        if self._steps > ENDLESS:
            return ENDLESS
        return max(1, int(self._steps) - (drive.steps.count - self._last[1]))

    def due(self, drive: Drive) -> bool:
        """Whether it is time for the next one."""
        when, steps = self._last
        return self._clock() - when >= self._seconds or (
            self._steps < ENDLESS and drive.steps.count - steps >= self._steps
        )

    def take(self, machine: Machine, drive: Drive, recorder: Recorder, details: Mapping[str, Any]) -> None:
        """Write one, between two steps. What it says about result files is on the disk before."""
        at = drive.time
        document = {
            **self._about,
            "time": at,
            "finished": at >= self._about["span"][1],
            "info": dict(details["info"]),
        }
        try:
            document["recorder"] = recorder.position()
            Stored(document, machine.to_bytes(machine.save()), drive.steps).write(self.settings.path)
        except FileProblem as problem:
            raise RecordingError(f"the checkpoint could not be made: {problem}") from problem
        self._last = self._clock(), drive.steps.count

    def done(self, outcome: Outcome) -> None:
        """The results are complete: there is nothing to go on with, if the run has reached its end."""
        if outcome.ok:
            self.settings.path.unlink(missing_ok=True)


def set_back(machine: Machine, loop: Loop, stored: Stored) -> None:
    """Let a machine and its loop stand where the checkpoint was made."""
    machine.restore(machine.from_bytes(stored.machine))
    loop.after(stored.steps)
    loop.set_time(float(stored.document["time"]))
