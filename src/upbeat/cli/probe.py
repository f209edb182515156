"""`upbeat probe`: what an FMU can do and how it behaves, declared against measured."""

from __future__ import annotations

import argparse
import json
import math

from upbeat.cli.console import say
from upbeat.cli.exits import Exit
from upbeat.core.errors import InvalidInput


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="MODEL.fmu", help="an FMU of FMI 2 or 3")
    parser.add_argument(
        "--interface",
        choices=["co-simulation", "model-exchange"],
        help="how it is run (usually co-simulation, if it offers both)",
    )
    parser.add_argument(
        "--deadline", type=float, default=30.0, metavar="SECONDS", help="for each measurement (30)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output instead")
    parser.set_defaults(call=call)


def call(options: argparse.Namespace) -> Exit:
    if not (math.isfinite(options.deadline) and options.deadline > 0):
        raise InvalidInput(f"--deadline is a positive number of seconds, not {options.deadline:g}")
    from upbeat.report import probe as shown
    from upbeat.units.fmi.probe import probe

    report = probe(options.file, options.interface, options.deadline)
    say(json.dumps(report.to_json()) if options.json else shown.text(report))
    return Exit.OK if report.usable else Exit.FAILED
