"""Adaptations of FMUs: rollback for one that has none, and any step for one that takes only its own."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import upbeat as up
from fmu_maker import LINEAR, MODELS, make


@pytest.fixture(scope="module", params=[2, 3])
def version(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def loop(model: up.Model) -> up.Scenario:
    other = up.Ode({"z": "w - z"}, inputs=["w"], outputs=["z"], start={"z": 0.5})
    return up.Scenario({"a": model, "b": other}, {"a.u": "b.z", "b.w": "a.y"})


def test_rollback_by_replaying(version: int, tmp_path: Path) -> None:
    """FMUs of the same equations, with and without rollback, under masters that set units back."""
    able = up.Fmu(make(LINEAR, version, tmp_path), interface="co-simulation", rollback="trust")
    bare = up.Fmu(make(MODELS["bare", version], version, tmp_path), interface="co-simulation")
    replayed = up.adapted(bare, "replay")
    assert up.Ability.ROLLBACK not in bare.abilities
    for coupling, pace in ((up.Iterated(), 0.1), (up.Jacobi(), up.ErrorControl(1e-4, per="step"))):
        for engine in ("interpret", "native"):
            wanted = up.simulate(loop(able), pace=pace, until=0.5, coupling=coupling, engine=engine)
            found = up.simulate(loop(replayed), pace=pace, until=0.5, coupling=coupling, engine=engine)
            assert found["a.y"].tolist() == wanted["a.y"].tolist()


@pytest.mark.parametrize("step", [0.01, 0.013, 0.1])
def test_a_fixed_step_under_any(version: int, step: float, tmp_path: Path) -> None:
    fmu = replace(LINEAR, name="steady", source="linear", variable_step=False)
    steady = up.Fmu(make(fmu, version, tmp_path), interface="co-simulation", rollback="trust")
    made = up.experiment(up.Scenario({"a": up.adapted(steady, "fixed_step 0.01")}), pace=step, until=1.0)
    assert not made.remarks
    trace = made.run()
    exact = 3 * np.exp(-2 * trace.time)
    assert trace["a.y"] == pytest.approx(exact, abs=0.07 if step == 0.013 else 1e-4)
    assert trace["a.y"][trace.time > 0.03] == pytest.approx(exact[trace.time > 0.03], abs=2e-3)
    varied = up.simulate(
        loop(up.adapted(steady, "fixed_step 0.01")), pace=up.ErrorControl(1e-2, per="step"), until=0.5
    )
    assert math.isfinite(varied["a.y"][-1])
