"""Intervals of stable steps hold no unstable ones: lightly damped couplings, judged by closed forms."""

from typing import Any

import numpy as np
import pytest
from scipy.linalg import expm

import upbeat as up
from upbeat.report.stability import describe


def lightly_damped(seed: int) -> tuple[up.Scenario, Any]:
    """Oscillators with hardly any damping that push each other, and the exact map of a step of any size.

    The units are solved without error and inputs are held, side by side: x → (Φ + Γ·C)·x.
    """
    turn = np.random.default_rng(seed)
    count = int(turn.integers(2, 4))
    speed, damping = turn.uniform(1.0, 6.0, count), 10.0 ** turn.uniform(-3.5, -1.5, count)
    push = turn.uniform(-0.6, 0.6, (count, count, 2)) * 10.0 ** turn.uniform(-1.5, 0.5)
    units, connections = {}, {}
    for i, (w, d) in enumerate(zip(speed, damping, strict=True)):
        units[f"m{i}"] = up.Ode(
            {"x": "v", "v": f"-{w * w:.17g}*x - {2 * d * w:.17g}*v + F"},
            inputs=["F"],
            outputs=["x", "v"],
            start={"x": 1.0},
            solver=up.DormandPrince(rtol=1e-10, atol=1e-12),
        )
        terms = [
            f"{push[i, j, 0]:.17g}*m{j}.x + {0.1 * push[i, j, 1]:.17g}*m{j}.v" for j in range(count) if j != i
        ]
        connections[f"m{i}.F"] = " + ".join(terms).replace("+ -", "- ")

    def radius(step: float) -> float:
        whole = np.zeros((2 * count, 2 * count))
        for i in range(count):
            inner = np.zeros((3, 3))
            inner[0, 1] = step
            inner[1] = step * np.array([-(speed[i] ** 2), -2 * damping[i] * speed[i], 1.0])
            flow = expm(inner)
            own = slice(2 * i, 2 * i + 2)
            whole[own, own] = flow[:2, :2]
            for j in range(count):
                if j != i:
                    whole[own, 2 * j : 2 * j + 2] = np.outer(
                        flow[:2, 2], [push[i, j, 0], 0.1 * push[i, j, 1]]
                    )
        return float(np.abs(np.linalg.eigvals(whole)).max())

    return up.Scenario(units=units, connections=connections), radius


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 8))]
)
def test_intervals_of_stable_steps_hold_no_unstable_one(seed: int) -> None:
    scenario, radius = lightly_damped(seed)
    found = up.stability_of(scenario, pace=0.1, coupling="jacobi", scan=(0.05, 3.0))
    assert found.steps is not None
    grid = np.linspace(0.05, 3.0, 800)
    grows = [step for step in grid if radius(step) > 1.0 + 1e-9]
    inside = [step for step in grows if any(step in one for one in found.steps.stable)]
    assert inside == []
    if found.largest_stable_step is not None:
        assert not any(step < found.largest_stable_step for step in grows)
    assert not found.steps.sampled or found.steps.sampled in describe(found)


def test_what_no_bound_covers_is_told_as_sampled() -> None:
    # A solver that makes one more step from time to time has another matrix there: nothing is smooth.
    coarse = up.Ode({"x": "v", "v": "-x - 0.5*v"}, outputs=["x"], solver=up.Euler(step=0.03))
    found = up.stability_of(up.Scenario(units={"m": coarse}), pace=0.1, scan=(0.05, 0.5))
    assert found.steps is not None
    assert "sampled" in found.steps.sampled
    assert found.steps.sampled in describe(found)
    assert found.data()["steps_sampled"] > len(found.steps.looked)
    smooth = up.Ode({"x": "v", "v": "-x - 0.5*v"}, outputs=["x"], solver=up.RK4())
    found = up.stability_of(up.Scenario(units={"m": smooth}), pace=0.1, scan=(0.05, 0.5))
    assert found.steps is not None
    assert found.steps.sampled == ""
