"""Algebraic loops: solvers that find inputs and outputs which agree with each other at one instant.

A loop is cut open at some inputs (`Graph.torn`). Guessing these, x, and evaluating the rest in order
gives new values g(x) for them; a solver looks for x = g(x). All of it is instructions: evaluating
is `Set` and `Get`, the guesses are registers, iterating is `Repeat`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

from upbeat.core.errors import MasterError
from upbeat.core.expr import Cell, Expr, Number, Op, apply
from upbeat.master import checks
from upbeat.master.algebra.slopes import chain_rule, products, unable
from upbeat.master.algebra.torn import Torn
from upbeat.master.layout import Reg
from upbeat.master.program import If, Instruction, Let, Solve
from upbeat.master.wiring import Wiring
from upbeat.scenario.graph import Node

Slopes = Literal["auto", "units", "differences"]
MOST_PRODUCTS = 20_000
"""A loop whose chain rule may need more than this is solved with differences, unless told otherwise."""

DEEPEST = 50
"""The most rounds that `Anderson` looks back."""


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
    """x := x + damping·(g(x) - x): needs nothing, converges where the loop's gain is below one."""

    tolerance: float = 1e-10
    most: int = 200
    damping: float = 1.0

    def __post_init__(self) -> None:
        _check(self, "tolerance", "damping")

    def solve(self, loop: Sequence[Node], wiring: Wiring, *, warm: bool) -> list[Instruction]:
        torn = Torn(loop, wiring, self.tolerance, warm)
        move = torn.move([self.damping * Cell(torn.residual + i) for i in range(torn.size)])
        body = [*torn.evaluate(torn.guess), *torn.judge(), If(torn.solved, (), tuple(move))]
        return torn.repeat(self.most, body)


@dataclass(frozen=True, slots=True)
class Newton:
    """Newton's method on g(x) - x = 0.

    `slopes` says where the derivatives of g come from. "units": from the units themselves, through the
    formulas of the connections by the chain rule; every unit on the loop must know its slopes.
    "differences": from evaluating the loop once more for every unknown, changed by `difference` (relative to
    max(1, |x|)). "auto" (the default) asks the units where all of them know; in a round in which some slope
    is not finite, as that of sqrt(u) at 0, it takes differences. Wrong slopes from a unit never give a wrong
    solution: the iteration ends where outputs and inputs agree, or not at all.
    """

    tolerance: float = 1e-10
    most: int = 50
    difference: float = 1e-7
    slopes: Slopes = "auto"

    def __post_init__(self) -> None:
        _check(self, "tolerance", "difference")
        checks.choice(self.slopes, get_args(Slopes), "slopes of Newton")

    def solve(self, loop: Sequence[Node], wiring: Wiring, *, warm: bool) -> list[Instruction]:
        torn = Torn(loop, wiring, self.tolerance, warm)
        change = torn.register("dx", torn.size)
        find = self._slopes if self._asks_units(torn) else self._differences
        step, moves = find(torn, change), torn.move([Cell(change + i) for i in range(torn.size)])
        body = [*torn.evaluate(torn.guess), *torn.judge(), If(torn.solved, (), (*step, *moves))]
        return torn.repeat(self.most, body)

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

    def _slopes(self, torn: Torn, change: Reg) -> list[Instruction]:
        """The change of x, from the slopes of the units."""
        n, r = torn.size, torn.residual
        matrix = torn.register("J", n * n)
        block = [*chain_rule(torn, matrix), Solve(n, matrix, r, change)]
        # Both count: an infinite slope gives a change of zero, and a singular matrix one that is no number.
        found = [*range(change, change + n), *range(matrix, matrix + n * n)]
        size: Expr = apply(Op.ABS, Cell(found[0]))
        for cell in found[1:]:
            size = size + apply(Op.ABS, Cell(cell))
        finite = apply(Op.LT, size, 1e100)
        if self.slopes == "auto":
            return [*block, If(finite, (), tuple(self._differences(torn, change)))]
        # Nothing but the units is to be used: a plain substitution leads away from such a point, too.
        substitution = tuple(Let(change + i, Cell(r + i)) for i in range(n))
        return [*block, If(finite, (), substitution)]

    def _differences(self, torn: Torn, change: Reg) -> list[Instruction]:
        """The change of x, from one more evaluation of the loop for every unknown."""
        n, x, r = torn.size, torn.guess, torn.residual
        base, at = torn.register("g", n), torn.register("at", n)
        width, matrix = torn.register("d"), torn.register("D", n * n)
        block: list[Instruction] = [Let(base + i, Cell(value)) for i, value in enumerate(torn.values())]
        for j in range(n):
            block += [Let(at + i, Cell(x + i)) for i in range(n)]
            block.append(Let(width, self.difference * apply(Op.MAX, apply(Op.ABS, Cell(x + j)), 1.0)))
            block.append(Let(at + j, Cell(x + j) + Cell(width)))
            block.append(Let(width, Cell(at + j) - Cell(x + j)))  # what rounding has left of it
            block += torn.evaluate(at)
            for i, value in enumerate(torn.values()):
                slope = (Cell(value) - Cell(base + i)) / Cell(width)
                block.append(Let(matrix + i * n + j, 1.0 - slope if i == j else -slope))
        block.append(Solve(n, matrix, r, change))
        return block


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
        past_x, past_r = torn.register("x′", n), torn.register("r′", n)
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
        step += torn.move(moves)
        reset = [Let(d + i, Number(0.0)) for group in (dx, dr) for d in group for i in cells]
        body = [*torn.evaluate(x), *torn.judge(), If(torn.solved, (), tuple(step))]
        return [*reset, Let(rounds, Number(0.0)), *torn.repeat(self.most, body)]
