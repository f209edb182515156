"""An independent simulator of discrete-event networks: classic DEVS, in which one unit acts at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

LABELS = ("a", "b", "c")
Map = Mapping[str, str]
"""Which label arrives when one is sent; those left out do not arrive at all."""


class Endless(Exception):
    """More micro-steps at one instant than are allowed."""


@dataclass(frozen=True)
class State:
    """Lasts so long, then sends a label (or none) and goes on; a label heard leads elsewhere."""

    lasts: float
    sends: str | None
    goes: int
    early: tuple[int, ...]
    late: tuple[int, ...]


@dataclass(frozen=True)
class Network:
    systems: Mapping[str, tuple[State, ...]]
    links: Mapping[tuple[str, str], Map]

    def heard(self, unit: str, state: int, elapsed: float, label: str) -> int:
        """Where a label leads: that depends on whether half of the state's time has passed."""
        now = self.systems[unit][state]
        return (now.early if elapsed < now.lasts / 2 else now.late)[LABELS.index(label)]


def simulated(
    network: Network, order: Sequence[str], until: float, most: int
) -> tuple[list[tuple[str, float, int, str]], dict[str, int]]:
    """Every event as (unit, time, index within the instant, label), and the states in the end."""
    state = dict.fromkeys(network.systems, 0)
    last = dict.fromkeys(network.systems, 0.0)
    due = {unit: system[0].lasts for unit, system in network.systems.items()}
    events: list[tuple[str, float, int, str]] = []
    t = 0.0

    def enter(unit: str, new: int) -> None:
        state[unit], last[unit], due[unit] = new, t, t + network.systems[unit][new].lasts

    while t <= until:
        index = 0
        for _ in range(most):
            unit = next((u for u in order if due[u] <= t), None)
            if unit is None:
                break
            acting = network.systems[unit][state[unit]]
            if acting.sends is not None:
                events.append((unit, t, index, acting.sends))
                index += 1
            enter(unit, acting.goes)
            for other in network.systems:
                label = network.links.get((unit, other), {}).get(acting.sends or "")
                if label is not None:
                    enter(other, network.heard(other, state[other], t - last[other], label))
        else:
            if any(due[u] <= t for u in order):
                raise Endless
        t = min(due.values())
    return events, state
