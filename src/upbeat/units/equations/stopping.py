"""Equations that stop by themselves where somebody else's conditions come true, and say so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from upbeat.core.expr import Expr, Name, looks_up, show, substitute
from upbeat.core.names import cell_names
from upbeat.core.ports import Port
from upbeat.units.equations.changing import free_name
from upbeat.units.equations.data import Equations


@dataclass(frozen=True, slots=True)
class Stops:
    """What such equations have more than before.

    `watching`: the boolean input without which they say nothing. `located`: the event outputs, by what was
    watched for. `seen`: the inputs for signals from elsewhere, by the names that conditions have for them.
    `events`: the names of the events inside.
    """

    watching: str
    located: dict[str, str] = field(default_factory=dict)
    seen: dict[str, str] = field(default_factory=dict)
    events: tuple[str, ...] = ()

    @property
    def ports(self) -> set[str]:
        """All names of ports."""
        return {self.watching, *self.located.values(), *self.seen.values()}


def tells(equations: Equations, name: str) -> Expr | None:
    """What an output is inside, without locals; None if it is none, or looks into a table, which has no
    name outside of these equations."""
    for output in equations.outputs:
        names = cell_names(output.port.name, output.port.size)
        if name in names:
            cell = equations.written_out(output.definition.cells[names.index(name)])
            return None if looks_up(cell) else cell
    return None


def marked_like(before: Equations, made: Equations, stops: Stops) -> Equations:
    """The equations of such a table, whose new ports are nobody's business but a master's; the old ones are
    as they were `before`."""
    known = {port.name: port for port in before.ports}

    def as_known(port: Port) -> Port:
        return replace(port, internal=True) if port.name in stops.ports else known.get(port.name, port)

    return replace(
        made,
        inputs=tuple(map(as_known, made.inputs)),
        sent=tuple(map(as_known, made.sent)),
        outputs=tuple(replace(output, port=as_known(output.port)) for output in made.outputs),
    )


def with_stops(
    equations: Equations,
    spec: Mapping[str, Any],
    conditions: Mapping[str, Sequence[Expr]],
    own: Mapping[str, Expr],
    foreign: Mapping[str, Port],
) -> tuple[dict[str, Any], Stops]:
    """The table of a model, `spec`, with an event for each of `conditions`: it changes nothing, and is sent.

    `own` says what the names in conditions are inside; those of `foreign` become inputs.
    """
    inputs, outputs = dict(spec.get("inputs", {})), dict(spec["outputs"])
    events = dict(spec.get("events", {}))
    taken = {name for key in spec for name in (spec[key] if isinstance(spec[key], Mapping) else ())}
    made = Stops(free_name("watching", taken))
    inputs[made.watching] = {"kind": "boolean"}
    for name, port in foreign.items():
        made.seen[name] = free_name("seen_" + "".join(c if c.isalnum() else "_" for c in name), taken)
        inputs[made.seen[name]] = {"items": list(port.items)} if port.items else {"kind": port.kind.value}
    inside = {**own, **{name: Name(known) for name, known in made.seen.items()}}
    added = []
    for event, zs in conditions.items():
        sent = made.located[event] = free_name(f"located_{event}", taken)
        outputs[sent] = {"event": True}
        added.append(free_name(f"stop_{event}", taken))
        # The condition is honest at all times, so that it is armed when it should be; only telling is not.
        events[added[-1]] = {
            "when": [show(substitute(z, inside)) for z in zs],
            "emit": {sent: made.watching},
        }
    return {**spec, "inputs": inputs, "outputs": outputs, "events": events}, replace(
        made, events=tuple(added)
    )
