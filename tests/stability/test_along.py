"""Deviations along a run: neither units of measure nor what soon passes decide; short runs leave it open."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import upbeat as up
from stability_models import masses
from upbeat.report.stability import along
from upbeat.stability.linear import followed


def alone(states: dict[str, str], **more: Any) -> up.Scenario:
    return up.Scenario(units={"o": up.Ode(states, solver="dormand_prince", **more)})


@pytest.mark.parametrize("until", [1.0, 2.0, 10.0, 50.0])
def test_the_rate_of_what_is_linear_does_not_depend_on_the_run(until: float) -> None:
    """It is the logarithm of the spectral radius; what the run adds is how sure that is."""
    made = up.experiment(masses(), pace=0.1, until=until, coupling="gauss_seidel", inputs="linear")
    found = up.stability_along(made)
    one = up.stability_of(made, scan=False)
    assert found.rate == pytest.approx(one.mode.rate(0.1), rel=1e-9)
    assert found.data()["uncertainty"] == found.uncertainty > 0.0
    if until == 50.0:
        assert found.uncertainty < 0.1 * abs(found.rate)
        assert found.verdict == one.verdict


@pytest.mark.parametrize("damping", [0.5, 0.0, -0.5])
@pytest.mark.parametrize("unit", [pytest.param(1.0, marks=pytest.mark.slow), 1e3])
def test_units_of_measure_do_not_decide(damping: float, unit: float) -> None:
    """x'' = -10⁴·x - d·x', speeds in other units: -d/2 per second, open as long as the run is short."""
    forms = {"x": f"v/{unit}", "v": f"{unit}*(-10000*x) - {damping}*v"}
    right = {0.5: "stable", 0.0: "undecided", -0.5: "unstable"}[damping]
    for until in (0.01, 0.05, 0.11, 0.2, 4.0):
        found = up.stability_along(alone(forms, start={"x": 1.0}), pace=0.001, until=until)
        assert found.rate == pytest.approx(-0.5 * damping, abs=1e-9)
        assert found.verdict in (right, "undecided")
        assert ("a longer run" in along(found)) == (found.verdict == "undecided")
    assert found.verdict == right


def test_what_soon_passes_does_not_decide() -> None:
    """x' = -x + 1000·y, y' = -2·y: grows a hundredfold before it decays; a little of it is fed back."""
    forms = {"x": "-x + 1000*y", "y": "-2*y - 1e-5*x"}
    rate = np.linalg.eigvals(np.array([[-1.0, 1000.0], [-1e-5, -2.0]])).real.max()
    for until in (0.05, 0.5, 20.0):
        found = up.stability_along(alone(forms, start={"y": 1.0}), pace=0.01, until=until)
        assert found.rate == pytest.approx(rate, rel=1e-9)
        assert found.verdict in ("stable", "undecided")
    assert found.verdict == "stable"


def test_steps_that_are_stable_one_by_one_grow_together() -> None:
    """A spring that is stiffened whenever it is stretched: Mathieu's equation, in its first tongue.

    x'' = -(1 + 0.8·cos 2t)·x - 0.1·x'. To first order it grows by 0.8/4 - 0.1/2 per second.
    """
    forms = {"x": "v", "v": "-(1 + 0.8*cos(2*time))*x - 0.1*v"}
    found = up.stability_along(alone(forms, start={"x": 1.0}), pace=0.1, until=40 * np.pi)
    assert found.verdict == "unstable"
    assert found.rate == pytest.approx(0.15, abs=0.02)


def test_a_run_that_changes_its_mind_is_open() -> None:
    """It grows for as long as it decays."""
    found = up.stability_along(alone({"x": "(5 - time)*x"}, start={"x": 1e-3}), pace=0.1, until=10.2)
    assert found.verdict == "undecided"
    assert found.uncertainty > 2.0


def test_what_is_gone_is_stable() -> None:
    """An Euler step of just the right size ends at zero."""
    unit = up.Ode({"x": "-10*x"}, start={"x": 1.0}, solver="euler")
    found = up.stability_along(up.Scenario(units={"u": unit}), pace=0.1, until=2.0)
    assert (found.verdict, found.uncertainty) == ("stable", 0.0)


def test_following_a_run_has_a_budget() -> None:
    unit = up.Ode({"x": "-x*x*x"}, start={"x": 1.0})
    with pytest.raises(up.InvalidInput, match=r"followed 0 of 100 steps.*budget of 0 s was spent"):
        up.stability_along(up.Scenario(units={"u": unit}), pace=0.1, until=10.0, seconds=0.0)


def test_what_is_too_large_is_refused_before_it_takes_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followed, "LARGEST", 3)
    units = {f"u{i}": up.Ode({"x": "-x"}, start={"x": 1.0}) for i in range(4)}
    with pytest.raises(up.InvalidInput, match="4 entries, and at most 3 are allowed"):
        up.stability_of(up.Scenario(units=units), pace=0.1)


def test_too_many_registers_are_refused_before_anything_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followed, "LARGEST", 5)
    monkeypatch.setattr(followed, "Forms", None)
    unit = up.Ode({"x": "u - x"}, inputs=["u"], outputs=["x"])
    links = {f"u{i}.u": f"u{(i + 1) % 8}.x" for i in range(8)}
    scenario = up.Scenario(units={f"u{i}": unit for i in range(8)}, connections=links)
    with pytest.raises(
        up.InvalidInput, match="8 entries besides the states of units, and at most 5 are allowed"
    ):
        up.stability_of(scenario, pace=0.1)


RELAYS = {
    "sign": "-x - {k}*sign(x - {c})",
    "if": "-x + ({k} if x < {c} else -{k})",
    "moving": "-x - {k}*sign(x - {c}*sin(3*time))",
    "floor": "-x - {k}*floor(x - {c})",
}


@pytest.mark.parametrize("solver", ["rk4", "dormand_prince"])
@pytest.mark.parametrize("kind", RELAYS)
def test_modes_that_change_on_the_way_leave_it_open(kind: str, solver: str) -> None:
    """A relay that chatters has the same slopes on both sides, and deviations become what no slope says."""
    turn = np.random.default_rng(len(kind))
    for _ in range(2):
        k, c = turn.uniform(1.0, 4.0), turn.uniform(0.1, 0.4)
        rate = RELAYS[kind].format(k=k, c=c)
        # Chattering takes a solver with error control very long, and going to and fro does not.
        rates = {"x": rate} if solver == "rk4" else {"x": "v", "v": f"{rate} - 0.2*v"}
        unit = up.Ode(rates, start={"x": turn.uniform(0.5, 1.0)}, solver=solver)
        found = up.stability_along(up.Scenario({"o": unit}), pace=0.05, until=6.0)
        assert found.verdict == "undecided"
        assert " jumps close to where the run is" in found.why
        assert found.data()["why"] == found.why
        assert found.why in along(found)


def relay_between(kind: str) -> up.Scenario:
    """The same with the relay in another unit."""
    plant = up.Ode({"x": "-x + u"}, inputs=["u"], outputs=["x"], start={"x": 1.0})
    if kind == "sampled":
        relay: Any = up.PythonDiscrete(
            start=(0.0,), external=lambda x, elapsed, events: (2.0 if events["z"] < 0.3 else -2.0,),
            shows=lambda x: {"u": x[0]}, inputs={"z": {"kind": "real"}}, outputs=["u"],
        )  # fmt: skip
        units = {"p": plant, "s": up.Sampler(0.2), "r": relay}
        return up.Scenario(units, {"s.signal": "p.x", "r.z": "s.event", "p.u": "r.u"})
    if kind == "python":
        relay = up.PythonFunction(lambda t, u, p: -2.0 if u.z > 0.3 else 2.0, inputs=["z"], outputs=["u"])
    else:
        relay = up.Function(["z"], {"u": "-2*sign(z - 0.3)"})
    return up.Scenario({"p": plant, "r": relay}, {"p.u": "r.u", "r.z": "p.x"})


@pytest.mark.parametrize("kind", ["function", "python", "sampled"])
def test_so_do_those_of_other_units(kind: str) -> None:
    found = up.stability_along(relay_between(kind), pace=0.05, until=3.0)
    assert (found.verdict, "jumps close to where the run is" in found.why) == ("undecided", True)


@pytest.mark.parametrize("solver", ["rk4", "dormand_prince"])
@pytest.mark.parametrize("push", ["max(-0.2, min(0.2, x - 0.1))", "0.5*abs(v)*v", "0.3*abs(x)"])
def test_kinks_on_the_way_decide_nothing_by_themselves(push: str, solver: str) -> None:
    """Slopes change there, and values do not: two runs beside each other are the judge."""
    unit = up.Ode({"x": "v", "v": f"-2*x - 0.5*v - {push} + sin(time)"}, start={"x": 1.0}, solver=solver)
    made = up.experiment(up.Scenario({"o": unit}), pace=0.05, until=10.0)
    found = up.stability_along(made)
    assert (found.verdict, found.why) == ("stable", "")
    runs = [made.with_values({"o.x": start}).run() for start in (1.0, 1.0001)]
    left = abs(runs[0]["o.x"][-1] - runs[1]["o.x"][-1])
    assert left < 0.3e-4


def test_far_from_where_it_switches_a_relay_is_as_good_as_none() -> None:
    unit = up.Ode({"x": "-x - sign(x + 5)"}, start={"x": 3.0})
    found = up.stability_along(up.Scenario({"o": unit}), pace=0.05, until=3.0)
    assert (found.verdict, found.why) == ("stable", "")
    assert found.rate == pytest.approx(-1.0, rel=1e-6)
