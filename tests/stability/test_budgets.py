"""What is looked at before a run ends, whatever the numbers of a scenario are: undecided, with the reason."""

from __future__ import annotations

import pytest

import upbeat as up
from upbeat.core import replay
from upbeat.core.abilities import Ability
from upbeat.core.replay import broken_promise
from upbeat.core.time import Span
from upbeat.engine.deep import depths
from upbeat.stability.linear import flows, forms


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forms, "WORK", 500)
    monkeypatch.setattr(replay, "WORK", 5000)
    monkeypatch.setattr("upbeat.engine.deep.WORK", 5000)


def one(**changes: object) -> up.Scenario:
    made = up.Ode({"x": "-x*x + u"}, inputs=["u"], outputs=["x"], start={"x": 1.0}, **changes)  # type: ignore[arg-type]
    return up.Scenario({"a": made, "b": made}, {"a.u": "0.1*b.x", "b.u": "0.1*a.x"})


@pytest.mark.parametrize(
    "solver",
    [up.Euler(steps=10**9), up.RK4(step=1e-9), up.DormandPrince(longest=1e-9, max_steps=10**9)],
    ids=["steps", "step", "longest"],
)
def test_a_step_that_takes_too_many_evaluations_is_undecided(short: None, solver: object) -> None:
    scenario = one(solver=solver)
    found = up.stability_of(scenario, pace=0.1, scan=False)
    assert found.verdict == "undecided"
    assert "more than 500 evaluations of equations" in found.why
    tried = depths(scenario, Span(0.0, 1.0))
    assert [unit for unit, _ in tried.untried] == ["a", "b"]
    assert broken_promise(scenario.units["a"], Ability.ROLLBACK, step=0.1) is None


def test_what_takes_longer_than_one_has_patience_is_undecided() -> None:
    scenario = one()
    assert up.stability_of(scenario, pace=0.1, scan=False).model.matrix.size
    found = up.stability_of(scenario, pace=0.1, scan=False, patience=0.0)
    assert (found.verdict, "longer than there is time for" in found.why) == ("undecided", True)
    with pytest.raises(up.StepError, match="longer than there is time for"):
        up.induced(scenario, pace=0.1, patience=0.0)
    for judge in (up.stability_of, up.induced):
        with pytest.raises(up.InvalidInput, match="a number from 0 on"):
            judge(scenario, pace=0.1, patience=-1.0)


def test_slopes_are_followed_through_so_many_solver_steps_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flows, "STAGES", 20)
    assert up.stability_of(one(solver=up.RK4(steps=5)), pace=0.1, scan=False).spectral_radius < 1.0
    found = up.stability_of(one(solver=up.RK4(steps=6)), pace=0.1, scan=False)
    assert (found.verdict, "6 solver steps are too many" in found.why) == ("undecided", True)


def test_steps_inside_count_too(short: None) -> None:
    inner = up.Scenario(
        {"x": up.Ode({"x": "-x*abs(x)"}, outputs=["x"], start={"x": 1.0}, solver="euler")},
        outputs={"y": "x.x"},
    )
    nest = up.Scenario(
        {
            "n": up.Nested(inner, up.Master(up.Fixed(1e-6)), flatten=False),
            "o": up.Ode({"z": "u - z"}, inputs=["u"]),
        },
        {"o.u": "n.y"},
    )
    found = up.stability_of(nest, pace=1.0, scan=False)
    assert (found.verdict, "more than 500" in found.why) == ("undecided", True)


@pytest.mark.parametrize("scan", [(1e-300, 1e300), (1e-12, 1e9)])
def test_a_scan_over_very_many_powers_of_ten_is_refused(scan: tuple[float, float]) -> None:
    with pytest.raises(up.InvalidInput, match="powers of ten"):
        up.stability_of(one(), pace=0.1, scan=scan)


@pytest.mark.parametrize("step", [5e-324, 1e-300, 1e300])
def test_steps_of_any_size_have_a_verdict_or_a_reason(step: float) -> None:
    still = up.Scenario({"a": up.Ode({"x": "-1e-9*x"}, outputs=["x"], start={"x": 0.0}, solver="euler")})
    found = up.stability_of(still, pace=step, until=1e301)
    assert found.steps is None
    assert "beyond the precision of numbers" in found.unlooked


def test_steps_far_below_those_inside_are_refused_with_the_reason() -> None:
    inner = up.Scenario(
        {"x": up.Ode({"x": "-x*abs(x)"}, outputs=["x"], start={"x": 1.0})}, outputs={"y": "x.x"}
    )
    nest = up.Scenario({"n": up.Nested(inner, up.Master(up.Fixed(0.05)), flatten=False)})
    with pytest.raises(up.UpbeatError, match=r"0\.05"):
        up.stability_of(nest, pace=5e-324, scan=False)
