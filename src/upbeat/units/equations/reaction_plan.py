"""The events of equations in numbers: which indicator each has, what it hears, writes and sends.

Both engines run a unit from this plan.
"""

from __future__ import annotations

from dataclasses import dataclass

from upbeat.core.expr import Kernel
from upbeat.core.names import cell_names
from upbeat.core.ports import Port
from upbeat.units.equations.data import Equations


@dataclass(frozen=True, slots=True)
class Sent:
    """What an event sends: the number of the port among those that send, and where its cells are among the
    results: first whether it is there at all."""

    port: int
    first: int


@dataclass(frozen=True, slots=True)
class Reaction:
    """One event in numbers.

    `indicator` is its place among the indicators (-1: none), `on` are numbers of ports among those that
    hear. `writes` are pairs of a target and the place of its new value among the results: states count
    from 0, parameters and variables go on after them.
    """

    name: str
    indicator: int
    on: tuple[int, ...]
    writes: tuple[tuple[int, int], ...]
    sends: tuple[Sent, ...]


@dataclass(frozen=True, slots=True)
class Reactions:
    """All events of a unit in numbers. `mutable`: the places of parameters and variables that ever change."""

    events: tuple[Reaction, ...]
    mutable: tuple[int, ...]
    heard: tuple[Port, ...]
    sent: tuple[Port, ...]
    indicators: Kernel
    actions: Kernel

    @property
    def watched(self) -> int:
        """How many events have an indicator."""
        return sum(event.indicator >= 0 for event in self.events)

    @property
    def rivals(self) -> tuple[tuple[int, ...], ...]:
        """By indicator: those of events before it that write something that it writes, too."""
        watched = [(e.indicator, {target for target, _ in e.writes}) for e in self.events if e.indicator >= 0]
        return tuple(
            tuple(other for other, theirs in watched[:place] if not own.isdisjoint(theirs))
            for place, (_, own) in enumerate(watched)
        )

    @property
    def extra(self) -> int:
        """How many numbers a state has more than that of a unit without events: see `HybridUnit.save`."""
        ports = sum(1 + port.cells for port in (*self.heard, *self.sent))
        return len(self.mutable) + 2 * self.watched + ports


def reactions(equations: Equations) -> Reactions:
    """The events of these equations in numbers."""
    states = [name for s in equations.states for name in cell_names(s.port.name, s.port.size)]
    constants = (*equations.parameters, *equations.variables)
    values = [name for port in constants for name in cell_names(port.name, port.size)]
    targets = {name: place for place, name in enumerate((*states, *values))}
    heard = {port.name: i for i, port in enumerate(equations.heard)}
    sent = {port.name: i for i, port in enumerate(equations.sent)}
    found, result, indicator = [], 0, 0
    for event in equations.events:
        writes = tuple((targets[cell], result + i) for i, (cell, _) in enumerate(event.then))
        result += len(writes)
        sends = []
        for sending in event.emit:
            sends.append(Sent(sent[sending.port.name], result))
            result += 1 + len(sending.cells)
        watched = event.indicator is not None
        on = tuple(heard[name] for name in event.on)
        found.append(Reaction(event.name, indicator if watched else -1, on, writes, tuple(sends)))
        indicator += watched
    changed = {target - len(states) for e in found for target, _ in e.writes if target >= len(states)}
    return Reactions(
        tuple(found), tuple(sorted(changed)), equations.heard, equations.sent, equations.indicators,
        equations.actions,
    )  # fmt: skip
