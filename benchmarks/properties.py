"""How long it takes to judge a property on a long trace, beside rtamt, and what watching one costs per step.

Robustness of four properties on 10⁶ rows (rtamt: discrete time on equal steps, on a tenth of the rows, as
it takes so long; its dense time on a hundredth). Watching: a scenario of two small units, with and without
properties that are watched, in turns; the figure is the difference of the medians of CPU time per step.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import upbeat as up

ROWS = 1_000_000
TEXTS = {
    "always": "always(a.x < 1.5)",
    "recurrence": "always(eventually[0, 1](a.x > -2))",
    "response": "always(a.x > 0.5 implies eventually[0, 2](a.y < 0.1))",
    "until": "always[0, 900](a.x < 2 until[1, 7] a.y < 0)",
}


def cpu(work: Callable[[], Any]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def judging(rows: int) -> dict[str, float]:
    when = np.arange(rows) * (1000.0 / rows)
    trace = up.Trace.from_arrays(when, {"a.x": np.sin(when), "a.y": np.cos(when)})
    return {name: round(cpu(lambda text=text: up.robustness(trace, text)), 4) for name, text in TEXTS.items()}


def peer(rows: int) -> dict[str, float]:
    """rtamt on `always(eventually[0, 1](x > -2))`, in seconds for so many rows."""
    try:
        import rtamt
    except ImportError:
        return {}
    found = {}
    few = {"discrete": rows // 10, "dense": rows // 100}
    for kind, count in few.items():
        when = (np.arange(count) * (1000.0 / rows)).tolist()
        values = np.sin(when).tolist()
        dense = kind == "dense"
        spec = rtamt.StlDenseTimeSpecification() if dense else rtamt.StlDiscreteTimeSpecification()
        spec.declare_var("x", "float")
        spec.declare_var("out", "float")
        within = 1 if dense else rows // 1000
        spec.spec = f"out = always(eventually[0:{within}](x > -2))"
        spec.parse()
        data = list(zip(when, values, strict=True))
        given: Any = (
            (["x", [list(row) for row in data]],) if dense else ({"time": list(range(count)), "x": values},)
        )
        found[f"{kind}_{count}_rows"] = round(cpu(lambda spec=spec, given=given: spec.evaluate(*given)), 4)
    return found


def watching(steps: int, repeats: int) -> float:
    """Nanoseconds per comparison that is watched, and step."""
    mass = up.Ode({"x": "v", "v": "-x"}, start={"x": 1.0}, solver=up.Euler())
    units: dict[str, up.Model] = {"a": mass, "b": mass}
    many = {
        f"p{k}": {"holds": f"always(a.x < {2 + k} or b.x < {3 + k})", "online": "watch"} for k in range(5)
    }
    made = [
        up.experiment(up.Scenario(units, properties=p), pace=up.Fixed(1e-4), until=steps * 1e-4, every=steps)
        for p in ({}, many)
    ]
    for one in made:
        one.run()
    taken: list[list[float]] = [[], []]
    for _ in range(repeats):
        for one, seconds in zip(made, taken, strict=True):
            seconds.append(cpu(one.run))
    plain, watched = map(statistics.median, taken)
    return (watched - plain) / steps / 10 * 1e9


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.json:
        sys.stdout = sys.stderr
    result: dict[str, Any] = {
        "rows": options.rows,
        "seconds": judging(options.rows),
        "rtamt_seconds": peer(options.rows),
        "watching_ns_per_comparison": round(watching(options.steps, 5), 1),
        "known_misses": [],
    }
    print(f"{options.rows:,} rows, seconds of CPU:")
    for name, seconds in result["seconds"].items():
        print(f"  {name:12} {seconds:8.3f}   {TEXTS[name]}")
    for name, seconds in result["rtamt_seconds"].items():
        print(f"  rtamt, recurrence, {name.replace('_', ' ')}: {seconds:.2f}")
    print(f"watching: {result['watching_ns_per_comparison']:.0f} ns per comparison and step")
    if options.json:
        print(json.dumps(result), file=sys.__stdout__)
    return 0


if __name__ == "__main__":
    sys.exit(main())
