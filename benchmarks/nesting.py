"""What nesting costs on the native engine: ten units flat, and the same ones nested three deep.

A chain of ten lags that are given by expressions, two to five of them in each level. Nested, they are
flattened, as by default, and run as the flat scenario; the last figure is what they would cost if each
level kept a loop of its own, inside the loop around it. All variants run interleaved; the figures are
medians of CPU time per unit and communication step.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from itertools import pairwise

import numpy as np

import upbeat as up

STEP = 1e-3
UNITS = 10
GOAL = 0.05
LAG = up.Ode(states={"x": "u - x"}, start={"x": 1.0}, inputs=["u"], outputs=["x"])


def chain(first: int, last: int, nested: up.Nested | None = None) -> up.Scenario:
    """Units `first` … `last`, each fed by the one before; then what is nested, if there is something."""
    names = [f"u{k}" for k in range(first, last)]
    links = {f"{names[0]}.u": "w"} | {f"{b}.u": f"{a}.x" for a, b in pairwise(names)}
    units: dict[str, up.Model] = dict.fromkeys(names, LAG)
    end = f"{names[-1]}.x"
    if nested is not None:
        units["inside"] = nested
        links["inside.w"] = end
        end = "inside.x"
    return up.Scenario(units=units, connections=links, inputs={"w": 0.5}, outputs={"x": end})


def deep(*, flatten: bool) -> up.Scenario:
    """Ten units, three levels below the top."""
    scenario = chain(8, UNITS)
    for first, last in ((5, 8), (2, 5), (0, 2)):
        scenario = chain(first, last, up.Nested(scenario, up.Master(up.Fixed(STEP)), flatten=flatten))
    return scenario


def measure(steps: int, rounds: int) -> dict[str, float]:
    """Nanoseconds per unit and step."""
    until = steps * STEP
    variants = {
        "flat_ns": chain(0, UNITS),
        "nested_ns": deep(flatten=True),
        "kept_ns": deep(flatten=False),
    }
    made = {
        name: up.experiment(scenario, pace=STEP, until=until, engine="native", record=["x"])
        for name, scenario in variants.items()
    }
    x = [np.asarray(experiment.run()["x"]) for experiment in made.values()]
    np.testing.assert_array_equal(x[0], x[1])
    np.testing.assert_array_equal(x[0], x[2])
    spent: dict[str, list[float]] = {name: [] for name in made}
    for _ in range(rounds):
        for name, experiment in made.items():
            with experiment.open() as run:
                before = time.process_time_ns()
                run.finish()
                spent[name].append((time.process_time_ns() - before) / steps / UNITS)
    return {name: statistics.median(found) for name, found in spent.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--json", action="store_true", help="one JSON object on standard output, tables on the other"
    )
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    if options.json:
        sys.stdout = sys.stderr  # tables are for people: the object is alone on standard output
    found = measure(options.steps, options.rounds)
    overhead = found["nested_ns"] / found["flat_ns"] - 1
    print(f"flat                       {found['flat_ns']:8.1f} ns per unit and step")
    print(
        f"nested three deep          {found['nested_ns']:8.1f} ns   {overhead:+.1%} (goal: below {GOAL:.0%})"
    )
    print(
        f"nested, not flattened      {found['kept_ns']:8.1f} ns   {found['kept_ns'] / found['flat_ns']:.1f} ×"
    )
    result = {
        "flat_ns": round(found["flat_ns"], 2),
        "nested_ns": round(found["nested_ns"], 2),
        "overhead": round(overhead, 4),
        "kept_ns": round(found["kept_ns"], 1),
        "ok": overhead < GOAL,
    }
    if options.json:
        print(json.dumps(result), file=sys.__stdout__)
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
