"""Derivatives of inputs, from what outputs declare to be their derivatives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from upbeat.core.abilities import Model
from upbeat.core.errors import MasterError
from upbeat.core.expr import Expr, Name, time_derivative
from upbeat.core.expr import names as expr_names
from upbeat.core.names import resolve, split
from upbeat.core.ports import Port
from upbeat.master.inputs.approximation import Approximation, Linear
from upbeat.scenario.directory import INPUTS
from upbeat.scenario.merging.inline import path_of
from upbeat.scenario.scenario import Scenario
from upbeat.units.equations.ode import Function, Ode
from upbeat.units.process import Isolated


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
    return scenario.with_parts(connections=tuple(connections))


def with_rates(scenario: Scenario, wanted: Mapping[str, int], followed: int = 0) -> Scenario:
    """The scenario whose units of equations give out the derivatives that are `wanted` of inputs, and so many
    of conditions of their own events, as far as these follow from their equations."""
    asked: dict[str, dict[str, int]] = {}
    for unit, model in scenario.units.items():
        if own := {port.name: followed for port in model.ports if port.indicates and followed}:
            asked[unit] = own
    for connection in scenario.connections:
        order = wanted.get(connection.target, 0)
        for unit, port in connection.sources if order else ():
            of_unit = asked.setdefault(unit, {})
            of_unit[port] = max(order, of_unit.get(port, 0))
    units = {unit: _giving_rates(scenario.units[unit], ports) for unit, ports in asked.items()}
    return scenario.with_units({u: model for u, model in units.items() if model is not scenario.units[u]})


def _giving_rates(model: Model, ports: Mapping[str, int]) -> Model:
    inner: Any = model.model if isinstance(model, Isolated) else model
    if type(inner) not in (Ode, Function):  # what somebody made of it may mean something else
        return model
    made = inner.giving_rates(ports)
    if made is inner:
        return model
    return replace(model, model=made) if isinstance(model, Isolated) else made


def with_states(scenario: Scenario) -> Scenario:
    """The scenario whose units of equations give out all their states."""
    made: dict[str, Model] = {}
    for unit, model in scenario.units.items():
        inner: Any = model.model if isinstance(model, Isolated) else model
        if type(inner) is Ode and (shown := inner.showing()) is not inner:
            made[unit] = replace(model, model=shown) if isinstance(model, Isolated) else shown
    return scenario.with_units(made) if made else scenario


def grown(scenario: Scenario) -> list[str]:
    """What `with_rates` has added, in a sentence."""
    found = [
        f"{path_of(scenario, unit)}.{port.name}"
        for unit, model in scenario.units.items()
        for port in model.ports
        if port.derivative is not None
        for rate in model.ports
        if rate.name == port.derivative and rate.internal and not port.internal
    ]
    return [f"from the equations of their units: derivatives of {', '.join(found)}"] if found else []


def rate(cell: Expr, ports: Mapping[tuple[str, str], Port], target: str) -> Expr:
    """The time derivative of an expression over outputs, by their declared derivatives."""
    rates: dict[str, Expr] = {}
    for name in expr_names(cell):
        unit, rest = split(name)
        port, index = resolve(rest, {rest} if (unit, rest) in ports else ())
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


def lines(closed: Scenario, usual: Approximation) -> dict[str, Approximation]:
    """Straight lines for inputs that a master has made for itself, where the `usual` approximation wants
    derivatives that nobody knows: no user could give these another one."""
    ports = {(unit, port.name): port for unit, model in closed.units.items() for port in model.ports}
    found: dict[str, Approximation] = {}
    for connection in closed.connections:
        cells = connection.cells
        if not ports[connection.unit, connection.port].internal:
            continue
        try:
            for _ in range(usual.derivatives):
                cells = tuple(rate(cell, ports, connection.target) for cell in cells)
        except MasterError:
            found[connection.target] = Linear()
    return found
