"""What `reproduce/engine.py` had to show: goals by key, and the misses that are known, with their reasons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

STEPS = (100, 250, 500)
"""Communication steps of the paper, microseconds."""
SIZES = {"states": 118, "indicators": 312, "inputs": 91, "outputs": 98}
PAPER_TORQUE = {100: (2.95, 4.38, 0.68), 250: (9.12, 9.33, 1.10), 500: (19.83, 19.19, 1.37)}
PAPER_PRESSURE = {100: (0.61, 0.63, 0.50), 250: (1.20, 1.11, 0.88), 500: (1.80, 1.75, 1.23)}
PAPER_SPEEDUP = {"sv": 7.82, "ev": 8.84, "refined": 10.87}
"""Tables 2, 3 and 4: percent for "sv", "ev" and "refined", and on five cores at 250 µs."""
MOST = 1.4
"""Percent of error in the torque of "refined" at 500 µs."""
KNOWN_MISSES = {
    "pressure_best": (
        "The flow through an open valve depends on a small difference of two pressures. Refined pairs the "
        "new pressure of the manifold with the old one of the cylinder; with ev both are old, and fit "
        "together."
    ),
    "two_cores": (
        "The bound comes from mean times; how long a cylinder takes varies with its events, so one core "
        "waits, and a hundred values change caches in every step."
    ),
    "five_cores": (
        "The paper's multistep solver restarts at every event, so there the split alone gains much. The "
        "Runge-Kutta solver here loses only the rest of a step."
    ),
}
"""By key of the goal: why it is not reached."""


@dataclass(frozen=True)
class Goal:
    """One thing that had to come out. `timed`: it says something only where nothing else is running."""

    key: str
    text: str
    met: bool
    timed: bool = False

    @property
    def known(self) -> bool:
        """Whether it is missed, for a reason that is known."""
        return not self.met and self.key in KNOWN_MISSES


Table = Mapping[str, Mapping[str, tuple[float, float]]]
"""By method and step: percent as mean over mean, and by formula (6)."""


def goals_of_errors(torque: Table, pressure: Table, size: Mapping[str, int]) -> list[Goal]:
    """What does not depend on how busy the machine is."""
    steps = [str(step) for step in STEPS]
    ratio = min(torque[m][s][0] / torque["refined"][s][0] for m in ("sv", "ev") for s in steps)
    published = all(pressure["refined"][str(s)][0] <= PAPER_PRESSURE[s][2] for s in STEPS)
    best = all(pressure["refined"][s][0] <= min(pressure[m][s][0] for m in ("sv", "ev")) for s in steps)
    mean, six = torque["refined"]["500"]
    return [
        Goal("torque", f"torque of refined at 500 µs within {MOST} %", mean <= MOST),
        Goal("torque_by_formula_6", f"the same within {MOST} % by formula (6)", six <= MOST),
        Goal(
            "torque_ratio", "torque of refined at least 10 times better than that of sv and ev", ratio >= 10
        ),
        Goal("pressure_published", "pressure of refined as good as published", published),
        Goal("pressure_best", "pressure of refined at least as good as that of sv and ev", best),
        Goal("size", "as large as published", dict(size) == SIZES),
    ]


def goals_of_speed(speed: Mapping[str, Any]) -> list[Goal]:
    """What should come out on a machine that does nothing else; two cores only where there are two."""
    refined = speed["refined"]
    goals = [
        Goal("refined_as_fast", "refined at least as fast as ev", refined["1"] >= speed["ev"]["1"], True),
        Goal(
            "ev_as_fast",
            "ev about as fast as sv, or faster",
            speed["ev"]["1"] >= 0.95 * speed["sv"]["1"],
            True,
        ),
    ]
    if "2" in refined:
        met = refined["2"] >= promised(refined)
        goals.append(Goal("two_cores", "two cores: 0.9 of what the schedule promises", met, True))
    met = refined["5_predicted"] > PAPER_SPEEDUP["refined"]
    return [*goals, Goal("five_cores", "five cores, predicted: faster than published", met, True)]


def promised(entry: Mapping[str, Any]) -> float:
    """0.9 of the gain on one core times what the schedule allows two."""
    return float(0.9 * entry["1"] * entry["bound"]["2"])


def reached(goals: Iterable[Goal], quiet: bool) -> bool:
    """Whether all are met but the known misses, and those of time where the machine was busy."""
    return all(goal.met or goal.known or (goal.timed and not quiet) for goal in goals)
