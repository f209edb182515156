"""`upbeat schedule`: how the steps of a scenario would run on several cores, and how much faster."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from upbeat.cli import scenario_options
from upbeat.cli.console import say
from upbeat.cli.exits import Exit
from upbeat.engine.experiment import Experiment
from upbeat.engine.parallel.cores import Profile, place, recalled
from upbeat.engine.parallel.operations import operations
from upbeat.engine.profile import profile
from upbeat.report.schedule import chart_data, chart_text, charts
from upbeat.scenario.merging.inline import path_of


def add_to(parser: argparse.ArgumentParser) -> None:
    scenario_options.add_to(parser)
    parser.add_argument(
        "--cores",
        type=int,
        default=os.cpu_count() or 1,
        metavar="N",
        help="on so many (default: all there are)",
    )
    parser.add_argument(
        "--plot",
        type=Path,
        nargs="?",
        const=Path(),
        metavar="PICTURE",
        help="draw the time chart (.png, .svg, .pdf; default: next to FILE)",
    )
    parser.add_argument(
        "--force", action="store_true", help="replace a picture that Upbeat has not drawn, too"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output instead")
    parser.set_defaults(call=call)


def call(options: argparse.Namespace) -> Exit:
    made = scenario_options.experiment(options)
    measured, source = _measured(made, options.file)
    found = charts(made, options.cores, measured)
    picture: Path | None = options.plot
    if picture is not None:
        from upbeat.report.chart import draw  # which needs the part that draws

        picture = options.file.with_suffix(".schedule.png") if picture == Path() else picture
        draw(found, picture, made.scenario.name or options.file.stem, force=options.force)
    if options.json:
        blocks = {chart.block: chart_data(chart) for chart in found}
        drawn = {} if picture is None else {"plot": str(picture)}
        about = {"source": source, "steps": measured.steps, "engine": measured.engine}
        say(json.dumps({"ok": True, "cores": options.cores, "profile": about, "blocks": blocks, **drawn}))
        return Exit.OK
    say(f"{options.file}: {source} ({measured.steps} steps, {measured.engine} engine)")
    for chart in found:
        say("\n" + chart_text(chart))
    if picture is not None:
        say(f"\npicture: {picture}")
    return Exit.OK


def _measured(made: Experiment, file: Path) -> tuple[Profile, str]:
    """The profile next to the file if it is one of this program; otherwise it is measured now."""
    kept = recalled(file)
    plan = made.plan
    program = plan.program
    if kept is None:
        return profile(made), "measured just now; keep the times with upbeat profile"
    for name in program.steps:
        found = operations(program, name, plan.scenario.units, lambda unit: path_of(plan.scenario, unit))
        if name in kept.blocks and not kept.covers(name, found):
            return profile(made), f"measured just now, because {place(file)} is of another program"
    return kept, kept.source
