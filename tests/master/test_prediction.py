"""Predictions: polynomials come through what they are made of, and the first zero is the first zero."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from upbeat.master import prediction
from upbeat.master.computations import fall_of
from upbeat.master.prediction import Coefficients, first_zero

numbers = st.floats(-10, 10).map(lambda x: round(x, 3))
lengths = st.floats(0.05, 2.0)


def derivatives(c: np.ndarray, at: float) -> tuple[float, float, float]:
    """Value, rate and second derivative of a polynomial, by NumPy."""
    p = np.polynomial.Polynomial(c)
    return float(p(at)), float(p.deriv(1)(at)), float(p.deriv(2)(at))


def made(degree: int, c: list[float], h: float, more: float) -> Coefficients:
    """What is found from the samples that one degree of prediction takes."""
    now, old, older = (derivatives(np.array(c), at) for at in (0.0, -h, -h - more))
    if degree == 1:
        return prediction.straight((now[0], old[0]), h)
    if degree == 2:
        return prediction.parabola((now[0], old[0], older[0]), h, more)
    if degree == 3:
        return prediction.cubic((now[0], old[0]), (now[1], old[1]), h)
    return prediction.quintic((now[0], old[0]), (now[1], old[1]), (now[2], old[2]), h)


@pytest.mark.parametrize("degree", [1, 2, 3, 5])
@given(c=st.lists(numbers, min_size=6, max_size=6), h=lengths, more=lengths)
def test_a_polynomial_is_found_again(degree: int, c: list[float], h: float, more: float) -> None:
    known = c[: degree + 1]
    found = made(degree, known, h, more)
    assert found[: degree + 1] == pytest.approx(known, abs=1e-6 * (1 + 20 * max(map(abs, known)) / h**5))
    assert found[degree + 1 :] == (0.0,) * (5 - degree)


def test_what_is_known_now_alone() -> None:
    assert prediction.taylor(1.0, 2.0, 3.0) == (1.0, 2.0, 1.5, 0.0, 0.0, 0.0)


def poly(*c: float) -> Coefficients:
    return (*c, *(0.0,) * (6 - len(c)))  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("curves", "span", "found"),
    [
        ([poly(1, -1)], 2.0, 1.0),
        ([poly(1, -1)], 0.9, math.inf),  # too far away
        ([poly(1, 1)], 2.0, math.inf),
        ([poly(1, -1), poly(3, -2)], 2.0, 1.5),  # the last of its conditions
        ([poly(1, -1), poly(3, -1)], 2.0, math.inf),
        ([poly(-1, -1), poly(1, -1)], 2.0, 1.0),  # one holds already
        ([poly(-1, -1), poly(-1, -1)], 2.0, math.inf),  # has happened, and does not happen again
        ([poly(-1, 4, -2)], 3.0, 1 + math.sqrt(0.5)),  # rises before it falls
        ([poly(0, 1, -1)], 2.0, 1.0),  # on the border, leaves it, and comes back
        ([poly(0.2499, -1, 1)], 1.0, 0.5 - 0.01),  # a dip that lasts a fiftieth of the step
        ([poly(0.2501, -1, 1)], 1.0, math.inf),  # a near miss
        ([poly(1, -1), poly(-0.9, 1)], 2.0, math.inf),  # one goes before the other comes
    ],
)
def test_the_first_zero(curves: list[Coefficients], span: float, found: float) -> None:
    assert first_zero(curves, span) == pytest.approx(found, abs=1e-13)


@pytest.mark.parametrize(
    ("curve", "found", "before"),
    [
        (poly(1, -1), 1.1, False),  # as far behind the zero as wanted
        (poly(0.2499, -1, 1), 0.5, False),  # no further than the middle of a dip that lasts 0.02
        (poly(0.16, -1, 1), 0.3, False),  # the dip from 0.2 to 0.8 is wide enough
        (poly(0, 1, -1), 0.5, True),  # it has to be seen above zero before it falls to it again
        (poly(-0.02, 0.3, -1), 0.15, True),  # also if that is for a moment only
        (poly(-0.03, 0.3, -1), math.inf, False),
        (poly(0, -1), math.inf, False),  # has happened
    ],
)
def test_where_to_end_a_step(curve: Coefficients, found: float, before: bool) -> None:
    root, behind, highest, above, _ = fall_of([curve], 1.5, 0.1)
    assert (root < math.inf and not above) == before
    assert (highest if before else behind) == pytest.approx(found, abs=1e-6)


@given(c=st.lists(numbers, min_size=2, max_size=6), span=st.floats(0.1, 3.0))
def test_it_falls_there_and_is_above_before(c: list[float], span: float) -> None:
    curve = poly(*c)
    found = first_zero([curve], span)
    if found == math.inf:
        return
    assert 0 < found <= span
    assert prediction.value(curve, found) <= 0.0
    before = np.linspace(0, found, 200)[:-1]
    values = np.polynomial.Polynomial(curve)(before)
    assert values[-1] > -1e-9
