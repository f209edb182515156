"""A scenario as a model again: nested in another one, with a master, a rate and an engine of its own.

It lives with the engines because it runs one. From outside it is a model like any other: its inputs and
outputs are those of the scenario. What runs is in `upbeat.engine.nesting.unit`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import add
from typing import TYPE_CHECKING

from upbeat.core.abilities import Ability, Core, doubt, speaks_for_itself
from upbeat.core.errors import MasterError
from upbeat.core.expr import ZERO, Expr, Name, names, show
from upbeat.core.names import objection_to_port, split
from upbeat.core.ports import EVENTS, Causality, Port, Value
from upbeat.engine.choose import EngineName, choose
from upbeat.engine.inside import Inside
from upbeat.engine.nesting.events import EventNestedUnit
from upbeat.engine.nesting.unit import MakesMachine, NestedUnit, Running
from upbeat.engine.packing import fingerprint
from upbeat.master.couplings.interruptible import Interruptible
from upbeat.master.couplings.negotiated import Negotiated
from upbeat.master.events.inside import with_indicators
from upbeat.master.master import Master
from upbeat.master.paces.error_control import ErrorControl
from upbeat.master.paces.onwards import onwards
from upbeat.master.paces.pace import Pace, usual_step
from upbeat.master.program import Program
from upbeat.scenario.connection import ScenarioOutput
from upbeat.scenario.directory import INPUTS
from upbeat.scenario.scenario import Scenario

if TYPE_CHECKING:
    from upbeat.engine.nesting.flatten import Flat


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
        if not self.scenario.outputs and not self.has_events:
            raise MasterError(
                'a nested scenario needs outputs of its own: Scenario(…, outputs={"y": "unit.port"})'
            )
        onwards(self.master.pace)  # may refuse, and that is said here rather than in the run
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
                        "Connect whoever is to get it to where the event comes from."
                    )
        pace = self.master.pace
        if isinstance(pace, ErrorControl) and not self.discrete and None in (pace.first, pace.shortest):
            raise MasterError(
                "the next step of a nested scenario with events must be known outside before it is made, and "
                "this ErrorControl takes its first and its shortest step from the length of the run. "
                "Give both: ErrorControl(…, first=1e-3, shortest=1e-9)."
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
        """Whether nothing inside moves on its own between events."""
        return all(
            model.discrete if isinstance(model, Nested) else Ability.NEXT_EVENT in model.abilities
            for model in self.whole.units.values()
        )

    @property
    def announced(self) -> bool:
        """Whether everything that is to be seen outside happens at times that are known before."""
        return self.has_events or self.discrete

    @property
    def inner_step(self) -> float | None:
        """The usual step inside, the shortest if there are several; None if there is none."""
        within = (getattr(model, "inner_step", None) for model in self.whole.units.values())
        return min((step for step in (usual_step(self.master.pace), *within) if step), default=None)

    @cached_property
    def _flat(self) -> Flat:
        from upbeat.engine.nesting.flatten import flattened  # which knows what a nested scenario is

        return flattened(self.scenario, self.master)

    @cached_property
    def _built(self) -> tuple[Program, Pace]:
        master, scenario = self._flat.master.settled(self._flat.scenario), self._flat.scenario
        master = replace(master, pace=onwards(master.pace))
        return master.written(scenario, driven=self.has_events, inside=True)

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
        return (*shown, *parameters)

    def fixed(self, parameter: str) -> str | None:
        """What the unit inside says of its parameter."""
        unit, name = split(parameter)
        return self.scenario.why_fixed(unit, name)

    @property
    def unknowns(self) -> tuple[str, ...]:
        """The inputs that the coupling inside finds by itself: from outside there are none of these."""
        return self.master.unknowns

    @property
    def _open(self) -> tuple[Port, ...]:
        """The scenario's inputs that somebody outside may drive."""
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
        return set() if self.has_events else {u for u in units if Ability.NEXT_EVENT in units[u].abilities}

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
        if self.has_events or any(Ability.NEXT_EVENT in own for own in inside):
            found |= {Ability.NEXT_EVENT}
        running = self._flat.scenario.units.values()  # to which the coupling may have added something
        stops = any(Ability.EARLY_RETURN in model.abilities for model in running)
        if stops and isinstance(self._flat.master.coupled, (Negotiated, Interruptible)):
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
        flat, ports = self._flat, self.ports
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
        return (fingerprint(self._built[0], self._flat.scenario.units).hex(),)

    @property
    def running(self) -> Running:
        """What runs inside, and how."""
        program, pace = self._built
        return Running(self._flat.scenario, program, pace, self.engine, self.unknowns, self.discrete)

    def instantiate(self, name: str, start: float, machine: MakesMachine | None = None) -> NestedUnit:
        """A unit, on another `machine` than that of its engine if somebody wants to look at what it does."""
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
        return replace(self, scenario=self.scenario.with_values(values))


def _condition(name: str, event: str) -> Port:
    return Port(name, Causality.OUTPUT, internal=True, indicates=event)
