"""SIGTERM, which schedulers and `timeout` send, ends a command as Ctrl-C does: in order, results kept."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from upbeat.cli.exits import SIGTERM, Exit
from upbeat.core.scratch import remove_all

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
    """Whether the command has ended meanwhile: nobody can write any more."""
    os.set_blocking(reading, False)
    try:
        while os.read(reading, 64):
            pass
    except BlockingIOError:
        return False
    return True
