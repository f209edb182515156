"""Error-controlled steps on ten coupled problems with known solutions.

A tolerance is worth its name when the error of the result follows it: the slope of log(error) over
log(tolerance) should be 1, whatever the problem, for tolerances from 1e-3 to 1e-7. Units are solved to
1e-12, so that what is left is the error of the coupling: the largest deviation of any state at any
communication point, relative to 1 + |state|. Solutions are closed forms or the undivided equations
solved to 1e-13. Inputs are quadratic, so the coupling is of order 3, and units side by side (Jacobi);
but Gauss-Seidel for the masses and the orbit, and linear inputs, order 2, for predator and prey: on
closed orbits like theirs the errors of quadratic ones cancel from round to round, and a result that
is better than its tolerance has another slope (1.22). Expected | here, for Richardson and for Milne.

The work is the number of steps that units make, rejected ones included (a Richardson step is three),
over that of the best fixed step: the fewest steps of one size with at most the same error. Much of the
gain is made at the start: before there is a history the first step holds its inputs, and that alone
can cost a fixed step more than all the others; the control makes it a short one.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy.integrate import solve_ivp

import upbeat as up

TOLERANCES = [1e-3, 1e-4, 1e-5, 1e-6, 1e-7]
METHODS = ("richardson", "milne")
COMPARED = 1e-5
"""The tolerance at which work is compared with fixed steps."""

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
    inputs: up.Polynomial = field(default_factory=lambda: up.Polynomial(2))
    coupling: up.Jacobi | up.GaussSeidel = field(default_factory=up.Jacobi)

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
        coupling=up.GaussSeidel(),
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
        inputs=up.Polynomial(1),
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
        coupling=up.GaussSeidel(),
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


def deviation(problem: Problem, pace: up.ErrorControl | up.Fixed) -> tuple[float, int]:
    """The largest relative deviation of any state, and how many steps each unit has made."""
    trace = up.simulate(
        problem.scenario(),
        pace=pace,
        until=problem.until,
        inputs=problem.inputs,
        coupling=problem.coupling,
        record=list(problem.states),
    )
    here = np.array([trace[name] for name in problem.states])
    exact = problem.exact(trace.time)
    each = 3 if isinstance(pace, up.ErrorControl) and pace.method == "richardson" else 1
    error = float(np.max(np.abs(here - exact) / (1 + np.abs(exact))))
    return error, each * (trace.steps.count + trace.steps.rejected)


def fewest_steps(problem: Problem, error: float) -> int:
    """The fewest steps of one size with at most this error."""
    many = 32
    while not _at_most(problem, many, error):
        many *= 2
    few = many // 2
    while many - few > max(1, many // 50):
        middle = (few + many) // 2
        few, many = (few, middle) if _at_most(problem, middle, error) else (middle, many)
    return many


def _at_most(problem: Problem, steps: int, error: float) -> bool:
    try:
        return deviation(problem, up.Fixed(problem.until / steps))[0] <= error
    except up.UnitError:  # steps so long that a unit left the numbers
        return False


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--json", action="store_true", help="one JSON object as the last line")
    options = arguments.parse_args()
    slopes: dict[str, dict[str, float]] = {method: {} for method in METHODS}
    errors: dict[str, dict[str, list[float]]] = {method: {} for method in METHODS}
    work: dict[str, dict[str, float]] = {method: {} for method in METHODS}
    print(f"{'problem':20}{'method':12}{'expected slope':>15} |{'here':>7}", end="")
    print(f"    error at {TOLERANCES[0]:g} … {TOLERANCES[-1]:g}    work over fixed steps at {COMPARED:g}")
    for name, problem in PROBLEMS.items():
        for method in METHODS:
            runs = {t: deviation(problem, up.ErrorControl(t, method=method)) for t in TOLERANCES}
            found = [error for error, _ in runs.values()]
            error, steps = runs[COMPARED]
            slope = float(np.polyfit(np.log(TOLERANCES), np.log(found), 1)[0])
            ratio = steps / fewest_steps(problem, error)
            slopes[method][name], errors[method][name], work[method][name] = slope, found, ratio
            print(f"{name:20}{method:12}{'1 ± 0.2':>15} |{slope:7.3f}", end="")
            print(f"    {found[0]:.1e} … {found[-1]:.1e}       {steps:6} steps, {ratio:.2f} ×")
    ok = all(abs(slope - 1) <= 0.2 for table in slopes.values() for slope in table.values())
    print("ok" if ok else "NOT as expected")
    if options.json:
        print(
            json.dumps(
                {
                    "slopes": slopes["richardson"],
                    "milne": slopes["milne"],
                    "tolerances": TOLERANCES,
                    "errors": errors,
                    "work": work,
                    "ok": ok,
                }
            )
        )
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
