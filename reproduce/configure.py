"""`upbeat configure` without hints, on coupled problems with known solutions.

For each problem of problems/catalogue.py, `up.configure` looks for the best master without knowing the
solution. Then every variant of its search space is run (those that do the same once) and compared with the
solution. Asked: what was found has a true error within a factor of three of the best of the whole space, and
all that was done for it is less than a tenth of the work of trying all, on twelve problems.

Work is counted in calls of units and steps of their solvers. Errors are the largest of all judged signals,
relative to their ranges; the time of an event may be off by that part of the run, and all events must be
there. Where a solution is known to so many digits only, or units are solved no better, errors below that are
alike (`floor`).
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import sys
import tempfile
from pathlib import Path
from typing import Any

from problems.catalogue import Case, cases
from step import asked_about, true_error

import upbeat as up
from upbeat.hints.language import Read
from upbeat.hints.rules import Known, realised, search_space
from upbeat.judging.steps import with_less_patience, work_of

FACTOR, PART, WANTED = 3.0, 0.1, 12
FLOOR = 1e-9
"""Units are solved with tolerances of 1e-10: what is below this is noise of their solvers."""


def tried(case: Case, made: up.Experiment) -> dict[str, Any]:
    """All variants of the search space, run: the best of them, and what that costs."""
    known = Known(made, Read((), ()))
    best, how, work, count, failed = math.inf, "", 0, 0, 0
    programs: list[Any] = []
    for variant in search_space(known).variants():
        try:
            one = with_less_patience(realised(known, variant).experiment)
            program = one.plan.program
            same = (variant.chosen["step"], program.steps)
            if same in programs:
                continue
            programs.append(same)
            count += 1
            trace = one.run()
        except up.UpbeatError as error:
            failed += 1
            partial = getattr(error, "trace", None)
            if partial is not None:
                work += work_of(one, partial).total
            continue
        work += work_of(one, trace).total
        error_ = true_error(case, trace)
        if error_ < best:
            best, how = error_, str(variant)
    return {"best_error": best, "best": how, "all_work": work, "variants": count, "failed": failed}


def measured(case: Case) -> dict[str, Any]:
    """What was found for one problem, and what is true."""
    made = asked_about(case)
    found = up.configure(made, seconds=600)
    row: dict[str, Any] = {"case": case.name, "reason": found.reason, "work": found.work}
    row |= tried(case, made)
    row["part"] = found.work / row["all_work"] if row["all_work"] else math.inf
    if found.best is None:
        return row | {"holds": False, "error": None, "recommended": None}
    error = true_error(case, found.improved().run())
    within = max(error, FLOOR) <= FACTOR * max(row["best_error"], FLOOR)
    return row | {
        "recommended": str(found.best.variant),
        "error": error if math.isfinite(error) else None,
        "estimate": found.best.error,
        "factor": error / row["best_error"] if row["best_error"] else None,
        "holds": within and row["part"] < PART,
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", help="problems with this in their name; repeatable")
    parser.add_argument("--json", action="store_true", help="one JSON object, alone on standard output")
    options = parser.parse_args()
    if options.json:
        sys.stdout = sys.stderr  # tables are for people
    logging.disable(logging.WARNING)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for case in cases(Path(folder)).values():
            if options.only and not any(part in case.name for part in options.only):
                continue
            row = measured(case)
            rows.append(row)
            print(
                f"{'  ' if row['holds'] else '! '}{case.name:27} error {row['error'] or math.nan:8.1e}, best "
                f"{row['best_error']:8.1e}; work {100 * row['part']:5.1f} % of {row['variants']} variants: "
                f"{row['recommended'] or row['reason']}",
                flush=True,
            )
            if row["best"]:
                print(f"{'':31}best of all: {row['best']}", flush=True)
    hold = [row["case"] for row in rows if row["holds"]]
    print(f"{len(hold)} of {len(rows)} hold; {WANTED} are asked for")
    if options.json:
        misses = [row["case"] for row in rows if not row["holds"]]
        told = {"cases": rows, "n": len(rows), "hold": len(hold), "asked": WANTED, "known_misses": misses}
        print(json.dumps(told), file=sys.__stdout__)
    return 0


if __name__ == "__main__":
    sys.exit(main())
