"""FMUs on several cores: the bits of one core for every interface, and failures that name who failed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import upbeat as up
from strategies import shared_out
from upbeat.engine.native import machine as native
from upbeat.engine.parallel.operations import operations
from upbeat.master.program import Program
from upbeat.units import ports

pytestmark = pytest.mark.skipif(not native.available(), reason="the native engine is not built")

Made = Callable[[str, int], Path]
WAYS = [("co-simulation", 2), ("co-simulation", 3), ("model-exchange", 2), ("model-exchange", 3)]
H, UNTIL = 0.01, 1.0


def chain(fmu: Made, ways: list[tuple[str, int]], count: int = 4) -> up.Scenario:
    """FMUs with direct feedthrough, each fed by the one before it; a unit without closes the ring."""
    units: dict[str, Any] = {"base": up.Ode({"x": "u - x"}, start={"x": 0.3}, inputs=["u"], outputs=["x"])}
    links = {}
    for k in range(count):
        interface, version = ways[k % len(ways)]
        units[f"f{k}"] = up.Fmu(fmu("linear", version), interface=interface, parameters={"c": 0.5 + 0.1 * k})
        links[f"f{k}.u"] = f"f{k - 1}.y" if k else "base.x"
    links["base.u"] = f"f{count - 1}.y"
    return up.Scenario(units, links)


def bits(trace: up.Trace) -> dict[str, bytes]:
    return {name: np.asarray(trace[name]).tobytes() for name in ("time", *trace.names)}


def homes(program: Program, scenario: up.Scenario, cores: int) -> list[set[str]]:
    """The units that each core calls."""
    (schedule,) = shared_out(program, scenario.units, cores).values()
    block = program.steps["step"]
    return [
        {unit for item in items for i in item.instructions if (unit := getattr(block[i], "unit", None))}
        for items in schedule.cores
    ]


def test_the_order_comes_from_what_the_fmus_declare(fmu: Made) -> None:
    scenario = chain(fmu, WAYS)
    program = up.Master(up.Fixed(H), up.Refined()).program(scenario)
    found = operations(program, "step", scenario.units)
    before = {op.name: {found[b].name for b in op.before} for op in found}
    for k in range(4):  # y = c x + d u
        assert {f"in f{k}.u", f"state f{k}"} <= before[f"out f{k}.y"]
    assert before["out base.x"] == {"state base"}
    assert "no signal is delayed" in program.notes


@pytest.mark.parametrize("ways", [*([way] for way in WAYS), WAYS], ids=str)
@pytest.mark.parametrize("coupling", ["refined", "jacobi"])
@pytest.mark.parametrize("cores", [2, 4])
def test_the_results_are_those_of_one_core(
    fmu: Made, ways: list[tuple[str, int]], coupling: str, cores: int
) -> None:
    scenario = chain(fmu, ways)
    settings: dict[str, Any] = {"pace": H, "until": UNTIL, "coupling": coupling}
    one, many = up.simulate(scenario, **settings), up.simulate(scenario, cores=cores, **settings)
    assert bits(one) == bits(many)
    assert all(homes(up.experiment(scenario, **settings).plan.program, scenario, cores))
    # The interpreter, which has no threads, says the same.
    assert bits(one) == bits(up.simulate(scenario, engine="interpret", **settings))


def test_a_thousand_repeats_give_the_same_bits(fmu: Made) -> None:
    scenario = chain(fmu, WAYS)
    program = up.Master(up.Fixed(H), up.Refined()).program(scenario)
    found = []
    for cores in (1, 3):
        machine = native.machine(
            program, scenario.units, 0.0, schedules=shared_out(program, scenario.units, cores)
        )
        machine.write(program.next, 0.0)
        machine.execute("start")
        token = machine.save()
        for _ in range(1 if cores == 1 else 1000):
            machine.restore(token)
            for k in range(5):
                machine.write(program.now, H * k)
                machine.write(program.next, H * (k + 1))
                machine.execute("step")
            found.append(tuple(float(machine.read(i)).hex() for i in range(program.layout.cells)))
        machine.close()
    assert len(found) == 1001
    assert len(set(found)) == 1


def test_events_inside_fmus(fmu: Made) -> None:
    """Balls that bounce, for model exchange and with FMI 3's event mode; instants stay on the first core."""
    balls = {
        "a": up.Fmu(fmu("ball", 3), interface="model-exchange"),
        "b": up.Fmu(fmu("ball", 3), parameters={"h": 0.8}),
        "c": up.Fmu(fmu("ball", 2), interface="model-exchange", parameters={"h": 0.6}),
    }
    scenario = up.Scenario(balls)
    one, many = (up.simulate(scenario, pace=0.05, until=1.5, cores=cores) for cores in (1, 3))
    assert bits(one) == bits(many)
    assert list(one.events) == list(many.events)
    assert one["a.bounces"][-1] > 1


@pytest.mark.parametrize("isolation", ["none", "process"])
def test_an_fmu_that_fails_on_another_thread_is_named(fmu: Made, isolation: Any) -> None:
    """From t = 0.5 on it answers with an error; all others are sound."""
    units = {name: up.Fmu(fmu("linear", 2), interface="co-simulation") for name in ("a", "b", "c")}
    bad = up.Fmu(fmu("fail", 2), interface="co-simulation", isolation=isolation)
    scenario = up.Scenario({**units, "bad": bad}, {"a.u": "b.y", "b.u": "c.y", "bad.u": "c.y"})
    program = up.experiment(scenario, pace=0.125, until=2.0).plan.program
    assert "bad" not in homes(program, scenario, 4)[0], "it is not on the thread that called"
    with pytest.raises(up.UnitError) as caught:
        up.simulate(scenario, pace=0.125, until=2.0, cores=4)
    error = caught.value
    assert (error.unit, error.call, error.time) == ("bad", "advance(0.5, 0.625)", 0.5)
    assert error.trace is not None
    assert list(error.trace.time) == [0.0, 0.125, 0.25, 0.375, 0.5]
    sound = up.simulate(scenario, pace=0.125, until=0.5)
    assert bits(error.trace) == bits(sound)


def test_an_fmu_that_dies_in_its_process_ends_the_run_and_nothing_else(fmu: Made) -> None:
    crash = up.Fmu(fmu("crash", 2), interface="co-simulation", isolation="process")
    scenario = up.Scenario({"a": up.Fmu(fmu("linear", 3)), "bad": crash}, {"a.u": "bad.y"})
    with pytest.raises(up.UnitError, match="bad") as caught:
        up.simulate(scenario, pace=0.125, until=2.0, cores=2)
    assert caught.value.trace is not None
    assert caught.value.trace.time[-1] == 0.5


class Counter:
    def __init__(self, name: str, time: float, parameters: dict[str, Any]) -> None:
        self.count = 0

    def get(self, port: str) -> float:
        return float(self.count)

    def advance(self, t: float, to: float, early: bool) -> float:
        self.count += 1
        return to


def test_fmus_that_log_from_other_threads_beside_a_unit_in_python(
    fmu: Made, caplog: pytest.LogCaptureFixture
) -> None:
    """Logging needs the lock that the unit in Python holds: it is let go of where threads wait."""
    units: dict[str, Any] = {
        f"f{k}": up.Fmu(fmu("chatty", 2), interface="co-simulation", logging=True) for k in range(3)
    }
    units["p"] = up.PythonUnit(Counter, ports([], ["n"]))
    scenario = up.Scenario(units, {"f1.u": "p.n"})
    caplog.set_level(logging.DEBUG, "upbeat")
    one = up.simulate(scenario, pace=0.1, until=1.0)
    said = len(caplog.records)
    many = up.simulate(scenario, pace=0.1, until=1.0, cores=4)
    assert bits(one) == bits(many)
    assert said > 0
    assert len(caplog.records) >= 2 * said


def test_jitted_units_are_shared_out_too() -> None:
    pytest.importorskip("numba")
    unit = up.Ode({"x": "v", "v": "u - sin(x) - 0.1*v"}, inputs=["u"], outputs=["x"], start={"x": 1.0})
    units = {f"u{k}": unit for k in range(4)}
    scenario = up.Scenario(units, {f"u{k}.u": f"u{(k + 1) % 4}.x" for k in range(4)})
    one, many = (up.simulate(scenario, pace=0.01, until=1.0, jit=True, cores=n) for n in (1, 3))
    assert bits(one) == bits(many)
