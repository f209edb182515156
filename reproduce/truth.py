"""Nothing wrong is silent: what Upbeat says of random scenarios, each against a judge of its own.

* Verdicts on stability: random couplings of units of equations, Python controllers, sampled controllers,
  kinks, coefficients that depend on time, nests and several rates (`problems/truth_verdicts.py`), against
  long runs and against step maps that are derived a second time with matrix exponentials.
  A false "stable" is the worst that can happen; "undecided" is counted, and is no mistake.
* Tiny steps: ticks, kicks and events at any distance from communication points and from each other, with all
  approximations of inputs and all paces (`problems/truth_tiny_steps.py`), against matrix exponentials. The
  error is compared with that of the plain run, steps of one size: the worst ratio counts.
* Events: random systems of two masses that collide (`problems/truth_events.py`), with nothing chosen by the
  user but a step: every event is met, or a warning says that some may not be; never silently worse than fixed
  steps.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any

from problems import truth_events, truth_tiny_steps, truth_verdicts
from problems.arguments import above_zero

PARTS: dict[str, tuple[Callable[..., dict[str, Any]], int]] = {
    "verdicts": (truth_verdicts.verdicts, 2000),
    "tiny_steps": (truth_tiny_steps.tiny_steps, 1000),
    "events": (truth_events.events, 300),
}
"""What is judged, and how many random cases of it."""


def told(name: str) -> Callable[[int, int], None]:
    """Progress on the terminal, if there is one."""

    def show(done: int, of: int) -> None:
        if sys.stderr.isatty():
            print(f"\r{name}: {done} of {of}", end="\n" if done == of else "", file=sys.stderr)

    return show


def table(name: str, found: dict[str, Any]) -> None:
    """One part for people."""
    print(f"\n{name}")
    for key, value in found.items():
        if isinstance(value, dict):
            print(f"  {key}")
            for inner, entry in value.items():
                print(f"    {inner!s:40} {entry}")
        elif isinstance(value, list):
            print(
                "\n".join([f"  {key}", *(f"    {entry}" for entry in value[:20])])
                if value
                else f"  {key}: none"
            )
        else:
            print(f"  {key:42} {value}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON object on standard output, tables on the other"
    )
    parser.add_argument("--only", choices=PARTS, action="append", help="this part only; may be repeated")
    parser.add_argument("--seed", type=int, default=0, help="where random numbers begin")
    parser.add_argument(
        "--scale", type=above_zero(float), default=1.0, help="this part of the usual number of cases"
    )
    options = parser.parse_args()
    if options.json:
        sys.stdout = sys.stderr  # tables are for people: the object is alone on standard output
    result: dict[str, Any] = {}
    for name, (part, n) in PARTS.items():
        if options.only is None or name in options.only:
            result[name] = part(max(1, round(n * options.scale)), options.seed, progress=told(name))
            table(name, result[name])
    misses = [
        f"{name}: {key} is {result[name][key]}"
        for name, key in (
            ("verdicts", "false_stable"),
            ("verdicts", "false_unstable"),
            ("events", "wrong_silent"),
        )
        if result.get(name, {}).get(key, 0) > 0
    ]
    print("\nok" if not misses else "\nNOT as expected: " + "; ".join(misses))
    if options.json:
        print(json.dumps({**result, "known_misses": misses}), file=sys.__stdout__)
    return 0


if __name__ == "__main__":
    sys.exit(main())
