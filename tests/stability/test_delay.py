"""The largest delay of a switch: against spirals in closed form, and the bouncing ball of the thesis."""

from __future__ import annotations

import math

import pytest
from scipy.optimize import brentq

from upbeat.core.errors import InvalidInput
from upbeat.stability.hybrid.bimodal import Bimodal
from upbeat.stability.hybrid.late import largest_delay

W, DECAY, GROWTH, LINE = 2.0, 0.2, 0.15, 0.5


def spirals() -> Bimodal:
    """Inwards left of a line, outwards right of it, both around the origin at the same speed."""
    return Bimodal(
        inside=lambda x: (-DECAY * x[0] - W * x[1], W * x[0] - DECAY * x[1]),
        outside=lambda x: (GROWTH * x[0] - W * x[1], W * x[0] + GROWTH * x[1]),
        surface=lambda x: x[0] - LINE,
        rest=(0.0, 0.0),
        ray=(-1.0, 0.0),
    )


def outside_time(distance: float) -> float:
    """How long an orbit from (-distance, 0) is right of the line: two roots of r·cos(angle) = LINE."""
    quarter = math.pi / (2 * W)
    there = brentq(
        lambda t: distance * math.exp(-DECAY * t) * math.cos(math.pi + W * t) - LINE, quarter, 2 * quarter
    )
    r, angle = distance * math.exp(-DECAY * there), math.pi + W * there
    return brentq(
        lambda t: r * math.exp(GROWTH * t) * math.cos(angle + W * t) - LINE, quarter, 2 * quarter, xtol=1e-14
    )


def test_spirals_in_closed_form() -> None:
    """An orbit closes when growth and decay cancel over one turn: outside for 2π/W·DECAY/(DECAY + GROWTH).
    Wide orbits are outside longest without any delay, so the least delay is at the end of the search."""
    found = largest_delay(spirals(), within=(2.0, 40.0), max_delay=2.0)
    assert found is not None
    expected = 2 * math.pi / W * DECAY / (DECAY + GROWTH) - outside_time(40.0)
    assert found.delay == pytest.approx(expected, abs=1e-6)
    assert found.edge
    assert (found.out, found.into) == (0.0, found.delay)
    assert found.x == pytest.approx((-40.0, 0.0), rel=1e-3)


def test_with_too_little_delay_nothing_closes() -> None:
    assert largest_delay(spirals(), within=(2.0, 10.0), max_delay=0.1) is None


def ball(stiffness: float) -> Bimodal:
    """The ball of section 6.2: contact with the ground inside, flight outside."""
    r, m, damping, drag, g = 0.25, 0.65, 10.0, 0.0136, 9.81
    return Bimodal(
        inside=lambda x: (
            x[1],
            stiffness / m * (r - x[0]) - damping / m * x[1] - drag / m * x[1] * abs(x[1]) - g,
        ),
        outside=lambda x: (x[1], -drag / m * x[1] * abs(x[1]) - g),
        surface=lambda x: x[0] - r,
        rest=(r - m * g / stiffness, 0.0),
        ray=(-1.0, 0.0),
    )


def test_the_bouncing_ball() -> None:
    """0.0014128689 at x = 0.245805, for a stiffness of 50000 (the thesis misprints it)."""
    system = ball(50_000.0)
    found = largest_delay(system, within=(2e-3, 1e-2), max_delay=4e-3)
    assert found is not None
    assert found.delay == pytest.approx(0.0014128689, abs=2e-9)
    assert found.x[0] == pytest.approx(0.245805, abs=1e-5)
    assert not found.edge
    # With a little less every orbit shrinks, with a little more this one grows.
    for factor in (0.5, 0.8, 1.0, 1.2, 2.0, 4.0):
        distance = factor * found.distance
        after = system.turn(distance, 0.0, 0.99 * found.delay, 1e-9)
        assert after is None or after < distance
    more = system.turn(found.distance, 0.0, 1.01 * found.delay, 1e-9)
    assert more is not None
    assert more > found.distance


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rest": (1.0,)}, "pair of numbers"),
        ({"ray": (0.0, 0.0)}, "no direction"),
        ({"rest": (1.0, 0.0)}, "must lie in the inner mode"),
        ({"rest": (-1.0, 0.0)}, "is no rest"),
    ],
)
def test_what_is_no_such_system(change: dict[str, tuple[float, ...]], said: str) -> None:
    given = {name: getattr(spirals(), name) for name in ("inside", "outside", "surface", "rest", "ray")}
    with pytest.raises(InvalidInput, match=said):
        Bimodal(**(given | change))


def test_what_cannot_be_searched() -> None:
    with pytest.raises(InvalidInput, match="positive and in order"):
        largest_delay(spirals(), within=(2.0, 1.0), max_delay=1.0)
