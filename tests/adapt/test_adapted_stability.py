"""Stability verdicts see through adaptations: the step as a matrix, beside that of the same thing by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.linalg import expm

import upbeat as up
from adaptations import inp, out, passing, rated
from upbeat.adapt import Adaptation, Assign, Rule, Step, Stored

MASS = up.Ode({"x": "v", "v": "-x - 0.1*v + F"}, inputs=["F"], outputs=["x"], start={"x": 1.0})
SPRING = up.Function(inputs=["x"], outputs={"f": "-5*x"})
A = np.array([[0.0, 1.0], [-1.0, -0.1]])
B = np.array([0.0, 1.0])


def coupled(spring: Any) -> up.Scenario:
    return up.Scenario({"m": MASS, "k": spring}, {"m.F": "k.f", "k.x": "m.x"})


def judged(scenario: up.Scenario, step: float, **more: Any) -> Any:
    return up.induced(up.experiment(scenario, pace=step, until=10.0, **more))


def spectrum(matrix: Any) -> np.ndarray:
    """The eigenvalues that are not zero."""
    found = np.linalg.eigvals(np.asarray(matrix))
    return np.sort_complex(found[np.abs(found) > 1e-7])


def over_step(step: float) -> tuple[np.ndarray, np.ndarray]:
    """The states after a step with a held force, exactly."""
    block = expm(step * np.block([[A, B[:, None]], [np.zeros((1, 3))]]))
    return block[:2, :2], block[:2, 2]


def test_merged_ones_have_the_matrix_of_the_connections() -> None:
    double = Adaptation(
        {"w": SPRING},
        (inp("x"), out("f")),
        in_rules=(Rule((Assign("s", "2*x"),), (Assign("w.x", "s/4"),)),),
        out_rules=(Rule((Assign("o", "w.f"),), (Assign("f", "2*o"),)),),
        inputs=(Stored("s"),),
        outputs=(Stored("o"),),
    )
    by_hand = up.Scenario({"m": MASS, "k": SPRING}, {"m.F": "2*k.f", "k.x": "m.x/2"})
    one, other = (judged(scenario, 0.1) for scenario in (by_hand, coupled(up.adapted(double))))
    np.testing.assert_allclose(other.matrix, one.matrix, rtol=1e-12, atol=1e-15)
    kept = judged(coupled(up.adapted(double, flatten=False)), 0.1)
    np.testing.assert_allclose(spectrum(kept.matrix), spectrum(one.matrix), rtol=1e-9)


@pytest.mark.parametrize("step", [0.03, 0.2])
def test_a_delay_is_found(step: float) -> None:
    """Delayed and Moore: the force is that of the position one step before, which destabilises."""
    late = up.adapted(passing({"w": SPRING}, {"x": "w.x"}, {"f": "w.f"}, mealy=False, reactive=False))
    phi, gamma = over_step(step)
    by_hand = np.zeros((3, 3))  # x, v, and the force that is under way
    by_hand[:2, :2], by_hand[:2, 2], by_hand[2, 0] = phi, gamma, -5.0
    found = judged(coupled(late), step)
    np.testing.assert_allclose(spectrum(found.matrix), spectrum(by_hand), rtol=1e-4)  # RK4, exact
    without = np.block([[phi - 5.0 * np.outer(gamma, [1.0, 0.0])]])
    verdicts = [
        up.stability_of(up.experiment(coupled(spring), pace=step, until=10.0), scan=False).verdict
        for spring in (SPRING, late)
    ]
    radii = [max(abs(np.linalg.eigvals(matrix))) for matrix in (without, by_hand)]
    assert verdicts == ["stable" if radius < 1.0 else "unstable" for radius in radii]
    assert step > 0.1 or verdicts == ["stable", "unstable"]


def test_after_its_source_nothing_is_late() -> None:
    moore = Adaptation(
        {"w": SPRING},
        (inp("x"), out("f")),
        in_rules=(Rule((Assign("s", "x"),), (Assign("w.x", "s"),)),),
        out_rules=(Rule((Assign("o", "w.f"),), (Assign("f", "o"),)),),
        inputs=(Stored("s"),),
        outputs=(Stored("o"),),
        control=(Step("w"),),
        mealy=False,
    )
    found = judged(coupled(up.adapted(moore)), 0.03, coupling=up.GaussSeidel(("m", "k")))
    phi, gamma = over_step(0.03)
    by_hand = phi - 5.0 * np.outer(gamma, [1.0, 0.0])  # f(t) = -5·x(t): nothing is late in this order
    np.testing.assert_allclose(spectrum(found.matrix), spectrum(by_hand), rtol=1e-6)


def test_several_steps_inside() -> None:
    """Interpolated inputs over micro-steps, written out: four exact steps with held values."""
    filter_ = up.Ode({"x": "20*(u - x)"}, inputs=["u"], outputs=["x"])
    model = up.adapted(rated(filter_, 4))
    scenario = up.Scenario({"m": MASS, "k": model}, {"m.F": "-5*k.y", "k.u": "m.x"})
    step = 0.1
    found = judged(scenario, step, coupling=up.GaussSeidel(("m", "k")))
    phi, gamma = over_step(step)
    by_hand = np.zeros((4, 4))  # x, v, the filter, and the position one step before
    decay = 1.0 - (z := 20.0 * step / 4) + z**2 / 2 - z**3 / 6 + z**4 / 24  # RK4
    by_hand[:2, :2], by_hand[:2, 2] = phi, -5.0 * gamma
    by_hand[3] = by_hand[0]
    row = np.array([0.0, 0.0, 1.0, 0.0])
    for k in range(1, 5):
        value = np.array([0.0, 0.0, 0.0, 1.0]) * (1 - k / 4) + by_hand[0] * (k / 4)
        row = decay * row + (1.0 - decay) * value
    by_hand[2] = row
    np.testing.assert_allclose(spectrum(found.matrix), spectrum(by_hand), rtol=1e-5)
