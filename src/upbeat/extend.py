"""All that extensions are written with, in one place: the words of programs, couplings, paces and units.

`docs/extending.md` tells how they go together. What is imported from here stays what it is from version to
version; the modules behind it may be rearranged.
"""

from typing import Any

from upbeat.core.abilities import (
    Ability,
    Indicators,
    Jumps,
    KeepsNumbers,
    KeptNumbers,
    Listens,
    Model,
    Native,
    NextEvent,
    OpenTokens,
    ReadableStates,
    Rollback,
    Serialise,
    Slopes,
    StateAccess,
    Unit,
)
from upbeat.core.errors import RENAMED, MasterError, ModelError, current_names
from upbeat.core.expr import Cell, Expr, Name, Number, Op, apply, parse
from upbeat.core.ports import Causality, Kind, Port
from upbeat.core.reasons import Reason
from upbeat.core.time import Span
from upbeat.master.computations import Fall, Fit, Grid, Pick, Rank, Solve
from upbeat.master.couplings.coupling import Coupling, Exchange, UnitSequence, exchange, sweep
from upbeat.master.inputs.approximation import Approximation, Place, Trajectory
from upbeat.master.paces.pace import (
    Follows,
    Hears,
    LooksAtEvents,
    Notes,
    Pace,
    Prepares,
    Proposal,
    Proposes,
    Read,
    Regular,
    Reviews,
    State,
    Writes,
    Written,
    written,
)
from upbeat.master.paces.wrapping import Wrapping
from upbeat.master.program import (
    Advance,
    Blocks,
    Due,
    Fire,
    Get,
    If,
    Jump,
    Let,
    Reg,
    Repeat,
    Restore,
    Save,
    Set,
    Slope,
)
from upbeat.master.registers import Registers, Steps, Writer
from upbeat.master.wiring import Wiring
from upbeat.units import ports

__all__ = [
    "Ability",
    "Advance",
    "Approximation",
    "Blocks",
    "Causality",
    "Cell",
    "Coupling",
    "Due",
    "Exchange",
    "Expr",
    "Fall",
    "Fire",
    "Fit",
    "Follows",
    "Get",
    "Grid",
    "Hears",
    "If",
    "Indicators",
    "Jump",
    "Jumps",
    "KeepsNumbers",
    "KeptNumbers",
    "Kind",
    "Let",
    "Listens",
    "LooksAtEvents",
    "MasterError",
    "Model",
    "ModelError",
    "Name",
    "Native",
    "NextEvent",
    "Notes",
    "Number",
    "Op",
    "OpenTokens",
    "Pace",
    "Pick",
    "Place",
    "Port",
    "Prepares",
    "Proposal",
    "Proposes",
    "Rank",
    "Read",
    "ReadableStates",
    "Reason",
    "Reg",
    "Registers",
    "Regular",
    "Repeat",
    "Restore",
    "Reviews",
    "Rollback",
    "Save",
    "Serialise",
    "Set",
    "Slope",
    "Slopes",
    "Solve",
    "Span",
    "State",
    "StateAccess",
    "Steps",
    "Trajectory",
    "Unit",
    "UnitSequence",
    "Wiring",
    "Wrapping",
    "Writer",
    "Writes",
    "Written",
    "apply",
    "exchange",
    "parse",
    "ports",
    "sweep",
    "written",
]


def __getattr__(name: str) -> Any:
    if name not in RENAMED["upbeat.extend"]:
        raise AttributeError(f"module 'upbeat.extend' has no attribute {name!r}")
    return globals()[next(iter(current_names("upbeat.extend", {name: None})))]
