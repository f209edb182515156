"""`upbeat discover`: find the conditions of events that units deal with inside, and write them as events."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from upbeat.cli import scenario_options
from upbeat.cli.console import Waiting, say
from upbeat.cli.exits import Exit
from upbeat.core.atomic import replace_file
from upbeat.core.errors import InvalidInput
from upbeat.engine.formats.files import write_scenario
from upbeat.judging.discovering import CONFIDENCE, SECONDS, Discovery, discover
from upbeat.report.discovery import describe_discovery, plot_discovery
from upbeat.report.plot import checked_target
from upbeat.scenario.files.toml import with_values
from upbeat.trace.files.output import kept_from
from upbeat.trace.files.sinks import check_suffix


def add_to(parser: argparse.ArgumentParser) -> None:
    scenario_options.add_to(parser)
    parser.add_argument(
        "--vary",
        action="append",
        default=[],
        metavar="NAME=A,B",
        help="also run with these values of a parameter or start value, under which the same conditions "
        "hold; may be repeated",
    )
    parser.add_argument(
        "--confidence",
        type=float,
        default=CONFIDENCE,
        metavar="C",
        help=f"how sure a condition has to be to be written, from 0 to 1 ({CONFIDENCE:g})",
    )
    parser.add_argument(
        "--while-running",
        action="store_true",
        help="one run, in which what is found is used once it has foretold two events, and given up where it "
        "fails",
    )
    parser.add_argument("--results", type=Path, metavar="FILE", help="with it: write the results of that run")
    parser.add_argument(
        "--seconds",
        type=float,
        metavar="S",
        help=f"how long all runs may take ({SECONDS:g})",
    )
    parser.add_argument(
        "--out", type=Path, metavar="NEW", help="write FILE with what was found as a new scenario file"
    )
    parser.add_argument(
        "--plot", type=Path, metavar="PICTURE", help="draw quantities and thresholds (.png, .svg, .pdf)"
    )
    parser.add_argument(
        "--force", action="store_true", help="replace a file or a picture that is not Upbeat's, too"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress, and nothing but what was found")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output instead")
    parser.set_defaults(call=call)


def call(options: argparse.Namespace) -> Exit:
    if options.plot is not None:
        checked_target(options.plot, force=options.force)
    if options.out is not None:
        _check_out(options)
    vary = dict(_varied(text) for text in options.vary)
    if options.while_running and (options.vary or options.seconds is not None):
        given = "--vary" if options.vary else "--seconds"
        raise InvalidInput(f"{given}: without effect with --while-running, which is one run to its end")
    if options.results is not None:
        if not options.while_running:
            raise InvalidInput("--results are those of the run of --while-running: give that as well")
        check_suffix(options.results)
    made = scenario_options.experiment(options)
    with Waiting(sys.stderr, quiet=options.quiet or options.json) as waiting:
        found = discover(
            made,
            vary=vary,
            seconds=SECONDS if options.seconds is None else options.seconds,
            confidence=options.confidence,
            while_running=options.while_running,
            progress=waiting,
        )
    if options.results is not None and found.trace is not None:
        found.trace.save(options.results, force=options.force)
    drawn = options.plot if any(one.quantity is not None for one in found.conditions) else None
    if drawn is not None:
        plot_discovery(found, out=drawn, force=options.force, title=made.scenario.name or None)
    written = options.out if options.out is not None and found.sure else None
    if written is not None:
        _write(options, found)
    ended = Exit.INTERRUPTED if found.interrupted else Exit.OK
    if options.json:
        files = {"out": written and str(written), "plot": drawn and str(drawn)}
        say(json.dumps({"ok": True, **found.data(), **files}))
        return ended
    say(str(found) if options.quiet else describe_discovery(found))
    if not options.quiet:
        if written is not None:
            say(f"\nwritten: {written}")
        elif options.out is not None:
            say(f"\n{options.out} was not written: there is nothing to add")
        if drawn is not None:
            say(f"picture: {drawn}")
        if options.results is not None:
            say(f"results: {options.results}")
    return ended


def _varied(text: str) -> tuple[str, list[Any]]:
    name, sign, values = text.partition("=")
    if not sign or not name.strip() or not values.strip():
        raise InvalidInput(f"--vary {text}: write a name and values, for example --vary ball.x0=1.0,1.5")
    try:
        return name.strip(), [float(value) for value in values.split(",")]
    except ValueError:
        raise InvalidInput(f"--vary {text}: values are numbers with commas between them") from None


def _check_out(options: argparse.Namespace) -> None:
    """Refuse a place where nothing could be written, before anything is run."""
    out: Path = options.out
    if out.suffix.lower() != ".toml":
        raise InvalidInput(f"--out {out}: what is written is a scenario file, so its name ends with .toml")
    if out.exists() and options.file is not None and out.resolve() == Path(options.file).resolve():
        raise InvalidInput(f"--out {out} is the file that is read: choose another name for what is found")
    if not out.absolute().parent.is_dir():
        raise InvalidInput(f"--out {out}: there is no folder '{out.parent}'")
    kept_from(out, _ours, "a scenario file", force=options.force)


def _ours(path: Path) -> bool:
    return "units" in path.read_text(encoding="utf-8")


def _write(options: argparse.Namespace, found: Discovery) -> None:
    """The file as it was, with what was found added; where that cannot be done line by line, or the command
    line has changed it, written again."""
    text = _amended(options, found)
    if text is not None:
        replace_file(options.out, text.encode("utf-8"))
    else:
        write_scenario(found.improved(), options.out, force=options.force)


def _amended(options: argparse.Namespace, found: Discovery) -> str | None:
    source = Path(options.file)
    changed = any(
        getattr(options, name, None) for name in ("set", "until", "step", "events", "monolithic", "input")
    )
    if changed or source.suffix.lower() != ".toml" or source.parent.resolve() != options.out.parent.resolve():
        return None
    text = source.read_text(encoding="utf-8")
    try:
        for section, table in found.tables.items():
            for name, entry in table.items():
                text = with_values(text, (section, name), entry)
        master = found.improved().master
        if found.experiment is not None and found.experiment.master.events != master.events:
            text = with_values(text, ("master",), {"events": master.events})
    except InvalidInput:
        return None
    return text
