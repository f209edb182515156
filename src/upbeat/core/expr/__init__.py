"""Expressions: a small safe arithmetic language that is parsed, differentiated, evaluated and compiled."""

from __future__ import annotations

from upbeat.core.expr.calculus import (
    differentiate,
    directional_derivative,
    fits,
    indicator,
    kind_of,
    labelled,
    plain,
    time_derivative,
)
from upbeat.core.expr.kernel import Kernel, evaluate
from upbeat.core.expr.nodes import (
    ONE,
    ZERO,
    Apply,
    Cell,
    Expr,
    Lookup,
    Name,
    Number,
    all_of,
    any_of,
    apply,
    cells,
    fold,
    lift,
    looks_up,
    names,
    simplify,
    substitute,
)
from upbeat.core.expr.operations import OPS, Op
from upbeat.core.expr.parse import RESERVED, parse
from upbeat.core.expr.show import show
from upbeat.core.expr.tables import Table, Table1, Table2

__all__ = [
    "ONE",
    "OPS",
    "RESERVED",
    "ZERO",
    "Apply",
    "Cell",
    "Expr",
    "Kernel",
    "Lookup",
    "Name",
    "Number",
    "Op",
    "Table",
    "Table1",
    "Table2",
    "all_of",
    "any_of",
    "apply",
    "cells",
    "differentiate",
    "directional_derivative",
    "evaluate",
    "fits",
    "fold",
    "indicator",
    "kind_of",
    "labelled",
    "lift",
    "looks_up",
    "names",
    "parse",
    "plain",
    "show",
    "simplify",
    "substitute",
    "time_derivative",
]
