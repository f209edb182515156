"""Events as the native core hands them over: columns of raw bytes, read without a look at each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from upbeat.core.ports import Kind, Value
from upbeat.engine.machine import Fired
from upbeat.master.story import Story

Shapes = Mapping[str, tuple[Kind, int]]
"""Of what kind the cells are that an event fires with, and how many there are."""
More = tuple[int, tuple[str, ...], dict[str, Any]]
"""The number of an event, its units, and details about it."""
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

    def told(self, stories: Mapping[str, Story], shapes: Shapes) -> tuple[FiredColumns, list[More]]:
        """The same without stories, and these by the numbers of the events: what tells one is just true."""
        telling = np.array([name in stories for name in self.names], dtype=bool)
        if not stories or not telling[self.codes].any():
            return self, []
        widths = np.array([shapes[name][1] for name in self.names])[self.codes]
        starts = np.cumsum(widths) - widths
        rest, more = np.ones(len(self.cells), dtype=bool), []
        cells = self.cells.copy()
        for i in np.flatnonzero(telling[self.codes]).tolist():
            first, last = int(starts[i]), int(starts[i] + widths[i])
            more.append(
                (
                    i,
                    *stories[self.names[self.codes[i]]].told(
                        self.cells[first:last].view(np.float64).tolist()
                    ),
                )
            )
            rest[first + 1 : last] = False
            cells[first] = 1
        return self._replace(cells=cells[rest]), more

    def entries(self, kinds: Shapes, strings: Sequence[str]) -> list[Fired]:
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
