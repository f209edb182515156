"""Scenario files: what can be written, and everything that can be wrong with one."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from upbeat.core.errors import FileProblem, InvalidInput, Problem, Problems, ScenarioError
from upbeat.core.expr import show
from upbeat.core.ports import Kind
from upbeat.scenario.files.reading import LARGEST, read_scenario, read_text, scenario_text, write_scenario
from upbeat.scenario.scenario import Scenario
from upbeat.units import RK4, Euler, Function, Ode

TEN_LINES = """
[units.mass]
states = { x = "v", v = "(F - x)/m" }
start = { x = 1.0 }
inputs = ["F"]
parameters = { m = 2.0 }
[units.damper]
inputs = ["v"]
outputs = { F = "-0.5*v" }
[connections]
mass.F = "damper.F"
damper.v = "mass.v"
"""

FULL = """
upbeat = 1
name = "two masses"

[models.mass]
states.x = { der = "v", start = 1.0, unit = "m" }
states.v = "(F - c*x)/m"
inputs = { F = { unit = "N", start = 0.5 } }
outputs = ["x"]
parameters = { m = 1.0, c = { value = 4.0, unit = "N/m" } }
solver = { kind = "rk4", steps = 4 }

[units.left]
model = "mass"
parameters = { m = 2.0 }
start = { x = 0.0, F = 0.25 }

[units.right]
model = "mass"
solver = "euler"

[units.spring]
kind = "function"
inputs = { a = { unit = "mm" }, b = { unit = "mm" } }
outputs = { F = { value = "k*(a - b)", unit = "kN" }, far = { value = "limit(a) > 3", kind = "boolean" } }
parameters = { k = 1.0 }
tables = { limit = { x = [0, 1], y = [0, 5] } }

[connections]
"left.F" = "push - spring.F"
right.F = "spring.F"
spring.a = "left.x"
spring.b = "right.x"

[inputs]
push = { unit = "N", start = 2.0 }

[outputs]
gap = "left.x - right.x"
load = { value = "spring.F", unit = "N" }

[master]
coupling = { kind = "gauss_seidel", order = ["left", "right", "spring"] }
step = 0.01

[run]
until = 10

[record]
signals = ["left.*"]
every = 2
"""


def failure(text: str, **options: Any) -> list[Problem]:
    with pytest.raises(ScenarioError) as caught:
        read_text(text, **options)
    return list(caught.value.problems)


def only(text: str, **options: Any) -> str:
    (problem,) = failure(text, **options)
    return str(problem)


# -------------------------------------------------------------------- what can be written


def test_a_minimal_file() -> None:
    scenario = read_text(TEN_LINES).scenario
    assert scenario == Scenario(
        {
            "mass": Ode(
                states={"x": "v", "v": "(F - x)/m"}, start={"x": 1.0}, inputs=["F"], parameters={"m": 2.0}
            ),
            "damper": Function(inputs=["v"], outputs={"F": "-0.5*v"}),
        },
        {"mass.F": "damper.F", "damper.v": "mass.v"},
    )


def test_everything_at_once() -> None:
    file = read_text(FULL, source="full.toml")
    scenario = file.scenario
    assert scenario.name == "two masses"
    assert list(scenario.units) == ["left", "right", "spring"]
    left, right = scenario.units["left"], scenario.units["right"]
    assert isinstance(left, Ode)
    assert isinstance(right, Ode)
    assert left.equations.values == (2.0, 4.0)
    assert left.equations.start == (0.0, 0.0)
    assert right.equations.start == (1.0, 0.0)
    assert left.solver == RK4(steps=4)
    assert right.solver == Euler()
    assert scenario.port("left.F").start == (0.25,)
    assert scenario.port("spring.far").kind is Kind.BOOLEAN
    assert [f"{c.target} = {show(c.cells[0])}" for c in scenario.connections] == [
        "left.F = push - 1000*spring.F",
        "right.F = 1000*spring.F",
        "spring.a = 1000*left.x",
        "spring.b = 1000*right.x",
    ]
    assert file.master == {
        "coupling": {"kind": "gauss_seidel", "order": ["left", "right", "spring"]},
        "step": 0.01,
    }
    assert file.run == {"until": 10}
    assert file.record == {"signals": ["left.*"], "every": 2}
    assert file.source == "full.toml"


def test_units_with_the_same_model_share_it() -> None:
    text = TEN_LINES.replace(
        "[units.mass]", '[units.mass]\nmodel = "m"\n[units.other]\nmodel = "m"\n[models.m]'
    )
    units = read_text(text).scenario.units
    assert units["mass"] is units["other"]


def test_values_override_what_the_file_says() -> None:
    scenario = read_text(TEN_LINES, values={"mass.m": 3.0, "mass.x": 0.0}).scenario
    assert scenario == read_text(TEN_LINES).scenario.with_values({"mass.m": 3.0, "mass.x": 0.0})
    assert read_text(FULL, values={"push": 7.0}).scenario.inputs[0].start == (7.0,)
    assert "[values › mass.mm]" in only(TEN_LINES, values={"mass.mm": 3.0})


def test_a_file_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_bytes(b"\xef\xbb\xbf" + TEN_LINES.encode())
    assert read_scenario(path).scenario == read_text(TEN_LINES).scenario
    assert read_scenario(str(path)).source == str(path)


# -------------------------------------------------------------------- what can be wrong


def test_all_problems_with_their_lines_in_order() -> None:
    text = FULL.replace("push - spring.F", "push - sprin.F").replace(
        'states.v = "(F - c*x)/m"', 'states.v = "(F - c*y)/m"'
    )
    found = failure(
        text.replace("far = {", "far = { sice = 3,").replace('spring.a = "left.x"', 'spring.a = "push"')
    )
    assert [(problem.line, problem.where) for problem in found] == [
        (7, ("models", "mass", "states", "v")),
        (25, ("units", "spring", "outputs", "far")),
        (30, ("connections", "left.F")),  # what fits where is judged only once all units are known
    ]
    found = failure(
        FULL.replace("push - spring.F", "push - sprin.F").replace(
            '"spring.F", unit = "N"', '"spring.F", unit = "m"'
        )
    )
    assert [(problem.line, problem.where) for problem in found] == [
        (30, ("connections", "left.F")),
        (40, ("outputs", "load")),
    ]


def test_a_problem_is_printed_with_line_place_and_advice() -> None:
    with pytest.raises(ScenarioError) as caught:
        read_text(TEN_LINES.replace("damper.F", "damper.G"), source="ten.toml")
    assert str(caught.value) == (
        "ten.toml: 1 problem\n"
        "  • line 11: [connections › mass.F] 'damper.G' does not exist: unit 'damper' has no output 'G'\n"
        "      The outputs of 'damper' are: F."
    )


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "",
            "conections = {}",
            "line 1: [conections] unknown key 'conections'\n      Did you mean 'connections'?",
        ),
        ("", "upbeat = 2", "line 1: [upbeat] this is version 2 of the format"),
        ("", "name = 3", "line 1: [name] the name must be a text"),
        ("", "models = {left = 3}", "model 'left' must be a table"),
        (
            "",
            "inputs = 3",
            "line 1: [inputs] 'inputs' must be a table, not 3\n      Write [inputs] on a line",
        ),
        ("parameters", "paramters", "unknown key 'paramters'\n      Did you mean 'parameters'?"),
        ("[units.damper]", '[units.damper]\nsolver = "rk4"', "line 8: [units › damper › solver] unknown key"),
        ("[units.damper]", '[units.damper]\nkind = "fuction"', "Did you mean 'function'?"),
        ("[units.damper]", "[units.damper]\nkind = 3", "there is no kind 3"),
        ("[units.damper]", '[units.damper]\nkind = "ode"', "an ode needs at least one state"),
        (
            "[units.damper]",
            "[units.inputs]\nstates={x='1'}\n[units.damper]",
            "taken by the scenario's own inputs",
        ),
        ("[units.damper]", "[units]\nleft = 3\n[units.damper]", "unit 'left' must be a table"),
        ("-0.5*v", "-0.5*w", "line 9: [units › damper › outputs › F] unknown name 'w'"),
        ("{ m = 2.0 }", '{ m = "heavy" }', "[units › mass › parameters › m]"),
        ('"mass.v"', "2020-01-01", "line 12: [connections › damper.v] expected an expression"),
        ('mass.F = "damper.F"', 'mass.F = "damper.F"\n"mass.F" = "damper.F"', "has two sources"),
    ],
)
def test_problems(old: str, new: str, expected: str) -> None:
    assert expected in only(TEN_LINES.replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('"mass"\nparameters', '"mas"\nparameters', "no model 'mas'\n      Did you mean 'mass'?"),
        (
            '"euler"',
            '"eler"',
            "line 20: [units › right › solver] there is no solver 'eler'. Did you mean 'euler'",
        ),
        ('solver = "euler"', 'inputs = ["F"]', "[units › right › inputs] unknown key 'inputs'"),
        ('solver = "euler"', 'states = { x = "1" }', "both a model and equations of its own"),
        ("{ x = 0.0, F = 0.25 }", "0", "start must be a table"),
        ("{ m = 2.0 }", "{ mm = 2.0 }", "line 15: [units › left › parameters › mm] there is no value 'mm'"),
    ],
)
def test_problems_of_units_with_a_shared_model(old: str, new: str, expected: str) -> None:
    assert expected in only(FULL.replace(old, new, 1))


def test_a_file_without_units() -> None:
    assert "[units] the file has no units\n      Add at least one: [units.left]" in only("name = 'x'")
    assert "the file has no units" in only("")
    assert [p.what for p in failure("units = 3")] == [
        "'units' must be a table, not 3",
        "the file has no units",
    ]


def test_several_problems_of_one_model_have_a_line_each() -> None:
    text = '[units.a]\nstates.x = "y"\nstates.z = ["x", "w"]\noutputs = ["x"]\n'
    assert [(p.line, p.where[2:]) for p in failure(text)] == [
        (2, ("states", "x")),
        (3, ("states", "z", "1")),
    ]


def test_problems_of_models_nobody_uses_are_found_too() -> None:
    text = TEN_LINES + "[models.spare]\nstates = { x = 'nothing' }\n"
    assert "[models › spare › states › x] unknown name 'nothing'" in only(text)


def test_a_broken_unit_makes_no_noise_elsewhere() -> None:
    found = failure(TEN_LINES.replace('"(F - x)/m"', '"(F - x)/"') + "[outputs]\ny = 'mass.x + damper.F'\n")
    assert [problem.where for problem in found] == [("units", "mass", "states", "v")]


def test_locating_problems_of_the_layers_above() -> None:
    file = read_text(FULL, source="full.toml")
    assert file.locate(Problem(("master", "step"), "too small")).line == 44
    assert file.locate(Problem(("run", "start"), "missing")).line == 46
    problems = Problems()
    problems.add(("record", "every"), "too many")
    problems.add(("master", "coupling", "order"), "not all")
    assert [problem.line for problem in file.located(problems).problems] == [43, 51]
    assert file.located(problems).source == "full.toml"


# -------------------------------------------------------------------- files that are none


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[units.left]\nstates = { x = "v"', "line 2: "),
        ('[units.left]\nname = "cut of', "line 2"),
        ("[units.left\n", "line 1, column 12: "),
        ("a = 1\nb 2\n", "line 2, column 3: Expected '=' after a key"),
        ('[connections]\n"a.u" = "b.y"\n"a.u" = "c.y"\n', "An input has one source"),
        ("x = " + "[" * 5000, "nested too deeply"),
    ],
)
def test_text_that_is_no_toml(text: str, expected: str) -> None:
    with pytest.raises(FileProblem) as caught:
        read_text(text, source="bad.toml")
    message = str(caught.value)
    assert message.startswith("bad.toml: ")
    assert expected in message


def test_a_file_cut_off_anywhere_is_a_clear_error_or_less_of_a_scenario() -> None:
    for end in range(0, len(FULL), 7):
        with contextlib.suppress(FileProblem, ScenarioError):
            read_text(FULL[:end], source="cut.toml")


def test_a_cut_off_file_shows_its_last_line() -> None:
    with pytest.raises(FileProblem, match=r'(?s)line 3.*states = \{ x = "v", v = \{ der'):
        read_text(TEN_LINES[:40].replace('v = "', "v = { der").rstrip(' "('), source="cut.toml")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    with pytest.raises(FileProblem, match=r"cannot read '.*a\.toml': No such file"):
        read_scenario(path)
    with pytest.raises(FileProblem, match="cannot read"):
        read_scenario(tmp_path)
    path.write_bytes(b"name = 'x'\nb = '\xff'\n")
    with pytest.raises(FileProblem, match="line 2: is not a text in UTF-8; save it as UTF-8"):
        read_scenario(path)
    with path.open("wb") as file:
        file.truncate(LARGEST + 1)
    with pytest.raises(FileProblem, match=r"is larger than 10 MB.*--input"):
        read_scenario(path)


# -------------------------------------------------------------------- writing


def test_a_written_file_reads_back_as_the_same(tmp_path: Path) -> None:
    for text in (TEN_LINES, FULL):
        file = read_text(text)
        path = tmp_path / "written.toml"
        write_scenario(file, path)
        assert read_scenario(path) == file
        write_scenario(file.scenario, path)
        assert read_scenario(path).scenario == file.scenario


def test_a_written_file_is_pleasant_to_read() -> None:
    assert scenario_text(read_text(TEN_LINES)) == (
        "upbeat = 1\n\n"
        "[units.mass]\n"
        'states.x = { der = "v", start = 1.0 }\n'
        'states.v = "(F - x)/m"\n'
        "inputs.F = {}\n"
        'outputs.x = "x"\n'
        'outputs.v = "v"\n'
        "parameters.m = 2.0\n"
        'solver = "rk4"\n\n'
        "[units.damper]\n"
        "inputs.v = {}\n"
        'outputs.F = "-0.5*v"\n\n'
        "[connections]\n"
        '"mass.F" = "damper.F"\n'
        '"damper.v" = "mass.v"\n'
    )


def test_a_shared_model_is_written_once() -> None:
    model = Ode(states={"x": "-x"})
    text = scenario_text(Scenario({"a": model, "b": model, "c": Ode(states={"x": "-x"})}))
    assert text.count("states.x") == 2
    assert '[units.b]\nmodel = "a"' in text
    assert read_text(text).scenario.units["a"] is read_text(text).scenario.units["b"] or "models.a" in text


def test_what_cannot_be_written(tmp_path: Path) -> None:
    scenario = read_text(FULL).scenario
    with pytest.raises(InvalidInput, match="added units cannot be written"):
        write_scenario(scenario.closed(), tmp_path / "a.toml")
    with pytest.raises(FileProblem, match="cannot write"):
        write_scenario(scenario, tmp_path / "no" / "such" / "folder.toml")


# -------------------------------------------------------------------- hostile and careless numbers


@pytest.mark.parametrize(
    ("text", "line", "where"),
    [
        ('[units.a]\ninputs.u = { size = 2000000000 }\noutputs.y = "u[0]"', 2, "inputs.u"),
        ('[units.a]\nparameters.p = { value = 1, size = 2000000000 }\noutputs.y = "1"', 2, "parameters.p"),
        ('[units.a]\noutputs.y = { value = "1", size = 2000000000 }', 2, "outputs.y"),
        ('[units.a]\noutputs.y = "1"\n[inputs]\nw = { size = 2000000000 }', 4, "w"),
        ('[units.a]\noutputs.y = "1"\n[outputs]\nz = { value = "a.y", size = 2000000000 }', 4, "z"),
    ],
)
def test_sizes_are_bounded(text: str, line: int, where: str) -> None:
    (problem,) = failure(text)
    assert problem.line == line
    assert ".".join(problem.where).endswith(where)
    assert "at most 100,000 cells, not 2,000,000,000" in problem.what


def test_an_index_beyond_all_sizes() -> None:
    text = """[units.a]
inputs.mode = { items = ["off", "on"], size = 2 }
outputs.y = "mode[999999999] == 'on'"
"""
    (problem,) = failure(text)
    assert (problem.line, "no array has that many cells" in problem.what) == (3, True)


def test_the_cells_of_a_scenario_are_bounded_before_they_are_made() -> None:
    units = "".join(f'[units.u{i}]\nmodel = "m"\n' for i in range(100))
    text = f'[models.m]\ninputs.u = {{ size = 100000 }}\noutputs.y = "u[0]"\n{units}'
    (problem,) = failure(text)
    assert problem.where == ("units", "u9")
    assert "1,000,010 cells" in problem.what
    assert "at most 1,000,000" in problem.hint


HUGE = "1" + 400 * "0"


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        (f'parameters.k = {HUGE}\noutputs.y = "k"', "too large for a real"),
        (f'inputs = ["u"]\noutputs.y = "u"\n[connections]\na.u = {HUGE}', "too large for a real"),
        (f'tables.t = {{ x = [0, {HUGE}], y = [0, 1] }}\noutputs.y = "t(1)"', "too large for a real"),
        (f'states.x = "-x"\nsolver = {{ kind = "rk4", step = {HUGE} }}', "too large for a real"),
        ('states.x = "-x"\nsolver = { kind = "rk4", steps = 0 }', "a whole number from 1 to"),
        ('parameters.k = { value = 9223372036854775808, kind = "integer" }\noutputs.y = "k"', "64 bits"),
        ('inputs.m = { items = ["off", "on"], start = 9 }\noutputs.y = "m"', "9 is not an index of off, on"),
        ('outputs.y = "1"\n[units.a__b]\noutputs.y = "1"', "'a__b' is not a name for a unit"),
        ('outputs.y__z = "1"', "two underscores in a row are not allowed"),
        ('outputs.y = "1"\n[inputs]\nu__v = 1.0', "'u__v' is not a name"),
    ],
)
def test_numbers_and_names_that_go_too_far(lines: str, what: str) -> None:
    (problem,) = failure(f"[units.a]\n{lines}")
    assert what in problem.what


def test_a_number_with_thousands_of_digits() -> None:
    with pytest.raises(FileProblem, match="thousands of digits"):
        read_text(f'[units.a]\nparameters.k = {"1" * 5000}\noutputs.y = "k"')


def test_values_from_outside_are_checked_like_those_inside() -> None:
    text = '[units.a]\ninputs.mode = { items = ["off", "on"] }\noutputs.y = "mode"\n[units.b]\n'
    text += 'inputs.u = 1.0\noutputs.y = "2*u"\n[connections]\nb.u = "a.y"'
    assert read_text(text, values={"a.mode": "on"}).scenario.port("a.mode").start == (1,)
    with pytest.raises(ScenarioError) as caught:
        read_text(text, values={"a.mode": 9, "b.u": 2.0})
    assert [problem.what for problem in caught.value.problems] == [
        "'b.u' is driven by 'a.y', so a value for it has no effect",
        "unit 'a': port 'mode': 9 is not an index of off, on (0 to 1)",
    ]
