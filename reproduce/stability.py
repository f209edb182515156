"""Stability of co-simulations (thesis, section 3.7.3 and chapter 5): what a verdict says, and what happens.

* Example 16: the spectral radius of equation (3.49). The thesis prints 0.9992, which needs the damping d_2 of
  the second mass that its matrix leaves out. With d_c = 6e6 it prints 76.43: that is what quadrature makes of
  the integral of the inputs of a stiff unit. With the exponential of one matrix the step of (3.49), in which
  the force is one step late, is just stable, and with outputs solved at the communication point (algorithm 3)
  the radius is 5997.
* The largest stable steps of the masses of figure 5.4, whose units are solved exactly, as intervals.
* Adaptive masters: the 16 policies of section 5.4 with figures 5.4 and 5.5, table 5.2 with one lift
  more, the run-time monitor, and the largest delays of chapter 6 (`problems/adaptive.py`).
* Truth: 200 random scenarios whose units, connected, are stable, under random couplings, orders, steps,
  solvers and input approximations. Each runs for 10⁴ steps; the slope of log‖x‖ over the second half must be
  log ρ within 10 %, outside |ρ - 1| < 1e-3.
* Scale: the verdict for a chain of 50 units with 500 states, and of 200 with 2,000.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from math import log
from typing import Any

import numpy as np
from problems import adaptive, truth

import upbeat as up

FIGURE = {"d1": 0.1, "d2": 0.0, "dc": 0.1}
"""Figure 5.4, where it differs from example 16."""


def masses(**changes: float) -> up.Scenario:
    """Two masses between springs; the right unit computes the force between them."""
    p = {"m1": 1.0, "c1": 1.0, "d1": 1.0, "m2": 1.0, "c2": 1.0, "d2": 2.0, "cc": 1.0, "dc": 1.0} | changes
    left = up.Ode(
        {"x": "v", "v": "(F - c*x - d*v)/m"},
        inputs=["F"],
        outputs=["x", "v"],
        parameters={"m": p["m1"], "c": p["c1"], "d": p["d1"]},
    )
    right = up.Ode(
        {"x": "v", "v": "(-c*x - d*v - F)/m"},
        inputs=["xc", "vc"],
        locals={"F": "cc*(x - xc) + dc*(v - vc)"},
        outputs={"x": "x", "v": "v", "F": "F"},
        parameters={"m": p["m2"], "c": p["c2"], "d": p["d2"], "cc": p["cc"], "dc": p["dc"]},
    )
    return up.Scenario(
        units={"left": left, "right": right},
        connections={"left.F": "right.F", "right.xc": "left.x", "right.vc": "left.v"},
    )


class Chord(up.Hold):
    """Held where the end of the step is unknown, straight to the end where it is known."""

    def interpolate(self, place: Any, registers: Any) -> Any:
        return up.Linear().interpolate(place, registers)


def example16() -> tuple[dict[str, Any], bool]:
    def of(outputs: Any, **changes: float) -> float:
        coupling = up.Jacobi(outputs)
        found = up.stability_of(masses(**changes), pace=0.001, coupling=coupling, ideal=True, scan=False)
        return found.spectral_radius

    mild, lagged, solved = of("lagged"), of("lagged", dc=6e6), of("solved", dc=6e6)
    print("Example 16 (H = 0.001)                                   thesis | here")
    print(f"  lagged output (3.49)                                   0.9992 | {mild:.7f}")
    print(f"  d_c = 6e6, lagged output (3.49)                         76.43 | {lagged:.11f}")
    print(f"  d_c = 6e6, outputs solved (algorithm 3)                 76.43 | {solved:.1f}")
    print("  76.43 is an artefact: quadrature of the stiff unit's input integral, not the step itself.")
    ok = abs(mild - 0.9992327) < 1e-6 and lagged < 1.0 and abs(solved - 5997.0) < 0.1
    return {"stable": mild, "unstable": solved, "stiff_lagged": lagged}, ok


LIMITS: dict[str, tuple[Any, Any, list[tuple[float, float]]]] = {
    "Jacobi, hold": (up.Jacobi(), up.Hold(), [(0.0, 0.3346)]),
    "Jacobi, hold, lagged output": (up.Jacobi("lagged"), up.Hold(), [(0.0, 0.1994)]),
    "Jacobi, linear": (up.Jacobi(), up.Linear(), [(0.0, 0.5971)]),
    "Jacobi, extrapolated interpolation": (up.Jacobi(), up.Continuous(), [(0.0, 0.1652)]),
    "Gauss-Seidel, hold": (up.GaussSeidel(("left", "right")), up.Hold(), [(0.0, 0.2007)]),
    "Gauss-Seidel, interpolating": (up.GaussSeidel(("left", "right")), Chord(), [(0.0, 0.5161)]),
    "the same, 5 iterations": (
        up.Iterated(up.GaussSeidel(("left", "right")), corrections=4),
        Chord(),
        [(0.0, 1.9233), (2.206, 2.279)],
    ),
}


def largest_steps() -> tuple[dict[str, Any], bool]:
    """Up to 2.6: beyond, more intervals follow."""
    print("\nStable steps of the masses of figure 5.4                       known | here")
    found: dict[str, Any] = {}
    ok = True
    for name, (coupling, inputs, known) in LIMITS.items():
        result = up.stability_of(
            masses(**FIGURE),
            pace=0.1,
            coupling=coupling,
            inputs=inputs,
            ideal=True,
            scan=(0.01, 2.6),
            points=60,
        )
        assert result.steps is not None
        here = [(0.0 if one.from_zero else one.low, one.high) for one in result.steps.stable]
        ok = ok and all(
            abs(a - b) <= 1e-3
            for one, two in zip(known, here, strict=False)
            for a, b in zip(one, two, strict=True)
        )
        ok = ok and len(here) == len(known)
        found[name] = here
        print(f"  {name:36}{_intervals(known):>30} | {_intervals(here)}")
    return found, ok


def _intervals(intervals: list[tuple[float, float]]) -> str:
    return ", ".join(f"{low:.4g} … {high:.5g}" for low, high in intervals)


def truth_check(count: int = 200) -> tuple[dict[str, Any], bool]:
    turn = np.random.default_rng(2024)
    n = agree = near = unstable = 0
    worst = 0.0
    while n < count:
        drawn = truth.draw(turn)
        found = up.stability_of(drawn.experiment, scan=False)
        if abs(found.spectral_radius - 1.0) < 1e-3:
            near += 1
            continue
        n += 1
        expected = log(found.spectral_radius)
        off = abs(truth.growth(drawn) - expected) / abs(expected)
        verdict = "unstable" if expected > 0 else "stable"
        agree += off <= 0.1 and found.verdict == verdict
        unstable += expected > 0
        worst = max(worst, off)
        if sys.stderr.isatty():
            print(f"\r{n} of {count}", end="", file=sys.stderr)
    print(f"\nTruth: {agree} of {n} runs of 10⁴ steps do what the verdict says ({unstable} of them grow;")
    print(f"  {near} more were too close to 1); the slope of log‖x‖ is off by {worst:.2%} at most.")
    return {"n": n, "agree": int(agree), "unstable": int(unstable), "worst": worst}, agree == n


def chain(units: int, states: int) -> up.Scenario:
    """A chain of units of equal size, each of a chain of masses that ends in its two neighbours."""
    half = states // 2
    rates = {}
    for i in range(half):
        left = f"x{i - 1}" if i > 0 else "before"
        right = f"x{i + 1}" if i + 1 < half else "after"
        rates[f"x{i}"] = f"v{i}"
        rates[f"v{i}"] = f"k*({left} - x{i}) + k*({right} - x{i}) - 0.2*v{i} - 0.5*x{i}"
    one = up.Ode(
        rates,
        inputs=["before", "after"],
        outputs={"first": "x0", "last": f"x{half - 1}"},
        parameters={"k": 1.0},
        start={"x0": 1.0},
    )
    links = {f"u{i}.before": f"u{i - 1}.last" for i in range(1, units)}
    links |= {f"u{i}.after": f"u{i + 1}.first" for i in range(units - 1)}
    return up.Scenario(units={f"u{i}": one for i in range(units)}, connections=links)


def scale() -> tuple[list[dict[str, Any]], bool]:
    print("\nScale (Jacobi, held inputs)    entries     ρ          seconds   peak memory")
    rows: list[dict[str, Any]] = []
    for units, states in ((10, 10), (50, 10), (200, 10)):
        scenario = chain(units, states)
        began = time.perf_counter()
        found = up.stability_of(scenario, pace=0.1, scan=False)
        seconds = time.perf_counter() - began
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        rows.append(
            {
                "units": units,
                "states": units * states,
                "entries": found.model.size,
                "spectral_radius": found.spectral_radius,
                "verdict": found.verdict,
                "seconds": seconds,
                "peak_gib": peak,
            }
        )
        print(
            f"  {units:4} units, {units * states:5} states  {found.model.size:7}   "
            f"{found.spectral_radius:.7f}  {seconds:8.2f}   {peak:.2f} GiB"
        )
    return rows, rows[1]["seconds"] < 10.0 and rows[2]["peak_gib"] < 2.0


PARTS = {
    "example16": example16,
    "largest_steps": largest_steps,
    **adaptive.PARTS,
    "truth_check": truth_check,
    "scale": scale,
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON object on standard output, tables on the other"
    )
    parser.add_argument("--only", choices=PARTS, action="append", help="this part only; may be repeated")
    options = parser.parse_args()
    if options.json:
        sys.stdout = sys.stderr  # tables are for people: the object is alone on standard output
    result: dict[str, Any] = {}
    fine = True
    for name, part in PARTS.items():
        if options.only is None or name in options.only:
            result[name], ok = part()
            fine = fine and ok
    print("ok" if fine else "NOT as expected")
    if options.json:
        print(json.dumps({**result, "ok": bool(fine)}), file=sys.__stdout__)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
