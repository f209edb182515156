"""The unit ``inputs``, which drives a scenario's own inputs: it plays signals, and hands on what is set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from upbeat.core.abilities import Model
from upbeat.core.errors import InvalidInput, ModelError, suggest
from upbeat.core.expr import Table1
from upbeat.core.ports import Kind, Port
from upbeat.scenario.assemble import Parts
from upbeat.scenario.connection import Connection, ScenarioOutput, closed
from upbeat.scenario.directory import INPUTS, by_hand
from upbeat.scenario.events.links import EventConnection, EventOutput, closed_senders, relay
from upbeat.scenario.signals import (
    ROUNDED,
    TIME,
    EventSeries,
    Signals,
    as_signals,
    cells_of_inputs,
    column_names,
)
from upbeat.units.equations.ode import Function
from upbeat.units.shorthand import plain, port_spec

Computed = TypeVar("Computed", Connection, ScenarioOutput)
Sends = TypeVar("Sends", EventConnection, EventOutput)


def with_inputs_unit(parts: Parts, signals: Signals | Mapping[str, Any]) -> Parts:
    """The parts of a scenario with this unit in front, which drives all its inputs."""
    inputs = parts.inputs

    def links(found: Iterable[Sends]) -> tuple[Sends, ...]:
        return tuple(replace(one, senders=closed_senders(one.senders, inputs)) for one in found)

    def signals_of(found: Iterable[Computed]) -> tuple[Computed, ...]:
        return tuple(replace(one, cells=closed(one.cells, inputs)) for one in found)

    return replace(
        parts,
        units={INPUTS: inputs_model(inputs, signals), **parts.units},
        connections=signals_of(parts.connections),
        inputs=(),
        outputs=signals_of(parts.outputs),
        event_connections=links(parts.event_connections),
        event_outputs=links(parts.event_outputs),
    )


def inputs_model(inputs: Sequence[Port], signals: Signals | Mapping[str, Any]) -> Model:
    """A unit with an output for every scenario input: a function, or a discrete one if there are events.

    An input with a signal is looked up over `time`. Any other is handed through from the unit's own
    input ``set_<name>``, so that it can be set during a run.
    """
    signals = as_signals(signals)
    known = cells_of_inputs(inputs)
    known |= {port.name: port for port in inputs if port.event}
    for name in (*signals.values, *signals.events):
        if name not in known:
            raise InvalidInput(
                f"there is no scenario input '{name}'. {suggest(name, known, 'scenario inputs')}"
            )
    ordinary = [port for port in inputs if not port.event]
    events = [port for port in inputs if port.event]
    if not events:
        return _function(ordinary, signals)
    function = _function(ordinary, signals) if ordinary else None
    return relay(function, {port: _event_series(port, signals) for port in events})


def _function(inputs: Sequence[Port], signals: Signals) -> Function:
    handles: dict[str, Any] = {}
    outputs: dict[str, Any] = {}
    tables: dict[str, Table1] = {}
    for port in inputs:
        entry = {
            key: value for key, value in _entry(port).items() if key not in ("start", "size", "reactive")
        }
        if port.name in signals.events:
            raise InvalidInput(
                f"'{port.name}' is not an event, so it has a value at all times: "
                f"give it a list of values, one for each of the times under '{TIME}'"
            )
        if any(name in signals.values for name in column_names(port)):
            cells = [_played(name, port, signals, tables) for name in column_names(port)]
            outputs[port.name] = {**entry, "value": cells if port.size is not None else cells[0]}
        else:
            handles[by_hand(port.name)] = {**_entry(port), "start": plain(port, port.initial)}
            outputs[port.name] = {**entry, "value": by_hand(port.name)}
    return Function(inputs=handles, outputs=outputs, tables=tables)


def _entry(port: Port) -> dict[str, Any]:
    spec = port_spec(port)
    entry = dict(spec) if isinstance(spec, dict) else {"start": spec}
    if not port.items:
        entry["kind"] = port.kind.value
    return entry


def _played(name: str, port: Port, signals: Signals, tables: dict[str, Table1]) -> str:
    """The expression that gives one cell at `time`; its table is added to `tables`."""
    if name not in signals.values:
        raise InvalidInput(f"'{port.name}' is driven, but there is no signal for '{name}'")
    cell = Port(name=port.name, causality=port.causality, kind=port.kind, items=port.items)
    try:
        values = tuple(float(cell.value(value, name)) for value in signals.values[name])
    except ModelError as error:
        raise InvalidInput(f"signal '{name}': {error}") from None
    if len(values) == 1:
        return repr(values[0])
    key = f"signal_{len(tables)}"
    linear = port.kind is Kind.REAL and name not in signals.held and port.name not in signals.held
    times, values = _with_jumps(signals.time, values, linear=linear)
    if len(values) == 1:
        return repr(values[0])
    tables[key] = Table1(times, values, mode="linear" if linear else "hold", name=key)
    return f"{key}(time)"


def _with_jumps(
    times: Sequence[float], values: Sequence[float], *, linear: bool
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Times that increase strictly. What jumps at a time has done so at communication points that are
    rounded to just before it, too."""
    pairs = list(zip(times, values, strict=True))
    made: list[tuple[float, float]] = []
    for k, (t, value) in enumerate(pairs):
        after = k > 0 and pairs[k - 1][0] == t
        before = k + 1 < len(pairs) and pairs[k + 1][0] == t
        if before and (k == 0 or after or not linear):
            continue  # it is not seen: a table begins with its last value, a held one has those alone
        early = 0.0 if linear and not (after or before) else (2 if before else 1) * ROUNDED * abs(t)
        made.append((t - early, value))
    return tuple(t for t, _ in made), tuple(value for _, value in made)


def _event_series(port: Port, signals: Signals) -> EventSeries | None:
    """When an event input has an event, and with which cells; None if no signal says anything about it."""
    names = column_names(port)
    found = signals.events.get(port.name)
    if found is None and not any(name in signals.values for name in names):
        return None
    if found is None:
        for name in names:
            if name not in signals.values:
                raise InvalidInput(f"'{port.name}' is driven, but there is no signal for '{name}'")
        rows = list(zip(*(signals.values[name] for name in names), strict=True))
        there = [any(value is not None for value in row) for row in rows]
        at = [t for t, given in zip(signals.time, there, strict=True) if given]
        values = [
            row if port.size is not None else row[0] for row, given in zip(rows, there, strict=True) if given
        ]
        found = EventSeries(tuple(at), tuple(values))
        if len(set(at)) < len(at):
            raise InvalidInput(f"signal '{port.name}' has two events at one time")
    try:
        return EventSeries(found.at, tuple(port.values(value) for value in found.values))
    except ModelError as error:
        raise InvalidInput(f"signal '{port.name}': {error}") from None
