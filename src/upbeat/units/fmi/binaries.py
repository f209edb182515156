"""Which file of an unpacked FMU is the library for this machine."""

from __future__ import annotations

import platform
import struct
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from upbeat.core.errors import FileProblem

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

    def folders(self, version: int) -> tuple[str, ...]:
        """The folders under ``binaries`` to look in: this version's, then the other one's.

        FMI 2 has no name for most processors, so tools use FMI 3's there; the reverse is a slip.
        """
        theirs = _FMI2.get((self.system, self.machine))
        ours = f"{self.machine}-{self.system}"
        names = (theirs, ours) if version == 2 else (ours, theirs)
        return tuple(name for name in names if name)


@dataclass(frozen=True, slots=True)
class Library:
    """The library, and what is odd about where it was found (empty if nothing is)."""

    path: Path
    warnings: tuple[str, ...] = ()


def find_library(folder: Path, version: int, identifier: str, machine: Platform | None = None) -> Library:
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
    return Library(folder / name, odd)


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
        pass  # whoever unpacks it says what is wrong
    return None


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
