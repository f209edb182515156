"""Traffic light and police officer (thesis, examples 3 and 4): discrete events in superdense time.

The light goes red → green → yellow; an officer who is idle for 100 and works for 200 switches it off and on.
Up to t = 700 the light's states and its output events are known exactly. If the officer is idle for 60 only,
both are due at t = 60, and the order decides: the light first turns green and is then switched off, or the
officer switches it off before it can say anything. The same with the light one level deep in a scenario of
its own (definition 10): taken apart, kept as one unit, on both engines. Expected | here.
"""

from __future__ import annotations

import argparse
import json
import sys
from itertools import product
from typing import Any

import upbeat as up

STATES = [
    ("red", 0), ("green", 60), ("off", 100), ("red", 300), ("green", 360), ("off", 400), ("red", 600),
    ("green", 660), ("off", 700),
]  # fmt: skip
OUTPUTS = [("green", 60), ("green", 360), ("green", 660)]
SIMULTANEOUS = {"light_first": [("green", 60), ("off", 60)], "officer_first": [("off", 60)]}
CONTROL = {"event": True, "items": ["toAuto", "toOff"]}
ORDERS = {"toWork": "toOff", "toIdle": "toAuto"}


def light() -> up.StateMachine:
    return up.StateMachine(
        inputs={"control": CONTROL},
        outputs={"lamp": {"event": True, "items": ["red", "green", "yellow"]}},
        initial="red",
        states=["red", "green", "yellow", "off"],
        transitions=[
            {"from": "red", "to": "green", "after": 60, "emit": {"lamp": "green"}},
            {"from": "green", "to": "yellow", "after": 50, "emit": {"lamp": "yellow"}},
            {"from": "yellow", "to": "red", "after": 10, "emit": {"lamp": "red"}},
            {"from": ["red", "green", "yellow"], "to": "off", "on": "control", "when": "control == 'toOff'"},
            {"from": "off", "to": "red", "on": "control", "when": "control == 'toAuto'"},
        ],
    )


def officer(idle: float) -> up.StateMachine:
    return up.StateMachine(
        outputs={"command": {"event": True, "items": list(ORDERS)}},
        initial="idle",
        states=["idle", "working"],
        transitions=[
            {"from": "idle", "to": "working", "after": idle, "emit": {"command": "toWork"}},
            {"from": "working", "to": "idle", "after": 200, "emit": {"command": "toIdle"}},
        ],
    )


def scenario(idle: float, nested: str) -> up.Scenario:
    unit: Any = light()
    if nested != "flat":
        inside = up.Scenario(
            {"light": unit},
            {"light.control": "control"},
            inputs={"control": CONTROL},
            outputs={"lamp": "light.lamp", "state": "light.state"},
        )
        unit = up.Nested(inside, up.Master(up.EventDriven()), flatten=nested == "taken apart")
    link = {"event": "officer.command", "map": ORDERS}
    return up.Scenario({"light": unit, "officer": officer(idle)}, {"light.control": link})


def states(trace: up.Trace) -> list[tuple[str, float]]:
    """The light's states and when they were entered."""
    labels = ("red", "green", "yellow", "off")
    found: list[tuple[str, float]] = []
    for t, number in zip(trace.time.tolist(), trace["light.state"].tolist(), strict=True):
        if not found or found[-1][0] != labels[number]:
            found.append((labels[number], t))
    return found


def outputs(trace: up.Trace) -> list[tuple[str, float]]:
    return [(str(value), t) for t, _, value in trace.events.of("light.lamp")]


def both_at_60(nested: str, engine: Any, order: list[str]) -> list[tuple[str, float]]:
    """What the light says at t = 60, and the state it is in then."""
    trace = up.simulate(scenario(60, nested), until=60, engine=engine, simultaneous=order)
    return [*outputs(trace), states(trace)[-1]]


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
    found: dict[str, Any] = {}
    ok = True
    orders = {"light_first": ["light", "officer"], "officer_first": ["officer", "light"]}
    for nested, engine in product(("flat", "taken apart", "one unit"), ("interpret", "native")):
        trace = up.simulate(scenario(100, nested), until=700, engine=engine)
        here = {"states": states(trace), "outputs": outputs(trace)}
        here["simultaneous"] = {name: both_at_60(nested, engine, o) for name, o in orders.items()}
        expected = {"states": STATES, "outputs": OUTPUTS, "simultaneous": SIMULTANEOUS}
        same = here == expected
        ok = ok and same
        print(f"light {nested:12} {engine:10} {'as expected' if same else 'NOT as expected'}")
        found = found or here
    print(f"\n{'state':8}{'expected':>10} |{'here':>8}")
    for (name, t), (_, there) in zip(STATES, found["states"], strict=True):
        print(f"{name:8}{t:10g} |{there:8g}")
    print(f"{'output':8}{'expected':>10} |{'here':>8}")
    for (name, t), (_, there) in zip(OUTPUTS, found["outputs"], strict=True):
        print(f"{name:8}{t:10g} |{there:8g}")
    for name, expected_there in SIMULTANEOUS.items():
        print(f"at t = 60, {name}: {expected_there} | {found['simultaneous'][name]}")
    print("ok" if ok else "NOT as expected")
    if options.json:
        print(json.dumps({**found, "ok": ok}), file=sys.__stdout__)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
