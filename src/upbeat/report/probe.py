"""A probe's report for people: what it is, its interface, declared against measured."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from upbeat.units.fmi.probe import PortRow, Report, Row

_MAX_PORTS = 40
_MAX_REACTIONS = 20
_WIDTH = 100


def text(report: Report) -> str:
    """All of it, in plain text."""
    blocks = [_head(report), _interface(report), _properties(report), _feedthrough(report), verdict(report)]
    return "\n\n".join(block for block in blocks if block)


def _head(report: Report) -> str:
    lines = [report.file, *(f"  {note}" for note in report.notes)]
    if report.time_per_step_ns is not None and report.step is not None:
        lines.append(f"  a step of {report.step:g} s takes {_duration(report.time_per_step_ns)}")
    return "\n".join(lines)


def _duration(ns: float) -> str:
    for limit, unit, size in ((1e3, "ns", 1.0), (1e6, "µs", 1e3), (1e9, "ms", 1e6)):
        if ns < limit:
            return f"{ns / size:.3g} {unit}"
    return f"{ns / 1e9:.3g} s"


def _interface(report: Report) -> str:
    if not report.ports:
        return ""
    rows = [
        (p.causality, p.name, p.kind + (" event" if p.event else ""), _size(p), p.unit or "", _start(p))
        for p in report.ports[:_MAX_PORTS]
    ]
    more = len(report.ports) - _MAX_PORTS
    lines = _table(("", "name", "type", "cells", "unit", "start"), rows)
    return "\n".join(["Interface", *lines, *([f"  … and {more} more"] if more > 0 else [])])


def _size(port: PortRow) -> str:
    return "" if port.size is None else str(port.size)


def _start(port: PortRow) -> str:
    if port.start is None:
        return ""
    shown = ", ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in port.start[:4])
    return shown + (", …" if len(port.start) > 4 else "")


def _properties(report: Report) -> str:
    return "\n".join(["Declared and measured", *_wrapped(report.rows)])


def _wrapped(rows: Sequence[Row]) -> list[str]:
    """Long findings go on below where they began."""
    wide = max(len(row.name) for row in rows)
    words = {None: "", True: "yes", False: "no"}
    lines = [f"    {'':{wide}}  declared  measured"]
    for row in rows:
        start = f"  {' ' if row.ok else '!'} {row.name:{wide}}  {words[row.declared]:8}  "
        first, *others = textwrap.wrap(row.measured, max(40, _WIDTH - len(start))) or [""]
        lines += [(start + first).rstrip(), *(" " * len(start) + line for line in others)]
    return lines


def _feedthrough(report: Report) -> str:
    reacting = [r for r in report.feedthrough if r.declared or r.at_once or r.after_a_step]
    if not reacting:
        return ""
    rows = [
        (r.output, *(_names(names) for names in (r.declared, r.at_once, r.after_a_step)))
        for r in reacting[:_MAX_REACTIONS]
    ]
    more = len(reacting) - _MAX_REACTIONS
    lines = _table(("output", "declared to follow", "reacts at once to", "after a step to"), rows)
    return "\n".join(["Feedthrough", *lines, *([f"  … and {more} more"] if more > 0 else [])])


def _names(names: Sequence[str]) -> str:
    return "–" if not names else ", ".join(names[:4]) + (f", … ({len(names)})" if len(names) > 4 else "")


def verdict(report: Report) -> str:
    """Whether it can be used, in a sentence."""
    if not report.usable:
        return "It cannot be used here: " + "; ".join(r.measured for r in report.rows if not r.ok) + "."
    if report.crash:
        return (
            f'It can be used, with care: {report.crash}. isolation = "process" in its unit keeps that from '
            "the rest of a run."
        )
    count = len(report.findings)
    return (
        "It can be used; nothing is wrong with it."
        if count == 0
        else f"It can be used. Findings: {count} (marked !)."
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [tuple(head), *(tuple(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
