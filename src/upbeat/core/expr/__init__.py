"""Expressions: a small safe arithmetic language that is parsed, differentiated, evaluated and compiled."""

from __future__ import annotations

from upbeat.core.expr.evaluate import evaluate
from upbeat.core.expr.kernel import Kernel
from upbeat.core.expr.nodes import (
    ONE,
    ZERO,
    Apply,
    Cell,
    Expr,
    Lookup,
    Name,
    Number,
    apply,
    cells,
    fold,
    lift,
    names,
    substitute,
)
from upbeat.core.expr.operations import OPS, RESERVED, Op
from upbeat.core.expr.parse import parse
from upbeat.core.expr.simplify import simplify
from upbeat.core.expr.tables import Table, Table1, Table2
