"""What an FMU says of itself, in one form for FMI 2 and 3.

References between variables (by index in FMI 2, by value reference in FMI 3) are names here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

from upbeat.units.fmi.description.words import (
    Causality,
    DependencyKind,
    Initial,
    InterfaceKind,
    IntervalVariability,
    Type,
    Variability,
)

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
