"""Units of measure: whether a text names one, and how to convert from one to another.

pint does the work, but it takes half a second to load, so it is imported only when two texts differ
or when a text is not a plain product of the usual SI symbols.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any

from upbeat.core.errors import InvalidInput

if TYPE_CHECKING:
    import pint

_SYMBOLS = (
    "1 m s kg A K mol cd rad deg Hz N Pa J W C V F S Wb T H Ohm ohm "
    "mm cm km g min h ms us kN kPa MPa bar kJ MJ kW MW mA kV L l degC rpm"
)
_SYMBOL = "(?:" + "|".join(sorted(_SYMBOLS.split(), key=len, reverse=True)) + ")"
_FACTOR = rf"{_SYMBOL}(?:(?:\^|\*\*)-?[1-9])?"
_PRODUCT = rf"{_FACTOR}(?:\s*[*/]\s*{_FACTOR})*"
_PLAIN = re.compile(rf"{_PRODUCT}(?:\s*/\s*\({_PRODUCT}\))?")
"""Texts that are certainly units: no need to load pint to believe them."""

_LONGEST = 100
_STRANGE = re.compile(r"[^\w\s*/^().%°·Ω-]|__")
_POWER = re.compile(
    r"(?:\*\*|\^)\s*(?:-?\d{1,2}(?:\.\d{1,2})?|\(\s*-?\d{1,2}(?:\s*[/.]\s*\d{1,2})?\s*\))(?![\d.])"
)
_LEFT = re.compile(r"\^|\*\*|(?<![\w.])(?!1(?![\w.]))\d|⟨⟩\s*⟨⟩")
"""What may not be left once the small powers are out: other powers, and numbers other than 1. No unit
needs them, and a tower of powers would keep pint busy for ever."""

_TURNS = {"radian", "degree", "turn", "grade", "revolutions_per_minute", "revolutions_per_second"}
_CYCLES = {"hertz", "count", "becquerel"}


class MeasureError(InvalidInput):
    """A text is not a unit of measure, or two units do not measure the same thing."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """``target = scale · source + offset``, each correctly rounded from its exact value."""

    scale: float = 1.0
    offset: float = 0.0

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return self.scale != 1.0 or self.offset != 0.0


def check(text: str) -> None:
    """Raise `MeasureError` unless `text` names a unit of measure."""
    if not _PLAIN.fullmatch(text):
        _unit(text)


def conversion(source: str | None, target: str | None) -> Conversion:
    """How to turn a value in `source` into one in `target`.

    None means "unspecified" and is never converted. Raises `MeasureError` when the dimensions differ.
    """
    if source is None or target is None or source == target:
        return Conversion()
    return _conversion(source, target)


@cache
def _conversion(source: str, target: str) -> Conversion:
    one, other = _unit(source), _unit(target)
    for a, b in ((one, other), (other, one)):
        if _CYCLES & set(a._units) and _TURNS & set(b._units):
            # Radians count as dimensionless, so 1 Hz would silently become 1 rad/s.
            raise MeasureError(
                f"'{source}' counts cycles and '{target}' measures an angle (or the reverse): "
                "write the factor yourself, for instance 2*pi*f"
            )
    try:
        zero, unity = (_registry().Quantity(Fraction(n), one).to(other).magnitude for n in (0, 1))
    except _pint_errors():
        raise MeasureError(f"'{source}' and '{target}' do not measure the same thing") from None
    return Conversion(float(unity - zero), float(zero))


@cache
def _registry() -> pint.UnitRegistry[Any]:
    import pint

    # Exact fractions: a factor is then rounded once, and 25 degC is 298.15 K to the last bit.
    return pint.UnitRegistry(non_int_type=Fraction)


def _pint_errors() -> tuple[type[Exception], ...]:
    import pint

    return (pint.PintError, ValueError, TypeError, ZeroDivisionError)


@cache
def _unit(text: str) -> Any:
    """The pint unit that `text` names."""
    if not text.strip():
        raise MeasureError('an empty text is not a unit of measure; write "1" for a dimensionless value')
    if len(text) > _LONGEST or _STRANGE.search(text) or _LEFT.search(_POWER.sub("⟨⟩", text)):
        raise MeasureError(f"'{text[:_LONGEST]}' is not a unit of measure; {_HINT}")
    try:
        return _registry().parse_units(text.strip())
    except Exception:  # noqa: BLE001 - pint fails in many ways (tokenize, assert, …), none worth telling apart
        raise MeasureError(f"'{text}' is not a unit of measure; {_HINT}") from None


_HINT = 'write for instance "m/s^2", "N*m", "degC" or "1"'
