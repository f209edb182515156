"""Running discrete-event units: in Python, and as flat tables for the native engine."""

from __future__ import annotations

import enum
import math
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from upbeat.core.abilities import KeptNumbers
from upbeat.core.errors import ModelError, UpbeatError, suggest
from upbeat.core.expr import (
    ONE,
    Apply,
    Expr,
    Kernel,
    Lookup,
    Name,
    Number,
    Op,
    Table1,
    differentiate,
    fold,
    names,
    simplify,
)
from upbeat.core.expr.nodes import Inner, Leaf
from upbeat.core.names import cell_names
from upbeat.core.ports import Causality, Kind, Port, Signal, Value
from upbeat.core.records import dataclass
from upbeat.units.discrete.converters import Converter, carried, formula, payload
from upbeat.units.discrete.model import NEVER, Discrete, Emission, Mode, Variable
from upbeat.units.equations.data import TIME
from upbeat.units.inputs import NUMBERS, InputTrajectories, check_packed, conversions, packed_size
from upbeat.units.shorthand import Complaints, unwrapped

if TYPE_CHECKING:
    from upbeat.units.discrete.model import Assignments, Discrete, Mode


# ----------------------------------------------------------------------------------------------------
# `Schedule`: events at times that are known beforehand.


@dataclass(frozen=True, init=False)
class Schedule(Converter):
    """Events from the output `event` at given times, each with its value.

        Schedule([1.0, 2.5, 2.5], ["on", "off", "on"])
        Schedule([1.0, 2.0])

    Times do not fall; those that are equal are events one after the other at the same instant, and those
    before the start of the run are left out. Without values the event only happens. Texts are labels, in
    the order of `items`, or else in that of their first appearance; `of` (the kind) and `unit` are those of
    the event. In files: ``kind = "schedule"``.
    """

    def __init__(
        self,
        at: Sequence[float],
        value: Sequence[Any] | None = None,
        *,
        of: str | None = None,
        items: Sequence[str] | Mapping[str, int] | None = None,
        unit: str | None = None,
    ) -> None:
        complaints = Complaints()
        times = _times(unwrapped(at), complaints)
        port, values = _values(unwrapped(value), len(times), of, items, unit, complaints)
        complaints.raise_if_any()
        discrete = Discrete(
            ports=(carried(port, "event", Causality.OUTPUT, event=True),),
            variables=(Variable("k", Kind.INTEGER, 0),),
            modes=(
                Mode(
                    due=formula(f"at if k < {len(times)} else inf", at=_nth(times)),
                    emissions=(Emission("event", ONE, (ONE if value is None else _nth(values),)),),
                    internal=(("k", formula("k + 1")),),
                ),
            ),
            initial=(("k", _passed(times)),),
        )
        spec = {"at": at, "value": value, "of": of, "items": items, "unit": unit}
        super().__init__(discrete, spec)


def _times(given: Any, complaints: Complaints) -> list[float]:
    port = Port("at", Causality.PARAMETER)
    times: list[float] = []
    with complaints.at("at"):
        if not isinstance(given, (list, tuple)) or not given:
            raise ModelError(f"a schedule needs its times: at = [1.0, 2.0], not {given!r}")
        times = [float(port.value(item)) for item in given]
        for time in times:
            if not math.isfinite(time):
                raise ModelError(f"a time of a schedule is a finite number, not {time}")
        for before, after in pairwise(times):
            if after < before:
                raise ModelError(f"the times of a schedule do not fall, but {after:g} follows {before:g}")
    return times


def _values(
    given: Any, count: int, of: Any, items: Any, unit: Any, complaints: Complaints
) -> tuple[Port, list[float]]:
    """What the events are, and what each of them says."""
    pure = Port("value", Causality.PARAMETER, Kind.BOOLEAN)
    with complaints.at("value"):
        if given is None:
            if any(option is not None for option in (of, items, unit)):
                raise ModelError(
                    "without values the event only happens: give a list of values, one for each time"
                )
            return pure, []
        if not isinstance(given, (list, tuple)):
            raise ModelError(f"one value for each time is needed, in a list, not {given!r}")
        if count and len(given) != count:
            raise ModelError(f"there are {count} times, but {len(given)} values")
        if items is None and given and all(isinstance(item, str) for item in given):
            items = list(dict.fromkeys(given))
        port = payload("value", None, of, items, unit, None)
        if port.kind is Kind.BOOLEAN or any(isinstance(item, bool) for item in given):
            raise ModelError("an event that is boolean only happens: leave the values out")
        return port, [float(port.value(item)) for item in given]
    return pure, []


def _nth(values: Sequence[float]) -> Expr:
    """The value at place `k`."""
    places = range(max(len(values), 2))  # a table has two points at least
    padded = [values[min(place, len(values) - 1)] for place in places]
    return Lookup(Table1(tuple(map(float, places)), tuple(padded), mode="hold"), (Name("k"),))


def _passed(times: Sequence[float]) -> Expr:
    """How many times lie before the start."""
    knots = sorted(set(times))
    if len(knots) == 1:
        return formula(f"{len(times)} if time > last else 0", last=Number(knots[0]))

    def table(values: Sequence[float]) -> Expr:
        return Lookup(Table1(tuple(knots), tuple(values), mode="hold"), (Name("time"),))

    before = table([float(bisect_left(times, knot)) for knot in knots])
    until = table([float(bisect_right(times, knot)) for knot in knots])
    return formula(
        "0 if time <= first else before if time == knot else until",
        first=Number(knots[0]), before=before, until=until, knot=table(knots),
    )  # fmt: skip


# ----------------------------------------------------------------------------------------------------
# The code of a `Discrete` model: kernels, each with the few arguments that it needs.


@dataclass(frozen=True)
class Piece:
    """A kernel, and where its inputs are among the arguments of the model (rising).

    Kernels over all arguments would be simpler, but most need two or three, and a unit with hundreds of
    modes has hundreds of pieces: what is not read need not be handed over.
    """

    kernel: Kernel
    places: tuple[int, ...]

    @classmethod
    def of(cls, places: Mapping[str, int], exprs: Iterable[Expr]) -> Piece:
        """The code of `exprs`, where names are found at `places`."""
        cells = tuple(exprs)
        used = sorted({name for cell in cells for name in names(cell)}, key=places.__getitem__)
        return cls(Kernel(tuple(used), cells), tuple(places[name] for name in used))

    @cached_property
    def run(self) -> Callable[[Sequence[float]], list[float]]:
        """From all arguments to the values."""
        function, places = self.kernel.python(), self.places
        if not places:
            values = function(())
            return lambda arguments: values
        return lambda arguments: function([arguments[place] for place in places])


@dataclass(frozen=True)
class Assigning:
    """Code that gives variables new values, and which these are."""

    piece: Piece
    to: tuple[int, ...]


@dataclass(frozen=True)
class ModePieces:
    """The code of one mode. `emissions` gives, for each event output in `emitted` (by its place among them),
    whether it is present and then its cells."""

    due: Piece
    emissions: Piece
    emitted: tuple[int, ...]
    internal: Assigning
    external: Assigning


def mode_pieces(model: Discrete, mode: Mode) -> ModePieces:
    """The code of one mode of `model`."""
    outputs = [port.name for port in model.sent]
    cells = [expr for emission in mode.emissions for expr in (emission.present, *emission.cells)]
    return ModePieces(
        due=Piece.of(model.places, [mode.due]),
        emissions=Piece.of(model.places, cells),
        emitted=tuple(outputs.index(emission.port) for emission in mode.emissions),
        internal=assigning(model, mode.internal),
        external=assigning(model, mode.external),
    )


def assigning(model: Discrete, assignments: Assignments) -> Assigning:
    """The code of some assignments."""
    variables = [variable.name for variable in model.variables]
    piece = Piece.of(model.places, [value for _, value in assignments])
    return Assigning(piece, tuple(variables.index(name) for name, _ in assignments))


# ----------------------------------------------------------------------------------------------------
# The running unit of a `Discrete` model, in Python: the twin of native/src/discrete.cpp, bit for bit.

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

    A token is a flat tuple: time, variables, the ordinary inputs as `InputTrajectories.pack` lays them out,
    the cells of the event inputs (0 where nothing has been set), and for each of these whether it has been
    set. The native engine keeps the same numbers in the same order.
    """

    def __init__(self, model: Discrete, start: float) -> None:
        self._is = model
        self.time = start
        self._variables = start_values(model, start)
        self._mode = model.pieces(mode_of(model, self._variables))
        self._trajectories = InputTrajectories(model.inputs, start, NUMBERS)
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
            inputs = self._trajectories.at(self.time)
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
            self._trajectories.set(port, self.time, coefficients)
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
        return (self.time, *self._variables, *self._trajectories.pack(), *self._set, *self._present)

    def kept_numbers(self) -> KeptNumbers:
        """Its real variables, but for those that say when it jumps."""
        model = self._is
        timed = {v.name for v in model.variables for mode in model.modes if _moves(mode.due, v.name)}
        placed = [((1 + i,), variable) for i, variable in enumerate(model.variables)]
        real = [(at, v.name) for at, v in placed if v.kind is Kind.REAL and v.name not in timed]
        return KeptNumbers(
            states=tuple(at for at, _ in real),
            names=tuple(name for _, name in real),
            times=tuple(at for at, v in placed if v.kind is not Kind.REAL or v.name in timed),
            modes=tuple(at for at, v in placed if v.kind is not Kind.REAL and _read(model, v.name)),
            timed=_by_the_clock(model),
        )

    def restore(self, token: Token) -> None:
        """Set back to what `save` gave."""
        numbers = [float(value) for value in token]
        variables = 1 + len(self._variables)
        inputs = variables + packed_size(self._is.inputs)
        self.time = numbers[0]
        self._variables = numbers[1:variables]
        self._trajectories.unpack(numbers[variables:inputs])
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


# ----------------------------------------------------------------------------------------------------
# What jumps do to the variables, as far as the expressions tell: which of them are states.


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


_COMPARED = {Op.LT, Op.LE, Op.GT, Op.GE, Op.EQ, Op.NE}


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
            case op, _ if op in _COMPARED and len(kinds) <= 1:
                return _Clock.STILL
    return _Clock.OTHER if _Clock.GOES in kinds else _Clock.STILL


# ----------------------------------------------------------------------------------------------------
# A `Discrete` unit as flat tables: all that the native engine needs to run it without Python.


@dataclass(frozen=True, slots=True)
class DiscreteTables:
    """A whole unit.

    * `inputs`, `heard`, `outputs`, `sent`: ordinary inputs, event inputs, ordinary outputs and event
      outputs, each with its position among all ports of the model.
    * `kinds`, `start`: of the variables, as they are when the unit starts; `input_start`: of every cell of
      the ordinary inputs; `parameters`: the value of every parameter cell.
    * `mode`: which variable says the mode; -1 if there is only one.
    * `modes`, `compute`: the code of the modes and of the ordinary outputs. A piece of code says where each
      of its inputs is in [time, variables, cells of ordinary inputs, cells of event inputs, whether each
      event has been set, parameters].
    * `state_size`: the length of the state array [time, variables, then for each ordinary input: origin,
      number of coefficients, (MAX_DEGREE + 1) × cells coefficients, then the cells of the event inputs, then
      whether each has been set].
    """

    inputs: tuple[tuple[int, Port], ...]
    heard: tuple[tuple[int, Port], ...]
    outputs: tuple[tuple[int, Port], ...]
    sent: tuple[tuple[int, Port], ...]
    kinds: tuple[Kind, ...]
    start: tuple[float, ...]
    input_start: tuple[float, ...]
    parameters: tuple[float, ...]
    mode: int
    modes: tuple[ModePieces, ...]
    compute: Piece
    state_size: int


def lower(model: Discrete, start: float) -> DiscreteTables:
    """The tables of a unit that starts at time `start`."""
    numbers = {port.name: number for number, port in enumerate(model.ports)}

    def numbered(ports: tuple[Port, ...]) -> tuple[tuple[int, Port], ...]:
        return tuple((numbers[port.name], port) for port in ports)

    return DiscreteTables(
        inputs=numbered(model.inputs),
        heard=numbered(model.heard),
        outputs=numbered(model.shown),
        sent=numbered(model.sent),
        kinds=tuple(variable.kind for variable in model.variables),
        start=tuple(start_values(model, start)),
        input_start=tuple(float(value) for port in model.inputs for value in port.initial),
        parameters=model.values,
        mode=-1 if model.mode_place is None else model.mode_place,
        modes=tuple(model.pieces(i) for i in range(len(model.modes))),
        compute=model.computed,
        state_size=state_size(model),
    )
