"""One bad input: files in an empty folder, a command or a piece of Python, and what has to come of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
PYTHON = """
import upbeat as up
from upbeat.cli.exits import exit_for
try:
    exec(sys.argv[1])
except up.UpbeatError as error:
    print(f"{type(error).__name__}: {error}")
    sys.exit(exit_for(error))
"""
"""Runs a piece of Python as a careful user would: errors of Upbeat are caught, all others are not."""


@dataclass(frozen=True)
class Case:
    """What is tried, and what is expected.

    `run` are the words after ``upbeat``, or ``python`` and a program (in which `up` is Upbeat); every one of
    `says` is in the answer. `files` are texts, or bytes; `fmus` names FMUs of tests/fmus, as (file, model,
    version of FMI). `kept` is a result file that must have rows afterwards. `interrupt`: Ctrl-C, as soon
    as that file grows. `own`: the traceback of somebody's own code is wanted.
    """

    what: str
    run: tuple[str, ...]
    says: tuple[str, ...]
    exit: int = 3
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    fmus: tuple[tuple[str, str, int], ...] = ()
    kept: str = ""
    interrupt: bool = False
    own: bool = False
    prepare: Callable[[Path], None] | None = None

    @property
    def id(self) -> str:
        return "".join(letter if letter.isalnum() else "_" for letter in self.what)


@dataclass(frozen=True)
class Answer:
    """What came of it: the exit code, all that was said, and what is wrong with it (empty if nothing is)."""

    exit: int
    said: str
    wrong: str


Run = Callable[[Case, Path], tuple[int, str, str]]
"""Runs a case in its folder: the exit code, standard output and standard error."""


def tried(case: Case, folder: Path, run: Run | None = None) -> Answer:
    """Run a case in `folder`, which is empty; in a process of its own unless `run` does it otherwise."""
    for name, text in case.files.items():
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    for file, model, version in case.fmus:
        _fmu(model, version, folder / file)
    if case.prepare is not None:
        case.prepare(folder)
    code, out, err = (run or _in_a_process)(case, folder)
    said = f"{err}{out}" if err.strip() else out
    return Answer(code, said.strip(), _wrong(case, code, said, folder))


def _in_a_process(case: Case, folder: Path) -> tuple[int, str, str]:
    words = [sys.executable, "-m", "upbeat.cli.main", *case.run]
    if case.run[0] == "python":
        words = [sys.executable, "-c", f"import sys\n{PYTHON}", case.run[1]]
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / ".cache"), "COLUMNS": "110"}
    environment.pop("UPBEAT_TRACEBACK", None)
    with subprocess.Popen(
        words, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        if case.interrupt:
            _wait_for(folder / case.kept)
            run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=300)
    return run.returncode, out, err


def _wrong(case: Case, code: int, said: str, folder: Path) -> str:
    if code != case.exit:
        return f"the exit code is {code}, not {case.exit}: {said}"
    if missing := [words for words in case.says if words not in said]:
        return f"it does not say {missing[0]!r}, but: {said}"
    if "Traceback" in said and not case.own:
        return f"there is a traceback: {said}"
    if case.kept and (rows := _rows(folder / case.kept)) < 2:
        return f"{case.kept} has {rows} rows"
    return ""


def _rows(path: Path) -> int:
    import upbeat as up

    return len(up.read(path)) if path.exists() else 0


def _wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (path.exists() and path.stat().st_size > 1000):
        time.sleep(0.02)


def _fmu(model: str, version: int, path: Path) -> None:
    """An FMU of the tests, compiled here."""
    sys.path.insert(0, str(ROOT / "tests"))
    try:
        maker: Any = __import__("fmu_maker")
    finally:
        sys.path.pop(0)
    made = maker.make(maker.MODELS[model, version], version, path.parent)
    if made != path:
        made.rename(path)
