"""Who goes beside which unit, and whether a unit is proven to be linear."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from upbeat.core.abilities import Ability, Model, Rollback, doubt
from upbeat.core.errors import InvalidInput
from upbeat.core.expr import names
from upbeat.core.names import cell_names
from upbeat.core.ports import Causality, Kind, Signal
from upbeat.engine.interpreter.interpret import Interpreter
from upbeat.engine.nesting.model import Nested
from upbeat.master.program import Block
from upbeat.scenario.directory import EVENTS, INPUTS
from upbeat.scenario.events.watcher import Watcher
from upbeat.scenario.merging.inline import path_of
from upbeat.scenario.scenario import Scenario
from upbeat.stability.linear.affine import affine, smooth
from upbeat.stability.linear.beside import Beside, Still
from upbeat.stability.linear.boxed import Boxed, inside_blocks
from upbeat.stability.linear.extended import asked_first
from upbeat.stability.linear.fmus import (
    Directional,
    Exchanged,
    InnerSteps,
    Readable,
    exchange_jacobian,
    scalar,
    usual_inputs,
)
from upbeat.stability.linear.forms import Forms
from upbeat.stability.linear.inner_steps import sizes_inside
from upbeat.stability.linear.jacobians import Symbolic, jacobian
from upbeat.stability.linear.jumping import Jumping, carries_numbers
from upbeat.stability.linear.neighbour import opened
from upbeat.stability.linear.rollback import Told, check_rollback
from upbeat.stability.linear.solved import Solved
from upbeat.stability.linear.tokens import Tokens
from upbeat.stability.linear.tried import Tried, Untold
from upbeat.units.addresses import NativeUnit
from upbeat.units.custom import PythonUnit
from upbeat.units.discrete.front import FrontEnd
from upbeat.units.discrete.model import Discrete
from upbeat.units.discrete.python import PythonDiscrete
from upbeat.units.equations.data import Equations
from upbeat.units.fmi.exchange import Exchange
from upbeat.units.fmi.model import Fmu
from upbeat.units.python import PythonFunction, PythonOde
from upbeat.units.solving.solvers import Cvode, DormandPrince
from upbeat.units.solving.unit import SolvedUnit

Courses = Mapping[tuple[str, str], tuple[float, list[Signal]]]
"""What every input of every unit was given last, and when."""


CALLS = (
    " Inputs come as a list of coefficients, and tokens come back with the numbers in them moved a little."
)
"""What the author of a unit in Python may not have known."""


class How(NamedTuple):
    """How units are linearised: as if they made no errors, perhaps, from when on and for which steps."""

    ideal: bool
    start: float
    step: float


def besides(
    scenario: Scenario,
    forms: Forms,
    machine: Interpreter,
    blocks: Sequence[Block],
    how: How,
    around: str = "",
) -> dict[str, Beside]:
    """Who goes beside the units of `machine`, which is `forms` or its neighbour; `blocks` may come next."""
    found: dict[str, Beside] = {}
    for unit, model in scenario.units.items():
        name, running = around + path_of(scenario, unit), machine.units[unit]
        if opened(model):
            shown = asked_first(unit, blocks)
            found[unit] = _beside_nest(name, model, forms.units[unit], running, shown, how)
        else:
            found[unit] = _beside(name, unit, model, running, forms.courses, how)
    return found


def _beside_nest(name: str, model: Nested, here: Any, there: Any, shown: bool, how: How) -> Beside:
    inside, forms = model.running, here.machine
    step = min(sizes_inside(name, inside.pace, [how.step]))
    own = besides(
        inside.scenario, forms, there.machine, inside_blocks(inside), how._replace(step=step), f"{name}."
    )
    if there is here:
        forms.beside.update(own)
    return Boxed(inside, forms, there.machine, own, shown=shown)


def _beside(name: str, key: str, model: Model, unit: Any, courses: Courses, how: How) -> Beside:
    """What keeps the linear part of a unit; `InvalidInput` says what it lacks for that.

    `name` is what people call the unit, `key` its name in the scenario.
    """
    ideal, start, step = how
    if isinstance(unit, SolvedUnit):
        return Solved(unit, jacobian(model, unit), _labels(model, len(unit.state)), ideal=ideal)
    given = {port.name: partial(courses.get, (key, port.name)) for port in model.ports}
    if not isinstance(model, Watcher) and carries_numbers(model, unit):
        return Jumping(name, unit, model, given)
    if not any(continuous(model)):
        return Still()
    if isinstance(model, Fmu):
        return _beside_fmu(name, model, unit, given, how)
    if type(model) is Nested:
        raise InvalidInput(
            f"'{name}' cannot be linearised: it is a scenario that sends or receives events, and what "
            "happens then is no matrix. Give it inputs and outputs that are signals alone, or judge what is "
            "inside."
        )
    if isinstance(model, PythonUnit) and isinstance(unit, Rollback) and Ability.ROLLBACK in model.abilities:
        if Ability.NEXT_EVENT in model.abilities:
            raise InvalidInput(
                f"'{name}' cannot be linearised: it reacts to events, and what happens then is no matrix."
            )
        told = Told(name, unit, CALLS)
        check_rollback(name, told, model.ports, tuple, start, step)
        return Tried(name, told, model.ports, Tokens(name, told, model.ports, start, step), given, step)
    if isinstance(model, NativeUnit) and Ability.ROLLBACK in model.abilities:
        check_rollback(name, Told(name, unit), model.ports, tuple, start, step)
        return Tried(name, unit, model.ports, Untold(), given, step)
    raise InvalidInput(
        f"'{name}' cannot be linearised: nothing is known of the states of a {type(model).__name__} that "
        "can neither be set back nor tell its derivatives. Write it with equations (Ode, PythonOde), or give "
        "it save() and restore() (Ability.ROLLBACK) with a token made of numbers."
    )


def _beside_fmu(name: str, model: Fmu, unit: Any, given: Any, how: How) -> Beside:
    if isinstance(unit, Exchange):
        facts = Exchanged(unit, model)
        return Solved(facts, exchange_jacobian(facts, model), facts.labels, ideal=how.ideal)
    if not scalar(model):
        raise InvalidInput(f"'{name}' cannot be linearised: it has arrays. Use it for model exchange.")
    if model.interface.directional_derivatives:
        return Directional(unit, model, InnerSteps(name, model, how.start))
    if Ability.ROLLBACK not in model.abilities:
        raise InvalidInput(
            f"'{name}' cannot be linearised: the FMU has no directional derivatives and cannot be set back. "
            "One of them is needed; or use it for model exchange, if it allows that."
        )
    if finding := doubt(model, Ability.ROLLBACK):  # tried in another process: this one may crash in it
        raise InvalidInput(
            f"'{name}' cannot be linearised: what it does would be tried out and undone. {finding}; but for "
            "this it has to be set back: use it for model exchange, if it allows that."
        )
    states = Readable(unit, model, InnerSteps(name, model, how.start))
    check_rollback(name, Told(name, unit), model.ports, states.read, how.start, how.step)
    return Tried(name, unit, model.ports, states, given, how.step, usual_inputs(model))


def continuous(model: Model) -> Iterator[str]:
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


def doubts(scenario: Scenario, around: str = "") -> Iterator[str]:
    """Why a scenario is not proven to be linear, in sentences; none if it is."""
    whole = around.removesuffix(".") or "the scenario"
    called = {unit: around + path_of(scenario, unit) for unit in scenario.units}
    called |= {INPUTS: f"the course of an input of {whole}", EVENTS: whole}
    for unit, model in scenario.units.items():
        equations = getattr(model, "equations", None)
        if opened(model):
            yield from doubts(model.running.scenario, f"{called[unit]}.")
        elif not isinstance(equations, Equations):
            if isinstance(model, (Discrete, FrontEnd, PythonDiscrete)) and not isinstance(model, Watcher):
                yield f"{called[unit]} acts at events, and what they do is tried out at this point"
            elif any(continuous(model)):
                yield f"{called[unit]} is a {type(model).__name__}, and nobody knows whether it is linear"
            else:
                yield f"the events of {called[unit]} are left out"
        elif equations.events:
            yield f"{called[unit]} has events, and a matrix describes the time between them"
        elif not Symbolic(equations).constant:
            yield f"{called[unit]} is not linear"
    for connection in scenario.connections:
        signals = {name for cell in connection.cells for name in names(cell)}
        if not affine(connection.cells, signals):
            yield f"the connection of {called[connection.unit]}.{connection.port} is not linear"


EXACTLY, ROUGHLY, TRYING = 1e-8, 2e-4, 4e-3
"""How far away slopes are looked at again, relatively, that come from rules, from differences, from trying:
further than what they are found with."""


def reach(scenario: Scenario) -> float:
    """How far from a point slopes have to be looked at, because they may jump there; 0 where they cannot."""
    furthest = 0.0
    for model in scenario.units.values():
        equations = getattr(model, "equations", None)
        if opened(model):
            far = reach(model.running.scenario)
        elif isinstance(equations, Equations):
            rates = equations.derivatives.outputs if equations.derivatives is not None else ()
            far = 0.0 if smooth((*rates, *equations.computed.outputs)) else EXACTLY
        elif not any(continuous(model)):
            far = 0.0
        elif isinstance(model, (PythonOde, PythonFunction)) or (
            isinstance(model, Fmu) and model.interface_name == "model-exchange"
        ):
            far = ROUGHLY
        else:
            far = TRYING
        furthest = max(furthest, far)
    cells = [cell for connection in scenario.connections for cell in connection.cells]
    return furthest or (0.0 if smooth(cells) else EXACTLY)


def _exchanged(model: Model) -> bool:
    return isinstance(model, Fmu) and model.interface_name == "model-exchange"


def adaptive(scenario: Scenario, around: str = "") -> Iterator[tuple[str, float | None]]:
    """The units whose solver, as far as is known, chooses its own steps, and its tolerance, if it has one."""
    for unit, model in scenario.units.items():
        name = around + path_of(scenario, unit)
        if opened(model):
            yield from adaptive(model.running.scenario, f"{name}.")
        elif any(continuous(model)) and not isinstance(model, (PythonUnit, NativeUnit)):
            solver = getattr(model, "effective_solver", getattr(model, "solver", None))
            if isinstance(solver, (DormandPrince, Cvode)):
                states = getattr(model, "equations", None)
                if states is None or states.states:
                    yield name, solver.rtol
            elif isinstance(model, Fmu) and solver is None:
                yield name, None
