"""Structures of a scenario: what they share, what is wrong with them, and files of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import upbeat as up
from upbeat.cli.main import main
from upbeat.stability.verdicts.structures import stability_of_structures

FILE = """
upbeat = 1
name = "tanks"

[units.upper]
states = { h = "q - 0.5*h" }
inputs = { q = 0.0 }
start = { h = 1.0 }
solver = "euler"

[units.lower]
states = { h = "0.5*q - 0.3*h" }
inputs = { q = 0.0 }
solver = "euler"

[connections]
lower.q = "upper.h"

[outputs]
both = "upper.h + lower.h"

[events.low]
when = "upper.h <= 0.4"

[structures.shut]
connections = { lower.q = "0*upper.h" }
events.open = { when = "upper.h <= 0.5", to = "open" }

[structures.open]
events.empty = { when = "upper.h <= 0.2", to = "gone", then = { lower.h = "lower.h" } }

[structures.gone]
units = ["upper"]
outputs = { both = "upper.h" }

[master]
step = 0.1
events = "off"

[run]
until = 5.0
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tanks.toml"
    path.write_text(FILE)
    return path


def test_a_structure_is_a_scenario_of_its_own(file: Path) -> None:
    scenario = up.load(file).scenario
    assert [one.name for one in scenario.structures] == ["shut", "open", "gone"]
    shut, open_, gone = (scenario.structure(one.name) for one in scenario.structures)
    assert [c.text for c in shut.connections] == ["0*upper.h"]
    assert [c.text for c in open_.connections] == ["upper.h"]
    assert list(gone.units) == ["upper"]
    assert gone.connections == ()
    assert [output.text for output in gone.outputs] == ["upper.h"]
    assert [event.name for event in open_.events] == ["low", "empty"]
    assert [event.name for event in gone.events] == ["low"]
    with pytest.raises(up.InvalidInput, match=r"no structure 'opne'\. Did you mean 'open'"):
        scenario.structure("opne")


def test_a_file_is_written_and_read_back(file: Path, tmp_path: Path) -> None:
    made = up.load(file)
    up.write_scenario(made, tmp_path / "again.toml")
    assert up.load(tmp_path / "again.toml").scenario == made.scenario
    assert "[structures.shut]\nconnections" in (tmp_path / "again.toml").read_text()
    other = made.scenario.with_values({"upper.h": 2.0})
    assert other != made.scenario
    assert other.structure("open").units["upper"] == other.units["upper"]


def test_a_condition_in_python_cannot_be_written(tmp_path: Path) -> None:
    event = {"when": lambda x: x - 1.0, "of": ["a.x"], "to": "two"}
    scenario = up.Scenario(
        {"a": up.Ode({"x": "1"})}, structures={"one": {"events": {"on": event}}, "two": {}}
    )
    trace = up.simulate(scenario, step=0.1, until=2.0)
    assert trace.events.counts() == {"on": 1}
    with pytest.raises(up.InvalidInput, match=r"the structure 'one' cannot be written: .* Python function"):
        up.write_scenario(scenario, tmp_path / "s.toml")


A: dict[str, Any] = {"units": ["a"]}


def leading(**event: Any) -> dict[str, Any]:
    return {"one": {"units": ["a"], "events": {"on": {"when": "a.x > 1", **event}}}, "two": {}}


@pytest.mark.parametrize(
    ("structures", "text"),
    [
        ([], "expected a table of structures"),
        ({"one": 3}, "a structure is a table, not 3"),
        ({"one": {"unit": ["a"]}}, "unknown key 'unit'\n *Did you mean 'units'"),
        ({"one": {"units": ["c"]}}, "there is no unit 'c'"),
        ({"one": {"units": "a"}}, "units are a list of names"),
        ({"one": {"units": []}}, "a structure without units"),
        ({"1 two": {}}, "not a name for a structure"),
        ({"one": {"connections": {"a.w": "b.x"}}}, "'a' has no input 'w'|no input 'a.w'|'a.w'"),
        ({"one": {"units": ["a"], "connections": {"a.u": "b.x"}}}, "no unit 'b'"),
        ({"one": {"connections": 3}}, "'connections' must be a table"),
        ({"one": {"outputs": {"y": "a.z"}}}, "'z'"),
        (leading(to="three"), "there is no structure 'three'"),
        (leading(to="one"), "leads to 'one', where it happens"),
        (leading(start={"b.x": "1"}), "leads to no other structure"),
        (leading(to="two", start={"a.x": "1"}), r"'a' is there already[^$]*then = "),
        (leading(to="two", start={"b.y": "1"}), "'y'"),
        (leading(to="two", start={"b": "1"}), "does not name something in a unit"),
        (leading(to="two", start={"c.x": "1"}), "no unit 'c' in the structure 'two'"),
        (leading(to="two", start={"b.x": "b.x"}), "no unit 'b'"),
        (leading(to="two", start=3), "expected start values"),
        (leading(too="two"), "unknown key 'too'"),
        ({"one": {"conserved": {"p": "a.y"}}}, "'y'"),
        ({"one": {"conserved": {"p": {"tolerance": 1e-3}}}}, "'p' has no value"),
        ({"one": {"conserved": {"p": {"value": "a.x", "tolerance": 2}}}}, "the tolerance of 'p'"),
        ({"one": {"conserved": {"p": {"value": "a.x", "tol": 2}}}}, "unknown key 'tol'"),
        ({"one": {"events": {"all": {"when": "a.x > 1"}}}}, "the name 'all' is used twice"),
    ],
)
def test_what_is_wrong_is_said(structures: Any, text: str) -> None:
    units = {"a": up.Ode({"x": "u"}, inputs=["u"]), "b": up.Ode({"x": "1"})}
    with pytest.raises(up.ScenarioError, match=text) as info:
        up.Scenario(units, events={"all": {"when": "a.x > 9"}}, structures=structures)
    assert all(problem.where[0] == "structures" for problem in info.value.problems)


def test_mistakes_in_files_have_lines(tmp_path: Path) -> None:
    path = tmp_path / "tanks.toml"
    path.write_text(FILE.replace('to = "gone"', 'to = "goen"').replace('"0*upper.h"', '"0*uper.h"'))
    with pytest.raises(up.ScenarioError, match="Did you mean 'open' or 'gone'") as info:
        up.load(path)
    lines = path.read_text().splitlines()
    for problem in info.value.problems:
        assert problem.line is not None
        assert "uper" in lines[problem.line - 1] or "goen" in lines[problem.line - 1]


def test_properties_are_judged_on_the_whole_run(file: Path) -> None:
    units = up.load(file).scenario.units
    given: dict[str, Any] = {"one": {"events": {"on": {"when": "upper.h <= 0.5", "to": "two"}}}, "two": {}}
    fine = up.Scenario(units, properties={"low": "always(upper.h <= 1)"}, structures=given)
    assert up.simulate(fine, step=0.1, until=5.0).properties["low"].verdict == "holds"
    given["two"] = {"units": ["upper"]}
    for formula, text in (
        ("always(lower.h < 3)", "'lower.h', which is not there in 'two'"),
        ("always(lower.q < 3)", "reads the input 'lower.q'"),
    ):
        with pytest.raises(up.ScenarioError, match=text):
            up.Scenario(units, {"lower.q": "upper.h"}, properties={"low": formula}, structures=given)
        given["two"] = {}
    with pytest.raises(up.ScenarioError, match="cannot be watched while structures change"):
        up.Scenario(
            units, properties={"low": {"holds": "always(upper.h < 3)", "online": "stop"}}, structures=given
        )


def test_the_name_of_the_signal_is_taken() -> None:
    with pytest.raises(up.ScenarioError, match="the name 'structure' is that of the signal"):
        up.Scenario({"a": up.Ode({"x": "1"})}, outputs={"structure": "a.x"}, structures={"one": {}})


# ----------------------------------------------------------------------------------------------------
# The command line, and stability.


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(list(words)) == 0
    return capsys.readouterr().out


def test_commands_know_structures(file: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    checked = said(capsys, "check", str(file))
    assert "structure 'shut': upper, lower; 'open' leads to 'open'" in checked
    assert json.loads(said(capsys, "check", str(file), "--json"))["structures"] == ["shut", "open", "gone"]
    explained = said(capsys, "explain", str(file), "--quiet")
    assert "open: upper, lower; 'empty' leads to 'gone'" in explained
    assert "leads to the structure 'gone'" in explained
    data = json.loads(said(capsys, "explain", str(file), "--json"))
    assert list(data["structures"]) == ["shut", "open", "gone"]
    pytest.importorskip("matplotlib")
    ran = said(capsys, "run", str(file), "--plot", str(tmp_path / "p.png"))
    assert "Events: 1 × open, 1 × low, 1 × empty." in ran
    assert (tmp_path / "p.png").stat().st_size > 1000
    alone = said(capsys, "run", str(file), "--structure", "shut")
    assert "The run stopped at an event" in alone


@pytest.mark.parametrize("command", ["schedule", "profile"])
def test_other_commands_ask_for_one(file: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, str(file)]) != 0
    assert "several structures ('shut', 'open', 'gone')" in capsys.readouterr().err
    assert main(["check", str(file), "--structure", "opn"]) != 0
    assert "Did you mean 'open'" in capsys.readouterr().err


def test_each_structure_is_judged_and_switching_is_undecided(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The event `low` of all structures is left out of a matrix, so that nothing holds everywhere."""
    text = said(capsys, "stability", str(file), "--no-scan")
    assert text.count("Structure '") == 3
    assert "Switching between structures: undecided, because the event 'empty' changes values" in text
    one = said(capsys, "stability", str(file), "--no-scan", "--structure", "open", "--quiet")
    assert "0.97" in one
    assert main(["stability", str(file), "--along"]) != 0
    assert "--along judges one structure" in capsys.readouterr().err


def switched(a: list[str], b: list[str]) -> up.Experiment:
    """Two oscillations that take turns, by the sign of a product."""
    first = up.Ode({"x": "px", "y": "py"}, inputs=["px", "py"], start={"x": 1.0}, solver="euler")
    return up.experiment(
        up.Scenario(
            {"s": first},
            structures={
                "one": {
                    "connections": dict(zip(("s.px", "s.py"), a, strict=True)),
                    "events": {"there": {"when": "s.x*s.y >= 0.0001", "to": "two"}},
                },
                "two": {
                    "connections": dict(zip(("s.px", "s.py"), b, strict=True)),
                    "events": {"back": {"when": "s.x*s.y <= -0.0001", "to": "one"}},
                },
            },
        ),
        step=0.01,
        until=1.0,
        events="off",
    )


def test_switching_is_proven_where_all_products_decay() -> None:
    """Both contract in the same norm."""
    found = stability_of_structures(
        switched(["-s.x + 0.5*s.y", "-0.5*s.x - s.y"], ["-2*s.x", "-s.y"]), scan=False
    )
    assert [part.verdict for part in found.parts.values()] == ["stable", "stable"]
    assert found.switching == "stable"


def test_stable_structures_may_grow_together() -> None:
    """The classic example: each oscillation decays, and switching from one to the other makes them grow."""
    made = switched(["-0.1*s.x + s.y", "-10*s.x - 0.1*s.y"], ["-0.1*s.x + 10*s.y", "-s.x - 0.1*s.y"])
    found = stability_of_structures(made, scan=False)
    assert found.switching != "stable"
    trace = made.with_(span=type(made.span)(0.0, 8.0)).run()
    assert abs(trace["s.x"]).max() > 100.0


def test_neutral_motions_are_undecided() -> None:
    found = stability_of_structures(switched(["s.y", "-s.y"], ["-2*s.x", "-s.y"]), scan=False)
    assert found.switching == "undecided"
    assert "because" in found.why
