"""What discrete-event units wait for is an event to look for, as one of the scenario's own is."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import upbeat as up

STEP = 0.25
WAYS: dict[str, dict[str, Any]] = {
    "LookAhead": {"pace": up.LookAhead(STEP)},
    "Revised": {"pace": up.Revised(STEP)},
    "auto": {"pace": STEP, "events": "auto"},
}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> dict[str, Any]:
    return WAYS[request.param]


def parabola(x: float, v: float, a: float) -> up.Ode:
    """Solved exactly but for rounding."""
    return up.Ode({"x": "v", "v": f"{a!r}"}, start={"x": x, "v": v}, outputs=["x"], solver="rk4")


def crossing(x: float, v: float, a: float, level: float) -> list[float]:
    """When a parabola is at a level."""
    root = math.sqrt(v * v - 2 * a * (x - level))
    return sorted(t for t in ((-v - root) / a, (-v + root) / a) if t > 0)


def test_thresholds_are_landed_on(engine: str, way: dict[str, Any]) -> None:
    """Random throws through a band: up through its upper end, and down through its lower one."""
    draw = np.random.default_rng(9)
    for _ in range(5 if engine == "native" else 2):
        v, level, band = draw.uniform(3.0, 6.0), draw.uniform(0.2, 0.3), draw.uniform(0.0, 0.2)
        threshold = up.Threshold(level, hysteresis=band)
        scenario = up.Scenario(
            {"ball": parabola(0.0, v, -9.81), "high": threshold}, {"high.signal": "ball.x"}
        )
        trace = up.simulate(scenario, until=2.0, engine=engine, **way)
        rises, falls = (
            crossing(0.0, v, -9.81, level + band / 2)[0],
            crossing(0.0, v, -9.81, level - band / 2)[1],
        )
        assert trace.events.counts() == {"high.above": 1, "high.below": 1}
        assert trace.events.times("high.above")[0] == pytest.approx(rises, abs=2e-5 * STEP)
        assert trace.events.times("high.below")[0] == pytest.approx(falls, abs=2e-5 * STEP)


def machine() -> up.StateMachine:
    """Waits for two signals together; what it waits for depends on a variable and a parameter."""
    return up.StateMachine(
        ["idle", "busy"],
        initial="idle",
        inputs=["u", "w"],
        parameters={"most": 1.0},
        variables={"n": 0.0},
        outputs={"told": {"event": True, "kind": "real"}, "count": "n"},
        transitions=[
            {
                "from": "idle",
                "to": "busy",
                "when": "u >= most + n and w > 0",
                "do": {"n": "n + 1"},
                "emit": {"told": "u"},
            },
            {"from": "busy", "to": "idle", "when": "u < n - 1.5"},
        ],
    )


def test_a_machine_waits_for_signals_in_the_state_that_does(engine: str, way: dict[str, Any]) -> None:
    """u = t while w > 0: it is busy at 1, and stays there."""
    scenario = up.Scenario(
        {"ramp": parabola(0.0, 1.0, 0.0), "other": parabola(-0.7, 1.0, 0.0), "m": machine()},
        {"m.u": "ramp.x", "m.w": "2*other.x"},
    )
    trace = up.simulate(scenario, until=3.05, engine=engine, **way)
    assert trace.events.times("m.told").tolist() == pytest.approx([1.0], abs=2e-5 * STEP)
    reasons = {step.why.event for step in trace.steps}
    assert reasons <= {"", "m: u >= most + n and w > 0"}


def test_it_loses_none_of_many_switches(engine: str, way: dict[str, Any]) -> None:
    """A heater that a machine switches: between switches the temperature is an exponential."""
    room = up.Ode({"T": "(p - T)/2"}, inputs=["p"], outputs=["T"], start={"T": 0.0})
    switch = up.StateMachine(
        {"on": {}, "off": {}},
        initial="on",
        inputs=["T"],
        outputs={"p": "1.0 if state == 'on' else 0.0"},
        transitions=[
            {"from": "on", "to": "off", "when": "T > 0.6"},
            {"from": "off", "to": "on", "when": "T < 0.4"},
        ],
    )
    scenario = up.Scenario({"room": room, "switch": switch}, {"room.p": "switch.p", "switch.T": "room.T"})
    trace = up.simulate(scenario, until=10.0, engine=engine, **way)
    at = np.flatnonzero(np.diff(trace["switch.p"]) != 0) + 1
    times, first, then = trace.time[at], 2 * math.log(1 / 0.4), 2 * math.log(0.6 / 0.4)
    count = int((10.0 - first) / then) + 1
    assert times == pytest.approx(first + then * np.arange(count), abs=1e-4)


def test_auto_tells_of_them() -> None:
    scenario = up.Scenario(
        {"ball": parabola(1.0, 0.0, -9.81), "low": up.Threshold(0.5)}, {"low.signal": "ball.x"}
    )
    text = up.explain(up.experiment(scenario, pace=0.1, until=1.0, events="auto"))
    assert "events of ball, low: seen coming by LookAhead" in text
    assert "event 'low: signal < level - hysteresis/2' is predicted from values, rates and curvatures" in text


def test_both_engines_do_the_same() -> None:
    draw = np.random.default_rng(4)
    for k in range(8):
        drawn = draw.uniform(-1, 1, 7).tolist()
        units: dict[str, Any] = {"a": parabola(*drawn[:3]), "b": parabola(*drawn[3:6])}
        units |= {"m": machine(), "low": up.Threshold(drawn[6]), "edge": up.Edge()}
        wires = {"m.u": "a.x", "m.w": "b.x", "low.signal": "a.x*b.x", "edge.signal": "a.x > b.x"}
        scenario = up.Scenario(units, wires)
        given: Any = {"until": 3.0, **list(WAYS.values())[k % 3]}
        one, other = (up.simulate(scenario, engine=e, **given) for e in ("native", "interpret"))
        assert one.time.tolist() == other.time.tolist()
        assert [(e.name, e.time) for e in one.events] == [(e.name, e.time) for e in other.events]


def test_what_waits_for_a_time_as_well(engine: str, way: dict[str, Any]) -> None:
    """A delay that counts only while a signal is high, and that does not even begin until an event."""
    relay = up.StateMachine(
        states=["off", "armed", "on"],
        initial="off",
        inputs=["x"],
        outputs={"fired": {"event": True}},
        transitions=[
            {"from": "off", "to": "armed", "when": "x > 0.5"},
            {"from": "armed", "to": "on", "after": 0.3, "when": "x > 0.8", "emit": {"fired": True}},
        ],
    )
    slope = up.Ode({"x": "0.4"}, start={"x": 0.0}, outputs=["x"])
    scenario = up.Scenario({"slope": slope, "relay": relay}, {"relay.x": "slope.x"})
    trace = up.simulate(scenario, until=4.0, engine=engine, **way)
    assert trace.events.times("relay.fired").tolist() == [pytest.approx(2.0, abs=2e-5 * STEP)]
