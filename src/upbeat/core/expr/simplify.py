"""Light simplification: constants are folded and neutral elements dropped.

The rules of `simplify` are exact: not one bit of a result changes (x + 0 stays, because -0 + 0 is +0).
Derivatives add rules that are true for numbers but not for inf, NaN and the sign of zero (0 · x = 0).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from upbeat.core.expr.nodes import ONE, ZERO, Apply, Expr, Inner, Number, fold, with_args
from upbeat.core.expr.operations import IMPLEMENTATION, Op

_NEGATIVE_ZERO = Number(-0.0)


def simplify(expr: Expr) -> Expr:
    """The same function, bit for bit, with less to do."""
    return fold(expr, lambda leaf: leaf, reduce)


def reduce(node: Inner, args: Sequence[Expr]) -> Expr:
    """`node` on simplified `args`, simplified exactly."""
    if isinstance(node, Apply):
        found = _constant(node.op, args) or _exact(node.op, args)
        if found is not None:
            return found
    return with_args(node, args)


def loose(node: Inner, args: Sequence[Expr]) -> Expr:
    """`node` on simplified `args`, with the rules for derivatives too."""
    if isinstance(node, Apply):
        found = _loose(node.op, args)
        if found is not None:
            return found
    return reduce(node, args)


def _constant(op: Op, args: Sequence[Expr]) -> Expr | None:
    values = [arg.value for arg in args if isinstance(arg, Number)]
    if len(values) < len(args):
        return None
    result = IMPLEMENTATION[op](*values)
    # a NaN keeps its cause visible: 0/0 prints better than nan
    return None if math.isnan(result) else Number(result)


def _exact(op: Op, args: Sequence[Expr]) -> Expr | None:
    match op, tuple(args):
        case (Op.ADD, (a, b)):
            return a if b == _NEGATIVE_ZERO else b if a == _NEGATIVE_ZERO else None
        case (Op.SUB, (a, b)):
            return a if b == ZERO else None
        case (Op.MUL, (a, b)):
            return a if b == ONE else b if a == ONE else None
        case (Op.DIV, (a, b)):
            return a if b == ONE else None
        case (Op.POW, (a, Number(exponent))):
            return _power(a, exponent)
        case (Op.NEG, (Apply(Op.NEG, (a,)),)):
            return a
        case (Op.WHERE, (Number(test), b, c)):
            return b if test else c
        case (Op.WHERE, (_, b, c)):
            return b if b == c else None
    return None


def _power(a: Expr, exponent: float) -> Expr | None:
    """Small powers as products: what `pow` is defined to be, without the question at run time."""
    if exponent == 0.0:
        return ONE
    if exponent == 1.0:
        return a
    if exponent == 2.0:
        return Apply(Op.MUL, (a, a))
    if exponent == 3.0:
        return Apply(Op.MUL, (Apply(Op.MUL, (a, a)), a))
    return None


def _zero(expr: Expr) -> bool:
    return isinstance(expr, Number) and expr.value == 0.0


def _loose(op: Op, args: Sequence[Expr]) -> Expr | None:
    match op, tuple(args):
        case (Op.ADD, (a, b)):
            return b if _zero(a) else a if _zero(b) else None
        case (Op.SUB, (a, b)) if _zero(a):
            return loose(Apply(Op.NEG, (b,)), (b,))
        case (Op.MUL, (a, b)) if _zero(a) or _zero(b):
            return ZERO
        case (Op.DIV, (a, _)) if _zero(a):
            return ZERO
        case (Op.NEG, (a,)) if _zero(a):
            return ZERO
        case (Op.WHERE, (_, b, c)) if _zero(b) and _zero(c):
            return ZERO
    return None
