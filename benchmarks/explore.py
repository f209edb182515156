"""Studies: what a run costs beyond its own steps, how cores scale, and whether memory grows.

* overhead_us: processor time of a run in a chunk, less that of its steps (the same run with twice the steps
  tells how much these take), for two coupled masses.
* overhead_fmu_us: the same with FMUs that reset.
* scaling: runs a second on 1, 2, … threads, as a multiple of one.
* growth_mb: by how much the process grows over 100,000 runs.

    python benchmarks/explore.py [--json] [--quick]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import upbeat as up
from upbeat.explore.outputs import formula
from upbeat.explore.work import Group, Work

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

MASSES = up.Scenario(
    {
        "left": up.Ode({"x": "v", "v": "(F - x)/m"}, start={"x": 1.0}, inputs=["F"], parameters={"m": 2.0}),
        "right": up.Function(inputs=["v"], outputs={"F": "-d*v"}, parameters={"d": 0.4}),
    },
    {"left.F": "right.F", "right.v": "left.v"},
)
OUTPUTS = {"end": formula("final(left.x)"), "most": formula("maximum(abs(left.v))")}


def masses(steps: int) -> Group:
    made = up.experiment(MASSES, step=0.01, until=0.01 * steps)
    return Work(made, {"left.m": (2.0, 3.0), "right.d": (0.4, 0.5)}, OUTPUTS, {}).group({})


def per_run(group: Group, columns: dict[str, np.ndarray]) -> float:
    """Seconds of processor time for each run."""
    assert group.in_core, "these runs are not in the core"
    count = len(next(iter(columns.values())))
    began = time.thread_time()
    group.run(columns)
    return (time.thread_time() - began) / count


def overhead(make: Any, columns: dict[str, np.ndarray], steps: int, repeats: int = 7) -> float:
    """What is left of a run when its steps are taken away: that of n steps twice, less that of 2n steps."""
    short, long = make(steps), make(2 * steps)
    for group in (short, long):
        per_run(group, {key: column[:50] for key, column in columns.items()})
    found = [2.0 * per_run(short, columns) - per_run(long, columns) for _ in range(repeats)]
    return statistics.median(found) * 1e6


def with_fmus(path: Path, steps: int) -> Group:
    scenario = up.Scenario({"f": up.Fmu(path), "s": up.Function(outputs={"y": "time"})}, {"f.u": "s.y"})
    made = up.experiment(scenario, step=0.01, until=0.01 * steps)
    return Work(made, {"f.a": (-1.0, -2.0)}, {"end": formula("final(f.y)")}, {}).group({})


def scaling(seconds: float) -> dict[str, float]:
    """How many times as many runs a second some threads make as one."""
    most = os.cpu_count() or 1
    counts = [count for count in (1, 2, 4, 8, 16, 32) if count <= most]
    made = up.experiment(MASSES, step=0.01, until=20.0)
    random = np.random.default_rng(1)
    number = 2000 * most
    vary = {"left.m": random.uniform(1, 3, number), "right.d": random.uniform(0.1, 1, number)}
    study = up.Study(
        made, {k: v.tolist() for k, v in vary.items()}, {"end": "final(left.x)"}, design="together"
    )
    rates = {}
    for count in counts:
        study.run("threads", workers=count)
        began = time.perf_counter()
        study.run("threads", workers=count)
        rates[count] = number / (time.perf_counter() - began)
    return {str(count): round(rates[count] / rates[1], 2) for count in counts}


def growth(runs: int) -> float:
    """Megabytes that the process grows by."""
    group = masses(20)
    random = np.random.default_rng(1)

    def some(count: int) -> None:
        group.run({"left.m": random.uniform(1, 3, count), "right.d": random.uniform(0.1, 1, count)})

    some(2000)
    before = resident()
    for _ in range(runs // 2000):
        some(2000)
    return resident() - before


def resident() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="10,000 runs instead of 100,000")
    options = parser.parse_args()
    if options.json:
        sys.stdout = sys.stderr
    random = np.random.default_rng(0)
    columns = {"left.m": random.uniform(1, 3, 2000), "right.d": random.uniform(0.1, 1, 2000)}
    told: dict[str, Any] = {"overhead_us": overhead(masses, columns, 20)}
    with tempfile.TemporaryDirectory() as folder:
        from fmu_maker import make

        path = make("linear", 2, Path(folder))
        told["overhead_fmu_us"] = overhead(partial(with_fmus, path), {"f.a": random.uniform(-3, -1, 500)}, 20)
    told["scaling"] = scaling(1.0)
    told["growth_mb"] = growth(10_000 if options.quick else 100_000)
    misses = []
    if told["overhead_us"] > 5.0:
        misses.append(f"{told['overhead_us']:.1f} µs beyond its steps, asked 5")
    if told["overhead_fmu_us"] > 50.0:
        misses.append(f"{told['overhead_fmu_us']:.0f} µs with an FMU that resets, asked 50")
    for count, times in told["scaling"].items():
        if times < 0.8 * float(count):
            load = f"the load of the machine was {os.getloadavg()[0]:.1f}"
            misses.append(f"{count} threads make {times:.2f} times the runs of one; {load}")
    if told["growth_mb"] > 5.0:
        misses.append(f"the process grew by {told['growth_mb']:.0f} MB")
    told["known_misses"] = misses
    for name, value in told.items():
        print(f"{name:20} {value}")
    if options.json:
        print(json.dumps(told), file=sys.__stdout__)


if __name__ == "__main__":
    main()
