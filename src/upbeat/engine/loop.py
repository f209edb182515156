"""The loop, the same for every master: propose → step → review → commit → instant → note → record."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from math import inf, isnan
from typing import Any, cast

from upbeat.core.errors import InvalidInput, StepError
from upbeat.core.ports import Value
from upbeat.core.reasons import KNOWN, LANDED, Reason, Why, as_reason
from upbeat.core.time import Span
from upbeat.engine.machine import Machine
from upbeat.engine.selection import Selection, stories
from upbeat.engine.texts import REJECTED, chattering_text
from upbeat.master.paces.chains import allowance, left
from upbeat.master.paces.pace import EventDriven, Hears, Notes, Pace, Reviews, State, Tells, retries
from upbeat.master.program import Budget, Program, arrival
from upbeat.trace.events import EventLog
from upbeat.trace.recorder import Recorder
from upbeat.trace.steps import StepLog

MOST_RETRIES = 100
ENDLESS = 1 << 62
"""More steps than any run has."""
LATEST = 8
"""So many of the events at which steps have ended are remembered, to say which ones chatter."""


class Loop:
    """Drives a machine with any pace, one step a call.

    Without `instants`, what happens at an instant is left to whoever drives the loop.
    """

    def __init__(
        self,
        machine: Machine,
        program: Program,
        pace: Pace,
        span: Span,
        selection: Selection,
        recorder: Recorder | None,
        *,
        instants: bool = True,
    ) -> None:
        self._machine = machine
        self._program = program
        self._pace = pace
        self._cells = selection.cells
        self._recorder = recorder
        self._state: State = pace.begin(span)
        self.time = span.start
        self.limit = span.stop
        self.steps = StepLog()
        self.events = EventLog() if recorder is None else recorder.events
        self.short = False
        """Whether the last step ended before its proposed end, because a unit stopped."""
        self._retries = retries(pace)
        self._review = pace.review if isinstance(pace, Reviews) else None
        self._note = pace.note if isinstance(pace, Notes) else None
        self._anew = pace.anew if isinstance(pace, Hears) else None
        self._tells = pace.tells if isinstance(pace, Tells) else None
        self._stories = stories(program)
        self._stops = None if program.stops is None else program.stops.register
        self._stop_reasons = program.stop_reasons
        self._has_instant = instants and bool(program.instant)
        self._so_far = 0  # events at the present time
        self._left: Sequence[Value] | None = None  # the row before something was changed by hand
        self._latest: deque[tuple[float, Reason]] = deque(maxlen=LATEST)
        self._happened: deque[str] = deque(maxlen=LATEST)
        machine.write(program.now, span.start)
        machine.write(program.next, span.start)
        if program.budget is not None:
            length = span.stop - span.start
            machine.write(program.budget.register + 1, allowance(program.budget.step, length))

    @property
    def finished(self) -> bool:
        return self.time >= self.limit

    def begin(self) -> None:
        """Everything that happens at the start time."""
        self._machine.execute("start")
        self._commit(self.time, self._state)

    def before_change(self) -> None:
        """Somebody is about to change an input at the present time: keep what is to be seen without that."""
        if self._recorder is not None and self._left is None:
            self._left = tuple(self._row())

    def exchange(self, arrived: Iterable[str] = ()) -> None:
        """Exchange values again at the present time, after somebody has changed an input.

        `arrived` names units with events that have been set by hand. What follows from all this at the
        same instant happens now.
        """
        for unit in arrived:
            self._machine.execute(arrival(unit))
        self._machine.execute("exchange")
        if self._has_instant:
            self._machine.execute("instant")
        if self._anew is not None:
            t, state = self.standing()
            fired = tuple(name for name, _ in self._machine.fired)
            self.stand((t, self._anew(state, t, fired, self._machine.read)))
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
            story = self._stories.get(event)
            if story is None:
                self.events.append(event, self.time, self._so_far, value)
            else:
                self.events.append(event, self.time, self._so_far, True, *story.told(cast(Any, value)))
            self._so_far += 1
        self._machine.fired.clear()

    def step(self) -> None:
        """One communication step, retries included."""
        machine, program, pace, t = self._machine, self._program, self._pace, self.time
        limit = self._limit()
        (until, reason, block), state = pace.propose(self._state, t, limit, machine.read)
        if self._tells is not None:
            for cell, number in enumerate(*self._tells(state)):
                machine.write(cell, number)
        token = machine.save() if self._retries else None
        rejected = 0
        while True:
            machine.write(program.next, self._checked(until, limit, reason))
            machine.execute(block)
            reached = float(machine.read(program.next))
            if self._review is None:
                break
            again, state = self._review(state, t, reached, machine.read)
            if again is None:
                break
            rejected += 1
            if rejected > MOST_RETRIES:
                raise StepError(
                    f"the step from t = {t:.9g} was rejected {MOST_RETRIES} times; last: {again.reason}. "
                    f"{REJECTED}"
                )
            machine.restore(token)
            machine.fired.clear()
            until, reason, block = again
        if not reached > t and not machine.fired:
            raise StepError(f"the step from t = {t:.9g} did not move on, and no event fired")
        stops = int(machine.read(self._stops)) if reached < until and self._stops is not None else 0
        if reached == limit < self.limit:
            reason = KNOWN
        elif stops:
            reason = self._stop_reasons[stops - 1]
        self.short = reached < until if self._stops is None else stops > 0
        if program.budget is not None:
            why = as_reason(reason)
            event = why.kind in LANDED or (self.short and why.kind != KNOWN)
            self._pay(program.budget, t, reached, why if event else None)
        if self._recorder is not None:  # else nobody asks for the story, and a nested run has many steps
            self.steps.append(t, reached, reason, block, rejected)
        self._commit(reached, state)

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
        (until, _, _), _ = self._pace.propose(self._state, self.time, inf, self._machine.read)
        return until

    @property
    def event_driven(self) -> bool:
        return type(self._pace) is EventDriven

    def target(self) -> float:
        """Where the next step will end, if the pace decides that without looking back."""
        (until, _, _), _ = self._pace.propose(self._state, self.time, self._limit(), self._machine.read)
        return until

    def _limit(self) -> float:
        """How far the next step may go: known events bound every pace, so that none needs to know of them."""
        if self._program.due is None:
            return self.limit
        return min(self.limit, float(self._machine.read(self._program.due)))

    def standing(self) -> tuple[float, State]:
        """Where the loop stands between two steps: the time and the state of the pace.

        With a saved state of the machine it is all that the rest of the run depends on, on either engine.
        """
        return self.time, self._state

    def stand(self, standing: tuple[float, State]) -> None:
        """Stand there again, after the machine was set back to that time. It may come from a file."""
        t, state = standing
        try:  # a pace is made of pure functions: to ask it once more changes nothing
            if len(state) != len(self._state):
                raise ValueError(f"it remembers {len(self._state)} numbers")
            self._pace.propose(state, t, inf, self._machine.read)
        except (ArithmeticError, IndexError, ValueError) as error:
            raise InvalidInput(f"{state} is not the state of such a pace: {error}") from None
        self.time, self._state = t, state

    def _commit(self, t: float, state: State) -> None:
        """The time `t` stands: what happens at that instant, what the pace makes of it, and the row."""
        machine = self._machine
        self.time = t
        machine.write(self._program.now, t)
        if self._has_instant:
            machine.execute("instant")
        self._state = state
        if machine.fired and self._program.budget is not None:
            self._happened.append(machine.fired[-1][0])
        if self._note is not None:
            fired = tuple(name for name, _ in machine.fired) if machine.fired else ()
            self._state = self._note(state, t, fired, machine.read)
        self._so_far = 0
        self._log()
        self._record()

    def after(self, steps: StepLog) -> None:
        """Go on in a step log that were made elsewhere."""
        self.steps = steps

    def go(self, seconds: float, most: int = ENDLESS, pause: float = inf) -> None:
        """Step until the end, until about `seconds` have passed, `most` steps, or up to the time `pause`."""
        deadline = time.perf_counter() + seconds
        while not self.finished and most > 0 and self.time < pause and time.perf_counter() < deadline:
            self.step()
            most -= 1

    def save_rows(self) -> None:
        """From another thread, while a step takes long: what has been recorded so far goes to the file."""
        if self._recorder is not None:
            self._recorder.save_rows()

    def _record(self) -> None:
        if self._recorder is None:
            return
        values = self._row()
        if self.finished:
            self._recorder.finish(self.time, values)
        else:
            self._recorder.row(self.time, values)

    def _checked(self, until: float, limit: float, reason: Why) -> float:
        if isnan(until):  # the pace gives up
            raise StepError(str(reason))
        if not self.time < until <= limit:
            raise StepError(
                f"the pace asked for a step from {self.time:.17g} to {until:.17g}, "
                f"which does not lie between now and the stop time {limit:.17g}"
            )
        return until
