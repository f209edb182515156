"""What generated code costs: the ring of expression units against the same loop written by hand in C.

The unit and the loop are those of benchmarks/overhead.py: each output feeds the next unit's input, one step
late, and every output is recorded into memory on both sides. The loop by hand reaches its units through a
table of functions; generated code has their equations in it. Bytecode (`native`) and the [jit] extra run
beside them. All variants run interleaved in this one process; the figures are medians of CPU time per unit
and step.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from overhead import SIZES, WORK, Ring, engine_seconds, ring_scenario

import upbeat as up

GOAL = 1.3


def measure(ring: Ring, n: int, repeats: int, scale: float) -> dict[str, Any]:
    """Nanoseconds per unit and step of every variant, interleaved; and how long compiling took."""
    steps = max(20, int(scale * 1_000_000 / n))
    scenario = ring_scenario(ring.as_expression(), n)
    began = time.perf_counter()
    engine_seconds(scenario, 2, "compiled")
    compile_s = time.perf_counter() - began
    variants = {
        "c_ns": lambda: ring.by_hand(n, steps),
        "compiled_ns": lambda: engine_seconds(scenario, steps, "compiled"),
        "expression_ns": lambda: engine_seconds(scenario, steps, "native"),
        "jit_ns": lambda: engine_seconds(scenario, steps, "native", jit=True),
    }
    samples: dict[str, list[float]] = {name: [] for name in variants}
    rows: dict[str, np.ndarray] = {}
    for _ in range(repeats):
        for name, run in variants.items():
            try:
                seconds, rows[name] = run()
            except up.MissingExtra:
                continue
            samples[name].append(seconds / (steps * n) * 1e9)
    if not np.array_equal(rows["expression_ns"], rows["compiled_ns"]):
        raise SystemExit("the engines disagree")
    found = {name: statistics.median(values) if values else None for name, values in samples.items()}
    return {"n": n, **found, "compile_s": compile_s}


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--json", action="store_true", help="one JSON object, alone on standard output")
    arguments.add_argument("--repeats", type=int, default=5)
    arguments.add_argument("--scale", type=float, default=1.0, help="length of the runs")
    options = arguments.parse_args()
    if options.json:
        sys.stdout = sys.stderr  # tables are for people
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        for key, work, title in (("ring", WORK, "units with own work"), ("ring_empty", 0, "empty units")):
            ring = Ring(Path(name), work)
            rows = [measure(ring, n, options.repeats, options.scale) for n in SIZES]
            result[key] = rows
            print(f"\n{title}: ns per unit and step (× the loop in C)")
            print(f"{'N':>6}{'C loop':>10}{'compiled':>18}{'bytecode':>18}{'jit':>18}{'compiling':>12}")
            for row in rows:
                cells = ""
                for one in ("compiled_ns", "expression_ns", "jit_ns"):
                    cost = row[one]
                    cells += ("—" if cost is None else f"{cost:.1f} ({cost / row['c_ns']:.2f}×)").rjust(18)
                print(f"{row['n']:>6}{row['c_ns']:10.1f}{cells}{row['compile_s']:10.1f} s")
    worst = max(row["compiled_ns"] / row["c_ns"] for row in result["ring"])
    print(f"\nasked | reached (the worst of all N)\ncompiled, own work   ≤ {GOAL} × | {worst:.2f} ×")
    # What exported FMUs cost is measured when there are such.
    result["export_overhead"] = None
    result["known_misses"] = (
        [] if worst <= GOAL else [f"compiled {worst:.2f} × the loop in C, asked ≤ {GOAL}"]
    )
    if options.json:
        print(json.dumps(result), file=sys.__stdout__)
    return 0


if __name__ == "__main__":
    sys.exit(main())
