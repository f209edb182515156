"""What a picture shows before anything is drawn: signals sorted into panels, long ones thinned out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upbeat.core.errors import InvalidInput, suggest
from upbeat.core.labels import Labels
from upbeat.core.names import bare, matching
from upbeat.core.ports import Kind
from upbeat.report.lanes import numeric
from upbeat.trace.columns import Column
from upbeat.trace.trace import Trace

LINES = 7
"""How many lines a panel shows before it becomes a tangle, and before colours repeat."""
CROWD = 42
"""From here on a group is drawn as one crowd of lines: single ones could not be told apart anyway."""
_POINTS = 4000
_MARKS = 10_000
_PANELS = 6
_ALIKE = 30.0
"""Signals share a panel up to this ratio of their sizes: a smaller one would be hard to see."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line. Lines with the same `colour` key get the same colour in all panels, where that works.

    An empty key means the colour of the text.
    """

    label: str
    colour: str
    time: NDArray[np.float64]
    values: NDArray[Any]
    held: bool = False
    """Drawn as steps, because the value holds until the next row."""
    stems: bool = False
    """Drawn as stems, because there is a value at these instants only."""


@dataclass(slots=True)
class Panel:
    """Lines over one y axis. `ticks` are labels of values; `share` panels have the same limits."""

    title: str
    lines: list[Line] = field(default_factory=list)
    ticks: Labels = field(default_factory=Labels)
    share: str = ""
    log: bool = False


def select(trace: Trace, patterns: Iterable[str] | None) -> list[Column]:
    """The columns that match a pattern (``left.*``); without patterns, all that can be drawn.

    A pattern may also be about events: see `select_events`.
    """
    if patterns is None:
        return [column for column in trace.columns if column.kind is not Kind.STRING]
    wanted = [patterns] if isinstance(patterns, str) else list(patterns)
    chosen: dict[str, Column] = {}
    for pattern in wanted:
        found = set(_matching(trace.names, pattern))
        matches = [c for c in trace.columns if c.name in found]
        if not matches and not _matching(_events(trace), pattern):
            known = (*trace.names, *_events(trace))
            raise InvalidInput(f"no signal matches {pattern!r}. {suggest(pattern, known, 'signals')}")
        chosen |= {column.name: column for column in matches}
    for column in chosen.values():
        if column.kind is Kind.STRING:
            raise InvalidInput(f"'{column.name}' holds text, which cannot be drawn")
    return list(chosen.values())


def select_events(trace: Trace, patterns: Iterable[str] | None) -> list[str]:
    """The names of the events that match a pattern; without patterns, of all that fired."""
    if patterns is None:
        return list(trace.events.names)
    return list(dict.fromkeys(name for p in patterns for name in _matching(_events(trace), p)))


def _events(trace: Trace) -> tuple[str, ...]:
    """Those that fired, and those that could have."""
    return tuple(dict.fromkeys([*trace.events.names, *(kind.name for kind in trace.events.kinds)]))


def _matching(names: Iterable[str], pattern: str) -> list[str]:
    """What a pattern means; the name of an array, all its cells."""
    names = list(names)
    return matching(pattern, names) or [name for name in names if name.startswith(bare(pattern) + "[")]


def arrange(traces: Mapping[str, Trace], patterns: Iterable[str] | None) -> list[Panel]:
    """The panels of one trace, grouped by quantity; of several traces, one panel for each signal."""
    if len(traces) == 1:
        (trace,) = traces.values()
        return _grouped(trace, select(trace, patterns))
    panels: dict[str, Panel] = {}
    for label, trace in traces.items():
        for column in select(trace, patterns):
            title = column.name + (f" ({unit})" if (unit := pretty(column.unit)) else "")
            panel = panels.setdefault(column.name, Panel(title, ticks=_ticks(column)))
            panel.lines.append(_line(trace, column, label, label))
    return list(panels.values())


def event_panels(traces: Mapping[str, Trace], patterns: Iterable[str] | None) -> list[Panel]:
    """A panel with stems for each event that carries a number."""
    wanted = None if patterns is None else list(patterns)
    panels: dict[str, Panel] = {}
    for label, trace in traces.items():
        for name in select_events(trace, wanted):
            if not numeric(trace, name) or len(trace.events[name]) == 0:
                continue
            unit = pretty(next(kind.unit for kind in trace.events.kinds if kind.name == name))
            panel = panels.setdefault(name, Panel(f"{name} ({unit})" if unit else name))
            values = trace.events.values(name).astype(np.float64)
            key = label or _owner(name)
            points = thin_marks(trace.events.times(name), values)
            panel.lines.append(Line(label or name, key, *points, stems=True))
    return list(panels.values())


def _grouped(trace: Trace, columns: Sequence[Column]) -> list[Panel]:
    groups = _groups(columns, by_port=True)
    if len(groups) > _PANELS:  # too many quantities without a unit of measure: let those share
        groups = _groups(columns, by_port=False)
    panels = []
    sized = {
        f"{key} {number}": part
        for key, whole in groups.items()
        for number, part in enumerate(_by_size(trace, whole))
    }
    for key, members in sized.items():
        parts = -(-len(members) // LINES) if len(members) < CROWD else 1
        size = -(-len(members) // parts)
        for first in range(0, len(members), size):
            part = members[first : first + size]
            lines = [_line(trace, column, column.name, _owner(column.name)) for column in part]
            panels.append(Panel(_title(members), lines, _ticks(part[0]), share=key if parts > 1 else ""))
    return panels


def _by_size(trace: Trace, columns: Sequence[Column]) -> list[list[Column]]:
    """Columns of one quantity, apart where one would be a flat line beside another; few panels in all."""
    if columns[0].kind is not Kind.REAL or len(columns) >= CROWD:
        return [list(columns)]
    sizes = {column.name: _size(trace[column.name]) for column in columns}
    found: list[list[Column]] = []
    for column in sorted(columns, key=lambda column: -sizes[column.name]):
        size = sizes[column.name]
        largest = sizes[found[-1][0].name] if found else 0.0
        if found and (size * _ALIKE >= largest or size == 0.0 or len(found) == _PANELS):
            found[-1].append(column)
        else:
            found.append([column])
    order = {column.name: number for number, column in enumerate(columns)}
    return [sorted(part, key=lambda column: order[column.name]) for part in found]


def _size(values: NDArray[Any]) -> float:
    """How far a signal reaches."""
    finite = values[np.isfinite(values)]
    return float(np.abs(finite).max()) if len(finite) else 0.0


def _groups(columns: Sequence[Column], by_port: bool) -> dict[str, list[Column]]:
    groups: dict[str, list[Column]] = {}
    for column in columns:
        if column.items:
            key = f"labels {column.labels.written}"
        elif column.kind is Kind.BOOLEAN:
            key = "boolean"
        elif column.unit is None:
            key = f"port {_port(column.name)}" if by_port else "no unit"
        else:
            key = f"unit {column.unit}"
        groups.setdefault(key, []).append(column)
    return groups


def _title(members: Sequence[Column]) -> str:
    """The quantity: the ports' common name and the unit of measure, as far as there are such."""
    ports = {_port(column.name) for column in members}
    unit = "" if members[0].items or members[0].kind is Kind.BOOLEAN else pretty(members[0].unit)
    port = ports.pop() if len(ports) == 1 else ""
    return f"{port} ({unit})" if port and unit else port or unit


def _line(trace: Trace, column: Column, label: str, colour: str) -> Line:
    held = column.kind is not Kind.REAL
    values = trace[column.name]
    return Line(
        label,
        colour,
        *thin(trace.time, values.astype(np.int8) if column.kind is Kind.BOOLEAN else values),
        held,
    )


def _ticks(column: Column) -> Labels:
    return Labels(("false", "true")) if column.kind is Kind.BOOLEAN else column.labels


_LAST = re.compile(r"(?:(.*)\.)?([^.\[(]+(?:\(.*\))?)(?:\[[^\]]*\])?\Z")
"""The owner and the last part of a column's name, without index: ``car.mass``, ``v``; ``a``, ``der(b.x)``."""


def _owner(name: str) -> str:
    found = _LAST.match(name)
    return found[1] or name if found else name


def _port(name: str) -> str:
    found = _LAST.match(name)
    return found[2] if found else name


def thin(time: NDArray[np.float64], values: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """At most a few thousand points that look the same: the extremes of every short stretch."""
    if len(time) <= _POINTS:
        return time, values
    keep = _extremes(values)
    return time[keep], values[keep]


def _extremes(values: NDArray[Any]) -> NDArray[np.intp]:
    """The places of the least and the greatest value of every short stretch, and of the ends."""
    stretch = -(-len(values) // (_POINTS // 2))
    whole = len(values) // stretch * stretch
    blocks = values[:whole].reshape(-1, stretch)
    starts = np.arange(0, whole, stretch)
    return np.unique(
        np.concatenate(
            [
                starts + blocks.argmin(axis=1),
                starts + blocks.argmax(axis=1),
                np.arange(whole, len(values)),
                [0, len(values) - 1],
            ]
        )
    )


def thin_marks(time: NDArray[np.float64], values: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """At most some ten thousand points: the extremes as in `thin`, and of the others a fair share."""
    if len(time) <= _MARKS:
        return time, values
    every = -(-len(time) // _MARKS)
    # By place, so that none is there twice: it would be drawn beside itself, as another one of its instant.
    keep = np.unique(np.concatenate([np.arange(0, len(time), every), _extremes(values)]))
    return time[keep], values[keep]


_NICE = {"**2": "²", "**3": "³", "**-1": "⁻¹", "**-2": "⁻²", "^2": "²", "^3": "³", "**": "^", "*": "·"}
_WORDS = {"degC": "°C", "degF": "°F", "deg": "°", "ohm": "Ω", "percent": "%", "1": "", "dimensionless": ""}


def pretty(unit: str | None) -> str:
    """A unit of measure as it is written on paper."""
    text = _WORDS.get(unit or "", unit or "")
    for plain, nice in _NICE.items():
        text = text.replace(plain, nice)
    return text.replace(" ", "")
