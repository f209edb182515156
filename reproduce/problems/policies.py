"""The matrices of the thesis's adaptive co-simulations (sections 5.4, 5.10), written out from its equations.

The matrices use nothing of Upbeat: (5.10)-(5.13) and (5.24)-(5.26) in NumPy, so that they can judge what
Upbeat induces from programs.
"""

from __future__ import annotations

import itertools

import numpy as np

import upbeat as up


def flow(a: np.ndarray, b: np.ndarray, length: float, steps: int, solver: str) -> np.ndarray:
    """[x, u] ↦ x after so many steps of a solver, the input held: (5.11)."""
    n, m = b.shape
    z = np.zeros((n + m, n + m))
    z[:n, :n], z[:n, n:] = a, b
    z *= length / steps
    once = np.eye(n + m) + z + (z @ z / 2 if solver == "midpoint" else 0.0)
    return np.linalg.matrix_power(once, steps)[:n]


# -------------------------------------------------------------------- two masses, section 5.4

STEP = 0.1
LEFT = (np.array([[0.0, 1.0], [-1.0, -0.1]]), np.array([[0.0], [1.0]]))
RIGHT = (np.array([[0.0, 1.0], [-2.0, -0.1]]), np.array([[0.0, 0.0], [1.0, 0.1]]))
FORCE = np.array([[-1.0, -0.1, 1.0, 0.1]])
"""The coupling force from [x1, v1, x2, v2], with the parameters of figure 5.4."""


def masses(left: tuple[int, str], right: tuple[int, str]) -> np.ndarray:
    """One step of Jacobi with held inputs, each mass with so many steps of a solver: (5.13)."""
    state = np.eye(4)
    one = flow(*LEFT, STEP, *left) @ np.vstack([state[:2], FORCE])
    other = flow(*RIGHT, STEP, *right) @ np.vstack([state[2:], state[:2]])
    return np.vstack([one, other])


SETTINGS = tuple(itertools.product((1, 10), ("euler", "midpoint")))
MASSES = {
    f"{one[1]}×{one[0]} {other[1]}×{other[0]}": masses(one, other)
    for one, other in itertools.product(SETTINGS, SETTINGS)
}
"""The 16 policies of section 5.4: each simulator has one of two solvers and one or ten steps of it."""
FER1 = masses((1, "euler"), (1, "euler"))
FER10 = masses((10, "euler"), (10, "euler"))
EXACT = np.vstack([np.hstack([LEFT[0], np.zeros((2, 2))]), np.hstack([RIGHT[1], RIGHT[0]])])
EXACT[1] += FORCE[0]

# -------------------------------------------------------------------- the pendulum, section 5.10

M, m, b, I, g, l = 0.5, 0.2, 0.1, 0.006, 9.8, 0.3  # noqa: E741
p = I * (M + m) + M * m * l * l
PENDULUM = np.array(
    [
        [0.0, 1.0, 0.0, 0.0],
        [0.0, -(I + m * l * l) * b / p, m * m * g * l * l / p, 0.0],
        [0.0, 0.0, 0.0, 1.0],
        [0.0, -m * l * b / p, m * g * l * (M + m) / p, 0.0],
    ]
)
PUSH = np.array([[0.0], [(I + m * l * l) / p], [0.0], [m * l / p]])
CONTROL = np.array([[1.0000, 1.6567, -18.6854, -3.4594]])


def pendulum(length: float, step: float, solver: str) -> np.ndarray:
    """One step of the controlled pendulum: the controller's output is held over it."""
    return flow(PENDULUM, PUSH, length, round(length / step), solver) @ np.vstack([np.eye(4), CONTROL])


PENDULA = {
    f"H={length:g} h={step:g} {solver}": pendulum(length, step, solver)
    for length in (0.1, 0.2)
    for step in (length, length / 10)
    for solver in ("euler", "midpoint")
}
"""The 8 policies of section 5.10."""

# -------------------------------------------------------------------- the same as scenarios


def pendulum_scenario(solver: object) -> up.Scenario:
    """The pendulum and its controller as units."""
    names = ["p", "v", "a", "w"]
    rows = np.hstack([PENDULUM, PUSH]).tolist()
    states = {
        name: " + ".join(f"({c!r})*{x}" for c, x in zip(row, [*names, "u"], strict=True) if c)
        for name, row in zip(names, rows, strict=True)
    }
    start = {"p": 0.1, "a": 0.05}
    plant = up.Ode(states, start=start, inputs=["u"], outputs=names, solver=solver)
    law = " + ".join(f"({c!r})*{x}" for c, x in zip(CONTROL[0].tolist(), names, strict=True))
    control = up.Function(inputs=names, outputs={"u": law})
    wires = {f"control.{x}": f"plant.{x}" for x in names}
    return up.Scenario({"plant": plant, "control": control}, connections={"plant.u": "control.u", **wires})


def masses_scenario(solver: object) -> up.Scenario:
    """The two masses of figure 5.2 as units."""
    left = up.Ode(
        {"x": "v", "v": "F - x - 0.1*v"}, start={"x": 1.0}, inputs=["F"], outputs=["x", "v"], solver=solver
    )
    right = up.Ode(
        {"x": "v", "v": "-x - f"},
        inputs=["xc", "vc"],
        locals={"f": "x - xc + 0.1*(v - vc)"},
        outputs={"x": "x", "v": "v", "F": "f"},
        solver=solver,
    )
    return up.Scenario(
        {"left": left, "right": right},
        connections={"left.F": "right.F", "right.xc": "left.x", "right.vc": "left.v"},
    )


# -------------------------------------------------------------------- and as variants of one program


def masses_variants() -> up.Variants:
    """The 16 policies of section 5.4 as step blocks: solvers of both masses that take turns."""
    others = {}
    for (one, left), (two, right) in itertools.product(SETTINGS, repeat=2):
        if (one, left, two, right) != (1, "euler", 1, "euler"):  # which the scenario has by itself
            solvers = {
                "left": {"kind": left, "steps": one},
                "right": {"kind": right, "steps": two},
            }
            others[f"{left}×{one} {right}×{two}"] = up.Variant(solvers=solvers)
    return up.Variants(others=others)


def pendulum_variants() -> up.Variants:
    """The four settings of the solver of section 5.10; with two sizes of steps these are its 8 policies."""
    settings = SETTINGS[1:]
    return up.Variants(
        others={
            f"{method}×{micro}": up.Variant(solvers={"plant": {"kind": method, "steps": micro}})
            for micro, method in settings
        }
    )
