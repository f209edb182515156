"""Stability along a run: what is not linear, linearised at every communication point that the run passes."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from upbeat.core.errors import InvalidInput
from upbeat.engine.experiment import Experiment
from upbeat.engine.settings import Settings
from upbeat.master.paces.pace import Fixed
from upbeat.scenario.scenario import Scenario
from upbeat.stability.linear.induced import Inducing
from upbeat.stability.verdicts.asked import experiment_of
from upbeat.stability.verdicts.spectrum import Verdict, radius
from upbeat.trace.trace import Trace

Array = npt.NDArray[np.float64]
MOST = 20_000
"""The most steps that are followed."""
SURE = 0.1
"""The second half of a run must agree with the whole about growth to this part, else nothing is decided."""


@dataclass(frozen=True)
class Along:
    """Small deviations from a run, followed from step to step; always local.

    `radius` has the spectral radius of every step at `times`, as if the run stood still there; alone it
    proves nothing, because one step may undo what another does. `rate` is by how much the logarithm of a
    deviation grew per second over all of them, and decides: "stable" if they die out, "unstable" if they
    grow, "undecided" where the second half of the run says something else than the whole.
    """

    verdict: Verdict
    rate: float
    times: Array
    radius: Array

    def data(self) -> dict[str, Any]:
        """For JSON."""
        worst = int(self.radius.argmax())
        return {
            "verdict": self.verdict,
            "local": True,
            "rate": self.rate,
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
    **settings: Unpack[Settings],
) -> Along:
    """Whether small deviations from a run die out: the run is followed and linearised at every step.

        up.stability_along(up.load("pendulum.toml"))
        up.stability_along(experiment, trace)

    The steps are those of a recorded `trace` of the experiment, whatever pace chose them, or those of its
    fixed pace.
    """
    made = experiment_of(given, settings)
    steps = _steps(made, trace)
    times: list[float] = []
    found: list[float] = []
    logs: list[float] = []
    vector: Array | None = None
    with Inducing(made, ideal=ideal, sizes=steps) as inducing:
        for model in inducing.along(steps):
            if vector is None:
                vector = np.random.default_rng(5).uniform(-1.0, 1.0, model.size)
                vector /= np.linalg.norm(vector)
            vector = model.matrix @ vector
            size = float(np.linalg.norm(vector))
            times.append(model.at)
            found.append(radius(model.matrix))
            logs.append(log(size) if size > 0.0 else -700.0)
            vector = vector / size if size > 0.0 else vector
    if len(logs) < 4:
        raise InvalidInput("a run of fewer than four steps, after its histories are filled, says too little")
    span = np.array(steps[len(steps) - len(logs) :])
    whole = sum(logs) / float(span.sum())
    middle = len(logs) // 2
    late = sum(logs[middle:]) / float(span[middle:].sum())
    same = whole * late > 0.0 and min(abs(whole), abs(late)) > SURE * max(abs(whole), abs(late))
    verdict: Verdict = "undecided" if not same else "stable" if whole < 0.0 else "unstable"
    return Along(verdict, whole, np.array(times), np.array(found))


def _steps(made: Experiment, trace: Trace | None) -> list[float]:
    """How long the steps of a run are, one by one."""
    if trace is not None:
        steps = [run.size for run in trace.steps for _ in range(run.count)]
        if not steps:
            raise InvalidInput("the trace has no steps to follow: record it with up.simulate")
    else:
        pace = made.master.pace
        if not isinstance(pace, Fixed):
            raise InvalidInput(
                f"the pace {type(pace).__name__} chooses steps as it goes: run it, and give the trace, "
                "stability_along(experiment, trace)"
            )
        count = round(min((made.span.stop - made.span.start) / pace.step, 2.0 * MOST))
        steps = [pace.step] * count
    if len(steps) > MOST:
        raise InvalidInput(f"more than {MOST:,} steps: follow a shorter run (until=…)")
    return steps
