"""Files that are either the old ones or the new ones, whenever the power fails; what may be read as one."""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from pathlib import Path

from upbeat.core.errors import FileProblem, InvalidInput, cannot_write


def as_path(given: object, what: str = "path") -> Path:
    """An argument of ours as a path; `InvalidInput` names it if it is something else."""
    if not isinstance(given, (str, os.PathLike)) or "\0" in str(given):
        raise InvalidInput(f'{what} must be the name of a file, such as "tank.toml", not {given!r}')
    return Path(given)


def is_file(path: Path) -> bool:
    """Whether there is such a file; not if no file can have that name."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def check_regular(path: Path) -> None:
    """`FileProblem` if this is a pipe or a device, which may never end; `OSError` if it is not there."""
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise FileProblem(f"cannot read '{path}': it is a pipe or a device, not a file")


def _tidied(path: Path) -> None:
    """Remove what processes that were killed have left on the way to `path`."""
    pattern = re.compile(re.escape(f".{path.name}.") + r"(\d+)\.tmp")
    with suppress(OSError):
        for entry in os.scandir(path.parent):
            found = pattern.fullmatch(entry.name)
            if found and int(found[1]) != os.getpid() and not _lives(int(found[1])):
                Path(entry.path).unlink()


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def replace_file(path: Path, data: bytes) -> None:
    """Write `data` to `path` in one go: what was there before stays until all of it is on the disk.

    `FileProblem` if that fails; then the old file is as it was.
    """
    growing = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    if path not in _tidy:
        _tidied(path)
        _tidy.add(path)
    try:
        with growing.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        growing.replace(path)
        sync_folder(path.parent)
    except BaseException as error:
        with suppress(OSError):
            growing.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise cannot_write(path, error) from error
        raise


_tidy: set[Path] = set()
"""Where this process has looked already."""


def sync_folder(folder: Path) -> None:
    """Make sure that new names in a folder survive a power failure."""
    with suppress(OSError):  # a file system that cannot say so
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
