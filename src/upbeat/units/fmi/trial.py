"""Trying an FMU out in a process that may be thrown away: there a crash is a finding and no accident.

A trial is a function of a module. It tells its `Notes` what it is about to do and what it found, line by
line, so that nothing is lost when the process ends in the middle.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from time import monotonic
from typing import Any

from upbeat.core.scratch import make_folder, remove_folder

DEADLINE = 30.0
"""Seconds that one trial may take, from when its process is ready for it."""
_STARTING = 120.0
"""Seconds for Python to start; on a busy machine that takes longer than anything an FMU does."""
_GLANCE = 0.05
_MAX_OUTPUT = 500


@dataclass(frozen=True)
class Trial:
    """How a trial went: what it found, and, unless it went to its end, how and while doing what it failed."""

    found: Mapping[str, Any]
    stage: str = ""
    failure: str = ""
    hung: bool = False

    @property
    def why(self) -> str:
        """A clause such as ``it was killed by signal 11 (Segmentation fault) while saving its state``."""
        return f"{self.failure} while {self.stage}" if self.stage else self.failure


class Notes:
    """What a trial says of itself, written at once."""

    def __init__(self, path: Path) -> None:
        self._number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def stage(self, doing: str) -> None:
        """What comes now, as a participle: ``saving its state``."""
        self._write({"stage": doing})

    def found(self, name: str, value: Any) -> None:
        """A result that JSON can hold."""
        self._write({"found": name, "value": value})

    def ended(self, error: str) -> None:
        """The function is through, with an error or without (empty)."""
        self._write({"ended": error})

    def _write(self, line: Mapping[str, Any]) -> None:
        os.write(self._number, (json.dumps(line) + "\n").encode())


def attempt(function: Callable[..., None], arguments: Mapping[str, Any], deadline: float = DEADLINE) -> Trial:
    """Call ``function(notes, **arguments)`` in a new process. The arguments are what JSON can hold.

    Its temporary files go with it, however it ends.
    """
    with ExitStack() as held:
        folder = make_folder()
        held.callback(remove_folder, folder)
        job, notes = folder / "job.json", folder / "notes"
        order = {"module": function.__module__, "name": function.__qualname__, "arguments": dict(arguments)}
        job.write_text(json.dumps(order))
        environment = os.environ | {
            "TMPDIR": str(folder),
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        }
        # -P: a file of the user's that happens to be called json.py must not get into the way.
        command = [sys.executable, "-P", "-c", f"from {__name__} import main; main()", str(job), str(notes)]
        process = subprocess.Popen(  # noqa: S603 - ourselves
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        hung = False
        try:
            said = _said(process, notes, deadline)
        except subprocess.TimeoutExpired:
            hung = True
            said = b""
        finally:
            _end(process)
        return _read(notes, process.returncode, said.decode(errors="replace"), deadline if hung else None)


def _said(process: subprocess.Popen[bytes], notes: Path, deadline: float) -> bytes:
    """What the process wrote to standard error; `TimeoutExpired` if it takes too long."""
    latest = monotonic() + _STARTING
    while not notes.exists() and monotonic() < latest:  # the process makes its notes when it begins
        with suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=_GLANCE)[1]
    return process.communicate(timeout=deadline)[1]


def _end(process: subprocess.Popen[bytes]) -> None:
    """The process and whatever it started are gone, also after Ctrl-C."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stderr is not None:
        process.stderr.close()


def _read(notes: Path, code: int, said: str, deadline: float | None) -> Trial:
    found: dict[str, Any] = {}
    stage, ended = "", None
    for line in notes.read_text().splitlines() if notes.exists() else ():
        try:
            entry = json.loads(line)
        except ValueError:  # cut off in the middle
            break
        stage = entry.get("stage", stage)
        ended = entry.get("ended", ended)
        if "found" in entry:
            found[entry["found"]] = entry["value"]
    if ended is not None and code == 0:
        return Trial(found, stage, ended) if ended else Trial(found)
    if deadline is not None:
        return Trial(found, stage, f"it gave no answer within {deadline:g} s", hung=True)
    if code < 0:
        name = signal.strsignal(-code) or "unknown"
        return Trial(found, stage, f"it was killed by signal {-code} ({name})")
    last = said.strip()[-_MAX_OUTPUT:].splitlines()
    because = f", saying: {last[-1]}" if last else ""
    return Trial(found, stage, f"it ended its process with exit code {code}{because}")


def main() -> None:
    """The other process: do the job in the file given first, and write notes to the one given second."""
    _no_core_dumps()
    order = json.loads(Path(sys.argv[1]).read_text())
    function = getattr(import_module(order["module"]), order["name"])
    notes = Notes(Path(sys.argv[2]))  # which says: from here on it is the FMU that takes time
    try:
        function(notes, **order["arguments"])
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the finding
        notes.ended(f"it failed ({str(error) or type(error).__name__})")
    else:
        notes.ended("")


def _no_core_dumps() -> None:
    with suppress(ImportError, OSError, ValueError):  # there is no such module on Windows
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
