"""`upbeat export`: an SSP from a scenario of FMUs."""

from __future__ import annotations

import argparse
from pathlib import Path

from upbeat.cli import scenario_options
from upbeat.cli.console import say
from upbeat.cli.exits import Exit


def add_to(parser: argparse.ArgumentParser) -> None:
    scenario_options.add_to(parser, file="the scenario file (.toml)")
    parser.add_argument("target", type=Path, metavar="SYSTEM.ssp", help="where to write the SSP")
    parser.add_argument(
        "--like",
        type=Path,
        metavar="FILE.ssd",
        help="take annotations and drawings from here (default: the .ssd beside the scenario file)",
    )
    parser.add_argument(
        "--force", action="store_true", help="replace an SSP that Upbeat has not exported, too"
    )
    parser.add_argument("--quiet", action="store_true", help="say nothing when all is well")
    parser.set_defaults(call=call)


def call(options: argparse.Namespace) -> Exit:
    from upbeat.engine.formats.ssp import write_ssp

    made = scenario_options.experiment(options)
    beside = options.file.with_suffix(".ssd")
    like = options.like or (beside if beside.is_file() else None)
    write_ssp(made, options.target, like=like, force=options.force)
    if not options.quiet:
        say(f"{options.target}: units: {len(made.scenario.units)}.")
    return Exit.OK
