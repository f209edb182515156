"""What goes through the pipe to a unit in another process: frames, values in them, log records."""

from __future__ import annotations

import json
import logging
import marshal
import os
from collections.abc import Callable
from typing import Any

from upbeat.core.errors import UpbeatError

# ----------------------------------------------------------------------------------------------------
# What a unit in another process said went wrong: already in full words.


class RemoteError(UpbeatError):
    """Carries the words only: the exception itself stayed in the process where it was raised."""


class RemoteEnd(RemoteError):
    """What it said was no failure: it asks to end the run (`EndRequest`)."""


# ----------------------------------------------------------------------------------------------------
# Messages over pipes: plain values, each with its length before it.
#
# What a run sends to a process is believed there. What comes from the process of a unit may be anything,
# since the unit may have written it: it is read as JSON, which can do no harm, and never as something that
# could.

_HEAD = 8
MAX_BYTES = 1 << 33
"""Bytes of a message. Nothing that is meant seriously is longer."""


class BrokenFrame(Exception):
    """What came through the pipe is no message."""


def write_order(pipe: int, value: Any) -> None:
    """Send numbers, texts, bytes, and tuples or lists of them to the process of a unit."""
    _write(pipe, marshal.dumps(value))


def write_reply(pipe: int, value: Any) -> None:
    """Send the same from there; tuples arrive as lists."""
    _write(pipe, json.dumps(value, default=_as_text).encode())


def read_order(data: bytes) -> Any:
    """What `write_order` has sent."""
    return marshal.loads(data)  # noqa: S302 - from the run itself


def read_reply(data: bytes) -> Any:
    """What `write_reply` has sent; `BrokenFrame` if it is something else."""
    try:
        return json.loads(data, object_hook=_as_bytes)
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        raise BrokenFrame(str(error)) from None


def _as_text(value: Any) -> dict[str, str]:
    return {"bytes": bytes(value).hex()}


def _as_bytes(found: dict[str, Any]) -> bytes:
    return bytes.fromhex(found["bytes"])


def _write(pipe: int, body: bytes) -> None:
    rest = memoryview(len(body).to_bytes(_HEAD, "little") + body)
    while rest:
        rest = rest[os.write(pipe, rest) :]


class Frames:
    """What arrives at the end of a pipe, in whatever pieces."""

    def __init__(self, pipe: int, read: Callable[[bytes], Any]) -> None:
        self._pipe = pipe
        self._read = read
        self._bytes = bytearray()

    def read(self) -> bool:
        """Wait for more; False if there will never be any."""
        more = os.read(self._pipe, 1 << 20)
        self._bytes += more
        return bool(more)

    def next(self) -> tuple[Any] | None:
        """The next message, if all of it is there."""
        if len(self._bytes) < _HEAD:
            return None
        size = int.from_bytes(self._bytes[:_HEAD], "little")
        if size > MAX_BYTES:
            raise BrokenFrame(f"a message of {size} bytes")
        if len(self._bytes) < _HEAD + size:
            return None
        value = self._read(bytes(self._bytes[_HEAD : _HEAD + size]))
        del self._bytes[: _HEAD + size]
        return (value,)

    def wait(self) -> tuple[Any] | None:
        """The next message, however long it takes; None at the end of the pipe."""
        while (frame := self.next()) is None:
            if not self.read():
                return None
        return frame


# ----------------------------------------------------------------------------------------------------
# Log records on their way from the process of a unit to the loggers here.
#
# They are written to a file that both processes hold, before the call that logs returns: what was said just
# before a crash is there, too. Writing does not wait for the other side to read. The unit may write there,
# too: what is no record is left out.

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""The attributes that every record has; others were given as `extra`."""
_LONGEST = 1 << 23
"""Characters of a record that are handed on."""
_PIECE, _MAX_PIECE = 1 << 16, 1 << 26
"""Bytes that are read at once: twice as many as long as no record ends there, up to more than any has."""


def listening(unit: str) -> int:
    """The lowest level at which anybody here listens to a unit's records."""
    names = ("upbeat", "upbeat.fmu", f"upbeat.fmu.{unit}")
    return min(logging.getLogger(name).getEffectiveLevel() for name in names)


class RecordSender(logging.Handler):
    """In the process of the unit: every record becomes a line of the file, and then `on_record` is called."""

    def __init__(self, file: int, on_record: Callable[[], None]) -> None:
        super().__init__()
        self._file = file
        self.on_record = on_record

    def emit(self, record: logging.LogRecord) -> None:
        try:
            os.write(self._file, _line(record))
            self.on_record()
        except Exception:  # noqa: BLE001  # as every handler of logging: a record must not end a run
            self.handleError(record)


def _line(record: logging.LogRecord) -> bytes:
    text = record.getMessage()
    if record.exc_info:
        text += "\n" + logging.Formatter().formatException(record.exc_info)
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}… ({len(text)} characters in all)"
    extra = {k: v for k, v in vars(record).items() if k not in _STANDARD and _plain(v)}
    parts = {"name": record.name, "levelno": record.levelno, "created": record.created, "msg": text}
    return json.dumps({**parts, "extra": extra}).encode() + b"\n"


def _plain(value: Any) -> bool:
    return value is None or isinstance(value, (str, int, float, bool))


class RecordReader:
    """Here: reads the lines that are new, and hands the records to the loggers they were meant for."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._at = 0

    def hand_on(self) -> None:
        """All records that have been written completely."""
        piece = _PIECE
        while more := os.pread(self._file, piece, self._at):
            *lines, rest = more.split(b"\n")
            if not lines and len(more) < _MAX_PIECE:
                if len(more) < piece:
                    return
                piece = min(2 * piece, _MAX_PIECE)
                continue
            if not lines:  # whatever this is: the other side has gone
                self._at = os.fstat(self._file).st_size
                return
            self._at += len(more) - len(rest)
            for line in lines:
                if line.strip(b"\0"):
                    _hand_on(line)


def _hand_on(line: bytes) -> None:
    try:
        found = json.loads(line)
        name, level, created, text = (found[key] for key in ("name", "levelno", "created", "msg"))
        extra = {
            key: value for key, value in found["extra"].items() if key not in _STANDARD and _plain(value)
        }
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
