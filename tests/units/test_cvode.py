"""CVODE: stiff units against an independent solver, warm and set back."""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import upbeat as up
from upbeat.core.abilities import Ability
from upbeat.units import Cvode, solver_from
from upbeat.units.solving.unit import SolvedUnit

pytest.importorskip("sksundae")

ROBERTSON = {
    "a": "-0.04*a + 1e4*b*c",
    "b": "0.04*a - 1e4*b*c - 3e7*b**2",
    "c": "3e7*b**2",
}


def van_der_pol(solver: object) -> up.Ode:
    return up.Ode(
        states={"x": "v", "v": "mu*(1 - x**2)*v - x"},
        start={"x": 2.0},
        parameters={"mu": 1000.0},
        solver=solver,
    )


def alone(model: object) -> up.Scenario:
    return up.Scenario(units={"unit": model}, connections={})


@pytest.mark.parametrize("written", ["expressions", "python"])
def test_robertson_against_radau(engine: str, written: str) -> None:
    def slopes(t: float, y: np.ndarray) -> list[float]:
        a, b, c = y
        return [-0.04 * a + 1e4 * b * c, 0.04 * a - 1e4 * b * c - 3e7 * b * b, 3e7 * b * b]

    solver = Cvode(rtol=1e-8, atol=1e-12)
    start = {"a": 1.0, "b": 0.0, "c": 0.0}
    model: object = up.Ode(states=ROBERTSON, start=start, solver=solver)
    if written == "python":
        model = up.PythonOde(lambda t, x, u, p: slopes(t, x), states=start, solver=solver)
    trace = up.simulate(alone(model), pace=40.0, until=4000.0, engine=engine)
    exact = solve_ivp(slopes, (0, 4000), [1, 0, 0], "Radau", trace.time, rtol=1e-10, atol=1e-14).y
    for row, name in zip(exact, "abc", strict=True):
        np.testing.assert_allclose(trace[f"unit.{name}"], row, rtol=1e-5, atol=1e-10)


def test_van_der_pol_against_radau() -> None:
    trace = up.simulate(alone(van_der_pol(Cvode(rtol=1e-9, atol=1e-12))), pace=10.0, until=2000.0)
    exact = solve_ivp(
        lambda t, y: [y[1], 1000 * (1 - y[0] ** 2) * y[1] - y[0]],
        (0, 2000), [2, 0], "Radau", trace.time, rtol=1e-10, atol=1e-12,
    )  # fmt: skip
    np.testing.assert_allclose(trace["unit.x"], exact.y[0], atol=5e-6)


def following(solver: object = "cvode") -> SolvedUnit:
    return up.Ode(states={"x": "100*(u - x)"}, inputs=["u"], solver=solver).instantiate("unit", 0.0)


def test_it_stays_warm_while_inputs_stay() -> None:
    unit = following()
    unit.set("u", [1.0])
    for k in range(10):
        unit.advance(k * 0.1, (k + 1) * 0.1, False)
        unit.set("u", [1.0])  # as every exchange does, with nothing new
    assert unit._solver.starts == 1
    assert unit.get("x") == pytest.approx(1.0, abs=1e-6)
    unit.set("u", [2.0])
    unit.advance(1.0, 1.1, False)
    assert unit._solver.starts == 2
    assert unit.get("x") == pytest.approx(2.0 - np.exp(-10.0), abs=1e-5)


@pytest.mark.parametrize("formula", ["bdf", "adams"])
def test_moving_inputs(formula: str) -> None:
    unit = following(Cvode(formula=formula, rtol=1e-8))
    for k in range(10):
        t = k * 0.1
        unit.set("u", [t**2, 2 * t, 1.0])
        unit.advance(t, (k + 1) * 0.1, False)
    # x = t² - t/50 + (1 - e^(-100 t))/5000
    assert unit.get("x") == pytest.approx(1 - 0.02 + 0.0002, abs=1e-6)


def test_set_back_it_goes_the_same_way_again() -> None:
    unit = following()
    unit.set("u", [1.0])
    unit.advance(0.0, 0.3, False)
    token = unit.save()
    ways = []
    for _ in range(2):
        way = []
        for k in range(3, 6):
            unit.advance(k * 0.1, (k + 1) * 0.1, False)
            way.append(unit.get("x"))
        ways.append(way)
        unit.restore(token)
    assert ways[0] == ways[1]
    assert unit.from_bytes(unit.to_bytes(token)) == token


def test_both_engines_give_the_same(engine: str) -> None:
    fast = up.Ode(states={"x": "500*(u - x)"}, inputs=["u"], solver={"kind": "cvode", "rtol": 1e-8})
    slow = up.Ode(states={"v": "1 - 2*x"}, inputs=["x"])
    scenario = up.Scenario(units={"f": fast, "s": slow}, connections={"f.u": "s.v", "s.x": "f.x"})
    trace = up.simulate(scenario, pace=0.01, until=1.0, coupling=up.Iterated(corrections=2), engine=engine)
    other = up.simulate(
        scenario, pace=0.01, until=1.0, coupling=up.Iterated(corrections=2), engine="interpret"
    )
    np.testing.assert_array_equal(trace["f.x"], other["f.x"])


def test_it_is_called_back_from_the_native_engine() -> None:
    assert Ability.NATIVE not in van_der_pol("cvode").abilities
    assert Ability.NATIVE in van_der_pol("rk4").abilities


def test_in_files() -> None:
    assert solver_from("cvode") == Cvode()
    given = {"kind": "cvode", "rtol": 1e-8, "formula": "adams"}
    model = van_der_pol(given)
    assert model.solver == Cvode(rtol=1e-8, formula="adams")
    assert model.to_spec()["solver"] == given
    with pytest.raises(up.ModelError, match=r'formula must be "bdf" or "adams"'):
        Cvode(formula="euler")
    with pytest.raises(up.ModelError, match="rtol must be positive"):
        Cvode(rtol=0)


def test_failures_are_told(capfd: pytest.CaptureFixture[str]) -> None:
    def no(t: float, x: object, u: object, p: object) -> list[float]:
        raise ValueError("no such thing")

    with pytest.raises(up.UnitError, match=r"'unit' failed in advance.*ValueError: no such thing"):
        up.simulate(alone(up.PythonOde(no, states={"x": 1.0}, solver="cvode")), pace=1, until=2)
    grows = up.Ode(states={"x": "x**2"}, start={"x": 1.0}, solver="cvode")
    with pytest.raises(up.UnitError, match=r"CVODE stopped on the way to 2: At t = 0\.99"):
        up.simulate(alone(grows), pace=2, until=4)
    assert capfd.readouterr() == ("", "")


def test_what_an_equation_prints_is_still_printed(capsys: pytest.CaptureFixture[str]) -> None:
    def loud(t: float, x: object, u: object, p: object) -> list[float]:
        sys.stdout.write("here\n")
        return [0.0]

    up.PythonOde(loud, states={"x": 1.0}, solver="cvode").instantiate("unit", 0.0).advance(0.0, 1.0, False)
    assert capsys.readouterr().out.startswith("here\nhere\n")


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    monkeypatch.setitem(sys.modules, "sksundae.cvode", None)
    with pytest.raises(up.MissingExtra, match=r"upbeat\[cvode\]"):
        up.simulate(alone(van_der_pol("cvode")), pace=1, until=2, engine=engine)


def test_equations_that_leave_the_numbers_are_blamed_for_it(engine: str) -> None:
    astray = up.Ode(states={"y": "1", "x": "sqrt(0.5 - y)"}, start={"x": 1.0}, solver="cvode")
    with pytest.raises(up.UnitError, match="derivative of state number 2 is not finite"):
        up.simulate(alone(astray), pace=1.0, until=2.0, engine=engine)


def test_too_many_steps_say_what_to_raise() -> None:
    busy = up.Ode(states={"x": "cos(1000*time)"}, solver=Cvode(max_steps=10))
    with pytest.raises(up.UnitError, match=r"Raise 'max_steps' of the solver"):
        up.simulate(alone(busy), pace=1.0, until=2.0)


def test_threads_leave_stdout_where_it_was() -> None:
    """Each step stands in for stdout, which all threads share: in turns they would put a stand-in back."""

    def slopes(t: float, x: list[float], u: list[float], p: list[float]) -> list[float]:
        time.sleep(1e-4)  # lets another thread in
        return [-x[0]]

    def run(_: int) -> float:
        model = up.PythonOde(slopes, states={"x": 1.0}, solver=Cvode(rtol=1e-6, atol=1e-9))
        trace = up.simulate(alone(model), pace=0.1, until=1.0, engine="interpret")
        return float(trace["unit.x"][-1])

    before = sys.stdout
    with ThreadPoolExecutor(4) as pool:
        ends = list(pool.map(run, range(8)))
    assert sys.stdout is before
    np.testing.assert_allclose(ends, np.exp(-1), rtol=1e-4)
