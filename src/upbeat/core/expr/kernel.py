"""Evaluating expressions: one by one, or many as flat code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import cached_property, lru_cache

from upbeat.core.errors import ExpressionError, suggest
from upbeat.core.expr.nodes import (
    Apply,
    Cell,
    Expr,
    Inner,
    Leaf,
    Name,
    Number,
    fold,
    fold_all,
    ordered,
    reduce,
)
from upbeat.core.expr.operations import HELPERS, IMPLEMENTATION, LOOKUP1, LOOKUP2, OPS, Op
from upbeat.core.expr.tables import Table, Table1
from upbeat.core.records import dataclass

# ----------------------------------------------------------------------------------------------------
# The value of an expression, by the shortest road: one walk over its nodes. The reference for `Kernel`.


def evaluate(
    expr: Expr, env: Mapping[str, float] | None = None, cells: Mapping[int, float] | None = None
) -> float:
    """The value of `expr` where names have the values `env` and register cells the values `cells`."""
    values, registers = env or {}, cells or {}

    def leaf(node: Leaf) -> float:
        if isinstance(node, Number):
            return node.value
        try:
            return float(registers[node.index] if isinstance(node, Cell) else values[node.id])
        except KeyError:
            pass
        if isinstance(node, Cell):
            raise ExpressionError(f"cell {node.index} has no value")
        raise ExpressionError(f"'{node.id}' has no value. {suggest(node.id, values)}")

    return fold(expr, leaf, _inner)


def _inner(node: Inner, args: list[float]) -> float:
    return IMPLEMENTATION[node.op](*args) if isinstance(node, Apply) else node.table(*args)


# ----------------------------------------------------------------------------------------------------
# Several expressions as one straight line of code: the form that every fast backend takes.
#
# Equal parts are computed once (value numbering), also across outputs. The work array is laid out as
# [inputs | constants | temporaries]; a row (opcode, dst, a, b, c) computes one temporary from entries
# before it. The rows are the bytecode of the native core, and the source of the Python and LLVM backends.

Row = tuple[int, int, int, int, int]


@dataclass(frozen=True)
class Kernel:
    """Code for `outputs` over `inputs` (names) followed by `input_cells` (register cells)."""

    inputs: tuple[str, ...]
    outputs: tuple[Expr, ...]
    input_cells: tuple[int, ...] = ()
    constants: tuple[float, ...] = field(init=False, repr=False, compare=False)
    code: tuple[Row, ...] = field(init=False, repr=False, compare=False)
    results: tuple[int, ...] = field(init=False, repr=False, compare=False)
    tables: tuple[Table, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        lowered = _Lowering(self.inputs, self.input_cells)
        results = lowered.results(self.outputs)
        for name, value in (
            ("constants", tuple(lowered.constants)),
            ("code", lowered.code()),
            ("results", tuple(map(lowered.final, results))),
            ("tables", tuple(lowered.tables)),
        ):
            object.__setattr__(self, name, value)

    @classmethod
    @lru_cache(maxsize=2000)  # programs are full of the same expressions, and are built again and again
    def over_cells(cls, outputs: tuple[Expr, ...]) -> Kernel:
        """A kernel whose inputs are the register cells that `outputs` use, in rising order."""
        return cls(
            (), outputs, tuple(sorted({node.index for node in ordered(outputs) if isinstance(node, Cell)}))
        )

    @property
    def n_inputs(self) -> int:
        return len(self.inputs) + len(self.input_cells)

    @property
    def size(self) -> int:
        """The length of the work array."""
        return self.n_inputs + len(self.constants) + len(self.code)

    def python(self) -> Callable[[Sequence[float]], list[float]]:
        """The kernel as a Python function from input values to output values."""
        return self._function

    @cached_property
    def source(self) -> str:
        """The text of that function."""
        first = self.n_inputs + len(self.constants)
        word = [f"x{i}" for i in range(self.n_inputs)]
        word += [f"({value!r})" if value < 0 or value != value else repr(value) for value in self.constants]
        word += [f"t{i}" for i in range(first, self.size)]
        lines = ["def kernel(values):"]
        if self.n_inputs:
            lines.append(f"    {', '.join(word[: self.n_inputs])}, = map(float, values)")
        for opcode, dst, a, b, c in self.code:
            if opcode == LOOKUP1:
                right = f"table{a}({word[b]})"
            elif opcode == LOOKUP2:
                right = f"table{a}({word[b]}, {word[c]})"
            else:
                right = OPS[Op(opcode)].python.format(a=word[a], b=word[b], c=word[c])
            lines.append(f"    {word[dst]} = {right}")
        lines.append(f"    return [{', '.join(word[i] for i in self.results)}]")
        return "\n".join(lines)

    @cached_property
    def _function(self) -> Callable[[Sequence[float]], list[float]]:
        space: dict[str, object] = {**HELPERS, **{f"table{i}": table for i, table in enumerate(self.tables)}}
        exec(compile(self.source, "<kernel>", "exec"), space)  # noqa: S102 (made of table texts and numbers only)
        return space["kernel"]  # type: ignore[return-value]

    def llvm_ir(self, name: str = "kernel") -> str:
        """The kernel as LLVM assembly: void(const double* inputs, double* outputs)."""
        from upbeat.core.expr.jit import ir_of

        return ir_of(self, name)

    def __reduce__(self) -> tuple[object, ...]:
        return Kernel, (self.inputs, self.outputs, self.input_cells)


class _Lowering:
    """Value numbering. A place is an input (from 0), a temporary (after the inputs) or a constant (negative)
    until all constants are known; `final` then gives the index in the work array."""

    def __init__(self, inputs: Sequence[str], input_cells: Sequence[int]) -> None:
        self.names = {name: i for i, name in enumerate(inputs)}
        self.cells = {cell: len(inputs) + i for i, cell in enumerate(input_cells)}
        self.n_inputs = len(inputs) + len(input_cells)
        self.constants: list[float] = []
        self.tables: list[Table] = []
        self.rows: dict[tuple[int, int, int, int], int] = {}
        self._numbers: dict[Number, int] = {}
        self._tables: dict[Table, int] = {}

    def results(self, outputs: Sequence[Expr]) -> list[int]:
        simple = fold_all(outputs, lambda leaf: leaf, reduce)
        return fold_all(simple, self.leaf, self.inner)

    def leaf(self, node: Leaf) -> int:
        match node:
            case Number(value):
                if node not in self._numbers:
                    self.constants.append(value)
                return self._numbers.setdefault(node, -len(self.constants))
            case Name(name) if name in self.names:
                return self.names[name]
            case Cell(index) if index in self.cells:
                return self.cells[index]
            case Name(name):
                raise ExpressionError(f"'{name}' is not known here. {suggest(name, self.names)}")
            case Cell(index):
                raise ExpressionError(f"cell {index} is not an input of this kernel")

    def inner(self, node: Inner, args: list[int]) -> int:
        if isinstance(node, Apply):
            key = (int(node.op), *args, *(args[:1] * (3 - len(args))))
        else:
            opcode = LOOKUP1 if isinstance(node.table, Table1) else LOOKUP2
            key = (opcode, self.table(node.table), args[0], args[-1])
        return self.rows.setdefault(key, self.n_inputs + len(self.rows))  # type: ignore[arg-type]

    def table(self, table: Table) -> int:
        if table not in self._tables:
            self._tables[table] = len(self.tables)
            self.tables.append(table)
        return self._tables[table]

    def final(self, place: int) -> int:
        if place < 0:
            return self.n_inputs + (-1 - place)
        return place if place < self.n_inputs else place + len(self.constants)

    def code(self) -> tuple[Row, ...]:
        rows: list[Row] = []
        for (opcode, a, b, c), place in self.rows.items():
            first = a if opcode in (LOOKUP1, LOOKUP2) else self.final(a)
            rows.append((opcode, self.final(place), first, self.final(b), self.final(c)))
        return tuple(rows)
