"""Derivatives of inputs, from what outputs declare to be their derivatives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from upbeat.core.abilities import Model
from upbeat.core.errors import ExpressionError, MasterError
from upbeat.core.expr import Expr, Name, time_derivative
from upbeat.core.expr import names as expr_names
from upbeat.core.names import resolve, split
from upbeat.core.ports import Kind, Port
from upbeat.master.inputs.approximation import Approximation, Hermite, Hold, Linear
from upbeat.scenario.directory import INPUTS
from upbeat.scenario.events.functions import Conditions
from upbeat.scenario.events.watcher import Watcher
from upbeat.scenario.merging.inline import path_of
from upbeat.scenario.scenario import Scenario
from upbeat.units.discrete.model import Discrete
from upbeat.units.equations.ode import Function, Ode
from upbeat.units.process import Isolated, bare


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
    try:
        made = inner.giving_rates(ports)
    except ExpressionError:  # derivatives that are too large to be written down
        return model
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


def known(closed: Scenario, most: int) -> dict[str, int]:
    """How many time derivatives of each connected real input are known, up to so many."""
    ports = {(unit, port.name): port for unit, model in closed.units.items() for port in model.ports}
    found: dict[str, int] = {}
    for connection in closed.connections:
        if ports[connection.unit, connection.port].kind is not Kind.REAL:
            continue
        cells, count = connection.cells, 0
        try:
            while count < most:
                cells = tuple(rate(cell, ports, connection.target) for cell in cells)
                count += 1
        except MasterError:
            pass
        found[connection.target] = count
    return found


def standing(closed: Scenario) -> set[str]:
    """The connected inputs that really stand still between events: only discrete-event units drive them."""
    units = closed.units
    return {
        c.target
        for c in closed.connections
        if all(unit in units and isinstance(bare(units[unit]), Discrete) for unit, _ in c.sources)
    }


def fitted(closed: Scenario, usual: Approximation) -> dict[str, Approximation]:
    """What inputs do of which fewer derivatives are known than the `usual` approximation wants: with as many
    as there are, or else a straight line.

    Somebody's own approximation is left as it is, but for inputs that a master has made for itself: no user
    could give these another one.
    """
    if not usual.derivatives:
        return {}
    internal = {
        f"{u}.{port.name}" for u, model in closed.units.items() for port in model.ports if port.internal
    }
    still, found = standing(closed), dict[str, Approximation]()
    for target, count in known(closed, usual.derivatives).items():
        if count == usual.derivatives or not (type(usual) is Hermite or target in internal):
            continue
        line = Hold() if target in still else Linear()
        found[target] = Hermite(count) if count and type(usual) is Hermite else line
    return found


def fallen(closed: Scenario, usual: Approximation, given: Mapping[str, Approximation]) -> list[str]:
    """What `fitted` has done, in sentences."""
    looking = {u for u, model in closed.units.items() if isinstance(model, Watcher | Conditions)}
    ways: dict[Approximation, list[str]] = {}
    for target, chosen in fitted(closed, usual).items():
        unit, port = split(target)
        own = next(one for one in closed.units[unit].ports if one.name == port)
        if unit not in looking and target not in given and not own.internal:
            ways.setdefault(chosen, []).append(f"{path_of(closed, unit)}.{port}")
    return [
        f"{', '.join(names)}: {chosen!r}, because no more is known of how what it follows changes"
        for chosen, names in ways.items()
    ]
