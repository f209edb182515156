"""Interruption: one unit goes first and stops at events, the others follow, and nobody is ever set back."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import upbeat as up
from conftest import ENGINES
from upbeat.core.errors import Problems
from upbeat.master.settings import master_from, settings_of
from upbeat.report.explain import explain

HIT = {
    "when": "left.x >= right.x and left.v > right.v",
    "then": {
        "left.v": "((left.m - right.m)*left.v + 2*right.m*right.v)/(left.m + right.m)",
        "right.v": "((right.m - left.m)*right.v + 2*left.m*left.v)/(left.m + right.m)",
    },
}


def point(x: float, v: float, a: str = "0", **more: Any) -> up.Ode:
    """Moves on a line: exactly, as long as the solver has the order for it."""
    return up.Ode({"x": "v", "v": a}, start={"x": x, "v": v}, parameters={"m": 1.0}, **more)


def happened(trace: up.Trace) -> list[tuple[str, float]]:
    return [(event.name, event.time) for event in trace.events]


def leaders(trace: up.Trace) -> list[str]:
    """Who went first in each step."""
    labels = next(column.items for column in trace.columns if column.name == "leader")
    return [labels[int(number)] for number in trace.one_sided()["leader"][1:]]


# -------------------------------------------------------------------- what is located


def test_a_shared_event_is_located_and_happens_in_both_at_once(engine: str) -> None:
    """3t = 2.05 - t. The units are not even connected: what an event compares is enough."""
    scenario = up.Scenario(
        {"left": point(0, 3), "right": point(2.05, -1)}, parameters={"right.m": 3.0}, events={"hit": HIT}
    )
    trace = up.simulate(
        scenario,
        pace=up.Fixed(0.1),
        until=1.0,
        coupling=up.Interruptible(),
        inputs=up.Hermite(),
        engine=engine,
    )
    ((name, time),) = happened(trace)
    assert name == "hit"
    assert time == pytest.approx(0.5125, abs=1e-12)
    assert trace["left.v"][-1] == pytest.approx(-3.0, abs=1e-12)
    assert trace["right.v"][-1] == pytest.approx(1.0, abs=1e-12)
    assert trace["left.x"][-1] == pytest.approx(3 * 0.5125 - 3 * 0.4875, abs=1e-12)
    assert trace["right.x"][-1] == pytest.approx(2.05 - 0.5125 + 0.4875, abs=1e-12)


WALLS = {
    "low": {"when": "left.x <= 0 and left.v < 0", "then": {"left.v": "-left.v"}},
    "high": {"when": "right.x >= 1 and right.v > 0", "then": {"right.v": "-right.v"}},
}


def walls() -> up.Scenario:
    """Left reaches 0 at 0.33 and right reaches 1 at 0.46 (and 2.46, when it has been back at 0)."""
    low = point(0.33, -1)
    return up.Scenario({"left": low, "right": point(0.54, 1)}, events=WALLS)


def test_whoever_has_the_next_event_goes_first(engine: str) -> None:
    coupling = up.Interruptible(parallel=False)
    trace = up.simulate(walls(), pace=up.Fixed(0.1), until=0.6, coupling=coupling, engine=engine)
    assert [name for name, _ in happened(trace)] == ["low", "high"]
    assert [time for _, time in happened(trace)] == pytest.approx([0.33, 0.46], abs=1e-12)
    # Two steps ahead: the second event comes into sight at 0.33, when the first is over.
    assert leaders(trace) == ["left"] * 4 + ["right"] * 4
    times = [0, 0.1, 0.2, 0.3, 0.33, 0.33, 0.4, 0.46, 0.46, 0.5, 0.6]
    np.testing.assert_allclose(trace.time, times, atol=1e-12)


def test_side_by_side_where_no_event_is_expected(engine: str) -> None:
    trace = up.simulate(walls(), pace=up.Fixed(0.1), until=0.6, coupling=up.Interruptible(), engine=engine)
    assert leaders(trace) == ["(none)"] * 2 + ["left"] * 2 + ["right"] * 3 + ["(none)"]
    assert [time for _, time in happened(trace)] == pytest.approx([0.33, 0.46], abs=1e-12)


@pytest.mark.parametrize(("first", "located"), [("left", 0), ("right", 1)])
def test_who_never_goes_first_leaves_its_events_to_the_next_exchange(
    engine: str, first: str, located: int
) -> None:
    trace = up.simulate(
        walls(), pace=up.Fixed(0.1), until=0.6, coupling=up.Interruptible(first), engine=engine
    )
    exact, seen = [0.33, 0.46], [0.4, 0.5]
    wanted = [exact[k] if k == located else seen[k] for k in range(2)]
    assert [time for _, time in happened(trace)] == pytest.approx(wanted, abs=1e-12)


def test_any_number_of_units(engine: str) -> None:
    """Five points in a row, each of which only meets its neighbours: 0 and 1, then 2 and 3."""
    starts = {"a": (0.0, 1.0), "b": (0.25, 0.0), "c": (3.0, 2.0), "d": (4.3, 0.0), "e": (9.0, 0.0)}
    units = {name: point(*start) for name, start in starts.items()}
    pairs = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")]
    events = {
        f"{one}{two}": {
            "when": f"{one}.x >= {two}.x and {one}.v > {two}.v",
            "then": {f"{one}.v": f"{two}.v", f"{two}.v": f"{one}.v"},
        }
        for one, two in pairs
    }
    trace = up.simulate(
        up.Scenario(units, events=events),
        pace=up.Fixed(0.1),
        until=1.0,
        coupling=up.Interruptible(parallel=False),
        inputs=up.Hermite(),
        engine=engine,
    )
    assert [name for name, _ in happened(trace)] == ["ab", "cd"]
    assert [time for _, time in happened(trace)] == pytest.approx([0.25, 0.65], abs=1e-12)
    assert [trace[f"{unit}.v"][-1] for unit in "abcde"] == [0.0, 1.0, 0.0, 2.0, 0.0]
    assert set(leaders(trace)) == {"a", "c"}


def test_followers_know_what_the_first_has_reached(engine: str) -> None:
    """y' = x along the cubic through both ends: exact, although x turns round within a step."""
    follower = up.Ode({"y": "x"}, inputs=["x"])
    scenario = up.Scenario(
        {"follower": follower, "left": point(0.33, -1)},
        {"follower.x": "left.x"},
        events={"low": WALLS["low"]},
    )
    trace = up.simulate(
        scenario, pace=up.Fixed(0.25), until=1.0, coupling=up.Interruptible(parallel=False),
        inputs=up.Hermite(), engine=engine,
    )  # fmt: skip
    assert happened(trace) == [("low", pytest.approx(0.33, abs=1e-12))]
    assert trace["follower.y"][-1] == pytest.approx(0.33**2 / 2 + 0.67**2 / 2, abs=1e-12)


@pytest.mark.parametrize("first", ["auto", "left", "right"])
@pytest.mark.parametrize("inputs", [up.Hold(), up.Linear(), up.Hermite()], ids=lambda i: type(i).__name__)
def test_a_condition_that_stays_true_happens_once(engine: str, first: str, inputs: Any) -> None:
    """Nothing turns round here: the sum goes on growing, and units differ in what they assume of it."""
    count = up.Ode({"y": "0"}, variables={"n": 0.0}, outputs={"n": "n"})
    scenario = up.Scenario(
        {"left": point(0, 1), "right": point(0, 0, "2"), "count": count},
        events={"full": {"when": "left.x + right.x >= 1", "then": {"count.n": "count.n + 1"}}},
    )
    trace = up.simulate(
        scenario,
        pace=up.Fixed(0.1),
        until=2.0,
        coupling=up.Interruptible(first),
        inputs=inputs,
        engine=engine,
    )
    exact = (math.sqrt(5) - 1) / 2  # t + t² = 1
    assert trace["count.n"][-1] == 1.0
    ((_, time),) = happened(trace)
    assert abs(time - exact) < 0.1


def hops(height: float, kept: float, until: float) -> list[float]:
    """When a ball that falls from this height hits the ground: each hop takes `kept` of the time before."""
    fall = math.sqrt(2 * height / 9.81)
    times, hop = [fall], 2 * kept * fall
    while times[-1] + hop < until:
        times.append(times[-1] + hop)
        hop *= kept
    return times


@pytest.mark.parametrize("given", [{}, {"leader": "ball"}, {"parallel": False}], ids=str)
@pytest.mark.parametrize(
    ("bounce", "kept", "until"),
    [
        ({"when": "ball.x <= 0 and ball.v < 0", "then": {"ball.v": "-0.7*ball.v"}}, 0.7, 2.45),
        # Nothing but the height: it is not above zero just after an event, and must be seen there first.
        ({"when": "ball.x <= 0", "then": {"ball.v": "0.3*abs(ball.v)"}}, 0.3, 0.83),
    ],
    ids=["falling", "below"],
)
def test_the_next_event_is_expected_just_after_one(
    engine: str, bounce: dict[str, Any], kept: float, until: float, given: dict[str, Any]
) -> None:
    """Hops that are shorter than a step."""
    ball = point(1, 0, "-9.81", solver="midpoint")
    scenario = up.Scenario({"ball": ball}, events={"bounce": bounce})
    trace = up.simulate(
        scenario, pace=up.Fixed(0.1), until=until, coupling=up.Interruptible(**given), engine=engine
    )
    exact = hops(1.0, kept, until)
    assert len(exact) > 3
    assert exact[-1] - exact[-2] < 0.1
    assert [time for _, time in happened(trace)] == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize("units", ["ab", "ba"])
def test_the_unit_whose_condition_falls_last_goes_first(engine: str, units: str) -> None:
    """Held, neither sees the other one move: a is there at 0.13, b at 0.37, and only b can find that."""
    both = {"a": point(0.13, -1), "b": point(0.37, -1)}
    scenario = up.Scenario(
        {unit: both[unit] for unit in units}, events={"both": {"when": "a.x <= 0 and b.x <= 0"}}
    )
    trace = up.simulate(scenario, pace=up.Fixed(0.2), until=0.6, coupling=up.Interruptible(), engine=engine)
    assert happened(trace) == [("both", pytest.approx(0.37, abs=1e-12))]


def test_one_that_is_to_go_first_always_does(engine: str) -> None:
    trace = up.simulate(
        walls(), pace=up.Fixed(0.1), until=0.6, coupling=up.Interruptible("right"), engine=engine
    )
    assert set(leaders(trace)) == {"right"}


@pytest.mark.parametrize("inputs", [up.Linear(), up.Hermite()], ids=lambda i: type(i).__name__)
def test_what_was_located_on_a_wrong_assumption_does_not_happen(engine: str, inputs: Any) -> None:
    """y = 1 - 4t + 4.05t² has no root, but all its tangents have one; from 0.6 on it falls, and has."""
    precise = up.DormandPrince(rtol=1e-9, atol=1e-11)
    y = up.Ode(
        {"y": "v", "v": "a"},
        start={"y": 1.0, "v": -4.0},
        variables={"a": {"start": 8.1}},
        solver=precise,
        events={"turn": {"when": "time >= 0.6", "then": {"a": "-6.0"}}},
    )
    scenario = up.Scenario(
        {"left": point(0, 0, solver=precise), "y": y}, events={"hit": {"when": "y.y <= left.x"}}
    )
    trace = up.simulate(
        scenario, pace=up.Fixed(0.3), until=2.0, coupling=up.Interruptible(), inputs=inputs, engine=engine
    )
    high, speed = 1 - 4 * 0.6 + 4.05 * 0.36, -4 + 8.1 * 0.6
    exact = 0.6 + (speed + math.sqrt(speed * speed + 12 * high)) / 6
    assert trace.events.times("hit") == pytest.approx([exact], abs=1e-8)


def test_one_who_runs_after_another_gets_there(engine: str) -> None:
    """Held, the other one is always where it just was; 3t = 0.2 + t nevertheless, closer and closer."""
    scenario = up.Scenario({"left": point(0, 3), "right": point(0.2, 1)}, events={"hit": HIT})
    coupling = up.Interruptible("left")
    trace = up.simulate(
        scenario, pace=up.Fixed(0.3), until=1.0, coupling=coupling, inputs=up.Hold(), engine=engine
    )
    assert happened(trace) == [("hit", pytest.approx(0.1, abs=1e-6))]
    assert 12 <= np.sum(trace.time < 0.1 + 1e-6) <= 16  # log(1e6)/log(3) of them


def test_an_event_that_is_due_at_the_start(engine: str) -> None:
    scenario = up.Scenario({"left": point(0, -1)}, events={"low": WALLS["low"]})
    trace = up.simulate(scenario, pace=up.Fixed(0.1), until=0.2, coupling=up.Interruptible(), engine=engine)
    assert happened(trace) == [("low", 0.0)]
    assert trace["left.x"][-1] == pytest.approx(0.2, abs=1e-12)


def test_an_input_of_the_scenario_takes_part(engine: str) -> None:
    scenario = up.Scenario(
        {"left": point(0, 1)},
        inputs={"limit": 0.33},
        events={"stop": {"when": "left.x >= limit", "then": {"left.v": "0"}}},
    )
    trace = up.simulate(scenario, pace=up.Fixed(0.1), until=1.0, coupling=up.Interruptible(), engine=engine)
    assert happened(trace) == [("stop", pytest.approx(0.33, abs=1e-12))]
    assert trace["left.x"][-1] == pytest.approx(0.33, abs=1e-12)


def test_it_composes_with_seeing_events_coming(engine: str) -> None:
    """Falling from 1: where it is expected and where it is found are the same."""
    ball = point(1, 0, "-9.81", solver="midpoint")
    bounce = {"when": "ball.x <= 0 and ball.v < 0", "then": {"ball.v": "-0.8*ball.v"}}
    scenario = up.Scenario({"ball": ball}, events={"bounce": bounce})
    trace = up.simulate(
        scenario, pace=up.LookAhead(0.1), until=1.0, coupling=up.Interruptible(), engine=engine
    )
    first = math.sqrt(2 / 9.81)
    assert happened(trace)[0] == ("bounce", pytest.approx(first, abs=1e-9))


# -------------------------------------------------------------------- units that stop by themselves


BALL = up.Ode(
    {"h": "v", "v": "-9.81"},
    start={"h": 1.0},
    outputs={"h": "h", "v": "v", "hit": {"event": True}},
    events={"bounce": {"when": "h <= 0 and v < 0", "then": {"v": "-0.7*v"}, "emit": {"hit": True}}},
)
FALL = math.sqrt(2 / 9.81)
BOUNCES = [FALL, FALL + 1.4 * FALL]
COUNTER = up.StateMachine(
    states=["on"],
    initial="on",
    inputs={"go": {"event": True}},
    outputs={"n": "n"},
    variables={"n": 0.0},
    transitions=[{"from": "on", "on": "go", "do": {"n": "n + 1"}}],
)


def test_own_events_are_located_and_told_there(engine: str) -> None:
    scenario = up.Scenario({"ball": BALL, "counter": COUNTER}, {"counter.go": "ball.hit"})
    trace = up.simulate(scenario, pace=up.Fixed(0.1), until=1.2, coupling=up.Interruptible(), engine=engine)
    assert [time for _, time in happened(trace)] == pytest.approx(BOUNCES, abs=1e-9)
    assert trace["counter.n"][-1] == 2.0
    assert "ball" in leaders(trace)


def test_of_several_with_own_events_the_one_with_the_next_goes_first(engine: str) -> None:
    """Balls that fall from 1 and from 0.6; the second one was declared last."""
    scenario = up.Scenario({"high": BALL, "low": BALL.with_values({"h": 0.6})})
    trace = up.simulate(scenario, pace=up.Fixed(0.1), until=0.6, coupling=up.Interruptible(), engine=engine)
    fall = math.sqrt(2 * 0.6 / 9.81)
    assert trace.events.times("low.hit") == pytest.approx([fall], abs=1e-9)
    assert trace.events.times("high.hit") == pytest.approx([FALL], abs=1e-9)
    assert {"low", "high"} <= set(leaders(trace))


EVERY = [
    up.Jacobi(),
    up.Jacobi(outputs="lagged"),
    up.GaussSeidel(),
    up.Iterated(),
    up.Iterated(up.GaussSeidel(), corrections=2),
    up.MultiRate({"ball": 3}),
    up.Negotiated(),
    up.Interruptible(),
    up.Interruptible(parallel=False, outputs="lagged"),
]


@pytest.mark.parametrize("coupling", EVERY, ids=lambda coupling: repr(coupling)[:40])
def test_every_coupling_with_early_stops_and_known_times(engine: str, coupling: Any) -> None:
    """Known times end a step in all of them. A unit that may stop early does so, or deals with it on the way
    and tells it at the end of its step: the number of events and where the ball is are the same."""
    timer = up.Schedule(at=[0.123, 0.777])
    echo = up.Ode({"y": "h"}, inputs=["h"])
    scenario = up.Scenario(
        {"ball": BALL, "echo": echo, "counter": COUNTER, "timer": timer},
        {"echo.h": "ball.h", "counter.go": "ball.hit"},
    )
    trace = up.simulate(scenario, pace=up.Fixed(0.1), until=1.2, coupling=coupling, engine=engine)
    assert trace["counter.n"][-1] == 2.0
    assert {0.123, 0.777} <= set(trace.time.tolist())
    assert trace.events.times("timer.event").tolist() == [0.123, 0.777]
    late = trace.events.times("ball.hit") - BOUNCES
    if isinstance(coupling, up.Negotiated | up.Interruptible):
        assert abs(late).max() < 1e-9
    else:
        assert (late > -1e-9).all()
        assert late.max() <= 0.1
    t = 1.2 - BOUNCES[1]
    v = 0.49 * 9.81 * FALL
    assert trace["ball.h"][-1] == pytest.approx(v * t - 9.81 / 2 * t * t, abs=1e-9)
    assert trace.time[-1] == 1.2


def stopping(most: float) -> up.PythonUnit:
    """Like an FMU that returns early: as far as `most`, if it is let; its output is its time."""

    class Limited:
        def __init__(self, name: str, start: float, parameters: dict[str, Any]) -> None:
            self.time = start

        def get(self, port: str) -> float:
            return self.time

        def set(self, port: str, coefficients: Any) -> None: ...

        def advance(self, t: float, to: float, early: bool) -> float:
            assert t == self.time
            self.time = min(to, t + most) if early else to
            return self.time

    ports = (up.Port("u", up.Causality.INPUT), up.Port("y", up.Causality.OUTPUT))
    return up.PythonUnit(Limited, ports, abilities=frozenset({up.Ability.EARLY_RETURN}))


def test_a_black_box_that_returns_early_goes_first_and_nobody_is_set_back(engine: str) -> None:
    units = {"slow": up.Ode({"x": "y"}, inputs=["y"]), "fmu": stopping(0.07)}
    scenario = up.Scenario(units, {"slow.y": "fmu.y"})
    trace = up.simulate(
        scenario,
        pace=up.Fixed(0.1),
        until=0.3,
        coupling=up.Interruptible(),
        inputs=up.Linear(),
        engine=engine,
    )
    np.testing.assert_allclose(trace.time, [0, 0.07, 0.1, 0.17, 0.2, 0.27, 0.3], atol=1e-12)
    np.testing.assert_allclose(trace["fmu.y"], trace.time)
    assert trace["slow.x"][-1] == pytest.approx(0.3**2 / 2, abs=1e-12)


def test_two_black_boxes_that_return_early(engine: str) -> None:
    """The first of them goes first; the other one goes on by itself."""
    scenario = up.Scenario({"a": stopping(0.07), "b": stopping(0.03)}, {"a.u": "b.y", "b.u": "a.y"})
    trace = up.simulate(scenario, pace=up.Fixed(0.1), until=0.1, coupling=up.Interruptible(), engine=engine)
    np.testing.assert_allclose(trace.time, [0, 0.07, 0.1], atol=1e-12)
    other = up.simulate(
        scenario, pace=up.Fixed(0.1), until=0.1, coupling=up.Interruptible("b"), engine=engine
    )
    np.testing.assert_allclose(other.time, [0, 0.03, 0.06, 0.09, 0.1], atol=1e-12)


@pytest.mark.parametrize("outside", [up.Interruptible(), up.Negotiated()], ids=lambda c: type(c).__name__)
def test_a_nested_scenario_stops_at_its_events_and_so_does_everything(engine: str, outside: Any) -> None:
    """Left and right meet inside at 0.5125; somebody outside sees where left is just then."""
    inner = up.Scenario(
        {"left": point(0, 3), "right": point(2.05, -1)}, outputs={"x": "left.x"}, events={"hit": HIT}
    )
    master = up.Master(up.Fixed(0.1), up.Interruptible(), up.Hermite())
    nest = up.Nested(inner, master, flatten=False)
    scenario = up.Scenario({"nest": nest, "sees": up.Function(["x"], {"y": "2*x"})}, {"sees.x": "nest.x"})
    trace = up.simulate(scenario, pace=up.Fixed(0.1), until=1.0, coupling=outside, engine=engine)
    row = int(np.argmin(abs(trace.time - 0.5125)))
    assert trace.time[row] == pytest.approx(0.5125, abs=1e-12)
    assert trace["sees.y"][row] == pytest.approx(2 * 3 * 0.5125, abs=1e-12)
    assert trace["sees.y"][-1] == pytest.approx(2 * (3 * 0.5125 - 0.4875), abs=1e-12)


@pytest.mark.parametrize("outside", [up.Interruptible(), up.Negotiated()], ids=lambda c: type(c).__name__)
def test_the_short_step_after_an_event_inside_a_nest_is_no_stop(engine: str, outside: Any) -> None:
    """Straight lines need two points: inside, a very short step follows on the event at 1.37."""
    inner = up.Scenario(
        {"left": point(0, 1), "right": point(1.37, 0)}, outputs={"v": "left.v"}, events={"hit": HIT}
    )
    nest = up.Nested(inner, up.Master(up.Fixed(0.5), up.Interruptible(), up.Linear()), flatten=False)
    scenario = up.Scenario({"nest": nest})
    trace = up.simulate(scenario, pace=up.Fixed(0.5), until=3.0, coupling=outside, engine=engine)
    np.testing.assert_allclose(trace.time, [0, 0.5, 1, 1.37, 1.5, 2, 2.5, 3], atol=1e-12)
    assert trace["nest.v"].tolist() == [1, 1, 1, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("coupling", [up.Interruptible(), up.Negotiated()], ids=lambda c: type(c).__name__)
def test_the_log_of_steps_names_who_ended_one(engine: str, coupling: Any) -> None:
    low = BALL.with_values({"h": 0.6})
    trace = up.simulate(
        up.Scenario({"high": BALL, "low": low}),
        pace=up.Fixed(0.1),
        until=0.5,
        coupling=coupling,
        engine=engine,
    )
    found = [(run.last, run.reason) for run in trace.steps if run.reason != "fixed step"]
    falls = [math.sqrt(2 * 0.6 / 9.81), FALL]
    assert [reason for _, reason in found] == ["low stopped", "high stopped"]
    assert [time for time, _ in found] == pytest.approx(falls, abs=1e-9)


def test_a_step_that_no_unit_ended_keeps_its_reason(engine: str) -> None:
    """After the event that left has found comes a step of 0.01, because straight lines need it."""
    coupling = up.Interruptible(interruption=0.01)
    trace = up.simulate(
        coupled(up.RK4()), pace=up.Fixed(0.1), until=0.4, coupling=coupling, inputs=up.Linear(), engine=engine
    )
    runs = [(run.last, run.reason) for run in trace.steps]
    assert (pytest.approx(0.33, abs=1e-9), "left stopped") in runs
    assert (pytest.approx(0.34, abs=1e-9), "fixed step") in runs


def test_a_chain_of_stops_without_end_ends_the_run(engine: str) -> None:
    scenario = up.Scenario({"fmu": stopping(1e-9)})
    with pytest.raises(up.StepError, match=r"without end at .*: stops of fmu.*chattering"):
        up.simulate(scenario, pace=up.Fixed(0.1), until=0.3, coupling=up.Interruptible(), engine=engine)


# -------------------------------------------------------------------- the step after an event


def coupled(solver: Any) -> up.Scenario:
    follower = up.Ode({"y": "x - y"}, inputs=["x"], solver=solver)
    return up.Scenario(
        {"left": point(0.33, -1, solver=solver), "follower": follower},
        {"follower.x": "left.x"},
        events={"low": WALLS["low"]},
    )


@pytest.mark.parametrize(
    ("solver", "inputs", "given", "length"),
    [
        (up.RK4(step=0.005), up.Linear(), None, 0.005),
        (up.DormandPrince(rtol=1e-8), up.Linear(), None, 1e-4),
        (up.DormandPrince(rtol=1e-8), up.Linear(), 0.01, 0.01),
        (up.DormandPrince(rtol=1e-8), up.Hermite(), None, None),
        (up.DormandPrince(rtol=1e-8), up.Hold(), None, None),
        (up.DormandPrince(rtol=1e-8), up.Linear(), 0.0, None),
        (up.RK4(), up.Linear(), None, 0.07 * 1e-3),
    ],
)
def test_inputs_get_two_points_after_an_event(
    engine: str, solver: Any, inputs: Any, given: float | None, length: float | None
) -> None:
    coupling = up.Interruptible(interruption=given)
    trace = up.simulate(
        coupled(solver), pace=up.Fixed(0.1), until=0.6, coupling=coupling, inputs=inputs, engine=engine
    )
    after = trace.time[trace.time > happened(trace)[0][1]][0]
    assert after == pytest.approx(0.4 if length is None else 0.33 + length, abs=1e-9)


def test_an_event_right_before_a_communication_point_spoils_no_input(engine: str) -> None:
    """Two points that are 1e-5 apart say nothing about a step of 0.1; x(t) = abs(sin(t - c)) turns round."""
    c = 0.1 - 1e-5
    wave = up.Ode(
        {"x": "v", "v": "-x"}, start={"x": math.sin(c), "v": -math.cos(c)}, solver=up.DormandPrince()
    )
    follower = up.Ode({"y": "x"}, inputs=["x"])
    scenario = up.Scenario(
        {"left": wave, "follower": follower}, {"follower.x": "left.x"}, events={"low": WALLS["low"]}
    )
    trace = up.simulate(
        scenario,
        pace=up.Fixed(0.1),
        until=1.0,
        coupling=up.Interruptible(),
        inputs=up.Hermite(2),
        engine=engine,
    )
    assert happened(trace) == [("low", pytest.approx(c, abs=1e-6))]
    exact = (1 - math.cos(c)) + (1 - math.cos(1 - c))
    assert trace["follower.y"][-1] == pytest.approx(exact, abs=1e-4)


# -------------------------------------------------------------------- what it says


def explained(scenario: up.Scenario, **settings: Any) -> str:
    return " ".join(explain(up.experiment(scenario, pace=up.Fixed(0.1), until=1.0, **settings)).split())


def test_it_says_who_may_go_first_and_why() -> None:
    text = explained(walls(), coupling=up.Interruptible())
    assert "left may go first: it locates the event 'low'" in text
    assert "right may go first: it locates the event 'high'" in text
    assert "where no event is expected all units go side by side" in text
    assert "the step after an event is as long as any: inputs know their derivatives, or are held" in text
    text = explained(walls(), coupling=up.Interruptible("left"))
    assert "no unit that may go first can locate 'high': it is noticed when units communicate" in text
    both = up.Scenario({"a": point(0, 1), "b": point(1, 0)}, events={"meet": {"when": "a.x >= b.x"}})
    assert "a does not see b.x change within a step" in explained(both, coupling=up.Interruptible())
    text = explained(both, coupling=up.Interruptible(), inputs=up.Hermite())
    assert "does not see" not in text
    text = explained(up.Scenario({"ball": BALL}), coupling=up.Interruptible())
    assert "ball may go first: it locates the event 'ball.bounce'" in text
    text = explained(up.Scenario({"fmu": stopping(0.05)}), coupling=up.Interruptible())
    assert "fmu may go first: it locates events of its own" in text
    assert "where no event is expected fmu goes first, because its own events cannot be predicted" in text


def test_what_it_adds_to_units_is_not_for_users() -> None:
    trace = up.simulate(walls(), pace=up.Fixed(0.1), until=0.6, coupling=up.Interruptible())
    assert [column.name for column in trace.columns] == ["leader", "left.x", "left.v", "right.x", "right.v"]
    assert trace.events.names == ("low", "high")
    with (
        up.start(walls(), pace=up.Fixed(0.1), until=0.6, coupling=up.Interruptible()) as run,
        pytest.raises(up.InvalidInput, match=r"left\.watching"),
    ):
        run.set("left.watching", True)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"leader": "nobody"}, "leader of Interruptible names 'nobody', which is not a unit"),
        ({"leader": "still"}, "names 'still', which cannot stop at an event"),
        ({"leader": ()}, 'must be "auto", a unit, or a list of units'),
        ({"leader": 3}, 'must be "auto", a unit, or a list of units'),
        ({"parallel": "no"}, "parallel of Interruptible must be true or false"),
        ({"forecast": 0.5}, "forecast of Interruptible must be at least 1"),
        ({"forecast": math.inf}, "forecast of Interruptible must be a positive number"),
        ({"interruption": -1.0}, "interruption of Interruptible must be a number of at least 0"),
        ({"outputs": "late"}, "outputs must be"),
        ({"loops": 3}, "loops of Interruptible"),
    ],
)
def test_mistakes(settings: dict[str, Any], message: str) -> None:
    scenario = up.Scenario({"left": point(1, -1), "still": point(0, 0)}, events={"low": WALLS["low"]})
    with pytest.raises(up.MasterError, match=message):
        up.simulate(scenario, pace=up.Fixed(0.1), until=1.0, coupling=up.Interruptible(**settings))


def test_nobody_can_stop() -> None:
    with pytest.raises(up.MasterError, match=r"no unit can: none has events of its own.*GaussSeidel"):
        up.simulate(
            up.Scenario({"left": point(1, -1)}), pace=up.Fixed(0.1), until=1.0, coupling=up.Interruptible()
        )


def test_reactive_inputs_are_refused() -> None:
    units = {"left": point(1, -1), "right": up.Ode({"y": "x"}, inputs={"x": {"reactive": True}})}
    scenario = up.Scenario(units, {"right.x": "left.x"}, events={"low": WALLS["low"]})
    with pytest.raises(up.MasterError, match=r"right\.x: reactive inputs expect.*GaussSeidel"):
        up.simulate(scenario, pace=up.Fixed(0.1), until=1.0, coupling=up.Interruptible())


def test_it_can_be_written_to_files() -> None:
    given = {
        "coupling": {"kind": "interruptible", "leader": ["a", "b"], "parallel": False, "interruption": 1e-4},
        "step": 0.1,
    }
    problems = Problems()
    master = master_from(given, problems)
    assert master is not None, problems.found
    assert master.coupling == up.Interruptible(("a", "b"), parallel=False, interruption=1e-4)
    assert settings_of(master)["coupling"] == given["coupling"]


# -------------------------------------------------------------------- the paper


def test_the_published_experiments() -> None:
    """Goals: all events to 0.02 at steps of 0.1; the spurious one at 0.3, unless all is computed from one
    snapshot; moving walls with a sequence that leaves nothing to be noticed late."""
    script = Path(__file__).parents[2] / "reproduce/sequential_events.py"
    done = subprocess.run([sys.executable, script, "--json"], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["dt_0.1"]["events"] == "4 of 4"
    assert found["dt_0.1"]["max_time_error"] <= 0.02
    assert found["dt_0.1"]["e_rms"] <= 0.1
    assert found["dt_0.1"]["spurious"] == []
    ((name, time),) = found["dt_0.3"]["spurious"]
    assert name == "ceiling"
    assert time == pytest.approx(0.906, abs=0.002)
    assert found["snapshot"]["dt_0.3"]["events"] == "4 of 4"
    assert found["snapshot"]["dt_0.3"]["spurious"] == []
    moving = found["moving"]
    assert [name[0] for name, _ in moving["reference"]] == list("mcfmcmfmf")
    exact = [0.5483, 0.8272, 2.5064, 3.2002, 3.7322, 3.9147, 4.8211, 5.0293, 5.2354]
    assert [time for _, time in moving["reference"]] == pytest.approx(exact, abs=1e-4)
    assert moving["events"] == "9 of 9"
    assert moving["switches"] == pytest.approx([2.4, 3.6, 4.75], abs=0.051)
    assert moving["left_to_check"] == 0
    assert moving["fixed_sequence_left_to_check"] > 0


# -------------------------------------------------------------------- both engines, bit for bit

NUMBERS = st.integers(-16, 16).map(lambda k: k / 8)


@pytest.mark.skipif(len(ENGINES) < 2, reason="there is one engine only")
@settings(max_examples=20)
@given(
    st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), min_size=2, max_size=4),
    st.sampled_from([up.Hold(), up.Linear(), up.Hermite(), up.Continuous()]),
    st.sampled_from(["auto", "u0", ("u1", "u0")]),
    st.booleans(),
    st.sampled_from([None, 0.0, 0.01]),
    st.booleans(),
)
def test_both_engines_agree(
    starts: list[tuple[float, float, float]],
    inputs: Any,
    first: Any,
    parallel: bool,
    interruption: float | None,
    ahead: bool,
) -> None:
    """Points on springs in a ring above a wall, with collisions of the first two. Both kick, so that nothing
    comes to rest there, where it would chatter."""
    units = {
        f"u{k}": point(x, v, f"{a} - x + 0.5*other", inputs=["other"], solver="midpoint")
        for k, (x, v, a) in enumerate(starts)
    }
    links = {f"u{k}.other": f"u{(k + 1) % len(starts)}.x" for k in range(len(starts))}
    events: dict[str, Any] = {
        "meet": {"when": ["u1.x - u0.x", "u1.v - u0.v"], "then": {"u0.v": "u1.v - 1", "u1.v": "u0.v + 1"}}
    }
    for unit in units:
        events[f"low_{unit}"] = {
            "when": [f"{unit}.x + 2", f"{unit}.v"],
            "then": {f"{unit}.v": f"0.5 - {unit}.v"},
        }
    scenario = up.Scenario(units, links, events=events)
    traces = [
        up.simulate(
            scenario,
            pace=up.LookAhead(0.25) if ahead else 0.25,
            until=3.0,
            coupling=up.Interruptible(first, parallel, interruption=interruption),
            inputs=inputs,
            engine=engine,
        )
        for engine in ENGINES
    ]
    one, two = traces
    assert happened(one) == happened(two)
    for name in (column.name for column in one.columns):
        np.testing.assert_array_equal(one[name], two[name])


def test_nobody_locates_a_python_function() -> None:
    scenario = up.Scenario(
        {"a": up.Ode({"x": "-1"}, start={"x": 1.0})}, events={"low": {"when": lambda x: x, "of": ["a.x"]}}
    )
    with pytest.raises(up.UpbeatError, match="what a Python function says, a solver cannot locate"):
        up.simulate(scenario, pace=up.Fixed(0.1), until=1.0, coupling=up.Interruptible())
