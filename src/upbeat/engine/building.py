"""The machine of a run and the loop that drives it, for the chosen engine."""

from __future__ import annotations

from collections.abc import Mapping

from upbeat.core.abilities import Model
from upbeat.core.time import Span
from upbeat.engine.choose import Choice
from upbeat.engine.interpreter.interpret import Interpreter
from upbeat.engine.loop import Loop
from upbeat.engine.machine import Machine
from upbeat.engine.native import machine as native
from upbeat.engine.native.loop import NativeLoop
from upbeat.engine.schedule import Schedule
from upbeat.engine.selection import Selection
from upbeat.master.paces.pace import Pace, twin
from upbeat.master.program import Program
from upbeat.trace.recorder import Recorder


def built(
    choice: Choice,
    program: Program,
    models: Mapping[str, Model],
    pace: Pace,
    span: Span,
    selection: Selection,
    recorder: Recorder,
    strings: list[str],
    jit: bool,
    schedules: Mapping[str, Schedule] | None = None,
) -> tuple[Machine, Loop]:
    """Both, ready to begin; the native engine puts its texts into `strings`."""
    if choice.name == "interpret":
        interpreter = Interpreter(program, models, span.start)
        return interpreter, Loop(interpreter, program, pace, span, selection, recorder)
    machine = native.Machine(program, models, span.start, jit=jit, strings=strings, schedules=schedules)
    if schedules:
        machine.try_cores()
    kind = Loop if twin(pace) is None else NativeLoop
    return machine, kind(machine, program, pace, span, selection, recorder)
