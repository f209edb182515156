"""A scenario as a model again: the same numbers nested as flat, at any depth, in both engines."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import upbeat as up
from upbeat.engine.interpret import Interpreter
from upbeat.engine.native import machine as native

MASS = up.Ode(states={"x": "v", "v": "F - x"}, start={"x": 1.0}, inputs=["F"], outputs=["x", "v"])
SPRING = up.Function(inputs=["x"], outputs={"F": "-2*x"})
DAMPER = up.Function(inputs=["v"], outputs={"F": "-0.4*v"})
H = 0.05


def master(step: float = H, **more: object) -> up.Master:
    return up.Master(pace=up.Fixed(step), **more)  # type: ignore[arg-type]


FLAT = up.Scenario(
    units={"mass": MASS, "spring": SPRING, "damper": DAMPER},
    connections={"mass.F": "spring.F + (damper.F + push)", "spring.x": "mass.x", "damper.v": "mass.v"},
    inputs={"push": {"start": 0.5}},
    outputs={"x": "mass.x", "v": "mass.v"},
)


def one_deep(inner: up.Master, engine: str = "auto") -> up.Scenario:
    """Mass and spring inside, the damper outside."""
    inside = up.Scenario(
        units={"mass": MASS, "spring": SPRING},
        connections={"mass.F": "spring.F + load", "spring.x": "mass.x"},
        inputs=["load"],
        outputs={"x": "mass.x", "v": "mass.v"},
    )
    return up.Scenario(
        units={"car": up.Nested(inside, inner, engine), "damper": DAMPER},  # type: ignore[arg-type]
        connections={"car.load": "damper.F + push", "damper.v": "car.v"},
        inputs={"push": {"start": 0.5}},
        outputs={"x": "car.x", "v": "car.v"},
    )


def deeper(scenario: up.Scenario, levels: int, inner: up.Master) -> up.Scenario:
    """The whole scenario inside another one, so many times."""
    for _ in range(levels):
        scenario = up.Scenario(
            units={"box": up.Nested(scenario, inner)},
            connections={"box.push": "push"},
            inputs={"push": {"start": 0.5}},
            outputs={"x": "box.x", "v": "box.v"},
        )
    return scenario


@pytest.mark.parametrize("inner_engine", ["interpret", "auto"])
def test_nested_is_flat_bit_for_bit_where_the_masters_are_the_same(engine: str, inner_engine: str) -> None:
    flat = up.simulate(FLAT, pace=H, until=3.0, engine=engine)
    nested = up.simulate(one_deep(master(), inner_engine), pace=H, until=3.0, engine=engine)
    for name in ("x", "v"):
        np.testing.assert_array_equal(nested[name], flat[name])


def test_three_deep_is_flat(engine: str) -> None:
    flat = up.simulate(FLAT, pace=H, until=2.0, engine=engine)
    deep = up.simulate(deeper(FLAT, 3, master()), pace=H, until=2.0, engine=engine)
    for name in ("x", "v"):
        np.testing.assert_array_equal(deep[name], flat[name])


def test_the_inside_has_a_rate_of_its_own(engine: str) -> None:
    """Closed inside, the inner rate alone decides: nested at H with steps of H/5 is flat with H/5."""
    nested = up.simulate(deeper(FLAT, 1, master(H / 5)), pace=H, until=2.0, engine=engine)
    fine = up.simulate(FLAT, pace=H / 5, until=2.0, every=5, engine=engine)
    np.testing.assert_allclose(nested["x"], fine["x"], rtol=1e-12, atol=1e-14)


def test_trajectories_reach_the_inside(engine: str) -> None:
    """A linear input is sampled by the inner master at its own points: the inner sum sees the ramp."""
    inside = up.Scenario(
        units={"sum": up.Ode(states={"x": "u"}, inputs=["u"], solver=up.Euler())},
        connections={"sum.u": "w"},
        inputs=["w"],
        outputs={"x": "sum.x"},
    )
    clock = up.Function(outputs={"y": "time"})
    outer = up.Scenario(units={"n": up.Nested(inside, master(0.1)), "c": clock}, connections={"n.w": "c.y"})
    coupling = up.GaussSeidel(order=("c", "n"))
    trace = up.simulate(outer, pace=0.5, until=2.0, coupling=coupling, inputs=up.Linear(), engine=engine)
    left_sums = [0.1 * sum(0.1 * k for k in range(5 * n)) for n in range(5)]
    np.testing.assert_allclose(trace["n.x"], left_sums, atol=1e-12)


def test_feedthrough_is_found_through_the_inside() -> None:
    gain = up.Function(inputs=["u"], outputs={"y": "2*u"})
    lag = up.Ode(states={"x": "u - x"}, inputs=["u"])
    inside = up.Scenario(
        units={"g": gain, "l": lag},
        connections={"g.u": "a + b", "l.u": "b"},
        inputs=["a", "b"],
        outputs={"direct": "g.y", "state": "l.x"},
    )
    ports = {port.name: port for port in up.Nested(inside, master()).ports}
    assert ports["direct"].depends == {"a", "b"}
    assert ports["state"].depends == frozenset()


def test_a_nested_scenario_can_be_set_back(engine: str) -> None:
    """Iterated coupling repeats steps of the nested unit and agrees with the flat iteration."""
    nested = up.simulate(
        one_deep(master()),
        pace=H,
        until=1.0,
        coupling=up.Iterated(corrections=2),
        inputs=up.Linear(),
        engine=engine,
    )
    again = up.simulate(
        one_deep(master()),
        pace=H,
        until=1.0,
        coupling=up.Iterated(tolerance=1e-12),
        inputs=up.Linear(),
        engine=engine,
    )
    np.testing.assert_allclose(nested["x"], again["x"], atol=1e-5)
    assert up.Ability.ROLLBACK in one_deep(master()).units["car"].abilities


def test_an_error_inside_names_the_whole_way(engine: str) -> None:
    blow = up.Ode(states={"x": "x*x"}, start={"x": 1.0}, solver=up.Euler())
    inside = up.Scenario(units={"blow": blow}, outputs={"x": "blow.x"})
    middle = up.Scenario(units={"in": up.Nested(inside, master(0.5))}, outputs={"x": "in.x"})
    outer = up.Scenario(units={"box": up.Nested(middle, master(0.5))})
    with pytest.raises(up.UnitError, match=r"unit 'box\.in\.blow' failed in get\('x'\).*output 'x' is inf"):
        up.simulate(outer, pace=0.5, until=50.0, engine=engine)


def test_a_scenario_without_outputs_cannot_be_nested() -> None:
    with pytest.raises(up.MasterError, match="needs outputs"):
        up.Nested(up.Scenario(units={"m": MASS}), master())


def test_values_reach_the_inside(engine: str) -> None:
    inside = up.Scenario(
        units={"d": up.Ode(states={"x": "-k*x"}, start={"x": 1.0}, parameters={"k": 1.0})},
        outputs={"x": "d.x"},
    )
    outer = up.Scenario(units={"n": up.Nested(inside, master()).with_values({"d.k": 3.0})})
    trace = up.simulate(outer, pace=H, until=1.0, engine=engine)
    assert trace["n.x"][-1] == pytest.approx(np.exp(-3), rel=1e-4)


def deep_model() -> up.Nested:
    inner = up.Nested(FLAT, master(H / 2), engine="interpret", flatten=False)
    scenario = up.Scenario(
        units={"box": inner, "gain": SPRING},
        connections={"box.push": "push + 0.1*gain.F", "gain.x": "box.x"},
        inputs={"push": 0.5},
        outputs={"x": "box.x", "v": "box.v"},
    )
    return up.Nested(scenario, master(inputs=up.Linear()), engine="interpret", flatten=False)


GO_ON = """
import json, pickle, sys
model, state, start, until = pickle.load(sys.stdin.buffer)
unit = model.instantiate("other", 0.0)
unit.restore(unit.from_bytes(state))
unit.advance(start, until, False)
print(json.dumps([unit.get("x"), unit.get("v")]))
"""


def test_states_travel_as_bytes_to_another_process() -> None:
    model = deep_model()
    assert {up.Ability.SERIALISE, up.Ability.ROLLBACK} <= model.abilities
    unit: Any = model.instantiate("n", 0.0)
    unit.set("push", [0.25, 1.0])
    unit.advance(0.0, 5 * H, False)
    unit.set("push", [0.75])
    state = unit.to_bytes(unit.save())
    unit.advance(5 * H, 9 * H, False)
    given = pickle.dumps((model, state, 5 * H, 9 * H))
    other = subprocess.run([sys.executable, "-c", GO_ON], input=given, capture_output=True, check=True)
    assert json.loads(other.stdout) == [unit.get("x"), unit.get("v")]


@pytest.mark.parametrize("data", [b"", b"\xff", b"3", b"UPBEAT state\n", b"[1, 2, 3, 4]", bytes(100)])
def test_other_bytes_are_refused(data: bytes) -> None:
    unit: Any = deep_model().instantiate("n", 0.0)
    with pytest.raises(up.ModelError, match="not a state of"):
        unit.from_bytes(data)


@pytest.mark.parametrize("engine", ["interpret", "native"] if native.available() else ["interpret"])
def test_incomplete_bytes_are_refused(engine: str) -> None:
    """Other damage is noticed by the checksum of the machine that the unit runs in."""
    outer = up.experiment(
        up.Scenario(units={"n": deep_model()}, outputs={"x": "n.x"}), pace=H, until=1.0, engine=engine
    )
    made: Any = Interpreter if engine == "interpret" else native.machine
    machine = made(outer.plan.program, outer.closed.units, 0.0)
    data = machine.to_bytes(machine.save())
    unit: Any = deep_model().instantiate("n", 0.0)
    own = unit.to_bytes(unit.save())
    for at in range(0, len(data), 7):
        with pytest.raises(up.ModelError, match="not a state of"):
            machine.from_bytes(data[:at] + bytes([data[at] ^ 16]) + data[at + 1 :])
        with pytest.raises(up.ModelError, match="not a state of"):
            unit.from_bytes(own[:at][:-1])
    machine.close()


@pytest.mark.skipif(not native.available(), reason="the native engine is not built")
@pytest.mark.parametrize("engines", [("interpret", "native"), ("native", "interpret"), ("native", "native")])
def test_states_travel_between_engines(engines: tuple[str, str]) -> None:
    first, second = (replace(deep_model(), engine=engine) for engine in engines)  # type: ignore[arg-type]
    assert up.Ability.SERIALISE in first.abilities
    assert up.Ability.SERIALISE in second.abilities
    unit: Any = first.instantiate("n", 0.0)
    unit.set("push", [0.25, 1.0])
    unit.advance(0.0, 5 * H, False)
    state = unit.to_bytes(unit.save())
    unit.advance(5 * H, 9 * H, False)
    other: Any = second.instantiate("m", 0.0)
    other.restore(other.from_bytes(state))
    assert other.to_bytes(other.save()) == state
    other.advance(5 * H, 9 * H, False)
    assert [other.get("x"), other.get("v")] == [unit.get("x"), unit.get("v")]


@pytest.mark.skipif(not native.available(), reason="the native engine is not built")
@pytest.mark.parametrize("engines", [("interpret", "native"), ("native", "interpret"), ("native", "native")])
@pytest.mark.parametrize(
    "pace", [up.Fixed(H / 2), up.ErrorControl(1e-2, per="step")], ids=["fixed", "error control"]
)
def test_a_nest_inside_the_core_writes_the_same_bytes(engines: tuple[str, str], pace: Any) -> None:
    inner = up.Nested(FLAT, up.Master(pace=pace), flatten=False)
    middle = up.Scenario(
        units={"box": inner}, connections={"box.push": "push"}, inputs={"push": 0.5}, outputs={"x": "box.x"}
    )
    units = {"nest": up.Nested(middle, master(H / 2), flatten=False), "gain": SPRING}
    outer = up.experiment(
        up.Scenario(units=units, connections={"nest.push": "gain.F", "gain.x": "nest.x"}), pace=H, until=1.0
    )
    program, models = outer.plan.program, outer.closed.units
    assert up.Ability.NATIVE in models["nest"].abilities
    build = {"interpret": Interpreter, "native": native.machine}
    one, same, other = (build[engine](program, models, 0.0) for engine in (engines[0], *engines))

    def step(machine: Any, k: int) -> None:
        machine.write(program.now, k * H)
        machine.write(program.next, (k + 1) * H)
        machine.execute("step")

    for machine in (one, same):
        machine.execute("start")
        for k in range(4):
            step(machine, k)
    data = one.to_bytes(one.save())
    other.restore(other.from_bytes(data))
    assert same.to_bytes(same.save()) == data
    assert other.to_bytes(other.save()) == data
    for k in range(4, 8):
        step(one, k)
        step(other, k)
    assert other.to_bytes(other.save()) == one.to_bytes(one.save())
    foreign = {**units, "nest": up.Nested(middle, master(H / 2, inputs=up.Linear()), flatten=False)}
    stranger = Interpreter(program, foreign, 0.0)
    with pytest.raises(up.ModelError, match="other ports, other states or another master"):
        one.from_bytes(stranger.to_bytes(stranger.save()))


class Limited:
    """Accepts steps of at most `most`, and counts time in its output."""

    def __init__(self, name: str, start: float, parameters: dict[str, Any]) -> None:
        self.time, self.most = start, parameters["most"]

    def get(self, port: str) -> float:
        return self.time

    def set(self, port: str, coefficients: Any) -> None: ...

    def advance(self, t: float, to: float, early: bool) -> float:
        assert t == self.time
        assert early or to - t <= self.most * (1 + 1e-9)
        self.time = min(to, t + self.most) if early else to
        return self.time

    def save(self) -> float:
        return self.time

    def restore(self, token: float) -> None:
        self.time = token


def limited(most: float, rollback: bool) -> up.PythonUnit:
    abilities = {up.Ability.EARLY_RETURN} if most < 1 else set()
    ports = (
        up.Port("u", up.Causality.INPUT),
        up.Port("y", up.Causality.OUTPUT),
        up.Port("most", up.Causality.PARAMETER, start=most),
    )
    return up.PythonUnit(
        Limited, ports, abilities=frozenset(abilities | ({up.Ability.ROLLBACK} if rollback else set()))
    )


@pytest.mark.parametrize(
    "back", [(True, True, True), (False, True, True), (True, False, True), (True, True, False)]
)
@pytest.mark.parametrize("inside", ["ac", "bc", "ab", "a", "c"])
def test_steps_are_negotiated_through_a_nest(engine: str, inside: str, back: tuple[bool, ...]) -> None:
    models = {n: limited(m, r) for n, m, r in zip("abc", (0.03, 0.05, 9.0), back, strict=True)}
    inner = up.Scenario(
        units={n: models[n] for n in inside},
        connections={f"{inside[0]}.u": "w"},
        inputs=["w"],
        outputs={n: f"{n}.y" for n in inside},
    )
    rest = {n: m for n, m in models.items() if n not in inside}
    outer = up.Scenario(
        units={"nest": up.Nested(inner, master(0.1, coupling=up.Negotiated())), **rest},
        connections={"nest.w": f"{next(iter(rest))}.y"},
    )
    nest = outer.units["nest"]
    assert (up.Ability.EARLY_RETURN in nest.abilities) == (inside != "c")
    trace = up.simulate(outer, pace=0.1, until=0.3, coupling=up.Negotiated(), engine=engine)
    expected = sorted({round(k * 0.1 + j * 0.03, 9) for k in range(3) for j in range(4)} | {0.3})
    np.testing.assert_allclose(trace.time, expected, atol=1e-9)
    for n in "abc":
        column = f"nest.{n}" if n in inside else f"{n}.y"
        np.testing.assert_allclose(trace[column], trace.time, atol=1e-12)


# -------------------------------------------------------------------- how long the run is


def lonely(pace: object, engine: str) -> tuple[up.Scenario, list[float]]:
    """A unit that notes where its steps begin, nested."""
    seen: list[float] = []

    class Noting:
        def __init__(self, name: str, start: float, parameters: dict[str, object]) -> None: ...

        def get(self, port: str) -> float:
            return 0.0

        def set(self, port: str, coefficients: object) -> None: ...

        def advance(self, t: float, to: float, early: bool) -> float:
            seen.append(t)
            return to

    unit = up.PythonUnit(Noting, (up.Port("u", up.Causality.INPUT), up.Port("y", up.Causality.OUTPUT)))
    inner = up.Scenario(units={"n": unit}, connections={"n.u": "n.y"}, outputs={"y": "n.y"})
    nest = up.Nested(inner, up.Master(pace), engine=engine)
    return up.Scenario(units={"nest": nest}), seen


def test_there_is_no_longest_step_inside(engine: str) -> None:
    """Without any error, steps double from 1e-5·50 on, until one is as long as an advance of 50."""
    pace = up.ErrorControl(1e-5, method="milne", correct="next")
    scenario, seen = lonely(pace, engine)
    up.simulate(scenario, pace=50.0, until=200.0, engine=engine)
    assert len(seen) < 30
    assert [t for t in seen if t >= 100.0] == [100.0, 150.0]


def test_a_tolerance_for_the_whole_run_is_refused_inside() -> None:
    with pytest.raises(up.MasterError, match=r"does not know the stop time.*per=\"step\""):
        lonely(up.ErrorControl(1e-5), "auto")


def test_the_error_inside_does_not_depend_on_the_length_of_the_run() -> None:
    """The same steps are made, whether the run goes on or not."""
    turning = up.Scenario(
        units={
            "p": up.Ode(states={"x": "v"}, start={"x": 1.0}, inputs=["v"]),
            "q": up.Ode(states={"v": "-x"}, inputs=["x"]),
        },
        connections={"p.v": "q.v", "q.x": "p.x"},
        outputs={"x": "p.x"},
    )
    nest = up.Nested(turning, up.Master(up.ErrorControl(1e-5, per="step"), inputs=up.Linear()))
    outer = up.Scenario(units={"nest": nest})
    short, long = (up.simulate(outer, pace=1.0, until=until) for until in (2.0, 20.0))
    np.testing.assert_array_equal(short["nest.x"], long["nest.x"][:3])
    np.testing.assert_allclose(long["nest.x"], np.cos(long.time), atol=0.05)


def test_nobody_keeps_a_log_of_the_steps_inside() -> None:
    unit = up.Nested(
        up.Scenario(units={"a": up.Ode(states={"x": "1"})}, outputs={"x": "a.x"}),
        up.Master(up.Fixed(0.01)),
        engine="interpret",
    ).instantiate("nest", 0.0)
    unit.advance(0.0, 1.0, False)
    assert len(unit._loop.steps) == 0
    assert len(unit._loop.events) == 0


def very_deep(levels: int) -> up.Scenario:
    scenario = FLAT
    for _ in range(levels):
        scenario = up.Scenario(
            units={"box": up.Nested(scenario, master(), flatten=False)},
            connections={"box.push": "push"},
            inputs={"push": {"start": 0.5}},
            outputs={"x": "box.x", "v": "box.v"},
        )
    return scenario


def test_the_start_of_what_stays_nested_costs_the_same_at_every_level(engine: str) -> None:
    """Forty levels deep: anything that asked twice at each level would never end."""
    trace = up.simulate(very_deep(40), pace=H, until=2 * H, engine=engine)
    np.testing.assert_array_equal(trace["x"], up.simulate(FLAT, pace=H, until=2 * H, engine=engine)["x"])


@pytest.mark.parametrize("levels", [1, 2])
@pytest.mark.parametrize("inner_engine", ["auto", "interpret"])
@pytest.mark.parametrize(
    ("coupling", "words"),
    [
        (up.Iterated(), "unit 'a' does not have: can be set back"),
        (up.Negotiated(), "a and b may stop before the end"),
    ],
    ids=["rollback", "stops"],
)
def test_a_master_that_does_not_fit_inside_is_refused_before_the_run(
    engine: str, inner_engine: Any, levels: int, coupling: Any, words: str
) -> None:
    """As in a flat scenario, and by the name of the nest."""
    units = {"a": limited(0.03, False), "b": limited(0.05, False)}
    scenario = up.Scenario(units=units, connections={"a.u": "b.y"}, outputs={"y": "a.y"})
    with pytest.raises(up.MasterError, match=words):
        assert up.experiment(scenario, pace=0.1, until=1.0, coupling=coupling, engine=engine).plan

    def nested() -> up.Experiment:
        outer, chosen = scenario, coupling
        for _ in range(levels):
            nest = up.Nested(outer, master(0.1, coupling=chosen), inner_engine)
            outer, chosen = up.Scenario(units={"nest": nest}, outputs={"y": "nest.y"}), up.GaussSeidel()
        return up.experiment(outer, pace=0.1, until=1.0, engine=engine)

    for attempt in (lambda made: made.plan, lambda made: made.choice, lambda made: made.open()):
        with pytest.raises(up.MasterError, match=f"^(inside 'nest': )+{words}"):
            attempt(nested())


def test_what_is_no_scenario_or_no_master_is_refused_where_it_is_written() -> None:
    with pytest.raises(up.MasterError, match="first argument of Nested is a Scenario, not "):
        up.Nested({"mass": MASS}, master())  # type: ignore[arg-type]
    with pytest.raises(
        up.MasterError, match=r"second argument of Nested is a Master, not Fixed\(step=0\.1\)"
    ):
        up.Nested(FLAT, up.Fixed(0.1))  # type: ignore[arg-type]


def test_a_wrong_value_inside_a_nested_scenario_is_named_by_its_whole_way() -> None:
    inner = up.Scenario(
        units={"a": up.Ode(states={"x": "-k*x"}, parameters={"k": 1.0})}, outputs={"x": "a.x"}
    )
    outer = up.Scenario(units={"m": up.Nested(inner, up.Master(up.Fixed(0.1)))})
    with pytest.raises(up.ScenarioError) as caught:
        outer.with_values({"m.a.q": 3.0})
    (problem,) = caught.value.problems
    assert problem.where == ("values", "m.a.q")
    assert problem.what.startswith("inside 'm': unit 'a': ")
