"""Events that were discovered: in words, as text to paste into a scenario file, and as a picture."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from upbeat.core.errors import InvalidInput, check_type
from upbeat.judging.discovering import Discovery
from upbeat.judging.explaining import Condition, Quantity
from upbeat.report.plot import COLOURS, INK, SMALL, TEXT, checked_target, figure_class, frame, save
from upbeat.scenario.files.toml import toml_text

WIDTH = 100
LEFT = 8
"""So many of the things that nothing explains are listed."""
PANELS = 8
"""So many conditions are drawn."""


def describe_discovery(found: Discovery) -> str:
    """What was found and why it is believed; what it was found in; and what to paste."""
    lines = [_headline(found), ""]
    for one in found.conditions:
        lines += _told(one, one in found.sure)
    if found.unexplained:
        of = f"{len(found.unexplained)} of {len(found.happened)}"
        lines += [*([""] if found.conditions else []), f"Nothing explains {of} things that happened:"]
        for left in found.unexplained[:LEFT]:
            lines.append(f"  t = {left.time:.6g}: {', '.join(map(str, left.breaks[:3]))}")
        if len(found.unexplained) > LEFT:
            lines.append("  …")
        lines.append("  What happens once fits many conditions: run longer, or vary start values (--vary).")
    if found.known:
        told = ", ".join(f"{name} ({count} ×)" for name, count in found.known.items())
        lines += ["", f"Known already, and in the log: {told}."]
    lines += [f"Note: {note}." for note in found.notes]
    if found.sure:
        lines += ["", snippet(found).rstrip()]
    return "\n".join(lines)


def _headline(found: Discovery) -> str:
    runs = (
        f"{found.runs} run{'s' if found.runs != 1 else ''} of {found.steps:,} steps in {found.seconds:.1f} s"
    )
    if not found.happened:
        return f"Nothing was seen to happen: no jump, no kink, no change of a mode ({runs})."
    many = len(found.sure)
    if not many:
        events = f"{len(found.happened)} events" if len(found.happened) > 1 else "one event"
        return f"No condition is sure enough to explain the {events} ({runs})."
    what = f"{many} condition{'s' if many != 1 else ''} found"
    explained = sum(one.count for one in found.sure)
    explain = "explains" if many == 1 else "explain"
    return f"{what}, which {explain} {explained} of {len(found.happened)} events ({runs})."


def _told(one: Condition, sure: bool) -> Iterator[str]:
    when = one.when or f"every {one.every:g} s, first at {one.offset:g} s"
    why = "" if sure else "   (not written: no output shows it)" if not one.shown else "   (not sure enough)"
    yield f"  {one.confidence:.2f}  {when}{why}"
    yield from textwrap.wrap(one.evidence, WIDTH, initial_indent="        ", subsequent_indent="        ")


def snippet(found: Discovery) -> str:
    """The lines to paste into a scenario file, each condition with its evidence as a comment."""
    made = []
    for one in found.sure:
        said = textwrap.wrap(f"confidence {one.confidence:.2f}: {one.evidence}", WIDTH)
        made.append("\n".join(f"# {line}" for line in said) + "\n" + toml_text(one.tables).strip())
    return "\n\n".join(made) + "\n" if made else ""


def plot_discovery(
    found: Discovery, *, out: Path | str | None = None, force: bool = False, title: str | None = None
) -> Any:
    """The quantities that conditions are about, with their thresholds and what happened there.

    Returns the Matplotlib figure; with `out` it is written there (.png, .svg, .pdf).
    """
    check_type(found, Discovery, "found")
    Figure = figure_class()
    target = checked_target(out, force=force)
    drawn = [one for one in found.conditions if one.quantity is not None and one.quantity.terms][:PANELS]
    if not drawn or not found.rows:
        raise InvalidInput("there is nothing to draw: no condition on a quantity was found")
    figure = Figure(figsize=(8.4, 0.8 + 1.5 * len(drawn)), layout="constrained", facecolor="white")
    axes = figure.subplots(len(drawn), 1, sharex=True, squeeze=False)[:, 0]
    rows = found.rows[0]
    for axis, one in zip(axes, drawn, strict=True):
        assert one.quantity is not None
        frame(axis, f"{one.when}   (confidence {one.confidence:.2f}, {one.count} events)")
        path = _path(one.quantity, rows)
        axis.plot(rows.time, path, color=COLOURS[0], linewidth=1.2)
        axis.axhline(one.threshold, color=INK, linewidth=0.8, linestyle="--")
        times = [t for run, t in one.told if run == 0]
        axis.plot(times, np.interp(times, rows.time, path), "o", color=COLOURS[1], markersize=4.5)
        wrong = [t for run, t in one.against if run == 0]
        axis.plot(wrong, np.full(len(wrong), one.threshold), "x", color=INK, markersize=5)
    axes[-1].set_xlabel("time (s)", fontsize=SMALL, color=INK)
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=TEXT + 1, weight="bold", color=INK)
    save(figure, target)
    return figure


def _path(quantity: Quantity, rows: Any) -> Any:
    path = quantity.path(rows)
    if not quantity.rate:
        return path
    low, high = np.quantile(path, (0.005, 0.995))
    room = 0.2 * (high - low)
    return np.clip(path, low - room, high + room)
