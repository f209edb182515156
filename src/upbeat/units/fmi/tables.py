"""`FmuTables`: all that the native engine needs to run an instance of an FMU without Python.

**Who frees the instance.** Python loads the library, instantiates, gives start values and enters
initialization mode. From the moment `Core.fmu` has returned, the instance belongs to the core: it
terminates it (if it left initialization mode and did not fail), frees the states it kept, and frees it,
exactly once, also if no run comes about. `keeper` (the Python instance, which must only forget it, with
its library, its callbacks and its folder) is held until after that.

**The bytes of a state**, which both engines write: words of eight bytes, little-endian, numbers as
doubles and the values of integers and booleans as integers of 64 bits; then the bytes that the FMU itself
made of its state. The words of a co-simulation unit are

1. its time;
2. its mode: 0 initialization, 1 between steps, 2 event mode;
3. whether an event is to be handled now (0 or 1);
4. the time of the next event that the FMU has named, or infinity;
5. for each followed input, in the order of the ports: origin of its course, number of coefficients (0 if
   it never was set), the number of coefficients that the FMU has been given last, (MAX_DEGREE + 1) × cells
   coefficients, unused ones zero;
6. for each clocked input, in the order of the ports: whether it has been set since the last tick of one of
   its clocks, then its cells;
7. for each input clock that is a port: whether it has been set;
8. for each output clock: whether it has ticked and nobody has been told;
9. for each clock that the unit ticks by itself: the time of its next tick (infinity: none), the time from which
   ticks are counted, and how many there were since.

A *followed* input is one whose polynomial the FMU can use: FMI 2 with interpolated inputs, FMI 3 with
intermediate update. Other inputs live in the FMU alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType

from upbeat.core.ports import Causality, Port
from upbeat.units.fmi.description import Type, Variable
from upbeat.units.fmi.instance import Instance

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
            *("NewDiscreteStates", "GetDerivatives"),
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
            *("GetDirectionalDerivative", "UpdateDiscreteStates", "EnterStepMode"),
            *("GetContinuousStateDerivatives", "GetIntervalDecimal", "GetShiftDecimal"),
        ),
    }
)
"""The functions that the core may call, by version of FMI, without the prefix ``fmi2`` or ``fmi3``."""


@dataclass(frozen=True, slots=True)
class FmuPort:
    """One variable.

    * `port`: its position among all ports of the model; -1 for a clock that the unit ticks by itself.
    * `name`: for messages.
    * `input`: whether the unit is given it; `event`: whether it is a clock.
    * `followed`: whether the FMU can use its polynomial.
    * `clocks`: for a clocked input the references of its clocks.
    """

    port: int
    name: str
    type: int
    reference: int
    cells: int
    input: bool
    event: bool = False
    followed: bool = False
    clocks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class OwnClock:
    """A clock that the unit ticks by itself. `interval` 0: the FMU says it, at the start and after each tick."""

    reference: int
    name: str
    interval: float
    shift: float
    countdown: bool


@dataclass(frozen=True, slots=True)
class FmuTables:
    """A whole unit, in initialization mode.

    * `version`: of FMI, 2 or 3; `addresses`: of `FUNCTIONS`, 0 where the FMU lacks one.
    * `pointer`: what these functions take first.
    * `event_mode`: whether it has events: it is jumped at the start, and enters event mode.
    * `saves`, `serialises`: whether its state can be kept, and turned into bytes.
    * `slopes`: the pairs of ports (output, input) whose derivatives a program asks for.
    """

    version: int
    name: str
    pointer: int
    addresses: tuple[tuple[str, int], ...]
    start: float
    ports: tuple[FmuPort, ...]
    clocks: tuple[OwnClock, ...]
    event_mode: bool
    saves: bool
    serialises: bool
    slopes: tuple[tuple[int, int], ...]
    keeper: object


def addresses(instance: Instance) -> tuple[tuple[str, int], ...]:
    """Where the functions of an instance lie."""
    version = instance.description.version
    return tuple((name, instance.address(f"fmi{version}{name}")) for name in FUNCTIONS[version])


def fmu_port(
    number: int, port: Port, variable: Variable, *, followed: bool, clocks: Sequence[Variable]
) -> FmuPort:
    """A port and its variable. `clocks`: those of a clocked input."""
    return FmuPort(
        port=number,
        name=port.name,
        type=TYPES[variable.type],
        reference=variable.reference,
        cells=port.cells,
        input=port.causality is Causality.INPUT,
        event=port.event,
        followed=followed,
        clocks=tuple(clock.reference for clock in clocks),
    )
