"""Both ways to make a continuous and a discrete-event unit fit together (thesis, section 3.8).

*Hybrid DE* makes a discrete-event unit of a continuous one, *hybrid CT* the reverse. Either is a nested
scenario: the unit itself, and the converters between signals and events that it needs. Anything
beyond these two is built the same way, from a `Scenario` and `Nested`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from upbeat.core.abilities import Model
from upbeat.core.errors import ModelError, check_type, suggest
from upbeat.core.expr import ONE, Expr, Name, Number, names, parse, substitute
from upbeat.core.names import cell_names, resolve
from upbeat.core.ports import Causality, Kind, Port
from upbeat.engine.nesting.model import Nested
from upbeat.master.master import Master, as_pace
from upbeat.master.paces.pace import Pace
from upbeat.scenario.scenario import Scenario
from upbeat.units.discrete import Discrete, Edge, Emission, LastValue, Mode, Variable
from upbeat.units.shorthand import plain

INSIDE = "unit"
"""What the wrapped unit is called inside."""

Conditions = Mapping[str, str | Mapping[str, str]]
"""What makes an event happen: a condition that becomes true; for an enumeration, one for each label."""


def as_discrete(
    model: Model, pace: Pace | float, *, events: Mapping[str, str] | None = None, sample: Iterable[str] = ()
) -> Nested:
    """A continuous model as a discrete-event one, which moves in the steps of `pace` (a number: of one size).

        as_discrete(room, 0.01, events={"tooHot": "T >= 21", "tooCold": "T <= 19"}, sample=["T"])

    Its inputs become event inputs, and hold what the last event said (before the first one their start
    values). Every entry of `events` becomes an event output: it is sent at the end of a step when the
    condition over the model's outputs has become true. Every output in `sample` becomes an event output with
    its value at the start and after every step of a fixed size.
    """
    if events is not None:
        check_type(events, Mapping, "events")
    check_type(sample, Iterable, "sample")
    outputs = _ports(model, Causality.OUTPUT)
    units: dict[str, Model] = {INSIDE: model}
    connections: dict[str, Any] = {}
    inputs: dict[str, Port] = {}
    sent: dict[str, Any] = {}
    for port in _ports(model, Causality.INPUT).values():
        inputs[port.name] = Port(
            port.name, port.causality, port.kind, port.size, port.unit, items=port.items, event=True
        )
        units[f"held_{port.name}"] = LastValue(
            plain(port, port.initial), of=None if port.items else port.kind.value, items=port.items or None,
            unit=port.unit, size=port.size,
        )  # fmt: skip
        connections[f"held_{port.name}.event"] = port.name
        connections[f"{INSIDE}.{port.name}"] = f"held_{port.name}.value"
    for name, condition in (events or {}).items():
        if name in inputs:
            raise ModelError(f"events['{name}']: the model has an input of that name. Choose another one")
        units[f"edge_{name}"] = Edge()
        connections[f"edge_{name}.signal"] = _inside(condition, outputs, f"events['{name}']")
        sent[name] = f"edge_{name}.rise"
    for name in sample:
        check_type(name, str, "the name of an output in sample")
        if name not in outputs:
            raise ModelError(f"there is no output '{name}' to sample. {suggest(name, outputs, 'outputs')}")
        if name in sent:
            raise ModelError(f"'{name}' is an entry of events, too: the two would be one output. Rename that")
        units[f"sample_{name}"] = _sampler(outputs[name], _step(pace))
        connections[f"sample_{name}.signal"] = f"{INSIDE}.{name}"
        sent[name] = f"sample_{name}.event"
    if not inputs and not sent:
        raise ModelError("a discrete-event unit needs events: give events={…} or sample=[…]")
    scenario = Scenario(units, connections, inputs=list(inputs.values()), outputs=sent)
    return Nested(scenario, Master(as_pace(pace)))


def as_continuous(
    model: Model,
    pace: Pace | float,
    *,
    inputs: Mapping[str, Any],
    events: Conditions,
    hold: Mapping[str, Mapping[str, Any]],
) -> Nested:
    """A discrete-event model as a continuous one, which looks at its inputs in the steps of `pace`.

        as_continuous(
            controller,
            0.01,
            inputs={"T": {"unit": "degC"}},
            events={"tooHot": "T >= 21", "tooCold": "T <= 19"},
            hold={"q": {"event": "switch", "map": {"off": 0.0, "on": 1.0}, "start": 1.0}},
        )

    `inputs` are the signals it gets. An event input of the model gets an event when its condition over these
    becomes true; for an enumeration, `events` has a table with a condition for each label. Every entry
    of `hold` becomes an output: what the last event said, through an event connection (see
    `upbeat.scenario.events.links`; expressions call the model `unit`), and `start` before.
    """
    for what, table in (("events", events), ("hold", hold)):
        check_type(table, Mapping, what)
    heard = _ports(model, Causality.INPUT, event=True)
    said = _ports(model, Causality.OUTPUT, event=True)
    units: dict[str, Model] = {INSIDE: model}
    connections: dict[str, Any] = {}
    for name, given in events.items():
        if name not in heard:
            hint = suggest(name, heard, "event inputs")
            raise ModelError(f"there is no event input '{name}'. {hint}")
        several = given if isinstance(given, Mapping) else {"": given}
        links = []
        for label, condition in several.items():
            edge = f"edge{len(units)}"
            units[edge] = Edge()
            connections[f"{edge}.signal"] = condition
            links.append({"event": f"{edge}.rise", "value": label} if label else f"{edge}.rise")
        connections[f"{INSIDE}.{name}"] = links[0] if len(links) == 1 else links
    outputs: dict[str, Any] = {}
    for name, options in hold.items():
        check_type(options, Mapping, f"hold['{name}']")
        link = dict(options)
        if "event" not in link or link["event"] not in said:
            raise ModelError(
                f"hold['{name}'] needs an event output of the model: "
                f'{{"event": "…", "start": …}}. {suggest(str(link.get("event")), said, "event outputs")}'
            )
        start = link.pop("start", None)
        source = said[link["event"]]
        own = "map" not in link and "value" not in link
        units[f"held_{name}"] = LastValue(
            start, items=source.items or None if own else None, unit=source.unit if own else None,
            of=source.kind.value if own and not source.items else None,
        )  # fmt: skip
        link["event"] = f"{INSIDE}.{link['event']}"
        connections[f"held_{name}.event"] = link
        outputs[name] = f"held_{name}.value"
    return Nested(Scenario(units, connections, inputs=inputs, outputs=outputs), Master(as_pace(pace)))


def _ports(model: Model, causality: Causality, *, event: bool = False) -> dict[str, Port]:
    if not (hasattr(model, "ports") and hasattr(model, "instantiate")):
        raise ModelError(f"{model!r} is not a model")
    return {p.name: p for p in model.ports if p.causality is causality and p.event is event}


def _inside(text: str, outputs: Mapping[str, Port], where: str) -> Expr:
    """A condition over the outputs of the wrapped unit."""
    expr = parse(text)
    for name in sorted(names(expr)):
        port, _ = resolve(name, outputs)
        if port not in outputs:
            raise ModelError(f"{where}: there is no output '{port}'. {suggest(port, outputs, 'outputs')}")
    return substitute(expr, {name: Name(f"{INSIDE}.{name}") for name in names(expr)})


def _sampler(port: Port, step: float) -> Discrete:
    """Sends what a signal is at the start of the run and after every step, at the times of a fixed pace."""
    due = Name("origin") + Name("k") * Number(step)
    cells = tuple(Name(cell) for cell in cell_names("signal", port.size))
    return Discrete(
        ports=(
            Port("signal", Causality.INPUT, port.kind, port.size, port.unit, items=port.items),
            Port("event", Causality.OUTPUT, port.kind, port.size, port.unit, items=port.items, event=True),
        ),
        variables=(Variable("origin", Kind.REAL, 0.0), Variable("k", Kind.INTEGER, 0)),
        modes=(Mode(due, (Emission("event", ONE, cells),), internal=(("k", Name("k") + 1.0),)),),
        initial=(("origin", Name("time")),),
    )


def _step(pace: Pace | float) -> float:
    step = pace if isinstance(pace, (int, float)) else getattr(pace, "step", None)
    if step is None:
        raise ModelError(f"sample needs steps of one size, which {pace} does not make: use events={{…}}")
    return float(step)
