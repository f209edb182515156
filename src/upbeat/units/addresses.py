"""`NativeUnit`: a unit written in C (or anything that speaks its calls), entered by function addresses."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from ctypes import c_void_p
from dataclasses import dataclass

from upbeat.core.abilities import Ability, Core, replayed, speaks_for_itself
from upbeat.core.errors import check_type, suggest
from upbeat.core.ports import Causality, Kind, Port, Value
from upbeat.units.addressed import AddressedUnit, PackableUnit
from upbeat.units.c_calls import SIGNATURES, Cell, NativeFailure, write
from upbeat.units.shorthand import Complaints, check_settable, check_unique, with_starts

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
        """Why a state cannot be relied on to come back: C is somebody's own code as Python is."""
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
        """Make one unit and return its `self` pointer. Whoever calls this calls `destroy` in the end."""
        kinds = [p.kind for p in self.ports if p.causality is Causality.PARAMETER for _ in range(p.cells)]
        cells = (Cell * max(1, len(kinds)))()
        for cell, kind, value in zip(cells, kinds, self.parameters, strict=False):
            write(cell, kind, value)
        made = SIGNATURES["create"](dict(self.functions)["create"])(name.encode(), start, cells)
        if not made:
            raise NativeFailure(f"create gave no unit for '{name}'")
        self._tell_starts(int(made), name)
        return int(made)

    def _tell_starts(self, made: int, name: str) -> None:
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
