"""Algebraic loops: solvers that find inputs and outputs which agree with each other at one instant.

A loop is cut open at some inputs (`Graph.torn`). Guessing these, x, and evaluating the rest in order
gives new values g(x) for them; a solver looks for x = g(x). All of it is instructions: evaluating
is `Set` and `Get`, the guesses are registers, iterating is `Repeat`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from upbeat.core.errors import MasterError
from upbeat.core.expr import Cell, Expr, Number, Op, apply
from upbeat.core.ports import Kind
from upbeat.master import checks
from upbeat.master.program import Block, If, Instruction, Let, Reg, Repeat, Set, Solve
from upbeat.master.wiring import End, Wiring
from upbeat.master.worst import worst_of
from upbeat.scenario.graph import Node


class LoopSolver(Protocol):
    """Writes the instructions that solve one loop and leave its outputs read and its inputs set."""

    def solve(self, loop: Sequence[Node], wiring: Wiring, *, warm: bool) -> list[Instruction]:
        """`warm`: begin with what the inputs are now; else with their start values (start of a run)."""
        ...


class _Torn:
    """A loop cut open: registers for the guesses, and the instructions that evaluate it."""

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
        self._wiring = wiring
        self._rest = rest
        self._tears: list[End] = [(node.unit, node.port) for node in tears]
        self.names = [name for end in self._tears for name in _cell_names(end, wiring)]
        self.size = len(self.names)
        self._mark = wiring.registers.unique(f"loop {self.names[0]}")
        self._initial = [float(value) for end in self._tears for value in wiring.port(end).initial]
        self.guess = self.register("x", self.size)
        self._warm = warm
        self.residual = self.register("r", self.size)
        self.error = self.register("error")
        self._first, self._begun = self.register("first"), self.register("begun")
        self._origin = self.register("origin", self.size)
        self._tolerance = tolerance

    def register(self, name: str, size: int = 1) -> Reg:
        return self._wiring.registers.new(f"{self._mark}′{name}", size=size)

    def values(self) -> list[Reg]:
        """The cells that hold g(x) after an evaluation."""
        w = self._wiring
        return [w.inputs[end] + i for end in self._tears for i in range(w.port(end).cells)]

    def start(self) -> list[Instruction]:
        """The guesses to begin with, and what has to be remembered of them."""
        first: list[Expr] = [Cell(value) for value in self.values()]
        if not self._warm:
            first = [Number(value) for value in self._initial]
        known = [Let(self.guess + i, value) for i, value in enumerate(first)]
        origin = [Let(self._origin + i, Cell(self.guess + i)) for i in range(self.size)]
        return [*known, *origin, Let(self._begun, Number(0.0))]

    def evaluate(self, at: Reg) -> list[Instruction]:
        """g of the guesses in `at`, into the registers of the inputs."""
        w, first = self._wiring, at
        instructions: list[Instruction] = []
        for end in self._tears:
            instructions.append(Set(*end, (first,)))
            first += w.port(end).cells
        for node in self._rest:
            end = (node.unit, node.port)
            instructions += w.get(end) if node.side == "out" else w.hold(end)
        for end in self._tears:
            instructions += w.compute(end)
        return instructions

    def judge(self) -> list[Instruction]:
        """The residual g(x) - x, and its size relative to the tolerance.

        A loop without solution can drift to values so large that any residual is small beside them.
        So after the first round the residual itself must have shrunk, too.
        """
        lets: list[Instruction] = []
        for i, value in enumerate(self.values()):
            lets.append(Let(self.residual + i, Cell(value) - Cell(self.guess + i)))
        sizes = [apply(Op.ABS, Cell(self.residual + i)) for i in range(self.size)]
        scales = [self._tolerance * (apply(Op.ABS, Cell(value)) + 1.0) for value in self.values()]
        worst = worst_of(size / scale for size, scale in zip(sizes, scales, strict=True))
        size = worst_of(sizes)
        lets.append(Let(self._first, apply(Op.WHERE, Cell(self._begun), Cell(self._first), size)))
        drifted = apply(Op.AND, Cell(self._begun), apply(Op.GT, size, 0.5 * Cell(self._first)))
        lets.append(Let(self.error, apply(Op.WHERE, drifted, apply(Op.MAX, 2.0, worst), worst)))
        return [*lets, Let(self._begun, Number(1.0))]

    @property
    def solved(self) -> Expr:
        return apply(Op.LE, Cell(self.error), 1.0)

    def move(self, steps: Sequence[Expr]) -> list[Instruction]:
        """x := x + steps, except where that would leave the numbers one can go on with."""
        lets: list[Instruction] = []
        for i, step in enumerate(steps):
            moved = Cell(self.guess + i) + step
            # Further out, a residual of the size of the start would drown in rounding and look like none.
            furthest = 1e12 * (apply(Op.ABS, Cell(self._origin + i)) + 1.0)
            sane = apply(Op.LT, apply(Op.ABS, moved), furthest)
            lets.append(Let(self.guess + i, apply(Op.WHERE, sane, moved, Cell(self.guess + i))))
        return lets

    def repeat(self, most: int, body: Sequence[Instruction]) -> list[Instruction]:
        shows = tuple((f"residual of {name}", self.residual + i) for i, name in enumerate(self.names))
        what = f"solving the algebraic loop {self.ports}"
        return [*self.start(), Repeat(most, tuple(body), self.solved, "fail", what, shows)]


def _cell_names(end: End, wiring: Wiring) -> list[str]:
    port = wiring.port(end)
    name = wiring.label(end)
    return [name] if port.size is None else [f"{name}[{i}]" for i in range(port.size)]


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
        torn = _Torn(loop, wiring, self.tolerance, warm)
        move = torn.move([self.damping * Cell(torn.residual + i) for i in range(torn.size)])
        body = [*torn.evaluate(torn.guess), *torn.judge(), If(torn.solved, (), tuple(move))]
        return torn.repeat(self.most, body)


@dataclass(frozen=True, slots=True)
class Newton:
    """Newton's method on g(x) - x = 0, with the derivatives by finite differences."""

    tolerance: float = 1e-10
    most: int = 50
    difference: float = 1e-7

    def __post_init__(self) -> None:
        _check(self, "tolerance", "difference")

    def solve(self, loop: Sequence[Node], wiring: Wiring, *, warm: bool) -> list[Instruction]:
        torn = _Torn(loop, wiring, self.tolerance, warm)
        body = [*torn.evaluate(torn.guess), *torn.judge(), If(torn.solved, (), self._step(torn))]
        return torn.repeat(self.most, body)

    def _step(self, torn: _Torn) -> Block:
        n, x, r = torn.size, torn.guess, torn.residual
        base, at = torn.register("g", n), torn.register("at", n)
        width, matrix, move = torn.register("d"), torn.register("J", n * n), torn.register("dx", n)
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
        block.append(Solve(n, matrix, r, move))
        block += torn.move([Cell(move + i) for i in range(n)])
        return tuple(block)


@dataclass(frozen=True, slots=True)
class Anderson:
    """Anderson acceleration: fixed point iteration that learns from its last `depth` rounds."""

    tolerance: float = 1e-10
    most: int = 100
    depth: int = 3

    def __post_init__(self) -> None:
        _check(self, "tolerance")
        checks.count(self.depth, "the depth of Anderson")

    def solve(self, loop: Sequence[Node], wiring: Wiring, *, warm: bool) -> list[Instruction]:
        torn = _Torn(loop, wiring, self.tolerance, warm)
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
