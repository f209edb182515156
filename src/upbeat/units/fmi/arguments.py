"""Arguments of `Fmu`: what they may be."""

from __future__ import annotations

from typing import Any

from upbeat.core.errors import ModelError, suggest
from upbeat.units.fmi.description import CoSimulation, Interface, ModelDescription
from upbeat.units.solving.solvers import Cvode, DormandPrince, Solver, solver_from


def solver_for(given: Any, interface: Interface, tolerance: float | None) -> Solver | None:
    """The solver, if one was asked for and the FMU can use it; a tolerance is for those that keep one."""
    if given is None:
        return None
    if isinstance(interface, CoSimulation):
        what = "an FMU for co-simulation brings its own solver: leave it out, or ask for interface = "
        raise wrong("solver", f'{what}"model-exchange"')
    solver = solver_from(given)
    if tolerance is not None and not isinstance(solver, (DormandPrince, Cvode)):
        raise wrong(
            "tolerance",
            f"the solver {solver.method} takes steps of one size whatever they cost: leave the tolerance "
            "out, or take a solver that keeps it (dormand_prince, cvode)",
        )
    return solver


def checked_tolerance(given: object) -> float | None:
    """A tolerance that there can be."""
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not 0 < given < float("inf"):
        raise wrong("tolerance", f"a tolerance is a positive number, not {given!r}")
    return float(given)


def categories(description: ModelDescription, wanted: object) -> bool | tuple[str, ...]:
    """Categories of messages that there are, if the FMU says which; or all, or none in particular."""
    if isinstance(wanted, bool):
        return wanted
    found, known = texts("logging", wanted), [name for name, _ in description.log_categories]
    for name in found if known else ():
        if name not in known:
            what = f"the FMU has no messages of category {name!r}. {suggest(name, known, 'categories')}"
            raise wrong("logging", what)
    return found


def texts(name: str, given: object) -> tuple[str, ...]:
    """A list of texts, for the argument of this name."""
    if isinstance(given, (list, tuple)) and all(isinstance(item, str) for item in given):
        return tuple(given)
    raise wrong(name, f'{name} is a list of texts, such as ["x", "body.*"], not {given!r}')


def wrong(where: str, what: str) -> ModelError:
    """An error that knows which argument is to blame."""
    return ModelError(what, [(where, what)])
