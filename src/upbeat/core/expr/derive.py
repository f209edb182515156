"""Symbolic derivatives. The rules are texts in the table of operations, in the expression language itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

from upbeat.core.expr.nodes import ONE, ZERO, Apply, Expr, Inner, Leaf, Lookup, Name, fold
from upbeat.core.expr.operations import OPS, Op
from upbeat.core.expr.parse import parse
from upbeat.core.expr.simplify import loose

TIME = "time"


def differentiate(expr: Expr, name: str) -> Expr:
    """The partial derivative of `expr` by the variable `name`."""
    return _rate(expr, lambda leaf: ONE if isinstance(leaf, Name) and leaf.id == name else ZERO)


def time_derivative(expr: Expr, rates: Mapping[str, Expr]) -> Expr:
    """How fast `expr` changes where its variables change at `rates`.

    ``time`` has rate 1; a variable without a rate is constant.
    """
    known = {TIME: ONE, **rates}
    return _rate(expr, lambda leaf: known.get(leaf.id, ZERO) if isinstance(leaf, Name) else ZERO)


def directional_derivative(expr: Expr, rates: Mapping[Expr, Expr]) -> Expr:
    """How fast `expr` changes where its leaves (names or cells) change at `rates`; others are constant."""
    return _rate(expr, lambda leaf: rates.get(leaf, ZERO))


def _rate(expr: Expr, leaf_rate: Callable[[Leaf], Expr]) -> Expr:
    # Values and rates travel together, so that a rate refers to the very nodes of the original.
    def inner(node: Inner, args: list[tuple[Expr, Expr]]) -> tuple[Expr, Expr]:
        rates = [rate for _, rate in args]
        if all(rate == ZERO for rate in rates):
            return node, ZERO
        return node, _lookup_rate(node, rates) if isinstance(node, Lookup) else _apply_rate(node, rates)

    return fold(expr, lambda leaf: (leaf, leaf_rate(leaf)), inner)[1]


def _apply_rate(node: Apply, rates: list[Expr]) -> Expr:
    meaning: dict[str, Expr] = {"y": node}
    for letter, arg, rate in zip("abc", node.args, rates, strict=False):
        meaning[letter] = arg
        meaning[f"d{letter}"] = rate
    return fold(_rule(node.op), lambda leaf: meaning[leaf.id] if isinstance(leaf, Name) else leaf, loose)


@cache
def _rule(op: Op) -> Expr:
    return parse(OPS[op].rate)


def _lookup_rate(node: Lookup, rates: list[Expr]) -> Expr:
    total: Expr = ZERO
    for axis, rate in enumerate(rates):
        slope = node.table.slope(axis)
        if slope is not None:
            total = _plus(total, _times(Lookup(slope, node.args), rate))
    return total


def _times(a: Expr, b: Expr) -> Expr:
    return loose(Apply(Op.MUL, (a, b)), (a, b))


def _plus(a: Expr, b: Expr) -> Expr:
    return loose(Apply(Op.ADD, (a, b)), (a, b))
