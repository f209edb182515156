"""A pace that goes back to events: a step in which one has happened is repeated, up to where it happened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf, isfinite, isnan, nan
from typing import NamedTuple

from upbeat.core.abilities import Ability
from upbeat.core.errors import MasterError
from upbeat.core.time import Span, checked_step
from upbeat.master import checks
from upbeat.master.blocks import Blocks
from upbeat.master.events.conditions import WIDTH, Watch, followed
from upbeat.master.paces import prediction
from upbeat.master.paces.bracketing import Bracket, attempt
from upbeat.master.paces.chains import FEW, MOST, TINY, endless, longer, right_after
from upbeat.master.paces.lookahead import LookAhead
from upbeat.master.paces.margins import PART, margin, visible
from upbeat.master.paces.pace import (
    EventDriven,
    Fixed,
    Hears,
    Notes,
    Pace,
    Proposal,
    Read,
    Reviews,
    State,
    Tells,
    Twin,
    prepared,
    twin,
)
from upbeat.master.paces.prediction import Coefficients
from upbeat.master.wiring import Wiring

_REASONS = ("", "first step", "after an event")
_HEAD = 8


class _Head(NamedTuple):
    """What the state has before the samples at the start of the step, at `low` and at `high`."""

    kind: float  # whether this is the start (1), an event has just happened (2), or neither (0)
    rounds: float  # how often the step has been sent back
    low: float  # a time at which no event has happened yet
    high: float  # one at which one has; `low` if none is known
    streak: float  # how many attempts one after the other went too far; negative: not far enough
    tolerance: float  # for this step
    last: float  # when something has changed last
    chain: float  # how often in a row right after another


class _Estimate(NamedTuple):
    at: float
    event: int
    before: bool = False  # this is before its fall: an event that has happened must be seen above zero first
    tiny: bool = False  # so soon after the start that nobody can see it


@dataclass(frozen=True, slots=True)
class Revised:
    """Steps as `pace` proposes them, but one that has gone past an event is sent back to it.

    At the end of a step, before anything happens there, the conditions of all events are looked at. If one
    has come true more than `tolerance` ago, or has been true for a while within the step, all units are set
    back and the step is repeated, to just behind the place at which it came true: on polynomials through
    both ends of what is left to search, their rates and second derivatives where outputs declare them.
    The step stands once it ends at most `tolerance` behind the event. Attempts are made where polynomials
    say, and halve what is left to search where these do not help, so 30 of them suffice for a tolerance of
    1e-8 of the step, whatever the condition is like. A step that has been sent back `most` times stands as
    it is. All units need rollback.

    What is true at the start, stops being so and is true again at the end has happened twice: the step ends
    in between, where the condition is seen to be false.

    A number for `pace` is the size of a fixed step. The first step, and the first after an event, is
    `after` times as long (one half, because inputs begin anew then; a `LookAhead` sees to that itself).
    `tolerance` is 1e-5 of the usual step, or what the solvers of the units can tell if that is more; where
    there is no usual step, 1e-5 of the one at hand.
    """

    pace: Pace
    tolerance: float | None = None
    most: int = 30
    after: float | None = None
    watch: Watch | None = field(default=None, repr=False)
    """Filled in by `prepare`."""

    def __post_init__(self) -> None:
        if isinstance(self.pace, (int, float)) and not isinstance(self.pace, bool):
            object.__setattr__(self, "pace", Fixed(self.pace))
        checks.has(self.pace, "propose", "the pace of Revised", "up.Revised(up.LookAhead(0.01))")
        if isinstance(self.pace, Revised):
            raise MasterError("the pace of Revised goes back to events already: one Revised is enough")
        if self.tolerance is not None:
            object.__setattr__(self, "tolerance", checked_step(self.tolerance, "tolerance of Revised"))
        checks.count(self.most, "most of Revised")
        if self.most > 50:
            raise MasterError(f"most of Revised is 50 at most, not {self.most}: it never needs so many")
        if self.after is not None:
            object.__setattr__(self, "after", checks.positive(self.after, "after of Revised"))
            if self._after > 1.0:
                raise MasterError(f"after of Revised must be above 0 and at most 1, not {self.after:g}")
        if not isinstance(self.watch, Watch | None):
            raise MasterError("watch of Revised is for its own use; leave it out")

    @property
    def _after(self) -> float:
        return self.after if self.after is not None else 1.0 if isinstance(self.pace, LookAhead) else 0.5

    @property
    def _tolerance(self) -> float:
        """For all steps; 0 if each has its own."""
        return self.tolerance or 0.0

    @property
    def derivatives(self) -> int:
        """How many time derivatives of conditions it has a use for."""
        return self.pace.derivatives if isinstance(self.pace, LookAhead) else 2

    @property
    def symbolic(self) -> bool:
        """Whether they may come from the equations of units."""
        return self.pace.symbolic if isinstance(self.pace, LookAhead) else True

    @property
    def inside(self) -> bool:
        """Whether events inside units are followed, too."""
        return self.pace.inside if isinstance(self.pace, LookAhead) else False

    # ---------------------------------------------------------------- before the run

    def prepare(self, blocks: Blocks, wiring: Wiring) -> tuple[Blocks, Pace]:
        """Blocks that compute all conditions, and the pace that knows their registers."""
        units = wiring.scenario.units
        unable = [wiring.called(unit) for unit in units if Ability.ROLLBACK not in units[unit].abilities]
        if unable:
            raise MasterError(
                f"{', '.join(unable)} cannot be set back to an earlier state (rollback), and Revised repeats "
                "steps in which an event has happened. Look ahead instead: LookAhead(step), or events="
                '"look_ahead".'
            )
        ready, pace = prepared(self.pace, blocks, wiring)
        watch = pace.watch if isinstance(pace, LookAhead) else None
        if watch is None:
            found = followed(ready, wiring, self.derivatives)
            if found is None:
                raise MasterError(
                    "Revised goes back to events between units, and the scenario has none. Give it some, "
                    "events={…}, or leave it out."
                )
            ready, watch, _ = found
        close, why = self._margin(wiring)
        far = f"{close:.3g} s" if close else f"{PART:g} of its length"
        note = f"a step that has gone past an event by more than {far} is repeated (tolerance: {why})"
        return replace(ready, notes=(*ready.notes, note)), replace(
            self, pace=pace, watch=watch, tolerance=close
        )

    def _margin(self, wiring: Wiring) -> tuple[float | None, str]:
        """The tolerance, None if each step has its own, and why."""
        if self.tolerance is not None:
            return self.tolerance, "as given"
        usual = usual_step(self.pace)
        if not usual:
            return None, "there is no usual step"
        return margin(wiring.scenario.units, usual, wiring.called)

    def native(self) -> Twin | None:
        inner = twin(self.pace)
        if type(self) is not Revised or self.watch is None or inner is None:
            return None
        watch = self.watch
        steps = (usual_step(self.pace), self._tolerance, self._after, self.most)
        parameters = (*steps, watch.first, watch.jumped, len(watch.names), *watch.counts, *watch.orders)
        return Twin(
            "revised",
            (*map(float, parameters), *inner.parameters),
            (inner.name, *watch.names, *inner.texts),
        )

    # ---------------------------------------------------------------- while it runs

    @property
    def _size(self) -> int:
        """How many numbers a sample of all conditions has."""
        assert self.watch is not None
        return WIDTH * len(self.watch.orders)

    def _parts(self, state: State) -> tuple[_Head, State, State, State, State]:
        """The head, the samples at the start, at `low` and at `high`, and the state of the pace inside."""
        n = self._size
        cuts = [_HEAD + k * n for k in range(4)]
        start, low, high = (state[cut : cut + n] for cut in cuts[:3])
        return _Head(*state[:_HEAD]), start, low, high, state[cuts[3] :]

    def begin(self, span: Span) -> State:
        head = _Head(-1.0, 0.0, span.start, span.start, 0.0, 0.0, -inf, 0.0)
        return (*head, *(0.0,) * (3 * self._size), *self.pace.begin(span))

    def propose(self, state: State, t: float, limit: float, read: Read) -> tuple[Proposal, State]:
        own, inner = state[: _HEAD + 3 * self._size], state[_HEAD + 3 * self._size :]
        step, inner = self.pace.propose(inner, t, limit, read)
        if state[0] > 0.0 and self._after < 1.0:
            usual = usual_step(self.pace)
            until = t + self._after * (usual if usual else step.until - t)
            if t < until < step.until:
                step = step._replace(until=until, reason=_REASONS[int(state[0])])
        return step, (*own, *inner)

    def tells(self, state: State) -> tuple[Sequence[float], int]:
        """What the pace inside has to say."""
        inner = state[_HEAD + 3 * self._size :]
        return self.pace.tells(inner) if isinstance(self.pace, Tells) else ((), 0)

    def note(self, state: State, t: float, fired: Sequence[str], read: Read) -> State:
        """A new step begins here."""
        assert self.watch is not None
        head = _Head(*state[:_HEAD])
        kind, last, chain = float(head.kind < 0.0), head.last, head.chain
        if read(self.watch.jumped):
            usual = usual_step(self.pace) or inf
            chain = longer(chain, last, t, right_after(head.tolerance, usual))
            kind, last = 2.0, t
        sample = self._sample(read)
        inner = state[_HEAD + 3 * self._size :]
        if isinstance(self.pace, Notes):
            inner = self.pace.note(inner, t, fired, read)
        return (*_Head(kind, 0.0, t, t, 0.0, 0.0, last, chain), *sample, *sample, *sample, *inner)

    def anew(self, state: State, t: float, fired: Sequence[str], read: Read) -> State:
        """The step to come begins from other samples."""
        sample = self._sample(read)
        kind = 2.0 if fired else state[0]
        inner = state[_HEAD + 3 * self._size :]
        if isinstance(self.pace, Hears):
            inner = self.pace.anew(inner, t, fired, read)
        return (kind, *state[1:_HEAD], *sample, *sample, *sample, *inner)

    def review(self, state: State, t: float, reached: float, read: Read) -> tuple[Proposal | None, State]:
        head, start, low, high, inner = self._parts(state)
        if head.rounds == 0.0:
            length = self._tolerance or PART * (reached - t)
            head = head._replace(tolerance=visible(length, reached))
        now = self._sample(read)
        end = reached
        if self._due(start, now):
            high, head = (
                now,
                head._replace(high=reached, streak=head.streak + 1.0 if head.streak > 0.0 else 1.0),
            )
        elif head.high > head.low:
            low, end = now, head.high
            head = head._replace(low=reached, streak=head.streak - 1.0 if head.streak < 0.0 else -1.0)
        known = head.high > head.low
        found = self._estimate(head, t, (start, low, high if known else now), end - head.low)
        until = self._again(head, reached, found, known and self._sure(start, high))
        if found.tiny or (until is not None and head.chain >= MOST):
            assert self.watch is not None
            return Proposal(nan, endless(self.watch.names[found.event], t)), state
        if until is not None:
            assert self.watch is not None
            head = head._replace(rounds=head.rounds + 1.0)
            way = "between two of" if found.before else "back to"
            text = f"{way} event '{self.watch.names[found.event]}' at {found.at:.9g}"
            return Proposal(until, text), (*head, *start, *low, *high, *inner)
        again = None
        if isinstance(self.pace, Reviews):
            again, inner = self.pace.review(inner, t, reached, read)
        # What was learnt about a longer step is of no use if the pace inside sends this one back.
        head = head._replace(rounds=0.0, low=t, high=t, streak=0.0)
        return again, (*head, *start, *start, *start, *inner)

    def _again(self, head: _Head, reached: float, found: _Estimate, sure: bool) -> float | None:
        """Where the next attempt should end, if this one ends too far from the event."""
        tolerance, may = head.tolerance, head.rounds < self.most
        if found.before:
            return found.at if may and found.at < reached else None
        if not head.high > head.low:  # nothing has happened at the end, but perhaps in between
            until = found.at + 0.5 * tolerance
            return until if may and until < reached - tolerance else None
        bracket = Bracket(head.low, head.high, head.streak, sure)
        return attempt(bracket, found.at, tolerance, int(head.rounds), self.most)

    def _sample(self, read: Read) -> State:
        assert self.watch is not None
        return tuple(float(read(self.watch.first + i)) for i in range(self._size))

    def _events(self) -> list[range]:
        """The places of the conditions of each event."""
        assert self.watch is not None
        found, place = [], 0
        for count in self.watch.counts:
            found.append(range(place, place + count))
            place += count
        return found

    def _due(self, start: State, now: State) -> bool:
        """Whether an event that was still to come at the start has happened by now."""
        return any(_largest(start, places) > 0.0 >= _largest(now, places) for places in self._events())

    def _known(self, places: range) -> bool:
        """Whether rates of all these conditions are known."""
        assert self.watch is not None
        return all(self.watch.orders[k] > 0 for k in places)

    def _sure(self, start: State, high: State) -> bool:
        """Whether rates of all events are known that have happened by now."""
        return all(
            self._known(places)
            for places in self._events()
            if _largest(start, places) > 0.0 >= _largest(high, places)
        )

    def _sinks(self, head: _Head, places: range, curves: Sequence[Coefficients]) -> bool:
        """Whether an event has just left these conditions below the border, on their way to it in vain."""
        return (
            head.kind == 2.0 and head.rounds == 0.0 and self._known(places) and prediction.rises_below(curves)
        )

    def _estimate(self, head: _Head, t: float, samples: Sequence[State], span: float) -> _Estimate:
        """Where the first event came true between two samples, and which; their end if nobody can say.

        The samples are those at the start of the step, and both between which to look. Rounding may lift
        what rests on its border by a hair; that is nothing, unless it comes from ever shorter leaps. The
        last of these do not even leave the border any more.
        """
        start, low, end = samples
        found, due = inf, 0
        best = _Estimate(head.low + span, -1)
        tiny = visible(TINY * head.tolerance, t, 1.0)
        for event, places in enumerate(self._events()):
            curves = [self._curve(low, end, k, span) for k in places]
            wait = prediction.first_zero(curves, span)
            if _largest(start, places) > 0.0:
                if _largest(end, places) <= 0.0:
                    due = event
                if wait < found:
                    found, best = wait, _Estimate(head.low + wait, event)
                continue
            leaps = head.chain >= FEW
            if wait < found:
                top = 0.0 if _largest(low, places) > 0.0 else prediction.highest(curves, wait)
                at = head.low + top
                hair = at - t < tiny
                if leaps or not hair:
                    found, best = wait, _Estimate(at, event, True, hair)
            elif leaps and wait == inf and self._sinks(head, places, curves):
                found, best = 0.0, _Estimate(t, event, True, True)
        return best if best.event >= 0 else best._replace(event=due)

    def _curve(self, low: State, end: State, k: int, span: float) -> Coefficients:
        """Through both samples; what is meant for a time before works for one after it."""
        assert self.watch is not None
        at, order = WIDTH * k, self.watch.orders[k]
        z = (low[at], end[at])
        rate = (low[at + 1], end[at + 1])
        bend = (low[at + 2], end[at + 2])
        if order == 2 and (isnan(bend[0]) or isnan(bend[1])):  # an FMU does not know them at the start
            order = 1
        if order == 1 and (isnan(rate[0]) or isnan(rate[1])):
            order = 0
        if order == 0:
            return prediction.straight(z, -span)
        if order == 1:
            return prediction.cubic(z, rate, -span)
        return prediction.quintic(z, rate, bend, -span)


def usual_step(pace: Pace) -> float:
    """The size of the steps that a pace makes as a rule; 0 if there is no such size."""
    if isinstance(pace, Fixed | LookAhead):
        return pace.step
    return pace.longest if isinstance(pace, EventDriven) and isfinite(pace.longest) else 0.0


def _largest(sample: State, places: range) -> float:
    found = sample[WIDTH * places[0]]
    for k in places[1:]:
        other = sample[WIDTH * k]
        if other > found:
            found = other
    return found
