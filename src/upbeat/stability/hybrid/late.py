"""How late switches may come."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from upbeat.core.abilities import Model
from upbeat.core.errors import InvalidInput, check_type, renamed
from upbeat.engine.experiment import Experiment
from upbeat.master.paces.pace import lateness
from upbeat.scenario.scenario import Scenario
from upbeat.stability.hybrid.bimodal import (
    FINE,
    PURPOSE,
    Bimodal,
    Field,
    NotBimodal,
    Vector,
    planar,
    reach_of,
)
from upbeat.trace.extras import need
from upbeat.units.equations.data import Equations
from upbeat.units.process import bare

# ----------------------------------------------------------------------------------------------------
# How late a planar system of two modes may switch and still come to rest.

PATTERNS = ((0.0, 1.0), (1.0, 0.0), (1.0, 1.0))
"""Which of the two switches are late: into the inner mode, out of it, or both.

A delay either makes the next orbit larger or smaller, so the least delay that closes an orbit is one of
these: those that make it larger at their most, the others at none.
"""
COARSE = 1e-7
"""The relative accuracy of the first look."""
LOOKS = 24
"""Orbits of the first look."""
WORK = 8_000
"""How often fields may be evaluated for each look, on the average: about twice what orbits mostly take."""


@dataclass(frozen=True)
class LargestDelay:
    """With every delay below `delay` the system comes to rest; with it there is a closed orbit through `x`.

    `out` and `into` are the delays of that orbit's two switches. `edge`: the least delay was found at the end
    of the distances that were searched, so a wider search may find a smaller one.
    """

    delay: float
    x: tuple[float, float]
    distance: float
    out: float
    into: float
    edge: bool


@renamed
def largest_delay(
    system: Bimodal | Scenario | Experiment,
    *,
    within: tuple[float, float] | None = None,
    max_delay: float | None = None,
    looks: int = LOOKS,
) -> LargestDelay | None:
    """The smallest delay, up to `max_delay`, with a closed orbit, at a distance `within` these two.

        up.largest_delay(up.load("ball.toml"))

    None: there is none. Orbits cross the section at one of these distances from rest, and the minimum over
    them is looked for on a grid of so many `looks` (in equal ratios) and then closely. A scenario must be a
    system of two modes in the plane, which its equations say (`InvalidInput` if they say something else);
    then distances and delays to look at follow from these, unless given. Orbits that take very long to follow
    (a field that is much faster than the orbit is, for instance) end the search with `InvalidInput`.
    """
    check_type(system, (Bimodal, Scenario, Experiment), "system")
    optimize = need("scipy.optimize", "stability", PURPOSE)
    if not isinstance(system, Bimodal):
        found = planar(system.scenario if isinstance(system, Experiment) else system)
        if within is None or max_delay is None:
            reach = reach_of(_bounded(found, looks))
            if reach is None:
                return None  # no orbit leaves the inner mode, whatever its size
            within, max_delay = within or reach.within, max_delay or reach.max_delay
        return largest_delay(found, within=within, max_delay=max_delay, looks=2 * looks)
    if within is None or max_delay is None:
        raise InvalidInput("say where to look: within=(0.001, 0.1), max_delay=0.01")
    low, high = within
    if not 0.0 < low < high or not max_delay > 0.0:
        raise InvalidInput(
            f"distances and delays are positive and in order, not within={within!r} and "
            f"max_delay={max_delay!r}"
        )
    system = _bounded(system, looks)
    grid = np.geomspace(low, high, looks)
    best, k, pattern = float("inf"), 0, PATTERNS[0]
    for late in PATTERNS:
        for place, distance in enumerate(grid):
            # Who needs a longer delay than one that is known already is not asked how long.
            bound = min(max_delay, best)
            closes = _closing(
                system, float(distance), bound, late, COARSE, tries=8 if bound == max_delay else 2
            )
            if closes < best:
                best, k, pattern = closes, place, late
    if not np.isfinite(best):
        return None
    closing = partial(_closing, system, max_delay=max_delay, pattern=pattern, accuracy=FINE)
    ends = float(grid[max(k - 1, 0)]), float(grid[min(k + 1, looks - 1)])
    found = optimize.minimize_scalar(
        closing, bounds=ends, method="bounded", options={"xatol": 1e-6 * ends[1]}
    )
    distance = _flat(closing, float(found.x), 0.1 * (ends[1] - ends[0]), ends)
    delay = min(closing(distance), float(found.fun))
    x = system.point(distance)
    edge = min(distance - low, high - distance) < 1e-3 * (ends[1] - ends[0])
    return LargestDelay(
        delay, (float(x[0]), float(x[1])), distance, delay * pattern[0], delay * pattern[1], edge
    )


def _bounded(system: Bimodal, looks: int) -> Bimodal:
    """The same system, for so many looks: what takes much longer than these mostly do is given up."""
    left = allowed = WORK * looks

    def counted(field: Field) -> Field:
        def counting(x: Vector) -> Sequence[float]:
            nonlocal left
            left -= 1
            if left < 0:
                raise InvalidInput(
                    f"after {allowed:,} evaluations of its equations orbits were not followed to their ends, "
                    "and the search was given up"
                )
            return field(x)

        return counting

    return replace(system, inside=counted(system.inside), outside=counted(system.outside))


def _closing(
    system: Bimodal,
    distance: float,
    max_delay: float,
    pattern: tuple[float, float],
    accuracy: float,
    tries: int = 8,
) -> float:
    """The least delay that closes the orbit through a point of the section; infinity if there is none.

    It is looked for between neighbours of so many `tries` up to `max_delay`.
    """
    optimize = need("scipy.optimize", "stability", PURPOSE)
    out, into = pattern
    far = system.leave(distance, 0.0, accuracy)
    if far is None:
        return float("inf")

    def wider(late: float) -> float:
        end = far if out == 0.0 else system.leave(distance, late, accuracy)
        if end is None:
            return -distance
        crossed = system.back(end, into * late, accuracy)
        return float("nan") if crossed is None else crossed - distance

    before, steps = 0.0, max_delay * np.linspace(0.0, 1.0, tries + 1)[1:] ** 2
    for late in steps:
        change = wider(float(late))
        if change >= 0.0:
            return float(optimize.brentq(wider, before, late, xtol=1e-3 * accuracy * late, rtol=8.9e-16))
        if change != change:  # nothing is known of delays that are so long
            break
        before = float(late)
    return float("inf")


def _flat(closing: Callable[[float], float], at: float, half: float, ends: tuple[float, float]) -> float:
    """The minimum of a smooth function near `at`, as the zero of the derivative of a polynomial through it:
    where the function is flat, its values say little."""
    low, high = max(at - half, ends[0]), min(at + half, ends[1])
    nodes: Any = 0.5 * (low + high) + 0.5 * (high - low) * np.cos(np.pi * (np.arange(9) + 0.5) / 9)
    fit = np.polynomial.Chebyshev.fit(nodes, [closing(float(d)) for d in nodes], 8, domain=[low, high])
    roots: Any = fit.deriv().roots()
    real = [float(r.real) for r in roots if abs(r.imag) < 1e-6 * half and low < r.real < high]
    return min(real, key=lambda r: abs(r - at), default=at)


# ----------------------------------------------------------------------------------------------------
# How late the switches of an experiment may come, and how late they do come with its master.

SAFE = 0.99
"""The part of the largest delay that is recommended."""


@dataclass(frozen=True)
class LateSwitches:
    """What is known of a system that switches between two modes.

    `largest`: with every delay below it the system comes to rest; None if no delay that was looked at keeps
    it from that, or if `why` says why nothing is known. `here`: how late a switch comes at most with the
    master of the experiment; None if not known. `inside`: the unit that locates its switches by itself.
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
        equations = getattr(model, "equations", None)
        if equations is not None:
            yield equations


def _events(model: Model) -> bool:
    equations = getattr(bare(model), "equations", None)
    return any(port.event for port in model.ports) or bool(getattr(equations, "events", ()))


def _lateness(experiment: Experiment) -> float | None:
    """How long after a switch the units may communicate next."""
    return lateness(experiment.plan.pace)
