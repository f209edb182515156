"""Plain data that was read from a file, and may be anything: every access says what it expects there.

Readers of files take their values out of `Fields`, and have one error to catch: `ValueError`, which says what
was found in place of what. A value of a wrong kind does not get further than the file it is in.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

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
