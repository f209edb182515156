"""Events in a picture: a lane for each name, what they carried beside them, stacked within an instant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upbeat.core.ports import Kind
from upbeat.report.style import COLOURS, EVENT, INK, frame
from upbeat.trace.trace import Trace

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


def colour(trace: Trace, name: str) -> str:
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
    """What the events carried, beside their marks as far as there is room; else in the margin, once.

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
        told: set[str] = set()
        for number, left in _fitting(each, points, first, last) if each.levels <= _LEVELS else ():
            told.add(each.texts[number])
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
        untold = [text for text in dict.fromkeys(each.texts) if text and text not in told]
        if colours and sum(map(len, untold)) <= _MARGIN:
            _legend(axis, untold, colours, (bottom + top) / 2)


def _beside(axis: Any, each: Lane, middle: float) -> None:
    """Which units these events concern, in the margin at the right."""
    text = f"{len(each.times):,} × {each.note}"
    place = {"transform": axis.get_yaxis_transform(), "va": "center", "clip_on": False}
    axis.text(1.03, middle, text, fontsize=_LABEL + 1, color=each.colour, **place)


def _fitting(each: Lane, points: float, first: float, last: float) -> Iterator[tuple[int, bool]]:
    """The events with a text that has room beside its mark, and whether that is on the left."""
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
