"""Is what `up.trust` says about errors true? Seventeen problems with known solutions, each with its settings.

For each signal of `problems/catalogue.py` the estimated error is compared with the true one (both the largest
over the rows of the run, apart from rows between an event and the same event of the reference): their ratio
should lie within 0.3 … 3. Where the true error is below 1e-8 of the range of the signal (rounding, tolerances
of solvers), a ratio says nothing: it counts as right if the estimate is below 1e-6, too, and `ratio` is null.
Of a chaotic system both count up to the time at which the reference itself is known to 1e-6 only, and the
verdict is right if it is not "good" and says from when on errors at single times make no sense.

A verdict is right if "good" is said of an error within the tolerance (1 % of the range) and "not good" of one
beyond it. "undecided" is never wrong, and counted.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from problems.catalogue import Case, cases

import upbeat as up
from upbeat.judging.comparing import compare
from upbeat.trace.events import EventKind, EventLog

NOTHING, NEARLY = 1e-8, 1e-6
"""Of the range: true errors below the first are rounding, and estimates should be below the second."""
WITHIN = (0.3, 3.0)


def truth(case: Case, base: up.Trace) -> up.Trace:
    """The reference at the rows of a run (before a jump, where it has two rows of one time), with events."""
    time = base.time
    first = np.concatenate([np.diff(time) <= 0, [False]])
    exact = case.reference(time)
    before = case.reference(np.maximum(time - 1e-10 * np.maximum(1.0, np.abs(time)), time[0]))
    values = {name: np.where(first, before[name], exact[name]) for name in exact}
    found = up.Trace.from_arrays(time, values)
    log = EventLog([EventKind(name) for name in case.events])
    for t, name in sorted((t, name) for name, times in case.events.items() for t in times):
        log.append(name, t, 0, None)
    found.events = log
    return found


def judged(case: Case, tolerance: float, seconds: float) -> list[dict[str, Any]]:
    """What is said about each signal of a case, and what is true."""
    result = up.trust(case.experiment, tolerance=tolerance, seconds=seconds)
    base = result.trace
    if base is None:
        return []
    true = compare(base, truth(case, base))
    grid = np.linspace(0.0, min(case.until, case.valid), 5001)
    scales = {name: float(np.ptp(values)) for name, values in case.reference(grid).items()}
    rows = []
    for name in case.signals:
        said = result.signals[name]
        early = base.time <= case.valid
        scale = scales[name]
        error = float(np.nanmax(np.abs(true[name].error[early]))) / scale
        whole = np.isfinite(true[name].error) & early
        estimate = said.error if early.all() else float(np.nanmax(said.band[whole]))
        estimate /= scale
        nothing = error < NOTHING
        ratio = None if nothing else estimate / error
        close = estimate < NEARLY if nothing else WITHIN[0] <= estimate / error <= WITHIN[1]
        right = said.verdict == "undecided" or (said.verdict == "good") == (error <= tolerance)
        if not early.all():  # nobody knows the truth beyond: it may not be called good, and must be said
            right = said.verdict != "good" and (error > tolerance or said.horizon is not None)
        rows.append(
            {
                "name": f"{case.name}: {name}", "kind": case.kind, "true_error": error, "estimate": estimate,
                "ratio": ratio, "within": bool(close), "verdict": said.verdict, "verdict_right": bool(right),
                "order": said.order, "orders": said.orders, "reason": said.reason, "horizon": said.horizon,
            }
        )  # fmt: skip
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    parser.add_argument("--only", action="append", help="cases whose name contains this; may be repeated")
    parser.add_argument("--tolerance", type=float, default=0.01, help="of the range of each signal (0.01)")
    parser.add_argument("--seconds", type=float, default=60.0, help="for all runs of a case (60)")
    options = parser.parse_args()
    if options.json:
        sys.stdout = sys.stderr  # tables are for people: the object is alone on standard output
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for case in cases(Path(folder)).values():
            if options.only and not any(part in case.name for part in options.only):
                continue
            found = judged(case, options.tolerance, options.seconds)
            for row in found:
                ratio = "   -" if row["ratio"] is None else f"{row['ratio']:6.2f}"
                mark = "" if row["within"] and row["verdict_right"] else "  <--"
                print(
                    f"{row['name']:40} {row['true_error']:9.2e} {row['estimate']:9.2e} {ratio:>7} "
                    f"{row['verdict']:10} {row['reason'][:90]}{mark}"
                )
            rows += found
    within = sum(row["within"] for row in rows)
    wrong = [row["name"] for row in rows if not row["verdict_right"]]
    false_good = [row["name"] for row in rows if row["verdict"] == "good" and not row["verdict_right"]]
    undecided = sum(row["verdict"] == "undecided" for row in rows)
    print(
        f"\n{within} of {len(rows)} estimates within {WITHIN[0]:g} … {WITHIN[1]:g} of the truth, "
        f"{len(wrong)} verdicts wrong ({len(false_good)} good that are not), {undecided} undecided"
    )
    misses = [f"{name}: the verdict is wrong" for name in wrong]
    if rows and within < 0.9 * len(rows):
        misses.append(f"only {within} of {len(rows)} estimates are within {WITHIN[0]:g} … {WITHIN[1]:g}")
    if options.json:
        result = {
            "cases": rows, "within_0.3_3": within, "n": len(rows), "undecided": undecided,
            "good_that_is_not": len(false_good), "known_misses": misses,
        }  # fmt: skip
        print(json.dumps(result), file=sys.__stdout__)
    return 0


if __name__ == "__main__":
    sys.exit(main())
