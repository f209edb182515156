"""Units from equations: solutions, feedthrough, kinds, arrays, rollback, bytes, round trips."""

from __future__ import annotations

import math
import pickle
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upbeat.core.abilities import Ability, Rollback, Serialise, Slopes
from upbeat.core.errors import ModelError
from upbeat.core.expr import Name, Table1
from upbeat.core.ports import Causality, Kind
from upbeat.units import RK4, DormandPrince, Euler, Function, Midpoint, Ode, SolverError

SOLVERS = [Euler(steps=3), Midpoint(), RK4(step=0.03), DormandPrince()]


def oscillator(**more):
    return Ode(
        states={"x": {"der": "v", "unit": "m"}, "v": "(F - k*x - d*v)/m"},
        start={"x": 1.0},
        inputs={"F": {"unit": "N"}},
        parameters={"k": 4.0, "m": 1.0, "d": 0.0},
        outputs={"x": {}, "load": {"value": "pull", "unit": "N"}},
        locals={"pull": "F - k*x"},
        **more,
    )


def port(model, name):
    return next(p for p in model.ports if p.name == name)


def run(unit, steps, step=0.1):
    for i in range(steps):
        assert unit.advance(i * step, (i + 1) * step, False) == (i + 1) * step
    return unit


# ------------------------------------------------------------------------------------ solutions


def test_exponential_decay():
    unit = run(Ode({"x": "-2*x"}, start={"x": 3.0}, solver=RK4(steps=20)).instantiate("a", 0.0), 10)
    assert unit.get("x") == pytest.approx(3 * math.exp(-2), rel=1e-8)


def test_a_forced_oscillator_with_an_offset_start_time():
    # x'' = 4(1 - x) from x = 0 at rest: x = 1 - cos 2(t - 5)
    model = Ode({"x": "v", "v": "F - 4*x"}, inputs={"F": 4.0}, solver=DormandPrince(1e-10, 1e-12))
    unit = model.instantiate("a", 5.0)
    for i in range(10):
        unit.advance(5.0 + i / 10, 5.0 + (i + 1) / 10)
    assert unit.get("x") == pytest.approx(1 - math.cos(2.0), rel=1e-8)
    assert unit.get("v") == pytest.approx(2 * math.sin(2.0), rel=1e-8)


def test_time_is_the_time_of_each_stage():
    # x' = 4 t³ is integrated exactly by RK4, and only if its stages see their own times
    unit = Ode({"x": "4*time**3"}, solver=RK4()).instantiate("a", 1.0)
    unit.advance(1.0, 3.0)
    assert unit.get("x") == pytest.approx(81.0 - 1.0, rel=1e-15)


def test_euler_in_the_defined_order_of_operations():
    unit = Ode({"x": "-x"}, start={"x": 0.1}, solver=Euler(steps=3)).instantiate("a", 0.7)
    unit.advance(0.7, 1.0)
    h = (1.0 - 0.7) / 3
    x = 0.1
    for _ in range(3):
        x = x + h * (1.0 * -x)
    assert unit.get("x") == x  # to the last bit


def test_rk4_in_the_defined_order_of_operations():
    unit = Ode({"x": "-x*time"}, start={"x": 0.1}, solver=RK4(steps=2)).instantiate("a", 0.3)
    unit.advance(0.3, 1.1)
    h = (1.1 - 0.3) / 2
    x = 0.1
    for i in range(2):
        t = 0.3 + i * h
        k1 = -x * t
        k2 = -(x + h * (0.5 * k1)) * (t + 0.5 * h)
        k3 = -(x + h * (0.5 * k2)) * (t + 0.5 * h)
        k4 = -(x + h * (1.0 * k3)) * (t + 1.0 * h)
        x = x + h * (1 / 6 * k1 + 1 / 3 * k2 + 1 / 3 * k3 + 1 / 6 * k4)
    assert unit.get("x") == x  # to the last bit


def test_a_table_in_an_equation():
    model = Ode({"x": "drag(x)"}, tables={"drag": {"x": [0, 10], "y": [5, 15]}}, solver=RK4(steps=50))
    unit = run(model.instantiate("a", 0.0), 10)
    assert unit.get("x") == pytest.approx(5 * (math.e - 1), rel=1e-8)  # x' = 5 + x
    same = Ode({"x": "drag(x)"}, tables={"drag": Table1((0, 10), (5, 15))}, solver=RK4(steps=50))
    assert same == model


def test_a_nested_local_and_an_enumeration():
    model = Function(
        inputs={"mode": {"items": ["off", "heat"], "start": "heat"}, "T": 20.0},
        locals={"power": "gap * gain if mode == 'heat' else 0", "gap": "limit - T"},
        outputs={"P": "power"},
        parameters={"limit": 21.0, "gain": 100.0},
    )
    unit = model.instantiate("f", 0.0)
    assert unit.get("P") == 100.0
    unit.set("mode", (0,))
    assert unit.get("P") == 0.0
    assert port(model, "P").depends == {"mode", "T"}


def test_no_length_of_time_changes_nothing():
    unit = oscillator().instantiate("a", 1.0)
    before = unit.save()
    assert unit.advance(1.0, 1.0) == 1.0
    assert unit.save() == before
    assert unit.jump() is False


def test_backwards_is_refused():
    with pytest.raises(SolverError, match=r"backwards, from 1 to 0\.5"):
        oscillator().instantiate("a", 1.0).advance(1.0, 0.5)


# ------------------------------------------------------------------------- ports and feedthrough


def test_ports_in_order_with_units_and_feedthrough():
    model = oscillator()
    assert [(p.name, p.causality) for p in model.ports] == [
        ("F", Causality.INPUT),
        ("x", Causality.OUTPUT),
        ("load", Causality.OUTPUT),
        ("k", Causality.PARAMETER),
        ("m", Causality.PARAMETER),
        ("d", Causality.PARAMETER),
    ]
    assert port(model, "x").unit == "m"  # that of the state it passes on
    assert port(model, "load").unit == "N"
    assert port(model, "x").depends == frozenset()
    assert port(model, "load").depends == {"F"}  # through the local
    own = {Ability.ROLLBACK, Ability.SERIALISE, Ability.SLOPES}
    assert model.abilities == own | {Ability.NATIVE, Ability.MOVES}


def test_outputs_default_to_all_states():
    assert [p.name for p in Ode({"x": "v", "v": "-x"}).ports] == ["x", "v"]


def test_an_output_follows_a_direct_input_at_once_and_others_only_over_time():
    unit = oscillator(solver=RK4()).instantiate("a", 0.0)
    assert (unit.get("x"), unit.get("load")) == (1.0, -4.0)
    unit.set("F", (10.0,))
    assert (unit.get("x"), unit.get("load")) == (1.0, 6.0)
    unit.advance(0.0, 0.1)
    assert unit.get("x") != 1.0


def test_arrays():
    model = Ode(
        states={"T": {"der": ["q - T[0]", "T[0] - T[1]", "T[1] - T[2]"], "start": [1.0, 2.0, 3.0]}},
        inputs={"q": 1.0},
        parameters={"w": [1.0, 10.0]},
        outputs={"T": {}, "pair": ["w[0]*T[0]", "w[1]*T[2]"], "mean": "(T[0] + T[1] + T[2])/3"},
    )
    unit = model.instantiate("a", 0.0)
    assert [tuple(unit.get("T")), tuple(unit.get("pair")), unit.get("mean")] == [(1, 2, 3), (1, 30), 2]
    assert [(p.name, p.size) for p in model.ports] == [
        ("q", None), ("T", 3), ("pair", 2), ("mean", None), ("w", 2),
    ]  # fmt: skip
    settled = run(model.instantiate("b", 0.0), 400)
    assert settled.get("T") == pytest.approx([1.0, 1.0, 1.0], rel=1e-9)
    assert model.with_values({"T": 7.0}).instantiate("c", 0.0).get("T") == (7.0, 7.0, 7.0)
    assert Ode({"T": ["1", "2"]}, outputs=["T"]).instantiate("d", 0.0).get("T") == (0.0, 0.0)


def test_a_local_array_may_build_on_its_own_cells():
    model = Function(["u"], {"y": "s[2]"}, locals={"s": ["u", "s[0]*2", "s[1]*2"]})
    unit = model.instantiate("f", 0.0)
    unit.set("u", (3.0,))
    assert unit.get("y") == 12.0
    assert port(model, "y").depends == {"u"}


def test_a_long_chain_of_locals():
    chain = {f"a{i}": f"a{i - 1} + u" for i in range(1, 3000)}
    unit = Function(["u"], {"y": "a2999"}, locals={"a0": "u", **chain}).instantiate("f", 0.0)
    unit.set("u", (1.0,))
    assert unit.get("y") == 3000.0


def test_kinds_of_outputs():
    model = Function(
        inputs={"u": 0.0, "on": False, "n": {"kind": "integer"}},
        outputs={
            "count": {"value": "round(u)", "kind": "integer"},
            "hot": {"value": "u > 1 or on", "kind": "boolean"},
            "next": {"value": "n + 1", "kind": "integer"},
        },
    )
    unit = model.instantiate("f", 0.0)
    for value, count in ((0.5, 0), (1.5, 2), (2.5, 2), (-0.5, 0), (2.4, 2)):
        unit.set("u", (value,))
        assert unit.get("count") == count
        assert type(unit.get("count")) is int
        assert unit.get("hot") is (value > 1)
    unit.set("on", (True,))
    unit.set("n", (41,))
    assert (unit.get("hot"), unit.get("next")) == (True, 42)
    unit.set("u", (math.inf,))
    with pytest.raises(SolverError, match="inf is not an integer"):
        unit.get("count")


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (
            {"value": "u/2", "kind": "integer"},
            "the output is integer, but 'u/2' is real; write \"round(u/2)\"",
        ),
        ({"value": "7/2", "kind": "integer"}, 'write "round(7/2)"'),
        ({"value": "half", "kind": "integer"}, 'write "round(half)"'),
        ({"value": "u", "kind": "boolean"}, 'write "u > 0"'),
        ({"value": "n", "kind": "boolean"}, "the output is boolean, but 'n' is integer"),
        ({"value": ["n", "u"], "kind": "integer"}, 'write "round(u)"'),
        ({"value": "n", "items": ["a", "b"]}, "'n' need not be one of a, b; choose by index"),
        ({"value": "2", "items": ["a", "b"]}, "'2' need not be one of a, b"),
        ({"value": "other", "items": ["a", "b"]}, "'other' need not be one of a, b"),
    ],
)
def test_an_expression_must_give_what_the_output_holds(output, words):
    with pytest.raises(ModelError) as caught:
        Function(
            inputs={"u": 0.0, "n": {"kind": "integer"}, "other": {"items": ["x", "y"]}},
            outputs={"y": output},
            locals={"half": "n/2"},
        )
    assert words in str(caught.value)
    assert caught.value.complaints[0][0] == "outputs.y"


@pytest.mark.parametrize(
    "output",
    [
        {"value": "floor(u) + n*k", "kind": "integer"},
        {"value": "-n if on else 3", "kind": "integer"},
        {"value": "on", "kind": "integer"},
        {"value": "count", "kind": "integer"},
        {"value": "steps(u)", "kind": "integer"},
        {"value": "u > 1 and not on", "kind": "boolean"},
        {"value": "true", "kind": "boolean"},
        {"value": "gate(u)", "kind": "boolean"},
        {"value": "mode", "items": ["a", "b"]},
        {"value": "choice", "items": ["a", "b"]},
        {"value": "u > 1", "items": ["a", "b"]},
        {"value": "gate(u)", "items": ["a", "b"]},
        {"value": "modes", "items": ["a", "b"]},
    ],
)
def test_expressions_that_do(output):
    Function(
        inputs={
            "u": 0.0, "n": {"kind": "integer"}, "on": False, "mode": {"items": ["a", "b"]},
            "modes": {"items": ["a", "b"], "size": 2},
        },
        outputs={"y": output},
        parameters={"k": {"value": 2, "kind": "integer"}},
        locals={"count": "next + 1", "next": "n + 1", "choice": "mode if on else 1"},
        tables={
            "steps": {"x": [0, 1], "y": [3, 5], "mode": "hold"},
            "gate": {"x": [0, 1], "y": [0, 1], "mode": "hold"},
        },
    )  # fmt: skip


def test_not_finite_is_passed_on_for_the_engine_to_report():
    assert Function(["u"], {"y": "1/u"}).instantiate("f", 0.0).get("y") == math.inf


# ------------------------------------------------------------------------------- values, copies


def test_with_values_changes_a_copy():
    model = oscillator()
    other = model.with_values({"k": 9, "x": 2.0, "F": 5.0})
    assert (port(other, "k").start, port(other, "F").start) == ((9.0,), (5.0,))
    assert other.instantiate("a", 0.0).get("load") == 5.0 - 9.0 * 2.0
    assert model == oscillator()
    assert model != other
    assert hash(model) == hash(oscillator())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kk": 1.0}, r"no value 'kk' to set\. Did you mean 'k'"),
        ({"load": 1.0}, "no value 'load' to set"),
        ({"k": "stiff"}, "'k' is real, but was given 'stiff'"),
        ({"k": [1.0, 2.0]}, r"has 1 cell\(s\), but 2 values"),
        ({"x": math.nan}, "NaN"),
        ({"x": None}, "'x' is real, but was given None"),
    ],
)
def test_with_values_refuses(values, message):
    with pytest.raises(ModelError, match=message):
        oscillator().with_values(values)


EVERYTHING = Ode(
    states={
        "x": {"der": "v", "unit": "m", "start": 0.1, "description": "where"},
        "v": "a",
        "T": {"der": ["1", "-T[0]"], "start": [1.0, 2.0]},
        "one": ["x"],
    },
    inputs={
        "F": {"unit": "N", "reactive": True, "description": "push"},
        "u": [1.0, 2.0],
        "w": {"size": 3},
        "on": True,
        "n": {"kind": "integer", "start": 3},
        "mode": {"items": ["off", "on"], "start": "on"},
        "late": {"reactive": False},
    },
    parameters={
        "m": 2,
        "flags": [True, False],
        "level": {"value": "hi", "items": ["lo", "hi"]},
        "q": {"value": 0.0, "unit": "K"},
    },
    locals={"a": "F/m + lut(x) + map(x, v)", "b": ["a", "2*a"]},
    tables={
        "lut": {"x": [0, 1], "y": [2, 3], "mode": "hold"},
        "map": {"x": [0, 1], "y": [0, 1], "z": [[0, 1], [2, 3]], "extrapolate": "linear"},
    },
    outputs={
        "x": {},
        "T": {"unit": "K"},
        "one": {},
        "b": {},
        "copy": "u",
        "y": {"value": "x > 0", "kind": "boolean", "description": "beyond"},
        "state": {"value": "mode", "items": ["off", "on"]},
        "three": 3,
    },
    solver=DormandPrince(rtol=1e-3),
)


@pytest.mark.parametrize(
    "model", [EVERYTHING, oscillator(), Function(["u"], {"y": "u"}), Ode({"x": "1"}, outputs=[])]
)
def test_models_round_trip(model):
    assert type(model)(**model.to_spec()) == model
    assert pickle.loads(pickle.dumps(model)) == model
    assert type(model)(**model.to_spec()).ports == model.ports


def test_a_spec_is_plain_data():
    def plain(value):
        if isinstance(value, dict):
            return all(isinstance(key, str) and plain(item) for key, item in value.items())
        if isinstance(value, list):
            return all(map(plain, value))
        return type(value) in (str, float, int, bool)

    assert plain(EVERYTHING.to_spec())
    assert EVERYTHING.to_spec()["locals"] == {"a": "F/m + lut(x) + map(x, v)", "b": ["a", "2*a"]}
    assert EVERYTHING.to_spec()["inputs"]["mode"] == {"items": ["off", "on"], "start": "on"}


def test_expression_trees_are_taken_too():
    assert Ode({"x": -Name("x")}) == Ode({"x": "-x"})
    assert Ode({"x": 2}).instantiate("a", 0.0).advance(0.0, 1.0) == 1.0


# ------------------------------------------------------------------------------------- rollback


@st.composite
def actions(draw):
    number = st.floats(-5, 5)
    sets = st.tuples(st.just("set"), st.lists(number, min_size=1, max_size=4))
    return draw(st.lists(st.one_of(sets, st.tuples(st.just("go"), st.floats(0.01, 0.5))), max_size=8))


def act(unit, todo):
    seen = []
    for what, by in todo:
        if what == "set":
            unit.set("F", by)
        else:
            unit.advance(unit.time, unit.time + by)
        seen.append((unit.time, unit.get("x"), unit.get("load")))
    return seen


@given(st.sampled_from(SOLVERS), actions(), actions(), actions())
def test_restore_sets_back_to_the_bit(solver, before, between, after):
    unit = oscillator(solver=solver).instantiate("a", 0.5)
    act(unit, before)
    token = unit.save()
    now = unit.get("x"), unit.get("load")
    first = act(unit, after)
    act(unit, between)
    unit.restore(token)
    assert unit.save() == token
    assert (unit.get("x"), unit.get("load")) == now
    assert act(unit, after) == first
    unit.restore(token)  # a token can be used many times
    assert act(unit, after) == first


@given(st.sampled_from(SOLVERS), actions(), actions())
def test_bytes_carry_the_whole_state_to_another_unit(solver, before, after):
    model = oscillator(solver=solver)
    unit = model.instantiate("a", 0.5)
    act(unit, before)
    data = unit.to_bytes(unit.save())
    other = model.instantiate("elsewhere", 0.0)
    other.restore(other.from_bytes(data))
    assert act(other, after) == act(unit, after)


def test_the_layout_of_a_token():
    model = Ode(
        {"x": "u", "y": "w[0]"}, start={"x": 7.0, "y": 8.0}, inputs={"u": 3.0, "w": [4.0, 5.0]},
        solver=DormandPrince(),
    )  # fmt: skip
    unit = model.instantiate("a", 1.5)
    unit.set("w", ((1.0, 2.0), (10.0, 20.0)))
    token = unit.save()
    assert token == (
        1.5, 7.0, 8.0, 0.0,
        1.5, 1.0, 3.0, 0.0, 0.0, 0.0, 0.0, 0.0,
        1.5, 2.0, 1.0, 2.0, 10.0, 20.0, *(0.0,) * 8,
    )  # fmt: skip
    assert len(token) == model.lower().state_size
    assert unit.to_bytes(token) == struct.pack(f"<{len(token)}d", *token)
    unit.advance(1.5, 2.0)
    assert unit.save()[3] > 0.0  # the step to try next
    fixed = Ode({"x": "1"}, solver=RK4()).instantiate("a", 0.25)
    assert fixed.save() == (0.25, 0.0)


def test_bytes_of_something_else_are_refused():
    unit = oscillator().instantiate("a", 0.0)
    with pytest.raises(ModelError, match=r"expected 88 bytes, not 3"):
        unit.from_bytes(b"abc")


def test_the_abilities_are_those_of_the_protocols():
    unit = oscillator().instantiate("a", 0.0)
    assert isinstance(unit, Rollback)
    assert isinstance(unit, Serialise)
    assert isinstance(unit, Slopes)


def test_the_interpolant_is_the_solution_inside_the_last_step():
    unit = Ode({"x": "-x"}, start={"x": 1.0}, solver=DormandPrince(first=0.1)).instantiate("a", 0.0)
    token = unit.save()
    assert unit.interpolant is None
    unit.advance(0.0, 0.1)
    assert unit.interpolant(0.05) == pytest.approx([math.exp(-0.05)], rel=1e-8)
    unit.advance(0.1, 0.13)  # much shorter than the solver would go
    assert unit.interpolant(0.12) == pytest.approx([math.exp(-0.12)], rel=1e-8)
    unit.restore(token)
    assert unit.interpolant is None
    assert Ode({"x": "-x"}).instantiate("a", 0.0).interpolant is None


# -------------------------------------------------------------------------------------- lowering


def test_lowered_tables():
    tables = EVERYTHING.lower()
    assert tables.states == ("x", "v", "T[0]", "T[1]", "one[0]")
    assert tables.start == (0.1, 0.0, 1.0, 2.0, 0.0)
    assert [(p.name, p.first, p.cells) for p in tables.inputs][:4] == [
        ("F", 0, 1),
        ("u", 1, 2),
        ("w", 3, 3),
        ("on", 6, 1),
    ]
    assert [p.port for p in (*tables.inputs, *tables.outputs)] == list(range(15))
    assert tables.inputs[3].start == (1.0,)
    assert tables.parameters == (2.0, 1.0, 0.0, 1.0, 0.0)
    assert [p.kind for p in tables.outputs][-3:] == [Kind.BOOLEAN, Kind.INTEGER, Kind.REAL]
    assert [p.name for p in tables.inputs if p.direct] == ["F", "u", "mode"]
    assert [p.name for p in tables.outputs if p.direct] == ["b", "copy", "state"]
    assert (tables.solver.code, tables.solver.stages, len(tables.solver.a)) == (1, 7, 49)
    assert tables.derivatives.n_inputs == tables.compute.n_inputs == 1 + 5 + 10 + 5
    assert len(tables.compute.results) == sum(p.cells for p in tables.outputs)
    assert tables.slopes == ()  # nobody has asked for any
    assert pickle.loads(pickle.dumps(tables)) == tables


def test_lowered_slopes():
    model = Function({"u": {"size": 2}, "v": 0.0}, {"a": ["u[0]*v", "sin(u[1])"], "b": "v"})
    (one,) = model.lower([("a", "u")]).slopes
    output, given, kernel = one
    assert (output, given) == (2, 0)
    assert kernel.python()([0.0, 3.0, 0.5, 7.0]) == [7.0, 0.0, 0.0, math.cos(0.5)]


def test_a_function_has_no_derivatives():
    tables = Function(["u"], {"y": "2*u"}).lower()
    assert (tables.derivatives, tables.states, tables.start) == (None, (), ())
    assert tables.compute.python()([0.0, 21.0]) == [42.0]
    assert [p.start for p in Function([], {"y": "1"}).lower().outputs] == [()]


def test_lowered_fixed_solver():
    solver = Ode({"x": "-x"}, solver=RK4(step=0.25)).lower().solver
    assert (solver.code, solver.steps, solver.step) == (0, 1, 0.25)
    assert [solver.a[4 * s + q] for s in range(4) for q in range(4) if q >= s] == [0.0] * 10
    assert (solver.a[4], solver.a[9], solver.a[14]) == (0.5, 0.5, 1.0)
