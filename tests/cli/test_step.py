"""`upbeat step`, and what `--apply` writes."""

from __future__ import annotations

import json
import stat

import pytest

from upbeat.cli import step
from upbeat.cli.main import main

FILE = """\
# Two tanks. Nobody changes this line.
upbeat = 1

[units.upper]
states = { h = "-0.5*h" }      # closed form: exp(-t/2)
start = { h = 1.0 }

[units.lower]
states = { h = "inflow - h" }
inputs = ["inflow"]

[connections]
lower.inflow = "0.5*upper.h"

[master]   # how
# a guess
step = 0.01  # "too" small # really

[run]
until = 4.0
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "tanks.toml"
    path.write_text(FILE)
    return path


def test_the_answer_as_json(file, capsys):
    assert main(["step", str(file), "--json", "--tolerance", "1e-2", "--record", "lower.h"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["ok"] is True
    assert data["applied"] is False
    best = data["recommended"]
    assert best["error"] <= 1e-2
    assert best["step"] > 0.01
    assert data["work"] <= 11 * best["work"]
    assert any(row["present"] and row["step"] == 0.01 for row in data["settings"])
    assert file.read_text() == FILE


def test_apply_changes_the_master_and_nothing_else(file, capsys):
    file.chmod(0o640)
    link = file.with_name("link.toml")
    link.symlink_to(file)
    assert main(["step", str(link), "--apply", "--tolerance", "1e-2"]) == 0
    said = capsys.readouterr().out
    assert '- step = 0.01  # "too" small # really' in said
    assert link.is_symlink()
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    new = file.read_text()
    kept = [line for line in FILE.splitlines() if not line.startswith("step")]
    assert [line for line in new.splitlines() if line in kept] == kept
    assert '  # "too" small # really' in new
    # What is recommended for the new file is what it has, or costs as much.
    assert main(["step", str(file), "--json", "--tolerance", "1e-2"]) == 0
    data = json.loads(capsys.readouterr().out)
    present = next(row for row in data["settings"] if row["present"])
    assert present["work"] <= 2 * data["recommended"]["work"]
    assert present["error"] <= 1e-2


def test_a_picture_is_drawn(file, tmp_path):
    out = tmp_path / "error.svg"
    assert main(["step", str(file), "--quiet", "--plot", str(out)]) == 0
    assert "asked" in out.read_text() or out.stat().st_size > 1000


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--tolerance", "0"], "tolerance must be a number between"),
        (["--seconds", "-1"], "seconds must be a number"),
        (["--apply", "--set", "upper.h=2"], "--apply with --set"),
        (["--apply", "--until", "2"], "--apply with --until"),
        (["--step", "-1"], "step"),
    ],
)
def test_wrong_options(file, capsys, options, says):
    assert main(["step", str(file), *options]) == 3
    assert says in capsys.readouterr().err
    assert file.read_text() == FILE


def test_a_read_only_file_is_left_alone_before_anything_runs(file, capsys, monkeypatch):
    monkeypatch.setattr(step.os, "access", lambda path, mode: False)
    assert main(["step", str(file), "--apply"]) == 3
    assert "read-only" in capsys.readouterr().err
    assert file.read_text() == FILE


def test_a_file_that_was_changed_meanwhile_is_left_alone(file, capsys, monkeypatch):
    found = step.recommend_step

    def slow(*arguments, **settings):
        file.write_text(FILE + "# mine\n")
        return found(*arguments, **settings)

    monkeypatch.setattr(step, "recommend_step", slow)
    assert main(["step", str(file), "--apply", "--tolerance", "1e-2"]) == 3
    assert "changed while trials ran" in capsys.readouterr().err
    assert file.read_text() == FILE + "# mine\n"


def test_what_is_no_scenario_file_cannot_be_changed(tmp_path, capsys):
    (tmp_path / "a.fmu").write_bytes(b"")
    assert main(["step", str(tmp_path / "a.fmu"), "--apply"]) == 3
    assert "--apply is for scenario files" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("master = { step = 0.01 }", "master = { step = "),
        ("master.step = 0.01", "master.step = "),
        ("[master]\nnote = 1\n", None),
    ],
)
def test_apply_to_every_way_of_writing_it(tmp_path, capsys, before, after):
    path = tmp_path / "tanks.toml"
    start, _, rest = FILE.partition("[master]")
    _, _, run = rest.partition("[run]")
    path.write_text(f"{before}\n{start}[run]{run}")
    assert main(["step", str(path), "--apply", "--tolerance", "1e-2"]) == (0 if after else 3)
    if after:
        assert after in path.read_text()
        assert "step = 0.01\n" not in path.read_text()
