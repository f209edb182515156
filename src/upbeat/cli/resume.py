"""`upbeat resume`: go on with a run that was killed, interrupted or failed, from its checkpoint."""

from __future__ import annotations

import argparse
from pathlib import Path

from upbeat.cli import finishing
from upbeat.cli.exits import Exit
from upbeat.core.errors import InvalidInput
from upbeat.engine.checkpoint import Stored, read_checkpoint
from upbeat.engine.experiment import Experiment
from upbeat.engine.resume import experiment_of, resume
from upbeat.engine.settings import checked_cores


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="CHECKPOINT", help="the checkpoint of the run")
    parser.add_argument(
        "--allow-python",
        action="store_true",
        help="let the scenario file of the run name Python code, if it was allowed to before",
    )
    parser.add_argument(
        "--cores", type=int, metavar="N", help="on so many from now on: results do not depend on it"
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="the results so far, if not in the folder of the checkpoint"
    )
    finishing.add_to(parser)
    parser.set_defaults(call=call)


def call(options: argparse.Namespace) -> Exit:
    stored = read_checkpoint(options.file)
    given = _again(options, stored)
    made = experiment_of(options.file, stored, given, options.out)
    if options.cores is not None:
        given = made = made.with_(cores=checked_cores(options.cores))
    return finishing.finish(
        made, options, lambda report: resume(options.file, experiment=given, out=options.out, report=report)
    )


def _again(options: argparse.Namespace, stored: Stored) -> Experiment | None:
    """The experiment that the command line of the run describes, where the checkpoint does not hold it."""
    from upbeat.cli import run
    from upbeat.cli.main import parser  # which knows all commands, this one included

    words = stored.document.get("command")
    if stored.document.get("experiment") is not None or not words:
        return None
    folder, *rest = words
    before = parser().parse_args(rest)
    if before.allow_python and not options.allow_python:
        raise InvalidInput(
            f"the run of '{options.file}' was allowed to run Python code that {before.file} names: "
            f"write upbeat resume {options.file} --allow-python"
        )
    before.file = Path(folder) / before.file
    before.names = [str(Path(folder) / name) for name in before.names]
    if before.input is not None:
        before.input = Path(folder) / before.input
    return run.experiment(before)
