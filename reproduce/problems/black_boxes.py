"""The two masses under a ceiling as black boxes: co-simulation FMUs that deal with their events inside.

Each is written in C (tests/fmus/mass.c), gets the place and the velocity of the other one when a step begins,
and takes it to go on at that speed. It cannot be set back, and tells nothing but its place, its velocity, and
how often something happened to it. All that LookAhead has are conditions on these places and velocities:
events without `then`. It ends a step shortly before one, so that the next one, in which both masses notice
it, is short.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import upbeat as up

TESTS = Path(__file__).parents[2] / "tests"
LINKS = {"upper.x2": "lower.x", "upper.v2": "lower.v", "lower.x1": "upper.x", "lower.v1": "upper.v"}
COUNTED = {"masses": "upper.hits", "ceiling": "upper.ceilings"}


def made(folder: Path) -> dict[str, Path]:
    """Both FMUs, compiled and packed."""
    sys.path.append(str(TESTS))
    from fmu_maker import make

    return {name: make(name, 2, folder) for name in ("upper", "lower")}


def black_boxes(fmus: Mapping[str, Path], start: Sequence[float], events: Mapping[str, Any]) -> up.Scenario:
    """The scenario; of the events no more than when they happen."""
    x1, v1, x2, v2 = start
    values = {"upper": {"x": x1, "v": v1}, "lower": {"x": x2, "v": v2}}
    units = {name: up.Fmu(path, parameters=values[name]) for name, path in fmus.items()}
    return up.Scenario(units, LINKS, events={name: {"when": one["when"]} for name, one in events.items()})


def happened(trace: up.Trace) -> list[tuple[str, float]]:
    """What the masses say has happened to them, at the end of the step in which it did."""
    found = [
        (kind, float(t))
        for kind, counter in COUNTED.items()
        for t, more in zip(trace.time[1:], np.diff(trace[counter]), strict=True)
        for _ in range(int(more))
    ]
    return sorted(found, key=lambda event: event[1])
