"""`PythonDiscrete`: transitions by the book, labels, elapsed time, rollback, bytes, and what is refused."""

from __future__ import annotations

import math
import pickle
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discrete_models import LABELS, Devs, systems
from upbeat.core.abilities import Ability, NextEvent, Rollback, Serialise
from upbeat.core.errors import ModelError
from upbeat.core.ports import Causality, Kind, Port
from upbeat.units.discrete import DiscreteError, PythonDiscrete
from upbeat.units.discrete.model import dumps, loads

AFTER = {"red": "green", "green": "yellow", "yellow": "red"}
LASTS = {"red": 60, "green": 50, "yellow": 10, "off": math.inf}


def told(state, elapsed, events):
    return "off" if events["control"] == "to_off" else "red"


def following(state):
    return {"colour": AFTER[state]}


def light(**changes):
    """The traffic light of the survey (definition 8, example 3)."""
    fields = {
        "start": "red",
        "time_advance": LASTS.__getitem__,
        "internal": AFTER.__getitem__,
        "output": following,
        "external": told,
        "shows": lambda state: {"showing": state},
        "inputs": {"control": {"items": ["to_off", "to_auto"]}},
        "outputs": {"colour": {"event": True, "items": list(LASTS)}, "showing": {"items": list(LASTS)}},
    }
    return PythonDiscrete(**{**fields, **changes})


def test_ports():
    assert light().ports == (
        Port("control", Causality.INPUT, Kind.INTEGER, items=("to_off", "to_auto"), event=True),
        Port("colour", Causality.OUTPUT, Kind.INTEGER, items=tuple(LASTS), event=True),
        Port("showing", Causality.OUTPUT, Kind.INTEGER, items=tuple(LASTS)),
    )
    unit = light().instantiate("light", 0.0)
    assert light().abilities == {Ability.ROLLBACK, Ability.SERIALISE, Ability.NEXT_EVENT}
    assert isinstance(unit, Rollback)
    assert isinstance(unit, Serialise)
    assert isinstance(unit, NextEvent)


def test_the_traffic_light():
    unit = light().instantiate("light", 0.0)
    assert (unit.due(), unit.get("colour")) == (60.0, None)
    unit.advance(0.0, 60.0)
    assert unit.get("colour") == 1
    assert unit.jump() is False
    assert (unit.due(), unit.get("showing")) == (110.0, 1)
    unit.advance(60.0, 100.0)
    unit.set("control", [0])
    assert unit.jump() is False
    assert (unit.due(), unit.get("showing"), unit.get("colour")) == (math.inf, 3, None)
    unit.set("control", [1])
    unit.jump()
    assert unit.due() == 160.0


def test_events_come_before_what_is_due():
    unit = light().instantiate("light", 0.0)
    unit.advance(0.0, 60.0)
    unit.set("control", ["to_off"])
    assert unit.get("colour") is None  # the next jump is the external one
    unit.jump()
    assert unit.get("showing") == 3


def test_a_state_may_have_lasted_for_a_while():
    assert light(elapsed=45).instantiate("light", 100.0).due() == 115.0
    assert light(elapsed=0.3, start="yellow").instantiate("light", 0.1).due() == (0.1 - 0.3) + 10
    with pytest.raises(ModelError, match="elapsed is 61, but the state at first lasts only 60"):
        light(elapsed=61).instantiate("light", 0.0)
    for wrong in (-1, math.inf, math.nan, True, "1"):
        with pytest.raises(ModelError, match="elapsed: a time that has passed is 0 or more"):
            light(elapsed=wrong)


@settings(deadline=None, max_examples=60)
@given(systems(), st.lists(st.one_of(st.sampled_from(LABELS), st.floats(0.0, 2.0)), max_size=30))
def test_random_systems_against_a_simulator_of_their_own(system, script):
    """Here an external transition keeps the rest of the time by counting it down, as DEVS models do."""

    def external(state, elapsed, events):
        to, anew = system[state[0]].hears[LABELS.index(events["tell"])]
        return (to, system[to].lasts if anew else max(0.0, state[1] - elapsed), state[2])

    def internal(state):
        to = system[state[0]].goes
        return (to, system[to].lasts, state[2] + 1)

    model = PythonDiscrete(
        (0, system[0].lasts, 0), time_advance=lambda s: s[1], internal=internal, external=external,
        output=lambda s: None if system[s[0]].sends is None else {"said": system[s[0]].sends},
        shows=lambda s: {"x": s[0], "count": s[2]},
        inputs={"tell": {"items": LABELS}},
        outputs={
            "said": {"event": True, "kind": "real"}, "x": {"kind": "integer"}, "count": {"kind": "integer"},
        },
    )  # fmt: skip
    unit, devs = model.instantiate("m", 0.0), Devs(system, 0.0)
    for action in script:
        if isinstance(action, str):
            unit.set("tell", [action])
            devs.external(LABELS.index(action))
            unit.jump()
        elif devs.until <= devs.time + action:
            unit.advance(unit.time, max(unit.time, unit.due()))
            devs.time = max(devs.time, devs.until)
            assert unit.get("said") == devs.sends()
            devs.internal()
            unit.jump()
        else:
            unit.advance(unit.time, unit.time + action)
            devs.time += action
        assert (unit.get("x"), unit.get("count")) == (devs.x, devs.count)
        assert unit.due() == pytest.approx(devs.until, rel=1e-12, abs=1e-12)
        devs.until, devs.time = unit.due(), unit.time  # rounding of the countdown is not the point


def test_parameters_are_the_last_argument():
    model = PythonDiscrete(
        0, time_advance=lambda n, p: p.period, internal=lambda n, p: n + 1,
        shows=lambda n, p: {"y": n * p.gain[1]}, outputs=["y"],
        parameters={"period": 2.0, "gain": [1.0, 10.0]},
    )  # fmt: skip
    unit = model.with_values({"period": 3.0, "gain[1]": 5.0}).instantiate("m", 0.0)
    unit.advance(0.0, unit.due())
    unit.jump()
    assert (unit.due(), unit.get("y")) == (6.0, 5.0)
    assert model.with_values({"period": 3.0}) != model == model.with_values({"period": 2.0})
    with pytest.raises(ModelError, match="there is no value 'start' to set"):
        model.with_values({"start": 3.0})


def test_a_unit_that_only_listens():
    model = PythonDiscrete(
        [], external=lambda heard, elapsed, events: [*heard, (elapsed, events)],
        shows=lambda heard: {"n": len(heard)}, outputs={"n": {"kind": "integer"}},
        inputs={"go": {}, "value": {"kind": "real", "size": 2}, "text": {"kind": "string"}},
    )  # fmt: skip
    unit = model.instantiate("m", 0.0)
    unit.advance(0.0, 1.5)
    unit.set("value", [(1, 2.5)])
    unit.set("text", ["hello"])
    assert unit.jump() is False
    unit.set("go", [True])
    unit.jump()
    assert unit._state == [(1.5, {"value": (1.0, 2.5), "text": "hello"}), (0.0, {"go": True})]
    assert (unit.get("n"), unit.due()) == (2, math.inf)
    assert hash(model) == hash(model)  # although its start is a list
    assert model.instantiate("other", 0.0).get("n") == 0


def test_an_event_that_only_happens():
    for said, sent in ((True, True), (False, None), (None, None)):
        model = PythonDiscrete(
            0, time_advance=lambda n: 0.0, internal=lambda n: n, outputs={"tick": {"event": True}},
            output=lambda n, said=said: {"tick": said},
        )  # fmt: skip
        assert model.instantiate("m", 0.0).get("tick") is sent


def counting():
    """A state that is changed in place."""

    def external(state, elapsed, events):
        state["seen"].append(events["x"])
        return state

    return PythonDiscrete(
        {"seen": []}, external=external, inputs={"x": {"kind": "real"}},
        shows=lambda state: {"n": len(state["seen"])}, outputs={"n": {"kind": "integer"}},
    )  # fmt: skip


def test_rollback_with_states_that_change_in_place():
    unit = counting().instantiate("m", 0.0)
    unit.set("x", [1.0])
    unit.jump()
    unit.set("x", [2.0])
    token = unit.save()
    for _ in range(2):  # a token can be used many times
        unit.jump()
        assert unit.get("n") == 2
        unit.set("x", [3.0])
        unit.advance(unit.time, 7.0)
        unit.jump()
        unit.restore(token)
        assert (unit.time, unit.get("n")) == (0.0, 1)
    other = counting().instantiate("m", 3.0)
    other.restore(other.from_bytes(unit.to_bytes(token)))
    other.jump()
    assert (other.time, other._state) == (0.0, {"seen": [1.0, 2.0]})
    assert counting().start == {"seen": []}


plain_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text() | st.integers() | st.tuples(st.booleans()), inner)
        | st.sets(st.integers() | st.text() | st.tuples(st.text()))
        | st.frozensets(st.floats(allow_nan=False))
    ),
    max_leaves=12,
)


@given(plain_values)
def test_plain_values_survive_as_text(value):
    assert repr(loads(dumps(value))) == repr(value) or loads(dumps(value)) == value


@pytest.mark.parametrize(
    "text", ['{"tuple": 3}', '{"code": "1"}', "{}", '{"dict": [[{"dict": []}, 1]]}', "[", '{"bytes": "x"}']
)
def test_other_texts_are_refused(text):
    with pytest.raises(ValueError, match=r".+"):
        loads(text)


class Point(NamedTuple):
    x: float


def moving(**more):
    return PythonDiscrete(Point(1.5), time_advance=lambda p: p.x, internal=lambda p: Point(p.x + 1), **more)


def test_states_that_are_not_plain_need_help():
    unit = moving().instantiate("m", 0.0)
    with pytest.raises(
        DiscreteError, match=r"Point is no plain value\. Give functions .* to_bytes=…, from_bytes=…"
    ):
        unit.to_bytes(unit.save())
    helped = moving(
        to_bytes=lambda p: p.x.hex().encode(), from_bytes=lambda b: Point(float.fromhex(b.decode()))
    )
    unit = helped.instantiate("m", 0.0)
    assert unit.from_bytes(unit.to_bytes(unit.save())) == unit.save()
    wrong = moving(to_bytes=str, from_bytes=str).instantiate("m", 0.0)
    with pytest.raises(DiscreteError, match=r"to_bytes returned 'Point.*, but must return bytes"):
        wrong.to_bytes(wrong.save())
    endless = []
    endless.append(endless)
    unit.restore(unit.save())
    with pytest.raises(TypeError, match="contains itself"):
        dumps(endless)


def test_foreign_bytes_are_refused():
    unit = light().instantiate("m", 0.0)
    for data in (b"", b"[]", b"\xff", b'{"tuple":[0.0,0.0,0.0,"red",{"tuple":[{"tuple":["stop",1]}]}]}'):
        with pytest.raises(ModelError, match="not a state of this unit"):
            unit.from_bytes(data)


def test_models_travel():
    model = PythonDiscrete("red", time_advance=len, internal=str.upper)
    assert pickle.loads(pickle.dumps(model)) == model


@pytest.mark.parametrize(
    ("changes", "call", "said"),
    [
        ({"time_advance": lambda s: -1.0}, "instantiate", r"time_advance gave -1\.0 for the state 'red'"),
        ({"time_advance": lambda s: math.nan}, "instantiate", "time_advance gave nan"),
        ({"time_advance": lambda s: "60"}, "instantiate", "time_advance gave '60'"),
        ({"time_advance": lambda s: True}, "instantiate", "time_advance gave True"),
        ({"output": lambda s: {"color": 1}}, "colour", "output returned an unknown 'color'. Did you mean"),
        ({"output": lambda s: {"showing": 1}}, "colour", "output returned an unknown 'showing'"),
        ({"output": lambda s: {"colour": "blue"}}, "colour", "gave 'blue' for 'colour', .* not one of red"),
        ({"output": lambda s: {"colour": 1.5}}, "colour", r"gave 1\.5 for 'colour', which is integer"),
        ({"output": lambda s: "green"}, "colour", "output returned 'green': give a dict of events, or None"),
        ({"shows": lambda s: {"showin": s}}, "showing", "shows returned an unknown 'showin'"),
        ({"shows": lambda s: {}}, "showing", "shows returned no value for 'showing'"),
        ({"shows": lambda s: {"showing": 9}}, "showing", "9 is not an index of red"),
        ({"internal": lambda s: None}, "jump", "internal returned None: it must return the new state"),
        ({"external": lambda s, e, u: None}, "event", "external returned None"),
        ({"external": told}, "wrong event", "'blink' is not one of to_off, to_auto"),
        ({"external": told}, "unknown input", "there is no input 'controls'"),
        ({"external": told}, "unknown output", "there is no output 'speed'"),
        ({"external": told}, "back", "cannot advance backwards"),
    ],
)
def test_functions_that_misbehave(changes, call, said):
    with pytest.raises((DiscreteError, ModelError), match=said):
        use(light(**changes), call)


def use(model, call):
    unit = model.instantiate("light", 0.0)
    unit.advance(0.0, 60.0)
    match call:
        case "jump":
            unit.jump()
        case "event":
            unit.set("control", [0])
            unit.jump()
        case "wrong event":
            unit.set("control", ["blink"])
        case "unknown input":
            unit.set("controls", [1])
        case "unknown output":
            unit.get("speed")
        case "back":
            unit.advance(60.0, 10.0)
        case port:
            unit.get(port)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"internal": None}, "time_advance and internal come together, but there is only time_advance"),
        ({"to_bytes": str}, "to_bytes and from_bytes come together, but there is only to_bytes"),
        ({"external": None}, "there are inputs, but no function says what they do"),
        ({"output": None}, "no function says when to send colour"),
        ({"shows": None}, "no function says what showing is"),
        ({"outputs": {"showing": {}}}, "no output is an event"),
        ({"outputs": {"colour": {"event": True}}}, "there is no output to show"),
        ({"time_advance": None, "internal": None}, "events are sent when a state ends"),
        ({"time_advance": 60}, "time_advance: expected a function, not 60"),
        ({"inputs": {"control": {"event": False}}}, "an input of a PythonDiscrete is an event"),
        ({"inputs": {"control": {"start": True}}}, "cannot have a start value"),
        ({"inputs": ["colour"]}, "the name 'colour' is used twice"),
        ({"outputs": {"colour": {"evnt": True}}}, "unknown key 'evnt'"),
    ],
)
def test_models_say_what_is_wrong(changes, said):
    with pytest.raises(ModelError, match=said):
        light(**changes)
