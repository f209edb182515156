"""Two masses under a ceiling (Tischer, Genser, Watzenig and Benedikt): events lost, and events seen coming.

The two masses collide with each other (shared events) and with the ceiling (private ones). The reference is
the monolith, in which the solver locates all events. Every method runs the two masses as two units with steps
of 0.08 to t = 20, their own solvers at 1e-10; what differs is what inputs do in between, and the pace:

* fixed, fixed_hermite, fixed_0.01: steps of one size, inputs held or through values and derivatives.
* lookahead_hold, lookahead_published: the paper's prediction by straight lines, with inputs held, and with
  inputs from positions and velocities. With held inputs no prediction helps.
* best_first_derivatives: positions and velocities are known, accelerations are withheld.
* best: accelerations, too, from the equations; conditions by quintic Hermite polynomials, one unit after the
  other. best_jacobi: the units side by side, with 0.4 of a step after an event instead of one half.
* revision: no prediction, but units are set back, and a step is repeated to the event that it has gone past.
  Its rounds are the steps and those that were rejected.
* maestro_like, maestro_like_order_1: zero crossings of x1 - x2 - 2·dx and -dx - x1 extrapolated from their
  last values, as INTO-CPS Maestro does (problems/extrapolated.py says how we read it), with the inputs and
  the coupling of best_first_derivatives.

The table has every pace (fixed, published, best) with inputs that are held, that follow velocities, and that
follow accelerations, too.

The two masses as black boxes (problems/black_boxes.py) are FMUs without rollback, with events inside.

e_rms is the root of the mean square of |x1 - ref| + |x2 - ref| over all communication points. An event is
missed if none of its kind is within 0.1 of it, in the same order. The ensemble repeats `best` with random
starts. Paper | here.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from problems.extrapolated import Extrapolated

import upbeat as up

STEP, UNTIL, NEAR = 0.08, 20.0, 0.1
START = (-0.7, 3.5, -8.8, 3.0)
SOLVER = up.DormandPrince(rtol=1e-10, atol=1e-12)
REFERENCE = up.DormandPrince(rtol=1e-13, atol=1e-14)
UPPER = "(-(k1 + k2)*x - (d1 + d2)*v + k2*x2 + d2*v2)/m - g"
LOWER = "(-k2*(x - x1) - d2*(v - v1))/m - g"
VALUES = {"k2": 1.0, "d2": 0.01, "g": 9.81}
EVENTS = {
    "masses": {
        "when": ["upper.x - lower.x - 2*0.55", "upper.v - lower.v"],
        "then": {
            "upper.v": "((upper.m - lower.m)*upper.v + 2*lower.m*lower.v)/(upper.m + lower.m)",
            "lower.v": "((lower.m - upper.m)*lower.v + 2*upper.m*upper.v)/(upper.m + lower.m)",
        },
    },
    "ceiling": {"when": ["-0.55 - upper.x", "-upper.v"], "then": {"upper.v": "-upper.v"}},
}
CROSSINGS = (
    (((("upper", "x"), 1.0), (("lower", "x"), -1.0)), -2 * 0.55),
    (((("upper", "x"), -1.0),), -0.55),
)
PAPER = {"fixed": (250, 3.65), "lookahead_published": (282, 0.12), "fixed_0.01": (2000, 0.07)}

EventTimes = list[tuple[str, float]]


def two_masses(start: Sequence[float] = START) -> up.Scenario:
    """The scenario. Its units give out positions and velocities."""

    def mass(der: str, x: float, v: float, inputs: list[str], parameters: dict[str, float]) -> up.Ode:
        return up.Ode(
            {"x": "v", "v": der},
            start={"x": x, "v": v},
            inputs=inputs,
            parameters=parameters,
            solver=SOLVER,
        )

    x1, v1, x2, v2 = start
    return up.Scenario(
        {
            "upper": mass(UPPER, x1, v1, ["x2", "v2"], {**VALUES, "m": 0.2, "k1": 1.0, "d1": 0.01}),
            "lower": mass(LOWER, x2, v2, ["x1", "v1"], {**VALUES, "m": 0.3}),
        },
        {"upper.x2": "lower.x", "upper.v2": "lower.v", "lower.x1": "upper.x", "lower.v1": "upper.v"},
        events=EVENTS,
    )


def approximated(x: Any, v: Any) -> dict[str, Any]:
    """What inputs do, positions and velocities."""
    return {"upper.x2": x, "lower.x1": x, "upper.v2": v, "lower.v1": v}


def inputs() -> dict[str, dict[str, Any]]:
    """What inputs do, by name."""
    return {
        "hold": {},
        "velocities": approximated(up.Hermite(1), up.Linear()),
        "hermite": approximated(up.Hermite(2), up.Hermite(1)),
    }


def paces() -> dict[str, dict[str, Any]]:
    """Fixed, published and best, by name."""
    return {
        "fixed": {"pace": up.Fixed(STEP)},
        "published": {"pace": up.LookAhead(STEP, method="published", tolerance=0.002)},
        "best": {"pace": up.LookAhead(STEP), "coupling": up.GaussSeidel()},
    }


def crossed() -> dict[str, dict[str, Any]]:
    """Each pace with each kind of input."""
    return {
        f"{pace}_{kind}": {**settings, "ports": ports}
        for pace, settings in paces().items()
        for kind, ports in inputs().items()
    }


def methods() -> dict[str, dict[str, Any]]:
    """The settings of the run, by name."""
    hermite, velocities = inputs()["hermite"], inputs()["velocities"]
    parabolas = approximated(up.Hermite(1), up.Polynomial(2))
    published = paces()["published"]["pace"]
    positions = {"ports": parabolas, "coupling": up.GaussSeidel()}
    return {
        "fixed": {"pace": up.Fixed(STEP)},
        "fixed_hermite": {"pace": up.Fixed(STEP), "ports": hermite},
        "fixed_0.01": {"pace": up.Fixed(0.01)},
        "lookahead_hold": {"pace": published},
        "lookahead_published": {"pace": published, "ports": velocities},
        "best_first_derivatives": {"pace": up.LookAhead(STEP, symbolic=False), **positions},
        "best": {"pace": up.LookAhead(STEP), "ports": hermite, "coupling": up.GaussSeidel()},
        "best_jacobi": {"pace": up.LookAhead(STEP, after=0.4), "ports": hermite},
        "revision": {
            "pace": up.Revised(up.EventDriven(STEP)),
            "ports": hermite,
            "coupling": up.GaussSeidel(),
        },
        "maestro_like": {"pace": Extrapolated(STEP, CROSSINGS, order=2), **positions},
        "maestro_like_order_1": {"pace": Extrapolated(STEP, CROSSINGS, order=1), **positions},
    }


class Reference:
    """The monolith from one start, at any times. It keeps the time of its last event of each kind."""

    def __init__(self, start: Sequence[float]) -> None:
        whole = two_masses(start).monolith(REFERENCE).units["monolith"]
        assert isinstance(whole, up.Ode)
        spec = whole.to_spec()
        for kind in EVENTS:
            spec.setdefault("variables", {}).update({f"at_{kind}": 0.0, f"count_{kind}": 0.0})
            spec["events"][f"events_{kind}"]["then"] |= {
                f"at_{kind}": "time",
                f"count_{kind}": f"count_{kind} + 1",
            }
            spec["outputs"] |= {f"at_{kind}": f"at_{kind}", f"count_{kind}": f"count_{kind}"}
        self._whole = up.Ode(**spec)
        trace = up.simulate(up.Scenario({"both": self._whole}), pace=0.01, until=UNTIL)
        found: EventTimes = []
        for kind in EVENTS:
            counts = np.diff(trace[f"both.count_{kind}"], prepend=0.0)  # the first may be at the start
            assert counts.max() <= 1, "two events of one kind within 0.01 s"
            found += [(kind, float(t)) for t in trace[f"both.at_{kind}"][counts > 0]]
        self.events = sorted(found, key=lambda event: event[1])
        self.final = [float(trace[f"both.{unit}_{name}"][-1]) for unit in ("upper", "lower") for name in "xv"]

    def positions(self, times: np.ndarray) -> np.ndarray:
        """x1 and x2: a schedule makes the run go through all these times."""
        schedule = up.Schedule(at=[float(t) for t in times if t < UNTIL])
        units = {"both": self._whole, "times": schedule}
        trace = up.simulate(up.Scenario(units), pace=up.EventDriven(), until=UNTIL)
        rows = np.searchsorted(trace.time, times)
        assert np.array_equal(trace.time[rows], times)
        return np.array([trace["both.upper_x"][rows], trace["both.lower_x"][rows]])


def happened(trace: up.Trace) -> EventTimes:
    return [(event.name, float(event.time)) for event in trace.events]


def matched(found: EventTimes, wanted: EventTimes) -> int:
    """How many events of one list are in the other, too, in the same order: the longest such choice."""
    table = np.zeros((len(found) + 1, len(wanted) + 1), dtype=int)
    for i, (name, t) in enumerate(found, 1):
        for j, (other, at) in enumerate(wanted, 1):
            same = name == other and abs(t - at) <= NEAR
            table[i, j] = max(table[i - 1, j], table[i, j - 1], table[i - 1, j - 1] + same)
    return int(table[-1, -1])


def judged(trace: up.Trace, reference: Reference, events: EventTimes | None = None) -> dict[str, Any]:
    """Steps, the error, and how many events are missing or should not be there."""
    rows = trace.one_sided()
    exact = reference.positions(rows.time)
    error = np.abs(rows["upper.x"] - exact[0]) + np.abs(rows["lower.x"] - exact[1])
    events = happened(trace) if events is None else events
    right = matched(events, reference.events)
    return {
        "steps": trace.steps.count,
        "e_rms": float(np.sqrt(np.mean(error**2))),
        "missed": len(reference.events) - right,
        "spurious": len(events) - right,
    }


def tried(settings: dict[str, Any], start: Sequence[float], reference: Reference) -> dict[str, Any]:
    trace = up.simulate(two_masses(start), until=UNTIL, **settings)
    found = judged(trace, reference)
    rejected = sum(step.rejected for step in trace.steps)
    return found | ({"rounds": found["steps"] + rejected} if rejected else {})


def boxes(start: Sequence[float], reference: Reference) -> dict[str, Any]:
    """The two masses as FMUs, with steps of one size and looking ahead."""
    from problems import black_boxes as box

    with tempfile.TemporaryDirectory() as folder:
        scenario = box.black_boxes(box.made(Path(folder)), start, EVENTS)
        found = {}
        for name, pace in box_paces().items():
            trace = up.simulate(scenario, pace=pace, until=UNTIL)
            found[name] = judged(trace, reference, box.happened(trace))
    return found


def box_paces() -> dict[str, Any]:
    return {
        "fixed": up.Fixed(STEP),
        "lookahead": up.LookAhead(STEP, method="published", tolerance=0.002),
        "lookahead_auto": up.LookAhead(STEP),
    }


def random_starts(seed: int) -> Any:
    """Starts from which there are at least three events, and their references."""
    random = np.random.default_rng(seed)
    while True:
        x1 = random.uniform(-6, -0.8)
        x2 = x1 - 1.1 - random.uniform(0.3, 7)
        v1, v2 = random.uniform(-6, 6, 2)
        start = (float(x1), float(v1), float(x2), float(v2))
        reference = Reference(start)
        if len(reference.events) >= 3:
            yield start, reference


def ensemble(n: int, seed: int) -> dict[str, Any]:
    """The best method from `n` random starts."""
    right, errors = 0, []
    for _, (start, reference) in zip(range(n), random_starts(seed), strict=False):
        found = tried(methods()["best"], start, reference)
        right += found["missed"] == found["spurious"] == 0
        errors.append(found["e_rms"])
    return {
        "n": n,
        "all_events_right": right,
        "median_e_rms": float(np.median(errors)),
        "max_e_rms": float(np.max(errors)),
    }


def line(name: str, here: dict[str, Any], paper: tuple[int, float] | None) -> str:
    theirs = "" if paper is None else "{} {}".format(*paper)
    counts = f"{here['missed']:8}{here['spurious']:10}"
    rounds = f"   ({here['rounds']} rounds)" if "rounds" in here else ""
    return f"{name:28}{theirs:>10} |{here['steps']:6}{here['e_rms']:10.2g}{counts}{rounds}"


def four_numbers(text: str) -> tuple[float, ...]:
    """A start from the command line."""
    try:
        found = tuple(float(number) for number in text.split(","))
    except ValueError:
        found = ()
    if len(found) != len(START) or not np.all(np.isfinite(found)):
        example = ",".join(map(str, START))
        raise argparse.ArgumentTypeError(f"{text!r} is not x1,v1,x2,v2: four numbers such as {example}")
    return found


def count(text: str) -> int:
    """A whole number from the command line that is not negative."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a count: 0, 1, 2, …")
    return int(text)


def joined(words: Sequence[str]) -> list[str]:
    """``--x0 -0.7,…`` as one word: argparse would take the second for an option."""
    found: list[str] = []
    for word in words:
        if found and found[-1] == "--x0" and not word.startswith("--"):
            found[-1] = f"--x0={word}"
        else:
            found.append(word)
    return found


def main() -> int:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument(
        "--json", action="store_true", help="one JSON object on standard output, tables on the other"
    )
    arguments.add_argument("--x0", type=four_numbers, default=START, help="another start: x1,v1,x2,v2")
    arguments.add_argument("--n", type=count, default=100, help="how many random starts; 0 for none")
    arguments.add_argument("--seed", type=count, default=0, help="of the random starts")
    options = arguments.parse_args(joined(sys.argv[1:]))
    if options.json:
        sys.stdout = sys.stderr  # tables are for people: the object is alone on standard output
    start = options.x0
    reference = Reference(start)
    print("reference:", ", ".join(f"{name[0].upper()} {t:.9f}" for name, t in reference.events))
    print("state at the end:", ", ".join(f"{number:.10f}" for number in reference.final), "\n")
    print(f"{'method':28}{'paper':>10} |{'steps':>6}{'e_rms':>10}{'missed':>8}{'spurious':>10}")
    result: dict[str, Any] = {"reference": {"events": reference.events, "final": reference.final}}
    for title, cases in (("methods", methods()), ("table", crossed())):
        result[title] = {}
        for name, settings in cases.items():
            here = result[title][name] = tried(settings, start, reference)
            print(line(name, here, PAPER.get(name)))
        print()
    if any(map(shutil.which, ("cc", "gcc", "clang"))):
        result["black_boxes"] = boxes(start, reference)
        for name, here in result["black_boxes"].items():
            print(line(f"black boxes, {name}", here, None))
    else:
        print("\nblack boxes are left out: there is no C compiler to make them")
    if options.n > 0:
        many = result["ensemble"] = ensemble(options.n, options.seed)
        print(
            f"\nbest from {many['n']} random starts: all events right in {many['all_events_right']}, "
            f"e_rms {many['median_e_rms']:.2g} in the median and {many['max_e_rms']:.2g} at most"
        )
    if options.json:
        print(json.dumps(result), file=sys.__stdout__)
    return 0


if __name__ == "__main__":
    sys.exit(main())
