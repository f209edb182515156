"""`upbeat configure`: find a good master, from hints and from what the units declare."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from upbeat.cli import scenario_options
from upbeat.cli.console import Waiting, complain, say
from upbeat.cli.exits import Exit
from upbeat.core.atomic import replace_file
from upbeat.core.errors import FileProblem, InvalidInput, UpbeatError, cannot_read, cannot_write
from upbeat.engine.experiment import Experiment
from upbeat.engine.formats.files import read_experiment, write_scenario
from upbeat.hints.configure import Configuration, configure
from upbeat.hints.words import configured, described, difference
from upbeat.judging.steps import SECONDS
from upbeat.trace.files.output import kept_from

MARK = "# Configured by 'upbeat configure' from "


def add_to(parser: argparse.ArgumentParser) -> None:
    scenario_options.add_to(
        parser, "a scenario file (.toml), an FMU (.fmu), or a system of FMUs (.ssp, .ssd)"
    )
    parser.add_argument(
        "--hints", type=Path, metavar="HINTS", help="a file with hints (default: [hints] of FILE, if any)"
    )
    parser.add_argument(
        "--tolerance",
        dest="alike",  # of errors, not of the solvers in FMUs
        type=float,
        default=0.0,
        metavar="E",
        help="errors below this part of the range of each signal are alike: what is cheaper is better (0)",
    )
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, metavar="S", help=f"how long runs may take ({SECONDS:g})"
    )
    parser.add_argument(
        "--workers", type=int, metavar="N", help="how many runs at a time (default: one per core)"
    )
    parser.add_argument(
        "--record",
        action="append",
        metavar="PATTERN",
        help="judge errors of these signals only (default: what the file records)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="NEW.toml",
        help="write what is recommended here (default: NAME_configured.toml next to FILE)",
    )
    parser.add_argument("--force", action="store_true", help="replace a file that is there, whatever it is")
    parser.add_argument("--quiet", action="store_true", help="the recommendation only, in one sentence")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output instead")
    parser.set_defaults(call=call)


def call(options: argparse.Namespace) -> Exit:
    out = _target(options)
    made = scenario_options.experiment(options, {"record": options.record})
    with Waiting(sys.stderr, quiet=options.quiet or options.json) as waiting:
        found = configure(
            made,
            options.hints,
            seconds=options.seconds,
            tolerance=options.alike,
            workers=options.workers,
            progress=waiting,
        )
    changes = _write(options, out, made, found) if out is not None and found.best is not None else ""
    if options.json:
        more = {"out": str(out) if changes else None, "changes": changes.splitlines()}
        say(json.dumps({"ok": True, **found.data(), **more}))
    elif options.quiet:
        say(found.reason)
    else:
        say(described(found))
        if changes:
            say(f"\nWritten to {out}:\n{changes}")
        elif out is None and found.best is not None:
            complain("upbeat: nothing was written, because options replace what the file says")
    return Exit.INTERRUPTED if found.interrupted else Exit.OK


def _target(options: argparse.Namespace) -> Path | None:
    """Where the new file goes; an error before anything is run, where it cannot go there."""
    file: Path = options.file
    names = "set", "until", "step", "events", "monolithic", "structure"
    replaced = [name for name in names if getattr(options, name, None)]
    if replaced:
        if options.out is not None:
            raise InvalidInput(
                f"--out with --{replaced[0]}: what is found would not be about what the file says. Leave out "
                "one of them"
            )
        return None
    out: Path | None = options.out
    if out is None:
        if file.suffix != ".toml":
            return None
        out = file.with_name(f"{file.stem}_configured.toml")
    if out.suffix != ".toml":
        raise InvalidInput(f"--out writes a scenario file (.toml), and '{out}' would be none")
    if out.is_dir() or not out.absolute().parent.is_dir():
        raise FileProblem(
            f"cannot write to '{out}': {'it is a folder' if out.is_dir() else 'there is no such folder'}"
        )
    kept_from(out, _ours, "one that upbeat configure has written", force=options.force)
    return out


def _ours(path: Path) -> bool:
    return path.read_text(encoding="utf-8").startswith(MARK)


def _write(options: argparse.Namespace, out: Path, made: Experiment, found: Configuration) -> str:
    """Write the new file, and return how it differs from the old one."""
    file: Path = options.file
    if file.suffix != ".toml":
        improved = found.improved()
        write_scenario(improved, out, force=True)
        return f"a scenario file of {file}, with the master that is recommended"
    try:
        before = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise cannot_read(file, error) from error
    after = configured(before, made, found)
    try:
        read_experiment(out, {}, values={}, allow_python=options.allow_python, writing=False, text=after)
    except UpbeatError as error:
        if out.absolute().parent == file.absolute().parent:
            raise
        raise InvalidInput(
            f"what '{file}' names is not found from '{out.absolute().parent}': write the new file beside "
            f"the old one ({error})"
        ) from None
    try:
        replace_file(out, f"{MARK}{file.name}.\n{after}".encode())
    except OSError as error:
        raise cannot_write(out, error) from error
    return difference(before, after, (str(file), str(out)))
