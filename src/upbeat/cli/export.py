"""`upbeat export`: a scenario as an FMU, as C, or (one of FMUs) as an SSP."""

from __future__ import annotations

import argparse
from pathlib import Path

from upbeat.cli import scenario_options
from upbeat.cli.console import say
from upbeat.cli.exits import Exit
from upbeat.core.errors import InvalidInput


def add_to(parser: argparse.ArgumentParser) -> None:
    scenario_options.add_to(parser, file="the scenario file (.toml)")
    parser.add_argument(
        "target",
        type=Path,
        metavar="SYSTEM.ssp",
        nargs="?",
        help="an SSP of a scenario of FMUs: where to write it",
    )
    parser.add_argument(
        "--force", action="store_true", help="replace a file that Upbeat has not exported, too"
    )
    parser.add_argument("--quiet", action="store_true", help="say nothing when all is well")
    fmu = parser.add_argument_group("as an FMU, which runs in any host, without Python")
    fmu.add_argument("--fmu", type=Path, metavar="OUT.fmu", help="where to write the FMU")
    fmu.add_argument("--fmi", type=int, choices=(2, 3), help="the version of FMI (2)")
    fmu.add_argument(
        "--kind",
        choices=("source", "core"),
        help="source: as C, with a library if there is a compiler; core: Upbeat's native core with the "
        "program as tables, which needs none (default: source, or core if there are FMUs inside)",
    )
    fmu.add_argument(
        "--interface",
        choices=("co-simulation", "model-exchange"),
        help="model exchange is for scenarios of equations (default: co-simulation, with the master)",
    )
    c = parser.add_argument_group("as C, for embedded targets")
    c.add_argument("--c", type=Path, metavar="DIR", help="the folder for header, source, main.c and Makefile")
    c.add_argument("--single", action="store_true", help="in single precision")
    ssp = parser.add_argument_group("as an SSP")
    ssp.add_argument(
        "--like",
        type=Path,
        metavar="FILE.ssd",
        help="take annotations and drawings from here (default: the .ssd next to the scenario file)",
    )
    parser.set_defaults(call=call)


_ONLY = {"fmi": "fmu", "kind": "fmu", "interface": "fmu", "single": "c", "like": "target"}
"""Options, and what they are for."""


def call(options: argparse.Namespace) -> Exit:
    given = [name for name in ("target", "fmu", "c") if getattr(options, name) is not None]
    if len(given) != 1:
        raise InvalidInput(
            "say what to make of the scenario: --fmu OUT.fmu, --c DIR, or the name of an SSP (of a scenario "
            "of FMUs)" + (": one of them at a time" if given else "")
        )
    for option, what in _ONLY.items():
        if getattr(options, option) not in (None, False) and what not in given:
            named = {"target": "an SSP", "fmu": "--fmu", "c": "--c"}[what]
            raise InvalidInput(f"--{option} is for {named}, which is not asked for: leave it out")
    return {"target": _ssp, "fmu": _fmu, "c": _c}[given[0]](options)


def _ssp(options: argparse.Namespace) -> Exit:
    from upbeat.engine.formats.ssp import write_ssp

    made = scenario_options.experiment(options)
    beside = options.file.with_suffix(".ssd")
    like = options.like or (beside if beside.is_file() else None)
    write_ssp(made, options.target, like=like, force=options.force)
    if not options.quiet:
        say(f"{options.target}: units: {len(made.scenario.units)}.")
    return Exit.OK


def _fmu(options: argparse.Namespace) -> Exit:
    from upbeat.generate.fmu import export_fmu

    made = scenario_options.experiment(options)
    done = export_fmu(
        made,
        options.fmu,
        fmi=options.fmi or 2,
        kind=options.kind,
        interface=options.interface or "co-simulation",
        name=made.scenario.name or options.file.stem,
        force=options.force,
    )
    if options.quiet:
        return Exit.OK
    counts = ", ".join(f"{what}: {count}" for what, count in done.variables.items() if count)
    library = f"library for {done.library}" if done.library else "no library"
    interface = options.interface or "co-simulation"
    say(f"{done.path}: FMI {done.fmi}.0, {interface}, {done.kind}, {library}; {counts}.")
    for note in done.notes:
        say(f"note: {note}")
    return Exit.OK


def _c(options: argparse.Namespace) -> Exit:
    from upbeat.generate.embedded import export_c

    made = scenario_options.experiment(options)
    name = made.scenario.name or options.file.stem
    done = export_c(made, options.c, name=name, single=options.single, force=options.force)
    if options.quiet:
        return Exit.OK
    memory = "" if done.memory is None else f"; memory of one instance: {done.memory} bytes"
    say(f"{done.folder}: {', '.join(done.files)}{memory}.")
    for note in done.notes:
        say(f"note: {note}")
    return Exit.OK
