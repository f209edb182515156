"""Derivatives of inputs, from what outputs declare to be their derivatives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from upbeat.core.abilities import Model, TellsRates
from upbeat.core.errors import ExpressionError, MasterError
from upbeat.core.expr import Expr, Name, show, time_derivative
from upbeat.core.expr import names as expr_names
from upbeat.core.names import resolve, split
from upbeat.core.ports import Causality, Kind, Port
from upbeat.master.inputs.approximation import Approximation, Hermite, Hold, Linear
from upbeat.scenario.connection import Connection
from upbeat.scenario.directory import INPUTS, End
from upbeat.scenario.events.watcher import looks_at_instants
from upbeat.scenario.merging.inline import path_of
from upbeat.scenario.scenario import Scenario
from upbeat.units.discrete.model import changes_at_instants
from upbeat.units.equations.ode import equations_of
from upbeat.units.equations.rates import RATE, needed_rates
from upbeat.units.process import bare, placed_like


def with_derivative_sources(scenario: Scenario, wanted: Mapping[str, int]) -> Scenario:
    """The scenario in which inputs also have the outputs that give their `wanted` derivatives as sources."""
    if not any(wanted.values()):
        return scenario
    ports = {(unit, port.name): port for unit, model in scenario.units.items() for port in model.ports}
    connections = []
    for connection in scenario.connections:
        sources = newest = connection.sources
        for _ in range(wanted.get(connection.target, 0)):
            newest = tuple((unit, ports[unit, port].derivative or port) for unit, port in newest)
            sources = tuple(dict.fromkeys((*sources, *newest)))
        rates = sources[len(connection.sources) :]
        connections.append(replace(connection, sources=sources, rates=rates))
    return scenario.with_parts(connections=tuple(connections))


def with_rates(
    scenario: Scenario, wanted: Mapping[str, int], followed: int = 0, *, alone: bool = False
) -> Scenario:
    """The scenario whose units give out the derivatives that are `wanted` of inputs, and so many of
    conditions of their own events, as far as these follow from the equations of all units, or are told
    (`TellsRates`).

    What an output follows directly comes in with its derivatives, as more inputs of the unit: that of a force
    between two masses follows from their velocities, wherever it is computed. Not if units are to tell what
    they can `alone`.
    """
    if not followed and not wanted:
        return scenario
    asked: dict[End, int] = {}
    for unit, model in scenario.units.items():
        asked |= {(unit, port.name): followed for port in model.ports if port.indicates and followed}
    for connection in scenario.connections:
        order = wanted.get(connection.target, 0)
        for end in connection.sources if order else ():
            asked[end] = max(order, asked.get(end, 0))
    if not asked:
        return scenario
    limits: dict[End, int] = {}
    while True:
        plan = _Plan(scenario, limits, alone)
        for end, order in asked.items():
            plan.ask(end, next((k for k in range(order, 0, -1) if plan.can(end, k)), 0))
        made = plan.grown()
        lacking = plan.lacking(made)
        if not lacking:
            return made
        limits |= lacking


def rates_fed(scenario: Scenario) -> set[str]:
    """The inputs that `with_rates` has made. Nothing but outputs at communication points depends on them."""
    return {
        f"{unit}.{port.name}"
        for unit, model in scenario.units.items()
        for port in model.ports
        if port.internal and port.causality is Causality.INPUT and port.description.startswith(RATE)
    }


class _Plan:
    """Who gives out how many derivatives of what, and whose inputs need how many for it.

    `limits`: outputs whose derivatives turned out not to go further, because they would be too large to be
    written down, or look into a table.
    """

    def __init__(self, scenario: Scenario, limits: Mapping[End, int], alone: bool) -> None:
        self._scenario, self._limits, self._alone = scenario, limits, alone
        self._connections = {(c.unit, c.port): c for c in scenario.connections}
        self._ports = _ports(scenario)
        self._able: dict[tuple[End, int], bool] = {}
        self.outputs: dict[str, dict[str, int]] = {}
        self.inputs: dict[str, dict[str, int]] = {}

    def can(self, end: End, order: int) -> bool:
        """Whether so many derivatives of an output can be told. Not on an algebraic loop."""
        if (end, order) not in self._able:
            self._able[end, order] = False  # what needs itself
            self._able[end, order] = self._can(end, order)
        return self._able[end, order]

    def _can(self, end: End, order: int) -> bool:
        unit, port = end[0], self._ports.get(end)
        if not order:
            return True
        if port is None or port.kind is not Kind.REAL:
            return False
        if port.derivative is not None:
            return self.can((unit, port.derivative), order - 1)
        model = bare(self._scenario.units[unit])
        told = model.known_rates(end[1]) if isinstance(model, TellsRates) else 0
        if order > self._limits.get(end, order) or (equations_of(model) is None and order > told):
            return False
        needs = self._needs(end, order).items()
        if needs and self._alone:
            return False
        return all(self._connections.get((unit, known)) is not None for known, _ in needs) and all(
            self.can(source, k)
            for known, max_order in needs
            for source in self._connections[unit, known].sources
            for k in range(1, max_order + 1)
        )

    def _needs(self, end: End, order: int) -> dict[str, int]:
        equations = equations_of(bare(self._scenario.units[end[0]]))
        return needed_rates(equations, end[1], order) if equations is not None else {}

    def ask(self, end: End, order: int) -> None:
        """Let so many derivatives of an output be given out, and what it takes for that."""
        unit, name = end
        known = self.outputs.setdefault(unit, {})
        if order <= known.get(name, 0):
            return
        known[name] = order
        for port, max_order in self._needs(end, order).items():
            fed = self.inputs.setdefault(unit, {})
            fed[port] = max(max_order, fed.get(port, 0))
            for source in self._connections[unit, port].sources:
                self.ask(source, max_order)

    def grown(self) -> Scenario:
        """The scenario with all that was asked for, where it could be made."""
        scenario = self._scenario
        units = {
            unit: _giving_rates(scenario.units[unit], ports, self.inputs.get(unit, {}))
            for unit, ports in self.outputs.items()
        }
        units = {unit: model for unit, model in units.items() if model is not scenario.units[unit]}
        made = scenario.with_units(units)
        ports, more = _ports(made), list[Connection]()
        for unit, fed in self.inputs.items():
            before, after = (equations_of(bare(one.units[unit])) for one in (scenario, made))
            if before is None or after is None or len(after.inputs) == len(before.inputs):
                continue
            names = iter(port.name for port in after.inputs[len(before.inputs) :])
            for port, max_order in fed.items():
                cells = self._connections[unit, port].cells
                for _ in range(max_order):
                    cells = tuple(rate(cell, ports, f"{unit}.{port}") for cell in cells)
                    ends = (split(name) for cell in cells for name in sorted(expr_names(cell)))
                    sources = tuple(dict.fromkeys((u, rest.partition("[")[0]) for u, rest in ends))
                    more.append(Connection(unit, next(names), cells, sources, tuple(map(show, cells))))
        return made.with_parts(connections=(*made.connections, *more)) if more else made

    def lacking(self, made: Scenario) -> dict[End, int]:
        """The outputs that give out fewer derivatives than they should, and how many these are."""
        ports, found = _ports(made), dict[End, int]()
        for unit, outputs in self.outputs.items():
            for name, order in outputs.items():
                if (count := _chain(ports, (unit, name), order)) < order:
                    found[unit, name] = count
        return found


def _chain(ports: Mapping[End, Port], end: End, max_order: int) -> int:
    """How many derivatives of an output are given out."""
    count = 0
    while count < max_order and (derivative := ports[end].derivative) is not None:
        end, count = (end[0], derivative), count + 1
    return count


def _ports(scenario: Scenario) -> dict[End, Port]:
    return {(unit, port.name): port for unit, model in scenario.units.items() for port in model.ports}


def _giving_rates(model: Model, ports: Mapping[str, int], fed: Mapping[str, int]) -> Model:
    inner: Any = bare(model)
    if equations_of(inner) is None and not isinstance(inner, TellsRates):
        return model
    try:
        made = inner.giving_rates(ports, fed)
    except ExpressionError:  # derivatives that are too large to be written down
        return model
    if made is inner:
        return model
    return placed_like(model, made)


def with_states(scenario: Scenario) -> Scenario:
    """The scenario whose units of equations give out all their states."""
    made: dict[str, Model] = {}
    for unit, model in scenario.units.items():
        inner: Any = bare(model)
        equations = equations_of(inner)
        if equations and equations.states and (shown := inner.showing()) is not inner:
            made[unit] = placed_like(model, shown)
    return scenario.with_units(made) if made else scenario


def grown(scenario: Scenario) -> list[str]:
    """What `with_rates` has added, in a sentence."""
    found: dict[str, list[str]] = {"from the equations of their units": [], "told by their units": []}
    for unit, model in scenario.units.items():
        made = {port.name for port in model.ports if port.internal}
        whence = found[
            "told by their units"
            if equations_of(bare(model)) is None
            else "from the equations of their units"
        ]
        whence += [
            f"{path_of(scenario, unit)}.{port.name}"
            for port in model.ports
            if port.derivative in made and not port.internal
        ]
    return [f"{whence}: derivatives of {', '.join(names)}" for whence, names in found.items() if names]


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
                f'whose derivative is not known. Choose another approximation: ports={{"{target}": '
                f'up.Linear()}} (in a file: [master.ports] with "{target}" = "linear").'
            )
        if derivative is None:
            raise MasterError(
                f"{target} is to be approximated with derivatives, but {unit}.{port} does not say "
                f'which output is its derivative. Write outputs = {{ {port} = {{ derivative = "…" }} }}.'
            )
        rates[name] = Name(f"{unit}.{derivative}" if index is None else f"{unit}.{derivative}[{index}]")
    return time_derivative(cell, rates)


def known(closed: Scenario, max_order: int) -> dict[str, int]:
    """How many time derivatives of each connected real input are known, up to so many."""
    ports = {(unit, port.name): port for unit, model in closed.units.items() for port in model.ports}
    found: dict[str, int] = {}
    for connection in closed.connections:
        if ports[connection.unit, connection.port].kind is not Kind.REAL:
            continue
        cells, count = connection.cells, 0
        try:
            while count < max_order:
                cells = tuple(rate(cell, ports, connection.target) for cell in cells)
                count += 1
        except MasterError:
            pass
        found[connection.target] = count
    return found


def constant_inputs(closed: Scenario) -> set[str]:
    """The connected inputs that are really constant between events: only discrete-event units drive them."""
    units = closed.units
    return {
        c.target
        for c in closed.connections
        if all(unit in units and changes_at_instants(bare(units[unit])) for unit, _ in c.sources)
    }


def fitted(closed: Scenario, usual: Approximation) -> dict[str, Approximation]:
    """What inputs do of which fewer derivatives are known than the `usual` approximation wants: with as many
    as there are, or else a straight line.

    A user's own approximation is left as it is, but for inputs that a master has made for itself: no user
    could give these another one.
    """
    internal = {
        f"{u}.{port.name}" for u, model in closed.units.items() for port in model.ports if port.internal
    }
    still, fed, found = constant_inputs(closed), rates_fed(closed), dict[str, Approximation]()
    for target, count in known(closed, usual.derivatives).items():
        if target in fed or count == usual.derivatives or not (type(usual) is Hermite or target in internal):
            continue
        line = Hold() if target in still else Linear()
        found[target] = Hermite(count) if count and type(usual) is Hermite else line
    return found


def fallen(
    closed: Scenario, fitted: Mapping[str, Approximation], given: Mapping[str, Approximation]
) -> list[str]:
    """What `fitted` has done, in sentences."""
    looking = {u for u, model in closed.units.items() if looks_at_instants(model)}
    ways: dict[Approximation, list[str]] = {}
    for target, chosen in fitted.items():
        unit, port = split(target)
        own = next(one for one in closed.units[unit].ports if one.name == port)
        if unit not in looking and target not in given and not own.internal:
            ways.setdefault(chosen, []).append(f"{path_of(closed, unit)}.{port}")
    return [
        f"{', '.join(names)}: {chosen!r}, because no more is known of how what it follows changes"
        for chosen, names in ways.items()
    ]
