"""Variants of an experiment, run within a budget, and two traces compared signal by signal.

The kernel of `up.trust` and `up.step`. Its face:

* `Change(step=0.5, inputs=…, coupling=…, solvers=True)` says how a run differs from the one in question, and
  `change.of(experiment)` is that experiment. `Trials(experiment, seconds, progress)` runs them within a
  budget in seconds: ``trials.run(change)`` gives a `Trial`, which has a `trace`, or says in `failure` why
  there is none (it failed, it would take longer than what is left of the budget). Nothing raises but what is
  wrong with the experiment itself. The same change is run once.
* `compare(one, other)` is a `Comparison`: for each signal (`comparison["left.x"]`, a `Difference`) the
  largest and the root-mean-square difference, relative to the range of the signal; for the events a list of
  `Pair`s.
* `Aligned(base, others)` is below that: the values of several traces at the rows of one of them.

**Around events** nothing is compared point by point: where one run has had an event and the other has not had
the same yet, they differ by the whole jump though one is only a little late. Such rows are left out, and the
shift of the event is told instead. Events are matched by name and order (by time where one has more of them):
what has no partner is missing or extra, and there nothing is left out. Changes of what is not a real number,
and jumps of reals that no event explains, are matched like events, for that signal alone.

**Between rows** a polynomial of degree 5 through the nearest six rows stands for the other trace, never
across a jump or an event, so that interpolation does not look like an error of the coupling;
`Difference.blur` is how much it may be off. Two rows of one time are the value before and after a jump: the
first is compared with the first, the last with the last.
"""

from __future__ import annotations

import logging
import math
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from copy import copy
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upbeat.core.abilities import Ability, Model
from upbeat.core.errors import MasterError, RunError, UpbeatError, suggest
from upbeat.core.ports import Kind
from upbeat.core.reasons import LANDED
from upbeat.engine.experiment import Experiment
from upbeat.engine.nesting.model import nested_of
from upbeat.master.couplings.coupling import Coupling
from upbeat.master.inputs.approximation import Approximation
from upbeat.master.master import Master
from upbeat.master.paces.lookahead import LookAhead
from upbeat.master.paces.pace import equal_steps, nominal_step, scaled
from upbeat.scenario.merging.inline import path_of
from upbeat.scenario.scenario import Scenario
from upbeat.trace.trace import Trace, UnknownSignal
from upbeat.units.discrete.unit import Schedule
from upbeat.units.equations.ode import equations_of, named_times
from upbeat.units.process import bare, placed_like
from upbeat.units.solving.solvers import solver_of

Numbers = NDArray[np.float64]
Mask = NDArray[np.bool_]
Progress = Callable[[str], None]
"""Called now and then with a text that says how far things are."""

# ----------------------------------------------------------------------------------------------------
# Other runs of the same thing.

FINER = 4
"""So many times as many steps, or tolerances smaller by the fourth power of it, have finer solvers."""
TIGHTEST = 1e-13
"""Below this a tolerance of a solver asks for more than rounding allows."""


@dataclass(frozen=True)
class Change:
    """How a run differs from the one in question; nothing given is the same run again.

    `step` is a factor for the communication steps, of nested scenarios, too. `inputs` and `coupling` take the
    place of those of the master (what `Master.ports` says of single inputs stays). With `solvers`, units of
    equations are solved more finely (four times as many steps, or tolerances 256 times smaller), and FMUs are
    asked to. `closely`: steps also end at times that equations and inputs name, and where an event between
    units is expected (see `closer`). `again` tells runs apart that are the same on purpose.
    """

    step: float = 1.0
    inputs: Approximation | None = None
    coupling: Coupling | None = None
    solvers: bool = False
    closely: bool = False
    again: int = 0

    def __str__(self) -> str:
        said = []
        if self.step != 1.0:
            part = 1.0 / self.step
            said.append(f"steps / {part:.3g}" if part > 1 else f"steps × {self.step:.3g}")
        said += [_called(part) for part in (self.coupling, self.inputs) if part is not None]
        said += ["finer solvers"] if self.solvers else []
        said += ["a closer look at times and conditions"] if self.closely else []
        return ", ".join(said) or ("the same again" if self.again else "as it is")

    def of(self, experiment: Experiment) -> Experiment:
        """The changed experiment: in memory, not in real time, and without checkpoints. `MasterError` if the
        pace cannot tell what other steps would be."""
        scenario = experiment.scenario
        if self.solvers:
            scenario = with_finer_solvers(scenario)
        if self.step != 1.0:
            scenario = inner_steps(scenario, self.step)
        master = _with_steps(experiment.master, self.step)
        if self.closely:
            scenario, master = closer(experiment, scenario, master)
        if self.inputs is not None:
            master = replace(master, inputs=self.inputs)
        if self.coupling is not None:
            master = replace(master, coupling=self.coupling)
        every = experiment.every if experiment.every == 1 else max(1, round(experiment.every / self.step))
        changes: dict[str, Any] = {"every": every, "out": None, "real_time": None, "checkpoint": None}
        changes |= {"profile": None, "force": False}
        changes |= {"scenario": scenario} if scenario is not experiment.scenario else {}
        changes |= {"master": master} if master is not experiment.master else {}
        return experiment.with_(**changes)  # which shares the plan where nothing of it has changed


UNCHANGED = Change()


def _called(part: Any) -> str:
    """A coupling or an approximation by its name, with what differs from the usual."""
    said = []
    for own in fields(part) if is_dataclass(part) else ():
        usual = own.default if own.default_factory is MISSING else own.default_factory()
        if (value := getattr(part, own.name)) != usual:
            said.append(f"{own.name}={_called(value) if is_dataclass(value) else repr(value)}")
    return f"{type(part).__name__}({', '.join(said)})"


def _with_steps(master: Master, factor: float) -> Master:
    if factor == 1.0:
        return master
    pace = scaled(master.pace, factor)
    if pace is None:
        raise MasterError(
            f"nobody knows what other steps of {type(master.pace).__name__} would be: a pace says so with "
            "scaled(factor)"
        )
    return replace(master, pace=pace)


def inner_steps(scenario: Scenario, factor: float) -> Scenario:
    """The scenario whose nested ones have other steps, too, as far as that can be said."""

    def changed(model: Model) -> Model:
        nested = nested_of(model)
        if nested is None:
            return model
        pace = scaled(nested.master.pace, factor)
        master = nested.master if pace is None else replace(nested.master, pace=pace)
        return replace(nested, scenario=inner_steps(nested.scenario, factor), master=master)

    return with_models(scenario, changed)


MOST = 2000
"""At so many named times steps end at most, those that matter most first."""
BEHIND = 1e-3
"""And as often right behind one of them, by this part of the way to the next."""


def named_moments(experiment: Experiment, near: float | None = None) -> list[float]:
    """Times that equations, tables and inputs name, so close to each other that a step (as long as `near`)
    may go over both: what happens in between, no communication point may ever see."""
    found: dict[float, float] = {}
    near = near or nominal_step(experiment.master.pace) or math.inf
    for _, model in units_inside(experiment.scenario):
        if (equations := equations_of(model)) is not None:
            for at, weight in named_times(equations).items():
                found[at] = max(found.get(at, 0.0), weight)
    if (signals := experiment.signals) is not None:
        bends = [np.abs(np.diff(v, 2)) for v in map(_reals, signals.values.values()) if v is not None]
        largest = np.max(bends, axis=0) if bends else np.zeros(max(len(signals.time) - 2, 0))
        found |= dict(zip(signals.time[1:-1], largest.tolist(), strict=True))
    first, last = experiment.span.start, experiment.span.stop
    inside = sorted(t for t in found if first < t < last)
    close = [
        t
        for k, t in enumerate(inside)
        if (k > 0 and t - inside[k - 1] < near) or (k + 1 < len(inside) and inside[k + 1] - t < near)
    ]
    return sorted(sorted(close, key=lambda t: -found[t])[:MOST])


def _reals(values: Sequence[Any]) -> Numbers | None:
    if not all(isinstance(value, (int, float)) for value in values):
        return None
    return np.asarray(values, dtype=np.float64)


def may_miss(experiment: Experiment) -> bool:
    """Whether conditions between units are looked at only where steps end anyway."""
    parts = experiment.structures.values() or (experiment,)
    return any(part.scenario.events and equal_steps(part.plan.master.pace) is not None for part in parts)


def closer(experiment: Experiment, scenario: Scenario, master: Master) -> tuple[Scenario, Master]:
    """The scenario and its master with steps that end also at named moments, and where an event is expected:
    what is too short for its steps shows in such a run."""
    moments, last = named_moments(experiment), experiment.span.stop
    if moments:
        gaps = np.diff([*moments, last]) * BEHIND
        times = sorted({*moments, *(np.asarray(moments) + gaps).tolist()})
        units = {**scenario.units, _moments_unit(scenario): Schedule(times)}
        scenario = scenario.with_parts(units=units)
    if may_miss(experiment):
        master = replace(master, pace=LookAhead(nominal_step(master.pace)), events=None)
    return scenario, master


def _moments_unit(scenario: Scenario) -> str:
    """A name that no unit has."""
    names = ("moments", *(f"moments{k}" for k in range(len(scenario.units))))
    return next(name for name in names if name not in scenario.units)


def _without_moments(trace: Trace, scenario: Scenario) -> None:
    """Leave out of the log what was there only to end steps."""
    own, log = f"{_moments_unit(scenario)}.event", trace.events
    codes = [code for code, kind in enumerate(log.kinds) if kind.name == own]
    if codes:
        trace.events = log.take(np.flatnonzero(~np.isin(log.codes, codes)))


def with_finer_solvers(scenario: Scenario) -> Scenario:
    """The scenario with units that are solved more finely, at all depths; see `finer`."""

    def changed(model: Model) -> Model:
        if (nested := nested_of(model)) is not None:
            return replace(nested, scenario=with_finer_solvers(nested.scenario))
        return finer(model) or model

    return with_models(scenario, changed)


def with_models(scenario: Scenario, changed: Callable[[Model], Model]) -> Scenario:
    """The scenario whose units are made from what `changed` makes of their models, where they run and all."""
    made: dict[str, Model] = {}
    for name, model in scenario.units.items():
        if name not in scenario.added_units and (new := changed(bare(model))) is not bare(model):
            made[name] = placed_like(model, new)
    return scenario.with_units(made)


def finer(model: Model) -> Model | None:
    """The same model with a solver that makes smaller errors; None where there is nothing to solve, or nobody
    can tell. An FMU is asked for it: whether it listens shows in the results."""
    solver = solver_of(model)
    if getattr(model, "choice", None) is not None:
        return None
    if solver is None:
        accuracy = getattr(model, "accuracy", None)
        if accuracy is None:
            return None
        asked = copy(model)
        object.__setattr__(asked, "tolerance", min(max(accuracy / FINER**4, TIGHTEST), accuracy))
        return asked
    if hasattr(solver, "rtol"):
        tight = {name: max(getattr(solver, name) / FINER**4, TIGHTEST) for name in ("rtol", "atol")}
        made = replace(solver, **{name: min(value, getattr(solver, name)) for name, value in tight.items()})
    elif getattr(solver, "step", None) is not None:
        made = replace(solver, step=solver.step / FINER, step_formula=None)
    else:
        made = replace(solver, steps=solver.steps * FINER)
    return replace(model, solver=made)  # type: ignore[type-var]


def units_inside(scenario: Scenario) -> Iterator[tuple[str, Model]]:
    """The units of a scenario and of those nested in it, by their paths, without processes around them."""
    for unit, model in scenario.units.items():
        if unit in scenario.added_units:
            continue
        own, path = bare(model), path_of(scenario, unit)
        if (nested := nested_of(own)) is not None:
            for inner, each in units_inside(nested.scenario):
                yield f"{path}.{inner}", each
        else:
            yield path, own


def black_boxes(scenario: Scenario) -> list[str]:
    """Units that solve something inside which nobody can look into or change."""
    return [
        path
        for path, model in units_inside(scenario)
        if equations_of(model) is None
        and finer(model) is None
        and Ability.NEXT_EVENT not in model.abilities
        and getattr(model, "sample_time", None) is None
        and not hasattr(model, "function")
    ]


def unseen(scenario: Scenario) -> str:
    """What is to be said about errors inside black boxes; nothing, if there are none."""
    if not (boxes := black_boxes(scenario)):
        return ""
    names = ", ".join(boxes)
    return f"errors that {names} make inside themselves are not seen: nobody can change them from here"


# ----------------------------------------------------------------------------------------------------
# Running them within a budget.


@contextmanager
def quietly() -> Iterator[None]:
    """Remarks about a run that are the same for all its variants are made once."""
    log = logging.getLogger("upbeat.run")

    def hush(record: logging.LogRecord) -> bool:
        return record.levelno >= logging.ERROR

    log.addFilter(hush)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.removeFilter(hush)


class _OutOfTime(Exception):
    """The budget is used up in the middle of a run."""


@dataclass(frozen=True)
class Trial:
    """What came of a changed run: its trace, or in `failure` why there is none that goes to the end.

    A run that failed on the way keeps what it has in `partial`. `seconds` is the time on the wall.
    """

    change: Change
    trace: Trace | None
    seconds: float = 0.0
    failure: str = ""
    partial: Trace | None = None
    error: BaseException | None = None
    """What has ended it, if something has."""
    skipped: bool = False
    """Whether it was not even begun: for want of time, or because it is not possible."""

    @property
    def steps(self) -> int:
        """How many communication steps it took, those that were taken back included."""
        log = None if self.trace is None else self.trace.steps
        return 0 if log is None else log.count + log.rejected

    @property
    def step(self) -> float:
        """The mean size of its communication steps; 0 if it has none."""
        if self.trace is None or not self.trace.steps.count:
            return 0.0
        first, last = self.trace.span
        return (last - first) / self.trace.steps.count


class Trials:
    """Runs of changed experiments, each once, as long as the budget in `seconds` (on the wall) lasts.

    The first run, the experiment as it is, is made whatever it costs. Before each other one its time is
    estimated from those there are; if that is more than what is left, it is not begun. Ctrl-C in the first
    run ends everything, and in a later one these runs.
    """

    def __init__(
        self, experiment: Experiment, seconds: float = math.inf, progress: Progress | None = None
    ) -> None:
        self.experiment = experiment
        self.seconds = seconds
        self._progress = progress or (lambda text: None)
        self._begun = time.monotonic()
        self.made: list[Trial] = []
        self.kept = 0.0
        """Seconds of the budget that are kept for what follows the runs."""
        self.interrupted = False
        """Whether Ctrl-C has ended a run: it counts as the end of the budget, and what there is as found."""

    @property
    def spent(self) -> float:
        return time.monotonic() - self._begun

    @property
    def left(self) -> float:
        return 0.0 if self.interrupted else max(self.seconds - self.kept - self.spent, 0.0)

    def run(self, change: Change = UNCHANGED) -> Trial:
        """The trial of a change: made now, unless it was before."""
        known = next((trial for trial in self.made if trial.change == change), None)
        if known is None:
            known = self._run(change)
            self.made.append(known)
        return known

    def give(self, trace: Trace, change: Change = UNCHANGED) -> Trial:
        """Take a trace that there is already for the run of a change."""
        seconds = float(trace.info.get("wall_seconds", 0.0))
        self.made.append(Trial(change, trace, seconds))
        return self.made[-1]

    def cost(self, change: Change) -> float:
        """About how many seconds a changed run would take; 0 if nobody knows yet."""
        known = [(trial.change, trial.seconds) for trial in self.made if trial.trace is not None]
        if not known:
            return 0.0

        def strange(entry: tuple[Change, float]) -> tuple[bool, bool, float]:
            other = entry[0]
            different = (other.inputs, other.coupling) != (change.inputs, change.coupling)
            return other.solvers != change.solvers, different, abs(math.log(other.step / change.step))

        near, seconds = min(known, key=strange)
        more = FINER if change.solvers and not near.solvers else 1.0
        return float(seconds * more * (near.step / change.step) ** self._growth())

    def _growth(self) -> float:
        """With which power of the factor the number of steps grows: 1, but for paces with a tolerance."""
        seen = {trial.change.step: trial.steps for trial in self.made if trial.trace is not None}
        if len(seen) < 2 or min(seen.values()) < 1:
            return 1.0
        low, high = min(seen), max(seen)
        return max(math.log(seen[low] / seen[high]) / math.log(high / low), 0.0)

    def _run(self, change: Change) -> Trial:
        expected = self.cost(change)
        if self.interrupted:
            return Trial(change, None, 0.0, "not run: interrupted", skipped=True)
        if self.made and expected > self.left:
            return Trial(
                change, None, 0.0,
                f"not run: it would take about {expected:.2g} s, and {self.left:.2g} s are left",
                skipped=True,
            )  # fmt: skip
        begun = time.monotonic()
        span = self.experiment.span
        first = not self.made

        def report(t: float) -> None:
            part = (t - span.start) / (span.stop - span.start)
            self._progress(f"{change}: {100 * part:.0f} % (run {len(self.made) + 1}, {self.spent:.0f} s)")
            if not first and self.left <= 0.0:
                raise _OutOfTime

        def failed(error: BaseException, why: str) -> Trial:
            partial = getattr(error, "trace", None)
            return Trial(change, None, time.monotonic() - begun, why, partial, error)

        try:
            self._progress(f"{change} (run {len(self.made) + 1}, {self.spent:.0f} s)")
            with nullcontext() if first else quietly():
                trace = change.of(self.experiment).run(report)
            if change.closely:
                _without_moments(trace, self.experiment.scenario)
        except _OutOfTime as error:
            return failed(error, f"ended: the budget of {self.seconds:.3g} s was used up")
        except KeyboardInterrupt as error:
            if first:
                raise
            self.interrupted = True
            return failed(error, "interrupted")
        except RunError as error:
            return failed(error, f"the run failed: {error}")
        except UpbeatError as error:
            if first:
                raise
            return replace(failed(error, f"not possible: {error}"), skipped=True)
        return Trial(change, trace, time.monotonic() - begun)


# ----------------------------------------------------------------------------------------------------
# Events and jumps of two runs, matched.


@dataclass(frozen=True)
class Pair:
    """An event, or the jump of a signal, in two runs: `one` and `other` are its times there; None if it is
    missing in that run."""

    name: str
    one: float | None
    other: float | None

    @property
    def shift(self) -> float:
        """How much later it is in the second run; not a number if it is in one only."""
        return math.nan if self.one is None or self.other is None else self.other - self.one


_LARGEST_TABLE = 4_000_000
"""So many pairs of events of one name are weighed against each other at most."""


def match(name: str, one: Numbers, other: Numbers, reach: float) -> list[Pair]:
    """The times of an event in two runs, paired. As many in both: by order. Otherwise so that shifts are
    small in sum and none is more than `reach`: the rest has no partner."""
    if len(one) == len(other):
        return [Pair(name, a, b) for a, b in zip(one.tolist(), other.tolist(), strict=True)]
    n, m = len(one), len(other)
    if n * m > _LARGEST_TABLE:  # far too many to weigh: one after the other
        return _greedy(name, one.tolist(), other.tolist(), reach)
    # The cheapest way through both lists, where to leave one out costs half of `reach`.
    cost = np.zeros((n + 1, m + 1))
    cost[:, 0], cost[0, :] = np.arange(n + 1) * reach / 2, np.arange(m + 1) * reach / 2
    for i in range(1, n + 1):
        apart = np.abs(one[i - 1] - other)
        both = cost[i - 1, :-1] + np.where(apart <= reach, apart, np.inf)
        best = np.concatenate([cost[i, :1], np.minimum(both, cost[i - 1, 1:] + reach / 2)])
        gaps = np.arange(m + 1) * reach / 2
        cost[i] = np.minimum.accumulate(best - gaps) + gaps
    pairs: list[Pair] = []
    i, j = n, m
    while i or j:
        away = abs(one[i - 1] - other[j - 1]) if i and j else math.inf
        ways = (
            cost[i - 1, j - 1] + away if away <= reach else math.inf,
            cost[i - 1, j] + reach / 2 if i else math.inf,
            cost[i, j - 1] + reach / 2 if j else math.inf,
        )
        way = ways.index(min(ways))
        i, j = i - (way != 2), j - (way != 1)
        pairs.append(Pair(name, float(one[i]) if way != 2 else None, float(other[j]) if way != 1 else None))
    return pairs[::-1]


def _greedy(name: str, one: list[float], other: list[float], reach: float) -> list[Pair]:
    pairs: list[Pair] = []
    i = j = 0
    while i < len(one) or j < len(other):
        a = one[i] if i < len(one) else math.inf
        b = other[j] if j < len(other) else math.inf
        if abs(a - b) <= reach:
            pairs.append(Pair(name, a, b))
            i, j = i + 1, j + 1
        elif a < b:
            pairs.append(Pair(name, a, None))
            i += 1
        else:
            pairs.append(Pair(name, None, b))
            j += 1
    return pairs


def matched_events(one: Trace, other: Trace) -> tuple[Pair, ...]:
    """All events of two runs, paired by name, in the order of their times."""
    first, last = one.span
    longest = max((_longest_step(trace) for trace in (one, other)), default=0.0)
    pairs: list[Pair] = []
    for name in dict.fromkeys((*one.events.names, *other.events.names)):
        a, b = (
            trace.events.times(name) if name in trace.events.names else np.zeros(0) for trace in (one, other)
        )
        between = np.concatenate([np.diff(times) for times in (a, b)])
        usual = float(np.median(between)) if len(between) else last - first
        pairs += match(name, a, b, max(4 * longest, usual / 4))
    return tuple(sorted(pairs, key=lambda pair: min(t for t in (pair.one, pair.other) if t is not None)))


def _longest_step(trace: Trace) -> float:
    sizes = trace.steps.sizes()[1] if trace.steps.count else ()
    if len(sizes):
        return float(np.max(sizes))
    return float(np.diff(trace.time).max()) if len(trace) > 1 else 0.0


JUMP = 12.0
"""A change from row to row that is so many times as large as those around it is a jump."""
NOTABLE = 1e-3
"""And it is at least this part of the range of the signal."""


def jumps(trace: Trace, name: str) -> Numbers:
    """When a signal jumps: where it has two rows of one time, where what is not real changes, and where a
    real changes from one row to the next by far more than around it."""
    when, values = trace.time, trace[name]
    if len(when) < 2:
        return np.zeros(0)
    if trace.column(name).kind is not Kind.REAL:
        changed: Numbers = when[1:][values[1:] != values[:-1]]
        return changed
    moved = np.abs(np.diff(values))
    width = np.diff(when)
    if not np.ptp(values) > 0 or not np.isfinite(values).all():
        return np.zeros(0)
    scale = scale_of(values)  # which is more than the range where a constant moves by rounding
    twice = (width <= 0) & (moved > 0)
    positive = np.where(width > 0, width, np.inf)
    rate = np.where(width > 0, moved / positive, 0.0)
    # The largest rate of the neighbours on both sides, two on each, the place itself left out.
    padded = np.pad(rate, 2)
    around = np.max([padded[k : k + len(rate)] for k in (0, 1, 3, 4)], axis=0)
    sudden = (rate > JUMP * around) & (moved > NOTABLE * scale) & (np.arange(len(rate)) > 0)
    found: Numbers = when[1:][twice | sudden]
    return found


def doubled(trace: Trace, name: str) -> Numbers:
    """When a signal has one value before and another after, in two rows of one time."""
    when, values = trace.time, trace[name]
    found: Numbers = when[1:][(np.diff(when) <= 0) & (values[1:] != values[:-1])]
    return found


def landings(trace: Trace) -> Numbers:
    """When steps ended for an event that is not in the log, as those that equations keep to themselves: there
    is one row of that time, with the values before the event or after it."""
    return np.setdiff1d(trace.steps.ends(LANDED), trace.events.times())


# ----------------------------------------------------------------------------------------------------
# Values of several traces at the rows of one of them.

SAME = 1e-9
"""Times that differ by less than this part of a step, or of the span, are the same."""
NEAR = 0.01
"""Steps that end for an event inside a unit, no more than this part of a step apart, do so for the same."""


class Aligned:
    """The signals of other traces at the rows of `base`, as far as they can be compared there."""

    def __init__(self, base: Trace, others: Sequence[Trace]) -> None:
        self.base = base
        self.others = tuple(others)
        self.time: Numbers = base.time
        self.names = tuple(name for name in base.names if all(name in other for other in others))
        self.events = tuple(matched_events(base, other) for other in self.others)
        self.kinds = {name: base.column(name).kind for name in self.names}
        self._longest = [_longest_step(trace) for trace in (base, *others)]
        self._landings = [landings(trace) for trace in (base, *others)]
        self._jumps: dict[tuple[str, int], list[Pair]] = {}

    @cached_property
    def _same(self) -> float:
        """Times that differ by no more than this are one."""
        first, last = self.base.span
        steps = np.diff(self.time)
        usual = float(np.median(steps[steps > 0])) if (steps > 0).any() else last - first
        return max(SAME * usual, 8 * math.ulp(max(abs(first), abs(last))))

    @cached_property
    def twice(self) -> Mask:
        """Rows that are not the only ones of their time."""
        same = np.diff(self.time) <= 0
        found: Mask = np.concatenate([[False], same]) | np.concatenate([same, [False]])
        return found

    def jumps(self, name: str, which: int) -> list[Pair]:
        """Jumps of a signal that no event explains, paired with those of another trace."""
        if (name, which) not in self._jumps:
            self._jumps[name, which] = self._jumped(name, which)
        return self._jumps[name, which]

    def _jumped(self, name: str, which: int) -> list[Pair]:
        other = self.others[which]
        found = []
        for trace, own in ((self.base, 0), (other, 1)):
            times = jumps(trace, name)
            logged = np.array([t for p in self.events[which] if (t := (p.one, p.other)[own]) is not None])
            step = self._longest[which + 1 if own else 0]
            if len(logged) and len(times):
                logged = np.sort(logged)
                place = np.searchsorted(logged, times)
                before = logged[np.maximum(place - 1, 0)]
                after = logged[np.minimum(place, len(logged) - 1)]
                near = np.minimum(np.abs(times - before), np.abs(after - times))
                times = times[near > step * (1 + 1e-9)]
            found.append(times)
        reach = 2 * max(self._longest[0], self._longest[which + 1])
        pairs = match(name, found[0], found[1], reach)
        return (
            [p for p in pairs if p.one is None or p.other is None or abs(p.shift) <= reach]
            if (self.kinds[name] is Kind.REAL)
            else pairs
        )

    def valid(self, name: str, which: int) -> Mask:
        """The rows at which a signal can be compared with that of another trace: not those between an event
        in one and the same event in the other."""
        when = self.time
        good = np.ones(len(when), dtype=bool)
        other = self.others[which]
        good &= (when >= other.time[0] - self._same) & (when <= other.time[-1] + self._same)
        own, real = self.jumps(name, which), self.kinds[name] is Kind.REAL
        twice = [set(doubled(trace, name).tolist()) for trace in (self.base, other)] if own else []
        for pairs, longest in ((self.events[which], 0.0), (own, self._longest[which + 1] if real else 0.0)):
            for pair in pairs:
                if pair.one is None or pair.other is None:
                    continue
                known = longest == 0.0 or (pair.one in twice[0] and pair.other in twice[1])
                wide = 0.0 if known else longest  # without two rows it was somewhere in the step before
                low, high = sorted((pair.one, pair.other))
                if high - low <= self._same and not wide:
                    continue  # at the same time in both: rows of that time come in pairs, or are after it
                first = np.searchsorted(when, low - self._same - wide, side="left")
                last = np.searchsorted(when, high + self._same, side="right")
                good[first:last] = False
        return good & ~self._between_landings(which)

    def _between_landings(self, which: int) -> Mask:
        """The rows between the end of a step that one run made for an event inside a unit, and the end of
        that in the other: a hair apart, and the event may have happened in one of them only."""
        hit = np.zeros(len(self.time), dtype=bool)
        here, there = self._landings[0], self._landings[which + 1]
        for pair in match("", here, there, NEAR * self._longest[0]) if len(here) and len(there) else ():
            if pair.one is not None and pair.other is not None:
                low, high = sorted((pair.one, pair.other))
                if high - low <= NEAR * self._longest[0]:
                    hit |= (self.time >= low - self._same) & (self.time <= high + self._same)
        return hit

    def values(self, name: str, which: int) -> tuple[Numbers, Numbers]:
        """The other trace's values at the rows of the base, and by how much interpolation may be off."""
        trace = self.others[which]
        there = np.asarray(trace[name])
        real = self.kinds[name] is Kind.REAL
        if not real:
            there = numbered(self.base, trace, name)[1]
        when, own = trace.time, self.time
        place = np.clip(np.searchsorted(when, own + self._same, side="right") - 1, 0, len(when) - 1)
        # Of several rows of one time, each belongs to that of its place, if there are as many in both;
        # otherwise the first to the first and the others to the last.
        begin = np.searchsorted(own, own, side="left")
        rank, count = np.arange(len(own)) - begin, np.searchsorted(own, own, side="right") - begin
        first_there = np.searchsorted(when, when[place] - self._same, side="left")
        as_many = place - first_there + 1 == count
        place = np.where(self.twice & (as_many | (rank == 0)), first_there + rank, place)
        found = there[place].astype(np.float64)
        blur = np.zeros(len(own))
        off = np.abs(when[place] - own) > self._same
        if real and off.any():
            found[off], blur[off] = self._between(name, trace, there, own[off], which)
        return found, blur

    def _between(
        self, name: str, trace: Trace, there: Numbers, at: Numbers, which: int
    ) -> tuple[Numbers, Numbers]:
        """A polynomial through six rows around each time, on one side of all jumps, and how far off it may
        be: what one through five of them would say otherwise."""
        when = trace.time
        breaks = [p.other for p in (*self.events[which], *self.jumps(name, which)) if p.other is not None]
        breaks += self._landings[which + 1].tolist()
        cut = np.concatenate([[True], np.diff(when) <= 0])
        for t in breaks:  # a new piece begins with the last row of that time, or with the first one after it
            after = int(np.searchsorted(when, t - self._same, side="left"))
            last = int(np.searchsorted(when, t + self._same, side="right")) - 1
            cut[min(max(after, last), len(when) - 1)] = True
        piece = np.cumsum(cut)
        place = np.clip(np.searchsorted(when, at, side="right") - 1, 0, len(when) - 1)
        begin = np.searchsorted(piece, piece[place], side="left")
        end = np.searchsorted(piece, piece[place], side="right")  # one behind the last
        count = np.minimum(end - begin, 6)
        first = np.clip(place - (count // 2 - 1), begin, np.maximum(end - count, begin))
        found, lower = np.zeros(len(at)), np.zeros(len(at))
        for degree in range(6):
            mine = count == degree + 1
            if not mine.any():
                continue
            rows = first[mine][:, None] + np.arange(degree + 1)
            found[mine] = _lagrange(when[rows], there[rows], at[mine])
            fewer = (
                rows
                if degree == 0
                else np.where(
                    (np.abs(when[rows[:, 0]] - at[mine]) < np.abs(when[rows[:, -1]] - at[mine]))[:, None],
                    rows[:, :-1],
                    rows[:, 1:],
                )
            )
            lower[mine] = _lagrange(when[fewer], there[fewer], at[mine])
        return found, np.abs(found - lower)


def _lagrange(times: Numbers, values: Numbers, at: Numbers) -> Numbers:
    """Through each row of times and values, at one time each."""
    count = times.shape[1]
    total = np.zeros(len(at))
    for i in range(count):
        weight = np.ones(len(at))
        for j in range(count):
            if j != i:
                weight *= (at - times[:, j]) / (times[:, i] - times[:, j])
        total += weight * values[:, i]
    return total


def numbered(one: Trace, other: Trace, name: str) -> tuple[Numbers, Numbers]:
    """Integers and booleans as numbers; texts numbered."""
    a, b = np.asarray(one[name]), np.asarray(other[name])
    if a.dtype.kind in "biuf" and b.dtype.kind in "biuf":
        return a.astype(np.float64), b.astype(np.float64)
    texts = {text: float(n) for n, text in enumerate(sorted({*map(str, a), *map(str, b)}))}
    return np.array([texts[str(t)] for t in a]), np.array([texts[str(t)] for t in b])


def scale_of(values: Numbers) -> float:
    """The size that errors of a signal are relative to: its range; of a constant, its size; 1 for zero."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return 1.0
    spread = float(np.ptp(finite))
    largest = float(np.abs(finite).max())
    return spread if spread > 1e-12 * largest else largest or 1.0


@dataclass(frozen=True)
class Difference:
    """How far a signal of one run is from that of another.

    `time` and `error` are the rows of the first run and second minus first there, not a number where nothing
    can be compared. `scale` is the range of the signal; `maximum`, `rms` and `final` are relative to it.
    `jumps` are its own jumps in both runs, apart from logged events.
    """

    name: str
    scale: float
    maximum: float
    rms: float
    final: float
    at: float
    """When the difference is largest."""
    blur: float
    """How much of that may be interpolation between rows, relative to the scale."""
    time: Numbers = field(repr=False, compare=False)
    error: Numbers = field(repr=False, compare=False)
    jumps: tuple[Pair, ...] = ()


@dataclass(frozen=True)
class Comparison(Mapping[str, Difference]):
    """The differences of all signals that both traces have, and the events of both, paired."""

    signals: Mapping[str, Difference]
    events: tuple[Pair, ...] = ()

    def __getitem__(self, name: str) -> Difference:
        if name not in self.signals:
            raise UnknownSignal(f"{name!r} was not compared. {suggest(name, self.signals, 'signals')}")
        return self.signals[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.signals)

    def __len__(self) -> int:
        return len(self.signals)

    @property
    def worst(self) -> float:
        """The largest relative difference of all signals; 0 if there are none."""
        return max((one.maximum for one in self.signals.values()), default=0.0)

    @property
    def missing(self) -> tuple[Pair, ...]:
        """Events that the second run has and the first has not."""
        return tuple(pair for pair in self.events if pair.one is None)

    @property
    def extra(self) -> tuple[Pair, ...]:
        """Events that the first run has and the second has not."""
        return tuple(pair for pair in self.events if pair.other is None)

    @property
    def shift(self) -> float:
        """By how much events that both have are apart at most."""
        return max(
            (abs(p.shift) for p in self.events if p.one is not None and p.other is not None), default=0.0
        )


def compare(one: Trace, other: Trace, names: Collection[str] | None = None) -> Comparison:
    """How far `one` is from `other`, which counts as the better one: its ranges are the scales."""
    aligned = Aligned(one, (other,))
    found: dict[str, Difference] = {}
    for name in aligned.names:
        if names is None or name in names:
            found[name] = difference(aligned, name, 0)
    return Comparison(found, aligned.events[0])


def difference(aligned: Aligned, name: str, which: int) -> Difference:
    """How far a signal is from that of another trace, at the rows of the base."""
    base, other = aligned.base, aligned.others[which]
    real = aligned.kinds[name] is Kind.REAL
    own = np.asarray(base[name], dtype=np.float64) if real else numbered(base, other, name)[0]
    theirs, blur = aligned.values(name, which)
    reference = np.asarray(other[name], dtype=np.float64) if real else numbered(base, other, name)[1]
    scale = scale_of(reference)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.where(aligned.valid(name, which), theirs - own, np.nan)
    seen = ~np.isnan(error)
    pairs = tuple(aligned.jumps(name, which))
    if not seen.any():
        return Difference(name, scale, 0.0, 0.0, 0.0, aligned.base.span[0], 0.0, aligned.time, error, pairs)
    size = np.where(seen, np.abs(error), -1.0)
    place = int(size.argmax())
    with np.errstate(over="ignore"):
        rms = float(np.sqrt(np.mean(error[seen] ** 2)))
    last = error[seen][-1]
    return Difference(
        name, scale, float(size[place]) / scale, rms / scale, abs(float(last)) / scale,
        float(aligned.time[place]), float(blur[seen].max()) / scale, aligned.time, error, pairs,
    )  # fmt: skip
