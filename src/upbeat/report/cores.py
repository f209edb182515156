"""What an experiment does on several cores, in words: who is where, what is left to one, what limits it."""

from __future__ import annotations

from typing import Any

from upbeat.engine.experiment import Experiment
from upbeat.engine.parallel.cores import INSTANTS, Shared, cores_here
from upbeat.report.schedule import Chart, few
from upbeat.scenario.merging.inline import path_of


def cores_data(experiment: Experiment) -> dict[str, Any] | None:
    """As plain data; None where one core is asked for, or nothing else is there."""
    shared = experiment.shared
    if not shared:
        return None
    plan, profile = experiment.plan, experiment.profile
    blocks = {}
    for name, each in shared.items():
        known = profile if each.measured else None
        chart = Chart(
            name,
            each.parallel,
            known.crossing if known else None,
            known.instants if known else 0.0,
            lambda unit: path_of(plan.scenario, unit),
        )
        blocks[name] = _block(chart, each, known.source if known else None)
    return {
        "asked": experiment.cores,
        "here": cores_here(),
        "blocks": blocks,
        "instants": bool(plan.program.instant),
        "nested": [{"unit": note.unit, "why": note.why} for note in plan.nested if not note.flattened],
    }


def _block(chart: Chart, each: Shared, source: str | None) -> dict[str, Any]:
    it = each.parallel
    cores = [
        {"core": core, "units": chart.who(mine), "share": sum(it.tasks[k].duration for k in mine) / it.total}
        for core in it.schedule.busy
        for mine in [chart.on_core(core)]
    ]
    return {
        "shared": each.schedule is not None,
        "why": each.why,
        "times": source,
        "cores": cores,
        "waits": it.schedule.crossings,
        "rule": it.plan.rule.value,
        "python": chart.python,
        "predicted_speedup": chart.predicted if each.measured else None,
        "limited_by": chart.limit if each.measured else None,
    }


def cores_lines(data: dict[str, Any]) -> list[str]:
    """As text."""
    lines = [f"asked for: {data['asked']}, here: {data['here']}"]
    for name, block in data["blocks"].items():
        lines += _block_lines(name, block)
    if data["instants"]:
        lines.append(f"instants: by one core, because {INSTANTS}")
    lines += [
        f"{note['unit']}: a unit of its own, so all of it is on one core ({note['why']})"
        for note in data["nested"]
    ]
    return lines


def _block_lines(name: str, block: dict[str, Any]) -> list[str]:
    if not block["shared"]:
        limit = [f"  limited by {block['limited_by']}"] if block["limited_by"] else []
        return [f"{name}: by one core, because {block['why']}", *limit]
    waits = f"{block['waits']} time{'' if block['waits'] == 1 else 's'}"
    lines = [f"{name}: shared by {len(block['cores'])} cores, which wait for each other {waits}"]
    for core in block["cores"]:
        caller = ", the thread that calls" if core["core"] == 0 else ""
        part = f" ({100 * core['share']:.0f} % of the work)" if block["times"] else ""
        lines.append(f"  core {core['core']}{caller}: {few(core['units'])}{part}")
    lines.append(f"  why so: all that a unit does is on one core; taken in turn by {block['rule']}")
    if block["python"]:
        lines.append(f"  Python does one thing at a time, so {few(block['python'])} are on one core together")
    if block["times"] is None:
        lines.append(
            "  how long anything takes is guessed, and how much faster this is not known: upbeat profile"
        )
        return lines
    lines.append(
        f"  {block['times']}: predicted to be {block['predicted_speedup']:.2f} × as fast as one core"
    )
    return [*lines, f"  limited by {block['limited_by']}"]
