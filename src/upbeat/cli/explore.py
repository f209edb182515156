"""`upbeat explore`: run the study of a scenario file, and say what it tells."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from upbeat.cli import scenario_options
from upbeat.cli.console import Waiting, complain, say
from upbeat.cli.exits import Exit
from upbeat.core.errors import InvalidInput, cannot_write
from upbeat.explore.store import Results, table_file
from upbeat.explore.study import Progress, Study, of_file
from upbeat.explore.words import (
    described,
    of_calibration,
    of_optimum,
    of_robustness,
    of_sensitivity,
    of_uncertainty,
    summary,
)


def add_to(parser: argparse.ArgumentParser) -> None:
    scenario_options.add_to(parser, file="the scenario file (.toml), with a [study]")
    parser.add_argument(
        "--out", type=Path, metavar="DIR.zarr", help="keep the results here, and go on with what is there"
    )
    parser.add_argument("--force", action="store_true", help="replace what is there")
    parser.add_argument("--save", action="append", type=Path, default=[], metavar="FILE",
                        help="also write a row for each run (.csv, .parquet); may be repeated")  # fmt: skip
    parser.add_argument(
        "--plots", type=Path, metavar="DIR", help="draw pictures of the results into this folder"
    )
    parser.add_argument("--samples", type=int, metavar="N", help="another number of samples")
    parser.add_argument("--seed", type=int, metavar="N", help="another seed")
    where = parser.add_argument_group("where it runs")
    where.add_argument(
        "--workers", type=int, metavar="N", help="how many runs at a time (default: one for each core)"
    )
    where.add_argument(
        "--executor", choices=("threads", "processes", "here"), help="(default: what fits the units)"
    )
    where.add_argument("--cluster", metavar="ADDRESS", help="a scheduler of Dask, such as tcp://head:8786")
    where.add_argument(
        "--device",
        choices=("gpu", "compiled"),
        help="a thread of a GPU for each run, or generated C on all cores; the rest stays in the core",
    )
    where.add_argument("--single", action="store_true", help="single precision on a GPU")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output instead")
    parser.set_defaults(call=call)


def call(options: argparse.Namespace) -> Exit:
    made = scenario_options.experiment(options)
    study = of_file(made, options.file)
    changed: dict[str, Any] = {
        name: value
        for name, value in (("out", options.out), ("samples", options.samples), ("seed", options.seed))
        if value is not None
    }
    study = replace(study, **changed)
    for path in options.save:  # what cannot be written is told before hours of runs, not after
        table_file(path)
    if options.plots is not None:
        _place(options.plots, "")
    if options.cluster is not None and options.executor is not None:
        raise InvalidInput(
            "a study runs on a cluster or by an executor: leave out one of --cluster and --executor"
        )
    quiet = options.quiet or options.json
    for note in study.notes:
        complain(f"upbeat: {note}")
    told: dict[str, Any] = {}
    texts: list[str] = []
    with Waiting(sys.stderr, quiet=quiet) as waiting:
        running = {
            "executor": options.cluster or options.executor,
            "workers": options.workers,
            "device": options.device,
            "single": options.single,
        }
        kept = _kept(study, options)
        if not study.answers or "uncertainty" in study.answers:
            results = _run(study, options, waiting, running)
            _save(options, results)
            told |= summary(results)
            texts.append(described(results))
            _draw(options.plots, results)
        for name, settings in study.answers.items():
            if name == "uncertainty":
                data, text = of_uncertainty(results.uncertainty(**settings))
            else:
                data, text = _answer(study, name, settings, options, waiting, running, kept == name)
            told[name] = data
            texts.append(text)
    say(json.dumps({"ok": True, **told}) if options.json else "\n\n".join(texts))
    return Exit.OK


def _run(study: Study, options: argparse.Namespace, waiting: Waiting, running: Any) -> Results:
    """All runs; after Ctrl-C with the number that is kept."""
    done = 0

    def report(one: Progress) -> None:
        nonlocal done
        done = one.done
        waiting(_line(one))

    try:
        return study.run(force=options.force, report=report, **running)
    except KeyboardInterrupt:
        if study.out is not None:
            so_far = f"{done:,} of {len(study):,} runs are in {study.out}"
            complain(f"upbeat: {so_far}: the same command goes on from there")
        raise


def _kept(study: Study, options: argparse.Namespace) -> str:
    """Whose runs --out and --save keep; "": those of the study itself."""
    asked = [name for name in study.answers if name in ("uncertainty", "sensitivity", "optimise")]
    whose = ["" if name == "uncertainty" else name for name in asked] if study.answers else [""]
    if options.save and len(whose) != 1:
        said = f"asks for {' and '.join(asked)}" if whose else "has no runs that are kept"
        raise InvalidInput(f"--save writes the runs of one answer, and the file {said}: leave it out")
    if study.out is None:
        return whose[0] if len(whose) == 1 else ""
    stored = [name for name in whose if name != "optimise"]
    if len(stored) != 1:
        raise InvalidInput(
            "out is a store for the runs of a study, or of its sensitivity; this file asks for "
            f"{' and '.join(study.answers)}: leave it out (--save FILE.csv writes the designs of optimise)"
        )
    return stored[0]


def _save(options: argparse.Namespace, results: Results) -> None:
    for path in options.save:
        results.save(path)


def _answer(
    study: Study,
    name: str,
    settings: Mapping[str, Any],
    options: argparse.Namespace,
    waiting: Waiting,
    running: Any,
    kept: bool,
) -> tuple[Any, str]:
    """What else a file asks, in words and as data, with its picture."""
    pictures: Path | None = options.plots
    if name == "robustness":
        return of_robustness(study.robustness(**settings, report=lambda one: waiting(_line(one)), **running))
    if name == "sensitivity":
        found = study.sensitivity(
            **settings,
            out=study.out if kept else None,
            force=options.force,
            report=lambda one: waiting(_line(one)),
            **running,
        )
        if kept:
            _save(options, found.results)
        if pictures is not None:
            for output in found.indices:
                plots().plot_tornado(found, output, _place(pictures, f"tornado_{output}"))
        return of_sensitivity(found)
    if name == "optimise":
        best = study.optimise(
            **settings, report=lambda done, of: waiting(f"{done:,} of {of:,} designs"), **running
        )
        if kept:
            _save(options, best.results)
        if pictures is not None:
            if len(best.goals) > 1:
                plots().plot_front(best, *best.goals[:2], _place(pictures, "front"))
            plots().plot_parallel(best.results, best.goals[0], _place(pictures, "designs"))
        return of_optimum(best)
    data = dict(settings)
    measured = data.pop("measured", None)
    if measured is None:
        raise InvalidInput('[study.calibrate] needs measured = "FILE.csv", with a column time')
    files = measured if isinstance(measured, list) else [measured]
    if options.device is not None:
        raise InvalidInput("a calibration has too few runs at a time for a device: leave out --device")
    where = {name: running[name] for name in ("executor", "workers")}
    fitted = study.calibrate([options.file.parent / str(one) for one in files], **data, **where)
    if pictures is not None:
        plots().plot_residuals(fitted, _place(pictures, "residuals"))
    return of_calibration(fitted)


def plots() -> Any:
    """Drawing, which loads matplotlib."""
    from upbeat.explore import plots

    return plots


def _draw(folder: Path | None, results: Results) -> None:
    """The pictures of a study: bands of its signals, and its outputs over each other."""
    if folder is None:
        return
    if results.layout.signals:
        plots().plot_bands(results, results.layout.signals, _place(folder, "bands"))
    if len(results.outputs) > 1:
        plots().plot_front(results, *results.outputs[:2], _place(folder, "front"))
    if results.outputs:
        plots().plot_parallel(results, results.outputs[0], _place(folder, "parallel"))


def _place(folder: Path, name: str) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from None
    return folder / f"{name}.png"


def _line(progress: Progress) -> str:
    failed = f", {progress.failed} failed" if progress.failed else ""
    left = _duration(progress.remaining)
    return f"{progress.done:,} of {progress.total:,} runs{failed}, {left} left"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
