"""An array that grows at its end, with little room to spare and without moving what was given away."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

_LEAST = 256


class Growing:
    """A column under construction. A `view` stays as it is, whatever is appended afterwards.

    Python's own `array` cannot grow while somebody looks at it, and a list of chunks would have to be joined
    at every question.
    """

    __slots__ = ("_data", "_fill")

    def __init__(self, dtype: DTypeLike) -> None:
        self._data: NDArray[Any] = np.empty(0, dtype)
        self._fill = 0

    @classmethod
    def over(cls, data: NDArray[Any]) -> Growing:
        """Over memory that somebody else owns: it is copied before anything is appended."""
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
        """Begin anew, in fresh memory: views of the old one may be about."""
        self._data = np.empty(0, self._data.dtype)
        self._fill = 0

    def _grow(self, least: int) -> None:
        data = np.empty(max(_LEAST, least, self._fill + self._fill // 4), self._data.dtype)
        data[: self._fill] = self._data[: self._fill]
        self._data = data
