"""State machines: against an interpreter of their description, and point by point."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import upbeat as up
from machine_models import EVENTS, LABELS, Reference, machines
from upbeat.core.errors import ModelError
from upbeat.units.discrete import StateMachine

MOST = 40
"""Jumps in one example; `n` may double in each."""


def compare(unit: Any, reference: Reference, model: StateMachine) -> None:
    assert unit.due() == reference.due()
    state = model.discrete.variables[2].items[unit.get("state")]
    assert state == reference.leaf[-1]
    assert (unit.get("n"), unit.get("x")) == (reference.values["n"], reference.values["x"])
    assert unit.get("sum") == reference.values["x"] + 2 * reference.u + 0.75 * reference.values["n"]
    sends = {name: value for name in EVENTS if (value := unit.get(name)) is not None}
    assert sends == reference.sends()


@st.composite
def moves(draw: st.DrawFn) -> list[tuple[str, Any]]:
    wait = st.tuples(st.just("wait"), st.sampled_from([0.0, 0.25, 0.5, 1.0, 3.0]))
    signal = st.tuples(st.just("u"), st.sampled_from([-1.0, 0.0, 0.5, 2.0]))
    tell = st.tuples(st.just("tell"), st.sampled_from(LABELS))
    return draw(st.lists(wait | signal | tell | st.just(("go", True)) | st.just(("both", "a")), max_size=15))


@given(spec=machines(), script=moves(), start=st.sampled_from([0.0, 10.25]))
@settings(max_examples=100, deadline=None)
def test_a_machine_does_what_its_description_says(
    spec: dict[str, Any], script: list[tuple[str, Any]], start: float
) -> None:
    try:
        model = StateMachine(**copy.deepcopy(spec))
    except ModelError as error:
        raise AssertionError(f"{spec}\n{error}") from None
    unit, reference = model.instantiate("m", start), Reference(spec, start)
    left = MOST
    compare(unit, reference, model)
    for what, value in script:
        match what:
            case "wait":
                to = unit.time + value
                while left and reference.due() <= to:
                    _advance(unit, reference, max(reference.due(), unit.time))
                    compare(unit, reference, model)
                    unit.jump()
                    reference.jump()
                    left -= 1
                    compare(unit, reference, model)
                if not left:
                    return
                _advance(unit, reference, to)
            case "u":
                unit.set("u", [value])
                reference.u = value
            case "both":
                _hear(unit, reference, {"go": True, "tell": value})
            case _:
                _hear(unit, reference, {what: value})
        compare(unit, reference, model)


def _advance(unit: Any, reference: Reference, to: float) -> None:
    unit.advance(unit.time, to)
    reference.time = to


def _hear(unit: Any, reference: Reference, events: dict[str, Any]) -> None:
    for name, value in events.items():
        unit.set(name, [LABELS.index(value) if name == "tell" else value])
    reference.events = events
    assert all(unit.get(name) is None for name in EVENTS), "the next jump takes what came in"
    unit.jump()
    reference.jump()


@given(spec=machines())
@settings(max_examples=25, deadline=None)
def test_a_machine_is_written_as_it_was_read(spec: dict[str, Any]) -> None:
    model = StateMachine(**spec)
    assert StateMachine(**model.to_spec()) == model
    assert pickle.loads(pickle.dumps(model)) == model
    changed = model.with_values({"n": 3, "p": 2.0, "u": -1.0})
    assert StateMachine(**changed.to_spec()) == changed != model
    scenario = up.Scenario({"m": model})
    assert scenario.units["m"] == model


# -------------------------------------------------------------------- point by point


def machine(transitions: list[dict[str, Any]], **more: Any) -> Any:
    given: dict[str, Any] = {
        "states": ["idle", "busy"],
        "initial": "idle",
        "inputs": {"u": 0.0, "go": {"event": True, "kind": "real"}, "stop": {"event": True}},
        "outputs": {"done": {"event": True, "kind": "real"}, "n": "n"},
        "variables": {"n": 1.0, "m": 2.0},
    }
    return StateMachine(**{**given, **more}, transitions=transitions).instantiate("m", 0.0)


def test_actions_read_what_those_before_them_wrote() -> None:
    unit = machine(
        [{"from": "a", "to": "b", "after": 1, "do": {"n": "10*n", "m": "n"}, "emit": {"done": "n"}}],
        states={"a": {"exit": {"n": "n + 1"}}, "b": {"entry": {"n": "n + m"}}},
        initial="a",
    )
    unit.advance(0.0, 1.0)
    assert unit.get("done") == 1.0, "what is sent is read before the transition"
    unit.jump()
    assert unit.get("n") == 10 * (1 + 1) + (1 + 1), "exit: n = 2; do: n = 20, m = 2; entry: n = 22"


def test_an_event_is_answered_in_the_next_micro_step() -> None:
    unit = machine(
        [
            {
                "from": "idle",
                "to": "busy",
                "on": "go",
                "when": "go > 1",
                "do": {"n": "go"},
                "emit": {"done": "n + go"},
            },
            {"from": "busy", "to": "idle", "after": 0, "emit": {"done": "-1"}},
        ]
    )
    unit.set("go", [0.5])
    assert unit.jump() is False
    assert unit.get("n") == 1.0, "lost: no transition is enabled"
    unit.set("go", [3.0])
    assert unit.jump() is True
    assert (unit.get("n"), unit.due(), unit.get("done")) == (3.0, 0.0, 4.0)
    assert unit.jump() is True
    assert unit.get("done") == -1.0, "the answer goes first, then what is due"
    assert unit.jump() is False
    assert unit.due() == math.inf


def test_what_waits_is_replaced_by_another_answer_only() -> None:
    unit = machine(
        [
            {"from": "idle", "on": "go", "emit": {"done": "go"}},
            {"from": "idle", "on": "stop", "to": "busy"},
        ]
    )
    for value in (1.0, 2.0):
        unit.set("go", [value])
        unit.jump()
    unit.set("stop", [True])
    unit.jump()
    assert (unit.get("done"), unit.get("state")) == (2.0, 1)
    assert unit.jump() is False


def test_a_delay_is_counted_from_the_entry_into_the_composite() -> None:
    unit = machine(
        [
            {"from": "a", "to": "b", "after": 2},
            {"from": "b", "to": "a", "after": 2},
            {"from": "work", "to": "rest", "after": 5},
        ],
        states={"work": {"initial": "a", "states": {"a": {}, "b": {}}}, "rest": {}},
        initial="work",
    )
    times = []
    while unit.due() < math.inf:
        unit.advance(unit.time, unit.due())
        unit.jump()
        times.append((unit.time, unit.get("state")))
    assert times == [(2.0, 1), (4.0, 0), (5.0, 2)]


def test_an_internal_transition_restarts_its_own_delay_only() -> None:
    unit = machine(
        [{"from": "idle", "after": 1, "do": {"n": "n + 1"}}, {"from": "idle", "to": "busy", "after": 3.5}]
    )
    times = []
    while unit.due() < math.inf:
        unit.advance(unit.time, unit.due())
        unit.jump()
        times.append(unit.time)
    assert times == [1.0, 2.0, 3.0, 3.5]
    assert unit.get("n") == 4.0


def test_inner_transitions_go_first_then_the_order_counts() -> None:
    unit = machine(
        [
            {"from": "work", "to": "rest", "on": "stop"},
            {"from": "a", "to": "b", "on": "stop"},
            {"from": "a", "to": "a", "on": "stop"},
        ],
        states={"work": {"initial": "a", "states": {"a": {}, "b": {}}}, "rest": {}},
        initial="work",
    )
    for expected in (1, 2):
        unit.set("stop", [True])
        unit.jump()
        assert unit.get("state") == expected


def test_labels_are_the_shortest_clear_names() -> None:
    model = StateMachine(
        {
            "auto": {"initial": "red", "states": ["red", "green"]},
            "manual": {"initial": "red", "states": ["red", "blue"]},
            "blue": {},
        },
        initial="auto.red",
        outputs={"lit": {"value": "state == 'auto.red' or state == 'green'", "kind": "boolean"}},
        transitions=[
            {"from": "auto", "to": "manual", "after": 1},
            {"from": "manual.red", "to": "manual.blue", "after": 1},
            {"from": "manual", "to": "blue", "after": 5},
        ],
    )
    (state,) = [port for port in model.ports if port.name == "state"]
    assert state.items == ("auto.red", "green", "manual.red", "manual.blue", "blue")
    unit = model.instantiate("m", 0.0)
    seen = []
    while unit.due() < math.inf:
        seen.append((state.items[unit.get("state")], unit.get("lit")))
        unit.advance(unit.time, unit.due())
        unit.jump()
    assert seen == [("auto.red", True), ("manual.red", False), ("manual.blue", False)]
    assert model.notes == ("no transition leads to green",)


def test_an_output_of_ones_own_takes_the_name_state() -> None:
    model = StateMachine(["a"], initial="a", outputs={"state": "7.5"})
    assert [(port.name, port.items) for port in model.ports] == [("state", ())]
    assert model.instantiate("m", 0.0).get("state") == 7.5
    assert StateMachine(["a"], initial="a", outputs=["state"]).ports[0].items == ("a",)


def test_enumerations_and_booleans_as_variables() -> None:
    unit = StateMachine(
        ["a"],
        initial="a",
        variables={"mode": {"start": "off", "items": ["off", "on"]}, "lit": True},
        outputs={
            "mode": {"value": "mode", "items": ["off", "on"]},
            "lit": {"value": "lit", "kind": "boolean"},
        },
        transitions=[
            {"from": "a", "after": 1, "when": "mode == 'off'", "do": {"mode": "on", "lit": "not lit"}}
        ],
    ).instantiate("m", 0.0)
    assert (unit.get("mode"), unit.get("lit")) == (0, True)
    unit.advance(0.0, 1.0)
    unit.jump()
    assert (unit.get("mode"), unit.get("lit")) == (1, False)


# -------------------------------------------------------------------- what is refused


GOOD: dict[str, Any] = {
    "states": {"work": {"initial": "a", "states": ["a", "b"]}, "rest": {}},
    "initial": "work",
    "inputs": {"u": 0.0, "go": {"event": True, "kind": "real"}, "stop": {"event": True}},
    "outputs": {"done": {"event": True}, "lamp": {"event": True, "items": ["red", "green"]}, "y": "n + u"},
    "variables": {"n": {"start": 0, "kind": "integer"}, "x": 0.0},
    "parameters": {"p": 1.0},
}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"states": {}}, "states: a state machine needs at least one state"),
        ({"initial": None}, 'initial: say in which state the machine starts: initial = "work"'),
        ({"initial": "wrok"}, "initial: there is no state 'wrok'. Did you mean 'work'?"),
        ({"states": {"work": {"states": ["a"]}}}, "states.work.initial: say in which state 'work' starts"),
        ({"states": {"work": {"entri": {}}}}, "work.entri: unknown key 'entri'. Did you mean 'entry'?"),
        ({"states": {"work": 3}}, "states.work: a state is a table"),
        ({"states": ["work", "2"]}, "states.2: '2' is not the name of a state"),
        ({"transitions": [{"from": "rset", "to": "a", "after": 1}]}, "transitions.0.from: there is no state"),
        ({"transitions": [{"to": "a", "after": 1}]}, "transitions.0: a transition starts somewhere"),
        ({"transitions": [{"from": "a", "to": "b"}]}, "transitions.0: say when it is taken"),
        ({"transitions": [{"from": "a", "on": "x"}]}, "'x' is not an event input: it is one of the"),
        ({"transitions": [{"from": "a", "on": "sotp"}]}, "no event input 'sotp'. Did you mean 'stop'?"),
        ({"transitions": [{"from": "a", "on": {"stop": True}}]}, "must name event inputs"),
        ({"transitions": [{"from": "a", "on": "u"}]}, "transitions.0.on: 'u' is a signal"),
        ({"transitions": [{"from": "a", "after": "u"}]}, "'u' is a signal, but a delay is fixed"),
        ({"transitions": [{"from": "a", "after": -1}]}, "a delay is 0 or more, not -1"),
        ({"transitions": [{"from": "a", "after": 1, "on": "stop"}]}, "either timed or waits for an event"),
        ({"transitions": [{"from": "a", "when": "go > 0"}]}, "'go' is an event, which has a value only when"),
        ({"transitions": [{"from": "a", "on": ["go", "stop"], "when": "go > 0"}]}, "and no other event"),
        ({"transitions": [{"from": "a", "when": "u"}]}, "a condition is true or false, but 'u' is real"),
        ({"transitions": [{"from": "a", "after": 1, "do": {"u": 1}}]}, "do.u: 'u' is an input"),
        ({"transitions": [{"from": "a", "after": 1, "do": {"p": 1}}]}, "'p' is a parameter, which stays"),
        ({"transitions": [{"from": "a", "after": 1, "do": {"y": 1}}]}, "'y' is computed from an expression"),
        ({"transitions": [{"from": "a", "after": 1, "do": {"done": 1}}]}, "a transition sends it with emit"),
        ({"transitions": [{"from": "a", "after": 1, "do": {"k": 1}}]}, "do.k: there is no variable 'k'"),
        ({"transitions": [{"from": "a", "after": 1, "do": {"n": "n/2"}}]}, "write \"round(n/2)\""),
        ({"transitions": [{"from": "a", "after": 1, "emit": {"y": 1}}]}, "emit.y: 'y' is an ordinary output"),
        ({"transitions": [{"from": "a", "after": 1, "emit": {"lamp": "gren"}}]}, "Did you mean 'green'?"),
        ({"transitions": [{"from": "a", "after": 1, "emit": {"lamp": True}}]}, "say what it sends"),
        ({"transitions": [{"from": "a", "after": 1, "emit": {"lmap": "red"}}]}, "Did you mean 'lamp'?"),
        ({"transitions": [{"from": "a", "to": "a", "after": 0}]}, "this never ends: work.a → work.a"),
        ({"transitions": [{"from": "a", "after": 0}]}, "this never ends"),
        (
            {
                "transitions": [
                    {"from": "a", "to": "rest", "after": 0},
                    {"from": "rest", "to": "work", "after": 0},
                ]
            },
            "this never ends: work.a → rest → work.a",
        ),
        ({"locals": {"f": "g", "g": "f"}}, "locals: these locals need each other"),
        ({"locals": {"f": "go"}}, "locals.f: 'go' is an event"),
        ({"outputs": {"y": "go"}}, "outputs.y: 'go' is an event"),
        ({"outputs": {"e": {"event": True, "value": "u"}}}, "say so in an emit"),
        ({"variables": {"elapsed": 0.0}}, "variables.elapsed: 'elapsed' already has a meaning"),
        ({"variables": {"u": 0.0}}, "the name 'u' is used twice"),
        ({"variables": {"v": "off"}}, "one of some labels"),
        ({"states": {"work": {"entry": {"x": "u"}}}}, "at the start no input has a value yet"),
        (
            {
                "states": {
                    "s": {"initial": "a", "states": ["a"]},
                    "t": {"initial": "a", "states": ["a"]},
                },
                "initial": "a",
            },
            "'a' could be several states; write \"s.a\" or \"t.a\"",
        ),
    ],
)  # fmt: skip
def test_mistakes_are_named_with_their_place(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ModelError) as caught:
        StateMachine(**{**GOOD, **change})
    assert words in str(caught.value)


def test_all_mistakes_are_told_together() -> None:
    with pytest.raises(ModelError) as caught:
        StateMachine(
            ["a", "b"],
            initial="c",
            transitions=[
                {"from": "a", "to": "d", "after": 1, "do": {"n": 1}},
                {"from": "b", "when": "z > 1"},
            ],
        )
    assert [where for where, _ in caught.value.complaints] == [
        "initial",
        "transitions.0.to",
        "transitions.0.do.n",
        "transitions.1.when",
    ]


def test_a_state_with_another_name_than_a_label_in_expressions() -> None:
    with pytest.raises(ModelError, match=r"for the label write \"'on'\""):
        StateMachine(
            ["a"],
            initial="a",
            inputs={"on": 0.0},
            variables={"m": {"start": "on", "items": ["off", "on"]}},
            transitions=[{"from": "a", "after": 1, "do": {"m": "on"}}],
        )
