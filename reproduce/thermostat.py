"""Thermostat (thesis, example 18): a continuous room and a discrete controller, wrapped both ways.

x' = -α·(x - 30·q), α = 0.1, x(0) = 20, heating first; the controller is told *tooHot* at 21, *tooCold* at 19.
Hybrid DE: the room as a discrete-event unit that looks at itself every H. Hybrid CT: the controller as a
continuous unit that looks at the temperature every H. Beside them, both as they are in one scenario, with
converters between.

Crossings are seen at the next communication point, up to H late. A switch that is late by d lets the
temperature go too far by x'·d, and the next phase begins there: it takes at most 1.9/1.1 of that d longer. So
the k-th switch is at most k·(1 + 1.9/1.1)·H after the analytic one. All three must agree with the exact
solution of the room looked at every H, to the last grid point.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from typing import Any

import upbeat as up

ALPHA, COLD, HOT, SWITCHES = 0.1, 19.0, 21.0, 8
H = 0.001
UNTIL = 11.5
EVENTS = {"tooHot": f"x >= {HOT:g}", "tooCold": f"x <= {COLD:g}"}
HEAT = {"off": 0.0, "on": 1.0}
PRINTED = [1.05361, 2.05444, 4.06115, 5.06198]


def room() -> up.Ode:
    return up.Ode(
        {"x": "-alpha*(x - 30*q)"},
        inputs={"q": 1.0},
        start={"x": 20.0},
        parameters={"alpha": ALPHA},
        outputs=["x"],
        solver=up.RK4(),
    )


def controller() -> up.StateMachine:
    return up.StateMachine(
        inputs={"tooHot": {"event": True}, "tooCold": {"event": True}},
        outputs={"switch": {"event": True, "items": list(HEAT)}},
        initial="heating",
        states=["heating", "cooling"],
        transitions=[
            {"from": "heating", "to": "cooling", "on": "tooHot", "emit": {"switch": "off"}},
            {"from": "cooling", "to": "heating", "on": "tooCold", "emit": {"switch": "on"}},
        ],
    )


def analytic() -> list[float]:
    """When the temperature crosses the limits, phase by phase."""
    times, t, x = [], 0.0, 20.0
    for k in range(SWITCHES):
        target, goal = (HOT, 30.0) if k % 2 == 0 else (COLD, 0.0)
        t += math.log((x - goal) / (target - goal)) / ALPHA
        x = target
        times.append(t)
    return times


def looked_at() -> list[float]:
    """The same, if somebody looks every H at the exact solution and switches then."""
    times: list[float] = []
    x, goal, index = 20.0, 30.0, 0
    while len(times) < SWITCHES:
        index += 1
        x = goal + (x - goal) * math.exp(-ALPHA * H)
        if (goal and x >= HOT) or (not goal and x <= COLD):
            times.append(index * H)
            goal = 30.0 - goal
    return times


def hybrid_de() -> up.Experiment:
    wrapped = up.as_discrete(room(), H, events=EVENTS)
    connections = {f"controller.{name}": f"room.{name}" for name in EVENTS}
    scenario = up.Scenario(
        {"room": wrapped, "controller": controller()},
        {**connections, "room.q": {"event": "controller.switch", "map": HEAT}},
    )
    return up.experiment(scenario, until=UNTIL)


def hybrid_ct() -> up.Experiment:
    hold = {"q": {"event": "switch", "map": HEAT, "start": 1.0}}
    wrapped = up.as_continuous(controller(), H, inputs=["x"], events=EVENTS, hold=hold)
    scenario = up.Scenario(
        {"room": room(), "controller": wrapped}, {"controller.x": "room.x", "room.q": "controller.q"}
    )
    return up.experiment(scenario, pace=up.Fixed(H), until=UNTIL, record=["controller.q"])


def side_by_side() -> up.Experiment:
    scenario = up.Scenario(
        {
            "room": room(),
            "hot": up.Edge(),
            "cold": up.Edge(),
            "controller": controller(),
            "heat": up.LastValue(1.0),
        },
        {
            "hot.signal": f"room.x >= {HOT:g}",
            "cold.signal": f"room.x <= {COLD:g}",
            "controller.tooHot": "hot.rise",
            "controller.tooCold": "cold.rise",
            "heat.event": {"event": "controller.switch", "map": HEAT},
            "room.q": "heat.value",
        },
    )
    return up.experiment(scenario, pace=up.Fixed(H), until=UNTIL, record=["room.x"])


def switches(trace: up.Trace) -> list[float]:
    if "controller.switch" in trace.events:
        return trace.events.times("controller.switch").tolist()[:SWITCHES]
    q = trace["controller.q"]
    return [float(trace.time[i]) for i in range(1, len(q)) if q[i] != q[i - 1]][:SWITCHES]


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
    exact, grid = analytic(), looked_at()
    ways: dict[str, Any] = {"hybrid_de": hybrid_de, "hybrid_ct": hybrid_ct, "side_by_side": side_by_side}
    found = {name: switches(make().run()) for name, make in ways.items()}
    print(f"{'switch':>7}{'analytic':>12}{f'every {H:g}':>12} |" + "".join(f"{name:>14}" for name in ways))
    for k in range(SWITCHES):
        here = "".join(f"{found[name][k]:14.5f}" for name in ways)
        print(f"{'off' if k % 2 == 0 else 'on':>7}{exact[k]:12.5f}{grid[k]:12.5f} |{here}")
    most = [(k + 1) * (1 + 1.9 / 1.1) * H for k in range(SWITCHES)]
    late = {name: max(t - e for t, e in zip(times, exact, strict=True)) for name, times in found.items()}
    print(f"latest: {max(late.values()):.4f} after the analytic one, at most {most[-1]:.4f}")
    ok = all(abs(a - b) < 5e-6 for a, b in zip(exact, PRINTED, strict=False))
    for times in found.values():
        ok = ok and all(abs(a - b) < H / 2 for a, b in zip(times, grid, strict=True))
        ok = ok and all(0 <= t - e <= m for t, e, m in zip(times, exact, most, strict=True))
    print("ok" if ok else "NOT as expected")
    if options.json:
        print(
            json.dumps({"switches": found["hybrid_de"], **found, "analytic": exact, "step": H, "ok": ok}),
            file=sys.__stdout__,
        )
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
