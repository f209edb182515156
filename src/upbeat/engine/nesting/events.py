"""A nested scenario with event ports: as a whole it is one discrete-event unit (thesis, definition 10).

What happens inside at an instant is left to whoever drives it from outside: `due` says when, `get` what will
be sent, and each `jump` is one micro-step inside. Where something inside moves on its own, the next inner
communication point is due, too: an event that shows up there is seen outside at that very time.
"""

from __future__ import annotations

from math import inf

from upbeat.core.ports import Signal
from upbeat.engine.nesting.unit import NestedUnit


class EventNestedUnit(NestedUnit):
    """One run of a nested scenario that sends or receives events."""

    instants = False

    def get(self, port: str) -> Signal | None:
        if port not in self._program.events:
            return super().get(port)
        self._ask()
        sent = self._program.events[port]
        *values, present = self._machine.row(tuple(range(sent.register, sent.register + sent.cells + 1)))
        if not present:
            return None
        return values[0] if sent.cells == 1 else tuple(values)

    def due(self) -> float:
        """When a unit inside has something to do, or the next communication point inside comes."""
        event = self._ask()
        return event if self._inside.discrete else min(event, self._loop.ahead())

    def jump(self) -> bool:
        """One micro-step inside."""
        self._refresh()
        self._within(self._machine.execute, "micro")
        self._machine.fired.clear()
        return self._ask() <= self._loop.time

    def _ask(self) -> float:
        """Look what the next micro-step will send, and return its time."""
        self._refresh()
        self._within(self._machine.execute, "send")
        due = self._program.due
        return inf if due is None else float(self._machine.read(due))
