"""One unit behind function addresses, running: what the interpreter calls through ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import POINTER, byref, c_double, c_int, c_uint64
from math import inf
from typing import TYPE_CHECKING, Any

from upbeat.core.errors import ModelError, suggest
from upbeat.core.places import Place, Places
from upbeat.core.ports import Causality, Kind, Port, Signal
from upbeat.units.c_calls import SIGNATURES, Cell, NativeFailure, read, write
from upbeat.units.inputs import MAX_DEGREE

if TYPE_CHECKING:
    from upbeat.units.addresses import NativeUnit


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
        # The same memory as doubles, and references made once: what ctypes would do anew in every call.
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
        most = MAX_DEGREE if port.kind is Kind.REAL else 0
        if not 1 <= len(coefficients) <= most + 1:
            raise ModelError(
                f"input '{port.name}' takes polynomials of degree 0 to {most}, "
                f"not {len(coefficients)} coefficients"
            )
        flat = [c for row in coefficients for c in ((row,) if port.size is None else row)]  # type: ignore[union-attr]
        if len(flat) != port.cells * len(coefficients):
            raise ModelError(f"input '{port.name}' has {port.cells} cells, but was given {len(flat)} values")
        for cell, value in zip(self._cells, flat, strict=False):
            write(cell, port.kind, value)

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
