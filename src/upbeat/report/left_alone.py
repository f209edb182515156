"""Inputs that nothing drives: one that was forgotten looks like one that was meant to stay as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from upbeat.core.ports import Port
from upbeat.scenario.scenario import Scenario

_SHOWN = 5


def left_alone(scenario: Scenario) -> list[dict[str, str]]:
    """The inputs of units that nothing drives, and what they stay at."""
    return [
        {"input": name, "value": f"{_values(port)}{f' {port.unit}' if port.unit else ''}"}
        for name, (_, port) in scenario.free_inputs.items()
        if not port.event
    ]


def in_short(alone: Sequence[Mapping[str, str]]) -> str:
    """Some of them in one line."""
    more = f" and {len(alone) - _SHOWN} more" if len(alone) > _SHOWN else ""
    return ", ".join(f"{one['input']} = {one['value']}" for one in alone[:_SHOWN]) + more


def _values(port: Port) -> str:
    shown = [f"{value:.6g}" if isinstance(value, float) else str(value) for value in port.initial]
    return shown[0] if port.size is None else f"[{', '.join(shown)}]"
