"""Step negotiation (thesis, algorithm 6): units that accept at most 0.03, 0.05 and any step, flat and nested.

The master asks for steps of 0.1. The agreed step is the smallest that is accepted, 0.03, and what is left
up to the next multiple of 0.1 comes last: 0.03, 0.06, 0.09, 0.1, 0.13, … Units that can be set back
repeat a step that turns out too long; one that stops and cannot be set back bounds the others. Nested,
the first and the last unit are a scenario of their own, which stops where its inside does. Two units that
stop and cannot be set back could leave one of them ahead of the other: that is refused before the run.
Expected | here: the communication points up to 0.3, and how far any unit ever was from the rest.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import numpy as np

import upbeat as up

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


class Limited:
    """Counts time, and stops after the longest step that it accepts."""

    def __init__(self, name: str, start: float, parameters: dict[str, Any]) -> None:
        self.time, self.most = start, parameters["most"]

    def get(self, port: str) -> float:
        return self.time

    def set(self, port: str, coefficients: Any) -> None: ...

    def advance(self, t: float, to: float, early: bool) -> float:
        if t != self.time or (not early and to - t > self.most * (1 + 1e-9)):
            raise ValueError(f"asked for {t} to {to} at {self.time}, and accepts at most {self.most}")
        self.time = min(to, t + self.most) if early else to
        return self.time

    def save(self) -> float:
        return self.time

    def restore(self, token: float) -> None:
        self.time = token


def units(back: dict[str, bool]) -> dict[str, up.Model]:
    made: dict[str, up.Model] = {}
    for name, most in MOST.items():
        ports = (
            up.Port("u", up.Causality.INPUT),
            up.Port("y", up.Causality.OUTPUT),
            up.Port("most", up.Causality.PARAMETER, start=min(most, 1e9)),
        )
        able = {up.Ability.EARLY_RETURN} if most < np.inf else set()
        able |= {up.Ability.ROLLBACK} if back[name] else set()
        made[name] = up.PythonUnit(Limited, ports, abilities=frozenset(able))
    return made


def flat(back: dict[str, bool]) -> up.Scenario:
    links = {"a.u": "b.y", "b.u": "c.y", "c.u": "a.y"}
    return up.Scenario(units=units(back), connections=links, outputs={n: f"{n}.y" for n in MOST})


def nested(back: dict[str, bool]) -> up.Scenario:
    """The same ring with `INSIDE` in a scenario of their own."""
    made = units(back)
    inner = up.Scenario(
        units={name: made[name] for name in INSIDE},
        connections={"a.u": "w", "c.u": "a.y"},
        inputs=["w"],
        outputs={name: f"{name}.y" for name in INSIDE},
    )
    nest = up.Nested(inner, up.Master(up.Fixed(STEP), up.Negotiated()))
    return up.Scenario(
        units={"nest": nest, "b": made["b"]},
        connections={"nest.w": "b.y", "b.u": "nest.c"},
        outputs={"a": "nest.a", "b": "b.y", "c": "nest.c"},
    )


def refused(scenario: up.Scenario) -> bool:
    try:
        up.simulate(scenario, pace=STEP, until=UNTIL, coupling=up.Negotiated())
    except up.MasterError:
        return True
    return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    options = parser.parse_args()
    result: dict[str, Any] = {"expected": EXPECTED}
    ok = True
    print(f"{'':8}{'':28}{'expected: steps, apart':>24} | here")
    for shape, make in (("flat", flat), ("nested", nested)):
        found: dict[str, Any] = {}
        for case, back in BACK.items():
            trace = up.simulate(make(back), pace=STEP, until=UNTIL, coupling=up.Negotiated())
            apart = max(float(np.max(np.abs(trace[name] - trace.time))) for name in MOST)
            same = len(trace.time) == len(EXPECTED) and np.allclose(trace.time, EXPECTED, atol=1e-12)
            ok = ok and same and apart == 0.0
            found[case] = [round(float(t), 12) for t in trace.time]
            print(f"{shape:8}{case:28}{len(EXPECTED) - 1:>17}, {0:>5} | {len(trace.time) - 1}, {apart:g}")
        found["two stop and cannot be set back"] = said = "refused" if refused(make(REFUSED)) else "run"
        ok = ok and said == "refused"
        print(f"{shape:8}{'a and b cannot be set back':28}{'refused':>24} | {said}")
        result[shape] = found
    print("ok" if ok else "NOT as expected")
    if options.json:
        print(json.dumps({**result, "ok": bool(ok)}))
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
