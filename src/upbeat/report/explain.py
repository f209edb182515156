"""What an experiment is, in words: units, order, loops, master, engine, program."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from upbeat.core.abilities import Ability, Model
from upbeat.core.errors import MissingExtra, check_type
from upbeat.core.expr import Number, plain, show
from upbeat.core.ports import Causality, Kind, Port
from upbeat.engine.experiment import Experiment
from upbeat.engine.isolation import separated
from upbeat.engine.nesting.model import nested_of
from upbeat.master.couplings.refined import modular
from upbeat.master.dataflow import carried
from upbeat.master.program import block_lines
from upbeat.master.settings import settings_of
from upbeat.report.schedule import cores_data, cores_lines
from upbeat.scenario.events.declared import Event
from upbeat.scenario.events.links import Sender
from upbeat.scenario.merging.inline import path_of
from upbeat.scenario.scenario import Scenario
from upbeat.stability.hybrid.late import LateSwitches
from upbeat.units.process import as_isolated, bare
from upbeat.units.solving.solvers import solver_of, solver_spec

# ----------------------------------------------------------------------------------------------------
# Inputs that nothing drives: one that was forgotten looks like one that was meant to stay as it is.

_SHOWN = 5


def left_alone(scenario: Scenario) -> list[dict[str, str]]:
    """The inputs of units that nothing drives, and what they stay at."""
    return [
        {"input": name, "value": f"{_values(port)}{f' {port.unit}' if port.unit not in (None, '1') else ''}"}
        for name, (_, port) in scenario.free_inputs.items()
        if not port.event
    ]


def in_short(alone: Sequence[Mapping[str, str]]) -> str:
    """Some of them in one line."""
    more = f" and {len(alone) - _SHOWN} more" if len(alone) > _SHOWN else ""
    return ", ".join(f"{one['input']} = {one['value']}" for one in alone[:_SHOWN]) + more


def _values(port: Port) -> str:
    words = [port.labels.label(float(code)) for code in port.initial] if port.items else port.initial
    shown = [f"{word:.6g}" if isinstance(word, float) else str(word) for word in words]
    if port.kind is Kind.BOOLEAN:
        shown = [word.lower() for word in shown]  # as a file has them
    return shown[0] if port.size is None else f"[{', '.join(shown)}]"


# ----------------------------------------------------------------------------------------------------
# How late a system of two modes may switch, in words.


def limit(found: LateSwitches) -> str:
    """What is known, in a sentence without its end."""
    if found.why:
        return f"how late switches may be is not known: {found.why}"
    if found.largest is None:
        return "it comes to rest however late it switches, as far as was looked"
    late = f"{found.largest.delay:.8g} s"
    if found.largest.edge:
        return (
            f"switches must be less than {late} late, and perhaps less late than that: wider orbits were not "
            "looked at"
        )
    return f"it comes to rest as long as it switches less than {late} late"


def advice(found: LateSwitches) -> list[str]:
    """What that means for the master there is, and what to change."""
    safe = found.safe
    if safe is None:
        return []
    if found.inside:
        return [
            f"{found.inside} locates its switches by itself; where others have a part in them, take steps, "
            f"or tolerance (t_min) of look_ahead, of at most {safe:.4g} s"
        ]
    if found.here is None:
        return [
            f"take steps of at most {safe:.4g} s, or look_ahead with tolerance (t_min) up to {safe:.4g} s"
        ]
    if found.here < safe:
        return [
            f"with this master a switch comes up to {found.here:.4g} s late, which is soon enough; tolerance "
            f"(t_min) may be up to {safe:.4g} s"
        ]
    return [
        f"with this master a switch comes up to {found.here:.4g} s late, which is too late: take steps of at "
        f"most {safe:.4g} s, or land on switches by look_ahead (--events auto) with tolerance (t_min) up to "
        f"{safe:.4g} s"
    ]


# ----------------------------------------------------------------------------------------------------
# What an experiment will do, as plain data: units, abilities, order, loops, the program, the engine.


def explain_data(experiment: Experiment) -> dict[str, Any]:
    """All that `explain` puts into words."""
    if experiment.structures:
        return {
            "name": experiment.scenario.name,
            "start": experiment.span.start,
            "until": experiment.span.stop,
            "structures": {name: explain_data(part) for name, part in experiment.structures.items()},
        }
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
        "events": [_happening(event, experiment.scenario) for event in experiment.scenario.events],
        "conserved": _conserved(experiment.scenario),
        "properties": [
            {"name": one.name, "holds": one.text, "online": one.online or None}
            for one in experiment.scenario.properties
        ],
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

    isolated = as_isolated(model)
    return {
        "name": name,
        "kind": _kind(bare(model)),
        **({"process": True} if isolated is not None and isolated.isolation == "process" else {}),
        "inputs": [_port(p) for p in named(Causality.INPUT)],
        "outputs": [_port(p) | {"depends": sorted(p.depends)} for p in named(Causality.OUTPUT)],
        "parameters": {
            p.name: p.initial[0] if p.size is None else list(p.initial)
            for p in named(Causality.PARAMETER)
            if nested_of(bare(model)) is None  # those of its units, of which nothing else is shown either
        },
        "solver": _solver(model),
        "abilities": [ability.value for ability in Ability if ability in model.abilities],
        **({"notes": _named(notes, name)} if (notes := getattr(model, "notes", ())) else {}),
    }


def _kind(model: Model) -> str:
    nested = nested_of(model)
    if nested is None or nested.adaptation is None:
        return type(model).__name__
    return f"adaptation, {nested.adaptation.kind}"


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
    solver = solver_of(model)
    return None if solver is None else solver_spec(solver)


def _conserved(scenario: Scenario) -> dict[str, str]:
    """What is the same in the structures before and after, if this is one."""
    return {} if scenario.stage is None else {one.name: show(one.value) for one in scenario.stage.conserved}


def led_on(part: Experiment) -> str:
    """Where the events of a structure lead, in words."""
    stage = part.scenario.stage
    switches = () if stage is None else stage.switches
    return "".join(f"; '{switch.event}' leads to '{switch.to}'" for switch in switches)


def _switch(event: Event, scenario: Scenario) -> dict[str, Any]:
    """Where an event leads, if it ends a structure."""
    for switch in scenario.stage.switches if scenario.stage is not None else ():
        if switch.event == event.name:
            return {"to": switch.to, "start": {name: show(cell) for name, _, cell in switch.start}}
    return {}


def _happening(event: Event, scenario: Scenario) -> dict[str, Any]:
    return {
        **_switch(event, scenario),
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


# ----------------------------------------------------------------------------------------------------
# What an experiment will do, in words: units, abilities, order, loops, the program, the engine.

MAX_LINES = 60
"""A block longer than this is cut in the middle: people read its shape, programs read the JSON."""

MAX_VALUES = 40
"""So many parameters of a unit are shown."""


def master_lines(experiment: Experiment) -> list[str]:
    """What the master will do, and the engine, in sentences."""
    if experiment.structures:
        parts = experiment.structures.items()
        return list(dict.fromkeys(f"{name}: {line}" for name, part in parts for line in master_lines(part)))
    notes = experiment.plan.program.notes
    choice = experiment.choice
    said = {"master": _settings(experiment), "notes": notes}
    return [*(line.strip() for line in _master_lines(said)), f"engine: {choice.name}, because {choice.why}"]


def explain(experiment: Experiment, *, program: bool = True) -> str:
    """The whole explanation as text."""
    check_type(experiment, Experiment, "experiment")
    check_type(program, bool, "program")
    if experiment.structures:
        told = [
            f"{name}: {', '.join(p.scenario.units)}{led_on(p)}" for name, p in experiment.structures.items()
        ]
        whole = {
            "name": experiment.scenario.name,
            "start": experiment.span.start,
            "until": experiment.span.stop,
        }
        parts = [_opening(whole), _section("Structures, of which the first is there at the start", told)]
        for part in experiment.structures.values():
            parts.append(explain(part, program=program))
        return "\n\n".join(parts)
    data = explain_data(experiment)
    parts = [_opening(data)]
    if data["monolith"]:
        parts.append(_section("Monolithic", _monolith(data["monolith"])))
    parts += [
        _section("Units", [line for unit in data["units"] for line in _unit_lines(unit)]),
        *([_section("Nested scenarios", _nested_lines(data["nested"]))] if data["nested"] else []),
        _section("Abilities", _ability_lines(data["units"])),
        _section("Connections", _connection_lines(data)),
        *([_section("Event connections", _event_lines(data))] if data["event_connections"] else []),
        *([_section("Events between units", _event_series_lines(data))] if data["events"] else []),
        *(
            [_section("Conserved", [f"{k}: {v}" for k, v in data["conserved"].items()])]
            if data["conserved"]
            else []
        ),
        *([_section("Properties", _property_lines(data))] if data["properties"] else []),
        _section(
            "Order in which ports are evaluated at one instant"
            if data["order_followed"]
            else "Order in which ports depend on each other (Master, below, says what is evaluated when)",
            _wrapped(data["order"]),
        ),
        _section("Algebraic loops", [" → ".join([*loop, loop[0]]) for loop in data["loops"]] or ["none"]),
        _section("Master", _master_lines(data)),
        *([_section("Late switches", data["late_switches"]["said"])] if data["late_switches"] else []),
        _section("Engine", [f"{data['engine']['name']}: {data['engine']['why']}"]),
        *([_section("Cores", cores_lines(data["cores"]))] if data["cores"] else []),
    ]
    if program:
        parts.append(_section("Program", _program_lines(data)))
    return "\n\n".join(parts)


def _event_lines(data: dict[str, Any]) -> list[str]:
    """One line per sender; the first that is present counts."""
    lines = []
    for connection in data["event_connections"]:
        for i, sender in enumerate(connection["senders"]):
            start = f"{connection['input']} = " if i == 0 else "  or, if that is absent, "
            carried = "" if sender["value"] == sender["event"] else f" with {sender['value']}"
            when = f" when {sender['when']}" if sender["when"] else ""
            lines.append(f"{start}{sender['event']}{carried}{when}")
    return lines


def _event_series_lines(data: dict[str, Any]) -> list[str]:
    lines = []
    for event in data["events"]:
        kind = "shared" if event["shared"] else "private"
        when = event["when"]
        alike = f"all of these are true, or at most zero: {', '.join(when)}"
        lines.append(f"{event['name']} ({kind}: {', '.join(event['units'])})")
        lines.append(f"  when {when if isinstance(when, str) else alike}")
        lines += [f"  then {name} = {value}" for name, value in event["then"].items()]
        lines += [f"  start {name} = {value}" for name, value in event.get("start", {}).items()]
        lines += [f"  leads to the structure '{event['to']}'"] if "to" in event else []
    return lines


def _property_lines(data: dict[str, Any]) -> list[str]:
    what = {
        None: "judged when the run is over",
        "watch": "watched: steps end where it changes",
        "stop": "watched: the run ends where it is violated",
    }
    return [f"{one['name']}: {one['holds']} ({what[one['online']]})" for one in data["properties"]]


def _monolith(data: dict[str, Any]) -> list[str]:
    return [f"one unit in place of {', '.join(data['units'])}: there is no coupling", *data["notes"]]


def _nested_lines(notes: Iterable[dict[str, Any]]) -> list[str]:
    return [f"{n['unit']}: {'flattened' if n['flattened'] else 'not flattened'}, {n['why']}" for n in notes]


# -------------------------------------------------------------------- as text


def _opening(data: dict[str, Any]) -> str:
    name = data["name"] or "A scenario without a name"
    return f"{name}: from t = {data['start']:g} s to {data['until']:g} s"


def _connection_lines(data: Mapping[str, Any]) -> list[str]:
    driven = [f"{c['input']} = {c['value']}" for c in data["connections"]]
    alone = [f"{c['input']} stays at {c['value']}: nothing drives it" for c in data["left_alone"]]
    return [*driven, *alone] or ["none"]


def _unit_lines(unit: dict[str, Any]) -> list[str]:
    solver = f", solver {words(unit['solver'])}" if unit["solver"] else ""
    values = [f"{name} = {value}" for name, value in unit["parameters"].items()]
    apart = ", in a process of its own" if unit.get("process") else ""
    return [
        f"{unit['name']} ({unit['kind']}{solver}{apart})",
        f"  inputs:     {_ports(unit['inputs'])}",
        f"  outputs:    {_ports(unit['outputs'])}",
        *([f"  parameters: {', '.join(_few(values))}"] if values else []),
        *(f"  note:       {note}" for note in unit.get("notes", ())),
    ]


def _few(values: list[str]) -> list[str]:
    """The first ones: an FMU may have thousands of parameters, and the JSON has them all."""
    more = len(values) - MAX_VALUES
    return values if more <= 0 else [*values[:MAX_VALUES], f"… ({more} more)"]


def _ability_lines(units: Iterable[dict[str, Any]]) -> list[str]:
    """What the units can do, said once for all that can do the same."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for unit in units:
        groups.setdefault(tuple(unit["abilities"]), []).append(unit["name"])
    return [
        f"{'every unit' if len(groups) == 1 else ', '.join(names)}: "
        + (", ".join(abilities) or "none, it can only go forward")
        for abilities, names in groups.items()
    ]


def _ports(ports: Iterable[dict[str, Any]]) -> str:
    texts = []
    for port in ports:
        text = port["name"] + (f"[{port['size']}]" if port["size"] else "")
        text += f" in {port['unit']}" if port["unit"] else ""
        text += " (event)" if port.get("event") else ""
        if port.get("reactive") not in (None, "any"):
            text += f" ({port['reactive']})"
        if port.get("depends"):
            text += f" (direct feedthrough from {', '.join(port['depends'])})"
        texts.append(text)
    return ", ".join(texts) or "none"


def _master_lines(data: dict[str, Any]) -> list[str]:
    """The settings in the words of a file, and what they mean here."""
    single = data["master"].get("ports", {})
    lines = [f"{key}: {words(value)}" for key, value in data["master"].items() if key != "ports"]
    return [*lines, *(f"  {name}: {words(value)}" for name, value in single.items()), *data["notes"]]


def words(value: Any) -> str:
    """``gauss_seidel (order left, right; outputs lagged)``."""
    match value:
        case {"kind": name, **options}:
            return f"{name} ({'; '.join(f'{key} {words(item)}' for key, item in options.items())})"
        case dict():
            return ", ".join(f"{key} {words(item)}" for key, item in value.items())
        case list() | tuple():
            return ", ".join(map(words, value))
        case float():
            return f"{value:g}"
    return str(value)


_BLOCKS = {"start": "start, at the start time", "exchange": "exchange, after an input was set by hand"}


def _program_lines(data: dict[str, Any]) -> list[str]:
    blocks, lines = data["program"], []
    for name, block in blocks.items():
        title = _BLOCKS.get(name, name)
        if name == "exchange" and block == blocks.get("start"):
            lines.append(f"{title}: as at the start")
        else:
            lines += [f"{title}:", *_cut(block)]
    return [*lines, f"carried from step to step: {', '.join(data['carried']) or 'nothing but the units'}"]


def _wrapped(names: Sequence[str]) -> list[str]:
    return textwrap.wrap(" → ".join(names), 100, break_long_words=False, break_on_hyphens=False) or ["none"]


def _cut(lines: list[str]) -> list[str]:
    if len(lines) <= MAX_LINES:
        return lines
    half = MAX_LINES // 2
    return [*lines[:half], f"  … {len(lines) - 2 * half} more …", *lines[-half:]]


def _section(title: str, lines: Iterable[str]) -> str:
    return "\n".join([title, *(f"  {line}" for line in lines)])
