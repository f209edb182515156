"""Ten coupled problems with known solutions: closed forms, or the undivided equations solved to 1e-13."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.integrate import solve_ivp

import upbeat as up

Slopes = Callable[[float, np.ndarray], list[float]]


@dataclass(frozen=True)
class Problem:
    """Units, each a table of equations; what they share goes by the name of the state or output."""

    units: dict[str, dict]
    connections: dict[str, str]
    states: tuple[str, ...]
    start: tuple[float, ...]
    until: float
    solution: Slopes | np.ndarray | Callable[[np.ndarray], np.ndarray]
    closed: bool = False

    def scenario(self) -> up.Scenario:
        """The divided problem."""
        solver = up.DormandPrince(rtol=1e-12, atol=1e-12)
        values = dict(zip(self.states, self.start, strict=True))
        models = {
            name: up.Ode(
                **table,
                start={state: values[f"{name}.{state}"] for state in table["states"]},
                solver=solver,
            )
            for name, table in self.units.items()
        }
        return up.Scenario(units=models, connections=self.connections)

    def exact(self, times: np.ndarray) -> np.ndarray:
        """The solution of the undivided problem, one row per state."""
        if isinstance(self.solution, np.ndarray):
            rates, vectors = np.linalg.eig(self.solution)
            weights = np.linalg.solve(vectors, np.array(self.start, complex))
            return np.real(vectors @ (weights[:, None] * np.exp(np.outer(rates, times))))
        return self.solution(times) if self.closed else self._solved(times)

    @cached_property
    def _solved(self) -> Callable[[np.ndarray], np.ndarray]:
        span, accuracy = (0, self.until), {"rtol": 1e-13, "atol": 1e-13}
        return solve_ivp(self.solution, span, self.start, "DOP853", dense_output=True, **accuracy).sol


def kepler(times: np.ndarray) -> np.ndarray:
    """An orbit of eccentricity 0.5 that starts at its near point, from Kepler's equation."""
    e, anomaly = 0.5, times.copy()
    for _ in range(50):
        anomaly -= (anomaly - e * np.sin(anomaly) - times) / (1 - e * np.cos(anomaly))
    rate, side = 1 / (1 - e * np.cos(anomaly)), np.sqrt(1 - e * e)
    return np.array(
        [
            np.cos(anomaly) - e,
            -np.sin(anomaly) * rate,
            side * np.sin(anomaly),
            side * np.cos(anomaly) * rate,
        ]
    )


PROBLEMS = {
    "oscillator": Problem(
        {
            "p": {"inputs": ["v"], "states": {"x": "v"}},
            "q": {"inputs": ["x"], "states": {"v": "-x"}},
        },
        {"p.v": "q.v", "q.x": "p.x"},
        ("p.x", "q.v"),
        (1.0, 0.0),
        10.0,
        lambda t: np.array([np.cos(t), -np.sin(t)]),
        closed=True,
    ),
    "masses": Problem(
        {
            "left": {"inputs": ["F"], "states": {"x": "v", "v": "-x - v + F"}},
            "right": {
                "inputs": ["xc", "vc"],
                "locals": {"force": "x - xc + v - vc"},
                "states": {"x": "v", "v": "-x - force"},
                "outputs": {"x": "x", "v": "v", "F": "force"},
            },
        },
        {"left.F": "right.F", "right.xc": "left.x", "right.vc": "left.v"},
        ("left.x", "left.v", "right.x", "right.v"),
        (1.0, 0.0, 0.0, 0.0),
        10.0,
        np.array([[0.0, 1, 0, 0], [-2, -2, 1, 1], [0, 0, 0, 1], [1, 1, -2, -1]]),
    ),
    "heat chain": Problem(
        {
            "a": {"inputs": ["r"], "states": {"T": "r - T"}},
            "b": {"inputs": ["l", "r"], "states": {"T": "l + r - 2*T"}},
            "c": {"inputs": ["l"], "states": {"T": "l - 2*T"}},
        },
        {"a.r": "b.T", "b.l": "a.T", "b.r": "c.T", "c.l": "b.T"},
        ("a.T", "b.T", "c.T"),
        (1.0, 0.0, 2.0),
        8.0,
        np.array([[-1.0, 1, 0], [1, -2, 1], [0, 1, -2]]),
    ),
    "predator and prey": Problem(
        {
            "prey": {"inputs": ["y"], "states": {"x": "x*(1 - y)"}},
            "predator": {"inputs": ["x"], "states": {"y": "y*(x - 1)"}},
        },
        {"prey.y": "predator.y", "predator.x": "prey.x"},
        ("prey.x", "predator.y"),
        (2.0, 1.0),
        14.0,
        lambda t, y: [y[0] * (1 - y[1]), y[1] * (y[0] - 1)],
    ),
    "van der pol": Problem(
        {
            "p": {"inputs": ["v"], "states": {"x": "v"}},
            "q": {"inputs": ["x"], "states": {"v": "4*(1 - x**2)*v - x"}},
        },
        {"p.v": "q.v", "q.x": "p.x"},
        ("p.x", "q.v"),
        (2.0, 0.0),
        20.0,
        lambda t, y: [y[1], 4 * (1 - y[0] ** 2) * y[1] - y[0]],
    ),
    "brusselator": Problem(
        {
            "a": {"inputs": ["y"], "states": {"x": "1 + x**2*y - 4*x"}},
            "b": {"inputs": ["x"], "states": {"y": "3*x - x**2*y"}},
        },
        {"a.y": "b.y", "b.x": "a.x"},
        ("a.x", "b.y"),
        (1.5, 3.0),
        20.0,
        lambda t, y: [1 + y[0] ** 2 * y[1] - 4 * y[0], 3 * y[0] - y[0] ** 2 * y[1]],
    ),
    "kepler": Problem(
        {
            "p": {"inputs": ["y"], "states": {"x": "v", "v": "-x/(x**2 + y**2)**1.5"}},
            "q": {"inputs": ["x"], "states": {"y": "w", "w": "-y/(x**2 + y**2)**1.5"}},
        },
        {"p.y": "q.y", "q.x": "p.x"},
        ("p.x", "p.v", "q.y", "q.w"),
        (0.5, 0.0, 0.0, float(np.sqrt(3.0))),
        12.0,
        kepler,
        closed=True,
    ),
    "epidemic": Problem(
        {
            "s": {"inputs": ["i"], "states": {"s": "-2*s*i"}},
            "i": {"inputs": ["s"], "states": {"i": "2*s*i - 0.5*i"}},
        },
        {"s.i": "i.i", "i.s": "s.s"},
        ("s.s", "i.i"),
        (0.99, 0.01),
        15.0,
        lambda t, y: [-2 * y[0] * y[1], 2 * y[0] * y[1] - 0.5 * y[1]],
    ),
    "pendulum and motor": Problem(
        {
            "arm": {"inputs": ["M"], "states": {"a": "w", "w": "-4*sin(a) - 0.2*w + M"}},
            "motor": {
                "inputs": ["w"],
                "states": {"I": "sin(time) - I - 0.5*w"},
                "outputs": {"I": "I", "M": "2*I - 0.3*w"},
            },
        },
        {"arm.M": "motor.M", "motor.w": "arm.w"},
        ("arm.a", "arm.w", "motor.I"),
        (1.0, 0.0, 0.0),
        12.0,
        lambda t, y: [
            y[1],
            -4 * np.sin(y[0]) - 0.2 * y[1] + 2 * y[2] - 0.3 * y[1],
            np.sin(t) - y[2] - 0.5 * y[1],
        ],
    ),
    "ignition": Problem(
        {
            "heat": {"inputs": ["c"], "states": {"T": "20*c*exp(-4/T) - 0.5*(T - 1)"}},
            "fuel": {"inputs": ["T"], "states": {"c": "-8*c*exp(-4/T) + 0.05*(1 - c)"}},
        },
        {"heat.c": "fuel.c", "fuel.T": "heat.T"},
        ("heat.T", "fuel.c"),
        (1.4, 1.0),
        20.0,
        lambda t, y: [
            20 * y[1] * np.exp(-4 / y[0]) - 0.5 * (y[0] - 1),
            -8 * y[1] * np.exp(-4 / y[0]) + 0.05 * (1 - y[1]),
        ],
    ),
}
