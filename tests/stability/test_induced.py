"""The induced model against matrices made by hand, against basis vectors, and against what units compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import upbeat as up
from stability_models import FIGURE, Chord, jacobi, masses, radius
from upbeat.stability.linear.induced import Inducing


@pytest.mark.parametrize("outputs", ["solved", "lagged"])
@pytest.mark.parametrize(("solver", "ours"), [("exact", None), ("euler", up.Euler())])
def test_the_matrix_of_a_jacobi_step_is_that_of_the_thesis(outputs: Any, solver: str, ours: Any) -> None:
    scenario = masses(ours, **FIGURE)
    found = up.induced(scenario, pace=0.1, coupling=up.Jacobi(outputs), ideal=solver == "exact")
    expected = jacobi(0.1, outputs, solver, **FIGURE)
    assert found.names[:4] == ("left.x", "left.v", "right.x", "right.v")
    assert found.names[4:] == ("left.F (held)", "right.xc (held)", "right.vc (held)")
    if outputs == "solved":
        # What the right one is given is what the left one is: the same matrix on all that a run reaches.
        reached = np.linalg.matrix_power(expected, 3)
        np.testing.assert_allclose(found.matrix @ reached, expected @ reached, atol=1e-13)
    else:
        np.testing.assert_allclose(found.matrix, expected, atol=1e-14)
    assert found.linear


def test_example_16_and_the_stiff_damper() -> None:
    """0.9992327 needs the damping of the second mass that the thesis prints nowhere; 76.43 is an artefact."""
    mild = up.induced(masses(), pace=0.001, coupling=up.Jacobi("lagged"), ideal=True)
    assert radius(mild.matrix) == pytest.approx(0.9992327, abs=1e-7)
    stiff = {
        outputs: up.stability_of(
            masses(dc=6e6), pace=0.001, coupling=up.Jacobi(outputs), ideal=True, scan=False
        )
        for outputs in ("lagged", "solved")
    }
    assert stiff["lagged"].spectral_radius == pytest.approx(0.99999999975, abs=1e-11)
    assert stiff["lagged"].verdict == "stable"
    assert stiff["solved"].spectral_radius == pytest.approx(5997.0, abs=0.1)
    assert stiff["solved"].verdict == "unstable"


def test_policies_of_section_5_4() -> None:
    one = up.induced(masses(up.Euler(), **FIGURE), pace=0.1)
    ten = up.induced(masses(up.Euler(steps=10), **FIGURE), pace=0.1)
    assert radius(one.matrix) == pytest.approx(1.0025062, abs=1e-7)
    assert radius(ten.matrix) == pytest.approx(0.9968803, abs=1e-7)


COUPLINGS = [
    up.Jacobi(),
    up.Jacobi("lagged"),
    up.GaussSeidel(),
    up.GaussSeidel(("right", "left")),
    up.GaussSeidel(outputs="lagged"),
    up.Iterated(up.Jacobi(), corrections=2),
    up.Iterated(up.GaussSeidel(), corrections=3),
    up.MultiRate({"left": 3}),
    up.MultiRate({"right": 2}, slower="first"),
]
INPUTS = [up.Hold(), up.Linear(), up.Polynomial(2), up.Polynomial(3), up.Continuous(), up.Smooth(), Chord()]


def by_basis_vectors(made: up.Experiment, step: float) -> tuple[np.ndarray, np.ndarray]:
    """The matrix found by running the step from displaced states, one entry after the other; and by forms."""
    with Inducing(made) as inducing:
        machine = inducing.machine(step)

        def stepped(displaced: int | None) -> np.ndarray:
            machine.begin()
            for _ in range(machine.depth):
                machine.go(step)
            values = machine.values()
            if displaced is not None:
                values[displaced] += 1.0
                machine.put(values)
            machine.go(step)
            return machine.values()

        start = stepped(None)
        columns = [stepped(i) - start for i in range(machine.extended.size)]
        inducing.model(step)
        return np.array(columns).T, machine.whole


@pytest.mark.parametrize("inputs", INPUTS, ids=lambda i: type(i).__name__ + str(getattr(i, "order", "")))
@pytest.mark.parametrize("coupling", COUPLINGS, ids=str)
def test_forms_and_basis_vectors_give_the_same(coupling: Any, inputs: Any) -> None:
    made = up.experiment(
        masses(up.Midpoint(steps=2), **FIGURE), pace=0.2, until=9.0, coupling=coupling, inputs=inputs
    )
    numbers, forms = by_basis_vectors(made, 0.2)
    np.testing.assert_allclose(forms, numbers, atol=1e-9)


def looped(gain: float, loops: Any = None) -> up.Scenario:
    """A tank with an algebraic loop of two functions beside it."""
    return up.Scenario(
        units={
            "tank": up.Ode({"x": "-x + y"}, inputs=["y"], start={"x": 1.0}, outputs=["x"]),
            "a": up.Function(["x", "b"], {"y": "x - gain*b"}, parameters={"gain": gain}),
            "b": up.Function(["a"], {"y": "0.5*a + 1"}),
        },
        connections={"tank.y": "a.y", "a.x": "tank.x", "a.b": "b.y", "b.a": "a.y"},
    )


@pytest.mark.parametrize(
    "loops", [up.Newton(), up.Newton(slopes="differences"), up.FixedPoint(), up.Anderson()]
)
def test_algebraic_loops_are_solved_in_rows_too(loops: Any) -> None:
    """y = x - g·(y/2 + 1), so y = (x - g)/(1 + g/2); an Euler step of the tank is x + h·(y - x)."""
    made = up.experiment(looped(0.8), pace=0.25, until=9.0, coupling=up.Jacobi(loops=loops))
    tank = looped(0.8).units["tank"]
    euler = up.Ode(**{**tank.to_spec(), "solver": "euler"})
    made = made.with_(scenario=looped(0.8).with_units({"tank": euler}))
    expected = 1 + 0.25 * (1 / 1.4 - 1)
    assert radius(up.induced(made).matrix) == pytest.approx(expected, abs=1e-9)


def test_a_singular_loop_is_told() -> None:
    with pytest.raises(up.RunError, match="loop"):
        up.stability_of(looped(-2.0), pace=0.1)


def echo() -> up.Scenario:
    """Two units that repeat each other: whatever they say first they say for ever; a third one listens."""
    return up.Scenario(
        units={
            "a": up.Function({"u": 5.0}, {"y": "u"}),
            "b": up.Function(["u"], {"y": "u"}),
            "o": up.Ode({"x": "-x + u"}, inputs=["u"]),
        },
        connections={"a.u": "b.y", "b.u": "a.y", "o.u": "a.y"},
        outputs={"x": "o.x"},
    )


@pytest.mark.parametrize("loops", [up.Newton(), up.FixedPoint(), up.Anderson()])
@pytest.mark.parametrize("nested", [False, True])
def test_a_loop_that_every_value_solves_is_told(loops: Any, nested: bool) -> None:
    coupling = up.Jacobi(loops=loops)
    scenario = echo()
    if nested:
        inside = up.Nested(echo(), up.Master(up.Fixed(0.1), coupling=coupling), flatten=False)
        scenario = up.Scenario(units={"box": inside})
    said = "the algebraic loop a.u → a.y → b.u → b.y failed at t = 0.* Other values of its inputs fulfil"
    with pytest.raises(up.RunError, match=said):
        up.stability_of(scenario, pace=0.1, coupling=coupling)


def test_an_echo_with_a_lag_stays_what_it_is() -> None:
    found = up.stability_of(echo(), pace=0.1, coupling=up.Jacobi(outputs="lagged"))
    assert found.verdict == "undecided"
    assert found.spectral_radius == 1.0


@pytest.mark.parametrize("gain", [1.0, 0.3], ids=["linear", "nonlinear"])
def test_the_matrices_along_a_run_do_not_depend_on_how_many_were_taken(gain: float) -> None:
    """Rows are taken beside the run: where somebody stands for that must not run away from it."""
    form = "u - x" if gain == 1.0 else "u - x - 0.3*x*x*x"
    unit = up.Ode({"x": form}, inputs=["u"], start={"x": 1.0}, solver="euler")
    back = up.Function(["x"], {"y": "-0.5*x"})
    scenario = up.Scenario(units={"u": unit, "f": back}, connections={"u.u": "f.y", "f.x": "u.x"})
    made = up.experiment(scenario, pace=0.1, until=150.0)
    with Inducing(made) as inducing:
        last = list(inducing.along([0.1] * 1500))[-1]
    assert radius(last.matrix) == pytest.approx(1.0 - 0.15, abs=1e-12)  # at x = 0, where it has come to rest


def test_arrays_and_formulas_in_connections() -> None:
    """A pair of states in one array, swapped and scaled on the way: x' = -x + (the other), held."""
    both = up.Ode(
        {"x": ["-x[0] + u[0]", "-x[1] + u[1]"]},
        inputs={"u": {"size": 2}},
        start={"x": [1.0, 2.0]},
        solver="euler",
    )
    swap = up.Function({"v": {"size": 2}}, {"w": ["0.5*v[1]", "0.5*v[0]"]})
    scenario = up.Scenario(
        units={"both": both, "swap": swap},
        connections={"both.u": ["2*swap.w[0]", "2*swap.w[1]"], "swap.v": "both.x"},
    )
    found = up.induced(scenario, pace=0.1)
    # x+ = 0.9·x + 0.1·swapped(x): eigenvalues 1 and 0.8 on the symmetric and the antisymmetric part
    values = sorted(np.abs(np.linalg.eigvals(found.matrix)))
    np.testing.assert_allclose(values[-2:], [0.8, 1.0], atol=1e-12)
    assert "both.x[1]" in found.names


def pendulum(damping: float = 0.1) -> up.Scenario:
    swing = up.Ode(
        {"x": "v", "v": "F - sin(x) - d*v"},
        inputs=["F"],
        start={"x": 3.0},
        outputs=["x", "v"],
        parameters={"d": damping},
    )
    spring = up.Function(["x"], {"F": "1 - x*x*x"})
    return up.Scenario(
        units={"swing": swing, "spring": spring}, connections={"swing.F": "spring.F", "spring.x": "swing.x"}
    )


def test_what_is_not_linear_is_linearised_where_it_rests() -> None:
    """At rest x³ + sin x = 1; a held step of the exact unit is e^{Ah}, and the force goes with -3x²."""
    from scipy.linalg import expm
    from scipy.optimize import brentq

    x = brentq(lambda x: x**3 + np.sin(x) - 1, 0, 1, xtol=1e-14)
    whole = np.zeros((3, 3))
    whole[:2] = [[0, 1, 0], [-np.cos(x), -0.1, 1]]
    flow = expm(whole * 0.1)
    expected = np.array([[flow[0, 0], flow[0, 1]], [flow[1, 0], flow[1, 1]]]) + np.outer(
        flow[:2, 2], [-3 * x**2, 0]
    )
    found = up.stability_of(pendulum(), pace=0.1, at="rest", ideal=True, scan=False)
    assert found.local
    assert found.spectral_radius == pytest.approx(radius(expected), abs=1e-7)


def test_python_units_are_linearised_by_differences() -> None:
    def coded(solver: str) -> up.PythonOde:
        return up.PythonOde(
            lambda t, x, u, p: {"x": x.v, "v": u.F - x.x - 0.1 * x.v},
            {"x": 1.0, "v": 0.0},
            inputs=["F"],
            solver=solver,
        )

    scenario = masses("midpoint", **FIGURE)
    found = up.stability_of(scenario.with_units({"left": coded("midpoint")}), pace=0.1, scan=False)
    assert found.local  # nobody can look into Python code
    assert found.spectral_radius == pytest.approx(
        up.stability_of(scenario, pace=0.1, scan=False).spectral_radius, abs=1e-9
    )


def test_a_solver_that_controls_its_error_counts_as_exact() -> None:
    tight = up.induced(masses(up.DormandPrince(), **FIGURE), pace=0.1)
    np.testing.assert_allclose(
        tight.matrix, up.induced(masses(**FIGURE), pace=0.1, ideal=True).matrix, atol=1e-15
    )


def test_many_solver_steps_are_a_power_of_one() -> None:
    """(1 - h/n)^n for x' = -x + u under Euler, with u held at x: x+ = E·x + (1 - E)·x."""
    one = up.Ode({"x": "-x + u"}, inputs=["u"], start={"x": 1.0}, solver=up.Euler(steps=1000))
    half = up.Function(["x"], {"y": "-x"})
    scenario = up.Scenario(units={"a": one, "b": half}, connections={"a.u": "b.y", "b.x": "a.x"})
    e = (1 - 0.5 / 1000) ** 1000
    assert radius(up.induced(scenario, pace=0.5).matrix) == pytest.approx(abs(e - (1 - e)), abs=1e-13)


def test_nested_scenarios_are_judged_flat() -> None:
    inner = up.Scenario(
        units={"left": masses().units["left"]},
        inputs=["F"],
        outputs={"x": "left.x", "v": "left.v"},
        connections={"left.F": "F"},
    )
    around = up.Scenario(
        units={"box": up.Nested(inner, up.Master(up.Fixed(0.1))), "right": masses().units["right"]},
        connections={"box.F": "right.F", "right.xc": "box.x", "right.vc": "box.v"},
    )
    assert up.stability_of(around, pace=0.1, scan=False).spectral_radius == pytest.approx(
        up.stability_of(masses(), pace=0.1, scan=False).spectral_radius, abs=1e-14
    )
