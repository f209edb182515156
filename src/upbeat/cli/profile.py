"""`upbeat profile`: measure how long the operations of a scenario take, and keep it next to the file."""

from __future__ import annotations

import argparse
import json

from upbeat.cli import scenario_options
from upbeat.cli.console import say
from upbeat.cli.exits import Exit
from upbeat.engine.parallel.cores import written
from upbeat.engine.profile import SECONDS, profile

MAX_SHOWN = 12
"""So many operations are shown; the file has all of them."""


def add_to(parser: argparse.ArgumentParser) -> None:
    scenario_options.add_to(parser)
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, metavar="S", help=f"measure for so long ({SECONDS:g})"
    )
    parser.add_argument("--force", action="store_true", help="replace a file that is no profile, too")
    parser.add_argument("--quiet", action="store_true", help="say nothing")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output instead")
    parser.set_defaults(call=call)


def call(options: argparse.Namespace) -> Exit:
    made = scenario_options.experiment(options)
    found = profile(made, options.seconds)
    to = written(found, options.file, force=options.force)
    if options.json:
        say(json.dumps({"ok": True, "out": str(to), **found.to_data()}, ensure_ascii=False))
    elif not options.quiet:
        say(f"measured {found.steps} steps on the {found.engine} engine; kept in {to}")
        for block, times in found.blocks.items():
            whole = sum(times.values())
            say(f"block '{block}': {1e6 * whole:.4g} µs")
            for name in sorted(times, key=lambda name: -times[name])[:MAX_SHOWN]:
                say(f"  {1e6 * times[name]:10.4g} µs  {100 * times[name] / whole:5.1f} %  {name}")
            if len(times) > MAX_SHOWN:
                say(f"  … {len(times) - MAX_SHOWN} more")
        if found.instants:
            say(f"instants: {1e6 * found.instants:.4g} µs per step")
        if found.crossing is not None:
            say(f"a wait of one core for another: {1e6 * found.crossing:.4g} µs")
    return Exit.OK
