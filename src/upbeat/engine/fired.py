"""Events as the native core hands them over: columns of raw bytes, read without a look at each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from upbeat.core.ports import Kind, Value
from upbeat.engine.machine import Fired

Raw = tuple[bytes, bytes, bytes, bytes]
"""Numbers of the events, times, indices within an instant, cells of all values (native/src/host.hpp)."""


class FiredColumns(NamedTuple):
    """What fired: ``names[codes[i]]`` at (``times[i]``, ``indices[i]``); the cells of all values in a row."""

    names: tuple[str, ...]
    codes: npt.NDArray[np.int32]
    times: npt.NDArray[np.float64]
    indices: npt.NDArray[np.int32]
    cells: npt.NDArray[np.int64]

    @classmethod
    def read(cls, raw: Raw, names: tuple[str, ...]) -> FiredColumns:
        """The columns in these bytes."""
        codes, times, indices, cells = raw
        return cls(
            names,
            np.frombuffer(codes, np.int32),
            np.frombuffer(times, np.float64),
            np.frombuffer(indices, np.int32),
            np.frombuffer(cells, np.int64),
        )

    def entries(self, kinds: Mapping[str, tuple[Kind, int]], strings: Sequence[str]) -> list[Fired]:
        """One by one, by name and value."""
        found: list[Fired] = []
        first = 0
        for code in self.codes.tolist():
            name = self.names[code]
            kind, count = kinds[name]
            values = _values(self.cells[first : first + count], kind, strings)
            first += count
            found.append((name, values[0] if count == 1 else values or None))
        return found


def _values(cells: npt.NDArray[np.int64], kind: Kind, strings: Sequence[str]) -> tuple[Value, ...]:
    match kind:
        case Kind.REAL:
            return tuple(cells.view(np.float64).tolist())
        case Kind.STRING:
            return tuple(strings[i] for i in cells.tolist())
        case Kind.BOOLEAN:
            return tuple(bool(i) for i in cells.tolist())
    return tuple(cells.tolist())
