"""What fits where: kinds, sizes, units of measure, and what is said about everything else."""

from __future__ import annotations

from typing import Any

import pytest

from scenario_models import Fake, fake, input_, output, typed
from upbeat.core.errors import ScenarioError
from upbeat.core.expr import Name, parse, show
from upbeat.core.ports import Causality, Kind, Port
from upbeat.scenario.connection import Connection
from upbeat.scenario.scenario import Scenario

REAL, INTEGER, BOOLEAN, STRING = Kind.REAL, Kind.INTEGER, Kind.BOOLEAN, Kind.STRING
MODES = ("off", "heat")


def connect(a: Fake, b: Fake, value: Any, **more: Any) -> Connection:
    return Scenario({"a": a, "b": b}, {"b.u": value}, **more).connections[0]


def texts(connection: Connection) -> list[str]:
    return [show(cell) for cell in connection.cells]


def complaint(a: Fake, b: Fake, value: Any, target: str = "b.u", **more: Any) -> str:
    with pytest.raises(ScenarioError) as caught:
        Scenario({"a": a, "b": b}, {target: value}, **more)
    (problem,) = caught.value.problems
    assert problem.where == ("connections", target)
    return str(problem)


# -------------------------------------------------------------------- kinds


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (REAL, REAL),
        (INTEGER, REAL),
        (BOOLEAN, REAL),
        (INTEGER, INTEGER),
        (BOOLEAN, INTEGER),
        (BOOLEAN, BOOLEAN),
        (STRING, STRING),
    ],
)
def test_kinds_that_fit(source: Kind, target: Kind) -> None:
    assert connect(typed(source), typed(target), "a.y").cells == (Name("a.y"),)


def test_a_real_must_be_rounded_by_hand() -> None:
    message = complaint(typed(REAL), typed(INTEGER), "a.y")
    assert "'b.u' is integer, but 'a.y' is real" in message
    assert '"b.u" = "round(a.y)"' in message
    assert texts(connect(typed(REAL), typed(INTEGER), "round(a.y)")) == ["round(a.y)"]


@pytest.mark.parametrize("source", [REAL, INTEGER])
def test_a_number_is_no_truth_value(source: Kind) -> None:
    message = complaint(typed(source), typed(BOOLEAN), "a.y")
    assert f"'b.u' is boolean, but 'a.y' is {source.value}" in message
    assert '"a.y > 0"' in message
    assert texts(connect(typed(source), typed(BOOLEAN), "a.y > 0")) == ["a.y > 0"]


@pytest.mark.parametrize(
    ("kind", "value"),
    [(INTEGER, 3), (INTEGER, "3"), (INTEGER, "3 if a.y > 0 else 1"), (BOOLEAN, True), (BOOLEAN, "true")],
)
def test_constants_adapt_to_their_place(kind: Kind, value: Any) -> None:
    assert connect(typed(REAL), typed(kind), value).cells


@pytest.mark.parametrize(("kind", "value"), [(INTEGER, 0.5), (BOOLEAN, 2)])
def test_constants_that_do_not_fit(kind: Kind, value: Any) -> None:
    assert f"'b.u' is {kind.value}" in complaint(typed(REAL), typed(kind), value)


@pytest.mark.parametrize(("source", "target"), [(STRING, REAL), (REAL, STRING), (INTEGER, STRING)])
def test_strings_go_to_strings_only(source: Kind, target: Kind) -> None:
    message = complaint(typed(source), typed(target), "a.y")
    assert f"'b.u' is {target.value}, but 'a.y' is {source.value}" in message
    assert "takes a string output as it is" in message


def test_strings_are_not_computed_with() -> None:
    message = complaint(typed(STRING), typed(REAL), "a.y + 1")
    assert "'a.y' is a string, and expressions compute with numbers only" in message


def test_enumerations_need_the_same_labels() -> None:
    heat = typed(INTEGER, items=MODES)
    assert connect(heat, heat, "a.y").cells == (Name("a.y"),)
    message = complaint(typed(INTEGER, items=("off", "cool")), heat, "a.y")
    assert "'b.u' is an enumeration (off, heat), but 'a.y' is enumeration (off, cool)" in message
    assert "same labels" in message
    assert "enumeration (off, heat), but 'a.y' is integer" in complaint(typed(INTEGER), heat, "a.y")
    assert "enumeration" in complaint(heat, heat, "a.y + 1")
    assert "enumeration" in complaint(heat, heat, 2)


def test_enumerations_can_be_chosen_and_compared() -> None:
    heat = typed(INTEGER, items=MODES)
    assert connect(heat, heat, "a.y if a.y == 'heat' else 0").cells
    assert texts(connect(heat, typed(BOOLEAN), "a.y == 'heat'")) == ["a.y == 1"]


def test_an_enumeration_is_not_silently_a_number() -> None:
    message = complaint(typed(INTEGER, items=MODES), typed(REAL), "a.y")
    assert "'b.u' is real, but 'a.y' is an enumeration (off, heat)" in message
    assert "a.y == 'off'" in message
    assert "a.y + 0" in message
    assert texts(connect(typed(INTEGER, items=MODES), typed(REAL), "a.y + 0")) == ["a.y + 0"]


# -------------------------------------------------------------------- sizes


def test_arrays_go_cell_by_cell() -> None:
    connection = connect(typed(size=3), typed(size=3), "a.y")
    assert texts(connection) == ["a.y[0]", "a.y[1]", "a.y[2]"]
    assert connection.sources == (("a", "y"),)
    assert texts(connect(typed(size=2), typed(size=2), "2*a.y + a.y[0]")) == [
        "2*a.y[0] + a.y[0]",
        "2*a.y[1] + a.y[0]",
    ]


def test_one_cell_of_an_array_is_a_single_value() -> None:
    assert texts(connect(typed(size=3), typed(), "a.y[2]")) == ["a.y[2]"]


def test_a_single_value_goes_to_every_cell() -> None:
    assert texts(connect(typed(), typed(size=2), "a.y")) == ["a.y", "a.y"]


def test_a_list_gives_each_cell_its_own_expression() -> None:
    connection = connect(typed(size=2, unit="km"), typed(size=3, unit="m"), ["a.y[1]", 7, "a.y[0] + 1"])
    assert texts(connection) == ["1000*a.y[1]", "7", "1000*(a.y[0] + 1)"]
    assert connection.text == ("a.y[1]", "7", "a.y[0] + 1")


def test_an_array_of_one_is_like_a_single_value() -> None:
    assert texts(connect(typed(size=1), typed(), "a.y")) == ["a.y"]
    assert texts(connect(typed(size=1), typed(), "a.y[0]")) == ["a.y"]
    assert texts(connect(typed(), typed(size=1), "a.y")) == ["a.y"]


def test_sizes_that_do_not_agree() -> None:
    assert "'b.u' has 2 cells, but 'a.y' has 3" in complaint(typed(size=3), typed(size=2), "a.y")
    message = complaint(typed(size=3), typed(), "a.y")
    assert "'b.u' is a single value, but 'a.y' has 3 cells" in message
    assert "a.y[0]" in message
    assert "the list has 1 expressions" in complaint(typed(), typed(size=2), ["a.y"])
    assert "has 1 cell(s), but the list has 2" in complaint(typed(), typed(), ["a.y", "a.y"])
    assert "'a.y' in the list has 3 cells" in complaint(typed(size=3), typed(size=2), ["a.y", "a.y[0]"])
    assert "Pick a cell" in complaint(typed(size=3), typed(size=2), ["a.y", "a.y[0]"])


def test_arrays_in_one_expression_must_have_one_size() -> None:
    a = fake(output("y", size=2), output("z", size=3))
    message = complaint(a, typed(size=2), "a.y + a.z")
    assert "'a.y' has 2 cells and 'a.z' has 3" in message


def test_cells_that_do_not_exist() -> None:
    message = complaint(typed(size=3), typed(), "a.y[3]")
    assert "'a.y[3]' does not exist: 'a.y' has 3 cells" in message
    assert "a.y[0] … a.y[2]" in message
    assert "'a.y' is a single value, not an array" in complaint(typed(), typed(), "a.y[0]")


def test_arrays_are_connected_as_a_whole() -> None:
    message = complaint(typed(), typed(size=2), "a.y", target="b.u[0]")
    assert "connected as a whole" in message
    assert '"b.u" = […, …]' in message
    assert "single value" in complaint(typed(), typed(), "a.y", target="b.u[0]")


# -------------------------------------------------------------------- units of measure


def test_a_plain_connection_converts() -> None:
    assert texts(connect(typed(unit="km"), typed(unit="m"), "a.y")) == ["1000*a.y"]
    assert texts(connect(typed(unit="degC"), typed(unit="K"), "a.y")) == ["a.y + 273.15"]
    assert texts(connect(typed(unit="m"), typed(unit="m"), "a.y")) == ["a.y"]
    assert texts(connect(typed(unit="m"), typed(), "a.y")) == ["a.y"]
    assert texts(connect(typed(size=2, unit="km"), typed(size=2, unit="m"), "a.y")) == [
        "1000*a.y[0]",
        "1000*a.y[1]",
    ]
    assert texts(connect(typed(size=2, unit="km"), typed(unit="m"), "a.y[1]")) == ["1000*a.y[1]"]


def test_other_dimensions_name_both_ends() -> None:
    message = complaint(typed(unit="N"), typed(unit="m"), "a.y")
    assert "'b.u' is in m and 'a.y' is in N" in message
    assert "do not measure the same thing" in message
    assert "Correct one of the units" in message


def test_converted_values_must_fit() -> None:
    message = complaint(typed(INTEGER, unit="m"), typed(INTEGER, unit="km"), "a.y")
    assert "need not be whole" in message
    assert '"b.u" = "round(a.y)"' in message
    rounded = connect(typed(INTEGER, unit="m"), typed(INTEGER, unit="km"), "round(a.y)")
    assert texts(rounded) == ["round(0.001*a.y)"]
    assert texts(connect(typed(INTEGER, unit="km"), typed(INTEGER, unit="m"), "a.y")) == ["1000*a.y"]
    assert texts(connect(typed(INTEGER, unit="km"), typed(REAL, unit="m"), "a.y")) == ["1000*a.y"]


def test_a_unit_that_does_not_exist() -> None:
    with pytest.raises(ScenarioError) as caught:
        Scenario({"a": fake(output(unit="Newtn"))}, inputs={"f": {"unit": "wat t"}}, outputs={})
    assert [problem.where for problem in caught.value.problems] == [
        ("inputs", "f"),
        ("units", "a", "outputs", "y"),
    ]
    assert "the unit of 'a.y': 'Newtn' is not a unit of measure" in str(caught.value)
    assert 'Write for instance "m/s^2"' in str(caught.value)


# -------------------------------------------------------------------- names


def test_an_unknown_unit_or_port_lists_near_names() -> None:
    a, b = typed(), typed()
    assert "there is no unit 'aa'" in complaint(a, b, "aa.y")
    assert "The units are: a, b." in complaint(a, b, "zeppelin.y")
    message = complaint(fake(output("speed"), output("torque")), b, "a.sped")
    assert "unit 'a' has no output 'sped'" in message
    assert "Did you mean 'speed'?" in message
    message = complaint(a, b, "a.y", target="b.force")
    assert "unit 'b' has no input 'force'" in message
    assert "The inputs of 'b' are: u." in message
    assert "there is no unit 'c'" in complaint(a, b, "a.y", target="c.u")


def test_a_bare_name_is_a_scenario_input() -> None:
    connection = connect(typed(), typed(), "force", inputs=["force"])
    assert connection.cells == (Name("force"),)
    assert connection.sources == (("inputs", "force"),)
    message = complaint(typed(), typed(), "forc", inputs=["force"])
    assert "'forc' is not a scenario input" in message
    assert "Did you mean 'force'?" in message
    assert "Did you mean 'a.y' or 'b.y'?" in complaint(typed(), typed(), "y")


def test_time_is_no_signal() -> None:
    message = complaint(typed(), typed(), "sin(time)")
    assert "'time' is not a signal" in message
    assert 'outputs = { t = "time" }' in message


def test_reading_an_input_or_a_parameter_is_explained() -> None:
    a = fake(input_(), Port("k", Causality.PARAMETER))
    message = complaint(a, typed(), "a.u")
    assert "'a.u' is an input, and connections read outputs" in message
    message = complaint(a, typed(), "2*a.k")
    assert "'a.k' is a parameter" in message
    assert 'outputs = { k_out = "k" }' in message


def test_writing_an_output_or_a_parameter_is_explained() -> None:
    a = fake(output(), Port("k", Causality.PARAMETER))
    message = complaint(a, typed(), "b.y", target="a.y")
    assert "'a.y' is an output: unit 'a' writes it" in message
    message = complaint(a, typed(), "b.u", target="a.y")
    assert 'Turn it round: "b.u" = "a.y".' in message
    assert "'a.k' is a parameter: its value is fixed before the run" in complaint(
        a, typed(), "b.y", target="a.k"
    )
    assert "connections write inputs of units" in complaint(a, typed(), "a.y", target="u")
    assert "too many dots" in complaint(a, typed(), "a.y", target="b.u.x")


def test_an_input_has_one_source() -> None:
    with pytest.raises(ScenarioError) as caught:
        Scenario({"a": typed(), "b": typed()}, [("b.u", "a.y"), (" b.u", "b.y")])
    (problem,) = caught.value.problems
    assert "has two sources: 'a.y' and 'b.y'" in problem.what
    assert "a.y + b.y" in problem.hint


def test_expressions_that_do_not_parse_show_where() -> None:
    message = complaint(typed(), typed(), "a.y +* 2")
    assert "a.y +* 2" in message
    assert "^" in message
    assert "expected an expression" in complaint(typed(), typed(), {"a": 1})


def test_an_expression_may_be_given_as_a_tree() -> None:
    connection = connect(typed(), typed(), parse("2*a.y"))
    assert texts(connection) == ["2*a.y"]
    assert connection.text == "2*a.y"
    assert connection.target == "b.u"


# -------------------------------------------------------------------- as they are


def test_values_as_they_are() -> None:
    a, b = fake(output("y", unit="mm")), fake(input_("u", unit="m"))
    assert texts(connect(a, b, "2*a.y + 1")) == ["0.001*(2*a.y + 1)"]
    taken = connect(a, b, {"value": "2*a.y + 1", "convert": False})
    assert texts(taken) == ["2*a.y + 1"]
    assert taken.text == {"value": "2*a.y + 1", "convert": False}
    assert texts(connect(a, b, {"value": "2*a.y + 1"})) == ["0.001*(2*a.y + 1)"]
    outputs = Scenario({"a": a}, outputs={"o": {"value": "a.y", "unit": "K", "convert": False}}).outputs
    assert (show(outputs[0].cells[0]), outputs[0].port.unit) == ("a.y", "K")
    assert "convert must be true or false" in complaint(a, b, {"value": "a.y", "convert": 0})
    assert "unknown key 'convrt'" in complaint(a, b, {"value": "a.y", "convrt": False})
