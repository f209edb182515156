"""Writing files safely: what can be checked before a run, and files that hold whole chunks only."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import BinaryIO

from upbeat.core.errors import FileProblem


class TraceWarning(UserWarning):
    """A result could be read only in part."""


def warn(message: str) -> None:
    """Warn the caller of `read`, without stopping it."""
    warnings.warn(message, TraceWarning, stacklevel=4)


def check_writable(path: Path) -> None:
    """`FileProblem` if `path` cannot become a file. An existing file keeps its contents."""
    if path.is_dir():
        raise FileProblem(
            f"cannot write results to '{path}': it is a directory. "
            f"Give a file name such as '{path / 'run.csv'}'."
        )
    if not path.parent.is_dir():
        raise FileProblem(
            f"cannot write results to '{path}': there is no directory '{path.parent}'. "
            f"Create it first: mkdir -p '{path.parent}'"
        )
    fresh = not path.exists()
    try:
        # Asking permission bits misses read-only file systems and quotas; opening does not.
        with path.open("ab"):
            pass
        if fresh:
            path.unlink()
    except OSError as error:
        raise unwritable(path, error) from error


def unwritable(path: Path, error: OSError, kept: str = "") -> FileProblem:
    """The error for a failed write; `kept` says what became of the results so far."""
    reason = error.strerror or str(error)
    return FileProblem(f"cannot write results to '{path}': {reason}." + (f" {kept}" if kept else ""))


class Appender:
    """An append-only file of whole chunks: one that cannot be written completely is taken back."""

    def __init__(self, path: Path, head: bytes) -> None:
        self.path = path
        self._size = 0
        try:
            # Unbuffered, so that a chunk is with the operating system when `append` returns, and a
            # killed process loses nothing of it.
            self._file: BinaryIO = path.open("wb", buffering=0)
        except OSError as error:
            raise unwritable(path, error) from error
        self.append(head)

    def append(self, data: bytes) -> None:
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except BaseException as error:
            self._take_back()
            if isinstance(error, OSError):
                raise unwritable(self.path, error, "All rows before this point are in the file.") from error
            raise
        self._size += len(data)

    def _take_back(self) -> None:
        try:
            os.ftruncate(self._file.fileno(), self._size)
            self._file.seek(self._size)
        except OSError:  # a pipe or a device: nothing can be taken back
            pass

    def close(self) -> None:
        self._file.close()
