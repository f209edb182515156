"""What the log tells about events between units: predictions, distances and changes, on both engines."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import upbeat as up
from conftest import ENGINES

FALL = math.sqrt(2 / 9.81)


def ball(**more: Any) -> up.Ode:
    outputs = {"x": "x", "v": {"value": "v", "derivative": "a"}, "a": "-9.81"}
    given = {"start": {"x": 1.0}, "outputs": outputs} | more
    return up.Ode({"x": "v", "v": "-9.81"}, solver="dormand_prince", **given)


def bounce(when: Any = "ball.x <= 0 and ball.v < 0", **more: Any) -> dict[str, Any]:
    return {"bounce": {"when": when, "then": {"ball.v": "-0.8*ball.v"}} | more}


def told(scenario: up.Scenario, engine: str, **settings: Any) -> list[Any]:
    trace = up.simulate(scenario, engine=engine, **({"pace": up.Fixed(0.1), "until": 0.6} | settings))
    return list(trace.events)


def test_an_event_seen_coming(engine: str) -> None:
    """It falls from 1: x = 1 - 9.81 t²/2. The pace ends the step 1e-5 steps behind where it is zero."""
    (event,) = told(up.Scenario({"ball": ball()}, events=bounce()), engine, pace=up.LookAhead(0.1))
    assert event.units == ("ball",)
    assert event.details["predicted"] == {"at": pytest.approx(0.45), "for": event.time}
    assert event.details["landed"] == pytest.approx(event.time - FALL, rel=1e-6)
    assert event.details["landed"] == pytest.approx(1e-6, rel=1e-3)
    before, after = event.details["changes"]["ball.v"]
    assert before == pytest.approx(-9.81 * event.time)
    assert after == -0.8 * before


def test_without_prediction_it_is_late_and_says_by_how_much(engine: str) -> None:
    """Between the ends of the step, on the cubic for the time over the condition: better than a line."""
    (event,) = told(up.Scenario({"ball": ball()}, events=bounce()), engine)
    assert event.time == 0.5
    assert event.details["landed"] == pytest.approx(0.5 - FALL, abs=1e-4)  # a line: 0.0028 off
    assert "predicted" not in event.details


def test_without_rates_it_looks_back_along_a_line(engine: str) -> None:
    still = ball(outputs={"y": "1*x"})  # of which nothing is known
    (event,) = told(up.Scenario({"ball": still}, events={"down": {"when": "ball.y <= 0"}}), engine)
    x0, x1 = (1 - 9.81 * t * t / 2 for t in (0.4, 0.5))
    assert event.details["landed"] == pytest.approx(0.1 * x1 / (x1 - x0))


def test_the_last_condition_counts(engine: str) -> None:
    """x becomes negative at 0.4515…, but t - 0.48 only later: both have to."""
    clock = up.Function(outputs={"t": "time"})
    events = bounce(["ball.x", "0.48 - clock.t"])
    (event,) = told(up.Scenario({"ball": ball(), "clock": clock}, events=events), engine)
    assert event.units == ("ball", "clock")
    assert event.details["landed"] == pytest.approx(0.02)


def test_at_the_start_and_through_another_event_it_is_on_time(engine: str) -> None:
    """The first ball pushes the second, the second the third: a cradle. And one touches at the start."""
    flat = {name: up.Ode({"x": "v", "v": "0"}, start={"x": x, "v": v}, solver="euler") for name, x, v in
            (("a", 0.0, 1.0), ("b", 1.0, 0.0), ("c", 1.0, 0.0), ("d", 0.0, -1.0))}  # fmt: skip
    events = {
        f"{one}{other}": {
            "when": f"{one}.x >= {other}.x and {one}.v > {other}.v + 0.1",
            "then": {f"{one}.v": f"{other}.v", f"{other}.v": f"{one}.v"},
        }
        for one, other in ("ab", "bc")
    } | {"floor": {"when": "d.x <= 0 and d.v < 0", "then": {"d.v": "-d.v"}}}
    found = told(up.Scenario(flat, events=events), engine, pace=up.Fixed(0.75), until=1.6)
    assert [(event.name, event.time, event.index) for event in found] == [
        ("floor", 0.0, 0),
        ("ab", 1.5, 0),
        ("bc", 1.5, 1),
    ]
    assert [event.details["landed"] for event in found] == [0.0, pytest.approx(0.5), 0.0]
    assert found[2].details["changes"] == {"b.v": [1.0, 0.0], "c.v": [0.0, 1.0]}


def test_kinds_arrays_and_what_nobody_gives_out(engine: str) -> None:
    thing = up.Ode(
        {"x": "v", "p": {"der": ["0", "0"]}, "hidden": "0"},
        start={"p": [1.0, 2.0], "hidden": 5.0},
        variables={"n": {"start": 3, "kind": "integer"}, "on": {"start": True, "kind": "boolean"}},
        parameters={"v": 1.0},
        outputs={
            "x": "x",
            "p": "p",
            "n": {"value": "n", "kind": "integer"},
            "on": {"value": "on", "kind": "boolean"},
        },
    )
    then = {"it.p": ["it.p[1]", "it.p[0]"], "it.n": "it.n + 1", "it.on": "0", "it.hidden": "7", "it.v": "2"}
    (event,) = told(up.Scenario({"it": thing}, events={"go": {"when": "it.x >= 0.25", "then": then}}), engine)
    changes = event.details["changes"]
    assert changes["it.p"] == [[1.0, 2.0], [2.0, 1.0]]
    assert changes["it.n"] == [3, 4]
    assert changes["it.on"] == [True, False]
    assert type(changes["it.on"][0]) is bool
    assert changes["it.hidden"] == [None, 7.0]
    assert changes["it.v"] == [None, 2.0]


def test_an_event_that_changes_nothing(engine: str) -> None:
    events = {"down": {"when": "ball.x <= 0"}}
    (event,) = told(up.Scenario({"ball": ball()}, events=events), engine)
    assert set(event.details) == {"landed"}
    assert event.value is True


def test_a_prediction_is_as_old_as_the_steps_that_were_made_for_it(engine: str) -> None:
    """The published method comes nearer in several steps. The step log has a reason for each of them."""
    scenario = up.Scenario({"ball": ball()}, events=bounce())
    pace = up.LookAhead(0.1, method="published", safety=0.5, tolerance=1e-4)
    trace = up.simulate(scenario, pace=pace, until=0.6, engine=engine)
    (event,) = trace.events
    (first, *others) = [step for step in trace.steps if step.reason.startswith("event 'bounce'")]
    assert others
    assert event.details["predicted"]["at"] == first.first
    assert first.reason == f"event 'bounce' expected at {event.details['predicted']['for']:.9g}"


def test_one_prediction_for_each_time_it_happens(engine: str) -> None:
    scenario = up.Scenario({"ball": ball()}, events=bounce())
    found = told(scenario, engine, pace=up.LookAhead(0.1), until=2.5)
    assert len(found) >= 3
    for before, event in pairwise(found):
        assert before.time <= event.details["predicted"]["at"] < event.time


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".journal"])
def test_files_keep_all_of_it(suffix: str, tmp_path: Path) -> None:
    scenario = up.Scenario({"ball": ball()}, events=bounce())
    traces = [
        up.simulate(
            scenario, pace=up.LookAhead(0.1), until=2.0, engine=engine, out=tmp_path / f"{engine}{suffix}"
        )
        for engine in ENGINES
    ]
    for engine, trace in zip(ENGINES, traces, strict=True):
        again = up.read(tmp_path / f"{engine}{suffix}")
        assert again.events == trace.events == traces[0].events
        assert again.events[0].units == ("ball",)
        assert again.events[0].details == trace.events[0].details != {}


def test_stepping_by_hand_tells_the_same(engine: str) -> None:
    scenario = up.Scenario({"ball": ball()}, events=bounce())
    whole = told(scenario, engine, pace=up.LookAhead(0.1))
    with up.start(scenario, pace=up.LookAhead(0.1), until=0.6, engine=engine) as run:
        while not run.finished:
            run.step()
        assert list(run.trace.events) == whole


def test_going_back_to_an_event_keeps_what_was_foreseen(engine: str) -> None:
    """The step that was made for the event is sent back; the prediction is that of the pace inside."""
    scenario = up.Scenario({"ball": ball(outputs={"x": "x"})}, events={"down": {"when": "ball.x <= 0"}})
    pace = up.Revised(up.LookAhead(0.1, method="secant"), tolerance=1e-9)
    (event,) = told(scenario, engine, pace=pace)
    assert event.details["predicted"]["for"] != event.time
    assert event.details["landed"] < 1e-8


def test_python_functions_stand_for_what_they_look_at(engine: str) -> None:
    events = {"down": {"when": lambda x: x, "of": ["ball.x"]}}
    (event,) = told(up.Scenario({"ball": ball()}, events=events), engine)
    assert event.units == ("ball",)
    assert event.details["landed"] == pytest.approx(0.5 - FALL, abs=3e-3)  # on a line


def test_a_unit_that_stopped_for_it_has_come_close(engine: str) -> None:
    """`left` goes first, on a straight line for `right`, which turns: 1 - t - t²/2 = 0 at √3 - 1."""
    units = {
        "left": up.Ode({"x": "v", "v": "0"}, start={"v": 1.0}, inputs={"y": 1.0}),
        "right": up.Ode({"x": "v", "v": "-1"}, start={"x": 1.0}),
    }
    events = {"hit": {"when": "left.x >= right.x", "then": {"left.v": "0"}}}
    scenario = up.Scenario(units, {"left.y": "right.x"}, events=events)
    (event,) = told(scenario, engine, until=1.0, coupling=up.Interruptible(leader="left"), inputs="linear")
    assert event.units == ("left", "right")
    assert abs(event.time - (math.sqrt(3) - 1)) < 0.02
    assert event.details["landed"] == pytest.approx(event.time - (math.sqrt(3) - 1), rel=0.05)


def test_what_rises_first_is_looked_back_at_along_a_parabola(engine: str) -> None:
    """Thrown up from 0.1 with 1 m/s it is back at the floor at (1 + √(1 + 2·9.81·0.1))/9.81."""
    thrown = ball(start={"x": 0.1, "v": 1.0})
    events = {"down": {"when": "ball.x <= 0"}}
    (event,) = told(up.Scenario({"ball": thrown}, events=events), engine, pace=up.Fixed(0.4), until=0.4)
    assert event.details["landed"] == pytest.approx(0.4 - (1 + math.sqrt(2.962)) / 9.81, rel=1e-9)


def test_nothing_is_said_where_a_condition_was_left_in_between(engine: str) -> None:
    """At 0.5 the ball is below the floor, rises above it by 2.3²/2g - 0.226 = 0.04, and is below it again at
    the end of the step: v < 0 has become true before x <= 0 has."""
    events = bounce(then={"ball.v": "2.3"})
    found = told(up.Scenario({"ball": ball()}, events=events), engine, pace=up.Fixed(0.5), until=1.0)
    assert [event.time for event in found] == [0.5, 1.0]
    assert ["landed" in event.details for event in found] == [True, False]


LINE = up.Ode({"x": "1"}, start={"x": 0.0}, outputs={"x": "x"})


@pytest.mark.parametrize(
    "when",
    [
        "sqrt(a.x - 0.555) >= 0.1",  # is not a number before
        "1/(0.5 - a.x) <= 0",  # is infinite, or nearly so, before
        "1/(0.55 - a.x) <= 0",  # has a pole in between
        "(1 if a.x > 0.555 else 0) >= 0.5",
        "floor(a.x + 0.445) >= 1",
    ],
)
def test_nothing_is_said_where_there_is_no_distance(when: str, engine: str) -> None:
    """x = t, and steps of 0.1: it is noticed at 0.6."""
    (event,) = told(up.Scenario({"a": LINE}, events={"low": {"when": when}}), engine, until=1.0)
    assert event.time == pytest.approx(0.6)
    assert event.details == {}


@pytest.mark.parametrize("pace", [up.Fixed(0.1), up.Revised(0.1)])
def test_a_truth_has_no_distance(pace: Any, engine: str) -> None:
    events = {"high": {"when": lambda x: x > 0.555, "of": ["a.x"]}}
    (event,) = told(up.Scenario({"a": LINE}, events=events), engine, pace=pace, until=1.0)
    assert "landed" not in event.details


@pytest.mark.parametrize(
    ("when", "first"), [("log(a.x - 2) >= 0", 0.0), ("sqrt(0.55 - a.x) <= -1", 0.6), ("a.x >= 3", None)]
)
def test_a_condition_that_is_no_number_is_told(when: str, first: float | None, engine: str) -> None:
    """x = t, and steps of 0.1: 0.55 - x is negative at 0.6 for the first time."""
    scenario = up.Scenario({"a": LINE}, events={"low": {"when": when}})
    trace = up.simulate(scenario, engine=engine, pace=up.Fixed(0.1), until=1.0)
    wanted = {} if first is None else {"low": pytest.approx(first)}
    assert trace.info.get("undefined", {}) == wanted
    said = [line for line in up.summary(trace).splitlines() if "not a number" in line]
    assert len(said) == len(wanted)
    assert all(
        line.startswith(f"Event low: its condition was not a number at t = {first:g} s") for line in said
    )


def test_no_number_is_also_told_of_a_run_by_hand(engine: str) -> None:
    scenario = up.Scenario({"a": LINE}, events={"low": {"when": "log(a.x - 2) >= 0"}})
    with up.start(scenario, engine=engine, pace=up.Fixed(0.1), until=1.0) as run:
        run.step()
        assert run.trace.info["undefined"] == {"low": 0.0}
    assert run.trace.info["undefined"] == {"low": 0.0}
