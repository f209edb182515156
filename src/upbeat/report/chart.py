"""The picture of a schedule: a lane for every core, with what it does when, and the outputs under a glass."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from upbeat.report.plot import COLOURS, FRAME, INK, SMALL, TEXT, checked_target, figure_class, frame, save
from upbeat.report.schedule import Chart
from upbeat.trace.extras import need

_PAINT = {
    "state": COLOURS[0],
    "loop": COLOURS[3],
    "out": COLOURS[1],
    "in": COLOURS[4],
    "other": COLOURS[6],
}
_WORDS = {"state": "state", "loop": "algebraic loop", "out": "output", "in": "input", "other": "arithmetic"}
_LANE_INCHES = 0.36
_LETTER = 0.6
"""How wide a letter is, in heights of the text."""
_MAX_LINES = 200


def draw(
    charts: Sequence[Chart],
    out: Path | str | None = None,
    title: str = "",
    width: float = 7.2,
    *,
    force: bool = False,
) -> Any:
    """Draw the charts and return the matplotlib figure; with `out`, save it as PNG, SVG or PDF.

    Where outputs and inputs take little of the time, a second panel shows the part in which they happen.
    """
    Figure = figure_class()
    target = checked_target(out, force=force)
    panels = [panel for chart in charts for panel in _panels(chart)]
    heights = [_LANE_INCHES * max(1, len(chart.parallel.schedule.busy)) + 0.5 for chart, *_ in panels]
    size = (width, sum(heights) + 0.25 * len(heights) + 0.4)
    figure = Figure(figsize=size, layout="constrained", facecolor="white")
    axes = figure.subplots(len(panels), 1, squeeze=False, gridspec_kw={"height_ratios": heights})[:, 0]
    figure.suptitle(title or "schedule", fontsize=TEXT + 2, color=INK, x=0.02, ha="left", weight="bold")
    for axis, (chart, first, last, text) in zip(axes, panels, strict=True):
        _lanes(axis, chart, first, last, text)
    _legend(figure, charts)
    figure.draw_without_rendering()  # what fits into a bar depends on the final size
    for axis, (chart, first, last, _) in zip(axes, panels, strict=True):
        _names(axis, chart, first, last)
    save(figure, target)
    return figure


def _panels(chart: Chart) -> list[tuple[Chart, float, float, str]]:
    it = chart.parallel
    whole, cores = 1e6 * it.plan.makespan, len(it.schedule.cores)
    many = f"{cores} core{'s' if cores > 1 else ''}"
    idle = cores - len(it.schedule.busy)
    many += f" ({idle} of them idle)" if idle else ""
    text = f"{chart.block}: {many}, {chart.predicted:.2f} × as fast as one (predicted)"
    panels = [(chart, 0.0, whole, text)]
    small = [k for k, op in enumerate(it.operations) if op.kind in ("out", "in")]
    if small:
        first, last = min(it.plan.start[k] for k in small), max(it.plan.end[k] for k in small)
        if 0 < last - first < 0.4 * it.plan.makespan:
            margin = 0.04 * (last - first)
            at = (max(0.0, 1e6 * (first - margin)), 1e6 * (last + margin))
            panels.append((chart, *at, "the same, where outputs and inputs are exchanged"))
    return panels


def _lanes(axis: Any, chart: Chart, first: float, last: float, text: str) -> None:
    it, cores = chart.parallel, max(1, len(chart.parallel.schedule.busy))  # idle ones would come last
    frame(axis, text)
    axis.grid(False)
    for kind, colour in _PAINT.items():
        mine = [k for k, op in enumerate(it.operations) if op.kind == kind]
        if mine:
            starts = [1e6 * it.plan.start[k] for k in mine]
            lengths = [1e6 * (it.plan.end[k] - it.plan.start[k]) for k in mine]
            rows = [it.plan.core[k] for k in mine]
            axis.barh(rows, lengths, left=starts, height=0.7, color=colour, edgecolor="white", linewidth=0.5)
    crossing = [
        (b, k)
        for k, operation in enumerate(it.operations)
        for b in operation.before
        if it.plan.core[b] != it.plan.core[k]
    ]
    for b, k in crossing if len(crossing) <= _MAX_LINES else ():
        times = [1e6 * it.plan.end[b], 1e6 * it.plan.start[k]]
        axis.plot(times, [it.plan.core[b], it.plan.core[k]], color=FRAME, linewidth=0.6, zorder=0.5)
    axis.set_yticks(range(cores), [f"core {core}" for core in range(cores)])
    axis.set_ylim(cores - 0.5, -0.5)
    axis.set_xlim(first, last if last > first else first + 1.0)
    axis.tick_params(axis="y", length=0)
    axis.set_xlabel("microseconds", fontsize=SMALL, color=INK)


def _names(axis: Any, chart: Chart, first: float, last: float) -> None:
    """What is done, where the bar has room for it."""
    it = chart.parallel
    points = axis.get_window_extent().width / axis.get_figure().dpi * 72 / ((last - first) or 1.0)
    for number, operation in enumerate(it.operations):
        start, end = max(first, 1e6 * it.plan.start[number]), min(last, 1e6 * it.plan.end[number])
        name = operation.name.split(" ", 1)[-1]
        if (end - start) * points < _LETTER * (SMALL - 1) * len(name) + 2:
            continue
        axis.text(
            (start + end) / 2,
            it.plan.core[number],
            name,
            ha="center",
            va="center",
            fontsize=SMALL - 1,
            color="white" if operation.kind != "in" else INK,
        )


def _legend(figure: Any, charts: Sequence[Chart]) -> None:
    patches = need("matplotlib.patches", "plot", "drawing a picture")
    kinds = {operation.kind for chart in charts for operation in chart.parallel.operations}
    handles = [patches.Patch(color=_PAINT[kind], label=_WORDS[kind]) for kind in _PAINT if kind in kinds]
    figure.legend(
        handles=handles, loc="upper right", ncols=len(handles), frameon=False, fontsize=SMALL, labelcolor=INK
    )
