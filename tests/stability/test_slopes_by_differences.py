"""Where the rules of differentiation give no number: differences do, or the point is refused."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import upbeat as up
from upbeat.stability.linear.flows import Differences
from upbeat.units.fmi.unit import _nominal


def valve(start: float) -> up.Scenario:
    """x' = -x - sqrt(max(x - 1, 0)): below 1, by the rules, the slope of the root is infinity times zero."""
    unit = up.Ode({"x": "-x - sqrt(max(x - 1, 0))"}, start={"x": start}, outputs=["x"], solver="rk4")
    return up.Scenario({"a": unit})


def test_below_the_root_its_slope_is_zero() -> None:
    found = up.stability_of(valve(0.5), pace=0.1, scan=False)
    once = sum((-0.1) ** k / math.factorial(k) for k in range(5))
    assert found.spectral_radius == pytest.approx(once, rel=1e-9)
    assert found.local


def test_at_the_root_there_is_none() -> None:
    stays = up.Scenario({"a": up.Ode({"x": "-sqrt(max(x, 0))"}, outputs=["x"], solver="rk4")})
    found = up.stability_of(stays, pace=0.1, scan=False)
    assert found.verdict == "undecided"
    assert "der(x) has no slope there in x. Choose another point" in found.why


def test_differences_are_less_accurate() -> None:
    rough = up.induced(valve(0.5), pace=0.1).accuracy
    sharp = up.induced(valve(2.0), pace=0.1).accuracy
    assert sharp < 1e-12 < rough
    assert np.isfinite(up.induced(valve(2.0), pace=0.1).matrix).all()


@pytest.mark.parametrize("seed", range(12))
def test_slopes_of_small_things_are_found_on_their_own_scale(seed: int) -> None:
    """x' = r·(g²/x - x) rests at the gap g, with slope -2·r: Euler's method makes 1 - 2·r·h of it."""
    turn = np.random.default_rng(seed)
    gap, rate, step = 10.0 ** turn.uniform(-9.0, 3.0), turn.uniform(0.5, 30.0), 0.1

    def rates(t: float, x: Any, u: Any, p: Any) -> list[float]:
        return [rate * (gap * gap / x[0] - x[0])]

    unit = up.PythonOde(rates, {"x": gap}, outputs=["x"], solver="euler")
    true = 1.0 - 2.0 * rate * step
    found = up.induced(up.Scenario({"a": unit}), pace=step)
    assert found.matrix[0, 0] == pytest.approx(true, rel=1e-6)
    assert abs(found.matrix[0, 0] - true) <= 9.0 * found.accuracy * abs(true)
    judged = up.stability_of(up.Scenario({"a": unit}), pace=step, scan=False)
    assert judged.verdict in ("undecided", "stable" if abs(true) < 1.0 else "unstable")


def test_a_slope_that_two_lengths_do_not_agree_on_is_not_claimed_to_be_known() -> None:
    """A staircase of tiny steps: whatever the differences give, it is no slope to rely on."""

    def rates(t: float, x: Any, u: Any, p: Any) -> list[float]:
        return [-x[0] + 1e-3 * math.sin(x[0] * 1e9)]

    unit = up.PythonOde(rates, {"x": 0.3}, outputs=["x"], solver="euler")
    found = up.stability_of(up.Scenario({"a": unit}), pace=0.1, scan=False)
    assert found.verdict == "undecided" or found.mode.uncertainty > 1e-3


@pytest.mark.parametrize("size", [1e-12, 1e-6, 1e6])
def test_what_is_zero_is_moved_by_its_nominal_value(size: float) -> None:
    """A characteristic as wide as the nominal value: 6e-6 is far beyond one of picoamperes."""

    def rates(t: float, x: Any, u: Any) -> list[float]:
        return [3.0 * math.tanh(x[0] / size) + 0.5 * math.sin(u[0] / size)]

    unit = up.PythonOde(lambda t, x, u, p: rates(t, x, u), {"x": 0.0}, inputs=["u"], outputs=["x"])
    made = unit.instantiate("a", 0.0)
    by = Differences(replace(made.behaviour, derivatives=rates, nominal=(size, size)))
    by_state, by_input = by.dynamics(made, 0.0, [0.0], [0.0])
    assert by_state[0, 0] == pytest.approx(3.0 / size, rel=1e-6)
    assert by_input[0, 0] == pytest.approx(0.5 / size, rel=1e-6)


def test_nominal_values_come_from_the_description(fmu: Any) -> None:
    model = up.Fmu(fmu("linear", 3), interface="co-simulation")
    unit = model.instantiate("a", 0.0)
    assert unit.state_access().nominal == {"u": 1.0}
    unit.close()
    known = model.layout.variables["u"]
    assert _nominal(replace(known, properties=replace(known.properties, nominal=-1e-12))) == 1e-12


def test_functions_in_python_have_inputs_but_no_derivatives() -> None:
    """x' = -x + y/2, with the y of the step before: one step is e^(-h) and (1 - e^(-h))/2 of them."""
    plant = up.Ode({"x": "-x + u"}, inputs=["u"], start={"x": 1.0})
    half = up.PythonFunction(lambda t, u, p: 0.5 * u.x, inputs=["x"], outputs=["y"])
    scenario = up.Scenario({"p": plant, "f": half}, {"p.u": "f.y", "f.x": "p.x"})
    found = up.stability_of(scenario, pace=0.1, scan=False, ideal=True)
    assert found.verdict == "stable"
    assert found.spectral_radius == pytest.approx(np.exp(-0.1) + 0.5 * (1.0 - np.exp(-0.1)), rel=1e-9)
