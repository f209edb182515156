"""Whether expressions are affine in what moves: decided by their form, so that a yes is a proof."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable

from upbeat.core.expr import Apply, Cell, Expr, Name, Op, fold
from upbeat.core.expr.nodes import Inner, Leaf


class Form(enum.IntEnum):
    """What an expression is made of."""

    CONSTANT = 0
    OFFSET = 1  # changes by itself, whatever moves: a function of time
    AFFINE = 2  # a constant matrix times what moves, plus an offset
    OTHER = 3


def affine(expressions: Iterable[Expr], moving: Collection[str | int], offsets: Collection[str] = ()) -> bool:
    """Whether all are (constant matrix)·moving + offset. A no may be wrong (x/x), a yes is not.

    What moves are names, or the numbers of cells.
    """

    def leaf(node: Leaf) -> Form:
        if isinstance(node, Cell):
            return Form.AFFINE if node.index in moving else Form.CONSTANT
        if not isinstance(node, Name):
            return Form.CONSTANT
        return Form.AFFINE if node.id in moving else Form.OFFSET if node.id in offsets else Form.CONSTANT

    return all(fold(expression, leaf, _combined) is not Form.OTHER for expression in expressions)


SMOOTH = {
    Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.NEG, Op.POW, Op.SQRT, Op.EXP, Op.LOG, Op.LOG10, Op.SIN, Op.COS, Op.TAN,
    Op.ASIN, Op.ACOS, Op.ATAN, Op.SINH, Op.COSH, Op.TANH,
}  # fmt: skip
"""What has slopes that do not jump, wherever it has any."""


def smooth(expressions: Iterable[Expr]) -> bool:
    """Whether no slope of these can jump: decided by their form, so that a yes is a proof."""

    def inner(node: Inner, args: list[bool]) -> bool:
        return isinstance(node, Apply) and node.op in SMOOTH and all(args)

    return all(fold(expression, lambda _: True, inner) for expression in expressions)


def _combined(node: Inner, args: list[Form]) -> Form:
    if isinstance(node, Apply):
        match node.op, args:
            case (Op.ADD | Op.SUB | Op.NEG, _):
                return max(args)
            case (Op.MUL, [a, b]) if Form.CONSTANT in (a, b):
                return max(a, b)
            case (Op.DIV, [a, Form.CONSTANT]):
                return a
            case (Op.WHERE, [Form.CONSTANT, a, b]):
                return max(a, b)
    return max(args) if max(args) <= Form.OFFSET else Form.OTHER
