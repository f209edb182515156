"""Couplings against closed forms: what an input sees, and when, decides what an integrator sums up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import upbeat as up

H, N = 0.25, 8
CLOCK = up.Function(outputs={"y": "time"})


def integrator(reactive: bool | None = None) -> up.Ode:
    """x' = u, solved exactly for inputs that are at most quadratic in time."""
    return up.Ode(states={"x": "u"}, inputs={"u": {"reactive": reactive}}, outputs=["x"], solver=up.RK4())


def integral(
    engine: str, coupling: object, inputs: object = None, reactive: bool | None = None
) -> np.ndarray:
    scenario = up.Scenario(
        units={"sum": integrator(reactive), "clock": CLOCK}, connections={"sum.u": "clock.y"}
    )
    trace = up.simulate(scenario, pace=H, until=N * H, coupling=coupling, inputs=inputs, engine=engine)
    return trace["sum.x"]


T = H * np.arange(N + 1)
LEFT = H * np.concatenate([[0], np.cumsum(T[:-1])])  # inputs held at the start of each step
RIGHT = H * np.concatenate([[0], np.cumsum(T[1:])])  # inputs held at its end


def test_jacobi_hold_is_the_left_sum(engine: str) -> None:
    np.testing.assert_allclose(integral(engine, up.Jacobi()), LEFT, rtol=1e-14)


def test_gauss_seidel_hold_is_the_right_sum(engine: str) -> None:
    np.testing.assert_allclose(integral(engine, up.GaussSeidel(order=("clock", "sum"))), RIGHT, rtol=1e-14)


def test_gauss_seidel_gives_delayed_inputs_the_value_at_the_start(engine: str) -> None:
    order = up.GaussSeidel(order=("clock", "sum"))
    np.testing.assert_allclose(integral(engine, order, reactive=False), LEFT, rtol=1e-14)


def test_gauss_seidel_source_later_in_the_order_is_not_seen(engine: str) -> None:
    np.testing.assert_allclose(integral(engine, up.GaussSeidel(order=("sum", "clock"))), LEFT, rtol=1e-14)


def test_reactive_inputs_put_their_source_first(engine: str) -> None:
    np.testing.assert_allclose(integral(engine, up.GaussSeidel(), reactive=True), RIGHT, rtol=1e-14)


def test_linear_extrapolation_is_exact_but_for_the_first_step(engine: str) -> None:
    exact = T**2 / 2 - np.where(T > 0, H**2 / 2, 0)
    np.testing.assert_allclose(integral(engine, up.Jacobi(), up.Linear()), exact, rtol=1e-13)


def test_linear_interpolation_is_exact(engine: str) -> None:
    found = integral(engine, up.GaussSeidel(order=("clock", "sum")), up.Linear())
    np.testing.assert_allclose(found, T**2 / 2, rtol=1e-13)


def chain() -> up.Scenario:
    copy = up.Function(inputs=["u"], outputs={"y": "u"})
    return up.Scenario(
        units={"last": copy, "middle": copy, "clock": CLOCK},
        connections={"last.u": "middle.y", "middle.u": "clock.y"},
    )


def test_solved_outputs_agree_at_the_communication_point(engine: str) -> None:
    trace = up.simulate(chain(), pace=H, until=N * H, coupling=up.Jacobi(outputs="solved"), engine=engine)
    np.testing.assert_array_equal(trace["last.y"], T)


def test_lagged_outputs_are_a_step_late_per_unit(engine: str) -> None:
    trace = up.simulate(chain(), pace=H, until=N * H, coupling=up.Jacobi(outputs="lagged"), engine=engine)
    np.testing.assert_array_equal(trace["middle.y"], np.maximum(T - H, 0))
    np.testing.assert_array_equal(trace["last.y"], np.maximum(T - 2 * H, 0))


def test_gauss_seidel_solves_outputs_read_too_early(engine: str) -> None:
    backwards = ("last", "middle", "clock")
    solved = up.simulate(chain(), pace=H, until=N * H, coupling=up.GaussSeidel(backwards), engine=engine)
    np.testing.assert_array_equal(solved["last.y"], T)
    lagged = up.simulate(
        chain(), pace=H, until=N * H, coupling=up.GaussSeidel(backwards, "lagged"), engine=engine
    )
    np.testing.assert_array_equal(lagged["last.y"], np.maximum(T - 2 * H, 0))


def loop() -> up.Scenario:
    half = up.Function(inputs={"u": 1.0}, outputs={"y": "0.5*u + 1"})
    return up.Scenario(units={"a": half, "b": half}, connections={"a.u": "b.y", "b.u": "a.y"})


def test_an_algebraic_loop_is_reported_with_its_ports() -> None:
    said = up.explain(up.experiment(loop(), pace=H, until=1))
    assert "Algebraic loops\n  a.u → a.y → b.u → b.y" in said
    assert "algebraic loops by Newton" in said


def test_lagging_breaks_a_loop_by_one_step(engine: str) -> None:
    trace = up.simulate(loop(), pace=H, until=40 * H, coupling=up.Jacobi(outputs="lagged"), engine=engine)
    # y_a(k+1) = 0.5·y_b(k) + 1 and the other way round: what is off halves on its way to the other unit
    a, b = trace["a.y"] - 2, trace["b.y"] - 2
    assert a[0] != 0
    np.testing.assert_allclose(a[1:20], 0.5 * b[:19], rtol=1e-12)
    np.testing.assert_allclose(b[1:20], 0.5 * a[:19], rtol=1e-12)


def test_jacobi_refuses_reactive_inputs() -> None:
    with pytest.raises(up.MasterError, match=r"sum\.u.*reactive.*GaussSeidel"):
        integral("auto", up.Jacobi(), reactive=True)


def test_an_order_against_reactivity_is_refused() -> None:
    with pytest.raises(up.MasterError, match=r"sum\.u is reactive.*clock does not come before"):
        integral("auto", up.GaussSeidel(order=("sum", "clock")), reactive=True)


@pytest.mark.parametrize(
    ("order", "text"),
    [
        (("sum",), "missing: clock"),
        (("sum", "clok"), "Did you mean 'clock'"),
        (("sum", "clock", "sum"), "every unit once"),
    ],
)
def test_a_wrong_order_is_explained(order: tuple[str, ...], text: str) -> None:
    with pytest.raises(up.MasterError, match=text):
        integral("auto", up.GaussSeidel(order=order))


def test_outputs_takes_two_words() -> None:
    with pytest.raises(up.MasterError, match="solved"):
        up.Jacobi(outputs="late")  # type: ignore[arg-type]


def test_an_approximation_for_an_unknown_input_is_refused() -> None:
    scenario = up.Scenario(units={"sum": integrator(), "clock": CLOCK}, connections={"sum.u": "clock.y"})
    with pytest.raises(up.MasterError, match=r"'sum\.v'.*Did you mean 'sum\.u'"):
        up.simulate(scenario, pace=H, until=1, ports={"sum.v": up.Linear()})


def test_one_port_can_have_an_approximation_of_its_own(engine: str) -> None:
    scenario = up.Scenario(units={"sum": integrator(), "clock": CLOCK}, connections={"sum.u": "clock.y"})
    trace = up.simulate(scenario, pace=H, until=N * H, ports={"sum.u": up.Linear()}, engine=engine)
    np.testing.assert_allclose(trace["sum.x"][-1], T[-1] ** 2 / 2 - H**2 / 2, rtol=1e-13)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: up.Jacobi(loops="newton"), r"loops of Jacobi cannot be 'newton'\. Write .*Newton\(\)"),
        (lambda: up.GaussSeidel(loops=up.Newton), r"loops of GaussSeidel cannot be <class"),
        (lambda: up.MultiRate({"a": 2}, loops=3), r"loops of MultiRate cannot be 3"),
        (lambda: up.GaussSeidel(order="ab"), r"order of GaussSeidel lists units, .* not 'ab'"),
        (lambda: up.GaussSeidel(order=3), r"order of GaussSeidel lists units, .* not 3"),
        (lambda: up.Master(0.1), r"the pace of a Master cannot be 0\.1\. Write .* up\.Fixed\(0\.1\)"),
        (lambda: up.Master(up.Fixed(0.1), "jacobi"), r"the coupling of a Master cannot be 'jacobi'"),
        (lambda: up.Master(up.Fixed(0.1), up.Jacobi), r"the coupling of a Master cannot be <class"),
        (lambda: up.Master(up.Fixed(0.1), inputs="linear"), r"the inputs of a Master cannot be 'linear'"),
        (lambda: up.Master(up.Fixed(0.1), ports=["a.u"]), r"ports of a Master are such as"),
        (lambda: up.Master(up.Fixed(0.1), ports={"a.u": 1}), r"the approximation of 'a\.u' cannot be 1"),
        (lambda: up.Master(up.Fixed(0.1), simultaneous=["a"]), r"simultaneous of a Master is such as"),
    ],
)
def test_what_is_no_part_of_a_master_is_refused_where_it_is_written(make: Any, words: str) -> None:
    with pytest.raises(up.MasterError, match=words):
        make()


def test_a_wrong_order_is_told_the_units_that_people_know() -> None:
    tank = up.Ode(states={"x": "u"}, inputs=["u"])
    scenario = up.Scenario(units={"tank": tank}, connections={"tank.u": "f"}, inputs=["f"])
    with pytest.raises(up.MasterError, match=r"names 'engine', which is not a unit\. The units are: tank\."):
        up.simulate(scenario, coupling=up.GaussSeidel(order=("engine",)), pace=0.1, until=1.0)
