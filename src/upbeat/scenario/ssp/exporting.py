"""From a scenario to an SSP, with everything that an imported one had and Upbeat does not use."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from upbeat.core.abilities import FromFile
from upbeat.core.atomic import replace_file
from upbeat.core.errors import Problems, UpbeatError, cannot_read
from upbeat.core.expr import Expr, evaluate, names
from upbeat.core.ports import Causality, Kind, Port, Value
from upbeat.scenario.connection import Connection as ScenarioConnection
from upbeat.scenario.connection import ScenarioOutput
from upbeat.scenario.directory import INPUTS, End
from upbeat.scenario.files.definitions import ISOLATION, isolation_table
from upbeat.scenario.files.reading import ScenarioFile
from upbeat.scenario.files.toml import toml_text
from upbeat.scenario.merging.merge import Affine as Form
from upbeat.scenario.merging.merge import affine
from upbeat.scenario.scenario import Scenario
from upbeat.scenario.ssp.importing import UNIT_KEYS, Unfit, converted, identifiers
from upbeat.scenario.ssp.model import (
    Component,
    Connection,
    Connector,
    Description,
    Findings,
    Reference,
    System,
)
from upbeat.scenario.ssp.reading import GEOMETRY, NAMESPACES, OURS, StructureReader, local
from upbeat.units.fmi import xml
from upbeat.units.fmi.description import Causality as FmiCausality
from upbeat.units.fmi.description import Type, UnitDefinition, Variable, measure_of
from upbeat.units.fmi.description.attributes import Attributes
from upbeat.units.fmi.model import Fmu
from upbeat.units.fmi.xml import Element, document, element, group
from upbeat.units.process import as_isolated, bare

# ----------------------------------------------------------------------------------------------------
# What an SSP says without a meaning for a run, for an export to give back: annotations, drawings, author.

Elements = tuple[xml.Element, ...]


@dataclass(frozen=True)
class Kept:
    """By the names of units; "" stands for the whole system. `lost` names what has no place any more."""

    description: Elements = ()
    experiment: Elements = ()
    system: Elements = ()
    about: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, Elements] = field(default_factory=dict)
    connectors: Mapping[str, Mapping[str, Elements]] = field(default_factory=dict)
    connections: tuple[tuple[frozenset[tuple[str, str]], Elements], ...] = ()
    lost: tuple[str, ...] = ()

    def connectors_of(self, unit: str) -> Mapping[str, Elements]:
        return self.connectors.get(unit, {})

    def geometry_of(self, unit: str) -> Elements:
        return tuple(one for one in self.units.get(unit, ()) if local(one) in GEOMETRY)

    def annotations_of(self, unit: str) -> Elements:
        return tuple(one for one in self.units.get(unit, ()) if local(one) not in GEOMETRY)

    def connection(self, start: str, source: str, end: str, target: str) -> Elements:
        key = frozenset({(start, source), (end, target)})
        return next((kept for ends, kept in self.connections if ends == key), ())


class _NoFiles:
    """Only the SSD itself is of interest."""

    def document(self, uri: str, findings: Findings) -> xml.Element | None:
        return None

    def inside(self, fmu: Path, uri: str, findings: Findings) -> xml.Element | None:
        return None

    def fmu(self, uri: str, at: Attributes) -> Path | None:
        return Path(uri)

    def nested(self, uri: str, at: Attributes) -> System | None:
        return None


def kept_of(ssd: Path) -> Kept:
    """What there is to keep of an SSD, whatever else may be wrong with it."""
    try:
        root = xml.read(ssd)
    except UpbeatError:
        return Kept(lost=(f"{ssd} cannot be read: its annotations are lost",))
    found = StructureReader(_NoFiles(), Findings(str(ssd))).read(root)
    return Kept() if found is None else _kept(found)


def _kept(description: Description) -> Kept:
    system = description.system
    leaves = dict(_leaves(system, ()))
    names = identifiers(leaves)
    own = identifiers([(c.name,) for c in system.connectors], names.values())
    lost = [
        f"the annotations and drawings of the system '{'.'.join(path)}' are lost: nested systems become one"
        for path, inner in _systems(system, ())
        if path and _says_more(inner)
    ]
    units = {names[path]: one.kept for path, one in leaves.items() if one.kept}
    connectors = {names[path]: _connectors(one.connectors) for path, one in leaves.items()}
    connectors[""] = {own[(c.name,)]: c.kept for c in system.connectors if c.kept}
    return Kept(
        description.kept,
        description.experiment_kept,
        system.kept,
        description.about,
        units,
        connectors,
        tuple(_connection(one, names, own) for one in system.connections if one.kept),
        tuple(lost),
    )


def _says_more(system: System) -> bool:
    inner = (*(c.kept for c in system.connectors), *(c.kept for c in system.connections))
    return bool(system.kept) or any(inner)


def _connectors(found: tuple[Connector, ...]) -> dict[str, Elements]:
    return {connector.name: connector.kept for connector in found if connector.kept}


def _connection(
    one: Connection, names: Mapping[tuple[str, ...], str], own: Mapping[tuple[str, ...], str]
) -> tuple[frozenset[tuple[str, str]], Elements]:
    def end(element: str, connector: str) -> tuple[str, str]:
        if not element:
            return "", own.get((connector,), connector)
        return names.get((element,), element), connector

    return frozenset({end(*one.start), end(*one.end)}), one.kept


def _leaves(system: System, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Component]]:
    for one in system.elements:
        if isinstance(one, Component):
            yield (*path, one.name), one
        elif not isinstance(one, Reference):
            yield from _leaves(one, (*path, one.name))


def _systems(system: System, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], System]]:
    yield path, system
    for one in system.elements:
        if isinstance(one, System):
            yield from _systems(one, (*path, one.name))


# ----------------------------------------------------------------------------------------------------
# FMUs as components of an SSD: connectors with types and units, and values that were set.

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


# ----------------------------------------------------------------------------------------------------
# The scenario's own inputs and outputs in SSP: connectors of the system, and start values.


class ExportedPorts:
    """Those of one scenario of these `units`. `new`: in the words of SSP 2.0."""

    def __init__(
        self,
        scenario: Scenario,
        units: Mapping[str, Fmu],
        new: bool,
        known: Definitions,
        kept: Kept,
        problems: Problems,
    ) -> None:
        self._scenario = scenario
        self._units = units
        self._new = new
        self._known = known
        self._kept = kept
        self._refuse = problems.add

    def connectors(self) -> list[Element]:
        """One for each port."""
        found = []
        for port, kind in (
            *((port, "input") for port in self._scenario.inputs),
            *((output.port, "output") for output in self._scenario.outputs),
        ):
            sizes = [element("ssc:Dimension", size=port.size)] if port.size is not None else []
            kept = self._kept.connectors_of("").get(port.name, ())
            one = element("ssd:Connector", self._type(port), *sizes, *kept, name=port.name, kind=kind)
            one.attributes |= {"description": port.description} if port.description else {}
            found.append(one)
        return found

    def _type(self, port: Port) -> Element:
        match port.kind:
            case Kind.REAL:
                unit = self._known.unit(self.unit(port))
                return element("ssc:Float64" if self._new else "ssc:Real", unit=unit)
            case Kind.INTEGER if port.items and (variable := self._like(port)) is not None:
                made = typed(variable, self._new, self._known, None)
                assert made is not None
                return made
            case Kind.INTEGER:
                return element("ssc:Int64" if self._new else "ssc:Integer")
            case Kind.BOOLEAN:
                return element("ssc:Boolean")
        return element("ssc:String")

    def _like(self, port: Port) -> Variable | None:
        """A variable with the same labels."""
        for fmu in self._units.values():
            for other, variable in port_variables(fmu).values():
                if other.items == port.items and variable.items:
                    return variable
        return None

    def unit(self, port: Port) -> UnitDefinition | None:
        """The definition of a unit that some FMU knows."""
        if port.unit is None:
            return None
        for fmu in self._units.values():
            for definition in fmu.description.units:
                if definition.base is not None and measure_of(definition) == port.unit:
                    return definition
        return None

    def starts(self) -> list[Element]:
        """The values that inputs start with, as parameters."""
        found = []
        for port in self._scenario.inputs:
            if port.event:
                self._refuse(("inputs", port.name), "it is an event, which SSP does not know")
                continue
            kind = {Kind.REAL: "Real", Kind.INTEGER: "Integer", Kind.BOOLEAN: "Boolean"}[port.kind]
            if self._new:
                kind = {"Real": "Float64", "Integer": "Int64"}.get(kind, kind)
            texts = [str(value).lower() if isinstance(value, bool) else repr(value) for value in port.initial]
            inner = element(f"ssv:{kind}", value=" ".join(texts))
            sizes = [element("ssc:Dimension", size=port.size)] if port.size is not None else []
            found.append(element("ssv:Parameter", inner, *sizes, name=port.name))
        return found


# ----------------------------------------------------------------------------------------------------
# The connections of a scenario in SSP: copies and linear transformations, constants as start values.


class Links:
    """Those of one scenario of these `units`."""

    def __init__(
        self, scenario: Scenario, units: Mapping[str, Fmu], own: ExportedPorts, kept: Kept, problems: Problems
    ) -> None:
        self._scenario = scenario
        self._units = units
        self._own = own
        self._kept = kept
        self._refuse = problems.add

    def elements(self, starts: dict[str, dict[str, tuple[Any, ...]]]) -> list[Element]:
        """All of them; what is constant goes into `starts`, by unit."""
        found: list[Element] = []
        for connection in self._scenario.connections:
            if connection.unit not in self._units:
                continue
            form = self._form(connection, ("connections", connection.target))
            if form is None:
                continue
            source, scale, offset = form
            if source is None:
                self._constant(connection, starts)
            else:
                end = (connection.unit, connection.port)
                found.append(self._link(source, end, scale, offset, self._unit(end)))
        for output in self._scenario.outputs:
            form = self._form(output, ("outputs", output.port.name))
            if form is None:
                continue
            source, scale, offset = form
            if source is None:
                self._refuse(("outputs", output.port.name), "it is a constant, which no connection carries")
            else:
                unit = self._own.unit(output.port)
                found.append(self._link(source, (INPUTS, output.port.name), scale, offset, unit))
        for event in self._scenario.event_connections:
            first = event.senders[0]
            if len(event.senders) > 1 or first.when is not None or not isinstance(event.text, str):
                self._refuse(("connections", event.target), "it is more than an event that is passed on")
            else:
                found.append(self._link(first.source, (event.unit, event.port), 1.0, 0.0, None))
        for output_ in self._scenario.event_outputs:
            self._refuse(("outputs", output_.port.name), "it is an event, which SSP does not know")
        return found

    def _form(
        self, given: ScenarioConnection | ScenarioOutput, where: tuple[str, ...]
    ) -> tuple[End | None, float, float] | None:
        """``scale · source + offset``; None, and a complaint, if it is anything else."""
        if any(unit != INPUTS and unit not in self._units for unit, _ in given.sources):
            return None  # there is a complaint about that unit already
        found = {_numbers(cell, i, len(given.cells)) for i, cell in enumerate(given.cells)}
        form = found.pop() if len(found) == 1 else None
        if form is None or len(given.sources) > 1:
            self._refuse(
                where,
                f"{given.text!r} is more than factor · source + offset, which is all that SSP can say",
                "Put the formula into an FMU.",
            )
            return None
        return (given.sources[0] if given.sources else None), *form

    def _constant(
        self, connection: ScenarioConnection, starts: dict[str, dict[str, tuple[Any, ...]]]
    ) -> None:
        """An input that is constant starts with that value and keeps it."""
        port, _ = port_variables(self._units[connection.unit])[connection.port]
        numbers = [evaluate(cell) for cell in connection.cells]
        values = tuple(
            bool(n) if port.kind is Kind.BOOLEAN else int(n) if port.kind is Kind.INTEGER else n
            for n in numbers
        )
        starts[connection.unit][connection.port] = values

    def _unit(self, end: End) -> UnitDefinition | None:
        """What SSP will take the unit of a port to be."""
        unit, name = end
        if unit == INPUTS:
            port = next(port for port in self._scenario.inputs if port.name == name)
            return self._own.unit(port)
        fmu = self._units[unit]
        return unit_definition(fmu, port_variables(fmu)[name][1])

    def _link(
        self, source: End, target: End, scale: float, offset: float, unit: UnitDefinition | None
    ) -> Element:
        known = converts(self._unit(source), unit, scale, offset)
        plain = scale == 1 and offset == 0
        change = None
        if known is not True and not plain:
            change = element("ssc:LinearTransformation", factor=scale, offset=offset)
        start, end = (None if unit_name == INPUTS else unit_name for unit_name, _ in (source, target))
        return element(
            "ssd:Connection",
            change,
            *self._kept.connection(start or "", source[1], end or "", target[1]),
            startElement=start,
            startConnector=source[1],
            endElement=end,
            endConnector=target[1],
            suppressUnitConversion=True if known is False else None,
        )


def _numbers(cell: Expr, index: int, count: int) -> tuple[float, float] | None:
    """Factor and offset of an expression over one name, which is the right cell of its array."""
    found = sorted(names(cell))
    if len(found) > 1 or any(count > 1 and not name.endswith(f"[{index}]") and "[" in name for name in found):
        return None
    form = affine(cell, {name: Form.unknown(name) for name in found})
    if form is None:
        return None
    scale = evaluate(form.slopes[found[0]]) if found and found[0] in form.slopes else 0.0
    return float(scale), float(evaluate(form.constant))


# ----------------------------------------------------------------------------------------------------
# A scenario of FMUs as an SSP: the FMUs in ``resources/``, everything else in SystemStructure.ssd.
#
# Connections become connections with a linear transformation where that is what they do; values that were
# set become parameter bindings. How to run it, for which SSP has no words, goes into annotations that
# Upbeat reads back. What cannot be said in SSP is refused, all of it at once.

_DATE = (1980, 1, 1, 0, 0, 0)
"""The same scenario gives the same bytes."""


def write_ssp(file: ScenarioFile, path: Path, kept: Kept | None = None) -> None:
    """Write the SSP; `kept` has the annotations and drawings of one that the scenario came from.

    Raises `ScenarioError` with everything that cannot be said in SSP.
    """
    export = _Export(file, kept or Kept())
    root = export.description()
    for prefix, address in NAMESPACES.items():
        root.attributes.setdefault(f"xmlns:{prefix}", address)
    text = document(root)
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("SystemStructure.ssd", _DATE), text, zipfile.ZIP_DEFLATED)
        for name, fmu in export.resources.items():
            archive.writestr(zipfile.ZipInfo(name, _DATE), _content(fmu))
    replace_file(path, data.getvalue())


def _content(fmu: Path) -> bytes:
    try:
        if not fmu.is_dir():
            return fmu.read_bytes()
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for inner in sorted(fmu.rglob("*")):
                if inner.is_file():
                    name = inner.relative_to(fmu).as_posix()
                    archive.writestr(zipfile.ZipInfo(name, _DATE), inner.read_bytes(), zipfile.ZIP_DEFLATED)
        return packed.getvalue()
    except OSError as error:
        raise cannot_read(fmu, error) from None


class _Export:
    def __init__(self, file: ScenarioFile, kept: Kept) -> None:
        self._file = file
        self._scenario = file.scenario
        self._kept = kept
        self._problems = Problems()
        self._known = Definitions()
        self._units: dict[str, Fmu] = {}
        self._isolated: dict[str, dict[str, Any]] = {}
        self.resources: dict[str, Path] = {}

    def description(self) -> Element:
        scenario = self._scenario
        if scenario.added_units:
            self._refuse(("inputs",), "the scenario's inputs are driven; export the one it was made from")
        for event in scenario.events:
            self._refuse(("events", event.name), "SSP has no events between units")
        for name, model in scenario.units.items():
            isolated, plain = as_isolated(model), bare(model)
            if isinstance(plain, FromFile):
                self._units[name] = cast("Fmu", plain)
                if isolated is not None:
                    self._isolated[name] = isolation_table(isolated)
            else:
                self._refuse(("units", name), f"it is a {type(model).__name__}, and SSP knows FMUs only")
        variables = [v for fmu in self._units.values() for _, v in port_variables(fmu).values()]
        self._new = is_new(variables) or any(port.size is not None for port in scenario.inputs)
        starts: dict[str, dict[str, tuple[Any, ...]]] = {
            n: dict(fmu.starts) for n, fmu in self._units.items()
        }
        own = ExportedPorts(scenario, self._units, self._new, self._known, self._kept, self._problems)
        links = Links(scenario, self._units, own, self._kept, self._problems).elements(starts)
        system = element(
            "ssd:System",
            group("ssd:Connectors", own.connectors()),
            parameter_set(own.starts(), self._new),
            element("ssd:Elements", *(self._component(n, fmu, starts[n]) for n, fmu in self._units.items())),
            group("ssd:Connections", links),
            *self._kept.system,
            name="root",
        )
        run = self._file.run
        root = element(
            "ssd:SystemStructureDescription",
            system,
            *self._known.elements(),
            element(
                "ssd:DefaultExperiment",
                *self._kept.experiment,
                startTime=float(run.get("start", 0.0)) if "until" in run else None,
                stopTime=float(run["until"]) if "until" in run else None,
            ),
            *self._annotated(self._kept.description, self._settings()),
            version="2.0" if self._new else "1.0",
            name=scenario.name or "system",
            generationTool="Upbeat",
        )
        root.attributes |= self._kept.about
        self._problems.raise_if_any(f"{scenario.name or 'the scenario'} as an SSP")
        return root

    def _refuse(self, where: tuple[str, ...], what: str, hint: str = "") -> None:
        self._problems.add(where, what, hint)

    # ---------------------------------------------------------------- settings

    def _settings(self) -> str:
        tables = {
            "master": dict(self._file.master),
            "run": dict(self._file.run),
            "record": dict(self._file.record),
        }
        tables["run"] = {k: v for k, v in tables["run"].items() if k not in ("start", "until")}
        tables["record"].pop("out", None)  # a place on this machine
        given = {name: table for name, table in tables.items() if table}
        return toml_text(given).strip() if given else ""

    @staticmethod
    def _annotated(kept: tuple[Element, ...], text: str) -> list[Element]:
        """What is kept, with Upbeat's own annotation among the others."""
        if not text:
            return list(kept)
        inner = element("{urn:upbeat}settings", text=text)
        ours = element("ssc:Annotation", inner, type=OURS)
        others = [child for one in kept if one.tag.endswith("Annotations") for child in one.children]
        rest = [one for one in kept if not one.tag.endswith("Annotations")]
        return [*rest, element("ssd:Annotations", *others, ours)]

    # ---------------------------------------------------------------- components

    def _component(self, name: str, fmu: Fmu, starts: Mapping[str, tuple[Any, ...]]) -> Element:
        by_name = fmu.description.by_name
        entries = [parameter(key, values, by_name[key], self._new) for key, values in starts.items()]
        spec = {key: value for key, value in fmu.to_spec().items() if key in (*UNIT_KEYS, *ISOLATION)}
        spec |= self._isolated.get(name, {})
        both = fmu.description.co_simulation is not None and fmu.description.model_exchange is not None
        implementation = {"co-simulation": "CoSimulation", "model-exchange": "ModelExchange"}
        return element(
            "ssd:Component",
            connectors(fmu, self._new, self._known, self._kept.connectors_of(name)),
            *self._kept.geometry_of(name),
            parameter_set(entries, self._new),
            *self._annotated(self._kept.annotations_of(name), toml_text(spec).strip() if spec else ""),
            name=name,
            type="application/x-fmu-sharedlibrary",
            source=self._resource(fmu.path),
            implementation=implementation[fmu.interface_name] if both else None,
        )

    def _resource(self, path: Path) -> str:
        for name, other in self.resources.items():
            if other == path:
                return name
        stem = "".join(c if c.isalnum() or c in "-._" else "_" for c in path.stem) or "model"
        name, count = f"resources/{stem}.fmu", 2
        while name in self.resources:
            name, count = f"resources/{stem}_{count}.fmu", count + 1
        self.resources[name] = path
        return name
