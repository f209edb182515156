"""`upbeat studio`: look at a scenario in the browser, change it, run it, watch it and compare runs."""

from __future__ import annotations

import argparse
from pathlib import Path

from upbeat.cli.console import say
from upbeat.cli.exits import Exit
from upbeat.core.errors import FileProblem, InvalidInput


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",
        type=Path,
        nargs="?",
        metavar="FILE",
        help="a scenario file (.toml) to open, or the project folder (default: this one); nothing outside of "
        "the folder is read or written",
    )
    parser.add_argument(
        "--port",
        type=int,
        metavar="N",
        help="listen at this port of this machine (the one of the folder, or another if that is taken)",
    )
    parser.add_argument("--no-browser", action="store_true", help="print the address, and open no browser")
    parser.add_argument(
        "--allow-python",
        action="store_true",
        help="let scenarios name Python classes and functions, which then run with your rights",
    )
    parser.set_defaults(call=call)


def call(options: argparse.Namespace) -> Exit:
    from upbeat.studio.project import Project
    from upbeat.studio.server import Studio, serve

    given: Path = options.file or Path()
    if options.port is not None and not 0 <= options.port < 1 << 16:
        raise InvalidInput(
            f"--port {options.port}: a port is a number up to 65535, or 0 for any that is free"
        )
    if not given.exists():
        raise FileProblem(f"there is no file '{given}'. A new scenario is made in the studio: upbeat studio")
    folder = given if given.is_dir() else given.parent
    if given.is_file() and given.suffix != ".toml":
        hint = {
            ".ssp": f"make one of it: upbeat import {given}",
            ".ssd": f"make one of it: upbeat import {given}",
            ".fmu": "open its folder, and drag the FMU into a scenario",
        }.get(given.suffix.lower(), "give one, or a folder")
        raise InvalidInput(f"the studio opens scenario files (.toml), and '{given}' is none: {hint}")
    project = Project(folder, python=options.allow_python)
    studio = Studio(project, None if given.is_dir() else given.name)

    def ready(served: Studio) -> None:
        say(f"Studio of {project.folder}: open this address in a browser on this machine. Ctrl-C ends it.")
        say(served.address)

    serve(studio, options.port, ready, browser=not options.no_browser)
    return Exit.OK
