"""modelDescription.xml of an exported scenario, in the words of FMI 2.0 and of FMI 3.0."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from upbeat.core import measure
from upbeat.core.expr import names
from upbeat.core.names import cell_names
from upbeat.core.ports import Kind, Port, Value
from upbeat.core.records import dataclass
from upbeat.generate.export import Exported, Variable
from upbeat.units.fmi.xml import Element, element, group
from upbeat.version import __version__

DISCARD = "upbeat.discard_at_events"
"""FMI 2: the parameter that lets steps end at events."""


@dataclass(frozen=True)
class Scalar:
    """A variable of the FMU: in FMI 2 each cell of an array is one."""

    name: str
    of: Variable
    cell: int
    cells: int
    reference: int

    @property
    def start(self) -> Sequence[Value]:
        values = self.of.start or ()
        return values[self.cell : self.cell + self.cells]


def scalars(variables: Sequence[Variable], first: int, *, arrays: bool) -> list[Scalar]:
    """Variables with their value references from `first` on."""
    found: list[Scalar] = []
    for variable in variables:
        size = variable.port.size
        if size is None or arrays:
            found.append(Scalar(variable.name, variable, 0, variable.port.cells, len(found) + first))
            continue
        for i, name in enumerate(cell_names(variable.name, size)):
            found.append(Scalar(name, variable, i, 1, len(found) + first))
    return found


class Header(NamedTuple):
    """What a description says besides its variables."""

    identifier: str
    token: str
    sources: bool
    discards: bool
    """Whether there is the parameter `DISCARD`, with value reference 1."""
    slopes: bool
    """Whether directional derivatives are known."""


_WORD = r"(?:[A-Za-z_][A-Za-z0-9_]*|'(?:[A-Za-z0-9_!#$%&()*+,./:;<>=?@\[\]^{}|~ -])+')"
_INDEX = r"(?:\[\d+(?:,\d+)*\])?"
_PATH = rf"{_WORD}{_INDEX}(?:\.{_WORD}{_INDEX})*"
_STRUCTURED = re.compile(rf"{_PATH}|der\({_PATH}(?:,\d+)?\)")


class _Description:
    """What both versions say alike."""

    def __init__(self, made: Exported, about: Header, variables: Sequence[Scalar]) -> None:
        self.made, self.about, self.scalars = made, about, variables
        self._units: dict[str, Element] = {}
        self._types: dict[tuple[str, ...], str] = {}

    @property
    def exchange(self) -> bool:
        return self.made.equations is not None

    @property
    def naming(self) -> str:
        """Structured, as paths of identifiers, if all names are such; otherwise any text will do."""
        return "structured" if all(_STRUCTURED.fullmatch(one.name) for one in self.scalars) else "flat"

    def unit(self, port: Port) -> str | None:
        """The name of a unit of measure, which is defined."""
        if port.unit is None or port.kind is not Kind.REAL:
            return None
        if port.unit not in self._units:
            found = measure.in_si(port.unit)
            base = None
            if found is not None:
                powers, change = found
                base = element("BaseUnit")
                base.attributes |= {name: str(power) for name, power in powers.items()}
                base.attributes |= {"factor": repr(change.scale)} if change.scale != 1.0 else {}
                base.attributes |= {"offset": repr(change.offset)} if change.offset else {}
            self._units[port.unit] = element("Unit", base, name=port.unit)
        return port.unit

    def enumeration(self, port: Port) -> str:
        """The name of an enumeration."""
        key = (*port.items, *map(str, port.codes))
        return self._types.setdefault(key, f"Enumeration{len(self._types) + 1}")

    def enumerations(self) -> Iterator[tuple[str, list[Element]]]:
        """All of them, with their items."""
        ports = {
            (port.items, port.codes): port for port in (one.of.port for one in self.scalars) if port.items
        }
        for port in ports.values():
            items = zip(port.items, port.codes, strict=True)
            yield self.enumeration(port), [element("Item", name=label, value=code) for label, code in items]

    def common(self) -> list[Element | None]:
        """What stands between interface and variables; call it when these are written."""
        made = self.made
        categories = {
            "logStatusError": "why a call failed",
            "logStatusWarning": "what may be wrong",
            "logEvents": "the events of the scenario, with their times",
        }
        return [
            group("UnitDefinitions", list(self._units.values())),
            group("TypeDefinitions", list(self.types())),
            element(
                "LogCategories", *(element("Category", name=n, description=d) for n, d in categories.items())
            ),
            element("DefaultExperiment", startTime=made.start, stopTime=made.stop, stepSize=made.step),
        ]

    def types(self) -> Iterator[Element]:
        raise NotImplementedError

    def needed(self, one: Scalar) -> list[Scalar] | None:
        """What an output or derivative depends on, at one instant: inputs, and in model exchange states. None: on all."""
        known = [other for other in self.scalars if other.of.role in ("input", "state")]
        equations = self.made.equations
        if equations is None:
            return [other for other in known if other.of.name in one.of.depends]
        if one.of.role == "state":
            return [other for other in known if other.of is one.of and other.cell == one.cell]
        cells = self._cells(one)
        read = set().union(*(names(equations.written_out(cell)) for cell in cells))
        found = []
        for other in known:
            ports = (
                self.made.ports if other.of.role == "input" else [state.port for state in equations.states]
            )
            place = other.of.number if other.of.role == "input" else self._place(other.of)
            port = ports[place]
            own = cell_names(port.name, port.size)[other.cell : other.cell + other.cells]
            if not read.isdisjoint(own):
                found.append(other)
        return found

    def _place(self, state: Variable) -> int:
        """The place of a state among all, by that of its first cell."""
        assert self.made.equations is not None
        at = 0
        for place, one in enumerate(self.made.equations.states):
            if at == state.number:
                return place
            at += one.port.cells
        raise AssertionError("a state that is none")

    def _cells(self, one: Scalar) -> Sequence[Any]:
        equations = self.made.equations
        assert equations is not None
        if one.of.role == "rate":
            cells = [cell for state in equations.states for cell in state.derivative.cells]
            return cells[one.of.number + one.cell : one.of.number + one.cell + one.cells]
        if one.of.role == "indicator":
            found = [event.indicator for event in equations.events if event.indicator is not None]
            return [found[one.of.number]]
        name = self.made.ports[one.of.number].name
        output = next(output for output in equations.outputs if output.port.name == name)
        return output.definition.cells[one.cell : one.cell + one.cells]

    def outputs(self) -> list[Scalar]:
        return [one for one in self.scalars if one.of.is_output]

    def rates(self) -> list[Scalar]:
        return [one for one in self.scalars if one.of.role == "rate"]

    def calculated(self) -> list[Scalar]:
        """What initialization has to find out."""
        return [
            one
            for one in self.scalars
            if one.of.role == "rate" or (one.of.is_output and one.of.start is None)
        ]


def _texts(values: Sequence[Value]) -> str:
    return " ".join(
        str(v).lower() if isinstance(v, bool) else repr(v) if isinstance(v, float) else str(v) for v in values
    )


def _words(of: Variable) -> tuple[str, str, str | None]:
    """Causality, variability and initial of a variable; None: the usual one."""
    changes = "discrete" if of.discrete else "continuous"
    match of.role:
        case "input":
            return "input", changes, None
        case "parameter":
            return "parameter", "fixed", None
        case "tunable":
            return "parameter", "tunable", None
        case "constant":
            return "local", "constant", "exact"
    return "output" if of.is_output else "local", changes, "calculated" if of.start is None else "exact"


# ----------------------------------------------------------------------------------------------------


class Description2(_Description):
    """The description of FMI 2.0."""

    def root(self) -> Element:
        made, about = self.made, self.about
        variables = [self._scalar(one) for one in self.scalars]
        if about.discards:
            text = "whether a step ends at the first event of the scenario, with the status discard"
            setting = element(
                "ScalarVariable", element("Boolean", start=False), name=DISCARD, valueReference=1
            )
            setting.attributes |= {"description": text, "causality": "parameter", "variability": "tunable"}
            variables.insert(0, setting)
        return element(
            "fmiModelDescription",
            self._interface(),
            *self.common(),
            element("ModelVariables", *variables),
            self._structure(),
            fmiVersion="2.0",
            modelName=made.name,
            guid=about.token,
            generationTool=f"Upbeat {__version__}",
            variableNamingConvention=self.naming,
            numberOfEventIndicators=sum(one.of.role == "indicator" for one in self.scalars),
        )

    def _interface(self) -> Element:
        made, about = self.made, self.about
        sources = element("SourceFiles", element("File", name="fmu.c")) if about.sources else None
        found = element(
            "ModelExchange" if self.exchange else "CoSimulation", sources, modelIdentifier=about.identifier
        )
        said = {
            "canHandleVariableCommunicationStepSize": not self.exchange,
            "canInterpolateInputs": not self.exchange,
            "completedIntegratorStepNotNeeded": self.exchange,
            "canNotUseMemoryManagementFunctions": True,
            "canGetAndSetFMUstate": made.saves,
            "canSerializeFMUstate": made.saves and made.serialises,
            "providesDirectionalDerivative": about.slopes,
        }
        found.attributes |= {name: "true" for name, true in said.items() if true}
        if made.rates:
            found.attributes["maxOutputDerivativeOrder"] = "1"
        return found

    def types(self) -> Iterator[Element]:
        for name, items in self.enumerations():
            yield element("SimpleType", element("Enumeration", *items), name=name)

    def _scalar(self, one: Scalar) -> Element:
        of, port = one.of, one.of.port
        start = _texts(one.start) if of.start is not None else None
        match port.kind:
            case Kind.REAL:
                inner = element("Real", unit=self.unit(port), start=start)
            case Kind.INTEGER if port.items:
                inner = element("Enumeration", declaredType=self.enumeration(port), start=start)
            case Kind.INTEGER:
                inner = element("Integer", start=start)
            case Kind.BOOLEAN:
                inner = element("Boolean", start=start)
            case Kind.STRING:
                inner = element("String", start=start)
        if of.role == "rate":
            inner.attributes["derivative"] = str(self._index(self._state(one)))
        causality, variability, initial = _words(of)
        return element(
            "ScalarVariable", inner, name=one.name, valueReference=one.reference,
            description=port.description or None, causality=causality, variability=variability, initial=initial,
        )  # fmt: skip

    def _state(self, rate: Scalar) -> Scalar:
        return next(
            one for one in self.scalars
            if one.of.role == "state" and (one.of.number, one.cell) == (rate.of.number, rate.cell)
        )  # fmt: skip

    def _index(self, one: Scalar) -> int:
        """The place of a variable among all, from 1 on: the time, with reference 0, is none of them."""
        return one.reference

    def _unknown(self, one: Scalar) -> Element:
        needed = self.needed(one)
        listed = None if needed is None else " ".join(str(self._index(other)) for other in needed)
        return element("Unknown", index=self._index(one), dependencies=listed)

    def _structure(self) -> Element:
        initial = [element("Unknown", index=self._index(one)) for one in self.calculated()]
        return element(
            "ModelStructure",
            group("Outputs", [self._unknown(one) for one in self.outputs()]),
            group("Derivatives", [self._unknown(one) for one in self.rates()]),
            group("InitialUnknowns", initial),
        )


class Description3(_Description):
    """The description of FMI 3.0."""

    def root(self) -> Element:
        made, about = self.made, self.about
        taken = {one.name for one in self.scalars}
        time = next(name for name in ("time", "independent_time", "the_time") if name not in taken)
        variables = [
            element(
                "Float64", name=time, valueReference=0, causality="independent", variability="continuous"
            ),
            *(self._variable(one) for one in self.scalars),
        ]
        return element(
            "fmiModelDescription",
            self._interface(),
            *self.common(),
            element("ModelVariables", *variables),
            self._structure(),
            fmiVersion="3.0",
            modelName=made.name,
            instantiationToken=about.token,
            generationTool=f"Upbeat {__version__}",
            variableNamingConvention=self.naming,
        )

    def _interface(self) -> Element:
        made, about = self.made, self.about
        found = element(
            "ModelExchange" if self.exchange else "CoSimulation", modelIdentifier=about.identifier
        )
        said = {
            "canHandleVariableCommunicationStepSize": not self.exchange,
            "canGetAndSetFMUState": made.saves,
            "canSerializeFMUState": made.saves and made.serialises,
            "providesDirectionalDerivatives": about.slopes,
            "hasEventMode": made.eventful and not self.exchange,
            "mightReturnEarlyFromDoStep": made.eventful and not self.exchange,
        }
        found.attributes |= {name: "true" for name, true in said.items() if true}
        if self.exchange:
            found.attributes["needsCompletedIntegratorStep"] = "false"
        if made.rates:
            found.attributes["maxOutputDerivativeOrder"] = "1"
        return found

    def types(self) -> Iterator[Element]:
        for name, items in self.enumerations():
            yield element("EnumerationType", *items, name=name)

    def _variable(self, one: Scalar) -> Element:
        of, port = one.of, one.of.port
        causality, variability, initial = _words(of)
        tag = {Kind.REAL: "Float64", Kind.BOOLEAN: "Boolean", Kind.STRING: "String"}.get(port.kind, "Int64")
        attributes: dict[str, Any] = {
            "name": one.name,
            "valueReference": one.reference,
            "description": port.description or None,
            "causality": causality,
            "variability": variability,
            "initial": initial,
            "declaredType": self.enumeration(port) if port.items else None,
            "unit": self.unit(port),
        }
        if of.role == "rate":
            state = next(s for s in self.scalars if s.of.role == "state" and s.of.number == of.number)
            attributes["derivative"] = state.reference
        children = [element("Dimension", start=port.size)] if port.size is not None else []
        if of.start is not None and port.kind is Kind.STRING:
            children += [element("Start", value=str(v)) for v in one.start]
        elif of.start is not None:
            attributes["start"] = _texts(one.start)
        return element("Enumeration" if port.items else tag, *children, **attributes)

    def _unknown(self, tag: str, one: Scalar) -> Element:
        needed = self.needed(one)
        listed = None if needed is None else " ".join(str(other.reference) for other in needed)
        return element(tag, valueReference=one.reference, dependencies=listed)

    def _structure(self) -> Element:
        return element(
            "ModelStructure",
            *(self._unknown("Output", one) for one in self.outputs()),
            *(self._unknown("ContinuousStateDerivative", one) for one in self.rates()),
            *(element("InitialUnknown", valueReference=one.reference) for one in self.calculated()),
            *(self._unknown("EventIndicator", one) for one in self.scalars if one.of.role == "indicator"),
        )


# ----------------------------------------------------------------------------------------------------

TERMINALS = "terminalsAndIcons/terminalsAndIcons.xml"
"""Where FMUs of FMI 3.0 say which of their variables belong together."""


def terminals(inner: Sequence[tuple[str, Element]], known: Sequence[Scalar]) -> Element | None:
    """The terminals of FMUs inside, by their paths, of which all variables are seen outside; None: there are none."""
    seen = {one.name for one in known}
    found = []
    for path, root in inner:
        for terminal in (one for these in root.all("Terminals") for one in these.all("Terminal")):
            moved = _moved(terminal, path, seen)
            if moved is not None:
                moved.attributes["name"] = f"{path}.{moved.attributes.get('name', '')}"
                found.append(moved)
    if not found:
        return None
    return element("fmiTerminalsAndIcons", element("Terminals", *found), fmiVersion="3.0")


_MEMBERS = {
    "TerminalMemberVariable": ("variableName",),
    "TerminalStreamMemberVariable": ("inStreamVariableName", "outStreamVariableName"),
}


def _moved(terminal: Element, path: str, seen: set[str]) -> Element | None:
    """A terminal and those inside it, without its drawing; None if some variable is connected inside."""
    parts: list[Element] = []
    for part in terminal.all(*_MEMBERS, "Terminal"):
        moved = _moved(part, path, seen) if part.tag == "Terminal" else element(part.tag, **part.attributes)
        if moved is None:
            return None
        for key in _MEMBERS.get(part.tag, ()):
            moved.attributes[key] = f"{path}.{moved.attributes.get(key, '')}"
            if moved.attributes[key] not in seen:
                return None
        parts.append(moved)
    return element("Terminal", *parts, **terminal.attributes)
