"""Scenarios of two modes: recognised or refused with a reason, and how late they may switch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import upbeat as up
from upbeat.stability.hybrid import late
from upbeat.stability.hybrid.bimodal import NotBimodal, planar
from upbeat.stability.hybrid.late import late_switches

BALLS = Path(__file__).parents[2] / "examples/bouncing_ball"
RATE = "(c*(r - x) - dc*v if touching else 0)/m - da/m*v*abs(v) - g"
VALUES = {"r": 0.25, "m": 0.65, "c": 50_000.0, "dc": 10.0, "da": 0.0136, "g": 9.81}
TOUCH = {"when": "x <= r and v < 0", "then": {"touching": True}}
LEAVE = {"when": "x >= r and v > 0", "then": {"touching": False}}


def ball(**changes: Any) -> up.Ode:
    """The ball of section 6.2, with events of its own."""
    given: dict[str, Any] = {
        "states": {"x": "v", "v": RATE},
        "start": {"x": 0.33},
        "parameters": VALUES,
        "variables": {"touching": {"start": False, "kind": "boolean"}},
        "events": {"touch": TOUCH, "leave": LEAVE},
    }
    return up.Ode(**(given | changes))


@pytest.mark.parametrize(
    ("name", "changes", "delay", "x"),
    [
        ("ball", {}, 1.4128689e-3, 0.245805),
        ("ball", {"ball.c": 40_000.0}, 1.6677445e-3, 0.244957),
        ("thin_air", {}, 1.6232054e-3, -0.49884),
    ],
)
def test_the_balls_of_the_thesis_from_their_files(
    name: str, changes: dict[str, float], delay: float, x: float
) -> None:
    """Chapter 6: delays to 2e-9 s (the first stiffness is misprinted there)."""
    scenario = up.load(BALLS / f"{name}.toml").scenario.with_values(changes)
    found = up.largest_delay(scenario)
    assert found is not None
    assert found.delay == pytest.approx(delay, abs=2e-9)
    assert found.x[0] == pytest.approx(x, abs=1e-4)
    assert not found.edge
    assert (found.out, found.into) == (0.0, found.delay)


def one_of(unit: up.Ode) -> up.Scenario:
    return up.Scenario({"ball": unit})


FORMS: dict[str, up.Scenario] = {
    "events of its own": one_of(ball()),
    "starts in contact": one_of(
        ball(variables={"touching": {"start": True, "kind": "boolean"}}, start={"x": 0.24})
    ),
    "one mode as a number": one_of(
        ball(
            states={"x": "v", "v": RATE.replace("touching", "mode > 0.5")},
            variables={"mode": 0.0, "bounces": 0},
            events={
                "touch": {"when": "x <= r", "then": {"mode": 1, "bounces": "bounces + 1"}},
                "leave": {"when": "2*(x - r) >= 0", "then": {"mode": 0}},
            },
        )
    ),
    "a case in a formula": one_of(
        ball(states={"x": "v", "v": RATE.replace("touching", "x < r")}, variables=None, events=None)
    ),
    "two units": up.Scenario(
        {
            "ball": up.Ode(
                {"x": "v", "v": "F/m - da/m*v*abs(v) - g"}, start={"x": 0.33}, inputs=["F"], parameters=VALUES
            ),
            "floor": up.Function(
                inputs=["x", "v"],
                outputs={"F": "c*(r - x) - dc*v if x < r else 0"},
                parameters=VALUES,
            ),
        },
        connections={"ball.F": "floor.F", "floor.x": "ball.x", "floor.v": "ball.v"},
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_same_system_in_other_words(form: str) -> None:
    """Both fields and the surface at some points, and rest, are those of the thesis."""
    system = planar(FORMS[form])
    m, c, r = VALUES["m"], VALUES["c"], VALUES["r"]
    assert system.rest == pytest.approx((r - m * 9.81 / c, 0.0), abs=1e-9)
    assert system.ray == pytest.approx((-1.0, 0.0))
    for x, v in ((0.2, 1.0), (0.3, -2.0), (0.24, 0.5)):
        drag = -0.0136 / m * v * abs(v) - 9.81
        assert list(system.outside((x, v))) == pytest.approx([v, drag])
        assert list(system.inside((x, v))) == pytest.approx([v, (c * (r - x) - 10.0 * v) / m + drag])
        assert system.surface((x, v)) * (x - r) > 0.0


@pytest.mark.parametrize(
    ("scenario", "said"),
    [
        (one_of(ball(states={"x": "v", "v": RATE, "w": "-w"})), "it has 3 states"),
        (one_of(ball(states={"x": "v", "v": RATE + " + u"}, inputs=["u"])), "driven from outside, by"),
        (one_of(ball(states={"x": "v", "v": RATE + " + sin(time)"})), "it depends on time"),
        (one_of(ball(events={"touch": {"when": "x <= r and v < 0", "then": {"v": "-v"}}, "leave": LEAVE})),
         "changes the state"),
        (one_of(ball(events={"touch": TOUCH})), "no event leads from one of its two modes"),
        (one_of(ball(events={"touch": TOUCH, "leave": {"when": "x >= 2*r", "then": {"touching": False}}})),
         "it does not switch back where it switched"),
        (one_of(ball(events={"touch": TOUCH | {"when": "x <= r and v < -1"}, "leave": LEAVE})),
         "more than a surface"),
        (one_of(ball(events={"touch": TOUCH | {"when": "x <= r or v < -9"}, "leave": LEAVE})),
         "more than one way to happen"),
        (one_of(ball(parameters={**VALUES, "dc": -10.0})), "is not a stable one"),
        (one_of(ball(parameters={**VALUES, "dc": 1e5})), "does not circle"),
        (one_of(ball(parameters={**VALUES, "g": -9.81})), "neither mode has a point of rest"),
        (one_of(ball(states={"x": "v", "v": "-x - v"}, events=None, variables=None)), "nothing in it"),
        (up.Scenario({"a": up.Clock(1.0)}), "not one system of equations"),
    ],
)  # fmt: skip
def test_what_is_no_such_system(scenario: up.Scenario, said: str) -> None:
    with pytest.raises(NotBimodal, match=said):
        planar(scenario)


def test_more_modes_than_two() -> None:
    events = {
        "first": {"when": "x <= r", "then": {"mode": 1}},
        "second": {"when": "x <= 0.5*r", "then": {"mode": 2}},
    }
    states = {"x": "v", "v": RATE.replace("touching", "mode > 0.5")}
    with pytest.raises(NotBimodal, match="more than two modes"):
        planar(one_of(ball(states=states, variables={"mode": 0.0}, events=events)))


def test_what_that_means_for_a_master(monkeypatch: pytest.MonkeyPatch) -> None:
    made = up.load(BALLS / "ball.toml")
    ahead = late_switches(made)
    assert ahead is not None
    monkeypatch.setattr(late, "largest_delay", lambda _: ahead.largest)  # the ball is the same every time
    assert ahead.here is not None
    assert ahead.safe is not None
    assert ahead.here < 1e-6 < ahead.safe < 1.4128689e-3
    text = up.explain(made, program=False)
    assert "it comes to rest as long as it switches less than 0.0014128689 s late" in text
    assert "which is soon enough; tolerance (t_min) may be up to 0.001399 s" in text
    slow = up.load(BALLS / "ball.toml", pace=up.Fixed(0.002))
    assert "up to 0.002 s late, which is too late: take steps of at most 0.001399 s" in up.explain(slow)
    proven = up.Monitored(up.Fixed(0.001), (0.001, 0.002), ((1, -1), (-1, 0)))
    monitored = late_switches(up.load(BALLS / "ball.toml", pace=proven))
    assert monitored is not None
    assert monitored.here == 0.002  # every other step, whatever is asked for


def test_nothing_is_said_where_nothing_switches() -> None:
    still = up.Scenario({"a": up.Ode({"x": "v", "v": "-x - v"}, solver="rk4")})
    made = up.experiment(still, pace=up.Fixed(0.1), until=1.0)
    assert late_switches(made) is None
    assert "Late switches" not in up.explain(made)


def test_it_is_said_why_nothing_is_known() -> None:
    made = up.experiment(one_of(ball(states={"x": "v", "v": RATE, "w": "-w"})), pace=up.Fixed(0.1), until=1.0)
    found = late_switches(made)
    assert found is not None
    assert "3 states" in found.why
    assert "how late switches may be is not known: it has 3 states" in up.explain(made)
    assert found.data()["why_not"] == found.why


def test_the_search_has_a_budget_of_evaluations(monkeypatch: pytest.MonkeyPatch) -> None:
    """With much air a flight is stiff: a single one takes a hundred thousand evaluations."""
    monkeypatch.setattr(late, "WORK", 100)
    made = up.load(BALLS / "ball.toml")
    found = late_switches(made.with_(scenario=made.scenario.with_values({"ball.da": 1e6})))
    assert found is not None
    assert "after 2,400 evaluations of its equations" in found.why
    assert found.safe is None


@pytest.mark.parametrize("changes", [{"ball.c": 1e15}, {"ball.m": 1e300}, {"ball.g": 1e-300}])
def test_what_cannot_be_computed_is_not_known(changes: dict[str, float]) -> None:
    made = up.load(BALLS / "ball.toml")
    found = late_switches(made.with_(scenario=made.scenario.with_values(changes)))
    assert found is not None
    assert found.why
    assert found.safe is None
