"""How well eigenvalues are known: what is said to be sure must be so, whatever the step and the units."""

from __future__ import annotations

import numpy as np
import pytest

import upbeat as up
from upbeat.report.stability import describe
from upbeat.stability.linear.flows import balanced, exponential, size
from upbeat.stability.linear.induced import Inducing
from upbeat.stability.verdicts.spectrum import spectrum


def swinging(damping: float, stiffness: float = 1e4) -> up.Scenario:
    """x'' = -stiffness·x - damping·x' solved without error: |λ| = e^{-damping·h/2}, whatever the step."""
    own = up.Ode(
        {"x": "v", "v": "-k*x - d*v + u"},
        inputs=["u"],
        start={"x": 1.0},
        parameters={"k": stiffness, "d": damping},
        solver="dormand_prince",
    )
    back = up.Function(["x"], {"y": "0*x"})
    return up.Scenario(units={"a": own, "b": back}, connections={"a.u": "b.y", "b.x": "a.x"})


@pytest.mark.parametrize(("damping", "verdict"), [(0.0, "undecided"), (1e-9, "stable"), (-1e-9, "unstable")])
def test_an_oscillator_is_decided_exactly_where_it_is_damped(damping: float, verdict: str) -> None:
    """Over 150 steps that are up to 1.6 oscillations long, two of which are ones that rounding pushed far."""
    with Inducing(up.experiment(swinging(damping), pace=0.02, until=1.0), ideal=True) as inducing:
        for step in (*np.linspace(0.02, 0.1, 148).tolist(), 0.0602, 0.03981680082268941):
            found = spectrum(inducing.model(step))
            assert found.judged.verdict == verdict, step
            assert abs(found.radius - np.exp(-0.5 * damping * step)) <= found.dominant.uncertainty


def test_the_accuracy_falls_with_what_happens_in_a_step() -> None:
    def known(step: float, **more: float) -> float:
        return up.induced(swinging(0.0, **more), pace=step, ideal=True).accuracy

    assert known(1e-3) < 1e-14 < known(1.0) < 1e-12
    # Ten thousand times stiffer is a hundred times faster.
    assert known(0.01, stiffness=1e8) == pytest.approx(known(1.0), rel=0.5)
    # It is that of the step asked for, whatever was asked before.
    with_scan = up.stability_of(swinging(0.0), pace=1e-3, scan=(1e-3, 10.0), points=3, ideal=True)
    assert with_scan.model.accuracy == known(1e-3)


@pytest.mark.parametrize("steps", [1, 1000])
def test_many_solver_steps_know_less(steps: int) -> None:
    unit = up.Ode({"x": "-x"}, start={"x": 1.0}, solver=up.RK4(steps))
    found = up.induced(up.Scenario(units={"u": unit}), pace=0.1)
    assert found.accuracy == pytest.approx(1e-15 * steps)
    assert found.matrix[0, 0] == pytest.approx(np.exp(-0.1), rel=1e-6)


def test_a_pendulum_without_friction_is_not_damped_by_the_way_it_is_followed() -> None:
    """At rest x'' = -9.81·x to first order. Not being linear, it is followed in steps that err a little."""
    for friction, verdict in ((0.0, "undecided"), (1e-4, "stable")):
        own = up.Ode(
            {"x": "v", "v": "-9.81*sin(x) - d*v"}, parameters={"d": friction}, solver="dormand_prince"
        )
        scenario = up.Scenario(units={"u": own})
        for step in (0.01, 0.1, 1.0, 5.0):
            found = up.stability_of(scenario, pace=step, at="rest", scan=False)
            assert found.verdict == verdict
            assert abs(found.mode.radius - np.exp(-0.5 * friction * step)) <= found.mode.uncertainty


def test_units_of_measure_do_not_matter() -> None:
    """Turned by an angle in units that differ by a factor of 10¹²: sine and cosine, as exactly as before."""
    for angle in (0.5, 30.0, 3000.0):
        for unit in (1.0, 1e6, 1e-6):
            matrix = angle * np.array([[0.0, unit], [-1.0 / unit, 0.0]])
            turned = [[np.cos(angle), unit * np.sin(angle)], [-np.sin(angle) / unit, np.cos(angle)]]
            found = exponential(matrix)
            scale = np.array([[1.0, unit], [1.0 / unit, 1.0]])
            assert np.abs((found - turned) / scale).max() < 1e-15 * angle * 10
            assert size(matrix) < 3.0 * angle


def test_balancing_costs_no_rounding() -> None:
    turn = np.random.default_rng(5)
    plain, units = turn.normal(size=(6, 6)), 10.0 ** turn.uniform(-9, 9, 6)
    plain[:, 2] = plain[3] = 0.0  # nobody listens to the one, nobody speaks to the other
    matrix = plain * units[:, None] / units
    found, scale = balanced(matrix)
    assert (found * scale[:, None] / scale == matrix).all()
    assert np.abs(found).sum() < 3.0 * np.abs(plain).sum() < 1e-3 * np.abs(matrix).sum()


def loosely_solved(seed: int) -> tuple[up.Scenario, float]:
    """Two lightly damped oscillators whose solvers have tolerances between 1e-5 and 0.03, and a long step."""
    turn = np.random.default_rng(seed)
    rtol, step = 10.0 ** turn.uniform(-5.0, -1.5), turn.uniform(0.1, 3.0)
    units, connections = {}, {}
    for i in range(2):
        w, z = turn.uniform(1.0, 5.0), 10.0 ** turn.uniform(-4.0, -1.5)
        units[f"m{i}"] = up.Ode(
            {"x": "v", "v": f"-{w * w:.17g}*x - {2 * z * w:.17g}*v + F"},
            inputs=["F"],
            outputs=["x"],
            start={"x": 1.0},
            solver=up.DormandPrince(rtol=rtol, atol=1e-12),
        )
        push = turn.uniform(-0.3, 0.3) * 10.0 ** turn.uniform(-3.0, 0.0)
        connections[f"m{i}.F"] = f"{push:.17g}*m{1 - i}.x"
    return up.Scenario(units=units, connections=connections), step


def test_a_solver_with_a_tolerance_is_no_more_exact_than_that() -> None:
    """Runs are the judge: none that is called stable grows, and none that is called unstable decays."""
    wrong_if_exact = 0
    for seed in range(30):
        scenario, step = loosely_solved(seed)
        trace = up.simulate(scenario, pace=step, until=3000 * step)
        size = np.abs(trace["m0.x"]) + np.abs(trace["m1.x"])
        early, late = size[100:400].max(), size[-300:].max()
        found = up.stability_of(scenario, pace=step, scan=False)
        assert "m0, m1: the solver keeps to its tolerance" in describe(found)
        assert not (found.verdict == "stable" and late > 3.0 * early)
        assert not (found.verdict == "unstable" and late < early / 3.0)
        exact = up.stability_of(scenario, pace=step, scan=False, ideal=True)
        assert exact.model.assumed == ()
        wrong_if_exact += exact.verdict == "stable" and bool(late > 3.0 * early)
    assert wrong_if_exact > 0
