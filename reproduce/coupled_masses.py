"""Two coupled mass-spring-dampers (thesis, example 8) against their analytic solution.

The thesis couples a mass-spring-damper (x1, v1; input: the coupling force) with a second one that
computes that force (x2, v2; inputs: position and velocity of the first). Both units are solved to
1e-12 here, so that what is left is the error of the co-simulation. With inputs held over a step of
size H it is of order 1 in H; with inputs that follow a straight line it is of order 2, for Jacobi
and for Gauss-Seidel alike (the first step of a linear extrapolation has no history and holds, which
costs H² once). Expected | here, orders by least squares over halved steps.
"""

from __future__ import annotations

import argparse
import json
import sys

import numpy as np

import upbeat as up

PARAMETERS = {"m1": 1.0, "c1": 1.0, "d1": 1.0, "m2": 1.0, "c2": 1.0, "cc": 1.0, "dc": 1.0}
START = np.array([1.0, 0.0, 0.0, 0.0])
SIGNALS = ("left.x", "left.v", "right.x", "right.v")
UNTIL = 10.0
STEPS = [0.1 / 2**k for k in range(6)]

EXPECTED = {"jacobi": {"hold": 1, "linear": 2}, "gauss_seidel": {"hold": 1, "linear": 2}}
COUPLINGS = {"jacobi": up.Jacobi(), "gauss_seidel": up.GaussSeidel()}
INPUTS = {"hold": up.Hold(), "linear": up.Linear()}


def scenario() -> up.Scenario:
    """The two units of the thesis, coupled as in its equation (3.25)."""
    solver = up.DormandPrince(rtol=1e-12, atol=1e-12)
    p = PARAMETERS
    left = up.Ode(
        inputs=["F"],
        states={"x": "v", "v": "(-c*x - d*v + F)/m"},
        start={"x": START[0], "v": START[1]},
        outputs=["x", "v"],
        parameters={"m": p["m1"], "c": p["c1"], "d": p["d1"]},
        solver=solver,
    )
    right = up.Ode(
        inputs=["xc", "vc"],
        locals={"force": "cc*(x - xc) + dc*(v - vc)"},
        states={"x": "v", "v": "(-c*x - force)/m"},
        start={"x": START[2], "v": START[3]},
        outputs={"x": "x", "v": "v", "F": "force"},
        parameters={"m": p["m2"], "c": p["c2"], "cc": p["cc"], "dc": p["dc"]},
        solver=solver,
    )
    return up.Scenario(
        units={"left": left, "right": right},
        connections={"left.F": "right.F", "right.xc": "left.x", "right.vc": "left.v"},
    )


def exact(times: np.ndarray) -> np.ndarray:
    """The analytic solution of the coupled model (3.17): one row per time, by eigenvectors."""
    p = PARAMETERS
    matrix = np.array(
        [
            [0, 1, 0, 0],
            [
                -(p["c1"] + p["cc"]) / p["m1"],
                -(p["d1"] + p["dc"]) / p["m1"],
                p["cc"] / p["m1"],
                p["dc"] / p["m1"],
            ],
            [0, 0, 0, 1],
            [p["cc"] / p["m2"], p["dc"] / p["m2"], -(p["c2"] + p["cc"]) / p["m2"], -p["dc"] / p["m2"]],
        ]
    )
    values, vectors = np.linalg.eig(matrix)
    weights = np.linalg.solve(vectors, START.astype(complex))
    return np.real((np.exp(np.outer(times, values)) * weights) @ vectors.T)


def error(coupling: up.Jacobi | up.GaussSeidel, inputs: up.Hold | up.Linear, step: float) -> float:
    """The root mean square deviation of the states over all communication points."""
    trace = up.simulate(scenario(), pace=step, until=UNTIL, coupling=coupling, inputs=inputs)
    here = np.column_stack([trace[name] for name in SIGNALS])
    return float(np.sqrt(np.mean((here - exact(trace.time)) ** 2)))


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument(
        "--json", action="store_true", help="one JSON object on standard output, tables on the other"
    )
    options = arguments.parse_args()
    if options.json:
        sys.stdout = sys.stderr  # tables are for people: the object is alone on standard output
    orders: dict[str, dict[str, float]] = {}
    errors: dict[str, dict[str, list[float]]] = {}
    ok = True
    print(f"{'coupling':14}{'inputs':9}{'expected order':>15} |{'here':>8}", end="")
    print(f"    error at H = {STEPS[0]:g} … {STEPS[-1]:g}")
    for coupling_name, coupling in COUPLINGS.items():
        for inputs_name, inputs in INPUTS.items():
            found = [error(coupling, inputs, step) for step in STEPS]
            order = float(np.polyfit(np.log(STEPS[2:]), np.log(found[2:]), 1)[0])
            expected = EXPECTED[coupling_name][inputs_name]
            ok = ok and abs(order - expected) <= 0.2
            orders.setdefault(coupling_name, {})[inputs_name] = order
            errors.setdefault(coupling_name, {})[inputs_name] = found
            print(f"{coupling_name:14}{inputs_name:9}{expected:>15} |{order:8.3f}", end="")
            print(f"    {found[0]:.2e} … {found[-1]:.2e}")
    print("ok" if ok else "NOT as expected")
    if options.json:
        print(
            json.dumps({"expected": EXPECTED, "here": orders, "errors": errors, "steps": STEPS, "ok": ok}),
            file=sys.__stdout__,
        )
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
