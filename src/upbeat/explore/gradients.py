"""Gradients through the equations of units: how the signals of an experiment change with parameters.

Each state, input and output gets a *tangent* for each parameter: its derivative by that. Tangents go through
the same solvers, connections and master as the signals themselves, so that they are the derivatives of what
the co-simulation computes, with all the errors of its steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

from upbeat.core.abilities import Model
from upbeat.core.errors import UpbeatError
from upbeat.core.expr import ONE, ZERO, Expr, Name, directional_derivative, looks_up, names, show
from upbeat.core.names import cell_names
from upbeat.core.ports import Causality, Kind, Port
from upbeat.engine.experiment import Experiment
from upbeat.explore.work import names_in
from upbeat.master.paces.pace import equal_steps
from upbeat.scenario.assemble import Parts
from upbeat.scenario.connection import Connection
from upbeat.scenario.scenario import Scenario
from upbeat.units.equations.arranging import free_name
from upbeat.units.equations.data import Definition, Equations, Output, State
from upbeat.units.equations.ode import equations_of

End = tuple[str, str]


class Tangents(NamedTuple):
    """An experiment with tangents, and what the one of a signal for each parameter is called."""

    experiment: Experiment
    called: Mapping[End, tuple[str, ...]]

    def of(self, signals: Sequence[str]) -> tuple[str, ...] | None:
        """Their tangents, those for one signal after those for the other; None: some have none."""
        found: list[str] = []
        for signal in signals:
            unit, _, port = signal.partition(".")
            tangents = self.called.get((unit, port), ())
            found += [f"{unit}.{tangent}" for tangent in tangents]
            if not tangents:
                return None
        known = self.experiment.plan.program.columns
        return tuple(found) if all(name in known for name in found) else None


def with_tangents(experiment: Experiment, keys: Sequence[str]) -> Tangents | None:
    """The experiment with tangents for the numbers that `keys` name; None where not all of it is smooth
    equations: events, whose times move with parameters, units of another kind, and steps that depend on
    what is computed."""
    scenario = experiment.scenario
    parts = scenario.event_connections, scenario.event_outputs, scenario.events, scenario.structures
    if (
        any(parts)
        or experiment.master.ports
        or experiment.later()
        or equal_steps(experiment.master.pace) is None
    ):
        return None
    grown: dict[str, _Grown] = {}
    for unit, model in scenario.units.items():
        equations = equations_of(model)
        seeds = [[port for name in names_in(key) for port in _own(unit, name)] for key in keys]
        if equations is None or not _smooth(model, equations, seeds):
            return None
        grown[unit] = _Grown(equations, seeds)
    known = sum(len(seed) for one in grown.values() for seed in one.seeds)
    if known != sum(len(names_in(key)) for key in keys):
        return None  # settings
    units = {unit: one.model(scenario.units[unit]) for unit, one in grown.items()}
    added = [one for old in scenario.connections for one in _tangents_of(old, grown, len(keys))]
    if any(model is None for model in units.values()) or any(map(looks_up, _cells(added))):
        return None
    made: dict[str, Model] = {unit: model for unit, model in units.items() if model is not None}
    whole = Parts(made, (*scenario.connections, *added), scenario.inputs, scenario.outputs)
    called = {(unit, port): made for unit, one in grown.items() for port, made in one.outputs.items()}
    try:
        found = experiment.with_(scenario=Scenario.from_parts(whole, scenario.name), record=None, out=None)
        found.plan  # noqa: B018  # what no master can do with it is found out here
    except UpbeatError:
        return None
    return Tangents(found, called)


def _own(unit: str, name: str) -> list[str]:
    return [name.removeprefix(f"{unit}.")] if name.startswith(f"{unit}.") else []


def _smooth(model: Model, equations: Equations, seeds: Iterable[Sequence[str]]) -> bool:
    """Whether the equations have derivatives by these numbers, as far as one sees without running them."""
    solver = getattr(model, "solver", None)
    if equations.events or equations.variables or equations.heard or equations.sent:
        return False
    if getattr(model, "choice", None) is not None or getattr(solver, "step_formula", None) is not None:
        return False
    settable = [*equations.parameters, *(state.port for state in equations.states)]
    real = {port.name for port in settable if port.kind is Kind.REAL and port.size is None}
    return all(port in real for seed in seeds for port in seed)


class _Grown:
    """The equations of a unit, and what its tangents are called."""

    def __init__(self, equations: Equations, seeds: Sequence[Sequence[str]]) -> None:
        self.equations = equations
        self.seeds = seeds
        taken = {name.partition("[")[0] for name in equations.arguments} | {"time"}
        taken |= {port.name for port in equations.ports} | {one.name for one in equations.locals}
        taken |= {name for name, _ in equations.tables}

        def new(port: Port) -> tuple[str, ...]:
            return tuple(free_name(f"{port.name}_by_{k}", taken) for k in range(len(seeds)))

        self.states = {one.port.name: new(one.port) for one in equations.states}
        self.inputs = {one.name: new(one) for one in equations.inputs if one.kind is Kind.REAL}
        self.outputs = {
            one.port.name: new(one.port) for one in equations.outputs if one.port.kind is Kind.REAL
        }

    def model(self, model: Model) -> Model | None:
        """The unit with tangents; None where these cannot be written down: those of tables."""
        made, directions = self.equations, range(len(self.seeds))
        rates = [self._rates(k) for k in directions]
        states, outputs = list(made.states), list(made.outputs)
        for k in directions:
            for state in made.states:
                port = _tangent(state.port, self.states[state.port.name][k])
                begins = 1.0 if state.port.name in self.seeds[k] else 0.0
                port = replace(port, start=(begins,) * port.cells)
                states.append(State(port, self._defined(port, state.derivative.cells, rates[k])))
            for output in made.outputs:
                if output.port.name in self.outputs:
                    port = _tangent(output.port, self.outputs[output.port.name][k])
                    defined = self._defined(port, output.definition.cells, rates[k])
                    outputs.append(Output(replace(port, depends=self._read(defined)), defined))
        if any(looks_up(cell) for one in states[len(made.states) :] for cell in one.derivative.cells):
            return None
        if any(looks_up(cell) for one in outputs[len(made.outputs) :] for cell in one.definition.cells):
            return None
        inputs = [
            _tangent(port, self.inputs[port.name][k])
            for k in directions
            for port in made.inputs
            if port.name in self.inputs
        ]
        equations = replace(
            made, states=tuple(states), inputs=(*made.inputs, *inputs), outputs=tuple(outputs)
        )
        return cast("Model", replace(cast("Any", model), equations=equations))

    def _rates(self, k: int) -> dict[Expr, Expr]:
        """How states, inputs and parameters change with the one of number k."""
        found: dict[Expr, Expr] = {Name(port): ONE for port in self.seeds[k] if port not in self.states}
        for port in (*(state.port for state in self.equations.states), *self.equations.inputs):
            tangents = self.states.get(port.name) or self.inputs.get(port.name)
            if tangents is not None:
                found |= _pairs(port.name, tangents[k], port.size)
        return found

    def _defined(self, port: Port, cells: Sequence[Expr], rates: Mapping[Expr, Expr]) -> Definition:
        written = (self.equations.written_out(cell) for cell in cells)
        found = tuple(directional_derivative(cell, rates) for cell in written)
        return Definition(port.name, tuple(map(show, found)), port.size, cells=found)

    def _read(self, defined: Definition) -> frozenset[str]:
        """The inputs that an output depends on directly."""
        used = frozenset().union(*map(names, defined.cells))
        ports = [(name, port.size) for port in self.equations.inputs for name in (port.name,)]
        ports += [
            (name, port.size) for port in self.equations.inputs for name in self.inputs.get(port.name, ())
        ]
        return frozenset(name for name, size in ports if not used.isdisjoint(cell_names(name, size)))


def _tangent(port: Port, name: str) -> Port:
    """A port like this one: of what it expects of steps, and its size."""
    reactive = port.reactive if port.causality is Causality.INPUT else None
    return Port(name, port.causality, size=port.size, reactive=reactive)


def _pairs(name: str, tangent: str, size: int | None) -> dict[Expr, Expr]:
    cells = zip(cell_names(name, size), cell_names(tangent, size), strict=True)
    return {Name(cell): Name(own) for cell, own in cells}


def _tangents_of(old: Connection, grown: Mapping[str, _Grown], count: int) -> Iterable[Connection]:
    """The connections of the tangents of an input: the derivative of its own."""
    tangents = grown[old.unit].inputs.get(old.port)
    for k in range(count if tangents is not None else 0):
        rates: dict[Expr, Expr] = {}
        sources: list[End] = []
        for unit, port in old.sources:
            made = grown[unit].outputs.get(port) if unit in grown else None
            if made is not None:
                output = next(one.port for one in grown[unit].equations.outputs if one.port.name == port)
                rates |= _pairs(f"{unit}.{port}", f"{unit}.{made[k]}", output.size)
                sources.append((unit, made[k]))
        cells = tuple(directional_derivative(cell, rates) for cell in old.cells)
        if all(cell == ZERO for cell in cells):
            continue  # nothing drives it: it stays 0
        used = frozenset().union(*map(names, cells))
        # A derivative reads what it is multiplied by, too.
        read = [end for end in (*old.sources, *sources) if _reads(used, end)]
        assert tangents is not None
        texts = tuple(map(show, cells))
        yield Connection(old.unit, tangents[k], cells, tuple(read), texts[0] if len(texts) == 1 else texts)


def _reads(used: frozenset[str], end: End) -> bool:
    whole = end[1] if end[0] == "inputs" else ".".join(end)
    return any(name == whole or name.startswith(f"{whole}[") for name in used)


def _cells(connections: Iterable[Connection]) -> Iterable[Expr]:
    return (cell for one in connections for cell in one.cells)
