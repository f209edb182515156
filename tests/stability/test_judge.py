"""Verdicts: stable steps as intervals, free motions, what cannot be decided, and what cannot be judged."""

from __future__ import annotations

from math import cos, pi
from typing import Any

import numpy as np
import pytest

import upbeat as up
from stability_models import FIGURE, Chord, masses
from upbeat.core.expr import parse
from upbeat.report.stability import changes, describe
from upbeat.stability.linear.flows import affine, exponential
from upbeat.stability.verdicts.compare import Alternative
from upbeat.stability.verdicts.spectrum import Judged
from upbeat.stability.verdicts.steps import stable_steps

LIMITS = [
    (up.Jacobi(), up.Hold(), 0.3346),
    (up.Jacobi("lagged"), up.Hold(), 0.1994),
    (up.Jacobi(), up.Linear(), 0.5971),
    (up.Jacobi(), up.Continuous(), 0.1652),
    (up.GaussSeidel(("left", "right")), up.Hold(), 0.2007),
    (up.GaussSeidel(("left", "right")), Chord(), 0.5161),
]


@pytest.mark.parametrize(("coupling", "inputs", "limit"), LIMITS, ids=str)
def test_the_largest_stable_steps_of_the_coupled_masses(coupling: Any, inputs: Any, limit: float) -> None:
    found = up.stability_of(
        masses(**FIGURE), pace=0.1, coupling=coupling, inputs=inputs, ideal=True, scan=(0.01, 1.0), points=30
    )
    assert found.largest_stable_step == pytest.approx(limit, abs=1e-4)


def test_the_set_of_stable_steps_is_no_interval() -> None:
    """Five sweeps of Gauss-Seidel: stable up to 1.9233, and again from 2.206 to 2.279."""
    coupling = up.Iterated(up.GaussSeidel(("left", "right")), corrections=4)
    found = up.stability_of(
        masses(**FIGURE), pace=0.1, coupling=coupling, inputs=Chord(), ideal=True, scan=(0.1, 2.6), points=40
    )
    assert found.steps is not None
    ends = [(interval.low, interval.high) for interval in found.steps.stable]
    assert found.largest_stable_step == pytest.approx(1.9233, abs=1e-4)
    assert ends[1] == pytest.approx((2.206, 2.279), abs=1e-3)
    assert [2.0 in interval for interval in found.steps.stable] == [False, False]


def test_an_interval_between_two_points_of_the_scan_is_found() -> None:
    found = stable_steps(lambda h: Judged(1.2 - 0.3 * np.exp(-(((h - 2.0) / 0.05) ** 2))), 0.5, 8.0, 60)
    (interval,) = found.stable
    half = 0.05 * np.sqrt(np.log(1.5))
    assert (interval.low, interval.high) == pytest.approx((2 - half, 2 + half), abs=1e-5)
    assert found.largest is None  # smaller steps are not stable


def test_ends_of_intervals_are_found_to_the_last_digits_that_matter() -> None:
    found = stable_steps(lambda h: Judged(1.0 + 0.1 * cos(h)), 0.1, 10.0, 50)
    ends = [end for interval in found.stable for end in (interval.low, interval.high)]
    assert ends == pytest.approx([pi / 2, 3 * pi / 2, 5 * pi / 2, 10.0], rel=2e-6)
    assert found.stable[-1].open_ended


def test_the_mode_names_those_who_carry_it() -> None:
    """A slow pair of units and one that has nothing to do with them."""
    slow = up.Ode({"x": "-0.01*x"}, start={"x": 1.0})
    pair = up.Ode({"y": "-y + 0.5*u"}, inputs=["u"], start={"y": 1.0})
    scenario = up.Scenario(
        units={"slow": slow, "a": pair, "b": pair}, connections={"a.u": "b.y", "b.u": "a.y"}
    )
    found = up.stability_of(scenario, pace=0.1, ideal=True)
    assert found.verdict == "stable"
    assert found.mode.ports == (("slow.x", pytest.approx(1.0)),)
    assert found.mode.rate(0.1) == pytest.approx(-0.01)
    assert found.margin == pytest.approx(1 - np.exp(-0.001))
    assert found.data()["mode"]["frequency"] == 0.0


def test_a_free_motion_is_neither_stable_nor_unstable() -> None:
    body = up.Ode({"x": "v", "v": "F"}, inputs=["F"], start={"x": 1.0}, outputs=["x", "v"])
    brake = up.Function(["v"], {"F": "-v"})
    scenario = up.Scenario(
        units={"body": body, "brake": brake}, connections={"body.F": "brake.F", "brake.v": "body.v"}
    )
    found = up.stability_of(scenario, pace=0.1)
    assert found.verdict == "undecided"
    assert found.spectral_radius == pytest.approx(1.0)
    assert [free.ports[0][0] for free in found.spectrum.free] == ["body.x"]
    # Everything else decays for steps below 2: v+ = v - h·v, whatever the solver. That makes none stable.
    assert found.steps is not None
    assert (found.largest_stable_step, found.steps.stable) == (None, ())
    assert found.steps.not_unstable == pytest.approx(2.0, rel=1e-5)


def test_what_cannot_be_told_from_one_is_undecided() -> None:
    """An oscillator without damping, solved exactly: its eigenvalues lie on the circle."""
    body = up.Ode({"x": "v", "v": "-x"}, start={"x": 1.0})
    assert up.stability_of(up.Scenario(units={"body": body}), pace=0.1, ideal=True).verdict == "undecided"


def test_verdicts_on_what_is_not_linear_are_local() -> None:
    body = up.Ode({"x": "-x**3 - x"}, start={"x": 1.0})
    found = up.stability_of(up.Scenario(units={"body": body}), pace=0.1, scan=False, at="rest")
    assert (found.verdict, found.local) == ("stable", True)
    assert "body is not linear" in found.model.notes
    from upbeat.report.stability import sentence

    assert sentence(found).startswith("Locally stable")


def test_a_comparison_tells_which_order_is_better() -> None:
    scenario = masses(**FIGURE)
    found = up.compare_couplings(scenario, pace=0.1, ideal=True, scan=(0.15, 0.65))
    assert found[0].present
    limits = {one.label: one.result.largest_stable_step for one in found}
    assert limits["Jacobi, hold inputs"] == pytest.approx(0.3346, abs=1e-4)
    assert limits["Gauss-Seidel left → right, hold inputs"] == pytest.approx(0.2007, abs=1e-4)
    assert limits["Jacobi, linear inputs"] == pytest.approx(0.5971, abs=1e-4)
    others = [one.result.largest_stable_step or 0.0 for one in found[1:]]
    assert others == sorted(others, reverse=True)


def test_a_map_shows_the_same_as_single_verdicts() -> None:
    found = up.stability_map(masses("euler", **FIGURE), "right.dc", [0.1, 0.5], [0.05, 0.1, 0.4])
    assert found.radius.shape == (2, 3)
    for i, value in enumerate(found.values):
        for j, step in enumerate(found.steps):
            one = up.stability_of(masses("euler", **{**FIGURE, "dc": value}), pace=step, scan=False)
            assert found.radius[i, j] == pytest.approx(one.spectral_radius, rel=1e-12)
    assert found.radius[0, 1] == pytest.approx(1.0025062, abs=1e-7)
    assert not found.stable[0, 1]


class Opaque:
    """A unit that tells nothing of its state."""

    def __init__(self, name: str, start: float, parameters: dict[str, Any]) -> None:
        self.x, self.u = 1.0, 0.0

    def get(self, port: str) -> float:
        return self.x

    def set(self, port: str, coefficients: Any) -> None:
        self.u = coefficients[0]

    def advance(self, t: float, to: float, early: bool) -> float:
        self.x += (to - t) * self.u
        return to


def test_units_without_rollback_are_refused_by_name() -> None:
    from upbeat.units import ports

    scenario = up.Scenario(
        units={"box": up.PythonUnit(Opaque, ports(["u"], ["y"]))}, connections={"box.u": "-box.y"}
    )
    with pytest.raises(up.InvalidInput, match=r"'box' cannot be linearised.*ROLLBACK"):
        up.stability_of(scenario, pace=0.1)


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ({"pace": up.ErrorControl()}, "step=0.01"),
        ({"pace": 0.1, "at": "dawn"}, '"start", "rest"'),
        ({"pace": 0.1, "at": float("nan")}, '"start", "rest"'),
        ({"pace": 0.1, "step": -1.0}, "positive"),
        ({"pace": 0.1, "scan": (1.0, 0.1)}, "smaller step to a larger"),
        ({"pace": 0.1, "points": 1}, "at least 2"),
        ({"pace": 0.1, "scan": "yes"}, "scan is True, False, or two steps"),
        ({"pace": 0.1, "scan": (0.1,)}, "scan is True, False, or two steps"),
        ({"step": 0.1, "couplin": "jacobi"}, "there is no setting 'couplin'.*coupling"),
        ({"couplin": "jacobi"}, "there is no setting 'couplin'.*coupling"),
        ({}, "'pace' is missing"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: Any, what: str) -> None:
    with pytest.raises(up.InvalidInput, match=what):
        up.stability_of(masses(), **arguments)


def test_the_size_alone_will_do_for_a_pace() -> None:
    assert up.stability_of(masses(), step=0.1, scan=False).data() == (
        up.stability_of(masses(), pace=0.1, scan=False).data()
    )
    assert (up.induced(masses(), step=0.1).matrix == up.induced(masses(), pace=0.1).matrix).all()


def test_an_operating_point_that_is_not_there_is_told() -> None:
    runaway = up.Ode({"x": "1 + x*x"}, start={"x": 0.0})
    with pytest.raises(up.InvalidInput, match="no operating point at rest"):
        up.stability_of(up.Scenario(units={"runaway": runaway}), pace=0.01, at="rest")


@pytest.mark.parametrize(
    ("text", "proven"),
    [
        ("2*x - u/4 + 1", True),
        ("-(x + u)*c", True),
        ("x + sin(time)*c", True),
        ("x if c > 0 else u", True),
        ("x*u", False),
        ("x*time", False),
        ("x/u", False),
        ("c/x", False),
        ("sin(x)", False),
        ("floor(x)", False),
        ("sign(x) + u", False),
        ("x if x > 0 else u", False),
        ("abs(c)*x", True),
    ],
)
def test_linearity_is_read_off_the_formula(text: str, proven: bool) -> None:
    assert affine([parse(text)], {"x", "u"}, {"time"}) is proven


@pytest.mark.parametrize("size", [0.0, 1e-3, 1.0, 30.0])
def test_the_exponential_is_that_of_scipy(size: float) -> None:
    from scipy.linalg import expm

    matrix = size * (np.random.default_rng(4).uniform(-1, 1, (6, 6)) - 1.5 * np.eye(6))
    np.testing.assert_allclose(exponential(matrix), expm(matrix), rtol=1e-11, atol=1e-13)
    with pytest.raises(OverflowError):
        exponential(np.full((2, 2), np.inf))


def test_deviations_from_a_run_are_followed_step_by_step() -> None:
    """x' = (a + cos t)·x: ∫ is a·t + sin t, so deviations go as e^{a·t}, not all steps do."""
    for a, verdict in ((-0.4, "stable"), (0.3, "unstable")):
        unit = up.Ode({"x": "(a + cos(time))*x"}, start={"x": 1e-3}, parameters={"a": a}, solver="rk4")
        made = up.experiment(up.Scenario(units={"u": unit}), pace=0.05, until=60.0)
        found = up.stability_along(made)
        assert found.verdict == verdict
        assert found.rate == pytest.approx(a + np.sin(60.0) / 60.0, abs=2e-3)
        assert found.radius.max() > 1.0 > found.radius.min()
        # the steps of a recorded run, which some other pace may have chosen
        again = up.stability_along(made, made.run())
        assert again.rate == pytest.approx(found.rate, rel=1e-6)


def test_a_run_that_cannot_be_followed_is_told() -> None:
    scenario = up.Scenario(units={"u": up.Ode({"x": "-x"}, start={"x": 1.0})})
    with pytest.raises(up.InvalidInput, match="give the trace"):
        up.stability_along(scenario, pace=up.ErrorControl(), until=1.0)
    with pytest.raises(up.InvalidInput, match="fewer than four"):
        up.stability_along(scenario, pace=0.5, until=1.0)
    with pytest.raises(up.InvalidInput, match="shorter run"):
        up.stability_along(scenario, pace=1e-6, until=1.0)


def test_registers_that_wait_for_an_event_are_no_motions() -> None:
    """A ball above the floor: between bounces all that moves are its height and its speed."""
    ball = up.Ode(
        {"h": "v", "v": "-9.81 - 0.1*v - 0.5*h"},
        start={"h": 10.0},
        events={"bounce": {"when": "h <= 0 and v < 0", "then": {"v": "-0.5*v"}}},
    )
    scenario = up.Scenario(
        units={"ball": ball}, events={"low": {"when": "ball.h <= 0.5", "then": {"ball.v": "ball.v + 1"}}}
    )
    found = up.stability_of(scenario, pace=0.01, scan=False)
    assert (found.verdict, found.local, found.spectrum.free) == (
        "undecided",
        True,
        (),
    )  # what bounces do is not known
    assert found.spectral_radius == pytest.approx(np.exp(-0.05 * 0.01), abs=1e-9)  # half the damping
    assert any("events" in note for note in found.model.notes)


def test_a_point_without_derivatives_is_told() -> None:
    tank = up.Ode({"x": "-sqrt(x) + u"}, inputs=["u"], start={"x": 0.0}, solver="euler")
    found = up.stability_of(up.Scenario(units={"tank": tank}), pace=0.1, scan=False)
    assert found.verdict == "undecided"
    assert "der(x) has no slope there in x" in found.why


UNDECIDED = {
    "not a point of rest": up.Ode({"x": "v", "v": "(1 - x*x)*v - x"}, start={"x": 2.0}),
    "one free motion (u.x) neither decays nor grows": up.Ode({"x": "0"}),
    "2 free motions (u.x, u.y) neither decay nor grow": up.Ode({"x": "0", "y": "0", "z": "-z"}),
    "cannot be distinguished from 1": up.Ode({"x": "v", "v": "-x"}, solver=up.DormandPrince(rtol=1e-12)),
    "has no slope there in x": up.Ode({"x": "-sqrt(x)"}, solver="euler"),
}


@pytest.mark.parametrize("why", UNDECIDED)
def test_every_undecided_verdict_says_why(why: str) -> None:
    found = up.stability_of(up.Scenario(units={"u": UNDECIDED[why]}), pace=0.1, scan=False)
    assert (found.verdict, why in found.why) == ("undecided", True), found.why
    assert found.data()["why"] == found.why
    assert found.why.rstrip(".") in describe(found)


def test_a_verdict_has_no_reason_to_be_undecided() -> None:
    found = up.stability_of(up.Scenario(units={"u": up.Ode({"x": "-x"})}), pace=0.1, scan=False)
    assert (found.verdict, found.why, found.data()["why"]) == ("stable", "", None)


def test_two_units_that_should_change_places_are_named() -> None:
    """What is said of the order alone are the limits of both orders, each judged by itself."""
    settings: dict[str, Any] = {"pace": 0.1, "inputs": "linear", "ideal": True, "scan": (0.1, 2.0)}
    good, bad = (
        up.stability_of(masses(), coupling=up.GaussSeidel(order), **settings)
        for order in (("left", "right"), ("right", "left"))
    )
    here, there = (
        Alternative("", up.Master(up.Fixed(0.1), up.GaussSeidel(order), up.Linear()), one, here, order)
        for order, one, here in ((("right", "left"), bad, True), (("left", "right"), good, False))
    )
    others = [here, there]
    said = [line for line in changes(bad, others) if line.startswith("swap")]
    assert said == [
        f"swap right and left: the largest stable step rises from {bad.largest_stable_step:.4g} s "
        f"to {good.largest_stable_step:.4g} s"
    ]
    assert not changes(bad, [one for one in others if one.present])


def test_the_point_of_rest_that_was_found_is_named() -> None:
    """x' = x - x³ rests at -1, 0 and 1: what is found depends on where the search begins, so it is told."""
    for start, resting, verdict in ((0.9, 1.0, "stable"), (-0.9, -1.0, "stable"), (0.05, 0.0, "unstable")):
        unit = up.Ode({"x": "x - x*x*x"}, start={"x": start})
        found = up.stability_of(up.Scenario(units={"u": unit}), pace=0.1, at="rest", scan=False)
        assert found.verdict == verdict
        assert dict(found.model.point)["u.x"] == pytest.approx(resting, abs=1e-6)
        assert "there may be other points of rest" in describe(found)
        assert found.data()["rest_point"]["u.x"] == pytest.approx(resting, abs=1e-6)
    unit = up.Ode({"x": "-x"}, start={"x": 1.0})  # linear: one matrix everywhere
    assert up.stability_of(up.Scenario(units={"u": unit}), pace=0.1, at="rest").data()["rest_point"] is None
