"""The shared library of an FMU: found for this machine, loaded once per process, its functions by name."""

from __future__ import annotations

import ctypes
import logging
import platform
import re
import struct
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from upbeat.core.errors import FileProblem, UpbeatError
from upbeat.core.records import dataclass

# -- which file of an unpacked FMU is the library for this machine ---------------------------------------


_SUFFIX = {"linux": ".so", "darwin": ".dylib", "windows": ".dll"}
_MACHINES = {
    "x86_64": "x86_64",
    "amd64": "x86_64",
    "i386": "x86",
    "i686": "x86",
    "x86": "x86",
    "aarch64": "aarch64",
    "arm64": "aarch64",
}
_FMI2 = {
    ("linux", "x86_64"): "linux64",
    ("linux", "x86"): "linux32",
    ("darwin", "x86_64"): "darwin64",
    # Tools put universal libraries here; one for the other processor fails to load and says so.
    ("darwin", "aarch64"): "darwin64",
    ("windows", "x86_64"): "win64",
    ("windows", "x86"): "win32",
}


@dataclass(frozen=True, slots=True)
class Platform:
    """An operating system (linux, darwin, windows) and a processor (x86_64, x86, aarch64, …)."""

    system: str
    machine: str

    @classmethod
    def here(cls) -> Platform:
        """The one this process runs on: a 32-bit Python needs 32-bit libraries."""
        machine = _MACHINES.get(platform.machine().lower(), platform.machine().lower())
        if machine == "x86_64" and struct.calcsize("P") == 4:
            machine = "x86"
        return cls(platform.system().lower(), machine)

    @property
    def suffix(self) -> str:
        """How the names of libraries end."""
        return _SUFFIX.get(self.system, ".so")

    def folders(self, version: int) -> tuple[str, ...]:
        """The folders under ``binaries`` to look in: this version's, then the other one's.

        FMI 2 has no name for most processors, so tools use FMI 3's there; the reverse is a slip.
        """
        theirs = _FMI2.get((self.system, self.machine))
        ours = f"{self.machine}-{self.system}"
        names = (theirs, ours) if version == 2 else (ours, theirs)
        return tuple(name for name in names if name)


@dataclass(frozen=True, slots=True)
class Found:
    """The library, and what is odd about where it was found (empty if nothing is)."""

    path: Path
    warnings: tuple[str, ...] = ()


def find_library(folder: Path, version: int, identifier: str, machine: Platform | None = None) -> Found:
    """The library `identifier` for this machine (or `machine`) in an FMU unpacked in `folder`.

    If there is none of that name but only one library at all, it is that one: some tools rename
    models and forget the file.
    """
    names = [
        f"{top}/{place.name}/{file.name}"
        for top in ("binaries", "sources")
        for place in _entries(folder / top)
        for file in (_files(place) if place.is_dir() else [place])
    ]
    name, odd = _chosen(names, version, identifier, machine or Platform.here())
    return Found(folder / name, odd)


def objection(path: Path, version: int, identifier: str) -> str | None:
    """Why an FMU, packed or not, cannot run on this machine: there is no library for it. It stays packed."""
    try:
        if path.is_dir():
            find_library(path, version, identifier)
        else:
            with zipfile.ZipFile(path) as archive:
                _chosen(archive.namelist(), version, identifier, Platform.here())
    except FileProblem as problem:
        return str(problem)
    except (OSError, zipfile.BadZipFile):
        pass  # what is wrong is said when it is unpacked
    return None


def chosen_library(path: Path, version: int, identifier: str) -> str:
    """The name of the library for this machine in an FMU, packed or not. `FileProblem` if there is none."""
    if path.is_dir():
        return find_library(path, version, identifier).path.relative_to(path).as_posix()
    with zipfile.ZipFile(path) as archive:
        return _chosen(archive.namelist(), version, identifier, Platform.here())[0]


def _chosen(
    names: Sequence[str], version: int, identifier: str, machine: Platform
) -> tuple[str, tuple[str, ...]]:
    """The library among the files of an FMU, and what is odd about it."""
    suffix = _SUFFIX.get(machine.system, ".so")
    folders = machine.folders(version)
    seen: list[str] = []
    for position, folder in enumerate(folders):
        inside = [name.split("/") for name in names if name.startswith(f"binaries/{folder}/")]
        libraries = {parts[2] for parts in inside if len(parts) == 3 and parts[2].endswith(suffix)}
        seen += [f"{folder}/{library}" for library in libraries]
        odd: list[str] = []
        if position > 0 and version == 3:
            odd.append(f"the library is in binaries/{folder}, which is FMI 2's")
        # Looked up, not joined to a path: an identifier is a text from a stranger.
        if identifier + suffix in libraries:
            return f"binaries/{folder}/{identifier}{suffix}", tuple(odd)
        if len(libraries) == 1:
            (other,) = libraries
            odd.append(f"there is no {identifier}{suffix}, so the only library there is taken: {other}")
            return f"binaries/{folder}/{other}", tuple(odd)
    raise FileProblem(_missing(names, machine, folders, identifier + suffix, seen))


def _missing(
    names: Sequence[str], machine: Platform, folders: tuple[str, ...], wanted: str, seen: list[str]
) -> str:
    where = " or ".join(f"binaries/{folder}" for folder in folders)
    if seen:
        return f"the FMU has several libraries, and none of them is {wanted}: {', '.join(sorted(seen))}"
    parts = [name.split("/") for name in names]
    there = sorted({part[1] for part in parts if part[0] == "binaries" and len(part) > 2})
    has = f"it is made for {', '.join(there)}" if there else "it has no binaries at all"
    sources = any(part[0] == "sources" and len(part) > 1 for part in parts)
    hint = " It has sources, which could be compiled." if sources else ""
    return (
        f"the FMU has no library for this machine ({machine.machine} {machine.system}): {where} is missing "
        f"or empty; {has}.{hint} Ask its maker for an FMU that includes this machine"
    )


def _entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _files(folder: Path) -> list[Path]:
    return [path for path in _entries(folder) if path.is_file()]


# -- the shared library of an FMU: loaded once per process, its functions found by name ------------------


_log = logging.getLogger("upbeat.fmu")
_loaded: dict[Path, Library] = {}
_MAX_HELPERS = 50
_MISSING = re.compile(r"^(?P<name>[^:]+): cannot open shared object file")
_UNDEFINED = re.compile(r"undefined symbol: (?P<name>\S+)")


class FmuError(UpbeatError):
    """A call that the FMU did not carry out. The engine wraps it into a `UnitError` with unit and time.

    `call` is the name of the FMI function. `fatal` says that the instance may not be used any more,
    `discarded` that the FMU could do it with other values (a shorter step, states nearer to the last ones).
    """

    def __init__(self, message: str, call: str = "", fatal: bool = False, discarded: bool = False) -> None:
        super().__init__(message)
        self.call = call
        self.fatal = fatal
        self.discarded = discarded


class Library:
    """An FMU's library. It stays loaded: some FMUs leave threads or callbacks behind that must not dangle.

    `doom` is the function in which an instance failed for good (fatal); true from then on. After that no
    function may be called for any instance. The native core reads and writes it, too.
    """

    def __init__(self, path: Path, identifier: str) -> None:
        self.path = path
        self.doom: Any = ctypes.c_char_p()  # false as long as it is null, which its type does not tell
        self._dll = _open(path)
        self._prefix = f"{identifier}_"

    def address(self, name: str) -> int:
        """Where a function lies; 0 if the library lacks it.

        FMUs made to be linked statically put their model identifier before all names.
        """
        for symbol in (name, self._prefix + name):
            try:
                return ctypes.cast(self._dll[symbol], ctypes.c_void_p).value or 0
            except AttributeError:
                continue
        return 0

    @property
    def given_up(self) -> str:
        """Why nothing may be called any more, or an empty text."""
        return f"the FMU failed for good in {self.doom.value.decode()} before" if self.doom.value else ""


def load(folder: Path, version: int, identifier: str) -> Library:
    """The library of the FMU that is unpacked in `folder`. What is odd about it goes to the log."""
    found = find_library(folder, version, identifier)
    path = found.path.resolve()
    if path not in _loaded:
        for warning in found.warnings:
            _log.warning("%s: %s", identifier, warning)
        _loaded[path] = Library(path, identifier)
    return _loaded[path]


def _open(path: Path) -> ctypes.CDLL:
    """Load a library with all its symbols at once: one that is missing later would end the process.

    Libraries that it brings along in its own folder, but does not know how to find, are loaded before it.
    """
    helpers: list[str] = []
    while True:
        try:
            return ctypes.CDLL(str(path), mode=ctypes.RTLD_LOCAL)
        except OSError as error:
            helper = _beside(path, str(error))
            if helper is None or helper.name in helpers or len(helpers) >= _MAX_HELPERS:
                raise FmuError(_reason(path, str(error))) from None
            helpers.append(helper.name)
        _open(helper)


def _beside(path: Path, message: str) -> Path | None:
    missing = _MISSING.match(message)
    if missing is None:
        return None
    helper = path.with_name(Path(missing["name"]).name)
    return helper if helper.is_file() and helper != path else None


def _reason(path: Path, message: str) -> str:
    start = f"the FMU's library {path.name} cannot be loaded: "
    if missing := _MISSING.match(message):
        return (
            f"{start}it needs {missing['name']}, which is not installed here. Install the package that has "
            f"this file (`ldd` lists all that are missing), or add its folder to LD_LIBRARY_PATH"
        )
    if undefined := _UNDEFINED.search(message):
        return (
            f"{start}it needs the undefined symbol {undefined['name']}. Its maker forgot to link a library; "
            f"one that has the symbol can be named in LD_PRELOAD"
        )
    if "ELF" in message or "file too short" in message or "invalid" in message:
        return f"{start}it is damaged or made for another machine ({message})"
    return f"{start}{message}"
