"""Nested scenarios: judged as what is inside them where that can take their place; else the true reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import upbeat as up
from upbeat.report.stability import describe


def boxed(coupling: Any = None, *, flatten: bool = True) -> up.Scenario:
    cart = up.Ode({"x": "v", "v": "-x - d*v + F"}, start={"x": 1.0}, inputs=["F"], parameters={"d": 0.5})
    inside = up.Scenario(
        units={"m": cart, "k": up.Function(["x"], {"F": "-2*x"})},
        connections={"m.F": "k.F + push", "k.x": "m.x"},
        inputs=["push"],
        outputs={"x": "m.x"},
    )
    master = up.Master(up.Fixed(0.05), coupling=coupling or up.Jacobi())
    return up.Scenario(
        units={"box": up.Nested(inside, master, flatten=flatten)}, connections={"box.push": "-0.1*box.x"}
    )


def test_a_nest_that_cannot_be_flattened_says_why() -> None:
    with pytest.raises(up.InvalidInput, match=r"'box' cannot be linearised.*asked to stay nested") as error:
        up.stability_of(boxed(flatten=False), pace=0.1)
    assert "neither be set back" not in str(error.value)
    with pytest.raises(up.InvalidInput, match=r"'box'.*runs as one unit there, because .*Jacobi"):
        up.stability_of(boxed(up.GaussSeidel()), pace=0.1)


def test_steps_that_keep_a_nest_apart_are_undecided_and_the_reason_is_told() -> None:
    found = up.stability_of(boxed(), pace=0.1)
    assert found.verdict == "stable"
    assert found.steps is not None
    assert "no whole part" in found.steps.why
    assert "no whole part" in describe(found)
    assert "no whole part" in found.data()["undecided_why"]


def test_a_nest_is_judged_as_it_runs() -> None:
    """Against how fast its own run dies out: the slope of the logarithm of what is left."""
    found = up.stability_of(boxed(), pace=0.1, scan=False)
    trace = up.simulate(boxed(), pace=0.1, until=40.0)
    x = np.abs(trace["box.x"])
    peaks = [k for k in range(1, len(x) - 1) if x[k - 1] < x[k] >= x[k + 1] and x[k] > 1e-12]
    steps = peaks[-1] - peaks[1]
    slope = np.log(x[peaks[-1]] / x[peaks[1]]) / steps
    assert slope == pytest.approx(np.log(found.spectral_radius), rel=0.05)
