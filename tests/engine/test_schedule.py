"""Schedules: their flaws are found, and what they are made of is the refined graph."""

from __future__ import annotations

import pytest

import upbeat as up
from upbeat.engine.parallel.heuristic import planned
from upbeat.engine.parallel.operations import Operation, loose, operations, schedule, tasks
from upbeat.engine.schedule import Item, Schedule, flaw
from upbeat.master.dataflow import Flow, dependencies
from upbeat.units import ports

CHAIN = [set(), {0}, {1}]
"""Three instructions, each of which needs the one before it."""


@pytest.mark.parametrize(
    ("cores", "what"),
    [
        (((Item((0, 1)),),), "instruction 2 is never done"),
        (((Item((0, 1, 2)), Item((1,))),), "instruction 1 is done twice"),
        (((Item((0, 1, 2, 3)),),), "there is no instruction 3"),
        (((Item((0, 2, 1)),),), "instruction 2 does not wait for instruction 1"),
        (((Item((0, 1)),), (Item((2,)),)), "instruction 2 does not wait for instruction 1"),
        (
            ((Item((0,)), Item((1,))), (Item((2,), ((0, 0),)),)),
            "instruction 2 does not wait for instruction 1",
        ),
        (((Item((0, 1)),), (Item((2,), ((0, 1),)),)), "waits for item 1 of core 0, which does not exist"),
        (((Item((0,), ((0, 0),)), Item((1, 2))),), "core 0 waits for itself"),
        (((Item((0, 1), ((1, 0),)),), (Item((2,), ((0, 0),)),)), "wait for each other forever"),
        (((Item((0,)), Item((1, 2), loose=True)),), "instruction 1 needs others, and yet any core may do it"),
    ],
)
def test_flaws_are_found(cores: tuple[tuple[Item, ...], ...], what: str) -> None:
    assert what in str(flaw(Schedule(cores), CHAIN))


def test_waits_carry_over_from_core_to_core() -> None:
    # Core 2 knows of instruction 0 through core 1, which has waited for it.
    made = Schedule(((Item((0,)),), (Item((1,), ((0, 0),)),), (Item((2,), ((1, 0),)),)))
    assert flaw(made, [set(), {0}, {0, 1}]) is None
    assert made.crossings == 2
    assert made.awaited == {(0, 0), (1, 0)}


SIX = up.Scenario(
    units={
        "a": up.Ode({"x": "-x"}, outputs={"y": "x", "z": "2*x"}),
        "b": up.Ode({"x": "u - x"}, inputs=["u", "w"], outputs={"y": "x + w"}),
    },
    connections={"b.u": "a.y + 1", "b.w": "a.z"},
)


def named(found: tuple[Operation, ...]) -> dict[str, set[str]]:
    return {op.name: {found[b].name for b in op.before} for op in found}


def test_operations_are_those_of_the_refined_graph() -> None:
    program = up.Master(up.Fixed(0.1)).program(SIX)
    found = operations(program, "step", SIX.units)
    # Inputs are handed on for the step to come, so here the state of a unit comes before its outputs.
    assert named(found) == {
        "state a": set(),
        "state b": set(),
        "out a.y": {"state a"},
        "out a.z": {"state a"},
        "in b.u": {"out a.y", "state b"},
        "in b.w": {"out a.z", "state b"},
        "out b.y": {"in b.w", "state b"},
    }
    assert [op.kind for op in found if op.name.startswith("in")] == ["in", "in"]
    assert {op.units for op in found} == {frozenset("a"), frozenset("b")}


def test_a_unit_for_threads_may_be_on_several_cores() -> None:
    made = ports((), {"y": {}, "z": {}})
    calls = dict.fromkeys(("create", "get", "set", "advance"), 1)  # nobody calls these addresses
    plain, safe = up.NativeUnit(made, calls), up.NativeUnit(made, calls, threads=True)
    for model, makespan in ((plain, 21.0), (safe, 11.0)):
        scenario = up.Scenario(units={"a": model})
        program = up.Master(up.Fixed(0.1)).program(scenario)
        found = operations(program, "step", scenario.units)
        times = {op.name: 1.0 if op.kind == "state" else 10.0 for op in found}
        plan = planned(tasks(found, scenario.units, times), 2)
        assert plan.makespan == makespan


def test_what_any_core_may_do_are_the_states_with_which_a_step_begins() -> None:
    program = up.Master(up.Fixed(0.1)).program(SIX)
    found = operations(program, "step", SIX.units)
    times = {op.name: 1e-5 if op.kind == "state" else 1e-8 for op in found}
    anybody = loose(found, SIX.units, times)
    assert {found[k].name for k in anybody} == {"state a", "state b"}
    assert not loose(found, SIX.units, {name: time / 100 for name, time in times.items()}), "not worth it"
    made = schedule(found, planned(tasks(found, SIX.units, times), 1), 1, anybody)
    assert [item.loose for item in made.cores[0]] == [True, True, False]
    before = dependencies(program.blocks["step"], Flow(program.layout, SIX.units))
    assert flaw(made, before) is None
    # One after the other, each needs the one before it; and a unit in C says nothing of threads.
    in_turn = up.Master(up.Fixed(0.1), up.GaussSeidel(order=["a", "b"])).program(SIX)
    steps = operations(in_turn, "step", SIX.units)
    states = {op.name for op in (steps[k] for k in loose(steps, SIX.units, dict.fromkeys(named(steps), 1.0)))}
    assert states == {"state a"}
    calls = dict.fromkeys(("create", "get", "set", "advance"), 1)
    foreign = up.Scenario(units={"a": up.NativeUnit(ports((), {"y": {}}), calls)})
    steps = operations(up.Master(up.Fixed(0.1)).program(foreign), "step", foreign.units)
    assert not loose(steps, foreign.units, dict.fromkeys(named(steps), 1.0))


def test_what_calls_several_units_is_never_beside_one_of_them() -> None:
    """An algebraic loop is one operation; nothing else may call its units meanwhile."""
    unit = up.Function(inputs=["u"], outputs={"y": "0.5*u + 1", "t": "time"})
    scenario = up.Scenario(units={"a": unit, "b": unit}, connections={"a.u": "b.y", "b.u": "a.y"})
    program = up.Master(up.Fixed(0.1)).program(scenario)
    found = operations(program, "step", scenario.units)
    (loop,) = [k for k, op in enumerate(found) if op.kind == "loop"]
    reach: list[set[int]] = []
    for op in found:
        reach.append(set(op.before).union(*(reach[b] for b in op.before)))
    for k, op in enumerate(found):
        if k != loop and op.units:
            assert k in reach[loop] or loop in reach[k]


def test_python_is_on_one_core() -> None:
    unit = up.PythonUnit(lambda *_: None, ports((), {"y": {}}))
    scenario = up.Scenario(units={"a": unit, "b": unit, "c": up.Ode({"x": "1"}, outputs=["x"])})
    program = up.Master(up.Fixed(0.1)).program(scenario)
    found = operations(program, "step", scenario.units)
    plan = planned(tasks(found, scenario.units, {op.name: 1.0 for op in found}), 3)
    homes = {name: {plan.core[k] for k, op in enumerate(found) if name in op.units} for name in "abc"}
    assert homes["a"] == homes["b"] != homes["c"]
    assert plan.makespan == 4.0
