"""What turns a machine into a run, seen from the run."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import Protocol

from upbeat.engine.loop import ENDLESS
from upbeat.trace.steps import StepLog


class Drive(Protocol):
    """What turns a machine into a run: the loop in Python, or the one in the native core."""

    @property
    def time(self) -> float: ...

    @property
    def steps(self) -> StepLog: ...

    @property
    def finished(self) -> bool: ...

    def begin(self) -> None: ...

    def before_change(self) -> None:
        """To be called before an input is changed by hand; `exchange` follows."""
        ...

    def exchange(self, arrived: Iterable[str] = ()) -> None: ...

    def step(self) -> None: ...

    def go(self, seconds: float, most: int = ENDLESS, pause: float = inf) -> None:
        """Step until the end, until about `seconds` have passed, `most` steps, or until the first one that
        has reached the time `pause`."""
        ...

    @property
    def event_driven(self) -> bool:
        """Whether nothing happens between the ends of steps, which are known before (`EventDriven`)."""
        ...

    def target(self) -> float:
        """Where the next step will end, if that is `event_driven`."""
        ...

    def stand(self, t: float) -> None:
        """Go on from this time, to which the machine was set back."""
        ...
