"""One instance of an FMU: made, given values and initialised by the native core, which runs it, too.

Every call that the FMU refuses raises `FmuError`; after a fatal one, of this instance or another one of the
same library, or when it has been freed, no call reaches the FMU any more. Units are made of instances that
are in initialization mode (`upbeat.units.fmi.unit`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from ctypes import addressof
from math import inf
from operator import index
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from upbeat.core.errors import EndRequest, ModelError, UpbeatError
from upbeat.core.ports import Signal
from upbeat.units.fmi.description import Interface, InterfaceKind, ModelDescription, Type, Variable
from upbeat.units.fmi.journal import Journal, joined, listen, why
from upbeat.units.fmi.library import FmuError, load
from upbeat.units.solving.solvers import SolverError

if TYPE_CHECKING:
    from upbeat import _native

__all__ = ["FmuError", "Instance", "Stepped", "Updated", "core", "instantiate"]

Reader = Callable[[], Signal]
"""Gives the value now: a plain value for a scalar, a tuple of all cells for an array."""
Writer = Callable[[Signal], None]

TYPES = MappingProxyType({kind: number for number, kind in enumerate(Type)})
"""The numbers of FMI's types in the core (native/fmi/fmu.hpp)."""

_COMMON = (
    *("SetDebugLogging", "EnterInitializationMode", "ExitInitializationMode", "Terminate", "FreeInstance"),
    "Reset",
    *("EnterEventMode", "EnterContinuousTimeMode", "SetTime", "SetContinuousStates", "GetContinuousStates"),
    *("CompletedIntegratorStep", "GetEventIndicators", "GetNominalsOfContinuousStates", "DoStep"),
)
FUNCTIONS = MappingProxyType(
    {
        2: (
            *_COMMON,
            *("Instantiate", "SetupExperiment"),
            *(f"{way}{kind}" for way in ("Get", "Set") for kind in ("Real", "Integer", "Boolean", "String")),
            *("GetFMUstate", "SetFMUstate", "FreeFMUstate"),
            *("SerializedFMUstateSize", "SerializeFMUstate", "DeSerializeFMUstate"),
            *("GetDirectionalDerivative", "SetRealInputDerivatives", "GetRealStatus", "GetBooleanStatus"),
            *("NewDiscreteStates", "GetDerivatives", "GetRealOutputDerivatives"),
        ),
        3: (
            *_COMMON,
            *("InstantiateModelExchange", "InstantiateCoSimulation"),
            *("EnterConfigurationMode", "ExitConfigurationMode"),
            *(
                f"{way}{kind.value}"
                for way in ("Get", "Set")
                for kind in Type
                if kind is not Type.ENUMERATION
            ),
            *("GetFMUState", "SetFMUState", "FreeFMUState"),
            *("SerializedFMUStateSize", "SerializeFMUState", "DeserializeFMUState"),
            *("GetDirectionalDerivative", "GetAdjointDerivative", "UpdateDiscreteStates", "EnterStepMode"),
            *("GetContinuousStateDerivatives", "GetIntervalDecimal", "GetShiftDecimal"),
            *("GetIntervalFraction", "GetShiftFraction", "GetOutputDerivatives"),
            *("GetNumberOfContinuousStates", "GetNumberOfEventIndicators"),
        ),
    }
)
"""The functions that the core may call, by version of FMI, without the prefix ``fmi2`` or ``fmi3``."""

_GREATEST = 2**63 - 1
_CALL = re.compile(r"\bfmi[23]\w+")
_SAID, _ENDED = 2, -(1 << 31) + 1
"""What the core gives if the FMU itself failed, and may have said why; and if it has asked for the end."""


def core() -> Any:
    """The native core, without which no FMU runs."""
    if why := no_core():
        raise UpbeatError(why)
    from upbeat import _native

    return _native


def no_core() -> str:
    """Why FMUs do not run here, and what to type about it; empty if they do."""
    try:
        from upbeat import _native  # noqa: F401
    except ImportError as error:
        return (
            f"FMUs are native code and need Upbeat's native core, which is missing here ({error}). Install "
            "Upbeat from a wheel (pip install --only-binary upbeat upbeat), or where there is a C++17 "
            "compiler (pip install --force-reinstall --no-binary upbeat upbeat)"
        )
    return ""


class Functions(Protocol):
    """Where the functions of an FMU are found: its library."""

    doom: Any
    """In which function an instance failed for good, null until then; the core reads and writes it."""

    def address(self, name: str) -> int: ...


class Stepped(NamedTuple):
    """How a co-simulation step ended: the time reached, and what the FMU asks for.

    `early` says that it is not all of the step: FMI 3's early return, or FMI 2's discard.
    """

    reached: float
    event: bool = False
    terminate: bool = False
    early: bool = False


class Updated(NamedTuple):
    """What one round of event iteration left: `next_time` is infinite where no time event is known."""

    again: bool = False
    terminate: bool = False
    nominals_changed: bool = False
    states_changed: bool = False
    next_time: float = inf


class Instance:
    """One instance, in the state "instantiated" when `instantiate` has made it.

    Call order is that of the standard; units keep to it. `native` is what the core knows of it.
    """

    def __init__(
        self,
        description: ModelDescription,
        interface: Interface,
        name: str,
        library: Functions,
        categories: Sequence[str] | None = None,
    ) -> None:
        self.description = description
        self.interface = interface
        self.name = name
        self.journal = Journal(name, description, categories)
        listen()
        version = description.version
        self.native: _native.FmuInstance = core().FmuInstance(
            version=version,
            addresses={each: library.address(f"fmi{version}{each}") for each in FUNCTIONS[version]},
            declared=_declared(interface),
            environment=self.journal.number,
            doom=addressof(library.doom),
            clock=addressof(self.journal.clock),
            refusal=_refusals(self.journal, library),
        )

    @property
    def time(self) -> float:
        """Where the instance is, for its log messages."""
        return self.journal.clock.value

    def note(self, text: str) -> None:
        """A warning about the FMU, among its own messages."""
        self.journal.note(text)

    def complaints(self) -> Sequence[str]:
        """What the FMU said of late about something that went wrong."""
        return self.journal.complaints()

    @property
    def _now(self) -> _native.FmuInstance:
        """What to call: before that, what was said before is forgotten."""
        if self.journal.news:
            self.journal.settle()
        return self.native

    # -- values --------------------------------------------------------------------------------

    def reader(self, variable: Variable, cells: int | None = None) -> Reader:
        """What gets a variable. `cells` where structural parameters gave an array another size."""
        array = bool(variable.dimensions)
        count = variable.cells if cells is None or not array else cells
        asked = TYPES[variable.type], variable.reference, count, variable.name

        def read() -> Signal:
            found = self._now.get(*asked)
            return tuple(found) if array else found[0]

        return read

    def writer(self, variable: Variable, cells: int | None = None) -> Writer:
        """What sets a variable, after a look whether the values fit its type."""
        array = bool(variable.dimensions)
        count = variable.cells if cells is None or not array else cells
        described = TYPES[variable.type], variable.reference, count, variable.name

        def write(value: Signal) -> None:
            given = _cells(variable, value, count) if array else (value,)
            self._now.set(*described, [fitting(variable, cell, whole=value) for cell in given])

        return write

    # -- life ----------------------------------------------------------------------------------

    def enter_configuration(self) -> None:
        """FMI 3: structural parameters may be set until `exit_configuration`."""
        self._now.enter_configuration()

    def exit_configuration(self) -> None:
        """Sizes are fixed now."""
        self._now.exit_configuration()

    def enter_initialization(
        self,
        start: float,
        stop: float | None,
        tolerance: float | None,
        give: Callable[[], None] = lambda: None,
    ) -> None:
        """With what FMI 2 calls setting up the experiment; `give` sets start values, right before the mode.

        Not earlier: there are FMUs that reset all values when the experiment is set up.
        """
        self.journal.clock.value = start
        self._now.setup(start, stop, tolerance)
        give()
        self._now.enter_initialization(start, stop, tolerance)

    def exit_initialization(self) -> None:
        """The values of the start are settled."""
        self._now.exit_initialization()

    def terminate(self) -> None:
        """The end of the simulation."""
        self._now.terminate()

    def free(self) -> None:
        """Once or more often; after a fatal error it only forgets."""
        self.native.free()
        self.journal.settle()

    # -- co-simulation -------------------------------------------------------------------------

    def step(self, t: float, length: float, no_set_prior: bool) -> Stepped:
        """`no_set_prior`: no state before `t` will be set any more."""
        self.journal.clock.value = t
        return Stepped(*self._now.step(t, length, no_set_prior))

    # -- events --------------------------------------------------------------------------------

    def enter_event_mode(self) -> None:
        """Discrete states may change."""
        self._now.enter_event_mode()

    def update(self) -> Updated:
        """One round: new discrete states."""
        return Updated(*self._now.update())

    def enter_step_mode(self) -> None:
        """Co-simulation goes on."""
        self._now.enter_step_mode()

    def enter_continuous_time_mode(self) -> None:
        """Model exchange goes on."""
        self._now.enter_continuous_time_mode()

    # -- derivatives ---------------------------------------------------------------------------

    def directional(
        self, unknowns: Sequence[Variable], knowns: Sequence[Variable], seed: Sequence[float]
    ) -> list[float]:
        """The Jacobian of `unknowns` by `knowns` times `seed`."""
        one, other = _many(unknowns), _many(knowns)
        return self._now.directional(one, other, list(seed), one[1])

    def adjoint(
        self, unknowns: Sequence[Variable], knowns: Sequence[Variable], seed: Sequence[float]
    ) -> list[float]:
        """`seed` times the Jacobian (FMI 3)."""
        one, other = _many(unknowns), _many(knowns)
        return self._now.adjoint(one, other, list(seed), other[1])

    # -- model exchange ------------------------------------------------------------------------

    def set_time(self, t: float) -> None:
        """In continuous time."""
        self.journal.clock.value = t
        self._now.set_time(t)

    def set_states(self, x: Sequence[float]) -> None:
        """In continuous time."""
        self._now.set_states(list(x))

    def states(self) -> list[float]:
        """The continuous states."""
        return self._now.states(self.sizes()[0])

    def derivatives(self) -> list[float]:
        """Those of the states."""
        return self._now.derivatives(self.sizes()[0])

    def indicators(self) -> list[float]:
        """The event indicators."""
        return self._now.indicators(self.sizes()[1])

    def nominals(self) -> list[float]:
        """How large the states usually are."""
        return self._now.nominals(self.sizes()[0])

    def sizes(self) -> tuple[int, int]:
        """How many continuous states and event indicators there are.

        Structural parameters change the size of arrays: then the FMU is asked.
        """
        description = self.description
        by_name = description.by_name
        states = [by_name[name] for name in description.states]
        indicators = [by_name[each.variable] for each in description.structure.event_indicators]
        count, crossing = sum(state.cells for state in states), description.event_indicator_count
        if any(state.dimensions for state in states):
            described = self._now.count_states()
            count = count if described is None else described
        if any(indicator.dimensions for indicator in indicators):
            described = self._now.count_indicators()
            crossing = crossing if described is None else described
        return count, crossing


def instantiate(
    fmu_folder: Path,
    description: ModelDescription,
    interface: InterfaceKind,
    name: str,
    *,
    logging: bool | Sequence[str] = False,
    event_mode: bool = False,
    early_return: bool = False,
    required: Sequence[Variable] = (),
) -> Instance:
    """A new instance of the FMU that is unpacked in `fmu_folder`.

    `logging` may name the categories of messages that are wanted. The last three are for co-simulation with
    FMI 3: whether the FMU gets event mode, may return early from a step, and the variables that are set
    within its steps, where it calls back for that.

    Raises `FmuError` if there is no instance, with the FMU's own words if it had any.
    """
    offered = _offered(description, interface)
    native = core()
    usual = native.arithmetic()
    library = load(fmu_folder, description.version, offered.model_identifier)
    changed = native.arithmetic() != usual
    native.set_arithmetic(usual)
    if library.doom:
        raise FmuError(
            f"'{description.name}' cannot be instantiated: {library.given_up}, and is of no use in this "
            'process any more. Start a new one, or run it in processes of its own: isolation = "process"',
            _function(description, offered),
            fatal=True,
        )
    categories = None if isinstance(logging, bool) else tuple(logging)
    instance = Instance(description, offered, name, library, categories)
    if changed:
        instance.note(f"its library {_CHANGED}")
    made = instance.native.instantiate(
        name=name,
        token=description.token,
        resources=resources(fmu_folder, description.version),
        exchange=offered.kind is InterfaceKind.MODEL_EXCHANGE,
        visible=False,
        logging=bool(logging) if categories is None else True,
        event_mode=event_mode,
        early_return=early_return,
        required=[variable.reference for variable in required],
    )
    if not made:
        raise FmuError(_refused(instance), _function(description, offered))
    if categories is not None:
        _choose(instance, categories)
    return instance


def resources(folder: Path, version: int) -> str:
    """Where the FMU's resources are: as a URI in FMI 2, in FMI 3 as a path that ends in a separator."""
    place = folder.resolve() / "resources"
    return place.as_uri() if version == 2 else f"{place}{os.sep}"


_CHANGED = (
    "changed how the processor computes (rounding, tiny numbers, or which faults end the process). It was "
    "set back, so that the results of others stay what they are (only the first time is reported)"
)


def _refusals(journal: Journal, library: Functions) -> Callable[[int, str, bool], BaseException]:
    """What makes an exception of what the core says: a status, a text, and whether other values may do."""

    def refusal(status: int, text: str, discarded: bool) -> BaseException:
        text = text.removeprefix("FmuError: ")
        if text.startswith("SolverError: "):
            return SolverError(text.removeprefix("SolverError: "))
        if text.startswith("not a state of this unit"):
            return ModelError(text)
        if status == _ENDED:
            time = float(text.rpartition(" ")[2])
            return EndRequest(text, unit=journal.name, call="advance()", time=time)
        call = _CALL.search(text)
        if status == _SAID:
            text += why(journal.complaints())
        fatal = bool(library.doom) or text.endswith("has been freed")
        return FmuError(text, call[0] if call else "", fatal=fatal, discarded=discarded)

    return refusal


def _many(variables: Sequence[Variable]) -> tuple[list[int], int]:
    return [variable.reference for variable in variables], sum(variable.cells for variable in variables)


def _offered(description: ModelDescription, interface: InterfaceKind) -> Interface:
    found = {
        InterfaceKind.CO_SIMULATION: description.co_simulation,
        InterfaceKind.MODEL_EXCHANGE: description.model_exchange,
    }.get(interface)
    if found is None:
        raise FmuError(f"the FMU '{description.name}' cannot be run as {interface.value} here")
    return found


def _function(description: ModelDescription, offered: Interface) -> str:
    return "fmi2Instantiate" if description.version == 2 else f"fmi3Instantiate{offered.kind.value}"


def _refused(instance: Instance) -> str:
    description, offered = instance.description, instance.interface
    start = f"{_function(description, offered)} of '{description.name}' gave no instance"
    if said := joined(instance.complaints()):
        return f"{start}: {said}"
    tool = (
        " It needs the tool that made it, which may be missing here." if offered.needs_execution_tool else ""
    )
    return (
        f"{start}, and does not say why.{tool} Usual reasons: modelDescription.xml and library do not belong "
        f"together (its {'guid' if description.version == 2 else 'instantiationToken'} is "
        f"'{description.token}'), a licence or a file in its resources is missing, or only one instance is "
        f"allowed. Its full log may say more: logging = true"
    )


def _choose(instance: Instance, categories: Sequence[str]) -> None:
    """Ask for messages of these categories. An FMU that refuses logs as it likes, which does no harm."""
    try:
        instance.native.choose_categories(list(categories))
    except FmuError as error:
        if error.fatal:
            raise
        instance.note(f"the log categories could not be chosen: {error}")


def _declared(offered: Interface) -> Mapping[str, str]:
    """Which attribute of the description promises a function: for messages about missing ones."""
    state = ("GetFMUstate", "SetFMUstate", "FreeFMUstate")
    bytes_ = ("SerializedFMUstateSize", "SerializeFMUstate", "DeSerializeFMUstate")
    found: dict[str, str] = {}
    if offered.saves_state:
        found |= dict.fromkeys(state, "canGetAndSetFMUstate")
        found |= {name.replace("FMUstate", "FMUState"): "canGetAndSetFMUState" for name in state}
    if offered.serialises_state:
        found |= dict.fromkeys(bytes_, "canSerializeFMUstate")
        found |= {
            name.replace("FMUstate", "FMUState").replace("DeS", "Des"): "canSerializeFMUState"
            for name in bytes_
        }
    if offered.directional_derivatives:
        found["GetDirectionalDerivative"] = "directional derivatives"
    if offered.adjoint_derivatives:
        found["GetAdjointDerivative"] = "adjoint derivatives"
    return found


# -- values that fit the type of a variable; the core looks whether a number is within its bounds --------


def fitting(variable: Variable, value: Any, whole: Any = None) -> Any:
    """The value of one cell, as the core takes it; `whole` is what it is a part of."""
    shown = value if whole is None else whole
    match variable.type:
        case Type.STRING:
            if not isinstance(value, str):
                raise _wrong(variable, shown, "a text")
            return value.encode("utf-8", "replace").decode()
        case Type.BINARY:
            if not isinstance(value, str) or not value.isascii():
                raise _wrong(variable, shown, "bytes as hexadecimal digits, such as '00ff'")
            return value
        case Type.BOOLEAN | Type.CLOCK:
            return bool(value)
        case Type.FLOAT32 | Type.FLOAT64:
            if isinstance(value, str) or not hasattr(value, "__float__"):
                raise _wrong(variable, shown, "a number" if shown is value else "numbers")
            return float(value)
    try:
        found = int(value) if isinstance(value, float) and value.is_integer() else index(value)
    except TypeError:
        raise _wrong(variable, shown, "an integer") from None
    if not -_GREATEST - 1 <= found <= _GREATEST:
        bounds = variable.type.range
        assert bounds is not None
        raise FmuError(
            f"'{variable.name}' cannot be {found}: its type {variable.type.value} "
            f"goes from {bounds[0]} to {min(bounds[1], _GREATEST)}"
        )
    return found


def _cells(variable: Variable, value: Any, count: int) -> Sequence[Any]:
    if isinstance(value, str) or not hasattr(value, "__len__"):
        raise _wrong(variable, value, f"an array of {count} values")
    if len(value) != count:
        raise FmuError(f"'{variable.name}' has {count} cells, and {len(value)} values are given")
    found: Sequence[Any] = value
    return found


def _wrong(variable: Variable, value: Any, wanted: str) -> FmuError:
    return FmuError(f"'{variable.name}' cannot be {value!r}: it needs {wanted}")
