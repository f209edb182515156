"""The two ways of running an FMU: which one is meant, and what units of it are able to do."""

from __future__ import annotations

from typing import Literal

from upbeat.core.abilities import Ability
from upbeat.core.errors import ModelError, suggest
from upbeat.units.fmi.description import Causality as Role
from upbeat.units.fmi.description import (
    CoSimulation,
    Interface,
    IntervalVariability,
    ModelDescription,
    ModelExchange,
    Type,
)

InterfaceName = Literal["co-simulation", "model-exchange"]
CO_SIMULATION, MODEL_EXCHANGE = "co-simulation", "model-exchange"
NAMES = (CO_SIMULATION, MODEL_EXCHANGE)


def interface_of(description: ModelDescription, wanted: str | None) -> CoSimulation | ModelExchange:
    """The interface that is asked for, or co-simulation where there is a choice."""
    offered: dict[str, CoSimulation | ModelExchange] = {}
    if description.co_simulation is not None:
        offered[CO_SIMULATION] = description.co_simulation
    if description.model_exchange is not None:
        offered[MODEL_EXCHANGE] = description.model_exchange
    if wanted is not None and wanted not in NAMES:
        what = f"there is no interface {wanted!r}. {suggest(str(wanted), NAMES, 'interfaces')}"
        raise ModelError(what, [("interface", what)])
    if not offered:
        raise ModelError(
            f"the FMU '{description.name}' offers scheduled execution only, which Upbeat does not run: "
            "export it for co-simulation or model exchange"
        )
    if wanted is None:
        return next(iter(offered.values()))
    if wanted not in offered:
        what = f"the FMU '{description.name}' offers no {wanted}, only {' and '.join(offered)}"
        raise ModelError(what, [("interface", what)])
    return offered[wanted]


def name_of(interface: Interface) -> str:
    """The word for it in files and on the command line."""
    return CO_SIMULATION if isinstance(interface, CoSimulation) else MODEL_EXCHANGE


def has_events(description: ModelDescription, interface: Interface) -> bool:
    """Whether its units have instants of their own: `due` and `jump` mean something."""
    return isinstance(interface, ModelExchange) or (
        isinstance(interface, CoSimulation) and interface.event_mode and description.version == 3
    )


def own_clocks(description: ModelDescription) -> list[str]:
    """The input clocks that tick by themselves at times that are known, in the order of the file."""
    return [
        variable.name
        for variable in description.variables
        if variable.type is Type.CLOCK
        and variable.causality is Role.INPUT
        and variable.alias_of is None
        and variable.properties.clock is not None
        and variable.properties.clock.variability is not IntervalVariability.TRIGGERED
    ]


def abilities_of(description: ModelDescription, interface: Interface, *, rollback: bool) -> set[Ability]:
    """What is declared, which is not always what is true: see `upbeat.units.fmi.claims`."""
    found = set()
    if interface.saves_state and rollback:
        found.add(Ability.ROLLBACK)
        if interface.serialises_state:
            found.add(Ability.SERIALISE)
    if interface.directional_derivatives or interface.adjoint_derivatives:
        found.add(Ability.SLOPES)
    if has_events(description, interface):
        found.add(Ability.NEXT_EVENT)
    if isinstance(interface, ModelExchange):
        found.add(Ability.EARLY_RETURN)
        if description.event_indicator_count:
            found.add(Ability.INDICATORS)
    elif isinstance(interface, CoSimulation) and (description.version == 2 or interface.may_return_early):
        found.add(Ability.EARLY_RETURN)  # in FMI 2 by discarding the rest of a step
    return found
