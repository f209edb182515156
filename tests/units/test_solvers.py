"""Solvers: their order on problems with a known solution, step-size control, dense output, settings."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upbeat.core.errors import ModelError
from upbeat.units import RK4, DormandPrince, Euler, Midpoint, Ode, SolverError, solver_from
from upbeat.units.solving.integrate import Adaptive, integrator
from upbeat.units.solving.solvers import METHODS, solver_spec
from upbeat.units.solving.tableau import DORMAND_PRINCE


def oscillator(t, x):
    return [x[1], -x[0]]


def forced(t, x):
    # x' = -x + sin t has the solution (sin t - cos t)/2 + (x0 + 1/2) e^-t
    return [-x[0] + math.sin(t)]


def error_after_one_second(solver):
    x, v = integrator(solver).advance(oscillator, 0.0, [1.0, 0.0], 1.0)
    (y,) = integrator(solver).advance(forced, 0.0, [1.0], 1.0)
    exact = (math.sin(1) - math.cos(1)) / 2 + 1.5 * math.exp(-1)
    return max(abs(x - math.cos(1)), abs(v + math.sin(1)), abs(y - exact))


@pytest.mark.parametrize(("kind", "order"), [(Euler, 1), (Midpoint, 2), (RK4, 4)])
def test_halving_the_steps_divides_the_error_by_two_to_the_order(kind, order):
    errors = [error_after_one_second(kind(steps=n)) for n in (32, 64, 128)]
    for coarse, fine in pairwise(errors):
        assert math.log2(coarse / fine) == pytest.approx(order, abs=0.1)
    assert kind.tableau.order == order


def test_dormand_prince_at_a_fixed_step_has_order_five():
    def error(n):
        # tolerances that accept every step, of which none may be longer than 1/n
        solver = Adaptive(DormandPrince(rtol=1e3, atol=1e3, first=1 / n, longest=1 / n))
        x, v = solver.advance(oscillator, 0.0, [1.0, 0.0], 1.0)
        return math.hypot(x - math.cos(1), v + math.sin(1))

    assert math.log2(error(8) / error(16)) == pytest.approx(5, abs=0.15)
    assert math.log2(error(16) / error(32)) == pytest.approx(5, abs=0.15)


def test_dense_output_has_order_four_inside_the_step():
    # The local error of an interpolant of order 4 falls with h**5.
    def worst(h):
        solver = Adaptive(DormandPrince(rtol=1e3, atol=1e3, first=h, longest=h))
        solver.advance(oscillator, 0.0, [1.0, 0.0], h)
        assert solver.last is not None
        return max(abs(solver.last(s * h)[0] - math.cos(s * h)) for s in (0.1, 0.3, 0.5, 0.7, 0.9))

    assert math.log2(worst(0.4) / worst(0.2)) >= 4.8
    assert math.log2(worst(0.2) / worst(0.1)) >= 4.8


def test_dense_output_meets_the_solution_and_its_slope_at_both_ends():
    solver = Adaptive(DormandPrince(first=0.2))
    end = solver.advance(oscillator, 1.0, [0.3, 0.4], 1.2)
    dense = solver.last
    assert dense is not None
    assert dense(dense.start + dense.length) == pytest.approx(end, rel=1e-14)
    assert (dense.start, dense(1.0)) == (1.0, [0.3, 0.4])
    eps = 1e-6
    slope = [(b - a) / eps for a, b in zip(dense(1.0), dense(1.0 + eps), strict=True)]
    assert slope == pytest.approx(oscillator(1.0, [0.3, 0.4]), rel=1e-5)


def test_dense_output_against_scipy():
    scipy = pytest.importorskip("scipy.integrate")
    mine = Adaptive(DormandPrince(rtol=1e3, atol=1e3, first=0.3))
    mine.advance(oscillator, 0.0, [1.0, 0.0], 0.3)
    theirs = scipy.solve_ivp(
        oscillator, (0.0, 0.3), [1.0, 0.0], rtol=1e3, atol=1e3, first_step=0.3, dense_output=True
    )
    assert mine.last is not None
    assert mine.last(0.3) == pytest.approx(theirs.sol(0.3), rel=1e-13)
    # SciPy uses another quartic: both are of order 4, so they differ by no more than their error
    assert mine.last(0.13) == pytest.approx(theirs.sol(0.13), abs=2e-6)


@pytest.mark.parametrize("rtol", [1e-4, 1e-6, 1e-9])
def test_step_size_control_keeps_the_tolerance(rtol):
    scipy = pytest.importorskip("scipy.integrate")

    def van_der_pol(t, x):
        return [x[1], 5.0 * (1.0 - x[0] * x[0]) * x[1] - x[0]]

    exact = scipy.solve_ivp(van_der_pol, (0.0, 8.0), [2.0, 0.0], rtol=1e-12, atol=1e-13, method="DOP853").y[
        :, -1
    ]
    solver = Adaptive(DormandPrince(rtol=rtol, atol=rtol))
    x = [2.0, 0.0]
    for i in range(8):
        x = solver.advance(van_der_pol, float(i), x, float(i + 1))
    assert x == pytest.approx(list(exact), rel=200 * rtol, abs=200 * rtol)


def test_a_looser_tolerance_costs_fewer_evaluations():
    def count(rtol):
        calls = []
        solver = Adaptive(DormandPrince(rtol=rtol, atol=rtol))
        solver.advance(lambda t, x: (calls.append(t), oscillator(t, x))[1], 0.0, [1.0, 0.0], 20.0)
        return len(calls)

    assert count(1e-3) < count(1e-6) / 2 < count(1e-9) / 4


def test_the_step_stays_warm_between_communication_steps():
    calls = []
    solver = Adaptive(DormandPrince())
    x = [1.0, 0.0]
    for i in range(100):
        calls.clear()
        x = solver.advance(lambda t, y: (calls.append(t), oscillator(t, y))[1], i / 100, x, (i + 1) / 100)
    assert len(calls) == 7  # one step over the whole interval: it is far shorter than the solver would go
    assert solver.h > 0.04


def test_a_step_cut_short_by_a_communication_point_does_not_lower_the_step():
    solver = Adaptive(DormandPrince())
    x = solver.advance(oscillator, 0.0, [1.0, 0.0], 1.0)
    before = solver.h
    assert before > 0.01
    solver.advance(oscillator, 1.0, x, 1.0 + 1e-6)
    assert solver.h >= before


def test_the_error_is_measured_against_the_larger_of_both_ends():
    # From 0 to 0.1 the change is all there is to compare the error with: one step must be enough.
    calls = []
    solver = Adaptive(DormandPrince(rtol=1e-3, atol=1e-14, first=0.1))
    (x,) = solver.advance(lambda t, y: (calls.append(t), [math.exp(t)])[1], 0.0, [0.0], 0.1)
    assert len(calls) == 7
    assert x == pytest.approx(math.expm1(0.1), rel=1e-8)


def test_the_longest_step_is_respected():
    times = []
    solver = Adaptive(DormandPrince(rtol=1e3, atol=1e3, longest=0.125))
    solver.advance(lambda t, x: (times.append(t), [0.0])[1], 0.0, [1.0], 1.0)
    assert max(b - a for a, b in pairwise(sorted(times))) <= 0.125
    assert solver.h <= 0.125


def test_an_explosion_is_reported_with_the_time():
    with pytest.raises(
        SolverError, match=r"step size fell to .* at t = 1\b|step size fell to .* at t = 0\.99999"
    ):
        Adaptive(DormandPrince()).advance(lambda t, x: [x[0] * x[0]], 0.0, [1.0], 2.0)  # 1/(1 - t)


def test_derivatives_that_are_not_numbers_are_reported():
    with pytest.raises(SolverError, match="step size fell"):
        Adaptive(DormandPrince()).advance(lambda t, x: [math.nan], 0.0, [1.0], 1.0)


def test_too_many_steps_are_reported():
    with pytest.raises(SolverError, match=r"20 steps did not reach 1000 .*max_steps"):
        Adaptive(DormandPrince(max_steps=20)).advance(oscillator, 0.0, [1.0, 0.0], 1000.0)


def test_a_step_shorter_than_the_resolution_of_time_is_no_failure():
    to = math.nextafter(1e6, math.inf)
    assert Adaptive(DormandPrince()).advance(oscillator, 1e6, [1.0, 0.0], to) == pytest.approx(
        [1.0, 0.0], abs=1e-9
    )


def test_a_state_at_rest_at_zero():
    assert Adaptive(DormandPrince()).advance(lambda t, x: [0.0], 0.0, [0.0], 5.0) == [0.0]


def test_the_pair_satisfies_its_order_conditions():
    t = DORMAND_PRINCE
    high = list(t.b)
    low = [b - e for b, e in zip(t.b, t.e, strict=True)]
    for s in range(t.stages):
        assert sum(t.a[s]) == pytest.approx(t.c[s], abs=1e-14)
    for weights, order in ((high, 5), (low, 4)):
        for power in range(order):
            moment = sum(w * c**power for w, c in zip(weights, t.c, strict=True))
            assert moment == pytest.approx(1 / (power + 1), abs=1e-14)
        chained = sum(w * sum(a * t.c[q] for q, a in enumerate(t.a[s])) for s, w in enumerate(weights))
        assert chained == pytest.approx(1 / 6, abs=1e-14)
    assert sum(w * c**4 for w, c in zip(low, t.c, strict=True)) != pytest.approx(1 / 5, abs=1e-6)


@given(length=st.floats(1e-3, 1e3), count=st.integers(1, 500))
def test_a_step_that_divides_the_interval_gives_exactly_that_many(length, count):
    assert Euler(step=length / count).count(length) == count


@given(length=st.floats(1e-3, 1e3), step=st.floats(1e-3, 1e3))
def test_solver_steps_are_at_most_the_step_long(length, step):
    count = RK4(step=step).count(length)
    exact = Fraction(length) / Fraction(step)
    assert count >= exact * Fraction(999_999, 1_000_000)
    assert count <= exact + 1 or count == 1


def test_absurdly_many_solver_steps_are_refused():
    with pytest.raises(SolverError, match=r"more than 1,000,000,000 solver steps .* larger step"):
        Euler(step=1e-300).count(1.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Euler(steps=0), "steps must be a whole number"),
        (lambda: Euler(steps=1.5), "steps must be a whole number"),
        (lambda: RK4(steps=True), "steps must be a whole number"),
        (lambda: Midpoint(step=0.0), "step must be positive"),
        (lambda: Midpoint(step=math.nan), "step must be positive"),
        (lambda: RK4(steps=4, step=0.1), "steps or step, not both"),
        (lambda: DormandPrince(rtol=-1.0), "rtol must be positive"),
        (lambda: DormandPrince(atol=0.0), "atol must be positive"),
        (lambda: DormandPrince(longest=math.inf), "longest must be positive and finite"),
        (lambda: DormandPrince(max_steps=0), "max_steps must be a whole number"),
        (lambda: solver_from("rk5"), "no solver 'rk5'.*Did you mean 'rk4'"),
        (lambda: solver_from({"kind": "euler", "setps": 3}), "no setting 'setps'.*Did you mean 'steps'"),
        (lambda: solver_from({"steps": 3}), "kind ="),
        (lambda: solver_from(4), "a solver is a name"),
    ],
)
def test_bad_settings(make, message):
    with pytest.raises(ModelError, match=message):
        make()


@pytest.mark.parametrize(
    "solver", [Euler(), Midpoint(steps=3), RK4(step=0.5), DormandPrince(), DormandPrince(1e-3, longest=0.1)]
)
def test_settings_round_trip(solver):
    assert solver_from(solver_spec(solver)) == solver
    assert Ode({"x": "-x"}, solver=solver_spec(solver)).solver == solver
    assert METHODS[solver.method] is type(solver)
