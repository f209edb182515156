"""Where, between two samples of all conditions, an event came true: what a pace that goes back needs to know.

The order of operations is part of the meaning: the native engine performs the same ones, bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import NamedTuple

from upbeat.master.events import prediction
from upbeat.master.events.conditions import Watch
from upbeat.master.events.prediction import Coefficients
from upbeat.master.paces.chains import FEW, TINY
from upbeat.master.paces.margins import visible
from upbeat.master.paces.sampling import Samples, known, largest, through

NEARBY = 2.0
"""So many times the tolerance behind an event, conditions are believed to have come there without a jump."""


class Search(NamedTuple):
    """The state of a search for an event within a step, before the samples."""

    kind: float  # whether this is the start (1), an event has just happened (2), or neither (0)
    rounds: float  # how often the step has been sent back
    low: float  # a time at which no event has happened yet
    high: float  # one at which one has; `low` if none is known
    streak: float  # how many attempts one after the other went too far; negative: not far enough
    tolerance: float  # for this step
    last: float  # when something has changed last
    chain: float  # how often in a row right after another

    @property
    def found(self) -> bool:
        """Whether a time is known at which an event has happened."""
        return self.high > self.low

    def too_far(self, reached: float) -> Search:
        """An event has happened by then."""
        return self._replace(high=reached, streak=self.streak + 1.0 if self.streak > 0.0 else 1.0)

    def not_far_enough(self, reached: float) -> Search:
        """None has happened by then yet."""
        return self._replace(low=reached, streak=self.streak - 1.0 if self.streak < 0.0 else -1.0)

    def over(self, t: float) -> Search:
        """The step from `t` stands, or begins anew."""
        return self._replace(rounds=0.0, low=t, high=t, streak=0.0)


class Estimate(NamedTuple):
    """Where the first event came true, and which it is."""

    at: float
    event: int
    before: bool = False  # this is before its fall: an event that has happened must be seen above zero first
    tiny: bool = False  # so soon after the start that nobody can see it
    end: float = inf  # where a step should end that has gone past it, though it is over again at its end


def due(watch: Watch, start: Samples, now: Samples) -> list[range]:
    """The conditions of events that were still to come at the start, and have happened by now."""
    return [some for some in watch.places if largest(start, some) > 0.0 >= largest(now, some)]


def rates_known(watch: Watch, places: range) -> bool:
    """Whether rates of all these conditions are known."""
    return all(watch.orders[k] > 0 for k in places)


def falls_through(low: Samples, high: Samples, places: range, tolerance: float) -> bool:
    """Whether one of an event's conditions that were above zero is, at `high`, as far below as it falls in
    about `tolerance`: then the event cannot have come sooner. What jumps (a step, a truth) is further down,
    or does not fall at all."""
    for k in places:
        if low[k].z > 0.0 and high[k].rate < 0.0 and high[k].z >= NEARBY * tolerance * high[k].rate:
            return True
    return False


def estimate(watch: Watch, search: Search, t: float, samples: Sequence[Samples], span: float) -> Estimate:
    """Where the first event came true between two samples, and which; their end if nobody can say.

    The samples are those at the start of the step, and both between which to look. Rounding may lift what
    rests on its border by a hair; that is nothing, unless it comes from ever shorter leaps. The last of
    these do not even leave the border any more.
    """
    start, low, end = samples
    found, happened = inf, 0
    best = Estimate(search.low + span, -1)
    tiny = visible(TINY * search.tolerance, t, 1.0)
    leaps = search.chain >= FEW
    for event, places in enumerate(watch.places):
        curves = [_between(watch, low, end, k, span) for k in places]
        wait = prediction.first_zero(curves, span)
        if largest(start, places) > 0.0:
            if largest(end, places) <= 0.0:
                happened = event
            if wait < found:
                found, best = wait, Estimate(search.low + wait, event)
                best = best._replace(end=_behind(search, curves, wait))
            continue
        if wait < found:
            top = 0.0 if largest(low, places) > 0.0 else prediction.highest(curves, wait)
            at = search.low + top
            hair = at - t < tiny
            if leaps or not hair:
                found, best = wait, Estimate(at, event, True, hair)
        elif leaps and wait == inf and _sinks(watch, search, places, curves, span):
            found, best = 0.0, Estimate(t, event, True, True)
    return best if best.event >= 0 else best._replace(event=happened)


def _behind(search: Search, curves: Sequence[Coefficients], wait: float) -> float:
    """Half of the tolerance behind the event, or within it where it lasts less than that."""
    half = 0.5 * search.tolerance
    stop = prediction.just_behind(curves, wait, half)
    return search.low + wait + half if stop == wait + half else search.low + stop


def _sinks(watch: Watch, search: Search, places: range, curves: Sequence[Coefficients], span: float) -> bool:
    """Whether an event has just left these conditions below the border, on their way to it in vain."""
    fresh = search.kind == 2.0 and search.rounds == 0.0
    return fresh and rates_known(watch, places) and prediction.rises_below(curves, span)


def _between(watch: Watch, low: Samples, end: Samples, k: int, span: float) -> Coefficients:
    """Through both samples; what is meant for a time before works for one after it."""
    return through(low[k], end[k], known(watch.orders[k], low[k], end[k]), -span)
