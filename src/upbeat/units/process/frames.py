"""Messages over pipes: plain values, each with its length before it."""

from __future__ import annotations

import marshal
import os
from typing import Any

_HEAD = 8


def write_frame(pipe: int, value: Any) -> None:
    """Send numbers, texts, bytes, and tuples or lists of them."""
    body = marshal.dumps(value)
    rest = memoryview(len(body).to_bytes(_HEAD, "little") + body)
    while rest:
        rest = rest[os.write(pipe, rest) :]


class Frames:
    """What arrives at the end of a pipe, in whatever pieces."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._bytes = bytearray()

    def read(self) -> bool:
        """Wait for more; False if there will never be any."""
        more = os.read(self._pipe, 1 << 20)
        self._bytes += more
        return bool(more)

    def next(self) -> tuple[Any] | None:
        """The next message, if all of it is there."""
        size = int.from_bytes(self._bytes[:_HEAD], "little")
        if len(self._bytes) < _HEAD or len(self._bytes) < _HEAD + size:
            return None
        value = marshal.loads(bytes(self._bytes[_HEAD : _HEAD + size]))
        del self._bytes[: _HEAD + size]
        return (value,)

    def wait(self) -> tuple[Any] | None:
        """The next message, however long it takes; None at the end of the pipe."""
        while (frame := self.next()) is None:
            if not self.read():
                return None
        return frame
