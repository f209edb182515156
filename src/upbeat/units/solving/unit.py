"""The running unit that `Ode`, `Function` and their Python kin share: a state, inputs and a solver."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from upbeat.core.abilities import Columns
from upbeat.core.errors import ModelError, suggest
from upbeat.core.plain import pack_values, unpack_values
from upbeat.core.ports import Port, Signal, Value
from upbeat.core.records import dataclass
from upbeat.core.replay import Allowance
from upbeat.units.inputs import Conversion, InputTrajectories, check_packed, conversions, packed_size
from upbeat.units.solving.integrate import Integrator, Interpolant, SolverStatistics, integrator
from upbeat.units.solving.solvers import Choice, DormandPrince, Solver, SolverError

Equation = Callable[[float, Sequence[float], Sequence[Any]], Sequence[Any]]
"""Derivatives or outputs, flat, from time, state cells and input cells."""
Token = tuple[Value, ...]


def from_number(port: Port) -> Callable[[Any], Value]:
    """What turns a computed double into a cell of `port`."""
    return _FROM_NUMBER[port.kind]


_FROM_NUMBER = conversions(SolverError)


@dataclass(frozen=True)
class Behaviour:
    """What makes one solved unit differ from another, fixed for its lifetime.

    `derivatives` is never called in a unit without states. `convert` turns what comes in into what the
    equations work on, by the kind of a port; `deliver` gives what turns a computed cell into what goes out.
    """

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    state: tuple[float, ...]
    solver: Solver
    derivatives: Equation
    compute: Equation
    convert: Conversion
    deliver: Callable[[Port], Callable[[Any], Value]]
    slope: Callable[[str, str], Equation] | None = None
    """The derivatives of an output by an input, if they are known."""
    choice: Choice | None = None
    """Solvers that take turns with the one above, if an input says so."""
    parameters: tuple[Port, ...] = ()
    tune: Callable[[int, list[Any]], None] | None = None
    """Gives parameter cells, from a place among all of them on, other values."""
    names: tuple[str, ...] = ()
    """Of the state cells."""
    jacobian: Callable[[bool, float, Sequence[float], Sequence[Any]], tuple[Columns, Columns]] | None = None
    """How `derivatives` (or, if True, `compute`) reacts to states and to inputs, where the unit knows."""
    nominal: tuple[float, ...] = ()
    """How large the cells of states, then of inputs, usually are, where that is known."""
    pure: bool = True
    """Whether the equations may be asked for any time and state, however far away, and are none the worse."""


class Equated(Protocol):
    """A unit whose equations are known, at least as functions: it tells its `behaviour`."""

    @property
    def behaviour(self) -> Behaviour: ...

    @property
    def time(self) -> float: ...

    @property
    def solver(self) -> Solver:
        """The one that it would go on with now."""
        ...

    @property
    def state(self) -> tuple[float, ...]: ...

    @property
    def constants(self) -> tuple[float, ...] | None:
        """The values of parameters and variables now, where these may change; None where they never do."""
        ...

    def inputs_at(self, t: float) -> list[Any]: ...

    def put(self, state: Sequence[float]) -> None: ...


def equated(unit: Any) -> Equated | None:
    """The unit, if it tells its equations."""
    return unit if isinstance(getattr(unit, "behaviour", None), Behaviour) else None


class SolvedUnit:
    """A unit with a state x(t) that its own solver advances, and outputs computed from t, x and the inputs.

    A token is a flat tuple: time, states, the step to try next (adaptive solvers only), then the
    inputs as `InputTrajectories.pack` lays them out. The native engine keeps the same numbers in the same
    order. Parameters are no part of it: one that was set by hand keeps its value when a state is restored.
    """

    def __init__(self, behaviour: Behaviour, start: float) -> None:
        self._is = behaviour
        self.time = start
        self._x = list(behaviour.state)
        self._trajectories = InputTrajectories(behaviour.inputs, start, behaviour.convert)
        self._solver = integrator(behaviour.solver, self._trajectories.trajectories)
        others = behaviour.choice.others if behaviour.choice is not None else ()
        self._others = [integrator(other, self._trajectories.trajectories) for other in others]
        self._deliver = [(port, behaviour.deliver(port)) for port in behaviour.outputs]
        self._cached: dict[str, Signal] | None = None
        self._slopes: dict[tuple[str, str], Equation] = {}
        self._direct = frozenset(name for port in behaviour.outputs for name in port.depends)

    @property
    def behaviour(self) -> Behaviour:
        """The equations and the solver behind it."""
        return self._is

    @property
    def solver(self) -> Solver:
        """The solver with which it would go on now."""
        place = self._place()
        return self._is.solver if place == 0 or self._is.choice is None else self._is.choice.others[place - 1]

    def _place(self) -> int:
        """Which of its solvers the inputs ask for; 0 is its own."""
        choice = self._is.choice
        return 0 if choice is None else choice.place(self._trajectories.held(choice.by))

    def _chosen(self) -> Integrator:
        """What integrates from here on."""
        place = self._place() if self._others else 0
        return self._others[place - 1] if place else self._solver

    @property
    def state(self) -> tuple[float, ...]:
        """The states now, cell by cell."""
        return tuple(self._x)

    @property
    def statistics(self) -> SolverStatistics | None:
        """How hard the solver has worked; None where there is nothing to integrate, and of CVODE."""
        all_ = self._solver.statistics
        if all_ is None or not self._x:
            return None
        for other in self._others:
            all_ = all_ + (other.statistics or SolverStatistics())
        return all_

    @property
    def constants(self) -> tuple[float, ...] | None:
        """The values of parameters and variables now, where these may change; None where they never do."""
        return None

    def inputs_at(self, t: float) -> list[Any]:
        """The value of every input cell at `t`, as the trajectories have it that were handed over last."""
        return list(self._trajectories.at(t))

    def put(self, state: Sequence[float]) -> None:
        """Other states from now on: for those who ask what would be if."""
        self._x = [float(value) for value in state]
        self._cached = None

    def wait(self, to: float) -> None:
        """Let time pass and states stay as they are."""
        self.time = to
        self._cached = None

    def _rhs(self, t: float, x: list[float]) -> Sequence[float]:
        return self._is.derivatives(t, x, self._trajectories.at(t))

    def counted(self, allowance: Allowance) -> None:
        """Let evaluations of the derivatives count from now on."""
        rhs = self._rhs

        def counting(t: float, x: list[float]) -> Sequence[float]:
            allowance.spend()
            return rhs(t, x)

        self._rhs = counting  # type: ignore[method-assign]

    def get(self, port: str) -> Signal:
        """The value of an output now."""
        if self._cached is None:
            self._cached = self._outputs()
        try:
            return self._cached[port]
        except KeyError:
            hint = suggest(port, self._cached, "outputs")
            raise ModelError(f"there is no output '{port}'. {hint}") from None

    def _outputs(self) -> dict[str, Signal]:
        cells = self._is.compute(self.time, self._x, self._trajectories.at(self.time))
        values: dict[str, Signal] = {}
        first = 0
        for port, deliver in self._deliver:
            if port.size is None:
                values[port.name] = deliver(cells[first])
            else:
                values[port.name] = tuple(deliver(cell) for cell in cells[first : first + port.size])
            first += port.cells
        return values

    def slope(self, output: str, input: str) -> Sequence[float]:
        """The derivatives of an output by an input, now; found when they are asked for the first time."""
        pair = (output, input)
        if pair not in self._slopes:
            if self._is.slope is None:
                raise ModelError("it does not know its slopes")
            self._slopes[pair] = self._is.slope(output, input)
        return self._slopes[pair](self.time, self._x, self._trajectories.at(self.time))

    def set(self, port: str, coefficients: Sequence[Signal]) -> None:
        """From now on the input is Σ coefficients[k]·(t - now)**k."""
        try:
            self._trajectories.set(port, self.time, coefficients)
        except KeyError:
            self._tune(port, coefficients)
            return
        if port in self._direct:
            self._cached = None

    def _tune(self, port: str, coefficients: Sequence[Signal]) -> None:
        """A parameter has another value from now on."""
        first = 0
        for known in self._is.parameters:
            if known.name == port and self._is.tune is not None:
                (given,) = coefficients
                cells = (given,) if known.size is None else given
                self._is.tune(first, [self._is.convert[known.kind](cell) for cell in cells])  # type: ignore[union-attr]
                self._cached = None
                for solver in (self._solver, *self._others):
                    solver.forget()
                return
            first += known.cells
        names = [known.name for known in self._is.inputs]
        raise ModelError(f"there is no input '{port}'. {suggest(port, names, 'inputs')}") from None

    def advance(self, t: float, to: float, early: bool = False) -> float:
        """Integrate from `t` to `to`, which it always reaches: there are no events inside."""
        if to < t:
            raise SolverError(f"cannot advance backwards, from {t:.9g} to {to:.9g}")
        if self._x and to > t:
            self._x = self._chosen().advance(self._rhs, t, self._x, to)
        self.time = to
        self._cached = None
        return to

    def jump(self) -> bool:
        """Nothing happens at an instant."""
        return False

    @property
    def interpolant(self) -> Interpolant | None:
        """The state within the last step of an adaptive solver; not part of a token, gone after `restore`."""
        return self._solver.last

    def save(self) -> Token:
        """Everything that the future depends on."""
        return (self.time, *self._x, *self._solver.save(), *self._trajectories.pack())

    def restore(self, token: Token) -> None:
        """Set back to what `save` gave."""
        count = len(self._x)
        self.time, *rest = token  # type: ignore[assignment]
        self._x, rest = rest[:count], rest[count:]  # type: ignore[assignment]
        self._trajectories.unpack(self._solver.restore(rest))
        self._cached = None

    def to_bytes(self, token: Token) -> bytes:
        """Little-endian doubles, in the order of the token."""
        return struct.pack(f"<{len(token)}d", *token)

    def from_bytes(self, data: bytes) -> Token:
        """The token that `to_bytes` was given."""
        size = state_size(len(self._x), self._is.solver, self._is.inputs)
        if len(data) != 8 * size:
            raise ModelError(f"not a state of this unit: expected {8 * size} bytes, not {len(data)}")
        token = struct.unpack(f"<{size}d", data)
        check_packed(self._is.inputs, token[size - packed_size(self._is.inputs) :])
        return token


class ExactUnit(SolvedUnit):
    """A solved unit whose inputs may be integers and strings: its bytes keep all of them exactly."""

    def to_bytes(self, token: Token) -> bytes:
        """Every value with its kind (`upbeat.core.plain`)."""
        return pack_values(token)

    def from_bytes(self, data: bytes) -> Token:
        """The token that `to_bytes` was given."""
        size = state_size(len(self._x), self._is.solver, self._is.inputs)
        try:
            token = unpack_values(data)
        except ValueError as error:
            raise ModelError(f"not a state of this unit: {error}") from None
        if len(token) != size:
            raise ModelError(f"not a state of this unit: expected {size} values, not {len(token)}")
        inputs = size - packed_size(self._is.inputs)
        if not all(type(value) is float for value in token[:inputs]):
            raise ModelError("not a state of this unit: time and states are real numbers")
        check_packed(self._is.inputs, token[inputs:])
        return token


def state_size(states: int, solver: Solver, inputs: Sequence[Port]) -> int:
    """The length of a token."""
    return 1 + states + isinstance(solver, DormandPrince) + packed_size(inputs)


def remembered(states: Sequence[Port], solver: Solver) -> tuple[str, ...]:
    """What the bytes of such a unit's states hold besides its inputs, in names."""
    warm = ("the step to try next",) if isinstance(solver, DormandPrince) else ()
    return (*(name for port in states for name in (port.name,) * port.cells), *warm)
