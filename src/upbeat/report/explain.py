"""What an experiment will do, in words: units, abilities, order, loops, the program, the engine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from upbeat.core.abilities import Ability, Model
from upbeat.core.expr import show
from upbeat.core.ports import Causality, Port
from upbeat.engine.experiment import Experiment
from upbeat.master.dataflow import carried
from upbeat.master.listing import block_lines
from upbeat.master.settings import settings_of

MOST_LINES = 60
"""A block longer than this is cut in the middle: people read its shape, programs read the JSON."""


def explain(experiment: Experiment, *, program: bool = True) -> str:
    """The whole explanation as text."""
    data = explain_data(experiment)
    parts = [_section("Monolithic", _monolith(data["monolith"]))] if data["monolith"] else []
    parts += [
        _section("Units", _units(data)),
        _section("Connections", [f"{c['input']} = {c['value']}" for c in data["connections"]] or ["none"]),
        _section("Algebraic loops", [" → ".join(loop) for loop in data["loops"]] or ["none"]),
        _section("Master", [f"{key}: {value}" for key, value in data["master"].items()] + data["notes"]),
        _section("Engine", [f"{data['engine']['name']}: {data['engine']['why']}"]),
    ]
    if program:
        lines: list[str] = []
        for name, block in data["program"].items():
            lines += [f"{name}:", *_cut(block)]
        lines.append(f"carried from step to step: {', '.join(data['carried']) or 'nothing but the units'}")
        parts.append(_section("Program", lines))
    return "\n\n".join(parts)


def explain_data(experiment: Experiment) -> dict[str, Any]:
    """The same as plain data."""
    closed = experiment.closed
    built = experiment.program()
    choice = experiment.choice()
    origin = closed.origin
    return {
        "name": experiment.scenario.name,
        "monolith": origin and {"units": list(origin.units), "notes": list(origin.notes)},
        "units": [_unit(name, model) for name, model in closed.units.items()],
        "connections": [
            {"input": f"{c.unit}.{c.port}", "value": _cells(c.cells)} for c in closed.connections
        ],
        "order": [f"{unit}.{port}" for _, unit, port in closed.graph.order],
        "loops": [[f"{unit}.{port}" for _, unit, port in loop] for loop in closed.graph.loops],
        "master": settings_of(experiment.master),
        "notes": list(built.notes),
        "engine": {"name": choice.name, "why": choice.why},
        "program": {name: block_lines(block, built.layout) for name, block in built.blocks.items() if block},
        "carried": [built.layout.of(r).name for r in carried(built, closed.units)],
    }


def _unit(name: str, model: Model) -> dict[str, Any]:
    def named(causality: Causality) -> list[Port]:
        return [port for port in model.ports if port.causality is causality]

    return {
        "name": name,
        "kind": type(model).__name__,
        "inputs": [_port(p) for p in named(Causality.INPUT)],
        "outputs": [_port(p) | {"depends": sorted(p.depends)} for p in named(Causality.OUTPUT)],
        "parameters": {
            p.name: p.initial[0] if p.size is None else list(p.initial) for p in named(Causality.PARAMETER)
        },
        "solver": repr(model.solver) if hasattr(model, "solver") else None,
        "abilities": [ability.value for ability in Ability if ability in model.abilities],
    }


def _port(port: Port) -> dict[str, Any]:
    reactive = {None: "any", True: "reactive", False: "delayed"}[port.reactive]
    data = {"name": port.name, "kind": port.kind.value, "size": port.size, "unit": port.unit}
    return data | ({"reactive": reactive} if port.causality is Causality.INPUT else {})


def _cells(cells: Sequence[Any]) -> str:
    return show(cells[0]) if len(cells) == 1 else f"[{', '.join(show(cell) for cell in cells)}]"


def _monolith(data: dict[str, Any]) -> list[str]:
    return [f"one unit in place of {', '.join(data['units'])}: there is no coupling", *data["notes"]]


def _units(data: dict[str, Any]) -> list[str]:
    lines: list[str] = []
    for unit in data["units"]:
        lines.append(f"{unit['name']} ({unit['kind']}{', ' + unit['solver'] if unit['solver'] else ''})")
        lines.append(f"  inputs:  {_ports(unit['inputs'])}")
        lines.append(f"  outputs: {_ports(unit['outputs'])}")
        lines.append(
            f"  can: {'; '.join(_short(ability) for ability in unit['abilities']) or 'step forward only'}"
        )
    return lines


def _short(ability: str) -> str:
    return ability.removeprefix("can ")


def _ports(ports: Iterable[dict[str, Any]]) -> str:
    texts = []
    for port in ports:
        text = port["name"] + (f"[{port['size']}]" if port["size"] else "")
        text += f" in {port['unit']}" if port["unit"] else ""
        if port.get("reactive") not in (None, "any"):
            text += f" ({port['reactive']})"
        if port.get("depends"):
            text += f" (directly from {', '.join(port['depends'])})"
        texts.append(text)
    return ", ".join(texts) or "none"


def _cut(lines: list[str]) -> list[str]:
    if len(lines) <= MOST_LINES:
        return lines
    half = MOST_LINES // 2
    return [*lines[:half], f"  … {len(lines) - 2 * half} more …", *lines[-half:]]


def _section(title: str, lines: Iterable[str]) -> str:
    return "\n".join([title, *(f"  {line}" for line in lines)])
