"""Discrete-event units: as data that both engines run (`Discrete`), and as Python functions."""

from __future__ import annotations

from upbeat.units.discrete.model import Discrete, Emission, Mode, Variable
from upbeat.units.discrete.python import PythonDiscrete
from upbeat.units.discrete.tables import DiscreteTables
from upbeat.units.discrete.unit import DiscreteError

__all__ = ["Discrete", "DiscreteError", "DiscreteTables", "Emission", "Mode", "PythonDiscrete", "Variable"]
