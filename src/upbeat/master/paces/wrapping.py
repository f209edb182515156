"""A pace around another one: what it does not see to itself, the pace inside does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Self

from upbeat.master.paces.pace import (
    Follows,
    Hears,
    LooksAtStates,
    Notes,
    Pace,
    Proposal,
    Read,
    Reviews,
    State,
    Tells,
    Twin,
    plain,
    retries,
    twin,
    usual_step,
)


class Wrapping(Pace):
    """The part that all paces around another one have in common; they are dataclasses with a field `pace`.

    The numbers of the state are those of its own, `own` of them, and then those of the pace inside. Who wraps
    has `prepare`, `native`, `begin`, `propose`, `review` and `note` of its own, and passes on with
    `prepared`, `twin` and what ends in `_inside`; the other abilities of a pace are here. One that
    the pace inside lacks changes nothing. Who follows conditions says `follower`.
    """

    __slots__ = ()
    pace: Pace

    @property
    def own(self) -> int:
        """How many numbers of the state are its own."""
        raise NotImplementedError

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
        return self.around(plain(self.pace))

    def apart(self, state: State) -> tuple[State, State]:
        """The numbers of its own, and those of the pace inside."""
        return state[: self.own], state[self.own :]

    def twin(self, name: str, parameters: Iterable[float], names: Sequence[str] = ()) -> Twin | None:
        """The twin with these parameters, around that of the pace inside; None if that one has none."""
        inner = twin(self.pace)
        if inner is None:
            return None
        numbers = tuple(float(number) for number in parameters)
        return Twin(name, (*numbers, *inner.parameters), (inner.name, *names, *inner.texts))

    def review_inside(
        self, inner: State, t: float, reached: float, read: Read
    ) -> tuple[Proposal | None, State]:
        return self.pace.review(inner, t, reached, read) if isinstance(self.pace, Reviews) else (None, inner)

    def note_inside(self, inner: State, t: float, fired: Sequence[str], read: Read) -> State:
        return self.pace.note(inner, t, fired, read) if isinstance(self.pace, Notes) else inner

    def hear_inside(self, inner: State, t: float, fired: Sequence[str], read: Read) -> State:
        return self.pace.anew(inner, t, fired, read) if isinstance(self.pace, Hears) else inner

    def anew(self, state: State, t: float, fired: Sequence[str], read: Read) -> State:
        """The pace inside hears of it."""
        own, inner = self.apart(state)
        return (*own, *self.hear_inside(inner, t, fired, read))

    def tells(self, state: State) -> tuple[Sequence[float], int]:
        """What the pace inside has to say."""
        return self.pace.tells(self.apart(state)[1]) if isinstance(self.pace, Tells) else ((), 0)


def follower(pace: Pace) -> Follows | None:
    """Who follows the conditions of events: this pace, or one inside it; None if nobody does."""
    if isinstance(pace, Follows):
        return pace
    return follower(pace.pace) if isinstance(pace, Wrapping) else None
