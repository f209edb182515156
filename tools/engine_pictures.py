"""The pictures of docs/engine.md: pressures and torque, schedules, and errors over the communication step.

`make engine-pictures` writes docs/engine_*.png; `python tools/engine_pictures.py lengths` only some of them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "reproduce"))

from problems.engine_goals import PAPER_PRESSURE, PAPER_TORQUE, STEPS  # noqa: E402
from problems.engine_runs import (  # noqa: E402
    FINE,
    GRID,
    METHODS,
    PRESSURE,
    TORQUE,
    Split,
    errors,
    loaded,
    unsplit,
)

import upbeat as up  # noqa: E402
from upbeat.engine.profile import profile  # noqa: E402
from upbeat.report import chart  # noqa: E402
from upbeat.report.plot import COLOURS, INK, SMALL, frame  # noqa: E402
from upbeat.report.schedule import charts  # noqa: E402

DOCS = ROOT / "docs"
PAINT = dict(zip(METHODS, (COLOURS[1], COLOURS[4], COLOURS[0]), strict=True))
CYLINDERS = ("c1", "c3", "c4", "c2")


def saved(figure: Figure, name: str) -> None:
    figure.savefig(DOCS / name, dpi=150)
    print(DOCS / name)


def legend(axis: Any, **settings: Any) -> None:
    axis.legend(frameon=False, fontsize=SMALL, labelcolor=INK, **settings)


def cycles() -> None:
    """Two cycles: the pressures in all cylinders, the torque, and the manifolds."""
    trace = up.load(ROOT / "examples/engine/engine.toml", until=0.12, step=50e-6, record=["*"]).run()
    figure = Figure(figsize=(7.2, 6.0), layout="constrained", facecolor="white")
    top, middle, low = figure.subplots(3, 1, sharex=True)
    ms = 1000 * trace.time
    for unit, colour in zip(CYLINDERS, COLOURS, strict=False):
        top.plot(
            ms, trace[f"{unit}.pressure"] / 100, color=colour, linewidth=1.2, label=f"cylinder {unit[1]}"
        )
    frame(top, "pressure in the cylinders, bar")
    legend(top, ncols=4, loc="upper left")
    top.set_ylim(0, 58)
    middle.plot(ms, trace[TORQUE], color=COLOURS[0], linewidth=1.2)
    middle.axhline(trace[TORQUE].mean(), color=COLOURS[6], linewidth=0.8, linestyle="--")
    frame(middle, "torque of the crankshaft, N·m (dashed: its mean)")
    low.plot(ms, trace[PRESSURE], color=COLOURS[0], linewidth=1.2, label="intake manifold")
    low.plot(ms, trace["air.p_em_out"], color=COLOURS[1], linewidth=1.2, label="exhaust manifold")
    frame(low, "pressure in the manifolds, kPa")
    legend(low, ncols=2, loc="upper left")
    low.set_ylim(105, 172)
    low.set_xlabel("time, ms", fontsize=SMALL, color=INK)
    saved(figure, "engine_cycles.png")


def schedules() -> None:
    """Figures 8 and 9 of the paper: whole units, and every signal in its turn, on five cores."""
    plan = loaded(0.24)
    for method in ("sv", "refined"):
        split = Split(method, 500e-6).of(plan)
        title = f"The engine on five cores, method “{method}”"
        chart.draw(charts(split, 5, profile(split, 4.0)), DOCS / f"engine_{method}.png", title)
        print(DOCS / f"engine_{method}.png")


def steps() -> None:
    """Figures 10 and 11: a piece of the torque, and errors over the communication step."""
    plan = loaded(1.0)
    truth = unsplit(plan, FINE, GRID).run()
    traces = {(m, s): Split(m, s * 1e-6).of(plan).run() for m in METHODS for s in STEPS}
    figure = Figure(figsize=(7.2, 3.0), layout="constrained", facecolor="white")
    axis = figure.subplots()
    part = (truth.time >= 0.06) & (truth.time <= 0.078)
    axis.plot(1000 * truth.time[part], truth[TORQUE][part], color=INK, linewidth=2.4, label="in one piece")
    for method in METHODS:
        trace = traces[method, 500]
        cut = (trace.time >= 0.06) & (trace.time <= 0.078)
        axis.plot(
            1000 * trace.time[cut], trace[TORQUE][cut], color=PAINT[method], linewidth=1.3, marker="o",
            markersize=3, linestyle="--" if method == "ev" else "-",
            label="sv (under ev)" if method == "sv" else method,
        )  # fmt: skip
    frame(axis, "torque at a communication step of 500 µs, N·m")
    axis.set_xlabel("time, ms", fontsize=SMALL, color=INK)
    legend(axis, loc="upper right")
    saved(figure, "engine_torque.png")

    figure = Figure(figsize=(7.2, 3.2), layout="constrained", facecolor="white")
    for axis, signal, paper, text, covers in zip(
        figure.subplots(1, 2), (TORQUE, PRESSURE), (PAPER_TORQUE, PAPER_PRESSURE),
        ("error of the torque, %", "error of the intake pressure, %"), ("ev", "refined"), strict=True,
    ):  # fmt: skip
        for place, method in enumerate(METHODS):
            here = [errors(traces[method, s], truth, signal).mean for s in STEPS]
            dashed = "--" if method == "ev" else "-"
            shown = f"sv (under {covers})" if method == "sv" else method
            axis.plot(STEPS, here, dashed, color=PAINT[method], marker="o", markersize=4, label=shown)
            there = [paper[s][place] for s in STEPS]
            axis.plot(STEPS, there, color=PAINT[method], linestyle=":", linewidth=1, marker="x", markersize=5)
        axis.plot(
            [], [], color=INK, linestyle=":", marker="x", markersize=5, linewidth=1, label="paper's engine"
        )
        axis.set_yscale("log")
        axis.set_yticks((0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20))
        axis.yaxis.set_major_formatter("{x:g}")
        axis.minorticks_off()
        axis.set_ylim(0.04, 30 if signal == TORQUE else 2.5)
        axis.set_xticks(STEPS)
        axis.set_xlabel("communication step, µs", fontsize=SMALL, color=INK)
        frame(axis, text)
        legend(axis, loc="lower right")
    saved(figure, "engine_errors.png")


def lengths() -> None:
    """How long the solvers' steps are, and how often they stop at events."""
    until = 1.0
    plan = loaded(until)
    whole = unsplit(plan, 1e-4, until / 50).run().info["solvers"]["monolith"]
    parts = Split("refined", 500e-6).of(plan).run().info["solvers"]
    rows = {"one\npiece": whole, **{name: parts[name] for name in ("air", "c1", "c2", "c3", "c4", "control")}}
    figure = Figure(figsize=(7.2, 2.6), layout="constrained", facecolor="white")
    left, right = figure.subplots(1, 2)
    places = np.arange(len(rows))
    colours = [COLOURS[1]] + [COLOURS[0]] * (len(rows) - 1)
    left.bar(places, [counts["stops"] / until for counts in rows.values()], color=colours)
    right.bar(places, [1e6 * until / counts["steps"] for counts in rows.values()], color=colours)
    for axis, text in ((left, "stops at events in a second"), (right, "mean step of the solver, µs")):
        axis.set_xticks(places, list(rows))
        frame(axis, text)
    saved(figure, "engine_solvers.png")


PICTURES = {picture.__name__: picture for picture in (cycles, steps, lengths, schedules)}


if __name__ == "__main__":
    for name in sys.argv[1:] or PICTURES:
        PICTURES[name]()
