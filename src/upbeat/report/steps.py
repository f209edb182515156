"""The panel of step sizes: how long every step was, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upbeat.report import lanes
from upbeat.report.panels import Line, Panel, thin
from upbeat.report.style import COLOURS, FRAME, INK, SMALL
from upbeat.trace.extras import need
from upbeat.trace.trace import Trace

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
    free = [colour for colour in COLOURS if colour not in (lanes.SHARED, lanes.PRIVATE)][2:]
    shown: list[Reason] = []
    for text in most[:_REASONS]:
        runs = found[text]
        time = np.concatenate([first + size * np.arange(count) for first, size, count in runs])
        sizes = np.repeat([size for _, size, _ in runs], [count for *_, count in runs])
        if not shown:
            colour = INK
        elif events[text] in trace.events.names:
            colour = lanes.colour(trace, events[text])
        else:
            colour = free[len(shown) % len(free)]
        shown.append(Reason(text, colour, time, sizes))
    return shown


def draw(axis: Any, shown: Sequence[Reason]) -> None:
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


def label(axis: Any, shown: Sequence[Reason]) -> None:
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
