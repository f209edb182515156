"""Start values that satisfy constraints."""

from __future__ import annotations

import numpy as np
import pytest

import upbeat as up


def pair() -> up.Scenario:
    mass = up.Ode(inputs=["F"], states={"x": "v", "v": "F - k*x"}, start={"x": 1.0}, parameters={"k": 1.0})
    return up.Scenario(
        units={"left": mass, "right": mass.with_values({"x": 1.1, "v": 0.5})},
        connections={"left.F": "force", "right.F": "-force"},
        inputs=["force"],
    )


def starts(scenario: up.Scenario) -> dict[str, object]:
    with up.start(scenario, pace=1.0, until=1.0) as run:
        return {name: run[name] for name in ("left.x", "left.v", "right.x", "right.v")}


def test_chosen_start_values_are_moved_and_no_others() -> None:
    scenario = up.consistent(pair(), ["left.x - right.x", "left.v - right.v"], free=["right.x", "right.v"])
    found = starts(scenario)
    assert (found["left.x"], found["left.v"]) == (1.0, 0.0)
    assert found["right.x"] == pytest.approx(1.0, abs=1e-10)
    assert found["right.v"] == pytest.approx(0.0, abs=1e-10)
    assert [port.name for port in scenario.inputs] == ["force"]
    assert scenario.outputs == ()


def test_with_a_choice_they_move_as_little_as_possible() -> None:
    found = starts(up.consistent(pair(), "left.x - right.x", free=["left.x", "right.x"]))
    np.testing.assert_allclose([found["left.x"], found["right.x"]], 1.05)


def test_constraints_need_not_be_linear_and_first_guesses_can_be_given() -> None:
    found = starts(up.consistent(pair(), "left.x**2 + right.x**2 - 4", free={"right.x": -1.0}))
    assert found["right.x"] == pytest.approx(-np.sqrt(3))
    scenario = up.consistent(pair(), "force - 2*left.x", free=["force"])
    assert scenario.ports["force"].initial == (pytest.approx(2.0),)


def test_what_cannot_be_satisfied_is_named() -> None:
    with pytest.raises(up.InvalidInput, match=r"left\.x - right\.x = -0\.1.*more start values"):
        up.consistent(pair(), "left.x - right.x", free=["right.v"])
    with pytest.raises(up.InvalidInput, match=r"there is no unit 'middle'"):
        up.consistent(pair(), "left.x - middle.x", free=["right.x"])
    with pytest.raises(up.InvalidInput, match=r"there is no signal 'right.y'"):
        up.consistent(pair(), "left.x - right.x", free=["right.y"])
    with pytest.raises(up.InvalidInput, match=r"free="):
        up.consistent(pair(), "left.x - right.x", free=[])


def test_reactive_inputs_and_loops_are_no_hindrance() -> None:
    """The value at the start is the same whatever the coupling, also one that could not make a step."""
    source = up.Ode(states={"x": "1 + 0*u"}, start={"x": 3.0}, inputs={"u": {"reactive": True}})
    follow = up.Ode(
        states={"z": "0*u"},
        inputs={"u": {"reactive": True}, "w": 0.5},
        outputs={"y": "z + u", "h": "0.5*w + u"},
    )
    scenario = up.Scenario(
        units={"a": source, "b": follow},
        connections={"a.u": "b.y", "b.u": "a.x", "b.w": "b.h"},
    )
    with pytest.raises(up.MasterError, match="reactive"):
        up.simulate(scenario, pace=1.0, until=1.0)
    found = up.consistent(
        scenario, ["b.y - 7", "b.h - 6"], free={"a.x": 1.0, "b.z": 0.0}, loops=up.FixedPoint()
    )
    # h = 0.5·h + x is 2·x, so x = 3; y = z + x, so z = 4
    starts = {unit: model.instantiate(unit, 0.0) for unit, model in found.units.items()}
    assert starts["a"].get("x") == pytest.approx(3.0, abs=1e-9)
    starts["b"].set("u", (0.0,))
    assert starts["b"].get("y") == pytest.approx(4.0, abs=1e-9)
