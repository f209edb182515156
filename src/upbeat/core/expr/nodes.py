"""Expression trees: five kinds of frozen node, and the traversals that everything else is made of.

Trees share their parts (they are graphs), and a sum of a thousand terms is a thousand levels deep.
Hence every traversal here is a loop that visits each node once: nothing recurses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeVar

from upbeat.core.expr.operations import IMPLEMENTATION, Op
from upbeat.core.expr.tables import Table
from upbeat.core.records import dataclass

V = TypeVar("V")


class Node:
    """What all nodes share: structural equality, building with operators, printing, pickling."""

    __slots__ = ()

    @property
    def args(self) -> tuple[Expr, ...]:
        return ()

    def _label(self) -> tuple[Any, ...]:
        """What distinguishes this node from others with the same arguments."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and _equal(self, other)

    def __hash__(self) -> int:
        return hash((type(self), self._label()))

    def __repr__(self) -> str:
        return f"<{self}>"

    def __str__(self) -> str:
        from upbeat.core.expr.show import show  # the printer is built on the nodes

        return show(self)  # type: ignore[arg-type]

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (_flatten(self),)  # type: ignore[arg-type]

    def __add__(self, other: Expr | float) -> Apply:
        return apply(Op.ADD, self, other)

    def __radd__(self, other: float) -> Apply:
        return apply(Op.ADD, other, self)

    def __sub__(self, other: Expr | float) -> Apply:
        return apply(Op.SUB, self, other)

    def __rsub__(self, other: float) -> Apply:
        return apply(Op.SUB, other, self)

    def __mul__(self, other: Expr | float) -> Apply:
        return apply(Op.MUL, self, other)

    def __rmul__(self, other: float) -> Apply:
        return apply(Op.MUL, other, self)

    def __truediv__(self, other: Expr | float) -> Apply:
        return apply(Op.DIV, self, other)

    def __rtruediv__(self, other: float) -> Apply:
        return apply(Op.DIV, other, self)

    def __pow__(self, other: Expr | float) -> Apply:
        return apply(Op.POW, self, other)

    def __neg__(self) -> Apply:
        return apply(Op.NEG, self)

    def __lt__(self, other: Expr | float) -> Apply:
        return apply(Op.LT, self, other)

    def __le__(self, other: Expr | float) -> Apply:
        return apply(Op.LE, self, other)

    def __gt__(self, other: Expr | float) -> Apply:
        return apply(Op.GT, self, other)

    def __ge__(self, other: Expr | float) -> Apply:
        return apply(Op.GE, self, other)

    def __and__(self, other: Expr | float) -> Apply:
        return apply(Op.AND, self, other)

    def __or__(self, other: Expr | float) -> Apply:
        return apply(Op.OR, self, other)

    def __invert__(self) -> Apply:
        return apply(Op.NOT, self)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Number(Node):
    """A constant."""

    value: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", float(self.value))

    def _label(self) -> tuple[Any, ...]:
        # 0.0 and -0.0 are different constants; NaN is equal to itself
        return ("nan",) if math.isnan(self.value) else (self.value, math.copysign(1.0, self.value))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Name(Node):
    """A variable: ``x``, ``left.x``, ``left.u[2]``."""

    id: str

    def _label(self) -> tuple[Any, ...]:
        return (self.id,)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Cell(Node):
    """A cell of the register file; only in programs."""

    index: int

    def _label(self) -> tuple[Any, ...]:
        return (self.index,)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Apply(Node):
    """An operation on arguments."""

    op: Op
    args: tuple[Expr, ...]
    _hash: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.op, self.args)))

    def __hash__(self) -> int:
        return self._hash

    def _label(self) -> tuple[Any, ...]:
        return (self.op,)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Lookup(Node):
    """An interpolation table applied to one or two arguments."""

    table: Table
    args: tuple[Expr, ...]
    _hash: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.table, self.args)))

    def __hash__(self) -> int:
        return self._hash

    def _label(self) -> tuple[Any, ...]:
        return (self.table,)


Expr = Number | Name | Cell | Apply | Lookup
Leaf = Number | Name | Cell
Inner = Apply | Lookup

ZERO = Number(0.0)
ONE = Number(1.0)


def apply(op: Op, *args: Node | float) -> Apply:
    """`op` applied to expressions and plain numbers: ``apply(Op.MAX, Cell(3), 0.0)``."""
    return Apply(op, tuple(lift(arg) for arg in args))


def any_of(truths: Sequence[Expr]) -> Expr:
    """Whether one of them holds; halved again and again, so that a thousand of them are no deep tree."""
    if len(truths) < 2:
        return truths[0] if truths else ZERO
    half = len(truths) // 2
    return apply(Op.OR, any_of(truths[:half]), any_of(truths[half:]))


def all_of(truths: Sequence[Expr]) -> Expr:
    """Whether all of them hold; halved as those of `any_of` are."""
    if len(truths) < 2:
        return truths[0] if truths else ONE
    half = len(truths) // 2
    return apply(Op.AND, all_of(truths[:half]), all_of(truths[half:]))


def lift(value: Node | float) -> Expr:
    """A plain number as a constant; an expression as it is."""
    return value if isinstance(value, Expr) else Number(float(value))  # type: ignore[arg-type]


def with_args(node: Inner, args: Sequence[Expr]) -> Inner:
    """The same operation or table on other arguments; the same node if they are the same."""
    for new, old in zip(args, node.args, strict=True):
        if new is not old:
            made = tuple(args)
            return Apply(node.op, made) if isinstance(node, Apply) else Lookup(node.table, made)
    return node


def ordered(roots: Iterable[Expr]) -> list[Expr]:
    """Every distinct node below `roots`, arguments before the nodes that use them."""
    order: list[Expr] = []
    seen: set[int] = set()
    stack: list[Any] = [*roots]
    stack.reverse()
    while stack:
        node = stack.pop()
        if node is None:  # what follows on the stack has its arguments in `order`
            order.append(stack.pop())
        elif id(node) not in seen:
            seen.add(id(node))
            if args := node.args:
                stack += (node, None, *args[::-1])
            else:
                order.append(node)
    return order


def fold(expr: Expr, leaf: Callable[[Leaf], V], inner: Callable[[Inner, list[V]], V]) -> V:
    """The value of `expr` in any domain: `leaf` gives leaves a value, `inner` combines those of arguments."""
    return fold_all((expr,), leaf, inner)[0]


def fold_all(
    roots: Sequence[Expr], leaf: Callable[[Leaf], V], inner: Callable[[Inner, list[V]], V]
) -> list[V]:
    """`fold` for several expressions that share parts: each part is visited once, as in `ordered`."""
    values: dict[int, V] = {}
    stack: list[Any] = [*reversed(roots)]
    while stack:
        node = stack.pop()
        if node is None:  # what follows on the stack has the values of its arguments
            node = stack.pop()
            values[id(node)] = inner(node, [values[id(arg)] for arg in node.args])
        elif id(node) not in values:
            if args := node.args:
                stack += (node, None, *args[::-1])
            else:
                values[id(node)] = leaf(node)
    return [values[id(root)] for root in roots]


def looks_up(expr: Expr) -> bool:
    """Whether it reads an interpolation table."""
    return fold(expr, lambda _: False, lambda node, args: isinstance(node, Lookup) or any(args))


def names(expr: Expr) -> frozenset[str]:
    """The variables in an expression."""
    return frozenset(node.id for node in ordered((expr,)) if isinstance(node, Name))


def cells(expr: Expr) -> frozenset[int]:
    """The register cells in an expression."""
    return frozenset(node.index for node in ordered((expr,)) if isinstance(node, Cell))


def substitute(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    """`expr` with names replaced, all at once; what was shared stays shared."""
    return fold(expr, lambda node: values.get(node.id, node) if isinstance(node, Name) else node, with_args)


def _equal(one: Node, two: Node) -> bool:
    pairs = [(one, two)]
    same: set[tuple[int, int]] = set()
    while pairs:
        a, b = pairs.pop()
        if a is b or (id(a), id(b)) in same:
            continue
        if type(a) is not type(b) or hash(a) != hash(b) or a._label() != b._label():
            return False
        if len(a.args) != len(b.args):
            return False
        same.add((id(a), id(b)))
        pairs.extend(zip(a.args, b.args, strict=True))
    return True


def _flatten(expr: Expr) -> list[tuple[Any, ...]]:
    """The graph as rows (class, payload, positions of the arguments): pickle takes them without recursion."""
    order = ordered((expr,))
    place = {id(node): i for i, node in enumerate(order)}
    return [(type(node), *_payload(node), *(place[id(arg)] for arg in node.args)) for node in order]


def _payload(node: Expr) -> tuple[Any, ...]:
    return (node.value,) if isinstance(node, Number) else node._label()


def _rebuild(rows: list[tuple[Any, ...]]) -> Expr:
    built: list[Expr] = []
    for kind, payload, *places in rows:
        built.append(
            kind(payload, tuple(built[i] for i in places)) if kind in (Apply, Lookup) else kind(payload)
        )
    return built[-1]


# ----------------------------------------------------------------------------------------------------
# Light simplification: constants are folded and neutral elements dropped.
#
# The rules of `simplify` are exact: not one bit of a result changes (x + 0 stays, because -0 + 0 is +0).
# Derivatives add rules that are true for numbers but not for inf, NaN and the sign of zero (0 · x = 0).

_NEGATIVE_ZERO = Number(-0.0)


def simplify(expr: Expr) -> Expr:
    """The same function, bit for bit, with less to do."""
    return fold(expr, lambda leaf: leaf, reduce)


def reduce(node: Inner, args: Sequence[Expr]) -> Expr:
    """`node` on simplified `args`, simplified exactly."""
    if isinstance(node, Apply):
        found = _constant(node.op, args)
        if found is None and node.op in _WITH_NEUTRAL_ELEMENTS:
            found = _exact(node.op, args)
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
    for arg in args:
        if type(arg) is not Number:
            return None
    result = IMPLEMENTATION[op](*(arg.value for arg in args))  # type: ignore[union-attr]
    # a NaN keeps its cause visible: 0/0 prints better than nan
    return None if math.isnan(result) else Number(result)


_WITH_NEUTRAL_ELEMENTS = frozenset({Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.POW, Op.NEG, Op.WHERE})
"""Most operations are none of these, and asking costs a microsecond for each."""


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
