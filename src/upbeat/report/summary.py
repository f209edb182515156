"""A run in a few lines of text: how it ended, and what every signal did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from upbeat.core.errors import check_type
from upbeat.core.ports import Kind
from upbeat.trace.columns import Column
from upbeat.trace.log import Lateness
from upbeat.trace.recorder import Summary
from upbeat.trace.trace import Trace
from upbeat.units.equations.holding import REASONS

_MAX_EVENTS = 6
_MAX_READ = 100_000
HEAD = ("signal", "unit", "min", "mean", "max", "final")


def summary(trace: Trace) -> str:
    """How the run ended, and a table of minimum, mean, maximum and final values."""
    check_type(trace, Trace, "trace")
    return "\n".join([*opening(trace), *_table(trace)])


def opening(trace: Trace) -> list[str]:
    """How the run ended, in sentences."""
    outcome = trace.outcome.value
    lines = [outcome[0].upper() + outcome[1:] + "."]
    if len(trace):
        first, last = trace.span
        facts = [f"t = {first:g} … {last:g} s"]
        if trace.steps.count:
            facts.append(counted(trace.steps.count, "step"))
        if trace.steps.rejected:
            facts.append(f"{trace.steps.rejected:,} rejected")
        if trace.event_counts:
            facts.append(counted(sum(trace.event_counts.values()), "event"))
        facts.append(counted(len(trace), "row") + " recorded")
        if "wall_seconds" in trace.info:
            facts.append(_seconds(float(trace.info["wall_seconds"])))
        lines.append(", ".join(facts) + ".")
    else:
        lines.append("Nothing was recorded.")
    if trace.event_counts:
        lines.append(f"Events: {_events(trace.event_counts)}.")
        lines += _between(trace)
        lines += _held(trace)
    lines += [f"Property {found}." for found in trace.properties.values()]
    lines += [f"Warning: {what}." for what in trace.info.get("warnings", ())]
    for event, t in trace.info.get("undefined", {}).items():
        lines.append(f"Event {event}: its condition was not a number at t = {t:.9g} s; that is never true.")
    if trace.lateness is not None:
        lines.append(_lateness(trace.lateness))
    if "engine" in trace.info:
        why = f": {trace.info['why']}" if trace.info.get("why") else ""
        lines.append(f"Engine {trace.info['engine']}{why}".rstrip(".") + ".")
    return lines


def between_units(trace: Trace) -> dict[str, Any] | None:
    """How many events between units there were, how many of them were predicted, and how late those
    were noticed at most of which that is known; None if there are none, or so many that reading them again
    would take its time."""
    if sum(trace.event_counts.values()) > _MAX_READ:
        return None
    found = [details for _, details in trace.events.more.values()]
    if not found:
        return None
    predicted = sum("predicted" in details for details in found)
    landed = [abs(details["landed"]) for details in found if "landed" in details]
    return {
        "count": len(found),
        "predicted": predicted,
        "landed": len(landed),
        "landed_within": max(landed, default=None),
    }


def _between(trace: Trace) -> list[str]:
    found = between_units(trace)
    if found is None:
        return []
    seen = f"{found['predicted']:,} of {counted(found['count'], 'event')}"
    if not found["predicted"]:
        seen = f"none of {counted(found['count'], 'event')}"
    unknown = found["count"] - found["landed"]
    where = [f"landed within {found['landed_within']:.3g} s of the crossing"] if found["landed"] else []
    if unknown:
        where.append(f"the delay of {unknown:,} is not known")
    return [f"Between units: {seen} predicted, {'; '.join(where)}."]


def _held(trace: Trace) -> list[str]:
    """What came to rest or slid, until when, and why: the first few times."""
    if sum(trace.event_counts.values()) > _MAX_READ:
        return []
    names = {kind.name for kind in trace.events.kinds if not REASONS.isdisjoint(kind.items)}
    found = [event for event in trace.events if event.name in names]
    lines = [f"{e.name} at t = {e.time:.9g} s, because {e.value}." for e in found[:_MAX_EVENTS]]
    return [*lines, *([f"… and {len(found) - _MAX_EVENTS:,} more."] if len(found) > _MAX_EVENTS else [])]


def _lateness(late: Lateness) -> str:
    """How well a run kept up with the clock."""
    if not late.maximum:
        return "Real time: no step was late."
    facts = [f"{late.beyond:,} of {counted(late.count, 'step')} more than {_seconds(late.tolerance)} late"]
    facts += [f"{name} {_seconds(value)}" for name, value in _figures(late)]
    if late.skips:
        facts.append(f"{_seconds(late.given_up)} given up in {counted(late.skips, 'piece')}")
    return f"Real time: {', '.join(facts)}."


def _figures(late: Lateness) -> list[tuple[str, float]]:
    return [("mean", late.mean), ("99 % within", late.percentile(99)), ("latest", late.maximum)]


def _events(counts: Mapping[str, int]) -> str:
    """How many of which, the most frequent ones first."""
    ordered = sorted(counts, key=lambda name: -counts[name])
    texts = [f"{counts[name]:,} × {name}" for name in ordered[:_MAX_EVENTS]]
    rest = sum(counts[name] for name in ordered[_MAX_EVENTS:])
    if rest:
        texts.append(f"{rest:,} of {counted(len(ordered) - _MAX_EVENTS, 'other name')}")
    return ", ".join(texts)


def counted(count: int, noun: str) -> str:
    """``1 step``, ``1,000 steps``."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def _seconds(seconds: float) -> str:
    return (
        f"{seconds * 1000:.3g} ms"
        if seconds < 1
        else f"{seconds:.3g} s"
        if seconds < 100
        else f"{seconds:.0f} s"
    )


def _table(trace: Trace) -> list[str]:
    if not (len(trace) and trace.columns):
        return []
    rows = [HEAD, *(row_of(column, trace.summary(column.name)) for column in trace.columns)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEAD))]
    if not any(row[1] for row in rows[1:]):
        widths[1] = 0
    lines = []
    for row in rows:
        left = [row[i].ljust(widths[i]) for i in (0, 1) if widths[i]]
        right = [row[i].rjust(widths[i]) for i in range(2, len(HEAD))]
        lines.append("  ".join([*left, *right]).rstrip())
    return ["", lines[0], "─" * max(map(len, lines)), *lines[1:]]


def row_of(column: Column, found: Summary | None) -> tuple[str, ...]:
    """What a table says of a signal, under `HEAD`."""
    unit = column.unit or ""
    if found is None:
        return (column.name, unit, "–", "–", "–", "–")
    if column.kind is Kind.BOOLEAN:
        words = ("false", "true")
        mean = f"{100 * found.mean:.3g} %"
        return (
            column.name,
            unit,
            words[int(found.minimum)],
            mean,
            words[int(found.maximum)],
            words[int(found.final)],
        )
    if column.items:
        final = int(found.final)
        label = column.labels.label(final) or str(final)
        return (column.name, unit, "–", "–", "–", label)
    numbers = (found.minimum, found.mean, found.maximum, found.final)
    return (column.name, unit, *(f"{number:.6g}" for number in numbers))
