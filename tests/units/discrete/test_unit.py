"""Running discrete units: against an independent simulator, guards, relays, rollback, bytes."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discrete_models import LABELS, MOTION, Devs, model_of, systems
from upbeat.core.errors import ModelError
from upbeat.core.expr import Name, Number, Op, apply, parse
from upbeat.core.ports import Causality, Kind, Port
from upbeat.units.discrete import Discrete, DiscreteError, Emission, Mode, Variable

scripts = st.lists(st.one_of(st.sampled_from(LABELS), st.floats(0.0, 2.0)), min_size=1, max_size=40)


@settings(deadline=None, max_examples=60)
@given(systems(), scripts, st.floats(-3, 3))
def test_random_systems_against_a_simulator_of_their_own(system, script, start):
    unit, devs = model_of(system).instantiate("m", start), Devs(system, start)
    for action in script:
        if isinstance(action, str):
            unit.set("tell", [action])
            devs.external(LABELS.index(action))
            assert unit.jump() is (devs.until <= devs.time)
        elif devs.until <= devs.time + action:  # as far as the next event, and over it
            unit.advance(unit.time, max(unit.time, unit.due()))
            devs.time = max(devs.time, devs.until)
            assert unit.get("said") == devs.sends()
            devs.internal()
            assert unit.jump() is (devs.until <= devs.time)
        else:
            unit.advance(unit.time, unit.time + action)
            devs.time += action
            assert unit.get("said") is None
        assert (unit.due(), unit.get("x"), unit.get("count")) == (devs.until, devs.x, devs.count)


def test_a_guard_on_a_moving_input_is_due_when_it_holds():
    unit = MOTION.instantiate("m", 0.0)
    unit.set("w", [(0.0, 0.0)])
    unit.set("u", [1.0, -1.0])  # 1 - t, which passes 0.25 at 0.75
    assert unit.due() == 0.25
    unit.advance(0.0, 0.1)
    unit.set("hit", [(0.0, 1.0)])
    unit.jump()
    until = 0.1 + abs(math.sin(0.1)) + 0.01
    assert unit.due() == until
    unit.advance(0.1, 0.7)
    assert unit.due() == until
    unit.advance(0.7, 0.8)
    assert unit.due() == 0.8
    assert unit.get("passed") == (pytest.approx(0.2 * 1.5), pytest.approx(0.2 - 2.0))
    assert unit.get("echo") is None
    assert unit.jump() is False
    assert unit.due() == 0.8 + 0.3
    unit.set("on", [False])
    assert unit.get("calm") is False


def test_a_relay_sends_what_it_is_told_in_the_same_jump():
    relay = Discrete(
        ports=(Port("i", Causality.INPUT, event=True), Port("o", Causality.OUTPUT, event=True)),
        modes=(
            Mode(
                due=apply(Op.WHERE, Name("i?"), Name("time"), Number(math.inf)),
                emissions=(Emission("o", Name("i?"), (parse("2*i"),)),),
            ),
        ),
    )
    unit = relay.instantiate("r", 0.0)
    assert (unit.due(), unit.get("o")) == (math.inf, None)
    unit.set("i", [21.0])
    assert (unit.due(), unit.get("o")) == (0.0, 42.0)
    assert unit.jump() is False
    assert (unit.due(), unit.get("o")) == (math.inf, None)


def test_several_events_at_once():
    unit = MOTION.instantiate("m", 0.0)
    unit.advance(0.0, 0.25)
    unit.jump()  # high
    unit.set("hit", [(3.0, 4.0)])
    unit.set("reset", [True])
    unit.jump()
    assert unit.get("y") == 4.0 * 1.0 + 0.25
    unit.advance(0.25, 0.4)
    assert unit.get("done") is None  # low again


@given(st.data())
def test_rollback_is_the_identity_and_bytes_keep_everything(data):
    unit = MOTION.instantiate("m", 0.0)
    wander(unit, data)
    token = unit.save()
    packed = unit.to_bytes(token)
    before = picture(unit)
    wander(unit, data)
    unit.restore(token)
    assert (picture(unit), unit.save()) == (before, token)
    other = MOTION.instantiate("other", 5.0)
    other.restore(other.from_bytes(packed))
    assert (picture(other), other.save()) == (before, token)
    assert other.jump() == unit.jump()
    assert picture(other) == picture(unit)


def wander(unit, data):
    actions = st.sampled_from(["u", "w", "on", "hit", "reset", "kind", "jump", "advance"])
    number = st.floats(-2, 2)
    for action in data.draw(st.lists(actions, max_size=8)):
        match action:
            case "jump":
                unit.jump()
            case "advance":
                unit.advance(unit.time, unit.time + data.draw(st.floats(0, 1)))
            case "u":
                unit.set("u", data.draw(st.lists(number, min_size=1, max_size=3)))
            case "w":
                unit.set("w", data.draw(st.lists(st.tuples(number, number), min_size=1, max_size=3)))
            case "hit":
                unit.set("hit", [(data.draw(number), data.draw(number))])
            case "kind":
                unit.set("kind", [data.draw(st.integers(0, 2))])
            case name:
                unit.set(name, [True])


def picture(unit):
    names = [port.name for port in MOTION.ports if port.causality is Causality.OUTPUT]
    return [unit.time, unit.due(), *(unit.get(name) for name in names)]


def test_foreign_bytes_are_refused():
    unit = MOTION.instantiate("m", 0.0)
    good = unit.to_bytes(unit.save())
    with pytest.raises(ModelError, match="not a state of this unit: expected"):
        unit.from_bytes(good[:-8])
    wrong = unit.to_bytes((0.0, 7.0, *unit.save()[2:]))
    with pytest.raises(ModelError, match="not a state of this unit: there is no mode 7"):
        unit.from_bytes(wrong)


def failing(**mode):
    return Discrete(
        ports=(
            Port("e", Causality.INPUT, event=True),
            Port("o", Causality.OUTPUT, Kind.INTEGER, event=True),
            Port("b", Causality.OUTPUT, Kind.BOOLEAN),
        ),
        variables=(Variable("m", Kind.INTEGER, 0), Variable("x", Kind.REAL, 0.0)),
        mode="m",
        modes=(Mode(**{"due": Name("time"), **mode}),),
        outputs=(("b", (parse("x/x"),)),),
    )


@pytest.mark.parametrize(
    ("mode", "call", "said"),
    [
        ({"due": parse("x/x")}, lambda unit: unit.due(), "the time of the next event is nan"),
        ({"internal": (("m", Number(1.0)),)}, lambda unit: unit.jump(), "there is no mode 1, only 0 to 0"),
        ({"internal": (("m", parse("1/x")),)}, lambda unit: unit.jump(), "inf is not an integer"),
        (
            {"emissions": (Emission("o", Number(1.0), (parse("1e300"),)),)},
            lambda unit: unit.get("o"),
            r"1e\+300 is not an integer",
        ),
        (
            {"emissions": (Emission("o", parse("x/x"), (Number(1.0),)),)},
            lambda unit: unit.get("o"),
            "nan is neither true nor false",
        ),
        ({}, lambda unit: unit.get("b"), "nan is neither true nor false"),
        ({}, lambda unit: unit.advance(1.0, 0.0), "cannot advance backwards, from 1 to 0"),
    ],
)
def test_failures_say_why(mode, call, said):
    with pytest.raises(DiscreteError, match=said):
        call(failing(**mode).instantiate("m", 0.0))
