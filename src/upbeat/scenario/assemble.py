"""Putting a scenario together: every part is checked, and all problems are found before any is raised."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from upbeat.core.abilities import Model
from upbeat.core.errors import InvalidInput, Problems, check_type, suggest
from upbeat.core.names import bare
from upbeat.core.ports import Causality, Kind, Port
from upbeat.scenario.checks import check_cells, check_measures, check_own_name, is_unit
from upbeat.scenario.connection import Connection, ScenarioOutput, connect, deliver
from upbeat.scenario.directory import Directory, End, Unclear, Wrong, by_hand
from upbeat.scenario.events.connection import EventConnection, EventOutput
from upbeat.scenario.events.declared import Readable, read_events
from upbeat.scenario.events.event import Event
from upbeat.scenario.events.links import connect_event, deliver_event, says_event
from upbeat.scenario.formula import formula
from upbeat.scenario.values import with_parameters
from upbeat.units.shorthand import KEYS, read_port

T = TypeVar("T")
Where = tuple[str, ...]


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

    @property
    def all_connections(self) -> tuple[Connection | EventConnection, ...]:
        """Those of signals, then those of events."""
        return *self.connections, *self.event_connections

    @property
    def all_outputs(self) -> tuple[ScenarioOutput | EventOutput, ...]:
        """The signals, then the events."""
        return *self.outputs, *self.event_outputs


def assemble(
    units: Mapping[str, Model],
    connections: Mapping[str, Any] | Iterable[tuple[str, Any]],
    inputs: object,
    outputs: Mapping[str, Any],
    parameters: Mapping[str, Any],
    problems: Problems,
    broken: Collection[str] = (),
    events: object = None,
) -> Parts:
    """What a scenario consists of; what is wrong with it goes to `problems`.

    `broken` names units whose models could not be made: what depends on them is not complained about.
    """
    check_type(units, Mapping, "units")
    check_type(parameters, Mapping, "parameters")
    check_type(connections, Iterable, "connections")
    for name in parameters:
        check_type(name, str, "the name of a parameter")
    good = {name: model for name, model in units.items() if is_unit(name, model, problems)}
    broken = {*broken, *units.keys() - good.keys()}
    if not units and not broken:
        problems.add(("units",), "the scenario has no units", 'Give it at least one: units={"left": Ode(…)}.')
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
        events=_events(events, Readable(good, own_inputs, unclear), pairs, outputs, problems),
    )
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


def _events(
    given: object, directory: Readable, pairs: Iterable[tuple[str, Any]], outputs: object, problems: Problems
) -> tuple[Event, ...]:
    if given is None:
        return ()
    directory.driven = {bare(str(target)) for target, _ in pairs}
    taken = {*directory.inputs, *(outputs if isinstance(outputs, Mapping) else ())}
    return tuple(read_events(given, directory, problems, taken))


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
