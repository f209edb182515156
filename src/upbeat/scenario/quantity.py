"""Quantities: parts of an expression, each with what it is measured in, and their conversion.

A value in an offset unit such as degC contains the zero of its scale once: its `weight` is 1. Weights add
up and are multiplied by numbers, so ``0.5*(a.T + b.T)`` is a temperature (1) and ``a.T - b.T`` a difference
(0), which may be multiplied. Anything else would depend on where the scale has its zero, and is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from upbeat.core.expr import Expr, Number, evaluate, names, show
from upbeat.core.measure import Measure, MeasureError, conversion, offset_unit
from upbeat.scenario.directory import Wrong

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
        return Wrong(f"'{show(self.written)}' is in {self.offset}, whose zero is not nothing", _ABSOLUTE)

    @property
    def unclear(self) -> Wrong:
        scale = self.offset
        return Wrong(
            f"in '{show(self.written)}' it is not clear whether the number is a temperature or a difference",
            f"Make it a scenario input in {scale} or delta_{scale}: "
            f'[inputs] with a line such as limit = {{ start = 1.0, unit = "{scale}" }}.',
        )
