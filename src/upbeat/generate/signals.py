"""Events of a scenario as signals, for hosts that know nothing else.

An event that goes out is what the last one said, and how many there have been; one that comes in happens when
its count changes. So it can be told from the one before that said the same, no host needs to know when it comes,
and what goes out of one exported scenario can come into another.
"""

from __future__ import annotations

from dataclasses import replace

from upbeat.core.expr import ONE, Expr, Name, parse, substitute
from upbeat.core.names import cell_names
from upbeat.core.ports import Causality, Kind, Port
from upbeat.scenario.connection import Connection, ScenarioOutput
from upbeat.scenario.directory import INPUTS
from upbeat.scenario.events.links import EventConnection, Sender
from upbeat.scenario.scenario import Scenario
from upbeat.units.discrete.model import Discrete, Emission, Mode, Variable
from upbeat.units.equations.arranging import free_name

_IN, _OUT = Causality.INPUT, Causality.OUTPUT


def signals_only(scenario: Scenario) -> tuple[Scenario, tuple[str, ...]]:
    """A scenario without event inputs and outputs of its own, and what became of each."""
    given = [port for port in scenario.inputs if port.event]
    if not given and not scenario.event_outputs:
        return scenario, ()
    parts, notes = scenario.parts, []
    units = dict(parts.units)
    inputs = [port for port in parts.inputs if not port.event]
    outputs, connections = list(parts.outputs), list(parts.connections)
    links = list(parts.event_connections)
    taken = {*units, *(port.name for port in parts.inputs), *(out.port.name for out in parts.all_outputs)}

    for out in parts.event_outputs:
        unit, count = free_name(f"{out.port.name}_heard", taken), free_name(f"{out.port.name}_count", taken)
        units[unit] = _hearing(out.port)
        links.append(EventConnection(unit, "event", out.senders, out.text))
        told = _signals(out.port, out.port.name, count, _OUT)
        for inside, port in zip(_signals(out.port, "value", "count", _OUT), told, strict=True):
            names, ends = _cells(f"{unit}.{inside.name}", port), ((unit, inside.name),)
            outputs.append(ScenarioOutput(port, names, ends, f"{unit}.{inside.name}"))
        said = "" if _pure(out.port) else f", and '{out.port.name}' is what the last one said"
        notes.append(f"the event output '{out.port.name}': '{count}' says how many there have been{said}")

    renamed: dict[str, str] = {}
    for event in given:
        unit, count = free_name(f"{event.name}_sent", taken), free_name(f"{event.name}_count", taken)
        units[unit] = _sending(event)
        renamed[event.name] = unit
        told = _signals(event, event.name, count, _IN)
        inputs += told
        for inside, port in zip(_signals(event, "value", "count", _IN), told, strict=True):
            ends = ((INPUTS, port.name),)
            connections.append(Connection(unit, inside.name, _cells(port.name, port), ends, port.name))
        said = "" if _pure(event) else f", and says what '{event.name}' is then"
        notes.append(f"the event input '{event.name}': it happens when '{count}' changes{said}")

    moved = {
        old: Name(new)
        for event in given
        for old, new in zip(
            cell_names(event.name, event.size),
            cell_names(f"{renamed[event.name]}.event", event.size),
            strict=True,
        )
    }
    links = [
        replace(link, senders=tuple(_from(one, renamed, moved) for one in link.senders)) for link in links
    ]
    made = scenario.with_parts(
        units=units,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        connections=tuple(connections),
        event_connections=tuple(links),
        event_outputs=(),
    )
    return made, tuple(notes)


def _pure(event: Port) -> bool:
    """Whether it carries nothing: it only happens."""
    return event.kind is Kind.BOOLEAN


def _signals(event: Port, value: str, count: str, causality: Causality) -> tuple[Port, ...]:
    """What stands for an event: what it carries, if it does, and how often it has happened."""
    counting = Port(count, causality, Kind.INTEGER)
    plain = replace(event, name=value, causality=causality, start=None, event=False, depends=frozenset())
    return (counting,) if _pure(event) else (plain, counting)


def _hidden(*ports: Port) -> tuple[Port, ...]:
    return tuple(replace(port, internal=True) for port in ports)


def _cells(name: str, port: Port) -> tuple[Expr, ...]:
    return tuple(map(Name, cell_names(name, port.size)))


def _from(sender: Sender, units: dict[str, str], moved: dict[str, Name]) -> Sender:
    """A sender, with the unit that sends in place of an event input."""
    where, port = sender.source
    source = (units[port], "event") if where == INPUTS else sender.source
    when = None if sender.when is None else substitute(sender.when, moved)
    return replace(sender, source=source, when=when, cells=tuple(substitute(c, moved) for c in sender.cells))


def _hearing(event: Port) -> Discrete:
    """Keeps what the last event said, and counts."""
    ports = _signals(event, "value", "count", _OUT)
    kept = () if _pure(event) else tuple(f"value_{i}" for i in range(event.cells))
    told = tuple(map(Name, cell_names("event", event.size)))
    shown = {"value": tuple(map(Name, kept)), "count": (Name("count"),)}
    start = replace(event, start=None, event=False).initial
    return Discrete(
        ports=_hidden(replace(event, name="event", causality=_IN), *ports),
        variables=(
            *(Variable(name, event.kind, first) for name, first in zip(kept, start, strict=False)),
            Variable("count", Kind.INTEGER, 0),
        ),
        modes=(Mode(parse("inf"), external=(*zip(kept, told, strict=False), ("count", parse("count + 1")))),),
        outputs=tuple((port.name, shown[port.name]) for port in ports),
    )


def _sending(event: Port) -> Discrete:
    """Sends the event when the count is another than at the last one."""
    payload = (ONE,) if _pure(event) else tuple(map(Name, cell_names("value", event.size)))
    return Discrete(
        ports=_hidden(*_signals(event, "value", "count", _IN), replace(event, name="event", causality=_OUT)),
        variables=(Variable("seen", Kind.INTEGER, 0),),
        modes=(
            Mode(
                parse("time if count != seen else inf"),
                (Emission("event", ONE, payload),),
                (("seen", Name("count")),),
            ),
        ),
    )
