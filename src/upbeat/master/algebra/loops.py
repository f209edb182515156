"""Algebraic loops: solvers that find inputs and outputs which agree with each other at one instant.

A loop is cut open at some inputs (`Graph.torn`). Guessing these, x, and evaluating the rest in order
gives new values g(x) for them; a solver looks for x = g(x). All of it is instructions: evaluating
is `Set` and `Get`, the guesses are registers, iterating is `Repeat`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal, Protocol, get_args

from upbeat.core.errors import MasterError
from upbeat.core.expr import Cell, Expr, Number, Op, apply
from upbeat.core.ports import Kind
from upbeat.master import checks
from upbeat.master.algebra.slopes import chain_rule, products, unable
from upbeat.master.algebra.torn import LOOP, ROUNDING, Torn, all_of
from upbeat.master.algebra.worst import worst_of
from upbeat.master.layout import Reg
from upbeat.master.program import Doubt, If, Instruction, Let, Repeat, Solve
from upbeat.master.wiring import Wiring
from upbeat.scenario.graph import Node

Slopes = Literal["auto", "units", "differences"]
DIFFERENCE = 1e-7
"""How far unknowns are moved to see slopes, as part of their size."""
MOST_PRODUCTS = 20_000
"""A loop whose chain rule may need more than this is solved with differences, unless told otherwise."""

SHORT = 1e-2
"""A step that changes an unknown by this part of it, and hardly any slopes."""
QUICK = 1e-3
"""The part of the tolerance that a residual has to be within after a longer one."""
SHORTEST = 2.0**-20
"""The smallest part of a step that is tried. If that makes nothing better, the search begins again at zero,
and after that such a step is made as a whole, and taken as it comes: it may lead over a kink."""

LEAST = 2.0**-46
"""A step no part of which makes anything better, and that is no longer than this, is rounding: of numbers
around 1 inside of units, as in exp(u) - 1, which are not seen from outside."""
PROBE = 1e-12
"""Where outputs are not finite at the first guess, others are tried: so far from it, then 16 times as far."""

DEEPEST = 50
"""The most rounds that `Anderson` looks back."""

AT_REST = 16
"""So many times the number of unknowns a first guess may be exact before slopes are looked at again."""
MOST_JUDGED = 32
"""A loop with more unknowns, whose units do not know slopes, is not looked at whether it is determined."""
NEARLY = 1e-6
"""Gains that would have to change by this part only, and any value would fulfil the loop: a warning."""
ROUNDED = 1e-10
"""By less than this: nothing but rounding tells the one value from any other."""
PART = 2.0**-6
"""How far beside a solution another one is looked for, as part of the unknowns' size."""
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
    checks.count(solver.most, f"most of {kind}")


@dataclass(frozen=True, slots=True)
class FixedPoint:
    """x := x + damping·(g(x) - x): needs nothing, converges where the loop's gain is below one.

    It ends where the rest of the way, judged by what the last round has changed, is at most `tolerance`
    relative to every unknown.
    """

    tolerance: float = 1e-10
    most: int = 200
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
        return [*torn.repeat(self.most, body, judged.start()), *determined(torn)]


class _Secant:
    """Judges iterations that know no slopes, by the last two rounds.

    What the residual has changed by, over what the unknown has, tells how far a solution is. So neither a
    slow iteration nor one that drifts away, to where any residual is small beside the values, looks solved;
    nor does one that rounding keeps from coming nearer.
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
            rate = moved / apply(Op.ABS, r - Cell(self.past_r + i))
            left = (apply(Op.ABS, r) + 2 * ROUNDING * apply(Op.ABS, x)) * rate
            arrived = apply(Op.LE, left, torn.tolerance * apply(Op.ABS, x) + torn.rounding(i))
            still = torn.small(torn.residual + i, 4 * ROUNDING, i)
            conditions.append(apply(Op.WHERE, apply(Op.GT, moved, 0.0), arrived, still))
        return [Let(torn.solved, all_of(conditions))]


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
    most: int = 200
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
            """The largest part of a change, each beside the size of its unknown and of the last step."""
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
        least = all_of(apply(Op.LE, apply(Op.ABS, Cell(step + i)), LEAST) for i in torn.cells)
        again = (*elsewhere, Let(known, Number(0.0)), Let(part, Number(1.0)))
        back = (
            Let(part, 0.25 * Cell(part)),
            If(apply(Op.LT, Cell(part), SHORTEST), (If(least, (Let(solved, Number(1.0)),), again),)),
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
        return [*torn.repeat(self.most, body, begin, blurs), rested, *unseen]

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
        if not lacking and self.slopes == "auto" and products(torn) > MOST_PRODUCTS:
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
        tells = apply(Op.AND, apply(Op.EQ, own, 0.0), apply(Op.LT, found, 1e30))
        sizes.append(own + apply(Op.WHERE, tells, found, 0.0))
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
    """Fails where values beside the solution solve the loop as well, and warns where they nearly do.

    Looked at once, at the start: a solver may be done at its first guess, without having seen any slopes.
    The direction in which unknowns react most comes from the matrix; how well another value in that direction
    solves the loop is evaluated. So a point without slopes that is the only solution (x = x - x²) is none.
    """
    if torn.warm:
        return []
    n, x = torn.size, torn.guess
    knows = not unable(torn) and products(torn) <= MOST_PRODUCTS
    if not knows and n > MOST_JUDGED:
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
        least = 1e-3 * ROUNDED * (1.0 + Cell(gain + i))  # nothing is divided by zero
        block += [
            Let(size + i, apply(Op.WHERE, apply(Op.GT, one, 0.0), one, Cell(usual))),
            Let(gain + i, apply(Op.ABS, 1.0 - pivot)),
            Let(matrix + i * n + i, pivot + apply(Op.WHERE, apply(Op.LT, pivot, 0.0), -least, least)),
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
    told = Doubt(
        torn.register("nearly undetermined", 3, start=(inf, 0.0, 0.0)),
        (
            f"the algebraic loop {torn.ports} is nearly undetermined at t = ",
            0,
            ": its condition number is ",
            2,
            ", by which small errors of outputs may grow in its solution. Look at the gains on the loop",
        ),
    )
    torn.wiring.doubts.append(told)
    singular = apply(Op.AND, apply(Op.GE, Cell(largest), 1.0 / NEARLY), apply(Op.LT, Cell(largest), 1e300))
    search = (
        *beside,
        *torn.evaluate(at),
        *rests,
        Let(left, worst_of(parts)),
        *torn.evaluate(x),
        fails,
        If(apply(Op.LE, Cell(left), NEARLY), told.noted(Cell(torn.wiring.next), 1.0 / Cell(left))),
    )
    block.append(If(singular, search, () if knows else tuple(torn.evaluate(x))))
    return block


def _finite(cells: Iterable[Reg]) -> Expr:
    """Whether all of them are numbers that can be gone on with."""
    size: Expr = Number(0.0)
    for cell in cells:
        size = size + apply(Op.ABS, Cell(cell))
    return apply(Op.LT, size, 1e300)


@dataclass(frozen=True, slots=True)
class Anderson:
    """Anderson acceleration: fixed point iteration that learns from its last `depth` rounds."""

    tolerance: float = 1e-10
    most: int = 100
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
        return [*torn.repeat(self.most, body, begin), *determined(torn)]
