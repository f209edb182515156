"""Flattening: nested scenarios replaced by what is inside them, wherever that means the same.

A nested scenario means the same as its units side by side with the others if both masters are `Jacobi`
couplings of the same options at the same fixed pace. If the inner steps are a whole part of the outer
ones, the units inside become the faster group of a `MultiRate` coupling.

A Gauss-Seidel coupling inside a Jacobi one is an order of its units and a set of inputs that see what went
before; nothing outside sees anything of either during a step. So both stay what they are among all units,
if inputs are held (the course of an input from outside then starts and ends at the same value) and none
mixes what is new inside with what is held from outside.

Discrete-event units that are connected by events alone do nothing between them. As one unit they take turns
with those outside in the place of that unit, and among themselves in their own order: so they can take its
place in the order of the others, whatever couplings and paces there are. Anything else stays nested.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from upbeat.core.abilities import Ability
from upbeat.core.errors import MasterError
from upbeat.core.names import split
from upbeat.core.ports import Causality, Kind, Port
from upbeat.core.time import Span
from upbeat.engine.nesting.model import Nested
from upbeat.master.couplings.coupling import GaussSeidel, Jacobi, Sequence, Sequenced
from upbeat.master.couplings.multirate import MOST, MultiRate
from upbeat.master.couplings.refined import as_jacobi
from upbeat.master.inputs.approximation import Approximation, Hold, Linear, Polynomial
from upbeat.master.master import Master
from upbeat.master.paces.pace import Fixed
from upbeat.master.port_registers import End
from upbeat.master.wiring import Wiring
from upbeat.scenario.merging.inline import inlined, path_of
from upbeat.scenario.merging.inline_events import CannotInline
from upbeat.scenario.scenario import Scenario

WHOLE = 1e-9
"""How far, relatively, a ratio of two steps may be from a whole number."""


@dataclass(frozen=True, slots=True)
class Note:
    """What became of a nested unit."""

    unit: str
    flattened: bool
    why: str

    def __str__(self) -> str:
        return f"{self.unit}: {'flattened' if self.flattened else 'not flattened'}, {self.why}"


class Flat(NamedTuple):
    """A scenario and a master that mean the same as before, and what became of each nested unit."""

    scenario: Scenario
    master: Master
    notes: tuple[Note, ...] = ()


class Kept(Exception):
    """A nested unit stays what it is; says why."""


def flattened(scenario: Scenario, master: Master, span: Span | None = None) -> Flat:
    """The scenario, closed, with the units of nested ones in it, and the master for them.

    Different rates are merged only for a `span` of whole steps: a shorter last step would have as many
    parts as the others in a `MultiRate` coupling, but fewer inside a nested scenario.
    """
    closed = scenario.closed()
    master = master.settled(closed)
    if not any(type(model) is Nested for model in closed.units.values()):
        return Flat(master.arranged(closed), master)
    return _Flattening(closed, master, span).flat()


def kept_nested(scenario: Scenario) -> Scenario:
    """The scenario, in which no nested one, at any depth, wants to be flattened."""
    return scenario.with_units(
        {
            name: replace(model, scenario=kept_nested(model.scenario), flatten=False)
            for name, model in scenario.units.items()
            if type(model) is Nested
        }
    )


class _Flattening:
    def __init__(self, scenario: Scenario, master: Master, span: Span | None) -> None:
        self._scenario = scenario
        self._master = master
        self._span = span
        self._steps: dict[str, float] = {}  # of units that were inside nested ones
        self._rates: dict[str, int] = {}
        self._orders: list[tuple[str, ...]] = []  # of units that go one after the other
        self._reactive: set[End] = set()
        self._ports = dict(master.ports)
        self._turns = master.simultaneous.units(scenario)  # at one instant, in this order
        self._events_merged = False
        self._notes: list[Note] = []

    def flat(self) -> Flat:
        waiting = list(self._scenario.units)
        while waiting:
            unit = waiting.pop(0)
            model = self._scenario.units[unit]
            if type(model) is not Nested:
                continue
            path = path_of(self._scenario, unit)
            try:
                why, new = self._merge(unit, model)
            except (Kept, CannotInline) as reason:
                _check_inside(path, model)
                self._notes.append(Note(path, False, str(reason)))
            else:
                self._notes.append(Note(path, True, why))
                waiting = [*new, *waiting]
        coupling, plain = self._master.coupling, as_jacobi(self._master.coupling)
        if self._rates:
            assert isinstance(plain, Jacobi)
            coupling = MultiRate(self._rates, plain.loops, slower="beside")
        elif self._orders:
            assert isinstance(plain, Jacobi)
            coupling = Sequenced(Sequence(self._order(), frozenset(self._reactive)), plain.loops)
        master = replace(self._master, coupling=coupling, ports=self._ports)
        if self._events_merged:
            turns = tuple(unit for unit in self._turns if unit not in self._scenario.added_units)
            master = replace(master, simultaneous=replace(master.simultaneous, order=turns))
        return Flat(master.arranged(self._scenario), master, tuple(self._notes))

    def _merge(self, unit: str, model: Nested) -> tuple[str, list[str]]:
        """Put the units inside in the place of `unit`; says how."""
        inner = model.master
        if any(Ability.NEXT_EVENT in m.abilities for m in model.whole.units.values()):
            return self._merge_events(unit, model)
        self._check_coupling(unit, model)
        rate, step = self._rate(unit, inner)
        in_turn = isinstance(inner.coupling, GaussSeidel)
        what = "different rates" if rate > 1 else "Gauss-Seidel couplings" if in_turn else ""
        ports = self._approximations(unit, model, held=what)
        sequence = self._sequence(model, rate)
        made, names = inlined(self._scenario, unit, model.whole)
        self._scenario = made
        self._ports = {name: a for name, a in self._ports.items() if split(name)[0] != unit}
        self._ports |= {f"{names[name]}.{port}": chosen for (name, port), chosen in ports.items()}
        total = self._rates.pop(unit, 1) * rate
        for new in names.values():
            self._steps[new] = step
            if total > 1:
                self._rates[new] = total
        units = list(names.values())
        if sequence is not None:
            units = [names[name] for name in sequence.order]
            self._orders.append(tuple(units))
            self._reactive |= {(names[name], port) for name, port in sequence.reactive}
        known = ", ".join(path_of(made, new) for new in units)
        if rate > 1:
            return f"its units make {rate} steps per communication step: {known}", units
        if sequence is not None:
            return f"its units run one after the other, beside the others: {known}", units
        return f"its units run side by side with the others: {known}", units

    def _merge_events(self, unit: str, model: Nested) -> tuple[str, list[str]]:
        """As `_merge`, for discrete-event units."""
        if not model.flatten:
            raise Kept("it was asked to stay nested")
        if model.engine != "auto":
            raise Kept(f"it asks for an engine of its own, {model.engine}")
        if not model.discrete:
            raise Kept(
                "it has discrete-event units and others, which are in step with each other only inside"
            )
        signals = [name for name, port in _inputs(model.whole) if not port.event]
        if signals or any(not port.event for port in model.scenario.inputs):
            raise Kept(
                "signals reach the discrete-event units inside, when its own communication points come"
            )
        if not any(port.event for port in model.ports):
            raise Kept("it has no event ports, so its events are its own")
        inside = model.master.simultaneous.units(model.whole)
        self._scenario, names = inlined(self._scenario, unit, model.whole)
        place = self._turns.index(unit)
        self._turns[place : place + 1] = [names[name] for name in inside]
        self._events_merged = True
        units = list(names.values())
        known = ", ".join(path_of(self._scenario, new) for new in units)
        return f"its units take turns with the others: {known}", units

    def _sequence(self, model: Nested, rate: int) -> Sequence | None:
        """In which order the units inside run and which inputs see what went before, if they do."""
        coupling = model.master.coupling
        if not isinstance(coupling, GaussSeidel):
            return None
        if rate > 1 or self._rates:
            raise Kept("its coupling is GaussSeidel, and rates can be merged only where all are Jacobi")
        closed = model.scenario.closed()
        order, reactive, _ = coupling.sequence(Wiring(closed, Hold(), {}))
        own = set(model.whole.units)
        found: set[End] = set()
        for connection in closed.connections:
            end = (connection.unit, connection.port)
            inside = [source for source, _ in connection.sources if source in own]
            if end not in reactive or not inside:  # held either way, if it comes from outside
                continue
            if len(inside) < len(connection.sources):
                raise Kept(f"'{connection.target}' mixes what is new inside with what is held from outside")
            found.add(end)
        return Sequence(tuple(unit for unit in order if unit in own), frozenset(found))

    def _order(self) -> tuple[str, ...]:
        """All units, those that go one after the other in their order."""
        place = {unit: k for k, unit in enumerate(self._scenario.units)}
        first = {min(order, key=place.__getitem__): order for order in self._orders}
        later = {unit for order in self._orders for unit in order} - first.keys()
        return tuple(
            new for unit in self._scenario.units if unit not in later for new in first.get(unit, (unit,))
        )

    def _check_coupling(self, unit: str, model: Nested) -> None:
        outer, inner = as_jacobi(self._master.coupling), as_jacobi(model.master.coupling)
        if not model.flatten:
            raise Kept("it was asked to stay nested")
        if model.engine != "auto":
            raise Kept(f"it asks for an engine of its own, {model.engine}")
        if any(unit in order for order in self._orders):
            raise Kept("the coupling around it is GaussSeidel, and only Jacobi can be merged into")
        if type(outer) is not Jacobi:
            raise Kept(f"the outer coupling is {type(outer).__name__}, and only Jacobi can be merged into")
        if type(inner) not in (Jacobi, GaussSeidel):
            raise Kept(
                f"its coupling is {type(inner).__name__}, and only Jacobi and GaussSeidel can be merged"
            )
        assert isinstance(inner, Jacobi | GaussSeidel)
        if (outer.outputs, outer.loops) != (inner.outputs, inner.loops):
            raise Kept(f"its coupling {inner} differs from the outer {outer}")
        if outer.outputs == "lagged":
            raise Kept("where outputs are lagged, a level of nesting is one more delay")

    def _rate(self, unit: str, inner: Master) -> tuple[int, float]:
        """How many steps the inside makes while the unit makes one, and how long they are."""
        outer, own = self._master.pace, inner.pace
        if type(outer) is not Fixed or type(own) is not Fixed:
            raise Kept(
                f"the steps are chosen by {own} inside and by {outer} outside: only Fixed can be merged"
            )
        around = self._steps.get(unit, outer.step)
        if own.step == around:
            return 1, own.step
        ratio = around / own.step
        rate = round(ratio)
        if rate < 2 or abs(ratio - rate) > WHOLE * rate:
            raise Kept(f"its step {own.step:g} is no whole part of the step {around:g} around it")
        if rate > MOST:
            raise Kept(
                f"it makes {rate} steps per communication step, and units beside others at most {MOST}"
            )
        if self._orders:
            raise Kept("it has a rate of its own, and another nested scenario a GaussSeidel coupling")
        if self._rates:
            raise Kept(
                "another nested scenario has a rate of its own already, and the two exchange less often"
            )
        if self._span is None or not _whole((self._span.stop - self._span.start) / outer.step):
            raise Kept("it has a rate of its own, and not all communication steps are of the same length")
        return rate, own.step

    def _approximations(self, unit: str, model: Nested, *, held: str) -> dict[tuple[str, str], Approximation]:
        """What the inputs inside do, where it differs from the outer default; `held` wants them held."""
        master, inner = self._master, model.master
        for port in model.scenario.inputs:
            if port.reactive:
                raise Kept(f"its input '{port.name}' is reactive")
            _check_course(self._ports.get(f"{unit}.{port.name}", master.inputs), port.name, held)
        found: dict[tuple[str, str], Approximation] = {}
        for name, port in _inputs(model.whole):
            chosen = inner.ports.get(f"{name}.{port.name}", inner.inputs)
            if port.kind is not Kind.REAL:
                continue
            _check_course(chosen, f"{name}.{port.name}", held)
            if chosen != master.inputs:
                found[name, port.name] = chosen
        return found


def _check_inside(path: str, model: Nested) -> None:
    """What stays nested must fit its own master; said before the run, as for the units around it."""
    try:
        model.check()
    except MasterError as error:
        raise MasterError(f"inside '{path}': {error}") from None


def _inputs(scenario: Scenario) -> list[tuple[str, Port]]:
    ports = [(name, port) for name, model in scenario.units.items() for port in model.ports]
    return [(name, port) for name, port in ports if port.causality is Causality.INPUT]


def _check_course(chosen: Approximation, name: str, held: str) -> None:
    """The inside sees a course at its own communication points: it must start at the latest value."""
    if held and chosen != Hold():
        raise Kept(f"{held} can be merged only where inputs are held, and '{name}' is {chosen}")
    if type(chosen) not in (Hold, Linear, Polynomial):
        raise Kept(f"the approximation {chosen} of '{name}' starts elsewhere than at the latest value")


def _whole(ratio: float) -> bool:
    return abs(ratio - round(ratio)) <= WHOLE * max(ratio, 1.0)
