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
    """It is never deeper than what it falls in a step, at 6 m/s, by which an event may be noticed late. With
    fixed steps also than what it falls from rest in each of them while it lies: an event sets no position."""
    try:
        trace = up.simulate(scenario, until=until, **settings)
    except up.StepError:
        return True
    depth = trace["floor.y"] - trace["ball.x"] if "floor" in scenario.units else -trace["ball.x"]
    sinks = isinstance(settings["pace"], up.Fixed)
    return bool(depth.max() < 6.0 * step + (until / step * 9.81 * step**2 / 2 if sinks else 0.0))


@pytest.mark.parametrize(
    "drawn",
    [
        (0.5, 1.0, 400.0, 20.0, 1.0),  # the located event turns what still went up by a hair
        (0.03984637885203499, 6.848662455103157, 95.77155361029965, 8.690913226514466, 0.07017324165029304),
        # located where both are equally fast, to the last bit: it changes nothing, and falls from there
        (0.43667187698847154, 19.6205228360844, 8019.4204587066015, 28.15657862887755, 1.0),
    ],
)
def test_what_a_unit_has_located_a_hair_too_soon_stays_guarded(engine: Any, drawn: Any) -> None:
    coupling = up.Interruptible(leader="ball")
    settings: Any = {"pace": up.LookAhead(0.05), "coupling": coupling, "inputs": "hermite"}
    assert lies_or_says_why(sprung(*drawn), 0.05, 2.5, engine=engine, **settings)


@pytest.mark.parametrize("x", [0.0, 1.0])
@pytest.mark.parametrize("new", ["-0.5*ball.v", "0"])
def test_a_bounce_that_never_leaves_the_floor_is_followed_by_another(engine: Any, x: float, new: str) -> None:
    """The condition is the position alone, and does not become false in between: it fell to -45 m."""
    ball = up.Ode({"x": "v", "v": "-9.81"}, start={"x": x}, outputs=["x", "v"], solver=SOLVER)
    scenario = up.Scenario({"ball": ball}, events={"hit": {"when": "ball.x <= 0", "then": {"ball.v": new}}})
    assert lies_or_says_why(scenario, 0.05, engine=engine, pace=up.Fixed(0.05))


@pytest.mark.parametrize(
    ("when", "then"),
    [
        ("u.x >= 5", {"u.n": "u.n + 1"}),  # it does not act on its condition
        ("u.x >= 5", {"u.h": "0"}),  # a heater in the same unit, off already
        ("u.x >= 5 and u.n < 3", {"u.n": "u.n + 1"}),  # it does, but does not take it back
    ],
)
@pytest.mark.parametrize("coupling", [up.Jacobi(), up.Interruptible()])
@pytest.mark.parametrize(("rate", "x"), [("4*exp(-t) + 0.8*cos(4*t) + h", 2.0), ("1.6*cos(4*t) + h", 5.5)])
def test_what_stays_true_happens_once(
    engine: Any, when: str, then: dict[str, str], coupling: Any, rate: str, x: float
) -> None:
    """A condition that goes up and down below zero, and deeper than where it has happened."""
    unit = up.Ode(
        {"x": rate, "t": "1", "n": "0", "h": "0"},
        start={"x": x},
        outputs=["x", "n", "h"],
        solver=SOLVER,
    )
    other = up.Ode({"y": "-y"}, outputs=["y"], solver=SOLVER)
    scenario = up.Scenario({"u": unit, "o": other}, events={"high": {"when": when, "then": then}})
    trace = up.simulate(scenario, until=6.0, pace=0.1, coupling=coupling, engine=engine)
    above = trace["u.x"][np.argmax(trace["u.x"] >= 5.0) :]
    assert above.min() >= 5.0
    assert (np.diff(np.sign(np.diff(above))) != 0).sum() > 4
    assert len(trace.events) == 1


@pytest.mark.parametrize("count", [7, pytest.param(22, marks=pytest.mark.slow)])
def test_random_floors_hold(count: int) -> None:
    draw = np.random.default_rng(77)
    for number in range(count):
        e, m = draw.uniform(0.0, 0.9), draw.uniform(0.3, 20.0)
        k, c = 10 ** draw.uniform(1.5, 4.0), 10 ** draw.uniform(0.0, 2.0)
        step, x = float(draw.choice([0.02, 0.05, 0.1])), float(draw.choice([0.0, 1.0]))
        inputs: Any = {"inputs": str(draw.choice(["hold", "linear", "hermite"]))}
        ahead = up.LookAhead(step)
        ways: list[dict[str, Any]] = [
            {"pace": up.Fixed(step), **inputs},
            {"pace": ahead, **inputs},
            {"pace": up.Revised(step), **inputs},
            {"pace": up.Revised(ahead), **inputs},
            {"pace": step, "events": "auto"},
        ]
        for leader in ("auto", "ball", "floor"):
            coupling = up.Interruptible(leader=leader)
            ways += [{"pace": pace, "coupling": coupling, **inputs} for pace in (up.Fixed(step), ahead)]
        way = ways[number % len(ways)]
        scenario = sprung(*map(float, (e, m, k, c)), x)
        assert lies_or_says_why(scenario, step, engine="native", **way), (number, way)


LIES = {"when": "ball.x <= 0", "then": {"ball.v": "0"}}
PUT = {"when": "ball.x <= 0", "then": {"ball.v": "0", "ball.x": "0"}}


@pytest.mark.parametrize(
    ("event", "settings", "sinks"),
    [
        (LIES, {"pace": up.Fixed(0.05), "coupling": up.Interruptible()}, True),
        (LIES, {"pace": up.Fixed(0.05)}, True),
        (LIES, {"pace": 0.05}, True),  # events are landed on, and yet
        (LIES, {"pace": up.LookAhead(0.05)}, True),
        (LIES, {"pace": up.Revised(0.05)}, True),
        (
            LIES | {"then": {"ball.v": "-0.5*ball.v"}},
            {"pace": up.Fixed(0.05), "coupling": up.Interruptible()},
            True,
        ),
        (LIES | {"then": {"ball.v": "-ball.v"}}, {"pace": 0.05}, False),
        (PUT, {"pace": 0.05}, False),  # it fell, ever deeper, to -1.1
        (PUT, {"pace": up.LookAhead(0.05)}, False),
        (PUT, {"pace": up.Fixed(0.05), "coupling": up.Interruptible()}, False),
    ],
)
def test_what_sinks_is_told(event: Any, settings: Any, sinks: bool) -> None:
    ball = up.Ode({"x": "v", "v": "-9.81"}, start={"x": 1.0}, outputs=["x", "v"], solver=SOLVER)
    trace = up.simulate(up.Scenario({"ball": ball}, events={"hit": event}), until=4.0, **settings)
    assert (trace["ball.x"].min() < -0.05) == sinks
    assert any("sinks a little in every step" in note for note in trace.notes) == sinks
