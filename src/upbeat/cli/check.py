"""`upbeat check`: all problems of a scenario file at once, with line and suggestion."""

from __future__ import annotations

import argparse
import json

from upbeat.cli import scenario_options
from upbeat.cli.console import say
from upbeat.cli.exits import Exit, exit_for
from upbeat.core.errors import InvalidInput, ScenarioError, problems_of
from upbeat.engine.experiment import Experiment
from upbeat.engine.remarks import unit_problems
from upbeat.report.explain import in_short, led_on, left_alone
from upbeat.scenario.files.reading import has_table


def add_to(parser: argparse.ArgumentParser) -> None:
    scenario_options.add_to(parser)
    parser.add_argument(
        "--deep",
        action="store_true",
        help="also try every unit: do its outputs depend on the inputs that it declares, and on no others? "
        "Does it come back to a saved state, if it says so?",
    )
    parser.add_argument(
        "--cores", type=int, metavar="N", help="for a run on N cores (default: as the file says)"
    )
    parser.add_argument("--quiet", action="store_true", help="say nothing when all is well")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output instead")
    parser.set_defaults(call=call)


def _tried(made: Experiment, options: argparse.Namespace) -> tuple[str, ...]:
    """What cannot be known of units without trying them; what is wrong is raised."""
    from upbeat.engine.deep import depths  # which knows FMUs, and few checks are deep

    remarks: dict[str, None] = {}
    for part in made.structures.values() or (made,):
        found = depths(part.plan.scenario, part.span, part.cores)
        if found.wrong:
            raise ScenarioError([wrong.problem for wrong in found.wrong], str(options.file))
        remarks |= dict.fromkeys(found.remarks)
    return tuple(remarks)


def call(options: argparse.Namespace) -> Exit:
    try:
        made = scenario_options.experiment(options, {"cores": options.cores}, writing=True)
        if wrong := unit_problems(made.scenario):
            raise ScenarioError(wrong, str(options.file))
        choice = made.choice
        made.scenario.check_measures()
        remarks = (*made.remarks, *(_tried(made, options) if options.deep else ()))
        made.check_structures()
        parts = made.structures or {"": made}
        lates = [part.master.late(part.closed) for part in parts.values()]
        late = next((one for one in lates if one is not None), None)
        found_rates = (part.plan.master.remarks(part.plan.scenario) for part in parts.values())
        rates = tuple(dict.fromkeys(rate for found in found_rates for rate in found))
        if has_table(options.file, "study"):
            from upbeat.explore.study import of_file

            remarks = (*remarks, *of_file(made, options.file).notes)
        if has_table(options.file, "hints"):
            from upbeat.hints.configure import hints_for

            hints_for(made, None)
    except InvalidInput as error:
        if not options.json:
            raise
        say(json.dumps({"ok": False, "problems": [problem.data() for problem in problems_of(error)]}))
        return exit_for(error)
    found_notes = {
        name: list(model.notes) for name, model in made.scenario.units.items() if hasattr(model, "notes")
    }
    notes = {name: found for name, found in found_notes.items() if found}
    left = (left_alone(part.scenario) for part in parts.values())
    alone = list({one["input"]: one for found in left for one in found}.values())
    if options.json:
        more = {
            "notes": notes,
            "remarks": list(remarks),
            "events": late,
            "left_alone": alone,
            "rates": list(rates),
            "structures": list(made.structures),
        }
        say(json.dumps({"ok": True, "problems": []} | {name: found for name, found in more.items() if found}))
    elif not options.quiet:
        units, wires = len(made.scenario.units), len(made.scenario.all_connections)
        say(f"{options.file}: no problems. Units: {units}, connections: {wires}, engine: {choice.name}.")
        for name, part in made.structures.items():
            say(f"  structure '{name}': {', '.join(part.scenario.units)}{led_on(part)}")
        for name, found in notes.items():
            say("\n".join(f"  {name}: {note}" for note in found))
        if alone:
            say(f"  inputs that nothing drives: {in_short(alone)}")
        if late is not None:
            say(f"  note: {late}")
        for note in rates:
            say(f"  note: {note}")
        for remark in remarks:
            say(f"  warning: {remark}")
    return Exit.OK
