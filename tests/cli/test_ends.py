"""Commands that are ended from outside, or by the FMU that they run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import upbeat as up

Made = Callable[[str, int], Path]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where commands have their temporary folders."""
    place = tmp_path / "temporary"
    place.mkdir()
    return place


def start(place: Path, *words: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "upbeat.cli.main", *map(str, words)],
        env=os.environ | {"TMPDIR": str(place)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def wait_for(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_sigterm_is_an_orderly_end(fmu: Made, engine: str, place: Path, tmp_path: Path) -> None:
    out = tmp_path / "r.csv"
    words = ("--until", "1e9", "--step", "0.01", "--engine", engine, "--json", "--out", out)
    with start(place, "run", fmu("linear", 2), *words) as run:
        wait_for(lambda: out.exists() and out.stat().st_size > 1000)
        assert list(place.iterdir())
        run.send_signal(signal.SIGTERM)
        said, _ = run.communicate(timeout=60)
    told = json.loads(said)
    assert (run.returncode, told["ok"], told["error"]["exit"]) == (143, False, 143)
    assert told["rows"] == len(up.read(out)) > 1
    assert not list(place.iterdir())


def test_sigterm_ends_a_unit_that_hangs(fmu: Made, engine: str, place: Path, tmp_path: Path) -> None:
    out = tmp_path / "r.csv"
    words = ("--until", 1, "--step", 0.1, "--engine", engine, "--isolation", "none", "--out", out)
    with start(place, "run", fmu("hang", 2), *words) as run:
        wait_for(lambda: bool(list(place.iterdir())))
        time.sleep(1)
        run.send_signal(signal.SIGTERM)
        _, noted = run.communicate(timeout=60)
    assert run.returncode == 143, noted
    assert b"terminated" in noted or b"interrupted" in noted
    assert not list(place.iterdir())


@pytest.mark.parametrize("command", ["run", "probe"])
def test_what_an_fmu_prints_does_not_get_into_json(fmu: Made, engine: str, place: Path, command: str) -> None:
    if command == "probe" and engine != "native":
        pytest.skip("probe knows no engines")
    words = ("--until", 1, "--step", 0.1, "--engine", engine, "--isolation", "none")
    with start(place, command, fmu("printing", 2), "--json", *(words if command == "run" else ())) as run:
        said, noted = run.communicate(timeout=120)
    assert run.returncode == 0, noted
    assert isinstance(json.loads(said), dict)
    if command == "run":
        assert noted.count(b"more chatter") == noted.count(b"chatter") // 2 == 10


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        (
            "segfault",
            -signal.SIGSEGV,
            b"upbeat: a unit crashed (signal 11); run again with --isolation process",
        ),
        (
            "exit",
            4,
            b"upbeat: a unit ended the process by calling exit(); run again with --isolation process",
        ),
    ],
)
def test_a_unit_that_takes_the_process_along(
    fmu: Made, engine: str, place: Path, name: str, code: int, words: bytes
) -> None:
    options = ("--until", 1, "--step", 0.1, "--engine", engine, "--isolation", "none")
    with start(place, "run", fmu(name, 2), *options) as run:
        _, noted = run.communicate(timeout=60)
    assert run.returncode == code, noted
    assert noted.count(words) == 1
    with start(place, "run", fmu("linear", 2), "--until", 1, "--isolation", "none") as run:
        run.communicate(timeout=60)
    assert run.returncode == 0
    assert not list(place.iterdir()), "the next command has tidied up"
