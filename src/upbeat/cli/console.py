"""Standard output and error as they are: in any encoding, full, closed, or gone."""

from __future__ import annotations

import codecs
import ctypes
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

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
