"""Pictures of a trace: signals by quantity, step sizes and events, good-looking without effort."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from upbeat.core.atomic import as_path
from upbeat.core.errors import FileProblem, InvalidInput, check_type
from upbeat.report import lanes
from upbeat.report import steps as step_sizes
from upbeat.report.panels import CROWD, LINES, Line, Panel, arrange, event_panels, select_events
from upbeat.report.style import COLOURS, FRAME, INK, SMALL, TEXT, frame
from upbeat.trace.extras import need
from upbeat.trace.files.output import check_place, kept_from, unwritable
from upbeat.trace.trace import Trace

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
) -> Any:
    """Draw signals over time and return the matplotlib figure; with `out`, save it as PNG, SVG or PDF.

    Signals with the same unit of measure share a panel, as far as they are of similar size. `between` is a
    part of the time, such as ``(2.0, 2.5)``. `signals` are names or patterns such as
    ``left.*``, of signals and of events. Several traces (a mapping from labels, or a sequence) are compared
    signal by signal. `steps` adds a panel with the step sizes, and why some are not like most; unless said
    otherwise it is there if steps were made for events. Without `events` none are drawn: else
    those that carry numbers as stems in panels of their own, all others in lanes at the bottom.
    Colours tell events of several units (shared) from those of a single one (private).
    """
    figures = need("matplotlib.figure", "plot", "drawing a picture")
    target = checked_target(out)
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
    panels = arrange(named, wanted) + (event_panels(named, wanted) if events else [])
    sizes = step_sizes.step_panel(named)
    if sizes.lines and (any(map(step_sizes.worth, named.values())) if steps is None else steps):
        panels.append(sizes)
    why = step_sizes.reasons(*named.values()) if len(named) == 1 and sizes in panels else []
    colours = _colours(panels)
    rows = _lanes(named, wanted, colours) if events else []
    if not panels and not rows:
        raise InvalidInput("there is nothing to draw: the trace has no signals but text")
    heights = [_height(panel, len(panels)) for panel in panels] + ([lanes.height(rows)] if rows else [])
    total = sum(heights) + 0.25 * len(heights) + 0.35 + (0.3 if title else 0)
    figure = figures.Figure(figsize=(width, total), layout="constrained", facecolor="white")
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
            step_sizes.draw(axis, why)
        if panel.share in shared:
            axis.sharey(shared[panel.share])
        elif panel.share:
            shared[panel.share] = axis
    if rows:
        # Runs that are compared have their events at almost the same times: lines would be a tangle.
        lanes.draw(axes[-1], axes[:-1] if len(named) == 1 else (), rows)
    _finish_time(axes, named, between)
    figure.draw_without_rendering()  # labels need the final height of the panels, which is known now
    for number, (axis, panel) in enumerate(zip(axes, panels, strict=False)):
        if number == 0 or len(named) == 1:  # runs that are compared have the same colours everywhere
            _label(axis, panel, colours)
        if panel is sizes:
            step_sizes.label(axis, why)
    if rows:
        lanes.label(axes[-1], rows)
    save(figure, target)
    return figure


def save(figure: Any, target: Path | None) -> None:
    """Write a figure to a file, if there is one to write to."""
    if target is not None:
        try:
            figure.savefig(target, dpi=160)
        except OSError as error:
            raise unwritable(target, error) from error


def checked_target(path: Path | str | None) -> Path | None:
    """Where a picture goes; `FileProblem` if it cannot go there."""
    if path is None:
        return None
    target = as_path(path, "out")
    if target.suffix.lower() not in _SUFFIXES:
        raise FileProblem(
            f"cannot draw '{target}': the suffix must be {', '.join(_SUFFIXES[:-1])} or {_SUFFIXES[-1]}"
        )
    check_place(target)
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
    least = 2.6 if count == 1 else 1.5 if count <= 4 else 1.1
    return max(least, 0.17 * min(len(panel.lines), LINES))


def _colours(panels: Sequence[Panel]) -> dict[str, str]:
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
        step_sizes.ticks(axis)
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
    order = lanes.ranks(line.time)
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
) -> list[lanes.Lane]:
    """The events without a number to show, by name; of several traces, by name and label."""
    found = {
        label: [name for name in select_events(trace, signals) if not lanes.numeric(trace, name)]
        for label, trace in traces.items()
    }
    return [
        lanes.lane(traces[label], name, f"{name}: {label}" if label else name, colours.get(label))
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
