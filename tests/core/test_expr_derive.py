"""Derivatives, judged by finite differences and closed forms."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from upbeat.core.expr import (
    OPS,
    Apply,
    Expr,
    Name,
    Number,
    Op,
    Table1,
    Table2,
    differentiate,
    evaluate,
    parse,
    show,
    time_derivative,
)

DRAG = Table1((0.0, 1.0, 2.0, 4.0), (0.0, 1.0, 4.0, 3.0))
MAP = Table2((0.0, 1.0, 2.0), (0.0, 2.0), ((0.0, 1.0), (2.0, 5.0), (3.0, 3.0)))


def slope(expr: Expr, name: str, env: dict[str, float], h: float = 1e-6) -> float:
    ahead = evaluate(expr, {**env, name: env[name] + h})
    behind = evaluate(expr, {**env, name: env[name] - h})
    return (ahead - behind) / (2 * h)


@pytest.mark.parametrize("op", list(Op))
def test_every_operation_has_the_right_derivative(op: Op) -> None:
    letters = "abc"[: OPS[op].arity]
    expr = Apply(op, tuple(map(Name, letters)))
    for env in (
        {"a": 0.7, "b": 0.4, "c": 0.9},
        {"a": 0.3, "b": 0.8, "c": 0.2},
        {"a": 0.55, "b": 0.45, "c": 0.5},
    ):
        for letter in letters:
            rate = evaluate(differentiate(expr, letter), env)
            assert rate == pytest.approx(slope(expr, letter, env), rel=1e-6, abs=1e-8), (op, letter)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x**2", "2*x"),
        ("3*x + 2*y", "3"),
        ("x*y", "y"),
        ("y**3", "0"),
        ("exp(x)", "exp(x)"),
        ("-x", "-1"),
        ("x if y > 0 else 0", "1 if y > 0 else 0"),
        ("floor(x) + (x > 1)", "0"),
        ("drag(x)", "drag.slope(x)"),
        ("map(x, y)", "map.slope_x(x, y)"),
        ("a.u[1]*x", "a.u[1]"),
    ],
)
def test_derivatives_are_simplified(text: str, expected: str) -> None:
    assert show(differentiate(parse(text, {"drag": DRAG, "map": MAP}), "x")) == expected


def test_a_branch_not_taken_does_not_leak() -> None:
    """The derivative of log(x) at 0 is infinite, but the choice takes the other branch."""
    rate = differentiate(parse("log(x) if x > 0 else 3*x"), "x")
    assert evaluate(rate, {"x": 0.0}) == 3.0


def test_time_derivatives_use_the_rates() -> None:
    expr = parse("m*v**2/2 + sin(time)*k")
    rate = time_derivative(expr, {"v": parse("F/m")})
    env = {"m": 2.0, "v": 3.0, "F": 5.0, "time": 0.5, "k": 7.0}
    assert evaluate(rate, env) == pytest.approx(3.0 * 5.0 + 7.0 * math.cos(0.5), rel=1e-14)


def test_second_derivatives() -> None:
    expr = parse("exp(-x)*sin(x)")
    second = differentiate(differentiate(expr, "x"), "x")
    assert evaluate(second, {"x": 0.8}) == pytest.approx(-2 * math.exp(-0.8) * math.cos(0.8), rel=1e-13)
    twisted = differentiate(differentiate(parse("map(x, y)", {"map": MAP}), "x"), "y")
    assert evaluate(twisted, {"x": 0.5, "y": 1.0}) == 1.0


def test_a_long_product_stays_small() -> None:
    expr = parse("*".join(f"(x + {i})" for i in range(1, 1500)))
    rate = differentiate(expr, "x")
    assert evaluate(rate, {"x": -1.0}) == evaluate(parse("*".join(str(i) for i in range(1, 1499))))


def _smooth() -> st.SearchStrategy[Expr]:
    leaves = st.one_of(
        st.sampled_from([Name("x"), Name("y")]), st.integers(-3, 3).map(lambda i: Number(float(i)))
    )
    unary = st.sampled_from([Op.SIN, Op.COS, Op.TANH, Op.ATAN, Op.NEG, Op.EXP, Op.SQRT, Op.LOG])
    binary = st.sampled_from([Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.POW, Op.HYPOT, Op.ATAN2])

    def grow(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        return st.one_of(
            st.tuples(unary, inner).map(lambda p: Apply(p[0], (p[1],))),
            st.tuples(binary, inner, inner).map(lambda p: Apply(p[0], (p[1], p[2]))),
        )

    return st.recursive(leaves, grow, max_leaves=8)


@given(_smooth())
@settings(max_examples=300, deadline=None)
def test_random_smooth_functions_against_finite_differences(expr: Expr) -> None:
    env = {"x": 0.8125, "y": 1.375}
    numbers = [slope(expr, "x", env, h) for h in (1e-4, 5e-5)]
    rate = evaluate(differentiate(expr, "x"), env)
    assume(all(math.isfinite(number) and abs(number) < 1e3 for number in numbers))
    # only where the difference quotient itself has settled can it judge
    assume(abs(numbers[0] - numbers[1]) < 1e-5 * (1 + abs(numbers[1])))
    assume(math.isfinite(rate))
    assume(abs(evaluate(expr, env)) < 1e4)
    assert rate == pytest.approx(numbers[1], rel=1e-3, abs=1e-3)
