"""The loop, the same for every master: propose → step → review → commit → instant → note → record."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from functools import cached_property
from math import inf, isnan
from typing import Any, cast

from upbeat.core.errors import StepError
from upbeat.core.ports import Value
from upbeat.core.reasons import KNOWN, LANDED, Reason
from upbeat.core.time import Span
from upbeat.engine.machine import REJECTED, Machine, chattering_text
from upbeat.engine.selection import Selection, event_details
from upbeat.master.paces.watching import allowance, left
from upbeat.master.program import Budget, Program, arrival
from upbeat.trace.events import EventLog
from upbeat.trace.log import StepLog
from upbeat.trace.recorder import Recorder

MAX_RETRIES = 100
ENDLESS = 1 << 62
"""More steps than any run has."""
LATEST = 8
"""So many of the events at which steps have ended are remembered, to say which ones chatter."""


class Loop:
    """Drives a machine, one step a call: the program says how far each goes (`Pacing`).

    Without `instants`, what happens at an instant is left to the caller of the loop.
    """

    def __init__(
        self,
        machine: Machine,
        program: Program,
        span: Span,
        selection: Selection,
        recorder: Recorder | None,
        *,
        instants: bool = True,
    ) -> None:
        self._machine = machine
        self._program = program
        if program.pace is None:
            raise ValueError("this program does not say how far its steps go")
        self._pace = program.pace
        self._cells = selection.cells
        self._recorder = recorder
        self.time = span.start
        self.limit = span.stop
        self.steps = StepLog()
        self.events = EventLog() if recorder is None else recorder.events
        self.short = False
        """Whether the last step ended before its proposed end, because a unit stopped."""
        self.over = False
        """Whether the program has ended the run, before its stop time."""
        self._details = event_details(program)
        self._stops = None if program.stops is None else program.stops.register
        self._stop_reasons = program.stop_reasons
        self._has_instant = instants and bool(program.instant)
        self._so_far = 0  # events at the present time
        self.before = 0
        """How many events there were at the start time before this began."""
        self._jumps = recorder is not None and recorder.jumps
        self._left: Sequence[Value] | None = None  # the row before something was changed by hand
        self._latest: deque[tuple[float, Reason]] = deque(maxlen=LATEST)
        self._happened: deque[str] = deque(maxlen=LATEST)
        machine.write(program.now, span.start)
        machine.write(program.next, span.start)
        machine.write(self._pace.limit, span.stop)
        if program.budget is not None:
            length = span.stop - span.start
            machine.write(program.budget.register + 1, allowance(program.budget.step, length))

    @property
    def finished(self) -> bool:
        return self.time >= self.limit or self.over

    @property
    def so_far(self) -> int:
        """How many events there have been at the present time."""
        return self._so_far

    def begin(self) -> None:
        """Everything that happens at the start time."""
        self._machine.execute("start")
        self._commit(self.time)

    def before_change(self) -> None:
        """An input is about to be changed at the present time: keep what is to be seen without that."""
        if self._jumps and self._left is None:
            self._left = tuple(self._row())

    def exchange(self, arrived: Iterable[str] = ()) -> None:
        """Exchange values again at the present time, after an input was changed.

        `arrived` names units with events that have been set by hand. What follows from all this at the
        same instant happens now.
        """
        for unit in arrived:
            self._machine.execute(arrival(unit))
        self._machine.execute("exchange")
        if self._has_instant:
            self._machine.execute("instant")
        if self._pace.changed:
            self._machine.write(self._pace.fired, float(len(self._machine.fired)))
            self._machine.execute("changed")
        if self._has_instant:
            self._log()
        if self._recorder is not None and self._left is not None:
            left, self._left = self._left, None
            self._recorder.jump(self.time, left, self._row())

    def _row(self) -> Sequence[Value]:
        """What is recorded, as it is now."""
        return self._machine.row(self._cells)

    def _log(self) -> None:
        """What has fired at the present time goes into the log, after what has before."""
        if not self._machine.fired:
            return
        for event, value in self._machine.fired if self._recorder is not None else ():
            details = self._details.get(event)
            if details is None:
                self.events.append(event, self.time, self._so_far, value)
            else:
                self.events.append(event, self.time, self._so_far, True, *details.decoded(cast(Any, value)))
            self._so_far += 1
        self._machine.fired.clear()

    def step(self) -> None:
        """One communication step, retries included."""
        machine, program, pace, t = self._machine, self._program, self._pace, self.time
        limit = self._limit()
        machine.write(pace.limit, limit)
        machine.execute("propose")
        if pace.keep:
            machine.execute("keep")
        rejected = 0
        while True:
            until, block = self._checked(limit), self._block()
            machine.write(program.next, until)
            machine.execute(block)
            reached = float(machine.read(program.next))
            if not pace.review:
                break
            machine.execute("review")
            if not machine.read(pace.again):
                break
            rejected += 1
            if rejected > MAX_RETRIES:
                raise StepError(
                    f"the step from t = {t:.9g} was rejected {MAX_RETRIES} times; last: {self._why()}. "
                    f"{REJECTED}"
                )
            machine.execute("back")
            machine.fired.clear()
        if not reached > t and not machine.fired:
            raise StepError(f"the step from t = {t:.9g} did not move on, and no event fired")
        stops = int(machine.read(self._stops)) if reached < until and self._stops is not None else 0
        if reached == limit < self.limit:
            reason = Reason(KNOWN)
        else:
            reason = self._stop_reasons[stops - 1] if stops else self._why()
        self.short = reached < until if self._stops is None else stops > 0
        if program.budget is not None:
            event = reason.kind in LANDED or (self.short and reason.kind != KNOWN)
            self._pay(program.budget, t, reached, reason if event else None)
        if self._recorder is not None:  # else the log is not asked for, and a nested run has many steps
            self.steps.append(t, reached, reason, block, rejected)
        self._commit(reached)

    def _why(self) -> Reason:
        """The reason that the pace gives."""
        first = self._pace.reason
        return self._pace.why(*(float(self._machine.read(first + k)) for k in range(4)))

    def _block(self) -> str:
        """The step block that the pace asks for."""
        number = float(self._machine.read(self._pace.block))
        return self._pace.steps[int(number) if 0.0 <= number < len(self._pace.steps) else 0]

    def _pay(self, budget: Budget, t: float, reached: float, event: Reason | None) -> None:
        """Keep account of a step, which has ended at an event or not."""
        read, register = self._machine.read, budget.register
        rest = left(
            float(read(register)), float(read(register + 1)), t, reached, self.limit, event is not None
        )
        self._machine.write(register, rest)
        if event is None:
            return
        self._latest.append((reached, event))
        if rest < 0.0:
            latest = list(self._latest)
            every = (latest[-1][0] - latest[0][0]) / (len(latest) - 1)
            about = [reason for _, reason in latest]
            raise StepError(chattering_text(budget, about, self._happened, reached, every))

    def ahead(self) -> float:
        """Where the pace would end the next step, if nothing bounded it."""
        return self._proposed(inf)

    @property
    def event_driven(self) -> bool:
        return self._pace.rests

    def target(self) -> float:
        """Where the next step will end, if the pace decides that without looking back."""
        return self._proposed(self._limit())

    def _proposed(self, limit: float) -> float:
        """What the pace would propose, which changes nothing."""
        machine, memory = self._machine, self._memory
        before = list(machine.row(memory))
        machine.write(self._pace.limit, limit)
        machine.execute("propose")
        until = float(machine.read(self._pace.until))
        for cell, value in zip(memory, before, strict=True):
            machine.write(cell, value)
        return until

    @cached_property
    def _memory(self) -> tuple[int, ...]:
        """The cells of the pace."""
        sizes = ((first, self._program.layout.of(first).size) for first in self._pace.memory)
        return tuple(first + i for first, size in sizes for i in range(size))

    def _limit(self) -> float:
        """How far the next step may go: known events bound every pace, so that none needs to know of them."""
        if self._program.due is None:
            return self.limit
        return min(self.limit, float(self._machine.read(self._program.due)))

    def set_time(self, t: float) -> None:
        """Go on from this time, to which the machine was set back."""
        self.time = t

    def _commit(self, t: float) -> None:
        """The time `t` stands: what happens at that instant, what the pace makes of it, and the row."""
        machine = self._machine
        self.time = t
        machine.write(self._program.now, t)
        left = self._row() if self._has_instant and self._jumps else None
        if self._has_instant:
            machine.execute("instant")
        if machine.fired and self._program.budget is not None:
            self._happened.append(machine.fired[-1][0])
        if self._pace.note:
            machine.write(self._pace.fired, float(len(machine.fired)))
            machine.execute("note")
        self._so_far, self.before = self.before, 0
        self._log()
        self._look_for_end()
        self._record(left)

    def _look_for_end(self) -> None:
        if self._program.ends is not None:
            self.over = bool(self._machine.read(self._program.ends))

    def after(self, steps: StepLog) -> None:
        """Go on in a step log that was made elsewhere."""
        self.steps = steps
        if self._recorder is not None:
            self._recorder.after(1 + steps.count)

    def go(self, seconds: float, max_steps: int = ENDLESS, pause: float = inf) -> None:
        """Step until the end, for about `seconds`, `max_steps` steps, or up to the time `pause`."""
        deadline = time.perf_counter() + seconds
        while not self.finished and max_steps > 0 and self.time < pause and time.perf_counter() < deadline:
            self.step()
            max_steps -= 1

    def save_rows(self) -> None:
        """From another thread, while a step takes long: what has been recorded so far goes to the file."""
        if self._recorder is not None:
            self._recorder.save_rows()

    def _record(self, left: Sequence[Value] | None) -> None:
        if self._recorder is None:
            return
        values = self._row()
        if self.finished:
            self._recorder.finish(self.time, values, left)
        else:
            self._recorder.row(self.time, values, left)

    def _checked(self, limit: float) -> float:
        until = float(self._machine.read(self._pace.until))
        if isnan(until):  # the pace gives up
            raise StepError(str(self._why()))
        if not self.time < until <= limit:
            raise StepError(
                f"the pace asked for a step from {self.time:.17g} to {until:.17g}, "
                f"which does not lie between now and the stop time {limit:.17g}"
            )
        return until
