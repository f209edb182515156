"""Coupling algorithms as adaptations (thesis, section 7.6.2), beside built-in ones where there are any."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.linalg import expm

import upbeat as up
from adaptations import out
from strategies import on_engine
from upbeat.adapt import (
    Adaptation,
    Assign,
    Discard,
    Local,
    Rollback,
    Rule,
    SaveState,
    Statement,
    Step,
    Stored,
    When,
)

LEFT = up.Ode({"x": "v", "v": "-x + u"}, inputs=["u"], outputs=["x", "v"], start={"x": 1.0}, solver=up.RK4(4))
RIGHT = up.Ode({"x": "v", "v": "-2*x - 0.3*v + u"}, inputs=["u"], outputs=["x", "v"], solver=up.RK4(4))
UNITS = {"a": LEFT, "b": RIGHT}
BY_HAND = up.Scenario(UNITS, {"a.u": "b.x", "b.u": "a.x"})
EXACT = np.array([[0, 1, 0, 0], [-1, 0, 1, 0], [0, 0, 0, 1], [1, 0, -2, -0.3]], float)


def coupled(control: tuple[Statement, ...], **more: Any) -> Any:
    """Both units in one, driven by `control`; with a count of the steps it accepts."""
    return up.adapted(
        Adaptation(
            UNITS,
            (out("a"), out("b"), out("count")),
            connections={"a.u": "b.x", "b.u": "a.x"},
            control=(*control, Assign("steps", "steps + 1")),
            out_rules=(
                Rule(
                    (Assign("oa", "a.x"), Assign("ob", "b.x")),
                    (Assign("a", "oa"), Assign("b", "ob"), Assign("count", "steps")),
                ),
            ),
            outputs=(Stored("oa"), Stored("ob")),
            controls=(Stored("steps"), *more.pop("controls", ())),
            name="master",
            **more,
        )
    )


def ran(model: Any, step: float = 0.1, until: float = 2.0) -> up.Trace:
    scenario = up.Scenario({"m": model})
    one, other = (
        up.simulate(on_engine(engine, scenario), pace=step, until=until, engine=engine)
        for engine in ("interpret", "native")
    )
    for name in one.names:
        assert np.array_equal(one[name], other[name]), name
    return one


def both_known(steps: str = "H", start: str = "t") -> tuple[Statement, ...]:
    """A Jacobi step: both inputs from what was known before it."""
    return (
        Local("ya", "a.x"),
        Local("yb", "b.x"),
        Assign("a.u", "yb"),
        Assign("b.u", "ya"),
        Step("a", start, steps),
        Step("b", start, steps),
    )


def test_jacobi() -> None:
    trace = ran(coupled(both_known()))
    built_in = up.simulate(BY_HAND, pace=0.1, until=2.0)
    assert np.array_equal(trace["m.a"], built_in["a.x"])
    assert np.array_equal(trace["m.b"], built_in["b.x"])


def test_gauss_seidel() -> None:
    trace = ran(coupled((Step("a"), Step("b"))))
    built_in = up.simulate(BY_HAND, pace=0.1, until=2.0, coupling=up.GaussSeidel(("a", "b")))
    assert np.array_equal(trace["m.a"], built_in["a.x"])


SAVE = (SaveState("a"), SaveState("b"))
BACK = (Rollback("a"), Rollback("b"))


def test_semi_implicit() -> None:
    """A step, and once more with the values that it has found."""
    trace = ran(coupled((*SAVE, *both_known(), *BACK, *both_known())))
    built_in = up.simulate(BY_HAND, pace=0.1, until=2.0, coupling=up.Iterated(corrections=1))
    np.testing.assert_allclose(trace["m.a"], built_in["a.x"], rtol=1e-13)
    np.testing.assert_allclose(trace["m.b"], built_in["b.x"], rtol=1e-13, atol=1e-15)


def richardson(tolerance: float) -> tuple[Statement, ...]:
    """A step, and two of half its size; one that differs too much is made anew, half as long."""
    return (
        *SAVE,
        *both_known(),
        Local("whole_a", "a.x"),
        Local("whole_b", "b.x"),
        *BACK,
        Assign("a.u", "start_b"),
        Assign("b.u", "start_a"),
        Step("a", "t", "H/2"),
        Step("b", "t", "H/2"),
        *both_known("H/2", "t + H/2"),
        Local("error", "max(abs(a.x - whole_a), abs(b.x - whole_b))"),
        When(f"error > {tolerance!r}", (Discard("H/2"),)),
        Assign("start_a", "a.x"),
        Assign("start_b", "b.x"),
    )


def exact_step(size: float, x: np.ndarray) -> np.ndarray:
    """Both units over a step with the inputs of its start, exactly."""
    made = x.copy()
    for own, other in ((slice(0, 2), 2), (slice(2, 4), 0)):
        block = np.zeros((3, 3))
        block[:2, :2], block[1, 2] = EXACT[own, own], 1.0
        made[own] = (expm(size * block) @ np.append(x[own], x[other]))[:2]
    return made


def test_error_control_by_richardson_extrapolation() -> None:
    """The same steps as a loop in Python makes on exact solutions; fewer with a larger tolerance."""
    counts: list[int] = []
    errors: list[list[float]] = []
    for tolerance in (1e-3, 1e-4):
        stored = (Stored("start_a", 1.0), Stored("start_b"))
        trace = ran(coupled(richardson(tolerance), controls=stored), 0.25, 1.0)
        t, x, count, states = 0.0, np.array([1.0, 0.0, 0.0, 0.0]), 0, []
        for k in range(4):
            while t < 0.25 * (k + 1) - 1e-12:
                size = 0.25 * (k + 1) - t
                while True:
                    half = exact_step(size / 2, exact_step(size / 2, x))
                    whole = exact_step(size, x)
                    if max(abs(half - whole)[[0, 2]]) <= tolerance:
                        break
                    size /= 2
                t, x, count = t + size, half, count + 1
            states.append(x[[0, 2]])
        found = np.stack([trace["m.a"], trace["m.b"]], 1)[1:]
        np.testing.assert_allclose(found, states, atol=1e-6)
        assert trace["m.count"][-1] == count
        counts.append(count)
        built_in = up.simulate(
            BY_HAND, pace=up.ErrorControl(tolerance, longest=0.25, per="step"), until=1.0, record=["a.x"]
        )
        truth = (expm(EXACT) @ [1, 0, 0, 0])[0]
        errors.append([abs(trace["m.a"][-1] - truth), abs(built_in["a.x"][-1] - truth)])
    assert errors[1][0] < errors[0][0]  # of first order, controlled per step: as its square root
    assert errors[1][1] < errors[0][1]
    assert counts[1] > counts[0]


def energy(limit: float) -> tuple[Statement, ...]:
    """The power that the two ends of the bond between the units disagree about, times the step, is an energy
    that is lost or made: at most `limit` of it in a step."""
    return (
        *SAVE,
        *both_known(),
        Local("power", "(b.x - yb)*a.v - (a.x - ya)*b.v"),
        Local("lost", "abs(power)*H"),
        When(f"lost > {limit!r}", (Discard(f"H*max(0.2, 0.8*sqrt({limit!r}/lost))"),)),
        Assign("all_lost", "all_lost + lost"),
    )


def test_energy_based_control() -> None:
    """Less energy is made from nothing with a smaller limit, by shorter steps; no step exceeds it."""
    drifts, counts = [], []
    for limit in (1e-3, 1e-4):
        trace = ran(coupled(energy(limit), controls=(Stored("all_lost"),)), 0.2, 3.0)
        truth = np.array([expm(EXACT * s) @ [1, 0, 0, 0] for s in trace["time"]])
        drifts.append(abs(trace["m.a"] - truth[:, 0]).max())
        counts.append(trace["m.count"][-1])
    fixed = up.simulate(BY_HAND, pace=0.2, until=3.0)
    truth = np.array([expm(EXACT * s) @ [1, 0, 0, 0] for s in fixed.time])
    assert drifts[1] < drifts[0] / 2 < abs(fixed["a.x"] - truth[:, 0]).max()
    assert counts[1] > counts[0] > 14


def test_control_that_needs_rollback_says_so() -> None:
    class Stuck:
        def __init__(self, name: str, start: float, parameters: Any) -> None: ...

        def get(self, port: str) -> float:
            return 0.0

        def set(self, port: str, coefficients: Any) -> None: ...

        def advance(self, t: float, to: float, early: bool) -> float:
            return to

    stuck = up.PythonUnit(Stuck, ports=(up.Port("u", up.Causality.INPUT), out("x")))
    for control in (SAVE + BACK, (Step("a"), Discard("H/2"))):
        with pytest.raises(up.ModelError, match=r"sets 'a' back, which cannot be set back"):
            Adaptation({"a": stuck, "b": RIGHT}, (), control=control)
