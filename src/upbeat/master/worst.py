"""The largest of several errors, as an expression in which none gets lost."""

from __future__ import annotations

from collections.abc import Iterable

from upbeat.core.expr import Expr, Number, Op, apply


def worst_of(errors: Iterable[Expr]) -> Expr:
    """The largest of `errors` (0 if there are none); not a number if one of them is none.

    A plain maximum gives the other value when one is not a number, and a comparison with a tolerance would
    then call it small.
    """
    worst: Expr = Number(0.0)
    for error in errors:
        there = apply(Op.EQ, error, error)
        worst = apply(Op.WHERE, there, apply(Op.MAX, error, worst), error)  # max(x, nan) is nan
    return worst
