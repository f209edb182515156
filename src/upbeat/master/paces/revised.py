"""A pace that goes back to events: a step in which one has happened is repeated, up to where it happened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf, nan

from upbeat.core.abilities import Ability
from upbeat.core.errors import MasterError
from upbeat.core.reasons import AFTER, BACK, BETWEEN, ENDLESS, FIRST, Reason
from upbeat.core.time import Span, checked_step
from upbeat.master import checks
from upbeat.master.blocks import Blocks
from upbeat.master.events.conditions import WIDTH, Watch, followed
from upbeat.master.paces.bracketing import Bracket, attempt
from upbeat.master.paces.chains import longer, right_after
from upbeat.master.paces.hindsight import Estimate, Search, due, estimate, falls_through, rates_known
from upbeat.master.paces.margins import PART, margin, visible
from upbeat.master.paces.pace import (
    Fixed,
    Follows,
    Pace,
    Proposal,
    Read,
    State,
    Twin,
    plain,
    prepared,
    usual_step,
)
from upbeat.master.paces.sampling import Samples, flat, look, unflat
from upbeat.master.paces.wrapping import Wrapping, follower
from upbeat.master.wiring import Wiring


@dataclass(frozen=True, slots=True)
class Revised(Wrapping):
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
        return self.after if self.after is not None else 1.0 if self._follower is not None else 0.5

    @property
    def _follower(self) -> Follows | None:
        """Who inside looks at conditions already."""
        return follower(self.pace)

    @property
    def _tolerance(self) -> float:
        """For all steps; 0 if each has its own."""
        return self.tolerance or 0.0

    @property
    def derivatives(self) -> int:
        """How many time derivatives of conditions it has a use for."""
        return self._follower.derivatives if self._follower is not None else 2

    @property
    def symbolic(self) -> bool:
        """Whether they may come from the equations of units."""
        return self._follower.symbolic if self._follower is not None else True

    @property
    def inside(self) -> bool:
        """Whether events inside units are followed, too."""
        return self._follower.inside if self._follower is not None else False

    @property
    def retries(self) -> bool:
        return True

    def plain(self) -> Pace:
        """The same steps, without a look at events."""
        return plain(self.pace)

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
        found = followed(ready, wiring, self.derivatives, symbolic=self.symbolic)
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
        if type(self) is not Revised or self.watch is None:
            return None
        watch = self.watch
        steps = (usual_step(self.pace), self._tolerance, self._after, self.most)
        parameters = (*steps, watch.first, watch.jumped, len(watch.names), *watch.counts, *watch.orders)
        return self.twin("revised", parameters, watch.names)

    # ---------------------------------------------------------------- while it runs

    @property
    def _watch(self) -> Watch:
        assert self.watch is not None
        return self.watch

    @property
    def own(self) -> int:
        return len(Search._fields) + 3 * WIDTH * len(self._watch.orders)

    def _parts(self, state: State) -> tuple[Search, list[Samples], State]:
        """The search, the samples at the start, at `low` and at `high`, and the state of the pace inside."""
        own, inner = self.apart(state)
        head, n = len(Search._fields), len(self._watch.orders)
        samples = unflat(own[head:])
        return Search(*own[:head]), [samples[k * n : (k + 1) * n] for k in range(3)], inner

    def begin(self, span: Span) -> State:
        search = Search(-1.0, 0.0, span.start, span.start, 0.0, 0.0, -inf, 0.0)
        return (*search, *(0.0,) * (self.own - len(search)), *self.pace.begin(span))

    def propose(self, state: State, t: float, limit: float, read: Read) -> tuple[Proposal, State]:
        own, inner = self.apart(state)
        step, inner = self.pace.propose(inner, t, limit, read)
        if state[0] > 0.0 and self._after < 1.0:
            usual = usual_step(self.pace)
            until = t + self._after * (usual if usual else step.until - t)
            if t < until < step.until:
                step = step._replace(until=until, reason=AFTER if state[0] == 2.0 else FIRST)
        return step, (*own, *inner)

    def note(self, state: State, t: float, fired: Sequence[str], read: Read) -> State:
        """A new step begins here."""
        search, _, inner = self._parts(state)
        kind, last, chain = float(search.kind < 0.0), search.last, search.chain
        if read(self._watch.jumped):
            usual = usual_step(self.pace) or inf
            chain = longer(chain, last, t, right_after(search.tolerance, usual))
            kind, last = 2.0, t
        sample = flat(look(self._watch, read))
        inner = self.note_inside(inner, t, fired, read)
        return (*Search(kind, 0.0, t, t, 0.0, 0.0, last, chain), *sample, *sample, *sample, *inner)

    def anew(self, state: State, t: float, fired: Sequence[str], read: Read) -> State:
        """The step to come begins from other samples."""
        search, _, inner = self._parts(state)
        sample = flat(look(self._watch, read))
        inner = self.hear_inside(inner, t, fired, read)
        search = search._replace(kind=2.0) if fired else search
        return (*search, *sample, *sample, *sample, *inner)

    def review(self, state: State, t: float, reached: float, read: Read) -> tuple[Proposal | None, State]:
        search, (start, low, high), inner = self._parts(state)
        watch = self._watch
        if search.rounds == 0.0:
            length = self._tolerance or PART * (reached - t)
            search = search._replace(tolerance=visible(length, reached))
        now, end = look(watch, read), reached
        if due(watch, start, now):
            high, search = now, search.too_far(reached)
        elif search.found:
            low, end, search = now, search.high, search.not_far_enough(reached)
        known = search.found
        found = estimate(watch, search, t, (start, low, high if known else now), end - search.low)
        happened = due(watch, start, high) if known else []
        sure = known and all(rates_known(watch, some) for some in happened)
        near = all(falls_through(low, high, some, search.tolerance) for some in happened)
        until = self._again(search, reached, found, sure, near)
        event = watch.names[found.event]
        if found.tiny:
            return Proposal(nan, Reason(ENDLESS, event, t)), state
        if until is not None:
            search = search._replace(rounds=search.rounds + 1.0)
            why = Reason(BETWEEN if found.before else BACK, event, found.at)
            return Proposal(until, why), (*search, *flat((*start, *low, *high)), *inner)
        # What was learnt about a longer step is of no use if the pace inside sends this one back.
        again, inner = self.review_inside(inner, t, reached, read)
        return again, (*search.over(t), *flat((*start, *start, *start)), *inner)

    def _again(self, search: Search, reached: float, found: Estimate, sure: bool, near: bool) -> float | None:
        """Where the next attempt should end, if this one ends too far from the event."""
        tolerance, may = search.tolerance, search.rounds < self.most
        if found.before:
            return found.at if may and found.at < reached else None
        if not search.found:  # nothing has happened at the end, but perhaps in between
            return found.end if may and found.end < reached - tolerance else None
        bracket = Bracket(search.low, search.high, search.streak, sure, near)
        return attempt(bracket, found.at, tolerance, int(search.rounds), self.most)
