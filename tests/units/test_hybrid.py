"""Equations with events: located, acted on in superdense time, alike on both engines."""

from __future__ import annotations

import math
from typing import Any

import pytest

import upbeat as up
from upbeat.core.errors import ModelError
from upbeat.units import Ode

GRAVITY, BOUNCE = 9.81, 0.7


def ball(**more: Any) -> Ode:
    """Falls from height 1, bounces with a coefficient of 0.7, counts and tells."""
    given: dict[str, Any] = {
        "states": {"h": "v", "v": "-g"},
        "start": {"h": 1.0},
        "parameters": {"g": GRAVITY, "r": BOUNCE},
        "variables": {"n": {"start": 0, "kind": "integer"}},
        "outputs": {
            "h": "h",
            "v": "v",
            "n": {"value": "n", "kind": "integer"},
            "hit": {"event": True, "kind": "real"},
        },
        "events": {
            "bounce": {
                "when": "h <= 0 and v < 0",
                "then": {"v": "-r*v", "n": "n + 1"},
                "emit": {"hit": "v"},
            }
        },
    }
    return Ode(**(given | more))


def bounces(until: float) -> list[tuple[float, float]]:
    """When the ball hits the floor, and its velocity just before."""
    time = math.sqrt(2.0 / GRAVITY)
    speed = GRAVITY * time
    found = []
    while time <= until:
        found.append((time, -speed))
        speed *= BOUNCE
        time += 2.0 * speed / GRAVITY
    return found


@pytest.mark.parametrize("solver", ["rk4", "dormand_prince", {"kind": "rk4", "steps": 7}])
def test_a_ball_bounces_when_it_should(engine: str, solver: Any) -> None:
    scenario = up.Scenario(units={"ball": ball(solver=solver)})
    trace = up.simulate(scenario, until=2.0, pace=0.1, engine=engine)
    assert trace["ball.n"][-1] == len(bounces(2.0)) == 4
    time, speed = bounces(2.0)[-1]
    since, up_speed = 2.0 - time, -BOUNCE * speed
    assert trace["ball.h"][-1] == pytest.approx(up_speed * since - GRAVITY / 2 * since**2, abs=1e-12)


def test_with_early_return_everybody_stops_at_the_event(engine: str) -> None:
    other = Ode(states={"x": "u"}, inputs=["u"])
    scenario = up.Scenario(units={"ball": ball(), "other": other}, connections={"other.u": "ball.v"})
    trace = up.simulate(scenario, until=2.0, pace=0.1, coupling=up.Negotiated(), engine=engine)
    found = [(event.time, event.value) for event in trace.events]
    assert len(found) == 4
    for (time, value), (exact, speed) in zip(found, bounces(2.0), strict=True):
        assert time == pytest.approx(exact, abs=1e-12)
        assert value == pytest.approx(speed, abs=1e-11)
        assert time in trace.time


def test_both_engines_agree_to_the_bit() -> None:
    scenario = up.Scenario(units={"ball": ball(solver="dormand_prince")})
    traces = [up.simulate(scenario, until=2.1, pace=0.07, engine=e) for e in ("interpret", "native")]
    for name in ("ball.h", "ball.v", "ball.n"):
        assert list(traces[0][name]) == list(traces[1][name])


def test_a_condition_that_holds_at_the_start_is_an_event_at_the_start(engine: str) -> None:
    model = Ode(
        states={"x": "-1"},
        start={"x": -1.0},
        outputs={"x": "x", "sunk": {"event": True}},
        events={"sink": {"when": "x <= 0", "then": {"x": "x + 2.1"}, "emit": {"sunk": True}}},
    )
    trace = up.simulate(up.Scenario(units={"a": model}), until=3.5, pace=0.5, engine=engine)
    assert trace["a.x"][:2] == pytest.approx([-1.0, 1.1])
    # it comes down to zero after 1.1, and every 2.1 from then on, and tells so at the end of the step
    assert [event.time for event in trace.events] == [0.0, 1.5, 3.5]


def test_on_a_fixed_grid_events_are_told_at_the_end_of_their_step(engine: str) -> None:
    trace = up.simulate(up.Scenario(units={"ball": ball()}), until=2.0, pace=0.125, engine=engine)
    told = [math.ceil(time / 0.125) * 0.125 for time, _ in bounces(2.0)]
    assert [event.time for event in trace.events] == told
    assert [event.value for event in trace.events] == pytest.approx([speed for _, speed in bounces(2.0)])


def test_all_is_read_before_anything_is_written(engine: str) -> None:
    model = Ode(
        states={"a": "0", "b": "0", "t": "1"},
        start={"a": 1.0, "b": 2.0},
        events={"swap": {"when": "t >= 0.25", "then": {"a": "b", "b": "a"}}},
    )
    trace = up.simulate(up.Scenario(units={"m": model}), until=0.5, pace=0.1, engine=engine)
    assert (trace["m.a"][-1], trace["m.b"][-1]) == (2.0, 1.0)


def test_one_event_leads_to_another_at_the_same_time(engine: str) -> None:
    model = Ode(
        states={"t": "1"},
        variables={"n": 0.0, "m": 0.0},
        outputs={"t": "t", "n": "n", "m": "m"},
        events={
            "first": {"when": "t >= 0.25", "then": {"n": "1"}},
            "second": {"when": "n >= 1", "then": {"m": "t"}},
        },
    )
    trace = up.simulate(up.Scenario(units={"u": model}), until=0.5, pace=0.1, engine=engine)
    assert trace["u.m"][-1] == pytest.approx(0.25, abs=1e-12)


def test_events_from_outside_change_states_and_parameters(engine: str) -> None:
    model = Ode(
        states={"x": "rate"},
        inputs={"kick": {"event": True, "kind": "real"}},
        parameters={"rate": 1.0},
        outputs={"x": "x"},
        events={"kicked": {"on": "kick", "then": {"x": "x + kick", "rate": "-rate"}}},
    )
    scenario = up.Scenario(
        units={"plant": model, "beat": up.Clock(every=1.0)},
        connections={"plant.kick": {"event": "beat.tick", "value": "10"}},
    )
    trace = up.simulate(scenario, until=1.5, pace=0.25, engine=engine)
    kicks = [event.time for event in trace.events if event.name == "beat.tick"]
    # x grows with slope 1, jumps by 10 at each kick, and every kick turns the slope around
    x, slope, last = 0.0, 1.0, 0.0
    for time in kicks:
        x, slope, last = x + slope * (time - last) + 10.0, -slope, time
    assert trace["plant.x"][-1] == pytest.approx(x + slope * (1.5 - last), abs=1e-12)
    assert kicks


def test_a_ball_that_comes_to_rest_stays_there(engine: str) -> None:
    model = ball(
        states={"h": "v if moving else 0", "v": "-g if moving else 0"},
        variables={"n": {"start": 0, "kind": "integer"}, "moving": True},
        events={
            "bounce": {
                "when": "h <= 0 and v < -0.01",
                "then": {"h": "0", "v": "-r*v", "n": "n + 1"},
                "emit": {"hit": "v"},
            },
            "rest": {
                "when": "h <= 0 and v < 0 and v >= -0.01",
                "then": {"h": "0", "v": "0", "moving": "false"},
            },
        },
    )
    trace = up.simulate(up.Scenario(units={"ball": model}), until=5.0, pace=0.1, engine=engine)
    assert trace["ball.h"][-1] == 0.0
    assert trace["ball.v"][-1] == 0.0
    speeds = math.ceil(math.log(0.01 / (GRAVITY * math.sqrt(2 / GRAVITY))) / math.log(BOUNCE))
    assert trace["ball.n"][-1] == speeds


def test_a_chain_without_end_is_an_error_that_names_it(engine: str) -> None:
    with pytest.raises(up.UnitError, match=r"10,000 events on the way.*'bounce'.*comes to rest"):
        up.simulate(up.Scenario(units={"ball": ball()}), until=5.0, pace=5.0, engine=engine)


def test_a_state_goes_through_bytes_from_one_engine_to_the_other() -> None:
    model = ball()
    unit = model.instantiate("ball", 0.0)
    unit.advance(0.0, 1.0)
    data = unit.to_bytes(unit.save())
    assert len(data) == 8 * model.lower().state_size
    other = model.instantiate("ball", 0.0)
    other.restore(other.from_bytes(data))
    assert unit.advance(1.0, 2.0) == other.advance(1.0, 2.0)
    assert (unit.get("h"), unit.get("n")) == (other.get("h"), other.get("n"))
    with pytest.raises(ModelError, match="not a state"):
        unit.from_bytes(data[:-8])


def test_stepping_back_over_an_event(engine: str) -> None:
    scenario = up.Scenario(
        units={"ball": ball(), "follower": Ode(states={"x": "5*(u - x)"}, inputs=["u"])},
        connections={"follower.u": "ball.h"},
    )
    plain = up.simulate(scenario, until=2.0, pace=0.1, engine=engine)
    twice = up.simulate(scenario, until=2.0, pace=0.1, coupling=up.Iterated(up.Jacobi()), engine=engine)
    assert list(plain["ball.h"]) == list(twice["ball.h"])
    assert list(plain["ball.n"]) == list(twice["ball.n"])


def test_a_monolith_has_the_events_of_its_parts() -> None:
    follower = Ode(states={"x": "5*(u - x)"}, inputs=["u"])
    quiet = ball(
        outputs={"h": "h", "n": {"value": "n", "kind": "integer"}},
        events={"bounce": {"when": "h <= 0 and v < 0", "then": {"v": "-r*v", "n": "n + 1"}}},
    )
    scenario = up.Scenario(units={"ball": quiet, "f": follower}, connections={"f.u": "ball.h"})
    trace = up.simulate(scenario.monolith(), until=2.0, pace=0.1)
    assert trace["ball.n"][-1] == 4
    coupled = up.simulate(scenario, until=2.0, pace=1e-3)
    assert trace["f.x"][-1] == pytest.approx(coupled["f.x"][-1], abs=1e-2)


@pytest.mark.parametrize("engine", ["native", "interpret"])
def test_of_events_that_write_the_same_one_waits_for_the_other(engine: str) -> None:
    then = {"one": "n + 1", "ten": "10*n", "three": "n + 3"}
    events = {name: {"when": "x >= 0.55", "then": {"n": value}} for name, value in then.items()}
    model = Ode(states={"x": "1"}, variables={"n": {"start": 1}}, outputs={"x": "x", "n": "n"}, events=events)
    trace = up.simulate(up.Scenario({"a": model}), until=1.0, pace=0.1, engine=engine)
    assert trace["a.n"][-1] == (1 + 1) * 10 + 3


@pytest.mark.parametrize("engine", ["native", "interpret"])
def test_one_that_has_waited_happens_only_if_it_still_holds(engine: str) -> None:
    events = {
        "back": {"when": "x >= 0.55", "then": {"x": "0.1", "n": "n + 1"}},
        "lost": {"when": "x >= 0.55", "then": {"n": "n + 100"}},
    }
    model = Ode(states={"x": "1"}, variables={"n": {"start": 0}}, outputs={"n": "n"}, events=events)
    trace = up.simulate(up.Scenario({"a": model}), until=0.9, pace=0.1, engine=engine)
    assert trace["a.n"][-1] == 1  # at 0.55 it goes back to 0.1, and is at 0.45 in the end


def test_a_monolith_does_with_simultaneous_events_what_the_units_do() -> None:
    mass = Ode(states={"x": "1", "n": "0"})
    events = {
        "p": {"when": "a.x >= 0.55", "then": {"a.n": "a.n + 1"}},
        "q": {"when": "a.x >= 0.55", "then": {"a.n": "a.n + 10"}},
    }
    scenario = up.Scenario({"a": mass}, events=events)
    for one in (scenario, scenario.monolith()):
        trace = up.simulate(one, until=1.0, pace=0.1)
        assert trace["a.n"][-1] == 11


def test_it_is_written_as_it_was_read() -> None:
    model = ball()
    assert Ode(**model.to_spec()) == model


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"events": {"a": {"when": "h == 0", "then": {"v": "1"}}}}, "hardly ever meet"),
        ({"events": {"a": {"when": "h", "then": {"v": "1"}}}}, "true or false"),
        ({"events": {"a": {"then": {"v": "1"}}}}, "either a condition or events"),
        ({"events": {"a": {"when": "h < 0"}}}, "say what happens"),
        ({"events": {"a": {"when": "h < 0", "then": {"w": "1"}}}}, "there is no variable 'w'"),
        ({"events": {"a": {"when": "h < 0", "do": {"v": "1"}}}}, "unknown key 'do'"),
        ({"events": {"a": {"on": "kick", "then": {"v": "1"}}}}, "no event input 'kick'"),
        ({"events": {"a": {"when": "h < 0", "then": {"n": "0.5"}}}}, "'n' is integer"),
        ({"events": {"a": {"when": [], "then": {"v": "1"}}}}, "empty"),
        ({"events": {"a": "h < 0"}}, "an event is a table"),
        (
            {"inputs": {"kick": {"event": True}}, "states": {"h": "v + kick", "v": "-g"}},
            "'kick' is an event, which has a value only when it happens",
        ),
    ],
)
def test_mistakes_are_named(change: dict[str, Any], what: str) -> None:
    with pytest.raises(ModelError, match=what):
        ball(**change)
