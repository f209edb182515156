"""How commands end: exit codes, failures in words, and what is said when the process is ended."""

from __future__ import annotations

import enum
import json
import os
import signal
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from upbeat.cli.console import complain, say
from upbeat.core.errors import (
    Interrupted,
    InvalidInput,
    MissingExtra,
    RunError,
    UnitError,
    error_data,
)
from upbeat.core.scratch import remove_all

if TYPE_CHECKING:
    from upbeat.trace.trace import Trace


# ----------------------------------------------------------------------------------------------------
# Exit codes of the command line, and which error gets which.


class Exit(enum.IntEnum):
    """What the shell sees. The numbers are documented and do not change."""

    OK = 0
    """The command did what it was asked to."""
    INTERNAL = 1
    """A defect of Upbeat itself: please report it."""
    USAGE = 2
    """The command line is wrong."""
    INVALID = 3
    """The scenario, a file or a value is wrong; nothing was run."""
    FAILED = 4
    """The run stopped before its end; the results so far are kept."""
    MISSING = 5
    """An optional part is not installed; the message says what to type."""
    OUTPUT = 6
    """Standard output could not be written; files that the command was asked for are complete."""
    INTERRUPTED = 130
    """Ctrl-C; the results so far are kept."""
    TERMINATED = 143
    """SIGTERM; the results so far are kept."""


SIGTERM = threading.Event()
"""Set when it was SIGTERM that interrupted the command, and not Ctrl-C."""


def exit_for(error: BaseException) -> Exit:
    """The exit code for an error that reached the top."""
    match error:
        case KeyboardInterrupt():
            return Exit.TERMINATED if SIGTERM.is_set() else Exit.INTERRUPTED
        case InvalidInput():
            return Exit.INVALID
        case RunError():
            return Exit.FAILED
        case MissingExtra():
            return Exit.MISSING
    return Exit.INTERNAL


# ----------------------------------------------------------------------------------------------------
# What is said when a unit takes the whole process along: by a crash in its C code, or by calling exit().

_HOW = (
    "run again with --isolation process to learn which one and to keep the results; what was written so far "
    "is kept\n"
)


@contextmanager
def spoken() -> Iterator[None]:
    """Inside, faults are announced before they end the process, and exit() ends it as a failed run.

    The handler is in the core: Python's own run between two instructions, which there will not be any more,
    and `faulthandler` shows a page of Upbeat's insides. Without the core nothing is said.
    """
    try:
        from upbeat import _native as core
    except ImportError:
        yield
        return
    core.announce_faults("upbeat: a unit crashed (signal ", f"); {_HOW}")
    core.forbid_exit(f"upbeat: a unit ended the process by calling exit(); {_HOW}", Exit.FAILED)
    try:
        yield
    finally:
        core.forbid_exit("", 0)
        core.leave_faults_alone()


# ----------------------------------------------------------------------------------------------------
# SIGTERM, which schedulers and `timeout` send, ends a command as Ctrl-C does: in order, results kept.

PATIENCE = 5.0
"""Seconds for the step that is under way. A unit that hangs would else keep the process for ever."""


@contextmanager
def orderly() -> Iterator[None]:
    """Inside, SIGTERM does what Ctrl-C would do just there; if nothing comes of it, the process ends."""
    SIGTERM.clear()
    if threading.current_thread() is not threading.main_thread() or os.name != "posix":
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        SIGTERM.set()
        ctrl_c = signal.getsignal(signal.SIGINT)
        if not callable(ctrl_c):  # started in the background, where shells switch Ctrl-C off
            raise KeyboardInterrupt
        ctrl_c(signal.SIGINT, frame)

    # Python calls `handle` between two of its own instructions: not while a unit hangs in its C code.
    # The byte in the pipe comes at once, to a thread that needs nothing of the main one.
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    previous = signal.signal(signal.SIGTERM, handle)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(reading,), daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        signal.signal(signal.SIGTERM, previous)
        os.close(writing)  # and the thread ends


def _watch(reading: int) -> None:
    try:
        while said := os.read(reading, 64):
            if signal.SIGTERM in said:
                time.sleep(PATIENCE)
                if not _over(reading):
                    with suppress(OSError):
                        os.write(2, b"upbeat: terminated; the step under way did not come to its end\n")
                    remove_all()
                    os._exit(Exit.TERMINATED)
                return
    finally:
        os.close(reading)


def _over(reading: int) -> bool:
    """Whether the command has ended meanwhile: nothing can be written any more."""
    os.set_blocking(reading, False)
    try:
        while os.read(reading, 64):
            pass
    except BlockingIOError:
        return False
    return True


# ----------------------------------------------------------------------------------------------------
# What went wrong: in words on standard error for people, as one object for programs.


def report_error(error: BaseException, *, as_json: bool, out: Path | None = None) -> None:
    """Say what happened; `out` is where a run that has begun was writing to."""
    trace = error.trace if isinstance(error, (RunError, Interrupted)) else None
    kept = _kept(out) if out is not None and trace is not None and len(trace) else None
    if as_json:
        so_far = {} if trace is None else progress_data(trace) | {"out": kept and str(kept)}
        say(json.dumps({"ok": False, **so_far, "error": as_data(error)}))
        return
    if kept is not None:
        complain(f"upbeat: the results so far are in {kept}")
    if frames := _users_frames(error):
        complain(f"Traceback of the unit:\n{frames}".rstrip())
    complain(f"upbeat: {error}" if str(error) else "upbeat: interrupted")


def _kept(out: Path) -> Path | None:
    from upbeat.trace.files.sinks import kept_in

    return kept_in(out)


def progress_data(trace: Trace) -> dict[str, Any]:
    """How far a run has come."""
    return {
        "outcome": trace.outcome.value,
        "time": trace.span[1] if len(trace) else None,
        "steps": trace.steps.count,
        "rows": len(trace),
        "events": trace.event_counts,
    }


def as_data(error: BaseException) -> dict[str, Any]:
    """An error as plain data."""
    data = error_data(error) | {"exit": int(exit_for(error))}
    return data | ({"traceback": _users_frames(error) or None} if isinstance(error, UnitError) else {})


def _users_frames(error: BaseException) -> str:
    """The traceback of an exception in a user's unit, without the frames of Upbeat around it."""
    cause = error.__cause__ if isinstance(error, UnitError) else None
    if cause is None:
        return ""
    package = Path(__file__).parents[1]
    frames = traceback.extract_tb(cause.__traceback__)
    own = [frame for frame in frames if package not in Path(frame.filename).parents]
    return "".join(traceback.format_list(own))
