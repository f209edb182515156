"""What an FMU leaves behind, and how long many of them take to load.

One FMU is instantiated, simulated and freed a thousand times, for FMI 2 and 3, on both engines: how much
the memory of the process grows from the time on at which everything has happened once. And a scenario of
two hundred FMUs in a chain: the time until it stands at its start, and the first step is to be made. And what
a short run costs from the command line, beside FMPy: a new process each time, with the bytecode of modules
kept, the least CPU time of several.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import upbeat as up
from upbeat.engine.native import machine as native

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from fmu_maker import make

CYCLES, WARM = 1000, 100
UNITS = 200
GOALS = {"grown_mb": 1.0, "load_s": 5.0}
SHORT = 0.3
"""Asked of a short run, and not reached: most of it is importing modules."""


def resident() -> float:
    """The memory of this process that is really there, in MB (2**20 bytes)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise SystemExit("fmu_life: this system does not say how much memory a process has (no VmRSS)")


def growth(path: Path, engine: str, cycles: int) -> float:
    """By how many MB the process grows over so many lives of one FMU."""
    scenario = up.Scenario({"one": up.Fmu(path)})

    def live(count: int) -> float:
        for _ in range(count):
            up.simulate(scenario, pace=0.1, until=1.0, engine=engine)  # type: ignore[arg-type]
        gc.collect()
        return resident()

    before = live(WARM)
    return live(cycles) - before


def loading(path: Path, engine: str, count: int) -> float:
    """Seconds from the files to a run at its start."""
    begin = time.perf_counter()
    units = {f"u{i}": up.Fmu(path) for i in range(count)}
    wires = {f"u{i}.u": f"u{i - 1}.y" for i in range(1, count)}
    plan = up.experiment(up.Scenario(units, wires), pace=0.1, until=1.0, engine=engine)  # type: ignore[arg-type]
    with plan.open():
        return time.perf_counter() - begin


def short_run(command: list[str], folder: Path) -> float:
    """Seconds of CPU that a process takes, at least."""
    others = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    found = []
    for _ in range(6):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        environment = others | {"PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
        subprocess.run([sys.executable, *command], check=True, capture_output=True, env=environment)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(found[1:])  # the first one writes the bytecode


def short_runs(path: Path, folder: Path) -> dict[str, float]:
    """The same run of a hundred steps, here and in FMPy."""
    ours = ["-m", "upbeat.cli.main", "run", str(path), "--until", "1", "--step", "0.01"]
    theirs = f"import fmpy; fmpy.simulate_fmu({str(path)!r}, stop_time=1.0, output_interval=0.01)"
    out = ["--out", str(folder / "r.csv")]
    return {"upbeat_s": short_run([*ours, *out], folder), "fmpy_s": short_run(["-c", theirs], folder)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument(
        "--json", action="store_true", help="one JSON object on standard output, tables on the other"
    )
    parser.add_argument("--cycles", type=int, default=CYCLES)
    parser.add_argument("--units", type=int, default=UNITS)
    options = parser.parse_args()
    if options.json:
        sys.stdout = sys.stderr  # tables are for people: the object is alone on standard output
    engines = ["interpret", *(["native"] if native.available() else [])]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for version in (2, 3):
            path = make("linear", version, Path(folder))
            for engine in engines:
                loaded = loading(path, engine, options.units)
                grown = growth(path, engine, options.cycles)
                rows.append({"fmi": version, "engine": engine, "grown_mb": grown, "load_s": loaded})
                print(
                    f"FMI {version}, {engine:9}: {options.cycles} lives leave {grown:6.2f} MB behind; "
                    f"{options.units} units load in {loaded:5.2f} s",
                    flush=True,
                )
        short = short_runs(make("linear", 2, Path(folder)), Path(folder))
        print(
            f"a short run takes {short['upbeat_s']:.2f} s of CPU (asked: {SHORT:g}), "
            f"in FMPy {short['fmpy_s']:.2f} s"
        )
    met = all(row[name] < goal for row in rows for name, goal in GOALS.items())  # type: ignore[operator]
    print(f"goals (below {GOALS['grown_mb']:g} MB, {GOALS['load_s']:g} s): {'met' if met else 'NOT met'}")
    if options.json:
        print(
            json.dumps(
                {"life": rows, "short": short, "cycles": options.cycles, "units": options.units, "met": met}
            ),
            file=sys.__stdout__,
        )
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
