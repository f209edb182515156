"""How much faster two cores are than one, what waiting for another core costs, and what busy cores do to it.

Units of 50 µs in a ring (Jacobi). `speedup`: the time of a run on one core over that on two; `bare`: the same
for two threads that do the same work and never wait for each other. `edge_ns`: a chain of units that do
nothing, each on another core than the one before it, compared with the same chain on one core. `busy_ratio`:
the speed of two cores over that of one while a second process keeps each core busy. All variants are
interleaved, and the figures are medians of wall-clock time. `repeats`: how many runs of ten steps of 64
units on two cores end with the bits of one core.
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
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import upbeat as up
from upbeat.engine.native import machine as native
from upbeat.engine.parallel.cores import sharing
from upbeat.engine.parallel.heuristic import Plan, Rule
from upbeat.engine.parallel.operations import operations, schedule
from upbeat.engine.schedule import Schedule
from upbeat.units import ports

HERE = Path(__file__).parent
INCLUDE = HERE.parent / "native" / "include"
UNIT_SECONDS = 50e-6
CHAIN = 64
ROUNDS, REPEATS = 7, 1000
EFFICIENCY, EDGE_NS, BUSY = 0.95, 1000.0, 0.5
SPIN = "import time\nend = time.monotonic() + {seconds}\nwhile time.monotonic() < end: pass"


def compiled(directory: Path) -> ctypes.CDLL:
    target = directory / "libparallel.so"
    flags = ["-O2", "-ffp-contract=off", "-shared", "-fPIC", "-pthread", f"-I{INCLUDE}"]
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, *flags, str(HERE / "parallel.c"), "-o", str(target)], check=True)
    library = ctypes.CDLL(str(target))
    library.bare.restype = ctypes.c_double
    library.bare.argtypes = (ctypes.c_int, ctypes.c_long, ctypes.c_long)
    return library


def seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def ring(library: ctypes.CDLL, count: int, work: int) -> up.Scenario:
    model = up.NativeUnit.from_library(
        library,
        ports({"u": 0.0}, {"y": {"depends": []}}, parameters={"work": {"kind": "integer", "value": work}}),
    )
    units = {f"u{k}": model for k in range(count)}
    return up.Scenario(units, {f"u{k}.u": f"u{(k + 1) % count}.y" for k in range(count)})


def speedups(library: ctypes.CDLL, count: int, work: int, steps: int) -> dict[str, float]:
    """One core over two, for a run and for bare threads."""
    scenario = ring(library, count, work)
    found: dict[tuple[str, int], list[float]] = {}
    for _ in range(ROUNDS):
        for cores in (1, 2):
            with up.start(scenario, pace=1.0, until=float(steps), record=["u0.y"], cores=cores) as run:
                run.step()  # the threads are there and awake
                found.setdefault(("run", cores), []).append(seconds(run.finish))
            times = steps * count // cores
            found.setdefault(("bare", cores), []).append(seconds(partial(library.bare, cores, times, work)))
    typical = {key: statistics.median(values) for key, values in found.items()}
    return {
        "speedup": typical["run", 1] / typical["run", 2],
        "bare": typical["bare", 1] / typical["bare", 2],
        "unit_us": 1e6 * typical["run", 1] / (steps * count),
    }


def edge_ns(library: ctypes.CDLL, steps: int = 2000) -> float:
    """What it costs to wait for another core that has just been done."""
    model = ring(library, 1, 0).units["u0"]
    units = {f"u{k}": model for k in range(CHAIN)}
    scenario = up.Scenario(units, {f"u{k}.u": f"u{k - 1}.y" for k in range(1, CHAIN)})
    program = up.Master(up.Fixed(1.0), up.GaussSeidel()).program(scenario)
    found = operations(program, "step", scenario.units)
    core = tuple(int(min(operation.units)[1:]) % 2 for operation in found)
    dates = tuple(float(k) for k in range(len(found)))
    plan = Plan(core, dates, tuple(d + 1.0 for d in dates), tuple(range(len(found))), Rule.EARLIEST)
    made = schedule(found, plan, 2)
    spent: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(ROUNDS):
        for cores in (1, 2):
            machine = native.machine(
                program, scenario.units, 0.0, schedules={"step": made} if cores == 2 else {}
            )
            machine.write(program.next, 0.0)
            machine.execute("start")
            loop = machine.loop(None)
            loop.begin(None, float(steps))
            loop.run(None, float(steps), 1e9, 10)
            spent[cores].append(seconds(lambda loop=loop: loop.run(None, float(steps), 1e9, steps)))
            machine.close()
    more = statistics.median(spent[2]) - statistics.median(spent[1])
    return 1e9 * more / (steps - 10) / made.crossings


def repeats(library: ctypes.CDLL, work: int) -> dict[str, int]:
    """How often the same ten steps, each of which depends on all before it, end the same."""
    scenario = ring(library, 64, work)
    program = up.Master(up.Fixed(1.0)).program(scenario)
    shared_out = sharing(program, scenario.units, 2)
    schedules = {name: one.schedule for name, one in shared_out.items() if one.schedule is not None}

    def bits(shared: Mapping[str, Schedule]) -> tuple[str, ...]:
        machine = native.machine(program, scenario.units, 0.0, schedules=shared)
        machine.execute("start")
        for k in range(10):
            machine.write(program.now, float(k))
            machine.write(program.next, float(k + 1))
            machine.execute("step")
        seen = tuple(float(machine.read(i)).hex() for i in range(program.layout.cells))
        machine.close()
        return seen

    one = bits({})
    return {"n": REPEATS, "identical": sum(bits(schedules) == one for _ in range(REPEATS))}


def busy_ratio(library: ctypes.CDLL, work: int, steps: int) -> float:
    """One core over two, while every core is busy with something else as well."""
    command = [sys.executable, "-c", SPIN.format(seconds=120)]
    others = [subprocess.Popen(command) for _ in range(len(os.sched_getaffinity(0)))]
    try:
        return speedups(library, 2, work, steps)["speedup"]
    finally:
        for other in others:
            other.kill()
            other.wait()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON object on standard output, tables on the other"
    )
    parser.add_argument("--steps", type=int, default=4000, help="communication steps of two units (4000)")
    options = parser.parse_args()
    if options.json:
        sys.stdout = sys.stderr  # tables are for people: the object is alone on standard output
    available = native.available()
    if not available:
        print(f"there is nothing to measure: {available.why}")
        return 1
    if len(os.sched_getaffinity(0)) < 2:
        print("there is nothing to measure: this process may use one core only")
        return 1
    if len(os.sched_getaffinity(0)) > 2:  # two cores are asked about; more would hide what busy ones do
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    with tempfile.TemporaryDirectory() as directory:
        library = compiled(Path(directory))
        trial = 100_000
        cost = min(seconds(lambda: library.bare(1, 10, trial)) for _ in range(20)) / (10 * trial)
        work = max(1, round(UNIT_SECONDS / cost))
        result: dict[str, object] = {
            "two_units": speedups(library, 2, work, options.steps),
            "sixty_four_units": speedups(library, 64, work, max(1, options.steps // 32)),
            "edge_ns": edge_ns(library),
            "busy_ratio": busy_ratio(library, work, max(1, options.steps // 2)),
            "repeats": repeats(library, max(1, work // 50)),
        }
    print(f"{'':22}{'asked':>12}{'here':>10}")
    for name in ("two_units", "sixty_four_units"):
        found = result[name]
        assert isinstance(found, dict)
        share = found["speedup"] / found["bare"]
        shown = f"{found['speedup']:.3f} ×, bare threads {found['bare']:.3f} ×"
        print(f"{name:22}{f'≥ {EFFICIENCY}':>12}{share:10.3f}   ({shown})")
    print(f"{'edge_ns':22}{f'< {EDGE_NS:g}':>12}{result['edge_ns']:10.1f}")
    print(f"{'busy_ratio':22}{f'≥ {BUSY}':>12}{result['busy_ratio']:10.3f}")
    same = result["repeats"]
    assert isinstance(same, dict)
    print(f"{'repeats':22}{f'{REPEATS} the same':>12}{same['identical']:10}")
    if options.json:
        print(json.dumps(result), file=sys.__stdout__)
    return 0


if __name__ == "__main__":
    sys.exit(main())
