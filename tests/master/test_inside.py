"""LookAhead follows the events that units have inside: steps end there, and the units act."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import upbeat as up
from conftest import ENGINES

BOUNCE = {"when": "h <= 0 and v < 0", "then": {"v": "-0.7*v"}}


def ball(**more: Any) -> up.Ode:
    given: dict[str, Any] = {"outputs": ["h"], "events": {"bounce": BOUNCE}}
    return up.Ode({"h": "v", "v": "-9.81"}, start={"h": 1.0}, **(given | more))


def bounces(count: int) -> list[float]:
    """The first after sqrt(2 h/g); then each flight is 0.7 times as long as the one before."""
    first = math.sqrt(2 / 9.81)
    flights = [first, *(2 * first * 0.7 ** (k + 1) for k in range(count - 1))]
    return [float(t) for t in np.cumsum(flights)]


def expected(trace: up.Trace) -> list[float]:
    """The times at which steps ended because something was expected inside the ball."""
    return [step.last for step in trace.steps if step.reason.startswith("event 'ball.bounce' expected")]


@pytest.mark.parametrize("settings", [{}, {"isolation": "process"}, {"coupling": "negotiated"}])
def test_steps_end_just_behind_the_events_of_a_unit(engine: str, settings: Any) -> None:
    trace = up.simulate(
        up.Scenario({"ball": ball()}), pace=up.LookAhead(0.1), until=2.0, engine=engine, **settings
    )
    if settings.get("coupling") == "negotiated":  # which ends the step where the unit has found it
        for t in bounces(4):
            assert np.abs(trace.time - t).min() < 1e-12
    else:
        assert expected(trace) == pytest.approx(bounces(4), abs=1.1e-6)
        assert all(t >= b for t, b in zip(expected(trace), bounces(4), strict=True))
        # what was known before a bounce says nothing about the flight after it
        reasons = [step.reason for step in trace.steps]
        after = [reasons[k + 1] for k, reason in enumerate(reasons) if "expected" in reason]
        assert after == ["after an event"] * 4
    assert trace.names == ("ball.h",)


def test_another_unit_hears_of_it_at_once(engine: str) -> None:
    """The ball tells that it has hit, and a lamp keeps the time of that."""
    outputs = {"h": "h", "hit": {"event": True}}
    events = {"bounce": {**BOUNCE, "emit": {"hit": True}}}
    lamp = up.Ode(
        {"x": "0"}, inputs={"on": {"event": True}}, variables={"at": 0.0}, outputs={"at": "at"},
        events={"seen": {"on": "on", "then": {"at": "time"}}},
    )  # fmt: skip
    units = {"ball": ball(outputs=outputs, events=events), "lamp": lamp}
    scenario = up.Scenario(units, {"lamp.on": {"event": "ball.hit"}})
    late = up.simulate(scenario, pace=up.Fixed(0.1), until=0.6, engine=engine)
    seen = up.simulate(scenario, pace=up.LookAhead(0.1), until=0.6, engine=engine)
    assert late["lamp.at"][-1] == pytest.approx(0.5)
    assert seen["lamp.at"][-1] == pytest.approx(bounces(1)[0], abs=1.1e-6)


def test_without_rates_by_parabolas(engine: str) -> None:
    """The course of a thrown stone is one: nothing is left to be found out."""
    pace = up.LookAhead(0.1, symbolic=False)
    scenario = up.Scenario({"ball": ball(events={"bounce": {**BOUNCE, "when": "h <= 0"}})})
    trace = up.simulate(scenario, pace=pace, until=1.2, engine=engine)
    assert expected(trace) == pytest.approx(bounces(2), abs=1e-5)
    told = up.explain(up.experiment(scenario, pace=pace, until=1.2))
    assert "event 'ball.bounce' is predicted from a parabola" in told


def test_between_units_and_inside_together(engine: str) -> None:
    events = {"high": {"when": "ball.h >= 0.25", "then": {}}, "low": {"when": "ball.h <= 0.5"}}
    scenario = up.Scenario({"ball": ball()}, events=events)
    trace = up.simulate(scenario, pace=up.LookAhead(0.1), until=0.6, engine=engine)
    assert trace.events.times("low") == pytest.approx([math.sqrt(1 / 9.81)], abs=1.1e-6)
    assert expected(trace) == pytest.approx(bounces(1), abs=1.1e-6)


def test_it_can_be_left_out() -> None:
    pace = up.LookAhead(0.1, inside=False)
    with pytest.raises(up.MasterError, match="nor has a unit of equations one inside"):
        up.simulate(up.Scenario({"ball": ball()}), pace=pace, until=1.0)
    with pytest.raises(up.MasterError, match="inside of LookAhead must be true or false, not 1"):
        up.LookAhead(0.1, inside=1)  # type: ignore[arg-type]


@pytest.mark.skipif(len(ENGINES) < 2, reason="there is one engine only")
@pytest.mark.parametrize(
    "coupling", ["jacobi", "gauss_seidel", "negotiated", {"kind": "multi_rate", "rates": {"ball": 3}}]
)
def test_both_engines_make_the_same_steps(coupling: Any) -> None:
    """A ball on a table that moves, and is told where the ball is."""
    event = {"when": "h <= table and v < up", "then": {"v": "2*up - 0.9*v"}}
    units = {
        "ball": ball(inputs=["table", "up"], events={"bounce": event}),
        "table": up.Ode({"x": "v", "v": "-4*x + 0.1*h"}, start={"x": 0.1}, inputs=["h"]),
    }
    scenario = up.Scenario(units, {"ball.table": "table.x", "ball.up": "table.v", "table.h": "ball.h"})
    one, other = (
        up.simulate(
            scenario, pace=up.LookAhead(0.05), until=3.0, coupling=coupling, inputs="linear", engine=engine
        )
        for engine in ENGINES
    )
    assert np.array_equal(one.time, other.time)
    assert [step.reason for step in one.steps] == [step.reason for step in other.steps]
    assert np.array_equal(one["ball.h"], other["ball.h"])
    assert any("ball.bounce" in step.reason for step in one.steps)


def test_several_units_have_events_of_their_own(engine: str) -> None:
    """From four times the height it takes twice as long."""
    units = {"ball": ball(), "other": ball().with_values({"h": 4.0})}
    trace = up.simulate(up.Scenario(units), pace=up.LookAhead(0.1), until=1.0, engine=engine)
    (seen,) = [step.last for step in trace.steps if step.reason.startswith("event 'other.bounce' expected")]
    assert expected(trace) == pytest.approx(bounces(1), abs=1.1e-6)
    assert seen == pytest.approx(2 * bounces(1)[0], abs=1.1e-6)


# ---------------------------------------------------------------- what follows a unit that jumps

SOLVER = up.DormandPrince(rtol=1e-10, atol=1e-12)


def two_masses(
    turn: np.random.Generator, *, inside: bool, box: Any = None, alone: bool = False, told: bool = False
) -> up.Scenario:
    """One hangs from another, which bounces off a ceiling: an event of its own, or of the scenario. `box`
    makes another kind of unit of the upper one. `alone`: it does not feel the lower one. `told`: the scenario
    says when it bounces."""
    m1, m2, k1, k2 = turn.uniform([0.1, 0.1, 0.5, 0.5], [0.5, 0.5, 3.0, 3.0])
    e, v1, v2 = turn.uniform([0.5, 0.0, 0.0], [1.0, 5.0, 4.0])
    hit = {"when": "x >= 0 and v > 0", "then": {"v": f"-{e}*v"}}
    upper: up.Model = up.Ode(
        {"x": "v", "v": "(-k1*x - k2*(x - x2 - 8) - 0.1*(v - v2))/m - 9.81"},
        start={"x": -0.3, "v": v1}, inputs={"x2": -8.3, "v2": 0.0}, solver=SOLVER,
        parameters={"m": m1, "k1": k1, "k2": k2}, events={"ceiling": hit} if inside else {},
    )  # fmt: skip
    if box is not None:
        upper = box(upper, {"m": m1, "k1": k1, "k2": k2, "e": e, "x": -0.3, "v": v1, "x2": -8.3})
    lower = up.Ode(
        {"x": "v", "v": "(-k2*(x + 8 - x1) - 0.1*(v - v1))/m - 9.81"},
        start={"x": -8.3, "v": v2}, inputs=["x1", "v1"], solver=SOLVER, parameters={"m": m2, "k2": k2},
    )  # fmt: skip
    between: dict[str, Any] = {"when": "upper.x >= 0 and upper.v > 0", "then": {"upper.v": f"-{e}*upper.v"}}
    links = {"lower.x1": "upper.x", "lower.v1": "upper.v"}
    if not alone:
        links |= {"upper.x2": "lower.x", "upper.v2": "lower.v"}
    if inside:
        del between["then"]
    events = {} if inside and not told else {"ceiling": between}
    return up.Scenario({"upper": upper, "lower": lower}, links, events=events)


def error(trace: up.Trace, true: up.Trace) -> float:
    trace = trace.one_sided()
    errors = [np.interp(trace.time, true.time, true[name]) - trace[name] for name in ("upper.x", "lower.x")]
    return float(np.sqrt(np.mean(np.square(errors))))


POSITIONS = {"upper.x2": up.Hermite(2), "lower.x1": up.Hermite(2)}
WAYS = {
    "looking ahead, side by side": {"pace": up.LookAhead(0.05)},
    "looking ahead, one after the other": {"pace": up.LookAhead(0.05), "coupling": up.GaussSeidel()},
    "auto, side by side": {"pace": 0.05, "events": "auto"},
    "auto, one after the other": {"pace": 0.05, "events": "auto", "coupling": up.GaussSeidel()},
    "repeated": {"pace": up.LookAhead(0.05), "coupling": up.Iterated(corrections=2)},
    "refined": {"pace": up.LookAhead(0.05), "coupling": up.Refined()},
}


@pytest.mark.parametrize("ports", [POSITIONS, {}], ids=["hermite", "linear"])
@pytest.mark.parametrize("how", WAYS.values(), ids=WAYS)
def test_an_event_inside_does_what_the_same_between_units_does(how: Any, ports: Any) -> None:
    """Inputs that follow what has jumped begin anew, wherever the event was written down."""
    approximations = {"inputs": up.Hermite(1) if ports else up.Linear(), "ports": ports}
    for seed in range(4):
        turns = [np.random.default_rng(seed) for _ in range(3)]
        true = up.simulate(two_masses(turns[0], inside=False).monolith(), pace=1e-3, until=4.0)
        found = [
            error(up.simulate(two_masses(turn, inside=inside), until=4.0, **approximations, **how), true)
            for turn, inside in zip(turns[1:], (False, True), strict=True)
        ]
        assert found[1] == pytest.approx(found[0], rel=0.05), (seed, found)


@pytest.mark.parametrize("coupling", [up.Jacobi(), up.GaussSeidel(), up.MultiRate({"lower": 3})], ids=str)
@pytest.mark.parametrize("inputs", [up.Linear(), up.Polynomial(3), up.Continuous(), up.Smooth()], ids=str)
def test_inputs_begin_anew_at_a_pace_that_does_not_look(inputs: Any, coupling: Any) -> None:
    """A sawtooth that falls by 1 each second, in the middle of a step: what follows it is never beyond it."""
    saw = up.Ode({"y": "1"}, events={"tooth": {"when": "y >= 1", "then": {"y": "y - 1"}}}, solver=SOLVER)
    lower = up.Ode({"x": "0", "most": "0"}, inputs=["u"], outputs={"seen": "u"}, solver=SOLVER)
    total = up.Ode({"x": "u"}, inputs=["u"], solver=SOLVER)
    scenario = up.Scenario({"saw": saw, "lower": lower, "sum": total}, {"lower.u": "saw.y", "sum.u": "saw.y"})
    how: Any = {"pace": 0.08, "until": 6.0, "inputs": inputs, "coupling": coupling}
    runs = [up.simulate(scenario, engine=engine, **how) for engine in ENGINES]
    for trace in runs:
        np.testing.assert_array_equal(trace["sum.x"], runs[0]["sum.x"])
        means = np.diff(trace["sum.x"]) / np.diff(trace.time)
        assert means.min() > -0.09
        assert means.max() < 1.09


# ---------------------------------------------------------------- FMUs that jump


def follower_of(ball: up.Model, port: str) -> up.Scenario:
    """The ball, and what adds up what it is told of it."""
    total = up.Ode({"x": "u"}, inputs=["u"], solver=SOLVER)
    return up.Scenario({"ball": ball, "sum": total}, {"sum.u": f"ball.{port}"})


def fallen(time: np.ndarray) -> np.ndarray:
    """The height of the ball: from 1 m, each flight is 0.7 times as long as the one before."""
    starts = np.array([-math.sqrt(2 / 9.81), *bounces(8)])
    k = np.searchsorted(starts, time, side="right") - 1
    since, v = time - starts[k], 9.81 * math.sqrt(2 / 9.81) * 0.7**k
    return np.asarray(v * since - 9.81 / 2 * since**2)


JUMPING = [("co-simulation", 3), ("model-exchange", 2), ("model-exchange", 3)]


@pytest.mark.parametrize(("interface", "version"), JUMPING)
@pytest.mark.parametrize("coupling", [up.Jacobi(), up.GaussSeidel()], ids=str)
@pytest.mark.parametrize("inputs", [up.Linear(), up.Polynomial(3)], ids=str)
def test_what_follows_an_fmu_that_jumps_begins_anew(
    fmu: Any, interface: Any, version: int, inputs: Any, coupling: Any
) -> None:
    """The velocity of the ball, added up, is its height: as well as with the event in an `Ode`."""
    boxed = up.Fmu(fmu("ball", version), interface=interface, tolerance=1e-10)
    how: Any = {"pace": up.Fixed(0.03), "until": 1.4, "inputs": inputs, "coupling": coupling}
    errors = []
    for model in (ball(outputs=["h", "v"], solver=SOLVER), boxed):
        runs = [up.simulate(follower_of(model, "v"), engine=engine, **how) for engine in ENGINES]
        for trace in runs:
            np.testing.assert_array_equal(trace["sum.x"], runs[0]["sum.x"])
        errors.append(np.abs(1.0 + runs[0]["sum.x"] - fallen(runs[0].time)).max())
    assert errors[1] == pytest.approx(errors[0], rel=0.02)


def test_the_others_follow_an_fmu_that_stops_at_its_events(fmu: Any) -> None:
    """Automatically; a coupling that was given stays, and the notes say what it does not do."""
    boxed = up.Fmu(fmu("ball", 3), interface="co-simulation")
    how: Any = {"pace": 0.03, "until": 1.4, "inputs": up.Linear()}
    trace = up.simulate(follower_of(boxed, "v"), **how)
    assert (
        trace.notes[0] == "events of ball: it stops at them by itself, and the others follow (Interruptible)"
    )
    assert np.abs(1.0 + trace["sum.x"] - fallen(trace.time)).max() < 1e-9
    beside = up.simulate(follower_of(boxed, "v"), coupling=up.Jacobi(), **how)
    assert "not waited for: with Jacobi it goes on by itself" in beside.notes[0]
    alone = up.simulate(up.Scenario({"ball": boxed}), **how)
    assert not any("events of ball" in note for note in alone.notes)


@pytest.mark.parametrize(("interface", "version"), JUMPING)
@pytest.mark.parametrize("coupling", [up.Jacobi(), up.GaussSeidel()], ids=["jacobi", "gauss_seidel"])
@pytest.mark.parametrize(
    "pace", [up.LookAhead(0.05), up.Revised(up.LookAhead(0.05))], ids=["look_ahead", "auto"]
)
def test_an_event_inside_an_fmu_does_what_the_same_between_units_does(
    fmu: Any, interface: Any, version: int, pace: Any, coupling: Any
) -> None:
    """An FMU for co-simulation sees others stand still in a step, and does not say what leads to its events:
    nothing pulls at it, and the scenario says it. Nor does it know its derivatives: parabolas, for both."""
    exchange = interface == "model-exchange"
    if not exchange:
        blind = up.LookAhead(0.05, symbolic=False)
        pace = blind if isinstance(pace, up.LookAhead) else up.Revised(blind)
    how: Any = {"pace": pace, "coupling": coupling, "inputs": up.Linear(), "until": 4.0}
    for seed in (0, 2):
        hanging = up.Fmu(
            fmu("hanging", version),
            interface=interface,
            solver=SOLVER if exchange else None,
            rollback="trust",
        )
        scenarios = [
            two_masses(np.random.default_rng(seed), inside=False, alone=not exchange),
            two_masses(
                np.random.default_rng(seed), inside=True, alone=not exchange, told=not exchange,
                box=lambda _, values, hanging=hanging: hanging.with_values(values),
            ),
        ]  # fmt: skip
        true = up.simulate(scenarios[0].monolith(), pace=1e-3, until=4.0)
        found = [error(up.simulate(scenario, **how), true) for scenario in scenarios]
        # Where nobody says that steps end at the event, a kink is no reason to begin anew: not worse.
        assert (0.95 if exchange else 0.8) < found[1] / found[0] < 1.05, (seed, found)


@pytest.mark.parametrize("version", [2, 3])
def test_with_a_step_alone_others_follow_an_fmu_by_the_derivatives_of_its_states(
    fmu: Any, version: int
) -> None:
    """It tells one derivative of each: what equations do that are followed by as many."""
    hanging = up.Fmu(fmu("hanging", version), interface="model-exchange", solver=SOLVER, rollback="trust")
    alike: Any = {"inputs": up.Hermite(1), "ports": {"upper.x2": up.Hermite(2)}, "coupling": up.GaussSeidel()}
    for seed in range(4):
        turns = [np.random.default_rng(seed) for _ in range(2)]
        plain = two_masses(turns[0], inside=False)
        boxed = two_masses(turns[1], inside=True, box=lambda _, values: hanging.with_values(values))
        true = up.simulate(plain.monolith(), pace=1e-3, until=4.0)
        run = up.simulate(boxed, pace=0.05, until=4.0)
        assert "told by their units: derivatives of upper.x, upper.v" in run.notes
        declared = up.simulate(plain, pace=0.05, until=4.0, **alike)
        assert error(run, true) < 1.05 * error(declared, true), seed
        assert sum(step.rejected for step in run.steps) <= sum(step.rejected for step in declared.steps)


@pytest.mark.parametrize("version", [2, 3])
def test_an_fmu_that_counts_can_be_set_back(fmu: Any, version: int) -> None:
    """Repeated steps see the count of the state that they begin with."""
    interface: Any = "co-simulation" if version == 3 else "model-exchange"
    boxed = up.Fmu(fmu("ball", version), interface=interface, tolerance=1e-10, rollback="trust")
    how: Any = {"pace": up.Fixed(0.06), "until": 0.6, "inputs": up.Linear()}
    how["coupling"] = up.Iterated(corrections=2)
    found = []
    for model in (ball(outputs=["h", "v"], solver=SOLVER), boxed):
        runs = [up.simulate(follower_of(model, "v"), engine=engine, **how) for engine in ENGINES]
        for trace in runs:
            np.testing.assert_array_equal(trace["sum.x"], runs[0]["sum.x"])
        found.append(np.abs(1.0 + runs[0]["sum.x"] - fallen(runs[0].time)).max())
    assert found[1] == pytest.approx(found[0], rel=0.02)


# ---------------------------------------------------------------- nests in which something jumps


def nested(where: str) -> up.Nested:
    """The ball as a scenario of its own: with its event in the unit, in the scenario, or one level deeper."""
    if where == "deeper":
        inner = up.Scenario({"nest": nested("unit")}, outputs={"h": "nest.h", "v": "nest.v"})
        return up.Nested(inner, up.Master(up.Fixed(0.03)), flatten=False)
    events = {"bounce": {"when": "ball.h <= 0 and ball.v < 0", "then": {"ball.v": "-0.7*ball.v"}}}
    model = ball(outputs=["h", "v"], solver=SOLVER, events={"bounce": BOUNCE} if where == "unit" else {})
    inner = up.Scenario(
        {"ball": model}, outputs={"h": "ball.h", "v": "ball.v"}, events={} if where == "unit" else events
    )
    pace = up.Fixed(0.03) if where == "unit" else up.LookAhead(0.03, tolerance=1e-9)
    return up.Nested(inner, up.Master(pace), flatten=False)


@pytest.mark.parametrize("where", ["unit", "scenario", "deeper"])
@pytest.mark.parametrize("coupling", [up.Jacobi(), up.GaussSeidel(), up.Iterated(corrections=2)], ids=str)
@pytest.mark.parametrize("inputs", [up.Linear(), up.Polynomial(3)], ids=str)
def test_what_follows_a_nest_in_which_something_jumps_begins_anew(
    where: str, inputs: Any, coupling: Any
) -> None:
    """As well as with the event in a unit of the scenario itself."""
    how: Any = {"pace": up.Fixed(0.03), "until": 1.4, "inputs": inputs, "coupling": coupling}
    errors = []
    for model in (ball(outputs=["h", "v"], solver=SOLVER), nested(where)):
        runs = [up.simulate(follower_of(model, "v"), engine=engine, **how) for engine in ENGINES]
        for trace in runs:
            np.testing.assert_array_equal(trace["sum.x"], runs[0]["sum.x"])
        errors.append(np.abs(1.0 + runs[0]["sum.x"] - fallen(runs[0].time)).max())
    assert errors[1] == pytest.approx(errors[0], rel=0.02)


@pytest.mark.parametrize("where", ["unit", "scenario"])
@pytest.mark.parametrize("coupling", [up.Jacobi(), up.GaussSeidel()], ids=["jacobi", "gauss_seidel"])
@pytest.mark.parametrize("pace", [up.LookAhead(0.05), 0.05], ids=["look_ahead", "auto"])
def test_an_event_in_a_nest_does_what_the_same_between_units_does(
    where: str, pace: Any, coupling: Any
) -> None:
    """What leads to it is given out. Nothing pulls at the upper mass: a nest has inputs of its own kind."""

    def boxed(upper: up.Ode, values: Any) -> up.Nested:
        pace: up.Pace = up.Fixed(0.05)
        events = {}
        if where == "scenario":
            upper, pace = up.Ode(**{**upper.to_spec(), "events": {}}), up.LookAhead(0.05)
            hit = {"when": "m.x >= 0 and m.v > 0", "then": {"m.v": f"-{values['e']}*m.v"}}
            events["ceiling"] = hit
        inner = up.Scenario({"m": upper}, outputs={"x": "m.x", "v": "m.v"}, events=events)
        return up.Nested(inner, up.Master(pace), flatten=False)

    how: Any = {"pace": pace, "coupling": coupling, "inputs": up.Linear(), "until": 4.0}
    for seed in (0, 2):
        plain = two_masses(np.random.default_rng(seed), inside=False, alone=True)
        nested = two_masses(np.random.default_rng(seed), inside=True, alone=True, box=boxed)
        true = up.simulate(plain.monolith(), pace=1e-3, until=4.0)
        runs = [up.simulate(scenario, **how) for scenario in (plain, nested)]
        name = "upper.m.ceiling" if where == "unit" else "upper.ceiling"
        assert any(f"event '{name}' expected" in step.reason for step in runs[1].steps)
        assert error(runs[1], true) == pytest.approx(error(runs[0], true), rel=0.05), seed


@pytest.mark.parametrize(
    "inputs", [up.Hold(), up.Linear(), up.Hermite(1), up.Smooth(), up.Continuous()], ids=str
)
@pytest.mark.parametrize(
    "coupling",
    [up.Jacobi(), up.GaussSeidel(("ball", "damper")), up.Iterated(up.GaussSeidel(("ball", "damper")))],
    ids=str,
)
@pytest.mark.parametrize("engine", ["native", "interpret"])
def test_what_follows_a_jump_directly_shows_it_at_once(engine: Any, coupling: Any, inputs: Any) -> None:
    """The force of a damper on a ball that has just bounced is that of its new speed, by its own formula."""
    ball = up.Ode(
        {"x": "v", "v": "-9.81 + F"},
        inputs=["F"],
        start={"x": 1.0},
        events={"floor": {"when": "x <= 0 and v < 0", "then": {"v": "-0.8*v"}}},
    )
    damper = up.Function(inputs=["v"], outputs={"F": "-0.5*v"})
    scenario = up.Scenario({"ball": ball, "damper": damper}, {"ball.F": "damper.F", "damper.v": "ball.v"})
    trace = up.simulate(
        scenario, coupling=coupling, inputs=inputs, pace=up.LookAhead(0.05), until=1.5, engine=engine
    )
    assert np.asarray(trace["damper.F"]) == pytest.approx(-0.5 * np.asarray(trace["ball.v"]), abs=1e-12)
    assert (np.diff(trace["ball.v"]) > 1.0).any()  # it did bounce


def test_a_trajectory_by_derivatives_makes_no_algebraic_loop() -> None:
    """The value of neither input waits for a derivative, although each derivative waits for a value."""
    scenario = two_masses(np.random.default_rng(0), inside=False)
    made = up.experiment(
        scenario, coupling=up.GaussSeidel(), pace=0.05, inputs=up.Hermite(1), ports=POSITIONS, until=1.0
    )
    assert not any("loop" in note for note in made.plan.program.notes)
    assert "loop" not in str(up.explain(made)).partition("Program")[2]
