"""Inputs that nothing drives are told of: a forgotten connection looks like one that was not wanted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import upbeat as up
from upbeat.cli.main import main
from upbeat.report.explain import left_alone

FILE = """
upbeat = 1
inputs.push = {}
[units.mass]
inputs = { F = { unit = "N" }, wind = { start = 2.5, unit = "N" }, knots = [1.0, 2.0] }
states.v = "F + wind + knots[0]"
outputs = ["v"]
[connections]
mass.F = "push"
[master]
step = 0.1
[run]
until = 1
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "mass.toml").write_text(FILE)
    return str(tmp_path / "mass.toml")


def test_check_and_explain_name_them(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", file]) == 0
    assert "inputs that nothing drives: mass.wind = 2.5 N, mass.knots = [1, 2]" in capsys.readouterr().out
    assert main(["check", file, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["left_alone"]
    assert [one["input"] for one in found] == ["mass.wind", "mass.knots"]
    assert main(["explain", file, "--quiet"]) == 0
    said = capsys.readouterr().out
    assert "mass.wind stays at 2.5 N: nothing drives it" in said
    assert "mass.F stays" not in said


def test_values_are_told_as_a_file_has_them() -> None:
    light = up.Function(
        inputs={"on": {"kind": "boolean"}, "colour": {"items": ["red", "green"]}, "share": {"unit": "1"}},
        outputs={"y": "share"},
    )
    found = left_alone(up.Scenario(units={"light": light}))
    assert [one["value"] for one in found] == ["false", "red", "0"]


def test_a_value_for_an_input_that_is_driven_names_what_drives_it(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", file, "--set", "mass.F=3", "--quiet"]) == 3
    assert "Set 'push', which drives it." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "hint"),
    [("until", "up.load or up.experiment"), ("pace", "master=up.Master"), ("corse", "Did you mean 'cores'")],
)
def test_what_an_experiment_does_not_have(file: str, name: str, hint: str) -> None:
    with pytest.raises(up.InvalidInput, match=f"no field '{name}'") as error:
        up.load(file).with_(**{name: 1})
    assert hint in str(error.value)
