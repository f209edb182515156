"""Log messages of FMUs on their way to Python's logging.

Each instance has a `Journal`. The FMU gets the journal's number as its environment, so that one C function
serves all instances and nothing has to outlive any of them. FMI 2's logger is variadic, which Python cannot
receive: the native core formats those messages; without it their format is shown.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import logging
import math
import re
from collections import deque
from collections.abc import Collection
from ctypes import CFUNCTYPE, c_char_p, c_int, c_void_p
from functools import cache, cached_property
from importlib import import_module
from typing import Any
from weakref import WeakValueDictionary

from upbeat.units.fmi.description import ModelDescription, Type

ROOT = "upbeat.fmu"
_LEVELS = (logging.INFO, logging.WARNING, logging.INFO, logging.ERROR, logging.CRITICAL, logging.INFO)
_OK, _DISCARD, _FATAL = 0, 2, 4
_UNSEEN = " (arguments not shown: the native core is missing)"
_REFERENCE = re.compile(r"#(?:([ribs])(\d{1,10}))?#")
_LETTERS = {
    Type.FLOAT64: "r",
    Type.INT32: "i",
    Type.ENUMERATION: "i",
    Type.BOOLEAN: "b",
    Type.STRING: "s",
}
_KEPT = 5

_numbers = itertools.count(1)
_journals: WeakValueDictionary[int, Journal] = WeakValueDictionary()


class Journal:
    """The messages of one instance. `time` is where it is, as far as this side knows; `clock` has it where
    somebody else calls the FMU.

    `news` is up when there is something to look at before the next call: complaints, or an exception that
    a log handler raised, which must not unwind through the FMU.
    """

    def __init__(
        self, name: str, description: ModelDescription, categories: Collection[str] | None = None
    ) -> None:
        self.number = next(_numbers)
        self.name = name
        self.time = math.nan
        self.clock: ctypes.c_double | None = None
        self.news = False
        self._logger = logging.getLogger(f"{ROOT}.{name}")
        self._categories = None if categories is None else frozenset(categories)
        self._description = description
        self._complaints: deque[str] = deque(maxlen=_KEPT)
        self._last = ""
        self._raised: BaseException | None = None
        self._closed = False
        _journals[self.number] = self

    def message(self, status: int, category: str, text: str) -> None:
        """A message of the FMU. Called from C: nothing may be raised here."""
        try:
            if self._description.version == 2:
                text = self._named(text)
            self._last = text.strip() or self._last
            if _DISCARD <= status <= _FATAL and text:
                self._complaints.append(text.strip())
                self.news = True
            if status == _OK and self._categories is not None and category not in self._categories:
                return  # FMUs that do not listen to what was asked for
            self._log(_level(status, category), text, category)
        except BaseException as error:  # noqa: BLE001
            self._raised = error
            self.news = True

    def note(self, text: str) -> None:
        """A warning of our own."""
        self._log(logging.WARNING, text, "")

    def complaints(self) -> tuple[str, ...]:
        """The last few messages about something that went wrong; else the last one at all, if there was one.

        There are FMUs that say why they fail in a message which they call a warning, or even all right.
        """
        if not self._complaints and self._last:
            return (f'its last message was "{self._last}"',)
        return tuple(self._complaints)

    def close(self) -> None:
        """From now on there is always something to look at: nothing may be called any more."""
        self._closed = self.news = True

    def settle(self) -> None:
        """Forget the complaints, and raise what a handler raised."""
        self.news = self._closed
        self._complaints.clear()
        raised, self._raised = self._raised, None
        if raised is not None:
            raise raised

    def _log(self, level: int, text: str, category: str) -> None:
        if self._logger.isEnabledFor(level):
            time = self.time if self.clock is None else self.clock.value
            extra = {"unit": self.name, "time": time, "category": category}
            self._logger.log(level, "%s", text, extra=extra)

    def _named(self, text: str) -> str:
        """``#r12#`` stands for a variable, ``##`` for the sign itself."""
        if "#" not in text:
            return text
        return _REFERENCE.sub(self._name_of, text)

    def _name_of(self, match: re.Match[str]) -> str:
        if match[1] is None:
            return "#"
        return self._names.get((match[1], int(match[2])), match[0])

    @cached_property
    def _names(self) -> dict[tuple[str, int], str]:
        """By letter and reference; the first name of several is the one that the others are aliases of."""
        found: dict[tuple[str, int], str] = {}
        for variable in self._description.variables:
            found.setdefault((_LETTERS.get(variable.type, ""), variable.reference), variable.name)
        return found


def _level(status: int, category: str) -> int:
    if status == _OK and category:
        return logging.DEBUG
    return _LEVELS[status] if 0 <= status < len(_LEVELS) else logging.WARNING


def _deliver(number: int | None, instance: bytes, status: int, category: bytes, message: bytes) -> None:
    """To the journal of that number; without one (some FMUs mix up environments) to the common logger."""
    texts = [(part or b"").decode("utf-8", "replace") for part in (instance, category, message)]
    journal = _journals.get(number or 0)
    if journal is not None:
        journal.message(status, texts[1], texts[2])
        return
    with contextlib.suppress(Exception):
        logging.getLogger(ROOT).log(
            _level(status, texts[1]),
            "%s: %s",
            texts[0],
            texts[2],
            extra={"unit": texts[0], "time": math.nan, "category": texts[1]},
        )


@cache
def logger2() -> int:
    """The address of the function that FMUs of FMI 2 call."""
    try:
        native = import_module("upbeat._native")
        native.set_fmi2_log_sink(_deliver)
        return int(native.fmi2_logger_address())
    except (ImportError, AttributeError):
        return ctypes.cast(_plain2(), c_void_p).value or 0


@cache
def _plain2() -> Any:
    """Takes the named arguments of the variadic function only, and the others stay where they are."""

    def log(number: int, instance: bytes, status: int, category: bytes, message: bytes) -> None:
        shown = message or b""
        if b"%" in shown.replace(b"%%", b""):
            shown += _UNSEEN.encode()
        _deliver(number, instance, status, category, shown.replace(b"%%", b"%"))

    return CFUNCTYPE(None, c_void_p, c_char_p, c_int, c_char_p, c_char_p)(log)


@cache
def logger3() -> Any:
    """The function that FMUs of FMI 3 call."""

    def log(number: int, status: int, category: bytes, message: bytes) -> None:
        _deliver(number, b"", status, category, message)

    return CFUNCTYPE(None, c_void_p, c_int, c_char_p, c_char_p)(log)
