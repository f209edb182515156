"""After ever shorter bounces a body still lies on its floor, or the run has ended with a reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import upbeat as up

SOLVER = up.RK4(steps=30)


def sprung(e: float, m: float, k: float, c: float, x: float) -> up.Scenario:
    """A ball that bounces on a floor of mass `m` on a spring with a damper, with restitution `e`."""
    ball = up.Ode({"x": "v", "v": "-9.81"}, start={"x": x}, outputs=["x", "v"], solver=SOLVER)
    floor = up.Ode({"y": "w", "w": f"-({k!r}*y + {c!r}*w)/{m!r}"}, outputs=["y", "w"], solver=SOLVER)
    then = {
        "ball.v": f"(ball.v + {m!r}*floor.w + {m * e!r}*(floor.w - ball.v))/{1 + m!r}",
        "floor.w": f"(ball.v + {m!r}*floor.w + {e!r}*(ball.v - floor.w))/{1 + m!r}",
    }
    hit = {"when": "ball.x <= floor.y and ball.v < floor.w", "then": then}
    return up.Scenario({"ball": ball, "floor": floor}, events={"hit": hit})


def lies_or_says_why(scenario: up.Scenario, step: float, until: float = 4.0, **settings: Any) -> bool:
    """It is never deeper than what it falls in a step, at 6 m/s, by which an event may be noticed late."""
    try:
        trace = up.simulate(scenario, until=until, **settings)
    except up.StepError:
        return True
    return bool((trace["ball.x"] - trace["floor.y"]).min() > -6.0 * step)


@pytest.mark.parametrize(
    "drawn",
    [
        (0.5, 1.0, 400.0, 20.0, 1.0),  # the located event turns what still went up by a hair
        (0.03984637885203499, 6.848662455103157, 95.77155361029965, 8.690913226514466, 0.07017324165029304),
    ],
)
def test_what_a_unit_has_located_a_hair_too_soon_stays_guarded(engine: Any, drawn: Any) -> None:
    settings: Any = {"pace": up.LookAhead(0.05), "coupling": up.Interruptible(), "inputs": "hermite"}
    assert lies_or_says_why(sprung(*drawn), 0.05, 1.5, engine=engine, **settings)


def test_random_floors_hold() -> None:
    draw = np.random.default_rng(77)
    for number in range(24):
        e, m = draw.uniform(0.0, 0.9), draw.uniform(0.3, 20.0)
        k, c = 10 ** draw.uniform(1.5, 4.0), 10 ** draw.uniform(0.0, 2.0)
        step, x = float(draw.choice([0.02, 0.05, 0.1])), float(draw.choice([0.0, 1.0]))
        ahead = up.LookAhead(step)
        ways: list[Any] = [
            {"pace": ahead, "coupling": up.Interruptible()},
            {"pace": step, "coupling": up.Interruptible()},
            {"pace": up.Revised(ahead)},
        ]
        inputs: Any = str(draw.choice(["hold", "linear", "hermite"]))
        scenario = sprung(*map(float, (e, m, k, c)), x)
        assert lies_or_says_why(scenario, step, engine="native", inputs=inputs, **ways[number % 3]), number
