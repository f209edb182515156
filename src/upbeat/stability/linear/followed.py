"""A program followed on linear forms: from its start on as values, and single steps with their matrices."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from upbeat.core.abilities import Ability, Model
from upbeat.core.errors import InvalidInput, RunError
from upbeat.core.expr import Apply, Expr, Name, Number, Op, differentiate, fold, names, simplify
from upbeat.core.expr.nodes import Inner, Leaf
from upbeat.core.names import cell_names
from upbeat.core.ports import Causality, Kind
from upbeat.engine.interpret import Interpreter
from upbeat.master.program import Program
from upbeat.scenario.connection import Connection
from upbeat.scenario.merging.inline import path_of
from upbeat.scenario.scenario import Scenario
from upbeat.stability.linear.discrete_unit import DiscreteLinearUnit
from upbeat.stability.linear.finite_differences import called
from upbeat.stability.linear.flows import Symbolic
from upbeat.stability.linear.forms import (
    Array,
    Extended,
    Forms,
    Neighbour,
    NoMatrix,
    check_loops,
    extended,
    history_depth,
    later_steps,
    looks_back,
    opened,
)
from upbeat.stability.linear.linearise import (
    How,
    doubts,
    hidden_events,
    linear_units,
    reach,
    unseen_events,
)
from upbeat.stability.linear.nested_unit import ExtendedState
from upbeat.units.discrete.model import NEVER
from upbeat.units.equations.data import TIME, Equations

# ----------------------------------------------------------------------------------------------------
# Coefficients that change with the time: which there are, and how long it takes until they come again.
#
# What is only added (a force, a reference) does not count: it moves the operating point and no slope. A
# factor does: then the slopes of one instant say nothing, and steps are looked at until all factors are as
# they were.

MAX_STEPS = 2_000
"""The most steps of a period that are followed."""
ROUNDS = 20
"""How often signals are followed from unit to unit."""
WHOLE = 1e-9
"""How far, relatively, a period may be from a whole number of steps."""


class TimeDependence(NamedTuple):
    """How a value goes with the time: `slope`·time plus what does not move, or with some `periods`; None of
    both: in no way that is known. `value`: what it is, if it is a number that never changes."""

    slope: float | None = 0.0
    periods: frozenset[float] | None = frozenset()
    value: float | None = None

    @property
    def still(self) -> bool:
        return self.slope == 0.0 and not self.periods and self.periods is not None


STILL = TimeDependence()
TICKING = TimeDependence(slope=1.0)
UNKNOWN = TimeDependence(slope=None, periods=None)
WAVES = {Op.SIN, Op.COS, Op.TAN}


def time_dependence(expression: Expr, known: Mapping[str, TimeDependence]) -> TimeDependence:
    """How an expression goes with the time; names that are not `known` do not move with it."""

    def leaf(node: Leaf) -> TimeDependence:
        if isinstance(node, Number):
            return TimeDependence(value=float(node.value))
        return known.get(node.id, STILL) if isinstance(node, Name) else STILL

    return fold(expression, leaf, _combined)


def _combined(node: Inner, args: list[TimeDependence]) -> TimeDependence:
    values = [one.value for one in args]
    if isinstance(node, Apply):
        a, b = (args[0], args[1]) if len(args) > 1 else (args[0], STILL)
        match node.op:
            case Op.ADD | Op.SUB | Op.NEG if a.slope is not None and b.slope is not None:
                sign = -1.0 if node.op is not Op.ADD else 1.0
                slope = -a.slope if node.op is Op.NEG else a.slope + sign * b.slope
                if slope == 0.0 or (not a.periods and not b.periods):
                    return TimeDependence(slope, _both(args), _number(node.op, values))
            case Op.MUL if a.slope and a.still is False and b.value is not None and not a.periods:
                return TimeDependence(a.slope * b.value)
            case Op.MUL if b.slope and a.value is not None and not b.periods:
                return TimeDependence(b.slope * a.value)
            case Op.DIV if a.slope and b.value and not a.periods:
                return TimeDependence(a.slope / b.value)
            case op if op in WAVES and a.slope and not a.periods:
                return TimeDependence(0.0, frozenset({2.0 * math.pi / abs(a.slope)}))
            case Op.MOD if a.slope and b.value and not a.periods:
                return TimeDependence(0.0, frozenset({abs(b.value / a.slope)}))
    if all(one.slope == 0.0 and one.periods is not None for one in args):
        return TimeDependence(0.0, _both(args), _number(node.op, values) if isinstance(node, Apply) else None)
    return UNKNOWN


def _both(args: Iterable[TimeDependence]) -> frozenset[float] | None:
    found: frozenset[float] = frozenset()
    for one in args:
        if one.periods is None:
            return None
        found |= one.periods
    return found


def _number(op: Op, values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    if len(known) != len(values):
        return None
    match op, known:
        case Op.ADD, [a, b]:
            return a + b
        case Op.SUB, [a, b]:
            return a - b
        case Op.MUL, [a, b]:
            return a * b
        case Op.DIV, [a, b] if b:
            return a / b
        case Op.NEG, [a]:
            return -a
    return None


class Factor(NamedTuple):
    """Something that slopes depend on and that changes with the time, in words, and its periods if known."""

    what: str
    periods: frozenset[float] | None


def factors(
    scenario: Scenario, around: str = "", given: Mapping[tuple[str, str], TimeDependence] | None = None
) -> Iterator[Factor]:
    """What changes with the time in the slopes of units given by equations, and of connections."""
    dependences = driven(scenario, given or {})
    inputs = driven_inputs(scenario, dependences, given or {})
    for unit, model in scenario.units.items():
        name = around + path_of(scenario, unit)
        equations = getattr(model, "equations", None)
        if opened(model):
            free = model.running.free
            own = {
                (free[port][0], free[port][1].name): dependence
                for (of, port), dependence in inputs.items()
                if of == unit
            }
            yield from factors(model.running.scenario, f"{name}.", own)
        elif isinstance(equations, Equations):
            known = _known(equations, {port: c for (of, port), c in inputs.items() if of == unit})
            for entry in Symbolic(equations).entries:
                dependence = time_dependence(entry, known)
                if not dependence.still:
                    yield Factor(
                        f"a coefficient of {name}", dependence.periods if dependence.slope == 0.0 else None
                    )
    for connection in scenario.connections:
        for cell in connection.cells:
            for one in names(cell):
                dependence = time_dependence(simplify(differentiate(cell, one)), dependences)
                if not dependence.still:
                    what = f"a factor in the connection of {around}{connection.unit}.{connection.port}"
                    yield Factor(what, dependence.periods if dependence.slope == 0.0 else None)


def _known(equations: Equations, inputs: Mapping[str, TimeDependence]) -> dict[str, TimeDependence]:
    """The trajectories of what equations are made of."""
    found = {TIME: TICKING}
    count = len(equations.values)
    parameters = equations.arguments[len(equations.arguments) - count :]
    found |= {
        name: TimeDependence(value=float(v)) for name, v in zip(parameters, equations.values, strict=True)
    }
    for port in equations.inputs:
        if port.name in inputs:
            found |= dict.fromkeys(cell_names(port.name, port.size), inputs[port.name])
    return found


def driven(scenario: Scenario, given: Mapping[tuple[str, str], TimeDependence]) -> dict[str, TimeDependence]:
    """Outputs that go with the time, among other things: their names and trajectories.

    Those of a unit whose states are pushed by the time only if it is before all feedback: what a force does
    to the states of a loop is its motion, and no change of its slopes.
    """
    fed: dict[str, list[Connection]] = {}
    for connection in scenario.connections:
        fed.setdefault(connection.unit, []).append(connection)
    sources = {
        unit: {_unit_of(name, scenario) for c in own for cell in c.cells for name in names(cell)}
        for unit, own in fed.items()
    }
    before = _before_feedback(scenario, sources)
    found: dict[str, TimeDependence] = {}
    for _ in range(ROUNDS):
        new: dict[str, TimeDependence] = {}
        for unit, model in scenario.units.items():
            inputs = {
                c.port: _strongest(time_dependence(cell, found) for cell in c.cells)
                for c in fed.get(unit, ())
            }
            inputs |= {port: dependence for (of, port), dependence in given.items() if of == unit}
            new |= {
                f"{unit}.{cell}": dependence for cell, dependence in _outputs(model, inputs, unit in before)
            }
        if new == found:
            return found
        found = new
    return dict.fromkeys(found, UNKNOWN)


def _unit_of(name: str, scenario: Scenario) -> str:
    """The unit of a signal; both may have dots in their names."""
    parts = name.split(".")
    return next(u for k in range(1, len(parts) + 1) if (u := ".".join(parts[:k])) in scenario.units)


def _before_feedback(scenario: Scenario, sources: Mapping[str, set[str]]) -> set[str]:
    """Units that nothing moves that is moved by them, or by what they move."""
    found: set[str] = set()
    while True:
        more = {unit for unit in scenario.units if unit not in found and sources.get(unit, set()) <= found}
        if not more:
            return found
        found |= more


def _outputs(
    model: Model, inputs: Mapping[str, TimeDependence], before: bool
) -> Iterator[tuple[str, TimeDependence]]:
    """The outputs of a unit that go with the time, cell by cell."""
    equations = getattr(model, "equations", None)
    if opened(model):
        return
    if not isinstance(equations, Equations):
        if not inputs:  # what could it go with, if not with the time
            for p in model.ports:
                if p.causality is Causality.OUTPUT and p.kind is Kind.REAL and not p.event:
                    yield from ((cell, UNKNOWN) for cell in cell_names(p.name, p.size))
        return
    known = _known(equations, inputs)
    rates = equations.derivatives.outputs if equations.derivatives is not None else ()
    pushed = before and not all(time_dependence(rate, known).still for rate in rates)
    cells = [cell for output in equations.outputs for cell in cell_names(output.port.name, output.port.size)]
    for cell, expression in zip(cells, equations.computed.outputs, strict=True):
        dependence = UNKNOWN if pushed else time_dependence(expression, known)
        if not dependence.still:
            yield cell, dependence


def driven_inputs(
    scenario: Scenario,
    dependences: Mapping[str, TimeDependence],
    given: Mapping[tuple[str, str], TimeDependence],
) -> dict[tuple[str, str], TimeDependence]:
    """Inputs that go with the time, among other things."""
    found = dict(given)
    for connection in scenario.connections:
        dependence = _strongest(time_dependence(cell, dependences) for cell in connection.cells)
        if not dependence.still:
            found[connection.unit, connection.port] = dependence
    return found


def _strongest(dependences: Iterable[TimeDependence]) -> TimeDependence:
    found = list(dependences)
    if all(one.still for one in found):
        return STILL
    if all(one.slope == 0.0 for one in found):
        return TimeDependence(0.0, _both(found))
    return found[0] if len(found) == 1 else UNKNOWN


def steps_of_period(found: Sequence[Factor], step: float) -> int:
    """After how many steps all of that is as it was; `NoMatrix` if that is not known, or never."""
    periods: dict[float, str] = {}
    for factor in found:
        if factor.periods is None:
            raise NoMatrix(
                f"{factor.what} changes with the time, in a way that is not known to come again and again: "
                "what a step does now says nothing about later ones. Follow a run (up.stability_along, "
                "--along), or make it periodic: sin and cos of time times a number, or mod(time, period)."
            )
        periods |= dict.fromkeys(factor.periods, factor.what)
    for count in range(1, MAX_STEPS + 1):
        turns = [count * step / period for period in periods]
        if all(round(turn) >= 1 and abs(turn - round(turn)) <= WHOLE * turn for turn in turns):
            return count
    longest = max(periods)
    near = longest / max(round(longest / step), 1)
    raise NoMatrix(
        f"{periods[longest]} has a period of {longest:.9g} s, and no whole number of steps of {step:.6g} s "
        f"(up to {MAX_STEPS:,}) is a whole number of periods, so that no two steps are alike. Take steps of "
        f"{near!r} s, or another whole part of the period."
    )


# ----------------------------------------------------------------------------------------------------

Verdict = Literal["stable", "unstable", "undecided"]
USUAL = "step"
"""The step block of a program that has no others."""
NEARLY = 1e-9
"""Events so near to the end of a step, relatively, are at its end."""
EVENTS = 5
"""So many events of every unit are waited for, to see how regular they are …"""
TURNS = 8
"""After so many times the steps between events, at most, modes of discrete units come again."""
COUNTED = 64
"""So many other values are tried for a number that counts on."""
SHOWN = 8
"""So many times at which units were tried are all named."""
LONGEST = 1_000
"""… for at most so many steps."""
LARGEST = 5000
"""The most entries of an extended state whose matrix is looked at."""
NEAR = 1e-3
"""How far away the neighbour stands that decides for a program which is not linear, relatively."""


@dataclass(frozen=True)
class Induced:
    """x(t + step) = matrix·x(t), to first order, for the extended state x of a coupled scenario.

    Where steps differ with the time, or with the direction of a deviation, it is about as many `steps` as it
    takes until what they do comes again.

    `linear` says that this is proven to hold everywhere; otherwise it is a linearisation, at the time `at` of
    the run (`begun`: as soon after its start as all histories are complete) or at a point of `rest`.
    `accuracy` is how well the entries of the matrix are known, relatively.
    """

    matrix: npt.NDArray[np.float64]
    step: float
    names: tuple[str, ...]
    ports: tuple[str, ...]
    linear: bool
    at: float
    accuracy: float
    notes: tuple[str, ...] = ()
    rest: bool = False
    begun: bool = False
    steps: int = 1
    error: npt.NDArray[np.float64] | None = None
    """By how much each entry may be wrong, where that is known better than by `accuracy`."""
    point: tuple[tuple[str, float], ...] = ()
    """The states of units at a point of rest, by name. There may be others: this is the one that the search
    from the start led to."""
    assumed: tuple[str, ...] = ()
    """What the matrix takes for granted, in sentences."""
    again: npt.NDArray[np.float64] | None = None
    """The same matrix, found at another point: how much they differ is how well it is known, too."""
    unseen: str = ""
    """Why the matrix decides nothing though it is known, in words: it does not contain some events, and
    describes the time between them only; or the run leaves its point, and slopes change on the way."""

    @property
    def size(self) -> int:
        return len(self.names)

    @property
    def where(self) -> str:
        """The point of linearisation in words."""
        return "rest" if self.rest else "the start" if self.begun else f"t = {self.at:.6g} s"


class Followed:
    """The program of one scenario on linear forms, from its start on."""

    def __init__(
        self, scenario: Scenario, program: Program, start: float, length: float, *, ideal: bool,
        blocks: Sequence[str] = (USUAL,), stop: float = inf,
    ) -> None:  # fmt: skip
        """`blocks`: the step blocks among which each step chooses. `stop`: when the run ends."""
        models = scenario.units
        called = {unit: path_of(scenario, unit) for unit in models}
        found = tuple(doubts(scenario))
        self.notes = tuple(doubt.what for doubt in found)
        self.curved = any(doubt.curved for doubt in found)
        """Whether slopes may differ from point to point."""
        self._tried: tuple[str, ...] = ()
        self.linear = not self.notes
        self._unseen = () if self.linear else tuple(unseen_events(scenario))
        self.hidden = "; ".join(hidden_events(scenario))
        """Which units have events that cannot be seen before they happen, in words."""
        self._factors = () if self.linear else tuple(factors(scenario))
        self._driven = () if self.linear else tuple(driven_inputs(scenario, driven(scenario, {}), {}))
        self._called = called
        self._program, self._start, self._stop = program, start, stop
        self._default_block = blocks[0]
        steps = [program.steps[name] for name in blocks]
        self.depth = max(_depths(scenario, program))
        self.depth += len(blocks) > 1 and looks_back(program, models, steps)
        if program.layout.cells > LARGEST:  # mostly registers and inputs alone are too many: nothing is built
            bare = extended(program, models, steps, dict.fromkeys(models, ()), called)
            _check_size(bare.size, " besides the states of units")
        self._neighbour = None if self.linear else Neighbour(program, models, start)
        try:
            self._forms = Forms(program, models, start, self._neighbour)
        except BaseException:
            if self._neighbour is not None:
                self._neighbour.close()
            raise
        try:
            how = How(ideal, start, length)
            after = [(*step, *program.instant) for step in steps]
            own = linear_units(scenario, self._forms, self._forms, after, how)
            self._forms.linear_units.update(own)
            entries = {unit: one.entries for unit, one in own.items()}
            self.extended: Extended = extended(program, models, steps, entries, called)
            _check_size(self.extended.size)
            self._here = self._there = ExtendedState(
                program, models, self.extended, self._forms, self._forms, own
            )
            if self._neighbour is not None:
                near = linear_units(scenario, self._forms, self._neighbour, after, how)
                self._there = ExtendedState(
                    program, models, self.extended, self._forms, self._neighbour, near
                )
            self.reusable = all(Ability.ROLLBACK in model.abilities for model in models.values())
            """Whether it can begin more than once."""
            self._first = [machine.save() for machine in self._machines] if self.reusable else []
        except BaseException:
            self.close()
            raise
        self._own = own
        adaptive = [found for one in own.values() for found in one.adaptive]
        self.adaptive = bool(adaptive)
        """Whether some solver chooses its own steps."""
        self._assumed = () if ideal else tuple(_assumed(adaptive))
        self.reach = reach(scenario, own)
        """How far from a point slopes are looked at again, relatively; 0 where they cannot jump."""
        self.sampled = any(isinstance(one, DiscreteLinearUnit) for one in own.values())
        """Whether units act at events that are known before."""
        self.jumped: tuple[str, ...] = ()
        """The discrete units that had events in the last step."""
        self._time = start
        self._grid = (start, 0, length)
        self._around: Array | None = None
        self.whole: Array = np.zeros((0, 0))
        """The matrix of the last step over all of the extended state."""
        self.moves = np.zeros(0, dtype=bool)
        """Which entries it did not simply leave as they were."""

    @property
    def _machines(self) -> tuple[Interpreter, ...]:
        return (self._forms,) if self._neighbour is None else (self._forms, self._neighbour)

    @property
    def unseen(self) -> str:
        """Which events change what steps do and are in none of their matrices, in words."""
        return _between(one.what for one in self._unseen)

    @property
    def unseen_along(self) -> str:
        """The same where every step is looked at at its own time."""
        return _between(one.what for one in self._unseen if not one.planned)

    def close(self) -> None:
        for machine in self._machines:
            machine.close()

    # ---------------------------------------------------------------- values

    def save(self) -> Any:
        """Where it stands, to come back to it; only if it is `reusable`."""
        return [machine.save() for machine in self._machines], self._time, self._grid

    def restore(self, token: Any) -> None:
        """Stand there again."""
        kept, self._time, self._grid = token
        for machine, one in zip(self._machines, kept, strict=True):
            machine.restore(one)

    @contextmanager
    def rows_alone(self) -> Iterator[None]:
        """Within it values are computed only where rows depend on them."""
        self._forms.rows_alone = True
        try:
            yield
        finally:
            self._forms.rows_alone = False

    def begin(self, states: Array | None = None) -> None:
        """At the start again, perhaps in other states, with everything exchanged."""
        self.renew()
        for machine, token in zip(self._machines, self._first, strict=False):
            machine.restore(token)
        if states is not None:
            self.put_states(states)
        self._forms.active, self._time = False, self._start
        self._grid = (self._start, 0, 0.0)
        self._forms.write(self._program.now, self._start)
        self._forms.write(self._program.next, self._start)
        self._forms.execute("start")
        self._instant()

    @staticmethod
    def time_of(token: Any) -> float:
        """The time of a point that was saved."""
        return float(token[1])

    def limit(self, late: Callable[[], bool]) -> None:
        """End what it does with `StepError` as soon as time is up."""
        self._forms.allowance.late = late

    def renew(self) -> None:
        """Count what is computed from zero again: for the next look, or the next step on the way there."""
        self._forms.allowance.renew()

    def go(self, step: float, block: str | None = None) -> None:
        """One step; events that are known before cut it into parts, as they do in a run."""
        self._forms.jumps.clear()
        origin, count, size = self._grid
        again = size == step and origin + count * step == self._time
        self._grid = (origin, count + 1, step) if again else (self._time, 1, step)
        end = self._grid[0] + self._grid[1] * step
        while self._time < end:
            self._forms.write(self._program.next, self._next(end, step))
            self._forms.execute(self._default_block if block is None else block)
            self._time = float(self._forms.read(self._program.next))
            self._forms.write(self._program.now, self._time)
            self._instant()
        self.jumped = tuple(dict.fromkeys(unit for unit, _ in self._forms.jumps))

    def _next(self, end: float, step: float) -> float:
        """Where the next part of a step ends: at an event, or at its own end, if that is not the same."""
        due = inf if self._program.due is None else float(self._forms.read(self._program.due))
        if not self.sampled or not self._time < due < inf or due > end + NEARLY * step:
            return end
        return max(due, end) if abs(due - end) <= NEARLY * step else due

    def _instant(self) -> None:
        if self._program.instant:
            self._forms.execute("instant")
        for machine in self._machines:
            machine.fired.clear()

    def values(self) -> Array:
        """The extended state."""
        return self._here.values()

    def put(self, values: Array) -> None:
        """Another extended state, here and at the neighbour."""
        self._here.put(values)
        if self._there is not self._here:
            self._there.put(values)

    def put_states(self, values: Array) -> None:
        """Other states of units, here and at the neighbour; what else `values` may hold is left alone."""
        self._here.put_states(values)
        if self._there is not self._here:
            self._there.put_states(values)

    # ---------------------------------------------------------------- rows

    def period(self, step: float) -> int:
        """After how many steps, from here on, all that they do comes again; `NoMatrix` if it is not known."""
        if self.linear:
            return 1
        found = [*self._factors, *self._ticks(step)]
        later = later_steps((self._stop - self._time) / step)
        units_by_times: dict[str, list[str]] = {}
        for unit, one in self._own.items():
            tried = one.alike(self._time, step, [port for of, port in self._driven if of == unit], later)
            if tried is None:
                found.append(Factor(f"a coefficient of {self._called[unit]}", None))
            elif tried:
                times = [f"{self._time + k * step:.4g}" for k in tried]
                shown = times if len(times) <= SHOWN else [*times[:3], "…", *times[-5:]]
                units_by_times.setdefault(", ".join(shown), []).append(self._called[unit])
        self._tried = tuple(
            f"{', '.join(units[:3])}{f' and {len(units) - 3} more' if len(units) > 3 else ''}: the "
            f"equations are not accessible; slopes are those measured at t = {times} s"
            for times, units in units_by_times.items()
        )
        count = steps_of_period(found, step)
        return count * self._turns_of(step, count) if self.sampled else count

    def _turns_of(self, step: float, count: int) -> int:
        """How many times so many steps it takes until discrete units are in the same modes again."""
        here = self.save()
        kept = {unit: one.kept for unit, one in self._own.items() if isinstance(one, DiscreteLinearUnit)}

        def modes() -> dict[tuple[str, Any], Any]:
            return {(unit, p): value for unit, one in kept.items() for p, value in one.modes().items()}

        seen = [modes()]
        for _ in range(2 * TURNS):
            for _ in range(count):
                self.go(step)
            seen.append(modes())
        self.restore(here)

        def again(turns: int, place: Any) -> bool:
            values = [one.get(place) for one in seen]
            return all(a == b for a, b in zip(values, values[turns:], strict=False))

        places = {place for one in seen for place in one}
        odd = [p for p in places if not any(again(turns, p) for turns in range(1, TURNS + 1))]
        for unit, path in odd:
            if self._counts(unit, path, step, count):
                raise NoMatrix(
                    f"{called(path[1:])} of '{self._called[unit]}' counts on, and what the unit does depends "
                    "on it, so that its events are not all alike, and no single matrix says what they do."
                )
        left = [p for p in places if p not in odd]
        return next(turns for turns in range(1, TURNS + 1) if all(again(turns, p) for p in left))

    def _counts(self, unit: str, path: Any, step: float, count: int) -> bool:
        """Whether the run goes on in another way with another number there."""
        one, here = self._own[unit], self.save()
        assert isinstance(one, DiscreteLinearUnit)
        value = one.kept.modes()[path]

        def later(other: Any) -> list[float]:
            self.restore(here)
            one.kept.put({path: other})
            for _ in range(2 * count):
                self.go(step)
            found = zip(self.values(), self.extended.names, strict=True)
            return [float(number) for number, name in found if name != label]

        label = f"{self._called[unit]}.{called(path[1:])}"
        try:
            if not isinstance(value, int):
                return True
            usual = later(value)
            much = (round(k) for k in later_steps((self._stop - self._time) / step))
            try:
                return any(later(value + by) != usual for by in (*range(1, COUNTED), *much))
            except (InvalidInput, RunError):
                return True  # it refuses such a number: so it has read it
        finally:
            self.restore(here)

    def _ticks(self, step: float) -> Iterator[Factor]:
        """How often discrete units have something to do, seen from here on."""
        if not self.sampled:
            return
        if not self.reusable:
            raise NoMatrix("a unit cannot be set back, so it is not known how regularly events come")
        here, machine = self.save(), self._forms
        times: dict[str, list[float]] = {
            unit: [] for unit, one in self._own.items() if isinstance(one, DiscreteLinearUnit)
        }
        for _ in range(LONGEST):
            self.go(step)
            for unit, time in machine.jumps:
                if unit in times and (not times[unit] or time > times[unit][-1]):
                    times[unit].append(time)
            if all(len(one) > EVENTS for one in times.values()):
                break
        self.restore(here)
        for unit, seen in times.items():
            name = f"the time between events of {self._called[unit]}"
            apart = np.diff(seen)
            if not len(seen):
                own = self._own[unit]
                if isinstance(own, DiscreteLinearUnit) and own.due < NEVER:  # long after
                    yield Factor(name, None)
                continue  # or it stays as it is
            if len(apart) < 2:
                yield Factor(name, None)
                continue
            period = float((seen[-1] - seen[0]) / len(apart))
            regular = float(np.abs(apart - period).max()) <= 1e-6 * period
            yield Factor(name, frozenset({period}) if regular else None)

    def over(self, step: float, steps: int) -> Induced:
        """The matrix of so many steps together."""
        if steps == 1:
            return self.induced(step)
        parts: list[Array] = []
        found = last = self.induced(step)
        moves, accuracy = self.moves, last.accuracy
        parts.append(self.whole)
        for _ in range(steps - 1):
            last = self.induced(step)
            parts.append(self.whole)
            moves, accuracy = moves | self.moves, max(accuracy, last.accuracy)
        size = len(parts[0])
        ends: list[Array] = [np.eye(size)]
        for part in reversed(parts):
            ends.append(ends[-1] @ part)
        error, whole = np.zeros((size, size)), np.eye(size)
        for part, after in zip(parts, reversed(ends[:-1]), strict=True):
            error += accuracy * np.abs(after) @ np.abs(part) @ np.abs(whole)
            whole = part @ whole
        self.whole, self.moves = whole, moves
        kept = np.flatnonzero(moves).tolist()
        names, ports = self.extended.names, self.extended.ports
        return replace(
            found,
            matrix=whole[np.ix_(kept, kept)],
            names=tuple(names[i] for i in kept),
            ports=tuple(ports[i] for i in kept),
            accuracy=accuracy * steps,
            steps=steps,
            error=error[np.ix_(kept, kept)],
        )

    def induced(self, step: float, block: str | None = None) -> Induced:
        """One step, and its matrix."""
        at = self._time
        again: Array | None = None
        if self._neighbour is not None:
            self._there.displace(self._here.values(), NEAR)
            matrix = self._matrix(step, block)
        else:  # always from the same point: moved on and on, it would run away
            self._around = self._here.values() if self._around is None else self._around
            if self._forms.valueless or not self.reusable:
                self._here.displace(self._around, 1.0)
                matrix = self._matrix(step, block)
            else:
                # Its rows are the same everywhere but for rounding, and for how often iterations go round:
                # from two points one sees how much that makes.
                token = self.save()
                again = self._from(token, 2, step, block)
                matrix = self._from(token, 1, step, block)
        self.whole = matrix
        # What a step leaves as it is moves nowhere: a register that waits for an event, an input left alone.
        own = self.extended.own
        stays = [row[i] == 1.0 and np.count_nonzero(row) == 1 for i, row in enumerate(matrix)]
        check_loops(self.extended, stays)
        self.moves = np.array(own, dtype=bool) | ~np.array(stays, dtype=bool)
        kept = np.flatnonzero(self.moves).tolist()
        if len(kept) < len(matrix):
            again = None if again is None else again[np.ix_(kept, kept)]
            matrix = matrix[np.ix_(kept, kept)]
        names, ports = self.extended.names, self.extended.ports
        accuracy = max((one.accuracy for one in self._own.values()), default=1e-15)
        return Induced(
            matrix=matrix,
            step=step,
            names=tuple(names[i] for i in kept),
            ports=tuple(ports[i] for i in kept),
            linear=self.linear,
            at=at,
            accuracy=accuracy,
            notes=self.notes,
            assumed=(*self._assumed, *self._tried),
            again=again,
            unseen=self.unseen,
        )

    def _from(self, token: Any, way: int, step: float, block: str | None) -> Array:
        """The matrix of a step from near where it stands; one step leads there, so that all fits together."""
        assert self._around is not None
        self.restore(token)
        self._here.displace(self._around, 1.0, way)
        self.go(step, block)
        near = self._here.values()
        self.restore(token)
        self._here.put(near)
        return self._matrix(step, block)

    def _matrix(self, step: float, block: str | None) -> Array:
        """One step with rows."""
        self._here.seed(np.eye(self.extended.size))
        self._forms.active = True
        try:
            self.go(step, block)
        finally:
            self._forms.active = False
        return self._here.rows(self.extended.size)


def _between(found: Iterable[str]) -> str:
    what = "; ".join(found)
    return f"{what}: the matrix describes the time between them only" if what else ""


def _check_size(size: int, what: str = "") -> None:
    """That the matrix of an extended state with so many entries is not too large."""
    if size > LARGEST:
        raise InvalidInput(
            f"the extended state has {size:,} entries{what}, and at most {LARGEST:,} are allowed: its matrix "
            f"takes {8e-9 * size**2:.2g} GB, and its eigenvalues take very long. Judge a part of the "
            "scenario, or one with fewer units of the same kind"
        )


def _depths(scenario: Scenario, program: Program) -> Iterator[int]:
    """After how many steps all histories are complete, those inside nested scenarios included."""
    yield history_depth(program)
    for model in scenario.units.values():
        if opened(model):
            inside = model.running
            yield from _depths(inside.scenario, inside.program)


def _assumed(found: Sequence[tuple[str, float | None]]) -> Iterator[str]:
    """What is taken for granted of solvers that choose their own steps."""
    for rtol in dict.fromkeys(rtol for _, rtol in found):
        units = [name for name, own in found if own == rtol]
        shown = ", ".join(units[:3]) + (f" and {len(units) - 3} more" if len(units) > 3 else "")
        if rtol is None:
            yield f"{shown}: the solver inside is exact"
        else:
            yield f"{shown}: the solver keeps to its tolerance ({rtol:g}); which steps it takes is not known"
