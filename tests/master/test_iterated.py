"""Strong coupling: the repeated step agrees with itself, and gains orders of accuracy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import upbeat as up


def oscillator() -> up.Scenario:
    """x' = v and v' = -x in two units: x = cos t."""
    position = up.Ode(states={"x": "v"}, start={"x": 1.0}, inputs=["v"], solver=up.RK4(steps=4))
    velocity = up.Ode(states={"v": "-x"}, inputs=["x"], solver=up.RK4(steps=4))
    return up.Scenario(units={"p": position, "q": velocity}, connections={"p.v": "q.v", "q.x": "p.x"})


def error(engine: str, coupling: object, inputs: object, step: float) -> float:
    trace = up.simulate(oscillator(), pace=step, until=4.0, coupling=coupling, inputs=inputs, engine=engine)
    return float(np.abs(trace["p.x"] - np.cos(trace.time)).max())


@pytest.mark.parametrize("inner", [up.Jacobi(), up.GaussSeidel()], ids=["jacobi", "gauss_seidel"])
def test_linear_inputs_give_the_trapezoidal_rule(engine: str, inner: object) -> None:
    """With chords as inputs and exact integration, an agreed step is x' = x + h·(v + v')/2 and so on."""
    h = 0.25
    trace = up.simulate(
        oscillator(),
        pace=h,
        until=2.0,
        coupling=up.Iterated(inner, tolerance=1e-13),
        inputs=up.Linear(),
        engine=engine,
    )
    a, b = np.array([[1, -h / 2], [h / 2, 1]]), np.array([[1, h / 2], [-h / 2, 1]])
    state = np.array([1.0, 0.0])
    for x, v in zip(trace["p.x"], trace["q.v"], strict=True):
        np.testing.assert_allclose([x, v], state, atol=1e-11)
        state = np.linalg.solve(a, b @ state)


@pytest.mark.parametrize(("inputs", "order"), [(up.Hold(), 1), (up.Linear(), 2), (up.Polynomial(2), 3)])
def test_orders_of_convergence(inputs: object, order: int) -> None:
    coarse, fine = (error("auto", up.Iterated(), inputs, step) for step in (0.05, 0.025))
    assert np.log2(coarse / fine) == pytest.approx(order, abs=0.15)


def test_corrections_are_a_fixed_number_of_rounds(engine: str) -> None:
    """Without a correction Jacobi with chords would hold; each correction brings it closer to agreement."""
    agreed = error(engine, up.Iterated(up.Jacobi(), tolerance=1e-12), up.Linear(), 0.2)
    trace = {
        n: up.simulate(
            oscillator(),
            pace=0.2,
            until=4.0,
            coupling=up.Iterated(up.Jacobi(), corrections=n),
            inputs=up.Linear(),
            engine=engine,
        )["p.x"]
        for n in (1, 2, 3, 8)
    }
    distance = [np.abs(trace[n] - trace[8]).max() for n in (1, 2, 3)]
    assert distance[1] < distance[0] / 3
    assert distance[2] < distance[1] / 3
    assert agreed < 0.05


def test_a_step_that_never_agrees_is_named(engine: str) -> None:
    """With a huge step, successive substitution of this pair diverges."""
    with pytest.raises(
        up.StepError,
        match=(
            r"p\.v.*q\.x.*did not end within 20 rounds in the step from t = 0 to 6 "
            r"\(change of p\.v over its tolerance .*, change of q\.x over its tolerance .*\)\. Take shorter"
        ),
    ):
        up.simulate(
            oscillator(),
            pace=6.0,
            until=12.0,
            coupling=up.Iterated(up.Jacobi(), max_iterations=20),
            inputs=up.Linear(),
            engine=engine,
        )


def test_units_without_rollback_are_refused_before_the_run() -> None:
    class Forward:
        def __init__(self, name: str, start: float, parameters: dict[str, object]) -> None: ...
        def get(self, port: str) -> float:
            return 1.0

        def set(self, port: str, coefficients: object) -> None: ...
        def advance(self, t: float, to: float, early: bool) -> float:
            return to

    ports = (up.Port("u", up.Causality.INPUT), up.Port("y", up.Causality.OUTPUT))
    pair = up.PythonUnit(Forward, ports)
    scenario = up.Scenario(units={"a": pair, "b": pair}, connections={"a.u": "b.y", "b.u": "a.y"})
    with pytest.raises(up.MasterError, match=r"unit 'a'.*rollback.*repeats steps"):
        up.simulate(scenario, pace=1, until=2, coupling=up.Iterated())


def switching(rate: float) -> up.Scenario:
    """x grows at `rate` while it is on; it is on while x is below 0.5, seen at the end of the step."""
    p = up.Ode(
        states={"x": "(rate if on else 0)"},
        inputs={"on": {"kind": "boolean", "start": True}},
        parameters={"rate": rate},
    )
    q = up.Function(inputs=["x"], outputs={"on": {"value": "x < 0.5", "kind": "boolean"}})
    return up.Scenario(units={"p": p, "q": q}, connections={"p.on": "q.on", "q.x": "p.x"})


def test_inputs_that_are_not_real_must_agree_too(engine: str) -> None:
    """From 0 with rate 1, "on" leads to 1, which is off, and "off" to 0, which is on: no agreement."""
    with pytest.raises(up.StepError, match=r"until .*p\.on.* agree"):
        up.simulate(switching(1.0), pace=1.0, until=1.0, coupling=up.Iterated(), engine=engine)
    trace = up.simulate(switching(0.3), pace=1.0, until=1.0, coupling=up.Iterated(), engine=engine)
    assert trace["p.x"][-1] == pytest.approx(0.3)


def test_other_couplings_cannot_be_iterated() -> None:
    with pytest.raises(up.MasterError, match="coupling inside Iterated must be Jacobi or GaussSeidel"):
        up.Iterated(up.MultiRate({"p": 2}))  # type: ignore[arg-type]


@pytest.mark.parametrize("inner", [up.Jacobi(), up.GaussSeidel()], ids=["jacobi", "gauss_seidel"])
@pytest.mark.parametrize("ratio", [1.0, 1e-12, 1e12], ids=lambda ratio: f"ratio {ratio:g}")
@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1.0, 1e6, 1e12])
def test_steps_agree_relative_to_values_of_any_size(
    engine: str, inner: object, scale: float, ratio: float
) -> None:
    """The trapezoidal rule again, x being measured in `scale` and v in `scale` times `ratio`."""
    position = up.Ode({"x": f"v/{ratio!r}"}, start={"x": scale}, inputs=["v"], solver=up.RK4(steps=4))
    velocity = up.Ode({"v": f"-x*{ratio!r}"}, inputs=["x"], solver=up.RK4(steps=4))
    scenario = up.Scenario({"p": position, "q": velocity}, {"p.v": "q.v", "q.x": "p.x"})
    h = 0.25
    trace = up.simulate(
        scenario, pace=h, until=4.0, coupling=up.Iterated(inner), inputs=up.Linear(), engine=engine
    )
    a, b = np.array([[1, -h / 2], [h / 2, 1]]), np.array([[1, h / 2], [-h / 2, 1]])
    state = np.array([1.0, 0.0])
    for x, v in zip(trace["p.x"], trace["q.v"], strict=True):
        np.testing.assert_allclose([x / scale, v / scale / ratio], state, atol=2e-8)
        state = np.linalg.solve(a, b @ state)


@pytest.mark.parametrize("noise", [1e-16, 1e-13, 1e-10])
def test_values_that_are_all_rounding_do_not_end_a_run(engine: str, noise: float) -> None:
    """The force is what rounding leaves of zero: another one in every round, however near its input is."""
    a = up.Ode({"x": "F + 0.1*sin(time)"}, start={"x": 0.3}, inputs=["F"], outputs=["x"])
    f = up.Function(inputs=["x"], outputs={"F": f"{noise!r}*sin({1e3 / noise!r}*x)", "zero": "0*x"})
    scenario = up.Scenario({"a": a, "f": f}, {"a.F": "f.F + f.zero", "f.x": "a.x"})
    how: dict[str, Any] = {
        "coupling": up.Iterated(max_iterations=50),
        "inputs": up.Linear(),
        "engine": engine,
    }
    trace = up.simulate(scenario, pace=0.1, until=2.0, **how)
    np.testing.assert_allclose(trace["a.x"], 0.4 - 0.1 * np.cos(trace.time), atol=1e-6)
    assert 0.0 < np.abs(trace["f.F"]).max() <= noise


@pytest.mark.parametrize("scale", [1e-12, 1.0])
def test_steps_that_drift_apart_are_no_rounding_however_small(engine: str, scale: float) -> None:
    """Each round makes the change larger by half: what is small beside 1 is not small beside the values."""
    a = up.Ode({"x": "u"}, start={"x": scale}, inputs=["u"])
    b = up.Function(inputs=["x"], outputs={"u": "-3.0*x"})
    scenario = up.Scenario({"a": a, "b": b}, {"a.u": "b.u", "b.x": "a.x"})
    how: dict[str, Any] = {
        "coupling": up.Iterated(max_iterations=20),
        "inputs": up.Linear(),
        "engine": engine,
    }
    with pytest.raises(up.StepError, match="did not end within 20 rounds"):
        up.simulate(scenario, pace=1.0, until=2.0, **how)
