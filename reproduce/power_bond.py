"""What a coupling creates at a power bond, with and without the correction of Benedikt and Hofer (NEPCE).

A force and a velocity are exchanged. Both units add up, with their own solvers, the energy that goes through
their side of the bond, by what they were given; the *residual* is the difference, as a signal. Its root mean
square over the communication points is compared, and its largest value and what is left of it at the end are
told.

* *Dejaco and Benedikt* (2017): two masses on springs under a ceiling, which collide, at steps of 0.3 s up to
  5 s, by their algorithm: the upper unit goes first, on a force that is extrapolated along a line, and stops
  at events; the other one follows on the cubic Hermite interpolant of its velocity. The spring between the
  masses belongs to the lower unit, so that the bond is the force and the velocity of the upper mass.
* *Stiff*: two masses with a spring between them that is 10⁴ times as stiff as the one that holds the first.

Beside it, steps by the energy residual (Sadjina and others, 2017): for each tolerance the steps that are made
and the residual relative to the energy that goes through.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from typing import Any

import numpy as np

import upbeat as up

GOAL = 10.0
TIGHT = up.DormandPrince(rtol=1e-10, atol=1e-12)


def masses(
    m: tuple[float, float], k: tuple[float, float], d: tuple[float, float], start: dict[str, float], g: float
) -> dict[str, up.Model]:
    """The upper mass with its spring, and the lower one with the spring between them."""
    upper = up.Ode(
        {"x": "v", "v": f"(F - {k[0]}*x - {d[0]}*v)/{m[0]} - {g}", "E": "F*v"},
        inputs=["F"],
        start={"x": start["x1"], "v": start["v1"]},
        outputs=["x", "v", "E"],
        solver=TIGHT,
    )
    lower = up.Ode(
        {"s": "w - v", "w": f"-F/{m[1]} - {g}", "E": "F*v"},
        inputs=["v"],
        locals={"F": f"{k[1]}*s + {d[1]}*(w - v)"},
        start={"s": start["x2"] - start["x1"], "w": start["v2"]},
        outputs=["s", "w", "F", "E"],
        solver=TIGHT,
    )
    return {"upper": upper, "lower": lower}


BOND = {"upper.F": "lower.F", "lower.v": "upper.v"}


def dejaco_benedikt() -> up.Scenario:
    start = {"x1": -0.7, "v1": 3.5, "x2": -8.8, "v2": 3.0}
    collide = "((0.2 - 0.3)*upper.v + 0.6*lower.w)/0.5", "((0.3 - 0.2)*lower.w + 0.4*upper.v)/0.5"
    return up.Scenario(
        masses((0.2, 0.3), (1.0, 1.0), (0.01, 0.01), start, 9.81),
        BOND,
        events={
            "masses": {
                "when": "lower.s >= -1.1 and upper.v < lower.w",
                "then": {"upper.v": collide[0], "lower.w": collide[1]},
            },
            "ceiling": {"when": "upper.x >= -0.55 and upper.v > 0", "then": {"upper.v": "-upper.v"}},
        },
    )


def stiff() -> up.Scenario:
    start = {"x1": 1.0, "v1": 0.0, "x2": 1.0, "v2": 20.0}
    return up.Scenario(masses((1.0, 1.0), (1.0, 1e4), (0.0, 0.0), start, 0.0), BOND)


def residual(trace: up.Trace) -> dict[str, float]:
    created = trace["upper.E"] - trace["lower.E"]
    through = np.abs(np.diff(trace["upper.E"])).sum()
    return {
        "rms": float(np.sqrt(np.mean(created**2))),
        "largest": float(np.abs(created).max()),
        "final": float(created[-1]),
        "through": float(through),
    }


CASES: dict[str, tuple[Any, dict[str, Any], tuple[Any, ...]]] = {
    "dejaco_benedikt": (
        dejaco_benedikt,
        {"pace": up.Fixed(0.3), "until": 5.0, "coupling": up.Interruptible(leader="upper"),
         "ports": {"lower.v": up.Hermite()}},
        (up.Linear(),),
    ),
    "stiff": (stiff, {"pace": up.Fixed(1e-4), "until": 1.0}, (up.Hold(), up.Linear())),
}  # fmt: skip


def compared(name: str) -> dict[str, Any]:
    """A case without and with the correction, for each approximation."""
    make, settings, kinds = CASES[name]
    found: dict[str, Any] = {}
    for plain in kinds:
        without, with_ = (
            residual(up.simulate(make(), inputs=inputs, **settings)) for inputs in (plain, up.Nepce(plain))
        )
        kind = type(plain).__name__.lower()
        found[kind] = {"without": without, "with": with_, "ratio": without["rms"] / with_["rms"]}
    return found


def paced() -> list[dict[str, float]]:
    rows = []
    for tolerance in (1e-1, 1e-2, 1e-3):
        pace = up.ErrorControl(
            tolerance, method="energy", correct="next", bonds=(("lower.F", "upper.v"),), longest=0.01
        )
        trace = up.simulate(stiff(), pace=pace, until=1.0, inputs=up.Linear())
        found = residual(trace)
        part = found["largest"] / found["through"]
        rows.append({"tolerance": tolerance, "steps": trace.steps.count, "residual": part})
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    options = parser.parse_args()
    if options.json:
        sys.stdout = sys.stderr
    logging.getLogger("upbeat.run").setLevel(logging.ERROR)  # of grazing ceilings the paper knows, too
    result: dict[str, Any] = {name: compared(name) for name in CASES}
    result["energy_pace"] = paced()
    print(
        f"{'energy residual, J':24} {'rms without':>12} {'with NEPCE':>12} {'ratio':>8} "
        f"{'largest':>18} {'final':>18}"
    )
    misses = []
    for name in CASES:
        for kind, row in result[name].items():
            one, other = row["without"], row["with"]
            print(
                f"{name + ', ' + kind:24} {one['rms']:12.4g} {other['rms']:12.4g} {row['ratio']:7.1f}× "
                f"{one['largest']:8.3g} → {other['largest']:7.3g} {one['final']:8.3g} → {other['final']:7.3g}"
            )
        best = max(row["ratio"] for row in result[name].values())
        if best < GOAL:
            misses.append(f"{name}: {best:.1f} of {GOAL:g}")
    for row in result["energy_pace"]:
        print(
            f"steps by energy, tolerance {row['tolerance']:g}: {row['steps']} steps, "
            f"residual {row['residual']:.2g}"
        )
    result["known_misses"] = misses
    if options.json:
        print(json.dumps(result), file=sys.__stdout__)
    return 0


if __name__ == "__main__":
    sys.exit(main())
