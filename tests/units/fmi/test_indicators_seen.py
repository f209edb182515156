"""LookAhead sees the event indicators of FMUs in model exchange: steps end where they change their signs."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import upbeat as up
from conftest import ENGINES

Made = Callable[[str, int], Path]
BOTH = pytest.mark.parametrize("version", [2, 3])


def expected(trace: up.Trace) -> list[tuple[str, float]]:
    """What was expected where steps ended."""
    found = [(step.reason.split("'")[1], step.last) for step in trace.steps if "expected" in step.reason]
    return [(name, float(t)) for name, t in found]


def exchange(path: Path) -> up.Fmu:
    return up.Fmu(path, interface="model-exchange")


@BOTH
@pytest.mark.parametrize("isolation", ["none", "process"])
def test_a_ball(fmu: Made, version: int, engine: str, isolation: Any) -> None:
    """From 1 m; each flight is 0.7 times as long as the one before. A parabola says all of it."""
    scenario = up.Scenario({"ball": exchange(fmu("ball", version))})
    trace = up.simulate(scenario, pace=up.LookAhead(0.05), until=1.6, engine=engine, isolation=isolation)
    first = math.sqrt(2 / 9.81)
    falls = {2: "ball.z[1] falls", 3: "ball.h falls"}[version]
    times = [first, first * 2.4, first * (2.4 + 0.98)]
    assert [name for name, _ in expected(trace)] == [falls] * 3
    assert [t for _, t in expected(trace)] == pytest.approx(times, abs=1e-6)
    reasons = [step.reason for step in trace.steps]
    assert [reasons[k + 1] for k, reason in enumerate(reasons) if "expected" in reason] == [
        "after an event"
    ] * 3
    assert not [name for name in trace.names if "falls" in name or "rises" in name]


@BOTH
def test_signs_change_both_ways(fmu: Made, version: int, engine: str) -> None:
    """A relay at 0.5 under a ramp that goes up, or down."""
    ways = []
    for slope in (1.0, -1.0):
        ramp = up.Ode({"u": "p"}, start={"u": 0.5 - 0.72 * slope}, parameters={"p": slope}, outputs=["u"])
        scenario = up.Scenario(
            {"ramp": ramp, "relay": exchange(fmu("relay", version))}, {"relay.u": "ramp.u"}
        )
        settings: Any = {"pace": up.LookAhead(0.1), "inputs": up.Hermite(1), "until": 1.0, "engine": engine}
        ((name, t),) = expected(up.simulate(scenario, **settings))
        assert t == pytest.approx(0.72, abs=2e-6)
        ways.append(name.split()[-1])
    assert sorted(ways) == ["falls", "rises"]


@pytest.mark.skipif(len(ENGINES) < 2, reason="there is one engine only")
@BOTH
def test_both_engines_make_the_same_steps(fmu: Made, version: int) -> None:
    scenario = up.Scenario({"ball": exchange(fmu("ball", version))})
    one, other = (
        up.simulate(scenario, pace=up.LookAhead(0.07), until=3.0, engine=engine) for engine in ENGINES
    )
    assert np.array_equal(one.time, other.time)
    assert expected(one) == expected(other)
    assert np.array_equal(one["ball.h"], other["ball.h"])


def test_models_without_indicators_stay_what_they_are(fmu: Made) -> None:
    for model in (exchange(fmu("linear", 2)), up.Fmu(fmu("ball", 2), interface="co-simulation")):
        made = model.indicating()  # they may tell that something has happened, not what leads to it
        assert [port.name for port in made.ports[len(model.ports) :]] == ["events()"]
        assert made.indicating() is made
    ball = exchange(fmu("ball", 3)).indicating()
    assert ball.indicating() is ball
    assert ball.with_values({"h": 2.0}).ports[-1].name == "events()"


def test_indicators_with_names_are_offered(fmu: Made, engine: str) -> None:
    """What is offered for co-simulation can be typed as it stands, and steps end there."""
    ball = up.Fmu(fmu("ball", 3), interface="co-simulation")
    told = up.explain(up.experiment(up.Scenario({"ball": ball}), pace=0.1, until=1.0))
    offered = 'events = { h_falls = { when = "ball.h <= 0" }, h_rises = { when = "ball.h >= 0" } }'
    assert (
        f"something happens inside where h changes its sign. To have steps end there, write {offered}" in told
    )
    events = {"h_falls": {"when": "ball.h <= 0"}, "h_rises": {"when": "ball.h >= 0"}}
    scenario = up.Scenario({"ball": ball}, events=events)
    trace = up.simulate(scenario, pace=up.LookAhead(0.1), until=0.6, engine=engine)
    first = math.sqrt(2 / 9.81)
    assert np.abs(trace.time - first).min() < 1e-4
    assert not [note for note in exchange(fmu("ball", 3)).notes if "changes its sign" in note]
    assert not [note for note in up.Fmu(fmu("ball", 2)).notes if "changes its sign" in note]
