"""The plan of an experiment: everything that is decided before the first step, made once and kept.

Reading, closing, flattening, choosing and writing the program happen here and nowhere else. Whoever looks at
an experiment (check, explain, stability, schedule, export) or runs it, however often, shares one plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from upbeat.core.names import bare, resolve, split
from upbeat.core.ports import Causality, Port
from upbeat.core.time import Span
from upbeat.engine.changes import measured_changes, wants_changes, with_changes
from upbeat.engine.nesting.flatten import Note, flattened
from upbeat.master.handling import calm
from upbeat.master.master import Master
from upbeat.master.paces.pace import Pace, usual_step
from upbeat.master.program import Program
from upbeat.scenario.merging.inline import path_of
from upbeat.scenario.scenario import Scenario


@dataclass(frozen=True)
class Plan:
    """What runs. Which engine runs it is not a part of it: it is the same for all of them.

    `scenario` has the units that run: nothing is left open, nested scenarios are flattened where that means
    the same (`nested` says what became of each), and units have the outputs that the master asks for. In
    `master` nothing is left to be chosen. `pace` is its pace, which knows the registers of the `program`.
    """

    scenario: Scenario
    master: Master
    nested: tuple[Note, ...]
    program: Program
    pace: Pace

    @classmethod
    def of(cls, closed: Scenario, master: Master, span: Span) -> Plan:
        """The plan for a closed scenario. `MasterError` if the master does not fit it."""
        flat = flattened(closed, master, span)
        if wants_changes(flat.master):
            flat = with_changes(flat, measured_changes(flat, span))
        return cls(*flat, *flat.master.written(flat.scenario))

    def with_values(self, values: Mapping[str, Any], before: Scenario, after: Scenario) -> Plan | None:
        """The plan with other parameters and start values of states, none of which the program knows.

        `before` and `after` are the scenarios without and with them, as they were written.

        None where one of them may be written into the program (start values of inputs, parameters that
        conditions of events read), or is inside a scenario that stays nested, or where inputs that were
        chosen automatically may not be the right ones any more: then plan again.
        """
        units = {path_of(self.scenario, name): name for name in self.scenario.units}
        changed = dict(self.scenario.units)
        for key, value in values.items():
            path, name = _unit_of(bare(key), units)
            unit = units.get(path)
            ports = () if unit is None else {port.name for port in changed[unit].ports}
            if unit is None or self.scenario.why_written(unit, resolve(name, ports)[0]):
                return None
            if self.scenario.units[unit] is before.units.get(path):
                changed[unit] = after.units[path]
            else:
                changed[unit] = changed[unit].with_values({name: value})
        for unit, model in self.scenario.units.items():
            if changed[unit] is not model and not _same(model.ports, changed[unit].ports):
                return None
        made = self.scenario.with_units(changed)
        chosen = (
            self.master.ports if self.master.why else {}
        )  # what inputs do follows from the equations, too
        if chosen and (self.master.warnings or not calm(made, chosen, usual_step(self.master.pace))):
            return None
        return replace(self, scenario=made)


def _unit_of(key: str, units: Mapping[str, str]) -> tuple[str, str]:
    """The path of a unit and the name of something in it."""
    path, name = split(key)
    while path not in units and name:
        more, name = split(name)
        path = f"{path}.{more}"
    return path, name


def _same(before: Sequence[Port], after: Sequence[Port]) -> bool:
    """Whether a program that knows the one knows the other. Of a parameter it does not know the value."""
    return len(before) == len(after) and all(
        one == other or (one.causality is Causality.PARAMETER and one == replace(other, start=one.start))
        for one, other in zip(before, after, strict=True)
    )
