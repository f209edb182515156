"""The terminal: what commands print, progress, and what is shown while somebody waits."""

from __future__ import annotations

import codecs
import ctypes
import logging
import math
import os
import shutil
import sys
import time
import warnings
from collections import deque
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
    """Standard output takes nothing any more, though somebody may still want it."""


def prepare() -> None:
    """Let everything be written: in plain characters where the encoding has no others."""
    codecs.register_error("upbeat.plain", _plain)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by whoever started us
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="upbeat.plain")
    warnings.showwarning = _warn


@contextmanager
def to_ourselves(wanted: bool) -> Iterator[None]:
    """Inside, standard output is for `say` alone: what FMUs print to it goes to standard error."""
    try:
        real = os.dup(1) if wanted and sys.stdout.fileno() == 1 else None
    except (OSError, ValueError):  # closed, or no file at all: then nobody can print to it either
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
    """A line on standard error; if that is gone, nobody can be told."""
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
        except OSError:  # nobody looks any more: no reason to end
            self._quiet = True


# ----------------------------------------------------------------------------------------------------
# Progress of a run: one updating line on a terminal, a plain line now and then elsewhere.

_REDRAW = 0.1
_PATIENCE = 5.0
_WINDOW = 10.0
"""Seconds of the recent past that the rate is taken from: an adaptive run changes its pace."""


class Progress:
    """Shows how far a run from `start` to `stop` has come; call `update` with the simulated time.

    The line of a run that has reached its end stays, however short the run was; the unfinished line
    of a run that failed is taken away, so that the message starts on a clean line.
    """

    def __init__(
        self,
        start: float,
        stop: float,
        *,
        stream: TextIO,
        quiet: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._start = start
        self._stop = stop
        self._stream = stream
        self._clock = clock
        self._quiet = quiet
        self._terminal = not quiet and stream.isatty()
        self._blocks = _can_encode(stream, "█░…·")
        self._drawn = self._closed = False
        self._reached = start
        self._tenth = 0
        self._began = self._shown = clock()
        self._past = deque([(self._began, start)])

    def update(self, t: float) -> None:
        """Note that the run has reached `t`."""
        if self._quiet:
            return
        now = self._clock()
        self._reached = t
        if now - self._past[-1][0] >= _REDRAW:
            self._past.append((now, t))
            while now - self._past[0][0] > _WINDOW and len(self._past) > 2:
                self._past.popleft()
        if self._terminal:
            if now - self._shown >= _REDRAW:
                self._draw(self._line(t, now))
                self._shown = now
            return
        tenth = int(10 * self._part(t) + 1e-9)
        if self._tenth < tenth < 10 and now - self._shown >= _PATIENCE:
            self._write(f"{10 * tenth:3d} %  {self._facts(t, now)}\n")
            self._tenth = tenth
            self._shown = now

    def close(self) -> None:
        """Leave the line of a finished run, take that of an unfinished one away."""
        if self._quiet:
            return
        now = self._clock()
        self._past.append((now, self._reached))
        if self._reached >= self._stop and not self._closed:
            if self._terminal:
                self._draw(self._line(self._reached, now) + "\n")
            else:
                self._write(f"100 %  {self._facts(self._reached, now)}\n")
        elif self._drawn:
            self._write("\r\x1b[K")
        self._drawn = False
        self._closed = True

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _part(self, t: float) -> float:
        length = self._stop - self._start
        return min(1.0, max(0.0, (t - self._start) / length)) if length > 0 else 1.0

    def _line(self, t: float, now: float) -> str:
        full, empty = "█░" if self._blocks else "#-"
        facts = self._facts(t, now)
        columns = shutil.get_terminal_size().columns - 1
        width = min(30, columns - len(facts) - 9)
        part = self._part(t)
        bar = full * round(part * width) + empty * (width - round(part * width)) + "  " if width >= 5 else ""
        return f"{int(100 * part + 1e-9):3d} %  {bar}{facts}"[:columns]

    def _facts(self, t: float, now: float) -> str:
        dot = "·" if self._blocks else "-"
        rate = self._rate(t, now)
        facts = f"t = {t:.6g} of {self._stop:.6g} s"
        if rate > 0 and t >= self._stop:
            facts += f" {dot} {_short(rate)} s/s"
        elif rate > 0:
            left = (self._stop - t) / rate
            facts += f" {dot} {_short(rate)} s/s {dot} {_duration(left)} left"
        return facts

    def _rate(self, t: float, now: float) -> float:
        before, where = self._past[0]
        return (t - where) / (now - before) if now > before else 0.0

    def _draw(self, line: str) -> None:
        self._write("\r\x1b[K" + line)
        self._drawn = True

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:  # nobody looks any more: no reason to end the run
            self._quiet = True


def _can_encode(stream: TextIO, text: str) -> bool:
    try:
        text.encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _short(rate: float) -> str:
    """A rate in three digits: 0.0123, 4.56, 789, 12.3k, 4.56M."""
    for size, mark in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if rate >= 0.9995 * size:  # 999.9 would print as 1e+03
            return f"{rate / size:.3g}{mark}"
    return f"{rate:.3g}"


def _duration(seconds: float) -> str:
    """Remaining time for people: 0:07, 12:05, 3:00:00, or days."""
    if seconds > 99 * 86400:
        return "more than 99 days"
    whole = round(seconds)
    days, rest = divmod(whole, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    if days:
        return f"{days} d {hours} h"
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
