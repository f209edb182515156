"""All that extensions are written with, in one place: the words of programs, couplings, paces and units.

`docs/extending.md` tells how they go together. What is imported from here stays what it is from version to
version; the modules behind it may be rearranged.
"""

from upbeat.core.abilities import (
    Ability,
    Indicators,
    Jumps,
    Listens,
    Model,
    Native,
    NextEvent,
    Rollback,
    Serialise,
    Slopes,
    Unit,
)
from upbeat.core.errors import MasterError, ModelError
from upbeat.core.expr import Cell, Expr, Name, Number, Op, apply, parse
from upbeat.core.ports import Causality, Kind, Port
from upbeat.core.reasons import Reason
from upbeat.core.time import Span
from upbeat.master.blocks import Blocks
from upbeat.master.couplings.coupling import Coupling, Exchange, Sequence, exchange, sweep
from upbeat.master.inputs.approximation import Approximation
from upbeat.master.inputs.course import Course, Place
from upbeat.master.layout import Reg
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
    Tells,
    Writes,
    Written,
    written,
)
from upbeat.master.paces.wrapping import Wrapping
from upbeat.master.program import (
    Advance,
    Due,
    Fall,
    Fire,
    Fit,
    Get,
    Grid,
    If,
    Jump,
    Let,
    Pick,
    Rank,
    Repeat,
    Restore,
    Save,
    Set,
    Slope,
    Solve,
)
from upbeat.master.registers import Registers
from upbeat.master.wiring import Wiring
from upbeat.master.writing import Steps, Writer
from upbeat.units import ports

__all__ = [
    "Ability",
    "Advance",
    "Approximation",
    "Blocks",
    "Causality",
    "Cell",
    "Coupling",
    "Course",
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
    "Pace",
    "Pick",
    "Place",
    "Port",
    "Prepares",
    "Proposal",
    "Proposes",
    "Rank",
    "Read",
    "Reason",
    "Reg",
    "Registers",
    "Regular",
    "Repeat",
    "Restore",
    "Reviews",
    "Rollback",
    "Save",
    "Sequence",
    "Serialise",
    "Set",
    "Slope",
    "Slopes",
    "Solve",
    "Span",
    "State",
    "Steps",
    "Tells",
    "Unit",
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
