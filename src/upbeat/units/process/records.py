"""Log records on their way from the process of a unit to the loggers here.

They are written to a file that both processes hold, before the call that logs returns: what was said just
before a crash is there, too. Nobody waits for the other side to read. The unit may write there as well: what
is no record is left out.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from typing import Any

_USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""The attributes that every record has; others were given as `extra`."""
_LONGEST = 1 << 23
"""Characters of a record that are handed on."""
_PIECE, _MOST = 1 << 16, 1 << 26
"""Bytes that are read at once: twice as many as long as no record ends there, up to more than any has."""


def listening(unit: str) -> int:
    """The lowest level at which anybody here listens to a unit's records."""
    names = ("upbeat", "upbeat.fmu", f"upbeat.fmu.{unit}")
    return min(logging.getLogger(name).getEffectiveLevel() for name in names)


class Telling(logging.Handler):
    """In the process of the unit: every record becomes a line of the file, and then `told` is called."""

    def __init__(self, file: int, told: Callable[[], None]) -> None:
        super().__init__()
        self._file = file
        self.told = told

    def emit(self, record: logging.LogRecord) -> None:
        try:
            os.write(self._file, _line(record))
            self.told()
        except Exception:  # noqa: BLE001  # as every handler of logging: a record must not end a run
            self.handleError(record)


def _line(record: logging.LogRecord) -> bytes:
    text = record.getMessage()
    if record.exc_info:
        text += "\n" + logging.Formatter().formatException(record.exc_info)
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}… ({len(text)} characters in all)"
    extra = {k: v for k, v in vars(record).items() if k not in _USUAL and _plain(v)}
    parts = {"name": record.name, "levelno": record.levelno, "created": record.created, "msg": text}
    return json.dumps({**parts, "extra": extra}).encode() + b"\n"


def _plain(value: Any) -> bool:
    return value is None or isinstance(value, (str, int, float, bool))


class Heard:
    """Here: reads the lines that are new, and hands the records to the loggers they were meant for."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._at = 0

    def hand_on(self) -> None:
        """All records that have been written completely."""
        piece = _PIECE
        while more := os.pread(self._file, piece, self._at):
            *lines, rest = more.split(b"\n")
            if not lines and len(more) < _MOST:
                if len(more) < piece:
                    return
                piece = min(2 * piece, _MOST)
                continue
            if not lines:  # whatever this is: nobody listens any more
                self._at = os.fstat(self._file).st_size
                return
            self._at += len(more) - len(rest)
            for line in lines:
                if line.strip(b"\0"):
                    _hand_on(line)


def _hand_on(line: bytes) -> None:
    try:
        told = json.loads(line)
        name, level, created, text = (told[key] for key in ("name", "levelno", "created", "msg"))
        extra = {key: value for key, value in told["extra"].items() if key not in _USUAL and _plain(value)}
        sound = isinstance(name, str) and isinstance(text, str) and isinstance(created, float)
        if not (sound and type(level) is int and name.partition(".")[0] == "upbeat"):
            return
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return
    logger = logging.getLogger(name)
    if logger.isEnabledFor(level):
        record = logging.makeLogRecord(
            {
                "name": name,
                "levelno": level,
                "levelname": logging.getLevelName(level),
                "msg": "%s",
                "args": (text,),
                "created": created,
                **extra,
            }
        )
        logger.handle(record)
