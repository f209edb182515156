"""Studies whose answers are known: a front, Sobol indices, a calibration, a study that was interrupted, and
a cluster.

* front: 200 springs x 5 dampers of a quarter car; how many designs no other is better than, which is checked
  by comparing all pairs.
* sobol: the indices of the Ishigami function, as a unit, beside the exact ones.
* calibration: parameters of a motor from noisy data, 100 times; the true ones should lie in the 95 %
  interval in at least 90.
* resumed, cluster: the same numbers after a kill, on processes, and on a Dask cluster.

    python reproduce/explore.py [--json] [--quick]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import upbeat as up
from upbeat.explore.calibrate import calibrate

ROOT = Path(__file__).parents[1]
QUARTER_CAR = ROOT / "examples/quarter_car/quarter_car.toml"


def front() -> dict[str, Any]:
    """The designs of the quarter car that no other is better than in comfort and travel."""
    began = time.process_time()
    results = up.Study.load(QUARTER_CAR).run("here")
    seconds = time.process_time() - began
    found = set(results.front(minimise=["discomfort", "travel"]).tolist())
    a, b = results["discomfort"], results["travel"]
    better = (a[:, None] <= a) & (b[:, None] <= b) & ((a[:, None] < a) | (b[:, None] < b))
    assert found == set(np.flatnonzero(~better.any(axis=0)).tolist())
    return {"runs": len(results), "front": len(found), "cpu_s": round(seconds, 2)}


def sobol() -> dict[str, Any]:
    """Sobol indices of sin a + 7 sin² b + 0.1 c⁴ sin a on [-π, π]³."""
    function = up.Function(
        outputs={"y": "sin(a) + 7*sin(b)**2 + 0.1*c**4*sin(a)"}, parameters={"a": 0.1, "b": 0.2, "c": 0.3}
    )
    made = up.experiment(up.Scenario({"f": function}), step=1.0, until=1.0)
    vary = {f"f.{name}": {"uniform": [-np.pi, np.pi]} for name in "abc"}
    study = up.Study(made, vary, {"y": "final(f.y)"}, samples=8, seed=1)
    found = {one.parameter: one for one in study.sensitivity("sobol", 8192, executor="here")["y"]}
    a, b, pi = 7.0, 0.1, np.pi
    whole = a**2 / 8 + b * pi**4 / 5 + b**2 * pi**8 / 18 + 0.5
    alone = {"f.a": 0.5 * (1 + b * pi**4 / 5) ** 2 / whole, "f.b": a**2 / 8 / whole, "f.c": 0.0}
    both = 8 * b**2 * pi**8 / 225 / whole
    total = {"f.a": alone["f.a"] + both, "f.b": alone["f.b"], "f.c": both}
    error = max(max(abs(found[k].first - alone[k]), abs(found[k].total - total[k])) for k in alone)
    return {
        "error": float(error),
        "indices": {k: [float(found[k].first), float(found[k].total)] for k in alone},
    }


def calibration(repetitions: int) -> dict[str, Any]:
    """A motor under speed control and a load that jumps; speed and current were measured with noise."""
    motor = up.Ode(
        {"i": "(u - R*i - k*w)/L", "w": "(k*i - d*w - load)/J"},
        inputs=["u", "load"],
        parameters={"R": 1.2, "L": 0.01, "k": 0.08, "J": 2e-3, "d": 1e-3},
    )
    control = up.Function(inputs=["w"], outputs={"u": "clip(0.5*(100 - w), -24, 24)"})
    load = up.Function(outputs={"T": "0.2 if time > 1 else 0"})
    scenario = up.Scenario(
        {"motor": motor, "control": control, "load": load},
        {"motor.u": "control.u", "control.w": "motor.w", "motor.load": "load.T"},
    )
    made = up.experiment(scenario, step=0.01, until=2.0, coupling=up.GaussSeidel())
    truth = {"motor.J": 2e-3, "motor.k": 0.08, "motor.R": 1.2}
    bounds = {"motor.J": (1e-3, 5e-3), "motor.k": (0.05, 0.12), "motor.R": (0.8, 2.0)}
    sigma = {"motor.w": 0.5, "motor.i": 0.1}
    clean, times = made.run(), np.linspace(0.0, 2.0, 81)
    random = np.random.default_rng(7)
    inside = dict.fromkeys(truth, 0)
    for _ in range(repetitions):
        noisy = {name: clean.at(times, name) + random.normal(0.0, sigma[name], 81) for name in sigma}
        found = calibrate(made, up.Trace.from_arrays(times, noisy), bounds, sigma=sigma)
        for name, value in truth.items():
            inside[name] += found.estimates[name].low <= value <= found.estimates[name].high
    return {"repetitions": repetitions, "inside": min(inside.values()), "by_parameter": inside}


WAITING = """
import sys, time, upbeat as up
from dataclasses import replace
from pathlib import Path
study = replace(up.Study.load(sys.argv[1]), out=Path(sys.argv[2]))
def told(progress):
    print(progress.done, flush=True)
    time.sleep(0.2)
study.run("here", report=told)
"""


def same(one: up.Results, other: up.Results) -> bool:
    return all(
        np.array_equal(one[name], other[name], equal_nan=True) for name in (*one.parameters, *one.outputs)
    )


def resumed(folder: Path, plain: up.Results) -> bool:
    """Kill it after its first chunk, and start it again."""
    from upbeat.explore.store import Store

    study = replace(up.Study.load(QUARTER_CAR), out=folder / "killed.zarr")
    kept = Store(folder / "killed.zarr", study.layout, study.fingerprint())
    kept.begin(100)
    kept.close()
    command = [sys.executable, "-c", WAITING, str(QUARTER_CAR), str(folder / "killed.zarr")]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    child.stdout.readline()
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    chunks = []
    results = study.run("here", report=lambda progress: chunks.append(progress.done))
    return same(results, plain) and 0 < len(chunks) < 10


def on_cluster(plain: up.Results) -> bool:
    """On processes and on a Dask cluster of two of them."""
    from distributed import LocalCluster

    study = up.Study.load(QUARTER_CAR)
    equal = same(study.run("processes", workers=2), plain)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
            return equal and same(study.run(cluster.scheduler_address), plain)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="ten calibrations")
    options = parser.parse_args()
    plain = up.Study.load(QUARTER_CAR).run("here")
    told: dict[str, Any] = {"front_details": front()}
    told["front"] = told["front_details"]["front"]
    indices = sobol()
    told |= {"sobol_error": indices["error"], "sobol": indices["indices"]}
    told["calibration"] = calibration(10 if options.quick else 100)
    with tempfile.TemporaryDirectory() as folder:
        told["resumed_equal"] = resumed(Path(folder), plain)
    told["cluster_equal"] = on_cluster(plain)
    asked = 0.9 * told["calibration"]["repetitions"]
    misses = []
    if told["calibration"]["inside"] < asked:
        misses.append(f"the true parameters are inside in {told['calibration']['inside']}, asked {asked:g}")
    if told["sobol_error"] > 0.03:
        misses.append(f"a Sobol index is off by {told['sobol_error']:.3f}")
    told["known_misses"] = misses
    if options.json:
        print(json.dumps(told))
        return
    print(f"{'':38}known | here")
    print(f"quarter car, 1000 designs: on the front      - | {told['front']}")
    print(f"Ishigami, greatest error of an index         0 | {told['sobol_error']:.4f}")
    print(f"calibrations with the truth inside      >= {asked:g} | {told['calibration']['inside']}")
    print(f"resumed after a kill: the same             yes | {'yes' if told['resumed_equal'] else 'no'}")
    print(f"processes and a cluster: the same          yes | {'yes' if told['cluster_equal'] else 'no'}")


if __name__ == "__main__":
    main()
