"""Temporary folders, also those of processes that died."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from upbeat.core import scratch
from upbeat.core.scratch import make_folder, remove_all, remove_folder, sweep

_MAKES = """
import sys
from upbeat.core.scratch import make_folder
(make_folder() / "big").write_text("x")
print("made", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def _other(place: Path) -> subprocess.Popen[bytes]:
    """Another process that has made a folder and waits."""
    other = subprocess.Popen(
        [sys.executable, "-c", _MAKES],
        env=os.environ | {"TMPDIR": str(place)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert other.stdout is not None
    assert other.stdout.readline() == b"made\n"
    return other


def test_a_folder_comes_and_goes(place: Path) -> None:
    folder = make_folder()
    (folder / "a").write_text("a")
    assert [path.name for path in folder.iterdir()] == ["a"]
    remove_folder(folder)
    remove_folder(folder)
    assert not list(place.iterdir())


def test_all_at_once(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "_held", {})  # this process has folders that other tests use
    make_folder(), make_folder()
    assert len(list(place.iterdir())) == 2
    remove_all()
    assert not list(place.iterdir())


def test_what_the_dead_have_left_is_removed_and_nothing_else(place: Path) -> None:
    (place / "upbeat-results").mkdir()  # a user's own
    (place / "upbeat-notes").write_text("mine")
    (place / "upbeat-link").symlink_to(place / "upbeat-results")
    mine = make_folder()
    with _other(place) as alive, _other(place) as dead:
        count = len(list(place.iterdir()))
        sweep(place)
        assert len(list(place.iterdir())) == count, "both are alive"
        dead.send_signal(signal.SIGKILL)
        dead.wait()
        sweep(place)
        assert len(list(place.iterdir())) == count - 1
        assert mine.is_dir()
        alive.kill()
    sweep(place)
    remove_folder(mine)
    assert sorted(path.name for path in place.iterdir()) == ["upbeat-link", "upbeat-notes", "upbeat-results"]


def test_the_next_process_sweeps(place: Path) -> None:
    with _other(place) as dead:
        dead.kill()
    assert len(list(place.iterdir())) == 1
    with _other(place) as other:
        assert len(list(place.iterdir())) == 1
        other.kill()
