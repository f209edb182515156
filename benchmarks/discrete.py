"""How many discrete events per second the native engine gets through, and SimPy on the same model.

A ring of stations, each a state machine from a scenario file: it waits for a job, works on it for a
while and hands it on. One event is one job handed on: a timed transition, its output event, its way to the
next station and the transition there. Every event is logged with its time. SimPy has a process for each
station, which waits for an event of its own, then for a timeout, appends to a list and wakes up the next.
All variants run interleaved; the figures are medians of CPU time.

The goal is that of ten stations which all work for one second: the steps are a grid then. Stations of
different speeds, where every step has a length of its own, and larger rings follow; nobody asked for
those, but people have them.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import upbeat as up

STATIONS = 10
GOAL = 1e6
RINGS = ((10, False), (10, True), (100, False), (1000, False))
"""Stations, and whether their speeds differ."""

STATION = """
[models.station]
kind = "state_machine"
inputs.job = { event = true }
outputs.done = { event = true }
parameters.work = 1.0
initial = "STATE"
states = { idle = {}, busy = {} }
transitions = [
    { from = "idle", to = "busy", on = "job" },
    { from = "busy", to = "idle", after = "work", emit = { done = true } },
]
"""


def work(k: int, varied: bool) -> float:
    """How long station `k` works on a job; about a second."""
    return 1.0 + 0.3 * math.sin(k + 1.0) if varied else 1.0


def end(stations: int, varied: bool, events: int) -> float:
    """Half a second after so many jobs have been handed on."""
    rounds, rest = divmod(events, stations)
    times = [work(k, varied) for k in range(stations)]
    return rounds * sum(times) + sum(times[:rest]) + 0.5


def file(stations: int, varied: bool, events: int) -> str:
    """The ring as a scenario file: the first station has a job from the start."""
    first = STATION.replace("STATE", "busy").replace("models.station", "models.first")
    lines = ["upbeat = 1", 'name = "ring of stations"', first, STATION.replace("STATE", "idle")]
    for k in range(stations):
        lines.append(f'[units.s{k}]\nmodel = "{"first" if k == 0 else "station"}"')
        lines.append(f"parameters.work = {work(k, varied)!r}")
    lines.append("[connections]")
    lines += [f's{k}.job = "s{(k - 1) % stations}.done"' for k in range(stations)]
    lines.append(f"[run]\nuntil = {end(stations, varied, events)!r}")
    return "\n".join(lines)


def seconds(experiment: up.Experiment, events: int) -> float:
    """CPU time of a run, from the first event to the last."""
    with experiment.open() as run:
        before = time.process_time()
        trace = run.finish()
        spent = time.process_time() - before
    assert len(trace.events) == events, "every job handed on is in the log"
    return spent


def simpy_seconds(stations: int, varied: bool, events: int) -> float:
    """The same with SimPy."""
    try:
        import simpy
    except ImportError:
        sys.exit("this benchmark compares with SimPy: make bench, or pip install simpy")
    env = simpy.Environment()
    log: list[tuple[float, int]] = []
    jobs: list[Any] = [env.event() for _ in range(stations)]

    def station(k: int) -> Any:
        following = (k + 1) % stations
        while True:
            yield jobs[k]
            jobs[k] = env.event()
            yield env.timeout(work(k, varied))
            log.append((env.now, k))
            jobs[following].succeed()

    for k in range(stations):
        env.process(station(k))
    jobs[0].succeed()
    before = time.process_time()
    env.run(until=end(stations, varied, events))
    spent = time.process_time() - before
    assert len(log) == events
    return spent


def measure(stations: int, varied: bool, events: int, rounds: int) -> dict[str, float]:
    """Events per second of CPU time."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ring.toml"
        path.write_text(file(stations, varied, events), encoding="utf-8")
        plain = up.load(path, engine="native", record=["s0.state"])
    made = {"events_per_s": plain}
    try:
        jitted = plain.with_(jit=True)
        seconds(jitted, events)
        made["jit_events_per_s"] = jitted
    except up.MissingExtra:
        pass  # main says so
    rates: dict[str, list[float]] = {name: [] for name in (*made, "simpy_events_per_s")}
    for _ in range(rounds):
        for name, experiment in made.items():
            rates[name].append(events / seconds(experiment, events))
        few = max(events // 10, 1000)
        rates["simpy_events_per_s"].append(few / simpy_seconds(stations, varied, few))
    return {name: statistics.median(found) for name, found in rates.items()}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON object on standard output, tables on the other"
    )
    parser.add_argument("--events", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    if options.json:
        sys.stdout = sys.stderr  # tables are for people: the object is alone on standard output
    names = {
        "events_per_s": "native",
        "jit_events_per_s": "native with [jit]",
        "simpy_events_per_s": "SimPy",
    }
    print("million events per second".ljust(32) + "".join(f"{name:>20}" for name in names.values()))
    rings = []
    for stations, varied in RINGS:
        found = measure(stations, varied, options.events, options.rounds)
        rings.append({"stations": stations, "varied": varied, **found})
        shown = "".join(f"{found[name] / 1e6:20.2f}" if name in found else " " * 20 for name in names)
        what = "of different speeds" if varied else "of one speed"
        print(f"{stations} stations {what}".ljust(32) + shown, flush=True)
    first = rings[0]
    ok = first["events_per_s"] >= GOAL
    if "jit_events_per_s" not in first:
        print("(upbeat[jit] is not installed)")
    print(
        f"asked: at least {GOAL / 1e6:g} million on the native engine, {STATIONS} stations of one speed | "
        f"{'reached' if ok else 'NOT reached'}"
    )
    if options.json:
        rates = {name: rate for name, rate in first.items() if name.endswith("_per_s")}
        print(json.dumps({**rates, "stations": STATIONS, "ok": ok, "rings": rings}), file=sys.__stdout__)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
