"""Units of FMUs as texts that `upbeat.core.measure` understands.

Names in FMUs are free texts: most are SI, many are written as in Modelica (``N.m``, ``m/s2``), some
mean nothing. The base unit, where there is one, says what is meant, so a name is believed only if it agrees
with it; without such a name, the unit is written as what it is: ``[7.0*m]``.
"""

from __future__ import annotations

import math
import re

from upbeat.core import measure
from upbeat.units.fmi.description.model import BaseUnit, UnitDefinition

_POWER = re.compile(r"(?<=[A-Za-z)])(-?\d+)")
_DOT = re.compile(r"(?<=[A-Za-z0-9)])\.(?=[A-Za-z(])")
_DIMENSIONLESS = ("", "-", "1", "none")
_USUAL = {frozenset({("K", 1)}): ("degC", "degF"), frozenset({("s", -1), ("rad", 1)}): ("rpm",)}
"""Good names, by the exponents, for units that FMUs call all sorts of things: C, rev/min."""


def measure_of(unit: UnitDefinition, *, relative: bool = False) -> str | None:
    """The text for a port's unit; None where nothing says what the FMU means.

    A `relative` quantity is a difference, so that the zero of its scale does not matter.
    """
    text = _text(unit)
    return text if text is None or not relative else measure.of_difference(text)


def _text(unit: UnitDefinition) -> str | None:
    names = _modern(unit.name), unit.name
    if unit.base is None:
        known = next((text for text in names if _understood(text)), None)
        return "1" if known is None and unit.name.strip() in _DIMENSIONLESS else known
    base = _base_text(unit.base)
    for text in (*names, *_USUAL.get(frozenset(unit.base.exponents), ())):
        if _understood(text) and _agrees(text, unit.base, base):
            return text
    text = measure.defined(base, unit.base.factor, unit.base.offset)
    return text if _understood(text) else None


def _modern(name: str) -> str:
    """Modelica's spelling in ours: ``kg.m2`` is ``kg*m^2``."""
    return _POWER.sub(r"^\1", _DOT.sub("*", name))


def _base_text(base: BaseUnit) -> str:
    above = [_factor(name, power) for name, power in base.exponents if power > 0]
    below = [_factor(name, -power) for name, power in base.exponents if power < 0]
    bottom = below[0] if len(below) == 1 else f"({'*'.join(below)})"
    return ("*".join(above) or "1") + (f"/{bottom}" if below else "")


def _factor(name: str, power: int) -> str:
    return name if power == 1 else f"{name}^{power}"


def _understood(text: str) -> bool:
    try:
        measure.check(text)
    except measure.MeasureError:
        return False
    return True


def _agrees(text: str, base: BaseUnit, base_text: str) -> bool:
    if text == base_text:
        return base.factor == 1 and base.offset == 0
    try:
        found = measure.conversion(text, base_text)
    except measure.MeasureError:
        return False
    close = math.isclose(found.scale, base.factor, rel_tol=1e-6)
    return close and math.isclose(found.offset, base.offset, rel_tol=1e-6, abs_tol=1e-9)
