"""What all runs from the command line share: progress, summary, pictures and how they end."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from upbeat.cli.console import complain, say
from upbeat.cli.exits import Exit, exit_for, progress_data, report_error
from upbeat.core.display import Progress
from upbeat.core.errors import Interrupted, RunError
from upbeat.core.ports import Kind
from upbeat.engine.experiment import Experiment, Report
from upbeat.master.paces.pace import equal_steps
from upbeat.trace.trace import Trace


def add_to(parser: argparse.ArgumentParser) -> None:
    """The options that say what to show."""
    parser.add_argument(
        "--plot", type=Path, metavar="PICTURE", help="draw the signals here (.png, .svg, .pdf)"
    )
    parser.add_argument(
        "--force", action="store_true", help="replace files, even those that Upbeat has not written"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress and no summary")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output instead")


def finish(made: Experiment, options: argparse.Namespace, run: Callable[[Report | None], Trace]) -> Exit:
    """Let `run` come to its end and tell how it went."""
    if options.plot is not None:
        from upbeat.report.plot import checked_target, plot

        checked_target(options.plot, force=options.force)
    quiet = options.quiet or options.json
    try:
        if quiet:
            trace = run(None)
        else:
            with Progress(made.span.start, made.span.stop, stream=sys.stderr) as progress:
                trace = run(progress.update)
    except (RunError, Interrupted) as error:
        report_error(error, as_json=options.json, out=made.out)
        _offer(made, options.json)
        return exit_for(error)
    if options.plot is not None:
        plans = [part.plan for part in made.structures.values()] or [made.plan]
        varied = any(equal_steps(plan.master.pace) is None for plan in plans)
        plot(
            trace,
            out=options.plot,
            force=options.force,
            steps=varied or None,
            title=made.scenario.name or None,
        )
    if not quiet:
        from upbeat.report.summary import summary

        say(summary(trace))
    tolerance = getattr(options, "trust", None)
    judged = None
    if tolerance is not None:
        from upbeat.cli.trust import judged as judge  # what judges is loaded only where it is asked for

        judged = judge(trace, quiet, tolerance=tolerance)
    if options.json:
        data = as_data(made, trace) | {"plot": options.plot and str(options.plot)}
        say(json.dumps(data if judged is None else data | {"trust": judged.as_json()}))
    elif not options.quiet:
        if judged is not None:
            from upbeat.report.trust import describe

            say(f"\n{describe(judged)}")
        if made.scenario.origin is not None:
            say(f"\nMonolithic: one unit in place of {', '.join(made.scenario.origin.units)}.")
    for what, path in (("results", made.out), ("picture", options.plot)):
        if path is not None and not quiet:
            say(f"{what}: {path}")
    _offer(made, options.json)
    if judged is not None and judged.interrupted:
        return Exit.INTERRUPTED
    return Exit.OK if trace.outcome.ok else Exit.FAILED


def _offer(made: Experiment, quiet: bool) -> None:
    """Say how an unfinished run can go on."""
    if made.checkpoint is not None and made.checkpoint.path.exists() and not quiet:
        complain(f"upbeat: to go on with this run: upbeat resume {made.checkpoint.path}")


def as_data(made: Experiment, trace: Trace) -> dict[str, Any]:
    """A run as one JSON object."""
    from upbeat.report.summary import between_units

    return {
        "ok": trace.outcome.ok,
        **progress_data(trace),
        "engine": trace.info["engine"],
        "why": trace.info["why"],
        "monolithic": made.scenario.origin is not None,
        "wall_seconds": trace.info["wall_seconds"],
        "lateness": trace.info.get("lateness"),
        "between_units": between_units(trace),
        "properties": [found.as_json() for found in trace.properties.values()],
        "out": None if made.out is None else str(made.out),
        "final": {name: _final(trace, name) for name in trace.names},
    }


def _final(trace: Trace, name: str) -> Any:
    """The last value of a signal; from the running statistics, not by reading a long file back."""
    found = trace.summary(name)
    if found is None:
        return str(trace[name][-1])
    return {Kind.INTEGER: int, Kind.BOOLEAN: bool}.get(trace.column(name).kind, float)(found.final)
