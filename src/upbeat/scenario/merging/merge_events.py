"""Events between units where the units are merged into one: they become events of that one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from upbeat.core.abilities import Model
from upbeat.core.expr import Expr, substitute
from upbeat.core.names import cell_names
from upbeat.scenario.directory import EVENTS, End
from upbeat.scenario.events.sights import Sight, sights
from upbeat.scenario.events.watcher import watchers
from upbeat.units.equations.data import Equations
from upbeat.units.equations.ode import Ode

if TYPE_CHECKING:
    from upbeat.scenario.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Happening:
    """An event over the ports of the scenario: new values for cells of units. `end`: the port that sends it.

    It is `logged`, unless it was inside a nested scenario, where nobody sees it.
    """

    end: End
    conditions: tuple[Expr, ...]
    then: tuple[tuple[str, str, Expr], ...]
    logged: bool


def happenings(scenario: Scenario) -> tuple[dict[str, Model], list[Happening]]:
    """The units of a flat scenario without those that watch, and without inputs for what they send; and
    what these watch for."""
    looking = watchers(scenario.units)
    targets: dict[End, tuple[End, ...]] = {}
    for connection in scenario.event_connections:
        for sender in connection.senders:
            if sender.source[0] in looking:
                targets[sender.source] = (*targets.get(sender.source, ()), (connection.unit, connection.port))
    told = {end for ends in targets.values() for end in ends}
    units = {
        name: _without(name, model, told) for name, model in scenario.units.items() if name not in looking
    }
    return units, [_happening(sight, scenario, targets) for sight in sights(scenario)]


def _without(name: str, model: Model, told: set[End]) -> Model:
    """The model without the event inputs through which it was told what to change."""
    ports = {port for unit, port in told if unit == name}
    if not ports or not isinstance(model, Ode):
        return model
    equations = replace(
        model.equations,
        heard=tuple(port for port in model.equations.heard if port.name not in ports),
        events=tuple(event for event in model.equations.events if ports.isdisjoint(event.on)),
    )
    return Ode(**{**equations.to_spec(), "solver": model.solver})


def _happening(sight: Sight, scenario: Scenario, targets: dict[End, tuple[End, ...]]) -> Happening:
    then = []
    for output, values in sight.then:
        for other, port in targets[sight.watcher, output]:
            model = scenario.units[other]
            assert isinstance(model, Ode)  # nothing else lets itself be changed
            then += [(other, cell, new) for cell, new in _changed(model.equations, port, values)]
    return Happening(sight.place, sight.conditions, tuple(then), sight.watcher == EVENTS)


def _changed(equations: Equations, port: str, values: tuple[Expr, ...]) -> list[tuple[str, Expr]]:
    """What an event input with these values gives which cell."""
    heard = next(known for known in equations.heard if known.name == port)
    given = dict(zip(cell_names(port, heard.size), values, strict=True))
    events = [event for event in equations.events if port in event.on]
    return [(cell, substitute(new, given)) for event in events for cell, new in event.then]
