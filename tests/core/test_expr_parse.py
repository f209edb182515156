"""The expression parser, judged by Python's own reading of the same text, and with hostile input."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import effort
from upbeat.core.errors import ExpressionError
from upbeat.core.expr import (
    Apply,
    Cell,
    Lookup,
    Name,
    Number,
    Op,
    Table1,
    Table2,
    apply,
    evaluate,
    names,
    parse,
    show,
    simplify,
    substitute,
)

DRAG = Table1((0.0, 1.0, 2.0), (0.0, 1.0, 4.0))
MAP = Table2((0.0, 1.0), (0.0, 1.0), ((0.0, 1.0), (2.0, 3.0)))


# -- texts that Python and Upbeat read alike: dyadic numbers keep Python's integers and our doubles equal


def _texts() -> st.SearchStrategy[str]:
    atoms = st.sampled_from(["x", "y", "z", "1", "2", "0.5", "3", "1.5e1"])

    def grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        binary = st.tuples(inner, st.sampled_from(["+", "-", "*", "<", "<=", ">", "==", "!="]), inner)
        return st.one_of(
            binary.map(" ".join),
            binary.map(lambda parts: f"({' '.join(parts)})"),
            st.tuples(inner, inner, inner).map(lambda p: f"({p[0]} if {p[1]} else {p[2]})"),
            inner.map(lambda text: f"-{text}"),
            inner.map(lambda text: f"- {text}**2"),
            inner.map(lambda text: f"(not {text})"),
            st.tuples(inner, inner, inner).map(lambda p: f"{p[0]} < {p[1]} <= {p[2]}"),
        )

    return st.recursive(atoms, grow, max_leaves=12)


@given(_texts())
@settings(max_examples=300, deadline=None)
def test_a_text_means_what_python_takes_it_for(text: str) -> None:
    env = {"x": 1.25, "y": -2.0, "z": 0.0}
    try:
        expected = float(eval(text, {"__builtins__": {}}, env))
    except OverflowError:
        return
    assert evaluate(parse(text), env) == expected


@given(_texts())
@settings(max_examples=300, deadline=None)
def test_show_parses_back(text: str) -> None:
    expr = parse(text)
    assert parse(show(expr)) == expr


@pytest.mark.parametrize(
    "text",
    [
        "-2**2",
        "(-2)**2",
        "2**-x**2",
        "-(2)",
        "--x",
        "-(-2)",
        "(a**b)**c",
        "a**b**c",
        "a - (b - c)",
        "a/(b*c)",
        "a/b*c",
        "(a < b) < c",
        "not (a and b) or c",
        "(not a) == b",
        "(a if b else c) if d else e2",
        "a if b else c if d else f",
        "a if (b if c else d) else f",
        "drag(x) + map(x, y)",
        "drag.slope(x)",
        "map.slope_x(x, y) * map.slope_xy(1, 2)",
        "left.u[2] - right.x",
        "1e300 * 1e-300 * 0.1",
        "-inf",
        "max(a, b, c)",
        "clip(x, 0, 1) + mod(x, 2) + atan2(y, x)",
    ],
)
def test_show_is_faithful_where_it_is_delicate(text: str) -> None:
    tables = {"drag": DRAG, "map": MAP}
    expr = parse(text, tables)
    assert parse(show(expr), tables) == expr


def test_negative_constants_and_negations_stay_apart() -> None:
    assert parse("-2") == Number(-2.0)
    assert parse("-(2)") == Apply(Op.NEG, (Number(2.0),))
    assert show(Number(-2.0) ** Name("x")) == "(-2)**x"
    assert Number(0.0) != Number(-0.0)
    assert Number(float("nan")) == Number(float("nan"))


def test_names_have_dots_and_constant_indices() -> None:
    expr = parse("left.x + left.u[ 2 ]*k")
    assert names(expr) == {"left.x", "left.u[2]", "k"}
    assert evaluate(expr, {"left.x": 1.0, "left.u[2]": 2.0, "k": 3.0}) == 7.0


def test_labels_become_indices() -> None:
    expr = parse("mode == 'heat' or mode != \"off\"", enums={"mode": ("off", "heat", "cool")})
    assert show(expr) == "mode == 1 or mode != 0"
    with pytest.raises(ExpressionError, match="Did you mean 'heat'"):
        parse("mode == 'haet'", enums={"mode": ("off", "heat")})
    with pytest.raises(ExpressionError, match="enumeration"):
        parse("x == 'heat'", enums={"mode": ("off", "heat")})
    with pytest.raises(ExpressionError, match="compared with"):
        parse("mode < 'heat'", enums={"mode": ("off", "heat")})


def test_tables_are_called_by_name() -> None:
    expr = parse("drag(v)", {"drag": DRAG})
    assert isinstance(expr, Lookup)
    assert evaluate(expr, {"v": 1.5}) == 2.5


@pytest.mark.parametrize(
    ("text", "message", "column"),
    [
        ("", "empty", 0),
        ("   ", "empty", None),
        ("2 +", "ends too early", 3),
        ("* 2", "a value is missing", 0),
        ("(a + b", r"'\)' is missing", 6),
        ("a + b)", "no partner", 5),
        ("a b", "operator is missing", 2),
        ("2x", "operator is missing", 1),
        ("a ^ 2", r"'\*\*'", 2),
        ("a % 2", r"mod\(a, b\)", 2),
        ("a // 2", r"floor\(a / b\)", 2),
        ("a && b", "'and'", 2),
        ("a = b", "'=='", 2),
        ("x := 1", "assignment", 2),
        ("a ? b : c", "a if condition else b", 2),
        ("sinn(x)", "Did you mean 'sin'", 0),
        ("wxyz(x)", "The functions are", 0),
        ("sin", r"write sin\(…\)", 0),
        ("sin()", "takes 1 argument", 0),
        ("atan2(x)", "takes 2 argument", 0),
        ("min(x)", "takes 2 argument", 0),
        ("clip(x, 1)", r"clip\(a, b, c\)", 0),
        ("__import__('os')", "two underscores", 0),
        ("x.__class__", "two underscores", 0),
        ("x.real()", "no function 'x.real'", 0),
        ("(x).y", "dot", 3),
        ("u[i]", "whole number", 2),
        ("u[-1]", "whole number", 2),
        ("u[1.5]", "whole number", 2),
        ("u[1][2]", "only a name can have an index", 4),
        ("u[1:2]", "slices", 3),
        ("lambda x: x", "functions of their own", 0),
        ("[x for x in y]", "a value is missing before '\\['", 0),
        ("x for x in y", "comprehensions", 2),
        ("x in y", "'or'", 2),
        ("x is y", "'=='", 2),
        ("'text'", "label", 0),
        ("'text", "no partner", 0),
        ("a == not b", "parentheses", 5),
        ("a if b", "'else' is missing", 6),
        ("{1}", "round parentheses", 0),
        ("π*r", "'pi'", 0),
        ("2·x", r"'\*'", 1),
        ("naïve", "has no meaning", 2),
        ("x²", r"\*\*2", 1),
        ("x\x00", "has no meaning", 1),
        ("a; b", "one expression", 1),
    ],
)
def test_mistakes_are_explained_where_they_are(text: str, message: str, column: int | None) -> None:
    with pytest.raises(ExpressionError, match=message) as caught:
        parse(text)
    if column is not None:
        assert caught.value.column == column


@pytest.mark.parametrize(
    "text",
    [
        "(" * 100_000,
        "(" * 50_000 + "x" + ")" * 50_000,
        "-" * 100_000,
        "-" * 99_999 + "x",
        "not " * 20_000 + "x",
        "2**" * 30_000 + "2",
        "sin(" * 20_000,
        "1 if 1 else " * 8_000 + "1",
        "x" * 200_000,
        "x+" * 40_000 + "x",
        "max(" + "x," * 40_000 + "x)",
        "é" * 50_000,
        "a" * 90_000 + "__",
        "(" * 201 + "x" + ")" * 201,
    ],
)
def test_hostile_text_is_refused_quickly(text: str) -> None:
    caught: list[str] = []

    def refused() -> None:
        with pytest.raises(ExpressionError) as error:
            parse(text)
        caught.append(str(error.value))

    assert effort(refused) < 10_000 + 20 * len(text), "more than a few calls for each character"
    assert len(caught[0]) < 1000


def test_a_huge_power_is_a_number_not_a_hang() -> None:
    assert evaluate(parse("9**9**9")) == float("inf")
    assert simplify(parse("9**9**9**9**9")) == Number(float("inf"))


@pytest.mark.parametrize("thing", [None, 3, b"x", ["x"]])
def test_only_texts_are_expressions(thing: object) -> None:
    with pytest.raises(ExpressionError, match="text"):
        parse(thing)  # type: ignore[arg-type]


@given(st.text(max_size=40))
@settings(max_examples=300, deadline=None)
def test_any_text_is_an_expression_or_an_expression_error(text: str) -> None:
    column = _column_of_trouble(text)
    assert column is None or 0 <= column <= len(text)


def _column_of_trouble(text: str) -> int | None:
    try:
        parse(text)
    except ExpressionError as error:
        return error.column
    return None


# -- expressions as values


def test_long_sums_are_no_trouble_anywhere() -> None:
    expr = parse("+".join(["x"] * 9_000))
    assert evaluate(expr, {"x": 1.0}) == 9_000.0
    copy = pickle.loads(pickle.dumps(expr))
    assert copy == expr
    assert hash(copy) == hash(expr)
    assert parse(show(expr)) == expr
    assert substitute(expr, {"x": Number(2.0)}) != expr
    assert repr(expr).startswith("<x + x")


def test_substitution_is_simultaneous_and_keeps_sharing() -> None:
    swapped = substitute(parse("x - y"), {"x": Name("y"), "y": Name("x")})
    assert show(swapped) == "y - x"
    shared = parse("x + 1")
    whole = substitute(apply(Op.MUL, shared, shared), {"x": Name("z")})
    assert whole.args[0] is whole.args[1]
    untouched = parse("a*b")
    assert substitute(untouched, {"x": Name("z")}) is untouched


def test_doubling_sixty_times_stays_small() -> None:
    expr = other = parse("x")
    for _ in range(60):
        expr, other = expr + expr, other + other
    assert expr == other
    assert evaluate(expr, {"x": 1.0}) == 2.0**60
    assert evaluate(pickle.loads(pickle.dumps(expr)), {"x": 1.0}) == 2.0**60
    with pytest.raises(ExpressionError, match="too large to show"):
        show(expr)


def test_expressions_are_built_with_operators_too() -> None:
    x, c = Name("x"), Cell(3)
    assert (2 * x + 1) / c - x**2 == apply(
        Op.SUB, apply(Op.DIV, apply(Op.ADD, apply(Op.MUL, 2, x), 1), c), apply(Op.POW, x, 2)
    )
    assert show(1 - -c) == "1 - -@3"


def test_a_missing_value_is_named() -> None:
    with pytest.raises(ExpressionError, match="Did you mean 'speed'"):
        evaluate(parse("sped + 1"), {"speed": 1.0})
    with pytest.raises(ExpressionError, match="cell 3"):
        evaluate(Cell(3))
