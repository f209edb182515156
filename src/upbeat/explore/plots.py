"""Pictures of studies: fronts, parallel coordinates, tornados, bands over time, residuals."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from upbeat.core.errors import InvalidInput, cannot_write
from upbeat.explore.answers import Sensitivity, bands
from upbeat.explore.calibrate import Calibration
from upbeat.explore.optimise import Optimum, front
from upbeat.explore.store import Results
from upbeat.report.plot import COLOURS, INK, SMALL, figure_class, frame

_GREY = "#c0c0c0"


def _figure(width: float, height: float, rows: int = 1, columns: int = 1) -> tuple[Any, Any]:
    picture = figure_class()(figsize=(width, height), layout="constrained")
    return picture, picture.subplots(rows, columns, squeeze=False)


def saved(picture: Any, path: Path | None) -> Any:
    """The picture, also as a file if there is a name for one."""
    if path is not None:
        try:
            picture.savefig(path, dpi=150)
        except OSError as error:
            raise cannot_write(path, error) from None
    return picture


def plot_front(found: Optimum | Results, one: str, other: str, path: Path | None = None) -> Any:
    """Two outputs of all designs, and the front: those that none is better than in both (both small)."""
    picture, ((axis,),) = _figure(6.0, 4.2)
    if isinstance(found, Results):
        x, y = (np.asarray(found[name], np.float64) for name in (one, other))
        chosen = front(found, [one, other])
        best = np.stack([x[chosen], y[chosen]])
    else:
        if {one, other} - set(found.goals):
            raise InvalidInput(f"the goals are {', '.join(found.goals)}, not {one} and {other}")
        order = [found.goals.index(name) for name in (one, other)]
        best = found.objectives[:, order].T
        x, y = (np.asarray(found.results[name], np.float64) for name in (one, other))
    whose = f"{'all' if isinstance(found, Results) else 'others of'} {len(x):,} designs"
    frame(axis, "designs that no other is better than in both")
    axis.plot(x, y, ".", color=_GREY, markersize=3, label=whose)
    best = best[:, np.argsort(best[0])]
    if isinstance(found, Optimum) and best.shape[1] > 1:  # the search began far away
        for limit, values in zip((axis.set_xlim, axis.set_ylim), best, strict=True):
            width = float(np.ptp(values)) or abs(float(values[0])) or 1.0
            limit(values.min() - 0.5 * width, values.max() + 0.5 * width)
    axis.plot(
        *best, ".-", color=COLOURS[0], linewidth=1.2, markersize=4, label=f"the front ({best.shape[1]})"
    )
    axis.set_xlabel(one)
    axis.set_ylabel(other)
    axis.legend(fontsize=SMALL, frameon=False)
    return saved(picture, path)


def plot_parallel(results: Results, colour_by: str, path: Path | None = None, most: int = 400) -> Any:
    """A line for each design through its parameters and outputs, coloured by one output; dark is small."""
    names = [*results.parameters, *results.outputs]
    numbers = [name for name in names if np.asarray(results[name]).dtype.kind == "f"]
    table = results.table(numbers)
    fine = np.flatnonzero(np.isfinite(table).all(axis=1))
    if not len(fine):
        raise InvalidInput("no run has all values: there is nothing to draw")
    fine = fine[:: max(1, len(fine) // most)]
    table = table[fine]
    low, high = table.min(axis=0), table.max(axis=0)
    scaled = (table - low) / np.where(high > low, high - low, 1.0)
    shade = scaled[:, numbers.index(colour_by)]
    picture, ((axis,),) = _figure(max(5.0, 1.3 * len(numbers)), 4.2)
    from matplotlib import colormaps

    for row, level in sorted(zip(scaled, shade, strict=True), key=lambda pair: -pair[1]):
        axis.plot(
            range(len(numbers)), row, color=colormaps["viridis"](0.95 * level), linewidth=0.7, alpha=0.6
        )
    for k in range(len(numbers)):
        axis.axvline(k, color=INK, linewidth=0.8)
        axis.text(k, 1.03, f"{high[k]:.4g}", ha="center", fontsize=SMALL)
        axis.text(k, -0.03, f"{low[k]:.4g}", ha="center", va="top", fontsize=SMALL)
    axis.set_xticks(range(len(numbers)), [name.replace(", ", "\n") for name in numbers], fontsize=SMALL)
    axis.tick_params(axis="x", length=0, pad=14)
    axis.set_yticks([])
    axis.set_ylim(-0.02, 1.02)
    for side in axis.spines.values():
        side.set_visible(False)
    axis.set_title(f"{len(fine)} designs, dark where {colour_by} is small", fontsize=SMALL + 1, pad=22)
    return saved(picture, path)


def plot_tornado(found: Sensitivity, output: str, path: Path | None = None) -> Any:
    """Which parameters matter for an output: alone, and with all interactions, with their 95 % intervals."""
    indices = found[output][::-1]
    picture, ((axis,),) = _figure(6.0, 1.2 + 0.45 * len(indices))
    places = np.arange(len(indices))
    alone, whole = (
        ("alone", "with interactions") if found.method == "sobol" else ("mean effect", "mean size of effects")
    )
    drawn = (
        (0.2, COLOURS[0], whole, "total", "total_width"),
        (-0.2, COLOURS[5], alone, "first", "first_width"),
    )
    for shift, colour, label, value, width in drawn:
        axis.barh(
            places + shift,
            [getattr(one, value) for one in indices],
            0.36,
            color=colour,
            label=label,
            xerr=[getattr(one, width) for one in indices],
            error_kw={"linewidth": 0.9, "ecolor": INK},
        )
    axis.set_yticks(places, [one.parameter for one in indices])
    axis.axvline(0.0, color=INK, linewidth=0.8)
    frame(axis, f"what {output} depends on")
    axis.set_xlabel("share of the variance" if found.method == "sobol" else "effect over the range")
    axis.legend(fontsize=SMALL, frameon=False, loc="lower right")
    return saved(picture, path)


def plot_bands(results: Results, signals: Sequence[str], path: Path | None = None) -> Any:
    """Signals over time: the median, and where half and nine tenths of all runs are."""
    picture, axes = _figure(7.0, 2.2 * len(signals) + 0.4, len(signals))
    time = results["time"]
    for (axis,), signal in zip(axes, signals, strict=True):
        low, first, middle, third, high = bands(results, signal, (0.05, 0.25, 0.5, 0.75, 0.95))
        axis.fill_between(time, low, high, color=COLOURS[0], alpha=0.18, linewidth=0, label="90 % of runs")
        axis.fill_between(time, first, third, color=COLOURS[0], alpha=0.35, linewidth=0, label="half of them")
        axis.plot(time, middle, color=COLOURS[0], linewidth=1.4, label="median")
        frame(axis, signal)
    axes[-1][0].set_xlabel("time / s")
    axes[0][0].legend(fontsize=SMALL, frameon=False, ncols=3)
    return saved(picture, path)


def plot_residuals(found: Calibration, path: Path | None = None) -> Any:
    """What was measured and what the fitted model gives, and below it what is left."""
    count = len(found.residuals)
    picture = figure_class()(figsize=(7.0, 2.9 * count + 0.3), layout="constrained")
    axes = picture.subplots(2 * count, 1, squeeze=False, height_ratios=[2, 1] * count)
    for k, (name, time, measured, simulated) in enumerate(found.residuals):
        above, below = axes[2 * k][0], axes[2 * k + 1][0]
        above.plot(time, measured, ".", color=_GREY, markersize=4, label="measured")
        above.plot(time, simulated, color=COLOURS[0], linewidth=1.4, label="fitted")
        frame(above, name)
        below.axhline(0.0, color=INK, linewidth=0.8)
        below.vlines(time, 0.0, measured - simulated, color=COLOURS[1], linewidth=0.9)
        frame(below, "measured - fitted")
        above.legend(fontsize=SMALL, frameon=False)
    axes[-1][0].set_xlabel("time / s")
    return saved(picture, path)
