"""The plan of an experiment: everything that is decided before the first step, made once and kept.

Reading, closing, flattening, choosing and writing the program happen here and nowhere else. Whoever looks at
an experiment (check, explain, stability, schedule, export) or runs it, however often, shares one plan.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from math import fsum
from typing import Any

from upbeat.core.abilities import Model
from upbeat.core.errors import RunError
from upbeat.core.names import bare, resolve, split
from upbeat.core.ports import Causality, Kind, Port
from upbeat.core.records import dataclass
from upbeat.core.time import Span
from upbeat.engine.interpret import Interpreter
from upbeat.engine.loop import Loop
from upbeat.engine.nesting.flatten import Flat, Note, flattened
from upbeat.engine.nesting.model import nested_of
from upbeat.engine.selection import select
from upbeat.master.couplings.refined import Measured, Refined
from upbeat.master.handling import calm
from upbeat.master.master import Master
from upbeat.master.paces.pace import Pace, nominal_step
from upbeat.master.port_registers import End
from upbeat.master.program import Get, Program, Reg
from upbeat.scenario.events.watcher import waits
from upbeat.scenario.merging.inline import path_of
from upbeat.scenario.scenario import Scenario
from upbeat.units.process import bare as bare_model

# ----------------------------------------------------------------------------------------------------
# How much the outputs of units change from step to step, measured in a short run before the real one.
#
# The modular method "sv" of a `Refined` coupling lets units with slow outputs go first, because a delay of
# something slow does the least harm.

STEPS = 50
"""So many steps are looked at: a fixed number, so that the order is the same every time."""


def wants_changes(master: Master) -> bool:
    """Whether the coupling of this master has to be told what it could not know."""
    coupling = master.coupled
    return isinstance(coupling, Measured) and coupling.wants_changes


def with_changes(flat: Flat, changes: Mapping[str, float]) -> Flat:
    """The same, with a coupling that knows."""
    coupling = flat.master.coupled
    assert isinstance(coupling, Measured)
    return flat._replace(master=replace(flat.master, coupling=coupling.with_changes(changes)))


def measured_changes(flat: Flat, span: Span) -> dict[str, float]:
    """For each unit, the mean over the outputs that others take (over all of them, if none is taken).

    What is not taken may be late, and what never changes would make a unit look slow that is not.
    A run that fails is looked at as far as it goes: the run itself will report it.
    """
    program, _ = replace(flat.master, coupling=Refined("ev")).written(flat.scenario)
    taken = {end for connection in flat.scenario.connections for end in connection.sources}
    cells = output_cells(program, taken)
    watched = [cell for mine in cells.values() for cell in mine]
    seen: list[list[float]] = []
    with suppress(RunError), closing(Interpreter(program, flat.scenario.units, span.start)) as machine:
        loop = Loop(machine, program, span, select(program, None), None)
        loop.begin()
        seen.append([float(machine.read(cell)) for cell in watched])
        while len(seen) <= STEPS and not loop.finished:
            loop.step()
            seen.append([float(machine.read(cell)) for cell in watched])
    rates = dict(zip(watched, relative_changes(seen, len(watched)), strict=True))
    return {unit: fsum(rates[cell] for cell in mine) / len(mine) for unit, mine in cells.items()}


def output_cells(program: Program, taken: Collection[End]) -> dict[str, list[Reg]]:
    """The cells of the numbers that each unit gives out to others; all of them, if it gives out none."""
    found: dict[str, dict[Reg, bool]] = {}
    for instruction in program.instructions():
        if not isinstance(instruction, Get):
            continue
        register = program.layout.of(instruction.to)
        if register.kind is not Kind.STRING:
            cells = range(instruction.to, register.first + register.size)
            used = (instruction.unit, instruction.port) in taken
            found.setdefault(instruction.unit, {}).update(dict.fromkeys(cells, used))
    return {
        unit: [cell for cell, used in cells.items() if used or not any(cells.values())]
        for unit, cells in found.items()
    }


def relative_changes(rows: Sequence[Sequence[float]], count: int) -> list[float]:
    """For each column the mean change from row to row, relative to the largest value in it."""
    rates = []
    for column in range(count):
        values = [row[column] for row in rows]
        moved = sum(abs(b - a) for a, b in pairwise(values))
        largest = max(map(abs, values), default=0.0)
        rates.append(moved / (len(values) - 1) / largest if largest and len(values) > 1 else 0.0)
    return rates


# ----------------------------------------------------------------------------------------------------


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
    measured: bool = False
    """Whether a run was made to find the order of units: with other values there may be another one."""

    @classmethod
    def of(cls, closed: Scenario, master: Master, span: Span) -> Plan:
        """The plan for a closed scenario. `MasterError` if the master does not fit it."""
        flat = flattened(closed, master, span)
        measured = wants_changes(flat.master)
        if measured:
            flat = with_changes(flat, measured_changes(flat, span))
        return cls(*flat, *flat.master.written(flat.scenario, span=span), measured)

    @cached_property
    def _by_path(self) -> dict[str, str]:
        """The units by what people call them."""
        paths = {name: path_of(self.scenario, name) for name in self.scenario.units}
        # A unit that holds the open inputs of a nest has the path of that, which is no unit any more.
        gone = {path[:k] for path in paths.values() for k, sign in enumerate(path) if sign == "."}
        return {path: name for name, path in paths.items() if path not in gone}

    def with_values(self, values: Mapping[str, Any], before: Scenario, after: Scenario) -> Plan | None:
        """The plan with other parameters and start values of states, none of which the program knows.

        `before` and `after` are the scenarios without and with them, as they were written.

        None where one of them may be written into the program (start values of inputs, parameters that
        conditions of events or of state machines read), or where what was chosen or measured for the plan
        may be another thing with them: then plan again.
        """
        if self.measured:
            return None
        if any(getattr(before.units.get(split(bare(key))[0]), "remade_inside", False) for key in values):
            return None  # blocks begin with what a unit shows, or a mean with that of its period
        units, changed = self._by_path, dict(self.scenario.units)
        for key, value in values.items():
            path, name = _unit_of(bare(key), units)
            unit = units.get(path)
            if unit is None:
                return None
            ports = {port.name for port in changed[unit].ports}
            if self.scenario.why_written(unit, resolve(name, ports)[0]):
                return None
            if self.scenario.units[unit] is before.units.get(path):
                changed[unit] = after.units[path]
            else:
                changed[unit] = changed[unit].with_values({name: value})
        for unit, model in self.scenario.units.items():
            now = changed[unit]
            if now is not model and not (_same(model.ports, now.ports) and _solved_alike(model, now)):
                return None
        made = after if self.scenario is before else self.scenario.with_units(changed)
        if list(waits(made)) != list(waits(self.scenario)):
            return None
        chosen = self.master.ports if self.master.why else {}  # follows from the equations, too
        if chosen and (self.master.warnings or not calm(made, chosen, nominal_step(self.master.pace))):
            return None
        return replace(self, scenario=made)


def _unit_of(key: str, units: Mapping[str, str]) -> tuple[str, str]:
    """The path of a unit and the name of something in it."""
    path, name = split(key)
    while path not in units and name:
        more, name = split(name)
        path = f"{path}.{more}"
    return path, name


def _solved_alike(before: Model, after: Model) -> bool:
    """Whether the solvers are the same, also inside: the step of one may follow from a parameter."""
    inside, then = nested_of(before), nested_of(after)
    if inside is None or then is None:
        one, other = (getattr(bare_model(model), "solver", None) for model in (before, after))
        return bool(one == other)
    units = then.flat.scenario.units
    return all(_solved_alike(model, units[unit]) for unit, model in inside.flat.scenario.units.items())


def _same(before: Sequence[Port], after: Sequence[Port]) -> bool:
    """Whether a program that knows the one knows the other. Of a parameter it does not know the value."""
    return len(before) == len(after) and all(
        one is other
        or one == other
        or (one.causality is Causality.PARAMETER and one == other.starting(one.start))
        for one, other in zip(before, after, strict=True)
    )
