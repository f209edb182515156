"""How many discrete events per second the native engine gets through, and SimPy on the same model.

A ring of ten stations, each a state machine from a scenario file: it waits for a job, works on it for a
second and hands it on. One event is one job handed on: a timed transition, its output event, its way to the
next station and the transition there. Every event is logged with its time. SimPy has a process for each
station, which waits for an event of its own, then for a timeout, appends to a list and wakes up the next.
All variants run interleaved; the figures are medians of CPU time.
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

import upbeat as up

STATIONS = 10
GOAL = 1e6

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


def file(events: int) -> str:
    """The ring as a scenario file: the first station has a job from the start."""
    first = STATION.replace("STATE", "busy").replace("models.station", "models.first")
    lines = ["upbeat = 1", 'name = "ring of stations"', first, STATION.replace("STATE", "idle")]
    for k in range(STATIONS):
        lines.append(f'[units.s{k}]\nmodel = "{"first" if k == 0 else "station"}"')
    lines.append("[connections]")
    lines += [f's{k}.job = "s{(k - 1) % STATIONS}.done"' for k in range(STATIONS)]
    lines.append(f"[run]\nuntil = {events:.1f}")
    return "\n".join(lines)


def seconds(experiment: up.Experiment, events: int) -> float:
    """CPU time of a run, from the first event to the last."""
    with experiment.open() as run:
        before = time.process_time()
        trace = run.finish()
        spent = time.process_time() - before
    assert len(trace.events) == events, "every job handed on is in the log"
    assert trace.events.times()[-1] == events
    return spent


def simpy_seconds(events: int) -> float:
    """The same with SimPy."""
    try:
        import simpy
    except ImportError:
        sys.exit("this benchmark compares with SimPy: make bench, or pip install simpy")
    env = simpy.Environment()
    log: list[tuple[float, int]] = []
    jobs: list[Any] = [env.event() for _ in range(STATIONS)]

    def station(k: int) -> Any:
        following = (k + 1) % STATIONS
        while True:
            yield jobs[k]
            jobs[k] = env.event()
            yield env.timeout(1.0)
            log.append((env.now, k))
            jobs[following].succeed()

    for k in range(STATIONS):
        env.process(station(k))
    jobs[0].succeed()
    before = time.process_time()
    env.run(until=events + 0.5)
    spent = time.process_time() - before
    assert len(log) == events
    assert log[-1][0] == events
    return spent


def measure(events: int, rounds: int) -> dict[str, float]:
    """Events per second of CPU time."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ring.toml"
        path.write_text(file(events), encoding="utf-8")
        plain = up.load(path, engine="native", record=["s0.state"])
    made = {"events_per_s": plain}
    try:
        jitted = plain.with_(jit=True)
        seconds(jitted, events)
        made["jit_events_per_s"] = jitted
    except up.MissingExtra:
        print("without [jit]: no figures for machine code")
    rates: dict[str, list[float]] = {name: [] for name in (*made, "simpy_events_per_s")}
    for _ in range(rounds):
        for name, experiment in made.items():
            rates[name].append(events / seconds(experiment, events))
        few = max(events // 10, 1000)
        rates["simpy_events_per_s"].append(few / simpy_seconds(few))
    return {name: statistics.median(found) for name, found in rates.items()}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    parser.add_argument("--events", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    found = measure(options.events, options.rounds)
    names = {
        "events_per_s": "Upbeat, native engine",
        "jit_events_per_s": "Upbeat, with [jit]",
        "simpy_events_per_s": "SimPy",
    }
    for name, rate in found.items():
        print(f"{names[name]:24}{rate / 1e6:8.2f} million events per second")
    ok = found["events_per_s"] >= GOAL
    print(
        f"asked: at least {GOAL / 1e6:g} million on the native engine | {'reached' if ok else 'NOT reached'}"
    )
    if options.json:
        print(json.dumps({**found, "stations": STATIONS, "ok": ok}))
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
