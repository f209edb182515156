"""The command line as a user meets it: what it prints, writes and returns."""

from __future__ import annotations

import csv
import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import upbeat as up
from upbeat.cli.main import main

EXAMPLES = Path(__file__).parents[2] / "examples"
DECAY = """
upbeat = 1
[units.a]
states = { x = "-k*x" }
start = { x = 1.0 }
parameters = { k = 2.0 }
[master]
step = 0.01
[run]
until = 1.0
"""


@pytest.fixture
def decay(tmp_path: Path) -> Path:
    path = tmp_path / "decay.toml"
    path.write_text(DECAY)
    return path


def call(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    try:
        code = main([str(word) for word in words])
    except SystemExit as stop:
        code = int(stop.code or 0)
    said = capsys.readouterr()
    return code, said.out, said.err


def last_row(path: Path) -> dict[str, float]:
    with path.open() as file:
        return {key: float(value) for key, value in list(csv.DictReader(file))[-1].items()}


def test_run_writes_results_and_says_where(
    decay: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "r.csv"
    code, said, _ = call(capsys, "run", decay, "--out", out)
    assert code == 0
    assert str(out) in said
    assert "a.x" in said
    assert "The run reached its stop time" in said
    row = last_row(out)
    assert row["time"] == 1.0
    assert row["a.x"] == pytest.approx(math.exp(-2), rel=1e-6)


@pytest.mark.parametrize("engine", ["interpret", "auto"])
def test_options_change_what_the_file_says(
    decay: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], engine: str
) -> None:
    out = tmp_path / "r.csv"
    words = (
        "run",
        decay,
        "--set",
        "a.k=1",
        "--set",
        "a.x=3",
        "--until",
        "0.5",
        "--step",
        "0.005",
        "--out",
        out,
    )
    assert call(capsys, *words, "--engine", engine)[0] == 0
    assert last_row(out)["time"] == 0.5
    assert last_row(out)["a.x"] == pytest.approx(3 * math.exp(-0.5), rel=1e-6)


def test_quiet_says_nothing(decay: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "run", decay, "--quiet") == (0, "", "")


def test_json_is_one_object(decay: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said, err = call(capsys, "run", decay, "--json", "--engine", "interpret")
    result = json.loads(said)
    assert (code, err) == (0, "")
    assert result["ok"]
    assert result["engine"] == "interpret"
    assert result["steps"] == 100
    assert result["final"]["a.x"] == pytest.approx(math.exp(-2), rel=1e-6)


def test_parquet_by_suffix(decay: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow")
    out = tmp_path / "r.parquet"
    assert call(capsys, "run", decay, "--out", out, "--every", "10")[0] == 0
    trace = up.read(out)
    assert len(trace) == 11
    assert trace["a.x"][-1] == pytest.approx(math.exp(-2), rel=1e-6)


def test_record_chooses_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "r.csv"
    code, *_ = call(capsys, "run", EXAMPLES / "coupled_masses.toml", "--record", "left.*", "--out", out)
    assert code == 0
    assert all(name == "time" or name.startswith("left.") for name in last_row(out))


def test_input_drives_the_scenario(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(
        'upbeat = 1\n[inputs]\nrate = { start = 0.0 }\n[units.sum]\nstates = { x = "u" }\ninputs = ["u"]\n'
        '[connections]\n"sum.u" = "rate"\n[master]\nstep = 0.5\n[run]\nuntil = 2\n'
    )
    signal_file = tmp_path / "in.csv"
    signal_file.write_text("time,rate\n0,1\n2,5\n")
    out = tmp_path / "r.csv"
    assert call(capsys, "run", path, "--input", signal_file, "--out", out)[0] == 0
    # rate = 1 + 2t, held over steps of 0.5: 0.5·(1 + 2 + 3 + 4)
    assert last_row(out)["sum.x"] == pytest.approx(5.0, rel=1e-12)
    signal_file.write_text("time,rat\n0,1\n")
    code, _, err = call(capsys, "run", path, "--input", signal_file)
    assert code == 3
    assert "rate" in err


def test_explain_tells_units_loops_program_and_engine(capsys: pytest.CaptureFixture[str]) -> None:
    code, said, _ = call(capsys, "explain", EXAMPLES / "coupled_masses.toml")
    assert code == 0
    for text in (
        "left",
        "rollback",
        "Algebraic loops",
        "none",
        "advance  left",
        "get ",
        "set ",
        "Engine",
        "solved",
    ):
        assert text in said
    code, said, _ = call(capsys, "explain", EXAMPLES / "coupled_masses.toml", "--json")
    assert {"units", "order", "loops", "program", "engine"} <= json.loads(said).keys()


def test_check_reports_everything_at_once_with_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(
        'upbeat = 1\n[units.a]\nstates = { x = "-k*x" }\nparameters = { k = 1.0 }\n'
        '[units.b]\ninputs = ["u"]\noutputs = { y = "2*v" }\n'
        '[connections]\n"b.u" = "a.xx"\n"c.u" = "a.x"\n[master]\nstep = -1\ncoupling = "jacoby"\n'
        "[run]\nuntil = 1\n"
    )
    code, _, err = call(capsys, "check", path)
    assert code == 3
    for text in (
        "line 7",
        "'v'",
        "line 9",
        "a.xx",
        "line 10",
        "'c'",
        "line 12",
        "positive",
        "line 13",
        "jacobi",
    ):
        assert text in err, text
    code, said, _ = call(capsys, "check", path, "--json")
    lines = {problem["line"] for problem in json.loads(said)["problems"]}
    assert {7, 9, 10, 12, 13} <= lines


def test_check_says_when_all_is_well(decay: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said, _ = call(capsys, "check", decay)
    assert code == 0
    assert "no problems" in said


def test_events_are_dealt_with_as_the_command_line_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "ball.toml"
    path.write_text(
        """
        upbeat = 1
        units.ball = { states = { x = "v", v = "-9.81" }, start = { x = 1.0, v = 0.0 } }
        events.floor = { when = "ball.x <= 0 and ball.v < 0", then = { ball.v = "-ball.v" } }
        master.pace = { kind = "fixed", step = 0.1 }
        run.until = 0.6
        """
    )
    code, said, _ = call(capsys, "check", path)
    assert code == 0
    assert "note: events between units are noticed where these communicate, up to a step (0.1 s) late" in said
    assert "late" in json.loads(call(capsys, "check", path, "--json")[1])["events"]
    assert "late" not in call(capsys, "check", path, "--events", "auto")[1]
    said = call(capsys, "explain", path, "--events", "auto")[1]
    assert "events of ball: seen coming by LookAhead, with steps of 0.1 s at most" in said
    out = tmp_path / "ball.parquet"
    assert call(capsys, "run", path, "--events", "look_ahead", "--out", out)[0] == 0
    (event,) = up.read(out).events
    assert event.time == pytest.approx((2 / 9.81) ** 0.5, abs=2e-6)


def test_plot_draws_a_result_and_a_scenario(
    decay: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / "r.csv"
    call(capsys, "run", decay, "--out", out, "--quiet")
    assert call(capsys, "plot", out, "--steps")[0] == 0
    assert (tmp_path / "r.png").read_bytes().startswith(b"\x89PNG")
    assert call(capsys, "plot", decay, "--out", tmp_path / "d.svg", "--signals", "a.*")[0] == 0
    assert b"<svg" in (tmp_path / "d.svg").read_bytes()
    (tmp_path / "r.events.csv").write_text("time,index,event,value\n0.5,0,light.lamp,red\n")
    for words in (["light.lamp", "a.x", "--steps"], ["--steps", "light.lamp"]):
        assert call(capsys, "plot", out, *words)[0] == 0
    assert call(capsys, "plot", out, "--stepz")[0] == 2
    assert call(capsys, "check", decay, "light.lamp")[0] == 2
    code, _, err = call(capsys, "plot", out, "--signals", "zz")
    assert code == 3
    assert "a.x" in err


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["run"], 2, "FILE"),
        (["fly"], 2, "invalid choice"),
        (["run", "missing.toml"], 3, "missing.toml"),
        (["run", "{decay}", "--set", "a.q=1"], 3, "k, x"),
        (["run", "{decay}", "--set", "b.k=1"], 3, "The units are: a"),
        (["run", "{decay}", "--set", "k"], 3, "--set left.m=2.5"),
        (["run", "{decay}", "--set", "a.k=fast"], 3, "real"),
        (["run", "{decay}", "--until", "0"], 3, "stop time"),
        (["run", "{decay}", "--until", "nan"], 3, "finite"),
        (["run", "{decay}", "--step", "0"], 3, "positive"),
        (["run", "{decay}", "--step", "-0.1"], 3, "positive"),
        (["run", "{decay}", "--step", "nan"], 3, "positive and finite"),
        (["run", "{decay}", "--every", "0"], 3, "every"),
        (["run", "{decay}", "--record", "b.*"], 3, "a.x"),
        (["run", "{decay}", "--out", "no/such/folder/r.csv"], 3, "no/such/folder"),
        (["run", "{decay}", "--out", "r.xlsx"], 3, ".csv"),
        (["run", "{decay}", "--input", "missing.csv"], 3, "missing.csv"),
        (["plot", "missing.csv"], 3, "missing.csv"),
    ],
)
def test_wrong_words_are_explained(
    decay: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: int, text: str
) -> None:
    got, _, err = call(capsys, *(word.format(decay=decay) for word in words))
    assert got == code
    assert text in err


PYTHON_UNIT = """
class Thrower:
    def __init__(self, name, start, parameters):
        self.t = start
    def get(self, port):
        return self.t
    def set(self, port, coefficients):
        pass
    def advance(self, t, to, early):
        if to > 0.35:
            raise ZeroDivisionError("too far")
        self.t = to
        return to

import upbeat as up
model = up.PythonUnit(Thrower, ports=(up.Port("y", up.Causality.OUTPUT),))
"""
PYTHON_FILE = """
upbeat = 1
[units.bad]
kind = "python"
class = "thrower:model"
[master]
step = 0.1
[run]
until = 1.0
"""


@pytest.fixture
def thrower(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "thrower.py").write_text(PYTHON_UNIT)
    (tmp_path / "s.toml").write_text(PYTHON_FILE)
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("thrower", None)
    return tmp_path / "s.toml"


def test_python_is_refused_unless_allowed(thrower: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "run", thrower)
    assert code == 3
    assert "--allow-python" in err
    assert "thrower" not in sys.modules, "nothing of the file may have been imported"


@pytest.mark.parametrize("engine", ["interpret", "auto"])
def test_an_exception_in_a_users_unit_is_named_and_results_are_kept(
    thrower: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], engine: str
) -> None:
    out = tmp_path / "r.csv"
    code, _, err = call(capsys, "run", thrower, "--allow-python", "--out", out, "--engine", engine)
    assert code == 4
    for text in ("unit 'bad'", "ZeroDivisionError: too far", "t = 0.3", "thrower.py", "advance", str(out)):
        assert text in err, text
    assert last_row(out)["time"] == pytest.approx(0.3)


def test_ctrl_c_keeps_the_results_so_far(tmp_path: Path) -> None:
    path, out = tmp_path / "long.toml", tmp_path / "r.csv"
    path.write_text(DECAY.replace("until = 1.0", "until = 1e9").replace("2.0", "0.0"))
    command = [sys.executable, "-m", "upbeat.cli.main", "run", str(path), "--out", str(out)]
    run = subprocess.Popen(command, stderr=subprocess.PIPE, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (out.exists() and out.stat().st_size > 1000):
        time.sleep(0.05)
    run.send_signal(signal.SIGINT)
    _, err = run.communicate(timeout=60)
    assert run.returncode == 130
    assert b"interrupted" in err
    assert str(out).encode() in err
    assert last_row(out)["time"] > 0


def test_real_time_from_the_command_line(decay: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said, _ = call(capsys, "run", decay, "--real-time", "1000", "--late", "skip", "--json")
    data = json.loads(said)
    assert (code, data["ok"], data["lateness"]["count"]) == (0, True, 100)
    code, said, _ = call(capsys, "run", decay, "--json")
    assert json.loads(said)["lateness"] is None
    code, said, _ = call(capsys, "run", decay, "--real-time", "1e9", "--late", "stop", "--set", "a.k=1")
    assert code in (0, 4), "whether it keeps up with that is not ours to say"
    decay.write_text(DECAY + "real_time = { factor = 1e-3, tolerance = 9.0 }\n")
    code, said, _ = call(capsys, "run", decay, "--real-time", "off", "--json")
    assert (code, json.loads(said)["lateness"]) == (0, None)


def test_a_run_that_falls_behind_is_told_by_its_exit_code(
    decay: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = iter(range(0, 10**6, 10))
    monkeypatch.setattr("upbeat.engine.realtime.WallClock.now", lambda self: float(next(ticks)))
    code, said, _ = call(capsys, "run", decay, "--real-time", "--late", "stop")
    assert code == 4
    assert "The run fell behind real time and was stopped" in said
    code, said, _ = call(capsys, "run", decay, "--real-time", "--late", "stop", "--json")
    assert (code, json.loads(said)["ok"], json.loads(said)["steps"]) == (4, False, 1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--late", "skip"), "--real-time"),
        (("--real-time", "0"), r"[--real-time] the factor of real time must be more than 0"),
        (("--real-time", "fast"), "'fast' is not a factor. Write the file first"),
    ],
)
def test_wrong_words_about_real_time(
    decay: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    code, _, said = call(capsys, "run", decay, *words)
    assert code in (2, 3)
    assert message in said


def test_checkpoints_and_resume(decay: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole, out = tmp_path / "whole.csv", tmp_path / "r.csv"
    options = ("--set", "a.k=0.5", "--until", "2")
    assert call(capsys, "run", decay, "--out", whole, "--quiet", *options)[0] == 0
    with pytest.MonkeyPatch.context() as patch:  # a run that ends early, because it is too late for real time
        ticks = iter(range(0, 10**6, 10))
        patch.setattr("upbeat.engine.realtime.WallClock.now", lambda self: float(next(ticks)))
        keep = ("--checkpoint", "every=3steps", "--real-time", "1e9", "--late", "stop")
        code, _, said = call(capsys, "run", decay, "--out", out, *keep, *options)
    checkpoint = tmp_path / "r.csv.checkpoint"
    assert code == 4
    assert f"to go on with this run: upbeat resume {checkpoint}" in said
    assert len(out.read_text().splitlines()) == 3
    again = ("run", decay, "--out", out, "--checkpoint", f"file={checkpoint},every=1h", *options)
    code, _, said = call(capsys, *again)
    assert code == 3
    assert "is the checkpoint of this run, at t = 0.01 of 2. To go on with it: upbeat resume" in said
    decay.write_text("this is no scenario any more")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("upbeat.engine.realtime.WallClock.now", lambda self: 0.0)
        patch.setattr("upbeat.engine.realtime.Paced._wait", lambda self, until: setattr(self, "_due", None))
        code, _, said = call(capsys, "resume", checkpoint, "--cores", "0")
        assert (code, "cores must be a whole number from 1 to" in said) == (3, True)
        code, said, _ = call(capsys, "resume", checkpoint, "--json", "--cores", "2")
    assert (code, json.loads(said)["steps"], json.loads(said)["lateness"]["count"]) == (0, 200, 200)
    assert out.read_bytes() == whole.read_bytes()
    assert not checkpoint.exists()
    code, _, said = call(capsys, "resume", checkpoint)
    assert code == 3
    assert "there is no checkpoint" in said


@pytest.mark.parametrize("words", ["often", "every=", "every=5 apples", "at=3s", "every=1s,file="])
def test_wrong_words_about_checkpoints(
    decay: Path, capsys: pytest.CaptureFixture[str], words: str, tmp_path: Path
) -> None:
    code, _, said = call(capsys, "run", decay, "--out", tmp_path / "r.csv", "--checkpoint", words)
    assert code == 3
    assert "every" in said
    assert not (tmp_path / "r.csv").exists()


KEPT = """
import os

def rate(t, x, u, p):
    if t > 50 and os.environ.get("UPBEAT_TEST_FAIL"):
        raise RuntimeError("not today")
    return [1.0]
"""


def test_a_run_with_python_code_asks_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kept_rate.py").write_text(KEPT)
    file, out = tmp_path / "count.toml", tmp_path / "r.csv"
    file.write_text(
        'upbeat = 1\n[units.c]\nkind = "python"\nfunction = "kept_rate:rate"\nstates = { n = 0.0 }\n'
        'solver = "euler"\n[master]\nstep = 1.0\n[run]\nuntil = 100.0\n'
    )
    monkeypatch.setenv("UPBEAT_TEST_FAIL", "1")
    code, _, said = call(capsys, "run", file, "--allow-python", "--out", out, "--checkpoint", "every=10steps")
    assert code == 4, said
    monkeypatch.delenv("UPBEAT_TEST_FAIL")
    code, _, said = call(capsys, "resume", f"{out}.checkpoint")
    assert code == 3
    assert "--allow-python" in said
    code, _, said = call(capsys, "resume", f"{out}.checkpoint", "--allow-python", "--quiet")
    assert code == 0, said
    assert last_row(out) == {"time": 100.0, "c.n": 100.0}
