"""`probe`: what an FMU can do and how it behaves, measured; every measurement in a throw-away process."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from upbeat.units.fmi import claims, judge, known, trials
from upbeat.units.fmi.description import CoSimulation
from upbeat.units.fmi.judge import PortRow, Reaction, Report, Row
from upbeat.units.fmi.library import Platform
from upbeat.units.fmi.model import Fmu
from upbeat.units.fmi.ports import CO_SIMULATION, MODEL_EXCHANGE, InterfaceName
from upbeat.units.fmi.trial import DEADLINE, Trial, attempt
from upbeat.units.fmi.trials import apart, settings_of
from upbeat.version import __version__

__all__ = ["PortRow", "Reaction", "Report", "Row", "probe"]

_NOT_RUN = Trial({}, failure="it was not tried")


def probe(
    path: str | os.PathLike[str], interface: InterfaceName | None = None, deadline: float = DEADLINE
) -> Report:
    """Measure an FMU, and remember what was found; `deadline` in seconds holds for each measurement."""
    model = Fmu(path, interface=interface)
    arguments = {"path": str(model.path), "settings": settings_of(model)}
    # First and alone: it is the one that takes time, and whatever else fails, this is what users do.
    first = attempt(trials.run, arguments, deadline)
    if judge.usable(first):
        found = _measured(model, arguments, deadline)
        rows, reactions, others = _rows(model, first, found)
    else:
        rows, reactions, others = [judge.runs(first)], [], []
    report = Report(
        file=str(model.path),
        sha256=known.content(model.path),
        name=model.description.name,
        fmi=model.description.written_version,
        tool=model.description.tool,
        platform=f"{Platform.here().machine}-{Platform.here().system}",
        upbeat=__version__,
        interfaces=_offered(model),
        interface=model.interface_name,
        step=first.found.get("step"),
        time_per_step_ns=first.found.get("ns"),
        usable=judge.usable(first),
        crash=judge.crash([first, *others]),
        ports=_ports(model),
        rows=rows,
        feedthrough=reactions,
        notes=list(model.notes),
    )
    known.remember(model.path, f"probe-{model.interface_name}", report.to_json())
    return report


def _measured(model: Fmu, arguments: dict[str, Any], deadline: float) -> dict[str, Trial]:
    """All other trials, a few at a time: most of their time is Python starting."""
    wanted: dict[str, tuple[Callable[..., None], dict[str, object]]] = {
        "repeat": (trials.repeat, {}),
        "repeat again": (trials.repeat, {}),
        "respond": (trials.respond, {}),
        "memory": (trials.memory, {}),
    }
    if not model.interface.only_once_per_process:
        wanted |= {"together": (trials.together, {}), "threads": (trials.threads, {})}
    if trials.steps_by_itself(model):
        wanted |= {"uneven": (trials.uneven, {}), "zero": (trials.small, {"part": 0.0})}
        wanted |= {"tiny": (trials.small, {"part": 1e-9})}
    from concurrent.futures import ThreadPoolExecutor  # loads much, for something rarely done

    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        claimed = pool.submit(claims.check, model) if model.interface.saves_state else None
        running = {
            name: pool.submit(attempt, function, arguments | more, deadline)
            for name, (function, more) in wanted.items()
        }
        found = {name: future.result() for name, future in running.items()}
        if claimed is not None:
            claims.remember(model, *claimed.result())
    return found


def _rows(model: Fmu, first: Trial, found: dict[str, Trial]) -> tuple[list[Row], list[Reaction], list[Trial]]:
    interface = model.interface
    claimed = claims.checked(model)
    reactions = judge.reactions(model, found["respond"])
    repeat, again = found["repeat"], found["repeat again"]
    rows = [
        judge.runs(first),
        judge.claim("rollback", interface.saves_state, claimed.rollback),
        judge.claim("state as bytes", interface.serialises_state, claimed.serialise),
    ]
    if "uneven" in found and isinstance(interface, CoSimulation):
        rows += [
            judge.uneven(interface.variable_step, found["uneven"]),
            judge.small("steps of length 0", found["zero"], refusable=True),
            judge.small("tiny steps", found["tiny"], refusable=False),
        ]
    rows += judge.feedthrough(model, found["respond"], reactions)
    if "first" in repeat.found and "first" in again.found:
        distance = apart(repeat.found["first"], again.found["first"])
        rows.append(judge.compared("same results in another process", distance))
    rows += [
        judge.same("same results a second time in one process", repeat, "again"),
        judge.once(interface.only_once_per_process, found.get("together", _NOT_RUN)),
    ]
    if "threads" in found:
        rows.append(judge.same("same results in two threads", found["threads"], "threads"))
    rows.append(judge.memory(found["memory"]))
    return rows, reactions, [repeat, again, found["respond"], found["memory"]]


def _ports(model: Fmu) -> list[PortRow]:
    return [
        PortRow(
            port.name,
            port.causality.value,
            port.kind.value,
            port.size,
            port.unit,
            None if port.start is None else list(port.start),
            port.event,
        )
        for port in model.ports
        if not port.extra
    ]


def _offered(model: Fmu) -> list[str]:
    description = model.description
    both = {CO_SIMULATION: description.co_simulation, MODEL_EXCHANGE: description.model_exchange}
    return [name for name, interface in both.items() if interface is not None]
