"""Which kind of value an expression has: real, integer or boolean."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from upbeat.core.errors import ExpressionError
from upbeat.core.expr.nodes import Apply, Expr, Inner, Leaf, Lookup, Name, Number, fold
from upbeat.core.expr.operations import OPS, Op
from upbeat.core.expr.tables import Table, Table1
from upbeat.core.names import Labels
from upbeat.core.ports import Kind

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
