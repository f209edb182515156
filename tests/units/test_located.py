"""Events inside a step: roots on the dense output, against closed forms."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upbeat.units import RK4, DormandPrince, Euler, Midpoint
from upbeat.units.solving.integrate import TOLERANCE, Watch, crossings, integrator

SOLVERS = [Euler(steps=50), Midpoint(steps=50), RK4(steps=50), DormandPrince(rtol=1e-10, atol=1e-12)]


def falling(t, x):
    return [x[1], -9.81]


def advance(solver, f, z, x, to, t=0.0, accepted=None):
    """Where the watch stopped, and the state there."""
    watch = Watch(z, accepted)
    watch.begin(z(t, x))
    return watch, integrator(solver).advance(f, t, x, to, watch)


@pytest.mark.parametrize("solver", SOLVERS[1:])  # all of these are exact for a quadratic
def test_a_falling_body_reaches_the_ground_when_it_should(solver):
    watch, x = advance(solver, falling, lambda t, x: [x[0]], [1.0, 0.0], 1.0)
    exact = math.sqrt(2 / 9.81)
    assert watch.stopped
    assert watch.crossed == (0,)
    assert watch.time == pytest.approx(exact, rel=1e-12)
    assert x[0] <= 0.0  # on the far side
    assert x[0] > -1e-10
    assert x[1] == pytest.approx(-9.81 * exact, rel=1e-9)
    assert watch.z == [x[0]]


@pytest.mark.parametrize(("solver", "order"), [(Euler, 1), (Midpoint, 2), (RK4, 4)])
def test_the_time_of_a_crossing_has_the_order_of_the_method(solver, order):
    def error(steps):
        watch, _ = advance(solver(steps=steps), lambda t, x: [-x[0]], lambda t, x: [x[0] - 0.5], [1.0], 1.0)
        return abs(watch.time - math.log(2))

    assert math.log2(error(20) / error(80)) / 2 == pytest.approx(order, abs=0.5)


def test_dormand_prince_locates_to_its_tolerance():
    watch, x = advance(
        DormandPrince(rtol=1e-9, atol=1e-9),
        lambda t, x: [x[1], -x[0]],
        lambda t, x: [x[0] - 0.5],
        [1.0, 0.0],
        9.0,
    )
    assert watch.time == pytest.approx(math.pi / 3, abs=1e-7)
    assert x == pytest.approx([0.5, -math.sqrt(0.75)], abs=1e-7)


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_earliest_of_several_crossings_counts(solver):
    roots = [0.37, 0.113, 0.62, 5.0]
    watch, _ = advance(solver, lambda t, x: [1.0], lambda t, x: [r - v for r in roots for v in x], [0.0], 1.0)
    assert watch.crossed == (1,)
    assert watch.time == pytest.approx(0.113, abs=1e-11)


def test_simultaneous_crossings_come_together_in_either_direction():
    watch, _ = advance(
        RK4(), lambda t, x: [1.0], lambda t, x: [0.3 - x[0], x[0] - 0.3, x[0] - 0.8, 1.0], [0.0], 1.0
    )
    # at exactly 0.3 the second one would not be positive yet: both are across at the far end
    assert watch.crossed in ((0,), (0, 1))
    assert watch.time == pytest.approx(0.3, abs=1e-11)


def test_a_near_miss_is_no_event():
    watch, x = advance(RK4(steps=8), lambda t, x: [2 * (t - 0.5)], lambda t, x: [x[0]], [0.25 + 1e-9], 1.0)
    assert not watch.stopped
    assert watch.crossed == ()
    assert watch.time == 1.0
    assert x[0] == pytest.approx(0.25 + 1e-9)


def test_a_touch_of_zero_at_the_end_of_a_step_is_an_event_there():
    watch, x = advance(Euler(steps=2), lambda t, x: [-1.0], lambda t, x: [x[0]], [0.5], 1.0)
    assert (watch.time, x) == (0.5, [0.0])


def test_leaving_zero_is_an_event_right_after_the_start():
    watch, _ = advance(RK4(), lambda t, x: [1.0], lambda t, x: [x[0]], [0.0], 1.0)
    assert watch.crossed == (0,)
    assert 0.0 < watch.time <= TOLERANCE


def test_without_states_only_time_makes_things_cross():
    for solver in SOLVERS:
        watch, x = advance(solver, lambda t, x: [], lambda t, x: [0.3 - t * t], [], 1.0)
        assert x == []
        assert watch.time == pytest.approx(math.sqrt(0.3), rel=1e-11)


def test_who_listens_hears_of_every_step_and_may_stop_there():
    heard = []

    def accepted(t, x):
        heard.append((t, x[0]))
        return t >= 0.5

    watch = Watch(None, accepted)
    x = integrator(Euler(steps=4)).advance(lambda t, x: [1.0], 0.0, [0.0], 1.0, watch)
    assert heard == [(0.25, 0.25), (0.5, 0.5)]
    assert (watch.time, watch.stopped, watch.crossed, x) == (0.5, True, (), [0.5])


def test_the_listener_hears_of_the_cut_step_once_and_at_its_new_end():
    heard = []
    watch, x = advance(
        RK4(),
        lambda t, x: [1.0],
        lambda t, x: [0.3 - x[0]],
        [0.0],
        1.0,
        accepted=lambda t, x: heard.append((t, list(x))),
    )
    assert heard == [(watch.time, x)]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_values_that_are_no_numbers_do_not_trap_the_search(bad):
    watch, _ = advance(RK4(), lambda t, x: [1.0], lambda t, x: [1.0 if t < 0.7 else bad, 1.0], [0.0], 1.0)
    if bad == math.inf:
        assert not watch.stopped
    else:
        assert watch.time == pytest.approx(0.7, abs=1e-11)


@pytest.mark.parametrize("power", [1, 3, 9, 21])
def test_flat_and_steep_roots_take_few_tries(power):
    tries = []

    def z(t, x):
        tries.append(t)
        return [math.copysign(abs(t - 0.6) ** power, 0.6 - t)]

    watch, _ = advance(RK4(), lambda t, x: [], z, [], 1.0)
    assert watch.time == pytest.approx(0.6, abs=1e-11)
    assert len(tries) < 130


def test_the_bracket_closes_also_where_time_has_few_digits_left():
    start = 1e9
    watch, _ = advance(RK4(), lambda t, x: [], lambda t, x: [start + 1e-6 - t], [], start + 1e-5, t=start)
    assert watch.time == pytest.approx(start + 1e-6, abs=5e-7)
    early, _ = advance(RK4(), lambda t, x: [], lambda t, x: [-0.25 - t], [], 0.0, t=-1.0)
    assert early.time == pytest.approx(-0.25, abs=1e-11)


@given(st.lists(st.floats(0.01, 0.99), min_size=1, max_size=5), st.integers(1, 7))
def test_random_lines_cross_first_where_the_first_one_does(roots, steps):
    watch, _ = advance(
        RK4(steps=steps),
        lambda t, x: [],
        lambda t, x: [(r - t) * (i + 1) for i, r in enumerate(roots)],
        [],
        1.0,
    )
    assert watch.time == pytest.approx(min(roots), abs=2e-12)
    assert roots[watch.crossed[0]] <= watch.time
    assert watch.time >= min(roots)  # on the far side: z is not positive there


def test_crossing_means_positive_or_not():
    assert crossings([1.0, 0.0, -1.0, math.nan], [0.0, -1.0, 1.0, 1.0]) == (0, 2, 3)
    assert crossings([5e-324, -0.0], [1.0, 0.0]) == ()


def test_without_a_watch_nothing_changes():
    for solver in SOLVERS:
        plain = integrator(solver).advance(falling, 0.0, [1.0, 0.0], 1.0)
        silent = Watch(lambda t, x: [1.0])
        silent.begin([1.0])
        assert integrator(solver).advance(falling, 0.0, [1.0, 0.0], 1.0, silent) == plain


def test_nominals_scale_the_absolute_tolerance():
    def steps(nominals):
        solver = integrator(DormandPrince(rtol=1e-14, atol=1e-6, first=0.1))
        solver.scale(nominals)
        count = []
        solver.advance(
            lambda t, x: [x[1], -x[0]], 0.0, [1e6, 0.0], 10.0, Watch(None, lambda t, x: count.append(t))
        )
        return len(count)

    assert steps([1e6, 1e6]) < steps([1.0, 1.0]) / 5
