"""Newton's method with the derivatives that units know: closed forms, counted calls, honest failures."""

from __future__ import annotations

import ctypes
import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import upbeat as up
from strategies import REALS, formulas
from upbeat.master.program import Slope
from upbeat.units import NativeUnit, ports
from upbeat.units.addresses import SIGNATURES

UNITS = up.Jacobi(loops=up.Newton(slopes="units"))
AUTO = up.Jacobi()
DIFFERENCES = up.Jacobi(loops=up.Newton(slopes="differences"))
SLOPES = frozenset({up.Ability.SLOPES})


def solve(scenario: up.Scenario, engine: str, coupling: Any = UNITS, until: float = 1.0) -> up.Trace:
    return up.simulate(scenario, pace=1.0, until=until, coupling=coupling, engine=engine)


def counted(function: Callable[[float], float], slope: Callable[[float], float], start: float = 0.0):
    """A unit y = function(u) in Python that counts how often it is asked what."""
    calls: Counter[str] = Counter()

    class Counted:
        def __init__(self, name: str, start_time: float, parameters: object) -> None:
            self.u = start

        def get(self, port: str) -> float:
            calls["get"] += 1
            return function(self.u)

        def set(self, port: str, coefficients: Any) -> None:
            self.u = coefficients[0]

        def advance(self, t: float, to: float, early: bool) -> float:
            return to

        def slope(self, output: str, given: str) -> list[float]:
            calls["slope"] += 1
            assert (output, given) == ("y", "u")
            return [slope(self.u)]

    model = up.PythonUnit(Counted, ports({"u": start}, {"y": {"depends": ["u"]}}), SLOPES)
    return model, calls


def closed(model: object, formula: str = "a.y") -> up.Scenario:
    return up.Scenario(units={"a": model}, connections={"a.u": formula})


# ---------------------------------------------------------------------------- how much work it is


def test_a_linear_loop_takes_one_step(engine: str) -> None:
    """y = 3u + 1 and u = 2y: y = -1/5. One evaluation to start from, one to see that it is solved."""
    model, calls = counted(lambda u: 3 * u + 1, lambda u: 3.0)
    with up.start(closed(model, "2*a.y"), pace=1.0, until=1.0, coupling=UNITS, engine=engine) as run:
        assert run["a.y"] == pytest.approx(-0.2, rel=1e-14)
    assert calls == {"get": 2, "slope": 1}


def test_differences_need_an_evaluation_for_every_unknown(engine: str) -> None:
    model, calls = counted(lambda u: 3 * u + 1, lambda u: 3.0)
    with up.start(closed(model, "2*a.y"), pace=1.0, until=1.0, coupling=DIFFERENCES, engine=engine) as run:
        assert run["a.y"] == pytest.approx(-0.2, rel=1e-9)
    assert calls["slope"] == 0
    assert calls["get"] >= 3


def test_a_nonlinear_loop_takes_as_many_steps_as_newton_by_hand(engine: str) -> None:
    """u = 2·exp(-u), whose solution is the Lambert function W(2)."""
    x, rounds = 0.0, 1
    while abs(2 * math.exp(-x) - x) > 1e-10 * abs(x):
        x -= (x - 2 * math.exp(-x)) / (1 + 2 * math.exp(-x))
        rounds += 1
    assert rounds < 7, "quadratic convergence"
    model, calls = counted(lambda u: 2 * math.exp(-u), lambda u: -2 * math.exp(-u))
    with up.start(closed(model), pace=1.0, until=1.0, coupling=UNITS, engine=engine) as run:
        assert run["a.y"] == pytest.approx(0.8526055020137254, rel=1e-10)
    assert calls == {"get": rounds, "slope": rounds - 1}


# ---------------------------------------------------------------------------- closed forms


def test_arrays_multiply_like_matrices(engine: str) -> None:
    """y = A·u + b and v = C·y, u = 2·v[reversed] + 1: one linear system."""
    a = np.array([[0.5, -2.0], [1.0, 3.0], [0.25, 1.5]])
    c = np.array([[1.0, 0.5, -1.0], [2.0, -0.5, 0.75]])
    rows_a = [f"({r[0]!r})*u[0] + ({r[1]!r})*u[1] + {i + 1}" for i, r in enumerate(a.tolist())]
    rows_c = [" + ".join(f"({x!r})*w[{k}]" for k, x in enumerate(r)) for r in c.tolist()]
    scenario = up.Scenario(
        units={
            "a": up.Function({"u": {"size": 2}}, {"y": rows_a}),
            "c": up.Function({"w": {"size": 3}}, {"v": rows_c}),
        },
        connections={"c.w": "a.y", "a.u": ["2*c.v[1] + 1", "2*c.v[0] + 1"]},
    )
    trace = solve(scenario, engine)
    swap = np.array([[0.0, 1.0], [1.0, 0.0]])
    u = np.linalg.solve(np.eye(2) - 2 * swap @ c @ a, 1 + 2 * swap @ c @ np.array([1.0, 2.0, 3.0]))
    expected = a @ u + np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose([trace[f"a.y[{i}]"][-1] for i in range(3)], expected, rtol=1e-10)


def test_formulas_of_connections_and_states_take_part(engine: str) -> None:
    """y = x + sin(u), u = y·y/4 + c.k with c outside the loop: judged by putting the values in."""
    plant = up.Ode({"x": "-x + u"}, start={"x": 0.3}, inputs=["u"], outputs={"y": "x + sin(u)", "x": "x"})
    clock = up.Function(outputs={"k": "0.1*time", "n": {"value": "round(time)", "kind": "integer"}})
    scenario = up.Scenario(units={"p": plant, "c": clock}, connections={"p.u": "p.y*p.y/4 + c.k - 0.1*c.n"})
    trace = solve(scenario, engine, until=4.0)
    u = trace["p.y"] ** 2 / 4 + trace["c.k"] - 0.1 * trace["c.n"]
    np.testing.assert_allclose(trace["p.y"], trace["p.x"] + np.sin(u), atol=1e-9)


def test_a_loop_inside_a_nested_scenario(engine: str) -> None:
    """y = 3u + push and u = 2y, in a run of its own: y = -push/5."""
    inner = up.Scenario(
        units={"a": up.Function({"u": 0.0, "push": 0.0}, {"y": "3*u + push"})},
        connections={"a.u": "2*a.y", "a.push": "push"},
        inputs={"push": 4.0},
        outputs={"y": "a.y"},
    )
    box = up.Nested(inner, up.Master(pace=up.Fixed(0.5), coupling=UNITS), flatten=False)
    scenario = up.Scenario(units={"box": box})
    assert solve(scenario, engine)["box.y"][-1] == pytest.approx(-0.8, rel=1e-12)


def test_python_functions_may_give_their_slopes(engine: str) -> None:
    """u = G·u + h with a matrix, once as rows and once flat."""
    g, h = np.array([[0.5, 2.0], [-1.0, 0.25]]), np.array([1.0, -2.0])
    for given_slopes in (g.tolist(), g.ravel().tolist(), g):
        model = up.PythonFunction(
            lambda t, u, p: {"y": (g @ u.u + h).tolist()},
            {"u": {"size": 2}},
            {"y": {"size": 2}},
            slopes=lambda t, u, p, given_slopes=given_slopes: {"y": {"u": given_slopes}},
        )
        assert up.Ability.SLOPES in model.abilities
        trace = solve(closed(model), engine)
        expected = np.linalg.solve(np.eye(2) - g, h)
        np.testing.assert_allclose([trace["a.y[0]"][-1], trace["a.y[1]"][-1]], expected, rtol=1e-10)
    ode = up.PythonOde(
        lambda t, x, u, p: [0.0],
        {"x": 2.0},
        inputs=["u"],
        outputs={"y": lambda t, x, u, p: x.x + 0.5 * u.u},
        slopes=lambda t, x, u, p: {"y": {"u": 0.5}},
    )
    assert solve(closed(ode), engine)["a.y"][-1] == pytest.approx(4.0, rel=1e-12)


def test_units_in_c_may_give_their_slopes(engine: str) -> None:
    """y = 5u + 3 and u = y: y = -3/4."""
    state = {"u": 0.0}

    def get(self: int, port: int, to: Any) -> int:
        to[0].r = 5 * state["u"] + 3
        return 0

    def set_(self: int, port: int, cells: Any, count: int) -> int:
        state["u"] = cells[0].r
        return 0

    def slope(self: int, output: int, port: int, to: Any) -> int:
        to[0].r = 5.0
        return 0

    functions = {
        "create": lambda name, start, parameters: 1,
        "get": get,
        "set": set_,
        "advance": lambda self, t, to, early, reached: 0,
        "slope": slope,
    }
    kept = {name: SIGNATURES[name](function) for name, function in functions.items()}
    addresses = {name: ctypes.cast(f, ctypes.c_void_p).value or 0 for name, f in kept.items()}
    model = NativeUnit(ports(["u"], {"y": {"depends": ["u"]}}), addresses)
    assert solve(closed(model), engine)["a.y"][-1] == pytest.approx(-0.75, rel=1e-12)


# ---------------------------------------------------------------------------- where slopes end


def test_a_slope_that_is_not_finite_leads_to_differences(engine: str) -> None:
    """u = 1 - 2·sqrt(u), from u = 0, where the slope is infinite: sqrt(u) = sqrt(2) - 1."""
    model = up.Function(inputs=["u"], outputs={"y": "1 - 2*sqrt(u)"})
    for coupling in (AUTO, DIFFERENCES):
        found = solve(closed(model), engine, coupling)["a.y"][-1]
        assert found == pytest.approx((math.sqrt(2) - 1) ** 2, rel=1e-9)


def test_without_differences_a_substitution_leads_away_from_such_a_point(engine: str) -> None:
    """u = 1 + sqrt(u)/2, from u = 0: sqrt(u) = (1 + sqrt(17))/4."""
    model = up.Function(inputs=["u"], outputs={"y": "1 + sqrt(u)/2"})
    found = solve(closed(model), engine)["a.y"][-1]
    assert found == pytest.approx(((1 + math.sqrt(17)) / 4) ** 2, rel=1e-9)


def test_wrong_slopes_end_the_run_and_name_the_ports(engine: str) -> None:
    model, _ = counted(lambda u: 3 * u + 1, lambda u: -3.0)
    with pytest.raises(up.StepError, match=r"algebraic loop a\.u → a\.y did not end .*residual of a\.u"):
        solve(closed(model), engine)


@given(gain=st.floats(-3, 3), wrong=st.floats(-3, 3))
def test_wrong_slopes_never_give_a_wrong_solution(gain: float, wrong: float) -> None:
    model, _ = counted(lambda u: gain * u + 1, lambda u: wrong)
    try:
        found = solve(closed(model), "interpret")["a.y"][-1]
    except up.StepError:
        return
    assert abs(gain * found + 1 - found) < 1e-8 * (abs(found) + 1)


@pytest.mark.parametrize(
    ("given_slopes", "message"),
    [
        (lambda: [1.0, 2.0], r"slopes are 1 numbers in a list, row by row, but the unit gave \[1\.0, 2\.0\]"),
        (lambda: 1.0, r"slopes are 1 numbers in a list, row by row, but the unit gave 1\.0"),
        (lambda: ["steep"], r"slopes are 1 numbers in a list, row by row, but the unit gave \['steep'\]"),
        (lambda: 1 / 0, r"ZeroDivisionError: division by zero"),
    ],
)
def test_what_is_no_slope_is_refused(engine: str, given_slopes: Callable[[], Any], message: str) -> None:
    class Odd:
        def __init__(self, *_: object) -> None:
            self.u = 0.0

        def get(self, port: str) -> float:
            return self.u + 1

        def set(self, port: str, coefficients: Any) -> None:
            self.u = coefficients[0]

        def advance(self, t: float, to: float, early: bool) -> float:
            return to

        def slope(self, output: str, port: str) -> Any:
            return given_slopes()

    model = up.PythonUnit(Odd, ports(["u"], {"y": {"depends": ["u"]}}), SLOPES)
    with pytest.raises(up.UnitError, match=message) as caught:
        solve(closed(model, "0.5*a.y"), engine)
    assert (caught.value.unit, caught.value.call) == ("a", "slope('y', 'u')")


@pytest.mark.parametrize(
    ("given_slopes", "message"),
    [
        ({"y": {}}, "slopes returned none of 'y' by 'u'"),
        (3.0, "slopes returned none of 'y' by 'u'"),
        ({"y": {"u": [1.0, 2.0]}}, r"slopes returned \(2,\) entries for 'y' by 'u', which has \(1, 1\)"),
        ({"y": {"u": "steep"}}, "slopes returned 'steep' for 'y' by 'u', which is neither a number"),
    ],
)
def test_what_a_function_of_slopes_must_return(engine: str, given_slopes: Any, message: str) -> None:
    model = up.PythonFunction(lambda t, u, p: 1 - u.u, ["u"], ["y"], slopes=lambda t, u, p: given_slopes)
    with pytest.raises(up.UnitError, match=message):
        solve(closed(model), engine)


def test_slopes_must_be_a_function() -> None:
    with pytest.raises(up.ModelError, match=r"slopes: expected a function, not 3"):
        up.PythonFunction(lambda t, u, p: u.u, ["u"], slopes=3)  # type: ignore[arg-type]


def test_an_object_that_promises_slopes_must_have_them() -> None:
    class Plain:
        get = set = advance = lambda *_: 0.0

    model = up.PythonUnit(lambda *_: Plain(), ports(["u"], {"y": {"depends": ["u"]}}), SLOPES)
    with pytest.raises(up.ModelError, match="has no slope"):
        model.instantiate("a", 0.0)


def test_a_table_without_slopes_is_named(engine: str) -> None:
    """A model that promises what its unit does not have."""

    class Promising(up.PythonFunction):
        @property
        def abilities(self) -> frozenset[up.Ability]:
            return super().abilities | SLOPES

    model = Promising(lambda t, u, p: 1 - u.u, ["u"], ["y"])
    with pytest.raises(up.UnitError, match="does not know its slopes"):
        solve(closed(model), engine)


# ---------------------------------------------------------------------------- what is chosen, and said


def plain_and_able() -> up.Scenario:
    able = up.Function(inputs=["u"], outputs={"y": "0.5*u + 1"})
    plain = up.PythonFunction(lambda t, u, p: 0.5 * u.u, ["u"], ["y"])
    return up.Scenario(
        units={"able": able, "plain": plain}, connections={"able.u": "plain.y", "plain.u": "able.y"}
    )


def test_auto_takes_differences_where_one_unit_lacks_slopes_and_says_so(engine: str) -> None:
    experiment = up.experiment(plain_and_able(), pace=1.0, until=1.0, engine=engine)
    assert not any(isinstance(i, Slope) for i in experiment.plan.program.instructions())
    assert "finite differences, because plain does not know its slopes" in up.explain(experiment)
    assert experiment.run()["able.y"][-1] == pytest.approx(4 / 3, rel=1e-8)


def test_auto_asks_the_units_where_all_know_and_says_so() -> None:
    scenario = closed(up.Function(["u"], {"y": "1 - u"}))
    experiment = up.experiment(scenario, pace=1.0, until=1.0)
    said = up.explain(experiment)
    assert "the loop a.u → a.y is solved by Newton's method with the slopes that its units know" in said
    assert "slope    ∂a.y/∂a.u → " in said
    asked = up.experiment(scenario, pace=1.0, until=1.0, coupling=DIFFERENCES)
    assert "with finite differences, as asked for" in up.explain(asked)


def test_large_arrays_are_left_to_differences() -> None:
    n = 40
    mixed = [f"0.01*u[{i}] + 0.001*u[{(i + 1) % n}] + 1" for i in range(n)]
    model = up.Function({"u": {"size": n}}, {"y": mixed})
    experiment = up.experiment(closed(model), pace=1.0, until=1.0)
    assert "because its arrays make many products of slopes" in up.explain(experiment, program=False)
    asked = up.experiment(closed(model), pace=1.0, until=1.0, coupling=UNITS)
    assert any(isinstance(i, Slope) for i in asked.plan.program.instructions())


def test_units_that_lack_slopes_are_named_when_they_must_have_them() -> None:
    with pytest.raises(up.MasterError, match=r"plain does not know its slopes.*\"auto\""):
        assert up.experiment(plain_and_able(), pace=1.0, until=1.0, coupling=UNITS).plan


def test_the_words() -> None:
    with pytest.raises(up.MasterError, match=r'one of "auto", "units", "differences", not \'exact\''):
        up.Newton(slopes="exact")  # type: ignore[arg-type]


@pytest.mark.parametrize(("kind", "formula"), [("integer", "1 - u"), ("boolean", "not u")])
def test_loops_that_are_not_real_are_refused_before_slopes_matter(kind: str, formula: str) -> None:
    count = up.Function(inputs={"u": {"kind": kind}}, outputs={"y": {"value": formula, "kind": kind}})
    with pytest.raises(up.MasterError, match=rf"is {kind}: only real signals can be iterated"):
        assert up.experiment(closed(count), pace=1, until=2, coupling=UNITS).plan


def test_other_kinds_beside_the_loop_do_no_harm(engine: str) -> None:
    """y = (2 if on else 1) + n·u/4 with n = 2: y = 4 while on."""
    model = up.Function(
        inputs={"u": 0.0, "on": {"kind": "boolean", "start": True}, "n": {"kind": "integer", "start": 2}},
        outputs={"y": "(2 if on else 1) + n*u/4", "big": {"value": "u > 3", "kind": "boolean"}},
    )
    assert solve(closed(model), engine)["a.y"][-1] == pytest.approx(4.0, rel=1e-12)
    unit = model.instantiate("a", 0.0)
    for output, port, what in (("y", "on", "'on' is boolean"), ("big", "u", "'big' is boolean")):
        with pytest.raises(up.ModelError, match=f"{what}: only real values have slopes"):
            unit.slope(output, port)
    with pytest.raises(up.ModelError, match="there is no output 'yy'"):
        unit.slope("yy", "u")
    with pytest.raises(up.ModelError, match="there is no input 'v'"):
        unit.slope("y", "v")


# ---------------------------------------------------------------------------- slopes of equations


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_slopes_of_random_expressions_are_their_central_differences(data: st.DataObject) -> None:
    names = ["u", "w[0]", "w[1]", "x", "p", "time", "local"]
    # Never exactly on a kink: there a formula has the slope of the branch it takes, which may be none.
    first, second, third = (data.draw(REALS) + math.sqrt(n) / 10 for n in (2, 3, 5))
    model = up.Ode(
        {"x": "0"},
        start={"x": data.draw(REALS)},
        inputs={"u": first, "w": {"start": [second, third]}},
        outputs={"y": data.draw(formulas(names, 3)), "v": [data.draw(formulas(names)) for _ in range(2)]},
        parameters={"p": data.draw(REALS)},
        locals={"local": data.draw(formulas(names[:-1]))},
    )
    unit = model.instantiate("a", data.draw(REALS))
    port = {p.name: p for p in model.ports}
    for output, given_name in (("y", "u"), ("y", "w"), ("v", "u"), ("v", "w")):
        slopes = np.reshape(unit.slope(output, given_name), (port[output].cells, port[given_name].cells))
        for k in range(port[given_name].cells):

            def value(shift: float, k: int = k, name: str = given_name, output: str = output) -> Any:
                cells = [float(v) for v in port[name].initial]
                cells[k] += shift
                unit.set(name, [cells[0] if port[name].size is None else cells])
                return np.atleast_1d(np.array(unit.get(output), float))

            h = 2e-6
            behind, here, ahead = value(-h), value(0.0), value(h)
            assume(np.allclose(ahead - here, here - behind, rtol=1e-3, atol=1e-4 * h))  # no kink, no jump
            np.testing.assert_allclose(slopes[:, k], (ahead - behind) / (2 * h), rtol=1e-4, atol=1e-4)


def test_slopes_are_those_of_the_present_time() -> None:
    """y = sin(u·t) with u(t) = 1 + 2(t - 1) after a step of a half: cos(2·1.5)·1.5."""
    unit = up.Ode({"x": "1"}, inputs=["u"], outputs={"y": "sin(u*x)"}, start={"x": 1.0}).instantiate("a", 1.0)
    unit.set("u", (1.0, 2.0))
    unit.advance(1.0, 1.5)
    assert unit.slope("y", "u") == [pytest.approx(1.5 * math.cos(3.0), rel=1e-12)]
