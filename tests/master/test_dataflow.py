"""Data flow: what a step carries over, and which orders it allows."""

from __future__ import annotations

import upbeat as up
from upbeat.master.dataflow import Flow, carried, dependencies
from upbeat.master.program import Advance, Get, Program, Set, Slope

MASS = up.Ode(states={"x": "v", "v": "F - x"}, inputs=["F"], outputs=["x"])
SPRING = up.Function(inputs=["x"], outputs={"F": "-x"})


def build(**settings: object) -> tuple[Program, up.Scenario]:
    scenario = up.Scenario(
        units={"mass": MASS, "spring": SPRING}, connections={"mass.F": "2*spring.F", "spring.x": "mass.x"}
    )
    return up.Master(pace=up.Fixed(0.1), **settings).program(scenario), scenario  # type: ignore[arg-type]


def test_a_held_solved_jacobi_step_carries_nothing_but_the_units() -> None:
    program, scenario = build()
    assert carried(program, scenario.units) == ()


def test_a_linear_history_is_carried_without_being_listed_anywhere() -> None:
    program, scenario = build(ports={"mass.F": up.Linear()})
    names = {program.layout.of(register).name for register in carried(program, scenario.units)}
    assert names >= {"mass.F′usual", "mass.F′u0", "mass.F′t0", "mass.F′u1", "mass.F′t1"}


def test_what_must_come_first_and_what_need_not() -> None:
    program, scenario = build()
    block = program.steps["step"]
    needed = dependencies(block, Flow(program.layout, scenario.units))
    place = {type(i).__name__ + getattr(i, "unit", ""): k for k, i in enumerate(block)}
    assert place["Advancemass"] in needed[place["Getmass"]]
    assert place["Setspring"] in needed[place["Getspring"]], "F depends directly on x"
    assert needed[place["Advancemass"]] == needed[place["Advancespring"]] == set()
    kinds = [type(i) for i in block]
    assert kinds.count(Advance) == kinds.count(Get) == kinds.count(Set) == 2


def test_slopes_read_what_their_output_depends_on() -> None:
    """Two tears share one register: each Set reads its own cell only, and nothing beyond."""
    a = up.Function(inputs={"u": 1.0, "w": 0.5, "far": 0.0}, outputs={"y": "cos(u) + w", "z": "u*w + far"})
    links = {"a.u": "a.z", "a.w": "2*a.y"}
    scenario = up.Scenario(units={"a": a}, connections=links)
    program = up.Master(pace=up.Fixed(0.1)).program(scenario)
    flow = Flow(program.layout, scenario.units)
    slopes = [i for i in program.instructions() if isinstance(i, Slope)]
    assert {(i.output, i.input) for i in slopes} == {("y", "u"), ("y", "w"), ("z", "u"), ("z", "w")}
    for slope in slopes:
        direct = {("state", "a"), ("input", "a", "u"), ("input", "a", "w")}
        more = {("input", "a", "far")} if slope.output == "z" else set()
        assert flow.effects(slope).reads == direct | more
        assert flow.effects(slope).writes == {("cell", slope.to)}
    for instruction in program.instructions():
        if isinstance(instruction, Set):
            assert flow.effects(instruction).reads == {("state", "a"), ("cell", instruction.by[0])}
