"""Programs written by hand, with a pace."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from upbeat.master.paces.pace import Fixed, Pace, written
from upbeat.master.program import Pacing, Program
from upbeat.master.registers import Registers, Steps


def paced(program: Program, pace: Pace | float) -> Program:
    """The program with a pace that looks at nothing; a number is a fixed step."""
    registers = Registers()
    for one in program.layout.registers:
        registers.new(one.name, one.kind, one.size, one.start)
    steps = Steps(registers, program.now, program.next, list(program.steps))
    nothing: Any = None
    _, made = written(Fixed(pace) if isinstance(pace, (int, float)) else pace, steps, nothing, nothing)
    pacing = Pacing(
        tuple(steps.blocks),
        *(
            one.index
            for one in (steps.limit, steps.until, steps.block, steps.reason, steps.again, steps.fired)
        ),
        tuple(steps.reasons),
        made.propose,
        note=made.note,
        changed=made.changed,
        memory=tuple(steps.memory),
        calls=tuple(steps.calls),
    )
    return replace(program, layout=registers.layout(), start=(*made.begin, *program.start), pace=pacing)
