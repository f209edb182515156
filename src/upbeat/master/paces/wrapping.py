"""A pace around another one: what it does not see to itself, the pace inside does."""

from __future__ import annotations

from dataclasses import replace
from typing import Self

from upbeat.master.paces.pace import Follows, LooksAtStates, Pace, plain, retries, usual_step


class Wrapping:
    """The part that all paces around another one have in common; they are dataclasses with a field `pace`.

    Their blocks are written around those of the pace inside (`written`).
    """

    __slots__ = ()
    pace: Pace

    @property
    def retries(self) -> bool:
        return retries(self.pace)

    @property
    def usual(self) -> float:
        return usual_step(self.pace)

    @property
    def states(self) -> bool:
        return isinstance(self.pace, LooksAtStates) and self.pace.states

    def around(self, pace: Pace) -> Self:
        """The same around another pace."""
        return replace(self, pace=pace)  # type: ignore[type-var]

    def plain(self) -> Pace:
        """The same steps, without a look at events."""
        return self.around(plain(self.pace))  # type: ignore[return-value]


def follower(pace: Pace) -> Follows | None:
    """Who follows the conditions of events: this pace, or one inside it; None if nobody does."""
    if isinstance(pace, Follows):
        return pace
    return follower(pace.pace) if isinstance(pace, Wrapping) else None
