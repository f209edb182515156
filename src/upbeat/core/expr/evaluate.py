"""The value of an expression, by the shortest road: one walk over its nodes. The reference for `Kernel`."""

from __future__ import annotations

from collections.abc import Mapping

from upbeat.core.errors import ExpressionError, suggest
from upbeat.core.expr.nodes import Apply, Cell, Expr, Inner, Leaf, Number, fold
from upbeat.core.expr.operations import IMPLEMENTATION


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
