"""What `str` says of values, in one sentence, and what notebooks show of them: at most a screen of HTML."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import singledispatch
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upbeat.core.ports import Kind
from upbeat.engine.experiment import Experiment
from upbeat.judging.steps import StepAdvice
from upbeat.judging.trust import Trust
from upbeat.master.program import Program, block_lines
from upbeat.master.settings import settings_of
from upbeat.report import stability as verdicts
from upbeat.report import trust as trusted
from upbeat.report.diagram import MAX_UNITS, arrange, svg
from upbeat.report.explain import words
from upbeat.report.plot import COLOURS, pretty, thin
from upbeat.report.probe import verdict
from upbeat.report.steps import HEAD as ADVICE
from upbeat.report.steps import rows_of
from upbeat.report.summary import HEAD, counted, row_of
from upbeat.scenario.scenario import Scenario
from upbeat.stability.verdicts.along import Along
from upbeat.stability.verdicts.judge import Stability
from upbeat.stability.verdicts.pieces import StabilityMap
from upbeat.trace.columns import Column
from upbeat.trace.events import EventLog
from upbeat.trace.trace import Trace
from upbeat.units.fmi.probe import Report

_ROWS = 12
"""Rows of a table that fit on a screen next to what is around them."""
_LINES = 24

# ----------------------------------------------------------------------------------------------------
# In one sentence.


@singledispatch
def sentence(value: object) -> str:
    """A value in one sentence."""
    return repr(value)


@sentence.register
def _(trace: Trace) -> str:
    outcome = trace.outcome.value.partition(";")[0]
    if not len(trace):
        return f"{_capital(outcome)}; nothing was recorded."
    first, last = trace.span
    facts = [f"t = {first:g} … {last:g} s"]
    facts += [counted(trace.steps.count, "step")] if trace.steps.count else []
    facts += [counted(sum(trace.event_counts.values()), "event")] if trace.event_counts else []
    return (
        f"{_capital(outcome)}: {', '.join(facts)}, {counted(len(trace), 'row')} of "
        f"{counted(len(trace.columns), 'signal')}."
    )


@sentence.register
def _(scenario: Scenario) -> str:
    name = f"Scenario '{scenario.name}'" if scenario.name else "A scenario"
    facts = [counted(len(scenario.units), "unit"), counted(len(scenario.all_connections), "connection")]
    facts += [counted(len(scenario.graph.loops), "algebraic loop")] if scenario.graph.loops else []
    facts += [f"{counted(len(scenario.events), 'event')} between units"] if scenario.events else []
    return f"{name}: {', '.join(facts)}."


@sentence.register
def _(experiment: Experiment) -> str:
    start, stop = experiment.span.start, experiment.span.stop
    master = ", ".join(f"{key} {words(value)}" for key, value in settings_of(experiment.master).items())
    return f"{sentence(experiment.scenario)[:-1]}; from t = {start:g} to {stop:g} s with {master}."


@sentence.register
def _(program: Program) -> str:
    blocks = [block for block in program.blocks.values() if block]
    count = sum(len(block_lines(block, program.layout)) for block in blocks)
    return f"A program of {counted(len(blocks), 'block')} with {counted(count, 'instruction')}."


@sentence.register
def _(log: EventLog) -> str:
    counts = ", ".join(f"{count:,} × {name}" for name, count in log.counts().items())
    return f"{counted(len(log), 'event')}: {counts}." if counts else "No events."


@sentence.register
def _(report: Report) -> str:
    return f"{report.name or report.file} (FMI {report.fmi}): {_small(verdict(report).splitlines()[0])}"


@sentence.register
def _(found: Stability) -> str:
    return verdicts.sentence(found)


@sentence.register
def _(found: Along) -> str:
    return verdicts.along(found)


@sentence.register
def _(found: StepAdvice) -> str:
    return _capital(found.reason)


@sentence.register
def _(found: StabilityMap) -> str:
    stable, open_, all_ = int(found.stable.sum()), int(found.undecided.sum()), found.radius.size
    left = f", {open_:,} undecided" if open_ else ""
    return f"Of {all_:,} pairs of {found.parameter} and a step size, {stable:,} are stable{left}."


@sentence.register
def _(found: Trust) -> str:
    return f"{_capital(found.verdict)}: {found.reason}."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _small(text: str) -> str:
    return text[:1].lower() + text[1:]


# ----------------------------------------------------------------------------------------------------
# As HTML. Styles stand with the elements, so that they mean nothing to the page around them.

_TEXT = "font-family:system-ui,sans-serif;font-size:13px;line-height:1.45"
_CELL = "padding:1px 10px 1px 0;text-align:{};border:0;white-space:nowrap"


@singledispatch
def html(value: object) -> str:
    """A value for a notebook."""
    return page(sentence(value))


@html.register
def _(trace: Trace) -> str:
    shown_, more = trace.columns[:_ROWS], len(trace.columns) - _ROWS
    rows = [
        [*map(escape, row_of(column, trace.summary(column.name))), spark(trace, column)] for column in shown_
    ]
    parts = [table([*HEAD, "over time"], rows, numbers=range(2, 6))] if len(trace) and rows else []
    parts += [_quiet(f"… and {counted(more, 'signal')} more")] if more > 0 else []
    if trace.event_counts:
        named = list(trace.event_counts.items())
        few = ", ".join(f"{count:,} × {name}" for name, count in named[:6])
        parts.append(_quiet(f"Events: {few}{' …' if len(named) > 6 else ''}"))
    parts += [_quiet(f"Warning: {text}") for text in list(trace.info.get("warnings", ()))[:3]]
    return page(sentence(trace), *parts)


@html.register
def _(scenario: Scenario) -> str:
    return page(sentence(scenario), picture(scenario))


@html.register
def _(experiment: Experiment) -> str:
    return page(sentence(experiment), picture(experiment))


@html.register
def _(program: Program) -> str:
    parts = []
    for name, block in program.blocks.items():
        if block:
            lines = block_lines(block, program.layout, indent="")
            cut = [*lines[:_LINES], f"… {len(lines) - _LINES} more"] if len(lines) > _LINES else lines
            text = escape("\n".join(cut))
            opened = " open" if name == "step" else ""
            parts.append(
                f"<details{opened}><summary>{escape(name)}: {counted(len(lines), 'instruction')}</summary>"
                f"<pre style='margin:2px 0 6px 14px;font-size:12px;line-height:1.35'>{text}</pre></details>"
            )
    return page(sentence(program), *parts)


@html.register
def _(log: EventLog) -> str:
    more = [_quiet(f"… and {counted(len(log) - _ROWS, 'event')} more")] if len(log) > _ROWS else []
    return page(sentence(log), *([events(log, _ROWS)] if len(log) else []), *more)


def events(log: EventLog, most: int) -> str:
    """The first events as a table; between units also when they were predicted and where steps landed."""
    head, rows = ["time (s)", "event", "value", "units", "predicted at (s)", "landed after (s)"], []
    for one in log[:most]:
        times = (one.details.get("predicted", {}).get("at"), one.details.get("landed"))
        found = ["" if number is None else f"{number:.6g}" for number in times]
        rows.append([f"{one.time:.9g}", one.name, _payload(one.value), ", ".join(one.units), *found])
    kept = [n for n in range(len(head)) if n < 2 or any(cells[n] for cells in rows)]
    body = [[escape(cells[n]) for n in kept] for cells in rows]
    return table([head[n] for n in kept], body, numbers=[k for k, n in enumerate(kept) if n in (0, 4, 5)])


@html.register
def _(report: Report) -> str:
    words_ = {None: "", True: "yes", False: "no"}
    rows = [
        [escape(r.name), words_[r.declared], ("" if r.ok else "⚠ ") + escape(r.measured)] for r in report.rows
    ]
    return page(sentence(report), table(["property", "declared", "measured"], rows[: 2 * _ROWS]))


@html.register
def _(found: Stability) -> str:
    colour = {"stable": "#007a55", "unstable": "#b3400a"}.get(found.verdict, "#806000")
    lines = [
        line.strip().split("  ", 1) for line in verdicts.describe(found).splitlines()[2:] if line.strip()
    ]
    rows = [[escape(name), escape(value.strip())] for name, value in (o for o in lines if len(o) == 2)][
        :_ROWS
    ]
    badge = f"<b style='color:{colour}'>{escape(found.labelled)}</b>"
    return page(sentence(found), badge, table(["", ""], rows))


@html.register
def _(found: Trust) -> str:
    shown_ = trusted.worst_first(found)
    rows = [[escape(cell) for cell in trusted.row_of(one)] for one in shown_[:_ROWS]]
    parts = [table(trusted.HEAD, rows, numbers=range(2, 7))] if rows else []
    parts += [_quiet(f"… and {counted(len(shown_) - _ROWS, 'signal')} more")] if len(shown_) > _ROWS else []
    return page(sentence(found), *parts, *(_quiet(line) for line in trusted.facts(found)[:_ROWS]))


@html.register
def _(found: StepAdvice) -> str:
    rows = [[escape(cell) for cell in cells] for cells in rows_of(found)[: 2 * _ROWS]]
    return page(sentence(found), table(ADVICE, rows, numbers=(1, 4, 5, 6)))


def picture(what: Scenario | Experiment) -> str:
    """The block diagram, or a table where there are too many units for one."""
    scenario = what.scenario if isinstance(what, Experiment) else what
    if len(scenario.units) <= MAX_UNITS:
        drawn = svg(arrange(what), title=sentence(scenario))
        return f"<div style='overflow:auto;max-height:640px'>{drawn}</div>"
    rows = [
        [escape(name), escape(type(model).__name__)] for name, model in list(scenario.units.items())[:_ROWS]
    ]
    return table(["unit", "kind"], rows) + _quiet(f"… and {len(scenario.units) - _ROWS:,} more")


def page(first: str, *parts: str) -> str:
    """The sentence, and what is below it."""
    return f"<div style='{_TEXT}'><div>{escape(first)}</div>{''.join(parts)}</div>"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Collection[int] = ()) -> str:
    """Cells are HTML; columns of `numbers` end at the right."""
    sides = ["right" if number in numbers else "left" for number in range(len(head))]

    def line(cells: Sequence[str], tag: str, weight: int) -> str:
        made = (
            f"<{tag} style='{_CELL.format(side)};font-weight:{weight}'>{cell}</{tag}>"
            for cell, side in zip(cells, sides, strict=True)
        )
        return f"<tr style='background:none'>{''.join(made)}</tr>"

    top = line([escape(text) for text in head], "th", 600) if any(head) else ""
    body = "".join(line(cells, "td", 400) for cells in rows)
    return f"<table style='border-collapse:collapse;margin:4px 0;font-size:12px'>{top}{body}</table>"


def _quiet(text: str) -> str:
    return f"<div style='color:#666;font-size:12px'>{escape(text)}</div>"


def _payload(value: Any) -> str:
    return (
        "" if value is None or value is True else f"{value:.6g}" if isinstance(value, float) else str(value)
    )


_SPARK = (120, 18)


def spark(trace: Trace, column: Column) -> str:
    """A signal as a line of the height of a text."""
    if column.kind is Kind.STRING or len(trace) < 2:
        return ""
    times, values = thin(trace.time, trace[column.name].astype(np.float64), 200)
    if column.kind is not Kind.REAL:  # it holds until the next row
        times, values = np.repeat(times, 2)[1:], np.repeat(values, 2)[:-1]
    fine = np.isfinite(values)
    x, y = _scaled(times[fine], _SPARK[0]), _SPARK[1] - _scaled(values[fine], _SPARK[1])
    points = " ".join(f"{a:.4g},{b:.4g}" for a, b in zip(x, y, strict=True))
    wide, high = (side + 4 for side in _SPARK)
    return (
        f"<svg width='{wide}' height='{high}' viewBox='-2 -2 {wide} {high}' "
        f"style='vertical-align:middle'><title>{escape(column.name)} {escape(pretty(column.unit))}</title>"
        f"<polyline points='{points}' fill='none' stroke='{COLOURS[0]}' stroke-width='1.2'/></svg>"
    )


def _scaled(values: NDArray[Any], size: float) -> NDArray[Any]:
    low, high = (values.min(), values.max()) if len(values) else (0.0, 0.0)
    return np.full(len(values), size / 2) if not high > low else (values - low) / (high - low) * size
