"""Units that are left standing: what changes in jumps alone is moved when something happens to it.

So a step costs as much as moves in it, however many units wait. Such a unit stands at the time in its
register `reached`, and is brought to the present one right before it jumps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from upbeat.core.abilities import Model, Waiting
from upbeat.core.expr import Cell
from upbeat.core.ports import Causality
from upbeat.master.layout import Reg
from upbeat.master.port_registers import End
from upbeat.master.program import Advance, Block, Get, If, Instruction, Let, Repeat, walk
from upbeat.master.wiring import Wiring


def standing(wiring: Wiring, steps: Iterable[Block]) -> frozenset[str]:
    """The units that can be left standing: nothing of them but the time changes between two jumps.

    Their models say so in `still`. Where somebody looks at how far a unit gets, it goes along.
    """
    still = {unit for unit, model in wiring.scenario.units.items() if _waits(model)}
    early = {i.unit for step in steps for i in walk(step) if isinstance(i, Advance) and i.early}
    return frozenset(still - early)


def _waits(model: Model) -> bool:
    inputs = (port for port in model.ports if port.causality is Causality.INPUT)
    return isinstance(model, Waiting) and model.still and all(port.event for port in inputs)


def without(block: Block, units: Collection[str], outputs: Mapping[End, Reg]) -> Block:
    """A block of a step in which these units stay where they are; what they show is in `outputs` already."""
    made: list[Instruction] = []
    for instruction in block:
        match instruction:
            case Advance(unit) if unit in units:
                continue
            case Get(unit, port, to) if unit in units and outputs.get((unit, port)) == to:
                continue
            case Repeat(body=body):
                made.append(replace(instruction, body=without(body, units, outputs)))
            case If(_, then, orelse):
                parts = (without(part, units, outputs) for part in (then, orelse))
                made.append(If(instruction.condition, *parts))
            case _:
                made.append(instruction)
    return tuple(made)


def placed(wiring: Wiring, units: Iterable[str]) -> Block:
    """At the start: where these units stand."""
    return tuple(Let(wiring.reached(unit), Cell(wiring.now)) for unit in units)


def caught_up(wiring: Wiring, unit: str) -> Advance:
    """Bring a unit from where it stands to the present time."""
    return Advance(unit, wiring.reached(unit), wiring.now, wiring.reached(unit))
