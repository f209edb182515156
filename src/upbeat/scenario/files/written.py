"""Scenarios as plain tables, and tables as TOML that people like to read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePath
from typing import Any

import tomli_w

from upbeat.core.abilities import Model
from upbeat.core.errors import InvalidInput
from upbeat.core.ports import Causality, Port
from upbeat.scenario.connection import ScenarioOutput, deliver
from upbeat.scenario.directory import Directory, Wrong
from upbeat.scenario.events.links import EventOutput, deliver_event
from upbeat.scenario.files.definitions import isolation_table, table_of
from upbeat.scenario.scenario import Scenario
from upbeat.units.process import as_isolated
from upbeat.units.shorthand import port_spec

_BARE = re.compile(r"[A-Za-z0-9_-]+\Z")
_SPREAD = ("states", "inputs", "outputs", "parameters", "variables", "locals", "tables", "transitions")
"""Parts of a unit that are written with a line for each entry."""


Special = Callable[[str, Model], "dict[str, Any] | None"]
"""The table of a unit by its name and model, where the layer above knows better."""


def scenario_tables(scenario: Scenario, special: Special | None = None) -> dict[str, Any]:
    """The tables of a file from which an equal scenario is made."""
    if scenario.added_units:
        raise InvalidInput("a scenario with added units cannot be written; write the one it was made from")
    for event in scenario.events:
        if event.calls:
            raise InvalidInput(
                f"the event '{event.name}' cannot be written: {event.calls[0].name} is a Python function, "
                'and files have no code in them. Write the condition as an expression: when = "a.x <= 0".'
            )
    models, units = _shared_models(scenario.units, special)
    directory = Directory(scenario.units, scenario.inputs)
    return {
        "name": scenario.name,
        "models": models,
        "units": units,
        "connections": {c.target: c.text for c in scenario.all_connections},
        "inputs": {port.name: port_spec(port) for port in scenario.inputs},
        "outputs": {output.port.name: _output(output, directory) for output in scenario.all_outputs},
        "events": {event.name: dict(event.written) for event in scenario.events},
    }


def _shared_models(
    units: Mapping[str, Model], special: Special | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A model that several units use is written once, under the name of the first of them."""

    def table(name: str, model: Model) -> dict[str, Any]:
        told = as_isolated(model)
        if told is not None:
            return table(name, told.model) | isolation_table(told)
        return (special and special(name, model)) or table_of(name, model)

    users: dict[int, list[str]] = {}
    for name, model in units.items():
        users.setdefault(id(model), []).append(name)
    models: dict[str, Any] = {}
    own: dict[str, Any] = {}
    for name, model in units.items():
        first, *others = users[id(model)]
        if not others:
            own[name] = table(name, model)
        else:
            own[name] = {"model": first}
            if name == first:
                models[name] = table(name, model)
    return models, own


def _output(output: ScenarioOutput | EventOutput, directory: Directory) -> Any:
    """An output's expression, with what its port does not take from there."""
    port, text = output.port, output.text
    natural = _natural(output, directory)
    as_it_is = isinstance(text, Mapping) and "convert" in text
    entry: dict[str, Any] = dict(text) if isinstance(text, Mapping) and as_it_is else {"value": text}
    if port.items != natural.items or port.kind is not natural.kind:
        entry |= {"items": port.labels.written} if port.items else {"kind": port.kind.value}
    for key in ("size", "unit", "description"):
        if getattr(port, key) != getattr(natural, key):
            entry[key] = getattr(port, key)
    return entry if len(entry) > 1 or isinstance(text, Mapping) else text


def _natural(output: ScenarioOutput | EventOutput, directory: Directory) -> Port:
    """The port that the expression alone would make; of an event, one with what only the output can say."""
    bare = Port(output.port.name, Causality.OUTPUT)
    if isinstance(output, ScenarioOutput):
        return deliver(bare, output.text, directory, fixed=False).port
    try:
        return deliver_event(bare, output.text, directory, fixed=False).port
    except Wrong:
        return bare  # labels in a map, which need items


# -------------------------------------------------------------------- as text


def toml_text(content: Mapping[str, Any]) -> str:
    """`content` as TOML. Entries keep their order, which a scenario needs; empty ones are left out."""
    return "\n\n".join("\n".join(block) for block in _blocks(content)) + "\n"


def _blocks(content: Mapping[str, Any]) -> Iterator[list[str]]:
    given = {key: value for key, value in content.items() if value not in ("", {})}
    yield [f"{key} = {_value(value)}" for key, value in given.items() if not isinstance(value, Mapping)]
    for key, table in given.items():
        if key in ("models", "units", "events"):
            for name, entries in table.items():
                yield [f"[{key}.{_key(name)}]", *_unit_lines(entries)]
        elif isinstance(table, Mapping):
            yield [f"[{key}]", *(f"{_key(name)} = {_value(value)}" for name, value in table.items())]


def _unit_lines(entries: Mapping[str, Any]) -> Iterator[str]:
    for key, value in entries.items():
        if key in _SPREAD and isinstance(value, Mapping) and value:
            for name, entry in value.items():
                yield f"{_key(key)}.{_key(name)} = {_value(entry)}"
        elif key in _SPREAD and isinstance(value, list):
            yield f"{_key(key)} = ["
            yield from (f"    {_value(entry)}," for entry in value)
            yield "]"
        else:
            yield f"{_key(key)} = {_value(value)}"


def _value(value: Any) -> str:
    """On one line; strings and numbers are left to the library, which knows all their rules."""
    if isinstance(value, Mapping):
        pairs = [f"{_key(key)} = {_value(item)}" for key, item in value.items() if item is not None]
        return f"{{ {', '.join(pairs)} }}" if pairs else "{}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_value(item) for item in value)}]"
    if isinstance(value, PurePath):
        value = str(value)
    return tomli_w.dumps({"v": value}).removeprefix("v = ").rstrip("\n")


def _key(key: str) -> str:
    return key if _BARE.match(key) else tomli_w.dumps({key: 0}).removesuffix(" = 0\n")
