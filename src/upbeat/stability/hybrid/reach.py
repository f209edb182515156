"""Where to look for closed orbits: which orbits leave the inner mode at all, and how fast that mode is."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from upbeat.stability.hybrid.bimodal import Bimodal

COARSE = 1e-7
"""The relative accuracy of flights here."""
WIDEST = 1e5
"""Orbits that are so many times as wide as the narrowest that leaves the inner mode are looked at."""


class Reach(NamedTuple):
    """Distances from rest, and the longest delay."""

    within: tuple[float, float]
    most: float


def reach_of(system: Bimodal) -> Reach | None:
    """From the narrowest orbit that leaves the inner mode on, and delays up to half a turn around rest.

    None: there is no such orbit, however wide.
    """
    turn = _turn(system)
    near = _near(system)
    below, above = 0.0, near
    while system.leave(above, 0.0, COARSE) is None:
        below, above = above, 1.5 * above
        if above > WIDEST * near:
            return None
    for _ in range(20):
        middle = 0.5 * (below + above)
        if system.leave(middle, 0.0, COARSE) is None:
            below = middle
        else:
            above = middle
    return Reach((1.001 * above, WIDEST * above), 0.5 * turn)


def _near(system: Bimodal) -> float:
    """About how far the surface is from rest, along the section's other half."""
    rest = np.array(system.rest, dtype=float)
    back = rest - system.point(1.0)
    distance = 1e-9 * (1.0 + float(np.linalg.norm(rest)))
    while system.surface(rest + distance * back) < 0.0 and distance < 1e9:
        distance *= 1.2
    return 0.5 * distance


def _turn(system: Bimodal) -> float:
    """How long a small motion around rest takes for a turn."""
    rest = np.array(system.rest, dtype=float)
    step = 1e-6 * (1.0 + np.abs(rest))
    columns = []
    for i in range(2):
        away = np.zeros(2)
        away[i] = step[i]
        there, here = system.inside(rest + away), system.inside(rest - away)
        columns.append((np.array(there) - np.array(here)) / (2.0 * step[i]))
    speed = float(np.abs(np.linalg.eigvals(np.column_stack(columns)).imag).max())
    return 2.0 * np.pi / max(speed, 1e-300)
