"""The command line where things go wrong: full disks, lost outputs, other encodings, failures as data."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import upbeat as up
from upbeat.cli import main

DECAY = """
upbeat = 1
[units.a]
states = { x = "-k*x" }
start = { x = 1.0 }
parameters = { k = 0.0 }
[master]
step = 0.01
[run]
until = 1.0
"""
BAD_RECORD = """
[record]
signals = ["a.*", "zz*", "yy"]
out = "no/such/folder/r.csv"
every = 2
"""


@pytest.fixture
def decay(tmp_path: Path) -> Path:
    path = tmp_path / "decay.toml"
    path.write_text(DECAY)
    return path


def upbeat(
    *words: object, encoding: str = "utf-8", before: Callable[[], None] | None = None, **streams: Any
) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "upbeat.cli.main", *map(str, words)]
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams
    return subprocess.run(command, env=environment, preexec_fn=before, check=False, timeout=120, **streams)


def _little_room() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))


# ------------------------------------------------------------------------------------ full and shared files


@pytest.mark.parametrize("suffix", ["csv", "journal", "parquet"])
@pytest.mark.parametrize("until", [20, 1000])  # too much for the last write, and for one on the way
def test_a_full_disk_is_a_failed_run(decay: Path, tmp_path: Path, suffix: str, until: int) -> None:
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
    out = tmp_path / f"r.{suffix}"
    step = 0.001 if until == 20 else 0.01
    words = ("run", decay, "--until", until, "--step", step, "--out", out)
    if until == 20:
        done = upbeat(*words, before=_little_room)
        assert done.returncode == 4, done.stderr
        assert b"File too large" in done.stderr
        assert b"Traceback" not in done.stderr
    done = upbeat(*words, "--json", before=_little_room)
    told = json.loads(done.stdout)
    assert (done.returncode, told["ok"], told["error"]["kind"]) == (4, False, "RecordingError")
    assert told["outcome"] == "the run failed; the results so far are kept"
    if told["rows"]:
        back = up.read(told["out"])
        assert (len(back), back.time[-1]) == (told["rows"], told["time"])


def test_a_second_run_to_the_same_file_is_refused_before_it_starts(decay: Path, tmp_path: Path) -> None:
    out = tmp_path / "r.csv"
    with up.start(up.load(decay).scenario, pace=0.1, until=1.0, out=out):
        done = upbeat("run", decay, "--out", out)
    assert done.returncode == 3
    assert b"another run is writing to it" in done.stderr
    assert upbeat("run", decay, "--out", out).returncode == 0


# ------------------------------------------------------------------------------------ standard output


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "latin-1"])
@pytest.mark.parametrize("command", ["run", "explain"])
def test_any_encoding_will_do(decay: Path, encoding: str, command: str) -> None:
    done = upbeat(command, decay, encoding=encoding)
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False)
    assert "?" not in done.stdout.decode(encoding)
    if command == "run":
        bad = upbeat("run", decay, "--step", 0, encoding=encoding)
        assert (bad.returncode, b"Traceback" in bad.stderr) == (3, False)


@pytest.mark.parametrize("command", ["run", "explain", "check"])
def test_a_full_output_is_said_without_a_traceback(decay: Path, command: str) -> None:
    with Path("/dev/full").open("wb") as full:
        done = upbeat(command, decay, stdout=full)
        assert done.returncode == 6
        assert b"cannot write to standard output: No space left on device" in done.stderr
        assert b"Traceback" not in done.stderr
        assert upbeat(command, decay, stderr=full).returncode == 0


@pytest.mark.parametrize("closed", [(1,), (2,), (1, 2)])
def test_closed_outputs_are_no_reason_to_fail(decay: Path, closed: tuple[int, ...], tmp_path: Path) -> None:
    def close() -> None:
        for stream in closed:
            os.close(stream)

    done = upbeat("run", decay, "--out", tmp_path / "r.csv", before=close)
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False)
    assert len(up.read(tmp_path / "r.csv")) == 101


# ------------------------------------------------------------------------------------ failures as data


def test_a_failure_says_how_far_the_run_came(tmp_path: Path, engine: str) -> None:
    (tmp_path / "mine.py").write_text(
        "import upbeat as up\n"
        "def f(t, u, p):\n"
        "    if t > 0.35:\n"
        "        raise ZeroDivisionError('too far')\n"
        "    return t\n"
        "model = up.PythonFunction(f, outputs=['y'])\n"
    )
    path, out = tmp_path / "s.toml", tmp_path / "r.csv"
    path.write_text(
        '[units.bad]\nkind = "python"\nclass = "mine:model"\n[master]\nstep = 0.1\n[run]\nuntil = 1\n'
    )
    done = upbeat("run", path, "--allow-python", "--json", "--out", out, "--engine", engine)
    told = json.loads(done.stdout)
    assert (done.returncode, told["ok"], told["out"]) == (4, False, str(out))
    assert (told["rows"], told["steps"], told["time"]) == (4, 3, pytest.approx(0.3))
    error = told["error"]
    assert (error["kind"], error["unit"], error["exit"]) == ("UnitError", "bad", 4)
    assert "mine.py" in error["traceback"]
    assert "raise ZeroDivisionError" in error["traceback"]


def test_an_interrupt_says_how_far_the_run_came(decay: Path, tmp_path: Path) -> None:
    out = tmp_path / "r.csv"
    command = [sys.executable, "-m", "upbeat.cli.main", "run", str(decay), "--until", "1e9", "--json"]
    with subprocess.Popen([*command, "--out", str(out)], stdout=subprocess.PIPE) as run:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not (out.exists() and out.stat().st_size > 1000):
            time.sleep(0.05)
        run.send_signal(signal.SIGINT)
        said, _ = run.communicate(timeout=60)
    told = json.loads(said)
    assert (run.returncode, told["ok"], told["error"]["exit"]) == (130, False, 130)
    assert told["out"] == str(out)
    assert told["rows"] == len(up.read(out)) > 1
    assert told["time"] > 0
    assert told["steps"] == told["rows"] - 1


def test_check_finds_what_run_would_refuse(decay: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def check(*words: object) -> tuple[int, Any]:
        code = main.main(["check", *map(str, words)])
        said = capsys.readouterr().out
        return code, json.loads(said) if "--json" in words else said

    decay.write_text(DECAY + BAD_RECORD)
    assert check(decay)[0] == 3
    code, told = check(decay, "--json")
    assert code == 3
    assert told.keys() == {"ok", "problems"}
    found = [(problem["line"], problem["where"]) for problem in told["problems"]]
    assert found == [(13, ["record", "signals"])] * 2 + [(14, ["record", "out"])]
    decay.write_text(DECAY + '[record]\nout = "x.txt"\nsignals = ["zz"]\nevery = 0\n')
    _, told = check(decay, "--json", "--step", 0)
    found = [(problem["line"], problem["where"]) for problem in told["problems"]]
    assert found == [
        (None, ["--step"]),
        (12, ["record", "out"]),
        (13, ["record", "signals"]),
        (14, ["record", "every"]),
    ]
    decay.write_text(DECAY)
    assert check(decay, "--json") == (0, {"ok": True, "problems": []})
    _, told = check("missing.toml", "--json")
    assert told["ok"] is False
    assert "missing.toml" in told["problems"][0]["what"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--step", "0"), "[--step] the step"),
        (("--until", "0"), "[--until] the stop time"),
        (("--set", "a.q=1"), "[--set a.q] unit 'a'"),
        (("--every", "0"), "[--every]"),
        (("--record", "zz"), "[--record] nothing to record matches 'zz'"),
        (("--out", "r.txt"), "[--out]"),
        (("--jit", "--engine", "interpret"), "jit"),
        (("--cores", "0"), "[--cores] cores must be a whole number"),
        (("--cores", "2", "--engine", "interpret"), "Leave out one of the two (--cores, --engine)"),
        (("--plot", "r.bmp"), ".png"),
    ],
)
def test_a_wrong_option_is_named_and_not_the_file(
    decay: Path, words: tuple[str, ...], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["run", str(decay), *words]) == 3
    said = capsys.readouterr().err
    assert text in said
    assert re.search(r"line \d", said) is None
    assert "decay.toml" not in said


def test_plot_takes_the_options_of_run(decay: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    done = upbeat("plot", decay, "--set", "a.k=3", "--until", 2, "--step", 0.1, "--out", tmp_path / "p.svg")
    assert (done.returncode, done.stderr) == (0, b"")
    upbeat("run", decay, "--out", tmp_path / "r.csv")
    done = upbeat("plot", tmp_path / "r.csv", "--until", 2)
    assert done.returncode == 3
    assert b"--until is for scenarios" in done.stderr


def test_a_defect_of_upbeat_is_told_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from upbeat.cli.main import main
    from upbeat.engine.formats import files

    def broken(*_: Any, **__: Any) -> None:
        raise AttributeError("'list' object has no attribute 'items'")

    monkeypatch.setattr(files, "read_experiment", broken)
    assert main(["check", str(tmp_path / "a.toml")]) == 1
    said = capsys.readouterr().err
    assert "a defect of Upbeat itself, not of your files (AttributeError: 'list' object" in said
    assert "UPBEAT_TRACEBACK=1" in said
    assert "Traceback (most recent" not in said
    assert main(["run", str(tmp_path / "a.toml"), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["exit"] == 1
    monkeypatch.setenv("UPBEAT_TRACEBACK", "1")
    with pytest.raises(AttributeError):
        main(["check", str(tmp_path / "a.toml")])


@pytest.mark.parametrize(
    "coupling",
    [
        '{ kind = "multi_rate", rates = ["a"] }',
        '{ kind = "iterated", coupling = "multi_rate" }',
        '{ kind = "negotiated", coupling = { kind = "iterated" } }',
        '{ kind = "constrained", constraints = { f = "a.x" }, coupling = "negotiated" }',
        '{ kind = "gauss_seidel", order = 3 }',
        '{ kind = "iterated", coupling = ["jacobi"] }',
    ],
)
def test_check_names_what_is_wrong_with_a_coupling(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], coupling: str
) -> None:
    from upbeat.cli.main import main

    file = tmp_path / "a.toml"
    file.write_text(DECAY.replace("step = 0.01", f"step = 0.01\ncoupling = {coupling}"))
    assert main(["check", str(file)]) == 3
    assert "coupling" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["run", "it.toml"], ["run", "it.toml", "--json"]])
def test_ctrl_c_while_a_command_is_loaded(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(main, "import_module", interrupted)
    assert main.main(words) == 130
    said = capsys.readouterr()
    if "--json" in words:
        assert json.loads(said.out)["ok"] is False
    else:
        assert said.err.startswith("upbeat: interrupted")


EXITS = """
class Unit:
    def __init__(self, *given):
        self.v = 0.0

    def get(self, port):
        if "{call}" == "get" and self.v > 0.0:
            raise {fault}(0)
        return self.v

    def advance(self, t, to, early=False):
        if "{call}" == "advance":
            raise {fault}(0)
        self.v += to - t
        return to
"""


@pytest.mark.parametrize("fault", ["SystemExit", "GeneratorExit"])
@pytest.mark.parametrize("call", ["get", "advance"])
def test_a_unit_that_exits_is_a_failed_unit(
    call: str, fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module, path = f"exits_{call}_{fault}".lower(), tmp_path / "exits.toml"
    (tmp_path / f"{module}.py").write_text(EXITS.format(call=call, fault=fault))
    path.write_text(
        f'units.x = {{ kind = "python", class = "{module}:Unit", outputs = ["y"] }}\n'
        "master.step = 0.1\nrun.until = 1.0\n"
    )
    assert main.main(["run", str(path), "--allow-python", "--quiet"]) == 4
    assert f"{call}(" in (said := capsys.readouterr().err)
    assert fault in said
    assert main.main(["run", str(path), "--allow-python", "--json"]) == 4
    assert json.loads(capsys.readouterr().out)["error"]["unit"] == "x"
    assert main.main(["check", str(path), "--allow-python", "--deep"]) == 0
    assert (f"could not be tried: {fault}: 0" in capsys.readouterr().out) == (call == "advance")
    with pytest.raises(up.UnitError, match=fault):
        up.load(path, allow_python=True).run()


def test_names_that_no_file_can_have(
    decay: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    long = "a" * 246
    for words, said in (
        (["plot", "."], "it is a folder"),
        (["plot", "/"], "it is a folder"),
        (["plot", f"{long * 2}.csv"], "too long"),
        (["check", f"{long * 2}"], "too long"),
        (["check", "a/" * 3000], "too long"),
        (["run", str(decay), "--out", f"{long * 2}.csv"], "too long"),
        (["run", str(decay), "--out", f"{long}.csv"], f"'{long}.events.csv', which may come to stand"),
        (["run", str(decay), "--out", f"{long}.parquet"], "too long"),
    ):
        assert main.main(words) == 3, words
        assert said in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == [decay.name]


@pytest.mark.parametrize("suffix", ["csv", "journal", "parquet"])
def test_results_do_not_go_into_pipes(
    suffix: str, decay: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(pipe := tmp_path / f"pipe.{suffix}")
    assert main.main(["run", str(decay), "--out", str(pipe)]) == 3
    assert "it is a pipe or a device" in capsys.readouterr().err
