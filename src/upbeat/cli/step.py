"""`upbeat step`: which step size, coupling and input approximation to take, from trial runs."""

from __future__ import annotations

import argparse
import difflib
import json
import os
import sys
import tomllib
from pathlib import Path

from upbeat.cli import scenario_options
from upbeat.cli.console import Waiting, complain, say
from upbeat.cli.exits import Exit
from upbeat.core.atomic import replace_file
from upbeat.core.errors import FileProblem, InvalidInput, cannot_read
from upbeat.judging.steps import SECONDS, TOLERANCE, StepAdvice, recommend_step
from upbeat.report.plot import checked_target
from upbeat.report.steps import describe_steps_found, plot_steps
from upbeat.scenario.files.toml import with_values


def add_to(parser: argparse.ArgumentParser) -> None:
    scenario_options.add_to(
        parser, "a scenario file (.toml), an FMU (.fmu), or a system of FMUs (.ssp, .ssd)"
    )
    parser.add_argument(
        "--tolerance",
        type=float,
        default=TOLERANCE,
        metavar="E",
        help=f"the error that is asked for, of the range of each recorded signal ({TOLERANCE:g})",
    )
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, metavar="S", help=f"how long trials may take ({SECONDS:g})"
    )
    parser.add_argument(
        "--record",
        action="append",
        metavar="PATTERN",
        help="judge these signals only (default: what the file records)",
    )
    parser.add_argument(
        "--apply", action="store_true", help="write what is recommended into FILE; nothing else in it changes"
    )
    parser.add_argument(
        "--plot", type=Path, metavar="PICTURE", help="draw error over work (.png, .svg, .pdf)"
    )
    parser.add_argument(
        "--force", action="store_true", help="replace a picture that Upbeat has not drawn, too"
    )
    parser.add_argument("--quiet", action="store_true", help="the recommendation only, in one sentence")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output instead")
    parser.set_defaults(call=call)


def call(options: argparse.Namespace) -> Exit:
    if options.plot is not None:
        checked_target(options.plot, force=options.force)
    before = _writable(options) if options.apply else b""
    made = scenario_options.experiment(options, {"record": options.record})
    if made.real_time is not None and not options.json:
        complain("upbeat: trials do not wait for the clock; what is found is about the results")
    with Waiting(sys.stderr, quiet=options.quiet or options.json) as waiting:
        found = recommend_step(
            made, tolerance=options.tolerance, seconds=options.seconds, step=options.step, progress=waiting
        )
    if options.plot is not None:
        plot_steps(found, out=options.plot, force=options.force, title=made.scenario.name or None)
    changed = _apply(options.file, before, found) if options.apply and found.best is not None else []
    if options.json:
        more = {"plot": options.plot and str(options.plot), "applied": bool(changed), "changes": changed}
        say(json.dumps({"ok": True, **found.data(), **more}))
        return Exit.INTERRUPTED if found.interrupted else Exit.OK
    say(found.reason if options.quiet else describe_steps_found(found))
    if options.plot is not None and not options.quiet:
        say(f"\npicture: {options.plot}")
    if options.apply:
        if changed:
            say("\n".join(["", f"Changed in {options.file}:", *(f"  {line}" for line in changed)]))
        else:
            say(f"\n{options.file} stays as it is.")
    return Exit.INTERRUPTED if found.interrupted else Exit.OK


# ----------------------------------------------------------------------------------------------------
# `--apply`.


def _writable(options: argparse.Namespace) -> bytes:
    """What is in the file now; an error before anything is run, where nothing could be written into it."""
    file: Path = options.file
    if file.suffix != ".toml":
        raise InvalidInput(f"--apply is for scenario files (.toml), and '{file}' is none: leave it out")
    for name in ("set", "until", "events", "monolithic"):
        if getattr(options, name):
            raise InvalidInput(
                f"--apply with --{name}: what is found would not be about what the file says. Leave out one "
                "of them"
            )
    try:
        before = file.read_bytes()
    except OSError as error:
        raise cannot_read(file, error.strerror or str(error)) from error
    if not os.access(file, os.W_OK):
        raise FileProblem(
            f"cannot write to '{file}': it is read-only. Leave out --apply, or let it be written"
        )
    return before


def _apply(file: Path, before: bytes, found: StepAdvice) -> list[str]:
    """Write what is recommended, and return the lines that have changed. Nothing else in the file does."""
    text = before.decode("utf-8")
    written = tomllib.loads(text).get("master", {})
    new = with_values(text, ("master",), found.table(written))
    if new == text:
        return []
    if file.read_bytes() != before:
        raise FileProblem(f"'{file}' was changed while trials ran, so that it is left as it is: try again")
    target = file.resolve()
    mode = target.stat().st_mode
    replace_file(target, new.encode("utf-8"))
    target.chmod(mode & 0o7777)
    lines = difflib.ndiff(text.splitlines(), new.splitlines())
    return [line.rstrip() for line in lines if line[0] in "+-"]
