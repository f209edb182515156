"""Runs on several cores: a schedule for every step of a program, and what to say about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from upbeat.core.abilities import Ability, Model
from upbeat.core.errors import InvalidInput
from upbeat.engine.choose import Choice, EngineName
from upbeat.engine.parallel.operations import in_python
from upbeat.engine.parallel.step import Parallel, parallel
from upbeat.engine.schedule import Item, Schedule
from upbeat.master.program import Program

Times = Mapping[str, Mapping[str, float]]
"""Seconds by operation, for each block (`engine.profile`)."""
_SHOWN = 5


def shared_out(
    program: Program, models: Mapping[str, Model], cores: int, times: Times | None = None
) -> dict[str, Schedule]:
    """Schedules for the steps of a program, as far as there is something for a second core to do.

    What happens at instants stays with the first core: a schedule is made for what takes long in every step.
    """
    found: dict[str, Schedule] = {}
    for block in program.steps:
        made = parallel(program, block, models, cores, (times or {}).get(block))
        schedule = _python_first(made, models)
        if len(schedule.cores) > 1:
            found[block] = schedule
    return found


def _python_first(made: Parallel, models: Mapping[str, Model]) -> Schedule:
    """The schedule without cores that have nothing to do, and with what runs in Python on the first one.

    The first core is the thread that called the engine, and the only one that holds Python's lock.
    """
    python = {made.plan.core[k] for k, op in enumerate(made.operations) if in_python(op, models)}
    busy = [core for core, items in enumerate(made.schedule.cores) if items]
    order = sorted(busy, key=lambda core: core not in python)
    number = {core: k for k, core in enumerate(order)}

    def moved(item: Item) -> Item:
        return replace(item, waits=tuple(sorted((number[core], at) for core, at in item.waits)))

    return Schedule(tuple(tuple(map(moved, made.schedule.cores[core])) for core in order))


def on_cores(choice: Choice, wanted: EngineName, cores: int, models: Mapping[str, Model]) -> Choice:
    """The choice of engine, and what becomes of the cores. Asking for the interpreter as well is an error."""
    if choice.name == "interpret":
        if wanted == "interpret":
            raise InvalidInput(
                f"cores = {cores} is for the native engine, and the interpreter was asked for. Leave out one "
                "of the two (--cores, --engine): the results are the same."
            )
        return replace(choice, why=f"{choice.why}; so one core does all the work, and not {cores}")
    why = f"{choice.why}; up to {cores} cores share the steps"
    python = [name for name, model in models.items() if Ability.NATIVE not in model.abilities]
    if python:
        more = f" and {len(python) - _SHOWN} more" if len(python) > _SHOWN else ""
        shown = ", ".join(python[:_SHOWN]) + more
        why += f"; what runs in Python ({shown}) stays on one of them, for Python does one thing at a time"
    return replace(choice, why=why)
