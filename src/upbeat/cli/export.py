"""`upbeat export`: an SSP from a scenario of FMUs."""

from __future__ import annotations

import argparse
import zipfile
from pathlib import Path

from upbeat.cli import scenario_options
from upbeat.cli.console import say
from upbeat.cli.exits import Exit
from upbeat.trace.files.output import kept_from


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

    kept_from(options.target, _ours, "an SSP that Upbeat has exported", force=options.force)
    made = scenario_options.experiment(options)
    beside = options.file.with_suffix(".ssd")
    like = options.like or (beside if beside.is_file() else None)
    write_ssp(made, options.target, like=like)
    if not options.quiet:
        say(f"{options.target}: units: {len(made.scenario.units)}.")
    return Exit.OK


def _ours(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive, archive.open("SystemStructure.ssd") as file:
            return b'generationTool="Upbeat"' in file.read(1 << 16)
    except (zipfile.BadZipFile, KeyError, NotImplementedError, RuntimeError):
        return False
