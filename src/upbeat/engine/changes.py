"""How much the outputs of units change from step to step, measured in a short run before the real one.

The modular method "sv" of a `Refined` coupling lets units with slow outputs go first, because a delay of
something slow does the least harm.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from itertools import pairwise
from statistics import fmean

from upbeat.core.errors import RunError
from upbeat.core.ports import Kind
from upbeat.core.time import Span
from upbeat.engine.interpreter.interpret import Interpreter
from upbeat.engine.loop import Loop
from upbeat.engine.nesting.flatten import Flat
from upbeat.engine.selection import select
from upbeat.master.couplings.refined import Refined
from upbeat.master.layout import Reg
from upbeat.master.master import Master
from upbeat.master.port_registers import End
from upbeat.master.program import Get, Program

STEPS = 50
"""So many steps are looked at: a fixed number, so that the order is the same every time."""


def wants_changes(master: Master) -> bool:
    """Whether the coupling of this master has to be told what it could not know."""
    coupling = master.coupled
    return isinstance(coupling, Refined) and coupling.method == "sv" and coupling.changes is None


def with_changes(flat: Flat, changes: Mapping[str, float]) -> Flat:
    """The same, with a coupling that knows."""
    coupling = flat.master.coupled
    assert isinstance(coupling, Refined)
    return flat._replace(master=replace(flat.master, coupling=replace(coupling, changes=changes)))


def measured_changes(flat: Flat, span: Span) -> dict[str, float]:
    """For each unit, the mean over the outputs that others take (over all of them, if nobody takes any).

    What nobody takes is late for nobody, and what never changes would make a unit look slow that is not.
    A run that fails is looked at as far as it goes: whoever runs the scenario will hear of it.
    """
    program, _ = replace(flat.master, coupling=Refined("ev")).written(flat.scenario)
    taken = {end for connection in flat.scenario.connections for end in connection.sources}
    cells = output_cells(program, taken)
    watched = [cell for mine in cells.values() for cell in mine]
    seen: list[list[float]] = []
    with closing(Interpreter(program, flat.scenario.units, span.start)) as machine, suppress(RunError):
        loop = Loop(machine, program, span, select(program, None), None)
        loop.begin()
        seen.append([float(machine.read(cell)) for cell in watched])
        while len(seen) <= STEPS and not loop.finished:
            loop.step()
            seen.append([float(machine.read(cell)) for cell in watched])
    rates = dict(zip(watched, relative_changes(seen, len(watched)), strict=True))
    return {unit: fmean([rates[cell] for cell in mine]) for unit, mine in cells.items()}


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
