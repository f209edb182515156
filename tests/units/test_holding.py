"""Contacts that come to rest and switches that slide: ordinary equations in all engines, and true."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import upbeat as up
from upbeat.engine.native import machine as native
from upbeat.report.summary import summary
from upbeat.scenario.merging.monolith import monolith

needs_native = pytest.mark.skipif(not native.available(), reason="the native engine is not built")
G = 9.81
TIGHT = up.DormandPrince(rtol=1e-12, atol=1e-14)
BOUNCE = {"when": "h <= 0 and v < 0", "then": {"v": "-0.7*v"}, "rests": True}
FALL = {"h": "v", "v": "-9.81"}
RELAY = {
    "up": {"when": "s <= 0", "then": {"u": "1"}, "slides": True},
    "down": {"when": "s >= 0", "then": {"u": "-1"}, "slides": True},
}


def run(unit: up.Ode, until: float, engine: str, **more: Any) -> up.Trace:
    more = {"pace": 0.1, "coupling": up.Negotiated(), **more}
    return up.simulate(up.Scenario({"u": unit}), until=until, engine=engine, **more)


def log(trace: up.Trace) -> list[tuple[str, float, Any]]:
    return [(event.name.removeprefix("u."), event.time, event.value) for event in trace.events]


# -------------------------------------------------------------------- contacts


@pytest.mark.parametrize("coupling", [up.Negotiated(), up.Jacobi()], ids=["negotiated", "on a grid"])
def test_a_ball_comes_to_rest_where_its_flights_add_up(engine: str, coupling: Any) -> None:
    """Flights shrink by 0.7, so they end at t = √(2/g)·(1 + 2·0.7/0.3): the geometric series."""
    trace = run(up.Ode(FALL, start={"h": 1.0}, events={"bounce": BOUNCE}), 5.0, engine, coupling=coupling)
    end = math.sqrt(2 / G) * (1 + 2 * 0.7 / 0.3)
    (event,) = trace.events
    assert (event.name, event.value) == ("u.bounce_rests", "each flight was shorter than the one before")
    assert trace["u.bounce_resting_since"][-1] == pytest.approx(end, abs=2e-6)
    if isinstance(coupling, up.Negotiated):
        assert f"at t = {event.time:.9g} s, because each flight was shorter" in summary(trace)
    still = trace.time > end
    assert np.abs(trace["u.h"][still]).max() < 1e-14
    assert not trace["u.v"][still].any()
    assert trace["u.bounce_resting"][still].all()
    assert trace["u.h"].min() > -1e-12


def test_what_does_not_bounce_rests_at_once(engine: str) -> None:
    """Without restitution there is no flight; so there is none where it lies on the floor from the start."""
    falls = {**BOUNCE, "then": {"v": "0"}}
    trace = run(up.Ode(FALL, start={"h": 1.0}, events={"bounce": falls}), 1.0, engine)
    ((name, at, why),) = log(trace)
    assert (name, why) == ("bounce_rests", "nothing drives it off the surface")
    assert at == pytest.approx(math.sqrt(2 / G), abs=1e-12)
    lies = run(up.Ode(FALL, events={"bounce": BOUNCE}), 1.0, engine)
    assert log(lies) == [("bounce_rests", 0.0, "nothing drives it off the surface")]
    assert not lies["u.h"].any()


def test_a_body_on_a_table_lifts_off_where_the_table_falls_faster(engine: str) -> None:
    """The table goes A·sin(w·t): it falls with A·w²·sin(w·t), which is g at t₁; from there the body "
    "flies a parabola."""
    size, rate = 0.2, 9.0
    land = {"when": "h <= z and v < vz", "then": {"v": "vz"}, "rests": True}
    unit = up.Ode(
        FALL,
        start={"h": 0.0, "v": size * rate},
        parameters={"A": size, "w": rate},
        locals={"z": "A*sin(w*time)", "vz": "A*w*cos(w*time)"},
        events={"land": land},
        solver=TIGHT,
    )
    lifts = math.asin(G / (size * rate**2)) / rate
    trace = run(unit, 0.3, engine)
    assert [name for name, _, _ in log(trace)] == ["land_rests", "land_lifts"]
    assert log(trace)[1][1] == pytest.approx(lifts, abs=1e-11)
    h0, v0 = size * math.sin(rate * lifts), size * rate * math.cos(rate * lifts)
    for t, h in zip(trace.time, trace["u.h"], strict=True):
        d = t - lifts
        exact = size * math.sin(rate * t) if d < 0 else h0 + v0 * d - G * d * d / 2
        assert h == pytest.approx(exact, abs=1e-10)


@pytest.mark.parametrize("coupling", [up.Negotiated(), up.Jacobi()])
def test_a_ball_rolls_off_the_edge_of_a_table(engine: str, coupling: Any) -> None:
    """It rests where the rest of the condition holds: at x = 2 the table ends, and it falls."""
    lands = {"when": "h <= 0 and v < 0 and x <= 2", "then": {"v": "-0.3*v"}, "rests": True}
    unit = up.Ode(
        {**FALL, "x": "w", "w": "0"}, start={"h": 0.5, "w": 0.8}, events={"lands": lands}, solver=TIGHT
    )
    trace = run(unit, 4.0, engine, coupling=coupling)
    (rests, *_), (lifts, at, why) = log(trace)
    assert (rests, lifts, why) == ("lands_rests", "lands_lifts", "the surface ends there")
    assert trace["u.lands_resting_since"][-1] == pytest.approx(2.5, abs=1e-12)
    assert isinstance(coupling, up.Jacobi) or at == pytest.approx(2.5, abs=1e-12)
    late = trace.time > 1.0
    exact = np.where(trace.time < 2.5, 0.0, -G * (trace.time - 2.5) ** 2 / 2)
    assert np.abs(trace["u.h"] - exact)[late].max() < 1e-10


def tower(count: int, restitution: float = 0.4) -> up.Ode:
    """Bodies of 1, 2, 3, … kg, one above the other."""
    states = {f"x{i}": f"v{i}" for i in range(count)} | {f"v{i}": "-9.81" for i in range(count)}
    events: dict[str, Any] = {
        "floor": {"when": "x0 <= 0 and v0 < 0", "then": {"v0": f"-{restitution}*v0"}, "rests": True}
    }
    for i in range(1, count):
        a, b = i, i + 1
        meets = f"{(1 + restitution) / (a + b)}*(v{i - 1} - v{i})"
        events[f"on{i}"] = {
            "when": f"x{i} <= x{i - 1} and v{i} < v{i - 1}",
            "then": {f"v{i - 1}": f"v{i - 1} - {b}*{meets}", f"v{i}": f"v{i} + {a}*{meets}"},
            "rests": True,
        }
    start = {f"x{i}": 0.3 * i + 0.1 for i in range(count)}
    return up.Ode(states, start=start, events=events, solver=TIGHT)


@pytest.mark.parametrize("count", [2, 4])
def test_bodies_end_on_each_other(engine: str, count: int) -> None:
    trace = run(tower(count), 6.0, engine)
    ends = [trace[f"u.{name}"][-1] for k in range(count) for name in (f"x{k}", f"v{k}")]
    assert np.abs(ends).max() < 1e-7  # of the floor and of each other; errors of places stay as they are
    assert {name for name, _, _ in log(trace)} >= {"floor_rests", *(f"on{i}_rests" for i in range(1, count))}
    energy = sum((i + 1) * (trace[f"u.v{i}"] ** 2 / 2 + G * trace[f"u.x{i}"]) for i in range(count))
    assert np.diff(energy).max() < 1e-9, "impacts, rest and what holds others take energy, and give none"


def test_a_blow_on_what_rests_leaves_it_where_it_presses(engine: str) -> None:
    """The lower body lies on the floor; the upper one bounces off it as off a wall, from 0.4² of "
    "the height each time."""
    unit = tower(2).with_values({"x0": 0.0, "x1": 1.0})
    trace = run(unit, 0.9, engine)
    assert not trace["u.x0"].any()
    first = math.sqrt(2 / G)
    second = trace.time > first + 1e-9
    d = trace.time[second] - first
    exact = 0.4 * G * first * d - G * d * d / 2
    up_there = d < 2 * 0.4 * first
    assert np.abs(trace["u.x1"][second] - exact)[up_there].max() < 1e-12


# -------------------------------------------------------------------- switches


def test_a_relay_slides_as_filippov_says(engine: str) -> None:
    """x'' = u, driven to v = -x by u = ±1: it gets there, and goes on as x' = -x."""
    unit = up.Ode(
        {"x": "v", "v": "u"}, start={"x": 1.0, "v": 0.0}, variables={"u": -1.0}, locals={"s": "x + v"},
        outputs={"x": "x", "v": "v", "mean": "u"}, events=RELAY, solver=TIGHT,
    )  # fmt: skip
    trace = run(unit, 4.0, engine)
    hit = math.sqrt(3.0) - 1.0  # 1 - t²/2 - t = 0
    assert log(trace) == [("up_slides", pytest.approx(hit, abs=1e-11), "both sides lead back to the surface")]
    sliding = trace.time > hit + 1e-9
    exact = (1 - hit**2 / 2) * np.exp(-(trace.time[sliding] - hit))
    for signal, wanted in (("x", exact), ("v", -exact), ("mean", exact)):
        assert np.abs(trace[f"u.{signal}"][sliding] - wanted).max() < 1e-10


def test_friction_holds_more_than_it_brakes(engine: str) -> None:
    """Pulled by a force 2·t: it starts where that is 1.5 times the friction in motion, and moves by "
    "the rest."""
    unit = up.Ode(
        {"x": "v", "v": "2*time - to"}, variables={"to": 1.0}, parameters={"ratio": 1.5}, solver=TIGHT,
        events={
            "back": {"when": "v <= 0", "then": {"to": "-1"}, "slides": "ratio"},
            "forth": {"when": "v >= 0", "then": {"to": "1"}},
        },
    )  # fmt: skip
    trace = run(unit, 2.0, engine)
    assert [(name, at) for name, at, _ in log(trace)] == [
        ("back_slides", 0.0),
        ("back_leaves", pytest.approx(0.75, abs=1e-11)),
    ]
    t = np.maximum(trace.time, 0.75)
    assert np.abs(trace["u.v"] - (t**2 - t - 0.75**2 + 0.75)).max() < 1e-11


def test_what_starts_away_from_the_surface_does_not_slide(engine: str) -> None:
    """Though its condition holds: it gets there first."""
    unit = up.Ode({"s": "u"}, start={"s": -0.35}, variables={"u": 1.0}, events=RELAY, solver=TIGHT)
    trace = run(unit, 1.0, engine)
    assert log(trace)[0][:2] == ("up_slides", pytest.approx(0.35, abs=1e-11))
    assert np.abs(trace["u.s"] - np.minimum(trace.time - 0.35, 0.0)).max() < 1e-12


# -------------------------------------------------------------------- chains


@pytest.mark.parametrize("count", [2, 5, 50])
def test_newtons_cradle(engine: str, count: int) -> None:
    """Bodies of one mass exchange their speeds, so that all are free pendulums, sorted."""
    if engine == "interpret" and count == 50:
        pytest.skip("the native engine has done it")
    states = {f"x{i}": f"v{i}" for i in range(count)} | {f"v{i}": f"-x{i}" for i in range(count)}
    events = {
        f"hit{i}": {
            "when": f"x{i + 1} <= x{i} and v{i + 1} < v{i}",
            "then": {f"v{i}": f"v{i + 1}", f"v{i + 1}": f"v{i}"},
        }
        for i in range(count - 1)
    }
    unit = up.Ode(states, start={"x0": -1.0}, events=events, solver=up.RK4(step=2e-3))
    trace = run(unit, 5.0, engine)
    free = np.zeros((count, len(trace.time)))
    free[0] = -np.cos(trace.time)
    found = np.array([trace[f"u.x{i}"] for i in range(count)])
    assert np.abs(found - np.sort(free, axis=0)).max() < 1e-11


def touching(masses: Sequence[float], restitution: float, pull: str = "0", rests: bool = True) -> up.Ode:
    """Bodies in a row, all in touch, the first of which comes with a speed of 1."""
    count = len(masses)
    states = {f"x{i}": f"v{i}" for i in range(count)} | {f"v{i}": pull.format(i) for i in range(count)}
    events = {}
    for i, (a, b) in enumerate(pairwise(masses)):
        meets = f"{1 + restitution!r}*(v{i} - v{i + 1})/{a + b!r}"
        events[f"hit{i}"] = {
            "when": f"x{i + 1} <= x{i} and v{i + 1} < v{i}",
            "then": {f"v{i}": f"v{i} - {b!r}*{meets}", f"v{i + 1}": f"v{i + 1} + {a!r}*{meets}"},
            "rests": rests,
        }
    return up.Ode(states, start={"v0": 1.0}, events=events, solver="euler")


def speeds(trace: up.Trace, count: int, row: int = -1) -> Any:
    return np.array([trace[f"u.v{i}"][row] for i in range(count)])


@pytest.mark.parametrize("coupling", [up.Negotiated(), up.Jacobi()])
@pytest.mark.parametrize(("count", "restitution"), [(3, 0.0), (8, 0.0), (9, 0.2), (16, 0.5), (50, 0.0)])
def test_what_collides_without_end_ends(engine: str, count: int, restitution: float, coupling: Any) -> None:
    """Inelastic collapse. Where all stay together, momentum says how fast."""
    if engine == "interpret" and count == 50:
        pytest.skip("the native engine has done it")
    masses = [float(m) for m in np.random.default_rng(count).uniform(0.5, 2.0, count)]
    trace = run(touching(masses, restitution), 0.3, engine, coupling=coupling)
    v = speeds(trace, count)
    assert abs(np.dot(masses, v) / masses[0] - 1.0) < 1e-13
    assert np.diff(v).min() > -1e-12  # nothing closes any more
    assert np.dot(masses, v * v) <= masses[0] * (
        1 - (1 - restitution**2) * masses[1] / (masses[0] + masses[1])
    )
    if restitution == 0.0:
        assert np.abs(v - masses[0] / sum(masses)).max() < 1e-12
    if count > 3:
        ((name, at, why),) = log(trace)
        assert (name, why) == ("hit0_collapses", "bodies that touch collided at one instant without end")
        assert at == 0.0 or coupling == up.Jacobi()


def test_many_collisions_in_one_step_come_to_their_end(engine: str) -> None:
    """Bodies that run into each other: more than 1,000 impacts within a step that no unit stops at."""
    masses = [1.0 + 0.3 * (k % 3) for k in range(9)]
    start = {f"x{k}": 0.05 * k + 0.015 * (k % 2) for k in range(9)}
    start |= {f"v{k}": 1.0 - 0.2 * k for k in range(9)}
    unit = touching(masses, 0.2).with_values(start)
    trace = run(unit, 0.4, engine, pace=0.4, coupling=up.Jacobi())
    v, momentum = speeds(trace, 9), sum(m * start[f"v{k}"] for k, m in enumerate(masses))
    assert abs(np.dot(masses, v) - momentum) < 1e-12
    assert np.diff(v).min() > -1e-12
    assert np.diff([trace[f"u.x{k}"][-1] for k in range(9)]).min() > -1e-9


def test_what_loses_nothing_does_not_collapse(engine: str) -> None:
    """A light body between two heavy ones: more than a hundred impacts of each pair at one instant."""
    masses = [1.0, 1e-5, 1.0]
    trace = run(touching(masses, 1.0), 0.3, engine)
    v = speeds(trace, 3)
    assert not log(trace)
    assert abs(np.dot(masses, v * v) - 1.0) < 1e-11
    assert abs(np.dot(masses, v) - 1.0) < 1e-12
    assert np.diff(v).min() > -1e-12


def test_a_tower_without_restitution_that_is_let_go_in_touch_rests(engine: str) -> None:
    """Dropped as one, it lands as one: each is stopped by the one below, at one instant."""
    count = 5
    states = {f"x{i}": f"v{i}" for i in range(count)} | {f"v{i}": "-9.81" for i in range(count)}
    events: dict[str, Any] = {"floor": {"when": "x0 <= 0 and v0 < 0", "then": {"v0": "0"}, "rests": True}}
    for i in range(count - 1):
        mean = f"({i + 1}.0*v{i} + {i + 2}.0*v{i + 1})/{2 * i + 3}.0"
        events[f"hit{i}"] = {
            "when": f"x{i + 1} <= x{i} and v{i + 1} < v{i}",
            "then": {f"v{i}": mean, f"v{i + 1}": mean},
            "rests": True,
        }
    start = {f"x{i}": 0.5 for i in range(count)}
    unit = up.Ode(states, start=start, events=events, solver=TIGHT)
    trace = run(unit, 2.0, engine)
    landed = (1 / 9.81) ** 0.5
    assert log(trace)
    assert max(abs(at - landed) for _, at, _ in log(trace)) < 1e-9
    assert max(abs(trace[f"u.x{i}"][-1]) for i in range(count)) < 1e-9
    assert max(abs(trace[f"u.v{i}"][-1]) for i in range(count)) < 1e-11
    assert all(trace[f"u.{name}_resting"][-1] for name in ("floor", "hit0", "hit1", "hit2", "hit3"))


def test_more_than_eight_only_collide_and_only_where_nothing_presses() -> None:
    assert not any("resting" in port.name for port in touching([1.0] * 12, 0.5).ports)
    with pytest.raises(up.ModelError, match=r"at most 8 .* can be held, not 11.*may only collide"):
        touching([1.0] * 12, 0.5, pull="-{}")


# -------------------------------------------------------------------- engines


@st.composite
def units(draw: st.DrawFn) -> tuple[up.Ode, str]:
    """Bodies that bounce, or relays that switch, with numbers of all sizes."""
    numbers = st.sampled_from([0.1, 0.3, 0.7, 1.0, 2.5])
    a, b, c, d = (draw(numbers) for _ in range(4))
    solver = draw(st.sampled_from(["rk4", "dormand_prince", {"kind": "euler", "steps": 20}]))
    if draw(st.booleans()):
        made = tower(draw(st.integers(1, 3)), draw(st.sampled_from([0.0, 0.3, 0.6])))
        return up.Ode(**{**made.to_spec(), "solver": solver}), "x0"
    more = {
        "under": {"when": "y <= 0", "then": {"w": "-1"}, "slides": draw(st.sampled_from([True, 1.5]))},
        "over": {"when": "y >= 0", "then": {"w": "1"}},
    }
    unit = up.Ode(
        {"x": f"{a} - y + {b}*u - w", "y": f"{c}*sin(2*time) - {d}*w + 0.3*u"},
        start={"x": draw(numbers), "y": b}, variables={"u": 1.0, "w": 1.0}, locals={"s": "x - y"},
        outputs={"x": "x", "y": "y", "mean": "u - 2*w"},
        events={**RELAY, **more}, solver=solver,
    )  # fmt: skip
    return unit, "x"


def outcome(unit: up.Ode, engine: str, **more: Any) -> tuple[Any, ...]:
    text = ""
    try:
        trace = run(unit, 3.0, engine, **more)
    except up.RunError as error:
        text, trace = str(error), error.trace
    columns = {name: [float(v).hex() for v in trace[name]] for name in ("time", *trace.names)}
    return text, columns, [(e.name, e.time.hex(), e.value) for e in trace.events]


@needs_native
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(units(), st.sampled_from([up.Negotiated(), up.Jacobi()]))
def test_engines_agree(made: tuple[up.Ode, str], coupling: Any) -> None:
    unit, _ = made
    assert outcome(unit, "native", coupling=coupling) == outcome(unit, "interpret", coupling=coupling)


@needs_native
@pytest.mark.parametrize(
    "unit",
    [
        tower(3),
        up.Ode({"s": "u"}, start={"s": 0.3}, variables={"u": 1.0}, events=RELAY),
        touching([1.0, 2.0, 0.7, 1.3, 1.0], 0.0),
        touching([1.0 + 0.3 * (k % 3) for k in range(14)], 0.4),
    ],
)
def test_so_does_the_compiled_one(unit: up.Ode) -> None:
    assert outcome(unit, "compiled") == outcome(unit, "native")


def test_a_model_written_out_is_the_same_one() -> None:
    unit = tower(3)
    assert up.Ode(**unit.to_spec()) == unit


def test_what_is_held_is_held_in_the_monolith() -> None:
    """And by units beside it, which know nothing of it."""
    ball = up.Ode(FALL, start={"h": 1.0}, events={"bounce": BOUNCE}, outputs=["h", "v"])
    follower = up.Ode({"x": "h - x"}, inputs={"h": 0.0}, outputs=["x"])
    scenario = up.Scenario({"ball": ball, "follower": follower}, {"follower.h": "ball.h"})
    trace = up.simulate(monolith(scenario, TIGHT), pace=0.1, until=4.0, coupling=up.Negotiated())
    (event,) = trace.events
    assert (event.name, event.value) == ("ball.bounce_rests", "each flight was shorter than the one before")
    assert np.abs(trace["ball.h"][trace.time > 2.6]).max() < 1e-12


def test_a_verdict_says_what_it_cannot_see() -> None:
    unit = up.Ode(FALL, start={"h": 1.0}, events={"bounce": BOUNCE})
    assert up.stability_of(up.Scenario({"u": unit}), pace=0.1).data()["verdict"] == "undecided"


# -------------------------------------------------------------------- what cannot be held

FLOOR: dict[str, Any] = {"states": FALL, "start": {"h": 1.0}}
SWITCH: dict[str, Any] = {"states": {"x": "u"}, "variables": {"u": 1.0}}
LOW = {"when": "x <= 0", "then": {"u": "1"}, "slides": True}
BACK = {"when": "x >= 0", "then": {"u": "-1"}}


@pytest.mark.parametrize(
    ("given_", "events", "said"),
    [
        (
            FLOOR,
            {"b": {**BOUNCE, "then": {"v": "1 - v"}}},
            "it changes 'v' even where the gap does not close any more",
        ),
        (FLOOR, {"b": {**BOUNCE, "when": "v <= 0"}}, "its condition is not that of a gap that closes"),
        (FLOOR, {"b": {**BOUNCE, "rests": "yes"}}, "rests is true or false, not 'yes'"),
        (FLOOR, {"b": {**BOUNCE, "rest": True}}, "unknown key 'rest'. Did you mean 'rests'?"),
        (FLOOR | {"inputs": ["f"]}, {"b": {**BOUNCE, "when": "h <= f"}}, "its gap depends on an input"),
        (
            FLOOR | {"inputs": ["f", "g"]},
            {"b": {**BOUNCE, "when": "h <= f and v < g", "then": {"v": "2*g - v"}}},
            "the speed of its gap, v - g, depends on an input",
        ),
        (SWITCH, {"a": {"when": "x <= 0", "then": {"u": "1"}, "slides": True}}, "no other event of"),
        (
            SWITCH,
            {"a": {**LOW, "then": {"u": "-u"}}, "b": {**BACK, "then": {"u": "-u"}}},
            "no derivative depends on a variable that 'a' and 'b' both set",
        ),
        (
            SWITCH,
            {"a": {"when": "x <= 0", "then": {"u": "1"}, "slides": 0.5}, "b": BACK},
            "a number from 1 on, or an expression of parameters",
        ),
        (
            SWITCH,
            {"a": {"when": "x <= 0", "then": {"u": "1", "x": "0.5"}, "slides": True}, "b": BACK},
            "'a' makes states jump",
        ),
    ],
)  # fmt: skip
def test_what_equations_do_not_allow_is_said(
    given_: dict[str, Any], events: dict[str, Any], said: str
) -> None:
    with pytest.raises(up.ModelError) as caught:
        up.Ode(**given_, events=events)
    assert said in str(caught.value)


def test_there_are_limits() -> None:
    with pytest.raises(
        up.ModelError, match="at most 8 contacts and switches that act on each other can be held, not 9"
    ):
        tower(9)
