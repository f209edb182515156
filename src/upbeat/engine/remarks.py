"""What may go wrong in a run and can be seen before it: steps that a unit cannot take, faulty units."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from upbeat.core.abilities import Ability, FromFile
from upbeat.core.errors import Problem
from upbeat.core.time import Span
from upbeat.engine.plan import Plan
from upbeat.master.computations import SLACK
from upbeat.master.couplings.coupling import ends_early
from upbeat.master.paces.pace import equal_steps
from upbeat.scenario.directory import INPUTS, End
from upbeat.scenario.merging.inline import path_of
from upbeat.scenario.scenario import Scenario
from upbeat.units.process import bare

if TYPE_CHECKING:
    from upbeat.engine.nesting.unit import Running


def step_remarks(plan: Plan, span: Span) -> tuple[str, ...]:
    """Sentences about units that take only steps of one length, and steps that will, or may, have another.

    Only the last step of a run may be shorter without an error; the results of that one may be wrong.
    """
    units = {path_of(plan.scenario, name): model for name, model in plan.scenario.units.items()}
    steady = [name for name, model in units.items() if getattr(model, "steady", False)]
    if not steady:
        return ()
    pace, found = plan.master.pace, []
    step = equal_steps(pace)
    if step is None:
        found.append(f"the pace ({type(pace).__name__}) chooses others: take a fixed step (--step H, pace=H)")
    elif rest := _rest(step, span):
        whole = span.stop - rest
        found.append(
            f"the last one, from {whole:.9g} to {span.stop:.9g}, will be shorter than {step:.9g}: "
            "choose times that are whole steps apart "
            f"(--until {whole:.9g} or {whole + step:.9g}), or another step"
        )
    if ends_early(plan.master.coupled):
        found.append("the coupling lets units end them early: take another coupling if one does")
    others = [n for n, model in units.items() if Ability.NEXT_EVENT in model.abilities and n not in steady]
    others += [f"the event '{event.name}'" for event in plan.scenario.events]
    if others:
        what = f"{', '.join(others[:5])}{' …' if len(others) > 5 else ''} can end one in between"
        found.append(f"{what}: a step that does ends the run with an error")
    who = f"{', '.join(steady)}: the FMU takes only steps of one length"
    return tuple(f"{who} (canHandleVariableCommunicationStepSize is false), and {what}" for what in found)


class Inside(NamedTuple):
    """A nested scenario that stays one: the units that lead to it, its name for people, what runs there."""

    path: tuple[str, ...]
    name: str
    running: Running


def nests(scenario: Scenario, above: Inside | None = None) -> Iterator[Inside]:
    """The scenarios nested in units, at all depths."""
    for unit, model in scenario.units.items():
        running: Running | None = getattr(model, "running", None)
        if running is not None:
            path, around = (above.path, f"{above.name}.") if above is not None else ((), "")
            found = Inside((*path, unit), around + path_of(scenario, unit), running)
            yield found
            yield from nests(running.scenario, found)


def inner_warnings(scenario: Scenario) -> Iterator[str]:
    """What could not be chosen well inside nested scenarios."""
    return (f"inside '{one.name}': {told}" for one in nests(scenario) for told in one.running.warnings)


def unit_problems(scenario: Scenario, path: tuple[str, ...] = ()) -> list[Problem]:
    """What is wrong with units themselves, at all depths, though a run would be tried."""
    found: list[Problem] = []
    for name, model in scenario.units.items():
        inner = bare(model)
        where = ("units", *path, name)
        found += [Problem(where, what) for what in getattr(inner, "problems", ())]
        inside = getattr(inner, "scenario", None)
        if isinstance(inside, Scenario):
            found += unit_problems(inside, (*path, name))
    return found


def _rest(step: float, span: Span) -> float:
    """How long a last step is that is shorter than the others; 0 if there is none."""
    steps = (span.stop - span.start) / step
    whole = int(steps + SLACK)
    if whole == 0 or steps - whole <= SLACK:
        return 0.0  # a run of a single step has nothing to compare it with
    return span.stop - (span.start + whole * step)


# ----------------------------------------------------------------------------------------------------
# Connections of FMUs whose units of measure are not known: reported before a run, as nothing converts them.

_log = logging.getLogger("upbeat.fmu")


def warn_unconverted(scenario: Scenario) -> None:
    """Log a warning for each connection that may need a conversion which cannot be made."""
    if scenario.only_equations:
        return
    models = [bare(model) for model in scenario.units.values()]
    if not any(hasattr(model, "undefined") for model in models):  # quicker than to ask for the protocol
        return
    if not any(isinstance(model, FromFile) and model.undefined() for model in models):
        return
    for connection in scenario.connections:
        if isinstance(connection.text, dict):
            continue  # with convert = false: as asked for
        target = (connection.unit, connection.port)
        known, odd = _unit(scenario, target)
        for source in connection.sources:
            other, odd_too = _unit(scenario, source)
            if known is None or other is None or known == other or not (odd or odd_too):
                continue
            _log.warning(
                "is given '%s' in '%s' for '%s' in '%s' as it is: nothing defines that unit. "
                'To say that this is meant: "%s" = { value = "%s", convert = false }',
                ".".join(source), other, target[1], known, ".".join(target), connection.text,
                extra={"unit": target[0]},
            )  # fmt: skip


def _unit(scenario: Scenario, end: End) -> tuple[str | None, bool]:
    """What a port is in, and whether that is a name without a meaning."""
    unit, name = end
    if unit == INPUTS or unit not in scenario.units:
        return next((port.unit for port in scenario.inputs if port.name == name), None), False
    model = bare(scenario.units[unit])
    if isinstance(model, FromFile) and name in model.undefined():
        return model.undefined()[name], True
    return next((port.unit for port in model.ports if port.name == name), None), False
