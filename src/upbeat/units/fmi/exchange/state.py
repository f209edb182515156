"""The state of an FMU in model exchange: what is kept of it, and its form in bytes.

The bytes, the same on both engines: words of eight bytes, little-endian, numbers as doubles and the values
of integers and booleans as integers of 64 bits; then the bytes that the FMU itself made of its state. The
words are

1. its time;
2. its mode: 0 initialization, 1 event mode, 2 continuous time;
3. whether an event is to be handled now (0 or 1);
4. the time of the next event that the FMU has named, or infinity;
5. the step that the solver will try next (0: none is known);
6. the continuous states, then the event indicators, as they were last seen;
7. for each real input, in the order of the ports: origin of its course, number of coefficients,
   (MAX_DEGREE + 1) × cells coefficients, unused ones zero;
8. for each other input, in the order of the ports: its cells (of a text: its length in bytes, and they).
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from upbeat.core.errors import ModelError
from upbeat.core.packed import Reader, chunk
from upbeat.core.ports import Kind, Port, Signal, Value
from upbeat.units.fmi.instance import Instance, State
from upbeat.units.inputs import check_packed, packed_size


class Mode(enum.IntEnum):
    """Where the FMU is in its life."""

    INITIAL = 0
    EVENT = 1
    CONTINUOUS = 2


@dataclass(frozen=True, slots=True)
class Ours:
    """What a unit knows besides what the FMU knows."""

    time: float
    mode: Mode
    pending: bool
    next: float
    h: float
    x: tuple[float, ...]
    z: tuple[float, ...]
    inputs: tuple[list[Value], dict[str, Signal]]


class Held:
    """A token. When nobody has it any more, the FMU may forget its state, too."""

    __slots__ = ("_unused", "ours", "state")

    def __init__(self, ours: Ours, state: State, unused: list[State]) -> None:
        self.ours = ours
        self.state = state
        self._unused = unused

    def __del__(self) -> None:
        # Not the call itself: Python may come here at any time and in any thread.
        self._unused.append(self.state)


class Tokens:
    """Makes tokens, and has the FMU drop the states of those that are gone."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._unused: list[State] = []

    def token(self, ours: Ours, state: State) -> Held:
        """A token for a state that the FMU keeps."""
        while self._unused:
            self._instance.drop(self._unused.pop())
        return Held(ours, state, self._unused)


def to_bytes(ours: Ours, ports: Sequence[Port]) -> bytes:
    """All but the FMU's own part; `ports` are the inputs."""
    courses, others = ours.inputs
    numbers = (
        *(ours.time, float(ours.mode), float(ours.pending), ours.next, ours.h),
        *(*ours.x, *ours.z, *courses),
    )
    parts = [struct.pack(f"<{len(numbers)}d", *numbers)]
    for port in ports:
        if port.kind is not Kind.REAL:
            value = others[port.name]
            parts += map(_cell, (value,) if port.size is None else value)  # type: ignore[arg-type]
    return b"".join(parts)


def _cell(value: Value) -> bytes:
    if isinstance(value, str):
        return chunk(value.encode("utf-8", "surrogatepass"))
    return struct.pack("<q", value)


def from_bytes(data: bytes, ports: Sequence[Port], states: int, indicators: int) -> tuple[Ours, bytes]:
    """What `to_bytes` was given, and the FMU's own part."""
    reader = Reader(data)

    def doubles(count: int) -> list[float]:
        return list(struct.unpack(f"<{count}d", reader.take(8 * count)))

    try:
        time, mode, pending, due, h = doubles(5)
        if mode not in (0, 1, 2) or pending not in (0, 1):
            raise ValueError(f"there is no mode {mode:g}")
        x, z = doubles(states), doubles(indicators)
        real = [port for port in ports if port.kind is Kind.REAL]
        courses: list[Value] = [*doubles(packed_size(real))]
        others: dict[str, Signal] = {}
        for port in ports:
            if port.kind is not Kind.REAL:
                cells = tuple(_value(reader, port.kind) for _ in range(port.cells))
                others[port.name] = cells[0] if port.size is None else cells
    except ValueError as error:
        raise ModelError(f"not a state of this unit: {error}") from None
    check_packed(real, courses)
    ours = Ours(time, Mode(int(mode)), bool(pending), due, h, tuple(x), tuple(z), (courses, others))
    return ours, reader.rest()


def _value(reader: Reader, kind: Kind) -> Value:
    if kind is Kind.STRING:
        return reader.chunk().decode("utf-8", "surrogatepass")
    (number,) = struct.unpack("<q", reader.take(8))
    return bool(number) if kind is Kind.BOOLEAN else int(number)
