"""The running unit of an FMU for co-simulation, of FMI 2 or 3: the reference that the native engine follows.

It stays in initialization mode until the first jump, which a run asks for when values have been exchanged, or
until time begins to pass. An FMU that asks for the end of the simulation shows its last values until the next
step, which is an `EndRequest`. What its ports do is in `upbeat.units.fmi.cosimulation_ports`.
"""

from __future__ import annotations

from math import inf

from upbeat.units.fmi.binding.calls import why
from upbeat.units.fmi.cosimulation_ports import CoSimulationPorts, Mode
from upbeat.units.fmi.instance import FmuError, Intermediate, Stepped, end_request
from upbeat.units.fmi.saved import Ours, Saved, from_bytes, to_bytes
from upbeat.units.fmi.steady import ROUNDED, nominal

MOST_ROUNDS = 1000
"""Of event iteration at one instant, and of pieces that one step falls into."""
NEAR = 1e-9
"""A step that ends this near to where it should, measured by its length, has got there."""


class CoSimulationUnit(CoSimulationPorts):
    """The ports, moving through time and events."""

    # ---------------------------------------------------------------- time

    def advance(self, t: float, to: float, early: bool = False) -> float:
        """Simulate from `t` to `to`; with `early` no further than the first event or refusal."""
        if to < t:
            raise FmuError(f"cannot advance backwards, from {t:.9g} to {to:.9g}")
        if self._ended is not None:
            raise end_request(self._instance, self._ended)
        try:
            if to > t and self._simple and self._mode is Mode.STEP and not self._courses:
                stepped = self._instance.step(t, nominal(t, to, self._grid), not self._tokens.alive)
                if not (stepped.early or stepped.terminate):  # by far the most frequent case
                    self.time = to
                    return to
                self._arrive(stepped, t, to)
                if self.time >= to or early:
                    return self.time
            for _ in range(MOST_ROUNDS):
                self._make_ready()
                if self._ended is not None:
                    self.time = to
                if self.time >= to:
                    return self.time
                self._step(min(to, self._next, self._clocks.due))
                if self.time >= to or (early and self.time > t):
                    return self.time
        except FmuError:
            self._failed = True
            raise
        self._failed = True
        raise FmuError(
            f"the step from {t:.9g} to {to:.9g} fell into more than {MOST_ROUNDS} pieces: the FMU stops "
            f"again and again, last at {self.time:.9g}. Take a smaller step (--step)"
        )

    def _make_ready(self) -> None:
        """Into step mode, with everything done that is to be done at this time."""
        if self._mode is Mode.INITIALIZATION:
            self._leave_initialization()
        self._settle()
        if self._mode is Mode.EVENT and self._ended is None:
            self._instance.enter_step_mode()
            self._mode = Mode.STEP
        self._sending.clear()

    def _step(self, until: float) -> None:
        """One call of the FMU's own solver. The time given to it is the engine's, never a sum of steps."""
        now = self.time
        if self._steady is not None:
            self._steady.begin(now, until, until >= min(self._next, self._clocks.due))
        if self._courses and self._slopes:
            self._hand_over_slopes(now)
        length = nominal(now, until, self._grid)
        self._arrive(self._instance.step(now, length, not self._tokens.alive), now, until)

    def take_any_length(self) -> None:
        """Try steps of all lengths, whatever the FMU declares: for those who measure what it can do."""
        self._steady = None

    def _arrive(self, stepped: Stepped, now: float, until: float) -> None:
        """How far a step came. After the last one the FMU stays where it is, whatever the time."""
        reached = stepped.reached if stepped.early else until
        slack = NEAR * (until - now) + ROUNDED * abs(until)  # it may say: the time and the length it was told
        if stepped.terminate:
            self._ended = reached
            if reached <= now + slack:  # not one step more
                raise end_request(self._instance, self._ended)
            self.time = until
            return
        if abs(until - reached) <= slack:
            reached = until
        if not now <= reached <= until:
            raise FmuError(f"a step from {now:.9g} to {until:.9g} ended at {stepped.reached:.9g}")
        self._pending = self._has_events and stepped.event
        if reached == now and not self._pending:
            raise FmuError(
                f"the FMU refused the step from {now:.9g} to {until:.9g} and did not move at all (try a "
                'smaller step: --step, or pace=…; or let units stop early: coupling = "negotiated")'
                + why(self._instance.complaints())
            )
        self.time = reached
        self._count += reached < until and not self._pending  # else a round of event mode counts
        own = reached >= min(self._next, self._clocks.due)
        if self._steady is not None and (own or self._pending or reached < until):
            self._steady.stopped(reached)
        for name in self._rates:
            self._look_at_rate(name)

    def _hand_over_slopes(self, now: float) -> None:
        variables, orders, values = [], [], []
        for name, course in self._courses.items():
            variable = self._layout.variables[name]
            if now != course.origin:
                self._writers[name](course.at(now))
            for order in range(1, len(course.coefficients)):
                variables.append(variable)
                orders.append(order)
                values.append(course.derivative(order, now))
        self._instance.set_input_derivatives(variables, orders, values)

    def look_in(self, moment: Intermediate) -> float | None:
        """Within a step (FMI 3): inputs that move are where they should be."""
        if moment.may_set:
            for name, course in self._courses.items():
                if len(course.coefficients) > 1:
                    self._writers[name](course.at(moment.time))
        return None

    # ---------------------------------------------------------------- events

    def due(self) -> float:
        """When something happens by itself: now, if the FMU waits for event mode."""
        if self._ended is not None:
            return inf
        if self._has_events and (self._mode is Mode.INITIALIZATION or self._waiting or self._sending):
            return self.time
        return min(self._next, self._clocks.due)

    @property
    def _waiting(self) -> bool:
        """Whether something is to be done in event mode that is not a matter of time."""
        return bool(self._pending or self._heard) and self._ended is None

    def jump(self) -> bool:
        """One round of event mode, if there is something to do; what ticked is sent by the next jump.

        The first one ends initialization mode, without event mode as well.
        """
        try:
            if self._mode is Mode.INITIALIZATION:
                self._leave_initialization()
                self._settle()
            elif self._has_events and self._ended is None:
                self._sending.clear()
                if self._waiting or min(self._next, self._clocks.due) <= self.time:
                    self._round()
        except FmuError:
            self._failed = True
            raise
        return self._has_events and self.due() <= self.time

    def _leave_initialization(self) -> None:
        self._instance.exit_initialization()
        if not self._has_events:
            self._mode = Mode.STEP
            return
        self._mode, self._pending = Mode.EVENT, True
        self._clocks.begin()

    def _settle(self) -> None:
        """Rounds until nothing is left to do at this time."""
        for _ in range(MOST_ROUNDS):
            if self._ended is not None or (
                not self._waiting and min(self._next, self._clocks.due) > self.time
            ):
                return
            self._round()
        raise FmuError(f"event iteration at t = {self.time:.9g} did not end within {MOST_ROUNDS} rounds")

    def _round(self) -> None:
        """One round: what ticks is told, clocked values are exchanged, discrete states renewed."""
        instance = self._instance
        instance.time = self.time
        self._count += 1
        self._enter_event_mode()
        places = self._clocks.ticking(self.time)
        variables = self._layout.variables
        ticking = [variables[name] for name in variables if name in self._heard]
        ticking += [self._clocks.variables[place] for place in places]
        if ticking:
            instance.tick(ticking)
        self._exchange(frozenset(variable.name for variable in ticking))
        self._clocks.ticked(places, self.time)
        self._heard.clear()
        updated = instance.update()
        if updated.terminate:
            self._ended = self.time
        self._pending = updated.again
        self._next = self._next_events.after(self.time, updated.next_time)
        self._clocks.look(self.time)

    def _exchange(self, ticking: frozenset[str]) -> None:
        """Hand over inputs whose clock ticks, and look at the outputs of those that do.

        Whether an output clock ticks may depend on what the input clocks bring: it is asked after that.
        """
        self._hand_over(ticking)
        if self._senders:
            ticks = self._instance.clocks([variable for _, variable in self._senders])
            sent = frozenset(port.name for (port, _), tick in zip(self._senders, ticks, strict=True) if tick)
            self._sending |= sent
            self._hand_over(sent)
            ticking |= sent
        for name, (variable, reader) in self._clocked_readers.items() if ticking else ():
            if ticking.intersection(variable.clocks):
                self._seen[name] = reader()

    def _hand_over(self, ticking: frozenset[str]) -> None:
        """The inputs that wait for these clocks."""
        for name, writer in self._writers.items() if ticking else ():
            if name in self._courses and ticking.intersection(self._layout.variables[name].clocks):
                writer(self._courses[name].coefficients[0])

    # ---------------------------------------------------------------- state

    def save(self) -> Saved:
        """The FMU's state, and ours. It may be restored many times."""
        ours = Ours(
            time=self.time,
            mode=int(self._mode),
            pending=self._pending,
            next=self._next,
            count=self._count,
            ticks=tuple(zip(self._clocks.next, self._clocks.count, strict=True)),
            heard=frozenset(self._heard),
            sending=frozenset(self._sending),
            given=dict(self._given),
            courses=dict(self._courses),
            seen=dict(self._seen),
        )
        return self._tokens.token(ours, self._instance.save())

    def restore(self, token: Saved) -> None:
        """Set the FMU and everything here back."""
        self._instance.restore(token.state)
        ours = token.ours
        self._ended = None
        self.time, self._mode, self._pending = ours.time, Mode(ours.mode), ours.pending
        self._next, self._count = ours.next, ours.count
        self._clocks.next = [next for next, _ in ours.ticks]
        self._clocks.count = [count for _, count in ours.ticks]
        self._heard, self._sending = set(ours.heard), set(ours.sending)
        self._given, self._courses, self._seen = dict(ours.given), dict(ours.courses), dict(ours.seen)

    def to_bytes(self, token: Saved) -> bytes:
        """As `upbeat.units.fmi.saved` lays it out."""
        own = self._instance.to_bytes(token.state)
        return to_bytes(token.ours, self._layout, len(self._clocks.next), own)

    def from_bytes(self, data: bytes) -> Saved:
        """What `to_bytes` was given, in this process or another one."""
        ours, own = from_bytes(data, self._layout, len(self._clocks.next), tuple(self._seen))
        return self._tokens.token(ours, self._instance.from_bytes(own))

    # ---------------------------------------------------------------- the end

    def close(self) -> None:
        """Terminate if that makes sense, then free the instance with its states, whatever else fails."""
        if self._closed:
            return
        self._closed = True
        try:
            if not (self._failed or self._instance.doomed or self._mode is Mode.INITIALIZATION):
                self._instance.terminate()
        finally:
            self._instance.free()
            self._gone()
