"""What an FMU says of itself: modelDescription.xml of FMI 2.0 and 3.0 in one form."""

from __future__ import annotations

from upbeat.units.fmi.description.measures import measure_of
from upbeat.units.fmi.description.model import (
    BaseUnit,
    ClockInterval,
    CoSimulation,
    DefaultExperiment,
    Dimension,
    DisplayUnit,
    Interface,
    Item,
    ModelDescription,
    ModelExchange,
    Note,
    Properties,
    ScheduledExecution,
    Structure,
    TypeDefinition,
    UnitDefinition,
    Unknown,
    Variable,
)
from upbeat.units.fmi.description.read import NAME, parse_description, read_description
from upbeat.units.fmi.description.words import (
    Causality,
    DependencyKind,
    Initial,
    InterfaceKind,
    IntervalVariability,
    Type,
    Variability,
)

__all__ = [
    "NAME",
    "BaseUnit",
    "Causality",
    "ClockInterval",
    "CoSimulation",
    "DefaultExperiment",
    "DependencyKind",
    "Dimension",
    "DisplayUnit",
    "Initial",
    "Interface",
    "InterfaceKind",
    "IntervalVariability",
    "Item",
    "ModelDescription",
    "ModelExchange",
    "Note",
    "Properties",
    "ScheduledExecution",
    "Structure",
    "Type",
    "TypeDefinition",
    "UnitDefinition",
    "Unknown",
    "Variability",
    "Variable",
    "measure_of",
    "parse_description",
    "read_description",
]
