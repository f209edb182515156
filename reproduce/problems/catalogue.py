"""Coupled problems with known solutions, for judging what is said about errors: `trust.py` and `step.py`.

Each case is a scenario as a user might write it, with settings that he might have, and what the undivided
problem really does: `reference(t)` for the signals that are judged (of a jump, the value after it), and the
times of its events. References never come from Upbeat: they are closed forms (matrix exponentials, formulas
from event to event) or SciPy's DOP853 at 1e-13 with events located to rounding.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp
from scipy.linalg import expm

import upbeat as up

TESTS = Path(__file__).parents[2] / "tests"
TIGHT = up.DormandPrince(rtol=1e-10, atol=1e-12)
Values = dict[str, np.ndarray]
Reference = Callable[[np.ndarray], Values]


@dataclass(frozen=True)
class Case:
    """A scenario, the settings of a user, and what is true.

    `kind` says what makes it difficult. Signals that are not in the reference are not judged. `settings` are
    those of `up.experiment`. Beyond `valid` the reference itself is not known to better than 1e-6.
    """

    name: str
    kind: str
    scenario: up.Scenario
    until: float
    step: float
    reference: Reference
    events: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    valid: float = np.inf

    @property
    def experiment(self) -> up.Experiment:
        """What the user would run."""
        return self.with_step(self.step)

    def with_step(self, step: float, **settings: Any) -> up.Experiment:
        """The same with another step, and with other settings."""
        return up.experiment(self.scenario, step=step, until=self.until, **{**self.settings, **settings})

    @property
    def signals(self) -> tuple[str, ...]:
        """The names of the signals that are judged."""
        return tuple(self.reference(np.array([0.0])))

    def scale(self, points: int = 2001) -> dict[str, float]:
        """The largest absolute value of each signal: what errors are compared with."""
        times = np.linspace(0.0, min(self.until, self.valid), points)
        return {name: float(np.abs(values).max()) for name, values in self.reference(times).items()}


def linear(matrix: Any, start: Any, outputs: Mapping[str, Any], constant: Any = 0.0) -> Reference:
    """x' = matrix·x + constant; each output is a row of weights of the states, and of 1."""
    a = np.asarray(matrix, float)
    n = len(a)
    whole = np.zeros((n + 1, n + 1))
    whole[:n, :n] = a
    whole[:n, n] = constant
    first = np.append(np.asarray(start, float), 1.0)
    rows = {
        name: np.append(np.asarray(row, float), np.zeros(n + 1 - len(row))) for name, row in outputs.items()
    }

    flow = exponential(whole, first)

    def reference(times: np.ndarray) -> Values:
        states = flow(times)
        return {name: row @ states for name, row in rows.items()}

    return reference


def exponential(matrix: np.ndarray, first: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """exp(matrix·t)·first, one row per state, from eigenvectors: they are well apart in all cases here."""
    rates, vectors = np.linalg.eig(matrix)
    assert np.linalg.cond(vectors) < 1e4
    weighted = vectors * np.linalg.solve(vectors, first.astype(complex))
    return lambda times: np.real(weighted @ np.exp(np.outer(rates, times)))


def solved(slopes: Callable[..., Any], start: Any, until: float, outputs: Mapping[str, Any]) -> Reference:
    """SciPy's solution; each output is a function of time and states. Solved when it is first needed."""

    @cache
    def solution() -> Any:
        return solve_ivp(slopes, (0.0, until), start, "DOP853", rtol=1e-13, atol=1e-13, dense_output=True).sol

    def reference(times: np.ndarray) -> Values:
        states = solution()(np.clip(times, 0.0, until)).reshape(len(start), -1)
        return {name: get(times, states) for name, get in outputs.items()}

    return reference


@dataclass(frozen=True)
class Phase:
    """From `begin` on, until the next phase, states follow `flow(t)`, one row per state."""

    begin: float
    flow: Callable[[np.ndarray], np.ndarray]


def by_phases(phases: list[Phase], names: tuple[str, ...]) -> Reference:
    """What was put together from one event to the next."""
    begins = np.array([phase.begin for phase in phases])

    def reference(times: np.ndarray) -> Values:
        values = np.empty((len(names), len(times)))
        # A grid point that is meant to be an event may be one rounding before it.
        which = np.searchsorted(begins, times + 1e-12 * np.maximum(1.0, np.abs(times)), "right") - 1
        for k in np.unique(which):
            values[:, which == k] = phases[k].flow(times[which == k])
        return dict(zip(names, values, strict=True))

    return reference


# -- smooth


def masses(c: float = 1.0, d: float = 1.0, solver: Any = TIGHT) -> tuple[up.Scenario, Any]:
    """Two masses on springs, joined by a spring `c` and a damper `d`; and the matrix of the whole."""
    left = up.Ode({"x": "v", "v": "-x - 0.1*v + F"}, inputs=["F"], start={"x": 1.0}, solver=solver)
    right = up.Ode(
        {"x": "v", "v": "-x - 0.1*v - force"},
        inputs=["xc", "vc"],
        locals={"force": "c*(x - xc) + d*(v - vc)"},
        outputs={"x": "x", "v": "v", "F": "force"},
        parameters={"c": c, "d": d},
        solver=solver,
    )
    links = {"left.F": "right.F", "right.xc": "left.x", "right.vc": "left.v"}
    matrix = [[0, 1, 0, 0], [-1 - c, -0.1 - d, c, d], [0, 0, 0, 1], [c, d, -1 - c, -0.1 - d]]
    return up.Scenario({"left": left, "right": right}, links), matrix


def mass_rows(c: float, d: float) -> dict[str, list[float]]:
    return {
        "left.x": [1, 0, 0, 0],
        "left.v": [0, 1, 0, 0],
        "right.x": [0, 0, 1, 0],
        "right.v": [0, 0, 0, 1],
        "right.F": [-c, -d, c, d],
    }


def oscillators() -> Case:
    scenario, matrix = masses(1.0, 0.2)
    reference = linear(matrix, [1, 0, 0, 0], mass_rows(1.0, 0.2))
    return Case("coupled oscillators", "smooth", scenario, 10.0, 0.1, reference)


def predators() -> Case:
    scenario = up.Scenario(
        {
            "prey": up.Ode({"x": "x*(1 - y)"}, inputs={"y": 1.0}, start={"x": 2.0}, solver=TIGHT),
            "predator": up.Ode({"y": "y*(x - 1)"}, inputs={"x": 1.0}, start={"y": 1.0}, solver=TIGHT),
        },
        {"prey.y": "predator.y", "predator.x": "prey.x"},
    )
    reference = solved(
        lambda t, y: [y[0] * (1 - y[1]), y[1] * (y[0] - 1)],
        [2.0, 1.0],
        14.0,
        {"prey.x": lambda t, y: y[0], "predator.y": lambda t, y: y[1]},
    )
    return Case("predator and prey", "smooth", scenario, 14.0, 0.05, reference, settings={"inputs": "linear"})


def stiff() -> Case:
    """A fast unit that has settled long before a step is over, and a slow one."""
    scenario = up.Scenario(
        {
            "fast": up.Ode({"x": "-500*(x - u)"}, inputs=["u"], start={"x": 0.0}, solver=TIGHT),
            "slow": up.Ode({"y": "z", "z": "-y - x"}, inputs=["x"], start={"y": 1.0}, solver=TIGHT),
        },
        {"fast.u": "slow.z", "slow.x": "fast.x"},
    )
    matrix = [[-500, 0, 500], [0, 0, 1], [-1, -1, 0]]
    rows = {"fast.x": [1, 0, 0], "slow.y": [0, 1, 0], "slow.z": [0, 0, 1]}
    return Case("stiff pair", "stiff", scenario, 8.0, 0.05, linear(matrix, [0, 1, 0], rows))


def resonator() -> Case:
    """A source that knows time only, a resonator with a feed back, and a filter behind it."""
    scenario = up.Scenario(
        {
            "drive": up.Function(outputs={"F": "sin(2.9*time)"}),
            "mass": up.Ode({"x": "v", "v": "F - 0.2*v - 9*x"}, inputs=["F"], solver=TIGHT),
            "filter": up.Ode({"y": "2*(u - y)"}, inputs=["u"], solver=TIGHT),
        },
        {"mass.F": "drive.F - 0.5*filter.y", "filter.u": "mass.x"},
    )
    matrix = [
        [0, 1, 0, 0, 0],
        [-9, -0.2, -0.5, 0, 1],
        [2, 0, -2, 0, 0],
        [0, 0, 0, 0, -2.9],
        [0, 0, 0, 2.9, 0],
    ]
    rows = {"mass.x": [1, 0, 0, 0, 0], "mass.v": [0, 1, 0, 0, 0], "filter.y": [0, 0, 1, 0, 0]}
    reference = linear(matrix, [0, 0, 0, 1, 0], rows)
    return Case("driven resonator", "smooth, driven", scenario, 12.0, 0.05, reference)


def chain() -> Case:
    """Outputs that depend on inputs at once, one behind the other, before and behind states."""
    scenario = up.Scenario(
        {
            "source": up.Ode(
                {"s": "c", "c": "-4*s"}, start={"s": 0.0, "c": 2.0}, outputs=["s"], solver=TIGHT
            ),
            "gain": up.Function(inputs=["u"], outputs={"y": "3*u"}),
            "lead": up.Ode({"x": "u - x"}, inputs=["u"], outputs={"x": "x", "y": "u - x"}, solver=TIGHT),
            "offset": up.Function(inputs=["u"], outputs={"y": "0.5*u + 1"}),
            "lag": up.Ode({"z": "2*(u - z)"}, inputs=["u"], solver=TIGHT),
        },
        {"gain.u": "source.s", "lead.u": "gain.y", "offset.u": "lead.y", "lag.u": "offset.y"},
    )
    matrix = [[0, 1, 0, 0], [-4, 0, 0, 0], [3, 0, -1, 0], [3, 0, -1, -2]]
    rows = {"lead.x": [0, 0, 1, 0], "lead.y": [3, 0, -1, 0], "lag.z": [0, 0, 0, 1]}
    reference = linear(matrix, [0, 2, 0, 0], rows, [0, 0, 0, 2])
    return Case("feedthrough chain", "feedthrough", scenario, 6.0, 0.05, reference)


def loop() -> Case:
    """A charged capacitor between two dividers that need each other's output at the same instant."""
    scenario = up.Scenario(
        {
            "left": up.Ode(
                {"q": "(u - q)/0.5"},
                inputs=["u"],
                start={"q": 1.0},
                outputs={"q": "q", "y": "q - 0.4*u"},
                solver=TIGHT,
            ),
            "right": up.Ode(
                {"p": "w - 2*p"},
                inputs=["w"],
                start={"p": 0.5},
                outputs={"p": "p", "y": "p - 0.5*w"},
                solver=TIGHT,
            ),
        },
        {"left.u": "-right.y", "right.w": "left.y"},
    )
    # u = -p + w/2, w = q - 0.4·u: 1.2·u = -p + q/2
    u, w = np.array([0.5, -1.0]) / 1.2, np.array([1.0, 0.0]) - 0.4 * np.array([0.5, -1.0]) / 1.2
    matrix = [2 * u - [2, 0], w - [0, 2]]
    rows = {"left.q": [1, 0], "right.p": [0, 1], "left.y": w, "right.y": -u}
    return Case("algebraic loop", "loop", scenario, 5.0, 0.05, linear(matrix, [1.0, 0.5], rows))


def motor() -> Case:
    """A DC motor with a load, whose speed a PI controller brings to 1."""
    scenario = up.Scenario(
        {
            "control": up.Ode(
                {"integral": "1 - w"},
                inputs=["w"],
                outputs={"u": "5*(1 - w) + 20*integral"},
                solver=TIGHT,
            ),
            "motor": up.Ode(
                {"i": "(u - 1.0*i - 0.5*w)/0.05", "w": "(0.5*i - 0.1*w)/0.1"}, inputs=["u"], solver=TIGHT
            ),
        },
        {"control.w": "motor.w", "motor.u": "control.u"},
    )
    matrix = [[0, 0, -1], [400, -20, -110], [0, 5, -1]]
    rows = {"motor.i": [0, 1, 0], "motor.w": [0, 0, 1], "control.u": [20, 0, -5, 5]}
    reference = linear(matrix, [0, 0, 0], rows, [1, 100, 0])
    return Case("dc motor with PI", "control", scenario, 3.0, 0.01, reference)


def unstable() -> Case:
    """A stiff joint: with held inputs the coupling is unstable at this step, the problem itself is not."""
    scenario, matrix = masses(100.0, 8.0)
    reference = linear(matrix, [1, 0, 0, 0], mass_rows(100.0, 8.0))
    return Case("unstable coupling", "unstable", scenario, 4.0, 0.2, reference)


# -- several rates


def multi_rate() -> Case:
    """A coil at 8 Hz whose resistance grows with its temperature, which follows slowly."""
    scenario = up.Scenario(
        {
            "coil": up.Ode({"i": "(10*sin(50*time) - R*i)/0.05"}, inputs={"R": 1.0}, solver=TIGHT),
            "body": up.Ode(
                {"T": "0.2*(1 + 0.02*T)*i*i - 0.5*T"},
                inputs=["i"],
                outputs={"T": "T", "R": "1 + 0.02*T"},
                solver=TIGHT,
            ),
        },
        {"coil.R": "body.R", "body.i": "coil.i"},
    )
    reference = solved(
        lambda t, y: [
            (10 * np.sin(50 * t) - (1 + 0.02 * y[1]) * y[0]) / 0.05,
            0.2 * (1 + 0.02 * y[1]) * y[0] ** 2 - 0.5 * y[1],
        ],
        [0.0, 0.0],
        5.0,
        {"coil.i": lambda t, y: y[0], "body.T": lambda t, y: y[1]},
    )
    return Case("coil and its temperature", "multi-rate", scenario, 5.0, 0.005, reference)


def aliasing() -> Case:
    """Heat in pulses of 0.03 s every 0.1 s, into a room that looks every 0.1 s: it always sees the pulse."""
    width, period, until = 0.03, 0.1, 5.0
    scenario = up.Scenario(
        {
            "heater": up.Function(outputs={"P": "10 if mod(time, 0.1) < 0.03 else 0"}),
            "room": up.Ode({"T": "P - 0.5*T"}, inputs=["P"], solver=TIGHT),
        },
        {"room.P": "heater.P"},
    )
    phases, temperature = [], 0.0

    def flow(begin: float, first: float, power: float) -> Callable[[np.ndarray], np.ndarray]:
        return lambda t: np.array([power / 0.5 + (first - power / 0.5) * np.exp(-0.5 * (t - begin))])

    for k in range(round(until / period)):
        for begin, end, power in (
            (k * period, k * period + width, 10.0),
            (k * period + width, (k + 1) * period, 0.0),
        ):
            now = flow(begin, temperature, power)
            phases.append(Phase(begin, now))
            temperature = float(now(np.array(end))[0])
    return Case("pulses of heat", "aliasing", scenario, until, period, by_phases(phases, ("room.T",)))


# -- sampled


PLANT, DRIVE, PERIOD = np.array([[0.0, 1.0], [2.0, -0.5]]), np.array([0.0, 1.0]), 0.1


class Regulator:
    """u = -6·x - 3·v of the last sample, beginning with the first."""

    def __init__(self, name: str, start: float, parameters: dict[str, Any]) -> None:
        self.now = {"x": 0.0, "v": 0.0}
        self.u = 0.0

    def get(self, port: str) -> float:
        return self.u

    def set(self, port: str, coefficients: Any) -> None:
        self.now[port] = coefficients[0]

    def advance(self, t: float, to: float, early: bool) -> float:
        self.u = -6.0 * self.now["x"] - 3.0 * self.now["v"]
        return to


def sampled_reference(delay: int) -> Reference:
    """The plant (an unstable one), with an input that changes at samples to what was seen `delay` earlier."""
    whole = np.zeros((3, 3))
    whole[:2, :2], whole[:2, 2] = PLANT, DRIVE
    phases, x, seen = [], np.array([1.0, 0.0]), [0.0] * delay

    def flow(begin: float, first: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        motion = exponential(whole, first)
        return lambda t: motion(t - begin)

    for k in range(round(6.0 / PERIOD) + 1):
        seen.append(float(-6.0 * x[0] - 3.0 * x[1]))
        first = np.append(x, seen[k])
        phases.append(Phase(k * PERIOD, flow(k * PERIOD, first)))
        x = (expm(whole * PERIOD) @ first)[:2]
    return by_phases(phases, ("plant.x", "plant.v", "control"))


def plant() -> up.Ode:
    return up.Ode({"x": "v", "v": "2*x - 0.5*v + u"}, inputs=["u"], start={"x": 1.0}, solver=TIGHT)


def only(reference: Reference, *names: str) -> Reference:
    def some(times: np.ndarray) -> Values:
        found = reference(times)
        return {name: found[name] for name in names}

    return some


def sampled_in_python() -> Case:
    """A controller written in Python, at ten samples a second; its answer comes with the next sample."""
    control = up.PythonUnit(Regulator, inputs=["x", "v"], outputs={"u": {"depends": []}}, sample_time=PERIOD)
    links = {"control.x": "plant.x", "control.v": "plant.v", "plant.u": "control.u"}
    scenario = up.Scenario({"plant": plant(), "control": control}, links)
    reference = only(sampled_reference(1), "plant.x", "plant.v")
    return Case("controller in Python", "sampled", scenario, 6.0, 0.05, reference)


def sampled_by_events() -> Case:
    """The same controller as a sampler and a state machine; its answer comes at once."""
    control = up.StateMachine(
        inputs={"seen": {"event": True, "kind": "real"}},
        variables={"u": 0.0},
        outputs={"u": "u"},
        initial="on",
        states=["on"],
        transitions=[{"from": "on", "on": "seen", "do": {"u": "-6*seen"}}],
    )
    links = {
        "sample.signal": "plant.x + 0.5*plant.v",
        "control.seen": "sample.event",
        "plant.u": "control.u",
    }
    units = {"plant": plant(), "sample": up.Sampler(PERIOD), "control": control}
    reference = only(sampled_reference(0), "plant.x", "plant.v")
    events = {"sample.event": tuple(k * PERIOD for k in range(61))}
    return Case(
        "sampler and state machine", "sampled", up.Scenario(units, links), 6.0, 0.05, reference, events
    )


# -- events


def ball() -> Case:
    """A ball that jumps, with its events inside, and somebody who follows it with a low-pass filter."""
    g, a, until = 9.81, 5.0, 2.0
    scenario = up.Scenario(
        {
            "ball": up.Ode(
                {"h": "v", "v": "-9.81"},
                start={"h": 1.0},
                outputs={"h": "h", "v": "v", "hit": {"event": True, "kind": "real"}},
                events={
                    "bounce": {"when": "h <= 0 and v < 0", "then": {"v": "-0.8*v"}, "emit": {"hit": "v"}}
                },
                solver=TIGHT,
            ),
            "filter": up.Ode({"y": "5*(u - y)"}, inputs=["u"], start={"y": 1.0}, solver=TIGHT),
        },
        {"filter.u": "ball.h"},
    )

    def flow(begin: float, h: float, v: float, y: float) -> Callable[[np.ndarray], np.ndarray]:
        def at(t: np.ndarray) -> np.ndarray:
            s = np.asarray(t) - begin
            height, speed = h + v * s - 0.5 * g * s * s, v - g * s
            follows = height - speed / a - g / a**2
            return np.array([height, speed, follows + (y - (h - v / a - g / a**2)) * np.exp(-a * s)])

        return at

    phases, times, begin, h, v, y = [], [], 0.0, 1.0, 0.0, 1.0
    while begin < until:
        now = flow(begin, h, v, y)
        phases.append(Phase(begin, now))
        begin += float(v + np.sqrt(v * v + 2 * g * h)) / g
        _, speed, y = (float(each) for each in now(np.array(begin)))
        h, v = 0.0, -0.8 * speed
        times.append(begin)
    events = {"ball.hit": tuple(t for t in times if t < until)}
    reference = by_phases(phases, ("ball.h", "ball.v", "filter.y"))
    return Case(
        "ball and filter",
        "events inside",
        scenario,
        until,
        0.05,
        reference,
        events,
        {"coupling": "negotiated"},
    )


def two_masses() -> Case:
    """Two masses under a ceiling: FACTS of the paper, events between the units."""
    until = 8.0
    law = {"k2": 1.0, "d2": 0.01, "g": 9.81}

    def mass(der: str, x: float, v: float, inputs: list[str], parameters: dict[str, float]) -> up.Ode:
        start = {"x": x, "v": v}
        return up.Ode(
            {"x": "v", "v": der}, start=start, inputs=inputs, parameters=law | parameters, solver=TIGHT
        )

    upper = mass(
        "(-(k1 + k2)*x - (d1 + d2)*v + k2*x2 + d2*v2)/m - g",
        -0.7,
        3.5,
        ["x2", "v2"],
        {"m": 0.2, "k1": 1.0, "d1": 0.01},
    )
    lower = mass("(-k2*(x - x1) - d2*(v - v1))/m - g", -8.8, 3.0, ["x1", "v1"], {"m": 0.3})
    exchange = {
        "upper.v": "((upper.m - lower.m)*upper.v + 2*lower.m*lower.v)/(upper.m + lower.m)",
        "lower.v": "((lower.m - upper.m)*lower.v + 2*upper.m*upper.v)/(upper.m + lower.m)",
    }
    scenario = up.Scenario(
        {"upper": upper, "lower": lower},
        {"upper.x2": "lower.x", "upper.v2": "lower.v", "lower.x1": "upper.x", "lower.v1": "upper.v"},
        events={
            "masses": {"when": ["upper.x - lower.x - 1.1", "upper.v - lower.v"], "then": exchange},
            "ceiling": {"when": ["-0.55 - upper.x", "-upper.v"], "then": {"upper.v": "-upper.v"}},
        },
    )

    def slopes(t: float, s: np.ndarray) -> list[float]:
        x1, v1, x2, v2 = s
        a1 = (-2 * x1 - 0.02 * v1 + x2 + 0.01 * v2) / 0.2 - 9.81
        return [v1, a1, v2, (-(x2 - x1) - 0.01 * (v2 - v1)) / 0.3 - 9.81]

    def hit(t: float, s: np.ndarray) -> float:
        return float(s[0] - s[2] - 1.1)

    def ceiling(t: float, s: np.ndarray) -> float:
        return float(-0.55 - s[0])

    for event in (hit, ceiling):
        event.terminal, event.direction = True, -1.0  # type: ignore[attr-defined]
    phases: list[Phase] = []
    times: dict[str, list[float]] = {"masses": [], "ceiling": []}
    begin, state = 0.0, np.array([-0.7, 3.5, -8.8, 3.0])
    while begin < until:
        found = solve_ivp(
            slopes,
            (begin, until),
            state,
            "DOP853",
            rtol=1e-13,
            atol=1e-13,
            dense_output=True,
            events=(hit, ceiling),
        )
        phases.append(Phase(begin, found.sol))
        begin, state = float(found.t[-1]), found.y[:, -1].copy()
        if found.status == 1 and len(found.t_events[0]):
            v1, v2 = state[1], state[3]
            state[1], state[3] = (-0.1 * v1 + 0.6 * v2) / 0.5, (0.1 * v2 + 0.4 * v1) / 0.5
            times["masses"].append(begin)
        elif found.status == 1:
            state[1] = -state[1]
            times["ceiling"].append(begin)
    reference = by_phases(phases, ("upper.x", "upper.v", "lower.x", "lower.v"))
    events = {name: tuple(found) for name, found in times.items()}
    return Case("two masses under a ceiling", "events between", scenario, until, 0.05, reference, events)


def thermostat() -> Case:
    """Example 18 of the thesis: x' = -0.1·(x - 30·q), off at 21, on at 19."""
    until, alpha = 10.0, 0.1
    scenario = up.Scenario(
        {
            "room": up.Ode({"x": "-0.1*(x - 30*q)"}, inputs={"q": 1.0}, start={"x": 20.0}, solver=TIGHT),
            "relay": up.StateMachine(
                inputs={"x": 20.0},
                outputs={
                    "q": "1 if state == 'heating' else 0",
                    "switch": {"event": True, "items": ["off", "on"]},
                },
                initial="heating",
                states=["heating", "cooling"],
                transitions=[
                    {"from": "heating", "to": "cooling", "when": "x >= 21", "emit": {"switch": "off"}},
                    {"from": "cooling", "to": "heating", "when": "x <= 19", "emit": {"switch": "on"}},
                ],
            ),
        },
        {"room.q": "relay.q", "relay.x": "room.x"},
    )

    def flow(begin: float, first: float, goal: float) -> Callable[[np.ndarray], np.ndarray]:
        return lambda t: np.array([goal + (first - goal) * np.exp(-alpha * (t - begin))])

    phases, times, begin, x, k = [], [], 0.0, 20.0, 0
    while begin < until:
        goal, limit = (30.0, 21.0) if k % 2 == 0 else (0.0, 19.0)
        phases.append(Phase(begin, flow(begin, x, goal)))
        begin += float(np.log((x - goal) / (limit - goal))) / alpha
        x, k = limit, k + 1
        times.append(begin)
    events = {"relay.switch": tuple(t for t in times if t < until)}
    return Case("thermostat", "relay", scenario, until, 0.1, by_phases(phases, ("room.x",)), events)


# -- chaos


def pendulum() -> Case:
    """A double pendulum, each arm a unit. Two solutions that begin 1e-13 apart are 1 apart before the end."""
    first = "(-9.81*(3*sin(a) + sin(a - 2*b)) - 2*sin(a - b)*(w**2 + q**2*cos(a - b)))/(3 - cos(2*a - 2*b))"
    second = "2*sin(a - b)*(2*q**2 + 2*9.81*cos(a) + w**2*cos(a - b))/(3 - cos(2*a - 2*b))"
    # Of the arm itself: angle and speed; of the other: inputs. For the upper arm q is its own speed.
    scenario = up.Scenario(
        {
            "upper": up.Ode({"a": "q", "q": first}, inputs=["b", "w"], start={"a": 2.0}, solver=TIGHT),
            "lower": up.Ode({"b": "w", "w": second}, inputs=["a", "q"], start={"b": 1.0}, solver=TIGHT),
        },
        {"upper.b": "lower.b", "upper.w": "lower.w", "lower.a": "upper.a", "lower.q": "upper.q"},
    )

    def slopes(t: float, s: np.ndarray) -> list[float]:
        a, q, b, w = s
        d = a - b
        m = 3 - np.cos(2 * d)
        up_ = -9.81 * (3 * np.sin(a) + np.sin(a - 2 * b)) - 2 * np.sin(d) * (w**2 + q**2 * np.cos(d))
        low = 2 * np.sin(d) * (2 * q**2 + 2 * 9.81 * np.cos(a) + w**2 * np.cos(d))
        return [q, up_ / m, w, low / m]

    outputs = {
        "upper.a": lambda t, y: y[0],
        "upper.q": lambda t, y: y[1],
        "lower.b": lambda t, y: y[2],
        "lower.w": lambda t, y: y[3],
    }
    reference = solved(slopes, [2.0, 0.0, 1.0, 0.0], 20.0, outputs)
    return Case("double pendulum", "chaotic", scenario, 20.0, 0.01, reference, valid=PREDICTABLE)


PREDICTABLE = 10.0
"""How long the reference of the double pendulum is known to 1e-6: solutions at 1e-12 and 1e-13 agree."""


# -- FMUs


def fmu_pair(folder: Path) -> Case:
    """Two FMUs of FMI 2 for co-simulation that cannot be set back, written in C (tests/fmus/linear.c)."""
    sys.path.append(str(TESTS))
    from dataclasses import replace

    from fmu_maker import make
    from fmu_models import LINEAR

    plain = replace(
        LINEAR,
        name="plain",
        source="linear",
        state=False,
        derivatives=False,
        exchange=False,
        depends={"der(x)": ("x", "u"), "y": ("x",)},
    )
    path = make(plain, 2, folder)
    scenario = up.Scenario(
        {
            "one": up.Fmu(path, parameters={"a": -1.0, "b": 2.0, "c": 1.0, "d": 0.0, "x": 1.0}),
            "two": up.Fmu(path, parameters={"a": -0.5, "b": -2.0, "c": 1.0, "d": 0.0, "x": 0.0}),
        },
        {"one.u": "two.y", "two.u": "one.y"},
    )
    reference = linear([[-1, 2], [-2, -0.5]], [1, 0], {"one.y": [1, 0], "two.y": [0, 1]})
    return Case("FMUs without rollback", "black boxes", scenario, 5.0, 0.05, reference)


def cases(folder: Path | None = None) -> dict[str, Case]:
    """All of them, by name; those with FMUs only where there is a folder to make them in."""
    makers: list[Callable[[], Case]] = [
        oscillators,
        predators,
        stiff,
        resonator,
        chain,
        loop,
        motor,
        unstable,
        multi_rate,
        aliasing,
        sampled_in_python,
        sampled_by_events,
        ball,
        two_masses,
        thermostat,
        pendulum,
    ]
    found = [make() for make in makers]
    if folder is not None:
        found.append(fmu_pair(folder))
    return {case.name: case for case in found}
