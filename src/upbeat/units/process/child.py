"""The process of one unit: started, listened to, and always ended."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from io import FileIO
from typing import IO, Any

from upbeat.core.ports import Causality, Port
from upbeat.core.scratch import make_folder, remove_folder
from upbeat.units.inputs import MAX_DEGREE
from upbeat.units.process.frames import Frames, write_frame
from upbeat.units.process.records import Heard, listening
from upbeat.units.process.told import Told

SERVER = "upbeat.engine.serve"
"""The program of the process. It makes the unit as an engine would, so it lives with the engines."""
_BOOT = f"import json, sys; sys.path[:] = json.loads(sys.argv[1]); from {SERVER} import main; main()"

STARTING = 60.0
"""Seconds in which Python must have started: no fault of the unit, so no matter of its deadline."""
MAKING = 10.0
"""Seconds that a unit has at least to be made: libraries are loaded then."""
LEAVING = 5.0
"""Seconds that a process has to end by itself when it was asked to."""
LAST_LINES = 5
_HEAD = 64
_LEAST_ROOM, _MOST_ROOM = 1 << 16, 1 << 23

log = logging.getLogger("upbeat.process")


@dataclass(frozen=True)
class Order:
    """What the process is to make. `slopes` are those that a program will ask of a unit of the native core;
    None asks for a unit of the interpreter. With `core`, values are exchanged through shared memory."""

    name: str
    start: float
    model: bytes
    slopes: tuple[tuple[str, str], ...] | None
    core: bool


class Child:
    """One process, and what this side holds of it. `ended` must be called, also after it was `lost`."""

    def __init__(self, order: Order, ports: Sequence[Port], deadline: float, restarts: int) -> None:
        self.name = order.name
        self.core = order.core
        self.deadline = deadline
        self._order = order
        self._size = _HEAD + room_for(ports)
        self._restarts, self._left = restarts, restarts
        self.calls: tuple[bool, bool, bool, bool] = (False,) * 4
        """Which calls the unit has: save and restore, pack and unpack, due, slope."""
        self._begin()

    def _begin(self) -> None:
        self._held = contextlib.ExitStack()
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._start()
            self._shake_hands()
        except BaseException:
            self.ended(patience=0.0)
            raise

    def _start(self) -> None:
        held = self._held
        orders, self._orders = _pipe(held)
        self._replies, replies = _pipe(held)
        lifeline, self._lifeline = _pipe(held)
        self._memory = held.enter_context(_memory(self._size))
        self._output = held.enter_context(_file())
        records = held.enter_context(_file())
        self._heard = Heard(records.fileno())
        folder = make_folder()  # what a killed process leaves behind goes with it
        held.callback(remove_folder, folder)
        passed = [file.fileno() for file in (orders, replies, lifeline, self._memory, records)]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _BOOT, json.dumps(sys.path), *map(str, passed), str(self._size)],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._output,
            pass_fds=passed,
            env={**os.environ, "TMPDIR": str(folder)},
        )
        for end in (orders, replies, lifeline):  # so that the process alone holds them
            end.close()
        self._frames = Frames(self._replies.fileno())

    def _shake_hands(self) -> None:
        order = self._order
        level = listening(order.name)
        with contextlib.suppress(BrokenPipeError):
            write_frame(
                self._orders.fileno(), (order.name, order.start, order.model, order.slopes, order.core, level)
            )
        self.answer(STARTING)
        kind, said = self.answer(max(self.deadline, MAKING))
        self.records()
        if kind == "failed":
            raise Told(said)
        self.calls = said

    # ---------------------------------------------------------------- what the client asks

    @property
    def link(self) -> tuple[int, int, int]:
        """The shared memory, its size, and the number of the process."""
        assert self._process is not None
        return self._memory.fileno(), self._size, self._process.pid

    def ask(self, question: Any) -> None:
        """Send a question through the pipe."""
        with contextlib.suppress(BrokenPipeError):
            write_frame(self._orders.fileno(), question)

    def answer(self, seconds: float) -> Any:
        """The next answer that comes through the pipe; `Told` if there is none in time."""
        deadline = time.monotonic() + seconds
        while True:
            if (frame := self._frames.next()) is not None:
                return frame[0]
            ready, _, _ = select.select([self._replies], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise Told(self.lost(True, seconds))
            if not self._frames.read():
                raise Told(self.lost(False))

    def lost(self, hung: bool, seconds: float | None = None) -> str:
        """There will be no more answers: the process is gone, or goes now. Says what happened."""
        assert self._process is not None
        if hung:
            self._process.kill()
        code = self._process.wait()
        self.records()
        if hung:
            text = f"no answer within {seconds or self.deadline:g} s (hung); its process was killed"
        elif code < 0:
            text = f"its process died of signal {-code} ({_signal_name(-code)})"
        else:
            text = f"its process exited with code {code}"
        if self._restarts and not self._left:
            text += f", after it had been started anew {self._restarts} time(s)"
        return text + self._last_words()

    def renewed(self, why: str) -> tuple[int, int, int]:
        """Another process in the place of one that was lost; the link to it."""
        self._left -= 1
        self.ended(patience=0.0)
        count = self._restarts - self._left
        log.warning(
            "unit '%s': %s. Started anew (%d of %d)",
            self.name, why, count, self._restarts, extra={"unit": self.name},
        )  # fmt: skip
        self._begin()
        return self.link

    def records(self) -> None:
        """Hand on the log records that are new."""
        self._heard.hand_on()

    def ended(self, patience: float = LEAVING) -> None:
        """Let go of the process, which ends by itself or is killed. A second call does nothing."""
        process, self._process = self._process, None
        if process is not None:
            self._lifeline.close()
            try:
                process.wait(patience)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            self.records()
            self._hand_on_output()
        self._held.close()

    # ---------------------------------------------------------------- what it printed

    def _last_words(self) -> str:
        fd = self._output.fileno()
        size = os.fstat(fd).st_size
        lines = os.pread(fd, 4096, max(0, size - 4096)).decode(errors="replace").splitlines()
        last = [line for line in lines if line.strip()][-LAST_LINES:]
        return "".join(["; its last output:", *(f"\n    {line[:200]}" for line in last)]) if last else ""

    def _hand_on_output(self) -> None:
        out = logging.getLogger(f"upbeat.output.{self.name}")
        if not out.isEnabledFor(logging.INFO):
            return
        self._output.seek(0)
        for line in self._output:
            out.info("%s", line.decode(errors="replace").rstrip("\n"), extra={"unit": self.name})


def _pipe(held: contextlib.ExitStack) -> tuple[FileIO, FileIO]:
    """Where to read and where to write."""
    reading, writing = os.pipe()
    first = held.enter_context(FileIO(reading, "rb"))
    return first, held.enter_context(FileIO(writing, "wb"))


def _memory(size: int) -> FileIO | IO[bytes]:
    """A file in memory that has no name, so that nothing is left of it whatever happens."""
    file = FileIO(os.memfd_create("upbeat"), "r+b") if hasattr(os, "memfd_create") else _file()
    file.truncate(size)
    return file


def _file() -> IO[bytes]:
    """One on disk that has no name either."""
    return tempfile.TemporaryFile(buffering=0)  # closed by whoever holds it


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"


def room_for(ports: Sequence[Port]) -> int:
    """The bytes that values need at once; what is larger travels in pieces."""
    most = 0
    for port in ports:
        courses = 1 + MAX_DEGREE if port.causality is Causality.INPUT else 1
        most = max(most, 8 * (port.cells + 1) * courses)
    return min(max(most, _LEAST_ROOM), _MOST_ROOM)
