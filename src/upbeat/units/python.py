"""Units whose equations are Python functions: `PythonOde` and `PythonFunction`."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from upbeat.core.abilities import Ability
from upbeat.core.errors import check_type, suggest
from upbeat.core.ports import Causality, Kind, Port, Value
from upbeat.units.calls import cells_of, check_callable, check_fields, flat, record, slopes_of
from upbeat.units.inputs import EXACT
from upbeat.units.shorthand import (
    Complaints,
    check_settable,
    check_unique,
    entries,
    is_empty,
    read_outputs,
    read_ports,
    with_starts,
)
from upbeat.units.solving.solvers import RK4, Euler, Solver, solver_from
from upbeat.units.solving.unit import Behaviour, Equation, ExactUnit, remembered


def _deliver(port: Port) -> Callable[[Any], Value]:
    return float if port.kind is Kind.REAL else port.accepted


Source = Callable[..., Any] | str | None
"""Where an output of a `PythonOde` comes from: its function, a state, or the common function `compute`."""


@dataclass(frozen=True, init=False)
class _Coded:
    """What the two share: ports, abilities, values."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    parameters: tuple[Port, ...]
    slopes: Callable[..., Any] | None

    @property
    def ports(self) -> tuple[Port, ...]:
        """Inputs, outputs, parameters."""
        return (*self.inputs, *self.outputs, *self.parameters)

    @property
    def abilities(self) -> frozenset[Ability]:
        known = set() if self.slopes is None else {Ability.SLOPES}
        return frozenset({Ability.ROLLBACK, Ability.SERIALISE, *known})

    def with_values(self, values: Mapping[str, Value | Sequence[Value]]) -> Self:
        """The same model with other parameters, input starts or state starts."""
        groups = {name: getattr(self, name, ()) for name in ("parameters", "states", "inputs")}
        check_settable(values, [port.name for group in groups.values() for port in group])
        changed = copy.copy(self)
        changed._fix(**{name: with_starts(group, values) for name, group in groups.items() if group})
        return changed

    def _fix(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _slope(self, arguments: Callable[..., tuple[Any, ...]]) -> Callable[[str, str], Equation] | None:
        """The slopes by pair, where `arguments` makes what the user's functions take of (t, x, u)."""
        function = self.slopes
        if function is None:
            return None
        known = {port.name: port for port in self.ports}

        def slope(output: str, given: str) -> Equation:
            return lambda t, x, u: slopes_of(function(*arguments(t, x, u)), known[output], known[given])

        return slope

    @property
    def remembers(self) -> tuple[str, ...]:
        """What the bytes of its states hold: those of a model that remembers something else are refused."""
        return remembered(getattr(self, "states", ()), getattr(self, "solver", Euler()))

    def fixed(self, parameter: str) -> str | None:
        """None: the functions are given all parameters whenever they are called."""
        return None

    def _unit(
        self, start: float, solver: Solver, state: Sequence[Port], given: _Parameters, **equations: Any
    ) -> ExactUnit:
        values = tuple(float(value) for port in state for value in port.initial)
        behaviour = Behaviour(
            self.inputs, self.outputs, values, solver, convert=EXACT, deliver=_deliver,
            parameters=self.parameters, tune=given.tune, **equations,
        )  # fmt: skip
        return ExactUnit(behaviour, start)


class _Parameters:
    """The parameters of one unit, as the user's functions take them: `p`."""

    def __init__(self, ports: Sequence[Port]) -> None:
        self._record = record("p", ports)
        self._cells = [value for port in ports for value in port.initial]
        self.p = self._record(self._cells)

    def tune(self, first: int, cells: list[Any]) -> None:
        """Other values for some cells."""
        self._cells[first : first + len(cells)] = cells
        self.p = self._record(self._cells)


@dataclass(frozen=True, init=False)
class PythonOde(_Coded):
    """Differential equations as a Python function.

        PythonOde(lambda t, x, u, p: {"x": x.v, "v": u.F - p.k * x.x}, states={"x": 1.0, "v": 0.0},
                  inputs=["F"], parameters={"k": 4.0}, outputs=["x"])

    `derivatives(t, x, u, p)` is given the time and named tuples of states, inputs and parameters (an
    array is a tuple) and returns a mapping, or a sequence in the order of `states`. It must be pure.

    `outputs` is a list of names, or a table from name to a function of (t, x, u, p), to the name of a
    state, or to an entry ``{"value": …, "unit": …, "depends": […]}``. Names that are no state and have no
    function of their own come from `compute(t, x, u, p)`, which returns a mapping or a sequence.
    Code cannot be searched for the inputs it reads: what a function computes counts as depending directly
    on all inputs, unless `depends` says on which. Without `outputs`, all states are given out.

    `slopes(t, x, u, p)`, if it is given, returns the derivatives of outputs by the inputs that they depend on
    directly, as ``{output: {input: slope}}``; for arrays a slope is a list of rows. They serve to solve
    algebraic loops.
    """

    derivatives: Callable[..., Any]
    states: tuple[Port, ...]
    sources: tuple[Source, ...]
    compute: Callable[..., Any] | None
    solver: Solver

    def __init__(
        self,
        derivatives: Callable[..., Any],
        states: Mapping[str, Any] | Sequence[Port],
        *,
        inputs: Mapping[str, Any] | Sequence[str | Port] | None = None,
        outputs: Mapping[str, Any] | Sequence[str | Port] | None = None,
        compute: Callable[..., Any] | None = None,
        parameters: Mapping[str, Any] | Sequence[Port] | None = None,
        solver: Solver | str | Mapping[str, Any] | None = None,
        slopes: Callable[..., Any] | None = None,
        sources: Sequence[Source] | None = None,
    ) -> None:
        complaints = Complaints()
        check_callable("derivatives", derivatives, complaints)
        if slopes is not None:
            check_callable("slopes", slopes, complaints)
        known = _read_states(states, complaints)
        given = read_ports(inputs, Causality.INPUT, "inputs", complaints)
        table = entries(list(known) if outputs is None else outputs, "outputs", complaints)
        if sources is None:  # else `dataclasses.replace` hands back what was found here before
            sources = [_source(name, table, known, compute, complaints) for name in table]
        computed = read_outputs(table, given, "outputs", complaints)
        values = read_ports(parameters, Causality.PARAMETER, "parameters", complaints)
        arguments = (*given, *known.values(), *values)
        check_unique(arguments, complaints)
        check_unique((*given, *computed, *values), complaints)
        check_fields(arguments, complaints)
        with complaints.at("solver"):
            self._fix(solver=RK4() if solver is None else solver_from(solver))
        check_type(sources, (tuple, list), "sources")
        complaints.raise_if_any()
        self._fix(
            derivatives=derivatives, states=tuple(known.values()), sources=tuple(sources), compute=compute
        )
        self._fix(inputs=given, outputs=computed, parameters=values, slopes=slopes)

    def instantiate(self, name: str, start: float) -> ExactUnit:
        """A unit in its start state."""
        of_states, of_inputs = record("x", self.states), record("u", self.inputs)
        own = _Parameters(self.parameters)
        pairs = tuple(zip(self.outputs, self.sources, strict=True))
        shared = [port for port, source in pairs if source is None]

        def derivatives(t: float, x: Sequence[float], u: Sequence[Any]) -> list[float]:
            result = self.derivatives(t, of_states(x), of_inputs(u), own.p)
            return [float(value) for value in flat(result, self.states, "the function of the derivatives")]

        def compute(t: float, x: Sequence[float], u: Sequence[Any]) -> list[Any]:
            given = (t, of_states(x), of_inputs(u), own.p)
            common = iter(flat(self.compute(*given), shared, "compute") if shared and self.compute else ())
            cells: list[Any] = []
            for port, source in pairs:
                if source is None:
                    cells += [next(common) for _ in range(port.cells)]
                else:
                    value = getattr(given[1], source) if isinstance(source, str) else source(*given)
                    cells += cells_of(port, value, f"the function of output '{port.name}'")
            return cells

        slope = self._slope(lambda t, x, u: (t, of_states(x), of_inputs(u), own.p))
        return self._unit(
            start, self.solver, self.states, own, derivatives=derivatives, compute=compute, slope=slope
        )


def _read_states(given: object, complaints: Complaints) -> dict[str, Port]:
    ports = read_ports(given, Causality.PARAMETER, "states", complaints)  # like a parameter: a value to set
    for port in ports:
        if port.kind is not Kind.REAL:
            complaints.add(f"states.{port.name}", "a state is real, and its start value a number")
    if is_empty(given):
        complaints.add("states", "an ode needs at least one state; without any it is a PythonFunction")
    return {port.name: port for port in ports}


def _source(
    name: str,
    table: dict[str, Any],
    states: Mapping[str, Port],
    compute: Callable[..., Any] | None,
    complaints: Complaints,
) -> Source:
    """Where output `name` comes from. Its entry in `table` is completed on the way."""
    entry = table[name] if isinstance(table[name], Mapping) else {"value": table[name]}
    source = entry.get("value", name if name in states else None)
    table[name] = {key: value for key, value in entry.items() if key != "value"}
    where = f"outputs.{name}"
    if isinstance(source, str):
        if source in states:
            state = states[source]
            table[name] = {"unit": state.unit, "depends": (), **table[name], "size": state.size}
        else:
            complaints.add(where, f"there is no state '{source}'. {suggest(source, states, 'states')}")
    elif source is None and compute is None:
        hint = suggest(name, states, "states")
        complaints.add(where, f"this is no state and has no function. {hint} Or give a function compute=…")
    elif source is not None:
        check_callable(where, source, complaints)
    return source if source is None or isinstance(source, str) or callable(source) else None


@dataclass(frozen=True, init=False)
class PythonFunction(_Coded):
    """Algebraic equations as a Python function, without memory.

        PythonFunction(lambda t, u, p: u.a * p.gain, inputs=["a"], outputs=["y"], parameters={"gain": 2.0})

    `function(t, u, p)` is given the time and named tuples of inputs and parameters, and returns a mapping,
    a sequence in the order of `outputs`, or the value of the only output. It must be pure. Every output
    counts as depending directly on all inputs, unless its `depends` says on which. `slopes(t, u, p)`, if it
    is given, returns the derivatives of outputs by inputs, as for `PythonOde`: ``{"y": {"a": p.gain}}``.
    """

    function: Callable[..., Any]

    def __init__(
        self,
        function: Callable[..., Any],
        inputs: Mapping[str, Any] | Sequence[str | Port] | None = None,
        outputs: Mapping[str, Any] | Sequence[str | Port] = ("y",),
        *,
        parameters: Mapping[str, Any] | Sequence[Port] | None = None,
        slopes: Callable[..., Any] | None = None,
    ) -> None:
        complaints = Complaints()
        check_callable("function", function, complaints)
        if slopes is not None:
            check_callable("slopes", slopes, complaints)
        given = read_ports(inputs, Causality.INPUT, "inputs", complaints)
        computed = read_outputs(entries(outputs, "outputs", complaints), given, "outputs", complaints)
        values = read_ports(parameters, Causality.PARAMETER, "parameters", complaints)
        check_unique((*given, *computed, *values), complaints)
        check_fields((*given, *values), complaints)
        if is_empty(outputs):
            complaints.add("outputs", "a function needs at least one output")
        complaints.raise_if_any()
        self._fix(function=function, inputs=given, outputs=computed, parameters=values, slopes=slopes)

    def instantiate(self, name: str, start: float) -> ExactUnit:
        """A unit; its only memory are its inputs."""
        of_inputs = record("u", self.inputs)
        own = _Parameters(self.parameters)

        def compute(t: float, x: Sequence[float], u: Sequence[Any]) -> list[Any]:
            return flat(self.function(t, of_inputs(u), own.p), self.outputs, "the function")

        slope = self._slope(lambda t, x, u: (t, of_inputs(u), own.p))
        return self._unit(start, Euler(), (), own, derivatives=compute, compute=compute, slope=slope)
