"""Events of units given by equations: what makes them happen, and what they change and send."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from upbeat.core.errors import ExpressionError, suggest
from upbeat.core.expr import Expr, Op, apply, indicator
from upbeat.core.names import cell_names
from upbeat.units.equations.reactions import Sending, heard_events, sendings
from upbeat.units.equations.vocabulary import Vocabulary
from upbeat.units.shorthand import entries

KEYS = ("when", "on", "then", "emit")
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
