"""Flattening: nested scenarios replaced by what is inside them, wherever that means the same.

A nested scenario means the same as its units side by side with the others if both masters are `Jacobi`
couplings of the same options at the same fixed pace. If the inner steps are a whole part of the outer
ones, the units inside become the faster group of a `MultiRate` coupling.

A Gauss-Seidel coupling inside a Jacobi one is an order of its units and a set of inputs that see what went
before; nothing outside sees anything of either during a step. So both stay what they are among all units,
if inputs are held (the trajectory of an input from outside then starts and ends at the same value) and none
mixes what is new inside with what is held from outside.

Discrete-event units that are connected by events alone do nothing between them. As one unit they take turns
with those outside in the place of that unit, and among themselves in their own order: so they can take its
place in the order of the others, whatever couplings and paces there are. Anything else stays nested.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from upbeat.adapt.blocks import Adapting
from upbeat.core.abilities import Ability, Model
from upbeat.core.errors import MasterError
from upbeat.core.expr import Expr, Name, substitute
from upbeat.core.names import split
from upbeat.core.ports import Causality, Kind, Port
from upbeat.core.records import dataclass
from upbeat.core.time import Span
from upbeat.engine.nesting.adapted import Adapted, formulas_of, mentions
from upbeat.engine.nesting.model import Nested
from upbeat.master.couplings.coupling import (
    Coupling,
    NamesUnits,
    Sequenced,
    Sequential,
    UnitSequence,
)
from upbeat.master.couplings.multirate import MAX_RATE, MultiRate
from upbeat.master.couplings.refined import as_jacobi
from upbeat.master.inputs.approximation import Approximation, Hold, starts_at_value
from upbeat.master.master import Master
from upbeat.master.paces.pace import Pace, equal_steps
from upbeat.master.port_registers import End
from upbeat.master.wiring import Wiring
from upbeat.scenario.assemble import Parts
from upbeat.scenario.directory import INPUTS
from upbeat.scenario.graph import unit_order
from upbeat.scenario.merging.inline import CannotInline, ScenarioEditor, inline, path_of, unique_name
from upbeat.scenario.scenario import Origin, Scenario

# ----------------------------------------------------------------------------------------------------
# When a nested scenario means the same as its units in parallel with the others; `flatten` says what follows.

WHOLE = 1e-9
"""How far, relatively, a ratio of two steps may be from a whole number."""


class Kept(Exception):
    """A nested unit stays what it is; says why."""


def _check_wish(model: Nested) -> None:
    if not model.flatten:
        raise Kept("it was asked to stay nested")
    if model.engine != "auto":
        raise Kept(f"it asks for an engine of its own, {model.engine}")


def check_coupling(around: Coupling, model: Nested, *, in_turn: bool) -> None:
    """Both couplings must be alike; `in_turn`: the units around it already go one after the other."""
    outer, inner = as_jacobi(around), as_jacobi(model.master.coupled)
    _check_wish(model)
    if in_turn:
        raise Kept("the coupling around it is GaussSeidel, and only Jacobi can be merged into")
    if not isinstance(outer, Sequential) or outer.in_turn:
        raise Kept(f"the outer coupling is {type(outer).__name__}, and only Jacobi can be merged into")
    if not isinstance(inner, Sequential):
        raise Kept(f"its coupling is {type(inner).__name__}, and only Jacobi and GaussSeidel can be merged")
    if (outer.outputs, outer.loops) != (inner.outputs, inner.loops):
        raise Kept(f"its coupling {inner} differs from the outer {outer}")
    if outer.outputs == "lagged":
        raise Kept("where outputs are lagged, a level of nesting is one more delay")


def check_discrete(model: Nested) -> None:
    """Discrete-event units must be connected by events alone."""
    _check_wish(model)
    if not model.discrete:
        raise Kept("it has discrete-event units and others, which are in step with each other only inside")
    signals = [name for name, port in _inputs(model.whole) if not port.event]
    if signals or any(not port.event for port in model.scenario.inputs):
        raise Kept("signals reach the discrete-event units inside, when its own communication points come")
    if not any(port.event for port in model.ports):
        raise Kept("it has no event ports, so its events are its own")


def _rate_of(outer: Pace, own: Pace, step: float | None) -> tuple[int, float]:
    """How many steps the inside makes in one around it, which is of length `step` if not the outer one."""
    outside, inside = equal_steps(outer), equal_steps(own)
    if outside is None or inside is None:
        raise Kept(f"the steps are chosen by {own} inside and by {outer} outside: only Fixed can be merged")
    around = outside if step is None else step
    if inside == around:
        return 1, inside
    ratio = around / inside
    whole = round(ratio)
    if whole < 2 or abs(ratio - whole) > WHOLE * whole:
        raise Kept(f"its step {inside:g} is no whole part of the step {around:g} around it")
    if whole > MAX_RATE:
        raise Kept(
            f"it makes {whole} steps per communication step, and units in parallel with others at "
            f"most {MAX_RATE}"
        )
    return whole, inside


def is_whole(span: Span | None, pace: Pace) -> bool:
    """Whether all steps of a run are equally long, as far as that is known."""
    step = equal_steps(pace)
    if span is None or step is None:
        return False
    ratio = (span.stop - span.start) / step
    return abs(ratio - round(ratio)) <= WHOLE * max(ratio, 1.0)


def _sequence_of(model: Nested) -> UnitSequence | None:
    """In which order the units inside run and which inputs see what went before, if they do."""
    coupling = model.master.coupled
    if not isinstance(coupling, Sequential) or not coupling.in_turn:
        return None
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
    return UnitSequence(tuple(unit for unit in order if unit in own), frozenset(found))


def approximations(
    master: Master, given: Mapping[str, Approximation], model: Nested, *, held: str
) -> dict[End, Approximation]:
    """What the inputs inside do, where it differs from the outer default; `held` wants them held.

    `given` is what the inputs of the nested unit do outside.
    """
    inner = model.master
    for port in model.scenario.inputs:
        if port.reactive:
            raise Kept(f"its input '{port.name}' is reactive")
        _check_trajectory(given.get(port.name, master.approximated), port.name, held)
    found: dict[End, Approximation] = {}
    for name, port in _inputs(model.whole):
        chosen = inner.ports.get(f"{name}.{port.name}", inner.approximated)
        if port.kind is not Kind.REAL:
            continue
        _check_trajectory(chosen, f"{name}.{port.name}", held)
        if chosen != master.approximated:
            found[name, port.name] = chosen
    return found


def _inputs(scenario: Scenario) -> list[tuple[str, Port]]:
    ports = [(name, port) for name, model in scenario.units.items() for port in model.ports]
    return [(name, port) for name, port in ports if port.causality is Causality.INPUT]


def _check_trajectory(chosen: Approximation, name: str, held: str) -> None:
    """The inside sees a trajectory at its own communication points: it must start at the latest value."""
    if held and chosen != Hold():
        raise Kept(f"{held} can be merged only where inputs are held, and '{name}' is {chosen}")
    if not starts_at_value(chosen):
        raise Kept(f"the approximation {chosen} of '{name}' starts elsewhere than at the latest value")


# ----------------------------------------------------------------------------------------------------


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


def flattened(scenario: Scenario, master: Master, span: Span | None = None) -> Flat:
    """The scenario, closed, with the units of nested ones in it, and the master for them.

    Different rates are merged only for a `span` of whole steps: a shorter last step would have as many
    parts as the others in a `MultiRate` coupling, but fewer inside a nested scenario.
    """
    closed = scenario.closed()
    if not any(type(model) in (Nested, Adapted) for model in closed.units.values()):
        master = master.settled(closed)
        return Flat(master.arranged(closed), master)
    if isinstance(around := master.coupled, Adapting):
        return _stacked(closed, master.settled(closed), around)
    return _Flattening(closed, master, span).flat()


def _stacked(closed: Scenario, master: Master, around: Adapting) -> Flat:
    """Adapted units inside an adapted one: their functions are written where that one steps them."""
    units: dict[str, Model] = {}
    places: dict[str, str | Adapting] = {}
    paths: dict[str, str] = {}
    notes: list[Note] = []
    moved: dict[str, Expr] = {}
    sources: dict[End, list[End]] = {}
    for unit, given in closed.units.items():
        model = formulas_of(given) or given if type(given) is Adapted else given
        if type(model) is not Nested:
            units[unit] = model
            continue
        try:
            _check_wish(model)
            if model.adaptation is None:
                raise Kept("the coupling around it is an adaptation, which steps it as a whole")
            if Ability.NEXT_EVENT in model.abilities:
                raise Kept("it has discrete-event units inside, which take their turns there")
        except Kept as reason:
            _check_inside(unit, model)
            notes.append(Note(unit, False, str(reason)))
            units[unit] = model
            continue
        flat = model.flat
        called: dict[str, str] = {}
        for name, inner in flat.scenario.units.items():
            if name in flat.scenario.added_units:
                continue
            new = unique_name(f"{unit}_{name}", set(), {**closed.units, **units})
            units[new] = inner
            called[name] = new
            paths[new] = f"{unit}.{path_of(flat.scenario, name)}"
        assert isinstance(flat.master.coupled, Adapting)
        places[unit] = flat.master.coupled.renamed(called)
        for output in flat.scenario.outputs:  # those that were added, to count events and the like
            ends = {
                ".".join(end): Name(f"{called[end[0]]}.{end[1]}")
                for end in output.sources
                if end[0] in called
            }
            (cell, *_) = output.cells
            moved[f"{unit}.{output.port.name}"] = substitute(cell, ends)
            sources[unit, output.port.name] = [(called[u], p) for u, p in output.sources if u in called]
        notes.append(Note(unit, True, "its functions are part of the adaptation around it"))
        notes += [replace(note, unit=f"{unit}.{note.unit}") for note in flat.notes]
    origin = Origin(tuple(closed.units), {}, paths=paths)
    own = {port.name for port in around.adaptation.ports}
    outputs = tuple(
        output
        if output.port.name in own
        else replace(
            output,
            cells=tuple(substitute(cell, moved) for cell in output.cells),
            sources=tuple(new for end in output.sources for new in sources.get(end, [end])),
        )
        for output in closed.outputs
    )
    parts = Parts(units, closed.connections, closed.inputs, outputs)
    made = Scenario.from_parts(parts, closed.name, closed.opened_inputs, origin)
    master = replace(master, coupling=Adapting(around.adaptation, places))
    return Flat(master.arranged(made), master, tuple(notes))


def kept_nested(scenario: Scenario) -> Scenario:
    """The scenario, in which no nested one, at any depth, wants to be flattened.

    The blocks of adapted units stand between the others all the same: what is in them is none.
    """
    return scenario.with_units({name: _kept(model) for name, model in scenario.units.items()})


def _kept(model: Model) -> Model:
    if type(model) is Nested:
        return replace(model, scenario=kept_nested(model.scenario), flatten=False)
    if isinstance(model, Adapted):
        return replace(model, scenario=kept_nested(model.scenario))
    around = getattr(model, "around", None)  # a model around it that changes how it runs
    made: Model = model if around is None else around(_kept(model.model))  # type: ignore[attr-defined]
    return made


class _Flattening:
    def __init__(self, scenario: Scenario, master: Master, span: Span | None) -> None:
        self._work = ScenarioEditor(scenario)
        self._first = tuple(scenario.units)
        self._master = master
        self._span = span
        self._steps: dict[str, float] = {}  # of units that were inside nested ones
        self._rates: dict[str, int] = {}
        self._orders: list[tuple[str, ...]] = []  # of units that go one after the other
        self._in_turn: set[str] = set()  # all of those
        self._reactive: set[End] = set()
        self._ports: dict[str, dict[str, Approximation]] = {}  # by unit
        for name, chosen in master.ports.items():
            unit, port = split(name)
            self._ports.setdefault(unit, {})[port] = chosen
        self._turns = master.simultaneous.units(scenario)  # at one instant, in this order
        self._turns_inside: dict[str, list[str]] = {}  # … and those in the place of a unit
        self._notes: list[Note] = []
        self._warnings: list[str] = []

    def flat(self) -> Flat:
        # Blocks of adaptations are as if typed there: how events are dealt with is chosen when they are.
        self._replace(self._first, Adapted)
        self._settle()
        self._replace(self._work.units, Nested)
        scenario = self._work.scenario()
        coupling, plain = self._master.coupled, as_jacobi(self._master.coupled)
        if self._rates:
            assert isinstance(plain, Sequential)
            coupling = MultiRate(self._rates, plain.loops, slower="beside")
        elif self._orders:
            assert isinstance(plain, Sequential)
            coupling = Sequenced(UnitSequence(self._order(scenario), frozenset(self._reactive)), plain.loops)
        ports = {f"{u}.{port}": chosen for u, given in self._ports.items() for port, chosen in given.items()}
        warnings = (*self._master.warnings, *self._warnings)
        master = replace(self._master, coupling=coupling, ports=ports, warnings=warnings)
        if self._turns_inside:
            turns = tuple(unit for unit in self._all_turns() if unit not in scenario.added_units)
            master = replace(master, simultaneous=replace(master.simultaneous, order=turns))
        return Flat(master.arranged(scenario), master, tuple(self._notes))

    def _settle(self) -> None:
        """Leave nothing to be chosen in the master."""
        ports = {f"{u}.{port}": chosen for u, given in self._ports.items() for port, chosen in given.items()}
        scenario = self._work.scenario()
        master = replace(self._master, ports=ports)
        if self._turns_inside:
            turns = tuple(unit for unit in self._all_turns() if unit not in scenario.added_units)
            master = replace(master, simultaneous=replace(master.simultaneous, order=turns))
        self._master = master.settled(scenario)
        self._ports = {}
        for name, chosen in self._master.ports.items():
            unit, port = split(name)
            self._ports.setdefault(unit, {})[port] = chosen

    def _replace(self, units: Iterable[str], kind: type[Nested]) -> None:
        """Put what is inside nested units of one kind in their place."""
        waiting = [*reversed(tuple(units))]
        while waiting:
            unit = waiting.pop()
            model = self._work.units[unit]
            if type(model) is not kind:
                continue
            assert isinstance(model, Nested)
            path = self._work.path_of(unit)
            try:
                why, new = (
                    self._unfold(unit, model) if isinstance(model, Adapted) else self._merge(unit, model)
                )
            except (Kept, CannotInline) as reason:
                _check_inside(path, model)
                self._notes.append(Note(path, False, str(reason)))
                if model.adaptation is not None:
                    self._notes += [replace(n, unit=f"{path}.{n.unit}") for n in model.flat.notes]
            else:
                self._notes.append(Note(path, True, why))
                waiting += reversed(new)

    def _merge(self, unit: str, model: Nested) -> tuple[str, list[str]]:
        """Put the units inside in the place of `unit`; says how."""
        inner = model.master
        if model.adaptation is not None:
            return self._merge_adapted(unit, model)
        if any(Ability.NEXT_EVENT in m.abilities for m in model.whole.units.values()):
            return self._merge_events(unit, model)
        check_coupling(self._master.coupled, model, in_turn=unit in self._in_turn)
        rate, step = self._rate(unit, inner)
        in_turn = isinstance(inner.coupled, Sequential) and inner.coupled.in_turn
        what = "different rates" if rate > 1 else "Gauss-Seidel couplings" if in_turn else ""
        ports = approximations(self._master, self._ports.get(unit, {}), model, held=what)
        if in_turn and (rate > 1 or self._rates):
            raise Kept("its coupling is GaussSeidel, and rates can be merged only where all are Jacobi")
        sequence = _sequence_of(model)
        names = inline(self._work, unit, model.whole)
        self._ports.pop(unit, None)
        for (name, port), chosen in ports.items():
            self._ports.setdefault(names[name], {})[port] = chosen
        total = self._rates.pop(unit, 1) * rate
        for new in names.values():
            self._steps[new] = step
            if total > 1:
                self._rates[new] = total
        units = list(names.values())
        if sequence is not None:
            units = [names[name] for name in sequence.order]
            self._orders.append(tuple(units))
            self._in_turn.update(units)
            self._reactive |= {(names[name], port) for name, port in sequence.reactive}
        known = self._paths(units)
        if rate > 1:
            return f"its units make {rate} steps per communication step: {known}", units
        if sequence is not None:
            return f"its units run one after the other, in parallel with the others: {known}", units
        return f"its units run side by side with the others: {known}", units

    def _unfold(self, unit: str, model: Adapted) -> tuple[str, list[str]]:
        """Put an adapted unit and the blocks around it in its place, whatever the coupling: that is what an
        adaptation means."""
        _check_wish(model)
        coupling = self._master.coupled
        if mentions(self._master.pace, unit):
            raise Kept(f"the pace {self._master.pace} speaks of it")
        if mentions(coupling, unit) and not isinstance(coupling, NamesUnits):
            raise Kept(f"the coupling {type(coupling).__name__} speaks of it")
        inner = model.whole
        given, ports = self._ports.get(unit, {}), {}
        for connection in inner.connections:
            sources = [port if source == INPUTS else "" for source, port in connection.sources]
            if given.keys().isdisjoint(sources):
                continue
            trajectories = {given.get(port, self._master.approximated) for port in sources}
            if len(trajectories) > 1:
                different = f"the inputs that '{connection.target}' comes from have different approximations"
                self._warnings.append(
                    f"{self._work.path_of(unit)}: {different}, so it stays nested and takes their values at "
                    "communication points alone. Give these inputs one approximation (ports)"
                )
                raise Kept(different)
            ports[connection.unit, connection.port] = trajectories.pop()
        names = inline(self._work, unit, inner)
        self._ports.pop(unit, None)
        for end, chosen in model.approximations:
            block, port = split(end)
            self._ports.setdefault(names[block], {})[port] = chosen
        for (block, port), chosen in ports.items():
            self._ports.setdefault(names[block], {})[port] = chosen
        units = list(names.values())
        rate = self._rates.pop(unit, None)
        if rate is not None:
            self._rates.update(dict.fromkeys(units, rate))
        if isinstance(coupling, NamesUnits) and mentions(coupling, unit):
            several = coupling.with_several(unit, tuple(_ordered(inner, names)))
            self._master = replace(self._master, coupling=several)
        turns = [names[name] for name in model.master.simultaneous.units(inner)]
        if unit in self._turns:
            self._turns_inside[unit] = turns
        return (
            f"its blocks stand between the others as if they had been typed there: {self._paths(units)}",
            units,
        )

    def _merge_adapted(self, unit: str, model: Nested) -> tuple[str, list[str]]:
        """As `_merge`, for an adaptation that is mere arithmetic: it becomes connections."""
        _check_wish(model)
        inside = model.connected
        if inside is None:
            raise Kept("it has storage, rules or a control of its own, and is a program inside the unit")
        if any(port.reactive for port in model.scenario.inputs):
            raise Kept("its inputs are reactive, and those of the unit inside are not")
        given, ports = self._ports.get(unit, {}), {}
        for connection in inside.connections:
            chosen = {given.get(port, self._master.approximated) for _, port in connection.sources}
            if len(chosen) > 1:
                raise Kept(f"the inputs that '{connection.target}' comes from have different approximations")
            for one in chosen - {self._master.approximated}:
                ports[connection.port] = one
        inline(self._work, unit, inside, keep_name=True)
        self._ports.pop(unit, None)
        if ports:
            self._ports[unit] = ports
        return "its arithmetic is part of the connections of the unit inside", [unit]

    def _merge_events(self, unit: str, model: Nested) -> tuple[str, list[str]]:
        """As `_merge`, for discrete-event units."""
        check_discrete(model)
        inside = model.master.simultaneous.units(model.whole)
        names = inline(self._work, unit, model.whole)
        self._turns_inside[unit] = [names[name] for name in inside]
        units = list(names.values())
        return f"its units take turns with the others: {self._paths(units)}", units

    def _paths(self, units: list[str]) -> str:
        return ", ".join(map(self._work.path_of, units))

    def _all_turns(self) -> Iterator[str]:
        """The units that take turns, those from inside in the place of the unit that they were in."""
        waiting = [*reversed(self._turns)]
        while waiting:
            unit = waiting.pop()
            if unit in self._turns_inside:
                waiting += reversed(self._turns_inside[unit])
            else:
                yield unit

    def _order(self, scenario: Scenario) -> tuple[str, ...]:
        """All units, those that go one after the other in their order."""
        place = {unit: k for k, unit in enumerate(scenario.units)}
        first = {min(order, key=place.__getitem__): order for order in self._orders}
        later = self._in_turn - first.keys()
        return tuple(new for unit in scenario.units if unit not in later for new in first.get(unit, (unit,)))

    def _fed_back(self, unit: str) -> str | None:
        """An input of a unit that follows one of its own outputs; None if there is none."""
        return next((c.port for c in self._work.connections.reading(unit) if c.unit == unit), None)

    def _rate(self, unit: str, inner: Master) -> tuple[int, float]:
        """How many steps the inside makes while the unit makes one, and how long they are."""
        rate, step = _rate_of(self._master.pace, inner.pace, self._steps.get(unit))
        if rate == 1:
            return rate, step
        if own := self._fed_back(unit):
            raise Kept(
                f"it has a rate of its own, and its input '{own}' comes from its own outputs, which are "
                "exchanged outside less often than inside"
            )
        if self._orders:
            raise Kept("it has a rate of its own, and another nested scenario a GaussSeidel coupling")
        if self._rates:
            raise Kept(
                "another nested scenario has a rate of its own already, and the two exchange less often"
            )
        if not is_whole(self._span, self._master.pace):
            raise Kept("it has a rate of its own, and not all communication steps are of the same length")
        return rate, step


def _ordered(inner: Scenario, names: Mapping[str, str]) -> list[str]:
    """The units of an adapted one by their new names, in the order of what flows through them."""
    return [names[unit] for unit in unit_order(inner.closed()) if unit in names]


def _check_inside(path: str, model: Nested) -> None:
    """What stays nested must fit its own master; said before the run, as for the units around it."""
    try:
        model.check()
    except MasterError as error:
        raise MasterError(f"inside '{path}': {error}") from None
