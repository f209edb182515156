"""The report of a run: one page that can be kept, printed and sent, as HTML or Markdown.

Everything is in the HTML file itself, pictures included: nothing is fetched, and no script runs. Programs
that show Markdown do not show pictures inside it, so there they lie in a folder next to it.
"""

from __future__ import annotations

import base64
import io
import math
import re
import shlex
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from upbeat.core.atomic import as_path, replace_file
from upbeat.core.errors import FileProblem, InvalidInput, UpbeatError, check_type
from upbeat.core.plain import Fields
from upbeat.engine.experiment import Experiment
from upbeat.engine.nesting.model import nested_of
from upbeat.engine.resume import content, made_from, provenance, with_scenario
from upbeat.judging.steps import StepAdvice
from upbeat.judging.trust import Trust
from upbeat.report.diagram import MAX_UNITS, arrange, svg
from upbeat.report.explain import explain
from upbeat.report.notebook import sentence
from upbeat.report.plot import COLOURS, FRAME, INK, SMALL, TEXT, figure_class, frame, plot, ticks
from upbeat.report.steps import HEAD as ADVICE
from upbeat.report.steps import plot_steps, rows_of
from upbeat.report.summary import HEAD, counted, opening, row_of
from upbeat.report.trust import HEAD as JUDGED
from upbeat.report.trust import parts as parts_of
from upbeat.report.trust import percent
from upbeat.scenario.scenario import Scenario
from upbeat.trace.files.output import check_place, kept_from
from upbeat.trace.log import Outcome
from upbeat.trace.trace import Trace, read
from upbeat.units.process import bare
from upbeat.version import __version__

MARK = "a report by Upbeat"
_EVENTS, _LINES, _INSIDE, _SIGNALS = 60, 400, 6, 60
"""What is shown of long logs, long scenarios, scenarios inside others, and many signals."""

# ----------------------------------------------------------------------------------------------------
# What a report is made of, before it is HTML or Markdown.


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph; one that `warns` stands out."""

    text: str
    warns: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of texts; columns of `numbers` end at the right."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: Collection[int] = ()


@dataclass(frozen=True, slots=True)
class Drawing:
    """An SVG picture; `inline` ones have tooltips, which only a part of the page can show."""

    name: str
    svg: str
    caption: str
    inline: bool = False


@dataclass(frozen=True, slots=True)
class Code:
    """Text as it is."""

    text: str


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with what is below it."""

    title: str
    parts: Sequence[Text | Table | Drawing | Code]


@dataclass(frozen=True, slots=True)
class Document:
    """A whole report."""

    title: str
    lead: str
    sections: Sequence[Section]


# ----------------------------------------------------------------------------------------------------
# The run that is reported, and what is known of where it comes from.


def write_report(
    what: Trace | Experiment | Path | str,
    out: Path | str,
    *,
    experiment: Experiment | None = None,
    trust: Trust | None = None,
    advice: StepAdvice | None = None,
    title: str | None = None,
    name: str | None = None,
    force: bool = False,
) -> None:
    """Write the report of a run as one file, ``.html``, or as ``.md`` with pictures next to it.

    `what` is a trace, the file of one, or an experiment, which is run first. A trace knows its `experiment`,
    and a file the scenario as it was; only of runs that were set up in Python and read back from a file it
    has to be given. With what `up.trust` says, signals have error bands and verdicts; with the `advice` of
    `up.recommend_step`, there is a work-precision diagram. A file that is there and is no report is replaced
    with `force` only. `name` is what the result file is called.
    """
    target = checked_report(out, force=force)
    figure_class()  # pictures are a part of it: says what to install
    for text, called in ((title, "title"), (name, "name")):
        if text is not None:
            check_type(text, str, called)
    trace, file = _trace(what)
    if trust is not None:
        check_type(trust, Trust, "trust")
    if advice is not None:
        check_type(advice, StepAdvice, "advice")
    if experiment is not None:
        check_type(experiment, Experiment, "experiment")
    made = document(
        trace, file if name is None else name, experiment=experiment, trust=trust, advice=advice, title=title
    )
    if target.suffix.lower() == ".html":
        replace_file(target, html(made).encode())
        return
    folder = target.with_name(f"{target.stem}_files")
    text, pictures = markdown(made, folder.name)
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise FileProblem(f"cannot make the folder '{folder}' for pictures: {error.strerror}") from error
    for file, data in pictures.items():
        replace_file(folder / file, data.encode())
    replace_file(target, text.encode())


def checked_report(out: Path | str, *, force: bool = False) -> Path:
    """Where a report goes; `FileProblem` if it cannot go there, or would replace what is no report."""
    target = as_path(out, "out")
    if target.suffix.lower() not in (".html", ".md"):
        raise FileProblem(f"cannot write the report '{target}': the suffix must be .html or .md")
    check_place(target)
    kept_from(target, lambda file: MARK.encode() in file.read_bytes()[:4000], MARK, force=force)
    return target


def _trace(what: object) -> tuple[Trace, str]:
    if isinstance(what, Experiment):
        return what.run(), what.scenario.name or "run"
    if isinstance(what, (str, Path)):
        return read(what), Path(what).name
    if not isinstance(what, Trace):
        raise InvalidInput(f"a report is about a trace, a result file or an experiment, not {what!r:.60}")
    return what, ""


@dataclass(frozen=True, slots=True)
class _Known:
    """What ran, as far as that is known, and what to say about it."""

    experiment: Experiment | None
    texts: dict[str, str]
    remarks: list[Text]
    facts: dict[str, Any]


def _known(trace: Trace, experiment: Experiment | None) -> _Known:
    """The experiment of a trace: given, remembered, or read from what its file says."""
    facts = trace.info.get("provenance", {})
    origin = experiment or (trace.origin if isinstance(trace.origin, Experiment) else None)
    if not facts and origin is not None:  # it has not been written to a file, where that would be said
        facts = {
            key: value for key, value in with_scenario(provenance(origin), origin).items() if key != "started"
        }
    texts: dict[str, str] = {}
    remarks: list[Text] = []
    found, said = origin, Fields(facts, "the provenance")
    try:
        stored = said.table("experiment") if facts.get("experiment") else None
        if stored is not None:
            texts = {str(name): str(text) for name, text in Fields(stored, "it").table("files").items()}
        file = Path(said.text("file")) if facts.get("file") else None
        if file is not None:
            remarks += _since(file, facts.get("sha256"))
        if found is None and stored is not None:
            found = made_from(stored)
    except (UpbeatError, ValueError, KeyError, TypeError) as error:
        remarks.append(Text(f"What ran cannot be set up again here: {error}", warns=True))
    if found is None and not texts:
        why = (
            "parts of it were set up with Python code, which a result file does not hold"
            if facts
            else "the file does not say where it comes from"
        )
        remarks.append(
            Text(
                f"The scenario is not part of this report: {why}. With the experiment at hand, write "
                "up.write_report(RUN, OUT, experiment=…).",
                warns=True,
            )
        )
    return _Known(found, texts, remarks, dict(facts))


def experiment_of(trace: Trace) -> Experiment:
    """The experiment that gave a trace; `InvalidInput` if that is not known."""
    known = _known(trace, None)
    if known.experiment is None:
        why = " ".join(remark.text for remark in known.remarks)
        raise InvalidInput(f"what ran is not known, so nothing can be run to judge it. {why}")
    return known.experiment


def _since(file: Path, before: object) -> list[Text]:
    """What became of the scenario file since the run."""
    now = content(file)
    if now is None and not file.is_dir():
        return [Text(f"The scenario file '{file}' is not there any more; below it is as it was.", warns=True)]
    if before is not None and now != before:
        return [
            Text(f"The scenario file '{file}' has changed since the run; below it is as it was.", warns=True)
        ]
    return []


def document(
    trace: Trace,
    name: str = "",
    *,
    experiment: Experiment | None = None,
    trust: Trust | None = None,
    advice: StepAdvice | None = None,
    title: str | None = None,
) -> Document:
    """All that a report says, before it is HTML or Markdown."""
    known = _known(trace, experiment)
    called = known.experiment.scenario.name if known.experiment else str(known.facts.get("name") or "")
    sections = [
        _summary(trace, trust),
        *_judged(trust),
        *_advised(advice),
        *_signals(trace, trust),
        *_events(trace),
        *_steps(trace),
        *_solvers(trace),
        *_scenario(known),
        _repeat(trace, known, name),
    ]
    return Document(title or called or name or "A run", sentence(trace), [s for s in sections if s.parts])


# ----------------------------------------------------------------------------------------------------
# The sections.


def _summary(trace: Trace, trust: Trust | None) -> Section:
    parts: list[Any] = []
    if trace.info.get("failure"):
        parts.append(Text(f"{_capital(trace.outcome.value)}: {trace.info['failure']}", warns=True))
    elif not trace.outcome.ok and trace.outcome is not Outcome.UNKNOWN:
        parts.append(Text(f"{_capital(trace.outcome.value)}.", warns=True))
    if trust is not None:
        parts.append(Text(f"{_capital(trust.verdict)}: {trust.reason}.", warns=trust.verdict != "good"))
    for line in opening(trace):
        parts.append(Text(line, warns=line.startswith("Warning")))
    return Section("Summary", parts)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _judged(trust: Trust | None) -> Iterator[Section]:
    if trust is None:
        return
    parts: list[Any] = [
        Text(
            f"Each signal is judged against an error of {percent(trust.tolerance)} of its range. The "
            f"estimates come from {counted(sum(not run.failure for run in trust.runs), 'run')} with other "
            "steps, solvers and inputs."
        )
    ]
    rows = [
        [
            one.name, one.verdict, _number(one.error) + (f" {one.unit}" if one.unit else ""),
            percent(one.relative) if math.isfinite(one.relative) else "–",
            "–" if one.order is None else f"{one.order:.2f}", _number(one.coupling), _number(one.solver),
            one.reason,
        ]
        for one in trust.signals.values()
    ]  # fmt: skip
    parts += [Table(JUDGED, rows[:_SIGNALS], (2, 3, 4, 5, 6))] if rows else []
    parts += _cut(len(rows) - _SIGNALS, "signal")
    parts += [Text(text, warns) for text, warns in parts_of(trust, inputs=_SIGNALS, units=_SIGNALS)]
    if trust.energy:
        parts.append(_energy(trust))
    made = [[run.change, f"{run.steps:,}", f"{run.seconds:.2f}", run.failure or "done"] for run in trust.runs]
    parts.append(Table(("run", "steps", "seconds", "outcome"), made, (1, 2)))
    yield Section("Is it right?", parts)


def _advised(advice: StepAdvice | None) -> Iterator[Section]:
    if advice is None:
        return
    drawn = Drawing("work_precision", _svg(plot_steps(advice)), "The error of each setting over its work.")
    table = Table(ADVICE, rows_of(advice), (1, 4, 5, 6))
    marks = Text("→ recommended; * nothing else has both a smaller error and less work; · as it is now.")
    more = [Text(f"Not come to: {text}.") for text in advice.undone]
    yield Section("Which step size?", [Text(_capital(advice.reason)), drawn, table, marks, *more])


def _energy(trust: Trust) -> Drawing:
    figure = figure_class()(figsize=(7.2, 2.2), layout="constrained", facecolor="white")
    axis = figure.subplots()
    frame(axis, "energy that the coupling has created (J)")
    for number, bond in enumerate(trust.energy):
        look = {"color": COLOURS[number % len(COLOURS)], "linewidth": 1.3}
        axis.plot(bond.time, bond.residual, label=f"{bond.one} · {bond.other}", **look)
    axis.legend(fontsize=SMALL, frameon=False, labelcolor=INK)
    axis.set_xlabel("time (s)", fontsize=TEXT, color=INK)
    return Drawing("energy", _svg(figure), "What the coupling creates (positive) or destroys at power bonds.")


def _signals(trace: Trace, trust: Trust | None) -> Iterator[Section]:
    if not len(trace):
        return
    rows = [row_of(column, trace.summary(column.name)) for column in trace.columns]
    parts: list[Any] = []
    try:
        figure = plot(trace, trust=trust, steps=False)
        bands = trust is not None and any(len(one.band) for one in trust.signals.values())
        caption = "The recorded signals over time" + (
            ", with bands of their estimated errors." if bands else "."
        )
        parts.append(Drawing("signals", _svg(figure), caption))
    except InvalidInput as nothing:  # only texts
        parts.append(Text(_capital(f"{nothing}.")))
    parts.append(Table(HEAD, rows[:_SIGNALS], range(2, 6)))
    parts += _cut(len(rows) - _SIGNALS, "signal")
    yield Section("Signals", parts)


def _cut(more: int, noun: str) -> list[Text]:
    return [Text(f"… and {counted(more, noun)} more.")] if more > 0 else []


def _number(value: float) -> str:
    return f"{value:.3g}" if math.isfinite(value) else "–"


def _events(trace: Trace) -> Iterator[Section]:
    if not trace.event_counts:
        return
    log = trace.events
    head = ("time (s)", "event", "value", "units", "predicted at (s)", "for (s)", "noticed after (s)")
    rows = []
    for one in log[:_EVENTS]:
        seen = one.details.get("predicted", {})
        value = (
            ""
            if one.value in (None, True)
            else f"{one.value:.6g}"
            if isinstance(one.value, float)
            else str(one.value)
        )
        numbers = [seen.get("at"), seen.get("for"), one.details.get("landed")]
        shown = ["" if n is None else f"{n:.9g}" if k < 2 else f"{n:.3g}" for k, n in enumerate(numbers)]
        rows.append([f"{one.time:.9g}", one.name, value, ", ".join(one.units), *shown])
    kept = [n for n in range(len(head)) if n < 2 or any(row[n] for row in rows)]
    table = Table(
        [head[n] for n in kept],
        [[row[n] for n in kept] for row in rows],
        [k for k, n in enumerate(kept) if n in (0, 4, 5, 6)],
    )
    counts = ", ".join(f"{count:,} × {event}" for event, count in trace.event_counts.items())
    parts: list[Any] = [Text(f"{counted(len(log), 'event')}: {counts}.")]
    parts += _landing(trace)
    yield Section("Events", [*parts, table, *_cut(len(log) - _EVENTS, "event")])


def _landing(trace: Trace) -> Iterator[Drawing]:
    """How long before they happened events were predicted, and how long after it they were noticed."""
    found = [(one.time, one.name, one.details) for one in trace.events[:2000] if "landed" in one.details]
    if not found:
        return
    figure = figure_class()(figsize=(7.2, 2.4), layout="constrained", facecolor="white")
    axis = figure.subplots()
    frame(axis, "seconds before (▲ predicted) and after (● noticed) the event")
    for number, name in enumerate(dict.fromkeys(name for _, name, _ in found)):
        mine = [(t, details) for t, other, details in found if other == name]
        colour = COLOURS[number % len(COLOURS)]
        ahead = [(t, t - d["predicted"]["at"]) for t, d in mine if "predicted" in d]
        late = [(t, abs(d["landed"])) for t, d in mine]
        for points, mark in ((ahead, "^"), (late, "o")):
            if points := [(t, y) for t, y in points if y > 0]:
                axis.plot(*zip(*points, strict=True), mark, color=colour, markersize=4, linestyle="none")
        axis.plot([], [], "s", color=colour, markersize=4, linestyle="none", label=name)
    axis.set_yscale("log")
    axis.set_xlim(*trace.span)
    axis.legend(fontsize=SMALL, frameon=False, labelcolor=INK, loc="center left", bbox_to_anchor=(1.0, 0.5))
    axis.set_xlabel("time (s)", fontsize=TEXT, color=INK)
    yield Drawing(
        "events", _svg(figure), "How early events between units were predicted, and how exactly met."
    )


def _steps(trace: Trace) -> Iterator[Section]:
    steps = trace.steps
    if not steps.count:
        return
    found: dict[str, list[tuple[int, float]]] = {}
    for run in steps:
        found.setdefault(run.why.label, []).append((run.count, run.size))
    most = sorted(found, key=lambda label: -sum(count for count, _ in found[label]))
    rows = []
    for label in most[:20]:
        sizes = [size for _, size in found[label]]
        count = sum(count for count, _ in found[label])
        rows.append([label, f"{count:,}", f"{100 * count / steps.count:.3g} %", f"{min(sizes):.6g}", f"{max(sizes):.6g}"])  # fmt: skip  # noqa: E501
    parts: list[Any] = [_by_reason(rows)] if len(rows) > 1 else []
    if steps.extremes() is not None:
        parts.append(_sizes(trace))
    rejected = f", and {counted(steps.rejected, 'attempt')} taken back" if steps.rejected else ""
    text = Text(f"{counted(steps.count, 'communication step')}{rejected}.")
    table = Table(("made because of", "steps", "share", "shortest (s)", "longest (s)"), rows, (1, 2, 3, 4))
    yield Section("Steps", [text, *parts, table])


def _by_reason(rows: Sequence[Sequence[str]]) -> Drawing:
    figure = figure_class()(figsize=(7.2, 0.6 + 0.22 * len(rows)), layout="constrained", facecolor="white")
    axis = figure.subplots()
    frame(axis, "steps by reason")
    counts = [int(row[1].replace(",", "")) for row in rows]
    axis.barh(range(len(rows)), counts, color=COLOURS[0], height=0.6)
    axis.set_yticks(range(len(rows)), [row[0] for row in rows])
    axis.set_ylim(len(rows) - 0.5, -0.5)
    axis.set_xscale("log")
    axis.set_xlim(0.8, None)
    axis.tick_params(axis="y", length=0)
    for place, count in enumerate(counts):
        axis.annotate(f" {count:,}", (count, place), va="center", fontsize=SMALL, color=INK)
    return Drawing("reasons", _svg(figure), "How many communication steps were made for which reason.")


def _sizes(trace: Trace) -> Drawing:
    figure = figure_class()(figsize=(7.2, 2.0), layout="constrained", facecolor="white")
    axis = figure.subplots()
    frame(axis, "step size (s)")
    times, sizes = trace.steps.sizes()
    keep = sizes > 0
    every = max(1, int(keep.sum()) // 6000)
    axis.plot(times[keep][::every], sizes[keep][::every], color=FRAME, linewidth=0.8, drawstyle="steps-post")
    axis.plot(times[keep][::every], sizes[keep][::every], ".", color=COLOURS[0], markersize=2.5)
    axis.set_yscale("log")
    ticks(axis)
    axis.set_xlabel("time (s)", fontsize=TEXT, color=INK)
    return Drawing("steps", _svg(figure), "The sizes of the communication steps over time.")


def _solvers(trace: Trace) -> Iterator[Section]:
    found = trace.info.get("solvers")
    if not isinstance(found, dict) or not found:
        return
    names = list(dict.fromkeys(key for counts in found.values() for key in counts))
    rows = [[unit, *(f"{counts.get(name, 0):,}" for name in names)] for unit, counts in found.items()]
    yield Section("Solvers of the units", [Table(["unit", *names], rows, range(1, 1 + len(names)))])


def _scenario(known: _Known) -> Iterator[Section]:
    parts: list[Any] = list(known.remarks)
    if known.experiment is not None:
        parts += _diagrams(known.experiment)
        try:
            parts.append(Code(_short(explain(known.experiment, program=False))))
        except UpbeatError as error:  # an FMU that is not there any more, say
            parts.append(Text(f"What the experiment does cannot be shown here: {error}", warns=True))
    for name, text in known.texts.items():
        parts += [Text(f"{name}, as it was:"), Code(_short(text))]
    yield Section("Scenario", parts)


def _diagrams(experiment: Experiment) -> Iterator[Drawing | Text]:
    scenario = experiment.scenario
    if len(scenario.units) > MAX_UNITS:
        yield Text(f"A diagram of {len(scenario.units):,} units would show nothing.")
        return
    yield _diagram("scenario", experiment, sentence(scenario))
    inside = [(name, inner) for name, model in scenario.units.items() if (inner := nested_of(bare(model)))]
    for number, (name, inner) in enumerate(inside[:_INSIDE]):
        if 1 < len(inner.scenario.units) <= MAX_UNITS:
            yield _diagram(f"inside_{number + 1}", inner.scenario, f"Inside {name}.")


def _diagram(name: str, what: Scenario | Experiment, caption: str) -> Drawing:
    return Drawing(name, svg(arrange(what), title=caption), caption, inline=True)


def _short(text: str) -> str:
    lines = text.splitlines()
    more = len(lines) - _LINES
    return "\n".join(lines if more <= 0 else [*lines[:_LINES], f"… {more:,} more lines"])


def _repeat(trace: Trace, known: _Known, name: str) -> Section:
    facts, info = known.facts, trace.info
    rows = [["result file", name]] if name else []
    rows += [["Upbeat", f"{facts.get('upbeat', '')} (this report: {__version__})".strip()]] if facts else [["Upbeat", f"{__version__} (this report)"]]  # fmt: skip  # noqa: E501
    for key, label in (
        ("python", "Python"),
        ("platform", "platform"),
        ("started", "started"),
        ("file", "scenario file"),
        ("sha256", "its SHA-256"),
    ):
        if facts.get(key):
            rows.append([label, str(facts[key])])
    if info.get("engine"):
        rows.append(["engine", f"{info['engine']}: {info.get('why', '')}".rstrip(": ")])
    if "wall_seconds" in info:
        rows.append(["time taken", f"{info['wall_seconds']:.3g} s"])
    parts: list[Any] = [Table(("", ""), rows)]
    command = facts.get("command")
    if isinstance(command, list) and command:
        where = f"cd {shlex.quote(str(facts.get('folder', '.')))}\n"
        parts += [Text("To repeat the run:"), Code(where + shlex.join(map(str, command)))]
    elif facts.get("file"):
        loaded = f'import upbeat as up\n\ntrace = up.load("{facts["file"]}").run()'
        parts += [Text("It was run from Python; with the settings of its file that is:"), Code(loaded)]
    if trace.info.get("parameters"):
        parts.append(Text("Values were changed by hand during the run: it cannot be repeated from its file alone.", True))  # fmt: skip  # noqa: E501
    parts += [Text(f"Note: {note}.") for note in trace.notes[:30]]
    return Section("How to repeat it", parts)


def _svg(figure: Any) -> str:
    data = io.StringIO()
    figure.savefig(data, format="svg", metadata={"Date": None, "Creator": None})
    text = data.getvalue()
    return text[text.index("<svg") :]


# ----------------------------------------------------------------------------------------------------
# As HTML, and as Markdown.

_STYLE = """
@page { size: A4; margin: 16mm 15mm }
html { color: #222; background: #fff; font: 14px/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif }
body { max-width: 860px; margin: 28px auto; padding: 0 20px }
h1 { font-size: 24px; margin: 0 0 4px }
h2 { font-size: 17px; margin: 30px 0 8px; border-bottom: 1px solid #ccc }
.lead { color: #555; margin: 0 0 14px } p { margin: 5px 0 }
.warn { border-left: 3px solid #D55E00; padding: 3px 10px; background: #fdf3ec }
table { border-collapse: collapse; margin: 10px 0; font-size: 12.5px }
th, td { text-align: left; padding: 2px 12px 2px 0; vertical-align: top; white-space: nowrap }
th { border-bottom: 1px solid #999 } td { border-bottom: 1px solid #eee }
td:last-child { white-space: normal; overflow-wrap: anywhere }
.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
figure { margin: 12px 0; break-inside: avoid } figure svg, figure img { max-width: 100%; height: auto }
figcaption { color: #666; font-size: 12px }
pre { background: #f6f7f8; padding: 8px 10px; font: 11.5px/1.45 ui-monospace, "DejaVu Sans Mono", monospace;
  white-space: pre-wrap; overflow-wrap: anywhere }
@media print { html { font-size: 10.5pt } body { max-width: none; margin: 0; padding: 0 }
  h2 { break-after: avoid } tr, .warn { break-inside: avoid } thead { display: table-header-group }
  pre { font-size: 8pt } table { font-size: 8.5pt } }
"""


def html(document: Document) -> str:
    """The whole page. It fetches nothing and runs nothing."""
    body = "".join(
        f"<section><h2>{escape(section.title)}</h2>{''.join(map(_as_html, section.parts))}</section>\n"
        for section in document.sections
    )
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="generator" content="{MARK}">'
        f'<meta name="viewport" content="width=device-width"><title>{escape(document.title)}</title>'
        f"<style>{_STYLE}</style></head>\n<body><h1>{escape(document.title)}</h1>"
        f'<p class="lead">{escape(document.lead)}</p>\n{body}</body></html>\n'
    )


def _as_html(part: Text | Table | Drawing | Code) -> str:
    match part:
        case Text(text, warns):
            return f'<p class="warn">{escape(text)}</p>' if warns else f"<p>{escape(text)}</p>"
        case Code(text):
            return f"<pre>{escape(text)}</pre>"
        case Drawing():
            drawn = part.svg
            if not part.inline:  # matplotlib's names for its parts would meet those of the next picture
                data = base64.b64encode(part.svg.encode()).decode()
                drawn = f'<img alt="{escape(part.caption)}" src="data:image/svg+xml;base64,{data}">'
            return f"<figure>{drawn}<figcaption>{escape(part.caption)}</figcaption></figure>\n"
        case Table(head, rows, numbers):
            sides = [
                '<{0} class="n">{1}</{0}>' if n in numbers else "<{0}>{1}</{0}>" for n in range(len(head))
            ]
            top = "".join(side.format("th", escape(name)) for side, name in zip(sides, head, strict=True))
            cells = [zip(sides, map(escape, row), strict=True) for row in rows]
            lines = "".join(f"<tr>{''.join(s.format('td', c) for s, c in row)}</tr>" for row in cells)
            top = f"<thead><tr>{top}</tr></thead>" if any(head) else ""
            return f"<table>{top}<tbody>{lines}</tbody></table>\n"


def markdown(document: Document, folder: str) -> tuple[str, dict[str, str]]:
    """The text, and its pictures by the names that they have in `folder`."""
    pictures: dict[str, str] = {}
    lines = [f"<!-- {MARK} -->", f"# {_plain(document.title)}", "", _plain(document.lead), ""]
    for section in document.sections:
        lines += [f"## {section.title}", ""]
        for part in section.parts:
            match part:
                case Text(text, warns):
                    lines += [f"**{_plain(text)}**" if warns else _plain(text), ""]
                case Code(text):
                    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
                    lines += [fence, text, fence, ""]
                case Drawing(name, drawn, caption):
                    pictures[f"{name}.svg"] = drawn
                    lines += [f"![{_plain(caption)}](<{folder}/{name}.svg>)", ""]
                case Table(head, rows, numbers):
                    rule = ["---:" if n in numbers else "---" for n in range(len(head))]
                    for cells in (head, rule, *rows):
                        written = (
                            cell if cells is rule else _plain(cell).replace("|", "\\|") for cell in cells
                        )
                        lines.append(f"| {' | '.join(written)} |")
                    lines.append("")
    return "\n".join(lines) + "\n", pictures


def _plain(text: str) -> str:
    """A text that Markdown leaves as it is, in one line."""
    return re.sub(r"([\\`*_<>\[\]#])", r"\\\1", " ".join(text.split()))
