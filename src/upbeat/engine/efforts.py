"""How hard the solvers of a run have worked, as its trace tells it."""

from __future__ import annotations

from collections.abc import Mapping

from upbeat.engine.machine import Machine
from upbeat.scenario.merging.inline import path_of
from upbeat.scenario.scenario import Scenario

Told = dict[str, dict[str, int]]
"""By unit, as people call it, and by what is counted."""


def told(machine: Machine, scenario: Scenario, before: Mapping[str, Mapping[str, int]]) -> Told:
    """What the units of a machine say, and what was counted `before`, if the run is resumed."""
    found = {path_of(scenario, unit): effort.to_data() for unit, effort in machine.efforts().items()}
    return {
        unit: {name: count + before.get(unit, {}).get(name, 0) for name, count in counts.items()}
        for unit, counts in found.items()
    }
