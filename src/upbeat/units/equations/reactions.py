"""What units do at events, as people write it: variables, events heard and sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from upbeat.core.errors import ModelError, suggest
from upbeat.core.expr import ONE, Expr
from upbeat.core.names import cell_names
from upbeat.core.ports import Causality, Kind, Port
from upbeat.units.equations.scope import Scope
from upbeat.units.equations.vocabulary import Vocabulary
from upbeat.units.shorthand import read_port


@dataclass(frozen=True)
class Sending:
    """What somebody sends: `cells`, if `present`."""

    port: Port
    present: Expr
    cells: tuple[Expr, ...]


def read_variables(given: object, scope: Scope) -> tuple[Port, ...]:
    """The variables, which keep their values between events."""
    found = []
    for name, entry in scope.entries("variables", given).items():
        where = f"variables.{name}"
        with scope.complaints.at(where):
            table = dict(entry) if isinstance(entry, Mapping) else {"start": entry}
            if "value" in table:
                raise ModelError("a variable has a start: write start in place of value")
            table |= {"value": table.pop("start")} if "start" in table else {}
            port = read_port(name, table, Causality.PARAMETER)  # like a parameter, it has a value to set
            if port.kind is Kind.STRING:
                raise ModelError(
                    "a variable is a number, true or false, or one of some labels: "
                    f"{name} = {{ start = {table['value']!r}, items = […] }}"
                )
            if port.size is not None:
                raise ModelError("a variable is a single value; write one for each cell")
            found.append(port)
            scope.declare("variables", name, None, port.unit)
            scope.kinds[name] = port.kind
            if port.items:
                scope.enums[name] = port.items
    return tuple(found)


def is_event(entry: object) -> bool:
    """Whether this is how an event port is written."""
    return isinstance(entry, Mapping) and bool(entry.get("event"))


def read_sent(given: Mapping[str, Any], scope: Scope) -> tuple[Port, ...]:
    """The event outputs among `given`."""
    found = []
    for name, entry in given.items():
        if not is_event(entry):
            continue
        with scope.complaints.at(f"outputs.{name}"):
            if "value" in entry:
                raise ModelError("an event has a value only when it is sent: say so in an emit")
            port = read_port(name, entry, Causality.OUTPUT)
            if port.kind is Kind.STRING:
                raise ModelError("it cannot carry strings; use labels: items = […]")
            if name in scope.sections:
                raise ModelError(f"the name '{name}' is used twice (also in {scope.sections[name]})")
            found.append(port)
    return tuple(found)


def listed(given: Any) -> list[Any]:
    """One entry alone counts as a list of it, and none as an empty one."""
    if given is None:
        return []
    return list(given) if isinstance(given, (list, tuple)) else [given]


def heard_events(where: str, given: object, names: Vocabulary) -> tuple[str, ...]:
    """The event inputs in an `on`: one name, or a list of them."""
    found: list[str] = []
    for port in listed(given):
        if not isinstance(port, str):
            names.complaints.add(f"{where}.on", f"must name event inputs, not {port!r}")
        elif port in names.events:
            found.append(port)
        elif port in names.signals:
            names.complaints.add(
                f"{where}.on",
                f"'{port}' is a signal: wait for a condition on it, when = \"{port} > 0\", or make the input "
                f"an event: {port} = {{ event = true }}",
            )
        elif port in names.scope.sections:
            section = names.scope.sections[port]
            names.complaints.add(f"{where}.on", f"'{port}' is no event input: it is one of the {section}")
        elif port not in names.scope.mentioned:
            hint = suggest(str(port), names.events, "event inputs")
            names.complaints.add(f"{where}.on", f"there is no event input {port!r}. {hint}")
    return tuple(dict.fromkeys(found))


def sendings(where: str, given: object, names: Vocabulary, heard: tuple[str, ...]) -> tuple[Sending, ...]:
    """What an `emit` sends, such as ``{ done = true, lamp = "…" }``."""
    complaints = names.complaints
    if given is None:
        return ()
    if not isinstance(given, Mapping):
        complaints.add(
            f"{where}.emit", f'expected events such as {{ done = true, lamp = "…" }}, not {given!r}'
        )
        return ()
    found = []
    for name, value in given.items():
        port = names.sent.get(name)
        here = f"{where}.emit.{name}"
        if port is not None:
            sending = _sending(f"{where}.emit", port, value, names, heard)
            found += [sending] if sending is not None else []
        elif name in names.scope.outputs or name == "state":
            complaints.add(
                here, f"'{name}' is an ordinary output, which always has a value; only events are sent"
            )
        elif name in names.scope.sections:
            section = names.scope.sections[name]
            complaints.add(here, f"'{name}' is no event output: it is one of the {section}")
        elif name not in names.scope.mentioned:
            complaints.add(
                here, f"there is no event output '{name}'. {suggest(str(name), names.sent, 'event outputs')}"
            )
    return tuple(found)


def _sending(
    where: str, port: Port, value: object, names: Vocabulary, heard: tuple[str, ...]
) -> Sending | None:
    given = list(value) if isinstance(value, (list, tuple)) else [value]
    if len(given) != port.cells or (port.size is None) != (not isinstance(value, (list, tuple))):
        needed = "one value" if port.size is None else f"a list of {port.size} values"
        names.complaints.add(f"{where}.{port.name}", f"'{port.name}' carries {needed}, not {value!r}")
        return None
    if value is True and port.kind is not Kind.BOOLEAN:
        kind = "a label" if port.items else f"{port.kind.value}"
        names.complaints.add(f"{where}.{port.name}", f"'{port.name}' carries {kind}: say what it sends")
        return None
    cells = [
        names.value(where, cell, item, port, heard)
        for cell, item in zip(cell_names(port.name, port.size), given, strict=True)
    ]
    known = tuple(cell for cell in cells if cell is not None)
    if len(known) < len(cells):
        return None
    if port.kind is Kind.BOOLEAN and port.size is None:
        return Sending(port, known[0], (ONE,))  # it happens, or it does not
    return Sending(port, ONE, known)
