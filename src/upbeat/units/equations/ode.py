"""Units given by equations: `Ode` (differential equations) and `Function` (algebraic ones)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from math import inf, isfinite, pi
from typing import Any, Self

from upbeat.core.abilities import Ability, Core, speaks_for_itself
from upbeat.core.expr import Apply, Expr, Lookup, Name, Number, Op, evaluate, names, parse, substitute
from upbeat.core.expr.nodes import ordered
from upbeat.core.expr.tables import Table1
from upbeat.core.names import cell_names
from upbeat.core.ports import Causality, Kind, Port, Value
from upbeat.core.records import dataclass
from upbeat.units.equations.arranging import (
    Stops,
    changeable,
    choice_from,
    free_name,
    marked,
    marked_choosing,
    marked_like,
    with_changes,
    with_choice,
    with_indicators,
    with_stops,
)
from upbeat.units.equations.data import TIME, Equations
from upbeat.units.equations.events import reactions
from upbeat.units.equations.holding import has_holding, with_holding
from upbeat.units.equations.hybrid import HybridUnit
from upbeat.units.equations.lowered import OdeTables, lower
from upbeat.units.equations.rates import with_rates, with_states
from upbeat.units.equations.spec import read_equations
from upbeat.units.inputs import NUMBERS, packed_size
from upbeat.units.shorthand import Complaints, is_empty
from upbeat.units.solving.solvers import (
    RK4,
    Choice,
    Cvode,
    Euler,
    Solver,
    plain_solvers,
    solver_from,
    solver_spec,
)
from upbeat.units.solving.unit import Behaviour, Equation, SolvedUnit, from_number, remembered


@dataclass(frozen=True, init=False)
class _Model:
    """What `Ode` and `Function` share. Two models are equal if they were written the same way."""

    equations: Equations
    solver: Solver
    choice: Choice | None = None
    """Solvers that may take its place while it runs."""

    def __init__(self, equations: Equations, solver: Solver, choice: Choice | None = None) -> None:
        object.__setattr__(self, "equations", equations)
        object.__setattr__(self, "solver", solver)
        object.__setattr__(self, "choice", choice)

    @property
    def ports(self) -> tuple[Port, ...]:
        """Inputs, outputs, parameters."""
        return self.equations.ports

    @property
    def abilities(self) -> frozenset[Ability]:
        alone = speaks_for_itself(type(self)) and not isinstance(self.solver, Cvode)
        own = {Ability.SLOPES} if speaks_for_itself(type(self)) else set()
        own |= {Ability.NEXT_EVENT, Ability.EARLY_RETURN} if self.equations.events else set()
        native = {Ability.NATIVE, Ability.MOVES} if alone else set()
        return frozenset({Ability.ROLLBACK, Ability.SERIALISE, *own, *native})

    @property
    def remembers(self) -> tuple[str, ...]:
        """What the bytes of its states hold: those of a model that remembers something else are refused."""
        own = remembered([state.port for state in self.equations.states], self.solver)
        return (*own, *(event.name for event in self.equations.events))

    def named_states(self) -> tuple[str, ...]:
        """The states, the step to try next, and of what events may do: values and which of them are armed."""
        equations = self.equations
        states = remembered([state.port for state in equations.states], self.solver)
        cells = [name for s in equations.states for name in cell_names(s.port.name, s.port.size)]
        found = ["", *cells, *states[len(cells) :], *[""] * packed_size(equations.inputs)]
        if equations.events:
            plan = reactions(equations)
            constants = (*equations.parameters, *equations.variables)
            values = [name for port in constants for name in cell_names(port.name, port.size)]
            found += [values[place] for place in plan.mutable]
            found += [f"armed {event.name}" for event in plan.events if event.indicator >= 0]
            found += [""] * (plan.extra - len(plan.mutable) - plan.watched)
        return tuple(found)

    def with_values(self, values: Mapping[str, Value | Sequence[Value]]) -> Self:
        """The same model with other parameters, input starts or state starts."""
        equations = self.equations.with_values(values)
        changed = self._with(equations)
        if getattr(self.solver, "step_formula", None) is not None:
            object.__setattr__(changed, "solver", solver_from(self.solver, _numbers(equations)))
        return changed

    def fixed(self, parameter: str) -> str | None:
        """None, since the kernels read every parameter where the unit keeps it; but the step of the solver
        may have been computed from it."""
        formula = getattr(self.solver, "step_formula", None)
        if formula is None or parameter not in {name.partition("[")[0] for name in names(parse(formula))}:
            return None
        return f"the step of the solver follows from it ({formula})"

    def giving_rates(self, wanted: Mapping[str, int], fed: Mapping[str, int] | None = None) -> Self:
        """The same model with outputs for so many time derivatives of these outputs, where they follow from
        the equations and, for the inputs in `fed`, from as many derivatives of these: more inputs, which come
        last."""
        grown = with_rates(self.equations, wanted, fed)
        return self if grown is self.equations else self._with(grown)

    def showing(self) -> Self:
        """The same model with outputs for the states that it does not give out."""
        grown = with_states(self.equations)
        return self if grown is self.equations else self._with(grown)

    def integrating(
        self, outputs: Sequence[str], longest: float | None = None
    ) -> tuple[Ode, dict[str, tuple[str, str]]]:
        """The same model with the integrals of these outputs as states that are given out, each with an input
        that is taken off its rate, by which it can be drained; and what the two are called. Solver steps are
        not longer than `longest`, unless the model says how many there are."""
        spec = self.to_spec()
        taken = {port.name for port in self.ports} | {*spec.get("states", ()), *spec.get("locals", ())}
        shown = spec.get("outputs", {})
        shown = dict(shown) if isinstance(shown, Mapping) else {name: name for name in shown}
        states, areas = dict(spec.get("states", {})), {}
        inputs = [port for port in self.ports if port.causality is Causality.INPUT]
        for number, output in enumerate(outputs):
            cell, _, index = output.partition("[")
            name, drain = free_name(f"area{number}", taken), free_name(f"drain{number}", taken)
            entry = shown[cell]
            value = entry["value"] if isinstance(entry, Mapping) else entry
            if index:  # an array is written cell by cell, or by its name
                at = int(index.removesuffix("]"))
                value = value[at] if isinstance(value, list | tuple) else f"{value}[{at}]"
            states[name] = f"({value}) - {drain}"
            shown[name] = name
            inputs.append(Port(drain, Causality.INPUT))
            areas[output] = (name, drain)
        spec = {**spec, "states": states, "inputs": inputs, "outputs": shown}
        solver: Any = Ode(**spec).solver
        key = "longest" if hasattr(solver, "longest") else "step"
        if (
            longest is not None
            and getattr(solver, "steps", 1) == 1
            and not getattr(solver, "step_formula", None)
        ):
            own = getattr(solver, key)
            spec["solver"] = replace(solver, **{key: longest if own is None else min(own, longest)})
        return Ode(**spec), areas

    def reacting(self, input: str, reactive: bool) -> Self:
        """The same model, with an input that expects the value at the end of a step, or at its start."""
        ports = (replace(p, reactive=reactive) if p.name == input else p for p in self.equations.inputs)
        return self._with(replace(self.equations, inputs=tuple(ports)))

    def _with(self, equations: Equations) -> Self:
        changed = object.__new__(type(self))
        _Model.__init__(changed, equations, self.solver, self.choice)
        return changed

    def instantiate(self, name: str, start: float) -> SolvedUnit:
        """A unit for the interpreter, in its start state."""
        equations = self.equations
        values = list(equations.values)
        compute = equations.computed.python()
        derivatives = (equations.derivatives or equations.computed).python()

        def tune(first: int, cells: list[Any]) -> None:
            values[first : first + len(cells)] = cells

        def slope(output: str, input: str) -> Equation:
            kernel = equations.slope(output, input).python()
            return lambda t, x, u: kernel((t, *x, *u, *values))

        behaviour = Behaviour(
            inputs=equations.inputs,
            outputs=tuple(output.port for output in equations.outputs),
            state=equations.start,
            solver=self.solver,
            derivatives=lambda t, x, u: derivatives((t, *x, *u, *values)),
            compute=lambda t, x, u: compute((t, *x, *u, *values)),
            convert=NUMBERS,
            deliver=from_number,
            slope=slope,
            choice=self.choice,
            parameters=equations.parameters,
            tune=tune,
            names=equations.arguments[1 : 1 + len(equations.start)],
        )
        if equations.events:
            return HybridUnit(behaviour, start, reactions(equations), values)
        return SolvedUnit(behaviour, start)

    def enter(self, core: Core, name: str, start: float) -> object:
        """A unit for the native engine, in its start state."""
        key = self.solver, self.choice, tuple(core.slopes)
        tables = self.equations.lowered
        if key not in tables:
            tables[key] = self.lower(core.slopes)
        return core.ode(tables[key], self.equations.numbers)

    def lower(self, slopes: Sequence[tuple[str, str]] = ()) -> OdeTables:
        """The same unit as flat tables, for the native engine, with the `slopes` of (output, input) pairs."""
        return lower(self.equations, self.solver, slopes, self.choice)

    def to_spec(self) -> dict[str, Any]:
        """The plain table that the constructor takes: ``type(model)(**model.to_spec()) == model``."""
        return self.equations.to_spec()

    def __reduce__(self) -> tuple[Any, ...]:
        # As text: short, and independent of how expressions are represented.
        return _rebuild, (type(self), self.to_spec())


def _numbers(equations: Equations) -> dict[str, float]:
    """The parameters that are numbers, cell by cell."""
    return {
        name: float(value)
        for port in equations.parameters
        if port.kind is not Kind.STRING
        for name, value in zip(cell_names(port.name, port.size), port.initial, strict=True)
    }


def _refuse(sections: Mapping[str, Any], complaints: Complaints) -> None:
    """Ready-made equations cannot be mixed with parts of others."""
    for name, given in sections.items():
        if given is not None:
            complaints.add(
                name,
                "this is a part of the equations, which are given as a whole: change values with "
                "model.with_values({…}), anything else by making a new model",
            )


def _rebuild(kind: type[Any], spec: dict[str, Any]) -> Any:
    return kind(**spec)


@dataclass(frozen=True, init=False)
class Ode(_Model):
    """Ordinary differential equations, one expression per state, with their own solver.

        Ode(states={"x": "v", "v": "(F - k*x)/m"}, start={"x": 1}, inputs=["F"], parameters={"k": 4, "m": 1})

    `time` is a name in every expression. Without `outputs`, all states are given out. An output depends
    directly on the inputs that its expression contains, through locals too. A state without a start
    value starts at 0. `variables` change only at `events`, each of which happens when a condition becomes
    true, located within the step of the solver, or when an event input in `on` has an event:

        variables={"n": 0}, events={"hit": {"when": "x <= 0 and v < 0", "then": {"v": "-v", "n": "n + 1"}}}

    `then` gives states, variables and parameters new values, reading everything before it writes
    anything; `emit` sends event outputs. With `choice` an integer input chooses the solver while it runs:
    ``{"by": "n", "others": ["rk4"]}`` (0: its own). With `equations`
    those of another model are taken as they are: ``dataclasses.replace(ode, solver=Euler(10))`` does so. See
    `upbeat.units.equations.spec` and
    `upbeat.units.shorthand` for all that can be written.
    """

    def __init__(
        self,
        states: Mapping[str, Any] | None = None,
        *,
        start: Mapping[str, Any] | None = None,
        inputs: Mapping[str, Any] | Sequence[str] | None = None,
        outputs: Mapping[str, Any] | Sequence[str] | None = None,
        parameters: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        tables: Mapping[str, Any] | None = None,
        variables: Mapping[str, Any] | None = None,
        events: Mapping[str, Any] | None = None,
        solver: Solver | str | Mapping[str, Any] | None = None,
        choice: Choice | Mapping[str, Any] | None = None,
        equations: Equations | None = None,
    ) -> None:
        complaints = Complaints()
        chosen: Solver = RK4()
        sections = {
            "states": states, "start": start, "inputs": inputs, "outputs": outputs, "parameters": parameters,
            "locals": locals, "tables": tables, "variables": variables, "events": events,
        }  # fmt: skip
        if equations is None:
            if is_empty(states):
                complaints.add("states", "an ode needs at least one state; without any it is a function")
            equations = read_equations(complaints, sections)
            if has_holding(equations):
                spec = with_holding(equations, equations.to_spec(), complaints)
                complaints.raise_if_any()
                equations = read_equations(complaints, spec)
        else:
            _refuse(sections, complaints)
        with complaints.at("solver"):
            chosen = RK4() if solver is None else solver_from(solver, _numbers(equations))
        with complaints.at("choice"):
            super().__init__(
                equations, chosen, None if choice is None else choice_from(choice, chosen, equations)
            )
        complaints.raise_if_any()

    def to_spec(self) -> dict[str, Any]:
        """The plain table that the constructor takes: ``Ode(**ode.to_spec()) == ode``."""
        choice = {} if self.choice is None else {"choice": self.choice.to_spec()}
        return {**self.equations.to_spec(), "solver": solver_spec(self.solver), **choice}

    def indicating(self, *, conditions: bool = True) -> Ode:
        """The same model with an output that counts its events, if it has any, and (with `conditions`)
        outputs for their conditions."""
        if not self.equations.events:
            return self
        found = with_indicators(self.equations, self.to_spec(), conditions=conditions)
        if found is None:
            return self
        spec, made = found
        grown = Ode(**spec)
        return grown._with(marked(grown.equations, made))

    def choosing(self, others: Sequence[Solver]) -> tuple[Ode, Choice]:
        """The same model with an input that chooses between its solver and these; and that choice."""
        spec, choice = with_choice(self.to_spec(), plain_solvers((self.solver, *others))[1:])
        made = Ode(**spec)
        return made._with(marked_choosing(self.equations, made.equations, choice.by)), choice

    @property
    def changeable(self) -> dict[str, Port]:
        """What `changing` can open to changes from outside."""
        return changeable(self.equations)

    def changing(self, names: Iterable[str]) -> tuple[Ode, dict[str, str]]:
        """The same model with an event input for each of `names` that gives it a new value; and these
        inputs by what they change."""
        spec, ports = with_changes(self.equations, self.to_spec(), names)
        return Ode(**spec), ports

    def stopping(
        self, conditions: Mapping[str, Sequence[Expr]], own: Mapping[str, Expr], foreign: Mapping[str, Port]
    ) -> tuple[Ode, Stops]:
        """The same model that also stops where one of `conditions` comes true, and what it has for that.

        See `upbeat.units.equations.arranging`.
        """
        spec, stops = with_stops(self.equations, self.to_spec(), conditions, own, foreign)
        made = Ode(**spec)
        return made._with(marked_like(self.equations, made.equations, stops)), stops


@dataclass(frozen=True, init=False)
class Function(_Model):
    """Algebraic equations: outputs computed from inputs, parameters and time, at once.

    Function(inputs=["u"], outputs={"y": "gain*u"}, parameters={"gain": 2.0})
    """

    def __init__(
        self,
        inputs: Mapping[str, Any] | Sequence[str] | None = None,
        outputs: Mapping[str, Any] | Sequence[str] | None = None,
        *,
        parameters: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        tables: Mapping[str, Any] | None = None,
        equations: Equations | None = None,
        solver: Solver | None = None,
        choice: None = None,
    ) -> None:
        complaints = Complaints()
        sections = {
            "inputs": inputs, "outputs": outputs, "parameters": parameters, "locals": locals, "tables": tables
        }  # fmt: skip
        if equations is None:
            if is_empty(outputs):
                complaints.add("outputs", 'a function needs at least one: outputs = { y = "…" }')
            shown = () if outputs is None else outputs
            equations = read_equations(complaints, {**sections, "outputs": shown})
        else:
            _refuse(sections, complaints)
        if choice is not None or not (solver is None or isinstance(solver, Euler)):
            complaints.add("solver", "a function has nothing to solve: leave it out")
        complaints.raise_if_any()
        super().__init__(equations, Euler())  # never used: there is nothing to integrate


def equations_of(model: object) -> Equations | None:
    """The equations that say all about a model; None if it is something else, or a subclass by a user, which
    may mean more than they say."""
    return model.equations if type(model) in (Ode, Function) else None  # type: ignore[attr-defined]


def periods(equations: Equations, output: str) -> tuple[float, ...]:
    """The periods of an output, or of a cell of it, as far as its equation tells: of floor, ceil, mod, sin,
    cos and tan of what is linear in time. Parameters count as they are."""
    definitions = (*(one.definition for one in equations.outputs), *equations.locals)
    nodes = ordered(cell for one in definitions for cell in one.cells)
    if not any(isinstance(node, Apply) and node.op in _REPEATING for node in nodes):
        return ()  # as nearly always, and what follows takes a look at everything
    tree = over_time(equations, output)
    found: set[float] = set()
    waiting: list[Expr] = [tree]
    seen: set[int] = set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen or not isinstance(node, Apply | Lookup):
            continue
        seen.add(id(node))
        waiting += node.args
        if not isinstance(node, Apply) or node.op not in _REPEATING or names(node.args[0]) != {TIME}:
            continue
        own = _REPEATING[node.op]
        if node.op is Op.MOD:
            own = 0.0 if names(node.args[1]) else abs(evaluate(node.args[1], {}))
        at = [evaluate(node.args[0], {TIME: t}) for t in (0.0, 1.0, 2.0)]
        rate = abs(at[1] - at[0])
        if rate and own and abs(at[2] - 2 * at[1] + at[0]) <= 1e-9 * rate:
            found.add(own / rate)
    return tuple(sorted(found))


def over_time(equations: Equations, output: str) -> Expr:
    """What a cell of an output is, where states with a constant rate (phases) are lines in time."""
    return substitute(cell_of(equations, output), _phases(equations))


def _phases(equations: Equations) -> dict[str, Expr]:
    """States with a constant rate, as lines in time."""
    if equations.events:  # which may set them
        return {}
    values = _parameters(equations)
    lines: dict[str, Expr] = {}
    for state in equations.states:
        called = cell_names(state.port.name, state.port.size)
        for name, start, cell in zip(called, state.port.initial, state.derivative.cells, strict=True):
            rate = substitute(equations.written_out(cell), values)
            if not names(rate):
                lines[name] = Number(float(start)) + Number(evaluate(rate, {})) * Name(TIME)
    return lines


def _parameters(equations: Equations) -> dict[str, Expr]:
    return {
        name: Number(float(value))
        for port in equations.parameters
        for name, value in zip(cell_names(port.name, port.size), port.initial, strict=True)
    }


def named_times(equations: Equations) -> dict[float, float]:
    """Times that outputs and derivatives name: where what is linear in time is compared with something or
    has a corner, the middle and flanks of bells and steps over it, and the points of tables. With how much it
    matters: of a point of a table, how far it is from the line between its neighbours; infinite otherwise."""
    cells = [cell for output in equations.outputs for cell in output.definition.cells]
    cells += [cell for state in equations.states for cell in state.derivative.cells]
    written = [equations.written_out(cell) for cell in cells]
    if not any(TIME in names(cell) for cell in written):
        return {}
    known = {**_parameters(equations), **_phases(equations)}
    found: dict[float, float] = {}
    for node in ordered(substitute(cell, known) for cell in written):
        if isinstance(node, Lookup) and isinstance(node.table, Table1):
            x, y = node.table.x, node.table.y
            ends = (inf, *(abs(c - b - (b - a)) for a, b, c in zip(y, y[1:], y[2:], strict=False)), inf)
            pairs = [(node.args[0] - Number(at), weight) for at, weight in zip(x, ends, strict=False)]
        elif isinstance(node, Apply) and node.op in _CORNERED:
            sides = node.args if len(node.args) > 1 else (*node.args, Number(0.0))
            pairs = [(a - b, inf) for a, b in combinations(sides, 2)]
        elif isinstance(node, Apply) and node.op in _CURVED:
            pairs = [(side + Number(away), inf) for side in node.args for away in _FLANKS]
        else:
            continue
        for zero, weight in pairs:
            if (time := _root(zero)) is not None:
                found[time] = max(found.get(time, 0.0), weight)
    return found


_CORNERED = {
    Op.LT, Op.LE, Op.GT, Op.GE, Op.EQ, Op.NE, Op.ABS, Op.SIGN, Op.MIN, Op.MAX, Op.CLIP
}  # fmt: skip
_FLANKS = tuple(0.5 * k for k in range(-6, 7))
_CURVED = {Op.POW, Op.EXP, Op.TANH, Op.ATAN, Op.COSH, Op.SINH, Op.HYPOT}


def _root(expr: Expr) -> float | None:
    """When what is linear in time alone is zero; None for everything else."""
    if names(expr) != {TIME}:
        return None
    at = [evaluate(expr, {TIME: t}) for t in (0.0, 1.0, 2.0)]
    rate = at[1] - at[0]
    linear = rate != 0.0 and isfinite(rate) and abs(at[2] - 2.0 * at[1] + at[0]) <= 1e-9 * abs(rate)
    return -at[0] / rate if linear else None


_REPEATING = {Op.FLOOR: 1.0, Op.CEIL: 1.0, Op.MOD: 1.0, Op.SIN: 2 * pi, Op.COS: 2 * pi, Op.TAN: pi}


def cell_of(equations: Equations, output: str) -> Expr:
    """What a cell of an output is, over time, states, inputs and variables; parameters as they are."""
    values = _parameters(equations)
    for one in equations.outputs:
        for name, cell in zip(cell_names(one.port.name, one.port.size), one.definition.cells, strict=True):
            if name == output:
                return substitute(equations.written_out(cell), values)
    raise KeyError(output)
