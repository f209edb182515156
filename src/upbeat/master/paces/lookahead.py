"""A pace that sees the events of a scenario coming, and ends a step where one is expected."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan
from typing import Literal, get_args

from upbeat.core.errors import MasterError
from upbeat.core.expr import Cell, Expr, Number, all_of, any_of
from upbeat.core.reasons import AFTER, ENDLESS, EXPECTED, FIRST, OVER, STOP, USUAL
from upbeat.core.records import dataclass
from upbeat.core.time import checked_step
from upbeat.master import checks
from upbeat.master.computations import FALLS, SLACK, Fall, Fit
from upbeat.master.events.conditions import WIDTH, Watch, followed
from upbeat.master.paces.pace import Fixed, Pace, Written
from upbeat.master.paces.watching import FEW, GRAINS, RELATIVE_MARGIN, TINY, margin, right_after
from upbeat.master.program import Block, Blocks
from upbeat.master.registers import Steps, Writer, at, equal, maximum, minimum, ulp, where
from upbeat.master.wiring import Wiring

Method = Literal["auto", "published", "secant", "quadratic", "hermite", "hermite2", "approach"]
_DERIVATIVES = {
    "auto": 2,
    "approach": 2,
    "published": 0,
    "secant": 0,
    "quadratic": 0,
    "hermite": 1,
    "hermite2": 2,
}
_WORDS = ("a parabola through its last three values", "values and rates", "values, rates and curvatures")

DEPTH = 3
"""So many samples are kept: now, and two before."""
CLOSE = 0.05
"""The part of the distance between two samples within which a third one takes the place of the newer."""
APPROACH = 0.8
"""How much of the way to an event a step goes that is to end before it."""
FURTHER = 1.3
"""So many steps ahead is looked for an event that a step is to end before."""
NORMAL, AT_START, AFTER_EVENT = 0.0, 1.0, 2.0
"""The phase of a run: the first step, and the first after an event, are shorter."""
NEAR = 0.1
"""Two samples that are closer to each other than this part of the step say little about its end: their
differences are about what rates and inputs leave of errors."""


@dataclass(frozen=True, slots=True)
class LookAhead:
    """Steps of `step`, or to where an event is expected.

    The conditions of all events are followed over communication points. `method` says how: "published" as in
    the paper by Tischer, Genser, Watzenig and Benedikt, where a straight line through the last two values is
    continued for `forecast` steps (2); if all conditions of an event are negative there, the step ends at
    `safety` (0.9) times the way to zero, and is at least `tolerance` long. The others end the step just
    behind the place at which all conditions of an event are at most zero, by `tolerance`: on a straight line
    ("secant"), a parabola through three values ("quadratic"), or a polynomial through the last two values and
    their rates ("hermite"), and second derivatives, too ("hermite2"). They also see a condition that only
    dips below zero within a step. Rates come from outputs that declare their `derivative`, and (unless
    `symbolic` is off) from the equations of units. "auto" takes for each condition the best that is known.
    "approach" sees as well, but ends steps *before* an event, each at 0.8 of the way, until `tolerance` is
    left, and then goes over it in a step that is no longer than twice that: for units that notice events by
    themselves, on inputs that they do not see move within a step.
    Events that units of equations, FMUs for model exchange or nested scenarios have `inside` are followed,
    too: the units act, and the step ends there.

    After an event everything begins again: what conditions and inputs were before says nothing about what
    they will be. The first step then is `after` times the usual one (1 for "published", else one half); so is
    the very first. `tolerance` is step/40 for "published", step/100 for "approach", else 1e-5·step, or what
    the solvers of the units can tell if that is more.
    """

    step: float
    method: Method = "auto"
    forecast: float | None = None
    safety: float | None = None
    tolerance: float | None = None
    after: float | None = None
    symbolic: bool = True
    inside: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "step", checked_step(self.step, "the step of LookAhead"))
        checks.choice(self.method, get_args(Method), "method of LookAhead")
        if self.tolerance is not None:
            object.__setattr__(self, "tolerance", checked_step(self.tolerance, "the tolerance of LookAhead"))
            if self._tolerance > self.step:
                raise MasterError(
                    f"the tolerance of LookAhead ({self.tolerance:g}) is more than its step ({self.step:g})"
                )
        for name, low, high in (("safety", 0.0, 1.0), ("after", 0.0, 1.0), ("forecast", 1.0, 100.0)):
            value = getattr(self, name)
            if value is None:
                continue
            if name != "after" and not self._published:
                raise MasterError(
                    f'{name} of LookAhead is about method="published"; {self.method!r} does without it'
                )
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not number or not low < value <= high:
                raise MasterError(
                    f"{name} of LookAhead must be above {low:g} and at most {high:g}, not {value!r}"
                )
        for name in ("symbolic", "inside"):
            checks.flag(getattr(self, name), f"{name} of LookAhead")

    def scaled(self, factor: float) -> LookAhead:
        """The same with other steps; a tolerance that was given goes with them."""
        own = None if self.tolerance is None else self.tolerance * factor
        return replace(self, step=self.step * factor, tolerance=own)

    @property
    def _published(self) -> bool:
        return self.method == "published"

    @property
    def _forecast(self) -> float:
        return self.forecast if self.forecast is not None else 2.0

    @property
    def _safety(self) -> float:
        return self.safety if self.safety is not None else 0.9

    @property
    def _tolerance(self) -> float:
        parts = {"published": 0.025, "approach": 0.01}
        return (
            self.tolerance
            if self.tolerance is not None
            else self.step * parts.get(self.method, RELATIVE_MARGIN)
        )

    @property
    def _after(self) -> float:
        return self.after if self.after is not None else (1.0 if self._published else 0.5)

    @property
    def late(self) -> float | None:
        return self.tolerance

    @property
    def nominal_step(self) -> float:
        return self.step

    def plain(self) -> Pace:
        """The same steps, without a look at events."""
        return Fixed(self.step)

    @property
    def derivatives(self) -> int:
        """How many time derivatives of conditions it has a use for."""
        return _DERIVATIVES[self.method]

    # ---------------------------------------------------------------- before the run

    def write(self, steps: Steps, blocks: Blocks, wiring: Wiring) -> tuple[Blocks, Written]:
        """Blocks that compute all conditions, and those that look ahead from them."""
        found = followed(blocks, wiring, self.derivatives, symbolic=self.symbolic)
        if found is None:
            raise MasterError(
                "LookAhead looks ahead for events between units, and the scenario has none; nor has a unit "
                f"of equations one inside. Give it some, events={{…}}, or take steps of one size: "
                f"Fixed({self.step:g})."
            )
        ready, watch, known = found
        tolerance, why = self._margin(wiring)
        notes = dict.fromkeys([*(self._prediction_note(*one) for one in known), why])
        size = 2 * len(watch.names)
        predicted = steps.new("predicted", size, (-inf,) * size)
        wiring.predictions |= {name: predicted.index + 2 * place for place, name in enumerate(watch.names)}
        blocks_of = _Prediction(replace(self, tolerance=tolerance), steps, watch, predicted)
        return replace(ready, notes=(*ready.notes, *notes)), blocks_of.written()

    def _margin(self, wiring: Wiring) -> tuple[float, str]:
        """How far behind an expected event a step ends, or how short it may be; and why."""
        if self._published:
            origin = "1/40 of the step" if self.tolerance is None else "as given"
            way = f"steps end at {self._safety:g} of the way to an event (safety)"
            return (
                self._tolerance,
                f"{way}, and are at least {self._tolerance:.3g} s long (tolerance): {origin}",
            )
        if self.method == "approach":
            way = "steps end before an expected event, and go over it from"
            return self._tolerance, f"{way} {self._tolerance:.3g} s before it"
        length, why = self.tolerance, "as given"
        if length is None:
            length, why = margin(wiring.scenario.units, self.step, wiring.called)
        return length, f"steps end {length:.3g} s behind an expected event (tolerance): {why}"

    def _prediction_note(self, event: str, order: int, missing: str) -> str:
        if self.method in ("published", "secant"):
            how = "straight lines through the last two values of its conditions"
        else:
            how = f"{_WORDS[order]} of its conditions"
        return f"event '{event}' is predicted from {how}" + (f", because {missing}" if missing else "")


class _Prediction:
    """LookAhead as blocks: `propose`, `note`, `changed`, from top to bottom."""

    def __init__(self, pace: LookAhead, steps: Steps, watch: Watch, predicted: Cell) -> None:
        self.pace, self.steps, self.watch, self.predicted = pace, steps, watch, predicted
        self.n, new = len(watch.orders), steps.new
        # How many samples there are of each condition, and whether the last two are too close to each other.
        self.sample_count = new("ahead′samples kept", 2)
        self.too_close = Cell(self.sample_count.index + 1)
        self.phase = new("ahead′phase")  # NORMAL, AT_START or AFTER_EVENT
        self.times = new("ahead′times", DEPTH)  # of the samples, the newest first
        self.last_event = new("ahead′last event")  # when something has changed last
        self.chain = new("ahead′chain")  # how often in a row right after another
        self.samples = new("ahead′samples", DEPTH * WIDTH * self.n)  # the newest first
        self.spacing = new(
            "ahead′spacing", 2
        )  # how long the newest is behind the one before, and that behind the oldest
        self.curves = new("ahead′curves", 6 * self.n)
        self.size, self.horizon = new("ahead′size"), new("ahead′horizon")
        self.tolerance, self.shortest = new("ahead′tolerance"), new("ahead′shortest")
        self.falls = new("ahead′falls", 1 + FALLS * len(watch.names))
        self.waits, self.ends_before = (
            new("ahead′waits", len(watch.names)),
            new("ahead′ends before", len(watch.names)),
        )
        self.wait, self.which, self.early = new("ahead′wait"), new("ahead′which"), new("ahead′early")
        self.expecting, self.new_sample = new("ahead′expecting"), new("ahead′new sample")
        self.over = new("ahead′over")  # whether a step is to go over an event that a unit deals with inside

    def written(self) -> Written:
        return Written(self.pace, (), self._propose(), (), self._note(), self._changed())

    def _propose(self) -> Block:
        w, pace, steps, names = Writer(), self.pace, self.steps, self.watch.names
        t, limit, until = steps.now, steps.limit, steps.until
        w.let(self.size, where(self.phase, pace._after * pace.step, pace.step))
        w.let(self.tolerance, self._close())
        w.let(self.shortest, maximum(TINY * self.tolerance, ulp(t)))  # nothing is landed on that comes sooner
        w.let(self.wait, inf)
        w.let(self.over, 0.0)
        if pace._published:
            self._wait_as_published(w)
        else:
            w.let(self.too_close, at(self.times, 0) - at(self.times, 1) < NEAR * self.size)
            for k in range(2):
                w.let(at(self.spacing, k), at(self.times, k) - at(self.times, k + 1))
            w.let(self.horizon, FURTHER * self.size if pace.method == "approach" else self.size)
            first = self.samples.index
            sets = first, first + WIDTH * self.n, first + 2 * WIDTH * self.n
            w.add(
                Fit(
                    self.watch.orders,
                    sets,
                    self.sample_count.index,
                    self.spacing.index,
                    self.curves.index,
                    True,
                )
            )
            w.add(
                Fall(
                    self.watch.counts,
                    self.curves.index,
                    self.horizon.index,
                    self.tolerance.index,
                    self.falls.index,
                )
            )
            with w.when((self.falls > 0.0) | self.expecting):  # else nothing comes near
                self._approach(w) if pace.method == "approach" else self._end_behind(w)
                self._find_first(w)
                for event in range(len(names) if pace.method == "approach" else 0):
                    root, _, _, above, _ = self._fall(event)
                    first_to_come = equal(self.which, float(event)) & (self.wait < self.size)
                    w.let(self.over, where(first_to_come & above & (root <= self.tolerance), 1.0, self.over))
        # The step: to the first event that is expected, or as usual.
        seen = self.wait < self.size
        with w.when(seen & self.early & (self.wait < self.shortest)):
            steps.propose(w, nan, steps.numbers(ENDLESS, names, at=True) + self.which, t)
        with w.otherwise():
            with w.when(seen):
                which = where(
                    self.early, steps.numbers(OVER, names, at=True), steps.numbers(EXPECTED, names, at=True)
                )
                w.let(until, t + self.wait)
                steps.propose(w, until, which + self.which, until)
            with w.otherwise():
                kinds = [float(steps.number(kind)) for kind in (USUAL, FIRST, AFTER)]
                why = where(
                    equal(self.phase, NORMAL),
                    kinds[0],
                    where(equal(self.phase, AT_START), kinds[1], kinds[2]),
                )
                steps.propose(w, t + self.size, why)
            with w.when(until > limit - SLACK * pace.step):
                with w.when(~(seen & (until <= limit))):
                    steps.because(w, steps.number(STOP))
                w.let(until, limit)
        return w.block

    def _close(self) -> Expr:
        """`tolerance` at the time: late in a run, less than this cannot be told apart."""
        return maximum(self.pace._tolerance, GRAINS * ulp(self.steps.now))

    def _wait_as_published(self, w: Writer) -> None:
        """As in the paper: a straight line through the last two values, and a part of the way to zero."""
        pace, last = self.pace, at(self.times, 0) - at(self.times, 1)
        falling = []
        for places in self.watch.places:
            ends = []
            for k in places:
                now, previous = at(self.samples, WIDTH * k), at(self.samples, WIDTH * (self.n + k))
                ends.append(now + pace._forecast * (now - previous) < 0.0)
            falling.append(all_of(ends))
        with w.when(any_of(falling) | self.expecting):  # else nothing comes near
            for event, places in enumerate(self.watch.places):
                found: Expr = Number(-1.0)
                for k in places:
                    now, previous = at(self.samples, WIDTH * k), at(self.samples, WIDTH * (self.n + k))
                    way = pace._safety * last * now / (previous - now)
                    found = where(now > 0.0, maximum(maximum(found, way), self.tolerance), found)
                wait = at(self.waits, event)
                w.let(wait, found)
                seen = (self.sample_count >= 2.0) & falling[event] & (wait >= self.tolerance)
                w.let(wait, where(seen, wait, inf))
            self._find_first(w)

    def _approach(self, w: Writer) -> None:
        """Before the place where all the curves are at most zero, at `APPROACH` of the way, until it is near;
        then over it, in a step that is short.

        A step that ends just before `horizon` may end just before the event, too: so it is looked for further
        on.
        """
        short = self.tolerance
        for event in range(len(self.watch.names)):
            root, _, _, above, _ = self._fall(event)
            part = APPROACH * root
            early = where(root - part > 0.5 * short, part, root - 0.5 * short)
            wait = where(root <= short, root + short, early)
            w.let(at(self.waits, event), where(above, wait, inf))

    def _end_behind(self, w: Writer) -> None:
        """Just behind the place where all the curves are at most zero, by `tolerance`.

        What is not above zero now has happened already, and can happen again only after it was seen above:
        then the step ends where it is highest on the way. Rounding may lift what rests on its border by a
        hair, less than `shortest` away; that is nothing, unless it comes from ever shorter leaps. The last
        ones do not even leave the border any more.
        """
        leaps = self.chain >= float(FEW)
        for event in range(len(self.watch.names)):
            root, behind, top, above, rising = self._fall(event)
            wait, early = at(self.waits, event), at(self.ends_before, event)
            w.let(wait, where(above, behind, top))
            w.let(early, ~above & (root < inf))
            with w.when(wait < self.shortest):
                w.let(wait, where(early, where(leaps, wait, inf), self.shortest))
                w.let(early, early & leaps)
            with w.when(leaps & equal(self.phase, AFTER_EVENT) & rising):
                w.let(wait, 0.0)
                w.let(early, 1.0)

    def _fall(self, event: int) -> list[Cell]:
        return [at(self.falls, 1 + FALLS * event + k) for k in range(FALLS)]

    def _find_first(self, w: Writer) -> None:
        """The first of the events, and the first predictions of those that are expected within the step: an
        event that fires takes its own away."""
        w.let(self.wait, inf)
        w.let(self.which, 0.0)
        w.let(self.early, 0.0)
        w.let(self.expecting, 0.0)
        for event in range(len(self.watch.names)):
            wait, early = at(self.waits, event), at(self.ends_before, event)
            sooner = wait < self.wait
            w.let(self.which, where(sooner, float(event), self.which))
            w.let(self.early, where(sooner, early, self.early))
            w.let(self.wait, where(sooner, wait, self.wait))
            when, due = at(self.predicted, 2 * event), at(self.predicted, 2 * event + 1)
            none, new = early | ~(wait < self.size), equal(when, -inf)
            w.let(due, where(none, -inf, where(new, self.steps.now + wait, due)))
            w.let(when, where(none, -inf, where(new, self.steps.now, when)))
            w.let(self.expecting, self.expecting | ~none)

    def _note(self) -> Block:
        """Another sample of all conditions; after an event, the first one. A step over an event that a unit
        deals with inside has one in it, of which nothing else may tell."""
        w, t, jumped = Writer(), self.steps.now, Cell(self.watch.jumped)
        with w.when(jumped):
            within = right_after(self._close(), self.pace.step)
            w.let(self.chain, where(t - self.last_event <= within, self.chain + 1.0, 0.0))
            w.let(self.last_event, t)
        anew = jumped | self.over
        with w.when(anew):
            w.let(self.sample_count, 0.0)
        newest, previous = at(self.times, 0), at(self.times, 1)
        if self.pace._published:
            w.let(self.new_sample, 1.0)
        else:
            w.let(self.new_sample, (self.sample_count < 2.0) | (t - newest > CLOSE * (newest - previous)))
        with w.when(self.new_sample):
            self._move(w)
            max_samples = 2.0 if self.pace.method == "secant" else float(DEPTH)
            w.let(self.sample_count, minimum(self.sample_count + 1.0, max_samples))
        w.let(newest, t)
        w.copy(self.samples, Cell(self.watch.first), WIDTH * self.n)
        w.let(self.phase, where(anew, AFTER_EVENT, equal(self.sample_count, 1.0)))
        return w.block

    def _changed(self) -> Block:
        """The latest samples are no longer true; nor are those before, if something has jumped."""
        w = Writer()
        with w.when(Cell(self.watch.jumped)):
            self._move(w)
            w.let(at(self.times, 0), self.steps.now)
            w.let(self.sample_count, 1.0)
        with w.when(self.steps.fired > 0.0):
            w.let(self.phase, AFTER_EVENT)
        w.copy(self.samples, Cell(self.watch.first), WIDTH * self.n)
        return w.block

    def _move(self, w: Writer) -> None:
        """Make room for another sample."""
        for k in (2, 1):
            w.copy(
                at(self.samples, k * WIDTH * self.n),
                at(self.samples, (k - 1) * WIDTH * self.n),
                WIDTH * self.n,
            )
            w.let(at(self.times, k), at(self.times, k - 1))
