"""Inputs over time: polynomials are followed exactly, and belong to the state."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upbeat.core.errors import ModelError
from upbeat.units import MAX_DEGREE, RK4, Function, Ode

whole = st.integers(-8, 8).map(float)
quarters = st.integers(0, 40).map(lambda n: n / 4)


@given(st.lists(whole, min_size=1, max_size=MAX_DEGREE + 1), quarters, quarters)
def test_an_input_is_the_polynomial_from_the_time_it_was_set(coefficients, origin, delay):
    unit = Function(inputs=["u"], outputs={"y": "u"}).instantiate("f", origin)
    unit.set("u", coefficients)
    unit.advance(origin, origin + delay)
    # dyadic numbers of this size are exact in doubles, so nothing may be lost
    exact = sum(Fraction(c) * Fraction(delay) ** k for k, c in enumerate(coefficients))
    assert Fraction(unit.get("y")) == exact


def test_a_cubic_input_is_integrated_exactly():
    # x' = u with u = 1 + 2s + 3s² + 4s³ gives x = s + s² + s³ + s⁴, and RK4 is exact for a cubic
    unit = Ode({"x": "u"}, inputs=["u"], solver=RK4()).instantiate("a", 2.0)
    unit.set("u", (1.0, 2.0, 3.0, 4.0))
    unit.advance(2.0, 4.0)
    assert unit.get("x") == pytest.approx(2.0 + 4.0 + 8.0 + 16.0, rel=1e-15)


def test_inputs_keep_their_own_origins():
    unit = Function(inputs=["a", "b"], outputs={"y": "a", "z": "b"}).instantiate("f", 0.0)
    unit.set("a", (0.0, 1.0))
    unit.advance(0.0, 1.0)
    unit.set("b", (0.0, 1.0))
    unit.advance(1.0, 3.0)
    assert (unit.get("y"), unit.get("z")) == (3.0, 2.0)


def test_a_constant_replaces_a_polynomial():
    unit = Function(inputs=["u"], outputs={"y": "u"}).instantiate("f", 0.0)
    unit.set("u", (0.0, 1.0))
    unit.set("u", (7.0,))
    unit.advance(0.0, 2.0)
    assert unit.get("y") == 7.0


def test_array_inputs_are_polynomials_cell_by_cell():
    unit = Function(
        inputs={"u": {"size": 2}, "w": 5.0}, outputs={"y": "u", "z": ["u[1]", "u[0] + w"]}
    ).instantiate("f", 0.0)
    unit.set("u", ((1.0, 2.0), (10.0, 20.0)))
    unit.advance(0.0, 0.5)
    assert list(unit.get("y")) == [6.0, 12.0]
    assert list(unit.get("z")) == [12.0, 11.0]


def test_what_an_input_does_not_take():
    unit = Function(
        inputs={"u": {}, "n": {"kind": "integer"}, "a": {"size": 2}}, outputs={"y": "u + n + a[0]"}
    ).instantiate("f", 0.0)
    with pytest.raises(ModelError, match=r"'u' \(real\) takes polynomials of degree 0 to 5, not 7"):
        unit.set("u", (1.0,) * 7)
    with pytest.raises(ModelError, match="not 0 coefficients"):
        unit.set("u", ())
    with pytest.raises(ModelError, match=r"'n' \(integer\) takes polynomials of degree 0 to 0, not 2"):
        unit.set("n", (1, 2))
    with pytest.raises(ModelError, match="'a' has 2 cells, but was given 3 values"):
        unit.set("a", ((1.0, 2.0, 3.0),))
    with pytest.raises(ModelError, match=r"no input 'v'\. The inputs are: a, n, u"):
        unit.set("v", (1.0,))
    with pytest.raises(ModelError, match=r"no output 'z'\. The outputs are: y"):
        unit.get("z")
