"""From a model to a running unit: unpack, load, instantiate, give start values, enter initialization mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from upbeat.core.abilities import Ability, Unit
from upbeat.core.ports import Causality, Values
from upbeat.units.fmi import binding
from upbeat.units.fmi.cosimulation import CoSimulationUnit
from upbeat.units.fmi.cosimulation_ports import can_follow
from upbeat.units.fmi.description import Causality as Role
from upbeat.units.fmi.description import CoSimulation, Variable
from upbeat.units.fmi.exchange import Exchange, PackableExchange
from upbeat.units.fmi.instance import FmuError, Instance, Intermediate, OnIntermediate
from upbeat.units.fmi.interfaces import has_events
from upbeat.units.fmi.ports import reshaped
from upbeat.units.fmi.starts import sizes_of
from upbeat.units.fmi.unpacked import begin, end, folder_of

if TYPE_CHECKING:
    from upbeat.units.fmi.model import Fmu


def launch(model: Fmu, name: str, start: float) -> Unit:
    """A unit in initialization mode."""
    if not isinstance(model.interface, CoSimulation):
        instance, gone = initialized(model, name, start)
        kind = PackableExchange if Ability.SERIALISE in model.abilities else Exchange
        known = len(model.layout.ports)
        ports, shown = model.ports[:known], [port.name for port in model.ports[known:]]
        return kind(instance, ports, model.layout.variables, start, model.effective_solver, gone, shown)
    made: list[CoSimulationUnit] = []

    def intermediate(moment: Intermediate) -> float | None:
        return made[0].look_in(moment) if made else None

    instance, gone = initialized(model, name, start, intermediate)
    made.append(CoSimulationUnit(instance, model.layout, start, gone))
    return made[0]


def initialized(
    model: Fmu, name: str, start: float, intermediate: OnIntermediate | int | None = None
) -> tuple[Instance, Callable[[], None]]:
    """An instance with its start values, in initialization mode; and what to call when it has been freed."""
    description, interface = model.description, model.interface
    identifier = interface.model_identifier
    if not begin(model.key, identifier, only_once=interface.only_once_per_process):
        raise FmuError(
            f"{model.path.name} can be instantiated only once per process, and it is running here already. "
            'Run the others in processes of their own: isolation = "process"'
        )

    def gone() -> None:
        end(model.key, identifier)

    try:
        co_simulation = interface if isinstance(interface, CoSimulation) else None
        inputs = [variable for _, variable in model.layout.of(Causality.INPUT)]
        followed = [v for v in inputs if description.version == 3 and can_follow(description, interface, v)]
        instance = binding.instantiate(
            folder_of(model.key),
            description,
            interface.kind,
            name,
            logging=model.logging,
            event_mode=co_simulation is not None and has_events(description, interface),
            early_return=co_simulation is not None and co_simulation.may_return_early,
            intermediate=intermediate if followed else None,
            required_intermediate=followed,
        )
        try:
            _give_starts(instance, model)
            instance.enter_initialization(start, None, model.told_tolerance)
        except BaseException:
            instance.free()
            raise
    except BaseException:
        gone()
        raise
    return instance, gone


def _give_starts(instance: Instance, model: Fmu) -> None:
    """Only what somebody gave: the FMU knows its own start values. Sizes of arrays first."""
    description, starts = model.description, dict(model.starts)
    sizes = sizes_of(description, starts)
    structural: list[Variable] = []
    others: list[Variable] = []
    for name in starts:
        variable = reshaped(description.by_name[name], sizes)
        (structural if variable.causality is Role.STRUCTURAL_PARAMETER else others).append(variable)
    if structural:
        instance.enter_configuration()
        for variable in structural:
            _give(instance, variable, starts)
        instance.exit_configuration()
    for variable in others:
        _give(instance, variable, starts)


def _give(instance: Instance, variable: Variable, starts: dict[str, Values]) -> None:
    values = starts[variable.name]
    instance.writer(variable)(values if variable.dimensions else values[0])
