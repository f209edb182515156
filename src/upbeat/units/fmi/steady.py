"""How long the steps of co-simulation are: on a grid, and of FMUs that take only steps of one length."""

from __future__ import annotations

from math import nan

from upbeat.units.fmi.instance import FmuError

ROUNDED, _SMALL = 2.0**-50, 2.0**-20
"""By how much a difference of times may be off, as a part of them, and how small that must be to tell."""
_NEAR, _ROUNDING = 1e-9, 1e-15
"""By how much lengths may differ: a part of the first one, and of the times that they lie between."""


def nominal(t: float, to: float, grid: float) -> float:
    """The length that an FMU is told for a step: that of the grid, if the step is one of it.

    The difference of two times on a grid is not its step but a few bits off (1.1 - 1.0 is not 0.1), and
    FMUs with fixed steps inside refuse that. So do multiples and whole parts of the grid, for units with
    rates of their own. native/fmi/steady.hpp does the same.
    """
    length = to - t
    slack = ROUNDED * max(abs(t), abs(to))
    if not slack < _SMALL * min(grid, length):  # no grid, or one that times cannot resolve
        return length
    if abs(length - grid) <= slack:
        return grid
    ratio = length / grid
    count = float(round(ratio)) if ratio > 1 else float(round(1 / ratio))
    found = count * grid if ratio > 1 else grid / count
    return found if abs(length - found) <= slack else length


class SteadySteps:
    """Watches that all steps are as long as the first; native/fmi/steady.hpp does the same.

    A shorter one may be the last of a run, so that it is an error only once another follows. Where the FMU
    itself stops, at an event of its own or because it returns early, the lengths around are its own doing.
    """

    def __init__(self) -> None:
        self._first = nan
        self._odd = (nan, nan)
        self._stopped = nan

    def begin(self, now: float, until: float, own: bool) -> None:
        """A step is to be tried, which ends at an event of the FMU itself if it is its `own`."""
        if now >= self._odd[1]:
            raise FmuError(self._sentence(*self._odd))
        self._odd = (nan, nan)
        length = until - now
        if own or now == self._stopped:
            return
        if self._first != self._first:
            self._first = length
        slack = _NEAR * self._first + _ROUNDING * max(abs(now), abs(until))
        if length > self._first + slack:
            raise FmuError(self._sentence(now, until))
        if length < self._first - slack:
            self._odd = (now, until)

    def stopped(self, at: float) -> None:
        """The FMU ended a step by itself."""
        self._stopped = at
        self._odd = (nan, nan)

    def _sentence(self, now: float, until: float) -> str:
        first = f"{self._first:.9g}"
        lengths = f"the first was {first} long, the one from {now:.9g} to {until:.9g} is {until - now:.9g}"
        return (
            "the FMU takes only steps of one length (canHandleVariableCommunicationStepSize is false): "
            f"{lengths}. Take a fixed step (--step {first}, pace={first}) without what ends steps elsewhere "
            "(events of other units, error control, a negotiated coupling), or export the FMU with variable "
            "steps"
        )
