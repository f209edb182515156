"""`upbeat import`: a scenario file from an SSP, with its FMUs next to it."""

from __future__ import annotations

import argparse
from pathlib import Path

from upbeat.cli.console import complain, say
from upbeat.cli.exits import Exit


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="SYSTEM.ssp", help="the SSP (or an .ssd)")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="where to put it: a new or empty folder")
    parser.add_argument(
        "--variant", metavar="NAME.ssd", help="another SSD of the SSP than SystemStructure.ssd"
    )
    parser.add_argument("--quiet", action="store_true", help="say nothing when all is well")
    parser.set_defaults(call=call)


def call(options: argparse.Namespace) -> Exit:
    from upbeat.engine.formats.ssp import import_ssp

    imported = import_ssp(options.file, options.folder, variant=options.variant)
    for remark in imported.remarks:
        complain(f"upbeat: {remark}")
    if options.quiet:
        return Exit.OK
    say(f"{options.folder / 'scenario.toml'}: units: {len(imported.names)}.")
    for name, path in imported.names.items():
        if name != path:
            say(f"  {path} is the unit {name}")
    return Exit.OK
