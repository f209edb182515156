"""FMU files, unpacked safely, and once per process however many models and units share them."""

from __future__ import annotations

import os
import stat
import struct
import threading
import weakref
import zipfile
import zlib
from collections import Counter
from pathlib import Path, PurePosixPath
from types import TracebackType

from upbeat.core.errors import FileProblem, cannot_read
from upbeat.core.records import dataclass
from upbeat.core.scratch import make_folder, remove_folder
from upbeat.units.fmi.description import NAME, ModelDescription, parse_description

# -- unpacking .fmu and .ssp files, which come from strangers, into a folder that is removed again -------
#
# Everything that could reach beyond that folder or fill the disk is refused before the first byte is
# written: paths that lead outside, links, devices, encrypted or doubled entries, absurd sizes. Sizes are
# counted once more while unpacking, because the directory of a zip file may lie.


_CHUNK = 1 << 20
_MIB = 1 << 20
_ENCRYPTED = 0x1
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    OverflowError,
)
"""What `zipfile` raises for files that are no good; a UnicodeDecodeError is a ValueError."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much an archive may hold. Real FMUs stay far below; what exceeds this is a mistake or an attack.

    The ratio counts only for entries beyond `ratio_from` bytes: small texts compress as well as they like.
    """

    total: int = 8192 * _MIB
    entry: int = 4096 * _MIB
    entries: int = 100_000
    ratio: int = 300
    ratio_from: int = 32 * _MIB


LIMITS = Limits()


class Unpacked:
    """The folder with the contents of an archive, until `close`, the end of a ``with``, or of the process.

    A folder that was there already (an unpacked FMU) is used as it is and never removed.
    """

    def __init__(self, source: Path, path: Path, *, temporary: bool) -> None:
        self.source = source
        self.path = path
        self._finalizer = weakref.finalize(self, remove_folder, path) if temporary else None

    def close(self) -> None:
        """Remove the folder if it is a temporary one. Closing twice does no harm."""
        if self._finalizer is not None:
            self._finalizer()

    def __enter__(self) -> Unpacked:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def unpack(source: str | os.PathLike[str], limits: Limits = LIMITS) -> Unpacked:
    """The contents of the archive `source` in a temporary folder; a folder is taken as it is.

    Raises `FileProblem`, naming the file and the entry, and leaves nothing behind.
    """
    path = Path(source)
    if path.is_dir():
        return Unpacked(path, path, temporary=False)
    if not path.exists():
        raise FileProblem(f"{path}: there is no such file")
    if not path.is_file():  # a pipe would keep us waiting, a device might never end
        raise FileProblem(f"'{path}' is neither a file nor a folder")
    folder = Unpacked(path, make_folder(), temporary=True)
    try:
        with zipfile.ZipFile(path) as archive:
            plan = _plan(archive, path, limits)
            left = limits.total
            for target, entry in plan.items():
                left -= _extract(archive, entry, folder.path / target, path, min(left, limits.entry))
    except FileProblem:
        folder.close()
        raise
    except _BROKEN as error:
        folder.close()
        raise FileProblem(f"'{path}' is damaged or is not a zip archive: {error}") from None
    except OSError as error:
        folder.close()
        raise FileProblem(f"'{path}' cannot be unpacked: {error.strerror or error}") from None
    except BaseException:
        folder.close()
        raise
    return folder


def read_member(source: str | os.PathLike[str], name: str, limits: Limits = LIMITS) -> bytes:
    """One file of the archive `source` (or of the folder), and nothing is written anywhere.

    What `unpack` would refuse is refused here, too: whoever reads a description learns at once that the rest
    is not acceptable.
    """
    path = Path(source)
    if path.is_dir():
        try:
            return (path / name).read_bytes()
        except OSError as error:
            raise cannot_read(path / name, error) from None
    if not path.exists():
        raise FileProblem(f"{path}: there is no such file")
    if not path.is_file():
        raise FileProblem(f"'{path}' is neither a file nor a folder")
    try:
        with zipfile.ZipFile(path) as archive:
            entry = _plan(archive, path, limits).get(PurePosixPath(name))
            if entry is None or entry.is_dir():
                raise FileProblem(f"'{path}' has no {name} in it")
            with archive.open(entry) as packed:
                # One byte more than it says: what holds more is refused, whatever the directory claims.
                data = packed.read(entry.file_size + 1)
    except FileProblem:
        raise
    except _BROKEN as error:
        raise FileProblem(f"'{path}' is damaged or is not a zip archive: {error}") from None
    except OSError as error:
        raise cannot_read(path, error) from None
    if len(data) > entry.file_size:
        raise _refused(path, entry, "it holds more than its size in the archive says")
    return data


def _plan(archive: zipfile.ZipFile, path: Path, limits: Limits) -> dict[PurePosixPath, zipfile.ZipInfo]:
    """Where each entry will go, all of them checked."""
    entries = archive.infolist()
    if len(entries) > limits.entries:
        raise FileProblem(f"'{path}' has {len(entries):,} entries; at most {limits.entries:,} are unpacked")
    plan: dict[PurePosixPath, zipfile.ZipInfo] = {}
    total = 0
    for entry in entries:
        target = _target(entry, path)
        _check_kind(entry, path)
        _check_size(entry, path, limits)
        total += entry.file_size
        if target in plan and not _same(archive, entry, plan[target]):
            raise _refused(path, entry, f"another entry has the name '{target}' too, with other contents")
        plan[target] = entry
    if total > limits.total:
        raise FileProblem(f"'{path}' would fill {_size(total)}; at most {_size(limits.total)} are unpacked")
    for target, entry in plan.items():
        for above in target.parents:
            if above in plan and not plan[above].is_dir():
                raise _refused(path, entry, f"'{above}' is a file in the same archive, not a folder")
    return plan


def _same(archive: zipfile.ZipFile, one: zipfile.ZipInfo, other: zipfile.ZipInfo) -> bool:
    """Whether it does not matter which of two entries of one name is taken."""
    if one.is_dir() or other.is_dir():
        return one.is_dir() and other.is_dir()
    if (one.file_size, one.CRC) != (other.file_size, other.CRC):
        return False
    with archive.open(one) as first, archive.open(other) as second:
        return first.read(one.file_size + 1) == second.read(one.file_size + 1)


def _target(entry: zipfile.ZipInfo, path: Path) -> PurePosixPath:
    """The place of an entry below the folder."""
    # Some tools on Windows write backslashes, against the zip standard; they mean folders.
    name = entry.filename.replace("\\", "/")
    if not name:  # Python 3.11's `is_dir` looks at the last character of the name
        raise _refused(path, entry, "it has no name")
    if any(ord(character) < 32 or ord(character) == 127 for character in name):
        raise _refused(path, entry, "its name has control characters")
    if name.startswith("/") or (name[1:2] == ":" and name[:1].isalpha()):
        raise _refused(path, entry, "its path is absolute")
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise _refused(path, entry, "its path leads out of the archive ('..')")
    if not parts and not entry.is_dir():
        raise _refused(path, entry, "it has no name")
    return PurePosixPath(*parts)


def _check_kind(entry: zipfile.ZipInfo, path: Path) -> None:
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind == stat.S_IFLNK:
        raise _refused(path, entry, "it is a symbolic link")
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise _refused(path, entry, "it is neither a file nor a folder")
    if entry.flag_bits & _ENCRYPTED:
        raise _refused(path, entry, "it is encrypted")
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        # FMI and SSP allow only these two, and the others bring decoders that allocate at will.
        raise _refused(path, entry, f"its compression method {entry.compress_type} is not 'deflate'")


def _check_size(entry: zipfile.ZipInfo, path: Path, limits: Limits) -> None:
    size, packed = entry.file_size, entry.compress_size
    if size > limits.entry:
        raise _refused(
            path, entry, f"it would fill {_size(size)}; at most {_size(limits.entry)} are unpacked"
        )
    if size > limits.ratio_from and size > limits.ratio * max(packed, 1):
        raise _refused(path, entry, f"{_size(packed)} claim to hold {_size(size)}, which no real file does")


def _extract(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, target: Path, path: Path, maximum: int) -> int:
    """Write one entry; how many bytes it had."""
    if entry.is_dir():
        target.mkdir(parents=True, exist_ok=True)
        return 0
    target.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    try:
        with archive.open(entry) as packed, target.open("xb") as file:
            while chunk := packed.read(_CHUNK):
                written += len(chunk)
                if written > maximum:
                    raise _refused(path, entry, "it holds more than its size in the archive says")
                file.write(chunk)
    except FileExistsError:
        # Two names that differ only in case, on a file system that does not tell them apart.
        raise _refused(path, entry, "another entry has the same name") from None
    except _BROKEN as error:
        raise FileProblem(f"'{path}' is damaged: '{_shown(entry)}' cannot be read: {error}") from None
    except OSError as error:
        raise FileProblem(
            f"{path}: '{_shown(entry)}' cannot be unpacked: {error.strerror or error}"
        ) from None
    if (entry.external_attr >> 16) & stat.S_IXUSR:
        target.chmod(0o700)  # tools that an FMU brings along; never anybody else's bits, nor setuid
    return written


def _refused(path: Path, entry: zipfile.ZipInfo, why: str) -> FileProblem:
    return FileProblem(f"'{path}' is not unpacked because of its entry '{_shown(entry)}': {why}")


def _shown(entry: zipfile.ZipInfo) -> str:
    """The name of an entry, fit for a message."""
    name = "".join(character if character.isprintable() else "�" for character in entry.filename)
    return name if len(name) <= 120 else f"{name[:120]}…"


def _size(count: int) -> str:
    return f"{count / _MIB:,.1f} MiB" if count >= _MIB else f"{count:,} bytes"


# -- FMU files that are read and unpacked once per process, however many models and units share them -----


Key = tuple[str, int, int]
"""What makes a file the same one as before: its path, when it was changed, its size."""

_DESCRIPTIONS: dict[Key, ModelDescription] = {}
_FOLDERS: dict[tuple[Key, int], Unpacked] = {}
_RUNNING: Counter[tuple[Key, str]] = Counter()
_LOCK = threading.Lock()
_MAX_DESCRIPTIONS = 1000
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
            if len(_DESCRIPTIONS) >= _MAX_DESCRIPTIONS:
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
