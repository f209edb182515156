"""What a `Discrete` model may say, its values, its ports, and how it travels."""

from __future__ import annotations

import math
import pickle

import pytest

from upbeat.core.abilities import Ability, NextEvent, Rollback, Serialise
from upbeat.core.errors import ModelError
from upbeat.core.expr import Number, parse
from upbeat.core.ports import Causality, Kind, Port
from upbeat.units.discrete import Discrete, Emission, Mode, Variable

NEVER = Number(math.inf)
ONE = Number(1.0)


def text(source):
    return parse(source)


def light(**changes):
    """The traffic light of the survey: red for 60 s, green for 50 s, yellow for 10 s; off when told so."""
    states = ("red", "green", "yellow", "off")
    goes = []
    for i, lasts in enumerate(("red_time", "50", "10")):
        after = (i + 1) % 3
        goes.append(
            Mode(
                due=text("until"),
                emissions=(Emission("colour", ONE, (Number(after),)),),
                internal=(
                    ("state", Number(after)),
                    ("until", text("time") + text(("50", "10", "red_time")[i])),
                ),
                external=(
                    ("state", text("3 if control == 1 else state")),
                    ("until", text(f"1e308*10 if control == 1 else time + {lasts}")),
                ),
            )
        )
    off = Mode(
        due=NEVER,
        external=(("state", text("0 if control == 0 else 3")), ("until", text("time + red_time"))),
    )
    fields = {
        "ports": (
            Port("control", Causality.INPUT, Kind.INTEGER, items=("auto", "off"), event=True),
            Port("colour", Causality.OUTPUT, Kind.INTEGER, items=states, event=True),
            Port("showing", Causality.OUTPUT, Kind.INTEGER, items=states),
            Port("red_time", Causality.PARAMETER, start=(60.0,)),
        ),
        "variables": (Variable("state", Kind.INTEGER, 0, states), Variable("until", Kind.REAL, 0.0)),
        "mode": "state",
        "modes": (*goes, off),
        "outputs": (("showing", (text("state"),)),),
        "initial": (("until", text("time + red_time")),),
    }
    return Discrete(**{**fields, **changes})


def test_the_traffic_light_of_the_survey():
    unit = light().instantiate("light", 0.0)
    seen = []
    while len(seen) < 5:
        due = unit.due()
        unit.advance(unit.time, due)
        seen.append((due, unit.get("colour")))
        assert unit.jump() is False
    assert seen == [(60.0, 1), (110.0, 2), (120.0, 0), (180.0, 1), (230.0, 2)]
    assert unit.get("showing") == 2


def test_an_event_goes_before_what_is_due():
    unit = light().instantiate("light", 0.0)
    unit.advance(0.0, 60.0)
    unit.set("control", [1])
    assert unit.jump() is False
    assert (unit.get("showing"), unit.due(), unit.get("colour")) == (3, math.inf, None)
    unit.set("control", ["auto"])  # by label, at the same instant
    unit.jump()
    assert (unit.get("showing"), unit.due()) == (0, 120.0)


def test_an_event_output_is_absent_until_it_is_due():
    unit = light().instantiate("light", 0.0)
    assert unit.get("colour") is None
    assert unit.jump() is False  # nothing is due, so nothing happens
    assert unit.get("showing") == 0
    unit.advance(0.0, 60.0)
    assert unit.get("colour") == 1


def test_initial_values_see_the_start_time_and_the_parameters():
    assert light().with_values({"red_time": 7.0}).instantiate("light", 100.0).due() == 107.0


def test_values_can_be_set():
    model = light().with_values({"state": "green"})
    assert model.instantiate("light", 0.0).get("showing") == 1
    assert model != light()
    assert model.with_values({"state": 0}) == light()
    assert hash(model.with_values({"state": 0})) == hash(light())
    for name in ("control", "showing", "nothing"):
        with pytest.raises(ModelError, match=f"there is no value '{name}' to set"):
            light().with_values({name: 1})
    with pytest.raises(ModelError, match="not one of red, green, yellow, off"):
        light().with_values({"state": "blue"})


def test_models_travel():
    model = light()
    model.instantiate("light", 0.0).due()
    again = pickle.loads(pickle.dumps(model))
    assert again == model
    assert again.instantiate("light", 0.0).due() == 60.0


def test_abilities_are_kept():
    unit = light().instantiate("light", 0.0)
    assert light().abilities == {Ability.ROLLBACK, Ability.SERIALISE, Ability.NEXT_EVENT, Ability.NATIVE}
    assert isinstance(unit, Rollback)
    assert isinstance(unit, Serialise)
    assert isinstance(unit, NextEvent)


def test_outputs_depend_on_the_inputs_that_they_contain():
    model = Discrete(
        ports=(
            Port("u", Causality.INPUT, size=2),
            Port("v", Causality.INPUT),
            Port("y", Causality.OUTPUT),
            Port("z", Causality.OUTPUT, depends=frozenset({"v"})),
        ),
        modes=(Mode(NEVER),),
        outputs=(("y", (text("u[1] + time"),)), ("z", (ONE,))),
    )
    assert [port.depends for port in model.ports[2:]] == [frozenset({"u"}), frozenset()]


def test_a_unit_refuses_what_it_does_not_know():
    unit = light().instantiate("light", 0.0)
    with pytest.raises(ModelError, match=r"there is no input .contral.\. Did you mean .control."):
        unit.set("contral", [1])
    with pytest.raises(ModelError, match="there is no output 'color'"):
        unit.get("color")
    with pytest.raises(ModelError, match="an event has one value, not 2 coefficients"):
        unit.set("control", [1, 0])
    with pytest.raises(ModelError, match="'blink' is not one of auto, off"):
        unit.set("control", ["blink"])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"modes": ()}, "needs at least one mode"),
        ({"mode": None}, "with several modes, name the integer variable"),
        ({"mode": "stat"}, "there is no variable 'stat'. Did you mean 'state'"),
        ({"mode": "until"}, "'until' is real, but must be an integer"),
        ({"outputs": ()}, "outputs.showing: this output has no expression"),
        ({"outputs": (("showing", (ONE, ONE)),)}, r"1 expression\(s\) needed, not 2"),
        ({"outputs": (("colour", (ONE,)),)}, "there is no ordinary output 'colour'"),
        ({"outputs": (("showing", (text("control"),)),)}, "'control' is not known here"),
        ({"outputs": (("showing", (text("speed"),)),)}, "'speed' is not known here"),
        ({"initial": (("untill", ONE),)}, "there is no variable 'untill'. Did you mean 'until'"),
        ({"initial": (("until", ONE), ("until", ONE))}, "initial.until: given twice"),
        ({"modes": (Mode(text("soon")),)}, r"modes\[0\].due: 'soon' is not known here"),
        ({"modes": (Mode(ONE, internal=(("x", ONE),)),)}, r"modes\[0\].internal.x: there is no variable"),
        ({"modes": (Mode(ONE, external=(("until", text("x")),)),)}, r"external.until: 'x' is not known"),
        ({"modes": (Mode(ONE, (Emission("showing", ONE, (ONE,)),)),)}, "there is no event output 'showing'"),
        ({"modes": (Mode(ONE, (Emission("colour", ONE, ()),)),)}, r"1 expression\(s\) needed, not 0"),
        ({"variables": (Variable("state", Kind.INTEGER, 9),)}, "'state' starts at 9"),
        ({"variables": (Variable("state", Kind.INTEGER, 0.5),)}, "is integer, but was given 0.5"),
        ({"variables": (Variable("state", Kind.STRING, ""),)}, "a variable is real, integer or boolean"),
        ({"variables": (Variable("time", Kind.REAL, 0.0),)}, "the name 'time' is used twice"),
        ({"variables": (Variable("control", Kind.REAL, 0.0),)}, r"used twice \(also input"),
        ({"variables": (Variable("a-b", Kind.REAL, 0.0),)}, "is not a port name"),
        ({"ports": (Port("a", Causality.INPUT, Kind.STRING, event=True),)}, "a discrete unit has no strings"),
        ({"ports": (Port("a", Causality.INPUT), Port("a", Causality.OUTPUT))}, "the name 'a' is used twice"),
    ],
)  # fmt: skip
def test_models_say_what_is_wrong(changes, said):
    with pytest.raises(ModelError, match=said):
        light(**changes)
