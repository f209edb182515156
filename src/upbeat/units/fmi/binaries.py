"""Which file of an unpacked FMU is the library for this machine."""

from __future__ import annotations

import platform
import struct
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
    machine = machine or Platform.here()
    suffix = _SUFFIX.get(machine.system, ".so")
    names = machine.folders(version)
    seen: list[str] = []
    for position, name in enumerate(names):
        inside = folder / "binaries" / name
        libraries = {file.name: file for file in _files(inside) if file.suffix == suffix}
        seen += [f"{name}/{library}" for library in libraries]
        odd = (
            [] if position == 0 or version == 2 else [f"the library is in binaries/{name}, which is FMI 2's"]
        )
        # Looked up, not joined to a path: an identifier is a text from a stranger.
        if (file := libraries.get(identifier + suffix)) is not None:
            return Library(file, tuple(odd))
        if len(libraries) == 1:
            ((other, file),) = libraries.items()
            odd.append(f"there is no {identifier}{suffix}, so the only library there is taken: {other}")
            return Library(file, tuple(odd))
    raise FileProblem(_missing(folder, machine, names, identifier + suffix, seen))


def _missing(folder: Path, machine: Platform, names: tuple[str, ...], wanted: str, seen: list[str]) -> str:
    where = " or ".join(f"binaries/{name}" for name in names)
    if seen:
        return f"the FMU has several libraries, and none of them is {wanted}: {', '.join(sorted(seen))}"
    there = sorted(path.name for path in _entries(folder / "binaries") if path.is_dir())
    has = f"it is made for {', '.join(there)}" if there else "it has no binaries at all"
    sources = " It has sources, which could be compiled." if (folder / "sources").is_dir() else ""
    return (
        f"the FMU has no library for this machine ({machine.machine} {machine.system}): {where} is missing "
        f"or empty; {has}.{sources} Ask its maker for an FMU that includes this machine"
    )


def _entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _files(folder: Path) -> list[Path]:
    return [path for path in _entries(folder) if path.is_file()]
