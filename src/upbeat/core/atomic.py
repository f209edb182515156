"""Files that are either the old ones or the new ones, whenever the power fails."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from upbeat.core.errors import cannot_write


def replace_file(path: Path, data: bytes) -> None:
    """Write `data` to `path` in one go: what was there before stays until all of it is on the disk.

    `FileProblem` if that fails; then the old file is as it was.
    """
    growing = path.with_name(f".{path.name}.{os.getpid()}.tmp")
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


def sync_folder(folder: Path) -> None:
    """Make sure that new names in a folder survive a power failure."""
    with suppress(OSError):  # a file system that cannot say so
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
