"""How FMUs enter the native engine: instantiated in Python, run by their addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from upbeat.core.abilities import Core, speaks_for_itself
from upbeat.core.ports import Causality, Kind
from upbeat.units.fmi.description import CoSimulation, Type
from upbeat.units.fmi.exchange.tables import lower_exchange
from upbeat.units.fmi.launch import initialized
from upbeat.units.fmi.tables import Keeper, lower
from upbeat.units.solving.solvers import Cvode

if TYPE_CHECKING:
    from upbeat.units.fmi.model import Fmu


def runs_natively(model: Fmu) -> bool:
    """Whether the core can run it: strings need Python; in model exchange clocks and CVODE do, too."""
    numbers = all(p.kind is not Kind.STRING for p in model.ports if p.causality is not Causality.PARAMETER)
    if not isinstance(model.interface, CoSimulation):
        clocks = any(variable.type is Type.CLOCK for variable in model.description.variables)
        numbers = numbers and not clocks and not isinstance(model.effective_solver, Cvode)
    return numbers and speaks_for_itself(type(model))


def enter(model: Fmu, core: Core, name: str, start: float) -> object:
    """A unit in initialization mode, which belongs to the core."""
    from upbeat import _native

    instance, gone = initialized(model, name, start, _native.fmi3_intermediate_address())
    try:
        keeper = Keeper(instance, gone)
        if isinstance(model.interface, CoSimulation):
            counted = len(model.layout.ports) if model.counted else -1
            entered = core.fmu(lower(instance, model.layout, start, keeper, model.step, counted))
        else:
            solver = model.effective_solver
            entered = core.fmu(lower_exchange(instance, model.layout, model.ports, start, solver, keeper))
    except BaseException:
        instance.free()
        gone()
        raise
    instance.abandon("it belongs to the native engine")
    return entered
