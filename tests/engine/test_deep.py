"""The deep check: wrongly declared dependencies are found, by unit and ports, and only these."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

import upbeat as up
from fmu_maker import COMPILER, GAIN, MODELS, make
from strategies import experiments
from upbeat.cli.main import main
from upbeat.core.time import Span
from upbeat.engine.deep import UndeclaredDependency, depths
from upbeat.units import ports

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
SPAN = Span(0.0, 1.0)


class Mixer:
    """y = u + w, z = n, and s is a state that follows v."""

    def __init__(self, name: str, start: float, parameters: dict[str, Any]) -> None:
        self.values: dict[str, Any] = {"u": 0.0, "w": 0.0, "v": 0.0, "n": 1, "on": False}
        self.state = 0.0

    def get(self, port: str) -> Any:
        v = self.values
        return {"y": v["u"] + v["w"], "z": v["n"], "s": self.state, "q": 1.0 if v["on"] else 0.0}[port]

    def set(self, port: str, coefficients: Any) -> None:
        self.values[port] = coefficients[0]

    def advance(self, t: float, to: float, early: bool) -> float:
        self.state += (to - t) * self.values["v"]
        return to


def mixer(y: list[str], z: list[str], q: list[str]) -> up.PythonUnit:
    inputs = {"u": {}, "w": {}, "v": {}, "n": {"kind": "integer", "start": 1}, "on": {"kind": "boolean"}}
    outputs = {
        "y": {"depends": y},
        "z": {"kind": "integer", "depends": z},
        "s": {},
        "q": {"depends": q},
    }
    return up.PythonUnit(Mixer, ports(inputs, outputs))


def test_what_is_declared_wrongly_is_named() -> None:
    good, bad = mixer(["u", "w"], ["n"], ["on"]), mixer(["u"], [], [])
    found = depths(up.Scenario(units={"good": good, "bad": bad}).closed(), SPAN)
    assert set(found.wrong) == {
        UndeclaredDependency("bad", "y", "w"),
        UndeclaredDependency("bad", "z", "n"),
        UndeclaredDependency("bad", "q", "on"),
    }
    assert found.untried == ()


class Flat(Mixer):
    """y does not move with u near 0, and at the start not at all."""

    late = 0.0

    def get(self, port: str) -> Any:
        return max(self.values["u"], 1.0) if port == "y" and self.late else super().get("s")

    def advance(self, t: float, to: float, early: bool) -> float:
        self.late = to
        return to


def test_what_shows_only_elsewhere_is_found_too() -> None:
    unit = up.PythonUnit(Flat, ports(["u"], {"y": {"depends": []}}))
    assert depths(up.Scenario(units={"a": unit}), SPAN).wrong == (UndeclaredDependency("a", "y", "u"),)


class Broken(Mixer):
    def get(self, port: str) -> Any:
        raise RuntimeError("no oil")


def test_a_unit_that_cannot_be_tried_is_told_of() -> None:
    unit = up.PythonUnit(Broken, ports(["u"], {"y": {}}))
    (untried,) = depths(up.Scenario(units={"a": unit}), SPAN).untried
    assert untried[0] == "a"
    assert "no oil" in untried[1]


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(experiments())
def test_units_of_equations_are_never_wrong(experiment: up.Experiment) -> None:
    """Their dependencies are read off the equations."""
    flat = experiment.plan
    assert depths(flat.scenario, experiment.span).wrong == ()


SCENARIO = """
upbeat = 1
[units.source]
outputs.y = "time"
[units.gain]
kind = "fmu"
file = "gain.fmu"
[connections]
"gain.u" = "source.y"
[master]
step = 0.1
[run]
until = 1.0
"""


@needs_compiler
@pytest.mark.parametrize("version", [2, 3])
def test_an_fmu_that_hides_a_dependency(
    tmp_path: Path, version: int, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "it.toml"
    file.write_text(SCENARIO)
    make(GAIN, version, tmp_path).replace(tmp_path / "gain.fmu")
    assert main(["check", str(file), "--deep"]) == 0
    assert "no problems" in capsys.readouterr().out
    silent = replace(GAIN, depends={"y": ()}, derivatives=False)
    make(silent, version, tmp_path).replace(tmp_path / "gain.fmu")
    assert main(["check", str(file)]) == 0
    capsys.readouterr()
    assert main(["check", str(file), "--deep"]) == 3
    said = capsys.readouterr().err
    assert "[units › gain] output 'y' changes as soon as input 'u' does, but is declared not to" in said
    assert main(["check", str(file), "--deep", "--json"]) == 3
    data = json.loads(capsys.readouterr().out)
    assert data["problems"][0]["where"] == ["units", "gain"]


DELAYED = """
upbeat = 1
[units.source]
outputs.y = "time"
[units.pump]
kind = "fmu"
file = "delayed.fmu"
[units.tank]
inputs = ["flow"]
states.x = "flow"
outputs = ["x"]
[connections]
"pump.u" = "source.y"
"tank.flow" = "pump.f"
[master]
coupling = "refined"
step = 0.1
[run]
until = 1.0
"""


@needs_compiler
def test_an_edge_that_an_fmu_for_co_simulation_does_not_follow_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "it.toml"
    make(MODELS["delayed", 3], 3, tmp_path).replace(tmp_path / "delayed.fmu")
    file.write_text(DELAYED)
    assert main(["check", str(file)]) == 3
    said = capsys.readouterr().err
    assert "pump.f is declared to depend directly on pump.u, and others need it at once" in said
    assert 'delays = ["pump.u"]' in said
    file.write_text(DELAYED.replace('"refined"', '{ kind = "refined", delays = ["pump.u"] }'))
    assert main(["check", str(file)]) == 0
    capsys.readouterr()
    file.write_text(DELAYED.replace('"refined"', '"jacobi"'))
    assert main(["check", str(file), "--deep"]) == 0
    assert "warning: pump.f follows pump.u only after the next step" in capsys.readouterr().out


RACY = """
upbeat = 1
[models.pump]
kind = "fmu"
file = "pump.fmu"
[units.left]
model = "pump"
[units.right]
model = "pump"
[master]
step = 0.1
[run]
until = 1.0
"""


@needs_compiler
def test_fmus_that_disturb_each_other_on_two_threads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All instances compute in the same place: that cannot be seen on one core."""
    file = tmp_path / "it.toml"
    make(MODELS["racy", 2], 2, tmp_path).replace(tmp_path / "pump.fmu")
    file.write_text(RACY)
    assert main(["check", str(file), "--deep"]) == 0
    capsys.readouterr()
    assert main(["check", str(file), "--deep", "--cores", "2"]) == 3
    said = capsys.readouterr().err
    assert "left, right are of one FMU, and two of it disturb each other" in said
    assert 'isolation = "process"' in said
    assert main(["check", str(file), "--deep", "--cores", "2", "--isolation", "process"]) == 0
    make(MODELS["nothing", 2], 2, tmp_path).replace(tmp_path / "pump.fmu")
    assert main(["check", str(file), "--deep", "--cores", "2"]) == 0
