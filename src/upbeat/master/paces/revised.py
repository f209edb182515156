"""A pace that goes back to events: a step in which one has happened is repeated, up to where it happened."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan
from typing import ClassVar

from upbeat.core.abilities import Ability
from upbeat.core.errors import MasterError, renamed
from upbeat.core.expr import Cell, Expr, Op, all_of, any_of, apply
from upbeat.core.reasons import AFTER, BACK, BETWEEN, ENDLESS, FIRST
from upbeat.core.records import dataclass
from upbeat.core.time import checked_step
from upbeat.master import checks
from upbeat.master.computations import FALLS, Fall, Fit
from upbeat.master.events.conditions import WIDTH, Watch, followed
from upbeat.master.paces.pace import Fixed, Follows, Pace, Written, nominal_step, plain, scaled, written
from upbeat.master.paces.watching import FEW, GRAINS, TINY, margin, right_after
from upbeat.master.paces.watching import RELATIVE_MARGIN as MARGIN
from upbeat.master.paces.wrapping import Wrapping, follower
from upbeat.master.program import Block, Blocks
from upbeat.master.registers import (
    Steps,
    Writer,
    at,
    equal,
    maximum,
    minimum,
    power,
    ulp,
    where,
)
from upbeat.master.wiring import Wiring

EVERY = 4
"""Each so many-th attempt halves what is left: estimates that are good need fewer."""
BARELY = 0.99
HARDLY = 2.01
"""A little less than all and a little more than twice, so that rounding does no harm to what is left."""
NEARBY = 2.0
"""So many times the tolerance behind an event, conditions are believed to have come there without a jump."""


@renamed
@dataclass(frozen=True, slots=True)
class Revised(Wrapping):
    """Steps of `pace`; one that has passed an event is repeated up to it.

    At the end of a step, before anything happens there, the conditions of all events are looked at. If one
    has come true more than `tolerance` ago, or has been true for a while within the step, all units are set
    back and the step is repeated, to just behind the place at which it came true: on polynomials through
    both ends of what is left to search, their rates and second derivatives where outputs declare them.
    The step stands once it ends at most `tolerance` behind the event. Attempts are made where polynomials
    say, and halve what is left to search where these do not help, so 30 of them suffice for a tolerance of
    1e-8 of the step, whatever the condition is like. A step that has been sent back `maximum` times stands as
    it is. All units need rollback.

    What is true at the start, stops being so and is true again at the end has happened twice: the step ends
    in between, where the condition is seen to be false.

    A number for `pace` is the size of a fixed step. The first step, and the first after an event, is
    `after` times as long (one half, because inputs begin again then; a `LookAhead` sees to that itself).
    `tolerance` is 1e-5 of the usual step, or what the solvers of the units can tell if that is more; where
    there is no nominal step, 1e-5 of the one at hand.
    """

    pace: Pace
    tolerance: float | None = None
    locates: ClassVar[bool] = True
    max_iterations: int = 30
    after: float | None = None

    def __post_init__(self) -> None:
        if isinstance(self.pace, (int, float)) and not isinstance(self.pace, bool):
            object.__setattr__(self, "pace", Fixed(self.pace))
        checks.pace(self.pace, "the pace of Revised", "up.Revised(up.LookAhead(0.01))")
        if isinstance(self.pace, Revised):
            raise MasterError("the pace of Revised goes back to events already: one Revised is enough")
        if self.tolerance is not None:
            object.__setattr__(self, "tolerance", checked_step(self.tolerance, "tolerance of Revised"))
        checks.count(self.max_iterations, "max_iterations of Revised")
        if self.max_iterations > 50:
            raise MasterError(
                f"max_iterations of Revised is 50 at most, not {self.max_iterations}: it never needs so many"
            )
        if self.after is not None:
            object.__setattr__(self, "after", checks.positive(self.after, "after of Revised"))
            if self._after > 1.0:
                raise MasterError(f"after of Revised must be above 0 and at most 1, not {self.after:g}")

    def scaled(self, factor: float) -> Pace | None:
        """The same around other steps; a tolerance that was given goes with them."""
        inside = scaled(self.pace, factor)
        own = None if self.tolerance is None else self.tolerance * factor
        return None if inside is None else replace(self, pace=inside, tolerance=own)

    @property
    def late(self) -> float | None:
        return self.tolerance

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

    def write(self, steps: Steps, blocks: Blocks, wiring: Wiring) -> tuple[Blocks, Written]:
        """Blocks that compute all conditions, and those that go back, around those of the pace inside."""
        units = wiring.scenario.units
        unable = [wiring.called(unit) for unit in units if Ability.ROLLBACK not in units[unit].abilities]
        if unable:
            raise MasterError(
                f"{', '.join(unable)} cannot be set back to an earlier state (rollback), and Revised repeats "
                "steps in which an event has happened. Look ahead instead: LookAhead(step), or events="
                '"look_ahead".'
            )
        steps.alone = False
        ready, inside = written(self.pace, steps, blocks, wiring)
        found = followed(ready, wiring, self.derivatives, symbolic=self.symbolic)
        if found is None:
            raise MasterError(
                "Revised goes back to events between units, and the scenario has none. Give it some, "
                "events={…}, or leave it out."
            )
        ready, watch, _ = found
        close, why = self._margin(wiring)
        far = f"{close:.3g} s" if close else f"{MARGIN:g} of its length"
        note = f"a step that has gone past an event by more than {far} is repeated (tolerance: {why})"
        known = replace(self, pace=inside.pace, tolerance=close)
        return replace(ready, notes=(*ready.notes, note)), _Search(known, inside, steps, watch).written()

    def _margin(self, wiring: Wiring) -> tuple[float | None, str]:
        """The tolerance, None if each step has its own, and why."""
        if self.tolerance is not None:
            return self.tolerance, "as given"
        usual = nominal_step(self.pace)
        if not usual:
            return None, "there is no nominal step"
        return margin(wiring.scenario.units, usual, wiring.called)


class _Search:
    """The search for an event within a step, as blocks: `propose`, `note`, `changed` and `review`."""

    def __init__(self, pace: Revised, inside: Written, steps: Steps, watch: Watch) -> None:
        self.pace, self.inside, self.steps, self.watch = pace, inside, steps, watch
        self.cells, new = WIDTH * len(watch.orders), steps.new
        self.kind = new(
            "back′kind", start=(-1.0,)
        )  # the start (1), an event has just happened (2), neither (0)
        self.rounds = new("back′rounds")  # how often the step has been sent back
        self.low = new("back′low")  # a time at which no event has happened yet
        self.high = new("back′high")  # one at which one has; `low` if none is known
        self.streak = new(
            "back′streak"
        )  # how many attempts one after the other went too far; negative: not far enough
        self.tolerance = new("back′tolerance")  # for this step
        self.last = new("back′last", start=(-inf,))  # when something has changed last
        self.chain = new("back′chain")  # how often in a row right after another
        self.at_start, self.at_low, self.at_high = (
            new(f"back′at {name}", self.cells) for name in ("start", "low", "high")
        )  # all conditions at these times
        self.now = Cell(watch.first)
        self.at_end = new("back′at end", self.cells)
        self.known, self.span = new("back′known"), new("back′span")
        self.kept, self.apart = new("back′kept", 2, (2.0, 0.0)), new("back′apart", 2)
        self.curves = new("back′curves", 6 * len(watch.orders))
        self.half = new("back′half")
        self.falls = new("back′falls", 1 + FALLS * len(watch.names))
        # Where the first event came true; which it is; whether this is before its fall, because an event that
        # has happened must be seen above zero first; whether it is so soon after the start that it cannot be
        # seen; and where a step should end that has gone past it, though it is over again at its end.
        self.at, self.event, self.before, self.hidden, self.end = (
            new(f"back′{name}") for name in ("event at", "event", "before", "hidden", "event over")
        )
        self.found, self.happened, self.tiny = new("back′found"), new("back′happened"), new("back′tiny")
        self.sure, self.close = new("back′sure"), new("back′close")
        self.to, self.goes = new("back′to"), new("back′goes")
        self.margin, self.count = new("back′margin"), new("back′count")

    def written(self) -> Written:
        begin = Writer()
        begin.let(self.low, self.steps.now)
        begin.let(self.high, self.steps.now)
        inside = self.inside
        return Written(
            self.pace,
            (*begin.block, *inside.begin),
            self._propose(),
            self._review(),
            self._note(),
            self._changed(),
        )

    def _propose(self) -> Block:
        w, steps, t, after = Writer(), self.steps, self.steps.now, self.pace._after
        w.add(*self.inside.propose)
        if after < 1.0:
            usual = nominal_step(self.pace.pace)
            with w.when(self.kind > 0.0):
                w.let(self.to, t + after * (usual if usual else steps.until - t))
                with w.when((t < self.to) & (self.to < steps.until)):
                    w.let(steps.until, self.to)
                    why = where(equal(self.kind, 2.0), steps.number(AFTER), steps.number(FIRST))
                    steps.because(w, why)
        return w.block

    def _note(self) -> Block:
        """A new step begins here."""
        w, t = Writer(), self.steps.now
        w.let(self.kind, self.kind < 0.0)
        with w.when(Cell(self.watch.jumped)):
            within = right_after(self.tolerance, nominal_step(self.pace.pace) or inf)
            w.let(self.chain, where(t - self.last <= within, self.chain + 1.0, 0.0))
            w.let(self.kind, 2.0)
            w.let(self.last, t)
        w.let(self.tolerance, 0.0)
        w.copy(self.at_start, self.now, self.cells)
        self._over(w)
        w.add(*self.inside.note)
        return w.block

    def _over(self, w: Writer) -> None:
        """The step stands, or begins again: nothing is known of it."""
        w.let(self.rounds, 0.0)
        w.let(self.low, self.steps.now)
        w.let(self.high, self.steps.now)
        w.let(self.streak, 0.0)
        w.copy(self.at_low, self.at_start, self.cells)
        w.copy(self.at_high, self.at_start, self.cells)

    def _changed(self) -> Block:
        """The step to come begins from other samples."""
        w = Writer()
        for to in (self.at_start, self.at_low, self.at_high):
            w.copy(to, self.now, self.cells)
        with w.when(self.steps.fired > 0.0):
            w.let(self.kind, 2.0)
        w.add(*self.inside.changed)
        return w.block

    def _review(self) -> Block:
        w, steps, watch = Writer(), self.steps, self.watch
        t, reached, tolerance = steps.now, steps.reached, self.tolerance
        w.let(steps.again, 0.0)
        with w.when(equal(self.rounds, 0.0)):
            length = self.pace._tolerance or MARGIN * (reached - t)
            w.let(tolerance, maximum(length, GRAINS * ulp(reached)))
        # What has happened by now: `high`, `low` and what is left to search.
        w.copy(self.at_end, self.now, self.cells)
        w.let(self.span, reached)
        with w.when(any_of(self._due(self.now))):
            w.copy(self.at_high, self.now, self.cells)
            w.let(self.high, reached)
            w.let(self.streak, where(self.streak > 0.0, self.streak + 1.0, 1.0))
        with w.otherwise(), w.when(self.high > self.low):
            w.copy(self.at_low, self.now, self.cells)
            w.let(self.low, reached)
            w.let(self.span, self.high)
            w.let(self.streak, where(self.streak < 0.0, self.streak - 1.0, -1.0))
        w.let(self.span, self.span - self.low)
        w.let(self.known, self.high > self.low)
        with w.when(self.known):
            w.copy(self.at_end, self.at_high, self.cells)
        self._estimate(w)
        self._judge(w)
        self._aim(w)
        with w.when(self.hidden):
            steps.propose(w, nan, steps.numbers(ENDLESS, watch.names, at=True) + self.event, t)
            w.let(steps.again, 1.0)
        with w.otherwise():
            with w.when(self.goes):
                w.let(self.rounds, self.rounds + 1.0)
                back, between = (steps.numbers(kind, watch.names, at=True) for kind in (BACK, BETWEEN))
                steps.propose(w, self.to, where(self.before, between, back) + self.event, self.at)
                w.let(steps.again, 1.0)
            with w.otherwise():
                # What was learnt about a longer step is of no use if the pace inside sends this one back.
                self._over(w)
                w.add(*self.inside.review)
        return w.block

    def _largest(self, samples: Cell, places: range) -> Expr:
        """The largest of some conditions: where it falls to zero, their event happens."""
        found: Expr = at(samples, WIDTH * places[0])
        for k in places[1:]:
            found = maximum(found, at(samples, WIDTH * k))
        return found

    def _due(self, samples: Cell) -> list[Expr]:
        """Whether each event was still to come at the start, and has happened by then."""
        return [
            (self._largest(self.at_start, some) > 0.0) & (self._largest(samples, some) <= 0.0)
            for some in self.watch.places
        ]

    def _estimate(self, w: Writer) -> None:
        """Where the first event came true between `low` and the end, and which it is; the end, if that is
        not known.

        On polynomials through both; what is meant for a time before works for one after it. Rounding may
        lift what rests on its border by a hair; that is nothing, unless it comes from ever shorter leaps. The
        last of these do not even leave the border any more.
        """
        watch, t, low, leaps = self.watch, self.steps.now, self.low, self.chain >= float(FEW)
        w.let(self.apart, -self.span)
        sets = (self.at_low.index, self.at_end.index, self.at_end.index)
        w.add(Fit(watch.orders, sets, self.kept.index, self.apart.index, self.curves.index))
        w.let(self.half, 0.5 * self.tolerance)
        w.add(Fall(watch.counts, self.curves.index, self.span.index, self.half.index, self.falls.index))
        w.let(self.tiny, maximum(TINY * self.tolerance, ulp(t)))
        w.let(self.found, inf)
        w.let(self.happened, 0.0)
        self._is(w, low + self.span, -1.0)
        for event, places in enumerate(watch.places):
            wait, stop, top, _, rising = (at(self.falls, 1 + FALLS * event + k) for k in range(FALLS))
            with w.when(self._largest(self.at_start, places) > 0.0):
                with w.when(self._largest(self.at_end, places) <= 0.0):
                    w.let(self.happened, float(event))
                with w.when((wait < self.found) & ~self._just_met(places)):
                    w.let(self.found, wait)
                    self._is(w, low + wait, float(event))
                    # Half of the tolerance behind it, or within it where it lasts less than that.
                    whole = equal(stop, wait + self.half)
                    w.let(self.end, where(whole, low + wait + self.half, low + stop))
            with w.otherwise():
                with w.when((wait < self.found) & ~self._just_met(places)):
                    w.let(self.to, low + where(self._largest(self.at_low, places) > 0.0, 0.0, top))
                    hair = self.to - t < self.tiny
                    with w.when(leaps | ~hair):
                        w.let(self.found, wait)
                        self._is(w, self.to, float(event), 1.0, hair)
                if all(watch.orders[k] > 0 for k in places):
                    with w.otherwise():
                        # An event has just left these conditions below the border, on their way in vain.
                        fresh = equal(self.kind, 2.0) & equal(self.rounds, 0.0)
                        with w.when(leaps & fresh & rising):
                            w.let(self.found, 0.0)
                            self._is(w, t, float(event), 1.0, 1.0)
        w.let(self.event, where(self.event < 0.0, self.happened, self.event))

    def _just_met(self, places: range) -> Expr:
        """Whether an event inside a unit has happened right before the end, at zero of these conditions: they
        leap there, and polynomials over the leap would say that they came to zero sooner."""
        leaps = []
        for k in places:
            value, rate = (at(self.at_end, WIDTH * k + i) for i in range(2))
            since = value / rate
            leaps.append((since > 0.0) & (since <= NEARBY * self.tolerance))
        return ~self.known & Cell(self.watch.jumped) & any_of(leaps)

    def _is(
        self, w: Writer, when: Expr, event: float, before: Expr | float = 0.0, hidden: Expr | float = 0.0
    ) -> None:
        w.let(self.hidden, hidden)
        w.let(self.at, when)
        w.let(self.event, event)
        w.let(self.before, before)
        w.let(self.end, inf)

    def _judge(self, w: Writer) -> None:
        """Whether estimates know how fast conditions fall at `high`, and they do so as they would right
        behind the event: one of its conditions that were above zero is as far below as it falls in about the
        tolerance, so the event cannot have come sooner. What jumps (a step, a truth) is further down, or does
        not fall at all."""
        sure: list[Expr] = [self.known]
        close: list[Expr] = []
        for due, places in zip(self._due(self.at_high), self.watch.places, strict=True):
            if not all(self.watch.orders[k] > 0 for k in places):
                sure.append(~due)
            through = []
            for k in places:
                rate = at(self.at_high, WIDTH * k + 1)
                far = at(self.at_high, WIDTH * k) >= NEARBY * self.tolerance * rate
                through.append((at(self.at_low, WIDTH * k) > 0.0) & (rate < 0.0) & far)
            close.append(~(self.known & due) | any_of(through))
        w.let(self.sure, all_of(sure))
        w.let(self.close, all_of(close))

    def _aim(self, w: Writer) -> None:
        """Where the next attempt should end, if this one ends too far from the event."""
        reached, tolerance, goes, to = self.steps.reached, self.tolerance, self.goes, self.to
        may = self.rounds < float(self.pace.max_iterations)
        w.let(goes, 0.0)
        with w.when(self.before):
            w.let(to, self.at)
            w.let(goes, may & (self.at < reached))
        with w.otherwise():
            with w.when(~self.known):  # nothing has happened at the end, but perhaps in between
                w.let(to, self.end)
                w.let(goes, may & (self.end < reached - tolerance))
            with w.otherwise():
                self._attempt(w)

    def _attempt(self, w: Writer) -> None:
        """An attempt between both times, if the event is estimated to be `at`.

        At most `tolerance` lies between both times then, or, where rates are known, between the estimate and
        the end. A line through two far ends says little about the place where it is zero, so without rates
        only the other side will do; so it is where conditions jump, whatever their rates say. Of the
        `max_iterations` attempts enough are kept for halving: if they can make the distance as small as
        `tolerance` at all, they do, whatever the estimates are worth.
        """
        low, high, to, tolerance = self.low, self.high, self.to, self.tolerance
        left, width, middle = (
            float(self.pace.max_iterations) - self.rounds,
            high - low,
            low + 0.5 * (high - low),
        )
        done = self.sure & self.close & (self.streak > 0.0) & (high - self.at <= tolerance)
        with w.when(width <= tolerance):
            w.let(to, high)
            w.let(self.goes, (left > 0.0) & (self.streak < 0.0))
        with w.otherwise(), w.when((left > 0.0) & ~done):
            w.let(self.goes, 1.0)
            with w.when(equal(apply(Op.MOD, self.rounds, float(EVERY)), EVERY - 1.0)):
                w.let(to, middle)
            with w.otherwise():
                self._near(w)
            w.let(to, where((low < to) & (to < high), to, middle))
            reach = (BARELY * tolerance) * power(2.0, left - 2.0)  # one more is kept for going to `high`
            w.let(self.margin, reach)
            with w.when(HARDLY * self.margin >= width):  # halving is still enough
                first, last = high - self.margin, low + self.margin
                w.let(to, where(first <= last, minimum(maximum(to, first), last), middle))
            w.let(to, where((low < to) & (to < high), to, middle))

    def _near(self, w: Writer) -> None:
        """Near the estimate, on the side that is not known as well; further away, the longer it is wrong."""
        margin, count, streak = self.margin, self.count, self.streak
        w.let(margin, 0.5 * self.tolerance)
        with w.when(streak < 0.0):
            w.let(count, -streak - 1.0)
            with w.when(count > 0.0), w.repeat(self.pace.max_iterations, count <= 0.0):
                w.let(margin, margin * 10.0)
                w.let(count, count - 1.0)
            w.let(self.to, self.at + margin)
        with w.otherwise():
            free = where(self.sure, 2.0, 1.0)
            beside = where(self.sure, self.at + margin, self.at - margin)
            further = self.at - (self.high - self.at) * power(8.0, streak - free)
            w.let(self.to, where(streak <= free, beside, further))
