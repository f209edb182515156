"""Revised: a step that has gone past an event is repeated up to there, alike on both engines."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import upbeat as up
from conftest import ENGINES
from moving_models import HERMITE, TWO, happened, point, reasons
from odd_units import integrator
from upbeat.core.errors import MasterError, Problems, UpbeatError
from upbeat.master.paces.pace import nominal_step
from upbeat.master.settings import master_from, settings_of

BOUNCE = {"when": "ball.x <= 0 and ball.v < 0", "then": {"ball.v": "-0.5*ball.v"}}


def rejected(trace: up.Trace) -> int:
    return sum(step.rejected for step in trace.steps)


@pytest.mark.parametrize("pace", [0.2, up.LookAhead(0.2), up.EventDriven(0.2), up.ErrorControl(1e-3)])
def test_it_goes_back_to_a_ball_that_has_fallen(engine: str, pace: Any) -> None:
    scenario = up.Scenario({"ball": point(1.0, 0.0, "-9.81")}, events={"floor": BOUNCE})
    trace = up.simulate(scenario, pace=up.Revised(pace, tolerance=1e-6), until=1.0, engine=engine)
    first = math.sqrt(2 / 9.81)
    assert [name for name, _ in happened(trace)] == ["floor", "floor"]
    assert [t for _, t in happened(trace)] == pytest.approx([first, 2 * first], abs=4e-6)
    assert happened(trace)[0][1] >= first
    assert trace["ball.x"].min() > -2e-5  # 4.43 m/s for at most the tolerance, and again


def test_a_rejected_step_says_which_event_it_went_past(engine: str) -> None:
    scenario = up.Scenario({"a": point(1.0, -1.0, solver="euler")}, events={"down": {"when": ["a.x"]}})
    trace = up.simulate(scenario, pace=up.Revised(0.6, after=1.0, tolerance=1e-3), until=1.8, engine=engine)
    assert trace.time == pytest.approx([0, 0.6, 1.0005, 1.2, 1.8], abs=1e-12)
    assert reasons(trace) == ["fixed step", "back to event 'down' at 1", "fixed step", "fixed step"]
    assert [step.rejected for step in trace.steps] == [0, 1, 0, 0]
    assert happened(trace) == [("down", pytest.approx(1.0005, abs=1e-12))]


def test_without_rates_it_closes_in_from_both_sides(engine: str) -> None:
    """exp(-5t) falls to a thousandth at ln(1000)/5: straight lines always say too late."""
    unit = up.Ode({"x": "-5*x"}, start={"x": 1.0}, solver=up.DormandPrince(rtol=1e-11, atol=1e-14))
    same = up.Function(inputs=["u"], outputs={"y": "u"})  # which does not know how its input changes
    scenario = up.Scenario({"a": unit, "b": same}, {"b.u": "a.x"}, events={"low": {"when": "b.y <= 0.001"}})
    pace = up.Revised(1.0, tolerance=1e-6, after=1.0, max_iterations=20)
    trace = up.simulate(scenario, pace=pace, until=2.0, engine=engine)
    at = math.log(1000) / 5
    assert at <= happened(trace)[0][1] <= at + 2e-6
    assert rejected(trace) < 15


@pytest.mark.parametrize("tolerance", [1e-3, 1e-5, 2e-8])
@pytest.mark.parametrize(
    ("value", "level", "at"),
    [
        ("1 - x**5", 0.01, 0.99**0.2),
        ("1 - x**25", 0.5, 0.5**0.04),
        ("exp(-20*x)", 1e-9, math.log(1e9) / 20),
        ("1 if x < 0.37 else -100", 0.0, 0.37),
        ("1 if x < 1.63 else -0.01", 0.0, 1.63),
    ],
)
def test_it_closes_in_on_whatever_it_is_in_so_many_rounds(
    engine: str, value: str, level: float, at: float, tolerance: float
) -> None:
    """Nothing is known of rates, and lines through both ends of the step creep along one of them."""
    unit = up.Ode({"x": "1"}, outputs={"y": value}, solver="rk4")
    same = up.Function(inputs=["u"], outputs={"y": "u"})
    event = {"when": f"b.y <= {level}"}
    scenario = up.Scenario({"a": unit, "b": same}, {"b.u": "a.y"}, events={"low": event})
    trace = up.simulate(
        scenario, pace=up.Revised(2.0, after=1.0, tolerance=tolerance), until=2.0, engine=engine
    )
    ((_, time),) = happened(trace)
    assert at - 1e-12 <= time <= at + tolerance
    assert rejected(trace) <= 30


@pytest.mark.parametrize("most", [1, 2, 3, 5, 8])
def test_a_step_is_never_sent_back_more_often_than_it_says(engine: str, most: int) -> None:
    unit = up.Ode({"x": "1"}, outputs={"y": "1 - x**5"}, solver="rk4")
    line = {"line": {"x": [-100, 100], "y": [-100, 100]}}  # a table hides how fast it changes
    same = up.Function(inputs=["u"], outputs={"y": "line(u)"}, tables=line)
    scenario = up.Scenario({"a": unit, "b": same}, {"b.u": "a.y"}, events={"low": {"when": "b.y <= 0.01"}})
    pace = up.Revised(2.0, after=1.0, tolerance=1e-9, max_iterations=most)
    trace = up.simulate(scenario, pace=pace, until=2.0, engine=engine)
    assert max(step.rejected / step.count for step in trace.steps) == most
    ((_, time),) = happened(trace)
    assert time >= 0.99**0.2


@pytest.mark.parametrize("pace", [0.5, 0.1, up.LookAhead(0.5), up.ErrorControl(1e-3), up.EventDriven(0.3)])
def test_what_rises_and_falls_again_within_a_step_happens_again(engine: str, pace: Any) -> None:
    """A ball without a condition on its speed: below the floor after each bounce, up and down in a step."""
    bounce = {"when": "ball.x <= 0", "then": {"ball.v": "0.3*abs(ball.v)"}}
    scenario = up.Scenario({"ball": point(1.0, 0.0, "-9.81")}, events={"floor": bounce})
    trace = up.simulate(scenario, pace=up.Revised(pace), until=0.83, engine=engine)
    fall = math.sqrt(2 / 9.81)
    times = [fall * (1 + 2 * sum(0.3**k for k in range(1, n))) for n in range(1, 5)]
    assert [t for _, t in happened(trace)] == pytest.approx(times, abs=5e-5)
    if pace == 0.5:
        assert any(step.reason.startswith("between two of event 'floor' at") for step in trace.steps)


@pytest.mark.parametrize(
    ("when", "then"),
    [
        ("ball.x <= 0 and ball.v < 0", {"ball.v": "-0.7*ball.v"}),
        ("ball.x <= 0", {"ball.v": "-0.7*ball.v", "ball.x": "0"}),
        pytest.param("ball.x <= 0", {"ball.v": "-0.7*ball.v"}, marks=pytest.mark.slow),
        pytest.param(
            "ball.x <= 0 and ball.v < 0", {"ball.v": "-0.7*ball.v", "ball.x": "0"}, marks=pytest.mark.slow
        ),
    ],
)
@pytest.mark.parametrize(  # tests/scenarios/test_corners_of_events.py has the others, too
    "pace",
    [*(pytest.param(p, marks=pytest.mark.slow) for p in (0.1, up.LookAhead(0.1))), up.ErrorControl(1e-3)],
)
def test_a_chain_without_end_is_an_error_that_says_so(
    engine: str, pace: Any, when: str, then: dict[str, str]
) -> None:
    """Ever shorter bounces, which add up to 0.4515·(1 + 2·0.7/0.3) = 2.5587: a sentence soon after that."""
    scenario = up.Scenario(
        {"ball": point(1.0, 0.0, "-9.81")}, events={"bounce": {"when": when, "then": then}}
    )
    with pytest.raises(up.StepError, match=r"at t = 2\.5[5-9].*'bounce'.*rest"):
        up.simulate(scenario, pace=up.Revised(pace), until=5.0, engine=engine)


@pytest.mark.parametrize("start", [1e9, -1.7e9])
@pytest.mark.parametrize("step", [0.1, 0.01])
@pytest.mark.parametrize("kind", [up.Revised, up.LookAhead])
def test_far_from_the_beginning_of_time(engine: str, kind: Any, step: float, start: float) -> None:
    """At 1e9 s numbers are 1.2e-7 apart, which is more than 1e-5 of the smaller step."""
    scenario = up.Scenario({"ball": point(1.0, 0.0, "-9.81")}, events={"floor": BOUNCE})
    trace = up.simulate(scenario, pace=kind(step), start=start, until=start + 1.2, engine=engine)
    fall = math.sqrt(2 / 9.81)
    times = [fall, 2 * fall, 2.5 * fall]
    assert [t - start for _, t in happened(trace)] == pytest.approx(times, abs=2e-5)


def test_what_was_true_only_within_the_step_is_found(engine: str) -> None:
    """x = (t - 0.5)² - 0.0004 is negative for 0.04 only, and the step is ten times as long."""
    scenario = up.Scenario({"dip": point(0.2496, -1.0, "2")}, events={"touch": {"when": ["dip.x"]}})
    trace = up.simulate(scenario, pace=up.Revised(0.4), until=1.2, engine=engine)
    assert happened(trace) == [("touch", pytest.approx(0.48, abs=1e-5))]
    miss = scenario.with_values({"dip.x": 0.2504})
    trace = up.simulate(miss, pace=up.Revised(0.4, after=1.0), until=1.2, engine=engine)
    assert happened(trace) == []
    assert rejected(trace) == 0


def test_a_window_that_is_crossed_within_a_step_is_found(engine: str) -> None:
    """Two conditions are both true between 0.5 and 0.6 only; no rates are known."""
    scenario = up.Scenario({"a": up.Ode({"x": "1"})}, events={"in": {"when": ["0.5 - a.x", "a.x - 0.6"]}})
    assert happened(up.simulate(scenario, pace=up.Fixed(1.0), until=2.0, engine=engine)) == []
    trace = up.simulate(scenario, pace=up.Revised(1.0, after=1.0), until=2.0, engine=engine)
    assert happened(trace) == [("in", pytest.approx(0.5, abs=1e-5))]


def test_the_first_of_two_events_in_a_step_counts(engine: str) -> None:
    scenario = up.Scenario(
        {"a": point(0.9, -1.0), "b": point(0.7, -1.0)},
        events={"one": {"when": "a.x <= 0"}, "two": {"when": "b.x <= 0", "then": {"a.v": "-2"}}},
    )
    trace = up.simulate(scenario, pace=up.Revised(1.0, after=1.0, tolerance=1e-6), until=1.0, engine=engine)
    assert happened(trace) == [
        ("two", pytest.approx(0.7, abs=1e-6)),
        ("one", pytest.approx(0.8, abs=2e-6)),
    ]


def test_a_jump_is_closed_in_on_and_never_sent_back_for_ever(engine: str) -> None:
    """A condition that falls from 1 to -1 at once has no root: the rounds end, behind the jump."""
    unit = up.Ode({"x": "1"}, outputs={"x": "x", "z": "1 if x < 0.37 else -1"}, solver="euler")
    scenario = up.Scenario({"a": unit}, events={"jump": {"when": ["a.z"]}})
    for most in (1, 2, 8, 50):
        pace = up.Revised(1.0, tolerance=1e-4, max_iterations=most, after=1.0)
        trace = up.simulate(scenario, pace=pace, until=1.0, engine=engine)
        ((_, at),) = happened(trace)
        assert at >= 0.37
        assert max(step.rejected / step.count for step in trace.steps) <= most
    assert at <= 0.37 + 2e-4


def test_units_that_stop_early_and_events_between_units(engine: str) -> None:
    """A ball that finds its own bounces, and a mark beside it that it passes while falling."""
    ball = up.Ode(
        {"h": "v", "v": "-9.81"},
        start={"h": 1.0, "v": 0.0},
        outputs={"h": "h", "v": "v"},
        events={"bounce": {"when": "h <= 0 and v < 0", "then": {"v": "-v"}}},
    )
    scenario = up.Scenario({"ball": ball}, events={"half": {"when": "ball.h <= 0.5"}})
    trace = up.simulate(
        scenario, pace=up.Revised(0.3, tolerance=1e-7), until=1.3, coupling=up.Negotiated(), engine=engine
    )
    half, whole = math.sqrt(1 / 9.81), math.sqrt(2 / 9.81)
    assert happened(trace) == [
        ("half", pytest.approx(half, abs=2e-7)),
        ("half", pytest.approx(2 * whole + half, abs=2e-7)),
    ]
    assert np.abs(trace.time - whole).min() < 1e-9  # where the ball stopped by itself


def test_it_is_better_than_looking_ahead_and_cheap() -> None:
    reference = TWO.Reference(TWO.START)
    settings: dict[str, Any] = {"until": 20.0, "ports": HERMITE, "coupling": up.GaussSeidel()}
    trace = up.simulate(TWO.two_masses(), pace=up.Revised(up.EventDriven(0.08)), **settings)
    found = TWO.judged(trace, reference)
    assert (found["missed"], found["spurious"]) == (0, 0)
    assert found["e_rms"] < 5.3e-4
    assert found["steps"] + rejected(trace) <= 405


@pytest.mark.skipif(len(ENGINES) < 2, reason="there is one engine only")
@pytest.mark.parametrize(
    "pace",
    [
        0.08,
        up.LookAhead(0.08),
        up.LookAhead(0.08, symbolic=False),
        up.LookAhead(0.08, "published"),
        up.ErrorControl(),
    ],
)
@pytest.mark.parametrize(
    "coupling", [up.Jacobi(), up.GaussSeidel(), up.Negotiated(), up.MultiRate({"upper": 2})]
)
def test_both_engines_make_the_same_steps(pace: Any, coupling: Any) -> None:
    one, other = (
        up.simulate(
            TWO.two_masses(),
            pace=up.Revised(pace),
            until=1.8,
            inputs=up.Linear(),
            coupling=coupling,
            engine=engine,
        )
        for engine in ENGINES
    )
    assert list(one.steps) == list(other.steps)
    assert happened(one) == happened(other)
    assert np.array_equal(one["upper.x"], other["upper.x"])
    assert rejected(one) > 0


def test_inside_a_nested_scenario(engine: str) -> None:
    inner = up.Scenario(
        {"ball": point(1.0, 0.0, "-9.81")}, outputs={"x": "ball.x", "v": "ball.v"}, events={"floor": BOUNCE}
    )
    nested = up.Nested(inner, up.Master(up.Revised(0.1)))
    trace = up.simulate(up.Scenario({"box": nested}), pace=up.Fixed(0.3), until=0.9, engine=engine)
    first = math.sqrt(2 / 9.81)
    assert trace["box.v"][-1] == pytest.approx(9.81 * (0.5 * first - (0.9 - first)), abs=1e-4)


def test_error_control_inside_it_is_told_that_the_run_has_no_end(engine: str) -> None:
    inner = up.Scenario({"ball": point(1.0, 0.0, "-9.81")}, outputs={"v": "ball.v"}, events={"floor": BOUNCE})
    with pytest.raises(UpbeatError, match="a nested scenario does not know the stop time"):
        up.Nested(inner, up.Master(up.Revised(up.ErrorControl())))
    nested = up.Nested(inner, up.Master(up.Revised(up.ErrorControl(1e-3, per="step"), tolerance=1e-6)))
    trace = up.simulate(up.Scenario({"box": nested}), pace=up.Fixed(0.3), until=0.6, engine=engine)
    first = math.sqrt(2 / 9.81)
    assert trace["box.v"][-1] == pytest.approx(9.81 * (0.5 * first - (0.6 - first)), abs=1e-4)


def test_it_goes_on_from_a_checkpoint(engine: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "pace": up.Revised(up.LookAhead(0.08)), "until": 6.0, "engine": engine, "inputs": up.Hermite(1),
    }  # fmt: skip
    whole = up.simulate(TWO.two_masses(), **settings)
    path = tmp_path / "run.ckpt"
    with up.start(TWO.two_masses(), checkpoint=up.Checkpoint(path, every=1e9), **settings) as run:
        while run.time < 1.9:
            run.step()
        run.checkpoint()
    rest = up.resume(path)
    assert rest["upper.x"][-1] == whole["upper.x"][-1]
    assert happened(rest)[-1] == happened(whole)[-1]


# -------------------------------------------------------------------- settings


def test_units_must_let_themselves_be_set_back() -> None:
    steady = replace(integrator("u", "y", "rate", "gain"), abilities=frozenset())
    scenario = up.Scenario({"a": steady}, events={"up": {"when": "a.y >= 1"}})
    with pytest.raises(MasterError, match=r"a cannot be set back.*LookAhead\(step\)"):
        up.simulate(scenario, pace=up.Revised(0.1), until=1.0)


def test_there_must_be_events_to_go_back_to() -> None:
    with pytest.raises(MasterError, match="the scenario has none"):
        up.simulate(up.Scenario({"a": point(1.0, 1.0)}), pace=up.Revised(0.1), until=1.0)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"pace": "fixed"}, "the pace of Revised cannot be 'fixed'"),
        ({"pace": -1}, "step of Fixed"),
        ({"pace": up.Revised(0.1)}, "one Revised is enough"),
        ({"tolerance": 0}, "tolerance of Revised"),
        ({"max_iterations": 0}, "max_iterations of Revised"),
        ({"max_iterations": 51}, "50 at most"),
        ({"after": 2}, "after of Revised must be above 0 and at most 1"),
    ],
)
def test_what_makes_no_sense_is_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UpbeatError, match=words):
        up.Revised(**({"pace": up.Fixed(0.1)} | settings))


def test_its_usual_step_is_that_of_the_pace_inside() -> None:
    assert nominal_step(up.Revised(up.Fixed(0.1))) == 0.1
    assert nominal_step(up.Revised(up.Monitored(up.Fixed(0.1), (0.1,), ((0,),)))) == 0.1
    assert nominal_step(up.Revised(up.ErrorControl())) == 0.0


def test_it_can_be_written_in_a_file() -> None:
    master = up.Master(up.Revised(up.LookAhead(0.25, tolerance=1e-4), tolerance=1e-6))
    table = settings_of(master)
    assert table["pace"] == {
        "kind": "revised",
        "pace": {"kind": "look_ahead", "step": 0.25, "tolerance": 1e-4},
        "tolerance": 1e-6,
    }
    problems = Problems()
    assert master_from(table, problems) == master
    assert not problems.found


@pytest.mark.parametrize(
    ("name", "steps", "error"),
    [("best_jacobi", 265, 5e-4), ("revision", 265, 5.3e-4), ("maestro_like", 290, 0.25)],
)
def test_the_table_of_methods(name: str, steps: int, error: float) -> None:
    """Events of the two masses by other ways than `best`: all of them are found, with as many steps."""
    found = TWO.tried(TWO.methods()[name], TWO.START, TWO.Reference(TWO.START))
    assert (found["missed"], found["spurious"]) == (0, 0)
    assert found["steps"] <= steps
    assert found["e_rms"] <= error
    assert found.get("rounds", 0) <= 405
