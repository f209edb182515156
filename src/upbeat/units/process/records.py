"""Log records on their way from the process of a unit to the loggers here.

They are written to a file that both processes hold, before the call that logs returns: what was said just
before a crash is there, too. Nobody waits for the other side to read.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from typing import Any

_USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""The attributes that every record has; others were given as `extra`."""


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
        more = os.pread(self._file, os.fstat(self._file).st_size - self._at, self._at)
        *lines, rest = more.split(b"\n")
        self._at += len(more) - len(rest)
        for line in lines:
            _hand_on(json.loads(line))


def _hand_on(told: dict[str, Any]) -> None:
    level, logger = told["levelno"], logging.getLogger(told["name"])
    if logger.isEnabledFor(level):
        record = logging.makeLogRecord(
            {
                "name": told["name"],
                "levelno": level,
                "levelname": logging.getLevelName(level),
                "msg": "%s",
                "args": (told["msg"],),
                "created": told["created"],
                **told["extra"],
            }
        )
        logger.handle(record)
