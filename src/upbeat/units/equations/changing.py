"""Equations whose quantities can be changed from outside, at an instant: an event input for each of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from upbeat.core.names import cell_names
from upbeat.core.ports import Kind, Port
from upbeat.units.equations.data import Equations


def changeable(equations: Equations) -> dict[str, Port]:
    """What an event may give a new value: states, variables and parameters. Functions have no events."""
    if not equations.states:
        return {}
    states = (state.port for state in equations.states)
    settable = (*states, *equations.variables, *equations.parameters)
    return {port.name: port for port in settable if port.kind is not Kind.STRING}


def with_changes(
    equations: Equations, spec: Mapping[str, Any], names: Iterable[str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """The table of a model, `spec`, with an event input for each of `names`; and what the inputs are called.

    What arrives there becomes the new value, after all that the unit does by itself at that instant.
    """
    known = changeable(equations)
    inputs, events = dict(spec.get("inputs", {})), dict(spec.get("events", {}))
    taken = {name for key in spec for name in (spec[key] if isinstance(spec[key], Mapping) else ())}
    ports: dict[str, str] = {}
    for name in names:
        port = known[name]
        made = free_name(f"new_{name}", taken)
        entry: dict[str, Any] = {"event": True, "size": port.size, "unit": port.unit}
        entry |= {"items": list(port.items)} if port.items else {"kind": _carried(port).value}
        inputs[made] = {key: value for key, value in entry.items() if value is not None}
        read = [_read(cell, port) for cell in cell_names(made, port.size)]
        value: Any = read if port.size is not None else read[0]
        events[free_name(f"change_{name}", taken)] = {"on": made, "then": {name: value}}
        ports[name] = made
    return {**spec, "inputs": inputs, "events": events}, ports


def _carried(port: Port) -> Kind:
    """An event that carries a truth is always true: a false one travels as 0."""
    return Kind.INTEGER if port.kind is Kind.BOOLEAN else port.kind


def _read(cell: str, port: Port) -> str:
    return f"{cell} > 0" if port.kind is Kind.BOOLEAN else cell


def free_name(wanted: str, taken: set[str]) -> str:
    """A name that nobody has yet; it is taken from now on."""
    while "__" in wanted:
        wanted = wanted.replace("__", "_")
    name, count = wanted, 1
    while name in taken:
        count += 1
        name = f"{wanted}_{count}"
    taken.add(name)
    return name
