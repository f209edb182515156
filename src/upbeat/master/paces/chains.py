"""Events that come one right after the other: what is taken for a chain without end."""

from __future__ import annotations

MOST = 1000
"""So many events in a row, each right after the other, are taken for an endless chain."""
FEW = 3
"""So many, if the next one would come too soon to be seen."""
TINY = 1e-3
"""The part of what is close enough to an event below which nothing is told apart."""


def right_after(close: float, step: float) -> float:
    """An event that comes no later than this after another one may be part of an endless chain.

    A ball that is landed on late by `close` each time, and keeps the part e of its speed, ends up with
    leaps of close·(1 + e)/(1 - e).
    """
    return min(100.0 * close, 0.01 * step)


def longer(chain: float, last: float, t: float, within: float) -> float:
    """How many there are in a row with the one at `t`, after one at `last`."""
    return chain + 1.0 if t - last <= within else 0.0
