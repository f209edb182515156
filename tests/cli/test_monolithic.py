"""`--monolithic` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from upbeat.cli.main import main

EXAMPLES = Path(__file__).parents[2] / "examples"


def said(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert main([str(word) for word in words]) == 0
    return capsys.readouterr().out


def test_a_run_without_coupling_has_the_same_signals(capsys: pytest.CaptureFixture[str]) -> None:
    file = EXAMPLES / "driven.toml"
    signals = EXAMPLES / "driven.csv"
    apart = json.loads(said(capsys, "run", file, "--json", "--input", signals))
    together = json.loads(said(capsys, "run", file, "--json", "--monolithic", "--input", signals))
    assert (apart["monolithic"], together["monolithic"]) == (False, True)
    assert apart["final"].keys() == together["final"].keys()
    assert apart["final"]["cart.x"] == pytest.approx(together["final"]["cart.x"], rel=0.02)
    assert apart["final"]["cart.x"] != together["final"]["cart.x"]


def test_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    file = EXAMPLES / "coupled_masses.toml"
    assert "one unit in place of left, right" in said(capsys, "run", file, "--monolithic", "--until", 1)
    explained = said(capsys, "explain", file, "--monolithic")
    assert "Monolithic\n  one unit in place of left, right: there is no coupling" in explained
    data = json.loads(said(capsys, "explain", file, "--monolithic", "--json"))
    assert data["monolith"] == {"units": ["left", "right"], "notes": []}
    assert json.loads(said(capsys, "explain", file, "--json"))["monolith"] is None
