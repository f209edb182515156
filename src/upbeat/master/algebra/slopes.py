"""The derivatives of a torn loop: the chain rule through units (`Slope`) and connections (formulas).

Every cell on the loop has a *gradient*: how it reacts to each of the guesses at the tears. The gradients
follow the signals, node by node in the order of evaluation. Entries that are zero are left out, and
those that are plain copies cost nothing, so a ring of n units needs n products.
"""

from __future__ import annotations

from upbeat.core.abilities import Ability
from upbeat.core.expr import ONE, ZERO, Cell, Expr, Number, Op, apply, cells, directional_derivative
from upbeat.master.algebra.torn import Torn, cell_names
from upbeat.master.layout import Reg
from upbeat.master.port_registers import End
from upbeat.master.program import Instruction, Let, Slope
from upbeat.scenario.graph import Node

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
    chain = _Chain(torn)
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


class _Chain:
    """Gradients so far, and the instructions that compute them."""

    def __init__(self, torn: Torn) -> None:
        self._torn = torn
        self.instructions: list[Instruction] = []
        self.inputs: dict[End, list[Gradient]] = {}
        self.outputs: dict[Reg, Gradient] = {}
        """By cell. Inputs have no such table: one that is a plain copy shares the cell of its source."""

    def through_connection(self, end: End) -> list[Gradient]:
        """The gradients of an input that is computed from outputs."""
        wiring = self._torn.wiring
        first = wiring.inputs[end]
        formulas = {let.to: let.value for let in wiring.compute(end) if isinstance(let, Let)}
        found: list[Gradient] = []
        for i in range(wiring.port(end).cells):
            formula = formulas.get(first + i, Cell(first + i))
            sources = [(cell, self.outputs[cell]) for cell in sorted(cells(formula)) if cell in self.outputs]
            terms: dict[int, dict[Expr, Expr]] = {}
            for cell, gradient in sources:
                for j, slope in gradient.items():
                    terms.setdefault(j, {})[Cell(cell)] = slope
            rates = {j: directional_derivative(formula, known) for j, known in sorted(terms.items())}
            found.append(self._stored(cell_names(end, wiring)[i], rates))
        return found

    def through_unit(self, end: End) -> list[Gradient]:
        """The gradients of an output, from those of the inputs it depends on directly."""
        wiring, torn, (unit, output) = self._torn.wiring, self._torn, end
        port = wiring.port(end)
        sums: list[Gradient] = [{} for _ in range(port.cells)]
        for name in sorted(port.depends):
            gradients = self.inputs.get((unit, name))
            if gradients is None or not any(gradients):
                continue  # not on the loop, or nothing of it arrives here
            width = len(gradients)
            slope = torn.register(f"∂{unit}.{output}/∂{name}", port.cells * width)
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
                to = self._torn.register(f"∂{name}/∂x{j}")
                self.instructions.append(Let(to, slope))
                stored[j] = Cell(to)
        return stored
