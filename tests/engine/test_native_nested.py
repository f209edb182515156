"""Nested scenarios that stay nested: inside the native core they mean what they mean on the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import upbeat as up
from strategies import on_engine
from upbeat.engine.interpret import Interpreter
from upbeat.engine.native import machine as native

pytestmark = pytest.mark.skipif(not native.available(), reason="there is no native engine")

ENGINES: tuple[Any, ...] = ("interpret", "native")
H = 0.05
MASS = up.Ode(states={"x": "v", "v": "F - x"}, start={"x": 1.0}, inputs=["F"], outputs=["x", "v"])
GAIN = up.Function(inputs=["u"], outputs={"y": "0.3*u + 0.1"})


def nest(scenario: up.Scenario, step: float = H, pace: Any = None, **master: Any) -> up.Nested:
    return up.Nested(scenario, up.Master(pace or up.Fixed(step), **master), flatten=False)


def inner() -> up.Scenario:
    return up.Scenario(
        units={"mass": MASS, "gain": GAIN},
        connections={"mass.F": "load - gain.y", "gain.u": "mass.v + 0.1*load"},
        inputs={"load": 0.2},
        outputs={"x": "mass.x", "v": "mass.v", "direct": "gain.y"},
    )


def around(model: up.Nested) -> up.Scenario:
    """A nest in a nest that a unit outside drives and follows, with a loop through what depends directly."""
    middle = up.Scenario(
        units={"in": model, "gain": GAIN},
        connections={"in.load": "push + 0.2*gain.y", "gain.u": "in.x"},
        inputs={"push": 0.1},
        outputs={"x": "in.x", "direct": "in.direct + 0.5*push"},
    )
    return up.Scenario(
        units={"car": nest(middle, H), "damper": MASS, "gain": GAIN},
        connections={"car.push": "damper.x + 0.1*gain.y", "damper.F": "-0.4*car.x", "gain.u": "car.direct"},
    )


def same(scenario: up.Scenario, **how: Any) -> tuple[up.Trace, up.Trace]:
    how = {"pace": H, "until": 1.0, **how}
    traces = [up.simulate(on_engine(e, scenario), engine=e, **how) for e in ENGINES]
    for name in traces[0].names:
        np.testing.assert_array_equal(traces[0][name], traces[1][name], err_msg=name)
    np.testing.assert_array_equal(traces[0].time, traces[1].time)
    return traces[0], traces[1]


@pytest.mark.parametrize("coupling", [up.Jacobi(), up.GaussSeidel(), up.Iterated(tolerance=1e-9)], ids=str)
@pytest.mark.parametrize("inputs", [up.Hold(), up.Linear()], ids=str)
@pytest.mark.parametrize("step", [H, H / 4, 0.03])
def test_both_engines_agree(coupling: Any, inputs: Any, step: float) -> None:
    model = nest(inner(), step, coupling=coupling, inputs=inputs)
    assert up.Ability.NATIVE in model.abilities
    same(around(model), coupling=coupling, inputs=inputs)


@pytest.mark.parametrize("method", ["richardson", "milne"])
def test_error_control_inside(method: Any) -> None:
    """Its steps are rejected and repeated inside, and set back from outside."""
    model = nest(inner(), pace=up.ErrorControl(tolerance=1e-4, method=method, per="step"), inputs=up.Linear())
    assert up.Ability.NATIVE in model.abilities
    same(around(model))
    same(around(model), coupling=up.Iterated(corrections=2))


def test_error_control_outside_sets_the_nest_back() -> None:
    same(around(nest(inner(), 0.01)), pace=up.ErrorControl(tolerance=1e-3))


def test_machine_code_reaches_the_inside() -> None:
    pytest.importorskip("numba")
    plain = up.simulate(around(nest(inner())), pace=H, until=1.0, engine="native")
    compiled = up.simulate(around(nest(inner())), pace=H, until=1.0, engine="native", jit=True)
    np.testing.assert_allclose(compiled["car.x"], plain["car.x"], rtol=1e-12)


def test_arrays_and_other_kinds_of_ports() -> None:
    unit = up.Function(
        inputs={"a": {"size": 2}, "n": {"kind": "integer"}, "b": {"kind": "boolean"}},
        outputs={
            "s": {"value": ["a[1] + n", "2*a[0]"]},
            "m": {"value": "n + 1", "kind": "integer"},
            "c": {"value": "not b", "kind": "boolean"},
        },
    )
    scenario = up.Scenario(
        units={"f": unit},
        connections={"f.a": "a", "f.n": "n", "f.b": "b"},
        inputs={"a": {"size": 2}, "n": {"kind": "integer"}, "b": {"kind": "boolean"}},
        outputs={"s": "f.s", "m": "f.m", "c": "f.c"},
    )
    clock = up.Function(
        outputs={
            "a": {"value": ["time", "time*time"]},
            "n": {"value": "round(3*time)", "kind": "integer"},
            "b": {"value": "time > 0.5", "kind": "boolean"},
        }
    )
    outer = up.Scenario(
        units={"clock": clock, "nest": nest(scenario)},
        connections={"nest.a": "clock.a", "nest.n": "clock.n", "nest.b": "clock.b"},
    )
    _, trace = same(outer)
    np.testing.assert_array_equal(trace["nest.s[1]"], 2 * trace.time)
    np.testing.assert_array_equal(trace["nest.c"], trace.time <= 0.5)


def failing(scenario: up.Scenario, kind: type[up.RunError]) -> str:
    """What both engines say, outside and inside."""
    texts = set()
    for outer in ENGINES:
        for inside in ENGINES:
            with pytest.raises(kind) as caught:
                up.simulate(on_engine(inside, scenario), pace=0.5, until=50.0, engine=outer)
            texts.add(str(caught.value))
    assert len(texts) == 1
    return texts.pop()


BLOW = up.Ode(states={"x": "x*x"}, start={"x": 1.0}, solver=up.Euler())


def boxed(scenario: up.Scenario, levels: int = 2, **master: Any) -> up.Scenario:
    """So many boxes around it."""
    for _ in range(levels):
        scenario = up.Scenario(units={"box": nest(scenario, 0.5, **master)}, outputs={"x": "box.x"})
    return scenario


def test_a_unit_that_fails_inside() -> None:
    scenario = boxed(up.Scenario(units={"blow": BLOW}, outputs={"x": "blow.x"}))
    text = failing(scenario, up.UnitError)
    assert "unit 'box.box.blow' failed in get('x') at t = " in text


def test_a_unit_that_fails_inside_what_was_flattened_inside() -> None:
    """The innermost nest is flattened in the middle one, which stays: people know neither."""
    inside = up.Scenario(units={"blow": BLOW}, outputs={"x": "blow.x"})
    flat = up.Nested(inside, up.Master(up.Fixed(0.5)))
    middle = up.Scenario(units={"in": flat}, outputs={"x": "in.x"})
    outer = up.Scenario(units={"box": nest(middle, 0.5)})
    text = failing(outer, up.UnitError)
    assert "unit 'box.in.blow' failed in get('x')" in text


def test_a_loop_without_solution_inside() -> None:
    """At t = 2 the loop x = x + 1 appears."""
    loop = up.Function(inputs=["u"], outputs={"x": "(0.5 if time < 2 else 1)*u + 1"})
    scenario = boxed(
        up.Scenario(units={"blow": loop}, connections={"blow.u": "blow.x"}, outputs={"x": "blow.x"})
    )
    text = failing(scenario, up.StepError)
    assert text.startswith("inside 'box': inside 'box': ")


def test_a_nest_that_fails_at_the_start() -> None:
    bad = up.Function(outputs={"x": "1/(time - 0)"})
    scenario = boxed(up.Scenario(units={"blow": bad}, outputs={"x": "blow.x"}))
    text = failing(scenario, up.UnitError)
    assert "unit 'box.box.blow' failed in get('x') at t = 0" in text


def test_a_pace_that_gives_up_inside() -> None:
    steep = up.Ode(states={"x": "u*u"}, start={"x": 1.0}, inputs=["u"], outputs=["x"])
    scenario = up.Scenario(units={"blow": steep}, connections={"blow.u": "blow.x"}, outputs={"x": "blow.x"})
    pace = up.ErrorControl(tolerance=1e-6, shortest=0.01, per="step")
    text = failing(boxed(scenario, 1, pace=pace), up.StepError)
    assert "inside 'box': the step from t = " in text


class Stubborn(up.Nested):
    """A unit of its own: the core must not put the usual one in its place."""

    def instantiate(self, name: str, start: float) -> Any:
        raise RuntimeError("mine")


def test_a_subclass_with_units_of_its_own_is_called_back() -> None:
    model = Stubborn(inner(), up.Master(up.Fixed(H)))
    assert up.Ability.NATIVE not in model.abilities
    with pytest.raises(up.UnitError, match="mine"):
        up.simulate(up.Scenario(units={"n": model}), pace=H, until=1.0, engine="native")


def test_where_python_is_inside_it_is_called_back() -> None:
    decay = up.PythonOde(lambda t, x, u, p: {"x": -x.x}, states={"x": 1.0}, outputs=["x"])
    model = nest(up.Scenario(units={"d": decay}, outputs={"x": "d.x"}))
    assert up.Ability.NATIVE not in model.abilities
    assert up.Ability.NATIVE not in up.Nested(inner(), up.Master(up.Fixed(H)), engine="interpret").abilities
    same(up.Scenario(units={"n": model}))


def test_inputs_set_by_hand_reach_the_inside() -> None:
    rows = []
    for engine in ("interpret", "native"):
        with up.start(
            up.Scenario(units={"n": nest(inner(), H / 2)}), pace=H, until=1.0, engine=engine
        ) as run:  # type: ignore[arg-type]
            run.step()
            run.set("n.load", 2.0)
            rows.append([run["n.direct"], run.step(), run["n.direct"], run["n.x"]])
    assert rows[0] == rows[1]


def test_the_machine_keeps_many_states() -> None:
    scenario = around(nest(inner(), H / 2))
    program = up.Master(up.Fixed(H)).program(scenario)
    for kind in (Interpreter, native.machine):
        machine: Any = kind(program, scenario.units, 0.0)
        machine.execute("start")
        shown: dict[int, list[Any]] = {}
        tokens = []
        cells = tuple(range(len(program.layout.start)))
        for k in range(5):
            tokens.append(machine.save())
            shown[k] = machine.row(cells)
            machine.write(program.next, (k + 1) * H)
            machine.execute("step")
            machine.write(program.now, (k + 1) * H)
        for k in (3, 0, 4, 1):
            machine.restore(tokens[k])
            assert machine.row(cells) == shown[k]
            machine.write(program.next, (k + 1) * H)
            machine.execute("step")
            if k + 1 in shown:
                assert (
                    machine.read(program.columns["car.x"].register)
                    == shown[k + 1][program.columns["car.x"].register]
                )
        machine.close()


@pytest.mark.parametrize("outer", ENGINES)
@pytest.mark.parametrize("inside", ENGINES)
def test_what_is_doubtful_inside_is_told_with_the_way_there(outer: str, inside: str) -> None:
    """sin(t) reaches 1, or not, as errors decide: in a nest, and in a nest in a nest."""
    swing = up.Ode({"x": "v", "v": "-x"}, start={"v": 1.0})
    near = up.Scenario(
        {"swing": swing}, events={"top": {"when": "swing.x >= 0.9999999"}}, outputs={"x": "swing.x"}
    )
    box = nest(near, pace=up.LookAhead(0.1))
    deep = nest(up.Scenario({"in": box}, outputs={"x": "in.x"}), 0.1)
    for scenario, way in ((up.Scenario({"box": box}), "box"), (up.Scenario({"car": deep}), "car.in")):
        trace = up.simulate(on_engine(inside, scenario), pace=0.1, until=4.0, engine=outer)
        (told,) = trace.info["warnings"]
        assert told.startswith(f"inside '{way}': event 'top' grazes its threshold at t = 1.")
        assert told in up.summary(trace)


def test_what_could_not_be_chosen_well_inside_is_told() -> None:
    units = {
        name: up.Ode({"v": "50*(u - v)"}, inputs=["u"], outputs=["v"], start={"v": start})
        for name, start in (("a", 1.0), ("b", 0.0))
    }
    events = {"far": {"when": "a.v >= 5"}}
    stiff = up.Scenario(units, {"a.u": "b.v", "b.u": "a.v"}, events=events, outputs={"v": "a.v"})
    box = nest(stiff, 0.1, events="auto")
    (told,) = up.simulate(up.Scenario({"box": box}), pace=0.1, until=1.0).info["warnings"]
    assert told.startswith("inside 'box': inputs a.u, b.u are ")
