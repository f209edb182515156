"""What it costs to have a unit in a process of its own: one call, and one step of a run.

The unit hands its input on and does nothing else. A call is `get` from Python through the shared memory: with
a core for each side, and with both sides pinned to the same one. *pipes* is the same call where there is no
compiled core. The steps are those of the native engine (`set`, `advance` and `get` each), without and with
isolation. Figures are medians over rounds, with the fastest round: a waiting process is easily disturbed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import upbeat as up
from upbeat.engine.native.entry import Entry
from upbeat.units.process.child import Child, Order
from upbeat.units.process.piped import Piped

GOAL_US = 5.0
PASS_ON = up.Function(inputs=["u"], outputs={"y": "u"})
APART = up.Isolated(PASS_ON)


@contextmanager
def pinned(cores: set[int]) -> Iterator[None]:
    """This process, and those it starts, on these cores only."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def call_us(remote: object, calls: int, rounds: int) -> tuple[float, float]:
    """Microseconds for one `get`: the median of all rounds, and the fastest."""
    get, found = remote.get, []  # type: ignore[attr-defined]
    for _ in range(rounds):
        began = time.perf_counter()
        for _ in range(calls):
            get(1)
        found.append((time.perf_counter() - began) / calls * 1e6)
    return statistics.median(found), min(found)


def shared_memory(calls: int, rounds: int) -> tuple[float, float]:
    """Through the memory that both see."""
    remote = APART.enter(Entry(jit=False), "unit", 0.0)
    try:
        return call_us(remote, calls, rounds)
    finally:
        remote.close()  # type: ignore[attr-defined]


def pipes(calls: int, rounds: int) -> tuple[float, float]:
    """Through pipes, as without a compiled core."""
    import pickle

    order = Order("unit", 0.0, pickle.dumps(PASS_ON), None, core=False)
    remote = Piped(Child(order, PASS_ON.ports, 10.0, 0), PASS_ON.ports)
    try:
        return call_us(remote, calls, rounds)
    finally:
        remote.close()


def step_us(unit: up.Model, steps: int, rounds: int) -> tuple[float, float]:
    """Microseconds for one step of a run with a source and this unit."""
    source = up.Function(outputs={"y": "time"})
    scenario = up.Scenario({"source": source, "unit": unit}, {"unit.u": "source.y"})

    def seconds(count: int) -> float:
        with up.start(scenario, pace=1e-3, until=count * 1e-3, engine="native", record=["unit.y"]) as run:
            began = time.perf_counter()
            run.finish()
            return time.perf_counter() - began

    # The end of a run takes its time, too: it is in both of these.
    found = [(seconds(4 * steps) - seconds(steps)) / (3 * steps) * 1e6 for _ in range(rounds)]
    return statistics.median(found), min(found)


def measure(calls: int, rounds: int) -> dict[str, float]:
    """All figures, in microseconds."""
    one = {min(os.sched_getaffinity(0))}
    found = {"call": shared_memory(calls, rounds)}
    with pinned(one):
        found["call_on_one_core"] = shared_memory(calls // 10, rounds)
    found["call_by_pipes"] = pipes(calls // 10, rounds)
    found["step_here"] = step_us(PASS_ON, calls, rounds)
    found["step_apart"] = step_us(APART, calls, rounds)
    with pinned(one):
        found["step_apart_on_one_core"] = step_us(APART, calls // 10, rounds)
    figures = {f"{name}_us": value for name, (value, _) in found.items()}
    return figures | {f"{name}_least_us": value for name, (_, value) in found.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--json", action="store_true", help="one JSON object on standard output, tables on the other"
    )
    options = parser.parse_args()
    if options.json:
        sys.stdout = sys.stderr  # tables are for people: the object is alone on standard output
    figures = measure(options.calls, options.rounds)
    for name in (
        "call",
        "call_on_one_core",
        "call_by_pipes",
        "step_here",
        "step_apart",
        "step_apart_on_one_core",
    ):
        median, least = figures[f"{name}_us"], figures[f"{name}_least_us"]
        print(f"{name.replace('_', ' '):<24} {median:8.2f} µs   (fastest round {least:.2f})")
    print(f"goal: a call within {GOAL_US:g} µs when both sides look at the memory")
    if options.json:
        print(json.dumps({"cores": os.cpu_count(), "goal_us": GOAL_US, **figures}), file=sys.__stdout__)
    return 0


if __name__ == "__main__":
    sys.exit(main())
