"""`upbeat run`: run a scenario file, show progress, write results."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from upbeat.cli import scenario_options
from upbeat.cli.console import say
from upbeat.cli.exits import Exit, exit_for
from upbeat.cli.failure import progress_data, tell
from upbeat.cli.progress import Progress
from upbeat.core.errors import Interrupted, RunError
from upbeat.core.ports import Kind
from upbeat.engine.experiment import Experiment
from upbeat.master.pace import Fixed
from upbeat.report.plot import checked_target, plot
from upbeat.report.summary import summary
from upbeat.trace.trace import Trace


def add_to(commands: Any) -> None:
    parser = commands.add_parser("run", help="run a scenario file", description=__doc__)
    scenario_options.add_to(parser)
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the results here (.csv or .parquet)")
    parser.add_argument(
        "--record",
        action="append",
        metavar="PATTERN",
        help="record what matches, e.g. 'left.*'; may be repeated",
    )
    parser.add_argument("--every", type=int, metavar="N", help="record every N-th communication point")
    parser.add_argument(
        "--plot", type=Path, metavar="PICTURE", help="draw the signals here (.png, .svg, .pdf)"
    )
    parser.add_argument(
        "--jit",
        action="store_true",
        default=None,
        help="compile expressions to machine code (upbeat[jit]; native engine only)",
    )
    parser.add_argument(
        "--real-time",
        type=_factor,
        nargs="?",
        const=1.0,
        metavar="FACTOR",
        help="keep up with the clock, at FACTOR times its speed (1); 'off': whatever the file says, do not",
    )
    parser.add_argument(
        "--late",
        choices=("warn", "skip", "stop"),
        help="what to do in real time when a step comes too late (default: warn)",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress and no summary")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output instead")
    parser.set_defaults(call=call)


def call(options: argparse.Namespace) -> Exit:
    names = ("out", "record", "every", "jit", "real_time", "late")
    settings = {name: getattr(options, name) for name in names}
    made = scenario_options.experiment(options, settings)
    if options.plot is not None:
        checked_target(options.plot)
    quiet = options.quiet or options.json
    try:
        with Progress(made.span.start, made.span.stop, stream=sys.stderr, quiet=quiet) as progress:
            trace = made.run(progress.update)
    except (RunError, Interrupted) as error:
        tell(error, as_json=options.json, out=made.out)
        return exit_for(error)
    if options.plot is not None:
        varied = not isinstance(made.master.pace, Fixed)
        plot(trace, path=options.plot, steps=varied, title=made.scenario.name or None)
    if options.json:
        say(json.dumps(as_data(made, trace) | {"plot": options.plot and str(options.plot)}))
    elif not options.quiet:
        say(summary(trace))
        if made.scenario.origin is not None:
            say(f"\nMonolithic: one unit in place of {', '.join(made.scenario.origin.units)}.")
    for what, path in (("results", made.out), ("picture", options.plot)):
        if path is not None and not quiet:
            say(f"{what}: {path}")
    return Exit.OK if trace.outcome.ok else Exit.FAILED


def _factor(text: str) -> float | bool:
    """A factor of real time, or False for none."""
    try:
        return False if text == "off" else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no factor. Write the file first (upbeat run FILE --real-time), or --real-time 1"
        ) from None


def as_data(made: Experiment, trace: Trace) -> dict[str, Any]:
    """A run as one JSON object."""
    return {
        "ok": trace.outcome.ok,
        **progress_data(trace),
        "engine": trace.info["engine"],
        "why": trace.info["why"],
        "monolithic": made.scenario.origin is not None,
        "wall_seconds": trace.info["wall_seconds"],
        "lateness": trace.info.get("lateness"),
        "out": None if made.out is None else str(made.out),
        "final": {name: _final(trace, name) for name in trace.names},
    }


def _final(trace: Trace, name: str) -> Any:
    """The last value of a signal; from the running statistics, not by reading a long file back."""
    found = trace.summary(name)
    if found is None:
        return str(trace[name][-1])
    return {Kind.INTEGER: int, Kind.BOOLEAN: bool}.get(trace.column(name).kind, float)(found.final)
