"""The loop in the native core, as Python sees it: asked to go on, it comes back with what it has done."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from upbeat.core.errors import StepError
from upbeat.core.reasons import KNOWN, Reason
from upbeat.engine.native.errors import CLOSED, FiredColumns
from upbeat.trace.log import RUNS, StepRuns

if TYPE_CHECKING:
    from upbeat import _native
    from upbeat.engine.native.machine import Machine

Chunk = npt.NDArray[np.float64]
"""Rows of [time, cells...]; a cell that is not real holds the bits of an int64."""


KNOWN_EVENT = -(1 << 31)
"""The number of a reason: the step ends at a known event (native/src/loop.hpp)."""


class Status(enum.IntEnum):
    """Why `CoreLoop.run` came back."""

    FINISHED = 0
    FULL = 1
    PAUSED = 2
    FAILED = 3
    STOPPED = 4
    ABANDONED = 5


class Stretch(NamedTuple):
    """What the core has done since the call before: how far it came, and what it left to be taken over."""

    status: Status
    time: float
    rows: int
    """How many rows of the chunk are filled."""
    left_out: bool
    """Whether one more lies behind them: the last, which thinning has left out."""
    steps: StepRuns
    events: FiredColumns


class CoreLoop:
    """The loop in the core; it comes back to let Python take over what it has done and look up.

    A stretch that failed is still a stretch: take it over, then call `fail`. Once the machine is closed,
    `StepError` says so.
    """

    def __init__(self, machine: Machine, loop: _native.Loop) -> None:
        from upbeat import _native

        self._machine = machine
        self._loop = loop
        self._closed = _native.Closed
        self._blocks = list(machine.tables.blocks)

    def begin(self, chunk: Chunk | None, limit: float = math.inf) -> Stretch:
        """Everything that happens at the start time of a run to `limit`; its row goes into `chunk`."""
        return self._stretch(self._loop.begin, chunk, limit)

    def run(
        self,
        chunk: Chunk | None,
        limit: float,
        budget_s: float,
        most: int = 1 << 62,
        pause: float = math.inf,
    ) -> Stretch:
        """Go on to the time `limit`, until `chunk` (rows × (1 + cells)) or the core's log is full, for about
        `budget_s` seconds, for `most` steps, or until one has reached the time `pause`. The row at `limit` is
        always kept."""
        return self._stretch(self._loop.run, chunk, limit, budget_s, most, pause)

    @property
    def rows(self) -> int:
        """How many rows are in the chunk by now, also while the core is at work."""
        return self._loop.rows()

    def after(self, rows: int) -> None:
        """So many rows have been offered before: thinning goes on in time with them."""
        self._loop.after(rows)

    def fail(self) -> NoReturn:
        """Raise why the last stretch failed."""
        self._machine.fail()

    def _stretch(self, call: Callable[..., _native.Left], *arguments: Any) -> Stretch:
        try:
            code, time, rows, left_out, steps, events = call(*arguments)
        except self._closed:
            raise StepError(CLOSED) from None
        if code in (Status.STOPPED, Status.ABANDONED) and not self._machine.interrupted:
            raise StepError(CLOSED)
        runs = np.frombuffer(steps, RUNS)
        reasons = {why: self._reason(why) for why in sorted(set(runs["reason"].tolist()))}
        blocks = {block: self._blocks[block] for block in set(runs["block"].tolist())}
        return Stretch(
            Status(code),
            time,
            rows,
            left_out,
            StepRuns(runs, reasons, blocks),
            self._machine.fired_columns(events),
        )

    def _reason(self, code: int) -> Reason:
        if code == KNOWN_EVENT:
            return Reason(KNOWN)
        tables = self._machine.tables
        if code < 0:
            return tables.stop_reasons[-1 - code]
        assert tables.pacing is not None
        return tables.pacing.why(*self._loop.reason(code))
