"""Units written in Python: solutions, dependencies, strings and arrays, rollback, mistakes."""

from __future__ import annotations

import dataclasses
import math
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

import upbeat as up
from upbeat import Scenario, simulate
from upbeat.core.abilities import Ability, Rollback
from upbeat.core.errors import ModelError, UnitError
from upbeat.core.ports import Port
from upbeat.units import RK4, DormandPrince, Ode, PythonFunction, PythonOde, PythonUnit, ports


def spring(t, x, u, p):
    return {"v": u.F - p.k * x.x, "x": x.v}


def energy(t, x, u, p):
    return (x.v**2 + p.k * x.x**2) / 2


def oscillator(**more):
    given = {"states": {"x": 1.0, "v": 0.0}, "inputs": ["F"], "parameters": {"k": 4.0}, **more}
    return PythonOde(spring, **given)


def depends(model):
    return {p.name: set(p.depends) for p in model.ports if p.name in [o.name for o in model.outputs]}


def test_the_oscillator():
    unit = oscillator(solver=DormandPrince(1e-10, 1e-12)).instantiate("a", 0.0)
    for i in range(10):
        unit.advance(i / 10, (i + 1) / 10)
    assert unit.get("x") == pytest.approx(math.cos(2.0), rel=1e-8)
    assert unit.get("v") == pytest.approx(-2 * math.sin(2.0), rel=1e-8)


def test_the_same_bits_as_from_equations():
    written = Ode(
        {"x": "v", "v": "F - k*x"}, start={"x": 1.0}, inputs=["F"], parameters={"k": 4.0}, solver=RK4(steps=3)
    ).instantiate("a", 0.0)
    coded = oscillator(solver={"kind": "rk4", "steps": 3}).instantiate("a", 0.0)
    for i in range(5):
        for unit in (written, coded):
            unit.set("F", (0.3 * i, 0.7))
            unit.advance(i * 0.1, (i + 1) * 0.1)
        assert coded.get("x") == written.get("x")
        assert coded.save() == written.save()


def test_derivatives_as_a_sequence():
    unit = PythonOde(lambda t, x, u, p: (x.b, 1.0), {"a": 0.0, "b": 0.0}, solver=RK4()).instantiate("a", 0.0)
    unit.advance(0.0, 2.0)
    assert (unit.get("a"), unit.get("b")) == pytest.approx((2.0, 2.0), rel=1e-14)


def test_outputs_by_name_by_function_and_together():
    model = oscillator(
        states={"x": {"value": 1.0, "unit": "m"}, "v": 0.0},
        outputs={
            "x": {},
            "speed": "v",
            "energy": {"value": energy, "unit": "J", "depends": []},
            "pull": lambda t, x, u, p: u.F,
            "double": {"unit": "N"},
            "late": {"kind": "boolean", "depends": []},
        },
        compute=lambda t, x, u, p: {"double": 2 * u.F, "late": t > 1.0},
    )
    assert depends(model) == {
        "x": set(), "speed": set(), "energy": set(), "pull": {"F"}, "double": {"F"}, "late": set(),
    }  # fmt: skip
    assert model.outputs[0].unit == "m"
    unit = model.instantiate("a", 0.0)
    unit.set("F", (3.0,))
    assert [unit.get(p.name) for p in model.outputs] == [1.0, 0.0, 2.0, 3.0, 6.0, False]
    unit.advance(0.0, 2.0)
    assert unit.get("late") is True


def test_arrays():
    model = PythonOde(
        lambda t, x, u, p: {"T": [p.c * (a - b) for a, b in zip(u.out, x.T, strict=True)], "n": 1},
        {"T": [1.0, 2.0], "n": 0.0},
        inputs={"out": {"size": 2}},
        parameters={"c": 0.5},
        outputs={"T": {}, "swapped": {"size": 2, "value": lambda t, x, u, p: x.T[::-1]}},
        solver=RK4(steps=50),
    )
    unit = model.instantiate("a", 0.0)
    unit.advance(0.0, 2.0)
    assert unit.get("T") == pytest.approx([math.exp(-1), 2 * math.exp(-1)], rel=1e-8)
    assert unit.get("swapped") == tuple(unit.get("T"))[::-1]
    assert model.with_values({"T": [5.0, 6.0]}).instantiate("b", 0.0).get("swapped") == (6.0, 5.0)


def test_functions_return_a_mapping_a_sequence_or_a_value():
    for result in (lambda t, u, p: {"b": u.a + 1, "c": t}, lambda t, u, p: (u.a + 1, t)):
        unit = PythonFunction(result, ["a"], ["b", "c"]).instantiate("f", 2.0)
        unit.set("a", (1.0, 1.0))
        assert (unit.get("b"), unit.get("c")) == (2.0, 2.0)
        unit.advance(2.0, 3.0)
        assert (unit.get("b"), unit.get("c")) == (3.0, 3.0)
    assert (
        PythonFunction(lambda t, u, p: p.g * u.a, {"a": 2.0}, parameters={"g": 3})
        .instantiate("f", 0.0)
        .get("y")
        == 6
    )
    array = PythonFunction(lambda t, u, p: [1.0, 2.0], [], {"y": {"size": 2}})
    assert array.instantiate("f", 0.0).get("y") == (1.0, 2.0)


def test_all_kinds_of_values():
    def describe(t, u, p):
        return f"{p.greeting} {u.name}{u.n}", u.n + 1, not u.on

    model = PythonFunction(
        describe,
        {"name": "you", "n": {"kind": "integer", "start": 2}, "on": True},
        {"text": {"kind": "string"}, "n1": {"kind": "integer"}, "on1": {"kind": "boolean"}},
        parameters={"greeting": "hello"},
    )
    unit = model.instantiate("f", 0.0)
    assert [unit.get(n) for n in ("text", "n1", "on1")] == ["hello you2", 3, False]
    unit.set("n", (2**60 + 1,))
    unit.set("name", ("Zoë",))
    data = unit.to_bytes(unit.save())
    other = model.instantiate("g", 5.0)
    other.restore(other.from_bytes(data))
    assert [other.get(n) for n in ("text", "n1", "on1")] == [f"hello Zoë{2**60 + 1}", 2**60 + 2, False]
    assert type(other.get("n1")) is int
    for bad in (b"\xff", b"{}", b"[1]"):
        with pytest.raises(ModelError, match="not a state of this unit"):
            other.from_bytes(bad)


@given(st.lists(st.tuples(st.floats(-5, 5), st.floats(-5, 5), st.floats(0.01, 0.5)), min_size=1, max_size=5))
def test_restore_and_bytes_set_back_to_the_bit(todo):
    def act(unit):
        seen = []
        for a, b, by in todo:
            unit.set("F", (a, b))
            unit.advance(unit.time, unit.time + by)
            seen.append((unit.get("x"), unit.get("v")))
        return seen

    model = oscillator(solver=DormandPrince())
    unit = model.instantiate("a", 0.0)
    act(unit)
    token = unit.save()
    first = act(unit)
    unit.restore(token)
    assert act(unit) == first
    other = model.instantiate("b", 0.0)
    other.restore(other.from_bytes(unit.to_bytes(token)))
    assert act(other) == first


def test_abilities_values_and_pickling():
    model = oscillator(outputs={"e": energy})
    assert model.abilities == {Ability.ROLLBACK, Ability.SERIALISE}
    assert model == oscillator(outputs={"e": energy})
    other = model.with_values({"k": 9.0, "x": 2.0})
    assert other.instantiate("a", 0.0).get("e") == 18.0
    assert model.instantiate("a", 0.0).get("e") == 2.0
    assert model != other
    assert pickle.loads(pickle.dumps(model)) == model
    with pytest.raises(ModelError, match=r"no value 'e' to set\. The settable names are: F, k, v, x"):
        model.with_values({"e": 1.0})


def test_the_users_exception_arrives_as_it_was():
    class Oops(Exception):
        pass

    def broken(t, x, u, p):
        raise Oops("at the third bearing")

    unit = PythonOde(broken, {"x": 0.0}).instantiate("a", 0.0)
    with pytest.raises(Oops, match="third bearing"):
        unit.advance(0.0, 1.0)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ({"x": 1.0}, r"derivatives returned no value for 'v'"),
        ({"x": 1.0, "v": 1.0, "w": 1.0}, r"derivatives returned an unknown 'w'"),
        ((1.0,), r"returned 1 value\(s\), but 2 are needed: x, v"),
        (1.0, r"returned 1 value\(s\), but 2 are needed"),
    ],
)
def test_wrong_returns(returned, message):
    unit = PythonOde(lambda t, x, u, p: returned, {"x": 0.0, "v": 0.0}).instantiate("a", 0.0)
    with pytest.raises(ModelError, match=message):
        unit.advance(0.0, 1.0)


def test_a_wrong_number_of_cells():
    unit = PythonFunction(lambda t, u, p: {"y": [1.0]}, [], {"y": {"size": 2}}).instantiate("f", 0.0)
    with pytest.raises(ModelError, match=r"returned 1 value\(s\) for 'y', which has 2 cells"):
        unit.get("y")


def test_a_fraction_is_no_integer():
    unit = PythonFunction(lambda t, u, p: 1.5, [], {"y": {"kind": "integer"}}).instantiate("f", 0.0)
    with pytest.raises(TypeError, match="integer"):
        unit.get("y")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PythonOde(spring, {}), "at least one state"),
        (lambda: PythonOde("spring", {"x": 1.0}), "derivatives: expected a function, not 'spring'"),
        (lambda: oscillator(states={"x": True}), r"states\.x: a state is real"),
        (lambda: oscillator(states={"F": 1.0}), r"the name 'F' is used twice"),
        (lambda: oscillator(outputs=["y"]), r"outputs\.y: this is no state .*compute="),
        (lambda: oscillator(outputs={"y": "vv"}), r"no state 'vv'\. Did you mean 'v'"),
        (lambda: oscillator(outputs={"y": 3}), r"outputs\.y: expected a function, not 3"),
        (lambda: oscillator(outputs={"y": {"value": energy, "depends": ["G"]}}), "unknown input 'G'"),
        (lambda: oscillator(outputs={"k": energy}), r"the name 'k' is used twice"),
        (lambda: oscillator(inputs=["_F"]), "must not start with an underscore"),
        (lambda: oscillator(inputs=["class"]), "keyword"),
        (lambda: oscillator(solver="rk"), "no solver 'rk'"),
        (lambda: PythonFunction(3, ["u"]), "function: expected a function, not 3"),
        (lambda: PythonFunction(energy, ["u"], []), "at least one output"),
    ],
)
def test_problems(make, message):
    with pytest.raises(ModelError, match=message):
        make()


# ----------------------------------------------------------------------------------- PythonUnit


class Counter:
    def __init__(self, name, start, parameters):
        self.name, self.time, self.by = name, start, parameters["by"]
        self.total = 0.0

    def get(self, port):
        return self.total

    def set(self, port, coefficients):
        self.total += self.by * coefficients[0]

    def advance(self, t, to, early):
        self.time = to
        return to


PORTS = ports(["u"], {"total": {}}, {"by": 2.0})


def test_any_object_is_a_unit():
    model = PythonUnit(Counter, PORTS)
    assert model.ports == PORTS
    assert all(isinstance(p, Port) for p in model.ports)
    unit = model.with_values({"by": 10}).instantiate("c", 1.0)
    unit.set("u", (3.0,))
    assert (unit.get("total"), unit.advance(1.0, 2.0, False), unit.name) == (30.0, 2.0, "c")
    assert model.instantiate("c", 1.0).by == 2.0
    assert pickle.loads(pickle.dumps(model)) == model
    assert PythonUnit(Counter, PORTS, [Ability.EARLY_RETURN]).abilities == {Ability.EARLY_RETURN}


def test_array_parameters_arrive_as_tuples():
    seen = []
    model = PythonUnit(
        lambda n, s, p: seen.append(p) or Counter(n, s, {"by": 1}), ports(parameters={"w": [1.0, 2.0]})
    )
    model.instantiate("c", 0.0)
    assert seen == [{"w": (1.0, 2.0)}]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PythonUnit("Counter", PORTS), "factory: expected a function, not 'Counter'"),
        (lambda: PythonUnit(Counter, (*PORTS, *PORTS)), "the name 'u' is used twice"),
        (lambda: PythonUnit(Counter, PORTS, [Ability.NATIVE]), "cannot run inside the native engine"),
        (lambda: PythonUnit(Counter, PORTS).with_values({"total": 1.0}), "no value 'total' to set"),
        (
            lambda: PythonUnit(lambda *a: object(), PORTS).instantiate("c", 0.0),
            "has no get, no set, no advance",
        ),
        (
            lambda: PythonUnit(Counter, PORTS, [Ability.ROLLBACK]).instantiate("c", 0.0),
            r"unit 'c' \(Counter\) has no save, no restore",
        ),
    ],
)
def test_problems_of_objects(make, message):
    with pytest.raises(ModelError, match=message):
        make()


def test_labels_and_indices_of_an_enumeration():
    def unit(value):
        model = PythonFunction(lambda t, u, p: value, outputs={"mode": {"items": ["off", "on"]}})
        return model.instantiate("f", 0.0)

    assert unit("on").get("mode") == unit(1).get("mode") == 1
    with pytest.raises(ValueError, match="7 is not an index of off, on"):
        unit(7).get("mode")
    with pytest.raises(ValueError, match="'auto' is not one of off, on"):
        unit("auto").get("mode")


class Switch:
    def __init__(self, name, start, parameters):
        self.value = parameters["value"]

    def get(self, port):
        return self.value if port == "mode" else 1.5

    def set(self, port, coefficients): ...

    def advance(self, t, to, early=False):
        return to

    def save(self):
        return self.value

    def restore(self, token):
        self.value = token


@pytest.mark.parametrize("engine", ["interpret", "auto"])
def test_an_object_may_give_labels(engine):
    outputs = {"mode": {"items": ["off", "on"]}, "y": {}}

    def run(**value):
        made = ports(outputs=outputs, parameters={"value": value})
        scenario = Scenario({"s": PythonUnit(Switch, made, [Ability.ROLLBACK])})
        return simulate(scenario, pace=0.5, until=1.0, engine=engine)

    assert list(run(value="on")["s.mode"]) == [1, 1, 1]
    assert list(run(value=0, kind="integer")["s.mode"]) == [0, 0, 0]
    with pytest.raises(UnitError, match=r"unit 's' failed in get\('mode'\).*7 is not an index of off, on"):
        run(value=7, kind="integer")
    with pytest.raises(UnitError, match=r"'auto' is not one of off, on"):
        run(value="auto")


def test_an_object_with_labels_keeps_its_abilities():
    model = PythonUnit(
        Switch,
        ports(outputs={"mode": {"items": ["off", "on"]}}, parameters={"value": "on"}),
        [Ability.ROLLBACK],
    )
    unit = model.instantiate("s", 0.0)
    assert isinstance(unit, Rollback)
    assert not hasattr(unit, "jump")
    unit.restore("off")
    assert (unit.get("mode"), unit.save()) == (0, "off")


class Echo:
    """Gives out what it was told."""

    def __init__(self, name, start, parameters):
        self.told = {"u": -1.0, "w": (-1.0, -1.0)}

    def get(self, port):
        return self.told["u"] if port == "y" else self.told["w"]

    def set(self, port, coefficients):
        self.told[port] = coefficients[0]

    def advance(self, t, to, early):
        return to


def test_an_input_that_nothing_drives_has_its_start_value(engine):
    own = ports({"u": 2.5, "w": [1.0, 3.0]}, {"y": {"depends": []}, "z": {"size": 2, "depends": []}})
    model = PythonUnit(Echo, own)
    trace = simulate(Scenario({"e": model.with_values({"u": 4.0})}), pace=1.0, until=1.0, engine=engine)
    assert list(trace["e.y"]) == [4.0, 4.0]
    assert list(trace["e.z[1]"]) == [3.0, 3.0]
    assert model.instantiate("e", 0.0).get("y") == 2.5
    bare = PythonUnit(Echo, ports(["u"], {"y": {"depends": []}}))
    assert bare.instantiate("e", 0.0).get("y") == 0.0  # as its column in a trace says


# ---------------------------------------------------------------- what new users met


class Gain:
    def __init__(self, name, start, parameters):
        self.u = None

    def set(self, port, coefficients):
        self.u = coefficients[0]

    def get(self, port):
        return -1.0 if self.u is None else 2 * self.u

    def advance(self, t, to, early):
        return to


def test_a_python_unit_takes_inputs_outputs_and_parameters():
    whole = up.PythonUnit(Gain, ports(["u"], {"y": {"unit": "V"}}, {"k": 2.0}))
    assert up.PythonUnit(Gain, inputs=["u"], outputs={"y": {"unit": "V"}}, parameters={"k": 2.0}) == whole
    with pytest.raises(up.ModelError, match=r"Write PythonUnit\(factory, inputs=\[.u.\], outputs=\[.y.\]\)"):
        up.PythonUnit(Gain, ["u", "y"])
    with pytest.raises(up.ModelError, match="keep one of the two ways"):
        up.PythonUnit(Gain, whole.ports, inputs=["u"])
    with pytest.raises(up.ModelError, match=r"there is no ability 'rolback'. Did you mean 'rollback'"):
        up.PythonUnit(Gain, whole.ports, ["rolback"])


@pytest.mark.parametrize("engine", ["interpret", "native"])
def test_an_input_that_nothing_drives_is_told_its_start_value_or_0(engine):
    for start, shown in ((None, 0.0), (3.0, 6.0)):
        unit = up.PythonUnit(Gain, inputs={"u": {} if start is None else start}, outputs=["y"])
        assert up.simulate(up.Scenario({"g": unit}), step=0.1, until=0.1, engine=engine)["g.y"][0] == shown


def _forgets(*arguments):
    """A function without a return."""


@pytest.mark.parametrize("engine", ["interpret", "native"])
def test_a_forgotten_return_is_said(engine):
    forgetful = type("Forgetful", (Gain,), {"advance": lambda self, t, to, early: None})
    late = type("Late", (Gain,), {"due": lambda self: None, "jump": lambda self: False})
    for model, said in (
        (
            up.PythonUnit(forgetful, inputs=["u"], outputs=["y"]),
            r"must return the time reached \('return to'\)",
        ),
        (
            up.PythonUnit(late, inputs=["u"], outputs=["y"], abilities=["next_event"]),
            "due must return a time",
        ),
        (up.PythonUnit(_forgets, outputs=["y"]), "does the factory return it"),
        (up.PythonFunction(_forgets, ["a"], ["y"]), "the function returned nothing: is a 'return' missing"),
        (up.PythonOde(_forgets, {"x": 1.0}), "derivatives returned nothing: is a 'return' missing"),
        (
            up.PythonOde(lambda t, x, u, p: [0], {"x": 1.0}, outputs={"y": _forgets}),
            "output 'y' returned nothing for 'y'",
        ),
    ):
        with pytest.raises(up.UnitError, match=said):
            up.simulate(up.Scenario({"c": model}), step=0.1, until=0.3, engine=engine)


def test_a_parameter_needs_a_value():
    for make in (
        lambda: up.Ode({"x": "-k*x"}, parameters=["k"]),
        lambda: up.Function(["u"], {"y": "k*u"}, parameters=["k"]),
        lambda: up.PythonFunction(_forgets, parameters={"k": {"unit": "m"}}),
        lambda: up.PythonUnit(Gain, outputs=["y"], parameters=["k"]),
    ):
        with pytest.raises(up.ModelError, match=r"parameters.k: a parameter needs a value"):
            make()


def test_models_can_be_replaced_with_another_solver():
    ode = up.Ode({"x": "-k*x + u"}, inputs=["u"], parameters={"k": 2.0}, start={"x": 1.0})
    python = up.PythonOde(lambda t, x, u, p: [-x.x], {"x": 1.0}, outputs={"x": "x", "y": lambda *a: 1.0})
    for model in (ode, python):
        changed = dataclasses.replace(model, solver=up.Euler(7))
        assert changed.solver == up.Euler(7)
        assert changed.ports == model.ports
        assert dataclasses.replace(changed, solver=model.solver) == model
    for model in (up.Function(["u"], {"y": "u"}), up.PythonFunction(_forgets, ["a"], parameters={"k": 1.0})):
        assert dataclasses.replace(model) == model
    with pytest.raises(up.ModelError, match="with_values"):
        dataclasses.replace(ode, parameters={"k": 3.0})
    sampled = up.PythonUnit(Gain, inputs=["u"], outputs=["y"], sample_time=0.1)
    assert dataclasses.replace(sampled, sample_time=0.2).sample_time == 0.2


def test_settings_of_other_tools_are_known():
    scenario = up.Scenario({"x": up.Ode({"x": "-x"})})
    for name, own in (("dt", "step"), ("t_end", "until"), ("t_stop", "until"), ("stop_time", "until")):
        with pytest.raises(up.InvalidInput, match=f"there is no setting '{name}'. Did you mean '{own}'"):
            up.simulate(scenario, **{name: 1.0})
    with pytest.raises(up.InvalidInput, match="start, step, until"):
        up.simulate(scenario, qqq=1.0)
