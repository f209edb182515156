"""Interpolation tables over one and two variables, and their slopes.

Every variant (linear, hold, slope; either extrapolation) lowers to one form, so that the backends
have one simple thing to do. With ``term(c, d) = c == 0 ? 0.0 : c * d`` (so that 0 · inf is 0), and
``count(knots, u)`` the number of knots <= u (all of them if u is NaN):

    1-D   k = count(knots, u);  d = u - origin[k];  d is NaN ? d : base[k] + term(slope[k], d)

    2-D   k = count(x, u);  m = count(y, v);  dx = u - origin_x[k];  dy = v - origin_y[m]
          c0, cx, cy, cxy = the four coefficients of patch k·(len(y) + 1) + m
          dx is NaN ? dx : dy is NaN ? dy
             : ((c0 + term(cx, dx)) + term(cy, dy)) + term(cxy, dx * dy)

n knots make n + 1 segments: one before the first knot, one after the last.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from itertools import pairwise, product
from typing import Literal, NamedTuple

from upbeat.core.errors import ExpressionError
from upbeat.core.records import dataclass

Extrapolate = Literal["constant", "linear"]
Floats = tuple[float, ...]


class Segments(NamedTuple):
    """A `Table1` as the backends see it: n knots; n + 1 origins, bases and slopes."""

    knots: Floats
    origin: Floats
    base: Floats
    slope: Floats


class Patches(NamedTuple):
    """A `Table2` as the backends see it; `coefficients` has four per patch, patches row by row."""

    x: Floats
    y: Floats
    origin_x: Floats
    origin_y: Floats
    coefficients: Floats


def _term(c: float, d: float) -> float:
    return 0.0 if c == 0.0 else c * d


@dataclass(frozen=True)
class Table1:
    """y over x, `linear` between the points or `hold` (the value of the last point reached).

    Beyond the ends the value is `constant`, or goes on along the last line (`extrapolate="linear"`).
    `mode="slope"` is the derivative of the linear table; at a point it is that of the piece to the right.
    """

    x: Floats
    y: Floats
    mode: Literal["linear", "hold", "slope"] = "linear"
    extrapolate: Extrapolate = "constant"
    name: str = field(default="table", compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "x", _axis(self.x, self.name, "x"))
        object.__setattr__(self, "y", _numbers(self.y, self.name, "y"))
        if len(self.x) != len(self.y):
            raise ExpressionError(f"table '{self.name}': x has {len(self.x)} values, but y has {len(self.y)}")
        _choice(self.mode, ("linear", "hold", "slope"), self.name, "mode")
        _choice(self.extrapolate, ("constant", "linear"), self.name, "extrapolate")

    @property
    def arity(self) -> int:
        return 1

    def slope(self, axis: int = 0) -> Table1 | None:
        """The table of the derivative; None where that is zero everywhere."""
        return replace(self, mode="slope") if self.mode == "linear" else None

    @property
    def text(self) -> str:
        """How an expression calls this table."""
        return f"{self.name}.slope" if self.mode == "slope" else self.name

    @cached_property
    def lowered(self) -> Segments:
        points = pairwise(zip(self.x, self.y, strict=True))
        inner = [(y1 - y0) / (x1 - x0) for (x0, y0), (x1, y1) in points]
        ends = (inner[0], inner[-1]) if self.extrapolate == "linear" else (0.0, 0.0)
        slope = (ends[0], *inner, ends[1])
        flat = (0.0,) * len(slope)
        origin = (self.x[0], *self.x)
        match self.mode:
            case "linear":
                return Segments(self.x, origin, (self.y[0], *self.y), slope)
            case "hold":
                return Segments(self.x, origin, (self.y[0], *self.y), flat)
            case "slope":
                return Segments(self.x, origin, slope, flat)

    def __call__(self, u: float) -> float:
        knots, origin, base, slope = self.lowered
        k = bisect_right(knots, u)
        d = u - origin[k]
        return d if d != d else base[k] + _term(slope[k], d)


@dataclass(frozen=True)
class Table2:
    """z over x and y, bilinear: z[i][j] belongs to x[i] and y[j].

    The `slope_…` modes are the derivatives by x, by y, and by both.
    """

    x: Floats
    y: Floats
    z: tuple[Floats, ...]
    mode: Literal["linear", "slope_x", "slope_y", "slope_xy"] = "linear"
    extrapolate: Extrapolate = "constant"
    name: str = field(default="table", compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "x", _axis(self.x, self.name, "x"))
        object.__setattr__(self, "y", _axis(self.y, self.name, "y"))
        object.__setattr__(self, "z", _rows(self.z, self.name))
        if len(self.z) != len(self.x) or any(len(row) != len(self.y) for row in self.z):
            raise ExpressionError(
                f"table '{self.name}': z needs {len(self.x)} rows (one per x) "
                f"of {len(self.y)} values (one per y)"
            )
        _choice(self.mode, ("linear", "slope_x", "slope_y", "slope_xy"), self.name, "mode")
        _choice(self.extrapolate, ("constant", "linear"), self.name, "extrapolate")

    @property
    def arity(self) -> int:
        return 2

    def slope(self, axis: int = 0) -> Table2 | None:
        """The table of the derivative by x (axis 0) or y (axis 1); None where that is zero everywhere."""
        if self.mode == "linear":
            return replace(self, mode="slope_y" if axis else "slope_x")
        if (self.mode, axis) in (("slope_x", 1), ("slope_y", 0)):
            return replace(self, mode="slope_xy")
        return None

    @property
    def text(self) -> str:
        """How an expression calls this table."""
        return self.name if self.mode == "linear" else f"{self.name}.{self.mode}"

    @cached_property
    def lowered(self) -> Patches:
        patches = product(range(len(self.x) + 1), range(len(self.y) + 1))
        coefficients = tuple(c for k, m in patches for c in self._patch(k, m))
        return Patches(self.x, self.y, (self.x[0], *self.x), (self.y[0], *self.y), coefficients)

    def _patch(self, k: int, m: int) -> tuple[float, float, float, float]:
        """The coefficients of 1, dx, dy and dx·dy, seen from the patch's origin."""
        i, i0, wide = _neighbours(k, len(self.x), self.extrapolate)
        j, j0, high = _neighbours(m, len(self.y), self.extrapolate)
        hx, hy = self.x[i0 + 1] - self.x[i0], self.y[j0 + 1] - self.y[j0]
        z = self.z
        c0 = z[i][j]
        cx = (z[i0 + 1][j] - z[i0][j]) / hx if wide else 0.0
        cy = (z[i][j0 + 1] - z[i][j0]) / hy if high else 0.0
        twist = (z[i0 + 1][j0 + 1] - z[i0 + 1][j0]) - (z[i0][j0 + 1] - z[i0][j0])
        cxy = twist / hx / hy if wide and high else 0.0
        match self.mode:
            case "linear":
                return c0, cx, cy, cxy
            case "slope_x":
                return cx, 0.0, cxy, 0.0
            case "slope_y":
                return cy, cxy, 0.0, 0.0
            case "slope_xy":
                return cxy, 0.0, 0.0, 0.0

    def __call__(self, u: float, v: float) -> float:
        x, y, origin_x, origin_y, coefficients = self.lowered
        k, m = bisect_right(x, u), bisect_right(y, v)
        dx, dy = u - origin_x[k], v - origin_y[m]
        if dx != dx:
            return dx
        if dy != dy:
            return dy
        first = 4 * (k * (len(y) + 1) + m)
        c0, cx, cy, cxy = coefficients[first : first + 4]
        return ((c0 + _term(cx, dx)) + _term(cy, dy)) + _term(cxy, dx * dy)


Table = Table1 | Table2


def named(tables: Mapping[str, Table], text: str) -> Table | None:
    """The table that an expression calls `text`: one of `tables`, or a derivative such as ``drag.slope``."""
    name, _, mode = text.partition(".")
    table = tables.get(text) or tables.get(name)
    if table is None:
        return None
    table = replace(table, name=text if text in tables else name)
    if text in tables:
        return table
    if isinstance(table, Table1):
        return table.slope() if mode == "slope" else None
    return replace(table, mode=mode) if mode in ("slope_x", "slope_y", "slope_xy") else None  # type: ignore[arg-type]


def _neighbours(k: int, n: int, extrapolate: Extrapolate) -> tuple[int, int, bool]:
    """Of segment `k`: the knot it starts from, the knot pair that gives its slope, and whether it has one."""
    outside = k in (0, n)
    return max(k - 1, 0), min(max(k - 1, 0), n - 2), not outside or extrapolate == "linear"


def _numbers(values: Sequence[float], table: str, what: str) -> Floats:
    try:
        numbers = tuple(float(value) for value in values)
    except (TypeError, ValueError, OverflowError):
        raise ExpressionError(f"table '{table}': {what} must be a list of numbers") from None
    if not all(map(math.isfinite, numbers)):
        raise ExpressionError(f"table '{table}': {what} must be finite numbers")
    return numbers


def _rows(values: Sequence[Sequence[float]], table: str) -> tuple[Floats, ...]:
    try:
        rows = tuple(values)
    except TypeError:
        raise ExpressionError(f"table '{table}': z must be a list of rows") from None
    return tuple(_numbers(row, table, "each row of z") for row in rows)


def _axis(values: Sequence[float], table: str, what: str) -> Floats:
    numbers = _numbers(values, table, what)
    if len(numbers) < 2:
        raise ExpressionError(f"table '{table}': {what} needs at least two values")
    for i, (before, after) in enumerate(pairwise(numbers)):
        if after <= before:
            raise ExpressionError(
                f"table '{table}': {what} must increase strictly, but value {i + 2} ({after:g}) "
                f"does not lie above value {i + 1} ({before:g}); sort the points"
            )
    return numbers


def _choice(given: str, known: tuple[str, ...], table: str, what: str) -> None:
    if given not in known:
        raise ExpressionError(f"table '{table}': {what} must be one of {', '.join(known)}, not {given!r}")
