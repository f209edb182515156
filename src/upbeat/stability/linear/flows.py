"""Equations as linear maps over a step: slopes, exponentials, flows."""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import ceil, comb, factorial, isfinite, log2
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from upbeat.core.abilities import Columns
from upbeat.core.errors import StepError
from upbeat.core.expr import Apply, Cell, Expr, Kernel, Name, Number, Op, differentiate, fold, names, simplify
from upbeat.core.expr.nodes import Inner, Leaf
from upbeat.core.names import cell_names
from upbeat.core.ports import Kind, Port
from upbeat.core.replay import check_time
from upbeat.units.equations.data import TIME, Equations
from upbeat.units.solving.solvers import Cvode, DormandPrince, Solver
from upbeat.units.solving.tableau import DORMAND_PRINCE, Tableau
from upbeat.units.solving.unit import Behaviour, Equated

# ----------------------------------------------------------------------------------------------------
# Whether expressions are affine in what moves: decided by their form, so that a yes is a proof.


class Form(enum.IntEnum):
    """What an expression is made of."""

    CONSTANT = 0
    OFFSET = 1  # changes by itself, whatever moves: a function of time
    AFFINE = 2  # a constant matrix times what moves, plus an offset
    OTHER = 3


def affine(expressions: Iterable[Expr], moving: Collection[str | int], offsets: Collection[str] = ()) -> bool:
    """Whether all are (constant matrix)·moving + offset. A no may be wrong (x/x), a yes is not.

    What moves are names, or the numbers of cells.
    """

    def leaf(node: Leaf) -> Form:
        if isinstance(node, Cell):
            return Form.AFFINE if node.index in moving else Form.CONSTANT
        if not isinstance(node, Name):
            return Form.CONSTANT
        return Form.AFFINE if node.id in moving else Form.OFFSET if node.id in offsets else Form.CONSTANT

    return all(fold(expression, leaf, _combined) is not Form.OTHER for expression in expressions)


SMOOTH = {Op.ADD, Op.SUB, Op.MUL, Op.NEG, Op.EXP, Op.SIN, Op.COS, Op.ATAN, Op.SINH, Op.COSH, Op.TANH}
"""What has slopes everywhere, and none that jumps."""


def smooth(expressions: Iterable[Expr], still: Collection[str] = ()) -> bool:
    """Whether no slope of these can jump, wherever they have values: a yes by their form is a proof.

    Names that are `still` never move. Roots and quotients are smooth but at single points, and there they
    hide kinks: sqrt(x*x) is abs(x), and so is acos(1 - x*x/2), nearly.
    """

    def leaf(node: Leaf) -> Form:
        moves = isinstance(node, Cell) or (isinstance(node, Name) and node.id not in still)
        return Form.AFFINE if moves else Form.CONSTANT

    def inner(node: Inner, args: list[Form]) -> Form:
        worst = max(args, default=Form.CONSTANT)
        if worst in (Form.CONSTANT, Form.OTHER):
            return worst
        if isinstance(node, Apply):
            if node.op in SMOOTH or (node.op is Op.DIV and args[1] is Form.CONSTANT):
                return worst
            if node.op is Op.POW and isinstance(power := node.args[1], Number):
                return worst if power.value >= 0.0 and float(power.value).is_integer() else Form.OTHER
        return Form.OTHER

    return all(fold(expression, leaf, inner) is not Form.OTHER for expression in expressions)


def _combined(node: Inner, args: list[Form]) -> Form:
    if isinstance(node, Apply):
        match node.op, args:
            case (Op.ADD | Op.SUB | Op.NEG, _):
                return max(args)
            case (Op.MUL, [a, b]) if Form.CONSTANT in (a, b):
                return max(a, b)
            case (Op.DIV, [a, Form.CONSTANT]):
                return a
            case (Op.WHERE, [Form.CONSTANT, a, b]):
                return max(a, b)
    return max(args) if max(args) <= Form.OFFSET else Form.OTHER


# ----------------------------------------------------------------------------------------------------
# The partial derivatives of a unit's equations: symbolic for expressions, differences elsewhere.

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
        self._equations, self._cells = equations, (*rates, *equations.computed.outputs)
        self.constant = affine((*rates, *equations.computed.outputs), both, {TIME}) and _continuous(
            equations, {*both, TIME}
        )

    @cached_property
    def smooth(self) -> bool:
        """Whether no slope can jump, whatever moves."""
        parameters = self._equations.arguments[len(self._equations.arguments) - len(self.constants) :]
        return smooth(self._cells, parameters)


class Symbolic:
    """Of `Ode` and `Function`: by the rules of differentiation, at a kink those of the branch taken."""

    def __init__(self, equations: Equations) -> None:
        self._rules = _rules(_ById(equations))
        self.constant = self._rules.constant
        self.entries = (*self._rules.rates.entries, *self._rules.values.entries)
        """Every slope that is not zero, as an expression."""
        self.accuracy = EXACT

    @property
    def smooth(self) -> bool:
        """Whether no slope can jump, whatever moves."""
        return self._rules.smooth

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
    """Of equations in Python: central differences. They cannot be proven to be linear.

    Every slope is looked at over two lengths. Where they do not agree something happens on a smaller scale (a
    gap of a micrometre is over long before the usual length): shorter ones are tried. How much the best two
    still differ is how well the slope is known.
    """

    constant = False

    def __init__(self, behaviour: Behaviour) -> None:
        self._is, self._sizes = behaviour, behaviour.nominal
        self._real = [port.kind is Kind.REAL for port in behaviour.inputs for _ in range(port.cells)]
        self._given = [port.kind is Kind.REAL for port in behaviour.outputs for _ in range(port.cells)]
        self.accuracy = ROUGH
        self._lengths: dict[tuple[int, int], float] = {}  # that were good the last time

    def dynamics(self, unit: Equated, t: float, x: Sequence[float], u: Sequence[Any]) -> tuple[Array, Array]:
        if not x:  # without states there are no derivatives
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
        check_time()
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


class KnownDerivatives:
    """The derivatives that the unit itself knows."""

    accuracy = ROUGH
    constant = False

    def __init__(self, behaviour: Behaviour) -> None:
        self._outputs = sum(port.cells for port in behaviour.outputs)

    def dynamics(self, unit: Equated, t: float, x: Sequence[float], u: Sequence[Any]) -> tuple[Array, Array]:
        return self._known(unit, False, len(x), t, x, u)

    def outputs(self, unit: Equated, t: float, x: Sequence[float], u: Sequence[Any]) -> tuple[Array, Array]:
        return self._known(unit, True, self._outputs, t, x, u)

    def _known(
        self, unit: Equated, outputs: bool, rows: int, t: float, x: Sequence[float], u: Sequence[Any]
    ) -> tuple[Array, Array]:
        known = unit.behaviour.jacobian
        assert known is not None
        by_state, by_input = known(outputs, t, x, u)
        return matrix(by_state, rows), matrix(by_input, rows)


def matrix(columns: Columns, rows: int) -> Array:
    """A matrix of its columns."""
    return np.array(columns, dtype=float).T if rows and len(columns) else np.zeros((rows, len(columns)))


def jacobian_of(model: object, unit: Equated) -> Jacobian:
    """The derivatives of equations: of expressions by rules; else those the unit knows, or differences."""
    equations = getattr(model, "equations", None)
    if isinstance(equations, Equations):
        return Symbolic(equations)
    return (
        Differences(unit.behaviour) if unit.behaviour.jacobian is None else KnownDerivatives(unit.behaviour)
    )


# ----------------------------------------------------------------------------------------------------
# The exponential of a matrix: Padé's approximation of degree 13 with scaling and squaring (Higham 2005).
#
# The matrix is balanced before, so that units of measure do not matter: each squaring doubles the errors
# made so far, and a matrix with entries of very different size would be squared many times for no reason.
# What is left is an error that grows with the `size` of the matrix.
#
# Numpy has none. SciPy has one, but judging a scenario should need no extra, and what takes microseconds
# here takes a hundred times as long there on a busy machine, whose threads wait for each other over a 4×4
# matrix.

LARGEST = 5.371920351148152
"""Up to this norm the approximation is exact to rounding."""
_B = (
    64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0,
    10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0,
)  # fmt: skip
SWEEPS = 30
"""How often all entries are balanced, one after the other, at most."""
FURTHEST = 300
"""By no more than this power of two: nothing should become infinite by another unit of measure."""


def exponential(matrix: Array) -> Array:
    """exp(matrix)."""
    matrix, scale = balanced(matrix)
    largest = norm(matrix)
    halvings = max(0, ceil(log2(largest / LARGEST))) if largest > 0.0 else 0
    a = matrix / 2.0**halvings
    one, a2 = np.eye(len(a)), a @ a
    a4 = a2 @ a2
    a6 = a4 @ a2
    odd = a @ (
        a6 @ (_B[13] * a6 + _B[11] * a4 + _B[9] * a2) + _B[7] * a6 + _B[5] * a4 + _B[3] * a2 + _B[1] * one
    )
    even = a6 @ (_B[12] * a6 + _B[10] * a4 + _B[8] * a2) + _B[6] * a6 + _B[4] * a4 + _B[2] * a2 + _B[0] * one
    result: Array = np.asarray(np.linalg.solve(even - odd, even + odd), dtype=np.float64)
    for _ in range(halvings):
        result = result @ result
    return result * scale[:, None] / scale


def size(matrix: Array) -> float:
    """The norm of a matrix once it is balanced: by so much, about, errors grow in its exponential."""
    return norm(balanced(matrix)[0])


def balanced(matrix: Array) -> tuple[Array, Array]:
    """The matrix in other units of measure, each row about as large as its column, and these units.

    They are powers of two, which cost no rounding: the matrix is what is returned, each entry times the unit
    of its row over that of its column.
    """
    if not isfinite(float(np.abs(matrix).sum())):
        raise OverflowError("the exponential of a matrix that is not finite")
    found, powers = matrix.copy(), np.zeros(len(matrix), dtype=int)
    for _ in range(SWEEPS):
        moved = False
        for i in range(len(found)):
            own = abs(found[i, i])
            column, row = float(np.abs(found[:, i]).sum() - own), float(np.abs(found[i]).sum() - own)
            if row and column:
                power = round(0.5 * (log2(row) - log2(column)))
            else:  # nothing comes back from there, so that it may be as small as one likes
                power = ceil(log2(max(row, 1.0))) - ceil(log2(max(column, 1.0)))
            power = max(-FURTHEST, min(FURTHEST, int(powers[i]) + power)) - int(powers[i])
            if power:
                found[:, i] *= 2.0**power
                found[i] *= 2.0**-power
                powers[i] += power
                moved = True
        if not moved:
            break
    return found, 2.0**powers


def norm(matrix: Array) -> float:
    """The largest sum of a column."""
    return float(np.abs(matrix).sum(axis=0).max(initial=0.0))


# ----------------------------------------------------------------------------------------------------
# How the states of a unit at the end of a step depend on those at its start and on its inputs' trajectories.
#
# A flow is a matrix over the states, then the coefficients of all inputs that move, around the start of the
# step: the states at its end are the flow times both. With it comes how well it is known: what is wrong
# with the derivatives grows with how much happens in a step, and rounding with the number of products.

Rates = Callable[[float, Array], tuple[Array, Array, Array]]
"""At a time and a state: the derivatives f, ∂f/∂x and ∂f/∂u."""

FINE = 0.1
"""Solvers that look after their own error are followed in steps of about this part of the fastest motion."""
MAX_STEPS = 20_000
"""The most steps in which these are followed …"""
STAGES = 100_000
"""… and the most stages of solvers with steps of their own, where slopes are not the same everywhere."""
HALVED = 40
"""How often a step is halved until a solver would take it."""
SHARE = 0.1
"""Whoever asks how well an eigenvalue is known multiplies accuracies by 8 and more: those are of rounding
errors that add up, and this one is of a single kind."""
LEFT_OUT = 1e-3
"""Of the sixth power of such a step, at most, is what it leaves out: 1/600 - 1/720 for linear equations."""


class Flow(NamedTuple):
    """A flow, and how well its entries are known, relative to the size of all."""

    matrix: Array
    accuracy: float


@dataclass(frozen=True, slots=True)
class Moving:
    """The inputs that move: the place of each cell among all inputs, and its number of coefficients."""

    cells: tuple[tuple[int, int], ...]

    @property
    def size(self) -> int:
        return sum(count for _, count in self.cells)

    def values(self, tau: float, inputs: int) -> Array:
        """What every input cell is so long after the start, as a matrix over all coefficients."""
        matrix = np.zeros((inputs, self.size))
        column = 0
        for place, count in self.cells:
            matrix[place, column : column + count] = tau ** np.arange(count)
            column += count
        return matrix

    def shifted(self, tau: float) -> Array:
        """The matrix that gives the coefficients around a point so long after the start."""
        matrix = np.zeros((self.size, self.size))
        column = 0
        for _, count in self.cells:
            for k in range(count):
                for power in range(k, count):
                    matrix[column + k, column + power] = comb(power, k) * tau ** (power - k)
            column += count
        return matrix


def followed(
    tableau: Tableau, count: int, rates: Rates, t: float, to: float, x: Array, moving: Moving
) -> Array:
    """The flow through the steps of a solver, with derivatives taken wherever the solver takes them.

    It belongs to the numbers that the solver computes, not to the solution that they come close to.
    """
    size = len(x)
    matrix = np.hstack([np.eye(size), np.zeros((size, moving.size))])
    h = (to - t) / count
    for i in range(count):
        begin = t + i * h
        slopes: list[Array] = []
        stages: list[Array] = []
        for c, weights in zip(tableau.c, tableau.a, strict=True):
            at, state, row = begin + c * h, x, matrix
            for weight, slope, stage in zip(weights, slopes, stages, strict=True):
                if weight:
                    state, row = state + h * weight * slope, row + h * weight * stage
            rate, by_state, by_input = rates(at, state)
            slopes.append(rate)
            stage = by_state @ row
            stage[:, size:] += by_input @ moving.values(at - t, by_input.shape[1])
            stages.append(stage)
        for weight, slope, stage in zip(tableau.b, slopes, stages, strict=True):
            if weight:
                x, matrix = x + h * weight * slope, matrix + h * weight * stage
    return matrix


def stepped(
    tableau: Tableau, count: int, by_state: Array, by_input: Array, length: float, moving: Moving
) -> Array:
    """The same for constant matrices: all solver steps are alike, so they are a power of one."""
    size = len(by_state)

    def rates(_t: float, x: Array) -> tuple[Array, Array, Array]:
        return np.zeros(len(x)), by_state, by_input

    one = followed(tableau, 1, rates, 0.0, length / count, np.zeros(size), moving)
    if count == 1:
        return one
    lower = np.hstack([np.zeros((moving.size, size)), moving.shifted(length / count)])
    whole: Array = np.linalg.matrix_power(np.vstack([one, lower]), count)
    return whole[:size]


def exact(by_state: Array, by_input: Array, length: float, moving: Moving, slopes: float) -> Flow:
    """The flow of the solution itself, for constant matrices.

    By the exponential of one matrix that holds the states and the derivatives of all inputs. Adding up the
    integral of the inputs by quadrature instead goes wrong for stiff units. `slopes`: how well these
    matrices are known.
    """
    own = len(by_state)
    matrix = np.zeros((own + moving.size, own + moving.size))
    matrix[:own, :own] = by_state * length
    scale = np.ones(moving.size)
    column = 0
    for place, count in moving.cells:
        matrix[:own, own + column] = by_input[:, place] * length
        for k in range(count):
            scale[column + k] = factorial(k)
            if k + 1 < count:
                matrix[own + column + k, own + column + k + 1] = length
        column += count
    found: Array = exponential(matrix)[:own]
    found[:, own:] *= scale
    return Flow(found, slopes * max(1.0, size(matrix)))


def tolerated(solver: DormandPrince | Cvode, by_state: Array, length: float) -> float:
    """By how much, relative to its states, a solver that controls its own error may be wrong after `length`.

    Where one step passes for every state, and no longer one is allowed, that is the step's own error. Else
    each step may err by the tolerance; what comes of it at the end grows and decays as the states do.
    """
    own = balanced(by_state)[0]
    if not len(own) or not np.isfinite(own).all():
        return solver.rtol
    h = length if solver.longest is None else min(length, solver.longest)
    halved = 0
    while halved < HALVED:
        stage, estimate = _tried(own * h)
        if norm(estimate) <= solver.rtol:
            break
        h, halved = 0.5 * h, halved + 1
    count = ceil(length / h * (1.0 - 1e-9))
    through = exponential(own * h)
    error = 2.0 * norm(stage - through) if halved == 0 and isinstance(solver, DormandPrince) else solver.rtol
    total, steps = 1.0, 1
    while steps < count and np.isfinite(total):
        total *= 1.0 + norm(through)
        through, steps = through @ through, 2 * steps
    return min(error * total, 1e300) if np.isfinite(total) else 1e300


def _tried(matrix: Array) -> tuple[Array, Array]:
    """What one step of Dormand and Prince does to states, and its estimate of the error."""
    one = np.eye(len(matrix))
    slopes: list[Array] = []
    for weights in DORMAND_PRINCE.a:
        state = one + sum((w * k for w, k in zip(weights, slopes, strict=True)), np.zeros_like(one))
        slopes.append(matrix @ state)
    new = one + sum((w * k for w, k in zip(DORMAND_PRINCE.b, slopes, strict=True)), np.zeros_like(one))
    error = sum((w * k for w, k in zip(DORMAND_PRINCE.e, slopes, strict=True)), np.zeros_like(one))
    return new, error


class Passage(NamedTuple):
    """A step of a unit: from the state `x` at the time `t`, with inputs that are `moving`."""

    t: float
    to: float
    x: Array
    moving: Moving


def flow(
    solver: Solver, rates: Rates, passage: Passage, *, constant: bool, ideal: bool, slopes: float
) -> Flow:
    """What a unit with this solver makes of a step; `ideal`: as if it made no error of its own.

    Which steps solvers take that control their own error is not known: their flow is that of the
    solution, and known as well as their tolerance says. `slopes`: how well derivatives are known.
    """
    t, to, x, moving = passage
    length = to - t
    _, by_state, by_input = rates(t, x)
    speed = size(by_state * length)
    if isinstance(solver, (DormandPrince, Cvode)) or ideal:
        blur = 0.0
        if isinstance(solver, (DormandPrince, Cvode)) and not ideal:
            blur = SHARE * tolerated(solver, by_state, length)
        if constant:
            found, own = exact(by_state, by_input, length, moving, slopes)
            return Flow(found, own + blur)
        count = min(MAX_STEPS, max(4, ceil(speed / FINE)))
        left_out = LEFT_OUT * count * (speed / count) ** 6 + blur
        found = followed(DORMAND_PRINCE, count, rates, t, to, x, moving)
    else:
        count, left_out = solver.count(length), 0.0
        if constant:
            found = stepped(solver.tableau, count, by_state, by_input, length, moving)
        else:
            if count * len(solver.tableau.c) > STAGES:
                raise StepError(
                    f"{count:,} solver steps are too many to follow slopes through. Take shorter "
                    "communication steps, or fewer or longer solver steps",
                    unending=True,
                )
            found = followed(solver.tableau, count, rates, t, to, x, moving)
    return Flow(found, max(slopes * max(1.0, speed), EXACT * count) + left_out)
