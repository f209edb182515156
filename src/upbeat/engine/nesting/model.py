"""A scenario as a model again: nested in another one, with a master, a rate and an engine of its own.

It lives with the engines because it runs one. From outside it is a model like any other: its inputs and
outputs are those of the scenario. What runs is in `upbeat.engine.nesting.unit`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property, reduce
from math import inf
from operator import add
from typing import TYPE_CHECKING, Any, Self

from upbeat.adapt.adaptation import Adaptation
from upbeat.adapt.blocks import Adapting
from upbeat.core.abilities import Ability, Core, Model, doubt, speaks_for_itself
from upbeat.core.errors import MasterError, ModelError, ScenarioError, check_type, suggest
from upbeat.core.expr import ONE, ZERO, Expr, Name, Number, names, parse, show, substitute
from upbeat.core.names import cell_names, objection_to_port, resolve, split
from upbeat.core.ports import EVENTS, Causality, Kind, Port, Signal, Value
from upbeat.core.records import dataclass
from upbeat.engine.choose import EngineName, choose
from upbeat.engine.native.entry import Inside
from upbeat.engine.nesting.unit import MakesMachine, NestedUnit, Running
from upbeat.engine.packing import fingerprint
from upbeat.master.couplings.coupling import ends_early
from upbeat.master.events.conditions import with_indicators
from upbeat.master.master import Master, as_pace
from upbeat.master.paces.pace import EventDriven, Pace, needs_span, nominal_step, open_ended
from upbeat.master.program import Program
from upbeat.scenario.assemble import Parts
from upbeat.scenario.connection import Connection, ScenarioOutput
from upbeat.scenario.directory import INPUTS
from upbeat.scenario.scenario import Scenario
from upbeat.units.discrete import Discrete, Edge, Emission, LastValue, Mode, Variable
from upbeat.units.shorthand import plain

if TYPE_CHECKING:
    from upbeat.adapt.library import Given
    from upbeat.engine.nesting.flatten import Flat

# ----------------------------------------------------------------------------------------------------
# A nested scenario with event ports: as a whole it is one discrete-event unit.
#
# What happens inside at an instant is left to what drives it from outside: `due` says when, `get` what
# will be sent, and each `jump` is one micro-step inside. Where something inside moves on its own, the next
# inner communication point is due, too: an event that shows up there is seen outside at that very time.


class EventNestedUnit(NestedUnit):
    """One run of a nested scenario that sends or receives events."""

    instants = False

    def get(self, port: str) -> Signal | None:
        if port not in self._program.events:
            return super().get(port)
        self._ask()
        sent = self._program.events[port]
        *values, present = self._machine.row(tuple(range(sent.register, sent.register + sent.cells + 1)))
        if not present:
            return None
        return values[0] if sent.cells == 1 else tuple(values)

    def due(self) -> float:
        """When a unit inside has something to do, or the next communication point inside comes."""
        event = self._ask()
        return event if self._inside.discrete else min(event, self._loop.ahead())

    def jump(self) -> bool:
        """One micro-step inside."""
        self._refresh()
        self._within(self._machine.execute, "micro")
        self._machine.fired.clear()
        return self._ask() <= self._loop.time

    def _ask(self) -> float:
        """Look what the next micro-step will send, and return its time."""
        self._refresh()
        self._within(self._machine.execute, "send")
        due = self._program.due
        return inf if due is None else float(self._machine.read(due))


# ----------------------------------------------------------------------------------------------------


def nested_of(model: object) -> Nested | None:
    """The scenario that a model is, with its master; None if it is something else."""
    return model if isinstance(model, Nested) else None


def kind_name(model: object) -> str:
    """What people call the kind of a unit."""
    nested = nested_of(model)
    if nested is None:
        return type(model).__name__
    return "scenario" if nested.adaptation is None else f"adaptation, {nested.adaptation.kind}"


@dataclass(frozen=True)
class Nested:
    """A model whose units are runs of `scenario` under `master`.

    Its inputs and outputs are the scenario's own, except inputs that its coupling finds from constraints; an
    output depends directly on those inputs that reach it at the same instant inside. Any depth of nesting
    works. It can be set back, and its state be turned into bytes, if all inner units allow it. If
    all inner units are native and the inner pace is, too, the whole of it runs in the native core. If its
    coupling is `Negotiated` or `Interruptible` and a unit inside may stop early, it may, too. Unless
    `flatten` is off, its units take its place where that means the same (see
    `upbeat.engine.nesting.flatten`).
    """

    scenario: Scenario
    master: Master
    engine: EngineName = "auto"
    flatten: bool = True
    adapts: tuple[Model, Given] | None = field(default=None, init=False, compare=False, repr=False)
    """For files: the model and the adaptation that it was made of (see `upbeat.engine.nesting.adapted`)."""
    table: Mapping[str, Any] | None = field(default=None, init=False, compare=False, repr=False)
    """For files: what a `.sa` unit was read from (`upbeat.engine.formats.sa`), with models for its units."""
    remade: bool = field(default=False, init=False, compare=False, repr=False)
    """Whether it must be made of these again if the model gets other values."""

    def __post_init__(self) -> None:
        if not isinstance(self.scenario, Scenario):
            raise MasterError(
                f"the first argument of Nested is a Scenario, not {self.scenario!r}. "
                "Write up.Scenario(units={…}, connections={…}, outputs={…})."
            )
        if not isinstance(self.master, Master):
            raise MasterError(
                f"the second argument of Nested is a Master, not {self.master!r}. "
                "Write up.Master(up.Fixed(0.01))."
            )
        if self.engine == "compiled":
            raise MasterError(
                'a nested scenario is printed with the one around it: leave out its engine="compiled", and '
                "give it to the experiment (--engine compiled)."
            )
        if not self.scenario.outputs and not self.has_events:
            raise MasterError(
                'a nested scenario needs outputs of its own: Scenario(…, outputs={"y": "unit.port"})'
            )
        open_ended(self.master.pace)  # may refuse, and that is said here rather than in the run
        if self.has_events:
            self._check_events()

    def _check_events(self) -> None:
        """What a scenario that behaves as one discrete-event unit cannot do."""
        for output in self.scenario.event_outputs:
            for sender in output.senders:
                if sender.source[0] == INPUTS:
                    raise MasterError(
                        f"the event output '{output.port.name}' passes the event input '{sender.source[1]}' "
                        "straight on: as one unit, a nested scenario sends only what a unit inside sends. "
                        "Connect its receivers to where the event comes from."
                    )
        advice = needs_span(self.master.pace)
        if advice is not None and not self.discrete:
            raise MasterError(
                "the next step of a nested scenario with events must be known outside before it is made, and "
                f"this {type(self.master.pace).__name__} takes its first and its shortest step from the "
                f"length of the run. {advice}"
            )

    @property
    def has_events(self) -> bool:
        """Whether it sends or receives events, and so is a discrete-event unit as a whole."""
        return bool(self.scenario.event_outputs) or any(port.event for port in self.scenario.inputs)

    @cached_property
    def whole(self) -> Scenario:
        """What runs inside: the scenario with its events as a unit."""
        return self.scenario.watched()

    @property
    def discrete(self) -> bool:
        """Whether nothing inside moves on its own between events. An adaptation has times of its own."""
        return self.adaptation is None and all(
            model.discrete if isinstance(model, Nested) else Ability.NEXT_EVENT in model.abilities
            for model in self.whole.units.values()
        )

    @property
    def announced(self) -> bool:
        """Whether everything that is to be seen outside happens at times that are known before."""
        return self.has_events or self.discrete

    @property
    def inner_step(self) -> float | None:
        """The usual step inside, the shortest if there are several; None if there is none, or if an
        adaptation says what is seen of them."""
        if self.adaptation is not None:
            return None
        within = (getattr(model, "inner_step", None) for model in self.whole.units.values())
        return min((step for step in (nominal_step(self.master.pace), *within) if step), default=None)

    @cached_property
    def flat(self) -> Flat:
        """What runs inside, after what can be merged there was merged."""
        from upbeat.engine.nesting.flatten import flattened  # which knows what a nested scenario is

        return flattened(self.scenario, self.master)

    @cached_property
    def _settled(self) -> Master:
        return self.flat.master.settled(self.flat.scenario)

    @cached_property
    def _built(self) -> tuple[Program, Pace]:
        master = replace(self._settled, pace=open_ended(self._settled.pace))
        return master.written(self.flat.scenario, driven=self.has_events, inside=True)

    def check(self) -> None:
        """Build what runs inside: a master that does not fit is said here, before anything runs."""
        self._built  # noqa: B018

    @cached_property
    def ports(self) -> tuple[Port, ...]:
        outputs = [
            replace(
                output.port,
                causality=Causality.OUTPUT,
                depends=frozenset() if output.port.counts else self._direct(output.sources),
            )
            for output in self.scenario.outputs
        ]
        events = (replace(output.port, causality=Causality.OUTPUT) for output in self.scenario.event_outputs)
        shown = (*self._open, *outputs, *events)
        taken = {port.name for port in shown}
        parameters = (
            replace(port, name=name)
            for unit, model in self.scenario.units.items()
            for port in model.ports
            if port.causality is Causality.PARAMETER and not port.internal
            if (name := f"{unit}.{port.name}") not in taken and not objection_to_port(name)
        )
        return (*shown, *parameters, *self._own_parameters)

    @property
    def adaptation(self) -> Adaptation | None:
        """What it was made of, if it is an adapted unit."""
        coupling = self.master.coupling
        return coupling.adaptation if isinstance(coupling, Adapting) else None

    @property
    def begins_with(self) -> Mapping[str, frozenset[str]]:
        """If its start state follows from its inputs at the start time, as Init says: the inputs that its
        outputs follow at that time. Empty if it does not."""
        return {} if self.adaptation is None else self.adaptation.begins_with

    @cached_property
    def connected(self) -> Scenario | None:
        """The unit inside an adaptation that is mere arithmetic, with that in its connections; None if it is
        anything else."""
        found = None if self.adaptation is None else self.adaptation.mapping
        if found is None or self.adaptation is None:
            return None
        ((unit, model),) = self.scenario.units.items()
        if any(port.size == 1 for port in (*self.ports, *model.ports)):  # whose cell has two names
            return None
        own = {cell: (INPUTS, port.name) for port in self.scenario.inputs for cell in _cells_of(port, "")}
        own |= {cell: (unit, port.name) for port in model.ports for cell in _cells_of(port, f"{unit}.")}

        def made(port: Port, prefix: str, of: Mapping[str, Expr]) -> tuple[tuple[Expr, ...], tuple[Any, ...]]:
            cells = tuple(of[cell] for cell in _cells_of(port, prefix))
            ends = {own[name]: None for cell in cells for name in sorted(names(cell))}
            return cells, tuple(ends)

        connections = [
            Connection(unit, port.name, *made(port, f"{unit}.", found.inputs), "what MapIn gives")
            for port in model.ports
            if port.causality is Causality.INPUT and _cells_of(port, f"{unit}.")[0] in found.inputs
        ]
        outputs = [
            ScenarioOutput(port, *made(port, "", found.outputs), "what Out shows")
            for port in self.adaptation.ports
            if port.causality is Causality.OUTPUT
        ]
        parts = Parts({unit: model}, tuple(connections), self.scenario.inputs, tuple(outputs))
        return Scenario.from_parts(parts, self.scenario.name)

    @property
    def no_equations(self) -> str:
        """Why what happens inside cannot be written as equations; empty if it can."""
        if self.adaptation is None or self.connected is not None:
            return ""
        return f"'{self.adaptation.name}' is an adaptation that does more than arithmetic between ports"

    @property
    def _own_parameters(self) -> tuple[Port, ...]:
        return () if self.adaptation is None else self.adaptation.parameters

    def fixed(self, parameter: str) -> str | None:
        """What the unit inside says of its parameter."""
        if any(port.name == parameter for port in self._own_parameters):
            return "it is written into the program of the adaptation"
        unit, name = split(parameter)
        return self.scenario.why_fixed(unit, name)

    @property
    def unknowns(self) -> tuple[str, ...]:
        """The inputs that the coupling inside finds by itself: from outside there are none of these."""
        return self.master.unknowns

    @property
    def _open(self) -> tuple[Port, ...]:
        """The scenario's inputs that may be driven from outside."""
        return tuple(port for port in self.scenario.inputs if port.name not in self.unknowns)

    def _direct(self, sources: Sequence[tuple[str, str]]) -> frozenset[str]:
        """The scenario inputs that reach these outputs of inner units at the same instant."""
        ports = {(unit, p.name): p for unit, model in self.whole.units.items() for p in model.ports}
        links = {(c.unit, c.port): c.sources for c in self.whole.connections}
        own = {port.name for port in self._open}
        seen: set[tuple[str, str]] = set()
        found: set[str] = set()
        waiting = list(sources)
        while waiting:
            unit, port = end = waiting.pop()
            if end in seen:
                continue
            seen.add(end)
            if end not in ports:
                found |= {port} & own
                continue
            for name in ports[end].depends:
                waiting += links.get((unit, name), ())
            if unit in self._reacting:
                waiting += self._seen_by_events
        return frozenset(found)

    @property
    def _reacting(self) -> set[str]:
        """Units that may answer at once to what reaches them: instants happen inside by themselves."""
        units = self.whole.units
        if self.has_events or self.adaptation is not None:
            return set()
        return {u for u in units if Ability.NEXT_EVENT in units[u].abilities}

    @property
    def _seen_by_events(self) -> list[tuple[str, str]]:
        """Where all signals come from that such units see, or that events carry between them."""
        links = [c.sources for c in self.whole.connections if c.unit in self._reacting]
        links += [sender.reads for c in self.whole.event_connections for sender in c.senders]
        return [end for ends in links for end in ends]

    @cached_property
    def abilities(self) -> frozenset[Ability]:
        inside = [model.abilities for model in self.whole.units.values()]
        found = {a for a in (Ability.ROLLBACK, Ability.SERIALISE) if all(a in own for own in inside)}
        if self._inside is not None:
            found |= {Ability.NATIVE}
        if self.has_events or (self.adaptation is None and any(Ability.NEXT_EVENT in own for own in inside)):
            found |= {Ability.NEXT_EVENT}
        running = self.flat.scenario.units.values()  # to which the coupling may have added something
        stops = any(Ability.EARLY_RETURN in model.abilities for model in running)
        coupled = self.flat.master.coupled
        if (stops and ends_early(coupled)) or getattr(coupled, "shortens", False):
            found |= {Ability.EARLY_RETURN}
        return frozenset(found)

    def verify(self, ability: Ability) -> str | None:
        """A nest can be set back as far as everything in it can."""
        if ability not in (Ability.ROLLBACK, Ability.SERIALISE):
            return None
        found = ((unit, doubt(model, ability)) for unit, model in self.whole.units.items())
        return next((f"its unit '{unit}': {finding}" for unit, finding in found if finding), None)

    @cached_property
    def _inside(self) -> Inside | None:
        """What the native core runs, if all of it is native and no pace is written in Python."""
        flat, ports = self.flat, self.ports
        if self.has_events:  # the core has no calls for them
            return None
        if not speaks_for_itself(type(self)) or choose(self.engine, flat.scenario.units).name != "native":
            return None
        if any(Ability.NATIVE not in model.abilities for model in flat.scenario.units.values()):
            return None
        if any(port.event for port in ports):  # an event of the nest is no cell of its program
            return None
        program, _ = self._built
        if program.pace is None or program.pace.calls:
            return None
        paths = flat.scenario.origin.paths if flat.scenario.origin is not None else {}
        given = {**flat.scenario.parameters, **flat.scenario.free_inputs}
        return Inside(program, flat.scenario.units, ports, given, paths)

    def enter(self, core: Core, name: str, start: float) -> object:
        """The unit inside the native core, with its loop and all."""
        assert self._inside is not None
        return core.nested(self._inside, start)

    @property
    def remembers(self) -> tuple[str, ...]:
        """All that a state inside is made of, in short."""
        return (fingerprint(self._built[0], self.flat.scenario.units).hex(),)

    @property
    def running(self) -> Running:
        """What runs inside, and how."""
        program, pace = self._built
        warnings = self._settled.warnings
        return Running(self.flat.scenario, program, pace, self.engine, self.unknowns, self.discrete, warnings)

    def instantiate(self, name: str, start: float, machine: MakesMachine | None = None) -> NestedUnit:
        """A unit, on another `machine` than that of its engine if what it does is to be observed."""
        return (EventNestedUnit if self.has_events else NestedUnit)(self.running, name, start, machine)

    def indicating(self, *, conditions: bool = True) -> Nested:
        """The same scenario with an output that counts the events in it, if there are any: those inside its
        units, and its own instants; and (with `conditions`) outputs for what leads to them, as far as units
        inside tell of it, and for the conditions of its own events on their outputs."""
        known = {port.name for port in self.ports}
        if any(port.indicates for port in self.ports) or (EVENTS.name in known and not conditions):
            return self
        inside = with_indicators(self.scenario, conditions=conditions)
        ends = [(u, p) for u, m in inside.units.items() for p in m.ports if p.causality is Causality.OUTPUT]
        counting = [f"{unit}.{port.name}" for unit, port in ends if port.counts]
        found: list[tuple[Port, Expr]] = []
        if counting or any(Ability.NEXT_EVENT in model.abilities for model in self.whole.units.values()):
            found.append((EVENTS, reduce(add, map(Name, counting), ZERO)))
        for unit, port in ends:
            if port.indicates:
                name = f"{unit}.{port.name}"
                found.append((_condition(name, f"{unit}.{port.indicates}"), Name(name)))
        signals = {f"{unit}.{port.name}": (unit, port.name) for unit, port in ends if port.size is None}
        for event in self.scenario.events if conditions else ():
            if all(names(z) <= signals.keys() for z in event.conditions):
                conditions_of = enumerate(event.conditions)
                found += [(_condition(f"{event.name}({k})", event.name), z) for k, z in conditions_of]
        made = [
            ScenarioOutput(port, (z,), tuple(signals[name] for name in sorted(names(z))), show(z))
            for port, z in found
            if port.name not in known
        ]
        return replace(self, scenario=inside.with_parts(outputs=(*inside.outputs, *made))) if made else self

    def with_values(self, values: Mapping[str, Value | Sequence[Value]]) -> Nested:
        """Other values inside: ``{"motor.k": 2.0}``, or start values of the scenario's inputs."""
        if (again := self._made_again(values)) is not None:
            return again
        adapts = self._adapts_with(values)
        coupling = self.master.coupling
        if not isinstance(coupling, Adapting):
            return replace(self, scenario=self.scenario.with_values(values)).made_of(adapts)
        # The units are those of the scenario, which may have been placed in processes since it was made.
        changed = replace(coupling.adaptation, units=self.scenario.units).with_values(values)
        starts = {port.name: port.start for port in changed.ports}
        inputs = tuple(replace(port, start=starts[port.name]) for port in self.scenario.inputs)
        scenario = self.scenario.with_parts(units=dict(changed.units), inputs=inputs)
        master = replace(self.master, coupling=replace(coupling, adaptation=changed))
        made = replace(self, scenario=scenario, master=master).made_of(adapts)
        return made if self.table is None else made.read_from(self._table_with(values))

    def made_of(self, adapts: tuple[Model, Given] | None, *, derived: bool = False) -> Self:
        """The same, for files: the model and the adaptation that it was made of; `derived`, if more of it
        than the model depends on the values of that."""
        made = replace(self)
        object.__setattr__(made, "adapts", adapts)
        object.__setattr__(made, "remade", derived)
        return made

    def read_from(self, table: Mapping[str, Any] | None) -> Self:
        """The same, for files: what it was read from."""
        object.__setattr__(self, "table", table)
        return self

    def _table_with(self, values: Mapping[str, Value | Sequence[Value]]) -> Mapping[str, Any] | None:
        """`table` with other values; None where it is not known whose they are."""
        assert self.table is not None
        units, parameters = dict(self.table["units"]), dict(self.table["parameters"])
        own = {port.name for port in self._own_parameters}
        for key, value in values.items():
            unit, rest = split(key)
            if key in own:
                parameters[key] = value
            elif unit in units:
                units[unit] = units[unit].with_values({rest: value})
            elif len(units) == 1 and unit not in self.scenario.units:
                units = {one: model.with_values({key: value}) for one, model in units.items()}
            else:
                return None
        return {**self.table, "units": units, "parameters": parameters}

    @cached_property
    def remade_inside(self) -> bool:
        """Whether other values of a unit inside change more than that unit."""
        if self.remade or getattr(self, "derived", False):
            return True
        return any(getattr(model, "remade_inside", False) for model in self.scenario.units.values())

    def _made_again(self, values: Mapping[str, Value | Sequence[Value]]) -> Nested | None:
        """The adaptation around the model with these values; None if nothing else changes with them."""
        if not self.remade:
            return None
        from upbeat.engine.nesting.adapted import adapted as made_of  # which knows this module

        adapts = self._adapts_with(values)
        if adapts is None:
            assert self.adapts is not None
            self.adapts[0].with_values(values)  # says what is wrong
            raise ModelError(f"'{next(iter(values))}' is no value of the unit inside that can be changed")
        program = self.adaptation is not None
        engine, flatten = (self.engine, self.flatten) if program else ("auto", True)
        made = made_of(*adapts, engine=engine, flatten=flatten)
        assert isinstance(made, Nested)
        return made

    def _adapts_with(self, values: Mapping[str, Value | Sequence[Value]]) -> tuple[Model, Given] | None:
        """`adapts` with other values; None where these are no values of the model that was adapted."""
        if self.adapts is None:
            return None
        model, given = self.adapts
        for key, value in values.items():
            unit, name = split(key)
            for short in (key, name) if unit in self.scenario.units else (key,):
                try:
                    model = model.with_values({short: value})
                    break
                except (ModelError, ScenarioError):
                    continue
            else:
                return None
        return model, given


def _cells_of(port: Port, prefix: str) -> tuple[str, ...]:
    return cell_names(f"{prefix}{port.name}", port.size)


def adapted(adaptation: Adaptation, *, engine: EngineName = "auto", flatten: bool = True) -> Nested:
    """The adapted unit, as a model: its units are programs that do what the adaptation says."""
    inputs, outputs = [], []
    for port in adaptation.ports:
        if port.causality is Causality.INPUT:
            known = port.reactive if adaptation.reactive is None else adaptation.reactive
            inputs.append(replace(port, reactive=known))
        elif port.causality is Causality.OUTPUT:
            follows = tuple((INPUTS, name) for name in sorted(adaptation.direct[port.name]))
            cells = tuple(Number(float(value)) for value in port.initial)
            outputs.append(ScenarioOutput(port, cells, follows, "what Out shows"))
    parts = Parts(dict(adaptation.units), (), tuple(inputs), tuple(outputs))
    scenario = Scenario.from_parts(parts, adaptation.name)
    return Nested(scenario, Master(EventDriven(), Adapting(adaptation)), engine, flatten)


def _condition(name: str, event: str) -> Port:
    return Port(name, Causality.OUTPUT, internal=True, indicates=event)


# ----------------------------------------------------------------------------------------------------
# Both ways to make a continuous and a discrete-event unit fit together.
#
# *Hybrid DE* makes a discrete-event unit of a continuous one, *hybrid CT* the reverse. Either is a nested
# scenario: the unit itself, and the converters between signals and events that it needs. Anything
# beyond these two is built the same way, from a `Scenario` and `Nested`.

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
