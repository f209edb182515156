"""Ensembles: how many runs a second a GPU, generated code on all cores, and one core of the core make.

Ten million LookAhead co-simulations of two masses under a ceiling, each with its own start values, from a
scenario file; beside them a kernel that was written by hand (two_mass/by_hand.cu), in the same run. Then the
same with the best method, with start values from far and wide (threads part company at events), and larger
systems.

    python benchmarks/ensemble.py [--json] [--runs N] [--without-gpu]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import upbeat as up
from upbeat.explore.devices import Compiled, Gpu, neighbours, source_of
from upbeat.explore.outputs import formula
from upbeat.explore.work import Group, Work
from upbeat.generate import ensemble as generated
from upbeat.generate.ensemble import EnsembleSource

HERE = Path(__file__).parent
KEYS = ("upper.x", "upper.v", "lower.x", "lower.v")
ENDS = {f"end{k}": f"final({key})" for k, key in enumerate(KEYS)}
OUTPUTS = {**ENDS, "hits": "count(masses)", "bumps": "count(ceiling)"}
GOAL, BEST_WITHIN = 0.65, 4.0


def group_of(path: Path, samples: dict[str, tuple[float, float]], outputs: dict[str, str]) -> Group:
    """The runs of a scenario file, ready to be printed."""
    work = Work(up.load(path), samples, {name: formula(text) for name, text in outputs.items()}, {})
    return work.group({})


def two_masses(name: str) -> Group:
    samples = dict(zip(KEYS, ((-0.7, -1.0), (3.5, 3.0), (-8.8, -8.0), (3.0, 2.0)), strict=True))
    return group_of(HERE / "two_mass" / f"{name}.toml", samples, OUTPUTS)


def near(count: int) -> np.ndarray:
    """Start values that differ in their last digits: no two runs the same, and all alike."""
    r = np.arange(count) * 1e-9
    return np.stack([-0.7 - r, 3.5 + r, -8.8 + 2 * r, 3.0 - r])


def far(count: int) -> np.ndarray:
    """Start values from far and wide."""
    random = np.random.default_rng(1)
    x1 = random.uniform(-6.0, -0.8, count)
    return np.stack(
        [
            x1,
            random.uniform(-6, 6, count),
            x1 - 1.1 - random.uniform(0.3, 7, count),
            random.uniform(-6, 6, count),
        ]
    )


def one_core(group: Group, table: np.ndarray) -> tuple[float, Any]:
    """Runs a second of the native engine on one core, and what they told."""
    assert group.in_core
    rows = np.ascontiguousarray(table.T)
    group._runs.run(rows[:8])
    began = time.process_time()
    told = group._runs.run(rows)
    return len(rows) / (time.process_time() - began), told


def all_cores(group: Group, table: np.ndarray, cores: int) -> tuple[float, Any]:
    """The same of generated code, on all cores."""
    compiled = Compiled(source_of(group, "c"), group.question.asked, cores)
    compiled.start(np.ascontiguousarray(table[:, : 4 * cores]))()
    began = time.perf_counter()
    told = compiled.start(np.ascontiguousarray(table))()
    return table.shape[1] / (time.perf_counter() - began), told


def one_by_one(group: Group, table: np.ndarray, cores: int) -> float:
    """The same without lanes: each core makes one run after the other."""
    lanes, generated.LANES = generated.LANES, 0
    try:
        return all_cores(group, table, cores)[0]
    finally:
        generated.LANES = lanes


def apart(one: Any, other: Any) -> dict[str, Any]:
    """How far two ensembles are from each other: the end values, and whether all have the same events."""
    ends = np.abs(one.statistics[:, :4] - other.statistics[:, :4]).max(axis=1)
    same = (one.statistics[:, 4:] == other.statistics[:, 4:]).all(axis=1)
    return {
        "runs": len(ends),
        "events_equal": int(same.sum()),
        "median": float(np.median(ends)),
        "p99": float(np.quantile(ends, 0.99)),
        "greatest_with_equal_events": float(ends[same].max()) if same.any() else None,
    }


def on_gpu(count: int, told: dict[str, Any], cores: int) -> None:
    """All that a GPU is asked."""
    published = two_masses("published")
    asked = published.question.asked
    table = near(count)
    by_hand = Gpu(EnsembleSource((HERE / "two_mass/by_hand.cu").read_text(), "cuda", 4), asked)
    began = time.perf_counter()
    source = source_of(published, "cuda")
    tried = {blocks: Gpu(source, asked, blocks=blocks) for blocks in (0, 3, 4, 5)}
    told["compile_s"] = (time.perf_counter() - began) / len(tried)
    told["handwritten_runs_per_s"] = count / by_hand.timed(table)[0]
    rates = {blocks: count / one.timed(table)[0] for blocks, one in tried.items()}
    told["by_blocks_per_multiprocessor"] = rates
    best = max(rates, key=lambda blocks: rates[blocks])
    gpu = tried[best]
    told["gpu_runs_per_s"] = rates[best]
    told["ratio"] = told["gpu_runs_per_s"] / told["handwritten_runs_per_s"]
    single = Gpu(source_of(published, "cuda", single=True), asked)
    told["single_runs_per_s"] = count / single.timed(table)[0]
    # from far and wide, as they come and sorted
    wide = far(count)
    told["far_by_hand_runs_per_s"] = count / by_hand.timed(wide)[0]
    told["far_runs_per_s"] = count / gpu.timed(wide)[0]
    order = neighbours(wide)
    told["far_sorted_runs_per_s"] = count / gpu.timed(np.ascontiguousarray(wide[:, order]))[0]
    # the same results?
    some = min(count, 100_000)
    few = np.ascontiguousarray(wide[:, :some])
    cpu = all_cores(published, few, cores)[1]
    told["against_cpu"] = apart(gpu.timed(few, 1)[1], cpu)
    exact = Gpu(source, asked, exact=True)
    told["against_cpu_without_contraction"] = apart(exact.timed(few, 1)[1], cpu)
    told["exact_runs_per_s"] = count / exact.timed(table)[0]


def best_on_gpu(count: int, told: dict[str, Any], cores: int) -> None:
    """The best method."""
    hermite = two_masses("hermite")
    source = source_of(hermite, "cuda")
    began = time.perf_counter()
    tried = {blocks: Gpu(source, hermite.question.asked, blocks=blocks) for blocks in (0, 3)}
    told["hermite_compile_s"] = (time.perf_counter() - began) / len(tried)
    rates = {blocks: count / one.timed(near(count))[0] for blocks, one in tried.items()}
    best = max(rates, key=lambda blocks: rates[blocks])
    told["hermite_runs_per_s"] = rates[best]
    told["hermite_times_longer_than_by_hand"] = told["handwritten_runs_per_s"] / rates[best]
    few = far(min(count, 20_000))
    cpu = all_cores(hermite, few, cores)[1]
    told["hermite_against_cpu"] = apart(tried[best].timed(few, 1)[1], cpu)
    told["hermite_far_runs_per_s"] = count / tried[best].timed(far(count))[0]


def network(units: int) -> up.Scenario:
    """A ring of oscillators, each pulled by its neighbours."""
    one = up.Ode(
        {"x": "v", "v": "-k*x - 0.1*v + 0.3*(left + right - 2*x)"},
        inputs=["left", "right"],
        parameters={"k": 1.0},
        start={"x": 1.0},
        solver=up.RK4(steps=4),
    )
    names = [f"u{i}" for i in range(units)]
    wires = {f"{name}.left": f"{names[i - 1]}.x" for i, name in enumerate(names)}
    wires |= {f"{name}.right": f"{names[(i + 1) % units]}.x" for i, name in enumerate(names)}
    return up.Scenario(dict.fromkeys(names, one), wires)


def larger(gpu: bool, told: dict[str, Any], cores: int) -> None:
    """Systems that do not fit into the registers of a thread: where does a GPU pay?"""
    ring = up.experiment(network(50), step=0.05, until=5.0)
    engine = up.load(HERE.parent / "examples/engine/engine.toml", until=0.01)
    cases = {
        "network_50_units": (ring, {"u0.k": (1.0, 2.0), "u7.x": (1.0, 2.0)}, "u3.x", 200_000),
        "engine_118_states": (
            engine,
            {"air.V_im": (0.003, 0.004), "air.T_0": (290.0, 300.0)},
            "air.p_im_out",
            20_000,
        ),
    }
    for name, (made, samples, signal, count) in cases.items():
        row: dict[str, Any] = {}
        told[name] = row
        try:
            group = Work(made, samples, {"end": formula(f"final({signal})")}, {}).group({})
            random = np.random.default_rng(3)
            table = np.stack([random.uniform(*ends, count) for ends in samples.values()])
            some = np.ascontiguousarray(table[:, : min(count, 200 * cores)])
            row["one_core_runs_per_s"] = one_core(group, some[:, :20])[0]
            row["all_cores_runs_per_s"], cpu = all_cores(group, some, cores)
            if not gpu:
                continue
            began = time.perf_counter()
            kernel = Gpu(source_of(group, "cuda"), group.question.asked)
            row["compile_s"] = time.perf_counter() - began
            seconds, _ = kernel.timed(table, 1)
            row["gpu_runs_per_s"] = count / seconds
            there = kernel.timed(some, 1)[1]
            scale = np.abs(cpu.statistics).max()
            row["greatest_difference"] = float(np.abs(there.statistics - cpu.statistics).max() / scale)
            row["gpu_over_all_cores"] = row["gpu_runs_per_s"] / row["all_cores_runs_per_s"]
        except (up.UpbeatError, AssertionError) as error:
            row["why_not"] = str(error)[:300]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--runs", type=int, default=10_000_000)
    parser.add_argument("--without-gpu", action="store_true")
    options = parser.parse_args()
    if options.json:
        sys.stdout = sys.stderr
    cores = os.cpu_count() or 1
    told: dict[str, Any] = {"runs": options.runs, "cores": cores}
    misses: list[str] = []
    published = two_masses("published")
    wide = far(4000 * cores)
    told["one_core_runs_per_s"], native = one_core(published, wide[:, :400])
    rate, compiled = all_cores(published, wide, cores)
    told["cpu_simd_runs_per_s"] = rate
    told["one_by_one_runs_per_s"] = one_by_one(published, wide[:, : 1000 * cores], cores)
    told["compiled_equals_native"] = bool(
        np.array_equal(compiled.statistics[:400], native.statistics, equal_nan=True)
        and np.array_equal(compiled.totals[:400], native.totals)
    )
    if not options.without_gpu:
        on_gpu(options.runs, told, cores)
        best_on_gpu(options.runs // 10, told, cores)
        if told["ratio"] < GOAL:
            misses.append(f"ratio {told['ratio']:.2f} of the kernel by hand, asked {GOAL}")
        if told["hermite_times_longer_than_by_hand"] > BEST_WITHIN:
            times = told["hermite_times_longer_than_by_hand"]
            misses.append(f"the best method takes {times:.1f} times as long as by hand, asked 4")
    larger(not options.without_gpu, told, cores)
    told["known_misses"] = misses
    for name, value in told.items():
        print(f"{name:40} {value}")
    if options.json:
        print(json.dumps(told), file=sys.__stdout__)


if __name__ == "__main__":
    main()
