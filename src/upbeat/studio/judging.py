"""One judgement of a scenario or a run, in a process of its own: what the commands say, for the page.

Each has the words of its command (``text``), its data, its pictures as SVG, and where there is something to
change, the edits that do it.
"""

from __future__ import annotations

import io
import tomllib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from upbeat.core.errors import InvalidInput, MissingExtra, UpbeatError
from upbeat.core.ports import Kind
from upbeat.engine.experiment import Experiment
from upbeat.engine.formats.files import read_experiment
from upbeat.engine.profile import profile
from upbeat.engine.resume import made_from
from upbeat.report.schedule import chart_data, chart_text, charts
from upbeat.studio.child import Channel, failure
from upbeat.studio.project import check_inside
from upbeat.trace.trace import Trace, read

Tell = Callable[[str], None]
Answer = dict[str, Any]
_POINTS = 40
"""On each side of a map."""


def job(channel: Channel) -> None:
    """Do what the only message asks for."""
    asked = channel.read()
    if asked is None:
        return

    def tell(text: str) -> None:
        channel.write({"kind": "far", "message": str(text)})

    try:
        found = _JUDGEMENTS[str(asked["what"])](asked, tell)
    except (UpbeatError, Exception, SystemExit) as error:  # noqa: BLE001  # units of Python may raise anything
        channel.write({"kind": "failed", **failure(error)})
        return
    channel.write(
        {"kind": "done", "result": {"text": "", "svg": [], "data": {}, "file": None, "edits": None, **found}}
    )


def _made(asked: Mapping[str, Any], **settings: Any) -> Experiment:
    check_inside(str(asked["text"]), Path(asked["file"]), Path(asked["root"]))
    made = read_experiment(
        Path(asked["file"]), settings, values={}, allow_python=bool(asked["python"]), writing=False,
        text=str(asked["text"]),
    )  # fmt: skip
    return made.with_(out=None)


def _options(asked: Mapping[str, Any], **usual: Any) -> dict[str, Any]:
    """The options that there are, with what was asked for."""
    given = asked.get("options") or {}
    if not isinstance(given, dict):
        raise InvalidInput("options must be a table")
    return {name: given[name] if given.get(name) is not None else value for name, value in usual.items()}


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidInput(f"{name} must be a number, not {value!r}")
    return float(value)


def svg(figure: Any) -> str:
    """A matplotlib figure as an SVG element."""
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()[text.getvalue().index("<svg") :]


def _drawn(*pictures: Callable[[], Any]) -> list[str]:
    """Pictures, as far as there is what they are drawn with."""
    found = []
    for draw in pictures:
        try:
            found.append(svg(draw()))
        except MissingExtra:
            return []
        except UpbeatError:
            continue
    return found


# ----------------------------------------------------------------------------------------------------


def _stability(asked: Mapping[str, Any], tell: Tell) -> Answer:
    from upbeat.report.stability import changes, describe, plot_stability, sentence
    from upbeat.stability.hybrid.late import late_switches
    from upbeat.stability.verdicts.judge import SECONDS, stability_of

    wanted = _options(asked, step=None, at="start", ideal=False, seconds=SECONDS)
    made = _made(asked, step=wanted["step"])
    if made.structures:
        from upbeat.stability.verdicts.structures import stability_of_structures

        limits = {"at": wanted["at"], "ideal": bool(wanted["ideal"]), "report": tell}
        whole = stability_of_structures(made, seconds=_number("seconds", wanted["seconds"]), **limits)
        switching = f"Switching between structures: {whole.switching}, {whole.why}."
        texts = [f"Structure '{name}': {describe(part, (), None)}" for name, part in whole.parts.items()]
        return {"text": "\n\n".join([*texts, switching]), "sentence": switching, "data": whole.data()}
    found = stability_of(
        made,
        at=wanted["at"],
        ideal=bool(wanted["ideal"]),
        seconds=_number("seconds", wanted["seconds"]),
        report=tell,
    )
    late = late_switches(made)
    return {
        "text": describe(found, (), late),
        "sentence": sentence(found),
        "data": {**found.data(), "changes": changes(found, (), late)},
        "svg": _drawn(lambda: plot_stability(found)),
    }


def _map(asked: Mapping[str, Any], tell: Tell) -> Answer:
    from upbeat.report.stability import plot_map, table
    from upbeat.stability.verdicts.judge import stability_of
    from upbeat.stability.verdicts.pieces import stability_map

    wanted = _options(
        asked, parameter=None, low=None, high=None, points=_POINTS, steps=None, step=None, at="start"
    )
    made = _made(asked, step=wanted["step"])
    name = wanted["parameter"]
    if not isinstance(name, str):
        raise InvalidInput("a map goes over a parameter: say which, as unit.parameter")
    low, high = _number("low", wanted["low"]), _number("high", wanted["high"])
    count = int(_number("points", wanted["points"]))
    if not low < high or not 2 <= count <= 200:
        raise InvalidInput("a map goes from a lower to a higher value, with 2 to 200 points")
    found = stability_of(made, at=wanted["at"], scan=False)
    given = wanted["steps"]
    first, last = (
        (float(x) for x in given) if isinstance(given, list) else (found.step / 10.0, found.step * 10.0)
    )
    tell(f"{count} × {count} points")
    mapped = stability_map(
        made,
        name,
        np.linspace(low, high, count).tolist(),
        np.geomspace(first, last, count).tolist(),
        at=wanted["at"],
    )
    return {"text": table(mapped), "data": mapped.data(), "svg": _drawn(lambda: plot_map(mapped))}


def _trust(asked: Mapping[str, Any], tell: Tell) -> Answer:
    from upbeat.judging.trust import SECONDS, TOLERANCE, trust
    from upbeat.report.trust import describe

    wanted = _options(asked, tolerance=TOLERANCE, seconds=SECONDS)
    found = trust(_made(asked), tolerance=wanted["tolerance"], seconds=wanted["seconds"], progress=tell)
    return {"text": describe(found), "data": found.as_json()}


def _step(asked: Mapping[str, Any], tell: Tell) -> Answer:
    from upbeat.judging.steps import SECONDS, TOLERANCE, recommend_step
    from upbeat.report.steps import describe_steps_found, plot_steps

    wanted = _options(asked, tolerance=TOLERANCE, seconds=SECONDS)
    found = recommend_step(
        _made(asked), tolerance=wanted["tolerance"], seconds=wanted["seconds"], progress=tell
    )
    edits = None
    if found.best is not None and found.best.master is not None:
        written = tomllib.loads(str(asked["text"])).get("master", {})
        edits = [
            {"op": "set", "at": ["master", key], "value": value}
            for key, value in found.table(written).items()
        ]
    return {
        "text": describe_steps_found(found),
        "sentence": found.reason,
        "data": found.data(),
        "svg": _drawn(lambda: plot_steps(found)),
        "edits": edits or None,
    }


def bars(made: Experiment, cores: int) -> dict[str, Any]:
    """The schedule of a step on several cores, as what a Gantt chart needs; times in microseconds."""
    measured = profile(made)
    found = charts(made, cores, measured)
    if not found:
        raise InvalidInput("there is nothing to schedule: the run has no steps")
    chart = found[0]
    data = chart_data(chart)
    return {
        "cores": cores,
        "block": chart.block,
        "bars": [
            {
                "core": one["core"],
                "name": one["name"],
                "kind": one["kind"],
                "unit": one["units"][0] if one["units"] else None,
                "units": one["units"],
                "begin": one["start_us"],
                "end": one["end_us"],
            }
            for one in data["operations"]
        ],
        "about": {key: value for key, value in data.items() if key != "operations"},
        "text": "\n\n".join(chart_text(each) for each in found),
    }


def _schedule(asked: Mapping[str, Any], tell: Tell) -> Answer:
    import os

    wanted = _options(asked, cores=os.cpu_count() or 1)
    made = _made(asked)
    tell("measuring how long operations take")
    data = bars(made, int(_number("cores", wanted["cores"])))
    return {"text": data.pop("text"), "data": data}


def _explain(asked: Mapping[str, Any], tell: Tell) -> Answer:
    from upbeat.report.explain import explain, explain_data

    made = _made(asked)
    return {"text": explain(made), "data": explain_data(made)}


def _discover(asked: Mapping[str, Any], tell: Tell) -> Answer:
    from upbeat.judging.discovering import CONFIDENCE, SECONDS, discover
    from upbeat.report.discovery import describe_discovery, plot_discovery

    wanted = _options(asked, seconds=SECONDS, confidence=CONFIDENCE, vary={})
    found = discover(
        _made(asked),
        vary=wanted["vary"],
        seconds=wanted["seconds"],
        confidence=wanted["confidence"],
        progress=tell,
    )
    edits = None
    if found.sure:
        edits = [
            {"op": "set", "at": [section, name], "value": entry}
            for section, table in found.tables.items()
            for name, entry in table.items()
        ]
        master = found.improved().master
        if found.experiment is not None and found.experiment.master.events != master.events:
            edits.append({"op": "set", "at": ["master", "events"], "value": master.events})
    return {
        "text": describe_discovery(found),
        "data": found.data(),
        "svg": _drawn(lambda: plot_discovery(found)),
        "edits": edits,
    }


def _study(asked: Mapping[str, Any], tell: Tell) -> Answer:
    from upbeat.explore.study import Progress, of_file
    from upbeat.explore.words import described, summary

    file = Path(asked["file"])
    if not file.exists() or file.read_text(encoding="utf-8-sig") != asked["text"]:
        raise InvalidInput("a study is that of the file: save it first")
    study = of_file(_made(asked), file)

    def far(one: Progress) -> None:
        tell(f"{one.done:,} of {one.total:,} runs")

    if not study.answers:
        results = study.run(force=True, report=far)
        return {"text": described(results), "data": summary(results), "svg": _pictures(results)}
    answers = [_answer(study, file, name, settings, tell) for name, settings in study.answers.items()]
    return {
        "text": "\n\n".join(one["text"] for one in answers),
        "data": {name: one["data"] for name, one in zip(study.answers, answers, strict=True)},
        "svg": [picture for one in answers for picture in one["svg"]],
    }


def _answer(study: Any, file: Path, name: str, settings: Mapping[str, Any], tell: Tell) -> Answer:
    """What else a study asks."""
    from upbeat.explore import plots
    from upbeat.explore.words import of_calibration, of_optimum, of_sensitivity

    drawn: list[Callable[[], Any]] = []
    if name == "sensitivity":
        found = study.sensitivity(**settings, report=lambda one: tell(f"{one.done:,} of {one.total:,} runs"))
        data, text = of_sensitivity(found)
        drawn = [partial(plots.plot_tornado, found, output) for output in found.indices]
    elif name == "optimise":
        best = study.optimise(**settings, report=lambda done, of: tell(f"{done:,} of {of:,} designs"))
        data, text = of_optimum(best)
        if len(best.goals) > 1:
            drawn = [partial(plots.plot_front, best, *best.goals[:2])]
    else:
        given = dict(settings)
        measured = given.pop("measured", None)
        if measured is None:
            raise InvalidInput('[study.calibrate] needs measured = "FILE.csv", with a column time')
        files = measured if isinstance(measured, list) else [measured]
        fitted = study.calibrate([file.parent / str(one) for one in files], **given)
        data, text = of_calibration(fitted)
        drawn = [partial(plots.plot_residuals, fitted)]
    return {"text": text, "data": data, "svg": _drawn(*drawn)}


def _pictures(results: Any) -> list[str]:
    """Bands of signals, and outputs over each other."""
    from upbeat.explore import plots

    drawn: list[Callable[[], Any]] = []
    if results.layout.signals:
        drawn.append(lambda: plots.plot_bands(results, results.layout.signals))
    if len(results.outputs) > 1:
        drawn.append(lambda: plots.plot_front(results, *results.outputs[:2]))
    if results.outputs:
        drawn.append(lambda: plots.plot_parallel(results, results.outputs[0]))
    return _drawn(*drawn)


def _report(asked: Mapping[str, Any], tell: Tell) -> Answer:
    from upbeat.report.document import write_report

    out = Path(asked["out"])
    made, trace = _ran(asked, tell)
    tell("writing the report")
    write_report(trace, out, experiment=made, force=True, name=asked.get("name") or out.stem)
    return {"text": f"report: {asked['shown']}", "file": asked["shown"]}


def _picture(asked: Mapping[str, Any], tell: Tell) -> Answer:
    from upbeat.report.plot import plot

    wanted = _options(asked, signals=None, between=None)
    _, trace = _ran(asked, tell)
    if isinstance(wanted["signals"], list):  # of those on the page, texts are not drawn
        texts = {column.name for column in trace.columns if column.kind is Kind.STRING}
        wanted["signals"] = [name for name in wanted["signals"] if name not in texts]
    traces = {asked["name"]: trace} | {name: read(Path(path)) for name, path in asked["others"].items()}
    figure = plot(traces if len(traces) > 1 else trace, wanted["signals"], between=wanted["between"])
    return {"text": "", "svg": [svg(figure)]}


def _ran(asked: Mapping[str, Any], tell: Tell) -> tuple[Experiment | None, Trace]:
    """The result that is asked about, or that of a run that is made now."""
    if asked.get("result"):
        trace = read(Path(asked["result"]))
        made = None
        if asked.get("text"):
            try:
                made = _made(asked)
            except UpbeatError:
                made = None
        known = trace.info.get("provenance")
        if made is None and isinstance(known, Mapping) and known.get("experiment"):
            made = made_from(known["experiment"])
        return made, trace
    made = _made(asked)
    tell("running")
    span = made.span
    trace = made.run(lambda t: tell(f"running: t = {t:.6g} of {span.stop:g}"))
    return made, trace


_JUDGEMENTS: dict[str, Callable[[Mapping[str, Any], Tell], Answer]] = {
    "stability": _stability,
    "map": _map,
    "trust": _trust,
    "step": _step,
    "schedule": _schedule,
    "study": _study,
    "report": _report,
    "picture": _picture,
    "explain": _explain,
    "discover": _discover,
}
