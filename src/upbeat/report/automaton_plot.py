"""Automata of steps as pictures: what may follow what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from upbeat.core.errors import InvalidInput, check_type
from upbeat.report.plot import checked_target
from upbeat.report.stability_plot import saved
from upbeat.report.style import INK, SMALL, TEXT
from upbeat.stability.linear.induced import named
from upbeat.stability.switched.policies import Certified
from upbeat.stability.switched.tables import Held
from upbeat.trace.extras import need

MOST = 60
"""Nodes; a picture of more of them shows nothing."""


class Undrawable(InvalidInput):
    """An automaton that no picture can show."""


def plot_automaton(
    found: Certified | Held, *, out: Path | str | None = None, title: str | None = None
) -> Any:
    """Draw which steps may come one after the other: nodes, and an arrow for each step.

    What may follow what is proven to be stable, or is what a pace lets through; the picture says which.
    Returns the matplotlib figure; with `out` it is saved as PNG, SVG or PDF.
    """
    check_type(found, (Certified, Held), "found")
    figures = need("matplotlib.figure", "plot", "drawing a picture")
    patches = need("matplotlib.patches", "plot", "drawing a picture")
    shades = need("matplotlib", "plot", "drawing a picture").colormaps["viridis"]
    leads, labels = (
        (found.leads, found.labels) if isinstance(found, Certified) else (found.pace.leads, found.pace.labels)
    )
    nodes = len(leads)
    if not any(lead >= 0 for row in leads for lead in row):
        raise Undrawable("there is nothing to draw: no sequence of steps is left")
    if nodes > MOST:
        raise Undrawable(f"an automaton of {nodes} nodes cannot be seen in a picture: take a smaller lift")
    target = checked_target(out)
    figure = figures.Figure(figsize=(6.4, 6.4), layout="constrained", facecolor="white")
    axes = figure.add_subplot()
    angle = np.pi / 2 - 2 * np.pi * np.arange(nodes) / nodes
    places = np.column_stack([np.cos(angle), np.sin(angle)]) if nodes > 1 else np.zeros((1, 2))
    size = min(0.16, 1.6 / nodes)
    colours = shades(np.linspace(0.0, 0.85, len(labels)))
    for source, row in enumerate(leads):
        for step, lead in enumerate(row):
            if lead >= 0:
                _arrow(axes, places[source], places[lead], step, size, colours[step])
    for node, place in enumerate(places):
        axes.add_patch(patches.Circle(place, size / 2, fc="white", ec=INK, zorder=3))
        axes.text(*place, str(node), ha="center", va="center", fontsize=SMALL, color=INK, zorder=4)
    for label, colour in zip(labels, colours, strict=True):
        axes.plot([], [], color=colour, label=f"{label} s")
    axes.legend(loc="lower left", frameon=False, title="step", fontsize=SMALL)
    axes.set(xlim=(-1.45, 1.45), ylim=(-1.45, 1.45), aspect="equal")
    if title:
        figure.suptitle(title, fontsize=TEXT + 2, color=INK, x=0.02, ha="left", weight="bold")
    axes.set_title(_words(found), fontsize=TEXT + 1, color=INK, loc="left")
    axes.axis("off")
    return saved(figure, target)


def _words(found: Certified | Held) -> str:
    """What the arrows are, and what is known of them."""
    local = "" if found.linear else "locally "
    where = "" if found.linear else f", for small motions around {named(found.at)}"
    if isinstance(found, Certified):
        proven = f"Sequences proven to be {local}stable{where}"
        return proven if found.proven else f"Sequences of which nothing is proven{where}"
    verdict = found.decision.verdict
    return f"What the pace lets through: {'' if verdict == 'undecided' else local}{verdict}{where}"


def _arrow(axes: Any, start: Any, end: Any, step: int, size: float, colour: Any) -> None:
    """From one node to another, bent so that there and back are two; a loop outside the circle."""
    arrow = need("matplotlib.patches", "plot", "drawing a picture").FancyArrowPatch
    style = {"arrowstyle": "-|>", "mutation_scale": 11, "color": colour, "lw": 1.1}
    if np.allclose(start, end):
        out = start / max(float(np.linalg.norm(start)), 1e-9) if start.any() else np.array([0.0, 1.0])
        side = np.array([-out[1], out[0]]) * size * (0.45 + 0.35 * step)
        far = start + out * size * (1.4 + 0.5 * step)
        first, last = start + 0.5 * out * size + 0.3 * side, start + 0.5 * out * size - 0.3 * side
        curve = [first, far + side, far - side, last]
        line = need("matplotlib.path", "plot", "drawing a picture").Path
        bow = line(curve, [line.MOVETO, line.CURVE4, line.CURVE4, line.CURVE4])
        axes.add_patch(arrow(path=bow, **style))
        return
    along = (end - start) / float(np.linalg.norm(end - start))
    bend = f"arc3,rad={0.12 + 0.1 * step}"
    first, last = start + 0.55 * size * along, end - 0.55 * size * along
    axes.add_patch(arrow(first, last, connectionstyle=bend, **style))
