"""Where to look next for an event that lies between two times: estimates, and halving where they do not help.

The order of operations is part of the meaning: the native engine performs the same ones, bit for bit.
"""

from __future__ import annotations

from math import ldexp
from typing import NamedTuple

EVERY = 4
"""Each so many-th attempt halves what is left: estimates that are good need fewer."""


BARELY = 0.99
HARDLY = 2.01
"""A little less than all and a little more than twice, so that rounding does no harm to what is left."""


class Bracket(NamedTuple):
    """An event lies between two times."""

    low: float  # nothing has happened yet
    high: float  # it has happened
    streak: float  # how many attempts one after the other went too far; negative: not far enough
    sure: bool  # whether estimates know how fast conditions fall at `high`
    near: bool  # and they do so as they would right behind the event: none has jumped there


def attempt(found: Bracket, at: float, tolerance: float, rounds: int, most: int) -> float | None:
    """Where the next attempt should end, if the event is estimated to be `at`; None: this one stands.

    At most `tolerance` lies between both times then, or, where rates are known, between the estimate and
    the end. A line through two far ends says little about the place where it is zero, so without rates only
    the other side will do; so it is where conditions jump, whatever their rates say. Of the `most` attempts
    enough are kept for halving: if they can
    make the distance as small as `tolerance` at all, they do, whatever the estimates are worth.
    """
    low, high, streak, sure, near = found
    left = most - rounds
    width = high - low
    if left <= 0:
        return None
    if width <= tolerance:
        return high if streak < 0.0 else None
    if sure and near and streak > 0.0 and high - at <= tolerance:
        return None
    middle = low + 0.5 * width
    until = middle if rounds % EVERY == EVERY - 1 else _aimed(found, at, tolerance)
    if not low < until < high:
        until = middle
    reach = ldexp(BARELY * tolerance, left - 2)  # one more is kept for going to `high`
    if HARDLY * reach >= width:  # halving is still enough
        first, last = high - reach, low + reach
        until = min(max(until, first), last) if first <= last else middle
    return until if low < until < high else middle


def _aimed(found: Bracket, at: float, tolerance: float) -> float:
    """Near the estimate, on the side that is not known as well; the further away, the longer it is wrong."""
    margin = 0.5 * tolerance
    if found.streak < 0.0:
        for _ in range(1, int(-found.streak)):
            margin = margin * 10.0
        return at + margin
    free = 2 if found.sure else 1
    if found.streak <= free:
        return at + margin if found.sure else at - margin
    back = found.high - at
    for _ in range(free, int(found.streak)):
        back = back * 8.0
    return at - back
