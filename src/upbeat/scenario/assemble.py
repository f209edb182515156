"""Putting a scenario together: every part is checked, and all problems are found before any is raised."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from upbeat.core import measure
from upbeat.core.abilities import Model
from upbeat.core.errors import InvalidInput, ModelError, Problems, ScenarioError, check_type, suggest
from upbeat.core.expr import RESERVED
from upbeat.core.names import bare, cell_names, objection_to, resolve, split
from upbeat.core.ports import MAX_CELLS_IN_ALL, Causality, Kind, Port
from upbeat.core.records import dataclass
from upbeat.scenario.connection import Connection, ScenarioOutput, connect, deliver
from upbeat.scenario.directory import EVENTS, INPUTS, Directory, End, Unclear, Wrong, by_hand
from upbeat.scenario.events.declared import Event, Readable, read_events
from upbeat.scenario.events.links import (
    EventConnection,
    EventOutput,
    connect_event,
    deliver_event,
    says_event,
)
from upbeat.scenario.files.definitions import cells_of
from upbeat.scenario.formula import formula
from upbeat.scenario.graph import Graph
from upbeat.units.shorthand import KEYS, check_settable, read_port, with_starts

if TYPE_CHECKING:
    from upbeat.properties.robustness import Property
    from upbeat.scenario.structures import Stage, Structure

# ----------------------------------------------------------------------------------------------------
# What is checked about the parts of a scenario one by one: names, models, sizes, units of measure.

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
            what = f"output '{port.name}' of unit '{name}' depends on '{other}', which is not an input"
            hint = suggest(other, inputs, "inputs")
            if other in events:
                what = f"output '{port.name}' of unit '{name}' depends on the event '{other}'"
                hint = "An event changes the state when it happens; leave it out of depends."
            problems.add((*where, "outputs", port.name), what, hint)
        _check_derivative(port, model, where, problems)
    doubled = _cells_that_are_ports(model)
    for cell, array in doubled.items():
        what = f"unit '{name}' has a port '{cell}', and an array '{array}' with a cell of that name"
        problems.add(where, what, "Rename one of them: they could not be told apart.")
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
    outputs = (*(output.port for output in parts.outputs), *(output.port for output in parts.event_outputs))
    places: list[tuple[Port, Where, str]] = [
        *(
            (port, ("units", unit, f"{port.causality.value}s", port.name), f"{unit}.{port.name}")
            for unit, model in parts.units.items()
            for port in model.ports
        ),
        *((port, ("inputs", port.name), port.name) for port in parts.inputs),
        *((port, ("outputs", port.name), port.name) for port in outputs),
    ]
    for port, where, name in places:
        try:
            if port.unit is not None:
                measure.check(port.unit)
        except measure.MeasureError as error:
            what, _, hint = str(error).partition("; ")
            problems.add(where, f"the unit of '{name}': {what}", f"{hint[:1].upper()}{hint[1:]}.")


# ----------------------------------------------------------------------------------------------------
# Values from outside: other parameters and start values for a scenario that exists.


def with_parameters(
    units: Mapping[str, Model],
    values: Mapping[str, Any],
    where: Where,
    problems: Problems,
    broken: Collection[str] = (),
) -> dict[str, Model]:
    """The units with the values of ``{"unit.parameter": value}``."""
    changed = dict(units)
    for key, value in values.items():
        unit, name = split(bare(key))
        here = (*where, key)
        if not name:
            problems.add(here, f"'{key}' does not name a value of a unit", "Write unit.parameter.")
        elif unit not in units:
            if unit not in broken:
                problems.add(here, f"there is no unit '{unit}'", suggest(unit, units, "units"))
        else:
            try:
                changed[unit] = changed[unit].with_values({name: value})
            except ModelError as error:
                problems.add(here, f"unit '{unit}': {error}")
            except ScenarioError as error:  # of a nested one
                for problem in error.problems:
                    problems.add(here, f"inside '{unit}': {problem.what}", problem.hint)
    return changed


def with_values(
    parts: Parts, values: Mapping[str, Any], problems: Problems, broken: Collection[str] = ()
) -> Parts:
    """The same parts with other parameters, start values, and start values of the scenario's inputs."""
    own = {port.name for port in parts.inputs}
    inputs, rest = parts.inputs, {}
    for key, value in values.items():
        if resolve(bare(key), own)[0] not in own:
            rest[key] = value
            continue
        try:
            check_settable({key: value}, own)
            inputs = with_starts(inputs, {key: value})
        except ModelError as error:
            problems.add(("values", key), str(error))
    for key, what in _without_effect(parts, rest).items():
        del rest[key]
        hint = "Change the connection, or set an input that nothing drives."
        if (source := what.strip("'")) in own:
            hint = f"Set '{source}', which drives it."
        problems.add(("values", key), f"'{key}' is driven by {what}, so a value for it has no effect", hint)
    units = with_parameters(parts.units, rest, ("values",), problems, broken)
    return replace(parts, units=units, inputs=inputs)


def _without_effect(parts: Parts, values: Mapping[str, Any]) -> dict[str, str]:
    """The connected inputs among `values`, with what drives them; not the first guesses for loops."""
    sources = {connection.target: connection.text for connection in parts.connections}
    driven = {key: path for key in values if (path := resolve(bare(key), sources)[0]) in sources}
    if not driven:
        return {}
    loops = Graph(parts.units, parts.connections).loops
    guesses = {str(node) for loop in loops for node in loop if node.side == "in"}
    return {key: _shown(sources[path]) for key, path in driven.items() if path not in guesses}


def _shown(text: str | tuple[str, ...] | Mapping[str, Any]) -> str:
    if isinstance(text, Mapping):
        return _shown(text["value"])
    return f"'{text}'" if isinstance(text, str) else f"[{', '.join(text)}]"


# ----------------------------------------------------------------------------------------------------

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Parts:
    """The checked parts of a scenario."""

    units: dict[str, Model]
    connections: tuple[Connection, ...]
    inputs: tuple[Port, ...]
    outputs: tuple[ScenarioOutput, ...]
    event_connections: tuple[EventConnection, ...] = ()
    event_outputs: tuple[EventOutput, ...] = ()
    events: tuple[Event, ...] = ()
    properties: tuple[Property, ...] = ()
    monitored: tuple[Property, ...] = ()
    """Those that are watched during a run, over hidden outputs (see `upbeat.scenario.properties`)."""
    structures: tuple[Structure, ...] = ()
    stage: Stage | None = None
    """Of a scenario that is one structure of another (see `upbeat.scenario.structures`)."""

    @property
    def all_connections(self) -> tuple[Connection | EventConnection, ...]:
        """Those of signals, then those of events."""
        return *self.connections, *self.event_connections

    @property
    def all_outputs(self) -> tuple[ScenarioOutput | EventOutput, ...]:
        """The signals, then the events."""
        return *self.outputs, *self.event_outputs


class Sections(NamedTuple):
    """A scenario as it is written in Python, in a file or in an SSP."""

    units: Mapping[str, Model]
    connections: Mapping[str, Any] | Iterable[tuple[str, Any]] = ()
    inputs: object = ()
    outputs: Mapping[str, Any] = {}
    parameters: Mapping[str, Any] = {}
    events: object = None
    properties: object = None
    structures: object = None


def assemble(sections: Sections, problems: Problems, broken: Collection[str] = ()) -> Parts:
    """What a scenario consists of; what is wrong with it goes to `problems`.

    `broken` names units whose models could not be made: what depends on them is not complained about.
    """
    units, connections, inputs, outputs, parameters, events, properties, structures = sections
    check_type(units, Mapping, "units")
    check_type(parameters, Mapping, "parameters")
    check_type(connections, Iterable, "connections")
    for name in parameters:
        check_type(name, str, "the name of a parameter")
    good = {name: model for name, model in units.items() if is_unit(name, model, problems)}
    broken = {*broken, *units.keys() - good.keys()}
    if not units and not broken:
        problems.add(("units",), "the scenario has no units", 'Give it at least one: units={"left": Ode(…)}.')
    if parameters:
        good = with_parameters(good, parameters, ("parameters",), problems, broken)
    own = _inputs(inputs, problems)
    own_inputs = tuple(port for port in own.values() if port is not None)
    if not check_cells(good, own_inputs, problems):
        return Parts(good, (), own_inputs, ())
    unclear = {*broken, *(name for name, port in own.items() if port is None)}
    directory = Directory(good, own_inputs, unclear)
    pairs = list(connections.items() if isinstance(connections, Mapping) else connections)
    for pair in pairs:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2 or not isinstance(pair[0], str):
            raise InvalidInput(f'connections must be pairs of input and source ("a.u", "b.y"), not {pair!r}')
    links = _connections(pairs, directory, problems)
    given = _outputs(outputs, directory, problems)
    parts = Parts(
        units=good,
        connections=tuple(link for link in links if isinstance(link, Connection)),
        inputs=own_inputs,
        outputs=tuple(output for output in given if isinstance(output, ScenarioOutput)),
        event_connections=tuple(link for link in links if isinstance(link, EventConnection)),
        event_outputs=tuple(output for output in given if isinstance(output, EventOutput)),
    )
    if events is not None or properties is not None:
        readable = Readable(good, own_inputs, unclear)
        readable.driven = {bare(str(target)) for target, _ in pairs}
        taken = {*readable.inputs, *(outputs if isinstance(outputs, Mapping) else ())}
        if events is not None:
            parts = replace(parts, events=tuple(read_events(events, readable, problems, taken)))
        if properties is not None:
            from upbeat.scenario.properties import read_properties  # which few scenarios need

            taken |= {event.name for event in parts.events}
            found = read_properties(properties, readable, parts.outputs, problems, taken)
            parts = replace(parts, properties=tuple(found))
    if structures is not None:
        from upbeat.scenario.structures import read_structures  # which few scenarios have

        parts = replace(parts, structures=read_structures(structures, parts, problems, broken))
    check_measures(parts, problems)
    return parts


def _inputs(given: object, problems: Problems) -> dict[str, Port | None]:
    """The scenario's inputs by name; None for those that have a problem."""
    if isinstance(given, Mapping):
        entries = dict(given)
    elif isinstance(given, (list, tuple)):
        entries = {item.name: item for item in given if isinstance(item, Port)}
        entries |= {item: {} for item in given if not isinstance(item, Port)}
    else:
        what = f"expected a table of inputs, not {given!r}"
        problems.add(("inputs",), what, 'Write {"force": {"unit": "N"}}.')
        return {}
    for name in entries:
        if by_hand(name) in entries:
            what = f"the name '{by_hand(name)}' is kept for setting '{name}' during a run"
            problems.add(("inputs", by_hand(name)), what, "Choose another name.")
    return {
        name: _guard(partial(_input, name, entry), ("inputs", name), problems)
        for name, entry in entries.items()
    }


def _input(name: str, entry: object) -> Port:
    check_own_name(name)
    port = entry if isinstance(entry, Port) else read_port(name, entry, Causality.INPUT)
    if port.kind is Kind.STRING:
        raise Wrong(
            "a scenario input cannot be a string",
            'For a choice between labels, use an enumeration: { items = ["off", "on"] }.',
        )
    return port


def _outputs(given: object, directory: Directory, problems: Problems) -> list[ScenarioOutput | EventOutput]:
    if not isinstance(given, Mapping):
        problems.add(("outputs",), f"expected a table of outputs, not {given!r}", 'Write {"y": "left.x"}.')
        return []
    found = [
        _guard(partial(_output, name, entry, directory), ("outputs", name), problems)
        for name, entry in given.items()
    ]
    return [output for output in found if output is not None]


def _output(name: str, entry: object, directory: Directory) -> ScenarioOutput | EventOutput:
    check_own_name(name)
    if name in directory.inputs:
        raise Wrong(f"the name '{name}' is used twice: it is a scenario input, too", "Choose another name.")
    table = dict(entry) if isinstance(entry, Mapping) else {"value": entry}
    known = (*KEYS[Causality.OUTPUT], "convert")
    for key in table:
        if key not in known:
            raise Wrong(f"unknown key '{key}'", suggest(key, known, "keys"))
    if "value" not in table:
        raise Wrong(f"the output '{name}' needs an expression", f'Write {name} = {{ value = "unit.port" }}.')
    value = table.pop("value")
    signal = "convert" in table  # which means nothing for events
    if signal:
        value = {"value": value, "convert": table.pop("convert")}
    port = read_port(name, table, Causality.OUTPUT)
    fixed = "kind" in table or "items" in table
    if port.event or (not signal and says_event(value, directory)):
        return deliver_event(port, value, directory, fixed=fixed)
    return deliver(port, value, directory, fixed=fixed)


def _connections(
    pairs: Iterable[tuple[str, Any]], directory: Directory, problems: Problems
) -> list[Connection | EventConnection]:
    first: dict[End, object] = {}
    found: list[Connection | EventConnection] = []
    for target, value in pairs:

        def checked(target: str = target, value: object = value) -> Connection | EventConnection:
            try:
                end, port = directory.target(target)
            except Wrong as wrong:
                raise _turned(wrong, target, value, directory) from None
            except Unclear:
                for part in value if isinstance(value, (list, tuple)) else [value]:
                    # the target cannot be judged, but its sources can
                    formula(part.get("event", 0) if isinstance(part, Mapping) else part, directory)
                raise
            if end in first:
                both = "the first that is present" if port.event else "an expression"
                raise Wrong(
                    f"'{target}' has two sources: {first[end]!r} and {value!r}",
                    f"An input has one. To combine them, write {both}: "
                    f'"{target}" = "a.y {"or" if port.event else "+"} b.y".',
                )
            first[end] = value
            return (connect_event if port.event else connect)(target, value, directory)

        connection = _guard(checked, ("connections", str(target)), problems)
        if connection is not None:
            found.append(connection)
    return found


def _turned(wrong: Wrong, target: str, value: object, directory: Directory) -> Wrong:
    """`wrong`, with the advice to swap both ends if that makes a connection."""
    try:
        directory.source(target)
        directory.target(str(value))
    except (Wrong, Unclear):
        return wrong
    return Wrong(wrong.what, f'The input comes first. Turn it round: "{value}" = "{target}".')


def _guard(make: Callable[[], T], where: Where, problems: Problems) -> T | None:
    """What `make` gives; or None, and a problem."""
    try:
        return make()
    except Wrong as wrong:
        problems.add((*where, *wrong.at), wrong.what, wrong.hint)
    except InvalidInput as error:
        problems.add(where, str(error))
    except Unclear:
        pass
    return None
