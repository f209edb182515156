"""A pace that sees the events of a scenario coming, and ends a step where one is expected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from math import inf
from typing import Literal, NamedTuple, get_args

from upbeat.core.errors import MasterError
from upbeat.core.expr import ZERO, Cell, Expr, Name, Op, apply, names, substitute, time_derivative
from upbeat.core.names import resolve, split
from upbeat.core.ports import Kind
from upbeat.core.time import Span, checked_step
from upbeat.master import prediction
from upbeat.master.coupling import Blocks
from upbeat.master.pace import SLACK, Pace, Proposal, Read, State, Twin
from upbeat.master.prediction import Coefficients
from upbeat.master.program import Block, Let, Reg
from upbeat.master.wiring import Wiring
from upbeat.scenario.watcher import watchers

Method = Literal["auto", "published", "secant", "quadratic", "hermite", "hermite2"]
_DERIVATIVES = {"auto": 2, "published": 0, "secant": 0, "quadratic": 0, "hermite": 1, "hermite2": 2}
_WORDS = ("a parabola through its last three values", "values and rates", "values, rates and curvatures")

_REASONS = ("usual step", "first step", "after an event")

DEPTH = 3
"""So many samples are kept: now, and two before."""
WIDTH = 3
"""Of a sample: the value, its rate and its second derivative."""
CLOSE = 0.05
"""The part of the distance between two samples within which a third one takes the place of the newer."""
NEAR = 0.1
"""Two samples that are closer to each other than this part of the step say little about its end: their
differences are about what rates and inputs leave of errors."""
_HEAD = 5
"""What the state has before the samples: how many there are, whether this is the start (1) or an event has
just happened (2), and their times."""


class Watch(NamedTuple):
    """What the pace knows about its program."""

    names: tuple[str, ...] = ()  # the events
    counts: tuple[int, ...] = ()  # how many conditions each has
    orders: tuple[int, ...] = ()  # of each condition: how many derivatives are known
    first: Reg = 0  # the first of the registers of the conditions, WIDTH for each
    jumped: Reg = 0  # whether an event has changed what they depend on


@dataclass(frozen=True, slots=True)
class LookAhead:
    """Steps of `step`, but shorter where an event of the scenario is expected: one ends there.

    The conditions of all events are followed over communication points. `method` says how: "published" as in
    the paper by Tischer, Genser, Watzenig and Benedikt, where a straight line through the last two values is
    continued for `forecast` steps; if all conditions of an event are negative there, the step ends at
    `safety` times the way to zero, and is at least `least` long. The others end the step just behind the
    place at which all conditions of an event are at most zero, by `least`: on a straight line ("secant"), a
    parabola through three values ("quadratic"), or a polynomial through the last two values and their rates
    ("hermite"), and second derivatives, too ("hermite2"). They also see a condition that only dips below
    zero within a step. Rates come from outputs that declare their `derivative`. "auto" takes for each
    condition the best that is known.

    After an event everything begins anew: what conditions and inputs were before says nothing about what they
    will be. The first step then is `after` times the usual one (1 for "published", else one half); so is
    the very first. `least` is step/40 for "published", else 1e-5·step.
    """

    step: float
    method: Method = "auto"
    forecast: float = 2.0
    safety: float = 0.9
    least: float | None = None
    after: float | None = None
    watch: Watch | None = field(default=None, repr=False)
    """Filled in by `prepare`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "step", checked_step(self.step, "the step of LookAhead"))
        if self.method not in get_args(Method):
            known = ", ".join(get_args(Method))
            raise MasterError(f"method of LookAhead is one of {known}, not {self.method!r}")
        if self.least is not None:
            object.__setattr__(self, "least", checked_step(self.least, "least of LookAhead"))
            if self._least > self.step:
                raise MasterError(
                    f"least of LookAhead ({self.least:g}) is more than its step ({self.step:g})"
                )
        for name, low, high in (("safety", 0.0, 1.0), ("after", 0.0, 1.0), ("forecast", 1.0, 100.0)):
            value = getattr(self, name)
            if value is None and name == "after":
                continue
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not number or not low < value <= high:
                raise MasterError(
                    f"{name} of LookAhead must be above {low:g} and at most {high:g}, not {value!r}"
                )
        if not isinstance(self.watch, Watch | None):
            raise MasterError("watch of LookAhead is for its own use; leave it out")

    @property
    def _published(self) -> bool:
        return self.method == "published"

    @property
    def _least(self) -> float:
        return self.least if self.least is not None else self.step * (0.025 if self._published else 1e-5)

    @property
    def _after(self) -> float:
        return self.after if self.after is not None else (1.0 if self._published else 0.5)

    @property
    def retries(self) -> bool:
        return False

    # ---------------------------------------------------------------- before the run

    def prepare(self, blocks: Blocks, wiring: Wiring) -> tuple[Blocks, Pace]:
        """Blocks that compute all conditions, and the pace that knows their registers."""
        conditions = _conditions(wiring)
        if not conditions:
            raise MasterError(
                "LookAhead looks ahead for events between units, and the scenario has none. Give it some, "
                f"events={{…}}, or take steps of one size: Fixed({self.step:g})."
            )
        lets: list[Let] = []
        orders: list[int] = []
        notes: list[str] = []
        first = wiring.registers.new("conditions", size=WIDTH * sum(map(len, conditions.values())))
        for name, expressions in conditions.items():
            for z in expressions:
                known, missing = _rates(z, wiring, _DERIVATIVES[self.method])
                place = first + WIDTH * len(orders)
                lets += [Let(place + k, substitute(cell, wiring.names)) for k, cell in enumerate(known)]
                orders.append(len(known) - 1)
                notes += [self._told(name, len(known) - 1, missing)]
        jumped, before, after = _jumps(wiring, sorted(_ends(conditions, wiring)))
        again: Block = (*lets, after)
        ready = replace(
            blocks,
            start=(*blocks.start, *before, *again),
            steps={name: (*step, *before, *again) for name, step in blocks.steps.items()},
            exchange=(*blocks.exchange, *again),
            notes=(*blocks.notes, *dict.fromkeys(notes)),
        )
        counts = tuple(map(len, conditions.values()))
        return ready, replace(self, watch=Watch(tuple(conditions), counts, tuple(orders), first, jumped))

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
        numbers = (self.step, kind, self.forecast, self.safety, self._least, self._after)
        counts = (float(count) for count in watch.counts)
        orders = (float(order) for order in watch.orders)
        return Twin(
            "look_ahead",
            (*numbers, float(watch.first), float(watch.jumped), *counts, *orders),
            watch.names,
        )

    # ---------------------------------------------------------------- while it runs

    def begin(self, span: Span) -> State:
        assert self.watch is not None
        return (0.0,) * (_HEAD + DEPTH * WIDTH * len(self.watch.orders))

    def propose(self, state: State, t: float, limit: float, read: Read) -> tuple[Proposal, State]:
        fresh = state[1] != 0.0
        usual = self._after * self.step if fresh else self.step
        wait, event = self._expected(state, usual)
        until, reason = t + usual, _REASONS[int(state[1])]
        if wait < usual:
            until, reason = t + wait, f"event '{event}' expected at {t + wait:.9g}"
        if until > limit - SLACK * self.step:
            until, reason = limit, reason if wait < usual and until <= limit else "the stop time"
        return Proposal(until, reason), state

    def review(self, state: State, t: float, reached: float, read: Read) -> tuple[Proposal | None, State]:
        return None, state

    def note(self, state: State, t: float, fired: Sequence[str], read: Read) -> State:
        """Another sample of all conditions; after an event, the first one."""
        watch = self.watch
        assert watch is not None
        count, times = int(state[0]), list(state[2:_HEAD])
        again = bool(read(watch.jumped))
        if again:
            count = 0
        moved = count == 0 or self._published or count == 1 or t - times[0] > CLOSE * (times[0] - times[1])
        if moved:
            times = [t, times[0], times[1]]
            count = min(count + 1, DEPTH)
        else:
            times[0] = t
        samples: list[float] = []
        for k in range(len(watch.orders)):
            place = _HEAD + DEPTH * WIDTH * k
            old = state[place : place + (DEPTH - 1) * WIDTH]
            rest = old if moved else state[place + WIDTH : place + DEPTH * WIDTH]
            samples += [float(read(watch.first + WIDTH * k + i)) for i in range(WIDTH)]
            samples += rest
        fresh = 2.0 if again else float(count == 1)
        return (float(count), fresh, *times, *samples)

    def _expected(self, state: State, span: float) -> tuple[float, str]:
        """How long to wait for the first event within `span`, and which; infinity if there is none."""
        watch = self.watch
        assert watch is not None
        if state[0] == 0.0:
            return inf, ""
        found, which, place = inf, "", 0
        for name, count in zip(watch.names, watch.counts, strict=True):
            places = range(place, place + count)
            place += count
            wait = self._publicly(state, places) if self._published else self._closely(state, places, span)
            if wait < found:
                found, which = wait, name
        return found, which

    def _publicly(self, state: State, places: range) -> float:
        if state[0] < 2.0:
            return inf
        last = state[2] - state[3]
        found = -1.0
        for k in places:
            at = _HEAD + DEPTH * WIDTH * k
            now, before = state[at], state[at + WIDTH]
            if not now + self.forecast * (now - before) < 0.0:
                return inf
            if now > 0.0:
                found = max(found, self.safety * last * now / (before - now), self._least)
        return found if found >= self._least else inf

    def _closely(self, state: State, places: range, span: float) -> float:
        curves = [self._curve(state, k, span) for k in places]
        return prediction.first_zero(curves, span) + self._least

    def _curve(self, state: State, k: int, span: float) -> Coefficients:
        assert self.watch is not None
        at, order, count = _HEAD + DEPTH * WIDTH * k, self.watch.orders[k], state[0]
        z = (state[at], state[at + WIDTH], state[at + 2 * WIDTH])
        rate = (state[at + 1], state[at + WIDTH + 1])
        bend = (state[at + 2], state[at + WIDTH + 2])
        if order == 0:
            if count < 2.0:
                return prediction.taylor(z[0], 0.0, 0.0)
            if count < 3.0 or self.method == "secant":
                return prediction.straight(z, state[2] - state[3])
            return prediction.parabola(z, state[2] - state[3], state[3] - state[4])
        h = state[2] - state[3]
        if count < 2.0 or h < NEAR * span:
            return prediction.taylor(z[0], rate[0], bend[0] if order == 2 else 0.0)
        if order == 1:
            return prediction.cubic(z, rate, h)
        return prediction.quintic(z, rate, bend, h)


# -------------------------------------------------------------------- what is watched


def _conditions(wiring: Wiring) -> dict[str, tuple[Expr, ...]]:
    """The conditions of all events by name, over the outputs of units."""
    found: dict[str, tuple[Expr, ...]] = {}
    for unit, watcher in watchers(wiring.scenario.units).items():
        seen = {c.port: c.cells[0] for c in wiring.scenario.connections if c.unit == unit}
        for event in watcher.events:
            name = wiring.scenario.column(unit, event.name)
            found[name] = tuple(substitute(z, seen) for z in event.conditions)
    return found


def _rates(z: Expr, wiring: Wiring, most: int) -> tuple[list[Expr], str]:
    """The condition and as many of its derivatives as outputs declare; and why there are no more."""
    found = [z]
    for _ in range(most):
        rates: dict[str, Expr] = {}
        for name in sorted(names(found[-1])):
            unit, port, index = _source(name, wiring)
            derivative = wiring.port((unit, port)).derivative
            if wiring.port((unit, port)).kind is not Kind.REAL:
                rates[name] = ZERO
            elif derivative is None:
                return found, f"'{wiring.label((unit, port))}' does not say which output is its derivative"
            else:
                rates[name] = Name(f"{unit}.{derivative}{index}")
        found.append(time_derivative(found[-1], rates))
    return found, ""


def _source(name: str, wiring: Wiring) -> tuple[str, str, str]:
    """The unit and port of a name in a condition, and the index of the cell as it is written."""
    unit, rest = split(name)
    port, index = resolve(rest, {known for owner, known in wiring.outputs if owner == unit})
    return unit, port, "" if index is None else f"[{index}]"


def _ends(conditions: Mapping[str, Sequence[Expr]], wiring: Wiring) -> set[tuple[str, str]]:
    """All outputs of the units that conditions look at."""
    units = {split(name)[0] for zs in conditions.values() for z in zs for name in names(z)}
    return {end for unit in units for end in wiring.outputs_of(unit)}


def _jumps(wiring: Wiring, ends: Sequence[tuple[str, str]]) -> tuple[Reg, Block, Let]:
    """A register that says whether an instant has changed one of these outputs; what to do at the end of a
    step for that, and what to do whenever they may have changed."""
    jumped = wiring.registers.new("jumped", Kind.BOOLEAN)
    before: list[Let] = []
    changes: list[Expr] = []
    for end in ends:
        port = wiring.port(end)
        if port.kind is Kind.STRING:
            continue
        kept = wiring.registers.new(f"{wiring.label(end)}′before", port.kind, port.cells)
        for i in range(port.cells):
            cell = Cell(wiring.outputs[end] + i)
            before.append(Let(kept + i, cell))
            changes.append(apply(Op.NE, cell, Cell(kept + i)))
    return jumped, tuple(before), Let(jumped, _any(changes))


def _any(truths: Sequence[Expr]) -> Expr:
    while len(truths) > 1:
        pairs = [truths[i : i + 2] for i in range(0, len(truths), 2)]
        truths = [reduce(lambda a, b: apply(Op.OR, a, b), pair) for pair in pairs]
    return truths[0] if truths else ZERO
