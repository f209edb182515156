"""A loop cut open: the guesses at its tears, and the instructions that evaluate, judge and move them."""

from __future__ import annotations

from collections.abc import Sequence

from upbeat.core.errors import MasterError
from upbeat.core.expr import Cell, Expr, Number, Op, apply
from upbeat.core.ports import Kind
from upbeat.master.algebra.worst import excess, worst_of
from upbeat.master.layout import Reg
from upbeat.master.port_registers import End
from upbeat.master.program import Instruction, Let, Repeat, Set
from upbeat.master.wiring import Wiring
from upbeat.scenario.graph import Node

ADVICE = (
    "Begin with other start values of these inputs, solve the loop in another way (loops: Newton, Anderson, "
    'FixedPoint with damping, each with most and tolerance), or break it with outputs="lagged".'
)
"""For a loop that was not solved."""
LOOP = "solving the algebraic loop "
"""How the `what` of the iteration begins; the ports follow."""


class Torn:
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
        self.wiring = wiring
        self.rest = rest
        self.loop = tuple(loop)
        self.tears: list[End] = [(node.unit, node.port) for node in tears]
        self.names = [name for end in self.tears for name in cell_names(end, wiring)]
        self.size = len(self.names)
        self._mark = wiring.registers.unique(f"loop {self.names[0]}")
        self._initial = [float(value) for end in self.tears for value in wiring.port(end).initial]
        self.guess = self.register("x", self.size)
        self._warm = warm
        self.residual = self.register("r", self.size)
        self.error = self.register("error")
        self._first, self._begun = self.register("first"), self.register("begun")
        self._origin = self.register("origin", self.size)
        self._tolerance = tolerance

    def register(self, name: str, size: int = 1) -> Reg:
        return self.wiring.registers.new(f"{self._mark}′{name}", size=size)

    def values(self) -> list[Reg]:
        """The cells that hold g(x) after an evaluation."""
        w = self.wiring
        return [w.inputs[end] + i for end in self.tears for i in range(w.port(end).cells)]

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
        w, first = self.wiring, at
        instructions: list[Instruction] = []
        for end in self.tears:
            instructions.append(Set(*end, (first,)))
            first += w.port(end).cells
        for node in self.rest:
            end = (node.unit, node.port)
            instructions += w.get(end) if node.side == "out" else w.hold(end)
        for end in self.tears:
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
        worst = worst_of(
            excess(Cell(self.residual + i), self._tolerance, Cell(value))
            for i, value in enumerate(self.values())
        )
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
        what = f"{LOOP}{self.ports}"
        return [*self.start(), Repeat(most, tuple(body), self.solved, "fail", what, shows, ADVICE)]


def cell_names(end: End, wiring: Wiring) -> list[str]:
    """What people call the cells of a port."""
    port = wiring.port(end)
    name = wiring.label(end)
    return [name] if port.size is None else [f"{name}[{i}]" for i in range(port.size)]
