"""What an experiment will do, in words: units, abilities, order, loops, the program, the engine."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from upbeat.core.errors import check_type
from upbeat.engine.experiment import Experiment
from upbeat.report.cores import cores_lines
from upbeat.report.explain_data import explain_data

MOST_LINES = 60
"""A block longer than this is cut in the middle: people read its shape, programs read the JSON."""

MOST_VALUES = 40
"""So many parameters of a unit are shown."""


def explain(experiment: Experiment, *, program: bool = True) -> str:
    """The whole explanation as text."""
    check_type(experiment, Experiment, "experiment")
    check_type(program, bool, "program")
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
        *([_section("Events between units", _happening_lines(data))] if data["events"] else []),
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


def _happening_lines(data: dict[str, Any]) -> list[str]:
    lines = []
    for event in data["events"]:
        kind = "shared" if event["shared"] else "private"
        when = event["when"]
        alike = f"all of these are true, or at most zero: {', '.join(when)}"
        lines.append(f"{event['name']} ({kind}: {', '.join(event['units'])})")
        lines.append(f"  when {when if isinstance(when, str) else alike}")
        lines += [f"  then {name} = {value}" for name, value in event["then"].items()]
    return lines


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
    solver = f", solver {_words(unit['solver'])}" if unit["solver"] else ""
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
    more = len(values) - MOST_VALUES
    return values if more <= 0 else [*values[:MOST_VALUES], f"… ({more} more)"]


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
    lines = [f"{key}: {_words(value)}" for key, value in data["master"].items() if key != "ports"]
    return [*lines, *(f"  {name}: {_words(value)}" for name, value in single.items()), *data["notes"]]


def _words(value: Any) -> str:
    """``gauss_seidel (order left, right; outputs lagged)``."""
    match value:
        case {"kind": name, **options}:
            return f"{name} ({'; '.join(f'{key} {_words(item)}' for key, item in options.items())})"
        case dict():
            return ", ".join(f"{key} {_words(item)}" for key, item in value.items())
        case list() | tuple():
            return ", ".join(map(_words, value))
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
    if len(lines) <= MOST_LINES:
        return lines
    half = MOST_LINES // 2
    return [*lines[:half], f"  … {len(lines) - 2 * half} more …", *lines[-half:]]


def _section(title: str, lines: Iterable[str]) -> str:
    return "\n".join([title, *(f"  {line}" for line in lines)])
