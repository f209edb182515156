"""Adaptations against the same thing written by hand, on both engines, and set back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import upbeat as up
from adaptations import crossing, inp, lag, out, passing, port, rated, substitution
from strategies import on_engine
from upbeat.adapt import (
    Adaptation,
    Assign,
    Break,
    Local,
    Loop,
    Return,
    Rollback,
    Rule,
    SaveState,
    Statement,
    Step,
    Stored,
    When,
)

ENGINES = ("interpret", "native")


def gain(k: float) -> up.Function:
    return up.Function(inputs=["u"], outputs={"y": f"{k}*u"})


def ran(scenario: up.Scenario, engine: str, until: float = 1.0, step: float = 0.1, **more: Any) -> up.Trace:
    return up.simulate(scenario, pace=step, until=until, engine=engine, **more)


def in_loop(model: Any, u: str = "u", y: str = "y") -> up.Scenario:
    """The model, whose output drives an integrator that drives it."""
    source = up.Ode({"z": "1 - y"}, inputs=["y"], outputs=["z"], start={"z": 0.5})
    return up.Scenario({"s": source, "m": model}, {"s.y": f"m.{y}", f"m.{u}": "s.z"})


def same_on_both(scenario: up.Scenario, **more: Any) -> up.Trace:
    first, second = (ran(on_engine(engine, scenario), engine, **more) for engine in ENGINES)
    assert list(first) == list(second)
    for name in first:
        assert np.array_equal(first[name], second[name]), name
    return first


COUPLINGS = (up.Jacobi(), up.GaussSeidel(), up.Iterated(), up.Iterated(up.GaussSeidel(), corrections=1))


@pytest.mark.parametrize("coupling", COUPLINGS, ids=str)
@pytest.mark.parametrize("flatten", [True, False])
def test_one_that_does_nothing_is_not_there(coupling: Any, flatten: bool) -> None:
    model = up.adapted(passing({"w": lag()}, {"u": "w.u"}, {"y": "w.x"}), flatten=flatten)
    for engine in ENGINES:
        bare = ran(in_loop(lag(), y="x"), engine, coupling=coupling)
        adapted = ran(in_loop(model), engine, coupling=coupling)
        assert np.array_equal(bare["s.z"], adapted["s.z"])
        assert np.array_equal(bare["m.x"], adapted["m.y"])


@pytest.mark.parametrize("coupling", COUPLINGS, ids=str)
def test_mapping_as_connections(coupling: Any) -> None:
    mapped = Adaptation(
        {"w": lag()},
        (inp("u"), out("y"), port("K", up.Causality.PARAMETER, start=(2.0,))),
        in_rules=(Rule((Assign("s", "u + 1"),), (Assign("w.u", "K*s"),)),),
        out_rules=(Rule((Assign("o", "w.x"),), (Assign("y", "-o/2"),)),),
        inputs=(Stored("s"),),
        outputs=(Stored("o"),),
    )
    source = up.Ode({"z": "1 - y"}, inputs=["y"], outputs=["z"], start={"z": 0.5})
    by_hand = up.Scenario({"s": source, "m": lag()}, {"s.y": "-m.x/2", "m.u": "2*(s.z + 1)"})
    for engine in ENGINES:
        one = ran(by_hand, engine, coupling=coupling)
        for flatten in (True, False):
            other = ran(in_loop(up.adapted(mapped, flatten=flatten)), engine, coupling=coupling)
            np.testing.assert_allclose(other["s.z"], one["s.z"], rtol=1e-14)
        tuned = ran(in_loop(up.adapted(mapped).with_values({"K": 0.0})), engine, coupling=coupling)
        assert tuned["m.y"][-1] == 0.0


def test_direct_feedthrough_is_seen() -> None:
    direct = up.adapted(passing({"g": gain(2.0)}, {"u": "g.u"}, {"y": "g.y"}))
    moore = up.adapted(passing({"g": gain(2.0)}, {"u": "g.u"}, {"y": "g.y"}, mealy=False))
    depends = {p.name: p.depends for p in direct.ports}
    assert depends["y"] == {"u"}
    assert all(not p.depends for p in moore.ports)
    ramp = up.Ode({"z": "1"}, outputs=["z"])
    for engine in ENGINES:
        at_once = ran(up.Scenario({"r": ramp, "m": direct}, {"m.u": "r.z"}), engine)
        np.testing.assert_allclose(at_once["m.y"], 2.0 * at_once["time"], atol=1e-12)
        late = ran(up.Scenario({"r": ramp, "m": moore}, {"m.u": "r.z"}), engine)
        np.testing.assert_allclose(late["m.y"][1:], 2.0 * late["time"][:-1], atol=1e-12)


def test_reactive_sees_the_end_and_delayed_the_start() -> None:
    """A unit that integrates a held value: u(t + H)·H or u(t)·H a step."""
    ramp = up.Ode({"z": "1"}, outputs=["z"])
    summing = up.Ode({"x": "u"}, inputs=["u"], outputs=["x"], solver=up.Euler())
    ends = {}
    for reactive in (True, False):
        model = up.adapted(
            passing({"w": summing}, {"u": "w.u"}, {"y": "w.x"}, reactive=reactive, mealy=False)
        )
        scenario = up.Scenario({"r": ramp, "m": model}, {"m.u": "r.z"})
        trace = same_on_both(scenario, coupling=up.GaussSeidel())
        ends[reactive] = trace["m.y"][-1]
        for flatten in (True, False):
            kept = ran(scenario, "native", coupling=up.GaussSeidel(), flatten=flatten)
            assert kept["m.y"][-1] == ends[reactive]
    assert ends[True] == pytest.approx(0.1 * sum(0.1 * k for k in range(1, 11)))
    assert ends[False] == pytest.approx(0.1 * sum(0.1 * k for k in range(10)))
    with pytest.raises(up.MasterError, match="reactive"):
        ran(
            up.Scenario(
                {
                    "r": ramp,
                    "m": up.adapted(passing({"w": summing}, {"u": "w.u"}, {"y": "w.x"}, reactive=True)),
                },
                {"m.u": "r.z"},
            ),
            "native",
        )


def test_a_delayed_unit_inside_gets_what_the_step_before_had() -> None:
    """Two integrators in a row; the second one delayed: the sum of sums, one step behind."""
    summing = up.Ode({"x": "u"}, inputs=["u"], outputs=["x"], solver=up.Euler())
    for delayed, expected in ((frozenset(), 0.55), (frozenset({"b"}), 0.45)):
        chain = passing(
            {"a": summing, "b": summing},
            {"u": "a.u"},
            {"y": "b.x"},
            connections={"b.u": "a.x"},
            delayed=delayed,
        )
        one = up.Function(outputs={"y": "1"})
        trace = same_on_both(up.Scenario({"one": one, "m": up.adapted(chain)}, {"m.u": "one.y"}))
        assert trace["m.y"][-1] == pytest.approx(expected)


def test_several_steps_inside_one() -> None:
    """Held inputs: the steps of the unit are those of a Nested scenario with its own pace."""
    euler = up.Ode({"x": "u - x"}, inputs=["u"], outputs=["x"], solver=up.Euler())
    model = up.adapted(rated(euler, 10, linear=False))
    assert [p.reactive for p in model.ports if p.name == "u"] == [True]
    trace = same_on_both(in_loop(model), coupling=up.GaussSeidel(("s", "m")))
    by_hand = in_loop(up.Ode({"x": "u - x"}, inputs=["u"], outputs=["x"], solver=up.Euler(10)), y="x")
    other = ran(by_hand, "native", coupling=up.GaussSeidel(("s", "m")))
    np.testing.assert_allclose(trace["s.z"], other["s.z"], rtol=1e-12)
    assert trace["time"][-1] == 1.0


def test_inputs_interpolated_over_micro_steps() -> None:
    """x' = u with u = t: held at the ends of ten micro-steps, 0.1·Σ over them."""
    summing = up.Ode({"x": "u"}, inputs=["u"], outputs=["x"])
    ramp = up.Ode({"z": "1"}, outputs=["z"])
    model = up.adapted(rated(summing, 10))
    trace = same_on_both(up.Scenario({"r": ramp, "m": model}, {"m.u": "r.z"}), coupling=up.GaussSeidel())
    expected = sum(0.01 * (0.01 * k) for k in range(1, 101))
    assert trace["m.y"][-1] == pytest.approx(expected, rel=1e-12)


def test_a_trajectory_over_the_step() -> None:
    """With a rate the unit integrates the straight line itself: exact for a ramp."""
    summing = up.Ode({"x": "u"}, inputs=["u"], outputs=["x"])
    line = Adaptation(
        {"w": summing},
        (inp("u"), out("y")),
        in_rules=(
            Rule((Assign("current", "u"),), (Assign("w.u", "previous", ("(current - previous)/H",)),)),
        ),
        out_rules=(Rule((Assign("o", "w.x"),), (Assign("y", "o"),)),),
        inputs=(Stored("current"),),
        outputs=(Stored("o"),),
        controls=(Stored("previous"),),
        control=(Step("w"), Assign("previous", "current")),
        reactive=True,
        mealy=False,
    )
    ramp = up.Ode({"z": "1"}, outputs=["z"])
    inside_another = passing({"a": up.adapted(line)}, {"u": "a.u"}, {"y": "a.y"}, reactive=True, mealy=False)
    for model in (line, inside_another):
        scenario = up.Scenario({"r": ramp, "m": up.adapted(model)}, {"m.u": "r.z"})
        trace = same_on_both(scenario, coupling=up.GaussSeidel())
        assert trace["m.y"][-1] == pytest.approx(0.5, rel=1e-12)


def test_successive_substitution() -> None:
    ramp = up.Ode({"z": "1"}, outputs=["z"])
    scenario = up.Scenario({"r": ramp, "m": up.adapted(substitution())}, {"m.u": "r.z"})
    trace = same_on_both(scenario, coupling=up.GaussSeidel())
    np.testing.assert_allclose(trace["m.y"], trace["time"] * 2.0 / 3.0, atol=1e-10)


def test_a_crossing_is_located_by_discarding() -> None:
    """u = t² on an interpolated trajectory: the crossing of the parabola's chord, and exact for a line."""
    ramp = up.Ode({"z": "1"}, outputs=["z"])
    model = up.adapted(crossing())
    assert up.Ability.EARLY_RETURN in model.abilities
    scenario = up.Scenario({"r": ramp, "m": model}, {"m.u": "r.z"})
    trace = same_on_both(scenario, step=0.3, until=1.2, coupling=up.GaussSeidel(), inputs=up.Linear())
    assert trace["m.found"][-1] == pytest.approx(0.5, abs=1e-8)
    assert trace["m.y"][-1] == pytest.approx(1.2 - 0.5, abs=1e-8)


def test_a_shorter_step_ends_the_step_of_all() -> None:
    """`Negotiated` hears of a step that is shorter than asked: nobody goes beyond 0.25."""
    cut = passing(
        {"w": lag()},
        {"u": "w.u"},
        {"y": "w.x"},
        control=(
            Local("by", "H if t >= 0.25 or t + H <= 0.25 else 0.25 - t"),
            Local("made", 0.0),
            Step("w", "t", "by", "made"),
            Return("made"),
        ),
    )
    trace = same_on_both(in_loop(up.adapted(cut)), coupling=up.Negotiated())
    assert 0.25 in trace["time"]
    alone = same_on_both(in_loop(up.adapted(cut)))  # which goes on by itself where nobody listens
    bare = ran(in_loop(lag(), y="x"), "native")
    assert 0.25 not in alone["time"]
    np.testing.assert_allclose(alone["s.z"], bare["s.z"], atol=1e-6)


def test_rules_are_chosen_by_conditions() -> None:
    """The condition of an output rule is that of the last MapOut (listing 7.6)."""
    chosen = Adaptation(
        {"w": lag()},
        (inp("u"), out("y")),
        in_rules=(
            Rule((Assign("s", "u"),), (Assign("w.u", "s"),), "u < 1"),
            Rule((Assign("s", "1"),), (Assign("w.u", "s"),), "u >= 1"),
        ),
        out_rules=(Rule((), (Assign("y", "1"),), "w.x > 0.5"), Rule((), (Assign("y", "-1"),), "w.x <= 0.5")),
        inputs=(Stored("s"),),
    )
    ramp = up.Ode({"z": "3"}, outputs=["z"])
    for flatten in (True, False):
        scenario = up.Scenario({"r": ramp, "m": up.adapted(chosen, flatten=flatten)}, {"m.u": "r.z"})
        trace = same_on_both(scenario, until=2.0)
        state = ran(up.Scenario({"r": ramp, "m": lag()}, {"m.u": "min(r.z, 1)"}), "native", until=2.0)["m.x"]
        assert np.array_equal(trace["m.y"], np.where(state > 0.5, 1.0, -1.0))


def nested_deeply(depth: int, *, flatten: bool) -> Any:
    model: Any = lag()
    for k in range(depth):
        y = "w.x" if k == 0 else "w.y"
        model = up.adapted(
            passing(
                {"w": model},
                {"u": "w.u"},
                {"y": y},
                control=(Step("w"), Assign("n", "n + 1")),
                controls=(Stored("n"),),
            ),
            flatten=flatten,
        )
    return model


def test_any_depth_means_the_same() -> None:
    bare = ran(in_loop(lag(), y="x"), "native")
    for depth in (1, 3, 5):
        for flatten in (True, False):
            trace = same_on_both(in_loop(nested_deeply(depth, flatten=flatten)))
            assert np.array_equal(trace["s.z"], bare["s.z"])


STATEFUL = {
    "rate": lambda: rated(lag(), 3),
    "substitution": substitution,
    "crossing": crossing,
    "deep": lambda: nested_deeply(3, flatten=True),
    "deep, kept": lambda: nested_deeply(3, flatten=False),
}


@pytest.mark.parametrize("name", STATEFUL)
def test_resumed_from_a_checkpoint(name: str, tmp_path: Path) -> None:
    """On either engine, from a state that either has written."""
    made = STATEFUL[name]()
    model = made if isinstance(made, up.Nested) else up.adapted(made)
    scenario = in_loop(model)
    how: dict[str, Any] = {
        "pace": 0.1, "until": 1.0, "coupling": up.GaussSeidel(("s", "m")), "inputs": up.Linear()
    }  # fmt: skip
    whole = same_on_both(scenario, **{k: v for k, v in how.items() if k not in ("pace", "until")})
    for engine in ENGINES:
        held = on_engine(engine, scenario)
        path = tmp_path / engine
        run = up.start(held, checkpoint=up.Checkpoint(path, every=1e9), engine=engine, **how)
        for _ in range(4):
            run.step()
        run.checkpoint()
        run.close()
        again = up.resume(path, experiment=up.experiment(held, engine=engine, **how))
        assert again["s.z"][-1] == whole["s.z"][-1]


def test_what_is_wrong_is_said() -> None:
    with pytest.raises(up.ModelError, match=r"there is no 'w.uu'. Did you mean 'w.u'"):
        passing({"w": lag()}, {"u": "w.uu"}, {"y": "w.x"})
    with pytest.raises(up.ModelError, match=r"'flag' is boolean, and u is not"):
        passing(
            {"w": lag()},
            {"u": "w.u"},
            {"y": "w.x"},
            inputs=(Stored("flag", 0.0, up.Kind.BOOLEAN),),
            in_rules=(Rule((Assign("flag", "u"),)),),
        )
    metres = up.Function(outputs={"y": {"value": "1", "unit": "m"}})
    seconds = up.Function(inputs={"u": {"unit": "s"}}, outputs={"y": "u"})
    with pytest.raises(up.ScenarioError, match="unit"):
        Adaptation({"a": metres, "b": seconds}, (), connections={"b.u": "a.y"})
    thing = {"w": up.Function(inputs={"u": {"unit": "m"}}, outputs={"y": {"value": "u", "unit": "m"}})}
    for unit, what in (("s", "do not measure the same thing"), ("cm", r"is in cm .*: write 0.01\*…")):
        with pytest.raises(up.ModelError, match=what):
            Adaptation(
                thing,
                (inp("v", unit=unit),),
                in_rules=(Rule((Assign("s", "v"),), (Assign("w.u", "s"),)),),
                inputs=(Stored("s"),),
            )
    with pytest.raises(up.ModelError, match="loop has 1 to"):
        passing({"w": lag()}, {"u": "w.u"}, {"y": "w.x"}, control=(Loop(0, (Step("w"),)),))
    with pytest.raises(up.ModelError, match="nothing steps 'w', which stays at the start"):
        passing({"w": lag()}, {"u": "w.u"}, {"y": "w.x"}, control=(Return("H"),))
    with pytest.raises(up.ModelError, match="no inner unit 'v'"):
        passing({"w": lag()}, {"u": "w.u"}, {"y": "w.x"}, control=(Step("v"),))
    with pytest.raises(up.ModelError, match="'h' is known in MapIn and MapOut only"):
        passing({"w": lag()}, {"u": "w.u"}, {"y": "w.x"}, control=(Step("w", "t", "h"),))


@pytest.mark.parametrize("inputs", [up.Hold(), up.Linear(), up.Hermite()], ids=str)
def test_what_is_merged_means_the_same(inputs: Any) -> None:
    """Arithmetic is part of the connections, whatever the trajectories; the rest follows their chords."""
    two = up.adapted(passing({"w": lag()}, {"u": "w.u"}, {"y": "w.x"}))
    three = up.adapted(passing({"v": two}, {"u": "v.u"}, {"y": "v.y"}))
    bare = ran(in_loop(lag(), y="x"), "native", inputs=inputs)
    merged = up.experiment(in_loop(three), pace=0.1, until=1.0, inputs=inputs)
    assert [str(note).split(",")[0] for note in merged.plan.nested] == ["m: flattened", "m.v: flattened"]
    assert np.array_equal(merged.run()["s.z"], bare["s.z"])
    kept = ran(in_loop(three), "native", inputs=inputs, flatten=False)
    np.testing.assert_allclose(kept["s.z"], bare["s.z"], rtol=0.0 if inputs != up.Hermite() else 1e-2)


def test_stacked_ones_are_one_program() -> None:
    inner = up.adapted(passing({"w": lag()}, {"u": "w.u"}, {"x": "w.x"}))
    model = up.adapted(rated(inner, 3))
    assert list(model.flat.scenario.units) == ["inputs", "w_w"]
    assert [note.flattened for note in model.flat.notes] == [True]
    scenario = in_loop(model)
    text = str(up.explain(up.experiment(scenario, pace=0.1, until=1.0, coupling=up.GaussSeidel(("s", "m")))))
    assert "m.w: flattened, its functions are part of the adaptation around it" in text
    coupling = up.GaussSeidel(("s", "m"))
    assert np.array_equal(
        same_on_both(scenario, coupling=coupling)["s.z"],
        ran(scenario, "native", coupling=coupling, flatten=False)["s.z"],
    )


def test_a_monolith_of_arithmetic_and_none_of_anything_else() -> None:
    model = up.adapted(passing({"w": lag()}, {"u": "w.u"}, {"y": "w.x"}))
    truth = up.simulate(in_loop(lag(), y="x").monolith(), pace=0.1, until=1.0)
    assert np.array_equal(up.simulate(in_loop(model).monolith(), pace=0.1, until=1.0)["s.z"], truth["s.z"])
    with pytest.raises(up.UpbeatError, match="more than arithmetic"):
        in_loop(up.adapted(rated(lag(), 3))).monolith()


@pytest.mark.parametrize("name", STATEFUL)
def test_set_back_exactly(name: str) -> None:
    """What was done after a state was kept is as if it had never been; so a coupling that repeats works."""
    made = STATEFUL[name]()
    model = made if isinstance(made, up.Nested) else up.adapted(made)
    for engine in ENGINES:
        unit = replace(model, engine=engine).instantiate("m", 0.0)
        unit.set("u", (0.2, 0.7))
        unit.advance(0.0, 0.3, False)
        kept = unit.save()
        seen = []
        for _ in range(2):
            unit.set("u", (0.4, 0.1, 0.3))
            unit.advance(0.3, 1.1, False)
            seen.append(unit.get("y"))
            unit.set("u", (5.0,))
            unit.advance(1.1, 2.0, False)
            unit.restore(kept)
        assert seen[0] == seen[1]
        unit.close()
    same_on_both(
        in_loop(model), coupling=up.Iterated(up.GaussSeidel(("s", "m")), corrections=2), inputs=up.Linear()
    )


def test_arrays_go_through_cell_by_cell() -> None:
    pair = up.Function(inputs={"u": {"size": 2}}, outputs={"y": {"value": ["u[0] + u[1]", "u[0] - u[1]"]}})
    for controlled in (False, True):
        adaptation = Adaptation(
            {"w": pair},
            (inp("a", size=2), out("b", size=2)),
            in_rules=(
                Rule(
                    (Assign("p", "a[0]"), Assign("q", "a[1]")),
                    (Assign("w.u[0]", "2*p"), Assign("w.u[1]", "q")),
                ),
            ),
            out_rules=(
                Rule(
                    (Assign("r", "w.y[0]"), Assign("s", "w.y[1]")),
                    (Assign("b[0]", "r"), Assign("b[1]", "-s")),
                ),
            ),
            inputs=(Stored("p"), Stored("q")),
            outputs=(Stored("r"), Stored("s")),
            control=(Step("w"),) if controlled else None,
        )
        source = up.Function(outputs={"y": {"value": ["time", "3"]}})
        scenario = up.Scenario({"r": source, "m": up.adapted(adaptation)}, {"m.a": "r.y"})
        trace = same_on_both(scenario)
        t = trace["time"]
        np.testing.assert_allclose(trace["m.b[0]"], 2 * t + 3, atol=1e-12)
        np.testing.assert_allclose(trace["m.b[1]"], 3 - 2 * t, atol=1e-12)


def test_in_a_process_of_its_own() -> None:
    model = up.adapted(rated(lag(), 3))
    alone = up.Isolated(model)
    coupling = up.GaussSeidel(("s", "m"))
    one, other = (ran(in_loop(m), "native", until=0.3, coupling=coupling) for m in (model, alone))
    assert np.array_equal(one["s.z"], other["s.z"])


def test_a_unit_that_is_not_called_while_nothing_changes() -> None:
    """Listing 7.5: the unit stays behind, and catches up when its input has changed."""
    counting = up.Ode({"x": "u"}, inputs=["u"], outputs=["x"])
    lazy = Adaptation(
        {"w": counting},
        (inp("u"), out("y"), out("calls")),
        in_rules=(Rule((Assign("now", "u"),), (Assign("w.u", "before"),)),),
        out_rules=(Rule((Assign("o", "w.x"),), (Assign("y", "o"), Assign("calls", "n"))),),
        inputs=(Stored("now"),),
        controls=(Stored("before"), Stored("n"), Stored("last")),
        outputs=(Stored("o"),),
        control=(
            When(
                "now != before",
                (
                    Local("made", 0.0),
                    Step("w", "t", "t - last", "made"),
                    Assign("last", "last + made"),
                    Assign("before", "now"),
                    Assign("n", "n + 1"),
                ),
            ),
        ),
        reactive=True,
        mealy=False,
    )
    steps = up.Function(outputs={"y": "1 if time < 0.45 else 3"})
    scenario = up.Scenario({"r": steps, "m": up.adapted(lazy)}, {"m.u": "r.y"})
    trace = same_on_both(scenario, coupling=up.GaussSeidel())
    assert trace["m.calls"][-1] == 2.0
    assert trace["m.y"][-1] == pytest.approx(0.4)  # 1 from 0 to 0.4; the 3 since then is not looked at yet


def test_events_inside_are_seen_through_any_depth() -> None:
    """Who counts and predicts them outside is told of them: trajectories begin anew, steps end there."""
    ball = up.Ode(
        {"x": "v", "v": "-9.81 + u"}, inputs=["u"], outputs=["x"], start={"x": 1.0},
        events={"hit": {"when": "x <= 0", "then": {"v": "-0.8*v"}}},
    )  # fmt: skip
    one = up.adapted(passing({"w": ball}, {"u": "w.u"}, {"x": "w.x"}, control=(Step("w"),)))
    two = up.adapted(passing({"a": one}, {"u": "a.u"}, {"x": "a.x"}, control=(Step("a"),)))
    nothing = up.adapted(passing({"w": ball}, {"u": "w.u"}, {"x": "w.x"}))
    push = up.Ode({"z": "-0.1*z"}, outputs=["z"], start={"z": 1.0})
    for how in ({"inputs": up.Linear()}, {"events": "auto"}):
        found = [
            same_on_both(up.Scenario({"s": push, "m": m}, {"m.u": "s.z"}), step=0.05, until=1.9, **how)["m.x"]
            for m in (ball, one, two, nothing)
        ]
        assert np.array_equal(found[0], found[3])
        assert np.array_equal(found[1], found[2])
        assert found[1][-1] == pytest.approx(found[0][-1], abs=2e-3)
        assert found[1].min() > -1e-6


COUNTER = up.Ode({"x": "u"}, inputs=["u"], outputs=["x"])


@pytest.mark.parametrize("last", [(), (Return(),)])
def test_a_return_is_the_last_statement_also_where_the_same_stands_at_the_end(last: Any) -> None:
    """It was taken for the one at the end, which equals it, and ignored."""
    control = (Step("w"), When("n >= 3", (Return(),)), Assign("n", "n + 1"), *last)
    made = passing({"w": COUNTER}, {"u": "w.u"}, {"y": "n"}, control, controls=(Stored("n"),), mealy=False)
    trace = same_on_both(up.Scenario({"m": up.adapted(made)}, {"m.u": "1"}))
    assert trace["m.y"].tolist() == [0, 1, 2, 3, 3, 3, 3, 3, 3, 3, 3]


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize(
    "control",
    [
        (When("n == 2", (Assign("w.u", 100.0),)), Step("w")),
        (Loop(2, (When("n != 2", (Break(),)), Assign("w.u", 100.0))), Step("w")),
        (When("n == 2", (), (Assign("w.u", "in_u"),)), When("n == 2", (Assign("w.u", 100.0),)), Step("w")),
    ],
)
def test_an_assigned_input_keeps_that_for_one_step(control: tuple[Statement, ...], linked: bool) -> None:
    """What a branch assigns that is not taken switched in_rules and connections off, for good."""
    units: dict[str, Any] = {"w": COUNTER}
    more: dict[str, Any] = {"controls": (Stored("n"),)}
    into = "w.u"
    if linked:  # what is assigned takes the place of a connection, too
        units["v"], into = gain(1.0), "v.u"
        more["connections"], control = {"w.u": "v.y"}, (Step("v"), *control)
    made = passing(units, {"u": into}, {"y": "w.x"}, (*control, Assign("n", "n + 1")), **more)
    for flatten in (True, False):
        model = up.adapted(made, flatten=flatten)
        trace = same_on_both(up.Scenario({"m": model}, {"m.u": "1"}), until=0.6)
        np.testing.assert_allclose(trace["m.y"], [0, 0.1, 0.2, 10.2, 10.3, 10.4, 10.5], rtol=1e-12)


def test_in_a_loop_an_assignment_counts_for_the_rounds_after_it() -> None:
    control = (Loop(4, (Step("w", "t + k*H/4", "H/4"), When("k == 1", (Assign("w.u", 5.0),))), "k"),)
    made = passing({"w": COUNTER}, {"u": "w.u"}, {"y": "w.x"}, control)
    trace = same_on_both(up.Scenario({"m": up.adapted(made)}, {"m.u": "1"}), until=0.4)
    np.testing.assert_allclose(trace["m.y"], 0.1 * 3.0 * np.arange(5), rtol=1e-12)  # 1, 1, 5, 5


SAVED, BACK, WHOLE = SaveState("w"), Rollback("w"), Step("w")


@pytest.mark.parametrize(
    "control",
    [
        (BACK, WHOLE),
        (When("n == 2", (SAVED,)), When("n == 5", (BACK,)), WHOLE),
        (When("n > 0", (BACK,)), WHOLE, SAVED, Assign("n", 1.0)),
        (Loop(3, (When("n > 0", (Break(),)), SAVED)), BACK, WHOLE),
        (Loop(3, (BACK, WHOLE, SAVED)),),
    ],
)
def test_what_is_saved_is_of_this_step(control: tuple[Statement, ...]) -> None:
    """In another one it would be forgotten by checkpoints and by rollbacks from outside."""
    with pytest.raises(up.ModelError, match=r"no SaveState\('w'\) is certainly before .* Write SaveState"):
        passing({"w": COUNTER}, {"u": "w.u"}, {"y": "w.x"}, control, controls=(Stored("n"),))


def test_saved_in_every_case() -> None:
    """By every branch, or in every round: then there is nothing to refuse."""
    for control in (
        (When("n > 0", (SAVED,), (WHOLE, SAVED)), BACK, WHOLE),
        (Loop(3, (SAVED, WHOLE, When("k < 2", (BACK,))), "k"),),
        (SAVED, Loop(3, (BACK, WHOLE))),
        (SAVED, When("n > 3", (Return(),)), WHOLE, BACK, WHOLE),
    ):
        passing({"w": COUNTER}, {"u": "w.u"}, {"y": "w.x"}, control, controls=(Stored("n"),))


def test_a_loop_that_may_run_out_and_leave_its_unit_behind_is_refused() -> None:
    def made(loop: Loop, *after: Statement) -> Adaptation:
        control = (Local("n", 0.0), loop, *after)
        return passing({"w": COUNTER}, {"u": "w.u"}, {"y": "w.x"}, control)

    body = (SAVED, WHOLE, When("w.x > 1", (Break(),), (BACK,)))
    until = Loop(5, (SAVED, WHOLE, BACK), until="w.x > 1")
    for loop in (Loop(5, body), until, Loop(5, (SAVED, WHOLE, When("w.x > 1", (Return(),)), BACK))):
        with pytest.raises(up.ModelError, match=r"5 rounds, 'w' has made no step\. Write exhausted=\"fail\""):
            made(loop)
        made(loop, WHOLE)
        made(replace(loop, exhausted="fail"))
    made(Loop(5, (SAVED, WHOLE, When("w.x > 1", (Break(),)), When("k < 4", (BACK,))), "k"))


def test_outputs_of_a_mealy_one_have_what_in_makes_of_storage() -> None:
    """In was left out where no input reaches an output, though it reads what the control has stored."""
    made = Adaptation(
        {"w": COUNTER},
        (out("y"),),
        in_rules=(Rule((Assign("i", "n"),)),),
        control=(Step("w"), Assign("n", "n + 1")),
        out_rules=(Rule((), (Assign("y", "i"),)),),
        inputs=(Stored("i"),),
        controls=(Stored("n"),),
    )
    for mealy, first in ((True, 1.0), (False, 0.0)):
        trace = same_on_both(up.Scenario({"m": up.adapted(replace(made, mealy=mealy))}), until=0.3)
        assert trace["m.y"].tolist() == [0.0, first, first + 1, first + 2]
