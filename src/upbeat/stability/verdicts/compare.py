"""Other couplings, orders and input approximations for the same scenario: what each would allow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Unpack

from upbeat.core.errors import InvalidInput, RunError
from upbeat.engine.experiment import Experiment
from upbeat.engine.settings import Settings
from upbeat.master.couplings.coupling import Coupling, GaussSeidel, Jacobi, Sequential, labelled
from upbeat.master.couplings.iterated import Iterated
from upbeat.master.inputs.approximation import Approximation, Hold, Linear
from upbeat.master.master import Master
from upbeat.scenario.graph import unit_order
from upbeat.scenario.scenario import Scenario
from upbeat.stability.budget import Budget
from upbeat.stability.linear.induced import At, experiment_of, step_of
from upbeat.stability.verdicts.judge import SECONDS, Stability, stability_of

MIN_SHARE = 0.01
"""Of the budget, for each of those that come after it is spent."""
ORDERS = 6
"""All orders of the units are tried if there are not more of them than this."""


@dataclass(frozen=True)
class Alternative:
    """A master for the same scenario, and the verdict on it. `present`: the one that was given."""

    label: str
    master: Master
    result: Stability
    present: bool = False
    order: tuple[str, ...] = ()
    """In which the units go, where they go one after the other."""

    def swap(self, other: Alternative) -> tuple[str, str] | None:
        """The two units that change places between this one and another, if that is all that differs."""
        if self.master.inputs != other.master.inputs or len(self.order) != len(other.order):
            return None
        moved = [unit for unit, there in zip(self.order, other.order, strict=True) if unit != there]
        return (moved[0], moved[1]) if len(moved) == 2 else None


def compare_couplings(
    given: Scenario | Experiment,
    *,
    step: float | None = None,
    at: At = "start",
    ideal: bool = False,
    scan: bool | tuple[float, float] | None = None,
    seconds: float = SECONDS,
    **settings: Unpack[Settings],
) -> tuple[Alternative, ...]:
    """The verdicts on the given master and on others for the same scenario; arguments as of `stability_of`.

    Jacobi and Gauss-Seidel in all orders of up to three units (else the one there is and its reverse), with
    inputs held and linear, and two corrections of each step. The given one comes first, then those that
    allow the largest steps. Couplings that the scenario does not fit are left out. All searches for stable
    steps share the `seconds`.
    """
    made = experiment_of(given, settings, step)
    size = step_of(made, step)
    found: list[Alternative] = []
    budget, all_of_them = Budget(seconds), list(candidates(made))
    for number, (label, master) in enumerate(all_of_them):
        present = master == made.master
        share = max(budget.left, MIN_SHARE * seconds) / (len(all_of_them) - number)
        try:
            result = stability_of(
                made.with_(master=master), step=size, at=at, ideal=ideal, scan=scan, seconds=share
            )
        except (InvalidInput, RunError):
            if present:
                raise
            continue
        found.append(
            Alternative(label, master, result, present, _order(master.settled(made.scenario).coupled, made))
        )
    return tuple(sorted(found, key=_rank))


def _order(coupling: Coupling, made: Experiment) -> tuple[str, ...]:
    """The units as they go one after the other; none, if they go side by side."""
    if not isinstance(coupling, Sequential) or not coupling.in_turn:
        return ()
    closed = made.scenario.closed()
    return tuple(
        u for u in getattr(coupling, "order", None) or unit_order(closed) if u not in closed.added_units
    )


def _rank(one: Alternative) -> tuple[bool, float, float, float]:
    result = one.result
    reach = 0.0 if result.steps is None else result.steps.not_unstable or 0.0
    return not one.present, -(result.largest_stable_step or 0.0), -reach, result.spectral_radius


def candidates(made: Experiment) -> Iterator[tuple[str, Master]]:
    """The given master and others, each with a name."""
    own = made.master
    seen = [own]
    runs = own.settled(made.scenario)
    yield label(runs.coupled, runs.approximated), own
    for coupling in _couplings(tuple(made.scenario.units)):
        for inputs in (Hold(), Linear()):
            master = replace(own, coupling=coupling, inputs=inputs)
            if master not in seen:
                seen.append(master)
                yield label(coupling, inputs), master


def _couplings(units: tuple[str, ...]) -> Iterator[Coupling]:
    yield Jacobi()
    all_of_them = list(permutations(units)) if len(units) <= 3 else [units, units[::-1]]
    assert len(all_of_them) <= ORDERS
    for order in all_of_them:
        yield GaussSeidel(order)
    yield Iterated(Jacobi(), corrections=2)
    yield Iterated(GaussSeidel(units), corrections=2)


def label(coupling: Coupling, inputs: Approximation) -> str:
    """A coupling in a few words."""
    return labelled(coupling, _inputs(inputs))


def _inputs(inputs: Approximation) -> str:
    order = getattr(inputs, "order", None)
    return f"{type(inputs).__name__.lower()} inputs" + ("" if order is None else f" of order {order}")
