"""How hard a solver has worked, in numbers: to see what makes a unit slow."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Protocol, runtime_checkable


@dataclass(slots=True)
class Effort:
    """Since a unit was made: a step that is done again after a rollback counts again.

    * `steps` that stand;
    * `rejected` ones, made again with a shorter length, because their error was too large;
    * `stops`: steps that ended early, where an event indicator changed its sign or an FMU asked for an event;
    * `evaluations` of the derivatives.
    """

    steps: int = 0
    rejected: int = 0
    stops: int = 0
    evaluations: int = 0

    def __add__(self, other: Effort) -> Effort:
        """That of two solvers of one unit."""
        return Effort(
            self.steps + other.steps,
            self.rejected + other.rejected,
            self.stops + other.stops,
            self.evaluations + other.evaluations,
        )

    def to_data(self) -> dict[str, int]:
        """By name, for `trace.info`."""
        return asdict(self)


@runtime_checkable
class Worked(Protocol):
    """A unit that tells how hard its solver has worked; None if it has none that counts."""

    @property
    def effort(self) -> Effort | None: ...
