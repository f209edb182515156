"""The words of a model description that FMI 2 and 3 share, and what a value of each type may be."""

from __future__ import annotations

import enum


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
