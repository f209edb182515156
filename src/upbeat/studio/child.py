"""Processes of the studio's own: looking, running and judging happen here, never in the server.

    python -m upbeat.studio.child look|run|job

A message is four bytes with its length and a JSON text, on standard input and output. What units and FMUs
print goes to standard error, which the server keeps as the log. The end of standard input is the end of the
process.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import struct
import sys
import threading
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, TypedDict

from upbeat.core.errors import InvalidInput, UpbeatError

LENGTH = struct.Struct("<I")


class Channel:
    """The two ends of the pipe to the server. What others write to standard output is not among it."""

    def __init__(self) -> None:
        self._in: BinaryIO = os.fdopen(os.dup(0), "rb")
        self._out: BinaryIO = os.fdopen(os.dup(1), "wb")
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)
        self._turn = threading.Lock()

    def read(self) -> dict[str, Any] | None:
        """The next message; None at the end."""
        head = self._in.read(LENGTH.size)
        if len(head) < LENGTH.size:
            return None
        data = self._in.read(LENGTH.unpack(head)[0])
        found: dict[str, Any] = json.loads(data)
        return found

    def write(self, message: Mapping[str, Any]) -> None:
        """Send one. Nobody being there any more is no failure: the end of the input says so, too."""
        data = json.dumps(finite(message), default=str, allow_nan=False).encode()
        with self._turn, contextlib.suppress(BrokenPipeError):
            self._out.write(LENGTH.pack(len(data)) + data)
            self._out.flush()


def finite(data: Any) -> Any:
    """Plain data that JSON can hold: numbers that are none are null."""
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, Mapping):
        return {str(key): finite(item) for key, item in data.items()}
    if isinstance(data, (list, tuple)):
        return [finite(item) for item in data]
    if hasattr(data, "tolist"):
        return finite(data.tolist())
    return data


def failure(error: BaseException) -> dict[str, Any]:
    """An error as the page shows it."""
    if isinstance(error, UpbeatError):
        what, _, hint = str(error).partition("\n")
        return {"error": what, "hint": hint.strip() or None}
    return {
        "error": f"a defect of Upbeat itself, not of your files ({type(error).__name__}: {error})",
        "hint": None,
    }


# ----------------------------------------------------------------------------------------------------
# Looking: requests one after the other.


def look(channel: Channel) -> None:
    """Answer questions about scenarios until the server goes away."""
    import_module("upbeat.studio.look").warm()  # before the first question, rather than with it
    while (asked := channel.read()) is not None:
        try:
            answer = _OPS[str(asked["op"])](asked)
        except (Exception, SystemExit) as error:  # noqa: BLE001  # units of Python may raise anything
            answer = failure(error)
        channel.write(answer)


class _Where(TypedDict):
    path: Path
    text: str
    python: bool
    root: Path


def _where(asked: Mapping[str, Any]) -> _Where:
    return {
        "path": Path(asked["file"]),
        "text": str(asked["text"]),
        "python": bool(asked["python"]),
        "root": Path(asked["root"]),
    }


def _view(asked: Mapping[str, Any]) -> dict[str, Any]:
    from upbeat.studio.look import view

    return view(asked, **_where(asked))


def _targets(asked: Mapping[str, Any]) -> dict[str, Any]:
    from upbeat.studio.look import targets

    return targets(str(asked.get("from")), **_where(asked))


def _expression(asked: Mapping[str, Any]) -> dict[str, Any]:
    from upbeat.studio.words import checked

    return checked(asked, **_where(asked))


def _library(asked: Mapping[str, Any]) -> dict[str, Any]:
    from upbeat.studio.library import library

    return library()


def _probe(asked: Mapping[str, Any]) -> dict[str, Any]:
    from upbeat.report.probe import text
    from upbeat.units.fmi.probe import probe

    report = probe(asked["file"], None, float(asked.get("deadline", 30.0)))
    return {"report": report.to_json(), "text": text(report), "usable": report.usable}


_OPS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "view": _view,
    "targets": _targets,
    "expression": _expression,
    "library": _library,
    "probe": _probe,
}


def main() -> None:
    """The entry point: what to do is the first argument."""
    channel = Channel()
    match sys.argv[1:]:
        case ["look"]:
            look(channel)
        case ["run"]:
            from upbeat.studio.running import run

            run(channel)
        case ["job"]:
            from upbeat.studio.judging import job

            job(channel)
        case _:
            raise InvalidInput("this is for the studio's own use: type upbeat studio")


if __name__ == "__main__":
    main()
