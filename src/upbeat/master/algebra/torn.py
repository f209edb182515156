"""A loop cut open: the guesses at its tears, and the instructions that evaluate, judge and move them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log

from upbeat.core.errors import MasterError
from upbeat.core.expr import Cell, Expr, Number, Op, apply
from upbeat.core.ports import Kind
from upbeat.master.layout import Reg
from upbeat.master.port_registers import End
from upbeat.master.program import Get, Instruction, Let, Repeat, Set
from upbeat.master.wiring import Wiring
from upbeat.scenario.graph import Node

ADVICE = (
    "Begin with other start values of these inputs, solve the loop in another way (loops: Newton, Anderson, "
    'FixedPoint with damping, each with most and tolerance), or break it with outputs="lagged". Where values '
    "are nearly undetermined (gains around the loop that multiply to 1), rounding leaves more doubt than the "
    "tolerance allows: raise it, as in Newton(tolerance=1e-6), or change a gain. An output that jumps "
    "may leave a loop without a solution."
)
"""For a loop that was not solved."""
LOOP = "solving the algebraic loop "
"""How the `what` of the iteration begins; the ports follow."""
ROUNDING = 2.0**-52
MOST_SHOWN = 4
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
        """What is next to nothing beside the largest value that an unknown has had of late."""
        return ROUNDING * apply(Op.EXP, log(2.0) * Cell(self._largest + i))

    def small(self, cell: Reg, part: float, i: int) -> Expr:
        """Whether a cell is at most so small a part of an unknown, or next to nothing."""
        bound = part * apply(Op.ABS, Cell(self.guess + i)) + self.rounding(i)
        return apply(Op.LE, apply(Op.ABS, Cell(cell)), bound)

    def repeat(
        self,
        most: int,
        body: Sequence[Instruction],
        begin: Sequence[Instruction],
        more: Sequence[tuple[str, Reg]] = (),
    ) -> list[Instruction]:
        shows = [(f"residual of {name}", self.residual + i) for i, name in enumerate(self.names)]
        if self.size <= MOST_SHOWN:
            shows += [(f"value of {name}", self.guess + i) for i, name in enumerate(self.names)]
            shows += more
        return [
            *self.start(),
            *begin,
            Repeat(most, tuple(body), Cell(self.solved), "fail", f"{LOOP}{self.ports}", tuple(shows), ADVICE),
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
