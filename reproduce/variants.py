"""The search space of a flight-control case, and its variants in order (Gomes and others, 2019).

The two hints of the thesis, as they are printed, are read and applied to a scenario with the units of its
case study; its rules make a search space of them. The same space, with two steps and two rates of the
environment, is also given as data. Both have four variants, and must come in the same order.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import upbeat as up
from upbeat.hints.language import about, parse_hints
from upbeat.hints.rules import OF_HINTS, Known, search_space
from upbeat.hints.space import Candidate, Choice, Corrected, Option, Rated, SearchSpace, schedule_of

HINTS = """
Hint ExecRate{
  description "Controller FMU is software."
  statements {
    Property ExecRate :=
      FMUProperty FMU1.exec_rate == val 1.0e+6 hz
  }
  scope Globally
  pattern Universality:always-the-case-that ExecRate holds
}
Hint PowerBond{
  description "Plant/Load FMUs share a power connection."
  statements {
    Property PowerBond :=
      Plant.f == PowerBondSuggestions with Load.v
  }
  scope Globally
  pattern Universality:always-the-case-that PowerBond holds
}
"""
PRINTED = [(1e-7, 100), (1e-7, 10), (1e-6, 100), (1e-6, 10)]


def scenario() -> up.Scenario:
    """The units of the case study: who gives what to whom is all that matters here."""
    return up.Scenario(
        {
            "FMU1": up.Ode({"s": "ref - x"}, inputs=["x", "ref", "psu"], outputs={"u": "s"}),
            "Plant": up.Ode({"v": "u - f"}, inputs=["u", "f"], outputs=["v"]),
            "Load": up.Ode({"x": "w", "w": "s", "s": "v - w"}, inputs=["v"], outputs={"xaft": "x", "f": "s"}),
            "Environment": up.Function(outputs={"psu": "28", "ref": "1 if time >= 1 else 0"}),
        },
        {
            "FMU1.x": "Load.xaft", "FMU1.ref": "Environment.ref", "FMU1.psu": "Environment.psu",
            "Plant.u": "FMU1.u", "Plant.f": "Load.f", "Load.v": "Plant.v",
        },
    )  # fmt: skip


def as_data() -> SearchSpace:
    """The search space as it is drawn: two steps, and two rates of the environment."""
    rates = tuple(Option(n, w, (Rated(("Environment",), n),)) for n, w in ((100, 2.0), (10, 1.0)))
    steps = Option(1e-6, 3.0), Option(1e-7, 4.0)
    bond = Corrected(("Plant.f", "Load.v"), 1)
    return SearchSpace((Candidate((Choice("R", rates), Choice("H", steps)), (bond,)),))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    options = parser.parse_args()
    if options.json:
        sys.stdout = sys.stderr
    made = up.experiment(scenario(), step=1e-6, until=1.0)
    known = Known(made, about(made.scenario, parse_hints(HINTS), span=1.0))
    from_hints = list(search_space(known, OF_HINTS).variants())
    found = [variant.values for variant in from_hints]
    data = [variant.values for variant in as_data().variants()]
    print(f"{'printed':>16} {'from hints':>16} {'from data':>16}")
    rows: list[tuple[Any, ...]] = list(zip(PRINTED, found, data, strict=False))
    for row in rows:
        print(" ".join(f"{one!s:>16}" for one in row))
    schedule = schedule_of(from_hints[0], known.units, known.links)
    print(f"A possible order of operations: {schedule.text}")
    misses = [] if found == data == PRINTED else ["other variants than printed, or in another order"]
    result = {
        "variants": [list(one) for one in found],
        "schedule": [str(one) for one in schedule.order],
        "known_misses": misses,
    }
    if options.json:
        print(json.dumps(result), file=sys.__stdout__)
    return 0


if __name__ == "__main__":
    sys.exit(main())
