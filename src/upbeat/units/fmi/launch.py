"""From a model to a running unit: unpack, load, instantiate, give start values, enter initialization mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import c_float
from typing import TYPE_CHECKING

from upbeat.core.abilities import Ability, Unit
from upbeat.core.ports import Causality, Value, Values
from upbeat.units.fmi import binding
from upbeat.units.fmi.cosimulation import CoSimulationUnit
from upbeat.units.fmi.cosimulation_ports import can_follow
from upbeat.units.fmi.description import Causality as Role
from upbeat.units.fmi.description import CoSimulation, Initial, Type, Variable
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
        ports, shown = model.ports[:known], [port.name for port in model.ports[known:] if port.indicates]
        variables, tunable = model.layout.variables, [port for port, _ in model.layout.tunable]
        return kind(instance, ports, variables, start, model.effective_solver, gone, shown, tunable)
    made: list[CoSimulationUnit] = []

    def intermediate(moment: Intermediate) -> float | None:
        return made[0].look_in(moment) if made else None

    instance, gone = initialized(model, name, start, intermediate)
    made.append(CoSimulationUnit(instance, model.layout, start, gone, model.step))
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
            structural, others = _given(model)
            if structural:
                instance.enter_configuration()
                _give(instance, structural)
                instance.exit_configuration()
            stop = None if model.stop is None or model.stop <= start else model.stop
            instance.enter_initialization(start, stop, model.told_tolerance, lambda: _give(instance, others))
            _read_back(instance, structural + others)
            for note in description.violations[:_MOST_TOLD]:
                instance.note(f"against the standard, but it runs: modelDescription.xml, {note}")
            if len(description.violations) > _MOST_TOLD:
                instance.note(
                    f"… and {len(description.violations) - _MOST_TOLD} violations more (upbeat check)"
                )
        except BaseException:
            instance.free()
            raise
    except BaseException:
        gone()
        raise
    return instance, gone


_MOST_TOLD = 5
"""Violations of the standard that a run warns of, one by one."""

Given = list[tuple[Variable, Values]]


def _given(model: Fmu) -> tuple[Given, Given]:
    """What somebody gave, nothing else: the FMU knows its own start values. Sizes of arrays apart."""
    description, starts = model.description, dict(model.starts)
    sizes = sizes_of(description, starts)
    found: tuple[Given, Given] = [], []
    for name, values in starts.items():
        variable = reshaped(description.by_name[name], sizes)
        found[variable.causality is not Role.STRUCTURAL_PARAMETER].append((variable, values))
    return found


def _give(instance: Instance, given: Given) -> None:
    for variable, values in given:
        instance.writer(variable)(values if variable.dimensions else values[0])


def _read_back(instance: Instance, given: Given) -> None:
    """Some FMUs lose values that they accepted: what did not take is told by name."""
    for variable, values in given:
        if variable.initial is Initial.APPROX:  # the FMU may look for a better one
            continue
        try:
            read = instance.reader(variable)()
        except FmuError as error:
            if error.fatal:
                raise
            instance.note(f"'{variable.name}' was set, but cannot be read back: {error}")
            continue
        found = read if isinstance(read, (tuple, list)) else (read,)
        if not all(map(_same, [variable.type] * len(values), values, found)):
            given_as, found_as = (_shown(variable, cells) for cells in (values, tuple(found)))
            instance.note(
                f"'{variable.name}' was set to {given_as}, but the FMU has {found_as}: the value did not take"
            )


def _same(type: Type, given: Value, found: Value) -> bool:
    if type is Type.FLOAT32 and isinstance(given, (int, float)):
        given = c_float(given).value
    if type is Type.BINARY and isinstance(given, str) and isinstance(found, str):
        return given.lower() == found.lower()
    return given == found or (given != given and found != found)


def _shown(variable: Variable, cells: Sequence[Value]) -> str:
    return repr(tuple(cells) if variable.dimensions else cells[0])
