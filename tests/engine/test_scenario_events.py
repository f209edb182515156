"""Events between units: seen when units communicate, atomic, once, from one snapshot, on both engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import upbeat as up
from upbeat.core.errors import StepError


def point(x: float, v: float, **more: Any) -> up.Ode:
    """Moves on a line at the speed v; Euler is exact for it, but for rounding."""
    return up.Ode({"x": "v", "v": "0*v"}, start={"x": x, "v": v}, solver="euler", **more)


def happened(trace: up.Trace) -> list[tuple[str, float]]:
    return [(event.name, event.time) for event in trace.events]


def collision() -> dict[str, Any]:
    """Two equal masses swap their velocities."""
    return {
        "when": ["right.x - left.x", "right.v - left.v"],
        "then": {"left.v": "right.v", "right.v": "left.v"},
    }


def test_a_shared_event_is_atomic_and_happens_once(engine: str) -> None:
    scenario = up.Scenario({"left": point(0, 1), "right": point(1, -1)}, events={"hit": collision()})
    trace = up.simulate(scenario, pace=up.Fixed(0.125), until=2.0, engine=engine)
    assert happened(trace) == [("hit", 0.5)]
    assert trace["left.v"][-1] == -1.0
    assert trace["right.v"][-1] == 1.0
    assert trace["left.x"][-1] == 0.5 - 1.5
    assert trace["right.x"][-1] == 0.5 + 1.5
    assert trace["left.v"][trace.time == 0.5].tolist() == [1.0, -1.0]  # before and after the event


def test_all_units_of_an_event_change_in_one_micro_step(engine: str) -> None:
    """A third unit that looks at both never sees one of them changed and the other not."""
    scenario = up.Scenario(
        {"left": point(0, 1), "right": point(1, -1), "spy": up.Edge()},
        {"spy.signal": "left.v + right.v != 0"},
        events={"hit": collision()},
    )
    trace = up.simulate(scenario, pace=up.Fixed(0.125), until=1.0, engine=engine)
    assert happened(trace) == [("hit", 0.5)]


def test_it_happens_on_the_edge_and_again_only_after_it_was_false(engine: str) -> None:
    wave = up.Function(outputs={"y": "sin(2*pi*time)"})
    scenario = up.Scenario(
        {"wave": wave, "count": up.Ode({"n": "0"}, outputs=["n"])},
        events={"low": {"when": "wave.y < -0.5", "then": {"count.n": "count.n + 1"}}},
    )
    trace = up.simulate(scenario, pace=up.Fixed(1 / 64), until=3.0, engine=engine)
    first = next(k / 64 for k in range(64) if np.sin(2 * np.pi * k / 64) < -0.5)
    assert happened(trace) == [("low", first), ("low", 1 + first), ("low", 2 + first)]
    assert trace["count.n"][-1] == 3.0


def test_what_holds_at_the_start_happens_before_the_first_step(engine: str) -> None:
    scenario = up.Scenario({"a": point(-1, -1)}, events={"low": {"when": "a.x <= 0", "then": {"a.v": "2"}}})
    trace = up.simulate(scenario, pace=up.Fixed(0.25), until=1.0, engine=engine)
    assert happened(trace) == [("low", 0.0)]
    assert trace["a.x"].tolist() == [-1.0, -1.0, -0.5, 0.0, 0.5, 1.0]
    assert trace["a.v"].tolist() == [-1.0, 2.0, 2.0, 2.0, 2.0, 2.0]


def test_an_event_at_the_end_still_happens(engine: str) -> None:
    scenario = up.Scenario({"a": point(1, -1)}, events={"low": {"when": "a.x <= 0", "then": {"a.v": "5"}}})
    trace = up.simulate(scenario, pace=up.Fixed(0.25), until=1.0, engine=engine)
    assert happened(trace) == [("low", 1.0)]
    assert trace["a.v"][-1] == 5.0


def test_one_event_leads_to_another_at_the_same_instant(engine: str) -> None:
    scenario = up.Scenario(
        {"a": point(1, -1), "b": point(0, 0), "c": point(0, 0)},
        events={
            "third": {"when": "b.x > 5 and b.v > 0.5", "then": {"c.x": "c.x + b.x"}},
            "first": {"when": "a.x <= 0", "then": {"b.v": "1", "b.x": "7"}},
        },
    )
    trace = up.simulate(scenario, pace=up.Fixed(0.5), until=1.5, engine=engine)
    assert [(e.name, e.time, e.index) for e in trace.events] == [("first", 1.0, 0), ("third", 1.0, 1)]
    assert trace["c.x"][-1] == 7.0


def test_a_chain_without_end_is_an_error(engine: str) -> None:
    scenario = up.Scenario(
        {"a": point(1, 0)},
        events={
            "up": {"when": "a.x < 0", "then": {"a.x": "1"}},
            "down": {"when": "a.x > 0", "then": {"a.x": "-1"}},
        },
    )
    with pytest.raises(StepError, match="chain of events") as caught:
        up.simulate(
            scenario,
            pace=up.Fixed(0.5),
            until=1.5,
            engine=engine,
            simultaneous=up.Simultaneous(max_iterations=50),
        )
    assert "events" in str(caught.value)


def test_a_private_and_a_shared_event_at_one_instant(engine: str) -> None:
    """A mass is at the wall in the very moment in which another one hits it from behind.

    Both want its velocity, so one goes after the other: the wall turns it, the masses swap their
    velocities, the wall turns it again, and now it is the faster one.
    """
    scenario = up.Scenario(
        {"left": point(0, 2), "right": point(0.5, 1)},
        events={
            "wall": {"when": "right.x >= 1 and right.v > 0", "then": {"right.v": "-right.v"}},
            "hit": collision(),
        },
    )
    trace = up.simulate(scenario, pace=up.Fixed(0.25), until=1.0, engine=engine)
    assert happened(trace) == [("wall", 0.5), ("hit", 0.5), ("wall", 0.5), ("hit", 0.5)]
    assert trace["left.v"][-1] == -2.0
    assert trace["right.v"][-1] == -1.0


def test_events_that_have_nothing_in_common_are_one_snapshot(engine: str) -> None:
    scenario = up.Scenario(
        {"a": point(1, -1), "b": point(2, -2)},
        events={
            "one": {"when": "a.x <= 0", "then": {"a.v": "b.v"}},
            "two": {"when": "b.x <= 0", "then": {"b.v": "a.v"}},
        },
    )
    trace = up.simulate(scenario, pace=up.Fixed(0.5), until=1.5, engine=engine)
    assert happened(trace) == [("one", 1.0), ("two", 1.0)]
    assert trace["a.v"][-1] == -2.0
    assert trace["b.v"][-1] == -1.0


@pytest.mark.parametrize("order", ["xyz", "zyx", "yxz"])
def test_three_conditions_wait_for_the_last(engine: str, order: str) -> None:
    ends = {"x": 1.0, "y": 2.0, "z": 0.5}
    scenario = up.Scenario(
        {name: point(end, -1) for name, end in ends.items()},
        events={"all": {"when": [f"{name}.x" for name in order]}},
    )
    trace = up.simulate(scenario, pace=up.Fixed(0.25), until=3.0, engine=engine)
    assert happened(trace) == [("all", 2.0)]


def test_what_grazes_between_two_points_is_left_to_the_pace(engine: str) -> None:
    """A dip of depth 0.01 around t = 0.5 that lasts 0.2: seen only if a communication point lies in it."""
    dip = up.Function(outputs={"y": "(time - 0.5)**2 - 0.01"})
    scenario = up.Scenario({"dip": dip}, events={"touch": {"when": "dip.y <= 0"}})
    assert happened(up.simulate(scenario, pace=up.Fixed(0.35), until=1.05, engine=engine)) == []
    assert happened(up.simulate(scenario, pace=up.Fixed(0.25), until=1.0, engine=engine)) == [("touch", 0.5)]


def test_an_event_inside_a_nested_scenario(engine: str) -> None:
    inner = up.Scenario(
        {"left": point(0, 1), "right": point(1, -1)},
        outputs={"x": "left.x", "v": "right.v"},
        events={"hit": collision()},
    )
    for flatten in (True, False):
        nested = up.Nested(inner, up.Master(up.Fixed(0.125)), flatten=flatten)
        seen = up.Ode({"s": "u"}, inputs=["u"], outputs=["s"], solver="euler")
        scenario = up.Scenario({"pair": nested, "seen": seen}, {"seen.u": "pair.v"})
        trace = up.simulate(scenario, pace=up.Fixed(0.25), until=2.0, engine=engine)
        assert trace["pair.x"][-1] == -1.0
        assert trace["pair.v"][-1] == 1.0
        assert trace["seen.s"][-1] == -0.5 + 1.5


def test_a_monolith_has_the_events_too(engine: str) -> None:
    inner = up.Scenario(
        {"left": point(0, 1), "right": point(1, -1)}, outputs={"x": "left.x"}, events={"hit": collision()}
    )
    wall = {"when": "far.x >= 1", "then": {"far.v": "-pair.x"}}
    scenario = up.Scenario(
        {"pair": up.Nested(inner, up.Master(up.Fixed(0.3))), "far": point(0, 1)}, events={"wall": wall}
    )
    trace = up.simulate(
        scenario.monolith(), pace=up.Fixed(0.3), until=1.5, engine=engine, coupling=up.Negotiated()
    )
    assert happened(trace) == [("wall", pytest.approx(1.0, abs=1e-12))]
    assert trace["pair.x"][-1] == pytest.approx(-0.5, abs=1e-12)
    assert trace["far.v"][-1] == pytest.approx(0.0, abs=1e-12)  # left is back at 0 just then


def test_a_discrete_unit_sets_off_a_continuous_one_and_back(engine: str) -> None:
    """A machine closes a valve at t = 1; that stops the tank, whose level then switches a lamp on."""
    machine = up.StateMachine(
        states=["open", "closed"],
        initial="open",
        outputs={"shut": {"value": "state == 'closed'", "kind": "boolean"}},
        transitions=[{"from": "open", "to": "closed", "after": 1.0}],
    )
    lamp = up.StateMachine(
        states=["off", "on"],
        initial="off",
        inputs=["level"],
        transitions=[{"from": "off", "to": "on", "when": "level >= 11"}],
    )
    tank = up.Ode({"level": "rate"}, outputs=["level"], parameters={"rate": 1.0})
    scenario = up.Scenario(
        {"machine": machine, "tank": tank, "lamp": lamp},
        {"lamp.level": "tank.level"},
        events={
            "stop": {"when": "machine.shut", "then": {"tank.rate": "0", "tank.level": "tank.level + 10"}}
        },
    )
    trace = up.simulate(scenario, pace=up.Fixed(0.4), until=2.0, engine=engine)
    assert happened(trace) == [("stop", 1.0)]
    assert trace["tank.level"][-1] == pytest.approx(11.0, abs=1e-12)
    assert trace["lamp.state"][trace.time == 1.0].tolist() == [0, 1], "one jump, however long the chain"


def test_inputs_and_parameters_in_conditions(engine: str) -> None:
    """An input stands for what drives it, a parameter for its value, which can be set."""
    follower = up.Ode(
        {"y": "0"}, inputs=["u"], outputs=["y"], parameters={"limit": {"value": 100.0, "unit": "cm"}}
    )
    leader = up.Ode({"x": {"der": "1", "unit": "m"}}, outputs=["x"], solver="euler")
    scenario = up.Scenario(
        {"leader": leader, "follower": follower},
        {"follower.u": "2*leader.x + push"},
        inputs={"push": {"start": 0.5}},
        events={
            "far": {"when": "leader.x >= follower.limit", "then": {"follower.y": "follower.u"}},
            "pushed": {"when": ["2.5 - follower.u"]},
        },
    )
    trace = up.simulate(scenario, pace=up.Fixed(0.25), until=3.0, engine=engine)
    assert happened(trace) == [("far", 1.0), ("pushed", 1.0)]  # 100 cm are 1 m
    assert trace["follower.y"][-1] == 2.5
    other = scenario.with_values({"follower.limit": 200.0, "push": 1.5})
    trace = up.simulate(other, pace=up.Fixed(0.25), until=3.0, engine=engine)
    assert happened(trace) == [("pushed", 0.5), ("far", 2.0)]


def test_arrays_labels_and_truths_change(engine: str) -> None:
    unit = up.Ode(
        {"x": ["1", "2"]},
        variables={"mode": {"items": ["up", "down"], "start": "up"}, "on": True, "n": 0},
        outputs={
            "x": "x",
            "mode": {"value": "mode", "items": ["up", "down"]},
            "on": {"value": "on", "kind": "boolean"},
        },
        solver="euler",
    )
    scenario = up.Scenario(
        {"unit": unit},
        events={
            "turn": {
                "when": "unit.x[1] >= 2 and unit.mode == 'up'",
                "then": {"unit.mode": "down", "unit.on": "unit.x[0] > 5", "unit.x": ["unit.x[1]", "0"]},
            }
        },
    )
    trace = up.simulate(scenario, pace=up.Fixed(0.5), until=2.0, engine=engine)
    assert happened(trace) == [("turn", 1.0)]
    assert trace["unit.mode"][-1] == 1
    assert not trace["unit.on"][-1]
    assert trace["unit.x[0]"][-1] == 3.0
    assert trace["unit.x[1]"][-1] == 2.0


@pytest.mark.parametrize(
    "coupling",
    [
        up.Jacobi(),
        up.GaussSeidel(),
        up.GaussSeidel(("right", "left")),
        up.Jacobi(outputs="lagged"),
        up.Iterated(up.Jacobi()),
        up.MultiRate({"left": 4}),
        up.Negotiated(),
    ],
)
def test_every_coupling(engine: str, coupling: Any) -> None:
    units = {
        "left": point(0, 1, inputs=["u"]),
        "right": up.Ode({"x": "v + 0*u", "v": "0*v"}, start={"x": 1, "v": -1}, inputs=["u"], solver="euler"),
    }
    links = {"left.u": "right.x", "right.u": "left.x"}
    scenario = up.Scenario(units, links, events={"hit": collision()})
    trace = up.simulate(scenario, pace=up.Fixed(0.125), until=2.0, engine=engine, coupling=coupling)
    assert happened(trace) == [("hit", 0.5)]
    assert trace["left.x"][-1] == -1.0
    assert trace["right.x"][-1] == 2.0


def test_trajectories_of_inputs_do_not_need_the_derivatives_of_what_is_watched(engine: str) -> None:
    scenario = up.Scenario(
        {"left": point(0, 1), "right": point(1, -1, inputs=["u"])},
        {"right.u": "left.x"},
        events={"hit": collision()},
    )
    trace = up.simulate(scenario, pace=up.Fixed(0.125), until=2.0, engine=engine, inputs=up.Hermite())
    assert happened(trace) == [("hit", 0.5)]


def test_it_goes_on_from_a_checkpoint(engine: str, tmp_path: Path) -> None:
    """Between two events: what is armed and what has changed is in the checkpoint."""
    wave = up.Function(outputs={"y": "sin(2*pi*time)"})
    scenario = up.Scenario(
        {"wave": wave, "count": up.Ode({"n": "0"}, outputs=["n"])},
        events={"low": {"when": "wave.y < -0.5", "then": {"count.n": "count.n + 1"}}},
    )
    settings: dict[str, Any] = {"pace": 1 / 64, "until": 3.0, "engine": engine}
    whole = up.simulate(scenario, **settings)
    path = tmp_path / "run.ckpt"
    with up.start(scenario, checkpoint=up.Checkpoint(path, every=1e9), **settings) as run:
        while run.time < 1.8:  # the second one holds, and must not happen once more
            run.step()
        run.checkpoint()
    rest = up.resume(path)
    assert happened(rest)[-1] == happened(whole)[-1]
    assert rest["count.n"][-1] == 3.0


def test_the_history_of_an_input_begins_with_the_value_after_the_event(engine: str) -> None:
    """Held in the step after the event, for there is no slope yet; but in the next one the slope is known."""
    ramp = up.Ode({"x": "1"}, outputs=["x"], solver="euler")
    scenario = up.Scenario(
        {"ramp": ramp, "sum": up.Ode({"s": "u"}, inputs=["u"], outputs=["s"])},
        {"sum.u": "ramp.x"},
        events={"lift": {"when": "ramp.x >= 2 and ramp.x < 3", "then": {"ramp.x": "10"}}},
    )
    trace = up.simulate(scenario, pace=up.Fixed(1.0), until=5.0, engine=engine, inputs=up.Linear())
    held, ramped = [0.0, 10.0], [1.5, 11.5, 12.5]
    assert trace["sum.s"][-1] == pytest.approx(sum(held) + sum(ramped), abs=1e-12)
