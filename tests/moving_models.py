"""Points that move on lines and collide, for tests of events between units."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import upbeat as up

ROOT = Path(__file__).parents[1]


def load() -> Any:
    spec = importlib.util.spec_from_file_location("two_mass", ROOT / "reproduce/two_mass.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TWO = load()
HERMITE = TWO.approximated(up.Hermite(2), up.Hermite(1))


def point(x: float, v: float, a: str = "0", **more: Any) -> up.Ode:
    """Moves on a line, and tells how."""
    outputs = {"x": "x", "v": {"value": "v", "derivative": "a"}, "a": a}
    return up.Ode({"x": "v", "v": a}, start={"x": x, "v": v}, **({"outputs": outputs} | more))


def happened(trace: up.Trace) -> list[tuple[str, float]]:
    return [(event.name, event.time) for event in trace.events]


def reasons(trace: up.Trace) -> list[str]:
    return [step.reason for step in trace.steps for _ in range(step.count)]
