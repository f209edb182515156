"""Plots of traces: panels, axes and events."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from upbeat.core.atomic import as_path
from upbeat.core.errors import FileProblem, InvalidInput, check_type, suggest
from upbeat.core.measure import MeasureError, conversion
from upbeat.core.names import Labels, bare, matching
from upbeat.core.ports import Kind
from upbeat.trace.columns import Column
from upbeat.trace.extras import need
from upbeat.trace.files.output import check_place, kept_from, unwritable
from upbeat.trace.trace import Trace

if TYPE_CHECKING:
    from upbeat.judging.trust import Trust

# ----------------------------------------------------------------------------------------------------
# The looks that all pictures share: colours, sizes of text, frames.

# Told apart with any kind of colour vision (after Okabe and Ito; yellow is left out: too pale on white).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#555555")
INK, FRAME, GRID, EVENT = "#222222", "#999999", "#e8e8e8", "#b0a8b9"
SMALL, TEXT = 8.0, 9.0
_SCREEN = 96
"""Pixels of an inch on a page."""


def figure_class() -> Any:
    """Figures of matplotlib that notebooks show as they are, without `%matplotlib` or pyplot."""
    return _made_class(need("matplotlib.figure", "plot", "drawing a picture"))


@cache
def _made_class(figures: Any) -> Any:
    class Picture(figures.Figure):  # type: ignore[misc]
        """A figure. The last one in a cell of a notebook is shown there."""

        def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
            data = io.BytesIO()
            self.savefig(data, format="png", dpi=2 * _SCREEN)  # sharp on screens with small pixels, too
            wide, high = (round(_SCREEN * inches) for inches in self.get_size_inches())
            return data.getvalue(), {"width": wide, "height": high}

        def __reduce__(self) -> Any:
            return _blank, (), self.__getstate__()

    return Picture


def _blank() -> Any:
    """What a pickled one begins with."""
    return figure_class().__new__(figure_class())


def frame(axis: Any, title: str) -> None:
    """A quiet frame, with the title over its left end."""
    axis.set_axisbelow(True)
    axis.grid(True, color=GRID, linewidth=0.7)
    axis.spines[["top", "right"]].set_visible(False)
    axis.spines[["left", "bottom"]].set_color(FRAME)
    axis.tick_params(labelsize=SMALL, color=FRAME, labelcolor=INK, length=3)
    axis.set_title(title, loc="left", fontsize=TEXT, color=INK, pad=4)


# ----------------------------------------------------------------------------------------------------
# Events in a picture: a lane for each name, what they carried next to them, stacked within an instant.

_MARKS = 4000
_LEVELS = 6
"""How high a stack grows before its marks move closer together."""
_LEVEL_INCHES = 0.16
SHARED, PRIVATE = "#7B3FA0", "#B8860B"
"""The colours of events between units: those of several units, and those of a single one."""
_FEW, _LINES = 30, 200
"""More instants than these are marked faintly, or not at all, in the panels of the signals."""
_FLOOR = "#dddddd"
_MARGIN = 24
"""How many letters the margin at the right takes."""
_LABEL = 7.0
_GAP = 4.0
# A lamp that says "red" should not do so in blue.
_WORDS = {"red": 1, "green": 2, "blue": 0, "yellow": 4, "amber": 4, "orange": 4, "off": 6, "on": 4}


@dataclass(frozen=True, slots=True)
class Lane:
    """The events of one name. `ranks` count those at the same time, from 0; a text may be empty."""

    label: str
    times: NDArray[np.float64]
    ranks: NDArray[np.intp]
    texts: tuple[str, ...]
    colour: str = INK
    note: str = ""
    """What the margin at the right says."""

    @property
    def levels(self) -> int:
        return int(self.ranks.max(initial=0)) + 1


def numeric(trace: Trace, name: str) -> bool:
    """Whether the events of that name carry single numbers, which are worth an axis of their own."""
    kinds = [kind for kind in trace.events.kinds if kind.name == name]
    return bool(kinds) and all(
        kind.kind in (Kind.REAL, Kind.INTEGER) and kind.cells == 1 and not kind.items for kind in kinds
    )


def ranks(times: NDArray[np.float64]) -> NDArray[np.intp]:
    """For times in order: the how manyeth each is among equal ones, from 0."""
    places = np.arange(len(times))
    fresh = np.concatenate([[True], times[1:] != times[:-1]]) if len(times) else np.zeros(0, bool)
    return places - np.maximum.accumulate(np.where(fresh, places, 0))


def units(trace: Trace, name: str) -> tuple[str, ...]:
    """The units that an event concerns, if the log says so."""
    return next((units for units, _ in trace.events[name].more.values()), ())


def event_colour(trace: Trace, name: str) -> str:
    """That of the events `name`: whether they are shared shows."""
    return _colour_of(len(units(trace, name)))


def _colour_of(concerned: int) -> str:
    return INK if not concerned else PRIVATE if concerned == 1 else SHARED


def lane(trace: Trace, name: str, label: str, colour: str | None = None) -> Lane:
    """The events `name` as marks, in the given `colour` or in that of their kind.

    Of very many, as many as can be told apart.
    """
    marks = _lane(trace, name, label)
    concerned = units(trace, name)
    kind = "" if not concerned else "private: " if len(concerned) == 1 else "shared: "
    note = (
        kind + ", ".join(concerned)
        if len(", ".join(concerned)) <= _MARGIN
        else kind + f"{len(concerned)} units"
    )
    return replace(marks, colour=colour or _colour_of(len(concerned)), note="" if colour else note)


def _lane(trace: Trace, name: str, label: str) -> Lane:
    part = trace.events[name]
    times, order = part.times(), ranks(part.times())
    if len(times) > _MARKS:
        span = (times[-1] - times[0]) or 1.0
        bins = np.round((times - times[0]) / span * _MARKS).astype(np.int64)
        keep = np.unique(bins * (order.max() + 1) + order, return_index=True)[1]
        return Lane(label, times[keep], order[keep], ("",) * len(keep))
    return Lane(label, times, order, tuple(map(_text, part.values().tolist())))


def _text(value: Any) -> str:
    match value:
        case None | True:  # an event without payload is true whenever it is there
            return ""
        case False:
            return "false"
        case float():
            return f"{value:.4g}"
        case list() | tuple():
            return f"({', '.join(_text(cell) or 'true' for cell in value)})"
        case str() if len(value) > 24:
            return value[:23] + "…"
    return str(value)


def height(lanes: Sequence[Lane]) -> float:
    """Inches that the lanes need."""
    return _LEVEL_INCHES * sum(top - bottom for bottom, top in _extents(lanes)) + 0.1


def _extents(lanes: Sequence[Lane]) -> list[tuple[float, float]]:
    """Where every lane begins and ends, from the top down, in levels."""
    found, at = [], 0.0
    for each in lanes:
        room = min(each.levels, _LEVELS) + 0.45
        found.append((at - room, at))
        at -= room
    return found


def draw(axis: Any, panels: Sequence[Any], lanes: Sequence[Lane]) -> None:
    """All marks, and a line through the `panels` above where something happened."""
    frame(axis, "events")
    axis.grid(False)
    colours = _colours(lanes)
    extents = _extents(lanes)
    for each, (bottom, top) in zip(lanes, extents, strict=True):
        axis.axhline(bottom, color=_FLOOR, linewidth=0.6, zorder=0.5)
        marks = _heights(each, bottom)
        paint = [colours.get(text, each.colour) for text in each.texts]
        floors = np.where(each.ranks == 0, bottom, marks - _step(each))
        many = len(each.times) > _LINES
        axis.vlines(each.times, floors, marks, colors=paint, linewidth=0.4 if many else 0.9, clip_on=False)
        axis.scatter(each.times, marks, s=2 if many else 9, c=paint, linewidths=0, zorder=3, clip_on=False)
        if each is not lanes[0]:
            axis.axhline(top, color=_FLOOR, linewidth=0.6, zorder=0.5)
    axis.set_yticks([bottom + 0.55 for bottom, _ in extents], [each.label for each in lanes])
    axis.set_ylim(extents[-1][0], 0.1)
    axis.tick_params(axis="y", length=0)
    for tick, each in zip(axis.get_yticklabels(), lanes, strict=True):
        tick.set_color(each.colour)
    _draw_instants(panels, lanes)


def _draw_instants(panels: Sequence[Any], lanes: Sequence[Lane]) -> None:
    """Lines through the panels, unless there are so many that nothing else could be seen."""
    colours = {
        time: EVENT if each.colour == INK else each.colour for each in lanes for time in each.times.tolist()
    }
    if len(colours) > _LINES:
        return
    few = len(colours) <= _FEW
    style = {"linewidth": 0.8 if few else 0.6, "linestyle": (0, (3, 2)), "alpha": 0.75 if few else 0.3}
    for panel in panels:
        for time, colour in colours.items():
            panel.axvline(time, color=colour, zorder=0.9, **style)


def _heights(each: Lane, bottom: float) -> NDArray[Any]:
    return bottom + 0.55 * min(1.0, 2 * _step(each)) + _step(each) * each.ranks


def _step(each: Lane) -> float:
    return min(1.0, (_LEVELS - 0.55) / each.levels)


def _colours(lanes: Sequence[Lane]) -> dict[str, str]:
    """A colour for every text, if there are enough; a text that is a colour's name gets that one."""
    texts = [text for text in dict.fromkeys(text for each in lanes for text in each.texts) if text]
    if len(texts) > len(COLOURS):
        return {}
    named = {text: COLOURS[_WORDS[text.lower()]] for text in texts if text.lower() in _WORDS}
    free = [colour for colour in COLOURS if colour not in named.values()]
    others = [text for text in texts if text not in named]
    return named | dict(zip(others, free, strict=False))


def label(axis: Any, lanes: Sequence[Lane]) -> None:
    """What the events carried, next to their marks as far as there is room; else in the margin, once.

    Needs the final size of the axis.
    """
    colours = _colours(lanes)
    box = axis.get_window_extent()
    first, last = axis.get_xlim()
    points = box.width / axis.get_figure().dpi * 72 / (last - first)  # points for a second
    for each, (bottom, top) in zip(lanes, _extents(lanes), strict=True):
        marks = _heights(each, bottom)
        if each.note and not any(each.texts):
            _beside(axis, each, bottom + 0.55)
        labelled: set[str] = set()
        for number, left in _fitting(each, points, first, last) if each.levels <= _LEVELS else ():
            labelled.add(each.texts[number])
            axis.annotate(
                each.texts[number],
                (each.times[number], marks[number]),
                xytext=(-_GAP if left else _GAP, 0),
                textcoords="offset points",
                ha="right" if left else "left",
                va="center",
                fontsize=_LABEL,
                color=colours.get(each.texts[number], INK),
                annotation_clip=False,
            )
        unlabelled = [text for text in dict.fromkeys(each.texts) if text and text not in labelled]
        if colours and sum(map(len, unlabelled)) <= _MARGIN:
            _legend(axis, unlabelled, colours, (bottom + top) / 2)


def _beside(axis: Any, each: Lane, middle: float) -> None:
    """Which units these events concern, in the margin at the right."""
    text = f"{len(each.times):,} × {each.note}"
    place = {"transform": axis.get_yaxis_transform(), "va": "center", "clip_on": False}
    axis.text(1.03, middle, text, fontsize=_LABEL + 1, color=each.colour, **place)


def _fitting(each: Lane, points: float, first: float, last: float) -> Iterator[tuple[int, bool]]:
    """The events with a text that has room next to its mark, and whether that is on the left."""
    instants = np.unique(each.times)
    for number, text in enumerate(each.texts):
        if not text:
            continue
        time = each.times[number]
        wide = (0.56 * _LABEL * len(text) + 2 * _GAP) / points
        place = int(np.searchsorted(instants, time))
        after = instants[place + 1] if place + 1 < len(instants) else np.inf
        before = instants[place - 1] if place else first
        if time + wide <= min(after, last + 4 * _GAP / points):
            yield number, False
        elif after == np.inf and time - before >= 2 * wide:
            yield number, True


def _legend(axis: Any, texts: Sequence[str], colours: Mapping[str, str], middle: float) -> None:
    """The texts that had no room, in the margin at the right, in the colours of their marks."""
    at, width = 1.03, axis.get_window_extent().width
    for text in texts:
        place = {"transform": axis.get_yaxis_transform(), "va": "center", "clip_on": False}
        drawn = axis.text(at, middle, text, fontsize=_LABEL, color=colours[text], **place)
        at += (drawn.get_window_extent().width + 2 * _GAP / 72 * axis.get_figure().dpi) / width


# ----------------------------------------------------------------------------------------------------
# What a picture shows before anything is drawn: signals sorted into panels, long ones thinned out.

LINES = 7
"""How many lines a panel shows before it becomes a tangle, and before colours repeat."""
CROWD = 42
"""From here on a group is drawn as one crowd of lines: single ones could not be told apart anyway."""
_POINTS = 4000
_MAX_MARKS = 10_000
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
    band: NDArray[np.float64] | None = None
    """How far off the values may be."""


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
    """The panels of one trace, grouped by quantity; of several traces, one panel for each signal.

    Not each of several traces needs to have all of them; another unit of measure is converted to that of the
    first, and has a panel of its own if it measures something else.
    """
    if len(traces) == 1:
        (trace,) = traces.values()
        return _grouped(trace, select(trace, patterns))
    wanted = None if patterns is None else [patterns] if isinstance(patterns, str) else list(patterns)
    for pattern in wanted or ():
        if not any(_knows(trace, pattern) for trace in traces.values()):
            select(next(iter(traces.values())), [pattern])  # which says so
    panels: dict[str, Panel] = {}
    units: dict[str, str | None] = {}
    for label, trace in traces.items():
        own = None if wanted is None else [pattern for pattern in wanted if _knows(trace, pattern)]
        for column in select(trace, own):
            key, line = column.name, _line(trace, column, label, label)
            try:
                if how := conversion(column.unit, units.setdefault(key, column.unit)):
                    line = replace(line, values=how.scale * line.values + how.offset)
            except MeasureError:
                key = f"{key} in {column.unit}"
            title = column.name + (f" ({unit})" if (unit := pretty(units.get(key, column.unit))) else "")
            panels.setdefault(key, Panel(title, ticks=_ticks(column))).lines.append(line)
    return list(panels.values())


def _knows(trace: Trace, pattern: str) -> bool:
    return bool(_matching((*trace.names, *_events(trace)), pattern))


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
    """Columns of one quantity, apart where one would be a flat line next to another; few panels in all."""
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


def thin(
    time: NDArray[np.float64], values: NDArray[Any], points: int = _POINTS
) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """At most so many points that look the same: the extremes of every short stretch."""
    if len(time) <= points:
        return time, values
    keep = _extremes(values, points)
    return time[keep], values[keep]


def _extremes(values: NDArray[Any], points: int = _POINTS) -> NDArray[np.intp]:
    """The places of the least and the greatest value of every short stretch, and of the ends."""
    batch = -(-len(values) // (points // 2))
    whole = len(values) // batch * batch
    blocks = values[:whole].reshape(-1, batch)
    starts = np.arange(0, whole, batch)
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
    if len(time) <= _MAX_MARKS:
        return time, values
    every = -(-len(time) // _MAX_MARKS)
    # By place, so that none is there twice: it would be drawn next to itself, as another one of its instant.
    keep = np.unique(np.concatenate([np.arange(0, len(time), every), _extremes(values)]))
    return time[keep], values[keep]


_NICE = {"**2": "²", "**3": "³", "**-1": "⁻¹", "**-2": "⁻²", "^2": "²", "^3": "³", "**": "^", "*": "·"}
_UNIT_WORDS = {
    "degC": "°C",
    "degF": "°F",
    "deg": "°",
    "ohm": "Ω",
    "percent": "%",
    "1": "",
    "dimensionless": "",
}


def pretty(unit: str | None) -> str:
    """A unit of measure as it is written on paper."""
    text = _UNIT_WORDS.get(unit or "", unit or "")
    for plain, nice in _NICE.items():
        text = text.replace(plain, nice)
    return text.replace(" ", "")


# ----------------------------------------------------------------------------------------------------
# The panel of step sizes: how long every step was, and why.

_RUNS = 20_000
"""A log of more runs than these has more reasons to show than anybody can see."""
_REASONS = 6
_MANY = 150


@dataclass(frozen=True, slots=True)
class Reason:
    """Why some steps were as long as they were: where they began, and their sizes."""

    text: str
    colour: str
    time: NDArray[np.float64]
    sizes: NDArray[np.float64]


def step_panel(traces: Mapping[str, Trace]) -> Panel:
    """The step sizes over time."""
    panel = Panel("step size (s)")
    for label, trace in traces.items():
        times, sizes = trace.steps.sizes()
        if len(times):
            # The last step lasts until its end.
            ends = np.append(times, times[-1] + sizes[-1]), np.append(sizes, sizes[-1])
            panel.lines.append(Line(label, label, *thin(*ends), held=True))
    if panel.lines:
        every = np.concatenate([line.values for line in panel.lines])
        panel.log = bool(every.max() > 3 * every.min() > 0)
    return panel


def worth(trace: Trace) -> bool:
    """Whether the steps tell a story: some were made for an event."""
    return any(run.why.event for run in trace.steps)


def reasons(trace: Trace) -> list[Reason]:
    """The steps by their reasons, the most frequent one first; none if all had the same."""
    if len(trace.steps) > _RUNS:
        return []
    found: dict[str, list[tuple[float, float, int]]] = {}
    events: dict[str, str] = {}
    for run in trace.steps:
        text = run.why.label
        found.setdefault(text, []).append((run.first, run.size, run.count))
        events[text] = run.why.event
    if len(found) < 2:
        return []
    most = sorted(found, key=lambda text: -sum(count for _, _, count in found[text]))
    free = [colour for colour in COLOURS if colour not in (SHARED, PRIVATE)][2:]
    shown: list[Reason] = []
    for text in most[:_REASONS]:
        runs = found[text]
        time = np.concatenate([first + size * np.arange(count) for first, size, count in runs])
        sizes = np.repeat([size for _, size, _ in runs], [count for *_, count in runs])
        if not shown:
            colour = INK
        elif events[text] in trace.events.names:
            colour = event_colour(trace, events[text])
        else:
            colour = free[len(shown) % len(free)]
        shown.append(Reason(text, colour, time, sizes))
    return shown


def draw_steps(axis: Any, shown: Sequence[Reason]) -> None:
    """A dot at the beginning of every step that was not like most."""
    for line in axis.lines if shown else ():
        line.set(color=FRAME, linewidth=0.9)
    for reason in shown[1:]:
        size = 14 if len(reason.time) <= _MANY else 5
        axis.scatter(
            reason.time, reason.sizes, s=size, c=reason.colour, linewidths=0, zorder=3, clip_on=False
        )


def ticks(axis: Any) -> None:
    """Plain numbers on a logarithmic axis, 1, 2 and 5 of each decade."""
    ticker = need("matplotlib.ticker", "plot", "drawing a picture")
    low, high = axis.get_ylim()
    subs = (1.0, 2.0, 5.0) if high < 1e3 * low else (1.0,)
    axis.yaxis.set_major_locator(ticker.LogLocator(subs=subs, numticks=9))
    axis.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axis.yaxis.set_minor_locator(ticker.NullLocator())


def steps_label(axis: Any, shown: Sequence[Reason]) -> None:
    """The reasons in the margin at the right, in the colours of their dots, and how many steps each had."""
    for number, reason in enumerate(shown):
        axis.annotate(
            f"{len(reason.time):,} × {reason.text}",
            (1.03, 1.0),
            xytext=(0, -(SMALL + 3) * number),
            xycoords="axes fraction",
            textcoords="offset points",
            fontsize=SMALL,
            color=reason.colour,
            va="top",
            annotation_clip=False,
        )


# ----------------------------------------------------------------------------------------------------
# Pictures of a trace: signals by quantity, step sizes and events, good-looking without effort.

_STEMS = 400
_SUFFIXES = (".png", ".svg", ".pdf")


def plot(
    traces: Trace | Mapping[str, Trace] | Sequence[Trace],
    signals: str | Iterable[str] | None = None,
    *,
    out: Path | str | None = None,
    steps: bool | None = None,
    events: bool = True,
    title: str | None = None,
    width: float = 7.2,
    between: tuple[float, float] | None = None,
    trust: Trust | None = None,
    force: bool = False,
) -> Any:
    """Draw signals over time and return the matplotlib figure; with `out`, save it as PNG, SVG or PDF.

    A file that is there and that Upbeat has not drawn is replaced with `force` only.

    Signals with the same unit of measure share a panel, as far as they are of similar size. `between` is a
    part of the time, such as ``(2.0, 2.5)``. `signals` are names or patterns such as
    ``left.*``, of signals and of events. Several traces (a mapping from labels, or a sequence) are compared
    signal by signal. `steps` adds a panel with the step sizes, and why some are not like most; unless said
    otherwise it is there if steps were made for events. Without `events` none are drawn: else
    those that carry numbers as stems in panels of their own, all others in lanes at the bottom.
    Colours tell events of several units (shared) from those of a single one (private). With what `up.trust`
    says about a trace, its signals have bands as wide as their estimated errors.
    """
    Figure = figure_class()
    target = checked_target(out, force=force)
    named = _named(traces)
    if isinstance(width, bool) or not isinstance(width, (int, float)) or not 1.0 <= width <= 100.0:
        raise InvalidInput(f"width must be a number of inches from 1 to 100, not {width!r:.60}")
    if between is not None:
        if not isinstance(between, (tuple, list)) or len(between) != 2:
            raise InvalidInput(f"between must be two times, such as (2.0, 2.5), not {between!r:.60}")
        named = _named({label: trace.between(*between) for label, trace in named.items()})
    if signals is not None and not isinstance(signals, str):
        check_type(signals, Iterable, "signals")
        signals = list(signals)
        for name in signals:
            check_type(name, str, "the name of a signal")
    wanted = None if signals is None else [signals] if isinstance(signals, str) else list(signals)
    if trust is not None:
        from upbeat.judging.trust import Trust  # what judges is loaded only where something was judged

        check_type(trust, Trust, "trust")
    panels = [_banded(panel, trust) for panel in arrange(named, wanted)] + (
        event_panels(named, wanted) if events else []
    )
    sizes = step_panel(named)
    if sizes.lines and (any(map(worth, named.values())) if steps is None else steps):
        panels.append(sizes)
    why = reasons(*named.values()) if len(named) == 1 and sizes in panels else []
    colours = _line_colours(panels)
    rows = _lanes(named, wanted, colours) if events else []
    if not panels and not rows:
        raise InvalidInput("there is nothing to draw: the trace has no signals but text")
    heights = [_height(panel, len(panels)) for panel in panels] + ([height(rows)] if rows else [])
    total = sum(heights) + 0.25 * len(heights) + 0.35 + (0.3 if title else 0)
    figure = Figure(figsize=(width, total), layout="constrained", facecolor="white")
    figure.get_layout_engine().set(h_pad=0.04, w_pad=0.06, hspace=0.0)
    axes = figure.subplots(
        len(heights), 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights}
    )[:, 0]
    if title:
        figure.suptitle(title, fontsize=TEXT + 2, color=INK, x=0.02, ha="left", weight="bold")
    shared: dict[str, Any] = {}
    for axis, panel in zip(axes, panels, strict=False):
        frame(axis, panel.title)
        _draw(axis, panel, colours, len(named) > 1)
        if panel is sizes:
            draw_steps(axis, why)
        if panel.share in shared:
            axis.sharey(shared[panel.share])
        elif panel.share:
            shared[panel.share] = axis
    if rows:
        # Runs that are compared have their events at almost the same times: lines would be a tangle.
        draw(axes[-1], axes[:-1] if len(named) == 1 else (), rows)
    _finish_time(axes, named, between)
    figure.draw_without_rendering()  # labels need the final height of the panels, which is known now
    for number, (axis, panel) in enumerate(zip(axes, panels, strict=False)):
        if number == 0 or len(named) == 1:  # runs that are compared have the same colours everywhere
            _label(axis, panel, colours)
        if panel is sizes:
            steps_label(axis, why)
    if rows:
        label(axes[-1], rows)
    save(figure, target)
    return figure


def _banded(panel: Panel, trust: Trust | None) -> Panel:
    """A panel of one trace with bands around the signals whose errors are known."""
    for number, line in enumerate(panel.lines):
        found = None if trust is None else trust.signals.get(line.label)
        if found is not None and len(found.band) and not line.held:
            band = np.interp(line.time, found.time, found.band)
            panel.lines[number] = replace(line, band=np.where(np.isfinite(band), band, 0.0))
    return panel


def save(figure: Any, target: Path | None) -> None:
    """Write a figure to a file, if there is one to write to."""
    if target is not None:
        try:
            figure.savefig(target, dpi=160)
        except OSError as error:
            raise unwritable(target, error) from error


def checked_target(path: Path | str | None, *, force: bool = False) -> Path | None:
    """Where a picture goes; `FileProblem` if it cannot go there, or would replace what is no picture of ours
    (unless by `force`)."""
    if path is None:
        return None
    target = as_path(path, "out")
    if target.suffix.lower() not in _SUFFIXES:
        raise FileProblem(
            f"cannot draw '{target}': the suffix must be {', '.join(_SUFFIXES[:-1])} or {_SUFFIXES[-1]}"
        )
    check_place(target)
    check_picture(target, force=force)
    return target


def check_picture(path: Path, *, force: bool = False) -> None:
    """`FileProblem` if there is a file that matplotlib has not drawn, which leaves its name in it."""
    kept_from(path, lambda file: b"atplotlib" in file.read_bytes(), "a picture drawn by Upbeat", force=force)


def _named(traces: Trace | Mapping[str, Trace] | Sequence[Trace]) -> dict[str, Trace]:
    check_type(traces, (Trace, Mapping, Sequence), "traces")
    if isinstance(traces, Trace):
        named = {"": traces}
    elif isinstance(traces, Mapping):
        named = dict(traces)
    else:
        named = {f"run {number}": trace for number, trace in enumerate(traces, 1)}
    for label, trace in named.items():
        check_type(trace, Trace, f"the trace {label!r}")
    if not named:
        raise InvalidInput("there is nothing to draw: no trace was given")
    for label, trace in named.items():
        if len(trace) == 0:
            raise InvalidInput(f"there is nothing to draw: the trace {label!r} is empty".replace(" ''", ""))
    return named


def _height(panel: Panel, count: int) -> float:
    """Inches: room for every label at the right, less where there are many panels."""
    if panel.ticks:
        return max(0.2 * len(panel.ticks) + 0.25, 0.17 * len(panel.lines), 0.5)
    minimum = 2.6 if count == 1 else 1.5 if count <= 4 else 1.1
    return max(minimum, 0.17 * min(len(panel.lines), LINES))


def _line_colours(panels: Sequence[Panel]) -> dict[str, str]:
    """One colour per key, if a key is never twice in a panel and there are enough colours; else none."""
    keys = list(dict.fromkeys(line.colour for panel in panels for line in panel.lines if line.colour))
    clash = any(len({line.colour for line in panel.lines}) < len(panel.lines) for panel in panels)
    return {} if clash or len(keys) > len(COLOURS) else dict(zip(keys, COLOURS, strict=False))


def _colour(panel: Panel, number: int, colours: Mapping[str, str]) -> str:
    key = panel.lines[number].colour
    return colours.get(key, COLOURS[number % len(COLOURS)]) if key else INK


def _draw(axis: Any, panel: Panel, colours: Mapping[str, str], compare: bool) -> None:
    crowd = len(panel.lines) >= CROWD
    shades = need("matplotlib", "plot", "drawing a picture").colormaps["viridis"] if crowd else None
    for number, line in enumerate(panel.lines):
        # Runs that agree would hide one another, so each is thinner than the one below it.
        if line.stems:
            _draw_stems(axis, line, _colour(panel, number, colours))
            continue
        if line.band is not None:
            edges = line.values - line.band, line.values + line.band
            shade = {"alpha": 0.22, "linewidth": 0, "color": _colour(panel, number, colours)}
            axis.fill_between(line.time, *edges, **shade)
        width = 0.7 if crowd else max(1.0, 2.6 - 0.8 * number) if compare else 1.5 if line.colour else 1.0
        width = min(width, 1.0) if panel.log else width
        axis.plot(
            line.time,
            line.values,
            color=shades(0.9 * number / len(panel.lines)) if shades else _colour(panel, number, colours),
            linewidth=width,
            drawstyle="steps-post" if line.held else "default",
            solid_joinstyle="round",
        )
    if panel.log:
        axis.set_yscale("log")
        ticks(axis)
    elif panel.ticks:
        codes = panel.ticks.codes
        axis.set_yticks(codes, panel.ticks)
        axis.set_ylim(min(codes) - 0.25, max(codes) + 0.25)
    else:
        _limits(axis, panel.lines)


def _draw_stems(axis: Any, line: Line, colour: str) -> None:
    """A stem from zero for every event, or only dots where stems would merge.

    Those of one instant stand side by side, in their order.
    """
    scale = need("matplotlib.transforms", "plot", "drawing a picture").ScaledTranslation
    order = ranks(line.time)
    many = len(line.time) > _STEMS
    for rank in np.unique(order):
        here = order == rank
        beside = axis.transData + scale(2.5 * rank / 72, 0, axis.get_figure().dpi_scale_trans)
        if not many:
            axis.vlines(line.time[here], 0, line.values[here], colors=colour, linewidth=1.0, transform=beside)
        look = {"markersize": 1.8 if many else 3.2, "alpha": 0.5 if many else 1.0, "markeredgewidth": 0}
        axis.plot(line.time[here], line.values[here], "o", color=colour, transform=beside, **look)
    axis.axhline(0, color=FRAME, linewidth=0.6, zorder=0.9)
    axis.update_datalim([(t, v) for t, v in zip(line.time, line.values, strict=True) if np.isfinite(v)])
    axis.autoscale_view()


def _limits(axis: Any, lines: Sequence[Line]) -> None:
    """A signal that does not move is a line through the middle, not rounding noise blown up."""
    low = min(float(np.min(line.values)) for line in lines)
    high = max(float(np.max(line.values)) for line in lines)
    if np.isfinite([low, high]).all() and high - low <= 1e-9 * max(abs(low), abs(high)):
        middle = (low + high) / 2
        room = abs(middle) / 2 or 1.0
        axis.set_ylim(middle - room, middle + room)
    axis.ticklabel_format(axis="y", useOffset=False)
    axis.locator_params(axis="y", nbins=5)


def _label(axis: Any, panel: Panel, colours: Mapping[str, str]) -> None:
    """Names at the right end of the lines, moved apart where they would meet."""
    lines = panel.lines
    if not any(line.label for line in lines):
        return
    if len(lines) >= CROWD:
        note = f"{len(lines)} signals:\n{lines[0].label} (dark)\n… {lines[-1].label} (light)"
        axis.annotate(note, (1.02, 0.5), xycoords="axes fraction", fontsize=SMALL, va="center", color=INK)
        return
    figure = axis.get_figure()
    height = axis.get_window_extent().height / figure.dpi * 72
    to_panel = axis.transData + axis.transAxes.inverted()
    ends = [_inside(float(to_panel.transform((line.time[-1], line.values[-1]))[1]), 0.0) for line in lines]
    places = spread(ends, (SMALL + 2.2) / height)
    for number, (line, end, place) in enumerate(zip(lines, ends, places, strict=True)):
        colour = _colour(panel, number, colours)
        axis.annotate(
            line.label,
            xy=(1.0, end),
            xytext=(1.03, place),
            xycoords="axes fraction",
            textcoords="axes fraction",
            fontsize=SMALL,
            color=colour,
            va="center",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": colour,
                "linewidth": 0.6,
                "alpha": 0.6,
                "shrinkA": 1,
                "shrinkB": 1,
                "relpos": (0, 0.5),
            },
        )


def spread(wanted: Sequence[float], gap: float) -> list[float]:
    """Places near the `wanted` ones, within 0 … 1 and `gap` apart: those that would meet share a middle."""
    clusters: list[tuple[float, list[int]]] = []  # middle, members from the lowest up
    for i in sorted(range(len(wanted)), key=lambda i: wanted[i]):
        members, middle = [i], _inside(wanted[i], 0.0)
        while clusters and middle - clusters[-1][0] < gap * (len(members) + len(clusters[-1][1])) / 2:
            before, others = clusters.pop()
            middle = (before * len(others) + middle * len(members)) / (len(others) + len(members))
            members = others + members
            middle = _inside(middle, gap * (len(members) - 1) / 2)
        clusters.append((middle, members))
    places = [0.0] * len(wanted)
    for middle, members in clusters:
        for rank, i in enumerate(members):
            places[i] = middle + gap * (rank - (len(members) - 1) / 2)
    return places


def _inside(middle: float, half: float) -> float:
    """`middle` moved so that `half` on either side stays within 0 … 1, if there is room."""
    return 0.5 if half > 0.5 or math.isnan(middle) else min(max(middle, half), 1.0 - half)


def _lanes(
    traces: Mapping[str, Trace], signals: Sequence[str] | None, colours: Mapping[str, str]
) -> list[Lane]:
    """The events without a number to show, by name; of several traces, by name and label."""
    found = {
        label: [name for name in select_events(trace, signals) if not numeric(trace, name)]
        for label, trace in traces.items()
    }
    return [
        lane(traces[label], name, f"{name}: {label}" if label else name, colours.get(label))
        for name in dict.fromkeys(name for names in found.values() for name in names)
        for label, names in found.items()
        if name in names
    ]


def _finish_time(
    axes: Sequence[Any], traces: Mapping[str, Trace], between: tuple[float, float] | None
) -> None:
    first = min(trace.span[0] for trace in traces.values())
    last = max(trace.span[1] for trace in traces.values())
    if between is not None:
        first, last = between
    if last > first:
        axes[-1].set_xlim(first, last)
    axes[-1].set_xlabel("time (s)", fontsize=TEXT, color=INK)
    for axis in axes:
        axis.label_outer()
