"""FMUs as components of an SSD: connectors with types and units, and values that were set."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from upbeat.core.ports import Causality, Port, Value
from upbeat.scenario.ssp.conversion import Unfit, converted
from upbeat.scenario.ssp.xmltext import element, group
from upbeat.units.fmi.description import Causality as FmiCausality
from upbeat.units.fmi.description import Type, UnitDefinition, Variable
from upbeat.units.fmi.model import Fmu
from upbeat.units.fmi.xml import Element

_OLD = {Type.FLOAT64: "Real", Type.INT32: "Integer", Type.BOOLEAN: "Boolean", Type.STRING: "String"}
_OLD |= {Type.ENUMERATION: "Enumeration", Type.BINARY: "Binary"}


class Definitions:
    """The units and enumerations of the SSD, each under a name of its own."""

    def __init__(self) -> None:
        self.units: dict[str, UnitDefinition] = {}
        self.enumerations: dict[str, tuple[tuple[str, int], ...]] = {}

    def unit(self, definition: UnitDefinition | None) -> str | None:
        """The name of a unit; None if it has no base unit, without which SSP knows none."""
        if definition is None or definition.base is None:
            return None
        name, count = definition.name, 2
        while name in self.units and self.units[name].base != definition.base:
            name, count = f"{definition.name} ({count})", count + 1
        self.units[name] = definition
        return name

    def enumeration(self, variable: Variable) -> str:
        items = tuple((item.name, item.value) for item in variable.items)
        first = variable.declared_type or variable.name
        name, count = first, 2
        while name in self.enumerations and self.enumerations[name] != items:
            name, count = f"{first} ({count})", count + 1
        self.enumerations[name] = items
        return name

    def elements(self) -> list[Element | None]:
        """Enumerations and Units, in the order of the schema."""
        enumerations = [
            element("ssc:Enumeration", *(element("ssc:Item", name=n, value=v) for n, v in items), name=name)
            for name, items in self.enumerations.items()
            if items
        ]
        units = []
        for title, definition in self.units.items():
            assert definition.base is not None
            base = element("ssc:BaseUnit")
            base.attributes |= {name: str(power) for name, power in definition.base.exponents}
            if definition.base.factor != 1:
                base.attributes["factor"] = repr(definition.base.factor)
            if definition.base.offset:
                base.attributes["offset"] = repr(definition.base.offset)
            units.append(element("ssc:Unit", base, name=title))
        return [group("ssd:Enumerations", enumerations), group("ssd:Units", units)]


def is_new(variables: Sequence[Variable]) -> bool:
    """Whether these need SSP 2.0: arrays, or other types than those of FMI 2."""
    return any(v.dimensions or v.type not in (*_OLD, Type.CLOCK) for v in variables)


def unit_definition(fmu: Fmu, variable: Variable) -> UnitDefinition | None:
    """The unit of a variable as its FMU defines it."""
    name = variable.properties.unit
    return None if name is None else next((u for u in fmu.description.units if u.name == name), None)


def type_name(kind: Type, new: bool) -> str:
    """What SSP calls a type."""
    return kind.value if new else _OLD[kind]


def port_variables(fmu: Fmu) -> dict[str, tuple[Port, Variable]]:
    """The ports of an FMU with the variables behind them; derivatives that it only tells are no variables."""
    by_name = fmu.description.by_name
    return {port.name: (port, by_name[port.name]) for port in fmu.ports if not port.extra}


def connectors(
    fmu: Fmu, new: bool, known: Definitions, kept: Mapping[str, tuple[Element, ...]]
) -> Element | None:
    """All ports as connectors; `kept` has what to give back of each."""
    found = []
    for name, (port, variable) in port_variables(fmu).items():
        kind = variable.causality.value
        if port.causality is Causality.OUTPUT and variable.causality is FmiCausality.PARAMETER:
            kind = "local"
        found.append(
            element(
                "ssd:Connector",
                typed(variable, new, known, unit_definition(fmu, variable)),
                *(element("ssc:Dimension", size=size) for size in _shape(port, variable)),
                *kept.get(name, ()),
                name=name,
                kind=kind,
                description=variable.description or None,
            )
        )
    return group("ssd:Connectors", found)


def _shape(port: Port, variable: Variable) -> tuple[int, ...]:
    """The sizes of an array; structural parameters may have changed what the FMU says of itself."""
    if port.size is None:
        return ()
    return variable.shape if math.prod(variable.shape) == port.size else (port.size,)


def typed(variable: Variable, new: bool, known: Definitions, unit: UnitDefinition | None) -> Element | None:
    """The element that says the type; clocks have none."""
    if variable.type is Type.CLOCK:
        return None
    tag = f"ssc:{type_name(variable.type, new)}"
    if variable.type is Type.ENUMERATION:
        return element(tag, name=known.enumeration(variable))
    if variable.type.is_float:
        return element(tag, unit=known.unit(unit))
    return element(tag)


def parameter(name: str, values: Sequence[Value], variable: Variable, new: bool) -> Element:
    """A value as an entry of an SSV."""
    kind = type_name(variable.type, new)
    labels: dict[Value, Value] = {item.value: item.name for item in variable.items}
    if variable.type is Type.ENUMERATION and any(value not in labels for value in values):
        kind, labels = ("Int64" if new else "Integer"), {}
    texts = [_written(labels.get(value, value)) for value in values]
    tag = f"ssv:{kind}"
    many = bool(variable.dimensions)
    if many and kind in ("String", "Enumeration", "Binary"):
        inner = element(tag, *(element("ssv:Value", value=text) for text in texts))
    else:
        inner = element(tag, value=" ".join(texts))
    sizes = [element("ssc:Dimension", size=len(values))] if many else []
    return element("ssv:Parameter", inner, *sizes, name=name)


def _written(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, (float, int)) else value


def parameter_set(entries: list[Element], new: bool) -> Element | None:
    """A binding with values inline; None without any."""
    if not entries:
        return None
    inner = element(
        "ssv:ParameterSet",
        element("ssv:Parameters", *entries),
        version="2.0" if new else "1.0",
        name="values",
    )
    bound = element("ssd:ParameterBinding", element("ssd:ParameterValues", inner))
    return element("ssd:ParameterBindings", bound)


def converts(
    source: UnitDefinition | None, target: UnitDefinition | None, scale: float, offset: float
) -> bool | None:
    """Whether SSP's own conversion of units is ``scale · value + offset``; None if it does nothing at all."""
    known = source is not None and target is not None and source.name != target.name
    if known and None in (source.base, target.base):  # type: ignore[union-attr]
        return False  # by their names, which others may read in other ways
    try:
        change = converted(source, target)
    except Unfit:
        return False
    if not change:
        return None
    same = abs(float(change.scale) - scale) <= 1e-12 * abs(scale)
    return same and abs(float(change.offset) - offset) <= 1e-12 * abs(offset)
