"""States and settings as plain data: bytes with a checked form, numbered places."""

from __future__ import annotations

import heapq
import json
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from upbeat.core.ports import Value

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

# ----------------------------------------------------------------------------------------------------
# Numbered places for things that others keep: the lowest free one comes first, and tokens give them back.


class Places:
    """Numbers from `first` on, each of them free again once its token is gone."""

    def __init__(self, first: int = 0) -> None:
        self._free: list[int] = []
        self._next = first

    def take(self) -> Place:
        """A token for the lowest number that is free."""
        if not self._free:
            heapq.heappush(self._free, self._next)
            self._next += 1
        return Place(heapq.heappop(self._free), self._free)

    def owns(self, place: Place) -> bool:
        """Whether the token is one of these."""
        return place.free is self._free


class Place:
    """A token: the number of its place."""

    __slots__ = ("free", "number")

    def __init__(self, number: int, free: list[int]) -> None:
        self.number = number
        self.free = free

    def __del__(self) -> None:
        heapq.heappush(self.free, self.number)


# ----------------------------------------------------------------------------------------------------
# Values as bytes and back, exactly, and checksums. What is read is data: nothing in it is executed.

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


# ----------------------------------------------------------------------------------------------------
# Plain data that was read from a file, and may be anything: every access says what it expects there.
#
# Readers of files take their values out of `Fields`, and have one error to catch: `ValueError`, which says
# what was found in place of what. A value of a wrong kind does not get further than the file it is in.

T = TypeVar("T")
WHOLE = 2**63
"""Whole numbers in files fit into 64 bits."""


def parsed(data: bytes | str) -> Any:
    """What JSON says; `ValueError` if it is none, or is nested too deep."""
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def shown(value: Any) -> str:
    """A value as a message shows it: not all of a long one."""
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "…"


def listed(value: Any, what: str) -> list[Any]:
    """`value`, if it is a list."""
    if not isinstance(value, list):
        raise ValueError(f"{what} is {shown(value)}, not a list")
    return value


def array(value: Any, dtype: DTypeLike, what: str) -> NDArray[Any]:
    """A list of numbers as an array of them."""
    entries = listed(value, what)
    import numpy as np

    allowed = (int, float) if np.dtype(dtype).kind == "f" else (int,)
    with suppress(OverflowError):
        if all(isinstance(entry, allowed) and not isinstance(entry, bool) for entry in entries):
            return np.array(entries, dtype=dtype)
    raise ValueError(f"{what} has entries that are not numbers of its kind")


class Fields:
    """A table from a file. Each method gives one entry, or raises `ValueError` in a sentence."""

    def __init__(self, data: Any, what: str) -> None:
        if not isinstance(data, dict):
            raise ValueError(f"{what} is {shown(data)}, not a table")
        self._data: dict[str, Any] = data
        self._what = what

    def __contains__(self, key: str) -> bool:
        return key in self._data

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def any(self, key: str) -> Any:
        """Whatever is there."""
        if key not in self._data:
            raise ValueError(f"{self._what} has no '{key}'")
        return self._data[key]

    def text(self, key: str) -> str:
        return self._of(key, str, "a text")

    def flag(self, key: str) -> bool:
        return self._of(key, bool, "true or false")

    def whole(self, key: str, low: int = 0, high: int = WHOLE - 1) -> int:
        """A whole number from `low` to `high`."""
        value = self._of(key, int, "a whole number")
        if isinstance(value, bool) or not low <= value <= high:
            raise self._wrong(key, f"a whole number from {low} to {high}")
        return value

    def number(self, key: str) -> float:
        """A number; infinities and NaN are numbers here."""
        value = self.any(key)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self._wrong(key, "a number")
        try:
            return float(value)
        except OverflowError:
            raise self._wrong(key, "a number that a computer can hold") from None

    def entries(self, key: str) -> list[Any]:
        return listed(self.any(key), f"'{key}' of {self._what}")

    def texts(self, key: str) -> list[str]:
        return [text if isinstance(text, str) else str(text) for text in self.entries(key)]

    def array(self, key: str, dtype: DTypeLike) -> NDArray[Any]:
        return array(self.any(key), dtype, f"'{key}' of {self._what}")

    def table(self, key: str) -> dict[str, Any]:
        return self._of(key, dict, "a table")

    def fields(self, key: str) -> Fields:
        """A table inside."""
        return Fields(self.any(key), f"'{key}' of {self._what}")

    def each(self, key: str, read: Callable[[Any], T]) -> list[T]:
        """What `read` makes of every entry of a list."""
        return [read(entry) for entry in self.entries(key)]

    def _of(self, key: str, kind: type[T], name: str) -> T:
        value = self.any(key)
        if not isinstance(value, kind):
            raise self._wrong(key, name)
        return value

    def _wrong(self, key: str, expected: str) -> ValueError:
        return ValueError(f"'{key}' of {self._what} is {shown(self._data[key])}, not {expected}")


def same_length(what: str, columns: Sequence[Sequence[Any] | NDArray[Any]]) -> None:
    """`ValueError` unless all columns are equally long."""
    if len({len(column) for column in columns}) > 1:
        raise ValueError(f"the columns of {what} differ in length: {', '.join(str(len(c)) for c in columns)}")
