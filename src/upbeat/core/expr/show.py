"""From expression to text that parses back to an equal expression."""

from __future__ import annotations

import math
from typing import Final

from upbeat.core.errors import ExpressionError
from upbeat.core.expr.nodes import Apply, Cell, Expr, Inner, Leaf, Lookup, Name, Number, fold
from upbeat.core.expr.operations import OPS, Level, Op
from upbeat.core.expr.parse import written

MAX_SHOWN: Final = 1_000_000

Piece = tuple[str, Level]
"""A text, and how tightly it holds together."""


def show(expr: Expr) -> str:
    """The text of `expr`, with no more parentheses than needed. A cell shows as ``@12``."""
    return fold(expr, _leaf, _inner)[0]


def _leaf(node: Leaf) -> Piece:
    match node:
        case Number(value):
            return _number(value), Level.UNARY if math.copysign(1.0, value) < 0 else Level.ATOM
        case Name(name):
            return written(name), Level.ATOM
        case Cell(index):
            return f"@{index}", Level.ATOM


def _number(value: float) -> str:
    if math.isnan(value):
        return "nan"
    whole = value.is_integer() and abs(value) < 1e15
    return f"{value:.0f}" if whole else repr(value)


def _inner(node: Inner, args: list[Piece]) -> Piece:
    text, level = _piece(node, args)
    if len(text) > MAX_SHOWN:  # parts that are shared in the graph are repeated in the text
        raise ExpressionError(f"the expression is too large to show: more than {MAX_SHOWN} characters")
    return text, level


def _piece(node: Inner, args: list[Piece]) -> Piece:
    if isinstance(node, Lookup):
        return f"{node.table.text}({', '.join(text for text, _ in args)})", Level.ATOM
    row = OPS[node.op]
    if row.level is Level.ATOM:
        return f"{row.name}({', '.join(text for text, _ in args)})", Level.ATOM
    return _operator(node, args), row.level


def _operator(node: Apply, args: list[Piece]) -> str:
    row = OPS[node.op]
    match node.op:
        case Op.WHERE:
            test, yes, no = args
            return f"{_at(Level.OR, yes)} if {_at(Level.OR, test)} else {_at(Level.TERNARY, no)}"
        case Op.NOT:
            return f"not {_at(Level.NOT, args[0])}"
        case Op.NEG:
            # '-2' is a constant of its own, so the negation of 2 needs parentheses
            literal = isinstance(node.args[0], Number)
            return f"-({args[0][0]})" if literal else f"-{_at(Level.UNARY, args[0])}"
        case Op.POW:
            return f"{_at(Level.ATOM, args[0])}**{_at(Level.UNARY, args[1])}"
    tighter = Level(row.level + 1)
    left = _at(tighter if row.level is Level.COMPARISON else row.level, args[0])
    space = "" if row.level is Level.PRODUCT else " "
    return f"{left}{space}{row.name}{space}{_at(tighter, args[1])}"


def _at(lowest: Level, piece: Piece) -> str:
    text, level = piece
    return text if level >= lowest else f"({text})"
