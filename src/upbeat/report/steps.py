"""Which step size: the table of settings in words, and the work-precision diagram."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from upbeat.core.errors import check_type
from upbeat.judging.steps import Setting, StepAdvice
from upbeat.report.plot import COLOURS, FRAME, INK, SMALL, TEXT, checked_target, figure_class, frame, save
from upbeat.trace.extras import need

_MARKERS, _LINES = ("o", "^", "s", "D", "v"), ("-", "--", ":", "-.", "-")
ROWS = 40
"""So many settings are printed; all of them are in the data."""


def describe_steps_found(found: StepAdvice) -> str:
    """The recommendation, the table it rests on, and what was left out."""
    lines = [found.reason, "", *_table(found), "", *_legend(found)]
    if found.notes:
        lines += ["", "Notes:", *(f"  • {note}" for note in found.notes)]
    if found.undone:
        lines += ["", "Not come to:", *(f"  • {text}" for text in found.undone)]
    return "\n".join(lines)


HEAD = ("", "step", "coupling", "inputs", "error", "margin", "work", "")


def rows_of(found: StepAdvice) -> list[tuple[str, ...]]:
    """The first settings as a table says them, under `HEAD`."""
    front, rows = found.front, list[tuple[str, ...]]()
    for one in found.settings[:ROWS]:
        mark = "→" if one is found.best else "*" if one in front else "·" if one.present else ""
        work = "–" if one.work is None else f"{'~' if one.about else ''}{one.work:,}"
        rows.append(
            (
                mark,
                f"{one.step:.6g}",
                one.coupling,
                one.inputs,
                _error(one),
                "–" if one.margin is None else f"{one.margin:.2g}",
                work,
                _remark(one),
            )
        )
    return rows


def _table(found: StepAdvice) -> Iterator[str]:
    rows = [HEAD, *rows_of(found)]
    widths = [max(len(row[k]) for row in rows) for k in range(8)]
    right = (1, 4, 5, 6)
    for row in rows:
        cells = [row[k].rjust(widths[k]) if k in right else row[k].ljust(widths[k]) for k in range(8)]
        yield ("  " + "  ".join(cells)).rstrip()
    if len(found.settings) > ROWS:
        yield f"  … and {len(found.settings) - ROWS} more (--json has all)"


def _error(one: Setting) -> str:
    if one.error is None:
        return "–"
    return f"{one.error:.1e}" if math.isfinite(one.error) else "events"


def _remark(one: Setting) -> str:
    words = ["as it is now"] if one.present else []
    if one.why:
        words.append(one.why if len(one.why) <= 90 else f"{one.why[:88]} …")
    return "; ".join(words)


def _legend(found: StepAdvice) -> list[str]:
    work = found.best.work if found.best is not None else None
    times = f", {found.work / work:.1f} times that of the recommended run" if work else ""
    return [
        "  → recommended, * nothing else has both a smaller error and less work; error: of the worst signal, "
        "relative to its range;",
        "  margin: of stability, 1 - the largest eigenvalue; work: calls of units, and steps of solvers.",
        f"  {found.runs} runs, {found.work:,} of work in all{times}.",
    ]


def plot_steps(
    found: StepAdvice, *, out: Path | str | None = None, title: str | None = None, force: bool = False
) -> Any:
    """Draw the work-precision diagram and return the figure. With `out`, save it as PNG, SVG or PDF."""
    check_type(found, StepAdvice, "what is drawn")
    Figure = figure_class()
    target = checked_target(out, force=force)
    figure = Figure(figsize=(8.6, 4.4), layout="constrained", facecolor="white")
    axis = figure.subplots()
    frame(axis, title or "Error over work")
    axis.set_xscale("log")
    axis.set_yscale("log")
    ways: dict[str, list[Setting]] = {}
    for one in found.settings:
        if one.error is not None and math.isfinite(one.error) and one.work:
            ways.setdefault(one.way, []).append(one)
    tiny = min((o.error for each in ways.values() for o in each if o.error), default=1e-16)
    couplings = list(dict.fromkeys(one.coupling for each in ways.values() for one in each))
    inputs = list(dict.fromkeys(one.inputs for each in ways.values() for one in each))
    for way, settings in ways.items():
        settings.sort(key=lambda one: -one.step)
        colour = COLOURS[couplings.index(settings[0].coupling) % len(COLOURS)]
        which = inputs.index(settings[0].inputs) % len(_MARKERS)
        places = [(float(one.work or 1), max(one.error or 0.0, tiny)) for one in settings]
        axis.plot(
            *zip(*places, strict=True), _LINES[which], marker=_MARKERS[which], markersize=5, color=colour,
            markerfacecolor="white", linewidth=1, label=way,
        )  # fmt: skip
    front = [(float(one.work or 1), max(one.error or 0.0, tiny)) for one in found.front]
    if len(front) > 1:
        axis.plot(
            *zip(*front, strict=True), color=FRAME, linewidth=5, alpha=0.35, zorder=0.5, label="the front"
        )
    axis.axhline(found.tolerance, color=INK, linewidth=0.8, linestyle=":")
    axis.annotate(
        f"asked: {found.tolerance:g}", (1.0, found.tolerance), xycoords=("axes fraction", "data"),
        xytext=(-4, 3), textcoords="offset points", fontsize=SMALL, color=INK, ha="right",
    )  # fmt: skip
    best = found.best
    if best is not None and best.work and best.error is not None:
        at = (float(best.work), max(best.error, tiny))
        axis.plot(
            *at, marker="o", markersize=12, markerfacecolor="none", markeredgecolor=INK, linestyle="none"
        )
        axis.annotate(
            f"step {best.step:.6g}", at, xytext=(-9, -12), textcoords="offset points", fontsize=TEXT,
            color=INK, weight="bold", ha="right",
        )  # fmt: skip
    for one in found.settings:
        if one.present and one is not best and one.error and math.isfinite(one.error) and one.work:
            axis.annotate(
                "now", (float(one.work), one.error), xytext=(6, 5), textcoords="offset points",
                fontsize=SMALL, color=INK,
            )  # fmt: skip
    ticker = need("matplotlib.ticker", "plot", "drawing a picture")
    axis.xaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axis.xaxis.set_minor_formatter(ticker.NullFormatter())
    axis.margins(x=0.08, y=0.1)
    axis.set_xlabel("work (calls of units and steps of their solvers)", fontsize=SMALL, color=INK)
    axis.set_ylabel("estimated error of the worst signal", fontsize=SMALL, color=INK)
    if ways:
        figure.legend(frameon=False, fontsize=SMALL, labelcolor=INK, loc="outside right upper")
    save(figure, target)
    return figure
