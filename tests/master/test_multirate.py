"""Groups at several rates: the fast ones see each other often, the slow ones once a step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import upbeat as up

EXACT = up.DormandPrince(rtol=1e-11, atol=1e-12)


def test_slow_inputs_are_interpolated_over_the_whole_step(engine: str) -> None:
    """A fast integrator of a slow straight line is exact, in however many steps."""
    slow = up.Function(outputs={"y": "1 + 2*time"})
    fast = up.Ode(states={"x": "u"}, inputs=["u"], solver=up.RK4())
    scenario = up.Scenario(units={"fast": fast, "slow": slow}, connections={"fast.u": "slow.y"})
    coupling = up.MultiRate({"fast": 5})
    trace = up.simulate(scenario, pace=0.5, until=3.0, coupling=coupling, inputs=up.Linear(), engine=engine)
    np.testing.assert_allclose(trace["fast.x"], trace.time + trace.time**2, rtol=1e-12)


def pair() -> up.Scenario:
    """A fast oscillator in two units, and a slow unit that only listens."""
    x = up.Ode(states={"x": "20*v"}, start={"x": 1.0}, inputs=["v"], solver=EXACT)
    v = up.Ode(states={"v": "-20*x"}, inputs=["x"], solver=EXACT)
    slow = up.Ode(states={"s": "u"}, inputs=["u"], solver=EXACT)
    return up.Scenario(
        units={"slow": slow, "p": x, "q": v}, connections={"slow.u": "p.x", "p.v": "q.v", "q.x": "p.x"}
    )


def test_a_group_at_rate_k_is_the_group_alone_with_a_k_times_smaller_step(engine: str) -> None:
    alone = up.Scenario(
        units={name: pair().units[name] for name in ("p", "q")}, connections={"p.v": "q.v", "q.x": "p.x"}
    )
    many = up.simulate(
        pair(),
        pace=0.05,
        until=0.5,
        coupling=up.MultiRate({"p": 8, "q": 8}),
        inputs=up.Linear(),
        engine=engine,
    )
    single = up.simulate(alone, pace=0.05 / 8, until=0.5, every=8, inputs=up.Linear(), engine=engine)
    np.testing.assert_allclose(many["p.x"], single["p.x"], atol=1e-9)


def test_slow_units_still_step_once(engine: str) -> None:
    held = up.simulate(pair(), pace=0.05, until=0.5, coupling=up.MultiRate({"p": 8, "q": 8}), engine=engine)
    np.testing.assert_allclose(np.diff(held["slow.s"]), 0.05 * held["p.x"][:-1], rtol=1e-9)


@pytest.mark.parametrize(
    ("rates", "text"), [({"r": 2}, "not a unit"), ({"p": 0}, "at least 1"), ({"p": 1.5}, "whole")]
)
def test_wrong_rates_are_explained(rates: dict[str, int], text: str) -> None:
    with pytest.raises(up.MasterError, match=text):
        up.simulate(pair(), pace=0.1, until=1, coupling=up.MultiRate(rates))


def mixing(slow: dict[str, object], other: dict[str, object], **options: object) -> up.Scenario:
    """`fast` integrates the sum of a slow signal and one of its own rate."""
    return up.Scenario(
        units={
            "fast": up.Ode(states={"x": "u"}, inputs={"u": dict(options)}, solver=EXACT),
            "slow": up.Function(outputs=slow),
            "other": up.Function(outputs=other),
        },
        connections={"fast.u": "slow.y + other.y"},
    )


def mixed(engine: str, scenario: up.Scenario, inputs: object, step: float = 0.5, **options: object) -> Any:
    coupling = up.MultiRate({"fast": 5, "other": 5}, **options)
    return up.simulate(scenario, pace=step, until=3.0, coupling=coupling, inputs=inputs, engine=engine)


@pytest.mark.parametrize("slower", ["first", "beside"])
def test_slow_sources_move_within_the_step_of_mixed_inputs(engine: str, slower: str) -> None:
    """u = (1 + 2t) + 3t is a line: after a first step without history, the secant is exact.

    Slow ones that go first leave only the first fast step to be held. Beside, nothing is known of the
    slow one in the first step, so that it seems to jump at its end, and to go on from there in the next.
    """
    trace = mixed(engine, mixing({"y": "1 + 2*time"}, {"y": "3*time"}), up.Linear(), slower=slower)
    lost = np.diff(trace.time + 2.5 * trace.time**2) - np.diff(trace["fast.x"])
    if slower == "first":
        assert lost[0] == pytest.approx(5 * 0.1**2 / 2, rel=1e-9)
    np.testing.assert_allclose(lost[1 if slower == "first" else 2 :], 0.0, atol=1e-9)


def test_mixed_inputs_converge_with_their_order(engine: str) -> None:
    scenario = mixing({"y": "sin(2*time)"}, {"y": "cos(time)"})

    def error(step: float) -> float:
        trace = mixed(engine, scenario, up.Linear(), step)
        return float(abs(trace["fast.x"][-1] - (1 - np.cos(6.0)) / 2 - np.sin(3.0)))

    assert np.log2(error(0.1) / error(0.05)) == pytest.approx(2.0, abs=0.3)


@pytest.mark.parametrize("inputs", [up.Polynomial(3), up.Hermite(1)], ids=str)
def test_curves_of_mixed_inputs(engine: str, inputs: object) -> None:
    """A sum of cubics is followed exactly once there is enough of a history."""
    slow = {"y": {"value": "time**3", "derivative": "dy"}, "dy": "3*time**2"}
    other = {"y": {"value": "2 - time**2", "derivative": "dy"}, "dy": "-2*time"}
    trace = mixed(engine, mixing(slow, other), inputs)
    exact = trace.time**4 / 4 + 2 * trace.time - trace.time**3 / 3
    np.testing.assert_allclose(np.diff(trace["fast.x"])[3:], np.diff(exact)[3:], rtol=1e-9)


@pytest.mark.parametrize("partner", ["0", "other.y"])
def test_delayed_inputs_go_on_what_was_known_at_the_start(engine: str, partner: str) -> None:
    """Held, a delayed input has the slow value of the start of the step: Σ h·(1 + 2·t_k)."""
    fast = up.Ode(states={"x": "u"}, inputs={"u": {"reactive": False}}, solver=EXACT)
    scenario = up.Scenario(
        units={
            "fast": fast,
            "slow": up.Function(outputs={"y": "1 + 2*time"}),
            "other": up.Function(outputs={"y": "0"}),
        },
        connections={"fast.u": f"slow.y + {partner}"},
    )
    trace = mixed(engine, scenario, up.Hold())
    np.testing.assert_allclose(np.diff(trace["fast.x"]), 0.5 * (1 + 2 * trace.time[:-1]), rtol=1e-9)


def test_delayed_inputs_of_several_rates_are_extrapolated(engine: str) -> None:
    trace = mixed(engine, mixing({"y": "1 + 2*time"}, {"y": "3*time"}, reactive=False), up.Linear())
    exact = np.diff(trace.time + 2.5 * trace.time**2)
    np.testing.assert_allclose(np.diff(trace["fast.x"])[2:], exact[2:], rtol=1e-9)


def test_a_program_is_no_longer_for_a_higher_rate() -> None:
    def length(rate: int) -> int:
        made = up.experiment(pair(), coupling=up.MultiRate({"p": rate, "q": rate}), pace=0.1, until=1.0)
        return sum(1 for _ in made.plan.program.instructions())

    assert length(3) == length(1_000_000)


def test_a_thousand_steps_a_step(engine: str) -> None:
    """x' = -x by Euler in steps of 0.0001, seen by a unit that follows each of them."""
    decay = up.Ode(states={"x": "-x"}, start={"x": 1.0}, solver=up.Euler())
    scenario = up.Scenario(units={"a": decay, "slow": up.Function(outputs={"y": "0"})})
    trace = up.simulate(scenario, pace=0.1, until=1.0, coupling=up.MultiRate({"a": 1000}), engine=engine)
    np.testing.assert_allclose(trace["a.x"], (1 - 1e-4) ** (1000 * np.arange(11)), rtol=1e-10)


@pytest.mark.parametrize(
    ("rates", "words"),
    [
        (["a"], "the rates of MultiRate say how often"),
        ({}, "the rates of MultiRate say how often"),
        ({"a": 0}, "the rate of 'a' must be a whole number"),
        ({"a": 10**9}, "the rate of 'a', 1000000000, is more than 1000000 steps per communication step"),
    ],
    ids=str,
)
def test_wrong_rates_are_refused_where_they_are_written(rates: Any, words: str) -> None:
    with pytest.raises(up.MasterError, match=words):
        up.MultiRate(rates)


def test_the_unit_that_holds_scenario_inputs_has_no_rate() -> None:
    tank = up.Ode(states={"x": "u"}, inputs=["u"])
    scenario = up.Scenario(units={"tank": tank}, connections={"tank.u": "f"}, inputs=["f"])
    for name in ("inputs", "engine"):
        with pytest.raises(
            up.MasterError, match=rf"for '{name}', which is not a unit\. The units are: tank\."
        ):
            up.simulate(scenario, coupling=up.MultiRate({name: 3}), pace=0.1, until=1.0)


def test_what_a_slow_unit_does_not_see_of_a_fast_one_is_said(tmp_path, capsys):
    """A heat loss that pulses between the communication points of the room is lost: wherever one looks."""
    from upbeat.cli.main import main

    loss = up.Ode({"p": "1"}, outputs={"q": "100.0 if p - floor(p) > 0.5 else 0.0"})
    room = up.Ode({"T": "-q/1000"}, inputs=["q"])
    house = up.Scenario({"loss": loss, "room": room}, {"room.q": "loss.q"})
    fast = up.experiment(house, step=1.0, until=10.0, coupling=up.MultiRate({"loss": 20}))
    inner = up.Nested(up.Scenario({"loss": loss}, outputs={"q": "loss.q"}), up.Master(up.Fixed(0.05)))
    nested = up.Scenario({"nest": inner, "room": room}, {"room.q": "nest.q"})
    said = "room.q (from {}.q) sees only one in 20 steps of {}"
    assert abs(fast.run()["room.T"][-1] - -0.5) > 0.3  # the mean of the pulses: silently wrong before
    for made, source in (
        (fast, "loss"),
        (up.experiment(nested, step=1.0, until=10.0), "nest.loss"),
        (up.experiment(nested, step=1.0, until=10.0, flatten=False), "nest"),
    ):
        expected = said.format(source, source)
        assert any(note.startswith(expected) for note in made.run().notes)
        assert expected in up.explain(made, program=False)
    file = tmp_path / "house.toml"
    up.write_scenario(fast, file)
    assert main(["check", str(file)]) == 0
    assert said.format("loss", "loss") in capsys.readouterr().out
    same = up.experiment(house, step=0.05, until=10.0)
    assert not any("sees only" in note for note in same.run().notes)
    other = up.Scenario({"room": room, "loss": loss}, {"room.q": "loss.q"})  # the slow one is the source
    turned = up.experiment(other, step=1.0, until=1.0, coupling=up.MultiRate({"room": 20}))
    assert not any("sees only" in note for note in turned.run().notes)
