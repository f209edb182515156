"""What there is to say about an FMU: for `upbeat explain` and `upbeat check`."""

from __future__ import annotations

from upbeat.units.fmi.description import Interface, ModelDescription
from upbeat.units.fmi.interfaces import CO_SIMULATION, MODEL_EXCHANGE, name_of

_MOST_ODDITIES = 5


def notes_of(description: ModelDescription, interface: Interface) -> tuple[str, ...]:
    """Sentences: what it is, what it needs, what is tolerated."""
    found = [headline(description, interface)]
    if interface.needs_execution_tool:
        found.append("it needs the tool that made it to be installed here")
    if interface.only_once_per_process:
        found.append("only one unit of it can run in a process")
    odd = description.warnings
    found += [f"tolerated: {note}" for note in odd[:_MOST_ODDITIES]]
    if len(odd) > _MOST_ODDITIES:
        found.append(f"tolerated: … and {len(odd) - _MOST_ODDITIES} oddities more in its description")
    return tuple(found)


def headline(description: ModelDescription, interface: Interface) -> str:
    """``FMI 2.0 co-simulation, 'Pump' 1.2 made by Dymola 2024``."""
    offered = [CO_SIMULATION] if description.co_simulation is not None else []
    offered += [MODEL_EXCHANGE] if description.model_exchange is not None else []
    others = [name for name in offered if name != name_of(interface)]
    text = f"FMI {description.written_version} {name_of(interface)}, '{description.name}'"
    text += f" {description.model_version}" if description.model_version else ""
    text += f" made by {description.tool}" if description.tool else ""
    return text + (f" (it offers {others[0]}, too)" if others else "")
