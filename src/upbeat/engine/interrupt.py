"""Ctrl-C during a run: asked for once it ends the step, asked for twice it hits wherever it is.

The native core sees it at the next step of a solver, so that a communication step that takes hours need not
end first: what that step has done so far is lost. Elsewhere the step ends before.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import FrameType


def heeds(machine: object) -> bool:
    """Whether a machine can come back in the middle of a step: its `heed_interrupts` is a context in which
    Ctrl-C ends what it does."""
    return hasattr(machine, "heed_interrupts")


@contextmanager
def interruptible(machine: object) -> Iterator[threading.Event]:
    """Turns the first Ctrl-C into a flag, set as soon as the machine comes back. The second one hits."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked  # only the main thread can handle signals
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    previous = signal.signal(signal.SIGINT, handle)
    try:
        with machine.heed_interrupts() if heeds(machine) else nullcontext():  # type: ignore[attr-defined]
            yield asked
    finally:
        signal.signal(signal.SIGINT, previous)
