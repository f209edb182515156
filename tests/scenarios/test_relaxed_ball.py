"""A ball on a contact spring: noticed late, the floor gives energy away; seen coming, it does not."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from scipy.integrate import solve_ivp


@pytest.fixture(scope="module")
def relaxed() -> Any:
    path = Path(__file__).parents[2] / "reproduce/relaxed_ball.py"
    spec = importlib.util.spec_from_file_location("relaxed_ball", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def first_top(relaxed: Any, delay: float) -> float:
    """The energy at the top of the first leap, by another solver: fall, wait, spring, rise."""
    r, m, c, dc, da, g = (relaxed.VALUES[name] for name in ("r", "m", "c", "dc", "da", "g"))

    def falls(t: float, y: Any) -> list[float]:
        return [y[1], -da / m * y[1] * abs(y[1]) - g]

    def presses(t: float, y: Any) -> list[float]:
        return [y[1], c / m * (r - y[0]) - dc / m * y[1] - da / m * y[1] * abs(y[1]) - g]

    def flow(rates: Any, y: Any, until: float, event: Any = None) -> Any:
        if event is not None:
            event.terminal = True
        found = solve_ivp(rates, (0, until), y, method="DOP853", rtol=1e-11, atol=1e-13, events=event)
        return found.y[:, -1]

    def down(t: float, y: Any) -> float:
        return float(y[0] - r)

    def away(t: float, y: Any) -> float:
        return float(y[0] - r)

    def top(t: float, y: Any) -> float:
        return float(y[1])

    down.direction, away.direction, top.direction = -1, 1, -1  # type: ignore[attr-defined]
    y = flow(falls, [relaxed.START, 0.0], 10.0, down)
    y = flow(falls, y, delay) if delay else y
    y = flow(presses, y, 1.0, away)
    y = flow(falls, y, 10.0, top)
    return float(m * g * (y[0] - r))


def test_late_it_gains_and_seen_coming_it_does_not(relaxed: Any) -> None:
    found = relaxed.judged(relaxed.runs())
    late, ahead, exact = (found[name] for name in ("delayed", "lookahead", "located"))
    assert late["gains"] == len(late["energy"]) - 1 >= 4
    assert ahead["gains"] == exact["gains"] == 0
    assert len(ahead["energy"]) == len(exact["energy"]) > 6
    # the top is between two communication points, and the air takes a part in ten thousand until then
    assert late["energy"][1] == pytest.approx(first_top(relaxed, relaxed.DELAY), rel=1e-4)
    assert exact["energy"][1] == pytest.approx(first_top(relaxed, 0.0), rel=1e-4)
    assert ahead["energy"][:6] == pytest.approx(exact["energy"][:6], rel=2e-4)
