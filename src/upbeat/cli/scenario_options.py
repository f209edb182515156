"""The options that every command with a scenario file shares, and the experiment they give."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from upbeat.cli import fmu_options
from upbeat.core.errors import InvalidInput, ScenarioError
from upbeat.core.names import bare
from upbeat.master.checks import Events

if TYPE_CHECKING:
    from upbeat.engine.experiment import Experiment


def point(text: str) -> Any:
    """A point of linearisation: start, rest, or a time."""
    if text in ("start", "rest"):
        return text
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither start nor rest nor a time") from None


def add_to(parser: argparse.ArgumentParser, file: str = "", tolerance: str = "--tolerance") -> None:
    """Options that change what the file says, without touching the file.

    With a text for `file` that is the only one; without, several FMUs may be named, and `tolerance` is the
    option for that of their solvers.
    """
    what = file or "the scenario file (.toml), an FMU (.fmu), or a system of FMUs (.ssp, .ssd), also unpacked"
    parser.add_argument("file", type=Path, metavar="FILE", help=what)
    if not file:
        fmu_options.add_to(parser, tolerance)
    said = parser.add_argument_group("in place of what the file says")
    said.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="UNIT.PARAM=VALUE",
        help="another parameter or start value; may be repeated",
    )
    said.add_argument("--until", type=float, metavar="T", help="another stop time")
    said.add_argument("--step", type=float, metavar="H", help="a fixed communication step of this size")
    said.add_argument(
        "--events",
        choices=get_args(Events),
        help="how events between units are met (default: as pace and coupling do)",
    )
    said.add_argument(
        "--input",
        type=Path,
        metavar="FILE.csv",
        help="signals for the scenario's own inputs, or inputs of FMUs (columns time and one per input)",
    )
    said.add_argument(
        "--engine",
        choices=("auto", "native", "interpret", "compiled"),
        help="which engine runs it (default: the best there is)",
    )
    said.add_argument(
        "--no-flatten",
        dest="flatten",
        action="store_false",
        default=None,
        help="let nested scenarios run as units of their own even where their units could take their place",
    )
    said.add_argument(
        "--isolation",
        choices=("auto", "process", "none"),
        help="which units run in processes of their own (default: the FMUs that need it)",
    )
    said.add_argument(
        "--deadline",
        type=float,
        metavar="SECONDS",
        help="kill the process of a unit that gives no answer for so long (10)",
    )
    said.add_argument(
        "--structure",
        metavar="NAME",
        help="one structure alone, of a scenario that has several: it ends where an event leads on",
    )
    said.add_argument(
        "--monolithic",
        action="store_true",
        help="merge all units into one and solve it tightly: the truth to compare with",
    )
    said.add_argument(
        "--allow-python",
        action="store_true",
        help="let the file name Python classes and functions, which then run with your rights",
    )


def experiment(
    options: argparse.Namespace, settings: Mapping[str, Any] | None = None, *, writing: bool = False
) -> Experiment:
    """The experiment of the file with all options applied; `settings` are those of one command only."""
    from upbeat.trace.files.sinks import SUFFIXES

    if options.file.suffix.lower() in SUFFIXES:
        raise InvalidInput(
            f"'{options.file}' is a result: give the scenario file that it came from. What a result can "
            f"show is in its report: upbeat report {options.file} --html report.html --trust"
        )
    shared = {
        "until": options.until,
        "step": options.step,
        "events": options.events,
        "engine": options.engine,
        "flatten": options.flatten,
        "isolation": options.isolation,
        "deadline": options.deadline,
    }
    values = dict(_assignment(text) for text in options.set)
    try:
        made = _read(options, shared | dict(settings or {}), values, writing)
    except ScenarioError as error:
        raise _by_option(error) from None
    if options.input is not None and not fmu_options.given(options.file):
        from upbeat.scenario.signals import read_signals

        made = made.with_(signals=read_signals(options.input, made.scenario))
    made = fmu_options.logged(made, options)
    if (name := getattr(options, "structure", None)) is not None:
        made = made.structure(name)
    return made.monolithic() if options.monolithic else made


def _read(
    options: argparse.Namespace, settings: Mapping[str, Any], values: Mapping[str, Any], writing: bool
) -> Experiment:
    """What the file, or the FMUs, describe."""
    if fmu_options.given(options.file):
        return fmu_options.experiment(options, settings, values, writing)
    from upbeat.engine.formats.files import read_experiment

    return read_experiment(
        options.file, settings, values=values, allow_python=options.allow_python, writing=writing
    )


def _by_option(error: ScenarioError) -> ScenarioError:
    """The same problems, where the command line is to blame under the names of its options."""
    found = [replace(problem, where=_option(problem.where)) for problem in error.problems]
    ours = all(problem.where and problem.where[0].startswith("--") for problem in found)
    return ScenarioError(found, "the command line" if ours else error.source, more=error.more)


def _option(where: tuple[str, ...]) -> tuple[str, ...]:
    match where:
        case ("values", *names):
            return (f"--set {'.'.join(names)}",)
        case (name, *rest) if name.endswith("="):
            return (f"--{name[:-1].replace('_', '-')}", *rest)
    return where


_ASSIGNMENT = re.compile(r"(\s*`[^`]*`[^=]*|[^=]*)=(.*)\Z", re.DOTALL)


def _assignment(text: str) -> tuple[str, Any]:
    """``left.m=2``, ``left.on=true``, ``left.mode=heat`` or ``left.gains=[1, 2]``.

    Only in backticks can a name have an equals sign of its own.
    """
    found = _ASSIGNMENT.match(text)
    if not found or not found[1].strip() or not found[2].strip():
        raise InvalidInput(f"--set {text}: write unit.parameter=value, for example --set left.m=2.5")
    return bare(found[1]), _value(found[2].strip())


def _value(text: str) -> Any:
    if text.startswith("[") and text.endswith("]"):
        return [_value(item.strip()) for item in text[1:-1].split(",") if item.strip()]
    if text in ("true", "false"):
        return text == "true"
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text.strip("\"'")
