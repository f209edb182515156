"""Units with unknowns: inputs that are found, at every instant, from as many outputs being zero."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from upbeat.core.abilities import Ability
from upbeat.core.errors import ModelError, suggest
from upbeat.core.expr import Expr, Kernel, differentiate
from upbeat.core.names import cell_names
from upbeat.core.ports import Causality, Kind, Port, Value
from upbeat.units.equations.data import TIME, Equations
from upbeat.units.equations.ode import Function, Ode
from upbeat.units.inputs import NUMBERS
from upbeat.units.shorthand import Complaints
from upbeat.units.solving.solvers import Solver, SolverError
from upbeat.units.solving.unit import Behaviour, SolvedUnit, Token, from_number, state_size

MAX_ITERATIONS = 50
"""The most steps of Newton's method at one instant; from a guess that is any good it takes a few."""
HALVINGS = 12
"""How often a step of it is halved."""
ENOUGH = 1e-12
"""A step this small, relative to 1 + |z|, ends the search."""
ROUNDING = 1000 * 2.0**-52
"""A relative change of all values that counts as rounding."""


@dataclass(frozen=True, init=False)
class Implicit:
    """A model with some inputs unknown: they are always such that as many outputs are zero.

        Implicit(Ode({"x": "-z"}, inputs=["z"], outputs={"x": "x", "r": "z + z**3 - x"}), {"z": "r"})

    `unknowns` tells for every unknown input the output that must vanish. All of them are found together, by
    Newton's method with exact derivatives, beginning with the last solution (at first: with the start
    values of the inputs). Where a system has several solutions, this decides which one is followed.
    """

    inner: Ode | Function
    unknowns: tuple[tuple[str, str], ...]

    def __init__(self, inner: Ode | Function, unknowns: Mapping[str, str]) -> None:
        object.__setattr__(self, "inner", inner)
        object.__setattr__(self, "unknowns", tuple(unknowns.items()))
        complaints = Complaints()
        inputs = {port.name: port for port in inner.equations.inputs}
        outputs = {output.port.name: output.port for output in inner.equations.outputs}
        if not unknowns:
            complaints.add("unknowns", "there are none; without any, the inner model will do")
        if len(set(unknowns.values())) < len(unknowns):
            complaints.add("unknowns", "every unknown needs an output of its own")
        for unknown, zero in unknowns.items():
            for name, known, noun in ((unknown, inputs, "inputs"), (zero, outputs, "outputs")):
                if name not in known:
                    complaints.add("unknowns", f"there is no '{name}'. {suggest(name, known, noun)}")
                elif known[name].kind is not Kind.REAL or known[name].size is not None:
                    complaints.add("unknowns", f"'{name}' must be a single real value")
        complaints.raise_if_any()

    @property
    def solver(self) -> Solver:
        return self.inner.solver

    @cached_property
    def ports(self) -> tuple[Port, ...]:
        """Those of the inner model, without the unknowns and the zeros."""
        unknowns = {name for name, _ in self.unknowns}
        zeros = {name for _, name in self.unknowns}
        outputs = {output.port.name: output.port for output in self.inner.equations.outputs}
        behind = frozenset().union(*(outputs[name].depends for name in zeros))
        return tuple(
            replace(port, depends=(port.depends | behind) - unknowns) if port.depends & unknowns else port
            for port in self.inner.ports
            if port.name not in unknowns | zeros
        )

    @property
    def abilities(self) -> frozenset[Ability]:
        return frozenset({Ability.ROLLBACK, Ability.SERIALISE})

    @property
    def remembers(self) -> tuple[str, ...]:
        """As the inner model, and the unknowns as they were found last."""
        return (*self.inner.remembers, *(name for name, _ in self.unknowns))

    def with_values(self, values: Mapping[str, Value | Sequence[Value]]) -> Implicit:
        """The same model with other parameters, state starts, input starts or first guesses."""
        return Implicit(self.inner.with_values(values), dict(self.unknowns))

    def fixed(self, parameter: str) -> str | None:
        """What the inner model says."""
        return self.inner.fixed(parameter)

    def instantiate(self, name: str, start: float) -> ImplicitUnit:
        """A unit for the interpreter, in its start state."""
        return ImplicitUnit(self, start)

    def __reduce__(self) -> tuple[Any, ...]:
        return Implicit, (self.inner, dict(self.unknowns))


class _System:
    """The equations over [time, states, given inputs, parameters, unknowns], ready to be called."""

    def __init__(self, model: Implicit) -> None:
        equations: Equations = model.inner.equations
        ports = {port.name: port for port in equations.inputs}
        self.unknowns = [ports[name] for name, _ in model.unknowns]
        self.inputs = tuple(port for port in model.ports if port.causality is Causality.INPUT)
        self.outputs = tuple(port for port in model.ports if port.causality is Causality.OUTPUT)
        self.parameters = list(equations.values)
        given = (*(state.port for state in equations.states), *self.inputs, *equations.parameters)
        arguments = (TIME, *(cell for port in given for cell in cell_names(port.name, port.size)))
        arguments += tuple(port.name for port in self.unknowns)
        places: dict[str, list[Expr]] = {}
        cells = iter(equations.computed.outputs)
        for output in equations.outputs:
            places[output.port.name] = [next(cells) for _ in range(output.port.cells)]
        zeros = [places[name][0] for _, name in model.unknowns]
        slopes = [differentiate(zero, port.name) for zero in zeros for port in self.unknowns]
        shown = [cell for port in self.outputs for cell in places[port.name]]
        derivatives = equations.derivatives.outputs if equations.derivatives else ()
        self._arguments, self._zeros = arguments, zeros
        self._residual = Kernel(arguments, (*zeros, *slopes)).python()
        self.derivatives = Kernel(arguments, derivatives).python()
        self.compute = Kernel(arguments, tuple(shown)).python()

    def solve(self, given: tuple[float, ...], guess: Sequence[float]) -> list[float]:
        """The unknowns, from a guess: Newton's method, with steps halved while they make things worse.

        The search ends with a step that is next to nothing, or when no step makes things better and
        what is left is rounding. Anything else is a failure: equations that jump over zero have no solution.
        """
        count = len(self.unknowns)
        z = np.array(guess)
        values = self._residual((*given, *z))
        for _ in range(MAX_ITERATIONS):
            residual = np.array(values[:count])
            slopes = np.reshape(values[count:], (count, count))
            known = bool(np.all(np.isfinite(slopes)))
            if not known:
                slopes = -np.eye(count)  # off a point without derivatives, as a fixed-point iteration would
            try:
                step = np.linalg.solve(slopes, residual)
            except np.linalg.LinAlgError:
                raise SolverError(self._failed(given[0], residual, "the equations are singular")) from None
            before, small = math.hypot(*residual), _size(step, z) <= ENOUGH
            better = False
            for halvings in range(1 if small else HALVINGS):
                trial = z - step / 2**halvings
                values = self._residual((*given, *trial))
                after = math.hypot(*values[:count])
                better = after < before or (not known and math.isfinite(after))
                if better:
                    break
            if not better and self._is_rounding(given, z, residual, slopes):
                return [float(value) for value in z]
            if not better:
                why = "no step of Newton's method makes them smaller, as where they jump over zero"
                raise SolverError(self._failed(given[0], residual, why))
            z = trial
            if small:
                return [float(value) for value in z]
        raise SolverError(
            self._failed(given[0], values[:count], f"{MAX_ITERATIONS} steps of Newton's method")
        )

    def _is_rounding(
        self,
        given: tuple[float, ...],
        z: np.ndarray[Any, Any],
        residual: np.ndarray[Any, Any],
        slopes: np.ndarray[Any, Any],
    ) -> bool:
        """Whether changing everything by a few roundings would change the residuals as much."""
        level = np.abs(slopes) @ (1.0 + np.abs(z))
        if np.all(np.abs(residual) <= ROUNDING * level):
            return True
        others = np.reshape(self._sensitivities((*given, *z)), (len(z), len(given)))
        level = level + np.abs(others) @ np.abs(given)
        return bool(np.all(np.abs(residual) <= ROUNDING * level))

    @cached_property
    def _sensitivities(self) -> Callable[[tuple[float, ...]], list[float]]:
        """The derivatives by everything that is given; most systems never ask for them."""
        given = self._arguments[: len(self._arguments) - len(self.unknowns)]
        slopes = tuple(differentiate(zero, name) for zero in self._zeros for name in given)
        return Kernel(self._arguments, slopes).python()

    def _failed(self, t: float, residual: Iterable[float], why: str) -> str:
        parts = zip(self.unknowns, residual, strict=True)
        left = ", ".join(f"{port.description or port.name} (residual {value:.3g})" for port, value in parts)
        return f"no solution was found for {left} at t = {t:.9g}: {why}"


def _size(step: Sequence[float] | np.ndarray[Any, Any], z: np.ndarray[Any, Any]) -> float:
    return float(np.max(np.abs(step) / (1.0 + np.abs(z))))


class ImplicitUnit(SolvedUnit):
    """A solved unit that finds its unknowns whenever it evaluates its equations.

    The guess, the last solution on the way to the unit's own time, belongs to the token: what a step
    gives depends on it where there are several solutions. `get` uses it and leaves it alone.
    """

    def __init__(self, model: Implicit, start: float) -> None:
        self._system = system = _System(model)
        self._guess = [float(port.initial[0]) for port in system.unknowns]
        self._fixed = state_size(len(model.inner.equations.start), model.solver, system.inputs)
        behaviour = Behaviour(
            inputs=system.inputs,
            outputs=system.outputs,
            state=model.inner.equations.start,
            solver=model.solver,
            derivatives=self._derive,
            compute=self._compute,
            convert=NUMBERS,
            deliver=from_number,
            parameters=model.inner.equations.parameters,
            tune=self._change,
            names=model.inner.equations.arguments[1 : 1 + len(model.inner.equations.start)],
        )
        super().__init__(behaviour, start)

    def _change(self, first: int, cells: list[float]) -> None:
        self._system.parameters[first : first + len(cells)] = cells

    def _derive(self, t: float, x: Sequence[float], u: Sequence[Any]) -> list[float]:
        given = (t, *x, *u, *self._system.parameters)
        self._guess = self._system.solve(given, self._guess)
        return self._system.derivatives((*given, *self._guess))

    def _compute(self, t: float, x: Sequence[float], u: Sequence[Any]) -> list[float]:
        given = (t, *x, *u, *self._system.parameters)
        return self._system.compute((*given, *self._system.solve(given, self._guess)))

    def advance(self, t: float, to: float, early: bool = False) -> float:
        """Integrate from `t` to `to`; the solution found there is the next guess."""
        reached = super().advance(t, to, early)
        self._derive(self.time, self._x, self._trajectories.at(self.time))
        return reached

    def save(self) -> Token:
        """As for any solved unit, then the guess."""
        return (*super().save(), *self._guess)

    def restore(self, token: Token) -> None:
        """Set back to what `save` gave."""
        super().restore(token[: self._fixed])
        self._guess = [float(value) for value in token[self._fixed :]]

    def from_bytes(self, data: bytes) -> Token:
        """The token that `to_bytes` was given."""
        size = 8 * (self._fixed + len(self._guess))
        if len(data) != size:
            raise ModelError(f"not a state of this unit: expected {size} bytes, not {len(data)}")
        guess = np.frombuffer(data[8 * self._fixed :], "<f8")
        return (*super().from_bytes(data[: 8 * self._fixed]), *(float(value) for value in guess))
