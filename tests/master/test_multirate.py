"""Groups at several rates: the fast ones see each other often, the slow ones once a step."""

from __future__ import annotations

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
    ("rates", "text"), [({"r": 2}, "no unit"), ({"p": 0}, "at least 1"), ({"p": 1.5}, "whole")]
)
def test_wrong_rates_are_explained(rates: dict[str, int], text: str) -> None:
    with pytest.raises(up.MasterError, match=text):
        up.simulate(pair(), pace=0.1, until=1, coupling=up.MultiRate(rates))
