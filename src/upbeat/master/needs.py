"""Which abilities a program needs of the units, checked before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from upbeat.core.abilities import Ability, Model, doubt
from upbeat.core.errors import MasterError
from upbeat.master.paces.pace import Pace, retries, usual_step
from upbeat.master.program import Advance, Due, Program, Save, Slope


def needs(program: Program, pace: Pace, units: Mapping[str, Model]) -> dict[str, dict[Ability, str]]:
    """For every unit, the abilities it must have, each with the reason."""
    found: dict[str, dict[Ability, str]] = {unit: {} for unit in units}
    for instruction in program.instructions():
        match instruction:
            case Save(saved):
                for unit in saved:
                    found[unit][Ability.ROLLBACK] = "the coupling repeats steps"
            case Due(unit):
                found[unit][Ability.NEXT_EVENT] = "it has event ports"
            case Advance(unit, early=True):
                found[unit][Ability.EARLY_RETURN] = "the coupling lets it stop before the end of a step"
            case Slope(unit):
                found[unit][Ability.SLOPES] = "an algebraic loop is solved with them"
    if retries(pace):
        for needed in found.values():
            needed[Ability.ROLLBACK] = "the pace may reject a step"
    return found


def check_abilities(
    program: Program, pace: Pace, units: Mapping[str, Model], called: Callable[[str], str] = str
) -> None:
    """Raise a `MasterError` that names every unit which lacks something, by what people call it.

    What a unit has only by its own word is put to the test, once nothing else is in the way.
    """
    wanted = [
        (unit, ability, why)
        for unit, needed in needs(program, pace, units).items()
        for ability, why in needed.items()
    ]
    missing = [
        f"unit '{called(unit)}' does not have: {ability.value}. It needs to, because {why}."
        for unit, ability, why in wanted
        if ability not in units[unit].abilities
    ] or [
        f"unit '{called(unit)}': {finding}. It matters, because {why}."
        for unit, ability, why in wanted
        if (finding := doubt(units[unit], ability, usual_step(pace) or 0.01)) is not None
    ]
    if missing:
        raise MasterError("\n".join(missing))
