"""A scenario as a model again: nested in another one, with a master, a rate and an engine of its own.

It lives with the engines because it runs one. From outside it is a unit like any other: its inputs and
outputs are those of the scenario, an input's course reaches the inside as it is and is sampled there
at the inner communication points, and setting it back sets all inner units and registers back.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Any

from upbeat.core.abilities import Ability, Core, doubt, speaks_for_itself
from upbeat.core.errors import InvalidInput, MasterError, ModelError, StepError, UnitError, suggest
from upbeat.core.packed import Reader
from upbeat.core.ports import Causality, Port, Signal, Value
from upbeat.core.time import Onwards
from upbeat.engine import native
from upbeat.engine.choose import EngineName, choose
from upbeat.engine.inside import Inside
from upbeat.engine.interpret import Interpreter
from upbeat.engine.loop import Loop
from upbeat.engine.machine import Machine
from upbeat.engine.packing import fingerprint
from upbeat.engine.selection import Selection
from upbeat.master.error_control import ErrorControl, onwards
from upbeat.master.interruptible import Interruptible
from upbeat.master.master import Master
from upbeat.master.negotiated import Negotiated
from upbeat.master.pace import Pace, twin
from upbeat.master.program import Program
from upbeat.scenario.directory import INPUTS
from upbeat.scenario.scenario import Scenario

if TYPE_CHECKING:
    from upbeat.engine.flatten import Flat


@dataclass(frozen=True)
class Nested:
    """A model whose units are runs of `scenario` under `master`.

    Its inputs and outputs are the scenario's own, except inputs that its coupling finds from constraints; an
    output depends directly on those inputs that reach it at the same instant inside. Any depth of nesting
    works. It can be set back, and its state be turned into bytes, if all inner units allow it. If
    all inner units are native and the inner pace is, too, the whole of it runs in the native core. If its
    coupling is `Negotiated` or `Interruptible` and a unit inside may stop early, it may, too. Unless
    `flatten` is off, its units take its place where that means the same (see `upbeat.engine.flatten`).
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
        if not self.scenario.outputs and not self._has_events:
            raise MasterError(
                'a nested scenario needs outputs of its own: Scenario(…, outputs={"y": "unit.port"})'
            )
        onwards(self.master.pace)  # may refuse, and that is said here rather than in the run
        if self._has_events:
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
        if isinstance(pace, ErrorControl) and not self.discrete and None in (pace.first, pace.least):
            raise MasterError(
                "the next step of a nested scenario with events must be known outside before it is made, and "
                "this ErrorControl takes its first and its shortest step from the length of the run. "
                "Give both: ErrorControl(…, first=1e-3, least=1e-9)."
            )

    @property
    def _has_events(self) -> bool:
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
        return self._has_events or self.discrete

    @cached_property
    def _flat(self) -> Flat:
        from upbeat.engine.flatten import flattened  # which knows what a nested scenario is

        return flattened(self.scenario, self.master)

    @cached_property
    def _built(self) -> tuple[Program, Pace]:
        program, pace = self._flat.master.build(self._flat.scenario, driven=self._has_events)
        return program, onwards(pace)

    def check(self) -> None:
        """Build what runs inside: a master that does not fit is said here, before anything runs."""
        self._built  # noqa: B018

    @cached_property
    def ports(self) -> tuple[Port, ...]:
        outputs = [
            replace(output.port, causality=Causality.OUTPUT, depends=self._direct(output.sources))
            for output in self.scenario.outputs
        ]
        events = (replace(output.port, causality=Causality.OUTPUT) for output in self.scenario.event_outputs)
        return (*self._open, *outputs, *events)

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
        return set() if self._has_events else {u for u in units if Ability.NEXT_EVENT in units[u].abilities}

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
        if self._has_events or any(Ability.NEXT_EVENT in own for own in inside):
            found |= {Ability.NEXT_EVENT}
        running = self._flat.scenario.units.values()  # to which the coupling may have added something
        stops = any(Ability.EARLY_RETURN in model.abilities for model in running)
        if stops and isinstance(self.master.coupling, (Negotiated, Interruptible)):
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
        """What the native core runs, if all of it is native and the pace has a twin there."""
        flat, ports = self._flat, self.ports
        if self._has_events:  # the core has no calls for them
            return None
        if not speaks_for_itself(type(self)) or choose(self.engine, flat.scenario.units).name != "native":
            return None
        if any(Ability.NATIVE not in model.abilities for model in flat.scenario.units.values()):
            return None
        if any(port.event for port in ports):  # an event of the nest is no cell of its program
            return None
        program, pace = self._built
        known = twin(pace)
        paths = flat.scenario.origin.paths if flat.scenario.origin is not None else {}
        free = flat.scenario.free_inputs
        return known and Inside(program, known, flat.scenario.units, ports, free, paths)

    def enter(self, core: Core, name: str, start: float) -> object:
        """The unit inside the native core, with its loop and all."""
        assert self._inside is not None
        return core.nested(self._inside, start)

    @property
    def remembers(self) -> tuple[str, ...]:
        """All that a state inside is made of, in short."""
        return (fingerprint(self._built[0], self._flat.scenario.units).hex(),)

    def instantiate(self, name: str, start: float) -> NestedUnit:
        from upbeat.engine.nested_events import EventNestedUnit  # which is one of these

        return (EventNestedUnit if self._has_events else NestedUnit)(self, name, start)

    def with_values(self, values: Mapping[str, Value | Sequence[Value]]) -> Nested:
        """Other values inside: ``{"motor.k": 2.0}``, or start values of the scenario's inputs."""
        return replace(self, scenario=self.scenario.with_values(values))


class NestedUnit:
    """One run of a nested scenario, driven by whoever runs the outer one."""

    instants = True
    """Whether what happens inside at an instant happens by itself."""

    def __init__(self, model: Nested, name: str, start: float) -> None:
        closed, (program, pace) = model._flat.scenario, model._built
        self._model = model
        self._name = name
        self._program = program
        self._paths = closed.origin.paths if closed.origin is not None else {}
        self._free = {name: end for name, end in closed.free_inputs.items() if name not in model.unknowns}
        kind = native.Machine if choose(model.engine, closed.units).name == "native" else Interpreter
        self._machine: Machine = self._within(kind, program, closed.units, start)
        span, nothing = Onwards(start), Selection((), ())
        self._loop = Loop(self._machine, program, pace, span, nothing, None, instants=self.instants)
        self._stale = False
        try:
            self._within(self._loop.begin)
        except BaseException:
            self.close()  # nobody else knows of the units inside yet
            raise

    def get(self, port: str) -> Signal | None:
        self._refresh()
        shown = self._program.columns[port]
        values = self._machine.row(tuple(range(shown.register, shown.register + shown.cells)))
        return values[0] if shown.cells == 1 else tuple(values)

    def set(self, port: str, coefficients: Sequence[Signal]) -> None:
        if port not in self._free:
            raise InvalidInput(f"there is no input '{port}'. {suggest(port, self._free, 'inputs')}")
        unit, inner = self._free[port]
        self._within(self._machine.set_input, unit, inner.name, *coefficients)
        self._stale = True

    def advance(self, t: float, to: float, early: bool) -> float:
        self._refresh()
        self._loop.limit = to
        while not self._loop.finished:
            self._within(self._loop.step)
            if early and self._loop.short:
                break
        return self._loop.time

    def _refresh(self) -> None:
        """After `set`, exchange again at the present time, so that everybody inside sees the new course."""
        if self._stale:
            self._within(self._loop.exchange)
            self._stale = False

    def due(self) -> float:
        """When something inside will happen by itself, as far as that is known: the outside stops there."""
        self._refresh()
        return inf if self._program.due is None else float(self._machine.read(self._program.due))

    def jump(self) -> bool:
        return False

    def save(self) -> Any:
        return self._machine.save(), self._loop.standing(), self._stale

    def restore(self, token: Any) -> None:
        machine, standing, self._stale = token
        self._machine.restore(machine)
        self._loop.stand(standing)

    def to_bytes(self, token: Any) -> bytes:
        """Time, whether inputs have changed, what the pace remembers; then the machine inside."""
        machine, (time, state), stale = token
        return struct.pack(f"<dQQ{len(state)}d", time, stale, len(state), *state) + self._machine.pack(
            machine
        )

    def from_bytes(self, data: bytes) -> Any:
        """The token that `to_bytes` was given, in another process or by another engine perhaps."""
        reader = Reader(data)
        try:
            (time,) = struct.unpack("<d", reader.take(8))
            stale, count = reader.word(), reader.word()
            state = struct.unpack(f"<{count}d", reader.take(8 * count))
            if count != len(self._loop.standing()[1]):
                raise ValueError("its pace remembers something else")
        except (ValueError, struct.error) as error:
            raise ModelError(f"not a state of this nested scenario: {error}") from None
        return self._machine.unpack(reader.rest()), (time, state), bool(stale)

    def close(self) -> None:
        self._machine.close()

    def _within(self, call: Any, *arguments: Any) -> Any:
        """An error inside names the whole way to the unit that failed."""
        try:
            return call(*arguments)
        except UnitError as error:
            way = f"{self._name}.{self._paths.get(error.unit, error.unit)}"
            raise UnitError(error.reason, unit=way, call=error.call, time=error.time) from error.__cause__
        except StepError as error:
            raise StepError(f"inside '{self._name}': {error}") from error.__cause__
