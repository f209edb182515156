"""Units of measure through expressions."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upbeat.core.errors import ModelError, ScenarioError
from upbeat.core.expr import evaluate, show
from upbeat.core.measure import conversion
from upbeat.core.ports import Causality, Kind, Port
from upbeat.scenario.scenario import Scenario
from upbeat.units.equations.ode import Function
from upbeat.units.python import PythonUnit

SOURCES = {
    "x": "m", "mm": "mm", "km": "km", "F": "kN", "N": "N", "v": "m/s", "t": "s", "k": "N/m", "d": "N*s/m",
    "T": "degC", "T2": "degC", "TF": "degF", "K": "K", "dT": "delta_degC", "h": "W/degC", "hK": "W/K",
    "phi": "deg", "rad": "rad", "eta": "%", "f": "Hz", "w": "rad/s", "n": "rpm", "none": None, "one": "1",
    "area": "m^2",
}  # fmt: skip


def scenario(value: str, unit: str | None, **more: object) -> Scenario:
    source = Function(
        inputs={"on": {"kind": "boolean"}},
        outputs={
            **{name: {"value": "1.5", "unit": measure} for name, measure in SOURCES.items()},
            "on_out": {"value": "on", "kind": "boolean"},
        },
    )
    sink = Function(inputs={"u": {"unit": unit, **more}}, outputs={"y": "u"})
    return Scenario({"s": source, "to": sink}, {"to.u": value})


def result(value: str, unit: str | None) -> str:
    return show(scenario(value, unit).connections[0].cells[0])


def refusal(value: str, unit: str | None) -> str:
    with pytest.raises(ScenarioError) as caught:
        scenario(value, unit)
    (problem,) = caught.value.problems
    return f"{problem.what}\n{problem.hint}"


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        ("-s.F", "N", "1000*-s.F"),
        ("1*s.x", "mm", "1000*(1*s.x)"),
        ("s.x + s.mm", "m", "s.x + 0.001*s.mm"),
        ("s.mm + s.x", "m", "0.001*s.mm + s.x"),
        ("s.mm - s.x", "km", "1e-06*(s.mm - 1000*s.x)"),
        ("max(s.x, s.mm, 0)", "m", "max(max(s.x, 0.001*s.mm), 0)"),
        ("clip(s.mm, 0, 5)", "m", "0.001*clip(s.mm, 0, 5)"),
        ("s.x if s.v > 2 else s.mm", "m", "s.x if s.v > 2 else 0.001*s.mm"),
        ("5 if s.x > s.mm else 0", "N", "5 if s.x > 0.001*s.mm else 0"),
        ("s.on_out*2000", "W", "s.on_out*2000"),
        ("s.on_out*s.F", "N", "1000*(s.on_out*s.F)"),
        ("s.k*s.x + s.d*s.v", "N", "s.k*s.x + s.d*s.v"),
        ("s.k*s.mm + s.F", "N", "0.001*(s.k*s.mm + 1000000*s.F)"),
        ("s.x/s.t", "km/h", "3.6*(s.x/s.t)"),
        ("s.x**2", "cm^2", "10000*s.x**2"),
        ("sqrt(s.area)", "mm", "1000*sqrt(s.area)"),
        ("sqrt(s.x**2 + s.mm**2)", "m", "sqrt(s.x**2 + 1e-06*s.mm**2)"),
        ("hypot(s.x, s.mm)", "m", "hypot(s.x, 0.001*s.mm)"),
        ("abs(s.mm)", "m", "0.001*abs(s.mm)"),
        ("s.x*sin(s.rad)", "m", "s.x*sin(s.rad)"),
        ("s.x*sin(s.phi)", "m", "s.x*sin(0.017453292519943295*s.phi)"),
        ("exp(s.x/s.mm)", "1", "exp(1000*(s.x/s.mm))"),
        ("atan2(s.x, s.mm)", "deg", "57.29577951308232*atan2(s.x, 0.001*s.mm)"),
        ("s.eta*s.F", "N", "10*(s.eta*s.F)"),
        ("2*pi*s.f", "rad/s", "2*3.141592653589793*s.f"),
        ("s.w/(2*pi)", "Hz", "s.w/(2*3.141592653589793)"),
        ("s.w*s.x", "m/s", "s.w*s.x"),
        ("2.5", "N", "2.5"),
        ("s.x + s.none", "mm", "s.x + s.none"),
        ("2*s.x + s.v", None, "2*s.x + s.v"),
        ("s.x + s.mm", None, "s.x + 0.001*s.mm"),
        ("5 if s.x > s.mm else 0", None, "5 if s.x > 0.001*s.mm else 0"),
        ("sign(s.mm)*s.x", "m", "sign(s.mm)*s.x"),
    ],
)
def test_conversions_go_where_they_are_needed(value: str, unit: str | None, expected: str) -> None:
    assert result(value, unit) == expected


def test_a_truth_is_found_in_one_unit() -> None:
    made = scenario("s.x > s.mm", None, kind="boolean")
    assert show(made.connections[0].cells[0]) == "s.x > 0.001*s.mm"
    with pytest.raises(ScenarioError, match=r"'s.x' is in m and 's.v' is in m/s"):
        scenario("s.x > s.v", None, kind="boolean")


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        ("s.T", "K", "s.T + 273.15"),
        ("1*s.T", "K", "1*s.T + 273.15"),
        ("s.T - s.T2", "K", "s.T - s.T2"),
        ("s.h*(s.T - s.T2)", "W", "s.h*(s.T - s.T2)"),
        ("s.hK*(20 - s.T)", "kW", "0.001*(s.hK*(20 - s.T))"),
        ("s.hK*(s.T - s.K)", "W", "s.hK*(s.T + 273.15 - s.K)"),
        ("0.5*(s.T + s.T2)", "K", "0.5*(s.T + s.T2) + 273.15"),
        ("0.1*s.T + 0.9*s.T2", "degC", "0.1*s.T + 0.9*s.T2"),
        ("s.T + s.dT", "K", "s.T + s.dT + 273.15"),
        ("s.T + s.K", "degC", "s.T + 273.15 + s.K + -273.15"),
        ("s.T - 20", "degC", "s.T - 20"),
        ("max(s.T, 20)", "K", "max(s.T, 20) + 273.15"),
        ("s.T if s.T > 20 else s.T2", "degC", "s.T if s.T > 20 else s.T2"),
        ("abs(s.T - s.T2)", "K", "abs(s.T - s.T2)"),
        ("s.dT", "K", "s.dT"),
    ],
)
def test_offset_scales(value: str, unit: str, expected: str) -> None:
    assert result(value, unit) == expected


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        ("2*s.x", "N", ["'to.u' is in N and '2*s.x' is in m", "scenario input", "k = {"]),
        ("s.x + s.v", "m", ["'s.x' is in m and 's.v' is in m/s", "'s.x + s.v' does not fit together"]),
        ("s.x > s.v", "1", ["'s.x' is in m and 's.v' is in m/s"]),
        ("s.x if s.x > 0 else s.v", "m", ["'s.x' is in m and 's.v' is in m/s"]),
        ("sin(s.t)", "1", ["'sin' takes angles and plain numbers, but 's.t' is in s"]),
        ("exp(s.x)", "1", ["'exp' takes plain numbers, but 's.x' is in m"]),
        ("2**s.x", "1", ["'**' takes plain numbers"]),
        ("s.x**s.one", "m", ["'**' takes plain numbers, but 's.x' is in m"]),
        ("s.x**1000", "m", ["to a power that no unit has"]),
        ("(s.x**90)**90", "m", ["no unit of measure needs a power"]),
        ("s.x + s.mm + 1", "m", ["not clear in which unit '1' is", "limit = {"]),
        ("1 - s.eta", "1", ["not clear in which unit '1' is"]),
        ("s.n/60", "Hz", ["'s.n/60' is in rpm", "2*pi*f"]),
        ("s.f", "rad/s", ["2*pi*f"]),
        ("s.T + s.T2", "degC", ["'s.T + s.T2' is in degC, a unit with an offset", "Give it out in K"]),
        ("2*s.T", "K", ["a unit with an offset"]),
        ("s.h*s.T", "W", ["'s.T' is in degC, a unit with an offset"]),
        ("s.on_out*s.T", "degC", ["a unit with an offset"]),
        ("sqrt(s.T)", "1", ["a unit with an offset"]),
        ("s.T - 20", "K", ["a temperature or a difference", "delta_degC"]),
        ("s.TF > s.T - 20", "1", ["a temperature or a difference"]),
        ("s.T - s.T2", "degC", ["is in delta_degC", "a difference is not a temperature"]),
        ("max(s.T, s.T - s.T2)", "degC", ["a difference in degC is not a temperature"]),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(value: str, unit: str, words: list[str]) -> None:
    message = refusal(value, unit)
    for word in words:
        assert word in message
    assert "1.0*" not in message


UNITS = st.sampled_from(["m", "mm", "km", "ft"])
TERMS = st.recursive(
    st.sampled_from(["a.y", "b.y"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-"]), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(lambda t: f"{t[0]}({t[1]}, {t[2]})"),
        inner.map(lambda t: f"(-{t})"),
        inner.map(lambda t: f"2.5*{t}"),
        st.tuples(inner, inner).map(lambda t: f"({t[0]} if a.y > b.y else {t[1]})"),
    ),
    max_leaves=6,
)


@given(TERMS, UNITS, UNITS, UNITS, st.floats(0.1, 10), st.floats(0.1, 10))
def test_the_meaning_does_not_depend_on_the_units(
    text: str, one: str, two: str, to: str, x: float, y: float
) -> None:
    """The same lengths, given in any units, make the same length."""
    values = {"a.y": conversion("m", one).scale * x, "b.y": conversion("m", two).scale * y}
    made = Scenario(
        {
            "a": Function(outputs={"y": {"value": "1", "unit": one}}),
            "b": Function(outputs={"y": {"value": "1", "unit": two}}),
            "c": Function(inputs={"u": {"unit": to}}, outputs={"z": "u"}),
        },
        {"c.u": text},
    )
    if abs(x - y) < 1e-9:
        return  # which of the two is larger is then a matter of rounding
    expected = evaluate(Scenario(
        {"a": Function(outputs={"y": "1"}), "b": Function(outputs={"y": "1"}),
         "c": Function(inputs=["u"], outputs={"z": "u"})},
        {"c.u": text},
    ).connections[0].cells[0], {"a.y": x, "b.y": y})  # fmt: skip
    found = evaluate(made.connections[0].cells[0], values) * conversion(to, "m").scale
    assert found == pytest.approx(expected, rel=1e-12, abs=1e-9)


def test_outputs_take_the_unit_of_their_expression() -> None:
    units = {"s": Function(outputs={n: {"value": "1", "unit": u} for n, u in SOURCES.items()})}
    made = Scenario(
        units,
        outputs={
            "gap": "s.x - s.mm",
            "power": "s.N*s.v",
            "bent": "2*s.x + s.v",
            "free": "s.x + s.none",
            "mean": "0.5*(s.T + s.T2)",
            "rise": "s.T - s.T2",
            "load": {"value": "-s.F", "unit": "N"},
            "both": ["s.x", "2*s.x"],
            "truth": "s.x > s.mm",
        },
    )
    found = {output.port.name: (output.port.unit, show(output.cells[0])) for output in made.outputs}
    assert found == {
        "gap": ("m", "s.x - 0.001*s.mm"),
        "power": ("N*m/s", "s.N*s.v"),
        "bent": (None, "2*s.x + s.v"),
        "free": (None, "s.x + s.none"),
        "mean": ("degC", "0.5*(s.T + s.T2)"),
        "rise": ("delta_degC", "s.T - s.T2"),
        "load": ("N", "1000*-s.F"),
        "both": ("m", "s.x"),
        "truth": (None, "s.x > 0.001*s.mm"),
    }
    assert made.outputs[-1].port.kind is Kind.BOOLEAN


def test_a_unit_that_does_not_exist_is_reported_once() -> None:
    with pytest.raises(ModelError, match=r"inputs.u: 'Newtn' is not a unit of measure; write") as caught:
        scenario("1*s.x", "Newtn")
    assert len(caught.value.complaints) == 1
    made = Function(inputs=["u"], outputs={"y": "u"})
    wrong = PythonUnit(lambda *_: None, [Port("u", Causality.INPUT, unit="Newtn")])
    other = Function(outputs={"y": {"value": "1", "unit": "N"}})
    for value in ("b.y", "-b.y"):
        with pytest.raises(ScenarioError) as several:
            Scenario(
                {"a": wrong, "b": other, "c": made},
                {"a.u": value},
                outputs={"z": {"value": value, "unit": "wat"}},
            )
        assert [problem.where for problem in several.value.problems] == [
            ("outputs", "z"),
            ("units", "a", "inputs", "u"),
        ]


def test_pint_stays_away_from_equal_and_plain_units() -> None:
    code = (
        "import sys; from upbeat import Scenario, Function;"
        "a = Function(outputs={'F': {'value': '1', 'unit': 'N'}, 'v': {'value': '1', 'unit': 'm/s'},"
        " 'd': {'value': '1', 'unit': 'N*s/m'}, 'T': {'value': '1', 'unit': 'degC'}});"
        "b = Function(inputs={'F': {'unit': 'N'}, 'T': {'unit': 'degC'}}, outputs={'y': 'F'});"
        "Scenario({'a': a, 'b': b}, {'b.F': '-a.d*a.v + max(a.F, 3)', 'b.T': 'a.T + 1'},"
        " outputs={'P': 'a.F*a.v'});"
        "assert 'pint' not in sys.modules, 'pint is loaded'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
