"""What goes into and comes out of an FMU for co-simulation: its ports, and what is kept of their values.

Inputs: a value is handed to the FMU as soon as it is set. Those that a clock guards wait until it ticks. A
discrete one of an FMU with event mode that changes is an event of its own: the FMU enters event mode for it,
and the unit is due at once. So is a tunable parameter, which the FMU alone remembers.

Derivatives of outputs (`Layout.orders`): FMI lets them be asked for after a step only, neither while the FMU
is initialized nor in event mode. Those that somebody has asked for are read at the end of every step and
kept; until the first one, and after an event until the next one, nobody knows them, and they are NaN.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from math import inf, nan

from upbeat.core.errors import ModelError, suggest
from upbeat.core.ports import EVENTS, Causality, Kind, Port, Signal
from upbeat.units.fmi.clocks import Clocks
from upbeat.units.fmi.courses import Course
from upbeat.units.fmi.description import CoSimulation, Interface, ModelDescription, Variability, Variable
from upbeat.units.fmi.instance import FmuError, Instance, Reader, Writer
from upbeat.units.fmi.interfaces import has_events, own_clocks
from upbeat.units.fmi.next_event import NextEvents
from upbeat.units.fmi.ports import Layout
from upbeat.units.fmi.saved import Ours
from upbeat.units.fmi.sensitivity import slope
from upbeat.units.fmi.steady import SteadySteps
from upbeat.units.fmi.tokens import Tokens
from upbeat.units.inputs import MAX_DEGREE


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


class CoSimulationPorts:
    """One instance, in initialization mode when it comes here. `gone` is called when it has been freed."""

    def __init__(
        self,
        instance: Instance,
        layout: Layout,
        start: float,
        gone: Callable[[], None],
        grid: float = 0.0,
    ) -> None:
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
        self._count = 0  # of what has happened inside: rounds of event mode, and steps that it cut short
        self._grid = grid
        self._ended: float | None = None  # when the FMU asked to end the simulation
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
        for port, variable in layout.tunable:
            self._setters[port.name] = self._tuner(variable)
        self._start = start
        self._rates: list[str] = []
        for port, variable in layout.of(Causality.OUTPUT):
            rate = port.name in layout.orders
            self._readers[port.name] = self._rate_reader(port) if rate else self._reader(port, variable)
        for port, _ in self._senders:
            self._readers[port.name] = self._event_reader(port.name)
        self._readers.setdefault(EVENTS.name, lambda: self._count)

    @property
    def instance(self) -> Instance:
        """The FMU, for those who look at more of it than its ports."""
        return self._instance

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
        if self._ended is not None:
            return
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

    def _tuner(self, variable: Variable) -> Callable[[Sequence[Signal]], None]:
        def tune(coefficients: Sequence[Signal]) -> None:
            if self._has_events and self._mode is not Mode.INITIALIZATION:
                self._enter_event_mode()
                self._pending = True
            (value,) = coefficients
            self._instance.writer(variable)(value)  # made for each call: there may be thousands, hardly used

        return tune

    def slope(self, output: str, input: str) -> Sequence[float]:
        """The derivatives of an output by an input, row by row."""
        unknown, known = self._layout.variables[output], self._layout.variables[input]
        try:
            return slope(self._instance, unknown, known, unknown.cells, known.cells)
        except FmuError:
            self._failed = True
            raise

    def _enter_event_mode(self) -> None:
        if self._mode is not Mode.EVENT:
            self._instance.enter_event_mode()
            self._mode = Mode.EVENT
            for port in self._layout.ports:
                if port.extra:
                    self._seen[port.name] = _unknown(port)
