"""Making an instance of an unpacked FMU."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path

from upbeat.units.fmi.binding.calls import Calls, arithmetic
from upbeat.units.fmi.binding.fmi2 import Fmi2
from upbeat.units.fmi.binding.fmi3 import Fmi3
from upbeat.units.fmi.binding.library import load
from upbeat.units.fmi.binding.logging import Journal
from upbeat.units.fmi.description import Interface, InterfaceKind, ModelDescription, Variable
from upbeat.units.fmi.instance import FmuError, Instance, OnIntermediate


def instantiate(
    fmu_folder: Path,
    description: ModelDescription,
    interface: InterfaceKind,
    name: str,
    *,
    logging: bool | Sequence[str] = False,
    visible: bool = False,
    event_mode: bool = False,
    early_return: bool = False,
    intermediate: OnIntermediate | int | None = None,
    required_intermediate: Sequence[Variable] = (),
) -> Instance:
    """A new instance of the FMU that is unpacked in `fmu_folder`.

    `logging` may name the categories of messages that are wanted. The last four are for co-simulation with
    FMI 3: whether the FMU gets event mode, may return early from a step, what is called in its intermediate
    updates (or the address of a C function that is), and the variables that are got or set there.

    Raises `FmuError` if there is no instance, with the FMU's own words if it had any.
    """
    offered = _offered(description, interface)
    categories = None if isinstance(logging, bool) else tuple(logging)
    usual = arithmetic()
    library = load(fmu_folder, description.version, offered.model_identifier)
    if library.doom:
        raise FmuError(
            f"'{description.name}' cannot be instantiated: {library.given_up}, and is of no use in this "
            'process any more. Start a new one, or run it in processes of its own: isolation = "process"',
            _function(description, offered),
            fatal=True,
        )
    journal = Journal(name, description, categories)
    calls = Calls(library, journal, _declared(offered), usual)
    calls.undo("its library")
    wanted = bool(logging) if isinstance(logging, bool) else True
    instance: Fmi2 | Fmi3
    if description.version == 2:
        instance = Fmi2(description, offered, name, calls)
        component = instance.start(fmu_folder, visible, wanted)
    else:
        instance = Fmi3(description, offered, name, calls)
        component = instance.start(
            fmu_folder, visible, wanted, event_mode, early_return, intermediate, required_intermediate
        )
    if not component:
        raise FmuError(_refused(description, offered, calls), _function(description, offered))
    calls.begin(component)
    if categories is not None:
        _choose(instance, calls, categories)
    return instance


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


def _refused(description: ModelDescription, offered: Interface, calls: Calls) -> str:
    start = f"{_function(description, offered)} of '{description.name}' gave no instance"
    if said := calls.said():
        return f"{start}: {said}"
    tool = (
        " It needs the tool that made it, which may be missing here." if offered.needs_execution_tool else ""
    )
    return (
        f"{start}, and does not say why.{tool} Usual reasons: modelDescription.xml and library do not belong "
        f"together (its {'guid' if description.version == 2 else 'instantiationToken'} is "
        f"'{description.token}'), a licence or a file in its resources is missing, or only one instance is "
        f"allowed. Its full log may tell: logging = true"
    )


def _choose(instance: Fmi2 | Fmi3, calls: Calls, categories: Sequence[str]) -> None:
    """Ask for messages of these categories. An FMU that refuses logs as it likes, which harms nobody."""
    names = (ctypes.c_char_p * len(categories))(*(category.encode() for category in categories))
    try:
        call = calls.prepare(f"fmi{instance.version}SetDebugLogging")
        call(instance.boolean(1), ctypes.c_size_t(len(categories)), names)
    except FmuError as error:
        if error.fatal:
            raise
        calls.journal.note(f"the log categories could not be chosen: {error}")


def _declared(offered: Interface) -> dict[str, str]:
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
