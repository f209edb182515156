"""`upbeat run`: run a scenario file, show progress, write results."""

from __future__ import annotations

import argparse
from pathlib import Path

from upbeat.cli import finishing, scenario_options
from upbeat.cli.exits import Exit
from upbeat.core.errors import InvalidInput
from upbeat.engine.checkpoint import Checkpoint
from upbeat.engine.experiment import Experiment

TOLERANCE = 0.01  # that of `upbeat trust`, which is loaded only where it is asked for


def add_to(parser: argparse.ArgumentParser) -> None:
    scenario_options.add_to(parser)
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the results here (.csv or .parquet)")
    parser.add_argument(
        "--record",
        action="append",
        metavar="PATTERN",
        help="record what matches, e.g. 'left.*'; may be repeated",
    )
    parser.add_argument(
        "--every", type=int, metavar="N", help="record every N-th communication point, and jumps"
    )
    parser.add_argument(
        "--no-jumps",
        dest="jumps",
        action="store_false",
        default=None,
        help="where values jump, record only those after it: one row for each time",
    )
    parser.add_argument(
        "--jit",
        action="store_true",
        default=None,
        help="compile expressions to machine code (upbeat[jit]; native engine only)",
    )
    parser.add_argument(
        "--cores",
        type=int,
        metavar="N",
        help="share the steps among N threads (1; native engine only); see `upbeat schedule`",
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
    parser.add_argument(
        "--checkpoint",
        metavar="every=60s",
        help="keep the state for `upbeat resume`: every=60s, 5min, 2h or 1000steps, and file=NAME",
    )
    parser.add_argument(
        "--certify",
        action="store_true",
        help="first judge its stability (see `upbeat stability`): refuse to run what is proven unstable",
    )
    parser.add_argument(
        "--at",
        type=scenario_options.point,
        metavar="T",
        help="with --certify: where to linearise what is not linear: start, rest, or a time of the run",
    )
    parser.add_argument(
        "--trust",
        type=float,
        nargs="?",
        const=TOLERANCE,
        metavar="PART",
        help="then judge the result (see `upbeat trust`), with PART of the range as tolerance (0.01)",
    )
    finishing.add_to(parser)
    parser.set_defaults(call=call)


def call(options: argparse.Namespace) -> Exit:
    made = experiment(options)
    _check_out(options, made.out)
    if options.checkpoint is not None:
        made = made.with_(checkpoint=_checkpoint(options, made))
    if options.at is not None and not options.certify:
        raise InvalidInput("--at says where --certify linearises: give that as well, or leave out --at")
    if options.certify:
        from upbeat.cli.stability import certify  # what judges is loaded only where it is asked for

        certify(made, at=options.at or "start", quiet=options.quiet or options.json)
    return finishing.finish(made, options, made.run)


def experiment(options: argparse.Namespace) -> Experiment:
    """The experiment that the options describe, without its checkpoints."""
    names = ("out", "record", "every", "jumps", "jit", "cores", "real_time", "late", "force")
    made = scenario_options.experiment(options, {name: getattr(options, name) for name in names})
    return made.with_(command=("upbeat", *getattr(options, "words", ())))


def _check_out(options: argparse.Namespace, out: Path | None) -> None:
    """Results do not replace what the run reads."""
    for path in (options.file, *map(Path, options.names), *([options.input] if options.input else [])):
        if out is not None and not options.force and out.exists() and path.exists() and out.samefile(path):
            raise InvalidInput(
                f"--out {out} would replace '{path}', which this run reads: give another name, or add --force"
            )


def _checkpoint(options: argparse.Namespace, made: Experiment) -> Checkpoint:
    """``every=60s,file=run.checkpoint``, in any order; one alone will do."""
    name = options.file.with_suffix("").name if made.out is None else str(made.out)
    found = {"every": "60s", "file": f"{name}.checkpoint"}
    for entry in options.checkpoint.split(","):
        key, _, value = (part.strip() for part in entry.partition("="))
        if key not in found or not value:
            raise InvalidInput(
                f"--checkpoint {options.checkpoint}: write every=60s (or 5min, 2h, 1000steps), file=NAME, "
                "or both with a comma between them"
            )
        found[key] = value
    return Checkpoint(Path(found["file"]), found["every"], (str(Path.cwd()), *options.words))


def _factor(text: str) -> float | bool:
    """A factor of real time, or False for none."""
    try:
        return False if text == "off" else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a factor. Write the file first (upbeat run FILE --real-time), or --real-time 1"
        ) from None
