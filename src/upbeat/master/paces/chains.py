"""Events that come one right after the other: what is taken for a chain without end.

A step that ends at an event which depends on states (expected by the pace, gone back to, or found by a unit)
is paid from a budget, and time that passes refills it. So a burst is fine, and so are ten such events a
step for as long as the run lasts; what goes on and on without getting anywhere is ended by the loop, whatever
the pace, the coupling and the distance between two events. Events whose times are known beforehand cost
nothing: there may be any number of them.
"""

from __future__ import annotations

from math import inf

from upbeat.core.expr import Expr
from upbeat.master.writing import least

BURST = 2_000.0
"""So many events may come one right after the other, and so many there may be at any time at most."""
PER_STEP = 10.0
"""So many more for each usual step that passes."""
PER_RUN = 100_000.0
"""So many in a run that are spread evenly over it are fine, however long the steps."""
FEW = 3
"""So many in a row are an endless chain, if the next one would come too soon to be seen."""
TINY = 1e-3
"""The part of what is close enough to an event below which nothing is told apart."""


def right_after(close: Expr, step: float) -> Expr:
    """An event that comes no later than this after another one may be part of an endless chain.

    A ball that is landed on late by `close` each time, and keeps the part e of its speed, ends up with
    leaps of close·(1 + e)/(1 - e).
    """
    return least(100.0 * close, 0.01 * step)


def allowance(step: float, span: float = inf) -> float:
    """How many events a second may go on and on: in steps of this usual size (0: there is none), in a run of
    this length (infinity: nobody knows)."""
    return max(PER_STEP / step if step else 0.0, PER_RUN / span)


def left(budget: float, rate: float, t: float, reached: float, limit: float, event: bool) -> float:
    """What is left of a budget after the step from `t` to `reached`, which has ended at an event or not.

    The order of operations is part of the meaning: the native engine performs the same ones, bit for bit.
    """
    passed = reached - t
    earned = passed * rate if rate > 0.0 else PER_STEP * (passed / (limit - t))
    budget = min(budget + earned, BURST)
    return budget - 1.0 if event else budget
