"""What a pace that looks ahead remembers of conditions, and when it expects an event from that.

The order of operations is part of the meaning: the native engine performs the same ones, bit for bit.
"""

from __future__ import annotations

from math import inf, isnan
from typing import NamedTuple

from upbeat.master.events import prediction
from upbeat.master.events.conditions import Watch
from upbeat.master.events.prediction import Coefficients, Landing
from upbeat.master.paces.chains import FEW
from upbeat.master.paces.pace import State
from upbeat.master.paces.sampling import Sample, flat, known, through, unflat

DEPTH = 3
"""So many samples are kept: now, and two before."""
CLOSE = 0.05
"""The part of the distance between two samples within which a third one takes the place of the newer."""
PART = 0.8
"""The part of the way to an event that a step which is to end before it goes."""
FURTHER = 1.3
"""So many steps ahead is looked for an event that a step is to end before."""
NEAR = 0.1
"""Two samples that are closer to each other than this part of the step say little about its end: their
differences are about what rates and inputs leave of errors."""


class Head(NamedTuple):
    """What the state has before the samples."""

    kept: float = 0.0  # how many samples there are of each condition
    kind: float = 0.0  # whether this is the start (1), an event has just happened (2), or neither (0)
    newest: float = 0.0  # the times of the samples
    before: float = 0.0
    oldest: float = 0.0
    last: float = 0.0  # when something has changed last
    chain: float = 0.0  # how often in a row right after another

    @property
    def length(self) -> float:
        """Between the two newest samples."""
        return self.newest - self.before

    def moved(self, t: float) -> Head:
        """With the time of another sample."""
        return self._replace(newest=t, before=self.newest, oldest=self.before)


class Prediction(NamedTuple):
    """When an event was first predicted, and for when; minus infinity if it is not."""

    at: float = -inf
    due: float = -inf


Seen = tuple[Sample, ...]
"""The samples of a condition, `DEPTH` of them, the newest first."""


class Memory(NamedTuple):
    """The state of a pace that looks ahead, in parts. Flat, they come one after the other."""

    head: Head
    seen: tuple[Seen, ...]  # of each condition
    predictions: tuple[Prediction, ...]  # of each event

    @classmethod
    def empty(cls, watch: Watch) -> Memory:
        nothing = (Sample(0.0, 0.0, 0.0),) * DEPTH
        return cls(Head(), (nothing,) * len(watch.orders), (Prediction(),) * len(watch.counts))

    @classmethod
    def of(cls, state: State, watch: Watch) -> Memory:
        """The parts of a flat state."""
        begin, end = len(Head._fields), len(state) - 2 * len(watch.counts)
        samples, told = unflat(state[begin:end]), state[end:]
        return cls(
            Head(*state[:begin]),
            tuple(samples[k : k + DEPTH] for k in range(0, len(samples), DEPTH)),
            tuple(Prediction(*told[k : k + 2]) for k in range(0, len(told), 2)),
        )

    @property
    def flat(self) -> State:
        samples = (sample for seen in self.seen for sample in seen)
        return (*self.head, *flat(samples), *(number for one in self.predictions for number in one))


def published(memory: Memory, places: range, forecast: float, safety: float, least: float) -> Landing:
    """The rule of the paper: a straight line through the last two values, and a part of the way to zero."""
    if memory.head.kept < 2.0:
        return Landing(inf)
    last, found = memory.head.length, -1.0
    for k in places:
        now, before = memory.seen[k][0].z, memory.seen[k][1].z
        if not now + forecast * (now - before) < 0.0:
            return Landing(inf)
        if now > 0.0:
            found = max(found, safety * last * now / (before - now), least)
    return Landing(found if found >= least else inf)


def approached(curves: list[Coefficients], span: float, short: float) -> Landing:
    """Before the place where all the curves are at most zero, at `PART` of the way, until it is near; then
    over it, in a step that is `short`.

    A step that ends just before `span` may end just before the event, too: so it is looked for further on.
    """
    if not prediction.largest(curves, 0.0) > 0.0:
        return Landing(inf)
    root = prediction.first_zero(curves, FURTHER * span)
    if root <= short:
        return Landing(root + short)
    before = PART * root
    return Landing(before if root - before > 0.5 * short else root - 0.5 * short)


def closely(head: Head, curves: list[Coefficients], span: float, close: float, tiny: float) -> Landing:
    """Just behind the place where all the curves are at most zero, by `close`.

    Rounding may lift what rests on its border by a hair, less than `tiny` away; that is nothing, unless it
    comes from ever shorter leaps. The last of them do not even leave the border any more.
    """
    found, leaps = prediction.landing(curves, span, close), head.chain >= FEW
    if found.wait == inf and leaps and head.kind == 2.0 and prediction.rises_below(curves, span):
        return Landing(0.0, True)
    if not found.wait < tiny:
        return found
    if not found.before:
        return Landing(tiny)
    return found if leaps else Landing(inf)


def curve(head: Head, seen: Seen, order: int, span: float, *, secant: bool = False) -> Coefficients:
    """How a condition goes on from its samples, by the best that is known of it."""
    now, before, oldest = seen
    order = known(order, now)
    if order == 0:
        if head.kept < 2.0:
            return prediction.taylor(now.z, 0.0, 0.0)
        if head.kept < 3.0 or secant:
            return through(now, before, 0, head.length)
        return prediction.parabola((now.z, before.z, oldest.z), head.length, head.before - head.oldest)
    unknown = isnan(before.rate) or (order == 2 and isnan(before.bend))
    if head.kept < 2.0 or head.length < NEAR * span or unknown:
        return prediction.taylor(now.z, now.rate, now.bend if order == 2 else 0.0)
    return through(now, before, order, head.length)
