"""Start values: from text to numbers, checked against type, bounds and size."""

from __future__ import annotations

import math
import struct

from upbeat.units.fmi.description.attributes import Attributes, flag, real, whole
from upbeat.units.fmi.description.findings import shown
from upbeat.units.fmi.description.model import StartValue, Variable
from upbeat.units.fmi.description.words import Causality, Type
from upbeat.units.fmi.xml import Element

_FEW = 1000
"""Of more items nobody made a slip by hand, and looking through them for every variable takes its time."""


def has_start(element: Element, kind: Type, version: int) -> bool:
    """Whether the file gives a start value. Texts and bytes of FMI 3 are in elements of their own."""
    if version == 3 and kind in (Type.STRING, Type.BINARY):
        return element.first("Start") is not None or "start" in element.attributes
    return "start" in element.attributes


def read_start(element: Element, kind: Type, version: int, at: Attributes) -> tuple[StartValue, ...] | None:
    """The start values as they are written: one, or one per cell of an array. None if one is wrong."""
    attribute = element.attributes.get("start")
    if kind in (Type.STRING, Type.BINARY) and version == 3:
        texts = [child.attributes.get("value", "") for child in element.all("Start")]
        if attribute is not None and not texts:
            at.warning("the start value should be in an element 'Start' of its own")
            texts = [attribute]
    elif kind is Type.STRING or version == 2:
        texts = [attribute or ""]
    else:
        texts = (attribute or "").split()
    try:
        found = tuple(_value(text, kind) for text in texts)
    except ValueError as error:
        at.error(f"start: {error}")
        return None
    if not found:
        at.error("the start value is empty")
        return None
    return found


def _value(text: str, kind: Type) -> StartValue:
    if kind is Type.STRING:
        return text
    if kind is Type.BINARY:
        try:
            return bytes.fromhex(text)
        except ValueError:
            raise ValueError(f"'{shown(text)}' is not a row of bytes in hexadecimal digits") from None
    if kind is Type.BOOLEAN:
        return flag(text)
    if kind is Type.FLOAT32:
        return _single(text)
    if kind is Type.FLOAT64:
        return real(text)
    bounds = kind.range
    assert bounds is not None, "a clock has no start value"
    return whole(text, *bounds)


def _single(text: str) -> float:
    """The number of 32 bits that is nearest."""
    number = real(text)
    try:
        return float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:
        raise ValueError(f"{text} is too large for 32 bits") from None


def check_values(variable: Variable, at: Attributes) -> None:
    """Report start values that do not fit the variable."""
    start, properties = variable.start, variable.properties
    if start is None:
        return
    if variable.dimensions and len(start) not in (1, variable.cells):
        at.error(f"an array of {variable.cells} cells cannot have {len(start)} start values")
    if not variable.dimensions and len(start) != 1:
        at.error(f"a scalar has one start value, not {len(start)}")
    if 0 < len(variable.items) <= _FEW:
        values = {item.value for item in variable.items}
        strange = [value for value in start if value not in values]
        if strange:
            at.warning(f"the start value {strange[0]!r} is not one of the items")
    for value in start:
        if isinstance(value, float) and math.isnan(value):
            at.warning("the start value is not a number (NaN)")
            break
        if isinstance(value, (str, bytes, bool)):
            break
        if properties.min is not None and value < properties.min:
            at.warning(f"the start value {value} is below min {properties.min}")
            break
        if properties.max is not None and value > properties.max:
            at.warning(f"the start value {value} is above max {properties.max}")
            break
    if variable.causality is Causality.STRUCTURAL_PARAMETER and any(value == 0 for value in start):
        at.warning("an array has at least one cell: a structural parameter should start above 0")
