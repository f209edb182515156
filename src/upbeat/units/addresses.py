"""Units that are C functions: by address, or in a library."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from ctypes import CFUNCTYPE, POINTER, byref, c_char_p, c_double, c_int, c_int64, c_uint64, c_void_p
from math import inf
from types import MappingProxyType
from typing import Any

from upbeat.core.abilities import Ability, Core, StateAccess, replayed, speaks_for_itself
from upbeat.core.errors import ModelError, UpbeatError, check_type, suggest
from upbeat.core.plain import Place, Places
from upbeat.core.ports import Causality, Kind, Port, Signal, Value
from upbeat.core.records import dataclass
from upbeat.units.inputs import MAX_DEGREE
from upbeat.units.shorthand import Complaints, check_settable, check_unique, with_starts

# ----------------------------------------------------------------------------------------------------
# The calls of a unit as C sees them: the cells and functions of unit.h for ctypes.


class Cell(ctypes.Union):
    """One cell as C sees it: `upbeat_cell` of unit.h."""

    _fields_ = (("r", c_double), ("i", c_int64))


SIGNATURES: Mapping[str, Any] = MappingProxyType(
    {
        "create": CFUNCTYPE(c_void_p, c_char_p, c_double, POINTER(Cell)),
        "get": CFUNCTYPE(c_int, c_void_p, c_int, POINTER(Cell)),
        "set": CFUNCTYPE(c_int, c_void_p, c_int, POINTER(Cell), c_int),
        "advance": CFUNCTYPE(c_int, c_void_p, c_double, c_double, c_int, POINTER(c_double)),
        "jump": CFUNCTYPE(c_int, c_void_p, POINTER(c_int)),
        "save": CFUNCTYPE(c_int, c_void_p, c_int),
        "restore": CFUNCTYPE(c_int, c_void_p, c_int),
        "message": CFUNCTYPE(c_char_p, c_void_p),
        "destroy": CFUNCTYPE(None, c_void_p),
        "pack": CFUNCTYPE(c_int, c_void_p, c_int, c_void_p, POINTER(c_uint64)),
        "unpack": CFUNCTYPE(c_int, c_void_p, c_int, c_void_p, c_uint64),
        "due": CFUNCTYPE(c_int, c_void_p, POINTER(c_double)),
        "slope": CFUNCTYPE(c_int, c_void_p, c_int, c_int, POINTER(Cell)),
    }
)
"""The calls of `upbeat_unit` in unit.h, and `create`, which makes one: void* create(const char* name,
double start, const upbeat_cell* parameters), with the cells of all parameters in the order of the ports."""


class NativeFailure(UpbeatError):
    """A call into a native unit returned a status other than 0."""


def write(cell: Cell, kind: Kind, value: Any) -> None:
    """Put a value of this kind into a cell."""
    if kind is Kind.REAL:
        cell.r = value
    else:
        cell.i = int(value)


def read(cell: Cell, kind: Kind) -> Value:
    """The value of this kind in a cell."""
    if kind is Kind.REAL:
        return float(cell.r)
    return bool(cell.i) if kind is Kind.BOOLEAN else int(cell.i)


# ----------------------------------------------------------------------------------------------------
# One unit behind function addresses, running: what the interpreter calls through ctypes.


class AddressedUnit:
    """One native unit as seen from Python."""

    def __init__(self, model: NativeUnit, pointer: int) -> None:
        self._self = pointer
        self._calls = {name: SIGNATURES[name](address) for name, address in model.functions}
        self._get, self._set, self._advance = (self._calls[name] for name in ("get", "set", "advance"))
        self._ports = {port.name: (i, port) for i, port in enumerate(model.ports)}
        self._simple = {
            name
            for name, (_, p) in self._ports.items()
            if p.size is None and p.kind is Kind.REAL and not p.event
        }
        room = 1 + max((port.cells for port in model.ports), default=1)  # an event's presence comes last
        self._cells = (Cell * (room * (MAX_DEGREE + 1)))()
        # The same memory as doubles, and references made once: what ctypes would do again in every call.
        self._reals = (c_double * len(self._cells)).from_buffer(self._cells)
        self._room = ctypes.cast(self._cells, POINTER(Cell))
        self._reached = c_double()
        self._reached_at = ctypes.pointer(self._reached)
        self._places = Places()

    def _check(self, status: int, name: str) -> None:
        if status != 0:
            message = self._calls["message"](self._self) if "message" in self._calls else None
            raise NativeFailure(
                message.decode(errors="replace") if message else f"{name} returned status {status}"
            )

    def _call(self, name: str, *arguments: Any) -> None:
        self._check(self._calls[name](self._self, *arguments), name)

    def _port(self, name: str, causality: Causality) -> tuple[int, Port]:
        index, port = self._ports.get(name, (-1, None))
        if port is None or port.causality is not causality:
            known = [n for n, (_, p) in self._ports.items() if p.causality is causality]
            noun = causality.value
            raise ModelError(f"there is no {noun} '{name}'. {suggest(name, known, noun + 's')}")
        return index, port

    def get(self, port: str) -> Signal | None:
        """The value of an output now; None for an event that is absent."""
        index, known = self._port(port, Causality.OUTPUT)
        self._check(self._get(self._self, index, self._room), "get")
        if port in self._simple:
            return self._reals[0]
        if known.event and not self._cells[known.cells].i:
            return None
        values = tuple(read(self._cells[i], known.kind) for i in range(known.cells))
        return values[0] if known.size is None else values

    def set(self, port: str, coefficients: Sequence[Signal]) -> None:
        """From now on the input is Σ coefficients[k]·(t - now)**k."""
        index, known = self._port(port, Causality.INPUT)
        count = len(coefficients)
        if count == 1 and port in self._simple:  # by far the most frequent case
            self._reals[0] = float(coefficients[0])  # type: ignore[arg-type]
        else:
            self._fill(known, coefficients)
        self._check(self._set(self._self, index, self._room, count), "set")

    def _fill(self, port: Port, coefficients: Sequence[Signal]) -> None:
        max_degree = MAX_DEGREE if port.kind is Kind.REAL else 0
        if not 1 <= len(coefficients) <= max_degree + 1:
            raise ModelError(
                f"input '{port.name}' takes polynomials of degree 0 to {max_degree}, "
                f"not {len(coefficients)} coefficients"
            )
        flat = [c for row in coefficients for c in ((row,) if port.size is None else row)]  # type: ignore[union-attr]
        if len(flat) != port.cells * len(coefficients):
            raise ModelError(f"input '{port.name}' has {port.cells} cells, but was given {len(flat)} values")
        for cell, value in zip(self._cells, flat, strict=False):
            write(cell, port.kind, value)

    def state_access(self) -> StateAccess:
        """It tells of none: all right for a unit that has none."""
        advice = "A unit in C keeps its states to itself: write it with equations (Ode, PythonOde), or make "
        return StateAccess((), list, advice=advice + "it an FMU for model exchange.")

    def slope(self, output: str, input: str) -> Sequence[float]:
        """The partial derivatives of an output by an input, row by row."""
        row, made = self._port(output, Causality.OUTPUT)
        column, given = self._port(input, Causality.INPUT)
        room = (Cell * (made.cells * given.cells))()
        self._call("slope", row, column, room)
        return [float(cell.r) for cell in room]

    def advance(self, t: float, to: float, early: bool = False) -> float:
        """Simulate, and say how far."""
        self._reached.value = to
        self._check(self._advance(self._self, t, to, early, self._reached_at), "advance")
        return self._reached.value

    def jump(self) -> bool:
        """One discrete micro-step, if the unit has any."""
        again = c_int(0)
        if "jump" in self._calls:
            self._call("jump", byref(again))
        return again.value != 0

    def due(self) -> float:
        """When something happens by itself."""
        time = c_double(inf)
        if "due" in self._calls:
            self._call("due", byref(time))
        return time.value

    def save(self) -> Place:
        """Keep the state."""
        slot = self._places.take()
        self._call("save", slot.number)
        return slot

    def restore(self, token: Place) -> None:
        """Set back to what `save` kept."""
        self._call("restore", token.number)

    def close(self) -> None:
        """The unit is no longer needed."""
        if self._self and "destroy" in self._calls:
            self._calls["destroy"](self._self)
        self._self = 0

    def __del__(self) -> None:
        if hasattr(self, "_self"):
            self.close()


class PackableUnit(AddressedUnit):
    """One whose states can be turned into bytes; a class of its own, since others lack the two calls."""

    def to_bytes(self, token: Place) -> bytes:
        """What `pack` writes."""
        size = c_uint64(0)
        self._call("pack", token.number, None, byref(size))
        while True:
            room = ctypes.create_string_buffer(size.value)
            self._call("pack", token.number, room, byref(size))
            if size.value <= len(room):
                return room.raw[: size.value]

    def from_bytes(self, data: bytes) -> Place:
        """A slot that holds the state again."""
        slot = self._places.take()
        self._call("unpack", slot.number, data, len(data))
        return slot


# ----------------------------------------------------------------------------------------------------
# `NativeUnit`: a unit written in C (or anything that speaks its calls), entered by function addresses.

_NEEDED = ("create", "get", "set", "advance")


@dataclass(frozen=True)
class NativeUnit:
    """A model whose units are C functions: the engine calls their addresses, without Python.

    `functions` maps the names of `SIGNATURES` to addresses; `create`, `get`, `set` and `advance` must be
    there. The C side numbers ports by their position in `ports`. Addresses hold for one process: such a
    model does not travel to another one. `threads` promises that `get` and `set` of one unit may be called
    from several threads at once, for different ports.
    """

    ports: tuple[Port, ...]
    functions: tuple[tuple[str, int], ...]
    threads: bool = False

    def __init__(self, ports: Iterable[Port], functions: Mapping[str, int], *, threads: bool = False) -> None:
        check_type(ports, Iterable, "ports")
        check_type(functions, Mapping, "functions")
        object.__setattr__(self, "ports", tuple(ports))
        for port in self.ports:
            check_type(port, Port, "a port")
        object.__setattr__(self, "threads", threads)
        object.__setattr__(self, "functions", tuple(sorted(dict(functions).items())))
        complaints = Complaints()
        check_unique(self.ports, complaints)
        for port in self.ports:
            if port.kind is Kind.STRING:
                complaints.add(port.name, "a native unit has no strings; use an integer with items")
        for name, address in self.functions:
            if name not in SIGNATURES:
                complaints.add(name, f"there is no such function. {suggest(name, SIGNATURES, 'functions')}")
            elif type(address) is not int or address <= 0:
                complaints.add(name, f"an address is a positive integer, not {address!r}")
        for name in _NEEDED:
            if name not in dict(self.functions):
                complaints.add(name, "the address of this function is missing")
        given = dict(self.functions)
        for first, second in (("save", "restore"), ("pack", "unpack")):
            if (first in given) != (second in given):
                complaints.add(first, f"{first} and {second} come together: give both addresses, or none")
        if "pack" in given and "save" not in given:
            complaints.add("pack", "only a state that was saved can be packed: give save and restore, too")
        complaints.raise_if_any()

    @classmethod
    def from_library(cls, library: ctypes.CDLL, ports: Iterable[Port], prefix: str = "") -> NativeUnit:
        """The functions of a loaded library: `prefix` + ``get`` and so on; those it lacks are left out."""
        found = {}
        for name in SIGNATURES:
            if hasattr(library, prefix + name):
                found[name] = ctypes.cast(getattr(library, prefix + name), c_void_p).value or 0
        return cls(ports, found)

    @property
    def abilities(self) -> frozenset[Ability]:
        rollback = {Ability.ROLLBACK} if "save" in dict(self.functions) else set()
        slopes = {Ability.SLOPES} if "slope" in dict(self.functions) else set()
        bytes_too = {Ability.SERIALISE} if "pack" in dict(self.functions) else set()
        native = {Ability.NATIVE} if speaks_for_itself(type(self)) else set()
        events = {Ability.NEXT_EVENT} if "due" in dict(self.functions) else set()
        threads = {Ability.THREADS} if self.threads else set()
        return frozenset({*native, *rollback, *events, *slopes, *bytes_too, *threads})

    def verify(self, ability: Ability) -> str | None:
        """Why a state cannot be relied on to come back: C is a user's own code as Python is."""
        states = ability in (Ability.ROLLBACK, Ability.SERIALISE)
        return replayed(self, ability, 0.01) if states else None

    @property
    def parameters(self) -> tuple[Value, ...]:
        """The value of every parameter cell, in the order of the ports."""
        return tuple(v for port in self.ports if port.causality is Causality.PARAMETER for v in port.initial)

    def with_values(self, values: Mapping[str, Value | Sequence[Value]]) -> NativeUnit:
        """The same model with other parameters or input starts."""
        check_settable(values, [port.name for port in self.ports if port.causality is not Causality.OUTPUT])
        return NativeUnit(with_starts(self.ports, values), dict(self.functions), threads=self.threads)

    def create(self, name: str, start: float) -> int:
        """Make one unit and return its `self` pointer. The caller calls `destroy` in the end."""
        kinds = [p.kind for p in self.ports if p.causality is Causality.PARAMETER for _ in range(p.cells)]
        cells = (Cell * max(1, len(kinds)))()
        for cell, kind, value in zip(cells, kinds, self.parameters, strict=False):
            write(cell, kind, value)
        made = SIGNATURES["create"](dict(self.functions)["create"])(name.encode(), start, cells)
        if not made:
            raise NativeFailure(f"create gave no unit for '{name}'")
        self._set_starts(int(made), name)
        return int(made)

    def _set_starts(self, made: int, name: str) -> None:
        """An input that nothing drives keeps its start value."""
        tell = SIGNATURES["set"](dict(self.functions)["set"])
        for number, port in enumerate(self.ports):
            if port.causality is not Causality.INPUT or port.event:
                continue
            cells = (Cell * port.cells)()
            for cell, value in zip(cells, port.initial, strict=True):
                write(cell, port.kind, value)
            if status := tell(made, number, cells, 1):
                if destroy := dict(self.functions).get("destroy"):
                    SIGNATURES["destroy"](destroy)(made)
                raise NativeFailure(
                    f"set returned status {status} for the start value of input '{port.name}' of '{name}'"
                )

    def enter(self, core: Core, name: str, start: float) -> object:
        """A unit for the native engine, which destroys it in the end."""
        functions = {key: address for key, address in self.functions if key != "create"}
        return core.addresses(functions, self.create(name, start))

    def instantiate(self, name: str, start: float) -> AddressedUnit:
        """A unit for the interpreter, which calls the same functions through ctypes."""
        kind = PackableUnit if Ability.SERIALISE in self.abilities else AddressedUnit
        return kind(self, self.create(name, start))
