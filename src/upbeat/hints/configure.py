"""Configuring a co-simulation: variants of its master are run, ranked, and the best one is handed over.

    found = up.configure(up.load("flight.toml"), hints=up.read_hints("flight.hints"))
    print(found.reason)
    trace = found.improved().run()

What is tried is the search space that follows from hints and units (`upbeat.hints.rules`). A small one is
run as a whole. Of a large one each *way* (everything but the step) is run once
with a long step; the best of them with a shorter one, which tells how quickly their errors fall; and the one
that should be best in the end with the shortest. So most of the work is that of the run that is recommended.
Long steps come first: whenever time is up, or somebody has had enough, there is something to go by.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Unpack

import numpy as np

from upbeat.core.abilities import Ability
from upbeat.core.display import Displayed
from upbeat.core.errors import InvalidInput, RunError, ScenarioError, UpbeatError
from upbeat.core.ports import Kind
from upbeat.core.records import dataclass
from upbeat.engine.experiment import Experiment, experiment
from upbeat.engine.settings import Settings
from upbeat.hints.language import Hint, Read, about, hints_of_table, parse_hints, read_hints
from upbeat.hints.rules import RULES, Known, Realised, Rule, realised, search_space
from upbeat.hints.schedule import InvalidSchedule, scheduled
from upbeat.hints.space import STEP, Corrected, Decision, Extrapolated, Option, Rated, Variant
from upbeat.judging.comparing import UNCHANGED, Progress, quietly
from upbeat.judging.steps import (
    HOPELESS,
    LARGE,
    SECONDS,
    Proofs,
    Work,
    apart,
    calls_per_step,
    with_less_patience,
    work_of,
)
from upbeat.master.inputs.approximation import convergence
from upbeat.master.paces.pace import nominal_step
from upbeat.properties.robustness import Robustness
from upbeat.scenario.files import reading
from upbeat.scenario.files.toml import Lines
from upbeat.scenario.properties import closed_properties
from upbeat.scenario.scenario import Scenario
from upbeat.trace.trace import Trace

FEW: Final = 12
"""A search space of so many variants is run as a whole."""
MOST: Final = 400
"""Of more ways than this, those with the largest weights are looked at."""
KEPT: Final = 3
"""So many ways are tried with a shorter step."""
SHORTER: Final = 4.0
"""By this factor it is shorter, or by the next one that there is."""
NEAR: Final = 10.0
"""Options whose errors are so close with a long step may change places when others change."""
PART: Final = 0.1
"""All that is run should be no more than about this part of the work of running everything."""
ALIKE: Final = 1.5
"""Errors that differ by less than this factor are alike: then the cheaper one is better."""
CLOSE: Final = 3.0
"""Ways that should end with errors this close to each other are both run to the end."""
GROWN: Final = 1e6
"""What is so many times as large as in other runs has diverged."""
LOST: Final = 1e100
"""No quantity of engineering is as large as this."""
LONGER: Final = 1.2
"""Steps that differ by less than this factor are no test of how errors fall with them."""
USUAL: Final = 0.8
"""Errors fall as they should, if the power of the step that was seen is no less than this part of that."""
SLOWEST: Final = 0.5
"""Others, such as those of jumps between two steps, fall as they like: perhaps with this power only."""
SMOOTH: Final = 0.5
"""What is as smooth as this, of 1, is as smooth as one can tell."""
DECIDES: Final = 0.05
"""Robustness counts in parts of this size of the largest there is."""

State = Literal["measured", "diverged", "failed", "not possible", "no valid order", "unstable", "not run"]


class _Ended(Exception):
    """There is no time left, or somebody has had enough, in the middle of a run."""


# ----------------------------------------------------------------------------------------------------
# What is found.


@dataclass(frozen=True)
class Judged:
    """What a hint, or a property of the scenario, says of one run. `robustness` is by how much it holds;
    infinite where it says what to do, and that is done."""

    name: str
    verdict: Literal["holds", "violated", "undecided"]
    robustness: float
    reason: str = ""

    def data(self) -> dict[str, Any]:
        """For JSON."""
        value = self.robustness if math.isfinite(self.robustness) else None
        return {"name": self.name, "verdict": self.verdict, "robustness": value, "reason": self.reason}


@dataclass(frozen=True)
class Tried:
    """A variant, and what is known about it. `error` is estimated, of the worst signal, relative to its
    range; `work` is counted in calls of units and steps of their solvers."""

    variant: Variant
    state: State
    hints: tuple[Judged, ...] = ()
    robustness: float = math.nan
    """The least of all, each relative to the largest of all runs."""
    error: float | None = None
    worst: str = ""
    work: int | None = None
    seconds: float | None = None
    stability: str = ""
    why: str = ""
    """Why it was not measured."""
    made: Realised | None = field(default=None, repr=False, compare=False)
    trace: Trace | None = field(default=None, repr=False, compare=False)

    @property
    def satisfied(self) -> int:
        """How many hints hold."""
        return sum(one.verdict == "holds" for one in self.hints)

    @property
    def step(self) -> float:
        """The communication step."""
        return 0.0 if self.made is None else nominal_step(self.made.experiment.master.pace)

    def data(self) -> dict[str, Any]:
        """For JSON."""
        finite = self.error if self.error is not None and math.isfinite(self.error) else None
        return {
            "variant": {name: value if isinstance(value, (int, float, str)) else str(value)
                        for name, value in self.variant.chosen.items()},
            "state": self.state,
            "satisfied": self.satisfied,
            "hints": [one.data() for one in self.hints],
            "robustness": self.robustness if math.isfinite(self.robustness) else None,
            "error": finite,
            "worst_signal": self.worst or None,
            "work": self.work,
            "seconds": None if self.seconds is None else round(self.seconds, 3),
            "stability": self.stability or None,
            "reasons": list(self.variant.reasons),
            "why": self.why or None,
        }  # fmt: skip


@dataclass(frozen=True)
class Configuration(Displayed):
    """The master that is recommended, and the variants that were tried, the best first.

    `best` is None where no variant came to its end; `reason` says why in both cases.
    """

    tried: tuple[Tried, ...]
    best: Tried | None
    reason: str
    variants: int
    """How many the search space has."""
    work: int
    """All that was done."""
    seconds: float
    hints: tuple[Hint, ...] = ()
    notes: tuple[str, ...] = ()
    undone: tuple[str, ...] = ()
    interrupted: bool = False
    experiment: Experiment | None = field(default=None, repr=False, compare=False)

    def improved(self) -> Experiment:
        """The experiment with the master that is recommended; `InvalidInput` where there is none."""
        if self.best is None or self.best.made is None or self.experiment is None:
            raise InvalidInput(f"there is nothing to recommend: {self.reason}")
        made = self.best.made
        if not made.adapts:
            return self.experiment.with_(master=made.experiment.master)
        units = {unit: made.experiment.scenario.units[unit] for unit in made.adapts}
        scenario = self.experiment.scenario.with_units(units)
        return self.experiment.with_(master=made.experiment.master, scenario=scenario)

    def data(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "recommended": None if self.best is None else self.best.data(),
            "reason": self.reason,
            "tried": [one.data() for one in self.tried],
            "variants": self.variants,
            "work": self.work,
            "seconds": round(self.seconds, 3),
            "interrupted": self.interrupted,
            "notes": list(self.notes),
            "undone": list(self.undone),
        }

    def __str__(self) -> str:
        return self.reason


# ----------------------------------------------------------------------------------------------------


def configure(
    given: Scenario | Experiment,
    hints: Iterable[Hint] | Hint | str | Path | None = None,
    *,
    seconds: float = SECONDS,
    tolerance: float = 0.0,
    workers: int | None = None,
    rules: Sequence[Rule] = RULES,
    progress: Progress | None = None,
    step: float | None = None,
    **settings: Unpack[Settings],
) -> Configuration:
    """A good master for a scenario, from what engineers know about it (`hints`) and what its units tell.

        found = up.configure(up.load("scenario.toml"), "scenario.hints")
        trace = found.improved().run()

    `hints` are hints, a file with some, or None: those in ``[hints]`` of the file that the experiment was
    read from, if any. Variants are run for so many `seconds` at most, as many at a time as there are
    `workers`, and ranked by the hints they satisfy, by how much, by their errors (those below `tolerance`
    count as alike) and by their work. Interrupted (Ctrl-C) it says what it has found so far.
    """
    if isinstance(given, Experiment):
        if settings or step is not None:
            names = ", ".join([*settings, *(["step"] if step is not None else [])])
            raise InvalidInput(f"an experiment has its settings already: leave out {names}")
        made = given
    else:
        made = experiment(given, step=step, **settings)
    _check("seconds", seconds, math.inf)
    _check("tolerance", tolerance, 1.0)
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
        raise InvalidInput(f"workers must be a whole number of at least 1, not {workers!r}")
    if made.scenario.structures:
        raise InvalidInput(
            "a scenario with structures is configured one by one: give one of them, "
            "made.structure(NAME), or --structure NAME"
        )
    fixed = Known(made)
    scheduled(fixed.units, [link for link in fixed.links if link.fixed])  # whatever the master, this must go
    named = isinstance(hints, Path) or (isinstance(hints, str) and "{" not in hints)
    source = str(hints) if named else str(made.file) if hints is None else "hints"
    read = about(made.scenario, hints_for(made, hints), span=made.span.stop - made.span.start, source=source)
    return _Search(made, read, float(seconds), float(tolerance), workers, rules, progress).found()


def _check(name: str, value: Any, most: float) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < most:
        limits = "a number from 0 on" if most == math.inf else f"a number from 0 to {most:g}"
        raise InvalidInput(f"{name} must be {limits}, not {value!r:.60}")


def hints_for(made: Experiment, given: Iterable[Hint] | Hint | str | Path | None) -> tuple[Hint, ...]:
    """The hints that are given, or those in the file of the experiment."""
    if given is None:
        file = made.file
        if file is None or file.suffix != ".toml" or not file.is_file():
            return ()
        return _hints_in(file, made)
    if isinstance(given, Hint):
        return (given,)
    if isinstance(given, Path):
        return read_hints(given)
    if isinstance(given, str):
        return parse_hints(given) if "{" in given else read_hints(given)
    found = tuple(given)
    for one in found:
        if not isinstance(one, Hint):
            raise InvalidInput(f'hints are up.Hint("name", "statement") or a file, not {one!r:.60}')
    return found


def _hints_in(file: Path, made: Experiment) -> tuple[Hint, ...]:
    """The hints in a scenario file, looked up: what is wrong with them is told with its line."""
    text = file.read_text(encoding="utf-8-sig")
    table = reading.parse(text, str(file)).get("hints", {})
    lines = Lines(text)
    try:
        hints = hints_of_table(table, str(file))
        about(made.scenario, hints, span=made.span.stop - made.span.start, source=str(file))
    except ScenarioError as error:
        problems = [replace(one, line=lines.of(one.where)) for one in error.problems]
        raise ScenarioError(problems, str(file)) from None
    return hints


# ----------------------------------------------------------------------------------------------------
# How a run is judged.


def smoothness(trace: Trace, signal: str) -> float:
    """How smooth a signal is, seen from its steps: with twice the distance between samples, second
    differences of a smooth signal become four times as large, and those of one with corners at every step do
    not. This is the binary logarithm of the ratio, less one: above 0 is smooth, and 1 as smooth as can be.
    """
    times, values = np.asarray(trace.time), np.asarray(trace[signal], dtype=float)
    last = np.append(np.diff(times) > 0, True)
    times, values = times[last], values[last]
    if len(times) < 9 or not np.isfinite(values).all():
        return math.nan
    grid = np.linspace(times[0], times[-1], len(times))
    even = np.interp(grid, times, values)

    def corners(every: int) -> float:
        return float(
            np.sqrt(np.mean(np.square(even[2 * every :] - 2 * even[every:-every] + even[: -2 * every])))
        )

    size = float(np.ptp(even))
    one, two = corners(1), corners(2)
    if size == 0.0 or one <= 1e-9 * size:
        return 1.0
    return math.log2(two / one) - 1.0 if two > 0 else -1.0


def judged(known: Known, trace: Trace) -> tuple[Judged, ...]:
    """What all hints, and the properties of the scenario, say of a run."""
    found: list[Judged] = []
    idle = {name for name, one in known.occasions.judged(trace).items() if one.verdict == "violated"}
    said = {hint.name: f"it asks for nothing here: {hint.occasion[1]}" for hint in known.hints if idle}
    for name, one in trace.properties.items():
        nothing = one.verdict == "holds" and name in idle
        found.append(_of_property(name, replace(one, reason=said[name]) if nothing else one))
    for hint in known.hints:
        if hint.formula():
            continue  # which is among the properties
        signals = [a.of for a in hint.about if hasattr(a, "of")]
        for signal in signals:
            value = smoothness(trace, signal)
            if math.isnan(value):
                found.append(Judged(hint.name, "undecided", value, f"{signal} has too few rows"))
            else:
                verdict: Literal["holds", "violated"] = "holds" if value > 0 else "violated"
                told = f"{signal} is {'' if value > 0 else 'not '}smooth"
                found.append(Judged(hint.name, verdict, min(value, SMOOTH), told))
        if not signals:
            found.append(Judged(hint.name, "holds", math.inf, "every variant does as it says"))
    return tuple(found)


def _of_property(name: str, one: Robustness) -> Judged:
    return Judged(name, one.verdict, one.low if one.verdict == "holds" else one.high, one.reason)


# ----------------------------------------------------------------------------------------------------
# The search.


class _Run:
    """A variant that has been run, or what was in the way."""

    def __init__(self, variant: Variant, made: Realised | None, state: State, why: str = "") -> None:
        self.variant, self.made, self.state, self.why = variant, made, state, why
        self.trace: Trace | None = None
        self.partial: Trace | None = None
        self.seconds = 0.0
        self.work = Work(0, 0)
        self.judged: tuple[Judged, ...] = ()
        self.stability = ""
        self.blamed = _options(variant)
        """The options that it may be because of, if it does not come to its end."""

    @property
    def step(self) -> float:
        """The step that was chosen for it; 1 where there is no choice."""
        return float(self.variant.chosen.get(STEP, 1.0))

    @property
    def made_steps(self) -> float:
        """How long the steps were that it made: events, and samples of units, make them shorter."""
        assert self.trace is not None
        return float(self.trace.time[-1] - self.trace.time[0]) / max(self.trace.steps.count, 1)


class _Ranked(NamedTuple):
    """What decides about the place of a variant; the satisfied hints and the work are in its row."""

    error: float
    robust: float
    row: Tried


class _Own(NamedTuple):
    """The error of the run that others are compared with: if errors go on falling as they did, and if they
    do not. The one tells which variants are alike, the other is what is said."""

    least: float
    most: float
    worst: str


class _Search:
    def __init__(
        self,
        made: Experiment,
        read: Read,
        seconds: float,
        tolerance: float,
        workers: int | None,
        rules: Sequence[Rule],
        progress: Progress | None,
    ) -> None:
        self.begun = time.monotonic()
        made.plan  # noqa: B018  # whatever is wrong with the experiment itself is said now
        self.given, self.seconds, self.tolerance = made, seconds, tolerance
        self.progress = progress or (lambda text: None)
        self.span = made.span.stop - made.span.start
        self.known = Known(_watched(made, read.properties), read)
        self.progress("looking at the units")
        self.space = search_space(self.known, rules)
        self.runs: dict[tuple[Any, ...], _Run] = {}
        self.proofs = Proofs(made, seconds)
        self.natural: float | None = None
        self.notes = list(self.space.notes)
        self.undone: list[str] = []
        self.stopped = threading.Event()
        self.interrupted = False
        self.programs: list[tuple[Any, _Run]] = []
        self._distances: dict[tuple[int, int], tuple[float, str]] = {}
        own = made.choice.name == "native"
        models = made.plan.scenario.units.values()
        apart_ = own and all(Ability.NATIVE in m.abilities and hasattr(m, "lower") for m in models)
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self.workers = (workers or cores) if apart_ else 1

    # ------------------------------------------------------------ runs

    @property
    def left(self) -> float:
        return self.seconds - (time.monotonic() - self.begun)

    def key(self, variant: Variant) -> tuple[Any, ...]:
        return (*variant.way, variant.chosen.get(STEP))

    def prepared(self, variant: Variant) -> _Run:
        """A variant that can be run, or what is in the way."""
        try:
            made = realised(self.known, variant)
        except InvalidSchedule as error:
            run = _Run(variant, None, "no valid order", str(error))
            run.blamed = _options(variant, error.inputs) or run.blamed
            return run
        except UpbeatError as error:
            return _Run(variant, None, "not possible", str(error))
        try:
            changed = UNCHANGED.of(with_less_patience(made.experiment)).with_(every=1)
            changed.plan  # noqa: B018
        except UpbeatError as error:
            return _Run(variant, None, "not possible", str(error))
        run = _Run(variant, made, "not run")
        if hopeless := self.hopeless(run):
            run.state, run.why = "unstable", hopeless
        return run

    def hopeless(self, run: _Run) -> str:
        """Why it need not be run: it is proven to grow far beyond what the scenario does."""
        assert run.made is not None
        verdict = self.proofs(run.made)
        run.stability = verdict.label
        if not verdict.surely or verdict.rate is None:
            return ""
        if self.natural is None:
            fine = UNCHANGED.of(self.given)
            own = nominal_step(fine.master.pace)
            try:
                short = replace(UNCHANGED, step=min(1.0, 1e-3 * self.span / own)) if own else UNCHANGED
                self.natural = max(self.proofs(short).rate or 0.0, 0.0)
            except UpbeatError:
                self.natural = 0.0
        beyond = (verdict.rate - self.natural) * self.span
        if beyond < HOPELESS:
            return ""
        grown = "beyond all numbers" if beyond > 700 else f"{math.exp(beyond):.1g}-fold"
        return f"{verdict.label}: a motion grows {grown} within the run"

    def prepare(self, variants: Sequence[Variant]) -> list[_Run]:
        """Variants that may be run, and those that may not; what is known already is as it is."""
        for variant in variants:
            key = self.key(variant)
            if key in self.runs:
                continue
            self.progress(f"{variant}: can it be run?")
            if self.stopped.is_set() or (self.left <= 0 and self.measured):
                self.runs[key] = _Run(variant, None, "not run", "no time was left for it")
            else:
                self.runs[key] = self.prepared(variant)
        return [self.runs[self.key(variant)] for variant in variants]

    def repeats(self, variant: Variant) -> bool:
        """Whether it does the very same as another one: units that step several times together do so side by
        side, whatever the coupling of the rest."""
        run = self.prepare([variant])[0]
        if run.made is None:
            return False
        same = run.step, run.made.experiment.plan.program.steps, run.made.adapts
        for other, first in self.programs:
            if other == same:
                return first is not run
        self.programs.append((same, run))
        return False

    def all_of(self, variants: Sequence[Variant]) -> list[_Run]:
        """The runs of variants, as many at a time as there are workers. What was run before is not again."""
        found = self.prepare(variants)
        todo = [run for run in found if run.state == "not run" and run.made is not None and not run.seconds]
        if self.workers == 1:
            for run in todo:
                self.make(run)
            return found
        with ThreadPoolExecutor(self.workers, "upbeat-configure") as pool:
            waiting = {pool.submit(self.make, run) for run in todo}
            while waiting:
                try:
                    done, waiting = wait(waiting, timeout=0.5, return_when=FIRST_COMPLETED)
                    for one in done:
                        one.result()
                    self.progress(self.said)
                except KeyboardInterrupt:
                    self.interrupt()
        return found

    def interrupt(self) -> None:
        """Somebody has had enough: what is under way ends, and what there is counts."""
        self.interrupted = True
        self.stopped.set()

    @property
    def measured(self) -> list[_Run]:
        return [run for run in self.runs.values() if run.trace is not None]

    @property
    def said(self) -> str:
        spent = time.monotonic() - self.begun
        return f"{len(self.measured)} of {len(self.space)} variants run, {spent:.0f} s"

    def make(self, run: _Run) -> None:
        """Run it, unless there is no time left."""
        assert run.made is not None
        first = not self.measured
        if self.stopped.is_set() or (not first and self.left <= 0):
            run.why = "no time was left for it"
            return
        begun = time.monotonic()
        changed = UNCHANGED.of(with_less_patience(run.made.experiment)).with_(every=1)

        def report(t: float) -> None:
            part = (t - changed.span.start) / self.span
            self.progress(f"{run.variant}: {100 * part:.0f} % ({self.said})")
            if self.stopped.is_set() or (not first and self.left <= 0):
                raise _Ended

        try:
            run.trace = changed.run(report)
            run.state = "measured"
        except _Ended as error:
            run.partial, run.why = getattr(error, "trace", None), "the time was used up while it ran"
        except KeyboardInterrupt as error:
            run.partial, run.why = getattr(error, "trace", None), "interrupted"
            self.interrupt()
        except RunError as error:
            run.partial, run.state, run.why = getattr(error, "trace", None), "failed", str(error)
        except UpbeatError as error:
            run.state, run.why = "not possible", str(error)
        run.seconds = time.monotonic() - begun
        trace = run.trace or run.partial
        if trace is not None:
            run.work = _with_inner(run.made, work_of(changed, trace), trace)
        if run.trace is not None:
            run.judged = judged(self.known, run.trace)

    # ------------------------------------------------------------ which ones

    def explore(self) -> None:
        """Run what should be run."""
        if len(self.space) <= FEW:
            variants = sorted(self.space.variants(), key=lambda one: -float(one.chosen.get(STEP, 1.0)))
            self.all_of([one for one in variants if not self.repeats(one)])
            return
        ladders = [list(ladder) for ladder in self.space.ladders(MOST)]
        if len(self.space) > sum(map(len, ladders)):
            self.undone.append(f"{len(self.space) - sum(map(len, ladders)):,} variants with smaller weights")
        self.race(ladders)

    def race(self, ladders: list[list[Variant]]) -> None:
        """Ways with a long step, choice by choice; some with a shorter one; the best with the shortest."""
        last = len(ladders[0]) - 1
        rung = 1 if last > 2 else 0
        while True:
            further = self.further(ladders[0], rung)
            guide = self.guide(ladders, rung, further)
            if guide is not None and (kept := self.screened(ladders, rung, guide)):
                break
            if not self.measured:  # units may want the very step that there is now
                for present, one in enumerate(ladders[0]):
                    if one.chosen.get(STEP) == self.known.step and present != further:
                        self.guide(ladders, present, present)
            if rung >= last or self.stopped.is_set():
                return
            rung += 1  # where nothing is sound, steps are too long
        while rung < last and not self.stopped.is_set():
            further = self.further(ladders[0], rung)
            runs = self.all_of([ladder[further] for ladder in kept])
            good = self.sound(runs)
            kept = [ladder for ladder, run in zip(kept, runs, strict=True) if run in good]
            if not kept or further == last:
                return
            if self.unclear(kept, rung, further):
                rung = further
                continue
            for ladder in self.finalists(kept, rung, further):
                last_run = self.prepare([ladder[last]])[0]
                done = [
                    run
                    for run in self.measured
                    if run.variant is not guide.variant and run.step <= last_run.step
                ]
                if not done or self.affordable(last_run, ladder, further):
                    self.all_of([ladder[last]])
            return

    def further(self, ladder: list[Variant], rung: int) -> int:
        """The next rung with a step that is clearly shorter; the last one, if there is none."""
        long = float(ladder[rung].chosen.get(STEP, 1.0))
        steps = [float(one.chosen.get(STEP, 1.0)) for one in ladder]
        shorter = [k for k, step in enumerate(steps) if SHORTER * step <= long * (1.0 + 1e-9)]
        return min(shorter, default=len(ladder) - 1)

    def screened(self, ladders: list[list[Variant]], rung: int, guide: _Run) -> list[list[Variant]]:
        """The ways that are nearest to the guide, which is among them; nothing, where all are far away.

        One choice after the other is made, those that cost most first; what was nearly as good in one is
        tried again when the others have changed. So all other ways differ from a good one in one choice.
        """
        by_path = {ladder[0].way: ladder for ladder in ladders}
        own = by_path[guide.variant.way]
        names = [name for name, _ in ladders[0][0].path if name != STEP]

        seen: dict[tuple[Any, ...], list[Variant]] = {}

        def tried(these: Iterable[list[Variant]]) -> None:
            unseen = [one for one in these if one[0].way not in seen and not self.repeats(one[rung])]
            runs = self.all_of([one[rung] for one in unseen])
            good = self.sound(runs)
            seen.update((one[0].way, one) for one, run in zip(unseen, runs, strict=True) if run in good)

        def order(ladder: list[Variant]) -> tuple[Any, ...]:
            run = self.runs[self.key(ladder[rung])]
            return (*self.standing(run, guide), self.between(run, guide), run.work.total)

        tried([own])
        lost = not seen or self.between(self.runs[self.key(own[rung])], guide) > LARGE
        if lost and self.affordable(guide, own, self.further(own, rung)):
            return []  # so long a step says nothing of what is better
        for start in ladders if not seen else ():
            tried([start])
            if seen or self.stopped.is_set() or self.left <= 0:
                break
        if not seen:
            return []
        best = next(iter(seen.values()))
        near: list[list[Variant]] = []
        names.sort(
            key=lambda name: -len({self.cost(one) for one in ladders if self.varies(one, best, [name])})
        )
        for name in names:
            before = best
            tried(one for one in ladders if self.varies(one, best, [name]))
            best = min(seen.values(), key=order)
            if best is not before:  # what was nearly as good may be better with it
                tried(
                    one
                    for one in ladders
                    for other in near
                    if self.varies(one, other, [name]) and self.alike(one, best, name)
                )
                best = min(seen.values(), key=order)
            near = [one for one in seen.values() if order(one)[:2] == order(best)[:2]
                    and order(one)[2] <= NEAR * order(best)[2]]  # fmt: skip
        ranked = sorted(seen.values(), key=order)
        if order(ranked[0])[2] > LARGE and self.affordable(guide, own, self.further(own, rung)):
            return []
        first = [own] if own[0].way in seen else []
        return [*first, *(one for one in ranked if one is not own)][:KEPT]

    def varies(self, one: list[Variant], other: list[Variant], names: Sequence[str]) -> bool:
        """Whether two ways differ in these choices, and in no other."""
        a, b = one[0].chosen, other[0].chosen
        return all((str(a[k]) == str(b[k])) is (k not in names) for k in a if k != STEP)

    def cost(self, ladder: list[Variant]) -> float:
        """How many calls a communication step of a way means."""
        runs = (self.runs[self.key(one)] for one in ladder if self.key(one) in self.runs)
        made = next((run.made for run in runs if run.made is not None), None)
        if made is None:
            return math.inf
        return float(calls_per_step(made.experiment) + _inner_calls(made.variant))

    def alike(self, one: list[Variant], other: list[Variant], name: str) -> bool:
        """Whether two ways have the same option of a choice."""
        return str(one[0].chosen[name]) == str(other[0].chosen[name])

    def affordable(self, run: _Run, ladder: list[Variant], rung: int) -> bool:
        """Whether a run is little beside all that could be run."""
        spent = sum(each.work.total for each in self.runs.values())
        known = self.runs[self.key(ladder[rung])]
        cost = known.work.total * known.step / run.step
        everything = (
            len(self.space)
            / len(ladder)
            * sum(cost * run.step / float(one.chosen.get(STEP, run.step)) for one in ladder)
            / 2
        )
        return spent + cost <= PART * everything

    def sound(self, runs: Sequence[_Run]) -> list[_Run]:
        """Those that came to their end, without those that have grown far beyond the others."""
        done = [run for run in runs if run.trace is not None]
        sizes = {run: _size(run.trace) for run in done if run.trace is not None}
        usual = float(np.median(list(sizes.values()))) if sizes else 0.0
        least = min(sizes.values(), default=0.0)
        found = []
        far = max(GROWN * least, 10 * usual, 1e-300) if done else math.inf
        for run in done:
            if math.isfinite(sizes[run]) and sizes[run] <= far:
                found.append(run)
            else:
                run.state, run.why = "diverged", f"values grow up to {sizes[run]:.2g}"
        for run in runs:
            if run.state == "failed" and run.partial is not None and _size(run.partial) > min(far, LOST):
                run.state = "diverged"
        return found

    def guide(self, ladders: list[list[Variant]], long: int, rung: int) -> _Run | None:
        """A run with a shorter step that tells which of the others are near to the truth. Before it the same
        way is run with `long` steps."""
        failed: Counter[tuple[str, str]] = Counter()
        rest = sorted(ladders, key=lambda ladder: (-self.order(ladder[0]), _inner_calls(ladder[0])))
        while rest:  # what failed before is most likely to fail again
            rest.sort(key=lambda ladder: sum(failed[option] for option in _options(ladder[0])))
            ladder = rest.pop(0)
            for k in dict.fromkeys((0, long, rung)):
                run = self.all_of([ladder[k]])[0]
                if run.state == "no valid order":
                    break  # whatever the step
            if run.trace is not None and math.isfinite(_size(run.trace)):
                return run
            if self.stopped.is_set() or self.left <= 0:
                return None
            failed.update(run.blamed)
        return None

    def order(self, variant: Variant) -> float:
        """With which power of the step the error of a variant should fall."""
        master = self.given.master
        coupling, inputs = master.coupled, convergence(master.approximated)
        ports: list[int] = []
        for one in variant.adaptations:
            match one:
                case Decision("coupling", value):
                    coupling = value
                case Decision("inputs", value):
                    inputs = convergence(value)
                case Extrapolated(_, degree):
                    ports.append(degree + 1)
                case Corrected(_, degree):
                    ports.append(degree + 2)
        order = float(min([inputs, *ports]))
        return order if order < 3 or hasattr(coupling, "corrections") else order - 1.0

    def standing(self, run: _Run, truer: _Run) -> tuple[int, float]:
        """Hints that hold, and by how much; the smaller the better. What holds by more than in a run that is
        nearer to the truth is no better for it: that is its error."""
        holding = sum(one.verdict == "holds" for one in run.judged)
        return -holding, -min(self.robust(run), self.robust(truer))

    def robust(self, run: _Run) -> float:
        """The least robustness, each relative to the largest of all runs, in steps that count."""
        values = [math.inf]
        for k, one in enumerate(run.judged):
            if not math.isfinite(one.robustness):
                continue
            others = [r.judged[k].robustness for r in self.measured if len(r.judged) == len(run.judged)]
            largest = max((abs(v) for v in others if math.isfinite(v)), default=0.0)
            values.append(one.robustness / largest if largest else 0.0)
        least = min(values)
        return least if math.isinf(least) else round(least / DECIDES) * DECIDES

    def between(self, one: _Run, other: _Run) -> float:
        """How far two runs are apart."""
        if one.trace is None or other.trace is None:
            return math.inf
        return self._apart(one, other)[0]

    def _apart(self, one: _Run, other: _Run) -> tuple[float, str]:
        key = (id(one), id(other))
        if key not in self._distances:
            assert one.trace is not None
            assert other.trace is not None
            found = apart(one.trace, other.trace)
            self._distances[key] = found.size, found.worst or found.why
        return self._distances[key]

    def truest(self, runs: Collection[_Run]) -> _Run:
        """The run that is nearest to what the same way gave with longer steps: it has settled best."""

        def change(run: _Run) -> float:
            longer = self.with_longer_steps(run)
            if not longer:
                return math.inf
            ratio: float = (run.made_steps / longer[0].made_steps) ** max(self.order(run.variant), 1.0)
            return self.between(longer[0], run) * ratio

        return min(runs, key=change)

    def with_longer_steps(self, run: _Run) -> list[_Run]:
        """The runs that differ from one in their steps alone, which were longer, the next one first."""
        found = [
            each
            for each in self.measured
            if each.state == "measured"
            and each.variant.way == run.variant.way
            and each.made_steps > LONGER * run.made_steps
        ]
        return sorted(found, key=lambda each: each.made_steps)

    def unclear(self, kept: list[list[Variant]], rung: int, further: int) -> bool:
        """Whether errors are still so large that nothing can be said of how they fall."""
        best = self.truest([self.runs[self.key(one[further])] for one in kept])
        before = [self.runs[self.key(one[rung])] for one in kept]
        return all(self.between(run, best) > LARGE for run in before)

    def finalists(self, kept: list[list[Variant]], rung: int, further: int) -> list[list[Variant]]:
        """The ways that should be best with the shortest step: one, or two that are close."""
        best = self.truest([self.runs[self.key(one[further])] for one in kept])
        predicted: list[tuple[tuple[Any, ...], float, list[Variant]]] = []
        for ladder in kept:
            long, short = self.runs[self.key(ladder[rung])], self.runs[self.key(ladder[further])]
            first = self.between(long, short if short is best else best)
            order = self.order(short.variant)
            if short is best:
                now = first * (short.step / long.step) ** order
            else:
                now = self.between(short, best)
                if 0 < now < first:
                    order = min(
                        max(math.log(first / now) / math.log(long.step / short.step), 0.5), order + 1.0
                    )
            final = now * (float(ladder[-1].chosen.get(STEP, short.step)) / short.step) ** order
            predicted.append((self.standing(short, best), float(final), ladder))
        predicted.sort(key=lambda one: (one[0], one[1]))
        standing, error, _ = predicted[0]
        return [one[2] for one in predicted[:2] if one[0] == standing and one[1] <= CLOSE * max(error, 1e-13)]

    # ------------------------------------------------------------ the answer

    def found(self) -> Configuration:
        """What is recommended."""
        try:
            with quietly():
                self.explore()
            return self.answer()
        except KeyboardInterrupt:
            self.interrupt()
            return self.answer()

    def answer(self) -> Configuration:
        """The variants that were looked at, ranked."""
        self.progress("ranking")
        runs = [run for run in self.runs.values() if run.state != "not run" or run.why]
        good = self.sound(runs)
        rows = self.rows(runs, good)
        best = rows[0] if rows and rows[0].state == "measured" else None
        if self.proofs.stopped:
            self.undone.append("proofs of stability for all variants: they take too much of the time")
        left_out = [run for run in runs if run.state == "not run"]
        if left_out:
            plural = "s" if len(left_out) > 1 else ""
            self.undone.append(f"{len(left_out)} variant{plural} for which no time was left")
        untold = {one.name: one.reason for one in best.hints if one.verdict == "undecided"} if best else {}
        for name, why in untold.items():
            self.notes.append(f"{name}: {why}")
        return Configuration(
            rows,
            best,
            self.reason(best, runs),
            len(self.space),
            sum(run.work.total for run in runs),
            time.monotonic() - self.begun,
            self.known.hints,
            tuple(dict.fromkeys(self.notes)),
            tuple(self.undone),
            self.interrupted,
            self.given,
        )

    def rows(self, runs: Sequence[_Run], good: Sequence[_Run]) -> tuple[Tried, ...]:
        """All variants that were looked at, the best first."""
        reference = self.reference(good)
        own = None if reference is None else self.own_error(reference)
        settled = own is not None and own.least <= LARGE
        # What holds by more than in the run that is nearest to the truth is no better for it.
        most = self.robust(reference) if settled and reference is not None else math.inf
        ranked: list[_Ranked] = []
        for run in runs:
            error, where, distance = None, "", math.inf
            if reference is not None and run in good:
                distance, where = self._apart(run, reference)
                if own is not None:
                    error, where = distance + own.most, own.worst if run is reference else where
            one = Tried(
                run.variant,
                run.state,
                run.judged,
                self.robust(run) if run in good else math.nan,
                error,
                where,
                run.work.total if run.trace is not None else None,
                run.seconds or None,
                run.stability,
                run.why,
                run.made,
                run.trace,
            )
            # Where the reference has not settled itself, nothing but the distance to it can be compared.
            told = distance + own.least if settled and own is not None else distance
            robust = 0.0 if math.isnan(one.robustness) else min(one.robustness, most)
            ranked.append(_Ranked(max(told, self.tolerance), robust, one))
        return tuple(each.row for each in sorted(ranked, key=lambda each: self.rank(each, ranked)))

    def rank(self, one: _Ranked, all_: Sequence[_Ranked]) -> tuple[Any, ...]:
        error, robust, row = one
        if row.state != "measured":
            return 1, 0, 0.0, 0.0, row.work or math.inf
        # Errors that are alike are told apart by work: they count in steps of this factor from the least.
        rivals = [r for r in all_ if r.row.state == "measured" and r.row.satisfied == row.satisfied]
        least = min((r.error for r in rivals if r.robust == robust), default=error)
        if math.isfinite(error) and least > 0:
            error = math.floor(math.log(error / least) / math.log(ALIKE) + 1e-9)
        return 0, -row.satisfied, -robust, error, row.work or 0

    def reference(self, good: Sequence[_Run]) -> _Run | None:
        """The run that others are compared with: of those with the shortest steps, the one that settled."""
        if not good:
            return None
        shortest = min(run.step for run in good)
        return self.truest([run for run in good if run.step <= shortest * (1 + 1e-9)])

    def own_error(self, reference: _Run) -> _Own | None:
        """The error of the reference, from what it has changed by since steps were longer; None where there
        was no such run."""
        longer = self.with_longer_steps(reference)
        if not longer:
            return None
        near = longer[0]
        size, worst = self._apart(near, reference)
        order = max(min(self.order(reference.variant), 4.0), SLOWEST)
        surely = min(order, 1.0)  # as long as nothing shows that errors fall as they should
        if len(longer) > 1 and size > 0:  # they fall as they did before, or as they should: no quicker
            before = self.between(longer[1], near)
            steps = longer[1].made_steps / near.made_steps
            seen = math.log(before / size) / math.log(steps) if 0 < before < math.inf else SLOWEST
            surely = SLOWEST if seen < USUAL * order else min(order, seen)
            order = max(min(order, seen), SLOWEST)
        left = [1.0 / ((near.made_steps / reference.made_steps) ** power - 1.0) for power in (order, surely)]
        return _Own(size * left[0], size * left[1], worst)

    def reason(self, best: Tried | None, runs: Sequence[_Run]) -> str:
        if best is None or best.made is None:
            return f"Undecided, because {self.why_nothing(runs)}."
        count = len(self.known.hints) + len(self.given.scenario.properties)
        said = f"Take {best.variant}"
        if best.made.adapts:
            said += "; adapt " + "; ".join(f"{unit}: {', '.join(t)}" for unit, t in best.made.adapts.items())
        parts = []
        if count:
            parts.append(f"{best.satisfied} of {len(best.hints)} hints and properties hold")
        if best.error is None:
            parts.append(
                "nothing is known of its error, as there is no run with longer steps to compare it with"
            )
        elif math.isinf(best.error):
            parts.append("its error is not known, as events are others than with longer steps")
        else:
            large = ", which is not good: it takes shorter steps still" if best.error > LARGE else ""
            parts.append(
                f"the error of {best.worst or 'all signals'} is about {best.error:.2g} of its range{large}"
            )
        parts.append(f"{best.work:,} calls of units and steps of their solvers")
        said += f": {', '.join(parts)}."
        failed = [one.name for one in best.hints if one.verdict == "violated"]
        if failed:
            do = "do" if len(failed) > 1 else "does"
            said += (
                f" No variant that was tried satisfies all: {', '.join(failed)} {do} not hold in this one."
            )
        for one in best.hints:
            if one.verdict == "undecided":
                said += f" {one.name} is {one.reason if one.reason.startswith('undecided') else one.verdict}."
        return said

    def why_nothing(self, runs: Sequence[_Run]) -> str:
        if self.interrupted:
            return "it was interrupted before a variant came to its end"
        if runs and all(run.state == "no valid order" for run in runs):
            return f"no variant can be carried out: {runs[0].why}"
        told = dict.fromkeys(f"{run.state}: {run.why}" if run.why else run.state for run in runs)
        return "no variant came to its end: " + "; ".join(list(told)[:3]) if told else "there are no variants"


def _watched(made: Experiment, properties: Sequence[Any]) -> Experiment:
    """The experiment with the conditions of hints as properties, and what they read recorded."""
    if not properties:
        return made
    scenario = made.scenario.with_parts(properties=(*made.scenario.properties, *properties))
    record = made.record
    if record is not None:
        closed = scenario.closed() if made.signals is None else made.with_(scenario=scenario).closed
        signals = {name for one in closed_properties(closed) for name in one.signals}
        record = (*record, *sorted(signals))
    return made.with_(scenario=scenario, record=record)


def _options(variant: Variant, inputs: Collection[str] = ()) -> set[tuple[str, str]]:
    """What it has chosen, but for the step; of that what adapts one of these inputs, if there are some."""

    def adapts(option: Option) -> bool:
        named = [getattr(one, "ports", (getattr(one, "port", ""),)) for one in option.adaptations]
        return not inputs or any(port in inputs for ports in named for port in ports)

    return {(name, str(option.value)) for name, option in variant.path if name != STEP and adapts(option)}


def _inner_calls(variant: Variant) -> int:
    """The calls that units make inside, in a step, beside the one that is counted anyway."""
    return sum(a.rate - 1 for a in variant.adaptations if isinstance(a, Rated) and len(a.units) == 1)


def _with_inner(made: Realised, work: Work, trace: Trace) -> Work:
    """Work with the calls that units make inside, which step several times per communication step."""
    steps = trace.steps.count + trace.steps.rejected
    return Work(work.calls + _inner_calls(made.variant) * steps, work.solver_steps)


def _size(trace: Trace) -> float:
    """The largest value of all real signals."""
    sizes = [0.0]
    for column in trace.columns:
        if column.kind is Kind.REAL:
            values = np.asarray(trace[column.name], dtype=float)
            with np.errstate(all="ignore"):
                largest = float(np.max(np.abs(values), initial=0.0))
            sizes.append(largest if not math.isnan(largest) else math.inf)
    return max(sizes)
