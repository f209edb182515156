"""Whether expressions are affine in what moves: decided by their form, so that a yes is a proof."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable

from upbeat.core.expr import Apply, Cell, Expr, Name, Number, Op, fold
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


SMOOTH = {Op.ADD, Op.SUB, Op.MUL, Op.NEG, Op.EXP, Op.SIN, Op.COS, Op.ATAN, Op.SINH, Op.COSH, Op.TANH}
"""What has slopes everywhere, and none that jumps."""


def smooth(expressions: Iterable[Expr], still: Collection[str] = ()) -> bool:
    """Whether no slope of these can jump, wherever they have values: a yes by their form is a proof.

    Names that are `still` never move. Roots and quotients are smooth but at single points, and there they
    hide kinks: sqrt(x*x) is abs(x), and so is acos(1 - x*x/2), nearly.
    """

    def leaf(node: Leaf) -> Form:
        moves = isinstance(node, Cell) or (isinstance(node, Name) and node.id not in still)
        return Form.AFFINE if moves else Form.CONSTANT

    def inner(node: Inner, args: list[Form]) -> Form:
        worst = max(args, default=Form.CONSTANT)
        if worst in (Form.CONSTANT, Form.OTHER):
            return worst
        if isinstance(node, Apply):
            if node.op in SMOOTH or (node.op is Op.DIV and args[1] is Form.CONSTANT):
                return worst
            if node.op is Op.POW and isinstance(power := node.args[1], Number):
                return worst if power.value >= 0.0 and float(power.value).is_integer() else Form.OTHER
        return Form.OTHER

    return all(fold(expression, leaf, inner) is not Form.OTHER for expression in expressions)


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
