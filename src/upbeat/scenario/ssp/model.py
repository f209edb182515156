"""An SSP as plain data: what its files say, with units and enumerations looked up and files put together."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from upbeat.core.errors import Problem, ScenarioError
from upbeat.units.fmi.description import UnitDefinition
from upbeat.units.fmi.description.attributes import Findings as Notes
from upbeat.units.fmi.xml import Element

Value = float | int | bool | str
Items = tuple[tuple[str, int], ...]
"""An enumeration: its labels and their values."""


class Kind(enum.Enum):
    """What a connector is for its element."""

    INPUT = "input"
    OUTPUT = "output"
    PARAMETER = "parameter"
    CALCULATED = "calculatedParameter"
    STRUCTURAL = "structuralParameter"
    CONSTANT = "constant"
    LOCAL = "local"
    INOUT = "inout"

    @property
    def gives(self) -> bool:
        """Whether the element itself computes it."""
        return self in (Kind.OUTPUT, Kind.CALCULATED, Kind.CONSTANT, Kind.LOCAL, Kind.INOUT)

    @property
    def takes(self) -> bool:
        """Whether others decide on it."""
        return self in (Kind.INPUT, Kind.PARAMETER, Kind.STRUCTURAL, Kind.INOUT)

    @property
    def fixed(self) -> bool:
        """Whether it is settled before the run begins."""
        return self in (Kind.PARAMETER, Kind.STRUCTURAL, Kind.CALCULATED, Kind.CONSTANT)


@dataclass(frozen=True, slots=True)
class Linear:
    """``target = factor · source + offset``, after the conversion of units."""

    factor: float = 1.0
    offset: float = 0.0


@dataclass(frozen=True, slots=True)
class Table:
    """Values exchanged one by one, labels in an `enumeration`; those that are not there stay as they are."""

    entries: tuple[tuple[Value, Value], ...]
    enumeration: bool = False


Transformation = Linear | Table | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Connector:
    """A port of an element. `type` is None where the SSD leaves it to the FMU."""

    name: str
    kind: Kind
    type: str | None = None
    unit: UnitDefinition | None = None
    items: Items = ()
    dimensions: tuple[int | str | None, ...] = ()
    description: str = ""
    kept: tuple[Element, ...] = ()
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """Two connectors, ``(element, connector)``, the element empty for the system's own.

    Which of the two is the source is not said by their order but by what they are.
    """

    start: tuple[str, str]
    end: tuple[str, str]
    transformation: Transformation = None
    convert: bool = True
    indexed: bool = False
    kept: tuple[Element, ...] = ()
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A value for the variable `name`; arrays have one value per cell."""

    name: str
    values: tuple[Value, ...]
    unit: UnitDefinition | None = None
    array: bool = False
    line: int = 0


@dataclass(frozen=True, slots=True)
class MappingEntry:
    """Gives the value of one name to another."""

    source: str
    target: str
    transformation: Transformation = None
    convert: bool = True
    line: int = 0


@dataclass(frozen=True, slots=True)
class Binding:
    """Values for an element; with a mapping, only what is mapped counts. `file` is where the values stand."""

    parameters: tuple[Parameter, ...]
    mapping: tuple[MappingEntry, ...] | None
    prefix: str
    file: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """An FMU; `path` is the file itself."""

    name: str
    path: Path
    implementation: str = "any"
    connectors: tuple[Connector, ...] = ()
    bindings: tuple[Binding, ...] = ()
    settings: str = ""
    """What Upbeat itself has written down about the unit, as TOML."""
    kept: tuple[Element, ...] = ()
    file: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """A place in a system where the signals of a dictionary can be connected."""

    name: str
    dictionary: str
    connectors: tuple[Connector, ...] = ()
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """Elements and their connections. Other SSPs and SSDs that are used as components are systems, too."""

    name: str
    connectors: tuple[Connector, ...] = ()
    elements: tuple[Component | System | Reference, ...] = ()
    connections: tuple[Connection, ...] = ()
    bindings: tuple[Binding, ...] = ()
    dictionaries: Mapping[str, Mapping[str, Connector]] = field(default_factory=dict)
    """The entries of each signal dictionary, by their names."""
    kept: tuple[Element, ...] = ()
    file: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A whole SSD."""

    name: str
    version: str
    system: System
    start: float | None = None
    stop: float | None = None
    step: float | None = None
    """A step that an annotation suggests; SSP itself has no word for it."""
    settings: str = ""
    """How Upbeat itself has written that it is to be run, as TOML."""
    kept: tuple[Element, ...] = ()
    experiment_kept: tuple[Element, ...] = ()
    about: Mapping[str, str] = field(default_factory=dict)
    """Author, licence and the like."""


# ----------------------------------------------------------------------------------------------------
# What is wrong with an SSP, or not supported, collected with file and line.

_SHOWN = 200


class Findings(Notes):
    """Errors: what would make results wrong. Warnings: what does no harm, or is left out on purpose."""

    def __init__(self, source: str) -> None:
        super().__init__(source)
        self.problems: list[Problem] = []
        self.remarks: list[str] = []
        self._open: list[str] = [source]

    def within(self, file: str) -> Findings:
        """The same collection, for another file of the SSP."""
        other = Findings(self.source)
        other.problems, other.remarks, other._open = self.problems, self.remarks, [file]
        return other

    @property
    def file(self) -> str:
        """The file that is being looked at."""
        return self._open[0]

    def error(self, line: int, where: str, what: str, hint: str = "") -> None:
        place = (self.file, where) if where else (self.file,)
        self.problems.append(Problem(place, what, hint, line or None))

    def warning(self, line: int, where: str, what: str) -> None:
        at = f", line {line}" if line else ""
        self.remarks.append(f"{self.file}{at}: {f'{where}: ' if where else ''}{what}")

    def raise_if_any(self) -> None:
        """Raise a `ScenarioError` with all problems, if there are any."""
        if self.problems:
            raise ScenarioError(self.problems[:_SHOWN], self.source)
