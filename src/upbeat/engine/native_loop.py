"""The loop for steps of one size on the native engine: runs of steps in the core, single ones by hand."""

from __future__ import annotations

import numpy as np

from upbeat.core.time import Span
from upbeat.engine.loop import Loop
from upbeat.engine.native import Machine, Status
from upbeat.engine.selection import Selection
from upbeat.master.pace import Fixed, FixedState
from upbeat.master.program import Program
from upbeat.trace.recorder import Recorder


class NativeFixedLoop(Loop):
    """As `Loop`, but `go` hands whole stretches to the core, which also records."""

    def __init__(
        self,
        machine: Machine,
        program: Program,
        pace: Fixed,
        span: Span,
        selection: Selection,
        recorder: Recorder,
    ) -> None:
        super().__init__(machine, program, pace, span, selection, recorder)
        self._step = pace.step
        self._fixed = machine.run_fixed(span, pace.step, selection.cells, every=recorder.every)
        self._width = 1 + len(selection.cells)

    def go(self, seconds: float) -> None:
        done, began = self._fixed.done, self.time
        chunk = np.empty((self._recorder.chunk_rows, self._width))
        try:
            status = self._fixed.run(chunk, seconds)
        finally:
            self._recorder.block(chunk[: self._fixed.rows])
            self.time = self._fixed.time
            self._state = FixedState(self._span, self._fixed.count, self._fixed.done)
            self._log(began, self._fixed.done - done)
            for event, time, index in self._fixed.events:
                self.events.append(event, time, index)
            self._fixed.events.clear()
        if status is Status.FULL:
            self.go(0.0)  # the row that found no room is recorded now, into a fresh chunk

    def _log(self, began: float, count: int) -> None:
        """One entry for the grid, and one for a last step that the stop time cut short."""
        state, step = self._state, self._step
        if state.done == state.total and count > 0:
            last = self._span.start + (state.total - 1) * step
            self.steps.extend_grid(began, last, count - 1, "fixed step")
            self.steps.append(last, self.time, "fixed step")
        else:
            self.steps.extend_grid(began, self.time, count, "fixed step")

    def _record(self) -> None:
        """By the core, which knows what it has recorded: one row, and no step (the budget is nothing)."""
        run = self._fixed
        if self.time > self._span.start:
            run.stand_at(self._state.done, self.time)
        chunk = np.empty((1, self._width))
        run.run(chunk, 0.0)
        self._recorder.block(chunk[: run.rows])
