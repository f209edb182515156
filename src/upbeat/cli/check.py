"""`upbeat check`: all problems of a scenario file at once, with line and suggestion."""

from __future__ import annotations

import argparse
import json
from typing import Any

from upbeat.cli import scenario_options
from upbeat.cli.exits import Exit
from upbeat.engine.selection import select


def add_to(commands: Any) -> None:
    parser = commands.add_parser("check", help="find all problems of a scenario file", description=__doc__)
    scenario_options.add_to(parser)
    parser.add_argument("--quiet", action="store_true", help="say nothing when all is well")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output instead")
    parser.set_defaults(call=call)


def call(options: argparse.Namespace) -> Exit:
    made = scenario_options.experiment(options)
    select(made.program(), made.record)
    choice = made.choice()
    made.scenario.check_measures()
    if options.json:
        print(json.dumps({"ok": True, "problems": []}))
    elif not options.quiet:
        units, connections = len(made.scenario.units), len(made.scenario.connections)
        print(
            f"{options.file}: no problems. Units: {units}, connections: {connections}, engine: {choice.name}."
        )
    return Exit.OK
