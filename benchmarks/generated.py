"""What generated code costs: the ring of expression units against the same loop written by hand in C.

The unit and the loop are those of benchmarks/overhead.py: each output feeds the next unit's input, one step
late, and every output is recorded into memory on both sides. The loop by hand reaches its units through a
table of functions; generated code has their equations in it. Bytecode (`native`) and the [jit] extra run
beside them. All variants run interleaved in this one process; the figures are medians of CPU time per unit
and step.

Beside it what exported FMUs cost: macro steps of the two masses (with their events) and of the ten units,
each as an FMU of both kinds, against the same scenario nested in Upbeat; both are units of the native engine.
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

GOAL, EXPORT_GOAL = 1.3, 1.2
EXAMPLES = Path(__file__).parents[1] / "examples"
EXPORTED = {
    "two_mass/lookahead.toml": (0.5, ("upper.x", "lower.x")),
    "ten_units.toml": (0.1, ("air.torque",)),
}
"""Macro step and outputs of each example."""


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


def exported(folder: Path, repeats: int, scale: float) -> dict[str, dict[str, float]]:
    """Each kind of FMU over the nested scenario, by example: medians of interleaved runs."""
    found = {}
    for name, (macro, outputs) in EXPORTED.items():
        given = {port.replace(".", "_"): port for port in outputs}
        file = folder / Path(name).name
        table = "\n".join(f'{output} = "{port}"' for output, port in given.items())
        file.write_text(f"{(EXAMPLES / name).read_text()}\n[outputs]\n{table}\n")
        made = up.load(file)
        units: dict[str, Any] = {"nested": up.Nested(made.scenario, made.master, flatten=False)}
        for kind in ("source", "core"):
            path = folder / f"{kind}.fmu"
            up.export_fmu(made, path, kind=kind, force=True)  # type: ignore[arg-type]
            units[kind] = up.Fmu(path)
        samples: dict[str, list[float]] = {kind: [] for kind in units}
        steps = max(4, int(scale * 400))
        for _ in range(repeats):
            for kind, unit in units.items():
                plan = up.experiment(
                    up.Scenario({"u": unit}), step=macro, until=steps * macro, engine="native"
                ).with_(record=tuple(f"u.{port}" for port in given))
                with plan.open() as run:
                    began = time.process_time()
                    run.finish()
                    samples[kind].append(time.process_time() - began)
        medians = {kind: statistics.median(values) for kind, values in samples.items()}
        found[name] = {kind: medians[kind] / medians["nested"] for kind in ("source", "core")}
    return found


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
    with tempfile.TemporaryDirectory() as name:
        result["exported"] = exported(Path(name), options.repeats, options.scale)
    result["export_overhead"] = max(max(kinds.values()) for kinds in result["exported"].values())
    for example, kinds in result["exported"].items():
        for kind, times in kinds.items():
            print(f"exported, {kind}: {example:26} ≤ {EXPORT_GOAL} × | {times:.2f} ×")
    result["known_misses"] = [
        f"{what} {reached:.2f} ×, asked ≤ {asked}"
        for what, reached, asked in (
            ("compiled over the loop in C", worst, GOAL),
            ("a macro step of an exported FMU", result["export_overhead"], EXPORT_GOAL),
        )
        if reached > asked
    ]
    if options.json:
        print(json.dumps(result), file=sys.__stdout__)
    return 0


if __name__ == "__main__":
    sys.exit(main())
