"""What an FMU says of itself, in one frozen form for FMI 2.0 and 3.0."""

from __future__ import annotations

import enum
import math
import re
from dataclasses import field
from functools import cached_property

from upbeat.core import measure
from upbeat.core.records import dataclass

# -- the words of a model description that FMI 2 and 3 share, and what a value of each type may be -------


class Type(enum.Enum):
    """What a variable holds. FMI 2's Real is FLOAT64 and its Integer INT32."""

    FLOAT32 = "Float32"
    FLOAT64 = "Float64"
    INT8 = "Int8"
    UINT8 = "UInt8"
    INT16 = "Int16"
    UINT16 = "UInt16"
    INT32 = "Int32"
    UINT32 = "UInt32"
    INT64 = "Int64"
    UINT64 = "UInt64"
    BOOLEAN = "Boolean"
    STRING = "String"
    BINARY = "Binary"
    ENUMERATION = "Enumeration"
    CLOCK = "Clock"

    @property
    def is_float(self) -> bool:
        """Whether it holds real numbers, the only ones that can be continuous."""
        return self in (Type.FLOAT32, Type.FLOAT64)

    @property
    def range(self) -> tuple[int, int] | None:
        """The least and the greatest value of an integer or an enumeration."""
        return _RANGES.get(self)


def _range(bits: int, signed: bool) -> tuple[int, int]:
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)


_RANGES = {
    Type.INT8: _range(8, True),
    Type.UINT8: _range(8, False),
    Type.INT16: _range(16, True),
    Type.UINT16: _range(16, False),
    Type.INT32: _range(32, True),
    Type.UINT32: _range(32, False),
    Type.INT64: _range(64, True),
    Type.UINT64: _range(64, False),
    Type.ENUMERATION: _range(64, True),
}

FMI2_TYPES = {
    "Real": Type.FLOAT64,
    "Integer": Type.INT32,
    "Boolean": Type.BOOLEAN,
    "String": Type.STRING,
    "Enumeration": Type.ENUMERATION,
}
"""The element names of FMI 2. Those of FMI 3 are the values of `Type`."""


class Causality(enum.Enum):
    """Who gives a variable its value."""

    PARAMETER = "parameter"
    CALCULATED_PARAMETER = "calculatedParameter"
    STRUCTURAL_PARAMETER = "structuralParameter"
    INPUT = "input"
    OUTPUT = "output"
    LOCAL = "local"
    INDEPENDENT = "independent"


class Variability(enum.Enum):
    """When a variable may change."""

    CONSTANT = "constant"
    FIXED = "fixed"
    TUNABLE = "tunable"
    DISCRETE = "discrete"
    CONTINUOUS = "continuous"


class Initial(enum.Enum):
    """Whether the start value is the value at the start, a first guess, or not there at all."""

    EXACT = "exact"
    APPROX = "approx"
    CALCULATED = "calculated"


class DependencyKind(enum.Enum):
    """How an unknown depends on a known: with a factor that stays, or in any way (DEPENDENT)."""

    DEPENDENT = "dependent"
    CONSTANT = "constant"
    FIXED = "fixed"
    TUNABLE = "tunable"
    DISCRETE = "discrete"


class IntervalVariability(enum.Enum):
    """How the interval of a clock comes about."""

    CONSTANT = "constant"
    FIXED = "fixed"
    TUNABLE = "tunable"
    CHANGING = "changing"
    COUNTDOWN = "countdown"
    TRIGGERED = "triggered"


class InterfaceKind(enum.Enum):
    """The ways of running an FMU."""

    CO_SIMULATION = "CoSimulation"
    MODEL_EXCHANGE = "ModelExchange"
    SCHEDULED_EXECUTION = "ScheduledExecution"


# -- what an FMU says of itself, in one form for FMI 2 and 3 ---------------------------------------------
#
# References between variables (by index in FMI 2, by value reference in FMI 3) are names here.


StartValue = float | int | bool | str | bytes


@dataclass(frozen=True, slots=True)
class Note:
    """Something not quite as the standard wants it, which is tolerated: the line, where and what."""

    line: int
    where: str
    what: str

    def __str__(self) -> str:
        return (
            f"line {self.line}: {self.where}: {self.what}" if self.where else f"line {self.line}: {self.what}"
        )


@dataclass(frozen=True, slots=True)
class DefaultExperiment:
    """How the maker of the FMU would run it; None where nothing is said."""

    start: float | None = None
    stop: float | None = None
    tolerance: float | None = None
    step: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """What an FMU can do when it is run in one way. What a version of FMI does not have is False.

    FMI 2's memory functions, asynchronous steps and interpolated inputs are gone in FMI 3.
    """

    kind: InterfaceKind
    model_identifier: str
    needs_execution_tool: bool = False
    only_once_per_process: bool = False
    without_memory_functions: bool = False
    saves_state: bool = False
    serialises_state: bool = False
    directional_derivatives: bool = False
    adjoint_derivatives: bool = False
    per_element_dependencies: bool = False
    source_files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CoSimulation(Interface):
    """The FMU brings its own solver."""

    kind: InterfaceKind = InterfaceKind.CO_SIMULATION
    variable_step: bool = False
    fixed_internal_step: float | None = None
    output_derivative_order: int = 0
    interpolates_inputs: bool = False
    input_smoothness: int = 0
    asynchronous: bool = False
    intermediate_update: bool = False
    may_return_early: bool = False
    early_return_on_demand: bool = False
    event_mode: bool = False
    evaluates_discrete_states: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelExchange(Interface):
    """The FMU gives derivatives, and the importer solves."""

    kind: InterfaceKind = InterfaceKind.MODEL_EXCHANGE
    completed_integrator_step: bool = True
    evaluates_discrete_states: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledExecution(Interface):
    """The importer runs the FMU's partitions by their clocks (FMI 3)."""

    kind: InterfaceKind = InterfaceKind.SCHEDULED_EXECUTION


@dataclass(frozen=True, slots=True)
class BaseUnit:
    """SI exponents; a value in the unit is ``factor · value + offset`` in SI."""

    exponents: tuple[tuple[str, int], ...] = ()
    factor: float = 1.0
    offset: float = 0.0


@dataclass(frozen=True, slots=True)
class DisplayUnit:
    """``shown = factor · value + offset``, or with `inverse` ``factor / value``."""

    name: str
    factor: float = 1.0
    offset: float = 0.0
    inverse: bool = False


@dataclass(frozen=True, slots=True)
class UnitDefinition:
    """A unit of measure; `base` is None if the FMU only names it."""

    name: str
    base: BaseUnit | None = None
    display: tuple[DisplayUnit, ...] = ()


@dataclass(frozen=True, slots=True)
class Item:
    """One label of an enumeration. Values need not be consecutive."""

    name: str
    value: int
    description: str = ""


@dataclass(frozen=True, slots=True)
class ClockInterval:
    """When a clock ticks, as far as the description says it: in seconds, or counted in 1/resolution."""

    variability: IntervalVariability
    interval: float | None = None
    shift: float = 0.0
    supports_fraction: bool = False
    resolution: int | None = None
    interval_counter: int | None = None
    shift_counter: int = 0
    can_be_deactivated: bool = False
    priority: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Properties:
    """What a type definition says for its variables, and a variable may say itself."""

    quantity: str = ""
    unit: str | None = None
    display_unit: str | None = None
    relative: bool = False
    unbounded: bool = False
    min: float | int | None = None
    max: float | int | None = None
    nominal: float | None = None
    mime_type: str | None = None
    max_size: int | None = None
    clock: ClockInterval | None = None


@dataclass(frozen=True, slots=True)
class TypeDefinition:
    """A named type; `items` are the labels of an enumeration."""

    name: str
    type: Type
    description: str = ""
    properties: Properties = Properties()
    items: tuple[Item, ...] = ()


@dataclass(frozen=True, slots=True)
class Dimension:
    """One dimension of an array: a fixed size, or the structural parameter that gives it."""

    size: int | None = None
    parameter: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """One variable.

    * `start` has one value for a scalar and one or all for an array; None if there is none.
    * `shape` is that of the array with the structural parameters as they start; () for a scalar.
    * `alias_of` names the variable whose value this one shows under another name.
    * `initial` is None where FMI knows no such thing (independent, clocks).
    """

    name: str
    reference: int
    type: Type
    causality: Causality
    variability: Variability
    initial: Initial | None
    start: tuple[StartValue, ...] | None = None
    description: str = ""
    declared_type: str | None = None
    properties: Properties = Properties()
    items: tuple[Item, ...] = ()
    dimensions: tuple[Dimension, ...] = ()
    shape: tuple[int, ...] = ()
    derivative_of: str | None = None
    reinit: bool = False
    previous: str | None = None
    clocks: tuple[str, ...] = ()
    alias_of: str | None = None
    intermediate_update: bool = False
    multiple_set_per_instant: bool = True
    line: int = 0

    @property
    def cells(self) -> int:
        """How many values it has."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Unknown:
    """A variable that the FMU computes; `dependencies` None means: on everything it can depend on."""

    variable: str
    dependencies: tuple[tuple[str, DependencyKind], ...] | None = None


@dataclass(frozen=True, slots=True)
class Structure:
    """What the FMU computes, from what. `derivatives` has the derivatives of the continuous states."""

    outputs: tuple[Unknown, ...] = ()
    derivatives: tuple[Unknown, ...] = ()
    clocked_states: tuple[Unknown, ...] = ()
    initial_unknowns: tuple[Unknown, ...] = ()
    event_indicators: tuple[Unknown, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ModelDescription:
    """The whole of modelDescription.xml. `version` is 2 or 3, `written_version` what the file says."""

    version: int
    written_version: str
    name: str
    token: str
    description: str = ""
    author: str = ""
    model_version: str = ""
    copyright: str = ""
    license: str = ""
    tool: str = ""
    date: str = ""
    structured_names: bool = False
    co_simulation: CoSimulation | None = None
    model_exchange: ModelExchange | None = None
    scheduled_execution: ScheduledExecution | None = None
    experiment: DefaultExperiment = DefaultExperiment()
    units: tuple[UnitDefinition, ...] = ()
    types: tuple[TypeDefinition, ...] = ()
    log_categories: tuple[tuple[str, str], ...] = ()
    variables: tuple[Variable, ...] = ()
    structure: Structure = Structure()
    event_indicator_count: int = 0
    warnings: tuple[Note, ...] = field(default=(), compare=False)
    violations: tuple[Note, ...] = field(default=(), compare=False)

    @cached_property
    def by_name(self) -> dict[str, Variable]:
        """The variables by name, aliases included."""
        return {variable.name: variable for variable in self.variables}

    @property
    def states(self) -> tuple[str, ...]:
        """The continuous states, in the order of their derivatives."""
        found = (self.by_name[unknown.variable].derivative_of for unknown in self.structure.derivatives)
        return tuple(name for name in found if name is not None)


# -- units of FMUs as texts that `upbeat.core.measure` understands ---------------------------------------
#
# Names in FMUs are free texts: most are SI, many are written as in Modelica (``N.m``, ``m/s2``), some
# mean nothing. The base unit, where there is one, says what is meant, so a name is believed only if it agrees
# with it; without such a name, the unit is written as what it is: ``[7.0*m]``.


_POWER = re.compile(r"(?<=[A-Za-z)])(-?\d+)")
_DOT = re.compile(r"(?<=[A-Za-z0-9)])\.(?=[A-Za-z(])")
_DIMENSIONLESS = ("", "-", "1", "none")
_STANDARD = {frozenset({("K", 1)}): ("degC", "degF"), frozenset({("s", -1), ("rad", 1)}): ("rpm",)}
"""Good names, by the exponents, for units that FMUs call all sorts of things: C, rev/min."""


def measure_of(unit: UnitDefinition, *, relative: bool = False) -> str | None:
    """The text for a port's unit; None where nothing says what the FMU means.

    A `relative` quantity is a difference, so that the zero of its scale does not matter.
    """
    text = _text(unit)
    return text if text is None or not relative else measure.of_difference(text)


def _text(unit: UnitDefinition) -> str | None:
    names = _modern(unit.name), unit.name
    if unit.base is None:
        known = next((text for text in names if _understood(text)), None)
        return "1" if known is None and unit.name.strip() in _DIMENSIONLESS else known
    base = _base_text(unit.base)
    for text in (*names, *_STANDARD.get(frozenset(unit.base.exponents), ())):
        if _understood(text) and _agrees(text, unit.base, base):
            return text
    text = measure.defined(base, unit.base.factor, unit.base.offset)
    return text if _understood(text) else None


def _modern(name: str) -> str:
    """Modelica's spelling in ours: ``kg.m2`` is ``kg*m^2``."""
    return _POWER.sub(r"^\1", _DOT.sub("*", name))


def _base_text(base: BaseUnit) -> str:
    above = [_factor(name, power) for name, power in base.exponents if power > 0]
    below = [_factor(name, -power) for name, power in base.exponents if power < 0]
    bottom = below[0] if len(below) == 1 else f"({'*'.join(below)})"
    return ("*".join(above) or "1") + (f"/{bottom}" if below else "")


def _factor(name: str, power: int) -> str:
    return name if power == 1 else f"{name}^{power}"


def _understood(text: str) -> bool:
    try:
        measure.check(text)
    except measure.MeasureError:
        return False
    return True


def _agrees(text: str, base: BaseUnit, base_text: str) -> bool:
    if text == base_text:
        return base.factor == 1 and base.offset == 0
    try:
        found = measure.conversion(text, base_text)
    except measure.MeasureError:
        return False
    close = math.isclose(found.scale, base.factor, rel_tol=1e-6)
    return close and math.isclose(found.offset, base.offset, rel_tol=1e-6, abs_tol=1e-9)
