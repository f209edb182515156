"""How long a search may still take, by the work of this process: waiting for others does not count.

So other work on the machine takes nothing from a search, but for two things: where cores share caches and
memory, the same work takes more of these seconds; and one call of the solver ends by the clock on the wall
(see `by_the_wall`). A search that ends for lack of time may end elsewhere in another run. Then nothing is
proven, and the answer says so: it may be weaker, but never false.
"""

from __future__ import annotations

import time

from upbeat.stability.limits import checked_seconds

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
