"""Units of measure: whether a text names one, how to convert from one to another, and their products.

pint does the work, but it takes half a second to load, so it is imported only when two units differ
or when a text is not a plain product of the usual SI symbols.

A unit that has no name is defined in brackets: a value x in ``[0.3048*m]`` is 0.3048·x m, and in
``[0.5*K + 250]`` it is (0.5·x + 250) K. Such a definition stands wherever a name can: ``[0.3048*m]^2/s``.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, Any

from upbeat.core.errors import InvalidInput
from upbeat.core.records import dataclass

if TYPE_CHECKING:
    import pint

_SYMBOLS = (
    "1 m s kg A K mol cd rad deg Hz N Pa J W C V F S Wb T H Ohm ohm "
    "mm cm km g min h ms us kN kPa MPa bar kJ MJ kW MW mA kV L l degC rpm"
)
_SYMBOL = "(?:" + "|".join(sorted(_SYMBOLS.split(), key=len, reverse=True)) + ")"
_FACTOR = rf"{_SYMBOL}(?:(?:\^|\*\*)-?[1-9])?"
_PRODUCT = rf"{_FACTOR}(?:\s*[*/]\s*{_FACTOR})*"
# Patterns are texts here: Python compiles them when a scenario first has units, and keeps them.
_PLAIN = rf"({_PRODUCT})(?:\s*/\s*\(({_PRODUCT})\))?"
"""Texts that are certainly units: no need to load pint to believe them."""
_STEP = rf"([*/]?)\s*({_SYMBOL})(?:(?:\^|\*\*)(-?[1-9]))?\s*"

_LONGEST = 100
_STRANGE = r"[^\w\s*/^().%°·Ω-]|__"
_POWER = r"(?:\*\*|\^)\s*(?:-?\d{1,2}(?:\.\d{1,2})?|\(\s*-?\d{1,2}(?:\s*[/.]\s*\d{1,2})?\s*\))(?![\d.])"
_LEFT = r"\^|\*\*|(?<![\w.])(?!1(?![\w.]))\d|⟨⟩\s*⟨⟩"
"""What may not be left once the small powers are out: other powers, and numbers other than 1. No unit
needs them, and a tower of powers would keep pint busy for ever."""

_NUMBER = r"-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?"
_DEFINED = (
    rf"\[\s*(?:(?P<factor>{_NUMBER})\s*\*\s*)?(?P<base>[^][+]+?)\s*(?:\+\s*(?P<offset>{_NUMBER})\s*)?\]"
)
_OWN, _OWN_ANGLE = "upbeat_unit_", "upbeat_angle_"
"""How the names begin that pint has for such units; of angles separately: they are no plain numbers."""
_numbers = count()

_ONE = Fraction(1)
_HIGHEST = 99

_TURNS = {"radian", "degree", "turn", "grade", "revolutions_per_minute", "revolutions_per_second"}
_CYCLES = {"hertz", "count", "becquerel"}


_DELTA = "delta_"
"""What pint calls the difference of two values in an offset unit: delta_degC."""


class MeasureError(InvalidInput):
    """A text is not a unit of measure, or two units do not measure the same thing."""


class UnknownMeasure(MeasureError):
    """A text is not a unit of measure."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """``target = scale · source + offset``, each correctly rounded from its exact value."""

    scale: float = 1.0
    offset: float = 0.0

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return self.scale != 1.0 or self.offset != 0.0


@dataclass(frozen=True, slots=True)
class Measure:
    """A product of powers of units, such as N·m/s; without any, a dimensionless number.

    An offset unit has no products: in here it stands for a difference (``W/degC`` is per degree).
    """

    powers: frozenset[tuple[str, Fraction]] = frozenset()

    @classmethod
    def of(cls, text: str) -> Measure:
        """What `text` names. It is split into its factors where that takes no pint."""
        plain = re.fullmatch(_PLAIN, text.strip())
        if plain is None:
            _unit(text)
            return cls(frozenset({(_difference(text), Fraction(1))}))
        found: dict[str, Fraction] = {}
        for part, sign in ((plain[1], 1), (plain[2] or "", -1)):
            for slash, symbol, power in re.findall(_STEP, part):
                exponent = sign * (-1 if slash == "/" else 1) * int(power or 1)
                found[_difference(symbol)] = found.get(_difference(symbol), Fraction(0)) + exponent
        found.pop("1", None)
        return cls(frozenset((name, power) for name, power in found.items() if power))

    def times(self, other: Measure, power: Fraction = _ONE) -> Measure:
        """The product with a power of `other`."""
        found = dict(self.powers)
        for name, exponent in other.powers:
            found[name] = found.get(name, Fraction(0)) + power * exponent
        if any(abs(exponent) > _HIGHEST for exponent in found.values()):
            raise MeasureError(f"no unit of measure needs a power beyond {_HIGHEST}")
        return Measure(frozenset((name, exponent) for name, exponent in found.items() if exponent))

    def __str__(self) -> str:
        above = [_power_text(name, power) for name, power in sorted(self.powers) if power > 0]
        below = [_power_text(name, -power) for name, power in sorted(self.powers) if power < 0]
        bottom = below[0] if len(below) == 1 else f"({'*'.join(below)})"
        return ("*".join(above) or "1") + (f"/{bottom}" if below else "")


def _power_text(name: str, power: Fraction) -> str:
    base = name if name.isidentifier() or power == 1 else f"({name})"
    if power == 1:
        return base
    return f"{base}^{power}" if power.denominator == 1 else f"{base}^({power})"


def _difference(text: str) -> str:
    return f"{_DELTA}{text.strip()}" if has_offset(text) else text.strip()


def has_offset(text: str) -> bool:
    """Whether zero in this unit is not nothing, as in degC."""
    if re.fullmatch(_PLAIN, text):
        return text == "degC"
    unit = _unit(text)
    try:
        return bool(_registry().Quantity(Fraction(0), unit).to_base_units().magnitude != 0)
    except _pint_errors():
        return False  # a logarithmic unit, which converts to nothing but itself


def is_ratio(text: str) -> bool:
    """Whether this is a fraction of one in disguise, such as %; an angle is not."""
    if re.fullmatch(_PLAIN, text):
        return False
    unit = _unit(text)
    return bool(unit.dimensionless) and not _angles(unit)


def offset_unit(text: str) -> tuple[str, bool] | None:
    """For ``degC`` that and False, for ``delta_degC``, a difference in it, that and True; otherwise None."""
    bare = text.strip()
    base = bare.removeprefix(_DELTA)
    return (base, base != bare) if has_offset(base) else None


def defined(base: str, factor: float = 1.0, offset: float = 0.0) -> str:
    """The text for a unit in which a value x is ``factor·x + offset`` in the unit `base`."""
    scaled = base if factor == 1 else f"{factor!r}*{base}"
    if offset:
        scaled = f"{scaled} + {offset!r}"
    return base if scaled == base else f"[{scaled}]"


def of_difference(text: str) -> str:
    """What a difference of two values in this unit is in: for ``degC`` that is ``delta_degC``."""
    return _difference(text)


def check(text: str) -> None:
    """Raise `MeasureError` unless `text` names a unit of measure."""
    if not re.fullmatch(_PLAIN, text):
        _unit(text)


_SI = {
    "meter": "m", "kilogram": "kg", "second": "s", "ampere": "A", "kelvin": "K", "mole": "mol",
    "candela": "cd", "radian": "rad",
}  # fmt: skip


def in_si(text: str) -> tuple[dict[str, int], Conversion] | None:
    """The powers of the SI base units (and of rad) behind a unit, and how to convert to these; None if it is
    something else, such as a logarithm, or bits."""
    unit = _unit(text)
    try:
        base: Any = _registry().Quantity(Fraction(1), unit).to_base_units().units
    except _pint_errors():
        return None
    if any(name not in _SI or power != int(power) for name, power in base._units.items()):
        return None
    powers = {_SI[name]: int(power) for name, power in base._units.items()}
    zero, unity = (_registry().Quantity(Fraction(n), unit).to(base).magnitude for n in (0, 1))
    return powers, Conversion(float(unity - zero), float(zero))


Unit = str | Measure


def conversion(source: Unit | None, target: Unit | None, *, counted: bool = True) -> Conversion:
    """How to turn a value in `source` into one in `target`.

    None means "unspecified" and is never converted. Raises `MeasureError` when the dimensions differ.
    Cycles (Hz) are converted to angles (rad/s) only if not `counted`: where a factor has been written.
    """
    if source is None or target is None or source == target:
        return Conversion()
    return _conversion(source, target, counted)


@cache
def _conversion(source: Unit, target: Unit, counted: bool) -> Conversion:
    one, other = _pint(source), _pint(target)
    for a, b in ((one, other), (other, one)):
        angles = _angles(b)
        if _CYCLES & set(a._units) and (angles if counted else angles - {"radian"}):
            # Radians count as dimensionless, so 1 Hz would silently become 1 rad/s.
            raise MeasureError(
                f"'{source}' counts cycles and '{target}' measures an angle (or the reverse): "
                "use Hz and rad/s, and write the factor yourself, for instance 2*pi*f"
            )
    try:
        zero, unity = (_registry().Quantity(Fraction(n), one).to(other).magnitude for n in (0, 1))
    except _pint_errors():
        raise MeasureError(f"'{source}' and '{target}' do not measure the same thing") from None
    return Conversion(float(unity - zero), float(zero))


def _angles(unit: Any) -> set[str]:
    return {name for name in unit._units if name in _TURNS or name.startswith(_OWN_ANGLE)}


def _pint(unit: Unit) -> Any:
    if isinstance(unit, str):
        return _unit(unit)
    product = _registry().Unit("dimensionless")
    for name, power in unit.powers:
        product = product * _unit(name) ** power
    return product


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
        raise UnknownMeasure('an empty text is not a unit of measure; write "1" for a dimensionless value')
    whole = text
    if "[" in text:
        text = re.sub(_DEFINED, _name_of, text)
    if len(text) > _LONGEST or re.search(_STRANGE, text) or re.search(_LEFT, re.sub(_POWER, "⟨⟩", text)):
        raise UnknownMeasure(f"'{whole[:_LONGEST]}' is not a unit of measure; {_HINT}")
    try:
        return _registry().parse_units(text.strip())
    except Exception:  # noqa: BLE001 - pint fails in many ways (tokenize, assert, …), none worth telling apart
        raise UnknownMeasure(f"'{whole}' is not a unit of measure; {_HINT}") from None


def _name_of(written: re.Match[str]) -> str:
    """The name that pint has for a definition in brackets."""
    base, factor, offset = written["base"], Fraction(written["factor"] or 1), Fraction(written["offset"] or 0)
    if not factor:
        raise UnknownMeasure(f"'{written[0]}' is not a unit of measure; a factor of 0 converts nothing")
    return _define(base, factor, offset)


@cache
def _define(base: str, factor: Fraction, offset: Fraction) -> str:
    unit, registry = _unit(base), _registry()
    # The name ends in no digit, so that what stands behind the brackets cannot make another of it.
    name = f"{_OWN_ANGLE if _angles(unit) else _OWN}{next(_numbers)}_"
    # Powers of pint's units are fractions, which it cannot read back.
    product = "*".join(f"{one} ** ({power})" for one, power in unit._units.items()) or "1"
    shift = f"; offset: {offset}" if offset else ""
    registry.define(f"{name} = {factor} * {product}{shift}")
    return name


_HINT = 'write for instance "m/s^2", "N*m", "degC" or "1"'
