"""Conditions as numbers that fall to zero where they come true."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upbeat.core.errors import ExpressionError
from upbeat.core.expr import Number, evaluate, indicator, parse, time_derivative
from upbeat.core.ports import Kind

KINDS = {"n": Kind.INTEGER, "m": Kind.INTEGER, "on": Kind.BOOLEAN, "x": Kind.REAL, "y": Kind.REAL}

COMPARISONS = st.sampled_from(
    ["x < y", "x <= y", "x > 1", "y >= x", "n == m", "n != 2", "on", "x < y < 1", "not on", "n <= m"]
)
CONDITIONS = st.recursive(
    COMPARISONS,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda both: f"({both[0]}) and ({both[1]})"),
        st.tuples(inner, inner).map(lambda both: f"({both[0]}) or ({both[1]})"),
        inner.map(lambda one: f"not ({one})"),
    ),
    max_leaves=6,
)
REALS = st.sampled_from([-2.0, -0.5, 0.25, 0.75, 1.5, 3.0])


@given(CONDITIONS, REALS, REALS, st.integers(0, 3), st.integers(0, 3), st.booleans())
def test_it_is_above_zero_exactly_where_the_condition_does_not_hold(
    text: str, x: float, y: float, n: int, m: int, on: bool
) -> None:
    env = {"x": x, "y": y, "n": float(n), "m": float(m), "on": float(on)}
    condition = parse(text)
    z = evaluate(indicator(condition, KINDS), env)
    assert (z <= 0.0) == bool(evaluate(condition, env))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x <= 3", "x - 3"),
        ("x <= 0 and y >= 2", "max(x - 0, 2 - y)"),
        ("not (x < 0 and y > 2)", "min(0 - x, y - 2)"),
        ("x <= 0 or on", "min(x - 0, 0.5 - on)"),
    ],
)
def test_what_becomes_of_a_condition(text: str, expected: str) -> None:
    assert indicator(parse(text), KINDS) == parse(expected)


def test_a_strict_comparison_changes_as_fast_as_its_difference_also_on_the_border() -> None:
    z = indicator(parse("x < y"), KINDS)
    rate = time_derivative(z, {"x": Number(3.0), "y": Number(1.0)})
    for y in (-1.0, 2.0, 5.0):
        assert evaluate(rate, {"x": 2.0, "y": y}) == 2.0


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("x == y", "hardly ever meet"),
        ("x != 1.5", "hardly ever meet"),
        ("x + y", "compare"),
        ("n", "compare"),
    ],
)
def test_what_cannot_be_watched(text: str, what: str) -> None:
    with pytest.raises(ExpressionError, match=what):
        indicator(parse(text), KINDS)
