"""Generated code against the other engines: every scenario in examples/ and many random ones, to the bit.

Random scenarios are those of the property tests (tests/strategies.py): units of equations with and without
events, discrete-event units, state machines, adaptations and nested scenarios under every coupling, input
approximation and pace; those with units in Python are left out, because they cannot be printed. Compared are
the error text if there is one, every bit of every column, the reasons of steps, and the events. Asked | here.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, assume, given, seed, settings

import upbeat as up
from upbeat.generate import compiling
from upbeat.generate.program import enter_all

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from strategies import experiments, on_engine, outcome  # noqa: E402  # which is not installed


def prints(experiment: up.Experiment) -> bool:
    plan = experiment.plan
    return not enter_all(plan.program, plan.scenario.units, experiment.span.start, {})[1]


def examples() -> dict[str, str]:
    """What became of each example: same, different, or why it is refused."""
    found = {}
    for path in sorted((ROOT / "examples").rglob("*.toml")):
        made, signals = up.load(path), path.with_suffix(".csv")
        if signals.exists():
            made = made.with_(signals=up.read_signals(signals, made.scenario))
        name = str(path.relative_to(ROOT / "examples"))
        if not prints(made):
            found[name] = "refused"
            continue
        if path.parent.name == "engine":  # one revolution is enough to compare
            made = made.with_(span=type(made.span)(made.span.start, made.span.start + 0.01))
        outcomes = [outcome(made.with_(engine=e)) for e in ("compiled", "native", "interpret")]
        found[name] = "same" if outcomes[0] == outcomes[1] == outcomes[2] else "different"
        print(f"{name:40} {found[name]}", flush=True)
    return found


def random_ones(count: int, number: int) -> dict[str, int]:
    """How many random scenarios are the same, with and without an error, and how many are not."""
    found = {"same": 0, "same_error": 0, "different": 0}

    @seed(number)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(experiments())
    def compared(experiment: up.Experiment) -> None:
        native = experiment.with_(engine="native", scenario=on_engine("native", experiment.scenario))
        assume(prints(native))
        mine = outcome(native.with_(engine="compiled"))
        own = on_engine("interpret", experiment.scenario)
        others = outcome(native), outcome(experiment.with_(engine="interpret", scenario=own))
        same = mine == others[0] == others[1]
        found["different" if not same else "same_error" if mine.error else "same"] += 1

    compared()
    return found


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--json", action="store_true", help="one JSON object, alone on standard output")
    arguments.add_argument("--random", type=int, default=200, help="so many random scenarios")
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--no-examples", action="store_true")
    options = arguments.parse_args()
    if options.json:
        sys.stdout = sys.stderr
    compiling.OPTIMISE = "-O0"  # the bits do not depend on it
    result: dict[str, Any] = {"random": random_ones(options.random, options.seed)}
    if not options.no_examples:
        result["examples"] = examples()
    tried = sum(result["random"].values())
    print(f"random scenarios: all the same | {tried - result['random']['different']} of {tried}")
    different = [name for name, what in result.get("examples", {}).items() if what != "same"]
    print(f"examples: all the same | {', '.join(different) or 'all'}")
    result["known_misses"] = [f"{name}: {result['examples'][name]}" for name in different]
    if options.json:
        print(json.dumps(result), file=sys.__stdout__)
    return 0


if __name__ == "__main__":
    sys.exit(main())
