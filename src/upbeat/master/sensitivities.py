"""How what a scenario shows reacts to its inputs at once, and how fast it changes: blocks for who asks.

Nothing of it runs in a step. Gradients follow the signals through units (`Slope`) and connections (formulas),
as in an algebraic loop (`upbeat.master.loops`), from the inputs that nothing drives, or from the motion of
the units themselves. What leads through an algebraic loop, or through a unit that does not know its slopes,
is not known, and left out; all that is there is exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from upbeat.core.abilities import Ability
from upbeat.core.expr import ONE, ZERO, Cell, Expr, cells, substitute
from upbeat.core.expr.calculus import TIME
from upbeat.core.ports import Kind, Port
from upbeat.master.loops import MAX_PRODUCTS, Chain, Gradient
from upbeat.master.port_registers import End
from upbeat.master.program import Asked, Block, Let, Reg
from upbeat.master.wiring import Wiring
from upbeat.units.discrete.model import changes_at_instants
from upbeat.units.equations.ode import equations_of
from upbeat.units.process import bare


def sensitivities(wiring: Wiring) -> Asked:
    """The blocks, for all real outputs of units and of the scenario itself."""
    inputs = {
        name: (unit, port.name)
        for name, (unit, port) in wiring.scenario.free_inputs.items()
        if port.kind is Kind.REAL and not port.event
    }
    blocks: dict[str, Block] = {}
    reacting, moving = _Gradients(wiring, inputs), _Gradients(wiring, {}, moving=True)
    slopes, rates = reacting.by_inputs(inputs), moving.by_time()
    for name, made, found in (("slopes", slopes, reacting), ("rates", rates, moving)):
        if made and len(found.chain.instructions) <= MAX_PRODUCTS:
            blocks[name] = tuple(found.chain.instructions)
    return Asked(blocks, slopes if "slopes" in blocks else {}, rates if "rates" in blocks else {})


class _Gradients:
    """The gradients of all outputs by the cells of these `inputs`, or by the time."""

    def __init__(self, wiring: Wiring, inputs: Mapping[str, End], *, moving: bool = False) -> None:
        self._wiring = wiring
        self._moving = moving
        self._unknown: set[Reg] = set()
        """The cells of outputs of which nothing is known."""
        self._lost: set[End] = set()
        """The inputs that follow one of these."""
        self.chain = Chain(wiring, self._register)
        self._first: dict[str, int] = {}
        count = 0
        for name, end in inputs.items():
            self._first[name] = count
            width = wiring.port(end).cells
            self.chain.inputs[end] = [{count + i: ONE} for i in range(width)]
            count += width
        looped = {node for loop in wiring.scenario.graph.loops for node in loop}
        for node in wiring.scenario.graph.order:
            end = node.unit, node.port
            if node.side == "in" and end not in inputs.values():
                self._input(end)
            elif node.side == "out" and end in wiring.outputs:
                self._output(end, known=node not in looped)

    def _register(self, name: str, size: int) -> Reg:
        registers = self._wiring.registers
        return registers.new(registers.unique(name), size=size)

    def _input(self, end: End) -> None:
        first = self._wiring.inputs[end]
        read = set(range(first, first + self._wiring.port(end).cells))
        for let in self._wiring.compute(end):
            read |= cells(let.value) if isinstance(let, Let) and let.to in read else set()
        if self._unknown.isdisjoint(read):
            self.chain.inputs[end] = self.chain.through_connection(end)
        else:
            self._lost.add(end)

    def _output(self, end: End, *, known: bool) -> None:
        unit, name = end
        port, first = self._wiring.port(end), self._wiring.outputs[end]
        if port.kind is not Kind.REAL:
            return  # it changes in jumps only
        model = self._wiring.scenario.units[unit]
        before = [(unit, given) for given in port.depends]
        fed = any(gradient for given in before for gradient in self.chain.inputs.get(given, ()))
        known = known and self._lost.isdisjoint(before) and (not fed or Ability.SLOPES in model.abilities)
        equations = equations_of(bare(model))
        if self._moving and equations is None and not changes_at_instants(bare(model)):
            known = False
        if not known:
            self._unknown.update(range(first, first + port.cells))
            return
        moves = self._moving and equations is not None
        moves = moves and any(cell != ZERO for cell in equations.slope(name, TIME).outputs)  # type: ignore[union-attr]
        for i, gradient in enumerate(self.chain.through_unit(end, 0 if moves else None)):
            self.chain.outputs[first + i] = gradient

    def _shown(self) -> Iterator[tuple[str, Sequence[Expr], bool]]:
        """The real outputs, as traces call them: the cells of each, and whether they are known."""
        wiring, scenario = self._wiring, self._wiring.scenario
        found: list[tuple[str, Port, Sequence[Expr]]] = []
        for end, first in wiring.outputs.items():
            port = wiring.port(end)
            if not port.internal and not port.extra:
                found.append((scenario.column(*end), port, [Cell(first + i) for i in range(port.cells)]))
        own = {} if scenario.origin is None else scenario.origin.columns
        for output in scenario.outputs:
            name = own.get(("", output.port.name), output.port.name)
            found.append((name, output.port, [substitute(cell, wiring.names) for cell in output.cells]))
        for name, port, formulas in found:
            if port.kind is Kind.REAL:
                yield name, formulas, all(self._unknown.isdisjoint(cells(cell)) for cell in formulas)

    def _rows(self, name: str, formulas: Sequence[Expr]) -> list[Gradient]:
        return [self.chain.of(cell, f"{name}[{i}]") for i, cell in enumerate(formulas)]

    def _kept(self, name: str, entries: Sequence[Expr]) -> Reg:
        to = self._register(name, len(entries))
        self.chain.instructions += [Let(to + k, entry) for k, entry in enumerate(entries)]
        return to

    def by_inputs(self, inputs: Mapping[str, End]) -> dict[tuple[str, str], Reg]:
        """Registers for all pairs; none if some output follows inputs in a way that is not known."""
        found: dict[tuple[str, str], Reg] = {}
        for name, formulas, known in self._shown():
            if not known:
                return {}
            rows = self._rows(name, formulas)
            for given, end in inputs.items():
                first = self._first[given]
                columns = range(first, first + self._wiring.port(end).cells)
                entries = [row.get(k, ZERO) for row in rows for k in columns]
                if any(entry != ZERO for entry in entries):
                    found[name, given] = self._kept(f"∂{name}/∂{given}", entries)
        return found

    def by_time(self) -> dict[str, Reg]:
        """Registers for the rates that are known."""
        return {
            name: self._kept(f"rate of {name}", [row.get(0, ZERO) for row in self._rows(name, formulas)])
            for name, formulas, known in self._shown()
            if known
        }
