"""How long a search may still take: by the work of this process, so that a busy machine changes no answer."""

from __future__ import annotations

import time

PATIENCE = 10.0
"""The solver knows no clock but that on the wall, which may be so much faster on a busy machine."""


class Budget:
    """Seconds of work of this process, from now on."""

    def __init__(self, seconds: float) -> None:
        self._until = time.process_time() + seconds

    @property
    def left(self) -> float:
        """What is left of them; none, if more were taken."""
        return max(self._until - time.process_time(), 0.0)

    @property
    def over(self) -> bool:
        return self.left <= 0.0

    @property
    def by_the_wall(self) -> float:
        """Seconds that a solver may take of which the end must not come from waiting for others."""
        return PATIENCE * max(self.left, 1.0)
