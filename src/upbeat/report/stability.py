"""A verdict on stability in words: one sentence first, then the numbers, then what to change."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite, log

from upbeat.report.late_switches import advice, limit
from upbeat.stability.hybrid.late import LateSwitches
from upbeat.stability.verdicts.along import Along
from upbeat.stability.verdicts.compare import Alternative
from upbeat.stability.verdicts.grid import StabilityMap
from upbeat.stability.verdicts.judge import Stability

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
    told = changes(found, alternatives, late)
    if told:
        lines += ["", "What to change:", *(f"  • {line}" for line in told)]
    return "\n".join(lines)


def sentence(found: Stability) -> str:
    """The verdict in one sentence, with its limits."""
    where = f"for small motions around {found.model.where}, " if found.local else ""
    head = f"with steps of {found.step:.6g} s"
    mode = found.mode
    if found.why:
        return f"Undecided {head}: {found.why}"
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
    if found.spectrum.free and mode.radius < 1.0:
        count = len(found.spectrum.free)
        names = dict.fromkeys(name for free in found.spectrum.free for name, _ in free.ports[:1])
        motions = "one free motion" if count == 1 else f"{count} free motions"
        slowest = f"; all others decay, the slowest to {mode.radius:.10g} with every step"
        others = "" if mode in found.spectrum.free else slowest
        does, that = (
            ("neither decays nor grows", "that") if count == 1 else ("neither decay nor grow", "those")
        )
        return (
            f"Undecided {head}: {where}{motions} ({', '.join(names)}) {does}, as {that} of a body that "
            f"nothing holds{others}."
        )
    return (
        f"Undecided {head}: {where}the largest eigenvalue, {mode.radius:.16g}, cannot be told from 1 "
        f"(it is known to ±{mode.uncertainty:.1g})."
    )


def along(found: Along) -> str:
    """What happens to small deviations along a run, in one sentence."""
    words = {"stable": "die out", "unstable": "grow", "undecided": "neither clearly die out nor grow"}
    worst = int(found.radius.argmax())
    longer = ", or a longer run is needed to tell" if found.verdict == "undecided" else ""
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
    rows = [("spectral radius", "unknown: there is no matrix")] if found.why else motion
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


def _some(count: int, most: int) -> list[int]:
    """So many places of a list at most, its ends among them."""
    if count <= most:
        return list(range(count))
    return sorted({round(k * (count - 1) / (most - 1)) for k in range(most)})


def _resting(point: Sequence[tuple[str, float]]) -> str:
    """Which point of rest was found; nobody looked for all of them."""
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
        radius = "–" if result.why else f"{result.spectral_radius:.7g}"
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
    return f"{'at least ' if one.result.open else ''}{one.result.largest_stable_step:.4g} s"
