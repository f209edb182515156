"""Linear equations among expressions: recognising them, solving them by formulas, naming shared parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from upbeat.core.expr import ONE, ZERO, Apply, Expr, Name, Op, fold
from upbeat.core.expr.nodes import Inner, Leaf, ordered, with_args
from upbeat.core.expr.simplify import loose


@dataclass(frozen=True, slots=True)
class Affine:
    """constant + Σ slopes[z]·z, where neither the constant nor the slopes contain an unknown z."""

    constant: Expr
    slopes: dict[str, Expr] = field(default_factory=dict)

    @classmethod
    def unknown(cls, name: str) -> Affine:
        return cls(ZERO, {name: ONE})

    def map(self, change: Callable[[Expr], Expr]) -> Affine:
        return Affine(change(self.constant), {name: change(slope) for name, slope in self.slopes.items()})

    def join(self, other: Affine, by: Callable[[Expr, Expr], Expr]) -> Affine:
        """Constants with constants, slopes with slopes."""
        names = dict.fromkeys((*self.slopes, *other.slopes))
        slopes = {name: by(self.slopes.get(name, ZERO), other.slopes.get(name, ZERO)) for name in names}
        return Affine(by(self.constant, other.constant), {n: s for n, s in slopes.items() if s != ZERO})


def affine(expr: Expr, forms: Mapping[str, Affine]) -> Affine | None:
    """`expr` as a form in the unknowns, where names have the `forms` given; None if it is not linear.

    The judgement is by structure and not by derivatives: that of round(z) is zero, but it is not constant.
    """

    def leaf(node: Leaf) -> Affine | None:
        return forms.get(node.id, Affine(node)) if isinstance(node, Name) else Affine(node)

    return fold(expr, leaf, _combined)


def _combined(node: Inner, args: list[Affine | None]) -> Affine | None:
    known = [arg for arg in args if arg is not None]
    if len(known) < len(args):
        return None
    if not any(arg.slopes for arg in known):
        return Affine(with_args(node, [arg.constant for arg in known]))
    if not isinstance(node, Apply):
        return None
    match node.op, known:
        case (Op.ADD, (a, b)):
            return a.join(b, _plus)
        case (Op.SUB, (a, b)):
            return a.join(b, _minus)
        case (Op.NEG, (a,)):
            return a.map(lambda part: _minus(ZERO, part))
        case (Op.MUL, (a, b)) if not b.slopes:
            return a.map(lambda part: _times(part, b.constant))
        case (Op.MUL, (a, b)) if not a.slopes:
            return b.map(lambda part: _times(a.constant, part))
        case (Op.DIV, (a, b)) if not b.slopes:
            return a.map(lambda part: _over(part, b.constant))
        case (Op.WHERE, (test, a, b)) if not test.slopes:
            return a.join(b, lambda yes, no: _made(Op.WHERE, test.constant, yes, no))
    return None


def solutions(equations: Mapping[str, Affine]) -> tuple[Expr, dict[str, Expr]]:
    """The determinant of the system z = equations[z], and its solution by Cramer's rule.

    Elimination would do with fewer operations, but has to choose pivots before their values are known.
    """
    unknowns = list(equations)
    columns: list[list[Expr]] = [
        [_minus(ONE if row == column else ZERO, equations[row].slopes.get(column, ZERO)) for row in unknowns]
        for column in unknowns
    ]
    columns.append([equations[row].constant for row in unknowns])
    minors: dict[tuple[int, ...], Expr] = {(): ONE}

    def determinant(chosen: tuple[int, ...]) -> Expr:
        """Of the chosen columns and as many of the last rows; developed along the first of these."""
        if chosen not in minors:
            row, total = len(unknowns) - len(chosen), ZERO
            for i, column in enumerate(chosen):
                if columns[column][row] != ZERO:
                    term = _times(columns[column][row], determinant(chosen[:i] + chosen[i + 1 :]))
                    total = _minus(total, term) if i % 2 else _plus(total, term)  # type: ignore[assignment]
            minors[chosen] = total
        return minors[chosen]

    whole = tuple(range(len(unknowns)))
    common = determinant(whole)
    replaced = [(*whole[:k], len(unknowns), *whole[k + 1 :]) for k in whole]
    return common, {
        name: _over(determinant(chosen), common) for name, chosen in zip(unknowns, replaced, strict=True)
    }


def with_names(roots: Sequence[Expr], fresh: Callable[[], str]) -> tuple[dict[str, Expr], list[Expr]]:
    """`roots` with every part that occurs more than once replaced by a fresh name, and what these stand for.

    Expressions are graphs, but their texts are trees: without names, what is shared would be repeated.
    """
    order = ordered(roots)
    uses: dict[int, int] = {}
    for used in (*roots, *(arg for node in order for arg in node.args)):
        uses[id(used)] = uses.get(id(used), 0) + 1
    named: dict[str, Expr] = {}
    values: dict[int, Expr] = {}
    for node in order:
        value: Expr = node
        if node.args:
            value = with_args(node, [values[id(arg)] for arg in node.args])  # type: ignore[arg-type]
            if uses[id(node)] > 1:
                name = fresh()
                named[name], value = value, Name(name)
        values[id(node)] = value
    return named, [values[id(root)] for root in roots]


def _made(op: Op, *args: Expr) -> Expr:
    return loose(Apply(op, args), args)


def _plus(a: Expr, b: Expr) -> Expr:
    return _made(Op.ADD, a, b)


def _minus(a: Expr, b: Expr) -> Expr:
    return a if b == ZERO else _made(Op.SUB, a, b)


def _times(a: Expr, b: Expr) -> Expr:
    return _made(Op.MUL, a, b)


def _over(a: Expr, b: Expr) -> Expr:
    return _made(Op.DIV, a, b)
