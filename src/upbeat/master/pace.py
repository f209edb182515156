"""Paces: how far the next step goes, and whether it stands. `Fixed` is the simplest.

A pace is pure functions over an explicit state, which the loop keeps, saves and restores. It sees
registers (through a `read` function), never units.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from upbeat.core.ports import Value
from upbeat.core.time import Span, checked_step, grid_point, grid_steps

Read = Callable[[int], Value]
"""Gives the content of a register."""


class Proposal(NamedTuple):
    """Where the next step should end, with which block, and why."""

    until: float
    reason: str
    block: str = "step"


class Retry(NamedTuple):
    """Do the step again, up to `until`."""

    until: float
    reason: str


class Pace(Protocol):
    """Chooses steps. `retries` says whether `review` may ask for a retry (then units need rollback)."""

    @property
    def retries(self) -> bool: ...

    def begin(self, span: Span) -> Any:
        """The state before the first step."""
        ...

    def propose(self, state: Any, t: float, read: Read) -> tuple[Proposal, Any]:
        """The next step from `t`, never beyond the span's stop, and the state after it."""
        ...

    def review(self, state: Any, t: float, reached: float, read: Read) -> Retry | None:
        """None to accept the step from `t` to `reached`, or how to do it again."""
        ...

    def note(self, state: Any, fired: Sequence[str]) -> Any:
        """The state after the events `fired` at the new time."""
        ...


class FixedState(NamedTuple):
    """How many of the `total` steps over `span` are `done`."""

    span: Span
    total: int
    done: int


@dataclass(frozen=True, slots=True)
class Fixed:
    """Steps of one size on the grid start + k·step; the last one is clipped to the stop time."""

    step: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "step", checked_step(self.step, "the step of Fixed"))

    @property
    def retries(self) -> bool:
        return False

    def begin(self, span: Span) -> FixedState:
        return FixedState(span, grid_steps(span, self.step), 0)

    def propose(self, state: FixedState, t: float, read: Read) -> tuple[Proposal, FixedState]:
        index = state.done + 1
        until = grid_point(state.span, self.step, index, state.total)
        return Proposal(until, "fixed step"), FixedState(state.span, state.total, index)

    def review(self, state: FixedState, t: float, reached: float, read: Read) -> Retry | None:
        return None

    def note(self, state: FixedState, fired: Sequence[str]) -> FixedState:
        return state
