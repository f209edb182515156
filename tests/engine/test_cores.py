"""Runs on several cores: the same bits as on one, failures that name who failed, Python on the first core."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import upbeat as up
from upbeat.engine.choose import Choice
from upbeat.engine.native import machine as native
from upbeat.engine.native.lower import lower
from upbeat.engine.parallel.cores import on_cores, shared_out
from upbeat.engine.schedule import flaw
from upbeat.master.dataflow import Flow, dependencies
from upbeat.units import ports

pytestmark = pytest.mark.skipif(not native.available()[0], reason="the native engine is not built")

COUNT = 6


def unit(k: int) -> up.Ode:
    return up.Ode(
        {"x": "v", "v": f"u - {1.0 + k}*x - 0.1*v"},
        inputs=["u"],
        outputs={"x": "x", "s": "x + 0.5*u"},
        start={"x": 1.0 + k},
    )


UNITS = {f"u{k}": unit(k) for k in range(COUNT)}
AROUND = {f"u{k}.u": f"u{(k + 1) % COUNT}.x" for k in range(COUNT)}
RING = up.Scenario(UNITS, AROUND)


class Counter:
    """A unit in plain Python that counts its steps, and may fail at one."""

    fails_at = np.inf

    def __init__(self, name: str, time: float, parameters: dict[str, Any]) -> None:
        self.count = 0

    def get(self, port: str) -> float:
        return float(self.count)

    def advance(self, t: float, to: float, early: bool) -> float:
        if to > self.fails_at:
            raise ValueError("nothing left to count")
        self.count += 1
        return to


class Failing(Counter):
    fails_at = 0.45


def counting(how: type[Counter] = Counter) -> up.PythonUnit:
    return up.PythonUnit(how, ports([], ["n"]))


def bits(trace: up.Trace) -> dict[str, bytes]:
    return {name: np.asarray(trace[name]).tobytes() for name in ("time", *trace.names)}


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"coupling": "gauss_seidel"},
        {"coupling": "refined"},
        {"coupling": "iterated"},
        {"inputs": "linear"},
        {"pace": up.ErrorControl(1e-4)},
    ],
)
@pytest.mark.parametrize("cores", [2, 3, 9])
def test_the_results_are_those_of_one_core(how: dict[str, Any], cores: int) -> None:
    settings = {"pace": 0.01, "until": 2.0} | how
    one, many = up.simulate(RING, **settings), up.simulate(RING, cores=cores, **settings)
    assert bits(one) == bits(many)
    assert list(one.steps) == list(many.steps)


def test_a_thousand_repeats_give_the_same_bits() -> None:
    program = up.Master(up.Fixed(0.1)).program(RING)
    found = []
    for cores in (1, 3):
        machine = native.Machine(program, RING.units, 0.0, schedules=shared_out(program, RING.units, cores))
        machine.write(program.next, 0.0)
        machine.execute("start")
        token = machine.save()
        for _ in range(1 if cores == 1 else 1000):
            machine.restore(token)
            for k in range(10):
                machine.write(program.now, 0.1 * k)
                machine.write(program.next, 0.1 * (k + 1))
                machine.execute("step")
            found.append(tuple(float(machine.read(i)).hex() for i in range(program.layout.cells)))
        machine.close()
    assert len(found) == 1001
    assert len(set(found)) == 1


def test_a_run_can_be_stepped_and_set_by_hand() -> None:
    scenario = up.Scenario({"a": unit(0), "b": unit(1)}, {"b.u": "a.x"})
    found = []
    for cores in (1, 2):
        with up.start(scenario, pace=0.1, until=1.0, cores=cores) as run:
            run.step()
            run.set("a.u", 3.0)
            found.append(bits(run.finish()))
    assert found[0] == found[1]


def test_python_units_stay_on_the_first_core() -> None:
    units = {**UNITS, "p": counting(), "q": counting()}
    scenario = up.Scenario(units, AROUND)
    program = up.Master(up.Fixed(0.1)).program(scenario)
    (schedule,) = shared_out(program, scenario.units, 3).values()
    block = program.steps["step"]
    assert flaw(schedule, dependencies(block, Flow(program.layout, scenario.units))) is None
    called = [
        {getattr(block[i], "unit", None) for item in items for i in item.instructions}
        for items in schedule.cores
    ]
    assert {"p", "q"} <= called[0]
    assert not {"p", "q"} & (called[1] | called[2])
    assert all(called)
    one, many = (up.simulate(scenario, pace=0.1, until=3.0, cores=cores) for cores in (1, 3))
    assert bits(one) == bits(many)
    assert many["p.n"][-1] == 30.0


def test_where_only_one_core_would_work_no_threads_are_made() -> None:
    scenario = up.Scenario({"p": counting(), "q": counting()})
    program = up.Master(up.Fixed(0.1)).program(scenario)
    assert shared_out(program, scenario.units, 4) == {}
    assert lower(program, scenario.units, {}).shares == [[] for _ in program.blocks]


@pytest.mark.parametrize("cores", [1, 4])
def test_a_unit_that_fails_on_any_core_is_named_and_the_results_are_kept(cores: int) -> None:
    # 1/(0.75 - x) is infinite where x, which is the time, is 0.75: in the twelfth step.
    bad = up.Ode({"x": "1"}, outputs={"y": "1/(0.75 - x)"}, solver={"method": "euler"})
    scenario = up.Scenario({**UNITS, "bad": bad}, AROUND)
    with pytest.raises(up.UnitError, match="bad") as caught:
        up.simulate(scenario, pace=0.0625, until=2.0, cores=cores)
    error = caught.value
    assert (error.unit, error.call, error.time) == ("bad", "get('y')", 0.75)
    assert error.trace is not None
    assert list(error.trace.time) == [0.0625 * k for k in range(12)]
    sound = up.simulate(RING, pace=0.0625, until=0.6875)
    assert all(np.array_equal(error.trace[name], sound[name]) for name in sound.names)


def test_a_python_unit_that_fails_says_why() -> None:
    scenario = up.Scenario({**UNITS, "p": counting(Failing)}, AROUND)
    with pytest.raises(up.UnitError, match="nothing left to count") as caught:
        up.simulate(scenario, pace=0.1, until=2.0, cores=3)
    assert (caught.value.unit, caught.value.call) == ("p", "advance(0.4, 0.5)")
    assert isinstance(caught.value.__cause__, ValueError)
    assert len(caught.value.trace.time) == 5


def test_the_first_core_that_failed_is_told_of_whatever_the_timing() -> None:
    bad = up.Ode({"x": "1"}, outputs={"y": "1/(0.5 - x)"}, solver={"method": "euler"})
    scenario = up.Scenario({f"bad{k}": bad for k in range(4)})
    experiment = up.experiment(scenario, pace=0.5, until=1.0, cores=4)
    named = set()
    for _ in range(50):
        with pytest.raises(up.UnitError) as caught:
            experiment.run()
        named.add(caught.value.unit)
    assert len(named) == 1


def test_what_is_said_about_cores() -> None:
    mixed = up.Scenario({**UNITS, "p": counting()}, AROUND)
    why = up.experiment(mixed, pace=0.1, until=1.0, cores=2).choice().why
    assert "up to 2 cores share the steps; what runs in Python (p) stays on one of them" in why
    assert "cores" not in up.experiment(mixed, pace=0.1, until=1.0).choice().why
    with pytest.raises(up.InvalidInput, match=r"cores = 2 is for the native engine"):
        up.simulate(RING, pace=0.1, until=1.0, cores=2, engine="interpret")
    without = on_cores(Choice("interpret", "no compiler"), "auto", 2, RING.units)
    assert without == Choice("interpret", "no compiler; so one core does all the work, and not 2")


def test_files_say_it_and_profiles_are_used(tmp_path: Path) -> None:
    file = tmp_path / "ring.toml"
    up.write_scenario(up.experiment(RING, pace=0.1, until=1.0, cores=2), file)
    assert "cores = 2" in file.read_text()
    made = up.load(file)
    assert (made.cores, made.times) == (2, None)
    assert up.load(file, cores=1).cores == 1
    profile = {"format": 1, "engine": "native", "steps": 3, "microseconds": {"step": {"state u0": 50.0}}}
    (tmp_path / "ring.profile.json").write_text(json.dumps(profile))
    measured = up.load(file)
    assert measured.times == {"step": {"state u0": pytest.approx(5e-5)}}
    assert bits(measured.run()) == bits(up.load(file, cores=1).run())
    program, units = measured.program(), measured.flat.scenario.units
    (schedule,) = shared_out(program, units, 2, measured.times).values()
    block = program.steps["step"]
    alone = next(
        {getattr(block[i], "unit", None) for item in items for i in item.instructions}
        for items in schedule.cores
        if any(getattr(block[i], "unit", None) == "u0" for item in items for i in item.instructions)
    )
    assert alone == {"u0"}  # which takes longer than all the others together


def test_processes_and_python_units_on_several_cores() -> None:
    # Whether to go on waiting for a process is asked in Python, by a thread without its lock.
    units = {"p": counting(), **{f"u{k}": up.Isolated(unit(k)) for k in range(2)}}
    scenario = up.Scenario(units, {"u0.u": "u1.x", "u1.u": "u0.x"})
    one, many = (up.simulate(scenario, pace=0.1, until=0.3, cores=cores) for cores in (1, 3))
    assert bits(one) == bits(many)
