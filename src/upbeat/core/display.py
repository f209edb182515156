"""Showing things to people who wait or look: progress, and values as a notebook shows them.

What values look like is written in the layer `report`, above all of those that are shown. This is the way up.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from types import TracebackType
from typing import Any, TextIO

# ----------------------------------------------------------------------------------------------------
# Values.


class Displayed:
    """A value that `str` tells in one sentence, and that notebooks show as a table or a picture.

    See `upbeat.report.notebook` for both.
    """

    __slots__ = ()

    def __str__(self) -> str:
        return str(_above("sentence", self))

    def _repr_html_(self) -> str:
        return str(_above("html", self))


def _above(name: str, value: object) -> Any:
    """What the package as a whole, which alone knows all layers, says about a value."""
    return sys.modules["upbeat"]._shown(name, value)


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
        except OSError:  # the display is gone: no reason to end the run
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


# ----------------------------------------------------------------------------------------------------
# Progress in a notebook: the same line, in the output of a cell. IPython is there already, or this is none.


class _Cell:
    """A terminal of one line, in the output of a cell. What is over before it was drawn shows nothing."""

    encoding = "utf-8"

    def __init__(self, display: Callable[..., Any]) -> None:
        self._display, self._handle = display, None

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> None:
        from html import escape  # with a table of two thousand names, for this alone

        line = text.removeprefix("\r\x1b[K")
        if self._handle is None and (line.endswith("\n") or not line):
            return
        line = line.strip()
        data = {"text/plain": line, "text/html": f"<pre style='margin:0'>{escape(line)}</pre>"}
        if self._handle is None:
            self._handle = self._display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)

    def flush(self) -> None:
        pass


def notebook_progress(start: float, stop: float) -> Progress | nullcontext[None]:
    """Progress in the output of the present cell; nothing anywhere else."""
    python = sys.modules.get("IPython")
    shell = None if python is None else python.get_ipython()
    if not hasattr(shell, "kernel"):  # IPython on a terminal has none, either
        return nullcontext()
    from IPython.display import display

    return Progress(start, stop, stream=_Cell(display))  # type: ignore[arg-type]
