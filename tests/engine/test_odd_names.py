"""Ports with the names that other tools give them: through connections, values, files and back."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import upbeat as up
from odd_units import integrator
from upbeat.cli.main import main
from upbeat.core.expr import Name, show
from upbeat.core.names import objection_to_port
from upbeat.scenario.files.reading import read_text
from upbeat.units.shorthand import ports

SETTINGS = {"pace": 0.25, "until": 1.0}
ODD = (
    "der(x)",
    "body.v[1]",
    "R.T[1, 1]",
    "Float64 continuous output",
    "a__b",
    'x,"y"',
    "größe",
    "x = 1",
    "*",
)
NAMES = st.one_of(st.sampled_from(ODD), st.text(min_size=1, max_size=8)).filter(
    lambda name: not objection_to_port(name)
)


def quoted(name: str) -> str:
    return show(Name(name))


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(NAMES, min_size=4, max_size=4, unique=True))
def test_any_names_travel(engine: str, tmp_path: Path, names: list[str]) -> None:
    u, y, rate, gain = names
    model = integrator(u, y, rate, gain)
    scenario = up.Scenario(
        units={"a": model, "b": model, "c": up.Function(inputs=["v"], outputs={"w": "2*v"})},
        connections={
            f"b.{u}": f"1 - {quoted(f'a.{y}')}",
            "c.v": quoted(f"b.{rate}"),
        },
        outputs={"sum": f"{quoted(f'a.{y}')} + {quoted(f'b.{y}')}"},
        parameters={f"a.{gain}": 0.5},
    )
    again = up.Scenario(
        units=scenario.units,
        connections={connection.target: connection.text for connection in scenario.connections},
        outputs={output.port.name: output.text for output in scenario.outputs},
    )
    assert again == scenario
    trace = up.simulate(scenario, **SETTINGS, engine=engine, record=["sum", f"a.{y}", f"b.{rate}", "c.w"])
    # a: x' = 0.5; b: x' = 1 - a.x; Jacobi, inputs held: the exact sums of Euler's method
    a = 0.125 * np.arange(5)
    b = 0.25 * np.concatenate([[0.0], np.cumsum(1.0 - a[:-1])])
    assert sorted(trace.names) == sorted([f"a.{y}", f"b.{rate}", "c.w", "sum"])
    np.testing.assert_allclose(trace[f"a.{y}"], a, atol=1e-14)
    np.testing.assert_allclose(trace["sum"], a + b, atol=1e-14)
    np.testing.assert_allclose(trace[f"b.{rate}"], 1.0 - a, atol=1e-14)
    np.testing.assert_allclose(trace["c.w"], 2.0 - 2.0 * a, atol=1e-14)
    for suffix in ("csv", "journal", *(("parquet",) if find_spec("pyarrow") else ())):
        trace.save(tmp_path / f"r.{suffix}")
        back = up.read(tmp_path / f"r.{suffix}")
        assert back.names == trace.names
        for name in trace.names:
            np.testing.assert_array_equal(back[name], trace[name])


FILE = """
upbeat = 1
[units.a]
kind = "python"
class = "odd_units:Odd"
inputs = { "the input" = 1.0 }
outputs = { "x,y" = { depends = [] }, "der(x)" = { depends = ["the input"] } }
parameters = { "body.k[1]" = 1.0 }
[units.b]
inputs = ["u"]
outputs = { y = "u" }
[connections]
"b.u" = "`a.x,y` + 2*`a.der(x)`"
[outputs]
rate = "a.der(x)"
[master]
step = 0.25
[run]
until = 1.0
[record]
signals = ["a.der(x)", "`a.x,y`", "b.y"]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "odd.toml"
    path.write_text(FILE)
    return path


def test_files_and_the_command_line(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = file.with_suffix(".csv")
    sets = ["--set", "a.body.k[1]=3", "--set", "`a.the input`=2"]
    assert main(["run", str(file), "--allow-python", *sets, "--out", str(out)]) == 0
    trace = up.read(out)
    np.testing.assert_array_equal(trace["a.der(x)"], [6.0] * 5)
    np.testing.assert_array_equal(trace["a.x,y"], 1.5 * np.arange(5))
    capsys.readouterr()
    picture = file.with_suffix(".svg")
    assert main(["plot", str(out), "--signals", "a.der(x)", "--out", str(picture)]) == 0
    capsys.readouterr()
    assert main(["explain", str(file), "--allow-python", "--json"]) == 0
    assert "a.der(x)" in json.dumps(json.loads(capsys.readouterr().out))


def test_a_file_is_written_and_read_back(file: Path) -> None:
    experiment = up.load(file, allow_python=True)
    up.write_scenario(experiment, file.with_name("again.toml"))
    again = up.load(file.with_name("again.toml"), allow_python=True)
    assert again.scenario.connections == experiment.scenario.connections
    assert again.scenario.ports.keys() == experiment.scenario.ports.keys()
    assert again.record == experiment.record


def test_a_checkpoint_goes_on(tmp_path: Path, engine: str) -> None:
    scenario = up.Scenario({"a": integrator("u v", "v[1]", "der(v[1])", "k")}, {"a.u v": "1 - a.v[1]"})
    kept = up.Checkpoint(tmp_path / "c", "2steps")
    given = {**SETTINGS, "engine": engine, "out": tmp_path / "r.csv", "record": ["a.v[1]"]}
    experiment = up.experiment(scenario, **given, checkpoint=kept)
    with experiment.open() as run:
        run.step()
        run.checkpoint()
    trace = up.resume(tmp_path / "c", experiment=experiment)
    np.testing.assert_allclose(trace["a.v[1]"], 1.0 - 0.75 ** np.arange(5))


# -------------------------------------------------------------------- whole names and cells


def test_a_port_goes_before_a_cell(engine: str) -> None:
    indexed = integrator("u[0]", "y[0]", "y[1]", "k")
    array = up.Ode({"x": ["1", "2"]}, outputs=["x"])
    scenario = up.Scenario({"a": indexed, "b": array}, {"a.u[0]": "b.x[1]"}, outputs={"d": "a.y[1] - b.x[0]"})
    trace = up.simulate(scenario, **SETTINGS, engine=engine)
    np.testing.assert_allclose(trace["a.y[1]"], trace["b.x[1]"])
    np.testing.assert_allclose(trace["d"], trace["b.x[1]"] - trace["b.x[0]"])
    assert trace["a.y"].shape == (5, 2), "as if it were an array"


def test_two_things_by_one_name_are_refused() -> None:
    both = up.PythonUnit(lambda *_: None, ports({"v": {"size": 2}, "v[1]": 0.0}))
    with pytest.raises(up.ScenarioError, match=r"a port 'v\[1\]', and an array 'v' with a cell of that name"):
        up.Scenario({"a": both})


def test_an_expression_goes_before_a_name() -> None:
    model = up.PythonUnit(lambda *_: None, ports((), ["x", "x - y", "x + 1", "der(x)"]))
    sink = up.Function(inputs=["u"], outputs={"y": "u"})
    made = up.Scenario({"a": model, "b": sink}, {"b.u": "a.x + 1"})
    assert show(made.connections[0].cells[0]) == "a.x + 1"
    made = up.Scenario({"a": model, "b": sink}, {"b.u": "`a.x + 1`"})
    assert made.connections[0].cells == (Name("a.x + 1"),)
    made = up.Scenario({"a": model, "b": sink}, {"b.u": "a.x - y"})
    assert made.connections[0].cells == (Name("a.x - y"),), "for there is no y"
    made = up.Scenario({"a": model, "b": sink}, {"b.u": "a.der(x)"})
    assert made.connections[0].text == "`a.der(x)`"


@pytest.mark.parametrize(
    ("connections", "message"),
    [
        ({"b.u": "`a.der(y)`"}, r"unit 'a' has no output 'der\(y\)'"),
        ({"b.u": "a.v[2].z"}, r"unit 'a' has no output 'v\[2\].z'"),
        ({"b.u": "a.v[2].w[3]"}, r"'a.v\[2\].w' is a single value"),
        ({"b.der(x)": "1"}, r"unit 'b' has no input 'der\(x\)'"),
        ({"b.u.x": "1"}, "too many dots"),
        ({"a b": "1"}, "does not name a port"),
    ],
)
def test_what_does_not_exist_is_said(connections: dict[str, str], message: str) -> None:
    model = up.PythonUnit(lambda *_: None, ports((), ["der(x)", "v[2].w"]))
    sink = up.Function(inputs=["u"], outputs={"y": "u"})
    with pytest.raises(up.ScenarioError, match=message):
        up.Scenario({"a": model, "b": sink}, connections)


def test_values_by_odd_names() -> None:
    model = integrator("u", "y", "d", "gains[1].k")
    scenario = up.Scenario({"a": model}).with_values({"a.gains[1].k": 4.0, "`a.u`": 2.0})
    assert scenario.port("a.gains[1].k").start == (4.0,)
    with pytest.raises(up.ScenarioError, match=r"there is no value 'gains\[2\].k' to set"):
        scenario.with_values({"a.gains[2].k": 4.0})


def test_lines_of_odd_names_are_found() -> None:
    text = FILE.replace('"b.u" = "`a.x,y`', '"b.u" = "`a.x,z`')
    with pytest.raises(up.ScenarioError) as caught:
        read_text(text, allow_python=True, folder=Path(__file__).parents[1])
    assert [problem.line for problem in caught.value.problems] == [
        text[: text.index('"b.u"')].count("\n") + 1
    ]


def test_inside_a_nested_scenario(engine: str) -> None:
    inner = up.Scenario(
        {"m": integrator("the u", "x.y", "der(x)", "k")}, {"m.the u": "f"}, inputs={"f": 0.0},
        outputs={"x": "m.x.y"},
    )  # fmt: skip
    for flatten in (True, False):
        car = up.Nested(inner, up.Master(up.Fixed(0.25)), flatten=flatten)
        scenario = up.Scenario({"car": car.with_values({"m.k": 2.0})}, {"car.f": "1"})
        trace = up.simulate(scenario, **SETTINGS, engine=engine)
        np.testing.assert_allclose(trace["car.x"], 0.5 * np.arange(5))


def test_the_derivative_of_an_odd_output(engine: str) -> None:
    names = ("u", "v[1]", "der(v[1])", "k")
    scenario = up.Scenario(
        {"a": integrator(*names), "b": up.Ode({"x": "w"}, inputs=["w"], solver=up.Euler())},
        {"b.w": "a.v[1]"},
    )
    trace = up.simulate(scenario, **SETTINGS, engine=engine, inputs=up.Hermite())
    np.testing.assert_allclose(trace["a.v[1]"], trace.time)
