"""An event between units as data: its conditions and what it changes. `declared` reads what people write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from upbeat.core.expr import Expr
from upbeat.scenario.directory import INPUTS, End
from upbeat.scenario.events.functions import Call


@dataclass(frozen=True, slots=True)
class Change:
    """A new value for a state, variable or parameter `name` of `unit`: one expression per cell."""

    unit: str
    name: str
    cells: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Event:
    """What happens when the largest of `conditions` falls from above zero to zero or below.

    All names in the expressions are those of ports, ``unit.port`` or ``unit.port[i]``, and of inputs of the
    scenario; `reads` are the ports behind them. `written` is what the user wrote.
    """

    name: str
    conditions: tuple[Expr, ...]
    then: tuple[Change, ...] = ()
    reads: tuple[End, ...] = field(default=(), compare=False)
    written: Mapping[str, Any] = field(default_factory=dict, compare=False)
    calls: tuple[Call, ...] = ()
    """The functions among the conditions."""

    @property
    def units(self) -> tuple[str, ...]:
        """The units that it is about."""
        named = (*(unit for unit, _ in self.reads if unit != INPUTS), *(c.unit for c in self.then))
        return tuple(dict.fromkeys(named))

    @property
    def shared(self) -> bool:
        """Whether it belongs to several units; one that belongs to a single one is private."""
        return len(self.units) > 1
