"""Names: what is one, and what a text refers to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upbeat.core.errors import ExpressionError, ModelError
from upbeat.core.expr import Name, names, parse, show
from upbeat.core.names import MAX_NAME, bare, matching, objection_to, resolve, split
from upbeat.core.ports import Causality, Kind, Port
from upbeat.units.discrete import Discrete, Mode, Variable
from upbeat.units.equations.ode import Function, Ode
from upbeat.units.python import PythonFunction
from upbeat.units.shorthand import ports

ODD = ["der(x)", "body.v[1]", "R.T[1, 1]", "a b", "a__b", "2x", "x'", '"x"', "größe", "x=1", "a+b", "[", "*"]


@pytest.mark.parametrize("name", [*ODD, "x" * MAX_NAME, "a\u00a0b"])
def test_a_port_may_be_called_anything_that_can_be_typed(name: str) -> None:
    assert Port(name, Causality.OUTPUT).name == name
    assert [port.name for port in ports([name])] == [name]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "give it a text"),
        (7, "give it a text"),
        (" x", "blank"),
        ("x ", "blank"),
        ("a`b", "backtick"),
        ("a\nb", "cannot be seen"),
        ("a\tb", "cannot be seen"),
        ("a\x00b", "cannot be seen"),
        ("a\u202eb", "cannot be seen"),
        ("x" * (MAX_NAME + 1), "at most 2000"),
    ],
)
def test_names_that_nobody_could_type_are_refused(name: str, why: str) -> None:
    with pytest.raises(ModelError, match=why) as caught:
        Port(name, Causality.OUTPUT)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("name", [name for name in ODD if objection_to(name)])
def test_what_equations_and_code_have_to_write_stays_an_identifier(name: str) -> None:
    for make in (
        lambda: Ode({name: "1"}),
        lambda: Ode({"x": "1"}, inputs=[name]),
        lambda: Ode({"x": "1"}, outputs={name: "x"}),
        lambda: Ode({"x": "1"}, parameters={name: 1.0}),
        lambda: Function(outputs={"y": "1"}, locals={name: "1"}),
        lambda: PythonFunction(lambda t, u, p: 0.0, inputs=[name]),
        lambda: Discrete(
            (Port(name, Causality.INPUT),), (Variable("n", Kind.REAL, 0.0),), (Mode(parse("1")),)
        ),
        lambda: Discrete((), (Variable(name, Kind.REAL, 0.0),), (Mode(parse("1")),)),
    ):
        with pytest.raises(ModelError, match=r"is not a port name: (use letters|two underscores)"):
            make()


def test_the_first_dot_ends_a_units_name() -> None:
    assert split("a.body.v[1]") == ("a", "body.v[1]")
    assert split("a") == ("a", "")
    assert split(" a . der(x.y) ") == ("a", "der(x.y)")


def test_a_whole_name_goes_before_a_cell() -> None:
    assert resolve("v[1]", {"v[1]", "v"}) == ("v[1]", None)
    assert resolve("v[1]", {"v"}) == ("v", 1)
    assert resolve("v [ 2 ]", {"v"}) == ("v", 2)
    assert resolve("v[1][2]", {"v[1]"}) == ("v[1]", 2)
    assert resolve("v[a]", {"v"}) == ("v[a]", None)
    assert resolve("w[1]", {"v"}) == ("w", 1), "so that a message can say that there is no w"


def test_backticks_may_be_left_out() -> None:
    assert bare(" `a.der(x)` ") == bare("a.der(x)") == "a.der(x)"
    assert bare("`a.der(x)`[2]") == "a.der(x)[2]"


def test_a_name_goes_before_a_pattern() -> None:
    known = ["a.v[1]", "a.v1", "a.v[2]", "a.w*", "a.w2"]
    assert matching("a.v[1]", known) == ["a.v[1]"]
    assert matching("`a.v[1]`", known) == ["a.v[1]"]
    assert matching("a.w*", known) == ["a.w*"]
    assert matching("a.v[*]", known) == ["a.v[1]", "a.v[2]"]
    assert matching("a.[uv]1", known) == ["a.v1"]
    assert matching("b.*", known) == []


# -------------------------------------------------------------------- in expressions


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("a.body.v[1]", "a.body.v[1]"),
        ("a.b[2].c", "a.b[2].c"),
        ("a.b[2].c.d[ 3 ]", "a.b[2].c.d[3]"),
        ("a.T[1, 1]", "a.T[1, 1]"),
        ("a.T[1,2].x", "a.T[1,2].x"),
        ("`a.der(x)`", "a.der(x)"),
        ("` a.der(x) `[2]", "a.der(x)[2]"),
        ("`a.b__c`", "a.b__c"),
        ("`pi`", "pi"),
    ],
)
def test_names_in_expressions(text: str, name: str) -> None:
    assert parse(text) == Name(name)
    assert names(parse(f"2*{text} + 1 if {text} > 0 else -{text}")) == {name}


@pytest.mark.parametrize("name", ["a.body.v[1]", "a.b[2].c", "a.T[1, 1]", "x", "a.x"])
def test_plain_names_show_without_backticks(name: str) -> None:
    assert show(Name(name)) == name


@pytest.mark.parametrize("name", [f"a.{odd}" for odd in ODD[3:]] + ["min", "a.x[01]", "a.x[1][2]", "if[1]"])
def test_other_names_show_in_backticks(name: str) -> None:
    assert show(Name(name) * 2.0) == f"`{name}`*2"


@given(st.text(st.characters(exclude_characters="`\n"), min_size=1).filter(lambda t: t == t.strip()))
def test_every_name_can_be_read_back(name: str) -> None:
    expr = (Name(name) + Name("u")) * Name(f"a.{name}")
    assert parse(show(expr)) == expr


@pytest.mark.parametrize(
    ("text", "message", "column"),
    [
        ("``", "no name between the backticks", 0),
        ("1 + `a.der(x)", "no partner", 4),
        ("a.u[1] .x", "dot", 7),
        ("a.u[1, x]", "whole number", 7),
        ("a.u[1].b__c", "in backticks", 6),
        ("température", "in backticks", 4),
    ],
)
def test_mistakes(text: str, message: str, column: int) -> None:
    with pytest.raises(ExpressionError, match=message) as caught:
        parse(text)
    assert caught.value.column == column
