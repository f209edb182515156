"""Runs that change their structure: nothing is lost on the way, and what should be the same is."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import upbeat as up
from fmu_maker import COMPILER, make
from upbeat.engine.checkpoint import Checkpoint

ENGINES = ("native", "interpret")


def same(one: up.Trace, other: up.Trace) -> None:
    """All signals to the bit, events and steps."""
    assert one.names == other.names
    assert np.array_equal(one.time, other.time)
    for name in one.names:
        assert np.array_equal(one[name], other[name], equal_nan=one[name].dtype.kind == "f"), name
    assert list(one.events) == list(other.events)
    assert one.steps == other.steps


def body(**start: float) -> up.Ode:
    return up.Ode({"x": "v", "v": "F/m"}, inputs={"F": 0.0}, parameters={"m": 1000.0}, start=start)


def coupling(**changes: Any) -> up.Scenario:
    """A car runs into a trailer that stands there, and is coupled to it by a spring and a damper."""
    momentum = {"momentum": "car.m*car.v + trailer.m*trailer.v"}
    couple = {"when": "car.x - trailer.x <= 2", "to": "coupled", **changes}
    hitch = up.Function(inputs=["d", "w"], outputs={"F": "k*(d - 2) + c*w"}, parameters={"k": 2e4, "c": 3e3})
    return up.Scenario(
        {"car": body(x=10.0, v=-1.0), "trailer": body(), "hitch": hitch},
        {
            "car.F": "-hitch.F",
            "trailer.F": "hitch.F",
            "hitch.d": "car.x - trailer.x",
            "hitch.w": "car.v - trailer.v",
        },
        parameters={"trailer.m": 500.0},
        structures={
            "apart": {"units": ["car", "trailer"], "events": {"couple": couple}, "conserved": momentum},
            "coupled": {"conserved": momentum},
        },
    )


# ----------------------------------------------------------------------------------------------------
# A switch to a structure that is the same changes nothing.


def twins(units: dict[str, Any], connections: Any = (), when: str = "clock.t >= 0.5") -> up.Scenario:
    """Two structures that are the same, and the second comes after half a second."""
    clock = up.Ode({"t": "1"}, solver="euler")
    return up.Scenario(
        {"clock": clock, **units},
        connections,
        structures={"first": {"events": {"on": {"when": when, "to": "second"}}}, "second": {}},
    )


class Counter:
    """Neither can be set back nor turned into bytes."""

    made = 0

    def __init__(self, name: str, start: float, parameters: Any) -> None:
        Counter.made += 1
        self.y, self.u = 0.0, 0.0

    def get(self, port: str) -> float:
        return self.y

    def set(self, port: str, coefficients: Any) -> None:
        self.u = coefficients[0]

    def advance(self, t: float, to: float, early: bool) -> float:
        self.y += self.u * (to - t)
        return to


COUNTER = up.PythonUnit(Counter, inputs={"u": 1.0}, outputs={"y": {"depends": []}})
SWING = {"x": "v", "v": "-x - 0.1*v + u"}
UNITS: dict[str, Any] = {
    "euler": up.Ode(SWING, inputs=["u"], start={"x": 1.0}, solver="euler"),
    "rk4": up.Ode(SWING, inputs=["u"], start={"x": 1.0}),
    "adaptive": up.Ode(SWING, inputs=["u"], start={"x": 1.0}, solver="dormand_prince"),
    "events inside": up.Ode(
        {"x": "v", "v": "-9.81 + u"},
        start={"x": 0.2},
        inputs=["u"],
        variables={"n": {"start": 0, "kind": "integer"}},
        outputs={"x": "x", "n": {"value": "n", "kind": "integer"}},
        events={"hit": {"when": "x <= 0 and v < 0", "then": {"v": "-0.9*v", "n": "n + 1"}}},
    ),
    "python": up.PythonOde(lambda t, x, u, p: {"x": -x.x + u.u}, inputs=["u"], states={"x": 1.0}),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", UNITS)
def test_states_go_on_as_they_are(kind: str, engine: Any) -> None:
    source = up.Ode({"y": "-0.3*y"}, start={"y": 1.0}, solver="euler")
    scenario = twins({"source": source, "unit": UNITS[kind]}, {"unit.u": "source.y"})
    settings: dict[str, Any] = {"step": 0.0625, "events": "off", "until": 2.0, "engine": engine}
    changed = up.simulate(scenario, **settings)
    plain = up.simulate(scenario.structure("second"), **settings)
    assert changed.events.counts() == {"on": 1}
    assert changed["structure"].tolist() == [0] * 9 + [1] * 25
    for name in plain.names:
        assert np.array_equal(changed.one_sided()[name], plain[name]), name


@pytest.mark.parametrize("engine", ENGINES)
def test_discrete_units_go_on_in_their_modes(engine: Any) -> None:
    lamp = up.StateMachine(
        states=["red", "green"],
        initial="red",
        transitions=[
            {"from": "red", "to": "green", "after": 0.4},
            {"from": "green", "to": "red", "after": 0.3},
        ],
        outputs={"light": "state"},
    )
    scenario = twins({"lamp": lamp, "hold": up.blocks.sample_hold(every=0.3)}, {"hold.u": "clock.t"})
    settings: dict[str, Any] = {"step": 0.25, "events": "off", "until": 2.0, "engine": engine}
    changed = up.simulate(scenario, **settings).one_sided()
    plain = up.simulate(scenario.structure("second"), **settings).one_sided()
    assert plain["lamp.light"].max() > plain["lamp.light"].min()
    for name in plain.names:
        assert changed.at(plain.time, name).tolist() == plain[name].tolist(), name


def test_a_unit_that_cannot_be_saved_goes_on_as_the_object_it_is() -> None:
    scenario = twins({"count": COUNTER}, {"count.u": "clock.t"})
    Counter.made = 0
    made = up.experiment(scenario, step=0.25, events="off", until=2.0)
    assert made.choice.name == "interpret"
    trace = made.run()
    assert Counter.made == 1
    assert trace["count.y"][-1] == sum(0.25 * k for k in range(8)) * 0.25
    with pytest.raises(up.InvalidInput, match=r"'count' is there .*--engine interpret"):
        made.with_(engine="native").run()


@pytest.mark.parametrize("engine", ENGINES)
def test_what_an_event_has_changed_stays(engine: Any) -> None:
    """The event of the first structure changes a parameter and variables, and none of the second does."""
    unit = up.Ode(
        {"x": "rate if on else 0"},
        parameters={"rate": 1.0},
        variables={"on": True, "n": {"start": 0, "kind": "integer"}},
        outputs={"x": "x", "n": {"value": "n", "kind": "integer"}},
    )
    event = {
        "when": "unit.x >= 0.5",
        "to": "second",
        "then": {"unit.rate": "3", "unit.n": "unit.n + 2", "unit.on": "unit.n < 1"},
    }
    scenario = up.Scenario({"unit": unit}, structures={"first": {"events": {"on": event}}, "second": {}})
    trace = up.simulate(scenario, pace=up.LookAhead(0.1), until=1.0, engine=engine)
    assert trace["unit.n"][-1] == 2
    assert trace["unit.x"][-1] == pytest.approx(0.5 + 3 * 0.5, abs=1e-5)


# ----------------------------------------------------------------------------------------------------
# Units come and go.


@pytest.mark.parametrize("events", ["auto", "look_ahead", "revised"])
def test_a_car_couples_a_trailer(events: Any) -> None:
    made = up.experiment(coupling(), step=0.0125, until=10.0, events=events, inputs="hermite")
    traces = [made.with_(engine=engine).run() for engine in ENGINES]
    same(*traces)
    trace = traces[0]
    assert trace.events.times("couple") == pytest.approx([8.0], abs=1e-5)
    assert np.isnan(trace["hitch.F"][trace["structure"] == 0]).all()
    assert trace.labels("structure")[[0, -1]].tolist() == ["apart", "coupled"]

    def f(t: float, s: np.ndarray) -> list[float]:
        force = 2e4 * (s[0] - s[2] - 2) + 3e3 * (s[1] - s[3])
        return [s[1], -force / 1000, s[3], force / 500]

    after = trace["structure"] == 1
    exact = solve_ivp(
        f, (8, 10), [2, -1, 0, 0], rtol=1e-11, atol=1e-12, t_eval=np.clip(trace.time[after], 8, 10)
    )
    for name, row in zip(("car.x", "car.v", "trailer.x", "trailer.v"), exact.y, strict=True):
        np.testing.assert_allclose(trace[name][after], row, atol=1e-3)
    first, second = trace.info["structures"]
    assert (first["structure"], first["until"], second["event"]) == ("apart", second["from"], "couple")
    assert second["conserved"] == {"momentum": [-1000.0, -1000.0]}
    assert "structure 'coupled' from t = 8" in trace.notes[-1]


def drop(load_speed: str = "plane.v", mass: str = "plane.m - 50") -> up.Scenario:
    """An aircraft drops its load: it has another mass, and the load falls."""
    plane = up.Ode(
        {"x": "v", "v": "thrust/mass"},
        start={"v": 80.0},
        variables={"mass": 300.0},
        parameters={"thrust": 600.0},
        outputs={"x": "x", "v": "v", "m": "mass"},
    )
    load = up.Ode(
        {"x": "v", "v": "0", "h": "w", "w": "-9.81"},
        parameters={"m": 50.0},
        outputs=["x", "v", "h"],
    )
    release = {
        "when": "plane.x >= 100",
        "to": "empty",
        "then": {"plane.mass": mass},
        "start": {"load.x": "plane.x", "load.v": load_speed, "load.h": "200"},
    }
    return up.Scenario(
        {"plane": plane, "load": load},
        events={"down": {"when": "load.h <= 0"}},
        structures={
            "full": {
                "units": ["plane"],
                "events": {"release": release},
                "conserved": {"momentum": "plane.m*plane.v"},
            },
            "empty": {"conserved": {"momentum": "plane.m*plane.v + load.m*load.v"}},
        },
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_an_aircraft_drops_its_load(engine: Any) -> None:
    trace = up.simulate(drop(), step=0.1, until=8.0, events="auto", engine=engine)
    released = -40 + math.sqrt(1600 + 100)  # 80 t + t² = 100
    assert trace.events.times("release") == pytest.approx([released], abs=2e-6)
    assert trace.events.times("down") == pytest.approx([released + math.sqrt(400 / 9.81)], abs=5e-6)
    speed = 80 + 2 * released
    assert trace["load.v"][-1] == pytest.approx(speed, abs=1e-5)
    assert trace["plane.v"][-1] == pytest.approx(speed + 600 / 250 * (8 - released), abs=1e-5)
    begun = trace.info["structures"][1]["values"]
    assert begun["load.h"] == 200.0
    assert begun["load.x"] == pytest.approx(100.0, abs=1e-3)


def test_what_is_not_conserved_ends_the_run() -> None:
    made = up.experiment(drop(load_speed="0.5*plane.v"), step=0.1, until=8.0, events="auto")
    with pytest.raises(
        up.StepError, match=r"'momentum' is not conserved .*'release' leads from 'full'"
    ) as info:
        made.run()
    speed = 80 + 2 * (-40 + math.sqrt(1700))
    before, after = map(float, re.findall(r"([\d.]+) (?:before|after)", str(info.value)))
    assert (before, after) == pytest.approx((300 * speed, 275 * speed), rel=1e-6)
    assert info.value.trace is not None
    assert len(info.value.trace) > 10


@pytest.mark.parametrize("start", [{"n": "1/(a.v - 1)"}, {"n": "0/(a.v - 1)"}, {"few": "-a.v"}])
def test_start_values_that_are_impossible_end_the_run(engine: Any, start: dict[str, str]) -> None:
    """What there is up to then is kept, and said is which event it was."""
    one = up.Ode({"x": "v", "v": "0"}, start={"v": 1.0})
    other = up.Ode({"n": "0"}, parameters={"few": 1.0}, solver={"kind": "rk4", "step": "few"}, outputs=["n"])
    begins = {"when": "a.x >= 1", "to": "both", "start": {f"b.{k}": value for k, value in start.items()}}
    structures = {"alone": {"units": ["a"], "events": {"begins": begins}}, "both": {}}
    scenario = up.Scenario({"a": one, "b": other}, structures=structures)
    with pytest.raises(up.StepError, match=r"'begins' leads to 'both' at t = 1.*no unit can have") as info:
        up.simulate(scenario, step=0.1, until=3.0, engine=engine)
    assert info.value.trace is not None
    assert info.value.trace.time[-1] == pytest.approx(1.0, abs=1e-5)


def test_a_tolerance_may_be_wider() -> None:
    scenario = drop(load_speed="1.001*plane.v")
    with pytest.raises(up.StepError, match="not conserved"):
        up.simulate(scenario, step=0.1, until=8.0)
    given = {
        "full": {**scenario.structures[0].written},
        "empty": {"conserved": {"momentum": {"value": "plane.m*plane.v + load.m*load.v", "tolerance": 1e-3}}},
    }
    wider = up.Scenario(
        scenario.units, events={"down": {"when": "load.h <= 0"}}, structures=given, name=scenario.name
    )
    assert up.simulate(wider, step=0.1, until=8.0).outcome.ok


# ----------------------------------------------------------------------------------------------------
# Recording, checkpoints, changes by hand.


def valve() -> up.Scenario:
    """A tank, whose valve opens a second one; that has values of all kinds."""
    tank = up.Ode({"h": "q"}, inputs={"q": 1.0})
    second = up.Ode(
        {"h": "q"},
        inputs={"q": 0.0},
        variables={"mode": {"start": "idle", "items": ["none", "idle"]}},
        outputs={
            "h": "h",
            "mode": {"value": "mode", "items": ["none", "idle"]},
            "full": {"value": "h > 0.1", "kind": "boolean"},
        },
    )
    return up.Scenario(
        {"tank": tank, "second": second},
        {"second.q": "0.5*tank.h"},
        outputs={"both": "tank.h + second.h", "level": "tank.h"},
        structures={
            "one": {"units": ["tank"], "events": {"open": {"when": "tank.h >= 0.5", "to": "two"}}},
            "two": {"events": {"shut": {"when": "tank.h >= 1.5", "to": "three"}}},
            "three": {
                "units": ["tank"],
                "connections": {"tank.q": "0.1*tank.h"},
                "outputs": {"both": "-tank.h"},
            },
        },
    )


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("every", [1, 4])
def test_what_is_absent_is_not_a_number(engine: Any, every: int) -> None:
    trace = up.simulate(valve(), step=0.125, until=2.5, events="off", engine=engine, every=every)
    there = trace["structure"] == 1
    assert np.array_equal(~np.isnan(trace["second.h"]), there)
    assert set(trace["second.mode"][~there]) == {0}
    assert set(trace["second.mode"][there]) == {1}
    assert np.array_equal(np.isnan(trace["both"]), trace["structure"] == 0)
    assert trace["both"][-1] == -trace["tank.h"][-1]
    assert np.array_equal(trace["level"], trace["tank.h"])
    assert trace.time.tolist() == sorted(trace.time.tolist())
    summary = trace.summary("second.h")
    assert summary is not None
    assert summary.minimum == 0.0
    assert math.isnan(summary.final)
    assert 0.0 < summary.mean < summary.maximum


@pytest.mark.parametrize("engine", [*ENGINES, "compiled"])
@pytest.mark.parametrize("every", [1, 3])
def test_other_units_may_go_first_in_each_structure(tmp_path: Path, engine: Any, every: int) -> None:
    ball = up.Ode({"h": "v", "v": "-9.81"}, start={"h": 1.0}, outputs=["h", "v"])
    bounce = {"when": "a.h <= 0 and a.v < 0", "then": {"a.v": "-a.v"}}
    scenario = up.Scenario(
        {"a": ball, "b": ball},
        structures={
            "one": {"units": ["b"], "events": {"low": {"when": "b.h <= 0 and b.v < 0", "to": "two"}}},
            "two": {"units": ["a"], "events": {"hit": bounce | {"to": "three"}}},
            "three": {},
        },
    )
    made = up.experiment(
        scenario, pace=0.1, until=2.0, coupling=up.Interruptible(), engine=engine, every=every
    )
    trace = made.run()
    fall = (2 / 9.81) ** 0.5
    assert [event.name for event in trace.events] == ["low", "hit"]
    assert np.abs(trace.events.times() - [fall, 2 * fall]).max() < 1e-12
    first, there = trace.labels("leader"), trace.labels("structure")
    led = [(str(place), str(who)) for place, who in zip(there, first, strict=True) if who != "(none)"]
    if every == 1:
        assert set(led) >= {("one", "b"), ("two", "a")}
    assert set(led) <= {("one", "b"), ("two", "a"), ("two", "b"), ("three", "a"), ("three", "b")}
    if engine != "compiled":
        with made.with_(checkpoint=Checkpoint(tmp_path / "run.checkpoint")).open() as run:
            while run.time < 0.6:
                run.step()
        same(trace, up.resume(tmp_path / "run.checkpoint"))
    if engine != "native":
        same(trace, made.with_(engine="native").run())


def test_patterns_may_match_in_one_structure() -> None:
    made = up.experiment(valve(), step=0.125, until=2.5, record=["second.*", "tank.q"])
    assert made.run().names == ("tank.q", "second.h", "second.mode", "second.full", "second.q", "structure")
    with pytest.raises(up.InvalidInput, match=r"nothing to record matches 'third\.\*'"):
        up.experiment(valve(), step=0.125, until=2.5, record=["third.*"]).run()


@pytest.mark.parametrize("suffix", ["csv", "parquet", "journal"])
def test_result_files_have_all_structures(tmp_path: Path, suffix: str) -> None:
    made = up.experiment(valve(), step=0.125, until=2.5)
    written = made.with_(out=tmp_path / f"r.{suffix}").run()
    for name, values in made.run().to_numpy().items():
        if name != "time":
            assert np.array_equal(written[name], values, equal_nan=values.dtype.kind == "f"), name
    summary, direct = written.summary("second.h"), made.run().summary("second.h")
    assert summary is not None
    assert direct is not None
    assert summary.mean == pytest.approx(direct.mean, rel=1e-12)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("until", [0.25, 1.0, 2.0])
def test_a_checkpoint_knows_its_structure(tmp_path: Path, engine: Any, until: float) -> None:
    made = up.experiment(valve(), step=0.125, until=2.5, engine=engine)
    with made.with_(checkpoint=Checkpoint(tmp_path / "run.checkpoint")).open() as run:
        while run.time < until:
            run.step()
    resumed = up.resume(tmp_path / "run.checkpoint")
    whole = made.run()
    same(whole, resumed)
    assert resumed.info["structures"] == whole.info["structures"]


@pytest.mark.parametrize("engine", ENGINES)
def test_what_was_set_by_hand_goes_on(engine: Any) -> None:
    """An input that nothing drives in either structure keeps what it was given; one that is not driven any
    more is at its start value."""
    unit = up.Ode({"x": "a + b + k"}, inputs={"a": 0.0, "b": 0.5}, parameters={"k": 0.0})
    clock = up.Ode({"t": "1"}, solver="euler")
    structures = {
        "first": {"connections": {"unit.b": "2"}, "events": {"on": {"when": "clock.t >= 1", "to": "second"}}},
        "second": {},
    }
    scenario = up.Scenario({"unit": unit, "clock": clock}, structures=structures)
    with up.start(scenario, step=0.5, until=2.0, events="off", engine=engine, record=["unit.*"]) as run:
        run.set("unit.a", 10.0)
        run.set("unit.k", 100.0)
        trace = run.finish()
    assert trace["unit.x"][-1] == pytest.approx((10 + 2 + 100) * 1.0 + (10 + 0.5 + 100) * 1.0, rel=1e-14)
    assert trace["unit.b"][-1] == 0.5
    assert trace["unit.a"][-1] == 10.0


def test_stepping_by_hand_goes_through_structures() -> None:
    made = up.experiment(valve(), step=0.125, until=2.5)
    with made.open() as run:
        while not run.finished:
            run.step()
        stepped = run.trace
    same(stepped, made.run())


# ----------------------------------------------------------------------------------------------------
# Corner cases.


@pytest.mark.parametrize("engine", ENGINES)
def test_switches_at_the_start_and_in_a_row(engine: Any) -> None:
    unit = up.Ode({"x": "1"})
    structures = {
        "a": {"events": {"one": {"when": "unit.x >= 0", "to": "b"}}},
        "b": {"events": {"two": {"when": "unit.x >= 0", "to": "c"}}},
        "c": {},
    }
    trace = up.simulate(
        up.Scenario({"unit": unit}, structures=structures), step=0.5, until=1.0, engine=engine
    )
    assert [(e.name, e.time) for e in trace.events] == [("one", 0.0), ("two", 0.0)]
    assert trace["unit.x"][-1] == pytest.approx(1.0, rel=1e-14)
    assert trace.labels("structure").tolist()[-1] == "c"


def test_a_switch_at_the_stop_time_is_the_end() -> None:
    unit = up.Ode({"x": "1"}, solver="euler")
    structures = {"a": {"events": {"one": {"when": "unit.x >= 1", "to": "b"}}}, "b": {}}
    scenario = up.Scenario({"unit": unit}, structures=structures)
    trace = up.simulate(scenario, step=0.25, until=1.0, events="off")
    assert (trace.outcome, trace.events.counts()) == (up.Outcome.FINISHED, {"one": 1})
    assert set(trace["structure"].tolist()) == {0}


def test_structures_that_call_each_other_end_with_a_message() -> None:
    structures = {
        "a": {"events": {"there": {"when": "unit.x >= 0.5", "to": "b"}}},
        "b": {"events": {"back": {"when": "unit.x <= 0.6", "to": "a"}}},
    }
    scenario = up.Scenario({"unit": up.Ode({"x": "1"})}, structures=structures)
    with pytest.raises(up.StepError, match=r"follow each other without end .*'a' and 'b'.*hysteresis"):
        up.simulate(scenario, step=0.1, until=1.0)


def test_an_event_of_all_structures_happens_once() -> None:
    """It stays as it was over a switch: what held before does not come true again by that."""
    structures = {"a": {"events": {"on": {"when": "unit.x >= 1", "to": "b"}}}, "b": {}}
    scenario = up.Scenario(
        {"unit": up.Ode({"x": "1"})}, events={"half": {"when": "unit.x >= 0.5"}}, structures=structures
    )
    trace = up.simulate(scenario, step=0.1, until=2.0)
    assert trace.events.counts() == {"half": 1, "on": 1}


def test_other_values_are_for_all_structures() -> None:
    scenario = coupling().with_values({"car.m": 2000.0})
    made = up.experiment(scenario, step=0.1, until=12.0)
    assert made.run().info["structures"][1]["conserved"]["momentum"][0] == -2000.0
    assert (
        made.with_values({"car.m": 3000.0}).run().info["structures"][1]["conserved"]["momentum"][1] == -3000.0
    )


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"cores": 2}, "several structures is on one core"),
        ({"real_time": 1.0}, "not in real time"),
    ],
)
def test_what_is_not_possible_is_said(settings: Any, text: str) -> None:
    with pytest.raises(up.InvalidInput, match=text):
        up.simulate(valve(), step=0.1, until=1.0, **settings)


def test_what_sees_one_structure_asks_for_one() -> None:
    made = up.experiment(valve(), step=0.1, until=1.0)
    for look in (
        lambda: made.plan,
        made.monolithic,
        made.scenario.monolith,
        lambda: up.stability_of(made),
        lambda: up.simulate(
            up.Scenario({"n": up.Nested(valve(), up.Master(up.Fixed(0.1)))}), step=0.1, until=1.0
        ),
    ):
        with pytest.raises(
            up.InvalidInput, match=r"several structures \('one', 'two', 'three'\).*--structure one"
        ):
            look()  # type: ignore[no-untyped-call]
    alone = made.structures["two"].run()
    assert alone.outcome is up.Outcome.STOPPED_BY_EVENT or alone.outcome.ok


# ----------------------------------------------------------------------------------------------------
# Units that are more than equations.


def inner() -> up.Nested:
    """A scenario with states and events of its own."""
    ball = up.Ode(
        {"x": "v", "v": "push - 9.81"},
        inputs=["push"],
        start={"x": 0.3},
        events={"hit": {"when": "x <= 0 and v < 0", "then": {"v": "-0.8*v"}}},
    )
    whole = up.Scenario(
        {"ball": ball, "lag": up.Ode({"y": "u - y"}, inputs=["u"])},
        {"ball.push": "u", "lag.u": "ball.x"},
        inputs=["u"],
        outputs={"x": "ball.x", "y": "lag.y"},
    )
    return up.Nested(whole, up.Master(up.Fixed(0.03125)))


def gone_on(unit: Any, engine: Any) -> None:
    """What it does is the same whether the structure changes or not."""
    source = up.Ode({"y": "-0.3*y"}, start={"y": 1.0}, solver="euler")
    scenario = twins({"source": source, "unit": unit}, {"unit.u": "source.y"})
    settings: dict[str, Any] = {"step": 0.0625, "events": "off", "until": 2.0, "engine": engine}
    changed = up.simulate(scenario, **settings).one_sided()
    plain = up.simulate(scenario.structure("second"), **settings).one_sided()
    for name in plain.names:
        assert np.array_equal(changed[name], plain[name]), name


@pytest.mark.parametrize("engine", ENGINES)
def test_a_nested_scenario_goes_on(engine: Any) -> None:
    gone_on(inner(), engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_unit_in_a_process_of_its_own_goes_on(engine: Any) -> None:
    gone_on(up.Isolated(UNITS["events inside"]), engine)


@pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")
@pytest.mark.parametrize("interface", ["co-simulation", "model-exchange"])
@pytest.mark.parametrize(("name", "version"), [("linear", 3), ("relay", 2), ("bare", 2)])
def test_an_fmu_goes_on(name: str, version: int, interface: Any, tmp_path: Path) -> None:
    """`bare` can neither be set back nor turned into bytes: it goes on as the instance that it is."""
    model = up.Fmu(make(name, version, tmp_path), interface=interface, isolation="none")
    for engine in ("auto",) if name == "bare" else ENGINES:
        gone_on(model, engine)


@pytest.mark.parametrize("engine", [*ENGINES, "compiled"])
def test_a_nested_structure_goes_no_further_than_to_its_end(engine: Any) -> None:
    car = up.Ode({"x": "-1"}, start={"x": 1.0}, outputs=["x"])
    both = up.Scenario(
        {"car": car},
        outputs={"x": "car.x"},
        structures={"apart": {"events": {"meet": {"when": "car.x <= 0", "to": "together"}}}, "together": {}},
    )
    apart = up.experiment(both, step=0.1, until=3.0).structures["apart"]
    inner = up.Nested(apart.scenario, apart.master, flatten=False)
    made = up.experiment(up.Scenario({"n": inner}), step=0.25, until=3.0, engine=engine)
    with pytest.raises(up.UnitError, match=r"'n' .*it stopped at 1\.0"):
        made.run()
