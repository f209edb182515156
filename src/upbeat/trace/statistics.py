"""Least, greatest, mean and final value of every column, kept up to date while rows stream by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upbeat.core.plain import Fields, same_length
from upbeat.core.ports import Kind
from upbeat.trace.columns import Cells, Column

_ARRAYS = ("least", "greatest", "integral", "final")


@dataclass(frozen=True, slots=True)
class Summary:
    """What one numeric column did. `mean` is over time (not over rows), so uneven steps do no harm."""

    least: float
    mean: float
    greatest: float
    final: float


class Statistics:
    """Running statistics of the numeric columns; its cost is per chunk, with no Python work per row."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self.rows = 0
        self.first_time = self.last_time = 0.0
        self._columns = tuple(columns)
        self._reals = np.array([i for i, c in enumerate(columns) if c.kind is Kind.REAL], dtype=np.intp)
        self._whole = np.array(
            [i for i, c in enumerate(columns) if c.kind in (Kind.INTEGER, Kind.BOOLEAN)], dtype=np.intp
        )
        self._all_real = len(self._reals) == len(columns)
        self._least = np.full(len(columns), np.inf)
        self._greatest = np.full(len(columns), -np.inf)
        self._integral = np.zeros(len(columns))
        self._final = np.zeros(len(columns))

    def add(self, cells: Cells) -> None:
        """Take the next rows."""
        if len(cells) == 0:
            return
        time = cells[:, 0]
        gap = time[0] - self.last_time if self.rows else 0.0
        between = np.diff(time)
        reals = cells[:, 1:] if self._all_real else cells[:, 1 + self._reals]
        self._take(self._reals, reals, 0.5 * gap, _trapezoid(0.5 * between, 0.5 * gap))
        if len(self._whole):
            whole = cells[:, 1 + self._whole].view(np.int64).astype(np.float64)
            self._take(self._whole, whole, gap, np.append(between, 0.0))
        if self.rows == 0:
            self.first_time = float(time[0])
        self.last_time = float(time[-1])
        self.rows += len(cells)

    def _take(self, which: NDArray[np.intp], values: Cells, before: float, weights: Cells) -> None:
        if len(which) == 0:
            return
        self._least[which] = np.minimum(self._least[which], values.min(axis=0))
        self._greatest[which] = np.maximum(self._greatest[which], values.max(axis=0))
        self._integral[which] += before * self._final[which] + weights @ values
        self._final[which] = values[-1]

    def to_data(self) -> dict[str, Any]:
        """Plain data for a file."""
        arrays = {name: getattr(self, f"_{name}").tolist() for name in _ARRAYS}
        return {"rows": self.rows, "first_time": self.first_time, "last_time": self.last_time, **arrays}

    def take_over(self, data: Any) -> None:
        """Go on from what `to_data` gave, of the same columns; `ValueError` if it is something else."""
        fields = Fields(data, "the statistics")
        rows, first, last = fields.whole("rows"), fields.number("first_time"), fields.number("last_time")
        arrays = {name: fields.array(name, np.float64) for name in _ARRAYS}
        same_length("the statistics", (*arrays.values(), self._columns))
        self.rows, self.first_time, self.last_time = rows, first, last
        for name, values in arrays.items():
            getattr(self, f"_{name}")[:] = values

    def __getitem__(self, index: int) -> Summary | None:
        """The summary of a column; None for strings, and when there are no rows."""
        if self.rows == 0 or self._columns[index].kind is Kind.STRING:
            return None
        span = self.last_time - self.first_time
        final = float(self._final[index])
        mean = float(self._integral[index]) / span if span > 0 else final
        return Summary(float(self._least[index]), mean, float(self._greatest[index]), final)


def _trapezoid(halves: Cells, before: float) -> Cells:
    """The weight of every row: half the time since the row before it and half the time to the next."""
    weights = np.zeros(len(halves) + 1)
    weights[:-1] += halves
    weights[1:] += halves
    weights[0] += before
    return weights
