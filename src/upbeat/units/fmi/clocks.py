"""When the input clocks of an FMU tick that tick by themselves (FMI 3): periodic ones and countdowns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from math import inf

from upbeat.units.fmi.description import ClockInterval, IntervalVariability, Variable
from upbeat.units.fmi.instance import FmuError, Instance

NOT_YET_KNOWN, UNCHANGED, CHANGED = 0, 1, 2
"""FMI's qualifiers of an interval."""


class Clocks:
    """The next tick of each clock, and how often it has ticked.

    Ticks of a periodic clock are computed from their number, start + shift + k·interval, never summed.
    Clocks that are due within four units in the last place tick together.
    """

    def __init__(self, instance: Instance, variables: Sequence[Variable], start: float) -> None:
        self._instance = instance
        self._start = start
        self.variables = tuple(variables)
        self._own = [_interval(variable) for variable in variables]
        self._periods: list[tuple[float, float] | None] = [None] * len(variables)
        self.next = [inf] * len(variables)
        self.count = [0] * len(variables)

    def begin(self) -> None:
        """Just out of initialization: ask for what the description leaves open."""
        for place, own in enumerate(self._own):
            if own.variability is IntervalVariability.COUNTDOWN:
                continue
            if own.variability is IntervalVariability.CHANGING:
                counted = own.shift_counter / own.resolution if own.resolution else own.shift
                self.next[place] = self._start + counted
            else:
                self._periods[place] = self._period(place)
                self.next[place] = self._tick(place)
        self.look()

    def _period(self, place: int) -> tuple[float, float]:
        """Interval and shift in seconds, of a clock whose interval stays."""
        variable, own = self.variables[place], self._own[place]
        if own.interval is not None:
            return _positive(variable, own.interval), own.shift
        if own.interval_counter is not None and own.resolution:
            return _positive(
                variable, own.interval_counter / own.resolution
            ), own.shift_counter / own.resolution
        ((seconds, _),) = self._instance.intervals([variable])
        if seconds is None:
            raise FmuError(f"the FMU does not know the interval of its clock '{variable.name}'")
        (shift,) = self._instance.shifts([variable])
        return _positive(variable, seconds), shift

    def _tick(self, place: int) -> float:
        """The time of the tick whose turn it is."""
        own, count = self._own[place], self.count[place]
        if own.interval is None and own.interval_counter is not None and own.resolution:
            return self._start + (own.shift_counter + count * own.interval_counter) / own.resolution
        period = self._periods[place]
        if period is None:  # after a state from elsewhere was restored
            period = self._periods[place] = self._period(place)
        interval, shift = period
        return self._start + (shift + count * interval)

    @property
    def due(self) -> float:
        """The earliest next tick."""
        return min(self.next, default=inf)

    def ticking(self, now: float) -> list[int]:
        """The clocks that tick at `now`, by place."""
        slack = 4 * math.ulp(now)
        return [place for place, next in enumerate(self.next) if next - now <= slack]

    def ticked(self, places: Iterable[int], now: float) -> None:
        """These have ticked: plan the next time. Called while they still tick, in event mode."""
        for place in places:
            self.count[place] += 1
            variability = self._own[place].variability
            if variability is IntervalVariability.COUNTDOWN:
                self.next[place] = inf
            elif variability is IntervalVariability.CHANGING:
                ((seconds, _),) = self._instance.intervals([self.variables[place]])
                self.next[place] = inf if seconds is None else now + _positive(self.variables[place], seconds)
            else:
                self.next[place] = self._tick(place)

    def look(self, now: float | None = None) -> None:
        """Countdowns may have been set, in any event."""
        now = self._start if now is None else now
        places = [p for p, own in enumerate(self._own) if own.variability is IntervalVariability.COUNTDOWN]
        if not places:
            return
        found = self._instance.intervals([self.variables[place] for place in places])
        for place, (seconds, qualifier) in zip(places, found, strict=True):
            if qualifier == CHANGED and seconds is not None:
                if not seconds >= 0:
                    raise FmuError(f"the countdown '{self.variables[place].name}' has the interval {seconds}")
                self.next[place] = now + seconds


def _interval(variable: Variable) -> ClockInterval:
    own = variable.properties.clock
    assert own is not None, "chosen by their interval"
    return own


def _positive(variable: Variable, seconds: float) -> float:
    if not seconds > 0:
        raise FmuError(
            f"the clock '{variable.name}' has the interval {seconds}, and would never stop ticking"
        )
    return seconds
