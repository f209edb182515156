"""Paces: how far the next step goes, and whether it stands. `Fixed` and `EventDriven` are the simplest.

A pace is pure functions over an explicit state, a flat tuple of numbers which the loop keeps, saves and
restores. It sees registers (through a `read` function), never units. What it needs to see (an error
estimate, an event indicator) it adds to the blocks of the coupling before the run (`prepare`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import floor, inf, isfinite
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from upbeat.core.errors import InvalidInput
from upbeat.core.ports import Value
from upbeat.core.reasons import FAR, FIXED, Why
from upbeat.core.time import Span, checked_step

if TYPE_CHECKING:
    from upbeat.master.blocks import Blocks
    from upbeat.master.wiring import Wiring

Read = Callable[[int], Value]
"""Gives the content of a register."""
State = tuple[float, ...]
"""What a pace remembers."""

SLACK = 1e-6
"""The part of a step below which a remainder counts as rounding."""
SLIVER = 1e-3
"""The part of a step that is not worth one of its own: a point of the grid this near behind an event is left
out."""


class Proposal(NamedTuple):
    """Where the next step should end, with which block, and why.

    Where `until` is no number, the pace gives up: the reason is what the user reads.
    """

    until: float
    reason: Why
    block: str = "step"


class Twin(NamedTuple):
    """A pace in the native core: its name there, its parameters, and names that its reasons are about."""

    name: str
    parameters: tuple[float, ...]
    texts: tuple[str, ...] = ()


class Pace(Protocol):
    """Chooses steps. This is all it must have; what else it may have are the protocols below."""

    def begin(self, span: Span) -> State:
        """The state before the first step; `InvalidInput` if the pace cannot cover the span.

        That of a nested scenario is open (`Onwards`, its stop is infinite): how far each advance of it goes
        is what `propose` gets as its limit.
        """
        ...

    def propose(self, state: State, t: float, limit: float, read: Read) -> tuple[Proposal, State]:
        """The next step from `t`, not beyond `limit`, and the state while it is under way."""
        ...


@runtime_checkable
class Prepares(Protocol):
    """A pace that needs to see more than there is: an error estimate, the condition of an event."""

    def prepare(self, blocks: Blocks, wiring: Wiring) -> tuple[Blocks, Pace]:
        """The blocks with what this pace needs added, and the pace that knows the registers of it."""
        ...


@runtime_checkable
class Reviews(Protocol):
    """A pace that may reject a step, so that all units need rollback.

    One that passes on what another says may have `retries`, False if that other one never rejects.
    """

    def review(self, state: State, t: float, reached: float, read: Read) -> tuple[Proposal | None, State]:
        """None to let the step from `t` to `reached` stand, or how to do it again."""
        ...


@runtime_checkable
class Notes(Protocol):
    """A pace whose state depends on what has come out at a communication point."""

    def note(self, state: State, t: float, fired: Sequence[str], read: Read) -> State:
        """The state after the events `fired` at the new time `t`."""
        ...


@runtime_checkable
class Hears(Protocol):
    """A pace whose state is no longer true when somebody changes inputs between two steps, by hand."""

    def anew(self, state: State, t: float, fired: Sequence[str], read: Read) -> State:
        """The state at the same time `t`, after values were exchanged again and events `fired` by that."""
        ...


@runtime_checkable
class HasTwin(Protocol):
    """A pace that the native core knows, too."""

    def native(self) -> Twin | None:
        """The pace's twin in the native core, if it has one."""
        ...


@runtime_checkable
class Tells(Protocol):
    """A pace that tells the program something before every step, in registers that it made in `prepare`.

    The program may write there, too; what it made of it the pace can read in `note`.
    """

    def tells(self, state: State) -> tuple[Sequence[float], int]:
        """What these registers hold from now on, and the first of them."""
        ...


@runtime_checkable
class Regular(Protocol):
    """A pace whose steps have a usual size."""

    @property
    def usual(self) -> float:
        """That size; 0 if there is none after all."""
        ...


@runtime_checkable
class Follows(Protocol):
    """A pace, or a coupling, that follows the conditions of events (`upbeat.master.events.conditions`)."""

    @property
    def derivatives(self) -> int:
        """How many time derivatives of conditions it has a use for: what units are to give out for it."""
        ...

    @property
    def symbolic(self) -> bool:
        """Whether these may come from the equations of units."""
        ...

    @property
    def inside(self) -> bool:
        """Whether events inside units are followed, too."""
        ...


@runtime_checkable
class LooksAtStates(Protocol):
    """A pace that judges steps by what they do to states, also to those that units do not give out."""

    @property
    def states(self) -> bool:
        """Whether units are to give out all their states, as far as they can."""
        ...


@runtime_checkable
class LooksAtEvents(Protocol):
    """A pace that does something about events, and can do without."""

    def plain(self) -> Pace:
        """The same steps, without a look at events."""
        ...


def prepared(pace: Pace, blocks: Blocks, wiring: Wiring) -> tuple[Blocks, Pace]:
    """The blocks with what the pace needs to see, and the pace that knows where that is."""
    return pace.prepare(blocks, wiring) if isinstance(pace, Prepares) else (blocks, pace)


def retries(pace: Pace) -> bool:
    """Whether the pace may reject a step."""
    return isinstance(pace, Reviews) and bool(getattr(pace, "retries", True))


def usual_step(pace: Pace) -> float:
    """The size of the steps that a pace makes as a rule; 0 if there is no such size."""
    return pace.usual if isinstance(pace, Regular) else 0.0


def plain(pace: Pace) -> Pace:
    """The same steps, without a look at events."""
    return pace.plain() if isinstance(pace, LooksAtEvents) else pace


def twin(pace: Pace) -> Twin | None:
    """The pace in the native core, if it is known there."""
    return pace.native() if isinstance(pace, HasTwin) else None


@dataclass(frozen=True, slots=True)
class Fixed:
    """Steps of one size on the grid start + k·step; the last one is clipped to the stop time.

    Grid points are computed from their index, never summed, also after a step that ended early. Where one
    ends a hair before a point of the grid (an event, a unit that stops), the next goes on to the point after
    it.
    """

    step: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "step", checked_step(self.step, "the step of Fixed"))

    @property
    def usual(self) -> float:
        return self.step

    def native(self) -> Twin | None:
        return Twin("fixed", (self.step,)) if type(self) is Fixed else None

    def begin(self, span: Span) -> State:
        count = (span.stop - span.start) / self.step
        if not count < 1e15 and isfinite(span.stop):
            raise InvalidInput(f"a step of {self.step:g} would need {count:.1g} steps: take a larger one")
        return (span.start, self.step)

    def propose(self, state: State, t: float, limit: float, read: Read) -> tuple[Proposal, State]:
        origin, step = state
        index = floor((t - origin) / step + SLIVER) + 1
        until = origin + index * step
        if not until > t:  # late in a run rounding may be more than that
            until = origin + (index + 1) * step
        return Proposal(limit if until > limit - SLACK * step else until, FIXED), state


@dataclass(frozen=True, slots=True)
class EventDriven:
    """From one known event to the next, in steps of `longest` at most: for units that rest in between."""

    longest: float = inf

    def __post_init__(self) -> None:
        if not (isinstance(self.longest, float) and self.longest == inf):
            object.__setattr__(self, "longest", checked_step(self.longest, "the longest step of EventDriven"))

    @property
    def usual(self) -> float:
        return self.longest if isfinite(self.longest) else 0.0

    def native(self) -> Twin | None:
        return Twin("event_driven", (self.longest,)) if type(self) is EventDriven else None

    def begin(self, span: Span) -> State:
        return ()

    def propose(self, state: State, t: float, limit: float, read: Read) -> tuple[Proposal, State]:
        until = t + self.longest
        # What is left of the way to `limit` by rounding alone is no step.
        room = limit if self.longest == inf else limit - SLACK * self.longest
        return Proposal(until if t < until < room else limit, FAR), state
