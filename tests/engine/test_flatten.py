"""Flattening: nested scenarios replaced by what is inside mean the same, down to the names in the trace."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import upbeat as up
from upbeat.core.time import Span
from upbeat.engine.nesting.flatten import flattened
from upbeat.report.explain import explain, explain_data

H = 0.05
LAG = up.Ode(states={"x": "0.5*(u - x) + 0.1*w"}, start={"x": 1.0}, inputs=["u", "w"], outputs=["x"])
GAIN = up.Function(inputs=["u"], outputs={"y": "0.3*u + 0.1"})
WAVE = up.Function(outputs={"y": "sin(3*time)"})


def master(step: float = H, **more: Any) -> up.Master:
    return up.Master(pace=up.Fixed(step), **more)


def inside(inner: up.Master, *, flatten: bool = True) -> up.Nested:
    """Two units, one of which hands an input straight on, and an output that mixes both."""
    scenario = up.Scenario(
        units={"lag": LAG, "gain": GAIN},
        connections={"lag.u": "gain.y - a", "gain.u": "lag.x + 2*a", "lag.w": "b"},
        inputs={"a": 0.0, "b": {"start": 0.25}},
        outputs={"x": "lag.x", "sum": "lag.x + gain.y", "a_again": "a"},
    )
    return up.Nested(scenario, inner, flatten=flatten)


def around(nested: up.Nested) -> up.Scenario:
    """The nest between a unit that drives it and one that it drives; `b` is left free."""
    return up.Scenario(
        units={"wave": WAVE, "car": nested, "last": LAG},
        connections={"car.a": "wave.y + 0.1*last.x", "last.u": "car.sum + car.a_again", "last.w": "push"},
        inputs={"push": 0.5},
        outputs={"out": "car.x - last.x"},
    )


def both(scenario: up.Scenario, kept: up.Scenario, **how: Any) -> tuple[up.Trace, up.Trace, up.Experiment]:
    experiment = up.experiment(scenario, **how)
    return experiment.run(), up.experiment(kept, **how).with_(flatten=False).run(), experiment


COUPLINGS = [up.Jacobi(), up.Jacobi(loops=up.FixedPoint()), up.Refined()]


@pytest.mark.parametrize("coupling", COUPLINGS, ids=str)
@pytest.mark.parametrize("inputs", [up.Hold(), up.Linear(), up.Polynomial(2)], ids=str)
def test_flat_is_nested_bit_for_bit(engine: str, coupling: Any, inputs: Any) -> None:
    inner = master(coupling=coupling, inputs=inputs)
    how = {"pace": H, "until": 2.0, "coupling": coupling, "inputs": inputs, "engine": engine, "record": ["*"]}
    flat, nested, experiment = both(around(inside(inner)), around(inside(inner, flatten=False)), **how)
    assert [note.flattened for note in experiment.plan.nested] == [True]
    assert list(flat.names) == list(nested.names)
    for name in flat.names:
        np.testing.assert_array_equal(flat[name], nested[name], err_msg=name)


def test_the_usual_columns_are_those_of_the_nest() -> None:
    trace = up.simulate(around(inside(master())), pace=H, until=0.5)
    assert list(trace.names) == ["push", "wave.y", "car.x", "car.sum", "car.a_again", "last.x", "out"]


@pytest.mark.parametrize("rate", [2, 5])
def test_different_rates_are_merged(engine: str, rate: int) -> None:
    inner = master(H / rate)
    how = {"pace": H, "until": 2.0, "engine": engine, "record": ["*"]}
    flat, nested, experiment = both(around(inside(inner)), around(inside(inner, flatten=False)), **how)
    assert experiment.plan.master.coupling == up.MultiRate(
        {"car_lag": rate, "car_gain": rate}, slower="beside"
    )
    for name in flat.names:
        np.testing.assert_allclose(flat[name], nested[name], rtol=1e-12, atol=1e-14, err_msg=name)


def test_a_nest_with_a_rate_of_its_own_that_feeds_itself_stays_nested(engine: str) -> None:
    """What it gives itself goes around outside, where values are exchanged less often."""
    for rate, flat in ((1, True), (2, False)):
        nests = [inside(master(H / rate), flatten=flatten) for flatten in (True, False)]
        one, two = (up.Scenario({"car": nest}, {"car.a": "0.2*car.x"}) for nest in nests)
        experiment = up.experiment(one, pace=H, until=2.0, engine=engine)
        note = experiment.plan.nested[0]
        assert note.flattened is flat
        assert flat or "'a' comes from its own outputs" in note.why
        np.testing.assert_array_equal(
            experiment.run()["car.x"], up.simulate(two, pace=H, until=2.0, engine=engine)["car.x"]
        )


def test_different_rates_stay_nested_where_the_last_step_is_shorter() -> None:
    short = up.experiment(around(inside(master(H / 2))), pace=H, until=2.01)
    assert "not all communication steps" in short.plan.nested[0].why


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_random_nests_mean_the_same(data: st.DataObject) -> None:
    """Random depths, random splits, rates here and there: flattened or not, the trace is the same."""

    def draw(depth: int, step: float, flatten: bool, choices: list[int]) -> up.Scenario:
        units: dict[str, Any] = {"p": LAG, "q": LAG, "g": GAIN}
        links = {"p.u": "q.x + i", "q.u": "g.y - 0.2*i", "g.u": "p.x", "p.w": "0.3*i"}
        if depth:
            rate = choices[depth]
            inner = draw(depth - 1, step / rate, flatten, choices)
            units["n"] = up.Nested(inner, master(step / rate), flatten=flatten)
            links |= {"n.i": "p.x - q.x", "q.w": "n.o + n.direct"}
        return up.Scenario(
            units=units,
            connections=links,
            inputs={"i": 0.4},
            outputs={"o": "p.x + g.y", "direct": "i + 0.5*p.x" if choices[0] > 1 else "0.1*q.x"},
        )

    depth = data.draw(st.integers(1, 3))
    choices = data.draw(st.lists(st.sampled_from([1, 1, 2, 4]), min_size=4, max_size=4))
    flat, nested, _ = both(
        draw(depth, H, True, choices), draw(depth, H, False, choices), pace=H, until=1.0, record=["*"]
    )
    assert list(flat.names) == list(nested.names)
    for name in flat.names:
        np.testing.assert_allclose(flat[name], nested[name], rtol=1e-11, atol=1e-13, err_msg=name)


def test_free_inputs_can_be_set_by_the_names_of_before(engine: str) -> None:
    values = []
    for flatten in (True, False):
        how: Any = {"pace": H, "until": 1.0, "engine": engine, "record": ["*"]}
        made = up.experiment(around(inside(master(), flatten=flatten)), **how)
        with made.with_(flatten=flatten).open() as run:
            run.step()
            run.set("car.b", 3.0)
            run.set("push", -1.0)
            assert run["car.b"] == 3.0
            values.append(run.finish())
    for name in values[0].names:
        np.testing.assert_array_equal(values[0][name], values[1][name], err_msg=name)


def test_an_array_and_a_converted_unit_go_through(engine: str) -> None:
    rotor = up.Ode(
        states={"x": {"der": ["-u[0]", "-u[1]"], "start": [1.0, 2.0]}},
        inputs={"u": {"size": 2, "unit": "mm"}},
        outputs=["x"],
    )
    scenario = up.Scenario(
        units={"r": rotor},
        connections={"r.u": "v"},
        inputs={"v": {"size": 2, "unit": "mm"}},
        outputs={"x": "r.x", "second": "r.x[1]"},
    )
    source = up.Function(outputs={"y": {"value": "0.002", "unit": "m"}})

    def outer(flatten: bool) -> up.Scenario:
        return up.Scenario(
            units={"s": source, "n": up.Nested(scenario, master(), flatten=flatten)},
            connections=[("n.v", ["s.y", "2*s.y"])],
        )

    flat, nested, experiment = both(outer(True), outer(False), pace=H, until=1.0, engine=engine)
    assert experiment.plan.nested[0].flattened
    assert list(flat.names) == list(nested.names)
    for name in flat.names:
        np.testing.assert_array_equal(flat[name], nested[name], err_msg=name)


GS = up.GaussSeidel()
LAGGED = master(coupling=up.Jacobi(outputs="lagged"))


@pytest.mark.parametrize(
    ("outer", "inner", "why"),
    [
        (master(coupling=GS), master(), "the outer coupling is GaussSeidel"),
        (master(), master(coupling=GS), "mixes what is new inside"),
        (master(), master(coupling=up.Negotiated()), "its coupling is Negotiated"),
        (master(inputs=up.Linear()), master(coupling=GS), "Gauss-Seidel couplings can be merged only where"),
        (master(), master(H / 2, coupling=GS), "rates can be merged only where all are Jacobi"),
        (master(), master(coupling=up.Jacobi(outputs="lagged")), "differs from the outer"),
        (LAGGED, LAGGED, "one more delay"),
        (master(), master(0.03), "no whole part"),
        (master(), master(2 * H), "no whole part"),
        (master(), master(inputs=up.Continuous()), "starts elsewhere"),
        (master(inputs=up.Linear()), master(H / 2), "only where inputs are held"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_stays_nested_says_why(outer: up.Master, inner: up.Master, why: str) -> None:
    flat = flattened(around(inside(inner)), outer, Span(0.0, 1.0))
    assert not flat.notes[0].flattened
    assert why in flat.notes[0].why
    assert "car" in flat.scenario.units


def test_kinds_that_a_port_converts_stay_nested() -> None:
    flag = up.Function(outputs={"y": {"value": "time > 1", "kind": "boolean"}})
    scenario = up.Scenario(units={"g": GAIN}, connections={"g.u": "a"}, inputs=["a"], outputs={"y": "g.y"})
    outer = up.Scenario(units={"f": flag, "n": up.Nested(scenario, master())}, connections={"n.a": "f.y"})
    assert "real, and what it is given is not" in flattened(outer, master()).notes[0].why


def test_a_loop_through_no_unit_stays_nested() -> None:
    scenario = up.Scenario(units={"g": GAIN}, inputs=["a"], outputs={"y": "0.5*a + g.y"})
    outer = up.Scenario(units={"n": up.Nested(scenario, master())}, connections={"n.a": "n.y"})
    assert "through no unit inside" in flattened(outer, master()).notes[0].why


def test_an_engine_of_its_own_stays() -> None:
    nested = replace(inside(master()), engine="interpret")
    assert "an engine of its own" in flattened(around(nested), master()).notes[0].why


def test_explain_says_what_became_of_each_nest() -> None:
    deep = up.Scenario(
        units={"box": up.Nested(around(inside(master(coupling=GS))), master())},
        connections={"box.push": "p"},
        inputs={"p": 0.1},
    )
    experiment = up.experiment(deep, pace=H, until=1.0)
    text = explain(experiment, program=False)
    assert "box: flattened, its units run side by side with the others: box.wave, box.car, box.last" in text
    assert "box.car: not flattened, 'gain.u' mixes what is new inside with what is held from outside" in text
    assert [n["flattened"] for n in explain_data(experiment)["nested"]] == [True, False]


def test_names_are_made_unique() -> None:
    scenario = around(inside(master()))
    units = {"car_lag": GAIN, **scenario.units}
    clash = up.Scenario(units=units, connections={"car.a": "car_lag.y"})
    flat = flattened(clash, master())
    assert {"car_lag", "car_lag_2", "car_gain"} <= flat.scenario.units.keys()


def test_an_algebraic_loop_through_the_nest_has_the_same_solution(engine: str) -> None:
    def outer(flatten: bool) -> up.Scenario:
        return up.Scenario(
            units={"g": GAIN, "car": inside(master(), flatten=flatten)},
            connections={"car.a": "g.y", "g.u": "car.sum"},
        )

    how: Any = {"pace": H, "until": 1.0, "engine": engine, "coupling": up.Jacobi()}
    flat, nested, experiment = both(outer(True), outer(False), **how)
    assert experiment.plan.nested[0].flattened
    assert experiment.plan.scenario.graph.loops
    for name in flat.names:
        np.testing.assert_allclose(flat[name], nested[name], rtol=1e-9, atol=1e-10, err_msg=name)


def test_an_error_names_the_unit_as_people_know_it_and_keeps_its_trace(engine: str) -> None:
    blow = up.Ode(states={"x": "x*x"}, start={"x": 1.0}, solver=up.Euler())
    scenario = up.Scenario(units={"blow": blow}, outputs={"x": "blow.x"})
    outer = up.Scenario(units={"box": up.Nested(scenario, master(0.5))})
    how: Any = {"pace": 0.5, "until": 50.0, "engine": engine}
    experiment = up.experiment(outer, **how)
    assert experiment.plan.nested[0].flattened
    with pytest.raises(up.UnitError, match=r"unit 'box\.blow' failed") as caught:
        experiment.run()
    assert caught.value.trace is not None
    assert len(caught.value.trace.time) > 3
    assert caught.value.trace.names == ("box.x",)


def deep_loop(flatten: bool = True) -> up.Scenario:
    """An algebraic loop between two units in a nest, without solution from t = 1 on."""
    gain = up.Function(inputs=["u"], outputs={"y": "(0.5 if time < 1 else 1)*u + 1"})
    scenario = up.Scenario(
        units={"g": gain, "f": GAIN},
        connections={"g.u": "g.y", "f.u": "g.y"},
        outputs={"y": "f.y"},
    )
    return up.Scenario(units={"car": up.Nested(scenario, master(), flatten=flatten)})


def test_a_loop_is_called_what_people_call_its_ports(engine: str) -> None:
    with pytest.raises(up.StepError, match=r"algebraic loop car\.g\.\w → car\.g\.\w"):
        up.simulate(deep_loop(), pace=H, until=2.0, engine=engine)


def test_nothing_that_explain_says_has_a_name_that_flattening_made_up() -> None:
    experiment = up.experiment(around(inside(master(H / 2))), pace=H, until=1.0)
    assert "car_lag" in experiment.plan.scenario.units
    text = explain(experiment)
    assert "advance  car.lag from" in text
    assert "car_" not in text
    lambda_unit = up.PythonFunction(lambda t, u, p: {"y": u.u}, inputs=["u"], outputs=["y"])
    scenario = up.Scenario(units={"f": lambda_unit}, outputs={"y": "f.y"})
    choice = up.experiment(up.Scenario(units={"n": up.Nested(scenario, master())}), pace=H, until=1.0).choice
    assert "n_f" not in choice.why


@pytest.mark.parametrize("levels", [1, 2])
def test_nothing_is_flattened_where_that_is_asked_for(levels: int) -> None:
    scenario = around(inside(master()))
    if levels == 2:
        scenario = up.Scenario(units={"box": up.Nested(scenario, master())}, outputs={"out": "box.out"})
    kept = up.experiment(scenario, pace=H, until=1.0, flatten=False)
    assert [str(note) for note in kept.plan.nested] == [
        f"{'car' if levels == 1 else 'box'}: not flattened, it was asked to stay nested"
    ]
    model: Any = kept.plan.scenario.units["car" if levels == 1 else "box"]
    assert not model.flatten
    assert levels == 1 or not model.scenario.units["car"].flatten
    flat = up.simulate(scenario, pace=H, until=1.0)
    np.testing.assert_array_equal(flat["out"], kept.run()["out"])


@settings(max_examples=20, deadline=None)
@given(st.data())
def test_gauss_seidel_nests_in_jacobi_are_flat_bit_for_bit(data: st.DataObject) -> None:
    """Random orders inside, with and without direct feedthrough, two nests beside each other."""
    orders = [data.draw(st.none() | st.permutations(["p", "q", "g"])) for _ in range(2)]
    links = {
        "p.u": data.draw(st.sampled_from(["q.x", "g.y", "q.x - 0.5*g.y"])),
        "q.u": data.draw(st.sampled_from(["p.x", "g.y", "p.x*p.x + g.y"])),
        "g.u": data.draw(st.sampled_from(["p.x", "q.x", "i", "0.4"])),
        "p.w": data.draw(st.sampled_from(["i", "0.3*i"])),
    }
    out = data.draw(st.sampled_from(["p.x + g.y", "q.x", "g.y - i"]))

    def outer(flatten: bool) -> up.Scenario:
        scenario = up.Scenario(
            units={"p": LAG, "q": LAG, "g": GAIN}, connections=links, inputs={"i": 0.4}, outputs={"o": out}
        )
        a, b = (
            up.Nested(scenario, master(coupling=up.GaussSeidel(order)), flatten=flatten) for order in orders
        )
        return up.Scenario(
            units={"wave": WAVE, "a": a, "b": b, "last": LAG},
            connections={"a.i": "wave.y", "b.i": "last.x + 0.1*wave.y", "last.u": "a.o - b.o"},
        )

    for engine in ("interpret", "auto"):
        flat, nested, made = both(outer(True), outer(False), pace=H, until=0.55, record=["*"], engine=engine)
        assert [note.flattened for note in made.plan.nested] == [True, True], made.plan.nested
        assert list(flat.names) == list(nested.names)
        for name in flat.names:
            np.testing.assert_array_equal(flat[name], nested[name], err_msg=name)


def test_what_is_inside_a_gauss_seidel_nest_stays_nested(engine: str) -> None:
    """Within a step of the middle one, others see it before and after: no place among all units has that."""
    inner = up.Nested(up.Scenario(units={"l": LAG}, outputs={"x": "l.x"}), master())
    middle = up.Scenario(
        units={"in": inner, "p": LAG}, connections={"p.u": "in.x"}, inputs={"i": 0.4}, outputs={"x": "p.x"}
    )
    outer = up.Scenario(units={"box": up.Nested(middle, master(coupling=GS)), "last": LAG})
    how: Any = {"pace": H, "until": 1.0, "engine": engine}
    notes = up.experiment(outer, **how).plan.nested
    assert [note.flattened for note in notes] == [True, False]
    run = "its units run one after the other, in parallel with the others: box.in, box.p"
    assert f"box: flattened, {run}" in str(notes[0])
    assert "the coupling around it is GaussSeidel" in notes[1].why
    flat, kept = up.simulate(outer, **how), up.simulate(outer, flatten=False, **how)
    np.testing.assert_array_equal(flat["box.x"], kept["box.x"])


def test_each_of_many_nests_costs_what_it_touches(monkeypatch: pytest.MonkeyPatch) -> None:
    from upbeat.scenario.merging import inline

    touched = 0
    substitute = inline.substitute

    def counting(*arguments: Any) -> Any:
        nonlocal touched
        touched += 1
        return substitute(*arguments)

    def cost(cars: int) -> int:
        nonlocal touched
        touched = 0
        units = {f"c{k}": inside(master()) for k in range(cars)}
        row = {f"c{k}.a": f"c{k - 1}.sum" for k in range(1, cars)}
        flat = flattened(up.Scenario(units, row), master()).scenario
        assert len(flat.units) == 3 * cars  # two units each, and one that holds `b`
        return touched

    monkeypatch.setattr(inline, "substitute", counting)
    assert cost(40) - cost(20) == cost(60) - cost(40)  # a straight line
