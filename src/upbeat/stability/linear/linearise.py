"""Who goes beside which unit, and whether a unit is proven to be linear."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from upbeat.core.abilities import Ability, Model, Rollback, doubt
from upbeat.core.errors import InvalidInput
from upbeat.core.expr import names
from upbeat.core.names import cell_names
from upbeat.core.ports import Causality, Kind, Port, Signal
from upbeat.engine.interpreter.interpret import Interpreter
from upbeat.engine.nesting.model import Nested
from upbeat.master.program import Block
from upbeat.scenario.directory import EVENTS, INPUTS
from upbeat.scenario.events.connection import Sender
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
from upbeat.units.equations.data import TIME, Equations
from upbeat.units.equations.events import EquationEvent
from upbeat.units.fmi.description import ModelExchange
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
    if isinstance(model.interface, ModelExchange):
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


class Doubt(NamedTuple):
    """Why a scenario is not proven to be linear."""

    what: str
    """In a sentence."""
    curved: bool = True
    """Whether slopes may differ from point to point; otherwise only events are in the way."""


def doubts(scenario: Scenario, around: str = "") -> Iterator[Doubt]:
    """Why a scenario is not proven to be linear; none if it is."""
    whole = around.removesuffix(".") or "the scenario"
    called = {unit: around + path_of(scenario, unit) for unit in scenario.units}
    called |= {INPUTS: f"the course of an input of {whole}", EVENTS: whole}
    for unit, model in scenario.units.items():
        equations, name = getattr(model, "equations", None), called[unit]
        if opened(model):
            yield from doubts(model.running.scenario, f"{name}.")
        elif isinstance(equations, Equations):
            if equations.events:
                yield Doubt(f"{name} has events, and a matrix describes the time between them", False)
            if not Symbolic(equations).constant:
                yield Doubt(f"{name} is not linear")
        elif isinstance(model, (Discrete, FrontEnd, PythonDiscrete)) and not isinstance(model, Watcher):
            yield Doubt(f"{name} acts at events, and what they do is tried out at this point")
        elif any(continuous(model)):
            yield Doubt(f"{name} is a {type(model).__name__}, and nobody knows whether it is linear")
        else:
            yield Doubt(f"the events of {name} are left out", False)
    for connection in scenario.connections:
        signals = {name for cell in connection.cells for name in names(cell)}
        if not affine(connection.cells, signals):
            yield Doubt(f"the connection of {called[connection.unit]}.{connection.port} is not linear")


class Unseen(NamedTuple):
    """Events that change what a unit does, in a way that is in no matrix of a step."""

    what: str
    """Whose they are and what they change, in words."""
    planned: bool
    """Whether they come at times, and with values, that no state changes, and leave the states alone: then
    the matrices of steps are right while nothing happens, and those along a run are all right."""


def unseen_events(scenario: Scenario, around: str = "") -> Iterator[Unseen]:
    """The events that no matrix of a step contains, unless it is proven that they do not matter.

    They do not, if no derivative, and no output that others follow, depends on what they change; nor if that
    is only added, at times and with values that no state changes, in a scenario that is linear otherwise.
    """
    followed = {end for c in scenario.connections if not _watches(scenario, c.unit) for end in c.sources}
    sent: dict[tuple[str, str], list[Sender]] = {}
    for connection in scenario.event_connections:
        for sender in connection.senders:
            followed |= set(sender.reads)
            sent.setdefault((connection.unit, connection.port), []).append(sender)
    if around:  # who is around it may follow them
        followed |= {end for output in scenario.outputs for end in output.sources}
    all_equations = [getattr(model, "equations", None) for model in scenario.units.values()]
    added_only = all(
        isinstance(model, Watcher) or (isinstance(own, Equations) and Symbolic(own).constant)
        for model, own in zip(scenario.units.values(), all_equations, strict=True)
    ) and all(affine(c.cells, {n for cell in c.cells for n in names(cell)}) for c in scenario.connections)
    heard_from = {sender.source for senders in sent.values() for sender in senders}
    for unit, model in scenario.units.items():
        name, equations = around + path_of(scenario, unit), getattr(model, "equations", None)
        if opened(model):
            yield from unseen_events(model.running.scenario, f"{name}.")
        elif isinstance(equations, Equations) and equations.events:
            yield from _unseen_of(name, unit, equations, scenario, followed, sent, added_only)
    for unit, model in scenario.units.items():
        discrete = getattr(model, "discrete", model)
        if isinstance(discrete, Discrete) and not isinstance(model, Watcher):
            given = {c.port for c in scenario.connections if c.unit == unit}
            read = [
                cell for mode in discrete.modes for cell in names(mode.due) if cell.split("[")[0] in given
            ]
            if read and any(of == unit for of, _ in (*followed, *heard_from)):
                name = around + path_of(scenario, unit)
                yield Unseen(f"when '{name}' has events depends on {', '.join(sorted(set(read)))}", False)
        if isinstance(model, Watcher):
            for event in model.events:
                by_state = any(not names(z) <= {TIME} for z in event.conditions)
                if by_state and (unit, event.name) in heard_from:
                    yield Unseen(
                        f"event '{around}{event.name}' depends on states and is sent to units", False
                    )


def _watches(scenario: Scenario, unit: str) -> bool:
    return isinstance(scenario.units.get(unit), Watcher)


def _unseen_of(
    name: str,
    unit: str,
    equations: Equations,
    scenario: Scenario,
    followed: Collection[tuple[str, str]],
    sent: Mapping[tuple[str, str], Sequence[Sender]],
    added_only: bool,
) -> Iterator[Unseen]:
    """The same about one unit given by equations."""
    rates = equations.derivatives.outputs if equations.derivatives is not None else ()
    ports = [one.port for one in equations.outputs for _ in range(one.port.cells)]
    given = [
        expression
        for port, expression in zip(ports, equations.computed.outputs, strict=True)
        if (unit, port.name) in followed and not port.internal  # masters look at these, and no unit
    ]
    used = {n for expression in (*rates, *given) for n in names(expression)}
    states = set(_cells([state.port for state in equations.states]))
    moving = states | set(_cells(equations.inputs))
    in_slopes = {n for entry in Symbolic(equations).entries for n in names(entry)}
    planned = _planned(unit, equations, scenario, sent, moving)
    changes: dict[str, None] = {}
    events: dict[str, None] = {}
    all_planned = True
    for event in equations.events:
        if event.indicator is None and not any((unit, port) in sent for port in event.on):
            continue  # nobody ever sends that
        changed = [cell for cell, _ in event.then if cell in used]
        if event.name in planned and added_only:
            changed = [cell for cell in changed if cell in states or cell in in_slopes]
        heard = [
            one.port.name
            for one in event.emit
            if event.name not in planned and _listened(scenario, (unit, one.port.name))
        ]
        if changed or heard:
            changes |= dict.fromkeys([*changed, *(f"what {port} tells others" for port in heard)])
            events |= dict.fromkeys(_called_events(unit, event, scenario, sent))
            all_planned &= event.name in planned and states.isdisjoint(changed)
    if changes:
        yield Unseen(
            f"unit '{name}' has events that change {', '.join(changes)} ({', '.join(events)})", all_planned
        )


def _planned(
    unit: str,
    equations: Equations,
    scenario: Scenario,
    sent: Mapping[tuple[str, str], Sequence[Sender]],
    moving: Collection[str],
) -> set[str]:
    """The events of a unit whose times and values depend on no state."""
    free = set(moving) | set(_cells(equations.heard))
    found = {event.name for event in equations.events}
    while True:
        odd = set()
        for event in equations.events:
            sendings = [e for one in event.emit for e in (one.present, *one.cells)]
            read = {n for e in (*(value for _, value in event.then), *sendings) for n in names(e)}
            if event.indicator is None:
                told = all(_tells_plans(scenario, s) for port in event.on for s in sent.get((unit, port), ()))
                own = set(_cells([p for p in equations.heard if p.name in event.on]))
                read -= own if told else set()
                plain = told and read.isdisjoint(free)
            else:
                plain = (read | names(event.indicator)).isdisjoint(free)
            if not plain:
                odd.add(event.name)
        if odd.isdisjoint(found):
            return found
        found -= odd
        # What an event with a time of its own has changed is known to nobody before.
        free |= {cell for event in equations.events if event.name in odd for cell, _ in event.then}


def _tells_plans(scenario: Scenario, sender: Sender) -> bool:
    """Whether an event comes from the scenario, at times and with values that no state changes."""
    source, port = sender.source
    watcher = scenario.units.get(source)
    if not isinstance(watcher, Watcher) or sender.when is not None:
        return False
    plain = {TIME}
    for connection in scenario.connections:
        if connection.unit == source and all(
            _clock(scenario.units.get(unit)) for unit, _ in connection.sources
        ):
            plain |= {connection.port}
    own = [(event, value) for event in watcher.events for to, value in event.then if to == port]
    return all(names(e) <= plain for event, values in own for e in (*event.conditions, *values))


def _clock(model: Model | None) -> bool:
    """Whether a unit is a function of the time alone."""
    equations = getattr(model, "equations", None)
    return isinstance(equations, Equations) and not (equations.states or equations.inputs or equations.events)


def _listened(scenario: Scenario, source: tuple[str, str]) -> bool:
    """Whether an event goes to a unit that tells others anything."""
    told = {end[0] for c in scenario.connections if not _watches(scenario, c.unit) for end in c.sources}
    told |= {sender.source[0] for c in scenario.event_connections for sender in c.senders}
    ends = (c.unit for c in scenario.event_connections if any(s.source == source for s in c.senders))
    return any(
        not _watches(scenario, unit)
        and (unit in told or isinstance(getattr(scenario.units.get(unit), "equations", None), Equations))
        for unit in ends
    )


def _called_events(
    unit: str, event: EquationEvent, scenario: Scenario, sent: Mapping[tuple[str, str], Sequence[Sender]]
) -> list[str]:
    """What people call an event: that of the scenario, where it comes from there."""
    found = []
    for port in event.on:
        for sender in sent.get((unit, port), ()):
            watcher = scenario.units.get(sender.source[0])
            if isinstance(watcher, Watcher):
                found += [one.name for one in watcher.events if sender.source[1] in dict(one.then)]
    return found or [event.name]


def _cells(ports: Iterable[Port]) -> list[str]:
    """The names of all cells of some ports."""
    return [name for port in ports for name in cell_names(port.name, port.size)]


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
            parameters = equations.arguments[len(equations.arguments) - len(equations.values) :]
            far = 0.0 if smooth((*rates, *equations.computed.outputs), parameters) else EXACTLY
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
