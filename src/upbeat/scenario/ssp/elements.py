"""The parts that all files of SSP share: units, enumerations, types, transformations, annotations."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from upbeat.scenario.ssp.findings import Findings
from upbeat.scenario.ssp.model import Items, Linear, Table, Transformation, Value
from upbeat.units.fmi.description import UnitDefinition
from upbeat.units.fmi.description.attributes import Attributes, flag, shown, whole
from upbeat.units.fmi.description.read import base_unit
from upbeat.units.fmi.xml import Element

NAMESPACES = {
    "ssc": "http://ssp-standard.org/SSP1/SystemStructureCommon",
    "ssd": "http://ssp-standard.org/SSP1/SystemStructureDescription",
    "ssv": "http://ssp-standard.org/SSP1/SystemStructureParameterValues",
    "ssm": "http://ssp-standard.org/SSP1/SystemStructureParameterMapping",
    "ssb": "http://ssp-standard.org/SSP1/SystemStructureSignalDictionary",
}
"""SSP 2.0 has kept the names of 1.0."""
_PREFIXES = {f"{{{address}}}": f"{prefix}:" for prefix, address in NAMESPACES.items()}

OURS = "upbeat.settings"
"""The type of annotations with what Upbeat knows and SSP has no word for; their text is TOML."""

INTEGERS = ("Integer", "Int8", "UInt8", "Int16", "UInt16", "Int32", "UInt32", "Int64", "UInt64")
REALS = ("Real", "Float64", "Float32")
TYPES = (*REALS, *INTEGERS, "Boolean", "String", "Enumeration", "Binary", "Clock")
INT64 = (-(2**63), 2**63 - 1)

GEOMETRY = (
    "ElementGeometry",
    "ConnectorGeometry",
    "ConnectionGeometry",
    "SystemGeometry",
    "GraphicalElements",
)
KEPT = ("Annotations", "MetaData", "Signature", *GEOMETRY)
"""Elements without a meaning for a run; an export gives them back."""


def named(element: Element) -> Element:
    """The element and all below it with the usual prefixes (``ssd:System``) instead of namespaces."""
    todo = [element]
    while todo:
        one = todo.pop()
        space, brace, name = one.tag.rpartition("}")
        one.tag = _PREFIXES.get(f"{space}{brace}", f"{space}{brace}") + name
        todo += one.children
    return element


def local(element: Element) -> str:
    """The name without a prefix."""
    return element.tag.rpartition(":")[2] if "}" not in element.tag else element.tag.rpartition("}")[2]


def kept(element: Element, findings: Findings, where: str) -> tuple[Element, ...]:
    """Annotations, geometry and the like. Upbeat's own annotations are written anew each time."""
    found = []
    for child in element.children:
        if local(child) not in KEPT or "}" in child.tag:
            continue
        if local(child) == "Signature":
            findings.warning(child.line, where, "its digital signature is not checked")
        if local(child) == "MetaData":
            findings.warning(child.line, where, "its metadata is kept, and not used")
        if local(child) == "Annotations":
            others = [one for one in child.children if one.attributes.get("type") != OURS]
            if not others:
                continue
            found.append(Element(child.tag, child.attributes, child.line, others))
        else:
            found.append(child)
    return tuple(found)


def settings(element: Element) -> str:
    """The text of Upbeat's own annotation."""
    for group in element.all("ssd:Annotations", "ssc:Annotations"):
        for one in group.children:
            if one.attributes.get("type") == OURS:
                return "\n".join(child.text for child in one.children) or one.text
    return ""


def check_children(element: Element, known: Collection[str], findings: Findings, where: str) -> None:
    """Name every child that nobody will look at."""
    for child in element.children:
        if local(child) not in known and local(child) not in KEPT:
            findings.warning(child.line, where, f"<{shown(child.tag)}> is not supported and is left out")


@dataclass(frozen=True)
class Scope:
    """The units and enumerations of one file; others do not see them, except what is written inside of it.

    `element` is where its units are defined. `outer` is the scope of the file that this one is a part of.
    """

    units: Mapping[str, UnitDefinition]
    enumerations: Mapping[str, Items]
    element: str
    outer: Scope | None = None

    def unit(self, at: Attributes) -> UnitDefinition | None:
        """The unit that the attribute `unit` names."""
        name = at.text("unit")
        if not name:
            return None
        if name in self.units:
            return self.units[name]
        # SSP wants each parameter set to define its own units. Those around it say what must be meant.
        missing = f"<{self.element}> does not define the unit '{shown(name)}'"
        if self.outer is not None and name in self.outer.units:
            at.warning(f"{missing}: it is taken from <{self.outer.element}>")
            return self.outer.units[name]
        at.warning(f"{missing}: the FMU's definition counts, if it has one")
        return UnitDefinition(name)

    def items(self, at: Attributes) -> Items:
        """The enumeration that the attribute `name` names."""
        name = at.text("name")
        if name and name not in self.enumerations:
            at.warning(f"the enumeration '{shown(name)}' is not defined in this file: the FMU's labels count")
        return self.enumerations.get(name or "", ())


def scope(root: Element, prefix: str, findings: Findings, outer: Scope | None = None) -> Scope:
    """What the file with this root element defines; `outer` is of the file that it is written in, if any."""
    units: dict[str, UnitDefinition] = {}
    enumerations: dict[str, Items] = {}
    for group in root.all(f"{prefix}:Units"):
        for element in group.all("ssc:Unit"):
            at = Attributes(element, findings, "Units")
            name = at.required("name")
            at.where = f"unit '{shown(name)}'"
            base = element.first("ssc:BaseUnit")
            if name in units:
                at.warning("it is defined twice; the first definition counts")
                continue
            units[name] = UnitDefinition(name, None if base is None else base_unit(base, at, findings))
    for group in root.all(f"{prefix}:Enumerations"):
        for element in group.all("ssc:Enumeration"):
            at = Attributes(element, findings, "Enumerations")
            name = at.required("name")
            at.where = f"enumeration '{shown(name)}'"
            items: dict[str, int] = {}
            for item in element.all("ssc:Item"):
                one = Attributes(item, findings, at.where)
                value = one.whole("value", INT64)
                if value is None:
                    one.required("value")
                else:
                    items[one.required("name")] = value
            enumerations[name] = tuple(items.items())
    return Scope(units, enumerations, f"{prefix}:Units", outer)


def type_of(element: Element) -> Element | None:
    """The child that says what type a connector or a parameter has."""
    return next((child for child in element.children if local(child) in TYPES), None)


def dimensions(element: Element, findings: Findings, where: str) -> tuple[int | str | None, ...]:
    """The sizes of an array: numbers, names of connectors, or None where nothing is said."""
    found: list[int | str | None] = []
    for owner in (element, type_of(element)):
        for child in [] if owner is None else owner.all("ssc:Dimension", "ssd:Dimension", "ssv:Dimension"):
            at = Attributes(child, findings, where)
            found.append(at.whole("size", (1, 10**9)) if at.has("size") else at.text("sizeConnector"))
    return tuple(found)


def transformation(element: Element, findings: Findings, where: str) -> Transformation:
    """What a connection or a mapping does with the value, besides the conversion of units."""
    for child in element.children:
        match local(child):
            case "LinearTransformation":
                at = Attributes(child, findings, where)
                factor, offset = at.real("factor"), at.real("offset")
                return Linear(1.0 if factor is None else factor, offset or 0.0)
            case "BooleanMappingTransformation":
                return _table(child, findings, where, flag)
            case "IntegerMappingTransformation":
                return _table(child, findings, where, lambda text: whole(text, *INT64))
            case "EnumerationMappingTransformation":
                return Table(_table(child, findings, where, str).entries, enumeration=True)
    return None


def _table(element: Element, findings: Findings, where: str, read: Callable[[str], Value]) -> Table:
    entries: dict[Value, Value] = {}
    for child in element.all("ssc:MapEntry"):
        at = Attributes(child, findings, where)
        try:
            source, target = (read(at.required(key)) for key in ("source", "target"))
        except ValueError as error:
            at.error(f"MapEntry: {error}")
            continue
        if source in entries:
            at.error(f"two entries map {source!r}: it is not clear which of them counts")
        entries[source] = target
    if not entries:
        Attributes(element, findings, where).error("a mapping needs at least one MapEntry")
    return Table(tuple(entries.items()))
