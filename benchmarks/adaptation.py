"""What an adaptation costs on the native engine: one that does nothing, and three around each other.

Two units with four ports each way drive each other. One of them is adapted so that every input and output
goes through storage and nothing else happens. Such an adaptation is merged into the connections; the other
figures are those of the same with a control of its own, which stays a program inside the unit, where
three stacked ones are one program. All variants run interleaved; the figures are medians of CPU time.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from typing import Any

import numpy as np

import upbeat as up
from upbeat.adapt import Adaptation, Assign, Rule, Step, Stored

STEP = 1e-3
WIDTH = 4
PORTS = 2 * WIDTH
GOALS = {"ns_per_port": 30.0, "three_over_one": 1.2}
NAMES = range(WIDTH)
LAG = up.Ode(
    states={f"y{k}": f"u{k} - y{k}" for k in NAMES},
    inputs=[f"u{k}" for k in NAMES],
    outputs=[f"y{k}" for k in NAMES],
    start={f"y{k}": 1.0 + k for k in NAMES},
    solver=up.Euler(),
)


def around(model: Any, *, controlled: bool, flatten: bool = True) -> up.Model:
    """The model with an adaptation that stores everything, and changes nothing."""
    return up.adapted(
        Adaptation(
            {"w": model},
            (
                *(up.Port(f"u{k}", up.Causality.INPUT) for k in NAMES),
                *(up.Port(f"y{k}", up.Causality.OUTPUT) for k in NAMES),
            ),
            in_rules=(
                Rule(
                    tuple(Assign(f"in{k}", f"u{k}") for k in NAMES),
                    tuple(Assign(f"w.u{k}", f"in{k}") for k in NAMES),
                ),
            ),
            out_rules=(
                Rule(
                    tuple(Assign(f"out{k}", f"w.y{k}") for k in NAMES),
                    tuple(Assign(f"y{k}", f"out{k}") for k in NAMES),
                ),
            ),
            inputs=tuple(Stored(f"in{k}") for k in NAMES),
            outputs=tuple(Stored(f"out{k}") for k in NAMES),
            control=(Step("w"),) if controlled else None,
        ),
        flatten=flatten,
    )


def pair(model: up.Model) -> up.Scenario:
    """The model and a plain unit, each driven by the other."""
    links = {f"a.u{k}": f"b.y{k}" for k in NAMES} | {f"b.u{k}": f"a.y{k}" for k in NAMES}
    return up.Scenario({"a": LAG, "b": model}, links)


def stacked(depth: int, *, controlled: bool, flatten: bool = True) -> up.Model:
    model: up.Model = LAG
    for _ in range(depth):
        model = around(model, controlled=controlled, flatten=flatten)
    return model


def measure(steps: int, rounds: int) -> dict[str, float]:
    """Nanoseconds per port and step beyond those of the plain unit, and ratios of whole runs."""
    variants = {
        "plain": LAG,
        "one": stacked(1, controlled=False),
        "three": stacked(3, controlled=False),
        "one_program": stacked(1, controlled=True),
        "three_programs": stacked(3, controlled=True),
        "three_apart": stacked(3, controlled=True, flatten=False),
    }
    made = {
        name: up.experiment(pair(model), pace=STEP, until=steps * STEP, engine="native", record=["a.y0"])
        for name, model in variants.items()
    }
    found = [np.asarray(experiment.run()["a.y0"]) for experiment in made.values()]
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)
    spent: dict[str, list[float]] = {name: [] for name in made}
    for _ in range(rounds):
        for name, experiment in made.items():
            with experiment.open() as run:
                before = time.process_time_ns()
                run.finish()
                spent[name].append((time.process_time_ns() - before) / steps)
    ns = {name: statistics.median(times) for name, times in spent.items()}

    def ratio(one: str, other: str) -> float:
        return statistics.median(a / b for a, b in zip(spent[one], spent[other], strict=True))

    def added(name: str) -> float:
        pairs = zip(spent[name], spent["plain"], strict=True)
        return statistics.median(a - b for a, b in pairs) / PORTS

    return {
        "ns_per_port": added("one"),
        "three_over_one": ratio("three", "one"),
        "program_ns_per_port": added("one_program"),
        "program_three_over_one": ratio("three_programs", "one_program"),
        "program_three_apart_over_one": ratio("three_apart", "one_program"),
        "plain_ns": ns["plain"],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--json", action="store_true", help="one JSON object on standard output, tables on the other"
    )
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    if options.json:
        sys.stdout = sys.stderr  # tables are for people: the object is alone on standard output
    found = measure(options.steps, options.rounds)
    for name, value in found.items():
        goal = f"   (at most {GOALS[name]:g})" if name in GOALS else ""
        print(f"{name:>30}: {value:8.2f}{goal}")
    if options.json:
        missed = [name for name, goal in GOALS.items() if not found[name] <= goal]
        print(json.dumps({**found, "known_misses": missed}), file=sys.__stdout__)
    return 0


if __name__ == "__main__":
    sys.exit(main())
