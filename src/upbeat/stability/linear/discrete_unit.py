"""Beside discrete units: between events they stand still, and what a jump does is tried out and undone.

When they jump must not depend on the states of anybody: then events come at the same times wherever one is
near, and a sampled controller is a matrix for every event. Clocks and samplers are such units.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from upbeat.core.abilities import Ability
from upbeat.core.expr import Apply, Expr, Name, Number, Op, differentiate, fold, names, simplify
from upbeat.core.expr.nodes import Inner, Leaf
from upbeat.core.names import cell_names
from upbeat.core.ports import Causality, Kind
from upbeat.stability.linear.finite_differences import (
    ACCURACY,
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
from upbeat.units.discrete.devs import DevsUnit
from upbeat.units.discrete.model import NEVER, Discrete
from upbeat.units.discrete.unit import DiscreteUnit
from upbeat.units.equations.data import TIME
from upbeat.units.python import Sampled


def carries_numbers(model: Any, unit: Any) -> bool:
    """Whether a discrete unit takes, keeps or gives real numbers."""
    sampled = isinstance(unit, Sampled) and Ability.ROLLBACK in model.abilities
    return (sampled or isinstance(unit, (DiscreteUnit, DevsUnit))) and any(
        port.kind is Kind.REAL and port.causality is not Causality.PARAMETER for port in model.ports
    )


class Kept:
    """A handle for what a discrete unit keeps: its numbers, but for those that say when it jumps."""

    counts = False

    writable = True
    advice = ""

    def __init__(self, name: str, unit: Any, model: Any) -> None:
        self._name, self._unit = name, unit
        token = unit.save()
        if isinstance(unit, DiscreteUnit):
            discrete: Discrete = getattr(model, "discrete", model)
            timed = {
                v.name for v in discrete.variables for mode in discrete.modes if _moves(mode.due, v.name)
            }
            real = [v.kind is Kind.REAL and v.name not in timed for v in discrete.variables]
            self.paths: list[Path] = [(1 + i,) for i, own in enumerate(real) if own]
            self._apart: list[Path] = [(1 + i,) for i, own in enumerate(real) if not own]
            self.labels = tuple(v.name for v, own in zip(discrete.variables, real, strict=True) if own)
            self._modes: list[Path] = [
                (1 + i,)
                for i, v in enumerate(discrete.variables)
                if v.kind is not Kind.REAL and _read(discrete, v.name)
            ]
        elif isinstance(unit, Sampled):
            # What it holds, and what the unit inside remembers from sample to sample, its inputs among it.
            inner = Tokens(name, NamedErrors(name, unit.inside), model.ports, unit.time, unit.period)
            held = [(3, port.name) for port in model.ports if (3, port.name) in Look(token).numbers]
            self.paths = [*held, *((4, *path) for path in inner.remembered)]
            self._apart = [(1,), *((4, *path) for path in inner.steady)]
            self.labels = tuple(called(path[1:]) for path in self.paths)
        else:
            self.paths = [path for path in Look(token).numbers if path[0] == "state"]
            self._apart = []
            self.labels = tuple(called(path[1:]) for path in self.paths)

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

    def signs(self) -> dict[Path, Any]:
        """What it keeps that is no real number, and that others of its numbers or outputs may depend on."""
        if isinstance(self._unit, Sampled):
            return {}  # what is no number there was looked at when the unit inside was tried out
        token = self._unit.save()
        known = dict(leaves(token))
        if isinstance(self._unit, DiscreteUnit):
            return {path: known[path] for path in self._modes}
        whole = [path for path, fixed in zip(self.paths, self.whole(), strict=True) if fixed]
        return {path: value for path, value in known.items() if path in whole} | {
            path: value for path, value in Look(token).others.items() if path[0] == "state"
        }

    def remainder(self) -> tuple[Any, ...]:
        token = self._unit.save()
        look = Look(token)
        others = {path: value for path, value in look.others.items() if path[0] != "events"}
        numbers = look.numbers
        if isinstance(self._unit, Sampled):
            return self._unit.due(), {path: numbers[path] for path in self._apart}, others
        if isinstance(self._unit, DiscreteUnit):
            return self._unit.due(), {path: numbers[path] for path in self._apart}
        fixed = {
            path: numbers[path]
            for path, is_whole in zip(self.paths, self.whole(), strict=True)
            if is_whole and path in numbers
        }
        return self._unit.due(), (token.since, token.until), others, fixed, tuple(numbers)

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

    def later(self, t: float, to: float, steps: float) -> None:
        """What it does between events does not depend on the time."""


def _read(discrete: Discrete, name: str) -> bool:
    """Whether anything but a variable itself, and the time of the next event, depends on it."""
    used = [cell for _, cells in discrete.outputs for cell in cells]
    for mode in discrete.modes:
        for emission in mode.emissions:
            used += [emission.present, *emission.cells]
        used += [value for to, value in (*mode.internal, *mode.external) if to != name]
    return name == discrete.mode or any(name in names(expression) for expression in used)


def _moves(due: Any, name: str) -> bool:
    slope = simplify(differentiate(due, name))
    return not (isinstance(slope, Number) and slope.value == 0.0)


class _Clock(enum.Enum):
    """How an expression goes with the time, if all times that a unit remembers go with it."""

    STILL = 0
    GOES = 1  # as the time does
    NEVER = 2  # infinite: both
    OTHER = 3


COMPARED = {Op.LT, Op.LE, Op.GT, Op.GE, Op.EQ, Op.NE}


def _by_the_clock(discrete: Discrete) -> bool:
    """Whether what jumps do, to first order, may depend on the time itself, and not only on how long ago
    something was: then those of one period say nothing about later ones."""
    changes = [pair for mode in discrete.modes for pair in (*mode.internal, *mode.external)]
    real = {variable.name for variable in discrete.variables if variable.kind is Kind.REAL}

    def timed(node: Inner, args: list[bool]) -> bool:
        """Whether a sum, or one of several values, has the time in it: not what they are chosen by."""
        if isinstance(node, Apply) and node.op is Op.WHERE:
            return any(args[1:])
        return isinstance(node, Apply) and node.op in (Op.ADD, Op.SUB, Op.MIN, Op.MAX) and any(args)

    times = {
        to for to, value in changes if to in real and fold(value, lambda leaf: leaf == Name(TIME), timed)
    }

    def goes(expression: Expr) -> _Clock:
        def leaf(node: Leaf) -> _Clock:
            if isinstance(node, Number) and abs(node.value) >= NEVER:
                return _Clock.NEVER
            return _Clock.GOES if isinstance(node, Name) and node.id in {TIME, *times} else _Clock.STILL

        return fold(expression, leaf, _together)

    while odd := {to for to, value in changes if to in times and goes(value) in (_Clock.STILL, _Clock.OTHER)}:
        times -= odd
    sent = [one for mode in discrete.modes for one in mode.emissions]
    decided = [value for to, value in changes if to not in real] + [one.present for one in sent]
    given = [value for to, value in changes if to in real - times]
    given += [cell for _, cells in discrete.outputs for cell in cells] + [
        c for one in sent for c in one.cells
    ]
    by = real | {n for p in discrete.ports if p.kind is Kind.REAL for n in cell_names(p.name, p.size)}
    slopes = (
        simplify(differentiate(cell, name)) for cell in given for name in sorted(names(cell) & (by - times))
    )
    return any(
        TIME in names(one) and goes(one) not in (_Clock.STILL, _Clock.NEVER) for one in (*decided, *slopes)
    )


def _together(node: Inner, args: list[_Clock]) -> _Clock:
    if _Clock.OTHER in args:
        return _Clock.OTHER
    kinds = set(args) - {_Clock.NEVER}
    if isinstance(node, Apply):
        match node.op, args:
            case Op.WHERE, [_Clock.STILL, a, b]:
                kinds = {a, b} - {_Clock.NEVER}
                return _Clock.OTHER if len(kinds) > 1 else kinds.pop() if kinds else _Clock.NEVER
            case ((Op.MIN | Op.MAX), _) if len(kinds) <= 1:
                return kinds.pop() if kinds else _Clock.NEVER
            case Op.SUB, [_Clock.GOES, _Clock.GOES]:
                return _Clock.STILL
            case ((Op.ADD | Op.SUB), [_Clock.GOES, _Clock.STILL]) | (Op.ADD, [_Clock.STILL, _Clock.GOES]):
                return _Clock.GOES
            case op, _ if op in COMPARED and len(kinds) <= 1:
                return _Clock.STILL
    return _Clock.OTHER if _Clock.GOES in kinds else _Clock.STILL


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
        handle = Kept(name, unit, model)
        DynamicLinearUnit.__init__(self, handle.labels, inputs, self._given_out)
        self._name, self._unit, self._handle, self._step = name, unit, handle, 0.0
        self.kept = handle
        self._given, self._ports = trajectories, inputs
        self._time = self._doubt = 0.0
        self._known, self._fitted = None, None
        self._pending: frozenset[str] = frozenset()
        self._events = {port.name for port in inputs if port.event}
        self._timed = isinstance(unit, DiscreteUnit) and _by_the_clock(getattr(model, "discrete", model))
        self._inside: DifferencedUnit | None = None
        if isinstance(unit, Sampled):
            named = NamedErrors(name, unit.inside)
            tokens = Tokens(name, named, model.ports, unit.time, unit.period)
            self._inside = DifferencedUnit(name, named, model.ports, tokens, trajectories, unit.period)

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
        if self._timed:
            return None
        if self._inside is None:
            return ()
        period = self._unit.period
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
