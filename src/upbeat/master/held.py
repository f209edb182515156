"""A remark where events are located or predicted, and units do not see each other move."""

from __future__ import annotations

from upbeat.core.ports import Kind
from upbeat.master.inputs.approximation import Hold
from upbeat.master.wiring import Wiring
from upbeat.scenario.events.sights import looked_at
from upbeat.units.discrete.model import Discrete
from upbeat.units.process import bare

MOST = 4
"""So many inputs are named."""


def held_inputs(wiring: Wiring) -> str | None:
    """What to say of units with a part in events whose inputs stand still during a step.

    Those that only discrete-event units drive really do: nothing is to be said of them.
    """
    units = wiring.scenario.units
    moving = {
        (c.unit, c.port)
        for c in wiring.scenario.connections
        if any(unit in units and not isinstance(bare(units[unit]), Discrete) for unit, _ in c.sources)
    }
    found = [
        wiring.label(end)
        for unit in looked_at(wiring.scenario)
        for end in wiring.connected(unit)
        if wiring.ports[end].kind is Kind.REAL and not wiring.ports[end].internal
        if end in moving and isinstance(wiring.approximation(end), Hold)
    ]
    if not found:
        return None
    named = ", ".join(found[:MOST]) + (" …" if len(found) > MOST else "")
    return (
        f"inputs are held ({named}): during a step units do not see each other move, so that events come at "
        'the wrong time however well they are met: choose inputs="hermite" or "linear"'
    )
