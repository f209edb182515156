"""Unit definitions and display units."""

from __future__ import annotations

from upbeat.units.fmi.description.attributes import Attributes
from upbeat.units.fmi.description.findings import Findings, shown
from upbeat.units.fmi.description.model import BaseUnit, DisplayUnit, UnitDefinition
from upbeat.units.fmi.xml import Element

BASE = ("kg", "m", "s", "A", "K", "mol", "cd", "rad")
_EXPONENT = (-99, 99)


def read_units(root: Element, findings: Findings) -> tuple[UnitDefinition, ...]:
    """All unit definitions, in order; of two with one name the first counts."""
    found: dict[str, UnitDefinition] = {}
    for group in root.all("UnitDefinitions"):
        for element in group.all("Unit"):
            at = Attributes(element, findings, "UnitDefinitions")
            name = at.required("name")
            at.where = f"unit '{shown(name)}'"
            if name in found:
                at.warning("it is defined twice; the first definition counts")
                continue
            display = tuple(_display(child, at, findings) for child in element.all("DisplayUnit"))
            base = element.first("BaseUnit")
            found[name] = UnitDefinition(
                name, None if base is None else base_unit(base, at, findings), display
            )
    return tuple(found.values())


def base_unit(element: Element, unit: Attributes, findings: Findings) -> BaseUnit:
    """What a unit is in SI; SSP says it the same way."""
    at = Attributes(element, findings, unit.where)
    exponents = ((name, at.whole(name, _EXPONENT)) for name in BASE)
    return BaseUnit(
        tuple((name, power) for name, power in exponents if power),
        _factor(at),
        at.real("offset") or 0.0,
    )


def _display(element: Element, unit: Attributes, findings: Findings) -> DisplayUnit:
    at = Attributes(element, findings, unit.where)
    return DisplayUnit(at.required("name"), _factor(at), at.real("offset") or 0.0, at.flag("inverse"))


def _factor(at: Attributes) -> float:
    factor = at.real("factor")
    if factor == 0:
        at.error("a factor of 0 converts nothing")
    return 1.0 if factor is None else factor
