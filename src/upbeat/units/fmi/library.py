"""The shared library of an FMU: loaded once per process, its functions found by name."""

from __future__ import annotations

import ctypes
import logging
import re
from pathlib import Path
from typing import Any

from upbeat.core.errors import UpbeatError
from upbeat.units.fmi.binaries import find_library

_log = logging.getLogger("upbeat.fmu")
_loaded: dict[Path, Library] = {}
_MOST_HELPERS = 50
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
            if helper is None or helper.name in helpers or len(helpers) >= _MOST_HELPERS:
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
            f"{start}nobody defines its symbol {undefined['name']}. Its maker forgot to link a library; "
            f"one that has the symbol can be named in LD_PRELOAD"
        )
    if "ELF" in message or "file too short" in message or "invalid" in message:
        return f"{start}it is damaged or made for another machine ({message})"
    return f"{start}{message}"
