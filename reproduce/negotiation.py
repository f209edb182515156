"""Step negotiation (thesis, algorithm 6): units that accept at most 0.03, 0.05 and any step, flat and nested.

The master asks for steps of 0.1. The agreed step is the smallest that is accepted, 0.03, and what is left
up to the next multiple of 0.1 comes last: 0.03, 0.06, 0.09, 0.1, 0.13, … Units that can be set back
repeat a step that turns out too long; one that stops and cannot be set back bounds the others. Nested,
the first and the last unit are a scenario of their own, which stops where its inside does. Two units that
stop and cannot be set back could leave one of them ahead of the other: that is refused before the run.

The units are a ring of integrators, a' = -b, b' = c, c' = a, so that a step made with inputs of another step
would show. The same ring of units that never stop, run by a plain Jacobi master over the agreed times, must
give the same bits; and the recursion a + h·u + h²·s/2 with held (s = 0) or linear inputs, written
out with NumPy, the same values up to rounding. Nested, inputs are held.
Expected | here: the communication points up to 0.3, how far any unit ever was from the rest, and the
largest difference from the fixed run and from the recursion.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

import upbeat as up
from upbeat.extend import Proposal, Read, Span, State

MOST = {"a": 0.03, "b": 0.05, "c": np.inf}
STEP, UNTIL = 0.1, 0.3
INSIDE = ("a", "c")
EXPECTED = [0.0, 0.03, 0.06, 0.09, 0.1, 0.13, 0.16, 0.19, 0.2, 0.23, 0.26, 0.29, 0.3]
BACK = {
    "all can be set back": {"a": True, "b": True, "c": True},
    "a cannot be set back": {"a": False, "b": True, "c": True},
    "b cannot be set back": {"a": True, "b": False, "c": True},
    "c cannot be set back": {"a": True, "b": True, "c": False},
    "a and c cannot be set back": {"a": False, "b": True, "c": False},
}
REFUSED = {"a": False, "b": False, "c": True}
START = {"a": 1.0, "b": 0.5, "c": -0.25}
SHAPES = {"flat": ("hold", "linear"), "nested": ("hold",)}
ROUNDING = 1e-14


class Limited:
    """Integrates its input exactly, and stops after the longest step that it accepts."""

    def __init__(self, name: str, start: float, parameters: dict[str, Any]) -> None:
        self.time, self.most, self.value = start, parameters["most"], parameters["first"]
        self.input: tuple[float, ...] = (0.0,)

    def get(self, port: str) -> float:
        return self.time if port == "t" else self.value

    def set(self, port: str, coefficients: Any) -> None:
        self.input = tuple(coefficients)

    def advance(self, t: float, to: float, early: bool) -> float:
        if t != self.time or (not early and to - t > self.most * (1 + 1e-9)):
            raise ValueError(f"asked for {t} to {to} at {self.time}, and accepts at most {self.most}")
        self.time = min(to, t + self.most) if early else to
        h = self.time - t
        self.value += sum(c * h ** (k + 1) / (k + 1) for k, c in enumerate(self.input))
        self.input = _moved(self.input, h)
        return self.time

    def save(self) -> Any:
        return self.time, self.value, self.input

    def restore(self, token: Any) -> None:
        self.time, self.value, self.input = token


def _moved(trajectory: tuple[float, ...], h: float) -> tuple[float, ...]:
    """The same course, told from `h` later: at most a straight line here."""
    return (trajectory[0] + trajectory[1] * h, trajectory[1]) if len(trajectory) > 1 else trajectory


@dataclass(frozen=True)
class Times:
    """Steps that end at given times."""

    times: tuple[float, ...]

    def begin(self, span: Span) -> State:
        return ()

    def propose(self, state: State, t: float, limit: float, read: Read) -> tuple[Proposal, State]:
        return Proposal(min(time for time in self.times if time > t), "given"), state


def units(back: dict[str, bool], limits: dict[str, float]) -> dict[str, up.Model]:
    made: dict[str, up.Model] = {}
    for name, most in limits.items():
        ports = (
            up.Port("u", up.Causality.INPUT),
            up.Port("y", up.Causality.OUTPUT),
            up.Port("t", up.Causality.OUTPUT),
            up.Port("most", up.Causality.PARAMETER, start=min(most, 1e9)),
            up.Port("first", up.Causality.PARAMETER, start=START[name]),
        )
        able = {up.Ability.EARLY_RETURN} if most < np.inf else set()
        able |= {up.Ability.ROLLBACK} if back[name] else set()
        made[name] = up.PythonUnit(Limited, ports, abilities=frozenset(able))
    return made


def flat(back: dict[str, bool], limits: dict[str, float] = MOST) -> up.Scenario:
    seen = {f"{n}_{port}": f"{n}.{port}" for n in MOST for port in ("y", "t")}
    links = {"a.u": "-b.y", "b.u": "c.y", "c.u": "a.y"}
    return up.Scenario(units=units(back, limits), connections=links, outputs=seen)


def nested(back: dict[str, bool]) -> up.Scenario:
    """The same ring with `INSIDE` in a scenario of their own."""
    made = units(back, MOST)
    inner = up.Scenario(
        units={name: made[name] for name in INSIDE},
        connections={"a.u": "w", "c.u": "a.y"},
        inputs=["w"],
        outputs={f"{name}_{port}": f"{name}.{port}" for name in INSIDE for port in ("y", "t")},
    )
    nest = up.Nested(inner, up.Master(up.Fixed(STEP), up.Negotiated()))
    inside = {f"{n}_{port}": f"nest.{n}_{port}" for n in INSIDE for port in ("y", "t")}
    return up.Scenario(
        units={"nest": nest, "b": made["b"]},
        connections={"nest.w": "-b.y", "b.u": "nest.c_y"},
        outputs=inside | {"b_y": "b.y", "b_t": "b.t"},
    )


def negotiated(scenario: up.Scenario, inputs: str = "hold") -> up.Trace:
    return up.simulate(scenario, pace=up.Fixed(STEP), until=UNTIL, coupling=up.Negotiated(), inputs=inputs)


def fixed(times: np.ndarray, inputs: str) -> np.ndarray:
    """What units that never stop give over these times, with a plain master."""
    never = dict.fromkeys(MOST, np.inf)
    trace = up.simulate(
        flat(dict.fromkeys(MOST, True), never),
        pace=Times(tuple(map(float, times))),
        until=UNTIL,
        inputs=inputs,
    )
    return values(trace)


def recursion(times: np.ndarray, inputs: str) -> np.ndarray:
    """The same, written out."""
    ring = np.array([[0.0, -1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    rows, last = [np.array(list(START.values()))], None
    for k, h in enumerate(np.diff(times)):
        u = ring @ rows[-1]
        slope = 0.0 if inputs == "hold" or last is None else (u - last) / (times[k] - times[k - 1])
        rows.append(rows[-1] + h * u + h**2 / 2 * slope)
        last = u
    return np.array(rows)


def values(trace: up.Trace) -> np.ndarray:
    return np.column_stack([trace[f"{name}_y"] for name in MOST])


def refused(scenario: up.Scenario) -> bool:
    try:
        negotiated(scenario)
    except up.MasterError:
        return True
    return False


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
    result: dict[str, Any] = {"expected": EXPECTED}
    ok, worst = True, {"fixed": 0.0, "recursion": 0.0}
    expected = f"{len(EXPECTED) - 1}, 0, 0, ≤ {ROUNDING:g}"
    print(f"{'':15}{'':28}{'expected: steps, apart, off fixed, off recursion':>50} | here")
    for shape, make in (("flat", flat), ("nested", nested)):
        result[shape] = {}
        for inputs in SHAPES[shape]:
            for case, back in BACK.items():
                trace = negotiated(make(back), inputs)
                apart = max(float(np.max(np.abs(trace[f"{name}_t"] - trace.time))) for name in MOST)
                same = len(trace.time) == len(EXPECTED) and np.allclose(trace.time, EXPECTED, atol=1e-12)
                off = float(np.abs(values(trace) - fixed(trace.time, inputs)).max())
                away = float(np.abs(values(trace) - recursion(trace.time, inputs)).max())
                worst = {"fixed": max(worst["fixed"], off), "recursion": max(worst["recursion"], away)}
                ok = ok and same and apart == 0.0 and off == 0.0 and away <= ROUNDING
                result[shape][case] = [round(float(t), 12) for t in trace.time]
                print(f"{shape:7}{inputs:8}{case:28}{expected:>50} | {len(trace.time) - 1}, ", end="")
                print(f"{apart:g}, {off:g}, {away:.1e}")
        said = "refused" if refused(make(REFUSED)) else "run"
        result[shape]["two stop and cannot be set back"] = said
        ok = ok and said == "refused"
        print(f"{shape:15}{'a and b cannot be set back':28}{'refused':>50} | {said}")
    print("ok" if ok else "NOT as expected")
    if options.json:
        print(json.dumps({**result, "differences": worst, "ok": bool(ok)}), file=sys.__stdout__)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
