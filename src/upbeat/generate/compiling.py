"""Compiling generated C with the system's compiler; what was compiled once is kept in the user's cache folder."""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from upbeat.core.errors import InvalidInput, RunError
from upbeat.core.scratch import make_folder
from upbeat.units.fmi.known import folder as cache_folder

_log = logging.getLogger("upbeat.run")

_EXACT = [
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "atan2",
    "sinh",
    "cosh",
    "tanh",
    "exp",
    "log",
    "log10",
    "pow",
    "hypot",
]
"""Functions that a compiler must not compute by itself, with other last bits than the C library."""
_SAFE = ["-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", *(f"-fno-builtin-{f}" for f in _EXACT)]
OPTIMISE = "-O2"
"""How hard the compiler tries; tests have not the time."""
_LONG = 12_000
"""Of longer sources compilers get slow: they have to try less hard."""
_SHOWN = 12
"""So many lines of a compiler's complaint are shown."""


def compiler() -> list[str]:
    """The command of the C compiler: $CC, or the first of cc, gcc and clang that there is."""
    given = shlex.split(os.environ.get("CC", ""))
    if given:
        if shutil.which(given[0]) is None:
            raise InvalidInput(
                f"the environment variable CC names the C compiler '{given[0]}', which is not there: correct it, or "
                "unset it to use cc, gcc or clang"
            )
        return given
    for name in ("cc", "gcc", "clang"):
        if found := shutil.which(name):
            return [found]
    install = {
        "darwin": "xcode-select --install",
        "win32": "install one and set the environment variable CC to its command",
    }.get(sys.platform, "apt install gcc, or dnf install gcc")
    raise InvalidInput(f"there is no C compiler, neither cc nor gcc nor clang on the path: {install}")


@cache
def _version(command: tuple[str, ...]) -> str:
    done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False, timeout=60)  # noqa: S603
    return done.stdout


def library(source: str, more: Sequence[str] = ()) -> ctypes.CDLL:
    """The source as a loaded library, compiled unless it is in the cache; `more` flags come last.

    Two processes that compile the same one at once do not disturb each other: the last one's file stays. A folder
    that cannot be written is told once, and then every process compiles for itself.
    """
    try:
        command = compiler()
    except InvalidInput as error:
        raise InvalidInput(
            f"the compiled engine needs a C compiler: {error}. Without one, use --engine native or --engine interpret."
        ) from None
    flags = ["-std=c99", _level(source.count("\n")), "-fPIC", "-shared", "-Werror=implicit", *_SAFE, *more]
    key = "\0".join([source, *command, _version(tuple(command)), *flags])
    name = f"{hashlib.blake2b(key.encode(), digest_size=16).hexdigest()}.so"
    for folder in (_kept(cache_folder() / "compiled"), _own()):
        if folder is None:
            continue
        path = folder / name
        try:
            if path.is_file():
                return ctypes.CDLL(str(path))
        except OSError:  # somebody's half of a file, or of another machine: compile it again
            _log.debug("a compiled scenario cannot be loaded", exc_info=True)
        _compile(source, path, [*command, *flags])
        return ctypes.CDLL(str(path))
    raise AssertionError("there is always a folder of our own")


@cache
def _kept(folder: Path) -> Path | None:
    """The folder in the user's cache, if files can be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        _log.warning(
            "compiled scenarios cannot be kept in '%s' (%s): every process compiles them again. Make it writable, or "
            "set XDG_CACHE_HOME to a folder that is.",
            folder,
            error.strerror or error,
        )
        return None


@cache
def _own() -> Path:
    """A folder that is gone with this process."""
    return make_folder()


def _compile(source: str, to: Path, command: list[str]) -> None:
    with tempfile.TemporaryDirectory(prefix=".upbeat-", dir=to.parent) as work:
        built = _built(
            Path(work), {"scenario.c": source.encode()}, "scenario.c", command, "use --engine native"
        )
        built.replace(to)


def compile_library(sources: Mapping[str, bytes], main: str) -> bytes:
    """A shared library from `main`, which includes the others: its bytes."""
    lines = sum(text.count(b"\n") for text in sources.values())
    flags = ["-std=c99", _level(lines), "-fPIC", "-shared", "-fvisibility=hidden", "-s", *_SAFE]
    with tempfile.TemporaryDirectory(prefix="upbeat-") as work:
        instead = "export with --kind core, which needs none"
        return _built(Path(work), sources, main, [*compiler(), *flags], instead).read_bytes()


def _level(lines: int) -> str:
    return "-O1" if OPTIMISE == "-O2" and lines > _LONG else OPTIMISE


def _built(work: Path, sources: Mapping[str, bytes], main: str, command: list[str], instead: str) -> Path:
    made = work / "scenario.so"
    for name, text in sources.items():
        (work / name).write_bytes(text)
    done = subprocess.run(  # noqa: S603
        [*command, str(work / main), "-o", str(made), "-lm"], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        said = "\n".join((done.stderr or done.stdout).replace(f"{work}/", "").splitlines()[:_SHOWN])
        raise RunError(
            f"the C compiler '{command[0]}' refused the generated code (set CC to take another one, or {instead}):"
            f"\n{said}"
        )
    return made
