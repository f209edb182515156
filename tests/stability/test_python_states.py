"""Controllers in Python: whatever their tokens look like, no number of them is lost to a verdict."""

from __future__ import annotations

import copy
from collections import deque, namedtuple
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.linalg import expm

import upbeat as up
from upbeat.units import ports

Pair = namedtuple("Pair", ["states", "u"])


@dataclass
class Record:
    states: tuple[float, ...]
    u: float


class Controller:
    """x⁺ = A·x + B·u + r, y = C·x: kept in one of many ways, beside things that are no states."""

    A: Any
    B: Any
    C: Any
    r: Any

    def __init__(self, name: str, start: float, parameters: dict[str, Any]) -> None:
        self.x: Any = np.zeros(len(self.A))
        self.u, self.t, self.since, self.work, self.gain, self.count = 0.0, start, start, 0.0, 1.0, 0

    def get(self, port: str) -> float:
        return float(self.gain * (self.C @ self.x))

    def set(self, port: str, coefficients: Any) -> None:
        self.u = float(coefficients[0])

    def advance(self, t: float, to: float, early: bool) -> float:
        self.work += self.u**2
        self.x = self.A @ self.x + self.B * self.u + self.r
        self.t, self.since, self.count = to, self.since + (to - t), self.count + 1
        return to

    def save(self) -> Any:
        return (tuple(map(float, self.x)), self.u)

    def restore(self, token: Any) -> None:
        self.x, self.u = np.array(token[0]), token[1]


class InDictionary(Controller):
    def save(self) -> Any:
        return copy.deepcopy(self.__dict__)

    def restore(self, token: Any) -> None:
        self.__dict__.update(copy.deepcopy(token))


class InObject(Controller):
    def save(self) -> Any:
        return SimpleNamespace(**copy.deepcopy(self.__dict__))

    def restore(self, token: Any) -> None:
        self.__dict__.update(copy.deepcopy(token.__dict__))


class InDeque(Controller):
    def save(self) -> Any:
        return {"x": deque(map(float, self.x), maxlen=9), "u": self.u, "parts": [self.t, (self.work,)]}

    def restore(self, token: Any) -> None:
        self.x, self.u, self.t = np.array(token["x"]), token["u"], token["parts"][0]
        self.work = token["parts"][1][0]


class InNamedTuple(Controller):
    def save(self) -> Any:
        return Pair(tuple(map(float, self.x)), self.u)


class InRecord(Controller):
    def save(self) -> Any:
        return Record(tuple(map(float, self.x)), self.u)

    def restore(self, token: Any) -> None:
        self.x, self.u = np.array(token.states), token.u


class FromWholeNumbers(Controller):
    """Begins with whole numbers, as `self.integral = 0` does, and with nothing known of its input."""

    def __init__(self, name: str, start: float, parameters: dict[str, Any]) -> None:
        super().__init__(name, start, parameters)
        self.kept: list[Any] = [0] * len(self.A)

    def get(self, port: str) -> float:
        return float(self.C @ np.array(self.kept, dtype=float))

    def advance(self, t: float, to: float, early: bool) -> float:
        self.kept = [float(v) for v in self.A @ np.array(self.kept, dtype=float) + self.B * self.u + self.r]
        return to

    def save(self) -> Any:
        return [list(self.kept), self.u]

    def restore(self, token: Any) -> None:
        self.kept, self.u = list(token[0]), token[1]


KINDS = [Controller, InDictionary, InObject, InDeque, InNamedTuple, InRecord, FromWholeNumbers]


def loop(kind: type, plant: up.Ode, u: str = "plant.z", **connections: str) -> up.Scenario:
    unit = up.PythonUnit(kind, ports(["u"], ["y"]), [up.Ability.ROLLBACK])
    return up.Scenario({"c": unit, "plant": plant}, {"c.u": u, "plant.y": "c.y", **connections})


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_random_controllers_are_judged_as_their_closed_form(kind: type, seed: int) -> None:
    """The step map of Jacobi with held inputs, written down by hand: a zero-order hold on both sides."""
    turn = np.random.default_rng(100 * seed + KINDS.index(kind))
    size, h = int(turn.integers(1, 4)), float(turn.uniform(0.05, 1.0))
    a = turn.normal(size=(size, size)) * turn.choice([0.3, 0.6, 1.0]) / np.sqrt(size)
    b, c = turn.normal(size=size), turn.normal(size=size)
    # One that goes as the time does, where it begins: only moving it shows that it is a state.
    steady = np.full(size, h) if turn.random() < 0.5 else np.zeros(size)
    rate, gain = turn.uniform(-0.5, 3.0), turn.normal()
    made = type("Made", (kind,), {"A": a, "B": b, "C": c, "r": steady})
    plant = up.Ode({"z": f"{-rate!r}*z + {gain!r}*y"}, inputs=["y"], outputs=["z"], start={"z": 0.0})
    found = up.stability_of(loop(made, plant), pace=h, scan=False, ideal=True)
    flow = expm(np.array([[-rate, gain], [0.0, 0.0]]) * h)
    whole = np.block([[a, b[:, None]], [flow[0, 1] * c[None, :], flow[:1, :1]]])
    radius = float(np.abs(np.linalg.eigvals(whole)).max())
    assert found.spectral_radius == pytest.approx(radius, abs=1e-6)
    if abs(radius - 1.0) > 1e-4:
        assert found.verdict == ("stable" if radius < 1.0 else "unstable")


class Integral:
    """u = kp·e + ki·∫e, whose integral begins somewhere."""

    kp, ki, start, low, high = 0.2, 2.5, 0.0, -np.inf, np.inf

    def __init__(self, name: str, start: float, parameters: dict[str, Any]) -> None:
        self.i, self.e = self.start, 0.0

    def get(self, port: str) -> float:
        return self.kp * self.e + self.ki * self.i

    def set(self, port: str, coefficients: Any) -> None:
        self.e = float(coefficients[0])

    def advance(self, t: float, to: float, early: bool) -> float:
        self.i = min(max(self.i + (to - t) * self.e, self.low), self.high)
        return to

    def save(self) -> Any:
        return (self.i, self.e)

    def restore(self, token: Any) -> None:
        self.i, self.e = token


def pi(kind: type, reference: float = 1.0) -> up.Scenario:
    unit = up.PythonUnit(kind, ports(["e"], {"u": {"depends": ["e"]}}), [up.Ability.ROLLBACK])
    plant = up.Ode({"x": "-x + u"}, inputs=["u"], outputs=["x"])
    return up.Scenario({"pi": unit, "plant": plant}, {"pi.e": f"{reference} - plant.x", "plant.u": "pi.u"})


def test_an_integral_that_goes_as_the_time_does_is_a_state() -> None:
    """With a reference of 1 it is the time at both ends of the first step, to the last bit."""
    found = up.stability_of(pi(Integral), pace=0.7, scan=False)
    assert found.verdict == "unstable"
    assert "pi.0" in found.model.names
    trace = up.simulate(pi(Integral), pace=0.7, until=350.0)
    grown = (
        np.log(np.abs(np.diff(trace["plant.x"][-100:]))).max()
        - np.log(np.abs(np.diff(trace["plant.x"][-200:-100]))).max()
    )
    assert grown / 100.0 == pytest.approx(np.log(found.spectral_radius), rel=0.05)


class Frozen(Integral):
    """Integrates only while its output is within limits, as many do against windup; begins far outside."""

    start = 40.0

    def advance(self, t: float, to: float, early: bool) -> float:
        if abs(self.kp * self.e + self.ki * self.i) < 10.0:
            self.i += (to - t) * self.e
        return to


class Clamped(Integral):
    start, low, high = 1.0, -1.0, 1.0


def test_an_integral_that_begins_saturated_is_not_forgotten() -> None:
    """Where it is frozen it neither decays nor grows; where it is not, the loop is unstable."""
    found = up.stability_of(pi(Frozen), pace=0.7, scan=False)
    assert "pi.0" in found.model.names
    assert found.verdict == "undecided"
    later = up.stability_of(pi(Clamped, reference=0.0), pace=0.7, scan=False, at="rest")
    assert "pi.0" in later.model.names
    assert later.verdict == "unstable"


class Filtering(Integral):
    """Has its memory in `set`."""

    def set(self, port: str, coefficients: Any) -> None:
        self.i = 0.9 * self.i + float(coefficients[0])


class Alternating(Integral):
    """Acts in every other step only."""

    count = 0

    def advance(self, t: float, to: float, early: bool) -> float:
        self.count += 1
        return super().advance(t, to, early) if self.count % 2 else to

    def save(self) -> Any:
        return (self.i, self.e, self.count)

    def restore(self, token: Any) -> None:
        self.i, self.e, self.count = token


class Growing(Integral):
    """Keeps all that it has seen."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.seen: list[float] = []

    def get(self, port: str) -> float:
        return sum(self.seen[-3:])

    def advance(self, t: float, to: float, early: bool) -> float:
        self.seen = [*self.seen, self.e]
        return to

    def save(self) -> Any:
        return (list(self.seen), self.e)

    def restore(self, token: Any) -> None:
        self.seen, self.e = list(token[0]), token[1]


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (Filtering, "set('e') of 'pi' changes 0, and what it becomes depends on what was there before"),
        (Alternating, "2 of 'pi' changes from one step to the next"),
        (Growing, "at some times and not at others"),
    ],
)
def test_what_cannot_be_told_is_undecided_and_named(kind: type, why: str) -> None:
    found = up.stability_of(pi(kind), pace=0.7, scan=False)
    assert found.verdict == "undecided"
    assert why in found.why


class Seldom:
    """u⁺ = -8·e once in so many steps, counted up, down, or by the time; e is that of two steps before."""

    by, every, first = "up", 40, 7

    def __init__(self, name: str, start: float, parameters: dict[str, Any]) -> None:
        self.u, self.e, self.late = 0.0, 0.0, [0.0, 0.0]
        self.n = {"up": -self.first, "down": self.first, "time": 0}[self.by]

    def get(self, port: str) -> float:
        return self.u

    def set(self, port: str, coefficients: Any) -> None:
        self.e = float(coefficients[0])

    def advance(self, t: float, to: float, early: bool) -> float:
        if self.by == "time":
            acts = round((t - 0.1 * self.first) / 0.1) % self.every == 0
        else:
            acts = self.n % self.every == 0
            self.n += 1 if self.by == "up" else -1
        self.late = [*self.late[1:], self.e]
        if acts:
            self.u = -8.0 * self.late[0]
        return to

    def save(self) -> Any:
        return {"u": self.u, "e": self.e, "late": list(self.late), "n": self.n}

    def restore(self, token: Any) -> None:
        self.u, self.e, self.late, self.n = token["u"], token["e"], list(token["late"]), token["n"]


@pytest.mark.parametrize("every", [7, 40, 100])
@pytest.mark.parametrize("first", [1, 5, 60])
@pytest.mark.parametrize("by", ["up", "down", "time"])
def test_what_acts_in_one_of_many_steps_only_is_not_forgotten(by: str, first: int, every: int) -> None:
    """Where it begins it stands still, and nothing in it moves: what it does is to be seen later."""
    first %= every
    made = type("Made", (Seldom,), {"by": by, "every": every, "first": first})
    unit = up.PythonUnit(made, ports(["e"], {"u": {"depends": []}}), [up.Ability.ROLLBACK])
    plant = up.Ode({"x": "-0.1*x + u"}, inputs=["u"], outputs=["x"], start={"x": 1.0})
    scenario = up.Scenario({"c": unit, "plant": plant}, {"c.e": "plant.x", "plant.u": "c.u"})
    run = up.simulate(scenario, pace=0.1, until=30.0 * 0.1 * every)
    assert abs(run["plant.x"]).max() > 1e6
    assert up.stability_of(scenario, pace=0.1, scan=False).verdict == "undecided"


@pytest.mark.parametrize("seed", range(6))
def test_states_of_any_size_are_moved_on_their_own_scale(seed: int) -> None:
    """x⁺ = x + h·r·(g²/x - x) rests at the gap g, with slope 1 - 2·r·h; a picoampere moves it."""
    turn = np.random.default_rng(seed)
    gap, rate, step, pico = 10.0 ** turn.uniform(-9.0, 2.0), turn.uniform(0.5, 30.0), 0.1, 1e-12

    class Gap:
        def __init__(self, name: str, start: float, parameters: dict[str, Any]) -> None:
            self.x, self.u = gap, 0.0

        def get(self, port: str) -> float:
            return pico * self.x / gap

        def set(self, port: str, coefficients: Any) -> None:
            self.u = float(coefficients[0])

        def advance(self, t: float, to: float, early: bool) -> float:
            self.x += (to - t) * (rate * (gap * gap / self.x - self.x) + gap * self.u / pico)
            return to

        def save(self) -> Any:
            return (self.x, self.u)

        def restore(self, token: Any) -> None:
            self.x, self.u = token

    unit = up.PythonUnit(Gap, ports(["u"], ["y"]), [up.Ability.ROLLBACK])
    back = float(turn.uniform(-3.0, 3.0))
    links = {"a.u": f"{back}*(a.y - {pico})"}
    scenario = up.Scenario({"a": unit}, links)
    model = up.induced(scenario, pace=step)
    values = np.linalg.eigvals(model.matrix)
    true = 1.0 - 2.0 * rate * step + step * back
    assert np.abs(values).max() == pytest.approx(abs(true), rel=1e-4)
    verdict = up.stability_of(scenario, pace=step, scan=False).verdict
    assert verdict in ("undecided", "stable" if abs(true) < 1.0 else "unstable")
