"""Next to a nested scenario: its program inside is followed on linear forms, as the one around it is.

The unit runs its own loop on a machine of linear forms, so rows move inside whenever the unit does anything.
What is left to do here is to hand them over: the extended state inside is part of the one outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import comb
from typing import Any

import numpy as np

from upbeat.core.abilities import Model
from upbeat.core.ports import Signal
from upbeat.engine.interpret import Interpreter
from upbeat.engine.nesting.unit import Running
from upbeat.master.program import Block, Program
from upbeat.scenario.merging.inline import path_of
from upbeat.stability.linear.forms import (
    Array,
    Entry,
    Extended,
    Forms,
    LinearUnit,
    Rows,
    Trajectory,
    extended,
)

# ----------------------------------------------------------------------------------------------------
# Where a machine stands: the values and the rows of its extended state, in the order of its entries.


class ExtendedState:
    """The extended state of `machine`, which is `forms` or its neighbour; rows are those of `forms`."""

    def __init__(
        self,
        program: Program,
        models: Mapping[str, Model],
        extended: Extended,
        forms: Forms,
        machine: Interpreter,
        linear_units: Mapping[str, LinearUnit],
    ) -> None:
        self._now, self._extended = program.now, extended
        self._forms, self._machine, self._linear_units = forms, machine, linear_units
        self._sizes = {(unit, port.name): port.size for unit, model in models.items() for port in model.ports}
        self._starts = {
            (unit, port.name): port.initial for unit, model in models.items() for port in model.ports
        }

    @property
    def _time(self) -> float:
        return float(self._machine.read(self._now))

    # ---------------------------------------------------------------- values

    def values(self) -> Array:
        """The extended state; inputs that are held are taken from `forms`."""
        own = [value for one in self._linear_units.values() for value in one.values()]
        held = []
        for one in self._extended.inputs:
            end = (one.unit, one.port)
            if end not in self._forms.trajectories:  # it was never set: it is what it was at the start
                held.append(0.0 if one.order else float(self._starts[end][one.cell]))
                continue
            origin, trajectory = self._forms.trajectories[end]
            cell = [c if isinstance(c, (int, float)) else c[one.cell] for c in trajectory]
            held.append(_shifted(np.array(cell, dtype=float), self._time - origin, one.order))
        cells = [float(self._machine.read(cell)) for cell in self._extended.cells]
        return np.array([*own, *held, *cells])

    def put(self, values: Array) -> None:
        """Another extended state."""
        self.put_states(values)
        trajectories: dict[tuple[str, str], dict[int, list[float]]] = {}
        count = len(self._extended.states)
        for number, held in enumerate(self._extended.inputs, count):
            rows = trajectories.setdefault((held.unit, held.port), {})
            rows.setdefault(held.order, []).append(float(values[number]))
        for (unit, port), rows in trajectories.items():
            size = self._sizes[unit, port]
            given: list[Signal] = [rows[k][0] if size is None else tuple(rows[k]) for k in sorted(rows)]
            self._machine.set_input(unit, port, *given)
        for number, cell in enumerate(self._extended.cells, count + len(self._extended.inputs)):
            Interpreter.write(self._machine, cell, float(values[number]))

    def put_states(self, values: Array) -> None:
        """Other states of units; what else `values` may hold is left alone."""
        first = 0
        for one in self._linear_units.values():
            own = len(one.entries)
            one.put(values[first : first + own].tolist())
            first += own

    def displace(self, values: Array, far: float, way: int = 1) -> None:
        """Go near `values`, where every decision is that of a state which has nothing special about it.

        Held inputs stay what they are: they come from the step before. `way`: one of several directions.
        """
        moved = values + far * _away(values, np.random.default_rng(way))
        self.put_states(moved)
        cells = self._extended.cells
        for cell, value in zip(cells, moved[self._extended.size - len(cells) :].tolist(), strict=True):
            Interpreter.write(self._machine, cell, value)

    # ---------------------------------------------------------------- rows

    def seed(self, rows: Array) -> None:
        """What each entry depends on, before a step."""
        forms = self._forms
        forms.rows.clear()
        first = 0
        for one in self._linear_units.values():
            count = len(one.entries)
            one.begin(rows[first : first + count])
            first += count
        trajectories: dict[tuple[str, str], dict[int, list[Array]]] = {}
        for held in self._extended.inputs:
            trajectories.setdefault((held.unit, held.port), {}).setdefault(held.order, []).append(rows[first])
            first += 1
        for (unit, port), given in trajectories.items():
            self._linear_units[unit].give(
                port, self._time, [np.array(given[order]) for order in sorted(given)]
            )
        for cell in self._extended.cells:
            forms.rows[cell] = rows[first]
            first += 1

    def rows(self, columns: int) -> Array:
        """What each entry depends on, after it."""
        matrix = np.zeros((self._extended.size, columns))
        first = 0
        for one in self._linear_units.values():
            count = len(one.entries)
            matrix[first : first + count] = one.states()
            first += count
        for held in self._extended.inputs:
            trajectory = self._linear_units[held.unit].trajectory(held.port)
            if trajectory is not None:
                origin, rows = trajectory
                tau = self._time - origin
                for order in range(held.order, len(rows)):
                    part = rows[order]
                    if part is not None:
                        power = order - held.order
                        matrix[first] += comb(order, held.order) * tau**power * part[held.cell]
            first += 1
        for cell in self._extended.cells:
            if cell in self._forms.rows:
                matrix[first] = self._forms.rows[cell]
            first += 1
        return matrix


def _shifted(coefficients: Array, tau: float, order: int) -> float:
    """One coefficient of a polynomial around a point `tau` later."""
    return float(
        sum(comb(k, order) * tau ** (k - order) * coefficients[k] for k in range(order, len(coefficients)))
    )


def _away(values: Array, turn: np.random.Generator) -> Array:
    """A direction with nothing special about it, as long as the values are large."""
    sizes: Array = turn.uniform(0.5, 1.0, len(values)) * (1.0 + np.abs(values))
    return np.where(turn.uniform(size=len(values)) < 0.5, -sizes, sizes)


# ----------------------------------------------------------------------------------------------------

STEP = "step"
"""The block inside that paces with steps of one size choose."""


class NestedLinearUnit:
    """What the outer machine sees of the linear part of a nested scenario.

    `machine` is `forms` or its neighbour, `linear_units` those of its units. `shown`: whether what it gives
    out may be asked for before it has moved on; then these values are taken over from step to step, too.
    `stored`: as for `extended`.
    """

    def __init__(
        self,
        inside: Running,
        forms: Forms,
        machine: Interpreter,
        linear_units: Mapping[str, LinearUnit],
        *,
        shown: bool,
        stored: Mapping[int, bool],
        reach: Callable[[], float],
    ) -> None:
        program, models = inside.program, inside.scenario.units
        self._inside, self._forms, self._linear_units, self._free = inside, forms, linear_units, inside.free
        self.linear = all(one.linear for one in linear_units.values())
        self._reach = reach
        outputs = [program.columns[output.port.name] for output in inside.scenario.outputs] if shown else []
        self._extended = extended(
            program,
            models,
            # After an input was set, values are exchanged once more before the next step.
            inside_blocks(inside),
            {unit: one.entries for unit, one in linear_units.items()},
            {unit: path_of(inside.scenario, unit) for unit in models},
            [one.register + i for one in outputs for i in range(one.cells)],
            stored,
        )
        self._state = ExtendedState(program, models, self._extended, forms, machine, linear_units)
        self._columns = 0

    @property
    def reach(self) -> float:
        return self._reach()

    @property
    def adaptive(self) -> Iterable[tuple[str, tuple[float, float] | None]]:
        return [found for one in self._linear_units.values() for found in one.adaptive]

    @property
    def accuracy(self) -> float:
        return max((one.accuracy for one in self._linear_units.values()), default=0.0)

    @property
    def entries(self) -> tuple[Entry, ...]:
        inner = self._extended
        return tuple(map(Entry, inner.names, inner.ports, inner.own, inner.loops, inner.stored))

    def begin(self, states: Array) -> None:
        self._columns = states.shape[1]
        self._state.seed(states)

    def states(self) -> Array:
        return self._state.rows(self._columns)

    def give(self, port: str, time: float, rows: Sequence[Rows]) -> None:
        unit, inner = self._free[port]
        self._linear_units[unit].give(inner.name, time, rows)

    def trajectory(self, port: str) -> Trajectory | None:
        unit, inner = self._free[port]
        return self._linear_units[unit].trajectory(inner.name)

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
        for unit, one in self._linear_units.items():
            found = one.alike(now, step, [inner.name for of, inner in ends if of == unit], later)
            if found is None:
                return None
            tried = tried or list(found)
        return tried

    def save(self) -> Any:
        return dict(self._forms.rows), {unit: one.save() for unit, one in self._linear_units.items()}

    def restore(self, token: Any) -> None:
        rows, units = token
        self._forms.rows.clear()
        self._forms.rows.update(rows)
        for unit, kept in units.items():
            self._linear_units[unit].restore(kept)

    def values(self) -> list[float]:
        found: list[float] = self._state.values().tolist()
        return found

    def put(self, values: Sequence[float]) -> None:
        self._state.put(np.array(values))


def inside_blocks(inside: Running) -> list[Block]:
    """What may come next inside."""
    return [inside.program.steps[STEP], inside.program.exchange]
