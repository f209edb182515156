"""What is checked about the parts of a scenario one by one: names, models, sizes, units of measure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from upbeat.core import measure
from upbeat.core.abilities import Model
from upbeat.core.errors import Problems, suggest
from upbeat.core.expr import RESERVED
from upbeat.core.names import cell_names, objection_to
from upbeat.core.ports import MAX_CELLS_IN_ALL, Causality, Kind, Port
from upbeat.scenario.directory import EVENTS, INPUTS, Wrong
from upbeat.scenario.files.definitions import cells_of

if TYPE_CHECKING:
    from upbeat.scenario.assemble import Parts

Where = tuple[str, ...]


def is_unit(name: object, model: Any, problems: Problems) -> bool:
    """Whether this is a unit by a good name, with ports that do not contradict each other."""
    where = ("units", str(name))
    if objection := objection_to(name):
        problems.add(where, f"{name!r} is not a name for a unit", f"{objection[:1].upper()}{objection[1:]}.")
        return False
    if name in (INPUTS, EVENTS):
        problems.add(
            where,
            f"the name '{name}' is taken by the scenario's own {name}",
            "Choose another name for the unit.",
        )
        return False
    if isinstance(model, type) or not (hasattr(model, "ports") and hasattr(model, "instantiate")):
        problems.add(
            where,
            f"{model!r} is not a model",
            'Give a model, such as Ode(states={"x": "-x"}), and not its class.',
        )
        return False
    inputs = {port.name for port in model.ports if port.causality is Causality.INPUT and not port.event}
    events = {port.name for port in model.ports if port.causality is Causality.INPUT and port.event}
    for port in model.ports:
        for other in sorted(port.depends - inputs):
            what = f"output '{port.name}' of unit '{name}' depends on '{other}', which is no input"
            hint = suggest(other, inputs, "inputs")
            if other in events:
                what = f"output '{port.name}' of unit '{name}' depends on the event '{other}'"
                hint = "An event changes the state when it happens; leave it out of depends."
            problems.add((*where, "outputs", port.name), what, hint)
        _check_derivative(port, model, where, problems)
    doubled = _cells_that_are_ports(model)
    for cell, array in doubled.items():
        what = f"unit '{name}' has a port '{cell}', and an array '{array}' with a cell of that name"
        problems.add(where, what, "Rename one of them: nobody could tell the two apart.")
    return not doubled and all(port.depends <= inputs for port in model.ports)


def _cells_that_are_ports(model: Model) -> dict[str, str]:
    names = {port.name for port in model.ports}
    if not any(name.endswith("]") for name in names):
        return {}
    return {
        cell: port.name
        for port in model.ports
        if port.size is not None
        for cell in cell_names(port.name, port.size)
        if cell in names
    }


def _check_derivative(port: Port, model: Model, where: Where, problems: Problems) -> None:
    if port.derivative is None:
        return
    outputs = {p.name: p for p in model.ports if p.causality is Causality.OUTPUT}
    other = outputs.get(port.derivative)
    if other is None or (other.kind, other.size) != (port.kind, port.size) or port.kind is not Kind.REAL:
        what = f"'{port.derivative}' cannot be the derivative of '{port.name}'"
        hint = "It must be a real output of the same unit and size. "
        problems.add(
            (*where, "outputs", port.name), what, hint + suggest(port.derivative, outputs, "outputs")
        )


def check_own_name(name: object) -> None:
    """Raise `Wrong` unless an input or output of the scenario can have this name."""
    if objection := objection_to(name):
        raise Wrong(f"{name!r} is not a name", f"{objection[:1].upper()}{objection[1:]}.")
    if name == "time" or name in RESERVED:
        raise Wrong(f"the name '{name}' already has a meaning in expressions", "Choose another name.")


def check_cells(units: Mapping[str, Model], inputs: Iterable[Port], problems: Problems) -> bool:
    """Complain if there are too many cells to go on."""
    total = sum(port.cells for port in inputs)
    for name, model in units.items():
        total += cells_of(model)
        if total > MAX_CELLS_IN_ALL:
            problems.add(
                ("units", name),
                f"the ports up to unit '{name}' have {total:,} cells",
                f"A scenario has at most {MAX_CELLS_IN_ALL:,}: every cell is a column of its own.",
            )
            return False
    return True


def check_measures(parts: Parts, problems: Problems) -> None:
    """Complain about every unit of measure that does not exist."""
    for name, model in parts.units.items():
        for port in model.ports:
            section = f"{port.causality.value}s"
            _check_measure(port, ("units", name, section, port.name), f"{name}.{port.name}", problems)
    for port in parts.inputs:
        _check_measure(port, ("inputs", port.name), port.name, problems)
    for output in parts.all_outputs:
        _check_measure(output.port, ("outputs", output.port.name), output.port.name, problems)


def _check_measure(port: Port, where: Where, name: str, problems: Problems) -> None:
    if port.unit is not None:
        try:
            measure.check(port.unit)
        except measure.MeasureError as error:
            what, _, hint = str(error).partition("; ")
            problems.add(where, f"the unit of '{name}': {what}", f"{hint[:1].upper()}{hint[1:]}.")
