"""Algebraic loops: how they are solved, and what of them is known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf, log
from typing import Literal, Protocol, get_args

from upbeat.core.abilities import Ability
from upbeat.core.errors import MasterError, renamed
from upbeat.core.expr import ONE, ZERO, Cell, Expr, Number, Op, apply, cells, directional_derivative
from upbeat.core.expr.calculus import TIME
from upbeat.core.ports import Kind
from upbeat.core.records import dataclass
from upbeat.master import checks
from upbeat.master.computations import Solve
from upbeat.master.port_registers import End
from upbeat.master.program import Doubt, Get, If, Instruction, Let, Reg, Repeat, Set, Slope
from upbeat.master.wiring import Wiring
from upbeat.scenario.graph import Node

# ----------------------------------------------------------------------------------------------------
# When an iteration has arrived: residuals over their tolerance, and the largest of them, as expressions.


def worst_of(errors: Iterable[Expr]) -> Expr:
    """The largest of `errors` (0 if there are none); not a number if one of them is none.

    A plain maximum gives the other value when one is not a number, and a comparison with a tolerance would
    then call it small.
    """
    worst: Expr = Number(0.0)
    for error in errors:
        there = apply(Op.EQ, error, error)
        worst = apply(Op.WHERE, there, apply(Op.MAX, error, worst), error)  # max(x, nan) is nan
    return worst


def excess(residual: Expr, tolerance: float, value: Expr | None = None) -> Expr:
    """A residual over what still counts as none: an iteration has arrived where no excess is above 1.

    Where an expression must vanish (`consistent` start values, which are found outside a program), there is
    nothing to compare with and the tolerance is absolute. With `value` it is relative to 1 + |value|.
    Algebraic loops and iterated steps, where two values must agree, are judged relative to these values
    themselves (`Torn.small`, `Iterated`), constraints relative to their terms (`Corrections.judge`). The
    unknowns inside a monolith are no iteration with a tolerance: they are found as well as rounding allows
    (`upbeat.units.equations.implicit`), because others are compared with it.
    """
    size = apply(Op.ABS, residual)
    return size / tolerance if value is None else size / (tolerance * (apply(Op.ABS, value) + 1.0))


# ----------------------------------------------------------------------------------------------------
# A loop cut open: the guesses at its tears, and the instructions that evaluate, judge and move them.

ADVICE = (
    "Begin with other start values of these inputs, solve the loop in another way (loops: Newton, Anderson, "
    "FixedPoint with damping, each with max_iterations and tolerance), or break it with "
    'outputs="lagged". Where values '
    "are nearly undetermined (gains around the loop that multiply to 1), rounding leaves more doubt than the "
    "tolerance allows: raise it, as in Newton(tolerance=1e-6), or change a gain. An output that jumps "
    "may leave a loop without a solution."
)
"""For a loop that was not solved."""
LOOP = "solving the algebraic loop "
"""How the `what` of the iteration begins; the ports follow."""
ROUNDING = 2.0**-52
MAX_SHOWN = 4
"""Of a loop with more unknowns only the residuals are said."""
SMALLEST = -1074
"""The exponent of the smallest number."""


class Torn:
    """A loop cut open: registers for the guesses, and the instructions that evaluate it.

    It is cut at inputs or, where that leaves fewer unknowns (an output that many units read), at outputs.
    """

    def __init__(self, loop: Sequence[Node], wiring: Wiring, tolerance: float, warm: bool) -> None:
        tears, rest = wiring.scenario.graph.torn(loop)
        self.ports = " → ".join(wiring.label((node.unit, node.port)) for node in loop)
        for node in loop:
            port = wiring.port((node.unit, node.port))
            if port.kind is not Kind.REAL:
                raise MasterError(
                    f"{wiring.label((node.unit, node.port))} in the algebraic loop {self.ports} is "
                    f"{port.kind.value}: only real signals can be "
                    'iterated. Break the loop with outputs = "lagged".'
                )
        self.wiring = wiring
        self.rest = rest
        self.loop = tuple(loop)
        self.at_outputs = tears[0].side == "out"
        self.tears: list[End] = [(node.unit, node.port) for node in tears]
        self.names = [name for end in self.tears for name in cell_names(end, wiring)]
        self.size = len(self.names)
        self.cells = range(self.size)
        self._mark = wiring.registers.unique(f"loop {self.names[0]}")
        self.warm = warm
        self.guess = self.register("x", self.size)
        self.residual = self.register("r", self.size)
        self.solved = self.register("solved", kind=Kind.BOOLEAN)
        self.tolerance = tolerance
        self._largest = self.register("largest", self.size, Kind.INTEGER, (SMALLEST,) * self.size)
        """The exponents (of 2) of the largest values of late, which count half as much with every solution:
        what decays for long is solved as well in the end. No real number: nothing depends on it smoothly, so
        it is none of the states of the program."""

    def register(
        self, name: str, size: int = 1, kind: Kind = Kind.REAL, start: Sequence[float] | None = None
    ) -> Reg:
        registers = self.wiring.registers
        return registers.new(registers.unique(f"{self._mark}′{name}"), kind, size, start)

    def values(self) -> list[Reg]:
        """The cells that hold g(x) after an evaluation."""
        w = self.wiring
        first = w.outputs if self.at_outputs else w.inputs
        return [first[end] + i for end in self.tears for i in range(w.port(end).cells)]

    def start(self) -> list[Instruction]:
        """The guesses to begin with, and how large the values have been."""
        w = self.wiring
        first: list[Expr] = [Cell(value) for value in self.values()]
        instructions: list[Instruction] = []
        if not self.warm and self.at_outputs:  # what they are at the start values of the inputs
            instructions += [Get(*end, w.outputs[end], trial=True) for end in self.tears]
        elif not self.warm:
            first = [Number(float(value)) for end in self.tears for value in w.port(end).initial]
        instructions += [Let(self.guess + i, value) for i, value in enumerate(first)]
        for i in self.cells:
            size = apply(Op.CLIP, apply(Op.ABS, Cell(self.guess + i)), 2.0**SMALLEST, 1e300)
            exponent = apply(Op.CEIL, apply(Op.LOG, size) / log(2.0))
            largest = apply(Op.MAX, Cell(self._largest + i) - 1.0, exponent)
            instructions.append(Let(self._largest + i, largest))
        return instructions

    def evaluate(self, at: Reg) -> list[Instruction]:
        """g of the guesses in `at`, into the registers of the ports that it is cut at.

        A guess may be far off, so what comes of it may be anything.
        """
        w, first = self.wiring, at
        instructions: list[Instruction] = []
        for end in self.tears:
            size = w.port(end).cells
            if self.at_outputs:
                instructions += [Let(w.outputs[end] + i, Cell(first + i)) for i in range(size)]
            else:
                instructions.append(Set(*end, (first,), trial=True))
            first += size
        for node in self.rest:
            end = (node.unit, node.port)
            if node.side == "out":
                instructions.append(Get(*end, w.outputs[end], trial=True))
            else:
                instructions += [*w.compute(end), Set(*end, (w.inputs[end],), trial=True)]
        for end in self.tears:
            instructions += [Get(*end, w.outputs[end], trial=True)] if self.at_outputs else w.compute(end)
        return instructions

    def residuals(self) -> list[Instruction]:
        """g(x) - x, after an evaluation at the guesses."""
        return [Let(self.residual + i, Cell(v) - Cell(self.guess + i)) for i, v in enumerate(self.values())]

    @property
    def finite(self) -> Expr:
        """Whether all that an evaluation has found are numbers."""
        w = self.wiring
        found = [self.residual + i for i in self.cells]
        for node in self.loop:
            if node.side == "out":
                end = (node.unit, node.port)
                found += [w.outputs[end] + i for i in range(w.port(end).cells)]
        total: Expr = Number(0.0)
        for cell in dict.fromkeys(found):
            total = total + 0.0 * Cell(cell)
        return apply(Op.EQ, total, 0.0)

    def rounding(self, i: int) -> Expr:
        """What is negligible compared with the largest value that an unknown has had of late."""
        return ROUNDING * apply(Op.EXP, log(2.0) * Cell(self._largest + i))

    def small(self, cell: Reg, part: float, i: int) -> Expr:
        """Whether a cell is at most so small a part of an unknown, or next to nothing."""
        bound = part * apply(Op.ABS, Cell(self.guess + i)) + self.rounding(i)
        return apply(Op.LE, apply(Op.ABS, Cell(cell)), bound)

    def repeat(
        self,
        max_iterations: int,
        body: Sequence[Instruction],
        begin: Sequence[Instruction],
        more: Sequence[tuple[str, Reg]] = (),
    ) -> list[Instruction]:
        shows = [(f"residual of {name}", self.residual + i) for i, name in enumerate(self.names)]
        if self.size <= MAX_SHOWN:
            shows += [(f"value of {name}", self.guess + i) for i, name in enumerate(self.names)]
            shows += more
        return [
            *self.start(),
            *begin,
            Repeat(
                max_iterations,
                tuple(body),
                Cell(self.solved),
                "fail",
                f"{LOOP}{self.ports}",
                tuple(shows),
                ADVICE,
            ),
        ]


def all_of(conditions: Iterable[Expr]) -> Expr:
    """Whether all conditions hold."""
    total: Expr = Number(1.0)
    for condition in conditions:
        total = condition if total == Number(1.0) else apply(Op.AND, total, condition)
    return total


def cell_names(end: End, wiring: Wiring) -> list[str]:
    """What people call the cells of a port."""
    port = wiring.port(end)
    name = wiring.label(end)
    return [name] if port.size is None else [f"{name}[{i}]" for i in range(port.size)]


# ----------------------------------------------------------------------------------------------------
# The derivatives of a torn loop: the chain rule through units (`Slope`) and connections (formulas).
#
# Every cell on the loop has a *gradient*: how it reacts to each of the guesses at the tears. The gradients
# follow the signals, node by node in the order of evaluation. Entries that are zero are left out, and
# those that are plain copies cost nothing, so a ring of n units needs n products.

Gradient = dict[int, Expr]
"""By the number of a guess, numbers and cells only; what is missing is zero."""


def unable(torn: Torn) -> list[str]:
    """The units on the loop that do not know their slopes."""
    units = torn.wiring.scenario.units
    names = dict.fromkeys(node.unit for node in torn.loop)
    return [torn.wiring.called(name) for name in names if Ability.SLOPES not in units[name].abilities]


def products(torn: Torn) -> int:
    """How many products the chain rule may need: arrays multiply like matrices."""
    wiring, members = torn.wiring, set(torn.loop)
    total = 0
    for node in torn.loop:
        if node.side == "out":
            port = wiring.port((node.unit, node.port))
            inputs = [name for name in port.depends if Node("in", node.unit, name) in members]
            total += port.cells * sum(wiring.port((node.unit, name)).cells for name in inputs)
    return total * torn.size


def chain_rule(torn: Torn, matrix: Reg) -> list[Instruction]:
    """1 - ∂g/∂x at the guess that was evaluated last, row by row into the cells from `matrix` on."""
    chain = Chain(torn.wiring, torn.register)
    guesses = iter(range(torn.size))
    for end in torn.tears:
        for i in range(torn.wiring.port(end).cells):
            own: Gradient = {next(guesses): ONE}
            if torn.at_outputs:
                chain.outputs[torn.wiring.outputs[end] + i] = own
            else:
                chain.inputs.setdefault(end, []).append(own)
    for node in torn.rest:
        end = (node.unit, node.port)
        if node.side == "in":
            chain.inputs[end] = chain.through_connection(end)
        else:
            for i, gradient in enumerate(chain.through_unit(end)):
                chain.outputs[torn.wiring.outputs[end] + i] = gradient
    rows: list[Gradient] = []
    for end in torn.tears:
        rows += chain.through_unit(end) if torn.at_outputs else chain.through_connection(end)
    for i, gradient in enumerate(rows):
        for j in range(torn.size):
            slope = gradient.get(j, ZERO)
            if isinstance(slope, Number):
                entry: Expr = Number((1.0 if i == j else 0.0) - slope.value)
            else:
                entry = 1.0 - slope if i == j else -slope
            chain.instructions.append(Let(matrix + i * torn.size + j, entry))
    return chain.instructions


class Chain:
    """Gradients so far, and the instructions that compute them; `register` makes registers for these."""

    def __init__(self, wiring: Wiring, register: Callable[[str, int], Reg]) -> None:
        self._wiring = wiring
        self._register = register
        self.instructions: list[Instruction] = []
        self.inputs: dict[End, list[Gradient]] = {}
        self.outputs: dict[Reg, Gradient] = {}
        """By cell. Inputs have no such table: one that is a plain copy shares the cell of its source."""

    def through_connection(self, end: End) -> list[Gradient]:
        """The gradients of an input that is computed from outputs."""
        wiring = self._wiring
        first = wiring.inputs[end]
        formulas = {let.to: let.value for let in wiring.compute(end) if isinstance(let, Let)}
        cells_ = (formulas.get(first + i, Cell(first + i)) for i in range(wiring.port(end).cells))
        return [self.of(formula, cell_names(end, wiring)[i]) for i, formula in enumerate(cells_)]

    def of(self, formula: Expr, name: str) -> Gradient:
        """The gradient of what is computed from cells of outputs."""
        terms: dict[int, dict[Expr, Expr]] = {}
        for cell in sorted(cells(formula)):
            for j, slope in self.outputs.get(cell, {}).items():
                terms.setdefault(j, {})[Cell(cell)] = slope
        rates = {j: directional_derivative(formula, known) for j, known in sorted(terms.items())}
        return self._stored(name, rates)

    def through_unit(self, end: End, time: int | None = None) -> list[Gradient]:
        """The gradients of an output, from those of the inputs it depends on directly; `time`: the number of
        the time, if its own motion is one of the things that the output follows."""
        wiring, (unit, output) = self._wiring, end
        port = wiring.port(end)
        sums: list[Gradient] = [{} for _ in range(port.cells)]
        if time is not None:
            motion = self._register(f"∂{unit}.{output}/∂{TIME}", port.cells)
            self.instructions.append(Slope(unit, output, TIME, motion))
            sums = [{time: Cell(motion + i)} for i in range(port.cells)]
        for name in sorted(port.depends):
            gradients = self.inputs.get((unit, name))
            if gradients is None or not any(gradients):
                continue  # not on the loop, or nothing of it arrives here
            width = len(gradients)
            slope = self._register(f"∂{unit}.{output}/∂{name}", port.cells * width)
            self.instructions.append(Slope(unit, output, name, slope))
            for i, total in enumerate(sums):
                for k, gradient in enumerate(gradients):
                    for j, inner in sorted(gradient.items()):
                        factor = Cell(slope + i * width + k)
                        term = factor if inner == ONE else apply(Op.MUL, factor, inner)
                        total[j] = total[j] + term if j in total else term
        return [self._stored(cell_names(end, wiring)[i], total) for i, total in enumerate(sums)]

    def _stored(self, name: str, gradient: Gradient) -> Gradient:
        """The same gradient, without zeros, and with all that has to be computed in registers."""
        stored: Gradient = {}
        for j, slope in gradient.items():
            if slope == ZERO:
                continue
            if isinstance(slope, (Number, Cell)):
                stored[j] = slope
            else:
                to = self._register(f"∂{name}/∂x{j}", 1)
                self.instructions.append(Let(to, slope))
                stored[j] = Cell(to)
        return stored


# ----------------------------------------------------------------------------------------------------
# Algebraic loops: solvers that find inputs and outputs which agree with each other at one instant.
#
# A loop is cut open at some inputs (`Graph.torn`). Guessing these, x, and evaluating the rest in order
# gives new values g(x) for them; a solver looks for x = g(x). All of it is instructions: evaluating
# is `Set` and `Get`, the guesses are registers, iterating is `Repeat`.

Slopes = Literal["auto", "units", "differences"]
DIFFERENCE = 1e-7
"""How far unknowns are moved to see slopes, as part of their size."""
MAX_PRODUCTS = 20_000
"""A loop whose chain rule may need more than this is solved with differences, unless told otherwise."""

SHORT = 1e-2
"""A step that changes an unknown by this part of it, and hardly any slopes."""
QUICK = 1e-3
"""The part of the tolerance that a residual has to be within after a longer one."""
SHORTEST = 2.0**-20
"""The smallest part of a step that is tried. If that makes nothing better, the search begins again at zero,
and after that such a step is made as a whole, and taken as it comes: it may lead over a kink."""

MIN_STEP = 2.0**-46
"""A step no part of which makes anything better, and that is no longer than this, is rounding: of numbers
around 1 inside of units, as in exp(u) - 1, which are not seen from outside."""
PROBE = 1e-12
"""Where outputs are not finite at the first guess, others are tried: so far from it, then 16 times as far."""

DEEPEST = 50
"""The most rounds that `Anderson` looks back."""

AT_REST = 16
"""So many times the number of unknowns a first guess may be exact before slopes are looked at again."""
LOOKED = 16
"""In a run, each so many-th solution is looked at, whether others solve the loop as well."""
MAX_JUDGED = 32
"""A loop with more unknowns, whose units do not know slopes, is not looked at whether it is determined."""
NEARLY = 1e-6
"""Gains that would have to change by this part only, and any value would fulfil the loop: a warning."""
ROUNDED = 1e-10
"""By less than this: nothing but rounding tells the one value from any other."""
PART = 2.0**-6
"""How far from a solution another one is looked for, as part of the unknowns' size."""
UNDETERMINED = (
    "Other values of its inputs fulfil the loop as well, to ten digits: nothing determines them, and other "
    "start values would only give other results. Change a gain on the loop, or break it: with a unit that "
    'has a state (a delay), or with outputs="lagged", where the values of the step before count.'
)
"""For a loop whose equations repeat each other."""


class LoopSolver(Protocol):
    """Writes the instructions that solve one loop and leave its outputs read and its inputs set."""

    def solve(self, loop: Sequence[Node], wiring: Wiring, *, warm: bool) -> list[Instruction]:
        """`warm`: begin with what the inputs are now; else with their start values (start of a run)."""
        ...


def _check(solver: FixedPoint | Newton | Anderson, *numbers: str) -> None:
    kind = type(solver).__name__
    for name in numbers:
        checks.positive(getattr(solver, name), f"the {name} of {kind}")
    checks.count(solver.max_iterations, f"max_iterations of {kind}")


@renamed
@dataclass(frozen=True, slots=True)
class FixedPoint:
    """x := x + damping·(g(x) - x): converges where the loop's gain is below one.

    It ends where the rest of the way, judged by what the last round has changed, is at most `tolerance`
    relative to every unknown.
    """

    tolerance: float = 1e-10
    max_iterations: int = 200
    damping: float = 1.0

    def __post_init__(self) -> None:
        _check(self, "tolerance", "damping")

    def solve(self, loop: Sequence[Node], wiring: Wiring, *, warm: bool) -> list[Instruction]:
        torn = Torn(loop, wiring, self.tolerance, warm)
        judged = _Secant(torn)
        move = [
            Let(torn.guess + i, Cell(torn.guess + i) + self.damping * Cell(torn.residual + i))
            for i in torn.cells
        ]
        step = (*judged.remember(), *move)
        body = [
            *torn.evaluate(torn.guess),
            *torn.residuals(),
            *judged.judge(),
            If(Cell(torn.solved), (), step),
        ]
        return [*torn.repeat(self.max_iterations, body, judged.start()), *determined(torn)]


SLOWEST = 1e-2
"""An unknown is at least so far from its solution, in parts of its residual, as far as secants can tell."""


class _Secant:
    """Judges iterations that know no slopes, by the last two rounds.

    What the residual has changed by, over what the unknown has, tells how far a solution is. So neither a
    slow iteration nor one that drifts away, to where any residual is small compared with the values,
    looks solved; nor does one that rounding keeps from coming nearer. Where an unknown has hardly moved, its
    residual has changed because others have: no loop is taken to be steeper than 1/`SLOWEST`.
    """

    def __init__(self, torn: Torn) -> None:
        self._torn = torn
        self.past_x, self.past_r = torn.register("x′", torn.size), torn.register("r′", torn.size)

    def start(self) -> list[Instruction]:
        """Nothing is before the first round."""
        lets: list[Instruction] = []
        for i in self._torn.cells:
            lets += [Let(self.past_x + i, Cell(self._torn.guess + i)), Let(self.past_r + i, Number(0.0))]
        return lets

    def remember(self) -> list[Instruction]:
        """The present round is the one before, from now on."""
        torn, lets = self._torn, list[Instruction]()
        for i in torn.cells:
            lets += [
                Let(self.past_x + i, Cell(torn.guess + i)),
                Let(self.past_r + i, Cell(torn.residual + i)),
            ]
        return lets

    def judge(self) -> list[Instruction]:
        torn, conditions = self._torn, [self._torn.finite]
        for i in torn.cells:
            x, r = Cell(torn.guess + i), Cell(torn.residual + i)
            moved = apply(Op.ABS, x - Cell(self.past_x + i))
            rate = apply(Op.MAX, moved / apply(Op.ABS, r - Cell(self.past_r + i)), SLOWEST)
            left = (apply(Op.ABS, r) + 2 * ROUNDING * apply(Op.ABS, x)) * rate
            arrived = apply(Op.LE, left, torn.tolerance * apply(Op.ABS, x) + torn.rounding(i))
            still = torn.small(torn.residual + i, 4 * ROUNDING, i)
            conditions.append(apply(Op.WHERE, apply(Op.GT, moved, 0.0), arrived, still))
        return [Let(torn.solved, all_of(conditions))]


@renamed
@dataclass(frozen=True, slots=True)
class Newton:
    """Newton's method on g(x) - x = 0, damped.

    `slopes` says where the derivatives of g come from. "units": from the units themselves, through the
    formulas of the connections by the chain rule; every unit on the loop must know its slopes.
    "differences": from evaluating the loop once more for every unknown, changed by `difference` (relative to
    its size). "auto" (the default) asks the units where all of them know; in a round in which some slope
    is not finite, as that of sqrt(u) at 0, it takes differences. Wrong slopes from a unit never give a wrong
    solution: the iteration ends where outputs and inputs agree, or not at all.

    It ends where the next step would change every unknown by at most `tolerance`, relative to itself. A step
    stands if the next one, judged by the same slopes, is shorter; otherwise a quarter of it is tried, and so
    on. (That test, of Deuflhard, does not depend on the units of measure of anything.) Where steps stay as
    long as they were, as on the steep side of an exponential, they are doubled.
    """

    tolerance: float = 1e-10
    max_iterations: int = 200
    difference: float = DIFFERENCE
    slopes: Slopes = "auto"

    def __post_init__(self) -> None:
        _check(self, "tolerance", "difference")
        checks.choice(self.slopes, get_args(Slopes), "slopes of Newton")

    def solve(self, loop: Sequence[Node], wiring: Wiring, *, warm: bool) -> list[Instruction]:
        torn = Torn(loop, wiring, self.tolerance, warm)
        n, x, r, solved = torn.size, torn.guess, torn.residual, torn.solved
        base, step, next_ = (torn.register(name, n) for name in ("base", "dx", "dx′"))
        matrix, part, shift = torn.register("J", n * n), torn.register("part"), torn.register("shift")
        known, stands, slow = (torn.register(name, kind=Kind.BOOLEAN) for name in ("known", "stands", "slow"))
        close, stuck = torn.register("close", kind=Kind.BOOLEAN), torn.register("stuck", kind=Kind.INTEGER)
        asks = self._asks_units(torn)
        find = self._slopes(torn, matrix, next_) if asks else self._differences(torn, matrix, next_)
        differs = not asks or self.slopes == "auto"

        noise, blur = torn.register("noise", n), torn.register("blur", n)
        blurred = self._blurred(torn, matrix, noise, blur)

        def length(of: Reg, at: Reg) -> Expr:
            """The largest part of a change, each over the size of its unknown and of the last step."""
            sizes = [apply(Op.ABS, Cell(at + i)) + apply(Op.ABS, Cell(step + i)) for i in torn.cells]
            parts = [apply(Op.ABS, Cell(of + i)) / size for i, size in enumerate(sizes)]
            return worst_of(
                apply(Op.WHERE, apply(Op.GT, size, 0.0), one, 0.0)
                for size, one in zip(sizes, parts, strict=True)
            )

        # Slopes are a step old here: that has to be a short one, or the residual much smaller than need be.
        near = [torn.small(r + i, self.tolerance, i) for i in torn.cells]
        near += [
            apply(Op.OR, torn.small(step + i, SHORT, i), torn.small(r + i, QUICK * self.tolerance, i))
            for i in torn.cells
        ]
        near += [torn.small(next_ + i, self.tolerance, i) for i in torn.cells]
        near += [self._sharp(torn, matrix, noise, blur + i, i) for i in torn.cells]
        exact = [torn.small(r + i, 4 * ROUNDING, i) for i in torn.cells]
        # With the slopes of this very point there is no doubt how near it is. Where the residual is not small
        # yet, one more step is made: then it is as small as the rounding inside of units allows.
        sure = [self._sharp(torn, matrix, noise, cell + i, i) for cell in (step, blur) for i in torn.cells]
        still = [self._sharp(torn, matrix, noise, next_ + i, i) for i in torn.cells]
        quiet = [torn.finite]
        for i in torn.cells:
            loud = self.tolerance * apply(Op.ABS, Cell(x + i)) + torn.rounding(i) + 16.0 * Cell(noise + i)
            quiet.append(apply(Op.LE, apply(Op.ABS, Cell(r + i)), loud))
        arrived = apply(Op.OR, all_of(near), all_of([Cell(close), *still]))
        # A first guess that is exact says nothing about other values, which might fulfil the loop as well:
        # now and then slopes are looked at nevertheless. (At the start they are, see `determined`.)
        rests = torn.register("rests", kind=Kind.INTEGER)
        exact.append(apply(Op.LT, Cell(rests), float(AT_REST * n)))
        arrived = apply(Op.WHERE, Cell(known), arrived, all_of(exact))
        shorter = (1.0 - 0.25 * apply(Op.MIN, Cell(part), 1.0)) * length(step, base)
        # The first evaluation has no step to be judged; nor has one after a step that nothing made shorter.
        fine: Expr = apply(Op.AND, torn.finite, apply(Op.LE, length(next_, base), shorter))
        # A doubled step must not lead beyond the solution: slopes that are much flatter there would hide it.
        ahead = [
            apply(Op.OR, apply(Op.GE, Cell(next_ + i) * Cell(step + i), 0.0), torn.small(step + i, SHORT, i))
            for i in torn.cells
        ]
        fine = apply(Op.AND, fine, apply(Op.OR, apply(Op.LE, Cell(part), 1.0), all_of(ahead)))
        fine = apply(Op.OR, apply(Op.NOT, Cell(known)), fine)
        lags: Expr = apply(Op.GE, length(next_, x), 0.5 * length(step, x))
        lags = all_of([Cell(known), apply(Op.GE, Cell(part), 1.0), lags])
        change = (
            *find,
            Let(slow, lags),
            If(
                Cell(slow), (Let(part, 2.0 * Cell(part)),), (Let(part, apply(Op.MIN, 1.0, 4.0 * Cell(part))),)
            ),
            *(Let(base + i, Cell(x + i)) for i in torn.cells),
            *(Let(step + i, Cell(next_ + i)) for i in torn.cells),
            Let(known, Number(1.0)),
            *blurred,
            Let(close, all_of(sure)),
            If(Cell(close), (Let(part, Number(1.0)),)),
            Let(solved, all_of([Cell(close), *quiet])),
        )
        zero = tuple(Let(first + i, Number(0.0)) for first in (base, step) for i in torn.cells)
        elsewhere = (If(apply(Op.EQ, Cell(stuck), 0.0), zero), Let(stuck, Cell(stuck) + 1.0))
        # Smooth outputs make some part of a step better; those that are all rounding do not, however near.
        smallest = all_of(apply(Op.LE, apply(Op.ABS, Cell(step + i)), MIN_STEP) for i in torn.cells)
        again = (*elsewhere, Let(known, Number(0.0)), Let(part, Number(1.0)))
        back = (
            Let(part, 0.25 * Cell(part)),
            If(apply(Op.LT, Cell(part), SHORTEST), (If(smallest, (Let(solved, Number(1.0)),), again),)),
        )
        probe = (
            Let(shift, apply(Op.WHERE, apply(Op.EQ, Cell(shift), 0.0), PROBE, -16.0 * Cell(shift))),
            *(Let(x + i, Cell(base + i) + Cell(shift)) for i in torn.cells),
        )
        lost = apply(Op.NOT, apply(Op.OR, Cell(known), torn.finite))
        moves = tuple(Let(x + i, Cell(base + i) + Cell(part) * Cell(step + i)) for i in torn.cells)
        body = [
            *torn.evaluate(x),
            *torn.residuals(),
            Solve(n, matrix, r, next_),
            *blurred,
            Let(solved, apply(Op.AND, torn.finite, arrived)),
            If(
                Cell(solved),
                (),
                (
                    If(
                        lost,
                        probe,
                        (
                            Let(stands, fine),
                            If(Cell(stands), change, back),
                            # Differences leave the inputs elsewhere.
                            If(Cell(solved), tuple(torn.evaluate(x)) if differs else (), moves),
                        ),
                    ),
                ),
            ),
        ]
        begin: list[Instruction] = [Let(base + i, Cell(x + i)) for i in torn.cells]
        begin += [Let(step + i, Number(0.0)) for i in torn.cells]
        begin += [Let(matrix + k, Number(float(k % (n + 1) == 0))) for k in range(n * n)]
        begin += [Let(known, Number(0.0)), Let(part, Number(1.0))]
        begin += [Let(shift, Number(0.0)), Let(stuck, Number(0.0)), Let(close, Number(0.0))]
        blurs = [(f"rounding of {name}", blur + i) for i, name in enumerate(torn.names)]
        rested = Let(rests, apply(Op.WHERE, Cell(known), 0.0, Cell(rests) + 1.0))
        # With slopes that are known, `blur` has told whether values are determined.
        unseen = [] if warm else [If(Cell(known), (), tuple(determined(torn)))]
        return [*torn.repeat(self.max_iterations, body, begin, blurs), rested, *unseen]

    def _blurred(self, torn: Torn, matrix: Reg, noise: Reg, blur: Reg) -> list[Instruction]:
        """What rounding may do to each residual (`noise`), and through it to the unknowns (`blur`)."""
        n, lets = torn.size, list[Instruction]()
        for i in torn.cells:
            terms: Expr = apply(Op.ABS, Cell(torn.guess + i))
            for j in torn.cells:
                terms = terms + apply(Op.ABS, Cell(matrix + i * n + j)) * apply(Op.ABS, Cell(torn.guess + j))
            lets.append(Let(noise + i, ROUNDING * terms))
        return [*lets, Solve(n, matrix, noise, blur)]

    def _sharp(self, torn: Torn, matrix: Reg, noise: Reg, cell: Reg, i: int) -> Expr:
        """Whether a change of an unknown is next to nothing.

        Where it is the difference of larger terms, no more can be asked for than their rounding.
        """
        gain = apply(Op.MAX, apply(Op.ABS, Cell(matrix + i * torn.size + i)), 1.0)
        bound = self.tolerance * apply(Op.ABS, Cell(torn.guess + i)) + torn.rounding(i)
        return apply(Op.LE, apply(Op.ABS, Cell(cell)), bound + 16.0 * Cell(noise + i) / gain)

    def _asks_units(self, torn: Torn) -> bool:
        """Whether the units give the slopes. The choice is noted, with the reason."""
        lacking, note = unable(torn), f"the loop {torn.ports} is solved by Newton's method with "
        if self.slopes == "differences":
            torn.wiring.note(note + "finite differences, as asked for")
            return False
        if not lacking and self.slopes == "auto" and products(torn) > MAX_PRODUCTS:
            torn.wiring.note(note + "finite differences, because its arrays make many products of slopes")
            return False
        if not lacking:
            torn.wiring.note(note + "the slopes that its units know")
            return True
        ignorant = "does not know its slopes" if len(lacking) == 1 else "do not know their slopes"
        who = f"{', '.join(lacking)} {ignorant}"
        if self.slopes == "units":
            raise MasterError(
                f"the loop {torn.ports} cannot be solved with the slopes of its units: {who}. Use "
                'Newton(slopes="auto") (in a file: loops = "newton"), which then takes differences.'
            )
        torn.wiring.note(f"{note}finite differences, because {who}")
        return False

    def _slopes(self, torn: Torn, matrix: Reg, change: Reg) -> list[Instruction]:
        """The change of x, from the slopes of the units."""
        n, r = torn.size, torn.residual
        block = [*chain_rule(torn, matrix), Solve(n, matrix, r, change)]
        # Both count: an infinite slope gives a change of zero, and a singular matrix one that is no number.
        finite = _finite([*range(change, change + n), *range(matrix, matrix + n * n)])
        if self.slopes == "auto":
            return [*block, If(finite, (), tuple(self._differences(torn, matrix, change)))]
        # Nothing but the units is to be used.
        return [*block, If(finite, (), self._substitution(torn, change))]

    def _substitution(self, torn: Torn, change: Reg) -> tuple[Instruction, ...]:
        """The plain change to g(x): it leads away from a point without slopes, too."""
        return tuple(Let(change + i, Cell(torn.residual + i)) for i in torn.cells)

    def _differences(self, torn: Torn, matrix: Reg, change: Reg) -> list[Instruction]:
        """The change of x, from one more evaluation of the loop for every unknown, one a round."""
        n = torn.size
        block = [*_differences(torn, matrix, self.difference), Solve(n, matrix, torn.residual, change)]
        finite = _finite(range(change, change + n))
        return [*block, If(finite, (), self._substitution(torn, change))]


def _differences(torn: Torn, matrix: Reg, difference: float) -> list[Instruction]:
    """1 - ∂g/∂x at the guess that was evaluated last, from one more evaluation for every unknown."""
    n, x = torn.size, torn.guess
    before, at, width = (torn.register(name, n) for name in ("g", "at", "d"))
    count = torn.register("unknown", kind=Kind.INTEGER)
    cells = torn.cells
    block: list[Instruction] = [Let(before + i, Cell(value)) for i, value in enumerate(torn.values())]
    sizes: list[Expr] = []
    for i in cells:
        own, found = apply(Op.ABS, Cell(x + i)), apply(Op.ABS, Cell(before + i))
        # Where the unknown is zero, its new value tells its size, unless it is wild.
        known_size = apply(Op.AND, apply(Op.EQ, own, 0.0), apply(Op.LT, found, 1e30))
        sizes.append(own + apply(Op.WHERE, known_size, found, 0.0))
    usual = torn.register("usual")
    block.append(Let(usual, _usual(sizes)))
    for i, size in enumerate(sizes):
        # An unknown that is zero, and stays zero, says nothing about its size: the others do.
        known = apply(Op.WHERE, apply(Op.GT, size, 0.0), size, Cell(usual))
        moved = Cell(x + i) + difference * known
        block.append(Let(width + i, moved - Cell(x + i)))  # what rounding leaves of it
    block.append(Let(count, Number(0.0)))
    body: list[Instruction] = []
    for i in cells:
        chosen = apply(Op.EQ, Cell(count), float(i))
        body.append(Let(at + i, apply(Op.WHERE, chosen, Cell(x + i) + Cell(width + i), Cell(x + i))))
    body += torn.evaluate(at)
    for j in cells:
        chosen = apply(Op.EQ, Cell(count), float(j))
        for i, value in enumerate(torn.values()):
            slope = (Cell(value) - Cell(before + i)) / Cell(width + j)
            entry = 1.0 - slope if i == j else -slope
            k = matrix + i * n + j
            body.append(Let(k, apply(Op.WHERE, chosen, entry, Cell(k))))
    body.append(Let(count, Cell(count) + 1.0))
    block.append(Repeat(n, tuple(body), apply(Op.GE, Cell(count), float(n)), "accept"))
    # What is evaluated last is not at x; but its outputs are looked at once more.
    return block + [Let(value, Cell(before + i)) for i, value in enumerate(torn.values())]


def _usual(sizes: Sequence[Expr]) -> Expr:
    """The largest of some sizes, or 1 where all are zero."""
    largest: Expr = Number(0.0)
    for size in sizes:
        largest = apply(Op.MAX, largest, size)
    return apply(Op.WHERE, apply(Op.GT, largest, 0.0), largest, 1.0)


def determined(torn: Torn) -> list[Instruction]:
    """Fails where values near the solution solve the loop as well, and warns where they nearly do.

    Looked at where solvers may be done at a first guess, without having seen any slopes: at the start, and
    each so many-th time in a run.
    The direction in which unknowns react most comes from the matrix; how well another value in that direction
    solves the loop is evaluated. So a point without slopes that is the only solution (x = x - x²) is none.
    """
    n, x = torn.size, torn.guess
    knows = not unable(torn) and products(torn) <= MAX_PRODUCTS
    if not knows and n > MAX_JUDGED:
        torn.wiring.note(
            f"whether other values fulfil the loop {torn.ports} as well was not looked at: it has {n} "
            "unknowns, and not all of its units know their slopes"
        )
        return []
    matrix, usual = torn.register("1-J", n * n), torn.register("usual size")
    size, gain, right, way, at, moved, far = (
        torn.register(name, n) for name in ("size", "gain", "right", "way", "beside", "moved", "far")
    )
    largest, left = torn.register("reaction"), torn.register("left")

    def terms(i: int, sizes: Reg) -> Expr:
        """What the residual of an unknown is the difference of, for changes of these sizes."""
        total: Expr = (1.0 + Cell(gain + i)) * Cell(sizes + i)
        for j in torn.cells:
            if i != j:
                total = total + apply(Op.ABS, Cell(matrix + i * n + j)) * Cell(sizes + j)
        return total

    block = chain_rule(torn, matrix) if knows else _differences(torn, matrix, DIFFERENCE)
    own = [apply(Op.ABS, Cell(x + i)) for i in torn.cells]
    block.append(Let(usual, _usual(own)))
    for i, one in enumerate(own):
        pivot = Cell(matrix + i * n + i)
        smallest = 1e-3 * ROUNDED * (1.0 + Cell(gain + i))  # nothing is divided by zero
        block += [
            Let(size + i, apply(Op.WHERE, apply(Op.GT, one, 0.0), one, Cell(usual))),
            Let(gain + i, apply(Op.ABS, 1.0 - pivot)),
            Let(matrix + i * n + i, pivot + apply(Op.WHERE, apply(Op.LT, pivot, 0.0), -smallest, smallest)),
        ]
    for i in torn.cells:  # with weights of no pattern, so that no direction is missed
        weight = (1.0 if i % 3 else -1.0) * (1.0 + (i * 0.6180339887498949) % 1.0)
        block.append(Let(right + i, weight * terms(i, size)))
    block.append(Solve(n, matrix, right, way))
    reactions = [apply(Op.ABS, Cell(way + i)) / Cell(size + i) for i in torn.cells]
    block.append(Let(largest, worst_of(reactions)))
    beside: list[Instruction] = []
    rests: list[Instruction] = []
    for i, value in enumerate(torn.values()):
        beside.append(Let(at + i, Cell(x + i) + PART / Cell(largest) * Cell(way + i)))
        beside.append(Let(moved + i, apply(Op.ABS, Cell(at + i) - Cell(x + i))))
        beside.append(Let(far + i, own[i] + Cell(moved + i)))
        rest = apply(Op.ABS, Cell(value) - Cell(at + i) - Cell(torn.residual + i))
        rests.append(Let(way + i, apply(Op.MAX, rest - 8.0 * ROUNDING * terms(i, far), 0.0)))
        rests.append(Let(right + i, terms(i, moved)))
    parts = [  # where nothing moves, nothing is left
        apply(Op.WHERE, apply(Op.GT, Cell(way + i), 0.0), Cell(way + i) / Cell(right + i), 0.0)
        for i in torn.cells
    ]
    fails = Repeat(
        1,
        (),
        apply(Op.NOT, apply(Op.LE, Cell(left), ROUNDED)),
        "fail",
        f"{LOOP}{torn.ports}",
        (),
        UNDETERMINED,
    )
    sentence = (
        f"the algebraic loop {torn.ports} is nearly undetermined at t = ",
        0,
        ": its condition number is ",
        2,
        ", by which small errors of outputs may grow in its solution. Look at the gains on the loop",
    )
    doubt = next((one for one in torn.wiring.doubts if one.parts == sentence), None)
    if doubt is None:
        doubt = Doubt(torn.register("nearly undetermined", 3, start=(inf, 0.0, 0.0)), sentence)
        torn.wiring.doubts.append(doubt)
    singular = apply(Op.AND, apply(Op.GE, Cell(largest), 1.0 / NEARLY), apply(Op.LT, Cell(largest), 1e300))
    search = (
        *beside,
        *torn.evaluate(at),
        *rests,
        Let(left, worst_of(parts)),
        *torn.evaluate(x),
        fails,
        If(apply(Op.LE, Cell(left), NEARLY), doubt.noted(Cell(torn.wiring.next), 1.0 / Cell(left))),
    )
    block.append(If(singular, search, () if knows else tuple(torn.evaluate(x))))
    if not torn.warm:
        return block
    solved = torn.register("unlooked", kind=Kind.INTEGER)
    again = (Let(solved, Number(0.0)), *block)
    return [Let(solved, Cell(solved) + 1.0), If(apply(Op.GE, Cell(solved), float(LOOKED)), again)]


def _finite(cells: Iterable[Reg]) -> Expr:
    """Whether all of them are numbers that can be gone on with."""
    size: Expr = Number(0.0)
    for cell in cells:
        size = size + apply(Op.ABS, Cell(cell))
    return apply(Op.LT, size, 1e300)


@renamed
@dataclass(frozen=True, slots=True)
class Anderson:
    """Anderson acceleration: fixed point iteration that learns from its last `depth` rounds."""

    tolerance: float = 1e-10
    max_iterations: int = 100
    depth: int = 3

    def __post_init__(self) -> None:
        _check(self, "tolerance")
        if checks.count(self.depth, "the depth of Anderson") > DEEPEST:
            raise MasterError(
                f"the depth of Anderson, {self.depth}, is more than {DEEPEST}: a few rounds, such as 3 to "
                "10, are all that helps"
            )

    def solve(self, loop: Sequence[Node], wiring: Wiring, *, warm: bool) -> list[Instruction]:
        torn = Torn(loop, wiring, self.tolerance, warm)
        n, x, r, depth = torn.size, torn.guess, torn.residual, self.depth
        judged = _Secant(torn)
        past_x, past_r = judged.past_x, judged.past_r
        dx = [torn.register(f"dx{k}", n) for k in range(depth)]
        dr = [torn.register(f"dr{k}", n) for k in range(depth)]
        matrix, right = torn.register("N", depth * depth), torn.register("b", depth)
        weights, rounds = torn.register("w", depth), torn.register("rounds")
        cells = range(n)

        def product(a: Reg, b: Reg) -> Expr:
            total: Expr = Number(0.0)
            for i in cells:
                total = total + Cell(a + i) * Cell(b + i)
            return total

        step: list[Instruction] = []
        for k in range(depth - 1, 0, -1):
            step += [Let(dx[k] + i, Cell(dx[k - 1] + i)) for i in cells]
            step += [Let(dr[k] + i, Cell(dr[k - 1] + i)) for i in cells]
        begun = apply(Op.GT, Cell(rounds), 0.0)
        for now, before, change in ((x, past_x, dx[0]), (r, past_r, dr[0])):
            step += [
                Let(change + i, apply(Op.WHERE, begun, Cell(now + i) - Cell(before + i), 0.0)) for i in cells
            ]
            step += [Let(before + i, Cell(now + i)) for i in cells]
        step.append(Let(rounds, Cell(rounds) + 1.0))
        # A little weight on the diagonal keeps rounds that are not there yet, or alike, out of it.
        for k in range(depth):
            for m in range(depth):
                entry = product(dr[k], dr[m])
                step.append(Let(matrix + k * depth + m, entry * (1 + 1e-12) + 1e-300 if k == m else entry))
            step.append(Let(right + k, product(dr[k], r)))
        step.append(Solve(depth, matrix, right, weights))
        moves: list[Expr] = []
        for i in cells:
            move: Expr = Cell(r + i)
            for k in range(depth):
                move = move - Cell(weights + k) * (Cell(dx[k] + i) + Cell(dr[k] + i))
            moves.append(move)
        step += [Let(x + i, Cell(x + i) + move) for i, move in enumerate(moves)]
        reset = [Let(d + i, Number(0.0)) for group in (dx, dr) for d in group for i in cells]
        body = [*torn.evaluate(x), *torn.residuals(), *judged.judge(), If(Cell(torn.solved), (), tuple(step))]
        begin = [*reset, *judged.start(), Let(rounds, Number(0.0))]
        return [*torn.repeat(self.max_iterations, body, begin), *determined(torn)]
