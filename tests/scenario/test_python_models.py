"""Models that a file names in Python: refused unless allowed, and then found, made and written back."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from upbeat.core.abilities import Ability
from upbeat.core.errors import InvalidInput, ScenarioError
from upbeat.scenario.files.reading import read_scenario, read_text, scenario_text
from upbeat.scenario.scenario import Scenario
from upbeat.units import PythonDiscrete, PythonFunction, PythonOde, PythonUnit

MODULE = """
from upbeat.core.ports import Causality, Port
from upbeat.units import Ode

def control(t, u, p):
    return p.gain * (p.target - u.x)

def motion(t, x, u, p):
    return {"x": u.v}

def double(t, x, u, p):
    return {"twice": 2 * x.x}

def slopes(t, u, p):
    return {"v": {"x": -p.gain}}

class Counter:
    def __init__(self, name, start, parameters):
        self.count = 0
    def get(self, port):
        return self.count
    def set(self, port, coefficients):
        pass
    def advance(self, t, to, early):
        self.count += 1
        return to

class Decay(Ode):
    def __init__(self, rate=1.0):
        if rate == 0:
            raise ZeroDivisionError("no rate")
        super().__init__(states={"x": f"-{rate}*x"})

decay = Decay(3.0)

def lasts(state, p):
    return p.pause if state == "idle" else 200.0

def after(state, p):
    return "working" if state == "idle" else "idle"

def says(state, p):
    return {"order": "to_work" if state == "idle" else "to_idle"}

def told(state, elapsed, events, p):
    return "idle"

def busy(state, p):
    return {"busy": state == "working"}
"""

FILE = """
[units.controller]
kind = "python"
function = "plant_code:control"
slopes = "plant_code:slopes"
inputs = ["x"]
outputs = { v = { unit = "m/s", depends = ["x"] } }
parameters = { gain = 2.0, target = 1.0 }

[units.plant]
kind = "python"
function = "plant_code:motion"
compute = "plant_code:double"
states = { x = 0.5 }
inputs = ["v"]
outputs = ["x", "twice"]
solver = { kind = "rk4", steps = 2 }

[units.counter]
kind = "python"
class = "plant_code:Counter"
outputs = { n = { kind = "integer" } }

[connections]
controller.x = "plant.x"
plant.v = "controller.v"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "plant_code.py").write_text(MODULE)
    (tmp_path / "broken_code.py").write_text("1 / 0\n")
    monkeypatch.delitem(sys.modules, "plant_code", raising=False)
    return tmp_path


def complaint(table: str, folder: Path) -> str:
    with pytest.raises(ScenarioError) as caught:
        read_text(f'[units.a]\nkind = "python"\n{table}\n', allow_python=True, folder=folder)
    (problem,) = caught.value.problems
    return str(problem)


def test_python_is_refused_unless_allowed(folder: Path) -> None:
    (folder / "plant_code.py").write_text("raise AssertionError('this must not run')")
    with pytest.raises(ScenarioError) as caught:
        read_text(FILE, folder=folder)
    assert len(caught.value.problems) == 3
    message = str(caught.value.problems[0])
    assert "line 2: [units › controller]" in message
    assert "wants to run Python code (plant_code:control)" in message
    assert "add --allow-python to the command" in message
    assert "plant_code" not in sys.modules


def test_modules_beside_the_file_are_found(folder: Path) -> None:
    path = folder / "plant.toml"
    path.write_text(FILE)
    before = list(sys.path)
    scenario = read_scenario(path, allow_python=True).scenario
    assert sys.path == before
    controller, plant, counter = scenario.units.values()
    assert isinstance(controller, PythonFunction)
    assert isinstance(plant, PythonOde)
    assert isinstance(counter, PythonUnit)
    assert controller.instantiate("c", 0.0).get("v") == 2.0
    assert controller.instantiate("c", 0.0).slope("v", "x") == [-2.0]
    assert plant.instantiate("p", 0.0).get("twice") == 1.0
    assert counter.instantiate("n", 0.0).get("n") == 0


def test_a_file_names_abilities_and_the_sample_time(folder: Path) -> None:
    text = """
[units.n]
kind = "python"
class = "plant_code:Counter"
outputs = ["n"]
abilities = ["rollback"]
sample_time = 0.25
"""
    read = read_text(text, allow_python=True, folder=folder)
    unit = read.scenario.units["n"]
    assert isinstance(unit, PythonUnit)
    assert unit.sample_time == 0.25
    assert unit.abilities == {Ability.ROLLBACK, Ability.NEXT_EVENT}
    again = read_text(scenario_text(read.scenario), allow_python=True, folder=folder)
    assert again.scenario.units == read.scenario.units


def test_a_model_class_with_arguments_and_a_model(folder: Path) -> None:
    text = """
[units.a]
kind = "python"
class = "plant_code:Decay"
arguments = { rate = 2.0 }
[units.b]
kind = "python"
class = "plant_code:decay"
"""
    units = read_text(text, allow_python=True, folder=folder).scenario.units
    assert [port.name for port in units["a"].ports] == ["x"]
    assert units["b"] is sys.modules["plant_code"].decay


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("", "names either a class or a function"),
        ('function = "plant_code:control"\nclass = "plant_code:Decay"', "names either a class or a function"),
        ('function = "plant_code.control"', 'must have the form "module:name"'),
        ('function = "os; import sys:x"', 'must have the form "module:name"'),
        ("function = 3", 'must have the form "module:name"'),
        (
            'function = "no_such_code:control"',
            "there is no Python module 'no_such_code': it must lie next to",
        ),
        ('function = "plant_code:contrl"', "'plant_code' has no 'contrl'. Did you mean 'control'"),
        ('function = "broken_code:f"', "importing 'broken_code' failed: ZeroDivisionError"),
        (
            'class = "plant_code:Decay"\narguments = { rate = 0 }',
            "could not be made: ZeroDivisionError: no rate",
        ),
        ('class = "plant_code:Decay"\narguments = 3', "arguments must be a table"),
        ('class = "plant_code:control"', "is not a model: it has no ports"),
        ('class = "plant_code:Decay"\nsolver = "rk4"', "a python model without ports has no 'solver'"),
        ('function = "plant_code:control"\nsolver = "rk4"', "a python model without states has no 'solver'"),
        ('function = "plant_code:control"\nfuncton = 1', "Did you mean 'function'?"),
    ],
)
def test_problems(folder: Path, table: str, expected: str) -> None:
    assert expected in complaint(table, folder)


def test_python_models_are_written_by_name(folder: Path) -> None:
    file = read_text(FILE, allow_python=True, folder=folder)
    text = scenario_text(file)
    assert 'function = "plant_code:control"' in text
    assert read_text(text, allow_python=True, folder=folder) == file


def test_python_models_without_a_name_cannot_be_written(folder: Path) -> None:
    unnamed = PythonFunction(lambda t, u, p: u.a, ["a"], ["y"])
    with pytest.raises(
        InvalidInput, match=r"unit 'a' has a Python function .* Move it to a module of its own"
    ):
        scenario_text(Scenario({"a": unnamed}))
    own = PythonOde(lambda t, x, u, p: [0.0], {"x": 1.0}, outputs={"x": lambda t, x, u, p: x.x})
    with pytest.raises(InvalidInput, match="unit 'b' has"):
        scenario_text(Scenario({"b": own}))
    custom = read_text('[units.c]\nkind="python"\nclass="plant_code:Decay"', allow_python=True, folder=folder)
    with pytest.raises(InvalidInput, match="unit 'c' has"):
        scenario_text(custom)


OFFICER = """
[units.officer]
kind = "python"
start = "idle"
elapsed = 30.0
time_advance = "plant_code:lasts"
internal = "plant_code:after"
output = "plant_code:says"
external = "plant_code:told"
shows = "plant_code:busy"
inputs = ["relax"]
outputs = { order = { event = true, items = ["to_work", "to_idle"] }, busy = { kind = "boolean" } }
parameters = { pause = 100.0 }
"""


def test_discrete_units_by_the_names_of_their_functions(folder: Path) -> None:
    file = read_text(OFFICER, allow_python=True, folder=folder)
    model = file.scenario.units["officer"]
    assert isinstance(model, PythonDiscrete)
    unit = model.instantiate("officer", 0.0)
    assert (unit.due(), unit.get("busy")) == (70.0, False)
    unit.advance(0.0, 70.0)
    assert unit.get("order") == 0
    text = scenario_text(file)
    assert 'time_advance = "plant_code:lasts"' in text
    assert read_text(text, allow_python=True, folder=folder) == file


def test_discrete_units_in_files_say_what_is_missing(folder: Path) -> None:
    told = 'external = "plant_code:told"\n'
    assert "needs the state at first: start" in complaint(told, folder)
    assert "either a class or a function" in complaint(f'{told}function = "plant_code:told"', folder)
    assert "has no 'states'" in complaint(f"{told}start = 1\nstates = {{ x = 1 }}", folder)
    with pytest.raises(ScenarioError, match="refused unless you trust it"):
        read_text(OFFICER, allow_python=False, folder=folder)


def test_a_start_that_a_file_cannot_hold_is_not_written() -> None:
    model = PythonDiscrete((1, 2), time_advance=sum, internal=tuple)
    with pytest.raises(InvalidInput, match="unit 'a' has a start state that is not made of texts"):
        scenario_text(Scenario({"a": model}))
