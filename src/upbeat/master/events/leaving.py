"""How a structure ends: blocks that note which event has ended it, and what it leaves to the next.

The first event with a `to` that happens ends the run of this structure. What happens at the same instant
besides happens before that. Conserved quantities are kept as they are when the structure has just begun,
before anything happens there, and as they are right before the instant that ends it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from upbeat.core.expr import ONE, Cell, Number, Op, apply
from upbeat.master.program import Block, Leads, Let, Reg
from upbeat.master.wiring import Wiring
from upbeat.scenario.structures import Stage, size_output, start_output, value_output


class Leaving(NamedTuple):
    """What is added to a program: what it begins with, what an instant begins with, and what follows, by its
    name, an event that ends the structure."""

    begin: Block
    keep: Block
    after: Mapping[str, Block]
    leads: Leads


def leaving(wiring: Wiring, stage: Stage) -> Leaving:
    """The blocks for one structure."""
    new, results = wiring.registers.new, wiring.results
    over = wiring.ending()
    to = new("structure′next")
    begin: list[Let] = []
    keep: list[Let] = []
    first: dict[str, tuple[Reg, Reg]] = {}
    last: dict[str, tuple[Reg, Reg]] = {}
    for one in stage.conserved:
        now = results[value_output(one.name)], results[size_output(one.name)]
        first[one.name] = new(f"{one.name}′first"), new(f"{one.name}′first size")
        last[one.name] = new(f"{one.name}′last"), new(f"{one.name}′last size")
        begin += [Let(a, Cell(b)) for a, b in zip(first[one.name], now, strict=True)]
        keep += [Let(a, Cell(b)) for a, b in zip(last[one.name], now, strict=True)]
    after = {}
    for number, switch in enumerate(stage.switches, 1):
        none_yet = apply(Op.EQ, Cell(to), Number(0.0))
        chosen = Let(to, apply(Op.WHERE, none_yet, Number(float(number)), Cell(to)))
        after[switch.event] = (chosen, Let(over, ONE))
    starts = tuple(
        tuple(results[start_output(switch, place)] for place in range(len(switch.start)))
        for switch in stage.switches
    )
    return Leaving(tuple(begin), tuple(keep), after, Leads(stage, to, first, last, starts))
