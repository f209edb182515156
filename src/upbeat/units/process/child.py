"""The process of one unit: started, listened to, and always ended."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import IO, Any

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

from upbeat.core.ports import Causality, Port
from upbeat.core.scratch import end_users, make_folder, remove_folder
from upbeat.units.inputs import MAX_DEGREE
from upbeat.units.process.wire import (
    BrokenFrame,
    Frames,
    RecordReader,
    RemoteError,
    listening,
    read_reply,
    write_order,
)

SERVER = "upbeat.engine.serve"
"""The program of the process. It makes the unit as an engine would, so it lives with the engines."""
_BOOT = (
    "import json, sys; sys.path[:], package = json.loads(sys.argv[1]); import upbeat; "
    f"upbeat.__path__[:] = package; from {SERVER} import main; main()"
)

FOLDERS: list[str] = []
"""Folders of scenario files that name Python modules: a process looks for them there first, too."""

STARTING = 60.0
"""Seconds in which Python must have started: no fault of the unit, so no matter of its deadline."""
MAKING = 10.0
"""Seconds that a unit has at least to be made: libraries are loaded then."""
LEAVING = 5.0
"""Seconds that a process has to end by itself when it was asked to."""
LAST_LINES = 5
MAX_OUTPUT = 4 << 20
"""Bytes of what a process has printed that are handed on from its beginning, and as many from its end."""
_HEAD = 64
_MIN_ROOM, _MAX_ROOM = 1 << 16, 1 << 23

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


def _places() -> str:
    """Where modules are found here, and those of Upbeat: its core may lie elsewhere than the rest."""
    package = list(sys.modules["upbeat"].__path__)
    core = getattr(sys.modules.get("upbeat._native"), "__file__", None)
    return json.dumps([sys.path, package if core is None else [*package, str(Path(core).parent)]])


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
        if fcntl is not None:  # so that after a cut what follows comes right behind
            fcntl.fcntl(self._output, fcntl.F_SETFL, fcntl.fcntl(self._output, fcntl.F_GETFL) | os.O_APPEND)
        records = held.enter_context(_file())
        self._heard = RecordReader(records.fileno())
        self._folder = make_folder()  # what a killed process leaves behind goes with it
        held.callback(remove_folder, self._folder)
        passed = [file.fileno() for file in (orders, replies, lifeline, self._memory, records)]
        self._process = subprocess.Popen(  # noqa: S603 - ourselves
            [sys.executable, "-c", _BOOT, _places(), *map(str, passed), str(self._size)],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._output,
            pass_fds=passed,
            env={**os.environ, "TMPDIR": str(self._folder)},
            process_group=0,  # a unit that kills its group, or starts others in it, is alone with them
        )
        for end in (orders, replies, lifeline):  # so that the process alone holds them
            end.close()
        self._frames = Frames(self._replies.fileno(), read_reply)

    def _shake_hands(self) -> None:
        order = self._order
        level = listening(order.name)
        with contextlib.suppress(BrokenPipeError):
            write_order(
                self._orders.fileno(),
                (order.name, order.start, order.model, order.slopes, order.core, level, tuple(FOLDERS)),
            )
        self.answer(STARTING)
        said = self.answer(max(self.deadline, MAKING))
        self.records()
        match said:
            case ["failed", str(why)]:
                raise RemoteError(why)
            case ["ready", [bool(), bool(), bool(), bool()] as calls]:
                self.calls = tuple(calls)
            case _:
                raise RemoteError(self.spoiled())

    # ---------------------------------------------------------------- what the client asks

    @property
    def link(self) -> tuple[int, int, int]:
        """The shared memory, its size, and the number of the process."""
        assert self._process is not None
        return self._memory.fileno(), self._size, self._process.pid

    def ask(self, question: Any) -> None:
        """Send a question through the pipe."""
        with contextlib.suppress(BrokenPipeError):
            write_order(self._orders.fileno(), question)

    def answer(self, seconds: float) -> Any:
        """The next answer that comes through the pipe; `RemoteError` if there is none in time."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                frame = self._frames.next()
            except BrokenFrame:
                raise RemoteError(self.spoiled()) from None
            if frame is not None:
                return frame[0]
            ready, _, _ = select.select([self._replies], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise RemoteError(self.lost(True, seconds))
            if not self._frames.read():
                raise RemoteError(self.lost(False))

    def spoiled(self) -> str:
        """What came was no answer, so nothing that comes can be trusted: ends the process, and says so."""
        self.lost(True)
        return "its process gave an answer that is none; its process was ended" + self._last_words()

    def lost(self, hung: bool, seconds: float | None = None) -> str:
        """There will be no more answers: the process is gone, or goes now. Says what happened."""
        assert self._process is not None
        if hung:
            self._process.kill()
        code = self._reaped(self._process)
        self.records()
        if not hung and code == -signal.SIGABRT and (raised := _EXCEPTION.search(self._printed_last())):
            words = b": ".join(part for part in raised.groups() if part).decode(errors="replace")
            text = f"it raised a C++ exception ({words}), which ended its process"
        elif hung:
            text = f"no answer within {seconds or self.deadline:g} s (hung); its process was killed"
        else:
            text = _end_text(code)
        if self._restarts and not self._left:
            text += f", after it had been restarted {self._restarts} time(s)"
        return text + self._last_words()

    def renewed(self, why: str) -> tuple[int, int, int]:
        """Another process in the place of one that was lost; the link to it."""
        self._left -= 1
        self.ended(patience=0.0)
        count = self._restarts - self._left
        log.warning(
            "unit '%s': %s. Restarted (%d of %d)",
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
            known = process.returncode is not None or patience == 0.0
            if not _has_ended(process, patience):
                process.kill()
            code = self._reaped(process)
            if code and not known:
                self.ended_badly(_end_text(code))
            end_users([self._folder])  # those that have left its group
            self.records()
            self._hand_on_output()
        self._held.close()

    def ended_badly(self, why: str) -> None:
        """It was asked to end, and something went wrong with that: the results are there already."""
        log.warning(
            "unit '%s' failed when it was ended: %s", self.name, why, extra={"unit": self.name}
        )  # fmt: skip

    def _reaped(self, process: subprocess.Popen[bytes]) -> int:
        """How a process has ended that ends now, together with all in its group."""
        if process.returncode is None and hasattr(os, "killpg"):
            _has_ended(process, None)
            # Until it is asked how it ended, its number is not given to another group.
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
        return process.wait()

    # ---------------------------------------------------------------- what it printed

    def _last_words(self) -> str:
        lines = self._printed_last().decode(errors="replace").splitlines()
        last = [line for line in lines if line.strip()][-LAST_LINES:]
        return "".join(["; its last output:", *(f"\n    {line[:200]}" for line in last)]) if last else ""

    def _printed_last(self) -> bytes:
        fd = self._output.fileno()
        return os.pread(fd, 4096, max(0, os.fstat(fd).st_size - 4096))

    def _hand_on_output(self) -> None:
        out = logging.getLogger(f"upbeat.output.{self.name}")
        if not out.isEnabledFor(logging.INFO):
            return
        fd = self._output.fileno()
        size = os.fstat(fd).st_size
        printed = os.pread(fd, MAX_OUTPUT, 0)
        if size > 2 * MAX_OUTPUT:
            printed += b"\n... (too much output: a part was cut here) ...\n"
        if size > MAX_OUTPUT:
            printed += os.pread(fd, MAX_OUTPUT, max(MAX_OUTPUT, size - MAX_OUTPUT))
        for line in printed.splitlines():
            out.info("%s", line[:MAX_LINE].decode(errors="replace"), extra={"unit": self.name})


MAX_LINE = 1 << 16
_EXCEPTION = re.compile(
    rb"terminate called after throwing an instance of '([^'\n]+)'(?:\s+what\(\):  ([^\n]*))?"
)
"""What the C++ library prints when an exception is not caught."""


def _has_ended(process: subprocess.Popen[bytes], patience: float | None) -> bool:
    """Whether a process ends within so many seconds, None: however long it takes. It is not reaped."""
    if not hasattr(os, "waitid"):
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            return False
        return True
    if process.returncode is not None:
        return True
    if patience is None:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        return True
    deadline, delay = time.monotonic() + patience, 0.0005
    while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        delay = min(2 * delay, left, 0.02)
        time.sleep(delay)
    return True


def _pipe(held: contextlib.ExitStack) -> tuple[FileIO, FileIO]:
    """Where to read and where to write."""
    reading, writing = os.pipe()
    first = held.enter_context(FileIO(reading, "rb"))
    return first, held.enter_context(FileIO(writing, "wb"))


def _memory(size: int) -> FileIO | IO[bytes]:
    """A file in memory that has no name, so that nothing is left of it whatever happens.

    Where the system can do it, its size is fixed for good: whoever looks at memory whose file has become
    shorter dies.
    """
    if not hasattr(os, "memfd_create") or fcntl is None:
        file = _file()
        file.truncate(size)
        return file
    memory = FileIO(os.memfd_create("upbeat", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING), "r+b")
    memory.truncate(size)
    with contextlib.suppress(OSError):  # old kernels
        fcntl.fcntl(memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return memory


def _file() -> IO[bytes]:
    """One on disk that has no name either."""
    return tempfile.TemporaryFile(buffering=0)  # closed by its holder


def _end_text(code: int) -> str:
    if code < 0:
        return f"its process died of signal {-code} ({_signal_name(-code)})"
    return f"its process exited with code {code}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"


def room_for(ports: Sequence[Port]) -> int:
    """The bytes that values need at once; what is larger travels in pieces."""
    size = 0
    for port in ports:
        trajectories = 1 + MAX_DEGREE if port.causality is Causality.INPUT else 1
        size = max(size, 8 * (port.cells + 1) * trajectories)
    return min(max(size, _MIN_ROOM), _MAX_ROOM)
