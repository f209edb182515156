"""The running unit of a `Discrete` model, in Python: the twin of native/src/discrete.cpp, bit for bit."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from upbeat.core.errors import ModelError, UpbeatError, suggest
from upbeat.core.ports import Kind, Port, Signal, Value
from upbeat.units.discrete.pieces import Assigning, ModePieces, assigning
from upbeat.units.inputs import NUMBERS, Courses, check_packed, packed_size
from upbeat.units.numbers import conversions

if TYPE_CHECKING:
    from upbeat.units.discrete.model import Discrete

Token = tuple[Value, ...]


class DiscreteError(UpbeatError):
    """A discrete unit could not go on. The engine wraps it into a `UnitError` with unit, call and time."""


_FROM_NUMBER = conversions(DiscreteError)


def start_values(model: Discrete, start: float) -> list[float]:
    """The variables of a unit that starts at time `start`."""
    values = [float(variable.start) for variable in model.variables]
    quiet = len(model.arguments) - 1 - len(values) - len(model.values)
    found = assign(model, assigning(model, model.initial), [start, *values, *(0.0,) * quiet, *model.values])
    for place, value in found:
        values[place] = value
    mode_of(model, values)
    return values


def assign(model: Discrete, code: Assigning, arguments: Sequence[float]) -> list[tuple[int, float]]:
    """The variables that `code` changes, and their new values."""
    found = []
    for place, value in zip(code.to, code.piece.run(arguments), strict=True):
        found.append((place, float(_FROM_NUMBER[model.variables[place].kind](value))))
    return found


def mode_of(model: Discrete, values: Sequence[float]) -> int:
    """Which mode holds."""
    if model.mode_place is None:
        return 0
    mode = values[model.mode_place]
    if not 0 <= mode < len(model.modes):
        raise DiscreteError(f"there is no mode {mode:.0f}, only 0 to {len(model.modes) - 1}")
    return int(mode)


class DiscreteUnit:
    """A unit whose variables change in jumps only.

    A token is a flat tuple: time, variables, the ordinary inputs as `Courses.pack` lays them out, the cells
    of the event inputs (0 where nothing has been set), and for each of these whether it has been set. The
    native engine keeps the same numbers in the same order.
    """

    def __init__(self, model: Discrete, start: float) -> None:
        self._is = model
        self.time = start
        self._variables = start_values(model, start)
        self._mode = model.pieces(mode_of(model, self._variables))
        self._courses = Courses(model.inputs, start, NUMBERS)
        self._events = {port.name: (port, i, first) for i, (port, first) in enumerate(_placed(model.heard))}
        self._set = [0.0] * sum(port.cells for port in model.heard)
        self._present = [0.0] * len(model.heard)
        self._parameters = model.values
        self._inputs = frozenset(port.name for port in model.inputs)
        self._sent = {port.name: i for i, port in enumerate(model.sent)}
        self._forget()

    def _forget(self) -> None:
        """Something has changed: nothing computed from it holds any more."""
        self._arguments: list[float] | None = None
        self._due: float | None = None
        self._emitted: list[Signal | None] | None = None
        self._shown: dict[str, Signal] | None = None

    def _now(self) -> list[float]:
        """The value of every argument."""
        if self._arguments is None:
            inputs = self._courses.at(self.time)
            self._arguments = [
                self.time, *self._variables, *inputs, *self._set, *self._present, *self._parameters,
            ]  # fmt: skip
        return self._arguments

    def due(self) -> float:
        """When something will happen by itself: the unit's own time or earlier if a jump is due at once."""
        if self._due is None:
            (due,) = self._mode.due.run(self._now())
            if math.isnan(due):
                raise DiscreteError("the time of the next event is nan")
            self._due = due
        return self._due

    def get(self, port: str) -> Signal | None:
        """An ordinary output now; of an event output what the next jump sends, None if that is nothing."""
        if port in self._sent:
            if self.due() > self.time:
                return None
            if self._emitted is None:
                self._emitted = self._emissions(self._mode)
            return self._emitted[self._sent[port]]
        if self._shown is None:
            cells = iter(self._is.computed.run(self._now()))
            self._shown = {known.name: _signal(known, cells) for known in self._is.shown}
        if port not in self._shown:
            hint = suggest(port, [*self._shown, *self._sent], "outputs")
            raise ModelError(f"there is no output '{port}'. {hint}")
        return self._shown[port]

    def _emissions(self, mode: ModePieces) -> list[Signal | None]:
        found: list[Signal | None] = [None] * len(self._is.sent)
        cells = iter(mode.emissions.run(self._now()))
        for place in mode.emitted:
            port = self._is.sent[place]
            if _FROM_NUMBER[Kind.BOOLEAN](next(cells)):
                found[place] = _signal(port, cells)
            else:
                for _ in range(port.cells):
                    next(cells)
        return found

    def set(self, port: str, coefficients: Sequence[Signal]) -> None:
        """From now on an ordinary input is Σ coefficients[k]·(t - now)**k; the next jump takes an event."""
        if port in self._events:
            self._hear(port, coefficients)
        elif port in self._inputs:
            self._courses.set(port, self.time, coefficients)
        else:
            hint = suggest(port, [*self._inputs, *self._events], "inputs")
            raise ModelError(f"there is no input '{port}'. {hint}")
        self._forget()

    def _hear(self, name: str, coefficients: Sequence[Signal]) -> None:
        port, i, first = self._events[name]
        if len(coefficients) != 1:
            raise ModelError(f"an event has one value, not {len(coefficients)} coefficients")
        try:
            cells = port.accept(coefficients[0])
        except (TypeError, ValueError) as error:
            raise ModelError(f"event '{name}': {error}") from None
        self._set[first : first + port.cells] = map(float, cells)
        self._present[i] = 1.0

    def advance(self, t: float, to: float, early: bool = False) -> float:
        """Move the clock: nothing happens between events."""
        if to < t:
            raise DiscreteError(f"cannot advance backwards, from {t:.9g} to {to:.9g}")
        self.time = to
        self._forget()
        return to

    def jump(self) -> bool:
        """Take the events that have been set, or do what is due; True if something is due at once again."""
        if any(self._present):
            self._write(self._mode.external)
        elif self.due() <= self.time:
            self._write(self._mode.internal)
        else:
            return False
        return self.due() <= self.time

    def _write(self, code: Assigning) -> None:
        for place, value in assign(self._is, code, self._now()):
            self._variables[place] = value
        self._set = [0.0] * len(self._set)
        self._present = [0.0] * len(self._present)
        self._settle()

    def _settle(self) -> None:
        self._mode = self._is.pieces(mode_of(self._is, self._variables))
        self._forget()

    def save(self) -> Token:
        """Everything that the future depends on."""
        return (self.time, *self._variables, *self._courses.pack(), *self._set, *self._present)

    def restore(self, token: Token) -> None:
        """Set back to what `save` gave."""
        numbers = [float(value) for value in token]
        variables = 1 + len(self._variables)
        inputs = variables + packed_size(self._is.inputs)
        self.time = numbers[0]
        self._variables = numbers[1:variables]
        self._courses.unpack(numbers[variables:inputs])
        self._set = numbers[inputs : inputs + len(self._set)]
        self._present = numbers[inputs + len(self._set) :]
        self._settle()

    def to_bytes(self, token: Token) -> bytes:
        """Little-endian doubles, in the order of the token."""
        return struct.pack(f"<{len(token)}d", *token)

    def from_bytes(self, data: bytes) -> Token:
        """The token that `to_bytes` was given."""
        size = state_size(self._is)
        if len(data) != 8 * size:
            raise ModelError(f"not a state of this unit: expected {8 * size} bytes, not {len(data)}")
        token: tuple[float, ...] = struct.unpack(f"<{size}d", data)
        try:
            mode_of(self._is, token[1:])
        except DiscreteError as error:
            raise ModelError(f"not a state of this unit: {error}") from None
        first = 1 + len(self._is.variables)
        check_packed(self._is.inputs, token[first : first + packed_size(self._is.inputs)])
        return token


def state_size(model: Discrete) -> int:
    """The length of a token."""
    events = sum(port.cells + 1 for port in model.heard)
    return 1 + len(model.variables) + packed_size(model.inputs) + events


def _placed(ports: Sequence[Port]) -> list[tuple[Port, int]]:
    """Each port, and its first cell among those of all."""
    placed, first = [], 0
    for port in ports:
        placed.append((port, first))
        first += port.cells
    return placed


def _signal(port: Port, cells: Iterator[float]) -> Signal:
    """What goes out of `port`, from the next computed cells."""
    convert = _FROM_NUMBER[port.kind]
    taken = tuple(convert(next(cells)) for _ in range(port.cells))
    return taken[0] if port.size is None else taken
