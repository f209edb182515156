"""The neighbour of a machine of linear forms: the same program a little way off, which decides for it.

It never runs by itself: every instruction is done there after it was done here. So a nested scenario in it
has no loop of its own either: the loop here drives both insides at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any, TypeGuard

from upbeat.core.abilities import Model
from upbeat.core.ports import Signal
from upbeat.engine.interpreter.interpret import Interpreter
from upbeat.engine.nesting.model import Nested


def opened(model: Model) -> TypeGuard[Nested]:
    """Whether a model is a nested scenario whose inside is followed; one with events is a unit as a whole."""
    return type(model) is Nested and not model.has_events


class Neighbour(Interpreter):
    """An interpreter that is driven by another one, at all depths."""

    def _instantiated(self, model: Model, name: str, start: float) -> Any:
        return Driven(model, start) if opened(model) else super()._instantiated(model, name, start)


class Driven:
    """A nested scenario as a unit of a neighbour: it is where whoever drives it has left it."""

    def __init__(self, model: Nested, start: float) -> None:
        inside = model.running
        self._program, self._free = inside.program, inside.free
        self.machine = Neighbour(inside.program, inside.scenario.units, start)

    def get(self, port: str) -> Signal:
        shown = self._program.columns[port]
        values = [self.machine.read(shown.register + i) for i in range(shown.cells)]
        return values[0] if shown.cells == 1 else tuple(values)

    def set(self, port: str, coefficients: Sequence[Signal]) -> None:
        unit, inner = self._free[port]
        self.machine.set_input(unit, inner.name, *coefficients)

    def advance(self, t: float, to: float, early: bool) -> float:
        return float(self.machine.read(self._program.now))

    def due(self) -> float:
        return inf if self._program.due is None else float(self.machine.read(self._program.due))

    def jump(self) -> bool:
        return False

    def save(self) -> Any:
        return self.machine.save()

    def restore(self, token: Any) -> None:
        self.machine.restore(token)

    def close(self) -> None:
        self.machine.close()
