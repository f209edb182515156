"""Samples of the conditions of events, and the polynomials through them.

The order of operations is part of the meaning: the native engine performs the same ones, bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isnan
from typing import NamedTuple

from upbeat.master.events import prediction
from upbeat.master.events.conditions import WIDTH, Watch
from upbeat.master.events.prediction import Coefficients
from upbeat.master.paces.pace import Read, State


class Sample(NamedTuple):
    """A condition at a time: its value, its rate and its second derivative, as far as these are known."""

    z: float
    rate: float
    bend: float


Samples = tuple[Sample, ...]
"""Of all conditions, in the order of their registers."""


def look(watch: Watch, read: Read) -> Samples:
    """All conditions now."""
    return unflat([float(read(watch.first + i)) for i in range(WIDTH * len(watch.orders))])


def unflat(numbers: Sequence[float]) -> Samples:
    """What `flat` gave."""
    return tuple(Sample(*numbers[k : k + WIDTH]) for k in range(0, len(numbers), WIDTH))


def flat(samples: Iterable[Sample]) -> State:
    """All numbers, one after the other."""
    return tuple(number for sample in samples for number in sample)


def largest(samples: Samples, places: range) -> float:
    """The largest of some conditions: where it falls to zero, their event happens."""
    found = samples[places[0]].z
    for k in places[1:]:
        other = samples[k].z
        if other > found:
            found = other
    return found


def known(order: int, *samples: Sample) -> int:
    """How many derivatives all these samples have: an FMU does not know its own at the start."""
    if order == 2 and any(isnan(sample.bend) for sample in samples):
        order = 1
    if order == 1 and any(isnan(sample.rate) for sample in samples):
        order = 0
    return order


def through(now: Sample, other: Sample, order: int, h: float) -> Coefficients:
    """Through a sample and the one `h` before it (behind it, if that is negative), with their derivatives."""
    z = (now.z, other.z)
    if order == 0:
        return prediction.straight(z, h)
    rate = (now.rate, other.rate)
    if order == 1:
        return prediction.cubic(z, rate, h)
    return prediction.quintic(z, rate, (now.bend, other.bend), h)
