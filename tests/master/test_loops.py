"""Algebraic loops: solved to their closed form, or named with ports and residuals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import upbeat as up
from upbeat.engine.native import machine as native

ENGINES = ["interpret", "native"] if native.available() else ["interpret"]
SOLVERS = [up.Newton(), up.Newton(slopes="differences"), up.FixedPoint(), up.Anderson()]


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
    np.testing.assert_allclose(trace["plant.y"][-1], 2 * np.exp(-2), rtol=1e-4)


@pytest.mark.parametrize("loops", SOLVERS, ids=lambda s: type(s).__name__)
def test_a_loop_without_solution_is_named_with_its_residual(engine: str, loops: object) -> None:
    with pytest.raises(
        up.StepError, match=r"algebraic loop.*m0\.u.*did not end.*residual of m0\.u"
    ) as caught:
        up.simulate(ring([1.0], [1.0]), pace=0.5, until=1.0, coupling=up.Jacobi(loops=loops), engine=engine)
    assert "m0.y" in str(caught.value)
    assert "rounds at t = 0 (" in str(caught.value)
    assert 'break it with outputs="lagged"' in str(caught.value)


def test_looking_back_for_ever_is_refused() -> None:
    with pytest.raises(up.MasterError, match="the depth of Anderson, 1000, is more than 50"):
        up.Anderson(depth=1000)


def test_a_loop_of_whole_numbers_is_refused() -> None:
    count = up.Function(
        inputs={"u": {"kind": "integer"}}, outputs={"y": {"value": "u + 1", "kind": "integer"}}
    )
    scenario = up.Scenario(units={"a": count}, connections={"a.u": "a.y"})
    with pytest.raises(up.MasterError, match=r"integer.*lagged"):
        up.simulate(scenario, pace=1, until=2)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_random_loops_are_solved_or_named(data: st.DataObject) -> None:
    """Random graphs of functions y = o + Σ f(w·u), linear or not: the equations hold, or the run says no.

    Newton must solve every linear one that is not nearly singular, Anderson every contraction.
    """
    n = data.draw(st.integers(2, 5))
    weight = st.sampled_from([0.0, 0.0, 0.5, -0.7, 1.5, -2.0])
    shape, curve = data.draw(
        st.sampled_from([("{}", lambda z: z), ("sin({})", np.sin), ("tanh({})", np.tanh)])
    )
    scale = data.draw(st.sampled_from([1.0, 0.2]))
    w = scale * np.array([[data.draw(weight) for _ in range(n)] for _ in range(n)])
    offsets = [data.draw(st.sampled_from([1.0, -0.5, 2.0])) for _ in range(n)]
    units, links = {}, {}
    for i in range(n):
        used = [j for j in range(n) if w[i, j]]
        terms = "".join(" + " + shape.format(f"({float(w[i, j])!r})*u{j}") for j in used)
        units[f"m{i}"] = up.Function(inputs=[f"u{j}" for j in used], outputs={"y": f"{offsets[i]!r}{terms}"})
        links |= {f"m{i}.u{j}": f"m{j}.y" for j in used}
    loops = data.draw(st.sampled_from([up.Newton(), up.Anderson()]))
    scenario = up.Scenario(units=units, connections=links)
    contracts = float(np.abs(w).sum(axis=1).max()) < 0.9
    regular = shape == "{}" and np.linalg.cond(np.eye(n) - w) < 1e6
    for engine in ENGINES:
        try:
            trace = up.simulate(scenario, pace=1, until=1, coupling=up.Jacobi(loops=loops), engine=engine)
        except up.StepError as error:
            assert "algebraic loop" in str(error)  # noqa: PT017
            assert not (regular if isinstance(loops, up.Newton) else contracts)
            continue
        found = np.array([trace[f"m{i}.y"][-1] for i in range(n)])
        np.testing.assert_allclose(found, offsets + curve(w * found).sum(axis=1), atol=1e-6)


def wandering() -> up.Scenario:
    """(u - a)·(u - b) = 0 with a from -2 to 2 and b from -6 to -2.5 in 2 s, where u starts on a.

    Whoever solves at the end from the solution of the start ends up on the other branch.
    """
    curve = up.Function(inputs={"u": -2.0, "a": -2.0, "b": -6.0}, outputs={"y": "u - (u - a)*(u - b)/8"})
    drive = up.Function(outputs={"a": "-2 + 2*time", "b": "-6 + 1.75*time"})
    spare = up.Ode(states={"x": "k"}, inputs=["k"])
    return up.Scenario(
        units={"curve": curve, "drive": drive, "spare": spare},
        connections={"curve.u": "curve.y", "curve.a": "drive.a", "curve.b": "drive.b", "spare.k": "k"},
        inputs=["k"],
        outputs={"u": "curve.y"},
    )


@pytest.mark.parametrize(
    "coupling", [up.Jacobi(), up.GaussSeidel(), up.MultiRate({"spare": 2})], ids=lambda c: type(c).__name__
)
def test_an_exchange_from_outside_stays_on_its_branch(engine: str, coupling: object) -> None:
    """Setting an input that has nothing to do with the loop leaves it alone."""
    with up.start(wandering(), pace=0.1, until=3.0, coupling=coupling, engine=engine) as run:
        while run.time < 1.95:
            run.step()
        assert run["u"] == pytest.approx(2.0)
        run.set("k", 1.0)
        assert run["u"] == pytest.approx(2.0)


def test_a_nested_loop_stays_on_its_branch(engine: str) -> None:
    nest = up.Nested(wandering(), up.Master(up.Fixed(0.1)), engine=engine, flatten=False)
    clock = up.Function(outputs={"y": "time"})
    outer = up.Scenario(units={"nest": nest, "clock": clock}, connections={"nest.k": "clock.y"})
    trace = up.simulate(outer, pace=2.0, until=2.0, engine=engine)
    assert trace["nest.u"][-1] == pytest.approx(2.0)


@pytest.mark.parametrize("loops", SOLVERS, ids=lambda s: type(s).__name__)
def test_a_loop_that_gives_no_number_is_not_solved(engine: str, loops: object) -> None:
    sign = up.Function(inputs=["u"], outputs={"y": "(1 if u > 0 else -1)"})
    scenario = up.Scenario(units={"a": sign}, connections={"a.u": "sqrt(a.y - 3)"})
    with pytest.raises(up.StepError, match=r"algebraic loop.*residual of a\.u.*nan"):
        up.simulate(scenario, pace=1, until=1, coupling=up.Jacobi(loops=loops), engine=engine)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: up.Newton(tolerance=-1), "tolerance of Newton must be a positive number"),
        (lambda: up.Newton(tolerance="small"), "tolerance of Newton must be a positive number"),
        (lambda: up.Newton(most=0), "most of Newton must be a whole number"),
        (lambda: up.Newton(difference=0), "difference of Newton must be a positive number"),
        (lambda: up.FixedPoint(damping=0), "damping of FixedPoint must be a positive number"),
        (lambda: up.FixedPoint(most=2.5), "most of FixedPoint must be a whole number"),
        (lambda: up.Anderson(depth=0), "depth of Anderson must be a whole number of at least 1"),
        (lambda: up.Anderson(tolerance=float("nan")), "tolerance of Anderson must be a positive"),
    ],
)
def test_solvers_check_their_settings(make: Callable[[], object], text: str) -> None:
    with pytest.raises(up.MasterError, match=text):
        make()
