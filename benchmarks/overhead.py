"""What the engines cost per unit and communication step, against the same loop written by hand in C.

A ring of N units: each output feeds the next unit's input, one step late. Every output is recorded
into memory on both sides. The unit is written in C and entered by its addresses (about 100 ns of
own work, and none); the same unit as an expression, as bytecode and through the [jit] extra. All
variants run interleaved in this one process; the figures are medians of CPU time.

Separately: memory per recorded value, and what streaming to disk costs.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import upbeat as up

HERE = Path(__file__).parent
INCLUDE = HERE.parent / "native" / "include"
WORK = 80
"""Iterations of y = 0.999·y + 0.001, about 100 ns: each waits for the one before."""
SIZES = (2, 10, 100, 1000)
STEP = 1e-3
GOALS = {
    "native": 1.5,
    "native_empty": 2.0,
    "expression": 10.0,
    "jit": 2.5,
    "growth": 1.3,
    "interpreted_us": 8.0,
    "memory": 1.3,
}

PORTS = (
    up.Port("u", up.Causality.INPUT),
    up.Port("y", up.Causality.OUTPUT, depends=frozenset({"u"})),
)


def compile_library(directory: Path, name: str, *flags: str) -> ctypes.CDLL:
    """Compile ring.c with the flags; the same optimisation as the engine, no contraction."""
    target = directory / f"lib{name}.so"
    compiler = os.environ.get("CC", "cc")
    subprocess.run(
        [
            compiler,
            "-O2",
            "-ffp-contract=off",
            "-shared",
            "-fPIC",
            f"-I{INCLUDE}",
            *flags,
            str(HERE / "ring.c"),
            "-o",
            str(target),
        ],
        check=True,
    )
    return ctypes.CDLL(str(target))


class Ring:
    """One kind of ring unit, in all its forms."""

    def __init__(self, directory: Path, work: int) -> None:
        self.work = work
        self._units = compile_library(directory, f"unit{work}", "-DRING_UNIT", f"-DWORK={work}")
        self._loop = compile_library(directory, "loop")
        self._units.ring_units.restype = ctypes.c_void_p

    def by_address(self) -> up.NativeUnit:
        names = ("create", "get", "set", "advance", "destroy")
        addresses = {n: ctypes.cast(self._units[f"ring_{n}"], ctypes.c_void_p).value or 0 for n in names}
        return up.NativeUnit(ports=PORTS, functions=addresses)

    def as_expression(self) -> up.Function:
        steps = {"y0": "u"} | {f"y{i + 1}": f"y{i}*0.999 + 0.001" for i in range(self.work)}
        return up.Function(inputs=["u"], locals=steps, outputs={"y": f"y{self.work}"})

    def by_hand(self, n: int, steps: int) -> tuple[float, np.ndarray]:
        """CPU seconds of the loop in C, and the last row."""
        units = ctypes.c_void_p(self._units.ring_units(n))
        record = np.empty((steps + 1, n + 1))
        began = time.process_time()
        self._loop.ring_loop(
            units,
            n,
            ctypes.c_long(steps),
            ctypes.c_double(STEP),
            record.ctypes.data_as(ctypes.POINTER(ctypes.c_double)),
        )
        seconds = time.process_time() - began
        self._units.ring_free(units, n)
        return seconds, record[-1, 1:]


def ring_scenario(model: up.NativeUnit | up.Function, n: int) -> up.Scenario:
    return up.Scenario(
        units={f"u{i}": model for i in range(n)},
        connections={f"u{(i + 1) % n}.u": f"u{i}.y" for i in range(n)},
    )


def engine_seconds(
    scenario: up.Scenario, steps: int, engine: str, jit: bool = False
) -> tuple[float, np.ndarray]:
    """CPU seconds of the run itself (not of building it), and the last row."""
    plan = up.experiment(
        scenario,
        pace=STEP,
        until=steps * STEP,
        coupling=up.Jacobi(outputs="lagged"),
        engine=engine,  # type: ignore[arg-type]
        jit=jit,
    )
    with plan.open() as run:
        began = time.process_time()
        trace = run.finish()
        seconds = time.process_time() - began
    return seconds, np.array([trace[name][-1] for name in trace.names])


def measure(ring: Ring, n: int, repeats: int, scale: float) -> dict[str, Any]:
    """Nanoseconds per unit and step of every variant, interleaved."""
    steps = max(20, int(scale * 1_000_000 / n))
    short = max(20, steps // 100)
    native, expression = ring_scenario(ring.by_address(), n), ring_scenario(ring.as_expression(), n)
    variants: dict[str, tuple[int, Callable[[int], tuple[float, np.ndarray]]]] = {
        "c_ns": (steps, lambda k: ring.by_hand(n, k)),
        "native_ns": (steps, lambda k: engine_seconds(native, k, "native")),
        "interpreted_ns": (short, lambda k: engine_seconds(native, k, "interpret")),
        "expression_ns": (steps, lambda k: engine_seconds(expression, k, "native")),
        "jit_ns": (steps, lambda k: engine_seconds(expression, k, "native", jit=True)),
    }
    samples: dict[str, list[float]] = {name: [] for name in variants}
    rows: dict[str, np.ndarray] = {}
    for _ in range(repeats):
        for name, (count, run) in variants.items():
            try:
                seconds, rows[name] = run(count)
            except up.MissingExtra:
                continue
            samples[name].append(seconds / (count * n) * 1e9)
    if not np.array_equal(rows["c_ns"], rows["native_ns"]):
        raise SystemExit("the native engine and the loop in C disagree")
    return {"n": n} | {
        name: statistics.median(values) if values else None for name, values in samples.items()
    }


def recording(rows: int, out: Path | None = None) -> dict[str, float]:
    """What benchmarks/recording.py measures in a process of its own."""
    command = [sys.executable, str(HERE / "recording.py"), str(rows), *([] if out is None else [str(out)])]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def streaming(out: Path) -> dict[str, float]:
    """Cost per value, and by how much the peak grows when four times as much is streamed."""
    short, long = recording(250_000, out), recording(1_000_000, out)
    return {
        "ns_per_value": long["ns_per_value"],
        "growth_bytes": long["peak_bytes"] - short["peak_bytes"],
        "raw_growth_bytes": long["raw_bytes"] - short["raw_bytes"],
    }


def table(title: str, rows: list[dict[str, Any]]) -> None:
    print(f"\n{title}: ns per unit and step (× the loop in C)")
    print(f"{'N':>6}{'C loop':>10}{'native':>18}{'expression':>18}{'jit':>18}{'interpreted':>18}")
    for row in rows:
        base = row["c_ns"]
        cells = ""
        for key in ("native_ns", "expression_ns", "jit_ns", "interpreted_ns"):
            cost = row[key]
            cells += (f"{cost:.1f} ({cost / base:.1f}×)" if cost is not None else "—").rjust(18)
        print(f"{row['n']:>6}{base:10.1f}{cells}")


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument(
        "--json", action="store_true", help="one JSON object on standard output, tables on the other"
    )
    arguments.add_argument("--repeats", type=int, default=7)
    arguments.add_argument("--scale", type=float, default=1.0, help="length of the runs")
    options = arguments.parse_args()
    if options.json:
        sys.stdout = sys.stderr  # tables are for people: the object is alone on standard output
    result: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        for key, work, title in (("ring", WORK, "units with own work"), ("ring_empty", 0, "empty units")):
            ring = Ring(directory, work)
            rows = []
            for n in SIZES:
                print(f"measuring {title}, N = {n} …", file=sys.stderr)
                rows.append(measure(ring, n, options.repeats, options.scale))
            result[key] = rows
            table(title, rows)
        print("measuring recording …", file=sys.stderr)
        memory = recording(1_000_000)
        result["record_overhead"] = memory["growth_bytes"] / memory["raw_bytes"]
        result["streaming"] = {kind: streaming(directory / f"stream.{kind}") for kind in ("csv", "parquet")}
    judge(result)
    if options.json:
        print(json.dumps(result), file=sys.__stdout__)
    return 0


def judge(result: dict[str, object]) -> None:
    """Asked | reached."""
    ring: list[dict[str, float]] = result["ring"]  # type: ignore[assignment]
    empty: list[dict[str, float]] = result["ring_empty"]  # type: ignore[assignment]

    def worst(rows: list[dict[str, float]], key: str) -> float:
        return max(row[key] / row["c_ns"] for row in rows if row[key] is not None)

    def line(what: str, asked: str, reached: str) -> None:
        print(f"{what:26}{asked:>9} | {reached}")

    by_n = {row["n"]: row["native_ns"] for row in ring}
    slowest = max(row["interpreted_ns"] for row in ring) / 1000
    print("\nasked | reached (the worst of all N)")
    line("native, own work", f"≤ {GOALS['native']} ×", f"{worst(ring, 'native_ns'):.2f} ×")
    line("native, empty units", f"≤ {GOALS['native_empty']} ×", f"{worst(empty, 'native_ns'):.2f} ×")
    line("expression, own work", f"≤ {GOALS['expression']} ×", f"{worst(ring, 'expression_ns'):.2f} ×")
    if ring[0]["jit_ns"] is not None:
        line("jit, own work", f"≤ {GOALS['jit']} ×", f"{worst(ring, 'jit_ns'):.2f} ×")
    line("growth N=10 → N=1000", f"< {GOALS['growth']}", f"{by_n[1000] / by_n[10]:.2f}")
    line("interpreter", f"≤ {GOALS['interpreted_us']} µs", f"{slowest:.2f} µs")
    line("memory over raw bytes", f"< {GOALS['memory']} ×", f"{result['record_overhead']:.2f} ×")
    for kind, figures in result["streaming"].items():  # type: ignore[attr-defined]
        grown, raw = figures["growth_bytes"] / 2**20, figures["raw_growth_bytes"] / 2**20
        cost = figures["ns_per_value"]
        line(
            f"streaming to {kind}", "flat", f"{grown:.1f} MiB for {raw:.0f} MiB more, {cost:.0f} ns per value"
        )


if __name__ == "__main__":
    sys.exit(main())
