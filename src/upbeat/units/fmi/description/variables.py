"""Variables of both versions of FMI, with everything they inherit and refer to filled in."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from upbeat.core.ports import MAX_CELLS
from upbeat.units.fmi.description.attributes import UINT64, Attributes
from upbeat.units.fmi.description.findings import Findings, shown
from upbeat.units.fmi.description.model import (
    Dimension,
    Properties,
    StartValue,
    TypeDefinition,
    UnitDefinition,
    Variable,
)
from upbeat.units.fmi.description.references import References, variable_elements, where
from upbeat.units.fmi.description.rules import check_start, initial_of, variability_of
from upbeat.units.fmi.description.types import read_properties
from upbeat.units.fmi.description.values import check_values, has_start, read_start
from upbeat.units.fmi.description.words import FMI2_TYPES, Causality, Initial, Type, Variability
from upbeat.units.fmi.xml import Element

_CLOCK_CAUSALITIES = (Causality.INPUT, Causality.OUTPUT, Causality.LOCAL)


class VariableReader:
    """Reads the variables of one description, given what came before them."""

    def __init__(
        self,
        version: int,
        types: Mapping[str, TypeDefinition],
        units: tuple[UnitDefinition, ...],
        references: References,
        findings: Findings,
    ) -> None:
        self.version = version
        self.types = types
        self.units = {unit.name: {display.name for display in unit.display} for unit in units}
        self.references = references
        self.findings = findings

    def read(self, root: Element) -> tuple[Variable, ...]:
        """All variables, aliases of FMI 3 right behind theirs."""
        drafts = []
        for element in variable_elements(root, self.version):
            if (variable := self._variable(element)) is not None:
                drafts.append((element, variable))
        by_name = {variable.name: variable for _, variable in drafts}
        found: list[Variable] = []
        for element, draft in drafts:
            at = Attributes(element, self.findings, where(draft.name))
            variable = replace(draft, shape=self._shape(draft, by_name, at))
            check_values(variable, at)
            self._check_links(variable, by_name, at)
            found.append(variable)
            if self.version == 3:
                found.extend(self._aliases(element, variable, by_name))
        self._check_independent(found)
        return tuple(found) if self.version == 3 else _with_aliases(found)

    def _variable(self, element: Element) -> Variable | None:
        name = element.attributes.get("name", "")
        at = Attributes(element, self.findings, where(name))
        typed, kind = self._kind(element, at)
        if typed is None or kind is None:
            return None
        own = Attributes(typed, self.findings, at.where)
        declared, definition = own.text("declaredType"), self._declared(own, kind)
        causality = at.choice("causality", Causality) or Causality.LOCAL
        variability = variability_of(at.choice("variability", Variability), causality, kind, at)
        initial = initial_of(at.choice("initial", Initial), causality, variability, kind, at)
        properties = read_properties(own, kind, definition.properties if definition else None)
        self._check_unit(properties, own)
        number = own.whole("derivative")
        clocks = at.wholes("clocks") or []
        previous = at.whole("previous")
        resolve = self.references.resolve
        linked = [resolve(clock, "clocks", at) for clock in clocks]
        return Variable(
            name=name,
            reference=_reference(element),
            type=kind,
            causality=causality,
            variability=variability,
            initial=initial,
            start=self._start(typed, kind, causality, initial, at),
            description=at.text("description") or "",
            declared_type=declared,
            properties=properties,
            items=definition.items if definition else (),
            dimensions=self._dimensions(element) if self.version == 3 else (),
            derivative_of=None if number is None else resolve(number, "derivative", own),
            reinit=own.flag("reinit"),
            previous=None if previous is None else resolve(previous, "previous", at),
            clocks=tuple(clock for clock in linked if clock is not None),
            intermediate_update=at.flag("intermediateUpdate"),
            multiple_set_per_instant=at.flag("canHandleMultipleSetPerTimeInstant", default=True),
            line=element.line,
        )

    def _kind(self, element: Element, at: Attributes) -> tuple[Element | None, Type | None]:
        """The element with the typed attributes, and the type."""
        if self.version == 3:
            return element, Type(element.tag)
        typed = next(element.all(*FMI2_TYPES), None)
        if typed is None:
            at.error("it does not say of what kind it is (Real, Integer, Boolean, String or Enumeration)")
            return None, None
        return typed, FMI2_TYPES[typed.tag]

    def _declared(self, own: Attributes, kind: Type) -> TypeDefinition | None:
        name = own.text("declaredType")
        if name is None:
            if kind is Type.ENUMERATION:
                own.violation("an enumeration needs a declaredType, which has its items")
            return None
        definition = self.types.get(name)
        if definition is None:
            own.violation(f"the declared type '{shown(name)}' is not defined")
        elif definition.type is not kind:
            own.error(f"the declared type '{shown(name)}' is {definition.type.value}, not {kind.value}")
            return None
        return definition

    def _check_unit(self, properties: Properties, at: Attributes) -> None:
        unit, display = properties.unit, properties.display_unit
        if unit is not None and unit not in self.units:
            at.warning(f"the unit '{shown(unit)}' is not defined")
        elif display is not None and display != unit and display not in self.units.get(unit or "", ()):
            at.warning(f"the display unit '{shown(display)}' is not defined")

    def _start(
        self, typed: Element, kind: Type, causality: Causality, initial: Initial | None, at: Attributes
    ) -> tuple[StartValue, ...] | None:
        present = has_start(typed, kind, self.version)
        if not check_start(present, causality, initial, kind, at):
            return None
        return read_start(typed, kind, self.version, at)

    def _dimensions(self, element: Element) -> tuple[Dimension, ...]:
        found = []
        for child in element.all("Dimension"):
            at = Attributes(child, self.findings, where(element.attributes.get("name", "")))
            size, number = at.whole("start", UINT64), at.whole("valueReference")
            if at.has("start") == at.has("valueReference"):
                at.error("a dimension has either a start or a valueReference")
            name = None if number is None else self.references.resolve(number, "Dimension", at)
            found.append(Dimension(size, None if size is not None else name))
        return tuple(found)

    def _shape(self, variable: Variable, known: Mapping[str, Variable], at: Attributes) -> tuple[int, ...]:
        shape = []
        for dimension in variable.dimensions:
            size = dimension.size
            if dimension.parameter is not None:
                size = _size_from(known.get(dimension.parameter), dimension.parameter, at)
            shape.append(1 if size is None else size)
        if math.prod(shape) > MAX_CELLS:
            at.error(f"an array has at most {MAX_CELLS:,} cells, not {math.prod(shape):,}")
        return tuple(shape)

    def _check_links(self, variable: Variable, known: Mapping[str, Variable], at: Attributes) -> None:
        state = known.get(variable.derivative_of or "")
        if state is not None and not (state.type.is_float and variable.type.is_float):
            at.error(f"it cannot be the derivative of '{shown(state.name)}': both must be real")
        for clock in (known[name] for name in variable.clocks if name in known):
            if clock.type is not Type.CLOCK:
                at.error(f"clocks: '{shown(clock.name)}' is not a clock")
        if variable.type is Type.CLOCK and variable.causality not in _CLOCK_CAUSALITIES:
            at.error(f"a clock is an input, an output or local, not '{variable.causality.value}'")
        structural = variable.causality is Causality.STRUCTURAL_PARAMETER
        if structural and self.version == 2:
            at.error("FMI 2 has no structural parameters")

    def _aliases(self, element: Element, variable: Variable, known: dict[str, Variable]) -> list[Variable]:
        found = []
        for child in element.all("Alias"):
            at = Attributes(child, self.findings, where(variable.name))
            name = at.required("name")
            if not name or name in known:
                at.error(f"the alias '{shown(name)}' is not a new name")
                continue
            shown_in = at.text("displayUnit") or variable.properties.display_unit
            alias = replace(
                variable,
                name=name,
                description=at.text("description") or "",
                properties=replace(variable.properties, display_unit=shown_in),
                alias_of=variable.name,
                line=child.line,
            )
            known[name] = alias
            found.append(alias)
        return found

    def _check_independent(self, variables: list[Variable]) -> None:
        found = [v for v in variables if v.causality is Causality.INDEPENDENT and v.alias_of is None]
        for extra in found[1:]:
            self.findings.error(extra.line, where(extra.name), "there is only one independent variable")
        for variable in found:
            if not variable.type.is_float:
                self.findings.error(variable.line, where(variable.name), "the independent variable is real")


def _reference(element: Element) -> int:
    """The value reference, which `References` has checked."""
    text = element.attributes.get("valueReference", "").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 11 else 0


def _size_from(parameter: Variable | None, name: str, at: Attributes) -> int | None:
    """The size that a structural parameter gives at the start."""
    if parameter is None:
        return None  # reported where it was resolved
    structural = parameter.causality is Causality.STRUCTURAL_PARAMETER
    if not structural and parameter.variability is not Variability.CONSTANT:
        at.error(f"the size '{shown(name)}' of an array is not a structural parameter")
        return None
    start = parameter.start[0] if parameter.start else None
    if not isinstance(start, int) or isinstance(start, bool) or start < 0:
        at.error(f"the size '{shown(name)}' of an array has no start value that is a size")
        return None
    return start


def _with_aliases(variables: list[Variable]) -> tuple[Variable, ...]:
    """FMI 2: variables of one type with one value reference are the same; the first one leads."""
    first: dict[tuple[Type, int], str] = {}
    found = []
    for variable in variables:
        # Enumerations and integers are read by the same call, so they share their references.
        kind = Type.INT32 if variable.type is Type.ENUMERATION else variable.type
        leader = first.setdefault((kind, variable.reference), variable.name)
        found.append(variable if leader == variable.name else replace(variable, alias_of=leader))
    return tuple(found)
