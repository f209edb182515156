"""`FmuTables` and `ExchangeTables`: what the core needs to make a unit of an instance.

**Who frees the instance.** Python loads the library, and the core instantiates, gives start values and
enters initialization mode. Once a unit has been made of an instance, it belongs to the unit: when that is
closed, or the machine that it runs in, it is terminated (if it left initialization mode and did not fail),
the states it kept are freed, and then the instance itself. `Keeper` keeps what it needs meanwhile, and is
called when it is gone.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

from upbeat.core.ports import Causality, Kind, Port
from upbeat.core.records import dataclass
from upbeat.units.equations.lowered import lower_solver
from upbeat.units.fmi.description import (
    CoSimulation,
    Interface,
    IntervalVariability,
    ModelDescription,
    ModelExchange,
    Variability,
    Variable,
)
from upbeat.units.fmi.instance import TYPES, Instance
from upbeat.units.fmi.journal import Journal
from upbeat.units.fmi.ports import Layout, has_events, own_clocks
from upbeat.units.solving.solvers import Cvode, Solver


@dataclass(frozen=True, slots=True)
class FmuPort:
    """One port.

    * `port`: its position among all ports of the model; `name`: for messages.
    * `type`: see `TYPES`; `cells`: how many values it has.
    * `input`: whether the unit is given it; `event`: whether it is a clock.
    * `followed`: whether the FMU can use its polynomial; `discrete`: whether it waits for event mode.
    * `clocks`: the references of the clocks of a clocked variable.
    * `order`: which time derivative of the variable it is, 0 for the variable itself.
    * `tunable`: whether it is a parameter that may be set while the FMU runs.
    """

    port: int
    name: str
    type: int
    reference: int
    cells: int
    input: bool
    event: bool = False
    followed: bool = False
    discrete: bool = False
    clocks: tuple[int, ...] = ()
    order: int = 0
    tunable: bool = False


class Interval(enum.IntEnum):
    """Who gives the interval of a clock: the description; the FMU, once, after each tick, as a countdown."""

    GIVEN = 0
    ASKED = 1
    CHANGING = 2
    COUNTDOWN = 3


@dataclass(frozen=True, slots=True)
class OwnClock:
    """A clock that the unit ticks by itself; `length` and `shift` count in 1/`resolution` seconds."""

    reference: int
    name: str
    interval: int
    length: float
    shift: float
    resolution: float


class Keeper:
    """Keeps what a unit needs as long as it runs; called when it is gone."""

    def __init__(self, journal: Journal, gone: Callable[[], None]) -> None:
        self._journal = journal
        self._gone = gone

    def complaints(self) -> Sequence[str]:
        """What the FMU said of late about something that went wrong."""
        return self._journal.complaints()

    def __call__(self) -> None:
        self._gone()


@dataclass(frozen=True, slots=True)
class FmuTables:
    """A whole unit for co-simulation, in initialization mode.

    * `event_mode`: whether it has events: it is jumped at the start, and enters event mode.
    * `saves`, `serialises`: whether its state can be kept, and turned into bytes.
    * `steady`: whether all of its steps must be equally long; `grid`: their usual length, 0 if there is none.
    * `adjoint`: whether its derivatives by inputs come row by row.
    * `counted`: the number of the port that counts the events inside, -1 if it is not asked for.
    * `resets`: whether it may begin again with other numbers for what was `given`: (type, reference, name,
      values); `stop` and `tolerance` are what the FMU is told of the run.
    """

    start: float
    ports: tuple[FmuPort, ...]
    clocks: tuple[OwnClock, ...]
    event_mode: bool
    saves: bool
    serialises: bool
    steady: bool
    grid: float
    adjoint: bool
    counted: int
    resets: bool
    given: tuple[tuple[int, int, str, tuple[float, ...]], ...]
    stop: float | None
    tolerance: float | None


@dataclass(frozen=True, slots=True)
class ExchangeTables(FmuTables):
    """A whole unit for model exchange, in initialization mode.

    * `states`, `indicators`: how many there are; `completes`: whether it wants to know of accepted steps.
    * `input_start`, `held_start`: the start values of the cells of real inputs, and of the others, of `texts`
      by their numbers.
    * `solver`: a `SolverTable`; or what integrates it in Python (`upbeat.units.fmi.unit.WithCvode`).
    * `shown`: the number of the first port that shows an indicator (see `Fmu.indicating`), all others and
      their derivatives follow; -1 if none does.
    """

    states: int
    indicators: int
    completes: bool
    input_start: tuple[float, ...]
    held_start: tuple[int, ...]
    texts: tuple[str, ...]
    solver: Any
    shown: int


def can_follow(description: ModelDescription, interface: Interface, variable: Variable) -> bool:
    """Whether the FMU can make use of how an input moves during a step."""
    if not isinstance(interface, CoSimulation) or variable.variability is not Variability.CONTINUOUS:
        return False
    if description.version == 2:
        return interface.interpolates_inputs
    return interface.intermediate_update and variable.intermediate_update


def lower(
    instance: Instance, layout: Layout, start: float, grid: float = 0.0, counted: int = -1
) -> FmuTables:
    """The tables of an instance for co-simulation that is in initialization mode."""
    description, interface = instance.description, instance.interface
    events = has_events(description, interface)
    clocks = own_clocks(description) if events else []
    return FmuTables(
        start=start,
        ports=tuple(
            _port(number, instance, layout, events)
            for number, port in enumerate(layout.ports)
            if port.causality is not Causality.PARAMETER or layout.fixed(port.name) is None
        ),
        clocks=tuple(_clock(description.by_name[name]) for name in clocks),
        event_mode=events,
        saves=interface.saves_state,
        serialises=interface.serialises_state,
        steady=isinstance(interface, CoSimulation) and not interface.variable_step,
        grid=grid,
        # Where there are only adjoint derivatives (FMI 3), they come row by row.
        adjoint=interface.adjoint_derivatives and not interface.directional_derivatives,
        counted=counted,
        resets=False,
        given=(),
        stop=None,
        tolerance=None,
    )


def lower_exchange(
    instance: Instance,
    layout: Layout,
    ports: Sequence[Port],
    start: float,
    grid: float,
    solver: Solver,
    other: object = None,
) -> ExchangeTables:
    """The tables of an instance that is in initialization mode; `ports` are those with their start values.

    `other` integrates it in the place of a solver that the core does not have.
    """
    interface = instance.interface
    assert isinstance(interface, ModelExchange)
    states, indicators = instance.sizes()
    first, last = len(layout.ports), len(ports) - 1
    common = lower(instance, layout, start, grid, counted=last if last >= first else -1)
    guarded = {port.name for port in common.ports if port.event or port.clocks}
    inputs = [port for port in ports if port.causality is Causality.INPUT and port.name not in guarded]
    held = [(port.kind, value) for port in inputs if port.kind is not Kind.REAL for value in port.initial]
    texts = tuple(str(value) for kind, value in held if kind is Kind.STRING)
    numbers = iter(range(len(texts)))
    assert other is not None or not isinstance(solver, Cvode)
    return ExchangeTables(
        **{field.name: getattr(common, field.name) for field in fields(common)},
        states=states,
        indicators=indicators,
        completes=interface.completed_integrator_step,
        input_start=tuple(float(v) for port in inputs if port.kind is Kind.REAL for v in port.initial),
        held_start=tuple(next(numbers) if kind is Kind.STRING else int(value) for kind, value in held),
        texts=texts,
        solver=lower_solver(solver) if other is None else other,
        shown=first if last > first else -1,
    )


def _port(number: int, instance: Instance, layout: Layout, events: bool) -> FmuPort:
    port = layout.ports[number]
    variable = layout.variables[port.name]
    by_name = instance.description.by_name
    return FmuPort(
        port=number,
        name=port.name,
        type=TYPES[variable.type],
        reference=variable.reference,
        cells=port.cells,
        input=port.causality is Causality.INPUT,
        event=port.event,
        followed=can_follow(instance.description, instance.interface, variable),
        discrete=events and variable.variability is Variability.DISCRETE,
        clocks=tuple(by_name[clock].reference for clock in variable.clocks) if events else (),
        order=layout.orders.get(port.name, 0),
        tunable=port.causality is Causality.PARAMETER,
    )


def _clock(variable: Variable) -> OwnClock:
    own = variable.properties.clock
    assert own is not None, "chosen by their interval"
    resolution = float(own.resolution or 1)
    shift = float(own.shift_counter) if own.resolution else own.shift
    if own.variability in (IntervalVariability.CHANGING, IntervalVariability.COUNTDOWN):
        changing = own.variability is IntervalVariability.CHANGING
        kind = Interval.CHANGING if changing else Interval.COUNTDOWN
        return OwnClock(variable.reference, variable.name, kind, 0.0, shift, resolution)
    if own.interval is not None:
        return OwnClock(variable.reference, variable.name, Interval.GIVEN, own.interval, own.shift, 1.0)
    if own.interval_counter is not None and own.resolution:
        length = float(own.interval_counter)
        return OwnClock(variable.reference, variable.name, Interval.GIVEN, length, shift, resolution)
    return OwnClock(variable.reference, variable.name, Interval.ASKED, 0.0, 0.0, 1.0)
