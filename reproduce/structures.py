"""Eight systems that people recognise (examples/systems), each run in four ways, beside references.

fixed: steps of one size, events are noticed where they end. revised: a step that has passed an event is
repeated. look_ahead: steps end where an event is expected. auto: what Upbeat chooses by itself. These are
`--events off`, `revised`, `look_ahead` and `auto` of `upbeat run`, at the step of the file. For the two in
the middle, inputs follow derivatives where these are known (`inputs = "hermite"`), unless the file says what
they do; with fixed steps they are held, and with auto that is chosen as well.

References are closed forms or SciPy at 1e-12 (problems/known_systems.py). Events are right if one of the same
name is within a step of where it should be, in the same order. The error of a signal is the largest
difference at a communication point, as a part of the signal's range; that of an example is the largest of
its signals, which are continuous ones (positions, levels, temperatures), and `late` is how far off, at most,
an event is that is right. Four of the systems change their structure.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from problems.known_systems import SYSTEMS, Known

import upbeat as up

FOLDER = Path(__file__).parents[1] / "examples" / "systems"
METHODS = {"fixed": "off", "revised": "revised", "look_ahead": "look_ahead", "auto": "auto"}


def right(found: list[tuple[str, float]], wanted: list[tuple[str, float]], near: float) -> list[float]:
    """How far off the events are that are right: the longest choice of pairs in the same order."""
    table = np.zeros((len(found) + 1, len(wanted) + 1), dtype=int)
    for i, (name, t) in enumerate(found, 1):
        for j, (other, at) in enumerate(wanted, 1):
            alike = name == other and abs(t - at) <= near
            table[i, j] = max(table[i - 1, j], table[i, j - 1], table[i - 1, j - 1] + alike)
    off, i, j = [], len(found), len(wanted)
    while i and j:
        if table[i, j] == table[i - 1, j]:
            i -= 1
        elif table[i, j] == table[i, j - 1]:
            j -= 1
        else:
            i, j = i - 1, j - 1
            off.append(abs(found[i][1] - wanted[j][1]))
    return off


def judged(trace: up.Trace, known: Known, step: float) -> dict[str, Any]:
    """What became of events and signals."""
    found = [(event.name, float(event.time)) for event in trace.events if "." not in event.name]
    off = right(found, known.events, step)
    rows = trace.one_sided()
    reference = known.at(rows.time)
    errors = {}
    for name, values in reference.items():
        there = ~np.isnan(rows[name])
        spread = float(np.ptp(values)) or 1.0
        errors[name] = float(np.abs(rows[name] - values)[there].max()) / spread
    return {
        "right": len(off),
        "missing": len(known.events) - len(off),
        "extra": len(found) - len(off),
        "late": max(off, default=None),
        "error": max(errors.values()),
        "steps": trace.steps.count,
        "rejected": sum(step.rejected for step in trace.steps),
    }


def example(name: str) -> dict[str, Any]:
    """One system in all ways."""
    path = FOLDER / f"{name}.toml"
    made = up.load(path)
    known = SYSTEMS[name](made.span.stop)
    step = up.load(path, events="off").master.pace.nominal_step
    methods = {}
    for method, events in METHODS.items():
        one = up.load(path, events=events)
        if method in ("revised", "look_ahead") and one.master.inputs is None:
            one = up.load(path, events=events, inputs="hermite")
        methods[method] = judged(one.run(), known, step)
    return {
        "name": name,
        "title": made.scenario.name,
        "structures": list(made.structures),
        "reference": known.how,
        "step": step,
        "events": len(known.events),
        "methods": methods,
    }


def known_misses(examples: list[dict[str, Any]]) -> list[str]:
    """What is not as good as one would wish, in sentences."""
    return [
        f"{one['name']}, {method}: {found['right']} of {one['events']} right, {found['extra']} too many"
        for one in examples
        for method, found in one["methods"].items()
        if method != "fixed" and (found["missing"] or found["extra"])
    ]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    options = parser.parse_args(arguments)
    if options.json:
        sys.stdout = sys.stderr
    examples = [example(name) for name in SYSTEMS]
    print(f"{'':12} {'events':>6}", *(f"{method:>26}" for method in METHODS))
    for one in examples:
        cells = [
            f"{found['right']:>3} right +{found['extra']:<2} {found['error']:>9.1e} {found['steps']:>5}"
            for found in one["methods"].values()
        ]
        print(f"{one['name']:12} {one['events']:>6}", *(f"{cell:>26}" for cell in cells))
    print("(events right, too many; largest error as a part of the range; steps)")
    for miss in known_misses(examples):
        print(f"not right: {miss}")
    result = {"examples": examples, "known_misses": known_misses(examples)}
    if options.json:
        print(json.dumps(result), file=sys.__stdout__)


if __name__ == "__main__":
    main()
