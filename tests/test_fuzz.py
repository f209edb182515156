"""Broken files of every kind are read or refused in Upbeat's own words; `make fuzz` tries many more."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tools.fuzz import KINDS

SCRIPT = Path(__file__).parents[1] / "tools" / "fuzz.py"


@pytest.mark.parametrize("files", ["40", pytest.param("1000", marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
def test_broken_files(kind: str, files: str) -> None:
    # In a process of its own: it forks, which one with the threads of other tests must not do.
    words = [sys.executable, str(SCRIPT), "--json", "--kind", kind, "--files", files, "--seed", "0"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)[kind]
    assert found["n"] == int(files)
    assert found["tracebacks"] + found["hangs"] + found["crashes"] == 0, done.stderr
