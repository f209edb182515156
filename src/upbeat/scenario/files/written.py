"""Scenarios as plain tables, of which `upbeat.scenario.files.toml` makes text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from upbeat.core.abilities import Model
from upbeat.core.errors import InvalidInput
from upbeat.core.expr import Expr, show
from upbeat.core.ports import Causality, Port
from upbeat.scenario.connection import ScenarioOutput, deliver
from upbeat.scenario.directory import Directory, Wrong
from upbeat.scenario.events.links import EventOutput, deliver_event
from upbeat.scenario.files.definitions import isolation_table, table_of
from upbeat.scenario.scenario import Scenario
from upbeat.units.process import as_isolated
from upbeat.units.shorthand import port_spec

if TYPE_CHECKING:
    from upbeat.properties.robustness import Property

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
        "properties": {one.name: _property(one) for one in scenario.properties},
        "structures": {
            one.name: _in_a_file(one.written, f"the structure '{one.name}'") for one in scenario.structures
        },
    }


def _in_a_file(value: Any, what: str) -> Any:
    """Plain data as a file can hold it."""
    if isinstance(value, Mapping):
        return {str(key): _in_a_file(item, what) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_in_a_file(item, what) for item in value]
    if callable(value):
        raise InvalidInput(
            f"{what} cannot be written: {getattr(value, '__name__', value)} is a Python function, "
            'and files have no code in them. Write the condition as an expression: when = "a.x <= 0".'
        )
    return show(value) if isinstance(value, Expr) else value


def _property(one: Property) -> str | dict[str, str]:
    return {"holds": one.text, "online": one.online} if one.online else one.text


def _shared_models(
    units: Mapping[str, Model], special: Special | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A model that several units use is written once, under the name of the first of them."""

    def table(name: str, model: Model) -> dict[str, Any]:
        isolated = as_isolated(model)
        if isolated is not None:
            return table(name, isolated.model) | isolation_table(isolated)
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
