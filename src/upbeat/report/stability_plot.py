"""Pictures of stability: eigenvalues in the unit circle, the spectral radius over step sizes, maps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from upbeat.core.errors import check_type
from upbeat.report.plot import checked_target
from upbeat.report.style import COLOURS, FRAME, INK, SMALL, TEXT, frame
from upbeat.stability.verdicts.grid import StabilityMap
from upbeat.stability.verdicts.judge import Stability
from upbeat.trace.extras import need
from upbeat.trace.files.output import unwritable

GOOD, BAD, DOUBT, PALE, GREY = COLOURS[2], COLOURS[1], COLOURS[6], "#e3f2ec", "#ececec"
BY_VERDICT = {"stable": GOOD, "unstable": BAD, "undecided": DOUBT}


def plot_stability(found: Stability, *, out: Path | str | None = None, title: str | None = None) -> Any:
    """Draw the eigenvalues and, where other steps were looked at, the spectral radius over the step.

    Returns the matplotlib figure; with `out` it is saved as PNG, SVG or PDF.
    """
    check_type(found, Stability, "found")
    figures = need("matplotlib.figure", "plot", "drawing a picture")
    target = checked_target(out)
    wide = found.steps is not None
    figure = figures.Figure(figsize=(8.4 if wide else 4.2, 4.0), layout="constrained", facecolor="white")
    axes = figure.subplots(1, 2 if wide else 1, squeeze=False)[0]
    _head(figure, title)
    _circle(axes[0], found)
    if found.steps is not None:
        _over_steps(axes[1], found)
    return saved(figure, target)


def plot_map(found: StabilityMap, *, out: Path | str | None = None, title: str | None = None) -> Any:
    """Draw a map of stability: shades of the spectral radius, its line at 1, dots for what is undecided."""
    check_type(found, StabilityMap, "found")
    figures = need("matplotlib.figure", "plot", "drawing a picture")
    colours = need("matplotlib.colors", "plot", "drawing a picture")
    target = checked_target(out)
    figure = figures.Figure(figsize=(6.0, 4.4), layout="constrained", facecolor="white")
    axis = figure.subplots()
    _head(figure, title)
    frame(axis, f"Spectral radius: {'locally ' if found.local else ''}stable below 1")
    values = np.clip(np.where(np.isfinite(found.radius), found.radius, 1e3), 0.0, 1e3)
    steps, parameter = np.array(found.steps), np.array(found.values)
    norm = colours.TwoSlopeNorm(
        vcenter=1.0, vmin=min(0.9, float(values.min())), vmax=max(1.1, min(2.0, values.max()))
    )
    shown = axis.pcolormesh(
        steps, parameter, values, cmap="BrBG_r", norm=norm, shading="nearest", rasterized=True
    )
    told = np.ma.masked_where(found.undecided, np.clip(values, 0.0, 2.0))  # elsewhere a line would be noise
    if min(values.shape) > 1 and told.count() and told.min() < 1.0 < told.max():
        axis.contour(steps, parameter, told, levels=[1.0], colors=[INK], linewidths=1.2)
    rows, columns = np.nonzero(found.undecided)
    if len(rows):
        axis.plot(steps[columns], parameter[rows], ".", color=INK, markersize=3, label="undecided")
        axis.legend(fontsize=SMALL, loc="upper left", frameon=True)
    for numbers, scale in ((steps, axis.set_xscale), (parameter, axis.set_yscale)):
        if _spread(numbers):
            scale("log")
    axis.set_xlabel("communication step (s)", fontsize=TEXT, color=INK)
    axis.set_ylabel(found.parameter, fontsize=TEXT, color=INK)
    bar = figure.colorbar(shown, ax=axis, extend="max")
    bar.ax.tick_params(labelsize=SMALL, color=FRAME, labelcolor=INK)
    bar.set_label("spectral radius", fontsize=TEXT, color=INK)
    bar.outline.set_visible(False)
    return saved(figure, target)


def _head(figure: Any, title: str | None) -> None:
    if title:
        figure.suptitle(title, fontsize=TEXT + 2, color=INK, x=0.02, ha="left", weight="bold")


def _spread(numbers: Any) -> bool:
    """Whether numbers are spread over so much that equal ratios show them better."""
    return bool(len(numbers) > 2 and numbers.min() > 0 and numbers.max() / numbers.min() > 20)


def _circle(axis: Any, found: Stability) -> None:
    where = f"\nfor small motions around {found.model.where}" if found.local else ""
    frame(axis, f"Eigenvalues of a step of {found.step:.4g} s: {found.labelled}{where}")
    angle = np.linspace(0.0, 2.0 * np.pi, 361)
    axis.fill(np.cos(angle), np.sin(angle), color=PALE, zorder=0.5)
    axis.plot(np.cos(angle), np.sin(angle), color=FRAME, linewidth=1.0)
    axis.set_aspect("equal")
    if found.why:
        axis.text(0.0, 0.0, "no matrix", ha="center", va="center", fontsize=TEXT, color=DOUBT)
        return
    values = found.spectrum.values
    # How well eigenvalues are known is found out of those that decide, and of free ones.
    unsure = max(one.uncertainty for one in (found.mode, *found.spectrum.free))
    away = np.abs(values) - 1.0
    near = np.abs(away) <= unsure
    for mask, mark, colour, words in (
        (~near & (away < 0.0), "o", GOOD, "decays"),
        (~near & (away > 0.0), "s", BAD, "grows"),
        (near, "D", DOUBT, "cannot be told"),
    ):
        if mask.any():
            axis.plot(
                values.real[mask], values.imag[mask], mark, color=colour, markersize=5, alpha=0.8,
                markeredgewidth=0, label=words,
            )  # fmt: skip
    if near.any() or (away > 0.0).any():
        axis.legend(fontsize=SMALL, loc="lower left", frameon=True, handletextpad=0.2, borderpad=0.3)
    mode = found.mode.value
    for part in {mode, mode.conjugate()}:
        axis.plot(part.real, part.imag, "o", markersize=11, markerfacecolor="none", markeredgecolor=INK)
    far = max(1.15, 1.1 * float(np.abs(values).max(initial=0.0)))
    axis.set_xlim(-far, far)
    axis.set_ylim(-far, far)
    largest = "largest of the others" if found.spectrum.free else "largest"
    axis.set_xlabel(f"{largest}: {found.mode.radius:.7g} (ringed)", fontsize=TEXT, color=INK)


def _over_steps(axis: Any, found: Stability) -> None:
    assert found.steps is not None
    frame(axis, f"Spectral radius over the step{', without free motions' if found.spectrum.free else ''}")
    steps, radius = (np.array(column) for column in zip(*found.steps.looked, strict=True))
    seen = np.isfinite(radius)
    axis.plot(steps[seen], radius[seen], color=COLOURS[0], linewidth=1.5)
    axis.axhline(1.0, color=INK, linewidth=0.9)
    for kind, colour in ((found.steps.stable, PALE), (found.steps.undecided, GREY)):
        for one in kind:
            axis.axvspan(one.low, one.high, color=colour, zorder=0.5, linewidth=0)
    axis.axvline(found.step, color=BY_VERDICT[found.verdict], linewidth=1.2, linestyle="--")
    axis.set_xscale("log")
    axis.set_xlim(steps[0], steps[-1])
    low = float(radius[seen].min(initial=1.0))
    axis.set_ylim(
        max(0.0, min(low, 1.0) - 0.05 * (1.02 - min(low, 1.0))),
        min(2.0, max(1.02, float(radius[seen].max(initial=0.0)))),
    )
    axis.annotate(
        f"{found.step:.4g} s: {found.labelled}", (found.step, 0.03), xycoords=("data", "axes fraction"),
        xytext=(3, 0), textcoords="offset points", fontsize=SMALL, color=INK,
    )  # fmt: skip
    shades = "shaded: stable, grey: undecided" if found.steps.undecided else "stable ones are shaded"
    axis.set_xlabel(f"communication step (s); {shades}", fontsize=TEXT, color=INK)


def saved(figure: Any, target: Path | None) -> Any:
    """The figure, written where it should be."""
    if target is not None:
        try:
            figure.savefig(target, dpi=160)
        except OSError as error:
            raise unwritable(target, error) from error
    return figure
