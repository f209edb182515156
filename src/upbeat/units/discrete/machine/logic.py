"""Truth values and choices as expressions, with less to do where a part is known."""

from __future__ import annotations

from collections.abc import Sequence

from upbeat.core.expr import ONE, ZERO, Expr, Name, Number, Op, apply


def choice(condition: Expr, then: Expr, other: Expr) -> Expr:
    """One or the other."""
    if isinstance(condition, Number):
        return then if condition.value else other
    return then if then == other else apply(Op.WHERE, condition, then, other)


def both(one: Expr, two: Expr) -> Expr:
    """Whether both hold."""
    if one == ONE or two == ZERO:
        return two
    return one if two == ONE or one == ZERO else apply(Op.AND, one, two)


def either(one: Expr, two: Expr) -> Expr:
    """Whether one of them holds."""
    return ONE if two == ONE else apply(Op.OR, one, two)


def any_of(flags: Sequence[str]) -> Expr:
    """Whether one of these names is true."""
    found: Expr = ZERO
    for flag in flags:
        found = Name(flag) if found == ZERO else apply(Op.OR, found, Name(flag))
    return found


def negated(one: Expr) -> Expr:
    """Whether it does not hold."""
    return ONE if one == ZERO else apply(Op.NOT, one)
