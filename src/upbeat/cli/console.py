"""The terminal: what commands print, progress, and what is shown during a run."""

from __future__ import annotations

import codecs
import logging
import math
import os
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

# ----------------------------------------------------------------------------------------------------
# Standard output and error as they are: in any encoding, full, closed, or gone.

_PLAIN = {
    "─": "-",
    "–": "-",
    "…": "...",
    "→": "->",
    "›": ">",
    "•": "*",
    "·": "*",
    "×": "x",
    "′": "'",
    "τ": "tau",
    "²": "^2",
    "³": "^3",
    "°": "deg ",
    "µ": "u",
}


class OutputLost(Exception):
    """Standard output takes nothing any more, though it may still be read."""


def prepare() -> None:
    """Let everything be written: in plain characters where the encoding has no others."""
    codecs.register_error("upbeat.plain", _plain)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the parent process
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="upbeat.plain")
    warnings.showwarning = _warn


@contextmanager
def to_ourselves(wanted: bool) -> Iterator[None]:
    """Inside, standard output is for `say` alone: what FMUs print to it goes to standard error."""
    try:
        real = os.dup(1) if wanted and sys.stdout.fileno() == 1 else None
    except (OSError, ValueError):  # closed, or no file at all: then nothing can be printed to it either
        real = None
    if real is None:
        yield
        return
    before = sys.stdout
    before.flush()
    with suppress(OSError):
        os.dup2(2, 1)
    sys.stdout = os.fdopen(real, "w", encoding=before.encoding, errors=before.errors)
    try:
        yield
    finally:
        import ctypes

        with suppress(OSError, AttributeError, TypeError):
            ctypes.CDLL(None).fflush(None)  # what C code printed may still wait in its library
        os.dup2(real, 1)
        ours, sys.stdout = sys.stdout, before
        ours.close()


def _warn(message: Warning | str, *where: Any, **more: Any) -> None:
    """A warning is for the user, who does not care which line of ours gave it."""
    complain(f"upbeat: warning: {message}")


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    return "".join(_PLAIN.get(character, "?") for character in text), error.end


def say(text: str) -> None:
    """A line on standard output, now."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputLost(error.strerror or str(error)) from error


def complain(text: str) -> None:
    """A line on standard error; if that is closed, it is lost."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        hush("stderr")


def hush(name: str) -> None:
    """Send what is left in a stream nowhere, so that Python does not complain at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), getattr(sys, name).fileno())


# ----------------------------------------------------------------------------------------------------
# Messages of FMUs, complaints always and everything with --fmu-log; and remarks about runs and SSPs.


class _FmuMessages(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        time = getattr(record, "time", math.nan)
        where = f" at t = {time:.9g}" if not math.isnan(time) else ""
        who = getattr(record, "unit", "") or "an FMU"
        kind = f" [{category}]" if (category := getattr(record, "category", "")) else ""
        complain(f"upbeat: {who}{where}{kind}: {record.getMessage()}")


class _Remarks(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        complain(f"upbeat: {record.getMessage()}")


def route_messages(*, all_of_fmus: bool) -> None:
    """Route the messages of FMUs, and remarks about SSPs and runs, to standard error."""
    _route("upbeat.fmu", _FmuMessages(), logging.DEBUG if all_of_fmus else logging.WARNING)
    for name in ("upbeat.ssp", "upbeat.run"):
        _route(name, _Remarks(), logging.WARNING)


def _route(name: str, handler: logging.Handler, level: int) -> None:
    logger = logging.getLogger(name)
    logger.setLevel(level)
    logger.propagate = False
    for other in list(logger.handlers):
        if type(other) is type(handler):
            logger.removeHandler(other)
    logger.addHandler(handler)


# ----------------------------------------------------------------------------------------------------
# How far something has come that takes its time: one line on a terminal, one now and then elsewhere.

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
        except OSError:  # the display is gone: no reason to end
            self._quiet = True
