"""Values on their way: conversion of units, and the transformations of connections and mappings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from upbeat.core import measure
from upbeat.core.expr import Apply, Expr, Number, Op
from upbeat.scenario.ssp.model import Items, Linear, Table, Transformation, Value
from upbeat.units.fmi.description import UnitDefinition, measure_of

_ONE, _ZERO = Fraction(1), Fraction(0)


class Unfit(Exception):
    """Two units, or a value and a transformation, do not go together; the text says why."""


@dataclass(frozen=True, slots=True)
class Affine:
    """``scale · value + offset``, exactly. Raises `Unfit` where a real number cannot hold one of the two."""

    scale: Fraction = _ONE
    offset: Fraction = _ZERO

    def __post_init__(self) -> None:
        try:
            float(self.scale), float(self.offset)
        except OverflowError:
            raise Unfit("a factor or an offset is too large for a real number") from None

    def then(self, other: Affine) -> Affine:
        return Affine(other.scale * self.scale, other.scale * self.offset + other.offset)

    def __bool__(self) -> bool:
        return self.scale != 1 or self.offset != 0

    def of(self, value: float) -> float:
        """The value of one number, rounded once. Raises `Unfit` where there is none."""
        try:
            return float(self.scale * Fraction(value) + self.offset) if self else float(value)
        except (OverflowError, ValueError):
            raise Unfit(f"{value} cannot be converted to a real number") from None

    def expr(self, inner: Expr) -> Expr:
        if self.scale != 1:
            inner = Number(float(self.scale)) * inner
        return inner + Number(float(self.offset)) if self.offset else inner


Tell = Callable[[str], None]
"""Takes a warning."""


def converted(
    source: UnitDefinition | None,
    target: UnitDefinition | None,
    *,
    relative: bool = False,
    tell: Tell = lambda _: None,
) -> Affine:
    """From one unit to another; nothing to do where one of them is unknown. Raises `Unfit`.

    For a `relative` quantity, which is a difference, the zeros of the scales do not matter. Units that are
    used but not defined are converted by their names if these are known, which is worth a warning.
    """
    if source is None or target is None or source.base is None or target.base is None:
        if source is None or target is None or source.name == target.name:
            return Affine()
        return _by_name(source, target, relative, tell)
    one, other = source.base, target.base
    if dict(one.exponents) != dict(other.exponents):
        raise _unlike(source, target)
    if one == other:
        return Affine()
    if not other.factor or not one.factor:
        raise Unfit("a unit with the factor 0 converts nothing")
    to_si = Affine(_decimal(one.factor), _decimal(one.offset))
    factor = _decimal(other.factor)
    change = to_si.then(Affine(1 / factor, -_decimal(other.offset) / factor))
    return Affine(change.scale) if relative else change


def _unlike(source: UnitDefinition, target: UnitDefinition) -> Unfit:
    return Unfit(f"'{source.name}' and '{target.name}' do not measure the same thing")


def _by_name(source: UnitDefinition, target: UnitDefinition, relative: bool, tell: Tell) -> Affine:
    """What the names of units say that nobody defines."""
    one, other = measure_of(source, relative=relative), measure_of(target, relative=relative)
    try:
        found = measure.conversion(one, other)
    except measure.MeasureError:
        raise _unlike(source, target) from None
    undefined = " and ".join(f"'{unit.name}'" for unit in (source, target) if unit.base is None)
    which = f"{undefined} {'are' if ' and ' in undefined else 'is'} not defined under Units"
    if one is None or other is None:
        tell(f"{which}: values are passed from '{source.name}' to '{target.name}' as they are")
    else:
        tell(f"{which}: '{source.name}' is converted to '{target.name}' as these names usually mean")
    return Affine(_decimal(found.scale), _decimal(found.offset))


def _decimal(number: float) -> Fraction:
    """What was written: 0.001 and not the nearest number of 53 bits. So 5 mm are 0.005 m to the last bit."""
    return Fraction(repr(number))


def linear(transformation: Linear) -> Affine:
    """A linear transformation as it is."""
    return Affine(Fraction(transformation.factor), Fraction(transformation.offset))


def table_expr(table: Table, inner: Expr, source: Items, target: Items) -> Expr:
    """A choice that exchanges values; `source` and `target` are the enumerations on both sides, if any."""
    entries = dict(table.entries)
    if not table.enumeration:
        unmapped: Expr = inner
        pairs = [(_number(a), _number(b)) for a, b in entries.items()]
        if source and {value for _, value in source} <= {a for a, _ in pairs}:
            pairs = [(a, b) for a, b in pairs if a in {value for _, value in source}]
            unmapped = Number(pairs.pop()[1])
        elif all(isinstance(a, bool) for a in entries) and len(pairs) == 2:
            unmapped = Number(pairs.pop()[1])
    else:
        codes, labels = dict(target), dict(source)
        if not codes or not labels:
            raise Unfit("a mapping of labels is for enumerations on both sides")
        pairs = []
        for label, code in labels.items():
            to = str(entries.get(label, label))
            if to not in codes:
                raise Unfit(f"the label '{label}' becomes '{to}', which the target does not have")
            pairs.append((code, codes[to]))
        unmapped = Number(pairs.pop()[1])
    for a, b in reversed(pairs):
        unmapped = Apply(Op.WHERE, (Apply(Op.EQ, (inner, Number(a))), Number(b), unmapped))
    return unmapped


def _number(value: Value) -> float:
    return float(value)


def apply_to_value(
    values: tuple[Value, ...],
    source: UnitDefinition | None,
    target: UnitDefinition | None,
    transformation: Transformation,
    convert: bool,
    *,
    relative: bool = False,
    tell: Tell = lambda _: None,
) -> tuple[Value, ...]:
    """Values that are fixed before the run, converted and transformed. Raises `Unfit`."""
    change = converted(source, target, relative=relative, tell=tell) if convert else Affine()
    if isinstance(transformation, Linear):
        change = change.then(linear(transformation))
    if isinstance(transformation, Table):
        entries = {_key(a): b for a, b in transformation.entries}
        return tuple(entries.get(_key(value), value) for value in values)
    if not change:
        return values
    if any(isinstance(value, (bool, str)) for value in values):
        raise Unfit("only numbers can be converted or transformed linearly")
    return tuple(change.of(float(value)) for value in values)


def _key(value: Value) -> tuple[bool, Value]:
    """True is not 1 here."""
    return isinstance(value, bool), value
