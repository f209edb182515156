"""Runs on several cores: the same bits as on one, failures that name who failed, Python on the first core."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import upbeat as up
from strategies import shared_out
from upbeat.engine.choose import Choice
from upbeat.engine.native import machine as native
from upbeat.engine.native.lower import lower
from upbeat.engine.parallel.cores import (
    FORMAT,
    INSTANTS,
    Profile,
    core_notes_of,
    cores_here,
    on_cores,
)
from upbeat.engine.parallel.operations import operations
from upbeat.engine.schedule import flaw
from upbeat.master.dataflow import Flow, dependencies
from upbeat.report.explain import explain_data
from upbeat.report.summary import summary
from upbeat.units import ports

pytestmark = pytest.mark.skipif(not native.available(), reason="the native engine is not built")

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


def notes(trace: up.Trace) -> str:
    return "\n".join(trace.notes)


@pytest.mark.parametrize(("pace", "until"), [(up.Fixed(0.01), 0.3), (up.ErrorControl(1e-4), 0.05)])
def test_results_do_not_depend_on_which_steps_cores_share(
    pace: Any, until: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = up.simulate(RING, pace=pace, until=until)
    monkeypatch.setattr(native.Machine, "try_cores", lambda machine: None)  # all steps are shared out
    assert bits(up.simulate(RING, pace=pace, until=until, cores=2)) == bits(one)
    for seed in range(3):
        draw = np.random.default_rng(seed)
        with up.start(RING, pace=pace, until=until, cores=3) as run:
            while not run.finished:
                run._machine._machine.share(bool(draw.integers(2)))  # type: ignore[union-attr]
                run.step()
            assert bits(run.trace) == bits(one)


def test_a_run_on_several_cores_is_tried_and_one_on_one_is_not() -> None:
    """Which of the two is quicker here nobody can say beforehand; that it was found out is seen."""
    with up.start(RING, pace=0.01, until=5.0, cores=2) as run:
        machine = run._machine
        assert machine is not None
        assert machine.tried() == {}
        for _ in range(100):
            run.step()
        ((block, (several, one, shares)),) = machine.tried().items()
        assert (block, shares) == ("step", several < one)
        assert min(several, one) > 0.0
        trace = run.finish()
        assert ("so the run went on with one core" in notes(trace)) is not shares
    assert bits(trace) == bits(up.simulate(RING, pace=0.01, until=5.0))
    trace = up.simulate(RING, pace=0.01, until=5.0, cores=1)
    assert "core" not in notes(trace)


def test_where_one_core_is_quicker_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"step": (7.1e-6, 0.9e-6, False)}
    monkeypatch.setattr(native.Machine, "tried", lambda machine: found)
    trace = up.simulate(RING, pace=0.1, until=1.0, cores=2)
    said = "a step took 7.1 µs on 2 cores and 0.9 µs on one, so the run went on with one core"
    assert trace.notes[-1] == said
    assert said in summary(trace)  # its line about the engine
    found["step"] = (0.9e-6, 7.1e-6, True)
    assert "went on" not in notes(up.simulate(RING, pace=0.1, until=1.0, cores=2))
    schedules = shared_out(up.Master(up.Fixed(0.1)).program(RING), RING.units, 2)
    two = {"a": schedules["step"], "b": schedules["step"]}
    assert core_notes_of({"a": (2e-6, 3e-6, True), "b": (3e-6, 2e-6, False)}, two) == (
        "in block 'b' a step took 3 µs on 2 cores and 2 µs on one, so the run went on with one core",
    )


def test_python_units_on_one_core_are_noted() -> None:
    alone = "cores = 2: one core does all the work: there is nothing for a second core to do"
    python = "cores = 2: what runs in Python (p, q) stays on one of them, for Python does one thing at a time"
    both = {"p": counting(), "q": counting()}
    trace = up.simulate(up.Scenario(both), pace=0.1, until=1.0, cores=2)
    assert {alone, python} <= set(trace.notes)
    mixed = notes(up.simulate(up.Scenario({**UNITS, **both}, AROUND), pace=0.1, until=1.0, cores=2))
    assert python in mixed
    assert alone not in mixed
    assert "cores =" not in notes(up.simulate(up.Scenario(both), pace=0.1, until=1.0))
    assert "cores =" not in notes(up.simulate(RING, pace=0.1, until=1.0, cores=2))


def test_a_thousand_repeats_give_the_same_bits() -> None:
    program = up.Master(up.Fixed(0.1)).program(RING)
    found = []
    for cores in (1, 3):
        machine = native.machine(program, RING.units, 0.0, schedules=shared_out(program, RING.units, cores))
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
    bad = up.Ode({"x": "1"}, outputs={"y": "1/(0.75 - x)"}, solver={"kind": "euler"})
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
    bad = up.Ode({"x": "1"}, outputs={"y": "1/(0.5 - x)"}, solver={"kind": "euler"})
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
    why = up.experiment(mixed, pace=0.1, until=1.0, cores=2).choice.why
    assert "up to 2 cores share the steps; what runs in Python (p) stays on one of them" in why
    assert "cores" not in up.experiment(mixed, pace=0.1, until=1.0).choice.why
    with pytest.raises(up.InvalidInput, match=r"cores = 2 is for the native engine"):
        up.simulate(RING, pace=0.1, until=1.0, cores=2, engine="interpret")
    without = on_cores(Choice("interpret", "no compiler"), "auto", 2, RING.units)
    assert without == Choice("interpret", "no compiler; so one core does all the work, and not 2")


def test_files_say_it_and_profiles_are_used(tmp_path: Path) -> None:
    file = tmp_path / "ring.toml"
    up.write_scenario(up.experiment(RING, pace=0.1, until=1.0, cores=2), file)
    assert "cores = 2" in file.read_text()
    made = up.load(file)
    assert (made.cores, made.profile) == (2, None)
    assert up.load(file, cores=1).cores == 1
    kept(tmp_path, made, {"state u0": 50.0})
    measured = up.load(file)
    assert measured.profile is not None
    assert measured.profile.blocks["step"]["state u0"] == pytest.approx(5e-5)
    assert bits(measured.run()) == bits(up.load(file, cores=1).run())
    block = measured.plan.program.steps["step"]
    schedule = measured.shared["step"].schedule
    assert schedule is not None
    alone = next(
        {getattr(block[i], "unit", None) for item in items for i in item.instructions}
        for items in schedule.cores
        if any(getattr(block[i], "unit", None) == "u0" for item in items for i in item.instructions)
    )
    assert alone == {"u0"}  # which takes longer than all the others together


def kept(folder: Path, made: up.Experiment, times: dict[str, float], crossing: float | None = 0.2) -> None:
    """A profile beside ring.toml: these operations take so many microseconds, and all others 1."""
    found = operations(made.plan.program, "step", made.plan.scenario.units)
    data = {
        "format": FORMAT,
        "engine": "native",
        "steps": 3,
        "microseconds": {"step": {op.name: times.get(op.name, 1.0) for op in found}},
        "instants_us": 0.0,
        "crossing_us": crossing,
    }
    (folder / "ring.profile.json").write_text(json.dumps(data))


def test_a_step_that_several_cores_would_make_slower_is_left_to_one(tmp_path: Path) -> None:
    file = tmp_path / "ring.toml"
    up.write_scenario(up.experiment(RING, pace=0.1, until=1.0, cores=2), file)
    kept(tmp_path, up.load(file), {}, crossing=30.0)
    made = up.load(file)
    shared = made.shared["step"]
    assert shared.schedule is None
    assert "which have to wait for each other" in shared.why
    assert bits(made.run()) == bits(up.load(file, cores=1).run())
    said = up.explain(made, program=False)
    assert f"step: by one core, because {shared.why}" in said
    # What a wait costs was never measured: what is asked for is done.
    kept(tmp_path, up.load(file), {}, crossing=None)
    assert up.load(file).shared["step"].schedule is not None


def test_a_profile_of_another_program_is_not_used_and_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "ring.toml"
    up.write_scenario(up.experiment(RING, pace=0.1, until=0.3, cores=2), file)
    kept(tmp_path, up.load(file), {"state u0": 50.0})
    up.write_scenario(up.experiment(up.Scenario(UNITS), pace=0.1, until=0.3, cores=2), file)
    made = up.load(file)
    assert not made.shared["step"].measured
    made.run()
    assert "ring.profile.json are of another program, and are not used" in caplog.text
    assert "how long anything takes is guessed" in up.explain(made, program=False)


def test_a_broken_profile_does_not_stop_a_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Times decide how long a run takes, and nothing else."""
    file = tmp_path / "ring.toml"
    up.write_scenario(up.experiment(RING, pace=0.1, until=0.3, cores=2), file)
    (tmp_path / "ring.profile.json").write_text("{")
    made = up.load(file)
    assert not made.shared["step"].measured
    assert bits(made.run()) == bits(up.load(file, cores=1).run())
    assert "who does what is guessed: " in caplog.text
    assert "ring.profile.json' is not a profile" in caplog.text
    assert "Measure again: upbeat profile" in caplog.text


def test_more_threads_than_cores_are_told_of(caplog: pytest.LogCaptureFixture) -> None:
    many = cores_here() + 7
    up.simulate(RING, pace=0.1, until=0.1, cores=many)
    assert f"{many} cores are asked for, and this process may use {cores_here()}" in caplog.text


def test_the_schedule_in_words() -> None:
    units = {**UNITS, "p": counting()}
    made = up.experiment(up.Scenario(units, AROUND), pace=0.1, until=1.0, cores=2)
    found = operations(made.plan.program, "step", units)
    times = {op.name: 1e-4 if op.name == "state p" else 1e-5 * (op.kind == "state") for op in found}
    made = made.with_(profile=Profile({"step": times}, 10, "native", 0.0, 1e-7, "times from here"))
    said = up.explain(made, program=False)
    assert "step: shared by 2 cores" in said
    assert "core 0, the thread that calls: p (62 % of the work)" in said
    assert "core 1: u0, u1, u2, u3, u4, u5 (38 % of the work)" in said
    assert "times from here: predicted to be 1.6" in said
    assert "limited by the critical path" in said or "limited by Python" in said
    data = explain_data(made)["cores"]
    assert data["blocks"]["step"]["python"] == ["p"]
    assert explain_data(made.with_(cores=1))["cores"] is None


def test_what_is_nested_or_happens_at_instants_is_said_to_be_on_one_core() -> None:
    inner = up.Scenario({"m": unit(1)}, inputs={"u": {}}, connections={"m.u": "u"}, outputs={"y": "m.x"})
    ball = up.Ode(
        {"h": "v", "v": "-9.81"},
        start={"h": 1.0},
        outputs=["h"],
        events={"hit": {"when": "h <= 0", "then": {"v": "-0.7*v"}}},
    )
    units = {"car": up.Nested(inner, up.Master(up.Fixed(0.1)), flatten=False), "ball": ball, "a": unit(0)}
    scenario = up.Scenario(units, {"car.u": "a.x", "a.u": "car.y"})
    made = up.experiment(scenario, pace=0.1, until=1.0, cores=3)
    said = up.explain(made, program=False)
    assert f"instants: by one core, because {INSTANTS}" in said
    assert "car: a unit of its own, so all of it is on one core (it was asked to stay nested)" in said
    assert bits(made.run()) == bits(made.with_(cores=1).run())
    # Flattened, its units are shared out like all others, by their own names.
    flat = made.with_(scenario=up.Scenario(units | {"car": up.Nested(inner, up.Master(up.Fixed(0.1)))},
                                           {"car.u": "a.x", "a.u": "car.y"}))  # fmt: skip
    assert "car.m" in up.explain(flat, program=False)


def test_processes_and_python_units_on_several_cores() -> None:
    # Whether to go on waiting for a process is asked in Python, by a thread without its lock.
    units = {"p": counting(), **{f"u{k}": up.Isolated(unit(k)) for k in range(2)}}
    scenario = up.Scenario(units, {"u0.u": "u1.x", "u1.u": "u0.x"})
    one, many = (up.simulate(scenario, pace=0.1, until=0.3, cores=cores) for cores in (1, 3))
    assert bits(one) == bits(many)
