"""MultiRate with slower="beside": one faster group, on what the others were at the start of the step."""

from __future__ import annotations

import numpy as np
import pytest

import upbeat as up

SLOW = up.Ode(states={"x": "1 + 0*u"}, inputs=["u"])
FAST = up.Ode(states={"x": "u"}, inputs=["u"], solver=up.Euler())


def test_the_faster_ones_see_the_start_of_the_step(engine: str) -> None:
    scenario = up.Scenario(
        units={"slow": SLOW, "fast": FAST, "more": FAST},
        connections={"fast.u": "slow.x", "slow.u": "fast.x", "more.u": "slow.x + 0*fast.x"},
    )
    coupling = up.MultiRate({"fast": 4, "more": 4}, slower="beside")
    trace = up.simulate(scenario, pace=0.5, until=2.0, coupling=coupling, engine=engine)
    held = [0.5 * sum(0.5 * k for k in range(n)) for n in range(5)]
    np.testing.assert_allclose(trace["fast.x"], held, atol=1e-12)
    np.testing.assert_allclose(trace["more.x"], held, atol=1e-12)


def test_a_constant_may_drive_a_faster_unit(engine: str) -> None:
    scenario = up.Scenario(units={"slow": SLOW, "fast": FAST}, connections={"fast.u": 2.0})
    for slower in ("first", "beside"):
        coupling = up.MultiRate({"fast": 3}, slower=slower)
        trace = up.simulate(scenario, pace=0.5, until=1.0, coupling=coupling, engine=engine)
        assert trace["fast.x"][-1] == pytest.approx(2.0)


def test_what_is_refused() -> None:
    with pytest.raises(up.MasterError, match="one rate besides 1"):
        up.MultiRate({"a": 2, "b": 3}, slower="beside")
    with pytest.raises(up.MasterError, match="slower must be"):
        up.MultiRate({"a": 2}, slower="never")  # type: ignore[arg-type]
