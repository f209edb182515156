"""What can be said of expressions: their kinds, derivatives, and how far a condition is from changing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Final

from upbeat.core.errors import ExpressionError
from upbeat.core.expr.nodes import (
    ONE,
    ZERO,
    Apply,
    Expr,
    Inner,
    Leaf,
    Lookup,
    Name,
    Number,
    apply,
    fold,
    loose,
    with_args,
)
from upbeat.core.expr.operations import OPS, Op
from upbeat.core.expr.parse import parse
from upbeat.core.expr.show import show
from upbeat.core.expr.tables import Table, Table1
from upbeat.core.names import Labels
from upbeat.core.ports import Kind

# ----------------------------------------------------------------------------------------------------
# Which kind of value an expression has: real, integer or boolean.

_Guess = tuple[Kind, bool]
"""A kind, and whether it is firm. A constant is not: the 1 in ``n + 1`` follows n."""


def kind_of(expr: Expr, kinds: Mapping[str, Kind]) -> Kind:
    """The kind of `expr` where names have `kinds` (a name that is not in it is real, and so is a cell).

    Comparisons and logic give booleans; floor, ceil, round and sign give integers; sums, products and
    choices of integers are integers; a table that holds its values is of their kind; everything else is
    real, a constant on its own too.
    """
    kind, firm = fold(expr, lambda leaf: _leaf(leaf, kinds), _inner)
    return kind if firm else Kind.REAL


def fits(expr: Expr, kinds: Mapping[str, Kind], kind: Kind) -> bool:
    """Whether the value of `expr` can be stored as `kind` without losing anything.

    It can if a choice between the two is of that kind still; so a constant adapts to its place.
    """
    choice = Apply(Op.WHERE, (Number(1.0), expr, Name("")))
    return kind is Kind.REAL or kind_of(choice, {**kinds, "": kind}) is kind


def labelled(expr: Expr, items: Sequence[str], labels: Callable[[str], Sequence[str]]) -> bool:
    """Whether `expr` is a code of `items` for certain; `labels` gives those of a name that has some."""
    known = Labels.of(items)
    codes = set(known.codes)
    todo: list[Expr] = [expr]
    while todo:
        match todo.pop():
            case Name(id=name) if known == Labels.of(labels(name)):
                pass
            case Number(value=value) if value in codes:
                pass
            case Lookup(table=table) if _held(table) and set(_held(table)) <= codes:
                pass
            case Apply(op=Op.WHERE, args=(_, *parts)) | Apply(op=Op.ROUND, args=(*parts,)):
                todo += parts
            case Apply(op=op) if OPS[op].kind is Kind.BOOLEAN and codes >= {0, 1}:
                pass  # a truth is 0 or 1
            case _:
                return False
    return True


def _held(table: Table) -> Sequence[float]:
    """The values of a table that has no others in between."""
    return table.y if isinstance(table, Table1) and table.mode == "hold" else ()


def _leaf(node: Leaf, kinds: Mapping[str, Kind]) -> _Guess:
    if isinstance(node, Number):
        return _kind(node.value), False
    kind = kinds.get(node.id, Kind.REAL) if isinstance(node, Name) else Kind.REAL
    if kind is Kind.STRING:
        raise ExpressionError(f"{node} is a text, and an expression computes with numbers only")
    return kind, True


def _kind(value: float) -> Kind:
    if value in (0.0, 1.0):
        return Kind.BOOLEAN
    return Kind.INTEGER if value.is_integer() else Kind.REAL


def _inner(node: Inner, args: list[_Guess]) -> _Guess:
    if isinstance(node, Lookup):
        kinds = {_kind(value) for value in _held(node.table)} or {Kind.REAL}
        return next(kind for kind in (Kind.REAL, Kind.INTEGER, Kind.BOOLEAN) if kind in kinds), True
    kind = OPS[node.op].kind
    if kind is not None:
        return kind, True
    common = args[1:] if node.op is Op.WHERE else args
    firm = any(known for _, known in common)
    found = {kind for kind, _ in common}
    if Kind.REAL in found:
        return Kind.REAL, firm
    if found == {Kind.BOOLEAN} and node.op in (Op.WHERE, Op.MIN, Op.MAX):
        return Kind.BOOLEAN, firm
    return Kind.INTEGER, firm  # truth values add and multiply as integers


# ----------------------------------------------------------------------------------------------------
# Symbolic derivatives. The rules are texts in the table of operations, in the expression language itself.

TIME = "time"


def differentiate(expr: Expr, name: str) -> Expr:
    """The partial derivative of `expr` by the variable `name`."""
    return _rate(expr, lambda leaf: ONE if isinstance(leaf, Name) and leaf.id == name else ZERO)


def time_derivative(expr: Expr, rates: Mapping[str, Expr]) -> Expr:
    """How fast `expr` changes where its variables change at `rates`.

    ``time`` has rate 1; a variable without a rate is constant.
    """
    known = {TIME: ONE, **rates}
    return _rate(expr, lambda leaf: known.get(leaf.id, ZERO) if isinstance(leaf, Name) else ZERO)


def directional_derivative(expr: Expr, rates: Mapping[Expr, Expr]) -> Expr:
    """How fast `expr` changes where its leaves (names or cells) change at `rates`; others are constant."""
    return _rate(expr, lambda leaf: rates.get(leaf, ZERO))


def _rate(expr: Expr, leaf_rate: Callable[[Leaf], Expr]) -> Expr:
    # Values and rates travel together, so that a rate refers to the very nodes of the original.
    def inner(node: Inner, args: list[tuple[Expr, Expr]]) -> tuple[Expr, Expr]:
        rates = [rate for _, rate in args]
        if all(rate == ZERO for rate in rates):
            return node, ZERO
        return node, _lookup_rate(node, rates) if isinstance(node, Lookup) else _apply_rate(node, rates)

    return fold(expr, lambda leaf: (leaf, leaf_rate(leaf)), inner)[1]


def _apply_rate(node: Apply, rates: list[Expr]) -> Expr:
    meaning: dict[str, Expr] = {"y": node}
    for letter, arg, rate in zip("abc", node.args, rates, strict=False):
        meaning[letter] = arg
        meaning[f"d{letter}"] = rate
    return fold(_rule(node.op), lambda leaf: meaning[leaf.id] if isinstance(leaf, Name) else leaf, loose)


@cache
def _rule(op: Op) -> Expr:
    return parse(OPS[op].rate)


def _lookup_rate(node: Lookup, rates: list[Expr]) -> Expr:
    total: Expr = ZERO
    for axis, rate in enumerate(rates):
        slope = node.table.slope(axis)
        if slope is not None:
            total = _plus(total, _times(Lookup(slope, node.args), rate))
    return total


def _times(a: Expr, b: Expr) -> Expr:
    return loose(Apply(Op.MUL, (a, b)), (a, b))


def _plus(a: Expr, b: Expr) -> Expr:
    return loose(Apply(Op.ADD, (a, b)), (a, b))


# ----------------------------------------------------------------------------------------------------
# From a condition to an indicator: a number that is positive until the condition comes true.
#
# Where it falls to zero something happens, and a number, unlike a truth, can be watched on its way there.

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
