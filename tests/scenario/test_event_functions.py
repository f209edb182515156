"""Conditions of events as Python functions: the same events as those of expressions, and what is refused."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import upbeat as up

BALL = up.Ode(
    {"x": "vx", "y": "vy", "vx": "0", "vy": "-g"}, start={"y": 2.0, "vx": 1.5}, parameters={"g": 9.81}
)
STOP = {"ball.vx": "-ball.vx", "ball.vy": "0"}


def times(trace: up.Trace, name: str = "hit") -> list[float]:
    return [float(t) for t in trace.events.times(name)]


def test_a_function_is_watched_and_seen_coming(engine: str) -> None:
    """(1.5 t)² + (2 - 9.81 t²/2)² = 1, which is quadratic in t²."""
    hit = {"when": lambda x, y: math.hypot(x, y) - 1.0, "of": ["ball.x", "ball.y"], "then": STOP}
    scenario = up.Scenario({"ball": BALL}, events={"hit": hit})
    a, b, c = 4.905**2, 1.5**2 - 4 * 4.905, 3.0
    exact = math.sqrt((-b - math.sqrt(b * b - 4 * a * c)) / (2 * a))
    late = up.simulate(scenario, pace=up.Fixed(0.1), until=0.7, engine=engine)
    assert times(late) == pytest.approx([0.6])
    seen = up.simulate(scenario, pace=up.LookAhead(0.02), until=0.7, engine=engine)
    assert times(seen)[0] == pytest.approx(exact, abs=1e-4)
    assert seen.names == ("ball.x", "ball.y", "ball.vx", "ball.vy")
    # it changes velocities only, and still all that was known of the condition begins anew
    reasons = [step.reason for step in seen.steps for _ in range(step.count)]
    assert reasons[int(np.searchsorted(seen.time, times(seen)[0]))] == "after an event"


def test_it_is_the_same_as_the_expression(engine: str) -> None:
    then = {"ball.vy": "-0.8*ball.vy"}
    written = {"when": ["ball.y - 0.25", "ball.vy"], "then": then}
    called = {"when": [lambda y, v: y - 0.25, "ball.vy"], "of": ["ball.y", "ball.vy"], "then": then}
    pace = up.LookAhead(0.05, symbolic=False, method="quadratic")
    one, other = (
        up.simulate(up.Scenario({"ball": BALL}, events={"hit": event}), pace=pace, until=2.0, engine=engine)
        for event in (written, called)
    )
    assert times(one) == times(other)
    assert len(times(one)) == 2
    assert np.array_equal(one["ball.y"], other["ball.y"])


def test_a_truth_happens_when_it_becomes_true(engine: str) -> None:
    event = {"when": lambda y: np.bool_(y <= 1.0), "of": "ball.y"}
    scenario = up.Scenario({"ball": BALL}, events={"low": event})
    trace = up.simulate(scenario, pace=up.Fixed(0.125), until=1.0, engine=engine)
    assert times(trace, "low") == [0.5]  # sqrt(2/9.81) = 0.4515


def test_inputs_parameters_and_formulas_are_arguments(engine: str) -> None:
    seen: list[tuple[float, ...]] = []

    def watch(*values: float) -> float:
        seen.append(values)
        return 1.0

    units = {"ball": BALL, "eye": up.Function(inputs=["h"], outputs={"d": "2*h"})}
    event = {"when": watch, "of": ["eye.h", "ball.g", "ball.x - push", "push"]}
    scenario = up.Scenario(units, {"eye.h": "ball.y"}, inputs={"push": 0.25}, events={"never": event})
    up.simulate(
        scenario, pace=up.Fixed(0.5), until=0.5, engine=engine, coupling=up.GaussSeidel(("eye", "ball"))
    )
    assert (2.0, 9.81, -0.25, 0.25) in seen
    assert seen[-1] == pytest.approx((2.0 - 9.81 / 8, 9.81, 0.5, 0.25))


def test_inside_a_nested_scenario(engine: str) -> None:
    event = {"when": lambda y: y - 1.0, "of": ["ball.y"], "then": {"ball.vy": "0", "ball.g": "0"}}
    inner = up.Scenario({"ball": BALL}, outputs={"y": "ball.y"}, events={"low": event})
    nested = up.Nested(inner, up.Master(up.LookAhead(0.1)))
    trace = up.simulate(up.Scenario({"inside": nested}), pace=up.Fixed(0.5), until=1.0, engine=engine)
    assert trace["inside.y"][-1] == pytest.approx(1.0, abs=1e-4)


def test_a_process_of_its_own_is_for_units_only(engine: str) -> None:
    event = {"when": lambda y: y - 1.0, "of": ["ball.y"]}
    scenario = up.Scenario({"ball": BALL}, events={"low": event})
    trace = up.simulate(scenario, pace=up.Fixed(0.5), until=0.5, engine=engine, isolation="process")
    assert times(trace, "low") == [0.5]


def test_what_is_no_number_ends_the_run(engine: str) -> None:
    scenario = up.Scenario({"ball": BALL}, events={"low": {"when": lambda y: "low", "of": ["ball.y"]}})
    with pytest.raises(up.RunError, match=r"the condition low: <lambda>\(ball\.y\) gave 'low'"):
        up.simulate(scenario, pace=up.Fixed(0.5), until=0.5, engine=engine)


def test_it_cannot_be_written(tmp_path: Path) -> None:
    scenario = up.Scenario({"ball": BALL}, events={"low": {"when": lambda y: y, "of": ["ball.y"]}})
    with pytest.raises(up.InvalidInput, match=r"event 'low' cannot be written.* is a Python function"):
        up.write_scenario(up.experiment(scenario, pace=up.Fixed(0.1), until=1.0), tmp_path / "ball.toml")


def test_explain_says_what_is_known() -> None:
    scenario = up.Scenario({"ball": BALL}, events={"low": {"when": lambda y: y, "of": ["ball.y"]}})
    told = up.explain(up.experiment(scenario, pace=up.LookAhead(0.1), until=1.0))
    assert "because low: <lambda>(ball.y) is a Python function, of which only values are known" in told
    assert "low (private: ball)" in told


@pytest.mark.parametrize(
    ("event", "units", "told"),
    [
        ({"when": abs}, {}, "it does not say what the function is called with"),
        ({"when": abs, "of": []}, {}, "it does not say what the function is called with"),
        ({"when": abs, "of": ["ball.z"]}, {}, "unit 'ball' has no output 'z'"),
        ({"when": "ball.y <= 0", "of": ["ball.y"]}, {}, "there is none"),
        ({"when": abs, "of": ["ball.y"]}, {"conditions": BALL}, "a unit is called 'conditions'"),
    ],
)
def test_what_is_wrong_is_said(event: Any, units: Any, told: str) -> None:
    with pytest.raises(up.ScenarioError, match=told):
        up.Scenario({"ball": BALL, **units}, events={"low": event})
