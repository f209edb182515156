"""Columns: the name, kind and unit of one recorded cell, and how eight bytes become its value.

Everything recorded travels as a matrix of 8-byte *cells*, one row per point in time, time first. A
real cell is a double. Integers and booleans are the bits of an int64, and a string is the bits of
its index in a pool that only grows. So the native engine fills a matrix without asking Python, and
no sink looks at a value it does not need to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from upbeat.core.errors import ModelError
from upbeat.core.names import Labels
from upbeat.core.plain import Fields
from upbeat.core.ports import Kind
from upbeat.core.records import dataclass

Cells = NDArray[np.float64]
"""A matrix (rows, 1 + columns) or one column of 8-byte cells, seen as doubles."""


@dataclass(frozen=True, slots=True)
class Column:
    """One recorded cell. `items` are the labels of an enumeration, whose values are their codes."""

    name: str
    kind: Kind = Kind.REAL
    unit: str | None = None
    items: tuple[str, ...] = ()

    @property
    def labels(self) -> Labels:
        """The `items` with their codes."""
        return Labels.of(self.items)

    def decode(self, cells: Cells, strings: Sequence[str]) -> NDArray[Any]:
        """The values in one contiguous column of cells; reals and integers are not copied."""
        match self.kind:
            case Kind.REAL:
                return cells
            case Kind.INTEGER:
                return cells.view(np.int64)
            case Kind.BOOLEAN:
                truth: NDArray[Any] = cells.view(np.int64) != 0
                return truth
            case Kind.STRING:
                pool = np.empty(len(strings), dtype=object)
                pool[:] = strings
                found: NDArray[Any] = pool[cells.view(np.int64)]
                return found

    def encode(self, values: NDArray[Any], intern: Callable[[str], int]) -> Cells:
        """The inverse of `decode`."""
        if self.kind is Kind.REAL:
            return values.astype(np.float64, copy=False)
        if self.kind is Kind.STRING:
            values = np.fromiter((intern(str(value)) for value in values), np.int64, len(values))
        return values.astype(np.int64).view(np.float64)

    def to_data(self) -> dict[str, Any]:
        """Plain data for a file's header; what is usual is left out."""
        data: dict[str, Any] = {"name": self.name, "kind": self.kind.value}
        if self.unit is not None:
            data["unit"] = self.unit
        if self.items:
            data["items"] = self.labels.written
        return data

    @classmethod
    def from_data(cls, data: Any) -> Column:
        """What `to_data` gave; `ValueError` if it is something else."""
        fields = Fields(data, "a column")
        unit = fields.text("unit") if "unit" in fields else None
        return cls(fields.text("name"), Kind(fields.text("kind")), unit, labels_in(fields))


def labels_in(fields: Fields) -> tuple[str, ...]:
    """The labels that a file gives under "items"."""
    try:
        return Labels.read(fields.any("items")) if "items" in fields else ()
    except ModelError as error:
        raise ValueError(str(error)) from None


def check_strings(cells: NDArray[np.int64], strings: Sequence[str]) -> None:
    """`ValueError` unless these cells are numbers of strings that there are."""
    if len(cells) and not 0 <= cells.min() <= cells.max() < len(strings):
        raise ValueError(f"there are {len(strings)} texts, and none with the number {int(cells.max())}")


def check_times(times: NDArray[np.float64], latest: float = -np.inf) -> float:
    """The last of these times; `ValueError` where time goes backwards or is not a number."""
    if not len(times):
        return latest
    if not times[0] >= latest or not (np.diff(times) >= 0).all() or not np.isfinite(times).all():
        raise ValueError("time goes backwards or is not a number")
    return float(times[-1])


def labels_of(numbers: NDArray[Any], items: tuple[str, ...]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The labels of an enumeration's numbers, and for which of these there is one."""
    labels = Labels.of(items)
    order = np.argsort(labels.codes)
    codes = np.array(labels.codes, dtype=np.int64)[order]
    place = np.minimum(np.searchsorted(codes, numbers), len(codes) - 1)
    shown: NDArray[Any] = np.array(labels, dtype=object)[order[place]]
    return shown, codes[place] == numbers


TIME = Column("time", Kind.REAL, "s")


class Pool:
    """Strings by number. The list may be shared with an engine that appends to it."""

    def __init__(self, strings: list[str] | None = None) -> None:
        self.strings = strings if strings is not None else []
        self._known: dict[str, int] = {}

    def intern(self, text: str) -> int:
        number = self._known.get(text)
        if number is None:
            for fresh in range(len(self._known), len(self.strings)):
                self._known.setdefault(self.strings[fresh], fresh)
            number = self._known.setdefault(text, len(self.strings))
            if number == len(self.strings):
                self.strings.append(text)
        return number


# ----------------------------------------------------------------------------------------------------
# An array that grows at its end, with little room to spare and without moving what was given away.

_MIN_CAPACITY = 256


class Growing:
    """A column under construction. A `view` stays as it is, whatever is appended afterwards.

    Python's own `array` cannot grow while it is viewed, and a list of chunks would have to be joined
    at every question.
    """

    __slots__ = ("_data", "_fill")

    def __init__(self, dtype: DTypeLike) -> None:
        self._data: NDArray[Any] = np.empty(0, dtype)
        self._fill = 0

    @classmethod
    def over(cls, data: NDArray[Any]) -> Growing:
        """Over memory of another owner: it is copied before anything is appended."""
        column = cls(data.dtype)
        column._data, column._fill = data, len(data)
        return column

    def __len__(self) -> int:
        return self._fill

    @property
    def view(self) -> NDArray[Any]:
        """All values so far, read-only."""
        values = self._data[: self._fill]
        values.flags.writeable = False
        return values

    def append(self, value: float) -> None:
        if self._fill == len(self._data):
            self._grow(self._fill + 1)
        self._data[self._fill] = value
        self._fill += 1

    def extend(self, values: NDArray[Any]) -> None:
        end = self._fill + len(values)
        if end > len(self._data):
            self._grow(end)
        self._data[self._fill : end] = values
        self._fill = end

    def clear(self) -> None:
        """Begin again, in fresh memory: views of the old one may be about."""
        self._data = np.empty(0, self._data.dtype)
        self._fill = 0

    def _grow(self, minimum: int) -> None:
        data = np.empty(max(_MIN_CAPACITY, minimum, self._fill + self._fill // 4), self._data.dtype)
        data[: self._fill] = self._data[: self._fill]
        self._data = data
