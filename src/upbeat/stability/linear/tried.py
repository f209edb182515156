"""Beside units that nobody can look into: what they do is tried out, from where they stand, and undone.

All that is needed are the unit's own calls and rollback. States are whatever numbers can be read of it. Where
they can be written, too, each is moved to both sides; where not, inputs move them, and how the
unit goes on is fitted to what it did.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from upbeat.core.errors import InvalidInput, StepError
from upbeat.core.ports import Causality, Kind, Port, Signal
from upbeat.stability.linear.beside import Array, Moved, Rows, differ
from upbeat.stability.linear.flows import Flow, Moving
from upbeat.stability.linear.jacobians import ROUNDING, best_slopes

STEP = 1e-4
"""How far things are moved at first, relative to 1 + their size: further than the noise of a solver inside.
Where that and a quarter of it give other slopes, things may be smaller than that: shorter ways are tried, and
what the best two still differ by is how well slopes are known."""
ACCURACY = 1e-7
COUNTED = 32
"""So many steps in a row are tried where something counts them."""
FAINT = 1e-7
"""States that move so little, beside the others, cannot be told apart."""
Course = tuple[float, list[Signal]]


class Handle(Protocol):
    """Where the states of a unit are found."""

    labels: tuple[str, ...]
    writable: bool
    advice: str
    """What to do where it tells of no states."""

    def read(self) -> list[float]: ...

    def write(self, values: Sequence[float]) -> None: ...

    def apart(self) -> Any:
        """What is to be seen beside the states, and must not depend on them."""
        ...

    def check_apart(self, one: Any, two: Any) -> None:
        """That it does not: `NoMatrix` if it does."""
        ...

    def later(self, t: float, to: float, steps: float) -> None:
        """Let what goes its own way be what it is so many steps later; all else stays."""
        ...

    @property
    def counts(self) -> bool:
        """Whether something goes on by a whole number from step to step."""
        ...

    def check_length(self, step: float) -> None:
        """That steps of this length are all alike: `NoMatrix` if they are not."""
        ...


class Apart:
    """A handle that tells of nothing beside the states."""

    counts = False

    def apart(self) -> Any:
        return None

    def check_apart(self, one: Any, two: Any) -> None:
        pass

    def later(self, t: float, to: float, steps: float) -> None:
        pass

    def check_length(self, step: float) -> None:
        pass


class Untold(Apart):
    """A handle for units that tell of no states: all right for those that have none."""

    labels: tuple[str, ...] = ()
    writable = False
    advice = (
        "A unit in C keeps them to itself: write it with equations (Ode, PythonOde), or make it an FMU for "
        "model exchange."
    )

    def read(self) -> list[float]:
        return []

    def write(self, values: Sequence[float]) -> None:
        raise NotImplementedError  # `writable` says so


class Tried(Moved):
    """Finds derivatives by moving states and inputs a little, and setting the unit back after it."""

    linear = False
    _sizes: Mapping[str, float] = MappingProxyType({})

    def __init__(
        self,
        name: str,
        unit: Any,
        ports: Sequence[Port],
        handle: Handle,
        courses: Mapping[str, Callable[[], Course | None]],
        step: float,
        sizes: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        """`sizes`: how large inputs usually are, where that is known; otherwise about 1."""
        self._sizes = sizes
        real = [port for port in ports if port.kind is Kind.REAL and not port.event]
        inputs = [port for port in real if port.causality is Causality.INPUT]
        self._given_out = [port for port in real if port.causality is Causality.OUTPUT]
        super().__init__(handle.labels, inputs, self._given_out)
        self._name, self._unit, self._handle, self._step = name, unit, handle, step
        self._given, self._ports = courses, inputs
        self._time = self._doubt = 0.0
        self._known: tuple[Array, Array] | None = None
        self._fitted: tuple[Array, Array] | None = None

    @property
    def slopes(self) -> float:
        return max(ACCURACY, self._doubt)

    @property
    def _now(self) -> float:
        return self._time

    def begin(self, states: Array) -> None:
        super().begin(states)
        self._doubt = 0.0
        self._known = self._fitted = None

    def give(self, port: str, time: float, rows: Sequence[Rows]) -> None:
        super().give(port, time, rows)
        self._time, self._known = time, None

    def restore(self, token: Any) -> None:
        super().restore(token)
        self._known = None

    def arrive(self, left: Any, t: float, to: float) -> None:
        self._step = to - t
        if not self.labels and to > t:
            self._refuse_memory(left, t, to)
        super().arrive(left, t, to)
        self._time, self._known = to, None

    def leave(self) -> Any:
        return self._unit.save()

    def values(self) -> list[float]:
        return self._handle.read()

    def put(self, values: Sequence[float]) -> None:
        if self._handle.writable:
            self._handle.write(values)

    def _refuse_memory(self, left: Any, t: float, to: float) -> None:
        """A unit that tells of no states must have none: what its inputs were is over when they are back."""
        after = self._unit.save()
        outputs = []
        for away in (0.0, 1.0):
            self._unit.restore(left)
            courses = {port.name: self._course(port, t) for port in self._ports}
            for port in self._ports:
                self._set(port, [[row[0] + away] for row in courses[port.name]])
            self._unit.advance(t, to, False)
            for port in self._ports:
                self._set(port, [[row[0]] for row in courses[port.name]])
            outputs.append(self._outputs_now())
        self._unit.restore(after)
        largest = float(np.abs(outputs).max(initial=0.0))
        if not np.allclose(outputs[0], outputs[1], rtol=1e-9, atol=1e-12 * largest):
            raise StepError(
                f"'{self._name}' cannot be linearised: it remembers what its inputs were, but tells nothing "
                f"of its states. {self._handle.advice}"
            )

    # ---------------------------------------------------------------- trying

    def _outputs_now(self) -> Array:
        cells: list[float] = []
        for port in self._given_out:
            value = self._unit.get(port.name)
            cells += [float(value)] if port.size is None else [float(v) for v in value]
        return np.array(cells)

    def _course(self, port: Port, t: float) -> list[list[float]]:
        """The coefficients of each cell of an input around `t`."""
        known = self._given[port.name]()
        if known is None:
            return [[float(value)] for value in port.initial]
        origin, course = known
        rows: list[Any] = [[c] if port.size is None else list(c) for c in course]  # type: ignore[arg-type]
        moved: Array = Moving(((0, len(rows)),)).shifted(t - origin) @ np.array(rows, dtype=np.float64)
        return [[float(value) for value in row] for row in moved.T]

    def _set(self, port: Port, cells: Sequence[Sequence[float]]) -> None:
        orders = zip(*cells, strict=True)
        given: list[Signal] = [row[0] if port.size is None else tuple(row) for row in orders]
        self._unit.set(port.name, given)

    def _input_slopes(self, t: float, count: Sequence[int], result: Callable[[], Array]) -> list[Array]:
        """How `result` reacts to the first coefficients of every input cell, each from the same point."""
        token = self._unit.save()
        columns: list[Array] = []
        number = 0
        for port in self._ports:
            course = self._course(port, t)
            for cell in range(port.cells):
                for order in range(count[number]):

                    def move(side: float, port: Port = port, cell: int = cell, order: int = order) -> None:
                        moved = [list(row) + [0.0] * (order + 1 - len(row)) for row in self._course(port, t)]
                        moved[cell][order] += side
                        self._set(port, moved)

                    value = course[cell][0]
                    columns.append(self._slope(token, self._size(port, value), value, move, result))
                number += 1
        self._unit.restore(token)
        return columns

    def _state_slopes(self, result: Callable[[], Array]) -> list[Array]:
        token, values = self._unit.save(), self._handle.read()
        columns: list[Array] = []
        for i, value in enumerate(values):

            def move(side: float, i: int = i) -> None:
                self._handle.write([*values[:i], values[i] + side, *values[i + 1 :]])

            columns.append(self._slope(token, 1.0 + abs(value), value, move, result))
        self._unit.restore(token)
        return columns

    def _slope(
        self,
        token: Any,
        size: float,
        value: float,
        move: Callable[[float], None],
        result: Callable[[], Array],
    ) -> Array:
        """How `result` reacts to one number that `move` moves, over lengths that agree."""
        wide: Array | None = None

        def over(length: float) -> tuple[Array, Array]:
            nonlocal wide
            ends = []
            for side in (length, -length):
                self._unit.restore(token)
                move(side)
                ends.append(result())
            slopes: Array = (ends[0] - ends[1]) / (2.0 * length)
            wide = np.abs(slopes) if wide is None else np.maximum(wide, np.abs(slopes))
            return slopes, ROUNDING * (np.abs(ends[0]) + np.abs(ends[1])) / length

        return self._known_as(best_slopes(over, STEP * size, STEP * size, STEP * abs(value)), wide)

    def _known_as(self, best: tuple[Array, float, float], wide: Array | None) -> Array:
        """The best slopes. How well they are known counts; those of the flat parts of a staircase are not."""
        found, doubt, _ = best
        flat = wide is not None and bool(((found == 0.0) & (wide > 0.0)).any())
        self._doubt = max(self._doubt, 1.0 if flat else doubt)
        return found

    def _size(self, port: Port, value: float) -> float:
        """How far, relatively, an input is moved."""
        return self._sizes.get(port.name, 1.0) + abs(value)

    def _gains(self) -> tuple[Array, Array]:
        if self._known is None:
            cells, states = len(self._outputs_now()), len(self.labels)
            direct = self._input_slopes(self._time, [1] * self._cells, self._outputs_now)
            if not states:
                by_state = np.zeros((cells, 0))
            elif self._handle.writable:
                by_state = np.array(self._state_slopes(self._outputs_now)).T
            else:
                by_state = self._fit(self._time)[1]
            self._known = by_state, np.array(direct).T.reshape(cells, self._cells)
        return self._known

    @property
    def _cells(self) -> int:
        return sum(port.cells for port in self._ports)

    def _flow(self, left: Any, t: float, to: float, moving: Moving) -> Flow:
        after = self._unit.save()
        self._unit.restore(left)

        usual: list[Any] = []

        def advanced() -> Array:
            self._unit.advance(t, to, False)
            apart = self._handle.apart()
            if usual:
                self._handle.check_apart(usual[0], apart)
            usual.append(apart)
            return np.array(self._handle.read())

        try:
            advanced()
            self._unit.restore(left)
            counts = [0] * self._cells
            for place, count in moving.cells:
                counts[place] = count
            columns = self._input_slopes(t, counts, advanced)
            if self._handle.writable:
                states = np.array(self._state_slopes(advanced)).T
            else:
                states = self._fit(t)[0]
        finally:
            self._unit.restore(after)
        in_order = _by_place(moving, columns)
        return Flow(np.hstack([states, np.array(in_order).T]) if in_order else states, self.slopes)

    def alike(
        self, now: float, step: float, driven: Sequence[str], later: Sequence[float]
    ) -> Sequence[float] | None:
        if not self._handle.writable:
            return ()  # an FMU's own business: its time is not ours to change
        unit, t = self._unit, now
        token = unit.save()

        def slopes(later: float, moved: Port | None = None, by: float = 0.0) -> Array:
            unit.restore(token)
            if later:
                self._handle.later(t, t + step, later)
            if moved is not None:
                self._set(moved, [[row[0] + by * (1.0 + abs(row[0]))] for row in self._course(moved, t)])
            columns: list[Array] = []

            def advanced() -> Array:
                unit.advance(t + later * step, t + (later + 1.0) * step, False)
                return np.array(self._handle.read())

            held = unit.save()
            for result in (advanced, self._outputs_now):
                unit.restore(held)
                columns += self._state_slopes(result)
                unit.restore(held)
                if moved is None:
                    columns += self._input_slopes(t, [1] * self._cells, result)
            return np.concatenate([column.ravel() for column in columns] or [np.zeros(0)])

        try:
            base = slopes(0.0)
            if self._handle.counts:  # every tenth step may do something else
                later = sorted({*later, *map(float, range(1, COUNTED))})
            tried: list[float] = []
            for k in (float(round(k)) or k for k in later):
                try:
                    other = slopes(k)
                except (InvalidInput, OverflowError):
                    if k < COUNTED:
                        raise
                    break  # the run may never come there in this state
                if differ(base, other):
                    return None
                tried.append(k)
            for port in self._ports:
                if port.name in driven:
                    one, *others = (slopes(0.0, port, by) for by in (1e-9, 0.3, -0.7))
                    if any(differ(one, other) for other in others):
                        return None
            return tried
        finally:
            unit.restore(token)

    def _fit(self, t: float) -> tuple[Array, Array]:
        """How states and outputs follow from states, fitted to runs in which inputs moved them."""
        if self._fitted is not None:
            return self._fitted
        self._handle.check_length(self._step)
        unit, h, size = self._unit, self._step, len(self.labels)
        token, turn = unit.save(), np.random.default_rng(7)
        length, runs = size + 3, 2 + size

        def run(moved: Array) -> tuple[list[Array], list[Array]]:
            unit.restore(token)
            states, outputs = [np.array(self._handle.read())], []
            for k in range(length):
                place = 0
                for port in self._ports:
                    course = self._course(port, t)
                    for cell in range(port.cells):
                        course[cell] = [course[cell][0] + moved[k, place]]
                        place += 1
                    self._set(port, [row[:1] for row in course])
                outputs.append(self._outputs_now())
                unit.advance(t + k * h, t + (k + 1) * h, False)
                states.append(np.array(self._handle.read()))
            return states, outputs

        sizes = np.array([self._size(p, cell[0]) for p in self._ports for cell in self._course(p, t)])
        ways = [sizes * turn.uniform(-1.0, 1.0, (length, self._cells)) for _ in range(runs)]
        base = run(np.zeros((length, self._cells)))
        unit.restore(token)
        values = np.concatenate([np.abs(part).max(axis=0, initial=0.0) for part in base])

        def fitted(far: float) -> tuple[Array, Array]:
            """All of it flat, from inputs that are moved so far, and what rounding makes of it."""
            rows: list[Array] = []
            ends: list[Array] = []
            for way in ways:
                states, outputs = run(far * way)
                for k in range(length):
                    rows.append(np.concatenate([states[k] - base[0][k], far * way[k]]))
                    ends.append(np.concatenate([states[k + 1] - base[0][k + 1], outputs[k] - base[1][k]]))
            return _solved(np.array(rows), np.array(ends), values)

        try:
            best = best_slopes(fitted, 10.0 * STEP, 10.0 * STEP)
        finally:
            unit.restore(token)
        if not np.isfinite(best[0]).all():
            raise StepError(
                f"'{self._name}' cannot be linearised: its inputs do not move all of its states ("
                f"{', '.join(self.labels)}), and these can neither be set nor are derivatives known. An FMU "
                "for model exchange, or one with directional derivatives, could be."
            )
        found = self._known_as(best, None).reshape(-1, size + self._cells)
        self._fitted = fitted_to = found[:size, :size], found[size:, :size]
        return fitted_to


def _solved(data: Array, ends: Array, values: Array) -> tuple[Array, Array]:
    """How ends follow from data, and what rounding of these values makes of it, both flat; not a number where
    the data do not tell."""
    scale = np.abs(data).max(axis=0) + 1e-300
    sizes = np.linalg.svd(data / scale, compute_uv=False)
    if not len(sizes) or not sizes[-1] >= FAINT * sizes[0]:
        nothing = np.full(ends.shape[1] * data.shape[1], np.nan)
        return nothing, nothing
    found = np.linalg.lstsq(data / scale, ends, rcond=None)[0].T / scale
    noise = ROUNDING * float(sizes[0] / sizes[-1]) * values[:, None] / scale[None, :]
    return np.asarray(found, dtype=np.float64).ravel(), noise.ravel()


def _by_place(moving: Moving, columns: list[Array]) -> list[Array]:
    """Columns that come by the place of their inputs, in the order of `moving`."""
    counts = dict(moving.cells)
    first: dict[int, int] = {}
    total = 0
    for place in sorted(counts):
        first[place] = total
        total += counts[place]
    return [columns[first[place] + k] for place, count in moving.cells for k in range(count)]
