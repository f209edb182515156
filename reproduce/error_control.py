"""Error-controlled steps on ten coupled problems with known solutions.

A tolerance is worth its name when the error of the result follows it: the slope of log(error) over
log(tolerance) should be 1, whatever the problem, for tolerances from 1e-3 to 1e-7. Units are solved to
1e-12, so that what is left is the error of the coupling: the largest deviation of any state at any
communication point, relative to 1 + |state|. Solutions are closed forms or the undivided equations
solved to 1e-13. Expected | here, for Richardson and for Milne, and one master for all ten problems:
units side by side (Jacobi) with linear inputs. Linear for two reasons (and knowing that quadratic
ones miss on one problem, see below). A run starts without a past, and the step that holds its inputs costs
H², the order of linear inputs, so that fixed steps are not at a disadvantage when work is compared. And the
error is c·tolerance·(1 + d·tolerance^(1/p) + …) for inputs of order p: the second term falls soonest with
the lowest order.

The same with quadratic inputs (p = 3) is printed beside it and not judged, because one problem is outside:
predator and prey from (2, 1) has a slope of 1.22 with Richardson. The control is not at fault: the errors
of the leading order happen to cancel on this orbit (c = 0.13; 1.0 to 1.6 from (1.2, 1) or (3, 1)), so that
the second term rules up to 1e-6. `TAIL` continues that problem to 1e-9, where the slope must be 1.

The work is the number of steps that units make, rejected ones included (a Richardson step is three),
over that of the best fixed step: the fewest steps of one size with at most the same error, found by
trying every number of steps from below in ratios of 1.1 (an error need not fall with every one of them).
There is no expectation for it: where the solution is equally curved everywhere, fixed steps are best.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from problems.known import PROBLEMS, Problem

import upbeat as up

TOLERANCES = [1e-3, 1e-4, 1e-5, 1e-6, 1e-7]
METHODS = ("richardson", "milne")
COMPARED = 1e-5
"""The tolerance at which work is compared with fixed steps."""
TAIL = [1e-7, 1e-8, 1e-9]
"""For a problem whose slope with quadratic inputs is not yet 1 at the other tolerances."""
JUDGED, BESIDE = up.Linear(), up.Polynomial(2)
RATIO = 1.1
"""Between the numbers of fixed steps that are tried."""


def deviation(problem: Problem, pace: Any, inputs: Any = JUDGED) -> tuple[float, int]:
    """The largest relative deviation of any state, and how many steps each unit has made."""
    trace = up.simulate(
        problem.scenario(), pace=pace, until=problem.until, inputs=inputs, record=list(problem.states)
    )
    here = np.array([trace[name] for name in problem.states])
    exact = problem.exact(trace.time)
    each = 3 if isinstance(pace, up.ErrorControl) and pace.method == "richardson" else 1
    error = float(np.max(np.abs(here - exact) / (1 + np.abs(exact))))
    return error, each * (trace.steps.count + trace.steps.rejected)


def slope(tolerances: list[float], errors: list[float]) -> float:
    """Of log(error) over log(tolerance), by least squares."""
    return float(np.polyfit(np.log(tolerances), np.log(errors), 1)[0])


def close(found: float) -> bool:
    return abs(found - 1) <= 0.2


class Fixed:
    """The errors of fixed steps on a problem, from few steps to many."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.errors: dict[int, float] = {}

    def fewest(self, error: float) -> int:
        """The fewest steps of one size with at most this error."""
        for steps in self._numbers():
            if steps not in self.errors:
                self.errors[steps] = self._error(steps)
            if self.errors[steps] <= error:
                return steps
        raise AssertionError("numbers do not end")

    def _error(self, steps: int) -> float:
        try:
            return deviation(self.problem, up.Fixed(self.problem.until / steps))[0]
        except up.UnitError:  # steps so long that a unit left the numbers
            return np.inf

    def _numbers(self) -> Iterator[int]:
        steps = 10
        while True:
            yield steps
            steps = int(np.ceil(steps * RATIO))


def judged(name: str, method: str, fixed: Fixed) -> tuple[float, list[float], float]:
    """The row of a problem: slope, errors, and work over that of fixed steps."""
    runs = {t: deviation(PROBLEMS[name], up.ErrorControl(t, method=method)) for t in TOLERANCES}
    errors = [error for error, _ in runs.values()]
    found = slope(TOLERANCES, errors)
    error, steps = runs[COMPARED]
    ratio = steps / fixed.fewest(error)
    print(f"{name:20}{method:12}{'1 ± 0.2':>15} |{found:7.3f}", end="")
    print(f"    {errors[0]:.1e} … {errors[-1]:.1e}    {steps:7} steps, {ratio:5.2f} ×", end="", flush=True)
    return found, errors, ratio


def beside(name: str, method: str, tolerances: list[float]) -> float:
    """The slope with quadratic inputs."""
    runs = [deviation(PROBLEMS[name], up.ErrorControl(t, method=method), BESIDE) for t in tolerances]
    return slope(tolerances, [error for error, _ in runs])


def main() -> int:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument(
        "--json", action="store_true", help="one JSON object on standard output, tables on the other"
    )
    options = arguments.parse_args()
    if options.json:
        sys.stdout = sys.stderr  # tables are for people: the object is alone on standard output
    result: dict[str, dict[str, dict[str, Any]]] = {
        what: {method: {} for method in METHODS} for what in ("slopes", "errors", "work", "quadratic")
    }
    tails: dict[str, float] = {}
    print(f"{'problem':20}{'method':12}{'expected slope':>15} |{'here':>7}", end="")
    print(f"    error at {TOLERANCES[0]:g} … {TOLERANCES[-1]:g}   work over fixed at {COMPARED:g}", end="")
    print("   slope with quadratic inputs")
    for name, problem in PROBLEMS.items():
        fixed = Fixed(problem)
        for method in METHODS:
            found = judged(name, method, fixed)
            for what, value in zip(("slopes", "errors", "work"), found, strict=True):
                result[what][method][name] = value
            other = result["quadratic"][method][name] = beside(name, method, TOLERANCES)
            print(f"{other:12.3f}", end="" if not close(other) else "\n")
            if not close(other):
                tail = tails[f"{name}, {method}"] = beside(name, method, TAIL)
                print(f" (outside; {tail:.3f} from {TAIL[0]:g} to {TAIL[-1]:g}: errors that cancel)")
    ok = all(close(found) for table in result["slopes"].values() for found in table.values())
    ok = ok and all(close(tail) for tail in tails.values())
    print("ok" if ok else "NOT as expected")
    if options.json:
        slopes = result.pop("slopes")
        found = {"slopes": slopes["richardson"], "milne": slopes["milne"], "tolerances": TOLERANCES}
        print(json.dumps({**found, **result, "quadratic_tails": tails, "ok": ok}), file=sys.__stdout__)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
