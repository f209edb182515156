"""Hybrid co-simulations that switch late (thesis, chapter 6): a part of `reproduce/stability.py`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from scipy.optimize import brentq

import upbeat as up

Part = tuple[Any, bool]


def ball(stiffness: float, *, affine: bool = False) -> up.Bimodal:
    """The bouncing ball of section 6.2, and that of 6.5.1, whose drag is linear and next to none."""
    r, m, damping, drag, g = 0.25, 0.650, 10.0, 0.0136, 9.81

    def slowed(v: float) -> float:
        return -1e-6 / m * v if affine else -drag / m * v * abs(v)

    return up.Bimodal(
        inside=lambda x: (x[1], stiffness / m * (r - x[0]) - damping / m * x[1] + slowed(x[1]) - g),
        outside=lambda x: (x[1], slowed(x[1]) - g),
        surface=lambda x: x[0] - r,
        rest=(r - m * g / stiffness, 0.0),
        ray=(-1.0, 0.0),
        longest=1e8,
    )


BALLS = {
    "c50000": (ball(50_000.0), (1e-3, 0.05), "0.0014128697 at 0.24579453", 1.4128689e-3),
    "c40000": (ball(40_000.0), (1e-3, 0.05), "-", 1.6677445e-3),
    "affine": (ball(40_000.0, affine=True), (0.05, 3.0), "0.001623205 at -0.4991045", 1.6232054e-3),
}


FILES = Path(__file__).parents[2] / "examples/bouncing_ball"
FILED = {
    "c50000": lambda: up.load(FILES / "ball.toml").scenario,
    "c40000": lambda: up.load(FILES / "ball.toml").scenario.with_values({"ball.c": 40_000.0}),
    "affine": lambda: up.load(FILES / "thin_air.toml").scenario,
}
"""The same systems as scenarios, which are recognised by their equations."""


def max_delay() -> Part:
    print("Chapter 6, the largest delay of a bouncing ball             thesis | here")
    rows, ok = {}, True
    for name, (system, within, printed, expected) in BALLS.items():
        begun = time.perf_counter()
        found = up.largest_delay(system, within=within, max_delay=0.01)
        assert found is not None
        seconds = time.perf_counter() - begun
        rests = _rests(system, found)
        grows = _settles(system, found)
        print(
            f"  {name:10s} {printed:>50} | {found.delay:.10f} at {found.x[0]:.6f} in {seconds:.1f} s;",
            end=" ",
        )
        said = "rest" if rests else "NO rest", "a limit cycle" if grows else "NO limit cycle"
        print(f"0.99 of it: {said[0]}, 1.01: {said[1]}")
        filed = up.largest_delay(FILED[name]())
        assert filed is not None
        rows[name] = {
            "delay": found.delay,
            "x": found.x[0],
            "rest_below": rests,
            "cycle_above": grows,
            "from_file": filed.delay,
        }
        ok = ok and max(abs(one.delay - expected) for one in (found, filed)) < 2e-9 and rests and grows
    apart = max(abs(row["delay"] - row["from_file"]) for row in rows.values())
    print(f"  recognised by the equations of examples/bouncing_ball/*.toml: the same but for {apart:.0e} s.")
    print("  The thesis prints c = 40000 for the first ball; its number is that of c = 50000.")
    return rows, ok


def _rests(system: up.Bimodal, found: up.LargestDelay, most: int = 6000) -> bool:
    """Whether an orbit beyond the critical one ends within the inner mode, a hundredth below the delay."""
    distance: float | None = 1.2 * found.distance
    for _ in range(most):
        distance = system.turn(distance, 0.99 * found.out, 0.99 * found.into, 1e-8)
        if distance is None:
            return True
    return False


def _settles(system: up.Bimodal, found: up.LargestDelay) -> bool:
    """Whether a hundredth above the delay the critical orbit grows, and ends at another one that is closed.

    Far enough out orbits shrink, and between them is one that does neither, which its neighbours approach.
    """

    def wider(distance: float) -> float:
        after = system.turn(distance, 1.01 * found.out, 1.01 * found.into, 1e-10)
        return -1.0 if after is None else after / distance - 1.0

    inner = outer = found.distance
    if wider(inner) <= 0.0:
        return False
    while wider(outer) > 0.0 and outer < 1e4 * found.distance:
        inner, outer = outer, 2.0 * outer
    cycle = brentq(wider, inner, outer, rtol=1e-9)
    near = (0.98 * cycle, 1.02 * cycle)
    return abs(wider(cycle)) < 1e-7 and wider(near[0]) > 0.0 > wider(near[1])
