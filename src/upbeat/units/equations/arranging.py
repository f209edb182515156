"""What masters add to units of equations: indicators, stops, other solvers, changing parameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from upbeat.core.errors import ModelError
from upbeat.core.expr import Apply, Expr, Name, Op, looks_up, show, substitute
from upbeat.core.names import cell_names
from upbeat.core.ports import Kind, Port
from upbeat.core.records import dataclass
from upbeat.units.equations.data import Equations, Output
from upbeat.units.solving.solvers import Choice, Plain, Solver, plain_solvers, solver_from

# ----------------------------------------------------------------------------------------------------
# Equations whose quantities can be changed from outside, at an instant: an event input for each of them.


def changeable(equations: Equations) -> dict[str, Port]:
    """What an event may give a new value: states, variables and parameters. Functions have no events."""
    if not equations.states:
        return {}
    states = (state.port for state in equations.states)
    settable = (*states, *equations.variables, *equations.parameters)
    return {port.name: port for port in settable if port.kind is not Kind.STRING}


def with_changes(
    equations: Equations, spec: Mapping[str, Any], names: Iterable[str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """The table of a model, `spec`, with an event input for each of `names`; and what the inputs are called.

    What arrives there becomes the new value, after all that the unit does by itself at that instant.
    """
    known = changeable(equations)
    inputs, events = dict(spec.get("inputs", {})), dict(spec.get("events", {}))
    taken = {name for key in spec for name in (spec[key] if isinstance(spec[key], Mapping) else ())}
    ports: dict[str, str] = {}
    for name in names:
        port = known[name]
        made = free_name(f"new_{name}", taken)
        entry: dict[str, Any] = {"event": True, "size": port.size, "unit": port.unit}
        entry |= {"items": list(port.items)} if port.items else {"kind": _carried(port).value}
        inputs[made] = {key: value for key, value in entry.items() if value is not None}
        read = [_read(cell, port) for cell in cell_names(made, port.size)]
        value: Any = read if port.size is not None else read[0]
        events[free_name(f"change_{name}", taken)] = {"on": made, "then": {name: value}}
        ports[name] = made
    return {**spec, "inputs": inputs, "events": events}, ports


def _carried(port: Port) -> Kind:
    """An event that carries a truth is always true: a false one travels as 0."""
    return Kind.INTEGER if port.kind is Kind.BOOLEAN else port.kind


def _read(cell: str, port: Port) -> str:
    return f"{cell} > 0" if port.kind is Kind.BOOLEAN else cell


def free_name(wanted: str, taken: set[str]) -> str:
    """A name that is free; it is taken from now on."""
    while "__" in wanted:
        wanted = wanted.replace("__", "_")
    name, count = wanted, 1
    while name in taken:
        count += 1
        name = f"{wanted}_{count}"
    taken.add(name)
    return name


# ----------------------------------------------------------------------------------------------------
# Equations with an input that chooses the solver.


def choice_from(given: object, solver: Solver, equations: Equations) -> Choice:
    """A choice from its shorthand: itself, or ``{"by": "n", "others": ["euler", …]}``."""
    if isinstance(given, Choice):
        made = given
    elif isinstance(given, Mapping) and set(given) == {"by", "others"}:
        made = Choice(str(given["by"]), plain_solvers(map(solver_from, _listed(given["others"]))))
    else:
        raise ModelError(f'a choice is such as {{ by = "n", others = ["euler"] }}, not {given!r}')
    plain_solvers((solver, *made.others))
    if not made.others:
        raise ModelError("a choice needs at least one solver besides the unit's own")
    ports = {port.name: port for port in equations.inputs}
    port = ports.get(made.by)
    if port is None or port.kind is not Kind.INTEGER or port.size is not None:
        raise ModelError(f"'{made.by}' chooses the solver, so it must be an input and a single integer")
    return made


def _listed(given: object) -> Sequence[Any]:
    if not isinstance(given, (list, tuple)):
        raise ModelError(f"others of a choice is a list of solvers, not {given!r}")
    return given


def with_choice(spec: Mapping[str, Any], others: Sequence[Plain]) -> tuple[dict[str, Any], Choice]:
    """The table of a model, `spec`, with an input that chooses between its solver and these."""
    taken = {name for key in spec for name in (spec[key] if isinstance(spec[key], Mapping) else ())}
    made = Choice(free_name("solver", taken), tuple(others))
    inputs = {**spec.get("inputs", {}), made.by: {"kind": "integer"}}
    return {**spec, "inputs": inputs, "choice": made}, made


def marked_choosing(before: Equations, made: Equations, by: str) -> Equations:
    """The equations of such a table: only a master chooses."""
    known = {port.name: port for port in before.ports}
    inputs = tuple(
        replace(port, internal=True) if port.name == by else known[port.name] for port in made.inputs
    )
    return replace(made, inputs=inputs, outputs=before.outputs, sent=before.sent, heard=before.heard)


# ----------------------------------------------------------------------------------------------------
# Equations that count their own events, and give out their conditions, for a pace that looks ahead.

COUNT = "events_inside"
COUNTS = "count of events"
SETTLING = "settling: "
"""How the description of an event output begins that only events send which follow others at once."""


def with_indicators(
    equations: Equations, spec: Mapping[str, Any], *, conditions: bool = True
) -> tuple[dict[str, Any], dict[str, str]] | None:
    """The table of a model, `spec`, with an output that counts the events that the unit watches for, and
    (with `conditions`) one for each condition of each; and which output belongs to which event, "" for the
    count.

    None if there are no such events, or they are given out already.
    """
    # what masters have made for themselves, and what has nothing to look ahead for
    foreign = {port.name for port in equations.sent if port.internal or port.description.startswith(SETTLING)}
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
        description = f"condition of {event}" if event else COUNTS
        return replace(
            output, port=replace(output.port, internal=True, indicates=event, description=description)
        )

    return replace(equations, outputs=tuple(map(as_made, equations.outputs)))


def _conditions(indicator: Expr) -> Iterator[Expr]:
    """The numbers of which the indicator is the largest: each has a smoother trajectory than all together."""
    match indicator:
        case Apply(op=Op.MAX, args=args):
            for arg in args:
                yield from _conditions(arg)
        case _:
            yield indicator


# ----------------------------------------------------------------------------------------------------
# Equations that stop by themselves where conditions of others come true, and say so.


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


def indicator_of(equations: Equations, name: str) -> Expr | None:
    """What an output is inside, without locals; None if it is none, or looks into a table, which has no
    name outside of these equations."""
    for output in equations.outputs:
        names = cell_names(output.port.name, output.port.size)
        if name in names:
            cell = equations.written_out(output.definition.cells[names.index(name)])
            return None if looks_up(cell) else cell
    return None


def marked_like(before: Equations, made: Equations, stops: Stops) -> Equations:
    """The equations of such a table, whose new ports are for masters only; the old ones are
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
