"""Which kind of value an expression has: real, integer or boolean."""

from __future__ import annotations

from collections.abc import Mapping

from upbeat.core.errors import ExpressionError
from upbeat.core.expr.nodes import Apply, Expr, Inner, Leaf, Name, Number, fold
from upbeat.core.expr.operations import OPS, Op
from upbeat.core.ports import Kind

_Guess = tuple[Kind, bool]
"""A kind, and whether it is firm. A constant is not: the 1 in ``n + 1`` follows n."""


def kind_of(expr: Expr, kinds: Mapping[str, Kind]) -> Kind:
    """The kind of `expr` where names have `kinds` (a name that is not in it is real, and so is a cell).

    Comparisons and logic give booleans; floor, ceil, round and sign give integers; sums, products and
    choices of integers are integers; everything else is real, a constant on its own too.
    """
    kind, firm = fold(expr, lambda leaf: _leaf(leaf, kinds), _inner)
    return kind if firm else Kind.REAL


def _leaf(node: Leaf, kinds: Mapping[str, Kind]) -> _Guess:
    if isinstance(node, Number):
        if node.value in (0.0, 1.0):
            return Kind.BOOLEAN, False
        return (Kind.INTEGER if node.value.is_integer() else Kind.REAL), False
    kind = kinds.get(node.id, Kind.REAL) if isinstance(node, Name) else Kind.REAL
    if kind is Kind.STRING:
        raise ExpressionError(f"{node} is a text, and an expression computes with numbers only")
    return kind, True


def _inner(node: Inner, args: list[_Guess]) -> _Guess:
    kind = OPS[node.op].kind if isinstance(node, Apply) else Kind.REAL
    if kind is not None:
        return kind, True
    assert isinstance(node, Apply)
    common = args[1:] if node.op is Op.WHERE else args
    firm = any(known for _, known in common)
    found = {kind for kind, _ in common}
    if Kind.REAL in found:
        return Kind.REAL, firm
    if found == {Kind.BOOLEAN} and node.op in (Op.WHERE, Op.MIN, Op.MAX):
        return Kind.BOOLEAN, firm
    return Kind.INTEGER, firm  # truth values add and multiply as integers
