"""Solvers that take turns: an input of a unit says with which of them it goes on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from upbeat.core.errors import ModelError
from upbeat.units.solving.solvers import RK4, Euler, Midpoint, Solver, SolverError, solver_spec

Plain = Euler | Midpoint | RK4
"""Solvers with equal steps: they remember nothing, so that any can go on where another stopped."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Solvers besides a unit's own, and the integer input `by` that chooses: 0 its own, 1 the first other."""

    by: str
    others: tuple[Plain, ...]

    def count(self) -> int:
        """How many there are to choose from, the unit's own included."""
        return 1 + len(self.others)

    def to_spec(self) -> dict[str, Any]:
        """The plain table that `choice_from` reads back."""
        return {"by": self.by, "others": [solver_spec(other) for other in self.others]}

    def place(self, wanted: Any) -> int:
        """The place of the solver that the input asks for."""
        if not 0 <= wanted < self.count():
            raise SolverError(f"there is no solver {int(wanted)}: it has {self.count()}, counted from 0")
        return int(wanted)


def plain_solvers(given: Iterable[Solver]) -> tuple[Plain, ...]:
    """These solvers, if a unit can change between them."""
    solvers = tuple(given)
    for solver in solvers:
        if not isinstance(solver, Plain):
            raise ModelError(
                f"solver {solver.method} cannot take turns with others: it remembers the steps it has made, "
                "and another one would go on without them. Choose among euler, midpoint and rk4."
            )
    return solvers  # type: ignore[return-value]
