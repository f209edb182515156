"""Kill -9 at random moments: every run resumes to the results that it would have had, to the bit.

A room (a differential equation) with a controller (a state machine), and two coupled masses under error
control; on both engines, with CSV and with Parquet files. Each run makes checkpoints as often as it can and
is killed after a random time, resumed with `upbeat resume`, killed again if the dice say so, and in the end
compared with an uninterrupted run: rows, events and steps, and for CSV the bytes of the files. All runs
should end with what the uninterrupted one has. Expected | here.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import upbeat as up
from upbeat.engine.native.machine import available

THERMOSTAT = """
upbeat = 1
[units.room]
inputs.heating = { kind = "boolean" }
states.T = { der = "(5 - T)/7200 + (0.005 if heating else 0)", start = 17.0 }
outputs = ["T"]
[units.controller]
kind = "state_machine"
inputs = ["T"]
parameters = { pause = 1800.0 }
variables.starts = { start = 0, kind = "integer" }
initial = "idle"
states.idle = {}
states.heating = { entry = { starts = "starts + 1" } }
states.resting = {}
transitions = [
    { from = "idle", to = "heating", when = "T < 19", emit = { switched = "on" } },
    { from = "heating", to = "resting", when = "T > 22", emit = { switched = "off" } },
    { from = "resting", to = "heating", after = "pause", when = "T < 19", emit = { switched = "on" } },
]
outputs.heat = { value = "state == 'heating'", kind = "boolean" }
outputs.starts = { value = "starts", kind = "integer" }
outputs.switched = { event = true, items = ["off", "on"] }
[connections]
controller.T = "room.T"
room.heating = "controller.heat"
[master]
step = 10.0
[run]
until = UNTIL
"""
MASSES = """
upbeat = 1
[units.left]
states = { x = "v", v = "F - x - 0.01*v" }
start = { x = 1.0 }
inputs = ["F"]
outputs = ["x", "v"]
[units.right]
states = { x = "v", v = "u - 4*x - 0.01*v" }
inputs = ["u"]
outputs = ["x"]
solver = "dormand_prince"
[connections]
left.F = "right.x - left.x"
right.u = "left.x - right.x"
[master]
pace = { kind = "error_control", tolerance = 1e-4 }
inputs = "linear"
[run]
until = UNTIL
"""
UPBEAT = [sys.executable, "-m", "upbeat.cli.main"]


class Case(NamedTuple):
    """One kind of run, long enough to be killed in the middle."""

    name: str
    text: str
    until: dict[str, float]
    """Simulated seconds for each engine: about the same time by the clock."""


CASES = (
    Case("room and controller", THERMOSTAT, {"interpret": 6e4, "native": 8e5}),
    Case("masses, error control", MASSES, {"interpret": 30.0, "native": 300.0}),
)


def contents(out: Path) -> tuple[object, ...]:
    """All that a result file holds, bit for bit; how long it took is none of it."""
    trace = up.read(out)
    rows = {name: (values.dtype.str, values.tobytes()) for name, values in trace.to_numpy().items()}
    raw = out.read_bytes() if out.suffix == ".csv" else b""
    beside = out.with_name(f"{out.stem}.events{out.suffix}")
    events = beside.read_bytes() if out.suffix == ".csv" and beside.exists() else b""
    return rows, list(trace.events), list(trace.steps), raw, events


def command(file: Path, out: Path, engine: str) -> list[str]:
    return [*UPBEAT, "run", str(file), "--engine", engine, "--out", str(out), "--quiet"]


def killed(words: list[str], after: float | None) -> bool:
    """Run a command and kill it after some time, if any; False if it was quicker."""
    process = subprocess.Popen(words, stderr=subprocess.PIPE)
    try:
        _, said = process.communicate(timeout=after)
    except subprocess.TimeoutExpired:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        return True
    if process.returncode:
        raise SystemExit(f"{' '.join(words)}\n{said.decode()}")
    return False


class Went(NamedTuple):
    """How a trial went."""

    kills: int
    resumed: int
    """Kills that left a checkpoint; the others came before the first, and the run was started again."""
    same: bool


def trial(
    start: list[str], out: Path, before: tuple[object, ...], most: int, moments: Callable[[], float]
) -> Went:
    """Kill at most so often, at these moments, and go on each time, until the run has ended."""
    checkpoint = out.with_name(out.name + ".checkpoint")
    resume = [*UPBEAT, "resume", str(checkpoint), "--quiet"]
    kills, resumed, words = 0, 0, [*start, "--checkpoint", "every=0.05s"]
    while words and killed(words, moments() if kills < most else None):
        kills += 1
        if checkpoint.exists():
            resumed, words = resumed + 1, resume
        elif words == resume:  # killed after the last thing that it had to do
            words = []
    same = contents(out) == before and not checkpoint.exists()
    for path in out.parent.glob(f"{out.stem}*"):
        path.unlink()
    return Went(kills, resumed, same)


def measure(wanted: int, seed: int) -> list[dict]:
    """So many kills, spread over all cases; every run is resumed and compared."""
    dice, rows = random.Random(seed), []
    engines = ["interpret", "native"] if available() else ["interpret"]
    kinds = [
        (case, engine, suffix) for case in CASES for engine in engines for suffix in (".csv", ".parquet")
    ]
    with tempfile.TemporaryDirectory() as folder:
        for number, (case, engine, suffix) in enumerate(kinds):
            share = wanted * (number + 1) // len(kinds) - wanted * number // len(kinds)
            if share == 0:
                continue
            file = Path(folder) / f"case{number}.toml"
            file.write_text(case.text.replace("UNTIL", str(case.until[engine])))
            whole, out = file.with_name(f"whole{suffix}"), file.with_name(f"run{suffix}")
            began = time.perf_counter()
            subprocess.run(command(file, whole, engine), check=True)
            took = time.perf_counter() - began
            before, went = contents(whole), list[Went]()

            def moments(took: float = took) -> float:
                return dice.uniform(0.25, 1.0) * took

            while (left := share - sum(w.kills for w in went)) and len(went) < 20 * share:
                went.append(trial(command(file, out, engine), out, before, min(3, left), moments))
            rows.append(
                {
                    "case": case.name,
                    "engine": engine,
                    "file": suffix,
                    "kills": sum(w.kills for w in went),
                    "resumed": sum(w.resumed for w in went),
                    "identical": sum(w.kills for w in went if w.same),
                    "other": sum(not w.same for w in went),
                }
            )
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    parser.add_argument("--kills", type=int, default=50, help="how many (50)")
    parser.add_argument("--seed", type=int, default=4, help="of the dice")
    options = parser.parse_args()
    rows = measure(options.kills, options.seed)
    total = {key: sum(row[key] for row in rows) for key in ("kills", "resumed", "identical", "other")}
    ok = total["kills"] == total["identical"] == options.kills and total["other"] == 0
    if options.json:
        print(json.dumps({**total, "ok": ok, "cases": rows}))
        return 0 if ok else 1
    print(f"{'case':<24}{'engine':<11}{'file':<10}{'resumed':>8} | {'identical: expected':>20} | {'here':>4}")
    for row in rows:
        print(
            f"{row['case']:<24}{row['engine']:<11}{row['file']:<10}{row['resumed']:>8} | "
            f"{row['kills']:>20} | {row['identical']:>4}"
        )
    print(f"{'all':<45}{total['resumed']:>8} | {total['kills']:>20} | {total['identical']:>4}")
    print("ok" if ok else "NOT ok")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
