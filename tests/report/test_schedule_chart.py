"""Time charts: the numbers are those of times given by hand, and the limit that is named is the real one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

import upbeat as up
from upbeat.engine.parallel.cores import Profile
from upbeat.report.chart import draw
from upbeat.report.schedule import Chart, chart_data, chart_text, charts
from upbeat.units import ports

MS = 1e-3
CROSSING = 2e-7


def unit(**more: object) -> up.Ode:
    return up.Ode({"x": "-x"}, inputs=["u"], outputs={"y": "x"}, **more)  # type: ignore[arg-type]


def chart(
    units: Mapping[str, object],
    connections: Mapping[str, str],
    cores: int,
    states: Mapping[str, float],
    rest: float = 0.0,
) -> Chart:
    """The step of a scenario in which the states take so long, and all else takes `rest`."""
    scenario = up.Scenario(units=units, connections=connections)  # type: ignore[arg-type]
    experiment = up.experiment(scenario, pace=0.1, until=1.0)
    names = [f"state {name}" for name in units]
    times = {name: states[name.removeprefix("state ")] for name in names}
    times |= {f"out {name}.y": rest for name in units} | {f"in {name}": rest for name in connections}
    (made,) = charts(experiment, cores, Profile({"step": times}, 1, "native", 0.0, CROSSING))
    return made


def test_two_equal_units_are_twice_as_fast_on_two_cores() -> None:
    made = chart({"a": unit(), "b": unit()}, {"a.u": "b.y"}, 2, {"a": MS, "b": MS})
    data = chart_data(made)
    assert data["one_core_us"] == pytest.approx(2000.0)
    assert data["makespan_us"] == pytest.approx(1000.0)
    assert data["speedup"] == pytest.approx(2.0)
    # One edge crosses, and the step itself begins and ends: three waits in a row.
    assert data["waits"] == 1
    assert data["predicted_speedup"] == pytest.approx(2 * MS / (MS + 3 * CROSSING))
    assert [op["core"] for op in data["operations"] if op["kind"] == "state"] in ([0, 1], [1, 0])
    assert "block 'step': 5 operations on 2 cores" in chart_text(made)
    assert "2.00 × as fast" in chart_text(made)


def test_three_units_on_two_cores_are_limited_by_one_of_them() -> None:
    made = chart({"a": unit(), "b": unit(), "c": unit()}, {}, 2, {"a": 3 * MS, "b": MS, "c": MS})
    assert made.parallel.plan.makespan == pytest.approx(3 * MS)
    assert made.parallel.bounds.best == pytest.approx(3 * MS)
    assert made.limit == "the critical path: no number of cores is faster than that. 100 % of it is 'state a'"
    assert made.parallel.operations[made.parallel.critical[0]].name == "state a"


def test_a_heavy_unit_is_named() -> None:
    """Its outputs could be read side by side, if it allowed that."""
    model = up.Ode({"x": "-x"}, outputs={"y": "x", "z": "2*x", "w": "3*x"})
    scenario = up.Scenario(units={"big": model, "small": unit()})
    times = {"state big": MS, "state small": MS, "out small.y": 0.0}
    times |= {f"out big.{port}": MS for port in "yzw"}
    (made,) = charts(up.experiment(scenario, pace=0.1, until=1.0), 4, Profile({"step": times}, 1, "native"))
    assert made.parallel.plan.makespan == pytest.approx(4 * MS)
    assert made.limit.startswith("the unit 'big', which takes 4 ms of 5 ms")


def test_cores_that_are_all_busy_are_the_limit() -> None:
    names = [f"u{k}" for k in range(8)]
    made = chart({name: unit() for name in names}, {}, 4, dict.fromkeys(names, MS))
    assert made.bound == pytest.approx(4.0)
    assert made.limit.startswith("the number of cores")


def test_waiting_may_cost_more_than_it_gains() -> None:
    made = chart({"a": unit(), "b": unit()}, {"a.u": "b.y"}, 2, {"a": 1e-8, "b": 1e-8})
    assert made.predicted < 1
    assert made.limit.endswith("One core is faster")


def test_python_is_explained_as_the_bottleneck() -> None:
    slow = up.PythonUnit(lambda *_: None, ports((), {"y": {}}))
    made = chart({"a": slow, "b": slow, "c": unit()}, {}, 3, {"a": MS, "b": MS, "c": MS})
    assert made.parallel.plan.makespan == pytest.approx(2 * MS)
    assert made.limit.startswith(
        "Python, which does one thing at a time: a, b run in it and take 2 ms of 3 ms"
    )


def test_python_is_the_bottleneck_even_where_one_core_is_faster() -> None:
    slow = up.PythonUnit(lambda *_: None, ports(("u",), {"y": {}}))
    made = chart({"a": slow, "c": unit()}, {"c.u": "a.y", "a.u": "c.y"}, 2, {"a": 1e-5, "c": 1e-7})
    assert made.predicted < 1
    assert made.limit.startswith("Python, which does one thing at a time: a run in it and take 10 µs of 10.1")
    assert made.limit.endswith("With what waiting costs, one core is faster")


def test_one_core_is_one_core() -> None:
    made = chart({"a": unit()}, {}, 1, {"a": MS})
    assert (made.limit, made.predicted) == ("there is one core", 1.0)


@pytest.mark.parametrize("cores", [0, -1, 1.5, True, 100_000])
def test_wrong_numbers_of_cores(cores: int) -> None:
    with pytest.raises(up.InvalidInput, match="whole number from 1 to 1024"):
        chart({"a": unit()}, {}, cores, {"a": MS})


def test_what_happens_at_instants_counts_and_is_done_by_one_core() -> None:
    made = chart({"a": unit(), "b": unit()}, {}, 2, {"a": MS, "b": MS})
    more = replace(made, instants=MS)
    # 1 ms of 3 is not shared out, so two cores are less than twice as fast (Amdahl).
    assert more.predicted == pytest.approx(3 / (2 + 2 * CROSSING / MS))
    assert more.bound == pytest.approx(1.5)
    assert "at instants    1 ms of that, by one core" in chart_text(more)
    assert chart_data(more)["instants_us"] == pytest.approx(1000.0)
    most = replace(made, instants=2 * MS)
    assert most.limit.startswith("what happens at instants is one chain")


def test_without_threads_to_measure_it_with_waits_are_not_counted() -> None:
    made = replace(chart({"a": unit(), "b": unit()}, {"a.u": "b.y"}, 2, {"a": MS, "b": MS}), crossing=None)
    assert made.predicted == pytest.approx(2.0)
    assert "which is not measured" in chart_text(made)
    assert chart_data(made)["wait_us"] is None


def test_one_unit_has_nothing_for_a_second_core() -> None:
    made = chart({"a": unit()}, {}, 2, {"a": MS})
    assert made.limit == "there is nothing for a second core to do: a"


def test_a_line_for_every_core() -> None:
    made = chart({"a": unit(), "b": unit()}, {}, 3, {"a": MS, "b": MS / 2})
    lines = [line for line in chart_text(made).splitlines() if line.startswith("  core ")]
    assert [line.count("█") for line in lines] == [72, 36, 0]


def test_the_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    names = ["left", "right"]
    made = chart({n: unit() for n in names}, {"left.u": "right.y"}, 2, dict.fromkeys(names, MS), MS / 50)
    figure = draw([made], tmp_path / "it.png", "two units")
    assert (tmp_path / "it.png").stat().st_size > 5000
    whole, zoomed = figure.axes
    assert whole.get_xlim()[1] == pytest.approx(1e6 * made.parallel.plan.makespan)
    assert zoomed.get_xlim()[0] > 0, "a second panel shows the exchange"
    assert {text.get_text() for text in whole.texts} == set(names)
    with pytest.raises(up.FileProblem, match="suffix"):
        draw([made], tmp_path / "it.txt")


def test_the_critical_path_names_what_takes_most_of_it() -> None:
    """Two in a row, one of them in Python, beside two that take nearly as long together."""
    slow = up.PythonUnit(lambda *_: None, ports(("u",), {"y": {"depends": []}}))
    units = {"a": unit(), "slow": slow, "c": unit()}
    scenario = up.Scenario(units=units, connections={"slow.u": "a.y"})
    experiment = up.experiment(scenario, coupling=up.GaussSeidel(["a", "slow", "c"]), pace=0.1, until=1.0)
    states = {"state a": MS, "state slow": 3 * MS, "state c": MS}
    times = dict.fromkeys(["out a.y", "out slow.y", "out c.y", "in slow.u"], 0.0) | states
    (made,) = charts(experiment, 2, Profile({"step": times}, 1, "native", 0.0, CROSSING))
    assert made.parallel.plan.core[_number(made, "state slow")] == 0  # with the thread that calls
    assert "critical path: no number of cores is faster than that. 75 % of it is 'state slow'" in made.limit
    assert made.limit.endswith("and slow runs in Python: as equations or in C it may be faster")


def _number(made: Chart, name: str) -> int:
    return [operation.name for operation in made.parallel.operations].index(name)


def test_idle_cores_take_one_line(tmp_path: Path) -> None:
    made = chart({"a": unit(), "b": unit()}, {"a.u": "b.y"}, 1000, {"a": MS, "b": MS})
    lines = chart_text(made).splitlines()
    assert sum(line.startswith("  core ") for line in lines) == 2
    assert "  cores 2 to 999 have nothing to do" in lines
    drawn = draw([made], tmp_path / "it.png")
    assert drawn.get_size_inches()[1] < 5
    assert "1000 cores (998 of them idle)" in drawn.axes[0].get_title(loc="left")
    few = chart({"a": unit(), "b": unit()}, {"a.u": "b.y"}, 3, {"a": MS, "b": MS})
    assert "  core 2 has nothing to do" in chart_text(few).splitlines()
