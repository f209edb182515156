"""What the stability monitor costs in the native engine, per step.

Two masses between springs run with a pace alone and with the same pace under `Monitored`, which lets through
all that is asked for: communication points are the same, and the difference is what the monitor itself takes.
Its table has as many policies and nodes as each row says; every policy leads from every node to another one,
so that each step looks up another row.

"fixed" asks for steps of one size. "error control" rejects steps in principle, but has no reason to: its
longest step is small. The two of a row run in turns; the figures are medians of differences in CPU time.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from typing import Any

import upbeat as up

STEP = 1e-3
GOAL = 100.0
SIZES = ((1, 1), (4, 8), (16, 64), (16, 1024), (1000, 2))
"""Policies and nodes. The thesis has 16 policies; a thousand is the most that there may be."""
PACES: dict[str, Any] = {
    "fixed": up.Fixed(STEP),
    "error control": up.ErrorControl(1.0, per="step", first=STEP, longest=STEP, shortest=1e-9),
}
SHORTEST = 100
"""Steps of the shortest run: what fewer take cannot be told from the noise of the clock."""


def scenario() -> up.Scenario:
    """Two masses; the right one computes the force between them."""
    left = up.Ode({"x": "v", "v": "F - x - v"}, start={"x": 1.0}, inputs=["F"], solver="euler")
    right = up.Ode(
        {"x": "v", "v": "-x - pull"},
        inputs=["xc", "vc"],
        locals={"pull": "x - xc + v - vc"},
        outputs={"F": "pull"},
        solver="euler",
    )
    return up.Scenario(
        {"left": left, "right": right},
        {"left.F": "right.F", "right.xc": "left.x", "right.vc": "left.v"},
    )


def monitored(pace: Any, policies: int, nodes: int) -> up.Monitored:
    """The pace under a monitor with nothing to forbid; the longest of its steps is the one asked for."""
    steps = [STEP * (k + 1) / policies for k in range(policies)]
    leads = [[(node * policies + k + 1) % nodes for k in range(policies)] for node in range(nodes)]
    return up.Monitored(pace, tuple(steps), tuple(map(tuple, leads)))


def nanoseconds(system: up.Scenario, pace: Any, steps: int) -> float:
    """CPU time of a step of one run."""
    with up.start(system, pace=pace, until=steps * STEP, engine="native", every=10**9) as run:
        begun = time.process_time()
        trace = run.finish()
        spent = time.process_time() - begun
    assert abs(sum(step.count for step in trace.steps) - steps) <= 2, "somebody changed a step"
    assert not any("instead of" in str(step.reason) for step in trace.steps), "the monitor changed a step"
    return spent / steps * 1e9


def measure(kind: str, policies: int, nodes: int, seconds: float, repeats: int) -> dict[str, Any]:
    """Nanoseconds of a step with a pace alone, and how many more it takes with a monitor."""
    system, pace = scenario(), PACES[kind]
    with_monitor = monitored(pace, policies, nodes)
    steps = max(SHORTEST, int(seconds / repeats / nanoseconds(system, pace, SHORTEST) * 1e9))
    turns = [
        (nanoseconds(system, pace, steps), nanoseconds(system, with_monitor, steps)) for _ in range(repeats)
    ]
    return {
        "pace": kind,
        "policies": policies,
        "nodes": nodes,
        "alone_ns": statistics.median(alone for alone, _ in turns),
        "monitor_ns": statistics.median(both - alone for alone, both in turns),
    }


def main() -> int:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument(
        "--json", action="store_true", help="one JSON object on standard output, tables on the other"
    )
    arguments.add_argument("--seconds", type=float, default=2.0, help="about how long runs of one kind take")
    arguments.add_argument("--repeats", type=int, default=15, help="how many runs of each kind")
    arguments.add_argument(
        "--most", type=int, default=max(nodes for _, nodes in SIZES), help="no more nodes than that"
    )
    options = arguments.parse_args()
    if options.json:
        sys.stdout = sys.stderr  # tables are for people: the object is alone on standard output
    rows = []
    print(f"{'pace':16}{'policies':>10}{'nodes':>8}{'alone':>10}{'+ monitor':>12}   ns per step")
    for kind in PACES:
        for policies, nodes in (size for size in SIZES if size[1] <= options.most):
            row = measure(kind, policies, nodes, options.seconds, options.repeats)
            rows.append(row)
            print(
                f"{kind:16}{policies:>10}{nodes:>8}{row['alone_ns']:>10.1f}{row['monitor_ns']:>12.1f}",
                flush=True,
            )
    worst = max(row["monitor_ns"] for row in rows)
    print("\nasked | reached")
    print(f"monitor, per step: ≤ {GOAL:.0f} ns | {worst:.1f} ns at most")
    if options.json:
        print(json.dumps({"rows": rows, "worst_ns": worst, "goal_ns": GOAL}), file=sys.__stdout__)
    return 0 if worst <= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
