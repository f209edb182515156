"""`upbeat explain`: what a scenario file will do, before it does it."""

from __future__ import annotations

import argparse
import json

from upbeat.cli import scenario_options
from upbeat.cli.console import say
from upbeat.cli.exits import Exit
from upbeat.report.explain import explain, explain_data


def add_to(parser: argparse.ArgumentParser) -> None:
    scenario_options.add_to(parser)
    parser.add_argument(
        "--cores", type=int, metavar="N", help="what N cores would do (default: as the file says)"
    )
    parser.add_argument("--quiet", action="store_true", help="without the program")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output instead")
    parser.set_defaults(call=call)


def call(options: argparse.Namespace) -> Exit:
    made = scenario_options.experiment(options, {"cores": options.cores})
    if options.json:
        say(json.dumps(explain_data(made)))
    else:
        say(explain(made, program=not options.quiet))
    return Exit.OK
