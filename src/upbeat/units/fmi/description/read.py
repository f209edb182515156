"""Reading and checking modelDescription.xml."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from upbeat.core.errors import ModelError
from upbeat.core.ports import MAX_CELLS
from upbeat.units.fmi import xml
from upbeat.units.fmi.description.attributes import UINT64, Attributes, Findings, flag, real, shown, whole
from upbeat.units.fmi.description.model import (
    FMI2_TYPES,
    BaseUnit,
    Causality,
    ClockInterval,
    CoSimulation,
    DefaultExperiment,
    DependencyKind,
    Dimension,
    DisplayUnit,
    Initial,
    IntervalVariability,
    Item,
    ModelDescription,
    ModelExchange,
    Properties,
    ScheduledExecution,
    StartValue,
    Structure,
    Type,
    TypeDefinition,
    UnitDefinition,
    Unknown,
    Variability,
    Variable,
)
from upbeat.units.fmi.xml import Element

# -- how variables refer to each other in a file: by position in FMI 2, by value reference in FMI 3 ------


_FMI3_TAGS = {kind.value for kind in Type}


def variable_elements(root: Element, version: int) -> Iterator[Element]:
    """The elements of all variables, in order; what a later version may have added is passed over."""
    for group in root.all("ModelVariables"):
        yield from group.all("ScalarVariable") if version == 2 else group.all(*_FMI3_TAGS)


class References:
    """Turns the numbers by which a file refers to variables into their names."""

    def __init__(self, root: Element, version: int, findings: Findings) -> None:
        self.version = version
        self._names: dict[int, str] = {}
        seen: set[str] = set()
        for position, element in enumerate(variable_elements(root, version), start=1):
            at = Attributes(element, findings, "ModelVariables")
            name = at.required("name")
            at.where = where(name)
            if at.has("name") and not name:
                at.error("a variable needs a name")
            if name and name in seen:
                at.error("there are two variables of this name")
            seen.add(name)
            number = at.whole("valueReference")
            if number is None:
                if not at.has("valueReference"):
                    at.error("the attribute 'valueReference' is missing")
                number = -1
            key = position if version == 2 else number
            if version == 3 and number >= 0 and key in self._names:
                at.error(f"it has the value reference {key} of '{shown(self._names[key])}'")
            self._names.setdefault(key, name)

    def name(self, number: int) -> str | None:
        """The name of the variable that a file calls `number`."""
        return self._names.get(number)

    def resolve(self, number: int, attribute: str, at: Attributes) -> str | None:
        """The same, with an error if there is none."""
        found = self.name(number)
        if found is None:
            noun = "variable number" if self.version == 2 else "variable with the value reference"
            at.error(f"{attribute}: there is no {noun} {number}")
        return found


def where(name: str) -> str:
    """How messages speak of a variable."""
    return f"variable '{shown(name)}'"


# -- which causality, variability and initial go together ------------------------------------------------
#
# The tables of FMI 2.0 (section 2.2.7) and FMI 3.0 (section 2.4.7.4), which agree but for structural
# parameters.


_C, _V, _I = Causality, Variability, Initial

_EXACT: tuple[Initial, ...] = (_I.EXACT,)
_FOUND: tuple[Initial, ...] = (_I.CALCULATED, _I.APPROX)
_ANY: tuple[Initial, ...] = (_I.CALCULATED, _I.EXACT, _I.APPROX)
_NONE: tuple[Initial, ...] = ()

INITIALS: dict[tuple[Causality, Variability], tuple[Initial, ...]] = {
    **{(c, v): _EXACT for c in (_C.PARAMETER, _C.STRUCTURAL_PARAMETER) for v in (_V.FIXED, _V.TUNABLE)},
    **{(_C.CALCULATED_PARAMETER, v): _FOUND for v in (_V.FIXED, _V.TUNABLE)},
    **{(_C.INPUT, v): _EXACT for v in (_V.DISCRETE, _V.CONTINUOUS)},
    (_C.OUTPUT, _V.CONSTANT): _EXACT,
    **{(_C.OUTPUT, v): _ANY for v in (_V.DISCRETE, _V.CONTINUOUS)},
    (_C.LOCAL, _V.CONSTANT): _EXACT,
    **{(_C.LOCAL, v): _FOUND for v in (_V.FIXED, _V.TUNABLE)},
    **{(_C.LOCAL, v): _ANY for v in (_V.DISCRETE, _V.CONTINUOUS)},
    (_C.INDEPENDENT, _V.CONTINUOUS): _NONE,
}
"""The combinations that are allowed, with what `initial` may be; the first one is the default."""

_PARAMETERS = (_C.PARAMETER, _C.CALCULATED_PARAMETER, _C.STRUCTURAL_PARAMETER)


def variability_of(
    given: Variability | None, causality: Causality, kind: Type, at: Attributes
) -> Variability:
    """The variability that counts, given what the file says (`at` takes the warnings)."""
    version_2 = at.element.tag == "ScalarVariable"
    if given is None and causality in _PARAMETERS:
        if version_2:
            at.warning(
                "a parameter without variability would be continuous, which it cannot be: taken as fixed"
            )
        return _V.FIXED
    if given is None:
        return _V.CONTINUOUS if kind.is_float else _V.DISCRETE
    if given is _V.CONTINUOUS and not kind.is_float and version_2:
        # FMI 2's default is 'continuous' for every type, so tools write it out.
        at.warning("only real variables can be continuous: taken as discrete")
        return _V.DISCRETE
    if given is _V.CONTINUOUS and not kind.is_float:
        at.violation("only real variables can be continuous: taken as discrete")
        return _V.DISCRETE
    return given


def initial_of(
    given: Initial | None, causality: Causality, variability: Variability, kind: Type, at: Attributes
) -> Initial | None:
    """The `initial` that counts; reports combinations that the standards forbid."""
    possible = INITIALS.get((causality, variability))
    if possible is None:
        # What counts is what the variable is for: a constant parameter is a value that cannot be changed.
        at.violation(
            f"causality '{causality.value}' and variability '{variability.value}' exclude each other"
        )
        if causality is _C.INDEPENDENT or kind is Type.CLOCK:
            return None
        settable = causality in (_C.PARAMETER, _C.STRUCTURAL_PARAMETER, _C.INPUT)
        return _I.EXACT if settable or variability is _V.CONSTANT else given or _I.CALCULATED
    if kind is Type.CLOCK:
        return None
    default = possible[0] if possible else None
    if given is None or given in possible:
        if given is not None and causality is _C.INPUT and at.element.tag == "ScalarVariable":
            at.warning("FMI 2 has no 'initial' for an input")
        return given or default
    if not possible:
        at.violation(f"initial cannot be given for causality '{causality.value}'")
    else:
        words = " or ".join(f"'{word.value}'" for word in possible)
        at.violation(
            f"initial '{given.value}' does not go with causality '{causality.value}' and variability "
            f"'{variability.value}': it can be {words}"
        )
    return default


def check_start(
    present: bool, causality: Causality, initial: Initial | None, kind: Type, at: Attributes
) -> bool:
    """Whether the start value counts; reports one that is missing or not allowed."""
    if kind is Type.CLOCK:
        if present:
            at.warning("a clock has no start value: ignored")
        return False
    if causality is _C.INDEPENDENT or initial is _I.CALCULATED:
        if present:
            why = (
                "the independent variable"
                if causality is _C.INDEPENDENT
                else "a variable with initial 'calculated'"
            )
            at.warning(f"{why} has no start value: ignored")
        return False
    if not present and causality is _C.INPUT:
        at.warning("an input needs a start value: the FMU's own is taken")
    elif not present:
        at.violation(
            f"a start value is missing (causality '{causality.value}', initial '{_word(initial)}' need one)"
        )
    return present


def _word(initial: Initial | None) -> str:
    return initial.value if initial else "none"


# -- type definitions, and the properties that types and variables share ---------------------------------


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


# -- unit definitions and display units ------------------------------------------------------------------


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


# -- start values: from text to numbers, checked against type, bounds and size ---------------------------


_FEW = 1000
"""With more items it was no slip by hand, and looking through them for every variable takes its time."""


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


# -- the model structure: what an FMU computes, and from what --------------------------------------------


_PARTS = {
    "outputs": ("Outputs", "Output"),
    "derivatives": ("Derivatives", "ContinuousStateDerivative"),
    "clocked_states": ("ClockedStates", "ClockedState"),
    "initial_unknowns": ("InitialUnknowns", "InitialUnknown"),
    "event_indicators": ("EventIndicators", "EventIndicator"),
}
_KINDS = {kind.value: kind for kind in DependencyKind}


def read_structure(
    root: Element,
    references: References,
    variables: tuple[Variable, ...],
    findings: Findings,
    *,
    solved_outside: bool,
) -> Structure:
    """All parts of the model structure. With `solved_outside` every derivative needs its state."""
    element = root.first("ModelStructure")
    if element is None:
        findings.warning(root.line, "", "ModelStructure is missing: every output may depend on every input")
        element = Element("ModelStructure", {}, root.line)
    parts = {
        part: tuple(_unknowns(element, part, tags, references, findings)) for part, tags in _PARTS.items()
    }
    known = {variable.name: variable for variable in variables}
    parts["outputs"] = _complete(parts["outputs"], variables, known, element, findings)
    for unknown in parts["derivatives"]:
        variable = known.get(unknown.variable)
        if variable is not None and variable.derivative_of is None:
            what = "it is listed as a derivative, but does not say of which state"
            report = findings.error if solved_outside else findings.warning
            report(variable.line, where(variable.name), what)
    return Structure(**parts)


def _unknowns(
    structure: Element, part: str, tags: tuple[str, str], references: References, findings: Findings
) -> Iterator[Unknown]:
    group, single = tags
    if references.version == 2:
        elements = [unknown for outer in structure.all(group) for unknown in outer.all("Unknown")]
        attribute = "index"
    else:
        elements = list(structure.all(single))
        attribute = "valueReference"
    seen: set[str] = set()
    for element in elements:
        at = Attributes(
            element, findings, f"ModelStructure › {element.tag if references.version == 3 else group}"
        )
        number = at.whole(attribute)
        if number is None:
            if not at.has(attribute):
                at.error(f"the attribute '{attribute}' is missing")
            continue
        name = references.resolve(number, attribute, at)
        if name is None:
            continue
        if name in seen:
            at.warning(f"'{shown(name)}' is listed twice")
            continue
        seen.add(name)
        yield Unknown(name, _dependencies(at, references))


def _dependencies(at: Attributes, references: References) -> tuple[tuple[str, DependencyKind], ...] | None:
    numbers = at.wholes("dependencies")
    words = at.text("dependenciesKind")
    if numbers is None:
        if words is not None:
            at.warning("dependenciesKind without dependencies is ignored")
        return None
    kinds = [DependencyKind.DEPENDENT] * len(numbers)
    if words is not None:
        for word in words.split():
            if word not in _KINDS:
                at.error(f"dependenciesKind: '{shown(word)}' is not one of {', '.join(_KINDS)}")
        given = [_KINDS[word] for word in words.split() if word in _KINDS]
        if len(words.split()) != len(numbers):
            at.error(f"there are {len(numbers)} dependencies, but {len(words.split())} kinds of them")
        else:
            kinds = given if len(given) == len(kinds) else kinds
    names = [references.resolve(number, "dependencies", at) for number in numbers]
    return tuple((name, kind) for name, kind in zip(names, kinds, strict=True) if name is not None)


def _complete(
    listed: tuple[Unknown, ...],
    variables: tuple[Variable, ...],
    known: Mapping[str, Variable],
    element: Element,
    findings: Findings,
) -> tuple[Unknown, ...]:
    """The outputs, with those that the structure forgets, and without what is no output."""
    outputs = []
    for unknown in listed:
        variable = known.get(unknown.variable)
        if variable is not None and variable.causality is not Causality.OUTPUT:
            findings.warning(
                element.line, where(variable.name), "it is listed as an output, but is none: ignored"
            )
        else:
            outputs.append(unknown)
    names = {unknown.variable for unknown in outputs}
    # An alias need not be listed when what it stands for is.
    leaders = {known[name].alias_of or name for name in names if name in known}
    for variable in variables:
        missing = variable.causality is Causality.OUTPUT and variable.name not in names
        if missing and (variable.alias_of or variable.name) not in leaders:
            what = "this output is not in ModelStructure: it may depend on every input"
            findings.warning(variable.line, where(variable.name), what)
            outputs.append(Unknown(variable.name))
            leaders.add(variable.alias_of or variable.name)
    return tuple(outputs)


# -- the ways in which an FMU can be run, and what it declares it can do in each -------------------------


_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def read_co_simulation(root: Element, version: int, findings: Findings) -> CoSimulation | None:
    """What the FMU can do with its own solver; None if it has none."""
    at = _at(root, "CoSimulation", findings)
    if at is None:
        return None
    smoothness = at.whole("recommendedIntermediateInputSmoothness", (-(2**31), 2**31 - 1))
    asynchronous = (
        "canRunAsynchronuously",
        "canRunAsynchronously",
    )  # the standard's spelling, and the right one
    step = at.real("fixedInternalStepSize")
    if step is not None and step <= 0:
        at.warning("a fixed internal step that is not positive is ignored")
        step = None
    return CoSimulation(
        **_common(at, version),
        variable_step=at.flag("canHandleVariableCommunicationStepSize"),
        fixed_internal_step=step,
        output_derivative_order=at.whole("maxOutputDerivativeOrder") or 0,
        interpolates_inputs=at.flag("canInterpolateInputs"),
        input_smoothness=smoothness or 0,
        asynchronous=any(at.flag(name) for name in asynchronous),
        intermediate_update=at.flag("providesIntermediateUpdate"),
        may_return_early=at.flag("mightReturnEarlyFromDoStep"),
        early_return_on_demand=at.flag("canReturnEarlyAfterIntermediateUpdate"),
        event_mode=at.flag("hasEventMode"),
        evaluates_discrete_states=at.flag("providesEvaluateDiscreteStates"),
    )


def read_model_exchange(root: Element, version: int, findings: Findings) -> ModelExchange | None:
    """What the FMU can do with the importer's solver; None if it cannot."""
    at = _at(root, "ModelExchange", findings)
    if at is None:
        return None
    if version == 2:
        completed = not at.flag("completedIntegratorStepNotNeeded")
    else:
        completed = at.flag("needsCompletedIntegratorStep")
    return ModelExchange(
        **_common(at, version),
        completed_integrator_step=completed,
        evaluates_discrete_states=at.flag("providesEvaluateDiscreteStates"),
    )


def read_scheduled_execution(root: Element, version: int, findings: Findings) -> ScheduledExecution | None:
    """The importer runs its partitions; None if it cannot."""
    at = _at(root, "ScheduledExecution", findings)
    return ScheduledExecution(**_common(at, version)) if at is not None and version == 3 else None


def _at(root: Element, tag: str, findings: Findings) -> Attributes | None:
    element = root.first(tag)
    return None if element is None else Attributes(element, findings, tag)


def _common(at: Attributes, version: int) -> dict[str, Any]:
    saves = at.flag("canGetAndSetFMUstate") if version == 2 else at.flag("canGetAndSetFMUState")
    serialises = at.flag("canSerializeFMUstate") if version == 2 else at.flag("canSerializeFMUState")
    if serialises and not saves:
        at.warning("states that cannot be got and set cannot be serialised: taken as neither")
    directional = "providesDirectionalDerivative" if version == 2 else "providesDirectionalDerivatives"
    sources = (file for group in at.element.all("SourceFiles") for file in group.all("File"))
    return {
        "model_identifier": _identifier(at),
        "needs_execution_tool": at.flag("needsExecutionTool"),
        "only_once_per_process": at.flag("canBeInstantiatedOnlyOncePerProcess"),
        "without_memory_functions": at.flag("canNotUseMemoryManagementFunctions"),
        "saves_state": saves,
        "serialises_state": serialises and saves,
        "directional_derivatives": at.flag(directional),
        "adjoint_derivatives": at.flag("providesAdjointDerivatives"),
        "per_element_dependencies": at.flag("providesPerElementDependencies"),
        "source_files": tuple(file.attributes.get("name", "") for file in sources),
    }


def _identifier(at: Attributes) -> str:
    """The name of the library, which must never be a path."""
    name = at.required("modelIdentifier")
    if at.has("modelIdentifier") and (
        not name.strip() or any(bad in name for bad in "/\\\0\n") or ".." in name
    ):
        at.error(f"modelIdentifier '{shown(name)}' cannot be the name of a library")
    elif name and not _IDENTIFIER.fullmatch(name):
        at.warning(f"modelIdentifier '{shown(name)}' is not an identifier of C")
    return name


# -- variables of both versions of FMI, with everything they inherit and refer to filled in --------------


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


# -- modelDescription.xml of FMI 2.0 and 3.0, read into one form -----------------------------------------


NAME = "modelDescription.xml"

_VERSION = re.compile(r"([23])\.(\d{1,3})(?:[.-].*)?")


def read_description(folder: Path) -> ModelDescription:
    """The description in an unpacked FMU. `FileProblem` if it is not XML, `ModelError` if it is wrong."""
    return understand(xml.read(folder / NAME), NAME)


def parse_description(data: bytes, source: str = NAME) -> ModelDescription:
    """The same from bytes; messages speak of them as `source`."""
    return understand(xml.parse(data, source), source)


def understand(root: xml.Element, source: str) -> ModelDescription:
    """The description under the element `root`; all that is wrong is reported at once."""
    findings = Findings(source)
    version, written = _version(root, source, findings)
    at = Attributes(root, findings, "")
    name = at.text("modelName")
    if name is None:
        at.warning("the attribute 'modelName' is missing")
    token = at.required("guid" if version == 2 else "instantiationToken")
    co_simulation = read_co_simulation(root, version, findings)
    model_exchange = read_model_exchange(root, version, findings)
    scheduled = read_scheduled_execution(root, version, findings)
    if not (co_simulation or model_exchange or scheduled):
        at.error("there is neither CoSimulation nor ModelExchange: the FMU cannot be run in any way")
    units = read_units(root, findings)
    types = read_types(root, version, findings)
    if root.first("ModelVariables") is None:
        at.warning("ModelVariables is missing")
    references = References(root, version, findings)
    variables = VariableReader(version, types, units, references, findings).read(root)
    structure = read_structure(
        root, references, variables, findings, solved_outside=model_exchange is not None
    )
    description = ModelDescription(
        version=version,
        written_version=written,
        name=name or "",
        token=token,
        description=at.text("description") or "",
        author=at.text("author") or "",
        model_version=at.text("version") or "",
        copyright=at.text("copyright") or "",
        license=at.text("license") or "",
        tool=at.text("generationTool") or "",
        date=at.text("generationDateAndTime") or "",
        structured_names=at.text("variableNamingConvention") == "structured",
        co_simulation=co_simulation,
        model_exchange=model_exchange,
        scheduled_execution=scheduled,
        experiment=_experiment(root, findings),
        units=units,
        types=tuple(types.values()),
        log_categories=tuple(_categories(root, findings).items()),
        variables=variables,
        structure=structure,
        event_indicator_count=_indicators(at, version, structure, {v.name: v.cells for v in variables}),
        warnings=tuple(findings.warnings),
        violations=tuple(findings.violations),
    )
    findings.raise_if_any()
    return description


def _version(root: xml.Element, source: str, findings: Findings) -> tuple[int, str]:
    if root.tag != "fmiModelDescription":
        raise ModelError(f"{source} is not a model description: it begins with <{shown(root.tag)}>")
    written = root.attributes.get("fmiVersion", "").strip()
    match = _VERSION.fullmatch(written)
    if match is None:
        what = f"is for FMI {shown(written)}" if written else "does not say its FMI version"
        raise ModelError(
            f"{source} {what}; Upbeat runs FMUs of FMI 2.0 and 3.0: export it again as one of them"
        )
    if match[2] != "0" or (match[1] == "2" and written != "2.0"):
        findings.warning(root.line, "", f"FMI {shown(written)} is read as FMI {match[1]}.0")
    return int(match[1]), written


def _experiment(root: xml.Element, findings: Findings) -> DefaultExperiment:
    element = root.first("DefaultExperiment")
    if element is None:
        return DefaultExperiment()
    at = Attributes(element, findings, "DefaultExperiment")
    start, stop = at.real("startTime"), at.real("stopTime")
    tolerance, step = at.real("tolerance"), at.real("stepSize")
    if stop is not None and stop <= (start or 0.0):
        at.warning(f"stopTime {stop} is not after the start: ignored")
        stop = None
    if tolerance is not None and tolerance <= 0:
        at.warning(f"tolerance {tolerance} is not positive: ignored")
        tolerance = None
    if step is not None and step <= 0:
        at.warning(f"stepSize {step} is not positive: ignored")
        step = None
    return DefaultExperiment(start, stop, tolerance, step)


def _categories(root: xml.Element, findings: Findings) -> dict[str, str]:
    found: dict[str, str] = {}
    for group in root.all("LogCategories"):
        for element in group.all("Category"):
            at = Attributes(element, findings, "LogCategories")
            found.setdefault(at.required("name"), at.text("description") or "")
    return found


def _indicators(at: Attributes, version: int, structure: Structure, cells: dict[str, int]) -> int:
    """FMI 2 counts event indicators, FMI 3 names them."""
    if version == 2:
        return at.whole("numberOfEventIndicators") or 0
    return sum(cells.get(unknown.variable, 1) for unknown in structure.event_indicators)
