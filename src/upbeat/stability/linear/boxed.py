"""Beside a nested scenario: its program inside is followed on linear forms, as the one around it is.

The unit runs its own loop on a machine of linear forms, so rows move inside whenever the unit does anything.
What is left to do here is to hand them over: the extended state inside is part of the one outside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from upbeat.engine.interpreter.interpret import Interpreter
from upbeat.engine.nesting.unit import Running
from upbeat.master.program import Block
from upbeat.scenario.merging.inline import path_of
from upbeat.stability.linear.beside import Array, Beside, Course, Entry, Rows
from upbeat.stability.linear.extended import extended
from upbeat.stability.linear.forms import Forms
from upbeat.stability.linear.standing import Standing

STEP = "step"
"""The block inside that paces with steps of one size choose."""


class Boxed:
    """What the outer machine sees of the linear part of a nested scenario.

    `machine` is `forms` or its neighbour, `besides` are those of its units. `shown`: whether what it gives
    out may be asked for before it has moved on; then these values are taken over from step to step, too.
    """

    def __init__(
        self,
        inside: Running,
        forms: Forms,
        machine: Interpreter,
        besides: Mapping[str, Beside],
        *,
        shown: bool,
    ) -> None:
        program, models = inside.program, inside.scenario.units
        self._inside, self._forms, self._besides, self._free = inside, forms, besides, inside.free
        self.linear = all(one.linear for one in besides.values())
        outputs = [program.columns[output.port.name] for output in inside.scenario.outputs] if shown else []
        self._extended = extended(
            program,
            models,
            # After an input was set, values are exchanged once more before the next step.
            inside_blocks(inside),
            {unit: one.entries for unit, one in besides.items()},
            {unit: path_of(inside.scenario, unit) for unit in models},
            [one.register + i for one in outputs for i in range(one.cells)],
        )
        self._standing = Standing(program, models, self._extended, forms, machine, besides)
        self._columns = 0

    @property
    def accuracy(self) -> float:
        return max((one.accuracy for one in self._besides.values()), default=0.0)

    @property
    def entries(self) -> tuple[Entry, ...]:
        inner = self._extended
        return tuple(map(Entry, inner.names, inner.ports, inner.own, inner.loops))

    def begin(self, states: Array) -> None:
        self._columns = states.shape[1]
        self._standing.seed(states)

    def states(self) -> Array:
        return self._standing.rows(self._columns)

    def give(self, port: str, time: float, rows: Sequence[Rows]) -> None:
        unit, inner = self._free[port]
        self._besides[unit].give(inner.name, time, rows)

    def course(self, port: str) -> Course | None:
        unit, inner = self._free[port]
        return self._besides[unit].course(inner.name)

    def read(self, port: str) -> Rows:
        shown = self._inside.program.columns[port]
        return self._forms.gather(shown.register, shown.cells)

    def leave(self) -> None:
        pass

    def arrive(self, left: None, t: float, to: float) -> None:
        """The rows have arrived with the unit."""

    def strike(self) -> None:
        pass

    def struck(self, left: None) -> None:
        """A scenario inside that has events is no box."""

    def alike(
        self, now: float, step: float, driven: Sequence[str], later: Sequence[float]
    ) -> Sequence[float] | None:
        ends = [self._free[port] for port in driven]
        tried: list[float] = []
        for unit, one in self._besides.items():
            found = one.alike(now, step, [inner.name for of, inner in ends if of == unit], later)
            if found is None:
                return None
            tried = tried or list(found)
        return tried

    def save(self) -> Any:
        return dict(self._forms.rows), {unit: one.save() for unit, one in self._besides.items()}

    def restore(self, token: Any) -> None:
        rows, units = token
        self._forms.rows.clear()
        self._forms.rows.update(rows)
        for unit, kept in units.items():
            self._besides[unit].restore(kept)

    def values(self) -> list[float]:
        found: list[float] = self._standing.values().tolist()
        return found

    def put(self, values: Sequence[float]) -> None:
        self._standing.put(np.array(values))


def inside_blocks(inside: Running) -> list[Block]:
    """What may come next inside."""
    return [inside.program.steps[STEP], inside.program.exchange]
