"""Switched systems on the edge: what neither decays nor grows is undecided, and points are named."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from scipy.linalg import expm

import upbeat as up
from upbeat.report.stability import describe_steps, describe_table
from upbeat.stability.switched.decide import grows
from upbeat.stability.switched.policies import table_holds


def turned(angle: float, size: float = 1.0) -> Any:
    return size * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def skewed(matrix: Any) -> Any:
    """The same in coordinates in which nobody sees it."""
    basis = np.array([[2.0, 1.0], [0.3, 1.0]])
    return basis @ matrix @ np.linalg.inv(basis)


EDGE = [
    [turned(0.3)],
    [turned(0.3), turned(1.1)],
    [np.eye(2)],
    [skewed(turned(0.7))],
    [skewed(np.array([[1.0, 0.1], [0.0, 1.0]]))],  # its eigenvalues are known to half of the digits only
]


@pytest.mark.parametrize("matrices", EDGE, ids=["turn", "turns", "identity", "skewed", "shear"])
def test_what_stays_is_undecided(matrices: list[Any]) -> None:
    found = up.decide(up.SwitchedSystem(matrices), seconds=20)
    assert (found.verdict, found.growing) == ("undecided", ())
    assert found.cycles
    assert "neither decays nor grows" in found.why
    bounds = up.joint_radius(up.SwitchedSystem(matrices), seconds=5)
    assert bounds.verdict == "undecided"


def test_growth_is_sure_far_nearer_to_one_than_anybody_sees() -> None:
    assert grows(np.array([turned(0.3, 1.0 + 1e-12)]), (0, 0, 0))
    assert not grows(np.array([turned(0.3, 1.0 - 1e-12)]), (0,))
    found = up.decide(up.SwitchedSystem([turned(0.3, 1.0 + 1e-9)]))
    assert found.verdict == "unstable"
    assert found.growing[0].growth == pytest.approx(1.0 + 1e-9, abs=1e-13)


def test_what_is_gone_after_some_steps_has_a_bound_near_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for matrices in ([[[0.0, 1.0], [0.0, 0.0]]], [[[0.0, 5e4], [0.0, 0.0]]], [[[0.0]]]):
            found = up.joint_radius(up.SwitchedSystem(matrices), seconds=20)
            size = max(np.abs(matrices).max(), 1.0)
            assert found.lower == 0.0
            assert 0.0 < found.upper < 1e-4 * size
            assert all(proof.check() for proof in found.certificates)


def alone(states: dict[str, str], start: dict[str, float] | None = None, **more: Any) -> up.Scenario:
    return up.Scenario(units={"o": up.Ode(states, start=start or {}, **more)})


OSCILLATOR = alone({"x": "v", "v": "(1 - x*x)*v - x"}, {"x": 2.0})


def test_steps_of_several_sizes_are_judged_where_it_is_asked_for() -> None:
    """Van der Pol: x = v = 0 has the eigenvalues (1 ± i√3)/2, and everything there grows."""
    with pytest.raises(up.RunError, match="the start is not a point of rest"):
        up.certified(OSCILLATOR, [0.05, 0.1])
    rest = up.certified(OSCILLATOR, [0.05, 0.1], at="rest")
    assert (rest.verdict, rest.data()["at"]) == ("unstable", "rest")
    assert str(rest).startswith("Locally unstable: for small motions around rest, ")
    assert rest.freely.growing[0].growth == pytest.approx(np.exp(0.5 * 0.1), rel=1e-5)
    with pytest.raises(up.RunError, match=r"t = 0\.5 s is not a point of rest"):
        up.certified(OSCILLATOR, [0.1], at=0.5)
    with pytest.raises(up.InvalidInput, match="not a time of the run"):
        up.certified(OSCILLATOR, [0.1], at=-1.0)


def test_a_table_is_judged_where_it_is_asked_for() -> None:
    pace = up.Monitored(up.EventDriven(0.1), (0.05, 0.1), ((0, 0),))
    made = up.experiment(OSCILLATOR, pace=pace, until=10.0)
    with pytest.raises(up.RunError, match="the start is not a point of rest"):
        table_holds(made, pace)
    assert "Locally unstable: for small motions around rest" in describe_table(
        table_holds(made, pace, at="rest")
    )


@pytest.mark.parametrize(
    "scenario",
    [
        alone({"x": "v", "v": "-x"}, {"x": 1.0}, solver="dormand_prince"),
        alone({"x": "-x", "y": "x"}, {"x": 1.0}),
    ],
    ids=["oscillator", "integrator"],
)
def test_motions_that_stay_are_not_called_unstable(scenario: up.Scenario) -> None:
    found = up.certified(scenario, [0.1, 0.2], seconds=20)
    assert (found.verdict, found.proven) == ("undecided", False)
    text = describe_steps(found)
    assert text.startswith("Undecided: with steps of 0.1, 0.2 s some motion neither decays nor grows")
    assert "hold or damp it" in text
    assert "remains    0.1" in text
    assert "  grows " not in text
    with pytest.raises(up.InvalidInput, match="nothing to keep to"):
        found.monitor(up.EventDriven(1.0))


def test_advice_for_what_grows_whatever_the_step() -> None:
    found = up.certified(alone({"x": "0.5*x"}, {"x": 1.0}), [0.1, 0.2], seconds=20)
    assert "Each of them grows alone" in str(found)


def test_a_scenario_without_states_has_nothing_that_grows() -> None:
    scenario = up.Scenario(units={"f": up.Function(["u"], {"y": "2*u"})})
    found = up.certified(scenario, [0.1, 0.2])
    assert (found.verdict, found.proven) == ("stable", True)


def test_a_size_is_no_list_of_sizes() -> None:
    with pytest.raises(up.InvalidInput, match=r"a list of sizes, such as \[0.05, 0.1\], not 0.1"):
        up.certified(OSCILLATOR, 0.1)  # type: ignore[arg-type]


def _held_together(step: float, by_position: float, by_velocity: float) -> float:
    """The spectral radius of two masses whose common force solves a constraint at the end of each step.

    x' = Φ·x + Γ·u with C·x' = 0 gives x' = (Φ - Γ·(C·Γ)⁻¹·C·Φ)·x.
    """
    flow, pushed = np.zeros((4, 4)), np.zeros(4)
    for place, (stiff, damping, sign) in enumerate(((1.0, 0.3, 1.0), (2.0, 0.1, -1.0))):
        inner = np.array([[0.0, 1.0, 0.0], [-stiff, -damping, sign], [0.0, 0.0, 0.0]])
        one, own = expm(inner * step), slice(2 * place, 2 * place + 2)
        flow[own, own], pushed[own] = one[:2, :2], one[:2, 2]
    gap = np.array([by_position, by_velocity, -by_position, -by_velocity])
    whole = flow - np.outer(pushed, gap @ flow) / (gap @ pushed)
    return float(np.abs(np.linalg.eigvals(whole)).max())


@pytest.mark.parametrize("corrections", [None, 1, 2])
@pytest.mark.parametrize("step", [0.1, 0.2, 0.3, 0.4, 0.5])
def test_constraints_are_judged_as_well_as_differences_know_them(
    step: float, corrections: int | None
) -> None:
    solver = up.DormandPrince(rtol=1e-10, atol=1e-12)
    units = {
        name: up.Ode(
            {"x": "v", "v": f"F - {c}*x - {d}*v"},
            inputs=["F"],
            outputs=["x", "v"],
            start={"x": 1.0},
            solver=solver,
        )
        for name, c, d in (("left", 1.0, 0.3), ("right", 2.0, 0.1))
    }
    scenario = up.Scenario(
        units=units, connections={"left.F": "force", "right.F": "-force"}, inputs=["force"]
    )
    for text, position, velocity in (
        ("left.x - right.x + step/2*(left.v - right.v)", 1.0, 0.5 * step),
        ("left.v - right.v", 0.0, 1.0),
    ):
        coupling = up.Constrained({"force": text}, corrections=corrections)
        found = up.stability_of(scenario, pace=step, coupling=coupling, ideal=True, scan=False)
        true = _held_together(step, position, velocity)
        assert abs(found.spectral_radius - true) <= found.mode.uncertainty + 1e-12
        # Velocities alone never close a gap: it stays what it was, and no rounding makes it decay or grow.
        assert found.verdict == ("stable" if position else "undecided")
