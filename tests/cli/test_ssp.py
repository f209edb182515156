"""SSPs on the command line: run, check, explain, import, export."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import upbeat as up
from ssp_maker import (
    binding,
    bindings,
    component,
    connection,
    connections,
    elements,
    pack,
    parameter_set,
    ssd,
)
from upbeat.cli.main import main


@pytest.fixture
def system(tmp_path: Path, fmu: Callable[[str, int], Path]) -> Path:
    ports = {"u": "input", "y": "output"}
    text = ssd(
        bindings(binding(parameter_set(a__u=3, nobody__k=1)))
        + elements(component("a", "gain.fmu", **ports), component("b 2", "gain.fmu", **ports))
        + connections(connection("a.y", "b 2.u"))
    )
    return pack(tmp_path / "system.ssp", text, {"gain.fmu": fmu("gain", 2)})


@pytest.mark.supports("ssp", "`upbeat run`, `check`, `explain`")
def test_run(system: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "r.csv"
    assert main(["run", str(system), "--step", "0.25", "--set", "a.k=5", "--out", str(out), "--json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["final"]["b_2.y"] == 2 * 5 * 3
    assert "nothing is called 'nobody.k'" in shown.err
    trace = up.read(out)
    assert trace["time"].tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]


def test_check_and_explain(system: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(system)]) == 0
    assert "no problems. Units: 2, connections: 1" in capsys.readouterr().out
    assert main(["explain", str(system), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["connections"] == [{"input": "b_2.u", "value": "a.y"}]


def test_there_and_back(system: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there, again = tmp_path / "there", tmp_path / "again.ssp"
    assert main(["import", str(system), str(there)]) == 0
    assert "b 2 is the unit b_2" in capsys.readouterr().out
    assert main(["run", str(there / "scenario.toml"), "--quiet"]) == 0
    assert main(["export", str(there / "scenario.toml"), str(again), "--until", "0.5"]) == 0
    trace = up.load(again).run()
    assert trace["time"][-1] == 0.5
    assert trace["b_2.y"][-1] == 2 * 2 * 3


def test_a_broken_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "no.ssp").write_bytes(b"PK no")
    for words in (["run"], ["check", "--json"]):
        assert main([*words, str(tmp_path / "no.ssp")]) == 3
    shown = capsys.readouterr()
    assert "is damaged or is not a zip archive" in shown.err
    assert json.loads(shown.out)["ok"] is False


def test_the_folder_of_an_unpacked_one(
    system: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "ssp1"
    with zipfile.ZipFile(system) as archive:
        archive.extractall(folder)
    assert main(["run", str(folder), "--step", "0.25", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["final"]["b_2.y"] == 2 * 2 * 3
    assert up.load(folder).run()["b_2.y"][-1] == 2 * 2 * 3
