"""Verdicts in words and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite, log
from pathlib import Path
from typing import Any

import numpy as np

from upbeat.core.errors import InvalidInput, check_type
from upbeat.report.explain import advice, limit
from upbeat.report.plot import COLOURS, FRAME, INK, SMALL, TEXT, checked_target, figure_class, frame
from upbeat.stability.hybrid.late import LateSwitches
from upbeat.stability.linear.induced import named, verdict_sentence
from upbeat.stability.switched.policies import Certified, Held
from upbeat.stability.verdicts.along import Along
from upbeat.stability.verdicts.compare import Alternative
from upbeat.stability.verdicts.judge import Stability
from upbeat.stability.verdicts.pieces import StabilityMap
from upbeat.trace.extras import need
from upbeat.trace.files.output import unwritable

# ----------------------------------------------------------------------------------------------------
# What is known about policies that take turns, in words.

SHOWN = 8
"""So many sequences are listed; more only counted."""


def describe_steps(found: Certified) -> str:
    """The verdict in one sentence, then what grows and what is forbidden, then what to write."""
    lines = [str(found), ""]
    data = found.data()
    lines += [f"  grows      {_word(one)}, {_by(one)}" for one in data["growing"][:SHOWN]]
    lines += [f"  remains    {_word(one)}, again and again" for one in data["marginal"][:SHOWN]]
    if not found.proven:
        return "\n".join([*lines, *_local(found.notes)]).rstrip()
    forbidden = [" → ".join(found.labels[k] for k in word) for word in found.forbidden_words]
    lines += [f"  forbidden  {word}" for word in forbidden[:SHOWN]]
    if len(forbidden) > SHOWN:
        lines.append(f"             and {len(forbidden) - SHOWN} more")
    nodes, lift = found.kept.automaton.nodes, found.kept.lift.degree
    where = "node" if nodes == 1 else "nodes"
    lines.append(f"  proof      a quadratic form for each of {nodes} {where} (lift {lift}), checked exactly")
    if forbidden:
        lines += ["", "What to write under [master] to keep to it (the pace inside is yours to choose):"]
        lines.append(f"  {monitor_line(found)}")
    return "\n".join([*lines, *_local(found.notes)])


def _word(one: dict[str, Any]) -> str:
    names = one.get("blocks", [""] * len(one["steps"]))
    return " → ".join(f"{name} {step:g}".strip() for name, step in zip(names, one["steps"], strict=True))


def _by(one: dict[str, Any]) -> str:
    """How fast a sequence grows; what is too little to be seen in six digits as what it is above 1."""
    growth = one["growth"]
    shown = f"{growth:.6g}" if growth > 1.000005 else f"1 + {growth - 1.0:.2g}"
    return f"again and again: by {shown} with every step"


def _local(notes: Sequence[str]) -> list[str]:
    return ["", "Local, because:", *(f"  • {note}" for note in notes)] if notes else []


def sentence_of_table(held: Held) -> str:
    """What is known about the sequences that a table lets through, in one sentence."""
    words = {
        "stable": "every sequence of steps that the pace lets through is proven to decay",
        "unstable": f"the pace lets steps of {held.growing} through, which grow when repeated",
        "undecided": f"{held.decision.why}, among those that the pace lets through",
    }
    verdict = held.decision.verdict
    return verdict_sentence(verdict.capitalize(), f"{words[verdict]}.", linear=held.linear, at=held.at)


def describe_table(held: Held) -> str:
    """The verdict on a table in one sentence, then what it is about."""
    lines = [sentence_of_table(held), "", f"  steps   {', '.join(held.pace.labels)} s"]
    if held.decision.certificates:
        count = sum(proof.automaton.nodes for proof in held.decision.certificates)
        forms = "a quadratic form" if count == 1 else f"{count} quadratic forms"
        lines.append(f"  proof   {forms}, checked exactly")
    for one in held.decision.growing[:SHOWN]:
        lines.append(f"  grows   {held.word(one.policies)}, {_by({'growth': one.growth})}")
    return "\n".join([*lines, *_local(held.notes)])


def monitor_line(found: Certified) -> str:
    """The pace of a scenario file that keeps to what is proven."""
    steps = ", ".join(f"{step!r}" for step in found.steps)
    leads = ", ".join(f"[{', '.join(map(str, row))}]" for row in found.leads)
    longest = found.steps[-1]
    inner = f'{{ kind = "event_driven", longest = {longest!r} }}'
    names = ", ".join(f'"{block}"' for block in found.blocks)
    blocks = f", blocks = [{names}]" if names else ""
    return f'pace = {{ kind = "monitored", pace = {inner}, steps = [{steps}]{blocks}, leads = [{leads}] }}'


# ----------------------------------------------------------------------------------------------------
# Pictures of stability: eigenvalues in the unit circle, the spectral radius over step sizes, maps.

GOOD, BAD, DOUBT, PALE, GREY = COLOURS[2], COLOURS[1], COLOURS[6], "#e3f2ec", "#ececec"
BY_VERDICT = {"stable": GOOD, "unstable": BAD, "undecided": DOUBT}


def plot_stability(
    found: Stability, *, out: Path | str | None = None, title: str | None = None, force: bool = False
) -> Any:
    """Draw the eigenvalues, and the spectral radius over the step.

    Returns the matplotlib figure; with `out` it is saved as PNG, SVG or PDF.
    """
    check_type(found, Stability, "found")
    Figure = figure_class()
    target = checked_target(out, force=force)
    wide = found.steps is not None
    figure = Figure(figsize=(8.4 if wide else 4.2, 4.0), layout="constrained", facecolor="white")
    axes = figure.subplots(1, 2 if wide else 1, squeeze=False)[0]
    _head(figure, title)
    _circle(axes[0], found)
    if found.steps is not None:
        _over_steps(axes[1], found)
    return saved(figure, target)


def plot_map(
    found: StabilityMap, *, out: Path | str | None = None, title: str | None = None, force: bool = False
) -> Any:
    """Draw a map of stability. Shades are the spectral radius, a line is 1, dots are undecided."""
    check_type(found, StabilityMap, "found")
    Figure = figure_class()
    colours = need("matplotlib.colors", "plot", "drawing a picture")
    target = checked_target(out, force=force)
    figure = Figure(figsize=(6.0, 4.4), layout="constrained", facecolor="white")
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
    verdict_sentence = np.ma.masked_where(
        found.undecided, np.clip(values, 0.0, 2.0)
    )  # elsewhere a line would be noise
    if (
        min(values.shape) > 1
        and verdict_sentence.count()
        and verdict_sentence.min() < 1.0 < verdict_sentence.max()
    ):
        axis.contour(steps, parameter, verdict_sentence, levels=[1.0], colors=[INK], linewidths=1.2)
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
    if found.no_matrix:
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
        (near, "D", DOUBT, "too near to 1"),
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


# ----------------------------------------------------------------------------------------------------
# Automata of steps as pictures: what may follow what.

MAX_NODES = 60
"""Nodes; a picture of more of them shows nothing."""


class Undrawable(InvalidInput):
    """An automaton that no picture can show."""


def plot_automaton(
    found: Certified | Held, *, out: Path | str | None = None, title: str | None = None, force: bool = False
) -> Any:
    """Draw which steps may follow each other.

    What may follow what is proven to be stable, or is what a pace lets through; the picture says which.
    Returns the matplotlib figure; with `out` it is saved as PNG, SVG or PDF.
    """
    check_type(found, (Certified, Held), "found")
    Figure = figure_class()
    patches = need("matplotlib.patches", "plot", "drawing a picture")
    shades = need("matplotlib", "plot", "drawing a picture").colormaps["viridis"]
    leads, labels = (
        (found.leads, found.labels) if isinstance(found, Certified) else (found.pace.leads, found.pace.labels)
    )
    nodes = len(leads)
    if not any(lead >= 0 for row in leads for lead in row):
        raise Undrawable("there is nothing to draw: no sequence of steps is left")
    if nodes > MAX_NODES:
        raise Undrawable(f"an automaton of {nodes} nodes cannot be seen in a picture: take a smaller lift")
    target = checked_target(out, force=force)
    figure = Figure(figsize=(6.4, 6.4), layout="constrained", facecolor="white")
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


# ----------------------------------------------------------------------------------------------------
# A verdict on stability in words: one sentence first, then the numbers, then what to change.

_MANY = 1e6
RESTING = 6
"""How many states of a point of rest are shown."""


def describe(
    found: Stability, alternatives: Sequence[Alternative] = (), late: LateSwitches | None = None
) -> str:
    """Everything that `upbeat stability` prints."""
    lines = [sentence(found), "", *_table(found, late)]
    if found.model.notes:
        lines += ["", "Local, because:", *(f"  • {note}" for note in found.model.notes)]
    if alternatives:
        lines += ["", *_compared(alternatives)]
    verdict_sentence = changes(found, alternatives, late)
    if verdict_sentence:
        lines += ["", "What to change:", *(f"  • {line}" for line in verdict_sentence)]
    return "\n".join(lines)


def sentence(found: Stability) -> str:
    """The verdict in one sentence, with its limits."""
    where = f"for small motions around {found.model.where}, " if found.local else ""
    head = f"with steps of {found.step:.6g} s"
    mode = found.mode
    if found.no_matrix:
        return f"Undecided {head}: {found.no_matrix}"
    if found.model.unseen:
        how = (
            "every motion decays"
            if mode.radius < 1.0 and not found.spectrum.free
            else "not all motions decay"
        )
        return f"Undecided {head}: {found.model.unseen} ({where}{how}: {mode.radius:.7g} with every step)."
    if found.verdict == "unstable":
        word = "Locally unstable" if found.local else "Unstable"
        after = log(2.0) / log(mode.radius) if mode.radius > 1.0 else inf
        return f"{word} {head}: {where}a motion grows {mode.radius:.7g}-fold with every step" + (
            f" (it doubles every {after:,.3g} steps)." if 1.0 < after < _MANY else "."
        )
    if found.verdict == "stable":
        word = "Locally stable" if found.local else "Stable"
        return (
            f"{word} {head}: {where}every motion decays; the slowest shrinks to {mode.radius:.10g} of its "
            "size with every step."
        )
    return f"Undecided {head}: {where}{found.why}."


def along(found: Along) -> str:
    """What happens to small deviations along a run, in one sentence."""
    words = {"stable": "die out", "unstable": "grow", "undecided": "neither clearly die out nor grow"}
    worst = int(found.radius.argmax())
    if found.why:
        return (
            f"Along the run, what becomes of small deviations is undecided, because {found.why}. It was "
            f"followed from t = {found.times[0]:.6g} to {found.times[-1]:.6g} s."
        )
    longer = ", or a longer run is needed" if found.verdict == "undecided" else ""
    return (
        f"Along the run from t = {found.times[0]:.6g} to {found.times[-1]:.6g} s, small deviations "
        f"{words[found.verdict]} ({found.rate:+.4g} ± {found.uncertainty:.2g} per second){longer}; the "
        f"largest spectral radius of a step is {found.radius[worst]:.7g}, at t = {found.times[worst]:.6g} s."
    )


def _table(found: Stability, late: LateSwitches | None) -> list[str]:
    mode, step = found.mode, found.step
    motion = [
        ("spectral radius", f"{found.spectral_radius:.10g}"),
        ("margin", "none that is sure" if found.verdict == "undecided" else f"{found.margin:.4g}"),
        ("deciding motion", _motion(mode.frequency(step), mode.rate(step))),
        ("carried by", ", ".join(f"{name} ({share:.0%})" for name, share in mode.ports) or "nothing"),
    ]
    rows = [("spectral radius", "unknown: there is no matrix")] if found.no_matrix else motion
    if found.steps is not None:
        low, high = found.steps.looked[0][0], found.steps.looked[-1][0]
        stable = "; ".join(map(str, found.steps.stable)) or "none"
        rows.append(("stable steps", f"{stable} (looked from {low:.3g} to {high:.6g})"))
        if found.steps.sampled:
            rows.append(("between them", found.steps.sampled))
        if found.steps.inside:
            sizes = ", ".join(f"{size:g}" for size in found.steps.inside)
            rows.append(("of those", f"that are whole multiples, or whole parts, of the {sizes} s inside"))
        if found.steps.undecided:
            rows.append(("undecided steps", "; ".join(map(str, found.steps.undecided))))
        if found.steps.unlooked:
            rows.append(("not all steps", f"{found.steps.unlooked} (--seconds)"))
        if found.steps.why:
            rows.append(("no matrix", f"for some of them: {found.steps.why}"))
    elif found.unlooked:
        rows.append(("stable steps", f"not looked for: {found.unlooked}"))
    if late is not None:
        rows.append(("late switches", limit(late)))
    if found.model.rest and found.model.point:
        rows.append(("at rest", _resting(found.model.point)))
    rows += [("assumed", text) for text in found.model.assumed]
    size = found.model.size
    rows.append(("extended state", "1 entry" if size == 1 else f"{size} entries"))
    width = max(len(name) for name, _ in rows)
    return [f"  {name:<{width}}  {value}" for name, value in rows]


def table(found: StabilityMap, *, rows: int = 8, columns: int = 6) -> str:
    """A map in letters: the spectral radius for some values and steps, with a mark where it is not stable."""
    down = _some(len(found.values), rows)
    across = _some(len(found.steps), columns)
    head = [f"{found.parameter} \\ step", *(f"{found.steps[j]:.4g}" for j in across)]
    marks = {"stable": "", "unstable": "!", "undecided": "?"}
    lines = [head]
    for i in down:
        cells = [f"{found.radius[i, j]:.5g}{marks[str(found.verdicts[i, j])]}" for j in across]
        lines.append([f"{found.values[i]:.4g}", *cells])
    widths = [max(len(line[k]) for line in lines) for k in range(len(head))]
    shown = ["  " + "  ".join(cell.rjust(w) for cell, w in zip(line, widths, strict=True)) for line in lines]
    left_out = len(down) < len(found.values) or len(across) < len(found.steps)
    more = " (some of the values and steps; --json has all)" if left_out else ""
    kind = " (local, for small motions only)" if found.local else ""
    return "\n".join([f"Spectral radius; ! unstable, ? undecided{more}{kind}:", *shown])


def _some(count: int, maximum: int) -> list[int]:
    """So many places of a list at most, its ends among them."""
    if count <= maximum:
        return list(range(count))
    return sorted({round(k * (count - 1) / (maximum - 1)) for k in range(maximum)})


def _resting(point: Sequence[tuple[str, float]]) -> str:
    """Which point of rest was found; not all of them were looked for."""
    shown = ", ".join(f"{name} = {value:.6g}" for name, value in point[:RESTING])
    more = f" and {len(point) - RESTING} more states" if len(point) > RESTING else ""
    return f"{shown}{more} (found from the start; there may be other points of rest)"


def _motion(frequency: float, rate: float) -> str:
    how = f"{rate:+.4g} per second" if isfinite(rate) else "gone after a step"
    return f"{frequency:.4g} Hz, {how}" if frequency > 0.0 else f"no oscillation, {how}"


def _compared(alternatives: Sequence[Alternative]) -> list[str]:
    rows = [("coupling", "spectral radius", "verdict", "stable up to")]
    for one in alternatives:
        result = one.result
        mark = "* " if one.present else "  "
        shown = "–" if result.largest_stable_step is None else f"{result.largest_stable_step:.4g}"
        beyond = " and perhaps beyond" if result.open else ""
        radius = "–" if result.no_matrix else f"{result.spectral_radius:.7g}"
        rows.append((f"{mark}{one.label}", radius, result.labelled, shown + beyond))
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def changes(
    found: Stability, alternatives: Sequence[Alternative] = (), late: LateSwitches | None = None
) -> list[str]:
    """What would make it stable, or allow larger steps; nothing if nothing was found."""
    lines: list[str] = []
    largest = found.largest_stable_step
    if found.verdict == "unstable":
        if largest is not None and largest < found.step:
            lines.append(f"take steps of at most {largest:.4g} s")
        elif found.steps is not None and not found.steps.stable and not found.steps.undecided:
            lines.append(
                "no step that was looked at is stable: the units themselves, or what connects them, are "
                "unstable, or their solvers are (compare with --ideal)"
            )
    present = next((one for one in alternatives if one.present), None)
    others = [one for one in alternatives if not one.present and one.result.verdict == "stable"]
    if others:
        best = others[0]
        reach, now = (
            best.result.largest_stable_step,
            None if present is None else present.result.largest_stable_step,
        )
        if reach is not None and reach > 1.05 * (now or 0.0):
            before = f"from {now:.4g} s " if now else ""
            lines.append(f"{best.label}: the largest stable step rises {before}to {_reach(best)}")
        lines += _swapped(present, others)
    return [*lines, *(advice(late) if late is not None else ())]


def _swapped(present: Alternative | None, others: Sequence[Alternative]) -> list[str]:
    """Which two units should change places, if that alone allows larger steps."""
    now = None if present is None else present.result.largest_stable_step
    for one in others:  # the best ones come first
        pair = None if present is None else present.swap(one)
        reach = one.result.largest_stable_step
        if pair is not None and now is not None and reach is not None and reach > 1.05 * now:
            before = f"from {now:.4g} s to {_reach(one)}"
            return [f"swap {pair[0]} and {pair[1]}: the largest stable step rises {before}"]
    return []


def _reach(one: Alternative) -> str:
    """The largest stable step; where the search ended there, it may be larger."""
    return f"{'at minimum ' if one.result.open else ''}{one.result.largest_stable_step:.4g} s"
