"""Where the rules of differentiation give no number: differences do, or the point is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

import upbeat as up


def valve(start: float) -> up.Scenario:
    """x' = -x - sqrt(max(x - 1, 0)): below 1, by the rules, the slope of the root is infinity times zero."""
    unit = up.Ode({"x": "-x - sqrt(max(x - 1, 0))"}, start={"x": start}, outputs=["x"], solver="rk4")
    return up.Scenario({"a": unit})


def test_below_the_root_its_slope_is_zero() -> None:
    found = up.stability_of(valve(0.5), pace=0.1, scan=False)
    once = sum((-0.1) ** k / math.factorial(k) for k in range(5))
    assert found.spectral_radius == pytest.approx(once, rel=1e-9)
    assert found.local


def test_at_the_root_there_is_none() -> None:
    stays = up.Scenario({"a": up.Ode({"x": "-sqrt(max(x, 0))"}, outputs=["x"], solver="rk4")})
    with pytest.raises(up.UpbeatError, match=r"der\(x\) has no slope there in x\. Choose another point"):
        up.stability_of(stays, pace=0.1, scan=False)


def test_differences_are_less_accurate() -> None:
    rough = up.induced(valve(0.5), pace=0.1).accuracy
    sharp = up.induced(valve(2.0), pace=0.1).accuracy
    assert sharp < 1e-12 < rough
    assert np.isfinite(up.induced(valve(2.0), pace=0.1).matrix).all()
