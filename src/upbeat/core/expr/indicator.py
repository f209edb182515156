"""From a condition to an indicator: a number that is positive until the condition comes true.

Where it falls to zero something happens, and a number, unlike a truth, can be watched on its way there.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Final

from upbeat.core.errors import ExpressionError
from upbeat.core.expr.kinds import kind_of
from upbeat.core.expr.nodes import ZERO, Apply, Expr, Lookup, Name, Number, apply, fold, with_args
from upbeat.core.expr.operations import Op
from upbeat.core.expr.show import show
from upbeat.core.ports import Kind

_HALF: Final = Number(0.5)
_HAIR: Final = Number(sys.float_info.min)
"""What keeps a strict comparison false on its border: the least number of full precision above zero."""
_OPPOSITE: Final = {
    Op.LT: Op.GE, Op.LE: Op.GT, Op.GT: Op.LE, Op.GE: Op.LT, Op.EQ: Op.NE, Op.NE: Op.EQ,
    Op.AND: Op.OR, Op.OR: Op.AND,
}  # fmt: skip


def indicator(condition: Expr, kinds: Mapping[str, Kind]) -> Expr:
    """The number that is at most zero exactly where `condition` is true.

    ``a <= b`` becomes a - b; so does ``a < b``, but for a hair above zero where both are the same: two balls
    that touch and rest do not move towards each other. ``and`` is the larger one of two, ``or`` the smaller
    one. Whole numbers, labels and truths may also be equal: half of the distance to the next one is the
    border. An equation between reals has no sides, and is refused.
    """
    return _indicator(condition, kinds, denied=False)


def _indicator(condition: Expr, kinds: Mapping[str, Kind], *, denied: bool) -> Expr:
    match condition:
        case Apply(op=Op.NOT, args=(inner,)):
            return _indicator(inner, kinds, denied=not denied)
        case Apply(op=Op.AND | Op.OR as op, args=(a, b)):
            both = (_OPPOSITE[op] if denied else op) is Op.AND
            parts = (_indicator(part, kinds, denied=denied) for part in (a, b))
            return apply(Op.MAX if both else Op.MIN, *parts)
        case Apply(op=op, args=(a, b)) if op in _OPPOSITE:
            return _compared(_OPPOSITE[op] if denied else op, a, b, condition, kinds)
        case Apply(op=Op.WHERE) if kind_of(condition, kinds) is Kind.BOOLEAN:
            return _truth(condition, denied)
        case Name() | Number() if kind_of(condition, kinds) is Kind.BOOLEAN or isinstance(condition, Number):
            return _truth(condition, denied)
    raise ExpressionError(
        f"'{show(condition)}' is no condition that can be watched: compare two numbers, as in "
        f"'{show(condition)} <= 0', and join comparisons by and, or, not"
    )


def _strict(difference: Expr) -> Expr:
    """A sum, so that it changes as fast as the difference does, also on the border."""
    return apply(Op.ADD, difference, apply(Op.MUL, _HAIR, Apply(Op.EQ, (difference, ZERO))))


def plain(indicated: Expr) -> Expr:
    """An indicator as people read it: without the hair that strict comparisons have."""

    def shaved(node: Apply | Lookup, args: list[Expr]) -> Expr:
        match args:
            case [difference, Apply(op=Op.MUL, args=(hair, _))] if hair == _HAIR:
                return difference
        return with_args(node, args)

    return fold(indicated, lambda leaf: leaf, shaved)


def _truth(value: Expr, denied: bool) -> Expr:
    return apply(Op.SUB, value, _HALF) if denied else apply(Op.SUB, _HALF, value)


def _compared(op: Op, a: Expr, b: Expr, whole: Expr, kinds: Mapping[str, Kind]) -> Expr:
    match op:
        case Op.LE:
            return apply(Op.SUB, a, b)
        case Op.GE:
            return apply(Op.SUB, b, a)
        case Op.LT:
            return _strict(apply(Op.SUB, a, b))
        case Op.GT:
            return _strict(apply(Op.SUB, b, a))
    if Kind.REAL in {kind_of(side, kinds) for side in (a, b) if not isinstance(side, Number)}:
        raise ExpressionError(
            f"'{show(whole)}' compares real numbers, which hardly ever meet exactly: write <= or >="
        )
    distance = apply(Op.ABS, apply(Op.SUB, a, b))
    return apply(Op.SUB, distance, _HALF) if op is Op.EQ else apply(Op.SUB, _HALF, distance)
