"""The verdict on a coupled scenario: can its co-simulation be trusted, and what would have to change."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf, isfinite, log10
from typing import Any, Unpack

from upbeat.core.display import Displayed
from upbeat.core.errors import InvalidInput, RunError, StepError, check_type
from upbeat.core.replay import no_longer_than
from upbeat.core.time import checked_step
from upbeat.engine.experiment import Experiment
from upbeat.engine.settings import Settings
from upbeat.scenario.scenario import Scenario
from upbeat.stability.budget import Budget, checked_seconds
from upbeat.stability.linear.followed import USUAL, Induced, Verdict
from upbeat.stability.linear.induced import At, Inducing, experiment_of, step_of
from upbeat.stability.verdicts.pieces import settled
from upbeat.stability.verdicts.spectrum import NO_SPECTRUM, UNKNOWN, Judged, Mode, Spectrum, spectrum
from upbeat.stability.verdicts.steps import Spent, Steps, stable_steps

Report = Callable[[str], None]
"""Is told how far one has come."""
PER_DECADE = 10
"""How many steps are looked at between one and ten times its size, in scenarios that are not large."""
HUGE = 1e280
DECADES = 20
"""The most powers of ten that a scan goes over."""
MAX_POINTS = 10_000
"""The most steps that a scan looks at."""
SECONDS = 60.0
"""How much work of the processor looking for stable steps may take, unless told."""
LARGE = 250
"""An extended state with more entries is looked at for its own step only, unless more is asked for."""


@dataclass(frozen=True)
class Stability(Displayed):
    """The verdict on one scenario under one master.

    `verdict` is "stable" (every motion decays), "unstable" (some motion grows) or "undecided". It holds
    everywhere if the scenario is proven to be `linear`; otherwise it is *local*, about small motions around
    the operating point, and says so wherever it is shown.
    """

    verdict: Verdict
    model: Induced
    spectrum: Spectrum
    steps: Steps | None
    """Which other steps are stable; None if they were not looked for."""
    unlooked: str = ""
    """Why not, in words."""
    no_matrix: str = ""
    """Why there is no matrix for this step, in a sentence; empty if there is one."""

    @property
    def step(self) -> float:
        return self.model.step

    @property
    def linear(self) -> bool:
        return self.model.linear

    @property
    def local(self) -> bool:
        return not self.model.linear

    @property
    def why(self) -> str:
        """Why the verdict is "undecided"; empty where it is not."""
        if self.verdict != "undecided":
            return ""
        if seen := self.no_matrix or self.model.unseen:
            return seen
        mode, free = self.mode, self.spectrum.free
        if not free or (mode.radius >= 1.0 and mode not in free):
            unsure = f"(it is known to ±{mode.uncertainty:.1g})"
            return f"the largest eigenvalue, {mode.radius:.16g}, cannot be distinguished from 1 {unsure}"
        names = ", ".join(dict.fromkeys(name for one in free for name, _ in one.ports[:1]))
        motions, like = (
            (f"one free motion ({names}) neither decays nor grows", "that")
            if len(free) == 1
            else (f"{len(free)} free motions ({names}) neither decay nor grow", "those")
        )
        others = (
            "" if mode in free else f"; all others decay, the slowest to {mode.radius:.10g} with every step"
        )
        return f"{motions}, as {like} of a body that nothing holds{others}"

    @property
    def labelled(self) -> str:
        """The verdict as it is shown: local where it does not hold everywhere."""
        return f"locally {self.verdict}" if self.local and self.verdict != "undecided" else self.verdict

    @property
    def spectral_radius(self) -> float:
        """By how much, at most, a motion grows over one communication step in the long run."""
        return self.spectrum.radius

    @property
    def mode(self) -> Mode:
        """The motion that decides."""
        return self.spectrum.dominant

    @property
    def margin(self) -> float:
        """How far the deciding eigenvalue is inside the unit circle; negative: outside; 0 where undecided."""
        return 0.0 if self.verdict == "undecided" else 1.0 - self.mode.radius

    @property
    def largest_stable_step(self) -> float | None:
        """The end of the smallest stable steps; None: unknown, or there are none (see `Steps.largest`)."""
        return self.steps.largest if self.steps is not None else None

    @property
    def open(self) -> bool | None:
        """Whether that is only where the search ended: larger steps may be stable; None without it."""
        return self.steps.open if self.steps is not None else None

    def data(self) -> dict[str, Any]:
        """Everything but the matrix, for JSON."""
        mode = self.mode
        return {
            "verdict": self.verdict,
            "local": self.local,
            "spectral_radius": None if self.no_matrix else self.spectral_radius,
            "why": self.why or None,
            "margin": self.margin,
            "step": self.step,
            "largest_stable_step": self.largest_stable_step,
            "open": self.open,
            "stable_steps": None if self.steps is None else [[i.low, i.high] for i in self.steps.stable],
            "undecided_steps": None
            if self.steps is None
            else [[i.low, i.high] for i in self.steps.undecided],
            "sampled_only": None if self.steps is None or not self.steps.loose else list(self.steps.loose),
            "steps_sampled": None if self.steps is None else self.steps.samples,
            "finest_gap": None if self.steps is None else self.steps.gap,
            "undecided_why": None if self.steps is None else self.steps.why or None,
            "steps_inside": None if self.steps is None else list(self.steps.inside),
            "unlooked_why": self.unlooked or (self.steps.unlooked if self.steps is not None else "") or None,
            "steps_looked_at": None
            if self.steps is None
            else [self.steps.looked[0][0], self.steps.looked[-1][0]],
            "mode": None
            if self.no_matrix
            else {
                "eigenvalue": [mode.value.real, mode.value.imag],
                "uncertainty": mode.uncertainty if isfinite(mode.uncertainty) else None,
                "frequency": mode.frequency(self.step),
                "rate": rate if isfinite(rate := mode.rate(self.step)) else None,
                "ports": {name: round(share, 4) for name, share in mode.ports},
            },
            "free_motions": len(self.spectrum.free),
            "size": self.model.size,
            "steps_together": self.model.steps,
            "at": "rest" if self.model.rest else self.model.at,
            "rest_point": dict(self.model.point) if self.model.rest else None,
            "notes": list(self.model.notes),
            "assumed": list(self.model.assumed),
        }


def stability_of(
    given: Scenario | Experiment,
    *,
    step: float | None = None,
    at: At = "start",
    ideal: bool = False,
    block: str = USUAL,
    scan: bool | tuple[float, float] | None = None,
    points: int | None = None,
    seconds: float = SECONDS,
    patience: float = inf,
    report: Report | None = None,
    **settings: Unpack[Settings],
) -> Stability:
    """Whether the co-simulation of a scenario is stable, before it runs.

        up.stability_of(scenario, pace=0.01, coupling="gauss_seidel")
        up.stability_of(up.load("scenario.toml"), step=0.02)

    The program that would run is followed for one communication step of size `step` (that of a fixed pace,
    unless given), which gives the matrix that a step applies to all that it takes over from the step before.

    Units that are not linear are linearised: `at` the "start", at "rest" (a point that a step leaves as it
    is, searched for), or at a time of the run. `ideal` judges the coupling alone, as if units made no error
    of their own. `block` is the step block that is judged, where the coupling has several (`Variants`).
    `scan` says whether to find the stable ones among other steps as well (of small scenarios, unless told),
    or between which two; `points` how many are looked at. That may take so many `seconds` of the processor;
    steps that it does not come to then are undecided. So is everything, if it takes longer than `patience`.
    `report` is told how far it has come.
    """
    _check_scan(scan)
    check_type(block, str, "block")
    check_type(ideal, bool, "ideal")
    _check_patience(patience)
    if points is not None and (isinstance(points, bool) or not isinstance(points, int)):
        raise InvalidInput(f"points must be a whole number, not {points!r:.60}")
    if report is not None and not callable(report):
        raise InvalidInput(f"report must be a function, not {report!r}")
    made = experiment_of(given, settings, step)
    size = step_of(made, step)
    with no_longer_than(patience), Inducing(made, ideal=ideal, blocks=(block,)) as inducing:
        no_matrix = ""
        try:
            model = settled(inducing, size, at)
            found = spectrum(model)
        except StepError as error:
            if not error.unending:
                raise
            model, found, no_matrix = inducing.without_matrix(size, at), NO_SPECTRUM, str(error)
        unlooked = _unlooked(model, at) if scan is None else ""
        steps = None
        if scan or (scan is None and not unlooked):
            span = made.span.stop - made.span.start
            looking = _Looking(inducing, at, seconds, report)
            steps = _steps(looking, size, scan or True, points, span, model.linear)
        return Stability(found.judged.verdict, model, found, steps, unlooked, no_matrix)


def _check_patience(patience: object) -> None:
    if not (isinstance(patience, float) and patience == inf):
        checked_seconds(patience)


def _check_scan(scan: object) -> None:
    pair = isinstance(scan, (tuple, list)) and len(scan) == 2
    if not (scan is None or isinstance(scan, bool) or pair):
        raise InvalidInput(f"scan is True, False, or two steps such as (0.01, 1.0), not {scan!r}")


def _unlooked(model: Induced, at: At) -> str:
    """Why other steps are not looked at unless asked for; nothing if they are."""
    if model.unseen:
        return "of no step can be told more than that"
    if model.size > LARGE:
        return f"{model.size} entries make that slow; ask for it with scan"
    if not 1.0 / HUGE < model.step < HUGE:
        return f"steps around {model.step:g} s are beyond the precision of numbers"
    if not model.linear and at not in ("start", "rest"):
        return "every step would mean another run to that time; ask for it with scan"
    return ""


def induced(
    given: Scenario | Experiment,
    *,
    step: float | None = None,
    at: At = "start",
    ideal: bool = False,
    block: str = USUAL,
    patience: float = inf,
    **settings: Unpack[Settings],
) -> Induced:
    """The matrix that one communication step applies to the extended state; arguments: see `stability_of`."""
    _check_patience(patience)
    made = experiment_of(given, settings, step)
    with no_longer_than(patience), Inducing(made, ideal=ideal, blocks=(block,)) as inducing:
        return inducing.model(step_of(made, step), at)


class _Looking:
    """Looks at one step after the other until its budget is spent, and remembers what it saw."""

    def __init__(self, inducing: Inducing, at: At, seconds: float, report: Report | None) -> None:
        self.inducing, self.seconds = inducing, seconds
        self._at, self._report, self._budget = at, report, Budget(seconds)
        self._seen: dict[float, Judged] = {}
        self._models: dict[float, Induced | None] = {}
        self.reason = ""
        """Why there is no matrix for some step, if so."""

    def __call__(self, size: float) -> Judged:
        """The first look is free: nothing could be said without it."""
        size = self.inducing.fitting(size)
        if size not in self._seen:
            if self._seen and self._budget.over:
                raise Spent
            if self._report is not None:
                self._report(f"looking for stable steps: {len(self._seen) + 1} looked at, now {size:.4g} s")
            self._seen[size] = self._look(size)
        return self._seen[size]

    def _look(self, size: float) -> Judged:
        try:
            self._models[size] = model = settled(self.inducing, size, self._at)
            return spectrum(model).judged
        except (RunError, OverflowError, InvalidInput) as error:
            self._models[size] = None
            self.reason = str(error)
            return UNKNOWN  # no point to stand on: numbers grow out of bounds, or rest is not found

    def model(self, size: float) -> Induced | None:
        """The matrix of a step, if it has one; it is not judged."""
        if size not in self._models:
            if self._budget.over:
                raise Spent
            if self._report is not None:
                self._report(f"looking between stable steps, now {size:.4g} s")
            try:
                self._models[size] = self.inducing.model(size, self._at)
            except (RunError, OverflowError, InvalidInput):
                self._models[size] = None
        return self._models[size]


def _steps(
    of: _Looking,
    step: float,
    scan: bool | tuple[float, float],
    points: int | None,
    span: float,
    linear: bool,
) -> Steps:
    if not isinstance(scan, bool):
        low, high = (checked_step(end, "an end of scan") for end in scan)
        if not low < high:
            raise InvalidInput(f"scan goes from a smaller step to a larger one, not from {low:g} to {high:g}")
    else:
        # Linearisations are about steps that are not too different; and their points move with the step.
        wide = 10.0 if linear else 1.0
        if not 1.0 / HUGE < step < HUGE:
            raise InvalidInput(
                f"steps around {step:g} s are beyond the precision of numbers: give both ends of scan"
            )
        low, high = step / (10.0 * wide), max(2.0 * step, min(10.0 * wide**2 * step, span))
        with suppress(Spent):
            while low > 1e-8 * step and of(low).verdict == "unstable":
                of(low / 100.0)  # there, or not at all
                low /= 100.0
    decades = log10(high) - log10(low)
    if decades > DECADES:
        raise InvalidInput(
            f"a scan from {low:g} to {high:g} goes over {decades:.0f} powers of ten, and {DECADES} are the "
            "most: look at fewer (scan=…, --scan)"
        )
    count = round(PER_DECADE * decades) + 1 if points is None else points
    if count < 2:
        raise InvalidInput(f"points must be at least 2, not {points!r}")
    if count > MAX_POINTS:
        raise InvalidInput(f"a scan looks at {MAX_POINTS:,} steps at most, not at {count:,} (points=…)")
    # Steps that fit others are no continuum, and operating points move with the step.
    models = of.model if linear and not of.inducing.inside else None
    found = stable_steps(of, low, high, count, deep=6 if linear else 2, models=models)
    last = found.looked[-1][0]
    spent = found.undecided and found.undecided[-1].high > last
    words = f"looked up to {last:.6g} s, then the budget of {of.seconds:g} s was spent" if spent else ""
    found = replace(found, why=of.reason, unlooked=words)
    inside = of.inducing.inside
    return found.fitted(of.inducing.fitting, inside) if inside else found
