"""IEEE arithmetic in Python: where Python raises, these return the inf or NaN that C would.

`math` calls the C library, so apart from the exceptions the bits are those of C.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final


def divide(a: float, b: float) -> float:
    """C division."""
    try:
        return a / b
    except ZeroDivisionError:
        if a != a:
            return a
        if a == 0.0:
            return math.inf - math.inf  # the sign of what the machine calls no number, as 0/0 has it in C
        return math.copysign(math.inf, a) * math.copysign(1.0, b)


def power(a: float, b: float) -> float:
    """C pow, except that squares and cubes are products."""
    if b == 2.0:
        return a * a
    if b == 3.0:
        return (a * a) * a
    try:
        return math.pow(a, b)
    except OverflowError:
        return math.copysign(math.inf, a) if _odd(b) else math.inf
    except ValueError:
        if a != 0.0:
            return math.nan  # a negative number to a broken power
        return math.copysign(math.inf, a) if _odd(b) else math.inf


def _odd(b: float) -> bool:
    return math.fmod(b, 2.0) in (1.0, -1.0)


def hypotenuse(a: float, b: float) -> float:
    """C hypot. `math.hypot` has an algorithm of its own with other last bits; complex abs calls C's.

    Only with finite parts: for others CPython's complex abs looks at an `errno` it has not cleared, and
    reports an overflow that some earlier C function left behind.
    """
    if not (math.isfinite(a) and math.isfinite(b)):
        return math.inf if math.isinf(a) or math.isinf(b) else math.nan
    try:
        return abs(complex(a, b))
    except OverflowError:
        return math.inf


def sinh(a: float) -> float:
    """C sinh."""
    try:
        return math.sinh(a)
    except OverflowError:
        return math.copysign(math.inf, a)


def _whole(function: Callable[[float], int]) -> Callable[[float], float]:
    def total(a: float) -> float:
        # copysign keeps the sign of zero, which a Python int does not have
        return math.copysign(function(a), a) if math.isfinite(a) else a

    return total


def _total(function: Callable[[float], float], at_zero: float = math.nan) -> Callable[[float], float]:
    """`function` with NaN outside its domain (but `at_zero` at zero) and inf where it overflows."""

    def total(a: float) -> float:
        try:
            return function(a)
        except ValueError:
            return at_zero if a == 0.0 else math.nan
        except OverflowError:
            return math.inf

    return total


HELPERS: Final[dict[str, object]] = {
    "divide": divide,
    "power": power,
    "floor": _whole(math.floor),
    "ceil": _whole(math.ceil),
    "nearest": _whole(round),
    "sqrt": _total(math.sqrt),
    "exp": _total(math.exp),
    "log": _total(math.log, at_zero=-math.inf),
    "log10": _total(math.log10, at_zero=-math.inf),
    "sin": _total(math.sin),
    "cos": _total(math.cos),
    "tan": _total(math.tan),
    "asin": _total(math.asin),
    "acos": _total(math.acos),
    "atan": math.atan,
    "atan2": math.atan2,
    "sinh": sinh,
    "cosh": _total(math.cosh),
    "tanh": math.tanh,
    "hypot": hypotenuse,
    "inf": math.inf,
    "nan": math.nan,
}
"""What the Python text of an operation may name."""
