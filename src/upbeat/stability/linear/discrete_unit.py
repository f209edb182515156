"""Beside discrete units: between events they stand still, and what a jump does is tried out and undone.

When they jump must not depend on the states of anybody: then events come at the same times wherever one is
near, and a sampled controller is a matrix for every event. Clocks and samplers are such units.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from upbeat.core.abilities import KeptNumbers
from upbeat.core.ports import Causality, Kind, Port
from upbeat.stability.linear.finite_differences import (
    ACCURACY,
    Ahead,
    DifferencedUnit,
    Look,
    NamedErrors,
    Path,
    Tokens,
    Trajectory,
    called,
    leaves,
    rebuilt,
)
from upbeat.stability.linear.flows import Flow, Moving
from upbeat.stability.linear.forms import Array, DynamicLinearUnit, NoMatrix, Rows, _at


class Kept:
    """A handle for what a unit keeps from jump to jump (`KeepsNumbers`)."""

    writable = True
    advice = ""

    def __init__(self, name: str, unit: Any, ports: Sequence[Port]) -> None:
        self._name, self._unit = name, unit
        self.layout: KeptNumbers = unit.kept_numbers()
        known = Look(unit.save()).numbers
        self.paths = [path for place in self.layout.states for path in known if _within(path, place)]
        self._times = [path for place in self.layout.times for path in known if _within(path, place)]
        self.labels = self.layout.names or tuple(called(path[1:]) for path in self.paths)
        self.inside: Tokens | None = None
        if (sampling := self.layout.sampling) is not None:
            # What the unit inside remembers from sample to sample, its inputs among it.
            inner = NamedErrors(name, sampling.unit)
            self.inside = Tokens(name, inner, ports, unit.time, sampling.period)
            remembered = [(*sampling.token, *path) for path in self.inside.remembered]
            self.paths += remembered
            self.labels += tuple(called(path[1:]) for path in remembered)
            self._times += [(*sampling.token, *path) for path in self.inside.steady]

    def whole(self) -> list[bool]:
        """Which of the numbers are whole ones, now."""
        known = dict(leaves(self._unit.save()))
        return [isinstance(known.get(path), int) for path in self.paths]

    def read(self) -> list[float]:
        known = Look(self._unit.save()).numbers
        try:
            return [known[path] for path in self.paths]
        except KeyError as missing:
            raise NoMatrix(
                f"'{self._name}' keeps {called(missing.args[0])} at some times and not at others, so that "
                "its state is no fixed list of numbers, and nothing linear describes it."
            ) from None

    def write(self, values: Sequence[float]) -> None:
        places = zip(self.paths, values, self.whole(), strict=True)
        self.put({path: value for path, value, fixed in places if not fixed})

    def put(self, wanted: Mapping[Path, Any]) -> None:
        """Other values in some places."""
        self._unit.restore(rebuilt(self._unit.save(), wanted))

    def modes(self) -> dict[Path, Any]:
        """What it keeps that is no real number, and that others of its numbers or outputs may depend on."""
        token = self._unit.save()
        others = Look(token).others
        real = {path for path, whole in zip(self.paths, self.whole(), strict=True) if not whole}
        return {
            path: others.get(path, value)
            for path, value in leaves(token)
            if path not in real and any(_within(path, place) for place in self.layout.modes)
        }

    def remainder(self) -> tuple[Any, ...]:
        look = Look(self._unit.save())
        times = {path: look.numbers[path] for path in self._times}
        whole = {p: v for p, v in self.modes().items() if p in look.numbers and p in set(self.paths)}
        kept = [p for p in look.numbers if any(_within(p, place) for place in self.layout.states)]
        return self._unit.due(), times, look.others, whole, kept

    def check_remainder(self, one: Any, two: Any) -> None:
        if one[0] != two[0]:
            raise NoMatrix(
                f"when '{self._name}' has its next event depends on the states or inputs, so that events do "
                "not come at the same times nearby, and what a step does is no matrix."
            )
        if one[1:] != two[1:]:
            raise NoMatrix(
                f"'{self._name}' decides something at this operating point that small deviations change: "
                "nothing linear describes that. Choose another point (at=…, --at)."
            )

    def check_length(self, step: float) -> None:
        """Steps of any length are tried as they are."""

    def ahead(self, t: float, to: float) -> Ahead:
        raise NotImplementedError  # between events it stands still


def _within(path: Path, place: Path) -> bool:
    return path[: len(place)] == place


class DiscreteLinearUnit(DifferencedUnit):
    """A discrete unit: rows of what it keeps change in jumps only."""

    def __init__(
        self,
        name: str,
        unit: Any,
        model: Any,
        trajectories: Mapping[str, Callable[[], Trajectory | None]],
    ) -> None:
        real = [port for port in model.ports if port.kind is Kind.REAL]
        inputs = [port for port in real if port.causality is Causality.INPUT]
        self._given_out = [port for port in real if port.causality is Causality.OUTPUT]
        handle = Kept(name, unit, model.ports)
        DynamicLinearUnit.__init__(self, handle.labels, inputs, self._given_out)
        self._name, self._unit, self._handle, self._step = name, unit, handle, 0.0
        self.kept = handle
        self._given, self._ports = trajectories, inputs
        self._time = self._doubt = 0.0
        self._known, self._fitted = None, None
        self._pending: frozenset[str] = frozenset()
        self._events = {port.name for port in inputs if port.event}
        self._inside: DifferencedUnit | None = None
        if (sampling := handle.layout.sampling) is not None and handle.inside is not None:
            named = NamedErrors(name, sampling.unit)
            self._inside = DifferencedUnit(
                name, named, model.ports, handle.inside, trajectories, sampling.period
            )

    @property
    def slopes(self) -> float:
        return max(ACCURACY, self._doubt)

    @property
    def due(self) -> float:
        """When it has its next event by itself."""
        return float(self._unit.due())

    def begin(self, states: Array) -> None:
        super().begin(states)
        self._pending = frozenset()

    def give(self, port: str, time: float, rows: Sequence[Rows]) -> None:
        super().give(port, time, rows)
        if port in self._events:
            self._pending |= {port}

    def arrive(self, left: Any, t: float, to: float) -> None:
        self._time, self._known = to, None

    def alike(
        self, now: float, step: float, driven: Sequence[str], later: Sequence[float]
    ) -> Sequence[float] | None:
        """What a jump does is looked at for every jump of a period; later ones may do something else."""
        if self.kept.layout.timed:
            return None
        if self._inside is None or self.kept.layout.sampling is None:
            return ()
        period = self.kept.layout.sampling.period
        last = self._unit.due() - period
        tried = self._inside.alike(last, period, (), [k * step / period for k in later if k * step >= period])
        return None if tried is None else [k * period / step for k in tried]

    def save(self) -> Any:
        return super().save(), self._pending

    def restore(self, token: Any) -> None:
        rows, self._pending = token
        super().restore(rows)

    def _flow(self, left: Any, t: float, to: float, moving: Moving) -> Flow:
        raise NotImplementedError  # it stands still

    def _outputs_now(self) -> Array:
        cells: list[float] = []
        for port in self._given_out:
            value = self._unit.get(port.name)
            cells += [0.0] * port.cells if value is None else [value] if port.size is None else list(value)
        return np.array(cells, dtype=np.float64)

    def _sending(self) -> list[bool]:
        return [self._unit.get(port.name) is not None for port in self._given_out]

    def _counts(self, events: bool) -> list[int]:
        """Which input cells are moved: signals, and events that have come in."""
        found: list[int] = []
        for port in self._ports:
            moved = (events and port.name in self._pending) if port.name in self._events else True
            found += [int(moved)] * port.cells
        return found

    def _moved_by(self, result: Callable[[], Array], *, events: bool, size: int) -> tuple[Array, Array]:
        """How a result reacts to what is kept and to all inputs."""
        counts = self._counts(events)
        by_input = np.zeros((size, self._cells))
        columns = self._input_slopes(self._time, counts, result)
        for place, column in zip(np.flatnonzero(counts), columns, strict=True):
            by_input[:, place] = column
        by_state = np.zeros((size, len(self.labels)))
        token, values, whole = self._unit.save(), self._handle.read(), self.kept.whole()
        for i, value in enumerate(values):
            if not whole[i] or self._becomes_real(token, i):

                def move(side: float, i: int = i) -> None:
                    self.kept.put({self.kept.paths[i]: values[i] + side})

                by_state[:, i] = self._slope(token, 1.0 + abs(value), value, move, result)
        self._unit.restore(token)
        return by_state, by_input

    def _becomes_real(self, token: Any, i: int) -> bool:
        """Whether a whole number is none any more after the jump, as one that an integral begins with."""
        self._unit.restore(token)
        self._unit.jump()
        found = not self.kept.whole()[i]
        self._unit.restore(token)
        return found

    def _gains(self) -> tuple[Array, Array]:
        if self._known is None:
            usual = self._sending()

            def outputs() -> Array:
                if self._sending() != usual:
                    raise NoMatrix(
                        f"whether '{self._name}' sends an event depends on the states or inputs at this "
                        "operating point, and nothing linear describes that."
                    )
                return self._outputs_now()

            self._known = self._moved_by(outputs, events=False, size=len(self._outputs_now()))
        return self._known

    def strike(self) -> Any:
        return self._unit.save()

    def struck(self, left: Any) -> None:
        after, now = self._unit.save(), self._time
        usual = self._handle.remainder()

        def jumped() -> Array:
            self._unit.jump()
            self._handle.check_remainder(usual, self._handle.remainder())
            return np.array(self._handle.read())

        whole = self.kept.whole()
        self._unit.restore(left)
        self._time = self._unit.time
        try:
            by_state, by_input = self._moved_by(jumped, events=True, size=len(self.labels))
        finally:
            self._unit.restore(after)
            self._time = now
        rows = by_state @ self._rows
        for name, (origin, coefficients) in self._trajectories.items():
            place, cells = self._inputs[name]
            if name not in self._events or name in self._pending:
                rows = rows + by_input[:, place : place + cells] @ _at(coefficients, self._unit.time - origin)
        rows[whole] = 0.0
        self._rows, self._known = rows, None
        self._trajectories = {
            name: trajectory for name, trajectory in self._trajectories.items() if name not in self._events
        }
        self._pending = frozenset()
        self._blur += self.slopes
