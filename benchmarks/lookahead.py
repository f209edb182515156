"""What LookAhead itself costs in the native engine, per condition and step.

N points that move, one event with one condition for each. The same scenario runs with a fixed pace and with
LookAhead, with the same communication points, for no event ever comes near; the difference is LookAhead's own
work, all of it: computing conditions, rates and second derivatives from outputs, keeping what
outputs were before an instant, the samples, the polynomials, and the search for a zero. What both have to do
is not counted: getting outputs, and the look of the scenario at its events where units communicate.

"published" is the straight line of the paper, "best" the polynomial of degree five on values, rates and
second derivatives. For one condition this is what a step costs at all; `per_condition` is the slope from the
smallest to the largest N. The three run in turns; the figures are medians of differences in CPU time.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from typing import Any

import upbeat as up

SIZES = (1, 10, 100, 1000)
STEP = 1e-3
GOAL, GROWTH = 80.0, 1.5
FEW = 7
PACES: dict[str, Any] = {
    "fixed": up.Fixed(STEP),
    "published": up.LookAhead(STEP, method="published", after=1.0),
    "best": up.LookAhead(STEP, after=1.0),
}


def scenario(n: int) -> up.Scenario:
    """Points far above the floor, rising slowly."""
    outputs = {"x": "x", "v": {"value": "v", "derivative": "a"}, "a": "0*v"}
    point = up.Ode({"x": "v", "v": "0*v"}, start={"x": 1.0, "v": 1e-3}, outputs=outputs, solver="euler")
    return up.Scenario(
        {f"p{i}": point for i in range(n)},
        events={f"floor{i}": {"when": f"p{i}.x <= 0"} for i in range(n)},
    )


def nanoseconds(system: up.Scenario, pace: Any, steps: int) -> float:
    """CPU time of a step of one run."""
    with up.start(system, pace=pace, until=steps * STEP, engine="native", every=10**9) as run:
        begun = time.process_time()
        trace = run.finish()
        spent = time.process_time() - begun
    assert abs(sum(step.count for step in trace.steps) - steps) <= 2, "an event came near"
    return spent / steps * 1e9


def measure(n: int, seconds: float, repeats: int) -> dict[str, float]:
    """Nanoseconds per condition and step of both methods, less those of the fixed pace beside them."""
    steps = int(seconds / repeats * 1e9 / (150 * n))
    system = scenario(n)
    turns = [
        {name: nanoseconds(system, pace, steps) / n for name, pace in PACES.items()} for _ in range(repeats)
    ]

    def median(name: str) -> float:
        return statistics.median(turn[name] - turn["fixed"] for turn in turns)

    own = {f"{name}_ns": median(name) for name in PACES if name != "fixed"}
    return {"n": n, "fixed_ns": statistics.median(turn["fixed"] for turn in turns)} | own


def main() -> int:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument(
        "--json", action="store_true", help="one JSON object on standard output, tables on the other"
    )
    arguments.add_argument("--seconds", type=float, default=2.0, help="about how long runs of one kind take")
    arguments.add_argument("--repeats", type=int, default=15, help="how many runs of each kind")
    arguments.add_argument("--most", type=int, default=SIZES[-1], help="no more conditions than that")
    options = arguments.parse_args()
    if options.json:
        sys.stdout = sys.stderr  # tables are for people: the object is alone on standard output
    rows = []
    print(f"{'conditions':>10}{'fixed':>10}{'+ published':>14}{'+ best':>10}   ns per condition and step")
    for n in (n for n in SIZES if n <= options.most):
        # Starting a thousand units takes far longer than the run that is measured: fewer and longer runs.
        row = measure(n, options.seconds, options.repeats if n < SIZES[-1] else min(options.repeats, FEW))
        rows.append(row)
        print(
            f"{n:>10}{row['fixed_ns']:>10.1f}{row['published_ns']:>14.1f}{row['best_ns']:>10.1f}", flush=True
        )
    first, last = rows[0], rows[-1]
    result: dict[str, Any] = {"rows": rows}
    print("\nasked | reached")
    for name in ("published", "best"):
        key = f"{name}_ns"
        slope = (last["n"] * last[key] - first["n"] * first[key]) / max(last["n"] - first["n"], 1)
        growth = last[key] / rows[min(1, len(rows) - 1)][key]
        result[name] = {
            "per_condition_ns": slope,
            "worst_ns": max(row[key] for row in rows),
            "growth": growth,
        }
        print(f"{name + ', per condition':26}≤ {GOAL:.0f} ns | {slope:.1f} ns")
        print(
            f"{name + ', one condition':26}≤ {GOAL:.0f} ns | {first[key]:.1f} ns, a step's own costs included"
        )
        print(f"{name + ', growth from 10':26}≤ {GROWTH:.1f}   | {growth:.2f}")
    if options.json:
        print(json.dumps(result), file=sys.__stdout__)
    return 0


if __name__ == "__main__":
    sys.exit(main())
