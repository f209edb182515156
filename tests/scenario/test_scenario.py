"""The scenario as a value: its checks, its own inputs and outputs, its parameters."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from scenario_models import fake, input_, output, typed
from upbeat.core.errors import InvalidInput, ScenarioError
from upbeat.core.expr import Name, show
from upbeat.core.ports import Causality, Kind, Port
from upbeat.scenario.scenario import Scenario
from upbeat.units import Function, Ode, PythonUnit, ports
from upbeat.units.shorthand import port_spec

MASS = Ode(
    states={"x": {"der": "v", "unit": "m"}, "v": "(F - c*x)/m"},
    start={"x": 1.0},
    inputs={"F": {"unit": "N", "start": 0.5}},
    outputs=["x", "v"],
    parameters={"m": 1.0, "c": 1.0},
)
SPRING = Function(
    inputs={"u": {"unit": "mm"}}, outputs={"F": {"value": "-k*u", "unit": "N"}}, parameters={"k": 3.0}
)


def scenario(**changes: Any) -> Scenario:
    arguments: dict[str, Any] = {
        "units": {"left": MASS, "spring": SPRING},
        "connections": {"left.F": "spring.F + push", "spring.u": "left.x"},
        "inputs": {"push": {"unit": "N", "start": 0.0}},
        "outputs": {"gap": "2*left.x", "far": {"value": "left.x", "unit": "km", "description": "how far"}},
        "name": "mass and spring",
    }
    return Scenario(**{**arguments, **changes})


def problems(**changes: Any) -> dict[tuple[str, ...], str]:
    with pytest.raises(ScenarioError) as caught:
        scenario(**changes)
    return {problem.where: f"{problem.what} {problem.hint}" for problem in caught.value.problems}


def test_its_parts() -> None:
    made = scenario()
    assert list(made.units) == ["left", "spring"]
    assert [(c.target, show(c.cells[0]), c.sources) for c in made.connections] == [
        ("left.F", "spring.F + push", (("inputs", "push"), ("spring", "F"))),
        ("spring.u", "1000*left.x", (("left", "x"),)),
    ]
    assert made.inputs == (Port("push", Causality.INPUT, unit="N", start=0.0),)
    gap, far = made.outputs
    assert (gap.port.unit, far.port.unit, far.port.description) == ("m", "km", "how far")
    assert [show(cell) for cell in far.cells] == ["0.001*left.x"]
    assert repr(made) == "Scenario('mass and spring', units=['left', 'spring'], connections=2)"


def test_an_input_without_connection_is_fine() -> None:
    assert Scenario({"left": MASS}).connections == ()


def test_its_ports_by_name() -> None:
    made = scenario()
    assert made.port("left.x").unit == "m"
    assert made.port("push").causality is Causality.INPUT
    assert made.port("far").unit == "km"
    with pytest.raises(InvalidInput, match=r"there is no port 'left.y'\. Did you mean"):
        made.port("left.y")


def test_outputs_take_kind_size_and_unit_from_what_they_show() -> None:
    units = {
        "a": fake(
            output("n", kind=Kind.INTEGER), output("w", size=2, unit="m"), output("s", kind=Kind.STRING)
        ),
        "b": typed(Kind.INTEGER, items=("off", "on")),
    }
    shown = {
        "n": "a.n",
        "on": "a.n > 0",
        "w": "a.w",
        "w1": {"value": "a.w[1]", "unit": "mm"},
        "pair": ["a.n", 1],
        "s": "a.s",
        "mode": "b.y",
        "r": {"value": "a.n", "kind": "real"},
    }
    ports = {o.port.name: o.port for o in Scenario(units, outputs=shown).outputs}
    assert [ports[name].kind.value for name in ("n", "on", "w", "s", "r")] == [
        "integer", "boolean", "real", "string", "real",
    ]  # fmt: skip
    assert (ports["w"].size, ports["w"].unit) == (2, "m")
    assert (ports["w1"].size, ports["w1"].unit) == (None, "mm")
    assert ports["pair"].size == 2
    assert ports["mode"].items == ("off", "on")


# -------------------------------------------------------------------- checks


def test_all_problems_at_once() -> None:
    found = problems(
        connections={"left.F": "sprin.F", "spring.u": "left.xx", "spring.F": "left.x"},
        outputs={"y": "left.z", "push": "left.x"},
        inputs={"push": {"unit": "N", "strat": 0.0}},
        parameters={"left.mass": 2.0, "lef.m": 1.0, "m": 2.0},
    )
    assert set(found) == {
        ("connections", "left.F"),
        ("connections", "spring.u"),
        ("connections", "spring.F"),
        ("outputs", "y"),
        ("inputs", "push"),
        ("parameters", "left.mass"),
        ("parameters", "lef.m"),
        ("parameters", "m"),
    }
    assert "Did you mean 'start'?" in found["inputs", "push"]
    assert "settable names are: F, c, m, v, x" in found["parameters", "left.mass"]
    assert "Did you mean 'left'?" in found["parameters", "lef.m"]
    assert "Write unit.parameter." in found["parameters", "m"]


def test_an_input_with_a_problem_makes_no_noise_elsewhere() -> None:
    assert list(problems(inputs={"push": {"unti": "N"}})) == [("inputs", "push")]
    assert "expected a table of inputs, not 3" in problems(inputs=3, connections={})["inputs",]


def test_names_of_units() -> None:
    found = problems(units={"left": MASS, "spring": SPRING, "inputs": MASS, "2nd": MASS, "a.b": MASS})
    assert "taken by the scenario's own inputs" in found["units", "inputs"]
    assert "Use letters, digits and underscores" in found["units", "2nd"]
    assert "Use letters, digits and underscores" in found["units", "a.b"]


def test_what_is_no_model() -> None:
    found = problems(units={"left": Ode, "spring": "spring"})
    assert list(found) == [("units", "left"), ("units", "spring")]  # and nothing about their connections
    assert "is not a model Give a model, such as Ode(" in found["units", "left"]
    assert "is not a model" in found["units", "spring"]


def test_a_scenario_needs_units() -> None:
    assert "the scenario has no units" in problems(units={}, connections={}, outputs={})["units",]


def test_a_model_that_depends_on_nothing_known() -> None:
    found = problems(units={"left": MASS, "spring": fake(input_("u"), output("F", "w"))})
    assert (
        "output 'F' of unit 'spring' depends on 'w', which is not an input"
        in found["units", "spring", "outputs", "F"]
    )


@pytest.mark.parametrize("name", ["time", "pi", "sin", "2x", "a.b", "e"])
def test_names_of_inputs_and_outputs(name: str) -> None:
    assert "name" in problems(inputs={"push": {}, name: {}})["inputs", name]
    assert "name" in problems(outputs={name: "left.x"})["outputs", name]


def test_more_about_inputs_and_outputs() -> None:
    assert "used twice" in problems(outputs={"push": "left.x"})["outputs", "push"]
    assert "cannot be a string" in problems(inputs={"push": {}, "word": "hello"})["inputs", "word"]
    assert "kept for setting 'push'" in problems(inputs={"push": {}, "set_push": {}})["inputs", "set_push"]
    assert "needs an expression" in problems(outputs={"y": {"unit": "m"}})["outputs", "y"]
    assert (
        "unknown key 'valeu' Did you mean 'value'?"
        in problems(outputs={"y": {"valeu": "left.x"}})["outputs", "y"]
    )
    assert "expected a table of outputs" in problems(outputs=["left.x"])["outputs",]
    assert (
        "is integer, but 'left.x' is real"
        in problems(outputs={"y": {"value": "left.x", "kind": "integer"}})["outputs", "y"]
    )


def test_inputs_may_be_a_list() -> None:
    assert scenario(inputs=["push"]).inputs == (Port("push", Causality.INPUT),)
    assert scenario(inputs=[Port("push", Causality.INPUT, unit="N")]).inputs[0].unit == "N"


def test_check_measures_passes() -> None:
    scenario().check_measures()


# -------------------------------------------------------------------- values


def test_parameters_reach_the_models() -> None:
    assert scenario(parameters={"left.m": 2.0}).units["left"] == MASS.with_values({"m": 2.0})
    assert scenario(parameters={"left.m": 2.0}) == scenario().with_values({"left.m": 2})


def test_with_values() -> None:
    made = scenario().with_values({"left.m": 3, "left.x": 0.0, "push": 0.25})
    assert made.units["left"] == MASS.with_values({"m": 3, "x": 0.0})
    assert made.inputs[0].start == (0.25,)
    assert made != scenario()
    assert made.connections == scenario().connections
    with pytest.raises(ScenarioError) as caught:
        scenario().with_values({"left.mm": 3, "push": "hard", "right.m": 1})
    assert [problem.where[1] for problem in caught.value.problems] == ["push", "left.mm", "right.m"]


def test_a_value_for_a_connected_input_is_refused() -> None:
    with pytest.raises(ScenarioError) as caught:
        scenario().with_values({"left.F": 1.0})
    (problem,) = caught.value.problems
    assert problem.what == "'left.F' is driven by 'spring.F + push', so a value for it has no effect"
    assert "Change the connection" in problem.hint


def test_in_a_loop_it_is_the_first_guess() -> None:
    half = Function(inputs=["u"], outputs={"y": "0.5*u + 1"})
    loop = Scenario({"a": half, "b": half}, {"a.u": "b.y", "b.u": "a.y"})
    assert loop.with_values({"a.u": 3}).port("a.u").start == (3.0,)


def test_values_of_single_cells() -> None:
    unit = Ode({"x": ["-x[0]", "-x[1]"]}, inputs={"u": [1.0, 2.0]}, parameters={"p": [1.0, 2.0, 3.0]})
    made = Scenario({"a": unit}, inputs={"w": {"size": 2}})
    changed = made.with_values({"a.p[1]": 5, "a.x[0]": 7, "a.u[1]": 0, "w[1]": 4, "a.p[0]": 9})
    assert changed.port("a.p").start == (9.0, 5.0, 3.0)
    assert changed.port("a.u").start == (1.0, 0.0)
    assert changed.port("w").start == (0.0, 4.0)
    assert changed.units["a"].equations.start == (7.0, 0.0)
    with pytest.raises(ScenarioError) as caught:
        made.with_values({"a.p[3]": 1, "a.q[0]": 1, "w[2]": 1, "a.p[0]": "x", "a.p[1][0]": 1})
    assert [problem.what for problem in caught.value.problems] == [
        "there is no 'w[2]': 'w' has the cells w[0] … [1]",
        "unit 'a': there is no 'p[3]': 'p' has the cells p[0] … [2]",
        "unit 'a': there is no value 'q[0]' to set. The settable names are: p, u, x.",
        "unit 'a': port 'p[0]' is real, but was given 'x'",
        "unit 'a': there is no value 'p[1][0]' to set. The settable names are: p, u, x.",
    ]


def test_equality() -> None:
    assert scenario() == scenario()
    assert scenario() != scenario(name="other")
    assert scenario() != "scenario"
    assert scenario() != scenario(units={"spring": SPRING, "left": MASS})  # the order settles ties
    assert scenario() == scenario(connections={"left.F": "spring.F+push", "spring.u": " left.x"})
    with pytest.raises(TypeError, match="unhashable"):
        hash(scenario())


def test_it_is_frozen() -> None:
    made = scenario()
    with pytest.raises(AttributeError, match="frozen"):
        made.name = "other"
    with pytest.raises(AttributeError, match="frozen"):
        del made.units


def test_it_can_be_pickled_and_copied() -> None:
    made = scenario()
    assert made.graph.order
    assert pickle.loads(pickle.dumps(made)) == made
    assert copy.deepcopy(made) == made
    closed = made.closed()
    again = pickle.loads(pickle.dumps(closed))
    assert again == closed
    assert again.free_inputs == closed.free_inputs


# -------------------------------------------------------------------- without inputs of its own


def test_closed_has_a_unit_for_the_inputs() -> None:
    closed = scenario().closed()
    assert list(closed.units) == ["inputs", "left", "spring"]
    assert closed.added_units == ("inputs",)
    assert closed.inputs == ()
    assert [port.name for port in closed.opened_inputs] == ["push"]
    assert show(closed.connections[0].cells[0]) == "spring.F + inputs.push"
    assert closed.port("inputs.push").unit == "N"
    assert closed.closed() == closed


def test_closed_changes_nothing_where_there_are_no_inputs() -> None:
    made = scenario(inputs={}, connections={"spring.u": "left.x"})
    assert made.closed() is made
    assert made.added_units == ()


def test_free_inputs_can_be_set_by_hand() -> None:
    made = scenario(connections={"left.F": "push"})
    free = made.closed().free_inputs
    assert {name: (unit, port.name) for name, (unit, port) in free.items()} == {
        "push": ("inputs", "set_push"),
        "spring.u": ("spring", "u"),
    }


def test_columns_keep_the_names_people_gave() -> None:
    closed = scenario().closed()
    assert closed.column("left", "x") == "left.x"
    assert closed.column("inputs", "push") == "push"
    assert closed.column("inputs", "set_push") == "push"


def test_arrays_of_inputs_are_closed_cell_by_cell() -> None:
    units = {"a": typed(size=2), "b": typed()}
    made = Scenario(
        units, {"a.u": "2*w", "b.u": "w[1]"}, inputs={"w": {"size": 2}}, outputs={"o": "w[0]"}
    ).closed()
    assert [[show(cell) for cell in c.cells] for c in made.connections] == [
        ["2*inputs.w[0]", "2*inputs.w[1]"],
        ["inputs.w[1]"],
    ]
    assert made.outputs[0].cells == (Name("inputs.w[0]"),)


@pytest.mark.parametrize(
    "outputs",
    [
        {"x": {"derivative": "nobody"}, "v": {}},
        {"x": {"derivative": "v"}, "v": {"kind": "integer"}},
        {"x": {"derivative": "v"}, "v": {"size": 2}},
        {"x": {"derivative": "v", "kind": "boolean"}, "v": {"kind": "boolean"}},
    ],
)
def test_a_derivative_is_an_output_of_the_same_shape(outputs: dict[str, Any]) -> None:
    with pytest.raises(ScenarioError) as caught:
        Scenario({"a": PythonUnit(lambda *_: None, ports(outputs=outputs))})
    (problem,) = caught.value.problems
    assert problem.where == ("units", "a", "outputs", "x")
    assert "cannot be the derivative of 'x'" in problem.what
    assert "a real output of the same unit and size" in problem.hint


def test_a_derivative_is_kept_when_ports_are_written() -> None:
    (x, _) = ports(outputs={"x": {"derivative": "v"}, "v": {}})
    assert port_spec(x) == {"derivative": "v"}
    assert Scenario({"a": PythonUnit(lambda *_: None, ports(outputs={"x": {"derivative": "v"}, "v": {}}))})
