"""`upbeat trust`: run a scenario with other steps, solvers and inputs, and say how good each signal is."""

from __future__ import annotations

import argparse
import json
import sys

from upbeat.cli import scenario_options
from upbeat.cli.console import Waiting, say
from upbeat.cli.exits import Exit
from upbeat.core.errors import InvalidInput
from upbeat.engine.experiment import Experiment
from upbeat.judging.trust import SECONDS, TOLERANCE, Trust, trust
from upbeat.report.trust import describe
from upbeat.trace.trace import Trace


def add_to(parser: argparse.ArgumentParser) -> None:
    scenario_options.add_to(parser, tolerance="--fmu-tolerance")
    parser.add_argument(
        "--tolerance",
        dest="asked",
        type=float,
        default=TOLERANCE,
        metavar="PART",
        help=f"the error that is asked for, as a part of the range of each signal ({TOLERANCE:g})",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=SECONDS,
        metavar="S",
        help=f"how long all runs together may take; what they do not come to is said ({SECONDS:g})",
    )
    parser.add_argument(
        "--record",
        action="append",
        metavar="PATTERN",
        help="judge what matches, e.g. 'left.*'; may be repeated (default: all outputs that are recorded)",
    )
    parser.add_argument(
        "--bond",
        action="append",
        default=[],
        metavar="A.F,B.v",
        help="two outputs that are a power bond, besides those that units of measure show; may be repeated",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output instead")
    parser.set_defaults(call=call)


def call(options: argparse.Namespace) -> Exit:
    made = scenario_options.experiment(options, {"record": options.record})
    quiet = options.quiet or options.json
    found = judged(made, quiet, tolerance=options.asked, seconds=options.seconds, bonds=_bonds(options.bond))
    say(json.dumps({"ok": True, **found.as_json()}) if options.json else describe(found))
    return Exit.INTERRUPTED if found.interrupted else Exit.OK


def judged(given: Experiment | Trace, quiet: bool, **settings: object) -> Trust:
    """What is said about an experiment or its trace, with a line that shows how far it is."""
    with Waiting(sys.stderr, quiet=quiet) as waiting:
        return trust(given, progress=waiting, **settings)  # type: ignore[arg-type]


def _bonds(given: list[str]) -> list[tuple[str, str]]:
    found = []
    for text in given:
        one, comma, other = (part.strip() for part in text.partition(","))
        if not comma or not one or not other:
            raise InvalidInput(f"--bond {text}: write two outputs, for example --bond mass.v,spring.F")
        found.append((one, other))
    return found
