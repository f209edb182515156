"""`FmuTables`: all that the native engine needs to run an instance of an FMU without Python.

**Who frees the instance.** Python loads the library, instantiates, gives start values and enters
initialization mode. Once `Core.fmu` has returned, the instance belongs to the core: it terminates it (if it
left initialization mode and did not fail), frees the states it kept, and frees it, exactly once, also if no
run comes about. The Python instance must be abandoned then; `Keeper` holds it, with its library, its
callbacks and its folder, and is called when the core has freed it.

The bytes of a state are the same on both engines: `upbeat.units.fmi.saved` says what they are.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from ctypes import addressof, c_double
from dataclasses import dataclass
from math import nan
from types import MappingProxyType

from upbeat.core.ports import Causality
from upbeat.units.fmi.cosimulation_ports import can_follow
from upbeat.units.fmi.description import CoSimulation, IntervalVariability, Type, Variability, Variable
from upbeat.units.fmi.instance import Instance
from upbeat.units.fmi.interfaces import has_events, own_clocks
from upbeat.units.fmi.ports import Layout
from upbeat.units.fmi.sensitivity import by_rows

TYPES = MappingProxyType({kind: number for number, kind in enumerate(Type)})
"""The numbers of FMI's types in the core (native/fmi/fmu.hpp)."""

_COMMON = (
    *("EnterInitializationMode", "ExitInitializationMode", "Terminate", "FreeInstance"),
    *("EnterEventMode", "EnterContinuousTimeMode", "SetTime", "SetContinuousStates", "GetContinuousStates"),
    *("CompletedIntegratorStep", "GetEventIndicators", "GetNominalsOfContinuousStates", "DoStep"),
)
FUNCTIONS = MappingProxyType(
    {
        2: (
            *_COMMON,
            *(f"{way}{kind}" for way in ("Get", "Set") for kind in ("Real", "Integer", "Boolean")),
            *("GetFMUstate", "SetFMUstate", "FreeFMUstate"),
            *("SerializedFMUstateSize", "SerializeFMUstate", "DeSerializeFMUstate"),
            *("GetDirectionalDerivative", "SetRealInputDerivatives", "GetRealStatus", "GetBooleanStatus"),
            *("NewDiscreteStates", "GetDerivatives", "GetRealOutputDerivatives"),
        ),
        3: (
            *_COMMON,
            *(
                f"{way}{kind.value}"
                for way in ("Get", "Set")
                for kind in Type
                if kind not in (Type.STRING, Type.BINARY, Type.ENUMERATION)
            ),
            *("GetFMUState", "SetFMUState", "FreeFMUState"),
            *("SerializedFMUStateSize", "SerializeFMUState", "DeserializeFMUState"),
            *("GetDirectionalDerivative", "GetAdjointDerivative", "UpdateDiscreteStates", "EnterStepMode"),
            *("GetContinuousStateDerivatives", "GetIntervalDecimal", "GetShiftDecimal"),
            "GetOutputDerivatives",
        ),
    }
)
"""The functions that the core may call, by version of FMI, without the prefix ``fmi2`` or ``fmi3``."""


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
    """Keeps the instance that the core runs; called when the core has freed it."""

    def __init__(self, instance: Instance, gone: Callable[[], None]) -> None:
        self.instance = instance
        self.clock = c_double(nan)
        """The time of the instance, where the core writes it."""
        instance.tell_time_by(self.clock)
        self._gone = gone

    def complaints(self) -> Sequence[str]:
        """What the FMU said of late about something that went wrong."""
        return self.instance.complaints()

    def __call__(self) -> None:
        self._gone()


@dataclass(frozen=True, slots=True)
class FmuTables:
    """A whole unit for co-simulation, in initialization mode.

    * `version`: of FMI, 2 or 3; `addresses`: of `FUNCTIONS`, 0 where the FMU lacks one.
    * `pointer`: what these functions take first.
    * `event_mode`: whether it has events: it is jumped at the start, and enters event mode.
    * `saves`, `serialises`: whether its state can be kept, and turned into bytes.
    * `steady`: whether all of its steps must be equally long; `grid`: their usual length, 0 if there is none.
    * `clock`: the address of a double that always has the time of the instance.
    * `environment`: what its log messages carry.
    * `adjoint`: whether its derivatives by inputs come row by row.
    * `counted`: the number of the port that counts the events inside, -1 if nobody asks.
    * `doom`: where all instances of its library tell, and look, in which function one failed for good.
    """

    version: int
    pointer: int
    addresses: tuple[tuple[str, int], ...]
    start: float
    ports: tuple[FmuPort, ...]
    clocks: tuple[OwnClock, ...]
    event_mode: bool
    saves: bool
    serialises: bool
    steady: bool
    grid: float
    clock: int
    environment: int
    adjoint: bool
    doom: int
    counted: int
    keeper: Keeper


def lower(
    instance: Instance, layout: Layout, start: float, keeper: Keeper, grid: float = 0.0, counted: int = -1
) -> FmuTables:
    """The tables of an instance for co-simulation that is in initialization mode."""
    description, interface = instance.description, instance.interface
    events = has_events(description, interface)
    clocks = own_clocks(description) if events else []
    version = description.version
    return FmuTables(
        version=version,
        pointer=instance.pointer,
        addresses=tuple((name, instance.address(f"fmi{version}{name}")) for name in FUNCTIONS[version]),
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
        clock=addressof(keeper.clock),
        environment=instance.environment,
        adjoint=by_rows(interface),
        doom=instance.doom,
        counted=counted,
        keeper=keeper,
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
