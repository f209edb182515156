"""Nested scenarios in files: read with the master of their own, refused in circles, written back."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import upbeat as up
from upbeat.cli.main import main

INNER = """
[units.mass]
states = { x = "v", v = "F - x" }
start = { x = 1.0 }
inputs = ["F"]
outputs = ["x", "v"]
[connections]
mass.F = "load"
[inputs]
load = 0.0
[outputs]
x = "mass.x"
v = "mass.v"
[master]
step = 0.05
"""
OUTER = """
[units.car]
scenario = "parts/car.toml"
[units.damper]
inputs = ["v"]
outputs = { F = "-0.4*v" }
[connections]
car.load = "damper.F"
damper.v = "car.v"
[master]
step = 0.1
[run]
until = 1.0
"""


def written(folder: Path, **texts: str) -> Path:
    (folder / "parts").mkdir()
    for name, text in texts.items():
        path = folder / ("parts/car.toml" if name == "car" else f"{name}.toml")
        path.write_text(text)
    return folder / "outer.toml"


def test_a_file_nests_another_with_its_own_master(tmp_path: Path, engine: str) -> None:
    experiment = up.load(written(tmp_path, outer=OUTER, car=INNER), engine=engine)  # type: ignore[arg-type]
    car = experiment.scenario.units["car"]
    assert isinstance(car, up.Nested)
    assert car.master == up.Master(up.Fixed(0.05), events="auto")  # as a step alone means
    assert experiment.plan.nested[0].flattened
    flat, kept = experiment.run(), experiment.with_(flatten=False).run()
    np.testing.assert_allclose(flat["car.x"], kept["car.x"], rtol=1e-12)


def test_it_is_written_back(tmp_path: Path) -> None:
    experiment = up.load(written(tmp_path, outer=OUTER, car=INNER))
    middle = up.Scenario(units={"n": experiment.scenario.units["car"]}, outputs={"x": "n.x"})
    box = up.Nested(middle, up.Master(up.Fixed(0.1)), engine="interpret", flatten=False)
    deeper = up.experiment(up.Scenario(units={"a": box, "b": box}), pace=0.1, until=1.0)
    up.write_scenario(deeper, tmp_path / "deep.toml")
    assert {p.name for p in tmp_path.glob("deep*")} == {"deep.toml", "deep_a.toml", "deep_a_n.toml"}
    assert up.load(tmp_path / "deep.toml") == deeper


@pytest.mark.parametrize(
    ("car", "what"),
    [
        (
            '[units.a]\nscenario = "../outer.toml"\n[master]\nstep = 0.1',
            r"circle: .*outer\.toml → .*car\.toml",
        ),
        (INNER.replace("step = 0.05", "step = -1"), r"parts/car\.toml: 1 problem"),
        (INNER.replace("[outputs]", "[outputs]\nz = 'nix.y'"), "there is no unit 'nix'"),
        (INNER[: INNER.index("[outputs]")] + "[master]\nstep = 0.1", "needs outputs"),
        ("[units", r"parts/car\.toml: line 1"),
    ],
)
def test_what_is_wrong_inside_is_said(tmp_path: Path, car: str, what: str) -> None:
    with pytest.raises(up.ScenarioError, match=what):
        up.load(written(tmp_path, outer=OUTER, car=car))


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ('scenario = "none.toml"', "cannot read"),
        ('scenario = "/etc/passwd"', "must name a file"),
        ('scenario = "/etc/x.toml"', "relative"),
        ("scenario = 3", "must name a file"),
        ('scenario = "parts/car.toml"\nflatten = 1', "true or false"),
        ('scenario = "parts/car.toml"\nengine = "fast"', "no engine"),
        ('scenario = "parts/car.toml"\nsolver = "rk4"', "unknown key 'solver'"),
    ],
)
def test_what_is_wrong_with_the_unit_is_said(tmp_path: Path, line: str, what: str) -> None:
    outer = OUTER.replace('scenario = "parts/car.toml"', line)
    with pytest.raises(up.ScenarioError, match=what):
        up.load(written(tmp_path, outer=outer, car=INNER))


def test_few_files_cannot_stand_for_too_many_units(tmp_path: Path) -> None:
    def level(below: str) -> str:
        units = "".join(f'[units.u{k}]\nscenario = "{below}.toml"\n' for k in range(10))
        return f'{units}[outputs]\nx = "u0.x"\n[master]\nstep = 0.1\n[run]\nuntil = 1.0\n'

    bottom = '[units.m]\nstates = { x = "-x" }\n[outputs]\nx = "m.x"\n[master]\nstep = 0.1\n'
    names = ["outer", *(f"l{k}" for k in range(6))]
    texts = {name: level(below) for name, below in pairwise(names)}
    with pytest.raises(up.ScenarioError, match="more than 10,000 units in all"):
        up.load(written(tmp_path, **texts, **{names[-1]: bottom}))


def test_files_and_the_command_line_can_keep_everything_nested(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, outer=OUTER + "flatten = false\n", car=INNER)
    experiment = up.load(path)
    assert not experiment.flatten
    assert not experiment.plan.nested[0].flattened
    up.write_scenario(experiment, tmp_path / "again.toml")
    assert not up.load(tmp_path / "again.toml").flatten
    assert up.load(path, flatten=True).plan.nested[0].flattened
    (tmp_path / "plain.toml").write_text(OUTER)
    for options, expected in (
        ((), "car: flattened"),
        (("--no-flatten",), "car: not flattened, it was asked"),
    ):
        assert main(["explain", str(tmp_path / "plain.toml"), *options]) == 0
        assert expected in capsys.readouterr().out


def test_a_monolithic_run_looks_inside(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, outer=OUTER, car=INNER)
    assert main(["run", str(path), "--monolithic"]) == 0
    assert "one unit in place of car.mass, damper" in capsys.readouterr().out


def test_somebody_elses_file_is_not_written_over(tmp_path: Path) -> None:
    experiment = up.load(written(tmp_path, outer=OUTER, car=INNER))
    other = tmp_path / "copy_car.toml"
    other.write_text("# mine")
    with pytest.raises(up.InvalidInput, match=r"copy_car\.toml.*does not nest.*another name"):
        up.write_scenario(experiment, tmp_path / "copy.toml")
    assert other.read_text() == "# mine"
    other.unlink()
    up.write_scenario(experiment, tmp_path / "copy.toml")
    up.write_scenario(experiment, tmp_path / "copy.toml")  # its own it may write anew
    assert up.load(tmp_path / "copy.toml").scenario.units.keys() == experiment.scenario.units.keys()
