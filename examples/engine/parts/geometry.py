"""The crank drive: numbers that the maker of the Renault F4R turbo publishes; the rod is a choice."""

from __future__ import annotations

from math import cos, pi, radians, sin, sqrt

BORE, STROKE, ROD, RATIO = 82.7e-3, 93.0e-3, 144.0e-3, 9.0
"""m, m, m, and the compression ratio."""
PISTON = pi / 4 * BORE**2
SWEPT = 1000 * PISTON * STROKE
"""m², and litres."""


def volume(angle: float) -> float:
    """L: the volume of a cylinder at a crank angle in degrees."""
    crank, turned = STROKE / 2, radians(angle)
    way = crank + ROD - crank * cos(turned) - sqrt(ROD**2 - (crank * sin(turned)) ** 2)
    return SWEPT / (RATIO - 1) + 1000 * PISTON * way
