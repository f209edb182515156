"""Beside FMUs: by their derivatives where they tell them, otherwise by trying."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from upbeat.core.names import cell_names
from upbeat.core.ports import Causality, Kind, Port
from upbeat.stability.linear.beside import Array, Moved, NoMatrix
from upbeat.stability.linear.flows import Flow, Moving, exact
from upbeat.stability.linear.jacobians import ROUGH, Differences, Jacobian
from upbeat.stability.linear.tried import Apart
from upbeat.units.fmi.description import Variable
from upbeat.units.fmi.instance import FmuError, Instance
from upbeat.units.fmi.model import Fmu
from upbeat.units.fmi.unit import FmuUnit
from upbeat.units.inputs import NUMBERS
from upbeat.units.solving.solvers import Solver
from upbeat.units.solving.unit import Behaviour, from_number


def _real(ports: Sequence[Port], causality: Causality) -> tuple[Port, ...]:
    return tuple(p for p in ports if p.causality is causality and p.kind is Kind.REAL and not p.event)


class Exchanged:
    """An FMU for model exchange as a unit with equations (see `stability.jacobians.Equated`)."""

    def __init__(self, unit: FmuUnit, model: Fmu) -> None:
        self._unit = unit
        self.behaviour = Behaviour(
            inputs=_real(model.ports, Causality.INPUT),
            outputs=_real(model.ports, Causality.OUTPUT),
            state=(),
            solver=model.effective_solver,
            derivatives=lambda t, x, u: self.at(t, x, u, unit.instance.derivatives) if x else (),
            compute=lambda t, x, u: self.at(t, x, u, self._outputs),
            convert=NUMBERS,
            deliver=from_number,
        )
        self.constants = None
        variables = model.layout.variables
        self._writers = {
            port.name: unit.instance.writer(variables[port.name], port.size) for port in self.behaviour.inputs
        }
        description = model.description
        names = [(name, description.by_name[name]) for name in description.states]
        self.labels = tuple(
            cell
            for name, state in names
            for cell in cell_names(name, state.cells if state.dimensions else None)
        )

    @property
    def instance(self) -> Instance:
        return self._unit.instance

    @property
    def time(self) -> float:
        return self._unit.time

    @property
    def solver(self) -> Solver:
        return self.behaviour.solver

    @property
    def state(self) -> tuple[float, ...]:
        return self._unit.state

    def inputs_at(self, t: float) -> list[Any]:
        return list(self._unit.inputs_at(t))

    def put(self, state: Sequence[float]) -> None:
        self._unit.put(state)

    def _outputs(self) -> list[float]:
        cells: list[float] = []
        for port in self.behaviour.outputs:
            value: Any = self._unit.get(port.name)
            cells += [float(value)] if port.size is None else [float(v) for v in value]
        return cells

    def at(self, t: float, x: Sequence[float], u: Sequence[Any], result: Any) -> Any:
        """What the FMU gives at a time and a state, with these inputs; then it is where it was."""
        self._unit.look_from(t, x)
        self._write(u)
        try:
            return result()
        finally:
            self._unit.look_from(self._unit.time, self._unit.state)
            self._write(self.inputs_at(self._unit.time))

    def _write(self, u: Sequence[Any]) -> None:
        first = 0
        for port in self.behaviour.inputs:
            own = u[first : first + port.cells]
            self._writers[port.name](own[0] if port.size is None else tuple(own))
            first += port.cells


class ExchangeSlopes:
    """The derivatives that an FMU for model exchange tells."""

    accuracy = ROUGH
    constant = False

    def __init__(self, model: Fmu) -> None:
        description = model.description
        self._states = [description.by_name[name] for name in description.states]
        self._rates = [description.by_name[each.variable] for each in description.structure.derivatives]
        self._known = [model.layout.variables[port.name] for port in _real(model.ports, Causality.INPUT)]
        self._given = [model.layout.variables[port.name] for port in _real(model.ports, Causality.OUTPUT)]

    def dynamics(self, unit: Any, t: float, x: Sequence[float], u: Sequence[Any]) -> tuple[Array, Array]:
        return self._slopes(unit, t, x, u, self._rates)

    def outputs(self, unit: Any, t: float, x: Sequence[float], u: Sequence[Any]) -> tuple[Array, Array]:
        return self._slopes(unit, t, x, u, self._given)

    def _slopes(
        self, unit: Exchanged, t: float, x: Sequence[float], u: Sequence[Any], unknown: Sequence[Variable]
    ) -> tuple[Array, Array]:
        instance = unit.instance
        found: tuple[Array, Array] = unit.at(
            t,
            x,
            u,
            lambda: (_slopes(instance, unknown, self._states), _slopes(instance, unknown, self._known)),
        )
        return found


def exchange_jacobian(unit: Exchanged, model: Fmu) -> Jacobian:
    """What the FMU tells about its derivatives; where it tells nothing, differences."""
    if model.interface.directional_derivatives and scalar(model):
        return ExchangeSlopes(model)
    states = [model.description.by_name[name] for name in model.description.states]
    inputs = [model.layout.variables[port.name] for port in unit.behaviour.inputs]
    return Differences(
        unit.behaviour, [size for one in (*states, *inputs) for size in [_usual(one)] * one.cells]
    )


def _usual(variable: Variable) -> float:
    """How large a variable usually is: 1, if its description has no nominal value."""
    return abs(variable.properties.nominal or 1.0)


def usual_inputs(model: Fmu) -> dict[str, float]:
    """The same of the inputs, by port."""
    return {
        port.name: _usual(model.layout.variables[port.name]) for port in _real(model.ports, Causality.INPUT)
    }


LOOKED = 48
"""So many steps are made to see whether an FMU moves with every one of them."""


class InnerSteps:
    """Whether an FMU for co-simulation moves with every communication step.

    One whose solver has longer steps of its own stands still in most of them and moves in some: no single
    matrix says what a step does, and that of one in which it stands still says nothing at all.
    """

    def __init__(self, name: str, model: Fmu, start: float) -> None:
        self._name, self._model, self._start = name, model, start
        self._looked: dict[float, str] = {}

    def check(self, step: float) -> None:
        """`NoMatrix` if it does not move with every step of this size."""
        if step not in self._looked:
            self._looked[step] = self._why(step)
        if self._looked[step]:
            raise NoMatrix(self._looked[step])

    def _why(self, step: float) -> str:
        own = getattr(self._model.interface, "fixed_internal_step", None)
        if own and abs(step / own - round(step / own)) <= 1e-6 and step > 0.5 * own:
            return ""
        if not own:
            own = self._seen(step)
            if not own:
                return ""
        near = max(round(step / own), 1) * own
        return (
            f"the FMU '{self._name}' has steps of its own of {'about ' if near != own else ''}{own:.6g} s "
            f"inside, and communication steps of {step:.6g} s are no whole number of them: it stands still "
            "in some and moves in others, and no single matrix says what they do. Take communication steps "
            f"of {near:.6g} s (step=…, --step)."
        )

    def _seen(self, step: float) -> float:
        """The time between two steps inside, if it does not move with every communication step."""
        model = self._model
        if model.interface.only_once_per_process:
            return 0.0
        unit = model.instantiate(f"{self._name} (tried)", self._start)
        assert isinstance(unit, FmuUnit)
        moved: list[int] = []
        try:
            for port in _real(model.ports, Causality.INPUT):
                given = [float(value) + 1.0 for value in port.initial]
                unit.set(port.name, [given[0] if port.size is None else tuple(given)])
            states = [unit.instance.reader(model.description.by_name[n]) for n in model.description.states]
            names = [port.name for port in _real(model.ports, Causality.OUTPUT)]
            before: Any = None
            for k in range(LOOKED):
                unit.advance(self._start + k * step, self._start + (k + 1) * step)
                now: list[Any] = [read() for read in states]
                now = now or [unit.get(name) for name in names]
                if before is not None and now != before:
                    moved.append(k)
                before = now
        except FmuError:  # whatever it is, it is told where it happens in a run
            return 0.0
        finally:
            unit.close()
        gaps = np.diff(moved)
        if np.count_nonzero(gaps > 1) < 2:  # moves each time, or has come to rest, or never moves
            return 0.0
        return float((moved[-1] - moved[0]) / len(gaps)) * step


class Directional(Moved):
    """Beside an FMU for co-simulation that knows its directional derivatives.

    Nothing is known about the solver inside, so it counts as exact; its equations as those of this instant.
    """

    slopes = ROUGH
    linear = False

    def __init__(self, unit: FmuUnit, model: Fmu, inner: InnerSteps) -> None:
        self._inner = inner
        description = model.description
        self._states = [description.by_name[name] for name in description.states]
        self._rates = [description.by_name[each.variable] for each in description.structure.derivatives]
        inputs, outputs = _real(model.ports, Causality.INPUT), _real(model.ports, Causality.OUTPUT)
        self._known = [model.layout.variables[port.name] for port in inputs]
        self._given = [model.layout.variables[port.name] for port in outputs]
        super().__init__(tuple(description.states), inputs, outputs)
        self._unit = unit
        self._readers = [unit.instance.reader(state) for state in self._states]

    @property
    def _now(self) -> float:
        return self._unit.time

    def _gains(self) -> tuple[Array, Array]:
        instance = self._unit.instance
        return _slopes(instance, self._given, self._states), _slopes(instance, self._given, self._known)

    def leave(self) -> tuple[Array, Array]:
        instance = self._unit.instance
        return _slopes(instance, self._rates, self._states), _slopes(instance, self._rates, self._known)

    def _flow(self, left: tuple[Array, Array], t: float, to: float, moving: Moving) -> Flow:
        self._inner.check(to - t)
        return exact(*left, to - t, moving, self.slopes)

    def values(self) -> list[float]:
        return [float(read()) for read in self._readers]  # type: ignore[arg-type]

    def put(self, values: Sequence[float]) -> None:
        """Its states belong to the FMU alone."""


def _slopes(instance: Instance, unknowns: Sequence[Variable], knowns: Sequence[Variable]) -> Array:
    if not unknowns or not knowns:
        return np.zeros((len(unknowns), len(knowns)))
    return np.array([instance.directional(unknowns, [known], (1.0,)) for known in knowns]).T


class Readable(Apart):
    """A handle for an FMU for co-simulation: its states can be read, not written."""

    writable = False
    advice = "An FMU can list them (ModelStructure, Derivatives), or be for model exchange."

    def __init__(self, unit: FmuUnit, model: Fmu, inner: InnerSteps) -> None:
        self._inner = inner
        description = model.description
        self.labels = tuple(description.states)
        self._readers = [unit.instance.reader(description.by_name[name]) for name in self.labels]

    def read(self) -> list[float]:
        return [float(reader()) for reader in self._readers]  # type: ignore[arg-type]

    def write(self, values: Sequence[float]) -> None:
        raise NotImplementedError  # `writable` says so

    def check_length(self, step: float) -> None:
        self._inner.check(step)


def scalar(model: Fmu) -> bool:
    """Whether states and real ports are single numbers: arrays may change their size."""
    ports = (*_real(model.ports, Causality.INPUT), *_real(model.ports, Causality.OUTPUT))
    states = [model.description.by_name[name] for name in model.description.states]
    return all(port.size is None for port in ports) and not any(state.dimensions for state in states)
