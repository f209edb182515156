"""`upbeat plot`: draw the signals of a result file, or of a scenario file after running it."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from upbeat.cli import scenario_options
from upbeat.cli.console import say
from upbeat.cli.exits import Exit
from upbeat.core.errors import InvalidInput, cannot_read
from upbeat.report.plot import checked_target, plot
from upbeat.trace.trace import Trace, read


def add_to(parser: argparse.ArgumentParser) -> None:
    scenario_options.add_to(parser, "a result (.csv, .parquet, .journal), a scenario (.toml) or an FMU")
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="draw these signals and events only; patterns may be quoted: '*.x'",
    )
    parser.add_argument(
        "--out", type=Path, metavar="PICTURE", help="where to (.png, .svg, .pdf); default: next to FILE"
    )
    parser.add_argument("--signals", action="append", metavar="PATTERN", help="the same, an option for each")
    parser.add_argument(
        "--steps",
        action="store_true",
        help="also draw the step sizes (always, where steps were made for events)",
    )
    parser.add_argument("--no-events", action="store_true", help="draw signals only")
    parser.add_argument(
        "--between", nargs=2, type=float, metavar=("FROM", "TO"), help="draw this part of the time only"
    )
    parser.add_argument("--title", help="a title for the picture")
    parser.add_argument(
        "--force", action="store_true", help="replace a picture that Upbeat has not drawn, too"
    )
    parser.add_argument("--quiet", action="store_true", help="do not say where the picture is")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output instead")
    parser.set_defaults(call=call)


def call(options: argparse.Namespace) -> Exit:
    if options.file.is_dir():
        raise cannot_read(options.file, "it is a folder, not a result or a scenario")
    out = options.out or options.file.with_suffix(".png")
    if out == options.file:
        raise InvalidInput(f"the picture would overwrite '{options.file}'; give another name with --out")
    checked_target(out, force=options.force)
    wanted = [*options.names, *(options.signals or ())] or None
    plot(
        _trace(options),
        wanted,
        out=out,
        force=options.force,
        steps=options.steps or None,
        events=not options.no_events,
        title=options.title,
        between=None if options.between is None else tuple(options.between),
    )
    if options.json:
        say(json.dumps({"ok": True, "out": str(out)}))
    elif not options.quiet:
        say(f"picture: {out}")
    return Exit.OK


def _trace(options: argparse.Namespace) -> Trace:
    if options.file.suffix in (".toml", ".fmu", ".ssp"):
        return scenario_options.experiment(options).with_(out=None).run()
    for name in ("set", "until", "step", "input", "engine"):
        if getattr(options, name):
            raise InvalidInput(f"--{name} is for scenarios: '{options.file}' has been run already")
    return read(options.file)
