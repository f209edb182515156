"""How FMUs enter the native engine: instantiated in Python, run by their addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from upbeat.core.abilities import Core, speaks_for_itself
from upbeat.core.ports import Causality, Kind
from upbeat.units.fmi.description import CoSimulation
from upbeat.units.fmi.launch import initialized
from upbeat.units.fmi.tables import Keeper, lower

if TYPE_CHECKING:
    from upbeat.units.fmi.model import Fmu


def runs_natively(model: Fmu) -> bool:
    """Whether the core can run it: strings and binaries need Python."""
    numbers = all(p.kind is not Kind.STRING for p in model.ports if p.causality is not Causality.PARAMETER)
    return isinstance(model.interface, CoSimulation) and numbers and speaks_for_itself(type(model))


def enter(model: Fmu, core: Core, name: str, start: float) -> object:
    """A unit in initialization mode, which belongs to the core."""
    from upbeat import _native

    instance, gone = initialized(model, name, start, _native.fmi3_intermediate_address())
    try:
        entered = core.fmu(lower(instance, model.layout, start, Keeper(instance, gone)))
    except BaseException:
        instance.free()
        gone()
        raise
    instance.abandon("it belongs to the native engine")
    return entered
