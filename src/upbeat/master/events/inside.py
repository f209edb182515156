"""Events inside units, as far as units tell of them.

Inputs that follow a unit begin anew where it counts another event, and a pace sees those coming whose
conditions it gives out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

from upbeat.core.abilities import Model
from upbeat.core.errors import ExpressionError
from upbeat.core.expr import Expr, Name
from upbeat.master.wiring import Wiring
from upbeat.scenario.scenario import Scenario
from upbeat.units.equations.ode import Ode
from upbeat.units.process import Isolated


def with_indicators(
    scenario: Scenario, *, conditions: bool = True, units: Collection[str] | None = None
) -> Scenario:
    """The scenario whose units, or some of them, count their own events and, with `conditions`, give out what
    leads to them, if they can."""
    chosen = scenario.units.keys() if units is None else units
    made = {name: _indicating(model, conditions) for name, model in scenario.units.items() if name in chosen}
    return scenario.with_units({name: new for name, new in made.items() if new is not scenario.units[name]})


def _indicating(model: Model, conditions: bool) -> Model:
    inner: Any = model.model if isinstance(model, Isolated) else model
    changed = isinstance(inner, Ode) and type(inner) is not Ode  # what somebody made of it may mean more
    if changed or not hasattr(inner, "indicating"):
        return model
    try:
        made = inner.indicating(conditions=conditions)
    except ExpressionError:  # equations that are too large to be written down once more
        return model
    if made is inner:
        return model
    return replace(model, model=made) if isinstance(model, Isolated) else made


def with_own_events(scenario: Scenario, units: Collection[str] | None = None) -> Iterator[str]:
    """The units, or those among some, that have events inside which a pace can see coming.

    One by one, because it takes their equations with outputs for all conditions to know.
    """
    for name, model in scenario.units.items():
        chosen = units is None or name in units
        if chosen and any(port.indicates for port in _indicating(model, conditions=True).ports):
            yield name


def own_conditions(wiring: Wiring) -> dict[str, tuple[Expr, ...]]:
    """The conditions of events inside units by name, ``unit.event``."""
    found: dict[str, tuple[Expr, ...]] = {}
    for unit, model in wiring.scenario.units.items():
        for port in model.ports:
            if port.indicates:
                name = f"{wiring.called(unit)}.{port.indicates}"
                found[name] = (*found.get(name, ()), Name(f"{unit}.{port.name}"))
    return found
