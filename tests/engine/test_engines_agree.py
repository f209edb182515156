"""Two engines, one meaning: random scenarios give the same trace, or the same error, on both."""

from __future__ import annotations

import dataclasses
import heapq
import random
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import upbeat as up
from shapes import REALS
from strategies import bits, experiments, on_engine, outcome, shared_out
from upbeat.core.abilities import why_fixed
from upbeat.core.expr import evaluate, names
from upbeat.engine.interpret import Interpreter
from upbeat.engine.native import machine as native
from upbeat.engine.parallel.cores import Profile
from upbeat.engine.parallel.heuristic import planned
from upbeat.engine.parallel.operations import loose, operations, schedule, tasks
from upbeat.engine.schedule import Schedule, flaw
from upbeat.master.dataflow import Flow, dependencies

ENGINES = ["interpret", "native"] if native.available() else ["interpret"]
needs_native = pytest.mark.skipif(not native.available(), reason="the native engine is not built")
thorough = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def _values(port: up.Port) -> st.SearchStrategy[object]:
    """A value for a port."""
    one: st.SearchStrategy[object] = {
        up.Kind.REAL: REALS,
        up.Kind.INTEGER: st.sampled_from(port.items) if port.items else st.integers(-3, 3),
        up.Kind.BOOLEAN: st.just(True) if port.event else st.booleans(),
        up.Kind.STRING: st.sampled_from(["", "word", "ä"]),
    }[port.kind]
    return one if port.size is None else st.lists(one, min_size=port.size, max_size=port.size)


@needs_native
@thorough
@given(experiments())
def test_both_engines_give_the_same_trace(experiment: up.Experiment) -> None:
    interpreted, native_too = (
        outcome(experiment.with_(engine=engine, scenario=on_engine(engine, experiment.scenario)))
        for engine in ("interpret", "native")
    )
    assert interpreted == native_too


@needs_native
@thorough
@given(experiments(), st.data())
def test_both_engines_agree_on_inputs_set_by_hand(experiment: up.Experiment, data: st.DataObject) -> None:
    free = {name: port for name, (_, port) in experiment.closed.free_inputs.items()}
    scenario = experiment.plan.scenario
    tunable = {
        name: port
        for name, (unit, port) in scenario.parameters.items()
        if why_fixed(scenario.units[unit], port.name) is None
    }
    free |= tunable
    steps = {}
    for k in range(data.draw(st.integers(0, 3)) if free else 0):
        names = data.draw(st.lists(st.sampled_from(sorted(free)), max_size=3))
        steps[k] = [(name, data.draw(_values(free[name]))) for name in names]
    interpreted, native_too = (
        outcome(experiment.with_(engine=engine, scenario=on_engine(engine, experiment.scenario)), given=steps)
        for engine in ("interpret", "native")
    )
    assert interpreted == native_too


def reordered(block: tuple, flow: Flow, key: Callable[[int], float]) -> tuple:
    """The topological order of `block` that prefers instructions with a small `key(index)`."""
    needed = dependencies(block, flow)
    waiting = [len(before) for before in needed]
    followers: list[list[int]] = [[] for _ in block]
    for index, before in enumerate(needed):
        for other in before:
            followers[other].append(index)
    ready = [(key(i), i) for i, count in enumerate(waiting) if count == 0]
    heapq.heapify(ready)
    order: list = []
    while ready:
        _, index = heapq.heappop(ready)
        order.append(block[index])
        for follower in followers[index]:
            waiting[follower] -= 1
            if waiting[follower] == 0:
                heapq.heappush(ready, (key(follower), follower))
    return tuple(order)


@thorough
@given(experiments(), st.integers(0, 2**32), st.sampled_from(ENGINES))
def test_any_topological_order_of_a_block_gives_the_same_trace(
    experiment: up.Experiment, seed: int, engine: str
) -> None:
    experiment = experiment.with_(engine=engine)
    program = experiment.plan.program
    flow = Flow(program.layout, experiment.plan.scenario.units)
    shuffle = random.Random(seed)

    def mixed(block: tuple) -> tuple:
        keys = [shuffle.random() for _ in block]
        return reordered(block, flow, keys.__getitem__)

    other = dataclasses.replace(
        program,
        start=mixed(program.start),
        steps={name: mixed(block) for name, block in program.steps.items()},
    )
    one, two = outcome(experiment, program), outcome(experiment, other)
    assert bool(one.error) == bool(two.error)
    if not one.error:
        assert one == two


def interleaved(made: Schedule, rng: random.Random) -> list[int]:
    """The instructions in an order in which cores of random speeds would do them."""
    done = [0] * len(made.cores)
    order: list[int] = []
    while any(done[core] < len(items) for core, items in enumerate(made.cores)):
        able = [
            core
            for core, items in enumerate(made.cores)
            if done[core] < len(items) and all(done[other] > at for other, at in items[done[core]].waits)
        ]
        core = rng.choice(able)  # an empty list would be a deadlock
        order += made.cores[core][done[core]].instructions
        done[core] += 1
    return order


@thorough
@given(experiments(), st.integers(0, 2**32), st.integers(1, 5), st.sampled_from(ENGINES))
def test_cores_of_any_speed_give_the_same_trace(
    experiment: up.Experiment, seed: int, cores: int, engine: str
) -> None:
    experiment = experiment.with_(engine=engine)
    program, models, rng = experiment.plan.program, experiment.plan.scenario.units, random.Random(seed)
    flow, steps = Flow(program.layout, models), {}
    for name, block in program.steps.items():
        found = operations(program, name, models)
        times = {operation.name: rng.expovariate(1.0) for operation in found}
        anybody = loose(found, models, times)
        plan = planned(tasks(found, models, times), cores)
        made = schedule(found, plan, cores, anybody, rng.choice((0.0, 0.5, 2.0)))
        assert flaw(made, dependencies(block, flow)) is None
        homes: dict[str, set[int]] = {}
        for core, items in enumerate(made.cores):
            for item in items:
                for i in item.instructions:
                    if unit := getattr(block[i], "unit", None):
                        homes.setdefault(unit, set()).add(core)
        assert all(len(found) == 1 for found in homes.values())
        steps[name] = tuple(block[i] for i in interleaved(made, rng))
    one = outcome(experiment, program)
    two = outcome(experiment, dataclasses.replace(program, steps=steps))
    assert bool(one.error) == bool(two.error)
    if not one.error:
        assert one == two


@needs_native
@thorough
@given(experiments(), st.integers(0, 2**32), st.integers(2, 4))
def test_threads_give_the_same_trace(experiment: up.Experiment, seed: int, cores: int) -> None:
    experiment = experiment.with_(engine="native", scenario=on_engine("native", experiment.scenario))
    program, models, rng = experiment.plan.program, experiment.plan.scenario.units, random.Random(seed)
    flow = Flow(program.layout, models)
    times = {
        name: {operation.name: rng.expovariate(1.0) for operation in operations(program, name, models)}
        for name in program.steps
    }
    schedules = shared_out(program, models, cores, Profile(times, 1, "native"))
    for name, made in schedules.items():
        assert flaw(made, dependencies(program.steps[name], flow)) is None
    one, two = outcome(experiment, program), outcome(experiment, program, schedules=schedules)
    assert (one.columns, one.steps, one.events) == (two.columns, two.steps, two.events)
    assert bool(one.error) == bool(two.error)  # of several units that fail in one step, one is told of


@pytest.mark.parametrize("engine", ENGINES)
@thorough
@given(experiment=experiments(), before=st.integers(0, 2), after=st.integers(1, 2))
def test_save_and_restore_is_the_identity(
    engine: str, experiment: up.Experiment, before: int, after: int
) -> None:
    """Steps done again after a restore end where they ended the first time."""
    closed, program, start = experiment.plan.scenario, experiment.plan.program, experiment.span.start
    build = Interpreter if engine == "interpret" else native.machine
    try:
        machine = build(program, closed.units, start)
    except up.RunError:
        return  # a nested one that cannot even start
    size = 0.1

    def step(k: int) -> None:
        machine.write(program.now, start + k * size)
        machine.write(program.next, start + (k + 1) * size)
        machine.execute("step")

    def cells() -> list[object]:
        return [bits(machine.read(i)) for i in range(program.layout.cells)]

    try:
        machine.write(program.now, start)
        machine.write(program.next, start)
        machine.execute("start")
        for k in range(before):
            step(k)
        saved = cells()
        token = machine.save()
        for k in range(before, before + after):
            step(k)
        first = cells()
        machine.restore(token)
        assert cells() == saved
        for k in range(before, before + after):
            step(k)
        assert cells() == first
    except up.RunError:
        pass  # no convergence, or no finite number: that both engines say so is tested above
    finally:
        machine.close()


@thorough
@given(experiments(), st.sampled_from(ENGINES))
def test_recorded_inputs_are_what_the_connections_say(experiment: up.Experiment, engine: str) -> None:
    """At every communication point a solved input equals its expression over the outputs of that point."""
    coupling = getattr(experiment.master.coupling, "coupling", experiment.master.coupling)
    if getattr(coupling, "outputs", "solved") != "solved" or experiment.closed.graph.loops:
        return  # late on purpose, or to the tolerance of an iteration
    closed = experiment.closed
    try:
        trace = experiment.with_(engine=engine, every=1).run()
    except up.RunError:
        return  # a formula left the finite numbers
    ports = {(unit, port.name): port for unit, model in closed.units.items() for port in model.ports}
    for connection in closed.connections:
        ends = ((connection.unit, connection.port), *connection.sources)
        if any(end in ports and ports[end].internal for end in ends):
            continue  # conditions that are functions: no trace shows them
        for i, cell in enumerate(connection.cells):
            size = closed.port(connection.target).size
            target = trace[
                closed.column(connection.unit, connection.port) + ("" if size is None else f"[{i}]")
            ]
            sources = {name: trace[closed.column(*name.split(".", 1))] for name in names(cell)}
            if any(values.dtype == object for values in sources.values()):
                continue
            for k in range(len(trace)):
                expected = evaluate(cell, {name: float(values[k]) for name, values in sources.items()})
                assert float(target[k]) == expected
