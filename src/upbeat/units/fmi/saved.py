"""Saved states of FMU units: the FMU's own, which it keeps, and what is on our side of it.

As bytes, the same on both engines, everything little-endian. A word has eight bytes: a double for a real
cell, an integer for the others; a string is a chunk (its length in bytes as a word, then UTF-8).

    time · mode (0 initialization, 1 step, 2 event) · whether an event waits (0, 1) · next event time
    what has happened inside so far (integer)
    of each clock that ticks by itself: next tick · ticks so far (integer)
    of each event input: whether it has been set (0, 1)
    of each event output: whether it is being sent (0, 1)
    of each other input: number of coefficients kept; if any: origin · coefficients, each of all cells
    of each other input: whether it has been handed over as an event (0, 1); if so: its cells
    of each other output with a clock, or that is a derivative: its cells as they were last seen
    the FMU's own bytes, as a chunk
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from upbeat.core.errors import ModelError
from upbeat.core.packed import Reader, chunk
from upbeat.core.ports import Causality, Kind, Port, Signal, Value
from upbeat.units.fmi.courses import Course
from upbeat.units.fmi.ports import Layout
from upbeat.units.fmi.tokens import Token
from upbeat.units.inputs import MAX_DEGREE


@dataclass(frozen=True)
class Ours:
    """What a unit knows besides what the FMU knows."""

    time: float
    mode: int
    pending: bool
    next: float
    count: int
    ticks: tuple[tuple[float, int], ...]
    heard: frozenset[str]
    sending: frozenset[str]
    given: Mapping[str, Signal]
    courses: Mapping[str, Course]
    seen: Mapping[str, Signal]


Saved = Token[Ours]


def to_bytes(ours: Ours, layout: Layout, clocks: int, own: bytes) -> bytes:
    """Everything; `own` is the FMU's own part."""
    parts = [struct.pack("<dqqdq", ours.time, ours.mode, ours.pending, ours.next, ours.count)]
    assert len(ours.ticks) == clocks
    parts += [struct.pack("<dq", next, count) for next, count in ours.ticks]
    for names, causality in ((ours.heard, Causality.INPUT), (ours.sending, Causality.OUTPUT)):
        ports = layout.of(causality, event=True)
        parts += [struct.pack("<q", port.name in names) for port, _ in ports]
    inputs = [port for port, _ in layout.of(Causality.INPUT)]
    for port in inputs:
        course = ours.courses.get(port.name)
        parts.append(struct.pack("<q", 0 if course is None else len(course.coefficients)))
        if course is not None:
            parts.append(struct.pack("<d", course.origin))
            parts += [_written(port, row) for row in course.coefficients]
    for port in inputs:
        parts.append(struct.pack("<q", port.name in ours.given))
        if port.name in ours.given:
            parts.append(_written(port, ours.given[port.name]))
    parts += [_written(p, ours.seen[p.name]) for p, _ in layout.of(Causality.OUTPUT) if p.name in ours.seen]
    return b"".join((*parts, chunk(own)))


def from_bytes(data: bytes, layout: Layout, clocks: int, seen: Sequence[str] = ()) -> tuple[Ours, bytes]:
    """What `to_bytes` was given, and the FMU's own part."""
    reader = Reader(data)
    try:
        ours = _read(reader, layout, clocks, seen)
        own = reader.chunk()
        reader.finish()
    except ValueError as error:
        raise ModelError(f"not a state of this unit: {error}") from None
    return ours, own


def _read(reader: Reader, layout: Layout, clocks: int, seen: Sequence[str]) -> Ours:
    time, mode, pending, next, happened = struct.unpack("<dqqdq", reader.take(40))
    if mode not in (0, 1, 2) or pending not in (0, 1):
        raise ValueError(f"there is no mode {mode}")
    ticks = tuple(struct.unpack("<dq", reader.take(16)) for _ in range(clocks))
    heard, sending = (
        frozenset(port.name for port, _ in layout.of(causality, event=True) if _flag(reader))
        for causality in (Causality.INPUT, Causality.OUTPUT)
    )
    inputs = [port for port, _ in layout.of(Causality.INPUT)]
    courses = {}
    for port in inputs:
        count = reader.word()
        if count > (MAX_DEGREE + 1 if port.kind is Kind.REAL else 1):
            raise ValueError(f"an input with {count} coefficients")
        if count:
            origin = _double(reader)
            courses[port.name] = Course(origin, [_taken(reader, port) for _ in range(count)])
    given = {port.name: _taken(reader, port) for port in inputs if _flag(reader)}
    last = {port.name: _taken(reader, port) for port, _ in layout.of(Causality.OUTPUT) if port.name in seen}
    return Ours(time, mode, bool(pending), next, happened, ticks, heard, sending, given, courses, last)


def _flag(reader: Reader) -> bool:
    found = reader.word()
    if found > 1:
        raise ValueError(f"{found} where there should be 0 or 1")
    return found == 1


def _double(reader: Reader) -> float:
    return float(struct.unpack("<d", reader.take(8))[0])


def _written(port: Port, signal: Signal) -> bytes:
    cells: Any = (signal,) if port.size is None else signal
    if port.kind is Kind.STRING:
        return b"".join(chunk(str(cell).encode("utf-8", "surrogatepass")) for cell in cells)
    return struct.pack(f"<{port.cells}{'d' if port.kind is Kind.REAL else 'q'}", *cells)


def _taken(reader: Reader, port: Port) -> Signal:
    cells: list[Value]
    if port.kind is Kind.STRING:
        cells = [reader.chunk().decode("utf-8", "surrogatepass") for _ in range(port.cells)]
    else:
        code = "d" if port.kind is Kind.REAL else "q"
        cells = list(struct.unpack(f"<{port.cells}{code}", reader.take(8 * port.cells)))
        if port.kind is Kind.BOOLEAN:
            cells = [bool(cell) for cell in cells]
    return cells[0] if port.size is None else tuple(cells)
