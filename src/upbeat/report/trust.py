"""What can be said about a result, in text: the verdict first, then a table of signals, then the rest."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from upbeat.judging.trust import SignalTrust, Trust

MAX_ROWS = 20
"""So many signals are shown, the worst ones first."""
LONGEST = 70
"""So much of a reason is in the table; `--json` has all of it."""
HEAD = ("signal", "verdict", "error", "of range", "order", "coupling", "solvers", "why")
_RANK = {"not good": 0, "undecided": 1, "good": 2}


def describe(trust: Trust) -> str:
    """A page that can be read in ten seconds: the verdict, the signals, and a line for everything else."""
    return "\n".join([f"{trust.verdict.upper()}: {trust.reason}", "", *_table(trust), *facts(trust)])


def facts(trust: Trust) -> list[str]:
    """Everything but the signals, in sentences."""
    made = [run for run in trust.runs if not run.failure]
    finest = max(made, key=lambda run: run.steps, default=None)
    last = "" if finest is None else f", the finest with {finest.change} ({finest.steps:,} steps)"
    runs = "1 run" if len(made) == 1 else f"{len(made)} runs"
    return [*(text for text, _ in parts(trust, inputs=5, units=3)), f"{runs} in {trust.seconds:.1f} s{last}."]


def parts(trust: Trust, *, inputs: int, units: int) -> Iterator[tuple[str, bool]]:
    """A sentence for each part of the judgement but the signals, and whether it warns. So many inputs and
    units are told of at most."""
    for event in trust.events:
        late = "" if math.isnan(event.late) else f", noticed up to {event.late:.2g} s late"
        seen = f", {event.predicted} predicted" if event.predicted else ""
        yield f"Event {event.name}: {event.verdict}; {event.reason}{seen}{late}.", event.verdict != "good"
    for one in trust.properties:
        yield f"Property {one.name}: {one.verdict}; {one.reason}.", one.verdict != "good"
    for bond in trust.energy:
        yield f"Energy, {bond.one} and {bond.other}: {bond.reason}.", False
    if trust.stability is not None:
        yield f"Stability: {trust.stability.reason}.", trust.stability.verdict == "unstable"
        if trust.stability.assumed:
            yield f"Assumed: {'; '.join(trust.stability.assumed)}.", False
    for moved in trust.inputs[:inputs]:
        yield f"Input {moved.name}: {moved.reason}.", False
    for unit in trust.solvers[:units]:
        yield f"Unit {unit.unit}: {unit.reason}.", False
    for note in trust.notes:
        yield f"Note: {note}.", False


def worst_first(trust: Trust) -> list[SignalTrust]:
    """The signals, those with the worst verdicts and the largest errors first."""

    def rank(one: SignalTrust) -> tuple[int, float]:
        return _RANK[one.verdict], -one.relative if math.isfinite(one.relative) else -math.inf

    return sorted(trust.signals.values(), key=rank)


def _table(trust: Trust) -> list[str]:
    ordered = worst_first(trust)
    if not ordered:
        return []
    rows = [HEAD, *(row_of(one) for one in ordered[:MAX_ROWS])]
    widths = [max(len(row[k]) for row in rows) for k in range(len(HEAD) - 1)]
    lines = [_line(row, widths) for row in rows]
    more = len(ordered) - MAX_ROWS
    rule = "─" * min(max(map(len, lines)), 110)
    return [lines[0], rule, *lines[1:], *([f"… and {more} more signals"] if more > 0 else []), ""]


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    left = [row[k].ljust(widths[k]) for k in (0, 1)]
    right = [row[k].rjust(widths[k]) for k in range(2, len(widths))]
    return "  ".join([*left, *right, row[-1]]).rstrip()


def row_of(one: SignalTrust) -> tuple[str, ...]:
    """A signal in a table, under `HEAD`."""
    unit = f" {one.unit}" if one.unit else ""
    plain = one.reason.startswith(("error about", "all runs agree"))
    return (
        one.name,
        one.verdict,
        _shown(one.error) + unit if math.isfinite(one.error) else "–",
        "–" if not math.isfinite(one.relative) else percent(one.relative),
        "–" if one.order is None else f"{one.order:.2f}",
        _shown(one.coupling),
        _shown(one.solver),
        "" if plain and one.verdict != "undecided" else _short(one.reason),
    )


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _shown(value: float) -> str:
    return f"{value:.2g}" if math.isfinite(value) else "–"


def percent(part: float) -> str:
    """A part of the range of a signal, for people."""
    return f"{100 * part:.2g} %" if part < 0.995 else f"{100 * part:.0f} %" if part < 100 else "> 100 ×"
