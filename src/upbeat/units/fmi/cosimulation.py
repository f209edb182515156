"""The running unit of an FMU for co-simulation, of FMI 2 or 3: the reference that the native engine follows.

It stays in initialization mode until time begins to pass or, if it has events, until the first instant.

Inputs: a value is handed to the FMU as soon as it is set. Those that a clock guards wait until it ticks. A
discrete one of an FMU with event mode that changes is an event of its own: the FMU enters event mode for it,
and the unit is due at once.

Derivatives of outputs (`Layout.orders`): FMI lets them be asked for after a step only, neither while the FMU
is initialized nor in event mode. Those that somebody has asked for are read at the end of every step and
kept; until the first one, and after an event until the next one, nobody knows them, and they are NaN.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from math import inf, nan

from upbeat.core.errors import ModelError, suggest
from upbeat.core.ports import Causality, Kind, Port, Signal
from upbeat.units.fmi.clocks import Clocks
from upbeat.units.fmi.courses import Course
from upbeat.units.fmi.description import CoSimulation, Interface, ModelDescription, Variability, Variable
from upbeat.units.fmi.instance import FmuError, Instance, Intermediate, Reader, Stepped, Writer
from upbeat.units.fmi.interfaces import has_events, own_clocks
from upbeat.units.fmi.next_event import NextEvents
from upbeat.units.fmi.ports import Layout
from upbeat.units.fmi.saved import Ours, Saved, from_bytes, to_bytes
from upbeat.units.fmi.sensitivity import slope
from upbeat.units.fmi.steady import SteadySteps
from upbeat.units.fmi.tokens import Tokens
from upbeat.units.inputs import MAX_DEGREE

MOST_ROUNDS = 1000
"""Of event iteration at one instant, and of pieces that one step falls into."""
NEAR = 1e-9
"""A step that ends this near to where it should, measured by its length, has got there."""


class Mode(enum.IntEnum):
    """Where the FMU stands; the numbers are those in a unit's bytes."""

    INITIALIZATION = 0
    STEP = 1
    EVENT = 2


def can_follow(description: ModelDescription, interface: Interface, variable: Variable) -> bool:
    """Whether the FMU can make use of how an input moves during a step."""
    if not isinstance(interface, CoSimulation) or variable.variability is not Variability.CONTINUOUS:
        return False
    if description.version == 2:
        return interface.interpolates_inputs
    return interface.intermediate_update and variable.intermediate_update


def _unknown(port: Port) -> Signal:
    return nan if port.size is None else (nan,) * port.cells


class CoSimulationUnit:
    """One instance, in initialization mode when it comes here. `gone` is called when it has been freed."""

    def __init__(self, instance: Instance, layout: Layout, start: float, gone: Callable[[], None]) -> None:
        description, interface = instance.description, instance.interface
        assert isinstance(interface, CoSimulation)
        self._instance: Instance = instance
        self._layout = layout
        self._gone = gone
        self.time = start
        self._mode = Mode.INITIALIZATION
        self._failed = self._closed = False
        self._has_events = has_events(description, interface)
        self._simple = not self._has_events and interface.variable_step
        """A step is nothing but a step, if no input moves and nobody asks for derivatives."""
        self._slopes = interface.interpolates_inputs and description.version == 2
        clocks = own_clocks(description) if self._has_events else []
        self._clocks = Clocks(instance, [description.by_name[name] for name in clocks], start)
        self._steady = None if interface.variable_step else SteadySteps()
        self._pending = False
        self._next = inf
        self._next_events = NextEvents(instance)
        self._heard: set[str] = set()
        self._sending: set[str] = set()
        self._courses: dict[str, Course] = {}
        self._given: dict[str, Signal] = {}
        self._seen: dict[str, Signal] = {}
        self._senders = layout.of(Causality.OUTPUT, event=True)
        self._tokens: Tokens[Ours] = Tokens(instance)
        self._writers: dict[str, Writer] = {}
        self._setters: dict[str, Callable[[Sequence[Signal]], None]] = {}
        self._readers: dict[str, Reader] = {}
        self._clocked_readers: dict[str, tuple[Variable, Reader]] = {}
        for port, variable in (*layout.of(Causality.INPUT), *layout.of(Causality.INPUT, event=True)):
            self._setters[port.name] = self._setter(port, variable)
        self._start = start
        self._rates: list[str] = []
        for port, variable in layout.of(Causality.OUTPUT):
            rate = port.name in layout.orders
            self._readers[port.name] = self._rate_reader(port) if rate else self._reader(port, variable)
        for port, _ in self._senders:
            self._readers[port.name] = self._event_reader(port.name)

    # ---------------------------------------------------------------- values

    def get(self, port: str) -> Signal | None:
        """An output now; of a clocked one the value at the last tick."""
        try:
            return self._readers[port]()
        except KeyError:
            raise ModelError(
                f"there is no output '{port}'. {suggest(port, self._readers, 'outputs')}"
            ) from None
        except FmuError:
            self._failed = True
            raise

    def _reader(self, port: Port, variable: Variable) -> Reader:
        reader = self._instance.reader(variable)
        if not (variable.clocks and self._has_events):
            return reader
        name, zeros = port.name, (port.kind.zero,) * port.cells
        self._clocked_readers[name] = (variable, reader)
        self._seen[name] = zeros[0] if port.size is None else zeros
        return lambda: self._seen[name]

    def _rate_reader(self, port: Port) -> Reader:
        name, self._seen[port.name] = port.name, _unknown(port)

        def read() -> Signal:
            if name not in self._rates:
                self._rates.append(name)
                self._simple = False
                if self._mode is Mode.STEP and self.time > self._start:
                    self._look_at_rate(name)
            return self._seen[name]

        return read

    def _look_at_rate(self, name: str) -> None:
        variable = self._layout.variables[name]
        found = self._instance.output_derivatives([variable], [self._layout.orders[name]])
        self._seen[name] = tuple(found) if variable.dimensions else found[0]

    def _event_reader(self, name: str) -> Reader:
        return lambda: True if name in self._sending else None  # type: ignore[return-value]

    def set(self, port: str, coefficients: Sequence[Signal]) -> None:
        """From now on the input is Σ coefficients[k]·(t - now)**k, as far as the FMU can follow that."""
        try:
            self._setters[port](coefficients)
        except KeyError:
            raise ModelError(
                f"there is no input '{port}'. {suggest(port, self._setters, 'inputs')}"
            ) from None
        except FmuError:
            self._failed = True
            raise

    def _setter(self, port: Port, variable: Variable) -> Callable[[Sequence[Signal]], None]:
        name, most = port.name, MAX_DEGREE + 1 if port.kind is Kind.REAL and not port.event else 1
        if port.event:
            return lambda coefficients: self._heard.add(name)
        writer = self._writers[name] = self._instance.writer(variable)

        def checked(coefficients: Sequence[Signal]) -> Sequence[Signal]:
            if not 1 <= len(coefficients) <= most:
                what = f"polynomials of degree 0 to {most - 1}, not {len(coefficients)} coefficients"
                raise ModelError(f"input '{name}' ({port.kind.value}) takes {what}")
            return coefficients

        def hand_over(coefficients: Sequence[Signal]) -> None:
            writer(coefficients[0] if len(coefficients) == 1 else checked(coefficients)[0])

        def move(coefficients: Sequence[Signal]) -> None:
            writer(checked(coefficients)[0])
            if len(coefficients) > 1:
                self._courses[name] = Course(self.time, coefficients)
            elif self._courses:
                self._courses.pop(name, None)

        def wait(coefficients: Sequence[Signal]) -> None:
            self._courses[name] = Course(self.time, checked(coefficients)[:1])

        def happen(coefficients: Sequence[Signal]) -> None:
            value = checked(coefficients)[0]
            if self._mode is not Mode.INITIALIZATION:
                if name in self._given and self._given[name] == value:
                    return
                self._enter_event_mode()
                self._pending = True
            self._given[name] = value
            writer(value)

        if self._has_events and variable.clocks:
            return wait
        if self._has_events and variable.variability is Variability.DISCRETE:
            return happen
        follows = can_follow(self._instance.description, self._instance.interface, variable)
        return move if follows else hand_over

    def slope(self, output: str, input: str) -> Sequence[float]:
        """The derivatives of an output by an input, row by row."""
        unknown, known = self._layout.variables[output], self._layout.variables[input]
        try:
            return slope(self._instance, unknown, known, unknown.cells, known.cells)
        except FmuError:
            self._failed = True
            raise

    # ---------------------------------------------------------------- time

    def advance(self, t: float, to: float, early: bool = False) -> float:
        """Simulate from `t` to `to`; with `early` no further than the first event or refusal."""
        if to < t:
            raise FmuError(f"cannot advance backwards, from {t:.9g} to {to:.9g}")
        try:
            if to > t and self._simple and self._mode is Mode.STEP and not self._courses:
                stepped = self._instance.step(t, to - t, not self._tokens.alive)
                if not (stepped.early or stepped.terminate):  # by far the most frequent case
                    self.time = to
                    return to
                self._arrive(stepped, t, to)
                if self.time >= to or early:
                    return self.time
            for _ in range(MOST_ROUNDS):
                self._make_ready()
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
        if self._mode is Mode.EVENT:
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
        self._arrive(self._instance.step(now, until - now, not self._tokens.alive), now, until)

    def take_any_length(self) -> None:
        """Try steps of all lengths, whatever the FMU declares: for those who measure what it can do."""
        self._steady = None

    def _arrive(self, stepped: Stepped, now: float, until: float) -> None:
        """How far a step came."""
        if stepped.terminate:
            raise FmuError(f"the FMU asked to end the simulation at t = {stepped.reached:.9g}")
        reached, slack = stepped.reached, NEAR * (until - now)
        if abs(until - reached) <= slack:
            reached = until
        if not now <= reached <= until:
            raise FmuError(f"a step from {now:.9g} to {until:.9g} ended at {stepped.reached:.9g}")
        self._pending = self._has_events and stepped.event
        if reached == now and not self._pending:
            raise FmuError(
                f"the FMU refused the step from {now:.9g} to {until:.9g} and did not move at all. Try a "
                'smaller step (--step, or pace=…), or let units stop early (coupling = "negotiated")'
            )
        self.time = reached
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
        if self._has_events and (self._mode is Mode.INITIALIZATION or self._waiting or self._sending):
            return self.time
        return min(self._next, self._clocks.due)

    @property
    def _waiting(self) -> bool:
        """Whether something is to be done in event mode that is not a matter of time."""
        return bool(self._pending or self._heard)

    def jump(self) -> bool:
        """One round of event mode, if there is something to do; what ticked is sent by the next jump."""
        if not self._has_events:
            return False
        try:
            if self._mode is Mode.INITIALIZATION:
                self._leave_initialization()
                self._settle()
            else:
                self._sending.clear()
                if self._waiting or min(self._next, self._clocks.due) <= self.time:
                    self._round()
        except FmuError:
            self._failed = True
            raise
        return self.due() <= self.time

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
            if not self._waiting and min(self._next, self._clocks.due) > self.time:
                return
            self._round()
        raise FmuError(f"event iteration at t = {self.time:.9g} did not end within {MOST_ROUNDS} rounds")

    def _round(self) -> None:
        """One round: what ticks is told, clocked values are exchanged, discrete states renewed."""
        instance = self._instance
        instance.time = self.time
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
            raise FmuError(f"the FMU asked to end the simulation at t = {self.time:.9g}")
        self._pending = updated.again
        self._next = self._next_events.after(self.time, updated.next_time)
        self._clocks.look(self.time)

    def _enter_event_mode(self) -> None:
        if self._mode is not Mode.EVENT:
            self._instance.enter_event_mode()
            self._mode = Mode.EVENT
            for port in self._layout.ports:
                if port.extra:
                    self._seen[port.name] = _unknown(port)

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
        self.time, self._mode, self._pending = ours.time, Mode(ours.mode), ours.pending
        self._next = ours.next
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
            if not self._failed and self._mode is not Mode.INITIALIZATION:
                self._instance.terminate()
        finally:
            self._instance.free()
            self._gone()
