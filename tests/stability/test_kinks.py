"""Kinks at the operating point: one-sided slopes, across units as well; jumps; and what only bends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import upbeat as up
from upbeat.report.stability import describe
from upbeat.units import ports

Array = Any
KINKS: dict[str, Callable[[float], float]] = {
    "max({z}, 0)": lambda z: max(z, 0.0),
    "abs({z})": abs,
    "min({z}, 0)": lambda z: min(z, 0.0),
    "clip({z}, -1, 0)": lambda z: min(max(z, -1.0), 0.0),
    "({z} if {z} > 0 else 0.3*({z}))": lambda z: z if z > 0.0 else 0.3 * z,
}


def rk4(f: Callable[[Array], Array], x: Array, h: float) -> Array:
    a = f(x)
    b = f(x + 0.5 * h * a)
    c = f(x + 0.5 * h * b)
    d = f(x + h * c)
    return x + h / 6.0 * (a + 2.0 * b + 2.0 * c + d)


def growths(step: Callable[[Array], Array], starts: Array, count: int) -> Array:
    """By how much, as logarithms, small deviations grow over their last half, made small again and again."""
    found = []
    for start in starts:
        x, grown = start, 0.0
        for k in range(count):
            after = step(x / np.linalg.norm(x) * 1e-3) / 1e-3
            size = np.linalg.norm(after)
            if size < 1e-12:
                grown = -np.inf
                break
            grown += np.log(size) if 2 * k >= count else 0.0
            x = after
        found.append(grown)
    return np.array(found)


def drawn(seed: int) -> tuple[up.Scenario, Callable[[Array], Array], float, int]:
    """x' = A·x + Σ b·kink(c·x), of one or two kinks that meet in 0."""
    turn = np.random.default_rng(seed)
    size, h = int(turn.integers(1, 4)), float(turn.choice([0.05, 0.1, 0.3]))
    a = turn.normal(size=(size, size)) - turn.uniform(0.0, 2.5) * np.eye(size)
    chosen = [str(turn.choice(list(KINKS))) for _ in range(int(turn.integers(1, 3)))]
    bs, cs = turn.normal(size=(len(chosen), size)), turn.normal(size=(len(chosen), size))

    def f(x: Array) -> Array:
        return a @ x + sum(b * KINKS[kind](float(c @ x)) for kind, b, c in zip(chosen, bs, cs, strict=True))

    states = {}
    for i in range(size):
        terms = [f"{float(a[i, j])!r}*x{j}" for j in range(size)]
        for kind, b, c in zip(chosen, bs, cs, strict=True):
            z = " + ".join(f"{float(c[j])!r}*x{j}" for j in range(size))
            terms.append(f"{float(b[i])!r}*{kind.format(z=f'({z})')}")
        states[f"x{i}"] = " + ".join(terms)
    unit = up.Ode(states, solver="rk4")
    return up.Scenario({"o": unit}), lambda x: rk4(f, x, h), h, size


@pytest.mark.parametrize("count", [8, pytest.param(24, marks=pytest.mark.slow)])
def test_random_kinks_are_judged_as_motions_across_them_go(count: int) -> None:
    verdicts = []
    for seed in range(count):
        scenario, step, h, size = drawn(seed)
        found = up.stability_of(scenario, pace=h, scan=False)
        verdicts.append(found.verdict)
        grown = growths(step, np.random.default_rng(1000 + seed).normal(size=(40, size)), 200)
        if found.verdict == "stable":
            assert grown.max() < 0.0, seed
        if found.verdict == "unstable":
            assert grown.max() > 0.0, seed
    assert {"stable", "unstable"} <= set(verdicts)
    assert verdicts.count("undecided") <= 5


def alone(unit: Any, **more: Any) -> up.Stability:
    return up.stability_of(up.Scenario({"o": unit}), pace=0.1, scan=False, **more)


ONE_SIDED = {"x": "v", "v": "-x - 0.1*v + 2*max(v, 0)"}


@pytest.mark.parametrize("at", ["start", "rest"])
def test_what_grows_to_one_side_is_not_stable(at: Any) -> None:
    """Linearised on the branch that is taken at v = 0 it is 0.995; upwards, v is driven by 1.9·v."""
    assert alone(up.Ode(ONE_SIDED), at=at).verdict == "unstable"
    trace = up.simulate(up.Scenario({"o": up.Ode(ONE_SIDED, start={"v": 1e-9})}), pace=0.1, until=60.0)
    assert abs(trace["o.x"][-1]) > 1.0


def test_a_kink_that_stands_still_to_one_side_and_grows_to_the_other_is_unstable() -> None:
    """x' = -|x|: decays from above and grows from below, though the slope in 0 itself is 0."""
    found = alone(up.Ode({"x": "-abs(x)"}))
    assert found.verdict == "unstable"
    assert found.spectral_radius == pytest.approx(np.exp(0.1), rel=1e-6)


def python_ode(slope: float) -> up.PythonOde:
    return up.PythonOde(
        lambda t, x, u, p: {"x": x.v, "v": -x.x - 0.5 * x.v + slope * max(x.v, 0.0)},
        states={"x": 0.0, "v": 0.0},
        outputs=["x"],
    )


class Limited:
    """x⁺ = 0.5·x + gain·max(u, 0)."""

    gain = 1.0

    def __init__(self, name: str, start: float, parameters: dict[str, Any]) -> None:
        self.x, self.u = 0.0, 0.0

    def get(self, port: str) -> float:
        return self.x

    def set(self, port: str, coefficients: Any) -> None:
        self.u = float(coefficients[0])

    def advance(self, t: float, to: float, early: bool) -> float:
        self.x = 0.5 * self.x + self.gain * max(self.u, 0.0)
        return to

    def save(self) -> Any:
        return (self.x, self.u)

    def restore(self, token: Any) -> None:
        self.x, self.u = token


@pytest.mark.parametrize(("slope", "verdict"), [(0.2, "stable"), (3.0, "unstable")])
def test_functions_in_python_have_kinks_as_well(slope: float, verdict: str) -> None:
    assert alone(python_ode(slope)).verdict == verdict


@pytest.mark.parametrize(("gain", "verdict"), [(0.3, "stable"), (2.0, "unstable")])
def test_units_in_python_and_connections_have_kinks_as_well(gain: float, verdict: str) -> None:
    """y⁺ = 0.5·y + gain·max(y, 0), one step late: it grows if z² = 0.5·z + gain has a root beyond 1."""
    unit = up.PythonUnit(type("L", (Limited,), {"gain": gain}), ports(["u"], ["y"]), [up.Ability.ROLLBACK])
    found = up.stability_of(up.Scenario({"l": unit}, {"l.u": "l.y"}), pace=0.1, scan=False)
    assert found.verdict == verdict
    lag = up.Ode({"y": "10*(u - y)"}, inputs=["u"], outputs=["y"])
    around = up.Scenario({"a": lag, "b": lag}, {"a.u": f"{gain}*max(b.y, 0)", "b.u": "max(a.y, 0.5*a.y)"})
    assert up.stability_of(around, pace=0.1, scan=False).verdict == verdict


def test_what_jumps_is_undecided_and_named() -> None:
    found = alone(up.Ode({"x": "v", "v": "-x - sign(v)"}))
    assert found.verdict == "undecided"
    assert "jumps at the operating point, however small a deviation is" in found.why
    assert "jumps at the operating point" in describe(found)


def test_what_only_bends_and_kinks_elsewhere_change_nothing() -> None:
    smooth = alone(up.Ode({"x": "v", "v": "-x - 0.1*v"}))
    bent = alone(up.Ode({"x": "v", "v": "-x - 0.1*v - 5*v*abs(v)"}))
    away = alone(up.Ode({"x": "v", "v": "-x - 0.1*v + 9*max(x - 0.2, 0)"}))
    for one in (bent, away):
        assert one.verdict == "stable"
        assert one.spectral_radius == pytest.approx(smooth.spectral_radius, abs=1e-12)


def test_nothing_is_proven_of_sequences_and_runs_that_rest_on_a_kink() -> None:
    scenario = up.Scenario({"o": up.Ode(ONE_SIDED)})
    with pytest.raises(up.RunError, match="slopes jump at the operating point"):
        up.certified(scenario, [0.1, 0.2])
    with pytest.raises(up.RunError, match="slopes jump at the operating point"):
        up.stability_along(scenario, pace=0.1, until=5.0)
    away = up.Scenario({"o": up.Ode({"x": "-x - max(x, 0)"}, start={"x": 5.0})})
    with pytest.raises(up.RunError, match="the start is not a point of rest"):
        up.certified(away, [0.1, 0.2])  # on the way to where slopes jump
    beside = up.Scenario({"o": up.Ode({"x": "-x - max(x - 9, 0)"}, start={"x": 5.0})})
    assert up.certified(beside, [0.1, 0.2]).verdict == "stable"
    assert up.stability_along(away, pace=0.1, until=2.0).verdict == "stable"


def _judged(rate: str, at: Any = "start", **others: str) -> up.Stability:
    unit = up.Ode({"x": rate, **others}, start=dict.fromkeys(["x", *others], 0.0))
    return up.stability_of(up.Scenario({"a": unit}), pace=0.1, scan=False, at=at)


@pytest.mark.parametrize("at", ["start", "rest"])
@pytest.mark.parametrize(
    "size",
    ["sqrt(x*x)", "(x*x)**0.5", "(x**2)**0.5", "(4*x**4)**0.25", "acos(1 - x*x/2)", "x*tanh(1/x)",
     "exp(log(x*x)/2)", "hypot(x, 0)", "(x**6)**(1/6)"],
)  # fmt: skip
def test_kinks_without_abs_are_kinks(size: str, at: Any) -> None:
    """All are |x| or more, near 0: x' = -x + 2·|x| grows for x > 0, where the slopes of x < 0 decay."""
    found = _judged(f"-x + 2*{size}", at)
    assert found.verdict != "stable"
    if found.verdict == "undecided":
        assert "slope" in found.why or "jumps" in found.why


@pytest.mark.parametrize("at", ["start", "rest"])
def test_norms_have_pieces_without_end(at: Any) -> None:
    assert _judged("-x + 2*sqrt(x*x + y*y)", at, y="-y").verdict != "stable"
    open_ = _judged("-x + 0.2*sqrt(x*x + y*y)", at, y="-y")  # stable, but what proves that are no samples
    assert open_.verdict == "undecided"
    assert "pieces" in open_.why
    assert _judged("-x + x*sqrt(x*x + y*y)", at, y="-y").verdict == "stable"  # there is a slope: -1


def test_roots_and_quotients_have_slopes_elsewhere() -> None:
    for rate in ("-x + sqrt(1 + x*x) - 1", "-x/(1 + x*x)", "-(x + 4)**0.5 + 2", "-x*log(2 + x)"):
        assert _judged(rate).verdict == "stable", rate


def test_steps_have_to_agree_with_slopes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Should the form of equations ever hide a kink, steps from beside the point still show it."""
    for module in ("flows", "linearise"):
        monkeypatch.setattr(f"upbeat.stability.linear.{module}.smooth", lambda *_: True)
    found = _judged("-x - 0.5*abs(x)")
    assert found.verdict == "undecided"
    assert "slopes jump" in found.why
    assert _judged("-x - x*abs(x)").verdict == "stable"
