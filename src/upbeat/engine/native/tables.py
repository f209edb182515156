"""A program as flat tables of numbers: what the native core reads (native/src/program.hpp)."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from upbeat.core.expr import Kernel
from upbeat.core.ports import Kind
from upbeat.core.reasons import Reason
from upbeat.master.program import Budget, Instruction, Pacing

Ints = npt.NDArray[np.int32]
Expression = tuple[int, list[int], list[int]]
"""A kernel's number, the cells it reads, the cells it writes."""

Shares = list[list[tuple[int, list[tuple[int, int]], bool]]]
"""How cores share a block out: for each of them what it does, as the row where that begins, the places
(core, position) in these lists that must be done before, and whether another core may do it as well. Nothing:
the block is not shared."""

PaceTable = tuple[list[int], list[int], list[int], list[tuple[bool, int, bool]]]
"""What the loop needs of a pace: the cells `limit`, `until`, `block`, `reason`, `again`, `fired`; the blocks
`propose`, `review`, `note`, `changed`, `keep`, `back` (-1: there is none); the step blocks; and of each
reason whether it tells a time, how many other numbers, and whether the step ends at an event."""

KINDS: Mapping[Kind, int] = {Kind.REAL: 0, Kind.INTEGER: 1, Kind.BOOLEAN: 2, Kind.STRING: 3}
WIDTH = 7
"""The length of a row of code."""


class Code(enum.IntEnum):
    """The core's instructions; `native/src/program.hpp` lists their operands."""

    END = 0
    GET = 1
    SET = 2
    GATHER = 3
    COMPUTE = 4
    COPY = 5
    ADVANCE = 6
    JUMP = 7
    SAVE = 8
    RESTORE = 9
    BEGIN = 10
    UNTIL = 11
    UNLESS = 12
    GOTO = 13
    FIRE = 14
    SOLVE = 15
    SLOPE = 16
    DUE = 20
    GET_EVENT = 21
    FIT = 22
    FALL = 23
    PICK = 24
    RANK = 25
    CALL = 26
    GRID = 27


@dataclass(frozen=True, eq=False)
class Tables:
    """A lowered program: what the core reads, and (from `strings` to `origins`) what gives its numbers names.

    `start_block` and `instant_block` are numbers of blocks, or -1 if there is nothing in them; `due` is the
    cell of the next known event, or -1; `stops` that of who has ended a step, or -1; `budget` the first
    of the two of the budget of events, or -1, and `chatter` what to say when it is spent. `events` has the
    kind of each event's value and its number of cells, 0 if it has no value. `calls` are the functions that
    `CALL` names, and `pacing` is what `pace` was made of.
    """

    start: npt.NDArray[np.int64]
    kinds: Ints
    code: Ints
    entries: Ints
    operands: Ints
    kernels: tuple[Kernel, ...]
    expressions: list[Expression]
    start_block: int
    instant_block: int
    now: int
    next: int
    due: int
    stops: int
    stop_reasons: tuple[Reason, ...]
    budget: int
    chatter: Budget | None
    slots: int
    loops: int
    strings: tuple[str, ...]
    blocks: Mapping[str, int]
    events: Mapping[str, tuple[Kind, int]]
    units: tuple[str, ...]
    origins: tuple[Instruction | None, ...]
    shares: list[Shares]
    pace: PaceTable | None
    calls: list[Callable[..., None]]
    pacing: Pacing | None
