"""What is wrong with an SSP, or not supported, collected with file and line."""

from __future__ import annotations

from upbeat.core.errors import Problem, ScenarioError
from upbeat.units.fmi.description.attributes import Findings as Notes

_SHOWN = 200


class Findings(Notes):
    """Errors: what would make results wrong. Warnings: what does no harm, or is left out on purpose."""

    def __init__(self, source: str) -> None:
        super().__init__(source)
        self.problems: list[Problem] = []
        self.remarks: list[str] = []
        self._open: list[str] = [source]

    def within(self, file: str) -> Findings:
        """The same collection, for another file of the SSP."""
        other = Findings(self.source)
        other.problems, other.remarks, other._open = self.problems, self.remarks, [file]
        return other

    @property
    def file(self) -> str:
        """The file that is being looked at."""
        return self._open[0]

    def error(self, line: int, where: str, what: str, hint: str = "") -> None:
        place = (self.file, where) if where else (self.file,)
        self.problems.append(Problem(place, what, hint, line or None))

    def warning(self, line: int, where: str, what: str) -> None:
        at = f", line {line}" if line else ""
        self.remarks.append(f"{self.file}{at}: {f'{where}: ' if where else ''}{what}")

    def raise_if_any(self) -> None:
        """Raise a `ScenarioError` with all problems, if there are any."""
        if self.problems:
            raise ScenarioError(self.problems[:_SHOWN], self.source)
