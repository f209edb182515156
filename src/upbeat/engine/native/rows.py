"""The rows of the native core's tables while they grow: instructions, their operands and their kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from upbeat.core.expr import Cell, Expr, Kernel, cells
from upbeat.core.expr.nodes import Leaf, fold, with_args
from upbeat.core.ports import Kind
from upbeat.engine.native.tables import WIDTH, Code, Expression
from upbeat.master.layout import Layout
from upbeat.master.program import Instruction, Let


@dataclass(slots=True)
class Rows:
    """What has been written so far; `origins` are the instructions that rows come from."""

    layout: Layout
    rows: list[list[int]] = field(default_factory=list)
    origins: list[Instruction | None] = field(default_factory=list)
    operands: list[int] = field(default_factory=list)
    kernels: list[Kernel] = field(default_factory=list)
    expressions: list[Expression] = field(default_factory=list)
    _label: int = 0
    """No instruction before this row may be merged with a later one: something jumps here."""

    def emit(self, origin: Instruction | None, code: Code, *operands: int) -> int:
        row = [int(code), *operands]
        self.rows.append(row + [0] * (WIDTH - len(row)))
        self.origins.append(origin)
        return len(self.rows) - 1

    def label(self) -> int:
        self._label = len(self.rows)
        return self._label

    def operand(self, numbers: Sequence[int]) -> int:
        at = len(self.operands)
        self.operands.extend(numbers)
        return at

    def expression(self, values: Sequence[Expr], to: Sequence[int]) -> int:
        kernel = Kernel.over_cells(tuple(values))
        self.kernels.append(kernel)
        self.expressions.append((len(self.kernels) - 1, list(kernel.input_cells), list(to)))
        return len(self.expressions) - 1

    def lets(self, lets: Sequence[Let]) -> None:
        """Lets in a row become one kernel, in which equal parts are computed once; plain copies stay copies.

        A later Let sees what an earlier one computed: its expression is put in the place of the cell.
        That is exact for reals only, so anything that reads an integer or truth value just computed
        waits for the next kernel.
        """
        pending: dict[int, Expr] = {}
        layout = self.layout
        for let in lets:
            kind = layout.of(let.to).kind
            value = let.value
            copied = isinstance(value, Cell) and layout.of(value.index).kind is kind
            if copied and (not pending or kind is not Kind.REAL):
                self.compute(pending)
                self.copy(let)
                continue
            if any(cell in pending and layout.of(cell).kind is not Kind.REAL for cell in cells(value)):
                self.compute(pending)
            pending[let.to] = _with_cells(value, pending)
        self.compute(pending)

    def compute(self, pending: dict[int, Expr]) -> None:
        if pending:
            self.emit(None, Code.COMPUTE, self.expression(list(pending.values()), list(pending)))
            pending.clear()

    def copy(self, let: Let) -> None:
        assert isinstance(let.value, Cell)
        source, to = let.value.index, let.to
        last: list[int] = self.rows[-1] if len(self.rows) > self._label else [Code.END]
        if last[0] == Code.COPY:
            _, first, target, count, *_ = last
            grown = source == first + count and to == target + count
            # Copying a row of cells onto itself, further up, would read what it has just written.
            if grown and not first < target <= first + count:
                last[3] = count + 1
                return
        self.emit(let, Code.COPY, source, to, 1)


def _with_cells(value: Expr, known: Mapping[int, Expr]) -> Expr:
    if not known:
        return value

    def leaf(node: Leaf) -> Expr:
        return known.get(node.index, node) if isinstance(node, Cell) else node

    return fold(value, leaf, with_args)
