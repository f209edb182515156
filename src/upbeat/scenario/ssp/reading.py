"""Reading SSP packages: the XML of system structures and parameter sets, checked, as plain data."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from upbeat.core.atomic import check_regular
from upbeat.core.errors import FileProblem, InvalidInput, cannot_read, suggest
from upbeat.scenario.ssp.model import (
    Binding,
    Component,
    Connection,
    Connector,
    Description,
    Findings,
    Items,
    Kind,
    Linear,
    MappingEntry,
    Parameter,
    Reference,
    System,
    Table,
    Transformation,
    Value,
)
from upbeat.units.fmi import xml
from upbeat.units.fmi.archive import Unpacked, unpack
from upbeat.units.fmi.description import UnitDefinition
from upbeat.units.fmi.description.attributes import Attributes, flag, real, shown, whole
from upbeat.units.fmi.description.read import base_unit
from upbeat.units.fmi.xml import Element

# ----------------------------------------------------------------------------------------------------
# The parts that all files of SSP share: units, enumerations, types, transformations, annotations.

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
    """Annotations, geometry and the like. Upbeat's own annotations are written again each time."""
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
    """Name every child that is ignored."""
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


# ----------------------------------------------------------------------------------------------------
# Parameter values (SSV), parameter mappings (SSM) and signal dictionaries (SSB).

_VERSIONS = ("1.", "2.")


def check_version(root: Element, findings: Findings) -> str:
    """The version that a file says it follows; others than 1.x and 2.x are errors."""
    at = Attributes(root, findings, "")
    version = at.required("version")
    if version and not version.startswith(_VERSIONS):
        at.error(f"it follows version {shown(version)} of SSP, and this Upbeat reads 1.0 and 2.0")
    return version


def read_parameters(root: Element, findings: Findings, outer: Scope | None = None) -> tuple[Parameter, ...]:
    """All values of a parameter set; `outer` is the scope of the file that it is written in, if any."""
    if root.tag != "ssv:ParameterSet":
        findings.error(root.line, "", f"expected an ssv:ParameterSet, not <{shown(root.tag)}>")
        return ()
    check_version(root, findings)
    check_children(root, ("Parameters", "Units", "Enumerations"), findings, "ParameterSet")
    known = scope(root, "ssv", findings, outer)
    found: dict[str, Parameter] = {}
    for group in root.all("ssv:Parameters"):
        for element in group.all("ssv:Parameter"):
            at = Attributes(element, findings, "Parameter")
            name = at.required("name")
            at.where = f"parameter '{shown(name)}'"
            parameter = _parameter(element, name, known, at, findings)
            if name in found:
                at.error("it is there twice in one parameter set")
            if parameter is not None:
                found[name] = parameter
    return tuple(found.values())


def _parameter(
    element: Element, name: str, known: Scope, at: Attributes, findings: Findings
) -> Parameter | None:
    kind = type_of(element)
    if kind is None:
        at.error("it has no value: an element such as <ssv:Real value=…> is missing")
        return None
    sizes = dimensions(element, findings, at.where)
    inner = Attributes(kind, findings, at.where)
    texts = [Attributes(one, findings, at.where).required("value") for one in kind.all("ssv:Value")]
    text = inner.text("value")
    if text is None and not texts:
        inner.required("value")
        return None
    whole_text = local(kind) in ("String", "Enumeration", "Binary")
    parts = texts or ([text or ""] if whole_text or not sizes else (text or "").split())
    try:
        values = tuple(_value(part, local(kind)) for part in parts)
    except ValueError as error:
        inner.error(str(error))
        return None
    count = 1
    for size in sizes:
        count *= size if isinstance(size, int) else 1
    if sizes and len(values) != count:
        inner.error(f"it has {len(values)} values, but its dimensions make {count}")
        return None
    unit = known.unit(inner) if local(kind) in REALS else None
    return Parameter(name=name, values=values, unit=unit, array=bool(sizes), line=element.line)


def _value(text: str, kind: str) -> Value:
    if kind in REALS:
        return real(text)
    if kind in INTEGERS:
        return whole(text, *INT64)
    if kind == "Boolean":
        return flag(text)
    if kind == "Binary":
        return bytes.fromhex(text).hex()
    if kind == "Clock":
        raise ValueError("a clock has no value that could be set")
    return text


def read_mapping(root: Element, findings: Findings) -> tuple[MappingEntry, ...]:
    """All entries of a parameter mapping."""
    if root.tag != "ssm:ParameterMapping":
        findings.error(root.line, "", f"expected an ssm:ParameterMapping, not <{shown(root.tag)}>")
        return ()
    check_version(root, findings)
    check_children(root, ("MappingEntry",), findings, "ParameterMapping")
    found = []
    for element in root.all("ssm:MappingEntry"):
        at = Attributes(element, findings, "MappingEntry")
        source, target = at.required("source"), at.required("target")
        at.where = f"mapping of '{shown(source)}'"
        convert = not at.flag("suppressUnitConversion")
        change = transformation(element, findings, at.where)
        found.append(MappingEntry(source, target, change, convert, element.line))
    return tuple(found)


def read_dictionary(root: Element, findings: Findings) -> dict[str, Connector]:
    """The signals of a dictionary, as connectors of both directions."""
    if root.tag != "ssb:SignalDictionary":
        findings.error(root.line, "", f"expected an ssb:SignalDictionary, not <{shown(root.tag)}>")
        return {}
    check_version(root, findings)
    known = scope(root, "ssb", findings)
    found: dict[str, Connector] = {}
    for element in root.all("ssb:DictionaryEntry"):
        entry = read_connector(element, known, findings, "SignalDictionary", Kind.INOUT)
        found.setdefault(entry.name, entry)
    return found


def read_connector(
    element: Element, known: Scope, findings: Findings, where: str, kind: Kind | None = None
) -> Connector:
    """A connector; the kind is given for those that do not say it themselves."""
    at = Attributes(element, findings, where)
    name = at.required("name")
    at.where = f"{where}: connector '{shown(name)}'"
    found = kind
    if found is None:
        found = at.choice("kind", Kind)
        if not at.has("kind"):
            at.required("kind")
    inner = type_of(element)
    made = Connector(
        name=name,
        kind=found or Kind.INPUT,
        type=None if inner is None else local(inner),
        dimensions=dimensions(element, findings, at.where),
        description=at.text("description") or "",
        line=element.line,
    )
    if inner is None:
        return made
    typed = Attributes(inner, findings, at.where)
    if made.type == "Enumeration":
        return replace(made, items=known.items(typed))
    return replace(made, unit=known.unit(typed)) if made.type in REALS else made


# ----------------------------------------------------------------------------------------------------
# Reading the parts of a system or component: connectors, connections, dictionaries, parameter bindings.
#
# A part is written where it belongs, or in another file that it names.


class Documents(Protocol):
    """Where other files of an SSP come from: each given by a URI, as the SSD writes it."""

    def document(self, uri: str, findings: Findings) -> Element | None:
        """The root of another XML file. What is wrong with it goes to `findings`."""

    def inside(self, fmu: Path, uri: str, findings: Findings) -> Element | None:
        """The root of an XML file inside an FMU."""


class Parts:
    """Reads them, with the units and enumerations of `scope`."""

    def __init__(self, files: Documents, findings: Findings, scope: Scope) -> None:
        self._files = files
        self._findings = findings
        self._scope = scope

    def connectors(self, element: Element, where: str) -> tuple[Connector, ...]:
        found: dict[str, Connector] = {}
        for group in element.all("ssd:Connectors"):
            for child in group.all("ssd:Connector"):
                one = read_connector(child, self._scope, self._findings, where)
                if one.name in found:
                    self._findings.error(child.line, where, f"two connectors are called '{shown(one.name)}'")
                found[one.name] = replace(one, kept=kept(child, self._findings, where))
        return tuple(found.values())

    def connections(self, element: Element, where: str) -> tuple[Connection, ...]:
        found = []
        for group in element.all("ssd:Connections"):
            for child in group.all("ssd:Connection"):
                at = Attributes(child, self._findings, where)
                found.append(
                    Connection(
                        start=(at.text("startElement") or "", at.required("startConnector")),
                        end=(at.text("endElement") or "", at.required("endConnector")),
                        transformation=transformation(child, self._findings, where),
                        convert=not at.flag("suppressUnitConversion"),
                        indexed=at.has("startIndices") or at.has("endIndices"),
                        kept=kept(child, self._findings, where),
                        line=child.line,
                    )
                )
        return tuple(found)

    def dictionaries(self, element: Element, where: str) -> Mapping[str, Mapping[str, Connector]]:
        found: dict[str, Mapping[str, Connector]] = {}
        for group in element.all("ssd:SignalDictionaries"):
            for child in group.all("ssd:SignalDictionary"):
                at = Attributes(child, self._findings, where)
                root, findings = self._content(child, at, "ssb:SignalDictionary", None)
                found[at.required("name")] = {} if root is None else read_dictionary(root, findings)
        return found

    def bindings(self, element: Element, fmu: Path | None, where: str) -> tuple[Binding, ...]:
        found = []
        for group in element.all("ssd:ParameterBindings"):
            for child in group.all("ssd:ParameterBinding"):
                at = Attributes(child, self._findings, f"{where}: ParameterBinding")
                if (
                    at.text("type") or "application/x-ssp-parameter-set"
                ) != "application/x-ssp-parameter-set":
                    at.error(f"parameters of the type '{shown(at.text('type') or '')}' cannot be read")
                    continue
                found.append(self._binding(child, at, fmu))
        return tuple(found)

    def _binding(self, element: Element, at: Attributes, fmu: Path | None) -> Binding:
        values = element.first("ssd:ParameterValues")
        root, findings = self._content(element, at, "ssv:ParameterSet", fmu, values)
        outer = None if element.attributes.get("source") else self._scope
        parameters: tuple[Parameter, ...] = () if root is None else read_parameters(root, findings, outer)
        mapping: tuple[MappingEntry, ...] | None = None
        inner = element.first("ssd:ParameterMapping")
        if inner is not None:
            place = Attributes(inner, self._findings, at.where)
            target, other = self._content(inner, place, "ssm:ParameterMapping", fmu)
            mapping = () if target is None else read_mapping(target, other)
        return Binding(parameters, mapping, at.text("prefix") or "", findings.file, element.line)

    def _content(
        self, element: Element, at: Attributes, tag: str, fmu: Path | None, inline: Element | None = None
    ) -> tuple[Element | None, Findings]:
        """What `source` names, or what is written inline; and where to complain about it."""
        source = at.text("source")
        if not source:
            found = (element if inline is None else inline).first(tag)
            if found is None:
                at.error(f"it has neither a source nor a <{tag}> of its own")
            return found, self._findings
        findings = self._findings.within(source)
        if at.text("sourceBase") != "component":
            return self._named(self._files.document(source, findings)), findings
        if fmu is None:
            at.error("sourceBase='component' is for components that are FMUs")
            return None, findings
        return self._named(self._files.inside(fmu, source, findings)), findings

    @staticmethod
    def _named(root: Element | None) -> Element | None:
        return None if root is None else named(root)


# ----------------------------------------------------------------------------------------------------
# Reading an SSD: its system with all elements, each in the form of `upbeat.scenario.ssp.model`.

_FMU = ("application/x-fmu-sharedlibrary", "application/x-fmu-source-code")
_NESTED = ("application/x-ssp-package", "application/x-ssp-definition")
_ABOUT = ("author", "fileversion", "copyright", "license", "description")
_DEEPEST = 30
_MAX_ELEMENTS = 50_000


class Files(Documents, Protocol):
    """Where FMUs and other systems come from, too."""

    def fmu(self, uri: str, at: Attributes) -> Path | None:
        """An FMU."""

    def nested(self, uri: str, at: Attributes) -> System | None:
        """The system in another SSP or SSD."""


class StructureReader:
    """Reads one SSD."""

    def __init__(self, files: Files, findings: Findings) -> None:
        self._files = files
        self._findings = findings
        self._parts = Parts(files, findings, Scope({}, {}, "ssd:Units"))
        self._ids: dict[str, Element] = {}
        self._count = 0

    def read(self, root: Element) -> Description | None:
        """The description under this root; None if there is no system in it."""
        named(root)
        findings = self._findings
        if root.tag != "ssd:SystemStructureDescription":
            findings.error(
                root.line, "", f"expected an ssd:SystemStructureDescription, not <{shown(root.tag)}>"
            )
            return None
        version = check_version(root, findings)
        self._parts = Parts(self._files, findings, scope(root, "ssd", findings))
        known = ("System", "Enumerations", "Units", "DefaultExperiment")
        check_children(root, known, findings, "SystemStructureDescription")
        at = Attributes(root, findings, "")
        system = root.first("ssd:System")
        if system is None:
            at.error("there is no System in it")
            return None
        self._collect_ids(system)
        made = Description(
            name=at.required("name"),
            version=version,
            system=self._system(system, (), ()),
            settings=settings(root),
            kept=kept(root, findings, ""),
            about={key: text for key in _ABOUT if (text := at.text(key))},
            step=_step(root),
        )
        experiment = root.first("ssd:DefaultExperiment")
        if experiment is None:
            return made
        times = Attributes(experiment, findings, "DefaultExperiment")
        return replace(
            made,
            start=times.real("startTime"),
            stop=times.real("stopTime"),
            experiment_kept=kept(experiment, findings, "DefaultExperiment"),
        )

    def _collect_ids(self, system: Element) -> None:
        todo = [system]
        while todo:
            element = todo.pop()
            if element.tag == "ssd:System" and "id" in element.attributes:
                self._ids.setdefault(element.attributes["id"], element)
            todo += element.children

    # ---------------------------------------------------------------- systems and their elements

    def _system(self, element: Element, path: tuple[str, ...], ids: tuple[str, ...]) -> System:
        findings = self._findings
        at = Attributes(element, findings, "System")
        name = at.required("name")
        path = (*path, name)
        at.where = f"system '{shown('.'.join(path))}'"
        if len(path) > _DEEPEST:
            at.error(f"systems are nested more than {_DEEPEST} deep")
            return System(name=name)
        known = (
            "Connectors", "ParameterBindings", "Elements", "Connections", "SignalDictionaries",
            "SimulationInformation",
        )  # fmt: skip
        check_children(element, known, findings, at.where)
        elements: dict[str, Component | System | Reference] = {}
        for group in element.all("ssd:Elements"):
            for child in group.children:
                made = self._element(child, path, ids)
                if made is not None and made.name in elements:
                    findings.error(child.line, at.where, f"two elements are called '{shown(made.name)}'")
                elif made is not None:
                    elements[made.name] = made
        return System(
            name=name,
            connectors=self._parts.connectors(element, at.where),
            elements=tuple(elements.values()),
            connections=self._parts.connections(element, at.where),
            bindings=self._parts.bindings(element, None, at.where),
            dictionaries=self._parts.dictionaries(element, at.where),
            kept=kept(element, findings, at.where),
            file=findings.file,
            line=element.line,
        )

    def _element(
        self, element: Element, path: tuple[str, ...], ids: tuple[str, ...]
    ) -> Component | System | Reference | None:
        self._count += 1
        if self._count > _MAX_ELEMENTS:
            if self._count == _MAX_ELEMENTS + 1:
                self._findings.error(
                    element.line, "", f"there are more than {_MAX_ELEMENTS:,} elements in the system"
                )
            return None
        match element.tag:
            case "ssd:Component":
                return self._component(element, path, ids)
            case "ssd:System":
                return self._system(element, path, ids)
            case "ssd:SignalDictionaryReference":
                at = Attributes(element, self._findings, "SignalDictionaryReference")
                name = at.required("name")
                connectors = self._parts.connectors(element, f"reference '{shown(name)}'")
                return Reference(
                    name=name,
                    dictionary=at.required("dictionary"),
                    connectors=connectors,
                    line=element.line,
                )
        what = f"<{shown(element.tag)}> is not supported: a part of the system would be missing"
        self._findings.error(element.line, "Elements", what)
        return None

    def _component(
        self, element: Element, path: tuple[str, ...], ids: tuple[str, ...]
    ) -> Component | System | None:
        findings = self._findings
        at = Attributes(element, findings, "Component")
        name = at.required("name")
        at.where = f"component '{shown('.'.join((*path[1:], name)))}'"
        check_children(
            element, ("Connectors", "ParameterBindings", "SimulationInformation"), findings, at.where
        )
        source, kind = at.text("source") or "", at.text("type") or _FMU[0]
        if not source:
            at.error("it has no source: there is nothing that could be run")
            return None
        if (
            source.startswith("#")
            or kind in _NESTED
            or source.partition("#")[0].lower().endswith((".ssp", ".ssd"))
        ):
            inner = self._reference(source, at, path, ids)
            if inner is None:
                return None
            # As the standard has it: the system in place of the component, whose bindings come last.
            bindings = self._parts.bindings(element, None, at.where)
            return replace(inner, name=name, bindings=(*inner.bindings, *bindings))
        if kind not in _FMU:
            at.error(f"components of the type '{shown(kind)}' cannot be run, only FMUs, SSPs and SSDs")
            return None
        fmu = self._files.fmu(source, at)
        implementation = at.text("implementation") or "any"
        if implementation not in ("any", "CoSimulation", "ModelExchange"):
            at.error(f"the implementation '{shown(implementation)}' is not supported")
        if fmu is None:
            return None
        return Component(
            name=name,
            path=fmu,
            implementation=implementation,
            connectors=self._parts.connectors(element, at.where),
            bindings=self._parts.bindings(element, fmu, at.where),
            settings=settings(element),
            kept=kept(element, findings, at.where),
            file=findings.file,
            line=element.line,
        )

    def _reference(
        self, source: str, at: Attributes, path: tuple[str, ...], ids: tuple[str, ...]
    ) -> System | None:
        if not source.startswith("#"):
            return self._files.nested(source, at)
        key = source[1:]
        if key not in self._ids:
            at.error(f"there is no system with the id '{shown(key)}' in this file")
            return None
        if key in ids or len(path) > _DEEPEST:
            at.error(f"the system '{shown(key)}' contains itself")
            return None
        return self._system(self._ids[key], path, (*ids, key))


_STEPS = {"FixedStepMaster": "stepSize", "FixedStepAlgorithm": "baseStepSize"}
"""Elements of annotations that name a step (the second one is of the Open Simulation Platform), and where."""


def _step(root: Element) -> float | None:
    """A fixed step that an annotation, or a draft of the standard, asks for."""
    todo, found = [root], []
    while todo:
        element = todo.pop()
        if (name := _STEPS.get(local(element))) is not None:
            found.append(element.attributes.get(name, ""))
        todo += element.children
    return next((step for step in map(_number, found) if step is not None), None)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and number > 0 else None


# ----------------------------------------------------------------------------------------------------
# The files of an SSP: unpacked safely, found by their URIs, read and put together.

DEFAULT = "SystemStructure.ssd"
_DEEPEST_PACKAGE = 10
_LIMITS = xml.Limits(size=64 << 20, elements=1_000_000)

_unpacked: dict[tuple[str, int, int], Unpacked] = {}
"""Archives stay unpacked until the process ends: the FMUs in them are needed when a run begins."""


def read_package(path: str | os.PathLike[str], variant: str | None = None) -> tuple[Description, Findings]:
    """The system in an .ssp, an .ssd or a folder with one, and what was found on the way.

    `variant` names another SSD of the archive than SystemStructure.ssd. Raises `ScenarioError` with all
    problems at once, `FileProblem` if there is nothing to read.
    """
    path = Path(path)
    findings = Findings(str(path))
    file = ssd_of(path, variant)
    made = _Package(file.parent, findings, (), path).description(file)
    findings.raise_if_any()
    assert made is not None, "without a description there is a finding"
    return made, findings


def ssd_of(path: str | os.PathLike[str], variant: str | None = None) -> Path:
    """The SSD itself, unpacked."""
    path = Path(path)
    folder, name = _opened(path, variant)
    file = folder / name
    if not file.is_file():
        others = sorted(other.name for other in folder.glob("*.ssd"))
        hint = suggest(name, others, "SSDs") if others else "It is no SSP."
        raise FileProblem(f"{path}: there is no {name} in it. {hint}")
    return file


def _opened(path: Path, variant: str | None) -> tuple[Path, str]:
    """The folder with the files, and the name of the SSD; ``system.ssp#Other.ssd`` names both."""
    archive, mark, fragment = str(path).rpartition("#")
    if mark and variant is None and not path.exists():
        path, variant = Path(archive), fragment
    if path.suffix.lower() == ".ssd" and not path.is_dir():
        if variant is not None:
            raise InvalidInput(f"{path} is one SSD: a variant can be chosen of an .ssp only")
        return path.parent, path.name
    name = variant or DEFAULT
    if Path(name).name != name:
        raise InvalidInput(f"'{name}' is not the name of an SSD: variants lie at the top of an SSP")
    return _kept(path), name


def _kept(path: Path) -> Path:
    try:
        status = path.stat()
    except OSError as error:
        raise cannot_read(path, error) from None
    except ValueError:
        raise FileProblem(f"{str(path)!r} is not the name of a file") from None
    key = (str(path.resolve()), status.st_mtime_ns, status.st_size)
    if key not in _unpacked or not _unpacked[key].path.is_dir():
        _unpacked[key] = unpack(path)
    return _unpacked[key].path


class _Package:
    """One folder of files; `outer` are the SSDs that use it, for those that use themselves.

    URIs begin at `base`, the folder of the SSD that has them, and do not leave the folder of all files.
    """

    def __init__(
        self,
        folder: Path,
        findings: Findings,
        outer: tuple[Path, ...],
        source: Path,
        base: Path | None = None,
    ) -> None:
        self._folder = folder.resolve()
        self._base = self._folder if base is None else base.resolve()
        self._findings = findings
        self._outer = outer
        self._source = source

    def description(self, file: Path) -> Description | None:
        findings = self._findings.within(file.name)
        root = self._read(file, findings)
        outer = (*self._outer, file.resolve())
        inner = _Package(self._folder, findings, outer, self._source, file.parent)
        return None if root is None else StructureReader(inner, findings).read(root)

    # ---------------------------------------------------------------- what a reader asks for

    def document(self, uri: str, findings: Findings) -> xml.Element | None:
        file = self._find(uri, findings)
        return None if file is None else self._read(file, findings)

    def inside(self, fmu: Path, uri: str, findings: Findings) -> xml.Element | None:
        try:
            folder = _kept(fmu)
        except FileProblem as error:
            findings.error(0, "", str(error))
            return None
        return _Package(folder, findings, self._outer, fmu).document(uri, findings)

    def fmu(self, uri: str, at: Attributes) -> Path | None:
        return self._find(uri, self._findings, at)

    def nested(self, uri: str, at: Attributes) -> System | None:
        uri, _, variant = uri.partition("#")
        file = self._find(uri, self._findings, at)
        if file is None:
            return None
        if len(self._outer) >= _DEEPEST_PACKAGE:
            at.error(f"SSPs are nested more than {_DEEPEST} deep")
            return None
        package = self
        if file.suffix.lower() != ".ssd" or file.is_dir():
            try:
                folder = _kept(file)
            except FileProblem as error:
                at.error(str(error))
                return None
            package = _Package(folder, self._findings, self._outer, file)
            found = package._find(variant or DEFAULT, self._findings, at)
            if found is None:
                return None
            file = found
        if file.resolve() in self._outer:
            at.error("it contains itself")
            return None
        description = package.description(file)
        return None if description is None else description.system

    # ---------------------------------------------------------------- files

    def _find(self, uri: str, findings: Findings, at: Attributes | None = None) -> Path | None:
        """The file that a URI means; None, and an error, if that is none of ours."""
        try:
            file, why = self._resolved(uri)
        except (ValueError, OSError) as error:
            file, why = None, f"'{shown(uri)}' is not a URI: {error}"
        if why:
            where, line = ("", 0) if at is None else (at.where, at.element.line)
            findings.error(line, where, why)
        return file

    def _resolved(self, uri: str) -> tuple[Path | None, str]:
        parts = urlsplit(uri)
        if parts.scheme or parts.netloc:
            return None, f"'{shown(uri)}' lies elsewhere: only files inside of the SSP are used"
        name = unquote(parts.path)
        if Path(name).is_absolute():
            return None, f"'{shown(uri)}' leads out of the SSP"
        file = (self._base / name).resolve()
        if not file.is_relative_to(self._folder) or not file.exists():
            # Many tools mean the folder of the whole archive, wherever the SSD lies in it.
            from_the_top = (self._folder / name).resolve()
            file = from_the_top if from_the_top.exists() or file == from_the_top else file
        if not file.is_relative_to(self._folder):
            return None, f"'{shown(uri)}' leads out of the SSP"
        if not name or not file.exists():
            return None, f"there is no file '{shown(uri)}' in the SSP"
        return file, ""

    def _read(self, file: Path, findings: Findings) -> xml.Element | None:
        try:
            check_regular(file)
            data = file.read_bytes() if file.stat().st_size <= _LIMITS.size else bytes(_LIMITS.size + 1)
            return xml.parse(data, file.name, _LIMITS)
        except OSError as error:
            findings.error(0, "", f"it cannot be read: {error.strerror or error}")
        except FileProblem as error:
            findings.error(0, "", str(error))
        return None
