"""Delays of modular and refined co-simulation (Ben Khaled et al. 2014, sections 4, 5 and 7).

Two scenarios whose units all have direct feedthrough: figure 5 of the paper, as far as its text tells, and
ten units that are coupled like an engine (`examples/ten_units.toml`). With held inputs their outputs are
known in closed form, so the delay of a signal can be read off its values, in communication steps. The paper
says: one with the modular methods, whatever the order of the units, and none with the refined one.

Its table 2 is the error of the torque, a direct-feedthrough output, for three communication steps. Here the
torque is that of the ten units (`engine.py` has one with physics); what must come out is that the error of
the modular methods grows with the step while that of the refined one stays small. Its formula (6) divides
by the reference value, which is no good where that crosses zero: beside it stands the mean error over the
mean reference.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import upbeat as up

METHODS = ("sv", "ev", "refined")
PAPER_DELAY = {"sv": 1, "ev": 1, "refined": 0}
PAPER_ERROR = {100: (2.95, 4.38, 0.68), 250: (9.12, 9.33, 1.10), 500: (19.83, 19.19, 1.37)}
"""Table 2: the communication step in microseconds, and percent by method."""
EXAMPLE = Path(__file__).parents[1] / "examples" / "ten_units.toml"
H, STEPS, UNTIL = 0.1, 40, 10.0
STEP_SIZES = (0.1, 0.25, 0.5)


def figure_5() -> up.Scenario:
    """Y_B2 goes to U_A1, Y_A1 to U_B3, and Y_B1 depends directly on U_B3; A has feedthrough from outside."""
    a = up.Ode(
        {"x": "u1"}, inputs=["u1", "u2"], outputs={"y1": "x", "y2": "2*x", "y3": "x + u2"}, solver=up.RK4()
    )
    b = up.Ode(
        {"x": "0.01"},
        start={"x": 5.0},
        inputs=["u3"],
        outputs={"y1": "x + 2*u3", "y2": "x", "y3": "2*x"},
        solver=up.RK4(),
    )
    links = {"A.u1": "B.y2", "B.u3": "A.y1", "A.u2": "r"}
    return up.Scenario(units={"A": a, "B": b}, connections=links, inputs={"r": {"start": 3.0}})


def slow(n: np.ndarray, h: float) -> np.ndarray:
    """The slow state after n steps: that of B, and that of the air path."""
    return 5.0 + 0.01 * h * n


def summed(n: np.ndarray, h: float) -> np.ndarray:
    """What a state gathers that is fed with the slow one, held over each step."""
    return h * (5.0 * n + 0.01 * h * n * (n - 1) / 2)


def delay(values: np.ndarray, known: np.ndarray, gain: float) -> float:
    """By how many steps `values` are late: `known` is what they should be, `gain` that of the fed signal."""
    n = np.arange(len(values), dtype=float)
    late = (known - values)[1:] / (gain * (summed(n, H) - summed(n - 1, H)))[1:]
    return float(late.mean()) if np.ptp(late) < 1e-9 else float("nan")


def measured(name: str, method: str) -> tuple[float, str]:
    """The delay of the direct-feedthrough output, and what the trace says about it."""
    coupling = {"kind": "refined", "method": method}
    n = np.arange(STEPS + 1.0)
    if name == "figure 5":
        trace = up.simulate(figure_5(), coupling=coupling, pace=H, until=STEPS * H)
        found = delay(trace["B.y1"], slow(n, H) + 2 * summed(n, H), 2)
    else:
        trace = up.load(EXAMPLE, coupling=coupling, until=STEPS * H).run()
        found = delay(trace["air.torque"], 45 * summed(n, H) - slow(n, H), 45)
    return found, next(note for note in trace.notes if "delayed" in note)


def errors(method: str, h: float) -> tuple[float, float]:
    """Percent: formula (6) of the paper on the torque, and the mean error over the mean reference."""
    trace = up.load(EXAMPLE, coupling={"kind": "refined", "method": method}, step=h, until=UNTIL).run()
    t = trace.time
    exact = 45 * (5.0 * t + 0.005 * t**2) - (5.0 + 0.01 * t)
    off = np.abs(exact - trace["air.torque"])[1:]
    return float(100 * np.mean(off / np.abs(exact[1:]))), float(100 * off.mean() / np.abs(exact[1:]).mean())


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON object on standard output, tables on the other"
    )
    options = parser.parse_args()
    if options.json:
        sys.stdout = sys.stderr  # tables are for people: the object is alone on standard output
    ok, said, delays = True, {}, {}
    print(f"{'delay in communication steps':44}{'paper':>8} | here")
    for name in ("figure 5", "ten units"):
        for method in METHODS:
            found, note = measured(name, method)
            ok = ok and abs(found - PAPER_DELAY[method]) < 1e-9
            ok = ok and note.count("because") == PAPER_DELAY[method]
            delays[name, method] = found = round(found, 9) + 0.0
            said[f"{name}, {method}"] = note
            print(f"  {name + ', ' + method:42}{PAPER_DELAY[method]:>8} | {found:.9f}   {note[:58]}")
    table: dict[str, Any] = {}
    print("\nerror of the torque in percent: (6), and mean over mean")
    print(f"  {'step':>12}{'method':>9}{'paper (6)':>11} | here (6)   mean/mean")
    for (micro, paper), h in zip(PAPER_ERROR.items(), STEP_SIZES, strict=True):
        for method, value in zip(METHODS, paper, strict=True):
            six, mean = errors(method, h)
            table.setdefault(method, []).append([h, six, mean])
            print(f"  {f'{micro} µs / {h:g} s':>12}{method:>9}{value:>11} | {six:8.3f}   {mean:9.3f}")
    for k in range(len(STEP_SIZES)):
        refined = table["refined"][k][2]
        ok = ok and all(table[method][k][2] > 5 * refined for method in ("sv", "ev"))
    print("ok" if ok else "NOT as expected")
    if options.json:
        steps = {m: max(round(delays[name, m]) for name in ("figure 5", "ten units")) for m in METHODS}
        print(
            json.dumps({"delay_steps": steps, "errors": table, "notes": said, "ok": bool(ok)}),
            file=sys.__stdout__,
        )
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
