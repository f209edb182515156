"""FMU files that are read and unpacked once per process, however many models and units share them."""

from __future__ import annotations

import os
import threading
from collections import Counter
from pathlib import Path

from upbeat.core.errors import FileProblem
from upbeat.units.fmi.archive import Unpacked, read_member, unpack
from upbeat.units.fmi.description import NAME, ModelDescription, parse_description

Key = tuple[str, int, int]
"""What makes a file the same one as before: its path, when it was changed, its size."""

_DESCRIPTIONS: dict[Key, ModelDescription] = {}
_FOLDERS: dict[tuple[Key, int], Unpacked] = {}
_RUNNING: Counter[tuple[Key, str]] = Counter()
_LOCK = threading.Lock()
_MOST_DESCRIPTIONS = 1000
"""A server that reads FMUs for years must not keep them all."""


def key_of(path: Path) -> Key:
    """The key of an FMU, or of a folder with an unpacked one; `FileProblem` if there is none."""
    try:
        found = path.stat()
        if path.is_dir():
            found = (path / NAME).stat()
    except OSError as error:
        what = "there is no such file" if isinstance(error, FileNotFoundError) else error.strerror or error
        raise FileProblem(f"{path}: {what}") from None
    return str(path), found.st_mtime_ns, found.st_size


def describe(path: Path) -> tuple[Key, ModelDescription]:
    """What the FMU says of itself, read without unpacking the rest."""
    key = key_of(path)
    with _LOCK:
        if key not in _DESCRIPTIONS:
            found = parse_description(read_member(path, NAME), f"{path.name} › {NAME}")
            if len(_DESCRIPTIONS) >= _MOST_DESCRIPTIONS:
                _DESCRIPTIONS.clear()
            _DESCRIPTIONS[key] = found
        return key, _DESCRIPTIONS[key]


def folder_of(key: Key) -> Path:
    """Where the FMU lies unpacked until this process ends.

    A forked child has a folder of its own: its parent may remove the other one while it still runs.
    """
    mine = (key, os.getpid())
    with _LOCK:
        if mine not in _FOLDERS:
            if key_of(Path(key[0])) != key:
                raise FileProblem(f"{key[0]} has been changed since it was read: load it again")
            _FOLDERS[mine] = unpack(key[0])
        return _FOLDERS[mine].path


def begin(key: Key, identifier: str, *, only_once: bool) -> bool:
    """Count one more instance; False, without counting, if there may be one and it is there already."""
    with _LOCK:
        if only_once and _RUNNING[key, identifier]:
            return False
        _RUNNING[key, identifier] += 1
        return True


def end(key: Key, identifier: str) -> None:
    """An instance that was counted is gone."""
    with _LOCK:
        _RUNNING[key, identifier] -= 1
