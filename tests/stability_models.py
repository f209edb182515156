"""Scenarios for tests of stability, and matrices of theirs that were derived by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import expm

import upbeat as up

FIGURE = {"d1": 0.1, "d2": 0.0, "dc": 0.1}
"""The parameters of figure 5.4 of the thesis, where they differ from those of example 16."""


def masses(solver: Any = None, **changes: float) -> up.Scenario:
    """Two masses between springs: the right one computes the force of the coupling (thesis, example 16)."""
    p = {"m1": 1.0, "c1": 1.0, "d1": 1.0, "m2": 1.0, "c2": 1.0, "d2": 2.0, "cc": 1.0, "dc": 1.0} | changes
    left = up.Ode(
        {"x": "v", "v": "(F - c*x - d*v)/m"},
        start={"x": 1.0},
        inputs=["F"],
        outputs=["x", "v"],
        parameters={"m": p["m1"], "c": p["c1"], "d": p["d1"]},
        solver=solver,
    )
    right = up.Ode(
        {"x": "v", "v": "(-c*x - d*v - F)/m"},
        inputs=["xc", "vc"],
        locals={"F": "cc*(x - xc) + dc*(v - vc)"},
        outputs={"x": "x", "v": "v", "F": "F"},
        parameters={"m": p["m2"], "c": p["c2"], "d": p["d2"], "cc": p["cc"], "dc": p["dc"]},
        solver=solver,
    )
    return up.Scenario(
        units={"left": left, "right": right},
        connections={"left.F": "right.F", "right.xc": "left.x", "right.vc": "left.v"},
    )


def flows(h: float, solver: str, **changes: float) -> list[tuple[np.ndarray, np.ndarray]]:
    """What one step makes of the states and the held inputs of each mass."""
    p = {"m1": 1.0, "c1": 1.0, "d1": 1.0, "m2": 1.0, "c2": 1.0, "d2": 2.0, "cc": 1.0, "dc": 1.0} | changes
    a1 = np.array([[0, 1], [-p["c1"] / p["m1"], -p["d1"] / p["m1"]]])
    b1 = np.array([[0.0], [1 / p["m1"]]])
    a2 = np.array([[0, 1], [-(p["c2"] + p["cc"]) / p["m2"], -(p["d2"] + p["dc"]) / p["m2"]]])
    b2 = np.array([[0, 0], [p["cc"] / p["m2"], p["dc"] / p["m2"]]])
    made = []
    for a, b in ((a1, b1), (a2, b2)):
        if solver == "euler":
            made.append((np.eye(2) + h * a, h * b))
            continue
        whole = np.zeros((2 + b.shape[1], 2 + b.shape[1]))
        whole[:2, :2], whole[:2, 2:] = a * h, b * h
        whole = expm(whole)
        made.append((whole[:2, :2], whole[:2, 2:]))
    return made


def jacobi(h: float, outputs: str, solver: str = "exact", **changes: float) -> np.ndarray:
    """Equation (3.49): the matrix over x1, v1, x2, v2 and the inputs F, xc, vc that the step begins with."""
    p = {"cc": 1.0, "dc": 1.0} | changes
    (f1, g1), (f2, g2) = flows(h, solver, **changes)
    matrix = np.zeros((7, 7))
    matrix[:2, :2], matrix[:2, 4:5] = f1, g1
    matrix[2:4, 2:4], matrix[2:4, 5:7] = f2, g2
    c = np.array([[p["cc"], p["dc"]]])
    matrix[5:7] = matrix[:2]  # the right one is given where the left one is
    if outputs == "solved":
        matrix[4:5] = c @ matrix[2:4] - c @ matrix[5:7]
    else:
        matrix[4:5] = c @ matrix[2:4]
        matrix[4, 5:7] -= c[0]
    return matrix


def radius(matrix: np.ndarray) -> float:
    return float(np.abs(np.linalg.eigvals(matrix)).max())


class Chord(up.Hold):
    """Held where the end of the step is unknown, straight to the end where it is known."""

    def interpolate(self, place: Any, registers: Any) -> Any:
        return up.Linear().interpolate(place, registers)
