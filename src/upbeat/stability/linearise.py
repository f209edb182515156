"""Who goes beside which unit, and whether a unit is proven to be linear."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from upbeat.core.abilities import Model, Unit
from upbeat.core.errors import InvalidInput
from upbeat.core.expr import names
from upbeat.core.names import cell_names
from upbeat.core.ports import Causality, Kind
from upbeat.scenario.scenario import Scenario
from upbeat.scenario.watcher import Watcher
from upbeat.stability.affine import affine
from upbeat.stability.beside import Beside, Solved, Still
from upbeat.stability.jacobians import jacobian, symbolic
from upbeat.units.equations import Equations
from upbeat.units.solved_unit import SolvedUnit


def beside(name: str, model: Model, unit: Unit, *, ideal: bool) -> Beside:
    """What keeps the linear part of a unit; `InvalidInput` says what it lacks for that."""
    if isinstance(unit, SolvedUnit):
        return Solved(unit, jacobian(model, unit), _labels(model, len(unit.state)), ideal=ideal)
    if not any(_continuous(model)):
        return Still()
    raise InvalidInput(
        f"'{name}' cannot be linearised: nothing is known of the states of a {type(model).__name__}, which "
        "can neither be set back nor tell its derivatives. Write it with equations (Ode, PythonOde), or give "
        "it save() and restore() (Ability.ROLLBACK) with a token made of numbers."
    )


def _continuous(model: Model) -> Iterator[str]:
    """The outputs of a unit that others can follow with rows of their own."""
    if not isinstance(model, Watcher):
        for port in model.ports:
            if port.causality is Causality.OUTPUT and port.kind is Kind.REAL and not port.event:
                yield port.name


def _labels(model: object, count: int) -> tuple[str, ...]:
    """The names of a unit's states."""
    equations = getattr(model, "equations", None)
    ports = (
        [state.port for state in equations.states] if equations is not None else getattr(model, "states", ())
    )
    found = tuple(name for port in ports for name in cell_names(port.name, port.size))
    return found if len(found) == count else tuple(f"state {i + 1}" for i in range(count))


def doubts(scenario: Scenario, called: Mapping[str, str]) -> Iterator[str]:
    """Why a scenario is not proven to be linear, in sentences; none if it is."""
    for unit, model in scenario.units.items():
        equations = getattr(model, "equations", None)
        if not isinstance(equations, Equations):
            if any(_continuous(model)):
                yield f"{called[unit]} is a {type(model).__name__}, and nobody knows whether it is linear"
            else:
                yield f"what {called[unit]} does at events is left out"
        elif equations.events:
            yield f"{called[unit]} has events, and a matrix describes the time between them"
        elif not symbolic(equations).constant:
            yield f"{called[unit]} is not linear"
    for connection in scenario.connections:
        signals = {name for cell in connection.cells for name in names(cell)}
        if not affine(connection.cells, signals):
            yield f"the connection of {called[connection.unit]}.{connection.port} is not linear"
