"""How close to an event is close enough, where nobody has said: as close as the units' solvers can tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from upbeat.core.abilities import Model
from upbeat.units.equations.ode import Function
from upbeat.units.process import bare
from upbeat.units.solving.solvers import RK4, Cvode, DormandPrince, Euler, Midpoint

PART = 1e-5
"""Of a step: closer is of no use, for inputs are not known as well as that between communication points."""
MOST = 1e-2
"""Of a step: no solver is as bad as that, whatever tolerance it was given."""
_OWN: dict[type, float] = {Euler: 1e-3, Midpoint: 1e-4, RK4: 1e-5}
"""Of a step of a solver that takes all of them alike: about what an order of convergence more is worth."""


GRAINS = 4.0
"""So many times what numbers of the size of the time can tell apart: late in a run, nothing is closer."""


class Margin(NamedTuple):
    """How close, in seconds, and why."""

    length: float
    why: str


def margin(units: Mapping[str, Model], step: float, called: Callable[[str], str] = str) -> Margin:
    """What is close enough to an event in steps of this size; `called` says what people call a unit."""
    found = Margin(PART * step, f"{PART:g} of a step, and no unit's solver is known to be less exact")
    for unit, model in units.items():
        inner = bare(model)
        solver = None if isinstance(inner, Function) else getattr(inner, "solver", None)
        length, why = 0.0, ""
        if isinstance(solver, (DormandPrince, Cvode)):
            length = min(solver.rtol, MOST) * step
            why = (
                f"the solver of {called(unit)} is exact to {solver.rtol:g} only, so it is that part of a step"
            )
        elif isinstance(solver, (Euler, Midpoint, RK4)):
            own = step / solver.count(step)
            length = _OWN[type(solver)] * own
            why = f"{called(unit)} takes steps of {own:.3g} s by {solver.method}, and knows no better"
        if length > found.length:
            found = Margin(length, why)
    return found
