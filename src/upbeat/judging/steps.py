"""Which step size: trial runs with other steps, couplings and inputs, and the cheapest that is good enough.

A *way* is a coupling with an input approximation; a setting is a way and a step out of a ladder, each half of
the one before. What is wanted is the setting with the least work whose error is at most the asked tolerance:

1. **Where to look.** Ways that the units do not allow are left out. A setting that is proven to be unstable,
   far beyond what the scenario itself does, is not run. The ladder begins with six to twelve steps, for long
   steps cost little; where the units' own solvers do most of the work, still longer ones save nothing.
2. **The lead.** One way (the one of highest order, where it is stable) goes down the ladder, by as many rungs
   at a time as its error and order say, until its error should be small enough.
3. **The check.** The same way with some 2.6 times as many steps, a prime number of them: errors of both
   differ, and nothing that repeats itself in the scenario looks the same to both, as it may to steps of h and
   h/2. Every claim rests on such a run.
4. **The others.** Each other way gets the shortest step with which it would cost less than half. If it is
   good enough there, it takes the place of the lead; if not, no setting of its is cheaper than half.

Work is counted in calls of units and steps of their solvers, never in seconds: it is the same on every
machine. All trials together do about ten times the work of the run that is recommended, at most.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, Unpack

import numpy as np

from upbeat.core.abilities import Ability, Model
from upbeat.core.display import Displayed
from upbeat.core.errors import InvalidInput, UpbeatError
from upbeat.core.time import checked_step
from upbeat.engine.experiment import Experiment, experiment
from upbeat.engine.isolation import some_apart
from upbeat.engine.nesting.model import nested_of
from upbeat.engine.settings import Settings
from upbeat.judging.comparing import FINER as FINER_SOLVERS
from upbeat.judging.comparing import (
    Change,
    Comparison,
    Difference,
    Progress,
    Trial,
    Trials,
    compare,
    finer,
    inner_steps,
    may_miss,
    named_moments,
    units_inside,
    unseen,
    with_models,
)
from upbeat.master.couplings.coupling import Coupling, GaussSeidel, Jacobi, labelled
from upbeat.master.couplings.iterated import Iterated
from upbeat.master.inputs.approximation import Approximation, Hermite, Hold, Linear, convergence
from upbeat.master.master import Master
from upbeat.master.paces.pace import Fixed, nominal_step, scaled
from upbeat.master.program import Advance, Block, If, Repeat
from upbeat.master.settings import settings_of
from upbeat.scenario.scenario import Scenario
from upbeat.stability.verdicts.judge import induced, stability_of
from upbeat.trace.trace import Trace
from upbeat.units.process import bare
from upbeat.units.solving.solvers import solver_of

SECONDS = 60.0
"""How long trials may take together, on the wall, unless told."""
TOLERANCE = 1e-3
"""The error that is asked for unless told: of the range of each signal."""
RUNGS = 16
"""So many times the step may be halved, from the first one that is tried."""
FEW = 6
"""The ladder begins with so many steps, or up to twice as many."""
FEWEST = 4
FINER = 0.382
"""The step of the check, as a part of the one that it checks: near to no ratio of small numbers."""
FLAT = 16.0
"""So many times the steps that the ladder begins with cost no more, where solvers do most of the work."""
QUICK = 2.0
"""The first step is no longer than this part of the quickest oscillation (in radians)."""
SAFE = 0.85
"""What is predicted to have an error of no more than this part of the tolerance is worth a check."""
WORSE = 2.0
"""A setting that costs so many times the cheapest one is good enough."""
SAVED = 0.75
"""A longer step that should do is tried if it costs less than this part."""
LIMIT = 10.0
"""What trials may cost together, in runs of the one that is recommended."""
HOPELESS = math.log(1e3)
"""What grows so much more within the run than the scenario itself does (its logarithm) is not run."""
SLOWEST = 0.8
"""Errors are not expected to fall more slowly than with this power of the step."""
LARGE = 0.3
"""Where errors are as large as this, orders mean nothing."""
ROUNDS = 2
"""About how often a step is repeated that is repeated until something agrees."""


# ----------------------------------------------------------------------------------------------------
# Work.


@dataclass(frozen=True)
class Work:
    """What a run cost: calls of units (to advance), and steps of their solvers."""

    calls: int
    solver_steps: int

    @property
    def total(self) -> int:
        return self.calls + self.solver_steps


def work_of(experiment: Experiment, trace: Trace) -> Work:
    """What a run of `experiment` cost, steps that were taken back included."""
    steps = trace.steps.count + trace.steps.rejected
    solvers: Mapping[str, Mapping[str, int]] = trace.info.get("solvers", {})
    made = sum(counts["steps"] + counts["rejected"] for counts in solvers.values())
    return Work(steps * calls_per_step(experiment), made)


def calls_per_step(experiment: Experiment) -> int:
    """How many calls of units one communication step means; on the average, where it is repeated."""

    def calls(block: Block) -> int:
        found = 0
        for instruction in block:
            match instruction:
                case Advance():
                    found += 1
                case Repeat():
                    fixed = instruction.exhausted == "accept"
                    found += (instruction.max_iterations if fixed else ROUNDS) * calls(instruction.body)
                case If():
                    found += max(calls(instruction.then), calls(instruction.orelse))
        return found

    return max(1, *(calls(part.plan.program.steps["step"]) for part in parts_of(experiment)))


def parts_of(experiment: Experiment) -> tuple[Experiment, ...]:
    """The experiment of each structure, or the one there is."""
    return tuple(experiment.structures.values()) or (experiment,)


# ----------------------------------------------------------------------------------------------------
# What is found.

State = Literal["measured", "unstable", "failed", "not possible", "not run"]


@dataclass(frozen=True)
class Setting:
    """A way and a step, and what is known about them.

    `error` is estimated: of the worst signal, relative to its range; None if nobody knows. `work` is counted,
    or, with `about`, expected. `margin` is that of `Stability`; None where nothing is proven.
    """

    coupling: str
    inputs: str
    step: float
    state: State
    error: float | None = None
    worst: str = ""
    """The signal with that error."""
    work: int | None = None
    about: bool = False
    seconds: float | None = None
    stability: str = ""
    margin: float | None = None
    why: str = ""
    """Why there is no error: what failed, or why it was not run."""
    present: bool = False
    """Whether this is what the experiment has now."""
    master: Master | None = field(default=None, repr=False, compare=False)

    @property
    def way(self) -> str:
        return f"{self.coupling}, {self.inputs}"

    def data(self) -> dict[str, Any]:
        """For JSON."""
        finite = None if self.error is None or not math.isfinite(self.error) else self.error
        return {
            "coupling": self.coupling,
            "inputs": self.inputs,
            "step": self.step,
            "state": self.state,
            "error": finite,
            "worst_signal": self.worst or None,
            "work": self.work,
            "work_expected": self.about,
            "seconds": self.seconds,
            "stability": self.stability or None,
            "margin": self.margin,
            "why": self.why or None,
            "present": self.present,
        }


@dataclass(frozen=True)
class StepAdvice(Displayed):
    """Which step, coupling and input approximation to take, and the table it was found with.

    `best` is None where nothing in the table has an error within `tolerance`; `reason` says why in both
    cases. `front` has the settings that no other beats both in error and in work. `undone` says what there
    was no time or work left for.
    """

    tolerance: float
    settings: tuple[Setting, ...]
    best: Setting | None
    reason: str
    work: int
    """All that was done."""
    runs: int
    seconds: float
    undone: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    interrupted: bool = False
    """Whether Ctrl-C ended the trials before all were made."""
    experiment: Experiment | None = field(default=None, repr=False, compare=False)

    @property
    def present(self) -> Setting | None:
        """What the experiment has now, if it is in the table."""
        return next((one for one in self.settings if one.present), None)

    @property
    def front(self) -> tuple[Setting, ...]:
        """The settings that no other beats both in error and in work, the cheapest first."""
        found: list[Setting] = []
        measured = [one for one in self.settings if one.error is not None and one.work is not None]
        for one in sorted(measured, key=lambda one: (one.work, one.error)):
            assert one.error is not None
            if math.isfinite(one.error) and (not found or one.error < (found[-1].error or 0.0)):
                found.append(one)
        return tuple(found)

    def improved(self) -> Experiment:
        """The experiment with what is recommended; `InvalidInput` where that is nothing."""
        if self.best is None or self.best.master is None or self.experiment is None:
            raise InvalidInput(f"there is nothing to recommend: {self.reason}")
        return replace(self.experiment, master=self.best.master)

    def table(self, written: Mapping[str, Any]) -> dict[str, Any]:
        """The keys of ``[master]`` that become different, in the form that the table has them in that is
        `written`."""
        master = self.improved().master
        assert self.experiment is not None
        old, new = settings_of(self.experiment.master), settings_of(master)
        values = {key: value for key, value in new.items() if old.get(key) != value}
        said = written.get("pace")
        if "step" in new:  # which also leaves open how events are met; so does a number
            values["pace" if said is not None else "step"] = new["step"]
            if said is not None and not isinstance(said, (int, float)):
                raise InvalidInput(
                    f"the file has a pace, which --step has replaced: write step = {new['step']!r} under "
                    "[master] in its place yourself"
                )
            if said is not None:
                values.pop("step", None)
        else:
            values["pace"] = new["pace"]
        return values

    def data(self) -> dict[str, Any]:
        """For JSON."""
        front = self.front
        return {
            "tolerance": self.tolerance,
            "recommended": None if self.best is None else self.best.data(),
            "reason": self.reason,
            "settings": [{**one.data(), "pareto": one in front} for one in self.settings],
            "work": self.work,
            "runs": self.runs,
            "seconds": round(self.seconds, 3),
            "undone": list(self.undone),
            "notes": list(self.notes),
            "interrupted": self.interrupted,
        }

    def __str__(self) -> str:
        return self.reason


def recommend_step(
    given: Scenario | Experiment,
    *,
    tolerance: float = TOLERANCE,
    seconds: float = SECONDS,
    step: float | None = None,
    progress: Progress | None = None,
    **settings: Unpack[Settings],
) -> StepAdvice:
    """Which step size, coupling and input approximation to take for results with an error of at most
    `tolerance`.

        advice = up.recommend_step(up.load("scenario.toml"), tolerance=1e-4)
        trace = advice.improved().run()

    The error is that of the worst recorded signal at the worst time, relative to the range of the signal; an
    event may be late by that part of the run, and none may be missing or too many. It is estimated from trial
    runs, which take so many `seconds` at most; of what they leave out, `undone` tells. `step` is where the
    ladder of steps is put: that of the pace, unless given. Ctrl-C in the first trial raises `Interrupted`;
    later it ends the trials, and what is known by then is said.
    """
    asked = _checked(tolerance, "tolerance", 1e-12, 1.0)
    budget = _checked(seconds, "seconds", 0.0, math.inf)
    if progress is not None and not callable(progress):
        raise InvalidInput(f"progress must be a function of a text, not {progress!r:.60}")
    return _Search(_given(given, step, settings), asked, budget, progress).advice()


def _checked(value: Any, name: str, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value < high:
        limits = f"a number from {low:g} on" if high == math.inf else f"a number between {low:g} and {high:g}"
        raise InvalidInput(f"{name} must be {limits}, not {value!r:.60}")
    return float(value)


def _given(given: Scenario | Experiment, step: float | None, settings: Settings) -> Experiment:
    """What is asked about, with a pace whose steps can be made longer and shorter."""
    if not isinstance(given, Experiment):
        made = experiment(given, step=step, **settings)
    elif settings:
        raise InvalidInput(
            f"an experiment has its settings already: leave out {', '.join(settings)}, or change them with "
            "up.load(file, …) or experiment.with_(…)"
        )
    else:
        made = given
    pace = made.master.pace
    own = nominal_step(pace)
    regular = 0.0 < own < math.inf
    if step is not None:
        size = checked_step(step)
        like = scaled(pace, size / own) if regular else None
        return replace(made, master=replace(made.master, pace=like or Fixed(size)))
    if not regular or scaled(pace, 0.5) is None:
        raise InvalidInput(
            f"there is no step to recommend: {type(pace).__name__} does not go in steps of one usual "
            "size. Say which fixed step to begin with (step=0.1, --step 0.1), or give it another "
            "tolerance where it has one"
        )
    return made


# ----------------------------------------------------------------------------------------------------
# Ways, and what is proven about them.


@dataclass(frozen=True)
class _Outer(Change):
    """A change of the scenario's own steps only: those of nested ones are settings of their own, and become
    finer with the solvers. All rows are recorded."""

    def of(self, experiment: Experiment) -> Experiment:
        pace = scaled(experiment.master.pace, self.step)
        assert pace is not None  # `_given` has asked
        outer = replace(experiment, master=replace(experiment.master, pace=pace), every=1)
        if self.solvers:
            outer = replace(outer, scenario=inner_steps(outer.scenario, 1.0 / FINER_SOLVERS))
        return replace(self, step=1.0).plainly(outer)

    def plainly(self, experiment: Experiment) -> Experiment:
        return super().of(experiment)


@dataclass(frozen=True)
class _Way:
    """A coupling and an input approximation; None: as the experiment has it. `order` is that of
    convergence."""

    coupling: Coupling | None
    inputs: Approximation | None
    words: tuple[str, str]
    order: int
    calls: int
    """Calls of units in a step."""
    present: bool = False
    corrected: bool = False

    @property
    def expected_order(self) -> float:
        """The order that errors fall with: what was not corrected has been extrapolated, which costs one
        order."""
        return float(self.order if self.order < 3 or self.corrected else self.order - 1)

    def change(self, factor: float, *, closely: bool = False) -> Change:
        return _Outer(step=factor, inputs=self.inputs, coupling=self.coupling, closely=closely)


def _words(coupling: Coupling, inputs: Approximation) -> tuple[str, str]:
    degree = getattr(inputs, "degree", None)
    name = type(inputs).__name__.lower()
    how = labelled(coupling, "").replace(", ,", ",").removesuffix(", ")
    return how, name if degree is None else f"{name} {degree}"


def _ways(made: Experiment) -> tuple[list[_Way], list[str]]:
    """The ways that the units allow, the present one first, and what is said about the others."""
    own = made.master
    parts = parts_of(made)
    runs = own.settled(parts[0].closed)
    words, order = _words(runs.coupled, runs.approximated), convergence(runs.approximated)
    if own.inputs is None and dict(runs.ports) != dict(own.ports):  # chosen for each input, because of events
        words, order = (words[0], "auto"), max(order, *map(convergence, runs.ports.values()))
    found = [_Way(None, None, words, order, 1, True, hasattr(runs.coupled, "corrections"))]
    usual = (Jacobi, GaussSeidel, Iterated)
    # A coupling that was chosen for what it does besides (early stops, rates, constraints) is kept.
    couplings: list[Coupling | None] = [None]
    if isinstance(runs.coupled, usual):
        back = all(
            Ability.ROLLBACK in model.abilities for part in parts for model in part.closed.units.values()
        )
        others: list[Coupling] = [GaussSeidel(), Jacobi()]
        others += [Iterated(GaussSeidel(), corrections=1)] if back else []
        couplings = [keeping(runs.coupled, each) for each in others]
    for coupling in couplings:
        for inputs in (Hermite(), Linear(), Hold()):
            here = coupling or runs.coupled
            if (here, inputs) != (runs.coupled, runs.approximated) or words[1] == "auto":
                corrected = hasattr(here, "corrections")
                found.append(
                    _Way(coupling, inputs, _words(here, inputs), convergence(inputs), 1, corrected=corrected)
                )
    ways: list[_Way] = []
    programs: list[tuple[list[Any], _Way]] = []
    notes: list[str] = []
    for way in found:
        try:
            changed = way.change(1.0).of(made)
            steps = [part.plan.program.steps for part in parts_of(changed)]
        except UpbeatError as error:
            if way.present:
                raise
            notes.append(f"{', '.join(way.words)}: not possible, because {error}")
            continue
        twin = next((other for known, other in programs if known == steps), None)
        if twin is not None:
            notes.append(f"{', '.join(way.words)}: the same as {', '.join(twin.words)} here")
            continue
        programs.append((steps, way))
        ways.append(replace(way, calls=calls_per_step(changed)))
    return ways, notes


def keeping(own: Coupling, other: Coupling) -> Coupling:
    """Another coupling with the loop solver and the outputs of the present one."""
    inside, repeated = getattr(own, "coupling", own), getattr(other, "coupling", None)
    kept = {name: getattr(inside, name) for name in ("outputs", "loops")}
    if repeated is not None:
        return replace(other, coupling=replace(repeated, **kept))  # type: ignore[type-var]
    if hasattr(inside, "order") and hasattr(other, "order"):
        kept["order"] = inside.order
    return replace(other, **kept)  # type: ignore[type-var]


@dataclass(frozen=True)
class Proof:
    """What is proven about a setting: `rate` is by how much the logarithm of a motion grows in a second."""

    label: str
    margin: float | None
    rate: float | None
    step: float
    surely: bool = False


class Changed(Protocol):
    """Says what is different about an experiment."""

    def of(self, experiment: Experiment) -> Experiment:
        """The changed experiment."""
        ...


class Proofs:
    """Verdicts on settings, each asked for once, as long as that takes little of the time there is."""

    def __init__(self, made: Experiment, seconds: float) -> None:
        self._made, self._seconds = made, seconds
        self._known: dict[Changed, Proof] = {}
        self._spent = 0.0
        self._walled = some_apart(made.scenario, made.isolation)
        """A unit that may crash is not tried in this process, where analyses step units."""
        self.stopped = False
        self.why = ""

    @property
    def left(self) -> float:
        """Seconds that are left for proofs."""
        return max(PART * self._seconds - self._spent, 0.0)

    def __call__(self, change: Changed) -> Proof:
        if change not in self._known:
            self._known[change] = self._judged(change)
        return self._known[change]

    def _judged(self, change: Changed) -> Proof:
        unknown = Proof("undecided", None, None, 0.0)
        if self._walled:
            self.why = "units that run in processes of their own are not looked into"
            return unknown
        if self.left <= 0.0:
            self.stopped = True
            return replace(unknown, label="")
        begun = time.monotonic()
        try:
            changed = change.of(self._made)
            size = nominal_step(changed.master.pace)
            with np.errstate(all="ignore"):  # what grows out of all numbers is what is asked
                found = stability_of(changed, step=size, scan=False, patience=self.left)
        except UpbeatError as error:
            self.why = str(error)
            return unknown
        finally:
            self._spent += time.monotonic() - begun
        decided = found.verdict != "undecided"
        return Proof(
            found.labelled,
            found.margin if decided else None,
            found.mode.rate(size) if decided else None,
            size,
            decided and found.mode.radius - found.mode.uncertainty > 1.0,
        )

    @property
    def _left(self) -> float:
        return PART * self._seconds - self._spent

    def quickest(self, change: Changed) -> float | None:
        """The largest angular frequency of all motions of the scenario; None if nobody knows."""
        if self._walled:
            return None
        begun = time.monotonic()
        try:
            changed = change.of(self._made)
            size = nominal_step(changed.master.pace)
            with np.errstate(all="ignore"):
                found = induced(changed, step=size, patience=max(self.left, 0.0))
        except UpbeatError:
            return None
        finally:
            self._spent += time.monotonic() - begun
        values = np.linalg.eigvals(found.matrix)
        lasting = values[np.abs(values) > 0.5]  # the others are memory, or gone before they matter
        return float(np.abs(np.angle(lasting)).max(initial=0.0)) / (size * found.steps)


PART = 0.3
"""Proofs may take this part of the time."""


# ----------------------------------------------------------------------------------------------------
# The search.

PATIENCE = 500
"""A communication step in which a solver needs more steps than this is too long: shorter ones would cost
nothing, and a run whose numbers grow out of bounds is noticed soon."""


def with_less_patience(made: Experiment) -> Experiment:
    """The experiment for trials: solvers that choose their steps make so many in a communication step, no
    more."""

    def changed(model: Model) -> Model:
        solver = solver_of(model)
        most = getattr(solver, "max_steps", 0)
        if solver is None or most <= PATIENCE or getattr(model, "choice", None) is not None:
            return model
        return replace(model, solver=replace(solver, max_steps=PATIENCE))  # type: ignore[type-var]

    return replace(made, scenario=with_models(made.scenario, changed))


@dataclass(frozen=True)
class _Made:
    """A trial run of a way on a rung of the ladder; or of a check, beside it."""

    way: _Way
    rung: int
    step: float
    trial: Trial
    work: Work
    check: bool = False

    @property
    def trace(self) -> Trace | None:
        return self.trial.trace


@dataclass(frozen=True)
class _Error:
    """How far a run is from another one; infinite, with words, where their events differ."""

    size: float
    worst: str = ""
    why: str = ""


def apart(one: Trace, other: Trace) -> _Error:
    """The largest difference of all signals, relative to their ranges, or of the times of events, to the
    run."""
    found: Comparison = compare(one, other)
    first, last = other.span
    near = 1e-6 * (last - first)
    alone = [
        (pair.name, "missing" if pair.one is None else "too many")
        for pair in (*found.missing, *found.extra)
        if last - (pair.one if pair.one is not None else pair.other or 0.0) > near
    ]
    if alone:
        names = ", ".join(dict.fromkeys(f"'{name}'" for name, _ in alone))
        return _Error(math.inf, why=f"other events than with shorter steps: {names}")
    blind = next((each.name for each in found.values() if _blind(each, one)), None)
    if blind is not None:
        return _Error(math.inf, blind, why=f"'{blind}' jumps all the time, and most of it cannot be compared")
    worst = max(found.values(), key=lambda each: _number(each.maximum), default=None)
    shift = found.shift / (last - first)
    size = 0.0 if worst is None else _number(worst.maximum)
    if worst is None or shift > size:
        return _Error(shift, "the times of events")
    return _Error(size, worst.name)


def _blind(found: Difference, trace: Trace) -> bool:
    """Whether most of a signal cannot be compared, as far as it is there."""
    values = np.asarray(trace[found.name])
    there = ~np.isnan(values) if values.dtype.kind == "f" else np.ones(len(values), dtype=bool)
    return bool(there.any()) and float(np.isnan(found.error)[there].mean()) > 0.5


def _number(value: float) -> float:
    return value if math.isfinite(value) else math.inf


def _prime(number: int) -> int:
    """The next prime number."""
    number = max(number, 2)
    while any(number % k == 0 for k in range(2, math.isqrt(number) + 1)):
        number += 1
    return number


def _coarse(scenario: Scenario, tolerance: float) -> bool:
    """Whether solvers of units, or steps inside nested scenarios, may make errors that count beside this
    tolerance, and that no other communication step would show."""
    if has_nested(scenario):
        return True
    for path, model in units_inside(scenario):
        solver = solver_of(model)
        if finer(model) is None:
            continue
        asked = getattr(solver, "rtol", None) if solver is not None else getattr(model, "accuracy", None)
        if asked is not None and asked > tolerance / 100.0:
            return True
        if solver is not None and asked is None and (solver.step is not None or path not in scenario.units):
            return True
    return False


def has_nested(scenario: Scenario) -> bool:
    """Whether a unit is a scenario of its own."""
    return any(nested_of(bare(model)) is not None for model in scenario.units.values())


class _Search:
    def __init__(self, made: Experiment, tolerance: float, seconds: float, progress: Progress | None) -> None:
        self.made, self.tolerance, self.seconds = made, tolerance, seconds
        for part in parts_of(made):
            part.plan  # noqa: B018  # whatever is wrong with the experiment itself is said now
        self.span = made.span.stop - made.span.start
        self.own = nominal_step(made.master.pace)
        self.trials = Trials(with_less_patience(made), seconds, progress)
        self.ways, self.notes = _ways(made)
        self.stability = Proofs(made, seconds)
        self.runs: list[_Made] = []
        self.nested = has_nested(self._solved_by)
        """Whether there are couplings inside units, of orders of their own."""
        self.closely = may_miss(made) or bool(named_moments(made, self.span / FEWEST))
        """Whether something may be too short for steps, so that checks have to look closely."""
        self.undone: list[str] = []
        self.rejected: dict[tuple[_Way, int], str] = {}
        self.reference: _Made | None = None
        self.reference_error = math.inf
        # Rung 0 has six to twelve steps; the present step is on the ladder, too.
        self.first = math.ceil(math.log2(self.own * FEW / self.span) - 1e-9)
        self.natural: float | None = None
        self.masters: dict[Change, Master] = {}
        self.solved = 0
        """Work of a run with finer solvers."""

    # ------------------------------------------------------------ rungs

    def factor(self, rung: int) -> float:
        """What the present step is multiplied by."""
        return 2.0 ** -(rung + self.first)

    def step(self, rung: int) -> float:
        return self.own * self.factor(rung)

    @property
    def coarsest(self) -> int:
        return -int(math.log2(FEW / FEWEST))

    # ------------------------------------------------------------ runs

    @property
    def total(self) -> int:
        return sum(run.work.total for run in self.runs) + self.solved

    def run(self, way: _Way, rung: int) -> _Made:
        known = self.known(way, rung)
        return known or self._run(way, rung, self.factor(rung), check=False)

    def known(self, way: _Way, rung: int) -> _Made | None:
        return next((r for r in self.runs if (r.way, r.rung, r.check) == (way, rung, False)), None)

    def check(self, run: _Made) -> _Made:
        """The same way with a prime number of steps, some 2.6 times as many."""
        known = next((r for r in self.runs if (r.way, r.rung, r.check) == (run.way, run.rung, True)), None)
        if known is not None:
            return known
        count = _prime(round(self.span / (FINER * run.step)))
        made = self._run(run.way, run.rung, self.span / count / self.own, check=True)
        if made.trace is None and not made.trial.skipped:  # units that do not like such steps
            self.runs.remove(made)
            made = self._run(run.way, run.rung, self.factor(run.rung) / 3.0, check=True)
        return made

    def _run(self, way: _Way, rung: int, factor: float, *, check: bool) -> _Made:
        change = way.change(factor, closely=check and self.closely)
        trial = self.trials.run(change)
        trace = trial.trace or trial.partial
        work = Work(0, 0)
        if trace is not None:
            work = work_of(change.of(self.made), trace)
        made = _Made(way, rung, self.own * factor, trial, work, check)
        self.runs.append(made)
        if trial.skipped and not self.trials.interrupted:
            self.undone.append(f"{', '.join(way.words)} with steps of {made.step:.6g}: {trial.failure}")
        return made

    def expected(self, way: _Way, rung: int) -> float:
        """About how much work a run would be, from those there are."""
        known = self.known(way, rung)
        if known is not None and known.trace is not None:
            return known.work.total
        near = min(
            (run for run in self.runs if run.trace is not None),
            key=lambda run: (abs(math.log2(run.step / self.step(rung))), run.way is not way),
            default=None,
        )
        calls = way.calls * self.span / self.step(rung)
        if near is None:
            return calls
        return calls + self._solving(near, way, rung)

    def _solving(self, near: _Made, way: _Way, rung: int) -> float:
        """Steps of solvers: as many as before in longer steps; in shorter ones at least one for each."""
        rounds = way.calls / near.way.calls
        scaled_up = near.work.solver_steps * near.step / self.step(rung)
        one_each = near.work.solver_steps <= 1.5 * near.work.calls
        return rounds * (scaled_up if one_each else near.work.solver_steps)

    # ------------------------------------------------------------ what is not worth a run

    def hopeless(self, way: _Way, rung: int) -> str:
        """Why a setting need not be run: it is proven to grow far beyond what the scenario does."""
        if (way, rung) in self.rejected:
            return self.rejected[way, rung]
        verdict = self.stability(way.change(self.factor(rung)))
        if not verdict.surely or verdict.rate is None:
            return ""
        if self.natural is None:
            fine = self.ways[0].change(min(1.0, 1e-3 * self.span / self.own))
            own = self.stability(fine)
            self.natural = max(own.rate or 0.0, 0.0)
        beyond = (verdict.rate - self.natural) * self.span
        if beyond < HOPELESS:
            return ""
        grown = "beyond all numbers" if beyond > 700 else f"{math.exp(beyond):.1g}-fold"
        self.rejected[way, rung] = f"{verdict.label}: a motion grows {grown} within the run"
        return self.rejected[way, rung]

    # ------------------------------------------------------------ the lead

    def begin(self) -> int:
        """The rung to begin on: few steps, or so many that no oscillation of the scenario is lost."""
        quickest = self.stability.quickest(self.ways[0].change(min(1.0, 1e-4 * self.span / self.own)))
        if quickest is None or not quickest > 0.0:
            return 0
        return min(max(math.ceil(math.log2(self.step(0) * quickest / QUICK)), 0), RUNGS // 2)

    def lead(self, first: int) -> tuple[_Way, int] | None:
        """The way that goes first, and the rung it begins on: the cheapest one, if errors fall as they
        should."""

        def cost(way: _Way, rung: int) -> float:
            needed = self.tolerance ** (-1.0 / way.expected_order)
            doubts = 2.0 if way.corrected else 1.0  # its solvers, too, do everything again: let it challenge
            return float(doubts * way.calls * max(2.0 ** (rung - first), needed, FLAT))

        best: tuple[float, _Way, int] | None = None
        for way in sorted(self.ways, key=lambda way: (cost(way, first), -way.order, not way.present)):
            if best is not None and cost(way, first) >= best[0]:
                break
            rung = self._stable(way, first)
            if rung is not None and (best is None or cost(way, rung) < best[0]):
                best = cost(way, rung), way, rung
        return None if best is None else (best[1], best[2])

    def _stable(self, way: _Way, first: int) -> int | None:
        """The first rung on which a way is not hopeless."""
        if not self.hopeless(way, first):
            return first
        low, high = first, RUNGS
        if self.hopeless(way, high):
            return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.hopeless(way, middle) else (low, middle)
        return high

    def descend(self, way: _Way, rung: int) -> tuple[_Made, _Error] | str:
        """Down the ladder until a check says that the error is small enough; or why there is no such rung."""
        order = way.expected_order
        before: _Made | None = None
        earlier: tuple[float, float] | None = None  # an error and its step
        screened = False
        why = "no run has come to its end"
        while rung <= RUNGS:
            now = self.run(way, rung)
            if now.trace is None:
                if now.trial.skipped or self.trials.interrupted:
                    return self._unfinished(why)
                why, before, rung = now.trial.failure, None, rung + 1
                continue
            if before is None or before.trace is None:
                before, rung = now, rung + 1
                continue
            seen = apart(before.trace, now.trace)
            known = False
            longer = earlier is not None and earlier[1] > before.step
            if earlier is not None and longer and 0.0 < seen.size < LARGE and earlier[0] < LARGE:
                known = True
                observed = math.log(earlier[0] / seen.size) / math.log(earlier[1] / before.step)
                order = min(max(observed, SLOWEST), way.order + 0.5)
            earlier = (seen.size, before.step) if seen.size > 0.0 else None
            error = seen.size / (1.0 - (now.step / before.step) ** order)  # of the longer step
            why = self._told(before, replace(seen, size=error))
            if not screened and known and error < LARGE:
                other = self._screened(before, error, order)
                screened = other is not None
                if isinstance(other, tuple):
                    way, before, error, order = other
                    earlier = None  # which was about another way
                    now = self.run(way, before.rung + 1)
                    if now.trace is None:
                        return now.trial.failure
            run = self._candidate(before, now, error, order)
            if run is None:
                further = self._further(error * (now.step / before.step) ** order, order)
                # Orders change on a long way; where errors fall slowly, going too far costs most.
                less = 1 if order > 1.5 else 2
                before, rung = now, now.rung + max(further - less, min(further, 2))
                continue
            while True:  # each check tells how much further to go
                checked = self.checked(run, order)
                if isinstance(checked, str):
                    return f"{why}, and there is no check of shorter steps: {checked}"
                if checked.size <= self.tolerance:
                    return run, checked
                why = self._told(run, checked)
                rung = max(run.rung + self._further(checked.size, order), now.rung)
                if not checked.size < LARGE or rung > RUNGS:
                    before = None  # what it went by was no order at all: begin anew from there
                    break
                now, run = run, self.run(way, rung)
                if run.trace is None:
                    ended = run.trial.skipped or self.trials.interrupted
                    return self._unfinished(why) if ended else run.trial.failure
        return f"even with steps of {self.step(RUNGS):.3g}, and {why}"

    def _told(self, run: _Made, error: _Error) -> str:
        if error.why:
            return f"with steps of {run.step:.6g} there are {error.why}"
        what = error.worst or "the run"
        return f"with steps of {run.step:.6g} the error of {what} is about {error.size:.2g}"

    def _unfinished(self, why: str) -> str:
        ended = "interrupted" if self.trials.interrupted else f"the budget of {self.seconds:g} s was used up"
        return f"{ended}; {why}"

    def _further(self, error: float, order: float) -> int:
        """By how many rungs to go on from an error that is too large."""
        if not error < LARGE:
            return 2
        return min(max(math.ceil(math.log2(error / (SAFE * self.tolerance)) / order - 0.1), 1), 4)

    def _candidate(self, before: _Made, now: _Made, error: float, order: float) -> _Made | None:
        """The run of the longest step that should be good enough, of two and those in between."""
        if error <= SAFE * self.tolerance:
            return before
        for rung in range(before.rung + 1, now.rung + 1):
            if error * 2.0 ** (-order * (rung - before.rung)) <= SAFE * self.tolerance:
                if rung == now.rung or self.expected(now.way, rung) > SAVED * now.work.total:
                    return now
                between = self.run(now.way, rung)
                return between if between.trace is not None else now
        return None

    def _screened(
        self, before: _Made, error: float, order: float
    ) -> tuple[_Way, _Made, float, float] | bool | None:
        """Another way that should come to the tolerance with less work than the lead; False if there is none.

        Each is tried with two long steps, the shorter the better, as long as that is little beside the work
        still to be done: None if it is not. Errors are expected to fall as those of the lead do.
        """
        lead = before.way
        ways = [way for way in self.ways if way is not lead and way.order > order - 0.5]
        budget = self._cost(lead, before.rung, error, max(order, 1.5)) / 3

        def trials(rung: int) -> float:
            new = [(way, r) for way in ways for r in (rung - 1, rung) if not self.known(way, r)]
            return sum(self.expected(*each) for each in new)

        here = next((rung for rung in range(RUNGS, before.rung - 1, -1) if trials(rung) <= budget), None)
        if here is None:
            return None
        best: tuple[float, tuple[_Way, _Made, float, float] | bool] = (math.inf, False)
        for way in ways:
            if self.hopeless(way, here - 1) or self.hopeless(way, here):
                continue
            long, short = self.run(way, here - 1), self.run(way, here)
            if long.trace is None or short.trace is None:
                continue
            size = apart(long.trace, short.trace).size
            if not size < LARGE:
                continue
            p = min(float(way.order), order + 1.0 if way.corrected and not lead.corrected else order)
            found = size / (1.0 - 0.5**p)
            cost = self._cost(way, here - 1, found, p)
            goal = self._cost(lead, before.rung, error, min(p, order))  # what is not known better is alike
            if cost < min(0.75 * goal, best[0]):
                best = cost, (way, long, found, p)
        return best[1]

    def _cost(self, way: _Way, rung: int, error: float, order: float) -> float:
        """The work at which a way should come to the tolerance."""
        further = max(math.log2(max(error, 1e-16) / (SAFE * self.tolerance)) / order, 0.0)
        return self.expected(way, rung + math.ceil(further))

    def checked(self, run: _Made, order: float = 1.0) -> _Error | str:
        """The error of a run according to its check, which becomes the reference; or why there is none."""
        check = self.check(run)
        if check.trace is None or run.trace is None:
            return check.trial.failure
        seen = apart(run.trace, check.trace)
        ratio = check.step / run.step
        p = 1.0 if self.nested else max(1.0, min(order, run.way.order))
        found = replace(seen, size=seen.size / (1.0 - ratio**p))
        self.reference, self.reference_error = check, found.size * ratio**p
        return found

    # ------------------------------------------------------------ the others

    def challenged(self, best: _Made, error: _Error) -> tuple[_Made, _Error]:
        """The same, or what was found that costs less than half of it."""
        reference = self.reference
        assert reference is not None
        assert reference.trace is not None
        failed: dict[_Way, int] = {}
        for run in self.runs:  # what is known not to be good enough
            if not run.check and run.trace is not None and run.step > best.step and run.way is best.way:
                failed[run.way] = max(failed.get(run.way, run.rung), run.rung)
        changed = True
        while changed:
            changed = False
            for way in sorted(self.ways, key=lambda way: (-way.order, way.calls)):
                rung = self._cheaper(way, best)
                if rung is None or failed.get(way, self.coarsest - 1) >= rung:
                    continue
                if self.hopeless(way, rung):
                    failed[way] = rung
                    continue
                if self.total + self.expected(way, rung) > LIMIT * best.work.total:
                    self.undone.append(
                        f"{', '.join(way.words)} with steps of {self.step(rung):.6g} and more: more work "
                        f"than {LIMIT:g} runs of what is recommended"
                    )
                    failed[way] = rung
                    continue
                run = self.run(way, rung)
                if run.trace is None:
                    failed[way] = rung
                    continue
                seen = apart(run.trace, reference.trace)
                sure = replace(seen, size=seen.size + self.reference_error)
                if sure.size <= self.tolerance and run.work.total < best.work.total:
                    best, error, changed = run, sure, True
                    break
                failed[way] = rung
        return best, error

    def _cheaper(self, way: _Way, best: _Made) -> int | None:
        """The lowest rung on which a way should cost less than half."""
        for rung in range(RUNGS, self.coarsest - 1, -1):
            if self.expected(way, rung) < best.work.total / WORSE:
                return rung
        return None

    # ------------------------------------------------------------ the answer

    def advice(self) -> StepAdvice:
        begun = time.monotonic()
        best: _Made | None = None
        error = _Error(math.inf)
        why = "it was interrupted before anything was known"
        try:
            lead = self.lead(self.begin())
            if lead is None:
                why = "every setting of the table is proven to be unstable"
            elif isinstance(found := self.descend(*lead), str):
                why = (
                    f"nothing that was tried is known to have an error of {self.tolerance:g} or less: {found}"
                )
            else:
                best, error = found
                best, error = self._kept(*self._cheapest(*self.challenged(*found)))
                self._present(best)
                best, error, why = self._with_solvers(best, error)
        except KeyboardInterrupt:  # between two runs: in one of them it ends that run
            if not self.runs:
                raise
            self.trials.interrupted = True
        if self.trials.interrupted:
            self.undone.append("whatever else would have been tried: interrupted")
        reason = f"Undecided, because {why}." if best is None else self._reason(best, error)
        rows = self._rows(best, error)
        if said := unseen(self._solved_by):
            self.notes.append(said)
        if any(row.state == "failed" for row in rows):
            self.notes.append(
                f"trials end where a solver needs more than {PATIENCE} steps in a communication step: longer "
                "steps would save nothing"
            )
        if self.stability.stopped:
            self.undone.append("proofs of stability for all settings: they take too much of the time")
        chosen = None if best is None else next(one for one in rows if one.master is self._master(best))
        return StepAdvice(
            self.tolerance,
            tuple(rows),
            chosen,
            reason,
            self.total,
            len(self.runs),
            time.monotonic() - begun,
            tuple(dict.fromkeys(self.undone)),
            tuple(self.notes),
            self.trials.interrupted,
            self.made,
        )

    def _cheapest(self, best: _Made, error: _Error) -> tuple[_Made, _Error]:
        """The same; or the run with the least work that, seen from the finest, was good enough all along.

        On the way down an error is known from its neighbours only, and may be taken for larger than it is.
        """
        if self.reference is None or self.reference.trace is None:
            return best, error
        for run in sorted(self.runs, key=lambda run: run.work.total):
            if run.work.total >= best.work.total:
                break
            if run.check or run.trace is None or run is self.reference or self.hopeless(run.way, run.rung):
                continue
            seen = apart(run.trace, self.reference.trace)
            size = seen.size + self.reference_error
            if size <= SAFE * self.tolerance:
                return run, replace(seen, size=size)
        return best, error

    def _kept(self, best: _Made, error: _Error) -> tuple[_Made, _Error]:
        """The same; or the present way with that step, if it is good, too, and costs no more."""
        own = self.ways[0]
        enough = self.total + self.expected(own, best.rung) <= LIMIT * best.work.total
        if best.way is own or not enough or self.hopeless(own, best.rung) or self.reference is None:
            return best, error
        run = self.run(own, best.rung)
        if run.trace is None or self.reference.trace is None or run.work.total > 1.01 * best.work.total:
            return best, error
        seen = apart(run.trace, self.reference.trace)
        size = seen.size + self.reference_error
        good = size <= max(self.tolerance / 2, error.size)
        return (run, replace(seen, size=size)) if good else (best, error)

    def _with_solvers(self, best: _Made, error: _Error) -> tuple[_Made | None, _Error, str]:
        """The same with the errors of the units' own solvers, which shorter steps do not change; or nothing,
        and why, if these are too large."""
        if not _coarse(self._solved_by, self.tolerance):
            return best, error, ""
        change = replace(best.way.change(self.factor(best.rung)), solvers=True)
        trial = self.trials.run(change)
        if trial.trace is None or best.trace is None:
            self.undone.append(f"errors of the units' own solvers: {trial.failure}")
            return best, error, ""
        self.solved += work_of(change.of(self.made), trial.trace).total
        own = apart(best.trace, trial.trace)
        size = own.size * FINER_SOLVERS / (FINER_SOLVERS - 1.0)
        if error.size + size <= self.tolerance:
            worst = error if error.size >= size else own
            return best, replace(worst, size=error.size + size), ""
        why = (
            f"with steps of {best.step:.6g} the error of the coupling is about {error.size:.2g}, but that of "
            f"{self._own} about {size:.2g} ({own.worst or own.why}): give them smaller steps or "
            "tolerances"
        )
        return None, error, why

    @property
    def _solved_by(self) -> Scenario:
        """The units as they run; of several structures, those of all."""
        return self.made.scenario if self.made.structures else self.made.plan.scenario

    @property
    def _own(self) -> str:
        """Who else makes steps, in words."""
        return "the units' own solvers" + (", and of steps inside nested scenarios," if self.nested else "")

    def _present(self, best: _Made | None) -> None:
        """What the experiment has now is tried, too, if there is work left for it."""
        own, rung = self.ways[0], -self.first
        if best is None or self.known(own, rung) is not None or self.hopeless(own, rung):
            return
        if self.total + self.expected(own, rung) <= LIMIT * best.work.total:
            self.run(own, rung)

    def _reason(self, best: _Made, error: _Error) -> str:
        coupling, inputs = best.way.words
        steps = math.ceil(self.span / best.step - 1e-9)
        text = (
            f"Take steps of {best.step:.6g} with {coupling} and {inputs} inputs: the error of "
            f"{error.worst or 'all signals'} is about {error.size:.2g} of its range, {self.tolerance:g} was "
            f"asked for. That is {steps:,} steps and {best.work.total:,} calls of units and steps of their "
            "solvers"
        )
        if best.way.present and best.rung == -self.first:
            return f"{text}; it is what there is already."
        own = self.known(self.ways[0], -self.first)
        if own is None or own.trace is None:
            return f"{text}."
        seen = self._seen(own)
        if seen is None or not math.isfinite(seen.size):
            return f"{text}."
        return f"{text}; now there are {own.work.total:,}, with an error of about {seen.size:.2g}."

    def _master(self, run: _Made) -> Master:
        """What would be written into a file for a setting."""
        change = run.trial.change
        if change not in self.masters:
            self.masters[change] = change.of(self.made).master
        return self.masters[change]

    def _rows(self, best: _Made | None, error: _Error) -> list[Setting]:
        rows: list[Setting] = []
        for run in self.runs:
            if run.check:
                continue
            verdict = self.stability(run.trial.change)
            row = Setting(
                *run.way.words,
                run.step,
                "measured",
                work=run.work.total,
                seconds=run.trial.seconds,
                stability=verdict.label,
                margin=verdict.margin,
                present=run.way.present and run.rung == -self.first,
                master=self._master(run),
            )
            if run.trace is None:
                state: State = "not run" if run.trial.skipped else "failed"
                row = replace(row, state=state, work=None, why=run.trial.failure)
            else:
                seen = error if run is best else self._seen(run)
                if seen is not None:
                    row = replace(row, error=seen.size, worst=seen.worst, why=seen.why)
            rows.append(row)
        for (way, rung), why in self.rejected.items():
            if self.known(way, rung) is None:
                verdict = self.stability(way.change(self.factor(rung)))
                rows.append(
                    Setting(
                        *way.words,
                        self.step(rung),
                        "unstable",
                        work=round(self.expected(way, rung)),
                        about=True,
                        stability=verdict.label,
                        margin=verdict.margin,
                        why=why,
                        present=way.present and rung == -self.first,
                    )
                )
        own, rung = self.ways[0], -self.first
        if not any(row.present for row in rows):
            verdict = self.stability(own.change(1.0))
            rows.append(
                Setting(
                    *own.words,
                    self.own,
                    "not run",
                    work=round(self.expected(own, rung)),
                    about=True,
                    stability=verdict.label,
                    margin=verdict.margin,
                    why="more work than the trials may be together",
                    present=True,
                )
            )
        return sorted(rows, key=lambda row: (-row.step, row.work or 0))

    def _seen(self, run: _Made) -> _Error | None:
        """The error of a run according to the best reference; of itself, according to a better one."""
        reference = self.reference
        if run.trace is None:
            return None
        if reference is None or reference.trace is None:
            finer = [r for r in self.runs if r.trace is not None and r.way is run.way and r.step < run.step]
            if not finer:
                return None
            near = max(finer, key=lambda each: each.step)
            assert near.trace is not None
            return apart(run.trace, near.trace)
        seen = apart(run.trace, reference.trace)
        return replace(seen, size=max(seen.size, self.reference_error)) if run.step < reference.step else seen
