"""Equations that count their own events, and give out their conditions, for a pace that looks ahead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from upbeat.core.expr import Apply, Expr, Op, show
from upbeat.units.equations.changing import free_name
from upbeat.units.equations.data import Equations, Output

COUNT = "events_inside"
COUNTS = "count of events"


def with_indicators(
    equations: Equations, spec: Mapping[str, Any], *, conditions: bool = True
) -> tuple[dict[str, Any], dict[str, str]] | None:
    """The table of a model, `spec`, with an output that counts the events that the unit watches for, and
    (with `conditions`) one for each condition of each; and which output belongs to which event, "" for the
    count.

    None if there are no such events, or they are given out already.
    """
    foreign = {port.name for port in equations.sent if port.internal}  # what masters have made for themselves
    watched = [
        (event, event.indicator)
        for event in equations.events
        if event.indicator is not None and foreign.isdisjoint(one.port.name for one in event.emit)
    ]
    ports = [output.port for output in equations.outputs]
    known = next((port.name for port in ports if port.counts), None)
    if not watched or (known and (not conditions or any(port.indicates for port in ports))):
        return None
    taken = {name for key in spec for name in (spec[key] if isinstance(spec[key], Mapping) else ())}
    count, events = known or free_name(COUNT, taken), dict(spec["events"])
    outputs = {**spec["outputs"], count: {"value": count, "kind": "integer"}}
    made = {count: ""}
    for event, indicator in watched:
        written = events[event.name]
        if known is None:
            events[event.name] = {**written, "then": {**written.get("then", {}), count: f"{count} + 1"}}
        for z in _conditions(indicator) if conditions else ():
            name = free_name(f"{event.name}_z", taken)
            outputs[name] = show(z)
            made[name] = event.name
    variables = {**spec.get("variables", {}), count: {"start": 0, "kind": "integer"}}
    return {**spec, "variables": variables, "outputs": outputs, "events": events}, made


def marked(equations: Equations, made: Mapping[str, str]) -> Equations:
    """The equations of such a table, whose new outputs say what they are for."""

    def as_made(output: Output) -> Output:
        event = made.get(output.port.name)
        if event is None:
            return output
        told = f"condition of {event}" if event else COUNTS
        return replace(output, port=replace(output.port, internal=True, indicates=event, description=told))

    return replace(equations, outputs=tuple(map(as_made, equations.outputs)))


def _conditions(indicator: Expr) -> Iterator[Expr]:
    """The numbers of which the indicator is the largest: each has a smoother course than all together."""
    match indicator:
        case Apply(op=Op.MAX, args=args):
            for arg in args:
                yield from _conditions(arg)
        case _:
            yield indicator
