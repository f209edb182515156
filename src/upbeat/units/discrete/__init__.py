"""Discrete-event units: as data (`Discrete`), in words that mean such data, and as Python functions."""

from __future__ import annotations

from upbeat.units.discrete.converters import Clock, Edge, LastValue, Sampler, Threshold
from upbeat.units.discrete.machine import StateMachine
from upbeat.units.discrete.model import Discrete, Emission, Mode, Variable
from upbeat.units.discrete.python import PythonDiscrete
from upbeat.units.discrete.unit import DiscreteError, DiscreteTables, Schedule

__all__ = [
    "Clock",
    "Discrete",
    "DiscreteError",
    "DiscreteTables",
    "Edge",
    "Emission",
    "LastValue",
    "Mode",
    "PythonDiscrete",
    "Sampler",
    "Schedule",
    "StateMachine",
    "Threshold",
    "Variable",
]
