"""Log messages of FMUs on their way to Python's logging.

Each instance has a `Journal`. The FMU gets the journal's number as its environment, so that one function of
the core serves all instances and nothing has to outlive any of them.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import logging
import math
import re
from collections import deque
from collections.abc import Collection, Sequence
from functools import cache, cached_property
from weakref import WeakValueDictionary

from upbeat.units.fmi.description import ModelDescription, Type

ROOT = "upbeat.fmu"
_LEVELS = (logging.INFO, logging.WARNING, logging.INFO, logging.ERROR, logging.CRITICAL, logging.INFO)
_OK, _DISCARD, _FATAL = 0, 2, 4
_REFERENCE = re.compile(r"#(?:([ribs])(\d{1,10}))?#")
_LETTERS = {
    Type.FLOAT64: "r",
    Type.INT32: "i",
    Type.ENUMERATION: "i",
    Type.BOOLEAN: "b",
    Type.STRING: "s",
}
_KEPT = 5
_MAX_SHOWN = 2000

_numbers = itertools.count(1)
_journals: WeakValueDictionary[int, Journal] = WeakValueDictionary()


class Journal:
    """The messages of one instance. `clock` always has its time: the core writes it there.

    `news` is up when there is something to look at before the next call: complaints, or an exception that
    a log handler raised, which must not unwind through the FMU.
    """

    def __init__(
        self, name: str, description: ModelDescription, categories: Collection[str] | None = None
    ) -> None:
        self.number = next(_numbers)
        self.name = name
        self.clock = ctypes.c_double(math.nan)
        self.news = False
        self._logger = logging.getLogger(f"{ROOT}.{name}")
        self._categories = None if categories is None else frozenset(categories)
        self._description = description
        self._complaints: deque[str] = deque(maxlen=_KEPT)
        self._last = ""
        self._raised: BaseException | None = None
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

    def settle(self) -> None:
        """Forget the complaints, and raise what a handler raised."""
        self.news = False
        self._complaints.clear()
        raised, self._raised = self._raised, None
        if raised is not None:
            raise raised

    def _log(self, level: int, text: str, category: str) -> None:
        if self._logger.isEnabledFor(level):
            extra = {"unit": self.name, "time": self.clock.value, "category": category}
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
def listen() -> None:
    """From now on the core hands messages on to Python."""
    from upbeat import _native

    _native.set_fmi2_log_sink(_deliver)


def why(complaints: Sequence[str]) -> str:
    """What an FMU said about a call that failed, to go on with after the name of the call."""
    if said := joined(complaints):
        return f": {said}"
    return ", and the FMU does not say why (its full log may: logging = true)"


def joined(complaints: Sequence[str]) -> str:
    """As one text, not too long."""
    text = "; ".join(complaints)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}… (the rest is in the log)"
