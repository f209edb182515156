"""A kind of unit that nobody knows gets a verdict by what it tells of its states, and by nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import upbeat as up
from upbeat.extend import KeptNumbers, StateAccess
from upbeat.units.inputs import NUMBERS
from upbeat.units.solving.solvers import RK4
from upbeat.units.solving.unit import Behaviour, from_number

U, X = up.Port("u", up.Causality.INPUT), up.Port("x", up.Causality.OUTPUT)


class Kind:
    """A model that is none of those that come with Upbeat: x' = a x + u, solved exactly."""

    def __init__(self, unit: Callable[[float, float], Any], rate: float, *abilities: up.Ability) -> None:
        self.unit, self.rate, self.abilities = unit, rate, frozenset(abilities)
        self.ports = (U, X)

    def instantiate(self, name: str, start: float) -> Any:
        return self.unit(self.rate, start)

    def with_values(self, values: Mapping[str, Any]) -> Kind:
        raise NotImplementedError


class Box:
    """The unit, with held inputs; it tells nothing."""

    def __init__(self, rate: float, start: float) -> None:
        self.rate, self.time, self.x, self.u = rate, start, 1.0, 0.0

    def get(self, port: str) -> float:
        return self.x

    def set(self, port: str, coefficients: Any) -> None:
        self.u = float(coefficients[0])

    def advance(self, t: float, to: float, early: bool) -> float:
        grown = math.exp(self.rate * (to - t))
        self.x, self.time = grown * self.x + (grown - 1.0) / self.rate * self.u, to
        return to


class Open(Box):
    """It can be set back, and what it saves holds its numbers."""

    def save(self) -> Any:
        return self.time, self.x, self.u

    def restore(self, token: Any) -> None:
        self.time, self.x, self.u = token


class Telling(Box):
    """It tells its state and its derivatives."""

    def state_access(self) -> StateAccess:
        def slopes(outputs: bool) -> Any:
            return ([[1.0]], [[0.0]]) if outputs else ([[self.rate]], [[1.0]])

        return StateAccess(("x",), lambda: [self.x], slopes)


class Equation(Open):
    """It tells its equation, which is solved by one step of Runge and Kutta."""

    solver = RK4()
    constants = None

    @property
    def behaviour(self) -> Behaviour:
        return Behaviour(
            (U,), (X,), (1.0,), self.solver,
            derivatives=lambda t, x, u: [self.rate * x[0] + u[0]], compute=lambda t, x, u: [x[0]],
            convert=NUMBERS, deliver=from_number, names=("x",),
        )  # fmt: skip

    @property
    def state(self) -> tuple[float, ...]:
        return (self.x,)

    def inputs_at(self, t: float) -> list[float]:
        return [self.u]

    def put(self, state: Any) -> None:
        (self.x,) = state


class Clocked(Open):
    """It makes its steps in jumps, every tenth of a second: x(k+1) = (1 + a/10) x(k) + u/10."""

    due_next = 0.1

    def advance(self, t: float, to: float, early: bool) -> float:
        self.time = to
        return to

    def due(self) -> float:
        return self.due_next

    def jump(self) -> bool:
        if self.time >= self.due_next:
            self.x += 0.1 * (self.rate * self.x + self.u)
            self.due_next += 0.1
        return False

    def save(self) -> Any:
        return SimpleNamespace(time=self.time, x=self.x, u=self.u, due=self.due_next)

    def restore(self, token: Any) -> None:
        self.time, self.x, self.u, self.due_next = token.time, token.x, token.u, token.due

    def kept_numbers(self) -> KeptNumbers:
        return KeptNumbers((("x",),), times=(("due",),))


def verdict(model: Any) -> Any:
    """That of x' = a x + u with the u = -x of the step before, in steps of a tenth of a second."""
    back = up.Function(outputs={"y": "-x"}, inputs=["x"])
    scenario = up.Scenario({"box": model, "back": back}, {"box.u": "back.y", "back.x": "box.x"})
    return up.stability_of(scenario, pace=0.1, scan=False)


def radius(by_state: float, by_input: float) -> float:
    """The spectral radius, where the input is that of the beginning of the step."""
    return abs(by_state - by_input)


ROLLBACK, EVENT = up.Ability.ROLLBACK, up.Ability.NEXT_EVENT


@pytest.mark.parametrize("rate", [-3.0, 2.0])
def test_tokens_of_numbers(rate: float) -> None:
    model = Kind(Open, rate, ROLLBACK)
    model.open_tokens = True  # type: ignore[attr-defined]
    grown = math.exp(0.1 * rate)
    found = verdict(model)
    assert found.spectral_radius == pytest.approx(radius(grown, (grown - 1.0) / rate), rel=1e-7)
    assert found.verdict == ("stable" if rate < 0 else "unstable")


@pytest.mark.parametrize("rate", [-3.0, 2.0])
def test_derivatives_that_are_told(rate: float) -> None:
    grown = math.exp(0.1 * rate)
    found = verdict(Kind(Telling, rate))
    assert found.spectral_radius == pytest.approx(radius(grown, (grown - 1.0) / rate), rel=1e-7)


@pytest.mark.parametrize("rate", [-3.0, 2.0])
def test_equations_that_are_told(rate: float) -> None:
    z = 0.1 * rate
    grown = 1.0 + z + z**2 / 2.0 + z**3 / 6.0 + z**4 / 24.0
    found = verdict(Kind(Equation, rate, ROLLBACK))
    assert found.spectral_radius == pytest.approx(radius(grown, (grown - 1.0) / rate), rel=1e-7)


@pytest.mark.parametrize("rate", [-3.0, 2.0])
def test_numbers_kept_from_jump_to_jump(rate: float) -> None:
    found = verdict(Kind(Clocked, rate, ROLLBACK, EVENT))
    assert found.spectral_radius == pytest.approx(radius(1.0 + 0.1 * rate, 0.1), rel=1e-6)


@pytest.mark.parametrize("unit", [Box, Open])
def test_a_unit_that_tells_nothing_is_refused(unit: Any) -> None:
    with pytest.raises(up.InvalidInput, match="nothing is known of the states of a Kind"):
        verdict(Kind(unit, -3.0, *([ROLLBACK] if unit is Open else [])))


def test_held_arrays_of_sampled_units_are_states() -> None:
    """x' = u, where u is -3 x as it was sampled, once a second: x(k+1) = -2 x(k)."""

    class Gains(Open):
        def get(self, port: str) -> Any:
            return [-3.0 * self.u, 1.0]

        def advance(self, t: float, to: float, early: bool) -> float:
            return to

    gains = up.PythonUnit(
        lambda name, start, parameters: Gains(0.0, start),
        inputs={"u": 0.0}, outputs={"y": {"size": 2, "depends": []}}, abilities=["rollback"], sample_time=1.0,
    )  # fmt: skip
    plant = up.Ode({"x": "u"}, inputs=["u"], start={"x": 1.0}, solver="euler")
    scenario = up.Scenario({"gains": gains, "plant": plant}, {"gains.u": "plant.x", "plant.u": "gains.y[0]"})
    found = up.stability_of(scenario, pace=1.0, scan=False)
    assert found.verdict == "unstable"
    assert found.spectral_radius == pytest.approx(2.0, rel=1e-6)
    trace = up.simulate(scenario, pace=1.0, until=8.0)
    assert np.abs(trace["plant.x"])[-1] == pytest.approx(2.0**8)
