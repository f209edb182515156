"""The kinds of unit: from equations, from Python functions and objects, and from C by address."""

from __future__ import annotations

from upbeat.units import blocks
from upbeat.units.addresses import NativeUnit
from upbeat.units.discrete import (
    Clock,
    Discrete,
    Edge,
    Emission,
    LastValue,
    Mode,
    PythonDiscrete,
    Sampler,
    Schedule,
    StateMachine,
    Threshold,
    Variable,
)
from upbeat.units.equations.lowered import OdeTables
from upbeat.units.equations.ode import Function, Ode
from upbeat.units.inputs import MAX_DEGREE
from upbeat.units.process import Isolated
from upbeat.units.python import PythonFunction, PythonOde, PythonUnit
from upbeat.units.shorthand import ports
from upbeat.units.solving.solvers import (
    RK4,
    Cvode,
    DormandPrince,
    Euler,
    Midpoint,
    Solver,
    SolverError,
    solver_from,
)

__all__ = [
    "MAX_DEGREE",
    "RK4",
    "Clock",
    "Cvode",
    "Discrete",
    "DormandPrince",
    "Edge",
    "Emission",
    "Euler",
    "Function",
    "Isolated",
    "LastValue",
    "Midpoint",
    "Mode",
    "NativeUnit",
    "Ode",
    "OdeTables",
    "PythonDiscrete",
    "PythonFunction",
    "PythonOde",
    "PythonUnit",
    "Sampler",
    "Schedule",
    "Solver",
    "SolverError",
    "StateMachine",
    "Threshold",
    "Variable",
    "blocks",
    "ports",
    "solver_from",
]
