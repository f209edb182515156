"""Stability along a run: what is not linear, linearised at every communication point that the run passes."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from math import inf, isfinite, log
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from upbeat.core.display import Displayed
from upbeat.core.errors import InvalidInput, StepError
from upbeat.engine.experiment import Experiment
from upbeat.engine.settings import Settings
from upbeat.master.paces.pace import equal_steps
from upbeat.scenario.scenario import Scenario
from upbeat.stability.budget import Budget
from upbeat.stability.linear.flows import balanced
from upbeat.stability.linear.followed import Verdict
from upbeat.stability.linear.induced import Inducing, experiment_of
from upbeat.stability.verdicts.spectrum import radius
from upbeat.trace.trace import Trace

Array = npt.NDArray[np.float64]
SECONDS = 60.0
"""How much work of the processor following a run may take, unless told."""
MAX_STEPS = 20_000
"""The most steps that are followed."""
SMALLEST = 5e-324


@dataclass(frozen=True)
class Along(Displayed):
    """Small deviations from a run, followed from step to step; always local.

    `radius` has the spectral radius of every step at `times`, as if the run stood still there; alone it
    proves nothing, because one step may undo what another does. `rate` is by how much the logarithm of
    deviations grows per second, and decides: "stable" if they die out, "unstable" if they grow, "undecided"
    where `uncertainty` leaves both open.

    The rate is that of the spectral radius of all steps together: what they do if they come again and again.
    It is uncertain by as much as each half of the run says something else, and by how much more than that
    some deviation grew for the time being, measured in the units in which that is least. So neither units
    of measure nor what soon passes decide anything, and a run that is too short leaves everything open.
    So does one on which modes change (a relay that switches, a sign): `why` says where.
    """

    verdict: Verdict
    rate: float
    times: Array
    radius: Array
    uncertainty: float
    why: str = ""
    """Why nothing can be decided, in words: modes change along the run. It is followed up to there only."""

    def data(self) -> dict[str, Any]:
        """For JSON."""
        worst = int(self.radius.argmax())
        return {
            "verdict": self.verdict,
            "local": True,
            "rate": self.rate,
            "uncertainty": self.uncertainty if isfinite(self.uncertainty) else None,
            "why": self.why or None,
            "from": float(self.times[0]),
            "to": float(self.times[-1]),
            "largest_spectral_radius": float(self.radius[worst]),
            "at": float(self.times[worst]),
        }


def stability_along(
    given: Scenario | Experiment,
    trace: Trace | None = None,
    *,
    ideal: bool = False,
    seconds: float = SECONDS,
    **settings: Unpack[Settings],
) -> Along:
    """Whether small deviations from a run die out, linearised at every step.

        up.stability_along(up.load("pendulum.toml"))
        up.stability_along(experiment, trace)

    The steps are those of a recorded `trace` of the experiment, whatever pace chose them, or those of its
    fixed pace. That may take so many `seconds` of the processor; then it ends with a message.
    """
    made = experiment_of(given, settings)
    steps = _steps(made, trace)
    times: list[float] = []
    found: list[float] = []
    halves = [_Product(), _Product()]
    moves = np.zeros(0, dtype=bool)
    with Inducing(made, ideal=ideal, sizes=steps) as inducing:
        budget = Budget(seconds)
        for model in inducing.along(steps):
            if budget.over:
                raise InvalidInput(
                    f"followed {len(found)} of {len(steps)} steps, up to t = {model.at:.6g} s, then the "
                    f"budget of {seconds:g} s was spent. Follow a shorter run (until=…, --until) or allow "
                    "more (seconds=…, --seconds)"
                )
            first, number = inducing.first, inducing.first + len(found)
            if not np.isfinite(model.matrix).all():
                raise StepError(
                    f"the derivatives of the step at t = {model.at:.6g} s are not finite: nothing linear "
                    "comes close to it there. Follow a run that ends before (until=…)."
                )
            late = 2 * (number - first) >= len(steps) - first
            halves[late].add(inducing.whole, steps[number], model.accuracy * (8 + model.size) + inducing.off)
            moves = inducing.moves if not len(moves) else moves | inducing.moves
            times.append(model.at)
            found.append(radius(model.matrix))
        why = inducing.crossed
    if why:
        return Along("undecided", 0.0, np.array(times), np.array(found), inf, why)
    if len(found) < 4:
        raise InvalidInput("a run of fewer than four steps, after its histories are filled, says too little")
    rate, uncertainty = _rate(*(half.of(moves) for half in halves))
    sure = abs(rate) > uncertainty
    verdict: Verdict = "undecided" if not sure else "stable" if rate < 0.0 else "unstable"
    return Along(verdict, rate, np.array(times), np.array(found), uncertainty)


class _Product:
    """The matrices of some steps, multiplied; its size apart, because it may be beyond all numbers."""

    def __init__(self) -> None:
        self.matrix: Array = np.zeros((0, 0))
        self.log = self.span = self.blur = 0.0

    def add(self, matrix: Array, step: float, blur: float) -> None:
        """Another step; its logarithm may be off by `blur`."""
        together = matrix @ self.matrix if len(self.matrix) else matrix
        size = float(np.abs(together).max(initial=0.0))
        self.matrix = together / size if size > 0.0 else together
        self.log += log(max(size, SMALLEST))
        self.span += step
        self.blur += blur

    def of(self, entries: npt.NDArray[np.bool_]) -> _Product:
        """The same about some of the entries."""
        part = copy(self)
        part.matrix = self.matrix[np.ix_(entries, entries)]
        return part

    @property
    def rate(self) -> float:
        """By how much the logarithm of a motion grows per second, in the long run."""
        return (self.log + log(max(radius(self.matrix), SMALLEST))) / self.span

    @property
    def peak(self) -> float:
        """The same for what grows most for the time being, in the units of measure in which that is least."""
        left = np.arange(len(self.matrix))
        while True:  # without what is forgotten, and what nothing depends on
            part = self.matrix[np.ix_(left, left)]
            used = part.any(axis=0) & part.any(axis=1)
            if used.all():
                break
            left = left[used]
        size = float(np.linalg.norm(balanced(part)[0], 2)) if len(left) else 0.0
        return (self.log + log(max(size, SMALLEST))) / self.span


def _rate(early: _Product, late: _Product) -> tuple[float, float]:
    """How fast deviations grow over both, and how well that is known."""
    both = copy(early)
    both.log += late.log
    both.add(late.matrix, late.span, 0.0)
    both.blur = early.blur + late.blur
    if not both.matrix.any():  # all is gone, whatever it was
        return both.rate, 0.0
    apart = max(abs(half.rate - both.rate) for half in (early, late))
    return both.rate, max(apart, both.peak - both.rate) + both.blur / both.span


def _steps(made: Experiment, trace: Trace | None) -> list[float]:
    """How long the steps of a run are, one by one."""
    if trace is not None:
        steps = [run.size for run in trace.steps for _ in range(run.count)]
        if not steps:
            raise InvalidInput("the trace has no steps to follow: record it with up.simulate")
    else:
        pace = made.master.pace
        step = equal_steps(pace)
        if step is None:
            raise InvalidInput(
                f"the pace {type(pace).__name__} chooses steps as it goes: run it, and give the trace, "
                "stability_along(experiment, trace)"
            )
        count = round(min((made.span.stop - made.span.start) / step, 2.0 * MAX_STEPS))
        steps = [step] * count
    if len(steps) > MAX_STEPS:
        raise InvalidInput(f"more than {MAX_STEPS:,} steps: follow a shorter run (until=…)")
    return steps
