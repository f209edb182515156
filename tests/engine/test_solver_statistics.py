"""How hard solvers have worked: counts that can be worked out, and that both engines share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import upbeat as up
from conftest import ENGINES


def counted(model: Any, engine: str, **settings: Any) -> dict[str, int]:
    settings = {"pace": up.Fixed(0.25), "until": 1.0, **settings}
    return up.simulate(up.Scenario({"u": model}), engine=engine, **settings).info["solvers"]["u"]


def test_equal_steps_are_counted(engine: str) -> None:
    """Four communication steps of three solver steps with four stages each."""
    found = counted(up.Ode({"x": "-x"}, start={"x": 1.0}, solver=up.RK4(steps=3)), engine)
    assert found == {"steps": 12, "rejected": 0, "stops": 0, "evaluations": 48}


def test_an_adaptive_solver_evaluates_six_stages_and_one_at_the_start(engine: str) -> None:
    """A first step of 0.05 may grow five-fold at once, so that it takes two for the first quarter."""
    found = counted(up.Ode({"x": "1"}, solver=up.DormandPrince(first=0.05)), engine)
    assert found == {"steps": 5, "rejected": 0, "stops": 0, "evaluations": 4 + 6 * 5}


def test_stops_at_events_are_counted(engine: str) -> None:
    """Counting up to 0.1 and starting anew: ten times in a second, the last one at its end."""
    saw = up.Ode({"x": "1"}, events={"back": {"when": "x >= 0.1", "then": {"x": "x - 0.1"}}})
    found = counted(saw, engine, until=0.95)
    assert found["stops"] == 9
    assert found["steps"] >= 9 + 4


def test_steps_that_are_rejected_are_counted(engine: str) -> None:
    found = counted(up.Ode({"x": "cos(50*time)"}, solver=up.DormandPrince(first=0.25)), engine)
    assert found["rejected"] > 0
    assert found["evaluations"] == 4 + 6 * (found["steps"] + found["rejected"])


@pytest.mark.skipif("native" not in ENGINES, reason="the native engine is not built")
def test_both_engines_count_the_same() -> None:
    ball = up.Ode(
        {"x": "v", "v": "-9.81 - 0.1*v*abs(v)"},
        start={"x": 1.0},
        events={"bounce": {"when": "x <= 0 and v < 0", "then": {"v": "-0.8*v"}}},
        solver=up.DormandPrince(rtol=1e-5),
    )
    native, reference = (counted(ball, engine, until=2.0) for engine in ("native", "interpret"))
    assert native == reference
    assert native["stops"] > 2


def test_units_without_a_solver_that_counts_are_left_out(engine: str) -> None:
    units = {"f": up.Function([], {"y": "time"}), "x": up.Ode({"x": "y"}, inputs=["y"])}
    trace = up.simulate(up.Scenario(units, {"x.y": "f.y"}), engine=engine, pace=up.Fixed(0.5), until=1.0)
    assert list(trace.info["solvers"]) == ["x"]
    alone = up.simulate(up.Scenario({"f": units["f"]}), engine=engine, pace=up.Fixed(0.5), until=1.0)
    assert "solvers" not in alone.info


def test_a_run_that_is_resumed_goes_on_counting(tmp_path: Path) -> None:
    decay = up.Scenario({"u": up.Ode({"x": "-x"}, start={"x": 1.0})})
    kept = up.Checkpoint(tmp_path / "kept", every=1e9)
    with up.start(decay, pace=up.Fixed(0.1), until=1.0, checkpoint=kept) as run:
        for _ in range(4):
            run.step()
    trace = up.resume(tmp_path / "kept")
    assert trace.info["solvers"]["u"] == {"steps": 10, "rejected": 0, "stops": 0, "evaluations": 40}
