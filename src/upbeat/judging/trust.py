"""Is the result right? `trust` runs an experiment with other steps, solvers and couplings, and judges it.

For each signal: an estimate of its error (of the coupling and of the units' own solvers, apart), and a
verdict relative to a tolerance. "good" needs several runs that agree on how the error falls with the step;
where they do not, the verdict is "undecided", with the reason. Beside it: events, energy, stability, inputs,
solvers.

How errors are estimated. The experiment is run at its own steps H, and with finer solvers at H, H/2, H/4 and
H/8. What finer solvers change is the solvers' part. Differences from level to level show the order of
convergence (order p: each is 2^p times smaller than the one before) and the coupling's part, which is the
difference to the finest level over 1 - 8^-p. Steps of 0.37·H, which never fall in with the others, and an
input approximation of another order at H/4 are checks: they have to come out where the estimate says. Where
all differences are a hundredth of the tolerance or less there is no order to see (rounding, or the noise of
solvers), and none is needed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, Unpack, cast

import numpy as np

from upbeat.core.display import Displayed
from upbeat.core.errors import InvalidInput, RunError, UpbeatError, check_type, suggest
from upbeat.core.names import cell_names
from upbeat.core.ports import Kind
from upbeat.core.replay import no_longer_than
from upbeat.engine.experiment import Experiment, experiment
from upbeat.engine.settings import Settings, default_pace
from upbeat.judging.comparing import (
    FINER,
    Aligned,
    Change,
    Mask,
    Numbers,
    Pair,
    Progress,
    Trial,
    Trials,
    black_boxes,
    compare,
    finer,
    jumps,
    match,
    may_miss,
    named_moments,
    numbered,
    scale_of,
    units_inside,
    unseen,
)
from upbeat.master.dataflow import knows_end
from upbeat.master.held import too_quick, without_rate
from upbeat.master.inputs.approximation import (
    Approximation,
    Linear,
    Polynomial,
    convergence,
    uncorrected,
)
from upbeat.master.paces.pace import equal_steps, nominal_step
from upbeat.master.program import Block
from upbeat.properties.robustness import Robustness
from upbeat.scenario.bonds import Bond, power_bonds
from upbeat.scenario.merging.inline import path_of
from upbeat.scenario.properties import closed_properties
from upbeat.scenario.scenario import Scenario
from upbeat.trace.trace import Trace
from upbeat.units.solving.solvers import solver_of

Word = Literal["good", "not good", "undecided"]
Confidence = Literal["high", "fair", "low"]

TOLERANCE = 0.01
"""Of the range of a signal, unless told."""
SECONDS = 60.0
"""How long all runs together may take, unless told."""

# ----------------------------------------------------------------------------------------------------
# What is said.


@dataclass(frozen=True)
class SignalTrust:
    """What can be said about one signal. Errors are absolute, in the unit of the signal."""

    name: str
    verdict: Word
    reason: str
    """Why, in a sentence."""
    unit: str | None = None
    scale: float = 1.0
    """Its range, which the tolerance is relative to."""
    error: float = math.nan
    """The estimate of its largest error; not a number if there is none."""
    at: float = math.nan
    """When that is."""
    coupling: float = math.nan
    solver: float = math.nan
    """The part that the units' own solvers have in it; not a number if their errors cannot be changed."""
    order: float | None = None
    """The observed order of convergence; None where there is none to see."""
    orders: tuple[float, ...] = ()
    """One for each three steps, from large to small."""
    confidence: Confidence = "low"
    horizon: float | None = None
    """Where the system is chaotic: errors at single times mean nothing beyond this time."""
    time: Numbers = field(default_factory=lambda: np.zeros(0), repr=False, compare=False)
    band: Numbers = field(default_factory=lambda: np.zeros(0), repr=False, compare=False)
    """The estimated error over time, at the rows of the run: draw the signal ± this."""

    @property
    def relative(self) -> float:
        """The error over the range of the signal."""
        return self.error / self.scale

    def as_json(self) -> dict[str, Any]:
        """Plain data; the band is left out."""
        return {
            "name": self.name, "verdict": self.verdict, "reason": self.reason, "unit": self.unit,
            "error": _number(self.error), "relative": _number(self.relative), "at": _number(self.at),
            "scale": self.scale, "coupling": _number(self.coupling), "solver": _number(self.solver),
            "order": self.order, "orders": list(self.orders), "confidence": self.confidence,
            "horizon": self.horizon,
        }  # fmt: skip


@dataclass(frozen=True)
class EventTrust:
    """What can be said about the events of one name, against the finest run."""

    name: str
    verdict: Word
    reason: str
    count: int
    predicted: int = 0
    """How many the pace saw coming."""
    late: float = math.nan
    """How long after its condition came true one was noticed at most, as the run itself tells."""
    shift: float = 0.0
    """By how much one is earlier or later than in the finest run, at most."""
    missed: tuple[float, ...] = ()
    """When the finest run has some that this one has not."""
    spurious: tuple[float, ...] = ()
    """When this one has some that the finest run has not."""
    chattering: bool = False
    grazing: tuple[float, ...] = ()
    """When there are some that come and go with the step: they could go either way."""

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "name": self.name, "verdict": self.verdict, "reason": self.reason, "count": self.count,
            "predicted": self.predicted, "late": _number(self.late), "shift": self.shift,
            "missed": list(self.missed), "spurious": list(self.spurious), "chattering": self.chattering,
            "grazing": list(self.grazing),
        }  # fmt: skip


@dataclass(frozen=True)
class EnergyTrust:
    """What the coupling creates (positive) or destroys at a power bond, in J if its units are known."""

    one: str
    other: str
    recognised: bool
    created: float
    """Over the whole run."""
    transferred: float
    """The energy that went through in both directions together, to compare with."""
    reason: str
    time: Numbers = field(repr=False, compare=False)
    residual: Numbers = field(repr=False, compare=False)
    """What was created up to each row."""

    def as_json(self) -> dict[str, Any]:
        """Plain data; the signal is left out."""
        return {
            "one": self.one, "other": self.other, "recognised": self.recognised, "created": self.created,
            "transferred": self.transferred, "reason": self.reason,
        }  # fmt: skip


@dataclass(frozen=True)
class StabilityTrust:
    """What is proven about the steps: the verdict of `upbeat stability`, and its margin. Where something
    cannot be linearised, the reason names it."""

    verdict: Literal["stable", "unstable", "undecided"]
    reason: str
    margin: float = math.nan
    local: bool = False
    assumed: tuple[str, ...] = ()
    """What the verdict takes for granted."""

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "verdict": self.verdict, "reason": self.reason, "margin": _number(self.margin),
            "local": self.local, "assumed": list(self.assumed),
        }  # fmt: skip


@dataclass(frozen=True)
class InputTrust:
    """An input that moved otherwise, within a step, than its approximation assumed."""

    name: str
    approximation: str
    off: float
    """By how much at most, relative to its range."""
    at: float
    reason: str
    aliased: bool = False
    """Whether it moves between communication points as nobody sees who looks only there."""

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "name": self.name, "approximation": self.approximation, "off": _number(self.off),
            "at": _number(self.at), "aliased": self.aliased, "reason": self.reason,
        }  # fmt: skip


@dataclass(frozen=True)
class SolverTrust:
    """How hard a unit worked: steps of its own solver, rejected ones, and how much time it took."""

    unit: str
    steps: int
    rejected: int
    evaluations: int
    share: float
    """Of the time that all units take, measured in a short run; of all evaluations, if that fails."""
    tunable: bool
    """Whether its errors could be changed, and so be seen."""
    reason: str

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "unit": self.unit, "steps": self.steps, "rejected": self.rejected, "share": self.share,
            "evaluations": self.evaluations, "tunable": self.tunable, "reason": self.reason,
        }  # fmt: skip


@dataclass(frozen=True)
class PropertyTrust:
    """Whether what is said about a property can be trusted: the finest run says the same of it."""

    name: str
    verdict: Word
    reason: str
    found: Robustness
    finest: Robustness | None = None

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            **self.found.as_json(), "trust": self.verdict, "reason": self.reason,
            "finest": None if self.finest is None else self.finest.as_json(),
        }  # fmt: skip


@dataclass(frozen=True)
class RunTrust:
    """A run that was made for the judgement."""

    change: str
    steps: int
    seconds: float
    failure: str = ""

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "change": self.change, "steps": self.steps, "seconds": self.seconds, "failure": self.failure
        }  # fmt: skip


@dataclass(frozen=True)
class Trust(Displayed):
    """How far a result can be trusted. `verdict` is the worst of all signals and events.

    Every part has a `reason`, a sentence; `as_json` has it all as plain data.
    """

    verdict: Word
    reason: str
    tolerance: float
    signals: Mapping[str, SignalTrust]
    events: tuple[EventTrust, ...] = ()
    energy: tuple[EnergyTrust, ...] = ()
    stability: StabilityTrust | None = None
    inputs: tuple[InputTrust, ...] = ()
    solvers: tuple[SolverTrust, ...] = ()
    properties: tuple[PropertyTrust, ...] = ()
    runs: tuple[RunTrust, ...] = ()
    repeats: bool | None = None
    """Whether the same run again gives the same; None if nobody has tried."""
    horizon: float | None = None
    """Of a chaotic system: errors at single times mean nothing beyond this time."""
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    interrupted: bool = False
    """Whether Ctrl-C ended the runs before all were made."""
    trace: Trace | None = field(default=None, repr=False, compare=False)
    """The run that is judged."""

    def __getitem__(self, name: str) -> SignalTrust:
        if name not in self.signals:
            raise InvalidInput(f"'{name}' was not judged. {suggest(name, self.signals, 'signals')}")
        return self.signals[name]

    def as_json(self) -> dict[str, Any]:
        """Everything but arrays, as plain data."""
        return {
            "verdict": self.verdict,
            "reason": self.reason,
            "tolerance": self.tolerance,
            "signals": [one.as_json() for one in self.signals.values()],
            "events": [one.as_json() for one in self.events],
            "energy": [one.as_json() for one in self.energy],
            "stability": None if self.stability is None else self.stability.as_json(),
            "inputs": [one.as_json() for one in self.inputs],
            "solvers": [one.as_json() for one in self.solvers],
            "properties": [one.as_json() for one in self.properties],
            "runs": [one.as_json() for one in self.runs],
            "repeats": self.repeats,
            "horizon": self.horizon,
            "notes": list(self.notes),
            "seconds": self.seconds,
            "interrupted": self.interrupted,
        }


def _number(value: float) -> float | None:
    """For JSON, which has no infinities."""
    return float(value) if math.isfinite(value) else None


# ----------------------------------------------------------------------------------------------------


def trust(
    given: Scenario | Experiment | Trace,
    *,
    tolerance: float = TOLERANCE,
    seconds: float = SECONDS,
    bonds: Iterable[tuple[str, str]] = (),
    progress: Progress | None = None,
    step: float | None = None,
    **settings: Unpack[Settings],
) -> Trust:
    """Run what is needed to say how good a result is, for each signal.

        up.trust(scenario, step=0.01, until=10.0)
        up.trust(up.load("scenario.toml"), tolerance=1e-3)
        trace.trust()

    `tolerance` is the error that is asked for, relative to the range of each signal. All runs together may
    take about `seconds` (the first one is made whatever it takes); what they do not come to is said. `bonds`
    are power bonds besides those that units of measure show, as pairs of outputs. `progress` is called with
    texts that say how far it is. Ctrl-C in the first run raises `Interrupted`; later it ends the runs, and
    what is known by then is said.
    """
    if isinstance(tolerance, bool) or not isinstance(tolerance, (int, float)) or not 0.0 < tolerance < 1e300:
        raise InvalidInput(f"tolerance is a positive part of the range, such as 0.01, not {tolerance!r}")
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds >= 0.0:
        raise InvalidInput(f"seconds are a number from 0 on, such as 60, not {seconds!r}")
    if progress is not None and not callable(progress):
        raise InvalidInput(f"progress must be a function, not {progress!r}")
    trace = None
    if isinstance(given, Trace):
        trace, made = given, given.origin
        if not isinstance(made, Experiment):
            raise InvalidInput(
                "this trace does not know the experiment it came from, as those of files do not: write "
                "up.trust(experiment), or `upbeat trust FILE`"
            )
    elif isinstance(given, Experiment):
        made = given
    else:
        check_type(given, Scenario, "what is trusted")
        made = experiment(given, step=step, **settings)
    if not isinstance(given, Scenario) and (step is not None or settings):
        raise InvalidInput("settings go with a scenario; an experiment has its own")
    return _Judge(made, trace, float(tolerance), float(seconds), tuple(bonds), progress).judged()


FEW = 15
"""About so many times as long as one run take all others together."""
LEVELS = 4
"""Steps of H, H/2, H/4 and H/8."""
ODD = 0.3 * (math.sqrt(5.0) - 1.0)
"""Of H, about 0.37: steps that fall in with none of the others, since no two multiples are equal."""
NOTHING = 1e-2
"""Differences of this part of the tolerance have no order to see, and need none."""
CUT = 0.75
"""Steps that are shorter than this part of the usual ones are cut by something else."""
AGREE, CLOSE = 0.5, 0.2
"""Orders that differ by less agree; those that differ by less than the second, closely."""
LEAST = 0.4
"""Less is no convergence."""
ENOUGH = 0.5
"""Of the rows of a signal have to be compared."""
SETTLED = 0.05
"""Runs that differ by less than this part of an error show it, with or without an order."""
SURE: dict[Confidence, float] = {"high": 1.2, "fair": 2.0, "low": 4.0}
"""By what factor an estimate may be off."""


CLOSER = "a run with steps that end where times are named and events expected"
COMPARED = 8
"""All levels and checks are compared with the run in about so many times the time that one takes."""
LOOK = 2.0
"""Seconds that the verdict on stability may take, however little of the budget is left."""
PROFILE = 0.1
"""Seconds in which it is measured which unit takes the time."""
STIFF = 100
"""A solver that takes so many steps in a communication step has stiff equations, or far too long a step."""


class _Judge:
    """One judgement: runs, then everything that can be read from them."""

    def __init__(
        self,
        made: Experiment,
        trace: Trace | None,
        tolerance: float,
        seconds: float,
        bonds: tuple[tuple[str, str], ...],
        progress: Progress | None,
    ) -> None:
        self.asked, self.given, self.tolerance = made, trace, tolerance
        self.progress = progress or (lambda text: None)
        parts = tuple(made.structures.values()) or (made,)
        self.plan = parts[0].plan
        """Of several structures, that of the first: pace, coupling and inputs are those of all."""
        self.several = bool(made.structures)
        self.scenario = made.scenario if self.several else self.plan.scenario
        if bonds and self.several:
            raise InvalidInput(
                "bonds of a scenario with several structures are judged for one of them: choose it by "
                f'--structure, in Python experiment.structures["{next(iter(made.structures))}"]'
            )
        self.bonds = () if self.several else power_bonds(self.scenario, bonds)
        self.names = tuple(column.name for column in made.selection.columns)
        self.connected = {
            self.scenario.column(c.unit, c.port): c
            for c in (() if self.several else self.scenario.connections)
            if c.unit not in self.scenario.added_units
        }
        own = {name: one for part in parts for name, one in part.plan.program.columns.items()}
        wanted = [name for name in self.connected if name in own]
        wanted += [name for bond in self.bonds for name in bond.named(self.scenario)]
        if made.scenario.properties and not self.several:
            wanted += [n for one in closed_properties(made.scenario) for n in sorted(one.signals)]
        self.cells = {
            name: cell_names(name, one.cells if one.cells > 1 else None) for name, one in own.items()
        }
        whole = {cell: name for name, cells in self.cells.items() for cell in (name, *cells)}
        patterns = [whole[name] for name in (*self.names, *wanted) if name in whole]  # all but "structure"
        self.made = made.with_(record=tuple(dict.fromkeys(map(_literal, patterns))))
        self.trials = Trials(self.made, seconds, progress)
        self.notes: list[str] = []
        self.first = 1.0
        """What the steps of all runs are parts of, relative to the usual ones: less where times known before,
        as those of samples, make steps shorter anyway."""
        self.home = 0
        """Which of the levels has the steps of the run itself."""
        self.unlooked = ""
        """Why nothing is known about solvers; empty if something is."""
        self.unchecked = ""
        """Why there is no run with odd steps."""
        self.unwatched = ""
        """Why there is no run with a closer look, where one is needed."""
        self.discrete = all(default_pace(part.plan.scenario) is not None for part in parts)
        """Whether all units go from event to event, so that there are no steps to be wrong."""
        self.tunable = {path for path, model in units_inside(self.scenario) if finer(model) is not None}

    @cached_property
    def unrefined(self) -> float:
        """What finer solvers still have of the error that they show, relative to that: a third for Euler."""
        found = 0.0
        for _, model in units_inside(self.scenario):
            solver = solver_of(model)
            if finer(model) is not None and hasattr(solver, "steps"):  # others leave next to nothing
                left = float(FINER) ** -solver.tableau.order
                found = max(found, left / (1.0 - left))
        return found if self.tunable else 0.0

    @cached_property
    def boxes(self) -> list[str]:
        """Units that solve something inside which nobody can look into."""
        return black_boxes(self.scenario)

    def judged(self) -> Trust:
        base = self.trials.run()
        if base.trace is None:
            return self._failed(base)
        self.base = base.trace
        quick = FEW * self.trials.cost(Change(again=1)) <= self.trials.left
        self.repeats = self._repeats() if quick else None
        levels = self._levels()
        checks = self._checks() if len(levels) > 1 else []
        repeats = self.repeats = self.repeats if quick else self._repeats()
        aligned = Aligned(self.base, [trial.trace for trial in (*levels, *checks) if trial.trace is not None])
        self.aligned, self.count = aligned, len(levels)
        self.places = {trial.change: len(levels) + k for k, trial in enumerate(checks)}
        self.steps = [trial.step for trial in levels]
        blocked = self._blocked(repeats)
        signals = {name: self._signal(name, blocked) for name in self.names}
        horizons = [one.horizon for one in signals.values() if one.horizon is not None]
        if horizons:  # what is chaotic in one signal is so in all that it moves
            signals = {name: self._chaotic(one, min(horizons)) for name, one in signals.items()}
        events = self._events(levels, blocked)
        properties = self._properties(levels, blocked)
        verdict, reason = self._overall(signals, (*events, *properties))
        if self.several:
            self.notes.append(
                "energy and inputs are judged for one structure (--structure), in which a run ends where an "
                "event leads on"
            )
        if horizons:
            self.notes.append(
                f"chaotic: from t = {min(horizons):.4g} on errors at single times make no sense; compare "
                "statistics (means, spectra, extremes) there"
            )
        return Trust(
            verdict,
            reason,
            self.tolerance,
            signals,
            events,
            self._energy(),
            self._stability(),
            self._inputs(levels),
            self._solvers(),
            properties,
            self._runs(),
            repeats,
            min(horizons, default=None),
            tuple(dict.fromkeys(self.notes)),
            self.trials.spent,
            self.trials.interrupted,
            self.given or self.base,
        )

    # ------------------------------------------------------------------------------------- runs

    def _failed(self, base: Trial) -> Trust:
        reason = f"the run itself does not come to its end: {base.failure}"
        return Trust("undecided", reason, self.tolerance, {}, runs=self._runs(), seconds=self.trials.spent)

    def _runs(self) -> tuple[RunTrust, ...]:
        return tuple(RunTrust(str(t.change), t.steps, t.seconds, t.failure) for t in self.trials.made)

    def _repeats(self) -> bool | None:
        """Whether the same run gives the same; a trace that was given is compared as well."""
        again = self.trials.run(Change(again=1))
        if again.trace is None:
            self.notes.append(f"whether the run can be repeated is not known: {again.failure}")
            return None
        begun = time.monotonic()
        own = self.spread = _spread(self.base, again.trace)
        self.trials.kept = COMPARED * (time.monotonic() - begun)
        if self.given is not None:
            spread = _spread(self.given, self.base)
            if any(value > 0.0 for value in spread.values()) and not any(self.spread.values()):
                self.notes.append(
                    "the trace is another than the run of its experiment: it was changed by hand, or goes "
                    "on from a checkpoint. What was changed by hand cannot be repeated"
                )
                self.spread = {name: max(value, spread.get(name, 0.0)) for name, value in self.spread.items()}
        if (real := self.asked.real_time) is not None:
            self.notes.append(f"the run in real time ({real.factor:g} ×) is judged without the clock")
        worst = max(self.spread, key=self.spread.__getitem__, default="")
        if worst and self.spread[worst] > 0.0:
            if self.spread is own:
                self.notes.append(
                    f"the same run again gives something else: {worst} differs by "
                    f"{_percent(self.spread[worst])} of its range"
                )
            return False
        return True

    def _levels(self) -> list[Trial]:
        """Runs with finer solvers and shorter and shorter steps, as far as they succeed and there is time;
        if that is short, plain ones with longer steps as well."""
        solvers = bool(self.tunable)
        found: list[Trial] = []
        usual, span = nominal_step(self.made.master.pace), self.made.span
        whole = span.stop - span.start
        if whole < usual < math.inf:  # a longer step is cut short anyway
            self.first = whole / usual
        for k in range(LEVELS):
            change = Change(step=self.first * 0.5**k, solvers=solvers)
            trial = self.trials.run(change)
            if trial.trace is None and solvers and k == 0:
                self.notes.append(f"{change}: {trial.failure.rstrip('.')}")
                self.unlooked = (
                    "there was no time to look at errors of solvers"
                    if trial.skipped
                    else ("finer solvers fail, so that errors of solvers are not seen")
                )
                solvers, self.tunable = False, set()
                trial = self.trials.run()
            if trial.trace is None:
                self.notes.append(f"{change}: {trial.failure.rstrip('.')}")
                if not trial.skipped and k < LEVELS - 1:
                    continue
                break
            if k == 0 and 0.0 < trial.step < CUT * usual * self.first:
                self.first = trial.step / usual
            if found and abs(trial.step - found[-1].step) <= 0.1 * found[-1].step:
                if self.discrete:
                    found.append(trial)
                else:
                    pace = type(self.plan.master.pace).__name__
                    self.notes.append(
                        f"{pace} makes the same steps whatever it is told, so that nothing is seen of their "
                        "errors: give a step (--step) to see others"
                    )
                break
            found.append(trial)
            if len(found) == LEVELS - 1 and not self.discrete:
                self.trials.run(self._odd)  # nothing is good without it, and the next level costs three of it
        if len(found) == 2 and self.trials.made[-1].skipped and not self.discrete:
            longer = self.trials.run(Change(step=2.0 * self.first, solvers=solvers))
            if longer.trace is not None:
                self.home = 1
                return [longer, *found]
        return found

    def _checks(self) -> list[Trial]:
        """Runs that have to come out where the levels say: odd steps, and inputs of another order."""
        changes = [self._odd, *([self._other] if self.connected else [])]
        if not self.discrete and (may_miss(self.made) or named_moments(self.made)):
            changes.append(self._close)
        found = []
        for change in changes:
            trial = self.trials.run(change)
            if trial.trace is None:
                self.notes.append(f"{change}: {trial.failure}")
                if change == self._odd:
                    self.unchecked = trial.failure.rstrip(".")
                if change == self._close:
                    self.unwatched = trial.failure.rstrip(".")
            else:
                found.append(trial)
        return found

    @property
    def _odd(self) -> Change:
        """Steps that fall in with none of the others."""
        return Change(step=ODD * self.first, solvers=bool(self.tunable))

    @property
    def _other(self) -> Change:
        """Inputs of another order than those of the master, a higher one as far as that is sensible."""
        own = self.plan.master.approximated
        other = Linear() if convergence(own) == 1 else Polynomial(3 if own == Polynomial(2) else 2)
        return Change(step=0.25 * self.first, inputs=other, solvers=bool(self.tunable))

    @property
    def _close(self) -> Change:
        """Steps that also end at times that are named and where events are expected: what lasts for less than
        a step shows there and nowhere else."""
        return Change(step=0.25 * self.first, solvers=bool(self.tunable), closely=True)

    def _blocked(self, repeats: bool | None) -> str:
        """Why nothing can be said of any signal, whatever came out; empty if something can."""
        plan = self.plan
        if self.discrete:
            return ""
        if len(self.steps) < 3:
            many = "one step size" if len(self.steps) == 1 else f"{len(self.steps)} step sizes"
            why = next((t.failure.rstrip(".") for t in self.trials.made if t.failure), "see the notes")
            return f"only {many} could be run, and an order needs three ({why})"
        unrated = without_rate(plan.master.pace, plan.master.coupled, plan.scenario)
        if unrated:
            return f"{unrated[0]}. With other steps it is another system"
        return ""

    # ------------------------------------------------------------------------------------- signals

    def _signal(self, name: str, blocked: str) -> SignalTrust:
        aligned, column = self.aligned, self.base.column(name)
        if name not in aligned.names:
            return SignalTrust(name, "undecided", "some of the other runs do not have it", column.unit)
        if aligned.kinds[name] is not Kind.REAL:
            return self._discrete(name, blocked)
        own = np.asarray(self.base[name], dtype=np.float64)
        good: Mask = np.ones(len(own), dtype=bool)
        values, blurs = [], []
        for which in range(len(aligned.others)):
            found, blur = aligned.values(name, which)
            values.append(found)
            blurs.append(blur)
            if which < self.count:
                good &= aligned.valid(name, which)
        levels = values[: self.count]
        checks = {change: values[place] for change, place in self.places.items()}
        finite = np.all([np.isfinite(v) for v in (own, *levels)], axis=0)
        good &= finite
        if not good.any() or len(levels) < 2:
            return SignalTrust(name, "undecided", blocked or "no two runs can be compared", column.unit)
        finest = levels[-1]
        unsharp = max((float(b[good].max()) for b in blurs[: self.count]), default=0.0)
        noise = 64 * float(np.finfo(float).eps) * float(np.abs(finest[good]).max()) + unsharp
        with np.errstate(over="ignore", invalid="ignore"):
            home = levels[self.home]
            solver = np.abs(own - home)
            between = [np.abs(a - b) for a, b in pairwise(levels)]
            coupling = np.abs(home - finest)
        noise += float(solver[good].max()) / 50.0
        sizes = [_rms(each[good]) for each in between]
        orders = _orders(sizes, self.steps, noise)
        consistent, why = _consistent(orders, sizes, noise)
        settled = not consistent and not orders and self._settled(solver, between, good)
        if settled:
            consistent, why = True, ""
        order = orders[-1] if consistent and orders else None
        constant = _constant(levels[-2][good], finest[good], self.steps, order) if consistent else None
        scale = scale_of(finest[good]) if constant is None else constant or 1.0
        part = 0.0 if settled else _left_over(order, self.steps[self.home :])
        with np.errstate(over="ignore", invalid="ignore"):  # both parts with their signs
            error = np.abs((own - home) * (1.0 + self.unrefined) + (home - finest) / (1.0 - part))
        missed = self._missed(name, own, checks, good)
        if missed is not None:
            error = np.where(np.isfinite(missed), np.maximum(error, missed), error)
        place = int(np.where(good, error, -1.0).argmax())
        size = float(error[place])
        confidence: Confidence = "low"
        if consistent:
            confidence = "high" if len(orders) > 1 and abs(orders[-1] - orders[-2]) < CLOSE else "fair"
        band = _envelope(np.where(good, error, np.nan))
        horizon = _horizon(aligned.time, finest, between, good, scale) if self.repeats else None
        known = SignalTrust(
            name, "undecided", "", column.unit, scale, size, float(aligned.time[place]),
            float(coupling[good].max()) / (1.0 - part),
            float(solver[good].max()) * (1.0 + self.unrefined) if self.tunable else math.nan,
            order, tuple(orders), confidence, horizon, aligned.time, band,
        )  # fmt: skip
        if (spread := getattr(self, "spread", {}).get(name, 0.0)) > NOTHING * self.tolerance:
            blocked = f"it cannot be repeated: the same run again differs by {_percent(spread)}"
        if blocked:
            return replace(known, reason=blocked, confidence="low")
        verdict, reason = self._verdict(known, why, sizes, checks, finest, good, constant)
        if missed is not None and verdict != "not good":
            verdict, reason = "not good", f"{CLOSER} differs by {_percent(known.relative)} of its range"
        if verdict == "good" and (reservation := self._reservation(known, own, checks, good)):
            verdict, reason = "undecided", f"{reason}, but {reservation}"
        return replace(
            known,
            verdict=verdict,
            reason=reason,
            confidence="low" if verdict == "undecided" else (known.confidence),
        )

    def _settled(self, solver: Numbers, between: Sequence[Numbers], good: Mask) -> bool:
        """Whether the error is that of the solvers, and is known: all runs with finer solvers agree to a
        small part of it, whatever their steps, and so whatever the steps of their solvers."""
        if len(between) < LEVELS - 1 or not self.tunable or self.home:
            return False
        apart = max(float(each[good].max()) for each in between)
        return apart <= SETTLED * float(solver[good].max())

    def _verdict(
        self,
        of: SignalTrust,
        why: str,
        sizes: Sequence[float],
        checks: Mapping[Change, Numbers],
        finest: Numbers,
        good: Mask,
        constant: float | None,
    ) -> tuple[Word, str]:
        tolerance, relative = self.tolerance, of.relative
        whole = "range" if constant is None else "size"
        text = f"error about {_percent(relative)} of its {whole}"
        if constant == 0.0 and of.error > 0.0:
            return "undecided", (
                f"it is zero but for errors of up to {of.error:.2g}, which fall with the step: there is no "
                "range to compare them with"
            )
        if self.discrete and of.error == 0.0:
            return "good", "all runs agree: units go from event to event, and there are no steps to be wrong"
        odd = self._off(of.name, self._odd, checks, finest, good)
        largest = of.error if odd is None else max(of.error, odd)
        if largest <= NOTHING * tolerance * of.scale:
            return self._good(
                of.name, f"all runs agree to {_percent(largest / of.scale)} of its {whole}", good
            )
        if of.horizon is not None and relative > tolerance:
            return "not good", (
                f"chaotic: beyond t = {of.horizon:.4g} an error at single times makes no sense; {text}"
            )
        if not math.isfinite(relative) or relative > 1e6:
            return "not good", f"{text}: it grows out of bounds, and with smaller steps it does not"
        if why:
            settled = len(sizes) > 1 and sizes[-1] < 0.5 * max(sizes)
            if relative > 2 * tolerance and settled and relative > 4 * sizes[-1] / of.scale:
                return "not good", f"{text} ({why})"
            odd_one = self._contradiction(of, checks, finest, good)
            return "undecided", odd_one or f"{why}; the runs differ by {_percent(relative)} of its {whole}"
        if contradiction := self._contradiction(of, checks, finest, good):
            return "undecided", contradiction
        factor = SURE[of.confidence]
        if relative * factor <= tolerance:
            return self._good(of.name, text, good)
        if relative / factor > tolerance:
            return "not good", text
        return "undecided", f"{text}, too close to the tolerance of {_percent(tolerance)}"

    def _good(self, name: str, text: str, compared: Mask) -> tuple[Word, str]:
        """That it is good, unless much of it was not compared, for events that are early or late."""
        first, last = self.base.span
        pairs = [*self.aligned.events[self.count - 1], *self.aligned.jumps(name, self.count - 1)]
        apart = sum(abs(p.shift) for p in pairs if p.one is not None and p.other is not None)
        if apart > self.tolerance * (last - first):
            return "undecided", (
                f"{text}, but {_percent(min(apart / (last - first), 1.0))} of the time lie between events "
                "and those of the finest run, where nothing can be compared"
            )
        compared = compared[np.isfinite(np.asarray(self.base[name], dtype=np.float64))]
        if compared.mean() < ENOUGH:
            return "undecided", (
                f"{text}, but at {_percent(1.0 - float(compared.mean()))} of its rows nothing can be "
                "compared: it jumps all the time, nobody knows when within a step"
            )
        inside = f" (apart from errors inside {', '.join(self.boxes)})" if self.boxes else ""
        return "good", text + inside

    def _chaotic(self, of: SignalTrust, horizon: float) -> SignalTrust:
        """A signal of a system that is chaotic, if it follows it."""
        if of.horizon is not None or of.verdict == "good" or not of.relative > max(SATURATED, self.tolerance):
            return of
        reason = f"chaotic: beyond t = {horizon:.4g} an error at single times makes no sense; {of.reason}"
        return replace(of, verdict="not good", horizon=horizon, reason=reason)

    def _contradiction(
        self, of: SignalTrust, checks: Mapping[Change, Numbers], finest: Numbers, good: Mask
    ) -> str:
        """What odd steps say against the estimate; nothing, if they are where it lets one expect them."""
        found = self._off(of.name, self._odd, checks, finest, good)
        if found is None:
            return ""
        ratio = self.steps[-1] / self.steps[self.home]
        order = LEAST if of.order is None else of.order
        expected = max(of.coupling, 0.0) * (ODD**order + ratio**order)
        if found > 4.0 * expected + 0.1 * self.tolerance * of.scale:
            return (
                f"steps of {ODD:.2g} times the size, which fall in with none of the others, differ by "
                f"{_percent(found / of.scale)} of its range, and {_percent(expected / of.scale)} were to be "
                "expected: something in it keeps time with the steps"
            )
        return ""

    def _missed(
        self, name: str, own: Numbers, checks: Mapping[Change, Numbers], good: Mask
    ) -> Numbers | None:
        """How far the run with a closer look is off where this is far more than any step makes; None if it
        is not."""
        if self._close not in checks:
            return None
        seen = good & self.aligned.valid(name, self.places[self._close])
        away = np.where(seen, np.abs(checks[self._close] - own), 0.0)
        others = [values for change, values in checks.items() if change != self._close]
        others += [self.aligned.values(name, which)[0] for which in range(self.count)]
        spread = max(float(np.abs(values - own)[good].max(initial=0.0)) for values in others)
        scale = scale_of(np.asarray(self.aligned.others[self.places[self._close]][name], dtype=np.float64))
        largest = float(np.nanmax(away))
        return away if largest > max(2.0 * spread, 2.0 * self.tolerance * scale) else None

    def _off(
        self, name: str, change: Change, checks: Mapping[Change, Numbers], of: Numbers, good: Mask
    ) -> float | None:
        """How far the run with this change is from another one where they can be compared; None if there is
        no such run."""
        if change not in checks:
            return None
        values = checks[change]
        seen = good & np.isfinite(values) & self.aligned.valid(name, self.places[change])
        return float(np.abs(values - of)[seen].max(initial=0.0))

    def _reservation(
        self, of: SignalTrust, own: Numbers, checks: Mapping[Change, Numbers], good: Mask
    ) -> str:
        """Why a signal that would be good is not called so: runs that are missing, or say something else."""
        if self.unlooked:
            return self.unlooked
        if self.unchecked and not self.discrete:
            return (
                f"there is no run with steps of {ODD:.2g} times the size, which would show what keeps time "
                f"with the steps ({self.unchecked})"
            )
        if self.unwatched:
            return (
                f"there is no run with a closer look, which would show what is too short for "
                f"its steps ({self.unwatched})"
            )
        near = self._off(of.name, self._close, checks, own, good)
        if near is not None and near > self.tolerance * of.scale:
            return f"{CLOSER} differs by {_percent(near / of.scale)} of it"
        other = self._off(of.name, self._other, checks, own, good)
        if other is not None and other > self.tolerance * of.scale:
            return f"the run with {self._other} differs by {_percent(other / of.scale)} of it"
        return ""

    def _discrete(self, name: str, blocked: str) -> SignalTrust:
        """What is not real: the part of the time in which it is something else than in the finest run."""
        aligned, column = self.aligned, self.base.column(name)
        parts, time = [], aligned.time
        for which in range(self.count):
            values, _ = aligned.values(name, which)
            own = numbered(self.base, aligned.others[which], name)[0]
            width = np.diff(time, append=time[-1])
            wrong = float(width[own != values].sum())
            changes = [p for p in self._changes(name, which) if p.one is not None and p.other is not None]
            late = sum(abs(p.shift) for p in changes)  # also between rows, where nobody looks
            parts.append(min(max(wrong, late) / max(time[-1] - time[0], 1e-300), 1.0))
        if not parts:
            return SignalTrust(name, "undecided", blocked or "no two runs can be compared", column.unit)
        pairs = self._changes(name, self.count - 1)
        lone = [p for p in pairs if p.one is None or p.other is None]
        error = parts[-1]
        verdict: Word = "undecided"
        reason = f"wrong for {_percent(error)} of the time"
        if blocked:
            reason = blocked
        elif lone and error > self.tolerance:
            verdict, reason = "not good", f"{reason}: {len(lone)} of its changes are in one run only"
        elif lone:
            reason = f"{len(lone)} of its changes are in one run only"
        elif error > 2 * self.tolerance:
            verdict = "not good"
        elif error <= self.tolerance / 2 and all(part <= self.tolerance for part in parts):
            verdict = "good"
        return SignalTrust(
            name, verdict, reason, column.unit, 1.0, error, coupling=error, time=time,
            band=np.zeros(len(time)), confidence="fair" if verdict != "undecided" else "low",
        )  # fmt: skip

    def _changes(self, name: str, which: int) -> list[Pair]:
        """When a signal that is not real changes in the run and in another, paired."""
        traces = self.base, self.aligned.others[which]
        one, other = (jumps(trace, name) for trace in traces)
        gaps = np.concatenate([np.diff(one), np.diff(other)])
        first, last = self.base.span
        return match(name, one, other, float(np.median(gaps)) / 2 if len(gaps) else last - first)

    def _overall(
        self, signals: Mapping[str, SignalTrust], others: Sequence[EventTrust | PropertyTrust]
    ) -> tuple[Word, str]:
        everything: list[SignalTrust | EventTrust | PropertyTrust] = [*signals.values(), *others]
        bad = [one for one in everything if one.verdict == "not good"]
        open_ = [one for one in everything if one.verdict == "undecided"]
        if not everything:
            return "undecided", "nothing was recorded that could be judged"
        if bad:
            worst = max(bad, key=lambda one: one.relative if isinstance(one, SignalTrust) else 0.0)
            more = f", and {len(bad) - 1} more" if len(bad) > 1 else ""
            return "not good", f"{worst.name}: {worst.reason}{more}"
        if open_:
            more = f", and {len(open_) - 1} more" if len(open_) > 1 else ""
            return "undecided", f"{open_[0].name}: {open_[0].reason}{more}"
        worst_relative = max((one.relative for one in signals.values()), default=0.0)
        limit, about = _percent(self.tolerance), _percent(worst_relative)
        about += f", apart from errors inside {', '.join(self.boxes)}" if self.boxes else ""
        if len(signals) == 1:
            return "good", f"{next(iter(signals))} is within {limit} of its range, within about {about}"
        return "good", (
            f"all {len(signals)} signals are within {limit} of their range, the worst within about {about}"
        )

    # ------------------------------------------------------------------------------------- events

    def _events(self, levels: Sequence[Trial], blocked: str) -> tuple[EventTrust, ...]:
        if not levels:
            return ()
        log = self.base.events
        finest = self.aligned.events[self.count - 1]
        pairs = [pair for each in self.aligned.events for pair in each]
        names = dict.fromkeys((*log.names, *(pair.name for pair in pairs)))
        return tuple(self._event(name, finest, blocked) for name in names)

    def _event(self, name: str, finest: Sequence[Pair], blocked: str) -> EventTrust:
        log = self.base.events
        own = log[name] if name in log.names else log[0:0]
        details = [event.details for event in own]
        pairs = [pair for pair in finest if pair.name == name]
        if (near := self.places.get(self._close)) is not None:  # what no run on a grid has
            lone = [p for p in self.aligned.events[near] if p.name == name and p.one is None]
            known = [p.other for p in pairs if p.one is None and p.other is not None]
            step = max(self.steps[self.home : self.home + 1], default=0.0)
            pairs += [p for p in lone if all(abs((p.other or 0.0) - t) > 2 * step for t in known)]
        missed = tuple(p.other for p in pairs if p.one is None and p.other is not None)
        spurious = tuple(p.one for p in pairs if p.other is None and p.one is not None)
        shift = max((abs(p.shift) for p in pairs if p.one is not None and p.other is not None), default=0.0)
        landed = [float(d["landed"]) for d in details if "landed" in d]
        counts = [
            sum(1 for p in self.aligned.events[which] if p.name == name and p.other is not None)
            for which in range(self.count)
        ]
        grazing: tuple[float, ...] = ()
        if len(set(counts)) > 1 and counts[-1] == counts[-2]:
            pass  # the two finest agree: what is different in the others is missed or spurious there
        elif len(set(counts)) > 1:
            lone = [p for each in self.aligned.events[: self.count] for p in each if p.name == name]
            grazing = tuple(
                sorted({t for p in lone if None in (p.one, p.other) for t in (p.one or p.other,) if t})
            )
        times = own.times() if len(own) else np.zeros(0)
        chattering = _chatters(times, self.steps[self.home] if self.steps else 0.0)
        first, last = self.base.span
        gaps = np.diff(np.unique(log.times()))
        usual = float(np.median(gaps)) if len(gaps) else last - first
        falls = self._falls(name, usual)
        facts = [f"{len(own)} of them"]
        verdict: Word = "good"
        if missed:
            facts.append(f"{len(missed)} missed, the first at t = {missed[0]:.6g}")
        if spurious:
            facts.append(f"{len(spurious)} that finer steps do not have, the first at t = {spurious[0]:.6g}")
        if shift > 0:
            facts.append(f"up to {shift:.3g} s away from those of the finest run")
        if missed or spurious or shift > self.tolerance * usual:
            verdict = "not good"
        if verdict == "good" and not falls:
            verdict = "undecided"
            facts.append("the runs do not come closer to each other with smaller steps")
        if grazing:
            verdict = "undecided"
            facts.append(
                f"some come and go with the step, the first at t = {grazing[0]:.6g}: it may happen or not"
            )
        if chattering:
            verdict = "undecided" if verdict == "good" else verdict
            facts.append("it chatters: events follow each other within a few steps")
        if blocked:
            verdict, facts = "undecided", [blocked]
        return EventTrust(
            name, verdict, ", ".join(facts), len(own), sum("predicted" in d for d in details),
            max(landed, default=math.nan), shift, missed, spurious, chattering, grazing,
        )  # fmt: skip

    def _falls(self, name: str, usual: float) -> bool:
        """Whether events come closer to those of the finest run with smaller steps, or are at the same time
        as far as one can tell."""
        finest = [p.other for p in self.aligned.events[self.count - 1] if p.name == name]
        shifts = []
        for which in range(self.count - 1):
            times = [p.other for p in self.aligned.events[which] if p.name == name]
            if len(times) != len(finest) or None in times or None in finest:
                return self.discrete
            away = [abs(a - b) for a, b in zip(times, finest, strict=True) if a is not None and b is not None]
            shifts.append(max(away, default=0.0))
        if not shifts or max(shifts) <= NOTHING * self.tolerance * usual:
            return True
        return shifts[-1] <= CONVERGING * max(shifts)

    # ------------------------------------------------------------------------------------- properties

    def _properties(self, levels: Sequence[Trial], blocked: str) -> tuple[PropertyTrust, ...]:
        """What the run says of each property, beside what the finest one says."""
        scenario = self.asked.scenario
        if not scenario.properties:
            return ()
        own = scenario.judged(self.base)
        fine = levels[-1].trace if len(levels) > 1 else None
        finest = {} if fine is None else scenario.judged(fine)
        found = []
        for name, one in own.items():
            other = finest.get(name)
            verdict: Word = "undecided"
            if blocked or other is None:
                reason = f"{one.reason}; {blocked or 'there is no finer run to compare with'}"
            elif "undecided" in (one.verdict, other.verdict):
                reason = one.reason if one.verdict == "undecided" else f"of the finest run: {other.reason}"
            elif one.verdict != other.verdict:
                verdict, reason = "not good", f"{one.reason}, but in the finest run: {other.reason}"
            else:
                verdict, reason = "good", f"{one.reason}; in the finest run by {abs(other.low):.4g}"
            found.append(PropertyTrust(name, verdict, reason, one, other))
        return tuple(found)

    # ------------------------------------------------------------------------------------- energy

    def _energy(self) -> tuple[EnergyTrust, ...]:
        return tuple(self._bond(bond) for bond in self.bonds)

    def _bond(self, bond: Bond) -> EnergyTrust:
        """What goes into the bond on one side and does not come out on the other, step by step.

        Over a step both outputs are taken as straight lines between communication points, and what the other
        unit was given as the course of its approximation.
        """
        one, other = bond.named(self.scenario)
        time = self.base.time
        y, z = (np.asarray(self.base[name], dtype=np.float64) for name in (one, other))
        width = np.diff(time)
        z_begin, z_end = self._given(bond.other, bond.other_to, z)
        y_begin, y_end = self._given(bond.one, bond.one_to, y)

        def energy(a: Numbers, b: Numbers, c: Numbers, d: Numbers) -> Numbers:
            return width * (2 * a * c + 2 * b * d + a * d + b * c) / 6.0  # of two straight lines

        given = energy(y[:-1], y[1:], z_begin, z_end)
        taken = energy(y_begin, y_end, z[:-1], z[1:])
        through = abs(bond.watts) * np.abs(given + taken).sum() / 2.0
        residual = np.concatenate([[0.0], bond.watts * np.cumsum(taken - given)])
        created = float(residual[-1])
        part = np.abs(residual).max() / through if through > 0 else 0.0
        said = "creates" if created > 0 else "destroys"
        return EnergyTrust(
            one, other, bond.recognised, created, float(through),
            f"the coupling {said} {abs(created):.3g} J of {through:.3g} J that go through ({_percent(part)})",
            time, residual,
        )  # fmt: skip

    def _given(
        self, source: tuple[str, str], target: tuple[str, str], values: Numbers
    ) -> tuple[Numbers, Numbers]:
        """What an input was given for an output at the start and at the end of each step."""
        inputs = self._approximation(target)
        known = knows_end(self._step, source[0], target)
        own = uncorrected(inputs)
        begin, end = values[:-1], values[1:]
        if getattr(inputs, "constant", False) and known:
            return end, end
        if known:
            return begin, end
        held = bool(getattr(own, "constant", False))
        last = begin if held else _extrapolated(self.base.time, values, convergence(own) - 1)
        return (begin, last) if own is inputs else self._made_good(values, begin, last, inputs)

    def _made_good(
        self, values: Numbers, begin: Numbers, end: Numbers, inputs: Approximation
    ) -> tuple[Numbers, Numbers]:
        """What an input was given that gets in a step what was missing in the one before."""
        width = np.diff(self.base.time)
        actual, given = width * (values[1:] + values[:-1]) / 2.0, width * (begin + end) / 2.0
        gain, missing, more = float(getattr(inputs, "gain", 1.0)), 0.0, np.zeros(len(width))
        for k, (length, should, was) in enumerate(zip(width, actual, given, strict=True)):
            more[k] = gain * missing / length if length > 0 else 0.0
            missing += should - was - more[k] * length
        return begin + more, end + more

    def _approximation(self, target: tuple[str, str]) -> Approximation:
        master = self.plan.master
        return master.ports.get(f"{target[0]}.{target[1]}", master.approximated)

    @property
    def _step(self) -> Block:
        return self.plan.program.steps["step"]

    # ------------------------------------------------------------------------------------- stability

    def _stability(self) -> StabilityTrust:
        from upbeat.stability.verdicts.judge import stability_of  # needs SciPy, which is an extra

        self.progress("stability")
        if self.several:
            return self._switching()
        pace = self.plan.master.pace
        usual = None if equal_steps(pace) is not None else nominal_step(pace) or None
        try:
            with np.errstate(all="ignore"):
                found = stability_of(self.asked, scan=False, patience=self._patience, step=usual)
        except (UpbeatError, RunError, OverflowError) as error:
            return StabilityTrust("undecided", f"undecided, because {str(error).rstrip('.')}")
        model = found.model
        assumed = tuple(model.assumed)
        if found.verdict == "undecided":
            return StabilityTrust("undecided", f"undecided, because {found.why.rstrip('.')}", assumed=assumed)
        radius = found.spectral_radius
        factor = f"a factor {radius:.6g}" if abs(radius - 1.0) >= 1e-5 else f"a factor 1 {radius - 1.0:+.2g}"
        if usual is not None:
            steps = f"steps vary; those of {usual:.4g} s are {found.verdict}"
            reason = f"undecided, because {steps} ({factor} per step)"
            return StabilityTrust("undecided", reason, assumed=assumed)
        where = " near its start" if found.local else ""
        reason = f"{found.verdict}{where}, motions change by {factor} per step"
        return StabilityTrust(found.verdict, reason, found.margin, found.local, assumed)

    @property
    def _patience(self) -> float:
        """Seconds for the verdict on stability."""
        return max(min(self.trials.left, self.trials.seconds / 4.0), LOOK)

    def _switching(self) -> StabilityTrust:
        """The verdict on all structures, and on going from one to another."""
        from upbeat.stability.verdicts.structures import stability_of_structures

        try:
            with np.errstate(all="ignore"), no_longer_than(self._patience):
                found = stability_of_structures(self.asked)
        except (UpbeatError, RunError, OverflowError) as error:
            return StabilityTrust("undecided", f"undecided, because {str(error).rstrip('.')}")
        told = ", ".join(f"{name} {one.labelled}" for name, one in found.parts.items())
        reason = f"{found.switching}, {found.why.rstrip('.')} ({told})"
        return StabilityTrust(cast("Any", found.switching), reason)

    # ------------------------------------------------------------------------------------- inputs

    def _inputs(self, levels: Sequence[Trial]) -> tuple[InputTrust, ...]:
        fine = levels[-1].trace if len(levels) > 1 else None
        plan = self.plan
        quick = too_quick(plan.master.pace, plan.master.coupled, plan.scenario)
        found = []
        connected = [(cell, c) for name, c in self.connected.items() for cell in self.cells.get(name, ())]
        for name, connection in connected:
            if name not in self.base or self.base.column(name).kind is not Kind.REAL or len(self.base) < 4:
                continue
            target = (connection.unit, connection.port)
            values = np.asarray(self.base[name], dtype=np.float64)
            scale = scale_of(values)
            inputs = self._approximation(target)
            end = (
                values[:-1]
                if getattr(inputs, "constant", False)
                else _extrapolated(self.base.time, values, min(convergence(inputs) - 1, 2))
            )
            with np.errstate(over="ignore", invalid="ignore"):
                off = np.abs(values[1:] - end) / scale
            off[~np.isfinite(off) | ~self._smooth(0 if getattr(inputs, "constant", False) else 2)] = 0.0
            place = int(off.argmax())
            text = next((remark for remark in quick if remark.startswith(f"{name} sees")), "")
            hidden = _hidden(self.base, fine, name, scale) if fine is not None and name in fine else 0.0
            aliased = bool(text) or hidden > 0.2
            kind = type(inputs).__name__
            assumed = "stays" if getattr(inputs, "constant", False) else f"follows {kind}"
            reason = text or (
                f"moves {_percent(off[place])} of its range in the step from {self.base.time[place]:.4g} s, "
                f"where it was assumed that it {assumed}"
            )
            if aliased and not text:
                reason = (
                    f"moves by {_percent(hidden)} of its range between communication points, where nobody "
                    "looks: take shorter steps, or its mean over the step"
                )
            if off[place] > 0.1 or aliased:
                found.append(
                    InputTrust(name, kind, float(off[place]), float(self.base.time[place]), reason, aliased)
                )
        return tuple(sorted(found, key=lambda one: (not one.aliased, -one.off)))

    def _smooth(self, before: int) -> Mask:
        """The steps without an event in them or in so many before, and not far longer than these: what
        inputs do there is what one would expect from values alone."""
        time = self.base.time
        width = np.diff(time)
        events = np.unique(self.base.events.times())
        last = np.searchsorted(events, time[1:] + 1e-12, side="right")
        begin = np.maximum(np.arange(len(width)) - before, 0)
        first = np.searchsorted(events, time[begin] + 1e-12, side="right")
        found = (width > 0) & (last == first) & (np.arange(len(width)) >= before)
        for k in range(1, before + 1):
            found[k:] &= width[k:] <= 3.0 * width[:-k]
        result: Mask = found
        return result

    # ------------------------------------------------------------------------------------- solvers

    def _seconds(self, units: Sequence[str]) -> dict[str, float]:
        """How long each unit takes in a step, measured; nothing if that fails."""
        from upbeat.engine.profile import profile

        self.progress("which unit takes the time")
        try:
            blocks = profile(self.asked.with_(real_time=None, checkpoint=None, out=None), PROFILE).blocks
        except UpbeatError:
            return {}
        found = dict.fromkeys(units, 0.0)
        for operation, seconds in ((name, s) for block in blocks.values() for name, s in block.items()):
            kind, _, rest = operation.partition(" ")
            for unit in units if kind in ("state", "out", "in") else ():
                if rest == unit or rest.startswith((f"{unit}.", f"{unit} (")):
                    found[unit] += seconds
                    break
        return found

    def _solvers(self) -> tuple[SolverTrust, ...]:
        counts: Mapping[str, Mapping[str, int]] = self.base.info.get("solvers", {})
        units = [path_of(self.scenario, u) for u in self.scenario.units if u not in self.scenario.added_units]
        names = list(dict.fromkeys([*units, *counts]))
        taken = self._seconds(names)
        what = "the time"
        if not taken:
            taken = {unit: float(each.get("evaluations", 0)) for unit, each in counts.items()}
            what = "all evaluations"
        total = sum(taken.values())
        steps = max(self.base.steps.count, 1)
        found = []
        for unit in names:
            each = counts.get(unit, {})
            made, rejected = each.get("steps", 0), each.get("rejected", 0)
            share = taken.get(unit, 0.0) / total if total else 0.0
            facts = [f"{_percent(share)} of {what}"]
            if made:
                each_step = made / steps
                facts.append(
                    f"{each_step:.3g} solver step{'s' if each_step > 1 else ''} per communication step"
                )
            if rejected > 0.2 * made and rejected > 10:
                facts.append(f"{_percent(rejected / (made + rejected))} rejected")
            if made > STIFF * steps:
                facts.append("looks stiff: cvode may need far fewer")
            if made and unit not in self.tunable:
                facts.append("its own errors are not seen")
            found.append(
                SolverTrust(
                    unit,
                    made,
                    rejected,
                    each.get("evaluations", 0),
                    share,
                    unit in self.tunable,
                    ", ".join(facts),
                )
            )
        if said := unseen(self.scenario):
            self.notes.append(said)
        return tuple(sorted(found, key=lambda one: -one.share))


# ----------------------------------------------------------------------------------------------------


def _literal(name: str) -> str:
    """A pattern that matches this name only."""
    return "".join(f"[{sign}]" if sign in "*?[" else sign for sign in name)


def _spread(one: Trace, other: Trace) -> dict[str, float]:
    """By how much two runs of the same differ, relative to the range; events that differ count as 1."""
    found = compare(one, other)
    spread = {name: each.maximum for name, each in found.items()}
    if found.missing or found.extra or found.shift > 0.0:
        return {
            name: max(value, 1.0 if found.missing or found.extra else value) for name, value in spread.items()
        }
    return spread


def _rms(values: Numbers) -> float:
    with np.errstate(over="ignore"):
        return float(np.sqrt(np.mean(values * values))) if len(values) else 0.0


def _orders(sizes: Sequence[float], steps: Sequence[float], noise: float) -> list[float]:
    """The order that each pair of neighbouring differences shows, as far as they are above the noise."""
    found = []
    for k in range(len(sizes) - 1):
        if sizes[k + 1] <= noise or sizes[k] <= noise or not math.isfinite(sizes[k]):
            break
        ratio = math.log(steps[k] / steps[k + 1])
        found.append(math.log(sizes[k] / sizes[k + 1]) / ratio if ratio > 0 else 0.0)
    return found


def _consistent(orders: Sequence[float], sizes: Sequence[float], noise: float) -> tuple[bool, str]:
    """Whether orders agree, and if not, why nothing follows from them."""
    if not orders:
        return False, (
            "no order of convergence is to be seen: what steps change is hidden by errors of solvers"
            if max(sizes, default=0.0) <= 100 * noise
            else "differences do not fall step by step"
        )
    said = ", ".join(f"{order:.2g}" for order in orders)
    if min(orders[-2:]) < LEAST:
        return False, f"the runs do not converge with smaller steps (orders {said})"
    if len(orders) > 1 and abs(orders[-1] - orders[-2]) > AGREE:
        return False, f"the observed orders of convergence do not agree ({said})"
    return True, ""


VANISHED = 0.3
"""Of the range that a signal has with the shortest steps, if no more than this is left without errors, it is
a constant."""


def _constant(before: Numbers, finest: Numbers, steps: Sequence[float], order: float | None) -> float | None:
    """The size of a signal whose range is nothing but its error, as that of a sum which should not change:
    the constant that finer and finer runs lead to, or 0. None for a signal that has a range."""
    spread, moved = float(np.ptp(finest)), finest - before
    exact = finest if order is None else finest + moved / ((steps[-2] / steps[-1]) ** order - 1.0)
    left = spread - 4.0 * float(np.abs(moved).max()) if order is None else float(np.ptp(exact))
    if not left <= VANISHED * spread:
        return None
    size = float(np.abs(exact).max())
    return size if size > spread else 0.0


def _left_over(order: float | None, steps: Sequence[float]) -> float:
    """The part of the error that the finest level still has."""
    usual = 1.0 if order is None else min(max(order, LEAST), 8.0)
    if len(steps) < 2:
        return 0.5
    return min(float((steps[-1] / steps[0]) ** usual), 0.7)


def _envelope(error: Numbers, reach: int = 3) -> Numbers:
    """The largest of neighbouring errors: where an error changes its sign it is not gone."""
    filled = np.where(np.isnan(error), 0.0, error)
    padded = np.pad(filled, reach, mode="edge")
    found: Numbers = np.max([padded[k : k + len(filled)] for k in range(2 * reach + 1)], axis=0)
    return found


SATURATED = 0.1
"""Differences of this part of the range are as large as they get."""
GROWN = 30.0
"""By so much they grow on the way there, from a tenth of the time on."""
GRADUAL = 5
"""In at least so many rows; a relay that chatters, or a jump that comes at another time, does it in one."""
TYPICAL = 0.05
"""Beyond the horizon, differences are so large at most times; and in half of the way there …"""
OUTGROWN = 6.0
"""… they were smaller by this factor, which a drift that grows with the square of time is not."""
ROWS = 10
"""The run is looked at in parts as long as one turn of the signal, of no fewer rows than that."""
DRIFT = 3.0
"""A fourth of the step does for less than so many times as long; with a drift, for four times."""
CONVERGING = 0.6
"""Neighbouring differences with a larger ratio do not fall with the step."""


def _horizon(
    time: Numbers, values: Numbers, between: Sequence[Numbers], good: Mask, scale: float
) -> float | None:
    """The time beyond which a chaotic motion forgets where it came from; None if it is none.

    Differences of neighbouring levels are small at first and fall with the step; they grow by orders of
    magnitude and end as large as the signal itself, for finer steps later, but there they do not fall any
    more: no step will do for much longer.
    """
    if len(between) < 3 or good.sum() < 20:
        return None
    tops = [np.maximum.accumulate(np.where(good, each, 0.0)) / scale for each in between]
    if not all(np.isfinite(top[-1]) and SATURATED <= top[-1] <= 10.0 for top in tops):
        return None
    if tops[-1][-1] < CONVERGING * tops[-2][-1]:
        return None
    places = [int(np.argmax(top >= SATURATED)) for top in tops]
    if not time[places[-1]] > time[places[0]]:
        return None
    for top, place in zip(tops, places, strict=True):
        early = top[int(np.searchsorted(time, time[0] + 0.1 * (time[place] - time[0])))]
        if early * GROWN > SATURATED or place - int(np.argmax(top >= SATURATED / GROWN)) < GRADUAL:
            return None
    whole = [_comes_apart(time[good], values[good], each[good] / scale) for each in between]
    if None in whole or whole[-1] > DRIFT * whole[0]:  # type: ignore[operator]
        return None
    return float(time[places[0]])


def _comes_apart(time: Numbers, values: Numbers, apart: Numbers) -> float | None:
    """How long it takes until most of a signal has come apart, and not only where it is steep; None if it
    never does, or by an amount in every second and not by a factor, as the phase of an oscillator."""
    around = values - 0.5 * (values.max() + values.min())
    turns = int(np.count_nonzero(np.diff(np.signbit(around)))) // 2
    parts = np.array_split(np.arange(len(time)), max(min(len(time) // ROWS, turns), 1))
    typical = np.maximum.accumulate([float(np.median(apart[part])) for part in parts])
    place = int(np.argmax(typical >= TYPICAL))
    if not typical[place] >= TYPICAL or not place:
        return None
    ends = np.array([time[part[-1]] for part in parts])
    half = typical[max(int(np.searchsorted(ends, (ends[place] + time[0]) / 2.0)) - 1, 0)]
    return float(ends[place] - time[0]) if half * OUTGROWN <= typical[place] else None


def _chatters(times: Numbers, step: float) -> bool:
    """Whether more than five events follow each other within two steps each, again and again."""
    if len(times) < 8 or step <= 0.0:
        return False
    close = np.diff(times) <= 2.0 * step * (1 + 1e-9)
    runs = np.convolve(close.astype(float), np.ones(6), mode="valid")
    return bool((runs >= 6).any()) and not bool(np.allclose(np.diff(times), np.diff(times)[0], rtol=1e-6))


def _extrapolated(time: Numbers, values: Numbers, degree: int) -> Numbers:
    """For each step, what a polynomial through the latest values gives at its end."""
    found = values[:-1].copy()
    width = np.diff(time)
    for count in range(2, degree + 2):
        rows = np.arange(count - 1, len(values) - 1)
        nodes = rows[:, None] - np.arange(count)
        fresh = np.all(width[nodes[:, :-1] - 1] > 0, axis=1) & (width[rows] > 0)
        total = np.zeros(len(rows))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            for i in range(count):
                weight = np.ones(len(rows))
                for j in range(count):
                    if j != i:
                        weight *= (time[rows + 1] - time[nodes[:, j]]) / (
                            time[nodes[:, i]] - time[nodes[:, j]]
                        )
                total += weight * values[nodes[:, i]]
        found[rows[fresh]] = total[fresh]
    return found


def _hidden(base: Trace, fine: Trace, name: str, scale: float) -> float:
    """By how much a signal leaves the straight line between communication points in the median step, as a
    finer run sees it, relative to its range."""
    here, there = base.time, fine.time
    values = np.asarray(fine[name], dtype=np.float64)
    inside = (there > here[0]) & (there < here[-1])
    line = np.interp(there, here, np.interp(here, there, values))
    off = np.abs(values - line)[inside] / scale
    place = np.searchsorted(here, there[inside], side="right")
    if not len(off) or not np.isfinite(off).all():
        return 0.0
    largest = np.zeros(len(here) + 1)
    np.maximum.at(largest, place, off)
    return float(np.median(largest[np.unique(place)]))


def _percent(part: float) -> str:
    if not math.isfinite(part):
        return "more than everything"
    return f"{100 * part:.0f} %" if 0.995 <= part < 1000 else f"{100 * part:.2g} %"


__all__ = [
    "EnergyTrust", "EventTrust", "InputTrust", "RunTrust", "SignalTrust", "SolverTrust", "StabilityTrust",
    "Trust", "trust",
]  # fmt: skip
