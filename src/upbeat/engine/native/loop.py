"""The loop on the native engine: stretches of steps, or one by hand."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from math import inf

import numpy as np

from upbeat.core.errors import StepError
from upbeat.core.ports import Value
from upbeat.core.time import Span
from upbeat.engine.loop import ENDLESS, Loop
from upbeat.engine.native.machine import Batch, Chunk, Machine, Status
from upbeat.engine.selection import Selection
from upbeat.master.program import Program
from upbeat.trace.log import StepLog
from upbeat.trace.recorder import Recorder

FOREVER = 1e9
"""Seconds that no single step takes."""


class NativeLoop(Loop):
    """As `Loop`, but all of it, with the step log and recording, is in the core."""

    def __init__(
        self,
        machine: Machine,
        program: Program,
        span: Span,
        selection: Selection,
        recorder: Recorder | None,
    ) -> None:
        super().__init__(machine, program, span, selection, recorder)
        self._strings = machine.strings
        self._note_strings = machine.note_strings
        self._shapes = machine.tables.events
        if recorder is None:
            self._core = machine.loop(None)
        else:
            self._core = machine.loop(selection.cells, recorder.every, jumps=recorder.jumps)
        self._guard = threading.Lock()
        self._filling: Chunk | None = None  # the chunk of the stretch under way
        self._saved = 0  # how many of its rows are safe already

    def begin(self) -> None:
        chunk = self._chunk(2)  # for a jump
        self._take(chunk, self._core.begin(chunk, self.limit))

    def step(self) -> None:
        chunk = self._chunk(2)
        self._take(chunk, self._core.run(chunk, self.limit, FOREVER, max_steps=1))

    def go(self, seconds: float, max_steps: int = ENDLESS, pause: float = inf) -> None:
        chunk = self._chunk(0 if self._recorder is None else self._recorder.chunk_rows)
        self._filling = chunk
        self._take(chunk, self._core.run(chunk, self.limit, seconds, max_steps, pause))

    def after(self, steps: StepLog) -> None:
        super().after(steps)
        self._core.after(1 + steps.count)

    def save_rows(self) -> None:
        with self._guard:
            chunk, recorder = self._filling, self._recorder
            if chunk is None or recorder is None or not recorder.takes_early:
                return super().save_rows()
            rows = self._core.rows
            recorder.save_rows(chunk[self._saved : rows])
            self._saved = max(rows, self._saved)

    def _row(self) -> Sequence[Value]:
        self._note_strings()  # first: texts keep the numbers that they have in the core
        return super()._row()

    def _chunk(self, rows: int) -> Chunk | None:
        return None if self._recorder is None else np.empty((rows, 1 + len(self._cells)))

    def _take(self, chunk: Chunk | None, done: Batch) -> None:
        """Take over what the core has done, also if it failed in the end."""
        self.time = done.time
        self._look_for_end()
        self.steps.extend(done.steps)
        if len(done.events.codes) and self._recorder is not None:
            fired, more = done.events.decoded(self._details, self._shapes)
            if self.before:
                fired = fired._replace(indices=fired.indices + np.int32(self.before))
            self.events.extend(*fired, strings=self._strings, more=more)
        if len(done.steps.runs) or len(done.events.codes):  # else the time is what it was
            self._so_far = done.events.times.tolist().count(self.time) + self.before
        self.before = 0
        if self._recorder is not None and chunk is not None:  # last: the disk may turn out to be full
            with self._guard:
                self._filling, saved, self._saved = None, self._saved, 0
            self._recorder.block(chunk[saved : done.rows], self._strings)
            if done.left_out:
                self._recorder.leave_out(chunk[done.rows : done.rows + 1].copy(), self._strings)
        if done.status is Status.FAILED:
            self._core.fail()
        if done.status is Status.ABANDONED:
            raise StepError(f"the step from t = {self.time:.9g} was interrupted")
