"""Constraints between units: they hold after every step, and nothing else of the step changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import upbeat as up
from upbeat.core.ports import Causality

GAP = "left.x - right.x"
AHEAD = "left.x - right.x + step/2*(left.v - right.v)"


def masses(c: float = 1.0, d: float = 1.0, m: float = 2.0, **start: float) -> up.Scenario:
    """Two masses and the force between them, which nobody computes."""
    left = up.Ode(
        inputs=["F"],
        states={"x": "v", "v": "-c*x - d*v + F"},
        start={"x": 1.0},
        parameters={"c": c, "d": d},
        solver=up.RK4(steps=4),
    )
    right = up.Ode(
        inputs=["F"],
        states={"x": "v", "v": "(-c*x + F)/m"},
        start={"x": 1.0},
        parameters={"c": c, "m": m},
        solver=up.RK4(steps=4),
    )
    scenario = up.Scenario(
        units={"left": left, "right": right},
        connections={"left.F": "force", "right.F": "-force"},
        inputs=["force"],
    )
    return scenario.with_values({name.replace("_", "."): value for name, value in start.items()})


def integrator(slope: str = "u", solver: Any = None) -> up.Ode:
    return up.Ode(inputs=["u"], states={"x": slope}, solver=solver or up.RK4())


def alone(slope: str = "u", solver: Any = None) -> up.Scenario:
    """x' = u, with u to be found."""
    return up.Scenario(units={"a": integrator(slope, solver)}, connections={"a.u": "u"}, inputs=["u"])


def run(scenario: up.Scenario, coupling: Any, **settings: Any) -> up.Trace:
    settings = {"pace": 0.1, "until": 2.0, **settings}
    return up.simulate(scenario, coupling=coupling, **settings)


# -------------------------------------------------------------------- what is found


@pytest.mark.parametrize("inner", [up.Jacobi(), up.GaussSeidel()], ids=["jacobi", "gauss_seidel"])
def test_the_constraint_holds_and_the_masses_move_as_one(engine: str, inner: Any) -> None:
    trace = run(masses(), up.Constrained({"force": AHEAD}, inner), until=10.0, engine=engine)
    ahead = (trace["left.x"] - trace["right.x"]) + 0.05 * (trace["left.v"] - trace["right.v"])
    assert np.abs(ahead).max() <= 1e-10
    # 3x'' = -2x - x'
    decay, turn = -1 / 6, np.sqrt(2 / 3 - 1 / 36)
    lumped = np.exp(decay * trace.time) * (
        np.cos(turn * trace.time) - decay / turn * np.sin(turn * trace.time)
    )
    np.testing.assert_allclose(trace["left.x"], lumped, atol=5e-5)
    np.testing.assert_allclose(trace["right.x"], lumped, atol=5e-5)


def test_a_gap_alone_swings_and_the_gap_ahead_does_not(engine: str) -> None:
    """Free masses that touch with a relative velocity of 1: it changes its sign, or is gone in two steps."""
    free = masses(c=0.0, d=0.0, left_v=1.0)
    swinging = run(free, up.Constrained({"force": GAP}), engine=engine)
    rate = swinging["left.v"] - swinging["right.v"]
    np.testing.assert_allclose(rate, (-1.0) ** np.arange(len(rate)), atol=1e-6)
    still = run(free, up.Constrained({"force": AHEAD}), engine=engine)
    np.testing.assert_allclose((still["left.v"] - still["right.v"])[2:], 0, atol=1e-7)
    np.testing.assert_allclose((still["left.x"] - still["right.x"])[2:], 0, atol=1e-7)
    np.testing.assert_allclose(still["left.v"] + 2 * still["right.v"], 1, atol=1e-12)  # momentum


def test_both_engines_find_the_same() -> None:
    one, other = (
        run(masses(right_x=1.1), up.Constrained({"force": AHEAD}), engine=name)
        for name in ("interpret", "auto")
    )
    np.testing.assert_array_equal(one["force"], other["force"])


def test_several_unknowns_and_equations_that_are_not_linear(engine: str) -> None:
    """a' = u³ + v and b' = u·v must be at (2, 1) after one step: one real solution from (1, 1.5)."""
    pair = up.Scenario(
        units={
            "a": up.Ode(inputs=["u", "v"], states={"x": "u**3 + v"}),
            "b": up.Ode(inputs=["u", "v"], states={"x": "u*v"}),
        },
        connections={"a.u": "u", "a.v": "v", "b.u": "u", "b.v": "v"},
        inputs={"u": 1.2, "v": 1.5},
    )
    constraints = {"u": "a.x - 2", "v": "b.x - 1"}
    trace = run(pair, up.Constrained(constraints), pace=1.0, until=1.0, engine=engine)
    assert trace["a.x"][-1] == pytest.approx(2, abs=1e-10)
    assert trace["u"][-1] == pytest.approx(1)
    assert trace["v"][-1] == pytest.approx(1)


def test_corrections_are_counted(engine: str) -> None:
    """With twice the true sensitivity every correction leaves half of the residual."""
    for corrections in (1, 2, 3):
        coupling = up.Constrained({"u": "a.x - 1"}, corrections=corrections, sensitivities={"u": "2*step"})
        trace = run(alone(), coupling, pace=0.25, until=0.25, engine=engine)
        assert trace["a.x"][-1] == pytest.approx(1 - 0.5**corrections)
    trace = run(alone(), up.Constrained({"u": "a.x - 1"}, corrections=1), pace=0.25, until=1, engine=engine)
    np.testing.assert_allclose(trace["a.x"][1:], 1, atol=1e-9)
    np.testing.assert_allclose(trace["u"], [0, 4, 0, 0, 0], atol=1e-8)


def test_units_of_measure_are_converted(engine: str) -> None:
    slow = up.Ode(inputs=["u"], states={"x": "u"}, outputs={"x": {"value": "x", "unit": "mm"}})
    fixed = up.Function(outputs={"x": {"value": "2", "unit": "m"}})
    pair = up.Scenario(units={"a": slow, "b": fixed}, connections={"a.u": "u"}, inputs=["u"])
    trace = run(pair, up.Constrained({"u": "a.x - b.x"}, tolerance=1e-10), engine=engine)
    np.testing.assert_allclose(trace["a.x"][1:], 2000, rtol=1e-9)


def test_a_free_input_of_a_unit_can_be_the_unknown(engine: str) -> None:
    scenario = up.Scenario(units={"a": integrator()})
    trace = run(
        scenario,
        up.Constrained({"a.u": "a.x - 1"}),
        pace=0.5,
        until=1.0,
        record=["a.x", "a.u"],
        engine=engine,
    )
    np.testing.assert_allclose(trace["a.x"], [0, 1, 1], atol=1e-10)
    np.testing.assert_allclose(trace["a.u"], [0, 2, 0], atol=1e-6)


# -------------------------------------------------------------------- nothing else changes


def rich() -> up.Scenario:
    """The masses, with feedthrough, a loop behind the force, and a unit with a history."""
    pair = masses()
    sensor = up.Function(inputs=["F", "back"], outputs={"y": "F + 0.3*sin(back)"})
    echo = up.Function(inputs=["y"], outputs={"z": "0.5*y"})
    motor = up.Ode(inputs=["load", "x"], states={"w": "load + x - w"}, solver=up.RK4(steps=2))
    return up.Scenario(
        units={**pair.units, "sensor": sensor, "echo": echo, "motor": motor},
        connections={
            "left.F": "force",
            "right.F": "0.2*motor.w - force",
            "sensor.F": "force",
            "sensor.back": "echo.z",
            "echo.y": "sensor.y",
            "motor.load": "sensor.y",
            "motor.x": "right.x",
        },
        inputs=["force"],
    )


@pytest.mark.parametrize("inputs", [up.Hold(), up.Linear(), up.Polynomial(2), up.Continuous(), up.Smooth()])
@pytest.mark.parametrize(
    "inner",
    [up.Jacobi(), up.GaussSeidel(), up.Jacobi(outputs="lagged")],
    ids=["jacobi", "gauss_seidel", "lagged"],
)
def test_setting_what_was_found_by_hand_gives_the_same(engine: str, inner: Any, inputs: Any) -> None:
    ports = {name: up.Hold() for name in ("left.F", "right.F", "sensor.F")}
    settings = {"pace": 0.1, "until": 1.0, "inputs": inputs, "ports": ports, "engine": engine}
    found = up.simulate(rich(), coupling=up.Constrained({"force": AHEAD}, inner), **settings)
    with up.start(rich(), coupling=inner, **settings) as hand:
        for force in found["force"][1:]:
            hand.set("force", float(force), restart=False)
            hand.step()
        trace = hand.trace
    first = np.unique(trace.time, return_index=True)[1]  # the second row of a time is for the next force
    for name in found.names:
        np.testing.assert_allclose(found[name][1:], trace[name][first][1:], atol=1e-9, err_msg=name)


def test_a_step_by_hand_begins_with_what_was_set(engine: str) -> None:
    """x' = u² has two solutions; the nearer one is found."""
    coupling = up.Constrained({"u": "a.x - 1 - 0*u"})
    for guess, wanted in ((0.5, 1.0), (-0.5, -1.0)):
        with up.start(alone("u*u"), coupling=coupling, pace=1.0, until=1.0, engine=engine) as hand:
            hand.set("u", guess)
            hand.step()
            assert hand["u"] == pytest.approx(wanted)


def test_it_goes_with_error_control(engine: str) -> None:
    """Its steps are compared by positions and velocities; a held force depends on where its step lies."""
    link = up.Function(inputs=["F"], outputs={"one": "F", "other": "-F"})
    scenario = up.Scenario(
        units={"link": link, **masses().units},
        connections={"left.F": "link.one", "right.F": "link.other"},
    )
    pace = up.ErrorControl(1e-2, first=0.05, ports={"left.v": 1e-2, "right.v": 1e-2})
    coupling = up.Constrained({"link.F": AHEAD}, tolerance=1e-12)
    trace = run(scenario, coupling, pace=pace, until=5.0, engine=engine)
    assert 20 < trace.steps.count < 200
    np.testing.assert_allclose(trace["left.x"], trace["right.x"], atol=1e-3)


@pytest.mark.parametrize("tolerance", [1e-2, 1e-3, 1e-4])
def test_error_control_leaves_forces_and_velocities_alone(engine: str, tolerance: float) -> None:
    """Masses of 1 and 2 on springs of 1 in a rigid link are one of 3 on a spring of 2: x = cos(√(2/3)·t)."""
    scenario = masses(d=0.0)
    trace = run(
        scenario, up.Constrained({"force": AHEAD}), pace=up.ErrorControl(tolerance), until=5.0, engine=engine
    )
    error = np.abs(trace["left.x"] - np.cos(np.sqrt(2 / 3) * trace.time)).max()
    assert error < tolerance
    assert trace.steps.count < 120


def test_error_control_watches_what_follows_an_unknown_if_told_to() -> None:
    def watched(**settings: Any) -> str:
        pace = up.ErrorControl(1e-2, first=0.1, **settings)
        made = up.experiment(masses(), coupling=up.Constrained({"force": AHEAD}), pace=pace, until=1.0)
        (note,) = (note for note in made.plan.program.notes if "error control" in note)
        return note.partition(" of ")[2]

    assert watched() == "left.x, right.x"
    assert watched(ports={"left.v": 0.1, "force": 1e6}) == "force, left.x, left.v, right.x"
    with pytest.raises(up.MasterError, match=r"cannot watch 'inputs\.force'\. The real ports are: force, "):
        watched(ports={"inputs.force": 1.0})


def test_an_unknown_of_a_nested_scenario_is_no_input_of_it(engine: str) -> None:
    """From outside there is nothing to connect; inside, the constraint holds as in a flat scenario."""
    inside = masses()
    scenario = up.Scenario(
        units=dict(inside.units),
        connections={c.target: c.text for c in inside.connections},
        inputs=["force"],
        outputs={"x": "left.x", "y": "right.x", "f": "force"},
    )
    coupling = up.Constrained({"force": AHEAD})
    nested = up.Nested(scenario, up.Master(up.Fixed(0.1), coupling))
    signals = [port for port in nested.ports if port.causality is not Causality.PARAMETER]
    assert [port.name for port in signals] == ["x", "y", "f"]
    assert nested.ports[2].depends == frozenset()
    with pytest.raises(up.ScenarioError, match="force"):
        up.Scenario(units={"n": nested}, connections={"n.force": "1"})
    trace = run(up.Scenario(units={"n": nested}), up.Jacobi(), pace=0.1, until=1.0, engine=engine)
    flat = run(scenario, coupling, pace=0.1, until=1.0, engine=engine)
    np.testing.assert_array_equal(trace["n.x"], flat["left.x"])
    np.testing.assert_array_equal(trace["n.f"], flat["force"])


def test_constraints_have_no_monolith() -> None:
    made = up.experiment(masses(), coupling=up.Constrained({"force": AHEAD}), pace=0.1, until=1.0)
    with pytest.raises(up.MasterError, match=r"no monolith .* finds force from constraints"):
        made.monolithic()
    flat = masses()
    inside = up.Scenario(
        units=dict(flat.units),
        connections={c.target: c.text for c in flat.connections},
        inputs=["force"],
        outputs={"x": "left.x"},
    )
    nested = up.Nested(inside, made.master)
    with pytest.raises(
        up.ScenarioError, match="'n' cannot be merged: its coupling finds force from constraints"
    ):
        up.Scenario(units={"n": nested}).monolith()


# -------------------------------------------------------------------- what does not work


def test_constraints_that_cannot_hold_are_named(engine: str) -> None:
    coupling = up.Constrained({"u": "a.x**2 + 1"})
    with pytest.raises(up.StepError, match=r"from the constraints a\.x\*\*2 \+ 1 = 0 did not end within 20"):
        run(alone().with_values({"u": 0.3}), coupling, engine=engine)


@pytest.mark.parametrize("corrections", [None, 2])
def test_constraints_that_do_not_react_are_named(engine: str, corrections: int | None) -> None:
    """One Euler step moves a position by the old velocity, whatever the force is."""
    mass = up.Ode(inputs=["F"], states={"x": "v", "v": "F"}, start={"v": 1.0}, solver=up.Euler())
    scenario = up.Scenario(units={"m": mass}, connections={"m.F": "F"}, inputs=["F"])
    coupling = up.Constrained({"F": "m.x"}, corrections=corrections)
    with pytest.raises(up.StepError, match=r"finding F failed .*residual of m\.x 0\.1.*do not react"):
        run(scenario, coupling, engine=engine)


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        ({"farce": GAP}, r"'farce', which is not a free input. Did you mean 'force'"),
        ({"left.F": GAP}, r"'left.F' is connected"),
        ({"force": "left.x - rihgt.x"}, r"for 'force': 'left.x - rihgt.x': there is no unit 'rihgt'.*right"),
        ({"force": "left.x - right.y"}, r"'right.y' does not exist"),
        ({"force": "force + step"}, r"reads no output"),
        ({"force": "left.x -"}, r"the constraint for 'force': 'left.x -'"),
    ],
)
def test_mistakes_are_named_before_the_run(constraints: dict[str, str], message: str) -> None:
    with pytest.raises(up.MasterError, match=message):
        run(masses(), up.Constrained(constraints))


def test_a_signal_cannot_be_an_unknown() -> None:
    signals = up.Signals([0, 1], {"force": [0.0, 1.0]})
    with pytest.raises(up.MasterError, match="driven by a signal"):
        run(masses(), up.Constrained({"force": GAP}), signals=signals)


def test_unknowns_are_single_reals_and_held() -> None:
    vector = up.Scenario(
        units={"a": up.Ode(inputs=["u"], states={"x": "u"})},
        connections={"a.u": "u[0]"},
        inputs={"u": {"start": [0.0, 0.0]}},
    )
    with pytest.raises(up.MasterError, match=r"'u' is real\[2\]"):
        run(vector, up.Constrained({"u": "a.x"}))
    with pytest.raises(up.MasterError, match=r"'left.F' depends on an unknown.*Linear.*Hold it"):
        run(masses(), up.Constrained({"force": GAP}), inputs=up.Linear())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"constraints": {}}, "one for each"),
        ({"constraints": "left.x"}, "one for each"),
        ({"constraints": {"force": GAP}, "tolerance": 0}, "tolerance"),
        ({"constraints": {"force": GAP}, "difference": -1}, "difference"),
        ({"constraints": {"force": GAP}, "corrections": 0}, "corrections"),
        ({"constraints": {"force": GAP}, "coupling": up.Iterated()}, "Jacobi or GaussSeidel"),
        ({"constraints": {"force": GAP}, "sensitivities": {"F": "1"}}, "for all unknowns or for none"),
    ],
)
def test_options_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(up.MasterError, match=message):
        up.Constrained(**options)


def test_units_without_rollback_are_refused_before_the_run() -> None:
    class Forward:
        def __init__(self, name: str, start: float, parameters: dict[str, object]) -> None: ...
        def get(self, port: str) -> float:
            return 1.0

        def set(self, port: str, coefficients: object) -> None: ...
        def advance(self, t: float, to: float, early: bool) -> float:
            return to

    ports = (up.Port("u", up.Causality.INPUT), up.Port("y", up.Causality.OUTPUT))
    scenario = up.Scenario(units={"a": up.PythonUnit(Forward, ports)})
    with pytest.raises(up.MasterError, match=r"unit 'a'.*rollback"):
        run(scenario, up.Constrained({"a.u": "a.y"}))


def test_in_a_file(tmp_path: Path, engine: str) -> None:
    file = tmp_path / "link.toml"
    file.write_text(
        """
        [units.a]
        kind = "ode"
        inputs = ["u"]
        states = { x = "u" }
        [inputs]
        u = 0.0
        [connections]
        "a.u" = "u"
        [master]
        step = 0.5
        coupling = { kind = "constrained", constraints = { u = "a.x - 1" }, coupling = "gauss_seidel" }
        [run]
        until = 1.0
        """
    )
    loaded = up.load(file, engine=engine)
    assert loaded.master.coupling == up.Constrained({"u": "a.x - 1"}, up.GaussSeidel())
    np.testing.assert_allclose(loaded.run()["a.x"], [0, 1, 1], atol=1e-10)
    again = tmp_path / "again.toml"
    up.write_scenario(loaded, again)
    assert up.load(again).master == loaded.master


def test_a_residual_that_is_no_number_is_not_zero(engine: str) -> None:
    start = alone().with_values({"a.x": -1.0})
    with pytest.raises(up.StepError, match=r"finding u.*residual of sqrt\(a\.x\)"):
        run(start, up.Constrained({"u": "sqrt(a.x)"}), engine=engine)


def test_an_input_called_step_is_refused() -> None:
    """In constraints that is the length of the step."""
    mixed = masses()
    scenario = up.Scenario(
        units=dict(mixed.units), connections={"left.F": "force", "right.F": "step"}, inputs=["force", "step"]
    )
    with pytest.raises(up.MasterError, match="an input called 'step'"):
        run(scenario, up.Constrained({"force": AHEAD}))


def test_an_unknown_that_is_missing_is_asked_for_in_both_ways_to_write_it() -> None:
    scenario = up.Scenario(units=dict(masses().units))
    with pytest.raises(
        up.MasterError, match=r'inputs=\["force"\] \(in a file: \[inputs\] with a line force = 0'
    ):
        run(scenario, up.Constrained({"force": AHEAD}))


def test_a_start_that_is_far_from_the_constraint_gets_advice(engine: str) -> None:
    """A gap of 1 closed within steps that get shorter and shorter takes a force beyond all bounds."""
    with pytest.raises(
        up.StepError, match=r"finding force failed in the step from t = .*consistent start values"
    ):
        run(
            masses(left_x=1.0, right_x=2.0),
            up.Constrained({"force": AHEAD}),
            pace=up.ErrorControl(1e-3),
            until=1.0,
            engine=engine,
        )


@pytest.mark.parametrize("size", [1e-12, 1e-6, 1.0, 1e6])
def test_constraints_hold_relative_to_their_own_size(engine: str, size: float) -> None:
    """x' = u: x follows a sine of picometres as well as one of kilometres."""
    pair = up.Scenario(
        units={
            "a": up.Ode(inputs=["u"], states={"x": "u"}, solver=up.RK4()),
            "b": up.Function(outputs={"y": f"{size}*sin(time + 0.3)"}),
        },
        connections={"a.u": "u"},
        inputs=["u"],
    )
    coupling = up.Constrained({"u": "a.x - b.y"}, sensitivities={"u": "1.7*step"}, max_iterations=60)
    trace = run(pair, coupling, engine=engine)
    wanted = size * np.sin(trace.time + 0.3)
    assert np.abs(trace["a.x"] - wanted)[1:].max() <= 4e-10 * size


def test_a_constraint_that_rests_at_zero_does_not_chase_rounding(engine: str) -> None:
    """The force that holds two masses together against gravity, long after they have come to rest at zero."""
    left = up.Ode(inputs=["F"], states={"x": "v", "v": "-x - 4*v + F - 9.81"}, solver=up.RK4(steps=4))
    right = up.Ode(inputs=["F"], states={"x": "v", "v": "-x - 4*v + F + 9.81"}, solver=up.RK4(steps=4))
    scenario = up.Scenario(
        units={"left": left, "right": right},
        connections={"left.F": "force", "right.F": "-force"},
        inputs=["force"],
    )
    trace = run(scenario, up.Constrained({"force": AHEAD}), until=40.0, engine=engine)
    assert trace["force"][-1] == pytest.approx(9.81)
    assert abs(trace["left.x"][-1]) < 1e-8
