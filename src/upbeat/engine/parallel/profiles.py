"""Profiles: how long the operations of a program take on this machine, kept beside the scenario file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upbeat.core.atomic import is_file, replace_file
from upbeat.core.errors import FileProblem
from upbeat.engine.parallel.operations import Operation
from upbeat.trace.files.output import kept_from

FORMAT = 2
LEAST = 1e-9
"""What an operation takes at least, in seconds: below that is the noise of the clock."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Seconds by operation, for each block of the program's steps that was run."""

    blocks: Mapping[str, Mapping[str, float]]
    steps: int
    engine: str
    instants: float = 0.0
    """Seconds per step for what happens at instants."""
    crossing: float | None = None
    """Seconds that a wait of one core for another costs; None where there are no threads to measure it."""
    source: str = "measured just now"
    """Where the times come from, for people."""
    problem: str = ""
    """Why there are no times, where a file should have had some."""

    def covers(self, block: str, found: Sequence[Operation]) -> bool:
        """Whether these are the operations that were measured: the scenario may have changed since."""
        return set(self.blocks.get(block, ())) == {operation.name for operation in found}

    def to_data(self) -> dict[str, Any]:
        """As it is written to a file: microseconds, which people can read."""
        blocks = {
            name: {operation: _us(seconds) for operation, seconds in times.items()}
            for name, times in self.blocks.items()
        }
        return {
            "format": FORMAT,
            "engine": self.engine,
            "steps": self.steps,
            "microseconds": blocks,
            "instants_us": _us(self.instants),
            "crossing_us": None if self.crossing is None else _us(self.crossing),
        }


def _us(seconds: float) -> float:
    return round(1e6 * seconds, 4)


def place(file: Path) -> Path:
    """Where the profile of a scenario file is kept."""
    return file.with_name(f"{file.stem}.profile.json")


def written(profile: Profile, file: Path, *, force: bool = False) -> Path:
    """Keep a profile beside the scenario file; returns where."""
    to = place(file)
    kept_from(to, _is_profile, "a profile", force=force)
    replace_file(to, (json.dumps(profile.to_data(), indent=1, ensure_ascii=False) + "\n").encode())
    return to


def _is_profile(path: Path) -> bool:
    data = json.loads(path.read_text(encoding="utf-8"))
    return isinstance(data, dict) and "microseconds" in data


def usable(file: Path) -> Profile | None:
    """As `recalled`; one that cannot be read is one without times, which says why: a run does without."""
    try:
        return recalled(file)
    except FileProblem as problem:
        return Profile({}, 0, "none", problem=str(problem))


def recalled(file: Path) -> Profile | None:
    """The profile beside a scenario file, if there is one. One that cannot be read is an error."""
    path = place(file)
    if not is_file(path):
        return None
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["format"] != FORMAT:
            raise ValueError(f"it has format {data['format']}, and this version of Upbeat writes {FORMAT}")
        blocks = {
            str(name): {str(op): max(LEAST, 1e-6 * float(us)) for op, us in times.items()}
            for name, times in data["microseconds"].items()
        }
        crossing = data["crossing_us"]
        return Profile(
            blocks,
            int(data["steps"]),
            str(data["engine"]),
            1e-6 * float(data["instants_us"]),
            None if crossing is None else 1e-6 * float(crossing),
            f"times from {path}",
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as reason:
        raise FileProblem(
            f"'{path}' is no profile ({reason}). Measure again: upbeat profile {file}, or delete it."
        ) from None
