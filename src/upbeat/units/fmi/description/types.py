"""Type definitions, and the properties that types and variables share."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from upbeat.units.fmi.description.attributes import UINT64, Attributes
from upbeat.units.fmi.description.findings import Findings, shown
from upbeat.units.fmi.description.model import ClockInterval, Item, Properties, TypeDefinition
from upbeat.units.fmi.description.words import FMI2_TYPES, IntervalVariability, Type
from upbeat.units.fmi.xml import Element

_FMI3_TYPES = {f"{kind.value}Type": kind for kind in Type}
_INT64 = (-(2**63), 2**63 - 1)


def read_types(root: Element, version: int, findings: Findings) -> dict[str, TypeDefinition]:
    """All type definitions by name; of two with one name the first counts."""
    found: dict[str, TypeDefinition] = {}
    for group in root.all("TypeDefinitions"):
        for element in group.children:
            definition = _read_type(element, version, findings)
            if definition is None:
                continue
            if definition.name in found:
                where = f"type '{shown(definition.name)}'"
                findings.warning(element.line, where, "it is defined twice; the first definition counts")
            found.setdefault(definition.name, definition)
    return found


def _read_type(element: Element, version: int, findings: Findings) -> TypeDefinition | None:
    if version == 2:
        if element.tag != "SimpleType":
            return None
        inner = next(element.all(*FMI2_TYPES), None)
        kind = FMI2_TYPES[inner.tag] if inner is not None else None
    else:
        inner, kind = element, _FMI3_TYPES.get(element.tag)
    name = element.attributes.get("name", "")
    where = f"type '{shown(name)}'" if name else "TypeDefinitions"
    if inner is None or kind is None:
        if version == 2:
            findings.error(element.line, where, "it does not say of what kind it is (Real, Integer, …)")
        return None  # in FMI 3 a type of a later version, which no variable we know can have
    if not name:
        findings.error(element.line, where, "the attribute 'name' is missing")
        return None
    at = Attributes(inner, findings, where)
    items = _items(inner, at, findings) if kind is Type.ENUMERATION else ()
    description = element.attributes.get("description", "")
    return TypeDefinition(name, kind, description, read_properties(at, kind), items)


def _items(element: Element, type_: Attributes, findings: Findings) -> tuple[Item, ...]:
    items = []
    for child in element.all("Item"):
        at = Attributes(child, findings, type_.where)
        value = at.whole("value", _INT64)
        if value is None and not at.has("value"):
            at.error("an item has no value")
        items.append(Item(at.required("name"), value or 0, at.text("description") or ""))
    if not items:
        type_.error("an enumeration has at least one item")
    if len({item.value for item in items}) < len(items):
        type_.warning("several items have the same value")
    if len({item.name for item in items}) < len(items):
        type_.warning("several items have the same name")
    return tuple(items)


def read_properties(at: Attributes, kind: Type, inherited: Properties | None = None) -> Properties:
    """What an element says of its values, on top of what its declared type says."""
    base = inherited or Properties()
    changes: dict[str, Any] = {}
    for ours, theirs in (("quantity", "quantity"), ("unit", "unit"), ("display_unit", "displayUnit")):
        if at.has(theirs):
            changes[ours] = at.text(theirs)
    for ours, theirs in (("relative", "relativeQuantity"), ("unbounded", "unbounded")):
        if at.has(theirs):
            changes[ours] = at.flag(theirs)
    for name in ("min", "max"):
        if at.has(name) and kind.is_float:
            changes[name] = at.real(name, finite=False)
        elif at.has(name) and kind.range is not None:
            changes[name] = at.whole(name, kind.range)
    if kind.is_float and at.has("nominal"):
        changes["nominal"] = _nominal(at)
    if kind is Type.BINARY:
        changes["mime_type"] = at.text("mimeType") or base.mime_type or "application/octet-stream"
        if at.has("maxSize"):
            changes["max_size"] = at.whole("maxSize", UINT64)
    if kind is Type.CLOCK:
        changes["clock"] = _clock(at, base.clock)
    found = replace(base, **changes)
    if found.min is not None and found.max is not None and found.min > found.max:
        at.warning(f"min {found.min} is greater than max {found.max}: both are ignored")
        return replace(found, min=None, max=None)
    return found


def _nominal(at: Attributes) -> float | None:
    nominal = at.real("nominal", finite=False)
    if nominal is not None and (not math.isfinite(nominal) or nominal == 0):
        at.warning(f"nominal {nominal} says nothing about the size of values: ignored")
        return None
    return nominal


def _clock(at: Attributes, inherited: ClockInterval | None) -> ClockInterval | None:
    variability = at.choice("intervalVariability", IntervalVariability)
    if variability is None and inherited is not None:
        variability = inherited.variability
    if variability is None:
        if not at.has("intervalVariability"):
            at.error("a clock needs intervalVariability")
        return None
    base = inherited or ClockInterval(variability)
    shift, shifted = at.real("shiftDecimal"), at.whole("shiftCounter", UINT64)
    interval, counter = at.real("intervalDecimal"), at.whole("intervalCounter", UINT64)
    resolution, priority = at.whole("resolution", UINT64), at.whole("priority")
    clock = ClockInterval(
        variability,
        base.interval if interval is None else interval,
        base.shift if shift is None else shift,
        at.flag("supportsFraction", base.supports_fraction),
        base.resolution if resolution is None else resolution,
        base.interval_counter if counter is None else counter,
        base.shift_counter if shifted is None else shifted,
        at.flag("canBeDeactivated", base.can_be_deactivated),
        base.priority if priority is None else priority,
    )
    _check_clock(clock, at)
    return clock


def _check_clock(clock: ClockInterval, at: Attributes) -> None:
    if clock.resolution == 0:
        at.error("a clock cannot have resolution 0")
    if clock.supports_fraction and clock.resolution is None:
        at.error("a clock that supports fractions needs a resolution")
    counted = clock.interval_counter is not None and clock.resolution is not None
    if clock.variability is IntervalVariability.CONSTANT and clock.interval is None and not counted:
        at.error(
            "the interval of a constant clock is missing (intervalDecimal, or intervalCounter and resolution)"
        )
    if clock.interval is not None and clock.interval <= 0:
        at.error(f"an interval is positive, not {clock.interval}")
    if clock.interval_counter == 0:
        at.error("an interval is positive: intervalCounter cannot be 0")
