"""One FMU in model exchange, running: integrated, its events located and handled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf

from upbeat.core.errors import ModelError, suggest
from upbeat.core.ports import EVENTS, Causality, Port, Signal
from upbeat.units.fmi.description import Variable
from upbeat.units.fmi.exchange.clockwork import Clockwork
from upbeat.units.fmi.exchange.inputs import Inputs
from upbeat.units.fmi.exchange.motion import Motion
from upbeat.units.fmi.exchange.noting import noting
from upbeat.units.fmi.exchange.slopes import rates
from upbeat.units.fmi.exchange.state import Held, Mode, Ours
from upbeat.units.fmi.instance import FmuError, Instance, end_request
from upbeat.units.fmi.next_event import NextEvents
from upbeat.units.fmi.sensitivity import slope
from upbeat.units.fmi.tokens import Tokens
from upbeat.units.solving.effort import Effort
from upbeat.units.solving.solvers import Solver, SolverError

ROUNDS = 1000
"""Too many rounds of event iteration at one instant, and too many events within a millionth of a step."""


class Exchange:
    """One running FMU under one of our solvers. The instance comes in initialization mode and is ours.

    It stays there until the first `jump` (`due` asks for one at the start) or `advance`. A root of an
    indicator, a wish of `completed_step` and the time of the next event end a step: with `early` the unit
    returns there and asks for `jump`, otherwise it goes through the event itself and on. An input that
    changes in event mode asks for another round, and one that may change only there leads to it. What
    crosses because an input has jumped in continuous time is an event at the start of the next `advance`.
    """

    def __init__(
        self,
        instance: Instance,
        ports: Sequence[Port],
        variables: Mapping[str, Variable],
        start: float,
        solver: Solver,
        gone: Callable[[], None] = lambda: None,
        shown: Sequence[str] = (),
        tunable: Sequence[Port] = (),
    ) -> None:
        self.time = start
        self._gone = gone
        self.failed = self._closed = False
        self.instance = instance
        self._known = {port.name: (port, variables[port.name]) for port in ports}
        self.clocks = Clockwork(instance, ports, variables, start)
        plain = [port for port in ports if not self.clocks.owns(port.name)]
        outputs = [port for port in plain if port.causality is Causality.OUTPUT]
        self._outputs = {port.name: instance.reader(variables[port.name], port.size) for port in outputs}
        self._outputs |= self.clocks.readers
        self._outputs |= {name: self._shown(k) for k, name in enumerate(shown)}
        self._outputs.setdefault(EVENTS.name, lambda: self._count)
        inputs = [port for port in plain if port.causality is Causality.INPUT]
        self.inputs = Inputs(instance, inputs, variables, start)
        self._tunable = frozenset(port.name for port in tunable)
        self._mode = Mode.INITIAL
        self._pending = True
        self._count = 0
        self._next = inf
        self._next_events = NextEvents(instance)
        self.motion = Motion(instance, self.inputs, solver)
        self.tokens: Tokens[Ours] = Tokens(instance)
        self._touched = False  # whether inputs may have jumped since the indicators were looked at
        self._seen: Sequence[float] | None = None  # the indicators, as long as nothing moves

    # -- values --------------------------------------------------------------------------------

    def get(self, port: str) -> Signal:
        """The value of an output now."""
        try:
            read = self._outputs[port]
        except KeyError:
            hint = suggest(port, self._outputs, "outputs")
            raise ModelError(f"there is no output '{port}'. {hint}") from None
        try:
            return read()
        except FmuError:
            self.failed = True
            raise

    def _shown(self, place: int) -> Callable[[], Signal]:
        """What reads an indicator, or the reverse of one."""

        def read() -> Signal:
            z = self._seen
            if z is None:  # the FMU gives all at once: asked once for all of them
                z = self._seen = self.indicators()
            return z[place // 2] if place % 2 == 0 else -z[place // 2]

        return read

    @noting
    def set(self, port: str, coefficients: Sequence[Signal]) -> None:
        """From now on the input is Σ coefficients[k]·(t - now)**k; the FMU gets its value now at once."""
        self._seen = None
        if self.motion.system.ended is not None:
            return
        if self.clocks.owns(port):
            self.clocks.set(port, coefficients)
            return
        if port in self._tunable:  # may change in event mode only, and the FMU alone remembers it
            if self._mode is Mode.CONTINUOUS:
                self._enter_event_mode()
            self._pending = True
            known, variable = self._known[port]
            self.instance.writer(variable, known.size)(coefficients[0])
            return
        entry = self.inputs.entry(port)
        value, changed = self.inputs.set(entry, self.time, coefficients)
        if self._mode is Mode.CONTINUOUS and not entry.discrete:
            self._touched = True
        elif self._mode is not Mode.INITIAL:
            if not changed:
                return
            if self._mode is Mode.CONTINUOUS:
                self._enter_event_mode()
            self._pending = True
        entry.write(value)

    # -- time ----------------------------------------------------------------------------------

    @noting
    def advance(self, t: float, to: float, early: bool = False) -> float:
        """Integrate from `t` to `to`; with `early` no further than to the first event."""
        if to < t:
            raise SolverError(f"cannot advance backwards, from {t:.9g} to {to:.9g}")
        if to == t:
            return to
        if self.motion.system.ended is not None:
            raise end_request(self.instance, self.motion.system.ended)
        self.time = t
        self._seen = None
        self._settle()
        if self._touched:
            self._meet_inputs()
        events, since, crowd = 0, t, 1e-6 * (to - t)
        while True:
            if self.motion.system.ended is not None:  # it stays where it is, whatever the time
                self.time, self._pending = to, False
                return to
            until = min(to, self._next_time)
            if until > self.time:
                self.time, self._pending = self.motion.go(self.time, until)
                if self.motion.system.ended is not None:
                    continue
            self._pending = self._pending or self.time >= self._next_time
            if self.time >= to or (early and self._pending):
                return self.time
            if self.time - since > crowd:
                events, since = 0, self.time
            events += 1
            if events > ROUNDS:
                raise SolverError(
                    f"{ROUNDS:,} events in a row hardly let time go on at t = {self.time:.9g}; a model that "
                    "switches faster and faster needs a rule by which it comes to rest"
                )
            self._settle()

    def _meet_inputs(self) -> None:
        """Inputs may have jumped: what has crossed by that is an event now."""
        self._touched = False
        self._pending = self.motion.crossed()
        self._settle()

    # -- events --------------------------------------------------------------------------------

    def due(self) -> float:
        """Now, if the FMU waits for an event to be handled; else the time of its next one."""
        if self.motion.system.ended is not None:
            return inf
        return self.time if self._pending or self.clocks.waiting else self._next_time

    @property
    def _next_time(self) -> float:
        return min(self._next, self.clocks.due)

    @noting
    def jump(self) -> bool:
        """One round of event iteration, if there is something to do."""
        self._seen = None
        self.clocks.sent()
        if self.motion.system.ended is not None or (not self._pending and not self.clocks.heard):
            return False
        if self._mode is Mode.INITIAL:
            self.instance.exit_initialization()
            self._mode = Mode.EVENT
            self.clocks.begin()
        elif self._mode is Mode.CONTINUOUS:
            self._enter_event_mode()
        self._count += 1
        self.clocks.tick(self.time)
        updated = self.instance.update()
        if updated.terminate:
            self.motion.system.ended, self._pending = self.time, False
            return False
        if updated.nominals_changed:
            self.motion.forget_scale()
        self._next = self._next_events.after(self.time, updated.next_time)
        self.clocks.look(self.time)
        self._pending = updated.again or self._next_time <= self.time
        return self.due() <= self.time

    def _enter_event_mode(self) -> None:
        self.instance.enter_event_mode()
        self._mode = Mode.EVENT

    def _settle(self) -> None:
        """Go through what is due now, and on to continuous time."""
        for _ in range(ROUNDS):
            if not self._pending and not self.clocks.heard:
                break
            self.jump()
            if self.motion.system.ended is not None:
                return
        if self._pending:
            raise FmuError(
                f"event iteration at t = {self.time:.9g} did not come to an end in {ROUNDS:,} rounds"
            )
        if self._mode is Mode.CONTINUOUS:
            return
        self.instance.enter_continuous_time_mode()
        self._mode = Mode.CONTINUOUS
        self.clocks.sent()
        self._touched = False
        self.motion.begin()

    # -- state ---------------------------------------------------------------------------------

    @property
    def effort(self) -> Effort | None:
        """How hard the solver has worked; None without states, and of CVODE."""
        return self.motion.effort

    @noting
    def save(self) -> Held:
        """Everything, the FMU's own state included."""
        h, x, z = self.motion.save()
        inputs = self.inputs.pack()
        kept = self.clocks.save()
        ours = Ours(self.time, self._mode, self._pending, self._count, self._next, h, x, z, inputs, kept)
        return self.tokens.token(ours, self.instance.save())

    @noting
    def restore(self, token: Held) -> None:
        """Set back to what `save` gave."""
        self._seen = self.motion.system.ended = None
        self.instance.restore(token.state)
        ours = token.ours
        self.time, self._mode, self._pending, self._next = ours.time, ours.mode, ours.pending, ours.next
        self._count = ours.count
        self.inputs.unpack(ours.inputs)
        self.clocks.restore(ours.clocks)
        self._touched = True  # it may have been: looking once more changes nothing
        self.motion.restore(ours, moving=self._mode is Mode.CONTINUOUS)

    # -- looking around ------------------------------------------------------------------------

    @property
    def state(self) -> tuple[float, ...]:
        """The continuous states now."""
        return tuple(self.motion.x)

    def put(self, state: Sequence[float]) -> None:
        """Other states from now on, in continuous time: for those who ask what would be if."""
        self._seen = None
        if self._mode is Mode.CONTINUOUS:
            self.motion.x = [float(value) for value in state]
            self.motion.place(self.time, self.motion.x)

    def look_from(self, t: float, x: Sequence[float]) -> None:
        """Let the FMU compute at another time and state for a moment; whoever asks brings it back."""
        self._seen = None
        if self._mode is Mode.CONTINUOUS:
            self.motion.place(t, list(x))

    # -- derivatives ---------------------------------------------------------------------------

    @noting
    def slope(self, output: str, input: str) -> Sequence[float]:
        """The derivatives of an output by an input, now."""
        (made, unknown), (given, known) = self._known[output], self._known[input]
        return slope(self.instance, unknown, known, made.cells, given.cells)

    def indicators(self) -> Sequence[float]:
        """The FMU's event indicators, now."""
        return self.motion.indicators()

    def indicator_rates(self) -> Sequence[float] | None:
        """How fast the indicators change along the solution, where the FMU's derivatives say it."""
        if self._mode is not Mode.CONTINUOUS:
            return None
        moving = [entry.variable for entry in self.inputs.moving]
        return rates(self.instance, moving, self.inputs.rates(self.time))

    def close(self) -> None:
        """The end: terminate, if it ever began and did not fail, and free."""
        if self._closed:
            return
        self._closed = True
        try:
            if not (self.failed or self.instance.doomed or self._mode is Mode.INITIAL):
                self.instance.terminate()
        finally:
            self.instance.free()
            self._gone()
