"""What has been found out about FMUs, kept by their content: in memory, and in the user's cache folder."""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from upbeat.core.atomic import replace_file
from upbeat.core.errors import FileProblem, UpbeatError
from upbeat.units.fmi.archive import key_of
from upbeat.units.fmi.library import Platform
from upbeat.units.fmi.ports import CO_SIMULATION, MODEL_EXCHANGE, InterfaceName

FORMAT = 1
"""Of the files; raise it when a check finds out more than before, so that old answers do not count."""
_HASHES: dict[tuple[str, int, int], str] = {}
_MEMORY: dict[Path, Any] = {}


def folder() -> Path:
    """Where findings are kept: ``$XDG_CACHE_HOME/upbeat``, usually ``~/.cache/upbeat``."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    if given and Path(given).is_absolute():
        return Path(given) / "upbeat"
    try:
        return Path.home() / ".cache" / "upbeat"
    except RuntimeError:  # a user without a home, as in many containers
        return Path(tempfile.gettempdir()) / f"upbeat-cache-{os.getuid()}"


def content(path: Path) -> str:
    """A hash of the file, or of all files of an unpacked FMU."""
    key = key_of(path)
    if key not in _HASHES:
        import hashlib

        digest = hashlib.sha256()
        files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
        for file in files:
            digest.update(f"{file.relative_to(path)}\0{file.stat().st_size}\0".encode())
            with file.open("rb") as stream:
                while block := stream.read(1 << 20):
                    digest.update(block)
        _HASHES[key] = digest.hexdigest()
    return _HASHES[key]


def recall(path: Path, what: str) -> Any:
    """What was found under this name; None if nothing was."""
    if not (folder() / what).is_dir() and all(place.parent.name != what for place in _MEMORY):
        return None  # about no FMU at all, so there is no need to read this one
    place = _place(path, what)
    if place not in _MEMORY:
        with suppress(OSError, ValueError):
            document = json.loads(place.read_text())
            if isinstance(document, dict) and document.get("format") == FORMAT:
                _MEMORY[place] = document["found"]
    return _MEMORY.get(place)


def remember(path: Path, what: str, found: Any, *, lasting: bool = True) -> None:
    """Keep a finding that JSON can hold; `lasting`: beyond this process. A full disk is no reason to fail."""
    place = _place(path, what)
    _MEMORY[place] = found
    if lasting:
        with suppress(OSError, FileProblem):
            place.parent.mkdir(parents=True, exist_ok=True)
            document = {"format": FORMAT, "fmu": path.name, "found": found}
            replace_file(place, json.dumps(document, indent=1).encode())


def forget() -> None:
    """Ask the disk again (for tests)."""
    _MEMORY.clear()


def _place(path: Path, what: str) -> Path:
    here = Platform.here()
    return folder() / what / f"{content(path)}-{here.machine}-{here.system}.json"


def known_to_fail(path: str | os.PathLike[str], interface: InterfaceName | None = None) -> str | None:
    """How an FMU took its process along, or hung, when it was probed; None if it did not, or never was."""
    try:
        ways = (interface,) if interface is not None else (CO_SIMULATION, MODEL_EXCHANGE)
        found = (recall(Path(path).resolve(), f"probe-{way}") for way in ways)
        return next((str(report["crash"]) for report in found if report and report.get("crash")), None)
    except (OSError, UpbeatError):  # what is wrong with it is said when it is opened
        return None
