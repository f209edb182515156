"""Writing files safely: one writer a file, checked before a run, and whole chunks only."""

from __future__ import annotations

import csv
import errno
import fcntl
import os
import warnings
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from upbeat.core.errors import FileProblem, check_type
from upbeat.core.plain import Fields
from upbeat.core.records import dataclass


class TraceWarning(UserWarning):
    """A result could be read only in part."""


def warn(message: str) -> None:
    """Warn the caller of `read`, without stopping it."""
    warnings.warn(message, TraceWarning, stacklevel=4)


def unfinished(path: Path) -> Path:
    """The journal that belongs to a Parquet file under way."""
    return path.with_name(path.name + ".partial")


def check_place(path: Path) -> None:
    """`FileProblem` if `path` is no place for a file. Creates nothing and changes nothing."""
    try:
        _check_place(path)
    except OSError as error:  # a name that no file can have
        raise unwritable(path, error) from None


def kept_from(path: Path, ours: Callable[[Path], bool], what: str, *, force: bool = False) -> None:
    """`FileProblem` if there is a file that is not `ours`, so that it is not replaced by mistake.

    Empty files, pipes and devices have nothing to lose.
    """
    check_type(force, bool, "force")
    try:
        if force or not path.is_file() or path.stat().st_size == 0:
            return
    except OSError:  # a name that no file can have: there is none
        return
    try:
        if ours(path):
            return
    except (OSError, ValueError, LookupError, TypeError, RecursionError, csv.Error):
        pass
    raise FileProblem(
        f"'{path}' is there already, and is not {what}: it would be lost. Give another name, or say that "
        "it may be replaced: --force (in Python: force=True)"
    )


def _check_place(path: Path) -> None:
    if path.is_dir():
        raise FileProblem(
            f"cannot write results to '{path}': it is a folder. "
            f"Give a file name such as '{path / 'run.csv'}'."
        )
    if not path.parent.is_dir():
        raise FileProblem(
            f"cannot write results to '{path}': there is no folder '{path.parent}'. "
            f"Create it first: mkdir -p '{path.parent}'"
        )
    if path.exists() and not path.is_file():
        raise FileProblem(
            f"cannot write results to '{path}': it is a pipe or a device, which keeps nothing. "
            "Give the name of a file."
        )
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise unwritable(path, PermissionError(errno.EACCES, os.strerror(errno.EACCES)))


def unwritable(path: Path, error: OSError, kept: str = "") -> FileProblem:
    """The error for a failed write; `kept` says what became of the results so far."""
    reason = error.strerror or str(error)
    return FileProblem(f"cannot write results to '{path}': {reason}." + (f" {kept}" if kept else ""))


@dataclass(frozen=True, slots=True)
class Written:
    """How far a file has been written, and the CRC-32 of all of it: a run that goes on begins there."""

    size: int
    crc: int

    @classmethod
    def from_data(cls, fields: Fields) -> Written:
        """From a checkpoint; `ValueError` if that says something else."""
        return cls(fields.whole("size"), fields.whole("crc", high=2**32 - 1))


class Appender:
    """An append-only file of whole chunks: one that cannot be written completely is taken back.

    The file is open, and locked against a second writer, from the start; what it held before is there
    until `begin`. A killed process leaves no lock behind. `result` is the name that people know it by.
    """

    def __init__(self, path: Path, result: Path | None = None) -> None:
        self.path = path
        self.begun = False
        self.size = 0
        self._crc = 0
        self._result = result or path
        check_place(self._result)
        try:
            self._file, self._fresh = self._locked()
        except OSError as error:
            raise unwritable(self._result, error) from error

    def _locked(self) -> tuple[BinaryIO, bool]:
        while True:
            fresh = not self.path.exists()
            # Unbuffered, so that a chunk is with the operating system when `append` returns, and a
            # killed process loses nothing of it.
            file: BinaryIO = os.fdopen(os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o666), "wb", buffering=0)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_at(file, self.path):
                    return file, fresh
            except BlockingIOError:
                file.close()
                raise FileProblem(
                    f"cannot write results to '{self._result}': another run is writing to it. "
                    "Wait for that one to end, or give another name."
                ) from None
            except OSError:  # a file system without locks: go on without one
                return file, fresh
            file.close()  # the other run has just removed or replaced it: once more

    def begin(self, head: bytes) -> None:
        """Let go of what the file held before, and write its head."""
        self.begun = True
        self._take_back()
        self.append(head)

    def append(self, data: bytes) -> None:
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except BaseException as error:
            self._take_back()
            if isinstance(error, OSError):
                raise unwritable(self._result, error, "All rows before this point are kept.") from error
            raise
        self.size += len(data)
        self._crc = zlib.crc32(data, self._crc)

    def written(self) -> Written:
        """How far the file has come, once that is safe from a power failure, too."""
        if self.begun:
            with suppress(OSError):  # a pipe or a device keeps nothing
                os.fsync(self._file.fileno())
        return Written(self.size, self._crc)

    def check(self, before: Written) -> None:
        """`FileProblem` unless the file begins with what had been written `before`. Changes nothing."""
        crc, left = 0, before.size
        with self.path.open("rb") as file:
            while left and (data := file.read(min(left, 1 << 20))):
                crc, left = zlib.crc32(data, crc), left - len(data)
        if left or crc != before.crc:
            what = f"has lost its last {left} bytes" if left else "was changed"
            raise FileProblem(
                f"'{self.path}' {what} since the checkpoint was made: the run cannot go on in it. "
                "Put the file back as it was, or start the run again."
            )

    def go_on(self, before: Written) -> None:
        """Cut off what came after `before`, which must have been checked, and go on from there."""
        self.begun, self.size, self._crc = True, before.size, before.crc
        self._take_back()

    def _take_back(self) -> None:
        try:
            os.ftruncate(self._file.fileno(), self.size)
            self._file.seek(self.size)
        except OSError:  # a pipe or a device: nothing can be taken back
            pass

    def close(self) -> None:
        """Let go of the file; one that came into being for nothing, or holds nothing, is removed."""
        if self._file.closed:
            return
        if self.size == 0 if self.begun else self._fresh:
            self.path.unlink(missing_ok=True)
        with suppress(OSError):  # by name, because a forked child may have the file open, too
            fcntl.flock(self._file, fcntl.LOCK_UN)
        self._file.close()


def _is_at(file: BinaryIO, path: Path) -> bool:
    """Whether `path` still names the open file."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
