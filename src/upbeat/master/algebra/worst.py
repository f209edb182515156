"""When an iteration has arrived: residuals over their tolerance, and the largest of them, as expressions."""

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


def excess(residual: Expr, tolerance: float, value: Expr | None = None) -> Expr:
    """A residual over what still counts as none: an iteration has arrived where no excess is above 1.

    Where an expression must vanish (`consistent` start values, which are found outside a program), there is
    nothing to compare with and the tolerance is absolute. With `value` it is relative to 1 + |value|.
    Algebraic loops and iterated steps, where two values must agree, are judged relative to these values
    themselves (`Torn.small`, `Iterated`), constraints relative to their terms (`Corrections.judge`). The
    unknowns inside a monolith are no iteration with a tolerance: they are found as well as rounding allows
    (`upbeat.units.equations.implicit`), because others are compared with it.
    """
    size = apply(Op.ABS, residual)
    return size / tolerance if value is None else size / (tolerance * (apply(Op.ABS, value) + 1.0))
