"""What judging may cost: seconds, sizes of systems."""

from __future__ import annotations

import time
from typing import Any

from upbeat.core.errors import InvalidInput

# ----------------------------------------------------------------------------------------------------
# Limits of a search, checked: seconds of work, lengths and degrees, tolerances.


def checked_seconds(given: Any) -> float:
    """How much work a search may take: none at all, or some."""
    if not _number(given) or not 0.0 <= given < 1e300:
        raise InvalidInput(f"seconds are a number from 0 on, such as 60, not {given!r}")
    return float(given)


def checked_tolerance(given: Any) -> float:
    """How far two bounds may be apart, relatively."""
    if not _number(given) or not 0.0 < given < 1.0:
        raise InvalidInput(f"tolerance is a number between 0 and 1, such as 1e-5, not {given!r}")
    return float(given)


def checked_whole(given: Any, what: str, minimum: int) -> int:
    """A whole number from `minimum` on."""
    if type(given) is not int or given < minimum:
        raise InvalidInput(f"{what} is a whole number from {minimum} on, not {given!r}")
    return given


def checked_degree(given: Any) -> int:
    """The degree of a lift, or the largest that is tried."""
    return checked_whole(given, "the degree of a lift", 0)


def _number(given: Any) -> bool:
    return isinstance(given, (int, float)) and not isinstance(given, bool)


# ----------------------------------------------------------------------------------------------------
# How long a search may still take, by the work of this process: waiting for others does not count.
#
# So other work on the machine takes nothing from a search, but for two things: where cores share caches and
# memory, the same work takes more of these seconds; and one call of the solver ends by the clock on the
# wall (see `by_the_wall`). A search that ends for lack of time may end elsewhere in another run. Then
# nothing is proven, and the answer says so: it may be weaker, but never false.

PATIENCE = 10.0
"""The solver knows no clock but that on the wall. A call may take so many times what is left by that clock:
it ends too early only where others leave this process less than a part in so many."""


class Budget:
    """Seconds of work of this process (all its threads together), from now on."""

    def __init__(self, seconds: float) -> None:
        self._begun = time.process_time()
        self._until = self._begun + checked_seconds(seconds)

    @property
    def spent(self) -> float:
        """What was taken so far."""
        return time.process_time() - self._begun

    @property
    def left(self) -> float:
        """What is left of them; none, if more were taken."""
        return max(self._until - time.process_time(), 0.0)

    @property
    def over(self) -> bool:
        return self.left <= 0.0

    @property
    def by_the_wall(self) -> float:
        """Seconds on the wall that one call of the solver may take."""
        return PATIENCE * max(self.left, 1.0)
