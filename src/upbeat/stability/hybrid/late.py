"""How late the switches of an experiment may come, and how late they do come with its master."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from upbeat.core.abilities import Model
from upbeat.core.errors import InvalidInput
from upbeat.engine.experiment import Experiment
from upbeat.master.paces.lookahead import LookAhead
from upbeat.master.paces.monitored import Monitored
from upbeat.master.paces.pace import Pace, usual_step
from upbeat.master.paces.revised import Revised
from upbeat.stability.hybrid.delay import LargestDelay, largest_delay
from upbeat.stability.hybrid.modes import NotBimodal
from upbeat.units.equations.data import Equations
from upbeat.units.equations.ode import Function, Ode
from upbeat.units.process import bare

SAFE = 0.99
"""The part of the largest delay that is recommended."""


@dataclass(frozen=True)
class LateSwitches:
    """What is known of a system that switches between two modes.

    `largest`: with every delay below it the system comes to rest; None if no delay that was looked at keeps
    it from that, or if `why` says why nothing is known. `here`: how late a switch comes at most with the
    master of the experiment; None if nobody knows. `inside`: the unit that locates its switches by itself.
    """

    largest: LargestDelay | None = None
    why: str = ""
    here: float | None = None
    inside: str = ""

    @property
    def safe(self) -> float | None:
        """A step, or a tolerance of events (t_min), with which the system comes to rest."""
        return None if self.largest is None or self.largest.edge else SAFE * self.largest.delay

    def data(self) -> dict[str, Any]:
        """For JSON."""
        found = self.largest
        return {
            "largest_delay": None if found is None else found.delay,
            "orbit_through": None if found is None else list(found.x),
            "complete": found is not None and not found.edge,
            "recommended_t_min": self.safe,
            "late_here": self.here,
            "located_inside": self.inside or None,
            "why_not": self.why or None,
        }


def late_switches(experiment: Experiment) -> LateSwitches | None:
    """How late switches may be; None if nothing in the scenario switches."""
    scenario = experiment.scenario
    happens = bool(scenario.events) or any(_events(model) for model in scenario.units.values())
    equations = list(_equations(scenario.units.values()))
    if len(equations) < len(scenario.units):
        return LateSwitches(why="not all of its units are equations") if happens else None
    states = sum(len(one.start) for one in equations)
    if states != 2:
        count = "one state" if states == 1 else f"{states} states"
        why = f"it has {count}, and the theory is about two: orbits that close, in a plane"
        return LateSwitches(why=why) if happens else None
    inside = "" if scenario.events or len(scenario.units) > 1 else next(iter(scenario.units))
    try:
        with np.errstate(all="ignore"):  # what is not finite is dealt with
            found = largest_delay(scenario)
    except NotBimodal as error:
        return LateSwitches(why=str(error)) if happens else None
    except InvalidInput as error:
        return LateSwitches(why=str(error))
    except (ArithmeticError, ValueError):
        return LateSwitches(why="its orbits are so large, or so small, that they cannot be computed")
    return LateSwitches(found, here=None if inside else _lateness(experiment), inside=inside)


def _equations(models: Any) -> Iterator[Equations]:
    for model in map(bare, models):
        if isinstance(model, (Ode, Function)):
            yield model.equations


def _events(model: Model) -> bool:
    equations = getattr(bare(model), "equations", None)
    return any(port.event for port in model.ports) or bool(getattr(equations, "events", ()))


def _lateness(experiment: Experiment) -> float | None:
    """How long after a switch the units may communicate next."""
    plan = experiment.plan
    pace: Pace = plan.pace
    if isinstance(pace, LookAhead):
        return pace.tolerance
    if isinstance(pace, Revised):
        return pace.tolerance
    if isinstance(pace, Monitored):
        return pace.steps[-1]  # the usual step may be replaced by a longer one
    return usual_step(pace) or None
