"""FMUs on the command line: ``upbeat run a.fmu b.fmu --connect b.u=a.y``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from upbeat.cli.console import complain
from upbeat.core.errors import InvalidInput

if TYPE_CHECKING:
    from upbeat.engine.experiment import Experiment


def given(path: Path) -> bool:
    """Whether this is an FMU, or a folder with an unpacked one."""
    from upbeat.engine.formats.files import is_fmu

    return is_fmu(path)


def add_to(parser: argparse.ArgumentParser, tolerance: str = "--tolerance") -> None:
    """Options for FMUs, which come after the file; `tolerance` is what that of their solvers is called."""
    parser.add_argument(
        "names", nargs="*", metavar="MORE.fmu", help="more FMUs, to be coupled with the first"
    )
    fmus = parser.add_argument_group("for FMUs")
    fmus.add_argument(
        "--connect",
        action="append",
        default=[],
        metavar="B.IN=A.OUT",
        help="connect an input to an output of FMUs, units named after their files; may be repeated",
    )
    fmus.add_argument(
        "--interface",
        choices=("co-simulation", "model-exchange"),
        help="how to run FMUs that offer both (default: co-simulation)",
    )
    fmus.add_argument("--solver", metavar="NAME", help="for model exchange, e.g. rk4 or dormand_prince")
    fmus.add_argument(
        tolerance,
        dest="tolerance",
        type=float,
        metavar="TOL",
        help="relative tolerance of FMUs (default: that of their default experiments)",
    )
    fmus.add_argument(
        "--locals",
        action="append",
        default=[],
        metavar="UNIT.PATTERN",
        help="local variables of FMUs that become outputs, too, e.g. 'a.body.*'; may be repeated",
    )
    fmus.add_argument("--fmu-log", action="store_true", help="show all messages of FMUs, not only complaints")


def experiment(
    options: argparse.Namespace, settings: Mapping[str, Any], values: Mapping[str, Any], writing: bool
) -> Experiment:
    """The experiment with the FMUs of the command line; what was chosen for it is said."""
    from upbeat.engine.formats.fmus import fmu_experiment

    more = [Path(name) for name in getattr(options, "names", ())] if hasattr(options, "connect") else []
    for path in more:
        if not given(path):
            raise InvalidInput(f"{path}: only FMUs (.fmu) can be coupled on the command line")
    asked = {name: getattr(options, name, None) for name in ("interface", "solver", "tolerance")}
    chosen = fmu_experiment(
        [options.file, *more],
        settings,
        connect=getattr(options, "connect", ()),
        values=values,
        options={name: value for name, value in asked.items() if value is not None},
        locals=getattr(options, "locals", ()),
        table=options.input,
        writing=writing,
    )
    if chosen.notes and not (getattr(options, "quiet", False) or getattr(options, "json", False)):
        complain(f"upbeat: {'; '.join(chosen.notes)}")
    return chosen.experiment


def misplaced(options: argparse.Namespace) -> str:
    """What is wrong with a command line that has options for FMUs, and none; empty if all is well."""
    if not hasattr(options, "connect") or given(options.file):
        return ""
    if options.names:
        return f"unrecognized arguments: {' '.join(options.names)} (only FMUs can follow FMUs)"
    misused = [
        name for name in ("connect", "interface", "solver", "tolerance", "locals") if getattr(options, name)
    ]
    return f"--{misused[0]} is for FMUs: {options.file} says itself how its units are run" if misused else ""


def logged(made: Experiment, options: argparse.Namespace) -> Experiment:
    """The same with all FMUs saying everything, if that was asked for."""
    if not getattr(options, "fmu_log", False):
        return made
    from upbeat.engine.formats.fmus import talking

    return replace(made, scenario=talking(made.scenario))
