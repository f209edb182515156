"""Files that are replaced in one go leave nothing behind, also where a process was killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import upbeat as up
from upbeat.cli.main import main
from upbeat.core.atomic import replace_file
from upbeat.units.fmi import known


def test_leftovers_of_killed_processes_are_removed(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True
    )
    dead = tmp_path / f".run.checkpoint.{int(done.stdout)}.tmp"
    alive = tmp_path / f".run.checkpoint.{os.getppid()}.tmp"
    other = tmp_path / f".other.{int(done.stdout)}.tmp"
    for path in (dead, alive, other):
        path.write_bytes(b"half")
    replace_file(tmp_path / "run.checkpoint", b"whole")
    assert sorted(tmp_path.iterdir()) == sorted([alive, other, tmp_path / "run.checkpoint"])


@pytest.mark.parametrize(
    "words",
    [
        ["check", "{}.toml"],
        ["run", "a.toml", "--out", "{}.csv"],
        ["run", "{}.ssp"],
        ["run", "a.toml", "--input", "{}.csv"],
        ["resume", "{}"],
        ["plot", "{}.csv"],
    ],
)
def test_names_that_no_file_can_have(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.toml").write_text('units.a.states = { x = "-x" }\nmaster.step = 0.1\nrun.until = 0.2\n')
    assert main([word.format("x" * 300) for word in words]) == 3
    assert "File name too long" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["check", "{}"], ["run", "a.toml", "--input", "{}"], ["resume", "{}"]])
def test_files_that_never_end(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.toml").write_text(
        'inputs.u = 0.0\nunits.a.states = { x = "-x" }\nmaster.step = 0.1\nrun.until = 0.2\n'
    )
    assert main([word.format("/dev/zero") for word in words]) == 3
    assert "/dev/zero" in capsys.readouterr().err


def test_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", nobody)
    assert known.folder().name == f"upbeat-cache-{os.getuid()}"


@pytest.mark.parametrize("scan", [(1e-300, 1e300), (0.1, 1.0)])
def test_scans_have_limits(scan: tuple[float, float]) -> None:
    scenario = up.Scenario({"a": up.Ode({"x": "-x"})})
    with pytest.raises(up.InvalidInput, match=r"powers of ten|10,000 steps at most"):
        up.stability_of(scenario, step=0.1, until=1.0, scan=scan, points=10**9 if scan[1] == 1.0 else None)
