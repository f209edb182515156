"""Coupled systems whose units keep their events to themselves, with the conditions that are to be found.

Each unit is made of equations, and put into a black box: a unit in Python that shows its outputs, takes
inputs at the start of a step, and has no more to say. Some can be set back, some cannot, as FMUs. The two
masses under a ceiling are FMUs (`problems.black_boxes`).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import upbeat as up

FINE = {"kind": "dormand_prince", "rtol": 1e-9, "atol": 1e-11}


def noise(t: float, name: str) -> float:
    """A number with mean 0 and deviation 1 for each time and name, the same one every time it is asked
    for."""
    seed = zlib.crc32(struct.pack("<d", t) + name.encode())
    return float(np.random.default_rng(seed).standard_normal())


def hidden(
    model: up.Ode, *, rollback: bool = False, noisy: Mapping[str, float] | None = None
) -> up.PythonUnit:
    """The model as a black box: its events happen inside, on inputs that stand still during a step. What it
    shows of outputs in `noisy` has noise of that size."""
    sizes = noisy or {}

    class Box:
        def __init__(self, name: str, start: float, parameters: Mapping[str, Any]) -> None:
            values = {starts.get(known, known): value for known, value in parameters.items()}
            self._unit = model.with_values(values).instantiate(name, start)

        def get(self, port: str) -> Any:
            value = self._unit.get(port)
            return value + sizes[port] * noise(self._unit.time, port) if port in sizes else value

        def set(self, port: str, coefficients: Sequence[Any]) -> None:
            self._unit.set(port, coefficients[:1])

        def advance(self, t: float, to: float, early: bool) -> float:
            return self._unit.advance(t, to, False)

        if rollback:

            def save(self) -> Any:
                return self._unit.save()

            def restore(self, token: Any) -> None:
                self._unit.restore(token)

    abilities = frozenset({up.Ability.ROLLBACK}) if rollback else frozenset()
    starts = {f"{state.port.name}0": state.port.name for state in model.equations.states}
    parameters = [
        up.Port(name, up.Causality.PARAMETER, start=state.port.start)
        for name, state in zip(starts, model.equations.states, strict=True)
    ]
    signals = [port for port in model.ports if port.causality is not up.Causality.PARAMETER]
    plain = [
        up.Port(p.name, p.causality, p.kind, items=p.items, start=p.start, depends=p.depends) for p in signals
    ]
    made = up.PythonUnit(Box, (*plain, *parameters), abilities=abilities)
    _INSIDE[id(made)] = (made, model, rollback)
    return made


_INSIDE: dict[int, tuple[up.PythonUnit, up.Ode, bool]] = {}


def with_noise(scenario: up.Scenario, sizes: Mapping[str, float]) -> up.Scenario:
    """The same scenario, whose black boxes show outputs with noise of these sizes (``unit.port``)."""
    made = {}
    for name, model in scenario.units.items():
        if id(model) in _INSIDE:
            _, inside, rollback = _INSIDE[id(model)]
            own = {port.name: sizes.get(f"{name}.{port.name}", 0.0) for port in model.ports}
            made[name] = hidden(inside, rollback=rollback, noisy={k: v for k, v in own.items() if v})
    return scenario.with_units(made)


@dataclass(frozen=True)
class Truth:
    """A condition that a system has: as it is written, or a period with its first time; and how far a
    threshold may be off."""

    when: str
    within: float


@dataclass(frozen=True)
class Hidden:
    """A system, its step and how long it runs; what is varied in further runs; what is to be found."""

    make: Callable[[], up.Scenario]
    step: float
    until: float
    truths: tuple[Truth, ...]
    vary: Mapping[str, Sequence[float]] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)


def ball() -> up.Scenario:
    """A ball that bounces; only its height and speed are seen."""
    model = up.Ode(
        {"x": "v", "v": "-9.81 - 0.05*v"},
        start={"x": 2.0, "v": 0.0},
        events={"bounce": {"when": "x <= 0 and v < 0", "then": {"v": "-0.9*v"}}},
        solver=FINE,
    )
    return up.Scenario({"ball": hidden(model, rollback=True)})


def oven() -> up.Scenario:
    """An oven with a thermostat inside: off above 21 degrees, on below 19; the room around it swings."""
    model = up.Ode(
        {"T": "(30*(1 if on else 0) + room - T)/10"},
        inputs={"room": 5.0},
        start={"T": 15.0},
        variables={"on": True},
        outputs={"T": "T"},
        events={
            "hot": {"when": "T >= 21", "then": {"on": False}},
            "cold": {"when": "T <= 19", "then": {"on": True}},
        },
        solver=FINE,
    )
    room = up.Function(outputs={"T": "5 + 4*sin(0.11*time)"})
    return up.Scenario({"oven": hidden(model), "room": room}, {"oven.room": "room.T"})


def block_on_belt() -> up.Scenario:
    """Stick and slip: a block on a belt pulled back by a spring. It sticks when it is as fast as the belt,
    and slips when the spring pulls harder than 1.5; the belt changes its speed slowly."""
    model = up.Ode(
        {"x": "v", "v": "0.01*cos(0.1*time) if sticks else 1 - x"},
        start={"x": 0.0, "v": 0.1},
        variables={"sticks": True},
        outputs={"x": "x", "v": "v"},
        events={
            "slips": {"when": "x >= 1.5 and sticks", "then": {"sticks": False}},
            "sticks": {
                "when": "v >= 0.1 + 0.1*sin(0.1*time) and not sticks and x < 1.2",
                "then": {"sticks": True, "v": "0.1 + 0.1*sin(0.1*time)"},
            },
        },
        solver=FINE,
    )
    belt = up.Function(outputs={"speed": "0.1 + 0.1*sin(0.1*time)"})
    dummy = up.Ode({"x": "v - x"}, inputs=["v"], start={"x": 0.0})
    return up.Scenario(
        {"block": hidden(_with_input(model, "belt"), rollback=True), "belt": belt, "gauge": dummy},
        {"block.belt": "belt.speed", "gauge.v": "block.v"},
    )


def _with_input(model: up.Ode, name: str) -> up.Ode:
    spec = model.equations.to_spec()
    return up.Ode(**{**spec, "inputs": [name], "start": {}, "solver": FINE})


def tanks() -> up.Scenario:
    """Two tanks: a siphon empties the upper one from 1 m down to 0.8 m; a valve under it opens when the lower
    one is at 0.3 m, and closes at 0.7 m. The inflow swings."""
    upper = up.Ode(
        {"h": "inflow - outflow"},
        inputs={"inflow": 0.2, "open": 0.0},
        locals={"outflow": "0.5*open*sqrt(max(h, 0)) + (0.4 if over else 0)"},
        variables={"over": False},
        start={"h": 0.6},
        outputs={"h": "h", "q": "0.5*open*sqrt(max(h, 0))"},
        events={
            "over": {"when": "h >= 1", "then": {"over": True}},
            "under": {"when": "h <= 0.8", "then": {"over": False}},
        },
        solver=FINE,
    )
    lower = up.Ode(
        {"h": "q - 0.12"},
        inputs=["q"],
        start={"h": 0.5},
        variables={"valve": 0.0},
        outputs={"h": "h", "open": "valve"},
        events={
            "empty": {"when": "h <= 0.3", "then": {"valve": 1.0}},
            "full": {"when": "h >= 0.7", "then": {"valve": 0.0}},
        },
        solver=FINE,
    )
    source = up.Function(outputs={"q": "0.2 + 0.1*sin(0.5*time)"})
    return up.Scenario(
        {"upper": hidden(upper), "lower": hidden(lower), "source": source},
        {"upper.inflow": "source.q", "upper.open": "lower.open", "lower.q": "upper.q"},
    )


def braking() -> up.Scenario:
    """A car behind another one: it brakes when the distance is 12 m, and speeds up again from 20 m on."""
    first = up.Ode({"x": "v", "v": "0.9*cos(0.3*time)"}, start={"x": 30.0, "v": 20.0}, solver=FINE)
    second = up.Ode(
        {"x": "v", "v": "(-3 if brakes else 1.2) - 0.05*(v - 20)"},
        inputs={"ahead": 30.0},
        start={"x": 0.0, "v": 22.0},
        variables={"brakes": False},
        outputs={"x": "x", "v": "v"},
        events={
            "near": {"when": "ahead - x <= 12", "then": {"brakes": True}},
            "far": {"when": "ahead - x >= 20", "then": {"brakes": False}},
        },
        solver=FINE,
    )
    return up.Scenario({"first": hidden(first), "second": hidden(second)}, {"second.ahead": "first.x"})


def clutch() -> up.Scenario:
    """A motor and a wheel with a clutch between them that locks when both turn equally fast, and slips again
    when it would carry more than 3; the motor's torque swings."""
    model = up.Ode(
        {
            "w1": "(M - load)/4 if locked else (M - slip)/1",
            "w2": "(M - load)/4 if locked else (slip - load)/3",
        },
        inputs={"M": 2.0},
        locals={"load": "0.2*w2", "slip": "2.0"},
        start={"w1": 8.0, "w2": 0.0},
        variables={"locked": False},
        outputs={"w1": "w1", "w2": "w2"},
        events={
            "lock": {"when": "w1 - w2 <= 0 and not locked and M < 4.5", "then": {"locked": True, "w1": "w2"}},
            "slip": {"when": "M >= 5 and locked", "then": {"locked": False}},
        },
        solver=FINE,
    )
    motor = up.Function(outputs={"M": "2 + 3.6*sin(0.9*time) + 0.2*sin(0.37*time)"})
    return up.Scenario({"drive": hidden(model), "motor": motor}, {"drive.M": "motor.M"})


def breaker() -> up.Scenario:
    """Two loads on one line: the breaker takes the second one off when both together draw 10 A, and puts it
    back when the first one alone draws less than 3 A."""
    one = up.Ode({"i": "2*(5 + 4*sin(0.8*time) - i)"}, start={"i": 5.0}, solver=FINE)
    two = up.Ode(
        {"i": "3*((4 + sin(0.31*time) if on else 0) - i)"},
        inputs={"other": 5.0},
        start={"i": 3.0},
        variables={"on": True},
        outputs={"i": "i"},
        events={
            "off": {"when": "other + i >= 10", "then": {"on": False}},
            "on": {"when": "other <= 3", "then": {"on": True}},
        },
        solver=FINE,
    )
    return up.Scenario({"one": hidden(one), "two": hidden(two)}, {"two.other": "one.i"})


def charger() -> up.Scenario:
    """A battery charger that looks at the rate of its voltage: it goes to half the current when the rate
    falls to 0.05, and back to the whole when it falls to 0.01. Only the voltage is seen."""
    model = up.Ode(
        {"u": "rate"},
        locals={"rate": "((4 + 0.3*sin(0.23*time))*(1.0 if whole else 0.5) - u)/5"},
        start={"u": 3.0},
        variables={"whole": True},
        outputs={"u": "u"},
        events={
            "less": {"when": "rate <= 0.05 and whole", "then": {"whole": False}},
            "more": {"when": "rate >= -0.12 and not whole", "then": {"whole": True}},
        },
        solver=FINE,
    )
    return up.Scenario({"charger": hidden(model)})


def pulses() -> up.Scenario:
    """A heater that is on for the first half of every 1.6 s, from 0.4 s on, by a clock inside."""
    model = up.Ode(
        {"T": "(4 if on else 0) + 0.5*sin(0.3*time) - 0.4*T", "phase": "1"},
        start={"T": 1.0, "phase": 0.4},
        variables={"on": False},
        outputs={"T": "T"},
        events={
            "on": {"when": "phase >= 0.8 and not on", "then": {"on": True, "phase": 0.0}},
            "off": {"when": "phase >= 0.8 and on", "then": {"on": False, "phase": 0.0}},
        },
        solver=FINE,
    )
    return up.Scenario({"heater": hidden(model)})


def timetable() -> up.Scenario:
    """A pump that is switched on at 2.3 s and off at 5.9 s, whatever happens."""
    model = up.Ode(
        {"h": "(0.3 if on else 0) - 0.2*h"},
        start={"h": 1.0},
        variables={"on": False},
        outputs={"h": "h"},
        events={
            "on": {"when": "time >= 2.3", "then": {"on": True}},
            "off": {"when": "time >= 5.9", "then": {"on": False}},
        },
        solver=FINE,
    )
    return up.Scenario({"pump": hidden(model)})


def relaxation() -> up.Scenario:
    """Van der Pol's oscillator, stiff: very quick, but smooth. There is nothing to find."""
    one = up.Ode({"x": "v"}, inputs=["v"], start={"x": 2.0}, solver=FINE)
    two = up.Ode({"v": "12*(1 - x**2)*v - x"}, inputs=["x"], start={"v": 0.0}, solver=FINE)
    return up.Scenario({"p": hidden(one), "q": hidden(two)}, {"p.v": "q.v", "q.x": "p.x"})


def smooth() -> up.Scenario:
    """Three coupled oscillators. There is nothing to find."""
    units = {
        name: hidden(
            up.Ode({"x": "v", "v": f"-{k}*x + 0.3*(u - x)"}, inputs=["u"], start={"x": x}, solver=FINE)
        )
        for name, k, x in (("a", 1.0, 1.0), ("b", 2.3, 0.0), ("c", 0.7, -0.5))
    }
    return up.Scenario(units, {"a.u": "b.x", "b.u": "c.x", "c.u": "a.x"})


SYSTEMS = {
    "ball": Hidden(ball, 0.05, 6.0, (Truth("ball.x <= 0", 0.02),)),
    "oven": Hidden(oven, 0.2, 60.0, (Truth("oven.T >= 21", 0.02), Truth("oven.T <= 19", 0.02))),
    "stick_slip": Hidden(
        block_on_belt,
        0.1,
        120.0,
        (Truth("block.x >= 1.5", 0.02), Truth("block.v - belt.speed >= 0", 0.01)),
    ),
    "tanks": Hidden(
        tanks,
        0.1,
        60.0,
        (
            Truth("upper.h >= 1", 0.01),
            Truth("upper.h <= 0.8", 0.01),
            Truth("lower.h <= 0.3", 0.01),
            Truth("lower.h >= 0.7", 0.01),
        ),
    ),
    "braking": Hidden(
        braking, 0.1, 60.0, (Truth("first.x - second.x <= 12", 0.1), Truth("first.x - second.x >= 20", 0.1))
    ),
    "clutch": Hidden(
        clutch, 0.05, 60.0, (Truth("drive.w1 - drive.w2 <= 0", 0.05), Truth("motor.M >= 5", 0.05))
    ),
    "breaker": Hidden(breaker, 0.05, 60.0, (Truth("one.i + two.i >= 10", 0.1), Truth("one.i <= 3", 0.05))),
    "charger": Hidden(
        charger, 0.1, 120.0, (Truth("der(charger.u) <= 0.05", 0.005), Truth("der(charger.u) >= -0.12", 0.005))
    ),
    "pulses": Hidden(pulses, 0.05, 20.0, (Truth("every 0.8 from 0.4", 0.01),)),
    "timetable": Hidden(
        timetable,
        0.1,
        10.0,
        (Truth("time >= 2.3", 0.02), Truth("time >= 5.9", 0.02)),
        vary={"pump.h0": (0.7, 1.4)},
    ),
    "relaxation": Hidden(relaxation, 0.02, 40.0, ()),
    "smooth": Hidden(smooth, 0.05, 30.0, ()),
}
