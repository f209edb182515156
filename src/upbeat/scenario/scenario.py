"""The scenario: models, the connections between them, and inputs and outputs of its own. Frozen."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from upbeat.core.abilities import Model, why_fixed
from upbeat.core.display import Displayed
from upbeat.core.errors import InvalidInput, Problems, check_type, suggest
from upbeat.core.expr import Expr, Name
from upbeat.core.names import split
from upbeat.core.ports import Causality, Kind, Port, Values
from upbeat.core.records import dataclass
from upbeat.scenario.assemble import Parts, Sections, assemble, check_measures, with_values
from upbeat.scenario.connection import Connection, ScenarioOutput
from upbeat.scenario.directory import CONDITIONS, EVENTS, INPUTS, Directory, End, by_hand
from upbeat.scenario.events.functions import computes_conditions
from upbeat.scenario.events.links import EventConnection, EventOutput, Sender
from upbeat.scenario.events.watcher import linked, observed_events, watchers
from upbeat.scenario.graph import Graph
from upbeat.scenario.signals import as_signals
from upbeat.units.equations.arranging import free_name, indicator_of
from upbeat.units.equations.ode import Ode, equations_of
from upbeat.units.process import bare, placed_like

if TYPE_CHECKING:
    from upbeat.properties.robustness import Property, Robustness
    from upbeat.scenario.events.declared import Event
    from upbeat.scenario.signals import Signals
    from upbeat.scenario.structures import Stage, Structure
    from upbeat.trace.trace import Trace
    from upbeat.units.solving.solvers import Solver


Value = str | float | Expr | Mapping[str, Any]
"""What an input can be connected to; a list of them gives each cell of an array its own.

An event input also takes a table, and a list of which the first one that is present counts."""


_DERIVED = {
    "graph", "ports", "kept", "_closed", "added_units", "_event_names", "_opened_by_hand",
    "_constants", "eventful", "only_equations",
}  # fmt: skip
"""What is computed from the rest when it is first needed."""


class Scenario(Displayed):
    """Coupled models.

        Scenario(
            units={"left": Ode(…), "right": Ode(…)},
            connections={"left.F": "right.F + 0.5*push", "right.x": "left.x"},
            inputs={"push": {"unit": "N", "start": 0.0}},
            outputs={"gap": "right.x - left.x"},
            parameters={"left.m": 2.0},
            events={"touch": {"when": "right.x <= left.x", "then": {"left.v": "right.v"}}},
            properties={"apart": "always(left.x <= right.x)"},
            structures={"free": {}, "stuck": {"units": ["left"]}},
        )

    The left side of a connection is an input, the right side an expression over outputs and the scenario's
    own inputs (see `upbeat.scenario.connection` for what fits where, and `upbeat.scenario.events.links` for
    event inputs). Events are conditions between units, and what they change (see
    `upbeat.scenario.events.declared`), and properties what results should be like (see
    `upbeat.scenario.properties`). `structures` say which units are there at a time, and what leads from
    one to the next (see `upbeat.scenario.structures`). An input without a connection keeps its start value.
    All problems are found before a `ScenarioError` is raised. Units keep their order: where the graph leaves
    a choice, the unit that was declared first goes first.
    """

    units: dict[str, Model]
    connections: tuple[Connection, ...]
    inputs: tuple[Port, ...]
    outputs: tuple[ScenarioOutput, ...]
    event_connections: tuple[EventConnection, ...]
    """Those of event inputs; `connections` are the others, and likewise for outputs."""
    event_outputs: tuple[EventOutput, ...]
    events: tuple[Event, ...]
    """Those between units, which the scenario itself watches for."""
    properties: tuple[Property, ...]
    """What its results should be like."""
    monitored: tuple[Property, ...]
    """Of one that is `watching`: the properties that its master watches, over hidden outputs."""
    structures: tuple[Structure, ...]
    """Which of its units are there at a time; empty: all of them, always."""
    stage: Stage | None
    """Of one structure of another scenario: what ends it."""
    name: str
    opened_inputs: tuple[Port, ...]
    origin: Origin | None
    """Of a monolith: what it was merged from."""

    def __init__(
        self,
        units: Mapping[str, Model],
        connections: Mapping[str, Value | list[Value]] | Iterable[tuple[str, Value | list[Value]]] = (),
        *,
        inputs: Mapping[str, Any] | Sequence[str | Port] = (),
        outputs: Mapping[str, Any] | None = None,
        parameters: Mapping[str, Any] | None = None,
        events: Mapping[str, Any] | None = None,
        properties: Mapping[str, Any] | None = None,
        structures: Mapping[str, Any] | None = None,
        name: str = "",
    ) -> None:
        problems = Problems()
        outputs, parameters = (given if given is not None else {} for given in (outputs, parameters))
        parts = assemble(
            Sections(units, connections, inputs, outputs, parameters, events, properties, structures),
            problems,
        )
        problems.raise_if_any(name)
        self._fill(parts, name)

    @classmethod
    def from_parts(
        cls, parts: Parts, name: str = "", opened: tuple[Port, ...] = (), origin: Origin | None = None
    ) -> Scenario:
        """A scenario from parts that have been checked; for file readers and tools."""
        scenario = cls.__new__(cls)
        scenario._fill(parts, name, opened, origin)
        return scenario

    def _fill(
        self, parts: Parts, name: str, opened: tuple[Port, ...] = (), origin: Origin | None = None
    ) -> None:
        self.__dict__.update(
            units=parts.units,
            connections=parts.connections,
            inputs=parts.inputs,
            outputs=parts.outputs,
            event_connections=parts.event_connections,
            event_outputs=parts.event_outputs,
            events=parts.events,
            properties=parts.properties,
            monitored=parts.monitored,
            structures=parts.structures,
            stage=parts.stage,
            name=name,
            opened_inputs=opened,
            origin=origin,
        )

    # ---------------------------------------------------------------- looking

    @cached_property
    def graph(self) -> Graph:
        """Which port depends on which at one instant."""
        return Graph(self.units, self.connections)

    @cached_property
    def only_equations(self) -> bool:
        """Whether all units are plain equations, which are what they say: nothing is to be asked of files,
        processes, rates of their own or scenarios inside them."""
        return all(equations_of(model) is not None for model in self.units.values())

    @cached_property
    def eventful(self) -> bool:
        """Whether something may happen at an instant: not if all units are equations without events."""
        equations = map(equations_of, self.units.values())
        return bool(self.events) or any(one is None or one.events for one in equations)

    @cached_property
    def ports(self) -> dict[str, Port]:
        """Every port by name: ``unit.port``, and the scenario's own inputs and outputs by theirs."""
        own = {port.name: port for port in (*self.inputs, *(o.port for o in self.all_outputs))}
        return own | {f"{u}.{port.name}": port for u, model in self.units.items() for port in model.ports}

    @property
    def all_connections(self) -> tuple[Connection | EventConnection, ...]:
        """Those of signals, then those of events."""
        return self.parts.all_connections

    @property
    def all_outputs(self) -> tuple[ScenarioOutput | EventOutput, ...]:
        """The signals, then the events."""
        return self.parts.all_outputs

    def port(self, name: str) -> Port:
        """The port ``unit.port``, or the scenario input or output `name`."""
        if name not in self.ports:
            raise InvalidInput(f"there is no port '{name}'. {suggest(name, self.ports, 'ports')}")
        return self.ports[name]

    @cached_property
    def added_units(self) -> tuple[str, ...]:
        """Units that nobody has written: what `closed` and `driven` add, and what has internal ports only."""
        computed = computes_conditions(self.units.get(CONDITIONS))
        own = (INPUTS, EVENTS, *((CONDITIONS,) if computed else ()))
        named = tuple(unit for unit in own if unit in self.units)
        unseen = (
            unit for unit, m in self.units.items() if m.ports and all(port.internal for port in m.ports)
        )
        return *named, *(unit for unit in unseen if unit not in named)

    @property
    def free_inputs(self) -> dict[str, tuple[str, Port]]:
        """The inputs that nothing drives, with the unit and port that they are: these can be set by hand.

        A scenario input has its own name here, even though the port behind it has another.
        """
        driven = {(c.unit, c.port) for c in self.all_connections}
        return {
            self.column(unit, port.name): (unit, port)
            for unit, model in self.units.items()
            for port in model.ports
            if port.causality is Causality.INPUT and not port.internal and (unit, port.name) not in driven
        }

    @property
    def parameters(self) -> dict[str, tuple[str, Port]]:
        """The parameters of all units by the names that people know, with the unit and port that they are."""
        return {
            self._path(unit, port.name): (unit, port)
            for unit, model in self.units.items()
            for port in model.ports
            if port.causality is Causality.PARAMETER and not port.internal
        }

    def why_fixed(self, unit: str, parameter: str) -> str | None:
        """Why a parameter of a unit stays what it is during a run; None if it can change."""
        return self.why_written(unit, parameter) or why_fixed(self.units[unit], parameter)

    def why_written(self, unit: str, parameter: str) -> str | None:
        """Why the value of a parameter stands somewhere else, too, than in its unit; None if it does not."""
        name = self._path(unit, parameter)
        if self.origin is not None and name in self.origin.fixed:
            return self.origin.fixed[name]
        event = self._constants.get(name)
        if event is None:
            return None
        shown = f'outputs = {{ {parameter}_now = "{parameter}" }}'
        return (
            f"the event '{event}' reads it as it is before the run. Give it out ({shown}), and "
            f"let the event read {unit}.{parameter}_now"
        )

    @cached_property
    def _constants(self) -> dict[str, str]:
        """The parameters that events read as they are before the run, and an event that does."""
        from upbeat.scenario.events.watcher import watchers

        found = {f"{unit}.{port}": event.name for event in self.events for unit, port in event.reads}
        if self.stage is not None:
            found |= {f"{unit}.{port}": reader for (unit, port), reader in self.stage.reads}
        for unit, watcher in watchers(self.units).items():  # in a nested scenario it was nest.events
            inside = self._path(unit, "").removesuffix(f"{EVENTS}.")
            found |= {f"{inside}{read}": event for read, event in watcher.constants}
        return found

    def _path(self, unit: str, port: str) -> str:
        if self.origin is None:
            return f"{unit}.{port}"
        return self.origin.columns.get((unit, port), f"{self.origin.paths.get(unit, unit)}.{port}")

    def column(self, unit: str, port: str) -> str:
        """What a trace calls a port: ``unit.port``; scenario inputs and events keep their bare names.

        The ports of a monolith are called what they were called before the units were merged.
        """
        if self.origin is not None and (unit, port) in self.origin.columns:
            return self.origin.columns[unit, port]
        if unit == EVENTS and port in self._event_names:
            return port
        if unit != INPUTS:
            return f"{unit}.{port}"
        return self._opened_by_hand.get(port, port)

    @cached_property
    def _event_names(self) -> frozenset[str]:
        return frozenset(event.name for event in getattr(self.units.get(EVENTS), "events", ()))

    @cached_property
    def _opened_by_hand(self) -> dict[str, str]:
        return {by_hand(port.name): port.name for port in self.opened_inputs}

    def check_measures(self) -> None:
        """Raise a `ScenarioError` if a port has a unit of measure that does not exist."""
        problems = Problems()
        check_measures(self.parts, problems)
        problems.raise_if_any(self.name)

    # ---------------------------------------------------------------- changing

    def with_values(self, values: Mapping[str, Any]) -> Scenario:
        """The same scenario with other parameters and start values: ``{"left.m": 3, "push": 0.5}``."""
        check_type(values, Mapping, "values")
        for name in values:
            check_type(name, str, "the name of a value")
        problems = Problems()
        parts = with_values(self.parts, values, problems)
        problems.raise_if_any(self.name)
        return self._with(parts)

    def with_units(self, units: Mapping[str, Model]) -> Scenario:
        """The same scenario with other models, of the same ports, for some units; for tools."""
        return self.with_parts(units={**self.units, **units}) if units else self

    def with_parts(self, **parts: Any) -> Scenario:
        """The same scenario with other, already checked parts (see `Parts`); for masters and tools."""
        return self._with(replace(self.parts, **parts))

    def _with(self, parts: Parts) -> Scenario:
        return Scenario.from_parts(parts, self.name, self.opened_inputs, self.origin)

    @property
    def settable(self) -> tuple[Port, ...]:
        """What signals may set besides the scenario's own inputs, by the names that people know: parameters,
        and inputs of strings that nothing drives."""
        return tuple(replace(port, name=name) for name, (_, port) in self._settable.items())

    @property
    def _settable(self) -> dict[str, tuple[str, Port]]:
        free = self.free_inputs.items()
        texts = {name: end for name, end in free if end[1].kind is Kind.STRING and not end[1].event}
        return {**texts, **self.parameters}

    def changes(self, signals: Signals, start: float) -> dict[str, list[tuple[float, Values]]]:
        """What is to be set during a run from `start` on; one that has a value at the start begins with it.

        A parameter that cannot change is refused.
        """
        found: dict[str, list[tuple[float, Values]]] = {}
        for name, (unit, port) in self._settable.items():
            changes = signals.changes(replace(port, name=name))
            if not changes:
                continue
            if port.causality is Causality.PARAMETER and (why := self.why_fixed(unit, port.name)) is not None:
                raise InvalidInput(
                    f"there is a signal for the parameter '{name}', which cannot change during a run: {why}. "
                    f"Leave out the column, and give the value before the run (--set {name}=…)"
                )
            before = max(sum(t <= start for t, _ in changes) - 1, 0)
            found[name] = [(min(changes[before][0], start), changes[before][1]), *changes[before + 1 :]]
        return found

    def driven(
        self, signals: Signals | Mapping[str, Any] | None = None, start: float = -math.inf
    ) -> Scenario:
        """The scenario without inputs of its own: the unit ``inputs``, added in front, drives them.

        Nor has it events of its own: the unit ``events`` watches for them.

        Inputs that `signals` does not mention stay at their start value and can be set during a run. Those
        of parameters count as they are at the `start`; what they are later is for a run to set (`changes`).
        """
        if signals and (changes := self.changes(as_signals(signals), start)):
            settable, units = self._settable, dict(self.units)
            for name, ((_, cells), *_) in changes.items():
                unit, port = settable[name]
                units[unit] = units[unit].with_values({port.name: cells[0] if port.size is None else cells})
            ports = [port for port in self.settable if port.name in changes]
            return self.with_units(units).driven(as_signals(signals).without(ports))
        if self.events:
            return self.watched().driven(signals)
        if not self.inputs and not signals:
            return self
        from upbeat.scenario.inputs_unit import with_inputs_unit

        return Scenario.from_parts(with_inputs_unit(self.parts, signals or {}), self.name, self.inputs)

    def watched(self) -> Scenario:
        """The scenario with its events as a unit of their own: ``events``, added in front."""
        if not self.events:
            return self
        from upbeat.scenario.events.watcher import with_watcher

        return self._with(with_watcher(self.parts))

    def watching(self) -> Scenario:
        """The scenario as it runs, with what is needed to watch those of its properties that say so, and to
        know what it leaves to the structure after it."""
        if self.stage is not None:
            from upbeat.scenario.structures import told

            if missing := told(self.parts):
                return self.with_parts(outputs=(*self.outputs, *missing)).watching()
        if not any(one.online for one in self.properties) or self.monitored:
            return self
        from upbeat.scenario.properties import closed_properties, with_monitored

        return self._with(with_monitored(self.parts, closed_properties(self)))

    def structure(self, name: str) -> Scenario:
        """One of its structures as a scenario of its own, which ends at the events that lead to others."""
        from upbeat.scenario.structures import structure_of

        return structure_of(self, name)

    def judged(self, trace: Trace) -> dict[str, Robustness]:
        """By how much a trace of it has each of its properties."""
        if not self.properties:
            return {}
        from upbeat.scenario.properties import judged

        return judged(self, trace)

    def unwatched(self) -> Scenario:
        """The scenario whose properties are judged when a run is over, and not before."""
        return self.with_parts(properties=tuple(replace(one, online="") for one in self.properties))

    def closed(self) -> Scenario:
        """The scenario with its inputs left to be set by hand; what masters make programs from."""
        self._check_whole()
        return self if not self.inputs and not self.events else self._closed

    def _check_whole(self) -> None:
        """Refuse to be looked at as a scenario of one structure."""
        if self.structures:
            known = ", ".join(f"'{one.name}'" for one in self.structures)
            raise InvalidInput(
                f"this scenario has several structures ({known}), and only one of them can be looked at "
                f"here: choose it by --structure {self.structures[0].name}, in Python "
                f'experiment.structures["{self.structures[0].name}"]'
            )

    @cached_property
    def _closed(self) -> Scenario:
        return self.driven()

    @cached_property
    def kept(self) -> dict[str, Any]:
        """What others have found out about this scenario and may need again; not a part of it."""
        return {}

    def monolith(self, solver: Solver | str | Mapping[str, Any] | None = None) -> Scenario:
        """The scenario with all units merged into one: no coupling, hence no error of coupling.

        Its trace has the names of this one's, so that the two can be compared. All units must be `Ode` or
        `Function`; their solvers give way to `solver`, DormandPrince(rtol=1e-10, atol=1e-12) unless given.
        Where signals drive the scenario's inputs, write ``scenario.driven(signals).monolith()``.
        """
        from upbeat.scenario.merging.monolith import monolith

        self._check_whole()
        return monolith(self, solver)

    # ---------------------------------------------------------------- being a value

    @property
    def parts(self) -> Parts:
        """All that it consists of; for masters and tools."""
        return Parts(
            self.units,
            self.connections,
            self.inputs,
            self.outputs,
            self.event_connections,
            self.event_outputs,
            self.events,
            self.properties,
            self.monitored,
            self.structures,
            self.stage,
        )

    def _key(self) -> tuple[Any, ...]:
        # as a list: the order of units is part of a scenario, because it settles ties
        return (
            list(self.units.items()), self.connections, self.event_connections, self.inputs, self.outputs,
            self.event_outputs, self.events, self.properties, self.monitored, self.structures, self.stage,
            self.name, self.origin,
        )  # fmt: skip

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scenario) and self._key() == other._key()

    __hash__ = None  # type: ignore[assignment]  # models need not be hashable

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(
            f"a scenario is frozen; make another one (with_values, Scenario(…)) to change {name}"
        )

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a scenario is frozen: {name} cannot be deleted")

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key not in _DERIVED}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __repr__(self) -> str:
        name = f"{self.name!r}, " if self.name else ""
        return f"Scenario({name}units={list(self.units)}, connections={len(self.all_connections)})"


# ----------------------------------------------------------------------------------------------------
# Where a scenario that was made from another one comes from: merged into a monolith, or flattened.


@dataclass(frozen=True, slots=True)
class Origin:
    """What people know a made scenario by: its units before, and what a trace calls its ports.

    A monolith says in `notes` what became of loops. Where nested scenarios were flattened, `shown` are the
    columns that a trace has (is it an output?) in their order; the scenario's own outputs are called
    ``columns["", name]``, and units that were inside others ``paths[name]``. `fixed` says of parameters of a
    monolith that cannot change during a run why.
    """

    units: tuple[str, ...]
    columns: dict[End, str]
    notes: tuple[str, ...] = ()
    shown: dict[str, bool] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)
    fixed: dict[str, str] = field(default_factory=dict)


# ----------------------------------------------------------------------------------------------------
# Units that stop at the events of the scenario by themselves, and inform the watchers.
#
# A unit that may *lead* gets, for each event that it has a part in, an event of its own with the same
# conditions. What it cannot know by itself comes in as inputs, which are approximated as all inputs are.
# Where the unit stops, it says which event it has located, and that one happens: in all units, from one
# snapshot, as if its watcher had seen it.

Place = tuple[str, str]
"""Of an event: the unit that watches for it, and its name there."""


@dataclass
class _Unit:
    """What a unit is to watch for, in the names of the scenario's outputs."""

    model: Ode
    events: dict[Place, tuple[Expr, ...]] = field(default_factory=dict)
    own: dict[str, Expr] = field(default_factory=dict)
    foreign: dict[str, Port] = field(default_factory=dict)
    sources: dict[str, End] = field(default_factory=dict)


def with_stops(closed: Scenario, may_lead: Callable[[str], bool]) -> Scenario:
    """The closed scenario, in which units that `may_lead` stop at the events they have a part in."""
    looking = watchers(closed.units)
    if not looking or any(watcher.heard for watcher in looking.values()):
        return closed  # there is nothing to see, or all this has been done
    units = _watching(closed, may_lead)
    models: dict[str, Model] = {}
    connections: list[Connection] = []
    senders: dict[Place, list[Sender]] = {}
    for unit, wanted in units.items():
        taken: set[str] = set()
        labels = {place: free_name(place[1], taken) for place in wanted.events}
        conditions = {labels[place]: zs for place, zs in wanted.events.items()}
        made, stops = wanted.model.stopping(conditions, wanted.own, wanted.foreign)
        given: Any = closed.units[unit]
        models[unit] = placed_like(given, made)
        for name, port in stops.seen.items():
            connections.append(Connection(unit, port, (Name(name),), (wanted.sources[name],), name))
        for place, label in labels.items():
            port = stops.located[label]
            sender = Sender((unit, port), None, (Name(f"{unit}.{port}"),))
            senders.setdefault(place, []).append(sender)
    links: list[EventConnection] = []
    for unit, watcher in looking.items():
        models[unit] = changed = linked(watcher, [event for owner, event in senders if owner == unit])
        for event, port in changed.links:
            links.append(EventConnection(unit, port, tuple(senders[unit, event]), f"{unit}.{event}"))
    return closed.with_parts(
        units={**closed.units, **models},
        connections=(*closed.connections, *connections),
        event_connections=(*closed.event_connections, *links),
    )


def _watching(closed: Scenario, may_lead: Callable[[str], bool]) -> dict[str, _Unit]:
    found: dict[str, _Unit] = {}
    directory = Directory(closed.units, ())
    driven = _copies(closed)
    for observed in observed_events(closed):
        read = observed.reads
        for unit in sorted({split(each)[0] for each in read}, key=list(closed.units).index):
            model: Any = bare(closed.units[unit])
            equations = equations_of(model)
            if equations is None or not equations.states or not may_lead(unit):
                continue
            own = {each: indicator_of(equations, split(each)[1]) for each in read if split(each)[0] == unit}
            if any(cell is None for cell in own.values()):
                continue
            wanted = found.setdefault(unit, _Unit(model))
            wanted.events[observed.place] = observed.conditions
            wanted.own |= {each: cell for each, cell in own.items() if cell is not None}
            for each in read:
                if each in own:
                    continue
                if (unit, each) in driven:  # it has an input for it
                    wanted.own[each] = Name(driven[unit, each])
                else:
                    source = directory.source(each)
                    wanted.foreign[each], wanted.sources[each] = source.port, source.end
    return found


def _copies(closed: Scenario) -> dict[tuple[str, str], str]:
    """The real inputs that are just an output of another unit, by unit and the name of that output."""
    found: dict[tuple[str, str], str] = {}
    for connection in closed.connections:
        model = bare(closed.units[connection.unit])
        cell, *others = connection.cells
        equations = equations_of(model)
        if equations and equations.states and not others and isinstance(cell, Name):
            port = next(port for port in model.ports if port.name == connection.port)
            if port.kind is Kind.REAL and port.size is None:
                found.setdefault((connection.unit, cell.id), port.name)
    return found


def located(closed: Scenario) -> dict[Place, tuple[End, ...]]:
    """The event outputs by which units say that they have located an event."""
    ports = {(c.unit, c.port): c.senders for c in closed.event_connections}
    return {
        (unit, event): tuple(sender.source for sender in ports[unit, port])
        for unit, watcher in watchers(closed.units).items()
        for event, port in watcher.links
    }
