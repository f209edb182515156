"""Algebraic loops: solved to their closed form, or named with ports and residuals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import upbeat as up

SOLVERS = [up.Newton(), up.FixedPoint(), up.Anderson()]


def ring(gains: list[float], offsets: list[float]) -> up.Scenario:
    """Units y = gain·u + offset in a ring; y_0 = (Σ offsets weighted) / (1 - Π gains)."""
    n = len(gains)
    units = {
        f"m{i}": up.Function(inputs=["u"], outputs={"y": f"({g!r})*u + ({o!r})"})
        for i, (g, o) in enumerate(zip(gains, offsets, strict=True))
    }
    return up.Scenario(units=units, connections={f"m{(i + 1) % n}.u": f"m{i}.y" for i in range(n)})


@pytest.mark.parametrize("loops", SOLVERS, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("coupling", [up.Jacobi, up.GaussSeidel])
def test_a_linear_ring_has_its_closed_form(engine: str, loops: object, coupling: type) -> None:
    scenario = ring([0.5, -0.8, 0.9], [1.0, 2.0, -1.0])
    trace = up.simulate(scenario, pace=0.5, until=1.0, coupling=coupling(loops=loops), engine=engine)
    matrix = np.array([[1, 0, -0.5], [0.8, 1, 0], [0, -0.9, 1]])
    exact = np.linalg.solve(matrix, [1.0, 2.0, -1.0])
    for i in range(3):
        np.testing.assert_allclose(trace[f"m{i}.y"], exact[i], rtol=1e-8)


def two_dimensional() -> up.Scenario:
    a = up.Function(inputs={"u": 1.0, "w": 0.5}, outputs={"y": "cos(u) + 0.1*w + 0.1*time", "z": "u*w"})
    b = up.Function(inputs=["u", "v"], outputs={"y": "0.7*u - 0.2*v", "q": "sin(u)*0.5"})
    links = {"a.u": "b.y", "a.w": "2*b.q", "b.u": "a.y", "b.v": "a.z"}
    return up.Scenario(units={"a": a, "b": b}, connections=links)


@pytest.mark.parametrize("loops", SOLVERS, ids=lambda s: type(s).__name__)
def test_a_nonlinear_loop_of_several_ports_agrees_with_itself(engine: str, loops: object) -> None:
    trace = up.simulate(
        two_dimensional(), pace=0.1, until=1.0, coupling=up.Jacobi(loops=loops), engine=engine
    )
    y, z, by, q = (trace[name] for name in ("a.y", "a.z", "b.y", "b.q"))
    np.testing.assert_allclose(y, np.cos(by) + 0.2 * q + 0.1 * trace.time, atol=1e-9)
    np.testing.assert_allclose(z, 2 * by * q, atol=1e-9)
    np.testing.assert_allclose(by, 0.7 * y - 0.2 * z, atol=1e-9)
    np.testing.assert_allclose(q, 0.5 * np.sin(y), atol=1e-9)


def test_newton_converges_where_the_gain_is_far_above_one(engine: str) -> None:
    trace = up.simulate(ring([3.0, 7.0], [1.0, 1.0]), pace=0.5, until=1.0, engine=engine)
    np.testing.assert_allclose(trace["m0.y"], (1.0 + 3.0) / (1 - 21), rtol=1e-8)


def test_a_loop_with_states_follows_the_implicit_equation(engine: str) -> None:
    """x' = -y with y = x + 0.5·y: the loop gives y = 2x, so x = exp(-2t)."""
    plant = up.Ode(states={"x": "-u"}, start={"x": 1.0}, inputs=["u", "v"], outputs={"y": "x + v"})
    half = up.Function(inputs=["u"], outputs={"y": "0.5*u"})
    links = {"plant.u": "plant.y", "plant.v": "half.y", "half.u": "plant.y"}
    scenario = up.Scenario(units={"plant": plant, "half": half}, connections=links)
    trace = up.simulate(scenario, pace=1e-3, until=1.0, inputs=up.Linear(), engine=engine)
    np.testing.assert_allclose(
        trace["plant.x" if "plant.x" in trace else "plant.y"][-1], 2 * np.exp(-2), rtol=1e-4
    )


@pytest.mark.parametrize("loops", SOLVERS, ids=lambda s: type(s).__name__)
def test_a_loop_without_solution_is_named_with_its_residual(engine: str, loops: object) -> None:
    with pytest.raises(
        up.StepError, match=r"algebraic loop.*m0\.u.*did not end.*residual of m0\.u"
    ) as caught:
        up.simulate(ring([1.0], [1.0]), pace=0.5, until=1.0, coupling=up.Jacobi(loops=loops), engine=engine)
    assert "m0.y" in str(caught.value)


def test_a_loop_of_whole_numbers_is_refused() -> None:
    count = up.Function(
        inputs={"u": {"kind": "integer"}}, outputs={"y": {"value": "u + 1", "kind": "integer"}}
    )
    scenario = up.Scenario(units={"a": count}, connections={"a.u": "a.y"})
    with pytest.raises(up.MasterError, match=r"integer.*lagged"):
        up.simulate(scenario, pace=1, until=2)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_random_linear_loops_are_solved_or_named(data: st.DataObject) -> None:
    """Random graphs of functions y = Σ w·u: the run solves the linear system, or says that it cannot."""
    n = data.draw(st.integers(2, 5))
    weight = st.sampled_from([0.0, 0.0, 0.5, -0.7, 1.5, -2.0])
    rows = [[data.draw(weight) for _ in range(n)] for _ in range(n)]
    w = np.array(rows)
    offsets = [data.draw(st.sampled_from([1.0, -0.5, 2.0])) for _ in range(n)]
    units, links = {}, {}
    for i in range(n):
        used = [j for j in range(n) if rows[i][j]]
        terms = "".join(f" + ({rows[i][j]!r})*u{j}" for j in used)
        units[f"m{i}"] = up.Function(inputs=[f"u{j}" for j in used], outputs={"y": f"{offsets[i]!r}{terms}"})
        links |= {f"m{i}.u{j}": f"m{j}.y" for j in used}
    system = np.eye(n) - w
    loops = data.draw(st.sampled_from([up.Newton(), up.Anderson()]))
    try:
        trace = up.simulate(
            up.Scenario(units=units, connections=links), pace=1, until=1, coupling=up.Jacobi(loops=loops)
        )
    except up.StepError as error:
        # Newton must only give up on systems that are (nearly) singular
        assert "algebraic loop" in str(error)  # noqa: PT017
        assert isinstance(loops, up.Anderson) or np.linalg.cond(system) > 1e6
        return
    found = np.array([trace[f"m{i}.y"][-1] for i in range(n)])
    np.testing.assert_allclose(system @ found, offsets, atol=1e-6)
