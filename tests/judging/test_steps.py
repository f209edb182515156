"""Which step size: what is recommended against closed forms, and what cannot be recommended."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import upbeat as up
from upbeat.judging.steps import FEWEST, apart, calls_per_step, work_of

TIGHT = up.DormandPrince(rtol=1e-10, atol=1e-12)


def oscillator(solver=TIGHT, **settings):
    """x'' = -x in two units; the solution is (cos t, -sin t)."""
    p = up.Ode({"x": "v"}, inputs=["v"], start={"x": 1.0}, solver=solver)
    q = up.Ode({"v": "-x"}, inputs={"x": 1.0}, solver=solver)
    scenario = up.Scenario({"p": p, "q": q}, {"p.v": "q.v", "q.x": "p.x"})
    return up.experiment(scenario, **{"step": 0.01, "until": 6.0} | settings)


def true_error(trace):
    """Of the oscillator, relative to the range of 2."""
    off = np.abs([trace["p.x"] - np.cos(trace.time), trace["q.v"] + np.sin(trace.time)])
    return float(off.max()) / 2.0


@pytest.mark.parametrize(("tolerance", "solver"), [(1e-2, TIGHT), (1e-4, up.RK4())])
def test_the_recommended_run_has_the_asked_error_and_four_times_the_step_has_not(tolerance, solver):
    made = oscillator(solver)
    found = up.recommend_step(made, tolerance=tolerance)
    assert found.best is not None
    trace = found.improved().run()
    assert true_error(trace) <= tolerance
    assert found.best.error == pytest.approx(true_error(trace), rel=1.0, abs=1e-9)
    assert work_of(found.improved(), trace).total == found.best.work
    assert found.work <= 11 * found.best.work
    # A step four times as long, with the same coupling and inputs, is too long, or saves less than half.
    longer = replace(found.improved().master, pace=up.Fixed(4 * found.best.step))
    other = made.with_(master=longer)
    trace = other.run()
    assert true_error(trace) > tolerance or work_of(other, trace).total > found.best.work / 2


def test_rows_tell_error_margin_and_work_and_the_front_is_a_front():
    found = up.recommend_step(oscillator(up.RK4()), tolerance=1e-3)
    assert found.best in found.front
    assert found.present is not None
    assert (found.present.step, found.present.coupling, found.present.inputs) == (0.01, "Jacobi", "hold")
    for one, other in zip(found.front, found.front[1:], strict=False):
        assert one.work < other.work
        assert one.error > other.error
    data = found.data()
    assert data["recommended"]["step"] == found.best.step
    assert sum(row["pareto"] for row in data["settings"]) == len(found.front)
    assert str(found) == found.reason


def test_work_counts_units_corrections_and_solver_steps():
    made = oscillator(up.RK4(2), step=0.5)
    assert calls_per_step(made) == 2
    work = work_of(made, made.run())
    assert (work.calls, work.solver_steps) == (24, 48)
    corrected = oscillator(up.RK4(2), step=0.5, coupling=up.Iterated(corrections=2))
    assert calls_per_step(corrected) == 6
    assert work_of(corrected, corrected.run()).solver_steps == 144


def test_unstable_settings_are_rows_with_their_reason_and_are_not_run():
    """x' = -40 y, y' = -40 (y - x): Jacobi with long steps grows out of bounds, the problem itself decays."""
    a = up.Ode({"x": "-40*y"}, inputs=["y"], start={"x": 1.0})
    b = up.Ode({"y": "-40*(y - x)"}, inputs=["x"])
    scenario = up.Scenario({"a": a, "b": b}, {"a.y": "b.y", "b.x": "a.x"})
    found = up.recommend_step(up.experiment(scenario, step=0.1, until=4.0), tolerance=1e-2)
    assert found.best is not None
    unstable = [row for row in found.settings if row.state == "unstable"]
    assert unstable
    assert all(row.error is None and row.margin < 0 and "grows" in row.why for row in unstable)


def test_steps_that_fall_into_step_with_pulses_are_not_taken_for_good():
    """Pulses of 0.3 s every second: steps of 1/2 and 1/4 agree with each other, and are both wrong."""
    pulses = up.Function(outputs={"P": "1 if mod(time, 1) < 0.3 else 0"})
    room = up.Ode({"T": "P"}, inputs=["P"])
    scenario = up.Scenario({"pulses": pulses, "room": room}, {"room.P": "pulses.P"})
    made = up.experiment(scenario, step=0.5, until=40.0, record=["room.T"])
    found = up.recommend_step(made, tolerance=0.02)
    assert found.best is not None
    assert abs(found.improved().run()["room.T"][-1] - 12.0) <= 0.02 * 12.0


def test_a_pulse_that_long_steps_go_over_is_seen():
    """Pulse and trials are on the same side for the first ones: all of them agree that nothing happens."""
    heater = up.Function(outputs={"P": "50 if 3.33 <= time < 3.35 else 0"})
    room = up.Ode({"T": "P - 0.5*T"}, inputs=["P"], start={"T": 1.0})
    scenario = up.Scenario({"heater": heater, "room": room}, {"room.P": "heater.P"})
    made = up.experiment(scenario, step=0.1, until=6.0, record=["room.T"])
    found = up.recommend_step(made, tolerance=0.05)
    assert found.best is not None
    end = np.exp(-3.0) + 100.0 * (np.exp(-0.5 * 2.65) - np.exp(-0.5 * 2.67))
    assert abs(found.improved().run()["room.T"][-1] - end) <= 0.05


def test_an_event_that_steps_go_over_is_missing():
    mass = up.Ode({"x": "v", "v": "-x"}, start={"x": 1.0}, outputs={"x": "x", "v": "v"}, solver=TIGHT)
    dip = {"when": "mass.x <= -0.99999", "then": {"mass.v": "mass.v + 1"}}
    scenario = up.Scenario({"mass": mass}, events={"dip": dip})
    found = up.recommend_step(up.experiment(scenario, step=0.1, until=5.0, events="off"), tolerance=1e-2)
    assert found.best is None or found.improved().run().events.names == ("dip",)


def test_steps_inside_nested_scenarios_have_errors_too():
    """An oscillator inside, at held steps of 0.02 whose error is 3 %, and nothing to see of it outside."""
    parts = {"a": up.Ode({"x": "v"}, inputs=["v"], start={"x": 1.0}), "b": up.Ode({"v": "-x"}, inputs=["x"])}
    inside = up.Scenario(parts, {"a.v": "b.v", "b.x": "a.x"}, outputs={"x": "a.x"})
    box = up.Nested(inside, up.Master(pace=up.Fixed(0.02)), flatten=False)
    made = up.experiment(up.Scenario({"box": box}), step=0.5, until=8.0)
    found = up.recommend_step(made, tolerance=1e-2)
    assert found.best is None
    assert "steps inside nested scenarios" in found.reason


def test_undecided_where_nothing_in_the_table_is_good_enough():
    noise = up.PythonFunction(lambda t, u, p: math.sin(1e7 * t), outputs=["y"])
    scenario = up.Scenario({"noise": noise})
    found = up.recommend_step(up.experiment(scenario, step=0.1, until=2.0), tolerance=1e-3, seconds=0.5)
    assert found.best is None
    assert found.reason.startswith("Undecided, because")
    with pytest.raises(up.InvalidInput, match="nothing to recommend"):
        found.improved()


def test_what_there_is_no_time_for_is_said():
    found = up.recommend_step(oscillator(), tolerance=1e-6, seconds=0.0)
    assert found.best is None
    assert "budget" in found.reason
    assert any("not run" in text for text in found.undone)


def test_errors_of_solvers_that_no_step_changes_count_too():
    """x' = -x/2 in two units; Euler in steps of h makes (1 - h + h·u/x)^n of it, whatever the coupling."""
    gate = up.Function(inputs=["x"], outputs={"u": "0.5*x"})

    def decay(step):
        tank = up.Ode({"x": "u - x"}, inputs=["u"], start={"x": 1.0}, solver=up.Euler(step=step))
        scenario = up.Scenario({"tank": tank, "gate": gate}, {"tank.u": "gate.u", "gate.x": "tank.x"})
        return up.experiment(scenario, step=0.1, until=6.0)

    def true(trace):
        return float(np.abs(trace["tank.x"] - np.exp(-trace.time / 2)).max() / (1.0 - math.exp(-3.0)))

    coarse = up.recommend_step(decay(0.02), tolerance=1e-3)  # (1 - 0.01)^100 is 0.2 % off
    assert coarse.best is None
    assert "units' own solvers" in coarse.reason
    fine = up.recommend_step(decay(0.002), tolerance=1e-3)
    assert fine.best is not None
    trace = fine.improved().run()
    assert true(trace) <= fine.best.error <= 1e-3
    assert fine.work > sum(row.work for row in fine.settings if row.state == "measured")


def test_after_ctrl_c_what_is_known_is_said():
    made, seen = oscillator(), []

    def progress(text):
        seen.append(text)
        if len(set(seen)) > 2:
            raise KeyboardInterrupt

    found = up.recommend_step(made, tolerance=1e-4, progress=progress)
    assert found.interrupted
    assert found.best is None
    assert "interrupted" in found.reason
    assert any(row.state == "measured" for row in found.settings)
    assert any("interrupted" in text for text in found.undone)
    with pytest.raises(KeyboardInterrupt):
        up.recommend_step(made, progress=lambda text: (_ for _ in ()).throw(KeyboardInterrupt))


def test_black_boxes_without_rollback_are_not_corrected():
    class Lag:
        def __init__(self, name, start, parameters):
            self.y, self.u = 1.0, 0.0

        def get(self, port):
            return self.y

        def set(self, port, coefficients):
            self.u = coefficients[0]

        def advance(self, t, to, early):
            decay = math.exp(-(to - t))
            self.y = self.u + (self.y - self.u) * decay
            return to

    lag = up.PythonUnit(Lag, inputs=["u"], outputs={"y": {"depends": []}})
    scenario = up.Scenario({"a": lag, "b": lag}, {"a.u": "0.5*b.y", "b.u": "0.5*a.y"})
    found = up.recommend_step(up.experiment(scenario, step=0.1, until=4.0), tolerance=1e-2)
    assert found.best is not None
    assert not any("corrected" in row.coupling for row in found.settings)
    trace = found.improved().run()
    assert np.abs(trace["a.y"] - np.exp(-0.5 * trace.time)).max() <= 1e-2


def test_a_coupling_that_was_chosen_for_more_is_kept():
    ball = up.Ode(
        {"h": "v", "v": "-9.81"},
        start={"h": 1.0},
        outputs={"h": "h", "hit": {"event": True, "kind": "real"}},
        events={"bounce": {"when": "h <= 0 and v < 0", "then": {"v": "-0.8*v"}, "emit": {"hit": "v"}}},
    )
    lag = up.Ode({"y": "5*(u - y)"}, inputs=["u"])
    scenario = up.Scenario({"ball": ball, "lag": lag}, {"lag.u": "ball.h"})
    made = up.experiment(scenario, step=0.05, until=1.0, coupling="negotiated", pace=None)
    found = up.recommend_step(made, tolerance=1e-2)
    assert {row.coupling for row in found.settings} == {"Negotiated"}


def test_events_that_are_missing_or_late_are_errors():
    def fallen(*at):
        schedule = up.Schedule(at=list(at))
        return up.simulate(up.Scenario({"s": schedule}), until=10.0)

    assert apart(fallen(1.0, 2.0), fallen(1.0)).size == math.inf
    assert apart(fallen(1.0, 2.1), fallen(1.0, 2.0)).size == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"tolerance": 0.0}, "tolerance must be a number between"),
        ({"tolerance": 2.0}, "tolerance must be a number between"),
        ({"tolerance": "1e-3"}, "tolerance must be a number between"),
        ({"tolerance": math.nan}, "tolerance must be a number between"),
        ({"seconds": -1}, "seconds must be a number"),
        ({"step": 0.0}, "must be positive"),
        ({"progress": 3}, "progress must be a function"),
        ({"until": 3.0}, "has its settings already: leave out until"),
    ],
)
def test_wrong_arguments(arguments, says):
    with pytest.raises(up.InvalidInput, match=says):
        up.recommend_step(oscillator(), **arguments)


def test_paces_without_a_step_are_refused_unless_one_is_given():
    made = oscillator(step=None, pace=up.ErrorControl(1e-4))
    with pytest.raises(up.InvalidInput, match="ErrorControl does not go in steps of one usual size"):
        up.recommend_step(made)
    found = up.recommend_step(made, step=0.1, tolerance=1e-2)
    assert found.best is not None
    assert isinstance(found.improved().master.pace, up.Fixed)
    machine = up.StateMachine(
        initial="a", states=["a", "b"], transitions=[{"from": "a", "to": "b", "after": 1}]
    )
    with pytest.raises(up.InvalidInput, match="EventDriven does not go in steps"):
        up.recommend_step(up.Scenario({"m": machine}), until=3.0)


def test_few_steps_are_the_least_there_are():
    found = up.recommend_step(oscillator(), tolerance=0.5)
    assert all(row.step <= 6.0 / FEWEST + 1e-9 for row in found.settings)


def test_another_way_may_take_the_place_of_the_first_on_the_way():
    """a' = 2b - 2a, b' = -2a - 2b in black boxes that hold inputs: the first way has not
    the order that it should have, and others are tried. a = exp(-2t)·(cos 2t + sin 2t)."""

    class Lag:
        def __init__(self, name, start, parameters):
            self.y, self.u = 1.0, 0.0

        def get(self, port):
            return self.y

        def set(self, port, coefficients):
            self.u = coefficients[0]

        def advance(self, t, to, early):
            self.y = self.u + (self.y - self.u) * math.exp(-2.0 * (to - t))
            return to

    lag = up.PythonUnit(Lag, inputs=["u"], outputs={"y": {"depends": []}})
    scenario = up.Scenario({"a": lag, "b": lag}, {"a.u": "b.y", "b.u": "-a.y"})
    found = up.recommend_step(up.experiment(scenario, step=0.1, until=4.0), tolerance=3e-4)
    assert found.best is not None
    trace = found.improved().run()
    t = trace.time
    off = np.abs(trace["a.y"] - np.exp(-2 * t) * (np.cos(2 * t) + np.sin(2 * t))).max()
    assert off <= 3e-4 * np.ptp(trace["a.y"])


def test_nothing_in_the_table_contradicts_the_recommendation() -> None:
    """Two masses that collide under a ceiling: what is good enough and costs less is what is recommended."""
    example = Path(__file__).parents[2] / "examples/two_mass/lookahead.toml"
    advice = up.recommend_step(up.load(example), tolerance=1e-3)
    assert advice.best is not None
    assert advice.best.work is not None
    for row in advice.settings:
        if row.error is not None and row.error < 0.8e-3 and row.work is not None:
            assert row.work >= advice.best.work, row


def test_steps_of_a_run_through_several_structures():
    """A tank is emptied, and joined to another at half its height: closed forms before and after."""
    first = up.Ode({"h": "-0.2 + q"}, inputs={"q": 0.0}, start={"h": 1.0}, solver=TIGHT)
    second = up.Ode({"h": "q"}, inputs={"q": 0.0}, solver=TIGHT)
    opens = {"when": "first.h <= 0.5", "to": "joined"}
    scenario = up.Scenario(
        {"first": first, "second": second},
        {"first.q": "second.h - first.h", "second.q": "first.h - second.h"},
        structures={"apart": {"units": ["first"], "events": {"opens": opens}}, "joined": {}},
    )
    found = up.recommend_step(up.experiment(scenario, step=0.1, until=5.0, events="auto"), tolerance=1e-3)
    assert found.best is not None
    trace = found.improved().run()
    after = np.maximum(trace.time - 2.5, 0.0)
    joined = 0.5 * (0.5 - 0.2 * after - 0.1 + 0.6 * np.exp(-2.0 * after))
    exact = np.where(trace.time < 2.5, 1.0 - 0.2 * trace.time, joined)
    assert np.abs(trace["first.h"] - exact).max() <= 1e-3
