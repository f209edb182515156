"""Time: the span of a run and the size of a step, checked."""

from __future__ import annotations

import math

from upbeat.core.errors import InvalidInput
from upbeat.core.records import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """The time from `start` to `stop` that a run covers."""

    start: float
    stop: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.start) and math.isfinite(self.stop)):
            raise InvalidInput(f"a run needs finite times, not {self.start} … {self.stop}")
        if self.stop <= self.start:
            raise InvalidInput(f"the stop time {self.stop:g} must lie after the start time {self.start:g}")


class OpenSpan(Span):
    """The time from `start` on: what somebody covers who is not told beforehand how far it goes."""

    __slots__ = ()

    def __init__(self, start: float) -> None:
        object.__setattr__(self, "start", start)
        object.__setattr__(self, "stop", math.inf)


def checked_step(step: float, what: str = "the step") -> float:
    """`step` as a float if it is positive and finite; otherwise an error that says so."""
    try:
        if isinstance(step, bool):  # a flag is no number, though Python counts with it
            raise TypeError
        value = float(step)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"{what} must be a number, not {step!r}") from None
    if not math.isfinite(value) or value <= 0:
        raise InvalidInput(f"{what} must be positive and finite, not {step!r}")
    return value
