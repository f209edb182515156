"""Events of a scenario as they are written: read, split into conditions, written back, and what is wrong."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import pytest

import upbeat as up
from upbeat.core.errors import ScenarioError
from upbeat.core.expr import show
from upbeat.scenario.files.reading import read_text, scenario_text

MASS = up.Ode(
    {"x": "v", "v": "-g"},
    inputs={"u": 0.0, "kick": {"event": True}},
    outputs={"x": "x", "v": "v", "done": {"event": True}},
    parameters={"g": 9.81, "r": {"value": 0.5, "unit": "m"}},
    variables={"mode": {"items": ["a", "b"], "start": "a"}},
    events={
        "kicked": {"on": "kick", "then": {"v": "v + 1"}},
        "down": {"when": "x <= -1000", "emit": {"done": True}},
    },
)
UNITS = {"a": MASS, "b": MASS, "f": up.Function(["u"], {"y": "u"})}
LINKS = {"a.u": "b.x + push", "f.u": "a.x"}


def scenario(**events: Any) -> up.Scenario:
    return up.Scenario(UNITS, LINKS, inputs={"push": 0.0}, outputs={"gap": "a.x - b.x"}, events=events)


def conditions(when: Any) -> list[str]:
    (event,) = scenario(e={"when": when}).events
    return [show(z) for z in event.conditions]


def less(z: str) -> str:
    """What is at most zero where `z` is below zero: at zero it is the smallest ordinary number above."""
    return f"{z} + {sys.float_info.min!r}*({z} == 0)"


@pytest.mark.parametrize(
    ("when", "found"),
    [
        ("a.x <= 1", ["a.x - 1"]),
        ("a.x - b.x < 2*a.r and a.v < b.v", [less("a.x - b.x - 2*a.r"), less("a.v - b.v")]),
        ("a.x >= 1 and (a.v > 0 and b.v > push)", ["1 - a.x", less("0 - a.v"), less("push - b.v")]),
        ("a.x >= 1 or a.v > 2", [f"min(1 - a.x, {less('2 - a.v')})"]),
        ("not (a.x >= 1 or a.v > 2)", [f"max({less('a.x - 1')}, a.v - 2)"]),
        (["a.x", "b.v - 2"], ["a.x", "b.v - 2"]),
        (["a.x", "a.v < 3 and a.u > 2"], ["a.x", less("a.v - 3"), less("2 - a.u")]),
    ],
)
def test_a_condition_becomes_numbers(when: Any, found: list[str]) -> None:
    assert conditions(when) == found


def test_private_and_shared_follow_from_the_units() -> None:
    made = scenario(
        own={"when": "a.x < push", "then": {"a.v": "-a.v"}},
        both={"when": "a.x < 0", "then": {"b.v": "1"}},
    )
    own, both = made.events
    assert (own.units, own.shared) == (("a",), False)
    assert (both.units, both.shared) == (("a", "b"), True)


def test_events_survive_files_values_and_pickles(tmp_path: Path) -> None:
    made = scenario(
        hit={"when": "a.x <= b.x and a.v < 0", "then": {"a.v": "-a.v", "b.v": 3, "a.mode": "b"}},
        seen={"when": ["a.x", "a.v"]},
    )
    text = scenario_text(made)
    assert "[events.hit]" in text
    assert read_text(text).scenario == made
    assert pickle.loads(pickle.dumps(made)) == made
    assert made.with_values({"a.g": 2.0}).events == made.events
    assert made != scenario()
    assert made != scenario(seen={"when": ["a.x", "a.v"]})
    assert list(made.closed().units) == ["inputs", "events", "a", "b", "f"]
    closed = made.closed()
    assert closed.closed() is closed
    assert pickle.loads(pickle.dumps(closed)) == closed


def test_dotted_keys_need_no_quotation_marks() -> None:
    text = """
        upbeat = 1
        [units.a]
        states = { x = "v", v = "-9.81" }
        start = { x = 1.0 }
        [events.bounce]
        when = "a.x <= 0 and a.v < 0"
        then.a.v = "-a.v"
        """
    (event,) = read_text(text).scenario.events
    assert event.written["then"] == {"a.v": "-a.v"}


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({}, "does not say when"),
        ("a.x", "an event is a table"),
        ({"when": "a.x < 0", "do": {}}, "unknown key 'do'"),
        ({"when": []}, "is empty"),
        ({"when": "a.x"}, r'Compare it: "a.x <= 0"'),
        ({"when": "a.x == 0"}, "hardly ever meet"),
        ({"when": "a.q < 0"}, "'a.q' does not exist"),
        ({"when": "c.x < 0"}, "there is no unit 'c'"),
        ({"when": "b.u < 0"}, "an input that nothing drives"),
        ({"when": "a.done"}, "is an event"),
        ({"when": "time > 3"}, "'time' is not a signal"),
        ({"when": "a.x < 0", "then": "a.v"}, "expected new values"),
        ({"when": "a.x < 0", "then": {"v": "1"}}, "does not name something in a unit"),
        ({"when": "a.x < 0", "then": {"c.v": "1"}}, "there is no unit 'c'"),
        ({"when": "a.x < 0", "then": {"a.w": "1"}}, "no state, variable or parameter 'w'"),
        ({"when": "a.x < 0", "then": {"f.y": "1"}}, r"'f' \(Function\) cannot be changed from outside"),
        ({"when": "a.x < 0", "then": {"a.v": "a.x > 2 and"}}, "a.x > 2 and"),
        ({"when": "a.x < 0", "then": {"a.v": "-a.w"}}, "'a.w' does not exist"),
        ({"when": "a.x < 0", "then": {"a.mode": "c"}}, "'c' is not a scenario input|enumeration"),
        ({"when": "a.g < 0", "then": {"a.g": "1"}}, "a parameter that an event changes"),
    ],
)
def test_what_is_wrong_is_said(entry: Any, words: str) -> None:
    with pytest.raises(ScenarioError, match=words) as caught:
        scenario(e=entry)
    assert all(problem.where[:2] == ("events", "e") for problem in caught.value.problems)


def test_a_parameter_that_its_unit_changes_is_given_out_to_be_read() -> None:
    """x = t passes 0.5, where the unit raises its limit from 1 to 2: it is met at t = 2."""
    grow = {"when": "x >= 0.5", "then": {"limit": "2.0"}}
    model = up.Ode({"x": "1"}, parameters={"limit": 1.0}, events={"grow": grow}, outputs={"x": "x"})
    with pytest.raises(ScenarioError, match="a parameter that the event 'grow' of m changes") as caught:
        up.Scenario({"m": model}, events={"hit": {"when": "m.x >= m.limit"}})
    (problem,) = caught.value.problems
    assert 'outputs = { limit_now = "limit" }, and read m.limit_now' in problem.hint
    open_one = up.Ode(**{**model.to_spec(), "outputs": {"x": "x", "limit_now": "limit"}})
    scenario = up.Scenario({"m": open_one}, events={"hit": {"when": "m.x >= m.limit_now"}})
    trace = up.simulate(scenario, pace=up.LookAhead(0.25), until=5.0)
    assert trace.events.times("hit") == pytest.approx([2.0], abs=1e-5)


@pytest.mark.parametrize("name", ["push", "gap", "a b", "time"])
def test_an_event_has_a_name_of_its_own(name: str) -> None:
    with pytest.raises(ScenarioError):
        scenario(**{name: {"when": "a.x < 0"}})


def test_nobody_else_is_called_events() -> None:
    with pytest.raises(ScenarioError, match="taken by the scenario's own events"):
        up.Scenario({"events": MASS})


def test_all_problems_are_reported_together_with_their_lines() -> None:
    text = (
        "upbeat = 1\n[units.a]\nstates = { x = '1' }\n[events.one]\nwhen = 'a.y < 0'\n"
        "[events.two]\nwhen = 'a.x < 0'\nthen = { a.z = 1, b.z = 2 }\n"
    )
    with pytest.raises(ScenarioError) as caught:
        read_text(text)
    assert [problem.line for problem in caught.value.problems] == [5, 8]


def test_explain_tells_what_an_event_is() -> None:
    made = scenario(hit={"when": "a.x <= b.x and a.v < 0", "then": {"a.v": "-a.v"}})
    told = up.explain(up.experiment(made, pace=up.Fixed(0.1), until=1.0))
    assert "hit (shared: a, b)" in told
    assert "then a.v = -a.v" in told
