"""The model structure: what an FMU computes, and from what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from upbeat.units.fmi.description.attributes import Attributes
from upbeat.units.fmi.description.findings import Findings, shown
from upbeat.units.fmi.description.model import Structure, Unknown, Variable
from upbeat.units.fmi.description.references import References, where
from upbeat.units.fmi.description.words import Causality, DependencyKind
from upbeat.units.fmi.xml import Element

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
