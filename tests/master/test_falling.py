"""When numbers fall to zero, as instructions: what predictions with numbers say, where parabolas do."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from upbeat.core.expr import Number
from upbeat.core.expr.kernel import evaluate
from upbeat.master import prediction
from upbeat.master.events.conditions import Ahead, Fall, Parabola, back_to_zero
from upbeat.master.program import Let
from upbeat.master.registers import Registers

SPAN = 4.0
numbers = st.floats(-10, 10).map(lambda x: round(x, 2))
parabolas = st.tuples(numbers, numbers, numbers)
"""Value, rate and second derivative."""


def run(lets: list[Let], registers: Registers) -> dict[int, float]:
    cells = dict.fromkeys(range(sum(known.size for known in registers.layout().registers)), 0.0)
    for let in lets:
        cells[let.to] = evaluate(let.value, cells=cells)
    return cells


def falls(several: list[tuple[float, float, float]]) -> float:
    registers = Registers()
    ahead = Ahead(registers, "it", len(several))
    made = [Parabola(Number(z), Number(rate), Number(0.5 * bend)) for z, rate, bend in several]
    return run(ahead.falls(made), registers)[ahead.at]


def first_zero(several: list[tuple[float, float, float]]) -> float:
    return prediction.first_zero([prediction.taylor(*one) for one in several], SPAN)


def clear(several: list[tuple[float, float, float]]) -> None:
    """Not what touches zero, or is there now: rounding decides about that."""
    for z, rate, bend in several:
        assume(abs(z) > 0.01)
        assume(abs(rate * rate - 2.0 * bend * z) > 0.01)


@given(parabolas)
def test_one_number_falls_where_the_prediction_says(one: tuple[float, float, float]) -> None:
    clear([one])
    found, wanted = falls([one]), first_zero([one])
    assert found == pytest.approx(wanted, rel=1e-9) if wanted < math.inf else not found < 0.99 * SPAN


@given(parabolas, parabolas)
def test_of_two_the_larger_one_counts(
    one: tuple[float, float, float], other: tuple[float, float, float]
) -> None:
    clear([one, other])
    gap = [abs(a - b) for a in _roots(one) for b in _roots(other)]
    assume(min(gap, default=1.0) > 0.01)  # nor what is above zero for a moment only
    found, wanted = falls([one, other]), first_zero([one, other])
    assert found == pytest.approx(wanted, rel=1e-9) if wanted < math.inf else not found < 0.99 * SPAN


def _roots(one: tuple[float, float, float]) -> dict[int, float]:
    z, rate, bend = one
    if bend == 0.0:
        return [-z / rate] if rate else []
    under = rate * rate - 2.0 * bend * z
    return [(-rate + sign * math.sqrt(under)) / bend for sign in (-1, 1)] if under >= 0.0 else []


@given(st.floats(0.05, 5.0), st.floats(-5.0, 5.0), st.floats(0.1, 3.0))
def test_looking_back_finds_the_same_zero(before: float, rate: float, span: float) -> None:
    """A parabola that rises or stays first and falls through zero within the step: it is found exactly."""
    assume(rate >= 0.0)
    bend = -2.0 * (before + rate * span) / span**2 * 1.5
    now = before + rate * span + 0.5 * bend * span**2
    part = -now / (before - now)
    fall = Fall(*(Number(x) for x in (before, now, rate, rate + bend * span)))
    back = evaluate(back_to_zero(Number(span), Number(part), fall))
    wanted = prediction.first_zero([prediction.taylor(before, rate, bend)], span)
    assert span - back == pytest.approx(wanted, rel=1e-9, abs=1e-9)
