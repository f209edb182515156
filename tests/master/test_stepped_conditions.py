"""Conditions that jump: `Revised` finds them to its tolerance, however their rates look, on both engines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import upbeat as up

STEP = 0.25
LATE = 1e-5 * STEP

STEPPED = {
    "floor(ramp.x) >= 2": 2.0,
    "ceil(ramp.x) > 2": 2.0,
    "floor(2*ramp.x)/2 - 1.5 >= 0": 1.5,
    "sign(ramp.x - 1.3) > 0": 1.3,
    "(ramp.x if ramp.x > 1.3 else 0) > 0.5": 1.3,
    "(1 if ramp.x > 1.3 else 0) >= 1": 1.3,
    "(1.3 - ramp.x if ramp.x > 1.7 else 1) <= 0": 1.7,
    "(0*ramp.x if ramp.x > 1.7 else 1) <= 0": 1.7,
    "count.n >= 2": 2.0,
    "count.on": 1.3,
    "count.table >= 3": 1.5,
    "floor(ramp.x) >= 1 and ramp.x > 0.5": 1.0,
    "floor(ramp.x) >= 1 and ramp.x > 1.5": 1.5,
}
"""With the place at which each comes true."""

PACES: dict[str, Any] = {"Revised": up.Revised(STEP), "both": up.Revised(up.LookAhead(STEP))}


def scenario(when: str, start: float = 0.1, rate: float = 1.0) -> up.Scenario:
    ramp = up.Ode({"x": f"{rate!r}"}, start={"x": start}, outputs=["x"], solver="euler")
    count = up.Function(
        inputs=["u"],
        tables={"steps": {"x": [0.0, 1.499999, 1.5, 3.0], "y": [0.0, 0.0, 3.0, 3.0]}},
        outputs={
            "n": {"value": "floor(u)", "kind": "integer"},
            "on": {"value": "u > 1.3", "kind": "boolean"},
            "table": "steps(u)",
        },
    )
    return up.Scenario({"ramp": ramp, "count": count}, {"count.u": "ramp.x"}, events={"e": {"when": when}})


@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("when", STEPPED)
def test_a_condition_that_jumps_is_found_to_the_tolerance(engine: str, pace: str, when: str) -> None:
    trace = up.simulate(scenario(when), pace=PACES[pace], until=3.0, engine=engine)
    (time,) = trace.events.times("e")
    assert 0.0 <= time - (STEPPED[when] - 0.1) <= 1e-3 * STEP
    # Euler's solver is trusted to 1e-3 of its step


def test_wherever_it_lies_in_a_step() -> None:
    draw = np.random.default_rng(10)
    for _ in range(60):
        start, rate = draw.uniform(0.0, 0.9), draw.uniform(0.5, 2.0)
        for pace in (up.Revised(STEP, tolerance=LATE), up.Revised(up.LookAhead(STEP), tolerance=LATE)):
            trace = up.simulate(
                scenario("floor(ramp.x) >= 1", float(start), float(rate)), pace=pace, until=3.0
            )
            (time,) = trace.events.times("e")
            assert -1e-12 <= time - (1.0 - start) / rate <= LATE


def test_smooth_ones_are_repeated_as_seldom_as_before(engine: str) -> None:
    ball = up.Ode({"x": "v", "v": "-9.81"}, start={"x": 1.0, "v": 0.5})
    bounce = {"when": "ball.x <= 0 and ball.v < 0", "then": {"ball.v": "-0.8*ball.v"}}
    falls = up.Scenario({"ball": ball}, events={"bounce": bounce})
    trace = up.simulate(falls, pace=up.Revised(0.1), until=2.0, engine=engine)
    assert sum(step.rejected for step in trace.steps) == len(trace.events) == 3


@pytest.mark.parametrize("when", STEPPED)
def test_a_condition_that_jumps_is_named_in_the_notes(when: str) -> None:
    trace = up.simulate(scenario(when), pace=PACES["both"], until=0.5)
    jumping = [note for note in trace.notes if "may be missed" in note]
    if when == "count.table >= 3":  # steep, but continuous
        assert not jumping
    else:
        assert [note[:9] for note in jumping] == ["event e: "]


@pytest.mark.parametrize("when", ["ramp.x >= 2", "ramp.x >= 1 and ramp.x < 3", "abs(ramp.x) >= 2"])
def test_one_that_comes_nearer_is_not(when: str) -> None:
    experiment = up.experiment(scenario(when), pace=PACES["both"], until=0.5)
    assert "may be missed" not in up.explain(experiment)
