"""Ports through which a pace sees the event indicators of an FMU in model exchange."""

from __future__ import annotations

from collections.abc import Sequence

from upbeat.core.ports import Causality, Port


def shown(indicators: Sequence[str]) -> tuple[Port, ...]:
    """Two for each: to FMI a sign that changes is an event both ways, and a pace looks for what falls."""
    found = []
    for name in indicators:
        for way in ("falls", "rises"):
            event = f"{name} {way}"
            found.append(Port(f"{way}({name})", Causality.OUTPUT, internal=True, indicates=event))
    return tuple(found)
