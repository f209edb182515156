"""What adapted units show and store at the start time, and that other values renew what follows from them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import upbeat as up
from upbeat.adapt import Adaptation, Assign, Rule, Step, Stored
from upbeat.core.time import Span

ENGINES = ("interpret", "native")


def port(name: str, *, out: bool = False) -> up.Port:
    return up.Port(name, up.Causality.OUTPUT if out else up.Causality.INPUT)


def affine(k: float, c: float, *, mealy: bool) -> Adaptation:
    """y = k·u + c through storage; ``begun`` remembers what u was at the start."""
    return remembering(up.Function(["u"], {"y": f"{k!r}*u + {c!r}"}), mealy=mealy)


def remembering(model: Any, *, mealy: bool) -> Adaptation:
    return Adaptation(
        {"i": model},
        (port("u"), port("y", out=True), port("z", out=True)),
        in_rules=(Rule((Assign("s", "u"),), (Assign("i.u", "s"),)),),
        control=(Step("i"),),
        out_rules=(Rule((Assign("o", "i.y"),), (Assign("y", "o"), Assign("z", "begun"))),),
        inputs=(Stored("s"),),
        outputs=(Stored("o"),),
        controls=(Stored("begun"),),
        init=(Assign("begun", "u"),),
        mealy=mealy,
    )


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("coupling", ["jacobi", "gauss_seidel"])
def test_a_chain_of_adapted_units_begins_with_its_inputs(seed: int, coupling: str) -> None:
    turn = random.Random(seed)
    count = turn.randrange(1, 5)
    factors = [(turn.uniform(-2, 2), turn.uniform(-1, 1)) for _ in range(count)]
    names = [f"m{k}" for k in range(count)]
    units: dict[str, Any] = {
        name: up.adapted(affine(*factor, mealy=turn.random() < 0.4), flatten=turn.random() < 0.5)
        for name, factor in zip(names, factors, strict=True)
    }
    units["wave"] = up.Function(outputs={"y": "3 + sin(5*time)"})
    order = list(units)
    turn.shuffle(order)
    links = {f"{name}.u": f"{before}.y" for before, name in zip(["wave", *names], names, strict=False)}
    scenario = up.Scenario({name: units[name] for name in order}, links)
    for engine in ENGINES:
        trace = up.simulate(scenario, engine=engine, pace=0.1, until=0.2, coupling=coupling)
        value = 3.0
        for name, (k, c) in zip(names, factors, strict=True):
            assert trace[f"{name}.z"].tolist() == pytest.approx([value] * 3, abs=1e-12)
            value = k * value + c
            assert trace[f"{name}.y"][0] == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("engine", ENGINES)
def test_where_inputs_depend_on_the_own_outputs_start_values_decide(engine: str) -> None:
    first, second = (up.adapted(affine(k, 1.0, mealy=False)) for k in (2.0, 3.0))
    scenario = up.Scenario({"a": first, "b": second}, {"a.u": "b.y", "b.u": "a.y"})
    trace = up.simulate(scenario, engine=engine, pace=0.1, until=0.1)  # with u = 0, y is 1 for both
    assert trace["a.y"].tolist() == [1.0, 3.0]
    assert trace["b.y"].tolist() == [1.0, 4.0]
    assert trace["a.z"].tolist() == trace["b.z"].tolist() == [0.0, 0.0]
    assert any("begins with their start values" in note for note in trace.notes)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("coupling", ["jacobi", "gauss_seidel"])
def test_states_in_a_loop_do_not_hide_inputs_from_the_start(engine: str, coupling: str) -> None:
    models = [up.Ode({"x": "u"}, inputs=["u"], outputs={"y": "x"}, start={"x": x}) for x in (2.0, 5.0)]
    first, second = (up.adapted(remembering(model, mealy=True)) for model in models)
    scenario = up.Scenario({"a": first, "b": second}, {"a.u": "-b.y", "b.u": "a.y"})
    trace = up.simulate(scenario, engine=engine, pace=0.1, until=0.1, coupling=coupling)
    assert trace["a.z"].tolist() == [-5.0, -5.0]
    assert trace["b.z"].tolist() == [2.0, 2.0]
    assert not any("start values" in note for note in trace.notes)


BLOCKS = ("low_pass 0.05 on y", "transport_delay 0.02 on y", "pade_delay 0.02 on y", "derivative 0.05 on y")


@pytest.mark.parametrize("block", BLOCKS)
def test_blocks_on_an_output_begin_with_what_it_shows(block: str) -> None:
    still = up.Ode({"x": "0"}, start={"x": 3.0}, outputs={"y": "k*x + 1"}, parameters={"k": 2.0})
    model = up.adapted(still, "y = 2*y", block)
    for changed, level in (({}, 7.0), ({"x": 5.0}, 11.0), ({"k": 1.0}, 4.0)):
        experiment = up.Experiment(up.Scenario({"m": model}), up.Master(up.Fixed(0.01)), Span(0.0, 0.1))
        experiment.run()  # so that there is a plan, which must not be kept
        trace = experiment.with_values({f"m.{name}": value for name, value in changed.items()}).run()
        expected = 0.0 if block.startswith("derivative") else 2.0 * level
        assert np.allclose(trace["m.y"], expected, atol=1e-12)


def test_a_mean_of_a_period_follows_other_parameters() -> None:
    text = {"q": "A if f*time - floor(f*time) < d else 0"}
    for values in ({"d": 0.6}, {"A": 50.0}, {"f": 330.0, "d": 0.1}, {}):
        parameters = {"A": 100.0, "f": 1000.0, "d": 0.3}
        loss = up.Function(outputs=text, parameters=parameters)
        experiment = up.Experiment(
            up.Scenario({"m": up.adapted(loss, "average on q")}), up.Master(up.Fixed(0.1)), Span(0.0, 1.0)
        )
        experiment.run()
        trace = experiment.with_values({f"m.{name}": value for name, value in values.items()}).run()
        chosen = {**parameters, **values}
        mean = chosen["A"] * chosen["d"]
        assert trace["m.q"].tolist() == pytest.approx([mean] * len(trace["m.q"]), rel=0.01)


@pytest.mark.parametrize("pulses", [4, 377, 610, 3194])  # Fibonacci numbers fall into step with golden ratios
def test_the_mean_of_a_phase_that_is_a_state(pulses: int) -> None:
    share = 0.0694
    rate, text = repr(pulses / 0.1), f"100 if p - floor(p) < {share} else 0"
    model = up.adapted(up.Ode({"p": rate}, outputs={"q": text}), "average on q")
    trace = up.simulate(up.Scenario({"m": model}), pace=0.1, until=0.2)
    assert trace["m.q"].tolist() == pytest.approx([100 * share] * 3, rel=0.01)


def test_a_mean_that_may_miss_pulses_says_so() -> None:
    model = up.Ode({"p": "f"}, inputs=["f"], outputs={"q": "100 if p - floor(p) < 0.3 else 0"})
    trace = up.simulate(up.Scenario({"m": up.adapted(model, "average on q")}), pace=0.1, until=0.2)
    assert any(note.startswith("m: q may jump with p") for note in trace.notes)


@pytest.mark.parametrize("program", ["rate 2", "lazy on u with longest = 0.3", "average on x with steps = 2"])
@pytest.mark.parametrize(
    ("switch", "named"),
    [
        ("relay on u with above = 0.5, below = -0.5", "relay_u (u > above; u < below)"),
        ("quantizer 0.1 on x", "quantizer_x"),
    ],
)
def test_a_switch_inside_a_program_is_told_by_name(program: str, switch: str, named: str) -> None:
    plant = up.Ode({"x": "u"}, inputs=["u"], outputs=["x"])
    wave = up.Function(outputs={"y": "sin(3*time)"})

    def notes(*adaptations: str) -> list[str]:
        units = {"s": wave, "m": up.adapted(plant, *adaptations)}
        trace = up.simulate(up.Scenario(units, {"m.u": "s.y"}), pace=0.1, until=0.2)
        return [note for note in trace.notes if "makes its steps" in note]

    (said,) = notes(switch, program)
    assert said.startswith("m.")
    assert named in said
    assert not notes(switch)
    assert not notes(program, switch)


@pytest.mark.parametrize(
    "adaptations",
    [
        ("low_pass 0.1 on x",),
        ("rate 2",),
        ("every 0.1",),
        ("low_pass 0.1 on x", "rate 2"),
        ("rate 2", "every 0.1"),
        ("every 0.1", "low_pass 0.1 on x"),
        ("rate 2", "rate 3"),
        ("average on x",),
    ],
)
def test_values_keep_their_names_under_adaptations(adaptations: tuple[str, ...]) -> None:
    plant = up.Ode({"x": "(u - x)/T"}, inputs=["u"], outputs=["x"], parameters={"T": 1.0})
    scenario = up.Scenario({"m": up.adapted(plant, *adaptations)}, {"m.u": "1"})
    for name, value in (("T", 0.5), ("x", 0.25)):
        made = up.Scenario({"m": up.adapted(plant.with_values({name: value}), *adaptations)}, {"m.u": "1"})
        expected = up.simulate(made, pace=0.1, until=0.5)["m.x"].tolist()
        for way in (name, f"unit.{name}"):
            trace = up.simulate(scenario.with_values({f"m.{way}": value}), pace=0.1, until=0.5)
            assert trace["m.x"].tolist() == expected


@pytest.mark.parametrize("adaptations", [("gain 1 on x",), ("rate 2",), ("rate 2", "rate 3")])
def test_a_parameter_keeps_its_name_during_a_run(adaptations: tuple[str, ...]) -> None:
    plant = up.Ode({"x": "(u - x)/T"}, inputs=["u"], outputs=["x"], parameters={"T": 1.0})
    scenario = up.Scenario({"m": up.adapted(plant, *adaptations)}, {"m.u": "1"})
    ends = []
    for name in ("m.T", "m.unit.T"):
        with up.Run(up.experiment(scenario, step=0.1, until=0.5)) as run:
            run.step()
            run.set(name, 0.1)
            ends.append(float(run.finish()["m.x"][-1]))
    assert ends[0] == ends[1] > 0.9
