"""Coefficients that change with the time: Floquet over a period, or undecided; forces change nothing."""

from __future__ import annotations

from collections.abc import Callable
from math import cos, pi
from typing import Any

import numpy as np
import pytest

import upbeat as up
from upbeat.units import ports

Array = Any


def rk4(f: Callable[[float, Array], Array], t: float, x: Array, h: float) -> Array:
    a = f(t, x)
    b = f(t + 0.5 * h, x + 0.5 * h * a)
    c = f(t + 0.5 * h, x + 0.5 * h * b)
    d = f(t + h, x + h * c)
    return x + h / 6.0 * (a + 2.0 * b + 2.0 * c + d)


def multipliers(f: Callable[[float, Array], Array], h: float, steps: int) -> float:
    """The spectral radius of the map over a period, for each step, with RK4 written down here."""
    whole = np.eye(2)
    for k in range(steps):
        whole = np.array([rk4(f, k * h, column, h) for column in whole.T]).T
    return float(np.abs(np.linalg.eigvals(whole)).max() ** (1.0 / steps))


@pytest.mark.parametrize("seed", range(12))
def test_random_mathieu_oscillators(seed: int) -> None:
    """Written in one unit, or with the factor from another one, or from a function in Python."""
    turn = np.random.default_rng(seed)
    w, a, d = turn.uniform(0.5, 3.0), turn.uniform(0.0, 1.5), turn.uniform(0.0, 0.3)
    steps = int(turn.integers(20, 60))
    h = 2.0 * pi / w / steps
    truth = multipliers(lambda t, x: np.array([x[1], -(1 + a * cos(w * t)) * x[0] - d * x[1]]), h, steps)
    wave = f"(1 + {a!r}*cos({w!r}*time))"
    alone = up.Ode({"x": "v", "v": f"-{wave}*x - {d!r}*v"}, start={"x": 1.0}, solver="rk4")
    found = up.stability_of(up.Scenario({"o": alone}), pace=h, scan=False)
    assert found.spectral_radius == pytest.approx(truth, abs=1e-9)
    assert found.model.steps == steps
    if abs(truth - 1.0) > 1e-6:
        assert found.verdict == ("stable" if truth < 1.0 else "unstable")
    fed = up.Ode({"x": "v", "v": f"-(1 + k)*x - {d!r}*v"}, inputs=["k"], start={"x": 1.0}, solver="rk4")
    source = up.Function([], {"k": f"{a!r}*cos({w!r}*time)"})
    apart = up.Scenario({"source": source, "o": fed}, {"o.k": "source.k"})
    other = up.stability_of(apart, pace=h, scan=False)
    assert other.model.steps == steps
    whole, f = np.eye(2), (lambda k: lambda t, x: np.array([x[1], -(1 + k) * x[0] - d * x[1]]))
    for k in range(steps):  # the factor is held
        whole = np.array([rk4(f(a * cos(w * k * h)), 0.0, column, h) for column in whole.T]).T
    held = float(np.abs(np.linalg.eigvals(whole)).max() ** (1.0 / steps))
    assert other.spectral_radius == pytest.approx(held, abs=1e-9)


def of(unit: Any, **more: Any) -> up.Stability:
    return up.stability_of(up.Scenario({"o": unit}), pace=0.1, scan=False, **more)


def test_what_does_not_come_again_is_undecided() -> None:
    for text, why in [
        ("-(1 + 0.01*time)*x - 0.1*v", "not known to come again"),
        ("-(1 + exp(-time))*x - 0.1*v", "not known to come again"),
        ("-(1 + 0.5*cos(time))*x - 0.1*v", "no whole number of steps of 0.1 s"),
    ]:
        found = of(up.Ode({"x": "v", "v": text}))
        assert found.verdict == "undecided"
        assert why in found.why
    played = up.Scenario({"o": up.Ode({"x": "-k*x"}, inputs=["k"])}, {"o.k": "gain"}, inputs=["gain"])
    signals = up.Signals([0.0, 5.0], {"gain": [1.0, -3.0]})
    assert up.stability_of(played, pace=0.1, until=9.0, signals=signals, scan=False).verdict == "undecided"


def test_forces_change_nothing() -> None:
    plain = of(up.Ode({"x": "v", "v": "-x - 0.1*v"}))
    for text in ("-x - 0.1*v + sin(3*time)", "-x - 0.1*v + (1 if time > 3 else 0)", "-x - 0.1*v + time**2"):
        found = of(up.Ode({"x": "v", "v": text}))
        assert (found.verdict, found.spectral_radius) == (plain.verdict, plain.spectral_radius)
    duffing = of(up.Ode({"x": "v", "v": "-x - x**3 - 0.1*v + 0.1*sin(3*time)"}))
    assert duffing.verdict == "undecided"  # it moves, and with it its stiffness
    assert "is not a point of rest" in duffing.model.unseen


class Weighted:
    """y = weight(t)·u, by the time it is told, or by a clock of its own."""

    own = False

    def __init__(self, name: str, start: float, parameters: dict[str, Any]) -> None:
        self.t, self.u, self.x = start, 0.0, 0.0

    def get(self, port: str) -> float:
        return self.x

    def set(self, port: str, coefficients: Any) -> None:
        self.u = float(coefficients[0])

    def advance(self, t: float, to: float, early: bool) -> float:
        self.x = 0.5 * self.x + (0.3 + self.weight(self.t if self.own else t)) * self.u
        self.t += to - t
        return to

    def weight(self, t: float) -> float:
        return 0.1 * t

    def save(self) -> Any:
        return (self.t, self.u, self.x)

    def restore(self, token: Any) -> None:
        self.t, self.u, self.x = token


class Forced(Weighted):
    def advance(self, t: float, to: float, early: bool) -> float:
        self.x = 0.5 * self.x + 0.3 * self.u + 0.1 * (self.t if self.own else t)
        self.t += to - t
        return to


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize(("kind", "verdict"), [(Weighted, "undecided"), (Forced, "stable")])
def test_units_in_python_are_looked_at_at_other_times(kind: type, verdict: str, own: bool) -> None:
    unit = up.PythonUnit(type("K", (kind,), {"own": own}), ports(["u"], ["y"]), [up.Ability.ROLLBACK])
    lag = up.Ode({"z": "y - z"}, inputs=["y"], outputs=["z"])
    scenario = up.Scenario({"k": unit, "lag": lag}, {"k.u": "lag.z", "lag.y": "k.y"})
    found = up.stability_of(scenario, pace=0.1, scan=False)
    assert found.verdict == verdict
    assert ("changes with the time" in found.why) == (verdict == "undecided")


class Later(Weighted):
    """An integrator whose gain is another one later, by the time or by what it counts."""

    by: Any = None
    limit = 0.0

    def __init__(self, name: str, start: float, parameters: dict[str, Any]) -> None:
        self.x, self.u, self.n = 1.0, 0.0, self.by(0) if self.by else 0.0

    def advance(self, t: float, to: float, early: bool) -> float:
        self.x += (0.2 if (self.n if self.by else t) < self.limit else 8.0) * (self.u - self.x)
        self.n += self.by(1) if self.by else to - t
        return to

    def save(self) -> Any:
        return {"x": self.x, "u": self.u, "n": self.n}

    def restore(self, token: Any) -> None:
        self.x, self.u, self.n = token["x"], token["u"], token["n"]


@pytest.mark.parametrize("until", [None, 100.0])
@pytest.mark.parametrize(
    ("by", "limit"), [(int, 100), (int, 770), (float, 100), (np.int64, 100), (None, 20.0), (None, 83.0)]
)
def test_what_python_does_much_later_is_tried(by: Any, limit: float, until: float | None) -> None:
    made = type("K", (Later,), {"by": staticmethod(by) if by else None, "limit": limit})
    scenario = up.Scenario({"k": up.PythonUnit(made, ports(["u"], ["y"]), [up.Ability.ROLLBACK])})
    found = up.stability_of(scenario, pace=0.1, until=until, scan=False)
    assert found.verdict == "undecided"
    assert "a coefficient of k changes with the time" in found.why
    # A run that ends before is what was tried, and the verdict says how far that is.
    before = 0.08 * limit if by else 0.8 * limit
    found = up.stability_of(scenario, pace=0.1, until=before, scan=False)
    assert found.verdict == "stable"
    assert found.spectral_radius == pytest.approx(0.8)
    assert "k: the equations are not accessible" in found.model.assumed[0]
    assert f"{before - 0.1:.4g} s" in found.model.assumed[0]


@pytest.mark.parametrize("until", [None, 50.0])
def test_equations_in_python_are_tried_much_later(until: float | None) -> None:
    def of_time(switch: float) -> up.Scenario:
        unit = up.PythonOde(lambda t, x, u, p: [(-1.0 if t < switch else 1.0) * x[0]], states={"x": 1.0})
        return up.Scenario({"o": unit})

    assert up.stability_of(of_time(5.0), pace=0.1, until=until, scan=False).verdict == "undecided"
    found = up.stability_of(of_time(1e9), pace=0.1, until=until, scan=False)
    assert found.verdict == "stable"
    assert "o: the equations are not accessible" in "".join(found.model.assumed)


def test_what_fails_much_later_is_not_said_to_be_tried() -> None:
    table = [1.0] * 15  # no run should go beyond 15 s
    unit = up.PythonOde(lambda t, x, u, p: [table[int(t)] - x[0]], states={"x": 1.0})
    found = up.stability_of(up.Scenario({"o": unit}), pace=0.1, scan=False)
    assert found.verdict == "stable"
    assert found.model.assumed[0].endswith("3.27, 10.4 s")


@pytest.mark.parametrize(("factor", "verdict"), [(0.0, "stable"), (0.5, "undecided")])
def test_functions_in_python_are_looked_at_at_other_times(factor: float, verdict: str) -> None:
    unit = up.PythonOde(
        lambda t, x, u, p: {"x": -(1.0 + factor * cos(t)) * x.x + cos(t)}, states={"x": 1.0}, outputs=["x"]
    )
    assert of(unit).verdict == verdict


def test_nothing_is_proven_of_sequences_of_steps_that_differ_with_the_time() -> None:
    swinging = up.Ode({"x": "v", "v": "-(1 + 0.8*cos(2*time))*x - 0.05*v"})
    with pytest.raises(up.RunError, match="not all alike"):
        up.certified(up.Scenario({"o": swinging}), [pi / 32])
