"""The linear part of every unit, by what is known of its states; and whether it is proven to be linear."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from upbeat.adapt.adaptation import (
    Adaptation,
    Assign,
    Discard,
    Local,
    Loop,
    Return,
    Step,
    When,
    expr,
    own_time,
    statements,
)
from upbeat.core.abilities import (
    Ability,
    FromFile,
    KeepsNumbers,
    Model,
    OpenTokens,
    ReadableStates,
    Rollback,
    StateAccess,
    Waiting,
    doubt,
)
from upbeat.core.errors import FAULTS, InvalidInput, ModelError
from upbeat.core.expr import Expr, names
from upbeat.core.names import cell_names
from upbeat.core.ports import Causality, Kind, Port, Signal
from upbeat.engine.interpret import Interpreter
from upbeat.engine.nesting.model import Nested, nested_of
from upbeat.master.program import Block
from upbeat.scenario.directory import EVENTS, INPUTS
from upbeat.scenario.events.links import Sender
from upbeat.scenario.events.watcher import watcher_of
from upbeat.scenario.merging.inline import path_of
from upbeat.scenario.scenario import Scenario
from upbeat.stability.linear.discrete_unit import DiscreteLinearUnit
from upbeat.stability.linear.finite_differences import (
    DifferencedUnit,
    NamedErrors,
    ReadOnly,
    Tokens,
    check_rollback,
)
from upbeat.stability.linear.flows import (
    ROUGH,
    Differences,
    Flow,
    Moving,
    Passage,
    Rates,
    Symbolic,
    affine,
    exact,
    flow,
    jacobian_of,
    matrix,
    smooth,
)
from upbeat.stability.linear.forms import (
    EXACTLY,
    LATER,
    ROUGHLY,
    TRYING,
    Array,
    DynamicLinearUnit,
    Forms,
    LinearUnit,
    NoMatrix,
    StaticLinearUnit,
    asked_first,
    differ,
    opened,
)
from upbeat.stability.linear.inner_steps import sizes_inside
from upbeat.stability.linear.nested_unit import NestedLinearUnit, inside_blocks
from upbeat.units.discrete.model import discrete_of
from upbeat.units.equations.data import TIME, Equations
from upbeat.units.equations.events import EquationEvent
from upbeat.units.process import bare
from upbeat.units.solving.solvers import Cvode, DormandPrince
from upbeat.units.solving.unit import Equated, equated

# ----------------------------------------------------------------------------------------------------
# Units whose equations are known, at least as functions, and whose solver is ours.

KEPT = 64
"""How many flows of a linear unit are remembered."""


class Solved(DynamicLinearUnit):
    """The unit's own solver, followed step by step with derivatives; `ideal`: as if it made no error."""

    def __init__(self, name: str, model: Model, unit: Equated, *, ideal: bool) -> None:
        has = unit.behaviour
        super().__init__(has.names or _numbered(len(unit.state)), has.inputs, has.outputs)
        self._name, self._model, self._unit, self._ideal = name, model, unit, ideal
        self._jacobian = jacobian_of(model, unit)
        self.linear = self._jacobian.constant
        self._flows: dict[object, Flow] = {}
        self._known: tuple[Array, Array] | None = None
        self._constants: object = None

    @property
    def slopes(self) -> float:
        return self._jacobian.accuracy

    @property
    def reach(self) -> float:
        if isinstance(self._jacobian, Symbolic):
            return 0.0 if self._jacobian.smooth else EXACTLY
        return ROUGHLY if any(continuous(self._model)) else 0.0

    @property
    def adaptive(self) -> Iterable[tuple[str, tuple[float, float] | None]]:
        solver = self._unit.behaviour.solver
        if isinstance(solver, (DormandPrince, Cvode)) and self.labels and any(continuous(self._model)):
            yield self._name, (solver.rtol, solver.atol)

    @property
    def _now(self) -> float:
        return self._unit.time

    def _fresh(self) -> None:
        """Forget what was found with parameters that an event has changed since."""
        if self._unit.constants != self._constants:
            self._constants, self._known = self._unit.constants, None
            self._flows.clear()

    def _gains(self) -> tuple[Array, Array]:
        self._fresh()
        unit, now = self._unit, self._unit.time
        if self._known is None or not self.linear:
            self._known = self._jacobian.outputs(unit, now, unit.state, unit.inputs_at(now))
        return self._known

    def leave(self) -> Array:
        return np.array(self._unit.state)

    def _flow(self, left: Array, t: float, to: float, moving: Moving) -> Flow:
        unit, jacobian = self._unit, self._jacobian

        def rates(at: float, state: Array) -> tuple[Array, Array, Array]:
            values, given = state.tolist(), unit.inputs_at(at)
            now = np.array(unit.behaviour.derivatives(at, values, given), dtype=float)
            return (now, *jacobian.dynamics(unit, at, values, given))

        if not self.linear:
            return self._found(rates, t, to, left, moving)
        self._fresh()
        # Steps that are repeated, and units with many solver steps, are glad of this.
        key = (to - t, moving, unit.solver)
        if key not in self._flows:
            if len(self._flows) >= KEPT:
                self._flows.clear()
            self._flows[key] = self._found(rates, t, to, left, moving)
        return self._flows[key]

    def _found(self, rates: Rates, t: float, to: float, left: Array, moving: Moving) -> Flow:
        return flow(
            self._unit.solver,
            rates,
            Passage(t, to, left, moving),
            constant=self.linear,
            ideal=self._ideal,
            slopes=self.slopes,
        )

    def alike(
        self, now: float, step: float, driven: Sequence[str], later: Sequence[float]
    ) -> Sequence[float] | None:
        """Of expressions it is known from their form; what is not pure is not sent far ahead."""
        if isinstance(self._jacobian, Symbolic):
            return ()
        own = self._unit.behaviour.pure
        unit, now = self._unit, self._unit.time
        x, u = unit.state, unit.inputs_at(now)

        def slopes(t: float, u: Sequence[Any]) -> Array:
            parts = (*self._jacobian.dynamics(unit, t, x, u), *self._jacobian.outputs(unit, t, x, u))
            return np.concatenate([part.ravel() for part in parts])

        known = self._jacobian.accuracy  # how well is known what it does later, and elsewhere, is no matter
        base = slopes(now, u)
        others = []
        tried: list[float] = []
        for k in later if own else LATER:
            try:
                others.append(slopes(now + k * step, u))
            except FAULTS:
                if k in LATER:
                    raise
                break  # the run may never come there in this state
            tried.append(k)
        for port in driven:
            first, count = self._inputs[port]
            for place in range(first, first + count):
                for by in (0.3, -0.7):
                    moved = float(u[place]) + by * (1.0 + abs(float(u[place])))
                    others.append(slopes(now, [*u[:place], moved, *u[place + 1 :]]))
        if isinstance(self._jacobian, Differences):
            self._jacobian.accuracy = known
        return None if any(differ(base, other) for other in others) else tried if own else ()

    def values(self) -> list[float]:
        return list(self._unit.state)

    def put(self, values: Sequence[float]) -> None:
        self._unit.put(values)


# ----------------------------------------------------------------------------------------------------
# Units that tell their states, and perhaps the derivatives of these.


class InnerSteps:
    """Whether a unit from a file moves with every communication step.

    One whose solver has longer steps of its own stands still in most of them and moves in some: no single
    matrix says what a step does, and that of one in which it stands still says nothing at all.
    """

    def __init__(self, name: str, model: FromFile, start: float) -> None:
        self._name, self._model, self._start = name, model, start
        self._looked: dict[float, str] = {}

    def check(self, step: float) -> None:
        """`NoMatrix` if it does not move with every step of this size."""
        if step not in self._looked:
            self._looked[step] = self._why(step)
        if self._looked[step]:
            raise NoMatrix(self._looked[step])

    def _why(self, step: float) -> str:
        own = self._model.inner_step_seen(step, self._start)
        if not own:
            return ""
        near = max(round(step / own), 1) * own
        return (
            f"the FMU '{self._name}' has steps of its own of {'about ' if near != own else ''}{own:.6g} s "
            f"inside, and communication steps of {step:.6g} s are no whole number of them: it stands still "
            "in some and moves in others, and no single matrix says what they do. Take communication steps "
            f"of {near:.6g} s (step=…, --step)."
        )


class Directional(DynamicLinearUnit):
    """A unit that tells the derivatives of its states.

    Nothing is known about the solver inside, so it counts as exact; its equations as those of this instant.
    """

    slopes = ROUGH
    linear = False
    reach = TRYING

    def __init__(
        self, name: str, unit: Any, ports: Sequence[Port], access: StateAccess, check: Callable[[float], None]
    ) -> None:
        assert access.jacobian is not None
        inputs, outputs = _real(ports, Causality.INPUT), _real(ports, Causality.OUTPUT)
        super().__init__(access.names, inputs, outputs)
        self._name, self._unit, self._check, self._read = name, unit, check, access.read
        self._jacobian, self._count = access.jacobian, len(outputs)

    @property
    def adaptive(self) -> Iterable[tuple[str, tuple[float, float] | None]]:
        return ((self._name, None),)

    @property
    def _now(self) -> float:
        return float(self._unit.time)

    def _gains(self) -> tuple[Array, Array]:
        by_state, by_input = self._jacobian(True)
        return matrix(by_state, self._count), matrix(by_input, self._count)

    def leave(self) -> tuple[Array, Array]:
        by_state, by_input = self._jacobian(False)
        return matrix(by_state, len(self.labels)), matrix(by_input, len(self.labels))

    def _flow(self, left: tuple[Array, Array], t: float, to: float, moving: Moving) -> Flow:
        self._check(to - t)
        return exact(*left, to - t, moving, self.slopes)

    def values(self) -> list[float]:
        return list(self._read())

    def put(self, values: Sequence[float]) -> None:
        """Its states belong to the unit alone."""


def _real(ports: Sequence[Port], causality: Causality) -> tuple[Port, ...]:
    return tuple(p for p in ports if p.causality is causality and p.kind is Kind.REAL and not p.event)


# ----------------------------------------------------------------------------------------------------

Given = Mapping[str, Callable[[], tuple[float, list[Signal]] | None]]
"""What the inputs of a unit were given last, and when, by port."""


CALLS = (
    " Inputs come as a list of coefficients, and tokens come back with the numbers in them moved a little."
)
"""What the author of a unit in Python may not have known."""


class How(NamedTuple):
    """How units are linearised: as if they made no errors, perhaps, from when on and for which steps."""

    ideal: bool
    start: float
    step: float


def linear_units(
    scenario: Scenario,
    forms: Forms,
    machine: Interpreter,
    blocks: Sequence[Block],
    how: How,
    around: str = "",
) -> dict[str, LinearUnit]:
    """The linear parts of the units of `machine`, `forms` or its neighbour; `blocks` may come next."""
    found: dict[str, LinearUnit] = {}
    for unit, model in scenario.units.items():
        name, running = around + path_of(scenario, unit), machine.units[unit]
        if opened(model):
            shown = asked_first(unit, blocks)
            found[unit] = _linear_nested(name, model, forms.units[unit], running, shown, how)
        else:
            given = {port.name: partial(forms.trajectories.get, (unit, port.name)) for port in model.ports}
            found[unit] = _linear_unit(name, model, running, given, how)
    return found


def _linear_nested(name: str, model: Nested, here: Any, there: Any, shown: bool, how: How) -> LinearUnit:
    inside, forms = model.running, here.machine
    step = min(sizes_inside(name, inside.pace, [how.step]))
    own = linear_units(
        inside.scenario, forms, there.machine, inside_blocks(inside), how._replace(step=step), f"{name}."
    )
    if there is here:
        forms.linear_units.update(own)

    def far() -> float:
        return max(reach(inside.scenario, own), EXACTLY if _decides(model) else 0.0)

    stored = stored_cells(model)[0]
    return NestedLinearUnit(inside, forms, there.machine, own, shown=shown, stored=stored, reach=far)


def _linear_unit(name: str, model: Model, unit: Any, given: Given, how: How) -> LinearUnit:
    """What keeps the linear part of a unit; `InvalidInput` says what it lacks for that."""
    if (known := equated(unit)) is not None:
        return Solved(name, model, known, ideal=how.ideal)
    rollback = Ability.ROLLBACK in model.abilities and isinstance(unit, Rollback)
    if rollback and isinstance(unit, KeepsNumbers) and _carries_numbers(model):
        return DiscreteLinearUnit(name, unit, model, given)
    if not any(continuous(model)):
        return StaticLinearUnit()
    if nested_of(model) is not None:
        raise InvalidInput(
            f"'{name}' cannot be linearised: it is a scenario that sends or receives events, and what "
            "happens then is no matrix. Give it inputs and outputs that are signals alone, or judge what is "
            "inside."
        )
    if isinstance(unit, ReadableStates):
        return _linear_by_states(name, model, unit, given, how)
    if rollback and isinstance(model, OpenTokens) and model.open_tokens:
        if Ability.NEXT_EVENT in model.abilities:
            raise InvalidInput(
                f"'{name}' cannot be linearised: it reacts to events, and what happens then is no matrix."
            )
        named = NamedErrors(name, unit, CALLS)
        check_rollback(name, named, model.ports, tuple, how.start, how.step)
        tokens = Tokens(name, named, model.ports, how.start, how.step)
        return DifferencedUnit(name, named, model.ports, tokens, given, how.step)
    raise InvalidInput(
        f"'{name}' cannot be linearised: nothing is known of the states of a {type(model).__name__} that "
        "can neither be set back nor give its derivatives. Write it with equations (Ode, PythonOde), or give "
        "it save() and restore() (Ability.ROLLBACK) with a token made of numbers."
    )


def _linear_by_states(name: str, model: Model, unit: ReadableStates, given: Given, how: How) -> LinearUnit:
    try:
        access = unit.state_access()
    except ModelError as error:
        raise InvalidInput(f"'{name}' cannot be linearised: {error}.") from None
    foreign = isinstance(model, FromFile)
    check = InnerSteps(name, model, how.start).check if isinstance(model, FromFile) else _any_length
    if access.jacobian is not None:
        return Directional(name, unit, model.ports, access, check)
    if Ability.ROLLBACK not in model.abilities:
        raise InvalidInput(
            f"'{name}' cannot be linearised: it has no directional derivatives and cannot be set back, and "
            f"one of them is needed. {access.advice}"
        )
    # A file may crash in it: that is tried in another process before.
    if foreign and (finding := doubt(model, Ability.ROLLBACK)):
        raise InvalidInput(
            f"'{name}' cannot be linearised: what it does would be tried out and undone. {finding}; but for "
            "this it has to be set back: use it for model exchange, if it allows that."
        )
    check_rollback(name, NamedErrors(name, unit), model.ports, access.read, how.start, how.step)
    handle = ReadOnly(access, check)
    return DifferencedUnit(name, unit, model.ports, handle, given, how.step, access.nominal)


def _any_length(step: float) -> None:
    """Steps of any length are tried as they are."""


def _carries_numbers(model: Model) -> bool:
    """Whether a unit takes, keeps or gives real numbers, but one that only watches for events."""
    return watcher_of(model) is None and any(
        port.kind is Kind.REAL and port.causality is not Causality.PARAMETER for port in model.ports
    )


def continuous(model: Model) -> Iterator[str]:
    """The outputs of a unit that others can follow with rows of their own."""
    if watcher_of(model) is None:
        for port in model.ports:
            if port.causality is Causality.OUTPUT and port.kind is Kind.REAL and not port.event:
                yield port.name


def _numbered(count: int) -> tuple[str, ...]:
    """Names for states that have none."""
    return tuple(f"state {i + 1}" for i in range(count))


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
    called |= {INPUTS: f"the signal of an input of {whole}", EVENTS: whole}
    for unit, model in scenario.units.items():
        equations, name = getattr(model, "equations", None), called[unit]
        if opened(model):
            yield from doubts(model.running.scenario, f"{name}.")
            if _decides(model):
                yield Doubt(f"{name} is adapted in a way that is not linear")
            elif _by_the_clock(model):
                yield Doubt(f"what the adaptation of {name} does depends on the time", False)
            elif lost := stored_cells(model)[1]:
                yield Doubt(f"the adaptation of {name} changes {', '.join(lost)} from step to step", False)
        elif isinstance(equations, Equations):
            if equations.events:
                yield Doubt(f"{name} has events, and a matrix describes the time between them", False)
            if not Symbolic(equations).constant:
                yield Doubt(f"{name} is not linear")
        elif isinstance(model, Waiting) and watcher_of(model) is None:
            yield Doubt(f"{name} acts at events, and what they do is tried out at this point")
        elif any(continuous(model)):
            yield Doubt(f"{name} is a {type(model).__name__}, and it is not known whether it is linear")
        else:
            yield Doubt(f"the events of {name} are left out", False)
    for connection in scenario.connections:
        signals = {name for cell in connection.cells for name in names(cell)}
        if not affine(connection.cells, signals):
            yield Doubt(f"the connection of {called[connection.unit]}.{connection.port} is not linear")


def _decides(model: Model) -> bool:
    """Whether an adaptation, or one inside it, is not proven to be linear: what it does depends on signals,
    or on what it stores, in another way than by sums and constant factors."""
    adaptation = getattr(model, "adaptation", None)
    if adaptation is None:
        return False
    moving = adaptation.moving()
    tests = [expr(test) for test in (*_conditions(adaptation), *_lengths(adaptation))]
    tests += [expr(one.start) for one in adaptation.all_statements() if isinstance(one, Step)]
    if any(names(test) & moving for test in tests) or not affine(_values(adaptation), moving):
        return True
    if _products(adaptation):
        return True
    return any(map(_decides, adaptation.units.values()))


def _by_the_clock(model: Model) -> bool:
    """Whether an adaptation, or one inside it, decides something by the time, or by counting."""
    adaptation = getattr(model, "adaptation", None)
    if adaptation is None:
        return False
    storage = Storage(adaptation)
    by_itself = storage.following(storage.changing)
    clock = by_itself | storage.following(storage.times)
    if any(names(expr(test)) & clock for test in _conditions(adaptation)):
        return True
    if any(names(expr(length)) & by_itself for length in _lengths(adaptation)):
        return True
    return any(map(_by_the_clock, adaptation.units.values()))


def _conditions(adaptation: Adaptation) -> list[Any]:
    every = tuple(adaptation.all_statements())
    tests: list[Any] = [one.condition for one in every if isinstance(one, When)]
    tests += [one.until for one in every if isinstance(one, Loop) and one.until is not None]
    return [*tests, *(rule.condition for rule in (*adaptation.in_rules, *adaptation.out_rules))]


def _lengths(adaptation: Adaptation) -> list[Any]:
    return [one.by for one in adaptation.all_statements() if isinstance(one, Step | Discard | Return)]


def _values(adaptation: Adaptation) -> list[Expr]:
    found: list[Expr] = []
    for one in adaptation.all_statements():
        if isinstance(one, Assign):
            found += [expr(one.value), *map(expr, one.rates)]
        elif isinstance(one, Local):
            found.append(expr(one.value))
    return found


class Storage:
    """What an adaptation stores that no signal changes, and that is not the same in all steps either.

    Where a step leaves all of that as it was, it stays so for ever: nothing else changes it.
    """

    def __init__(self, adaptation: Adaptation) -> None:
        first = set(map(id, statements(adaptation.init)))
        self._assigned: dict[str, list[Expr]] = {}
        for one in adaptation.all_statements():
            if isinstance(one, Assign | Local) and id(one) not in first:
                to, rates = (one.to, one.rates) if isinstance(one, Assign) else (one.name, ())
                self._assigned.setdefault(to, []).extend(map(expr, (one.value, *rates)))
        self.times = frozenset({"t", *(own_time(unit).id for unit in adaptation.units)})
        stored = {one.name for one in adaptation.stored}
        local = {one.name for one in adaptation.all_statements() if isinstance(one, Local)}
        still = {"H", "h", "dt", *adaptation.constants, *(stored - set(self._assigned))}
        decided = {name for test in _conditions(adaptation) for name in names(expr(test))}

        def same(name: str, known: set[str] | frozenset[str]) -> bool:
            """Whether it is given the same in every step, whatever it was before."""
            values = self._assigned[name]
            over = all(names(value) <= known for value in values)
            return over and (decided <= still or all(value == values[0] for value in values))

        moving = adaptation.moving()
        self.changing = frozenset(
            name
            for name in stored & set(self._assigned)
            if name not in moving and not same(name, still | self.times)
        )
        """Their names."""
        tested = decided | {name for length in _lengths(adaptation) for name in names(expr(length))}
        used = set(self._assigned) - stored - local
        self.seen = frozenset(
            name for name in self.changing if (after := self.following({name})) & used and not after & tested
        )
        """Those that inputs of units inside, or outputs, depend on, and on which nothing is decided."""
        self.carried = frozenset(name for name in stored if name in moving)
        """What is stored of signals."""

    def following(self, seeds: Collection[str]) -> frozenset[str]:
        """These names, and all that are given values by them."""
        found = set(seeds)
        grown = -1
        while grown != len(found):
            grown = len(found)
            found |= {to for to, values in self._assigned.items() if any(names(v) & found for v in values)}
        return frozenset(found)


def _products(adaptation: Adaptation) -> bool:
    """Whether an adaptation uses what it stores and changes by itself, or the time, in other ways than in
    sums."""
    moving, storage = adaptation.moving(), Storage(adaptation)
    changing, timed = storage.following(storage.changing), storage.following(storage.times)
    return not affine(_values(adaptation), moving | changing, timed - moving - changing)


OWN = {"now", "next", "reached", "result", "done", "discarded", "rule"}
"""Registers of programs of adaptations that are not stored variables."""


def stored_cells(model: Nested) -> tuple[dict[int, bool], list[str]]:
    """The real registers in the program of an adaptation that hold what it stores, and whether it changes
    that by itself; and the names of others that it changes by itself and whose values count."""
    cells: dict[int, bool] = {}
    lost: list[str] = []
    running = model.running
    places = {register.name: register for register in running.program.layout.registers}

    def collect(adaptation: Adaptation, path: str) -> None:
        if adaptation.mapping is None:
            storage = Storage(adaptation)
            for name in sorted(storage.seen | storage.carried):
                place = places.get(f"{path}{name}") if name not in OWN else None
                alone = name in storage.seen
                if place is not None and place.kind is Kind.REAL:
                    cells[place.first] = alone
                elif alone:
                    lost.append(f"{path}{name}")
        for unit, inner in adaptation.units.items():
            if unit not in running.scenario.units and (within := getattr(inner, "adaptation", None)):
                collect(within, f"{path}{unit}.")

    if model.adaptation is not None:
        collect(model.adaptation, "")
    return cells, lost


def _timed(model: Model) -> bool:
    """Whether an adaptation, or one inside it, multiplies signals with something that goes with the time."""
    adaptation = getattr(model, "adaptation", None)
    if adaptation is None:
        return False
    moving, storage = adaptation.moving(), Storage(adaptation)
    offsets = storage.following(storage.times) - moving
    timed = [value for value in _values(adaptation) if names(value) & offsets]
    if not affine(timed, moving, offsets):
        return True
    return any(map(_timed, adaptation.units.values()))


class Unseen(NamedTuple):
    """Events, or times, that change what a unit does, in a way that is in no matrix of a step."""

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
        watcher_of(model) is not None or (isinstance(own, Equations) and Symbolic(own).constant)
        for model, own in zip(scenario.units.values(), all_equations, strict=True)
    ) and all(affine(c.cells, {n for cell in c.cells for n in names(cell)}) for c in scenario.connections)
    heard_from = {sender.source for senders in sent.values() for sender in senders}
    for unit, model in scenario.units.items():
        name, equations = around + path_of(scenario, unit), getattr(model, "equations", None)
        if opened(model):
            yield from unseen_events(model.running.scenario, f"{name}.")
            if _by_the_clock(model):
                yield Unseen(f"which steps the adaptation of '{name}' makes depends on the time", True)
            if _timed(model):
                yield Unseen(f"a factor in the adaptation of '{name}' changes with the time", True)
            if lost := stored_cells(model)[1]:
                yield Unseen(f"the adaptation of '{name}' changes {', '.join(lost)} from step to step", True)
        elif isinstance(equations, Equations) and equations.events:
            yield from _unseen_of(name, unit, equations, scenario, followed, sent, added_only)
    for unit, model in scenario.units.items():
        discrete = discrete_of(bare(model))
        if discrete is not None:
            given = {c.port for c in scenario.connections if c.unit == unit}
            read = [
                cell for mode in discrete.modes for cell in names(mode.due) if cell.split("[")[0] in given
            ]
            if read and any(of == unit for of, _ in (*followed, *heard_from)):
                name = around + path_of(scenario, unit)
                yield Unseen(f"when '{name}' has events depends on {', '.join(sorted(set(read)))}", False)
        if (watcher := watcher_of(model)) is not None:
            for event in watcher.events:
                by_state = any(not names(z) <= {TIME} for z in event.conditions)
                if by_state and (unit, event.name) in heard_from:
                    yield Unseen(
                        f"event '{around}{event.name}' depends on states and is sent to units", False
                    )


def hidden_events(scenario: Scenario, around: str = "") -> Iterator[str]:
    """Units with events that depend on states and of which it is not known what they change: FMUs."""
    for unit, model in scenario.units.items():
        name = around + path_of(scenario, unit)
        if opened(model):
            yield from hidden_events(model.running.scenario, f"{name}.")
        elif isinstance(model, FromFile) and (count := len(model.indicators)):
            yield f"{name} is an FMU with {count} event indicator{'s' if count > 1 else ''}"


def _watches(scenario: Scenario, unit: str) -> bool:
    return watcher_of(scenario.units.get(unit)) is not None


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
            continue  # that is never sent
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
                announced = all(
                    _announces(scenario, s) for port in event.on for s in sent.get((unit, port), ())
                )
                own = set(_cells([p for p in equations.heard if p.name in event.on]))
                read -= own if announced else set()
                plain = announced and read.isdisjoint(free)
            else:
                plain = (read | names(event.indicator)).isdisjoint(free)
            if not plain:
                odd.add(event.name)
        if odd.isdisjoint(found):
            return found
        found -= odd
        # What an event with a time of its own has changed is not known before.
        free |= {cell for event in equations.events if event.name in odd for cell, _ in event.then}


def _announces(scenario: Scenario, sender: Sender) -> bool:
    """Whether an event comes from the scenario, at times and with values that no state changes."""
    source, port = sender.source
    watcher = watcher_of(scenario.units.get(source))
    if watcher is None or sender.when is not None:
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
    senders = {end[0] for c in scenario.connections if not _watches(scenario, c.unit) for end in c.sources}
    senders |= {sender.source[0] for c in scenario.event_connections for sender in c.senders}
    ends = (c.unit for c in scenario.event_connections if any(s.source == source for s in c.senders))
    return any(
        not _watches(scenario, unit)
        and (unit in senders or isinstance(getattr(scenario.units.get(unit), "equations", None), Equations))
        for unit in ends
    )


def _called_events(
    unit: str, event: EquationEvent, scenario: Scenario, sent: Mapping[tuple[str, str], Sequence[Sender]]
) -> list[str]:
    """What people call an event: that of the scenario, where it comes from there."""
    found = []
    for port in event.on:
        for sender in sent.get((unit, port), ()):
            watcher = watcher_of(scenario.units.get(sender.source[0]))
            if watcher is not None:
                found += [one.name for one in watcher.events if sender.source[1] in dict(one.then)]
    return found or [event.name]


def _cells(ports: Iterable[Port]) -> list[str]:
    """The names of all cells of some ports."""
    return [name for port in ports for name in cell_names(port.name, port.size)]


def reach(scenario: Scenario, units: Mapping[str, LinearUnit]) -> float:
    """How far from a point slopes have to be looked at, because they may jump there; 0 where they cannot."""
    cells = [cell for connection in scenario.connections for cell in connection.cells]
    return max((one.reach for one in units.values()), default=0.0) or (0.0 if smooth(cells) else EXACTLY)
