"""FMUs on the command line: ``upbeat run a.fmu b.fmu --connect b.u=a.y``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from upbeat.cli.console import complain
from upbeat.core.errors import InvalidInput
from upbeat.engine.experiment import Experiment

SUFFIX = ".fmu"


def add_to(parser: argparse.ArgumentParser) -> None:
    """Options for FMUs, which come after the file."""
    parser.add_argument(
        "names", nargs="*", metavar="MORE.fmu", help="more FMUs, to be coupled with the first"
    )
    parser.add_argument(
        "--connect",
        action="append",
        default=[],
        metavar="B.IN=A.OUT",
        help="connect an input to an output of FMUs, units named after their files; may be repeated",
    )
    parser.add_argument(
        "--interface",
        choices=("co-simulation", "model-exchange"),
        help="how to run FMUs that offer both (default: co-simulation)",
    )
    parser.add_argument("--solver", metavar="NAME", help="for model exchange, e.g. rk4 or dormand-prince")
    parser.add_argument(
        "--fmu-log", action="store_true", help="show all messages of FMUs, not only complaints"
    )


def experiment(
    options: argparse.Namespace, settings: Mapping[str, Any], values: Mapping[str, Any], writing: bool
) -> Experiment:
    """The experiment with the FMUs of the command line; what was chosen for it is said."""
    from upbeat.engine.fmus import fmu_experiment

    more = [Path(name) for name in getattr(options, "names", ())] if hasattr(options, "connect") else []
    for path in more:
        if path.suffix.lower() != SUFFIX:
            raise InvalidInput(f"{path}: only FMUs ({SUFFIX}) can be coupled on the command line")
    asked = {name: getattr(options, name, None) for name in ("interface", "solver")}
    chosen = fmu_experiment(
        [options.file, *more],
        settings,
        connect=getattr(options, "connect", ()),
        values=values,
        options={name: value for name, value in asked.items() if value is not None},
        writing=writing,
    )
    if chosen.notes and not (getattr(options, "quiet", False) or getattr(options, "json", False)):
        complain(f"upbeat: {'; '.join(chosen.notes)}")
    return chosen.experiment


def misplaced(options: argparse.Namespace) -> str:
    """What is wrong with a command line that has options for FMUs, and none; empty if all is well."""
    if not hasattr(options, "connect") or options.file.suffix.lower() == SUFFIX:
        return ""
    if options.names:
        return f"unrecognized arguments: {' '.join(options.names)} (only FMUs can follow FMUs)"
    given = [name for name in ("connect", "interface", "solver") if getattr(options, name)]
    return f"--{given[0]} is for FMUs: {options.file} says itself how its units are run" if given else ""


def logged(made: Experiment, options: argparse.Namespace) -> Experiment:
    """The same with all FMUs saying everything, if that was asked for."""
    if not getattr(options, "fmu_log", False):
        return made
    from upbeat.engine.fmus import talking

    return replace(made, scenario=talking(made.scenario))
