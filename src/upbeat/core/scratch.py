"""Temporary folders that are gone afterwards, however the process ends.

A process that is killed cannot tidy up; the next one does it instead. Each folder has a file that its owner
keeps locked as long as it lives: the system lets go of the lock with the process, so that a free lock tells
a folder of the dead from one that is in use. Numbers of processes would not do: they are given out again.
"""

from __future__ import annotations

import os
import shutil
import signal
import stat
import tempfile
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: folders are removed at the end of a process, and no others are touched
    fcntl = None  # type: ignore[assignment]

PREFIX = "upbeat-"
_MARK = ".upbeat-owner"
_FILES = "files"

_held: dict[Path, tuple[int, int]] = {}
"""The folders of this process: the lock, and the process that made it (a forked child inherits both)."""
_swept: set[str] = set()
_guard = threading.Lock()


def make_folder() -> Path:
    """A new, empty folder for this process, to be given back with `remove_folder`.

    The first call also removes what processes that died have left.
    """
    place = tempfile.gettempdir()
    with _guard:
        fresh = place not in _swept
        _swept.add(place)
    if fresh:
        sweep(Path(place))
    while True:
        outer = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
        lock = _locked(outer / _MARK, create=True)
        if lock is not None:  # else it was swept before it was locked
            break
        _remove(outer)
    files = outer / _FILES
    _held[files] = (lock, os.getpid())
    files.mkdir()
    return files


def remove_folder(files: Path) -> None:
    """Remove a folder of `make_folder`. A forked child, or a second call, does nothing."""
    lock, owner = _held.get(files, (-1, -1))
    if owner != os.getpid():
        return
    del _held[files]
    _remove(files.parent)
    os.close(lock)  # last: as long as there is something to remove, it is ours


def remove_all() -> None:
    """Remove all folders of this process, which is about to end at once."""
    for files in list(_held):
        remove_folder(files)


def sweep(place: Path) -> None:
    """Remove the folders in `place` whose owners, processes of the same user, are gone."""
    if fcntl is None:
        return
    dead: dict[Path, int] = {}
    with suppress(OSError):
        for outer in place.glob(f"{PREFIX}*"):
            with suppress(OSError):
                found = outer.lstat()
                if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
                    continue
                lock = _locked(outer / _MARK, create=False)
                if lock is not None:
                    dead[outer] = lock
    end_users([outer / _FILES for outer in dead])
    for outer, lock in dead.items():
        _remove(outer)
        os.close(lock)


def end_users(folders: Collection[Path]) -> None:
    """End the processes of this user that were started with one of these folders for their temporary files.

    A unit in a process of its own has such a folder, and so has all that it starts, wherever that goes.
    """
    marks = [b"\0TMPDIR=" + os.fsencode(folder) + b"\0" for folder in folders]
    for _ in range(5 if marks else 0):  # one that is found may have started another meanwhile
        found = [process for process in _own_processes() if _has_any(process, marks)]
        for process in found:
            with suppress(OSError):
                os.kill(int(process.name), signal.SIGKILL)
        if not found:
            return


def _own_processes() -> Iterator[Path]:
    """The processes of this user but this one, where the system lists them."""
    with suppress(OSError):
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if (
                    entry.name.isdigit()
                    and entry.name != str(os.getpid())
                    and entry.stat().st_uid == os.getuid()
                ):
                    yield entry


def _has_any(process: Path, marks: Sequence[bytes]) -> bool:
    """Whether one of these is in the environment of a process that lives."""
    try:
        environment = b"\0" + (process / "environ").read_bytes()
        found = any(mark in environment for mark in marks)
        return found and b") Z" not in (process / "stat").read_bytes()
    except OSError:
        return False


def _remove(folder: Path) -> None:
    """All of it, also what is write-protected."""
    shutil.rmtree(folder, ignore_errors=True)
    if not folder.exists():
        return
    for path, folders, _ in os.walk(folder):
        for inside in (Path(path), *(Path(path) / name for name in folders)):
            with suppress(OSError):
                if not inside.is_symlink():
                    inside.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)


def _locked(mark: Path, *, create: bool) -> int | None:
    """The open, locked file `mark`; None if it is locked by another process, or gone."""
    flags = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | (os.O_CREAT | os.O_EXCL if create else 0)
    try:
        number = os.open(mark, flags, 0o600)
    except FileNotFoundError:
        return None
    if fcntl is None:
        return number
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(number), mark.stat()):
            return number
    except BlockingIOError:
        pass
    except FileNotFoundError:
        pass
    except OSError:
        # A file system without locks. What is made there is used all the same, and is never swept.
        if create:
            return number
    os.close(number)
    return None
