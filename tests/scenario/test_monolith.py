"""The monolith against closed forms, matrix exponentials and SciPy, and couplings against the monolith."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp
from scipy.linalg import expm
from scipy.optimize import brentq

import upbeat as up
from strategies import scenarios
from upbeat.scenario.scenario import Scenario
from upbeat.units.equations.implicit import Implicit

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(scenario: up.Scenario, step: float = 0.1, until: float = 1.0, **more: Any) -> up.Trace:
    return up.simulate(scenario, pace=step, until=until, engine="interpret", **more)


def model(scenario: up.Scenario) -> Any:
    (only,) = scenario.units.values()
    return only


def masses() -> up.Scenario:
    return up.load(EXAMPLES / "coupled_masses.toml").scenario


# -------------------------------------------------------------------- against closed forms


@pytest.mark.parametrize("engine", ["interpret", "auto"])
def test_coupled_masses_are_their_matrix_exponential(engine: Any) -> None:
    trace = up.simulate(masses().monolith(), pace=up.Fixed(0.5), until=10.0, engine=engine)
    matrix = np.array([[0, 1, 0, 0], [-2, -2, 1, 1], [0, 0, 0, 1], [1, 1, -2, -1]])
    for k, t in enumerate(trace.time):
        x = expm(matrix * t) @ [1.0, 0.0, 0.0, 0.0]
        here = [trace[name][k] for name in ("left.x", "left.v", "right.x", "right.v")]
        assert here == pytest.approx(x, abs=1e-8)
        assert trace["right.F"][k] == pytest.approx(x[2] - x[0] + x[3] - x[1], abs=1e-8)
        assert trace["stretch"][k] == pytest.approx(x[2] - x[0], abs=1e-8)


def test_tanks_agree_with_scipy() -> None:
    trace = up.load(EXAMPLES / "tank.toml").with_(engine="interpret", record=("*",)).monolithic().run()

    def rates(t: float, level: Any) -> list[float]:
        upper = level[0]
        on = t % 60 < 60 * min(max((1.2 - upper) / 0.2, 0.0), 1.0)
        flow = np.interp(upper * 100, [0, 50, 100, 150, 200], [60, 54, 42, 24, 0]) / 60_000 if on else 0.0
        out = [1.5e-4 * np.sqrt(2 * 9.81 * max(x, 0.0)) for x in level]
        return [(flow - out[0]) / 0.5, (out[0] - out[1]) / 0.8]

    judge = solve_ivp(rates, (0, 3600), [0.4, 0.0], t_eval=trace.time, rtol=1e-9, atol=1e-11, max_step=1.0)
    assert trace["upper.level"] == pytest.approx(judge.y[0], abs=1e-6)
    assert trace["lower.level"] == pytest.approx(judge.y[1], abs=1e-6)
    assert trace["switch.on"].dtype == bool
    assert trace["pump.height"] == pytest.approx(100 * judge.y[0], abs=1e-4)
    assert trace["drained"] == pytest.approx(60_000 * trace["lower.outflow"])


COEFFICIENTS = st.integers(-8, 8).map(lambda k: k / 8)


def matrix(rows: int, columns: int, scale: float = 1.0) -> st.SearchStrategy[np.ndarray[Any, Any]]:
    count = rows * columns
    return st.lists(COEFFICIENTS, min_size=count, max_size=count).map(
        lambda values: scale * np.array(values).reshape(rows, columns)
    )


def row(factors: Any, names: list[str]) -> str:
    return " + ".join(f"({float(f)!r})*{name}" for f, name in zip(factors, names, strict=True) if f) or "0"


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_linear_scenarios_are_their_matrix_exponential(data: st.DataObject) -> None:
    count = data.draw(st.integers(2, 4))
    a, b, c = (np.zeros((2 * count, 2 * count)) for _ in range(3))
    d = np.zeros((2 * count, 2 * count))
    units, wide = {}, data.draw(st.booleans())
    states = ["x[0]", "x[1]"] if wide else ["x", "v"]
    inputs = ["u[0]", "u[1]"] if wide else ["u", "w"]
    outputs = ["y[0]", "y[1]"] if wide else ["y", "z"]
    for k in range(count):
        part = slice(2 * k, 2 * k + 2)
        for whole, scale in ((a, 1.0), (b, 1.0), (c, 1.0), (d, 0.125)):
            whole[part, part] = data.draw(matrix(2, 2, scale))
        rates = [f"{row(p, states)} + {row(q, inputs)}" for p, q in zip(a[part, part], b[part, part])]  # noqa: B905
        given = [f"{row(p, states)} + {row(q, inputs)}" for p, q in zip(c[part, part], d[part, part])]  # noqa: B905
        units[f"m{k}"] = (
            up.Ode({"x": rates}, start={"x": [1.0, -1.0]}, inputs={"u": {"size": 2}}, outputs={"y": given})
            if wide
            else up.Ode(
                dict(zip(states, rates, strict=True)),
                start={"x": 1.0, "v": -1.0},
                inputs=inputs,
                outputs=dict(zip(outputs, given, strict=True)),
            )
        )
    coupling = data.draw(matrix(2 * count, 2 * count, 0.5))
    sources = [f"m{k}.{name}" for k in range(count) for name in outputs]
    values = [row(line, sources) for line in coupling]
    connections: dict[str, Any] = {
        f"m{k}.{name}": values[2 * k + i] for k in range(count) for i, name in enumerate(inputs)
    }
    if wide:
        connections = {f"m{k}.u": values[2 * k : 2 * k + 2] for k in range(count)}
    trace = run(up.Scenario(units, connections).monolith(), step=0.5)
    inner = np.linalg.solve(np.eye(2 * count) - coupling @ d, coupling @ c)  # u = K(Cx + Du)
    x = expm(a + b @ inner) @ np.tile([1.0, -1.0], count)
    y = (c + d @ inner) @ x
    assert [trace[name][-1] for name in sources] == pytest.approx(y, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize(("inputs", "order"), [(up.Hold(), 1), (up.Linear(), 2)])
def test_couplings_converge_to_the_monolith(inputs: Any, order: int) -> None:
    scenario = up.Scenario(
        {
            "a": up.Ode(
                {"x": "y - x"}, start={"x": 1.0}, inputs=["y"], solver=up.DormandPrince(1e-11, 1e-13)
            ),
            "b": up.Ode({"y": "-x*y"}, start={"y": 2.0}, inputs=["x"], solver=up.DormandPrince(1e-11, 1e-13)),
        },
        {"a.y": "b.y", "b.x": "a.x"},
    )
    truth = run(scenario.monolith(), step=0.1)
    errors = []
    for parts in (4, 8, 16):
        coupled = run(scenario, step=0.1 / parts, every=parts, inputs=inputs)
        assert coupled.names == truth.names[: len(coupled.names)]
        errors.append(max(np.max(np.abs(coupled[n] - truth[n])) for n in coupled.names))
    slopes = np.log2(np.array(errors[:-1]) / errors[1:])
    assert slopes == pytest.approx(order, abs=0.2)


def by_euler(unit: Any) -> Any:
    """The same unit, but with Euler's method and without a wish for the time of its inputs."""
    spec = unit.to_spec()
    for entry in spec.get("inputs", {}).values():
        if isinstance(entry, dict):
            entry.pop("reactive", None)
    return type(unit)(**spec | ({"solver": "euler"} if isinstance(unit, up.Ode) else {}))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(scenarios())
def test_euler_steps_apart_are_euler_steps_together(scenario: up.Scenario) -> None:
    """Jacobi with held inputs, every unit by Euler's method, is Euler's method on the whole: bit for bit.

    Without events: these end a step of the solver early, and a step of the whole is not one of its parts.
    """
    assume(all(type(unit) in (up.Ode, up.Function) for unit in scenario.units.values()))
    assume(not any(isinstance(unit, up.Ode) and unit.equations.events for unit in scenario.units.values()))
    assume(not scenario.graph.loops)
    units = {name: by_euler(unit) for name, unit in scenario.units.items()}
    scenario = Scenario.from_parts(replace(scenario.parts, units=units, events=()))
    apart = run(scenario, step=0.25, record=["*"])
    together = run(scenario.monolith("euler"), step=0.25, record=["*"])
    assert sorted(apart.names) == sorted(together.names)
    for name in apart.names:
        assert apart.column(name) == together.column(name)
        assert apart[name].tolist() == together[name].tolist()


# -------------------------------------------------------------------- algebraic loops


def ring(gains: list[str], states: bool = True) -> up.Scenario:
    """u of each unit is what the one before computes from its own u; `x` decays into the first one."""
    units: dict[str, Any] = {
        f"f{k}": up.Function(inputs=["u"], outputs={"y": gain}) for k, gain in enumerate(gains)
    }
    links = {f"f{k}.u": f"f{k - 1}.y" for k in range(1, len(gains))}
    units["x"] = up.Ode({"x": "-x"}, start={"x": 1.0})
    return up.Scenario(units, {**links, "f0.u": f"x.x + f{len(gains) - 1}.y"})


def test_a_linear_loop_becomes_a_formula() -> None:
    merged = ring(["0.5*u", "u + 3"]).monolith()  # u = x + u/2 + 3
    assert isinstance(model(merged), up.Ode)
    assert merged.origin is not None
    assert "linear and was solved symbolically" in merged.origin.notes[0]
    trace = run(merged)
    assert trace["f0.u"] == pytest.approx(2 * np.exp(-trace.time) + 6, abs=1e-8)
    assert trace["f1.y"] == pytest.approx(np.exp(-trace.time) + 6, abs=1e-8)


def test_a_linear_loop_may_have_factors_that_vary() -> None:
    merged = ring(["0.5*u if time > 0.5 else -u*time", "u"]).monolith()
    assert isinstance(model(merged), up.Ode)
    trace = run(merged)
    gain = np.where(trace.time > 0.5, 0.5, -trace.time)
    assert trace["f0.u"] == pytest.approx(np.exp(-trace.time) / (1 - gain), abs=1e-8)


@pytest.mark.parametrize("gain", ["tanh(u)/2", "min(0.5*u, 0.3)", "round(u)/4", "0.25*u*u/(1 + u*u)"])
def test_any_other_loop_is_solved_by_newton(gain: str) -> None:
    merged = ring([gain, "u"]).monolith()
    assert isinstance(model(merged), Implicit)
    trace = run(merged)
    names = {"tanh": np.tanh, "min": min, "round": round}
    for t, u in zip(trace.time, trace["f0.u"], strict=True):
        assert np.exp(-t) + eval(gain, names, {"u": u}) == pytest.approx(u, abs=1e-9)
    assert trace["f1.y"] == pytest.approx(trace["f0.u"] - np.exp(-trace.time), abs=1e-9)


def test_a_state_behind_a_nonlinear_loop_agrees_with_scipy() -> None:
    scenario = up.Scenario(
        {
            "body": up.Ode({"x": "-z"}, start={"x": 2.0}, inputs=["z"], outputs={"x": "x", "s": "x - z"}),
            "law": up.Function(
                inputs=["s"], outputs={"z": "cbrt if s >= 0 else -cbrt"}, locals={"cbrt": "abs(s)**(1/3)"}
            ),
        },
        {"body.z": "law.z", "law.s": "body.s"},
    )  # z**3 + z = x
    trace = run(scenario.monolith())

    def root(x: float) -> float:
        return float(brentq(lambda z: z**3 + z - x, -10, 10, xtol=1e-14))

    judge = solve_ivp(lambda t, x: [-root(x[0])], (0, 1), [2.0], t_eval=trace.time, rtol=1e-11, atol=1e-12)
    assert trace["body.x"] == pytest.approx(judge.y[0], abs=1e-8)
    assert trace["law.z"] == pytest.approx([root(x) for x in judge.y[0]], abs=1e-8)


def test_a_large_linear_loop_is_solved_by_numbers() -> None:
    count = 6
    units = {
        f"f{k}": up.Function(
            inputs={"u": {"size": count}}, outputs={"y": " + ".join(f"u[{i}]" for i in range(count))}
        )
        for k in range(count)
    }
    links = {f"f{k}.u": [f"0.02*f{i}.y + {k + i}" for i in range(count)] for k in range(count)}
    merged = up.Scenario(units, links).monolith()
    assert isinstance(model(merged), Implicit)
    trace = run(merged)
    y = np.linalg.solve(
        np.eye(count) - np.full((count, count), 0.02),
        [sum(k + i for i in range(count)) for k in range(count)],
    )
    assert [trace[f"f{k}.y"][-1] for k in range(count)] == pytest.approx(y)


def test_cells_that_do_not_need_each_other_make_no_loop() -> None:
    scenario = up.Scenario(
        {"f": up.Function(inputs={"u": {"size": 2}}, outputs={"y": ["2*u[0]", "sin(u[1])"]})},
        {"f.u": ["3", "f.y[0]"]},
    )
    assert scenario.graph.loops
    merged = scenario.monolith()
    assert isinstance(model(merged), up.Function)
    assert run(merged)["f.y"][-1] == pytest.approx([6.0, np.sin(6.0)])


def test_loops_without_a_solution_are_named() -> None:
    with pytest.raises(up.ScenarioError, match=r"f0\.u → f0\.y → f1\.u → f1\.y has no unique solution"):
        ring(["0.5*u", "2*u"]).monolith()
    with pytest.raises(up.UnitError, match=r"no solution was found for f0\.u in the loop f0\.u → f0\.y"):
        run(ring(["u*u + 1", "u"]).monolith())


def test_only_real_signals_are_solved_for() -> None:
    flip = up.Function(
        inputs={"u": {"kind": "boolean"}}, outputs={"y": {"value": "not u", "kind": "boolean"}}
    )
    with pytest.raises(up.ScenarioError, match=r"f\.[uy] in the algebraic loop .* is boolean"):
        up.Scenario({"f": flip}, {"f.u": "f.y"}).monolith()


# -------------------------------------------------------------------- names, kinds, inputs, tables


def test_names_that_clash_are_kept_apart() -> None:
    def decay(rate: float) -> up.Ode:
        return up.Ode(
            {"c": "-k*c"}, start={"c": 1.0}, parameters={"k": rate}, outputs={"c": "c", "b_c": "2*c"}
        )

    trace = run(up.Scenario({"a": decay(1.0), "a_b": decay(2.0), "a_b_c": decay(3.0)}).monolith())
    for unit, rate in (("a", 1.0), ("a_b", 2.0), ("a_b_c", 3.0)):
        assert trace[f"{unit}.c"] == pytest.approx(np.exp(-rate * trace.time), abs=1e-8)
        assert trace[f"{unit}.b_c"] == pytest.approx(2 * np.exp(-rate * trace.time), abs=1e-8)


def test_kinds_convert_as_between_units() -> None:
    clock = up.Function(
        outputs={
            "n": {"value": "round(2.5 + 3*time)", "kind": "integer"},
            "b": {"value": "time != 0.5", "kind": "boolean"},
            "mode": {"value": "time > 0.5", "items": ["low", "high"]},
        }
    )
    taker = up.Function(
        inputs={"n": {"kind": "integer"}, "b": {"kind": "boolean"}, "mode": {"items": ["low", "high"]}},
        outputs={"y": "10*n + b + 100*mode", "high": {"value": "mode == 'high'", "kind": "boolean"}},
    )
    scenario = up.Scenario(
        {"clock": clock, "taker": taker}, {f"taker.{n}": f"clock.{n}" for n in ("n", "b", "mode")}
    )
    apart, together = run(scenario), run(scenario.monolith())
    for name in apart.names:
        assert apart.column(name) == together.column(name)
        assert apart[name].tolist() == together[name].tolist()
    assert together["taker.y"][0] == 21.0  # 2.5 rounds to even, -0.5 is true


def test_tables_locals_and_measures_come_along() -> None:
    table = {"x": [0, 1, 2], "y": [0, 10, 0]}
    scenario = up.Scenario(
        {
            "a": up.Function(
                outputs={"y": {"value": "twice", "unit": "km"}},
                locals={"twice": "2*f(time)"},
                tables={"f": table},
            ),
            "b": up.Function(
                inputs={"u": {"unit": "m"}},
                outputs={"y": "f(u) + f.slope(u)"},
                tables={"f": {"x": [0, 1], "y": [1, 2]}},
            ),
        },
        {"b.u": "a.y"},
        outputs={"far": {"value": "a.y", "unit": "m"}},
    )
    apart, together = run(scenario, until=2.0), run(scenario.monolith(), until=2.0)
    for name in apart.names:
        assert together[name] == pytest.approx(apart[name], abs=1e-12)
        assert apart.column(name) == together.column(name)


def test_inputs_stay_inputs() -> None:
    scenario = up.Scenario(
        {"a": up.Ode({"x": "u + w"}, inputs={"u": 0.0, "w": 0.25})},
        {"a.u": "2*push"},
        inputs={"push": {"start": 1.0}},
    )
    with up.start(scenario.monolith(), pace=up.Fixed(0.5), until=2.0, engine="interpret") as opened:
        opened.step()
        assert opened["a.x"] == pytest.approx(1.125)
        opened.set("push", -1.0)
        opened.set("a.w", 0.0)
        opened.step()
        assert opened["push"] == -1.0
        assert opened["a.u"] == -2.0
        assert opened["a.x"] == pytest.approx(0.125)


def test_signals_are_followed_between_communication_points() -> None:
    scenario = up.Scenario({"a": up.Ode({"x": "u"}, inputs=["u"])}, {"a.u": "push"}, inputs=["push"])
    plan = up.experiment(
        scenario, pace=up.Fixed(1.0), until=2.0, signals=up.Signals([0, 2], {"push": [0, 2]})
    )
    trace = plan.monolithic().with_(engine="interpret").run()
    assert trace["a.x"] == pytest.approx([0.0, 0.5, 2.0])
    assert trace["push"].tolist() == [0.0, 1.0, 2.0]
    assert trace.names == plan.with_(engine="interpret").run().names


def test_what_is_shared_is_not_written_out() -> None:
    chain = {"f0": up.Function(outputs={"y": "0.5 + 0.1*time"})}
    chain |= {f"f{k}": up.Function(inputs=["u"], outputs={"y": "u*(1 - u)"}) for k in range(1, 60)}
    merged = up.Scenario(chain, {f"f{k}.u": f"f{k - 1}.y" for k in range(1, 60)}).monolith()
    assert max(len(text) for text in model(merged).to_spec()["locals"].values()) < 40
    assert len(model(merged).equations.computed.code) < 200
    y = 0.6
    for _ in range(59):
        y = y * (1 - y)
    assert run(merged)["f59.y"][-1] == pytest.approx(y)


# -------------------------------------------------------------------- as a value, and elsewhere


def test_a_monolith_is_a_value_like_any_other() -> None:
    for made in (masses().monolith(), ring(["tanh(u)/2"]).monolith()):
        again = pickle.loads(pickle.dumps(made))
        assert again == made
        assert run(again).names == run(made).names
    assert masses().monolith() != masses().monolith(solver="rk4")
    assert model(masses().monolith(solver={"kind": "rk4", "steps": 5})).solver == up.RK4(steps=5)


def test_units_without_equations_are_all_named() -> None:
    python = up.PythonFunction(lambda t, u, p: t, outputs=["y"])
    with pytest.raises(up.ScenarioError) as caught:
        up.Scenario({"p": python, "q": python, "a": up.Ode({"x": "1"})}).monolith()
    assert [problem.where for problem in caught.value.problems] == [("units", "p"), ("units", "q")]
    assert "'p' is of the kind PythonFunction" in str(caught.value)


def test_an_experiment_keeps_pace_and_recording() -> None:
    plan = up.load(EXAMPLES / "coupled_masses.toml").with_(engine="interpret", record=("left.*",))
    apart, together = plan.run(), plan.monolithic().run()
    assert apart.names == together.names
    assert apart.time.tolist() == together.time.tolist()
    assert "one unit in place of left, right" in up.explain(plan.monolithic())
    assert plan.monolithic(pace=up.Fixed(2.5)).run().time.tolist() == [0.0, 2.5, 5.0, 7.5, 10.0]


# -------------------------------------------------------------------- nested scenarios


def nested_masses(levels: int) -> up.Scenario:
    """The right mass in so many boxes, each with a master of its own, which must not matter."""
    flat = masses()
    right, ports = flat.units["right"], {c.port: str(c.text) for c in flat.connections if c.unit == "right"}
    outputs = [p.name for p in right.ports if p.causality is up.Causality.OUTPUT]
    model: Any = right
    for level in range(levels):
        scenario = up.Scenario(
            units={"m": model},
            connections={f"m.{name}": name for name in ports},
            inputs=list(ports),
            outputs={name: f"m.{name}" for name in outputs},
        )
        coupling = up.GaussSeidel() if level % 2 else up.Jacobi()
        model = up.Nested(scenario, up.Master(up.Fixed(0.3), coupling))
    return up.Scenario(
        units={"left": flat.units["left"], "right": model},
        connections={c.target: str(c.text) for c in flat.connections},
        outputs={o.port.name: str(o.text) for o in flat.outputs},
    )


@pytest.mark.parametrize("levels", [1, 3])
def test_a_monolith_looks_inside_nested_units(levels: int) -> None:
    nested = nested_masses(levels)
    mono = nested.monolith()
    flat, deep = run(masses().monolith(), until=5.0), run(mono, until=5.0)
    assert deep.names == run(nested, until=0.1).names
    for name in deep.names:
        np.testing.assert_allclose(deep[name], flat[name], rtol=1e-12, atol=1e-12)
    assert mono.origin is not None
    assert mono.origin.units == ("left", "right" + ".m" * levels)
    inner = run(mono, record=["right*.x"])
    assert "right" + ".m" * levels + ".x" in inner.names


def test_what_cannot_be_merged_inside_a_nest_is_named_by_its_way() -> None:
    unit = up.PythonFunction(lambda t, u, p: {"y": 1.0}, outputs=["y"])
    inside = up.Scenario(units={"f": unit}, outputs={"y": "f.y"})
    outer = up.Scenario(units={"car": up.Nested(inside, up.Master(up.Fixed(0.1)))})
    with pytest.raises(up.ScenarioError, match=r"'car\.f' is of the kind PythonFunction"):
        outer.monolith()


def test_a_loop_through_no_unit_inside_a_nest_is_refused() -> None:
    gain = up.Function(inputs=["u"], outputs={"y": "2*u"})
    inside = up.Scenario(units={"g": gain}, inputs=["a"], outputs={"y": "0.5*a + g.y"})
    outer = up.Scenario(units={"n": up.Nested(inside, up.Master(up.Fixed(0.1)))}, connections={"n.a": "n.y"})
    with pytest.raises(up.ScenarioError, match=r"'n' cannot be merged: .* through no unit inside"):
        outer.monolith()
