"""Messages over pipes: plain values, each with its length before it.

What a run sends to a process is believed there. What comes from the process of a unit may be anything, since
the unit may have written it: it is read as JSON, which can do no harm, and never as something that could.
"""

from __future__ import annotations

import json
import marshal
import os
from collections.abc import Callable
from typing import Any

_HEAD = 8
MOST = 1 << 33
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
        if size > MOST:
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
