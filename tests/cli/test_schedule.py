"""`upbeat profile` and `upbeat schedule`: what is measured is kept beside the file, and used."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

import upbeat as up
from upbeat.cli.main import main
from upbeat.engine.native import machine as native
from upbeat.engine.parallel.operations import operations
from upbeat.engine.profile import profile

EXAMPLES = Path(__file__).parents[2] / "examples"
ENGINES = ["interpret", "native"] if native.available() else ["interpret"]


needs_native = pytest.mark.skipif(not native.available(), reason="the native engine is not built")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return Path(shutil.copy(EXAMPLES / "tank.toml", tmp_path / "tank.toml"))


def test_a_profile_is_kept_and_used(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", str(file), "--seconds", "0.05"]) == 0
    said = capsys.readouterr().out
    assert f"kept in {file.with_name('tank.profile.json')}" in said
    assert "block 'step'" in said
    kept = json.loads(file.with_name("tank.profile.json").read_text())
    times = kept["microseconds"]["step"]
    assert times.keys() >= {"state upper", "out upper.level", "in lower.inflow", "state pump"}
    assert all(value >= 0 for value in times.values())
    # Whatever was measured: what the file says counts.
    times |= dict.fromkeys(times, 1.0)
    file.with_name("tank.profile.json").write_text(json.dumps(kept))
    assert main(["schedule", str(file), "--cores", "2", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["profile"]["source"].startswith("times from")
    step = data["blocks"]["step"]
    assert step["one_core_us"] == pytest.approx(len(times))
    assert all(op["end_us"] - op["start_us"] == pytest.approx(1.0) for op in step["operations"])
    assert step["makespan_us"] >= max(step["bounds_us"].values()) - 1e-9
    for core in range(2):
        mine = sorted((op["start_us"], op["end_us"]) for op in step["operations"] if op["core"] == core)
        assert all(before[1] <= after[0] + 1e-9 for before, after in pairwise(mine))
    assert main(["schedule", str(file), "--cores", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == data, "the same every time"


def test_without_a_profile_it_is_measured(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schedule", str(file), "--cores", "2", "--plot"]) == 0
    said = capsys.readouterr().out
    assert "measured just now" in said
    assert "critical path" in said
    assert "limited by" in said
    assert file.with_name("tank.schedule.png").exists()
    assert not file.with_name("tank.profile.json").exists()


def test_a_profile_of_another_program_is_not_used(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", str(file), "--seconds", "0.05", "--quiet"]) == 0
    file.write_text(file.read_text().replace("outputs.volume", "outputs.water"))
    file.write_text(file.read_text().replace(".volume", ".water"))
    assert main(["schedule", str(file), "--cores", "2"]) == 0
    assert "is of another program" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "[]", '{"format": 99}', '{"format": 2, "microseconds": {"step": 3}}'])
def test_a_damaged_profile_is_an_error(file: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    file.with_name("tank.profile.json").write_text(text)
    assert main(["schedule", str(file)]) == 3
    assert "is not a profile" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", [["--cores", "0"], ["--cores", "99999"]])
def test_wrong_cores(file: Path, wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schedule", str(file), *wrong]) == 3
    assert "cores must be a whole number" in capsys.readouterr().err


@needs_native
def test_a_wait_is_measured_and_counts(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", str(file), "--seconds", "0.05", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert 0.01 < found["crossing_us"] < 1e4
    assert main(["schedule", str(file), "--cores", "2", "--json"]) == 0
    step = json.loads(capsys.readouterr().out)["blocks"]["step"]
    assert step["wait_us"] == pytest.approx(found["crossing_us"], abs=1e-3)
    spent = step["one_core_us"] / step["predicted_speedup"]
    shared = len({operation["core"] for operation in step["operations"]}) > 1
    waits = 2 if shared else 0  # the other core is told to begin, and is waited for at the end
    assert spent >= step["makespan_us"] + waits * step["wait_us"] - 1e-6


@needs_native
def test_explain_says_the_schedule_in_words(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(file), "--quiet"]) == 0
    assert "\nCores\n" not in capsys.readouterr().out
    assert main(["explain", str(file), "--quiet", "--cores", "2"]) == 0
    said = capsys.readouterr().out
    assert "Cores\n  asked for: 2, here: " in said
    assert "core 0, the thread that calls: " in said
    assert "how long anything takes is guessed" in said
    assert main(["profile", str(file), "--seconds", "0.05", "--quiet"]) == 0
    kept = file.with_name("tank.profile.json")
    data = json.loads(kept.read_text())
    data["microseconds"]["step"] |= dict.fromkeys(data["microseconds"]["step"], 100.0)
    kept.write_text(json.dumps(data))
    assert main(["explain", str(file), "--quiet", "--cores", "2"]) == 0
    said = capsys.readouterr().out
    assert f"times from {kept}: predicted to be 1." in said
    assert "limited by " in said
    assert main(["explain", str(file), "--json", "--cores", "2"]) == 0
    block = json.loads(capsys.readouterr().out)["cores"]["blocks"]["step"]
    assert block["shared"]
    assert sum(core["share"] for core in block["cores"]) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--cores", "0"], "cores must be a whole number from 1 to 1024, not 0"),
        (["--cores", "-2"], "not -2"),
        (["--cores", "2000"], "not 2000"),
        (["--cores", "2", "--engine", "interpret"], "cores = 2 is for the native engine"),
    ],
)
@pytest.mark.parametrize("command", ["run", "explain", "check"])
def test_cores_that_cannot_be(
    file: Path, command: str, wrong: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, str(file), *wrong]) == 3
    assert said in capsys.readouterr().err


def test_a_profile_that_cannot_be_written(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.with_name("tank.profile.json").mkdir()
    assert main(["profile", str(file), "--seconds", "0.05"]) == 3
    said = capsys.readouterr().err
    assert "tank.profile.json" in said
    assert "Traceback" not in said


def test_wrong_seconds(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", str(file), "--seconds", "-1"]) == 3
    assert "positive number of seconds" in capsys.readouterr().err


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["coupled_masses", "ten_units", "two_mass/lookahead", "thermostat_hybrid"])
def test_every_operation_is_measured(engine: str, name: str) -> None:
    experiment = up.load(EXAMPLES / f"{name}.toml", engine=engine)
    found = profile(experiment, 0.05)
    flat = experiment.plan
    program = flat.master.program(flat.scenario)
    assert found.blocks
    for block in found.blocks:
        assert found.covers(block, operations(program, block, flat.scenario.units))
    assert found.engine == engine


def test_a_failing_run_is_told_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "it.toml"
    file.write_text(
        'upbeat = 1\n[units.a]\nstates.x = "1/(1 - time)"\noutputs.y = "1/(0.5 - x)*0 + sqrt(0.2 - x)"\n'
        "[master]\nstep = 0.1\n[run]\nuntil = 2.0\n"
    )
    assert main(["profile", str(file)]) == 4
    assert "unit 'a' failed" in capsys.readouterr().err
    assert not (tmp_path / "it.profile.json").exists()
