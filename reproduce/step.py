"""Which step size? What `upbeat step` recommends, against every setting of its table, judged by known
solutions.

For each problem of problems/catalogue.py and each asked error, `up.recommend_step` finds a setting without
knowing the solution. Then every setting of the table (each coupling with each input approximation, steps from
a quarter of the run downwards, each half of the one before) that costs less than what was found is run, and
compared with the solution: the cheapest one with an error as asked is the best there is. Asked: what was
found has the error that was asked for, costs at most twice as much as the best, and all trials together at
most ten times as much as the run that was found, besides it. Where nothing in the table is good enough,
"undecided" is right.

Work is counted in calls of units and steps of their solvers. The error is the largest one of all judged
signals relative to their ranges; the time of an event may be off by that part of the run, and all events must
be there. Rows between the time of an event and when it should have been are not compared.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from problems.arguments import above_zero
from problems.catalogue import Case, cases

import upbeat as up
from upbeat.core.time import Span
from upbeat.judging.steps import work_of

ASKED = (1e-2, 1e-3, 1e-4)
WORSE, LIMIT = 2.0, 10.0
COUPLINGS = (up.Jacobi(), up.GaussSeidel(), up.Iterated(up.GaussSeidel(), corrections=1))
INPUTS = (up.Hermite(), up.Linear(), up.Hold())
LONG = 100_000
"""Where nothing was found, settings with so many steps are run, no more."""


def asked_about(case: Case) -> up.Experiment:
    """What the user has, with the signals that are judged, as long as the solution is known."""
    until = min(case.until, case.valid)
    return case.experiment.with_(record=case.signals, span=Span(0.0, until))


def true_error(case: Case, trace: up.Trace) -> float:
    """How far a run is from the solution."""
    until = float(trace.time[-1])
    kept = np.ones(len(trace), dtype=bool)
    late = 0.0
    for name, right in case.events.items():
        due = np.array([t for t in right if t < until * (1 - 1e-6)])
        seen = trace.events.times(name) if name in trace.events.names else np.zeros(0)
        seen = seen[seen < until * (1 - 1e-6)]
        if len(due) != len(seen):
            return math.inf
        for a, b in zip(due, seen, strict=True):
            kept &= (trace.time < min(a, b) - 1e-9) | (trace.time > max(a, b) + 1e-9)
            late = max(late, abs(float(a - b)))
    dense = case.reference(np.linspace(0.0, until, 4001))
    right = case.reference(trace.time)
    errors = [late / until]
    for name, values in right.items():
        with np.errstate(over="ignore", invalid="ignore"):
            off = np.abs(trace[name] - values)[kept]
        largest = float(np.max(off, initial=0.0))
        errors.append((largest if math.isfinite(largest) else math.inf) / float(np.ptp(dense[name])))
    return max(errors)


def table(made: up.Experiment, step: float, most: float) -> Iterator[tuple[up.Experiment, up.Trace]]:
    """Every setting whose calls of units alone are not more than `most`, run; those that fail are left
    out."""
    own = made.master
    fixed = own.coupling is not None and not isinstance(own.coupling, (up.Jacobi, up.GaussSeidel))
    ways = [(own.coupling, own.inputs)]
    ways += [(c, i) for c in ((own.coupling,) if fixed else COUPLINGS) for i in INPUTS]
    length = made.span.stop
    for coupling, inputs in dict.fromkeys(ways):
        size = step * 2.0 ** math.floor(math.log2(length / 4 / step))
        while length / size <= most:
            master = up.Master(up.Fixed(size), coupling, inputs, own.ports, own.simultaneous, own.events)
            changed = made.with_(master=master)
            size /= 2.0
            try:
                yield changed, changed.run()
            except up.RunError:
                continue
            except up.UpbeatError:
                break  # units that this coupling cannot work with


def measured(case: Case, asked: list[float]) -> Iterator[dict[str, Any]]:
    """What was found for one problem and each asked error, and what is true."""
    made = asked_about(case)
    found = [up.recommend_step(made, tolerance=error, seconds=600) for error in asked]
    most = max((one.best.work or 0 for one in found if one.best is not None), default=LONG)
    tried = [
        (work_of(changed, trace).total, true_error(case, trace), changed.master)
        for changed, trace in table(made, case.step, most)
    ]
    for error, advice in zip(asked, found, strict=True):
        good = [(work, master) for work, off, master in tried if off <= error]
        cheapest, how = min(good, key=lambda each: each[0], default=(math.inf, None))
        row: dict[str, Any] = {
            "case": case.name,
            "asked": error,
            "runs": advice.runs,
            "work": advice.work,
            "reason": advice.reason,
            "recommended": None if advice.best is None else f"{advice.best.step:.6g}, {advice.best.way}",
            "cheapest_is": None if how is None else f"{how.pace}, {how.coupling}, {how.inputs}",
        }
        if advice.best is None or advice.best.work is None:
            yield row | {"cheapest": _number(cheapest), "holds": how is None}
            continue
        cost, true = advice.best.work, true_error(case, advice.improved().run())
        cheapest = min(cheapest, cost) if true <= error else cheapest
        ratio, times = cost / cheapest, (advice.work - cost) / cost
        yield row | {
            "cost": cost,
            "cheapest": _number(cheapest),
            "ratio": _number(ratio),
            "trials": times,
            "estimate": advice.best.error,
            "true_error": _number(true),
            "holds": true <= error and ratio <= WORSE and times <= LIMIT,
        }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--asked", type=above_zero(float), action="append", help="an error (default: three)")
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
            for row in measured(case, options.asked or list(ASKED)):
                rows.append(row)
                if row["recommended"] is None:
                    text = f"undecided (cheapest {row['cheapest']}): {row['reason']}"
                else:
                    text = (
                        f"{row['cost']:8,} of {row['cheapest'] or math.nan:8,} "
                        f"({row['ratio'] or math.nan:4.2f} x), trials {row['trials']:5.2f} x, "
                        f"error {row['true_error'] or math.inf:.1e} (estimated {row['estimate']:.1e}): "
                        f"{row['recommended']}"
                    )
                mark = "  " if row["holds"] else "! "
                print(f"{mark}{case.name:27} {row['asked']:g}: {text}", flush=True)
    misses = [f"{row['case']}, {row['asked']:g}" for row in rows if not row["holds"]]
    print(f"{len(rows) - len(misses)} of {len(rows)} hold")
    if options.json:
        found = {"cases": rows, "n": len(rows), "holds": not misses, "known_misses": misses}
        print(json.dumps(found), file=sys.__stdout__)
    return 0


if __name__ == "__main__":
    sys.exit(main())
