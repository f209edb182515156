"""Which communication steps are stable: a union of intervals, found by a scan and bisection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

Radius = Callable[[float], float]
"""The spectral radius for a step."""
FINE = 1e-6
"""How closely the ends of intervals are found, relatively."""
FAR = 3.0
"""From a spectral radius so large nothing comes back to 1 between two steps that are close."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Steps from `low` to `high` that are stable. `open_ended`: the search did not look beyond `high`."""

    low: float
    high: float
    from_zero: bool = False
    """Whether no unstable step below was found."""
    open_ended: bool = False

    def __contains__(self, step: float) -> bool:
        return self.low <= step <= self.high

    def __str__(self) -> str:
        beyond = " and perhaps beyond" if self.open_ended else ""
        return f"{'up to' if self.from_zero else f'{self.low:.6g} …'} {self.high:.6g}{beyond}"


@dataclass(frozen=True)
class Steps:
    """The stable steps among those looked at, and what was looked at: pairs of step and spectral radius."""

    stable: tuple[Interval, ...]
    looked: tuple[tuple[float, float], ...]

    @property
    def largest(self) -> float | None:
        """The end of the interval of stable steps that reaches down to the smallest; None if there is none.

        Larger stable steps may exist (`stable`), but between them and this one are unstable ones.
        """
        return self.stable[0].high if self.stable and self.stable[0].from_zero else None


def stable_steps(radius: Radius, low: float, high: float, points: int, *, deep: int = 6) -> Steps:
    """The steps between `low` and `high` whose spectral radius is below 1.

    Looks at `points` steps with equal ratios, and in the middle of any two; where that is not what they let
    expect, more and more closely. Between neighbours on different sides the end of an interval is found by
    bisection. So intervals are found that are much narrower than the distance of two points, unless the
    radius dips and recovers without any of them noticing. `deep`: how often a distance is halved at most.
    """
    ratio = (high / low) ** (1.0 / (points - 1))
    seen = {step: radius(step) for step in (low * ratio**k for k in range(points))}
    for one, two in pairwise(sorted(seen.items())):
        seen.update(_between(radius, one, two, deep - 1))
    pairs = sorted(seen.items())
    ends: list[float] = []
    for (a, at_a), (b, at_b) in pairwise(pairs):
        if (at_a < 1.0) != (at_b < 1.0):
            ends.append(_bisected(radius, a, b, at_a < 1.0))
    stable: list[Interval] = []
    inside = pairs[0][1] < 1.0
    begin = pairs[0][0]
    first = inside
    for end in ends:
        if inside:
            stable.append(Interval(begin, end, from_zero=first and not stable))
        begin, inside = end, not inside
    if inside:
        stable.append(Interval(begin, pairs[-1][0], from_zero=first and not stable, open_ended=True))
    return Steps(tuple(stable), tuple(pairs))


def _between(
    radius: Radius, one: tuple[float, float], two: tuple[float, float], deep: int
) -> dict[float, float]:
    """Steps between two, as many as it takes until the radius goes nearly straight for where it matters.

    What matters is whether it may cross the limit: far from it nobody needs to know how it bends.
    """
    (a, at_a), (b, at_b) = one, two
    middle = 0.5 * (a + b)
    value = radius(middle)
    found = {middle: value}
    bend = abs(value - 0.5 * (at_a + at_b))
    nearest = min(abs(at_a - 1.0), abs(value - 1.0), abs(at_b - 1.0))
    if deep > 0 and not bend <= 0.25 * nearest and min(at_a, value, at_b) < FAR:
        found |= _between(radius, one, (middle, value), deep - 1)
        found |= _between(radius, (middle, value), two, deep - 1)
    return found


def _bisected(radius: Radius, a: float, b: float, stable: bool) -> float:
    """Where the sides change between `a` and `b`."""
    while b - a > FINE * a:
        middle = 0.5 * (a + b)
        if (radius(middle) < 1.0) == stable:
            a = middle
        else:
            b = middle
    return a if stable else b
