"""The partial derivatives of a unit's equations: symbolic for expressions, differences elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from upbeat.core.errors import StepError
from upbeat.core.expr import Expr, Kernel, Number, differentiate, names, simplify
from upbeat.core.names import cell_names
from upbeat.core.ports import Kind, Port
from upbeat.stability.linear.affine import affine
from upbeat.units.equations.data import TIME, Equations
from upbeat.units.solving.solvers import Solver
from upbeat.units.solving.unit import Behaviour

Array = npt.NDArray[np.float64]
EXACT = 1e-15
"""How well derivatives are known that were found by rules, relatively …"""
ROUGH = 1e-9
"""… and by differences."""
ALIKE = 1e-3
"""How closely differences over two lengths agree where there is a slope."""
STEP = 6e-6
"""About the cube root of the rounding error: where central differences err least, for numbers around 1."""
AGREE = 1e-6
"""How closely two lengths have to agree, relatively, not to look for shorter ones …"""
SHORTER = 6
"""… of which so many are tried."""
SMALL = 1e-6
"""Beside the largest of a column, slopes smaller than this need not be known well."""
ROUNDING = 4e-16


class Equated(Protocol):
    """A unit with equations and a state of numbers, as `SolvedUnit` is one."""

    @property
    def time(self) -> float: ...

    @property
    def behaviour(self) -> Behaviour: ...

    @property
    def solver(self) -> Solver:
        """The one it goes on with now."""
        ...

    @property
    def state(self) -> tuple[float, ...]: ...

    @property
    def constants(self) -> tuple[float, ...] | None: ...

    def inputs_at(self, t: float) -> list[Any]: ...

    def put(self, state: Sequence[float]) -> None: ...


class Jacobian(Protocol):
    """How derivatives (of states) and outputs react to states and inputs, cell by cell."""

    @property
    def accuracy(self) -> float:
        """Relative, of every entry that has been asked for."""
        ...

    constant: bool
    """Whether it is proven to be the same everywhere: then the unit is linear (or affine), between events."""

    def dynamics(self, unit: Equated, t: float, x: Sequence[float], u: Sequence[Any]) -> tuple[Array, Array]:
        """∂f/∂x and ∂f/∂u."""
        ...

    def outputs(self, unit: Equated, t: float, x: Sequence[float], u: Sequence[Any]) -> tuple[Array, Array]:
        """∂g/∂x and ∂g/∂u."""
        ...


class _Part:
    """The Jacobian of several expressions by several names: a kernel for the entries that are not zero."""

    def __init__(
        self, equations: Equations, cells: Sequence[Expr], by: Sequence[str], called: Sequence[str]
    ) -> None:
        """`called`: what people call the expressions."""
        place = {name: j for j, name in enumerate(by)}
        found: list[tuple[int, int, Expr]] = []
        for i, cell in enumerate(cells):
            for name in sorted(names(cell) & place.keys(), key=place.__getitem__):
                entry = simplify(differentiate(cell, name))
                if not (isinstance(entry, Number) and entry.value == 0.0):
                    found.append((i, place[name], entry))
        self.entries = tuple(entry for _, _, entry in found)
        self.shape = (len(cells), len(by))
        self.places = [(i, j) for i, j, _ in found]
        self._compute = Kernel(equations.arguments, tuple(entry for _, _, entry in found)).python()
        self._cells = Kernel(equations.arguments, tuple(cells)).python()
        self._by, self._called = tuple(by), tuple(called)
        self._columns = [equations.arguments.index(name) for name in by]

    def __call__(self, arguments: Sequence[Any]) -> tuple[Array, float]:
        """The matrix, and how well it is known."""
        matrix = np.zeros(self.shape)
        if self.places:
            rows, columns = zip(*self.places, strict=True)
            matrix[rows, columns] = self._compute(arguments)
        unknown = np.argwhere(~np.isfinite(matrix)).tolist()
        for i, j in unknown:
            matrix[i, j] = self._slope(i, j, list(arguments))
        return matrix, ROUGH if unknown else EXACT

    def _slope(self, i: int, j: int, arguments: list[Any]) -> float:
        """By differences, where the rules give no number: at a negative x those of sqrt(max(x, 0)) say
        infinity times zero. Where there is no slope, the differences do not agree. Where those to both sides
        do, but not with each other (sqrt(x*x) at 0), it is one of several, as at a kink of abs: `Kinks` looks
        at all of them."""
        place = self._columns[j]
        middle = float(arguments[place])
        length = STEP * max(1.0, abs(middle))

        def cell(away: float) -> float:
            arguments[place] = middle + away
            return float(self._cells(arguments)[i])

        def alike(one: float, other: float) -> bool:
            return abs(one - other) <= ALIKE * max(1.0, abs(one), abs(other))

        here = cell(0.0)
        ahead, behind = (
            [(cell(way * part * length) - here) / (way * part * length) for part in (1.0, 0.25)]
            for way in (1.0, -1.0)
        )
        if not (alike(*ahead) and alike(*behind)):
            raise StepError(
                f"it cannot be linearised at this point, because {self._called[i]} has no slope there in "
                f"{self._by[j]}. Choose another point: --at TIME (in Python: at=)",
                unending=True,
            )
        return 0.5 * (ahead[1] + behind[1]) if alike(ahead[1], behind[1]) else ahead[1]


class _Rules:
    """What is the same for all units of some equations: it takes long to find."""

    def __init__(self, equations: Equations) -> None:
        states = _cells([state.port for state in equations.states])
        inputs = _cells(equations.inputs)
        given = _cells([output.port for output in equations.outputs])
        both = (*states, *inputs)
        rates = equations.derivatives.outputs if equations.derivatives is not None else ()
        self.split = len(states)
        self.rates = _Part(equations, rates, both, [f"der({name})" for name in states])
        self.values = _Part(equations, equations.computed.outputs, both, given)
        self.constants = equations.values
        self.constant = affine((*rates, *equations.computed.outputs), both, {TIME}) and _continuous(
            equations, {*both, TIME}
        )


class Symbolic:
    """Of `Ode` and `Function`: by the rules of differentiation, at a kink those of the branch taken."""

    def __init__(self, equations: Equations) -> None:
        self._rules = _rules(_ById(equations))
        self.constant = self._rules.constant
        self.entries = (*self._rules.rates.entries, *self._rules.values.entries)
        """Every slope that is not zero, as an expression."""
        self.accuracy = EXACT

    def dynamics(self, unit: Equated, t: float, x: Sequence[float], u: Sequence[Any]) -> tuple[Array, Array]:
        return self._at(self._rules.rates, unit, t, x, u)

    def outputs(self, unit: Equated, t: float, x: Sequence[float], u: Sequence[Any]) -> tuple[Array, Array]:
        return self._at(self._rules.values, unit, t, x, u)

    def _at(
        self, part: _Part, unit: Equated, t: float, x: Sequence[float], u: Sequence[Any]
    ) -> tuple[Array, Array]:
        constants = self._rules.constants if unit.constants is None else unit.constants
        matrix, known = part((t, *x, *u, *constants))
        self.accuracy = max(self.accuracy, known)
        return matrix[:, : self._rules.split], matrix[:, self._rules.split :]


def _cells(ports: Sequence[Port]) -> tuple[str, ...]:
    return tuple(name for port in ports for name in cell_names(port.name, port.size))


def _continuous(equations: Equations, moving: Collection[str]) -> bool:
    """Whether no value jumps between whole numbers: those have derivatives (zero) that say nothing.

    What a master alone decides, such as which solver is next, is part of a step and no signal; and a number
    that only events change, such as a count, stays what it is between them.
    """
    outputs = [output.port for output in equations.outputs for _ in range(output.port.cells)]
    whole = (
        cell
        for port, cell in zip(outputs, equations.computed.outputs, strict=True)
        if port.kind is not Kind.REAL
    )
    return all(port.kind is Kind.REAL or port.internal for port in equations.inputs) and all(
        names(cell).isdisjoint(moving) for cell in whole
    )


class Differences:
    """Of equations in Python: central differences. Nobody can prove that they are linear.

    Every slope is looked at over two lengths. Where they do not agree something happens on a smaller scale (a
    gap of a micrometre is over long before the usual length): shorter ones are tried. How much the best two
    still differ is how well the slope is known.
    """

    constant = False

    def __init__(self, behaviour: Behaviour, sizes: Sequence[float] = ()) -> None:
        """`sizes`: how large the cells of states, then of inputs, usually are, where that is known."""
        self._is, self._sizes = behaviour, sizes
        self._real = [port.kind is Kind.REAL for port in behaviour.inputs for _ in range(port.cells)]
        self._given = [port.kind is Kind.REAL for port in behaviour.outputs for _ in range(port.cells)]
        self.accuracy = ROUGH
        self._lengths: dict[tuple[int, int], float] = {}  # that were good the last time

    def dynamics(self, unit: Equated, t: float, x: Sequence[float], u: Sequence[Any]) -> tuple[Array, Array]:
        if not x:  # whoever has no states has no derivatives that could be asked
            return np.zeros((0, 0)), np.zeros((0, len(u)))
        return self._differences(self._is.derivatives, [True] * len(x), t, x, u, 0)

    def outputs(self, unit: Equated, t: float, x: Sequence[float], u: Sequence[Any]) -> tuple[Array, Array]:
        return self._differences(self._is.compute, self._given, t, x, u, 1)

    def _differences(
        self, function: Callable[..., Any], given: list[bool], t: float, x: Sequence[float],
        u: Sequence[Any], which: int,
    ) -> tuple[Array, Array]:  # fmt: skip
        both = [*x, *u]
        matrix = np.zeros((len(given), len(both)))
        for j, value in enumerate(both):
            if j >= len(x) and not self._real[j - len(x)]:
                continue

            def over(step: float, j: int = j, value: float = float(value)) -> tuple[Array, Array]:
                """The slopes over a length, and what rounding makes of them."""
                ends = []
                for moved in (value + step, value - step):
                    point = [*both[:j], moved, *both[j + 1 :]]
                    result = function(t, point[: len(x)], point[len(x) :])
                    ends.append([float(v) if real else 0.0 for v, real in zip(result, given, strict=True)])
                one, two = np.array(ends[0]), np.array(ends[1])
                return (one - two) / (2.0 * step), ROUNDING * (np.abs(one) + np.abs(two)) / step

            usual = STEP * max(self._sizes[j] if self._sizes else 1.0, abs(value))
            before, own = self._lengths.get((which, j), usual), STEP * abs(value)
            found, doubt, length = best_slopes(over, before, usual, own)
            matrix[:, j] = found
            self._lengths[which, j] = length
            self.accuracy = max(self.accuracy, doubt)
        return matrix[:, : len(x)], matrix[:, len(x) :]


def best_slopes(
    over: Callable[[float], tuple[Array, Array]], begin: float, usual: float, own: float = 0.0
) -> tuple[Array, float, float]:
    """Slopes over a length at which two agree; their doubt, and that length.

    Lengths that are all far longer than something is large may agree, too, on what it does far away. So a
    length that goes with its `own` size is asked as well, and counts where it differs by more than rounding.
    """
    found = _agreeing(over, begin, usual)
    if 0.0 < own < 0.25 * found[2]:
        with np.errstate(all="ignore"):
            slopes, noise = over(own)
            apart = np.abs(slopes - found[0])
            sizes = np.maximum(np.abs(slopes), SMALL * np.abs(slopes).max(initial=0.0))
            real = apart > 4.0 * noise + max(10.0 * AGREE, 4.0 * found[1]) * sizes
        if np.isfinite(slopes).all() and real.any():
            return _agreeing(over, own, usual)
    return found


def _agreeing(
    over: Callable[[float], tuple[Array, Array]], begin: float, usual: float
) -> tuple[Array, float, float]:
    """Slopes over the length, from `begin` on, at which two agree best; their doubt, and that length."""
    best: tuple[Array, float, float] | None = None
    length = begin
    for _ in range(SHORTER):
        with np.errstate(all="ignore"):
            (long, _), (short, noise) = over(length), over(0.25 * length)
            apart = np.abs(long - short)
            real = apart > noise  # less than that is rounding, at any length
            sizes = np.maximum(np.abs(short), SMALL * np.abs(short).max(initial=0.0))
            doubts = np.where(real, apart / np.where(sizes > 0.0, sizes, 1.0), 0.0)
            fuzzy = np.where(real, 1.0, 0.25) * noise / np.where(sizes > 0.0, sizes, np.inf)
        # The curvature of the function makes both differ by 15/16 of what it adds to the longer one.
        doubt = float(np.maximum(doubts, np.minimum(fuzzy, ALIKE)).max(initial=0.0))
        usable = np.isfinite(long).all() and np.isfinite(short).all()
        if usable and (best is None or doubt < best[1]):
            best = (long if not real.any() else short), doubt, length
        if usable and float(doubts.max(initial=0.0)) <= AGREE:
            break
        length /= 32.0
    if best is None:
        nothing, _ = over(usual)
        return nothing, 0.0, usual  # not finite, and told so by those who use it
    return best


class _ById:
    """Equations as a key: many units share one model, and comparing long ones costs more than it saves."""

    def __init__(self, equations: Equations) -> None:
        self.equations = equations

    def __hash__(self) -> int:
        return id(self.equations)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ById) and other.equations is self.equations


@lru_cache(maxsize=512)
def _rules(key: _ById) -> _Rules:
    return _Rules(key.equations)


def jacobian(model: object, unit: Equated) -> Jacobian:
    """The derivatives of a unit with a state of its own."""
    equations = getattr(model, "equations", None)
    if isinstance(equations, Equations):
        return Symbolic(equations)
    return Differences(unit.behaviour)
