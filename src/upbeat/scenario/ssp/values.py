"""Parameter values (SSV), parameter mappings (SSM) and signal dictionaries (SSB)."""

from __future__ import annotations

from dataclasses import replace

from upbeat.scenario.ssp.elements import (
    INT64,
    INTEGERS,
    REALS,
    Scope,
    check_children,
    dimensions,
    local,
    scope,
    transformation,
    type_of,
)
from upbeat.scenario.ssp.findings import Findings
from upbeat.scenario.ssp.model import Connector, Kind, MappingEntry, Parameter, Value
from upbeat.units.fmi.description.attributes import Attributes, flag, real, shown, whole
from upbeat.units.fmi.xml import Element

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
