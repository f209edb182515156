"""The state of an FMU in model exchange: what is kept of it, and its form in bytes.

As bytes, the same on both engines, everything little-endian. A word has eight bytes: a double, or an integer
where it is said and for the cells of integers and booleans; a string is a chunk (its length in bytes as a
word, then UTF-8).

    time · mode (integer: 0 initialization, 1 event, 2 continuous) · whether an event waits (integer: 0, 1)
    rounds of event iteration so far (integer)
    next event time · the step that the solver will try next (0: none is known)
    the continuous states · the event indicators as they were last seen
    of each real input: origin · number of coefficients · all that there may be, unused ones zero
    of each other input: its cells
    of an FMU with clocks, which only the interpreter runs: what `Clockwork` makes of them, as a chunk
    the FMU's own bytes, as a chunk
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from upbeat.core.errors import ModelError
from upbeat.core.packed import Reader, chunk
from upbeat.core.ports import Kind, Port, Signal, Value
from upbeat.units.fmi.exchange.clockwork import Clockwork, Kept
from upbeat.units.fmi.instance import Instance
from upbeat.units.fmi.tokens import Token
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
    count: int
    next: float
    h: float
    x: tuple[float, ...]
    z: tuple[float, ...]
    inputs: tuple[list[Value], dict[str, Signal]]
    clocks: Kept


Held = Token[Ours]


def sizes(instance: Instance) -> tuple[int, int]:
    """How many continuous states and event indicators there are.

    Structural parameters change the size of arrays: then the FMU is asked.
    """
    description = instance.description
    by_name = description.by_name
    states = [by_name[name] for name in description.states]
    indicators = [by_name[each.variable] for each in description.structure.event_indicators]
    count = sum(state.cells for state in states)
    if any(state.dimensions for state in states):
        count = len(instance.states())
    crossing = description.event_indicator_count
    if any(indicator.dimensions for indicator in indicators):
        crossing = len(instance.indicators())
    return count, crossing


def to_bytes(ours: Ours, ports: Sequence[Port], clocks: Clockwork, own: bytes) -> bytes:
    """Everything; `own` is the FMU's own part, `ports` are the inputs."""
    courses, others = ours.inputs
    numbers = (ours.next, ours.h, *ours.x, *ours.z, *courses)
    parts = [struct.pack(f"<dqqq{len(numbers)}d", ours.time, ours.mode, ours.pending, ours.count, *numbers)]
    for port in ports:
        if port.kind is not Kind.REAL:
            value = others[port.name]
            parts += map(_cell, (value,) if port.size is None else value)  # type: ignore[arg-type]
    if clocks.any:
        parts.append(chunk(clocks.to_bytes(ours.clocks)))
    return b"".join((*parts, chunk(own)))


def _cell(value: Value) -> bytes:
    if isinstance(value, str):
        return chunk(value.encode("utf-8", "surrogatepass"))
    return struct.pack("<q", value)


def from_bytes(
    data: bytes, ports: Sequence[Port], clocks: Clockwork, states: int, indicators: int
) -> tuple[Ours, bytes]:
    """What `to_bytes` was given, and the FMU's own part."""
    reader = Reader(data)

    def doubles(count: int) -> list[float]:
        return list(struct.unpack(f"<{count}d", reader.take(8 * count)))

    try:
        time, mode, pending, count = struct.unpack("<dqqq", reader.take(32))
        if mode not in (0, 1, 2) or pending not in (0, 1):
            raise ValueError(f"there is no mode {mode}")
        due, h = doubles(2)
        x, z = doubles(states), doubles(indicators)
        real = [port for port in ports if port.kind is Kind.REAL]
        courses: list[Value] = [*doubles(packed_size(real))]
        others: dict[str, Signal] = {}
        for port in ports:
            if port.kind is not Kind.REAL:
                cells = tuple(_value(reader, port.kind) for _ in range(port.cells))
                others[port.name] = cells[0] if port.size is None else cells
        ticking = clocks.from_bytes(reader.chunk()) if clocks.any else clocks.save()
        own = reader.chunk()
        reader.finish()
    except ValueError as error:
        raise ModelError(f"not a state of this unit: {error}") from None
    check_packed(real, courses)
    ours = Ours(
        time, Mode(mode), bool(pending), count, due, h, tuple(x), tuple(z), (courses, others), ticking
    )
    return ours, own


def _value(reader: Reader, kind: Kind) -> Value:
    if kind is Kind.STRING:
        return reader.chunk().decode("utf-8", "surrogatepass")
    (number,) = struct.unpack("<q", reader.take(8))
    return bool(number) if kind is Kind.BOOLEAN else int(number)
