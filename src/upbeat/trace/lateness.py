"""How late the steps of a run in real time were: a distribution of bounded size."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from upbeat.core.plain import Fields, array

FINEST = 1e-6
"""Seconds. Anything less counts as on time: clocks of ordinary computers tell no more."""
PER_DECADE = 20
_MOST_PLACES = 400 * PER_DECADE
"""Bins for a factor of ten: a percentile is known to 12 %, and a run of years needs some 300 of them."""


class Lateness:
    """Counts steps by how late they were done, in seconds of the wall clock.

    Counts, mean and maximum are exact; so is the number `beyond` the tolerance. Percentiles come from
    logarithmic bins and are never too small. `given_up` is the time that the policy "skip" has let go, in
    `skips` pieces.
    """

    def __init__(self, tolerance: float) -> None:
        self.tolerance = tolerance
        self.count = 0
        self.beyond = 0
        self.total = 0.0
        self.maximum = 0.0
        self.skips = 0
        self.given_up = 0.0
        self._bins: dict[int, int] = {}

    def add(self, late: float) -> None:
        """A step was done `late` seconds after it was due; less than nothing is on time."""
        self.count += 1
        if late < FINEST:
            return
        place = math.floor(PER_DECADE * math.log10(late / FINEST))
        self._bins[place] = self._bins.get(place, 0) + 1
        self.total += late
        self.maximum = max(self.maximum, late)
        self.beyond += late > self.tolerance

    def skip(self, late: float) -> None:
        """That much time was given up."""
        self.skips += 1
        self.given_up += late

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else 0.0

    @property
    def share(self) -> float:
        """The part of all steps that were later than the tolerance."""
        return self.beyond / self.count if self.count else 0.0

    def percentile(self, percent: float) -> float:
        """At least `percent` of all steps were no later than this."""
        if not 0 <= percent <= 100:
            raise ValueError(f"a percentile lies between 0 and 100, not at {percent!r}")
        left = percent / 100 * self.count - (self.count - sum(self._bins.values()))
        if left <= 0:
            return 0.0
        for place in sorted(self._bins):
            left -= self._bins[place]
            if left <= 0:
                return min(self.maximum, FINEST * 10 ** ((place + 1) / PER_DECADE))
        return self.maximum

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lateness) and self.to_data() == other.to_data()

    __hash__ = None  # type: ignore[assignment]  # it grows

    def __repr__(self) -> str:
        return (
            f"Lateness({self.count} steps, {self.beyond} later than {self.tolerance:g} s, "
            f"mean {self.mean:.3g} s, 99 % {self.percentile(99):.3g} s, maximum {self.maximum:.3g} s)"
        )

    def to_data(self) -> dict[str, Any]:
        """Plain data for a file, with what people ask for already worked out."""
        return {
            "tolerance": self.tolerance,
            "count": self.count,
            "beyond": self.beyond,
            "share": self.share,
            "mean": self.mean,
            "p50": self.percentile(50),
            "p90": self.percentile(90),
            "p99": self.percentile(99),
            "maximum": self.maximum,
            "total": self.total,
            "skips": self.skips,
            "given_up": self.given_up,
            "bins": [[place, self._bins[place]] for place in sorted(self._bins)],
        }

    @classmethod
    def from_data(cls, data: Any) -> Lateness:
        """What `to_data` gave; `ValueError` if it is something else."""
        fields = Fields(data, "the lateness")
        made = cls(fields.number("tolerance"))
        made.count, made.beyond, made.skips = map(fields.whole, ("count", "beyond", "skips"))
        made.total, made.maximum, made.given_up = map(fields.number, ("total", "maximum", "given_up"))
        for entry in fields.entries("bins"):
            place, count = array(entry, np.int64, "a bin").tolist()
            if not (-_MOST_PLACES <= place <= _MOST_PLACES and count > 0):
                raise ValueError(f"there is no bin {place} with {count} steps")
            made._bins[place] = count
        return made
