"""FMUs inside the native engine: the same numbers, states and messages as in the interpreter."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import upbeat as up
from upbeat.core.abilities import Ability
from upbeat.engine.interpret import Interpreter
from upbeat.engine.native import machine as native

pytestmark = pytest.mark.skipif(not native.available(), reason="no native engine")
Compiled = dict[tuple[str, int], Path]
Made = Callable[[str, int], Path]
VERSIONS = pytest.mark.parametrize("version", [2, 3])


def coupled(compiled: Compiled, version: int) -> up.Scenario:
    """Two linear systems in a loop, and a gain between them."""
    one = up.Fmu(compiled["linear", version], parameters={"d": 0.0}, rollback="trust")
    gain = up.Fmu(compiled["gain", version], parameters={"k": -0.4}, rollback="trust")
    return up.Scenario(
        units={"a": one, "b": one.with_values({"a": -0.5, "x": 3.0}), "g": gain},
        connections={"a.u": "g.y", "g.u": "b.y", "b.u": "a.y"},
    )


def same(scenario: up.Scenario, **settings: Any) -> up.Trace:
    """The run on the native engine, after a look that the interpreter's is the same to the last bit."""
    first, second = (up.simulate(scenario, engine=engine, **settings) for engine in ("interpret", "native"))
    assert first.names == second.names
    assert np.array_equal(first.time, second.time)
    for name in first.names:
        assert np.array_equal(first[name], second[name]), name
    return second


@VERSIONS
def test_it_runs_without_python(compiled: Compiled, version: int) -> None:
    plan = up.experiment(coupled(compiled, version), pace=0.1, until=1.0)
    assert all(Ability.NATIVE in model.abilities for model in plan.scenario.units.values())
    assert plan.choice.name == "native"


def test_texts_and_bytes_need_no_python(fmu: Made) -> None:
    one = up.Fmu(fmu("types", 3), parameters={"string_in": "Größe", "binary_in": "00ff"})
    assert Ability.NATIVE in one.abilities
    links = {"b.string_in": "a.string_out", "b.binary_in": "a.binary_out"}
    trace = same(up.Scenario({"a": one, "b": up.Fmu(one.path)}, links), pace=0.1, until=0.3)
    assert set(trace["b.string_out"]) == {"Größe"}
    assert set(trace["b.binary_out"]) == {"00ff"}


def test_clocks_of_model_exchange_need_no_python(fmu: Made) -> None:
    """Every 0.1 s, after 0.15 + 0.3 + 0.45 … s; each third tick is an alarm."""
    model = up.Fmu(fmu("clocks", 3), interface="model-exchange", rollback="trust")
    assert Ability.NATIVE in model.abilities
    trace = same(up.Scenario({"c": model}), pace=0.25, until=1.0)
    assert (trace["c.ticks"][-1], trace["c.waits"][-1]) == (11, 3)
    assert trace.events.times("c.alarm") == pytest.approx([0.2, 0.5, 0.8])


@VERSIONS
def test_a_warning_of_a_function_is_in_the_log(
    fmu: Made, version: int, engine: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "upbeat.fmu"):
        up.simulate(up.Scenario({"w": up.Fmu(fmu("warn", version))}), pace=0.1, until=0.5, engine=engine)  # type: ignore[arg-type]
    ours = [message for message in caplog.messages if "gave a warning" in message]
    assert ours == [f"fmi{version}DoStep gave a warning (only the first one is reported)"]


@VERSIONS
@pytest.mark.parametrize("inputs", [up.Hold(), up.Linear()], ids=lambda inputs: type(inputs).__name__)
@pytest.mark.parametrize(
    "coupling",
    [
        up.Jacobi(),
        up.Jacobi(outputs="lagged"),
        up.GaussSeidel(),
        up.Iterated(up.Jacobi()),
        up.Iterated(up.GaussSeidel()),
        up.Negotiated(),
        up.MultiRate({"a": 4}),
    ],
    ids=str,
)
def test_couplings(
    compiled: Compiled, version: int, coupling: up.Jacobi, inputs: up.Hold | up.Linear
) -> None:
    trace = same(coupled(compiled, version), pace=0.05, until=2.0, coupling=coupling, inputs=inputs)
    assert abs(trace["a.y"][-1] - trace["a.y"][0]) > 0.1


@VERSIONS
def test_error_control(compiled: Compiled, version: int) -> None:
    """Steps that are taken back, of different lengths."""
    trace = same(coupled(compiled, version), pace=up.ErrorControl(1e-2), until=0.5, inputs=up.Linear())
    assert len(trace.time) > 10


def test_inputs_are_followed(compiled: Compiled) -> None:
    """FMI 2 has derivatives of inputs: x' = -2 x + t from 1 is then met by the FMU's own solver alone.

    x = (t - 1/2)/2 + 5/4 e^-2t, y = 3 x + u/2.
    """
    ramp = up.Function(inputs=[], outputs={"y": "time"})
    scenario = up.Scenario({"r": ramp, "f": up.Fmu(compiled["linear", 2])}, {"f.u": "r.y"})
    trace = same(scenario, pace=0.1, until=1.0, inputs=up.Linear())
    t = np.asarray(trace.time)
    exact = 3 * ((t - 0.5) / 2 + 1.25 * np.exp(-2 * t)) + t / 2
    # The first step has no slope yet.
    np.testing.assert_allclose(trace["f.y"][2:], exact[2:], atol=0.02)
    held = up.simulate(scenario, pace=0.1, until=1.0, inputs=up.Hold())
    assert abs(held["f.y"][-1] - exact[-1]) > 4 * abs(trace["f.y"][-1] - exact[-1])


@VERSIONS
def test_algebraic_loops_while_initializing(compiled: Compiled, version: int) -> None:
    """y = 0.5 (1 + y'), y' = -2 y: y = 0.25, found with slopes that the FMU knows."""
    half = up.Fmu(compiled["gain", version], parameters={"k": 0.5})
    scenario = up.Scenario({"p": half, "q": half.with_values({"k": -2.0})}, {"p.u": "1 + q.y", "q.u": "p.y"})
    trace = same(scenario, pace=0.5, until=1.0)
    np.testing.assert_allclose(trace["p.y"], 0.25, rtol=1e-12)


@VERSIONS
def test_the_time_is_not_summed(compiled: Compiled, version: int) -> None:
    """The FMU is told k·H: it shows the time it was told, plus the length of the step."""
    model = up.Fmu(compiled["gain", version])
    trace = same(up.Scenario(units={"g": model}), pace=0.1, until=5.0)
    assert list(trace.time) == [k * 0.1 for k in range(51)]


@VERSIONS
def test_states_as_bytes(compiled: Compiled, version: int) -> None:
    states_are_the_same(coupled(compiled, version), coupling=up.Iterated(up.Jacobi()), inputs=up.Linear())


def test_states_of_clocks_as_bytes(fmu: Made) -> None:
    """With ticks that are counted, outputs that were last seen at one, and an input that waits for one."""
    ramp = up.Function(outputs={"y": "time"})
    clocks = up.Fmu(fmu("clocks", 3), rollback="trust")
    states_are_the_same(up.Scenario({"one": clocks, "ramp": ramp}, {"one.u": "ramp.y"}))


def states_are_the_same(scenario: up.Scenario, **settings: Any) -> None:
    """Both engines write the same bytes, and read those of the other."""
    plan = up.experiment(scenario, pace=0.1, until=1.0, **settings)
    arranged = plan.master.arranged(plan.closed)
    program, _ = plan.master.written(arranged)
    machines = [make(program, arranged.units, 0.0) for make in (Interpreter, native.machine)]
    now, next = program.now, program.next

    def steps(machine: Any, count: int, first: int = 0) -> list[Any]:
        for k in range(first, first + count):
            machine.write(next, 0.1 * (k + 1))
            machine.execute("step")
            machine.write(now, 0.1 * (k + 1))
        return [machine.read(cell) for cell in range(program.layout.cells)]

    try:
        for machine in machines:
            machine.execute("start")
            steps(machine, 3)
        data = [machine.to_bytes(machine.save()) for machine in machines]
        assert data[0] == data[1]
        further = [steps(machine, 3, 3) for machine in machines]
        assert further[0] == further[1]
        for machine in machines:
            machine.restore(machine.from_bytes(data[0]))
        assert [steps(machine, 3, 3) for machine in machines] == further
        with pytest.raises(up.ModelError):
            machines[1].from_bytes(data[0][:-8])
    finally:
        for machine in machines:
            machine.close()


@VERSIONS
@pytest.mark.parametrize("interface", ["co-simulation", "model-exchange"])
def test_the_words_of_a_failure(compiled: Compiled, version: int, interface: Any, engine: str) -> None:
    """What the FMU logged about it is in the message, on either engine."""
    broken = up.Fmu(compiled["linear", version], interface=interface)
    object.__setattr__(broken, "layout", _misled(broken))
    with pytest.raises(up.UnitError) as caught:
        up.simulate(up.Scenario({"f": broken}), pace=0.1, until=1.0, engine=engine)
    call = "fmi2GetReal" if version == 2 else "fmi3GetFloat64"
    assert f"FmuError: {call} failed: {call} refused" in str(caught.value)


def _misled(model: up.Fmu) -> Any:
    """Its ports, where the output has a reference that the FMU does not know."""
    from dataclasses import replace

    layout = model.layout
    variables = dict(layout.variables)
    variables["y"] = replace(variables["y"], reference=1000)
    return replace(layout, variables=variables)


@VERSIONS
def test_log_messages_have_the_time(
    compiled: Compiled, version: int, engine: str, caplog: pytest.LogCaptureFixture
) -> None:
    model = up.Fmu(compiled["linear", version])
    plan = up.experiment(up.Scenario({"f": model}), pace=0.25, until=1.0, engine=engine)  # type: ignore[arg-type]
    with caplog.at_level(logging.DEBUG, "upbeat.fmu"), plan.open() as run:
        run.finish()
    assert all(hasattr(record, "time") for record in caplog.records)


@VERSIONS
def test_nothing_is_left_behind(compiled: Compiled, version: int) -> None:
    """Instances that never ran, failed, or were left open are freed, too."""
    from upbeat.units.fmi import archive

    model = up.Fmu(compiled["linear", version])
    scenario = up.Scenario({"f": model, "g": model})
    before = dict(archive._RUNNING)
    plan = up.experiment(scenario, pace=0.1, until=1.0, engine="native")
    run = plan.open()
    run.close()
    run.close()
    up.simulate(scenario, pace=0.1, until=1.0, engine="native")
    program = plan.master.program(plan.closed)
    native.machine(program, plan.closed.units, 0.0)  # nobody closes it
    unable = up.Scenario({"f": model, "z": up.PythonFunction(lambda u: 1 / 0, inputs=["u"], outputs=["y"])})
    with pytest.raises(up.UpbeatError):
        up.simulate(unable, pace=0.1, until=1.0, engine="native")
    assert {key: count for key, count in archive._RUNNING.items() if count} == {
        key: count for key, count in before.items() if count
    }
