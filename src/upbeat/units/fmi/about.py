"""What there is to say about an FMU: for `upbeat explain` and `upbeat check`."""

from __future__ import annotations

from upbeat.core.names import objection_to
from upbeat.units.fmi.description import Causality, CoSimulation, Interface, ModelDescription
from upbeat.units.fmi.interfaces import CO_SIMULATION, MODEL_EXCHANGE, name_of

_MOST_ODDITIES = 5
_MOST_INDICATORS = 5

UNIT = "UNIT"
"""Stands for the name of the unit, which a model does not know."""


def notes_of(description: ModelDescription, interface: Interface) -> tuple[str, ...]:
    """Sentences: what it is, what it needs, what is tolerated."""
    found = [headline(description, interface)]
    if interface.needs_execution_tool:
        found.append("it needs the tool that made it to be installed here")
    if interface.only_once_per_process:
        found.append("only one unit of it can run in a process")
    found += indicator_advice(description, interface)
    odd = description.warnings
    found += [f"tolerated: {note}" for note in odd[:_MOST_ODDITIES]]
    if len(odd) > _MOST_ODDITIES:
        found.append(f"tolerated: … and {len(odd) - _MOST_ODDITIES} oddities more in its description")
    return tuple(found)


def indicator_advice(description: ModelDescription, interface: Interface) -> list[str]:
    """What to type so that steps end at the events of an FMU for co-simulation that names their indicators.

    FMI 3 does so for the sake of model exchange; most FMUs let the variables be read in co-simulation, too.
    """
    if not isinstance(interface, CoSimulation):
        return []
    named = [description.by_name[unknown.variable] for unknown in description.structure.event_indicators]
    named = [variable for variable in named if not variable.dimensions][:_MOST_INDICATORS]
    if not named:
        return []
    hidden = [f'"{v.name}"' for v in named if v.causality is not Causality.OUTPUT]
    entries = []
    for number, variable in enumerate(named, 1):
        plain = not objection_to(variable.name)
        event = variable.name if plain else f"indicator_{number}"
        path = f"{UNIT}.{variable.name}" if plain else f"`{UNIT}.{variable.name}`"
        entries.append(
            f'{event}_falls = {{ when = "{path} <= 0" }}, {event}_rises = {{ when = "{path} >= 0" }}'
        )
    shown = f"locals = [{', '.join(hidden)}] in its unit, and " if hidden else ""
    crossing = ", ".join(variable.name for variable in named)
    return [
        f"something happens inside where {crossing} changes its sign. To have steps end "
        f"there, write {shown}events = {{ {', '.join(entries)} }} with the pace look_ahead"
    ]


def headline(description: ModelDescription, interface: Interface) -> str:
    """``FMI 2.0 co-simulation, 'Pump' 1.2 made by Dymola 2024``."""
    offered = [CO_SIMULATION] if description.co_simulation is not None else []
    offered += [MODEL_EXCHANGE] if description.model_exchange is not None else []
    others = [name for name in offered if name != name_of(interface)]
    text = f"FMI {description.written_version} {name_of(interface)}, '{description.name}'"
    text += f" {description.model_version}" if description.model_version else ""
    text += f" made by {description.tool}" if description.tool else ""
    return text + (f" (it offers {others[0]}, too)" if others else "")
