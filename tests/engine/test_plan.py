"""One plan for all who look at an experiment or run it, and for runs with other values."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import upbeat as up
from strategies import experiments, on_engine
from upbeat.core.ports import Causality, Kind
from upbeat.engine.run import _WATCH
from upbeat.master.master import Master

ENGINES = ("native", "interpret")


def decay(rate: float = 1.0) -> up.Ode:
    return up.Ode(states={"x": {"der": "-k*x", "start": 2.0}}, outputs={"x": "x"}, parameters={"k": rate})


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[Master]:
    """The masters that have written a program."""
    seen: list[Master] = []
    write = Master.written

    def noted(master: Master, *arguments: Any, **more: Any) -> Any:
        seen.append(master)
        return write(master, *arguments, **more)

    monkeypatch.setattr(Master, "written", noted)
    return seen


@pytest.mark.parametrize("engine", ENGINES)
def test_values_that_the_program_does_not_know_are_run_without_another_program(
    engine: Any, written: list[Master]
) -> None:
    made = up.experiment(up.Scenario({"a": decay()}), step=0.1, until=1.0, engine=engine)
    made.run()
    for k in (0.5, 2.0, 3.0):
        trace = made.with_values({"a.k": k, "a.x": 3.0}).run()
        assert trace["a.x"][-1] == pytest.approx(3.0 * math.exp(-k), rel=1e-3)
    assert made.run()["a.x"][-1] == pytest.approx(2.0 * math.exp(-1.0), rel=1e-4)  # and is what it was
    assert len(written) == 1


@pytest.mark.parametrize("jumps", [False, True])
def test_units_enter_the_core_once_for_all_values(jumps: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    lowered: list[Any] = []
    lower = up.Ode.lower
    monkeypatch.setattr(up.Ode, "lower", lambda *about: lowered.append(about) or lower(*about))
    events = {"low": {"when": "x <= level", "then": {"x": "2*x"}}} if jumps else None
    unit = up.Ode(
        {"x": "k*u - x"},
        start={"x": 2.0},
        inputs={"u": 1.0},
        parameters={"k": 0.5, "level": 0.9},
        events=events,
    )
    made = up.experiment(up.Scenario({"a": unit, "b": unit}), step=0.1, until=1.0, engine="native")
    for k in (-1.0, 0.25, 1.0):
        values = {"a.k": k, "b.x": 1.0 + k, "b.level": k}
        again = up.experiment(
            up.Scenario({"a": unit.with_values({"k": k}), "b": unit.with_values({"x": 1.0 + k, "level": k})}),
            step=0.1,
            until=1.0,
            engine="interpret",
        )
        mine, fresh = made.with_values(values).run(), again.run()
        assert all((mine[name] == fresh[name]).all() for name in ("time", "a.x", "b.x"))
    assert len(lowered) == 1  # by whoever came first: both units have the same equations


@pytest.mark.parametrize("engine", ENGINES)
def test_a_parameter_that_a_condition_reads_is_planned_again(engine: Any) -> None:
    scenario = up.Scenario(
        {"a": up.Ode(states={"x": "1.0"}, outputs={"x": "x"}, parameters={"limit": 0.25})},
        events={"full": {"when": "a.x >= a.limit", "then": {"a.x": "0.0"}}},
    )
    made = up.experiment(scenario, step=0.1, until=1.2, engine=engine, events="auto")
    assert made.run().events.times("full") == pytest.approx([0.25, 0.5, 0.75, 1.0], abs=1e-5)
    assert made.with_values({"a.limit": 0.5}).run().events.times("full") == pytest.approx(
        [0.5, 1.0], abs=1e-5
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_start_values_of_inputs_are_planned_again(engine: Any) -> None:
    unit = up.Ode(states={"x": "u"}, inputs=["u"], outputs={"x": "x"})
    scenario = up.Scenario({"a": unit}, {"a.u": "2*push"}, inputs={"push": {"start": 1.0}})
    made = up.experiment(scenario, step=0.1, until=1.0, engine=engine)
    assert made.run()["a.x"][-1] == pytest.approx(2.0)
    assert made.with_values({"push": 3.0}).run()["a.x"][-1] == pytest.approx(6.0)


@pytest.mark.parametrize("flatten", [True, False])
def test_values_inside_a_nested_scenario(flatten: bool) -> None:
    inner = up.Scenario({"a": decay()}, outputs={"x": "a.x"})
    nest = up.Nested(inner, up.Master(up.Fixed(0.1)))
    made = up.experiment(up.Scenario({"nest": nest}), step=0.1, until=1.0, flatten=flatten)
    made.run()
    trace = made.with_values({"nest.a.k": 3.0}).run()
    assert trace["nest.x"][-1] == pytest.approx(2.0 * math.exp(-3.0), rel=1e-2)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("how", [{"pace": up.LookAhead(0.1)}, {"step": 0.1}, {"pace": up.Revised(0.1)}])
def test_a_parameter_that_a_state_machine_waits_for_is_planned_again(engine: Any, how: Any) -> None:
    machine = up.StateMachine(
        inputs={"T": 0.0}, parameters={"limit": 0.53}, states=["low", "high"], initial="low",
        transitions=[{"from": "low", "to": "high", "when": "T >= limit", "emit": {"full": True}}],
        outputs={"full": {"event": True}},
    )  # fmt: skip
    tank = up.Ode(states={"T": "1.0"}, outputs={"T": "T"})
    scenario = up.Scenario({"tank": tank, "m": machine}, {"m.T": "tank.T"}, outputs={"full": "m.full"})
    made = up.experiment(scenario, until=1.0, engine=engine, **how)
    assert made.run().events.times("m.full") == pytest.approx([0.53], abs=1e-4)
    again = made.with_values({"m.limit": 0.27})
    assert again.run().events.times("m.full") == pytest.approx([0.27], abs=1e-4)


def test_values_can_be_changed_again() -> None:
    made = up.experiment(up.Scenario({"a": decay()}), step=0.1, until=1.0)
    found = made.with_values({"a.k": 2.0}).with_(every=2).with_values({"a.x": 3.0}).run()
    assert found["a.x"][-1] == pytest.approx(3.0 * math.exp(-2.0), rel=1e-3)


def test_an_order_that_was_measured_is_measured_again() -> None:
    units = {name: decay(k) for name, k in (("a", 0.1), ("b", 3.0))}
    made = up.experiment(up.Scenario(units), step=0.1, until=1.0, coupling=up.Refined("sv"))
    assert made.plan.measured
    assert made.with_values({"a.k": 9.0}).plan.master != made.plan.master


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_does_not_look_at_the_runs_of_its_parent() -> None:
    made = up.experiment(up.Scenario({"a": decay()}), step=0.1, until=1.0)
    found: list[int] = []

    def report(_: float) -> None:
        child = os.fork()
        if child == 0:
            os._exit(len(_WATCH._runs))
        found.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks in processes with threads
        made.run(report)
    assert set(found) == {0}


def test_a_value_that_does_not_exist_is_named() -> None:
    made = up.experiment(up.Scenario({"a": decay()}), step=0.1, until=1.0)
    with pytest.raises(up.ScenarioError, match=r"'a'.*kk"):
        made.with_values({"a.kk": 1.0})
    with pytest.raises(up.ScenarioError, match="there is no unit 'b'"):
        made.with_values({"b.k": 1.0})
    with pytest.raises(up.InvalidInput, match="values"):
        made.with_values([("a.k", 1.0)])  # type: ignore[arg-type]


def test_what_does_not_change_the_plan_keeps_it(written: list[Master], tmp_path: Any) -> None:
    made = up.experiment(up.Scenario({"a": decay()}), step=0.1, until=1.0)
    plan = made.plan
    assert made.with_(out=tmp_path / "a.csv", every=2, record=("a.x",)).plan is plan
    assert made.with_(engine="interpret").plan is plan
    assert made.with_(engine="interpret").choice.name == "interpret"
    assert made.with_(master=up.Master(up.Fixed(0.2))).plan is not plan
    assert len(written) == 2


def test_a_file_is_planned_once(written: list[Master], tmp_path: Any) -> None:
    file = tmp_path / "a.toml"
    file.write_text('units.a.states = { x = "-x" }\nmaster.step = 0.1\nrun.until = 1.0\n')
    up.load(file).run()
    assert len(written) == 1


def _values(data: st.DataObject, scenario: up.Scenario) -> dict[str, float]:
    """Other values for some of the real parameters of a scenario."""
    ports = [
        (name, port)
        for name, (_, port) in scenario.parameters.items()
        if port.kind is Kind.REAL and port.size is None and port.causality is Causality.PARAMETER
    ]
    chosen = data.draw(st.lists(st.sampled_from(ports), max_size=2)) if ports else []
    return {name: float(port.initial[0]) * data.draw(st.sampled_from([0.5, 1.25])) for name, port in chosen}


def _rows(made: up.Experiment) -> Mapping[str, list[Any]] | str:
    try:
        trace = made.run()
    except up.RunError as error:
        return str(error)
    return {"time": list(trace.time), **{name: [repr(v) for v in trace[name]] for name in trace.names}}


@settings(deadline=None, max_examples=15)
@given(st.data())
def test_other_values_mean_the_same_as_a_scenario_that_has_them(data: st.DataObject) -> None:
    drawn = data.draw(experiments())
    values = _values(data, drawn.scenario)
    for engine in ENGINES:
        made = drawn.with_(scenario=on_engine(engine, drawn.scenario), engine=engine)
        assert made.plan
        assert _rows(made.with_values(values)) == _rows(
            made.with_(scenario=made.scenario.with_values(values))
        )


def test_a_failure_while_outputs_are_looked_at_is_one_of_the_run() -> None:
    loop = up.Scenario(
        {
            "f": up.Function(inputs=["u"], outputs={"y": "u*u + 1"}),  # u = u² + 1 has no solution
            "g": up.Function(inputs=["u"], outputs={"y": "u"}),
        },
        {"f.u": "g.y", "g.u": "f.y"},
        outputs={"y": "f.y"},
    )
    inner = up.Nested(loop, up.Master(up.Fixed(0.1)))
    rest = up.Ode({"x": "u - x"}, inputs=["u"])
    scenario = up.Scenario({"inner": inner, "rest": rest}, {"rest.u": "inner.y"})
    made = up.experiment(scenario, coupling=up.Refined("sv"), step=0.1, until=1.0)
    assert made.plan.program.instructions()
    with pytest.raises(up.StepError, match="inside 'inner'") as failure:
        made.run()
    assert failure.value.trace is not None
