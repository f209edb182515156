"""A pace that sees the events of a scenario coming, and ends a step where one is expected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf, nan
from typing import Literal, get_args

from upbeat.core.errors import MasterError
from upbeat.core.reasons import AFTER, ENDLESS, EXPECTED, FIRST, OVER, STOP, USUAL, Reason, Why
from upbeat.core.time import Span, checked_step
from upbeat.master import checks
from upbeat.master.blocks import Blocks
from upbeat.master.events.conditions import Watch, followed
from upbeat.master.events.prediction import Landing
from upbeat.master.paces.chains import TINY, longer, right_after
from upbeat.master.paces.foresight import (
    CLOSE,
    DEPTH,
    Memory,
    Prediction,
    approached,
    closely,
    curve,
    published,
)
from upbeat.master.paces.margins import PART, margin, visible
from upbeat.master.paces.pace import SLACK, Fixed, Pace, Proposal, Read, State, Twin
from upbeat.master.paces.sampling import look
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

_KINDS: tuple[Why, ...] = (USUAL, FIRST, AFTER)
"""What steps are called by what the state says: usual ones, at the start, after an event."""


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
    "approach" sees as well, but ends steps *before* an event, each at 0.8 of the way, until `tolerance` is
    left, and then goes over it in a step that is no longer than twice that: for units that notice events by
    themselves, on inputs that they do not see move within a step.
    Events that units of equations, FMUs for model exchange or nested scenarios have `inside` are followed,
    too: the units act, and the step ends there.

    After an event everything begins anew: what conditions and inputs were before says nothing about what they
    will be. The first step then is `after` times the usual one (1 for "published", else one half); so is
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
        parts = {"published": 0.025, "approach": 0.01}
        return self.tolerance if self.tolerance is not None else self.step * parts.get(self.method, PART)

    @property
    def _after(self) -> float:
        return self.after if self.after is not None else (1.0 if self._published else 0.5)

    @property
    def usual(self) -> float:
        return self.step

    def plain(self) -> Pace:
        """The same steps, without a look at events."""
        return Fixed(self.step)

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
        if self.method == "approach":
            way = "steps end before an expected event, and go over it from"
            return self._tolerance, f"{way} {self._tolerance:.3g} s before it"
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
        kind = {"published": 0.0, "secant": 1.0, "approach": 3.0}.get(self.method, 2.0)
        numbers = (self.step, kind, self._forecast, self._safety, self._tolerance, self._after)
        counts = (float(count) for count in watch.counts)
        orders = (float(order) for order in watch.orders)
        return Twin(
            "look_ahead",
            (*numbers, float(watch.first), float(watch.jumped), float(watch.told), *counts, *orders),
            watch.names,
        )

    # ---------------------------------------------------------------- while it runs

    @property
    def _watch(self) -> Watch:
        assert self.watch is not None
        return self.watch

    def begin(self, span: Span) -> State:
        return Memory.empty(self._watch).flat

    def propose(self, state: State, t: float, limit: float, read: Read) -> tuple[Proposal, State]:
        memory = Memory.of(state, self._watch)
        kind = int(memory.head.kind)
        usual = self._after * self.step if kind else self.step
        landings = self._expected(memory, t, usual)
        names = self._watch.names
        (wait, before), event = min(zip(landings, names, strict=True), key=lambda one: one[0].wait)
        until, reason = t + usual, _KINDS[kind]
        seen = wait < usual
        if seen:
            if before and wait < self._tiny(t):
                return Proposal(nan, Reason(ENDLESS, event, t)), state
            until = t + wait
            reason = Reason(OVER if before else EXPECTED, event, until)
        if until > limit - SLACK * self.step:
            until, reason = limit, reason if seen and until <= limit else STOP
        return Proposal(until, reason), self._predicted(memory, t, usual, landings).flat

    def _predicted(self, memory: Memory, t: float, usual: float, landings: Sequence[Landing]) -> Memory:
        """With the first predictions of the events that are expected within the step."""
        found = []
        for (wait, before), known in zip(landings, memory.predictions, strict=True):
            if before or not wait < usual:
                found.append(Prediction())
            else:
                found.append(Prediction(t, t + wait) if known.at == -inf else known)
        return memory._replace(predictions=tuple(found))

    def tells(self, state: State) -> tuple[State, int]:
        """The first predictions, for the log: an event that fires takes its own away (`note`)."""
        return state[-2 * len(self._watch.counts) :], self._watch.told

    def note(self, state: State, t: float, fired: Sequence[str], read: Read) -> State:
        """Another sample of all conditions; after an event, the first one."""
        memory = Memory.of(state, self._watch)
        head, again = memory.head, bool(read(self._watch.jumped))
        if again:
            chain = longer(head.chain, head.last, t, right_after(self._close(t), self.step))
            head = head._replace(kept=0.0, last=t, chain=chain)
        moved = head.kept < 2.0 or self._published or t - head.newest > CLOSE * head.length
        if moved:
            head = head.moved(t)._replace(kept=min(head.kept + 1.0, float(DEPTH)))
        else:
            head = head._replace(newest=t)
        head = head._replace(kind=2.0 if again else float(head.kept == 1.0))
        return self._sampled(memory._replace(head=head), moved, read).flat

    def anew(self, state: State, t: float, fired: Sequence[str], read: Read) -> State:
        """The latest samples are no longer true; nor are those before, if something has jumped."""
        memory = Memory.of(state, self._watch)
        head, again = memory.head, bool(read(self._watch.jumped))
        if again:
            head = head.moved(t)._replace(kept=1.0)
        if fired:
            head = head._replace(kind=2.0)
        return self._sampled(memory._replace(head=head), again, read).flat

    def _sampled(self, memory: Memory, moved: bool, read: Read) -> Memory:
        """With the samples of now, as further ones or in place of the newest; and what the program has left
        of the predictions."""
        watch, now = self._watch, look(self._watch, read)
        seen = tuple(
            (new, *(old[:-1] if moved else old[1:])) for new, old in zip(now, memory.seen, strict=True)
        )
        told = [float(read(watch.told + i)) for i in range(2 * len(watch.counts))]
        left = tuple(Prediction(*told[k : k + 2]) for k in range(0, len(told), 2))
        return memory._replace(seen=seen, predictions=left)

    def _expected(self, memory: Memory, t: float, span: float) -> list[Landing]:
        """How long to wait for each event within `span`; infinity if it is not expected."""
        watch, head, close, tiny = self._watch, memory.head, self._close(t), self._tiny(t)
        if head.kept == 0.0:
            return [Landing(inf)] * len(watch.counts)
        if self._published:
            return [published(memory, some, self._forecast, self._safety, close) for some in watch.places]
        secant = self.method == "secant"
        curves = [
            curve(head, seen, order, span, secant=secant)
            for seen, order in zip(memory.seen, watch.orders, strict=True)
        ]
        if self.method == "approach":
            return [approached(curves[some.start : some.stop], span, close) for some in watch.places]
        return [closely(head, curves[some.start : some.stop], span, close, tiny) for some in watch.places]
