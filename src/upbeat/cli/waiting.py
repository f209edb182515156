"""How far something has come that takes its time: one line on a terminal, one now and then elsewhere."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from types import TracebackType
from typing import TextIO

REDRAW, PATIENCE = 0.2, 5.0
"""Seconds between two lines, on a terminal and elsewhere. What is over before shows nothing."""


class Waiting:
    """Call it with a text that says how far one has come. Nothing of it stays on a terminal at the end."""

    def __init__(
        self, stream: TextIO, *, quiet: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream, self._quiet, self._clock = stream, quiet, clock
        self._terminal = not quiet and stream.isatty()
        self._shown, self._drawn = clock(), False

    def __call__(self, text: str) -> None:
        now = self._clock()
        if self._quiet or now - self._shown < (REDRAW if self._terminal else PATIENCE):
            return
        self._shown = now
        if self._terminal:
            self._write("\r\x1b[K" + text[: shutil.get_terminal_size().columns - 1])
            self._drawn = True
        else:
            self._write(f"{text}\n")

    def __enter__(self) -> Waiting:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._drawn:
            self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:  # nobody looks any more: no reason to end
            self._quiet = True
