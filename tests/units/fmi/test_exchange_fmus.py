"""FMUs for model exchange on both engines: closed forms, FMPy, and the same bits everywhere."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import upbeat as up
from fmu_exports import casadi_fmu
from upbeat.core.abilities import Ability
from upbeat.engine.native import machine as native
from upbeat.units import RK4, Cvode, DormandPrince, Euler, Midpoint, Solver

Made = Callable[[str, int], Path]
VERSIONS = pytest.mark.parametrize("version", [2, 3])
SOLVERS: list[Solver] = [Euler(step=0.01), Midpoint(step=0.01), RK4(step=0.013), DormandPrince(1e-8, 1e-10)]
ANY = pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: solver.method)
FALL = np.sqrt(2 / 9.81)


def exchange(path: Path, solver: Any = None, **settings: Any) -> up.Fmu:
    return up.Fmu(path, interface="model-exchange", solver=solver, rollback="trust", **settings)


def same(scenario: up.Scenario, **settings: Any) -> up.Trace:
    """The run on the interpreter, after a look that the native engine's is the same to the last bit."""
    first = up.simulate(scenario, engine="interpret", **settings)
    if native.available():
        second = up.simulate(scenario, engine="native", **settings)
        assert first.names == second.names
        for name in (*first.names, "time"):
            one, other = (np.asarray(t.time if name == "time" else t[name]) for t in (first, second))
            assert one.tobytes() == other.tobytes(), name
        assert list(first.steps) == list(second.steps)
    return first


@VERSIONS
def test_abilities_are_what_the_fmu_and_the_solver_have(fmu: Made, version: int) -> None:
    ball = exchange(fmu("ball", version))
    for ability in (Ability.INDICATORS, Ability.NEXT_EVENT, Ability.EARLY_RETURN, Ability.ROLLBACK):
        assert ability in ball.abilities
    assert Ability.NATIVE in ball.abilities
    assert Ability.NATIVE not in exchange(fmu("ball", version), Cvode()).abilities
    assert Ability.INDICATORS not in exchange(fmu("linear", version)).abilities


@pytest.mark.supports("fmi2", "Model exchange", "Euler, midpoint, RK4 and Dormand-Prince on both engines")
@pytest.mark.supports("fmi3", "Model exchange", "Euler, midpoint, RK4 and Dormand-Prince on both engines")
@pytest.mark.supports("fmi2", "State events (indicators)", "located on the dense output of the solver")
@pytest.mark.supports("fmi3", "State events (indicators)", "located on the dense output of the solver")
@VERSIONS
@ANY
@pytest.mark.parametrize("pace", [0.01, 0.07, 3.0])
def test_a_ball_bounces_and_comes_to_rest(fmu: Made, version: int, solver: Solver, pace: float) -> None:
    scenario = up.Scenario({"ball": exchange(fmu("ball", version), solver)})
    trace = same(scenario, pace=pace, until=3.0)
    assert min(trace["ball.h"]) > -1e-6
    if not isinstance(solver, Euler):  # which bounces higher than it should, and longer
        assert trace["ball.rests"][-1]
        assert trace["ball.v"][-1] == 0.0
        # It leaves the ground with e**n·√(2g) until that is less than 0.1: for the first time when n = 11.
        assert trace["ball.bounces"][-1] == 11
        early = np.asarray(trace.time) < FALL
        exact = 1 - 9.81 / 2 * np.asarray(trace.time)[early] ** 2
        np.testing.assert_allclose(np.asarray(trace["ball.h"])[early], exact, atol=1e-8)


@pytest.mark.supports("fmi2", "Model exchange with CVODE", "on the interpreter")
@pytest.mark.supports("fmi3", "Model exchange with CVODE", "on the interpreter")
@VERSIONS
def test_cvode_meets_every_bounce(fmu: Made, version: int) -> None:
    unit: Any = exchange(fmu("ball", version), Cvode(1e-10, 1e-12)).instantiate("ball", 0.0)
    t, hits = 0.0, []
    while t < 2.0:
        while unit.due() <= t:
            unit.jump()
        t = unit.advance(t, 2.0, early=True)
        hits.append(t)
    unit.close()
    exact = [FALL * (1 + 2 * sum(0.7**k for k in range(1, n + 1))) for n in range(4)]
    assert hits == pytest.approx([*exact, 2.0], abs=1e-7)


def test_event_indicators_have_names(fmu: Made) -> None:
    assert up.Fmu(fmu("relay", 3)).indicators == ("z",)
    assert up.Fmu(fmu("relay", 2), interface="model-exchange").indicators == ("z[1]",)
    assert up.Fmu(fmu("linear", 3)).indicators == ()


@VERSIONS
@pytest.mark.parametrize("coupling", [up.Negotiated(), up.Interruptible()], ids=lambda c: type(c).__name__)
def test_the_instants_of_the_bounces_are_communication_points(fmu: Made, version: int, coupling: Any) -> None:
    scenario = up.Scenario({"ball": exchange(fmu("ball", version), DormandPrince(1e-10, 1e-12))})
    trace = same(scenario, pace=0.1, until=2.0, coupling=coupling)
    hits = [FALL * (1 + 2 * sum(0.7**k for k in range(1, n + 1))) for n in range(4)]
    for hit in hits:
        assert min(abs(np.asarray(trace.time) - hit)) < 1e-8


@pytest.mark.supports("fmi2", "Time events")
@pytest.mark.supports("fmi3", "Time events")
@VERSIONS
@ANY
def test_stairs_have_time_events(fmu: Made, version: int, solver: Solver) -> None:
    trace = same(up.Scenario({"s": exchange(fmu("stairs", version), solver)}), pace=0.1, until=1.0)
    after = dict(zip(trace.time, trace["s.y"], strict=True))  # the last row of an instant counts
    for t, y in after.items():
        assert y == 1.5 * np.floor(t / 0.25 + 1e-9), t


@VERSIONS
def test_a_next_event_that_is_past_is_none(
    fmu: Made, version: int, engine: str, caplog: pytest.LogCaptureFixture
) -> None:
    """After three stairs the FMU goes on to name the time of the first one."""
    scenario = up.Scenario({"s": exchange(fmu("stale", version))})
    with caplog.at_level(logging.WARNING, "upbeat.fmu"):
        trace = up.simulate(scenario, pace=0.1, until=2.0, engine=engine)
    assert trace["s.count"][-1] == 3
    (record,) = caplog.records
    assert (
        record.getMessage() == "its next event would be at t = 0.25, which is past at t = 0.75: taken as none"
    )
    assert (record.name, record.time) == ("upbeat.fmu.s", 0.75)


@VERSIONS
@ANY
@pytest.mark.parametrize("inputs", [up.Hold(), up.Linear()], ids=lambda inputs: type(inputs).__name__)
@pytest.mark.parametrize(
    "coupling",
    [up.Jacobi(), up.GaussSeidel(), up.Iterated(up.Jacobi()), up.Negotiated()],
    ids=lambda coupling: type(coupling).__name__,
)
def test_coupled_systems_have_the_same_bits(
    fmu: Made, version: int, solver: Solver, inputs: Any, coupling: Any
) -> None:
    one = exchange(fmu("linear", version), solver, parameters={"d": 0.0}, locals=["x"])
    scenario = up.Scenario(
        {"a": one, "b": one.with_values({"a": -0.5, "b": -0.4, "x": 3.0})},
        connections={"a.u": "b.y", "b.u": "a.y"},
    )
    trace = same(scenario, pace=0.05, until=1.0, inputs=inputs, coupling=coupling)
    # x' = A x with A = [[-2, 3], [-1.2, -0.5]]
    matrix = np.array([[-2.0, 3.0], [-1.2, -0.5]])
    values, vectors = np.linalg.eig(matrix)
    exact = (vectors @ (np.exp(values) * np.linalg.solve(vectors, [1.0, 3.0]))).real
    assert [trace["a.x"][-1], trace["b.x"][-1]] == pytest.approx(exact, abs=0.15)


@VERSIONS
@ANY
def test_a_relay_follows_an_input_that_moves(fmu: Made, version: int, solver: Solver) -> None:
    # u = sin t crosses 1/2 at π/6 and 5π/6: the input is linear within each step of 0.01
    relay = exchange(fmu("relay", version), solver)
    wave = up.Ode({"a": "b", "b": "-a"}, start={"a": 0.0, "b": 1.0}, outputs=["a"])
    scenario = up.Scenario({"wave": wave, "relay": relay}, connections={"relay.u": "wave.a"})
    trace = same(scenario, pace=0.01, until=3.0, inputs=up.Linear(), coupling=up.GaussSeidel())
    assert trace["relay.switches"][-1] == 2
    on, off = np.pi / 6, 5 * np.pi / 6
    top = 1 - np.exp(-(off - on))
    at = np.asarray(trace.time)
    exact = np.where(at < on, 0, np.where(at < off, 1 - np.exp(-(at - on)), top * np.exp(-(at - off))))
    np.testing.assert_allclose(trace["relay.x"], exact, atol=0.012 if isinstance(solver, Euler) else 1e-3)


@VERSIONS
@ANY
def test_a_relay_notices_an_input_that_jumps(fmu: Made, version: int, solver: Solver) -> None:
    relay = exchange(fmu("relay", version), solver)
    jump = up.Function(outputs={"y": "1 if time > 0.45 else 0"})
    scenario = up.Scenario({"jump": jump, "relay": relay}, connections={"relay.u": "jump.y"})
    trace = same(scenario, pace=0.1, until=1.0)
    assert trace["relay.on"][-1]
    assert trace["relay.x"][-1] == pytest.approx(1 - np.exp(-0.5), abs=0.01)


@pytest.mark.supports("fmi2", "Discrete inputs in model exchange", "changed in event mode")
@pytest.mark.supports("fmi3", "Discrete inputs in model exchange", "changed in event mode")
@VERSIONS
def test_a_discrete_input_is_an_event(fmu: Made, version: int) -> None:
    relay = exchange(fmu("relay", version), parameters={"u": 1.0})
    enabling = up.Function(outputs={"y": {"value": "0 if time < 0.45 else 1", "kind": "integer"}})
    scenario = up.Scenario(
        {"enabling": enabling, "relay": relay}, connections={"relay.enabled": "enabling.y"}
    )
    trace = same(scenario, pace=0.25, until=1.0)
    assert trace["relay.switches"][-1] >= 1
    assert trace["relay.x"][-1] == pytest.approx(1 - np.exp(-0.5), abs=0.2)


@pytest.mark.supports(
    "fmi2", "States in model exchange", "saved, restored, and carried from one engine to the other"
)
@pytest.mark.supports(
    "fmi3", "States in model exchange", "saved, restored, and carried from one engine to the other"
)
@VERSIONS
@ANY
def test_states_travel_between_the_engines(fmu: Made, version: int, solver: Solver, tmp_path: Path) -> None:
    if not native.available():
        pytest.skip("no native engine")
    relay = exchange(fmu("relay", version), solver)
    ball = exchange(fmu("ball", version), solver)
    scenario = up.Scenario({"ball": ball, "relay": relay}, connections={"relay.u": "ball.h"})
    settings: dict[str, Any] = {"pace": 0.05, "until": 1.2, "inputs": up.Linear()}
    whole = same(scenario, **settings)
    for first, second in (("interpret", "native"), ("native", "interpret")):
        path = tmp_path / first
        run = up.start(scenario, engine=first, checkpoint=up.Checkpoint(path, every=1e9), **settings)
        for _ in range(17):
            run.step()
        run.checkpoint()
        run.close()
        given = up.experiment(scenario, engine=second, **settings)
        trace = up.resume(path, experiment=given)
        for name in whole.names:
            assert np.asarray(trace[name]).tobytes() == np.asarray(whole[name]).tobytes(), (first, name)


@pytest.mark.supports("fmi3", "Arrays of states", "sized by structural parameters")
def test_structural_parameters_change_the_number_of_states(fmu: Made) -> None:
    """x' = -x from the FMU's own start in as many states as n says."""
    for n in (2, 3):
        space = exchange(fmu("space", 3), RK4(step=0.01)).with_values({"n": n})
        trace = same(up.Scenario({"one": space}), pace=0.1, until=1.0)
        y = np.asarray(trace["one.y"])
        np.testing.assert_allclose(y, y[0] * np.exp(-np.asarray(trace.time)), rtol=1e-7)


@VERSIONS
@pytest.mark.parametrize("name", ["linear", "ball", "relay"])
def test_fmpy_finds_the_same(fmu: Made, version: int, name: str) -> None:
    fmpy = pytest.importorskip("fmpy")
    path = fmu(name, version)
    trace = same(up.Scenario({"one": exchange(path, DormandPrince(1e-9, 1e-11))}), pace=0.05, until=1.5)
    result = fmpy.simulate_fmu(
        str(path),
        fmi_type="ModelExchange",
        stop_time=1.5,
        output_interval=0.05,
        relative_tolerance=1e-9,
        record_events=False,
    )
    output = {"linear": "y", "ball": "h", "relay": "x"}[name]
    ours = dict(zip(np.round(trace.time, 9), trace[f"one.{output}"], strict=True))
    for row in result:
        assert ours[round(float(row["time"]), 9)] == pytest.approx(row[output], abs=2e-6), row["time"]


@pytest.mark.supports("fmi3", "Directional derivatives", "for slopes, and as CVODE's Jacobian")
@pytest.mark.parametrize("solver", [*SOLVERS[2:], Cvode(1e-9, 1e-11)], ids=lambda solver: solver.method)
def test_an_fmu_of_casadi_with_its_own_derivatives(fmu_folder: Path, solver: Solver) -> None:
    """x'' = -4 x from 1: x = cos 2t, y = x²."""
    spring = exchange(casadi_fmu(fmu_folder), solver)
    scenario = up.Scenario({"spring": spring})
    run = up.simulate if isinstance(solver, Cvode) else same
    trace = run(scenario, pace=0.1, until=3.0)
    np.testing.assert_allclose(trace["spring.x"], np.cos(2 * np.asarray(trace.time)), atol=1e-6)
    np.testing.assert_allclose(trace["spring.y"], np.cos(2 * np.asarray(trace.time)) ** 2, atol=2e-6)
    unit = spring.instantiate("s", 0.0)
    try:
        assert unit.slope("y", "u") == pytest.approx([1.0])  # type: ignore[attr-defined]
    finally:
        unit.close()  # type: ignore[attr-defined]


@pytest.mark.supports("fmi3", "Clocks in model exchange")
def test_clocks_tick_in_model_exchange(fmu: Made) -> None:
    """Every 0.1 s, after 0.15 + 0.3 + 0.45 … s, whenever somebody says so; each third tick is an alarm."""
    model = exchange(fmu("clocks", 3))
    assert Ability.NATIVE in model.abilities
    unit: Any = model.instantiate("clocks", 0.0)
    alarms = []
    t = 0.0
    while t < 1.0:
        while unit.due() <= t:
            if unit.get("alarm"):
                alarms.append(t)
            unit.jump()
        t = unit.advance(t, min(1.0, unit.due()), early=True)
    while unit.due() <= t:
        unit.jump()
    assert unit.get("ticks") == 11  # at 0.0 already, and at 1.0
    assert unit.get("waits") == 3  # at 0.15, 0.45 and 0.9
    assert alarms == pytest.approx([0.2, 0.5, 0.8])
    unit.set("u", [7.0])
    assert unit.get("held") == 0.0
    token = unit.save()
    for _ in range(2):
        unit.restore(unit.from_bytes(unit.to_bytes(token)))
        unit.set("hit", [True])
        assert unit.due() == 1.0
        unit.jump()
        assert unit.get("held") == 7.0
    unit.set("u", [101.0])  # which the alarm depends on
    unit.set("hit", [True])
    unit.jump()
    assert unit.get("alarm")
    assert unit.advance(1.0, 1.25) == 1.25
    assert unit.get("ticks") == 13
    unit.close()


@pytest.mark.parametrize("interface", ["co-simulation", "model-exchange"])
def test_texts_of_a_kept_state_outlive_thousands_of_others(fmu: Made, interface: Any) -> None:
    """The unit forgets texts from time to time, but none that it may need again."""
    model = up.Fmu(fmu("types", 3), interface=interface, rollback="trust")
    unit: Any = model.instantiate("types", 0.0)
    unit.set("string_in", ["first"])
    token = unit.save()
    kept = unit.to_bytes(token)
    for k in range(3000):
        unit.set("string_in", [f"text {k}"])
    assert unit.get("string_out") == "text 2999"
    assert unit.to_bytes(token) == kept
    unit.restore(unit.from_bytes(kept))
    assert unit.get("string_out") == "first"
    unit.close()
