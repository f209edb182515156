"""Events inside a step: where along a solution some function changes its sign first.

A function z of time and state *crosses* when it goes from z > 0 to z ≤ 0 or back, as in FMI. Only the ends of
an accepted step are compared, so that two crossings within one step are none; between them the root is
looked for on the dense output. The order of floating-point operations is part of the meaning, as it is
in `upbeat.units.solving.integrate`: the native engine performs the same ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

Vector = list[float]
Indicators = Callable[[float, Vector], Sequence[float]]
"""The values of all functions at a time and a state. Each call gives a sequence of its own."""
Dense = Callable[[float], Vector]

TOLERANCE = 1e-12
"""A root is enclosed by so much of the step that it lies in, or by four units in the last place of time."""


def crossings(before: Sequence[float], after: Sequence[float]) -> tuple[int, ...]:
    """Which functions have another sign than before. Not a number counts as not positive."""
    return tuple(i for i, (a, b) in enumerate(zip(before, after, strict=True)) if (a > 0.0) != (b > 0.0))


class Watch:
    """Looks at every accepted step of a solver and ends it at the first crossing.

    `accepted` is told where each step has ended, and may ask to stop there. Between two advances the values
    at the start are those at the end of the last one; give new ones to `begin` where they have changed.
    """

    def __init__(
        self,
        indicators: Indicators | None,
        accepted: Callable[[float, Vector], bool] | None = None,
    ) -> None:
        self._indicators = indicators
        self._accepted = accepted
        self.z: Sequence[float] = ()
        """The values where the last step ended."""
        self.time = math.nan
        """Where the last step ended."""
        self.crossed: tuple[int, ...] = ()
        """The functions that have crossed there."""
        self.stopped = False
        """Whether the last step ended an advance before its time: at a crossing, or because of `accepted`."""

    def begin(self, z: Sequence[float]) -> None:
        """The values at the start of the next step, with which its end will be compared."""
        self.z = z

    def step(self, start: float, end: float, x: Vector, dense: Callable[[], Dense]) -> Vector | None:
        """After an accepted step that arrived at `x`: None to go on, or the state at `time`, to stop there.

        `dense` gives the solution within the step; it is asked only if something has crossed.
        """
        self.crossed = ()
        if self._indicators is not None:
            z = self._indicators(end, x)
            self.crossed = crossings(self.z, z)
            if self.crossed:
                end, x, z = self._locate(start, end, x, z, dense())
            self.z = z
        self.time = end
        wanted = self._accepted is not None and self._accepted(end, x)
        self.stopped = bool(self.crossed) or wanted
        return x if self.stopped else None

    def _locate(
        self, low: float, high: float, x: Vector, z_high: Sequence[float], dense: Dense
    ) -> tuple[float, Vector, Sequence[float]]:
        """The far end of a bracket around the first root, by the rule called Illinois.

        For each function that crosses between `low` and `high` the straight line through both values has
        a root; the first of them is tried. An end that stays twice has its value halved (here, what is the
        same, `weight` scales the values at `low`). If two tries in a row
        leave more than half, the middle is next.
        """
        assert self._indicators is not None
        z_low = self.z
        room = max(TOLERANCE * (high - low), 4.0 * math.ulp(max(abs(low), abs(high))))
        weight, moved, slow = 1.0, 0, 0
        while high - low > room:
            width = high - low
            part = 0.5 if slow == 2 else _first_root(z_low, z_high, weight)
            slow = 0 if slow == 2 else slow
            t = max(low + 0.5 * room, min(high - 0.5 * room, low + part * width))
            state = dense(t)
            z = self._indicators(t, state)
            crossed = crossings(z_low, z)
            if crossed:
                weight = 0.5 * weight if moved == 1 else 1.0
                high, x, z_high, moved, self.crossed = t, state, z, 1, crossed
            else:
                weight = 2.0 * weight if moved == -1 else 1.0
                low, z_low, moved = t, z, -1
            slow = slow + 1 if high - low > 0.5 * width else 0
        return high, x, z_high


def _first_root(low: Sequence[float], high: Sequence[float], weight: float) -> float:
    """The smallest fraction at which a line from weight·low to high is zero, among those that cross."""
    first = 1.0
    for a, b in zip(low, high, strict=True):
        if (a > 0.0) != (b > 0.0):
            scaled = weight * a
            fall = scaled - b
            part = scaled / fall if fall != 0.0 else 0.5
            if not 0.0 <= part <= 1.0:  # values that are infinite, or not numbers
                part = 0.5
            first = min(first, part)
    return first
