"""A pace that sees the events of a scenario coming, and ends a step where one is expected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf, isnan, nan
from typing import Literal, get_args

from upbeat.core.errors import MasterError
from upbeat.core.time import Span, checked_step
from upbeat.master import checks
from upbeat.master.blocks import Blocks
from upbeat.master.events.conditions import WIDTH, Watch, followed
from upbeat.master.paces import prediction
from upbeat.master.paces.chains import FEW, MOST, TINY, endless, longer, right_after
from upbeat.master.paces.margins import PART, margin, visible
from upbeat.master.paces.pace import SLACK, Pace, Proposal, Read, State, Twin
from upbeat.master.paces.prediction import Coefficients, Landing
from upbeat.master.wiring import Wiring

Method = Literal["auto", "published", "secant", "quadratic", "hermite", "hermite2"]
_DERIVATIVES = {"auto": 2, "published": 0, "secant": 0, "quadratic": 0, "hermite": 1, "hermite2": 2}
_WORDS = ("a parabola through its last three values", "values and rates", "values, rates and curvatures")

_REASONS = ("usual step", "first step", "after an event")

DEPTH = 3
"""So many samples are kept: now, and two before."""
CLOSE = 0.05
"""The part of the distance between two samples within which a third one takes the place of the newer."""
NEAR = 0.1
"""Two samples that are closer to each other than this part of the step say little about its end: their
differences are about what rates and inputs leave of errors."""
_HEAD = 7
"""What the state has before the samples: how many there are, whether this is the start (1) or an event has
just happened (2), their times, when something has changed last, how often in a row right after another."""


@dataclass(frozen=True, slots=True)
class LookAhead:
    """Steps of `step`, but shorter where an event of the scenario is expected: one ends there.

    The conditions of all events are followed over communication points. `method` says how: "published" as in
    the paper by Tischer, Genser, Watzenig and Benedikt, where a straight line through the last two values is
    continued for `forecast` steps (2); if all conditions of an event are negative there, the step ends at
    `safety` (0.9) times the way to zero, and is at least `tolerance` long. The others end the step just
    behind the place at which all conditions of an event are at most zero, by `tolerance`: on a straight line
    ("secant"), a parabola through three values ("quadratic"), or a polynomial through the last two values and
    their rates ("hermite"), and second derivatives, too ("hermite2"). They also see a condition that only
    dips below zero within a step. Rates come from outputs that declare their `derivative`, and (unless
    `symbolic` is off) from the equations of units. "auto" takes for each condition the best that is known.
    Events that units of equations or FMUs for model exchange have `inside` are followed, too: the units act,
    and the step ends there.

    After an event everything begins anew: what conditions and inputs were before says nothing about what they
    will be. The first step then is `after` times the usual one (1 for "published", else one half); so is
    the very first. `tolerance` is step/40 for "published", else 1e-5·step, or what the
    solvers of the units can tell if that is more.
    """

    step: float
    method: Method = "auto"
    forecast: float | None = None
    safety: float | None = None
    tolerance: float | None = None
    after: float | None = None
    symbolic: bool = True
    inside: bool = True
    watch: Watch | None = field(default=None, repr=False)
    """Filled in by `prepare`."""

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
        if not isinstance(self.watch, Watch | None):
            raise MasterError("watch of LookAhead is for its own use; leave it out")

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
        return (
            self.tolerance if self.tolerance is not None else self.step * (0.025 if self._published else PART)
        )

    @property
    def _after(self) -> float:
        return self.after if self.after is not None else (1.0 if self._published else 0.5)

    @property
    def derivatives(self) -> int:
        """How many time derivatives of conditions it has a use for."""
        return _DERIVATIVES[self.method]

    def _close(self, t: float) -> float:
        """`tolerance` at a time: late in a run, less than this cannot be told apart."""
        return visible(self._tolerance, t)

    def _tiny(self, t: float) -> float:
        """Nothing is landed on that comes sooner."""
        return visible(TINY * self._close(t), t, 1.0)

    # ---------------------------------------------------------------- before the run

    def prepare(self, blocks: Blocks, wiring: Wiring) -> tuple[Blocks, Pace]:
        """Blocks that compute all conditions, and the pace that knows their registers."""
        found = followed(blocks, wiring, self.derivatives, symbolic=self.symbolic)
        if found is None:
            raise MasterError(
                "LookAhead looks ahead for events between units, and the scenario has none; nor has a unit "
                f"of equations one inside. Give it some, events={{…}}, or take steps of one size: "
                f"Fixed({self.step:g})."
            )
        ready, watch, known = found
        tolerance, why = self._margin(wiring)
        notes = dict.fromkeys([*(self._told(*one) for one in known), why])
        size = 2 * len(watch.names)
        told = wiring.registers.new("predicted", size=size, start=(-inf,) * size)
        wiring.predictions |= {name: told + 2 * place for place, name in enumerate(watch.names)}
        pace = replace(self, watch=watch._replace(told=told), tolerance=tolerance)
        return replace(ready, notes=(*ready.notes, *notes)), pace

    def _margin(self, wiring: Wiring) -> tuple[float, str]:
        """How far behind an expected event a step ends, or how short it may be; and why."""
        if self._published:
            origin = "1/40 of the step" if self.tolerance is None else "as given"
            way = f"steps end at {self._safety:g} of the way to an event (safety)"
            return (
                self._tolerance,
                f"{way}, and are at least {self._tolerance:.3g} s long (tolerance): {origin}",
            )
        length, why = self.tolerance, "as given"
        if length is None:
            length, why = margin(wiring.scenario.units, self.step, wiring.called)
        return length, f"steps end {length:.3g} s behind an expected event (tolerance): {why}"

    def _told(self, event: str, order: int, missing: str) -> str:
        if self.method in ("published", "secant"):
            how = "straight lines through the last two values of its conditions"
        else:
            how = f"{_WORDS[order]} of its conditions"
        return f"event '{event}' is predicted from {how}" + (f", because {missing}" if missing else "")

    def native(self) -> Twin | None:
        if type(self) is not LookAhead or self.watch is None:
            return None
        watch = self.watch
        kind = {"published": 0.0, "secant": 1.0}.get(self.method, 2.0)
        numbers = (self.step, kind, self._forecast, self._safety, self._tolerance, self._after)
        counts = (float(count) for count in watch.counts)
        orders = (float(order) for order in watch.orders)
        return Twin(
            "look_ahead",
            (*numbers, float(watch.first), float(watch.jumped), float(watch.told), *counts, *orders),
            watch.names,
        )

    # ---------------------------------------------------------------- while it runs

    def begin(self, span: Span) -> State:
        assert self.watch is not None
        nothing = (-inf,) * (2 * len(self.watch.counts))
        return (0.0,) * (_HEAD + DEPTH * WIDTH * len(self.watch.orders)) + nothing

    def propose(self, state: State, t: float, limit: float, read: Read) -> tuple[Proposal, State]:
        assert self.watch is not None
        fresh = state[1] != 0.0
        usual = self._after * self.step if fresh else self.step
        landings = self._expected(state, t, usual)
        (wait, before), event = min(zip(landings, self.watch.names, strict=True), key=lambda one: one[0].wait)
        until, reason = t + usual, _REASONS[int(state[1])]
        if wait < usual:
            if state[6] >= MOST or (before and wait < self._tiny(t)):
                return Proposal(nan, endless(event, t)), state
            what = "over" if before else "expected"
            until, reason = t + wait, f"event '{event}' {what} at {t + wait:.9g}"
        if until > limit - SLACK * self.step:
            until, reason = limit, reason if wait < usual and until <= limit else "the stop time"
        return Proposal(until, reason), self._predicted(state, t, usual, landings)

    def _predicted(self, state: State, t: float, usual: float, landings: Sequence[Landing]) -> State:
        """The state with the first predictions of the events that are expected within the step."""
        predictions = list(state[-2 * len(landings) :])
        for event, (wait, before) in enumerate(landings):
            if before or not wait < usual:
                predictions[2 * event : 2 * event + 2] = -inf, -inf
            elif predictions[2 * event] == -inf:
                predictions[2 * event : 2 * event + 2] = t, t + wait
        return (*state[: -2 * len(landings)], *predictions)

    def tells(self, state: State) -> tuple[State, int]:
        """The first predictions, for the log: an event that fires takes its own away (`note`)."""
        assert self.watch is not None
        return state[-2 * len(self.watch.counts) :], self.watch.told

    def note(self, state: State, t: float, fired: Sequence[str], read: Read) -> State:
        """Another sample of all conditions; after an event, the first one."""
        watch = self.watch
        assert watch is not None
        count, times, (last, chain) = int(state[0]), list(state[2:5]), state[5:_HEAD]
        again = bool(read(watch.jumped))
        if again:
            count = 0
            chain = longer(chain, last, t, right_after(self._close(t), self.step))
            last = t
        moved = count == 0 or self._published or count == 1 or t - times[0] > CLOSE * (times[0] - times[1])
        if moved:
            times = [t, times[0], times[1]]
            count = min(count + 1, DEPTH)
        else:
            times[0] = t
        fresh = 2.0 if again else float(count == 1)
        return (float(count), fresh, *times, last, chain, *self._sampled(state, moved, read))

    def anew(self, state: State, t: float, fired: Sequence[str], read: Read) -> State:
        """The latest samples are no longer true; nor are those before, if something has jumped."""
        assert self.watch is not None
        head, again = list(state[:_HEAD]), bool(read(self.watch.jumped))
        if again:
            head[0], head[2:5] = 1.0, [t, *head[2:4]]
        if fired:
            head[1] = 2.0
        return (*head, *self._sampled(state, again, read))

    def _sampled(self, state: State, moved: bool, read: Read) -> list[float]:
        """All samples with those of now, as further ones or in place of the newest; then the predictions."""
        watch = self.watch
        assert watch is not None
        samples: list[float] = []
        for k in range(len(watch.orders)):
            place = _HEAD + DEPTH * WIDTH * k
            old = state[place : place + (DEPTH - 1) * WIDTH]
            rest = old if moved else state[place + WIDTH : place + DEPTH * WIDTH]
            samples += [float(read(watch.first + WIDTH * k + i)) for i in range(WIDTH)]
            samples += rest
        return samples + [float(read(watch.told + i)) for i in range(2 * len(watch.counts))]

    def _expected(self, state: State, t: float, span: float) -> list[Landing]:
        """How long to wait for each event within `span`; infinity if it is not expected."""
        watch = self.watch
        assert watch is not None
        if state[0] == 0.0:
            return [Landing(inf)] * len(watch.counts)
        found, place = [], 0
        for count in watch.counts:
            places = range(place, place + count)
            place += count
            found.append(
                self._publicly(state, places, t) if self._published else self._closely(state, places, t, span)
            )
        return found

    def _publicly(self, state: State, places: range, t: float) -> Landing:
        if state[0] < 2.0:
            return Landing(inf)
        last, least = state[2] - state[3], self._close(t)
        found = -1.0
        for k in places:
            at = _HEAD + DEPTH * WIDTH * k
            now, before = state[at], state[at + WIDTH]
            if not now + self._forecast * (now - before) < 0.0:
                return Landing(inf)
            if now > 0.0:
                found = max(found, self._safety * last * now / (before - now), least)
        return Landing(found if found >= least else inf)

    def _closely(self, state: State, places: range, t: float, span: float) -> Landing:
        """Rounding may lift what rests on its border by a hair; that is nothing, unless it comes from ever
        shorter leaps. The last of them do not even leave the border any more."""
        curves = [self._curve(state, k, span) for k in places]
        found, leaps = prediction.landing(curves, span, self._close(t)), state[6] >= FEW
        if found.wait == inf and leaps and state[1] == 2.0 and prediction.rises_below(curves):
            return Landing(0.0, True)
        if not found.wait < self._tiny(t):
            return found
        if not found.before:
            return Landing(self._tiny(t))
        return found if leaps else Landing(inf)

    def _curve(self, state: State, k: int, span: float) -> Coefficients:
        assert self.watch is not None
        at, order, count = _HEAD + DEPTH * WIDTH * k, self.watch.orders[k], state[0]
        z = (state[at], state[at + WIDTH], state[at + 2 * WIDTH])
        rate = (state[at + 1], state[at + WIDTH + 1])
        bend = (state[at + 2], state[at + WIDTH + 2])
        if order == 2 and isnan(bend[0]):  # an FMU does not know its derivatives at the start
            order = 1
        if order == 1 and isnan(rate[0]):
            order = 0
        if order == 0:
            if count < 2.0:
                return prediction.taylor(z[0], 0.0, 0.0)
            if count < 3.0 or self.method == "secant":
                return prediction.straight(z, state[2] - state[3])
            return prediction.parabola(z, state[2] - state[3], state[3] - state[4])
        h = state[2] - state[3]
        before = isnan(rate[1]) or (order == 2 and isnan(bend[1]))
        if count < 2.0 or h < NEAR * span or before:
            return prediction.taylor(z[0], rate[0], bend[0] if order == 2 else 0.0)
        if order == 1:
            return prediction.cubic(z, rate, h)
        return prediction.quintic(z, rate, bend, h)
