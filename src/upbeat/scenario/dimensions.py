"""Units of measure through expressions: every part gets one, and conversions go where they are needed.

* A name enters in the unit of its port. Sums, comparisons, choices and their like bring all parts to one
  unit; products and powers compose; sin, exp and their like take plain numbers and angles.
* A number, a truth value or a label has no unit of its own. In a product it counts as it is; next to a
  quantity it is in the unit of that quantity.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

from upbeat.core.expr import OPS, Apply, Expr, Lookup, Name, Number, Op, evaluate, fold, names, show
from upbeat.core.expr.nodes import Inner, Leaf
from upbeat.core.measure import Measure, MeasureError, conversion, is_ratio, offset_unit
from upbeat.core.records import dataclass
from upbeat.scenario.directory import Wrong

# ----------------------------------------------------------------------------------------------------
# Quantities: parts of an expression, each with what it is measured in, and their conversion.
#
# A value in an offset unit such as degC contains the zero of its scale once: its `weight` is 1. Weights add
# up and are multiplied by numbers, so ``0.5*(a.T + b.T)`` is a temperature (1) and ``a.T - b.T`` a
# difference (0), which may be multiplied. Anything else would depend on where the scale has its zero, and
# is refused.

PLAIN = Measure()

FACTOR = (
    "A plain number has no unit. To give one to a factor, make it a scenario input: "
    '[inputs] with a line such as k = { start = 2.0, unit = "N/m" }.'
)
CONSTANT = 'Make it a scenario input: [inputs] with a line such as limit = { start = 1.0, unit = "m" }.'
_ABSOLUTE = "Give it out in K: on a scale with a zero of its own, only differences and means have a meaning."


@dataclass(frozen=True, slots=True)
class Quantity:
    """A part of an expression: as `written`, as computed (`expr`), and what it is measured in.

    * `measure` is None for a number, which takes the unit of its partner.
    * `offset` is the offset unit, if it is in one, and `weight` how often the zero of its scale is in it;
      None if that depends on what a number means: the 20 in ``T - 20`` is a temperature or a difference.
    * `scaled`: it contains a product with a number. `mixed`: it is a sum over different units. `wanted`: it
      is in the unit that the whole expression will be in.
    """

    written: Expr
    expr: Expr
    measure: Measure | None = None
    offset: str | None = None
    weight: Fraction | None = None
    scaled: bool = False
    mixed: bool = False
    wanted: bool = False

    @classmethod
    def of(cls, expr: Expr, unit: str) -> Quantity:
        """Something that is in `unit`."""
        base, difference = offset_unit(unit) or (None, False)
        if base is None:
            return cls(expr, expr, Measure.of(unit))
        return cls(expr, expr, Measure.of(unit), base, Fraction(0 if difference else 1))

    @property
    def unit(self) -> str | Measure | None:
        """The scale that it is on."""
        return self.offset or self.measure

    @property
    def text(self) -> str:
        """What it is in, for people."""
        if self.offset is not None:
            return f"delta_{self.offset}" if self.weight == 0 else self.offset
        return str(self.measure)

    def __str__(self) -> str:
        return f"'{show(self.written)}' is in {self.text}"

    @property
    def constant(self) -> float | None:
        """Its value, if it is a number that never changes."""
        return None if self.measure is not None or names(self.expr) else evaluate(self.expr)

    @property
    def free(self) -> Quantity:
        """The same as something that can be multiplied: on an offset scale, that is a difference."""
        if self.offset is not None and self.weight not in (None, 0):
            raise self.senseless
        return replace(self, offset=None, weight=None)

    def moved(self, unit: str | Measure | None, weight: Fraction | None) -> Expr:
        """The expression in another unit, with the zeros of both scales `weight` times apart."""
        if self.unit == unit:
            return self.expr
        change = conversion(self.unit, unit, counted=not self.scaled)
        expr = self.expr if change.scale == 1.0 else Number(change.scale) * self.expr
        offset = change.offset * float(weight or 0)
        return expr + Number(offset) if offset else expr

    def converted(self, unit: str) -> Expr:
        """The expression in `unit`. Raises `MeasureError`, and `Wrong` if it has no meaning on a scale."""
        want = Quantity.of(self.expr, unit)
        if self.measure is None:
            return self.expr
        if self.offset is None:
            return self.moved(want.measure if want.weight == 0 else want.unit, Fraction(1))
        if self.weight not in (None, 0, 1):
            raise self.senseless
        if want.offset is None:
            if self.weight is None:
                raise self.unclear
            return self.moved(want.unit, self.weight)
        if self.weight not in (None, want.weight):
            raise MeasureError("a difference is not a temperature")
        return self.moved(want.offset, want.weight)

    @property
    def senseless(self) -> Wrong:
        return Wrong(f"'{show(self.written)}' is in {self.offset}, a unit with an offset", _ABSOLUTE)

    @property
    def unclear(self) -> Wrong:
        scale = self.offset
        return Wrong(
            f"in '{show(self.written)}' it is not clear whether the number is a temperature or a difference",
            f"Make it a scenario input in {scale} or delta_{scale}: "
            f'[inputs] with a line such as limit = {{ start = 1.0, unit = "{scale}" }}.',
        )


# ----------------------------------------------------------------------------------------------------

NUMBER = ""
"""The unit of what is a number and needs none: a truth value, a label."""

_RADIAN = Measure(frozenset({("rad", Fraction(1))}))


class NoUnit(Exception):
    """Nothing can be said about an expression, because a part of it has no unit of measure."""


def infer(expr: Expr, unit_of: Callable[[str], str | None], wanted: str | None = None) -> Quantity:
    """The quantity that `expr` computes where every name has the unit that `unit_of` gives.

    Where parts are brought to one unit, it is `wanted` if one of them is in it: that saves conversions.
    Raises `NoUnit` if a name has None, and `Wrong` where parts do not fit together.
    """

    def leaf(node: Leaf) -> Quantity:
        unit = unit_of(node.id) if isinstance(node, Name) else NUMBER
        if unit is None:
            raise NoUnit
        return (
            Quantity(node, node)
            if unit == NUMBER
            else replace(Quantity.of(node, unit), wanted=unit == wanted)
        )

    def inner(node: Inner, args: list[Quantity]) -> Quantity:
        if isinstance(node, Lookup):
            raise NoUnit
        found = _RULES.get(node.op, _plain)(node, args)
        return replace(found, written=node, scaled=found.scaled or any(arg.scaled for arg in args))

    return fold(expr, leaf, inner)


Rule = Callable[[Apply, Sequence[Quantity]], Quantity]


def _on(node: Apply, args: Sequence[Quantity]) -> Apply:
    return Apply(node.op, tuple(arg.expr for arg in args))


# -------------------------------------------------------------------- parts that must be alike


def _common(node: Apply, args: Sequence[Quantity]) -> tuple[list[Quantity], Quantity | None]:
    """The arguments in one unit, and the one to take it from; None if all are numbers."""
    measured = [arg for arg in args if arg.measure is not None]
    if not measured:
        return list(args), None
    # Without an offset there is no doubt: 20 degC are 293.15 K, and 1 K more is the same on both scales.
    base = min(measured, key=lambda arg: (arg.offset is not None, not arg.wanted))
    mixed = any(arg.unit != base.unit or arg.mixed for arg in measured)
    for arg in args:
        if arg.measure is None:
            _check_number(node, arg, base, mixed)
    return [_like(node, arg, base) for arg in args], replace(base, mixed=mixed)


def _like(node: Apply, arg: Quantity, base: Quantity) -> Quantity:
    if arg.measure is None or arg.unit == base.unit:
        return arg
    if arg.offset is not None and arg.weight is None:
        raise arg.unclear
    try:
        return replace(arg, expr=arg.moved(base.unit, arg.weight))
    except MeasureError as error:
        raise Wrong(f"{base} and {arg}: '{show(node)}' does not fit together, {error}", FACTOR) from None


def _check_number(node: Apply, number: Quantity, base: Quantity, mixed: bool) -> None:
    value = number.constant
    if value is not None and (value == 0.0 or math.isinf(value)) and base.offset is None:
        return  # the same in every unit
    if mixed or (base.offset is None and _is_ratio(base.measure)):
        what = f"in '{show(node)}' it is not clear in which unit '{show(number.written)}' is"
        raise Wrong(what, CONSTANT)


def _is_ratio(measure: Measure | None) -> bool:
    """Whether this is written like %, where a 1 might be all or a hundredth of it."""
    return measure is not None and len(measure.powers) == 1 and is_ratio(str(measure))


def _alike(node: Apply, args: Sequence[Quantity]) -> Quantity:
    """In the unit that all arguments have: min, max, clip."""
    found, base = _common(node, args)
    if base is None:
        return Quantity(node, _on(node, found))
    weights = {arg.weight for arg in found if arg.weight is not None}
    if base.offset is not None and len(weights) > 1:
        parts = " and ".join(f"'{show(arg.written)}'" for arg in found if arg.weight is not None)
        raise Wrong(f"{parts} do not fit together: a difference in {base.offset} is not a temperature")
    return replace(base, expr=_on(node, found), weight=next(iter(weights), None))


def _choice(node: Apply, args: Sequence[Quantity]) -> Quantity:
    test, *branches = args
    found = _alike(node, branches)
    return replace(found, expr=Apply(Op.WHERE, (test.expr, *found.expr.args)))


def _comparison(node: Apply, args: Sequence[Quantity]) -> Quantity:
    return Quantity(node, _alike(node, args).expr)


def _logic(node: Apply, args: Sequence[Quantity]) -> Quantity:
    return Quantity(node, _on(node, args))


def _sum(node: Apply, args: Sequence[Quantity]) -> Quantity:
    found, base = _common(node, args)
    if base is None:
        return Quantity(node, _on(node, found))
    first, second = (Fraction(0) if arg.constant == 0.0 else arg.weight for arg in found)
    weight = None
    if base.offset is not None and first is not None and second is not None:
        weight = first + second if node.op is Op.ADD else first - second
    return replace(base, expr=_on(node, found), weight=weight)


def _size(node: Apply, args: Sequence[Quantity]) -> Quantity:
    """In the unit that all arguments have, and never on an offset scale: abs, mod, hypot."""
    found, base = _common(node, [arg.free for arg in args])
    expr = _on(node, found)
    return Quantity(node, expr) if base is None or base.measure is None else _made(expr, base.measure)


def _sign(node: Apply, args: Sequence[Quantity]) -> Quantity:
    return Quantity(node, _size(node, args).expr)


def _angle_of(node: Apply, args: Sequence[Quantity]) -> Quantity:
    """The angle of a direction, whose parts are alike: atan2."""
    found = _size(node, args)
    return found if found.measure is None else Quantity(node, found.expr, _RADIAN)


# -------------------------------------------------------------------- parts that need not be alike


def _made(expr: Expr, measure: Measure, *, scaled: bool = False) -> Quantity:
    """A quantity that comes out in `measure`, which may be that of a difference on an offset scale."""
    scale = offset_unit(str(measure)) if len(measure.powers) == 1 else None
    found = Quantity(expr, expr, measure, scaled=scaled)
    return found if scale is None else replace(found, offset=scale[0], weight=Fraction(0))


def _product(node: Apply, args: Sequence[Quantity]) -> Quantity:
    a, b = args
    number, other = (a, b) if a.measure is None else (b, a)
    if other.measure is None:
        return Quantity(node, _on(node, args))
    if number.measure is None and other.offset is not None and (node.op is Op.MUL or other is a):
        return replace(other, expr=_on(node, args), weight=_weighted(node, number, other), scaled=True)
    power = Fraction(1 if node.op is Op.MUL else -1)
    left, right = a.free.measure or PLAIN, b.free.measure or PLAIN
    return _made(_on(node, args), _times(node, left, right, power), scaled=number.measure is None)


def _weighted(node: Apply, number: Quantity, other: Quantity) -> Fraction | None:
    """The weight of a product with a number, or of a quotient by one."""
    if other.weight in (None, 0):
        return other.weight
    value = number.constant
    if value is None or value == 0.0 or not math.isfinite(value):
        raise other.senseless
    # Decimal fractions are meant as such: 0.1*a + 0.9*b is a mean, though neither is exact in binary.
    factor = Fraction(value).limit_denominator(10**9) or Fraction(value)
    return other.weight * factor if node.op is Op.MUL else other.weight / factor


def _times(node: Apply, left: Measure, right: Measure, power: Fraction) -> Measure:
    try:
        return left.times(right, power)
    except MeasureError as error:
        raise Wrong(f"'{show(node)}': {error}") from None


def _power(node: Apply, args: Sequence[Quantity]) -> Quantity:
    base, exponent = args
    value = exponent.constant
    if base.measure is None or value is None:
        return _plain(node, args)
    if not math.isfinite(value) or abs(value) > 99:
        raise Wrong(f"in '{show(node)}' a quantity in {base.text} is raised to a power that no unit has")
    return _raised(node, args, Fraction(value).limit_denominator(1000))


def _root(node: Apply, args: Sequence[Quantity]) -> Quantity:
    return _raised(node, args, Fraction(1, 2))


def _raised(node: Apply, args: Sequence[Quantity], power: Fraction) -> Quantity:
    measure = args[0].free.measure
    if measure is None:
        return Quantity(node, _on(node, args))
    return _made(_on(node, args), _times(node, PLAIN, measure, power))


def _same(node: Apply, args: Sequence[Quantity]) -> Quantity:
    """In the unit of the only argument: floor, ceil, round."""
    return replace(args[0], expr=_on(node, args))


def _negative(node: Apply, args: Sequence[Quantity]) -> Quantity:
    weight = args[0].weight
    return replace(args[0], expr=_on(node, args), weight=None if weight is None else -weight)


def _plain(node: Apply, args: Sequence[Quantity]) -> Quantity:
    """A plain number from plain numbers: sin, exp, log."""
    found = []
    for arg in args:
        try:
            found.append(arg if arg.measure is None else replace(arg, expr=arg.free.moved(PLAIN, None)))
        except MeasureError:
            kinds = "angles and plain numbers" if node.op in _OF_ANGLES else "plain numbers"
            what = f"'{OPS[node.op].name}' takes {kinds}, but {arg}"
            raise Wrong(what, "Divide it by a quantity of the same kind.") from None
    numbers = all(arg.measure is None for arg in args)
    return Quantity(node, _on(node, found), None if numbers else PLAIN)


def _angle(node: Apply, args: Sequence[Quantity]) -> Quantity:
    found = _plain(node, args)
    return found if found.measure is None else replace(found, measure=_RADIAN)


_OF_ANGLES = (Op.SIN, Op.COS, Op.TAN)
_RULES: dict[Op, Rule] = {
    **dict.fromkeys((Op.ADD, Op.SUB), _sum),
    **dict.fromkeys((Op.MUL, Op.DIV), _product),
    **dict.fromkeys((Op.LT, Op.LE, Op.GT, Op.GE, Op.EQ, Op.NE), _comparison),
    **dict.fromkeys((Op.AND, Op.OR, Op.NOT), _logic),
    **dict.fromkeys((Op.MIN, Op.MAX, Op.CLIP), _alike),
    **dict.fromkeys((Op.FLOOR, Op.CEIL, Op.ROUND), _same),
    **dict.fromkeys((Op.ABS, Op.MOD, Op.HYPOT), _size),
    **dict.fromkeys((Op.ASIN, Op.ACOS, Op.ATAN), _angle),
    Op.WHERE: _choice,
    Op.NEG: _negative,
    Op.POW: _power,
    Op.SQRT: _root,
    Op.SIGN: _sign,
    Op.ATAN2: _angle_of,
}
"""How an operation deals with units; all others take and give plain numbers."""
