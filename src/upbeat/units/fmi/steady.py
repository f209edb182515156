"""FMUs for co-simulation that take only steps of one length, and what happens to one of another."""

from __future__ import annotations

from math import nan

from upbeat.units.fmi.instance import FmuError

_NEAR, _ROUNDING = 1e-9, 1e-15
"""By how much lengths may differ: a part of the first one, and of the times that they lie between."""


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
