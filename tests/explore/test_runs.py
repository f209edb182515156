"""Chunks of runs in the core: the same numbers, to the bit, as each run by itself."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import upbeat as up
from strategies import experiments
from upbeat.core.ports import Causality, Kind
from upbeat.engine.native import machine as native
from upbeat.explore.outputs import formula
from upbeat.explore.words import described, summary
from upbeat.explore.work import Answers, Group, Status, Work

needs_native = pytest.mark.skipif(not native.available(), reason="the native engine is not built")

MASSES = {
    "upper": up.Ode(
        {"x": "v", "v": "-(2*x + 0.02*v - u)/m - 9.81"},
        start={"x": -0.7, "v": 3.5},
        inputs=["u"],
        parameters={"m": 0.2},
    ),
    "lower": up.Ode(
        {"x": "v", "v": "-(x - u)/m - 9.81"}, start={"x": -8.8}, inputs=["u"], parameters={"m": 0.3}
    ),
}
TWO = up.Scenario(
    units=MASSES,
    connections={"upper.u": "lower.x", "lower.u": "upper.x"},
    events={"hit": {"when": "upper.x - lower.x <= 1.1", "then": {"upper.v": "-upper.v"}}},
)
OUTPUTS = {
    "end": "final(upper.x)",
    "range": "maximum(lower.x) - minimum(lower.x)",
    "mean": "mean(upper.v)",
    "size": "rms(upper.v - lower.v)",
    "up": "integral(upper.v > 0)",
    "late": "last(upper.v > 1)",
    "soon": "first(upper.v < -1)",
    "hits": "count(hit)",
    "first hit": "first(hit)",
    "between": "at(lower.x, 1.234)",
    "scaled": "initial(upper.x)*`upper.m`",
}


def same(one: Answers, other: Answers) -> bool:
    pairs = zip(one, other, strict=True)
    return all(
        a == b if isinstance(a, list) else np.array_equal(a, b, equal_nan=True)
        for name, (a, b) in zip(Answers._fields, pairs, strict=True)
        if name != "seconds"
    )


def two_masses(pace: object = 0.08, **more: object) -> Work:
    made = up.experiment(TWO, pace=pace, until=4.0, **more)  # type: ignore[arg-type]
    samples = {"upper.x": (-0.7, -1.0), "lower.x": (-8.8, -7.0), "upper.m": (0.2, 0.25)}
    grid = tuple(np.linspace(0.0, 4.0, 9).tolist())
    return Work(made, samples, {k: formula(v) for k, v in OUTPUTS.items()}, {}, ("upper.x",), grid, 3)


def drawn(count: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(5)
    return {
        "upper.x": random.uniform(-3.0, -0.7, count),
        "lower.x": random.uniform(-9.0, -5.0, count),
        "upper.m": random.uniform(0.1, 0.4, count),
    }


@needs_native
@pytest.mark.parametrize(
    "pace", [0.08, up.LookAhead(0.08), up.ErrorControl(1e-3)], ids=["fixed", "look_ahead", "error"]
)
def test_a_chunk_in_the_core_has_the_bits_of_single_runs(pace: object) -> None:
    work, columns = two_masses(pace), drawn(25)
    group = Group(work, {})
    assert group.in_core
    assert same(group.run(columns), group._one_by_one(columns, 25))


@needs_native
def test_runs_do_not_know_what_ran_before_them() -> None:
    work, columns = two_masses(up.LookAhead(0.08)), drawn(6)
    forwards = work.run(columns)
    backwards = work.run({key: column[::-1] for key, column in columns.items()})
    assert np.array_equal(forwards.outputs, backwards.outputs[::-1], equal_nan=True)


def test_statistics_are_what_their_names_say() -> None:
    """Against closed forms: x = t² and v = 2t in one unit, which a step of RK4 has without error."""
    fall = up.Scenario({"a": up.Ode({"x": "v", "v": "g"}, parameters={"g": 2.0})})
    made = up.experiment(fall, step=0.5, until=2.0)
    asked = {
        "end": ("final(a.x)", lambda g: 2.0 * g),
        "least": ("minimum(a.x)", lambda g: 0.0),
        "most": ("maximum(a.v)", lambda g: 2.0 * g),
        "mean": ("mean(a.v)", lambda g: g),
        "share": ("integral(a.v >= 0.75*`a.g`)", lambda g: 1.0),  # held from the row at t = 1 on
        "when": ("first(a.v >= 0.75*`a.g`)", lambda g: 1.0),
        "twice": ("2*final(a.x) - initial(a.v)", lambda g: 4.0 * g),
        "early": ("at(a.v, 0.25)", lambda g: 0.25 * g),
    }
    work = Work(made, {"a.g": (2.0, 3.0)}, {name: formula(text) for name, (text, _) in asked.items()}, {})
    found = work.run({"a.g": np.array([2.0, 4.0])})
    for k, (name, (_, value)) in enumerate(asked.items()):
        assert found.outputs[:, k] == pytest.approx([value(2.0), value(4.0)]), name


@needs_native
def test_a_run_that_fails_is_a_row_with_its_reason() -> None:
    grows = up.Scenario({"a": up.Ode({"x": "k*x*x"}, start={"x": 1.0}, parameters={"k": 0.1})})
    made = up.experiment(grows, step=0.1, until=3.0)
    work = Work(made, {"a.k": (0.1, 5.0)}, {"end": formula("final(a.x)")}, {})
    columns = {"a.k": np.array([0.1, 50.0, 0.2, 80.0])}
    found = work.run(columns)
    assert found.status.tolist() == [Status.DONE, Status.FAILED, Status.DONE, Status.FAILED]
    with pytest.raises(up.UnitError) as told:
        made.with_values({"a.k": 50.0}).run()
    assert found.reasons[1] == str(told.value)
    assert found.outputs[[0, 2], 0] == pytest.approx([1 / (1 - 0.3), 1 / (1 - 0.6)], rel=1e-4)
    assert np.isnan(found.outputs[[1, 3], 0]).all()


def test_what_is_written_into_the_program_is_planned_for_each_value() -> None:
    gate = up.Scenario(
        {"a": up.Ode({"x": "1"}, parameters={"limit": 1.0})},
        events={"full": {"when": "a.x >= a.limit", "then": {"a.x": "0"}}},
    )
    made = up.experiment(gate, pace=up.LookAhead(0.5), until=5.25)
    work = Work(
        made,
        {"a.limit": (1.0, 2.0), "a.x": (0.0, 0.5), "master.step": (0.5, 0.25)},
        {"hits": formula("count(full)")},
        {},
    )
    assert set(work.written) == {"a.limit", "master.step"}
    limits, starts = np.array([1.0, 2.0, 1.0, 2.0]), np.array([0.0, 0.0, 0.5, 1.5])
    steps = np.array([0.5, 0.25, 0.25, 0.5])
    found = work.run({"a.limit": limits, "a.x": starts, "master.step": steps})
    assert found.outputs[:, 0].tolist() == [
        math.floor((x + 5.25) / n) for n, x in zip(limits, starts, strict=True)
    ]
    assert found.totals[:, 0].min() >= 5.25 / 0.5


def test_outputs_in_python_and_in_the_core_agree() -> None:
    work = two_masses()
    functions = {
        "end": lambda trace: trace["upper.x"][-1],
        "hits": lambda trace: trace.event_counts.get("hit", 0),
    }
    other = Work(work.experiment, work.samples, {}, functions)
    columns = drawn(5)
    assert other.run(columns).outputs.tolist() == work.run(columns).outputs[:, [0, 7]].tolist()


def test_an_output_that_fails_is_told() -> None:
    made = up.experiment(TWO, pace=0.08, until=1.0)
    work = Work(made, {"upper.x": (-0.7, -1.0)}, {}, {"odd": lambda trace: trace["no such"]})
    found = work.run({"upper.x": np.array([-0.7])})
    assert found.status.tolist() == [Status.FAILED]
    assert "the output 'odd' failed" in found.reasons[0]


@needs_native
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(experiments(), st.data())
def test_random_experiments_give_the_same_in_chunks_and_alone(
    experiment: up.Experiment, data: st.DataObject
) -> None:
    experiment = experiment.with_(engine="auto", cores=1, jit=False)
    scenario = experiment.scenario
    numbers = {
        f"{unit}.{port.name}"
        for unit, model in scenario.units.items()
        for port in model.ports
        if port.causality is Causality.PARAMETER and port.kind is Kind.REAL and port.size is None
    }
    if not numbers:
        return
    keys = data.draw(st.lists(st.sampled_from(sorted(numbers)), min_size=1, max_size=3, unique=True))
    signals = [name for name, one in experiment.plan.program.columns.items() if one.cells == 1 and one.output]
    signals = [
        name
        for name in signals
        if experiment.plan.program.layout.of(experiment.plan.program.columns[name].register).kind
        is not Kind.STRING
    ]
    outputs = {f"o{k}": formula(f"final(`{name}`) + rms(`{name}`)") for k, name in enumerate(signals[:4])}
    if not outputs:
        return
    values = st.floats(-2.0, 2.0).map(lambda value: round(value, 3))
    columns = {key: np.array([data.draw(values) for _ in range(3)]) for key in keys}
    work = Work(experiment, dict.fromkeys(keys, (0.5, 1.5)), outputs, {})
    for rows, chosen in work.grouped(columns, 3):
        group = work.group(chosen)
        if group.in_core:
            part = {key: column[rows] for key, column in columns.items()}
            assert same(group.run(part), group._one_by_one(part, len(rows)))


def test_runs_with_another_step_of_a_solver_are_runs_of_their_own() -> None:
    solver = {"kind": "rk4", "step": "tau/4"}
    lag = up.Ode({"x": "-x/tau"}, start={"x": 1.0}, parameters={"tau": 1.0}, outputs=["x"], solver=solver)
    made = up.experiment(up.Scenario({"lag": lag}), step=0.5, until=2.0)
    taus = [1.0, 0.1]
    found = up.Study(made, vary={"lag.tau": taus}, outputs={"x": "final(lag.x)"}).run()
    # in steps of a quarter of it: the polynomial of Runge and Kutta, so many times
    factor = 1 - 0.25 + 0.25**2 / 2 - 0.25**3 / 6 + 0.25**4 / 24
    assert np.allclose(found["x"], [factor**8, factor**80], rtol=1e-9)


@pytest.mark.parametrize("functions", [{}, {"one": lambda trace: 1.0}])
def test_what_single_runs_warn_of_is_told_of_each_run(functions: dict[str, Any], caplog: Any) -> None:
    """A swing comes back to its height of 1 and grazes 0.9999; a weak one never does."""
    swing = up.Ode({"x": "v", "v": "-k*x"}, start={"x": 1.0}, parameters={"k": 10.0})
    scenario = up.Scenario({"swing": swing}, events={"back": {"when": "swing.x >= 0.9999"}})
    made = up.experiment(scenario, step=0.2, until=3.0)
    study = up.Study(made, {"swing.k": [0.01, 9.0, 10.0]}, {"n": "count(back)", **functions})
    results = study.run("here")
    assert not caplog.records
    assert results.doubtful.tolist() == [False, True, True]
    for run in range(3):
        alone = study.single(run).run()
        assert results["reason"][run] == "; ".join(alone.info.get("warnings", ()))
    assert sum(results.warnings.values()) == 2
    told = summary(results)
    assert told["doubtful"] == 2
    ((warning, count),) = told["warnings"].items()
    assert (warning.startswith("event 'back' grazes its threshold at t = …"), count) == (True, 2)
    assert "2 runs are doubtful" in described(results)
