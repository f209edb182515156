"""Values as bytes and back, exactly, and checksums. What is read is data: nothing in it is executed."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

from upbeat.core.ports import Value

_DOUBLE, _INTEGER, _BOOLEAN, _TEXT = b"d", b"i", b"b", b"s"


class Reader:
    """Walks over bytes that may be anything; `ValueError` where there are too few."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, count: int) -> bytes:
        """The next `count` bytes."""
        if not 0 <= count <= len(self._data) - self._at:
            raise ValueError("they end too early")
        self._at += count
        return self._data[self._at - count : self._at]

    def word(self) -> int:
        """A whole number of eight bytes, lowest first."""
        return int.from_bytes(self.take(8), "little")

    def chunk(self) -> bytes:
        """Bytes after their own length."""
        return self.take(self.word())

    def rest(self) -> bytes:
        """All that is left."""
        return self.take(len(self._data) - self._at)

    def finish(self) -> None:
        """There must be nothing left."""
        if self._at != len(self._data):
            raise ValueError("there are too many of them")


def chunk(data: bytes) -> bytes:
    """Bytes with their own length before them."""
    return len(data).to_bytes(8, "little") + data


def pack_values(values: Sequence[Value]) -> bytes:
    """Values of any kind, each with its kind; doubles bit by bit, integers of any size."""
    packed = [len(values).to_bytes(8, "little")]
    for value in values:
        match value:
            case bool():
                packed.append(_BOOLEAN + (b"\1" if value else b"\0"))
            case int():
                packed.append(
                    _INTEGER + chunk(value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True))
                )
            case float():
                packed.append(_DOUBLE + struct.pack("<d", value))
            case _:
                packed.append(_TEXT + chunk(value.encode("utf-8", "surrogatepass")))
    return b"".join(packed)


def unpack_values(data: bytes) -> tuple[Value, ...]:
    """What `pack_values` was given; `ValueError` if these are other bytes."""
    reader = Reader(data)
    values: list[Value] = []
    for _ in range(reader.word()):
        match reader.take(1):
            case b"b":
                values.append(reader.take(1) != b"\0")
            case b"i":
                values.append(int.from_bytes(reader.chunk(), "little", signed=True))
            case b"d":
                values.append(struct.unpack("<d", reader.take(8))[0])
            case b"s":
                values.append(reader.chunk().decode("utf-8", "surrogatepass"))
            case other:
                raise ValueError(f"no kind of value begins with {other!r}")
    reader.finish()
    return tuple(values)


def with_checksum(data: bytes) -> bytes:
    """The bytes, and four more by which damage is noticed."""
    return data + zlib.crc32(data).to_bytes(4, "little")


def without_checksum(data: bytes) -> bytes:
    """What `with_checksum` was given; `ValueError` if the bytes are damaged."""
    body, found = data[:-4], data[-4:]
    if zlib.crc32(body).to_bytes(4, "little") != found:
        raise ValueError("they are damaged or incomplete")
    return body
