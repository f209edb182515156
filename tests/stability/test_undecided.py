"""What is undecided is so everywhere: single steps, intervals of steps, maps, points that are no points."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
import pytest

import upbeat as up
from upbeat.report.stability import describe, sentence
from upbeat.stability.verdicts.spectrum import Judged
from upbeat.stability.verdicts.steps import Spent, stable_steps


def alone(states: dict[str, str], start: dict[str, float] | None = None, **more: Any) -> up.Scenario:
    return up.Scenario(units={"o": up.Ode(states, start=start or {}, **more)})


MARGINAL = [
    alone({"x": "u"}, inputs=["u"]),
    alone({"x": "v", "v": "u"}, inputs=["u"]),
    alone({"x": "v", "v": "-x"}, solver="dormand_prince"),
]


@pytest.mark.parametrize("scenario", MARGINAL, ids=["integrator", "body", "oscillator"])
def test_no_step_of_what_neither_decays_nor_grows_is_stable(scenario: up.Scenario) -> None:
    found = up.stability_of(scenario, pace=0.1)
    data = found.data()
    assert data["verdict"] == "undecided"
    assert (data["stable_steps"], data["largest_stable_step"]) == ([], None)
    assert data["undecided_steps"] == [data["steps_looked_at"]]
    assert "undecided steps" in describe(found)


def test_a_margin_that_vanishes_is_no_limit() -> None:
    """RK4 on x'' = -x: |R(ih)|² = 1 - h⁶/72 + h⁸/576, below 1 up to 2√2, and next to nothing for small h."""
    found = up.stability_of(alone({"x": "v", "v": "-x"}, {"x": 1.0}), pace=0.1, until=10.0)
    assert found.largest_stable_step == pytest.approx(2.0 * sqrt(2.0), rel=1e-5)
    assert found.steps is not None
    (below,) = found.steps.undecided
    (stable,) = found.steps.stable
    assert below.from_zero
    assert below.high == pytest.approx(stable.low, rel=1e-5)
    # There the margin, h⁶/144, is what rounding can hide: some units in the last place.
    assert 1e-16 < below.high**6 / 144.0 < 1e-13
    assert "undecided steps" in describe(found)


def test_an_unstable_step_between_two_others_is_never_skipped() -> None:
    """Undecided, unstable, stable: no bisection may take the middle one for either of the others."""

    def judge(h: float) -> Judged:
        return Judged(1.0, 1.0) if h < 0.3 else Judged(2.0) if h < 0.3001 else Judged(0.5)

    found = stable_steps(judge, 0.1, 1.0, 5)
    assert [(one.low, one.high) for one in found.undecided] == [pytest.approx((0.1, 0.3), rel=1e-5)]
    assert found.stable[0].low == pytest.approx(0.3001, rel=1e-5)
    assert found.largest is None


def test_stable_steps_above_undecided_ones_have_a_largest_and_above_unstable_ones_none() -> None:
    for low, largest in ((Judged(1.0, 1e-9), 2.0), (Judged(1.5), None)):
        found = stable_steps(
            lambda h, low=low: low if h < 0.5 else Judged(0.9 if h < 2.0 else 1.1), 0.1, 10.0, 30
        )
        assert found.largest == (largest and pytest.approx(largest, rel=1e-5))
        assert [(one.low, one.high) for one in found.stable] == [pytest.approx((0.5, 2.0), rel=1e-5)]


def test_a_map_has_three_values() -> None:
    spring = alone({"x": "v", "v": "-k*x - d*v"}, parameters={"k": 1.0, "d": 0.0}, solver="dormand_prince")
    found = up.stability_map(spring, "o.d", [-0.5, 0.0, 0.5], [0.01, 0.1, 0.3])
    assert found.verdicts.tolist() == [["unstable"] * 3, ["undecided"] * 3, ["stable"] * 3]
    assert (found.stable.any(axis=1) == [False, False, True]).all()
    assert found.undecided[1].all()
    assert found.data()["verdicts"][1] == ["undecided"] * 3


def test_a_map_is_made_where_it_is_asked_for() -> None:
    """Van der Pol: its start is soon left, and decides nothing; its rest is not stable."""
    oscillator = alone({"x": "v", "v": "(m - x*x)*v - x"}, {"x": 2.0}, parameters={"m": 1.0})
    start = up.stability_map(oscillator, "o.m", [1.0], [0.1])
    rest = up.stability_map(oscillator, "o.m", [1.0], [0.1], at="rest")
    assert (start.verdicts[0, 0], rest.verdicts[0, 0]) == ("undecided", "unstable")
    assert rest.radius[0, 0] == pytest.approx(np.exp(0.05), rel=1e-5)  # |exp(h·(1 ± i√3)/2)|


@pytest.mark.parametrize("at", [20.0, -1.0, 1e9])
def test_a_time_outside_the_run_is_refused_at_once(at: float) -> None:
    for states in ({"x": "-x"}, {"x": "-x*x*x"}):
        made = up.experiment(alone(states, {"x": 1.0}), pace=0.1, until=10.0)
        with pytest.raises(up.InvalidInput, match=r"not a time of the run \(0 to 10 s\)"):
            up.stability_of(made, at=at)


def test_what_is_linear_needs_no_run_to_a_point() -> None:
    linear = alone({"x": "-x"}, {"x": 1.0})
    assert up.stability_of(linear, pace=0.1, at=9e8, scan=False).spectral_radius == pytest.approx(
        np.exp(-0.1), rel=1e-6
    )
    with pytest.raises(up.InvalidInput, match="more than 200,000 steps"):
        up.stability_of(alone({"x": "-x*x*x"}, {"x": 1.0}), pace=0.1, at=9e8, scan=False)


def test_rest_is_a_point_that_has_come_to_rest() -> None:
    """x' = -x³: near zero a step changes hardly anything long before one is there, and at zero nothing."""
    found = up.stability_of(alone({"x": "-x*x*x"}, {"x": 1.0}), pace=0.1, at="rest", scan=False)
    assert found.verdict == "undecided"
    assert "around rest" in sentence(found)
    assert found.data()["at"] == "rest"
    # x' = 1 - x²: x = 1, where the slope is -2.
    found = up.stability_of(alone({"x": "1 - x*x"}, {"x": 0.2}), pace=0.1, at="rest", scan=False)
    assert (found.verdict, found.spectral_radius) == ("stable", pytest.approx(np.exp(-0.2), rel=1e-5))


def test_it_is_said_why_other_steps_were_not_looked_at() -> None:
    found = up.stability_of(alone({"x": "-x*x*x - x"}), pace=0.1, at=1.0, until=9.0)
    assert found.steps is None
    assert "another run" in describe(found)
    found = up.stability_of(alone({"x": "-x"}), pace=0.1, scan=False)
    assert "stable steps" not in describe(found)  # nobody wanted to know


def test_steps_that_nobody_came_to_are_undecided() -> None:
    """Stable up to 5, and time for so many looks: what is above the last one is neither."""
    for looks in (1, 2, 7, 40):
        seen: list[float] = []

        def judge(h: float, seen: list[float] = seen, looks: int = looks) -> Judged:
            if len(seen) >= looks:
                raise Spent
            seen.append(h)
            return Judged(0.5 + 0.1 * h)

        found = stable_steps(judge, 0.1, 10.0, 20)
        last = found.looked[-1][0]
        assert last <= max(seen)
        assert found.undecided[-1].low == pytest.approx(min(last, 5.0), rel=1e-5)
        assert found.undecided[-1].high == pytest.approx(10.0)
        assert all(one.high <= last for one in found.stable)
        if last > 0.1:
            assert (found.largest, found.open) == (last, True)


def test_a_search_ends_when_its_budget_is_spent() -> None:
    masses = alone({"x": "v", "v": "-x - v"}, {"x": 1.0})
    found = up.stability_of(masses, pace=0.1, until=10.0, seconds=1e-9)
    data = found.data()
    low, high = data["undecided_steps"][-1]
    assert (data["verdict"], data["stable_steps"]) == ("stable", [[low, low]])
    assert data["steps_looked_at"] == [low, low] == [0.001, 0.001]
    assert high == pytest.approx(10.0)
    said = "looked up to 0.001 s, then the budget of 1e-09 s was spent"
    assert data["unlooked_why"] == said
    assert said in describe(found)
    assert "unlooked_why" in (whole := up.stability_of(masses, pace=0.1, until=10.0).data())
    assert whole["unlooked_why"] is None
    others = up.compare_couplings(masses, pace=0.1, until=10.0, seconds=1e-9)
    assert all(one.result.steps is not None and one.result.steps.unlooked for one in others)
    with pytest.raises(up.InvalidInput, match="seconds are a number from 0 on"):
        up.stability_of(masses, pace=0.1, seconds=-1.0)


def test_a_search_for_smaller_steps_ends_as_well() -> None:
    """Unstable with every step: smaller ones are tried, as long as there is time."""
    growing = alone({"x": "x"}, {"x": 1.0})
    found = up.stability_of(growing, pace=0.1, until=10.0, seconds=1e-9)
    assert found.steps is not None
    assert (found.steps.stable, len(found.steps.looked)) == ((), 1)
    assert found.steps.undecided[0].low == found.steps.looked[0][0] == pytest.approx(0.001)


def kicked(rate: float, factor: float, period: float) -> up.Scenario:
    events = {"kick": {"when": "time >= n", "then": {"x": f"{factor}*x", "n": f"n + {period}"}}}
    return alone({"x": f"{rate}*x"}, {"x": 1.0}, variables={"n": period}, events=events)


@pytest.mark.parametrize(("rate", "factor", "period"), [(-1.0, 5.0, 1.0), (0.5, 0.1, 1.0), (-0.2, 1.9, 3.0)])
def test_what_events_do_to_states_is_not_in_a_matrix(rate: float, factor: float, period: float) -> None:
    """Between the kicks a motion does the opposite of what it does in the long run."""
    scenario = kicked(rate, factor, period)
    ran = up.simulate(scenario, pace=0.1, until=30.0)
    assert (abs(ran["o.x"][-1]) < 1.0) == (rate > 0.0)  # as factor*exp(rate*period) says
    found = up.stability_of(scenario, pace=0.1, scan=False)
    assert found.verdict == "undecided"
    assert found.spectral_radius == pytest.approx(np.exp(0.1 * rate), abs=1e-6)  # that of the time between
    assert "unit 'o' has events that change x (kick): the matrix describes the time between" in sentence(
        found
    )
    assert found.data()["why"] == found.model.unseen
    with pytest.raises(up.RunError, match="events that change x"):
        up.stability_along(scenario, pace=0.1, until=5.0)
    with pytest.raises(up.RunError, match="events that change x"):
        up.certified(scenario, [0.1, 0.2])
    assert set(up.stability_map(scenario, "o.x", [1.0], [0.1]).verdicts.ravel()) == {"undecided"}


CLOCK = {"clock": up.Function([], {"t": "time"})}
OSCILLATOR = {"x": "v", "v": "-x - 0.1*v"}


@pytest.mark.parametrize(
    ("unit", "events", "changes"),
    [
        ({"states": {"x": "-s*x"}, "events": {"e": {"when": "time >= 5", "then": {"s": -1.0}}}}, {}, "s (e)"),
        ({"states": OSCILLATOR, "events": {"e": {"when": "x <= 0 and v < 0", "then": {"v": "1.5*v"}}}},
         {}, "v (e)"),
        ({"states": {"x": "-x + s"}, "events": {"e": {"when": "time >= 5", "then": {"s": "2*x"}}}},
         {}, "s (e)"),
        ({"states": {"x": "-x + s"}, "events": {"e": {"when": "x <= 0.5", "then": {"s": 1.0}}}}, {}, "s (e)"),
        ({"states": {"x": "-s*x"}}, {"late": {"when": "clock.t >= 5", "then": {"o.s": -1.0}}}, "s (late)"),
        ({"states": {"x": "-x"}}, {"low": {"when": "o.x <= 0.5", "then": {"o.x": 1.0}}}, "x (low)"),
        # What does not matter:
        ({"states": {"x": "-x"}, "events": {"e": {"when": "x <= 0.5", "then": {"s": "s + 1"}}},
          "outputs": {"x": "x", "s": "s"}}, {}, ""),
        ({"states": {"x": "-x + s"}, "events": {"e": {"when": "time >= 5", "then": {"s": -1.0}}}}, {}, ""),
        ({"states": {"x": "-x + s"}}, {"late": {"when": "clock.t >= 5", "then": {"o.s": -1.0}}}, ""),
        ({"states": {"x": "-x"}}, {"low": {"when": "o.x <= 0.5"}}, ""),
    ],
)  # fmt: skip
def test_events_decide_nothing_unless_they_do_not_matter(
    unit: dict[str, Any], events: dict[str, Any], changes: str
) -> None:
    model = up.Ode(**unit, variables={"s": 1.0}, start={"x": 1.0})
    found = up.stability_of(up.Scenario({"o": model, **CLOCK}, events=events), pace=0.1, scan=False)
    assert found.verdict == ("undecided" if changes else "stable")
    assert f"events that change {changes}" in found.model.unseen if changes else not found.model.unseen


def test_coefficients_that_events_change_at_given_times_are_followed_along_a_run() -> None:
    events = {"e": {"when": "time >= 5", "then": {"s": -1.0}}}
    scenario = alone({"x": "-s*x"}, {"x": 1.0}, variables={"s": 1.0}, events=events)
    assert up.stability_along(scenario, pace=0.1, until=4.0).verdict == "stable"
    assert up.stability_along(scenario, pace=0.1, until=20.0).verdict == "unstable"  # exp(-5 + 15)


def test_who_hears_of_an_event_at_a_state_is_not_decided() -> None:
    """A unit that sends an event where its state says so, to one that pushes it."""
    sends = {"e": {"when": "x <= 0 and v < 0", "emit": {"hit": "v"}}}
    body = up.Ode(
        {"x": "v", "v": "-x - 0.1*v + u"}, start={"x": 1.0}, inputs=["u"], events=sends,
        outputs={"x": "x", "hit": {"event": True, "kind": "real"}},
    )  # fmt: skip
    scenario = up.Scenario({"o": body, "h": up.LastValue(0.0)}, {"h.event": "o.hit", "o.u": "h.value"})
    found = up.stability_of(scenario, pace=0.1, scan=False)
    assert found.verdict == "undecided"


@pytest.mark.parametrize("inside", [0.1, 0.05])
@pytest.mark.parametrize(("then", "changes"), [({"x": "5*x"}, "x"), ({"n": "n + 1"}, "")])
def test_events_inside_nested_scenarios_are_the_same(
    inside: float, then: dict[str, str], changes: str
) -> None:
    events = {"e": {"when": "time >= n", "then": {**then, "n": "n + 1"}}}
    body = up.Ode({"x": "-x + u"}, inputs=["u"], start={"x": 1.0}, variables={"n": 1.0}, events=events)
    inner = up.Scenario({"o": body}, {"o.u": "f"}, inputs=["f"], outputs={"x": "o.x"})
    units = {
        "b": up.Nested(inner, up.Master(pace=up.Fixed(inside))),
        "lag": up.Ode({"z": "y - z"}, inputs=["y"]),
    }
    scenario = up.Scenario(units, {"b.f": "0.1*lag.z", "lag.y": "b.x"})
    found = up.stability_of(scenario, pace=0.1, scan=False)
    assert found.verdict == ("undecided" if changes else "stable")
    assert not changes or f"unit 'b.o' has events that change {changes} (e)" in found.model.unseen


def _clocked(turn: np.random.Generator) -> up.Scenario:
    """An oscillator whose stiffness a van der Pol clock changes: slopes at one point of it say nothing."""
    mu, depth = turn.uniform(0.3, 2.0), turn.uniform(0.2, 0.8)
    x, v = turn.uniform(0.5, 2.5), turn.uniform(-1.0, 1.0)
    clock = up.Ode({"x": "v", "v": f"{mu}*(1 - x*x)*v - x"}, start={"x": x, "v": v}, outputs=["x"])
    rates = {"x": "v", "v": f"-(1 + {depth}*g)*x - 0.05*v"}
    other = up.Ode(rates, inputs=["g"], start={"x": 1e-3}, outputs=["x"])
    return up.Scenario({"c": clock, "o": other}, {"o.g": "c.x"})


@pytest.mark.parametrize("seed", range(6))
def test_slopes_at_a_point_that_the_run_leaves_decide_nothing(seed: int) -> None:
    scenario = _clocked(np.random.default_rng(seed))
    found = up.stability_of(scenario, pace=0.1, coupling="jacobi", at="start" if seed % 2 else 0.5)
    assert found.verdict == "undecided"
    assert np.isfinite(found.spectral_radius)
    assert found.steps is None
    assert "is not a point of rest" in sentence(found)
    assert "--at rest" in found.data()["why"]


@pytest.mark.parametrize("coupling", ["jacobi", "gauss_seidel"])
def test_slopes_that_change_on_the_way_between_units_are_changes(coupling: Any) -> None:
    """x' = y·x, and y goes from -1 to 1: the product is in the connection, and goes through registers."""
    a = up.Ode({"x": "u"}, inputs=["u"], start={"x": 1e-3}, outputs=["x"])
    b = up.Ode({"y": "1 - y"}, start={"y": -1.0}, outputs=["y"])
    scenario = up.Scenario({"a": a, "b": b}, {"a.u": "a.x*b.y"})
    found = up.stability_of(scenario, pace=0.1, coupling=coupling, inputs="hold", scan=False)
    assert (found.verdict, found.spectral_radius < 1.0) == ("undecided", True)


@pytest.mark.parametrize("size", [1.0, 1e12])
@pytest.mark.parametrize("coupling", ["jacobi", "gauss_seidel"])
def test_gains_that_begin_saturated_are_looked_at_where_they_are_not(coupling: Any, size: float) -> None:
    """x' = g·x, and g is -1 until y is there: at first nothing depends on y."""
    a = up.Ode({"x": "g*x"}, inputs=["g"], outputs=["x"])
    b = up.Ode({"y": f"0.01*({size!r} - y)"}, start={"y": -3.0}, outputs=["y"])
    for scenario in (
        up.Scenario({"a": a, "b": b}, {"a.g": f"max(b.y/{size!r}, -1) if b.y > {0.5 * size!r} else -1"}),
        alone({"x": f"(-1 if y < {0.5 * size!r} else 1)*x", "y": f"0.01*({size!r} - y)"}, {"y": -3.0}),
    ):
        found = up.stability_of(scenario, pace=0.1, coupling=coupling, scan=False)
        assert (found.verdict, found.spectral_radius < 1.0) == ("undecided", True)


@pytest.mark.parametrize("size", [1e-12, 1e-6, 1e6])
def test_the_size_of_what_moves_does_not_matter(size: float) -> None:
    scaled = up.Ode({"x": "v", "v": f"(1 - (x/{size})**2)*v - x"}, start={"x": 2.0 * size})  # van der Pol
    assert up.stability_of(up.Scenario({"c": scaled}), pace=0.1, scan=False).verdict == "undecided"
    # Damping that comes to less than nothing, both next to nothing.
    slow = up.Ode({"x": "-g*x", "g": "-1e-3*(g + 5e-7)"}, start={"x": size, "g": 1e-6})
    assert up.stability_of(up.Scenario({"c": slow}), pace=0.1, scan=False).verdict == "undecided"


def test_events_and_slopes_that_change_are_both_told() -> None:
    event = {"e": {"when": "time >= n", "then": {"n": "n + 1"}}}
    for rate, notes in (("-x", 1), ("-sin(x)", 2)):
        unit = up.Ode({"x": rate}, start={"x": 1.0}, variables={"n": 1.0}, events=event)
        found = up.stability_of(up.Scenario({"c": unit}), pace=0.1, scan=False)
        assert found.verdict == ("stable" if notes == 1 else "undecided")
        assert len(found.model.notes) == notes
        assert "has events" in found.model.notes[0]
        assert notes == 1 or found.model.notes[1] == "c is not linear"


@pytest.mark.parametrize("ideal", [False, True])
@pytest.mark.parametrize("step", [0.1, 0.003])
def test_kinks_and_jumps_on_the_way_are_changes(step: float, ideal: bool) -> None:
    """All of these are linear at first, and with these slopes they would decay to somewhere."""
    for rates in (
        {"x": "-x + (2 if x < 1 else -2)"},  # a relay: slopes are the same on both sides
        {"x": "3 - x if x < 1 else 2*x"},
        {"x": "-mod(x, 1)"},  # what comes to rest at -6 from above goes on to -7 a little below
        {"x": "v", "v": "-x - 0.2*v + (v if x > 0.5 else 0)"},  # behind where it would rest
        {"x": "v", "v": "-x - 0.2*v + (v if v > 2 else 0)"},  # beside the straight way there
    ):
        unit = up.Ode(rates, start={"x": -5.3})
        found = up.stability_of(up.Scenario({"a": unit}), pace=step, scan=False, ideal=ideal)
        assert (found.verdict, found.spectral_radius < 1.0) == ("undecided", True)
        assert "is not a point of rest" in found.model.unseen
    unit = up.Ode({"x": "v", "v": "-x - 0.2*v + (v if x > 6 else 0)"}, start={"x": -5.3})  # never there
    found = up.stability_of(up.Scenario({"a": unit}), pace=step, scan=False, ideal=ideal)
    assert found.verdict == "stable"


@pytest.mark.parametrize("rate", ["-1e-4", "-1e-6*(g + 5)"])
def test_slow_changes_are_changes(rate: str) -> None:
    """Damping that turns into excitation after 10,000 steps and more: x' = -g·x, where g falls slowly."""
    unit = up.Ode({"x": "-g*x", "g": rate}, start={"x": 0.0, "g": 1.0}, outputs=["x"])
    found = up.stability_of(up.Scenario({"a": unit}), pace=0.1, scan=False)
    assert found.verdict == "undecided"
    assert "a step moves a.g" in sentence(found)


def test_points_of_rest_and_what_has_the_same_slopes_everywhere_are_judged() -> None:
    pendulum = {"x": "v", "v": "-sin(x) - 0.3*v"}
    hanging = up.Ode(pendulum, start={"x": 0.0}, outputs=["x"])
    swinging = up.Ode(pendulum, start={"x": 1.0}, outputs=["x"])
    assert up.stability_of(up.Scenario({"a": hanging}), pace=0.1, scan=False).verdict == "stable"
    assert up.stability_of(up.Scenario({"a": swinging}), pace=0.1, scan=False).verdict == "undecided"
    assert up.stability_of(up.Scenario({"a": swinging}), pace=0.1, scan=False, at="rest").verdict == "stable"
    # What is not known to be linear, but has the same slopes wherever it goes; and what moves beside it.
    python = up.PythonOde(lambda t, x, u, p: [-x[0]], states={"x": 1.0}, outputs=["x"])
    decays = up.Ode({"x": "-x"}, start={"x": 1.0}, outputs=["x"])
    for scenario in (up.Scenario({"a": python}), up.Scenario({"a": hanging, "b": decays})):
        assert up.stability_of(scenario, pace=0.1, scan=False).verdict == "stable"


def test_proofs_for_several_steps_need_a_point_of_rest_too() -> None:
    swinging = up.Ode({"x": "v", "v": "-sin(x) - 0.3*v"}, start={"x": 1.0}, outputs=["x"])
    with pytest.raises(up.RunError, match="is not a point of rest"):
        up.certified(up.Scenario({"a": swinging}), steps=[0.1, 0.2])


@pytest.mark.parametrize("followed", [True, False])
def test_what_a_state_machine_does_at_states_is_not_in_a_matrix(followed: bool) -> None:
    """Below 0.5 it lets the plant grow."""
    machine = up.StateMachine(
        inputs=["x"], initial="a", states={"a": {}, "b": {}},
        transitions=[{"from": "a", "to": "b", "when": "x < 0.5"}],
        outputs={"g": "-1 if state == 'a' else 1"},
    )  # fmt: skip
    plant = up.Ode({"x": "g*x"}, inputs={"g": {"start": -1.0}}, start={"x": 1.0})
    connections = {"m.x": "p.x"} | ({"p.g": "m.g"} if followed else {})
    scenario = up.Scenario({"p": plant, "m": machine}, connections)
    assert (up.simulate(scenario, pace=0.01, until=5.0)["p.x"][-1] > 1.0) == followed
    found = up.stability_of(scenario, pace=0.0005, scan=False)  # long before it happens
    assert found.verdict == ("undecided" if followed else "stable")
    assert ("when 'm' has events depends on x" in found.model.unseen) == followed


@pytest.mark.parametrize("start", [0.5, 1e-6, 0.0])
@pytest.mark.parametrize(
    "rate", ["-x*x", "-x**3", "x**3", "(x - 1)**2", "-(x - 1)**2", "cos(x) - 1", "(x - 1)**4"]
)
def test_a_point_of_rest_where_slopes_vanish_decides_nothing(rate: str, start: float) -> None:
    """Newton's method stops beside it, on a side where they do not: most of these are stable on one side."""
    found = up.stability_of(alone({"x": rate}, {"x": start}), pace=0.1, scan=False, at="rest")
    assert found.verdict == "undecided"
    for slope, verdict in (("-0.01*x", "stable"), ("0.01*x", "unstable")):
        known = up.stability_of(alone({"x": f"{slope} - x**3"}, {"x": 0.02}), pace=0.1, scan=False, at="rest")
        assert known.verdict == verdict
