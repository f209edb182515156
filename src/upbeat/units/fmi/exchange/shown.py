"""Ports through which a pace sees the event indicators of an FMU in model exchange, and the one that counts
the events inside any FMU."""

from __future__ import annotations

from collections.abc import Sequence

from upbeat.core.ports import Causality, Kind, Port

COUNT = Port("events()", Causality.OUTPUT, Kind.INTEGER, internal=True)
"""How often something has happened inside."""


def shown(indicators: Sequence[str]) -> tuple[Port, ...]:
    """Two for each: to FMI a sign that changes is an event both ways, and a pace looks for what falls."""
    found = []
    for name in indicators:
        for way in ("falls", "rises"):
            event = f"{name} {way}"
            found.append(Port(f"{way}({name})", Causality.OUTPUT, internal=True, indicates=event))
    return tuple(found)
