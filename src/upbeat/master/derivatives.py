"""Derivatives of inputs, from what outputs declare to be their derivatives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from upbeat.core.errors import MasterError
from upbeat.core.expr import Expr, Name, time_derivative
from upbeat.core.expr import names as expr_names
from upbeat.core.names import resolve, split
from upbeat.core.ports import Port
from upbeat.scenario.directory import INPUTS
from upbeat.scenario.scenario import Scenario


def with_derivative_sources(scenario: Scenario, wanted: Mapping[str, int]) -> Scenario:
    """The scenario in which inputs also depend on the outputs that give their `wanted` derivatives."""
    ports = {(unit, port.name): port for unit, model in scenario.units.items() for port in model.ports}
    connections = []
    for connection in scenario.connections:
        sources = newest = connection.sources
        for _ in range(wanted.get(connection.target, 0)):
            newest = tuple((unit, ports[unit, port].derivative or port) for unit, port in newest)
            sources = tuple(dict.fromkeys((*sources, *newest)))
        connections.append(replace(connection, sources=sources))
    return scenario.with_connections(tuple(connections))


def rate(cell: Expr, ports: Mapping[tuple[str, str], Port], target: str) -> Expr:
    """The time derivative of an expression over outputs, by their declared derivatives."""
    rates: dict[str, Expr] = {}
    for name in expr_names(cell):
        unit, rest = split(name)
        port, index = resolve(rest, {known for owner, known in ports if owner == unit})
        derivative = ports[unit, port].derivative
        if derivative is None and unit == INPUTS:
            raise MasterError(
                f"{target} is to be approximated with derivatives, but '{port}' is an input of the scenario, "
                f'whose derivative nobody gives. Choose another approximation: ports={{"{target}": '
                f'up.Linear()}} (in a file: [master.ports] with "{target}" = "linear").'
            )
        if derivative is None:
            raise MasterError(
                f"{target} is to be approximated with derivatives, but {unit}.{port} does not say "
                f'which output is its derivative. Write outputs = {{ {port} = {{ derivative = "…" }} }}.'
            )
        rates[name] = Name(f"{unit}.{derivative}" if index is None else f"{unit}.{derivative}[{index}]")
    return time_derivative(cell, rates)
