"""`upbeat report`: the report of a run as one HTML page or Markdown, from its result file or scenario."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from upbeat.cli import scenario_options
from upbeat.cli.console import Waiting, complain, say
from upbeat.cli.exits import Exit
from upbeat.core.display import Progress
from upbeat.core.errors import InvalidInput, RunError, cannot_read
from upbeat.engine.experiment import Experiment
from upbeat.judging.steps import recommend_step
from upbeat.judging.trust import SECONDS, TOLERANCE
from upbeat.report.document import checked_report, experiment_of, write_report
from upbeat.trace.trace import Trace, read

_SCENARIOS = (".toml", ".fmu", ".ssp", ".ssd")


def add_to(parser: argparse.ArgumentParser) -> None:
    scenario_options.add_to(
        parser, "a result (.csv, .parquet, .journal), or a scenario (.toml), an FMU or an SSP to run first"
    )
    parser.add_argument("--html", type=Path, metavar="OUT", help="write one HTML file, pictures included")
    parser.add_argument(
        "--md", type=Path, metavar="OUT", help="write Markdown, with pictures in a folder next to it"
    )
    parser.add_argument("--title", help="a title for the report")
    parser.add_argument(
        "--trust",
        action="store_true",
        help="also run what is needed to say how good each signal is, for its verdict and error band",
    )
    parser.add_argument(
        "--work-precision",
        action="store_true",
        help="also try other steps, couplings and inputs (see `upbeat step`): error over work",
    )
    parser.add_argument(
        "--tolerance",
        dest="asked",
        type=float,
        default=TOLERANCE,
        metavar="PART",
        help=f"the error that is asked for by these two, as a part of the range ({TOLERANCE:g})",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=SECONDS,
        metavar="S",
        help=f"how long all runs of each of them may take together ({SECONDS:g})",
    )
    parser.add_argument("--force", action="store_true", help="replace a file that is no report, too")
    parser.add_argument("--quiet", action="store_true", help="do not say where the report is")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output instead")
    parser.set_defaults(call=call)


def call(options: argparse.Namespace) -> Exit:
    outs = [out for out in (options.html, options.md) if out is not None]
    if not outs:
        raise InvalidInput(
            f"where to? Write upbeat report {options.file} --html report.html (or --md report.md)"
        )
    for out, suffix in ((options.html, ".html"), (options.md, ".md")):
        if out is not None and out.suffix.lower() != suffix:
            raise InvalidInput(f"--{suffix[1:]} {out}: the name must end in {suffix}")
        if out is not None:
            checked_report(out, force=options.force)
    if options.file.is_dir():
        raise cannot_read(options.file, "it is a folder, not a result or a scenario")
    trace, made, code = _ran(options)
    trust = advice = None
    quiet, limits = options.quiet or options.json, {"tolerance": options.asked, "seconds": options.seconds}
    if options.trust or options.work_precision:
        made = made or experiment_of(trace)
    if options.trust and made is not None:
        from upbeat.cli.trust import judged  # what judges is loaded only where it is asked for

        trust = judged(made, quiet, **limits)
    if options.work_precision and made is not None:
        with Waiting(sys.stderr, quiet=quiet) as waiting:
            advice = recommend_step(made, progress=waiting, **limits)
    name = options.file.name
    for out in outs:
        write_report(
            trace,
            out,
            experiment=made,
            trust=trust,
            advice=advice,
            title=options.title,
            force=options.force,
            name=name,
        )
    if options.json:
        say(json.dumps({"ok": code is Exit.OK, "out": [str(out) for out in outs]}))
    elif not options.quiet:
        for out in outs:
            say(f"report: {out}")
    ended = (found.interrupted for found in (trust, advice) if found is not None)
    return Exit.INTERRUPTED if any(ended) and code is Exit.OK else code


def _ran(options: argparse.Namespace) -> tuple[Trace, Experiment | None, Exit]:
    """The trace of a result file, or of a scenario, which is run; a run that fails is reported, too."""
    if options.file.suffix.lower() not in _SCENARIOS:
        for name in ("set", "until", "step", "input", "engine"):
            if getattr(options, name):
                raise InvalidInput(f"--{name} is for scenarios: '{options.file}' has been run already")
        return read(options.file), None, Exit.OK
    made = scenario_options.experiment(options).with_(out=None)
    made = made.with_(command=("upbeat", *getattr(options, "words", ())))
    quiet = options.quiet or options.json
    try:
        with Progress(made.span.start, made.span.stop, stream=sys.stderr, quiet=quiet) as progress:
            return made.run(progress.update), made, Exit.OK
    except RunError as error:
        if error.trace is None:
            raise
        complain(f"upbeat: {error}")
        return error.trace, made, Exit.FAILED
