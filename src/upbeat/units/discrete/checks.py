"""What can be wrong with a `Discrete` model; everything is found before anything is raised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from upbeat.core.errors import ModelError, check_type, suggest
from upbeat.core.expr import Expr, Name, names
from upbeat.core.expr.nodes import ordered
from upbeat.core.names import cell_names
from upbeat.core.ports import Causality, Kind, Port, check_variable
from upbeat.units.equations.data import TIME
from upbeat.units.shorthand import Complaints, check_unique

if TYPE_CHECKING:
    from upbeat.units.discrete.model import Assignments, Discrete, Emission


def check(model: Discrete) -> None:
    """Raise a `ModelError` with everything that is wrong."""
    check_type(model.ports, Iterable, "ports")
    for port in model.ports:
        check_type(port, Port, "a port")
    complaints = Complaints()
    _check_names(model, complaints)
    complaints.raise_if_any()  # what follows looks for names
    _check_modes(model, complaints)
    _check_outputs(model, complaints)
    known = model.places
    quiet = _quiet_names(model)
    _check_assignments(model, "initial", model.initial, _start_names(model), complaints)
    for i, mode in enumerate(model.modes):
        _check_expressions([(f"modes[{i}].due", [mode.due])], known, complaints)
        _check_emissions(model, f"modes[{i}].emissions", mode.emissions, complaints)
        _check_assignments(model, f"modes[{i}].internal", mode.internal, known, complaints)
        _check_assignments(model, f"modes[{i}].external", mode.external, known, complaints)
    shown = [(f"outputs.{name}", cells) for name, cells in model.outputs]
    _check_expressions(shown, quiet, complaints)
    complaints.raise_if_any()


def with_depends(ports: Iterable[Port], outputs: Iterable[tuple[str, Sequence[Expr]]]) -> tuple[Port, ...]:
    """The ports, with each ordinary output depending on the inputs that its expressions contain."""
    ports = tuple(ports)
    behind = {
        cell: port.name
        for port in ports
        if port.causality is Causality.INPUT and not port.event
        for cell in cell_names(port.name, port.size)
    }
    used = {
        name: frozenset(behind[n] for cell in cells for n in names(cell) if n in behind)
        for name, cells in outputs
    }
    return tuple(
        replace(port, depends=used[port.name])
        if port.causality is Causality.OUTPUT and not port.event
        else port
        for port in ports
    )


def _check_names(model: Discrete, complaints: Complaints) -> None:
    check_unique(model.ports, complaints)
    for port in model.ports:
        with complaints.at(port.name):
            check_variable(port.name)
        if port.kind is Kind.STRING:
            complaints.add(port.name, "a discrete unit has no strings; use an integer with items")
        if port.name == TIME:
            complaints.add(port.name, f"'{TIME}' is the unit's own time; choose another name")
    taken = {
        port.name: port.causality.value for port in model.ports if port.causality is not Causality.OUTPUT
    }
    taken[TIME] = "the unit's own time"
    for variable in model.variables:
        where = f"variables.{variable.name}"
        with complaints.at(where):
            if variable.kind is Kind.STRING:
                raise ModelError("a variable is real, integer or boolean")
            if variable.items and variable.kind is not Kind.INTEGER:
                raise ModelError(f"items make an enumeration, which is integer and not {variable.kind.value}")
            check_variable(variable.name)
            _ = variable.port  # says what is wrong with the start
        if variable.name in taken:
            complaints.add(where, f"the name '{variable.name}' is used twice (also {taken[variable.name]})")
        taken[variable.name] = "variable"


def _check_modes(model: Discrete, complaints: Complaints) -> None:
    if not model.modes:
        complaints.add("modes", "a discrete unit needs at least one mode")
    if model.mode is None:
        if len(model.modes) > 1:
            complaints.add("mode", "with several modes, name the integer variable that says which one holds")
        return
    found = {variable.name: variable for variable in model.variables}.get(model.mode)
    if found is None:
        hint = suggest(model.mode, [variable.name for variable in model.variables], "variables")
        complaints.add("mode", f"there is no variable '{model.mode}'. {hint}")
    elif found.kind is not Kind.INTEGER:
        complaints.add("mode", f"'{model.mode}' is {found.kind.value}, but must be an integer")
    elif not 0 <= int(found.start) < len(model.modes):
        complaints.add(
            "mode",
            f"'{model.mode}' starts at {found.start}, but there are the modes 0 to {len(model.modes) - 1}",
        )


def _check_outputs(model: Discrete, complaints: Complaints) -> None:
    ports = {port.name: port for port in model.shown}
    given = Counter(name for name, _ in model.outputs)
    for name, cells in model.outputs:
        where = f"outputs.{name}"
        if name not in ports:
            hint = suggest(name, ports, "ordinary outputs")
            complaints.add(where, f"there is no ordinary output '{name}'. {hint}")
        elif len(cells) != ports[name].cells:
            complaints.add(where, f"{ports[name].cells} expression(s) needed, not {len(cells)}")
        if given[name] > 1:
            complaints.add(where, "given twice")
    for name in ports:
        if name not in given:
            complaints.add(f"outputs.{name}", "this output has no expression")


def _check_emissions(
    model: Discrete, where: str, emissions: Sequence[Emission], complaints: Complaints
) -> None:
    ports = {port.name: port for port in model.sent}
    seen: set[str] = set()
    used: list[tuple[str, Sequence[Expr]]] = []
    for emission in emissions:
        here = f"{where}.{emission.port}"
        if emission.port not in ports:
            hint = suggest(emission.port, ports, "event outputs")
            complaints.add(here, f"there is no event output '{emission.port}'. {hint}")
            continue
        if emission.port in seen:
            complaints.add(here, "given twice")
        if len(emission.cells) != ports[emission.port].cells:
            needed = ports[emission.port].cells
            complaints.add(here, f"{needed} expression(s) needed, not {len(emission.cells)}")
        seen.add(emission.port)
        used.append((here, [emission.present, *emission.cells]))
    _check_expressions(used, model.places, complaints)


def _check_assignments(
    model: Discrete, where: str, assignments: Assignments, known: Iterable[str], complaints: Complaints
) -> None:
    variables = {variable.name for variable in model.variables}
    seen: set[str] = set()
    used: list[tuple[str, Sequence[Expr]]] = []
    for name, value in assignments:
        if name not in variables:
            hint = suggest(name, variables, "variables")
            complaints.add(f"{where}.{name}", f"there is no variable '{name}'. {hint}")
        if name in seen:
            complaints.add(f"{where}.{name}", "given twice")
        seen.add(name)
        used.append((f"{where}.{name}", [value]))
    _check_expressions(used, known, complaints)


def _check_expressions(
    used: Iterable[tuple[str, Sequence[Expr]]], known: Iterable[str], complaints: Complaints
) -> None:
    known, used = set(known), list(used)
    together = ordered(expr for _, exprs in used for expr in exprs)  # they share parts
    if all(node.id in known for node in together if isinstance(node, Name)):
        return
    for where, exprs in used:
        for name in sorted({name for expr in exprs for name in names(expr)} - known):
            complaints.add(where, f"'{name}' is not known here. {suggest(name, known, 'names')}")


def _quiet_names(model: Discrete) -> list[str]:
    """What an ordinary output may name: everything but events, which are absent between instants."""
    events = {name for port in model.heard for name in (*cell_names(port.name, port.size), f"{port.name}?")}
    return [name for name in model.arguments if name not in events]


def _start_names(model: Discrete) -> list[str]:
    """What an initial value may name: inputs have not been set yet, so everything but these."""
    inputs = {name for port in model.inputs for name in cell_names(port.name, port.size)}
    return [name for name in _quiet_names(model) if name not in inputs]
