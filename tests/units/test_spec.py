"""What people may write, and what they are told when it cannot be right."""

from __future__ import annotations

import pickle

import pytest

from upbeat.core.errors import ModelError
from upbeat.core.ports import Causality, Kind, Port
from upbeat.units import Function, Ode, ports


def ode(**sections):
    return Ode(**{"states": {"x": "-x"}, **sections})


@pytest.mark.parametrize(
    ("shorthand", "expected"),
    [
        (["F"], Port("F", Causality.INPUT)),
        ({"F": {}}, Port("F", Causality.INPUT)),
        ({"F": 2}, Port("F", Causality.INPUT, start=(2.0,))),
        ({"F": True}, Port("F", Causality.INPUT, Kind.BOOLEAN, start=(True,))),
        ({"F": [1, 2]}, Port("F", Causality.INPUT, size=2, start=(1.0, 2.0))),
        ({"F": {"size": 2, "start": 3.0}}, Port("F", Causality.INPUT, size=2, start=(3.0, 3.0))),
        ({"F": {"unit": "N", "reactive": False}}, Port("F", Causality.INPUT, unit="N", reactive=False)),
        ({"F": {"kind": "integer", "start": 2}}, Port("F", Causality.INPUT, Kind.INTEGER, start=(2,))),
        (
            {"F": {"items": ["a", "b"], "start": "b"}},
            Port("F", Causality.INPUT, Kind.INTEGER, start=(1,), items=("a", "b")),
        ),
    ],
)
def test_inputs(shorthand, expected):
    assert ode(inputs=shorthand).ports[0] == expected


def test_parameters():
    model = ode(parameters={"a": 1, "b": {"value": 2.0, "unit": "m"}, "c": {"kind": "integer", "value": 3}})
    assert model.ports[-3:] == (
        Port("a", Causality.PARAMETER, start=(1.0,)),
        Port("b", Causality.PARAMETER, unit="m", start=(2.0,)),
        Port("c", Causality.PARAMETER, Kind.INTEGER, start=(3,)),
    )


def test_a_string_is_a_string_port_in_python_models():
    assert ports({"s": "hello"})[0] == Port("s", Causality.INPUT, Kind.STRING, start=("hello",))


def test_ports_of_code_depend_on_all_inputs_unless_they_say():
    read = ports(
        ["a", "b"], {"y": {}, "z": {"depends": ["b"], "kind": "boolean"}, "w": {"depends": []}}, {"p": 1.0}
    )
    assert [p.name for p in read] == ["a", "b", "y", "z", "w", "p"]
    assert [p.depends for p in read[2:5]] == [{"a", "b"}, {"b"}, set()]


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        # names
        ({"states": {"x": "-y"}}, r"states\.x: unknown name 'y'.*The names are: time, x"),
        ({"states": {"pos": "-poss"}}, r"unknown name 'poss'\. Did you mean 'pos'"),
        ({"states": {"x": "-left.x"}}, r"unknown name 'left\.x'"),
        ({"inputs": ["x"]}, r"states\.x: the name 'x' is used twice \(also in inputs\)"),
        ({"inputs": ["a", "a"]}, r"inputs: 'a' is listed twice"),
        ({"inputs": ["a"], "parameters": {"a": 1.0}}, r"parameters\.a: the name 'a' is used twice"),
        ({"locals": {"x": "1"}}, r"locals\.x: the name 'x' is used twice \(also in states\)"),
        ({"tables": {"a": {"x": [0, 1], "y": [0, 1]}}, "inputs": ["a"]}, r"used twice \(also in tables\)"),
        ({"inputs": ["time"]}, r"inputs\.time: 'time' already has a meaning"),
        ({"parameters": {"pi": 3.0}}, r"parameters\.pi: 'pi' already has a meaning"),
        ({"states": {"sin": "1"}}, r"states\.sin: 'sin' already has a meaning"),
        ({"locals": {"if": "1"}}, r"locals\.if: 'if' already has a meaning"),
        ({"inputs": ["2nd"]}, r"inputs\.2nd: '2nd' is not a port name"),
        ({"locals": {"a-b": "1"}}, r"locals\.a-b: 'a-b' is not a port name"),
        (
            {"locals": {"a": "b", "b": "c", "c": "a"}},
            r"locals: these locals need each other: .*a → b → c|b → c → a|c → a",
        ),
        ({"locals": {"a": "a + 1"}}, r"need each other: a → a"),
        # expressions
        ({"states": {"x": "1 +"}}, r"states\.x: "),
        ({"states": {"x": "x^2"}}, r"\*\*"),
        ({"states": {"x": "__import__('os')"}}, r"states\.x: "),
        ({"states": {"x": ["1", "foo(2)"]}}, r"states\.x\[1\]: "),
        ({"states": {"x": None}}, r"states\.x: expected an expression, not None"),
        ({"states": {"x": [["1"]]}}, r"states\.x\[0\]: expected an expression"),
        ({"tables": {"f": {"x": [0, 1], "y": [0, 1]}}, "states": {"x": "f"}}, r"states\.x: .*'f'"),
        # arrays
        ({"outputs": {"y": []}}, r"outputs\.y: an array needs at least one expression"),
        ({"locals": {"a": []}}, r"locals\.a: an array needs at least one expression"),
        ({"states": {"x": []}}, r"states\.x: .*at least one cell"),
        (
            {"inputs": {"u": {"size": 2}}, "states": {"x": "u"}},
            r"'u' is an array of 2; write u\[0\] … u\[1\]",
        ),
        ({"inputs": {"u": {"size": 2}}, "states": {"x": "u[2]"}}, r"u\[2\] is beyond the end.*u\[1\]"),
        ({"inputs": ["u"], "states": {"x": "u[0]"}}, r"'u' is not an array; write u instead of u\[0\]"),
        ({"states": {"x": {"der": ["1", "2"], "size": 3}}}, r"size is 3, but der has 2"),
        ({"states": {"x": {"der": ["1", "2"], "start": [1.0, 2.0, 3.0]}}}, r"has 2 cell\(s\), but 3 values"),
        ({"outputs": {"y": {"value": ["1", "x"], "size": 3}}}, r"outputs\.y: size is 3, but there are 2"),
        ({"outputs": {"y": {"value": "x", "size": 3}}}, r"outputs\.y: size is 3, but there are 1"),
        ({"inputs": {"u": []}}, r"inputs\.u: .*at least one cell"),
        # states
        ({"states": {}}, r"states: an ode needs at least one state.*function"),
        ({"states": {"x": {"start": 1.0}}}, r"states\.x: a state needs its derivative: x = \{ der = "),
        ({"states": {"x": {"der": "1", "begin": 1}}}, r"unknown key 'begin'"),
        ({"states": {"x": {"der": "1", "start": 1.0}}, "start": {"x": 2.0}}, r"start value is given twice"),
        ({"states": {"x": {"der": "1", "start": "high"}}}, r"states\.x: a state is real.*'high'"),
        ({"states": {"x": {"der": "1", "start": True}}}, r"states\.x: a state is real"),
        ({"start": 1.0}, r"start: expected a list of names or a table, not 1"),
        ({"start": {"xx": 1.0}}, r"start\.xx: there is no state 'xx'\. Did you mean 'x'|The states are: x"),
        # outputs
        ({"outputs": ["y"]}, r"outputs\.y: there is no 'y' to give out.*The names are: x.*y = "),
        (
            {"outputs": {"x": "2*x"}},
            r"outputs\.x: the name 'x' is used twice \(also in states\), with another",
        ),
        ({"inputs": ["u"], "outputs": ["u"]}, r"outputs\.u: .*\(also in inputs\).*\{ u_out = \"u\" \}"),
        ({"outputs": {"y": "x", "z": "y"}}, r"outputs\.z: 'y' is an output; .*define it under locals"),
        ({"outputs": {"y": {"value": "x", "kind": "string"}}}, r"an output cannot be a string"),
        ({"outputs": {"y": {"value": "x", "depends": []}}}, r"outputs\.y: unknown key 'depends'"),
        ({"outputs": 3}, r"outputs: expected a list of names or a table, not 3"),
        ({"outputs": [3]}, r"outputs: expected a name, not 3"),
        ({"outputs": "x"}, r"outputs: expected a list of names or a table, not 'x'"),
        # entries of ports
        ({"inputs": {"u": {"strat": 1.0}}}, r"inputs\.u: unknown key 'strat'\. Did you mean 'start'"),
        ({"inputs": {"u": {"kind": "reel"}}}, r"inputs\.u: there is no kind 'reel'\. Did you mean 'real'"),
        ({"inputs": {"u": {"size": 1.5}}}, r"size must be a whole number"),
        ({"inputs": {"u": {"size": 0}}}, r"at least one cell"),
        ({"inputs": {"u": {"reactive": "yes"}}}, r"reactive must be true or false, not 'yes'"),
        ({"inputs": {"u": {"unit": 3}}}, r"unit must be a text, not 3"),
        ({"inputs": {"u": {"items": "ab"}}}, r"items must be a list of labels"),
        ({"inputs": {"u": {"items": ["a", "a"]}}}, r"items must differ"),
        ({"inputs": {"u": {"items": ["a"], "kind": "real"}}}, r"items make an enumeration"),
        ({"inputs": {"u": {"items": ["a", "b"], "start": "c"}}}, r"'c' is not one of a, b"),
        ({"inputs": {"u": "fast"}}, r"inputs\.u: equations work on numbers, not on strings.*items = "),
        ({"parameters": {"p": None, "q": {"value": "a", "kind": "real"}}}, r"'q' is real, but was given 'a'"),
        # tables
        ({"tables": {"f": {"x": [0, 1]}}}, r"tables\.f: a table needs x and y .*y is missing"),
        ({"tables": {"f": {"x": [1, 0], "y": [0, 1]}}}, r"tables\.f: .*increase strictly"),
        ({"tables": {"f": {"x": [0, 1], "y": [0, 1], "w": 3}}}, r"tables\.f: unknown key 'w'"),
        ({"tables": 5}, r"tables: expected a list of names or a table, not 5"),
        ({"tables": {"f": [0, 1]}}, r"tables\.f: a table is \{ x = "),
        ({"tables": {"sin": {"x": [0, 1], "y": [0, 1]}}}, r"tables\.sin: 'sin' already has a meaning"),
        ({"solver": "rk"}, r"solver: there is no solver 'rk'"),
    ],
)
def test_problems(sections, message):
    with pytest.raises(ModelError, match=f"(?s){message}"):
        ode(**sections)


def test_all_problems_at_once():
    with pytest.raises(ModelError) as caught:
        Ode(
            states={"x": "-y", "v": {"start": 1.0}},
            inputs={"u": {"kind": "reel"}},
            outputs=["z"],
            locals={"a": "b", "b": "a"},
        )
    text = str(caught.value)
    assert text.startswith("the model has 5 problems\n  • ")
    for part in (
        "states.x: unknown name 'y'",
        "states.v: ",
        "inputs.u: ",
        "outputs.z: ",
        "locals: these locals",
    ):
        assert f"• {part}" in text


def test_what_is_wrong_with_a_name_is_said_once():
    with pytest.raises(ModelError) as caught:
        ode(inputs={"u": {"kind": "reel"}}, states={"x": "u + u"}, outputs={"y": "2*u", "u": "u"})
    assert str(caught.value).startswith("inputs.u: there is no kind")


def test_numpy_numbers_are_numbers():
    numpy = pytest.importorskip("numpy")
    model = ode(
        states={"x": numpy.float64(2.5)},
        parameters={"w": numpy.arange(3.0)},
        inputs={"u": numpy.float32(0.5)},
    )
    assert model == ode(states={"x": 2.5}, parameters={"w": [0.0, 1.0, 2.0]}, inputs={"u": 0.5})
    assert model.with_values({"w": numpy.ones(3)}) == model.with_values({"w": 1.0})


def test_a_function_needs_outputs():
    with pytest.raises(ModelError, match="outputs: a function needs at least one"):
        Function(["u"])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ports(["a"], ["a"]), r"the name 'a' is used twice \(input and output\)"),
        (
            lambda: ports(["a"], {"y": {"depends": ["b"]}}),
            r"outputs\.y: depends on unknown input 'b'.*are: a",
        ),
        (lambda: ports(["a"], {"y": {"depends": "a"}}), r"depends must be a list of inputs, not 'a'"),
    ],
)
def test_problems_of_ports(make, message):
    with pytest.raises(ModelError, match=message):
        make()


def test_a_broken_table_is_reported_once():
    with pytest.raises(ModelError) as caught:
        Function(
            ["u"],
            {"y": "t1(u) + t2(u, u) + t3(u)", "z": "t1(u) + nobody"},
            tables={"t1": {"x": [0, 0], "y": [1, 2]}, "t2": {"x": [0], "z": [[1]]}, "t3": 5},
        )
    assert [where for where, _ in caught.value.complaints] == [
        "tables.t1",
        "tables.t2",
        "tables.t3",
        "outputs.z",
    ]


def test_a_bad_unit_of_measure_is_reported_once():
    with pytest.raises(ModelError) as caught:
        Ode(
            {"x": {"der": "u", "unit": "Newtn"}},
            inputs={"u": {"unit": "m/"}},
            outputs={"x": "x", "u_out": "u"},
        )
    assert [where for where, _ in caught.value.complaints] == ["inputs.u", "states.x"]


def test_sizes_are_bounded_wherever_they_are_given():
    huge = {"size": 2_000_000_000}
    with pytest.raises(ModelError) as caught:
        Ode(
            {"x": {"der": "-x", **huge}},
            inputs={"u": huge},
            outputs={"y": {"value": "1", **huge}, "z": "u[99999999999999999999]"},
            parameters={"p": {"value": 1.0, **huge}},
        )
    assert [where for where, _ in caught.value.complaints] == [
        "inputs.u",
        "parameters.p",
        "states.x",
        "outputs.y",
        "outputs.z",
    ]
    assert "no array has that many cells" in caught.value.complaints[-1][1]


def test_labels_of_the_cells_of_an_enumeration():
    unit = Function({"mode": {"items": ["off", "on"], "size": 2}}, {"y": "mode[1] == 'on'"}).instantiate(
        "f", 0.0
    )
    unit.set("mode", ((0, 1),))
    assert unit.get("y") == 1.0


def derivatives(model):
    return {port.name: port.derivative for port in model.ports if port.causality is Causality.OUTPUT}


def test_the_derivative_of_a_state_that_is_given_out():
    model = Ode({"x": "v", "v": "-x"}, start={"x": 1.0})
    assert derivatives(model) == {"x": "v", "v": None}  # v' = -x is no output
    assert model.to_spec()["outputs"] == {"x": "x", "v": "v"}  # it goes without saying
    assert Ode(**model.to_spec()) == model
    assert derivatives(pickle.loads(pickle.dumps(model))) == {"x": "v", "v": None}
    assert derivatives(model.with_values({"x": 2.0})) == {"x": "v", "v": None}


def test_derivatives_of_arrays_are_whole_arrays():
    states = {"x": ["v[0]", "v[1]"], "v": ["0", "0"], "y": ["v[1]", "v[0]"], "z": "v[0]", "a": ["x[0]"]}
    assert derivatives(Ode(states)) == {"x": "v", "v": None, "y": None, "z": None, "a": None}


def test_derivatives_that_are_not_guessed():
    """Only states: an input or a local may jump, and with it the derivative."""
    model = Ode({"x": "u", "y": "w", "z": "v", "v": "0"}, inputs=["u"], locals={"w": "2*x"},
                outputs={"x": "x", "u_out": "u", "y": "y", "w": "w", "z": "z", "v": "v"})  # fmt: skip
    assert derivatives(model) == {"x": None, "u_out": None, "y": None, "w": None, "z": "v", "v": None}
    assert derivatives(Ode({"x": "v", "v": "0"}, outputs=["x"])) == {"x": None}
    integer = Ode({"x": "v", "v": "0"}, outputs={"n": {"value": "round(x)", "kind": "integer"}, "v": "v"})
    assert derivatives(integer) == {"n": None, "v": None}


def test_a_derivative_can_be_named():
    model = Ode(
        {"x": "u + 0"}, inputs=["u"], outputs={"x": {"value": "x", "derivative": "rate"}, "rate": "u"}
    )
    assert derivatives(model) == {"x": "rate", "rate": None}
    assert model.to_spec()["outputs"]["x"] == {"value": "x", "derivative": "rate"}
    assert Ode(**model.to_spec()) == model
