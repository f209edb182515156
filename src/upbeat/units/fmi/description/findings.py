"""What is wrong with a description, collected: errors, raised together, and tolerated sloppiness."""

from __future__ import annotations

from collections.abc import Sequence

from upbeat.core.errors import ModelError
from upbeat.units.fmi.description.model import Note

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
