"""The loop, the same for every master: propose → step → review → commit → instant → note → record."""

from __future__ import annotations

import time
from typing import Any

from upbeat.core.errors import StepError
from upbeat.core.time import Span
from upbeat.engine.machine import Machine
from upbeat.engine.selection import Selection
from upbeat.master.pace import Pace
from upbeat.master.program import Program
from upbeat.trace.log import EventLog, StepLog
from upbeat.trace.recorder import Recorder

MOST_RETRIES = 100


class Loop:
    """Drives a machine with any pace, one step a call."""

    def __init__(
        self,
        machine: Machine,
        program: Program,
        pace: Pace,
        span: Span,
        selection: Selection,
        recorder: Recorder,
    ) -> None:
        self._machine = machine
        self._program = program
        self._pace = pace
        self._span = span
        self._cells = selection.cells
        self._recorder = recorder
        self._state: Any = pace.begin(span)
        self.time = span.start
        self.steps = StepLog()
        self.events = EventLog()
        self._retries = pace.retries
        self._blocks = program.blocks
        machine.write(program.now, span.start)
        machine.write(program.next, span.start)

    @property
    def finished(self) -> bool:
        return self.time >= self._span.stop

    def begin(self) -> None:
        """Everything that happens at the start time."""
        self.exchange()
        self._instant()
        self._note(self._state)
        self._record()

    def exchange(self) -> None:
        """Exchange values at the present time."""
        self._machine.execute("start")

    def step(self) -> None:
        """One communication step, retries included."""
        machine, program, pace = self._machine, self._program, self._pace
        t = self.time
        proposal, state = pace.propose(self._state, t, machine.read)
        until = self._checked(proposal.until)
        if self._retries:
            machine.save()
        rejected = 0
        reason = proposal.reason
        while True:
            machine.write(program.next, until)
            machine.execute(proposal.block)
            reached = float(machine.read(program.next))
            retry = pace.review(state, t, reached, machine.read)
            if retry is None:
                break
            rejected += 1
            if rejected > MOST_RETRIES:
                raise StepError(
                    f"the step from t = {t:.9g} was rejected {MOST_RETRIES} times; last: {retry.reason}"
                )
            machine.restore()
            machine.fired.clear()
            until, reason = self._checked(retry.until), retry.reason
        if not reached > t and not machine.fired:
            raise StepError(f"the step from t = {t:.9g} did not move on, and no event fired")
        self.time = reached
        machine.write(program.now, reached)
        self._instant()
        self._note(state)
        self.steps.append(t, reached, reason, proposal.block, rejected)
        self._record()

    def go(self, seconds: float) -> None:
        """Step until the end, or until about `seconds` have passed."""
        deadline = time.perf_counter() + seconds
        while not self.finished and time.perf_counter() < deadline:
            self.step()

    def _instant(self) -> None:
        if self._blocks["instant"]:
            self._machine.execute("instant")
        for index, event in enumerate(self._machine.fired):
            self.events.append(event, self.time, index)

    def _note(self, state: Any) -> None:
        """Tell the pace what has fired."""
        self._state = self._pace.note(state, tuple(self._machine.fired))
        self._machine.fired.clear()

    def _record(self) -> None:
        values = self._machine.row(self._cells)
        if self.finished:
            self._recorder.finish(self.time, values)
        else:
            self._recorder.row(self.time, values)

    def _checked(self, until: float) -> float:
        if not self.time < until <= self._span.stop:
            raise StepError(
                f"the pace asked for a step from {self.time:.17g} to {until:.17g}, "
                f"which does not lie between now and the stop time {self._span.stop:.17g}"
            )
        return until
