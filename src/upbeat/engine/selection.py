"""Which columns a trace gets: patterns over the names that a program offers."""

from __future__ import annotations

from collections.abc import Sequence

from upbeat.core.errors import InvalidInput, suggest
from upbeat.core.names import matching
from upbeat.core.records import dataclass
from upbeat.master.program import EventDetails, Program, Reg
from upbeat.trace.columns import Column
from upbeat.trace.events import EventKind


@dataclass(frozen=True, slots=True)
class Selection:
    """The chosen columns, one per cell, and the cells they come from; and what events carry, which are all
    logged."""

    columns: tuple[Column, ...]
    cells: tuple[Reg, ...]
    kinds: tuple[EventKind, ...]


def select(program: Program, patterns: Sequence[str] | None) -> Selection:
    """The columns that match any of `patterns` (``*`` and ``?``); None means every output.

    Events are logged whatever the patterns say, and yet a pattern may match nothing but events.
    """
    if patterns is None:
        chosen = [name for name, signal in program.columns.items() if signal.output]
    else:
        chosen = _matching(program, patterns)
    columns: list[Column] = []
    cells: list[Reg] = []
    for name in chosen:
        signal = program.columns[name]
        kind = program.layout.of(signal.register).kind
        for i in range(signal.cells):
            label = name if signal.cells == 1 else f"{name}[{i}]"
            columns.append(Column(label, kind, signal.unit, signal.items))
            cells.append(signal.register + i)
    kinds = []
    for name, event in program.events.items():
        kind = program.layout.of(event.register).kind
        kinds.append(EventKind(name, kind, event.cells, event.unit, event.items, event.details is not None))
    return Selection(tuple(columns), tuple(cells), tuple(kinds))


def event_details(program: Program) -> dict[str, EventDetails]:
    """The events that fire with a story instead of a value."""
    return {name: event.details for name, event in program.events.items() if event.details is not None}


def _matching(program: Program, patterns: Sequence[str]) -> list[str]:
    known = [*program.columns, *program.events]
    chosen: set[str] = set()
    for pattern in patterns:
        found = matching(pattern, known)
        if not found:
            raise InvalidInput(f"nothing to record matches '{pattern}'. {suggest(pattern, known, 'signals')}")
        chosen.update(found)
    return [name for name in program.columns if name in chosen]
