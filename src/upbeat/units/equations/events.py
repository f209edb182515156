"""Events inside equations: conditions, reactions, and the plan by which engines carry them out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from functools import reduce
from typing import Any

from upbeat.core.errors import ExpressionError, ModelError, suggest
from upbeat.core.expr import ONE, Expr, Kernel, Op, apply, indicator
from upbeat.core.names import cell_names
from upbeat.core.ports import Causality, Kind, Port
from upbeat.core.records import dataclass
from upbeat.units.equations.data import Equations
from upbeat.units.equations.scope import Scope, Vocabulary
from upbeat.units.shorthand import entries, read_port

# ----------------------------------------------------------------------------------------------------
# What units do at events, as people write it: variables, events heard and sent.


@dataclass(frozen=True)
class Sending:
    """What is sent: `cells`, if `present`."""

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
            names.complaints.add(f"{where}.on", f"'{port}' is not an event input: it is one of the {section}")
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
            complaints.add(here, f"'{name}' is not an event output: it is one of the {section}")
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


# ----------------------------------------------------------------------------------------------------
# Events of units given by equations: what makes them happen, and what they change and send.

KEYS = ("when", "on", "then", "emit", "rests", "slides")
_EXAMPLE = '{ when = "h <= 0 and v < 0", then = { v = "-v" } }'


@dataclass(frozen=True, slots=True)
class EquationEvent:
    """One event: it happens when `indicator` falls from above zero to zero or below, or one of `on` arrives.

    `then` gives cells of states, variables and parameters new values, all of them computed before any is
    written. The expressions hold no locals any more. `written` is what the user wrote.
    """

    name: str
    written: Mapping[str, Any]
    on: tuple[str, ...] = field(default=(), compare=False)
    indicator: Expr | None = field(default=None, compare=False, repr=False)
    then: tuple[tuple[str, Expr], ...] = field(default=(), compare=False, repr=False)
    emit: tuple[Sending, ...] = field(default=(), compare=False, repr=False)


def read_events(given: object, names: Vocabulary) -> tuple[EquationEvent, ...]:
    """All events that could be read; what is wrong with the others is among the complaints."""
    found = []
    for name, entry in entries(given, "events", names.complaints).items():
        where = f"events.{name}"
        if not isinstance(entry, Mapping):
            names.complaints.add(where, f"an event is a table: {_EXAMPLE}, not {entry!r}")
            continue
        for key in entry:
            if key not in KEYS:
                names.complaints.add(
                    f"{where}.{key}", f"unknown key {key!r}. {suggest(str(key), KEYS, 'keys')}"
                )
        found.append(_read(name, where, entry, names))
    return tuple(found)


def _read(name: str, where: str, entry: Mapping[str, Any], names: Vocabulary) -> EquationEvent:
    complaints = names.complaints
    if ("when" in entry) == ("on" in entry):
        complaints.add(
            where, f'an event needs either a condition or events to wait for: {_EXAMPLE}, or on = "…"'
        )
    if not {"then", "emit"} & entry.keys():
        complaints.add(where, 'say what happens: then = { v = "-v" }, or emit = { done = true }')
    on = heard_events(where, entry.get("on"), names)
    if on and "emit" in entry:
        complaints.add(
            f"{where}.emit",
            "an event that answers another one cannot send anything by itself: let it change a variable, and "
            "give an event with a condition on that variable the emit",
        )
    heard = on if len(on) == 1 else ()
    z = _indicator(where, entry["when"], names) if "when" in entry else None
    then = _assignments(f"{where}.then", entry.get("then"), names, heard)
    emit = sendings(where, entry.get("emit"), names, heard)
    return EquationEvent(name, dict(entry), on, z, then, emit)


def _indicator(where: str, given: object, names: Vocabulary) -> Expr | None:
    """From a condition, or from a list of numbers that are all at most zero when it happens."""
    if isinstance(given, (list, tuple)):
        parts = [names.expression(where, f"when[{i}]", part) for i, part in enumerate(given)]
        if not parts:
            names.complaints.add(f"{where}.when", "the list of indicators is empty")
        known = [part for part in parts if part is not None]
        return reduce(lambda a, b: apply(Op.MAX, a, b), known) if known else None
    condition = names.truth(where, "when", given)
    if condition is None:
        return None
    try:
        return indicator(condition, names.scope.kinds)
    except ExpressionError as error:
        names.complaints.add(f"{where}.when", error.reason)
        return None


def _assignments(
    where: str, given: object, names: Vocabulary, heard: tuple[str, ...]
) -> tuple[tuple[str, Expr], ...]:
    """New values by cell; a list gives an array one for each of its cells."""
    if not isinstance(given, Mapping):
        return names.assignments(where, given, heard)
    single: dict[str, Any] = {}
    found: list[tuple[str, Expr]] = []
    for name, value in given.items():
        port = names.variables.get(name)
        if port is None or port.size is None:
            single[name] = value
        elif not isinstance(value, (list, tuple)) or len(value) != port.size:
            names.complaints.add(
                f"{where}.{name}", f"'{name}' is an array: give a list of {port.size} values"
            )
        else:
            for cell, item in zip(cell_names(name, port.size), value, strict=True):
                expr = names.value(where, cell, item, port, heard)
                found += [(cell, expr)] if expr is not None else []
    return (*names.assignments(where, single, heard), *found)


# ----------------------------------------------------------------------------------------------------
# The events of equations in numbers: which indicator each has, what it hears, writes and sends.
#
# Both engines run a unit from this plan.


@dataclass(frozen=True, slots=True)
class Sent:
    """What an event sends: the number of the port among those that send, and where its cells are among the
    results: first whether it is there at all."""

    port: int
    first: int


@dataclass(frozen=True, slots=True)
class Reaction:
    """One event in numbers.

    `indicator` is its place among the indicators (-1: none), `on` are numbers of ports among those that
    hear. `writes` are pairs of a target and the place of its new value among the results: states count
    from 0, parameters and variables go on after them.
    """

    name: str
    indicator: int
    on: tuple[int, ...]
    writes: tuple[tuple[int, int], ...]
    sends: tuple[Sent, ...]


@dataclass(frozen=True, slots=True)
class Reactions:
    """All events of a unit in numbers. `mutable`: the places of parameters and variables that ever change."""

    events: tuple[Reaction, ...]
    mutable: tuple[int, ...]
    heard: tuple[Port, ...]
    sent: tuple[Port, ...]
    indicators: Kernel
    actions: Kernel

    @property
    def watched(self) -> int:
        """How many events have an indicator."""
        return sum(event.indicator >= 0 for event in self.events)

    @property
    def rivals(self) -> tuple[tuple[int, ...], ...]:
        """By indicator: those of events before it that write something that it writes, too."""
        watched = [(e.indicator, {target for target, _ in e.writes}) for e in self.events if e.indicator >= 0]
        return tuple(
            tuple(other for other, theirs in watched[:place] if not own.isdisjoint(theirs))
            for place, (_, own) in enumerate(watched)
        )

    @property
    def extra(self) -> int:
        """How many numbers a state has more than that of a unit without events: see `HybridUnit.save`."""
        ports = sum(1 + port.cells for port in (*self.heard, *self.sent))
        return len(self.mutable) + 2 * self.watched + ports


def reactions(equations: Equations) -> Reactions:
    """The events of these equations in numbers."""
    states = [name for s in equations.states for name in cell_names(s.port.name, s.port.size)]
    constants = (*equations.parameters, *equations.variables)
    values = [name for port in constants for name in cell_names(port.name, port.size)]
    targets = {name: place for place, name in enumerate((*states, *values))}
    heard = {port.name: i for i, port in enumerate(equations.heard)}
    sent = {port.name: i for i, port in enumerate(equations.sent)}
    found, result, indicator = [], 0, 0
    for event in equations.events:
        writes = tuple((targets[cell], result + i) for i, (cell, _) in enumerate(event.then))
        result += len(writes)
        sends = []
        for sending in event.emit:
            sends.append(Sent(sent[sending.port.name], result))
            result += 1 + len(sending.cells)
        watched = event.indicator is not None
        on = tuple(heard[name] for name in event.on)
        found.append(Reaction(event.name, indicator if watched else -1, on, writes, tuple(sends)))
        indicator += watched
    changed = {target - len(states) for e in found for target, _ in e.writes if target >= len(states)}
    return Reactions(
        tuple(found), tuple(sorted(changed)), equations.heard, equations.sent, equations.indicators,
        equations.actions,
    )  # fmt: skip
