"""What the studio shows of scenarios, right and wrong ones, and what it judges of them."""

from __future__ import annotations

import json
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import upbeat as up
from fmu_maker import COMPILER, make
from studio_server import Studio
from upbeat.core.errors import ScenarioError

EXAMPLES = Path(__file__).parents[2] / "examples"
PAGE = Path(__file__).parents[2] / "src" / "upbeat" / "studio" / "page"
SCENARIOS = [
    path.relative_to(EXAMPLES).as_posix()
    for path in sorted(EXAMPLES.rglob("*.toml"))
    if "units" in tomllib.loads(path.read_text())
]

MASSES = """[units.left]
states = { x = "v", v = "(F - c*x)/m" }
inputs = { F = { unit = "N" } }
outputs = { x = { value = "x", unit = "m" }, v = { value = "v", unit = "m/s" } }
parameters = { m = 1.0, c = 2.0 }
[units.right]
inputs = { u = { unit = "mm" } }
outputs = { F = { value = "-3*u", unit = "N" } }
[connections]
"left.F" = "right.F"
"right.u" = "left.x"
[master]
step = 0.01
[run]
until = 1.0
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    shutil.copytree(EXAMPLES, folder, dirs_exist_ok=True)
    (folder / "masses.toml").write_text(MASSES)
    return folder


@pytest.fixture(scope="module")
def studio(folder: Path) -> Iterator[Studio]:
    made = Studio(folder, "--allow-python")
    yield made
    made.close()


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_example_is_shown(studio: Studio, folder: Path, name: str) -> None:
    view = studio.view(name, order=True)
    try:
        made = up.load(folder / name, allow_python=True)
    except ScenarioError as error:  # an example of what is wrong
        wrong = len(error.problems)
    else:
        wrong = 0
    assert len([one for one in view["problems"] if one["severity"] == "error"]) == wrong
    if wrong:
        return
    assert list(view["units"]) == list(made.scenario.units)
    for unit, model in made.scenario.units.items():
        shown = [
            port["name"] for key in ("inputs", "outputs", "parameters") for port in view["units"][unit][key]
        ]
        assert sorted(shown) == sorted(port.name for port in model.ports if not port.internal)
    boxes = {box["name"] for box in view["diagram"]["boxes"] if box["kind"] in ("unit", "nested")}
    assert boxes == set(made.scenario.units)
    assert len(view["connections"]) == len(made.scenario.all_connections)
    assert view["loops"] == [[f"{u}.{p}" for _, u, p in loop] for loop in made.scenario.graph.loops]
    flat = [port for group in view["master"]["order"] for port in group]
    assert flat == [f"{unit}.{port}" for _, unit, port in made.scenario.graph.order]
    assert view["master"]["explained"]
    lines = (folder / name).read_text().splitlines()
    for unit, shown_unit in view["units"].items():
        assert unit in lines[shown_unit["line"] - 1]


def test_boxes_stay_where_they_were_put(studio: Studio) -> None:
    view = studio.view("masses.toml")
    assert len(view["diagram"]["boxes"]) == 2
    studio.ask("PUT", "/api/places?path=masses.toml", {"places": {"left": [400, 40], "right": [40, 200]}})
    moved = {box["key"]: (box["x"], box["y"]) for box in studio.view("masses.toml")["diagram"]["boxes"]}
    assert moved == {"left": (400, 40), "right": (40, 200)}
    assert studio.ask("GET", "/api/places?path=masses.toml")["places"] == {
        "left": [400, 40],
        "right": [40, 200],
    }
    added = MASSES + "[units.more]\nkind = 'gain'\n"
    again = studio.view("masses.toml", added, before=view["diagram"])
    found = {box["key"]: (box["x"], box["y"]) for box in again["diagram"]["boxes"]}
    assert found.items() >= moved.items()
    assert len(found) == 3
    wrong = studio.ask("PUT", "/api/places?path=masses.toml", {"places": {"left": ["a", 1]}}, status=400)
    assert "two numbers" in wrong["error"]


@pytest.mark.parametrize(
    ("right", "wrong", "line", "unit"),
    [
        ('"left.F" = "right.F"', '"left.F" = "right.G"', 10, "left"),
        ('"left.F" = "right.F"', '"left.G" = "right.F"', 10, "left"),
        ('"left.F" = "right.F"', '"left.F" = "rigt.F"', 10, "left"),
        ('"left.F" = "right.F"', '"lfet.F" = "right.F"', 10, None),
        ("parameters = { m", "paramters = { m", 5, "left"),
        ('x = "v", v', 'x = "w", v', 2, "left"),
        ('value = "-3*u"', 'value = "-3*uu"', 8, "right"),
        ("step = 0.01", "setp = 0.01", 13, None),
        ("until = 1.0", "untli = 1.0", 15, None),
        ("[units.right]", "[units.right]\nkind = 'functon'", 7, "right"),
        ("step = 0.01", 'step = 0.01\ncoupling = "gauss_sidel"', 14, None),
    ],
)
def test_near_names_are_offered_and_right(
    studio: Studio, right: str, wrong: str, line: int, unit: str | None
) -> None:
    """A problem is on its line, and the edit that is offered gives the scenario back as it was meant."""
    text = MASSES.replace(right, wrong)
    view = studio.view("masses.toml", text)
    found = [one for one in view["problems"] if one["severity"] == "error"]
    problem = next(one for one in found if one["fixes"] or one["line"] == line)
    assert problem["line"] == line
    assert problem["unit"] == unit
    if "Did you mean" not in problem["message"]:
        return
    fixed = [studio.edit(text, *fix["edits"]) for fix in problem["fixes"]]
    meant = tomllib.loads(
        MASSES.replace(right, right if "kind" not in wrong else "[units.right]\nkind = 'function'")
    )
    if "coupling" in wrong:
        meant["master"]["coupling"] = "gauss_seidel"
    assert meant in [tomllib.loads(one) for one in fixed]


def test_a_text_that_is_no_toml(studio: Studio) -> None:
    view = studio.view("masses.toml", MASSES.replace("step = 0.01", "step = = 0.01"))
    (problem,) = view["problems"]
    assert (problem["line"], problem["column"]) == (13, 8)
    assert view["diagram"] is None
    assert view["units"] == {}


@pytest.mark.parametrize(
    "text", ["", "[units]", "units = 5", "[units]\na = 1", "[units.a]\nkind = []", "[[units]]\na = 1"]
)
def test_odd_texts_are_shown(studio: Studio, text: str) -> None:
    assert studio.view("masses.toml", text)["problems"]


def _drawn(view: Any) -> tuple[set[str], set[tuple[str, str]]]:
    diagram = view["diagram"]
    wires = {(wire["source"], wire["target"]) for wire in diagram["wires"]}
    return {box["key"] for box in diagram["boxes"]}, wires


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("-3*u", "-3*"),
        ("(F - c*x)/m", "(F - cc*x)/m"),
        ("[units.right]", "[units.right]\nkind = 'fmu'\nfile = 'missing.fmu'"),
        ("[units.right]", "[units.right]\nscenario = 'missing.toml'"),
        ("parameters = { m", "paramters = { m"),
        ("step = 0.01", "setp = 0.01"),
    ],
)
def test_what_is_wrong_stays_in_the_diagram(studio: Studio, right: str, wrong: str) -> None:
    """Units that cannot be made keep their boxes, wires and events, as somebody is typing just now."""
    text = MASSES + '[events.far]\nwhen = "left.x > 9"\nthen = { "left.v" = "-left.v" }\n'
    view = studio.view("masses.toml", text.replace(right, wrong))
    assert [one for one in view["problems"] if one["severity"] == "error"]
    assert _drawn(view) == _drawn(studio.view("masses.toml", text))
    assert _drawn(view) == (
        {"left", "right", "event far"},
        {("right.F", "left.F"), ("left.x", "right.u"), ("left", "far")},
    )


def test_a_wire_from_nowhere_leaves_the_boxes(studio: Studio) -> None:
    view = studio.view("masses.toml", MASSES.replace("right.F", "right.G"))
    assert _drawn(view) == ({"left", "right"}, {("left.x", "right.u")})


def test_one_of_several_problems_is_mended(studio: Studio) -> None:
    """Also where the mended unit then has connections that are wrong, which nobody could see before."""
    text = MASSES.replace("-3*u", "-3*uu").replace('"right.F"', '"right.G"').replace("step =", "setp =")
    view = studio.view("masses.toml", text)
    problem = next(one for one in view["problems"] if one["unit"] == "right")
    (fix,) = problem["fixes"]
    assert studio.edit(text, *fix["edits"]) == text.replace("uu", "u")


def test_where_a_wire_may_go(studio: Studio) -> None:
    more = studio.edit(MASSES, {"op": "add_unit", "name": "lamp", "block": "state_machine"})
    found = studio.ask("POST", "/api/targets", {"path": "masses.toml", "text": more, "from": "left.x"})[
        "targets"
    ]
    assert found["right.u"] == {"ok": True, "why": None, "note": "m → mm; replaces what is connected"}
    assert not found["left.F"]["ok"]
    assert "do not measure the same" in found["left.F"]["why"]
    assert not found["lamp.switch"]["ok"]
    wrong = studio.ask("POST", "/api/targets", {"path": "masses.toml", "text": MASSES, "from": "left.m"}, 400)
    assert "parameter" in wrong["error"]


@pytest.mark.parametrize(
    ("expression", "unit", "error", "completed", "measured"),
    [
        ("left.", None, None, {"left.x", "left.v"}, None),
        ("2*left.x", None, "", set(), "m"),
        ("left.x + left.v", None, "measure", set(), None),
        ("left.y", None, "does not exist", set(), None),
        ("left.x +", None, "", set(), None),
        ("k*", "left", None, set(), None),
        ("c*x + q", "left", "there is no 'q'", set(), None),
        ("co", "left", None, {"cos", "cosh"}, None),
    ],
)
def test_expressions_while_they_are_typed(
    studio: Studio,
    expression: str,
    unit: str | None,
    error: str | None,
    completed: set[str],
    measured: str | None,
) -> None:
    body = {
        "path": "masses.toml",
        "text": MASSES,
        "unit": unit,
        "expression": expression,
        "cursor": len(expression),
    }
    found = studio.ask("POST", "/api/expression", body)
    if error:
        assert error in found["error"]["message"]
        assert 0 <= found["error"]["column"] <= len(expression)
    if measured:
        assert found["error"] is None
        assert found["unit"] == measured
    assert completed <= {one["text"] for one in found["completions"]}


def test_inside_a_nested_scenario(studio: Studio, folder: Path) -> None:
    (folder / "outer.toml").write_text(
        '[units.pair]\nscenario = "inner.toml"\n[master]\nstep = 0.01\n[run]\nuntil = 1.0\n'
    )
    (folder / "inner.toml").write_text(MASSES + '[outputs]\ny = "left.x"\n')
    view = studio.view("outer.toml")
    assert view["units"]["pair"]["inside"] == ["left", "right"]
    inner = studio.view("outer.toml", inside=["pair"])
    assert inner["path"] == "inner.toml"
    assert set(inner["units"]) == {"left", "right"}
    body = {"path": "outer.toml", "text": "[units.a]\nkind = 'gain'", "inside": ["a"]}
    assert "not a unit with a scenario inside" in studio.ask("POST", "/api/view", body, 400)["error"]


@pytest.mark.parametrize(
    "written", ["push = 1.0", 'push = { unit = "N" }', 'push = { start = 1.0, unit = "N" }']
)
def test_the_start_of_an_input_is_where_the_view_says(studio: Studio, written: str) -> None:
    text = MASSES.replace('"right.F"', '"push"') + f"[inputs]\n{written}\n"
    (port,) = studio.view("masses.toml", text)["inputs"]
    again = studio.edit(text, {"op": "set", "at": port["at"], "value": 2.5})
    (port,) = studio.view("masses.toml", again)["inputs"]
    assert port["start"] == 2.5
    assert port["unit"] == ("N" if "unit" in written else None)


def test_inside_what_a_unit_is_made_of(studio: Studio) -> None:
    """An adapted unit has a scenario inside, though not a file of it; and so may a unit of that."""
    name = "power_window/power_window.toml"
    inner = studio.view(name, inside=["controller"])
    assert set(inner["units"]) == {box["key"] for box in inner["diagram"]["boxes"] if box["kind"] == "nested"}
    assert list(inner["units"]) == studio.view(name)["units"]["controller"]["inside"] == ["lazy"]
    assert inner["path"] is None
    deeper = studio.view(name, inside=["controller", "lazy"])
    assert deeper["units"]["controller"]["title"] == "StateMachine"


def test_the_example_of_the_page_is_that_of_the_examples() -> None:
    page, example = (
        tomllib.loads(path.read_text())
        for path in (PAGE / "two_masses.toml", EXAMPLES / "two_mass" / "lookahead.toml")
    )
    assert page | {"name": ""} == example | {"name": ""}


def test_fifty_units_do_not_overlap(studio: Studio) -> None:
    lines = [f'[units.u{k}]\ninputs = ["u"]\noutputs = {{ y = "0.5*u" }}\n' for k in range(50)]
    wires = ["[connections]", *(f'"u{k}.u" = "u{(7 * k + 3) % 50}.y"' for k in range(1, 50))]
    view = studio.view(
        "masses.toml", "".join(lines) + "\n".join(wires) + "\n[master]\nstep = 0.1\n[run]\nuntil = 1\n"
    )
    boxes = view["diagram"]["boxes"]
    assert len(boxes) == 50
    for k, one in enumerate(boxes):
        for other in boxes[:k]:
            apart = (
                one["x"] + one["width"] <= other["x"] or other["x"] + other["width"] <= one["x"]
                or one["y"] + one["height"] <= other["y"] or other["y"] + other["height"] <= one["y"]
            )  # fmt: skip
            assert apart, (one["name"], other["name"])


@pytest.mark.parametrize(
    ("what", "options", "says"),
    [
        ("stability", {"seconds": 2}, "table"),
        ("map", {"parameter": "left.m", "low": 0.5, "high": 2.0, "points": 4}, "left.m"),
        ("trust", {"seconds": 5}, "signal"),
        ("step", {"seconds": 5}, "steps"),
        ("schedule", {"cores": 2}, "critical path"),
        ("explain", {}, "Algebraic loops"),
        ("discover", {"seconds": 2}, "Nothing was seen to happen"),
        ("picture", {}, ""),
    ],
)
def test_judgements(studio: Studio, what: str, options: dict[str, Any], says: str) -> None:
    found = studio.job(what, "masses.toml", options=options)
    assert found["state"] == "done", found
    result = found["result"]
    assert says in result["text"]
    json.dumps(result["data"])
    assert all(picture.startswith("<svg") for picture in result["svg"])
    if what in ("stability", "map", "step", "picture"):
        assert result["svg"]
    if what == "step" and result["edits"]:
        text = studio.edit(MASSES, *result["edits"])
        assert tomllib.loads(text)["master"] != tomllib.loads(MASSES)["master"]
        assert studio.view("masses.toml", text)["master"]["explained"]
    if what == "schedule":
        assert {bar["core"] for bar in result["data"]["bars"]} <= {0, 1}
        assert all(bar["begin"] < bar["end"] for bar in result["data"]["bars"])
        assert {"left", "right"} <= {bar["unit"] for bar in result["data"]["bars"]}


def test_the_report_of_a_run_is_a_file(studio: Studio, folder: Path) -> None:
    run = studio.start("masses.toml")
    studio.finished(run)
    found = studio.job("report", "masses.toml", run=run)
    assert found["state"] == "done", found
    assert found["result"]["file"] == f"runs/{run}.html"
    status, headers, body = studio.request("GET", f"/api/file/raw?path=runs/{run}.html")
    assert status == 200
    assert "attachment" in headers["content-disposition"]
    assert headers["content-type"] == "application/octet-stream"
    assert b"<html" in body


def test_a_judgement_is_cancelled(studio: Studio) -> None:
    name = studio.ask(
        "POST", "/api/jobs",
        {"what": "trust", "path": "masses.toml", "text": MASSES.replace("1.0\n", "1e6\n")},
        201,
    )["id"]  # fmt: skip
    assert studio.ask("GET", f"/api/jobs/{name}")["state"] == "running"
    assert studio.ask("DELETE", f"/api/jobs/{name}") == {}
    assert "no job" in studio.ask("GET", f"/api/jobs/{name}", status=404)["error"]


def test_judgements_that_fail_say_why(studio: Studio) -> None:
    found = studio.job("study", "masses.toml")
    assert found["state"] == "failed"
    assert "[study]" in found["error"]["error"]
    wrong = studio.ask("POST", "/api/jobs", {"what": "stabilty", "path": "masses.toml", "text": MASSES}, 400)
    assert "Did you mean 'stability'" in wrong["error"]
    found = studio.job("map", "masses.toml", options={"parameter": "left.m"})
    assert "low must be a number" in found["error"]["error"]


def test_a_study_tells_and_draws(studio: Studio, folder: Path) -> None:
    text = (
        MASSES
        + '[study]\nsamples = 8\nvary = { "left.m" = { uniform = [0.5, 2.0] } }\n'
        + 'outputs = { top = "maximum(left.x)" }\n'
    )
    (folder / "study.toml").write_text(text)
    assert studio.view("study.toml")["study"]
    found = studio.job("study", "study.toml")
    assert found["state"] == "done", found
    assert "8 runs" in found["result"]["text"]
    assert "save it first" in studio.job("study", "study.toml", text + "# changed\n")["error"]["error"]


@pytest.mark.skipif(COMPILER is None, reason="no C compiler")
def test_an_fmu_that_is_dropped_in(studio: Studio, fmu_folder: Path) -> None:
    fmu = make("linear", 2, fmu_folder)
    name = studio.ask("POST", "/api/upload?name=dropped.fmu", fmu.read_bytes())["path"]
    assert name == "dropped.fmu"
    found = studio.ask("POST", "/api/probe", {"path": name})
    assert found["usable"]
    assert found["report"]["ports"]
    text = studio.edit(MASSES, {"op": "add_unit", "name": "dropped", "table": {"file": name}})
    view = studio.view("masses.toml", text)
    assert view["units"]["dropped"]["kind"] == "fmu"
    assert [one for one in view["problems"] if one["severity"] == "error"] == []


def test_the_library_lists_what_files_know(studio: Studio) -> None:
    found = studio.ask("GET", "/api/library")
    assert {"ode", "function", "pid", "state_machine"} <= {one["kind"] for one in found["blocks"]}
    assert {"jacobi", "gauss_seidel"} <= {one["kind"] for one in found["couplings"]}
    assert {"fixed", "look_ahead"} <= {one["kind"] for one in found["paces"]}
    assert {"hold", "hermite"} <= {one["kind"] for one in found["inputs"]}
    assert {"rk4", "cvode"} <= {one["kind"] for one in found["solvers"]}
    assert all(one["about"] for part in found.values() for one in part)


def test_structures_are_shown_and_run(studio: Studio, folder: Path) -> None:
    """The example of the documentation: two that couple when the one has reached the other, after 8 s."""
    text = (EXAMPLES.parent / "docs" / "structures.md").read_text(encoding="utf-8")
    text = text.partition("```toml\n# trailer.toml\n")[2].partition("```")[0]
    (folder / "trailer.toml").write_text(text)
    view = studio.view("trailer.toml", order=True)
    assert [one for one in view["problems"] if one["severity"] == "error"] == []
    assert {box["name"] for box in view["diagram"]["boxes"]} >= {"car", "trailer", "hitch"}
    assert any(line.startswith("apart: ") for line in view["master"]["explained"])
    renamed = tomllib.loads(studio.edit(text, {"op": "rename_unit", "unit": "car", "to": "truck"}))
    assert renamed["structures"]["apart"]["units"] == ["truck", "trailer"]
    assert renamed["structures"]["apart"]["events"]["couple"]["when"] == "truck.x - trailer.x <= 2"
    run = studio.start("trailer.toml")
    assert studio.finished(run)["state"] == "ended", studio.finished(run)
    events = studio.ask("GET", f"/api/runs/{run}/events")["events"]
    assert [one["t"] for one in events if one["name"] == "couple"] == [pytest.approx(8.0, abs=1e-5)]


def test_structures_are_listed_with_what_leads_from_one_to_the_other(studio: Studio, folder: Path) -> None:
    shutil.copy(EXAMPLES / "systems" / "clutch.toml", folder)
    lines = (folder / "clutch.toml").read_text().splitlines()
    slipping, locked = studio.view("clutch.toml")["structures"]
    assert (slipping["name"], locked["name"]) == ("slipping", "locked")
    assert locked["units"] == ["shaft", "jerk", "road"]
    assert [(one["name"], one["to"]) for one in slipping["events"]] == [("lock", "locked")]
    assert [(one["name"], one["to"]) for one in locked["events"]] == [("slip", "slipping")]
    assert lines[locked["line"] - 1] == "[structures.locked]"
    assert lines[locked["events"][0]["line"] - 1] == "[structures.locked.events.slip]"


@pytest.mark.parametrize(
    ("target", "expression", "why"),
    [
        ("right.u", "2*left.x", None),
        ("right.u", "left.v", "do not measure the same thing"),
        ("right.u", "2*left.v", "m/s"),
    ],
)
def test_an_expression_has_to_fit_where_it_is_connected(
    studio: Studio, target: str, expression: str, why: str | None
) -> None:
    body = {"path": "masses.toml", "text": MASSES, "expression": expression, "target": target}
    error = studio.ask("POST", "/api/expression", body)["error"]
    assert (error is None) == (why is None)
    assert why is None or why in error["message"]


def test_the_curves_of_runs_are_drawn_as_upbeat_plot_does(studio: Studio) -> None:
    runs = [
        studio.start("masses.toml", text)
        for text in (MASSES, MASSES + '[units.new]\nstates = { z = "-z" }\nstart = { z = 1.0 }\n')
    ]
    for run in runs:
        studio.finished(run)
    options = {"signals": ["left.x", "new.z"], "between": [0.25, 0.75]}
    found = studio.job("picture", "masses.toml", run=runs[1], others=runs[:1], options=options)
    assert found["state"] == "done", found
    (drawn,) = found["result"]["svg"]
    assert drawn.startswith("<svg")
    for words in ("left.x", "new.z", *runs):
        assert f"<!-- {words}" in drawn  # as matplotlib writes texts that are drawn as paths
    bad = studio.job("picture", "masses.toml", run=runs[0], options={"between": [1]})
    assert "must be two times" in bad["error"]["error"]
