"""Orders of convergence of couplings and input approximations on the coupled masses (thesis, example 8).

Units are solved to 1e-13, so the error is that of the co-simulation; its order is the slope of
log(error) over log(H) for halved steps. Theory:

* inputs that follow a polynomial of degree n leave an error of order n + 1, if both ends or enough of
  the past are known;
* a run starts without a past: the first step of an extrapolated polynomial holds its inputs, which
  costs H² once and for all. So linear inputs show their 2, and quadratic ones show 2 instead of 3;
* a Hermite polynomial knows the slope at once. Extrapolated, its first step is a straight line in the
  right direction, which costs H³ (3 instead of 4); interpolated in an iterated step it reaches 4;
* iterated steps interpolate; their first step is linear at least, which costs H³: quadratic ones show 3.

What the start costs is the start's fault: all of it is seen again with a short step at the beginning
(`warm`). A first step of √H·H that holds costs H³, and the next ones have a past; so quadratic inputs must
show their 3, and Hermite ones, whose first step costs (√H·H)³, their 4. That separates Polynomial(2) from
Linear() for Jacobi and Gauss-Seidel too. The steps after it double: samples that are far closer than the
step ahead are not extrapolated from.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from math import ceil, floor, log2, sqrt
from typing import Any

import numpy as np
from coupled_masses import PARAMETERS, SIGNALS, START, UNTIL, exact

import upbeat as up
from upbeat.extend import Proposal, Read, Span, State

STEPS = [0.1 / 2**k for k in range(5)]
INPUTS = {"hold": up.Hold(), "linear": up.Linear(), "quadratic": up.Polynomial(2), "hermite": up.Hermite(1)}
COUPLINGS = {
    "jacobi": up.Jacobi(),
    "gauss_seidel": up.GaussSeidel(),
    "iterated": up.Iterated(up.GaussSeidel(), tolerance=1e-13),
}
THEORY = {
    "jacobi": {"hold": 1, "linear": 2, "quadratic": 2, "hermite": 3},
    "gauss_seidel": {"hold": 1, "linear": 2, "quadratic": 2, "hermite": 3},
    "iterated": {"hold": 1, "linear": 2, "quadratic": 3, "hermite": 4},
}
WARM = {name: {"hold": 1, "linear": 2, "quadratic": 3, "hermite": 4} for name in COUPLINGS}


@dataclass(frozen=True)
class ShortFirst:
    """Steps of one size, but the first one is at most √step·step; the way to `step` is doubled from there."""

    step: float

    def begin(self, span: Span) -> State:
        return (span.start,)

    def propose(self, state: State, t: float, limit: float, read: Read) -> tuple[Proposal, State]:
        start, h = state[0], self.step
        if t == start:
            return Proposal(t + h / 2 ** ceil(log2(1 / sqrt(h))), "short first step"), state
        passed = (t - start) / h
        ahead = 2 * passed if passed < 0.9 else floor(passed + 1e-9) + 1
        return Proposal(min(start + h * ahead, limit), "grid"), state


def scenario() -> up.Scenario:
    """The two masses, with outputs that say what their derivatives are."""
    p, solver = PARAMETERS, up.DormandPrince(rtol=1e-13, atol=1e-13)
    left = up.Ode(
        inputs=["F"],
        locals={"acc": "(-c*x - d*v + F)/m"},
        states={"x": "v", "v": "acc"},
        start={"x": START[0], "v": START[1]},
        outputs={"x": {"value": "x", "derivative": "v"}, "v": {"value": "v", "derivative": "a"}, "a": "acc"},
        parameters={"m": p["m1"], "c": p["c1"], "d": p["d1"]},
        solver=solver,
    )
    right = up.Ode(
        inputs=["xc", "vc", "ac"],
        locals={"force": "cc*(x - xc) + dc*(v - vc)", "acc": "(-c*x - force)/m"},
        states={"x": "v", "v": "acc"},
        start={"x": START[2], "v": START[3]},
        outputs={
            "x": "x",
            "v": "v",
            "F": {"value": "force", "derivative": "dF"},
            "dF": "cc*(v - vc) + dc*(acc - ac)",
        },
        parameters={"m": p["m2"], "c": p["c2"], "cc": p["cc"], "dc": p["dc"]},
        solver=solver,
    )
    links = {"left.F": "right.F", "right.xc": "left.x", "right.vc": "left.v", "right.ac": "left.a"}
    return up.Scenario(units={"left": left, "right": right}, connections=links)


def error(coupling: Any, inputs: Any, pace: Any) -> float:
    """Root mean square over states and communication points."""
    # nobody needs the slope of the acceleration: that input only serves the output dF
    ports = {"right.ac": up.Linear()} if isinstance(inputs, up.Hermite) else {}
    trace = up.simulate(
        scenario(), pace=pace, until=UNTIL, coupling=coupling, inputs=inputs, ports=ports, record=SIGNALS
    )
    here = np.column_stack([trace[name] for name in SIGNALS])
    return float(np.sqrt(np.mean((here - exact(trace.time)) ** 2)))


def table(title: str, theory: dict[str, dict[str, int]], pace: type) -> dict[str, dict[str, float]]:
    """The orders of all couplings and inputs, printed."""
    orders: dict[str, dict[str, float]] = {name: {} for name in COUPLINGS}
    for name, coupling in COUPLINGS.items():
        for label, inputs in INPUTS.items():
            found = [error(coupling, inputs, pace(step)) for step in STEPS]
            orders[name][label] = order = float(np.polyfit(np.log(STEPS[1:]), np.log(found[1:]), 1)[0])
            print(f"{title:7}{name:14}{label:12}{theory[name][label]:>7} |{order:7.2f}", end="")
            print(f"    {found[0]:.1e} … {found[-1]:.1e}")
    return orders


def as_theory(orders: dict[str, dict[str, float]], theory: dict[str, dict[str, int]]) -> bool:
    return all(
        abs(found - theory[name][label]) <= 0.2
        for name, row in orders.items()
        for label, found in row.items()
    )


def main() -> int:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument(
        "--json", action="store_true", help="one JSON object on standard output, tables on the other"
    )
    options = arguments.parse_args()
    if options.json:
        sys.stdout = sys.stderr  # tables are for people: the object is alone on standard output
    print(f"{'start':7}{'coupling':14}{'inputs':12}{'theory':>7} |{'here':>7}", end="")
    print(f"    error at H = {STEPS[0]:g} … {STEPS[-1]:g}")
    cold = table("cold", THEORY, up.Fixed)
    warm = table("warm", WARM, ShortFirst)
    ok = as_theory(cold, THEORY) and as_theory(warm, WARM)
    print("ok" if ok else "NOT as theory says")
    if options.json:
        print(
            json.dumps({"orders": cold, "theory": THEORY, "warm": warm, "warm_theory": WARM, "ok": ok}),
            file=sys.__stdout__,
        )
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
