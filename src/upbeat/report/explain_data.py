"""What an experiment will do, as plain data: units, abilities, order, loops, the program, the engine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from upbeat.core.abilities import Ability, Model
from upbeat.core.errors import MissingExtra
from upbeat.core.expr import Number, plain, show
from upbeat.core.ports import Causality, Port
from upbeat.engine.experiment import Experiment
from upbeat.engine.isolation import separated
from upbeat.engine.nesting.model import Nested
from upbeat.master.couplings.refined import modular
from upbeat.master.dataflow import carried
from upbeat.master.listing import block_lines
from upbeat.master.settings import settings_of
from upbeat.report.cores import cores_data
from upbeat.report.left_alone import left_alone
from upbeat.scenario.events.connection import Sender
from upbeat.scenario.events.event import Event
from upbeat.scenario.merging.inline import path_of
from upbeat.units.equations.ode import Function
from upbeat.units.process import Isolated, bare
from upbeat.units.solving.solvers import solver_spec


def explain_data(experiment: Experiment) -> dict[str, Any]:
    """All that `explain` puts into words."""
    closed = separated(experiment.closed, experiment.isolation)
    plan = experiment.plan
    built = plan.program
    choice = experiment.choice
    origin = closed.origin
    return {
        "name": experiment.scenario.name,
        "start": experiment.span.start,
        "until": experiment.span.stop,
        "monolith": origin and {"units": list(origin.units), "notes": list(origin.notes)},
        "units": [_unit(name, model) for name, model in closed.units.items()],
        "connections": [
            {"input": f"{c.unit}.{c.port}", "value": _cells(c.cells)} for c in closed.connections
        ],
        "left_alone": left_alone(experiment.scenario),
        "event_connections": [
            {"input": c.target, "senders": [_sender(sender, closed.port(c.target)) for sender in c.senders]}
            for c in closed.event_connections
        ],
        "events": [_happening(event) for event in experiment.scenario.events],
        "nested": [{"unit": note.unit, "flattened": note.flattened, "why": note.why} for note in plan.nested],
        "order": [f"{unit}.{port}" for _, unit, port in closed.graph.order],
        "order_followed": not modular(plan.master.coupled),
        "loops": [[f"{unit}.{port}" for _, unit, port in loop] for loop in closed.graph.loops],
        "master": _settings(experiment),
        "notes": [*built.notes, *(f"warning: {remark}" for remark in experiment.remarks)],
        "late_switches": _late(experiment),
        "engine": {"name": choice.name, "why": choice.why},
        "cores": cores_data(experiment),
        "program": {
            name: block_lines(block, built.layout, lambda unit: path_of(plan.scenario, unit))
            for name, block in built.blocks.items()
            if block
        },
        "carried": [built.layout.of(r).name for r in carried(built, plan.scenario.units)],
    }


def _late(experiment: Experiment) -> dict[str, Any] | None:
    """How late switches between two modes may come, where something switches."""
    from upbeat.report.late_switches import advice, limit  # what judges is loaded only where there is need
    from upbeat.stability.hybrid.late import late_switches

    try:
        found = late_switches(experiment)
    except MissingExtra as error:
        return {"said": [str(error)]}
    return None if found is None else found.data() | {"said": [limit(found), *advice(found)]}


def _settings(experiment: Experiment) -> dict[str, Any]:
    """The settings, with the coupling, the pace and the inputs that `events` has led to."""
    master, plan = experiment.master, experiment.plan
    runs = plan.master.settled(plan.scenario)
    if plan.master.coupling is not None and type(plan.master.coupling) is not type(master.coupling):
        runs = replace(
            runs, coupling=master.coupled
        )  # flattening has made another one of it, in names of its own
    more = {key: value for key, value in settings_of(master).items() if key != "step"}
    return settings_of(runs) | {key: more[key] for key in more.keys() & {"events", "simultaneous"}}


def _unit(name: str, model: Model) -> dict[str, Any]:
    def named(causality: Causality) -> list[Port]:
        return [port for port in model.ports if port.causality is causality]

    return {
        "name": name,
        "kind": type(bare(model)).__name__,
        **({"process": True} if isinstance(model, Isolated) and model.isolation == "process" else {}),
        "inputs": [_port(p) for p in named(Causality.INPUT)],
        "outputs": [_port(p) | {"depends": sorted(p.depends)} for p in named(Causality.OUTPUT)],
        "parameters": {
            p.name: p.initial[0] if p.size is None else list(p.initial)
            for p in named(Causality.PARAMETER)
            if not isinstance(bare(model), Nested)  # those of its units, of which nothing else is told either
        },
        "solver": _solver(model),
        "abilities": [ability.value for ability in Ability if ability in model.abilities],
        **({"notes": _named(notes, name)} if (notes := getattr(model, "notes", ())) else {}),
    }


def _named(notes: Iterable[str], unit: str) -> list[str]:
    """What a model says of itself, with the name of the unit in what can be typed."""
    return [note.replace("UNIT.", f"{unit}.") for note in notes]


def _port(port: Port) -> dict[str, Any]:
    reactive = {None: "any", True: "reactive", False: "delayed"}[port.reactive]
    data = {"name": port.name, "kind": port.kind.value, "size": port.size, "unit": port.unit}
    data |= {"event": True} if port.event else {}
    return data | ({"reactive": reactive} if port.causality is Causality.INPUT else {})


def _cells(cells: Sequence[Any]) -> str:
    return show(cells[0]) if len(cells) == 1 else f"[{', '.join(show(cell) for cell in cells)}]"


def _sender(sender: Sender, to: Port) -> dict[str, Any]:
    when = None if sender.when is None else show(sender.when)
    value = _cells(sender.cells)
    if to.items and isinstance(first := sender.cells[0], Number) and len(sender.cells) == 1:
        value = f"'{to.labels.label(first.value)}'"
    return {"event": ".".join(sender.source), "value": value, "when": when}


def _solver(model: Model) -> str | dict[str, Any] | None:
    """As a file would say it; a function has none that matters."""
    solver = getattr(model, "solver", None)
    return None if solver is None or isinstance(bare(model), Function) else solver_spec(solver)


def _happening(event: Event) -> dict[str, Any]:
    return {
        "name": event.name,
        "units": list(event.units),
        "shared": event.shared,
        "when": _when(event),
        "conditions": [show(plain(z)) for z in event.conditions],
        "then": {f"{change.unit}.{change.name}": _cells(change.cells) for change in event.then},
    }


def _when(event: Event) -> str | list[str]:
    """The conditions as they were written; functions by their names."""
    calls = (call.name.removeprefix(f"{event.name}: ") for call in event.calls)
    given = event.written["when"]
    parts = given if isinstance(given, list) else [given]
    texts = [next(calls) if callable(part) else str(part) for part in parts]
    return texts if isinstance(given, list) else texts[0]
