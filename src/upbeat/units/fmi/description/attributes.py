"""Attributes of XML elements as values, and what is odd or wrong about them."""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Sequence
from typing import TypeVar

from upbeat.core.errors import ModelError, suggest
from upbeat.units.fmi.description.model import Note
from upbeat.units.fmi.xml import Element

# -- what is wrong with a description, collected: errors, raised together, and tolerated sloppiness ------


_SHOWN = 20
_KEPT = 500


class Findings:
    """Collects errors and warnings with their lines.

    Real tools bend the standards everywhere. What leaves no doubt about the meaning is a warning. What is
    against the standard but does no harm to a run is a violation: `check` refuses it, a run only tells it.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self.errors: list[Note] = []
        self.violations: list[Note] = []
        self._warnings: list[Note] = []
        self._more = 0

    def error(self, line: int, where: str, what: str) -> None:
        self.errors.append(Note(line, where, what))

    def violation(self, line: int, where: str, what: str) -> None:
        self.violations.append(Note(line, where, what))

    def warning(self, line: int, where: str, what: str) -> None:
        # A generator that errs does so for each of its thousand variables.
        if len(self._warnings) < _KEPT:
            self._warnings.append(Note(line, where, what))
        else:
            self._more += 1

    @property
    def warnings(self) -> Sequence[Note]:
        """All warnings, or the first ones and how many there are beyond."""
        if not self._more:
            return self._warnings
        return [*self._warnings, Note(0, "", f"… and {self._more:,} warnings more")]

    def raise_if_any(self) -> None:
        """Raise a `ModelError` with all errors, if there are any."""
        if not self.errors:
            return
        count = f"{len(self.errors):,} problem{'s' if len(self.errors) > 1 else ''}"
        lines = [f"{self.source}: {count}", *(f"  • {note}" for note in self.errors[:_SHOWN])]
        if len(self.errors) > _SHOWN:
            lines.append(f"  … and {len(self.errors) - _SHOWN:,} more")
        raise ModelError(
            "\n".join(lines), [(note.where, f"line {note.line}: {note.what}") for note in self.errors]
        )


def shown(text: str, width: int = 60) -> str:
    """A text from the file, fit for a message."""
    printable = "".join(character if character.isprintable() else "�" for character in text)
    return printable if len(printable) <= width else f"{printable[:width]}…"


# -- reading the attributes of one element as numbers, flags and words, with every slip reported ---------


E = TypeVar("E", bound=enum.Enum)

_REAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_WHOLE = re.compile(r"[+-]?\d{1,25}", re.ASCII)
_SPECIAL = {"INF": math.inf, "+INF": math.inf, "-INF": -math.inf, "NAN": math.nan}
_FLAGS = {"true": True, "1": True, "false": False, "0": False}

UINT32 = (0, 2**32 - 1)
UINT64 = (0, 2**64 - 1)


def real(text: str) -> float:
    """A real number as XML writes it; ValueError if it is none. Python's own `1_0` is none."""
    text = text.strip()
    if _REAL.fullmatch(text):
        return float(text)
    if text.upper() in _SPECIAL:
        return _SPECIAL[text.upper()]
    raise ValueError(f"'{shown(text)}' is not a number")


def whole(text: str, low: int, high: int) -> int:
    """An integer within bounds; ValueError if it is none."""
    text = text.strip()
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"'{shown(text)}' is not an integer")
    if not low <= int(text) <= high:
        raise ValueError(f"{text} is not between {low} and {high}")
    return int(text)


def flag(text: str) -> bool:
    """true, false, 1 or 0; ValueError for anything else."""
    try:
        return _FLAGS[text.strip()]
    except KeyError:
        raise ValueError(f"'{shown(text)}' is neither true nor false") from None


class Attributes:
    """The attributes of `element`. What cannot be read is an error and counts as absent."""

    def __init__(self, element: Element, findings: Findings, where: str) -> None:
        self.element = element
        self.findings = findings
        self.where = where

    def error(self, what: str) -> None:
        self.findings.error(self.element.line, self.where, what)

    def violation(self, what: str) -> None:
        self.findings.violation(self.element.line, self.where, what)

    def warning(self, what: str) -> None:
        self.findings.warning(self.element.line, self.where, what)

    def has(self, name: str) -> bool:
        return name in self.element.attributes

    def text(self, name: str) -> str | None:
        return self.element.attributes.get(name)

    def required(self, name: str) -> str:
        text = self.text(name)
        if text is None:
            self.error(f"the attribute '{name}' is missing")
        return text or ""

    def real(self, name: str, *, finite: bool = True) -> float | None:
        text = self.text(name)
        if text is None:
            return None
        try:
            number = real(text)
            if finite and not math.isfinite(number):
                raise ValueError(f"'{shown(text)}' is not a finite number")
            return number
        except ValueError as error:
            self.error(f"{name}: {error}")
            return None

    def whole(self, name: str, bounds: tuple[int, int] = UINT32) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        try:
            return whole(text, *bounds)
        except ValueError as error:
            self.error(f"{name}: {error}")
            return None

    def wholes(self, name: str, bounds: tuple[int, int] = UINT32) -> list[int] | None:
        """A list of integers between blanks; None if the attribute is absent."""
        text = self.text(name)
        if text is None:
            return None
        found = []
        for part in text.split():
            try:
                found.append(whole(part, *bounds))
            except ValueError as error:
                self.error(f"{name}: {error}")
        return found

    def flag(self, name: str, default: bool = False) -> bool:
        text = self.text(name)
        if text is None:
            return default
        try:
            return flag(text)
        except ValueError as error:
            if text.strip().lower() in ("true", "false"):
                self.warning(f"{name}: '{text}' should be written in small letters")
                return text.strip().lower() == "true"
            self.error(f"{name}: {error}")
            return default

    def choice(self, name: str, words: type[E]) -> E | None:
        text = self.text(name)
        if text is None:
            return None
        known = {word.value: word for word in words}
        if text.strip() in known:
            return known[text.strip()]
        self.error(f"{name}: '{shown(text)}' is unknown. {suggest(text[:60], known, 'words')}")
        return None
