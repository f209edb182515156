"""Algebraic loops: solved to their closed form, or named with ports and residuals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, root

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
        (lambda: up.Newton(max_iterations=0), "max_iterations of Newton must be a whole number"),
        (lambda: up.Newton(difference=0), "difference of Newton must be a positive number"),
        (lambda: up.FixedPoint(damping=0), "damping of FixedPoint must be a positive number"),
        (lambda: up.FixedPoint(max_iterations=2.5), "max_iterations of FixedPoint must be a whole number"),
        (lambda: up.Anderson(depth=0), "depth of Anderson must be a whole number of at least 1"),
        (lambda: up.Anderson(tolerance=float("nan")), "tolerance of Anderson must be a positive"),
    ],
)
def test_solvers_check_their_settings(make: Callable[[], object], text: str) -> None:
    with pytest.raises(up.MasterError, match=text):
        make()


def gap(found: float, true: float) -> float:
    return abs(found - true) / abs(true)


@pytest.mark.parametrize("loops", SOLVERS, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("size", [1e-100, 1e-12, 1e-3, 1e12, 1e100])
def test_a_loop_is_solved_as_well_in_picoamperes_as_in_terawatts(
    engine: str, loops: object, size: float
) -> None:
    """u = (s + tanh(u/s)·s)/2 and the like: the same equation in other units of measure."""
    curve = up.Function(inputs=["u"], outputs={"y": f"{size}*(0.5 + 0.5*tanh(u/{size}))"})
    scenario = up.Scenario({"a": curve}, {"a.u": "a.y"})
    trace = up.simulate(scenario, pace=1, until=1, coupling=up.Jacobi(loops=loops), engine=engine)
    true = brentq(lambda w: 0.5 + 0.5 * np.tanh(w) - w, 0.0, 2.0, xtol=1e-15)
    assert gap(trace["a.y"][-1] / size, true) < 1e-9


def diode(volts: float, ohms: float, order: str) -> up.Scenario:
    parts = {
        "d": up.Function(inputs=["v"], outputs={"i": "1e-14*(exp(v/0.025) - 1)"}),
        "r": up.Function(inputs=["i"], outputs={"v": f"{volts} - {ohms}*i"}),
    }
    return up.Scenario({name: parts[name] for name in order}, {"d.v": "r.v", "r.i": "d.i"})


@pytest.mark.parametrize("order", ["dr", "rd"])
@pytest.mark.parametrize("slopes", ["auto", "differences"])
@pytest.mark.parametrize("volts", [1e-9, 1.0, 10.0, 24.0, 1000.0, -10.0])
@pytest.mark.parametrize("ohms", [1e-3, 1e3, 1e9])
def test_a_diode_and_a_resistor(volts: float, ohms: float, slopes: str, order: str) -> None:
    """Cut at the voltage or at the current; from 24 V on, exp overflows where the latter begins."""
    coupling = up.Jacobi(loops=up.Newton(slopes=slopes))
    found = [
        up.simulate(diode(volts, ohms, order), pace=1, until=1, coupling=coupling, engine=engine)["d.i"]
        for engine in ENGINES
    ]
    assert all(np.array_equal(found[0], other) for other in found)
    true = -1e-14
    if volts > 0:
        rest = lambda v: v + ohms * 1e-14 * np.expm1(min(v / 0.025, 700.0)) - volts  # noqa: E731
        true = 1e-14 * np.expm1(brentq(rest, 0.0, volts, xtol=1e-300, rtol=1e-15) / 0.025)
    assert gap(found[0][-1], true) < 1e-8


@pytest.mark.parametrize("seed", range(16))
def test_random_networks_of_diodes_at_any_scale(seed: int) -> None:
    """v + R·i(v) = V, from 1e-12 to 1e12 in volts and amperes, against SciPy in numbers without units."""
    rng = np.random.default_rng(seed)
    n, volt, ampere = int(rng.integers(1, 5)), *10.0 ** rng.integers(-12, 13, 2)
    heat = float(rng.choice([0.025, 0.1, 1.0]))
    leak = rng.choice([1e-12, 1e-6, 1e-3], n)
    source = rng.uniform(-1, 1, n) * rng.choice([0.1, 1.0, 10.0], n)
    ohms = rng.uniform(0, 0.3, (n, n))
    ohms = (ohms + ohms.T) / 2 + np.diag(rng.uniform(0.5, 2.0, n))
    units: dict[str, up.Function] = {}
    for k in range(n):
        law = f"{float(leak[k] * ampere)}*(exp(v/{float(heat * volt)}) - 1)"
        drop = "".join(f" - {float(ohms[k, j] * volt / ampere)}*i{j}" for j in range(n))
        units[f"d{k}"] = up.Function(inputs=["v"], outputs={"i": law})
        units[f"r{k}"] = up.Function(
            inputs=[f"i{j}" for j in range(n)], outputs={"v": f"{float(source[k] * volt)}{drop}"}
        )
    links = {f"d{k}.v": f"r{k}.v" for k in range(n)}
    links |= {f"r{k}.i{j}": f"d{j}.i" for k in range(n) for j in range(n)}
    scenario = up.Scenario({name: units[name] for name in sorted(units, reverse=seed % 2 == 0)}, links)
    loops = up.Newton(slopes="differences" if seed % 3 == 0 else "auto")
    trace = up.simulate(scenario, pace=1, until=1, coupling=up.Jacobi(loops=loops))

    def rest(v: np.ndarray) -> np.ndarray:
        return v + ohms @ (leak * np.expm1(np.minimum(v / heat, 700.0))) - source

    # One voltage after the other, by bisection: ohms⁻¹·rest is the gradient of something convex.
    inverse, v = np.linalg.inv(ohms), np.zeros(n)
    for _ in range(200):
        for k in range(n):
            one = lambda a, k=k: (inverse @ rest(np.where(np.arange(n) == k, a, v)))[k]  # noqa: E731
            v[k] = brentq(one, -100.0, 100.0, xtol=1e-300, rtol=1e-15)
    v = root(rest, v, tol=1e-15).x
    for k in range(n):
        assert gap(trace[f"r{k}.v"][-1] / volt, v[k]) < 1e-7
        assert gap(trace[f"d{k}.i"][-1] / ampere, leak[k] * np.expm1(v[k] / heat)) < 1e-6


def test_a_loop_that_comes_to_rest_stays_solved(engine: str) -> None:
    """A diode whose source dies away: exp(v) - 1 is all rounding long before v is zero."""
    source = up.Ode({"s": "-s"}, start={"s": 1.0})
    load = up.Function(inputs=["v"], outputs={"i": "exp(v) - 1"})
    resistor = up.Function(inputs=["i", "s"], outputs={"v": "s - 1000*i"})
    links = {"load.v": "resistor.v", "resistor.i": "load.i", "resistor.s": "source.s"}
    scenario = up.Scenario({"source": source, "load": load, "resistor": resistor}, links)
    trace = up.simulate(scenario, pace=0.5, until=60.0, engine=engine)
    assert abs(trace["resistor.v"][-1]) < 1e-12


@pytest.mark.parametrize("loops", SOLVERS, ids=lambda s: type(s).__name__)
def test_a_relay_in_a_loop_has_no_solution(engine: str, loops: object) -> None:
    """u = 1 for u < 0, else -1."""
    relay = up.Function(inputs=["u"], outputs={"y": "(1e-9 if u < 0 else -1e-9)"})
    with pytest.raises(up.StepError, match="An output that jumps may leave a loop without a solution"):
        up.simulate(
            up.Scenario({"a": relay}, {"a.u": "a.y"}),
            pace=1,
            until=1,
            coupling=up.Jacobi(loops=loops),
            engine=engine,
        )


@pytest.mark.parametrize("rest", [1e-3, 1e-5, 1e-7, 1e-9, 1e-12])
def test_what_rounding_leaves_undetermined_is_said(engine: str, rest: float) -> None:
    """u = (1 - rest)·u + 1: right to the tolerance, or an error that shows the doubt and what to type."""
    for tolerance in (1e-10, 1e-2):
        coupling = up.Jacobi(loops=up.Newton(tolerance=tolerance))
        try:
            trace = up.simulate(ring([1 - rest], [1.0]), pace=1, until=1, coupling=coupling, engine=engine)
        except up.StepError as error:
            assert "rounding of m0.u" in str(error)  # noqa: PT017
            assert "raise it" in str(error)  # noqa: PT017
            assert tolerance * rest < 1e-15
        else:
            assert gap(trace["m0.y"][-1], 1 / (1 - (1 - rest))) < tolerance


@pytest.mark.parametrize("slopes", ["auto", "units", "differences"])
def test_a_dense_loop_has_as_many_unknowns_as_outputs(slopes: str) -> None:
    """Units that all read each other are cut at outputs; the program grows no faster than the connections."""
    counts = {}
    for n in (6, 15):
        rng = np.random.default_rng(n)
        w = (rng.normal(size=(n, n)) / n * (1 - np.eye(n))).tolist()
        units, links = {}, {}
        for i in range(n):
            others = [j for j in range(n) if j != i]
            terms = "".join(f" + ({w[i][j]})*tanh(u{j})" for j in others)
            units[f"m{i}"] = up.Function(inputs=[f"u{j}" for j in others], outputs={"y": f"1{terms}"})
            links |= {f"m{i}.u{j}": f"m{j}.y" for j in others}
        scenario, coupling = up.Scenario(units, links), up.Jacobi(loops=up.Newton(slopes=slopes))
        counts[n] = len(list(up.Master(up.Fixed(1.0), coupling).program(scenario).instructions()))
        assert len(scenario.graph.torn(scenario.graph.loops[0])[0]) < n
        trace = up.simulate(scenario, pace=1, until=1, coupling=coupling)
        found = np.array([trace[f"m{i}.y"][-1] for i in range(n)])
        np.testing.assert_allclose(found, 1 + np.array(w) @ np.tanh(found), rtol=1e-9)
    assert counts[15] < 1.3 * 2.5**2 * counts[6]


@pytest.mark.parametrize("loops", SOLVERS, ids=lambda s: type(s).__name__)
def test_a_loop_that_any_value_fulfils_is_an_error(engine: str, loops: object) -> None:
    """x = y, y = x: the first guess is a solution, and so is any other."""
    coupling = up.Jacobi(loops=loops)
    for units in (ring([1.0, 1.0], [0.0, 0.0]), ring([3.0, 1 / 3], [0.0, 0.0])):
        with pytest.raises(up.StepError, match=r"m0\.u.* → m1\.y failed at t = 0\. Other values") as caught:
            up.simulate(units, pace=0.5, until=1.0, coupling=coupling, engine=engine)
        assert "Change a gain" in str(caught.value)


def test_a_point_without_slopes_that_is_the_only_solution_is_none(engine: str) -> None:
    """x = x - x² has the solution 0 alone, where the slope of the loop is 1 as well."""
    square = up.Function(inputs=["u"], outputs={"y": "u - u**2"})
    loop = up.Scenario(units={"m": square}, connections={"m.u": "m.y"})
    assert list(up.simulate(loop, pace=0.02, until=1.0, engine=engine)["m.y"]) == [0.0] * 51


def test_a_loop_at_rest_that_becomes_undetermined_later_is_told(engine: str) -> None:
    """Its residual stays exactly 0, so the solver has no reason of its own to look at slopes."""
    gain = up.Function(inputs=["u"], outputs={"y": "u if time > 0.45 else 0.5*u"})
    loop = up.Scenario(units={"m": gain}, connections={"m.u": "m.y"})
    with pytest.raises(up.StepError, match=r"m\.u → m\.y.* multiply to 1"):
        up.simulate(loop, pace=0.01, until=1.0, engine=engine)


@pytest.mark.parametrize("seed", range(6))
def test_random_loops_are_called_undetermined_where_their_matrix_is_singular(seed: int) -> None:
    """Judge: singular values of 1 - J, scaled as in loops of several units of measure."""
    random = np.random.default_rng(seed)
    n = int(random.integers(1, 5))
    left, right = (np.linalg.qr(random.normal(size=(n, n)))[0] for _ in range(2))
    least = [0.0, 1e-9, 0.2][seed % 3]
    scales = 10.0 ** random.uniform(-5, 5, n)
    gains = np.eye(n) - scales[:, None] * (left @ np.diag([1.0] * (n - 1) + [least]) @ right) / scales
    inputs, outputs = [f"u{i}" for i in range(n)], [f"y{i}" for i in range(n)]
    terms = {y: " + ".join(f"({float(g)!r})*{u}" for g, u in zip(row, inputs, strict=True))
             for y, row in zip(outputs, gains, strict=True)}  # fmt: skip
    loop = up.Scenario(
        units={"m": up.Function(inputs=inputs, outputs=terms)},
        connections={f"m.{u}": f"m.{y}" for u, y in zip(inputs, outputs, strict=True)},
    )
    found = []
    for engine in ENGINES:
        for slopes in ("units", "differences"):
            coupling = up.Jacobi(loops=up.Newton(slopes=slopes))  # type: ignore[arg-type]
            try:
                trace = up.simulate(loop, pace=0.5, until=0.5, coupling=coupling, engine=engine)
            except up.StepError as error:
                assert least == 0.0
                assert "Other values" in str(error)  # noqa: PT017
                continue
            assert least > 0.0
            (warning,) = trace.info.get("warnings", ["none"])
            assert ("condition number" in warning) == (least == 1e-9)
            found.append(warning)
    assert len(set(found)) <= 2  # one for each way to find slopes: the engines say the same


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "loops", [up.FixedPoint(), up.Anderson(), up.Newton()], ids=["plain", "anderson", "newton"]
)
@pytest.mark.parametrize("python", [False, True], ids=["equations", "python"])
def test_a_loop_that_becomes_undetermined_in_a_run_is_told_by_all_solvers(
    engine: str, loops: Any, python: bool
) -> None:
    """x = k·x with k = 1 from t = 1 on: whatever x is, it is a solution; to begin with it was 0 alone."""
    gain: Any = up.Function(["u"], {"y": "u*min(time, 1)"})
    if python:
        gain = up.PythonFunction(lambda t, u, p: u.u * min(t, 1.0), inputs=["u"], outputs=["y"])
    units = {"a": gain, "b": up.Function(["u"], {"y": "u"})}
    scenario = up.Scenario(units, {"a.u": "b.y", "b.u": "a.y"})
    with pytest.raises(up.StepError, match=r"b\.u.*(fulfil the loop as well|multiply to 1)"):
        up.simulate(scenario, pace=0.05, until=4.0, engine=engine, coupling=up.Jacobi(loops=loops))


def test_an_unknown_that_hardly_moves_is_not_solved_for_that(engine: str) -> None:
    """The residual of such an unknown changes because others move; Anderson took 0.11 for nothing here."""
    weights = {
        "a": {"b": -1.6390015, "c": -1.92637986},
        "b": {"d": -0.86618744},
        "c": {"a": 0.11889575, "c": -1.12075367},
        "d": {"a": 1.68806104, "d": -2.40760363},
    }
    offsets = {"a": -0.85063758, "b": 1.93898574, "c": -4.26825, "d": 0.09245019}
    units: dict[str, up.Model] = {}
    for name, row in weights.items():
        value = " + ".join([repr(offsets[name]), *(f"({weight})*u_{other}" for other, weight in row.items())])
        ports = [f"u_{other}" for other in row]
        if name == "a":  # with a state beside it, so that the loop is solved anew in each step
            units[name] = up.Ode(
                inputs=ports, states={"x": f"{value} - x"}, outputs={"y": f"{value} + x", "x": "x"}
            )
        else:
            units[name] = up.Function(inputs=ports, outputs={"y": value})
    links = {f"{name}.u_{other}": f"{other}.y" for name, row in weights.items() for other in row}
    coupling = up.Jacobi(loops=up.Anderson())
    trace = up.simulate(up.Scenario(units, links), pace=0.1, until=0.3, coupling=coupling, engine=engine)
    matrix = np.array([[weights[i].get(j, 0.0) for j in weights] for i in weights])
    for k in range(len(trace.time)):
        right = np.array(list(offsets.values()))
        right[0] += trace["a.x"][k]
        exact = np.linalg.solve(np.eye(4) - matrix, right)
        np.testing.assert_allclose([trace[f"{name}.y"][k] for name in weights], exact, rtol=1e-8)
