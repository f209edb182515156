"""Nested scenarios: judged as what is inside them where that can take their place, else as what they do."""

from __future__ import annotations

from dataclasses import replace
from math import log
from typing import Any

import numpy as np
import pytest

import upbeat as up
from stability_models import flows, masses, radius
from upbeat.report.stability import describe

INNER = 0.05
CART = up.Ode({"x": "v", "v": "-x - d*v + F"}, start={"x": 1.0}, inputs=["F"], parameters={"d": 0.5})


def box(coupling: Any = None, *, flatten: bool = True, pace: Any = INNER, inputs: Any = None) -> up.Nested:
    """A cart and a spring that know each other by their communication points alone."""
    inside = up.Scenario(
        units={"m": CART, "k": up.Function(["x"], {"F": "-2*x"})},
        connections={"m.F": "k.F + push", "k.x": "m.x"},
        inputs=["push"],
        outputs={"x": "m.x"},
        events={"far": {"when": "m.x >= 9", "then": {"m.v": 0.0}}} if isinstance(pace, up.LookAhead) else {},
    )
    steps = up.Fixed(pace) if isinstance(pace, float) else pace
    master = up.Master(steps, coupling=coupling or up.Jacobi(), inputs=inputs or up.Hold())
    return up.Nested(inside, master, flatten=flatten)


def boxed(coupling: Any = None, **how: Any) -> up.Scenario:
    return up.Scenario(units={"box": box(coupling, **how)}, connections={"box.push": "-0.1*box.x"})


def beside(nest: up.Nested, x: str = "x") -> up.Scenario:
    """A nest and a slow unit in a circle."""
    slow = up.Ode({"z": f"-0.5*z + 0.3*{x}"}, inputs=["x"], start={"z": 1.0})
    return up.Scenario({"box": nest, "slow": slow}, {"box.push": "-0.8*slow.z", "slow.x": "box.x"})


def spectrum(scenario: up.Scenario, pace: float, **how: Any) -> np.ndarray:
    """The eigenvalues that are not zero."""
    values = np.linalg.eigvals(up.induced(scenario, pace=pace, **how).matrix)
    return np.sort_complex(values[np.abs(values) > 1e-6])


@pytest.mark.parametrize(
    ("pace", "coupling", "inputs"),
    [
        (INNER, up.Jacobi(), up.Hold()),
        (INNER, up.Jacobi(), up.Linear()),
        (INNER, up.Jacobi(), up.Polynomial(2)),
        (2 * INNER, up.Jacobi(), up.Hold()),
        (4 * INNER, up.Jacobi(), up.Hold()),
    ],
    ids=str,
)
@pytest.mark.parametrize("x", ["x", "sin(x)"])
def test_a_nest_is_as_its_units_side_by_side(pace: float, coupling: Any, inputs: Any, x: str) -> None:
    """Where flattening means the same, it is the truth for what stays nested."""
    how = {"coupling": coupling, "inputs": inputs}
    flat = spectrum(beside(box(coupling, inputs=inputs), x), pace, **how)
    nested = spectrum(beside(box(coupling, inputs=inputs, flatten=False), x), pace, **how)
    np.testing.assert_allclose(nested, flat, atol=1e-12)
    found = up.induced(beside(box(flatten=False), x), pace=pace)
    assert found.linear == (x == "x")
    assert {"box.m.x", "box.m.v", "slow.z"} < set(found.names)


def test_a_nest_in_a_nest_is_as_its_units() -> None:
    def deep(*, flatten: bool) -> up.Scenario:
        inside = beside(box(flatten=flatten))
        outer = up.Scenario(
            {"box": box(flatten=flatten), "slow": inside.units["slow"]},
            {"box.push": "-0.8*slow.z + u", "slow.x": "box.x"},
            inputs=["u"],
            outputs={"x": "box.x"},
        )
        nest = up.Nested(outer, up.Master(up.Fixed(INNER)), flatten=flatten)
        return up.Scenario({"nest": nest, "g": up.Function(["x"], {"y": "-0.2*x"})},
                           {"nest.u": "g.y", "g.x": "nest.x"})  # fmt: skip

    flat, nested = (spectrum(deep(flatten=flatten), INNER) for flatten in (True, False))
    np.testing.assert_allclose(nested, flat, atol=1e-12)
    names = up.induced(deep(flatten=False), pace=INNER).names
    assert {"nest.box.m.x", "nest.box.m.F (held)", "nest.slow.z"} < set(names)


def pair(inner: float) -> up.Scenario:
    """Two masses; inside, with steps of its own, the left one knows of a wall that pulls it back."""
    mass = up.Ode(
        {"x": "v", "v": "F - v"}, inputs=["F"], outputs=["x", "v"], start={"x": 1.0}, solver="dormand_prince"
    )
    inside = up.Scenario(
        {"mass": mass, "wall": up.Function(["x"], {"F": "-x"})},
        {"mass.F": "wall.F + F", "wall.x": "mass.x"},
        inputs=["F"],
        outputs={"x": "mass.x", "v": "mass.v"},
    )
    nest = up.Nested(inside, up.Master(up.Fixed(inner)), flatten=False)
    return up.Scenario(
        {"left": nest, "right": masses("dormand_prince").units["right"]},
        {"left.F": "right.F", "right.xc": "left.x", "right.vc": "left.v"},
    )


def pair_by_hand(inner: float, micro: int) -> np.ndarray:
    """The pull of the wall is held over each of so many steps inside, that of the other mass over all."""
    free, pushed = flows(inner, "exact", c1=0.0)[0]
    one = free + pushed @ np.array([[-1.0, 0.0]])
    push = sum((np.linalg.matrix_power(one, k) for k in range(micro)), np.zeros((2, 2))) @ pushed
    apart = np.array([[1.0, 1.0]])  # the coupling has a stiffness and a damping of 1
    right, pulled = flows(micro * inner, "exact")[1]
    return np.block([[np.linalg.matrix_power(one, micro) - push @ apart, push @ apart], [pulled, right]])


@pytest.mark.parametrize("micro", [1, 3, 10])
def test_two_masses_one_of_them_nested(micro: int) -> None:
    h = 0.3
    found = up.stability_of(pair(h / micro), pace=h, scan=False)
    assert found.spectral_radius == pytest.approx(radius(pair_by_hand(h / micro, micro)), abs=1e-12)


def test_the_largest_stable_step_is_one_that_fits_those_inside() -> None:
    inner = 0.05
    found = up.stability_of(pair(inner), pace=0.1, scan=(0.025, 2.0))
    stable = [radius(pair_by_hand(inner, k)) < 1.0 for k in range(1, 41)]  # up to 2 s
    most = stable.index(False)  # so many steps inside are the most that is stable
    assert all(stable[:most])
    assert found.largest_stable_step == pytest.approx(most * inner, rel=1e-12)
    assert found.steps is not None
    assert not found.steps.undecided
    assert all(ratio == pytest.approx(round(ratio), rel=1e-9) for ratio in _ratios(found.steps, inner))
    assert "whole multiples, or whole parts, of the 0.05 s inside" in describe(found)
    assert found.data()["steps_inside"] == [inner]


def _ratios(steps: Any, inner: float) -> list[float]:
    return [max(step / inner, inner / step) for step, _ in steps.looked]


def test_steps_looked_at_fit_all_nests() -> None:
    """0.05 and 0.07: multiples of 0.35, and whole parts of 0.01."""
    left, right = box(pace=0.05), box(pace=0.07)
    scenario = up.Scenario({"a": left, "b": right}, {"a.push": "-0.1*b.x", "b.push": "0.1*a.x"})
    found = up.stability_of(scenario, pace=0.35, points=5, scan=(0.002, 1.5))
    assert found.steps is not None
    assert not found.steps.why
    whole = [step / 0.35 if step > 0.04 else 0.01 / step for step, _ in found.steps.looked]
    assert whole == pytest.approx([round(ratio) for ratio in whole], rel=1e-9)


@pytest.mark.parametrize(
    ("coupling", "inner", "inputs"),
    [
        ("jacobi", up.GaussSeidel(("k", "m")), up.Linear()),
        ("gauss_seidel", up.Jacobi("lagged"), up.Hold()),
        (up.GaussSeidel(("slow", "box")), up.Jacobi(), up.Linear()),
        (up.Iterated(up.Jacobi("lagged"), corrections=2), up.Jacobi(), up.Linear()),
        (up.Jacobi(), up.Iterated(up.Jacobi("lagged"), corrections=3), up.Hold()),
    ],
    ids=str,
)
def test_a_run_decays_as_its_verdict_says(coupling: Any, inner: Any, inputs: Any) -> None:
    """The slope of the logarithm of what is left of a long run, for what nobody can flatten."""
    scenario = beside(box(inner, inputs=inputs))
    how: dict[str, Any] = {"pace": 3 * INNER, "coupling": coupling}
    assert not up.experiment(scenario, until=1.5, **how).plan.nested[0].flattened
    found = up.stability_of(scenario, scan=False, **how)
    trace = up.simulate(scenario, until=90.0, **how)
    left = np.log(np.abs(trace["slow.z"]) + np.abs(trace["box.x"]))
    half = len(left) // 2
    peaks = [k for k in range(half, len(left) - 1) if left[k - 1] < left[k] >= left[k + 1]]
    first, last = (peaks[0], peaks[-1]) if len(peaks) > 2 else (half, len(left) - 1)
    assert (left[last] - left[first]) / (last - first) == pytest.approx(log(found.spectral_radius), rel=0.02)
    assert found.verdict == "stable"


def test_decisions_inside_are_those_of_a_neighbour() -> None:
    """At rest a loop inside is solved before it begins, and its rows would never be."""
    gain = up.Function(["x", "y"], {"F": "-2*x - 0.5*y**3 - y"})
    inside = up.Scenario(
        {"m": CART, "k": gain, "half": up.Function(["F"], {"y": "0.5*F"})},
        {"m.F": "k.F + push", "k.x": "m.x", "k.y": "half.y", "half.F": "k.F"},
        inputs=["push"],
        outputs={"x": "m.x"},
    )

    def at_rest(flatten: bool) -> np.ndarray:
        nest = up.Nested(
            inside, up.Master(up.Fixed(INNER), up.Jacobi(loops=up.FixedPoint())), flatten=flatten
        )
        calm = nest.with_values({"m.x": 0.0})
        return spectrum(beside(calm), INNER, coupling=up.Jacobi(loops=up.FixedPoint()), at="rest")

    np.testing.assert_allclose(at_rest(False), at_rest(True), atol=1e-9)


def test_steps_inside_that_begin_anew_with_every_step_fit_any_step() -> None:
    """0.25 = 0.1 + 0.1 + 0.05: the same every time."""
    nest = beside(box(pace=up.EventDriven(0.1)))
    found = up.stability_of(nest, pace=0.25, scan=False)
    trace = up.simulate(nest, pace=0.25, until=100.0)
    left = np.abs(trace["slow.z"])
    peaks = [k for k in range(200, len(left) - 1) if left[k - 1] < left[k] >= left[k + 1]]
    first, last = (peaks[0], peaks[-1]) if len(peaks) > 2 else (200, len(left) - 1)
    assert np.log(left[last] / left[first]) / (last - first) == pytest.approx(
        log(found.spectral_radius), rel=0.02
    )


@pytest.mark.parametrize(
    "pace", [up.ErrorControl(1e-3, per="step"), up.LookAhead(0.05), up.Pattern([0.05, 0.1])], ids=str
)
def test_steps_inside_that_are_chosen_as_it_goes_are_refused(pace: Any) -> None:
    with pytest.raises(up.InvalidInput, match=r"up\.Master\(up\.Fixed\(0\.1\), …\) in its Nested") as error:
        up.stability_of(beside(box(pace=pace)), pace=0.1, scan=False)
    assert f"'box' cannot be linearised: inside it {type(pace).__name__} chooses" in str(error.value)


def test_steps_that_do_not_fit_are_refused_with_some_that_do() -> None:
    with pytest.raises(up.InvalidInput, match=r"no whole part.*communication steps of 0\.1 s") as error:
        up.stability_of(boxed(), pace=0.12, scan=False)
    assert "'box' cannot be linearised with communication steps of 0.12 s" in str(error.value)
    fits = up.stability_of(boxed(pace=0.24), pace=0.12, scan=False)  # each step inside is cut off alike
    same = up.stability_of(boxed(pace=0.12), pace=0.12, scan=False)
    assert fits.spectral_radius == pytest.approx(same.spectral_radius, abs=1e-12)


def test_a_unit_inside_that_cannot_be_linearised_is_named_by_its_whole_way() -> None:
    class Odd:
        def __init__(self, name: str, start: float, parameters: dict[str, Any]) -> None:
            self.u = 0.0

        def get(self, port: str) -> float:
            return self.u

        def set(self, port: str, coefficients: Any) -> None:
            self.u = float(coefficients[0])

        def advance(self, t: float, to: float, early: bool) -> float:
            return to

    odd = up.PythonUnit(Odd, up.units.ports(["x"], ["F"]), [])
    nest = box()
    with pytest.raises(up.InvalidInput, match=r"'box\.k' cannot be linearised"):
        up.stability_of(
            beside(replace(nest, scenario=nest.scenario.with_units({"k": odd}))), pace=0.1, scan=False
        )


def test_a_nest_with_events_is_no_matrix() -> None:
    inside = up.Scenario(
        {"m": CART, "e": up.Edge()},
        {"m.F": "push", "e.signal": "m.x >= 2"},
        inputs=["push"],
        outputs={"x": "m.x", "far": "e.rise"},
    )
    with pytest.raises(up.InvalidInput, match=r"'box' cannot be linearised: .* sends or receives events"):
        up.stability_of(beside(up.Nested(inside, up.Master(up.Fixed(0.05)))), pace=0.1, scan=False)


def test_steps_of_several_sizes_each_do_what_they_do_alone() -> None:
    """No pace but a fixed one flattens anything: the sizes are judged as the nest would run."""
    found = up.certified(beside(box()), [0.1, 0.2])
    assert found.proven
    alone = [radius(up.induced(beside(box(flatten=False)), pace=h).matrix) for h in (0.1, 0.2)]
    assert [radius(matrix) for matrix in found.system.matrices] == pytest.approx(alone, abs=1e-12)
    with pytest.raises(up.InvalidInput, match="no whole part"):
        up.certified(beside(box()), [0.1, 0.13])


def test_a_run_with_a_nest_is_judged_along_its_way() -> None:
    """With steps that fit those inside, and with others."""
    for pace in (0.1, 0.12):
        experiment = up.experiment(beside(box(flatten=False)), pace=pace, until=24.0)
        found = up.stability_along(experiment, experiment.run())
        assert found.verdict == "stable"
        fixed = up.stability_of(beside(box()), pace=0.1, scan=False)
        assert found.rate == pytest.approx(log(fixed.spectral_radius) / 0.1, rel=0.1)


def test_a_nest_is_judged_as_it_runs() -> None:
    """Against how fast its own run dies out: the slope of the logarithm of what is left."""
    found = up.stability_of(boxed(), pace=0.1, scan=False)
    trace = up.simulate(boxed(), pace=0.1, until=40.0)
    x = np.abs(trace["box.x"])
    peaks = [k for k in range(1, len(x) - 1) if x[k - 1] < x[k] >= x[k + 1] and x[k] > 1e-12]
    steps = peaks[-1] - peaks[1]
    slope = np.log(x[peaks[-1]] / x[peaks[1]]) / steps
    assert slope == pytest.approx(np.log(found.spectral_radius), rel=0.05)


def test_units_inside_that_are_tried_out() -> None:
    """One in Python, whose rows come from setting it back, here and at the neighbour."""

    class Spring:
        def __init__(self, name: str, start: float, parameters: dict[str, Any]) -> None:
            self.state = (0.0, 0.0)  # a lag behind the input, and the input

        def get(self, port: str) -> float:
            return -2.0 * self.state[0]

        def set(self, port: str, coefficients: Any) -> None:
            self.state = (self.state[0], float(coefficients[0]))

        def advance(self, t: float, to: float, early: bool) -> float:
            lag, x = self.state
            self.state = (lag + (to - t) * 4.0 * (x - lag), x)
            return to

        def save(self) -> Any:
            return self.state

        def restore(self, token: Any) -> None:
            self.state = token

    tried = up.PythonUnit(Spring, up.units.ports(["x"], ["F"]), [up.Ability.ROLLBACK])
    known = up.Ode({"lag": "4*(x - lag)"}, inputs=["x"], outputs={"F": "-2*lag"}, solver="euler")
    nests = [box(flatten=False, pace=0.05), box(flatten=False, pace=0.05)]
    one, two = (
        beside(replace(nest, scenario=nest.scenario.with_units({"k": unit})))
        for nest, unit in zip(nests, (tried, known), strict=True)
    )
    np.testing.assert_allclose(spectrum(one, 0.1), spectrum(two, 0.1), atol=1e-8)
    assert up.induced(one, pace=0.1).names[2:3] == ("box.k.0",)


@pytest.mark.parametrize("parts", [2, 3, 5, 7, 10])
def test_steps_inside_that_rounding_leaves_over_leave_the_verdict_open(parts: int) -> None:
    """A third of a step, three times, misses its end by a rounding error now and then: a step of 1e-17 s."""
    step = 0.1
    pace = up.EventDriven(step / parts)
    shortest = step
    for k in range(400):  # what the pace itself makes of it
        t, limit = k * step, (k + 1) * step
        while t < limit:
            end = t + pace.longest
            end = end if t < end < limit - 1e-6 * pace.longest else limit
            shortest, t = min(shortest, end - t), end
    found = up.stability_of(beside(box(pace=pace)), pace=step, scan=False)
    if shortest < 1e-9:
        assert found.verdict == "undecided"
        assert "rounding leaves one of" in found.why
    else:
        assert found.verdict != "undecided"
    longer = up.EventDriven(step / parts * (1.0 + 1e-6))
    assert up.stability_of(beside(box(pace=longer)), pace=step, scan=False).verdict != "undecided"
