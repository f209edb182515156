"""Paces: how far the next step goes, and whether it stands. `Fixed` and `EventDriven` are the simplest.

A pace is part of the program: it writes blocks over registers (`Writes`), as a coupling does, and what it
remembers is in registers, too. One may also be written as a class in Python (`Proposes`), which the program
calls: pure functions over an explicit state, a flat tuple of numbers that is kept in registers. Neither sees
units.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from math import inf, isfinite
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, cast, runtime_checkable

from upbeat.core.errors import InvalidInput, StepError, suggest
from upbeat.core.expr import Expr
from upbeat.core.ports import Value
from upbeat.core.reasons import FAR, FIXED, LANDED, Reason, Why, as_reason
from upbeat.core.records import dataclass
from upbeat.core.time import OpenSpan, Span, checked_step
from upbeat.master.computations import GRID, SLACK, Grid
from upbeat.master.program import Block, Call
from upbeat.master.registers import Steps, Writer, at, where

if TYPE_CHECKING:
    from upbeat.master.paces.monitored import Monitored
    from upbeat.master.program import Blocks
    from upbeat.master.wiring import Wiring

Read = Callable[[int], Value]
"""Gives the content of a register."""
State = tuple[float, ...]
"""What a pace remembers."""


class Proposal(NamedTuple):
    """Where the next step should end, with which block, and why.

    Where `until` is no number, the pace gives up: the reason is what the user reads.
    """

    until: float
    reason: Why
    block: str = "step"


class Proposes(Protocol):
    """A pace written in Python. This is all it must have; what else it may have are the protocols below."""

    def begin(self, span: Span) -> State:
        """The state before the first step; `InvalidInput` if the pace cannot cover the span.

        That of a nested scenario is open (`OpenSpan`, its stop is infinite): how far each advance of it goes
        is what `propose` gets as its limit.
        """
        ...

    def propose(self, state: State, t: float, limit: float, read: Read) -> tuple[Proposal, State]:
        """The next step from `t`, not beyond `limit`, and the state while it is under way."""
        ...


@runtime_checkable
class Prepares(Protocol):
    """A pace that needs to see more than there is: an error estimate, the condition of an event."""

    def prepare(self, blocks: Blocks, wiring: Wiring) -> tuple[Blocks, Proposes]:
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
    """A pace whose state is no longer true when inputs are changed by hand, between two steps."""

    def changed(self, state: State, t: float, fired: Sequence[str], read: Read) -> State:
        """The state at the same time `t`, after values were exchanged again and events `fired` by that."""
        ...


@runtime_checkable
class Regular(Protocol):
    """A pace whose steps have a usual size."""

    @property
    def nominal_step(self) -> float:
        """That size; 0 if there is none after all."""
        ...


@runtime_checkable
class EqualSteps(Protocol):
    """A pace all of whose steps have one size, and lie on a grid; but for the last one of a run."""

    @property
    def equal(self) -> float:
        """That size."""
        ...


@runtime_checkable
class Divides(Protocol):
    """A pace that divides the way to the next known event by itself, and begins again with each of them."""

    @property
    def longest(self) -> float:
        """No step is longer."""
        ...

    def end(self, t: Expr, limit: Expr) -> Expr:
        """Where the step from `t` ends, if the event is at `limit`."""
        ...


@runtime_checkable
class Lists(Protocol):
    """A pace that lists which steps may follow each other, so that all sequences of them can be judged."""

    def table(self) -> Monitored:
        """The list as that of a monitor."""
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


class Written(NamedTuple):
    """What a pace adds to a program (see `Pacing`): blocks, and itself with what it had left open."""

    pace: Pace
    begin: Block
    """Before anything else, at the start time."""
    propose: Block
    review: Block = ()
    note: Block = ()
    changed: Block = ()


@runtime_checkable
class Writes(Protocol):
    """A pace that is part of the program: it writes blocks, and no engine needs to know of it."""

    def write(self, steps: Steps, blocks: Blocks, wiring: Wiring) -> tuple[Blocks, Written]:
        """The blocks of the coupling with what the pace needs to see added, and those of its own."""
        ...


Pace = Proposes | Writes
"""Chooses steps."""


def written(pace: Pace, steps: Steps, blocks: Blocks, wiring: Wiring) -> tuple[Blocks, Written]:
    """The blocks of a pace; of one in Python, those that call it."""
    if isinstance(pace, Writes):
        _check_overrides(pace)
        return pace.write(steps, blocks, wiring)
    ready, known = pace.prepare(blocks, wiring) if isinstance(pace, Prepares) else (blocks, pace)
    return ready, Called(known, steps).written


def _check_overrides(pace: Writes) -> None:
    """A class on top of a built-in pace may not have methods that would never be called."""
    for kind in type(pace).__mro__:
        if "write" in vars(kind):
            return
        if own := sorted({"begin", "propose", "review", "note", "changed", "anew"} & vars(kind).keys()):
            base = next(base for base in type(pace).__mro__ if "write" in vars(base)).__name__
            raise InvalidInput(
                f"{kind.__name__}.{own[0]} would never be called: the steps of {base} are blocks of the "
                f"program. Make {kind.__name__} a pace of its own, not derived from {base}, with `begin` and "
                "`propose` (see docs/extending.md)"
            )


def _hook(pace: Proposes) -> Callable[..., State] | None:
    """What a pace does after a change by hand, if anything."""
    if isinstance(pace, Hears) or not hasattr(pace, "anew"):
        return getattr(pace, "changed", None)
    who = type(pace).__name__
    warnings.warn(f"{who}: the method 'anew' is now called 'changed'", FutureWarning, stacklevel=2)
    return cast("Callable[..., State]", pace.anew)


ROOM = 64
"""So many numbers a pace in Python may remember; twice as many as it begins with, if that is more."""


class Called:
    """A pace written in Python, for the programs that call it: its state is in registers, too."""

    def __init__(self, pace: Proposes, steps: Steps) -> None:
        self.pace = pace
        self._steps = steps
        self._now, self._reached = steps.now.index, steps.reached.index
        self._first: Any = pace.begin(steps.span)
        self._room = max(ROOM, 2 * len(self._first)) if isinstance(self._first, (tuple, list)) else 1
        self._state = steps.new("pace′state", 1 + self._room).index
        self._reasons: list[Reason] = []
        self._numbers: dict[Reason, int] = {}
        self._changed = _hook(pace)
        steps.calls.append(self)

    @property
    def written(self) -> Written:
        """Blocks with nothing but calls of what it has."""
        pace = self.pace
        return Written(
            pace,
            (Call(self, "begin"),),
            (Call(self, "propose"),),
            (Call(self, "review"),) if isinstance(pace, Reviews) else (),
            (Call(self, "note"),) if isinstance(pace, Notes) else (),
            (Call(self, "changed"),) if self._changed is not None else (),
        )

    def reason(self, number: int) -> Reason:
        """What it has said."""
        return self._reasons[number]

    def __call__(
        self, what: str, read: Read, write: Callable[[int, Value], None], fired: Sequence[str]
    ) -> None:
        """Do what an instruction asks for."""
        steps, pace = self._steps, self.pace
        state = self._kept(read)
        t, limit = float(read(self._now)), float(read(steps.limit.index))
        if what == "begin":
            state = pace.begin(Span(t, limit) if isfinite(limit) else OpenSpan(t))
        elif what == "propose":
            proposal, state = pace.propose(state, t, limit, read)
            self._wants(proposal, write)
        elif what == "review":
            assert isinstance(pace, Reviews)
            again, state = pace.review(state, t, float(read(self._reached)), read)
            if again is not None and not retries(pace):
                raise StepError(
                    f"{type(pace).__name__} rejects the step from t = {t:.9g}, but says that it never does "
                    "(retries = False)"
                )
            write(steps.again.index, float(again is not None))
            if again is not None:
                self._wants(again, write)
        elif what == "note":
            assert isinstance(pace, Notes)
            state = pace.note(state, t, fired, read)
        else:
            assert self._changed is not None
            state = self._changed(state, t, fired, read)
        self._keep(state, write)

    def _kept(self, read: Read) -> State:
        """The state as the pace gave it: of the same type, with whole numbers where it began with some."""
        first, count = self._first, int(read(self._state))
        numbers: list[Any] = [float(read(self._state + 1 + i)) for i in range(min(max(count, 0), self._room))]
        many = isinstance(first, (tuple, list))
        for i, began in enumerate(first if many else (first,)):
            if i < len(numbers) and isinstance(began, int) and numbers[i].is_integer():
                numbers[i] = type(began)(numbers[i])
        if not many:
            return cast(State, numbers[0] if numbers else first)
        made = getattr(type(first), "_make", type(first))
        return cast(State, made(numbers if len(numbers) >= len(first) or made is type(first) else first))

    def _keep(self, state: State, write: Callable[[int, Value], None]) -> None:
        many = isinstance(self._first, (tuple, list))
        numbers = cast(Sequence[float], state if many else () if state is None else (state,))
        if len(numbers) > self._room:
            raise StepError(
                f"{type(self.pace).__name__} remembers {len(numbers)} numbers, and there is room for "
                f"{self._room}. Let its begin return as many as it will ever need."
            )
        for i, number in enumerate((len(numbers), *numbers)):
            write(self._state + i, float(number))

    def _wants(self, proposal: Proposal, write: Callable[[int, Value], None]) -> None:
        steps = self._steps
        until, why, block = proposal
        if block not in steps.blocks:
            raise StepError(
                f"the pace asked for the step block '{block}'. {suggest(block, steps.blocks, 'step blocks')}"
            )
        reason = as_reason(why)
        if reason not in self._numbers:
            self._numbers[reason] = len(self._reasons)
            self._reasons.append(reason)
        number = len(steps.reasons) + self._numbers[reason]
        write(steps.until.index, float(until))
        write(steps.block.index, float(steps.blocks.index(block)))
        for i, one in enumerate((number, reason.kind in LANDED, 0.0, 0.0)):
            write(steps.reason.index + i, float(one))


def check_span(pace: Pace, span: Span) -> None:
    """Raises `InvalidInput` if the pace cannot cover this span."""
    begin = getattr(pace, "check_span", None) or getattr(pace, "begin", None)
    if begin is not None:
        begin(span)


def retries(pace: Pace) -> bool:
    """Whether the pace may reject a step."""
    return bool(getattr(pace, "retries", isinstance(pace, Reviews)))


def nominal_step(pace: Pace) -> float:
    """The size of the steps that a pace makes as a rule; 0 if there is no such size."""
    if isinstance(pace, Regular):
        return pace.nominal_step
    if not hasattr(pace, "usual"):
        return 0.0
    who = type(pace).__name__
    warnings.warn(f"{who}: the property 'usual' is now called 'nominal_step'", FutureWarning, stacklevel=2)
    return float(getattr(pace, "usual"))  # noqa: B009


def equal_steps(pace: Pace) -> float | None:
    """The size of its steps, if all have the same one."""
    return pace.equal if isinstance(pace, EqualSteps) else None


def scaled(pace: Pace, factor: float) -> Pace | None:
    """The same pace with steps `factor` times as long, as far as steps are up to it; None if it cannot tell
    what that would be. One that chooses its steps by a tolerance gets another one."""
    own = getattr(pace, "scaled", None)
    return None if own is None else cast("Pace | None", own(factor))


def lateness(pace: Pace) -> float | None:
    """How long after an event units may communicate next; None if that is not known."""
    late = getattr(pace, "late", None)
    return late if late is not None else nominal_step(pace) or None


def needs_span(pace: Pace) -> str | None:
    """What is to be given to a pace that takes something from the length of the run; None: it does not."""
    return getattr(pace, "needs_span", None)


def open_ended(pace: Pace) -> Pace:
    """The pace as it is in a nested scenario, which is not told how long the run is. Raises `MasterError` if
    it must know that."""
    own = getattr(pace, "open_ended", None)
    return pace if own is None else cast(Pace, own())


def plain(pace: Pace) -> Pace:
    """The same steps, without a look at events."""
    return pace.plain() if isinstance(pace, LooksAtEvents) else pace


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
    def equal(self) -> float:
        return self.step

    @property
    def nominal_step(self) -> float:
        return self.step

    def scaled(self, factor: float) -> Fixed:
        return Fixed(self.step * factor)

    def check_span(self, span: Span) -> None:
        count = (span.stop - span.start) / self.step
        if not count < 1e15 and isfinite(span.stop):
            raise InvalidInput(f"a step of {self.step:g} would need {count:.1g} steps: take a larger one")

    def write(self, steps: Steps, blocks: Blocks, wiring: Wiring) -> tuple[Blocks, Written]:
        grid = steps.new("pace′grid", GRID, (0.0, self.step, 0.0, 0.0, -inf))
        begin, w = Writer(), Writer()
        begin.let(grid, steps.now)
        begin.let(at(grid, GRID - 1), -inf)
        w.add(Grid(grid.index, steps.now.index, steps.limit.index, steps.until.index))
        steps.propose_default(begin if steps.alone else w, FIXED)
        return blocks, Written(self, begin.block, w.block)


@dataclass(frozen=True, slots=True)
class EventDriven:
    """From one known event to the next, in steps of `longest` at most."""

    longest: float = inf
    rests: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not (isinstance(self.longest, float) and self.longest == inf):
            object.__setattr__(self, "longest", checked_step(self.longest, "the longest step of EventDriven"))

    @property
    def nominal_step(self) -> float:
        return self.longest if isfinite(self.longest) else 0.0

    def scaled(self, factor: float) -> EventDriven:
        return EventDriven(self.longest * factor)

    def write(self, steps: Steps, blocks: Blocks, wiring: Wiring) -> tuple[Blocks, Written]:
        begin, w = Writer(), Writer()
        w.let(steps.until, self.end(steps.now, steps.limit))
        steps.propose_default(begin if steps.alone else w, FAR)
        return blocks, Written(self, begin.block, w.block)

    def end(self, t: Expr, limit: Expr) -> Expr:
        """Where the step from `t` ends."""
        until = t + self.longest
        # What is left of the way to `limit` by rounding alone is no step.
        room = limit if self.longest == inf else limit - SLACK * self.longest
        return where((t < until) & (until < room), until, limit)
