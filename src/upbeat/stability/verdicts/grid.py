"""A map of stability: the spectral radius over step sizes and values of one parameter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from upbeat.core.errors import InvalidInput, RunError
from upbeat.core.time import checked_step
from upbeat.engine.experiment import Experiment
from upbeat.engine.settings import Settings
from upbeat.scenario.scenario import Scenario
from upbeat.stability.linear.asked import experiment_of
from upbeat.stability.linear.induced import At, Inducing
from upbeat.stability.verdicts.pieces import settled
from upbeat.stability.verdicts.spectrum import spectrum

MOST = 250_000
"""The most points of a map."""


@dataclass(frozen=True)
class StabilityMap:
    """`radius[i, j]` is the spectral radius for ``values[i]`` of the parameter and ``steps[j]``.

    `verdicts` has "stable", "unstable" or "undecided" for each. Where the program could not be followed the
    radius is infinite, and nothing is decided.
    """

    parameter: str
    values: tuple[float, ...]
    steps: tuple[float, ...]
    radius: npt.NDArray[np.float64]
    verdicts: npt.NDArray[np.str_]
    local: bool = False
    """Whether any of them holds for small motions only."""

    @property
    def stable(self) -> npt.NDArray[np.bool_]:
        return np.asarray(self.verdicts == "stable")

    @property
    def undecided(self) -> npt.NDArray[np.bool_]:
        return np.asarray(self.verdicts == "undecided")

    def data(self) -> dict[str, Any]:
        """For JSON."""
        rows = [[value if np.isfinite(value) else None for value in row] for row in self.radius.tolist()]
        return {
            "parameter": self.parameter,
            "values": list(self.values),
            "steps": list(self.steps),
            "spectral_radius": rows,
            "verdicts": self.verdicts.tolist(),
            "local": self.local,
        }


def stability_map(
    given: Scenario | Experiment,
    parameter: str,
    values: Sequence[float],
    steps: Sequence[float],
    *,
    at: At = "start",
    ideal: bool = False,
    **settings: Unpack[Settings],
) -> StabilityMap:
    """The spectral radius over `steps` and `values` of one parameter, such as ``"right.dc"``.

    `at` and `ideal` as of `stability_of`. A start value will do as well: that of a scenario which is not
    linear says where it is linearised.
    """
    if isinstance(given, Scenario) and settings.get("pace") is None:
        settings = {**settings, "pace": checked_step(steps[0])}
    made = experiment_of(given, settings)
    sizes = [checked_step(step, "a step of the map") for step in steps]
    if not sizes or not len(values):
        raise InvalidInput("a map needs at least one step and one value of the parameter")
    if len(sizes) * len(values) > MOST:
        raise InvalidInput(
            f"a map of {len(values)} values × {len(sizes)} steps is too large: {MOST:,} points will do"
        )
    found = np.full((len(values), len(sizes)), np.inf)
    verdicts = np.full(found.shape, "undecided")
    local = False
    for i, value in enumerate(values):
        changed = made.with_(scenario=made.scenario.with_values({parameter: float(value)}))
        with Inducing(changed, ideal=ideal) as inducing:
            for j, step in enumerate(sizes):
                try:
                    model = settled(inducing, step, at)
                    one = spectrum(model)
                except (RunError, OverflowError):
                    continue
                found[i, j], verdicts[i, j] = one.radius, one.judged.verdict
                local = local or not model.linear
    return StabilityMap(parameter, tuple(float(v) for v in values), tuple(sizes), found, verdicts, local)
